"""Text tables in other encodings, with other delimiters, packed, or without a header."""

import gzip

import pytest

from agrlearn.data.datasets import open_source
from agrlearn.errors import DataError

TABLE = "größe,farbe,label\n1.5,grün,a\n2.5,rot,b\n3.5,grün,b\n4.5,rot,a\n"


def read(path, content: bytes):
    path.write_bytes(content)
    return open_source(str(path))


@pytest.fixture
def expected(tmp_path):
    return read(tmp_path / "plain.csv", TABLE.encode())


@pytest.mark.parametrize(
    ("encoding", "said"),
    [
        ("utf-8", None), ("utf-8-sig", None), ("latin-1", "Windows-1252 (Latin-1), not UTF-8"),
        ("cp1252", "Windows-1252 (Latin-1), not UTF-8"), ("utf-16", "UTF-16, not UTF-8"),
        ("utf-16-le", "UTF-16-LE, not UTF-8"), ("utf-16-be", "UTF-16-BE, not UTF-8"),
    ],
)  # fmt: skip
def test_an_encoding_is_recognised_and_said(encoding, said, expected, tmp_path):
    source = read(tmp_path / "t.csv", TABLE.encode(encoding))
    assert source.preparation == expected.preparation
    assert source.train.objects.tolist() == expected.train.objects.tolist()
    assert source.remarks == ((f"its text is {said}",) if said else ())


@pytest.mark.parametrize(
    ("delimiter", "ending", "said"),
    [
        (";", "csv", "semicolons"),
        ("\t", "csv", "tabs"),
        ("|", "csv", "bars"),
        (",", "tsv", "commas"),
        ("\t", "tsv", ""),
    ],
)
def test_a_delimiter_is_recognised_and_said(delimiter, ending, said, expected, tmp_path):
    source = read(tmp_path / f"t.{ending}", TABLE.replace(",", delimiter).encode())
    assert source.preparation == expected.preparation
    assert source.remarks == ((f"its cells are separated by {said}",) if said else ())


def test_a_comma_is_a_decimal_point_between_semicolons(expected, tmp_path):
    source = read(tmp_path / "t.csv", TABLE.replace(",", ";").replace(".", ",").encode())
    assert source.train.objects.tolist() == expected.train.objects.tolist()


def test_a_semicolon_in_a_text_is_no_delimiter(tmp_path):
    source = read(tmp_path / "t.csv", b"text,label\nso good; so fine,a\nso bad; so dull,b\n")
    assert source.preparation["text"] == "text"
    assert source.remarks == ()


@pytest.mark.parametrize("name", ["t.csv.gz", "T.CSV.GZ"])
def test_a_packed_table_is_read(name, expected, tmp_path):
    assert read(tmp_path / name, gzip.compress(TABLE.encode())).preparation == expected.preparation
    lines = b'{"x": 1, "label": "a"}\n{"x": 2, "label": "b"}\n'
    assert len(read(tmp_path / "t.jsonl.gz", gzip.compress(lines)).train.objects) == 2


def test_a_packed_table_that_is_damaged_or_a_bomb_is_refused(tmp_path, monkeypatch):
    packed = gzip.compress(TABLE.encode())
    for content in (b"no gzip", packed[:-12], packed[:20] + b"\0\0\0" + packed[23:]):
        with pytest.raises(DataError, match=r"t\.csv\.gz cannot be unpacked .*pack it again"):
            read(tmp_path / "t.csv.gz", content)
    monkeypatch.setattr("agrlearn.data.delimited._LARGE", 2**16)
    with pytest.raises(DataError, match="unpacks to more than 100 times its size"):
        read(tmp_path / "t.csv.gz", gzip.compress(b"x,label\n" + b"1,a\n" * 10**6))


def test_a_file_that_is_no_text_is_refused(tmp_path):
    with pytest.raises(DataError, match="is not a text file"):
        read(tmp_path / "t.csv", b"x,label\n1,a\n\0\0\0\0")


@pytest.mark.parametrize(
    "content",
    [
        "1,2\n3,4\n", "5.1,3.5,setosa\n4.9,3.0,virginica\n",
        "a fine film,pos\na dull plot,neg\na warm film,pos\n", "male,3,pos\nfemale,1,neg\nmale,2,pos\n",
        "male,3,pos\nfemale,1,neg\nmale,3,pos\nmale,2,pos\n",
    ],
)  # fmt: skip
def test_a_table_without_a_header_is_noticed(content, tmp_path):
    with pytest.raises(DataError, match=r"has no header: its first row is .*; name every column there"):
        read(tmp_path / "t.csv", content.encode())


@pytest.mark.parametrize(
    ("content", "called"),
    [("a,a\n1,2\n", "2 columns are called 'a'"), ("x,label,,\n1,b,,3\n2,c,4,\n", "2 columns have no name")],
)
def test_columns_that_cannot_be_told_apart_are_refused(content, called, tmp_path):
    with pytest.raises(DataError, match=f"{called}; give each a name of its own"):
        read(tmp_path / "t.csv", content.encode())


@pytest.mark.parametrize(
    "content",
    ["0,1,label\n5.1,3.5,a\n4.9,3.0,b\n", "x,label\n1,a\nx,label\n2,b\n", "x,c,label\n1,c,yes\n2,d,no\n"],
)
def test_a_header_of_numbers_or_one_that_is_there_twice_or_as_a_value_is_a_header(content, tmp_path):
    (tmp_path / "t.csv").write_text(content)
    assert len(open_source(str(tmp_path / "t.csv"), skip_bad=True).train.objects) == 2


def test_columns_that_a_spreadsheet_has_left_empty_are_none(tmp_path):
    (tmp_path / "t.csv").write_text("x,label,,\n1,a,,\n2,b\n3,b,, \n")
    source = open_source(str(tmp_path / "t.csv"))
    assert [column.name for column in source.columns] == ["label", "x"]
    assert source.train.objects.flatten().tolist() == [1, 2, 3]
