#!/usr/bin/env python3
"""Looks at every page of a report as its readers do.

    check.py REPORT_DIR

Links: each must lead to a file of the folder, and to an anchor that is there. Layout, in chromium
without a window, 390 px wide (a telephone) and 1400 px wide (a desk): no error in the console, no
page that scrolls sideways, in charts no text below 9 px and no two texts upon each other.

Needs `chromium` (or CHROMIUM, a path) and nothing but Python's standard library. Prints what is
wrong with page and element; the exit code is 1 if anything is, and 2 if it could not look.
"""

import html
import html.parser
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import urllib.parse

WIDTHS = (390, 1400)
LEAST_TEXT = 9.0
PLAYGROUND = "play.html"

# Runs in the page, before anything else of it. Reports to the page around it, which the browser
# prints: a frame may be as narrow as it likes, a window may not.
PROBE = r"""<script>
(() => {
  const errors = [];
  const told = console.error;
  console.error = (...args) => { errors.push(args.join(" ")); told.apply(console, args); };
  addEventListener("error", e => errors.push(
    e.message || `cannot load ${e.target.src || e.target.href}`), true);
  addEventListener("unhandledrejection", e => errors.push(`rejected: ${e.reason}`));
  addEventListener("load", () => {
    const wrong = errors.map(e => `console: ${e}`);
    const root = document.scrollingElement;
    const name = e => {
      const words = e.textContent.trim().replace(/\s+/g, " ").slice(0, 40);
      const part = e.closest("[id]");
      return `<${e.localName}>${part ? " in #" + part.id : ""} "${words}"`;
    };
    if (root.scrollWidth > innerWidth) {
      const out = [...document.body.querySelectorAll("*")].filter(e => {
        if (e.getBoundingClientRect().right <= innerWidth + 0.5) return false;
        for (let p = e.parentElement; p && p !== document.body; p = p.parentElement)
          if (getComputedStyle(p).overflowX !== "visible") return false;
        return true;
      });
      wrong.push(`scrolls sideways: ${root.scrollWidth} px wide; ${out.slice(0, 3).map(name)}`);
    }
    let texts = 0;
    for (const svg of document.querySelectorAll("figure > svg")) {
      const boxes = [];
      for (const text of svg.querySelectorAll("text")) {
        texts += 1;
        const scale = text.getScreenCTM().a;
        const size = parseFloat(getComputedStyle(text).fontSize) * scale;
        if (size < LEAST_TEXT) wrong.push(`text of ${size.toFixed(1)} px: ${name(text)}`);
        const { left, right, top, bottom } = text.getBoundingClientRect();
        // Lines of text may share what lies above and below their letters.
        const spare = 0.25 * (bottom - top);
        boxes.push({ text, left, right, top: top + spare, bottom: bottom - spare });
      }
      const edge = svg.getBoundingClientRect();
      for (const [i, a] of boxes.entries()) {
        if (a.left < edge.left - 1 || a.right > edge.right + 1)
          wrong.push(`text is cut off: ${name(a.text)}`);
        for (const b of boxes.slice(0, i))
          if (a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom)
            wrong.push(`texts upon each other: ${name(b.text)} and ${name(a.text)}`);
      }
    }
    parent.postMessage({ width: innerWidth, texts, wrong }, "*");
  });
})();
</script>
"""

FRAMES = """<!doctype html><meta charset="utf-8"><pre id="found"></pre><script>
addEventListener("message", e => {{
  document.getElementById("found").textContent += JSON.stringify(e.data) + "\\n";
}});
</script>
{frames}
"""


class Links(html.parser.HTMLParser):
    """The links and anchors of a page."""

    def __init__(self):
        super().__init__()
        self.links, self.anchors = [], set()

    def handle_starttag(self, tag, attributes):
        for name, value in attributes:
            if name in ("href", "src") and value is not None:
                self.links.append((tag, value, self.getpos()[0]))
            elif name == "id" or (name == "name" and tag == "a"):
                self.anchors.add(value)


def parsed(page):
    links = Links()
    links.feed(page.read_text(encoding="utf-8"))
    return links


def broken_links(folder, pages):
    """Broken links."""
    known = {page: parsed(page) for page in pages}
    for page, found in known.items():
        for tag, link, line in found.links:
            where = f"{page.name}:{line}: <{tag}> {link}"
            parts = urllib.parse.urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            path = urllib.parse.unquote(parts.path)
            target = (page.parent / path).resolve() if path else page
            if not target.is_relative_to(folder):
                yield f"{where}: leads out of the folder"
            elif not target.exists():
                yield f"{where}: no such file"
            elif target.name == PLAYGROUND:
                continue
            elif parts.fragment and target.suffix == ".html":
                there = known[target] if target in known else parsed(target)
                if urllib.parse.unquote(parts.fragment) not in there.anchors:
                    yield f"{where}: no such anchor"


def with_probe(text):
    """The page with the probe at its head."""
    probe = PROBE.replace("LEAST_TEXT", str(LEAST_TEXT))
    changed, count = re.subn(r"<head[^>]*>", lambda m: m.group() + probe, text, count=1)
    if count:
        return changed
    # `<head>` may be missing: then after the doctype, so that the page keeps its mode.
    return re.sub(r"\A\s*(<!doctype[^>]*>)?", lambda m: m.group() + probe, text, 1, re.I)


def seen(chromium, scratch, page):
    """Defects of a page at each width."""
    (scratch / page.name).write_text(
        with_probe(page.read_text(encoding="utf-8")), encoding="utf-8"
    )
    frames = "".join(
        f'<iframe width="{width}" height="900" style="border:0" '
        f'src="{urllib.parse.quote(page.name)}"></iframe>'
        for width in WIDTHS
    )
    around = scratch / f"around-{page.name}"
    around.write_text(FRAMES.format(frames=frames), encoding="utf-8")
    command = [
        chromium,
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--hide-scrollbars",
        "--disable-dev-shm-usage",
        f"--user-data-dir={scratch / 'profile of the browser'}",
        "--window-size=1600,1200",
        "--virtual-time-budget=20000",
        "--dump-dom",
        around.as_uri(),
    ]
    run = subprocess.run(command, capture_output=True, text=True, timeout=300)
    printed = re.search(r'<pre id="found">(.*?)</pre>', run.stdout, re.S)
    lines = html.unescape(printed.group(1)).split("\n") if printed else []
    # A page of an unfinished report reloads itself: its first state counts.
    reports = {}
    for report in (json.loads(line) for line in lines if line.strip()):
        reports.setdefault(report["width"], report)
    if set(reports) != set(WIDTHS):
        sys.exit(
            f"{page.name}: the browser reported the widths {sorted(reports)} and not {WIDTHS}\n"
            f"{run.stderr[-2000:]}"
        )
    return [reports[width] for width in WIDTHS]


def main():
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    folder = pathlib.Path(sys.argv[1]).resolve()
    # The playground has tests of its own.
    pages = sorted(page for page in folder.glob("*.html") if page.name != PLAYGROUND)
    if not pages:
        print(f"{folder}: no pages; make a report with `windward reproduce`", file=sys.stderr)
        return 2
    chromium = os.environ.get("CHROMIUM") or shutil.which("chromium")
    if chromium is None:
        print("there is no chromium: install it, or name it with CHROMIUM", file=sys.stderr)
        return 2
    count = 0

    def complain(message):
        nonlocal count
        count += 1
        print(message)

    for message in broken_links(folder, pages):
        complain(message)
    texts = 0
    with tempfile.TemporaryDirectory() as scratch:
        scratch = pathlib.Path(scratch)
        # Pages find the other files next to their copies too.
        for other in folder.iterdir():
            if other not in pages:
                (scratch / other.name).symlink_to(other)
        for page in pages:
            for report in seen(chromium, scratch, page):
                texts += report["texts"]
                for wrong in report["wrong"][:20]:
                    complain(f"{page.name} at {report['width']} px: {wrong}")
                more = len(report["wrong"]) - 20
                if more > 0:
                    complain(f"{page.name} at {report['width']} px: and {more} more")
    print(f"{len(pages)} pages, {texts // len(WIDTHS)} texts in charts, {count} wrong")
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())
