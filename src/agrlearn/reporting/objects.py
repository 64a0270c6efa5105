"""An object as a person can look at it: a small picture, a sentence, or its first numbers."""

import base64
import io
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from agrlearn.data.text import PADDING, UNKNOWN
from agrlearn.grouping import Objects, first_tensor

_MOST_PIXELS, _MOST_CHARACTERS, _MOST_NUMBERS = 96, 300, 8
_CHANNELS = (1, 3, 4)


@dataclass(frozen=True)
class HardObject:
    """An object that a network gets wrong, or nearly."""

    place: str
    """Its row, its file, or its number in the data."""
    truth: str
    likelihood: float
    """What the heads together give its true class."""
    verdicts: tuple[tuple[str, float], ...]
    """Each head's class, and how sure it is."""
    picture: str | None
    """A data URI."""
    text: str


def show_object(objects: Objects, number: int, words: Sequence[str]) -> tuple[str | None, str]:
    """A picture as a data URI, or None, and a text."""
    tensor = first_tensor(objects)
    one = tensor[number].cpu()
    if one.dim() == 3 and one.shape[0] in _CHANNELS:
        return _picture(one, tensor), f"{one.shape[2]} × {one.shape[1]} pixels"
    if one.dtype == torch.int64 and words:
        sentence = " ".join(_word(token, words) for token in one.tolist() if token != PADDING)
        return None, sentence if len(sentence) <= _MOST_CHARACTERS else sentence[:_MOST_CHARACTERS] + " …"
    numbers = [f"{value:.4g}" for value in one.flatten()[:_MOST_NUMBERS].tolist()]
    return None, ", ".join(numbers) + (", …" if one.numel() > _MOST_NUMBERS else "")


def _picture(pixels: Tensor, like: Tensor) -> str:
    """A PNG; greys run over the range that the first of the objects have, since bytes need not run to 255."""
    from PIL import Image

    least, most = (float(bound) for bound in like[:256].float().aminmax())
    if pixels.dtype == torch.uint8 and most > 127:
        least, most = 0.0, 255.0
    bytes_ = ((pixels.float() - least) / max(most - least, 1e-12) * 255).round().clamp(0, 255).to(torch.uint8)
    rows = bytes_.permute(1, 2, 0)
    image = Image.fromarray((rows.squeeze(2) if len(pixels) == 1 else rows).contiguous().numpy())
    image.thumbnail((_MOST_PIXELS, _MOST_PIXELS))
    file = io.BytesIO()
    image.save(file, "PNG", optimize=True)
    return "data:image/png;base64," + base64.b64encode(file.getvalue()).decode()


def _word(token: int, words: Sequence[str]) -> str:
    place = token - UNKNOWN - 1
    return words[place] if 0 <= place < len(words) else "▢"
