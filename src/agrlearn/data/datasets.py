"""Data sets by name, and `open_source`, which opens a name or a file."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy

from agrlearn.data.arrays import objects_from_array, read_npz
from agrlearn.data.cifar import cifar10, cifar100
from agrlearn.data.download import data_folder
from agrlearn.data.fashion_mnist import fashion_mnist
from agrlearn.data.images import DEFAULT_SIZE, ENDINGS, is_image_folder, read_image_file, read_image_folder
from agrlearn.data.preparation import check_preparation
from agrlearn.data.reviews import movie_review, subjectivity
from agrlearn.data.sources import Part, Source
from agrlearn.data.table_files import READERS, table_ending
from agrlearn.data.tables import TableOptions, read_table
from agrlearn.errors import DataError, look_up
from agrlearn.grouping import first_tensor


def open_source(
    name_or_path: str,
    *,
    data_dir: str | Path | None = None,
    image_size: int | None = None,
    text_column: str | None = None,
    label_column: str | None = None,
    columns: Sequence[str] = (),
    ignore: Sequence[str] = (),
    skip_bad: bool = False,
    labels: bool = True,
    preparation: dict[str, Any] | None = None,
) -> Source:
    """Open a data set by name, or your own: an .npz file, a table, or a folder with a folder of images per class.

    Args:
        data_dir: the folder of published data sets; by default that of the environment variable AGRLEARN_DATA, or
            ~/.cache/agrlearn.
        image_size: height and width in pixels to which images are resized; 32 by default. Refused for other data.
        text_column, label_column: columns of a table, guessed by default. Refused for other data.
        columns: those of a table to use, by name or as NAME=KIND, such as zip=words; by default all that say something
            about new rows.
        ignore: columns of a table to leave out.
        skip_bad: leave out what cannot be read instead of refusing the whole; `Source.bad` lists it.
        labels: False takes labels as they are, whole or not, as for prediction; so they need not be there.
        preparation: `Source.preparation` of a network's training data, to turn these data into objects the same way.
    """
    path = Path(name_or_path)
    known = check_preparation(preparation or {})
    for_images: dict[str, Any] = {"--image-size": image_size}
    for_tables: dict[str, Any] = {
        "--text-column": text_column, "--label": label_column, "--columns": " ".join(columns) or None,
        "--ignore": " ".join(ignore) or None,
    }  # fmt: skip
    if name_or_path in DATASETS:
        _refuse_unused(name_or_path, "a data set by name", for_tables | for_images)
        source = DATASETS[name_or_path](data_folder(data_dir))
        if path.exists():
            kind = "folder" if path.is_dir() else "file"
            remark = f"this is the data set of that name, not the {kind} here; to use the {kind}, write ./{path}"
            source = replace(source, remarks=(*source.remarks, remark))
    elif not path.exists():
        if not path.suffix and len(path.parts) == 1:
            look_up(DATASETS, name_or_path, "data set")
        raise DataError(f"there is no file or folder {name_or_path}; give one, or a data set: {', '.join(DATASETS)}")
    elif is_image_folder(path):
        _refuse_unused(name_or_path, "a folder of images", for_tables)
        size = known.get("size", DEFAULT_SIZE) if image_size is None else image_size
        source = read_image_folder(path, size=size, skip_bad=skip_bad, labels=labels)
        source = replace(source, name=name_or_path) if source.name in DATASETS else source  # ./digits is not digits
    elif path.suffix.lower() in ENDINGS and path.is_file():
        _refuse_unused(name_or_path, "an image", for_tables)
        source = read_image_file(path, size=known.get("size", DEFAULT_SIZE) if image_size is None else image_size)
    elif table_ending(path) in READERS:
        _refuse_unused(name_or_path, "a table", for_images)
        source = read_table(
            path, TableOptions(text_column, label_column, tuple(columns), tuple(ignore)), skip_bad=skip_bad,
            labels=labels, preparation=known if known.get("kind") in ("text", "table") else None,
        )  # fmt: skip
    elif path.suffix.lower() == ".npz":
        _refuse_unused(name_or_path, "an .npz file", for_tables | for_images)
        source = Source(name_or_path, train=read_npz(path, labels=labels))
    else:
        raise DataError(
            f"{name_or_path} cannot be read; expected .npz, {', '.join(READERS)} (text also as .gz), a folder with a "
            "folder of images for each class, or to predict it, an image"
        )
    folder = None if data_dir is None else str(Path(data_dir).resolve())
    return replace(source, data_dir=folder, skip_bad=skip_bad, is_file=name_or_path not in DATASETS)


def _refuse_unused(name: str, kind: str, options: dict[str, Any]) -> None:
    for option, value in options.items():
        if value is not None:
            raise DataError(f"{option} {value} has no effect on {name}, {kind}; leave it out")


def digits(folder: Path | None = None) -> Source:
    """8×8 grey images of handwritten digits, from scikit-learn: 898 to train on, 899 to test on."""
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    x, y = load_digits(return_X_y=True)
    images = objects_from_array(x.reshape(-1, 8, 8).astype(numpy.uint8), origin="digits")
    train, test = train_test_split(numpy.arange(len(y)), test_size=0.5, stratify=y, random_state=0)
    return Source(
        "digits", Part(images[train], y[train]), Part(images[test], y[test]), tuple(str(digit) for digit in range(10))
    )


def digits_as_words(folder: Path | None = None) -> Source:
    """The same digits as sentences of 64 words, each the grey of a pixel: a stand-in that needs no files."""
    images = digits(folder)

    def as_words(part: Part) -> Part:
        return Part(first_tensor(part.objects).flatten(1).long() + 2, part.labels)

    words = [str(grey) for grey in range(17)]
    preparation = {"kind": "text", "text": "text", "label": "label", "words": words, "length": 64, "cleaning": "kim"}
    return Source(
        "digits-as-words", as_words(images.train), as_words(images.unseen), images.class_names, preparation=preparation
    )


def digits_as_vectors(folder: Path | None = None) -> Source:
    """The same digits as rows of a table with 64 numbers."""
    images = digits(folder)

    def as_vectors(part: Part) -> Part:
        return Part(first_tensor(part.objects).flatten(1).float(), part.labels)

    return Source("digits-as-vectors", as_vectors(images.train), as_vectors(images.unseen), images.class_names)


def _table_of_sklearn(name: str, load: str) -> Source:
    import sklearn.datasets

    table = getattr(sklearn.datasets, load)()
    labels = numpy.array([str(label) for label in table.target_names])[table.target]
    return Source(name, Part(objects_from_array(table.data, origin=name), labels))


def breast_cancer(folder: Path | None = None) -> Source:
    """569 tumours with 30 measurements each, malignant or benign, from scikit-learn."""
    return _table_of_sklearn("breast-cancer", "load_breast_cancer")


def wine(folder: Path | None = None) -> Source:
    """178 wines of three growers with 13 measurements each, from scikit-learn."""
    return _table_of_sklearn("wine", "load_wine")


DATASETS: dict[str, Callable[[Path], Source]] = {
    "digits": digits,
    "digits-as-vectors": digits_as_vectors,
    "digits-as-words": digits_as_words,
    "breast-cancer": breast_cancer,
    "wine": wine,
    "fashion-mnist": fashion_mnist,
    "cifar-10": cifar10,
    "cifar-100": cifar100,
    "movie-review": movie_review,
    "subjectivity": subjectivity,
}
"""Each function takes the folder of published data sets."""
