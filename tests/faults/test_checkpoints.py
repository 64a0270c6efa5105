"""Checkpoints that are cut, altered, old or of another run: the one before is used, or a sentence, and none is lost."""

import hashlib
import io
import random
import shutil
import warnings

import pytest
import torch
from torch import nn

from agrlearn.errors import RunError
from agrlearn.networks.aggregated import AggregatedClassifier
from tests.faults.runs import network, train, weights_of


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("finished")
    train(folder, "short")
    return folder


@pytest.fixture
def run(finished, tmp_path):
    """A copy of a finished run, to be damaged."""
    return shutil.copytree(finished, tmp_path / "run")


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def cut_short(content, moments):
    return content[: moments.randrange(len(content))]


def flip_a_byte(content, moments):
    position = moments.randrange(len(content))
    return content[:position] + bytes([content[position] ^ (1 << moments.randrange(8))]) + content[position + 1 :]


def damaged_runs(run, damage, times):
    """Damage the last checkpoint again and again; the run must go on from the one before, to the same weights."""
    whole, weights = contents(run), weights_of(run)
    moments = random.Random(0)
    for _ in range(times):
        broken = damage(whole["checkpoint.pt"], moments)
        (run / "checkpoint.pt").write_bytes(broken)
        (run / "checkpoint.previous.pt").write_bytes(whole["checkpoint.previous.pt"])
        with pytest.warns(UserWarning, match="resumes from the checkpoint before it"):
            train(run, "short")
        assert weights_of(run) == weights
        assert (run / "metrics.jsonl").read_bytes() == whole["metrics.jsonl"]
        assert (run / "checkpoint.damaged.pt").read_bytes() == broken


@pytest.mark.parametrize("damage", [cut_short, flip_a_byte])
def test_a_damaged_checkpoint_is_put_aside_and_the_one_before_used(damage, run):
    damaged_runs(run, damage, times=5)


@pytest.mark.slow
@pytest.mark.parametrize("damage", [cut_short, flip_a_byte])
def test_a_checkpoint_damaged_anywhere_is_never_taken_for_a_good_one(damage, run):
    damaged_runs(run, damage, times=100)


@pytest.mark.parametrize("damage", [cut_short, flip_a_byte])
def test_two_damaged_checkpoints_get_a_sentence_and_stay_as_they_are(damage, run):
    moments = random.Random(1)
    for name in ("checkpoint.pt", "checkpoint.previous.pt"):
        (run / name).write_bytes(damage((run / name).read_bytes(), moments))
    before = contents(run)
    with pytest.raises(RunError, match=r"checkpoint.*not a readable checkpoint; restore it"):
        train(run, "short")
    assert contents(run) == before


def rewrite(file, change):
    """Change a checkpoint's state, with a checksum that holds."""
    state = torch.load(io.BytesIO(file.read_bytes()[32:]), weights_only=True)
    change(state)
    buffer = io.BytesIO()
    torch.save(state, buffer)
    file.write_bytes(hashlib.sha256(buffer.getvalue()).digest() + buffer.getvalue())


KEYS = [
    "network", "optimizer", "regularizer", "totals", "epoch", "step", "seconds", "skipped_in_a_row", "records",
    "best_epoch", "best_weights", "out_of_patience",
]  # fmt: skip


# Without these, checkpoints of earlier versions still load.
LATER_KEYS = ["precision", "epoch_seconds", "average", "averaged"]


@pytest.mark.parametrize("key", [key for key in KEYS if key != "regularizer"])
def test_an_older_versions_checkpoint_gets_a_sentence_and_is_not_overwritten(key, run):
    rewrite(run / "checkpoint.pt", lambda state: state.pop(key))
    before = contents(run)
    with pytest.raises(RunError, match=r"does not fit this run.*--fresh") as caught:
        train(run, "short")
    assert "\n" not in str(caught.value)
    assert contents(run) == before


def test_the_keys_of_a_checkpoint_are_those_that_are_left_out_above(run):
    state = torch.load(io.BytesIO((run / "checkpoint.pt").read_bytes()[32:]), weights_only=True)
    assert sorted(state) == sorted(KEYS + LATER_KEYS)


@pytest.mark.parametrize("key", LATER_KEYS)
def test_a_checkpoint_from_before_a_key_was_kept_still_loads(key, run):
    rewrite(run / "checkpoint.pt", lambda state: state.pop(key))
    assert train(run, "short").was_finished


@pytest.mark.parametrize(("fold", "classes"), [(3, 3), (2, 4)])
def test_another_fold_or_class_count_is_refused_and_nothing_is_overwritten(fold, classes, run, tmp_path):
    other = tmp_path / "other"
    train(other, "short", network(fold, classes))
    before = contents(run)
    with pytest.raises(RunError, match="belongs to another run"):
        train(run, "short", network(fold, classes))
    assert contents(run) == before
    shutil.copy(other / "checkpoint.pt", run / "checkpoint.pt")
    before = contents(run)
    with pytest.raises(RunError, match=r"does not fit this run.*size mismatch.*--fresh"):
        train(run, "short")
    assert contents(run) == before


def own_network(*, noise=0.0, activation=nn.ReLU):
    torch.manual_seed(0)
    encoder = nn.Sequential(nn.Linear(10, 12), activation())
    return AggregatedClassifier(encoder, features=12, fold=2, num_classes=3, join="features", noise=noise)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (own_network, lambda: own_network(noise=1.0)),
        (own_network, lambda: own_network(activation=nn.Tanh)),
        (network, lambda: network(seed=1)),
    ],
    ids=["noise", "layers", "seed of the initial weights"],
)
def test_another_network_of_the_same_size_is_refused(first, second, tmp_path):
    train(tmp_path / "run", "short", first())
    assert train(tmp_path / "run", "short", first()).was_finished
    with pytest.raises(RunError, match="belongs to another run"):
        train(tmp_path / "run", "short", second())


def test_layers_that_print_their_address_are_the_same_in_another_process(tmp_path):
    class Printing(nn.ReLU):
        def extra_repr(self):
            return repr(object())

    train(tmp_path / "run", "short", own_network(activation=Printing))
    assert train(tmp_path / "run", "short", own_network(activation=Printing)).was_finished


def test_an_undamaged_run_is_not_warned_of(run):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert train(run, "short").was_finished
