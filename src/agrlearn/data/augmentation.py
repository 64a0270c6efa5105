"""Random crops and mirrored images, a whole batch at a time; `fit(augment=...)` takes these functions as they are."""

import torch
from torch import Tensor
from torch.nn import functional

from agrlearn.errors import ShapeError
from agrlearn.grouping import Objects


def crop_and_flip(objects: Objects, random: torch.Generator, *, padding: int = 4, flip: bool = True) -> Tensor:
    """The usual augmentation of CIFAR: each image is shifted by up to `padding` pixels, and mirrored half of the time.

    Args:
        objects: (objects, channels, height, width) images of any type, not yet normalised: what a shift uncovers is
            black, that is 0.
        random: a CPU generator, whatever the device of the images; every image has draws of its own.
    Returns:
        images of the same shape and type.

    >>> crop_and_flip(torch.ones(5, 3, 32, 32, dtype=torch.uint8), torch.Generator()).shape
    torch.Size([5, 3, 32, 32])
    """
    if not isinstance(objects, Tensor) or objects.ndim != 4:
        given = tuple(objects.shape) if isinstance(objects, Tensor) else type(objects).__name__
        raise ShapeError(
            f"expected images of shape (objects, channels, height, width), got {given}; train other objects without "
            "crop_and_flip"
        )
    count, channels, height, width = objects.shape
    shifts = torch.randint(0, 2 * padding + 1, (2, count, 1), generator=random)
    mirrored = torch.randint(0, 2, (count, 1), generator=random).bool() & flip
    columns = torch.arange(width)
    rows = shifts[0] + torch.arange(height)
    columns = shifts[1] + torch.where(mirrored, columns.flip(0), columns)
    padded = functional.pad(objects, (padding, padding, padding, padding))
    # One gather over flat pixels: several times faster than indexing by four tensors, or than a loop over images.
    pixels = (rows[:, :, None] * padded.shape[3] + columns[:, None, :]).view(count, 1, -1).to(objects.device)
    return padded.flatten(2).gather(2, pixels.expand(-1, channels, -1)).view(objects.shape)
