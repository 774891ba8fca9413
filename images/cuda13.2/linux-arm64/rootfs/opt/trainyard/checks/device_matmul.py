"""On the device, products in every basic dtype and a convolution with its gradients agree with the CPU."""

from __future__ import annotations

from _devices import device_name, need_device
from _lib import need_torch, release
from _matmul import TOLERANCE, convolution, products, whole_numbers

NEEDS = ("device",)
# Metal has no float64.
WITHOUT = {"mps": {"float64"}}


def run(claims: dict) -> dict:
    kind = need_device(claims)
    torch = need_torch(claims)
    dtypes = [name for name in TOLERANCE if name not in WITHOUT.get(kind, ())]
    errors = products(torch, kind, dtypes) | convolution(torch, kind)
    # Metal multiplies whole numbers since 2.15.
    if kind != "mps" or release(torch.__version__)[:2] >= (2, 15):
        errors |= whole_numbers(torch, kind)
    return {"device": device_name(torch, kind), "errors": errors}
