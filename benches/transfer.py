#!/usr/bin/env python3
"""Measures `windward send`: benches/transfer.py [files] [loopback]   (root, Linux)

- files: files of 1 KB over 100 Mbit/s, 80 ms, and what one stream a file would need that waits for its answer.
- loopback: a file of 1 GB without a link, and the largest memory of both sides.

WINDWARD names the program (target/release/windward), FILES the number of files (100000).
"""

import json
import os
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

WINDWARD = os.path.abspath(os.environ.get("WINDWARD", "target/release/windward"))
FILES = int(os.environ.get("FILES", "100000"))


def transfer(home, source, link):
    """Sends a path, over a link (options of `windward shell`) or over loopback, and returns the outcome."""
    inbox, ticket, peak = home / "in", home / "ticket", home / "peak"
    for path in (ticket, peak):
        path.unlink(missing_ok=True)
    # The last line of each side is its largest resident memory, in kB.
    timed = f"/usr/bin/env python3 {shlex.quote(__file__)} --timed"
    receive = f"{timed} {peak} {WINDWARD} -q receive {inbox} --config {home}/far --new-ticket > {ticket}"
    send = (
        f"until [ -s {ticket} ]; do sleep 0.1; done; "
        f"{timed} {home}/peak-send {WINDWARD} -q send --json --config {home}/near {source} --ticket-file {ticket}"
        f" > {home}/outcome"
    )
    if link is None:
        receiver = subprocess.Popen(["sh", "-c", receive])
        subprocess.run(["sh", "-c", send], check=False)
        receiver.wait(timeout=60)
    else:
        command = [WINDWARD, "-q", "shell", *link, "--peer", f"{receive}; sleep 1000", "--", "sh", "-c", send]
        # The shell prints the figures of its link.
        subprocess.run(command, stdout=subprocess.DEVNULL, check=False)
    outcome = json.loads((home / "outcome").read_text())
    outcome["peaks"] = [Path(p).read_text().strip() if Path(p).exists() else "?" for p in (f"{home}/peak-send", peak)]
    return outcome


def timed(peak, command):
    """Runs a command, and writes its largest memory in MB to a file."""
    import resource

    process = subprocess.Popen(command)
    status = process.wait()
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    Path(peak).write_text(f"{usage.ru_maxrss / 1024:.0f} MB, {usage.ru_utime + usage.ru_stime:.1f} s of CPU\n")
    return status


def noise(path, size):
    with open("/dev/urandom", "rb") as source, open(path, "wb") as out:
        left = size
        while left:
            left -= out.write(source.read(min(left, 1 << 20)))


def files(home):
    source = home / "many"
    for index in range(FILES):
        if index % 1000 == 0:
            (source / f"{index // 1000}").mkdir(parents=True)
        (source / f"{index // 1000}/{index}").write_bytes(os.urandom(1000))
    o = transfer(home, source, ["--rate", "100mbit", "--delay", "40ms", "--queue", "700p"])
    assert o["complete"], o
    # 100 streams at once, each of which waits a round trip for its answer.
    alone = FILES / 100 * 0.08
    print(f"{FILES} files of 1 KB: {o['seconds']:.1f} s; a stream a file, 100 at once, waits at least {alone:.0f} s; {'; '.join(o['peaks'])}")


def loopback(home):
    source = home / "big"
    noise(source, 1 << 30)
    o = transfer(home, source, None)
    assert o["complete"], o
    print(f"loopback: {o['rate_bps'] / 1e9:.2f} Gbit/s; {'; '.join(o['peaks'])}")


def main():
    if sys.argv[1:2] == ["--timed"]:
        sys.exit(timed(sys.argv[2], sys.argv[3:]))
    wanted = sys.argv[1:] or ["files", "loopback"]
    for name in wanted:
        with tempfile.TemporaryDirectory() as home:
            {"files": files, "loopback": loopback}[name](Path(home))


if __name__ == "__main__":
    main()
