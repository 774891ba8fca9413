"""A model is the same after state_dict, safetensors, torch.export and ONNX, and a pickle with code is refused."""

from __future__ import annotations

import os
import pickle
import tempfile
import warnings
from pathlib import Path

from _lib import close, fail, need_torch, need_wheels

LIMIT = 150
TOLERANCE = 1e-5


def run(claims: dict) -> dict:
    need_wheels(claims, "safetensors", "onnx", "onnxscript", "onnxruntime")
    torch = need_torch(claims)
    torch.manual_seed(5)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.GELU(), torch.nn.Linear(16, 4)).eval()
    data = torch.randn(3, 8)
    with tempfile.TemporaryDirectory() as name, torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        folder = Path(name)
        wanted = model(data)
        found = {
            "state_dict": state_dict(torch, model, folder)(data),
            "safetensors": safe_tensors(torch, model, folder)(data),
            "torch.export": exported(torch, model, data, folder)(data),
            "ONNX through onnxruntime": onnx(torch, model, data, folder),
        }
        refused(torch, folder)
    return {name: close(name, value, wanted, tolerance=TOLERANCE) for name, value in found.items()}


def twin(torch, state: dict):
    """A model of other weights that was given these."""
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.GELU(), torch.nn.Linear(16, 4)).eval()
    model.load_state_dict(state)
    return model


def state_dict(torch, model, folder: Path):
    """torch.save and torch.load, which reads plain tensors only."""
    torch.save(model.state_dict(), folder / "model.pt")
    return twin(torch, torch.load(folder / "model.pt"))


def safe_tensors(torch, model, folder: Path):
    """The format of model hubs."""
    from safetensors.torch import load_file, save_file

    save_file(model.state_dict(), folder / "model.safetensors")
    return twin(torch, load_file(folder / "model.safetensors"))


def exported(torch, model, data, folder: Path):
    """A graph for any batch size, read back from its file."""
    batch = torch.export.Dim("batch", min=2, max=64)
    program = torch.export.export(model, (data.repeat(2, 1),), dynamic_shapes=({0: batch},))
    torch.export.save(program, folder / "model.pt2")
    return torch.export.load(folder / "model.pt2").module()


def onnx(torch, model, data, folder: Path):
    """The exported model, run by another runtime."""
    import onnx
    import onnxruntime

    path = folder / "model.onnx"
    torch.onnx.export(model, (data,), str(path), dynamo=True, verbose=False)
    onnx.checker.check_model(str(path))
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    return torch.from_numpy(session.run(None, {session.get_inputs()[0].name: data.numpy()})[0])


class Payload:
    """A pickle that would call a function when it is loaded."""

    def __reduce__(self) -> tuple:
        return os.getpid, ()


def refused(torch, folder: Path) -> None:
    """torch.load must not run what a checkpoint says."""
    torch.save(Payload(), folder / "evil.pt")
    try:
        torch.load(folder / "evil.pt")
    except pickle.UnpicklingError:
        return
    fail("torch.load ran code out of a pickle")
