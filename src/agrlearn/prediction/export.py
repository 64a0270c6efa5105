"""A trained network as an ONNX file that runs without this library."""

import json
import tempfile
import warnings
from collections.abc import Sequence
from pathlib import Path

import torch
from safetensors.torch import save as to_bytes
from torch import Tensor, nn

from agrlearn.errors import RunError
from agrlearn.files import resolve_output, write_output
from agrlearn.grouping import replicate
from agrlearn.modes import eval_view
from agrlearn.networks.aggregated import AggregatedClassifier
from agrlearn.networks.single import OneObject, single

_OPSET = 20
_TOLERANCE = 1e-4
_LARGEST_SINGLE_FILE = 1_900_000_000  # the limit of protobuf is 2 GiB


def export_weights(network: AggregatedClassifier, path: str | Path, class_names: Sequence[str] = ()) -> None:
    """Write the weights of `single(network)` as safetensors, with the names of the classes in the file's header."""
    # Copies, since the format refuses weights that two layers share.
    weights = {name: value.to("cpu", copy=True).contiguous() for name, value in single(network).state_dict().items()}
    write_output(Path(path), to_bytes(weights, metadata={"class_names": json.dumps(list(class_names))}))


def export_onnx(
    network: AggregatedClassifier, objects: Tensor, path: str | Path, *, groups: bool = False,
    class_names: Sequence[str] = (), origin: str = "",
) -> float:  # fmt: skip
    """Write `network` as ONNX and compare it with PyTorch on `objects`.

    The file's metadata has `class_names`, a JSON list, and `inputs`, a sentence.

    Args:
        objects: (objects, ...) to try it on, at least `fold` of them.
        groups: export the raw interface, (groups, fold, ...) -> (groups, fold, classes), instead of Replicated
            prediction, (objects, ...) -> (objects, classes).
        origin: how data become objects, for that sentence.
    Returns:
        The largest difference between a probability of onnxruntime and of PyTorch, over several batch sizes.
    """
    try:
        import onnxruntime
    except ImportError:
        raise RunError("the export needs onnx, onnxscript and onnxruntime: pip install 'agrlearn[onnx]'") from None
    view = eval_view(network)
    model = nn.Sequential(view if groups else OneObject(view), nn.Softmax(dim=-1)).eval()
    inputs = replicate(objects, network.fold) if groups else objects
    assert isinstance(inputs, Tensor)
    inputs = inputs.contiguous()
    path = resolve_output(Path(path))
    if path.exists() and not path.is_file():
        raise RunError(f"{path} is not a file; expected the name of a file to write the model to")
    path.parent.mkdir(parents=True, exist_ok=True)
    # In a folder of its own, because a large model has a second file; an existing model stays until all is well.
    with tempfile.TemporaryDirectory(prefix=".draft-", dir=path.parent) as folder:
        draft = Path(folder) / path.name
        name = "groups" if groups else "objects"
        dtype = str(inputs.dtype).removeprefix("torch.")
        shape = ", ".join([name, *map(str, inputs.shape[1:])])
        metadata = {"class_names": json.dumps(list(class_names)), "inputs": f"{dtype} of shape ({shape}){origin}"}
        _write(model, inputs, draft, name, metadata)
        session = onnxruntime.InferenceSession(str(draft), providers=["CPUExecutionProvider"])
        difference = 0.0
        for count in sorted({1, 2, len(inputs)}):
            [probabilities] = session.run(None, {session.get_inputs()[0].name: inputs[:count].numpy()})
            with torch.no_grad():
                expected = model(inputs[:count])
            difference = max(difference, float((expected - torch.from_numpy(probabilities)).abs().max()))
        if not difference <= _TOLERANCE:
            raise RunError(f"the ONNX model differs from PyTorch by {difference:.2g}, so it was not kept")
        for file in Path(folder).iterdir():
            file.replace(path.with_name(file.name))
    return difference


def _write(model: nn.Module, inputs: Tensor, path: Path, input_name: str, metadata: dict[str, str]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the exporter warns about the libraries it uses
        program = torch.onnx.export(
            model, (inputs[:2],), dynamo=True, opset_version=_OPSET, verbose=False, input_names=[input_name],
            output_names=["probabilities"], dynamic_shapes=({0: torch.export.Dim.DYNAMIC},),
        )  # fmt: skip
    assert program is not None
    program.model.metadata_props.update(metadata)
    size = sum(tensor.numel() * tensor.element_size() for tensor in model.state_dict().values())
    program.save(str(path), external_data=size > _LARGEST_SINGLE_FILE)
