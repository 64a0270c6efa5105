"""The project's own files; whatever imports this is skipped where only the package is installed."""

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
if not (ROOT / "run").is_file():
    pytest.skip("this is about the files of the project, which are not here", allow_module_level=True)
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))
