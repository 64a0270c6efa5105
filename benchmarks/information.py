"""Estimates of mutual information where it is known, written to results/information.md.

torch-mist is measured beside it where ./run bench has installed it.
"""

import contextlib
import io
import math
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from agrlearn.files import write_atomically
from agrlearn.information.closed_forms import ksg_information
from agrlearn.information.estimator import estimate
from benchmarks.neighbours import find_neighbours
from benchmarks.timing import heading

SAMPLES = 10_000
RESULTS = Path(__file__).parents[1] / "results" / "information.md"


@dataclass(frozen=True)
class Case:
    """Samples of known information: `draw(seed)` gives x, y and each sample's log p(x, y) / p(x)p(y)."""

    name: str
    nats: float
    draw: Callable[[int], tuple[Tensor, Tensor, Tensor]]
    sets: int = 3
    aim: float | None = None
    rivals: bool = False


def gaussian(dimension: int, nats: float, bend: Callable[[Tensor], Tensor] = lambda y: y) -> Callable:
    rho = math.sqrt(1 - math.exp(-2 * nats / dimension))

    def draw(seed: int) -> tuple[Tensor, Tensor, Tensor]:
        random = torch.Generator().manual_seed(seed)
        x, noise = torch.randn(2, SAMPLES, dimension, generator=random, dtype=torch.float64)
        rest = 1 - rho**2
        y = rho * x + math.sqrt(rest) * noise
        ratio = nats - ((rho**2 * (x**2 + y**2) - 2 * rho * x * y) / (2 * rest)).sum(dim=1)
        return x, bend(y), ratio

    return draw


def uniform_with_noise(seed: int, width: float = 0.5) -> tuple[Tensor, Tensor, Tensor]:
    """X uniform on (0, 1), Y = X + uniform noise on (0, width): I = width / 2 − log width."""
    random = torch.Generator().manual_seed(seed)
    x, noise = torch.rand(2, SAMPLES, 1, generator=random, dtype=torch.float64)
    y = x + width * noise
    density = torch.minimum(torch.minimum(y / width, (1 + width - y) / width), torch.ones(()))
    return x, y, (-math.log(width) - density.log()).squeeze(1)


def discrete_and_continuous(seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """X one of 5 numbers, Y uniform on (X, X + 2): I = log 5 − 4/5 log 2 (Gao et al. 2017)."""
    random = torch.Generator().manual_seed(seed)
    x = torch.randint(0, 5, (SAMPLES, 1), generator=random)
    y = x + 2 * torch.rand(SAMPLES, 1, generator=random, dtype=torch.float64)
    at_edge = (y < 1) | (y > 5)
    return x, y, torch.where(at_edge, math.log(5), math.log(2.5)).squeeze(1)


CASES = [
    Case("Gaussian, 1 dimension", 0.5, gaussian(1, 0.5), 20, 0.01, True),
    Case("Gaussian, 5 dimensions", 0.5, gaussian(5, 0.5), 20, 0.01),
    Case("Gaussian, 20 dimensions", 0.5, gaussian(20, 0.5), 20, 0.01),
    Case("Gaussian, 5 dimensions", 2.0, gaussian(5, 2.0), 20, 0.05, True),
    Case("Gaussian, 20 dimensions", 5.0, gaussian(20, 5.0), 20, 0.5, True),
    Case("Gaussian, 1 dimension", 2.0, gaussian(1, 2.0)),
    Case("Gaussian, 20 dimensions", 2.0, gaussian(20, 2.0)),
    Case("Gaussian, 1 dimension", 5.0, gaussian(1, 5.0)),
    Case("Gaussian, 5 dimensions", 5.0, gaussian(5, 5.0)),
    Case("cube of y, 5 dimensions", 2.0, gaussian(5, 2.0, lambda y: y**3)),
    Case("uniform + uniform noise", 0.25 + math.log(2), uniform_with_noise),
    Case("5 numbers, and uniform beside them", math.log(5) - 0.8 * math.log(2), discrete_and_continuous),
]


def timed(action: Callable[[], float]) -> tuple[float, float]:
    """The result, and the seconds of processor time."""
    start = time.process_time()
    result = action()
    return result, time.process_time() - start


def mist(x: Tensor, y: Tensor, iterations: int) -> float:
    """torch-mist's MINE, trained on four fifths and read out on the rest."""
    from torch_mist import estimate_mi

    cut = len(x) * 4 // 5
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        value = estimate_mi(
            (x[:cut].float(), y[:cut].float()), estimator="mine", hidden_dims=[128, 128],
            test_data=(x[cut:].float(), y[cut:].float()), max_iterations=iterations,
            early_stopping=False, fast_train=True, verbose=False, batch_size=256,
        )  # fmt: skip
    return float(value[0] if isinstance(value, tuple) else value)


def measured(case: Case) -> tuple[str, list[tuple[float, float]]]:
    """A line of the table, and each set's figure and seconds."""
    figures, seconds, bounds, optimal, neighbours = [], [], [], [], []
    for seed in range(case.sets):
        x, y, ratio = case.draw(seed)
        start = time.process_time()
        result = estimate(x, y, seed=seed)
        seconds.append(time.process_time() - start)
        figures.append(result.nats)
        bounds.append(result.lower_bound)
        optimal.append(float(ratio.mean()))
        if x[0].numel() <= 5:
            neighbours.append(ksg_information(x, y))
    error = statistics.mean(figures) - case.nats
    aim = "" if case.aim is None else f"{case.aim:g}: {'reached' if abs(error) <= case.aim else 'missed'}"
    cells = [
        case.name, f"{case.nats:.3f}", f"{statistics.mean(figures):.4f}", f"{error:+.4f}", aim,
        f"{statistics.stdev(figures):.4f}", f"{statistics.mean(bounds):.4f}",
        f"{statistics.mean(optimal) - case.nats:+.4f}", f"{statistics.mean(neighbours):.4f}" if neighbours else "",
        f"{statistics.mean(seconds):.1f}", f"{max(seconds):.1f}", f"{case.sets}",
    ]  # fmt: skip
    return f"| {' | '.join(cells)} |", list(zip(figures, seconds, strict=True))


def rivals(case: Case, ours: list[tuple[float, float]], sets: int = 3) -> str:
    """A line with the means of the first sets: ours, and torch-mist's after as many seconds."""
    theirs, spent = [], []
    for seed in range(sets):
        x, y, _ = case.draw(seed)
        _, trial = timed(lambda x=x, y=y: mist(x, y, 200))
        value, seconds = timed(lambda x=x, y=y, n=int(200 * ours[seed][1] / trial): mist(x, y, max(n, 1)))
        theirs.append(value)
        spent.append(seconds)
    mine, mine_seconds = zip(*ours[:sets], strict=True)
    errors = [abs(statistics.mean(values) - case.nats) for values in (mine, theirs)]
    return (
        f"| {case.name} | {case.nats:g} | {statistics.mean(mine):.3f} | {statistics.mean(mine_seconds):.1f} "
        f"| {statistics.mean(theirs):.3f} | {statistics.mean(spent):.1f} | {errors[0] / errors[1]:.2f} |"
    )


_COLUMNS = heading("samples", "nats", "agrlearn", "s", "torch-mist", "s", "error over theirs")


def beside_mist() -> list[str]:
    """The error of an estimate of mutual information over that of torch-mist's MINE after equal seconds.

    10,000 Gaussian samples, one set; theirs with two hidden layers of 128 and batches of 256, trained on four fifths
    and read out on the rest. `python -m benchmarks information` has more sets and cases (results/information.md).
    """
    find_neighbours()
    try:
        import torch_mist  # noqa: F401
    except ImportError as error:
        return [f"torch-mist was not there to compare with ({error}); ./run bench installs it."]
    lines = list(_COLUMNS)
    for case in CASES:
        if case.rivals:
            x, y, _ = case.draw(0)
            lines.append(rivals(case, [timed(lambda x=x, y=y: estimate(x, y).nats)], sets=1))
    return lines


def information() -> list[str]:
    """All cases, then torch-mist on the same samples for as many seconds; the file grows as the cases are measured."""
    lines = [
        "# Estimates of mutual information where it is known",
        "",
        "Made by `python -m benchmarks information`: 10,000 samples each, the default settings of `estimate`, one",
        "core. *error*: of the mean over sample sets. *lower bound*: the InfoNCE of the same critics. *optimal*: the",
        "error of the true log-ratio's mean on the same samples, which no estimator is expected to beat. *KSG*:",
        "`ksg_information`. Seconds are processor time on a shared machine.",
        "",
        "| samples | nats | estimate | error | aim | deviation of one set | lower bound | optimal | KSG | s "
        "| longest s | sets |",
        "|---|---:|---:|---:|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    ours = {}
    for case in CASES:
        line, ours[case.name, case.nats] = measured(case)
        print(line, flush=True)
        lines.append(line)
        _write(lines)
    lines += ["", "## Beside torch-mist's MINE", ""]
    find_neighbours()
    try:
        import torch_mist  # noqa: F401
    except ImportError as error:
        lines.append(f"torch-mist was not there to compare with ({error}); ./run bench installs it.")
    else:
        lines += [
            "The same first 3 sample sets, and about as many seconds (a trial of 200 steps decides): two hidden layers",
            "of 128, batches of 256, trained on four fifths and read out on the rest.",
            "",
            *_COLUMNS,
        ]
        for case in CASES:
            if case.rivals:
                lines.append(rivals(case, ours[case.name, case.nats]))
                _write(lines)
    _write(lines)
    return [f"written to {RESULTS}"]


def _write(lines: list[str]) -> None:
    RESULTS.parent.mkdir(exist_ok=True)
    write_atomically(RESULTS, "\n".join(lines) + "\n")
