"""The training set is held once."""

import sys
from pathlib import Path

import pytest
import torch
from torch import nn

from agrlearn.data.labelled import LabelledSet
from agrlearn.networks.aggregated import AggregatedClassifier
from agrlearn.prediction.predict import predict
from agrlearn.prediction.protocols import Batched, Contextual
from agrlearn.training.loop import fit
from agrlearn.training.recipe import Recipe

MEGABYTE = 2**20


class CornerOfTheImage(nn.Module):
    def forward(self, images):
        return images[:, :, :2, :2].float().flatten(1)


def resident(name):
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(name))
    return int(line.split()[1]) * 1024


@pytest.mark.skipif(sys.platform != "linux", reason="the high-water mark of memory is read from Linux's /proc")
def test_neither_training_nor_prediction_copies_the_data_set(tmp_path):
    pixels = torch.zeros(2000, 1, 320, 320, dtype=torch.uint8)
    size = pixels.numel()
    assert size > 190 * MEGABYTE
    data = LabelledSet(pixels, torch.arange(2000) % 2, ("even", "odd"))
    network = AggregatedClassifier(CornerOfTheImage(), features=8, fold=2, num_classes=2, join="channels")
    fit(network, data.subset(torch.arange(64)), Recipe(epochs=1, batch_size=16))  # warms up
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        pytest.skip("the high-water mark of memory cannot be reset here")
    before = resident("VmRSS")
    fit(network, data, Recipe(epochs=1, batch_size=16), run_dir=tmp_path)
    for protocol in ("replicated", Batched(2), Contextual(data.objects, draws=2, pool=100)):
        predict(network, data.objects, protocol, batch_size=16)
    assert resident("VmHWM") - before < 0.4 * size
