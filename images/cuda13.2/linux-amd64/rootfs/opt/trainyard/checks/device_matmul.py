"""Matrix products in each basic dtype and a convolution with its gradients agree with the CPU."""

from __future__ import annotations

from _lib import fail, need_device, need_torch

NEEDS = ("device",)
# Largest error against float64, as a share of the largest value; a few units in the last place of each dtype.
TOLERANCE = {"float32": 2e-3, "float16": 5e-3, "bfloat16": 4e-2}
SIZE = 512


def run(claims: dict) -> dict:
    kind = need_device(claims)
    torch = need_torch(claims)
    generator = torch.Generator().manual_seed(1)
    evidence = {"device": str(torch.accelerator.current_accelerator()), "errors": {}}
    if kind == "cuda":
        evidence["name"] = torch.cuda.get_device_name()
    for name, tolerance in TOLERANCE.items():
        dtype = getattr(torch, name)
        left, right = (torch.randn(SIZE, SIZE, generator=generator).to(dtype) for _ in range(2))
        wanted = left.double() @ right.double()
        found = (left.to(kind) @ right.to(kind)).cpu().double()
        compare(f"matmul {name}", found, wanted, tolerance, evidence["errors"])
    images, filters = (
        torch.randn(4, 8, 32, 32, generator=generator),
        torch.randn(16, 8, 3, 3, generator=generator),
    )
    wanted = gradients(torch, images.double(), filters.double())
    found = gradients(torch, images.to(kind), filters.to(kind))
    for part, one, other in zip(("output", "input gradient", "weight gradient"), found, wanted, strict=True):
        compare(f"conv2d {part}", one.cpu().double(), other, TOLERANCE["float32"], evidence["errors"])
    return evidence


def gradients(torch, images, filters):
    """Output and both gradients of a convolution."""
    images, filters = images.requires_grad_(), filters.requires_grad_()
    output = torch.nn.functional.conv2d(images, filters, padding=1)
    output.square().sum().backward()
    return output.detach(), images.grad, filters.grad


def compare(what, found, wanted, tolerance, errors) -> None:
    """Note the relative error, and fail when it is more than rounding."""
    error = ((found - wanted).abs().max() / wanted.abs().max()).item()
    errors[what] = error
    if not error <= tolerance:
        fail(f"{what}: relative error {error:.2g}, more than {tolerance:g}", errors=errors)
