"""Connections that compete, and environments that step in parallel."""

import warnings

import pytest

import windward as ww

gymnasium = pytest.importorskip("gymnasium")
np = pytest.importorskip("numpy")

from windward.env import CongestionEnv, ThreadVectorEnv  # noqa: E402

TEXT = """
duration = "5s"

[dumbbell]
bottleneck = { rate = "10Mbit", delay = "20ms", queue = "50p" }
access = { rate = "100Mbit", delay = "5ms" }

[[flows]]
group = "agent"
count = 3
protocol = "sack"

[[flows]]
group = "other"
protocol = "newreno"
"""

AGENTS = ["agent-1", "agent-2", "agent-3"]


def competition(agents=AGENTS, text=TEXT, **options):
    pytest.importorskip("pettingzoo")
    from windward.multi_env import CompetitionEnv

    return CompetitionEnv(ww.Scenario(text), agents, **options)


def test_petting_zoo_s_test_passes():
    pytest.importorskip("pettingzoo")
    from pettingzoo.test import parallel_api_test

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        parallel_api_test(competition(), num_cycles=60)


def play(env, seed, policy):
    observations, _ = env.reset(seed=seed)
    rewards = dict.fromkeys(env.possible_agents, 0.0)
    while env.agents:
        actions = {agent: policy(agent, observations[agent]) for agent in env.agents}
        observations, reward, _, _, infos = env.step(actions)
        for agent in rewards:
            rewards[agent] += reward[agent]
    return rewards, infos["agent-1"]["run"]


def test_agents_move_their_own_windows():
    # Rounded to whole packets, 2, 8 and 4.
    windows = {"agent-1": 2.5, "agent-2": 8.5, "agent-3": 4.5}

    def policy(agent, _):
        # 64 to the power of (action + 1) / 2 is the window.
        return np.array([2 * np.log2(windows[agent]) / 6 - 1], dtype=np.float32)

    # All windows together are below what the path holds, 75 packets: nothing is lost.
    env = competition(text=TEXT + "rwnd = 10\n", action="window", max_window=64)
    rewards, run = play(env, 3, policy)
    goodput = dict(zip(run.flows["name"], run.flows["goodput_bps"], strict=True))
    # In proportion to their windows, since all have the same RTT.
    assert goodput["agent-2"] / goodput["agent-1"] == pytest.approx(4, rel=0.05)
    assert goodput["agent-3"] / goodput["agent-1"] == pytest.approx(2, rel=0.05)
    assert rewards["agent-2"] > rewards["agent-1"]
    again = play(env, 3, policy)
    assert again[0] == rewards and again[1].fingerprint == run.fingerprint
    assert play(env, 4, policy)[1].seed != run.seed


def test_one_agent_is_the_environment_of_one():
    alone = CongestionEnv(ww.Scenario(TEXT), "agent-1")
    env = competition(["agent-1"])
    seed = 5
    first, _ = alone.reset(seed=seed)
    observations, infos = env.reset(seed=seed)
    assert (observations["agent-1"] == first).all()
    for step in range(20):
        action = np.array([0.4 if step < 10 else -0.1], dtype=np.float32)
        one, reward, _, _, _ = alone.step(action)
        seen, rewards, _, _, _ = env.step({"agent-1": action})
        assert (seen["agent-1"] == one).all() and rewards["agent-1"] == reward


def test_the_oracle_is_one_number_more_for_each_agent():
    env = competition(oracle=True)
    observations, _ = env.reset(seed=1)
    for agent in AGENTS:
        assert observations[agent].shape == env.observation_space(agent).shape == (7,)
    actions = {agent: np.zeros(1, dtype=np.float32) for agent in AGENTS}
    observations, *_, infos = env.step(actions)
    assert observations["agent-1"][6] == pytest.approx(
        infos["agent-1"]["interval"].throughput_bps / 10e6
    )


def test_mistakes_are_said():
    with pytest.raises(ValueError, match="no connection 'agent-9'"):
        competition(["agent-9"])
    with pytest.raises(ValueError, match="at least one"):
        competition([])
    with pytest.raises(ValueError, match="greater than 0"):
        competition(interval=0)
    with pytest.raises(RuntimeError, match="reset"):
        competition().step({})


def make(seconds):
    scenario = ww.Scenario(TEXT).with_(duration=f"{seconds}s")
    return lambda: CongestionEnv(scenario, "agent-1", interval=0.2)


def numbers(vector, steps=25):
    generator = np.random.default_rng(1)
    observations, _ = vector.reset(seed=7)
    seen = [observations]
    ended = 0
    for _ in range(steps):
        actions = generator.uniform(-0.5, 0.5, vector.action_space.shape).astype(np.float32)
        observations, rewards, terminated, truncated, infos = vector.step(actions)
        ended += truncated.sum()
        seen += [observations, rewards, terminated, truncated]
    vector.close()
    return seen, ended, infos


@pytest.mark.parametrize("mode", gymnasium.vector.AutoresetMode)
def test_threads_give_the_numbers_of_one_after_the_other(mode):
    # Without new episodes, no episode may end.
    disabled = mode == gymnasium.vector.AutoresetMode.DISABLED
    lengths = [6, 6, 6] if disabled else [2, 3, 1]
    makes = [make(length) for length in lengths]
    options = {"autoreset_mode": mode}
    theirs, ended, _ = numbers(gymnasium.vector.SyncVectorEnv(makes, **options))
    ours, also, infos = numbers(ThreadVectorEnv(makes, threads=2, **options))
    assert ended == also and (ended == 0) == disabled
    assert "interval" in infos
    for one, other in zip(theirs, ours, strict=True):
        assert (one == other).all()


def test_what_a_step_raises_comes_out():
    vector = ThreadVectorEnv([make(2), make(2)])
    vector.reset(seed=1)
    with pytest.raises(ValueError, match="not a number"):
        vector.step(np.full((2, 1), np.nan, dtype=np.float32))
    vector.close()
