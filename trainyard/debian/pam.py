"""/etc/pam.d/common-* as pam-auth-update makes them, for the one profile that the base has on: unix."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from trainyard.errors import InputError
from trainyard.oci.entry import Entry, file_entry

_PROFILES = "usr/share/pam-configs/"
_TEMPLATES = "usr/share/pam/"
# Stack in the template, facility in the profile, what the file is called, what its lines begin with.
_STACKS = (
    ("account", "Account", "account"),
    ("auth", "Auth", "auth"),
    ("password", "Password", "password"),
    ("session", "Session", "session"),
    ("session-noninteractive", "Session", "session"),
)
_VARIABLE = {"session-noninteractive": "session_nonint"}
_PERMIT = "[default=1]\t\t\tpam_permit.so"


def pam_entries(contents: Mapping[str, str]) -> Iterator[Entry]:
    """The stacks and pam-auth-update's own state in /var/lib/pam."""
    profiles = {
        path.removeprefix(_PROFILES): text for path, text in contents.items() if path.startswith(_PROFILES)
    }
    enabled = [name for name, text in profiles.items() if "\nDefault: yes\n" in text]
    if enabled != ["unix"]:
        raise InputError(
            f"PAM profiles {', '.join(sorted(enabled))} are on by default, and only `unix` is known here",
            hint="leave out the package that brings them, or teach trainyard/debian/pam.py",
        )
    unix = profiles["unix"]
    for stack, facility, word in _STACKS:
        # With one profile, its `success=end` jumps over the one fallback line.
        rule = _rule(unix, f"{facility}-Initial")
        is_primary = f"\n{facility}-Type: Primary\n" in unix
        line = f"{word}\t{rule.replace('end', '1', 1)}" + ("" if "\tpam_unix.so " in rule else " ")
        primary, additional = (line, None) if is_primary else (f"{word}\t{_PERMIT}", line)
        template = contents[f"{_TEMPLATES}common-{stack}"]
        yield file_entry(f"etc/pam.d/common-{stack}", _filled(template, stack, primary, additional))
        state = "" if is_primary else f"Module: null\n{_PERMIT}\n"
        yield file_entry(f"var/lib/pam/{stack}", f"{state}Module: unix\n{rule}\n".encode())
    others = sorted(set(profiles) - {"unix"})
    yield file_entry("var/lib/pam/seen", "".join(f"{name}\n" for name in ("unix", *others)).encode())


def _rule(profile: str, key: str) -> str:
    """The one line below `KEY:` in a profile."""
    _, _, rest = profile.partition(f"\n{key}:\n")
    return rest.partition("\n")[0].strip()


def _filled(template: str, stack: str, primary: str, additional: str | None) -> bytes:
    variable = _VARIABLE.get(stack, stack)
    text = template.replace(f"${variable}_primary\n", f"{primary}\n")
    return text.replace(f"${variable}_additional\n", f"{additional}\n" if additional else "").encode()
