"""The command line. Commands live in one file each and are imported when they are called, torch later still."""

import sys
from collections.abc import Sequence

from cyclopts import App, CycloptsError

from agrlearn.errors import AgrLearnError

app = App(
    name="agrlearn",
    help="Classify several objects in one pass of a network (Aggregated Learning, AAAI 2020), and choose at prediction "
    "time between a free ensemble and more throughput.",
    help_epilogue="Start with: agrlearn demo",
)
app.command("agrlearn.cli.demo:demo", help="Train fold 1, 2 and 4 on small digits and compare them: two minutes.")
app.command("agrlearn.cli.train:train", help="Train a network on a data set; stopped, the same command goes on.")
app.command("agrlearn.cli.predict:predict", help="Write a trained network's label distributions to a CSV file.")
app.command("agrlearn.cli.evaluate:evaluate", help="Measure a trained network by every prediction protocol.")
app.command("agrlearn.cli.export:export", help="Write a trained network as an ONNX model, checked against PyTorch.")
app.command("agrlearn.cli.info:info", help="Tell what there is to choose from, or all about a run.")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command; what a user can mend is told in one sentence with exit code 2."""
    try:
        app(arguments, exit_on_error=False, print_error=False, result_action="return_none")
    except CycloptsError as error:
        _leave(f"{_reason(error)} Try --help.")
    except AgrLearnError as error:
        _leave(str(error))
    except BrokenPipeError:
        sys.stderr.close()  # the reader, such as `head`, has had enough
        sys.exit(0)
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        _leave(f"{where}{error.strerror or error}; check the path, its permissions and the free space")


def _reason(error: CycloptsError) -> str:
    """The sentence within what cyclopts and pydantic wrap around it."""
    cause: BaseException | None = error
    while cause is not None:
        if type(cause).__module__.startswith("pydantic") and hasattr(cause, "errors"):
            details = cause.errors()[0]
            return f"{details.get('ctx', {}).get('error', details['msg'])}."
        cause = cause.__cause__ or cause.__context__
    return " ".join(str(error).split())


def _leave(sentence: str) -> None:
    print(f"agrlearn: {sentence}", file=sys.stderr)
    sys.exit(2)
