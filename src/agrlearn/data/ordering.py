"""An order of rows that does not depend on how they came."""

import numpy
import torch
from torch import Tensor

from agrlearn.data.labelled import LabelledSet
from agrlearn.grouping import first_tensor


def canonical_order(data: LabelledSet) -> Tensor:
    """The rows in an order of their own, so that training does not depend on how they came."""
    rows = first_tensor(data.objects).flatten(1).numpy()
    keys = [] if data.weights is None else [data.weights.numpy()]
    first = numpy.lexsort([*keys, data.labels.numpy()])
    # As bytes that sort as the numbers do, a row is one key however wide it is.
    return torch.from_numpy(first[_sortable(rows[first]).argsort(kind="stable")].copy())


def _sortable(rows: numpy.ndarray) -> numpy.ndarray:
    """(rows,): bytes that sort as (rows, features) numbers do, the first feature first.

    >>> _sortable(numpy.array([[1.0, 2.0], [1.0, -3.0], [-5.0, 0.0]], dtype="float32")).argsort().tolist()
    [2, 1, 0]
    """
    if rows.dtype == numpy.float32:
        bits = (rows + 0.0).view(numpy.int32)  # without -0.0, which equals 0.0
        rows = numpy.where(bits < 0, numpy.int32(-1) ^ bits ^ numpy.int32(-(2**31)), bits)
    if rows.dtype.kind == "i":
        unsigned = rows.dtype.str.replace("i", "u")
        rows = (rows ^ numpy.iinfo(rows.dtype).min).view(unsigned)
    big = numpy.ascontiguousarray(rows, dtype=rows.dtype.newbyteorder(">"))
    return big.view(f"V{big.shape[1] * big.itemsize}")[:, 0]
