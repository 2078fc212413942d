"""Congestion controllers over arrays: all connections of a group at once, an interval at a time."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from ._windward import Run, Scenario, Simulation, Steered
from ._windward import seconds as interval_seconds

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: Interval while no connection of the group has measured its RTT, seconds.
_FIRST_INTERVAL = 0.1
#: Smallest interval that is derived from RTTs, seconds.
_LEAST_INTERVAL = 0.001
_MOST = 2.0**32 - 1


@dataclass(frozen=True)
class BatchSetup:
    """Group of connections of a batch controller.

    Attributes:
        names: The connections, in the order of all arrays.
        cwnd: Their initial windows, packets.
        seed: The seed of the run.
    """

    names: tuple[str, ...]
    cwnd: NDArray[Any]
    seed: int


@dataclass(frozen=True)
class Batch:
    """Events of all connections of a group in an interval: arrays with one number for each.

    Attributes:
        now: The instant, seconds.
        seconds: Length of the interval.
        cwnd: Windows, packets.
        in_flight: Packets sent and not yet acknowledged or deemed lost.
        delivered: Packets reported as arrived in the interval.
        lost: Packets that recovery declared lost.
        congestions: Losses and marks that mean congestion, at most one per window.
        resets: Restarts by a timeout.
        mean_rtt: Mean of the RTT samples of the interval, seconds; NaN without any.
        min_rtt: The smallest RTT of the connection so far, seconds; NaN before the first.
        active: True for connections with any event in the interval.
    """

    now: float
    seconds: float
    cwnd: NDArray[Any]
    in_flight: NDArray[Any]
    delivered: NDArray[Any]
    lost: NDArray[Any]
    congestions: NDArray[Any]
    resets: NDArray[Any]
    mean_rtt: NDArray[Any]
    min_rtt: NDArray[Any]
    active: NDArray[Any]


@runtime_checkable
class BatchController(Protocol):
    """Congestion controller for all connections of a group: one object for each group.

    The class is called with a ``BatchSetup``.

    >>> import numpy as np
    >>> class Aimd:
    ...     def __init__(self, setup):
    ...         pass
    ...
    ...     def on_interval(self, batch):
    ...         grown = np.where(batch.active, batch.cwnd + 1, batch.cwnd)
    ...         return np.where(batch.congestions > 0, batch.cwnd / 2, grown)
    """

    def on_interval(self, batch: Batch) -> NDArray[Any]:
        """Returns the windows for the next interval, packets; values below one count as one."""
        ...


class _Group:
    """A controller and its connections."""

    def __init__(
        self, simulation: Simulation, name: str, controller: Callable[[BatchSetup], BatchController], seed: int
    ) -> None:
        steered = simulation._steered(name)
        self.indices = [index for index, _ in steered]
        self.since = 0.0
        self.due = 0.0
        self._steps = 0
        self._simulation = simulation
        cwnd = self._look()[0]
        names = tuple(connection for _, connection in steered)
        self.controller = controller(BatchSetup(names, cwnd, seed))
        self.whose = f"{getattr(controller, '__name__', 'the controller')}.on_interval"

    def _look(self) -> NDArray[Any]:
        import numpy as np

        heard = np.frombuffer(self._simulation._heard_of(self.indices))
        return heard.reshape(8, len(self.indices))

    def step(self, now: float, every: float | None) -> None:
        """Calls the controller, and returns the time of the next call."""
        import numpy as np

        columns = self._look()
        cwnd, in_flight, delivered, lost, congestions, resets, mean_rtt, min_rtt = columns
        active = (columns[2:6] != 0).any(axis=0) | ~np.isnan(mean_rtt)
        batch = Batch(
            now,
            now - self.since,
            cwnd,
            in_flight,
            delivered,
            lost,
            congestions,
            resets,
            mean_rtt,
            min_rtt,
            active,
        )
        answer = self.controller.on_interval(batch)
        try:
            windows = np.ascontiguousarray(answer, dtype=np.float64)
        except (TypeError, ValueError):
            windows = np.empty(0)
        if windows.shape != cwnd.shape or np.isnan(windows).any():
            raise TypeError(
                f"{self.whose} returned {answer!r} at {now} s: expected {cwnd.size} windows in packets"
            )
        self._simulation._steer_all(self.indices, np.clip(windows, 1.0, _MOST).tobytes())
        self.since = now
        self._steps += 1
        if every is not None:
            # A product, since the rounding errors of a sum would add up.
            self.due = (self._steps + 1) * every
            return
        known = mean_rtt[~np.isnan(mean_rtt)]
        rtt = max(float(known.mean()), _LEAST_INTERVAL) if known.size else _FIRST_INTERVAL
        self.due = now + rtt


def run_batch(
    scenario: Scenario,
    controllers: Mapping[str, Callable[[BatchSetup], BatchController]],
    *,
    every: float | str | timedelta | None = None,
    seed: int | None = None,
) -> Run:
    """Simulates a scenario whose windows are set by controllers over arrays.

    A controller is called once per interval, not at each acknowledgment: a window stays until then, also
    after a loss. The protocol of the group detects and repairs losses. Use ``sack`` or one with packet
    numbers, since others report delivered packets late, and twice.

    Args:
        scenario: Scenario to simulate.
        controllers: Controllers by the name of the group of connections. Each
            is a class with a method ``on_interval``: see ``BatchController``.
        every: The interval: seconds, ``"20ms"`` or a timedelta. None means about an RTT: the mean of the RTTs that the
            connections of the group measured in the last interval, at least 1 ms, or 100 ms before
            the first sample.
        seed: Seed in place of the scenario's.

    Raises:
        ImportError: If NumPy is not installed.
        KeyError: If there is no group of that name.
        TypeError: If a controller does not return one number for each connection.
        ValueError: If the interval is not greater than 0, or the group has no connections.
    """
    try:
        importlib.import_module("numpy")
    except ImportError as error:
        raise ImportError(
            "windows over arrays need NumPy, which is not installed: pip install numpy", name="numpy"
        ) from error
    seconds = None if every is None else interval_seconds(every, "every")
    if seconds == 0:
        raise ValueError(f"every = {every}: must be greater than 0 s")
    for name, controller in controllers.items():
        if not (callable(controller) and hasattr(controller, "on_interval")):
            raise TypeError(f"{name}: {controller!r} is not a class with a method on_interval")
    steered = scenario.with_parts(window=dict.fromkeys(controllers, Steered))
    simulation = Simulation(steered, seed=seed)
    run_seed = scenario.seed if seed is None else seed
    groups = [_Group(simulation, name, controller, run_seed) for name, controller in controllers.items()]
    for group in groups:
        group.due = _FIRST_INTERVAL if seconds is None else seconds
    while groups:
        due = min(group.due for group in groups)
        if due >= scenario.duration:
            break
        simulation.advance(due)
        for group in groups:
            if group.due <= due:
                group.step(due, seconds)
    return simulation.finish()
