"""torch-uncertainty's MIMO ResNet beside its ordinary ResNet turned by `aggregate`: the same network, the same fold."""

from collections.abc import Callable

import torch
from torch import nn
from torch.nn import functional as F

from agrlearn.networks.aggregated import AggregatedClassifier
from agrlearn.networks.convert import aggregate
from agrlearn.prediction.predict import predict
from agrlearn.training.objective import cross_entropy
from benchmarks.made import images
from benchmarks.neighbours import find_neighbours
from benchmarks.timing import heading, ratio, take_turns

BATCH = 32


def _pair(fold: int) -> tuple[nn.Module, AggregatedClassifier]:
    """Theirs and ours with equal weights."""
    from torch_uncertainty.models.classification import mimo_resnet, resnet

    settings = {"in_channels": 3, "num_classes": 10, "arch": 20, "style": "cifar", "conv_bias": False}
    torch.manual_seed(0)
    theirs = mimo_resnet(num_estimators=fold, **settings)
    ours = aggregate(resnet(**settings), fold, torch.rand(2, 3, 32, 32), at="input", verbose=False)
    mine, given = list(ours.parameters()), list(theirs.parameters())
    with torch.no_grad():
        for own, other in zip(mine, given, strict=True):
            own.copy_(other)
    return theirs, ours


def mimo() -> list[str]:
    """torch-uncertainty's MIMO ResNet-20 over its ordinary one turned by `aggregate`, with equal weights.

    A training step on 32 groups, and Replicated prediction of 512 images; both give equal values.
    """
    find_neighbours()
    try:
        import torch_uncertainty  # noqa: F401
    except (ImportError, RuntimeError) as error:
        return [f"torch-uncertainty was not there to compare with ({error}); ./run bench installs it."]
    lines = heading("what", "fold", "theirs over ours", "quartiles")
    for fold in (2, 4):
        theirs, ours = _pair(fold)
        data = images(BATCH * fold)
        groups = data.objects.float().view(BATCH, fold, 3, 32, 32) / 255  # type: ignore[union-attr]
        labels = data.labels.view(BATCH, fold)
        slot_first = groups.transpose(0, 1).flatten(0, 1).contiguous()
        their_labels = labels.t().flatten()
        many = images(512).objects.float() / 255  # type: ignore[union-attr]

        step_theirs = _step(theirs, lambda model=theirs, x=slot_first, y=their_labels: F.cross_entropy(model(x), y))
        step_ours = _step(ours, lambda network=ours, x=groups, y=labels: cross_entropy(network(x), y))

        @torch.inference_mode()
        def predict_theirs(model=theirs, many=many, fold=fold) -> torch.Tensor:
            parts = [model(some).view(fold, -1, 10).softmax(-1).mean(0) for some in many.split(256)]
            return torch.cat(parts)

        theirs.eval()
        torch.testing.assert_close(predict_theirs(), predict(ours, many), rtol=1e-3, atol=1e-4)
        theirs.train()
        ours.train()
        # Their loss is the mean over the slots, ours the sum.
        torch.testing.assert_close(fold * step_theirs(), step_ours(), rtol=1e-3, atol=1e-4)
        times = take_turns({"theirs": step_theirs, "ours": step_ours}, rounds=12)
        lines.append(f"| a training step | {fold} | {ratio(times, 'theirs', 'ours')} |")
        theirs.eval()
        actions = {"theirs": predict_theirs, "ours": lambda network=ours, many=many: predict(network, many)}
        times = take_turns(actions, rounds=12)
        lines.append(f"| Replicated prediction | {fold} | {ratio(times, 'theirs', 'ours')} |")
    return lines


def _step(model: nn.Module, loss_of: Callable[[], torch.Tensor]) -> Callable[[], torch.Tensor]:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)

    def act() -> torch.Tensor:
        loss = loss_of()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return act
