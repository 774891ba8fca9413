"""The tar members of a .deb as bounded streams, whatever they are compressed with."""

from __future__ import annotations

import contextlib
import gzip
import io
import lzma
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, cast

import zstandard

from trainyard.debian.ar import ArMember, Window
from trainyard.errors import InputError

BROKEN = (lzma.LZMAError, zlib.error, gzip.BadGzipFile, zstandard.ZstdError, EOFError)


class Bounded:
    """Reads through to `stream`, and refuses more than `limit` bytes in all."""

    def __init__(self, stream: BinaryIO, limit: int) -> None:
        self._stream = stream
        self._left = limit

    def read(self, size: int) -> bytes:
        """Up to `size` bytes; InputError when the stream is longer than promised, or damaged."""
        try:
            data = self._stream.read(size)
        except BROKEN as error:
            raise InputError(f"cannot be decompressed: {error}") from None
        self._left -= len(data)
        if self._left < 0:
            raise InputError("unpacks to more than its limit")
        return data


@contextlib.contextmanager
def tar_stream(path: Path, member: ArMember, *, limit: int) -> Iterator[Bounded]:
    """The uncompressed tar of `control.tar.*` or `data.tar.*`; the suffix says how it is compressed."""
    with contextlib.ExitStack() as stack:
        raw = io.BufferedReader(stack.enter_context(Window(path, member)), 1 << 18)
        suffix = member.name.rpartition(".tar")[2]
        match suffix:
            case "":
                stream: object = raw
            case ".xz" | ".lzma":
                stream = stack.enter_context(lzma.LZMAFile(raw))
            case ".gz":
                stream = stack.enter_context(gzip.GzipFile(fileobj=raw))
            case ".zst":
                stream = zstandard.ZstdDecompressor().stream_reader(raw, read_across_frames=True)
            case _:
                raise InputError(f"{member.name} is compressed in a way that we cannot read")
        yield Bounded(cast("BinaryIO", stream), limit)
