"""scikit-learn's estimator contract: arrays of vectors or images, tables with gaps and words, or sentences."""

import warnings
from collections.abc import Callable, Mapping
from typing import Any, Literal

import numpy
import torch
from scipy.sparse import issparse
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, column_or_1d, validate_data
from torch import Tensor

from agrlearn.data.arrays import objects_from_array
from agrlearn.data.column_kinds import Kind, choose_kinds
from agrlearn.data.columns import Cells
from agrlearn.data.frames import (
    categories_in,
    cells_of_frame,
    cells_of_rows,
    has_words,
    is_frame,
    is_numeric,
    sentences_in,
)
from agrlearn.data.labelled import LabelledSet
from agrlearn.data.ordering import canonical_order
from agrlearn.data.preparation import TablePreparation
from agrlearn.data.prepared import Table, to_objects
from agrlearn.data.text import Vocabulary
from agrlearn.devices import DeviceName, engine_on
from agrlearn.errors import RecipeError, ShapeError
from agrlearn.grouping import first_tensor
from agrlearn.networks.aggregated import AggregatedClassifier
from agrlearn.networks.catalogue import build_network, default_network
from agrlearn.prediction.predict import predict
from agrlearn.prediction.protocols import PredictionProtocol, make_protocol, takes
from agrlearn.seeding import generator, seeded
from agrlearn.training.defaults import ObjectKind, complete_recipe, default_fold, default_options
from agrlearn.training.loop import fit

_OF_RECIPE = (
    "epochs", "batch_size", "learning_rate", "optimizer", "weight_decay", "schedule", "repetition", "label_smoothing",
    "alpha",
)  # fmt: skip


class AgrLearnClassifier(ClassifierMixin, BaseEstimator):
    """A classifier that classifies `fold` objects in one pass, for vectors, images, sentences or tables.

    Tables with gaps or words, as frames, arrays or lists of rows, become vectors as `agrlearn train` makes them: see
    `preparation_`. Numbers that a frame declares categorical are taken for words. A frame or array with a single column
    of texts is a list of sentences.
    Sparse matrices, such as those of TF-IDF, are not standardised.

    Training does not depend on the order of the rows. Replicated prediction, the default, treats each object alone;
    batched answers depend on the objects predicted together.

    Args:
        fold: objects per group, at most the number of training objects; 1 is an ordinary network. By default 2 for
            vectors and 1 for images and sentences, by the evidence.
        alpha: weight of the information penalty.
        network: a name in `NETWORKS`, or a function (object_shape, num_classes, fold) -> AggregatedClassifier; by
            default the one that fits the data.
        join: how a group becomes one, a name in `JOINS`; by default the network's own.
        dropout: the share of features that is dropped in training; by default 0.1 for vectors, and else the network's
            own.
        epochs, batch_size, learning_rate, optimizer, weight_decay, schedule, repetition, label_smoothing: see `Recipe`.
            The defaults were chosen on validation parts of small tables: AdamW, epochs by the number of objects (60 up
            to 5,000, fewer of sentences), a learning rate of 0.001, three times that for groups pooled by max or mean.
        protocol, draws: how to predict: replicated, batched or contextual.
        early_stopping: hold out `validation_fraction` of the training objects and keep the epoch with the best
            likelihood on them, stopping after `patience` epochs without a better one.
        class_weight: what the loss of each class is multiplied by, as a dict, or "balanced" for as much more as a class
            has fewer objects; beside `sample_weight`, both count.
        random_state: an int makes fits repeatable.
        device: what to train on: auto (a GPU if torch can use one), cpu, cuda or mps. The network stays there.
        verbose: show a progress bar, or lines in a notebook or a log.

    >>> from sklearn.datasets import load_iris
    >>> x, y = load_iris(return_X_y=True)
    >>> bool(AgrLearnClassifier(epochs=30, random_state=0).fit(x, y).score(x, y) > 0.9)
    True
    """

    def __init__(
        self,
        fold: int | None = None,
        alpha: float = 0.0,
        network: str | Callable[..., AggregatedClassifier] | None = None,
        *,
        join: str | None = None,
        dropout: float | None = None,
        epochs: int | None = None,
        batch_size: int = 32,
        learning_rate: float | None = None,
        optimizer: str = "adamw",
        weight_decay: float | None = None,
        schedule: str = "cosine",
        repetition: float = 0.0,
        label_smoothing: float = 0.0,
        protocol: str = "replicated",
        draws: int = 1,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        patience: int = 10,
        class_weight: Mapping[Any, float] | Literal["balanced"] | None = None,
        random_state: Any = None,
        device: DeviceName = "auto",
        verbose: bool = False,
    ) -> None:
        self.fold = fold
        self.alpha = alpha
        self.network = network
        self.join = join
        self.dropout = dropout
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.optimizer = optimizer
        self.weight_decay = weight_decay
        self.schedule = schedule
        self.repetition = repetition
        self.label_smoothing = label_smoothing
        self.protocol = protocol
        self.draws = draws
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.patience = patience
        self.class_weight = class_weight
        self.random_state = random_state
        self.device = device
        self.verbose = verbose

    vocabulary_: Vocabulary | None
    """Of sentences."""
    preparation_: TablePreparation | None
    """How rows with gaps or words become vectors."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = tags.input_tags.allow_nan = True
        return tags

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> "AgrLearnClassifier":
        """Train on objects `X` with labels `y`.

        Args:
            sample_weight: what each row's loss is multiplied by, after scaling to a mean of 1. Rows of weight 0 are
                left out. A weight of 2 is not a row that is there twice: that also makes an epoch longer. Early
                stopping measures all held-out rows alike.
        """
        if self.fold is not None and not isinstance(self.fold, int | numpy.integer):
            raise RecipeError(f"fold is the number of objects in a group, a whole number, got {self.fold!r}")
        engine = engine_on(self.device)
        objects = self._objects(X, y, training=True, sample_weight=sample_weight)
        check_classification_targets(y)
        self.classes_, numbers = numpy.unique(column_or_1d(y, warn=True), return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(f"Classifier can't train when only one class is present: {self.classes_[0]!r}.")
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        if self.class_weight is not None:
            classes = compute_sample_weight(self.class_weight, y)
            sample_weight = classes if sample_weight is None else classes * numpy.asarray(sample_weight)
        data = _weighted(objects, torch.from_numpy(numbers), tuple(map(str, self.classes_)), sample_weight)
        data = data.subset(canonical_order(data))
        train, held_out = data, None
        if self.early_stopping:
            if not 0 < self.validation_fraction < 1:
                raise RecipeError(f"validation_fraction is a share between 0 and 1, got {self.validation_fraction}")
            drawn = data.draw(self.validation_fraction, generator(seed))
            train, held_out = data.without(drawn), data.subset(drawn)
        # Only contextual prediction needs the training objects; without them the estimator stays small.
        self._context = first_tensor(train.objects) if takes(self.protocol, "context") else None
        self._protocol()  # one that cannot be had is refused before training
        shape = tuple(objects.shape[1:])
        self._object_type = str(objects.dtype).removeprefix("torch."), shape
        kind: ObjectKind = "sentences" if self.vocabulary_ is not None else "vectors" if objects.ndim == 2 else "images"
        fold = min(default_fold(kind) if self.fold is None else int(self.fold), len(train))
        if callable(self.network):
            with seeded(seed):
                self.network_ = self.network(shape, len(self.classes_), fold)
        else:
            name = self.network or default_network(shape, tokens=self.vocabulary_ is not None)
            given = {"join": self.join, "dropout": self.dropout}
            options = default_options(name) | {key: value for key, value in given.items() if value is not None}
            if self.vocabulary_ is not None:
                options["vocabulary"] = self.vocabulary_.size
            self.network_ = build_network(
                name, object_shape=shape, num_classes=len(self.classes_), fold=fold, seed=seed,
                objects=None if issparse(X) else first_tensor(train.objects), **options,
            )  # fmt: skip
        if self._protocol().tells_slots_apart and self.network_.slot_blind and fold > 1:
            raise RecipeError(
                f"protocol={self.protocol!r} needs a network that tells the objects of a group apart, and this one is "
                "slot-blind; use protocol='replicated', or join='features' for vectors or network='sentence-lstm' for "
                "sentences"
            )
        given = {name: value for name in _OF_RECIPE if (value := getattr(self, name)) is not None}
        given |= {"seed": seed, "patience": self.patience if self.early_stopping else None}
        pooled = fold > 1 and self.network_.slot_blind
        self.recipe_ = complete_recipe(given, kind, objects=len(train), pooled=pooled)
        self.history_ = fit(self.network_, train, self.recipe_, held_out, fabric=engine, progress=self.verbose)
        self.n_iter_ = len(self.history_.records)
        return self

    def predict_proba(self, X: Any) -> numpy.ndarray:
        """(objects, classes) probabilities, in the order of `classes_`."""
        check_is_fitted(self, "network_")
        objects = self._objects(X, training=False)
        given, expected = tuple(objects.shape[1:]), self._object_type[1]
        if self.vocabulary_ is None and given != expected:
            raise ShapeError(f"expected objects of shape {expected}, as in training, got {given}")
        probabilities = predict(self.network_, objects, self._protocol()).double()
        return (probabilities / probabilities.sum(dim=1, keepdim=True)).numpy()  # metrics warn about single precision

    def predict(self, X: Any) -> numpy.ndarray:
        """The most probable class of each object."""
        probabilities = self.predict_proba(X)
        return self.classes_[probabilities.argmax(axis=1)]

    def _protocol(self) -> PredictionProtocol:
        def context() -> Tensor:
            if self._context is None:
                raise RecipeError(f"it needs the training objects; fit with protocol={self.protocol!r}")
            return self._context

        return make_protocol(self.protocol, draws=self.draws, context=context)

    def _objects(self, X: Any, y: Any = None, *, training: bool, sample_weight: Any = None) -> Tensor:
        """The rows as the network takes them, checked as scikit-learn asks."""
        sentences = sentences_in(X)
        if training:
            self.vocabulary_ = self.preparation_ = None
            if y is None:
                raise ValueError("This AgrLearnClassifier estimator requires y to be passed, but the target y is None")
        elif (sentences is None) != (self.vocabulary_ is None):
            if sentences is None:
                raise ValueError("the classifier was trained on sentences; expected a list of strings")
            raise ValueError("the classifier was trained on numbers and cannot predict sentences")
        if sentences is not None:
            return self._tokens(sentences, y, training, sample_weight)
        mixed = not is_numeric(X) if is_frame(X) else has_words(X)
        if mixed if training else self.preparation_ is not None and (mixed or is_frame(X)):
            validate_data(self, X, reset=training, skip_check_array=True)
            cells = cells_of_frame(X) if is_frame(X) else cells_of_rows(X)
            kinds = choose_kinds(cells, None) if training else {}
            if training and is_frame(X):  # numbers that are declared categorical are names, such as a postal code
                kinds |= {name: Kind("words") for name in categories_in(X) if kinds[name].name == "number"}
            return self._prepared(cells, kinds, y, sample_weight)
        checks: dict[str, Any] = {
            "dtype": "numeric", "ensure_all_finite": "allow-nan", "allow_nd": True, "accept_sparse": "csr",
        }  # fmt: skip
        X = validate_data(self, X, y, **checks)[0] if training else validate_data(self, X, reset=False, **checks)
        if issparse(X):
            return objects_from_array(X.astype(numpy.float32).toarray(), origin="X")
        gaps = X.dtype.kind == "f" and X.ndim == 2 and bool(numpy.isnan(X).any())
        if self.preparation_ is not None or (training and gaps):
            names = getattr(self, "feature_names_in_", range(X.shape[1]))
            cells = {str(name): column.astype(numpy.float64) for name, column in zip(names, X.T, strict=True)}
            return self._prepared(cells, dict.fromkeys(cells, Kind("number")), y, sample_weight)
        if training and X.ndim == 2:
            self._medians = numpy.median(X, axis=0)
        return objects_from_array(numpy.where(numpy.isnan(X), self._medians, X) if gaps else X, origin="X")

    def _tokens(self, sentences: list[str], y: Any, training: bool, sample_weight: Any) -> Tensor:
        missing = next((number for number, sentence in enumerate(sentences) if not isinstance(sentence, str)), None)
        if missing is not None:
            raise ValueError(f"expected a sentence in every row, got {sentences[missing]!r} in row {missing}")
        if training:
            if len(y) != len(sentences):
                raise ValueError(f"expected one label for each of {len(sentences)} sentences")
            self.vocabulary_ = _vocabulary(sentences, sample_weight)
            self.n_features_in_ = 1
        assert self.vocabulary_ is not None
        return self.vocabulary_.encode(sentences)

    def _prepared(self, cells: Mapping[str, Cells], kinds: Mapping[str, Kind], y: Any, sample_weight: Any) -> Tensor:
        """The rows of a table as vectors; the first time, it is learned how."""
        if self.preparation_ is None:
            count = len(next(iter(cells.values())))
            if len(y) != count:
                raise ValueError(f"expected one label for each of {count} rows, got {len(y)}")
            left_out = [f"{name!r} ({kind.why})" for name, kind in kinds.items() if not kind.is_used]
            if len(left_out) == len(kinds):
                raise ValueError(f"there is no column to learn from: {', '.join(left_out)} are left out")
            if left_out:
                warnings.warn(f"left out: {', '.join(left_out)}", stacklevel=4)
            counted = _counted(sample_weight, range(count))
            self.preparation_ = Table(cells, kinds, None).learn(counted)
        problems = self.preparation_.check(cells)
        if problems:
            row = min(problems)
            raise ValueError(f"row {row}: {problems[row]}; fix it, or make it empty")
        return to_objects(self.preparation_.apply(cells))


def _vocabulary(sentences: list[str], sample_weight: Any) -> Vocabulary:
    """Of the rows that count, each different sentence once, so that neither order nor repetitions matter."""
    return Vocabulary.of(sorted({sentences[row] for row in _counted(sample_weight, sentences)}))


def _counted(sample_weight: Any, rows: Any) -> list[int]:
    """The rows of which the weight is not 0; all, if there is none."""
    weights = _check_sample_weight(sample_weight, numpy.zeros(len(rows)), dtype=numpy.float64, ensure_non_negative=True)
    return numpy.flatnonzero(weights).tolist() or list(range(len(rows)))


def _weighted(objects: Tensor, labels: Tensor, names: tuple[str, ...], sample_weight: Any) -> LabelledSet:
    """The rows that count, with weights of mean 1."""
    if sample_weight is None:
        return LabelledSet(objects, labels, names)
    weights = torch.from_numpy(
        _check_sample_weight(sample_weight, objects, dtype=numpy.float64, ensure_non_negative=True)
    )
    if float(weights.sum()) == 0:
        raise ValueError("Sample weights must contain at least one non-zero number.")
    kept = weights.nonzero().squeeze(1)
    return LabelledSet(objects[kept], labels[kept], names, (weights[kept] / weights[kept].mean()).float())
