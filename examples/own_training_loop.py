"""Wrap, train, unwrap in a plain PyTorch loop: the lines that differ from an ordinary one are marked."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from agrlearn import GroupBatchSampler, aggregate, cross_entropy, group, open_source, predict, single

FOLD = 2


def make_model() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 3, padding=1), nn.BatchNorm2d(64), nn.ReLU(), nn.AdaptiveAvgPool2d(2),
        nn.Flatten(), nn.Linear(256, 10),
    )  # fmt: skip


def main(epochs: int = 15) -> float:
    digits = open_source("digits")
    train, test = digits.labelled(digits.train), digits.labelled(digits.test)
    dataset = TensorDataset(train.objects.float() / 16, train.labels)
    torch.manual_seed(0)
    network = aggregate(make_model(), FOLD, dataset[:2][0])  # changed: wrap

    sampler = GroupBatchSampler(len(dataset), FOLD, batch_size=64)  # changed
    loader = DataLoader(dataset, batch_sampler=sampler)  # changed
    optimizer = torch.optim.SGD(network.parameters(), lr=0.05, momentum=0.9, nesterov=True)
    for epoch in range(epochs):
        sampler.set_epoch(epoch)  # changed
        for objects, labels in loader:
            loss = cross_entropy(network(group(objects, FOLD)), group(labels, FOLD))  # changed
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

    model = make_model()
    model.load_state_dict(single(network).state_dict())  # changed: unwrap
    objects = test.objects.float() / 16
    with torch.no_grad():
        scores = model.eval()(objects)
    torch.testing.assert_close(scores.softmax(dim=1), predict(network, objects))
    error = (scores.argmax(dim=1) != test.labels).float().mean().item()
    print(f"your own model with the trained weights: error {error:.2%}")
    return error


if __name__ == "__main__":
    main()
