"""agrlearn report"""

from pathlib import Path

from agrlearn.cli.reporting import REPORT_FILE


def report(
    runs: list[Path],
    /,
    *,
    output: Path | None = None,
    data: str | None = None,
    dial: bool = True,
    network: str | None = None,
    data_dir: Path | None = None,
) -> None:
    """Write one HTML file that shows RUNS side by side: curves, the dial, reliability, heads, errors, recipes.

    It needs no network and opens from disk. Runs that differ only by their seed become one line with a band.

    Parameters
    ----------
    runs
        Directories of runs, finished or not, or folders of them.
    output
        The file to write; by default report.html in the working directory.
    data
        What to measure on, as in agrlearn evaluate; by default what each run held out.
    dial
        Try every protocol with 1, 2 and 4 draws, which takes about as long as twenty evaluations.
    network
        For runs whose network comes from a Python file: that file and function, which are run.
    data_dir
        The folder of data sets as they are published; by default the one that each run was trained with.
    """
    import shlex

    from agrlearn.cli.reporting import Reporter
    from agrlearn.files import write_atomically, write_output
    from agrlearn.report.page import render
    from agrlearn.report.runs import find_runs, read_facts

    folders = find_runs(runs)
    title = str(runs[0]) if len(runs) == 1 else f"{runs[0]} and {len(runs) - 1} more"
    command = shlex.join(["agrlearn", "report", *map(str, runs), *(["--data", data] if data else [])])
    reporter = Reporter(data, network, data_dir, dial)
    made = reporter.report([read_facts(folder) for folder in folders], title, command=command)
    page, file = render(made).encode(errors="surrogateescape"), output or Path(REPORT_FILE)
    (write_output if output else write_atomically)(file, page)
    for note in made.notes:
        print(note)
    print(f"{file}: {len(folders)} run{'s' * (len(folders) > 1)}, {len(page) / 1e6:.1f} MB")
