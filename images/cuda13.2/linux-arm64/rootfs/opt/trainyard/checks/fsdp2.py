"""FSDP2 on two ranks: bf16 weights, a norm that the policy keeps in fp32, gradients as on one process."""

from __future__ import annotations

from _lib import close, need_torch, same
from _ranks import run_ranks

LIMIT = 150
WIDTH, BATCH, MICROBATCHES = 32, 16, 2
RATE = 0.1
# of bfloat16: the same sums in another order
TOLERANCE = 2e-2


def run(claims: dict) -> dict:
    need_torch(claims, since=(2, 15))
    return {"ranks": run_ranks(2, "fsdp2.py")}


def make_model(torch, device: str):
    """Linear, LayerNorm, Linear; equal on every rank."""
    torch.manual_seed(7)

    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = torch.nn.Linear(WIDTH, WIDTH, bias=False)
            self.norm = torch.nn.LayerNorm(WIDTH)
            self.last = torch.nn.Linear(WIDTH, WIDTH, bias=False)

        def forward(self, x):
            x = self.first(x)
            return self.last(self.norm(x.float()).to(x.dtype))

    return Model().to(device)


def batches(torch, rank: int, device: str):
    """The inputs of one rank, by microbatch."""
    generator = torch.Generator().manual_seed(100 + rank)
    return [torch.randn(BATCH, WIDTH, generator=generator).to(device) for _ in range(MICROBATCHES)]


def reference(torch, model, world: int, device: str) -> None:
    """One step of SGD on one process with all ranks' batches; the model's weights stay fp32 and are cast."""
    functional = torch.nn.functional
    for rank in range(world):
        for batch in batches(torch, rank, device):
            x = functional.linear(batch.bfloat16(), model.first.weight.bfloat16())
            x = functional.layer_norm(x.float(), (WIDTH,), model.norm.weight, model.norm.bias)
            x = functional.linear(x.bfloat16(), model.last.weight.bfloat16())
            (x.float().square().mean() / world).backward()


def rank(here) -> dict:
    """The same step, sharded; gradients are summed over microbatches before they are reduced."""
    import torch
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    plain, model = (make_model(torch, here.device) for _ in range(2))
    reference(torch, plain, here.world, here.device)
    kept = {id(parameter) for parameter in model.norm.parameters()}
    policy = MixedPrecisionPolicy(
        param_dtype=torch.bfloat16,
        reduce_dtype=torch.float32,
        param_dtype_override_fn=lambda parameter: torch.float32 if id(parameter) in kept else None,
    )
    fully_shard(model, mp_policy=policy)
    seen = {}
    for name in ("first", "norm", "last"):
        getattr(model, name).register_forward_pre_hook(
            lambda module, _, name=name: seen.update({name: str(module.weight.dtype)})
        )
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
    for number, batch in enumerate(batches(torch, here.rank, here.device)):
        model.set_requires_gradient_sync(number == MICROBATCHES - 1)
        model(batch).float().square().mean().backward()
    errors = {}
    for (name, found), wanted in zip(model.named_parameters(), plain.parameters(), strict=True):
        same(f"the dtype of the shard of {name}", found.dtype, torch.float32)
        same(f"the shard of {name}", found.to_local().shape[0], wanted.shape[0] // here.world)
        errors[name] = close(
            f"gradient of {name}", found.grad.full_tensor(), wanted.grad, tolerance=TOLERANCE
        )
    optimizer.step()
    for (name, found), wanted in zip(model.named_parameters(), plain.parameters(), strict=True):
        stepped = wanted.detach() - RATE * wanted.grad
        close(f"{name} after a step", found.full_tensor(), stepped, tolerance=TOLERANCE)
    same(
        "the dtypes in forward",
        seen,
        {"first": "torch.bfloat16", "norm": "torch.float32", "last": "torch.bfloat16"},
    )
    return {"dtypes": seen, "errors": errors}
