"""How raw data became objects, as a run remembers it: what is read from a file is checked before it is followed."""

from collections.abc import Callable
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from agrlearn.errors import DataError

LARGEST_SIZE = 4096
"""Pixels a side to which images can be brought."""
_LONGEST_SENTENCE = 2**22  # words; no row of a table can hold more


LONGEST_COLUMN = 1000
"""Characters in the name of a column."""
_Column = Annotated[str, Field(max_length=LONGEST_COLUMN)]


class _Known(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class _Nothing(_Known):
    """Objects that were numbers already."""


class _Images(_Known):
    kind: Literal["images"]
    size: Annotated[int, Field(ge=1, le=LARGEST_SIZE)]


class _Sentences(_Known):
    kind: Literal["text"]
    text: _Column
    label: _Column | None
    words: list[str]
    length: Annotated[int, Field(ge=1, le=_LONGEST_SENTENCE)]
    cleaning: Literal["kim", "any-script"] = "kim"  # earlier versions did not write it


class _Vectors(_Known):
    kind: Literal["table"]
    columns: Annotated[list[_Column], Field(min_length=1)]
    label: _Column | None


_PREPARATION: TypeAdapter = TypeAdapter(_Nothing | _Images | _Sentences | _Vectors)


def shape_of_objects(preparation: dict[str, Any]) -> tuple[int, ...] | None:
    """The shape of the objects that are made so; None where it depends on the data alone.

    >>> shape_of_objects({"kind": "images", "size": 32})
    (3, 32, 32)
    """
    check_preparation(preparation)
    makers: dict[str | None, Callable[[], tuple[int, ...]]] = {
        "images": lambda: (3, preparation["size"], preparation["size"]),
        "text": lambda: (preparation["length"],),
        "table": lambda: (len(preparation["columns"]),),
    }
    make = makers.get(preparation.get("kind"))
    return make() if make else None


def check_preparation(told: Any) -> dict[str, Any]:
    """What a run remembers of its data, if it is of the form that `Source.preparation` has.

    >>> check_preparation({"kind": "images", "size": 32})
    {'kind': 'images', 'size': 32}
    """
    try:
        _PREPARATION.validate_python(told)
    except ValidationError:
        raise DataError(
            "what the run remembers of its data is not of the form that agrlearn writes; train it again"
        ) from None
    return told
