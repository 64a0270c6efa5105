"""Raw objects to numbers a network likes, inside the network, so that it never meets data prepared differently."""

import torch
from torch import Tensor, nn

_OBJECTS_AT_ONCE = 4096


class Standardize(nn.Module):
    """Subtract a mean and divide by a spread, per channel of images or per feature of vectors.

    Args:
        size: the number of channels or features.

    >>> layer = Standardize(2).fit(torch.tensor([[0, 10], [4, 30]], dtype=torch.uint8))
    >>> layer(torch.tensor([[4, 30]], dtype=torch.uint8))
    tensor([[1., 1.]])
    """

    mean: Tensor
    spread: Tensor

    def __init__(self, size: int) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(size))
        self.register_buffer("spread", torch.ones(size))

    def fit(self, objects: Tensor) -> "Standardize":
        """Take mean and spread from the training objects, a few at a time; constant features keep a spread of 1.

        A feature is constant if float32 hardly distinguishes it from its mean, however small the numbers are.
        """
        shape = (-1, *[1] * (objects.ndim - 2))
        # Sums of the differences to the first object: of a constant they are 0, without any rounding.
        first = objects[:1].transpose(0, 1).flatten(1)[:, 0].to(torch.float64)
        total = torch.zeros_like(self.mean, dtype=torch.float64)
        squares = torch.zeros_like(total)
        dimensions = [dimension for dimension in range(objects.ndim) if dimension != 1]
        for some in objects.split(_OBJECTS_AT_ONCE):
            values = some.to(torch.float64) - first.view(shape)
            total += values.sum(dim=dimensions)
            squares += values.square().sum(dim=dimensions)
        count = objects.numel() / len(total)
        mean = first + total / count
        spread = (squares / count - (total / count).square()).clamp(min=0).sqrt()
        self.mean.copy_(mean)
        least = (1e-7 * mean.abs()).clamp(min=torch.finfo(self.spread.dtype).tiny)
        self.spread.copy_(torch.where(spread > least, spread, 1.0))
        return self

    def forward(self, objects: Tensor) -> Tensor:
        mean, spread = self.mean, self.spread
        if objects.ndim > 2:
            shape = (-1, *[1] * (objects.ndim - 2))
            mean, spread = mean.view(shape), spread.view(shape)
        return (objects.to(mean.dtype) - mean) / spread
