"""agrlearn information"""

from pathlib import Path
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    import numpy


def information(
    x: Path, y: Path, /, *, bound: str = "dv", critic: Literal["separable", "concatenated"] = "separable", seed: int = 0
) -> None:
    """Estimate the mutual information between the samples in two files, X and Y, one row per sample.

    Parameters
    ----------
    x
        An .npy file, or a .csv or .tsv file of numbers, with or without a header.
    y
        Another such file, with the same number of rows.
    bound
        One of: dv, dv-average, nwj, infonce, smile, js.
    critic
        How pairs are scored.
    seed
        Decides how the samples are cut into parts, and the initial weights of the critics.
    """
    from agrlearn.information import estimate

    print(estimate(_rows(x), _rows(y), bound, critic, seed=seed))


def _rows(file: Path) -> "numpy.ndarray":
    import numpy

    from agrlearn.errors import DataError

    if not file.is_file():
        raise DataError(f"expected an .npy, .csv or .tsv file, got {file}, which is not a file")
    try:
        if file.suffix == ".npy":
            return numpy.load(file, allow_pickle=False)
        if file.suffix in (".csv", ".tsv"):
            delimiter = "," if file.suffix == ".csv" else "\t"
            with file.open() as text:
                has_header = any(not _is_number(cell) for cell in text.readline().split(delimiter))
            return numpy.loadtxt(file, delimiter=delimiter, skiprows=int(has_header))
    except (ValueError, EOFError) as error:
        raise DataError(f"expected numbers in {file}: {error}") from error
    raise DataError(f"expected an .npy, .csv or .tsv file, got {file}")


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True
