"""Results become a table: Markdown to read, CSV and JSON to go on with."""

import csv
import io
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from agrlearn.evaluation.comparison import Mean, mean_over_runs
from agrlearn.experiments.catalogue import Experiment, Row
from agrlearn.experiments.cells import FOLD_1, CellResult, read_divergences, read_result, seeds_done
from agrlearn.experiments.scales import Scale
from agrlearn.files import to_json, write_atomically


@dataclass(frozen=True)
class Line:
    """A row with what its seeds gave; percentages as in the paper, of errors or of accuracies."""

    block: str
    label: str
    part: str
    published: float | None
    seeds: tuple[int, ...]
    ours: Mean
    """Each run's median of its last measurements, averaged over the runs."""
    averaged_first: float
    """The other reading of the paper's sentence: the runs' curves are averaged, then the median is taken."""
    difference: Mean
    """To fold 1 of the block, over the seeds that both have."""
    nll: Mean
    ece: Mean
    information: float | None
    """The penalty J at the end, in nats, where there is one."""
    parameters: int
    multiply_adds: float
    objects_seen: int
    steps: int
    seconds: float


@dataclass(frozen=True)
class ProtocolLine:
    """A row under one way to predict."""

    block: str
    label: str
    protocol: str
    ours: Mean
    nll: Mean
    ece: Mean
    head_disagreement: Mean | None
    """None where an object has only one answer."""
    multiply_adds: float


def collect(rows: Sequence[Row], cells: Path) -> dict[tuple[str, str], list[CellResult]]:
    """All results there are, by block and label."""
    found = {}
    for row in rows:
        results = [read_result(cells, row.cell, seed) for seed in seeds_done(cells, row.cell)]
        found[row.block, row.label] = [result for result in results if result is not None]
    return found


def collect_divergences(rows: Sequence[Row], cells: Path) -> dict[tuple[str, str], list[str]]:
    """How runs diverged, by block and label of the rows where some did."""
    found = {(row.block, row.label): read_divergences(cells, row.cell) for row in rows}
    return {key: sentences for key, sentences in found.items() if sentences}


def tell_divergences(diverged: Mapping[tuple[str, str], Sequence[str]], block: str) -> tuple[str, ...]:
    """A sentence for each row of `block` of which runs diverged."""
    return tuple(
        f"{label}, {len(sentences)} of its seeds: {sentences[0]}"
        for (where, label), sentences in diverged.items()
        if where == block
    )


def summarize(
    experiment: Experiment, rows: Sequence[Row], results: dict[tuple[str, str], list[CellResult]]
) -> list[Line]:
    """One line for each row that has a result."""
    lines = []
    for row in rows:
        mine = results[row.block, row.label]
        if not mine:
            continue
        values = {result.seed: _percent(statistics.median(result.test_errors), experiment) for result in mine}
        base = {
            result.seed: _percent(statistics.median(result.test_errors), experiment)
            for result in results.get((row.block, FOLD_1), [])
        }
        paired = [values[seed] - base[seed] for seed in values if seed in base and row.label != FOLD_1]
        curve = [statistics.fmean(errors) for errors in zip(*(result.test_errors for result in mine), strict=True)]
        final = [result.protocols["Replicated"] for result in mine]
        information = [point.information for result in mine if (point := result.curve[-1]).information is not None]
        lines.append(
            Line(
                block=row.block,
                label=row.label,
                part=row.part,
                published=row.published,
                seeds=tuple(values),
                ours=mean_over_runs(list(values.values())),
                averaged_first=_percent(statistics.median(curve), experiment),
                difference=mean_over_runs(paired) if paired else Mean(math.nan, math.nan),
                nll=mean_over_runs([scores.nll for scores in final]),
                ece=mean_over_runs([scores.ece for scores in final]),
                information=statistics.fmean(information) if information else None,
                parameters=mine[0].parameters,
                multiply_adds=final[0].multiply_adds,
                objects_seen=round(statistics.fmean(result.objects_seen for result in mine)),
                steps=round(statistics.fmean(result.steps for result in mine)),
                seconds=statistics.median(result.seconds for result in mine),
            )
        )
    return lines


def summarize_protocols(
    experiment: Experiment, rows: Sequence[Row], results: dict[tuple[str, str], list[CellResult]]
) -> list[ProtocolLine]:
    """One line for each way to predict with each network of more than one fold, beside those of fold 1."""
    lines = []
    for row in rows:
        mine = results[row.block, row.label]
        for protocol in mine[0].protocols if mine and (row.cell.fold > 1 or row.label == FOLD_1) else ():
            scores = [result.protocols[protocol] for result in mine]
            one_answer = row.cell.fold == 1 or protocol == _ONE_ANSWER
            lines.append(
                ProtocolLine(
                    row.block,
                    row.label,
                    protocol,
                    mean_over_runs([_percent(score.error, experiment) for score in scores]),
                    mean_over_runs([score.nll for score in scores]),
                    mean_over_runs([score.ece for score in scores]),
                    None if one_answer else mean_over_runs([score.head_disagreement for score in scores]),
                    scores[0].multiply_adds,
                )
            )
    return lines


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
    told = {
        "command": command, "scale": experiment.remark(scale), "rows": [asdict(line) for line in lines],
        "protocols": [asdict(line) for line in protocols],
    }  # fmt: skip
    write_atomically(stem.with_suffix(".json"), to_json(told))


_ONE_ANSWER = "Batched, 1 draw"
HEADER = (
    "", "published", "ours", "averaged first", "− fold 1", "NLL", "ECE", "J", "seeds", "parameters",
    "multiply-adds", "objects seen", "steps", "training s",
)  # fmt: skip


def as_cells(line: Line) -> tuple[str, ...]:
    """A line as text, in the order of `HEADER`."""
    return (
        line.label, "" if line.published is None else f"{line.published:g}", line.ours.text(),
        f"{line.averaged_first:.2f}", "" if math.isnan(line.difference.value) else _signed(line.difference),
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
        "the median (the paper's sentence can mean both). *− fold 1*: paired by seed. *J*: the penalty at the end, in "
        "nats. *multiply-adds*: to predict one object (a sentence of the greatest length). *training s*: the median "
        "over runs on shared machines, good for orders of magnitude only. NLL and ECE are those of the last weights.\n",
    ]
    for block in dict.fromkeys(row.block for row in rows):
        mine = [line for line in lines if line.block == block]
        known = {line.label for line in mine} | {label for where, label in diverged if where == block}
        missing = [row.label for row in rows if row.block == block and row.label not in known]
        parts.append(f"## {block}\n")
        if mine:
            parts.append(_grid(HEADER, [as_cells(line) for line in mine], kinds=[line.part for line in mine]))
        if missing:
            parts.append(f"Not run: {'; '.join(missing)}.\n")
        parts += [f"Diverged: {told}.\n" for told in tell_divergences(diverged, block)]
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
            parts.append(_grid(header, cells))
    if some:
        versions = "; ".join(
            dict.fromkeys(", ".join(f"{k} {v}" for k, v in result.versions.items()) for result in some)
        )
        parts.append(f"Made with {versions}, on {'; '.join(dict.fromkeys(result.machine for result in some))}.\n")
    return "\n".join(parts)


def _grid(header: Sequence[str], cells: Sequence[Sequence[str]], kinds: Sequence[str] | None = None) -> str:
    """A Markdown table; a row that is not the paper's says in the first column what it is."""
    marks = {"paper": "", "control": "*control:* ", "beyond": "*beyond:* "}
    named = [
        (marks[kinds[number]] + line[0] if kinds else line[0], *line[1:]) for number, line in enumerate(cells)
    ]  # fmt: skip
    rule = ["---", *["---:"] * (len(header) - 1)]
    return "".join(f"| {' | '.join(line)} |\n" for line in (header, rule, *named))


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


def _percent(error: float, experiment: Experiment) -> float:
    return 100 * (error if experiment.measure == "error" else 1 - error)


def _signed(difference: Mean) -> str:
    sign = "+" if difference.value >= 0 else "−"
    return sign + Mean(abs(difference.value), difference.standard_error).text()


def _is_nan(value: object) -> bool:
    return isinstance(value, float) and math.isnan(value)
