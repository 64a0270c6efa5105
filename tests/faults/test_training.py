"""Faults while a network trains: bad numbers, a loader's dead process, Ctrl-C."""

import os
import signal

import pytest
import torch
from torch.utils.data import DataLoader, Dataset

from agrlearn.data.batches import explain_lost_workers
from agrlearn.data.datasets import open_source
from agrlearn.data.labelled import LabelledSet
from agrlearn.errors import DataError, NotFiniteError, ShapeError, TrainingError
from agrlearn.networks.catalogue import build_network
from agrlearn.prediction.predict import predict
from agrlearn.training import epoch
from agrlearn.training.loop import fit
from agrlearn.training.recipe import Recipe
from tests.faults.runs import RECIPES, data, last_checkpoint, names_in, network, train, weights_of
from tests.training.stopping import before_every_step


class Stream(Dataset):
    """Objects one by one, of which some go wrong."""

    def __init__(self, fault=None, at=70):
        self.inner, self.fault, self.at = data(), fault, at

    def __len__(self):
        return len(self.inner)

    def __getitem__(self, index):
        vector, label = self.inner[index]
        return (self.fault(vector) if self.fault and index == self.at else vector), label


RECIPE = Recipe(epochs=3, batch_size=16, learning_rate=0.05)


def finite(folder):
    state = last_checkpoint(folder)
    return state is None or all(torch.isfinite(value).all() for value in state["network"].values())


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf"), 3e38])
@pytest.mark.parametrize("alpha", [0.0, pytest.param(0.2, marks=pytest.mark.slow)])
def test_bad_numbers_within_an_epoch_end_the_run_and_no_lost_weights_are_saved(value, alpha, tmp_path):
    recipe = RECIPE.model_copy(update={"alpha": alpha})
    fit(whole := network(), Stream(), recipe, run_dir=tmp_path / "whole")
    with pytest.raises(TrainingError, match="no longer finite in epoch 1; lower the learning rate, and check the data"):
        fit(network(), Stream(lambda vector: vector * 0 + value), recipe, run_dir=tmp_path / "run")
    assert finite(tmp_path / "run")
    mended = network()
    fit(mended, Stream(), recipe, run_dir=tmp_path / "run")
    for name, tensor in whole.state_dict().items():
        assert torch.equal(tensor, mended.state_dict()[name])


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
@pytest.mark.parametrize("rate", [1e6, 1e20, 1e30])
def test_a_run_that_diverges_ends_with_a_sentence_or_finite_weights(rate, optimizer, tmp_path):
    recipe = Recipe(epochs=6, batch_size=16, learning_rate=rate, optimizer=optimizer, schedule="constant")
    trained = network()
    try:
        fit(trained, data(), recipe, run_dir=tmp_path, checkpoint_seconds=0)
    except TrainingError as error:
        assert "lower the learning rate" in str(error)
        assert "network.safetensors" not in names_in(tmp_path)
    else:
        assert all(torch.isfinite(value).all() for value in trained.parameters())
    assert finite(tmp_path)


@pytest.mark.parametrize("seed", range(6))
def test_answers_that_are_not_numbers_end_the_run_with_a_sentence(seed):
    source = open_source("digits")
    train_set, test_set = source.labelled(source.train), source.labelled(source.unseen)
    small = build_network(object_shape=(1, 8, 8), num_classes=10, fold=2, seed=seed, objects=train_set.objects, width=8)
    recipe = Recipe(epochs=2, learning_rate=1e5, batch_size=1000, seed=seed)
    with pytest.raises(TrainingError, match="no longer finite in epoch 1; lower the learning rate"):
        fit(small, train_set, recipe, test_set)
    with pytest.raises(NotFiniteError, match="the network's answers are not finite numbers"):
        predict(small, test_set.objects)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (lambda: DataLoader(data()), "got DataLoader; pass its dataset"),
        (lambda: (pair for pair in [data()[0]]), "got generator; LabelledSet.of"),
        (lambda: (torch.rand(9, 5), torch.zeros(9)), r"items are \(object, label\), got Tensor"),
        (lambda: LabelledSet(torch.rand(9, 5), torch.zeros(9, dtype=torch.int64), ("a",)), "a single class, 'a'"),
    ],
    ids=["loader", "generator", "arrays", "one class"],
)
def test_what_cannot_be_trained_on_gets_a_sentence(wrong, words):
    with pytest.raises(DataError, match=words):
        fit(network(), wrong(), RECIPE)


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_training_without_gradients_gets_a_sentence(mode):
    with mode(), pytest.raises(TrainingError, match="nothing can be learned"):
        fit(network(), data(), RECIPE)


def test_objects_of_another_width_get_a_sentence():
    with pytest.raises(ShapeError, match=r"built for objects of shape \(5,\), got objects of shape \(4,\)"):
        predict(network(), torch.rand(3, 4))


def test_weights_that_overflow_in_a_runs_last_step_are_not_kept(tmp_path):
    recipe = Recipe(epochs=1, batch_size=96, learning_rate=1e30, weight_decay=1e30)
    with pytest.raises(TrainingError, match="the weights are no longer finite"):
        fit(network(), data(), recipe, run_dir=tmp_path)
    assert names_in(tmp_path) == {"run.json"}


def killed(vector):
    os.kill(os.getpid(), signal.SIGKILL)


# torch tells of the death by an exception from a signal handler, which may hit a callback of the garbage collector
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_killed_process_of_the_loader_ends_the_run_with_a_sentence_and_the_run_goes_on(tmp_path):
    fit(whole := network(), Stream(), RECIPE, run_dir=tmp_path / "whole", workers=2)
    with pytest.raises(DataError, match=r"a process that loads the data died.*fewer workers"):
        fit(network(), Stream(killed), RECIPE, run_dir=tmp_path / "run", workers=2)
    resumed = network()
    fit(resumed, Stream(), RECIPE, run_dir=tmp_path / "run", workers=2)
    for name, tensor in whole.state_dict().items():
        assert torch.equal(tensor, resumed.state_dict()[name])


def raised(vector):
    raise RuntimeError("DataLoader is a word in the user's own error")


def test_an_error_of_the_data_sets_own_code_stays_what_it_is(tmp_path):
    with pytest.raises(RuntimeError, match="the user's own error") as caught:
        fit(network(), Stream(raised), RECIPE, workers=1)
    assert not isinstance(caught.value, DataError)


@pytest.mark.parametrize("presses", [1, 2])
@pytest.mark.parametrize("step", [1, 8])
def test_ctrl_c_once_or_twice_stops_and_the_run_goes_on_to_the_same_weights(presses, step, tmp_path):
    train(tmp_path / "whole", "short")
    left = step

    def press():
        nonlocal left
        left -= 1
        if left == 0:
            for _ in range(presses):
                signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt), before_every_step(press):
        fit(network(), data(), RECIPES["short"], data(), tmp_path / "run")
    state = last_checkpoint(tmp_path / "run")
    came_to = 0 if state is None else 6 * state["epoch"] + state["step"]
    # Once: the step is finished and saved. Twice: stopped at once, within the step, and the epoch's start is the last.
    assert came_to == (step if presses == 1 else 6 * ((step - 1) // 6))
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    train(tmp_path / "run", "short")
    assert weights_of(tmp_path / "run") == weights_of(tmp_path / "whole")


@pytest.mark.parametrize("epochs", [1, 2])
def test_ctrl_c_while_the_last_epoch_is_measured_is_heard_too(epochs, tmp_path, monkeypatch):
    measure = epoch.evaluate

    def press(*arguments, **options):
        signal.raise_signal(signal.SIGINT)
        return measure(*arguments, **options)

    recipe = RECIPES["short"].model_copy(update={"epochs": epochs, "evaluate_every": epochs})
    monkeypatch.setattr(epoch, "evaluate", press)
    with pytest.raises(KeyboardInterrupt):
        fit(network(), data(), recipe, data(), tmp_path)
    monkeypatch.undo()
    assert fit(network(), data(), recipe, data(), tmp_path).was_finished


def test_ctrl_c_stays_ignored_where_it_was_ignored():
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with before_every_step(lambda: signal.raise_signal(signal.SIGINT)):
            history = fit(network(), data(), RECIPES["short"])
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)
    assert len(history.records) == RECIPES["short"].epochs


def test_a_worker_that_dies_while_it_hands_over_a_batch_is_told_of_like_any_other():
    def tell(number, frame):
        raise RuntimeError("DataLoader worker (pid 1) is killed by signal: Killed.")

    before = signal.signal(signal.SIGALRM, tell)
    try:
        with pytest.raises(DataError, match="a process that loads the data died"), explain_lost_workers():
            signal.setitimer(signal.ITIMER_REAL, 0.1)
            raise ConnectionResetError
    finally:
        signal.signal(signal.SIGALRM, before)
