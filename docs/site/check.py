"""Looks at the finished site: check.py FOLDER

Every link inside it leads to a page that is there, and to a place on it; nothing is fetched from
elsewhere when a page is shown; search finds its words. Prints what is wrong.
"""

from __future__ import annotations

import posixpath
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class Seen(HTMLParser):
    """Links of a page, files that it loads, and its anchors."""

    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.places: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        for name in ("id", "name"):
            if found.get(name):
                self.places.add(str(found[name]))
        if tag == "a" and found.get("href"):
            self.links.append(str(found["href"]))
        if tag == "link" and found.get("rel") in ("stylesheet", "icon", "preload", "modulepreload"):
            self.loads.append(str(found.get("href")))
        if tag in ("img", "script", "iframe", "source", "video", "audio") and found.get("src"):
            self.loads.append(str(found["src"]))


def look(path: Path) -> Seen:
    seen = Seen()
    seen.feed(path.read_text("utf-8"))
    return seen


def main() -> int:
    site = Path(sys.argv[1])
    # The pages of cargo doc and of the report are linked to, and have checks of their own.
    others = (site / "rust", site / "report")
    pages = {p: look(p) for p in sorted(site.rglob("*.html")) if not any(map(p.is_relative_to, others))}
    wrong: list[str] = []
    links = 0
    for page, seen in pages.items():
        name = page.relative_to(site).as_posix()
        for target in seen.links + seen.loads:
            parts = urlsplit(target)
            if parts.scheme or parts.netloc:
                if target in seen.loads and parts.scheme != "data":
                    wrong.append(f"{name}: loads {target}")
                continue
            links += 1
            path = page
            if parts.path:
                path = site / posixpath.normpath(posixpath.join(posixpath.dirname(name), unquote(parts.path)))
            if path.is_dir():
                path = path / "index.html"
            if not path.exists():
                wrong.append(f"{name}: {target} is not there")
            elif path.name == "play.html" and parts.fragment.startswith("s="):
                # A state of the playground.
                continue
            elif parts.fragment and path.suffix == ".html":
                places = (pages[path] if path in pages else look(path)).places
                if unquote(parts.fragment) not in places:
                    wrong.append(f"{name}: no place {target}")
    for style in site.rglob("*.css"):
        if not any(map(style.is_relative_to, others)) and "url(http" in style.read_text("utf-8"):
            wrong.append(f"{style.relative_to(site)}: loads from elsewhere")
    index = (site / "searchindex.js").read_text("utf-8") if (site / "searchindex.js").exists() else ""
    for word in ("westwood", "dumbbel", "fingerprint"):
        if word not in index:
            wrong.append(f"search does not know {word}")
    print("\n".join(wrong))
    print(f"{len(pages)} pages, {links} links inside the site, {len(wrong)} wrong")
    return 1 if wrong or len(pages) < 50 or links < 1000 else 0


if __name__ == "__main__":
    sys.exit(main())
