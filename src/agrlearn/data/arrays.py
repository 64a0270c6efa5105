"""Make objects from plain arrays, in memory or in an .npz file."""

import warnings
import zipfile
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any

import numpy
import torch
from torch import Tensor

from agrlearn.data.sources import Part
from agrlearn.errors import AgrLearnWarning, DataError

_CHANNEL_COUNTS = (1, 3, 4)
_ROWS_AT_ONCE = 4096
_LARGE, _SQUEEZED = 2**28, 100  # bytes, and times: a file beyond both is a decompression bomb


def objects_from_array(array: Any, *, origin: str = "the data set") -> Tensor:
    """Make objects from an array of numbers.

    Args:
        array: (objects, features) for vectors, (objects, height, width) for grey images, or images with their channels
            second or last. Bytes stay bytes, everything else becomes float32, with a warning for features whose values
            float32 cannot distinguish.
    Returns:
        (objects, features) or (objects, channels, height, width).

    >>> objects_from_array(numpy.zeros((5, 8, 8, 3), dtype="uint8")).shape
    torch.Size([5, 3, 8, 8])
    """
    values = numpy.asarray(array)
    if values.dtype.kind not in "fiub":
        raise DataError(f"{origin}: expected x to hold numbers in one array of equal shapes, got {values.dtype} values")
    if values.ndim not in (2, 3, 4):
        raise DataError(
            f"{origin}: expected x of shape (objects, features), (objects, height, width) or "
            f"(objects, channels, height, width), got {values.shape}"
        )
    if 0 in values.shape:
        raise DataError(f"{origin} is empty: x has shape {values.shape}")
    if values.ndim == 3:
        values = values[:, None]
    elif values.ndim == 4 and values.shape[1] not in _CHANNEL_COUNTS and values.shape[3] in _CHANNEL_COUNTS:
        values = values.transpose(0, 3, 1, 2)
    if values.dtype.kind == "b":
        values = values.astype(numpy.uint8)
    exact = values
    if values.dtype != numpy.uint8:
        with numpy.errstate(over="ignore"):  # too large for float32: found as infinite below
            values = values.astype(numpy.float32)
    objects = torch.from_numpy(numpy.ascontiguousarray(values))
    check_finite(objects, origin=origin)
    if values.ndim == 2 and values.dtype != exact.dtype:
        _warn_of_lost_features(exact, values, origin)
    return objects


def _warn_of_lost_features(exact: numpy.ndarray, rounded: numpy.ndarray, origin: str) -> None:
    """Warn of features that rounding has made constant, such as times in seconds since 1970."""
    constant = numpy.flatnonzero(rounded.max(axis=0) == rounded.min(axis=0))
    lost = [feature for feature in constant if (exact[:, feature] != exact[0, feature]).any()]
    if lost:
        low, high = exact[:, lost[0]].min(), exact[:, lost[0]].max()
        others = f" (and {len(lost) - 1} more features)" if len(lost) > 1 else ""
        warnings.warn(
            f"{origin}: feature {lost[0]}{others} ranges from {low} to {high}, which float32 cannot distinguish, so "
            "nothing can be learned from it; subtract its mean first, as scikit-learn's StandardScaler does",
            AgrLearnWarning,
            stacklevel=3,
        )


def check_finite(objects: Tensor, *, origin: str = "the data set") -> None:
    """Refuse NaN and infinite values, naming the first object that has one."""
    if not objects.is_floating_point():
        return
    for first in range(0, len(objects), _ROWS_AT_ONCE):
        finite = torch.isfinite(objects[first : first + _ROWS_AT_ONCE]).flatten(1).all(dim=1)
        if not finite.all():
            row = first + int((~finite).nonzero()[0])
            raise DataError(f"{origin}: object {row} has NaN or infinite values; fix or remove it")


def read_npz(path: Path, *, labels: bool = True) -> Part:
    """Read `x` and, if there is one, `y` of an .npz file; pickled objects are refused.

    Args:
        labels: False leaves out a `y` that cannot be used, instead of refusing the file.
    """
    if not path.is_file():
        raise DataError(f"{path} is not a file; expected an .npz file with arrays x and y")
    try:
        with zipfile.ZipFile(path) as members:
            for member in members.infolist():
                if member.file_size > max(_LARGE, _SQUEEZED * member.compress_size):
                    raise DataError(
                        f"{path} unpacks to {member.file_size / 1e9:.1f} GB, more than {_SQUEEZED} times its size; "
                        "if this is intended, write it with numpy.savez, which does not compress"
                    )
        with numpy.load(path, allow_pickle=False) as arrays:
            if "x" not in arrays:
                raise DataError(f"{path} has no array called x; it has: {', '.join(arrays) or 'nothing'}")
            x, y = arrays["x"], None
            with nullcontext() if labels else suppress(Exception):
                y = arrays.get("y")
    except DataError:
        raise
    except Exception as error:  # numpy and its decompressors raise many kinds of errors for damaged files
        if "allow_pickle" in str(error):
            raise DataError(
                f"{path} has a pickled array, as numpy writes for objects of different shapes and for arrays of "
                "Python strings; give all objects one shape and plain numbers, and labels as y.astype(str)"
            ) from error
        raise DataError(
            f"{path} cannot be read as an .npz file of plain arrays ({error}); write it with numpy.savez"
        ) from error
    objects = objects_from_array(x, origin=str(path))
    if y is not None and y.shape != (len(objects),):
        if not labels:
            return Part(objects)
        raise DataError(f"{path}: expected y with one label for each of {len(objects)} objects, got shape {y.shape}")
    return Part(objects, y)
