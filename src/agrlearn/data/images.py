"""A folder of class folders of images."""

import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy
import torch
from torch import Tensor

from agrlearn.data.preparation import LARGEST_SIZE
from agrlearn.data.sources import BadObject, Part, Place, Source, refuse_growth
from agrlearn.errors import DataError
from agrlearn.files import open_regular

_ENDINGS = {".png", ".jpg", ".jpeg", ".webp"}
_FORMATS = ("PNG", "JPEG", "WEBP")
_TEST_NAMES = ("test", "val", "valid", "validation")
DEFAULT_SIZE = 32


def is_image_folder(path: Path) -> bool:
    """Whether a folder holds folders (of classes, or of the parts train and test), or images without labels."""
    return path.is_dir() and any(child.is_dir() or child.suffix.lower() in _ENDINGS for child in path.iterdir())


def read_image_folder(path: Path, *, size: int = DEFAULT_SIZE, skip_bad: bool = False, labels: bool = True) -> Source:
    """Images of every class folder, brought to `size` × `size` colour pixels.

    The shorter side is scaled to `size` and the middle is kept. With folders called train and test (or val), these are
    the parts, and `Source.remarks` names the folders beside them; otherwise all images are one part. Both parts need
    every class, unless `labels` is False.
    """
    if not 1 <= size <= LARGEST_SIZE:
        raise DataError(f"the image size is a number of pixels from 1 to {LARGEST_SIZE}, got {size}")
    bad: list[BadObject] = []
    about = {"kind": "images", "size": size}
    if not any(child.is_dir() for child in path.iterdir()):
        pixels, kept = _read_images(list(_image_files(path)), size, bad, skip_bad)
        return Source(str(path), Part(pixels, places=list(kept.values())), bad=tuple(bad), preparation=about)
    children = {child.name.lower(): child for child in path.iterdir() if child.is_dir()}
    train_folder = children.get("train")
    test = next((children[name] for name in _TEST_NAMES if name in children), None)
    if train_folder is None or test is None:
        _refuse_half(path, train_folder or test)
        part, names = _read_part(path, size, bad, skip_bad)
        return Source(str(path), part, class_names=names, bad=tuple(bad), preparation=about)
    train, names = _read_part(train_folder, size, bad, skip_bad)
    held_out, same_names = _read_part(test, size, bad, skip_bad)
    for absent, where in ((set(names) - set(same_names), test), (set(same_names) - set(names), train_folder)):
        if absent and labels:
            raise DataError(f"{where} has no images of the class {sorted(absent)[0]!r}; both parts need every class")
    others = sorted(child.name for child in children.values() if child not in (train_folder, test))
    remarks = [f"beside {train_folder.name} and {test.name}, {name} is not read" for name in others if name[0] != "."]
    return Source(str(path), train, held_out, names, bad=tuple(bad), remarks=tuple(remarks), preparation=about)


def _refuse_half(path: Path, half: Path | None) -> None:
    """Refuse a train folder without its test folder, or the reverse: taken for a class, it would teach nothing."""
    if half is not None and any(child.is_dir() for child in half.iterdir()):
        raise DataError(
            f"{path} holds {half.name}, with folders in it, but of train and test (or val) only this one; add the "
            f"other, or give {half} itself"
        )


def _read_part(folder: Path, size: int, bad: list[BadObject], skip_bad: bool) -> tuple[Part, tuple[str, ...]]:
    classes = sorted(child for child in folder.iterdir() if child.is_dir() and not child.name.startswith("."))
    files = {child.name: list(_image_files(child)) for child in classes}
    for name, found in files.items():
        if not found:
            raise DataError(f"{folder / name} holds no png, jpeg or webp images; remove the folder or fill it")
    if not files:
        raise DataError(f"{folder} holds no class folders; expected one folder of images for each class")
    pixels, kept = _read_images([file for found in files.values() for file in found], size, bad, skip_bad)
    labels = [name for name, found in files.items() for file in found if file in kept]
    for name in files:
        if name not in labels:
            raise DataError(f"no image in {folder / name} can be read; remove the folder or mend its files")
    return Part(pixels, numpy.array(labels), list(kept.values())), tuple(files)


def _read_images(
    files: list[Path], size: int, bad: list[BadObject], skip_bad: bool
) -> tuple[Tensor, dict[Path, Place]]:
    """The pixels of the files that can be read, and which these are."""
    held = sum(file.stat().st_size for file in files)
    refuse_growth(str(files[0].parent), 3 * size * size * len(files), held, "bring the images to a smaller size")
    pixels = torch.empty(len(files), 3, size, size, dtype=torch.uint8)
    kept: dict[Path, Place] = {}
    for number, file in enumerate(files):
        try:
            pixels[len(kept)] = torch.from_numpy(_read_image(file, size)).permute(2, 0, 1)
        except Exception as error:  # image files break in many ways, and the library says so in many ways
            reason = f"its content is not {', '.join(_FORMATS)}" if "identify" in str(error) else str(error)
            if not skip_bad:
                raise DataError(
                    f"{file} cannot be read as an image ({reason}); mend or remove it, or leave out bad files with "
                    "--skip-bad"
                ) from error
            bad.append(BadObject(str(file), reason))
        else:
            kept[file] = Place(number, str(file))
    return pixels[: len(kept)], kept


def _image_files(folder: Path) -> Iterator[Path]:
    yield from sorted(file for file in folder.rglob("*") if file.suffix.lower() in _ENDINGS and file.is_file())


def _read_image(file: Path, size: int) -> numpy.ndarray:
    from PIL import Image, ImageOps

    with warnings.catch_warnings():
        # A picture large enough to be warned of is refused: it could fill the memory.
        warnings.simplefilter("error", Image.DecompressionBombWarning)
        # By name, since Pillow knows formats that start other programs, such as Ghostscript for EPS.
        with open_regular(file) as content, Image.open(content, formats=_FORMATS) as image:
            image.draft("RGB", (size, size))
            shown = ImageOps.exif_transpose(image)  # as a camera was held
            if image.mode.startswith("I"):  # 16 bits of grey, which `convert` would clip to white
                shown = Image.fromarray((numpy.asarray(shown) >> 8).astype(numpy.uint8))
            return numpy.array(ImageOps.fit(shown.convert("RGB"), (size, size)))
