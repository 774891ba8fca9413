"""What the image leaves out of every package: translations, manuals, and documents but the licences.

That is 94 of 592 MB. dpkg's own way (path-exclude, dpkg.cfg(5)) lists what it did not unpack, and
`dpkg --verify` then calls it missing; our database lists what is there. Child images install
everything.
"""

from __future__ import annotations

from trainyard.oci.entry import Kind

# The same, for who has dpkg unpack: the judge in the tests.
DPKG_OPTIONS = (
    "path-exclude=/usr/share/locale/*",
    "path-exclude=/usr/share/man/*",
    "path-exclude=/usr/share/doc/*",
    "path-include=/usr/share/doc/*/copyright",
)
_WHOLE = ("usr/share/locale/", "usr/share/man/")
_DOCUMENTS = "usr/share/doc/"


def excluded(path: str, kind: Kind) -> bool:
    """Whether dpkg would not unpack that path under DPKG_OPTIONS.

    dpkg keeps directories and symbolic links that begin like an include, so `doc/` keeps its folders.
    """
    if path.startswith(_WHOLE):
        return True
    is_document = path.startswith(_DOCUMENTS) and kind in (Kind.FILE, Kind.HARDLINK)
    return is_document and not path.endswith("/copyright")
