"""Copies of samples are found, and values that merely repeat are kept."""

import numpy

from agrlearn.information.samples import first_copies


def test_copies_are_found_beside_labels_and_beside_atoms():
    random = numpy.random.default_rng(0)
    x, labels = random.standard_normal((300, 4)), random.integers(0, 3, (300, 1))
    x[:9], labels[:9, 0] = 0.0, [0, 0, 0, 1, 1, 1, 2, 2, 2]  # recur in three different pairs
    drawn = numpy.concatenate([numpy.arange(300), numpy.repeat(numpy.arange(100, 200), 2)])
    assert first_copies(x[drawn], labels[drawn].astype(float)).tolist() == list(range(300))
    pixels = random.integers(0, 256, (300, 64)).astype(float)
    assert len(first_copies(pixels[drawn], labels[drawn].astype(float))) == 300
