"""agrlearn theory, as a user meets it."""

import subprocess
import sys

import numpy as np
import pytest

from agrlearn import theory
from tests.cli.commands import call


@pytest.mark.parametrize("name", theory.SOURCES)
def test_every_named_source_has_a_curve(name, tmp_path, capsys):
    picture = tmp_path / "pictures" / "curve.png"
    assert call("theory", "curve", name, "--points", 4, "--picture", picture) == 0
    out = capsys.readouterr().out
    assert "I(X;T)" in out
    assert "not proved" not in out
    assert picture.stat().st_size > 1000


def test_a_curve_prints_the_numbers_of_the_asked_betas(tmp_path, capsys):
    arguments = ("theory", "curve", "four-letters", "--beta", 3, "--beta", 10, "--unit", "nats")
    assert call(*arguments, "--picture", tmp_path / "curve.svg") == 0
    out = capsys.readouterr().out
    assert "0.154339   0.057358" in out
    assert "0.867028   0.196263" in out
    assert "below beta = 2.453633" in out


def test_codes_stand_beside_time_sharing_and_the_limit(tmp_path, capsys):
    assert call("theory", "code", "three-letters", "--n", 2, "--picture", tmp_path / "code.png") == 0
    out = capsys.readouterr().out
    for number in ("n = 1: 0.136900", "n = 2: 0.130050", "scalar codes: 0.136900", "limit R_IBQ: 0.100182"):
        assert number in out
    assert (tmp_path / "code.png").exists()


def test_the_demo_compares_codes_for_the_binary_symmetric_source(tmp_path, capsys):
    assert call("theory", "demo", "--picture", tmp_path / "demo.png") == 0
    out = capsys.readouterr().out
    assert "0.140845     0.141601" in out
    assert "convolutional-256" in out
    assert (tmp_path / "demo.png").exists()


@pytest.mark.parametrize("noise", [0, 0.5])
def test_the_demo_shows_no_share_where_there_is_nothing_to_gain(noise, tmp_path, capsys):
    assert call("theory", "demo", "--noise", noise, "--picture", tmp_path / "demo.png") == 0
    out = capsys.readouterr().out
    assert out.count(" –\n") == 7
    assert "%" not in out


def test_a_table_comes_from_a_file(tmp_path, capsys):
    file, picture = tmp_path / "counts.csv", tmp_path / "curve.png"
    np.savetxt(file, [[30, 10, 2], [4, 20, 30]], delimiter=",")
    assert call("theory", "curve", file, "--normalize", "--points", 3, "--picture", picture) == 0
    assert "2 letters of X, 3 of Y" in capsys.readouterr().out
    assert call("theory", "curve", file, "--picture", picture) == 2
    err = capsys.readouterr().err
    assert "normalize=True" in err
    assert "--normalize" in err


@pytest.mark.parametrize(
    "content, sentence",
    [("0.5,0.5\n", "at least 2 rows"), ("x,y\n0.5,0.5\n", "without a header"), ("0.5,0.2\n0.3\n", "comma-separated"),
     ("", "at least 2 rows"), ("0.6,0.5\n-0.1,0\n", "negative"), ("nan,0.5\n0.5,0\n", "NaN")],
)  # fmt: skip
@pytest.mark.filterwarnings("ignore:loadtxt")
def test_a_bad_file_is_refused_in_one_sentence(content, sentence, tmp_path, capsys):
    file = tmp_path / "table.csv"
    file.write_text(content)
    assert call("theory", "curve", file) == 2
    error = capsys.readouterr().err
    assert sentence in error
    assert len(error.strip().splitlines()) == 1


@pytest.mark.parametrize(
    "arguments, sentence",
    [
        (("curve", "three-leters"), "did you mean 'three-letters'?"),
        (("curve", "nowhere.csv"), "No such file"),
        (("curve", "three-letters", "--beta=-2"), "beta of at least 0"),
        (("curve", "binary-symmetric", "--noise", "0.9"), "noise between"),
        (("curve", "three-letters", "--points", "3", "--picture", "curve.xyz"), "picture that ends in"),
        (("code", "three-letters", "--rate=-1"), "rate of at least 0"),
        (("code", "three-letters", "--n", "40"), "smaller n"),
        (("code", "three-letters", "--n", "0"), "at least one length"),
        (("code", "three-letters", "--unit", "bans"), "unit"),
    ],
)
def test_a_mistake_of_the_user_is_explained_in_one_sentence(arguments, sentence, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert call("theory", *arguments) == 2
    error = capsys.readouterr().err
    assert sentence in error
    assert len(error.strip().splitlines()) == 1


def test_the_theory_needs_no_torch(tmp_path):
    code = (
        "import sys; from agrlearn.cli import main; "
        f"main(['theory', 'curve', 'three-letters', '--points', '3', '--picture', {str(tmp_path / 'curve.png')!r}]); "
        "sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False, capture_output=True).returncode == 0
