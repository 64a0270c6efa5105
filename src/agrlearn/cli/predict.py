"""agrlearn predict"""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from agrlearn.cli.options import PredictionOptions

if TYPE_CHECKING:
    from torch import Tensor

    from agrlearn.data.sources import Place

_DEFAULTS = PredictionOptions()


def predict(
    run: Path,
    data: str,
    /,
    *,
    protocol: str = "replicated",
    output: Path | None = None,
    options: Annotated[PredictionOptions, Parameter(name="*")] = _DEFAULTS,
) -> None:
    """Predict every object of DATA with the network of RUN. Labels in DATA, whole or not, do not matter.

    The CSV file has a line for each object, in order: its number in DATA (from 0, counting what is left out), its row
    or file where DATA is a table or a folder, the most probable class, that class's probability, and the probability
    of every class. What --skip-bad leaves out is listed beside the CSV file, in predictions.left_out.tsv. A name that
    a spreadsheet would run as a formula has an apostrophe in front.

    Parameters
    ----------
    run
        The directory of a finished run.
    data
        A data set by name (its test part is predicted), an .npz file with an array x, a table, or a folder of class
        folders of images.
    protocol
        replicated (each object in every slot: an ensemble), batched (other objects in the slots: fast), or contextual
        (beside random training objects).
    output
        The CSV file to write; by default predictions.csv in the working directory.
    """
    from agrlearn.cli.engine import announce_device, print_remarks, start_predicting
    from agrlearn.data.sources import BAD_FILE
    from agrlearn.files import write_atomically, write_output
    from agrlearn.grouping import count_objects
    from agrlearn.prediction.predict import predict_in_blocks
    from agrlearn.runs.run import Run

    announce_device(options.device)
    opened = Run.open(run, model=options.network, data_dir=options.data_dir)
    part, source = opened.unseen(data, skip_bad=options.skip_bad)
    file = output or Path("predictions.csv")
    left_out = file.with_name(f"{file.stem}.{BAD_FILE}")
    print_remarks(source, left_out)
    chosen = opened.protocol(protocol, context=options.context, draws=options.draws, seed=options.seed)
    engine = start_predicting(options.device)
    blocks = predict_in_blocks(
        opened.network.to(engine.device), part.objects, chosen, batch_size=options.batch_size,
        samples=options.samples, seed=options.seed, sharded=True,
    )  # fmt: skip
    lines = _lines(blocks, part.places, opened.class_names)
    if not engine.is_global_zero:
        for _ in lines:  # its share of the work
            pass
        return
    source.list_bad(left_out)
    (write_output if output else write_atomically)(file, lines)
    print(f"{count_objects(part.objects):,} predictions in {file}")


def _lines(blocks: Iterable["Tensor"], places: "Sequence[Place] | None", class_names: tuple[str, ...]) -> Iterator[str]:
    """The CSV file, line by line."""
    import csv

    from agrlearn.files import spreadsheet_cell

    class Line:
        """What the csv module writes to."""

        def write(self, text: str) -> str:
            return text

    table = csv.writer(Line(), lineterminator="\n")
    names = [spreadsheet_cell(name) for name in class_names]
    yield table.writerow(["object", *(["where"] if places else []), "prediction", "confidence", *names])
    number = 0
    for block in blocks:
        confidences, winners = block.max(dim=1)
        for winner, confidence, row in zip(winners.tolist(), confidences.tolist(), block, strict=True):
            place = [places[number].number, spreadsheet_cell(places[number].name)] if places else [number]
            values = (f"{value:.6g}" for value in row.tolist())
            yield table.writerow([*place, names[winner], f"{confidence:.6g}", *values])
            number += 1
