"""Products of 8-bit and 4-bit floats on any device, held against the exact product of the same numbers."""

from __future__ import annotations

from _lib import close

SIZE = 256
# of bfloat16, which the result is rounded to
TOLERANCE = 1e-2
# e2m1: sign, two bits of exponent, one of mantissa (OCP Microscaling Formats 1.0, section 5.3.3)
E2M1 = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
BLOCK = 16


def fp8(torch, device: str, formats) -> dict[str, float]:
    """float8 by float8 with one scale for each matrix; `formats` are pairs of dtype names."""
    functional = torch.nn.functional
    generator = torch.Generator().manual_seed(4)
    recipe = functional.ScalingType.TensorWise
    errors = {}
    for names in formats:
        left, right = (
            torch.randn(SIZE, SIZE, generator=generator).to(getattr(torch, name)) for name in names
        )
        scales = [torch.tensor(value) for value in (0.5, 4.0)]
        # The right matrix is column-major, as every implementation wants it.
        found = functional.scaled_mm(
            left.to(device),
            right.to(device).t(),
            scales[0].to(device),
            recipe,
            scales[1].to(device),
            recipe,
            output_dtype=torch.bfloat16,
        )
        wanted = (left.double() @ right.double().t()) * 2.0
        errors[" x ".join(names)] = close(f"matmul {' x '.join(names)}", found, wanted, tolerance=TOLERANCE)
    return errors


def nvfp4(torch, device: str) -> dict[str, float]:
    """e2m1 in blocks of 16 that share an e4m3 scale; scales are equal, so that their layout does not matter."""
    functional = torch.nn.functional
    recipe, swizzle = functional.ScalingType.BlockWise1x16, functional.SwizzleType.SWIZZLE_32_4_4
    left, left_packed = four_bit(torch, seed=5)
    right, right_packed = four_bit(torch, seed=6)
    scales = [
        torch.full((SIZE * SIZE // BLOCK,), value).to(torch.float8_e4m3fn).to(device) for value in (0.5, 4.0)
    ]
    found = functional.scaled_mm(
        left_packed.to(device),
        right_packed.to(device).t(),
        scales[0],
        recipe,
        scales[1],
        recipe,
        swizzle_a=swizzle,
        swizzle_b=swizzle,
        output_dtype=torch.bfloat16,
    )
    return {"nvfp4": close("matmul nvfp4", found, (left @ right.t()) * 2.0, tolerance=TOLERANCE)}


def four_bit(torch, *, seed: int):
    """Random e2m1 numbers, as float64 and packed two to a byte, the first in the lower half."""
    generator = torch.Generator().manual_seed(seed)
    codes = torch.randint(0, 16, (SIZE, SIZE), generator=generator, dtype=torch.uint8)
    table = torch.tensor([*E2M1, *(-value for value in E2M1)], dtype=torch.double)
    packed = codes[:, ::2] | (codes[:, 1::2] << 4)
    return table[codes.long()], packed.view(torch.float4_e2m1fn_x2)
