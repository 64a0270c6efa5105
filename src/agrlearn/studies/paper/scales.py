"""How far the experiments are shrunk."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Scale:
    """How far an experiment is shrunk, and the sentences that say so beside every number."""

    name: str
    images: str
    converged: str = ""
    """Of the experiments that train on images to convergence, also at small scale; empty where there is none."""
    text: str = ""
    text_by_sgd: str = ""
    """Of the text experiments by the paper's optimizer, also at small scale."""
    beyond: str = ""
    """Of the table of what lies beyond the paper, which has no scale of its own."""


_SMOKE = (
    "does it run at all? Tiny networks, two passes over a fifth of scikit-learn's digits{}; the numbers mean nothing."
)
_SMALL_IMAGES = (
    "16 filters instead of 64 (WideResNet: factor 1 instead of 10), a stem of stride 2 (half the resolution), {} "
    "instead of 400 epochs, a cosine to zero instead of steps, the last measurement instead of the median of ten."
)
_PAPER = "400 epochs of N groups and all other hyperparameters as published."
SMOKE = Scale(
    "smoke",
    images=_SMOKE.format(""),
    converged=_SMOKE.format(""),
    text=_SMOKE.format(", their pixels as words"),
    text_by_sgd=_SMOKE.format(", their pixels as words"),
    beyond=_SMOKE.format(""),
)
SMALL = Scale(
    "small",
    images=_SMALL_IMAGES.format("3 epochs"),
    converged=_SMALL_IMAGES.format("3,000 steps at 2.5 % of the images, growing with the square root of the share,"),
    text="networks of full size, 15 epochs instead of 400, Adam at 0.001 without weight decay instead of SGD, the "
    "median of the last 5 epochs instead of 10.",
    text_by_sgd="networks of full size, 40 epochs instead of 400, the learning rate's steps at the same shares of "
    "them, the median of the last 5 epochs instead of 10.",
    beyond="digits: the small CNN of the demo, joined by channels. Tables: the perceptron and the recipe of `agrlearn "
    "compare`, with a quarter of the rows held out. CIFAR-10: ResNet-18 as in the table of little data, but joined "
    "after block 4.",
)
MEDIUM = Scale("medium", images=_SMALL_IMAGES.format("30 epochs"))
PAPER = Scale(
    "paper",
    images=_PAPER,
    converged="as many steps as 400 epochs of all images have, and all other hyperparameters as published.",
    text=_PAPER,
    text_by_sgd=_PAPER,
)
SCALES = {scale.name: scale for scale in (SMOKE, SMALL, MEDIUM, PAPER)}
