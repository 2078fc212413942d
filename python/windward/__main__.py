"""The command line: ``python -m windward``."""

from __future__ import annotations

import signal
import sys

from . import _windward


def main() -> int:
    """Runs the command line with the arguments of this process; returns the exit status."""
    sys.stdout.flush()
    # The command line has a handler of its own, which would call that of Python too.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    return _windward.main(["windward", *sys.argv[1:]], sys.executable)


if __name__ == "__main__":
    sys.exit(main())
