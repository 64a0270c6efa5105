"""Wrap, fine-tune, unwrap: a timm model with weights of one's own."""

import tempfile
from pathlib import Path

import timm
import torch
from torch import nn
from torch.nn import functional as F

from agrlearn import LabelledSet, Recipe, aggregate, fit, open_source, predict, single

FOLD = 2


def make_model() -> nn.Module:
    return timm.create_model("test_byobnet", num_classes=10, in_chans=1)  # timm's smallest


def pretrain(images: torch.Tensor, labels: torch.Tensor, path: Path, steps: int) -> None:
    """Make the weights that a user would bring along: an ordinary training of some steps."""
    torch.manual_seed(0)
    model = make_model().train()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    for step in range(steps):
        batch = torch.randint(len(labels), (64,), generator=torch.Generator().manual_seed(step))
        optimizer.zero_grad()
        F.cross_entropy(model(images[batch]), labels[batch]).backward()
        optimizer.step()
    torch.save(model.state_dict(), path)


@torch.no_grad()
def error_of(model: nn.Module, test: LabelledSet) -> float:
    return (model.eval()(test.objects).argmax(dim=1) != test.labels).float().mean().item()


def main(pretraining_steps: int = 60, epochs: int = 6) -> tuple[float, float]:
    digits = open_source("digits")
    train, test = (
        LabelledSet(F.interpolate(part.objects.float() / 16, 32), part.labels, part.class_names)
        for part in (digits.labelled(digits.train), digits.labelled(digits.test))
    )
    with tempfile.TemporaryDirectory() as folder:
        weights = Path(folder) / "weights.pt"
        pretrain(train.objects, train.labels, weights, pretraining_steps)
        model = make_model()
        model.load_state_dict(torch.load(weights, weights_only=True))
        before = error_of(model, test)

        network = aggregate(model.train(), FOLD, train.objects[:2])  # a copy, with the model's weights
        fit(network, train, Recipe(epochs=epochs, learning_rate=0.02, schedule="cosine"))
        torch.save(single(network).state_dict(), weights)

        model = make_model()
        model.load_state_dict(torch.load(weights, weights_only=True))
    after = error_of(model, test)
    with torch.no_grad():
        torch.testing.assert_close(model(test.objects).softmax(dim=1), predict(network, test.objects))
    print(f"the timm model, pretrained: error {before:.2%}; fine-tuned in groups of {FOLD}: error {after:.2%}")
    return before, after


if __name__ == "__main__":
    main()
