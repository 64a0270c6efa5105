"""The data of a run: opened and split as training did it, and what its directory remembers of them."""

import functools
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict

from agrlearn.cli.engine import speaks
from agrlearn.errors import AgrLearnError, DataError, RecipeError, RunError

if TYPE_CHECKING:
    from agrlearn.data.labelled import LabelledSet
    from agrlearn.data.sources import Source
    from agrlearn.grouping import Objects
    from agrlearn.networks.aggregated import AggregatedClassifier

_DATA_FILE = "data.json"
BAD_FILE = "left_out.tsv"


def split_source(
    source: "Source", fraction: float, class_names: tuple[str, ...] | None = None
) -> "tuple[LabelledSet, LabelledSet | None]":
    """The training part and the part to validate on: the source's own test part, or a fraction of every class.

    Args:
        class_names: those of an earlier training; by default the source's own.
    """
    import torch

    from agrlearn.data.labelled import check_several_classes
    from agrlearn.seeding import generator

    if not 0.0 <= fraction < 1.0:
        raise RecipeError(f"validation-fraction is a share from 0 up to 1, got {fraction}")
    everything = source.labelled(source.train, class_names)
    check_several_classes(everything, origin=source.name)
    if source.test is not None:
        return everything, source.labelled(source.test, everything.class_names)
    if fraction == 0.0:
        return everything, None
    order = torch.randperm(len(everything), generator=generator(0))
    held_out = torch.zeros(len(everything), dtype=torch.bool)
    for number, name in enumerate(everything.class_names):
        members = order[everything.labels[order] == number]
        if len(members) < 2:
            raise DataError(
                f"{source.name} has a single object of the class {name!r}, too few to hold one out; add more, or "
                "train on all with --validation-fraction 0"
            )
        share = round(fraction * len(members))
        held_out[members[: min(max(1, share), len(members) - 1)]] = True
    return everything.subset(order[~held_out[order]]), everything.subset(order[held_out[order]])


def remember_data(run_dir: Path, source: "Source", fraction: float, data_dir: Path | None, *, skip_bad: bool) -> None:
    """Note in the run directory what it trains on, how that became objects, and what was left out."""
    from agrlearn.files import write_atomically
    from agrlearn.grouping import first_tensor

    about = DataNote(
        source=_lasting_name(source),
        data_dir=None if data_dir is None else str(data_dir.resolve()),
        validation_fraction=fraction,
        preparation=source.preparation,
        skip_bad=skip_bad,
        dtype=str(first_tensor(source.train.objects).dtype).removeprefix("torch."),
    )
    write_atomically(run_dir / _DATA_FILE, json.dumps(about.model_dump()) + "\n")
    list_bad(source, run_dir / BAD_FILE)


def list_bad(source: "Source", file: Path) -> None:
    """List what was left out of the source and why; where nothing was, an earlier list is removed."""
    from agrlearn.files import spreadsheet_cell, write_atomically

    if source.bad:
        write_atomically(
            file, (f"{spreadsheet_cell(bad.where)}\t{spreadsheet_cell(bad.reason)}\n" for bad in source.bad)
        )
    else:
        file.unlink(missing_ok=True)


def _lasting_name(source: "Source") -> str:
    """The source's name, wherever a command is given."""
    from agrlearn.data.catalogue import DATASETS

    if source.name in DATASETS:  # whatever else is called so here
        return source.name
    return str(Path(source.name).resolve()) if Path(source.name).exists() else source.name


def part_to_measure(
    source: "Source", run_dir: Path, class_names: tuple[str, ...], *, strict: bool = False
) -> "tuple[LabelledSet, str]":
    """What to measure a run on: the source's test part or all of it, but of the run's own data what it held out.

    Args:
        strict: refuse objects that the run may have been trained on, instead of saying so.
    Returns:
        The labelled objects, and what they are, for a person to read.
    """
    about = read_note(run_dir)
    labelled = source.labelled(source.unseen, class_names)
    told = f"{len(labelled):,} objects of {source.name}"
    if about is None or source.test is not None:
        return labelled, told
    # By what they hold, not by where they are: the data may have been moved or copied.
    trained_on, held_out = known_parts(source, run_dir, class_names)
    if held_out is not None:
        return held_out, f"{len(held_out):,} held-out objects of {source.name}"
    if trained_on is not None:
        told += f", {'all' if len(trained_on) == len(labelled) else f'{len(trained_on):,}'} of which it was trained on"
    elif strict or about.source == _lasting_name(source):
        told += ", which has changed since: some may be what the run was trained on"
    else:
        return labelled, told
    if strict:
        raise DataError(f"there are only {told}; name what to measure {run_dir} on with --data")
    return labelled, told


def known_parts(
    source: "Source", run_dir: Path, class_names: tuple[str, ...]
) -> "tuple[LabelledSet | None, LabelledSet | None]":
    """What of a source a run was trained on, and what it held out; None for a part that has changed since."""
    from agrlearn.training.checkpoint import read_run

    about = read_note(run_dir)
    try:
        train_set, held_out = split_source(source, about.validation_fraction if about else 0.0, class_names)
    except DataError:  # too few objects of a class, with which it could not have been trained
        return None, None
    told = read_run(run_dir)["identity"]
    is_held_out = held_out is not None and held_out.digest() in str(told.get("validation data"))
    is_trained_on = train_set.digest() in str(told.get("training data"))
    return train_set if is_trained_on else None, held_out if is_held_out else None


def tell_about(source: "Source", bad_file: Path | None = None) -> None:
    """Say aloud what was guessed and what was left out, which `bad_file` lists."""
    if not speaks():
        return
    for remark in source.remarks:
        print(f"{source.name}: {remark}")
    if source.bad:
        print(f"{told_left_out(source)}{f', listed in {bad_file}' if bad_file else ''}")


def told_left_out(source: "Source") -> str:
    """How much was left out of a source, for a person to read."""
    return f"{source.name}: left out {len(source.bad)} that cannot be read"


def open_like_training(
    data: str, run_dir: Path, network: "AggregatedClassifier", *, skip_bad: bool = False,
    data_dir: Path | None = None, labels: bool = True,
) -> "Source":  # fmt: skip
    """Data for a run's trained network: they become objects as its training data did.

    Args:
        labels: False reads the objects alone.
    """
    from agrlearn.data.catalogue import DATASETS, open_source
    from agrlearn.data.download import DownloadError, no_downloads

    about = read_note(run_dir)
    before = about.data_dir if about else None
    preparation = about.preparation if about else None
    if preparation:
        _refuse_other_shapes(run_dir, preparation, network)
    opened = functools.partial(open_source, data, preparation=preparation, skip_bad=skip_bad, labels=labels)
    if data_dir is None and before is not None and Path(before).is_dir():
        try:
            # A stranger's run may name any folder: what lies there is read, but nothing is written there.
            with no_downloads():
                return opened(data_dir=before)
        except DownloadError:
            pass
    source = opened(data_dir=data_dir)
    if about is None and source.preparation.get("kind") == "text" and data not in DATASETS:
        # Numbered by these sentences, the words would be others to the network.
        raise RunError(
            f"{run_dir} was made in Python and does not tell its words, without which the sentences of {data} mean "
            "nothing to its network; predict in Python, with agrlearn.load and the Vocabulary that it was trained with"
        )
    return source


def _refuse_other_shapes(run_dir: Path, preparation: dict[str, Any], network: "AggregatedClassifier") -> None:
    """Refuse a run whose data do not become what its network takes, before anything is read or made."""
    from agrlearn.data.preparation import shape_of_objects

    described: Any = network.description
    made, taken = shape_of_objects(preparation), tuple(described["object_shape"])
    if made is not None and made != taken:
        raise RunError(
            f"{run_dir} makes objects of shape {made} of its data, but its network takes shape {taken}; train it again"
        )


def training_objects(
    run_dir: Path, network: "AggregatedClassifier", data_dir: Path | None = None, *, otherwise: str
) -> "Objects":
    """The objects that a run was trained on, read again from where they were.

    Args:
        network: the run's, which they must fit.
        otherwise: what to do about a run that does not tell them, or tells what is no longer there.
    """
    from agrlearn.cli.runs import check_shapes
    from agrlearn.data.catalogue import DATASETS

    about = read_note(run_dir)
    if about is None:
        raise RunError(f"{run_dir} was made in Python and does not tell its training data; {otherwise}")
    try:
        source = open_like_training(about.source, run_dir, network, skip_bad=True, data_dir=data_dir)
        train_set, _ = split_source(source, about.validation_fraction)
        check_shapes(network, train_set.objects, about.source)
    except (AgrLearnError, OSError) as error:
        # Of the user's own data, what the error says to do is about data that were named in the command.
        reason = str(error) if about.source in DATASETS else str(error).partition("; ")[0]
        raise RunError(f"the training data of {run_dir} cannot be read again ({reason}); {otherwise}") from error
    return train_set.objects


class DataNote(BaseModel):
    """What a run directory remembers of the data that it trains on."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    source: str
    data_dir: str | None
    validation_fraction: float
    preparation: dict[str, Any]
    skip_bad: bool = False  # earlier versions did not write it
    dtype: str | None = None  # nor this
    """Of the objects, such as uint8."""


def read_note(run_dir: Path) -> DataNote | None:
    """What a run directory remembers of its data; None for a run from Python."""
    from agrlearn.files import parse_json, read_small_text

    file = run_dir / _DATA_FILE
    if not file.exists():
        return None
    try:
        return DataNote.model_validate(parse_json(read_small_text(file)))
    except ValueError:
        raise RunError(f"{file} does not tell of data as agrlearn does; `agrlearn train` writes it anew") from None
