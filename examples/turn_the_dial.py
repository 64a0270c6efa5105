"""A join inside the model: the layers behind it run once per group, so one set of weights has several speeds."""

import torch
from torch import nn

from agrlearn import Batched, LabelledSet, Recipe, Replicated, aggregate, evaluate, fit, open_source, predict, single
from agrlearn.networks.cost import count_multiply_adds
from agrlearn.prediction.cost import multiply_adds_per_object

FOLD = 2


def main(epochs: int = 15) -> list[tuple[float, float]]:
    digits = open_source("digits")
    train, test = (
        LabelledSet(part.objects.float() / 16, part.labels, part.class_names)
        for part in (digits.labelled(digits.train), digits.labelled(digits.test))
    )
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(1, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 3, padding=1), nn.BatchNorm2d(64), nn.ReLU(),
        nn.Conv2d(64, 64, 3, padding=1), nn.BatchNorm2d(64), nn.ReLU(), nn.AdaptiveAvgPool2d(2),
        nn.Flatten(), nn.Linear(256, 10),
    )  # fmt: skip
    network = aggregate(model, FOLD, train.objects[:2], at="3")  # joined after the pooling, with a head for each slot
    fit(network, train, Recipe(epochs=epochs, learning_rate=0.05, schedule="cosine"))

    lines = []
    before = count_multiply_adds(model, test.objects[:1])
    for protocol in (Replicated(), Batched(draws=1)):
        error = evaluate(network, test, protocol).error
        cost = multiply_adds_per_object(network, test.objects[:1], protocol) / before
        print(f"{protocol}: error {error:.2%}, {cost:.2f} times the multiply-adds of the model")
        lines.append((error, cost))

    # Two layers have other shapes now than in the model, so what is left without groups is a module of its own.
    alone = single(network)
    with torch.no_grad():
        torch.testing.assert_close(alone(test.objects).softmax(dim=1), predict(network, test.objects))
    return lines


if __name__ == "__main__":
    main()
