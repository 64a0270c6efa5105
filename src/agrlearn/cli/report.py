"""agrlearn report"""

from pathlib import Path


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
    from agrlearn.cli.engine import command_line
    from agrlearn.files import REPORT_FILE
    from agrlearn.reporting.make import report as make_report

    file = output or Path(REPORT_FILE)
    if output is None and file.is_symlink():
        file.unlink()  # somebody's link in the working directory is replaced, not followed
    made = make_report(runs, file, data=data, dial=dial, network=network, data_dir=data_dir, command=command_line())
    for note in made.notes:
        print(note)
    count = sum(setting.seeds for setting in made.comparison)
    print(f"{file}: {count} run{'s' * (count > 1)}, {file.stat().st_size / 1e6:.1f} MB")
