"""Random joint tables for hypothesis: dense, with zeros, with empty rows, nearly deterministic, nearly independent."""

import numpy as np
from hypothesis import strategies as st

LETTERS, CLASSES = st.integers(2, 5), st.integers(2, 4)


@st.composite
def joints(draw, letters=LETTERS, classes=CLASSES):
    rows, columns = draw(letters), draw(classes)
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    kind = draw(st.sampled_from(["dense", "zeros", "peaked", "deterministic", "close"]))
    table = random.dirichlet(np.full(rows * columns, 0.2 if kind == "peaked" else 1.0)).reshape(rows, columns)
    if kind == "zeros":
        table *= random.random((rows, columns)) < 0.6
    if kind == "deterministic":
        table *= np.eye(columns)[random.integers(columns, size=rows)]
    if kind == "close":
        table = random.dirichlet(np.ones(rows))[:, None] * (1 + 0.1 * random.random((rows, columns)))
    table[0, 0] += 1e-3
    return table / table.sum()


def random_encoder(random, letters, clusters):
    return random.dirichlet(np.ones(clusters), letters)
