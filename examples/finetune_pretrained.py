"""A timm model with weights of one's own, aggregated and fine-tuned."""

import tempfile
from pathlib import Path

import timm
import torch
from torch import nn
from torch.nn import functional as F

from agrlearn import LabelledSet, Recipe, aggregate, evaluate, fit, open_source

FOLD = 2


def make_model() -> nn.Module:
    torch.manual_seed(0)
    return timm.create_model("test_byobnet", num_classes=10, in_chans=1)  # timm's smallest


def pretrain(images: torch.Tensor, labels: torch.Tensor, path: Path, steps: int) -> None:
    """Make the weights that a user would bring along: an ordinary training of some steps."""
    model = make_model().train()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    for step in range(steps):
        batch = torch.randint(len(labels), (64,), generator=torch.Generator().manual_seed(step))
        optimizer.zero_grad()
        F.cross_entropy(model(images[batch]), labels[batch]).backward()
        optimizer.step()
    torch.save(model.state_dict(), path)


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

    model.eval()
    with torch.no_grad():
        before = (model(test.objects).argmax(dim=1) != test.labels).float().mean().item()
    network = aggregate(model, FOLD, train.objects[:2], at="stages.1")  # keeps the weights: one object in every slot
    fit(network, train, Recipe(epochs=epochs, learning_rate=0.02, schedule="cosine"))  # gives what the model gave
    after = evaluate(network, test)
    print(f"pretrained: error {before:.2%}; aggregated and fine-tuned: error {after.error:.2%}")
    return before, after.error


if __name__ == "__main__":
    main()
