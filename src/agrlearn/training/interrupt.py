"""Stop between two steps on Ctrl-C, not within one."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def deferred_interrupt() -> Iterator[threading.Event]:
    """Within this block the first Ctrl-C only sets the event; a second one stops at once.

    If Ctrl-C is ignored, as in a background process of a script, it still is.
    """
    interrupt = threading.Event()
    before = signal.getsignal(signal.SIGINT)
    # None is a handler that Python did not set and cannot restore.
    if threading.current_thread() is not threading.main_thread() or before in (signal.SIG_IGN, None):
        yield interrupt
        return

    def note(number: int, frame: FrameType | None) -> None:
        interrupt.set()
        signal.signal(signal.SIGINT, before)

    signal.signal(signal.SIGINT, note)
    try:
        yield interrupt
    finally:
        signal.signal(signal.SIGINT, before)
