"""Where data sets lie as they are published."""

import os
from pathlib import Path

FOLDER_VARIABLE = "AGRLEARN_DATA"
"""The environment variable that names the folder of data sets as they are published."""
_DEFAULT_FOLDER = "~/.cache/agrlearn"


def data_folder(chosen: str | Path | None = None) -> Path:
    """The folder of published data sets: the chosen one, that of AGRLEARN_DATA, or one in the user's cache."""
    return Path(chosen or os.environ.get(FOLDER_VARIABLE) or _DEFAULT_FOLDER).expanduser()
