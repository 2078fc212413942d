#!/usr/bin/env python3
"""Measures the forwarder against direct TCP over the same link, and its memory.

    benches/forward.py transfers        20 connections send 400 kB each, and count on the other side
    benches/forward.py uploads          an echo beside 20 uploads without end, for 30 s
    benches/forward.py idle             memory of 1,000 idle connections, on loopback

The first two need the rights of `windward shell`. The link has 10 Mbit/s, 80 ms, a queue of 100 packets
and 5 % loss in both directions; --loss, --rate and --seed change it. Contestants are the forwarder, and
TCP of the kernel with cubic and bbr; --only NAME takes one. Needs target/release/windward, or --windward.
Each result is one line of JSON. "late" is the share of packets
more than 1 ms late; a line with more than .01, or with "waited_for_cpu", is of a machine too busy for it.
"""

import argparse
import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.abspath(__file__)
ROOT = os.path.dirname(os.path.dirname(HERE))
TARGET, ENTRY, QUIC = 5000, 6000, 4460
CONTESTANTS = ["windward", "cubic", "bbr"]


def serve_one(stream):
    """A U: counts until the end, and answers the count. An E: an echo."""
    with stream:
        stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            kind, count = stream.recv(1), 0
            while data := stream.recv(1 << 16):
                count += len(data)
                if kind == b"E":
                    stream.sendall(data)
            if kind == b"U":
                stream.sendall(count.to_bytes(8, "big"))
        except OSError:
            pass


def target(port):
    with socket.create_server(("", port), backlog=2048) as listener:
        while True:
            stream, _ = listener.accept()
            threading.Thread(target=serve_one, args=(stream,), daemon=True).start()


def connect(to, patience=20):
    end = time.monotonic() + patience
    while True:
        try:
            stream = socket.create_connection(to, timeout=120)
            stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return stream
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.1)


def echo(to, stop, times):
    """Round trips of 200 bytes, one each 50 ms, in milliseconds."""
    block = b"x" * 200
    try:
        with connect(to) as stream:
            stream.sendall(b"E")
            while not stop.is_set():
                start, left = time.monotonic(), len(block)
                stream.sendall(block)
                while left:
                    data = stream.recv(left)
                    if not data:
                        return
                    left -= len(data)
                times.append((time.monotonic() - start) * 1e3)
                time.sleep(0.05)
    except OSError:
        pass


def warm_up(to):
    """Waits until the path is there, by one echo."""
    with connect(to) as stream:
        stream.sendall(b"Ex")
        stream.shutdown(socket.SHUT_WR)
        while stream.recv(100):
            pass


def transfers(to, count, length):
    warm_up(to)
    results, times, stop = [], [], threading.Event()
    start = time.monotonic()

    def one():
        try:
            with connect(to) as stream:
                stream.sendall(b"U" + b"x" * length)
                stream.shutdown(socket.SHUT_WR)
                got = b""
                while len(got) < 8 and (data := stream.recv(8)):
                    got += data
                results.append((int.from_bytes(got, "big") == length, time.monotonic() - start))
        except OSError:
            results.append((False, time.monotonic() - start))

    other = threading.Thread(target=echo, args=(to, stop, times), daemon=True)
    other.start()
    threads = [threading.Thread(target=one) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    stop.set()
    done = sum(ok for ok, _ in results)
    print(json.dumps({"seconds": round(max(end for _, end in results), 2), "done": done, **percentiles(times)}))


def uploads(to, count, seconds):
    warm_up(to)
    times, stop = [], threading.Event()

    def one():
        try:
            with connect(to) as stream:
                stream.sendall(b"U")
                stream.settimeout(seconds)
                while not stop.is_set():
                    stream.send(b"x" * 16384)
        except OSError:
            pass

    for _ in range(count):
        threading.Thread(target=one, daemon=True).start()
    time.sleep(3)
    threading.Thread(target=echo, args=(to, stop, times), daemon=True).start()
    time.sleep(seconds)
    stop.set()
    print(json.dumps(percentiles(times)))


def percentiles(times):
    times = sorted(times)
    at = lambda share: round(times[min(int(len(times) * share), len(times) - 1)]) if times else None
    return {"echoes": len(times), "echo_p50_ms": at(0.5), "echo_p95_ms": at(0.95), "echo_max_ms": at(1)}


def over_link(args, name):
    """One contestant over one link."""
    me, windward = f"{shlex.quote(sys.executable)} {shlex.quote(HERE)}", shlex.quote(args.windward)
    load = f"--count {args.count} --length {args.length} --seconds {args.seconds}"
    with tempfile.TemporaryDirectory() as home:
        if name == "windward":
            key = subprocess.run(
                [args.windward, "forward", "--print-key", "--config", f"{home}/near"],
                check=True, capture_output=True, text=True,
            ).stdout.strip()
            server = subprocess.run(
                [args.windward, "forward", "--print-key", "--config", f"{home}/far"],
                check=True, capture_output=True, text=True,
            ).stdout.strip()
            peer = (
                f"ip link set lo up; {me} target {TARGET} & exec {windward} serve --config {home}/far "
                f"--listen 0.0.0.0:{QUIC} --allow {key}=127.0.0.1:{TARGET} --log {args.log} --grace 1s"
            )
            program = (
                f"ip link set lo up; {windward} forward --config {home}/near --server-key {server} "
                f"-L {ENTRY}:127.0.0.1:{TARGET} outside:{QUIC} --log {args.log} --grace 1s & F=$!; "
                f"{me} load-{args.what} 127.0.0.1:{ENTRY} {load}; kill -INT $F; wait $F"
            )
        else:
            law = f"sysctl -qw net.ipv4.tcp_congestion_control={name}"
            peer = f"{law}; exec {me} target {TARGET}"
            program = f"{law}; {me} load-{args.what} outside:{TARGET} {load}"
        link = ["--rate", args.rate, "--delay", "40ms", "--queue", "100p", "--seed", str(args.seed)]
        if args.loss != "0":
            link += ["--loss", f"{args.loss}%"]
        run = subprocess.run(
            [args.windward, "shell", *link, "--peer", peer, "--", "bash", "-c", program],
            capture_output=True, text=True, timeout=300,
        )
        lines = [line for line in run.stdout.splitlines() if line.startswith("{")]
        result = json.loads(lines[0]) if lines else {"error": run.stderr[:1500]}
        late = re.search(r"([\d.]+) % later than 1 ms", run.stderr)
        if late:
            result["late"] = float(late[1]) / 100
        waited = re.search(r"waited for a CPU ([\d.]+) % of the time", run.stderr)
        if waited:
            result["waited_for_cpu"] = float(waited[1]) / 100
        if args.log != "error":
            print(run.stderr, file=sys.stderr)
        print(json.dumps({"what": args.what, "by": name, "loss_percent": float(args.loss), **result}), flush=True)


def resident(process):
    """Resident memory of a process, MB."""
    with open(f"/proc/{process.pid}/status") as file:
        return int(re.search(r"VmRSS:\s+(\d+)", file.read())[1]) * 1024 / 1e6


def idle(args):
    """Memory of both sides with so many idle connections, on loopback."""
    children = []
    with tempfile.TemporaryDirectory() as home:
        try:
            start = lambda *words, **more: children.append(subprocess.Popen(words, **more)) or children[-1]
            keys = [
                subprocess.run(
                    [args.windward, "forward", "--print-key", "--config", f"{home}/{side}"],
                    check=True, capture_output=True, text=True,
                ).stdout.strip()
                for side in ("near", "far")
            ]
            start(sys.executable, HERE, "target", str(TARGET))
            server = start(
                args.windward, "serve", "-q", "--config", f"{home}/far", "--listen", f"127.0.0.1:{QUIC}",
                "--allow", f"{keys[0]}=127.0.0.1:{TARGET}", "--grace", "1s", "--max-connections", "1024",
            )
            time.sleep(1)
            forwarder = start(
                args.windward, "forward", "-q", "--config", f"{home}/near", "--server-key", keys[1], "-L",
                f"{ENTRY}:127.0.0.1:{TARGET}", f"127.0.0.1:{QUIC}", "--grace", "1s",
            )
            to = ("127.0.0.1", ENTRY)
            warm_up(to)
            before = resident(server), resident(forwarder)
            streams = []
            for _ in range(args.count):
                stream = connect(to)
                stream.sendall(b"Ex")
                assert stream.recv(1) == b"x"
                streams.append(stream)
            time.sleep(2)
            after = resident(server), resident(forwarder)
            print(json.dumps({
                "what": "idle", "connections": args.count,
                "server_mb": round(after[0], 1), "server_before_mb": round(before[0], 1),
                "forwarder_mb": round(after[1], 1), "forwarder_before_mb": round(before[1], 1),
            }))
        finally:
            for child in reversed(children):
                child.send_signal(signal.SIGKILL)
                child.wait()


def address(text):
    host, _, port = text.rpartition(":")
    return host, int(port)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["transfers", "uploads", "idle", "target", "load-transfers", "load-uploads"])
    parser.add_argument("to", nargs="?", help=argparse.SUPPRESS)
    parser.add_argument("--only", choices=CONTESTANTS)
    parser.add_argument("--rate", default="10mbit")
    parser.add_argument("--loss", default="5")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int)
    parser.add_argument("--length", type=int, default=400_000)
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--log", default="error")
    parser.add_argument("--windward", default=f"{ROOT}/target/release/windward")
    args = parser.parse_args()
    args.count = args.count or (1000 if args.what == "idle" else 20)
    if args.what == "target":
        target(int(args.to))
    elif args.what == "load-transfers":
        transfers(address(args.to), args.count, args.length)
    elif args.what == "load-uploads":
        uploads(address(args.to), args.count, args.seconds)
    elif args.what == "idle":
        idle(args)
    else:
        for name in [args.only] if args.only else CONTESTANTS:
            over_link(args, name)


if __name__ == "__main__":
    main()
