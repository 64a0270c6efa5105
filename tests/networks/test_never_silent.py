"""What aggregate() cannot see in a pass of the example in eval mode is converted rightly or refused, never lost."""

import types
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel
from torch.utils.checkpoint import checkpoint

from agrlearn import aggregate, predict, single
from agrlearn.errors import ConversionError
from agrlearn.grouping import group, replicate
from agrlearn.networks.conversion.before_class_layer import difference_of
from tests.networks import odd


class Ends(odd.Odd):
    """What `end` makes of the class scores, the model and what it reads."""

    def __init__(self, end):
        super().__init__()
        self.end = end
        self.other = nn.Linear(8, 5)
        self.register_buffer("center", torch.zeros(5))

    def forward(self, x, allowed=None):
        return self.end(self, self.out(self.features(x)), x if allowed is None else allowed)


def test_dropout_behind_the_class_layer_works_on_groups_in_training_and_comes_back_out():
    model, objects = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 5), nn.Dropout()).eval(), odd.vectors()
    network = aggregate(model, 2, objects, verbose=False)
    torch.testing.assert_close(network(replicate(objects, 2))[:, 0], model(objects))
    assert not (network(group(objects, 2)) == 0).any()
    assert (network.train()(group(objects, 2)) == 0).any()
    assert list(single(network).state_dict()) == list(model.state_dict())


def test_a_factor_of_the_scores_in_train_mode_alone_is_kept():
    model, objects = Ends(lambda m, scores, x: scores * 10 if m.training else scores), odd.vectors()
    network = aggregate(model, 1, objects, verbose=False)
    for training in (True, False):
        torch.testing.assert_close(network.train(training)(objects[:, None])[:, 0], model.train(training)(objects))


def add_to_center(model, scores, x):
    if model.training:
        model.center.add_(scores.detach().mean(dim=0))
    return scores - model.center


def replace_center(model, scores, x):
    if model.training:
        model.center = model.center + scores.detach().mean(dim=0)
    return scores - model.center


@pytest.mark.parametrize(
    ("end", "message"),
    [
        (lambda m, scores, x: scores + m.other(m.features(x)) if m.training else scores, "other layers in train mode"),
        (add_to_center, "buffer that changes in train mode"),
        (replace_center, "buffer that changes in train mode"),
        (lambda m, scores, x: torch.where(x.isnan().any(dim=1, keepdim=True), 0.0, scores), "what it reads of each"),
    ],
)
def test_what_training_alone_or_some_objects_alone_do_to_the_scores_is_refused_unless_left_out(end, message):
    with pytest.raises(ConversionError, match=f"{message}.*pass classifier='out'"):
        aggregate(Ends(end), 2, odd.vectors(), verbose=False)
    assert aggregate(Ends(end), 2, odd.vectors(), classifier="out", verbose=False).conversion.left_out


@pytest.mark.parametrize("options", [{}, {"at": "first", "join": "max"}])
def test_a_mask_of_classes_is_refused_also_where_the_example_allows_all(options):
    model = Ends(lambda m, scores, allowed: scores.masked_fill(~allowed, -1e4))
    objects = {"x": odd.vectors(), "allowed": torch.ones(len(odd.vectors()), 5, dtype=torch.bool)}
    with pytest.raises(ConversionError, match="by a mask of classes"):
        aggregate(model, 2, objects, verbose=False, **options)


def test_a_change_in_train_mode_is_refused_where_the_class_layer_becomes_heads():
    with pytest.raises(ConversionError, match="changes the class scores of out in train mode"):
        aggregate(Ends(lambda m, scores, x: scores * 10 if m.training else scores), 2, odd.vectors(), at="input")


class ByLength(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.out = nn.Linear(6, 8), nn.Linear(8, 5)

    def forward(self, x, lengths):
        words = self.first(x)
        return self.out(torch.stack([words[place, :length].mean(0) for place, length in enumerate(lengths.tolist())]))


def test_lengths_that_are_read_behind_the_join_are_refused():
    objects = {"x": torch.rand(2, 3, 6), "lengths": torch.tensor([3, 3])}
    with pytest.raises(ConversionError, match="is read again behind it"):
        aggregate(ByLength(), 2, objects, at="first", join="max", verbose=False)
    network = aggregate(ByLength(), 2, objects, verbose=False)
    assert network(replicate(objects, 2)).shape == (2, 2, 5)


def with_hook():
    model = odd.Odd()
    model.second.register_forward_hook(lambda layer, read, made: setattr(model, "kept", made))
    return model


def with_replaced_forward():
    model = odd.Odd()
    before = model.second.forward
    model.second.forward = lambda read: before(read).relu()
    return model


@pytest.mark.parametrize("make", [with_hook, with_replaced_forward])
def test_functions_that_would_run_the_users_model_in_a_copy_are_refused(make):
    with pytest.raises(ConversionError, match="of second is a function that holds on to a part of the model"):
        aggregate(make(), 2, odd.vectors(), verbose=False)


def test_a_forward_that_is_a_method_of_its_module_is_copied_with_it():
    model = odd.Odd()
    model.second.forward = types.MethodType(lambda layer, read: nn.Linear.forward(layer, read).relu(), model.second)
    network = aggregate(model, 2, odd.vectors(), verbose=False)
    network(group(odd.vectors(), 2)).sum().backward()
    assert model.second.weight.grad is None
    assert network.shared.model.second.weight.grad is not None


class ForSomeClasses(odd.Odd):
    def __init__(self, mask):
        super().__init__()
        self.register_buffer("unseen", torch.tensor([False, False, True, True, True]))
        self.mask = mask

    def forward(self, x):
        return self.out(self.features(x)).masked_fill(self.unseen, self.mask)


@pytest.mark.parametrize("mask", [-1e9, -torch.inf])
def test_a_mask_that_is_the_same_for_all_objects_is_kept_and_hides_no_difference(mask):
    model, objects = ForSomeClasses(mask).eval(), odd.vectors()
    network = aggregate(model, 2, objects, verbose=False).eval()
    torch.testing.assert_close(network(replicate(objects, 2))[:, 0], model(objects))
    assert network.conversion.difference < 1e-5
    scores = model(objects)
    assert difference_of(scores[:, None] + 0.1 * (scores > -1e4)[:, None], scores) > 0.01


def test_a_checkpoint_around_the_class_layer_and_what_follows_is_refused():
    class Checkpointed(odd.Odd):
        def scores(self, x):
            return 3 * self.out(self.features(x)).tanh()

        def forward(self, x):
            return checkpoint(self.scores, x, use_reentrant=False)

    with pytest.raises(ConversionError, match=r"behind out in training .* a checkpoint is around both"):
        aggregate(Checkpointed(), 2, odd.vectors(), verbose=False)


def test_autocast_within_the_model_is_refused_with_where_to_put_it():
    class OwnPrecision(odd.Odd):
        def forward(self, x):
            with torch.autocast("cpu", dtype=torch.float16):
                return self.out(self.features(x)).float()

    with pytest.raises(ConversionError, match=r"take torch.autocast out of the model's forward"):
        aggregate(OwnPrecision(), 2, odd.vectors(), verbose=False)


class OnlyParameters(nn.Module):
    def __init__(self, bend=torch.relu):
        super().__init__()
        self.first, self.last = nn.Parameter(torch.rand(6, 8)), nn.Parameter(torch.rand(8, 5))
        self.bend = bend

    def forward(self, x):
        return self.bend(x @ self.first - 1) @ self.last


def test_a_model_without_layers_is_not_averaged_at_its_input_unless_it_is_linear():
    with pytest.raises(ConversionError, match="no layers that can be watched"):
        aggregate(OnlyParameters(), 2, odd.vectors(), verbose=False)
    with pytest.raises(ConversionError, match="of whole numbers, which have no mean"):
        aggregate(nn.EmbeddingBag(30, 5), 2, torch.randint(30, (2, 7)), join="max", verbose=False)
    assert aggregate(OnlyParameters(lambda x: x), 2, odd.vectors(), verbose=False).conversion.classifier == "the model"


class Squeezed(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.pool, self.out = nn.Conv2d(3, 8, 3), nn.AdaptiveAvgPool2d(1), nn.Linear(8, 5)

    def forward(self, images):
        return self.out(self.pool(self.first(images).relu()).squeeze())


@pytest.mark.parametrize("options", [{}, {"at": "input"}, {"at": "first"}, {"at": "first", "join": "max"}])
@pytest.mark.parametrize("fold", [1, 2])
def test_a_model_that_squeezes_a_single_object_too_predicts_a_remainder_of_one(fold, options):
    model, images = Squeezed().eval(), torch.rand(5, 3, 8, 8)
    network = aggregate(model, fold, images, verbose=False, **options, **({"slot_noise": 0.0} if options else {}))
    torch.testing.assert_close(predict(network, images, batch_size=2), model(images).softmax(dim=1))


class TrainsInItsOwnWay(odd.Odd):
    def train(self, mode=True):
        super().train(mode)
        self.first.eval()


class CountsItsPasses(odd.Odd):
    def __init__(self):
        super().__init__()
        self.register_buffer("passes", torch.zeros(()))

    def forward(self, x):
        self.passes += 1
        return super().forward(x)


class ComparesObjects(odd.Odd):
    """Takes no single object."""

    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(8, track_running_stats=False)

    def features(self, x):
        return self.norm(super().features(x))


@dataclass
class Kept:
    features: Tensor


class KeepsItsFeatures(odd.Odd):
    def forward(self, x):
        self.kept = Kept(self.features(x))
        return self.out(self.kept.features)


class PreciseHead(odd.Odd):
    def __init__(self):
        super().__init__()
        self.out = self.out.double()

    def forward(self, x):
        return self.out(self.features(x).double())


class AsksItsClassLayer(odd.Odd):
    def forward(self, x):
        return self.out(self.features(x).to(self.out.weight.dtype))


@pytest.mark.parametrize(
    "make",
    [TrainsInItsOwnWay, CountsItsPasses, ComparesObjects, KeepsItsFeatures, PreciseHead, AsksItsClassLayer],
)
@pytest.mark.parametrize("options", [{}, {"at": "second", "join": "max"}])
def test_models_with_habits_of_their_own_learn_predict_and_come_back_out(make, options):
    model, objects = make(), odd.vectors()
    before = {name: buffer.clone() for name, buffer in model.named_buffers()}
    network = aggregate(model, 2, objects, verbose=False, **options)
    assert all(torch.equal(buffer, before[name]) for name, buffer in model.named_buffers())
    network.train()(group(objects, 2)).sum().backward()
    assert network.shared(objects).requires_grad
    alone = single(network)
    assert list(alone.state_dict()) == list(model.state_dict())
    torch.testing.assert_close(predict(network, objects).float(), alone(objects).softmax(dim=1).float())


def test_counting_the_cost_runs_no_counter_of_the_networks():
    network = aggregate(CountsItsPasses(), 2, odd.vectors(), verbose=False)
    assert network.shared.model.passes == 0


def test_a_transformer_of_torch_is_joined_within_and_one_that_nests_its_words_is_refused():
    class Encoder(nn.Module):
        def __init__(self):
            super().__init__()
            layer = nn.TransformerEncoderLayer(6, 2, 12, batch_first=True)
            self.encoder, self.out = nn.TransformerEncoder(layer, 2), nn.Linear(6, 5)

        def forward(self, x, padding=None):
            return self.out(self.encoder(x, src_key_padding_mask=padding)[:, 0])

    model, words = Encoder().eval(), torch.rand(4, 3, 6)
    network = aggregate(model, 2, words, at="encoder.layers.0", slot_noise=0.0, verbose=False)
    torch.testing.assert_close(single(network)(words).softmax(dim=1), model(words).softmax(dim=1))
    padded = {"x": words, "padding": torch.zeros(4, 3, dtype=torch.bool)}
    with pytest.raises(ConversionError, match=r"nested Tensor.*enable_nested_tensor=False"):
        aggregate(model, 2, padded, at="encoder.layers.0", verbose=False)


def test_a_layer_with_two_names_is_known_by_both():
    model = odd.Odd()
    model.head = model.out
    assert aggregate(model, 2, odd.vectors(), classifier="head", verbose=False).conversion.classifier == "out"


@pytest.mark.parametrize("wrap", [nn.DataParallel, AveragedModel])
def test_a_wrapped_model_that_takes_a_dictionary_is_given_one(wrap):
    model, objects = odd.TakesABatch(), {"vectors": odd.vectors(), "weight": torch.ones(len(odd.vectors()))}
    assert aggregate(wrap(model), 2, objects, verbose=False).conversion.classifier == "module.out"


@pytest.mark.parametrize(
    "example", [[torch.rand(2, 6)], {}, {"x": None}, torch.tensor(1.0), torch.rand(2, 6).to_sparse(), "x"]
)
def test_an_example_that_is_no_batch_is_refused(example):
    with pytest.raises(ConversionError, match="the example"):
        aggregate(odd.Odd(), 2, example, verbose=False)
