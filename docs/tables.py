#!/usr/bin/env python3
"""Writes the generated tables of a page anew, from the folder of a report: docs/tables.py PAGE.md FOLDER

    windward reproduce upwind --out target/upwind
    docs/tables.py docs/upwind-results.md target/upwind

A table stands between `<!-- table: SPEC -->` and `<!-- end -->`, where SPEC is JSON. Of runs:

    {"id": "upwind-alone", "rows": "protocol", "columns": "loss", "show": [["share", 1, 2]]}

has a row for each label of one axis and a column for each label of another, or one only, and for each metric of `show`,
with its factor and digits. Further keys: `only`, labels by axis; `spread`, which adds the least and the largest run; and
`name`, the heading of the rows. Of claims: {"claims": "upwind-"}, those whose names begin so, with the checks that do not
hold. `<!-- made: TEXT -->` to `<!-- end -->` has the date, the version and the command.
"""

import csv
import datetime
import json
import re
import statistics
import sys
from pathlib import Path


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


def made(folder, text):
    manifest = folder / "manifest.json"
    found = json.loads(manifest.read_text("utf-8"))
    day = datetime.date.fromtimestamp(manifest.stat().st_mtime)
    seeds = sorted({experiment["seed"] for experiment in found["experiments"]})
    first = ", ".join(map(str, seeds))
    return f"Made on {day} by windward {found['version']}: `{text}`. Seeds count up from {first}.\n"


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    page, folder = map(Path, sys.argv[1:])

    def fill(match):
        kind, text = match[1], match[2]
        if kind == "made":
            body = made(folder, text)
        else:
            spec = json.loads(text)
            lines = claims(folder, spec) if "claims" in spec else runs(folder, spec)
            body = "".join(f"| {' | '.join(line)} |\n" for line in lines)
        return f"<!-- {kind}: {text} -->\n\n{body}\n<!-- end -->"

    filled = re.sub(r"<!-- (table|made): (.*?) -->\n.*?<!-- end -->", fill, page.read_text("utf-8"), flags=re.DOTALL)
    page.write_text(filled, "utf-8")


if __name__ == "__main__":
    main()
