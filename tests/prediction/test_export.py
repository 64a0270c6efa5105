"""ONNX models against PyTorch; the export compares them itself."""

import json

import onnxruntime
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file
from torch import nn

from agrlearn.networks.catalogue import build_network
from agrlearn.networks.convert import aggregate
from agrlearn.networks.single import OneObject
from agrlearn.prediction.export import export_onnx, export_weights
from agrlearn.prediction.predict import predict
from tests.networks import foreign


def networks():
    sentences = {"object_shape": (7,), "vocabulary": 30, "embedding": 8, "maps": 4}
    yield "images", build_network(object_shape=(1, 8, 8), num_classes=3, fold=2), torch.rand(5, 1, 8, 8)
    yield "mlp", build_network(object_shape=(6,), num_classes=3, fold=3), torch.rand(5, 6)
    yield "sentences", build_network("sentence-cnn", num_classes=3, fold=2, **sentences), torch.randint(0, 30, (5, 7))
    yield "depth", aggregate(foreign.nested(), 2, foreign.images(), at="0", verbose=False), foreign.images(5)
    yield "lstm", aggregate(foreign.Recurrent(), 2, foreign.tokens(), at="embed", verbose=False), foreign.tokens(5)


@pytest.mark.parametrize("groups", [False, True])
@pytest.mark.parametrize("name", ["images", "mlp", "sentences", "depth", "lstm"])
def test_the_file_gives_what_pytorch_gives_for_any_number_of_objects(name, groups, tmp_path):
    _, network, objects = next(entry for entry in networks() if entry[0] == name)
    file = tmp_path / "model.onnx"
    assert export_onnx(network.eval(), objects, file, groups=groups) < 1e-5
    assert [path.name for path in tmp_path.iterdir()] == ["model.onnx"]
    if not groups:
        session = onnxruntime.InferenceSession(str(file))
        more = torch.cat([objects, objects, objects])
        [given] = session.run(None, {"objects": more.numpy()})
        assert torch.allclose(torch.from_numpy(given), predict(network, more), atol=1e-5)


def test_weights_are_those_of_the_ordinary_network(tmp_path):
    network = build_network("mlp", object_shape=(6,), num_classes=3, fold=2, join="max")
    export_weights(network, tmp_path / "new" / "model.safetensors", ("a", "b", "c"))
    ordinary = build_network("mlp", object_shape=(6,), num_classes=3, fold=1, join="max", seed=1)
    ordinary.load_state_dict(load_file(tmp_path / "new" / "model.safetensors"))
    objects = torch.rand(5, 6)
    torch.testing.assert_close(predict(ordinary, objects), predict(network, objects))
    with safe_open(tmp_path / "new" / "model.safetensors", "pt") as file:
        assert json.loads(file.metadata()["class_names"]) == ["a", "b", "c"]


class Tied(nn.Module):
    """Words that are classified by the words themselves."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(6, 4)
        self.out = nn.Linear(4, 6, bias=False)
        self.out.weight = self.embed.weight

    def forward(self, tokens):
        return self.out(self.embed(tokens).mean(dim=1))


def test_weights_that_two_layers_share_are_written_for_both(tmp_path):
    model, tokens = Tied(), torch.randint(0, 6, (4, 3))
    export_weights(aggregate(model, 2, tokens, join="mean", verbose=False), tmp_path / "model.safetensors")
    fresh = Tied()
    fresh.load_state_dict(load_file(tmp_path / "model.safetensors"))
    assert torch.equal(fresh(tokens), model(tokens))


def test_the_export_leaves_every_layer_in_its_own_mode(tmp_path):
    network = build_network("mlp", object_shape=(6,), num_classes=3, fold=2).train()
    frozen = next(module for module in network.modules() if isinstance(module, torch.nn.BatchNorm1d)).eval()
    export_onnx(network, torch.rand(5, 6), tmp_path / "model.onnx")
    assert [module for module in network.modules() if not module.training] == [frozen]


def test_a_model_that_differs_is_not_kept(tmp_path, monkeypatch):
    network, objects = build_network(object_shape=(6,), num_classes=3, fold=2).eval(), torch.rand(5, 6)
    calls = []
    original = OneObject.forward

    def drifting(self, objects):
        calls.append(1)
        return original(self, objects) + (
            0 if torch.compiler.is_exporting() or len(calls) < 2 else 0.1 * torch.arange(3)
        )

    monkeypatch.setattr(OneObject, "forward", drifting)
    with pytest.raises(Exception, match="differs from PyTorch"):
        export_onnx(network, objects, tmp_path / "model.onnx")
    assert not (tmp_path / "model.onnx").exists()
