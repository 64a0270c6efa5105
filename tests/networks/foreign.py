"""Models that nobody here wrote, or that look like it."""

import functools

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from agrlearn.networks.convert import INPUT, aggregate


def aggregate_within(model, fold, example, **options):
    """`aggregate` the surgical way: at the input, unless another place or join is named."""
    if options.get("at") is None and options.get("join") is None:
        options["at"] = INPUT
    return aggregate(model, fold, example, **options)


@functools.cache
def declare_missing_operators():
    """Make torchvision importable, as timm, Lightning and transformers ask where it is installed.

    Beside a CPU-only torch its compiled operators may be missing; then their names suffice.
    """
    try:
        import torchvision  # noqa: F401
    except RuntimeError:
        library = torch.library.Library("torchvision", "FRAGMENT")
        for name in ("nms", "qnms"):
            library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        return library  # kept alive by the cache: a library takes its operators with it
    except ImportError:
        pass


def import_timm():
    declare_missing_operators()
    import timm

    return timm


class FunctionalNet(nn.Module):
    """Convolutions with everything else as functions, and an own way to normalise the input."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 8, 3, padding=1)
        self.second = nn.Conv2d(8, 16, 3, padding=1)
        self.out = nn.Linear(16 * 4 * 4, 5)

    def forward(self, images: Tensor) -> Tensor:
        x = (images - 0.5) * 2
        x = F.max_pool2d(F.relu(self.first(x)), 2)
        x = F.adaptive_avg_pool2d(F.relu(self.second(x)), 4)
        return F.log_softmax(self.out(torch.flatten(x, 1)), dim=1)


class TwoBranches(nn.Module):
    """Two stems on one input, and a residual sum."""

    def __init__(self) -> None:
        super().__init__()
        self.narrow = nn.Conv2d(3, 8, 1)
        self.wide = nn.Conv2d(3, 8, 3, padding=1)
        self.middle = nn.Conv2d(8, 8, 3, padding=1)
        self.out = nn.Linear(8, 5)

    def forward(self, images: Tensor) -> Tensor:
        x = self.narrow(images) + self.wide(images)
        x = x + self.middle(x).relu()
        return self.out(x.mean(dim=(2, 3)))


class NormFirst(nn.Module):
    """A batch normalisation before the first layer."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleDict(
            {"norm": nn.BatchNorm2d(3), "conv": nn.Conv2d(3, 8, 3), "out": nn.Conv2d(8, 5, 1, bias=False)}
        )

    def forward(self, images: Tensor) -> Tensor:
        x = self.layers["conv"](self.layers["norm"](images)).relu()
        return self.layers["out"](F.adaptive_avg_pool2d(x, 1)).flatten(1)


class Recurrent(nn.Module):
    """Words, a recurrent layer, and its last state."""

    def __init__(self, kind: type[nn.RNNBase] = nn.LSTM) -> None:
        super().__init__()
        self.embed = nn.Embedding(30, 8, padding_idx=0)
        self.recurrent = kind(8, 12, batch_first=True, bidirectional=True)
        self.out = nn.Linear(24, 5)

    def forward(self, tokens: Tensor) -> Tensor:
        _, state = self.recurrent(self.embed(tokens))
        hidden = state[0] if isinstance(state, tuple) else state
        return self.out(torch.cat([hidden[0], hidden[1]], dim=1))


class SeriesReader(nn.Module):
    """A series of 4 features, with the features last or before its length."""

    def __init__(self, kind: type[nn.LSTM | nn.Linear], *, features_last: bool) -> None:
        super().__init__()
        self.features_last = features_last
        self.first = kind(4, 12, batch_first=True) if issubclass(kind, nn.LSTM) else kind(4, 12)
        self.out = nn.Linear(12, 5)

    def forward(self, series: Tensor) -> Tensor:
        read = self.first(series if self.features_last else series.transpose(1, 2))
        return self.out((read[0] if isinstance(read, tuple) else read).tanh().sum(dim=1))


class Siamese(nn.Module):
    """A layer that reads the input twice."""

    def __init__(self) -> None:
        super().__init__()
        self.encode = nn.Conv2d(3, 8, 3)
        self.out = nn.Linear(8, 5)

    def forward(self, images: Tensor) -> Tensor:
        both = self.encode(images) + self.encode(images.flip(3))
        return self.out(both.mean(dim=(2, 3)))


class FixedShape(nn.Module):
    """Reshapes by the number of channels it expects."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv1d(3, 8, 3)
        self.out = nn.Linear(8, 5)

    def forward(self, images: Tensor) -> Tensor:
        return self.out(self.first(images.view(-1, 3, 64)).mean(dim=2))


class TiedWeights(nn.Module):
    """A classifier that shares its weight with another layer."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(6, 6)
        self.second = nn.Linear(6, 6)
        self.second.weight = self.first.weight

    def forward(self, vectors: Tensor) -> Tensor:
        return self.second(self.first(vectors).relu())


class TwoInputs(nn.Module):
    """An image and a vector about it."""

    def __init__(self) -> None:
        super().__init__()
        self.image = nn.Conv2d(3, 8, 3)
        self.about = nn.Linear(4, 8)
        self.together = nn.Linear(16, 16)
        self.out = nn.Linear(16, 5)

    def forward(self, image: Tensor, about: Tensor) -> Tensor:
        x = torch.cat([self.image(image).mean(dim=(2, 3)), self.about(about)], dim=1)
        return self.out(self.together(x).relu())


def nested() -> nn.Module:
    block = nn.Sequential(nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8)), nn.ReLU(inplace=True))
    return nn.Sequential(block, nn.Sequential(nn.Conv2d(8, 8, 3), nn.ReLU(), nn.Flatten()), nn.Linear(8 * 36, 5))


def perceptron() -> nn.Module:
    return nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 5))


def series() -> nn.Module:
    return nn.Sequential(
        nn.Conv1d(2, 8, 5, stride=2), nn.BatchNorm1d(8), nn.ReLU(), nn.Conv1d(8, 16, 3), nn.AdaptiveAvgPool1d(1),
        nn.Flatten(), nn.Linear(16, 5),
    )  # fmt: skip


def volume() -> nn.Module:
    return nn.Sequential(nn.Conv3d(1, 4, 3), nn.ReLU(), nn.AdaptiveAvgPool3d(1), nn.Flatten(), nn.Linear(4, 5))


def images(count: int = 6) -> Tensor:
    return torch.rand(count, 3, 8, 8)


def tokens(count: int = 6) -> Tensor:
    drawn = torch.randint(1, 30, (count, 7))
    drawn[:, 5:] = 0
    return drawn


def tiny_bert():
    """A real BERT classifier, made small, with random weights."""
    declare_missing_operators()
    import transformers

    config = transformers.BertConfig(
        vocab_size=50, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32, num_labels=5
    )
    return transformers.BertForSequenceClassification(config)


def bert_tokens(count: int = 6) -> dict[str, Tensor]:
    ids = torch.randint(4, 50, (count, 7))
    mask = torch.ones_like(ids)
    mask[1::2, 5:] = 0
    return {"input_ids": ids * mask, "attention_mask": mask}
