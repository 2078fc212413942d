#!/usr/bin/env python3
"""A policy of seven numbers that learns to fill lossy links, as the only flow, on a CPU in minutes.

    pip install . gymnasium cmaes
    python examples/python/learn.py [generations] [--oracle]

The window is multiplied every 100 ms by 2 to the power of tanh(w * observation + b); CMA-ES finds w
and b. It is trained on links drawn from one range of rates, delays, queues and loss rates, and
evaluated on links drawn from a wider one, with other seeds, where newreno, sack, cubic and bbr run too. It
observes only quantities that a sender can measure. Its reward uses the true capacity, in training only. With --oracle it
also observes the share of the true capacity that it uses, which the others do not know: this is an upper
bound, not a comparison.
"""

import concurrent.futures
import math
import statistics
import sys

import numpy as np
from cmaes import CMA

import windward as ww
from windward.env import CongestionEnv

TRAIN = {"rate": (5, 40), "delay": (10, 60), "queue": (0.5, 2.0), "loss": (0.0, 0.03)}
TEST = {"rate": (2, 80), "delay": (5, 100), "queue": (0.3, 3.0), "loss": (0.0, 0.05)}
EPISODES = 8
LINKS = 40
# Scales observations to about one: log2 of the window, deliveries, losses, stretch of the RTT,
# throughput over the largest so far, timeouts, and, with the oracle, share of the capacity.
SCALE = np.array([0.1, 0.5, 5.0, 2.0, 1.0, 1.0, 1.0])
ORACLE = "--oracle" in sys.argv[1:]
SEEN = 7 if ORACLE else 6


def reward(interval):
    """Utilization minus a penalty for queueing: half of the RTT in queues costs all of it."""
    used = interval.throughput_bps / interval.capacity_bps
    queued = 1 - interval.min_rtt / interval.mean_rtt if interval.mean_rtt > 0 else 0.0
    return used - 2 * queued - 0.1 * interval.resets


def link(generator, ranges):
    """A link with a loss rate, alone: rate in Mbit/s, delay in ms, queue in pipes."""
    rate, delay, queue, loss = (generator.uniform(*ranges[key]) for key in ranges)
    pipe = rate * 1e6 * 2 * delay * 1e-3 / 8000
    return ww.Scenario(
        duration="20s",
        warmup="5s",
        dumbbell={
            "bottleneck": {
                "rate": rate * ww.Mbit,
                "delay": delay * ww.ms,
                "queue": max(4, round(queue * pipe)) * ww.packets,
                "loss": loss,
            },
            "access": {"rate": 1 * ww.Gbit, "delay": 0.5 * ww.ms},
        },
        flows=[{"group": "agent", "protocol": "sack"}],
    ), rate * 1e6 * (1 - loss)


def episode(parameters, seed, ranges):
    """The reward of a policy on the link of a seed, and its share of the capacity of the link."""
    scenario, capacity = link(np.random.default_rng(seed), ranges)
    env = CongestionEnv(scenario, "agent-1", reward=reward, oracle=ORACLE)
    observation, _ = env.reset(seed=seed)
    total = 0.0
    while True:
        action = math.tanh(float(parameters[:SEEN] @ (SCALE[:SEEN] * observation) + parameters[SEEN]))
        observation, gained, _, truncated, info = env.step(np.array([action], dtype=np.float32))
        total += gained
        if truncated:
            run = info["run"]
            return total, run.flows["goodput_bps"][0] / capacity, run.flows["mean_rtt_s"][0]


def plain(protocol, seed, ranges):
    """The same link with a protocol: its share and its mean RTT."""
    scenario, capacity = link(np.random.default_rng(seed), ranges)
    run = scenario.with_({"flows.agent.protocol": protocol}).run(seed=seed)
    return run.flows["goodput_bps"][0] / capacity, run.flows["mean_rtt_s"][0]


def train(generations):
    start = np.zeros(SEEN + 1)
    optimizer = CMA(mean=start, sigma=0.3, seed=1)
    with concurrent.futures.ThreadPoolExecutor() as pool:
        for generation in range(generations):
            policies = [optimizer.ask() for _ in range(optimizer.population_size)]
            seeds = range(generation * EPISODES, (generation + 1) * EPISODES)
            jobs = [(policy, seed, TRAIN) for policy in policies for seed in seeds]
            rewards = [result[0] for result in pool.map(lambda job: episode(*job), jobs)]
            means = np.array(rewards).reshape(len(policies), EPISODES).mean(axis=1)
            optimizer.tell([(policy, -mean) for policy, mean in zip(policies, means)])
            print(f"generation {generation + 1}: reward {means.max():.1f}", file=sys.stderr)
    return optimizer.mean


def interval(samples):
    """The mean with its 95 % interval."""
    half = 1.96 * statistics.stdev(samples) / math.sqrt(len(samples))
    return f"{statistics.mean(samples):.3f} +- {half:.3f}"


def main():
    given = [word for word in sys.argv[1:] if word != "--oracle"]
    generations = int(given[0]) if given else 20
    policy = train(generations)
    print("w, b =", np.array2string(policy, precision=3))
    seeds = range(1_000_000, 1_000_000 + LINKS)
    ours = [episode(policy, seed, TEST)[1:] for seed in seeds]
    print(f"{'':<10}{'share of C(1-p)':>20}{'mean RTT, ms':>20}{'better than it on':>20}")
    print(f"{'oracle' if ORACLE else 'learned':<10}{interval([s for s, _ in ours]):>20}"
          f"{interval([1000 * rtt for _, rtt in ours]):>20}")
    for protocol in ("newreno", "sack", "cubic", "bbr"):
        theirs = [plain(protocol, seed, TEST) for seed in seeds]
        better = sum(mine[0] > other[0] for mine, other in zip(ours, theirs))
        print(f"{protocol:<10}{interval([s for s, _ in theirs]):>20}"
              f"{interval([1000 * rtt for _, rtt in theirs]):>20}{f'{better} of {LINKS}':>20}")


if __name__ == "__main__":
    main()
