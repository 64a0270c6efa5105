"""What is installed, and what is published."""

import os
import tarfile
import zipfile
from importlib import resources
from importlib.metadata import entry_points
from pathlib import Path, PurePosixPath

import pytest

import agrlearn
import agrlearn.__main__
import agrlearn.cli

BESIDE_PYTHON = {
    "py.typed", "reporting/page_files/page.html", "reporting/page_files/style.css", "reporting/page_files/charts.js",
}  # fmt: skip
PUBLISHED = {
    "src", "tests", "examples", "README.md", "CHANGELOG.md", "CITATION.cff", "LICENSE", "constraints.txt",
    "pyproject.toml", ".gitignore", "PKG-INFO",
}  # fmt: skip


def test_the_installed_package_has_its_files_that_are_not_python():
    assert all(resources.files(agrlearn).joinpath(name).is_file() for name in BESIDE_PYTHON)


def test_the_command_is_the_command_line():
    (command,) = entry_points(group="console_scripts", name="agrlearn")
    assert command.load() is agrlearn.__main__.main


@pytest.fixture
def distributions() -> Path:
    """The folder with the wheel and the source distribution that were built."""
    if "AGRLEARN_DIST" not in os.environ:
        pytest.skip("nothing was built: ./run package builds, and runs this")
    return Path(os.environ["AGRLEARN_DIST"])


def source_files(distributions: Path) -> dict[str, int]:
    """The files of the source distribution with their sizes, without the name of the folder that holds them."""
    (archive,) = distributions.glob("*.tar.gz")
    assert archive.name == f"agrlearn-{agrlearn.__version__}.tar.gz"
    with tarfile.open(archive) as members:
        return {member.name.split("/", 1)[1]: member.size for member in members if member.isfile()}


def test_the_wheel_holds_the_package_and_nothing_else(distributions):
    (archive,) = distributions.glob("*.whl")
    assert archive.name == f"agrlearn-{agrlearn.__version__}-py3-none-any.whl"
    held = {PurePosixPath(name) for name in zipfile.ZipFile(archive).namelist()}
    package = {path.relative_to("agrlearn").as_posix() for path in held if path.parts[0] == "agrlearn"}
    about = {path.relative_to(path.parts[0]).as_posix() for path in held if path.parts[0] != "agrlearn"}
    assert {name for name in package if not name.endswith(".py")} == BESIDE_PYTHON
    assert package == {
        name.removeprefix("src/agrlearn/") for name in source_files(distributions) if name.startswith("src/agrlearn/")
    }
    assert about == {"METADATA", "WHEEL", "RECORD", "entry_points.txt", "licenses/LICENSE"}
    assert {path.parts[0] for path in held} == {"agrlearn", f"agrlearn-{agrlearn.__version__}.dist-info"}


def test_the_source_distribution_holds_sources_tests_and_examples_but_no_runs_results_or_data(distributions):
    files = source_files(distributions)
    assert {name.split("/")[0] for name in files} == PUBLISHED
    kinds = {PurePosixPath(name).suffix for name in files if name.startswith(("src/", "tests/", "examples/"))}
    assert kinds == {".py", ".ipynb", ".typed", ".html", ".css", ".js"}
    assert max(files.values()) < 150_000
