"""agrlearn compare"""

import os
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from agrlearn.cli.options import ResourceOptions, WholeNumber

_DEFAULTS = ResourceOptions(workers=min(4, os.cpu_count() or 1))


def compare(
    data: str,
    /,
    *,
    seeds: WholeNumber = 10,
    network: str | None = None,
    also: Annotated[list[str] | None, Parameter(negative=(), consume_multiple=True)] = None,
    label_column: Annotated[str | None, Parameter(name="--label")] = None,
    columns: Annotated[list[str] | None, Parameter(negative=(), consume_multiple=True)] = None,
    ignore: Annotated[list[str] | None, Parameter(negative=(), consume_multiple=True)] = None,
    data_dir: Path | None = None,
    run_dir: Path | None = None,
    resources: Annotated[ResourceOptions, Parameter(name="*")] = _DEFAULTS,
) -> None:
    """Find out whether groups are worth it on DATA: the same splits for an ordinary network, its remedies and groups.

    The remedies (dropout, fewer epochs, label smoothing, mixup, manifold mixup) have their strengths chosen on a
    validation part; an ensemble of 4 and, for tables, classifiers of scikit-learn stand beside them. Stopped, the same
    command goes on.

    Parameters
    ----------
    data
        A data set by name (agrlearn info lists them), an .npz file with arrays x and y, a table, or a folder with a
        folder of images for each class.
    seeds
        Splits into training and test part, each with other initial weights.
    network
        A network by name, timm:NAME or FILE.py:FUNCTION; by default the one that fits the data.
    also
        Further settings of groups, such as fold=4,join=max,repetition=0.2.
    label_column
        The column of a table that holds the labels; guessed by default.
    columns
        Columns of a table to use, by name or as NAME=KIND, as for agrlearn train.
    ignore
        Columns of a table to leave out.
    data_dir
        The folder of data sets as they are published; by default that of AGRLEARN_DATA, or ~/.cache/agrlearn.
    run_dir
        Where the results, the table and the picture go; by default runs/compare- and the data's name.
    """
    from rich.console import Console

    from agrlearn.cli.engine import command_line, print_remarks
    from agrlearn.cli.many import run_and_show
    from agrlearn.errors import RecipeError
    from agrlearn.runs.train import open_data
    from agrlearn.studies.compare import base_spec, compare_methods, make_methods
    from agrlearn.studies.comparison import Comparison, write_comparison

    resources.announce()
    folder = run_dir or Path("runs") / f"compare-{Path(data).stem}"
    spec, tokens, vectors = base_spec(
        data, network=network, data_dir=data_dir, label_column=label_column, columns=tuple(columns or ()),
        ignore=tuple(ignore or ()),
    )  # fmt: skip
    print_remarks(open_data(spec, data_dir).source)
    methods = make_methods(spec, also=[_settings(text) for text in also or []], tokens=tokens, vectors=vectors)
    console, failures = Console(markup=False), []
    lines = compare_methods(
        methods, folder.resolve(), seeds=seeds, data_dir=data_dir,
        run=lambda jobs: failures.extend(run_and_show(jobs, resources.resources(), console, each=None)),
    )  # fmt: skip
    if not any(line.kind == "ordinary" for line in lines):
        raise RecipeError(f"the ordinary network could not be trained: {failures[0] if failures else 'no run is done'}")
    found = Comparison(data, seeds, tuple(lines))
    write_comparison(found, folder, command_line() or f"agrlearn compare {data} --seeds {seeds}")
    console.print(found.markdown(), soft_wrap=True)
    console.print(found.verdict, soft_wrap=True)
    console.print(f"table.md, compare.json and compare.png are in {folder}", soft_wrap=True)
    if failures:
        raise RecipeError(f"{len(failures)} runs failed, for the reasons above; the same command tries them again")


def _settings(text: str) -> dict[str, Any]:
    """The settings in a text such as fold=4,join=max: numbers as numbers, all else as text."""
    import json

    from agrlearn.errors import RecipeError

    settings = {}
    for part in filter(None, text.replace(" ", ",").split(",")):
        name, equals, value = part.partition("=")
        if not (name and equals and value):
            raise RecipeError(f"--also takes settings such as fold=4,join=max,repetition=0.2, got {text!r}")
        try:
            settings[name.replace("-", "_")] = json.loads(value)
        except ValueError:
            settings[name.replace("-", "_")] = value
    return settings
