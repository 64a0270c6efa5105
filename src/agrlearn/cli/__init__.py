"""The command line. Commands live in one file each; they import torch when they are called, not before."""

import io
import sys
import warnings
from collections.abc import Sequence
from typing import Any

from cyclopts import App, CycloptsError

from agrlearn.cli.compare import compare
from agrlearn.cli.demo import demo
from agrlearn.cli.engine import process_number, set_command_line, stop_engine
from agrlearn.cli.evaluate import evaluate
from agrlearn.cli.export import export
from agrlearn.cli.info import info
from agrlearn.cli.information import information
from agrlearn.cli.predict import predict
from agrlearn.cli.report import report
from agrlearn.cli.reproduce import reproduce
from agrlearn.cli.sweep import sweep
from agrlearn.cli.theory import theory
from agrlearn.cli.train import train
from agrlearn.cli.watch import watch
from agrlearn.errors import AgrLearnError, AgrLearnWarning

app = App(
    name="agrlearn",
    help="Train a classifier on groups of objects (Aggregated Learning, AAAI 2020), and deploy an ordinary network. "
    "Start with: agrlearn demo, or with your own data: agrlearn compare DATA",
)
COMMANDS = (
    demo, compare, train, watch, predict, evaluate, report, export, info, information, sweep, reproduce, theory,
)  # fmt: skip
for command in COMMANDS:
    app.command(command)

_WORDS_OF_ALLOCATORS = (
    "allocate memory", "out of memory", "not enough memory", "size calculation overflowed", "multiplication overflow",
)  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command; what a user can mend is said in one sentence, with exit code 2."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # names of files need not be UTF-8
    warnings.formatwarning = _format_warning
    if process_number() > 0:
        warnings.simplefilter("ignore", AgrLearnWarning)  # the first process tells it
    set_command_line(sys.argv[1:] if arguments is None else arguments)
    try:
        app(arguments, exit_on_error=False, print_error=False, result_action="return_none")
        stop_engine()
    except CycloptsError as error:
        _leave(f"{_reason(error)} Try --help.")
    except AgrLearnError as error:
        if process_number() == 0:
            for note in getattr(error, "__notes__", ()):
                print(note, file=sys.stderr)
        _leave(str(error))
    except KeyboardInterrupt:
        print("Stopped.", file=sys.stderr)
        sys.exit(130)
    except BrokenPipeError:
        sys.stderr.close()  # the reader, such as `head`, has had enough
        sys.exit(0)
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        _leave(f"{where}{error.strerror or error}; check the path, its permissions and the free space")
    except (MemoryError, RuntimeError) as error:
        if not isinstance(error, MemoryError) and not any(words in str(error) for words in _WORDS_OF_ALLOCATORS):
            raise
        _leave("there is not enough memory for this; use a smaller network, batch, fold or image size")
    except ValueError as error:
        if "null" not in str(error) and not isinstance(error, UnicodeEncodeError):
            raise
        _leave("a path holds a character that no file's name can have, such as NUL; check the arguments")


_format_other_warning = warnings.formatwarning


def _format_warning(message: Warning | str, category: type[Warning], *where: Any, **line: Any) -> str:
    if issubclass(category, AgrLearnWarning):
        return f"agrlearn: {message}\n"
    return _format_other_warning(message, category, *where, **line)


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
    number = process_number()
    print(f"agrlearn{f' (process {number})' if number else ''}: {sentence}", file=sys.stderr)
    sys.exit(2)
