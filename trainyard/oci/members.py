"""What the layers of an image hold, and the conflicts that only show when all of them are seen together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from trainyard.errors import InputError
from trainyard.oci.entry import Entry, Kind


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """What a layer was given at one path, and by whom; parents that the writer added are not among them."""

    path: str
    kind: Kind
    mode: int
    uid: int
    gid: int
    link: str
    origin: str

    @classmethod
    def of(cls, entry: Entry) -> Member:
        """The member that an entry becomes."""
        return cls(
            path=entry.path,
            kind=entry.kind,
            mode=entry.mode,
            uid=entry.uid,
            gid=entry.gid,
            link=entry.link,
            origin=entry.origin,
        )

    def to_json(self) -> list[object]:
        """A JSON-able row."""
        return [self.path, self.kind.value, self.mode, self.uid, self.gid, self.link, self.origin]

    @classmethod
    def from_json(cls, row: object) -> Member:
        """The member of a row; ValueError for anything else."""
        match row:
            case [str(path), str(kind), int(mode), int(uid), int(gid), str(link), str(origin)]:
                return cls(path=path, kind=Kind(kind), mode=mode, uid=uid, gid=gid, link=link, origin=origin)
            case _:
                raise ValueError(f"not a member: {row!r}")

    def __str__(self) -> str:
        what = {
            Kind.FILE: "a file",
            Kind.DIRECTORY: "a directory",
            Kind.SYMLINK: f"a symlink to {self.link}",
            Kind.HARDLINK: f"a hard link to {self.link}",
        }
        return f"{self.path} ({what[self.kind]} of {self.origin or 'unknown origin'})"


def parents(path: str) -> Iterator[str]:
    """The directories above a path, nearest first: `a/b/c` -> `a/b`, `a`."""
    while path := path.rpartition("/")[0]:
        yield path


def check_image(layers: Sequence[Sequence[Member]]) -> None:
    """Refuse an image in which one member would hide or replace another; InputError lists every conflict.

    A path is owned by one file or link, whatever the layer; nothing lies below a file or a symlink (with
    /bin -> usr/bin in base-files, another package's bin/x would replace the link by a directory).
    """
    leaves: dict[str, Member] = {}
    directories: dict[str, Member] = {}
    problems: list[str] = []
    for member in (member for layer in layers for member in layer):
        if member.kind is Kind.DIRECTORY:
            directories.setdefault(member.path, member)
        elif (other := leaves.setdefault(member.path, member)) is not member:
            problems.append(f"two packages own one path: {other} and {member}")
    problems += [
        f"a directory and something else at one path: {directories[path]} and {leaf}"
        for path, leaf in leaves.items()
        if path in directories
    ]
    for member in (*leaves.values(), *directories.values()):
        problems += [
            f"{member} lies below {leaves[above]}" for above in parents(member.path) if above in leaves
        ]
    if problems:
        raise InputError(
            "\n  ".join(["the packages of this image do not fit together:", *problems]),
            hint="leave one of each two out in matrix.yaml, then run `invoke lock`",
        )
