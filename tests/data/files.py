"""Small images and tables to read."""

import csv

import numpy
from PIL import Image


def write_images(folder, classes=("cat", "dog"), count=8):
    random = numpy.random.default_rng(0)
    for number, name in enumerate(classes):
        (folder / name).mkdir(parents=True)
        for index in range(count):
            pixels = random.integers(0, 100, (12 + index, 15, 3)).astype("uint8")
            pixels[..., number] += 120
            ending = ("png", "jpg", "webp")[index % 3]
            Image.fromarray(pixels).save(folder / name / f"{index}.{ending}")


def write_rows(path, header, rows):
    with path.open("w", newline="") as file:
        table = csv.writer(file, delimiter="\t" if path.suffix == ".tsv" else ",")
        table.writerows([header, *rows])


GOOD, BAD = "a fine and moving film", "a dull and empty plot"
REVIEWS = [(GOOD, "pos"), (BAD, "neg")] * 10
