"""Published files: read from the data folder, packed or unpacked, and used only if their checksums hold."""

import gzip
import hashlib
import tarfile
import zlib
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from agrlearn.data.download import download
from agrlearn.errors import DataError

_MOST_BYTES = 2**28  # unpacked; CIFAR's archives are the largest that are read, and have 187 million
_MOST_MEMBERS = 1000
_FETCH_AGAIN = "remove it, and it is downloaded again"


@dataclass(frozen=True)
class Archive:
    """A published .tar.gz archive and the files of it that are read.

    Args:
        url: its official address.
        folder: where its files lie in the data folder, if it is unpacked there; or they lie in the data folder itself.
        files: each file's name, without the folder, and checksum.
        checksum: of the archive itself, where one is published.

    Checksums tell their kind: "md5:…", "sha256:…" or "sha512:…".
    """

    url: str
    folder: str
    files: dict[str, str]
    checksum: str | None = None

    @property
    def name(self) -> str:
        return PurePosixPath(self.url).name


def read_archive(about: Archive, folder: Path) -> dict[str, bytes]:
    """The checked contents of the archive's files, by name: from its unpacked folder, from the archive as it is, or
    downloaded."""
    unpacked, packed = _unpacked(about, folder), folder / about.name
    if unpacked is not None:
        return {name: _read_unpacked(unpacked / name, about, folder) for name in about.files}
    if not packed.is_file():
        download(about.url, packed, lambda file: read_packed(about, file))
    return read_packed(about, packed)


def is_here(about: Archive, folder: Path) -> bool:
    """Whether the folder holds the archive, packed or unpacked."""
    return _unpacked(about, folder) is not None or (folder / about.name).is_file()


def _unpacked(about: Archive, folder: Path) -> Path | None:
    if (folder / about.folder).is_dir():
        return folder / about.folder
    return folder if all((folder / name).is_file() for name in about.files) else None


def read_packed(about: Archive, file: Path) -> dict[str, bytes]:
    """The checked contents of the archive's files, from the archive at `file`."""
    if about.checksum is not None:
        check_file(file, about.checksum)
    contents = read_members(file, about.files)
    for name, content in contents.items():
        check_content(content, about.files[name], f"{name} in {file}")
    return contents


def read_members(file: Path, names: Collection[str]) -> dict[str, bytes]:
    """Files of a .tar.gz archive, by their names without folders.

    Archives are read where they lie and never unpacked, so that no member can write anything anywhere.
    """
    contents: dict[str, bytes] = {}
    try:
        # As a stream, every byte of which passes the limit.
        with open_packed(file) as unpacked, tarfile.open(fileobj=unpacked, mode="r|", bufsize=2**20) as archive:  # type: ignore[call-overload]
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
        raise DataError(f"{file} holds no file called {missing[0]}; it is not the published archive, download it again")
    return contents


@contextmanager
def open_packed(file: Path) -> Iterator["Unpacked"]:
    """A gzipped file to read from, which refuses to become larger than any published one."""
    with gzip.open(file, "rb") as stream:
        yield Unpacked(file, stream)


@dataclass
class Unpacked:
    """The bytes within a gzipped file, up to a limit."""

    file: Path
    stream: gzip.GzipFile
    left: int = _MOST_BYTES

    def read(self, size: int = -1) -> bytes:
        content = self.stream.read(self.left + 1 if size < 0 else min(size, self.left + 1))
        self.left -= len(content)
        if self.left < 0:
            raise _too_large(self.file)
        return content


def _too_large(file: Path) -> DataError:
    return DataError(f"{file} unpacks to far more than the published file; {_FETCH_AGAIN}")


def check_file(file: Path, checksum: str) -> None:
    """Refuse a file that is not the published one."""
    kind, _ = checksum.split(":")
    with file.open("rb") as content:
        found = hashlib.file_digest(content, lambda: hashlib.new(kind, usedforsecurity=False))
    _compare(found.hexdigest(), checksum, file)


def check_content(content: bytes, checksum: str, origin: Path | str, advice: str = _FETCH_AGAIN) -> None:
    """Refuse bytes that are not those of the published file."""
    kind, _ = checksum.split(":")
    _compare(hashlib.new(kind, content, usedforsecurity=False).hexdigest(), checksum, origin, advice)


def _compare(found: str, checksum: str, origin: Path | str, advice: str = _FETCH_AGAIN) -> None:
    kind, expected = checksum.split(":")
    if found != expected:
        raise DataError(
            f"{origin} is not the published file: expected {kind.upper()} {expected[:12]}…, got {found[:12]}…; {advice}"
        )


def _read_unpacked(file: Path, about: Archive, folder: Path) -> bytes:
    advice = f"unpack {about.name} again, or remove {file if file.parent == folder else file.parent}"
    if not file.is_file():
        raise DataError(f"there is no {file}; {advice}")
    content = file.read_bytes()
    check_content(content, about.files[file.name], file, advice)
    return content
