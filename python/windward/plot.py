"""Figures in the style of the report, with matplotlib, which must be installed.

Each function draws into ``ax``, or the current axes, and returns them. A protocol has the same
colour, marker and dash here as in every chart of the report.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from . import _windward
from ._windward import Run, Table

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["cdf", "lines", "look", "matrix", "series"]

_MARKERS = {
    "circle": "o",
    "square": "s",
    "triangle": "^",
    "diamond": "D",
    "cross": "X",
    "ring": "o",
    "frame": "s",
    "wedge": "v",
}
_HOLLOW = {"ring", "frame"}


def look(label: str, number: int = 0, of: int = 1) -> dict[str, Any]:
    """Arguments of ``Axes.plot`` for a series: those of its protocol, if the label names one, or
    those of series ``number`` of ``of`` others.

    >>> look("newreno")["color"]
    '#0072b2'
    """
    color, marker, dash = _windward.look(label, number, of)
    style: Any = "-"
    if dash:
        style = (0, tuple(float(part) for part in dash.split()))
    return {
        "color": color,
        "marker": _MARKERS[marker],
        "markerfacecolor": "white" if marker in _HOLLOW else color,
        "linestyle": style,
        "label": label,
    }


def _axes(ax: Axes | None) -> Axes:
    if ax is not None:
        return ax
    try:
        from matplotlib import pyplot
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError("windward.plot needs matplotlib: pip install matplotlib") from error
    return pyplot.gca()


def _finish(ax: Axes, series: int) -> Axes:
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(axis="y", color="#e5e5e5", linewidth=0.6)
    ax.set_axisbelow(True)
    if series > 1:
        ax.legend(frameon=False)
    return ax


def _groups(keys: Iterable[Any]) -> dict[Any, list[int]]:
    """Row numbers by key, in the order of appearance."""
    groups: dict[Any, list[int]] = {}
    for row, key in enumerate(keys):
        groups.setdefault(key, []).append(row)
    return groups


def series(
    run: Run,
    what: str = "cwnd_packets",
    *,
    names: Sequence[str] | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draws a quantity of a run with ``trace`` over time, a line for each flow or link.

    Args:
        run: The run.
        what: A column of ``run.series`` or ``run.link_series``.
        names: Flows or links to draw; all by default.
        ax: Axes to draw into.

    Raises:
        KeyError: If the column or the name is unknown.
    """
    table = run.series if what in run.series.column_names else run.link_series
    by = "flow" if table is run.series or "flow" in table.column_names else "link"
    values, times = table[what], table["time_s"]
    groups = _groups(table[by])
    missing = [name for name in names or [] if name not in groups]
    if missing:
        near = _windward.near(missing[0], list(groups))
        hint = f" (did you mean {near!r}?)" if near else ""
        raise KeyError(f"no {by} {missing[0]!r}{hint}")
    ax = _axes(ax)
    shown = list(names) if names is not None else list(groups)
    for number, name in enumerate(shown):
        rows = groups[name]
        style: dict[str, Any] = look(name, number, len(shown))
        style |= {"marker": None, "linewidth": 1.0}
        ax.plot([times[row] for row in rows], [values[row] for row in rows], **style)
    ax.set_xlabel("Time, s")
    ax.set_ylabel(_title(what))
    return _finish(ax, len(shown) if len(shown) <= 12 else 0)


def lines(
    table: Table,
    x: str,
    y: str,
    *,
    by: str | None = None,
    confidence: float = 0.95,
    ax: Axes | None = None,
) -> Axes:
    """Draws the mean of a metric of a sweep along an axis, a line with a band for each point of another.

    Args:
        table: Result of ``Experiment.sweep``.
        x: The axis along which to draw; labels that are numbers with the same unit, such as ``1%``,
            are placed by value.
        y: The metric.
        by: The axis of the lines.
        confidence: Confidence level of the interval of the mean (Student's t), drawn as a band; 0 draws
            no band.
        ax: Axes to draw into.
    """
    labels, values = table[x], table[y]
    series_of = table[by] if by else [y] * len(labels)
    order = list(dict.fromkeys(labels))
    quantities = [_windward.quantity(str(label)) for label in order]
    numbers = [quantity[0] for quantity in quantities if quantity is not None]
    units = {quantity[1] if quantity is not None else None for quantity in quantities}
    numeric = len(numbers) == len(order) and len(units) == 1
    places = numbers if numeric else [float(n) for n in range(len(order))]
    place: dict[Any, float] = dict(zip(order, places))
    groups = _groups(series_of)
    ax = _axes(ax)
    for number, (name, rows) in enumerate(groups.items()):
        cells = _groups(labels[row] for row in rows)
        points = sorted(((place[label], label) for label in cells), key=lambda point: point[0])
        means: list[float] = []
        halves: list[float] = []
        for _, label in points:
            sample = [values[rows[n]] for n in cells[label] if values[rows[n]] is not None]
            mean, half = _interval(sample, confidence)
            means.append(mean)
            halves.append(half)
        style = look(str(name), number, len(groups))
        xs = [at for at, _ in points]
        ax.plot(xs, means, **style)
        if confidence > 0 and any(half > 0 for half in halves):
            low = [mean - half for mean, half in zip(means, halves)]
            high = [mean + half for mean, half in zip(means, halves)]
            ax.fill_between(xs, low, high, color=style["color"], alpha=0.15, linewidth=0)
    unit = ""
    if numeric:
        unit = "".join(f", {unit}" for unit in units if unit)
    else:
        ax.set_xticks(range(len(order)), [str(label) for label in order])
    ax.set_xlabel(_title(x) + unit)
    ax.set_ylabel(_title(y))
    return _finish(ax, len(groups))


def cdf(
    samples: dict[str, Sequence[float]] | Sequence[float],
    *,
    ax: Axes | None = None,
) -> Axes:
    """Draws the share of samples up to each value, as one line or one for each name.

    Raises:
        ValueError: If there are no samples.
    """
    groups = samples if isinstance(samples, dict) else {"": samples}
    ax = _axes(ax)
    for number, (name, sample) in enumerate(groups.items()):
        finite = sorted(x for x in sample if not math.isnan(x))
        if not finite:
            raise ValueError(f"no samples of {name!r}" if name else "no samples")
        shares = [(n + 1) / len(finite) for n in range(len(finite))]
        style = look(name, number, len(groups)) | {"marker": None}
        ax.step([finite[0], *finite], [0.0, *shares], where="post", **style)
    ax.set_ylim(0, 1)
    ax.set_ylabel("Share")
    return _finish(ax, len(groups))


def matrix(
    table: Table,
    x: str,
    y: str,
    value: str,
    *,
    ax: Axes | None = None,
) -> Axes:
    """Draws the mean of a metric for each combination of two axes of a sweep, as colours with numbers."""
    columns = list(dict.fromkeys(table[x]))
    rows = list(dict.fromkeys(table[y]))
    cells = _groups(zip(table[y], table[x]))
    values = table[value]
    grid: list[list[float]] = []
    for row in rows:
        samples = [[values[n] for n in cells.get((row, column), [])] for column in columns]
        finite = [[v for v in sample if v is not None] for sample in samples]
        grid.append([_interval(sample, 0.0)[0] for sample in finite])
    ax = _axes(ax)
    image = ax.imshow(grid, aspect="auto", cmap="Blues")
    known = [cell for line in grid for cell in line if not math.isnan(cell)]
    middle = (min(known) + max(known)) / 2 if known else 0.0
    for i, line in enumerate(grid):
        for j, cell in enumerate(line):
            if not math.isnan(cell):
                color = "white" if cell > middle else "black"
                ax.text(j, i, f"{cell:.3g}", ha="center", va="center", color=color, fontsize=8)
    ax.set_xticks(range(len(columns)), columns)
    ax.set_yticks(range(len(rows)), rows)
    ax.set_xlabel(_title(x))
    ax.set_title(_title(value), loc="left", fontsize="medium")
    ax.figure.colorbar(image, ax=ax, shrink=0.8)
    return ax


def _interval(sample: Sequence[float], confidence: float) -> tuple[float, float]:
    """The mean, and half the width of its interval by Student's t; NaN and 0 without samples."""
    estimate = _windward.estimate(sample, confidence or 0.95)
    if estimate is None:
        return math.nan, 0.0
    mean, _, high = estimate
    return mean, high - mean if confidence > 0 and math.isfinite(high) else 0.0


def _title(column: str) -> str:
    """Title of a column: ``cwnd_packets`` is ``Cwnd, packets``."""
    units = {"packets": "packets", "bps": "bit/s", "s": "s", "bytes": "bytes"}
    words = column.split("_")
    unit = units.get(words[-1]) if len(words) > 1 else None
    text = " ".join(words[:-1] if unit else words)
    return f"{text[:1].upper()}{text[1:]}{f', {unit}' if unit else ''}"
