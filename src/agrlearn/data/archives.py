"""Published files: read from the data folder, packed or unpacked, and used only if their checksums match."""

import gzip
import hashlib
import io
import tarfile
import zlib
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from agrlearn.data.download import download
from agrlearn.errors import DataError

_MOST_BYTES = 2**28  # unpacked; CIFAR's archives are the largest that are read, and have 187 million
_MOST_MEMBERS = 1000
_FETCH_AGAIN = "remove it, and it is downloaded again"


@dataclass(frozen=True)
class Archive:
    """A published .tar.gz archive and the files in it that are read.

    Args:
        url: its official address.
        folder: the folder into which it unpacks; its files may also be in the data folder itself.
        files: each file's name, without the folder, and checksum.
        checksum: of the archive itself, if one is published.

    Checksums start with their kind: "md5:…", "sha256:…" or "sha512:…".
    """

    url: str
    folder: str
    files: dict[str, str]
    checksum: str | None = None

    @property
    def name(self) -> str:
        return PurePosixPath(self.url).name


def read_archive(about: Archive, folder: Path) -> dict[str, bytes]:
    """The checked contents of the archive's files: from its unpacked folder, the archive itself, or downloaded."""
    unpacked, packed = _unpacked_folder(about, folder), folder / about.name
    if unpacked is None:
        if not packed.is_file():
            download(about.url, packed, lambda file: _read_packed(about, file))
        return _read_packed(about, packed)
    contents = {}
    for name, checksum in about.files.items():
        file = unpacked / name
        advice = f"unpack {about.name} again, or remove {file if unpacked == folder else unpacked}"
        if not file.is_file():
            raise DataError(f"there is no {file}; {advice}")
        contents[name] = file.read_bytes()
        check_content(contents[name], checksum, file, advice)
    return contents


def is_here(about: Archive, folder: Path) -> bool:
    """Whether the archive is in the folder, packed or unpacked."""
    return _unpacked_folder(about, folder) is not None or (folder / about.name).is_file()


def _unpacked_folder(about: Archive, folder: Path) -> Path | None:
    if (folder / about.folder).is_dir():
        return folder / about.folder
    return folder if all((folder / name).is_file() for name in about.files) else None


def _read_packed(about: Archive, file: Path) -> dict[str, bytes]:
    if about.checksum is not None:
        check_file(file, about.checksum)
    contents = read_members(file, about.files)
    for name, content in contents.items():
        check_content(content, about.files[name], f"{name} in {file}")
    return contents


def read_members(file: Path, names: Collection[str]) -> dict[str, bytes]:
    """Read files of a .tar.gz archive, by their names without folders.

    Archives are never unpacked to disk, so no member can write anything.
    """
    contents: dict[str, bytes] = {}
    try:
        # As a stream, so that the size limit sees every byte.
        with LimitedGzip(file) as unpacked, tarfile.open(fileobj=unpacked, mode="r|", bufsize=2**20) as archive:
            for number, member in enumerate(archive):
                name = PurePosixPath(member.name).name
                if member.size > _MOST_BYTES or number > _MOST_MEMBERS:
                    raise _too_large(file)
                if name not in names or not member.isreg():
                    continue
                content = archive.extractfile(member)
                assert content is not None  # true of every regular file
                contents[name] = content.read()
    except (tarfile.TarError, OSError, EOFError, zlib.error) as error:
        raise DataError(f"{file} cannot be read as a .tar.gz archive ({error}); download it again") from error
    missing = [name for name in names if name not in contents]
    if missing:
        raise DataError(f"{file} has no file called {missing[0]}; it is not the published archive, download it again")
    return contents


class LimitedGzip(gzip.GzipFile):
    """A gzipped file to read from, which refuses to unpack to more than any published file."""

    left = _MOST_BYTES

    def read(self, size: int | None = -1) -> bytes:
        content = super().read(self.left + 1 if size is None or size < 0 else min(size, self.left + 1))
        self.left -= len(content)
        if self.left < 0:
            raise _too_large(Path(self.name))
        return content


def _too_large(file: Path) -> DataError:
    return DataError(f"{file} unpacks to far more than the published file; {_FETCH_AGAIN}")


def check_file(file: Path, checksum: str) -> None:
    """Refuse a file that is not the published one."""
    with file.open("rb") as content:
        _check(content, checksum, file, _FETCH_AGAIN)


def check_content(content: bytes, checksum: str, origin: Path | str, advice: str = _FETCH_AGAIN) -> None:
    """Refuse bytes that are not those of the published file."""
    _check(io.BytesIO(content), checksum, origin, advice)


def _check(content: Any, checksum: str, origin: Path | str, advice: str) -> None:
    kind, expected = checksum.split(":")
    found = hashlib.file_digest(content, lambda: hashlib.new(kind, usedforsecurity=False)).hexdigest()
    if found != expected:
        raise DataError(
            f"{origin} is not the published file: expected {kind.upper()} {expected[:12]}…, got {found[:12]}…; {advice}"
        )
