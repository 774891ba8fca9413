"""Matrix products and a convolution on any device, held against float64 on the CPU."""

from __future__ import annotations

from _lib import close

# Largest error as a share of the largest value; a few units in the last place of each dtype, and TF32's for float32.
TOLERANCE = {
    "float64": 1e-12,
    "float32": 2e-3,
    "float16": 5e-3,
    "bfloat16": 4e-2,
    "complex64": 2e-3,
}
SIZE = 512


def products(torch, device: str, dtypes) -> dict[str, float]:
    """The relative error of a square product in each dtype."""
    generator = torch.Generator().manual_seed(1)
    errors = {}
    for name in dtypes:
        dtype = getattr(torch, name)
        left, right = (
            torch.randn(SIZE, SIZE, generator=generator, dtype=torch.double).to(dtype) for _ in range(2)
        )
        wide = torch.complex128 if dtype.is_complex else torch.double
        wanted, found = left.to(wide) @ right.to(wide), (left.to(device) @ right.to(device)).cpu().to(wide)
        if dtype.is_complex:
            wanted, found = torch.view_as_real(wanted), torch.view_as_real(found)
        errors[f"matmul {name}"] = close(f"matmul {name}", found, wanted, tolerance=TOLERANCE[name])
    return errors


def whole_numbers(torch, device: str) -> dict[str, float]:
    """int8 times int8 into int32, which must be exact."""
    generator = torch.Generator().manual_seed(2)
    left, right = (
        torch.randint(-128, 128, (SIZE, SIZE), generator=generator, dtype=torch.int8) for _ in range(2)
    )
    found = torch._int_mm(left.to(device), right.to(device))
    return {"matmul int8": close("matmul int8", found, left.double() @ right.double(), tolerance=0.0)}


def convolution(torch, device: str) -> dict[str, float]:
    """Output and both gradients of a convolution; what a missing or mixed-up cuDNN breaks first."""
    generator = torch.Generator().manual_seed(3)
    images = torch.randn(4, 8, 32, 32, generator=generator)
    filters = torch.randn(16, 8, 3, 3, generator=generator)
    wanted = gradients(torch, images.double(), filters.double())
    found = gradients(torch, images.to(device), filters.to(device))
    parts = ("output", "input gradient", "weight gradient")
    return {
        f"conv2d {part}": close(f"conv2d {part}", one, other, tolerance=TOLERANCE["float32"])
        for part, one, other in zip(parts, found, wanted, strict=True)
    }


def gradients(torch, images, filters):
    """Output and both gradients."""
    images, filters = images.requires_grad_(), filters.requires_grad_()
    output = torch.nn.functional.conv2d(images, filters, padding=1)
    output.square().sum().backward()
    return output.detach(), images.grad, filters.grad
