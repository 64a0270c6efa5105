"""The command `agrlearn`, also as python -m agrlearn. All else is imported where Ctrl-C is heard."""

import os
import signal
import sys
from types import FrameType


def main() -> None:
    """Run the command line; stopped at any moment by Ctrl-C, it ends with exit code 130 and no traceback."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # it is ignored in the background of a script
        signal.signal(signal.SIGINT, _stop)
    # Before torch is imported: on busy cores, threads that spin while they wait made a small CNN 40 times slower.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    try:
        from agrlearn.cli import main as run_command

        run_command()
    except KeyboardInterrupt:  # once more, while a command was ending
        _leave()
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # what is left is to end


def _stop(number: int, frame: FrameType | None) -> None:
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            _leave()  # an exception in the middle of an import can abort the process in torch's own code
        frame = frame.f_back
    raise KeyboardInterrupt


def _leave() -> None:
    print("Stopped.", file=sys.stderr, flush=True)
    os._exit(130)


if __name__ == "__main__":
    main()
