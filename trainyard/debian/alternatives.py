"""update-alternatives' links and its files in /var/lib/dpkg/alternatives, all in automatic mode."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence

from trainyard.debian.archive import merged
from trainyard.debian.review import Alternative
from trainyard.oci.entry import Entry, file_entry, symlink_entry

_ETC = "etc/alternatives"


def alternative_entries(
    alternatives: Sequence[Alternative], *, exists: Callable[[str], bool]
) -> Iterator[Entry]:
    """The entries for all alternatives of an image; `exists` says whether it has a path.

    The highest priority wins. A slave whose file is not there (a manual page) has no link, as in Debian.
    """
    by_name = sorted(alternatives, key=lambda choice: (choice.name, choice.path))
    for name, group in itertools.groupby(by_name, key=lambda choice: choice.name):
        choices = list(group)
        best = max(choices, key=lambda choice: choice.priority)
        yield file_entry(f"var/lib/dpkg/alternatives/{name}", _state(choices).encode())
        for link, link_name, path in ((best.link, name, best.path), *best.slaves):
            if exists(merged(path.lstrip("/"))):
                yield symlink_entry(f"{_ETC}/{link_name}", path)
                yield symlink_entry(merged(link.lstrip("/")), f"/{_ETC}/{link_name}")


def _state(choices: Sequence[Alternative]) -> str:
    """One file of /var/lib/dpkg/alternatives: the group's links, then each choice with its slaves' files."""
    slaves = sorted({name: link for choice in choices for link, name, _ in choice.slaves}.items())
    lines = ["auto", choices[0].link]
    lines += [text for pair in slaves for text in pair]
    lines.append("")
    for choice in choices:
        paths = {name: path for _, name, path in choice.slaves}
        lines += [choice.path, str(choice.priority), *(paths.get(name, "") for name, _ in slaves)]
    return "\n".join([*lines, "", ""])
