#!/usr/bin/env python3
"""A link on which one protocol gets the smallest share beside another: newreno beside lr-xtcp.

    pip install .[search]
    python examples/python/worst_case.py                  # some seconds
    python examples/python/worst_case.py cubic bbr        # two others: minutes

Two connections of each protocol share a bottleneck behind lossy last hops. The search looks for the
rate, the delay, the queue and the loss at which the first protocol has the smallest share of the goodput
of all four. The result is the worst case that the trials found within the bounds below, on this
topology and for long transfers. There may be worse cases, and the result does not show how often such
links occur. Of the two printed shares, quote the one over fresh seeds: the other was selected for being
small.
"""

import sys

import windward as ww

SPACE = {
    "dumbbell.bottleneck.rate": ("1Mbit", "50Mbit", "log"),
    "dumbbell.bottleneck.delay": ("2ms", "200ms", "log"),
    "dumbbell.bottleneck.queue": ("5p", "200p", "log"),
    "flows.*.last_hop.loss": (0.0, 0.05),
}


def scenario(first, second):
    """Two connections of each protocol."""
    return ww.Scenario(
        duration=40 * ww.s,
        warmup=10 * ww.s,
        dumbbell={
            "bottleneck": {"rate": 10 * ww.Mbit, "delay": 20 * ww.ms, "queue": 50 * ww.packets},
            "access": {"rate": 100 * ww.Mbit, "delay": 2 * ww.ms, "queue": 200 * ww.packets},
        },
        flows=[
            {"group": "first", "count": 2, "protocol": first, "last_hop": {"loss": 0.0}},
            {"group": "second", "count": 2, "protocol": second, "last_hop": {"loss": 0.0}},
        ],
    )


def share(run):
    """The first group's share of the delivered packets; a half would be fair."""
    first, second = run.groups["goodput_bps"]
    return first / (first + second) if first + second > 0 else 0.5


def main():
    first, second = sys.argv[1:3] if len(sys.argv) > 2 else ("newreno", "lr-xtcp")
    start = scenario(first, second)
    usual = [share(start.run(seed)) for seed in range(1, 11)]
    found = ww.search(start, SPACE, share, trials=200, seeds=3, fresh=20)
    print(f"share of {first} beside {second}")
    print(f"  on 10 Mbit/s, 20 ms, 50 packets, no loss: {sum(usual) / len(usual):.3f}")
    low, high = found.interval
    print(f"  on the worst link of {len(found.trials)} trials: {found.value:.3f} "
          f"({low:.3f} to {high:.3f}, {len(found.fresh_seeds)} fresh seeds; "
          f"{found.searched_value:.3f} in the search)")
    for key, value in found.parameters.items():
        print(f"    {key} = {value}")
    print("  beside it, the next in the search:")
    for trial in found.best(4)[1:]:
        values = ", ".join(str(value) for value in trial.parameters.values())
        print(f"    {trial.value:.3f}  {values}")


if __name__ == "__main__":
    main()
