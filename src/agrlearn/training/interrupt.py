"""Stop between two steps on Ctrl-C, not within one."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Interrupt:
    """Whether the user has asked to stop."""

    requested = False


@contextmanager
def deferred_interrupt() -> Iterator[Interrupt]:
    """Within this block the first Ctrl-C only sets `requested`; a second one stops at once.

    If Ctrl-C is ignored, as in a background process of a script, it still is.
    """
    interrupt = Interrupt()
    before = signal.getsignal(signal.SIGINT)
    # None is a handler that Python did not set and cannot restore.
    if threading.current_thread() is not threading.main_thread() or before in (signal.SIG_IGN, None):
        yield interrupt
        return

    def note(number: int, frame: FrameType | None) -> None:
        interrupt.requested = True
        signal.signal(signal.SIGINT, before)

    signal.signal(signal.SIGINT, note)
    try:
        yield interrupt
    finally:
        signal.signal(signal.SIGINT, before)
