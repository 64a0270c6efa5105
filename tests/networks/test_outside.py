"""Networks of the user's own file, built for data and built again without them."""

import pytest
import torch

from agrlearn.networks.outside import build_outside, rebuild_outside

OWN = """
from torch import nn

class Words(nn.Module):
    def __init__(self, ordered):
        super().__init__()
        self.embed = nn.Embedding(30, 8, padding_idx=0)
        self.read = nn.LSTM(8, 8, batch_first=True) if ordered else nn.Linear(8, 8)
        self.ordered = ordered
        self.out = nn.Linear(8, 5)

    def forward(self, tokens):
        read = self.read(self.embed(tokens))
        return self.out(read[0][:, -1] if self.ordered else read.mean(dim=1))

def ordered():
    return Words(True)

def bag():
    return Words(False)
"""


@pytest.mark.parametrize("fold", [2, 3])
@pytest.mark.parametrize("kind", ["ordered", "bag"])
@pytest.mark.filterwarnings("ignore:slot . moves T:UserWarning")
def test_a_model_of_tokens_is_slot_blind_only_if_it_cannot_tell_their_order(kind, fold, tmp_path):
    (tmp_path / "own.py").write_text(OWN)
    name = f"{tmp_path / 'own.py'}:{kind}"
    common = dict(object_shape=(9,), num_classes=5, fold=fold, at="input")
    alone = build_outside(name, **common, tokens=True)
    trained = build_outside(name, **common, objects=torch.randint(1, 30, (8, 9)))
    assert alone.slot_blind == trained.slot_blind == (kind == "bag")


@pytest.mark.filterwarnings("ignore:slot . moves T:UserWarning")
def test_a_network_that_is_built_again_is_as_blind_as_it_was_with_its_data(tmp_path):
    (tmp_path / "own.py").write_text(OWN)
    name = f"{tmp_path / 'own.py'}:ordered"
    padded = torch.zeros(8, 200, dtype=torch.int64)  # so long a padding that an LSTM has forgotten all words behind it
    padded[:, :3] = torch.randint(1, 30, (8, 3))
    trained = build_outside(name, object_shape=(200,), num_classes=5, fold=2, objects=padded, at="input")
    described = {key: value for key, value in trained.description.items() if key not in ("network", "object_shape")}
    again = build_outside(name, object_shape=(200,), **described)
    assert trained.slot_blind
    assert again.slot_blind
    assert again.description == trained.description


def test_a_description_says_how_it_was_joined_and_an_earlier_one_that_does_not_means_the_input(tmp_path):
    (tmp_path / "own.py").write_text(OWN)
    name = f"{tmp_path / 'own.py'}:bag"
    common = dict(object_shape=(9,), num_classes=5, fold=2, tokens=True)
    new = build_outside(name, **common, at="", join="")
    assert new.description["join"] == "mean" and new.conversion.join == "mean"
    described = {key: value for key, value in new.description.items() if key != "network"}
    assert rebuild_outside(name, **described).conversion == new.conversion
    old = rebuild_outside(name, **{**described, "join": "", "at": ""})
    assert old.conversion.join == "tandem"
