"""Gradients summed over microbatches on any device: one call after another, or a captured graph replayed."""

from __future__ import annotations

WIDTH, BATCH, MICROBATCHES, WARM_UP = 64, 32, 4, 3


def model_and_data(torch, device: str):
    """A small model and the microbatches, the same each time."""
    torch.manual_seed(13)
    model = torch.nn.Sequential(torch.nn.Linear(WIDTH, WIDTH), torch.nn.Tanh(), torch.nn.Linear(WIDTH, WIDTH))
    return model.to(device), [torch.randn(BATCH, WIDTH).to(device) for _ in range(MICROBATCHES)]


def backward(model, batch) -> None:
    """One microbatch, added to the gradients."""
    (model(batch).square().mean() / MICROBATCHES).backward()


def clear(model) -> None:
    """Gradients that stay where they are: a graph writes to fixed addresses."""
    for parameter in model.parameters():
        parameter.grad.zero_()


def accumulate(torch, device: str):
    """The gradients of one step, microbatch after microbatch."""
    model, batches = model_and_data(torch, device)
    for batch in batches:
        backward(model, batch)
    return [parameter.grad.clone() for parameter in model.parameters()]


def replay(torch, device: str):
    """The same, by one graph that was captured once and is replayed for each microbatch."""
    module = getattr(torch, device.partition(":")[0])
    model, batches = model_and_data(torch, device)
    static = batches[0].clone()
    side = module.Stream()
    side.wait_stream(module.current_stream())
    with module.stream(side):
        for _ in range(WARM_UP):
            backward(model, static)
    module.current_stream().wait_stream(side)
    clear(model)
    graph = (module.CUDAGraph if hasattr(module, "CUDAGraph") else module.XPUGraph)()
    with module.graph(graph):
        backward(model, static)
    # Capturing runs nothing; gradients are still zero.
    for batch in batches:
        static.copy_(batch)
        graph.replay()
    module.synchronize()
    return [parameter.grad.clone() for parameter in model.parameters()]
