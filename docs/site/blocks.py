"""Runs what the pages of the site print: blocks.py [--only PAGE ..] [--except PAGE ..] [--home DIR]

- console and sh: every command, in one shell a page, in the folder of the repository;
- python: every block of a page in one namespace, `>>>` blocks as doctests;
- toml: checked against the JSON Schema, and built by the program if it is a whole scenario or experiment;
- rust: must stand so in a file that the page links to, which the tests of the repository compile;
- text, blocks without a language, and directives of Sphinx: skipped, since they are not code.

A block under a line `<!-- not run: REASON -->` is counted as such; the site prints the reason. What
`windward reproduce` is told to do is only looked up, since another step of CI does it all, and an
evaluation, which takes minutes, is only planned.

The last line is `N passed, N failed`.
"""

from __future__ import annotations

import argparse
import doctest
import os
import re
import shlex
import subprocess
import sys
import time
import traceback
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FENCE = re.compile(r"^```([\w{}-]*)")
NOT_RUN = re.compile(r"^<!-- not run: (.+) -->$")
LINK = re.compile(r"\]\(([^)#\s]+\.rs)\)")


@dataclass
class Block:
    page: Path
    line: int
    language: str
    text: str
    not_run: str | None

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line} {self.language}"


def blocks_of(page: Path) -> list[Block]:
    blocks: list[Block] = []
    start: int | None = None
    language = ""
    not_run = None
    lines = page.read_text("utf-8").split("\n")
    for number, line in enumerate(lines, 1):
        fence = FENCE.match(line)
        if start is None and fence:
            start, language = number, fence[1]
            before = NOT_RUN.match(lines[number - 2]) if number > 1 else None
            not_run = before[1] if before else None
        elif start is not None and line.strip() == "```":
            blocks.append(Block(page, start, language, "\n".join(lines[start : number - 1]) + "\n", not_run))
            start = None
    if start is not None:
        raise SystemExit(f"{page}:{start}: a block without an end")
    return blocks


def pages() -> list[Path]:
    """All pages of the site, those that stage.py made included, if it has run."""
    docs = ROOT / "docs"
    written = [path for path in sorted(docs.rglob("*.md")) if not path.is_relative_to(docs / "site")]
    written += [ROOT / name for name in ("ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md")]
    return written + sorted((ROOT / "target" / "site-sources" / "reference").glob("*.md"))


class Runner:
    """Runs the blocks of pages, and keeps what it says of each page together."""

    def __init__(self, home: Path | None) -> None:
        self.home = home
        self.said: list[str] = []
        self.passed = 0
        self.not_run = 0
        self.failures: list[str] = []

    def note(self, block: Block, wrong: str | None) -> None:
        if wrong is None:
            self.passed += 1
            return
        self.failures.append(str(block))
        self.said.append(f"FAILED: {block}\n{wrong}")

    def page(self, page: Path) -> None:
        blocks = []
        for block in blocks_of(page):
            if block.not_run is None:
                blocks.append(block)
            else:
                self.not_run += 1
                self.said.append(f"not run: {block}: {block.not_run}")
        self.shell([block for block in blocks if block.language in ("console", "sh")])
        self.python([block for block in blocks if block.language == "python"])
        for block in blocks:
            if block.language == "toml":
                self.note(block, toml(block))
            elif block.language == "rust":
                self.note(block, rust(block))
            elif block.language not in ("console", "sh", "python", "text", "") and "{" not in block.language:
                self.note(block, f"no way to check {block.language}")

    def shell(self, blocks: list[Block]) -> None:
        """All commands of a page in one shell, so that a virtual environment stays activated."""
        if not blocks:
            return
        environment = dict(os.environ)
        if self.home is None:
            # The windward of this environment.
            environment["PATH"] = f"{Path(sys.executable).parent}:{environment['PATH']}"
        else:
            environment["HOME"] = str(self.home)
        shell = subprocess.Popen(
            ["bash"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=ROOT,
            env=environment,
        )
        assert shell.stdin and shell.stdout
        for block in blocks:
            wrong = None
            try:
                printed = commands(block)
            except ValueError as error:
                printed, wrong = [], str(error)
            for command in printed:
                if command in LOOKED_UP:
                    continue
                began = time.monotonic()
                shell.stdin.write(f"{{ {lookup(command)}\n}} </dev/null\necho \"@@@ $?\"\n")
                shell.stdin.flush()
                output = []
                status = None
                for line in shell.stdout:
                    if line.startswith("@@@ "):
                        status = int(line[4:])
                        break
                    output.append(line)
                seconds = time.monotonic() - began
                self.said.append(f"$ {command}  # {seconds:.1f} s")
                if status == 0 and lookup(command) != command:
                    LOOKED_UP.add(command)
                if status != 0:
                    wrong = f"$ {command}\n{''.join(output[-30:])}exit status {status}"
                    break
            self.note(block, wrong)
        shell.stdin.close()
        shell.wait()

    def python(self, blocks: list[Block]) -> None:
        """All blocks of a page in one interpreter, that of the page's environment if it made one."""
        if not blocks:
            return
        interpreter = sys.executable
        if self.home is not None:
            interpreter = str(next(self.home.glob("*/bin/python"), interpreter))
        environment = {**os.environ, "MPLBACKEND": "agg", "MPLCONFIGDIR": str(ROOT / "target" / "mpl")}
        command = [interpreter, __file__, "--inside", str(blocks[0].page)]
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
        wrong: dict[int, str] = {}
        for report in done.stdout.split("\x1e")[1:]:
            line, _, text = report.partition("\n")
            wrong[int(line)] = text
        for block in blocks:
            if block.line in wrong:
                self.note(block, wrong[block.line] or None)
            else:
                self.note(block, f"did not get there\n{done.stderr[-2000:]}")


def inside(page: Path) -> None:
    """Runs the Python blocks of a page here, and says of each what was wrong."""
    names: dict[str, object] = {"__name__": "__main__"}
    for block in blocks_of(page):
        if block.language != "python" or block.not_run is not None:
            continue
        print(f"# {block}", file=sys.stderr)
        wrong = ""
        if ">>> " in block.text:
            test = doctest.DocTestParser().get_doctest(block.text, names, str(block), str(page), block.line)
            said: list[str] = []
            doctest.DocTestRunner(verbose=False).run(test, out=said.append, clear_globs=False)
            names.update(test.globs)
            wrong = "".join(said)
        else:
            try:
                sys.stdout = sys.stderr
                exec(compile(block.text, str(block), "exec"), names)
            except BaseException:
                wrong = traceback.format_exc()
            finally:
                sys.stdout = sys.__stdout__
        print(f"\x1e{block.line}\n{wrong}", end="", flush=True)


def commands(block: Block) -> list[str]:
    """The commands of a block: after `$ ` in console, every line in sh."""
    lines = [line for line in block.text.splitlines() if line.strip()]
    if block.language == "console":
        lines = [line[2:] for line in lines if line.startswith("$ ")]
    if not lines:
        raise ValueError("a block without commands")
    return lines


# Names that `windward reproduce` was given and that were checked before: on every page of a protocol.
LOOKED_UP: set[str] = set()


def lookup(command: str) -> str:
    """Returns the command to run: the command itself, unless another step of CI runs it."""
    words = shlex.split(command, comments=True)
    if words[:2] == ["windward", "reproduce"] and "--out" not in words and "--list" not in words:
        return f"{command} --list"
    if words[:2] == ["windward", "evaluate"] and "--list" not in words:
        return f"{command} --dry-run"
    return command


def toml(block: Block) -> str | None:
    import json
    import tomllib

    import jsonschema

    import windward

    try:
        content = tomllib.loads(block.text)
        is_readings = set(content) == {"readings"}
        flags = ["--readings"] if is_readings else []
        program = [sys.executable, "-m", "windward"]
        schema = subprocess.run([*program, "schema", *flags], capture_output=True, text=True, check=True)
        jsonschema.validate(content, json.loads(schema.stdout))
        if {"duration", "flows"} <= set(content):
            windward.Scenario(block.text)
            if "experiment" in content:
                windward.Experiment(block.text, name=str(block))
    except (tomllib.TOMLDecodeError, jsonschema.ValidationError, ValueError) as error:
        return str(error)
    return None


def rust(block: Block) -> str | None:
    page = block.page.read_text("utf-8")
    for target in LINK.findall(page):
        if block.text in (block.page.parent / target).read_text("utf-8"):
            return None
    return "no Rust file that the page links to has these lines"


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", nargs="+", default=[])
    parser.add_argument("--except", nargs="+", default=[], dest="without")
    parser.add_argument("--home", type=Path)
    parser.add_argument("--inside", type=Path)
    arguments = parser.parse_args()
    if arguments.inside:
        inside(arguments.inside)
        return 0
    wanted = [path.resolve() for path in map(Path, arguments.only)] or pages()
    without = [Path(path).resolve() for path in arguments.without]
    (ROOT / "target").mkdir(exist_ok=True)

    def one(page: Path) -> Runner:
        runner = Runner(arguments.home)
        runner.page(page)
        return runner

    passed = failed = not_run = 0
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for runner in pool.map(one, [page for page in wanted if page not in without]):
            for line in runner.said:
                print(line, flush=True)
            passed += runner.passed
            failed += len(runner.failures)
            not_run += runner.not_run
    print(f"{not_run} blocks are not run, for the reasons above")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
