"""aggregate() before the classifier, on whatever model: it survives, it learns, and it comes back out."""

import copy
import pickle
import warnings

import pytest
import torch
from torch import Tensor, nn

from agrlearn import aggregate, single
from agrlearn.errors import ConversionError, ShapeError, UnknownNameError
from agrlearn.grouping import count_objects, group, map_objects, replicate, take, ungroup
from agrlearn.networks.conversion.tracing import call, tensors_in
from agrlearn.training.setup import head_parameters
from tests.networks import foreign, odd, zoo


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
        # On as many objects: some untrained models give something else for another batch size.
        as_many = group(scores_of(model, ungroup(replicate(objects, fold))), fold)
        for slot in range(fold):
            assert_same(given[:, slot], as_many[:, slot])
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


class Unlike(odd.Odd):
    """What `end` makes of the class layer's scores and the features before it."""

    def __init__(self, end):
        super().__init__()
        self.end = end
        self.other = nn.Linear(8, 5)
        self.scale = nn.Parameter(torch.ones(()))

    def forward(self, x):
        return self.end(self, self.features(x))


REFUSED = {
    "weighted heads": (lambda m, h: (2 * m.out(h) + m.other(h)) / 3, "out and other each make some.*classifier="),
    "heads whose weights learn": (
        lambda m, h: (m.scale * m.out(h) + m.other(h)) / 2, "out and other each make some.*classifier=",
    ),
    "the larger of two": (lambda m, h: torch.maximum(m.out(h), m.other(h)), "out and other each make some"),
    "two outputs": (lambda m, h: (m.out(h), m.other(h)), "out and other could each make.*classifier="),
    "a residual sum": (lambda m, h: 2 * m.out(h) + h[:, :5], "not the output of out.*pass classifier='out'"),
    "a shape that is read again": (
        lambda m, h: 2 * m.out(h) + 0 * h[:, :5], "cannot go on behind out .*reads again.*pass classifier='out'",
    ),
    "a head for training alone": (
        lambda m, h: 2 * m.out(h) + (0 * m.other(h) if m.training else 0), "in train mode.*pass classifier='out'",
    ),
    "probabilities at a temperature": (lambda m, h: (m.out(h) / 3).softmax(dim=1), "not the output of out"),
    "a sigmoid of a factor": (lambda m, h: (3 * m.out(h)).sigmoid(), "not the output of out"),
    "a sigmoid": (lambda m, h: m.out(h).sigmoid(), "sigmoid.*multi-label.*softmax"),
    "an embedding and what cannot be told": (
        lambda m, h: (m.second(h), 3 * m.out(m.second(h))), "what second made, and beside it .*classifier=",
    ),
    "an embedding and what is made of it": (
        lambda m, h: (e := m.second(h), 3 * m.out(e)), "what second made, and beside it .*classifier=",
    ),
    "a mean over runs": (lambda m, h: (m.out(h) + m.out(2 * h)) / 2, "not the output of out"),
    "maps": (lambda m, h: m.out(h)[:, :, None].expand(-1, -1, 3), r"\(2, 5, 3\)\) without class scores"),
    "labels": (lambda m, h: m.out(h).argmax(dim=1), "without class scores.*classifier="),
    "a single score": (lambda m, h: m.out(h)[:, :1], "single score"),
    "distances": (lambda m, h: -torch.cdist(h, m.out.weight), "no layer makes .*second.*a module of its own"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_where_the_class_layer_cannot_be_told_the_sentence_names_the_choices(case):
    end, message = REFUSED[case]
    with pytest.raises(ConversionError, match=message):
        aggregate(Unlike(end), 2, odd.vectors(), join="max", verbose=False)


ADDED = {
    "heads": lambda m, h: (m.out(h) + m.other(h)) / 2,
    "heads of two layers": lambda m, h: torch.stack([m.out(h), m.other(m.second(h))]).mean(dim=0),
    "a wide layer beside a deep one": lambda m, h: m.out(h) + m.other(m.second(h)),
    "a softmax of heads": lambda m, h: ((m.out(h) + m.other(h)) / 2).softmax(dim=1),
}


@pytest.mark.parametrize("end", ADDED)
def test_heads_that_are_added_or_averaged_survive_learn_and_come_back_out(end):
    check_model(lambda: Unlike(ADDED[end]), odd.vectors)
    conversion = aggregate(Unlike(ADDED[end]), 2, odd.vectors(), verbose=False).conversion
    assert conversion.classifier == "out and other"
    assert not conversion.left_out


def test_averaged_heads_that_training_returns_apart_both_learn():
    model = Unlike(lambda m, h: (m.out(h), m.other(h)) if m.training else (m.out(h) + m.other(h)) / 2)
    network = aggregate(model, 2, odd.vectors(), verbose=False)
    network.train()(group(odd.vectors(), 2)).square().sum().backward()
    assert {"out.weight", "other.weight"} <= trained_names(network.shared.model)


def test_a_named_head_of_two_is_all_that_remains():
    model, objects = Unlike(ADDED["heads"]).eval(), odd.vectors()
    network = aggregate(model, 2, objects, join="max", classifier="other", verbose=False).eval()
    assert "what the model does behind other is left out" in str(network.conversion)
    with torch.no_grad():
        expected = model.other(model.features(objects))
        torch.testing.assert_close(network(replicate(objects, 2))[:, 0], expected)
        torch.testing.assert_close(single(network)(objects), expected)


@pytest.mark.parametrize("classifier", ["second", "missing", "scale"])
def test_a_named_layer_that_makes_no_class_scores_is_refused(classifier):
    model = Unlike(lambda model, hidden: model.out(hidden))
    with pytest.raises((ConversionError, UnknownNameError), match=r"makes 8 numbers .* 5 class|no layer of the model"):
        aggregate(model, 2, odd.vectors(), join="max", classifier=classifier, verbose=False)


class PooledPositions(odd.LastWord):
    def __init__(self, pool):
        super().__init__()
        self.pool = pool
        nn.init.zeros_(self.score.weight)  # as it starts in many models: all positions have the same scores

    def forward(self, tokens):
        return self.pool(self.score(self.recurrent(self.embed(tokens))[0]), dim=1)


@pytest.mark.parametrize("pool", [torch.mean, torch.amax])
def test_scores_pooled_over_positions_are_not_taken_for_a_picked_one(pool):
    model = PooledPositions(pool)
    with pytest.raises(ConversionError, match=r"score runs at every position .* pool the positions, or pick one"):
        aggregate(model, 2, odd.words(), join="max", verbose=False)


def test_what_follows_the_class_layer_reads_groups_and_never_single_objects():
    network = aggregate(odd.NormalisedScores(), 2, odd.vectors(), verbose=False).train()
    norm = network.shared.model.norm
    before = norm.running_mean.clone()
    read = []
    norm.register_forward_pre_hook(lambda module, args: read.append(args[0].detach()))
    network(group(odd.vectors(), 2))
    [scores] = read
    assert scores.shape == (2, 5)
    torch.testing.assert_close(norm.running_mean, 0.9 * before + 0.1 * scores.mean(dim=0))


@pytest.mark.parametrize("make", [odd.Scaled, odd.NormalisedScores])
def test_at_fold_1_what_follows_the_class_layer_learns_as_in_the_model_itself(make):
    model, objects, labels = make(), torch.rand(32, 6), torch.randint(5, (32,))
    network = aggregate(model, 1, objects, verbose=False)
    for part in (model, network):
        optimizer = torch.optim.SGD(part.parameters(), lr=0.1)
        for _ in range(5):
            scores = scores_in(part(objects)) if part is model else part(group(objects, 1))[:, 0]
            optimizer.zero_grad()
            nn.functional.cross_entropy(scores, labels).backward()
            optimizer.step()
    assert_equal_states(single(network).state_dict(), model.state_dict())


def assert_equal_states(given, expected):
    assert list(given) == list(expected)
    for name, tensor in expected.items():
        torch.testing.assert_close(given[name], tensor, rtol=0, atol=0)


@pytest.mark.parametrize("training", [True, False])
def test_what_follows_the_class_layer_is_in_the_mode_of_the_model(training):
    model = Unlike(lambda m, h: 2 * torch.dropout(m.out(h), 0.5, m.training)).train(training)
    network = aggregate(model, 2, odd.vectors(), verbose=False)
    assert bool((network(group(odd.vectors(), 2)) == 0).any()) == training


def test_what_learns_at_the_rate_of_the_heads_is_the_class_layer_and_what_follows_it():
    network = aggregate(odd.Scaled(), 2, odd.vectors(), verbose=False)
    model = network.shared.model
    assert {*head_parameters(network)} == {*model.out.parameters(), model.factor, model.shift}
    assert "rest" not in " ".join(name for name, _ in network.named_parameters())


class SigmoidHead(nn.Linear):
    def forward(self, x):
        return super().forward(x).sigmoid()


class SoftmaxHead(nn.Linear):
    def forward(self, x):
        return super().forward(x).softmax(dim=1)


@pytest.mark.parametrize(("head", "message"), [(SigmoidHead, "sigmoid"), (SoftmaxHead, "out makes probabilities")])
def test_a_head_that_hides_its_scores_is_refused(head, message):
    model = odd.Odd()
    model.out = head(8, 5)
    with pytest.raises(ConversionError, match=message):
        aggregate(model, 2, odd.vectors(), join="max", verbose=False)


def test_a_transformer_for_several_labels_is_refused():
    model = foreign.tiny_bert()
    model.config.problem_type = "multi_label_classification"
    with pytest.raises(ConversionError, match="multi-label"):
        aggregate(model, 2, foreign.bert_tokens(), join="max", verbose=False)


def test_a_model_with_a_head_for_distillation_survives_learns_and_comes_back_out():
    check_model(zoo.timm_model("deit_tiny_distilled_patch16_224", img_size=32, depth=1), zoo.pictures(32))


def test_dropout_that_is_always_on_is_compared_under_one_seed():
    model, objects = odd.AlwaysDropout(), odd.vectors()
    network = aggregate(model, 2, objects, join="max", verbose=False)
    assert network.conversion.difference < 1e-5
    torch.manual_seed(4)
    expected = model(objects)
    torch.manual_seed(4)
    torch.testing.assert_close(single(network)(objects), expected)
    assert aggregate(model, 2, objects, join="features", slot_noise=0.0, verbose=False).conversion.difference < 1e-5


@pytest.mark.parametrize(
    "make", [lambda: odd.Checkpointed(reentrant=True, whole=True), pytest.param(lambda: TwiceInTraining(), id="twice")]
)
def test_a_pass_in_train_mode_that_would_teach_nothing_or_another_thing_is_refused(make):
    network = aggregate(make(), 2, odd.vectors(), join="max", verbose=False).train()
    with pytest.raises(ConversionError, match=r"out runs without gradients.*use_reentrant=False|out ran 2 times"):
        network(group(odd.vectors(), 2))


class TwiceInTraining(odd.Odd):
    def forward(self, x):
        x = self.features(x)
        return self.out(x) + self.out(2 * x) if self.training else self.out(x)


class InParts(odd.Odd):
    """Classifies two objects at a time."""

    def forward(self, x):
        return torch.cat([self.out(part) for part in self.features(x).split(2)])


def test_a_class_layer_that_reads_another_number_of_objects_is_refused():
    network = aggregate(InParts(), 1, odd.vectors(), join="max", verbose=False).eval()
    with pytest.raises((ConversionError, ShapeError), match=r"out ran 2 times|out read"):
        network(group(odd.vectors(), 1))


def test_another_size_of_objects_is_refused_where_the_class_layer_reads_it():
    network = aggregate(odd.PooledByItsHead(), 2, torch.rand(2, 3, 8, 8), join="max", verbose=False)
    with pytest.raises(ShapeError, match=r"head read \(4, 8, 7, 7\), but \(4, 8, 6, 6\) was expected.*size of the ex"):
        network(torch.rand(2, 2, 3, 9, 9))


def test_a_compiled_model_is_taken_by_its_original_module_and_that_is_said():
    model = odd.Odd()
    with pytest.warns(UserWarning, match="the model is compiled: its original module is aggregated"):
        network = aggregate(torch.compile(model), 2, odd.vectors(), join="max", verbose=False)
    assert type(single(network)) is odd.Odd
    model.first = torch.compile(model.first)
    with pytest.raises(ConversionError, match=r"first is compiled.*first\._orig_mod"):
        aggregate(model, 2, odd.vectors(), join="max", verbose=False)


@pytest.mark.parametrize("at", [None, "input"])
def test_a_network_made_in_inference_mode_learns_all_the_same(at):
    with torch.inference_mode():
        network = aggregate(odd.Odd(), 2, odd.vectors(), at=at, verbose=False)
    network(group(odd.vectors(), 2)).square().sum().backward()
    assert all(parameter.grad is not None for parameter in network.parameters())


def test_what_is_no_module_is_refused():
    with pytest.raises(ConversionError, match=r"expected the model as a torch\.nn\.Module, got function"):
        aggregate(lambda objects: objects, 2, odd.vectors(), join="max", verbose=False)


@pytest.mark.filterwarnings("ignore:.*torch.jit.*:DeprecationWarning")
def test_scripted_models_are_refused_by_that_name():
    for scripted in (torch.jit.script(foreign.perceptron()), torch.jit.trace(foreign.perceptron(), odd.vectors())):
        with pytest.raises(ConversionError, match=r"scripted or traced \(torch\.jit\)"):
            aggregate(scripted, 2, odd.vectors(), join="max", verbose=False)


@pytest.mark.filterwarnings("ignore:.*Lazy modules.*:UserWarning")
def test_models_without_weights_yet_are_refused():
    with pytest.raises(ConversionError, match=r"weight is on the meta device.*load the model's weights"):
        aggregate(foreign.perceptron().to("meta"), 2, odd.vectors(), join="max", verbose=False)
    with pytest.raises(ConversionError, match=r"weight has no shape yet \(a lazy layer\); run the model once"):
        aggregate(nn.Sequential(nn.LazyLinear(5)), 2, odd.vectors(), join="max", verbose=False)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"fold": 2.0}, r"fold is the number of objects.*got 2\.0"),
        ({"fold": True}, "fold is the number of objects.*got True"),
        ({"fold": 0}, "at least 1, got 0"),
        ({"fold": "2"}, "got '2'"),
        ({"slot_noise": float("nan")}, "slot_noise is a finite number of at least 0, got nan"),
        ({"slot_noise": -0.1}, "slot_noise is a finite number"),
        ({"noise": float("inf")}, "noise is a finite number"),
        ({"at": ""}, "at is a name.*got ''; leave at out"),
        ({"at": 1}, "at is a name.*got 1"),
        ({"classifier": 4}, "classifier is a name.*got 4"),
        ({"join": "max", "stem": "0"}, "stem is for joins at the input"),
        ({"join": "max", "widen": True}, "widen is for joins at the input"),
        ({"stem": "0"}, "stem is for joins at the input"),
        ({"join": "max", "at": "input"}, "max pools features, not inputs; leave out at="),
    ],
)
def test_options_that_cannot_work_are_told_in_a_sentence(options, message):
    options = {"fold": 2, **options}
    with pytest.raises(ConversionError, match=message):
        aggregate(foreign.perceptron(), options.pop("fold"), odd.vectors(), verbose=False, **options)


def test_where_nothing_is_said_the_slots_are_averaged_before_the_classifier_and_the_input_is_a_place_by_name():
    model, vectors = foreign.perceptron(), odd.vectors()
    conversions = [aggregate(model, 2, vectors, verbose=False, **o).conversion for o in ({}, {"at": "input"})]
    assert [(found.join, found.at, found.slot_blind) for found in conversions] == [
        ("mean", None, True), ("features", None, False),
    ]  # fmt: skip

    class Named(nn.Module):
        def __init__(self):
            super().__init__()
            self.input, self.out = nn.Conv2d(3, 4, 3), nn.Linear(4, 5)

        def forward(self, x):
            return self.out(self.input(x).relu().mean(dim=(2, 3)))

    assert aggregate(Named(), 2, foreign.images(), at="input", verbose=False).conversion.at == "input"


def test_an_unknown_name_in_a_large_model_lists_only_some_of_the_choices():
    model = nn.Sequential(*(nn.Linear(6, 6) for _ in range(400)))
    with pytest.raises(UnknownNameError, match=r"and 370 more$") as raised:
        aggregate(model, 2, odd.vectors(), join="max", classifier="four", verbose=False)
    assert len(str(raised.value)) < 400


def test_modes_that_the_user_has_set_are_kept():
    model = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8).eval(), nn.Linear(8, 5))
    network = aggregate(model, 2, odd.vectors(), join="max", verbose=False)
    assert [module.training for module in network.shared.model.modules()] == [True, True, False, True]
    assert [name for name, module in network.named_modules() if not module.training] == ["shared.model.1"]
    assert not any(module.training for module in aggregate(model.eval(), 2, odd.vectors(), join="max").modules())


def test_a_quantized_network_still_gives_what_it_gave():
    network = aggregate(odd.Odd(), 2, odd.vectors(), join="max", verbose=False).eval()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        small = torch.ao.quantization.quantize_dynamic(network, {nn.Linear})
    groups = group(odd.vectors(), 2)
    with torch.no_grad():
        torch.testing.assert_close(small(groups), network(groups), rtol=0, atol=0.05)
