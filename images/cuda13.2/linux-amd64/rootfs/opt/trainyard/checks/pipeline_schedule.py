"""A pipeline of two stages on two ranks (1F1B): loss and gradients are those of the whole model."""

from __future__ import annotations

from _lib import close, need_torch
from _ranks import run_ranks

LIMIT = 150
WIDTH, BATCH, MICROBATCHES = 16, 32, 4
TOLERANCE = 1e-4


def run(claims: dict) -> dict:
    need_torch(claims, since=(2, 15))
    return {"ranks": run_ranks(2, "pipeline_schedule.py")}


def rank(here) -> dict:
    """One stage of it, beside the whole model on the same numbers."""
    import torch
    from torch.distributed.pipelining import PipelineStage, Schedule1F1B

    torch.manual_seed(11)
    stages = [
        torch.nn.Sequential(torch.nn.Linear(WIDTH, WIDTH), torch.nn.Tanh()).to(here.device)
        for _ in range(here.world)
    ]
    data, target = (torch.randn(BATCH, WIDTH).to(here.device) for _ in range(2))
    loss = torch.nn.functional.mse_loss(torch.nn.Sequential(*stages)(data), target)
    loss.backward()
    mine = stages[here.rank]
    wanted = [parameter.grad.clone() for parameter in mine.parameters()]
    mine.zero_grad()
    stage = PipelineStage(mine, here.rank, here.world, torch.device(here.device))
    schedule = Schedule1F1B(stage, MICROBATCHES, loss_fn=torch.nn.functional.mse_loss)
    losses: list = []
    last = here.rank == here.world - 1
    schedule.step(
        *([data] if here.rank == 0 else []), **({"target": target, "losses": losses} if last else {})
    )
    errors = {
        name: close(f"gradient of stage {here.rank}'s {name}", parameter.grad, gradient, tolerance=TOLERANCE)
        for (name, parameter), gradient in zip(mine.named_parameters(), wanted, strict=True)
    }
    if last:
        errors["loss"] = close("the loss", torch.stack(losses).mean(), loss, tolerance=TOLERANCE)
    return {"schedule": type(schedule).__name__, "errors": errors}
