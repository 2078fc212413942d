#!/usr/bin/env python3
"""Draws the house: which file of the workspace takes names from which.

    docs/house.py                 lists the crates, their lines and what they depend on
    docs/house.py --check         ends with 1 if files import each other in a circle
    docs/house.py --svg FILE      draws the crates as boxes, on floors, with their dependencies

An arrow goes from a file to the file that defines a name that it imports (`use crate::..`,
`use super::..`, `use child::..`); re-exports are followed to the definition. `mod` and `pub use`
draw no arrow; neither do tests, nor a module that is put together from its own children.
"""

import argparse
import re
import sys
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TEXT = re.compile(
    r"""
    r\#"(?s:.*?)"\#             # a raw string
    | //[^\n]*                  # a comment
    | "(?s:\\.|[^"\\])*"        # a string
    | '(?:\\'|\\[^'\n]+|[^'\\\n])'  # a character; a lifetime has no second quote
    """,
    re.VERBOSE,
)
TEST = re.compile(r"(^|/)(tests?|testing|testbed|fuzzing|harness)(/|\.rs$)")


def strip(text):
    """The code without comments, strings and blocks of tests."""
    # In one pass: a quote may stand in a comment, slashes in a string, and either as a character.
    text = TEXT.sub(lambda match: '""' if '"' in match[0] else "", text)
    out, at = [], 0
    for match in re.finditer(r"#\[cfg\((all\()?test[^\]]*\)\]\s*(pub(\([a-z]+\))?\s+)?(mod|use|fn|impl|const|static)\b[^;{]*", text):
        if match.start() < at:
            continue
        out.append(text[at : match.start()])
        end = match.end()
        if end < len(text) and text[end] == "{":
            depth = 0
            while end < len(text):
                depth += (text[end] == "{") - (text[end] == "}")
                end += 1
                if depth == 0:
                    break
        at = end
    out.append(text[at:])
    return "".join(out)


def leaves(tree, prefix=()):
    """The paths of a use tree: `a::{b, c::d as e}` gives (a, b, name b), (a, c, d, name e)."""
    tree = tree.strip()
    brace = tree.find("{")
    if brace < 0:
        path, _, alias = tree.partition(" as ")
        parts = tuple(p.strip() for p in path.split("::") if p.strip())
        if parts and parts[-1] == "self":
            parts = parts[:-1]
        if prefix + parts:
            yield prefix + parts, (alias.strip() or (prefix + parts)[-1])
        return
    head = tuple(p.strip() for p in tree[:brace].split("::") if p.strip())
    inner, depth, start = tree[brace + 1 : tree.rfind("}")], 0, 0
    for index, char in enumerate(inner + ","):
        depth += (char == "{") - (char == "}")
        if char == "," and depth == 0:
            if inner[start:index].strip():
                yield from leaves(inner[start:index], prefix + head)
            start = index + 1


class Crate:
    """The files of a crate by module path, and what each imports, re-exports and defines."""

    def __init__(self, name, src):
        self.name, self.files, self.uses, self.exports, self.defines = name, {}, {}, {}, {}
        for path in sorted(src.rglob("*.rs")):
            relative = path.relative_to(src)
            if TEST.search(str(relative)):
                continue
            parts = list(relative.with_suffix("").parts)
            if parts[-1] in ("mod", "lib", "main"):
                parts.pop()
            self.files[tuple(parts)] = path
        for module, path in self.files.items():
            text = strip(path.read_text())
            uses, exports = [], {}
            for public, tree in re.findall(r"^[ \t]*(pub(?:\([a-z]+\))?\s+)?use\s+([^;]+);", text, re.M):
                for parts, name in leaves(tree):
                    if public:
                        exports[name] = parts
                    else:
                        uses.append(parts)
            self.uses[module], self.exports[module] = uses, exports
            self.defines[module] = set(
                re.findall(r"\b(?:struct|enum|trait|fn|type|const|static|macro_rules!|union)\s+([A-Za-z_]\w*)", text)
            ) | set(re.findall(r"^\s*(?:config|state)\s+(\w+);", text, re.M))

    def absolute(self, module, parts):
        """The path of a use from the root of the crate; None if it leads out of it."""
        if parts[0] == "crate":
            return parts[1:]
        if parts[0] == "self":
            return module + parts[1:]
        base, rest = module, parts
        if rest[0] == "super":
            while rest and rest[0] == "super":
                base, rest = base[:-1], rest[1:]
            return base + rest
        return module + parts if module + parts[:1] in self.files else None

    def definition(self, path, seen=()):
        """The module of the file that defines the name at `path`."""
        for cut in range(len(path), -1, -1):
            module = path[:cut]
            if module not in self.files:
                continue
            rest = path[cut:]
            exported = self.exports[module].get(rest[0]) if rest else None
            if exported and rest[0] not in self.defines[module] and (module, rest) not in seen:
                target = self.absolute(module, exported)
                if target is not None:
                    return self.definition(target + rest[1:], (*seen, (module, rest)))
                return None
            return module
        return None

    def arrows(self):
        """From module to the modules that it takes names from."""
        arrows = defaultdict(set)
        for module, uses in self.uses.items():
            for parts in uses:
                path = self.absolute(module, parts)
                target = self.definition(path) if path is not None else None
                # A module that is put together from its own children takes nothing from beside it.
                if target is not None and target != module and target[:-1] != module:
                    arrows[module].add(target)
        return arrows


def circles(arrows):
    """The strongly connected components of more than one node (Tarjan)."""
    index, low, stack, on, found = {}, {}, [], set(), []

    def visit(node):
        index[node] = low[node] = len(index)
        stack.append(node)
        on.add(node)
        for target in arrows.get(node, ()):
            if target not in index:
                visit(target)
                low[node] = min(low[node], low[target])
            elif target in on:
                low[node] = min(low[node], index[target])
        if low[node] == index[node]:
            circle = []
            while True:
                other = stack.pop()
                on.discard(other)
                circle.append(other)
                if other == node:
                    break
            if len(circle) > 1:
                found.append(sorted(circle))

    for node in list(arrows):
        if node not in index:
            visit(node)
    return found


def workspace():
    """The crates by directory name, and which depend on which."""
    crates, needs = {}, {}
    manifests = {p.parent.name: p.read_text() for p in sorted((ROOT / "crates").glob("*/Cargo.toml"))}
    names = {re.search(r'^name = "([^"]+)"', text, re.M)[1]: folder for folder, text in manifests.items()}
    names["windward-cli"] = "cli"
    for folder, text in manifests.items():
        crates[folder] = Crate(folder, ROOT / "crates" / folder / "src")
        body = text.split("[dev-dependencies]")[0].split("[build-dependencies]")[0]
        body += "".join(re.findall(r"\[target[^\]]*dependencies\][^\[]*", text))
        found = {names[n] for n in re.findall(r"^(windward[\w-]*)\s*[.=]", body, re.M) if n in names}
        needs[folder] = found - {folder}
    return crates, needs


def floors(needs):
    """The floor of each box: one above the highest of those that it stands on."""
    floor = {}

    def of(node):
        if node not in floor:
            floor[node] = 1 + max(map(of, needs[node]), default=0)
        return floor[node]

    for node in sorted(needs):
        of(node)
    return floor


def direct(needs):
    """The dependencies that no other dependency implies."""

    def reach(node):
        return needs[node].union(*map(reach, needs[node]))

    return {node: targets.difference(*map(reach, targets)) for node, targets in needs.items()}


def draw(needs, lines, title, note):
    """An SVG: boxes on floors, with arrows down to what a box takes names from."""
    floor, arrows = floors(needs), direct(needs)
    rows = defaultdict(list)
    for node in sorted(needs):
        rows[floor[node]].append(node)
    # Each box stands near the middle of the boxes below it.
    place = {}
    for level in sorted(rows):
        row = rows[level]
        row.sort(key=lambda n: sum(place[t][0] for t in arrows[n] if t in place) / max(1, len(arrows[n])))
        for i, node in enumerate(row):
            place[node] = ((i + 0.5) / len(row), level)
    width = max(760, 150 * max(len(r) for r in rows.values()))
    height, box = 110 * len(rows) + 70, (132, 46)
    top = max(rows)

    def at(node):
        x, level = place[node]
        return 20 + x * (width - 40), 60 + (top - level) * 110 + box[1] / 2

    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif">',
        '<rect width="100%" height="100%" fill="#fff"/>',
        '<marker id="a" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        '<path d="M0 0L8 4L0 8z" fill="#667"/></marker>',
        f'<text x="20" y="26" font-size="17" fill="#222">{title}</text>',
        f'<text x="20" y="45" font-size="12" fill="#667">{note}</text>',
    ]
    for node in sorted(needs):
        for target in sorted(arrows[node]):
            (x, y), (u, v) = at(node), at(target)
            mid = (y + v) / 2
            out.append(
                f'<path d="M{x:.0f} {y + 23:.0f}C{x:.0f} {mid:.0f} {u:.0f} {mid:.0f} {u:.0f} {v - 23:.0f}" '
                f'fill="none" stroke="#889" stroke-width="1.4" marker-end="url(#a)"/>'
            )
    for node in sorted(needs):
        x, y = at(node)
        out.append(
            f'<rect x="{x - box[0] / 2:.0f}" y="{y - 23:.0f}" width="{box[0]}" height="{box[1]}" rx="6" '
            'fill="#eef3f8" stroke="#357"/>'
            f'<text x="{x:.0f}" y="{y - 2:.0f}" font-size="13" text-anchor="middle" fill="#123">{node}</text>'
            f'<text x="{x:.0f}" y="{y + 14:.0f}" font-size="11" text-anchor="middle" fill="#567">{lines[node]:,} lines</text>'
        )
    return "\n".join([*out, "</svg>", ""])


def count(path):
    return len(path.read_text().splitlines())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="end with 1 if there is a circle")
    parser.add_argument("--svg", metavar="FILE", type=Path, help="draw")
    options = parser.parse_args()
    sys.setrecursionlimit(10000)
    crates, needs = workspace()
    lines = {name: sum(count(p) for p in crate.files.values()) for name, crate in crates.items()}
    found = 0
    for crate in crates.values():
        for circle in circles(crate.arrows()):
            found += 1
            names = ", ".join(str(crate.files[module].relative_to(ROOT)) for module in circle)
            print(f"circle of {len(circle)} files: {names}")
    if options.svg:
        note = "An arrow leads to the crate that is depended on; implied ones are left out."
        options.svg.write_text(draw(needs, lines, "The house", note))
    if not options.check and not options.svg:
        floor = floors(needs)
        for name in sorted(needs, key=lambda n: (floor[n], n)):
            print(f"floor {floor[name]}  {name:12} {lines[name]:6} lines  on {', '.join(sorted(needs[name])) or '-'}")
    if options.check:
        print(f"{len(crates)} crates, {sum(len(c.files) for c in crates.values())} files, {found} circles")
        sys.exit(found > 0)


if __name__ == "__main__":
    main()
