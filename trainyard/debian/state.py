"""What Debian's maintainer scripts would have made, from the reviewed table and the packages' own files."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from trainyard.debian.accounts import account_entries
from trainyard.debian.alternatives import alternative_entries
from trainyard.debian.database import database_entries
from trainyard.debian.facts import DebFacts
from trainyard.debian.libraries import cache_entry
from trainyard.debian.pam import pam_entries
from trainyard.debian.review import Reviewed, Script, control_problems, scripts_of
from trainyard.errors import InputError, LockError
from trainyard.oci.directories import attributes_of
from trainyard.oci.entry import Entry, Kind, directory_entry, file_entry, symlink_entry
from trainyard.platforms import Platform

_CERTIFICATES = "usr/share/ca-certificates/"
# invoke-rc.d asks it before it starts a service.
_POLICY = b"#!/bin/sh\n# Images are built without an init system: no service is started.\nexit 101\n"
_ORIGIN = "Debian's configuration"
_EMPTY = ("home/trainyard",)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Base:
    """The packages together: paths with kind and link, carried files, and the scripts that count here."""

    packages: Sequence[DebFacts]
    platform: Platform
    members: Mapping[str, tuple[Kind, str]]
    contents: Mapping[str, str]
    scripts: Sequence[Script]

    def content(self, path: str) -> bytes:
        """A packaged file's bytes; InputError if no package has it."""
        try:
            return self.contents[path].encode("utf-8", "surrogateescape")
        except KeyError:
            raise InputError(
                f"no package of the base ships {path}, which a reviewed script copies",
                hint="`invoke lock`, then review the scripts it names in trainyard/debian/reviewed*.toml",
            ) from None


def state_entries(
    packages: Sequence[DebFacts], *, platform: Platform, sources: str, table: Reviewed
) -> Iterator[Entry]:
    """The state layer, sorted by path; `sources` is the text of apt's deb822 sources, `table` that of the suite.

    LockError for a package with unreviewed scripts, InputError where a package is of another architecture, or
    a file that an effect needs is missing.
    """
    _check(packages, platform, table)
    base = _Base(
        packages=packages,
        platform=platform,
        members={path: member for package in packages for path, member in package.members.items()},
        contents={path: text for package in packages for path, text in package.contents.items()},
        scripts=scripts_of([package.control for package in packages], table=table),
    )
    entries = [*_own_entries(sources), *database_entries(packages, platform), *_script_entries(base)]
    return (replace(entry, origin=_ORIGIN) for entry in sorted(entries, key=lambda entry: entry.path))


def _check(packages: Sequence[DebFacts], platform: Platform, table: Reviewed) -> None:
    found = [line for package in packages for line in control_problems(package.control, table=table)]
    if found:
        raise LockError(
            "\n".join(found),
            hint="read the scripts, add rows to trainyard/debian/reviewed*.toml, then `invoke lock`",
        )
    for package in packages:
        if package.architecture not in (platform.arch, "all"):
            raise InputError(
                f"{package.name}={package.version} is for {package.architecture}, the image for {platform}",
                hint="`invoke lock` writes the lock again",
            )


def _own_entries(sources: str) -> Iterator[Entry]:
    """What no package makes: apt's sources, the policy, and the user's home."""
    yield file_entry("etc/apt/sources.list.d/debian.sources", sources.encode())
    yield file_entry("usr/sbin/policy-rc.d", _POLICY, mode=0o755)
    yield from (_directory(path) for path in _EMPTY)


def _script_entries(base: _Base) -> Iterator[Entry]:
    alternatives = [choice for script in base.scripts for choice in script.alternatives]
    yield from alternative_entries(alternatives, exists=base.members.__contains__)
    for script in base.scripts:
        yield from (_directory(path) for path in script.directories)
        yield from (symlink_entry(path, link) for path, link in script.links.items())
        yield from (file_entry(path, base.content(source)) for path, source in script.copies.items())
        yield from (file_entry(path, text.encode()) for path, text in script.files.items())
        yield from (_touched(path, attributes) for path, attributes in script.touch.items())
        for effect in script.effects:
            yield from EFFECTS[effect](base)


def _directory(path: str) -> Entry:
    attributes = attributes_of(path)
    return directory_entry(path, mode=attributes.mode, uid=attributes.uid, gid=attributes.gid)


def _touched(path: str, attributes: str) -> Entry:
    """An empty file, from `MODE UID:GID`."""
    mode, _, owner = attributes.partition(" ")
    uid, _, gid = owner.partition(":")
    return file_entry(path, b"", mode=int(mode, 8), uid=int(uid), gid=int(gid))


def _accounts(base: _Base) -> Iterator[Entry]:
    return account_entries(base.contents, {name: gid for s in base.scripts for name, gid in s.groups.items()})


def _certificates(base: _Base) -> Iterator[Entry]:
    """Every certificate of the package is trusted, and in one bundle, in update-ca-certificates' order."""
    paths = sorted(path for path in base.contents if path.startswith(_CERTIFICATES) and path.endswith(".crt"))
    names = "".join(f"{path.removeprefix(_CERTIFICATES)}\n" for path in paths)
    yield file_entry("etc/ca-certificates.conf", names.encode())
    bundle = b"".join(base.content(path).removesuffix(b"\n") + b"\n" for path in paths)
    yield file_entry("etc/ssl/certs/ca-certificates.crt", bundle)


def _shells(base: _Base) -> Iterator[Entry]:
    """/etc/shells as update-shells makes it: the packages' shells, each also below /usr."""
    text = base.contents["usr/share/debianutils/shells"]
    shells = [line for line in text.splitlines() if line.startswith("/")]
    declared = sorted(path for path in base.contents if path.startswith("usr/share/debianutils/shells.d/"))
    lines = [*shells, *(line for path in declared for line in base.contents[path].splitlines() if line)]
    known: dict[str, None] = {}
    for line in lines:
        known[line] = None
        if line.startswith("/bin/"):
            known[f"/usr{line}"] = None
    listing = "".join(f"{line}\n" for line in known)
    yield file_entry("etc/shells", f"# /etc/shells: valid login shells\n{listing}".encode())
    yield file_entry("var/lib/shells.state", listing.encode())


def _ldconfig(base: _Base) -> Iterator[Entry]:
    yield cache_entry(base.packages, base.platform)


def _pam(base: _Base) -> Iterator[Entry]:
    return pam_entries(base.contents)


EFFECTS: Mapping[str, Callable[[_Base], Iterator[Entry]]] = {
    "accounts": _accounts,
    "certificates": _certificates,
    "ldconfig": _ldconfig,
    "pam": _pam,
    "shells": _shells,
}
