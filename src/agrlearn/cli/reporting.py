"""What `report` and `watch` share, and how other commands end with a report."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from agrlearn.errors import AgrLearnError, DataError

if TYPE_CHECKING:
    from agrlearn.data.sources import Source
    from agrlearn.grouping import Objects
    from agrlearn.networks.aggregated import AggregatedClassifier
    from agrlearn.report.collect import Report
    from agrlearn.report.measure import Measurement, Subject
    from agrlearn.report.runs import RunFacts

REPORT_FILE = "report.html"


@dataclass(frozen=True)
class Reporter:
    """Makes reports of run directories."""

    data: str | None = None
    """What to measure on; by default what each run held out."""
    network: str | None = None
    """For networks that come from a Python file: that file and function, which are run."""
    data_dir: Path | None = None
    dial: bool | None = None
    """Whether to try every protocol; None does where that is quick."""
    _sources: dict[str, "Source"] = field(default_factory=dict)

    def report(
        self, runs: "Sequence[RunFacts]", title: str, *, command: str = "",
        subjects: "dict[Path, Subject] | None" = None, notes: Sequence[str] = (),
    ) -> "Report":  # fmt: skip
        """The report of some runs; what cannot be measured is told on the page, not raised, unless `data` was named.

        Args:
            subjects: networks and data that are open already, by run directory.
            notes: what the page tells beside what is told here.
        """
        from agrlearn.cli.data import read_note, told_left_out
        from agrlearn.report.collect import report_of_runs
        from agrlearn.report.measure import can_be_grouped, measure
        from agrlearn.report.runs import settings_of, training_command

        settings = settings_of(runs)
        opened: dict[int, list[Subject]] = {}
        told = list(notes)
        for number, setting in enumerate(settings):
            try:
                opened[number] = [(subjects or {}).get(run.folder) or self.open(run) for run in setting.runs]
            except AgrLearnError as error:
                if self.data is not None and all(run.finished for run in setting.runs):
                    raise
                told.append(f"{setting.name} was not measured: {error}.")
        measured: dict[int, Measurement] = dict(
            zip(opened, measure(list(opened.values()), dial=self.dial), strict=True)
        )
        told += dict.fromkeys(f"{told_left_out(source)}." for source in self._sources.values() if source.bad)
        told += [
            f"Contextual is left out of the dial of {settings[number].name}, whose training objects are no longer here."
            for number, mine in opened.items()
            if measured[number].dial and mine[0].context is None and can_be_grouped(mine[0].network)
        ]
        if self.dial is None and any(not found.dial for found in measured.values()):
            told.append("The dial was left out to save time: agrlearn report measures it.")
        commands = {
            number: training_command(setting.runs[0], **note.model_dump(exclude={"dtype"}))
            for number, setting in enumerate(settings)
            if (note := read_note(setting.runs[0].folder)) is not None
        }
        return report_of_runs(title, settings, measured, command=command, commands=commands, notes=told)

    def open(self, run: "RunFacts") -> "Subject":
        """A run's network with the objects to measure it on."""
        from agrlearn.cli.data import part_to_measure, read_note
        from agrlearn.cli.runs import check_shapes, open_run
        from agrlearn.report.measure import Subject, can_be_grouped

        built, class_names = open_run(run.folder, self.network)
        note = read_note(run.folder)
        if self.data is None and note is None:
            raise DataError(f"{run.folder} does not tell its data; name what to measure on with --data")
        name = self.data or note.source  # type: ignore[union-attr]
        source = self._source(name, run.folder, built)
        check_shapes(built, source.unseen.objects, name)
        test_set, origin = part_to_measure(source, run.folder, class_names, strict=self.data is None)
        context = None
        if self.dial is not False and can_be_grouped(built):
            context = self._training_objects(note.source if note else name, run.folder, built, class_names)
        return Subject(built, test_set, context, origin, words_of(source))

    def _source(self, name: str, folder: Path, network: "AggregatedClassifier") -> "Source":
        """Data for a run's network, read once for all runs that read them alike."""
        from agrlearn.cli.data import open_like_training, read_note

        note = read_note(folder)
        key = f"{name} {note.preparation if note else None}"
        if key not in self._sources:
            self._sources[key] = open_like_training(name, folder, network, skip_bad=True, data_dir=self.data_dir)
        return self._sources[key]

    def _training_objects(
        self, name: str, folder: Path, network: "AggregatedClassifier", class_names: tuple[str, ...]
    ) -> "Objects | None":
        """What a run was trained on, if that is still to be had from the data called `name`."""
        from agrlearn.cli.data import known_parts

        try:
            trained_on, _ = known_parts(self._source(name, folder, network), folder, class_names)
        except AgrLearnError:
            return None
        return None if trained_on is None else trained_on.objects


def words_of(source: "Source") -> tuple[str, ...]:
    """The words of a source of sentences, by their numbers."""
    return tuple(source.preparation.get("words", ()))


def end_with_report(file: Path, make: "Callable[[], Report]") -> None:
    """Write a report to `file` and tell so; a run that is done stays done if that fails."""
    from agrlearn.files import write_atomically
    from agrlearn.report.page import render

    try:
        write_atomically(file, render(make()))
    except Exception as error:  # whatever it is, it must not fail the run that came before
        print(f"No report was written: {' '.join(str(error).split()) or type(error).__name__}")
    else:
        print(f"Report: {file}")
