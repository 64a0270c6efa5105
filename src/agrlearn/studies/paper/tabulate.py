"""An experiment's table: Markdown to read, CSV and JSON to go on with."""

import csv
import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from agrlearn.evaluation.statistics import Mean
from agrlearn.files import markdown_table, to_json, write_atomically
from agrlearn.studies.paper.experiments import Experiment
from agrlearn.studies.paper.lines import Line, ProtocolLine, summarize, summarize_protocols
from agrlearn.studies.paper.results import CellResult, describe_divergences
from agrlearn.studies.paper.rows import Row
from agrlearn.studies.paper.scales import Scale


def write_tables(
    name: str, experiment: Experiment, scale: Scale, rows: Sequence[Row],
    results: dict[tuple[str, str], list[CellResult]], diverged: Mapping[tuple[str, str], Sequence[str]], folder: Path,
    command: str,
) -> None:  # fmt: skip
    """`name`-`scale`.md, .csv and .json in `folder`, from the results there are."""
    lines = summarize(experiment, rows, results)
    protocols = summarize_protocols(experiment, rows, results)
    folder.mkdir(parents=True, exist_ok=True)
    stem = folder / f"{name}-{scale.name}"
    write_atomically(
        stem.with_suffix(".md"), _markdown(experiment, scale, rows, lines, protocols, results, diverged, command)
    )
    write_atomically(stem.with_suffix(".csv"), _csv(lines, scale))
    values = {
        "command": command, "scale": experiment.remark(scale), "rows": [asdict(line) for line in lines],
        "protocols": [asdict(line) for line in protocols],
    }  # fmt: skip
    write_atomically(stem.with_suffix(".json"), to_json(values))


HEADER = (
    "", "published", "ours", "averaged first", "− fold 1", "− as many objects", "NLL", "ECE", "J", "seeds",
    "parameters", "multiply-adds", "objects seen", "steps", "training s",
)  # fmt: skip


def as_cells(line: Line) -> tuple[str, ...]:
    """A line as text, in the order of `HEADER`."""
    return (
        line.label, "" if line.published is None else f"{line.published:g}", line.ours.text(),
        f"{line.averaged_first:.2f}", line.difference.signed_text(), line.at_equal_objects.signed_text(),
        line.nll.text(digits=3), line.ece.text(digits=3),
        "" if line.information is None else f"{line.information:.2f}", str(len(line.seeds)), f"{line.parameters:,}",
        f"{line.multiply_adds:,.0f}", f"{line.objects_seen:,}", f"{line.steps:,}", f"{line.seconds:,.0f}",
    )  # fmt: skip


def _markdown(
    experiment: Experiment, scale: Scale, rows: Sequence[Row], lines: Sequence[Line],
    protocols: Sequence[ProtocolLine], results: dict[tuple[str, str], list[CellResult]],
    diverged: Mapping[tuple[str, str], Sequence[str]], command: str,
) -> str:  # fmt: skip
    what = "Test error" if experiment.measure == "error" else "Test accuracy"
    some = [result for found in results.values() for result in found]
    parts = [
        f"# {experiment.title}, {scale.name} scale\n",
        f"Made by `{command}`; the column *seeds* says how many of them are done.\n",
        f"Scale: {experiment.remark(scale)}\n",
        f"{what} in percent, mean ± standard error over seeds, by Replicated prediction. *published*: the paper's. "
        "*ours*: each run's median of its last measurements, averaged over runs; *averaged first*: runs averaged, then "
        "the median (the paper's sentence can mean both). *− fold 1* and *− as many objects* (the control: fold 1 that "
        "saw as many objects): paired by seed. *J*: the penalty at the end, in nats. *multiply-adds*: to predict one "
        "object (a sentence of the greatest length). *training s*: the median over runs on shared machines, good for "
        "orders of magnitude only. NLL and ECE are those of the last weights.\n",
    ]
    for block in dict.fromkeys(row.block for row in rows):
        mine = [line for line in lines if line.block == block]
        known = {line.label for line in mine} | {label for where, label in diverged if where == block}
        missing = [row.label for row in rows if row.block == block and row.label not in known]
        parts.append(f"## {block}\n")
        if mine:
            marks = {"paper": "", "control": "*control:* ", "beyond": "*beyond:* "}
            marked = [(marks[line.part] + first, *rest) for line in mine for first, *rest in [as_cells(line)]]
            parts.append(markdown_table(HEADER, marked))
        if missing:
            parts.append(f"Not run: {'; '.join(missing)}.\n")
        parts += [f"Diverged: {sentence}.\n" for sentence in describe_divergences(diverged, block)]
        ways = [line for line in protocols if line.block == block]
        if ways:
            header = ("", "prediction", what.lower() + " %", "NLL", "ECE", "heads disagree", "multiply-adds")
            cells = [
                (
                    line.label, line.protocol, line.ours.text(), line.nll.text(digits=3), line.ece.text(digits=3),
                    "" if line.head_disagreement is None else line.head_disagreement.text(digits=3),
                    f"{line.multiply_adds:,.0f}",
                )
                for line in ways
            ]  # fmt: skip
            parts.append("By the way of predicting, with the last weights:\n")
            parts.append(markdown_table(header, cells))
    if some:
        versions = "; ".join(
            dict.fromkeys(", ".join(f"{k} {v}" for k, v in result.run.versions.items()) for result in some)
        )
        parts.append(
            f"Made with {versions}, on {'; '.join(dict.fromkeys(result.result.machine for result in some))}.\n"
        )
    return "\n".join(parts)


def _csv(lines: Sequence[Line], scale: Scale) -> str:
    """One column for each number, a mean's standard error in one of its own; empty where there is none."""
    file = io.StringIO()
    rows = []
    for line in lines:
        row: dict[str, object] = {"scale": scale.name}
        for name, value in vars(line).items():
            if isinstance(value, Mean):
                row |= {name: value.value, f"{name}_standard_error": value.standard_error}
            else:
                row[name] = len(value) if name == "seeds" else value
        rows.append({name: "" if _is_nan(value) else value for name, value in row.items()})
    if rows:
        writer = csv.DictWriter(file, rows[0], lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    return file.getvalue()


def _is_nan(value: object) -> bool:
    return isinstance(value, float) and math.isnan(value)
