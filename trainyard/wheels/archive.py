"""One locked wheel: checked, then given out as the entries of a layer or as sources to compile."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from zipfile import ZipInfo

from trainyard.digest import CHUNK
from trainyard.errors import InputError
from trainyard.lock.model import LockedWheel
from trainyard.oci.entry import Entry
from trainyard.wheels.distinfo import DistInfo, Metadata, find_folder, read_dist_info
from trainyard.wheels.launchers import PLACEHOLDER, with_interpreter
from trainyard.wheels.placement import Placement, collisions
from trainyard.wheels.record import Row, format_record, parse_record, row_of
from trainyard.wheels.refusal import refusal
from trainyard.wheels.site import Site
from trainyard.wheels.verified import verified
from trainyard.wheels.zipped import ZipReader, executable

__all__ = ["Site", "WheelArchive"]

INSTALLER = b"trainyard\n"
# The environment belongs to group 0, and any uid in group 0 may install into it.
_MODE, _EXECUTABLE_MODE = 0o664, 0o775
_MAX_IN_MEMORY = 64 << 20  # bytes of a file that is read whole: RECORD, METADATA, a script, a source


@dataclass(frozen=True, slots=True, kw_only=True)
class _Checked:
    """A sound wheel: members by name, RECORD's rows, .dist-info, and member -> image path."""

    members: Mapping[str, ZipInfo]
    rows: Mapping[str, Row]
    dist_info: DistInfo
    targets: Mapping[str, str]
    placement: Placement


@dataclass(frozen=True, slots=True, kw_only=True)
class _File:
    """A file to install: from the zip (`info`) or made here (`data`); `row` is its line in the new RECORD."""

    path: str
    mode: int
    size: int
    row: Row
    info: ZipInfo | None = None
    data: bytes = b""


class WheelArchive:
    """A wheel file, read lazily: nothing is opened before the first question, and nothing flows unchecked."""

    def __init__(self, path: Path, locked: LockedWheel, site: Site) -> None:
        self._path = path
        self._locked = locked
        self._site = site

    def check(self) -> None:
        """Raise one InputError that names the wheel and everything in its structure that is wrong."""
        _ = self._checked

    @property
    def metadata(self) -> Metadata:
        """Name, version, licence and requirements as METADATA gives them."""
        return self._checked.dist_info.metadata

    def requires(self) -> tuple[str, ...]:
        """The Requires-Dist lines as written (PEP 508)."""
        return self.metadata.requires

    def entries(self, part: int = 0, parts: int = 1) -> Iterator[Entry]:
        """The installed files in order of their paths, or the `part`-th of `parts` runs of them.

        Runs are equal in content to within a file, cut between files only. The content of a file raises
        InputError before its last chunk if RECORD or the zip says otherwise.
        """
        if not 0 <= part < parts:
            raise ValueError(f"no part {part} of {parts}")
        total = sum(file.size for file in self._files)
        start = 0
        for file in self._files:
            middle = 2 * start + file.size
            start += file.size
            if min(parts - 1, middle * parts // (2 * total)) == part:
                yield self._entry(file)

    def sources(self) -> Iterator[tuple[str, bytes]]:
        """Image path and verified content of every .py below site-packages, in order of the paths."""
        below = f"{self._site.site_packages}/"
        for file in self._files:
            if file.info and file.path.endswith(".py") and file.path.startswith(below):
                yield file.path, self._whole(file.info, file.row)

    @cached_property
    def _reader(self) -> ZipReader:
        return ZipReader(self._path, self._locked)

    @cached_property
    def _checked(self) -> _Checked:
        members = {
            info.orig_filename: info for info in self._reader.members if not info.orig_filename.endswith("/")
        }
        problems = self._reader.problems()
        folder, wrong = find_folder(members, self._locked)
        problems += wrong
        try:
            checked, wrong = self._contents(members, folder) if folder else (None, [])
        except InputError:
            if not problems:
                raise
            raise refusal(self._locked, problems) from None
        problems += wrong
        if problems or checked is None:
            raise refusal(self._locked, problems)
        return checked

    def _contents(self, members: Mapping[str, ZipInfo], folder: str) -> tuple[_Checked, list[str]]:
        """What needs reading: RECORD, .dist-info and the places of files; and what is wrong there."""
        record = members.get(f"{folder}/RECORD")
        rows, problems = parse_record(self._whole(record, None)) if record else ({}, ["has no RECORD"])
        placement = Placement(site=self._site, folder=folder, name=self._locked.name)
        problems += _record_problems(members, rows, placement)

        def read(name: str) -> bytes | None:
            return self._whole(members[name], rows.get(name)) if name in members else None

        dist_info, wrong = read_dist_info(folder, read, self._locked)
        problems += wrong
        targets, wrong = placement.targets(members)
        problems += wrong
        launchers = [f"{self._site.scripts}/{command.name}" for command in dist_info.commands]
        problems += collisions([*targets.values(), *launchers])
        checked = _Checked(
            members=members, rows=rows, dist_info=dist_info, targets=targets, placement=placement
        )
        return checked, problems

    @cached_property
    def _files(self) -> tuple[_File, ...]:
        """Everything that is installed, sorted by path, RECORD included."""
        checked = self._checked
        files = [self._member(name, target) for name, target in checked.targets.items()]
        for command in checked.dist_info.commands:
            launcher = command.launcher(self._site.interpreter)
            files.append(self._made(f"{self._site.scripts}/{command.name}", launcher, mode=_EXECUTABLE_MODE))
        files.append(self._made(f"{checked.placement.dist_info}/INSTALLER", INSTALLER))
        record = f"{checked.placement.dist_info}/RECORD"
        rows = [*(file.row for file in files), Row(path=self._site.relative(record))]
        files.append(self._made(record, format_record(rows)))
        return tuple(sorted(files, key=lambda file: file.path))

    def _member(self, name: str, target: str) -> _File:
        info = self._checked.members[name]
        row = self._checked.rows.get(name, Row(path=name))
        script = self._checked.placement.is_script(name)
        mode = _EXECUTABLE_MODE if script or executable(info) else _MODE
        if script and b"".join(itertools.islice(self._reader.stream(info), 1)).startswith(PLACEHOLDER):
            script_text = with_interpreter(self._whole(info, row), self._site.interpreter)
            return self._made(target, script_text, mode=mode)
        relative = self._site.relative(target)
        installed = Row(path=relative, algorithm=row.algorithm, value=row.value, size=info.file_size)
        return _File(path=target, mode=mode, size=info.file_size, row=installed, info=info)

    def _made(self, path: str, data: bytes, *, mode: int = _MODE) -> _File:
        row = row_of(self._site.relative(path), data)
        return _File(path=path, mode=mode, size=len(data), row=row, data=data)

    def _entry(self, file: _File) -> Entry:
        content = self._stream(file.info, file.row) if file.info else _chunks(file.data)
        return Entry(
            path=file.path, mode=file.mode, size=file.size, content=content, origin=self._locked.requirement
        )

    def _stream(self, info: ZipInfo, row: Row | None) -> Iterator[bytes]:
        return verified(self._reader.stream(info), info, row, fail=lambda text: refusal(self._locked, [text]))

    def _whole(self, info: ZipInfo, row: Row | None) -> bytes:
        if info.file_size > _MAX_IN_MEMORY:
            raise refusal(self._locked, [f"{info.orig_filename!r} is {info.file_size} bytes long, too many"])
        return b"".join(self._stream(info, row))


def _chunks(data: bytes) -> Iterator[bytes]:
    return (data[start : start + CHUNK] for start in range(0, len(data), CHUNK))


def _record_problems(
    members: Mapping[str, ZipInfo], rows: Mapping[str, Row], placement: Placement
) -> list[str]:
    """Where RECORD and the zip file disagree about which files there are, and how long they are."""
    exempt = placement.record_exempt
    problems = []
    for name, info in members.items():
        row = rows.get(name)
        if row is None or not row.algorithm:
            if name not in exempt:
                problems.append(f"RECORD has no {'hash of' if row else 'line for'} {name!r}")
        elif name not in exempt and row.size is not None and row.size != info.file_size:
            problems.append(f"{name!r} is {info.file_size} bytes long, RECORD says {row.size}")
    missing = [name for name in rows if name not in members and name not in exempt]
    return problems + [f"RECORD lists {name!r}, which the wheel does not have" for name in missing]
