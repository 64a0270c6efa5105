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
    "errors", "theory", "seeding", "files", "ranks", "modes", "grouping", "data", "information", "networks",
    "prediction", "evaluation", "training", "runs", "sklearn", "studies", "reporting", "cli",
]  # fmt: skip


def room_of(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imported_rooms(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        names = [node.module] if isinstance(node, ast.ImportFrom) and node.module else []
        names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        found |= {name.split(".")[1] for name in names if name.startswith("agrlearn.")}
    return found


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("*.py")), ids=lambda path: str(path.relative_to(SOURCE)))
def test_imports_run_downward(path):
    room = room_of(path)
    if room in ("__init__", "__main__"):
        return
    allowed = ORDER[: ORDER.index(room) + 1]
    assert imported_rooms(path) <= set(allowed)


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


@pytest.mark.parametrize("document", ["CONTRIBUTING.md", "RELEASING.md", "CODE_OF_CONDUCT.md"])
def test_commands_and_links_of_the_project_files_exist(document, checkout):
    text = (checkout / document).read_text()
    for link in re.findall(r"\]\((?!https)([^)]+)\)", text):
        assert (checkout / link).exists(), link
    commands = re.findall(r"^    (\w+)\)", (checkout / "run").read_text(), re.MULTILINE)
    assert {"demo", "test", "lint", "package", "bench"} <= set(commands)
    assert set(re.findall(r"\./run (\w+)", text)) <= set(commands)
