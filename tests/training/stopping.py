"""Training runs that are cut off, as if they had been killed."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from unittest import mock

from agrlearn.training.step import train_step


class StoppedError(Exception):
    pass


@contextmanager
def before_every_step(action: Callable[[], None]) -> Iterator[None]:
    """Within this block, `action` is called before every step of `fit`."""

    def step(*arguments, **options):
        action()
        train_step(*arguments, **options)

    with mock.patch("agrlearn.training.loop.train_step", step):
        yield


@contextmanager
def at_most(steps: int) -> Iterator[None]:
    """Within this block, `fit` raises StoppedError when so many steps are done and another one begins."""
    left = steps

    def count() -> None:
        nonlocal left
        left -= 1
        if left < 0:
            raise StoppedError

    with before_every_step(count):
        yield
