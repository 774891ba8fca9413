"""What the image leaves out of every package, as dpkg does with path-exclude (dpkg.cfg(5)).

Translations, manuals and documents are 92 of 477 MB. The rules stand in the image too, so that dpkg applies
them to what a child image installs. dpkg would list what it did not unpack, and `dpkg --verify` call it
missing; our database lists what is there.
"""

from __future__ import annotations

from trainyard.oci.entry import Kind

CONFIG_PATH = "etc/dpkg/dpkg.cfg.d/trainyard"
CONFIG = """\
# The image ships no translations, no manuals, and of the documents only the licences.
path-exclude=/usr/share/locale/*
path-exclude=/usr/share/man/*
path-exclude=/usr/share/doc/*
path-include=/usr/share/doc/*/copyright
"""
_WHOLE = ("usr/share/locale/", "usr/share/man/")
_DOCUMENTS = "usr/share/doc/"


def excluded(path: str, kind: Kind) -> bool:
    """Whether dpkg would not unpack that path under CONFIG.

    dpkg keeps directories and symbolic links that begin like an include, so `doc/` keeps its folders.
    """
    if path.startswith(_WHOLE):
        return True
    is_document = path.startswith(_DOCUMENTS) and kind in (Kind.FILE, Kind.HARDLINK)
    return is_document and not path.endswith("/copyright")
