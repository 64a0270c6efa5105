"""A run that is killed with signal 9, at any moment, goes on to the same weights."""

import random
import signal
import time
import warnings

import pytest

from tests.faults.processes import CONTEXT
from tests.faults.runs import FILES, RECIPES, last_checkpoint, names_in, train, weights_of

KILLS = 50


def finish(folder, kind):
    process = CONTEXT.Process(target=train, args=(folder, kind))
    begun = time.perf_counter()
    process.start()
    process.join()
    assert process.exitcode == 0
    return time.perf_counter() - begun


@pytest.mark.slow
def test_fifty_kills_over_runs_lives_leave_good_checkpoints_and_the_same_weights(tmp_path):
    moments = random.Random(0)
    lifetimes = {}
    for kind in RECIPES:
        finish(tmp_path / "warm", "plain") if not lifetimes else None
        lifetimes[kind] = finish(tmp_path / f"whole {kind}", kind)
    kills, runs, steps = 0, 0, set()
    while kills < KILLS:
        kind = list(RECIPES)[runs % len(RECIPES)]
        folder = tmp_path / f"run {runs}"
        runs += 1
        for _ in range(6):
            process = CONTEXT.Process(target=train, args=(folder, kind))
            process.start()
            process.join(moments.uniform(0, 0.6 * lifetimes[kind]))
            process.kill()
            process.join()
            if process.exitcode == 0:
                break
            assert process.exitcode == -signal.SIGKILL
            kills += 1
            with warnings.catch_warnings():
                warnings.simplefilter("error")  # of a damaged checkpoint
                state = last_checkpoint(folder) if folder.exists() else None
            steps.add((runs, state and (state["epoch"], state["step"])))
        finish(folder, kind)
        assert weights_of(folder) == weights_of(tmp_path / f"whole {kind}")
        records = (folder / "metrics.jsonl").read_bytes()
        assert records == (tmp_path / f"whole {kind}" / "metrics.jsonl").read_bytes()
        assert names_in(folder) == FILES
    print(f"{kills} kills in {runs} runs, {len(steps)} different moments")
    assert len(steps) > KILLS / 2  # not all at the start
