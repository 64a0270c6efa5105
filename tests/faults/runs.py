"""Small training runs that write checkpoints all the time, to be killed, starved and damaged."""

from pathlib import Path

import torch
from safetensors.torch import load_file

from agrlearn.data.labelled import LabelledSet
from agrlearn.networks.aggregated import AggregatedClassifier
from agrlearn.networks.catalogue import build_network
from agrlearn.training.checkpoint import RunDirectory
from agrlearn.training.history import History
from agrlearn.training.loop import fit
from agrlearn.training.recipe import Recipe

RECIPES = {
    "short": Recipe(epochs=3, batch_size=16, learning_rate=0.05),
    "plain": Recipe(epochs=8, batch_size=8, learning_rate=0.05),
    "with a critic": Recipe(epochs=5, batch_size=8, learning_rate=0.05, alpha=0.2, ascent_steps=2, mixup=0.3),
    "with patience": Recipe(epochs=8, batch_size=8, optimizer="adam", learning_rate=0.01, patience=3),
}
FILES = {"run.json", "metrics.jsonl", "timing.jsonl", "network.safetensors", "checkpoint.pt", "checkpoint.previous.pt"}
"""What a finished run leaves, and nothing else."""


def data() -> LabelledSet:
    random = torch.Generator().manual_seed(3)
    labels = torch.arange(96) % 3
    return LabelledSet(labels[:, None] + torch.randn(96, 5, generator=random), labels, ("a", "b", "c"))


def network(fold: int = 2, classes: int = 3, seed: int = 0) -> AggregatedClassifier:
    options = {"width": 12, "noise": 0.1, "join": "features"}
    return build_network("mlp", object_shape=(5,), num_classes=classes, fold=fold, seed=seed, **options)


def train(folder: Path, kind: str = "plain", trained: AggregatedClassifier | None = None) -> History:
    """Train, or go on training, with a checkpoint after every step."""
    torch.set_num_threads(1)
    return fit(trained or network(), data(), RECIPES[kind], data(), folder, checkpoint_seconds=0, progress=False)


def last_checkpoint(folder: Path) -> dict | None:
    """The checkpoint from which the run would go on; it must be readable."""
    return RunDirectory(folder, dict).load()


def weights_of(folder: Path) -> dict[str, list]:
    """The final weights, in a form that == compares."""
    return {name: values.tolist() for name, values in load_file(folder / "network.safetensors").items()}


def names_in(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}
