"""Starts a program in a network namespace: run by the package, never by hand."""

from __future__ import annotations

import sys

from . import _windward

if __name__ == "__main__":
    _windward.child(sys.argv[1:])
