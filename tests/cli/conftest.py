"""Commands run where their tests may write, and there is a table for them."""

from pathlib import Path

import numpy
import pytest


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def table(tmp_path, vectors) -> Path:
    """An .npz file of vectors with named classes."""
    file = tmp_path / "table.npz"
    numpy.savez(file, x=vectors.objects.numpy(), y=numpy.array(vectors.class_names)[vectors.labels])
    return file
