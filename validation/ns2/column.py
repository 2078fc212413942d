#!/usr/bin/env python3
"""Cells of the papers' experiments in ns-2, for the column "ns-2" of `windward reproduce`.

    validation/ns2/column.py              all papers
    validation/ns2/column.py lr2008       one of them

Writes experiments/papers/PAPER/ns2.toml. The scenarios are those of the plain readings in quick runs, and
`plain` below has the readings that ns-2 was given. If one of them is no longer the plain reading, a test
fails: change `plain` and the arguments of ns-2, and run this again.
"""

import concurrent.futures
import datetime
import os
import statistics
import sys

import compare

SEEDS = 16
# Student's t, 97.5 %, 15 degrees of freedom.
T = 2.1314
PAPERS = compare.ROOT / "experiments" / "papers"

# Karn's rule: without the 10 bytes that ns-2 counts for time stamps.
KARN = "timestamps_:false,packetSize_:960"
FAIRNESS = "throughput:lossy/throughput:clean"


def lr2008():
    plain = {"rwnd": "65 packets", "rto": "200 ms", "rtt": "Karn", "xcp-rtt": "timestamps", "queue": "DropTail",
             "buffer": "50 packets", "dupacks": "3"}
    words = {"topology": "lr-shared", "extra": f"{KARN},window_:65", "duration": 100, "warmup": 20}
    losses = ("0.1%", "0.5%", "1%", "2%", "5%")
    # At 10 %, XCP of ns-2 2.35 ends with a floating-point exception with some seeds.
    for figure, protocol, extra, losses in (("fig3", "xcp-dumb", "window_:65", losses),
                                            ("fig8", "reno", words["extra"], (*losses, "10%"))):
        for loss in losses:
            yield plain, figure, words | {"protocol": protocol, "extra": extra, "loss": share(loss)}, {
                f"fairness[{protocol}, {loss}]": FAIRNESS}
    for delay in ("5 ms", "20 ms", "40 ms", "60 ms", "80 ms", "100 ms", "150 ms"):
        yield plain, "fig9", words | {"protocol": "reno", "delay": delay.replace(" ", ""), "duration": 200,
                                      "warmup": 50}, {f"utilization[reno, {delay}]": "utilization"}


def estcp2010():
    plain = {"recovery": "NewReno", "tcp-recovery": "as the others", "buffer": "mean RTT, 750 packets",
             "acks": "each packet"}
    for flows in ("10", "50", "100"):
        yield plain, "fig3a", {"topology": "estcp", "protocol": "newreno", "flows": flows, "duration": 100,
                               "warmup": 60}, {
            f"utilization[tcp, {flows}]": "utilization", f"jain[tcp, {flows}]": "jain"}
    for per in ("1e-7", "1e-6", "1e-5", "1e-4", "1e-3", "1e-2"):
        yield plain, "fig3b", {"topology": "estcp-one", "protocol": "newreno", "loss": per, "duration": 140,
                               "warmup": 100}, {f"throughput[tcp, {per}]": "goodput"}


def eten2004():
    plain = {"acks": "each segment", "rtt": "Karn", "scoreboard": "cleared", "queue": "round trip",
             "ber": "as printed"}
    for figure, link, with_timeouts in (("fig1", "lfn", True), ("fig2", "sfn", False)):
        for ber in ("1e-8", "1e-7", "1e-6", "1e-5"):
            values = {f"goodput[sack, {ber}]": "goodput"}
            if with_timeouts and float(ber) >= 1e-7:
                values[f"timeouts[sack, {ber}]"] = "timeouts"
            yield plain, figure, {"topology": link, "protocol": "sack", "loss": ber, "duration": 1800, "warmup": 0,
                                  "extra": "timestamps_:false,packetSize_:536"}, values


def tcpwbr2003():
    plain = {"rtt": "Karn", "rto": "1 s", "clock": "ticks of 10 ms", "queue": "50 packets", "wired": "50 packets",
             "rwnd": "unlimited", "pipe": "35 ms"}
    for loss in ("0%", "0.1%", "0.5%", "1%", "2%", "5%", "10%", "20%", "30%"):
        yield plain, "fig2", {"topology": "wireless", "protocol": "newreno", "loss": share(loss), "duration": 120,
                              "warmup": 20, "extra": f"{KARN},minrto_:1.0"}, {f"goodput[newreno, {loss}]": "goodput"}


def share(percent):
    return f"{float(percent.rstrip('%')) / 100:g}"


def run(words, seed):
    """The values of one run, or None if it did not end."""
    command = ["ns", str(compare.HERE / "scenario.tcl"), f"seed={seed}"]
    command += [f"{key}={value}" for key, value in words.items()]
    return compare.run_of_ns2(command)


def estimate(runs, key):
    """Mean and 95 % interval of a value, or of the quotient of two in each run; nothing is below zero."""
    over, _, under = key.partition("/")
    values = [row[over] / (row[under] if under else 1) for row in runs]
    mean = statistics.fmean(values)
    half = T * statistics.stdev(values) / len(values) ** 0.5
    return mean, max(mean - half, 0), mean + half


def measure(paper, pool):
    """The file of a paper."""
    cases = list(paper())
    pending = [[pool.submit(run, words, seed) for seed in range(1, SEEDS + 1)] for _, _, words, _ in cases]
    version = compare.output_of(["sh", "-c", "echo 'puts [ns-version]' | ns"]).stdout.strip()
    text = (
        "# Cells of the experiments beside this file in ns-2, written by validation/ns2/column.py.\n"
        "# docs/experiments.md says what the keys mean.\n"
        f'version = "{version}"\ndate = "{datetime.date.today().isoformat()}"\n'
        'script = "validation/ns2/column.py"\n\n[plain]\n'
    )
    text += "".join(f'{name} = "{label}"\n' for name, label in cases[0][0].items())
    for (_, figure, words, values), runs in zip(cases, pending):
        runs = [future.result() for future in runs]
        if None in runs:
            raise compare.Failed(f"{paper.__name__}-{figure}, {words}: ns-2 does not end with some seed")
        for value, key in values.items():
            mean, low, high = estimate(runs, key)
            text += (
                f'\n[[cells]]\nexperiment = "{paper.__name__}-{figure}"\nvalue = "{value}"\n'
                f"mean = {mean:.6g}\nlow = {low:.6g}\nhigh = {high:.6g}\nseeds = {SEEDS}\n"
            )
    return text


def main():
    papers = {paper.__name__: paper for paper in (lr2008, estcp2010, eten2004, tcpwbr2003)}
    unknown = [name for name in sys.argv[1:] if name not in papers]
    if unknown:
        print(f"column.py: no such paper: {', '.join(unknown)}; there are {', '.join(papers)}", file=sys.stderr)
        return 2
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for name in sys.argv[1:] or papers:
            try:
                text = measure(papers[name], pool)
            except compare.Failed as failure:
                print(f"column.py: {failure}", file=sys.stderr)
                pool.shutdown(cancel_futures=True)
                return 2
            (PAPERS / name / "ns2.toml").write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
