"""Congestion control as an environment for learning agents, with the interface of Gymnasium.

The agent sets the window of one connection once per ``interval``; everything else is as in any
scenario. No Python runs inside the simulation, which releases the interpreter lock: environments in
threads run in parallel.

    scenario = ww.Scenario.read("link.toml")          # with a group "agent"
    env = CongestionEnv(scenario, "agent-1")
    observation, info = env.reset(seed=1)
    observation, reward, terminated, truncated, info = env.step(env.action_space.sample())
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import gymnasium
import gymnasium.vector
import numpy as np
from numpy.typing import NDArray

from ._windward import Run, Scenario, Simulation, Steered

__all__ = [
    "OBSERVATIONS",
    "CongestionEnv",
    "Interval",
    "ThreadVectorEnv",
    "default_reward",
    "make",
]

Observation = NDArray[np.float32]


@dataclass(frozen=True)
class Interval:
    """Events of the connection between two actions.

    Attributes:
        seconds: Length of the interval.
        cwnd: Window that the agent had set, packets.
        delivered: Packets that acknowledgments reported as arrived.
        lost: Packets declared lost.
        resets: Timeouts.
        throughput_bps: Throughput of delivered packets, bits per second.
        mean_rtt: Mean of the RTT samples, seconds; that of the previous interval without samples.
        min_rtt: The smallest RTT of the connection so far, seconds; 0 before the first sample.
        capacity_bps: Rate of the bottleneck, bits per second; for rewards, since no sender knows it.
        max_throughput_bps: The largest ``throughput_bps`` of the connection so far.
        pacing_bps: Pacing rate that the agent had set, bits per second; 0 if it sets none.
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
    max_throughput_bps: float = 0.0
    pacing_bps: float = 0.0


def default_reward(interval: Interval) -> float:
    """Used share of the capacity, minus half the share of queueing in the RTT, minus a tenth per timeout.

    The capacity is the true one: a reward is a signal for training, which an agent does not observe.
    Losses alone cost nothing, since they mean little on a link that corrupts packets. Queues do.
    """
    used = interval.throughput_bps / interval.capacity_bps
    queued = 1 - interval.min_rtt / interval.mean_rtt if interval.mean_rtt > 0 else 0.0
    return used - 0.5 * queued - 0.1 * interval.resets


def _stretch(interval: Interval) -> float:
    return interval.mean_rtt / interval.min_rtt - 1 if interval.min_rtt > 0 else 0.0


def _throughput(interval: Interval) -> float:
    most = interval.max_throughput_bps
    return interval.throughput_bps / most if most > 0 else 0.0


OBSERVATIONS: Mapping[str, Callable[[Interval], float]] = {
    "window": lambda interval: math.log2(interval.cwnd),
    "delivered": lambda interval: interval.delivered / interval.cwnd,
    "lost": lambda interval: interval.lost / interval.cwnd,
    "rtt": _stretch,
    "throughput": _throughput,
    "timeouts": lambda interval: float(interval.resets),
}
"""Numbers of the usual observation by name, in order; ``CongestionEnv`` describes them."""

_LEAST, _MOST = -1.0, 32.0
"""Bounds of each number of an observation."""


def _capacity(interval: Interval) -> float:
    return interval.throughput_bps / interval.capacity_bps


@dataclass(frozen=True)
class Control:
    """Meaning of actions and observations: see ``CongestionEnv``."""

    interval: float
    action: Literal["change", "window"]
    max_window: float
    reward: Callable[[Interval], float]
    oracle: bool = False
    pacing: bool = False
    observations: Sequence[str | Callable[[Interval], float]] = tuple(OBSERVATIONS)

    def __post_init__(self) -> None:
        if not self.interval > 0:
            raise ValueError(f"interval = {self.interval}: must be greater than 0 s")
        if self.action not in ("change", "window"):
            raise ValueError(f'action = {self.action!r}: expected "change" or "window"')
        if not 1 < self.max_window <= 2**31:
            message = f"max_window = {self.max_window}: must be greater than 1, up to 2^31 packets"
            raise ValueError(message)
        if isinstance(self.observations, str) or not self.observations:
            raise ValueError("observations: must be a list of at least one name or function")
        for one in self.observations:
            if not callable(one) and one not in OBSERVATIONS:
                names = ", ".join(OBSERVATIONS)
                raise ValueError(f"observations: no {one!r}; there are {names}")

    @cached_property
    def numbers(self) -> list[Callable[[Interval], float]]:
        """Functions of an interval that give the observation."""
        named = [one if callable(one) else OBSERVATIONS[one] for one in self.observations]
        return [*named, _capacity] if self.oracle else named

    def action_space(self) -> gymnasium.spaces.Space[NDArray[np.float32]]:
        """Action space of an agent."""
        numbers = 2 if self.pacing else 1
        space: gymnasium.spaces.Space[Any]
        space = gymnasium.spaces.Box(-1.0, 1.0, (numbers,), np.float32)
        return space

    def observation_space(self) -> gymnasium.spaces.Space[Observation]:
        """Observation space of an agent."""
        space: gymnasium.spaces.Space[Any]
        space = gymnasium.spaces.Box(_LEAST, _MOST, (len(self.numbers),), np.float32)
        return space

    def observe(self, interval: Interval) -> Observation:
        """Observation of an interval."""
        numbers = np.array([number(interval) for number in self.numbers], dtype=np.float32)
        if np.isnan(numbers).any():
            raise ValueError("an observation is not a number")
        return np.clip(numbers, _LEAST, _MOST)

    def steered(self, scenario: Scenario, connections: Sequence[str]) -> Scenario:
        """The scenario with the groups of these connections steered."""
        for connection in connections:
            if connection not in scenario.flows:
                names = ", ".join(scenario.flows[:8])
                raise ValueError(f"no connection {connection!r} in the scenario; it has {names}")
        groups = dict.fromkeys(connection.rpartition("-")[0] for connection in connections)
        if self.pacing:
            scenario = scenario.with_({f"flows.{group}.pacing": True for group in groups})
        return scenario.with_parts(window=dict.fromkeys(groups, Steered))


def go_on(simulation: Simulation, interval: float, duration: float) -> float:
    """Advances by an interval, or to the end of the scenario; returns the length in seconds."""
    before = simulation.now
    simulation.advance(min(before + interval, duration))
    return max(simulation.now - before, 1e-12)


def make(
    scenario: Scenario | Callable[[np.random.Generator], Scenario] | None = None,
    connection: str = "agent-1",
    **settings: Any,
) -> CongestionEnv:
    """The environment of ``gymnasium.make("windward.env:windward/Congestion-v0", scenario=.., connection=..)``.

    Without a scenario the agent is alone on 10 Mbit/s with an RTT of 40 ms and a buffer of one BDP for 20 s.
    ``settings`` are those of ``CongestionEnv``.
    """
    return CongestionEnv(Scenario(_ALONE) if scenario is None else scenario, connection, **settings)


_ALONE = """
duration = "20s"
[dumbbell]
bottleneck = { rate = "10Mbit", delay = "15ms", queue = "33p" }
access = { rate = "100Mbit", delay = "2.5ms" }
[[flows]]
group = "agent"
protocol = "newreno"
"""


class Pilot:
    """Control over the window of one connection of a simulation."""

    def __init__(
        self, simulation: Simulation, scenario: Scenario, connection: str, control: Control
    ) -> None:
        bottleneck = scenario.bottleneck(connection)
        self._capacity = bottleneck["rate_bps"]
        self._packet_size = bottleneck["packet_size"]
        self._simulation = simulation
        self._connection = connection
        self._control = control
        self._cwnd = float(simulation.flow(connection)["cwnd_packets"])
        self._pacing: float | None = None
        self._mean_rtt = 0.0
        self._max_throughput = 0.0

    def act(self, action: NDArray[np.float32]) -> None:
        """Sets the window, and the pacing rate if that is a part of the action."""
        numbers = np.asarray(action, dtype=np.float64).reshape(-1)
        wanted = 2 if self._control.pacing else 1
        if len(numbers) != wanted:
            raise ValueError(f"the action has {len(numbers)} numbers, and not {wanted}")
        if np.isnan(numbers).any():
            raise ValueError("the action is not a number")
        number, *pace = (float(number) for number in np.clip(numbers, -1.0, 1.0))
        if self._control.action == "change":
            cwnd = self._cwnd * 2.0**number
        else:
            cwnd = self._control.max_window ** ((number + 1) / 2)
        self._cwnd = min(max(cwnd, 1.0), self._control.max_window)
        if pace and self._mean_rtt > 0:
            self._pacing = 2.0 ** pace[0] * self._cwnd * self._packet_size * 8 / self._mean_rtt
        self._simulation.steer(self._connection, self._cwnd, pacing_bps=self._pacing)

    def look(self, seconds: float) -> Interval:
        """Events of the connection since the last call."""
        heard = self._simulation.heard(self._connection)
        self._mean_rtt = heard["mean_rtt_s"] or self._mean_rtt
        throughput = heard["delivered"] * self._packet_size * 8 / seconds
        self._max_throughput = max(self._max_throughput, throughput)
        return Interval(
            seconds=seconds,
            cwnd=self._cwnd,
            delivered=heard["delivered"],
            lost=heard["lost"],
            resets=heard["resets"],
            throughput_bps=throughput,
            mean_rtt=self._mean_rtt,
            min_rtt=heard["min_rtt_s"] or 0.0,
            capacity_bps=self._capacity,
            max_throughput_bps=self._max_throughput,
            pacing_bps=self._pacing or 0.0,
        )


class CongestionEnv(gymnasium.Env[Observation, NDArray[np.float32]]):
    """One connection of a scenario whose window the agent sets.

    The **observation** has six numbers, all of which a sender can measure. ``window`` is log2 of the
    window; ``delivered`` and ``lost`` are packets in the interval, as shares of the window; ``rtt`` is the
    mean RTT over the smallest, less one; ``throughput`` is that of the interval over the connection's
    largest so far; ``timeouts`` counts them. ``observations`` chooses among these names, and takes
    functions of an ``Interval`` too. Each number is limited to -1 to 32. ``oracle=True`` adds throughput
    over the true capacity of the bottleneck, which no sender on a real path knows: do not compare such an
    agent with congestion controllers.

    The **action** is one number from -1 to 1. ``change`` multiplies the window by two to the power of it;
    ``window`` sets it, from 1 packet for -1 to ``max_window`` for 1, on a logarithmic scale. With
    ``pacing=True``, a second number from -1 to 1 sets the pacing rate: two to the power of it, times a
    window per mean RTT. Before the first RTT sample the connection paces as the transport does.

    The **reward**, and ``info["interval"]``, may use the true capacity: they are for training.

    An episode is ``truncated`` at the end of the scenario, and never ``terminated``: no
    failure ends a connection. ``info["run"]`` then has the results of the run.

    Args:
        scenario: A scenario, or a function of a NumPy generator that returns one for each episode.
        connection: Name of the connection, such as ``agent-1``. Its whole group is steered, and the
            rest of the group keeps its initial window. Its protocol detects and repairs losses.
            Use ``sack`` or one with packet numbers, since others report delivered packets late,
            and twice.
        interval: Time between two actions, seconds.
        action: ``change`` or ``window``.
        max_window: Largest window, packets.
        reward: Function of an interval; by default ``default_reward``.
        oracle: Adds throughput over the true capacity to the observation.
        pacing: Adds the pacing rate to the action. The whole group then paces.
        observations: Numbers of the observation: names of ``OBSERVATIONS`` and functions of an interval.

    Raises:
        ValueError: If the interval is not greater than 0, or there is no such connection or
            observation.
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
        oracle: bool = False,
        pacing: bool = False,
        observations: Sequence[str | Callable[[Interval], float]] = tuple(OBSERVATIONS),
    ) -> None:
        self._source = scenario
        self._connection = connection
        self._control = Control(
            interval, action, max_window, reward, oracle, pacing, observations
        )
        self._simulation: Simulation | None = None
        self._pilot: Pilot | None = None
        self.action_space = self._control.action_space()
        self.observation_space = self._control.observation_space()
        if isinstance(scenario, Scenario):
            self._control.steered(scenario, [connection])

    def reset(
        self,
        *,
        seed: int | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> tuple[Observation, dict[str, Any]]:
        """Begins an episode with another seed of the scenario; the same ``seed`` repeats the sequence."""
        super().reset(seed=seed)
        source = self._source
        scenario = source if isinstance(source, Scenario) else source(self.np_random)
        run_seed = int(self.np_random.integers(2**53))
        self._simulation = Simulation(
            self._control.steered(scenario, [self._connection]), seed=run_seed
        )
        self._duration = scenario.duration
        self._pilot = Pilot(self._simulation, scenario, self._connection, self._control)
        seen = self._pilot.look(self._control.interval)
        return self._control.observe(seen), {"seed": run_seed}

    def step(
        self, action: NDArray[np.float32]
    ) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Sets the window, and advances by an interval."""
        simulation, pilot = self._simulation, self._pilot
        if simulation is None or pilot is None:
            raise RuntimeError("call reset() before step(), and after the end of an episode")
        pilot.act(action)
        seconds = go_on(simulation, self._control.interval, self._duration)
        interval = pilot.look(seconds)
        reward = float(self._control.reward(interval))
        info: dict[str, Any] = {"interval": interval, "now": simulation.now}
        truncated = simulation.now >= self._duration
        if truncated:
            run: Run = simulation.finish()
            info["run"] = run
            self._simulation = None
        return self._control.observe(interval), reward, False, truncated, info

    def close(self) -> None:
        """Ends the episode."""
        self._simulation = None


class _Ahead(gymnasium.Wrapper[Any, Any, Any, Any]):
    """An environment whose next step runs in a thread before the step is requested."""

    def __init__(self, env: gymnasium.Env[Any, Any], resets: bool) -> None:
        super().__init__(env)
        self._resets = resets
        self._has_ended = False
        self._begun: Future[Any] | None = None

    def begin(self, pool: ThreadPoolExecutor, action: Any) -> None:
        """Begins the next operation of the vector: a step, or a reset after the end of an episode."""
        if self._resets and self._has_ended:
            self._begun = pool.submit(self.env.reset)
        else:
            self._begun = pool.submit(self.env.step, action)

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        begun, self._begun = self._begun, None
        found = begun.result() if begun is not None else self.env.step(action)
        self._has_ended = bool(found[2] or found[3])
        return found

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        begun, self._begun = self._begun, None
        self._has_ended = False
        return begun.result() if begun is not None else self.env.reset(seed=seed, options=options)


class ThreadVectorEnv(gymnasium.vector.SyncVectorEnv[Any, Any]):
    """Several environments that step in parallel threads.

    Otherwise it is Gymnasium's ``SyncVectorEnv``, with the same results. Processes are not needed, since
    simulations release the interpreter lock. Each step has the cost of a thread switch: if steps are
    short, as on slow links or in short intervals, ``SyncVectorEnv`` is faster.

    Args:
        env_fns: Functions that create the environments.
        threads: Number of threads; None means one per core.
        options: Options of ``SyncVectorEnv``: ``autoreset_mode``, ``copy``, ``observation_mode``.
    """

    def __init__(
        self,
        env_fns: Sequence[Callable[[], gymnasium.Env[Any, Any]]],
        *,
        threads: int | None = None,
        **options: Any,
    ) -> None:
        mode = gymnasium.vector.AutoresetMode
        asked = options.get("autoreset_mode", mode.NEXT_STEP)
        resets = mode(asked) == mode.NEXT_STEP
        self._pool = ThreadPoolExecutor(threads or os.cpu_count() or 1)

        def ahead(make: Callable[[], gymnasium.Env[Any, Any]]) -> Callable[[], _Ahead]:
            return lambda: _Ahead(make(), resets)

        super().__init__([ahead(make) for make in env_fns], **options)

    def step(
        self, actions: Any
    ) -> tuple[Any, NDArray[np.float64], NDArray[np.bool_], NDArray[np.bool_], dict[str, Any]]:
        """Steps all environments."""
        each = gymnasium.vector.utils.iterate(self.action_space, actions)
        for env, action in zip(self.envs, each, strict=True):
            assert isinstance(env, _Ahead)
            env.begin(self._pool, action)
        return super().step(actions)

    def close_extras(self, **options: Any) -> None:
        """Ends the threads and the environments."""
        self._pool.shutdown()
        super().close_extras(**options)


gymnasium.register(id="windward/Congestion-v0", entry_point="windward.env:make")
