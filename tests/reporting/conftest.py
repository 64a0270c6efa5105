"""Run directories to report on: two settings with two seeds each, trained once."""

import functools

import numpy
import pytest
import torch

from agrlearn.data.labelled import LabelledSet
from agrlearn.networks.catalogue import build_network
from agrlearn.reporting.collect import report_of_runs
from agrlearn.reporting.measure import Subject, measure
from agrlearn.runs.facts import read_facts, settings_of
from agrlearn.training.loop import fit
from agrlearn.training.recipe import Recipe

HOSTILE = "<script>alert(1)</script>"
QUOTED = "quote\"s & 'more'"
COMMAND = f"agrlearn report 'a b' {'-'.join(['long'] * 60)}"


@pytest.fixture(scope="session")
def hostile_images() -> LabelledSet:
    """96 grey images; the name of a class is a script."""
    random = numpy.random.default_rng(0)
    labels = numpy.arange(96) % 3
    pixels = random.integers(0, 120, (96, 1, 8, 8))
    for index, label in enumerate(labels):
        pixels[index, :, :, 2 * label : 2 * label + 3] += 60
    return LabelledSet(torch.from_numpy(pixels.astype("uint8")), torch.from_numpy(labels), (HOSTILE, QUOTED, "plain"))


@pytest.fixture(scope="session")
def trained(tmp_path_factory, hostile_images):
    """Facts and subjects of runs with fold 1 and 2, seeds 0 and 1; the folders' names hold quotes and brackets."""
    folder = tmp_path_factory.mktemp("runs")
    train, test = hostile_images.subset(torch.arange(64)), hostile_images.subset(torch.arange(64, 96))
    facts, subjects = [], {}
    for fold in (1, 2):
        for seed in (0, 1):
            run = folder / f'fold{fold} "x" <img src=q>-seed{seed}'
            network = build_network(
                "small-cnn", object_shape=(1, 8, 8), num_classes=3, fold=fold, seed=seed, objects=train.objects, width=4
            )
            alpha = 0.1 if fold == 2 else 0.0
            fit(network, train, Recipe(epochs=4, batch_size=16, seed=seed, alpha=alpha), test, run, progress=False)
            facts.append(read_facts(run))
            subjects[run] = Subject(network, test, train.objects, "32 objects")
    return facts, subjects


@pytest.fixture(scope="session")
def report(trained):
    """The whole report of the trained runs."""
    facts, subjects = trained
    settings = settings_of(facts)
    openers = [[functools.partial(subjects.get, run.folder) for run in setting.runs] for setting in settings]
    found = measure(openers, dial=True)
    return report_of_runs('Two "settings" <b>', settings, dict(enumerate(found)), command=COMMAND)
