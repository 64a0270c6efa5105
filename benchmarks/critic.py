"""What the information penalty costs."""

from collections.abc import Callable

from agrlearn.data.labelled import LabelledSet
from agrlearn.networks.catalogue import build_network
from benchmarks.made import images, sentences, step, vectors
from benchmarks.timing import heading, ratio, take_turns, verdict

GROUPS, FOLD = 64, 2
DATA = 4096  # objects, for the critic to remember as many groups as it would
NETWORKS: dict[str, tuple[str, Callable[[int], LabelledSet], dict[str, int]]] = {
    "PreAct ResNet-18, width 16": ("preact-resnet", images, {"width": 16}),
    "MLP on 32 numbers": ("mlp", vectors, {}),
    "sentence CNN": ("sentence-cnn", sentences, {}),
}
AIMS = {1: 1.1, 5: 1.2}


def regularizer() -> list[str]:
    """A step of fold 2 with 64 groups and the penalty over one without, at K ascents of the critic.

    The critic reads the bottleneck, or, as in the paper, the objects. Aims for the former: at most 1.1 at K = 1 and 1.2
    at K = 5.
    """
    lines = heading("network", "critic reads", "K", "over alpha = 0", "quartiles", "")
    for title, (name, make, options) in NETWORKS.items():
        data = make(DATA)

        def one(name: str = name, data: LabelledSet = data, options: dict = options, **recipe: object) -> Callable:
            vocabulary = {"vocabulary": 18_766} if name == "sentence-cnn" else {}
            network = build_network(
                name, object_shape=data.objects.shape[1:], num_classes=data.num_classes, fold=FOLD, noise=1.0,
                objects=None if vocabulary else data.objects, **options, **vocabulary,
            )  # fmt: skip
            return step(network, data, objects=GROUPS * FOLD, optimizer="adamw", learning_rate=1e-3, **recipe)

        actions = {"0": one()}
        for critic in ("bottleneck", "input"):
            actions |= {f"{critic}, {k}": one(alpha=0.1, ascent_steps=k, critic=critic) for k in AIMS}
        times = take_turns(actions, rounds=40)
        for critic in ("bottleneck", "input"):
            for k, aim in AIMS.items():
                found = ratio(times, f"{critic}, {k}", "0")
                judged = verdict(found.middle <= aim) if critic == "bottleneck" else ""
                lines.append(f"| {title} | {critic} | {k} | {found} | {judged} |")
    return lines
