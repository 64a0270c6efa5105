"""aggregate() inside a model: every slot is read, told apart and reported."""

import warnings

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from agrlearn.errors import ConversionError, UnknownNameError
from agrlearn.grouping import replicate
from agrlearn.networks.single import OneObject
from tests.networks import foreign, odd
from tests.networks.foreign import aggregate_within
from tests.networks.test_convert import check_laws


class Series(nn.Module):
    """A convolution over time, and its mean."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv1d(2, 16, 3, padding=1)
        self.out = nn.Linear(16, 5)

    def forward(self, series):
        return self.out(self.conv(series).relu().mean(dim=2))


class Words(nn.Module):
    """Windows of words, with their channels moved to the front."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(30, 8)
        self.drop = nn.Dropout(0.1)
        self.windows = nn.Conv1d(8, 12, 3)
        self.out = nn.Linear(12, 5)

    def forward(self, tokens):
        return self.out(self.windows(self.drop(self.embed(tokens)).transpose(1, 2)).relu().amax(dim=2))


def test_a_mixer_mixes_channels_and_not_time_steps():
    network = aggregate_within(Series(), 2, torch.randn(4, 2, 120), at="conv", verbose=False)
    assert network.join.weight.shape == (16, 32)
    series = torch.randn(3, 2, 2, 120)
    shifted = network.join(network.shared(series.flatten(0, 1)).unflatten(0, (3, 2)).roll(7, dims=-1))
    together = network.join(network.shared(series.flatten(0, 1)).unflatten(0, (3, 2)))
    torch.testing.assert_close(shifted, together.roll(7, dims=-1))


@pytest.mark.parametrize("at", ["embed", "drop"])
def test_words_are_joined_by_their_features_whatever_reads_them(at):
    assert check_laws(Words, foreign.tokens, 2, at=at).conversion.widened == ("windows",)


def test_where_no_layer_tells_the_channels_they_are_asked_for():
    class Alone(nn.Module):
        def __init__(self):
            super().__init__()
            self.pool, self.out = nn.Identity(), nn.Linear(9, 5)

        def forward(self, series):
            return self.out(self.pool(series).flatten(1)[:, :9])

    with pytest.raises(ConversionError, match=r"pool gives \(2, 4, 7\), and it cannot be told which dimension"):
        aggregate_within(Alone(), 2, torch.rand(4, 4, 7), at="pool", verbose=False)


class AsManyStepsAsChannels(nn.Module):
    """Features whose dimensions are of one size: only how they are read tells the channels."""

    def __init__(self, read):
        super().__init__()
        self.conv, self.act = nn.Conv1d(4, 12, 3, padding=1), nn.ReLU()
        self.read, self.out = read, nn.Linear(12, 5)

    def forward(self, series):
        features = self.act(self.conv(series)).transpose(1, 2)
        read = self.read(features)
        return self.out((read[0] if isinstance(read, tuple) else read).tanh().mean(dim=1))


def test_dimensions_of_one_size_are_told_apart_by_what_survives_or_not_at_all():
    def example():
        return torch.randn(4, 4, 12)

    recurrent = check_laws(lambda: AsManyStepsAsChannels(nn.GRU(12, 12, batch_first=True)), example, 2, at="act")
    assert recurrent.join.dim == 1
    direct = check_laws(lambda: AsManyStepsAsChannels(nn.LayerNorm(12)), example, 2, at="conv")
    assert direct.join.dim == 1
    with pytest.raises(ConversionError, match=r"act gives \(2, 12, 12\), and it cannot be told which dimension"):
        aggregate_within(AsManyStepsAsChannels(nn.LayerNorm(12)), 2, example(), at="act", verbose=False)


class Cut(foreign.Recurrent):
    def __init__(self, longest, *, from_end=False):
        super().__init__()
        self.kept = slice(-longest, None) if from_end else slice(longest)

    def forward(self, tokens):
        return super().forward(tokens[:, self.kept])


UNREAD = {
    "columns": (odd.Table, torch.randint(0, 3, (4, 3))),
    "cut after one object": (lambda: Cut(7), foreign.tokens()),
    "cut within the second": (lambda: Cut(12), foreign.tokens()),
    "cut at the other end": (lambda: Cut(7, from_end=True), foreign.tokens()),
    "counted words": (odd.Packed, odd.words()),
    "counted words, without padding": (odd.Packed, torch.randint(1, 30, (4, 7))),
}


@pytest.mark.parametrize("fold", [2, 3])
@pytest.mark.parametrize("name", UNREAD)
def test_a_model_that_does_not_read_the_last_slot_to_its_end_is_refused(name, fold):
    make, example = UNREAD[name]
    with pytest.raises(ConversionError, match=rf"slot [1-{fold}] does not reach T, or not to its end.*join='max'"):
        aggregate_within(make(), fold, example, verbose=False)


class ReadsOnwards(foreign.Recurrent):
    """Goes by the state after the last word alone."""

    def forward(self, tokens):
        states, _ = self.recurrent(self.embed(tokens))
        return self.out(torch.cat([states[:, -1, :12]] * 2, dim=1))


@pytest.mark.parametrize("length", [20, 40, 80, 200, 500])
def test_a_slot_that_is_only_forgotten_is_warned_of_and_not_refused(length):
    with pytest.warns(UserWarning, match="slot 1 moves T by"):
        network = aggregate_within(ReadsOnwards(), 2, torch.randint(1, 30, (4, length)), verbose=False)
    assert network.conversion.influence[1] == 1.0


def test_an_image_that_is_cut_is_not_joined_beside_another():
    class Crops(foreign.FunctionalNet):
        def forward(self, images):
            return super().forward(images[..., :8])

    with pytest.raises(ConversionError, match="slot 2 does not reach T"):
        aggregate_within(Crops(), 2, foreign.images(), join="width", verbose=False)


def test_a_model_that_counts_words_reads_all_of_them_where_a_separator_replaces_the_padding():
    network = aggregate_within(odd.Packed(), 2, odd.words(), separator=29, verbose=False)
    assert len(network.conversion.influence) == 2


def test_the_influence_of_slots_is_told_and_a_weak_one_is_warned_of(capsys):
    with pytest.warns(UserWarning, match=r"slot 2 moves T by 0\.\d+ of what slot 1 does.*join='max'"):
        network = aggregate_within(foreign.tiny_bert(), 2, foreign.bert_tokens())
    first, second = network.conversion.influence
    assert first == 1.0
    assert 0 < second < 0.01
    assert "influence on T: 1, 0.0" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("make", "options"),
    [(foreign.nested, {}), (foreign.nested, {"at": "0"}), (foreign.FunctionalNet, {"join": "width"})],
)
def test_slots_side_by_side_have_about_the_same_influence_and_no_warning(make, options):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        network = aggregate_within(make(), 3, foreign.images(), verbose=False, **options)
    assert max(network.conversion.influence) == 1.0
    assert min(network.conversion.influence) > 0.2


@pytest.mark.parametrize("at", [None, "first"])
def test_a_model_that_rounds_is_not_said_to_leave_a_slot_out(at):
    for seed in range(10):
        torch.manual_seed(seed)
        assert min(aggregate_within(odd.Binary(), 2, odd.vectors(), at=at, verbose=False).conversion.influence) > 0.1


class Standardised(nn.Conv2d):
    def forward(self, images):
        mean, spread = self.weight.mean((1, 2, 3), keepdim=True), self.weight.std((1, 2, 3), keepdim=True)
        return F.conv2d(images, (self.weight - mean) / spread, self.bias)


def test_one_object_gives_the_same_t_where_a_layer_works_on_its_weights():
    layers = (
        Standardised(3, 8, 3, bias=False),
        nn.GroupNorm(2, 8, eps=1e-12),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(288, 5),
    )
    network = aggregate_within(nn.Sequential(*layers), 2, foreign.images(), slot_noise=1.0, verbose=False).eval()
    objects = foreign.images()
    torch.testing.assert_close(OneObject(network).bottleneck(objects), network.bottleneck(replicate(objects, 2)))


def test_parameters_are_counted_also_where_they_are_frozen():
    model = foreign.perceptron().requires_grad_(False)
    before, after = aggregate_within(model, 2, odd.vectors(), verbose=False).conversion.parameters
    assert before == sum(parameter.numel() for parameter in model.parameters())
    assert after == before + 6 * 16 + 16 * 5 + 5


def test_an_unknown_module_lists_only_some_of_the_choices():
    model = nn.Sequential(*(nn.Linear(6, 6) for _ in range(400)))
    with pytest.raises(UnknownNameError, match=r"and 37\d more$") as raised:
        aggregate_within(model, 2, odd.vectors(), at="four", verbose=False)
    assert len(str(raised.value)) < 400
