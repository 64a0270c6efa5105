"""aggregate() and the types of numbers: of the model, of its weights, and of the example."""

import pytest
import torch
from torch import nn

from agrlearn.errors import ConversionError
from agrlearn.grouping import group, replicate
from tests.networks import foreign
from tests.networks.foreign import aggregate_within

CLOSE = {torch.float64: 1e-12, torch.bfloat16: 0.03, torch.float16: 0.004}
OPTIONS = [{}, {"widen": True}, {"at": "0"}, {"at": "0", "join": "max"}, {"join": "max"}]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("fold", [2, 3])
@pytest.mark.parametrize("dtype", CLOSE)
def test_a_model_survives_in_its_own_type(dtype, fold, options):
    model, objects = foreign.nested().to(dtype).eval(), foreign.images().to(dtype)
    network = aggregate_within(model, fold, objects, slot_noise=0.0, verbose=False, **options)
    assert {parameter.dtype for parameter in network.parameters()} == {dtype}
    with torch.no_grad():
        expected, given = model(objects), network(replicate(objects, fold))
    assert given.dtype == dtype
    scale = max(1.0, float(expected.abs().max()))
    for slot in range(fold):
        assert torch.allclose(given[:, slot], expected, rtol=0, atol=CLOSE[dtype] * scale)
    noisy = aggregate_within(model, fold, objects, verbose=False, **options)
    assert {parameter.dtype for parameter in noisy.parameters()} == {dtype}
    noisy.train()(replicate(objects, fold)).sum().backward()


@pytest.mark.parametrize("options", [{}, {"slot_embeddings": True}, {"at": "embed"}], ids=str)
@pytest.mark.parametrize("dtype", CLOSE)
@pytest.mark.filterwarnings("ignore:slot . moves T:UserWarning")
def test_words_are_embedded_in_the_models_own_type(dtype, options):
    network = aggregate_within(foreign.Recurrent().to(dtype), 2, foreign.tokens(), verbose=False, **options)
    assert {parameter.dtype for parameter in network.parameters()} == {dtype}
    assert network(group(foreign.tokens(), 2)).dtype == dtype


def test_a_model_of_several_types_keeps_each_of_them():
    class HalfStem(nn.Module):
        def __init__(self):
            super().__init__()
            self.first = nn.Linear(6, 8, dtype=torch.bfloat16)
            self.out = nn.Linear(8, 5)

        def forward(self, vectors):
            return self.out(self.first(vectors.bfloat16()).relu().float())

    network = aggregate_within(HalfStem(), 2, torch.randn(4, 6), verbose=False)
    assert network.encoder.model.first.weight.dtype == torch.bfloat16
    assert network.head.weight.dtype == torch.float32


@pytest.mark.parametrize(
    ("objects", "join"),
    [
        (torch.randint(0, 256, (4, 3, 8, 8), dtype=torch.uint8), "channels"),
        (torch.randint(0, 256, (4, 3, 8, 8)), "channels"),
        (torch.randint(0, 256, (4, 6), dtype=torch.uint8), "features"),
        (torch.rand(4, 6) > 0.5, "features"),
    ],
)
def test_whole_numbers_are_tokens_only_where_an_embedding_could_read_them(objects, join):
    class Numbers(nn.Module):
        def __init__(self):
            super().__init__()
            self.model = foreign.nested() if objects.ndim == 4 else foreign.perceptron()

        def forward(self, objects):
            return self.model(objects.float())

    assert aggregate_within(Numbers(), 2, objects, verbose=False).conversion.join == join


@pytest.mark.filterwarnings("ignore:slot . moves T:UserWarning")
def test_short_and_long_tokens_are_joined_in_tandem():
    for tokens in (foreign.tokens(), foreign.tokens().int()):
        assert aggregate_within(foreign.Recurrent(), 2, tokens, verbose=False).conversion.join == "tandem"


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float64, torch.int64])
def test_an_example_of_another_type_is_refused_with_the_type_that_the_model_takes(dtype):
    with pytest.raises(ConversionError, match=r"it takes torch\.float32: convert .* with \.to\(torch\.float32\)"):
        aggregate_within(foreign.nested(), 2, (255 * foreign.images()).to(dtype), verbose=False)


@pytest.mark.parametrize(
    ("model", "example"),
    [
        (foreign.nested(), torch.rand(4, 1, 8, 8)),  # channels that the model does not have
        (foreign.Recurrent(), torch.full((4, 7), 99)),  # words that it does not know
        (foreign.Recurrent(), torch.rand(4, 7)),  # no words
    ],
)
def test_an_example_that_no_type_mends_is_refused_without_naming_one(model, example):
    with pytest.raises(ConversionError, match=r"does not take the example as it is .*; pass a batch of objects"):
        aggregate_within(model, 2, example, verbose=False)


@pytest.mark.parametrize("options", [{}, {"classifier": "2"}])
def test_a_single_score_is_refused_since_heads_are_softmax_layers(options):
    model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 1))
    with pytest.raises(ConversionError, match=r"single score.*at least two classes; give the model one score for each"):
        aggregate_within(model, 2, torch.rand(4, 6), verbose=False, **options)
