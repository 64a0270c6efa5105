"""Aggregated Learning as a LightningModule with the information penalty, trained by Lightning's Trainer."""

import lightning
import torch
from torch.utils.data import DataLoader

from agrlearn import (
    GroupBatchSampler,
    InformationRegularizer,
    build_network,
    cross_entropy,
    group,
    open_source,
    predict,
)
from agrlearn.information.critics import critic_for

FOLD, ALPHA = 2, 0.1


class AggregatedModule(lightning.LightningModule):
    def __init__(self, network: torch.nn.Module, regularizer: InformationRegularizer) -> None:
        super().__init__()
        self.network = network
        self.regularizer = regularizer  # holds the critic with an optimizer of its own

    def training_step(self, batch: list[torch.Tensor], batch_idx: int) -> torch.Tensor:
        groups, labels = group(batch[0].float() / 16, FOLD), group(batch[1], FOLD)
        logits, t = self.network(groups, with_bottleneck=True)
        self.regularizer.ascend(groups, t)
        return cross_entropy(logits, labels) + ALPHA * self.regularizer.penalty(groups, t)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.network.parameters(), lr=0.1, momentum=0.9)


def main(epochs: int = 15) -> float:
    lightning.seed_everything(0, verbose=False)
    digits = open_source("digits")
    train, test = digits.labelled(digits.train), digits.labelled(digits.test)
    network = build_network(object_shape=(1, 8, 8), num_classes=10, fold=FOLD, objects=train.objects / 16)
    critic = critic_for(group(train.objects[:FOLD] / 16, FOLD), network.features)
    loader = DataLoader(train, batch_sampler=GroupBatchSampler(len(train), FOLD, batch_size=64))
    trainer = lightning.Trainer(
        max_epochs=epochs, accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False,
        enable_model_summary=False, use_distributed_sampler=False,
    )  # fmt: skip
    trainer.fit(AggregatedModule(network, InformationRegularizer(critic)), loader)
    error = (predict(network, test.objects / 16).argmax(dim=1) != test.labels).float().mean().item()
    print(f"replicated: error {error:.2%}")
    return error


if __name__ == "__main__":
    main()
