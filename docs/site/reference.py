"""The reference, from what the program knows of itself."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import windward

if TYPE_CHECKING:
    from stage import Stage

# Purpose of the parts of an axis; the order is that of the package.
AXES = {
    "window": "How cwnd grows and shrinks.",
    "recovery": "Loss detection and retransmission.",
    "discrimination": "Whether a loss means congestion or corruption.",
    "feedback": "Information in packets and ACKs.",
    "aqm": "Drops and marks of a queue, and the order in which it sends: `aqm` of a link.",
    "router": "Feedback that a router writes into packets: `router` of a link.",
    "media": "The rate of media that adapts: `controller` of the `media` of flows.",
}

# The package, by what people look for.
PYTHON = {
    "Scenarios and runs": ["Scenario", "Run", "Table", "Simulation", "ScenarioError"],
    "Experiments and papers": [
        "Experiment",
        "sweep",
        "SweepData",
        "WorkerError",
        "reproduce",
        "Reproduction",
        "worlds",
        "Worlds",
        "evaluate",
        "Evaluation",
    ],
    "Outside programs": ["emulate", "Emulation", "Command", "compare", "Comparison"],
    "Searches": ["search", "Search", "Trial"],
    "Parts written in Python": [
        "Controller",
        "Discriminator",
        "LossModel",
        "Aqm",
        "ControllerSetup",
        "Path",
        "Ack",
        "Congestion",
        "Reset",
        "Loss",
        "Packet",
        "QueueSetup",
        "Queue",
        "Steered",
        "controller",
        "ExpressionController",
        "run_batch",
        "BatchController",
        "BatchSetup",
        "Batch",
    ],
    "Protocols and parts": ["protocols", "parts", "Protocol", "Part", "Parameter", "Protocols", "Parts"],
    "Units": ["Unit"],
}

# Data: neither a class nor a function.
DATA = {
    "protocols": "Every protocol by name.",
    "parts": "Every part by axis and name.",
}

ROOT = Path(__file__).resolve().parents[2]


def write(stage: Stage, rust_pages: Path, report: Path) -> None:
    schema = json.loads(windward_output("schema"))
    for of in ("scenario", "readings", "suite", "router", "programs"):
        printed = json.loads(windward_output("schema", of))
        stage.write(f"schema/{of}.schema.json", json.dumps(printed, indent=1))
    stage.write("reference/parts.md", parts())
    stage.write("reference/keys.md", keys(schema))
    stage.write("reference/cli.md", cli())
    stage.write("reference/python.md", python())
    stage.write("reference/rust.md", rust(rust_pages))
    stage.write("reference/schema.md", SCHEMA)
    stage.write("papers.md", papers(stage, report))


def windward_output(*arguments: str) -> str:
    """Output of the program, in lines of at most 80 characters."""
    environment = {**os.environ, "COLUMNS": "80", "NO_COLOR": "1"}
    command = [sys.executable, "-m", "windward", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
    return done.stdout


def cell(text: str) -> str:
    """A text in a table of Markdown."""
    for mark in "\\|*_<[":
        text = text.replace(mark, "\\" + mark)
    return text


def sentence(what: str, source: str) -> str:
    return f"{cell(what[:1].upper() + what[1:])}. Source: {cell(source)}."


def parts() -> str:
    if set(windward.parts) != set(AXES):
        raise SystemExit(f"the axes are {list(windward.parts)}: describe them in reference.py")
    page = [
        "# Parts",
        "",
        "The parts of [protocols](../protocols/index.md) and links, as "
        "`windward list --parts` and `windward.parts` have it. "
        "[Scenario files](../scenarios.md) say how parts are put together, and "
        "[Parts of your own](../extending.md) how to add one.",
    ]
    for axis, named in windward.parts.items():
        page += ["", f"## {axis}", "", AXES[axis]]
        for part in named.values():
            page += ["", f"### {axis}: {part.name}", "", sentence(part.what, part.source)]
            users = [
                f"[{p.name}](../protocols/{p.name}.md)"
                for p in windward.protocols.values()
                if getattr(p, axis, None) == part.name
            ]
            if users and len(users) <= 12:
                page += ["", f"In {', '.join(users)}."]
            if part.parameters:
                page += ["", "| key | default | meaning |", "| --- | --- | --- |"]
            for parameter in part.parameters:
                texts = (parameter.meaning, parameter.unit, parameter.range)
                meaning = "; ".join(cell(text) for text in texts if text)
                page.append(f"| `{parameter.key}` | {cell(parameter.default)} | {meaning} |")
    return "\n".join(page) + "\n"


def keys(schema: dict[str, Any]) -> str:
    """Every table of the schema with its keys."""
    page = [
        "# Every key",
        "",
        "All keys of scenario and experiment files, table by table, from the table that the program "
        "itself reads files by; a key that is not here is an error. "
        "[Scenario files](../scenarios.md) and [experiment files](../experiments.md) explain them.",
        "",
        "## The whole file",
        "",
        *rows(schema["properties"], ""),
    ]
    experiment = schema["properties"]["experiment"]
    for name, table in sorted(schema["$defs"].items()):
        page += ["", f"## {name}", "", *rows(table["properties"], "")]
    page += ["", "## experiment", "", *rows(experiment["properties"], "experiment.")]
    page += inner_tables("experiment", experiment)
    return "\n".join(page) + "\n"


def rows(properties: dict[str, Any], prefix: str) -> list[str]:
    lines = ["| key | default | meaning |", "| --- | --- | --- |"]
    for name, key in properties.items():
        stands = form(key, prefix + name)
        meaning = cell(key.get("description", ""))
        if stands != "value":
            meaning += f" ({stands})"
        lines.append(f"| `{name}` | {cell(key.get('x-default', ''))} | {meaning} |")
    return lines


def inner_tables(prefix: str, table: dict[str, Any]) -> list[str]:
    """The tables below one of `[experiment]`."""
    page: list[str] = []
    for name, key in table["properties"].items():
        inner = below(key)
        if inner:
            heading = f"{prefix}.{name}"
            page += ["", f"## {heading}", "", *rows(inner["properties"], heading + ".")]
            page += inner_tables(heading, inner)
    return page


def below(key: dict[str, Any]) -> dict[str, Any] | None:
    """The table that stands under a key, or in a list there."""
    for candidate in (key, key.get("items", {}), *key.get("items", {}).get("anyOf", [])):
        if "properties" in candidate:
            return candidate
    return None


def form(key: dict[str, Any], path: str) -> str:
    """Describes the permitted values of a key."""
    if "$ref" in key:
        name = key["$ref"].rpartition("/")[2]
        return f"table [{name}](#{name})"
    if "anyOf" in key:
        return " or ".join(dict.fromkeys(form(each, path) for each in key["anyOf"]))
    if "enum" in key:
        words = [f"`{word}`" for word in key["enum"] if word]
        return ", ".join(words) if len(words) <= 8 else "one of its names"
    if "const" in key:
        return str(key["const"])
    if key.get("type") == "array":
        inner = key.get("items", {})
        if below(key):
            return f"tables [{path}](#{path.replace('.', '')})"
        return f"list of {form(inner, path)}" if inner else "list"
    if "properties" in key:
        return f"table [{path}](#{path.replace('.', '')})"
    if isinstance(key.get("type"), list):
        return "value" if "array" in key["type"] else " or ".join(map(plain, key["type"]))
    return plain(key.get("type", "value"))


def plain(kind: str) -> str:
    words = {"string": "text", "integer": "whole number", "boolean": "`true` or `false`", "object": "table"}
    return words.get(kind, kind)


def papers(stage: Stage, report: Path) -> str:
    """The papers, with their experiment files and, if there is a report, their pages in it."""
    there = (report / "index.html").exists()
    whole = 'The verdicts and figures are in <a href="report/index.html">its report</a>' if there else (
        "This site was built without a report, which has the verdicts and figures"
    )
    page = [
        "# The five papers",
        "",
        "`windward reproduce` repeats the figures of these papers and judges their claims. "
        f"{whole}; [How to read the report](report.md) says what its words mean.",
        "",
    ]
    for paper in json.loads(windward_output("reproduce", "--list", "--json", "all")):
        if not paper["authors"]:
            continue
        claims = sum(len(experiment["claims"]) for experiment in paper["experiments"])
        found, name = f"{claims} claims", f"{paper['key']}.html"
        if (report / name).exists():
            found = f'<a href="report/{name}">{found}</a>'
        files = stage.page_of(f"experiments/papers/{paper['key']}")
        page.append(
            f"- **{cell(paper['title'])}**, {cell(paper['authors'])}, {cell(paper['published'])}: {found}, "
            f"[experiment files]({files}), `windward reproduce {paper['key']}`."
        )
    return "\n".join(page) + "\n"


def cli() -> str:
    page = ["# The command line", "", "The output of each command with `--help`.", ""]
    top = windward_output("--help")
    page += ["```text", top.rstrip(), "```"]
    inside = False
    for line in top.splitlines():
        if line.startswith("Commands:"):
            inside = True
        elif inside and not line.strip():
            break
        elif inside and line.startswith("  ") and line[2] != " ":
            command = line.split()[0]
            if command != "help":
                text = windward_output(command, "--help").rstrip()
                page += ["", f"## windward {command}", "", "```text", text, "```"]
    return "\n".join(page) + "\n"


def python() -> str:
    listed = {name for names in PYTHON.values() for name in names}
    units = [name for name in windward.__all__ if isinstance(getattr(windward, name), windward.Unit)]
    missing = set(windward.__all__) - listed - set(units) - {"__version__"}
    page = [
        "# Python API",
        "",
        "The package `windward`, from what it says of itself. [In Python](../python.md) shows how it is "
        "used.",
    ]
    groups = dict(PYTHON)
    if missing:
        groups["More"] = sorted(missing)
    for heading, names in groups.items():
        page += ["", f"## {heading}"]
        if heading == "Units":
            listing = ", ".join(f"`{name}`" for name in units)
            page += ["", f"A number times one of these is a quantity of a scenario: {listing}."]
        for name in names:
            page += ["", f"### {name}", "", "```{eval-rst}", *autodoc(name), "```"]
    modules = {
        "windward.plot": "Charts",
        "windward.env": "Learning agents",
        "windward.multi_env": "Agents that compete",
    }
    for module, heading in modules.items():
        page += ["", f"## {heading}", "", "```{eval-rst}", f".. automodule:: {module}", "   :members:", "```"]
    return "\n".join(page) + "\n"


def autodoc(name: str) -> list[str]:
    thing = getattr(windward, name)
    if isinstance(thing, type):
        exception = issubclass(thing, BaseException)
        return [f".. auto{'exception' if exception else 'class'}:: windward.{name}", "   :members:"]
    if callable(thing):
        return [f".. autofunction:: windward.{name}"]
    return [f".. py:data:: windward.{name}", "", f"   {DATA[name]}"]


SCHEMA = """# Schemas for editors

`windward schema` prints a JSON Schema of scenario and experiment files from the declarations of keys by
which the program reads them. `windward schema KIND` prints those of readings, suites, found worlds, cells in ns-2, the settings of `windward router`, and the programs of `windward compare`. With a schema an
editor completes keys, shows their meaning and marks unknown ones. Only the program checks that values
go together: `windward run` and `windward sweep --dry-run` report that.

The schemas as files: <a href="../schema/scenario.schema.json">scenario</a>,
<a href="../schema/readings.schema.json">readings</a>, <a href="../schema/suite.schema.json">suite</a>,
<a href="../schema/router.schema.json">router</a>,
<a href="../schema/programs.schema.json">programs</a>.

Editors that read TOML with Taplo (VS Code with Even Better TOML, Neovim, Helix, Zed) take it from a comment in the first line
of a file:

```toml
#:schema ./scenario.schema.json
duration = "10s"
```

after

```console
$ windward schema > target/scenario.schema.json
```

[Every key](keys.md) is the same as tables.
"""


def rust(pages: Path) -> str:
    """The crates, with links to the pages of cargo doc if they are there."""
    page = [
        "# Rust API",
        "",
        "The crates of Windward. `cargo doc --workspace --no-deps --document-private-items --open` shows every item; "
        "crates with a link have these pages here.",
        "",
    ]
    for path in sorted((ROOT / "crates").glob("*/Cargo.toml")):
        manifest = tomllib.loads(path.read_text("utf-8"))
        crate, about = manifest["package"]["name"], manifest["package"]["description"]
        library = manifest.get("lib", {}).get("name", crate.replace("-", "_"))
        shown = f"`{crate}`"
        if (pages / library / "index.html").exists():
            shown = f'<a href="../rust/{library}/index.html"><code>{crate}</code></a>'
        page.append(f"- {shown}: {cell(about if isinstance(about, str) else 'The command line.')}")
    page += [
        "",
        "[Architecture](../architecture.md) says what is where, and [one packet's life](../packet.md) how it "
        "works together.",
    ]
    return "\n".join(page) + "\n"
