"""Entry point of children in network namespaces, which the package starts."""

from __future__ import annotations

import sys

from . import _windward

if __name__ == "__main__":
    _windward.child(sys.argv[1:])
