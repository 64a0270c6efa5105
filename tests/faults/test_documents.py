"""docs/reliability.md promises what a test shows."""

import ast
import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]


@pytest.fixture
def document(checkout) -> str:
    return (checkout / "docs" / "reliability.md").read_text()


def test_every_test_that_the_table_of_faults_names_is_there(document):
    named = re.findall(r"`([\w/]+\.py)::(\w+)`", document)
    assert len(named) > 20
    for file, test in named:
        tree = ast.parse((TESTS / file).read_text())
        assert test in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}, f"{file}::{test}"


def test_every_row_of_the_table_of_faults_names_a_test(document):
    rows = [line for line in document.splitlines() if line.startswith("|")]
    for row in rows:
        assert "::" in row or row.startswith(("| fault", "|---")), row
