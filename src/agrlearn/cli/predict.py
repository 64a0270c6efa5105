"""agrlearn predict"""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from agrlearn.cli.data import BAD_FILE
from agrlearn.cli.runs import PredictionOptions

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
    of every class. What --skip-bad leaves out is listed beside the CSV file, in predictions.left_out.tsv.

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
        The CSV file to write; by default predictions.csv in RUN.
    """
    import csv
    import io

    from agrlearn.cli.data import list_bad, open_like_training, tell_about
    from agrlearn.cli.engine import start_engine
    from agrlearn.cli.runs import check_shapes, make_protocol, open_run
    from agrlearn.files import write_atomically
    from agrlearn.prediction.predict import predict as predict_objects

    built, class_names = open_run(run, options.network)
    source = open_like_training(data, run, skip_bad=options.skip_bad, data_dir=options.data_dir, labels=False)
    file = output or run / "predictions.csv"
    left_out = file.with_name(f"{file.stem}.{BAD_FILE}")
    tell_about(source, left_out)
    check_shapes(built, source.unseen.objects, data)
    chosen = make_protocol(protocol, run, built, options)
    engine = start_engine()
    probabilities = predict_objects(
        built.to(engine.device), source.unseen.objects, chosen, batch_size=options.batch_size,
        samples=options.samples, seed=options.seed, sharded=True,
    )  # fmt: skip
    if not engine.is_global_zero:
        return
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    places = source.unseen.places
    table.writerow(["object", *(["where"] if places else []), "prediction", "confidence", *class_names])
    confidences, winners = probabilities.max(dim=1)
    named = places or ((number,) for number in range(len(probabilities)))
    rows = zip(named, winners.tolist(), confidences.tolist(), probabilities.tolist(), strict=True)
    for place, winner, confidence, row in rows:
        table.writerow([*place, class_names[winner], f"{confidence:.6g}", *(f"{value:.6g}" for value in row)])
    list_bad(source, left_out)
    write_atomically(file, text.getvalue())
    print(f"{len(probabilities):,} predictions in {file}")
