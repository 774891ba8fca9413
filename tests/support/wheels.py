"""Tiny real wheels, sound or broken on purpose.

    path = build_wheel(folder, name="demo", version="1.0", files={"demo/__init__.py": "x = 1\n"})
    archive = WheelArchive(path, locked(path), Site())

Everything has a default; what is broken is said by one argument (`record=`, `members=`, `metadata=`, ...).
"""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import stat
import struct
import zipfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from packaging.utils import canonicalize_name, parse_wheel_filename

from trainyard.lock.model import LockedWheel
from trainyard.wheels.archive import WheelArchive

# The earliest instant that zip can hold: a wheel built twice has the same bytes.
_ZIP_EPOCH = (1980, 1, 1, 0, 0, 0)
Content = str | bytes
Rows = list[tuple[str, str, str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A zip member as it is, outside RECORD: for links, devices, escapes, duplicates, odd compression."""

    name: str
    data: bytes = b""
    mode: int = stat.S_IFREG | 0o644
    compression: int = zipfile.ZIP_DEFLATED


def symlink_member(name: str, target: str) -> Member:
    """A symbolic link as zip stores it: the link's text as content, the type in the mode."""
    return Member(name=name, data=target.encode(), mode=stat.S_IFLNK | 0o777)


def record_hash(data: bytes, algorithm: str = "sha256") -> str:
    """`sha256=<URL-safe base64 without padding>`, as RECORD has it."""
    digest = hashlib.new(algorithm, data).digest()
    return f"{algorithm}={base64.urlsafe_b64encode(digest).decode().rstrip('=')}"


def build_wheel(
    folder: Path,
    *,
    name: str = "demo",
    version: str = "1.0",
    tag: str = "py3-none-any",
    files: Mapping[str, Content] | None = None,
    data: Mapping[str, Content] | None = None,
    entry_points: str = "",
    gui_scripts: str = "",
    requires: Iterable[str] = (),
    extra_metadata: str = "",
    metadata: str | None = None,
    wheel: str | None = None,
    dist_info: str | None = None,
    executable: Iterable[str] = (),
    record: Callable[[Rows], Rows] | None = None,
    omit: Iterable[str] = (),
    members: Sequence[Member] = (),
    compression: int = zipfile.ZIP_DEFLATED,
) -> Path:
    """Write `<name>-<version>-<tag>.whl` into `folder` and say where it is.

    `files` go to site-packages (default: one module named after the wheel), `data` below `.data/`, with names
    such as `scripts/tool`. `entry_points` and `gui_scripts` are the lines of [console_scripts] and
    [gui_scripts]. `executable` names members that get 0755. `record` changes the rows of a right RECORD.
    `omit` leaves members of .dist-info out (`"WHEEL"`). `metadata`, `wheel` and `dist_info` replace the
    text of METADATA, of WHEEL, and the folder's name; `members` come last, and are not in RECORD.
    """
    stem = f"{name.replace('-', '_')}-{version}"
    info = dist_info or f"{stem}.dist-info"
    contents = {
        path: _bytes(text) for path, text in (_default_files(name) if files is None else files).items()
    }
    contents |= {f"{stem}.data/{path}": _bytes(text) for path, text in (data or {}).items()}
    described = {
        "METADATA": metadata if metadata is not None else _metadata(name, version, requires, extra_metadata),
        "WHEEL": wheel if wheel is not None else _wheel(tag),
        "entry_points.txt": _entry_points(entry_points, gui_scripts),
    }
    left_out = set(omit)
    contents |= {
        f"{info}/{key}": _bytes(text) for key, text in described.items() if text and key not in left_out
    }
    rows = [(path, record_hash(content), str(len(content))) for path, content in contents.items()]
    rows.append((f"{info}/RECORD", "", ""))
    if "RECORD" not in left_out:
        contents[f"{info}/RECORD"] = _csv(record(rows) if record else rows)
    modes = {path: stat.S_IFREG | (0o755 if path in set(executable) else 0o644) for path in contents}
    written = [
        Member(name=path, data=content, mode=modes[path], compression=compression)
        for path, content in contents.items()
    ]
    path = folder / f"{stem}-{tag}.whl"
    write_zip(path, [*written, *members])
    return path


def write_zip(path: Path, members: Iterable[Member]) -> None:
    """A zip file of exactly these members in this order; duplicates and odd names are written as asked."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as archive:
        for member in members:
            info = zipfile.ZipInfo(member.name, date_time=_ZIP_EPOCH)
            info.filename = member.name  # ZipInfo cuts a name at NUL
            info.create_system = 3  # Unix, whatever the host is: external_attr holds a mode
            info.external_attr = member.mode << 16
            info.compress_type = member.compression
            with archive.open(info, "w") as stream:
                stream.write(member.data)


def locked(path: Path, *, name: str | None = None, version: str | None = None) -> LockedWheel:
    """What a lock says of this wheel file; `name` and `version` to make it say something else."""
    found, its_version, _, _ = parse_wheel_filename(path.name)
    content = path.read_bytes()
    return LockedWheel(
        name=canonicalize_name(name or found),
        version=version or str(its_version),
        sha256=hashlib.sha256(content).hexdigest(),
        size=len(content),
        filename=path.name,
    )


def installed(archive: WheelArchive) -> dict[str, tuple[int, bytes]]:
    """Image path -> (mode, content) of all that a wheel installs; each file yields the size it promised."""
    found = {}
    for entry in archive.entries():
        content = b"".join(entry.content)
        assert len(content) == entry.size, entry.path
        assert entry.path not in found, entry.path
        found[entry.path] = (entry.mode, content)
    return found


def forge(path: Path, member: str, **fields: int) -> Path:
    """Overwrite fields of a member's central directory header: flags, method, crc, compressed, size, mode."""
    layout = {
        "flags": (8, "H"),
        "method": (10, "H"),
        "crc": (16, "I"),
        "compressed": (20, "I"),
        "size": (24, "I"),
    }
    layout |= {"mode": (40, "H"), "offset": (42, "I")}
    data = bytearray(path.read_bytes())
    header = data.index(b"PK\1\2")
    while data[header + 46 : header + 46 + len(member)] != member.encode():
        header = data.index(b"PK\1\2", header + 4)
    for field, value in fields.items():
        offset, code = layout[field]
        struct.pack_into(f"<{code}", data, header + offset, value)
    path.write_bytes(data)
    return path


def replace_bytes(path: Path, old: bytes, new: bytes) -> Path:
    """Change content in place, in a wheel built with `compression=ZIP_STORED`; lengths must agree."""
    data = path.read_bytes()
    assert len(old) == len(new)
    assert data.count(old) == 1
    path.write_bytes(data.replace(old, new))
    return path


def _default_files(name: str) -> dict[str, Content]:
    return {f"{name.replace('-', '_')}/__init__.py": f'"""{name}."""\n'}


def _metadata(name: str, version: str, requires: Iterable[str], extra: str) -> str:
    lines = ["Metadata-Version: 2.4", f"Name: {name}", f"Version: {version}"]
    lines += [f"Requires-Dist: {requirement}" for requirement in requires]
    lines += extra.splitlines()
    return "\n".join(lines) + "\n"


def _wheel(tag: str) -> str:
    pure = "true" if tag.endswith("-any") else "false"
    return f"Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: {pure}\nTag: {tag}\n"


def _entry_points(console: str, gui: str) -> str:
    sections = (("console_scripts", console), ("gui_scripts", gui))
    return "".join(f"[{section}]\n{lines.strip()}\n" for section, lines in sections if lines)


def _csv(rows: Rows) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue().encode()


def _bytes(content: Content) -> bytes:
    return content.encode() if isinstance(content, str) else content
