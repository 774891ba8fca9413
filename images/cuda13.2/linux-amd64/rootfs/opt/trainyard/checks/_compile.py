"""torch.compile of a training step on any device, from a cold cache, held against eager mode."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from pathlib import Path

from _lib import close, fail, need_torch

# A wrong kernel is off by more than this; the gradient of a softmax is a small difference of large float32 sums,
# whose order is the compiler's (3e-4 was seen on a CPU), and a GPU rounds products to TF32.
TOLERANCE = 1e-2
# What a compiler leaves: a library for the CPU; a kernel and its launcher for a GPU.
BUILT = {"cpu": (".so",), "cuda": (".cubin", ".hsaco"), "xpu": (".zebin", ".spv"), "mps": (".metal", ".py")}


def compile_step(claims: dict, kind: str) -> dict:
    """Loss and gradient of a small model, compiled; what was built, with what, and how long it took."""
    with tempfile.TemporaryDirectory() as folder:
        # Read at import: a cache that the user filled would hide a missing compiler.
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = f"{folder}/inductor"
        os.environ["TRITON_CACHE_DIR"] = f"{folder}/triton"
        torch = need_torch(claims)
        torch.manual_seed(0)
        data, weights = (torch.randn(64, 64).to(kind) for _ in range(2))

        def step(function):
            leaf = weights.clone().requires_grad_()
            loss = function(data, leaf)
            loss.backward()
            return loss.detach(), leaf.grad

        def model(x, w):
            return torch.nn.functional.softmax(torch.sin(x @ w) + x.mean(dim=0), dim=-1).square().sum()

        wanted = step(model)
        compiled = torch.compile(model, fullgraph=True)
        start = time.monotonic()
        found = step(compiled)
        cold = time.monotonic() - start
        start = time.monotonic()
        step(compiled)
        warm = time.monotonic() - start
        errors = {
            name: close(f"the compiled {name}", one, other, tolerance=TOLERANCE)
            for name, one, other in zip(("loss", "gradient"), found, wanted, strict=True)
        }
        files = [path for path in Path(folder).rglob("*") if path.is_file()]
        built = sorted({path.name for path in files if path.name.endswith(BUILT[kind])})
        if not built:
            fail("nothing was compiled", cache=sorted(path.name for path in files)[:50])
    return {
        "cold_seconds": round(cold, 3),
        "warm_seconds": round(warm, 6),
        "errors": errors,
        "built": len(built),
        "compiler": shutil.which(os.environ.get("CXX", "g++")),
    }
