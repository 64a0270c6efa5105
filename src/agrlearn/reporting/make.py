"""Run directories become a report."""

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agrlearn.data.sources import Source
from agrlearn.errors import AgrLearnError, DataError, RecipeError, RunError
from agrlearn.files import write_atomically, write_output
from agrlearn.grouping import Objects
from agrlearn.reporting.collect import Report, report_of_runs
from agrlearn.reporting.fitted import report_of_classifier
from agrlearn.reporting.measure import Opener, Subject, can_be_grouped, measure
from agrlearn.reporting.page import render
from agrlearn.runs.facts import RunFacts, find_runs, read_facts, settings_of
from agrlearn.runs.run import Run

if TYPE_CHECKING:
    from agrlearn.sklearn import AgrLearnClassifier


def report(
    runs: "str | Path | Sequence[str | Path] | AgrLearnClassifier", output: str | Path, *,
    data: str | tuple[Any, Sequence[Any]] | None = None, dial: bool | None = None, title: str | None = None,
    command: str = "", network: str | None = None, data_dir: str | Path | None = None,
) -> Report:  # fmt: skip
    """Write one HTML file that shows runs side by side: curves, the dial, reliability, heads, errors, recipes.

    Args:
        runs: directories of runs, finished or not, or folders of them; or a fitted `AgrLearnClassifier`.
        output: the file to write.
        data: what to measure on, a data set by name or a file; by default what each run held out. Of a classifier,
            which keeps no data, the rows and labels of a test part, (X, y).
        dial: whether to try every protocol, which takes about as long as twenty evaluations; None does where that is
            quick.
        network: for networks that come from a Python file: that file and function, which are run.
        data_dir: the folder of published data sets; by default the one that each run was trained with.
    Returns:
        What the page shows.
    """
    if not isinstance(runs, str | Path | Sequence):
        if command or network is not None or data_dir is not None:
            raise RecipeError("command, network and data_dir are for runs, and a fitted classifier needs none of them")
        made = report_of_classifier(runs, data, title=title, dial=dial)
        write_output(Path(output), render(made))
        return made
    if data is not None and not isinstance(data, str):
        raise RecipeError("rows and labels are for a fitted classifier; to measure runs on other data, name their file")
    given = [Path(runs)] if isinstance(runs, str | Path) else [Path(run) for run in runs]
    folders = find_runs(given)
    more = f" and {len(given) - 1} more" if len(given) > 1 else ""
    reporter = Reporter(data, network, None if data_dir is None else Path(data_dir), dial)
    made = reporter.report([read_facts(folder) for folder in folders], title or f"{given[0]}{more}", command=command)
    write_output(Path(output), render(made))
    return made


@dataclass(frozen=True)
class Reporter:
    """Makes reports of run directories; the arguments are those of `report`."""

    data: str | None = None
    network: str | None = None
    data_dir: Path | None = None
    dial: bool | None = None
    _sources: dict[str, Source] = field(default_factory=dict)

    def report(
        self, runs: Sequence[RunFacts], title: str, *, command: str = "", subjects: dict[Path, Subject] | None = None,
        notes: Sequence[str] = (),
    ) -> Report:  # fmt: skip
        """The report of some runs.

        The page says what cannot be measured; it is an error only if `data` was named.

        Args:
            subjects: networks and data that are open already, by run directory.
            notes: sentences for the page beside those written here.
        """
        settings = settings_of(runs)
        openers: dict[int, list[Opener]] = {}
        lacking: list[int] = []
        remarks = list(notes)
        for number, setting in enumerate(settings):
            opening = [functools.partial(self.open, run, subjects or {}) for run in setting.runs]
            try:
                # Open each once to see that it works, and again to measure it: all of them may not fit into memory.
                if any([opener().lacks_context for opener in opening]):
                    lacking.append(number)
                openers[number] = [*opening]
            except AgrLearnError as error:
                if self.data is not None and all(run.finished for run in setting.runs):
                    raise
                remarks.append(f"{setting.name} was not measured: {error}.")
        measured = dict(zip(openers, measure(list(openers.values()), dial=self.dial), strict=True))
        remarks += dict.fromkeys(f"{source.left_out}." for source in self._sources.values() if source.bad)
        remarks += [
            f"The dial of {settings[number].name} leaves out Contextual: its training objects are not available."
            for number in lacking
            if measured[number].dial
        ]
        if self.dial is None and any(not found.dial for found in measured.values()):
            remarks.append("The dial was left out to save time: agrlearn report measures it.")
        return report_of_runs(title, settings, measured, command=command, notes=remarks)

    def open(self, facts: RunFacts, subjects: Mapping[Path, Subject]) -> Subject:
        """A run's network with the objects to measure it on."""
        if facts.folder in subjects:
            return subjects[facts.folder]
        run = Run.open(facts.folder, model=self.network, data_dir=self.data_dir)
        if not run.finished:
            raise RunError(f"{run.path} is not finished")
        network, note = run.network, run.data
        if self.data is None and note is None:
            raise DataError(f"{run.path} does not record its data; name what to measure on with --data")
        name = self.data or note.test or note.source  # type: ignore[union-attr]
        source = self._source(name, run)
        test_set, origin = run.to_measure(source, strict=self.data is None)
        context = None
        if self.dial is not False and can_be_grouped(network):
            context = self._training_objects(note.source if note else name, run)
        return Subject(network, test_set, context, origin, tuple(source.preparation.get("words", ())))

    def _source(self, name: str, run: Run) -> Source:
        """Data for a run's network, read once for all runs that prepare them alike."""
        key = f"{name} {run.data.preparation if run.data else None}"
        if key not in self._sources:
            self._sources[key] = run.read(name, skip_bad=True)
        return self._sources[key]

    def _training_objects(self, name: str, run: Run) -> Objects | None:
        """What a run was trained on, if the data called `name` still hold it."""
        try:
            trained_on = run.trained_on(self._source(name, run))
        except AgrLearnError:
            return None
        return None if trained_on is None else trained_on.objects


def end_with_report(file: Path, make: Callable[[], Report]) -> None:
    """Write a report to `file` and say so; a run that is done stays done if that fails."""
    try:
        write_atomically(file, render(make()))
    except Exception as error:  # whatever it is, it must not fail the run, which is done
        print(f"No report was written: {' '.join(str(error).split()) or type(error).__name__}")
    else:
        print(f"Report: {file}")
