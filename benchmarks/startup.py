"""How long until something happens."""

import subprocess
import sys
import tempfile
from collections.abc import Callable

from benchmarks.timing import heading, ratio, take_turns

_FIRST_STEP = """
import agrlearn, torch
digits = agrlearn.open_source("digits")
train = digits.labelled(digits.train).subset(torch.arange(64))
network = agrlearn.build_network(object_shape=(1, 8, 8), num_classes=10, fold=2, objects=train.objects)
agrlearn.fit(network, train, agrlearn.Recipe(epochs=1))
"""


def _run(*arguments: str) -> Callable[[], object]:
    # Elsewhere, so that what is measured is the installed package.
    return lambda: subprocess.run(
        [sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL, cwd=tempfile.gettempdir()
    )


def start_up() -> list[str]:
    """New processes, over one that imports torch."""
    actions = {
        'python -c "import torch"': _run("-c", "import torch"),
        "python -c pass": _run("-c", "pass"),
        "import agrlearn": _run("-c", "import agrlearn"),
        "import agrlearn.theory": _run("-c", "import agrlearn.theory"),
        "agrlearn --help": _run("-m", "agrlearn", "--help"),
        "from nothing to the end of a first training step": _run("-c", _FIRST_STEP),
    }
    times = take_turns(actions, rounds=7, warm_up=1)
    base = next(iter(actions))
    return [
        *heading("process", f"over {base}", "quartiles"),
        *(f"| {name} | {ratio(times, name, base)} |" for name in list(actions)[1:]),
    ]
