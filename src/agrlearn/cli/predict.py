"""agrlearn predict"""

import io
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from agrlearn.cli.options import PredictionOptions

if TYPE_CHECKING:
    from torch import Tensor

    from agrlearn.data.sources import Part

_DEFAULTS = PredictionOptions()
_CLASSES_SHOWN = 3  # of a single object


def predict(
    run: Path,
    data: Annotated[str, Parameter(allow_leading_hyphen=True)],
    /,
    *,
    protocol: str = "replicated",
    abstain: float = 0.0,
    output: Path | None = None,
    options: Annotated[PredictionOptions, Parameter(name="*")] = _DEFAULTS,
) -> None:
    """Predict every object of DATA with the network of RUN. Labels in DATA, whole or not, do not matter.

    Of a sentence or a single image, the answer is printed. Of all else, it is a CSV file with a line for each object,
    in order: its identifier (the table's column of identifiers, or else its row; its file; or its number from 0), its
    label if DATA has one, the most probable class, that class's probability, and the probability of every class. What
    --skip-bad leaves out is listed beside the CSV file, in predictions.left_out.tsv. A name that a spreadsheet would
    run as a formula has an apostrophe in front.

    Parameters
    ----------
    run
        The directory of a run. Of one that is not finished, the best epoch so far is used.
    data
        A data set by name (its test part is predicted), an .npz file with an array x, a table, a folder of images,
        one image, one sentence in quotes, or - for the rows of a table on standard input.
    protocol
        replicated (each object in every slot: an ensemble), batched (other objects in the slots: fast), or contextual
        (beside random training objects).
    abstain
        Name no class for an object if the most probable one is less probable than this.
    output
        The CSV file to write; by default predictions.csv in the working directory.
    """
    from agrlearn.cli.engine import announce_device, print_remarks, start_predicting
    from agrlearn.data.sources import BAD_FILE
    from agrlearn.errors import RecipeError
    from agrlearn.files import write_atomically, write_output
    from agrlearn.prediction.predict import block_size, predict_in_blocks
    from agrlearn.runs.run import Run

    if not 0 <= abstain <= 1:
        raise RecipeError(f"--abstain is a probability from 0 to 1, got {abstain:g}")
    announce_device(options.device, silent=True)
    opened = Run.open(run, model=options.network, data_dir=options.data_dir)
    streamed = opened.stream(data, skip_bad=options.skip_bad)
    part, source = (streamed, streamed.source) if streamed else opened.unseen(data, skip_bad=options.skip_bad)
    is_answer = source.is_single and output is None
    if not is_answer:
        announce_device(options.device)
    file = output or Path("predictions.csv")
    left_out = file.with_name(f"{file.stem}.{BAD_FILE}")
    print_remarks(source, left_out)
    chosen = opened.protocol(protocol, context=options.context, draws=options.draws, seed=options.seed)
    engine = start_predicting(options.device)
    network = opened.network.to(engine.device)
    parts = part.parts(block_size(network, chosen, options.batch_size) or len(part))
    blocks = predict_in_blocks(
        network, parts, chosen, batch_size=options.batch_size, samples=options.samples, seed=options.seed, sharded=True
    )
    table = _Predictions(blocks, opened.class_names, abstain)
    if not engine.is_global_zero:
        for _ in table:  # its share of the work
            pass
        return
    if is_answer:
        print(_answer(next(blocks)[1][0], data, opened.class_names, abstain))
        return
    source.list_bad(left_out)
    (write_output if output else write_atomically)(file, table)
    told = f"; {table.abstained:,} without a class, by --abstain {abstain:g}" if abstain else ""
    print(f"{len(part):,} {'prediction' if len(part) == 1 else 'predictions'} in {file}{told}")


def _answer(probabilities: "Tensor", name: str, class_names: tuple[str, ...], abstain: float) -> str:
    """What is printed of a single object."""
    order = probabilities.argsort(descending=True)[:_CLASSES_SHOWN].tolist()
    shown = [f"{class_names[number]} {float(probabilities[number]):.3f}" for number in order]
    if float(probabilities.max()) < abstain:
        return f"{name}: no class is as probable as {abstain:g} ({', '.join(shown)})"
    others = f" ({', '.join(shown[1:])})" if len(shown) > 1 else ""
    return f"{name}: {class_names[order[0]]}, probability {float(probabilities.max()):.3f}{others}"


class _Predictions:
    """The CSV file, in pieces. Once they are read, `abstained` is the number of objects without a class."""

    def __init__(self, blocks: Iterable[tuple["Part", "Tensor"]], class_names: tuple[str, ...], abstain: float) -> None:
        self.blocks, self.class_names, self.abstain = blocks, class_names, abstain
        self.abstained = 0

    def __iter__(self) -> Iterator[str]:
        classes = [_cell(name) for name in self.class_names]
        count = 0
        for part, probabilities in self.blocks:
            names, labels = part.names, part.labels
            if count == 0:
                known_by = _cell(names.column) if names else "object"
                yield ",".join(
                    [known_by, *([] if labels is None else ["label"]), "prediction", "probability", *classes]
                )
                yield "\n"
            best, winners = (found.numpy() for found in probabilities.max(dim=1))
            known = best.astype("float64") >= self.abstain
            self.abstained += int((~known).sum())
            cells = [
                map(_cell, names.values) if names else range(count, count + len(best)),
                *([] if labels is None else [map(_cell, labels)]),
                [
                    classes[winner] if sure else ""
                    for winner, sure in zip(winners.tolist(), known.tolist(), strict=True)
                ],
                *(column.tolist() for column in (best, *probabilities.numpy().T)),
            ]
            row = ",".join(["%s"] * (len(cells) - 1 - len(classes)) + ["%.6g"] * (1 + len(classes))) + "\n"
            yield "".join(map(row.__mod__, zip(*cells, strict=True)))
            count += len(best)


def _cell(text: str) -> str:
    """A text of the user's data, or of a stranger's run, as a cell of a CSV file that every program can read."""
    if text.isascii() and text.isalnum():
        return text  # as most are
    import csv

    from agrlearn.files import spreadsheet_cell

    try:
        text.encode(errors="surrogateescape")  # as in names of files that are not UTF-8
    except UnicodeEncodeError:
        text = text.encode(errors="replace").decode()
    line = io.StringIO()
    csv.writer(line, lineterminator="\n").writerow([spreadsheet_cell(text), ""])
    return line.getvalue()[: -len(",\n")]
