"""Two processes give what one gives: J, gradients, weights, predictions."""

import os
import re
import signal
import subprocess
import sys
import time

import pytest
import torch

from agrlearn.training.loop import fit
from tests.training import several_processes as job


def torchrun(*arguments, processes=2, **keywords):
    command = [
        sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(processes), *arguments,
    ]  # fmt: skip
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **keywords
    )


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ranks")
    started = torchrun("-m", "tests.training.several_processes", str(folder))
    alone = job.results(None)
    _, told = started.communicate(timeout=300)
    assert started.returncode == 0, told
    return alone, [torch.load(folder / f"rank{rank}.pt", weights_only=False) for rank in range(2)]


@pytest.mark.parametrize("case", job.CASES)
def test_two_processes_reach_the_weights_and_the_information_of_one(both, case):
    alone, ranks = both
    for rank in ranks:
        for name in ("loss", "information", "error"):
            assert rank[case][name] == pytest.approx(alone[case][name], abs=2e-5)
        if "2 parts" not in case:  # they are cut on each process by itself
            assert rank[case]["log_groups"] == alone[case]["log_groups"]
        for name, value in alone[case]["weights"].items():
            assert torch.allclose(rank[case]["weights"][name], value, atol=2e-5), name
    if "alpha 0.5" in case:
        assert all(value != 0 for value in alone[case]["information"])


def test_the_clip_is_felt(both):
    alone, _ = both
    clipped, free = (
        alone[name]["weights"] for name in ("clipped, alpha 0.5", "without batch norm, alpha 0.5, K 1, 1 parts")
    )
    assert not all(torch.allclose(clipped[name], value, atol=1e-3) for name, value in free.items())


def test_a_dataset_that_is_loaded_batch_by_batch_is_measured_as_one_in_memory(both):
    alone, ranks = both
    for told in (alone, *ranks):
        assert told["loaded batch by batch"] == told["loaded at once"]


def test_a_step_on_parts_of_a_batch_is_the_step_on_the_whole(both):
    alone, _ = both
    whole, parts = (alone[f"without batch norm, alpha 0, K 1, {count} parts"] for count in (1, 2))
    assert parts["loss"] == pytest.approx(whole["loss"], abs=1e-5)
    assert all(torch.allclose(parts["weights"][name], value, atol=1e-5) for name, value in whole["weights"].items())


@pytest.mark.parametrize("protocol", job.PROTOCOLS)
def test_shared_prediction_gives_every_object_once_in_order_on_every_process(both, protocol):
    alone, ranks = both
    for rank in ranks:
        assert rank[protocol].shape == (106, 3)
        assert torch.allclose(rank[protocol], alone[protocol], atol=1e-4)
        assert rank[f"{protocol} errors"] == pytest.approx(alone[f"{protocol} errors"], abs=0.02)


def train(run_dir, *options):
    return (
        "-m", "agrlearn", "train", "digits", "--net.width", "8", "--run-dir", str(run_dir), "--evaluate-every", "5",
        *options,
    )  # fmt: skip


def test_a_killed_process_ends_the_run_with_a_sentence_and_the_run_goes_on(tmp_path):
    run = tmp_path / "run"
    options = train(run, "--epochs", "30")
    started = torchrun(*options)
    deadline = time.monotonic() + 120
    while not (run / "metrics.jsonl").exists() or len((run / "metrics.jsonl").read_text().splitlines()) < 2:
        assert time.monotonic() < deadline and started.poll() is None
        time.sleep(0.1)
    ranks = subprocess.run(["pgrep", "-P", str(started.pid)], capture_output=True, text=True, check=True).stdout.split()
    os.kill(int(ranks[1]), signal.SIGKILL)
    killed = time.monotonic()
    _, told = started.communicate(timeout=60)
    assert started.returncode != 0
    assert time.monotonic() - killed < 60
    assert re.search("run the same command again", told), told
    before = len((run / "metrics.jsonl").read_text().splitlines())
    assert 2 <= before < 30

    again = torchrun(*options)
    out, told = again.communicate(timeout=300)
    assert again.returncode == 0, told
    assert out.count("held-out error") == 1  # one process is_main_process
    assert len((run / "metrics.jsonl").read_text().splitlines()) == 30


def test_a_run_of_two_processes_goes_on_with_one_to_the_same_weights(both, tmp_path):
    """The second epoch on one process, after a first one on two."""
    data = job.make_data()
    assert both
    started = torchrun("-m", "tests.training.several_processes", str(tmp_path), "first-epoch")
    _, told = started.communicate(timeout=300)
    assert started.returncode == 0, told
    network = job.make_network(False)
    history = fit(network, data, job.make_recipe(alpha=0.5), data, tmp_path / "run")
    alone, _ = both
    case = "without batch norm, alpha 0.5, K 1, 1 parts"
    assert [record.loss for record in history.records] == pytest.approx(alone[case]["loss"], abs=2e-5)
    assert all(torch.allclose(network.state_dict()[name], w, atol=2e-5) for name, w in alone[case]["weights"].items())
