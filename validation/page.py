#!/usr/bin/env python3
"""Writes the tables of docs/validation.md from the results in this folder.

    validation/page.py             writes them
    validation/page.py --check     exit code 1 if the page differs

ns2/results.csv comes from `ns2/compare.py --write`, compare/agreement.csv from
`compare/agreement.py RUNS.csv --write`, and compare/programs.csv from the tables of `windward compare`.
"""

import csv
import pathlib
import re
import sys

HERE = pathlib.Path(__file__).resolve().parent
PAGE = HERE.parent / "docs" / "validation.md"
NS2 = HERE / "ns2" / "results.csv"
AGREEMENT = HERE / "compare" / "agreement.csv"
PROGRAMS = HERE / "compare" / "programs.csv"
# Columns of agreement.csv about simulations of the same seeds with and without jitter.
SIMULATED = {
    "jitter_100us": "simulated, jitter 100 us",
    "jitter_200us": "200 us",
    "jitter_500us": "500 us",
    "spread": "spread over seeds",
}
TABLE = re.compile(r"(<!-- generated: (\w+) ([^>]+) -->\n).*?(<!-- end -->)", re.S)


def read(path):
    if not path.exists():
        return []
    with path.open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def keep(path, key, columns, rows):
    """Puts rows into a file, in the place of those that have the same values in the columns of the key."""
    kept = {tuple(row[column] for column in key): row for row in [*read(path), *rows]}
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(kept.values())


def percent(loss):
    return f"{100 * float(loss):g} %"


def grid(corner, cells):
    """Table of cells ((row, column), text), in the order of their first appearance."""
    cells = dict(cells)
    columns = list(dict.fromkeys(column for _, column in cells))
    yield "| " + " | ".join([corner, *columns]) + " |"
    yield "|---|" + "--:|" * len(columns)
    for row in dict.fromkeys(row for row, _ in cells):
        yield "| " + " | ".join([row, *(cells.get((row, column), "") for column in columns)]) + " |"


def ratio(row):
    return f"{row['ratio']} ± {row['ratio_half_width']}"


def ns2(topology):
    """Ratios of goodputs, Windward / ns-2, by loss rate."""
    def cell(row):
        name = f"`{row['protocol']}`"
        if row["group"] != "all":
            name += f", {row['group']} flows"
        if row["flows"]:
            name += f", {row['flows']} flow" + "s" * (row["flows"] != "1")
        return (name, percent(row["loss"])), ratio(row)

    rows = [row for row in read(NS2) if row["topology"] == topology]
    return grid("protocol", map(cell, sorted(rows, key=lambda row: float(row["loss"]))))


def eten(agent):
    """The same for the links of eten2004, by bit-error rate."""
    rows = [row for row in read(NS2) if row["topology"] in ("lfn", "sfn", "ltn") and row["ns2_agent"] == agent]
    return grid("link", (((row["topology"], row["loss"]), ratio(row)) for row in rows))


def programs(link):
    """Ratios of goodputs on a real and a simulated link."""
    rows = [row for row in read(PROGRAMS) if row["link"] == link and row["ratio"]]
    return grid("flow", (((f"`{row['flow']}`", percent(row["loss"])), f"{row['ratio']} ± {row['half_width']}")
                         for row in rows))


def agreement(_):
    """Protocols and loss rates that differ from their simulation by more than 5 %, which agreement.py simulates again."""
    rows = read(AGREEMENT)
    differ = {(row["protocol"], row["loss"]) for row in rows if row["spread"]}

    def cells():
        for row in rows:
            if (row["protocol"], row["loss"]) not in differ:
                continue
            name = f"`{row['protocol']}` at {percent(row['loss'])}"
            spread = f"± {row['half_width']}" if row["half_width"] else f"({row['least']} to {row['most']})"
            yield (name, f"real, seeds {row['seeds'].replace('-', ' to ')}"), f"{row['ratio']} {spread}"
            for key, title in SIMULATED.items():
                if row[key]:
                    yield (name, title), row[key]

    return grid("protocol", sorted(cells(), key=lambda cell: cell[0][1] in SIMULATED.values()))


TABLES = {"ns2": ns2, "eten": eten, "programs": programs, "agreement": agreement}


def written():
    """The page with its tables."""
    def table(found):
        lines = TABLES[found[2]](found[3])
        return found[1] + "\n" + "\n".join(lines) + "\n" + found[4]

    return TABLE.sub(table, PAGE.read_text("utf-8"))


def differs():
    return written() != PAGE.read_text("utf-8")


def write():
    PAGE.write_text(written(), encoding="utf-8")


if __name__ == "__main__":
    if "--check" in sys.argv[1:]:
        sys.exit(1 if differs() else 0)
    write()
