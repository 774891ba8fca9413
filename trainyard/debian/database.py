"""/var/lib/dpkg for packages that dpkg never unpacked (dpkg(1), deb-triggers(5))."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from trainyard.debian.control import SCRIPTS, fields_of
from trainyard.debian.facts import DebFacts
from trainyard.debian.filters import excluded
from trainyard.oci.entry import Entry, Kind, directory_entry, file_entry
from trainyard.platforms import Platform

_ROOT = "var/lib/dpkg"


def database_entries(packages: Sequence[DebFacts], platform: Platform) -> Iterator[Entry]:
    """The whole of /var/lib/dpkg but alternatives: every package `install ok installed`."""
    ordered = sorted(packages, key=lambda package: package.name)
    yield from (directory_entry(f"{_ROOT}/{name}") for name in ("parts", "updates"))
    yield from (file_entry(f"{_ROOT}/{name}", b"") for name in ("available", "diversions", "statoverride"))
    architecture = f"{platform.arch}\n".encode()
    yield from (file_entry(f"{_ROOT}/{name}", architecture) for name in ("arch", "arch-native"))
    yield file_entry(f"{_ROOT}/status", _bytes("\n".join(_status(package) for package in ordered)))
    yield file_entry(f"{_ROOT}/info/format", b"1\n")
    for package in ordered:
        yield from _info_entries(package)
    yield from _trigger_entries(ordered)


def _status(package: DebFacts) -> str:
    """The stanza of /var/lib/dpkg/status: the control file with Status and Conffiles."""
    stanza = package.control.stanza
    name, _, rest = stanza.partition("\n")
    conffiles = [f" {path} {package.md5.get(path, 'newconffile')}" for path in package.control.conffiles]
    conffiles += [f" {path} newconffile remove-on-upgrade" for path in package.control.dropped_conffiles]
    lines = [name, "Status: install ok installed", rest.rstrip("\n")]
    if conffiles:
        lines += ["Conffiles:", *conffiles]
    return "\n".join([*lines, ""])


def _info_entries(package: DebFacts) -> Iterator[Entry]:
    owner = _qualified(package)
    yield file_entry(f"{_ROOT}/info/{owner}.list", _bytes("".join(f"{path}\n" for path in package.listed)))
    for name, text in sorted(package.control.files.items()):
        kept = _kept_sums(text) if name == "md5sums" else text
        mode = 0o755 if name in SCRIPTS else 0o644
        yield file_entry(f"{_ROOT}/info/{owner}.{name}", _bytes(kept), mode=mode)


def _qualified(package: DebFacts) -> str:
    """What dpkg calls a package in its files: with the architecture where several may be installed."""
    is_same = package.control.fields.get("Multi-Arch") == "same"
    return f"{package.name}:{package.architecture}" if is_same else package.name


def _kept_sums(text: str) -> str:
    """The lines of md5sums (`HEX  PATH`) for files that the image has."""
    lines = text.splitlines(keepends=True)
    return "".join(line for line in lines if not excluded(line.rstrip("\n")[34:], Kind.FILE))


def _trigger_entries(packages: Sequence[DebFacts]) -> Iterator[Entry]:
    """Who is interested in which trigger: paths in the file `File`, names in a file each."""
    paths: list[str] = []
    names: dict[str, list[str]] = {}
    for package in packages:
        for directive, trigger in package.control.triggers:
            if not directive.startswith("interest"):
                continue
            noawait = "/noawait" if directive.endswith("-noawait") else ""
            if trigger.startswith("/"):
                paths.append(f"{trigger} {_qualified(package)}{noawait}\n")
            else:
                names.setdefault(trigger, []).append(f"{_qualified(package)}{noawait}\n")
    yield file_entry(f"{_ROOT}/triggers/File", _bytes("".join(paths)))
    yield file_entry(f"{_ROOT}/triggers/Lock", b"", mode=0o600)
    yield file_entry(f"{_ROOT}/triggers/Unincorp", b"")
    for trigger, owners in sorted(names.items()):
        yield file_entry(f"{_ROOT}/triggers/{trigger}", _bytes("".join(owners)))


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def installed_packages(status: str) -> list[tuple[str, str]]:
    """(name, version) of the packages in a status file, in its order."""
    stanzas = (fields_of(stanza) for stanza in status.split("\n\n") if stanza.strip())
    return [(fields["Package"], fields["Version"]) for fields in stanzas]
