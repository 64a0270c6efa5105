"""A trained network as an ONNX file that runs without this library."""

import warnings
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from agrlearn.errors import RunError
from agrlearn.grouping import replicate
from agrlearn.modes import evaluating
from agrlearn.networks.aggregated import AggregatedClassifier

_OPSET = 20
_TOLERANCE = 1e-4
_LARGEST_SINGLE_FILE = 1_900_000_000  # protobuf ends at 2 GiB


class ReplicatedModel(nn.Module):
    """Objects in, probabilities out: each object in every slot, the heads averaged."""

    def __init__(self, network: AggregatedClassifier) -> None:
        super().__init__()
        self.network = network

    def forward(self, objects: Tensor) -> Tensor:
        t = self.network.bottleneck_of_one(self.network.shared(objects))
        return self.network.heads(t).softmax(dim=-1).mean(dim=1)


class GroupModel(nn.Module):
    """Groups in, a distribution for every slot out."""

    def __init__(self, network: AggregatedClassifier) -> None:
        super().__init__()
        self.network = network

    def forward(self, groups: Tensor) -> Tensor:
        return self.network(groups).softmax(dim=-1)


def export_onnx(network: AggregatedClassifier, objects: Tensor, path: Path, *, groups: bool = False) -> float:
    """Write `network` as ONNX and compare it with PyTorch on `objects`.

    Args:
        objects: (objects, ...) to try it on, at least `fold` of them.
        groups: export the raw interface, (groups, fold, ...) -> (groups, fold, classes), instead of Replicated
            prediction, (objects, ...) -> (objects, classes).
    Returns:
        The largest difference between a probability of onnxruntime and of PyTorch, over several batch sizes.
    """
    try:
        import onnxruntime
    except ImportError:
        raise RunError("the export needs onnx, onnxscript and onnxruntime: pip install 'agrlearn[onnx]'") from None
    model = (GroupModel if groups else ReplicatedModel)(network)
    inputs = replicate(objects, network.fold) if groups else objects
    assert isinstance(inputs, Tensor)
    inputs = inputs.contiguous()
    with evaluating(model.modules()):
        _write(model, inputs, path, "groups" if groups else "objects")
        session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
        difference = 0.0
        for count in sorted({1, 2, len(inputs)}):
            [theirs] = session.run(None, {session.get_inputs()[0].name: inputs[:count].numpy()})
            with torch.no_grad():
                ours = model(inputs[:count])
            difference = max(difference, float((ours - torch.from_numpy(theirs)).abs().max()))
    if not difference <= _TOLERANCE:
        path.unlink(missing_ok=True)
        raise RunError(f"the ONNX model differs from PyTorch by {difference:.2g}, so it was not kept")
    return difference


def _write(model: nn.Module, inputs: Tensor, path: Path, input_name: str) -> None:
    names: dict[str, Any] = {
        "input_names": [input_name],
        "output_names": ["probabilities"],
        "dynamic_shapes": ({0: torch.export.Dim.DYNAMIC},),
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the exporter's own, about the libraries it uses
        program = torch.onnx.export(model, (inputs[:2],), dynamo=True, opset_version=_OPSET, verbose=False, **names)
    assert program is not None
    size = sum(tensor.numel() * tensor.element_size() for tensor in model.state_dict().values())
    program.save(str(path), external_data=size > _LARGEST_SINGLE_FILE)
