"""Puts the sources of the site together: stage.py FOLDER [--report DIR] [--rust DIR]

The pages are the Markdown files of the repository. They keep their text; their links, which lead
through the repository, are turned into links through the site. What the program knows of itself
becomes pages of the reference. The papers have a page that leads to their experiment files and to the
report of `windward reproduce`, which docs/build.sh puts into the site.
"""

from __future__ import annotations

import argparse
import posixpath
import re
import shutil
from pathlib import Path

import reference

ROOT = Path(__file__).resolve().parents[2]

# Files of the repository that are pages, beside those of docs/, and what their pages are called.
PAGES = {
    "ARCHITECTURE.md": "architecture.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "README.md": "index.md",
    "docs/protocols/README.md": "protocols/index.md",
    "docs/queues/README.md": "queues/index.md",
    "docs/protocols": "protocols/index.md",
    "docs/queues": "queues/index.md",
    "experiments": "papers.md",
    "experiments/papers": "papers.md",
    "python/windward": "reference/python.md",
    "crates": "reference/rust.md",
}

# The contents: a heading, and its pages. Those of docs/ that are not here join the guides.
CONTENTS = [
    ("Start here", ["install", "report"]),
    ("Guides", ["playground", "scenarios", "experiments", "reproduction", "evaluate", "evaluate-library", "media", "scripts", "conformance", "python", "extending", "clusters", "outputs", "qlog", "emulate", "perf", "router", "compare", "deploy/transfer", "deploy/forward", "deploy/kernel", "deploy/controllers", "security"]),
    ("Notebooks", ["notebooks/first-figure", "notebooks/congestion-controller"]),
    ("Results", ["papers", "evaluations", "upwind", "upwind-results", "today", "validation", "performance"]),
    (
        "Reference",
        [
            "protocols/index",
            "queues/index",
            "reference/parts",
            "reference/keys",
            "reference/schema",
            "reference/cli",
            "reference/python",
            "reference/rust",
        ],
    ),
    ("Inside", ["packet", "wire", "perf-protocol", "architecture", "contributing", "changelog"]),
]

FENCE = re.compile(r"^(```+|~~~+)")
LINK = re.compile(r"(?<!!)\[([^\]]*)\]\(([^)\s]+)\)")
IMAGE = re.compile(r"(!\[[^\]]*\]\()([^)\s]+)(\))")
NOT_RUN = re.compile(r"^<!-- not run: (.+) -->$")
# In the table of ARCHITECTURE.md: core/src/packet.rs, and what follows it in the same cell.
RUST_FILE = re.compile(r"(?<!\[)`((?:[a-z]+)/(?:src|examples)/[\w/]+\.rs)`")


class Stage:
    """The folder that Sphinx reads."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        # Files of the repository that pages link to but that are not pages: shown as they are.
        self.shown: dict[str, str] = {}

    def write(self, name: str, text: str) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")

    def page(self, source: str, name: str, more: str = "") -> None:
        """A Markdown file of the repository as a page."""
        text = (ROOT / source).read_text("utf-8")
        self.write(name, self.rewritten(text, posixpath.dirname(source), name) + more)

    def rewritten(self, text: str, folder: str, name: str) -> str:
        """A page with its links through the site: `folder` is that of the repository from which
        they lead now."""
        lines = []
        fence = None
        for line in text.split("\n"):
            if found := FENCE.match(line):
                if fence is None:
                    fence = found[1]
                elif line.strip() == fence:
                    fence = None
            elif fence is None:
                if reason := NOT_RUN.match(line):
                    line = f"*Not run when this site is built: {reason[1]}.*\n"
                else:
                    if name == "architecture.md":
                        line = RUST_FILE.sub(r"[`\1`](crates/\1)", line)
                    line = LINK.sub(lambda m: self.link(m[1], m[2], folder, name), line)
                    if not folder:
                        # Pictures of pages at the root lie in docs/, whose folders are those of the site.
                        line = IMAGE.sub(lambda m: m[1] + m[2].removeprefix("docs/") + m[3], line)
            lines.append(line)
        return "\n".join(lines)

    def link(self, text: str, target: str, folder: str, name: str) -> str:
        if target.startswith(("#", "http:", "https:", "mailto:")):
            return f"[{text}]({target})"
        path, _, anchor = target.partition("#")
        path = posixpath.normpath(posixpath.join(folder, path))
        page = posixpath.relpath(self.page_of(path), posixpath.dirname(name) or ".")
        return f"[{text}]({page}{'#' + anchor if anchor else ''})"

    def page_of(self, path: str) -> str:
        """The page of the site that shows a file or folder of the repository."""
        if path in PAGES:
            return PAGES[path]
        if not (ROOT / path).exists():
            raise SystemExit(f"a page links to {path}, which is not in the repository")
        if path.startswith("docs/") and path.endswith((".md", ".ipynb")):
            return path.removeprefix("docs/")
        if path.startswith("crates/") and (ROOT / path).is_dir():
            return PAGES["crates"]
        return self.shown.setdefault(path, f"files/{path}.md")

    def show_files(self) -> None:
        """A page for each file and folder that was linked to; folders lead to further files."""
        done: set[str] = set()
        while todo := [path for path in self.shown if path not in done]:
            for path in todo:
                done.add(path)
                self.show(path, self.shown[path])

    def show(self, path: str, name: str) -> None:
        head = f"---\norphan: true\nnosearch: true\n---\n\n# {path}\n\n"
        source = ROOT / path
        if source.is_dir():
            files = sorted(p.relative_to(ROOT).as_posix() for p in source.rglob("*") if p.is_file())
            files = [f for f in files if "/target/" not in f and "__pycache__" not in f]
            rows = [f"- [{f}]({posixpath.relpath(self.page_of(f), posixpath.dirname(name))})" for f in files]
            self.write(name, head + "\n".join(rows) + "\n")
            return
        language = LANGUAGES.get(source.suffix, "text")
        text = source.read_text("utf-8")
        longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
        ticks = "`" * max(3, longest + 1)
        self.write(name, f"{head}{ticks}{language}\n{text.rstrip()}\n{ticks}\n")


LANGUAGES = {
    ".csv": "text",
    ".py": "python",
    ".rs": "rust",
    ".sh": "bash",
    ".toml": "toml",
    ".yml": "yaml",
}


def contents(written: list[str]) -> str:
    """Returns the table of contents of the index, for Sphinx, with these pages of docs/."""
    blocks = []
    listed = {page for _, pages in CONTENTS for page in pages}
    for heading, pages in CONTENTS:
        if heading == "Guides":
            pages = pages + [page for page in written if page not in listed]
        rows = "\n".join(pages)
        blocks.append(f"\n```{{toctree}}\n:hidden:\n:caption: {heading}\n\n{rows}\n```\n")
    return "".join(blocks)


def children(folder: Path) -> str:
    """The same of an index of a folder."""
    names = sorted(p.stem for p in folder.glob("*.md") if p.name != "README.md")
    return "\n```{toctree}\n:hidden:\n\n" + "\n".join(names) + "\n```\n"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--report", type=Path, default=ROOT / "report")
    parser.add_argument("--rust", type=Path, default=ROOT / "target" / "doc")
    arguments = parser.parse_args()
    folder: Path = arguments.folder
    if folder.exists():
        shutil.rmtree(folder)
    folder.mkdir(parents=True)
    stage = Stage(folder)

    docs = ROOT / "docs"
    for path in sorted(docs.rglob("*")):
        source = path.relative_to(ROOT).as_posix()
        if source.startswith("docs/site/"):
            continue
        if path.suffix in (".svg", ".png", ".ipynb"):
            target = folder / path.relative_to(docs)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, target)
        elif path.suffix == ".md":
            more = ""
            if path == docs / "index.md":
                pages = sorted(p.stem for p in docs.glob("*.md") if p != path)
                more = contents(pages)
            elif path.name == "README.md":
                more = children(path.parent)
            stage.page(source, stage.page_of(source), more)
    for source in ("ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md"):
        stage.page(source, PAGES[source])
    reference.write(stage, arguments.rust, arguments.report)
    stage.show_files()


if __name__ == "__main__":
    main()
