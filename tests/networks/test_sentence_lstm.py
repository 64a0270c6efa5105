"""The sentence LSTM against a sentence that is read word by word."""

import pytest
import torch

from agrlearn.errors import RecipeError
from agrlearn.networks.catalogue import build_network
from agrlearn.networks.cost import count_multiply_adds, count_parameters

END = 30


def make(fold, **options):
    sizes = {"vocabulary": END, "embedding": 8, "hidden": 6, **options}
    return build_network("sentence-lstm", object_shape=(7,), num_classes=2, fold=fold, **sizes).eval()


def test_it_ends_in_the_state_after_the_sentences_with_an_end_word_between():
    network = make(2)
    layers = network.encoder
    groups = torch.tensor([[[4, 5, 6, 0, 0, 0, 0], [7, 8, 0, 0, 0, 0, 0]], [[9, 0, 0, 0, 0, 0, 0], [3] * 7]])
    joined = [[4, 5, 6, END, 7, 8], [9, END, *[3] * 7]]
    t = network.bottleneck(groups)
    for row, words in zip(t, joined, strict=True):
        _, (state, _) = layers.lstm(layers.embed(torch.tensor([words])))
        assert torch.allclose(row, state[0, 0], atol=1e-6)


def test_it_tells_the_slots_apart():
    network = make(2)
    groups = torch.randint(1, END, (5, 2, 7))
    assert not network.slot_blind
    assert not torch.allclose(network.bottleneck(groups), network.bottleneck(groups.flip(1)))


@pytest.mark.parametrize("sentences", [1, 24, 25, 70])
def test_in_bands_of_like_length_it_gives_the_states_and_gradients_that_it_gives_over_the_padding(sentences):
    layers = make(1).encoder
    lengths = torch.randint(0, 8, (sentences, 1), generator=torch.Generator().manual_seed(sentences))
    tokens = torch.randint(1, END, (sentences, 7)) * (torch.arange(7) < lengths)

    def there_and_back(way):
        states = way(tokens)
        return [states, *torch.autograd.grad(states.square().sum(), list(layers.parameters()))]

    for found, expected in zip(there_and_back(layers.in_bands), there_and_back(layers.over_padding), strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)


def test_its_parameters_are_those_of_an_embedding_an_lstm_and_a_softmax_layer():
    network = build_network("sentence-lstm", object_shape=(56,), num_classes=2, vocabulary=18_767)
    lstm = 4 * 128 * (300 + 128 + 2)
    assert count_parameters(network) == 18_768 * 300 + lstm + 128 * 2 + 2


def test_its_multiply_adds_are_those_of_its_matrices_at_every_word():
    network = make(1)
    assert count_multiply_adds(network, torch.ones(1, 1, 7, dtype=torch.int64)) == 7 * 4 * 6 * (8 + 6) + 6 * 2


def test_it_forgets_nothing_at_first_as_in_tensorflow():
    lstm = make(1).encoder.lstm
    assert (lstm.bias_ih_l0 + lstm.bias_hh_l0).tolist() == [0] * 6 + [1] * 6 + [0] * 12


def test_it_needs_a_vocabulary():
    with pytest.raises(RecipeError, match="vocabulary"):
        make(2, vocabulary=0)
