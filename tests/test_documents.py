"""The documents tell the truth: their code runs, their commands exist, their numbers are ours, their links lead on."""

import contextlib
import doctest
import importlib.util
import json
import os
import re
import shlex
import subprocess
import sys
import zlib
from html.parser import HTMLParser
from unittest import mock
from urllib.parse import unquote, urlsplit
from xml.etree import ElementTree

import cyclopts
import numpy
import pytest
from PIL import Image

import agrlearn
import agrlearn.information
import agrlearn.theory
from agrlearn import DATASETS, JOINS, NETWORKS, PROTOCOLS
from agrlearn.cli import app
from agrlearn.information import BOUNDS
from agrlearn.studies.demo import COLUMNS
from agrlearn.studies.paper.experiments import EXPERIMENTS
from agrlearn.studies.paper.reproduce import choose_rows
from agrlearn.studies.paper.results import CELLS_FOLDER, collect, collect_divergences
from agrlearn.studies.paper.scales import SCALES
from agrlearn.studies.paper.tabulate import write_tables
from agrlearn.studies.sweep import read_sweep
from tests.networks import foreign
from tests.pages import COMMANDS, DOCUMENTS, PROJECT_FILES, ROOT, name_of


def blocks(document, language):
    return re.findall(rf"^```{language}\n(.*?)^```$", document.read_text(), re.DOTALL | re.MULTILINE)


def prose_of(document):
    return re.sub(r"^```.*?^```$", "", document.read_text(), flags=re.DOTALL | re.MULTILINE)


def those_with(language):
    found = [document for document in DOCUMENTS if blocks(document, language)]
    assert found
    return pytest.mark.parametrize("document", found, ids=name_of)


@pytest.mark.filterwarnings("ignore")
@those_with("python")
def test_the_python_of_a_document_runs_and_its_sessions_print_what_they_show(document, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    foreign.declare_missing_operators()
    names = {"__name__": "__main__"}
    with contextlib.ExitStack() as held:
        for catalogue in (BOUNDS, DATASETS, JOINS, NETWORKS, PROTOCOLS):  # which a page may add to
            held.enter_context(mock.patch.dict(catalogue))
        for block in blocks(document, "python"):
            if block.startswith(">>>"):
                test = doctest.DocTestParser().get_doctest(block, names, str(document), None, None)
                assert doctest.DocTestRunner().run(test, clear_globs=False).failed == 0
                names = test.globs
            else:
                exec(compile(block, str(document), "exec"), names)


def lines_of_shell(document):
    for block in blocks(document, "sh"):
        for line in block.replace("\\\n", " ").splitlines():
            if words := shlex.split(line, comments=True):
                yield words


@those_with("sh")
def test_every_command_of_a_document_exists_and_takes_its_options(document):
    for words in lines_of_shell(document):
        if words[0] in ("torchrun", "cat"):  # which starts the command, or sends it rows
            words = words[words.index("agrlearn") :]
        if words[0] == "./run":
            assert words[1] in COMMANDS, words
        else:
            assert words[0] == "agrlearn", words
            app.parse_args(words[1:], exit_on_error=False, print_error=False)


@pytest.mark.parametrize("document", DOCUMENTS, ids=name_of)
def test_every_command_that_a_sentence_names_exists(document):
    for span in re.findall(r"`((?:agrlearn|\./run) [^`]+)`", prose_of(document)):
        program, *words = shlex.split(span)
        if program == "./run":
            assert words[0] in COMMANDS, span
            continue
        with contextlib.suppress(cyclopts.MissingArgumentError):  # a sentence may leave out what a command works on
            app.parse_args(words, exit_on_error=False, print_error=False)


@those_with("toml")
def test_every_sweep_of_a_document_is_one(document, tmp_path):
    for block in blocks(document, "toml"):
        (tmp_path / "grid.toml").write_text(block)
        assert len(read_sweep(tmp_path / "grid.toml", tmp_path)) > 1


def test_the_table_of_the_demo_stands_in_one_place():
    header = f"| {' | '.join(COLUMNS)} |"
    assert header in (ROOT / "results" / "demo.md").read_text()
    assert [name_of(page) for page in DOCUMENTS if "| network | prediction |" in page.read_text()] == []


def test_the_tables_of_growth_are_those_of_the_benchmarks():
    def table_lines(text):
        return [line for line in text.splitlines() if line.startswith("|")]

    quoted = table_lines((ROOT / "docs" / "scaling.md").read_text().split("\n## ")[0])
    measured = (ROOT / "results" / "benchmarks.md").read_text().split("\n## Growth\n")[1].split("\n## ")[0]
    assert quoted == table_lines(measured) != []


def test_the_picture_of_the_dial_shows_the_demos_table():
    spec = importlib.util.spec_from_file_location("pictures", ROOT / "docs" / "pictures.py")
    pictures = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(pictures)
    points = pictures.read_points((ROOT / "results" / "demo.md").read_text())
    assert len(points) == 9
    picture = ElementTree.parse(ROOT / "docs" / "dial.svg")
    drawn = picture.find(".//{http://purl.org/dc/elements/1.1/}description").text
    assert [tuple(point) for point in json.loads(drawn)] == points, "draw it again: python docs/pictures.py"


@pytest.mark.parametrize("file", sorted((ROOT / "docs").glob("*.[ps][nv]g")), ids=lambda file: file.name)
def test_pictures_of_the_pages_can_be_read_on_dark_ones(file):
    if file.suffix == ".svg":
        assert not re.findall(r"(?:fill|stroke): #(?:0{6}|f{6})\b", file.read_text())
    else:
        with Image.open(file) as picture:
            pixels = numpy.asarray(picture.convert("RGBA"))
        assert (pixels[[0, 0, -1, -1], [0, -1, 0, -1], 3] == 0).all()
        drawn = pixels[pixels[..., 3] == 255][:, :3].max(axis=1)
        assert drawn.min() > 90  # no black


TABLES = [file for scale in SCALES for file in sorted((ROOT / "results").glob(f"*-{scale}.json"))]


@pytest.mark.parametrize("file", TABLES, ids=lambda file: file.stem)
def test_the_tables_of_the_papers_experiments_are_those_of_the_runs_that_are_done(file, tmp_path):
    made = json.loads(file.read_text())["command"]
    name, _, scale = file.stem.rpartition("-")
    rows = choose_rows([name], scale)[name]
    cells = ROOT / "results" / CELLS_FOLDER
    done, diverged = collect(rows, cells), collect_divergences(rows, cells)
    write_tables(name, EXPERIMENTS[name], SCALES[scale], rows, done, diverged, tmp_path, made)
    assert {again.suffix for again in tmp_path.iterdir()} == {".csv", ".json", ".md"}
    for again in sorted(tmp_path.iterdir()):
        assert again.read_text() == (file.parent / again.name).read_text(), f"{made} --only-write writes it again"


@pytest.mark.parametrize("document", PROJECT_FILES, ids=name_of)
def test_every_command_of_run_that_a_project_file_names_exists(document):
    assert set(re.findall(r"\./run (\w+)", document.read_text())) <= set(COMMANDS)


def test_every_command_of_run_is_in_its_usage():
    usage = (ROOT / "run").read_text().split("TEXT")[1]
    assert set(re.findall(r"^  (\w+)", usage, re.MULTILINE)) == set(COMMANDS) >= {"demo", "test", "lint", "package"}


@pytest.mark.parametrize("document", [*DOCUMENTS, *PROJECT_FILES], ids=name_of)
def test_every_link_of_a_document_leads_to_a_file_of_the_repository(document):
    for target in re.findall(r"\]\((?!https?://)([^)#\s]+)", prose_of(document)):
        assert (document.parent / target).exists(), target


@pytest.mark.parametrize("document", [ROOT / "README.md", *PROJECT_FILES], ids=name_of)
def test_every_link_within_a_document_leads_to_a_heading(document):
    titles = re.findall(r"^#+ (.*)", prose_of(document), re.MULTILINE)
    anchors = {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}
    assert set(re.findall(r"\]\(#([^)]+)\)", prose_of(document))) <= anchors


class Page(HTMLParser):
    """What a built page links to, loads and can be linked to by."""

    def __init__(self, file):
        super().__init__()
        self.links, self.loads, self.anchors = [], [], {""}
        self.feed(file.read_text())

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        self.anchors |= {given.get("id"), given.get("name")}
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        elif tag == "link" and given.get("rel") != "canonical":
            self.loads.append(given["href"])
        elif given.get("src"):
            self.loads.append(given["src"])


def build(folder, config):
    # Not --quiet, which would keep warnings from being errors.
    return subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", folder, "--config-file", config],
        cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT / "src"), "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    built = build(folder, ROOT / "mkdocs.yml")
    assert built.returncode == 0, built.stderr
    return folder


def test_a_page_with_a_link_that_leads_nowhere_or_outside_the_table_of_contents_is_refused(tmp_path):
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "index.md").write_text("# A\n\n[b](absent.md) [c](#absent) [d](../absent.md) [e](/absent)\n")
    (tmp_path / "docs" / "forgotten.md").write_text("# B\n")
    config = f"INHERIT: {ROOT / 'mkdocs.yml'}\nnav: [index.md]\nplugins: []\nhooks: []\n"
    (tmp_path / "mkdocs.yml").write_text(config)
    built = build(tmp_path / "site", tmp_path / "mkdocs.yml")
    assert built.returncode != 0
    for complaint in ("'absent.md'", "'#absent'", "'../absent.md'", "'/absent'", "forgotten.md"):
        assert complaint in built.stderr
    assert built.stderr.count("WARNING") == 5


def test_the_site_builds_and_all_its_links_lead_to_a_page_and_a_place_on_it(site):
    pages = {file: Page(file) for file in site.rglob("*.html") if file.name != "404.html"}
    assert len(pages) > 25
    for file, page in pages.items():
        for link in page.links:
            address = urlsplit(link)
            if address.scheme or address.netloc:
                continue
            target = (file.parent / unquote(address.path)).resolve() if address.path else file
            assert target.is_file(), f"{file.relative_to(site)} links to {link}"
            if target in pages:
                assert unquote(address.fragment) in pages[target].anchors, f"{file.relative_to(site)} links to {link}"


def test_every_test_that_the_table_of_laws_names_is_there():
    laws = (ROOT / "docs" / "architecture.md").read_text().split("\n## Laws")[1].split("\n## ")[0]
    named = re.findall(r"`([\w/]+\.py)(?:::(\w+)(…?))?`", laws)
    assert len(named) >= laws.count("\n| ") - 1  # a row is a law, but for the first
    for file, test, more in named:
        names = re.findall(r"^def (\w+)", (ROOT / "tests" / file).read_text(), re.MULTILINE)
        assert any(name == test or (name.startswith(test) and (more or not test)) for name in names), f"{file}::{test}"


def test_the_site_loads_nothing_from_elsewhere(site):
    for file in site.rglob("*.html"):
        for address in Page(file).loads:
            assert not urlsplit(address).netloc, f"{file.relative_to(site)} loads {address}"
    for file in site.rglob("*.css"):
        assert not re.search(r"@import|url\([\"']?(https?:)?//", file.read_text()), file


def test_every_public_name_is_in_the_reference(site):
    inventory = (site / "objects.inv").read_bytes().split(b"\n", 4)[4]
    documented = {line.split()[0] for line in zlib.decompress(inventory).decode().splitlines()}
    for package in (agrlearn, agrlearn.information):
        assert {f"{package.__name__}.{home}.{name}" for name, home in package._HOMES.items()} <= documented
    short = {name.rsplit(".", 1)[1] for name in documented if name.startswith("agrlearn.theory.")}
    assert set(agrlearn.theory.__all__) <= short
