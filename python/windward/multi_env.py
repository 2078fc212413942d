"""Connections that compete, each an agent, with the interface of PettingZoo.

    scenario = ww.Scenario.read("link.toml")          # with a group "agent" of three
    env = CompetitionEnv(scenario, ["agent-1", "agent-2", "agent-3"])
    observations, infos = env.reset(seed=1)
    actions = {agent: env.action_space(agent).sample() for agent in env.agents}
    observations, rewards, terminations, truncations, infos = env.step(actions)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

import gymnasium
import numpy as np
import pettingzoo
from numpy.typing import NDArray

from . import env
from ._windward import Scenario, Simulation
from .env import Interval, Observation, default_reward

__all__ = ["CompetitionEnv"]

Action = NDArray[np.float32]


class CompetitionEnv(pettingzoo.ParallelEnv[str, Observation, Action]):  # type: ignore[misc]
    """Several connections of a scenario, each an agent that sets its own window.

    Agents have the names of the connections. Observations, actions and rewards of each are those of
    ``windward.env.CongestionEnv`` for its own connection; all act at the same instants. The episode is
    truncated for all at the end of the scenario; each ``info["run"]`` then has the results of the run.

    Args:
        scenario: A scenario, or a function of a NumPy generator that returns one for each episode.
        connections: Names of the connections, such as ``agent-1``. Their whole groups are steered.
        interval: Time between two actions, seconds.
        action: ``change`` or ``window``.
        max_window: Largest window, packets.
        reward: Reward of an agent, a function of the interval of its connection.
        oracle: Adds throughput over the true capacity to each observation.
        pacing: Adds the pacing rate to each action.
        observations: Numbers of each observation.

    Raises:
        ValueError: If the interval is not greater than 0, there is no connection, or a name is unknown.
    """

    metadata: dict[str, Any] = {"render_modes": [], "name": "windward_competition_v0"}  # noqa: RUF012

    def __init__(
        self,
        scenario: Scenario | Callable[[np.random.Generator], Scenario],
        connections: Sequence[str],
        *,
        interval: float = 0.1,
        action: Literal["change", "window"] = "change",
        max_window: float = 4096.0,
        reward: Callable[[Interval], float] = default_reward,
        oracle: bool = False,
        pacing: bool = False,
        observations: Sequence[str | Callable[[Interval], float]] = tuple(env.OBSERVATIONS),
    ) -> None:
        self.possible_agents = list(dict.fromkeys(connections))
        if not self.possible_agents:
            raise ValueError("connections: there must be at least one")
        self.agents: list[str] = []
        self.render_mode = None
        self._source = scenario
        control = env.Control(interval, action, max_window, reward, oracle, pacing, observations)
        self._control = control
        # A space for each, since it has random numbers of its own.
        self._spaces = {
            agent: (control.observation_space(), control.action_space())
            for agent in self.possible_agents
        }
        self._random = np.random.default_rng()
        self._simulation: Simulation | None = None
        if isinstance(scenario, Scenario):
            self._control.steered(scenario, self.possible_agents)

    def observation_space(self, agent: str) -> gymnasium.spaces.Space[Observation]:
        """Observation space of the agent."""
        return self._spaces[agent][0]

    def action_space(self, agent: str) -> gymnasium.spaces.Space[Action]:
        """Action space of the agent."""
        return self._spaces[agent][1]

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Observation], dict[str, dict[str, Any]]]:
        """Begins an episode with another seed of the scenario; the same ``seed`` repeats the sequence."""
        if seed is not None:
            self._random = np.random.default_rng(seed)
        source = self._source
        scenario = source if isinstance(source, Scenario) else source(self._random)
        run_seed = int(self._random.integers(2**53))
        self._simulation = Simulation(self._control.steered(scenario, self.possible_agents), seed=run_seed)
        self._duration = scenario.duration
        self.agents = list(self.possible_agents)
        self._pilots = {
            agent: env.Pilot(self._simulation, scenario, agent, self._control)
            for agent in self.agents
        }
        seen = {agent: pilot.look(self._control.interval) for agent, pilot in self._pilots.items()}
        return (
            {agent: self._control.observe(interval) for agent, interval in seen.items()},
            {agent: {"seed": run_seed} for agent in self.agents},
        )

    def step(
        self, actions: dict[str, Action]
    ) -> tuple[
        dict[str, Observation],
        dict[str, float],
        dict[str, bool],
        dict[str, bool],
        dict[str, dict[str, Any]],
    ]:
        """Sets the windows, and advances by an interval. An agent that does not act keeps its window."""
        simulation = self._simulation
        if simulation is None:
            raise RuntimeError("call reset() before step(), and after the end of an episode")
        for agent, action in actions.items():
            self._pilots[agent].act(action)
        seconds = env.go_on(simulation, self._control.interval, self._duration)
        seen = {agent: pilot.look(seconds) for agent, pilot in self._pilots.items()}
        now = simulation.now
        over = now >= self._duration
        infos: dict[str, dict[str, Any]] = {
            agent: {"interval": interval, "now": now} for agent, interval in seen.items()
        }
        if over:
            run = simulation.finish()
            for info in infos.values():
                info["run"] = run
            self._simulation = None
            self.agents = []
        return (
            {agent: self._control.observe(interval) for agent, interval in seen.items()},
            {agent: float(self._control.reward(interval)) for agent, interval in seen.items()},
            dict.fromkeys(seen, False),
            dict.fromkeys(seen, over),
            infos,
        )

    def close(self) -> None:
        """Ends the episode."""
        self._simulation = None
