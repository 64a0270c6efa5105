"""One run directory, opened again: its network, its classes, its data, and what they can be used for."""

import functools
import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from agrlearn.data.datasets import DATASETS, open_source
from agrlearn.data.direct_input import read_direct_input
from agrlearn.data.download import DownloadError, no_downloads
from agrlearn.data.frames import is_frame
from agrlearn.data.labelled import LabelledSet, label_names
from agrlearn.data.preparation import shape_of_objects
from agrlearn.data.sources import Part, Source
from agrlearn.data.streamed import Streamed, stream_table
from agrlearn.data.table_files import READERS, table_ending
from agrlearn.data.tables import prepare_frame
from agrlearn.errors import AgrLearnError, DataError, RecipeError, RunError
from agrlearn.evaluation.evaluate import Evaluation, evaluate
from agrlearn.files import NETWORK_FILE
from agrlearn.grouping import Objects, count_objects, first_tensor
from agrlearn.networks.aggregated import AggregatedClassifier
from agrlearn.networks.catalogue import SavedNetwork, read_saved
from agrlearn.networks.outside import is_outside, rebuild_outside
from agrlearn.prediction.predict import predict
from agrlearn.prediction.protocols import PredictionProtocol, make_protocol
from agrlearn.training.checkpoint import read_records, read_run, read_times
from agrlearn.training.history import EpochRecord
from agrlearn.training.identity import DataNote, Rows, RunFile


@dataclass(frozen=True)
class Run:
    """A run directory, finished or not, made by the command line or by `fit(run_dir=...)`.

    Args:
        path: the directory.
        about: its run.json.
        model: how its network is built, where it comes from a Python file (FILE.py:FUNCTION, which is run), or the
            network itself, with whatever weights, where it was built in Python.
        data_dir: the folder of published data sets; by default the one that the run was trained with.
    """

    path: Path
    about: RunFile
    model: str | AggregatedClassifier | None = None
    data_dir: Path | None = None

    @staticmethod
    def open(
        path: str | Path, *, model: str | AggregatedClassifier | None = None, data_dir: str | Path | None = None
    ) -> "Run":
        """The run in a directory. Nothing but its run.json is read before it is asked for."""
        return Run(Path(path), read_run(path), model, None if data_dir is None else Path(data_dir))

    @property
    def finished(self) -> bool:
        return (self.path / NETWORK_FILE).exists()

    @property
    def data(self) -> DataNote | None:
        """Where its data come from; None where that is not known."""
        return self.about.data

    @functools.cached_property
    def records(self) -> list[EpochRecord]:
        """Its epochs so far."""
        return read_records(self.path)

    @property
    def seconds(self) -> float:
        """Of training, so far."""
        return sum(read_times(self.path).values())

    @property
    def class_names(self) -> tuple[str, ...]:
        return self._opened[1]

    @property
    def network(self) -> AggregatedClassifier:
        """The trained network. Of a run that is not finished, that of the best epoch so far, with a warning."""
        return self._opened[0]

    @functools.cached_property
    def _opened(self) -> tuple[AggregatedClassifier, tuple[str, ...]]:
        """The network and the names of its classes."""
        if self.finished:
            saved = read_saved(self.path / NETWORK_FILE)
        else:
            from agrlearn.runs.unfinished import read_unfinished  # what trains takes long to import

            saved = read_unfinished(self.path, self.about)
        network = self._build(saved)
        # A Dataset of the user's own, trained on in Python, need not name its classes.
        names = saved.class_names or tuple(str(number) for number in range(network.num_classes))
        if len(names) != network.num_classes:
            raise RunError(
                f"{saved.path} names {len(names)} classes of a network of {network.num_classes}; train it again"
            )
        return network, names

    def _build(self, saved: SavedNetwork) -> AggregatedClassifier:
        model, described = self.model, saved.description
        if isinstance(model, AggregatedClassifier):
            return saved.build(model)
        if model is None or (described and model == described["network"] and not is_outside(model)):
            return saved.build()
        if described is None:
            raise RunError(f"{self.path} holds a network that was built in Python; Run.open(path, model=...) takes it")
        if not is_outside(model):
            raise RecipeError(
                f"the network of {self.path} is {described['network']}, not {model}; --network is only needed for one "
                "that comes from a Python file, as FILE.py:FUNCTION"
            )
        options = {key: value for key, value in described.items() if key not in ("network", "object_shape")}
        return saved.build(rebuild_outside(model, object_shape=tuple(described["object_shape"]), **options))

    def read(self, data: str, *, skip_bad: bool = False, labels: bool = True) -> Source:
        """Data for the network: a data set by name, or a file or folder, whose raw contents become objects as the
        training data did.

        Args:
            skip_bad: leave out what cannot be read.
            labels: False reads the objects alone.
        """
        note = self.data
        preparation = note.preparation if note else None
        self._check_preparation(preparation or {})
        opened = functools.partial(open_source, data, preparation=preparation, skip_bad=skip_bad, labels=labels)
        before = note.data_dir if note else None
        if self.data_dir is None and before is not None and Path(before).is_dir():
            try:
                # A stranger's run may name any folder: what lies there is read, but nothing is written there.
                with no_downloads():
                    return opened(data_dir=before)
            except DownloadError:
                pass
        source = opened(data_dir=self.data_dir)
        if note is None and source.preparation.get("kind") == "text" and data not in DATASETS:
            # Numbered by these sentences, the words would be others to the network.
            raise RunError(
                f"{self.path} was made in Python and does not tell its words, without which the sentences of {data} "
                "mean nothing to its network; predict in Python, with the Vocabulary that it was trained with"
            )
        return source

    def _read_frame(self, frame: Any) -> Source:
        """The rows of a data frame, as the rows of the training table became objects."""
        preparation = self.data.preparation if self.data else {}
        if preparation.get("kind") not in ("text", "table"):
            raise DataError(f"{self.path} was not trained on a table, so it cannot predict a data frame")
        self._check_preparation(preparation)
        return prepare_frame(frame, preparation)

    def _check_preparation(self, preparation: dict[str, Any]) -> None:
        """Refuse a run whose data do not become what its network takes, before anything is read or made."""
        described: Any = self.network.description
        made = shape_of_objects(preparation)
        if made is not None and described is not None and made != tuple(described["object_shape"]):
            raise RunError(
                f"{self.path} makes objects of shape {made} of its data, but its network takes shape "
                f"{tuple(described['object_shape'])}; train it again"
            )

    def check_objects(self, objects: Objects, name: str) -> None:
        """Refuse objects that do not have the shape, or are not of the kind, that the network was trained on."""
        described: Any = self.network.description
        if described is None:
            return
        tensor = first_tensor(objects)
        expected, came = tuple(described["object_shape"]), tuple(tensor.shape[1:])
        if expected != came:
            raise DataError(f"{name} holds objects of shape {came}, the network was trained on shape {expected}")
        sentences = tensor.dtype == torch.int64
        if sentences != self.network.reads_tokens:
            kinds = ("sentences", "numbers") if sentences else ("numbers", "sentences")
            raise DataError(
                f"{name} holds {kinds[0]}, the network was trained on {kinds[1]}; give it that kind of data"
            )

    def unseen(self, data: Any, *, skip_bad: bool = False) -> tuple[Part, Source]:
        """The objects of some data to predict: its test part, or all of it.

        Labels do not matter. They are returned as texts, whole or not; None where none of them is one of the classes.

        Args:
            data: as for `predict`.
        """
        streamed = None if is_frame(data) else self.stream(data, skip_bad=skip_bad)
        if streamed is not None:
            part = streamed.whole()
            return part, replace(streamed.source, train=part)
        if is_frame(data):
            source = self._read_frame(data)
        else:
            preparation = self.data.preparation if self.data else {}
            self._check_preparation(preparation)
            direct = read_direct_input(data, preparation, skip_bad=skip_bad)
            source = direct or self.read(data, skip_bad=skip_bad, labels=False)
        self.check_objects(source.unseen.objects, source.name)
        labels = None if source.unseen.labels is None else label_names(source.unseen.labels)
        known = labels is not None and not set(labels).isdisjoint(self.class_names)
        return replace(source.unseen, labels=labels if known else None), source

    def stream(self, data: str, *, skip_bad: bool = False) -> Streamed | None:
        """The rows of a table to predict, which are not held in memory; None if the data are no table of columns.

        Args:
            data: as for `predict`.
        """
        preparation = self.data.preparation if self.data else {}
        path = Path(data)
        is_table = data not in DATASETS and table_ending(path) in READERS and path.is_file()
        if not is_table or preparation.get("kind") != "table":
            return None
        self._check_preparation(preparation)
        streamed = stream_table(path, preparation, self.class_names, skip_bad=skip_bad)
        self.check_objects(streamed.source.train.objects, streamed.source.name)
        return streamed

    def to_measure(self, source: Source, *, strict: bool = False) -> tuple[LabelledSet, str]:
        """What of a source to measure on: its test part or all of it, but of the run's own data what it held out.

        Args:
            strict: refuse objects that the run may have been trained on, instead of saying so.
        Returns:
            The labelled objects, and what they are, for a person to read.
        """
        self.check_objects(source.unseen.objects, source.name)
        labelled = source.labelled(source.unseen, self.class_names)
        name = f"{len(labelled):,} objects of {source.name}"
        # A test part that was drawn from all objects is not the source's own, of which the run has seen some.
        drawn = self.data is not None and self.data.held_out is not None and self.data.held_out.part == "all"
        if self.data is None or (source.test is not None and not drawn) or self.data.test == source.lasting_name:
            return labelled, name
        # By what they hold, not by where they are: the data may have been moved or copied.
        held_out, trained_on = self.held_out(source), self.trained_on(source)
        if held_out is not None:
            # A spec holds out one part to measure on and another to choose the epoch by; fit in Python is given one.
            chose = self.about.spec is None and self.about.identity.recipe.patience is not None
            kind = "validation objects, which chose the epoch," if chose else "held-out objects"
            return held_out, f"{len(held_out):,} {kind} of {source.name}"
        if trained_on is not None:
            share = "all" if len(trained_on) == len(labelled) else f"{len(trained_on):,}"
            name += f", {share} of which it was trained on"
        elif strict or self.data.source == source.lasting_name:
            name += ", which has changed since: some may be what the run was trained on"
        else:
            return labelled, name
        if strict:
            raise DataError(f"there are only {name}; name what to measure {self.path} on with --data")
        return labelled, name

    def held_out(self, source: Source) -> LabelledSet | None:
        """What of a source the run held out; None if that is not in it, as it was then."""
        return self._find(source, self.data.held_out if self.data else None)

    def trained_on(self, source: Source) -> LabelledSet | None:
        """What of a source the run was trained on, in the order of the source; None if that is not in it."""
        return self._find(source, self.data.trained_on if self.data else None)

    def _find(self, source: Source, rows: Rows | None) -> LabelledSet | None:
        if rows is None:
            return None
        parts: dict[str, list[Part | None]] = {
            "train": [source.train], "test": [source.test], "all": [source.train, source.test]
        }  # fmt: skip
        there = [part for part in parts[rows.part] if part is not None]
        places = rows.indices()
        if sum(count_objects(part.objects) for part in there) != rows.count or len(places) == 0:
            return None
        names = self.class_names
        found = source.everything(names) if rows.part == "all" else source.labelled(there[0], names)
        found = found if len(places) == len(found) else found.subset(places)
        return found if found.digest() == rows.digest else None

    def training_objects(self, *, otherwise: str) -> Objects:
        """The objects that the run was trained on, read again from where they were.

        Args:
            otherwise: what to do about a run that does not name them, or names what is no longer there.
        """
        if self.data is None:
            raise RunError(f"{self.path} was made in Python and does not tell its training data; {otherwise}")
        name = self.data.source
        try:
            source = self.read(name, skip_bad=True)
            train_set = self.trained_on(source) or source.labelled(source.train, self.class_names)
            self.check_objects(train_set.objects, name)
        except (AgrLearnError, OSError) as error:
            # Of the user's own data, what the error says to do is about data that were named in the command.
            reason = str(error) if name in DATASETS else str(error).partition("; ")[0]
            raise RunError(f"the training data of {self.path} cannot be read again ({reason}); {otherwise}") from error
        return train_set.objects

    def protocol(self, name: str, *, context: str | None = None, **options: Any) -> PredictionProtocol:
        """The protocol called `name`; where it needs training objects, those of `context` or the run's own."""

        def objects() -> Objects:
            if context is None:
                return self.training_objects(otherwise="name them with --context")
            source = self.read(context, labels=False)
            self.check_objects(source.train.objects, context)
            return source.train.objects

        return make_protocol(name, context=objects, **options)

    def predict(self, data: Any, protocol: str | PredictionProtocol = "replicated", **options: Any) -> Tensor:
        """The label distributions of some data, (objects, classes), in the order of `class_names`.

        Args:
            data: a data set by name, a file or folder of raw rows, sentences or images, a data frame of raw rows, one
                sentence, or - for rows on standard input.
            options: of `agrlearn.predict`.
        """
        part, _ = self.unseen(data)
        chosen = self.protocol(protocol) if isinstance(protocol, str) else protocol
        return predict(self.network, part.objects, chosen, **options)

    def evaluate(self, data: str, protocol: str | PredictionProtocol = "replicated", **options: Any) -> Evaluation:
        """How well the network predicts some data; of its own data, what it held out.

        Args:
            options: of `agrlearn.evaluate`.
        """
        test_set, _ = self.to_measure(self.read(data))
        chosen = self.protocol(protocol) if isinstance(protocol, str) else protocol
        return evaluate(self.network, test_set, chosen, **options)

    def __str__(self) -> str:
        recipe = self.about.identity.recipe
        state = "finished" if self.finished else "not finished"
        lines = [f"{self.path}: {state}, {len(self.records)} of {recipe.epochs} epochs"]
        facts = {**json.loads(self.about.identity.model_dump_json()), "versions": self.about.versions}
        for name, values in facts.items():
            text = ", ".join(f"{key} {value}" for key, value in values.items()) if isinstance(values, dict) else values
            lines.append(f"  {name.replace('_', ' ')}: {text}")
        if self.data is not None:
            lines.append(f"  data: {self.data.source}")
        if self.records:
            last = self.records[-1]
            part = "held-out" if recipe.patience is None else "validation"
            measured = "" if last.validation_error is None else f", {part} error {last.validation_error:.2%}"
            lines.append(f"  last epoch: loss {last.loss:.4f}, training error {last.train_error:.2%}{measured}")
        return "\n".join(lines)
