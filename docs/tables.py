#!/usr/bin/env python3
"""Writes the generated tables of a page anew, and the numbers that other pages cite from them.

    docs/tables.py PAGE.md FOLDER [CITING.md ...]
    docs/tables.py --check PAGE.md CITING.md ...

FOLDER is that of `windward reproduce --out`. --check needs no folder: it compares the citations with the tables
that stand in the page, prints those that differ, and ends with 1 if there are any.

A table stands between `<!-- table: SPEC -->` and `<!-- end -->`, where SPEC is JSON. Of runs:

    {"id": "upwind-alone", "rows": "protocol", "columns": "loss", "show": [["share", 1, 2]]}

has a row for each label of one axis and a column for each label of another, or one only, and for each metric of `show`,
with its factor and digits. Further keys: `only`, labels by axis; `spread`, which adds the least and the largest run; and
`name`, the heading of the rows. Of claims: {"claims": "upwind-"}, those whose names begin so, with the checks that do not
hold. Of an evaluation: {"answers": "rfc9743"}, the criteria that are not met, from FOLDER/rfc9743/evaluation.json.
`<!-- made: TEXT -->` to `<!-- end -->` has the date, the version and the command.

A citation is a number before a comment with the place of its cell: `0.99<!-- upwind-alone, upwind, 5% -->` is the
table, the row and the column. `<!-- least: upwind-alone, upwind, * -->` is the least number of the row, and `most:`
the largest. A check that does not hold is `<!-- claims, ratio, LABEL -->`.
"""

import csv
import datetime
import json
import re
import statistics
import sys
from pathlib import Path

TABLE = re.compile(r"<!-- (table|made): (.*?) -->\n(.*?)<!-- end -->", re.DOTALL)
CITED = re.compile(r"(-?\d[\d.]*)<!-- ((?:least|most): )?([\w-]+), ([^,>]+), ([^,>]+) -->")
FAILED = re.compile(r"(\w[\w ]*), ([^:;|]+): ([\d.e+-]+) \([\d.e+-]+\)")


def cells(folder, spec):
    """The values of each metric by the labels of row and column, and these labels in their order."""
    rows, columns = spec["rows"], spec.get("columns")
    found, order = {}, ({}, {})
    with (folder / f"{spec['id']}.csv").open(encoding="utf-8", newline="") as file:
        for run in csv.DictReader(file):
            if any(run[axis] not in labels for axis, labels in spec.get("only", {}).items()):
                continue
            place = (run[rows], run[columns] if columns else "")
            for known, label in zip(order, place, strict=True):
                known[label] = None
            for metric, factor, _ in spec["show"]:
                if run[metric]:
                    found.setdefault((*place, metric), []).append(factor * float(run[metric]))
    return found, *map(list, order)


def shown(values, digits, spread):
    if not values:
        return ""
    text = f"{statistics.fmean(values):.{digits}f}"
    spread = spread and len(values) > 1
    return text + (f" ({min(values):.{digits}f} - {max(values):.{digits}f})" if spread else "")


def runs(folder, spec):
    found, rows, columns = cells(folder, spec)
    several = len(spec["show"]) > 1
    heads = [" ".join(filter(None, (column, metric if several or not column else "")))
             for column in columns for metric, _, _ in spec["show"]]
    yield [spec.get("name", ""), *heads]
    yield ["---", *("--:" for _ in heads)]
    for row in rows:
        yield [row, *(shown(found.get((row, column, metric)), digits, spec.get("spread"))
                      for column in columns for metric, _, digits in spec["show"])]


def claims(folder, spec):
    yield ["claim", "checks that hold", "inconclusive", "that do not: measured (bound)"]
    yield ["---", "--:", "--:", "---"]
    for claim in json.loads((folder / "claims.json").read_text("utf-8")):
        if not claim["id"].startswith(spec["claims"]):
            continue
        by = {}
        for check in claim["checks"]:
            by.setdefault("held" if check["verdict"] == "tie" else check["verdict"], []).append(check)
        failed = (f"{label(check)}: {check['left']:.2g} ({check['right']:.2g})" for check in by.get("not held", ()))
        held = f"{len(by.get('held', ()))} of {len(claim['checks'])}"
        yield [claim["claim"], held, str(len(by.get("inconclusive", ())) or ""), "; ".join(failed)]


def label(check):
    """The metric of the left side, and its last label."""
    metric, labels = re.match(r"(\w+)\[(?:[^\],]*, )?([^\]]*)\]", check["check"]).groups()
    return f"{metric.replace('_', ' ')}, {labels}"


def answers(folder, spec):
    """A row for each criterion that is not met or undecided, with the claims that decide it; first all in one line."""
    criteria = json.loads((folder / spec["answers"] / "evaluation.json").read_text("utf-8"))["criteria"]
    by = {}
    for criterion in criteria:
        answer = criterion["answers"][0]["answer"]
        if answer:
            by.setdefault(answer, []).append(criterion)
    asked = sum(map(len, by.values()))
    yield ["section", "criterion", "answer", "measured (bound)"]
    yield ["---", "---", "---", "---"]
    yield ["all", f"{len(by.get('meets', ()))} of {asked} are met", "", ""]
    for criterion in criteria:
        answer = criterion["answers"][0]["answer"]
        if not answer or answer in ("meets", "not applicable"):
            continue
        decide = (claim["answers"][0] for claim in criterion["claims"] if claim["answers"][0]["answer"] == answer)
        measured = (f"{claim['quantity']}: {claim['value']} ({claim['bound']})" for claim in decide)
        yield [criterion["section"], criterion["title"], answer, "; ".join(measured)]


def made(folder, text):
    manifest = folder / "manifest.json"
    found = json.loads(manifest.read_text("utf-8"))
    day = datetime.date.fromtimestamp(manifest.stat().st_mtime)
    seeds = sorted({experiment["seed"] for experiment in found["experiments"]})
    first = ", ".join(map(str, seeds))
    return f"Made on {day} by windward {found['version']}: `{text}`. Seeds count up from {first}.\n"


def filled(page, folder):
    def fill(match):
        kind, text, _ = match.groups()
        if kind == "made":
            body = made(folder, text)
        else:
            spec = json.loads(text)
            maker = next((m for key, m in (("claims", claims), ("answers", answers)) if key in spec), runs)
            body = "".join(f"| {' | '.join(line)} |\n" for line in maker(folder, spec))
        return f"<!-- {kind}: {text} -->\n\n{body}\n<!-- end -->"

    return TABLE.sub(fill, page)


def numbers(page):
    """The numbers of a page's tables as they are written: by the table, its rows and its columns."""
    found = {}
    for kind, text, body in TABLE.findall(page):
        if kind == "made":
            continue
        spec = json.loads(text)
        if "claims" in spec:
            found |= {("claims", metric, place): number for metric, place, number in FAILED.findall(body)}
            continue
        lines = [[cell.strip() for cell in line.strip("|").split("|")] for line in body.strip().splitlines()]
        heads, _, *rows = lines
        for row, *values in rows:
            found |= {(spec.get("id"), row, head): value.split(" ")[0]
                      for head, value in zip(heads[1:], values, strict=True) if value}
    return found


def cited(citing, found, unknown):
    """The text with the numbers of the tables in its citations; those without a table are added to `unknown`."""

    def cite(match):
        _, which, *place = match.groups()
        fits = [number for cell, number in found.items()
                if all(wanted in ("*", label) for wanted, label in zip(place, cell, strict=True))]
        if not fits or (len(fits) > 1 and not which):
            unknown.append(", ".join(place))
            return match[0]
        number = (min if (which or "").startswith("least") else max)(fits, key=float)
        return number + match[0][len(match[1]):]

    return CITED.sub(cite, citing)


def main():
    given = sys.argv[1:]
    check = given[:1] == ["--check"]
    if len(given) < 2:
        sys.exit(__doc__)
    page = Path(given[1 if check else 0])
    text = page.read_text("utf-8")
    if not check:
        text = filled(text, Path(given[1]))
        page.write_text(text, "utf-8")
    found, wrong = numbers(text), []
    for citing in map(Path, given[2:]):
        unknown = []
        before = citing.read_text("utf-8")
        after = cited(before, found, unknown)
        wrong += [f"{citing}: no such cell: {place}" for place in unknown]
        if not check:
            citing.write_text(after, "utf-8")
        elif after != before:
            pairs = zip(before.splitlines(), after.splitlines(), strict=True)
            wrong += [f"{citing}:{n}: {old}\n  must be: {new}" for n, (old, new) in enumerate(pairs, 1) if old != new]
    if wrong:
        sys.exit("\n".join(wrong))


if __name__ == "__main__":
    main()
