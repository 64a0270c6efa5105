"""The project's own files; whatever imports this is skipped where only the package is installed."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
if not (ROOT / "run").is_file():
    pytest.skip("this is about the files of the project, which are not here", allow_module_level=True)
COMMANDS = re.findall(r"^    (\w+)\)", (ROOT / "run").read_text(), re.MULTILINE)
"""What ./run can be asked for."""
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
PROJECT_FILES = [ROOT / f"{name}.md" for name in ("CHANGELOG", "CONTRIBUTING", "RELEASING", "CODE_OF_CONDUCT")]


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))
