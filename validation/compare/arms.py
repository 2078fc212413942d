#!/usr/bin/env python3
"""The same controllers in four arms: arms.py [--rows LIST] [--arms LIST] [--runs N] [--seed N] [--windward PROGRAM]

In virtual time, as in experiments/quinn/agree.toml: `own`, Windward's transport, and `quinn`. In real time, by
`windward compare` over the same link: `quic`, `windward send` to `windward receive`, and `kernel`, TCP of the kernel.
Prints for each row, loss rate and arm the mean of goodput over C (1 - p) and its range, as CSV. Arms that cannot run
here are skipped, with the reason.
"""

from __future__ import annotations

import argparse
import csv
import json
import statistics
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

FILE = Path(__file__).resolve().parents[2] / "experiments" / "quinn" / "agree.toml"
RATE = 10e6  # That of the file.
LOSSES = ["0", "0.01", "0.05", "0.2"]
VIRTUAL = {"own": "{}", "quinn": "{} in quinn"}  # Labels in the file.
REAL = {"quic": "quic-{}", "kernel": "kernel:{}"}  # Programs of the table.
# The link of the file, and its measured time.
LINK = ["--rate", "10mbit", "--delay", "40ms", "--queue", "100p", "--set", "flows.outside.packet_size=1480"]
LINK += ["--loss", ",".join(LOSSES), "-t", "30s", "--warmup", "5s"]


class SkippedError(Exception):
    """Why an arm cannot run here."""


def inline(value: object) -> str:
    """A value as TOML on one line."""
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {inline(item)}" for key, item in value.items()) + " }"
    return json.dumps(value)


def virtual(windward: str, label: str, seeds: range) -> Iterator[tuple[str, float]]:
    """Loss rates and goodputs, bits per second of IP packets, of a controller of the file."""
    axes = tomllib.loads(FILE.read_text(encoding="utf-8"))["experiment"]["axes"]
    settings = next(point["set"] for axis in axes for point in axis["points"] if point["label"] == label)
    # Streams of quinn have 1420 bytes of a packet of 1480.
    headers = 1480 / 1420 if "quinn" in label else 1
    for loss in LOSSES:
        words = [f"{key}={inline(value)}" for key, value in settings.items()]
        words.append(f"dumbbell.bottleneck.loss={loss}")
        sets = [word for each in words for word in ("--set", each)]
        for seed in seeds:
            command = [windward, "run", str(FILE), "--json", "--seed", str(seed), *sets]
            run = subprocess.run(command, check=True, capture_output=True, text=True)
            yield loss, json.loads(run.stdout)["flows"][0]["goodput_bps"] * headers


def real(windward: str, program: str, seeds: range) -> Iterator[tuple[str, float]]:
    """The same of a program, without unusable runs."""
    command = [windward, "-q", "compare", *LINK, "--programs", program, "--alone", "--json"]
    command += ["--seed", str(seeds.start), "--runs", str(len(seeds))]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if not done.stdout:
        raise SkippedError(done.stderr.strip())
    for run in json.loads(done.stdout)["runs"]:
        if run["unusable"]:
            print(f"{program} at {run['loss']:g}, seed {run['seed']}: {run['unusable']}", file=sys.stderr)
        else:
            yield f"{run['loss']:g}", run["alone"]["goodput_bps"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rows", default="newreno,cubic,upwind")
    parser.add_argument("--arms", default=",".join([*VIRTUAL, *REAL]))
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--windward", default="windward")
    arguments = parser.parse_args()
    seeds = range(arguments.seed, arguments.seed + arguments.runs)
    table = csv.writer(sys.stdout, lineterminator="\n")
    table.writerow(["protocol", "loss", "arm", "runs", "share", "least", "most"])
    for row in arguments.rows.split(","):
        for arm in arguments.arms.split(","):
            label = (VIRTUAL | REAL)[arm].format(row)
            try:
                measured = list((virtual if arm in VIRTUAL else real)(arguments.windward, label, seeds))
            except SkippedError as why:
                print(f"{label}: skipped, {why}", file=sys.stderr)
                continue
            for loss in dict.fromkeys(loss for loss, _ in measured):
                shares = [bps / (RATE * (1 - float(loss))) for of, bps in measured if of == loss]
                numbers = (f"{number:.3f}" for number in (statistics.mean(shares), min(shares), max(shares)))
                table.writerow([row, loss, arm, len(shares), *numbers])
            sys.stdout.flush()


if __name__ == "__main__":
    main()
