"""Tiny real .debs, made without dpkg: ar of debian-binary, control.tar and data.tar (deb(5))."""

from __future__ import annotations

import gzip
import hashlib
import io
import lzma
import tarfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path, PurePosixPath

import zstandard

MTIME = 1_700_000_000
COMPRESSORS: Mapping[str, Callable[[bytes], bytes]] = {
    "": lambda data: data,
    "gz": lambda data: gzip.compress(data, mtime=0),
    "xz": lambda data: lzma.compress(data),
    "zst": lambda data: zstandard.compress(data),
}


def build_deb(
    folder: Path,
    name: str,
    version: str,
    *,
    files: Mapping[str, bytes | str] | None = None,
    depends: str = "",
    scripts: Mapping[str, str] | None = None,
    conffiles: Sequence[str] = (),
    essential: bool = False,
    architecture: str = "amd64",
    directories: Sequence[str] = (),
    symlinks: Mapping[str, str] | None = None,
    hardlinks: Mapping[str, str] | None = None,
    modes: Mapping[str, int] | None = None,
    owners: Mapping[str, tuple[int, int]] | None = None,
    fields: Mapping[str, str] | None = None,
    control_files: Mapping[str, str] | None = None,
    members: Sequence[tuple[tarfile.TarInfo, bytes]] = (),
    compression: str = "xz",
) -> Path:
    """Write `<folder>/<name>_<version>_<architecture>.deb` and return its path.

    Paths are as in the image, with or without a leading slash; parents come by themselves. `scripts` are
    maintainer scripts (0755), `control_files` other members of control.tar (`triggers`, `shlibs`). `fields`
    adds to the control stanza or overrides it. `members` are appended to data.tar as they are, for hostile
    archives.
    """
    contents = {_bare(path): _bytes(data) for path, data in (files or {}).items()}
    data_tar = _data_tar(
        contents,
        directories=[_bare(path) for path in directories],
        symlinks={_bare(path): target for path, target in (symlinks or {}).items()},
        hardlinks={_bare(path): _bare(target) for path, target in (hardlinks or {}).items()},
        modes={_bare(path): mode for path, mode in (modes or {}).items()},
        owners={_bare(path): owner for path, owner in (owners or {}).items()},
        members=members,
    )
    stanza = {
        "Package": name,
        "Version": version,
        "Architecture": architecture,
        "Maintainer": "Nobody <nobody@example.org>",
        "Installed-Size": "1",
        "Essential": "yes" if essential else "",
        "Depends": depends,
        "Section": "misc",
        "Priority": "optional",
        "Description": f"test package {name}",
        **(fields or {}),
    }
    control = {
        "control": "".join(f"{key}: {value}\n" for key, value in stanza.items() if value),
        "md5sums": "".join(
            f"{hashlib.md5(data).hexdigest()}  {path}\n" for path, data in sorted(contents.items())
        ),
        "conffiles": "".join(f"/{_bare(path)}\n" for path in conffiles),
        **(control_files or {}),
    }
    control_tar = _control_tar({key: text for key, text in control.items() if text}, scripts or {})
    compress = COMPRESSORS[compression]
    suffix = f".tar.{compression}".rstrip(".")
    target = folder / f"{name}_{version.partition(':')[2] or version}_{architecture}.deb"
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(
        ar(
            {
                "debian-binary": b"2.0\n",
                f"control{suffix}": compress(control_tar),
                f"data{suffix}": compress(data_tar),
            }
        )
    )
    return target


def ar(members: Mapping[str, bytes]) -> bytes:
    """An ar archive (the common format, no long names) of those members in that order."""
    archive = bytearray(b"!<arch>\n")
    for name, data in members.items():
        archive += f"{name:<16}{MTIME:<12}{0:<6}{0:<6}{'100644':<8}{len(data):<10}`\n".encode()
        archive += data + b"\n" * (len(data) % 2)
    return bytes(archive)


def tar_member(
    name: str, *, kind: bytes = tarfile.REGTYPE, link: str = "", mode: int = 0o644, size: int = 0
) -> tarfile.TarInfo:
    """A raw member for `members`, its name and link kept exactly as given."""
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.mode, info.size, info.mtime = kind, link, mode, size, MTIME
    info.uname = info.gname = "root"
    return info


def _data_tar(
    contents: Mapping[str, bytes],
    *,
    directories: Sequence[str],
    symlinks: Mapping[str, str],
    hardlinks: Mapping[str, str],
    modes: Mapping[str, int],
    owners: Mapping[str, tuple[int, int]],
    members: Sequence[tuple[tarfile.TarInfo, bytes]],
) -> bytes:
    """The members as dpkg-deb orders them: sorted, parents first, hard links after the file they name."""
    leaves = [*contents, *symlinks, *hardlinks]
    folders = {str(parent) for path in leaves for parent in PurePosixPath(path).parents} | set(directories)
    folders |= {str(parent) for path in directories for parent in PurePosixPath(path).parents}
    infos: list[tuple[tarfile.TarInfo, bytes]] = []
    for path in sorted(folders | {"."}):
        name = "./" if path == "." else f"./{path}/"
        infos.append((tar_member(name, kind=tarfile.DIRTYPE, mode=modes.get(path, 0o755)), b""))
    for path, data in sorted(contents.items()):
        infos.append((tar_member(f"./{path}", mode=modes.get(path, 0o644), size=len(data)), data))
    for path, target in sorted(symlinks.items()):
        infos.append((tar_member(f"./{path}", kind=tarfile.SYMTYPE, link=target, mode=0o777), b""))
    infos.sort(key=lambda pair: pair[0].name)
    for path, target in sorted(hardlinks.items()):
        mode = modes.get(target, 0o644)
        infos.append((tar_member(f"./{path}", kind=tarfile.LNKTYPE, link=f"./{target}", mode=mode), b""))
    for info, _ in infos:
        info.uid, info.gid = owners.get(_bare(info.name), owners.get(_bare(info.linkname), (0, 0)))
    return _tar([*infos, *members])


def _control_tar(files: Mapping[str, str], scripts: Mapping[str, str]) -> bytes:
    infos = [(tar_member("./", kind=tarfile.DIRTYPE, mode=0o755), b"")]
    for path, text in sorted({**files, **scripts}.items()):
        mode = 0o755 if path in scripts else 0o644
        infos.append((tar_member(f"./{path}", mode=mode, size=len(text.encode())), text.encode()))
    return _tar(infos)


def _tar(members: Sequence[tuple[tarfile.TarInfo, bytes]]) -> bytes:
    """GNU tar, as dpkg-deb writes it; TarInfo by hand, since tarfile would clean up hostile names."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for info, data in members:
            archive.addfile(info, io.BytesIO(data))
    return stream.getvalue()


def _bare(path: str) -> str:
    return path.removeprefix(".").strip("/") if path.startswith("./") else path.strip("/")


def _bytes(data: bytes | str) -> bytes:
    return data.encode() if isinstance(data, str) else data
