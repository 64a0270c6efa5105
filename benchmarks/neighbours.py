"""Packages that do something of the same, for comparison only: installed by ./run bench into a folder of their own."""

import functools
import sys
from pathlib import Path

import torch

FOLDER = Path(sys.prefix) / "neighbours"
"""Their dependencies would replace numpy and could replace torch, so ./run installs them here, without."""


@functools.cache
def find_neighbours() -> object:
    """Let them be imported, after everything that is installed properly."""
    sys.path.append(str(FOLDER))
    try:
        import torchvision  # noqa: F401
    except RuntimeError:  # its compiled operators do not fit this torch; none of them is used here
        library = torch.library.Library("torchvision", "FRAGMENT")
        for name in ("nms", "qnms"):
            library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        return library  # kept alive by the cache: a library takes its operators with it
    except ImportError:
        pass
    return None
