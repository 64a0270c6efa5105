"""Wrap, train with Lightning's Trainer, unwrap."""

import lightning
import torch
from torch import nn
from torch.utils.data import DataLoader

from agrlearn import GroupBatchSampler, aggregate, cross_entropy, group, open_source, predict, single

FOLD = 2


def make_model() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 3, padding=1), nn.BatchNorm2d(64), nn.ReLU(), nn.AdaptiveAvgPool2d(2),
        nn.Flatten(), nn.Linear(256, 10),
    )  # fmt: skip


class AggregatedModule(lightning.LightningModule):
    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def training_step(self, batch: list[torch.Tensor], batch_idx: int) -> torch.Tensor:
        objects, labels = batch
        return cross_entropy(self.network(group(objects.float() / 16, FOLD)), group(labels, FOLD))

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.05, momentum=0.9)


def main(epochs: int = 15) -> float:
    lightning.seed_everything(0, verbose=False)
    digits = open_source("digits")
    train, test = digits.labelled(digits.train), digits.labelled(digits.test)
    network = aggregate(make_model(), FOLD, train.objects[:2] / 16)
    loader = DataLoader(train, batch_sampler=GroupBatchSampler(len(train), FOLD, batch_size=64))
    trainer = lightning.Trainer(
        max_epochs=epochs, accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False,
        enable_model_summary=False, use_distributed_sampler=False,
    )  # fmt: skip
    trainer.fit(AggregatedModule(network), loader)

    model = make_model()
    model.load_state_dict(single(network).state_dict())
    with torch.no_grad():
        scores = model.eval()(test.objects / 16)
    torch.testing.assert_close(scores.softmax(dim=1), predict(network, test.objects / 16))
    error = (scores.argmax(dim=1) != test.labels).float().mean().item()
    print(f"your own model with the trained weights: error {error:.2%}")
    return error


if __name__ == "__main__":
    main()
