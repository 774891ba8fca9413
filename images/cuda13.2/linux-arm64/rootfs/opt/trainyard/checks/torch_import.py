"""torch imports, computes, is the locked version, and comes from the image's own site-packages."""

from __future__ import annotations

import importlib.metadata
import sys
import time
from pathlib import Path

from _lib import fail, locked, need_torch, same


def run(claims: dict) -> dict:
    start = time.monotonic()
    torch = need_torch(claims)
    seconds = time.monotonic() - start
    claimed = locked(claims, "torch")
    # The default index's wheel is 2.15.0 and reports 2.15.0+cu132; elsewhere both say 2.15.0+xpu.
    found = torch.__version__ if "+" in claimed else torch.__version__.partition("+")[0]
    same("torch.__version__", found, claimed)
    same("the version of torch's metadata", importlib.metadata.version("torch"), claimed)
    where = Path(torch.__file__).resolve()
    if not where.is_relative_to(Path(sys.prefix).resolve()):
        fail(f"torch comes from {where}, outside {sys.prefix}")
    same("2 + 2", (torch.ones(3) + 1).sum().item(), 6.0)
    return {"version": torch.__version__, "file": str(where), "import_seconds": round(seconds, 3)}
