"""scikit-learn's estimator contract: arrays of vectors or images, or lists of sentences."""

from collections.abc import Callable
from typing import Any

import numpy
import torch
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, column_or_1d, validate_data
from torch import Tensor

from agrlearn.data.arrays import objects_from_array
from agrlearn.data.labelled import LabelledSet
from agrlearn.data.text import Vocabulary
from agrlearn.errors import RecipeError
from agrlearn.grouping import first_tensor
from agrlearn.networks.aggregated import AggregatedClassifier
from agrlearn.networks.catalogue import build_network, default_network
from agrlearn.prediction.predict import predict
from agrlearn.prediction.protocols import PredictionProtocol, make_protocol, takes
from agrlearn.seeding import generator, seeded
from agrlearn.training.defaults import DEFAULT_RECIPE, GROUPS_RATE, default_fold, default_options
from agrlearn.training.loop import fit
from agrlearn.training.recipe import Recipe

_OF_RECIPE = (
    "epochs", "batch_size", "optimizer", "weight_decay", "schedule", "repetition", "label_smoothing",
    "alpha",
)  # fmt: skip


class AgrLearnClassifier(ClassifierMixin, BaseEstimator):
    """A classifier that classifies `fold` objects in one pass, for vectors, images or sentences.

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
            The defaults were chosen for an ordinary network on validation parts of small tables; groups pooled by max
            or mean learn three times as fast, by 0.003.
        protocol, draws: how to predict: replicated, batched or contextual.
        early_stopping: hold out `validation_fraction` of the training objects and keep the epoch with the best
            likelihood on them, stopping after `patience` epochs without a better one.
        random_state: an int makes fits repeatable.
        verbose: show a progress bar.

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
        epochs: int = 60,
        batch_size: int = 32,
        learning_rate: float | None = None,
        optimizer: str = "adamw",
        weight_decay: float = 0.1,
        schedule: str = "cosine",
        repetition: float = 0.0,
        label_smoothing: float = 0.0,
        protocol: str = "replicated",
        draws: int = 1,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        patience: int = 10,
        random_state: Any = None,
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
        self.random_state = random_state
        self.verbose = verbose

    vocabulary_: Vocabulary | None

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> "AgrLearnClassifier":
        """Train on objects `X` with labels `y`.

        Args:
            sample_weight: what each row's loss is multiplied by, after scaling to a mean of 1. Rows of weight 0 are
                left out. A weight of 2 is not a row that is there twice: that also makes an epoch longer. Early
                stopping measures all held-out rows alike.
        """
        if self.fold is not None and not isinstance(self.fold, int | numpy.integer):
            raise RecipeError(f"fold is the number of objects in a group, a whole number, got {self.fold!r}")
        objects = self._objects(X, y, training=True, sample_weight=sample_weight)
        check_classification_targets(y)
        self.classes_, numbers = numpy.unique(column_or_1d(y, warn=True), return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(f"Classifier can't train when only one class is present: {self.classes_[0]!r}.")
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        data = _weighted(objects, torch.from_numpy(numbers), tuple(map(str, self.classes_)), sample_weight)
        data = data.subset(_canonical_order(data))
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
        vectors = objects.ndim == 2 and self.vocabulary_ is None
        fold = min(default_fold(vectors=vectors) if self.fold is None else int(self.fold), len(train))
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
                objects=first_tensor(train.objects),
                **options,
            )  # fmt: skip
        if self._protocol().tells_slots_apart and self.network_.slot_blind and fold > 1:
            raise RecipeError(
                f"protocol={self.protocol!r} needs a network that tells the objects of a group apart, and this one is "
                "slot-blind; use protocol='replicated', or join='features' for vectors or network='sentence-lstm' for "
                "sentences"
            )
        rate = self.learning_rate
        if rate is None:
            pooled = fold > 1 and self.network_.slot_blind
            rate = DEFAULT_RECIPE.learning_rate * (GROUPS_RATE if pooled else 1)
        recipe = Recipe(
            **{name: getattr(self, name) for name in _OF_RECIPE}, learning_rate=rate, seed=seed,
            patience=self.patience if self.early_stopping else None,
        )  # fmt: skip
        self.history_ = fit(self.network_, train, recipe, held_out, progress=self.verbose)
        self.n_iter_ = len(self.history_.records)
        return self

    def predict_proba(self, X: Any) -> numpy.ndarray:
        """(objects, classes) probabilities, in the order of `classes_`."""
        check_is_fitted(self, "network_")
        objects = self._objects(X, training=False)
        return predict(self.network_, objects, self._protocol()).double().numpy()

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
        if _is_text(X):
            sentences = list(X)
            missing = next((number for number, sentence in enumerate(sentences) if not isinstance(sentence, str)), None)
            if missing is not None:
                raise ValueError(f"expected a sentence in every row, got {sentences[missing]!r} in row {missing}")
            if training:
                if y is None or len(y) != len(sentences):
                    raise ValueError(f"expected one label for each of {len(sentences)} sentences")
                self.vocabulary_ = _vocabulary(sentences, sample_weight)
                self.n_features_in_ = 1
            words = getattr(self, "vocabulary_", None)
            if words is None:
                raise ValueError("the classifier was trained on numbers and cannot predict sentences")
            return words.encode(sentences)
        if not training and getattr(self, "vocabulary_", None) is not None:
            raise ValueError("the classifier was trained on sentences; expected a list of strings")
        checks: dict[str, Any] = {"dtype": "numeric", "ensure_all_finite": True, "allow_nd": True}
        if training:
            self.vocabulary_ = None
            if y is None:
                raise ValueError("This AgrLearnClassifier estimator requires y to be passed, but the target y is None")
            X, _ = validate_data(self, X, y, **checks)
        else:
            X = validate_data(self, X, reset=False, **checks)
        return objects_from_array(X, origin="X")


def _is_text(X: Any) -> bool:
    return (isinstance(X, list | tuple) or getattr(X, "ndim", 0) == 1) and len(X) > 0 and isinstance(next(iter(X)), str)


def _vocabulary(sentences: list[str], sample_weight: Any) -> Vocabulary:
    """Of the rows that count, each different sentence once, so that neither order nor repetitions matter."""
    weights = _check_sample_weight(sample_weight, sentences, dtype=numpy.float64, ensure_non_negative=True)
    counted = {sentence for sentence, weight in zip(sentences, weights, strict=True) if weight > 0}
    return Vocabulary.of(sorted(counted or sentences))


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


def _canonical_order(data: LabelledSet) -> Tensor:
    """The rows in an order of their own, so that training does not depend on how they came."""
    rows = first_tensor(data.objects).flatten(1).numpy()
    keys = [] if data.weights is None else [data.weights.numpy()]
    return torch.from_numpy(numpy.lexsort([*keys, data.labels.numpy(), *rows.T[::-1]]).copy())
