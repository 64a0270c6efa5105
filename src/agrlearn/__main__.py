"""The command `agrlearn`, also as python -m agrlearn. All else is imported where Ctrl-C is heard."""

import signal
import sys


def main() -> None:
    """Run the command line; stopped at any moment by Ctrl-C, it ends with exit code 130 and no traceback."""
    try:
        from agrlearn.cli import main as run_command

        run_command()
    except KeyboardInterrupt:  # while modules were imported, or once more while a command was ending
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        print("Stopped.", file=sys.stderr)
        sys.exit(130)
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # what is left is to end


if __name__ == "__main__":
    main()
