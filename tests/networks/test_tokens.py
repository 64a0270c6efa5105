"""Sentences in tandem, as a tokenizer gives them."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from agrlearn.errors import ConversionError, ShapeError
from agrlearn.grouping import replicate
from agrlearn.networks.tokens import TandemJoin
from tests.networks import foreign
from tests.networks.foreign import aggregate_within


def typed_tokens():
    objects = foreign.bert_tokens()
    return {**objects, "token_type_ids": torch.randint(0, 2, objects["input_ids"].shape)}


@given(st.lists(st.lists(st.lists(st.integers(1, 9), min_size=1, max_size=4), min_size=2, max_size=2), min_size=1))
@pytest.mark.parametrize("separator", [None, 99])
def test_whatever_has_an_entry_for_every_word_follows_its_word(separator, sentences):
    words = torch.tensor([[words + [0] * (4 - len(words)) for words in pair] for pair in sentences])
    groups = {"input_ids": words, "attention_mask": (words != 0).long(), "token_type_ids": 10 * words}
    joined = TandemJoin(separator)(groups)
    for row, (first, second) in enumerate(sentences):
        kept = joined["attention_mask"][row].bool()
        between = [] if separator is None else [separator]
        assert joined["input_ids"][row][kept].tolist() == [*first, *between, *second]
        kinds = [*first, *first[-1:] * len(between), *second]  # a separator is of the kind of the word before it
        assert joined["token_type_ids"][row][kept].tolist() == [10 * kind for kind in kinds]


@pytest.mark.filterwarnings("ignore:slot . moves T:UserWarning")
def test_a_transformer_reads_the_types_of_its_words_in_tandem():
    model, objects = foreign.tiny_bert().eval(), typed_tokens()
    with torch.no_grad():
        model.bert.embeddings.token_type_embeddings.weight.normal_()
        alone = aggregate_within(model, 1, objects, verbose=False)(replicate(objects, 1))[:, 0]
        torch.testing.assert_close(alone, model(**objects).logits)
        network = aggregate_within(model, 2, objects, verbose=False)
        groups = replicate(objects, 2)
        others = {**groups, "token_type_ids": 1 - groups["token_type_ids"]}
        assert not torch.allclose(network(groups), network(others))


def test_an_input_that_cannot_follow_the_words_is_named():
    class WithAges(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.bert = foreign.tiny_bert()

        def forward(self, input_ids, attention_mask, age):
            return self.bert(input_ids, attention_mask).logits

    objects = {**foreign.bert_tokens(), "age": torch.rand(6, 1)}
    with pytest.raises(ConversionError, match=r"age cannot be joined in tandem.*an entry for every word"):
        aggregate_within(WithAges(), 2, objects, verbose=False)
    with pytest.raises(ConversionError, match="needs input_ids and attention_mask"):
        aggregate_within(foreign.tiny_bert(), 2, {"input_ids": objects["input_ids"]}, verbose=False)
    with pytest.raises(ShapeError, match=r"age .* got \(3, 2, 1\)"):
        TandemJoin()({name: tensor.unflatten(0, (3, 2)) for name, tensor in objects.items()})
