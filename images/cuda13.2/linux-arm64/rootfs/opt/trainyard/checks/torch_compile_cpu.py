"""torch.compile works on the CPU from a cold cache, and its result is that of eager mode."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from pathlib import Path

from _lib import fail, need_torch

LIMIT = 300


def run(claims: dict) -> dict:
    with tempfile.TemporaryDirectory() as folder:
        # Read at import: a cache that the user filled would hide a missing compiler.
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = folder
        os.environ["TORCHINDUCTOR_FORCE_DISABLE_CACHES"] = "1"
        torch = need_torch(claims)
        torch.manual_seed(0)

        def model(x):
            return torch.nn.functional.softmax(torch.sin(x) * x + x.mean(dim=0), dim=-1).sum(dim=1)

        data = torch.randn(64, 128)
        wanted = model(data)
        start = time.monotonic()
        compiled = torch.compile(model, fullgraph=True)
        found = compiled(data)
        cold = time.monotonic() - start
        start = time.monotonic()
        compiled(data)
        warm = time.monotonic() - start
        if not torch.allclose(found, wanted, rtol=1e-4, atol=1e-5):
            error = (found - wanted).abs().max().item()
            fail(f"the compiled function is off by {error}", error=error)
        libraries = sorted(path.name for path in Path(folder).rglob("*.so"))
        if not libraries:
            fail("nothing was compiled", cache=[str(path) for path in Path(folder).rglob("*")][:50])
        compiler = os.environ.get("CXX", "g++")
        return {
            "cold_seconds": round(cold, 3),
            "warm_seconds": round(warm, 6),
            "libraries": len(libraries),
            "compiler": shutil.which(compiler),
        }
