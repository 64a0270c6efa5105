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
        An .npy file, or numbers in a .csv or .tsv file, with or without a line of names.
    y
        Likewise, with as many rows.
    bound
        One of: dv, dv-average, nwj, infonce, smile, js.
    critic
        How pairs are scored.
    seed
        Decides how the samples are cut into parts, and the critics' beginnings.
    """
    from agrlearn.information import estimate

    print(estimate(_rows(x), _rows(y), bound, critic, seed=seed))


def _rows(file: Path) -> "numpy.ndarray":
    import numpy

    from agrlearn.errors import DataError

    if not file.is_file():
        raise DataError(f"{file} is not a file; expected an .npy, .csv or .tsv file")
    try:
        if file.suffix == ".npy":
            return numpy.load(file, allow_pickle=False)
        if file.suffix in (".csv", ".tsv"):
            delimiter = "," if file.suffix == ".csv" else "\t"
            with file.open() as text:
                names = any(not _is_number(cell) for cell in text.readline().split(delimiter))
            return numpy.loadtxt(file, delimiter=delimiter, skiprows=int(names))
    except (ValueError, EOFError) as error:
        raise DataError(f"{file} could not be read as numbers: {error}") from error
    raise DataError(f"{file}: expected an .npy, .csv or .tsv file")


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True
