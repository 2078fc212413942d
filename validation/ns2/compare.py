#!/usr/bin/env python3
"""Windward and ns-2 on the scenarios of this folder, as CSV.

    validation/ns2/compare.py                    everything, 20 seeds per program
    validation/ns2/compare.py --only xcp         one of: single, lr-dumbbell, xcp, eten
    validation/ns2/compare.py --write            also puts the rows into results.csv, and writes the
                                                 tables of docs/validation.md
    validation/ns2/compare.py --quick            a few cases in less than a minute; exit code 1
                                                 if a ratio of goodputs leaves its bounds, or if
                                                 docs/validation.md differs from results.csv

WINDWARD names another binary than target/release/windward, which is built if it is not given.
`--extra bugFix_:false,singledup_:0` changes bindings of Agent/TCP in ns-2, `--set KEY=VALUE` a key
of the scenario in Windward, to look into a difference. Exit code 2: bad arguments, or a program
that fails. Runs of ns-2 that do not end (Agent/TCP/Linux has such) are stopped, left out and named.
"""

import argparse
import concurrent.futures
import csv
import datetime
import json
import os
import pathlib
import shutil
import signal
import statistics
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(HERE.parent))
import page  # noqa: E402

TCPS = ("reno", "newreno", "sack")
# Beside the modules of Linux in Agent/TCP/Linux, which recovers by SACK; ours by NewReno.
LINUX = ("westwood+", "veno")
TOPOLOGIES = ("single", "lr-dumbbell", "xcp", "eten")

# CPU seconds after which a run of ns-2 counts as endless. The longest take about ten.
NS2_LIMIT = 60

# eten2004 section 2.2: rate, delay, queue of one bandwidth-delay product in 576-byte packets.
ETEN = {
    "lfn": ("10Mbit", "250ms", "1085p"),
    "sfn": ("10Mbit", "25ms", "109p"),
    "ltn": ("1.5Mbit", "250ms", "163p"),
}


class Case:
    """One scenario, one protocol, one loss rate, one number of flows."""

    def __init__(self, topology, protocol, loss, flows=None, bounds=None, theirs=None):
        self.topology, self.protocol, self.loss = topology, protocol, loss
        self.flows, self.bounds = flows, bounds
        # The name in scenario.tcl, if it differs.
        self.theirs = theirs or protocol

    def label(self):
        flows = "" if self.flows is None else f", {self.flows} flow{'s' * (self.flows > 1)}"
        name = self.protocol + ("" if self.theirs == self.protocol else f" / {self.theirs}")
        if self.topology in ETEN:
            return f"{self.topology}: {name}, bit-error rate {self.loss:g}"
        return f"{self.topology}: {name}{flows}, loss {self.loss * 100:g} %"

    def file(self):
        return "eten" if self.topology in ETEN else self.topology

    def windward(self, binary, seed, short, changes):
        loss_key = {
            "single": "links.wire.loss",
            "lr-dumbbell": "flows.lossy.last_hop.loss",
            "xcp": "flows.all.last_hop.loss",
        }.get(self.topology, "links.wire.ber")
        sets = [f"flows.*.protocol={self.protocol}", f"{loss_key}={self.loss}"]
        if self.flows is not None:
            sets.append(f"flows.all.count={self.flows}")
        if self.topology in ETEN:
            keys = zip(("rate", "delay", "queue"), ETEN[self.topology])
            sets += [f"links.wire.{key}={value}" for key, value in keys]
        if short:
            sets += [f"duration={short[0]}s", f"warmup={short[1]}s"]
        command = [binary, "run", str(HERE / f"{self.file()}.toml"), "--json"]
        command += ["--seed", str(seed)]
        for change in sets + changes:
            command += ["--set", change]
        result = json.loads(output_of(command).stdout)
        link = "wire" if self.file() in ("single", "eten") else "bottleneck"
        link = next(row for row in result["links"] if row["name"] == link)
        row = {f"goodput:{group['name']}": group["goodput_bps"] for group in result["groups"]}
        row["goodput"] = sum(row.values())
        row["jain"] = result["jain"]
        row["utilization"] = link["utilization"]
        row["queue"] = link["mean_queue_packets"]
        for ours, theirs in (
            ("packets_sent", "sent"),
            ("retransmissions", "again"),
            ("timeouts", "timeouts"),
        ):
            row[theirs] = sum(group[ours] for group in result["groups"])
        return row

    def ns2(self, seed, short, extra):
        """The values of one run, or None if it did not end."""
        duration, warmup = short or {
            "single": (300, 20),
            "lr-dumbbell": (300, 50),
            "xcp": (200, 20),
            "eten": (600, 0),
        }[self.file()]
        command = ["ns", str(HERE / "scenario.tcl"), f"topology={self.topology}"]
        command += [f"protocol={self.theirs}", f"loss={self.loss}", f"seed={seed}"]
        command += [f"duration={duration}", f"warmup={warmup}", f"extra={extra}"]
        if self.flows is not None:
            command.append(f"flows={self.flows}")
        return run_of_ns2(command)


class Failed(Exception):
    """A program failed."""


def output_of(command, may_be_endless=False):
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        raise Failed(f"cannot run {command[0]}: {error.strerror}") from error
    if may_be_endless and done.returncode in (-signal.SIGXCPU, -signal.SIGKILL):
        return None
    if done.returncode != 0:
        raise Failed(f"{' '.join(command)} failed:\n{done.stderr}")
    return done


def run_of_ns2(command):
    """The values that a run of scenario.tcl prints, or None if it did not end."""
    done = output_of(["sh", "-c", f'ulimit -t {NS2_LIMIT}; exec "$@"', "sh", *command], True)
    if done is None:
        return None
    # Agent/TCP/Linux prints other lines before or after.
    for line in done.stdout.splitlines():
        if line.startswith("sent "):
            words = line.split()
            return {key: float(value) for key, value in zip(words[::2], words[1::2])}
    raise Failed(f"{' '.join(command)} printed no figures:\n{done.stdout}{done.stderr}")


def full_cases():
    losses = (0, 0.001, 0.01, 0.03, 0.05)
    cases = [Case("single", tcp, loss) for loss in losses for tcp in TCPS]
    cases += [Case("single", tcp, loss) for loss in (0, 0.001, 0.01, 0.02) for tcp in LINUX]
    cases += [Case("lr-dumbbell", tcp, loss) for loss in (0, 0.01, 0.05) for tcp in TCPS]
    cases += [Case("lr-dumbbell", "xcp-dumb", loss) for loss in (0, 0.01, 0.05)]
    cases += [Case("xcp", "xcp-dumb", loss, flows) for loss in (0, 0.01) for flows in (1, 3, 10)]
    cases += [
        Case(link, "sack", ber)
        for link in ETEN
        for ber in (0, 1e-9, 1e-8, 1e-7, 1e-6, 1e-5)
    ]
    # The paper's own agent.
    cases += [Case("lfn", "sack", ber, theirs="full-sack") for ber in (1e-7, 1e-6, 1e-5)]
    return cases


def quick_cases():
    # Full runs agree within 5 % (docs/validation.md). The ratios of these short ones, 8 runs of 100 s a
    # program, have a 95 % interval of at most +- 6.5 % (single) and 4 % (groups); the bounds leave
    # about two of these beside the 5 %. XCP without losses has no noise to speak of.
    loose, tight = (0.85, 1.15), (0.98, 1.02)
    groups = {"goodput:clean": (0.92, 1.08), "goodput:lossy": loose}
    return [
        Case("single", "reno", 0.01, bounds={"goodput": loose}),
        Case("single", "newreno", 0.01, bounds={"goodput": loose}),
        Case("single", "sack", 0.01, bounds={"goodput": loose}),
        Case("single", "westwood+", 0.001, bounds={"goodput": tight}),
        Case("single", "veno", 0.01, bounds={"goodput": loose}),
        # Not an agreement but a known difference that must not change unnoticed: 0.63 in 100 s, 0.58
        # in 280. The recovery under it is the cause (docs/validation.md).
        Case("single", "westwood+", 0.01, bounds={"goodput": (0.5, 0.75)}),
        Case("lr-dumbbell", "newreno", 0, bounds={"goodput:clean": loose, "goodput:lossy": loose}),
        Case("lr-dumbbell", "reno", 0.01, bounds=groups),
        Case("lr-dumbbell", "xcp-dumb", 0.01, bounds=groups),
        Case("xcp", "xcp-dumb", 0, 3, bounds={"goodput": tight}),
        Case("xcp", "xcp-dumb", 0, 10, bounds={"goodput": tight}),
    ]


def mean(rows, key):
    return statistics.fmean(row[key] for row in rows)


def half_width(values):
    """Half of the 95 % confidence interval of the mean."""
    # Student's t for 3, 4, .. values; 2 is close enough beyond.
    table = [4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23, 2.20, 2.18, 2.16]
    n = len(values)
    t = table[n - 3] if n - 3 < len(table) else 2.1
    return t * statistics.stdev(values) / n**0.5


def ratio(ours, theirs, key):
    """Ratio of the means, and half of its 95 % confidence interval."""
    a, b = [row[key] for row in ours], [row[key] for row in theirs]
    value = statistics.fmean(a) / statistics.fmean(b)
    relative = (half_width(a) / statistics.fmean(a)) ** 2 + (
        half_width(b) / statistics.fmean(b)
    ) ** 2
    return value, value * relative**0.5


# Figures of a whole run: the name here, and in results.csv.
FIGURES = {
    "again": "retransmissions",
    "timeouts": "timeouts",
    "utilization": "utilization",
    "queue": "mean_queue_packets",
    "jain": "jain",
}
CASE = ("topology", "protocol", "ns2_agent", "flows", "loss", "group")
COLUMNS = [
    *CASE, "goodput_mbps", "ns2_goodput_mbps", "ratio", "ratio_half_width",
    *(prefix + name for name in FIGURES.values() for prefix in ("", "ns2_")),
    "seeds", "date", "windward", "ns2",
]


def rows_of(case, ours, theirs, versions):
    """Rows of results.csv: one a group, with the figures of the whole run."""
    for key in sorted(key for key in theirs[0] if key.startswith("goodput:")):
        value, error = ratio(ours, theirs, key)
        row = dict(zip(CASE, (case.topology, case.protocol, case.theirs, str(case.flows or ""),
                              f"{case.loss:g}", key.partition(":")[2])))
        row["goodput_mbps"], row["ns2_goodput_mbps"] = (
            f"{mean(rows, key) / 1e6:.3f}" for rows in (ours, theirs)
        )
        row |= {"ratio": f"{value:.3f}", "ratio_half_width": f"{error:.3f}"}
        for figure, name in FIGURES.items():
            row[name], row["ns2_" + name] = (f"{mean(r, figure):.3f}" for r in (ours, theirs))
        yield row | {"seeds": len(theirs), **versions}


def main():
    parser = argparse.ArgumentParser(description="Windward beside ns-2.")
    parser.add_argument("--quick", action="store_true", help="a check for CI")
    parser.add_argument("--write", action="store_true", help="keep the rows and write the page")
    parser.add_argument("--only", choices=TOPOLOGIES, help="only this part")
    parser.add_argument("--protocol", help="only this one")
    parser.add_argument("--loss", type=float, help="only this loss rate, or bit-error rate")
    parser.add_argument("--seeds", type=int, help="runs a program and case, at least 3")
    parser.add_argument("--extra", default="", help="bindings of Agent/TCP in ns-2")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE",
                        help="a key of the scenario in Windward")
    args = parser.parse_args()
    if args.seeds is not None and args.seeds < 3:
        parser.error(f"--seeds {args.seeds}: a confidence interval needs at least 3")
    if args.write and (args.quick or args.set or args.extra):
        parser.error("--write keeps rows of full runs without changes: omit --quick, --set, --extra")
    if args.quick and page.differs():
        print("compare.py: docs/validation.md differs from the results: run validation/page.py",
              file=sys.stderr)
        return 1
    if shutil.which("ns") is None:
        print("compare.py: skipped, there is no ns on the PATH (on Debian: apt-get install ns2)")
        return 0
    binary = os.environ.get("WINDWARD")
    if binary is None:
        build = ["cargo", "build", "--release", "-q", "-p", "windward"]
        if subprocess.run(build, cwd=ROOT, check=False).returncode != 0:
            return 2
        binary = str(ROOT / os.environ.get("CARGO_TARGET_DIR", "target") / "release" / "windward")

    cases = quick_cases() if args.quick else full_cases()
    cases = [case for case in cases if args.only in (None, case.file())]
    cases = [case for case in cases if args.protocol in (None, case.protocol)]
    cases = [case for case in cases if args.loss in (None, case.loss)]
    if not cases:
        parser.error("no case is left: see full_cases and quick_cases for the list")
    short = (120, 20) if args.quick else None
    seeds = range(1, 1 + (args.seeds or (8 if args.quick else 20)))
    outside = []
    ns2 = output_of(["sh", "-c", "echo 'puts [ns-version]' | ns"]).stdout.strip()
    versions = {
        "date": datetime.date.today().isoformat(),
        "windward": output_of([binary, "--version"]).stdout.split()[-1],
        "ns2": ns2,
    }
    table = csv.DictWriter(sys.stdout, COLUMNS, lineterminator="\n")
    table.writeheader()
    pool = concurrent.futures.ThreadPoolExecutor(os.cpu_count())
    try:
        pending = [
            (
                case,
                [pool.submit(case.windward, binary, seed, short, args.set) for seed in seeds],
                [pool.submit(case.ns2, seed, short, args.extra) for seed in seeds],
            )
            for case in cases
        ]
        for case, *runs in pending:
            ours, theirs = ([run.result() for run in column] for column in runs)
            endless = [str(seed) for seed, row in zip(seeds, theirs) if row is None]
            if endless:
                print(f"compare.py: {case.label()}: ns-2 does not end with seed "
                      f"{', '.join(endless)}, which is left out of its means", file=sys.stderr)
                theirs = [row for row in theirs if row is not None]
                if len(theirs) < 3:
                    raise Failed(f"{case.label()}: fewer than 3 runs of ns-2 are left")
            rows = list(rows_of(case, ours, theirs, versions))
            table.writerows(rows)
            sys.stdout.flush()
            if args.write:
                page.keep(page.NS2, CASE, COLUMNS, rows)
            for key, (low, high) in (case.bounds or {}).items():
                value, _ = ratio(ours, theirs, key)
                if not low <= value <= high:
                    outside.append(f"{case.label()}: {key} is {value:.3f} of ns-2's, "
                                   f"not within {low} to {high}")
    except Failed as failure:
        print(f"compare.py: {failure}", file=sys.stderr)
        return 2
    finally:
        pool.shutdown(cancel_futures=True)
    if args.write:
        page.write()
    for line in outside:
        print(f"compare.py: {line}", file=sys.stderr)
    return 1 if outside else 0


if __name__ == "__main__":
    sys.exit(main())
