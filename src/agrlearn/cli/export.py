"""agrlearn export"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor

    from agrlearn.networks.aggregated import AggregatedClassifier

_OBJECTS = 8


def export(run: Path, file: Path, /, *, groups: bool = False, network: str | None = None) -> None:
    """Write RUN's network to FILE as an ordinary one: an ONNX model, or the weights for PyTorch.

    The ONNX model is checked against PyTorch with onnxruntime. Its input is a batch of any number of objects, as they
    are in the data (of a table, the vectors that the preparation in run.json makes of its rows), and its output their
    label distributions by Replicated prediction. A .safetensors file holds the weights of agrlearn.single(network), for
    PyTorch without this library.

    Parameters
    ----------
    run
        The directory of a run. Of one that is not finished, the best epoch so far is used.
    file
        The file to write, such as model.onnx or model.safetensors.
    groups
        Export the raw interface instead: groups of fold objects in, a distribution for every slot out.
    network
        For a run whose network comes from a Python file: that file and function, which are run.
    """
    from agrlearn.errors import RecipeError, RunError
    from agrlearn.grouping import first_tensor
    from agrlearn.prediction.export import export_onnx, export_weights
    from agrlearn.runs.run import Run

    opened = Run.open(run, model=network)
    built = opened.network
    if file.suffix == ".safetensors":
        if groups:
            raise RecipeError("--groups is for ONNX models; a .safetensors file holds the network for single objects")
        export_weights(built, file, opened.class_names)
        print(f"{file}: {len(opened.class_names)} classes; safetensors.torch.load_file() reads it")
        return
    in_python = "agrlearn.prediction.export.export_onnx(network, objects, file) exports its network"
    try:
        objects = first_tensor(opened.training_objects(otherwise=in_python))[:_OBJECTS]
        tried_on = ""
    except RunError as error:
        made_up = _made_up(built, opened.data.dtype if opened.data else None)
        if made_up is None:
            raise
        objects = made_up
        tried_on = " on made-up objects"
        print(str(error).removesuffix(f"; {in_python}"))
    difference = export_onnx(built, objects, file, groups=groups)
    print(f"{file}: {len(opened.class_names)} classes, within {difference:.0e} of PyTorch{tried_on}")


def _made_up(network: "AggregatedClassifier", dtype: str | None) -> "Tensor | None":
    """Objects such as the network was trained on, as far as it is known; None where it could be bytes or fractions."""
    import torch

    from agrlearn.networks.catalogue import standardizers
    from agrlearn.networks.joins import PADDING
    from agrlearn.seeding import generator

    described: Any = network.description
    shape = (_OBJECTS, *described["object_shape"])
    if network.reads_tokens:
        # Of a network from outside, only the words that every vocabulary has are known.
        tokens = torch.randint(1, max(2, described.get("vocabulary", 2)), shape, generator=generator(0))
        for number, sentence in enumerate(tokens):
            sentence[..., shape[-1] - number % shape[-1] :] = PADDING
        return tokens
    if dtype not in ("uint8", "float32"):
        return None
    values = torch.randn(shape, generator=generator(0))
    for layer in standardizers(network)[:1]:
        if len(layer.mean) == shape[1]:
            channels = (-1, *[1] * (len(shape) - 2))
            values = layer.mean.view(channels) + layer.spread.view(channels) * values
    return values.round().clamp(0, 255).to(torch.uint8) if dtype == "uint8" else values
