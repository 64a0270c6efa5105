"""Commands as tests give them, and what the commands work on."""

from pathlib import Path

import numpy

from agrlearn.cli import main

RECIPE = ["--epochs", "3", "--batch-size", "16", "--learning-rate", "0.05"]

OWN = """
import torch
from torch import nn

print("this file was run")

def make_model(num_classes):
    features = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten())
    return nn.Sequential(features, nn.Linear(32, num_classes))

def no_model():
    return 3

def broken():
    raise KeyError("oops")
"""


def call(*arguments) -> int:
    """Run a command in this process; the exit code."""
    try:
        main([str(argument) for argument in arguments])
    except SystemExit as leave:
        return leave.code or 0
    return 0


def append_row(file: Path, x, y) -> None:
    """Add an object and its label to an .npz file."""
    with numpy.load(file) as arrays:
        numpy.savez(file, x=numpy.concatenate([arrays["x"], [x]]), y=numpy.concatenate([arrays["y"], [y]]))
