"""What the distributed tests run in every process, started by torchrun."""

import sys
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from lightning_fabric import Fabric
from torch import distributed, nn
from torch.utils.data import Dataset

from agrlearn.data.labelled import LabelledSet
from agrlearn.errors import RecipeError
from agrlearn.evaluation.evaluate import evaluate
from agrlearn.networks.aggregated import AggregatedClassifier
from agrlearn.networks.catalogue import build_network
from agrlearn.prediction.predict import predict
from agrlearn.prediction.protocols import Batched, Contextual
from agrlearn.ranks import world_size
from agrlearn.training.loop import fit
from agrlearn.training.recipe import Recipe
from tests.training.stopping import StoppedError, at_most

CASES = {
    f"{norm} batch norm, alpha {alpha:g}, K {steps}, {parts} parts": (
        norm == "with", {"alpha": alpha, "ascent_steps": steps, "accumulate": parts},
    )
    for norm in ("without", "with")
    for alpha, steps in ((0.0, 1), (0.5, 1), (0.5, 3))
    for parts in ((1, 2) if alpha == 0 and norm == "without" else (1,))
} | {
    "clipped, alpha 0.5": (False, {"alpha": 0.5, "clip_penalty": 0.001}),
    "batch norm that activates": ("and activation", {}),
    "averaged, with batch norm": (True, {"average_from": 0.5}),
    "mixed folds": (False, {"repetition": 0.5, "repetition_of": "batches"}),
}  # fmt: skip
PROTOCOLS = ("replicated", "batched", "contextual")


def make_data():
    random = torch.Generator().manual_seed(0)
    # 106 groups an epoch: batches of 16, and an uneven last one of 10.
    objects = torch.randn(106, 6, generator=random)
    return LabelledSet(objects, (objects[:, 0] > 0).long() + (objects[:, 1] > 0).long(), ("a", "b", "c"))


class NormAndActivation(nn.BatchNorm1d):
    """As in timm's models."""

    def forward(self, inputs):
        return super().forward(inputs).relu()


class Loaded(Dataset):
    """The same data, loaded one by one."""

    def __init__(self, data):
        self.data = data

    def __len__(self):
        return len(self.data)

    def __getitem__(self, index):
        return self.data[index]


def make_network(with_norm):
    if with_norm is True:
        return build_network("mlp", object_shape=(6,), num_classes=3, fold=2, width=12, seed=1)
    torch.manual_seed(1)
    between = NormAndActivation(16) if with_norm else nn.Tanh()
    encoder = nn.Sequential(nn.Linear(12, 16), between, nn.Linear(16, 8))
    return AggregatedClassifier(encoder, features=8, fold=2, num_classes=3, join="features")


def make_recipe(**options):
    return Recipe(epochs=3, batch_size=16, learning_rate=0.05, seed=3, **options)


def results(fabric):
    """Weights and records of every case, and predictions: the same on one process and on two."""
    data = make_data()
    told = {}
    for name, (with_norm, options) in CASES.items():
        network = make_network(with_norm)
        history = fit(network, data, make_recipe(**options), data, fabric=fabric)
        told[name] = {
            "weights": {key: value.clone() for key, value in network.state_dict().items()},
            "loss": [record.loss for record in history.records],
            "information": [record.information or 0.0 for record in history.records],
            "error": [record.validation_error for record in history.records],
            "log_groups": [record.log_groups for record in history.records],
        }
    protocols = {"replicated": "replicated", "batched": Batched(3), "contextual": Contextual(data.objects, 2)}
    for name in PROTOCOLS:
        told[name] = predict(network, data.objects, protocols[name], batch_size=7, sharded=True)
        told[f"{name} errors"] = evaluate(network, data, protocols[name], batch_size=7, sharded=True).head_errors
    for kind, held_out in (("loaded at once", data), ("loaded batch by batch", Loaded(data))):
        told[kind] = replace(evaluate(network, held_out, batch_size=7, sharded=True), objects_per_second=0.0)
    return told


def stop_after_an_epoch(fabric, run_dir):
    """Leave a run as if all its processes had been killed in the second epoch."""
    data = make_data()
    with suppress(StoppedError), at_most(9):  # 7 steps an epoch
        fit(make_network(False), data, make_recipe(alpha=0.5), data, run_dir, fabric=fabric)


if __name__ == "__main__":
    torch.set_num_threads(1)
    engine = Fabric(accelerator="cpu", devices=2, strategy="ddp")
    engine.launch()
    assert world_size() == 2
    folder = Path(sys.argv[1])
    with pytest.raises(RecipeError, match="runs 2 processes, the Fabric 1"):
        fit(make_network(False), make_data(), make_recipe())
    if sys.argv[2:] == ["first-epoch"]:
        stop_after_an_epoch(engine, folder / "run")
    else:
        torch.save(results(engine), folder / f"rank{engine.global_rank}.pt")
    distributed.destroy_process_group()  # open connections can abort Python while it shuts down
