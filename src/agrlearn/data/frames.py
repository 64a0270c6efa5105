"""Data frames in memory, as pandas and polars make them. Neither is imported."""

from typing import Any

from agrlearn.data.columns import Cells
from agrlearn.errors import DataError


def is_frame(data: Any) -> bool:
    """Whether this is a table with named columns."""
    return hasattr(data, "columns") and hasattr(data, "dtypes") and hasattr(data, "shape")


def cells_of_frame(frame: Any) -> dict[str, Cells]:
    """The cells of every column, None where there is no value.

    >>> import pandas
    >>> cells_of_frame(pandas.DataFrame({"age": [30, None], "sex": ["f", None]}))
    {'age': [30.0, None], 'sex': ['f', None]}
    """
    names = [str(name) for name in frame.columns]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise DataError(f"two columns of the table are called {twice!r}; give each a name of its own")
    return {name: _cells(frame[column]) for name, column in zip(names, frame.columns, strict=True)}


def _cells(column: Any) -> list[Any]:
    if hasattr(column, "notna"):  # pandas has several values that mean there is none
        plain = column.astype(object)
        return plain.where(column.notna(), None).tolist()
    return column.to_list()


def is_numeric(frame: Any) -> bool:
    """Whether all columns hold numbers, and no cell is empty."""
    kinds = [getattr(dtype, "kind", "") for dtype in frame.dtypes]
    if not kinds or any(kind not in "biuf" or kind == "" for kind in kinds):
        return False
    return not frame.isna().to_numpy().any()
