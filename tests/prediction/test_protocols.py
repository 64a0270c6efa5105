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
from agrlearn.prediction.protocols import PROTOCOLS, Batched, Contextual, Replicated

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


@settings(deadline=None, max_examples=40)
@given(count=counts, fold=folds, draws=draws, batch_size=batch_sizes, seed=st.integers(0, 99))
def test_batched_answers_each_object_once_per_draw_as_a_group_of_the_objects_alone_would(
    count, fold, draws, batch_size, seed
):
    objects = torch.arange(count)[:, None, None, None].expand(count, *SHAPE) / count
    protocol = Batched(draws=draws, seed=seed)
    groups_seen = []

    def spy(groups):
        groups_seen.extend((groups[:, :, 0, 0, 0] * count).round().long().tolist())
        return inner(groups)

    # Join at the input, so that the groups show the objects themselves.
    network = make_network(fold, join_after=0)
    network.shared = torch.nn.Identity()
    inner, network.join = network.join, spy
    answers = list(answers_of(network, objects, protocol, batch_size=batch_size))
    network.join = inner
    told = torch.cat([answer.objects for answer in answers])
    assert told.bincount(minlength=count).tolist() == [draws] * count

    total = torch.zeros(count, 3)
    rows = iter(groups_seen)
    for answer in answers:
        expected_rows = []
        for first in range(0, len(answer.objects), fold):
            members = next(rows)
            real = answer.objects[first : first + fold].tolist()
            assert members[: len(real)] == real
            expected_rows.append(alone(network, [objects[member] for member in members])[: len(real)])
        assert torch.allclose(answer.probabilities, torch.cat(expected_rows), atol=1e-5)
        total.index_add_(0, answer.objects, answer.probabilities)
    result = predict(network, objects, protocol, batch_size=batch_size)
    assert torch.allclose(result, total / draws, atol=1e-5)


@settings(deadline=None, max_examples=40)
@given(count=counts, fold=folds, draws=draws, batch_size=batch_sizes, context=st.integers(1, 9))
def test_contextual_puts_each_object_beside_training_objects(count, fold, draws, batch_size, context):
    network = make_network(fold, join_after=0)
    network.shared = torch.nn.Identity()
    objects = torch.rand(count, *SHAPE)
    companions = 2 + torch.rand(context, *SHAPE)  # told apart from the objects by their size
    groups_seen = []
    inner = network.join
    network.join = lambda groups: groups_seen.append(groups.clone()) or inner(groups)
    answers = list(answers_of(network, objects, Contextual(companions, draws=draws), batch_size=batch_size))
    network.join = inner
    assert torch.cat([answer.objects for answer in answers]).bincount(minlength=count).tolist() == [draws] * count
    for answer, groups in zip(answers, groups_seen, strict=True):
        slot = int(answer.slots[0])
        assert torch.equal(groups[:, slot], objects[answer.objects])
        others = groups[:, [other for other in range(fold) if other != slot]]
        assert (others.amin(dim=(2, 3, 4)) >= 2).all()
        for row, members in enumerate(groups):
            assert torch.allclose(answer.probabilities[row], alone(network, list(members))[slot], atol=1e-5)
    slots = torch.stack([answer.slots[0] for answer in answers])
    assert set(slots.tolist()) == set(range(min(fold, draws)))


@pytest.mark.parametrize("kind", [torch.uint8, torch.int64, torch.float64])
def test_contextual_does_not_cut_objects_to_the_type_of_the_context(kind):
    network = make_network(2, join_after=0)
    network.shared = torch.nn.Identity()
    objects, context = torch.rand(5, *SHAPE), torch.randint(3, (4, *SHAPE))
    expected = predict(network, objects, Contextual(context.float(), draws=2))
    network.join = lambda groups, inner=network.join: inner(groups.float())
    assert torch.equal(predict(network, objects, Contextual(context.to(kind), draws=2)), expected)
    with pytest.raises(RecipeError, match="pool is the number of possible companions and at least 1, got 0"):
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
        (lambda net, x: predict(net, x, Contextual(torch.zeros(2, 1, 5, 5))), ShapeError, "context's objects"),
    ],
)
def test_what_cannot_work_gets_a_sentence(call, kind, message):
    with pytest.raises(kind, match=message) as caught:
        call(make_network(2), torch.rand(3, *SHAPE))
    assert isinstance(caught.value, AgrLearnError)
