#!/usr/bin/env python3
# /// script
# requires-python = ">=3.11"
# ///
"""Measures what depends on each constant of `upwind`, and writes the table of them into ../upwind.md.

    docs/upwind/constants.py --only ROOM --no-page     # one constant, after the build of some minutes
    docs/upwind/constants.py                           # the table in ../upwind.md: a quarter of an hour on two cores

It compiles a copy of the workspace in which each constant is multiplied by a factor from the environment, and runs
cells of goals.py with a tenth and ten times of each constant, from the same seeds. A number *depends* on a
constant if the mean of its paired changes is beyond three standard errors, and large: more than a tenth of the
number, or two points of drops. Constants that set the length of an array are left out. The result depends on
--runs, --base and the sources, not on the number of workers.
"""

from __future__ import annotations

import argparse
import math
import os
import re
import statistics
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1]))

import goals
import guide
from goals import ROOT, Cell, Flows, Goal

MARK = "<!-- made by upwind/constants.py -->\n"
FOLDER = Path("crates/core/src/endpoint/window/upwind")
OUT = ROOT / "target/constants"
COPY = OUT / "workspace"
FACTORS = (0.1, 10.0)

#: The factor of a constant, as `file::NAME` or `file::NAME.0`, in the variable WINDWARD_CONSTANTS of the copy.
SCALED = """
//! Constants multiplied by factors from the environment.
use crate::units::Duration;
pub(super) trait Scaled { fn times(self, factor: f64) -> Self; }
impl Scaled for f64 { fn times(self, factor: f64) -> f64 { self * factor } }
impl Scaled for u32 { fn times(self, factor: f64) -> u32 { (f64::from(self) * factor).round().max(1.0) as u32 } }
impl Scaled for u64 { fn times(self, factor: f64) -> u64 { (self as f64 * factor).round().max(1.0) as u64 } }
impl Scaled for usize { fn times(self, factor: f64) -> usize { (self as f64 * factor).round().max(1.0) as usize } }
impl Scaled for Duration { fn times(self, factor: f64) -> Duration { self.mul_f64(factor) } }
pub(super) fn scaled<T: Scaled>(name: &str, value: T) -> T {
    let all = std::env::var("WINDWARD_CONSTANTS").unwrap_or_default();
    let given = all.split(',').filter_map(|one| one.split_once('=')).find(|one| one.0 == name);
    value.times(given.map_or(1.0, |one| one.1.parse().unwrap()))
}
"""
CONST = re.compile(r"^(?P<seen>pub\(super\) )?const (?P<name>[A-Z_0-9]+): (?P<type>[^=]+) = (?P<value>.+);$", re.MULTILINE)


@dataclass(frozen=True)
class Constant:
    """A constant, or one of the numbers of a constant that has several."""

    name: str  # file::NAME or file::NAME.0
    value: str


def parts(text: str) -> list[str]:
    """The members of a tuple, or the text itself."""
    if not text.startswith("("):
        return [text]
    members, depth = [""], 0
    for char in text[1:-1]:
        depth += (char == "(") - (char == ")")
        if char == "," and depth == 0:
            members.append("")
        else:
            members[-1] += char
    return [member.strip() for member in members]


def scale(file: Path) -> list[Constant]:
    """Replaces the constants of a file by functions that multiply them; returns them."""
    text = file.read_text("utf-8")
    found: list[Constant] = []
    folder = "".join(other.read_text("utf-8") for other in file.parent.glob("*.rs"))

    def function(match: re.Match[str]) -> str:
        name, values = match["name"], parts(match["value"])
        if re.search(rf"; {name}(\.\d)?( as usize)?\]", folder):
            return match[0]
        labels = [f"{file.stem}::{name}" + (f".{i}" if len(values) > 1 else "") for i in range(len(values))]
        found.extend(Constant(label, value) for label, value in zip(labels, values, strict=True))
        types = parts(match["type"].strip())
        members = [f'crate::endpoint::window::upwind::scaled::scaled::<{t}>("{n}", {v})' for t, n, v in zip(types, labels, values, strict=True)]
        made = members[0] if len(members) == 1 else f"({', '.join(members)})"
        return (
            f"#[allow(non_snake_case)]\n{match['seen'] or ''}fn {name}() -> {match['type']} {{\n"
            f"    static MADE: std::sync::OnceLock<{match['type']}> = std::sync::OnceLock::new();\n"
            f"    *MADE.get_or_init(|| {made})\n}}"
        )

    file.write_text(CONST.sub(function, text), "utf-8")
    return found


def call(folder: Path, names: set[str]) -> None:
    """Turns uses of these names into calls."""
    use = re.compile(r"(?<![\w:.])(" + "|".join(sorted(names)) + r")\b(?!\(\) ->)")
    for file in folder.glob("*.rs"):
        lines = file.read_text("utf-8").split("\n")
        own = {match["name"] for match in CONST.finditer("\n".join(lines))}
        inside_use = False
        for index, line in enumerate(lines):
            inside_use = line.lstrip().startswith(("use ", "pub use ")) or inside_use
            code, slashes, comment = line.partition("//")
            if not inside_use and not code.lstrip().startswith(("const ", "pub(super) const ")):
                code = use.sub(lambda match: match[0] if match[0] in own else f"{match[0]}()", code)
                lines[index] = code + slashes + comment
            inside_use = inside_use and ";" not in line
        file.write_text("\n".join(lines), "utf-8")


def build() -> tuple[str, list[Constant]]:
    """Compiles the copy; returns the program and the constants."""
    COPY.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        guide.copy_into(Path(scratch))
        folder = scratch / FOLDER
        sources = [file for file in sorted(folder.glob("*.rs")) if file.name not in {"tests.rs", "robustness.rs"}]
        constants = [one for file in sources for one in scale(file)]
        call(folder, {one.name.split("::")[1].split(".")[0] for one in constants})
        module = folder / "mod.rs"
        module.write_text(module.read_text("utf-8").replace("\nmod bound;", "\nmod bound;\nmod scaled;"), "utf-8")
        (folder / "scaled.rs").write_text(SCALED, "utf-8")
        guide.bring(Path(scratch), COPY)
    # Not the folder of the workspace: artefacts of equal crates would replace each other.
    env = dict(os.environ, CARGO_TARGET_DIR=str(OUT / "target"))
    subprocess.run(["cargo", "build", "--release", "--locked", "-q"], cwd=COPY, env=env, check=True)
    return str(OUT / "target/release/windward"), constants


def cells() -> list[Cell]:
    """Those of the goals that differ most, and two in which the path changes."""
    wanted = (
        "16 flows, 40 Mbit/s, 60 ms, CoDel", "32 flows, 20 Mbit/s, 40 ms, CoDel", "32 flows, 20 Mbit/s, 40 ms, PIE",
        "16 flows, 160 Mbit/s, 30 ms, RED", "alone, 1 Mbit/s, 60 ms, FQ-CoDel", "alone, 10 Mbit/s, 78 ms, 10 % lost",
        "lost in bursts of five", "alone in quinn, 10 Mbit/s, 80 ms, 10 %", "jitter 20 ms, 10 Mbit/s",
        "jitter 1 ms, 50 Mbit/s", "jitter 20 ms, 50 Mbit/s", "jitter 10 ms every 20 ms", "600 ms, 5 % lost",
        "alone, 2 Mbit/s, 80 ms, queue of 0.25 BDP, 20 %", "one newreno, 20 Mbit/s, 60 ms, queue of 0.5 BDP",
        "one newreno, 20 Mbit/s, 60 ms, queue of 1 BDP, 1 %", "one newreno, 20 Mbit/s, 60 ms, queue of 1 BDP, 20 %",
        "one newreno, 20 Mbit/s, 60 ms, queue of 2 BDP, 5 %", "starts 20 s before, 20 Mbit/s, 60 ms, queue of 1 BDP",
        "four newreno, 20 Mbit/s, 60 ms, queue of 1 BDP", "bbr1, 20 Mbit/s, 60 ms, queue of 4 BDP",
        "cubic, 20 Mbit/s, 60 ms, queue of 1 BDP", "one with 1 % lost among four", "16 of its kind, 40 Mbit/s, 60 ms, queue of 4",
        "4 flows, 10 Mbit/s, 60 ms, queue of 0.05 BDP", "8 flows, 5 Mbit/s", "64 flows with delayed ACKs",
    )
    every = [*goals.queues(), *goals.alone(), *goals.beside(), *goals.few_packets()]
    chosen: list[Cell] = []
    for words in wanted:
        cell = next(cell for cell in every if words in cell.name)
        # Shorter than for the goals, where nothing comes late.
        late = "beside" in cell.name or "among" in cell.name
        chosen.append(cell if late else replace(cell, duration=min(cell.duration, 60)))
    step = 'delay = {{ schedule = [{{ at = "0s", delay = "{}ms" }}, {{ at = "30s", delay = "{}ms" }}] }}'
    good = (Goal("goodput over available rate", goals.goodput, least=0.8),)
    chosen.append(Cell("alone, 10 Mbit/s, 80 ms, queue of 0.1 BDP, 2 % lost", 10, 80, (Flows(),), good, queue=0.1, loss=0.02))
    chosen += [
        Cell(f"the path becomes 60 ms {word}, 10 Mbit/s, {rtt} ms", 10, rtt, (Flows(path=step.format(*steps)),), good, duration=70, warmup=30)
        for word, rtt, steps in (("longer", 40, (0.1, 60)), ("shorter", 40, (60, 0.1)))
    ]
    return chosen


def depends(goal: Goal, before: list[float], after: list[float]) -> bool:
    change = [b - a for a, b in zip(before, after, strict=True)]
    mean = statistics.fmean(change)
    error = statistics.stdev(change) / math.sqrt(len(change))
    least = 0.02 if goal.percent else 0.1 * max(abs(statistics.fmean(before)), 0.1)
    return abs(mean) > max(least, 3 * error)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--runs", type=int, default=4, help="of a cell (default: 4)")
    parser.add_argument("--base", type=int, default=980_001, help="the first seed (default: 980001)")
    parser.add_argument("--jobs", type=int, default=2, help="runs side by side (default: 2)")
    parser.add_argument("--only", default="", metavar="WORDS", help="constants whose names contain these words")
    parser.add_argument("--page", action=argparse.BooleanOptionalAction, default=True, help="write the table into docs/upwind.md, unless --only is given")
    given = parser.parse_args()
    if given.runs < 2:
        parser.error("--runs must be at least 2, since changes are compared with their standard error")
    program, constants = build()
    chosen = cells()

    def numbers(cell: Cell, seed: int, factors: str) -> list[float]:
        found = goals.simulate(program, cell, goals.SUBJECT, seed, env=dict(os.environ, WINDWARD_CONSTANTS=factors))
        return [goal.read(cell, found) for goal in cell.goals]

    def measure(factors: str) -> list[list[list[float]]]:
        """For each cell and each run its numbers."""
        with ThreadPoolExecutor(given.jobs) as pool:
            jobs = [
                [pool.submit(numbers, cell, given.base + run, factors) for run in range(given.runs)] for cell in chosen
            ]
            return [[job.result() for job in of_cell] for of_cell in jobs]

    plain = measure("")
    rows = ["| constant | value | a tenth of it changes | ten times of it change |", "| --- | --- | --- | --- |"]
    idle: list[str] = []
    for index, constant in enumerate(constants):
        if given.only not in constant.name:
            continue
        if sys.stderr.isatty():
            print(f"\r\x1b[K{constant.name}, {index + 1} of {len(constants)}", end="", file=sys.stderr, flush=True)
        changed = []
        for factor in FACTORS:
            found = measure(f"{constant.name}={factor}")
            said = []
            for cell, before, after in zip(chosen, plain, found, strict=True):
                for goal, a, b in zip(cell.goals, zip(*before), zip(*after), strict=True):
                    if depends(goal, list(a), list(b)):
                        said.append((cell.name, goal, statistics.fmean(a), statistics.fmean(b)))
            said.sort(key=lambda one: -abs(math.log(max(one[3], 1e-4) / max(one[2], 1e-4))))
            words = [f"{name}: {goal.what} {goal.show(a)} to {goal.show(b)}" for name, goal, a, b in said[:2]]
            changed.append(f"{len(said)}: {'; '.join(words)}" if said else "-")
        if changed == ["-", "-"]:
            idle.append(f"`{constant.name}`")
            continue
        value = re.sub(r"Duration::from_(milli|)secs\((\d+)\)", lambda m: f"{m[2]} {'m' if m[1] else ''}s", constant.value)
        rows.append(f"| `{constant.name}` | {value} | {changed[0]} | {changed[1]} |")
    if sys.stderr.isatty():
        print("\r\x1b[K", end="", file=sys.stderr, flush=True)
    count = sum(len(cell.goals) for cell in chosen)
    text = "\n".join(rows) + (
        f"\n\n{len(constants)} numbers of constants, {count} numbers in {len(chosen)} cells, {given.runs} runs each."
        + (f" No number depends on {len(idle)} of them: {', '.join(idle)}." if idle else "")
        + "\n"
    )
    if given.page and not given.only:
        goals.write(MARK, text)
    else:
        print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
