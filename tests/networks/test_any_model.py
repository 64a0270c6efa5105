"""aggregate() before the classifier, on whatever model: it survives, it learns, and it comes back out."""

import copy
import pickle

import pytest
import torch
from torch import Tensor

from agrlearn import aggregate, single
from agrlearn.grouping import count_objects, group, map_objects, replicate, take
from agrlearn.networks.conversion.tracing import call, tensors_in
from tests.networks import odd, zoo


def scores_in(output):
    """The class scores, by what these models are known to return."""
    if isinstance(output, Tensor):
        return output
    if isinstance(output, dict):
        return output["logits"] if "logits" in output else output["prediction"]["scores"]
    for name in ("logits", "scores"):
        if hasattr(output, name):
            return getattr(output, name)
    return next(tensor for tensor in output if tensor.shape[1] == 5)


@torch.no_grad()
def scores_of(model, objects):
    return scores_in(call(model, map_objects(Tensor.clone, objects)))


def assert_same(given, expected):
    if bool((expected >= 0).all()) and torch.allclose(expected.sum(dim=-1), torch.ones(len(expected))):
        given = given.softmax(dim=-1)
    scale = max(1.0, float(expected.abs().max()))
    torch.testing.assert_close(given, expected, rtol=0, atol=1e-5 * scale)


def works(function, thing):
    try:
        return function(thing)
    except Exception:
        return None


def through_pickle(thing):
    return pickle.loads(pickle.dumps(thing))


def trained_names(model):
    return {name for name, parameter in model.named_parameters() if parameter.grad is not None}


def check_model(make, example):
    torch.manual_seed(0)
    model, objects = make().eval(), example()
    expected, known = scores_of(model, objects), map_objects(Tensor.clone, objects)
    for fold, join in ((1, "max"), (2, "mean"), (4, "max")):
        state = torch.get_rng_state()
        network = aggregate(model, fold, objects, join=join, verbose=False).eval()
        assert torch.equal(torch.get_rng_state(), state)
        with torch.no_grad():
            given = network(replicate(objects, fold))
        for slot in range(fold):
            assert_same(given[:, slot], expected)
        assert network.conversion.difference < 1e-5
        assert all(map(torch.equal, tensors_in(objects), tensors_in(known)))

        alone = single(network)
        assert type(alone) is type(model)
        assert list(alone.state_dict()) == list(model.state_dict())
        torch.testing.assert_close(scores_of(alone, objects), expected, rtol=0, atol=0)
        check_training(network, objects)
        if fold == 2:
            fresh = make().eval()
            fresh.load_state_dict(alone.state_dict())
            torch.testing.assert_close(scores_of(fresh, objects), expected)
            check_copies(network.eval(), objects)


def check_training(network, objects):
    """A pass and its gradients in train mode reach what the model itself trains."""
    twice = take(objects, torch.arange(2 * network.fold) % count_objects(objects))
    logits = network.train()(group(twice, network.fold))
    (logits * torch.randn(logits.shape)).sum().backward()
    assert logits.isfinite().all()
    plain = single(network).train()
    plain.zero_grad()
    scores = scores_in(call(plain, map_objects(Tensor.clone, twice)))
    (scores * torch.randn(scores.shape)).sum().backward()
    assert trained_names(network.shared.model) == trained_names(plain) != set()


def check_copies(network, objects):
    groups = replicate(objects, network.fold)
    with torch.no_grad():
        expected = network(groups)
        for copied in (copy.deepcopy, through_pickle):
            twin = works(copied, network)
            assert (twin is not None) == (works(copied, network.shared.model) is not None)
            if twin is not None:
                torch.testing.assert_close(twin(groups), expected)
                assert twin.head is not network.head


@pytest.mark.parametrize("name", odd.ODD)
@pytest.mark.filterwarnings("ignore:.*weight_norm.*:FutureWarning")
@pytest.mark.filterwarnings("ignore:.*Lazy modules.*:UserWarning")
def test_an_odd_model_survives_learns_and_comes_back_out(name):
    check_model(*odd.ODD[name])


@pytest.mark.parametrize("name", zoo.DEFAULT)
def test_a_known_model_survives_learns_and_comes_back_out(name):
    check_model(*zoo.DEFAULT[name])


@pytest.mark.slow
@pytest.mark.parametrize("name", zoo.WIDE)
def test_every_known_model_survives_learns_and_comes_back_out(name):
    check_model(*zoo.WIDE[name])
