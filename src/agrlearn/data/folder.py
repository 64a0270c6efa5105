"""The folder of published data sets."""

import os
from pathlib import Path

FOLDER_VARIABLE = "AGRLEARN_DATA"
"""The environment variable that names the folder of published data sets."""
_DEFAULT_FOLDER = "~/.cache/agrlearn"


def data_folder(chosen: str | Path | None = None) -> Path:
    """The chosen folder, that of AGRLEARN_DATA, or one in the user's cache."""
    return Path(chosen or os.environ.get(FOLDER_VARIABLE) or _DEFAULT_FOLDER).expanduser()
