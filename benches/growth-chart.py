#!/usr/bin/env python3
"""Draws docs/img/growth.svg, the cost of a packet-hop against the number of flows, from
docs/growth.csv.

    benches/growth-chart.py
"""

import csv
import math
import pathlib

ROOT = pathlib.Path(__file__).resolve().parent.parent
WIDTH, HEIGHT = 760, 340
LEFT, RIGHT, TOP, BOTTOM, GAP = 56, 32, 60, 48, 56
COLOUR = "#1f6fb4"


def line(points):
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in points)


def main():
    with open(ROOT / "docs" / "growth.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    topologies = list(dict.fromkeys(row["topology"] for row in rows))
    most = max(float(row["ns_per_packet_hop"]) for row in rows)
    top = math.ceil(most / 200) * 200
    panel = (WIDTH - LEFT - RIGHT - GAP * (len(topologies) - 1)) / len(topologies)
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        'font-family="sans-serif" font-size="12" fill="#222">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
    ]
    y_of = lambda ns: HEIGHT - BOTTOM - ns / top * (HEIGHT - TOP - BOTTOM)
    for number, topology in enumerate(topologies):
        left = LEFT + number * (panel + GAP)
        x_of = lambda flows: left + 12 + (math.log10(flows) - 1) / 4 * (panel - 24)
        out.append(f'<text x="{left}" y="{TOP - 20}" font-weight="bold">{topology}</text>')
        for ns in range(0, top + 1, 200):
            y = y_of(ns)
            out.append(f'<line x1="{left}" x2="{left + panel:.1f}" y1="{y:.1f}" y2="{y:.1f}" '
                       'stroke="#ddd"/>')
            out.append(f'<text x="{left - 6}" y="{y + 4:.1f}" text-anchor="end">{ns}</text>')
        for power in range(1, 6):
            label = f"{10**power:,}".replace(",", " ")
            out.append(f'<text x="{x_of(10**power):.1f}" y="{HEIGHT - BOTTOM + 18}" '
                       f'text-anchor="middle">{label}</text>')
        out.append(f'<text x="{left + panel / 2:.1f}" y="{HEIGHT - 10}" '
                   'text-anchor="middle">flows</text>')
        points = [(x_of(int(row["flows"])), y_of(float(row["ns_per_packet_hop"])))
                  for row in rows if row["topology"] == topology]
        out.append(f'<polyline points="{line(points)}" fill="none" stroke="{COLOUR}" '
                   'stroke-width="2"/>')
        out += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="{COLOUR}"/>' for x, y in points]
    out.append(f'<text x="{LEFT}" y="14">CPU nanoseconds per packet-hop</text>')
    out.append("</svg>")
    (ROOT / "docs" / "img" / "growth.svg").write_text("\n".join(out) + "\n")


if __name__ == "__main__":
    main()
