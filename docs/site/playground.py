"""Puts the playground into the finished site, and links to it: playground.py FOLDER

The first page begins with its figure, and the page of each protocol opens it with that protocol beside cubic.
"""

from __future__ import annotations

import base64
import gzip
import json
import sys
import zlib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent


def fragment(state: object) -> str:
    """The state of a link, as crates/web/page/state.ts reads it: raw deflate, base64 for URLs."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    packed = packer.compress(json.dumps(state).encode()) + packer.flush()
    return "s=" + base64.urlsafe_b64encode(packed).decode().rstrip("=")


def lead(page: Path, link: str, text: str, more: str = "") -> None:
    """Adds a paragraph below the heading of a page, and `more` below that."""
    html = page.read_text("utf-8")
    if "</h1>" not in html:
        sys.exit(f"{page}: no heading")
    html = html.replace("</h1>", f'</h1>\n<p><a href="{link}">Open in the playground</a>: {text}</p>{more}', 1)
    page.write_text(html, "utf-8")


# The figure of the playground with two of its sliders.
FIGURE = (
    '\n<iframe src="play.html?figure" title="Cubic beside upwind, simulated in this page" loading="lazy" '
    'style="width: 100%; height: 46rem; border: 0"></iframe>'
)


def main() -> int:
    site = Path(sys.argv[1])
    packed = (ROOT / "crates/web/dist/play.html.gz").read_bytes()
    (site / "play.html").write_bytes(gzip.decompress(packed))
    lead(site / "index.html", "play.html", "cubic beside upwind on a link that loses packets, simulated in your browser.", FIGURE)
    sides = [{"protocol": "cubic", "count": 1, "loss": 0}]
    for page in sorted((site / "protocols").glob("*.html")):
        name = page.stem
        if name == "index":
            continue
        state = {"setups": [{"sides": [*sides, {"protocol": name, "count": 1, "loss": 0}]}], "seeds": 1}
        lead(page, f"../play.html#{fragment(state)}", f"{name} beside cubic on a link that loses packets.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
