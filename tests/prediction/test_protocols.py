"""Protocols against naive loops that classify one group at a time."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from agrlearn.errors import AgrLearnError, RecipeError, ShapeError, UnknownNameError
from agrlearn.networks.aggregated import AggregatedClassifier
from agrlearn.networks.catalogue import build_network
from agrlearn.prediction.cost import multiply_adds_per_object
from agrlearn.prediction.predict import answers_of, predict
from agrlearn.prediction.protocols import PROTOCOLS, Batched, Contextual, Replicated, make_protocol

counts = st.integers(1, 23)
folds = st.integers(1, 4)
draws = st.integers(1, 5)
batch_sizes = st.integers(1, 7)
SHAPE = (1, 4, 4)


def make_network(fold, **options):
    return build_network("small-cnn", object_shape=SHAPE, num_classes=3, fold=fold, width=4, **options).eval()


def alone(network, slots):
    """The answers to one group, classified by itself."""
    with torch.no_grad():
        return network(torch.stack(slots)[None])[0].softmax(dim=-1)


@settings(deadline=None, max_examples=40)
@given(count=counts, fold=folds, batch_size=batch_sizes)
def test_replicated_is_the_mean_of_all_heads_on_the_object_in_every_slot(count, fold, batch_size):
    network, objects = make_network(fold), torch.rand(count, *SHAPE)
    expected = torch.stack([alone(network, [one] * fold).mean(dim=0) for one in objects])
    assert torch.allclose(predict(network, objects, batch_size=batch_size), expected, atol=1e-5)


@settings(deadline=None, max_examples=60)
@given(count=counts, fold=folds, draws=draws, batch_size=batch_sizes, seed=st.integers(0, 99), beside=st.integers(1, 9))
@pytest.mark.parametrize("name", PROTOCOLS)
def test_every_object_is_in_one_batch_and_heard_equally_often_in_it(name, count, fold, draws, batch_size, seed, beside):
    protocol = make_protocol(name, draws=draws, seed=seed, context=lambda: torch.rand(beside, 2))
    batches = protocol.batches(count, fold, batch_size)
    assert torch.cat(tuple(batches)).sort().values.tolist() == list(range(count))
    for number, batch in enumerate(batches):
        heard = []
        for groups, counts in protocol.seatings(number, len(batch), fold, beside):
            assert groups.shape == counts.shape == (len(groups), fold)
            assert len(groups) <= batch_size
            assert 0 <= int(groups.min()) <= int(groups.max()) < len(batch) + beside
            assert int(groups[counts].max()) < len(batch)  # companions are not asked
            heard += groups[counts].tolist()
        expected = fold if name == "replicated" else draws
        assert torch.tensor(heard).bincount(minlength=len(batch)).tolist() == [expected] * len(batch)


def test_replicated_seats_each_object_in_every_slot():
    [(groups, counts)] = Replicated().seatings(0, 3, 2, 0)
    assert groups.tolist() == [[0, 0], [1, 1], [2, 2]]
    assert counts.all()


def test_batched_seats_different_objects_and_fills_the_last_group_with_its_own_batch():
    for groups, counts in Batched(draws=3).seatings(0, 5, 2, 0):
        assert sorted(groups[counts].tolist()) == [0, 1, 2, 3, 4]
        assert counts.tolist() == [[True, True], [True, True], [True, False]]


def test_contextual_seats_each_object_beside_companions_in_one_slot_after_the_other():
    for draw, (groups, counts) in enumerate(Contextual(torch.rand(4, 2), draws=4).seatings(0, 3, 2, 4)):
        slot = draw % 2
        assert groups[:, slot].tolist() == [0, 1, 2]
        assert (groups[:, 1 - slot] >= 3).all()
        assert counts[:, slot].all() and not counts[:, 1 - slot].any()


@settings(deadline=None, max_examples=40)
@given(count=counts, fold=folds, draws=draws, batch_size=batch_sizes, context=st.integers(1, 9))
@pytest.mark.parametrize("name", PROTOCOLS)
def test_predictions_are_the_mean_over_the_groups_that_the_protocol_seats(
    name, count, fold, draws, batch_size, context
):
    network, objects, companions = make_network(fold), torch.rand(count, *SHAPE), torch.rand(context, *SHAPE)
    protocol = make_protocol(name, draws=draws, context=lambda: companions)
    beside = protocol.companions()
    others = [] if beside is None else list(beside)
    expected, asked = torch.zeros(count, 3), torch.zeros(count, 1)
    for number, batch in enumerate(protocol.batches(count, fold, batch_size)):
        people = [*objects[batch], *others]
        for groups, counts in protocol.seatings(number, len(batch), fold, len(others)):
            for members, heard in zip(groups.tolist(), counts.tolist(), strict=True):
                answers = alone(network, [people[member] for member in members])
                for slot in range(fold):
                    if heard[slot]:
                        expected[batch[members[slot]]] += answers[slot]
                        asked[batch[members[slot]]] += 1
    found = predict(network, objects, protocol, batch_size=batch_size)
    assert torch.allclose(found, expected / asked, atol=1e-5)


@pytest.mark.parametrize("kind", [torch.uint8, torch.int64, torch.float64])
def test_contextual_does_not_cut_objects_to_the_type_of_the_context(kind):
    network = make_network(2, join_after=0)
    network.shared = torch.nn.Identity()
    objects, context = torch.rand(5, *SHAPE), torch.randint(3, (4, *SHAPE))
    expected = predict(network, objects, Contextual(context.float(), draws=2))
    network.join = lambda groups, inner=network.join: inner(groups.float())
    assert torch.equal(predict(network, objects, Contextual(context.to(kind), draws=2)), expected)
    with pytest.raises(RecipeError, match="of at least 1, got 0"):
        Contextual(context, pool=0)


@pytest.mark.parametrize("name", PROTOCOLS)
def test_every_protocol_gives_a_distribution_for_every_object_and_leaves_the_network_as_it_was(name):
    objects = torch.rand(11, *SHAPE)
    protocol = Contextual(torch.rand(5, *SHAPE)) if name == "contextual" else name
    network = make_network(3).train()
    frozen = next(module for module in network.modules() if isinstance(module, torch.nn.BatchNorm2d)).eval()
    before = {key: value.clone() for key, value in network.state_dict().items()}
    result = predict(network, objects, protocol, batch_size=4)
    assert result.shape == (11, 3)
    assert torch.allclose(result.sum(dim=1), torch.ones(11), atol=1e-5)
    assert [module for module in network.modules() if not module.training] == [frozen]
    assert all(torch.equal(before[key], value) for key, value in network.state_dict().items())


def test_between_two_batches_nothing_is_left_in_the_modes_of_prediction():
    network = make_network(2).train()
    answers = answers_of(network, torch.rand(5, *SHAPE), batch_size=2)
    for _ in range(2):
        next(answers)
        assert network.training
        assert not torch.is_inference_mode_enabled()
        network(torch.rand(3, 2, *SHAPE)).sum().backward()


@pytest.mark.parametrize("protocol", [Replicated(), Batched(draws=2), Contextual(torch.rand(4, 6), draws=2)])
@pytest.mark.parametrize(
    ("precision", "given", "tolerance"),
    [(torch.float64, torch.float64, 1e-6), (torch.bfloat16, torch.float32, 0.05), (torch.float16, torch.float32, 0.01)],
)  # fmt: skip
def test_networks_of_every_precision_predict_single_precision_at_least(precision, given, tolerance, protocol):
    network = AggregatedClassifier(
        torch.nn.Linear(12, 8), features=8, fold=2, num_classes=3, join="features", noise=0.1
    ).eval()
    objects = torch.rand(7, 6)
    expected = predict(network, objects, protocol)
    found = predict(network.to(precision), objects, protocol)
    assert found.dtype == given
    assert torch.allclose(found, expected.to(given), atol=tolerance)
    assert torch.allclose(found.sum(dim=1), torch.ones(7, dtype=given), atol=1e-6)
    assert predict(network, objects, protocol, samples=3).dtype == given


def test_the_layers_before_the_join_run_once_per_object():
    network = make_network(4, join_after=2)
    seen = []
    network.shared.register_forward_hook(lambda module, inputs, output: seen.append(len(inputs[0])))
    objects, context = torch.rand(21, *SHAPE), torch.rand(6, *SHAPE)
    for protocol, expected in ((Replicated(), 21), (Batched(draws=3), 21), (Contextual(context, draws=3), 21 + 6)):
        seen.clear()
        predict(network, objects, protocol, batch_size=2)
        assert sum(seen) == expected


def test_order_does_not_matter_to_replicated_and_remainders_come_back_in_input_order():
    network, objects = make_network(2), torch.rand(9, *SHAPE)
    order = torch.randperm(9)
    assert torch.allclose(predict(network, objects)[order], predict(network, objects[order]), atol=1e-6)


def test_probabilities_are_averaged_and_not_logits():
    network, objects = make_network(2), torch.rand(4, *SHAPE)
    with torch.no_grad():
        network.head.weight *= 30
    logits = network(torch.stack([objects, objects], dim=1))
    assert torch.allclose(predict(network, objects), logits.softmax(dim=-1).mean(dim=1), atol=1e-5)
    assert not torch.allclose(predict(network, objects), logits.mean(dim=1).softmax(dim=-1), atol=1e-3)


def test_a_stochastic_bottleneck_is_averaged_over_draws_on_request():
    network = make_network(2, noise=2.0)
    objects = torch.rand(6, *SHAPE)
    mean = predict(network, objects)
    some, same, others = (predict(network, objects, samples=50, seed=seed) for seed in (0, 0, 1))
    assert torch.equal(some, same)
    assert not torch.equal(some, others)
    assert not torch.allclose(some, mean, atol=1e-4)
    many = [predict(network, objects, samples=400, seed=seed) for seed in (2, 3)]
    assert torch.allclose(*many, atol=0.05)


def test_costs_follow_the_protocols():
    network, one = make_network(4, join_after=2), torch.rand(1, *SHAPE)
    cost = {name: multiply_adds_per_object(network, one, protocol) for name, protocol in [
        ("replicated", Replicated()), ("batched", Batched()), ("two draws", Batched(draws=2)),
        ("contextual", Contextual(one, draws=3)),
    ]}  # fmt: skip
    shared = 2 * cost["batched"] - cost["two draws"]
    assert cost["contextual"] - shared == pytest.approx(3 * 4 * (cost["batched"] - shared))
    # 16 positions of 1->4 channels by 3×3, then 4 positions of 4->8
    assert shared == 16 * 9 * 1 * 4 + 4 * 9 * 4 * 8
    # Behind them 4 positions of 8->8 per slot, whose weights Replicated prediction sums over the slots first.
    assert cost["replicated"] == 4 * (cost["batched"] - shared) - 3 * 4 * 9 * 8 * 8 + shared


@pytest.mark.parametrize(
    ("protocol", "passes"),
    [(Replicated(), 1), (Batched(draws=2), 0.5), (Contextual(torch.rand(3, *SHAPE), draws=3), 3)],
)
def test_each_sample_of_a_stochastic_bottleneck_costs_the_heads_once_more(protocol, passes):
    one = torch.rand(1, *SHAPE)

    def cost(network, samples):
        return multiply_adds_per_object(network, one, protocol, samples=samples)

    network = make_network(4, noise=1.0)
    assert cost(network, 1) == cost(network, 0)
    assert cost(network, 5) - cost(network, 0) == 4 * passes * network.head.weight.numel()
    assert cost(make_network(4), 5) == cost(make_network(4), 0)


@pytest.mark.parametrize("protocol", [Replicated(), Batched()])
def test_costs_are_counted_wherever_the_network_is_and_leave_it_as_it_was(protocol):
    network, one = make_network(4, join_after=2), torch.rand(1, *SHAPE)
    expected = multiply_adds_per_object(network, one, protocol)
    assert not any(module.training for module in network.modules())
    assert multiply_adds_per_object(network.to("meta"), one, protocol) == expected
    unprepared = AggregatedClassifier(torch.nn.Linear(12, 8), features=8, fold=2, num_classes=3, join="features")
    assert multiply_adds_per_object(unprepared.double(), torch.rand(1, 6), protocol) > 0


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (lambda net, x: predict(net, x, "batchd"), UnknownNameError, "did you mean 'batched'"),
        (lambda net, x: predict(net, x, "contextual"), RecipeError, "needs training objects"),
        (lambda net, x: predict(net, x[:0]), ShapeError, "at least one object"),
        (lambda net, x: predict(net, x, batch_size=0), ShapeError, "at least 1"),
        (lambda net, x: Batched(draws=0), RecipeError, "at least 1"),
        (lambda net, x: Contextual(x[:0]), ShapeError, "context is empty"),
        (
            lambda net, x: predict(net, x, Contextual(torch.zeros(2, 1, 5, 5))),
            ShapeError,
            "expected context objects",
        ),
    ],
)
def test_what_cannot_work_gets_a_sentence(call, kind, message):
    with pytest.raises(kind, match=message) as caught:
        call(make_network(2), torch.rand(3, *SHAPE))
    assert isinstance(caught.value, AgrLearnError)
