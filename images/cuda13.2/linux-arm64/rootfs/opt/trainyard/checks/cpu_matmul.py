"""On the CPU, products in every basic dtype and a convolution with its gradients agree with float64."""

from __future__ import annotations

from _lib import need_torch
from _low_precision import fp8
from _matmul import TOLERANCE, convolution, products, whole_numbers


def run(claims: dict) -> dict:
    torch = need_torch(claims)
    errors = products(torch, "cpu", TOLERANCE) | convolution(torch, "cpu") | whole_numbers(torch, "cpu")
    if hasattr(torch.nn.functional, "scaled_mm"):
        errors |= fp8(torch, "cpu", [("float8_e4m3fn", "float8_e4m3fn"), ("float8_e5m2", "float8_e4m3fn")])
    return {
        "device": torch.backends.cpu.get_cpu_capability(),
        "threads": torch.get_num_threads(),
        "errors": errors,
    }
