"""How raw data became objects, as a run records it. What is read from a file is checked before it is used."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from agrlearn.errors import DataError

LARGEST_SIZE = 4096
"""The largest height and width to which images can be resized."""
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
    """The shape of the objects; None if it depends on the data alone.

    >>> shape_of_objects({"kind": "images", "size": 32})
    (3, 32, 32)
    """
    match check_preparation(preparation):
        case {"kind": "images", "size": size}:
            return 3, size, size
        case {"kind": "text", "length": length}:
            return (length,)
        case {"kind": "table", "columns": columns}:
            return (len(columns),)
    return None


def check_preparation(preparation: Any) -> dict[str, Any]:
    """Return the preparation if it has the form of `Source.preparation`, or raise a `DataError`.

    >>> check_preparation({"kind": "images", "size": 32})
    {'kind': 'images', 'size': 32}
    """
    try:
        _PREPARATION.validate_python(preparation)
    except ValidationError:
        raise DataError("the run's data record is not in the form that agrlearn writes; train it again") from None
    return preparation
