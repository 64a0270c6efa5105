"""Published archives: found packed or unpacked, downloaded if missing, and unable to write anything."""

import dataclasses
import hashlib
import tarfile

import pytest

from agrlearn.data.archives import Archive, read_archive, read_members
from agrlearn.data.download import DownloadError
from agrlearn.errors import DataError
from tests.data.archives import write_archive
from tests.data.server import Files, serving

CONTENTS = {"a.txt": b"first\n" * 1000, "b.txt": b"second\n"}


ABOUT = Archive(
    "http://127.0.0.1/pair.tar.gz",
    "pair",
    {name: f"sha256:{hashlib.sha256(content).hexdigest()}" for name, content in CONTENTS.items()},
)


def everything_below(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def link(name, target, kind=tarfile.SYMTYPE):
    member = tarfile.TarInfo(name)
    member.type, member.linkname = kind, target
    return member


@pytest.mark.parametrize("prefix", ["pair/", "", "./"])
def test_files_are_found_in_the_archive_whatever_folder_they_are_in(tmp_path, prefix):
    write_archive(tmp_path / "pair.tar.gz", {prefix + name: content for name, content in CONTENTS.items()})
    assert read_archive(ABOUT, tmp_path) == CONTENTS
    assert everything_below(tmp_path) == ["pair.tar.gz"]


@pytest.mark.parametrize("folder", ["pair", "."])  # some archives unpack into a folder, some do not
def test_unpacked_files_come_before_the_archive(tmp_path, folder):
    (tmp_path / "pair.tar.gz").write_bytes(b"no archive")
    (tmp_path / folder).mkdir(exist_ok=True)
    for name, content in CONTENTS.items():
        (tmp_path / folder / name).write_bytes(content)
    assert read_archive(ABOUT, tmp_path) == CONTENTS
    (tmp_path / folder / "a.txt").write_bytes(b"other")
    remove = tmp_path / (folder if folder == "pair" else "a.txt")
    with pytest.raises(
        DataError, match=rf"a\.txt is not the published .*; unpack pair\.tar\.gz again, or remove {remove}$"
    ):
        read_archive(ABOUT, tmp_path)


def test_a_missing_archive_is_downloaded_once(tmp_path):
    write_archive(tmp_path / "on-the-server", CONTENTS)
    folder = tmp_path / "data"
    with serving(Files({"/pair.tar.gz": (tmp_path / "on-the-server").read_bytes()})) as files:
        about = dataclasses.replace(ABOUT, url=f"{files.url}/pair.tar.gz")
        assert read_archive(about, folder) == CONTENTS
        assert read_archive(about, folder) == CONTENTS
    assert len(files.requests) == 1
    assert everything_below(folder) == ["pair.tar.gz"]


def archive_of(folder, contents):
    write_archive(folder / "draft.tar.gz", contents)
    return (folder / "draft.tar.gz").read_bytes()


BREAKS = {
    "altered file": lambda folder: archive_of(folder, {**CONTENTS, "b.txt": b"sec0nd\n"}),
    "missing file": lambda folder: archive_of(folder, {"a.txt": CONTENTS["a.txt"]}),
    "truncated": lambda folder: archive_of(folder, CONTENTS)[:100],
    "altered bytes": lambda folder: archive_of(folder, CONTENTS).translate(bytes(255 - b for b in range(256))),
    "a web page": lambda folder: b"<html>Please log in</html>",
    "empty": lambda folder: b"",
}


@pytest.mark.parametrize("kind", BREAKS)
def test_a_broken_archive_gets_a_sentence_and_is_not_kept_if_downloaded(tmp_path, kind):
    content = BREAKS[kind](tmp_path)
    folder = tmp_path / "data"
    with serving(Files({"/pair.tar.gz": content})) as files:
        about = dataclasses.replace(ABOUT, url=f"{files.url}/pair.tar.gz")
        with pytest.raises(DownloadError, match="what the server sent is not the published file"):
            read_archive(about, folder)
    assert everything_below(folder) == []
    (folder / "pair.tar.gz").write_bytes(content)
    with pytest.raises(DataError, match=r"pair\.tar\.gz") as caught:
        read_archive(ABOUT, folder)
    assert "\n" not in str(caught.value)
    assert everything_below(folder) == ["pair.tar.gz"]


def test_an_archive_with_another_checksum_is_not_opened(tmp_path):
    write_archive(tmp_path / "pair.tar.gz", CONTENTS)
    about = dataclasses.replace(ABOUT, checksum="md5:" + "0" * 32)
    with pytest.raises(DataError, match=r"pair\.tar\.gz is not the published file: expected MD5 0000"):
        read_archive(about, tmp_path)


def test_members_that_point_outside_write_nothing(tmp_path):
    folder = tmp_path / "deep" / "data"
    folder.mkdir(parents=True)
    hostile = {"../outside.txt": b"!", str(tmp_path / "absolute.txt"): b"!", "../../a.txt": CONTENTS["a.txt"]}
    links = [
        link("pair", str(tmp_path)),
        link("b.txt", "/etc/passwd"),
        link("pair/b.txt", "/etc/passwd", tarfile.LNKTYPE),
    ]
    write_archive(folder / "pair.tar.gz", {**hostile, "pair/b.txt": CONTENTS["b.txt"]}, *links)
    before = everything_below(tmp_path)
    assert read_archive(ABOUT, folder) == CONTENTS
    assert everything_below(tmp_path) == before


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.DIRTYPE, tarfile.FIFOTYPE])
def test_a_link_or_a_device_is_no_file(tmp_path, kind):
    write_archive(tmp_path / "pair.tar.gz", {"a.txt": CONTENTS["a.txt"]}, link("b.txt", "/etc/passwd", kind))
    with pytest.raises(DataError, match=r"has no file called b\.txt"):
        read_archive(ABOUT, tmp_path)


def test_a_member_that_would_fill_the_memory_is_refused_unread(tmp_path):
    file = tmp_path / "large.tar.gz"
    member = tarfile.TarInfo("a.txt")
    member.size = 2**40
    with tarfile.open(file, "w:gz") as archive:
        archive.addfile(member)
    with pytest.raises(DataError, match="far more than the published file"):
        read_members(file, ["a.txt"])
