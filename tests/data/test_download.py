"""Downloads from a local server: what breaks is taken up again, and only what is right gets its name."""

import hashlib
import random
from concurrent.futures import ThreadPoolExecutor

import pytest

from agrlearn.data.archives import check_file
from agrlearn.data.download import DownloadError, data_folder, download
from agrlearn.errors import DataError
from tests.data.server import Files, serving

CONTENT = random.Random(0).randbytes(300_000)


CHECKSUM = f"sha256:{hashlib.sha256(CONTENT).hexdigest()}"


def check(file):
    check_file(file, CHECKSUM)


def fetch(files, folder, **options):
    target = folder / "data" / "file.bin"
    download(f"{files.url}/file.bin", target, check, **{"pause": 0.0, "timeout": 5.0, **options})
    return target


def left_behind(folder):
    return sorted(file.name for file in (folder / "data").iterdir())


@pytest.mark.parametrize("announces_length", [True, False])
def test_a_file_is_fetched_whole_and_nothing_else_is_left(tmp_path, capsys, announces_length):
    with serving(Files({"/file.bin": CONTENT}, announces_length=announces_length)) as files:
        assert fetch(files, tmp_path).read_bytes() == CONTENT
    assert left_behind(tmp_path) == ["file.bin"]
    told = capsys.readouterr().err
    assert f"downloading {files.url}/file.bin" in told
    assert ("0.3 MB" in told) == announces_length


def test_a_transfer_that_breaks_off_goes_on_where_it_was(tmp_path):
    with serving(Files({"/file.bin": CONTENT}, breaks_after=70_000)) as files:
        assert fetch(files, tmp_path).read_bytes() == CONTENT
    assert files.requests == [None, *(f"bytes={count}-" for count in (70_000, 140_000, 210_000, 280_000))]


def test_a_later_call_goes_on_with_what_an_earlier_one_left(tmp_path):
    with serving(Files({"/file.bin": CONTENT}, breaks_after=90_000)) as files:
        files.breaks_after = 0
        (tmp_path / "data").mkdir()
        (tmp_path / "data" / "file.bin.part").write_bytes(CONTENT[:90_000])
        with pytest.raises(DownloadError, match="the connection ended after 90,000 of 300,000 bytes"):
            fetch(files, tmp_path)
        assert left_behind(tmp_path) == ["file.bin.part"]
        files.breaks = 0
        assert fetch(files, tmp_path).read_bytes() == CONTENT
    assert files.requests == ["bytes=90000-"] * 4


def test_a_server_that_ignores_ranges_starts_over(tmp_path):
    with serving(Files({"/file.bin": CONTENT}, breaks_after=200_000, breaks=2, knows_ranges=False)) as files:
        assert fetch(files, tmp_path).read_bytes() == CONTENT
    assert len(files.requests) == 3


def test_a_server_that_sends_another_piece_than_asked_for_is_asked_for_all(tmp_path):
    with serving(Files({"/file.bin": CONTENT}, breaks_after=200_000, breaks=1, wrong_range=True)) as files:
        assert fetch(files, tmp_path).read_bytes() == CONTENT
    assert files.requests == [None, "bytes=200000-", None]


def test_a_server_that_fails_for_a_while_is_asked_again(tmp_path):
    with serving(Files({"/file.bin": CONTENT}, status=503, breaks=2)) as files:
        assert fetch(files, tmp_path).read_bytes() == CONTENT


def test_a_server_that_falls_silent_is_asked_again(tmp_path):
    with serving(Files({"/file.bin": CONTENT}, silent=True, breaks=1)) as files:
        assert fetch(files, tmp_path, timeout=0.2).read_bytes() == CONTENT


def test_a_finished_part_gets_its_name_without_another_byte(tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "file.bin.part").write_bytes(CONTENT)
    with serving(Files({"/file.bin": CONTENT})) as files:
        assert fetch(files, tmp_path).read_bytes() == CONTENT
    assert files.requests == ["bytes=300000-"]
    assert left_behind(tmp_path) == ["file.bin"]


@pytest.mark.parametrize("wrong", [b"x" * 1000, b"x" * 300_000, b"x" * 400_000], ids=["short", "equal", "long"])
def test_a_part_of_another_file_is_thrown_away_and_said(tmp_path, capsys, wrong):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "file.bin.part").write_bytes(wrong)
    with serving(Files({"/file.bin": CONTENT})) as files:
        assert fetch(files, tmp_path).read_bytes() == CONTENT
    assert left_behind(tmp_path) == ["file.bin"]
    assert "starting over" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("content", "announces_length"),
    [(CONTENT[:-1] + b"?", True), (CONTENT[:1000], True), (CONTENT[:1000], False), (b"", True)],
    ids=["altered", "truncated on the server", "truncated without a length", "empty"],
)
def test_another_file_than_the_published_one_is_refused_and_removed(tmp_path, content, announces_length):
    with (
        serving(Files({"/file.bin": content}, announces_length=announces_length)) as files,
        pytest.raises(DownloadError, match="what the server sent is not the published file") as caught,
    ):
        fetch(files, tmp_path)
    assert f"{files.url}/file.bin cannot be downloaded" in str(caught.value)
    assert f"put file.bin into {tmp_path / 'data'} by hand" in str(caught.value)
    assert left_behind(tmp_path) == []


@pytest.mark.parametrize(
    ("files", "reason"),
    [
        (Files(), "the server answered 404 Not Found"),
        (Files({"/file.bin": CONTENT}, status=503), "the server answered 503"),
        (Files({"/file.bin": CONTENT}, breaks_after=0), "the connection ended after 0 of 300,000 bytes"),
        (Files(moved_to="file:///etc/passwd"), "the server answered 302"),
        (Files(moved_to="ftp://127.0.0.1/file.bin"), "unknown url type: ftp"),
    ],
    ids=["missing", "failing", "breaking", "sent on to a file", "sent on to ftp"],
)
def test_a_download_that_cannot_work_is_told_in_a_sentence(tmp_path, files, reason):
    with serving(files), pytest.raises(DownloadError) as caught:
        fetch(files, tmp_path)
    assert str(caught.value).startswith(f"{files.url}/file.bin cannot be downloaded ({reason}")
    assert "AGRLEARN_DATA" in str(caught.value)
    assert "file.bin" not in left_behind(tmp_path)


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("https://www.example.org/file.bin", "no network connection"),
        ("file:///etc/hostname", "unknown url type: file"),
        ("http://127.0.0.1:9/file.bin", "refused"),
    ],
)
def test_no_network_and_other_addresses_are_told_in_a_sentence(tmp_path, url, reason):
    with pytest.raises(DownloadError, match=reason) as caught:
        download(url, tmp_path / "file.bin", check, pause=0.0)
    assert url in str(caught.value)
    assert "\n" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_written_is_told_in_a_sentence(tmp_path):
    (tmp_path / "data").write_text("a file")
    with (
        serving(Files({"/file.bin": CONTENT})) as files,
        pytest.raises(DownloadError, match=r"cannot be stored in .*data .*--data-dir"),
    ):
        fetch(files, tmp_path)


def test_a_killed_check_leaves_nothing_under_the_final_name(tmp_path):
    def killed(file):
        raise KeyboardInterrupt

    with serving(Files({"/file.bin": CONTENT})) as files, pytest.raises(KeyboardInterrupt):
        download(f"{files.url}/file.bin", tmp_path / "data" / "file.bin", killed)
    assert left_behind(tmp_path) == ["file.bin.part"]


def test_a_file_that_is_wanted_twice_at_once_is_fetched_once(tmp_path):
    with serving(Files({"/file.bin": CONTENT})) as files, ThreadPoolExecutor() as threads:
        for result in [threads.submit(fetch, files, tmp_path) for _ in range(4)]:
            assert result.result().read_bytes() == CONTENT
    assert files.requests == [None]
    assert left_behind(tmp_path) == ["file.bin"]


def test_checks_refuse_a_file_by_any_kind_of_checksum(tmp_path):
    file = tmp_path / "file"
    file.write_bytes(CONTENT)
    for kind in ("md5", "sha256", "sha512"):
        right = hashlib.new(kind, CONTENT).hexdigest()
        check_file(file, f"{kind}:{right}")
        with pytest.raises(DataError, match=f"expected {kind.upper()}"):
            check_file(file, f"{kind}:{'0' * len(right)}")


def test_the_folder_is_the_chosen_one_then_that_of_the_environment_then_one_in_the_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("AGRLEARN_DATA", "~/mine")
    assert data_folder("~/chosen") == tmp_path / "chosen"
    assert data_folder() == tmp_path / "mine"
    monkeypatch.delenv("AGRLEARN_DATA")
    assert data_folder() == tmp_path / ".cache" / "agrlearn"
