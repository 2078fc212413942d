"""The environment for learning agents."""

import concurrent.futures
import dataclasses
import pathlib

import pytest

import windward as ww

gymnasium = pytest.importorskip("gymnasium")
np = pytest.importorskip("numpy")

from gymnasium.utils.env_checker import check_env  # noqa: E402

from windward.env import OBSERVATIONS, CongestionEnv, Control, Interval, default_reward  # noqa: E402

TEXT = """
duration = "10s"

[dumbbell]
bottleneck = { rate = "10Mbit", delay = "20ms", queue = "50p" }
access = { rate = "100Mbit", delay = "5ms" }

[[flows]]
group = "agent"
protocol = "sack"

[[flows]]
group = "other"
protocol = "newreno"
start = "3s"
"""

LONELY = TEXT.replace('start = "3s"', 'start = "9s"')


def env(text=TEXT, **changes):
    return CongestionEnv(ww.Scenario(text), "agent-1", **changes)


def test_gymnasium_s_checker_passes():
    check_env(env(), skip_render_check=True)
    check_env(env(oracle=True), skip_render_check=True)
    check_env(env(action="window", max_window=200), skip_render_check=True)
    check_env(env(pacing=True, observations=["rtt", lambda _: 0.5]), skip_render_check=True)


def episode(environment, seed, policy):
    observation, _ = environment.reset(seed=seed)
    total, steps = 0.0, 0
    while True:
        observation, reward, terminated, truncated, info = environment.step(policy(observation))
        total += reward
        steps += 1
        assert not terminated and observation in environment.observation_space
        if truncated:
            return total, steps, info["run"]


def hold(observation):
    return np.zeros(1, dtype=np.float32)


def test_a_window_that_is_held_has_the_throughput_of_arithmetic():
    # 20 packets of 1000 bytes an RTT of 2 * (5 + 20 + 5) ms, and 0.8 ms on the bottleneck and
    # 2 * 0.08 ms on the access links, make 2.63 Mbit/s: no queue, no loss.
    environment = env(LONELY, action="window", max_window=400)
    scenario = ww.Scenario(LONELY)
    size = scenario.bottleneck("agent-1")["packet_size"]
    rtt = 0.060 + size * 8 / 10e6 + 2 * size * 8 / 100e6
    environment.reset(seed=1)
    # 400 to the power of a half.
    twenty = np.zeros(1, dtype=np.float32)
    throughput = []
    for step in range(60):
        *_, info = environment.step(twenty)
        interval = info["interval"]
        throughput.append(interval.throughput_bps if step >= 20 else 0)
    assert isinstance(interval, Interval) and interval.cwnd == pytest.approx(20.0)
    # One window more or less in 4 s, 65 round trips.
    assert sum(throughput) / 40 == pytest.approx(20 * size * 8 / rtt, rel=0.02)
    # Acknowledgments take their time too: 40 bytes on each of three links.
    assert interval.min_rtt == pytest.approx(rtt, rel=0.01)
    assert interval.lost == 0 and interval.resets == 0


def test_a_window_beyond_the_pipe_queues_and_then_loses():
    # The pipe holds 75 packets, the queue 50: 100 wait, 200 are lost.
    wide = env(LONELY, action="window", max_window=100.0**2)
    wide.reset(seed=1)
    for _ in range(80):
        *_, info = wide.step(hold(None))
    queued = info["interval"]
    assert queued.mean_rtt > 1.2 * queued.min_rtt and queued.lost == 0
    assert queued.throughput_bps == pytest.approx(10e6, rel=0.02)
    wider = env(LONELY, action="window", max_window=200.0**2)
    _, _, run = episode(wider, 1, hold)
    assert run.links.to_pylist()[0]["dropped"] > 0
    assert default_reward(queued) < 1


def test_an_agent_observes_nothing_of_the_true_capacity():
    # The observation does not depend on the capacity: a smaller one in the reward's interval
    # changes the reward and the oracle, and no other number.
    interval = Interval(0.1, 20.0, 18, 1, 0, 1.5e6, 0.08, 0.06, 10e6, 3e6)
    other = dataclasses.replace(interval, capacity_bps=5e6)

    def observe(interval, oracle):
        return Control(0.1, "change", 400.0, default_reward, oracle).observe(interval)

    assert (observe(interval, False) == observe(other, False)).all()
    assert default_reward(interval) != default_reward(other)
    assert observe(interval, True)[:6].tolist() == observe(interval, False).tolist()
    # 1.5 of 3 Mbit/s, the largest so far; of 10 and of 5, the capacities.
    assert observe(interval, False)[4] == pytest.approx(0.5)
    assert observe(interval, True)[6] == pytest.approx(0.15)
    assert observe(other, True)[6] == pytest.approx(0.3)


def test_throughput_is_seen_as_a_share_of_the_largest_so_far():
    environment = env(LONELY, action="window", max_window=400)
    oracle = env(LONELY, action="window", max_window=400, oracle=True)
    assert environment.observation_space.shape == (6,)
    assert oracle.observation_space.shape == (7,)
    environment.reset(seed=1)
    oracle.reset(seed=1)
    largest = 0.0
    for _ in range(40):
        seen, *_, info = environment.step(hold(None))
        told, *_ = oracle.step(hold(None))
        interval = info["interval"]
        largest = max(largest, interval.throughput_bps)
        assert interval.max_throughput_bps == largest
        assert seen[4] == pytest.approx(interval.throughput_bps / largest if largest else 0)
        assert told[:6].tolist() == seen.tolist()
        assert told[6] == pytest.approx(interval.throughput_bps / 10e6)


def test_a_pacing_rate_is_a_part_of_the_action_if_asked_for():
    # 2500^((0 + 1) / 2) = 50 packets, and half of 50 packets of 8000 bits in an RTT of 60 ms and the
    # transmission of a packet are 3.3 of 10 Mbit/s: the rate limits, and the queue stays empty.
    environment = env(LONELY, action="window", max_window=2500, pacing=True)
    assert environment.action_space.shape == (2,)
    environment.reset(seed=1)
    half = np.array([0, -1], dtype=np.float32)
    for _ in range(50):
        *_, info = environment.step(half)
    interval = info["interval"]
    assert interval.cwnd == pytest.approx(50)
    assert interval.pacing_bps == pytest.approx(0.5 * 50 * 8000 / interval.mean_rtt, rel=0.01)
    assert interval.throughput_bps == pytest.approx(interval.pacing_bps, rel=0.03)
    assert interval.mean_rtt < 0.0615
    with pytest.raises(ValueError, match="1 numbers, and not 2"):
        environment.step(hold(None))
    # The same window without a rate has all of its 50 packets in flight.
    environment = env(LONELY, action="window", max_window=2500)
    environment.reset(seed=1)
    seen = []
    for _ in range(50):
        *_, info = environment.step(hold(None))
        seen.append(info["interval"])
    assert info["interval"].pacing_bps == 0
    # Unpaced, it comes in bursts, so that the mean of three seconds counts.
    mean = sum(interval.throughput_bps for interval in seen[-30:]) / 30
    assert mean == pytest.approx(2 * interval.throughput_bps, rel=0.03)


def test_observations_are_chosen_by_name_or_are_functions():
    chosen = env(observations=["throughput", "window", lambda interval: interval.seconds])
    usual = env()
    assert list(OBSERVATIONS) == ["window", "delivered", "lost", "rtt", "throughput", "timeouts"]
    chosen.reset(seed=1)
    usual.reset(seed=1)
    for _ in range(20):
        three, *_ = chosen.step(hold(None))
        six, *_ = usual.step(hold(None))
        assert three.tolist() == [six[4], six[0], pytest.approx(0.1)]
    made = gymnasium.make(
        "windward.env:windward/Congestion-v0", observations=["rtt"], pacing=True, oracle=True
    )
    assert made.observation_space.shape == (2,) and made.action_space.shape == (2,)


def test_the_same_seed_is_the_same_episode():
    def policy(observation):
        return np.array([0.5 - observation[3]], dtype=np.float32)

    first = episode(env(), 7, policy)
    again = episode(env(), 7, policy)
    other = episode(env(), 8, policy)
    assert first[:2] == again[:2] and first[2].fingerprint == again[2].fingerprint
    assert other[2].seed != first[2].seed
    assert first[1] == 100


def test_scenarios_may_be_drawn_anew_for_each_episode():
    rates = []

    def draw(generator):
        rate = int(generator.integers(5, 50))
        rates.append(rate)
        return ww.Scenario(TEXT).with_({"dumbbell.bottleneck.rate": rate * ww.Mbit}, duration="1s")

    environment = CongestionEnv(draw, "agent-1")
    episode(environment, 1, hold)
    episode(environment, None, hold)
    episode(environment, 1, hold)
    assert rates[0] == rates[2] and len(rates) == 3


def test_environments_in_threads_are_those_alone():
    def run(seed):
        return episode(env(), seed, hold)[2].fingerprint

    alone = [run(seed) for seed in range(4)]
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        assert list(pool.map(run, range(4))) == alone


def test_mistakes_are_said():
    with pytest.raises(ValueError, match="agent-1"):
        CongestionEnv(ww.Scenario(TEXT), "agent-9")
    with pytest.raises(ValueError, match="greater than 0"):
        env(interval=0)
    with pytest.raises(ValueError, match="change"):
        env(action="rate")
    with pytest.raises(RuntimeError, match="reset"):
        env().step(hold(None))
    environment = env()
    environment.reset(seed=1)
    with pytest.raises(ValueError, match="not a number"):
        environment.step(np.array([np.nan], dtype=np.float32))
    simulation = ww.Simulation(ww.Scenario(TEXT).with_parts(window={"agent": ww.Steered}))
    with pytest.raises(KeyError, match="steered"):
        simulation.steer("other-1", 5)
    with pytest.raises(ValueError, match="cwnd"):
        simulation.steer("agent-1", 0.5)
    with pytest.raises(ValueError, match=r"set flows\.agent\.pacing = true"):
        simulation.steer("agent-1", 5, pacing_bps=1e6)
    for wrong, message in [(["speed"], "no 'speed'; there are window"), ([], "at least"), ("rtt", "list")]:
        with pytest.raises(ValueError, match=message):
            env(observations=wrong)
    paces = ww.Scenario(TEXT).with_(**{"flows.agent.pacing": True})
    simulation = ww.Simulation(paces.with_parts(window={"agent": ww.Steered}))
    simulation.steer("agent-1", 5, pacing_bps=1e6)
    for wrong in (0, -1, float("nan"), float("inf")):
        with pytest.raises(ValueError, match="pacing_bps"):
            simulation.steer("agent-1", 5, pacing_bps=wrong)
    environment = env(observations=[lambda _: float("nan")])
    with pytest.raises(ValueError, match="an observation is not a number"):
        environment.reset(seed=1)


def test_what_is_not_steered_keeps_its_window():
    run = ww.Scenario(pathlib.Path(__file__).parents[2] / "experiments/examples/first.toml")
    run = run.with_(duration="2s", warmup="0s").with_parts(window={"clean": ww.Steered}).run()
    assert run.flows["protocol"][:5] == ["steered"] * 5
