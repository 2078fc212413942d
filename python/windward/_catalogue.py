"""The protocols and the parts they are composed of."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from . import _page, _windward


@dataclass(frozen=True)
class Parameter:
    """A parameter of a part.

    Attributes:
        key: Key in scenario files, with its table.
        default: Value if a file gives none.
        unit: Unit; empty for pure numbers, words and times.
        range: Valid values, in words.
        meaning: Description, in one line.
    """

    key: str
    default: str
    unit: str
    range: str
    meaning: str


@dataclass(frozen=True)
class Part:
    """A part that protocols or queues are composed of.

    Attributes:
        axis: window, recovery, discrimination, feedback, aqm or router.
        name: Name in scenario files.
        what: Description, in one sentence.
        source: Source: paper and section, or RFC and section.
        parameters: Its parameters.
    """

    axis: str
    name: str
    what: str
    source: str
    parameters: tuple[Parameter, ...]


@dataclass(frozen=True)
class Protocol:
    """A row of the protocol table: a name for one part on each axis.

    Attributes:
        name: Name in scenario files.
        summary: Description, in one line.
        source: Source: paper or RFC.
        window: Congestion controller: growth and reduction of the window.
        recovery: Loss detection and retransmission.
        discrimination: Discriminator between congestion and corruption.
        feedback: Information in packets that acknowledgments echo.
        router: Router that it needs.
        quic: What of it runs in a QUIC stack: "whole", "partly" or "no".
        quic_reason: The reason.
        kernel: What of it runs in the TCP of a Linux kernel: "partly" or "no".
        kernel_reason: The reason.
    """

    name: str
    summary: str
    source: str
    window: str
    recovery: str
    discrimination: str
    feedback: str
    router: str
    quic: str
    quic_reason: str
    kernel: str
    kernel_reason: str

    def explain(self) -> str:
        """Page of the documentation, as Markdown."""
        text = _windward.explain(self.name) or ""
        return "\n".join(line for line in text.splitlines() if not line.startswith("<!--"))

    def _repr_markdown_(self) -> str:
        return self.explain()


Value = TypeVar("Value")


class _Named(Mapping[str, Value]):
    """Items by name; an unknown name raises an error with a suggestion."""

    def __init__(self, what: str, things: dict[str, Value]) -> None:
        self._what = what
        self._things = things

    def __getitem__(self, name: str) -> Value:
        try:
            return self._things[name]
        except KeyError:
            near = _windward.near(str(name), list(self._things))
            hint = f" (did you mean {near!r}?)" if near else ""
            raise KeyError(f"no {self._what} {name!r}{hint}") from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._things)

    def __len__(self) -> int:
        return len(self._things)

    def __repr__(self) -> str:
        return f"<{len(self)} by name of {self._what}: {', '.join(self)}>"

    def _repr_html_(self) -> str:
        rows = [vars(thing) for thing in self._things.values()]
        heads = [name for name in rows[0] if name != "parameters"] if rows else []
        return _page.table(heads, ([row[name] for name in heads] for row in rows))


class Protocols(_Named[Protocol]):
    """The protocol table, by name."""


class Parts(_Named[Part]):
    """The parts of one axis, by name."""


def _protocols() -> Protocols:
    rows: list[dict[str, str]] = json.loads(_windward.protocols_json())
    return Protocols("protocol", {row["name"]: Protocol(**row) for row in rows})


def _parts() -> dict[str, Parts]:
    rows: list[dict[str, Any]] = json.loads(_windward.parts_json())
    axes: dict[str, dict[str, Part]] = {}
    for row in rows:
        parameters = tuple(Parameter(**parameter) for parameter in row.pop("parameters"))
        axes.setdefault(row["axis"], {})[row["name"]] = Part(parameters=parameters, **row)
    return {axis: Parts(axis, things) for axis, things in axes.items()}


protocols: Protocols = _protocols()
"""Every protocol by name."""

parts: dict[str, Parts] = _parts()
"""Every part by axis and name."""
