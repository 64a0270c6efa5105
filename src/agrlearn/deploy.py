"""A run, or a fitted estimator, as files that other programs run."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from agrlearn.errors import RecipeError, RunError
from agrlearn.files import resolve_output, write_output
from agrlearn.grouping import first_tensor
from agrlearn.networks.aggregated import AggregatedClassifier
from agrlearn.networks.catalogue import standardizers
from agrlearn.networks.joins import PADDING
from agrlearn.prediction.export import export_onnx, export_weights
from agrlearn.runs.run import Run
from agrlearn.seeding import generator

if TYPE_CHECKING:
    from agrlearn.sklearn import AgrLearnClassifier

_OBJECTS = 8
_IN_PYTHON = "agrlearn.prediction.export.export_onnx(network, objects, file) exports a network itself"


@dataclass(frozen=True)
class Export:
    """What `export` wrote; printed, it says so."""

    file: Path
    class_names: tuple[str, ...]
    preparation: Path | None
    """How rows, sentences or images become the model's input, as JSON; None if they were arrays already."""
    difference: float | None
    """Between a probability of onnxruntime and of PyTorch, the largest; None for weights."""
    remark: str = ""
    """Why the model was compared on made-up objects, where it was."""

    def __str__(self) -> str:
        compared = "safetensors.torch.load_file() reads it"
        if self.difference is not None:
            compared = f"within {self.difference:.0e} of PyTorch{' on made-up objects' if self.remark else ''}"
        lines = [self.remark] if self.remark else []
        lines.append(f"{self.file}: {len(self.class_names)} classes, named in the file; {compared}")
        if self.preparation is not None:
            lines.append(f"{self.preparation}: how your data become its input; `Deploy it` in the guide applies it")
        return "\n".join(lines)


def export(source: "str | Path | Run | AgrLearnClassifier", path: str | Path, *, groups: bool = False) -> Export:
    """Write the network of a run, or of a fitted `AgrLearnClassifier`, as an ordinary one that takes single objects.

    A file that ends in .safetensors holds the weights of `single(network)`. Any other is an ONNX model, which is
    compared with PyTorch first; it gives label distributions by Replicated prediction. Both name the classes. What
    becomes of rows with gaps and words, of sentences and of image files is written beside the file, as
    NAME.preparation.json.

    Args:
        source: the directory of a finished run, a `Run`, or a fitted classifier.
        path: the file to write.
        groups: for ONNX, groups of `fold` objects in and a distribution for every slot out.

    >>> import tempfile
    >>> from sklearn.datasets import load_iris
    >>> from agrlearn import AgrLearnClassifier
    >>> classifier = AgrLearnClassifier(epochs=2, random_state=0).fit(*load_iris(return_X_y=True))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     export(classifier, f"{folder}/model.safetensors").class_names
    ('0', '1', '2')
    """
    file = Path(path)
    given = Run.open(source) if isinstance(source, str | Path) else source
    subject = _of_run(given) if isinstance(given, Run) else _of_classifier(given)
    beside = file.with_suffix(".preparation.json") if subject.preparation else None
    difference, remark = None, ""
    if file.suffix == ".safetensors":
        if groups:
            raise RecipeError("groups are for ONNX models; a .safetensors file holds the network for single objects")
        export_weights(subject.network, file, subject.class_names)
    else:
        objects, remark = subject.objects()
        made = f", made as {beside.name} says" if beside else ""
        difference = export_onnx(
            subject.network, objects, file, groups=groups, class_names=subject.class_names, origin=made
        )
    if beside is not None:
        write_output(beside, json.dumps(subject.preparation, indent=1) + "\n")
    else:  # left by an earlier model of this name, of which it would be wrong
        resolve_output(file).with_suffix(".preparation.json").unlink(missing_ok=True)
    return Export(file, subject.class_names, beside, difference, remark)


@dataclass(frozen=True)
class _Subject:
    network: AggregatedClassifier
    class_names: tuple[str, ...]
    preparation: dict[str, Any]
    objects: Callable[[], tuple[Tensor, str]]
    """Some to try the model on, and if they are made up, why."""


def _of_run(run: Run) -> _Subject:
    def objects() -> tuple[Tensor, str]:
        try:
            return first_tensor(run.training_objects(otherwise=_IN_PYTHON))[:_OBJECTS], ""
        except RunError as error:
            described: Any = run.network.description
            dtype = "int64" if run.network.reads_tokens else run.data.dtype if run.data else ""
            if described is None:
                raise
            made_up = _made_up(run.network, tuple(described["object_shape"]), dtype, described.get("vocabulary", 2))
            if made_up is None:
                raise
            return made_up, str(error).removesuffix(f"; {_IN_PYTHON}")

    return _Subject(run.network, run.class_names, run.data.preparation if run.data else {}, objects)


def _of_classifier(classifier: "AgrLearnClassifier") -> _Subject:
    if isinstance(classifier, AggregatedClassifier):
        raise RecipeError(f"expected a run or a fitted AgrLearnClassifier, got a network; {_IN_PYTHON}")
    if not hasattr(classifier, "network_"):
        raise RecipeError(f"expected a run or a fitted AgrLearnClassifier, got {classifier!r}; fit it first")
    words, table = classifier.vocabulary_, classifier.preparation_
    preparation = words.preparation("text", None) if words else table.model_dump(mode="json") if table else {}

    def objects() -> tuple[Tensor, str]:
        dtype, shape = classifier._object_type
        made_up = _made_up(classifier.network_, shape, dtype, words.size if words else 2)
        assert made_up is not None
        return made_up, "An estimator does not keep its training data."

    return _Subject(classifier.network_, tuple(map(str, classifier.classes_)), preparation, objects)


def _made_up(
    network: AggregatedClassifier, object_shape: tuple[int, ...], dtype: str, vocabulary: int
) -> Tensor | None:
    """Objects such as the network was trained on; None for a type of which nothing can be made up.

    Args:
        vocabulary: different tokens; of a network from outside, only those that every vocabulary has are known.
    """
    shape = (_OBJECTS, *object_shape)
    if dtype == "int64":
        tokens = torch.randint(1, max(2, vocabulary), shape, generator=generator(0))
        for number, sentence in enumerate(tokens):
            sentence[..., shape[-1] - number % shape[-1] :] = PADDING
        return tokens
    if dtype not in ("uint8", "float32"):
        return None
    values = torch.randn(shape, generator=generator(0))
    for layer in standardizers(network)[:1]:
        if len(layer.mean) == shape[1]:
            channels = (-1, *[1] * (len(shape) - 2))
            values = (layer.mean.view(channels) + layer.spread.view(channels) * values.to(layer.mean.device)).cpu()
    return values.round().clamp(0, 255).to(torch.uint8) if dtype == "uint8" else values
