"""A folder with a folder of images for each class."""

import warnings
from pathlib import Path

import numpy
import torch
from torch import Tensor

from agrlearn.data.preparation import LARGEST_SIZE
from agrlearn.data.sources import BadObject, Names, Part, Source, refuse_growth
from agrlearn.errors import DataError
from agrlearn.files import open_regular

ENDINGS = {".png", ".jpg", ".jpeg", ".webp"}
_OTHER_ENDINGS = {".avif", ".bmp", ".gif", ".heic", ".heif", ".jp2", ".tif", ".tiff"}
_FORMATS = ("PNG", "JPEG", "WEBP")
_TEST_NAMES = ("test", "val", "valid", "validation")
DEFAULT_SIZE = 32


def is_image_folder(path: Path) -> bool:
    """Whether a folder contains folders (of classes, or called train and test), or images without labels."""
    return path.is_dir() and any(child.is_dir() or child.suffix.lower() in ENDINGS for child in path.iterdir())


def read_image_folder(path: Path, *, size: int = DEFAULT_SIZE, skip_bad: bool = False, labels: bool = True) -> Source:
    """Read the images of every class folder, resized to `size` × `size` colour pixels.

    The shorter side is scaled to `size` and the centre is kept. Folders called train and test (or val) become the
    training and the test part, and `Source.remarks` names the folders that were not read; otherwise all images are one
    part. Both parts need every class, unless `labels` is False.
    """
    if not 1 <= size <= LARGEST_SIZE:
        raise DataError(f"expected an image size from 1 to {LARGEST_SIZE} pixels, got {size}")
    bad: list[BadObject] = []
    about = {"kind": "images", "size": size}
    children = {child.name.lower(): child for child in _folders_in(path)}
    if not children:
        pixels, kept = _read_images(_image_files(path), size, bad, skip_bad)
        return Source(str(path), Part(pixels, names=_names(kept)), bad=tuple(bad), preparation=about)
    train_folder = children.get("train")
    test_folder = next((children[name] for name in _TEST_NAMES if name in children), None)
    if train_folder is None or test_folder is None:
        half = train_folder or test_folder
        if half is not None and any(child.is_dir() for child in half.iterdir()):
            # Read as a class, it would be a class of everything.
            raise DataError(
                f"{path} has {half.name}, with folders in it, but of train and test (or val) only this one; add the "
                f"other, or give {half} itself"
            )
        part, names = _read_part(path, size, bad, skip_bad)
        return Source(
            str(path), part, class_names=names, bad=tuple(bad), remarks=_remarks_on_others(path), preparation=about
        )
    train, names = _read_part(train_folder, size, bad, skip_bad)
    test, test_names = _read_part(test_folder, size, bad, skip_bad)
    for missing, where in ((set(names) - set(test_names), test_folder), (set(test_names) - set(names), train_folder)):
        if missing and labels:
            raise DataError(f"{where} has no images of the class {min(missing)!r}; both parts need every class")
    unread = sorted(child.name for child in children.values() if child not in (train_folder, test_folder))
    used = f"{train_folder.name} and {test_folder.name}"
    remarks = tuple(f"only {used} are read, not {name}" for name in unread)
    remarks += _remarks_on_others(train_folder) + _remarks_on_others(test_folder)
    return Source(str(path), train, test, names, bad=tuple(bad), remarks=remarks, preparation=about)


def read_image_file(path: Path, *, size: int = DEFAULT_SIZE) -> Source:
    """Read one image, without a label, as `read_image_folder` does."""
    pixels, kept = _read_images([path], size, [], skip_bad=False)
    about = {"kind": "images", "size": size}
    return Source(str(path), Part(pixels, names=_names(kept)), preparation=about, is_single=True)


def _read_part(folder: Path, size: int, bad: list[BadObject], skip_bad: bool) -> tuple[Part, tuple[str, ...]]:
    files = {child.name: _image_files(child) for child in _folders_in(folder)}
    for name, found in files.items():
        if not found:
            raise DataError(f"{folder / name} has no png, jpeg or webp images; remove the folder or fill it")
    if not files:
        raise DataError(f"{folder} has no class folders; expected one folder of images for each class")
    pixels, kept = _read_images([file for found in files.values() for file in found], size, bad, skip_bad)
    readable = set(kept)
    labels = [name for name, found in files.items() for file in found if file in readable]
    for name in files:
        if name not in labels:
            raise DataError(f"no image in {folder / name} can be read; remove the folder or fix its files")
    return Part(pixels, numpy.array(labels), _names(kept)), tuple(files)


def _names(files: list[Path]) -> Names:
    return Names("file", [str(file) for file in files])


def _read_images(files: list[Path], size: int, bad: list[BadObject], skip_bad: bool) -> tuple[Tensor, list[Path]]:
    """The pixels of the files that can be read, and these files."""
    on_disk = sum(file.stat().st_size for file in files)
    refuse_growth(str(files[0].parent), 3 * size * size * len(files), on_disk, "resize the images to a smaller size")
    pixels = torch.empty(len(files), 3, size, size, dtype=torch.uint8)
    kept: list[Path] = []
    for file in files:
        try:
            pixels[len(kept)] = torch.from_numpy(_read_image(file, size)).permute(2, 0, 1)
        except Exception as error:  # Pillow raises many kinds of errors for damaged files
            reason = f"its content is not {', '.join(_FORMATS)}" if "identify" in str(error) else str(error)
            if not skip_bad:
                raise DataError(
                    f"{file} cannot be read as an image ({reason}); fix or remove it, or leave out bad files of a "
                    "folder with --skip-bad"
                ) from error
            bad.append(BadObject(str(file), reason))
        else:
            kept.append(file)
    return pixels[: len(kept)], kept


def _folders_in(folder: Path) -> list[Path]:
    return sorted(child for child in folder.iterdir() if child.is_dir() and not _is_of_the_system(child.name))


def _image_files(folder: Path, endings: set[str] = ENDINGS) -> list[Path]:
    return sorted(
        file
        for file in folder.rglob("*")
        if file.suffix.lower() in endings
        and not any(map(_is_of_the_system, file.relative_to(folder).parts))
        and file.is_file()
    )


def _is_of_the_system(name: str) -> bool:
    """Whether a file or folder is none of the user's, as those that macOS adds to archives and foreign disks."""
    return name.startswith(".") or name == "__MACOSX"


def _remarks_on_others(folder: Path) -> tuple[str, ...]:
    others = _image_files(folder, _OTHER_ENDINGS)
    kinds = ", ".join(sorted({file.suffix.lower() for file in others}))
    return (f"{len(others)} of its files are left out ({kinds}); save them as png, jpeg or webp",) if others else ()


def _read_image(file: Path, size: int) -> numpy.ndarray:
    from PIL import Image, ImageOps

    with warnings.catch_warnings():
        # Pillow warns of images that are large enough to fill the memory; these are refused.
        warnings.simplefilter("error", Image.DecompressionBombWarning)
        # The formats are listed because Pillow starts other programs for some, such as Ghostscript for EPS.
        with open_regular(file) as content, Image.open(content, formats=_FORMATS) as image:
            image.draft("RGB", (size, size))
            shown = ImageOps.exif_transpose(image)  # rotated as the camera was held
            if image.mode.startswith("I"):  # 16 bits of grey, which `convert` would clip to white
                shown = Image.fromarray((numpy.asarray(shown) >> 8).astype(numpy.uint8))
            return numpy.array(ImageOps.fit(shown.convert("RGB"), (size, size)))
