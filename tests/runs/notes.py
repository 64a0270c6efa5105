"""What run.json notes of a run's data, to be looked at and tampered with."""

import json
from pathlib import Path


def read_note(run: Path) -> dict:
    return json.loads((run / "run.json").read_text())["data"]


def change_note(run: Path, **changes) -> None:
    about = json.loads((run / "run.json").read_text())
    about["data"] = {**about["data"], **changes}
    (run / "run.json").write_text(json.dumps(about))
