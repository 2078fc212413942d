#!/usr/bin/env python3
"""Links on which a protocol is at its worst, compared with a standard one in its place.

    pip install .[search]
    python examples/python/worst_links.py                                  # upwind, five questions: minutes
    python examples/python/worst_links.py starved --protocol copa --trials 100

Each link runs twice with the same seed: with the protocol and with newreno, which tells what the link does
from what the protocol does. A run lasts 600 RTTs, but half a minute to three, and has at most 400,000 packets
unless 60 RTTs have more. The result is the worst of that many trials within these bounds. There may be worse
links, and it does not show how often such links occur. It prints each as a scenario for `windward run`.
"""

import argparse

import windward as ww

SPACE = {
    "rate": (1.0, 1000.0, "log"),  # Mbit/s
    "rtt": (1.0, 600.0, "log"),  # ms
    "queue": (0.05, 8.0, "log"),  # bandwidth-delay products
    "aqm": ["droptail", "codel", "red", "pie", "fq-codel"],
    "loss": ["none", "random", "bursts"],
    "loss_rate": (1e-4, 0.2, "log"),
    "burst": (2.0, 20.0, "log"),  # mean length, packets
    "jitter": (-0.1, 0.25),  # of the RTT; none if below 0
}
BESIDE = SPACE | {
    "other": ["newreno", "cubic", "bbr1", "copa"],
    "others": [1, 4, 16],
    "start": ["together", "late", "before"],
}


def link(drawn):
    """The bottleneck: queues follow from the rate and the RTT."""
    pipe = drawn["rate"] * drawn["rtt"] / 12
    queue = max(2, round(drawn["queue"] * pipe))
    made = {"rate": f"{drawn['rate']}Mbit", "delay": f"{drawn['rtt'] / 2}ms", "queue": f"{queue}p"}
    if drawn["aqm"] != "droptail":
        made["aqm"] = {"kind": drawn["aqm"], "ecn": False}
    if drawn["aqm"] == "red":
        made["aqm"] |= {"min_threshold": max(1, queue / 6), "max_threshold": max(3, queue / 2)}
    if drawn["loss"] == "random":
        made["loss"] = drawn["loss_rate"]
    if drawn["loss"] == "bursts":
        begins = drawn["loss_rate"] / (1 - drawn["loss_rate"]) / drawn["burst"]
        made["gilbert_elliott"] = {"p": begins, "r": 1 / drawn["burst"]}
    if drawn["jitter"] > 0:
        made["jitter"] = f"{drawn['jitter'] * drawn['rtt']}ms"
    return made


def scenario(drawn, protocol):
    rtt = drawn["rtt"] / 1e3
    most = 400_000 * 12 / (drawn["rate"] * 1e3)
    length = max(60 * rtt, min(max(600 * rtt, 30), 180, most), 5)
    late = {"together": 0, "late": 20 * rtt, "before": -20 * rtt}[drawn.get("start", "together")]
    flows = [{"group": "own", "protocol": protocol, "start": f"{max(late, 0)}s"}]
    if "other" in drawn:
        start = f"{max(-late, 0)}s"
        flows.append({"group": "others", "protocol": drawn["other"], "count": drawn["others"], "start": start})
    return ww.Scenario(
        duration=f"{length}s",
        warmup=f"{max(length / 4, 30 * rtt)}s",
        dumbbell={"bottleneck": link(drawn), "access": {"rate": "10Gbit", "delay": "0s", "queue": "1000000p"}},
        # The overhead, a packet's time on the wire, is against phase effects.
        endpoint={"packet_size": 1500, "initial_window": 10, "overhead": f"{12 / drawn['rate']}ms"},
        flows=flows,
    )


def over(run, standard, group):
    return run.groups["goodput_bps"][group] / max(standard.groups["goodput_bps"][group], 1e4)


def bottleneck(run, column):
    return run.links[column][run.links["name"].index("bottleneck")]


def drops(run):
    return bottleneck(run, "dropped") / bottleneck(run, "arrived")


def queue(run):
    return max(bottleneck(run, "mean_queue_packets"), 10)


#: What is the less, the worse, of a run and of the one with the standard in its place.
QUESTIONS = {
    "alone": (SPACE, lambda run, standard: bottleneck(run, "utilization")),
    "starved": (BESIDE, lambda run, standard: over(run, standard, 0)),
    "starves": (BESIDE, lambda run, standard: over(run, standard, 1)),
    "drops": (BESIDE, lambda run, standard: drops(standard) - drops(run)),
    "queue": (SPACE, lambda run, standard: queue(standard) / queue(run)),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("questions", nargs="*", default=[], help=f"of {', '.join(QUESTIONS)}; all if none")
    parser.add_argument("--protocol", default="upwind")
    parser.add_argument("--trials", type=int, default=400)
    given = parser.parse_args()
    for name in given.questions or QUESTIONS:
        space, badness = QUESTIONS[name]
        found = ww.search(
            lambda drawn: scenario(drawn, given.protocol), space, badness,
            compare={"flows.own.protocol": "newreno"}, trials=given.trials, seeds=1, fresh=5, progress=True,
        )
        low, high = found.interval
        print(f"# {name}: {found.value:.4g} ({low:.4g} to {high:.4g}) over {len(found.fresh_seeds)} fresh seeds")
        print(found.scenario.toml, flush=True)


if __name__ == "__main__":
    main()
