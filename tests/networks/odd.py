"""Classifiers that are unusual inside, in what they take, or in what they give."""

from dataclasses import dataclass
from types import SimpleNamespace

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils import parametrizations
from torch.nn.utils.rnn import pack_padded_sequence
from torch.utils.checkpoint import checkpoint


class Odd(nn.Module):
    """Vectors of 6, features of 8, scores of 5 classes; `body` and `end` are what is unusual."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(6, 8)
        self.second = nn.Linear(8, 8)
        self.out = nn.Linear(8, 5)

    def features(self, x: Tensor) -> Tensor:
        return self.second(self.first(x).relu()).tanh()

    def forward(self, x: Tensor) -> object:
        return self.out(self.features(x))


class EmbeddingFirst(Odd):
    def forward(self, x):
        embedding = self.second(self.first(x).relu())
        return embedding, self.out(embedding)


class ScoresFirst(EmbeddingFirst):
    def forward(self, x):
        return super().forward(x)[::-1]


class FeaturesFirst(Odd):
    """Features that are no layer's output, from layers that are frozen."""

    def __init__(self) -> None:
        super().__init__()
        self.first.requires_grad_(False)
        self.second.requires_grad_(False)

    def forward(self, x):
        features = self.features(x)
        return features, self.out(features)


@dataclass
class Answer:
    scores: Tensor
    hidden: Tensor


class InADataclass(Odd):
    def forward(self, x):
        hidden = self.features(x)
        return Answer(self.out(hidden), hidden)


class InAMapping(Odd):
    def forward(self, x):
        return {"loss": None, "prediction": {"scores": self.out(self.features(x)).softmax(dim=1)}}


class InANamespace(Odd):
    def forward(self, x):
        return SimpleNamespace(logits=self.out(self.features(x)), hidden=x)


class TakesABatch(Odd):
    def forward(self, batch: dict):
        return {"logits": self.out(self.features(batch["vectors"]) * batch["weight"][:, None])}


class ByKeyword(Odd):
    class Head(nn.Linear):
        def forward(self, *, features):
            return super().forward(features)

    def __init__(self) -> None:
        super().__init__()
        self.out = self.Head(8, 5)

    def forward(self, x):
        return self.out(features=self.features(x))


class InPlace(Odd):
    def forward(self, x):
        x.sub_(0.5).mul_(2)
        return self.out(self.features(x))


class AlwaysDropout(Odd):
    def features(self, x):
        return F.dropout(super().features(x), 0.3, training=True)


class ZeroStart(Odd):
    """Two layers of the class scores' shape that make the same at first."""

    def __init__(self) -> None:
        super().__init__()
        self.early = nn.Linear(8, 5)
        for layer in (self.early, self.out):
            nn.init.zeros_(layer.weight)
            nn.init.zeros_(layer.bias)

    def forward(self, x):
        x = self.features(x)
        self.early(x)
        return self.out(x)


class AfterEveryLayer(Odd):
    """Scores after every layer, of which the last count."""

    def forward(self, x):
        x = self.first(x).relu()
        scores = [self.out(x)]
        for _ in range(2):
            x = self.second(x).tanh()
            scores.append(self.out(x))
        return scores[-1]


class FirstOfTwo(Odd):
    """Runs its class layer a second time, for nothing."""

    def forward(self, x):
        x = self.first(x).relu()
        scores = self.out(x)
        self.out(self.second(x))
        return scores


class Checkpointed(Odd):
    def __init__(self, *, reentrant: bool = False, whole: bool = False) -> None:
        super().__init__()
        self.reentrant, self.whole = reentrant, whole

    def forward(self, x):
        if not self.training:
            return super().forward(x)
        if self.whole:
            return checkpoint(super().forward, x.requires_grad_(), use_reentrant=self.reentrant)
        return self.out(checkpoint(self.features, x.requires_grad_(), use_reentrant=self.reentrant))


class OnlyWhileTraining(Odd):
    """Gives auxiliary scores beside its own in train mode."""

    def __init__(self) -> None:
        super().__init__()
        self.auxiliary = nn.Linear(8, 5)

    def forward(self, x):
        hidden = self.first(x).relu()
        scores = self.out(self.second(hidden).tanh())
        return (scores, self.auxiliary(hidden)) if self.training else scores


class Experts(Odd):
    """Sends every object to one of two experts."""

    def __init__(self) -> None:
        super().__init__()
        self.router = nn.Linear(8, 2)

    def features(self, x):
        x = self.first(x).relu()
        gate, chosen = self.router(x).softmax(dim=1).max(dim=1)
        mixed = torch.zeros_like(x)
        for number, expert in enumerate((self.second, nn.Identity())):
            mine = chosen == number
            mixed[mine] = expert(x[mine])
        return mixed * gate[:, None]


class Straight(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.sign()

    @staticmethod
    def backward(ctx, gradient):
        return gradient


class Binary(Odd):
    def features(self, x):
        return Straight.apply(super().features(x))


class Packed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(30, 8, padding_idx=0)
        self.recurrent = nn.GRU(8, 12, batch_first=True)
        self.out = nn.Linear(12, 5)

    def forward(self, tokens):
        lengths = (tokens != 0).sum(dim=1).cpu()
        packed = pack_padded_sequence(self.embed(tokens), lengths, batch_first=True, enforce_sorted=False)
        return self.out(self.recurrent(packed)[1][0])


class Table(nn.Module):
    """Whole-numbered columns, with an embedding each."""

    def __init__(self) -> None:
        super().__init__()
        self.columns = nn.ModuleList(nn.Embedding(size, 4) for size in (3, 7, 12))
        self.out = nn.Linear(12, 5)

    def forward(self, table):
        x = torch.cat([column(table[:, place]) for place, column in enumerate(self.columns)], dim=1)
        return self.out(x.view(table.shape[0], -1).relu())


class Tied(nn.Module):
    """Predicts a word by the embedding's own weights."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(30, 8)
        self.mix = nn.Linear(8, 8)
        self.out = nn.Linear(8, 30, bias=False)
        self.out.weight = self.embed.weight

    def forward(self, tokens):
        return self.out(self.mix(self.embed(tokens)).mean(dim=1))


class LastWord(nn.Module):
    """Scores every position, and picks that of the last word."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(30, 8, padding_idx=0)
        self.recurrent = nn.GRU(8, 8, batch_first=True)
        self.score = nn.Linear(8, 5)

    def forward(self, tokens):
        scores = self.score(self.recurrent(self.embed(tokens))[0])
        return scores[torch.arange(len(tokens)), (tokens != 0).sum(dim=1) - 1]


class Audio(nn.Module):
    """A signal without channels."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv1d(1, 8, 9, stride=4)
        self.out = nn.Linear(8, 5)

    def forward(self, signal):
        return self.out(self.first(signal.unsqueeze(1)).relu().mean(dim=2))


class PooledByItsHead(nn.Module):
    """A head that scores every position and pools, as in SqueezeNet."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 8, 3)
        self.head = nn.Sequential(
            nn.ReLU(inplace=True), nn.Conv2d(8, 5, 1), nn.ReLU(inplace=True), nn.AdaptiveAvgPool2d(1)
        )

    def forward(self, images):
        return self.head(self.first(images)).flatten(1)


class Scaled(Odd):
    """Scales what its class layer makes, with a factor and a shift of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.start = nn.Parameter(torch.rand(6))
        self.factor, self.shift = nn.Parameter(torch.tensor(0.5)), nn.Parameter(torch.rand(5))

    def forward(self, x):
        return {"logits": super().forward(x * self.start) * self.factor.exp() + self.shift}


class NormalisedScores(Odd):
    """Normalises and bounds what its class layer makes."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(5)

    def forward(self, x):
        return 3 * (self.norm(self.out(self.features(x))) / 3).tanh().view(len(x), -1)


class PooledMaps(nn.Module):
    """Scores every position of an image and takes their mean."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 8, 3)
        self.score = nn.Conv2d(8, 5, 1)

    def forward(self, images):
        return self.score(self.first(images).relu()).relu().mean(dim=(2, 3))


def lazy():
    model = nn.Sequential(nn.LazyLinear(8), nn.ReLU(), nn.LazyLinear(5))
    model(torch.rand(2, 6))
    return model


def normalised(kind):
    def make():
        model = Odd()
        for name in ("first", "out"):
            setattr(model, name, kind(getattr(model, name)))
        model(torch.rand(2, 6))  # leaves a weight with a history behind
        return model

    return make


def vectors():
    return torch.rand(4, 6)


def words():
    drawn = torch.randint(1, 30, (4, 7))
    drawn[1::2, 5:] = 0
    return drawn


# name: (model, example)
ODD = {
    "embedding first": (EmbeddingFirst, vectors),
    "scores first": (ScoresFirst, vectors),
    "features first": (FeaturesFirst, vectors),
    "dataclass": (InADataclass, vectors),
    "mapping of probabilities": (InAMapping, vectors),
    "namespace": (InANamespace, vectors),
    "forward(batch)": (TakesABatch, lambda: {"vectors": vectors(), "weight": torch.rand(4)}),
    "by keyword": (ByKeyword, vectors),
    "in place": (InPlace, vectors),
    "zero start": (ZeroStart, vectors),
    "after every layer": (AfterEveryLayer, vectors),
    "first of two": (FirstOfTwo, vectors),
    "checkpointed": (Checkpointed, vectors),
    "checkpointed whole": (lambda: Checkpointed(whole=True), vectors),
    "reentrant checkpoint": (lambda: Checkpointed(reentrant=True), vectors),
    "auxiliary in training": (OnlyWhileTraining, vectors),
    "experts": (Experts, vectors),
    "custom autograd": (Binary, vectors),
    "packed": (Packed, words),
    "table": (Table, lambda: torch.randint(0, 3, (4, 3))),
    "tied": (Tied, words),
    "last word": (LastWord, words),
    "audio": (Audio, lambda: torch.randn(4, 100)),
    "pooled by its head": (PooledByItsHead, lambda: torch.rand(4, 3, 8, 8)),
    "scaled": (Scaled, vectors),
    "normalised scores": (NormalisedScores, vectors),
    "pooled maps": (PooledMaps, lambda: torch.rand(4, 3, 8, 8)),
    "a linear layer alone": (lambda: nn.Linear(6, 5), vectors),
    "lazy": (lazy, vectors),
    "weight norm": (normalised(nn.utils.weight_norm), vectors),
    "spectral norm": (normalised(nn.utils.spectral_norm), vectors),
    "parametrized": (normalised(parametrizations.weight_norm), vectors),
}
