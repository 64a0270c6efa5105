"""TabM (Gorishniy et al., ICLR 2025), a network of 32 members that share most weights, with its package's defaults."""

import copy
import time
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

import numpy
import torch
from sklearn.preprocessing import QuantileTransformer
from torch import Tensor
from torch.nn import functional

from agrlearn.evaluation.metrics import METRICS, outcomes_of, score
from agrlearn.files import make_own_folder, write_atomically
from agrlearn.grouping import first_tensor
from agrlearn.runs.jobs import Outcome
from agrlearn.runs.many import Job, do_runs
from agrlearn.runs.result import REPLICATED, FinishedRun, ProtocolScores, RunResult, describe_machine
from agrlearn.runs.spec import RunSpec
from agrlearn.runs.train import open_data
from agrlearn.training.identity import RUN_FORMAT
from agrlearn.training.recipe import Recipe
from benchmarks.neighbours import find_neighbours

TABM = "tabm"
_VALIDATION = 0.2
_RECIPE = Recipe(
    epochs=300, batch_size=32, optimizer="adamw", learning_rate=0.002, weight_decay=0.0003, schedule="constant",
    patience=16,
)  # fmt: skip
"""That of the package's example, but for the batches: 256 rows are too many for tables of a few hundred."""


def tabm_of(spec: RunSpec) -> RunSpec:
    """TabM on the data of an ordinary network."""
    return spec.model_copy(update={"network": TABM, "net": {}, "recipe": _RECIPE})


@dataclass(frozen=True)
class _Part:
    x: Tensor
    y: Tensor


def do_runs_or_tabm(jobs: Sequence[Job]) -> list[Outcome]:
    """Runs of networks of ours that train together, or one of scikit-learn or of TabM."""
    if jobs[0].spec.network != TABM:
        return do_runs(jobs)
    return [_do_tabm(job) for job in jobs]


def _do_tabm(job: Job) -> FinishedRun:
    if (done := job.finished()) is not None:
        return done
    assert job.cell is not None
    versions = {package: version(package) for package in ("agrlearn", "torch", "numpy")}
    finished = FinishedRun(format=RUN_FORMAT, versions=versions, spec=job.spec, result=_run_tabm(job.spec))
    make_own_folder(job.cell.parent)
    write_atomically(job.cell, finished.to_json())
    return finished


def _run_tabm(spec: RunSpec) -> RunResult:
    """Train on four fifths of the training part, keep the epoch that is best on the rest, measure on the test part."""
    find_neighbours()
    import tabm  # type: ignore[import-not-found]

    whole = open_data(spec)
    choosing = open_data(spec.model_copy(update={"tuning_fraction": _VALIDATION}))
    if whole.test is None or choosing.test is None:
        raise ValueError("TabM is measured on a test part")
    raw = [first_tensor(part.objects).flatten(1).numpy() for part in (choosing.train, choosing.test, whole.test)]
    # The preparation of the package's example.
    scale = QuantileTransformer(
        n_quantiles=max(min(len(raw[0]) // 30, 1000), 10), output_distribution="normal", subsample=10**9, random_state=0
    )
    noise = numpy.random.default_rng(0).normal(0.0, 1e-5, raw[0].shape)
    scale.fit(raw[0] + noise)
    labels = (choosing.train.labels, choosing.test.labels, whole.test.labels)
    train, validation, test = (
        _Part(torch.from_numpy(scale.transform(x)).float(), y) for x, y in zip(raw, labels, strict=True)
    )
    classes, width = choosing.train.num_classes, train.x.shape[1]
    torch.manual_seed(spec.seed)
    model = tabm.TabM.make(n_num_features=width, d_out=classes)
    start = time.perf_counter()
    steps = _train(model, train, validation)
    seconds = time.perf_counter() - start
    scores = score(outcomes_of(_predict(model, test.x), test.y))
    hidden = 512
    cost = model.k * (width * hidden + 2 * hidden**2 + hidden * classes)
    found = ProtocolScores(
        **{name: getattr(scores, name) for name in METRICS}, head_disagreement=0.0, multiply_adds=float(cost)
    )
    parameters = sum(parameter.numel() for parameter in model.parameters())
    return RunResult(
        {REPLICATED: found}, (), parameters, steps, steps * _RECIPE.batch_size, seconds, describe_machine()
    )


def _train(model: Any, train: _Part, validation: _Part) -> int:
    """Train with the package's way of stopping early; the model ends with its best weights."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=_RECIPE.learning_rate, weight_decay=_RECIPE.weight_decay)
    best, best_state, waited, steps = float("inf"), model.state_dict(), 0, 0
    for _ in range(_RECIPE.epochs):
        model.train()
        for batch in torch.randperm(len(train.y)).split(_RECIPE.batch_size):
            members = model(train.x[batch])
            loss = functional.cross_entropy(members.flatten(0, 1), train.y[batch].repeat_interleave(model.k))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            steps += 1
        nll = functional.nll_loss(_predict(model, validation.x).log(), validation.y).item()
        if nll < best:
            best, best_state, waited = nll, copy.deepcopy(model.state_dict()), 0
        elif (waited := waited + 1) >= (_RECIPE.patience or 0):
            break
    model.load_state_dict(best_state)
    return steps


def _predict(model: Any, x: Tensor) -> Tensor:
    model.eval()
    with torch.inference_mode():
        return model(x).double().softmax(-1).mean(1)
