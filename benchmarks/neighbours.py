"""Packages that do something of the same, for comparison only: installed by ./run bench into a folder of their own."""

import sys
from pathlib import Path

from tests.networks.foreign import declare_missing_operators

FOLDER = Path(sys.prefix) / "neighbours"
"""Their dependencies would replace numpy and could replace torch, so ./run installs them here, without."""


def find_neighbours() -> None:
    """Let them be imported, after everything that is installed properly."""
    if str(FOLDER) not in sys.path:
        sys.path.append(str(FOLDER))
    declare_missing_operators()
