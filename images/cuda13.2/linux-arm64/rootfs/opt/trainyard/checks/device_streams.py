"""Two streams of the device work side by side, and each gives its own right values."""

from __future__ import annotations

from _devices import device_name, need_device
from _lib import close, need_torch, same

NEEDS = ("device",)
SIZE, ROUNDS = 256, 8
TOLERANCE = 1e-2


def run(claims: dict) -> dict:
    # Metal has them since torch 2.15.
    kind = need_device(claims, since=(2, 15))
    torch = need_torch(claims)
    return {"device": device_name(torch, kind), "errors": side_by_side(torch, kind)}


def side_by_side(torch, kind: str) -> dict[str, float]:
    """Chains of products on two streams, which a third one, the current, takes the results of."""
    module = torch.get_device_module(kind)
    generator = torch.Generator().manual_seed(9)
    starts = [torch.randn(SIZE, SIZE, generator=generator) / SIZE**0.5 for _ in range(2)]
    streams = [module.Stream() for _ in starts]
    same("the number of streams", len({stream.stream_id for stream in streams}), len(streams))
    inputs = [start.to(kind) for start in starts]
    module.synchronize()
    found = []
    for stream, value in zip(streams, inputs, strict=True):
        with module.stream(stream):
            same("the current stream", module.current_stream().stream_id, stream.stream_id)
            found.append(chain(value))
    for stream in streams:
        stream.synchronize()
    return {
        f"stream {number}": close(f"stream {number}", result, chain(start.double()), tolerance=TOLERANCE)
        for number, (result, start) in enumerate(zip(found, starts, strict=True))
    }


def chain(value):
    """Products that each need the one before."""
    result = value
    for _ in range(ROUNDS):
        result = result @ value
    return result
