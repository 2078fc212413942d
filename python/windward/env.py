"""Congestion control as an environment for learning agents, by Gymnasium's interface.

The agent sets the window of one connection, every ``interval``; everything else goes on as in any
scenario. No Python runs inside the simulation, which leaves the interpreter free: environments in
threads go side by side.

    scenario = ww.Scenario.read("link.toml")          # with a group "agent"
    env = CongestionEnv(scenario, "agent-1")
    observation, info = env.reset(seed=1)
    observation, reward, terminated, truncated, info = env.step(env.action_space.sample())
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import gymnasium
import numpy as np
from numpy.typing import NDArray

from ._windward import Run, Scenario, Simulation, Steered

__all__ = ["CongestionEnv", "Interval", "default_reward"]

Observation = NDArray[np.float32]


@dataclass(frozen=True)
class Interval:
    """What the connection did between two actions.

    Attributes:
        seconds: Its length.
        cwnd: The window that the agent had set, packets.
        delivered: Packets that acknowledgments showed to have arrived.
        lost: Packets found lost.
        resets: Timeouts.
        throughput_bps: The same, bits per second.
        mean_rtt: Mean of the RTT samples, seconds; that of the interval before if there was none.
        min_rtt: The smallest RTT of the connection so far, seconds; 0 before the first sample.
        capacity_bps: The rate of its bottleneck, bits per second.
    """

    seconds: float
    cwnd: float
    delivered: int
    lost: int
    resets: int
    throughput_bps: float
    mean_rtt: float
    min_rtt: float
    capacity_bps: float


def default_reward(interval: Interval) -> float:
    """Share of the capacity used, less the share of the RTT that is queueing, less a tenth a timeout.

    Losses cost nothing by themselves: on a link that corrupts packets they say little. A queue does.
    """
    used = interval.throughput_bps / interval.capacity_bps
    queued = 1 - interval.min_rtt / interval.mean_rtt if interval.mean_rtt > 0 else 0.0
    return used - 0.5 * queued - 0.1 * interval.resets


class CongestionEnv(gymnasium.Env[Observation, NDArray[np.float32]]):
    """One connection of a scenario whose window the agent sets.

    The **observation** has six numbers: log2 of the window; packets delivered, and lost, in the
    interval, as shares of the window; the mean RTT over the smallest, less one; the share of the
    capacity used; timeouts. Each is bounded by -1 and 32.

    The **action** is one number from -1 to 1. ``change`` multiplies the window by two to its power;
    ``window`` sets it, from 1 packet for -1 to ``max_window`` for 1, on a logarithmic scale.

    An episode is ``truncated`` at the end of the scenario, and never ``terminated``: there is no
    failure that ends a connection. ``info["run"]`` is then what the run measured.

    Args:
        scenario: A scenario, or a function of NumPy's generator that gives one for each episode.
        connection: The connection's name, as ``agent-1``: its whole group is steered, and the rest
            of the group keeps its initial window. Its protocol says how losses are found and
            repaired; take ``sack`` or one with packet numbers, since others tell late, and twice,
            what was delivered.
        interval: Time between two actions, seconds.
        action: ``change`` or ``window``.
        max_window: The largest window, packets.
        reward: From what happened in an interval; ``default_reward``.

    Raises:
        ValueError: If the interval is not longer than 0, or there is no such connection.
    """

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012 (as Gymnasium has it)

    def __init__(
        self,
        scenario: Scenario | Callable[[np.random.Generator], Scenario],
        connection: str,
        *,
        interval: float = 0.1,
        action: Literal["change", "window"] = "change",
        max_window: float = 4096.0,
        reward: Callable[[Interval], float] = default_reward,
    ) -> None:
        if not interval > 0:
            raise ValueError(f"interval = {interval}: must be longer than 0 s")
        if action not in ("change", "window"):
            raise ValueError(f'action = {action!r}: "change" or "window"')
        if not 1 < max_window <= 2**31:
            raise ValueError(f"max_window = {max_window}: must be above 1, up to 2^31 packets")
        self._source = scenario
        self._connection = connection
        self._interval = interval
        self._action = action
        self._max_window = float(max_window)
        self._reward = reward
        self._simulation: Simulation | None = None
        self.action_space = gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float32)
        self.observation_space = gymnasium.spaces.Box(-1.0, 32.0, (6,), np.float32)
        if isinstance(scenario, Scenario):
            self._prepare(scenario)

    def _prepare(self, scenario: Scenario) -> Scenario:
        """The scenario with the connection steered; notes what must be known of it."""
        if self._connection not in scenario.flows:
            names = ", ".join(scenario.flows[:8])
            raise ValueError(f"no connection {self._connection!r} in the scenario; it has {names}")
        group = self._connection.rpartition("-")[0]
        steered = scenario.with_parts(window={group: Steered})
        self._duration = steered.duration
        bottleneck = scenario.bottleneck(self._connection)
        self._capacity = bottleneck["rate_bps"]
        self._packet_size = bottleneck["packet_size"]
        return steered

    def reset(
        self,
        *,
        seed: int | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> tuple[Observation, dict[str, Any]]:
        """Begins an episode: another seed of the scenario each time, the same for the same ``seed``."""
        super().reset(seed=seed)
        source = self._source
        scenario = source if isinstance(source, Scenario) else source(self.np_random)
        steered = self._prepare(scenario)
        run_seed = int(self.np_random.integers(2**53))
        self._simulation = Simulation(steered, seed=run_seed)
        self._cwnd = float(self._simulation.flow(self._connection)["cwnd_packets"])
        self._mean_rtt = 0.0
        return self._observe(self._look(self._interval)), {"seed": run_seed}

    def step(
        self, action: NDArray[np.float32]
    ) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Sets the window, and lets an interval pass."""
        simulation = self._simulation
        if simulation is None:
            raise RuntimeError("reset() comes before step(), and after an episode has ended")
        number = float(np.asarray(action, dtype=np.float64).reshape(-1)[0])
        if math.isnan(number):
            raise ValueError("the action is not a number")
        number = min(max(number, -1.0), 1.0)
        if self._action == "change":
            cwnd = self._cwnd * 2.0**number
        else:
            cwnd = self._max_window ** ((number + 1) / 2)
        self._cwnd = min(max(cwnd, 1.0), self._max_window)
        simulation.steer(self._connection, self._cwnd)
        before = simulation.now
        simulation.advance(min(before + self._interval, self._duration))
        interval = self._look(max(simulation.now - before, 1e-12))
        reward = float(self._reward(interval))
        info: dict[str, Any] = {"interval": interval, "now": simulation.now}
        truncated = simulation.now >= self._duration
        if truncated:
            run: Run = simulation.finish()
            info["run"] = run
            self._simulation = None
        return self._observe(interval), reward, False, truncated, info

    def _look(self, seconds: float) -> Interval:
        assert self._simulation is not None
        heard = self._simulation.heard(self._connection)
        self._mean_rtt = heard["mean_rtt_s"] or self._mean_rtt
        return Interval(
            seconds=seconds,
            cwnd=self._cwnd,
            delivered=heard["delivered"],
            lost=heard["lost"],
            resets=heard["resets"],
            throughput_bps=heard["delivered"] * self._packet_size * 8 / seconds,
            mean_rtt=self._mean_rtt,
            min_rtt=heard["min_rtt_s"] or 0.0,
            capacity_bps=self._capacity,
        )

    def _observe(self, interval: Interval) -> Observation:
        stretch = interval.mean_rtt / interval.min_rtt - 1 if interval.min_rtt > 0 else 0.0
        numbers = [
            math.log2(interval.cwnd),
            interval.delivered / interval.cwnd,
            interval.lost / interval.cwnd,
            stretch,
            interval.throughput_bps / interval.capacity_bps,
            float(interval.resets),
        ]
        return np.clip(np.array(numbers, dtype=np.float32), -1.0, 32.0)

    def close(self) -> None:
        """Ends the episode."""
        self._simulation = None
