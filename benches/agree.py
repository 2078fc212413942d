#!/usr/bin/env python3
"""Compares three arms; needs root and Linux.

- own: Windward's transport in virtual time, with the recovery (RFC 9002), the ACK delay and the byte counting of QUIC.
- virtual: quinn with the same controller, in virtual time. It searches for the MTU, as deployed.
- real: quinn with the same controller, `windward send` to `windward receive`, over the same link in real time.

Each figure is the share of C (1 - p) that arrives, C being what the link carries net of the arm's headers. Runs whose
packets were late, or whose programs waited for a CPU, are unusable (docs/emulate.md) and left out. The status is 1 if the
means of two arms differ by more than 5 % somewhere.

WINDWARD names the program (target/release/windward), SECONDS the length of a measurement (30), RUNS the number of seeds
(12), JOBS that of real runs at once (4), RATES those of the link in Mbit/s (10,40,100), LOSS the loss rates of data packets
(0,0.01,0.05,0.2). With few packets per round trip a run of 30 s varies by 5 to 10 %, so that fewer seeds do not suffice.
"""

import argparse
import itertools
import json
import os
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

WINDWARD = os.path.abspath(os.environ.get("WINDWARD", "target/release/windward"))
SECONDS = int(os.environ.get("SECONDS", "30"))
RUNS = int(os.environ.get("RUNS", "12"))
JOBS = os.environ.get("JOBS", "4")
RATES = [float(rate) * 1e6 for rate in os.environ.get("RATES", "10,40,100").split(",")]
LOSS = [float(p) for p in os.environ.get("LOSS", "0,0.01,0.05,0.2").split(",")]
WARM_UP = 5
# quinn's packets with IPv4 and UDP, and the payload of their streams.
PACKET, PAYLOAD = 1480, 1420
# The own arm: ACKs and growth of QUIC.
LIKE_QUIC = f'packet_size = {PACKET}\ninitial_window = 10.0\ndelayed_acks = "25ms"\nbyte_counting = true'
# The names of rows in quinn, where quinn has a controller of that name too.
IN_QUINN = {"cubic": "windward-cubic", "bbr": "windward-bbr", "newreno": "reno"}


def queue(rate):
    """Packets of 80 ms."""
    return f"{rate / 1e5:.0f}p"


def virtual(protocol, rate, loss, seed, net, folder):
    """Goodput of a flow in virtual time, as a share of C (1 - p), where C is a part `net` of the rate."""
    scenario = folder / "scenario.toml"
    endpoint = ""
    if ":" not in protocol:
        endpoint = f"[endpoint]\n{LIKE_QUIC}\n"
        protocol = f'{{ base = "{protocol}", recovery = "packet-number", name = "own" }}'
    else:
        endpoint = f"[endpoint]\npacket_size = {PACKET}\nquic = {{ mtu_discovery = true }}\n"
        protocol = f'"{protocol}"'
    scenario.write_text(
        f'duration = "{WARM_UP + SECONDS}s"\nwarmup = "{WARM_UP}s"\nseed = {seed}\n{endpoint}'
        f'[dumbbell]\nbottleneck = {{ rate = "{rate:.0f}bit", delay = "40ms", queue = "{queue(rate)}", loss = {loss} }}\n'
        f'access = {{ rate = "1Gbit", delay = "0ms" }}\n[[flows]]\ngroup = "f"\nprotocol = {protocol}\n'
    )
    command = [WINDWARD, "-q", "run", str(scenario), "--json"]
    outcome = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)
    return outcome["flows"][0]["goodput_bps"] / (rate * net * (1 - loss))


def real(row, rate, loss, folder):
    """Shares of C (1 - p) of the usable runs, and the number of others."""
    table = Path(__file__).parent.parent / "crates/net/programs.toml"
    programs = tomllib.loads(table.read_text())["programs"]
    entry = next(entry for entry in programs if entry["name"] == "windward-quic")
    server = entry["server"].replace(" -q send ", f" -q send --protocol {row} ")
    own = folder / "programs.toml"
    own.write_text(
        f"[[programs]]\nname = \"here\"\nserver = {json.dumps(server)}\nclient = {json.dumps(entry['client'])}\n"
    )
    command = [WINDWARD, "-q", "compare", "--table", str(own), "--programs", "here", "--alone", "--json", "--rate"]
    command += [f"{rate:.0f}bit", "--delay", "40ms", "--queue", queue(rate), "--loss", f"{100 * loss}%", "--runs", str(RUNS)]
    command += ["-t", f"{SECONDS}s", "--warmup", f"{WARM_UP}s", "--jobs", JOBS]
    # It exits with 1 if runs are unusable.
    result = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=False).stdout)
    usable = [run["alone"] for run in result["runs"] if run.get("alone") and not run.get("unusable")]
    shares = [run["goodput_bps"] / (rate * (1 - loss)) for run in usable]
    return shares, RUNS - len(shares)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    default = ["upwind", "copa", "newreno", "cubic", "highspeed"]
    help = f"a protocol of `windward list` that QUIC can run [default: {' '.join(default)}]"
    parser.add_argument("rows", nargs="*", metavar="ROW", default=default, help=help)
    rows = parser.parse_args().rows
    agree = True
    print(f"{'row':10} Mbit/s loss    own  virtual  real  largest difference")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for row, rate, loss in itertools.product(rows, RATES, LOSS):
            seeds = range(1, RUNS + 1)
            quinn = f"quinn:{IN_QUINN.get(row, row)}"
            arms = [
                [virtual(row, rate, loss, seed, 1, folder) for seed in seeds],
                [virtual(quinn, rate, loss, seed, PAYLOAD / PACKET, folder) for seed in seeds],
            ]
            shares, unusable = real(row, rate, loss, folder)
            means = [sum(arm) / len(arm) for arm in (*arms, shares) if arm]
            difference = max(means) / min(means) - 1
            agree &= difference <= 0.05 and not unusable
            shown = f"{means[2]:.3f}" if shares else "-"
            note = f"  {unusable} unusable" if unusable else ""
            print(
                f"{row:10} {rate / 1e6:6.0f} {loss:4.0%} {means[0]:6.3f} {means[1]:8.3f} {shown:>5} {difference:7.1%}{note}",
                flush=True,
            )
    sys.exit(0 if agree else 1)


if __name__ == "__main__":
    main()
