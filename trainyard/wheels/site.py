"""Where the image's virtual environment keeps what wheels bring (sysconfig's `venv` scheme)."""

from __future__ import annotations

import re
from dataclasses import dataclass

_PREFIX = re.compile(r"[A-Za-z0-9._+-]+(?:/[A-Za-z0-9._+-]+)*")
_PYTHON = re.compile(r"3\.\d+")
_LONGEST_SHEBANG = 127  # what Linux before 5.1 reads of a `#!` line


@dataclass(frozen=True, slots=True)
class Site:
    """A virtual environment in the image: its prefix, without a leading slash, and its Python's `3.x`."""

    prefix: str = "opt/venv"
    python: str = "3.13"

    def __post_init__(self) -> None:
        if not _PREFIX.fullmatch(self.prefix) or ".." in self.prefix.split("/"):
            raise ValueError(f"not a prefix in the image: {self.prefix!r}")
        if not _PYTHON.fullmatch(self.python):
            raise ValueError(f"not a minor version of Python: {self.python!r}")
        if len(f"#!{self.interpreter}\n") > _LONGEST_SHEBANG:
            raise ValueError(f"too long for the first line of a script: {self.interpreter!r}")

    @property
    def site_packages(self) -> str:
        """Purelib and platlib, which are one folder in a virtual environment."""
        return f"{self.prefix}/lib/python{self.python}/site-packages"

    @property
    def scripts(self) -> str:
        """The folder that is first on PATH."""
        return f"{self.prefix}/bin"

    @property
    def data(self) -> str:
        """The root of the `data` scheme: the environment itself."""
        return self.prefix

    def headers(self, name: str) -> str:
        """The folder of one distribution's C headers."""
        return f"{self.prefix}/include/site/python{self.python}/{name}"

    def relative(self, path: str) -> str:
        """An image path below the prefix as RECORD has it: relative to site-packages."""
        inside = path.removeprefix(f"{self.prefix}/")
        packages = f"lib/python{self.python}/site-packages/"
        return inside.removeprefix(packages) if inside.startswith(packages) else f"../../../{inside}"

    @property
    def interpreter(self) -> str:
        """The absolute path that scripts name in their first line."""
        return f"/{self.prefix}/bin/python"
