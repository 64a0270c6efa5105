"""How raw data became objects, as a run records it. What is read from a file is checked before it is used."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import numpy
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from agrlearn.data.columns import Boolean, Cells, ColumnName, Number
from agrlearn.data.date_columns import Date
from agrlearn.data.word_columns import Words
from agrlearn.errors import DataError

LARGEST_SIZE = 4096
"""The largest height and width to which images can be resized."""
_LONGEST_SENTENCE = 2**22  # words; no row of a table can hold more
_MOST_FEATURES = 2**20

Column = Annotated[Number | Boolean | Date | Words, Field(discriminator="kind")]
"""How one column of a table becomes features."""


class _Known(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class _Nothing(_Known):
    """Objects that were numbers already."""


class _Images(_Known):
    kind: Literal["images"]
    size: Annotated[int, Field(ge=1, le=LARGEST_SIZE)]


class _Sentences(_Known):
    kind: Literal["text"]
    text: ColumnName
    label: ColumnName | None
    words: list[str]
    length: Annotated[int, Field(ge=1, le=_LONGEST_SENTENCE)]
    cleaning: Literal["kim", "any-script"] = "kim"  # earlier versions did not write it


class TablePreparation(_Known):
    """How the columns of a table become vectors."""

    kind: Literal["table"] = "table"
    columns: Annotated[list[Column], Field(min_length=1)]
    label: ColumnName | None

    @property
    def width(self) -> int:
        """The number of features."""
        return sum(column.width for column in self.columns)

    def check(self, table: Mapping[str, Cells]) -> dict[int, str]:
        """The rows that cannot be used, and why."""
        found: dict[int, str] = {}
        for column in self.columns:
            found = column.check(table[column.column]) | found
        return found

    def apply(self, table: Mapping[str, Cells]) -> numpy.ndarray:
        """(rows, features): the rows of a table that has these columns."""
        return numpy.hstack([column.apply(table[column.column]) for column in self.columns])


_PREPARATION: TypeAdapter = TypeAdapter(_Nothing | _Images | _Sentences | TablePreparation)


def shape_of_objects(preparation: dict[str, Any]) -> tuple[int, ...] | None:
    """The shape of the objects; None if it depends on the data alone.

    >>> shape_of_objects({"kind": "images", "size": 32})
    (3, 32, 32)
    """
    match _parse(preparation):
        case _Images(size=size):
            return 3, size, size
        case _Sentences(length=length):
            return (length,)
        case TablePreparation(width=width):
            return (width,)
    return None


def table_preparation(preparation: dict[str, Any]) -> TablePreparation:
    """The preparation of a table, from the JSON that `Source.preparation` holds."""
    found = _parse(preparation)
    assert isinstance(found, TablePreparation)
    return found


def check_preparation(preparation: Any) -> dict[str, Any]:
    """Return the preparation if it has the form of `Source.preparation`, or raise a `DataError`.

    >>> check_preparation({"kind": "images", "size": 32})
    {'kind': 'images', 'size': 32}
    """
    _parse(preparation)
    return preparation


def _parse(preparation: Any) -> Any:
    try:
        found = _PREPARATION.validate_python(preparation)
        if isinstance(found, TablePreparation) and not 0 < found.width <= _MOST_FEATURES:
            raise ValueError
    except ValueError:
        raise DataError("the run's data record is not in the form that agrlearn writes; train it again") from None
    return found
