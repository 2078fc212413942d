"""Units: ``5 * Mbit`` is ``"5Mbit"`` of scenario files."""

from __future__ import annotations

from dataclasses import dataclass
from typing import SupportsFloat


@dataclass(frozen=True)
class Unit:
    """A unit of scenario files: a number times a unit is a text in their notation.

    >>> 2.5 * Unit("Mbit")
    '2.5Mbit'
    """

    name: str

    def __rmul__(self, number: SupportsFloat) -> str:
        return f"{_plain(number)}{self.name}"

    def __mul__(self, number: SupportsFloat) -> str:
        return f"{_plain(number)}{self.name}"


def _plain(number: SupportsFloat) -> str:
    """A number without an exponent, with all its digits."""
    if isinstance(number, int):
        return str(number)
    real = float(number)
    if real.is_integer():
        return str(int(real))
    text = repr(real)
    return text if "e" not in text else f"{real:.15f}".rstrip("0")


bit = Unit("bit")
kbit = Unit("kbit")
Mbit = Unit("Mbit")
Gbit = Unit("Gbit")
"""Rates, per second."""

ns = Unit("ns")
us = Unit("us")
ms = Unit("ms")
s = Unit("s")
min = Unit("min")
"""Times."""

B = Unit("B")
kB = Unit("kB")
MB = Unit("MB")
GB = Unit("GB")
packets = Unit("p")
"""Sizes of queues and transfers."""
