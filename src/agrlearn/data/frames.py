"""Tables and sentences in memory. Data frames are those of pandas or polars; neither is imported."""

from typing import Any

import numpy

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


def has_words(X: Any) -> bool:
    """Whether this is a two-dimensional array, or a list of rows, with texts in it.

    >>> has_words([[30, "f"], [41, "m"]]), has_words(numpy.zeros((2, 2)))
    (True, False)
    """
    if isinstance(X, numpy.ndarray):
        return X.ndim == 2 and X.dtype.kind in "OU" and any(isinstance(cell, str) for cell in X.flat)
    rows = isinstance(X, list | tuple) and all(isinstance(row, list | tuple) for row in X)
    return rows and any(isinstance(cell, str) for row in X for cell in row)


def cells_of_rows(rows: Any) -> dict[str, Cells]:
    """The cells of an array or a list of rows, by the numbers of its columns.

    >>> cells_of_rows([[30, "f"], [41, "m"]])
    {'0': [30, 41], '1': ['f', 'm']}
    """
    counts = {len(row) for row in rows}
    if len(counts) > 1:
        raise DataError(f"the rows have {min(counts)} to {max(counts)} cells; give all rows as many")
    return {str(number): list(column) for number, column in enumerate(zip(*rows, strict=True))}


def is_numeric(frame: Any) -> bool:
    """Whether all columns hold numbers, and no cell is empty."""
    kinds = [getattr(dtype, "kind", "") for dtype in frame.dtypes]
    if not kinds or any(kind not in "biuf" or kind == "" for kind in kinds):
        return False
    return not frame.isna().to_numpy().any()


def categories_in(frame: Any) -> list[str]:
    """The columns that are declared categorical, by pandas' category or polars' Categorical and Enum.

    >>> import pandas
    >>> categories_in(pandas.DataFrame({"age": [30, 41], "zip": pandas.Categorical([8001, 1010])}))
    ['zip']
    """
    declared = ("category", "Categorical", "Enum")
    types = zip(frame.columns, frame.dtypes, strict=True)
    return [str(name) for name, dtype in types if str(dtype).startswith(declared)]


def sentences_in(X: Any) -> list[str] | None:
    """The sentences in a list of strings, a series, or a table with one column of texts; None for anything else."""
    if is_frame(X) or (isinstance(X, numpy.ndarray) and X.ndim == 2):
        if X.shape[1] != 1 or len(X) == 0:
            return None
        X = next(iter(cells_of_frame(X).values())) if is_frame(X) else X[:, 0]
    return list(X) if _is_text(X) else None


def _is_text(X: Any) -> bool:
    return (isinstance(X, list | tuple) or getattr(X, "ndim", 0) == 1) and len(X) > 0 and isinstance(next(iter(X)), str)
