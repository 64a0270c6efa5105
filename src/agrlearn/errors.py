"""The kinds of errors. Each message says what was expected, what was given, and what to do."""

import difflib
from collections.abc import Iterable, Mapping
from typing import TypeVar

Value = TypeVar("Value")
_LONGEST_NAME = 200
_MOST_CHOICES = 30


class AgrLearnError(Exception):
    """Something that the user can fix; the command line prints it as one sentence."""


class AgrLearnWarning(UserWarning):
    """Something that the user should know; the command line prints it as one sentence."""


class ShapeError(AgrLearnError, ValueError):
    """A tensor or a count does not fit."""


class DataError(AgrLearnError, ValueError):
    """A data set cannot be used as it is."""


class ConversionError(AgrLearnError, ValueError):
    """A model cannot be turned into an aggregated one."""


class RecipeError(AgrLearnError, ValueError):
    """A hyperparameter has a value that cannot work."""


class RunError(AgrLearnError, RuntimeError):
    """A run directory, a checkpoint or a saved network cannot be used."""


class TrainingError(AgrLearnError, RuntimeError):
    """Training cannot continue."""


class NotFiniteError(AgrLearnError, ArithmeticError):
    """A network's answers are NaN or infinite."""


class TheoryError(AgrLearnError, ValueError):
    """A probability table, or an option of the theory functions, cannot be used."""


class UnknownNameError(AgrLearnError, LookupError):
    """A name that is not in a catalogue."""


def look_up(catalogue: Mapping[str, Value], name: str, kind: str) -> Value:
    """The entry called `name`, or an error that lists the choices and the closest match.

    >>> look_up({"sgd": 1, "adam": 2}, "adm", "optimizer")
    Traceback (most recent call last):
    agrlearn.errors.UnknownNameError: no optimizer is called 'adm'; did you mean 'adam'? The choices are: sgd, adam
    """
    if name in catalogue:
        return catalogue[name]
    if len(name) > _LONGEST_NAME:  # perhaps from a file; comparing long names is slow
        name = f"{name[:_LONGEST_NAME]}…"
    choices = ", ".join(list(catalogue)[:_MOST_CHOICES])
    more = f" and {len(catalogue) - _MOST_CHOICES} more" if len(catalogue) > _MOST_CHOICES else ""
    raise UnknownNameError(f"no {kind} is called {name!r}; {hint(name, catalogue)} choices are: {choices}{more}")


def hint(name: str, choices: Iterable[str]) -> str:
    """How a sentence goes on that lists the choices: with the closest match, if one is close."""
    close = difflib.get_close_matches(name, choices, n=1)
    return f"did you mean {close[0]!r}? The" if close else "the"
