"""Compiles Python sources, each in its own fork of a parent that never changes; runs in the image's Python.

What a compiler has seen before decides which constants are shared, and with that bytes of the .pyc
(marshal's FLAG_REF follows reference counts). So the parent reads nothing and compiles nothing: every file
meets the same interpreter, whatever was compiled before it.

Protocol, on stdin and stdout, one reply per request, integers big-endian:
    request  u32 length of the file name, u32 length of the source, name (UTF-8), source
    reply    `P` and a .pyc, or `F` and why the source does not compile (UTF-8); in between its length as u32
The end of stdin ends the server; a child that dies ends it too, with the same status.
"""

import _frozen_importlib_external as bootstrap
import _imp
import _signal  # type: ignore[import-not-found]  # `signal` brings enum, and more to fork
import gc
import os

REQUESTS, REPLIES, ERRORS = 0, 1, 2
END_OF_REQUESTS = 3  # a child's exit status


def compiled(name: str, source: bytes) -> bytes:
    """The .pyc that `import` would write for a source, but never compared with it (PEP 552, flags 0b01)."""
    code = compile(source, name, "exec", dont_inherit=True, optimize=-1)
    source_hash = _imp.source_hash(int.from_bytes(bootstrap.MAGIC_NUMBER, "little"), source)
    return bytes(bootstrap._code_to_hash_pyc(code, source_hash, False))  # type: ignore[attr-defined]


def reply_to(name: str, source: bytes) -> bytes:
    """The reply; a source that does not compile anywhere is an answer, an interpreter in trouble is not."""
    try:
        return framed(b"P", compiled(name, source))
    except (SyntaxError, ValueError, OverflowError, RecursionError) as error:
        return framed(b"F", f"{type(error).__name__}: {error}".encode("utf-8", "backslashreplace"))
    except MemoryError as error:
        if not error.args:  # really no memory; the parser's "too complex" comes with a text
            raise
        return framed(b"F", f"MemoryError: {error}".encode())


def framed(kind: bytes, body: bytes) -> bytes:
    """A reply as it goes over the pipe."""
    return kind + len(body).to_bytes(4, "big") + body


def read_exactly(size: int) -> bytes:
    """`size` bytes of stdin, fewer only at its end; unbuffered: what follows is for the next child."""
    parts = []
    while size and (part := os.read(REQUESTS, min(size, 1 << 20))):
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def serve_one() -> int:
    """Answer one request; the exit status of the child that did."""
    header = read_exactly(8)
    if len(header) < 8:
        return END_OF_REQUESTS
    name_size, source_size = int.from_bytes(header[:4], "big"), int.from_bytes(header[4:], "big")
    name, source = read_exactly(name_size), read_exactly(source_size)
    if len(name) + len(source) != name_size + source_size:
        return END_OF_REQUESTS  # whoever asked is gone
    reply = memoryview(reply_to(name.decode("utf-8", "surrogateescape"), source))
    while reply:
        reply = reply[os.write(REPLIES, reply) :]
    return 0


def serve() -> int:
    """One child per request, until the requests end; the exit status."""
    while True:
        child = os.fork()
        if child == 0:
            _signal.signal(_signal.SIGTERM, _signal.SIG_DFL)
            os._exit(serve_one())  # an exception leaves its traceback on stderr, and status 1
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if status == END_OF_REQUESTS:
            return 0
        if status:
            os.write(ERRORS, f"a compiling process ended with status {status}\n".encode())
            return 1


if __name__ == "__main__":
    gc.disable()  # a child lives for one file
    # Whoever stops us signals the whole group: the child dies, and we are there to reap it.
    _signal.signal(_signal.SIGTERM, _signal.SIG_IGN)
    raise SystemExit(serve())
