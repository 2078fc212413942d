#!/usr/bin/env python3
# /// script
# requires-python = ">=3.10"
# dependencies = ["optuna>=4"]
# ///
"""Looks for links on which `upwind` is at its worst, and writes the worst ten, or as many as are confirmed, as scenario files.

    cargo build --release
    pip install optuna
    docs/upwind/worst.py --runs 100          # a minute or two, to see that it works
    docs/upwind/worst.py                     # searches, and writes the table of ../upwind-worst.md
    docs/upwind/worst.py --again             # measures the links of that table anew, without a search

Five questions are asked of each link, and each has a search of its own, by Optuna's tree-structured
Parzen estimator. Every scenario is run twice, with `upwind` and with `newreno` in its place, which tells what the
link does from what the protocol does. What was found is made plain: jitter, losses, queue management,
rivals and odd figures that do not matter to it are taken away. The most unusual remaining trait
determines its kind, and each question has one of a kind.

`windward.search` looks for the values of keys; here queues follow from rate and RTT, two runs make one
number, and the command line does, so that the package need not be built.

The result depends on --runs, --packets, --seed and the program, not on the number of workers. Each run is
kept in --work; the same command after Ctrl-C, or with a larger budget, does not repeat those that are there.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import re
import shutil
import statistics
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TextIO

import optuna
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
)

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/upwind-worst.md"
MARK = "<!-- made by upwind/worst.py -->\n"

SUBJECT, STANDARD = "upwind", "newreno"
RIVALS = ["newreno", "cubic", "bbr1", "bbr", "copa", "upwind"]
# They specify no response to marks.
DEAF = {"bbr", "bbr1", "copa"}
QUEUES = [
    "droptail",
    *(f"{kind}{marks}" for kind in ("codel", "red", "pie", "fq-codel") for marks in ("", "+ecn")),
]
PACKET = 1500
#: Seeds of the search, of the choice among what it found, and of the figures that are told.
SEARCHED, CHOSEN, CONFIRMED = 9801, range(9802, 9807), range(9901, 9906)
#: Student's t for 95 % of five.
T = 2.776


@dataclass(frozen=True)
class Cell:
    """A link and who is on it."""

    rate: int  # kbit/s
    rtt: int  # of the flow that is looked at, us
    queue: int  # packets
    aqm: str = "droptail"
    loss: str = "none"  # none, random, bursts
    loss_rate: float = 0.0
    burst: float = 0.0  # mean length, packets
    loss_at: str = "link"  # link, own
    jitter: int = 0  # us
    rival: str = "none"
    rivals: int = 0
    rivals_rtt: int = 0  # us
    start: str = "together"  # together, late, before

    @property
    def bdp(self) -> float:
        """Bandwidth-delay product of the path, in packets."""
        return self.rate * 1e3 * self.rtt * 1e-6 / (8 * PACKET)

    @property
    def longest(self) -> int:
        return max(self.rtt, self.rivals_rtt)

    def seconds(self) -> tuple[float, float]:
        """How long a run is, and its warm-up: 600 RTTs and half a minute to three, but no more packets than
        400,000 unless 60 RTTs have more."""
        longest = self.longest * 1e-6
        usual = min(max(600 * longest, 30.0), 180.0)
        length = max(60 * longest, min(usual, 400_000 * 8 * PACKET / (self.rate * 1e3)), 5.0)
        return length, max(length / 4, 30 * longest)

    def toml(self, seed: int) -> str:
        length, warmup = self.seconds()
        marks = self.aqm.endswith("+ecn")
        kind = self.aqm.removesuffix("+ecn")
        aqm = ""
        if kind != "droptail":
            thresholds = ""
            if kind == "red":
                least = max(1.0, self.queue / 6)
                thresholds = f", min_threshold = {least:.4g}, max_threshold = {max(3 * least, 3.0):.4g}"
            aqm = f', aqm = {{ kind = "{kind}", ecn = {str(marks).lower()}{thresholds} }}'
        shortest = min(self.rtt, self.rivals_rtt or self.rtt)
        losses = self._losses()
        shared = f", {losses}" if losses and self.loss_at == "link" else ""
        jitter = f', jitter = "{self.jitter}us"' if self.jitter else ""
        text = (
            f'duration = "{length:.3f}s"\nwarmup = "{warmup:.3f}s"\nseed = {seed}\n\n'
            f'[dumbbell]\nbottleneck = {{ rate = "{self.rate}kbit", delay = "{_us(shortest / 2)}", '
            f'queue = "{self.queue}p"{aqm}{shared}{jitter} }}\n'
            'access = { rate = "10Gbit", delay = "0s", queue = "1000000p" }\n\n'
            f'[endpoint]\npacket_size = {PACKET}\ninitial_window = 10\nclock_granularity = "1ms"\n'
            # A packet's time on the wire: against phase effects.
            f'overhead = "{_us(8 * PACKET / self.rate * 1e3)}"\n'
        )
        own = losses if self.loss_at == "own" else ""
        text += self._flows("own", SUBJECT, 1, self.rtt, self.start == "late", own, marks)
        if self.rivals:
            late = self.start == "before"
            text += self._flows("others", self.rival, self.rivals, self.rivals_rtt, late, "", marks)
        return text

    def _flows(
        self, group: str, protocol: str, count: int, rtt: int, late: bool, losses: str, marks: bool
    ) -> str:
        extra = (rtt - min(self.rtt, self.rivals_rtt or self.rtt)) / 2
        hop = ", ".join(filter(None, [f'delay = "{_us(extra)}"' if extra else "", losses]))
        after = 20 * self.longest if late else 0
        text = f'\n[[flows]]\ngroup = "{group}"\nprotocol = "{protocol}"\n'
        text += f"count = {count}\n" if count > 1 else ""
        text += f'start = ["{_us(after)}", "{_us(after + self.longest)}"]\n'
        text += f"last_hop = {{ {hop} }}\n" if hop else ""
        text += "ecn = true\n" if marks and protocol not in DEAF else ""
        return text

    def _losses(self) -> str:
        if self.loss == "none":
            return ""
        if self.loss == "random":
            return f"loss = {self.loss_rate:.3g}"
        begin = self.loss_rate / (self.burst * (1 - self.loss_rate))
        return f"gilbert_elliott = {{ p = {begin:.3g}, r = {1 / self.burst:.3g} }}"

    def words(self) -> str:
        parts = [
            f"{_rate(self.rate)}, RTT {_time(self.rtt)}",
            f"queue {self.queue} packets ({self.queue / self.bdp:.2g} BDP)",
        ]
        if self.aqm != "droptail":
            parts.append(self.aqm.replace("+ecn", " that marks"))
        if self.loss != "none":
            bursts = f" in bursts of {self.burst:.2g}" if self.loss == "bursts" else ""
            whose = " of its own packets" if self.loss_at == "own" else ""
            parts.append(f"{100 * self.loss_rate:.2g} % lost{bursts}{whose}")
        if self.jitter:
            parts.append(f"jitter {_time(self.jitter)}")
        if self.rivals:
            many = f"{self.rivals} {self.rival}" if self.rivals > 1 else f"a {self.rival}"
            far = f" with an RTT of {_time(self.rivals_rtt)}" if self.rivals_rtt != self.rtt else ""
            when = {"together": "", "late": ", 20 RTTs late", "before": ", 20 RTTs before"}
            parts.append(f"beside {many}{far}{when[self.start]}")
        return "; ".join(parts)

    def plainer(self) -> Iterator[Cell]:
        """The same with something taken away."""
        if self.jitter:
            yield replace(self, jitter=0)
        if self.loss != "none":
            yield replace(self, loss="none", loss_rate=0.0, burst=0.0, loss_at="link")
        if self.loss == "bursts":
            yield replace(self, loss="random", burst=0.0)
        if self.aqm != "droptail":
            yield replace(self, aqm="droptail")
        if self.aqm.endswith("+ecn"):
            yield replace(self, aqm=self.aqm.removesuffix("+ecn"))
        for rivals in (1, 4):
            if self.rivals > rivals:
                yield replace(self, rivals=rivals)
        if self.rivals and self.rivals_rtt != self.rtt:
            yield replace(self, rivals_rtt=self.rtt)
        if self.start != "together":
            yield replace(self, start="together")
        bdps = self.queue / self.bdp
        for usual in (1.0, 0.5, 2.0, 4.0):
            if bdps != usual:
                yield replace(self, queue=max(2, round(usual * self.bdp)))
        # Towards the middle of the range, in whole figures.
        for rate in (10_000, 100_000):
            if self.rate != rate:
                queue = max(2, round(bdps * self.bdp * rate / self.rate))
                yield replace(self, rate=rate, queue=queue)
        for rtt in (40_000, 100_000):
            if self.rtt != rtt:
                scale = rtt / self.rtt
                yield replace(
                    self,
                    rtt=rtt,
                    queue=max(2, round(self.queue * scale)),
                    jitter=_three(self.jitter * scale),
                    rivals_rtt=_three(self.rivals_rtt * scale),
                )
        for digits in (1, 2):
            rate, rtt = _round(self.rate, digits), _round(self.rtt, digits)
            if rate != self.rate:
                yield replace(self, rate=rate, queue=max(2, round(self.queue * rate / self.rate)))
            if rtt != self.rtt:
                scale = rtt / self.rtt
                queue, far = max(2, round(self.queue * scale)), _three(self.rivals_rtt * scale)
                yield replace(self, rtt=rtt, queue=queue, rivals_rtt=far)
        if self.jitter and _round(self.jitter, 1) != self.jitter:
            yield replace(self, jitter=_round(self.jitter, 1))

    def kind(self) -> str:
        """Returns its most unusual trait; without any, the flows beside it."""
        kind = self.aqm.removesuffix("+ecn")
        has = {
            "jitter": self.jitter > 0,
            # Queue management has hardly anything to do there.
            "few-packets": self.bdp < 10 or self.queue <= 10,
            "flow-queues": kind == "fq-codel",
            "marks": kind != self.aqm,
            "early-drops": kind in ("codel", "red", "pie"),
            "losses": self.loss != "none",
            "shorter-rtts": 0 < self.rivals_rtt < self.rtt,
            "longer-rtts": self.rivals_rtt > self.rtt,
            "first": self.start == "before",
            "late": self.start == "late",
            "deep-queue": self.queue >= 3 * self.bdp,
        }
        return next((trait for trait, there in has.items() if there), self.rival)


def _round(number: float, digits: int) -> int:
    return int(float(f"{number:.{digits}g}"))


def _three(number: float) -> int:
    return _round(number, 3)


def _us(number: float) -> str:
    return f"{number:.6g}us" if number < 1e5 else f"{number / 1e6:.6g}s"


def _time(us: int) -> str:
    return f"{us / 1e3:.3g} ms" if us < 1_000_000 else f"{us / 1e6:.3g} s"


def _rate(kbit: int) -> str:
    return f"{kbit / 1e3:.3g} Mbit/s" if kbit < 1_000_000 else f"{kbit / 1e6:.3g} Gbit/s"


ALONE: dict[str, BaseDistribution] = {
    "rate": FloatDistribution(1e3, 1e6, log=True),
    "rtt": FloatDistribution(1e3, 600e3, log=True),
    "queue": FloatDistribution(0.05, 8.0, log=True),
    "aqm": CategoricalDistribution(QUEUES),
    "loss": CategoricalDistribution(["none", "random", "bursts"]),
    "loss_rate": FloatDistribution(1e-4, 0.2, log=True),
    "burst": FloatDistribution(2.0, 20.0, log=True),
    "jitter": FloatDistribution(-0.1, 0.25),
}
BESIDE: dict[str, BaseDistribution] = {
    **ALONE,
    "loss_at": CategoricalDistribution(["link", "own"]),
    "rival": CategoricalDistribution(RIVALS),
    "rivals": CategoricalDistribution([1, 4, 16]),
    "rivals_rtt": CategoricalDistribution(["equal", "longer", "shorter"]),
    "start": CategoricalDistribution(["together", "late", "before"]),
}


def cell_of(drawn: dict[str, Any]) -> Cell:
    rate, rtt = _three(drawn["rate"]), _three(drawn["rtt"])
    cell = Cell(rate, rtt, 2, drawn["aqm"])
    cell = replace(cell, queue=max(2, round(drawn["queue"] * cell.bdp)))
    if drawn["jitter"] > 0.01:
        cell = replace(cell, jitter=_three(drawn["jitter"] * rtt))
    if drawn["loss"] != "none":
        cell = replace(cell, loss=drawn["loss"], loss_rate=float(f"{drawn['loss_rate']:.2g}"))
    if drawn["loss"] == "bursts":
        cell = replace(cell, burst=float(f"{drawn['burst']:.2g}"))
    if "rival" in drawn:
        times = {"equal": 1.0, "longer": 5.0, "shorter": 0.2}[drawn["rivals_rtt"]]
        cell = replace(
            cell,
            rival=drawn["rival"],
            rivals=drawn["rivals"],
            rivals_rtt=_three(min(max(times * rtt, 1e3), 600e3)),
            start=drawn["start"],
            loss_at=drawn["loss_at"] if drawn["loss"] != "none" else "link",
        )
    return cell


@dataclass(frozen=True)
class Run:
    """Numbers of a run: rates as shares of the available rate of the link."""

    own: float
    others: float
    dropped: float
    queue: float
    hops: int


@dataclass(frozen=True)
class Pair:
    """The same scenario and seed with the one and with the other."""

    cell: Cell
    subject: Run
    standard: Run


def over(what: float, reference: float) -> float:
    return what / max(reference, 1e-6)


@dataclass(frozen=True)
class Question:
    name: str
    title: str
    #: What is the less, the worse: not below 0 for shares, below 0 for excesses.
    badness: Callable[[Pair], float]
    #: What the table tells of a run.
    number: Callable[[Cell, Run], float]
    unit: str
    space: dict[str, BaseDistribution]
    #: Questions of a family do not both have jitter, which is the same then.
    family: str
    #: Share of the budget, and how many of the ten.
    share: float
    wanted: int
    #: Below this it is worth telling.
    bad: float


def _fair(cell: Cell) -> float:
    return 1 / (cell.rivals + 1)


def _starved(pair: Pair) -> float:
    least = min(pair.standard.own, _fair(pair.cell))
    # Where NewReno has nothing either nothing is to be learnt.
    return over(pair.subject.own, least) if least > 0.01 * _fair(pair.cell) else 1.0


def _starving(pair: Pair) -> float:
    least = min(pair.standard.others, 1 - _fair(pair.cell))
    return over(pair.subject.others, least) if least > 0.01 * (1 - _fair(pair.cell)) else 1.0


QUESTIONS = [
    Question(
        "starves-alone",
        "alone it has little of the link",
        lambda pair: pair.subject.own,
        lambda cell, run: run.own,
        "of C (1 - p)",
        ALONE,
        "starves",
        0.2,
        2,
        0.8,
    ),
    Question(
        "starved",
        "others leave it little",
        _starved,
        lambda cell, run: run.own / _fair(cell),
        "of the fair share",
        BESIDE,
        "starves",
        0.3,
        3,
        0.67,
    ),
    Question(
        "starves-others",
        "it leaves others little",
        _starving,
        lambda cell, run: run.others / (1 - _fair(cell)),
        "of their fair share for the others",
        BESIDE,
        "others",
        0.25,
        2,
        0.67,
    ),
    Question(
        "drops",
        "alone it makes the queue drop much",
        lambda pair: pair.standard.dropped - pair.subject.dropped,
        lambda cell, run: 100 * run.dropped,
        "% dropped",
        ALONE,
        "floods",
        0.13,
        2,
        -0.01,
    ),
    Question(
        "queue",
        "alone it fills the queue",
        lambda pair: (pair.standard.queue - pair.subject.queue) / max(pair.cell.bdp, 10.0),
        lambda cell, run: run.queue,
        "packets of mean queue",
        ALONE,
        "floods",
        0.12,
        1,
        -0.1,
    ),
]


class Budget(Exception):
    """It is used up."""


@dataclass
class Lab:
    """Runs scenarios, side by side, and keeps what came out."""

    program: str
    journal: TextIO
    pool: ThreadPoolExecutor
    terminal: bool
    known: dict[str, list[float]] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    program_hash: str = ""
    runs: int = 0
    hops: int = 0
    said: str = ""

    def measure(self, jobs: Sequence[tuple[Cell, int]]) -> list[Pair | None]:
        """None where the scenario was refused."""
        wanted = [(cell, seed, protocol) for cell, seed in jobs for protocol in (SUBJECT, STANDARD)]
        futures = [self.pool.submit(self._run, *job) for job in wanted]
        try:
            found = [future.result() for future in futures]
        except BaseException:
            for future in futures:
                future.cancel()
            raise
        pairs: list[Pair | None] = []
        for (cell, _), one, other in zip(jobs, found[::2], found[1::2], strict=True):
            # Counted in order and whether kept or not, so that a budget ends at the same run always.
            self.runs += 2
            if one is None or other is None:
                pairs.append(None)
                continue
            self.hops += one.hops + other.hops
            pairs.append(Pair(cell, one, other))
        return pairs

    def _run(self, cell: Cell, seed: int, protocol: str) -> Run | None:
        text = cell.toml(seed)
        key = hashlib.sha256(f"{self.program_hash} {protocol}\n{text}".encode()).hexdigest()[:24]
        if key in self.refused:
            return None
        if key not in self.known:
            done = subprocess.run(
                [self.program, "run", "-", "--json", "--quiet"] + ["--set", f"flows.own.protocol={protocol}"],
                input=text,
                capture_output=True,
                text=True,
                check=False,
            )
            if done.returncode:
                # The terminal's Ctrl-C reaches the program as well.
                if done.returncode < 0 or done.returncode == 130:
                    raise KeyboardInterrupt
                self.refused[key] = done.stderr.strip()
                return None
            self.known[key] = self._read(cell, json.loads(done.stdout))
            self.journal.write(json.dumps([key, self.known[key]]) + "\n")
            self.journal.flush()
        own, others, dropped, queue, hops = self.known[key]
        return Run(own, others, dropped, queue, int(hops))

    @staticmethod
    def _read(cell: Cell, found: dict[str, Any]) -> list[float]:
        capacity = cell.rate * 1e3
        all_pay = 1 - cell.loss_rate if cell.loss_at == "link" else 1.0
        groups = {group["name"]: group["goodput_bps"] / capacity for group in found["groups"]}
        link = next(link for link in found["links"] if link["name"] == "bottleneck")
        return [
            groups["own"] / (1 - cell.loss_rate),
            groups.get("others", 0.0) / all_pay,
            link["dropped"] / max(link["arrived"], 1),
            link["mean_queue_packets"],
            found["packet_hops"],
        ]

    def say(self, text: str) -> None:
        if self.terminal:
            width = shutil.get_terminal_size().columns - 1
            self.said = text[:width]
            print(f"\r\x1b[K{self.said}", end="", file=sys.stderr, flush=True)

    def hush(self) -> None:
        if self.terminal and self.said:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
            self.said = ""


@dataclass(frozen=True)
class Found:
    question: Question
    cell: Cell
    pairs: tuple[Pair, ...]

    def numbers(self) -> tuple[tuple[float, float, float], float]:
        """Mean and interval of the subject, and the mean of the standard."""
        mine = [self.question.number(self.cell, pair.subject) for pair in self.pairs]
        theirs = [self.question.number(self.cell, pair.standard) for pair in self.pairs]
        mean = statistics.fmean(mine)
        half = T * statistics.stdev(mine) / math.sqrt(len(mine)) if len(mine) > 1 else math.inf
        return (mean, max(mean - half, 0.0), mean + half), statistics.fmean(theirs)

    def badness(self) -> float:
        return statistics.fmean(self.question.badness(pair) for pair in self.pairs)

    def name(self, number: int) -> str:
        cell = self.cell
        parts = [f"{number:02}", self.question.name, *(["beside", cell.rival] if cell.rivals else [])]
        parts += [kind for kind in [cell.kind()] if kind != cell.rival]
        return "-".join(parts) + ".toml"

    def figures(self) -> tuple[str, str]:
        (mean, low, high), other = self.numbers()
        text = f"{_short(mean)} ({_short(low)} to {_short(high)})"
        if not math.isfinite(high):
            text = f"{_short(mean)} (one seed)"
        return text, _short(other)


@dataclass
class Search:
    """Of one question, in rounds: what one round found is nothing new in the next."""

    question: Question
    lab: Lab
    seed: int
    batch: int
    seen: list[tuple[dict[str, Any], Pair]] = field(default_factory=list)
    #: Kinds of the results.
    taken: set[str] = field(default_factory=set)

    def _new(self, cell: Cell) -> bool:
        return cell.kind() not in self.taken

    def _told(self, pair: Pair) -> float:
        value = self.question.badness(pair)
        return value if self._new(pair.cell) else max(value, 1.0)

    def round(self, number: int, runs: int, hops: int) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            sampler = optuna.samplers.TPESampler(
                seed=self.seed + number, multivariate=True, constant_liar=True, n_startup_trials=40
            )
        study = optuna.create_study(direction="minimize", sampler=sampler)
        for drawn, known in self.seen:
            study.add_trial(
                optuna.trial.create_trial(
                    params=drawn, distributions=self.question.space, value=self._told(known)
                )
            )
        first_run, first_hop = self.lab.runs, self.lab.hops
        while self.lab.runs - first_run < runs and self.lab.hops - first_hop < hops:
            trials = [study.ask(self.question.space) for _ in range(self.batch)]
            cells = [cell_of(trial.params) for trial in trials]
            pairs = self.lab.measure([(cell, SEARCHED) for cell in cells])
            for trial, pair in zip(trials, pairs, strict=True):
                if pair is None:
                    study.tell(trial, state=optuna.trial.TrialState.PRUNED)
                    continue
                study.tell(trial, self._told(pair))
                self.seen.append((trial.params, pair))
            if self.seen:
                self.lab.say(
                    f"{self.question.name}, round {number + 1}: {self.lab.runs - first_run} of "
                    f"{runs} runs, {study.best_value:.3g} at {cell_of(study.best_params).words()}"
                )

    def worst(self) -> Found | None:
        """Of those that are new, by all seeds of the choice; None if none is bad enough."""
        new = [pair for _, pair in self.seen if self._new(pair.cell)]
        few = list(dict.fromkeys(p.cell for p in sorted(new, key=self.question.badness)))[:8]
        found = [one for cell in few if (one := self.again(cell)).pairs]
        found.sort(key=Found.badness)
        return found[0] if found and found[0].badness() <= self.question.bad else None

    def again(self, cell: Cell) -> Found:
        pairs = self.lab.measure([(cell, seed) for seed in (SEARCHED, *CHOSEN)])
        return Found(self.question, cell, tuple(pair for pair in pairs if pair))

    def plain(self, found: Found, runs: int) -> Found:
        """Returns a simpler scenario that is as bad, within a tenth of its badness."""
        question = self.question
        good = 1.0 if question.bad > 0 else 0.0
        bound = good - 0.9 * (good - found.badness())
        first = self.lab.runs
        tried = {found.cell}
        going = True
        while going:
            going = False
            for cell in found.cell.plainer():
                if cell in tried or not _inside(cell):
                    continue
                if self.lab.runs - first >= runs:
                    return found
                tried.add(cell)
                self.lab.say(f"{question.name}, made plain: {cell.words()}")
                # The first seed says most of it.
                if not any(
                    pair and question.badness(pair) <= bound for pair in self.lab.measure([(cell, SEARCHED)])
                ):
                    continue
                again = self.again(cell)
                if again.badness() <= bound:
                    found, going = again, True
                    break
        return found


def _inside(cell: Cell) -> bool:
    return 1e3 <= cell.rate <= 1e6 and 1e3 <= cell.rtt <= 600e3 and cell.longest <= 600e3


def _short(number: float) -> str:
    return f"{number:.3g}" if abs(number) < 1000 else f"{number:.0f}"


def search(lab: Lab, runs: int, hops: int, seed: int, batch: int, found: list[Found]) -> None:
    """Adds to `found`, so that what is there is there when it is interrupted."""
    searches = [Search(question, lab, seed, batch) for question in QUESTIONS]

    def look(one: Search, runs_now: int) -> None:
        for _ in range(3):
            worst = one.worst()
            if worst is None:
                return
            plain = one.plain(worst, runs_now)
            kind = plain.cell.kind()
            is_new = kind not in one.taken
            one.taken |= {worst.cell.kind(), kind}
            if is_new:
                break
        else:
            # Nothing but what is known, in other words.
            return
        if kind == "jitter":
            for other in searches:
                if other.question.family == one.question.family:
                    other.taken.add(kind)
        found.append(plain)

    for one in searches:
        question = one.question
        part = question.share / question.wanted
        for number in range(question.wanted):
            # Three quarters are for the search and one for making plain.
            one.round(number, int(0.75 * part * runs), int(0.75 * part * hops))
            look(one, int(0.25 * part * runs))
    # Spares, for those that are not confirmed.
    for one in searches:
        look(one, int(0.02 * runs))


def confirm(lab: Lab, found: Iterable[Found]) -> list[Found]:
    """As many as are wanted of each question, the worst first, and spares for what is short of that."""
    told: list[Found] = []
    for one in found:
        lab.say(f"confirmed: {one.cell.words()}")
        pairs = lab.measure([(one.cell, seed) for seed in CONFIRMED])
        again = replace(one, pairs=tuple(pair for pair in pairs if pair))
        if again.pairs and again.badness() <= one.question.bad:
            told.append(again)
        else:
            print(f"not confirmed: {one.question.name}, {one.cell.words()}", file=sys.stderr)
    wanted: list[Found] = []
    spare: list[Found] = []
    for question in QUESTIONS:
        its = sorted((one for one in told if one.question is question), key=Found.badness)
        wanted += its[: question.wanted]
        spare += its[question.wanted :]
    short = sum(question.wanted for question in QUESTIONS) - len(wanted)
    return sorted(wanted + spare[:short], key=lambda one: QUESTIONS.index(one.question))


def known_links() -> list[tuple[Question, Cell]]:
    """The links of the page's table. Its words have all that a link is."""
    rows = PAGE.read_text("utf-8").split(MARK)[1].strip().split("\n")[2:]
    links = []
    for row in rows:
        _, words, title = (column.strip() for column in row.strip("| ").split(" | ")[:3])
        links.append((next(one for one in QUESTIONS if one.title == title), cell_of_words(words)))
    return links


def cell_of_words(words: str) -> Cell:
    def us(number: str, unit: str) -> int:
        return round(float(number) * (1e6 if unit == "s" else 1e3))

    rate, unit, rtt, rtt_unit, queue = re.findall(
        r"^([\d.]+) ([MG])bit/s, RTT ([\d.]+) (m?s); queue (\d+) packets", words
    )[0]
    cell = Cell(round(float(rate) * (1e3 if unit == "M" else 1e6)), us(rtt, rtt_unit), int(queue))
    for part in words.split("; ")[2:]:
        kind = part.removesuffix(" that marks")
        if lost := re.fullmatch(r"([\d.]+) % lost(?: in bursts of ([\d.]+))?( of its own packets)?", part):
            cell = replace(
                cell,
                loss="bursts" if lost[2] else "random",
                loss_rate=float(f"{float(lost[1]) / 100:.2g}"),
                burst=float(lost[2] or 0),
                loss_at="own" if lost[3] else "link",
            )
        elif jitter := re.fullmatch(r"jitter ([\d.]+) (m?s)", part):
            cell = replace(cell, jitter=us(jitter[1], jitter[2]))
        elif beside := re.fullmatch(
            r"beside (a|\d+) (\S+?)(?: with an RTT of ([\d.]+) (m?s))?(, 20 RTTs (?:late|before))?", part
        ):
            cell = replace(
                cell,
                rival=beside[2],
                rivals=1 if beside[1] == "a" else int(beside[1]),
                rivals_rtt=us(beside[3], beside[4]) if beside[3] else cell.rtt,
                start=(beside[5] or "together").split(" ")[-1],
            )
        else:
            cell = replace(cell, aqm=kind if kind == part else f"{kind}+ecn")
    if cell.words() != words:
        raise ValueError(f"cannot read the link {words!r}")
    return cell


def write(found: Sequence[Found], folder: Path, seeds: str) -> list[str]:
    """The scenario files; the rows of the table."""
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("[0-9][0-9]-*.toml"):
        old.unlink()
    rows = []
    for number, one in enumerate(found, 1):
        name = one.name(number)
        file = folder / name
        shown = file.relative_to(ROOT) if file.is_relative_to(ROOT) else file
        mine, theirs = one.figures()
        unit = one.question.unit
        comment = (
            f"{one.question.title[0].upper()}{one.question.title[1:]}: {mine} {unit},\n"
            f"and {theirs} with {STANDARD} in its place.\n{one.cell.words()}.\nMeans over {seeds} with the 95 % "
            f"interval; as docs/upwind/worst.py found it. To see it:\n"
            f"  windward run {shown}\n"
            f"  windward run {shown} --set flows.own.protocol={STANDARD}"
        )
        head = "".join(f"# {line}\n" for line in comment.split("\n"))
        file.write_text(head + one.cell.toml(CONFIRMED[0]), "utf-8")
        rows.append(
            f"| [{name.removesuffix('.toml')}]({'' if file == shown else '../'}{shown}) | {one.cell.words()} | "
            f"{one.question.title} | {mine} {unit} | {theirs} |"
        )
    return rows


def table(rows: Sequence[str]) -> str:
    head = f"| scenario | path | what happens | `{SUBJECT}` | `{STANDARD}` there |"
    return "\n".join([head, "| --- | --- | --- | --- | --- |", *rows]) + "\n"


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--windward", default=str(ROOT / "target/release/windward"), help="the program")
    parser.add_argument(
        "--runs",
        type=int,
        default=7_000,
        help="of the search and of making plain; choosing and confirming have some 600 more (default: 7000)",
    )
    parser.add_argument(
        "--packets",
        type=float,
        default=1e10,
        help="bound of the packets that the search simulates, times the links they cross (default: 1e10)",
    )
    parser.add_argument(
        "--again",
        action="store_true",
        help="measure the links of the page's table with the present program, without a search",
    )
    parser.add_argument("--seed", type=int, default=SEARCHED, help="of the sampler (default: 9801)")
    parser.add_argument("--jobs", type=int, default=2, help="runs side by side (default: 2)")
    parser.add_argument(
        "--batch", type=int, default=8, help="scenarios drawn before one is known (default: 8)"
    )
    parser.add_argument("--work", type=Path, default=ROOT / "target/upwind-worst", help="where runs are kept")
    parser.add_argument(
        "--out",
        type=Path,
        default=ROOT / "experiments/upwind/worst",
        help="where scenario files go",
    )
    parser.add_argument(
        "--page",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="write the table into docs/upwind-worst.md",
    )
    return parser.parse_args()


def main() -> int:
    given = arguments()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    given.work.mkdir(parents=True, exist_ok=True)
    journal = given.work / "runs.jsonl"
    known: dict[str, list[float]] = {}
    if journal.exists():
        for line in journal.read_text("utf-8").splitlines():
            try:
                key, values = json.loads(line)
            except ValueError:
                continue  # the last line of a run that was killed
            known[key] = values
    program_hash = hashlib.sha256(Path(given.windward).read_bytes()).hexdigest()[:16]
    found: list[Found] = []
    interrupted = False
    with journal.open("a", encoding="utf-8") as kept, ThreadPoolExecutor(given.jobs) as pool:
        lab = Lab(given.windward, kept, pool, sys.stderr.isatty(), known)
        lab.program_hash = program_hash
        try:
            if given.again:
                for question, cell in known_links():
                    pairs = lab.measure([(cell, seed) for seed in CONFIRMED])
                    found.append(Found(question, cell, tuple(pair for pair in pairs if pair)))
            else:
                search(lab, given.runs, int(given.packets), given.seed, given.batch, found)
                found = confirm(lab, found)
        except KeyboardInterrupt:
            interrupted = True
            pool.shutdown(cancel_futures=True)
        lab.hush()
    if interrupted:
        # Not where what is confirmed lies.
        folder = given.work / "unconfirmed"
        print(table(write(found, folder, "seeds of the search")), end="")
        print(f"interrupted: what was found so far is in {folder}", file=sys.stderr)
        return 130
    rows = write(found, given.out, f"seeds {CONFIRMED[0]} to {CONFIRMED[-1]}")
    print(table(rows), end="")
    for reason in sorted(set(lab.refused.values())):
        print(f"refused: {reason}", file=sys.stderr)
    if given.page and PAGE.exists():
        before, _, after = PAGE.read_text("utf-8").split(MARK)
        PAGE.write_text(f"{before}{MARK}\n{table(rows)}\n{MARK}{after}", "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
