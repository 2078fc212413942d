"""A page for each paper: what its experiment files say, and what a reproduction found."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any


if TYPE_CHECKING:
    from stage import Stage

ROOT = Path(__file__).resolve().parents[2]

# Reasons for a value, the strongest first: docs/experiments.md.
BASES = ["paper", "simulator", "rfc", "practice", "fit"]

VERDICTS = ["held", "tie", "not held", "inconclusive"]


def write(stage: Stage, report: Path) -> None:
    listed = subprocess.run(
        [sys.executable, "-m", "windward", "reproduce", "--list", "--json", "all"],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
    )
    collections = json.loads(listed.stdout)
    found = Found(report, collections)
    papers = [paper for paper in collections if paper["authors"]]
    stage.write("papers/index.md", index(papers, found))
    for paper in papers:
        stage.write(f"papers/{paper['key']}.md", Page(stage, paper, found).text())


class Found:
    """Results of a reproduction, if there is one, and if it is one of the experiment files as they are
    now: otherwise nothing."""

    def __init__(self, report: Path, collections: list[dict[str, Any]]) -> None:
        self.report = report
        self.claims: dict[str, dict[str, Any]] = {}
        self.commands: dict[str, str] = {}
        try:
            manifest = json.loads((report / "manifest.json").read_text("utf-8"))
            claims = json.loads((report / "claims.json").read_text("utf-8"))
        except FileNotFoundError:
            return
        now = {e["id"]: e["configuration_hash"] for c in collections for e in c["experiments"]}
        for run in manifest["experiments"]:
            if now.get(run["id"]) == run["configuration_hash"]:
                self.commands[run["id"]] = run["command"]
        for claim in claims:
            if claim["figure"] in self.commands and claim["verdict"]:
                self.claims[claim["id"]] = claim

    def of(self, paper: dict[str, Any]) -> list[dict[str, Any]]:
        ids = [id for e in paper["experiments"] for id in e["claims"]]
        return [self.claims[id] for id in ids if id in self.claims]

    def sentence(self, paper: dict[str, Any]) -> str:
        claims = self.of(paper)
        total = claims_of(paper)
        if not claims:
            return NO_REPORT
        counts = Counter(claim["verdict"] for claim in claims)
        words = ", ".join(f"{counts[v]} {v}" for v in VERDICTS if counts[v])
        everywhere = sum(1 for c in claims if c["held_in_readings"] == c["readings_judged"])
        quick = any("--quick" in self.commands[claim["figure"]] for claim in claims)
        length = "a quick run, with few repetitions" if quick else "a full run"
        judged = f"All {total} claims" if len(claims) == total else f"Of {total} claims, {len(claims)}"
        return (
            f"{judged} are judged in {length}, under the plain reading: {words}. "
            f"{everywhere or 'None'} of them hold under every reading that was judged."
        )


def claims_of(paper: dict[str, Any]) -> int:
    return sum(len(experiment["claims"]) for experiment in paper["experiments"])


NO_REPORT = (
    "This page was built without a reproduction of these experiment files at hand, so it has no "
    "verdicts: the command above gives them, with the figures."
)


def inline(text: str) -> str:
    """A text of a TOML file in Markdown, where nothing of it is markup."""
    for mark in "\\*_<[|":
        text = text.replace(mark, "\\" + mark)
    return text


def index(papers: list[dict[str, Any]], found: Found) -> str:
    page = [
        "# The five papers",
        "",
        "The claims of each paper, and the results of its reproduction. The pages are made from "
        "the experiment files; verdicts and figures come from the report of "
        "`windward reproduce`, where there was one when the site was built. "
        "[How to read the report](../report.md) says what the words mean.",
        "",
    ]
    for paper in papers:
        found_here = found.sentence(paper) if found.of(paper) else f"{claims_of(paper)} claims, without verdicts here."
        page += [
            f"- **[{inline(paper['title'])}]({paper['key']}.md)**, {inline(paper['authors'])}, "
            f"`{paper['key']}`. {found_here}"
        ]
    page += ["", "```{toctree}", ":hidden:", "", *[paper["key"] for paper in papers], "```"]
    return "\n".join(page) + "\n"


class Page:
    """The page of a paper."""

    def __init__(self, stage: Stage, paper: dict[str, Any], found: Found) -> None:
        self.stage = stage
        self.paper = paper
        self.found = found
        self.lines: list[str] = []

    def add(self, *lines: str) -> None:
        self.lines += lines

    def text(self) -> str:
        paper, found = self.paper, self.found
        self.add(
            f"# {inline(paper['title'])}",
            "",
            f"{inline(paper['authors'])}. {inline(paper['published'])}.",
            "",
            "```console",
            f"$ windward reproduce {paper['key']}",
            "```",
            "",
            found.sentence(paper),
        )
        claims = found.of(paper)
        if claims:
            self.add("", "| claim | the paper | plain verdict | holds in |", "| --- | --- | --- | --- |")
            for claim in claims:
                self.add(
                    f"| [{claim['id']}](#claim-{claim['id'].lower()}) | {inline(claim['claim'])} "
                    f"| {claim['verdict']} | {readings_count(claim)} |"
                )
        if paper["terms"]:
            self.add("", "Words of the claims:", "")
            self.add(*[f"- {inline(term)}: {inline(meaning)}." for term, meaning in paper["terms"]])
        readings: dict[str, dict[str, Any]] = {}
        for row in paper["experiments"]:
            with (ROOT / row["file"]).open("rb") as file:
                experiment = tomllib.load(file)["experiment"]
            self.experiment(row, experiment)
            for reading in readings_of(ROOT / row["file"], experiment):
                readings.setdefault(reading["name"], reading)
        self.readings(list(readings.values()))
        return "\n".join(self.lines) + "\n"

    def experiment(self, row: dict[str, Any], experiment: dict[str, Any]) -> None:
        figure = f"{experiment['figure']}: " if "figure" in experiment else ""
        self.add("", f"## {inline(figure + experiment['title'])}", "")
        if "setting" in experiment:
            self.add(inline(experiment["setting"]), "")
        link = os.path.relpath(self.stage.page_of(row["file"]), "papers")
        self.add(f"`windward reproduce {row['id']}`, from [{row['file']}]({link}).")
        chart = self.found.report / f"{row['id']}.svg"
        if row["id"] in self.found.commands and chart.exists():
            self.stage.write(f"papers/{row['id']}.svg", chart.read_text("utf-8"))
            self.add("", f"```{{image}} {row['id']}.svg\n:alt: {experiment['title']}\n:class: chart\n```")
        choices = experiment.get("choices", [])
        if choices:
            self.add("", "Chosen where the paper is silent:", "", *[f"- {inline(c)}" for c in choices])
        for claim in experiment.get("claims", []):
            self.claim(claim)
        if experiment.get("reported"):
            self.add("", "Numbers of the paper's text:", "", "| what | the paper | its words | where |")
            self.add("| --- | --: | --- | --- |")
        for reported in experiment.get("reported", []):
            number = reported.get("number", reported.get("range"))
            number = " to ".join(f"{n:g}" for n in number) if isinstance(number, list) else f"{number:g}"
            self.add(
                f"| `{reported['value']}` | {number} | {inline(reported['text'])} "
                f"| {inline(reported['source'])} |"
            )

    def claim(self, claim: dict[str, Any]) -> None:
        found = self.found.claims.get(claim["id"])
        self.add("", f"(claim-{claim['id'].lower()})=", "", f"### {claim['id']}: {inline(claim['claim'])}", "")
        self.add(f"Holds if: {inline(claim['expected'])}.")
        if found:
            everywhere = found["held_in_readings"] == found["readings_judged"]
            self.add(
                "",
                f"**{found['verdict'].capitalize()}** under the plain reading; it holds in "
                f"{readings_count(found)}.",
                "",
            )
            self.add(*measured(found))
            for decision in found["deciding"]:
                choices = "; ".join(f"{c['choice']}: {c['instead']}" for c in decision["choices"])
                self.add(
                    f"- Decided by a reading, {inline(choices)}: `{decision['check']}` is then "
                    f"{decision['verdict']}, {inline(decision['instead'])} instead of "
                    f"{inline(decision['plain'])}."
                )
            if everywhere:
                return
        if "explanation" in claim:
            head = "" if found else "Where it does not hold: "
            self.add("", head + inline(claim["explanation"]))

    def readings(self, readings: list[dict[str, Any]]) -> None:
        if not readings:
            return
        self.add(
            "",
            "## What the paper leaves open",
            "",
            "Each choice with its reasonable values and their reasons. The plain reading takes the value "
            "in bold; claims are judged under the others too.",
        )
        for reading in readings:
            values = reading["values"]
            plain = min(values, key=lambda value: BASES.index(value["basis"]))
            self.add("", f"**{inline(reading['choice'])}**. {inline(reading.get('silent', ''))}", "")
            for value in values:
                label = inline(value["label"])
                label = f"**{label}**" if value is plain else label
                self.add(f"- {label}: {value['basis']}; {inline(value['source'])}.")


def readings_count(claim: dict[str, Any]) -> str:
    """In how many readings a claim holds, and what the others are."""
    count = f"{claim['held_in_readings']} of {claim['readings_judged']} readings"
    words = [(claim["in_readings"][key], key.replace("_", " ")) for key in ("tie", "not_held", "inconclusive")]
    others = ", ".join(f"{n} {word}" for n, word in words if n)
    count += f" ({others})" if others and claim["readings_judged"] > 1 else ""
    more = claim["readings_left_out"] + claim.get("readings_to_come", 0)
    return f"{count}, {more} not judged" if more else count


def measured(claim: dict[str, Any]) -> list[str]:
    """Measured values: every check if they are few, else those that did not hold."""
    checks = claim["checks"]
    texts = claim["measured"].split("; ")
    if len(texts) != len(checks):
        return [f"- {inline(claim['measured'])}"]
    rows = [(check["verdict"], f"- {inline(text)}") for check, text in zip(checks, texts)]
    if len(rows) <= FEW:
        return [f"{row} ({verdict})" for verdict, row in rows]
    held = sum(1 for verdict, _ in rows if verdict == "held")
    others = [f"{row} ({verdict})" for verdict, row in rows if verdict != "held"]
    more = [f"- and {len(others) - FEW} more"] if len(others) > FEW else []
    return [f"- {held} of {len(rows)} checks held", *others[:FEW], *more]


# More checks than these are not all listed.
FEW = 4


def readings_of(file: Path, experiment: dict[str, Any]) -> list[dict[str, Any]]:
    """The readings of an experiment, its own and those it shares."""
    found = []
    for reading in experiment.get("readings", []):
        if "from" not in reading:
            found.append(reading)
            continue
        with (file.parent / reading["from"]).open("rb") as shared:
            known = {r["name"]: r for r in tomllib.load(shared)["readings"]}
        names = reading["names"]
        found += [known[name] for name in ([names] if isinstance(names, str) else names)]
    return found
