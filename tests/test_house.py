"""How the code is laid out: imports run downward, importing is cheap, and public names are there."""

import ast
import inspect
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

import agrlearn
import agrlearn.information
from agrlearn.prediction.protocols import PROTOCOLS

SOURCE = Path(agrlearn.__file__).parent

ORDER = [
    "errors", "drawing", "theory", "seeding", "files", "devices", "ranks", "modes", "adam", "grouping", "data",
    "information", "networks", "prediction", "evaluation", "training", "runs", "sklearn", "deploy", "studies",
    "reporting", "cli",
]  # fmt: skip


def room_of(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imported_rooms(code: str) -> set[str]:
    """The rooms that a file imports from; a dot for a relative import, which does not name one."""
    found = set()
    for node in ast.walk(ast.parse(code)):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom):
            # A name of the package itself is at home in a room, or is one.
            within = [f"agrlearn.{agrlearn._HOMES.get(alias.name, alias.name)}" for alias in node.names]
            names = ["agrlearn.."] if node.level else within if node.module == "agrlearn" else [node.module]
        found |= {name.split(".")[1] or "." for name in names if name.startswith("agrlearn.")}
    return found


@pytest.mark.parametrize(
    "path",
    [path for path in sorted(SOURCE.rglob("*.py")) if room_of(path) not in ("__init__", "__main__")],
    ids=lambda path: str(path.relative_to(SOURCE)),
)
def test_imports_run_downward(path):
    allowed = ORDER[: ORDER.index(room_of(path)) + 1]
    assert imported_rooms(path.read_text()) <= set(allowed)


def test_every_way_to_import_is_noticed():
    code = "import agrlearn.data, os; from agrlearn import fit, cli; from agrlearn.runs import run; from . import x"
    assert imported_rooms(code) == {"data", "training", "cli", "runs", "."}


def test_the_order_is_that_of_the_architecture_page(checkout):
    page = (checkout / "docs" / "architecture.md").read_text()
    table = page.split("| room | holds |")[1].split("\n\n")[0]
    rooms = [name for row in table.splitlines()[1:] for name in re.findall(r"`(\w+)(?:\.py|/)`", row.split("|")[1])]
    assert rooms == ORDER


@pytest.mark.parametrize(
    "statement",
    [
        "import agrlearn",
        "from agrlearn.training.recipe import Recipe",
        "import agrlearn.cli",
        "import agrlearn.information",
        "import agrlearn.theory",
    ],
)
def test_importing_does_not_import_torch(statement):
    code = f"{statement}; import sys; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_every_public_name_is_there_and_documented():
    for name in agrlearn.__all__:
        thing = getattr(agrlearn, name)
        if isinstance(thing, dict):
            continue
        # A dataclass without a docstring is given its signature for one.
        assert thing.__doc__, name
        assert not thing.__doc__.startswith(f"{name}("), name
        for member, value in vars(thing).items() if isinstance(thing, type) else ():
            if thing in PROTOCOLS.values():
                continue  # PredictionProtocol explains their methods
            public = not member.startswith("_") and getattr(value, "__module__", "").startswith("agrlearn")
            if public and callable(value) and not isinstance(value, type):
                assert value.__doc__ or len(inspect.getsource(value).splitlines()) <= 4, f"{name}.{member}"
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        agrlearn.nonsense  # noqa: B018


@pytest.mark.parametrize("package", [agrlearn, agrlearn.information], ids=lambda package: package.__name__)
def test_the_names_that_type_checkers_see_are_the_public_ones(package):
    tree = ast.parse(Path(package.__file__).read_text())
    block = next(node for node in tree.body if isinstance(node, ast.If))
    seen = {alias.name: node.module for node in block.body for alias in node.names}
    assert {name: f"{package.__name__}.{home}" for name, home in package._HOMES.items()} == seen
    assert all(getattr(package, name) is not None for name in package.__all__)


def test_the_citation_is_of_this_version_and_names_the_papers_authors(checkout):
    citation = yaml.safe_load((checkout / "CITATION.cff").read_text())
    project = tomllib.loads((checkout / "pyproject.toml").read_text())["project"]
    assert {"cff-version", "message", "title", "authors"} <= set(citation)  # what the format requires
    assert citation["title"] == project["name"]
    assert citation["license"] == project["license"]
    assert str(citation["version"]) == project["version"] == agrlearn.__version__
    paper = citation["preferred-citation"]
    assert {"type", "title", "authors"} <= set(paper)
    readme = " ".join((checkout / "README.md").read_text().split())
    names = [author["family-names"] for author in paper["authors"]]
    assert f"{', '.join(names[:-1])} and {names[-1]}: *{paper['title']}*, AAAI {paper['year']}" in readme


def test_the_issue_templates_have_what_a_list_of_them_shows(checkout):
    templates = list((checkout / ".github" / "ISSUE_TEMPLATE").glob("*.md"))
    assert {template.stem for template in templates} == {"bug", "result", "feature"}
    for template in templates:
        _, head, body = template.read_text().split("---\n", 2)
        assert set(yaml.safe_load(head)) == {"name", "about"}
        assert "**" in body
