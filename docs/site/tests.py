"""Tests of the scripts that build and check the site: each check is run on an error."""

from __future__ import annotations

import contextlib
import io
import sys
import tempfile
import unittest
from pathlib import Path

import blocks
import check
import stage


class Blocks(unittest.TestCase):
    def run_page(self, text: str) -> tuple[int, list[str], int]:
        with tempfile.TemporaryDirectory(dir=blocks.ROOT / "target") as folder:
            page = Path(folder) / "page.md"
            page.write_text(text, "utf-8")
            runner = blocks.Runner(None)
            with contextlib.redirect_stdout(io.StringIO()):
                runner.page(page)
        return runner.passed, runner.failures, runner.not_run

    def good(self, text: str, count: int = 1) -> None:
        self.assertEqual(self.run_page(text)[:2], (count, []))

    def bad(self, text: str) -> None:
        self.assertEqual(len(self.run_page(text)[1]), 1, text)

    def test_commands(self) -> None:
        self.good("```console\n$ x=1\n$ test $x = 1\nwhat it prints\n```\n")
        self.good("```console\n$ x=1\n```\n\n```console\n$ test $x = 1\n```\n", 2)
        self.good("```sh\ntrue\n```\n")
        self.bad("```console\n$ false\n$ true\n```\n")
        self.bad("```console\ntrue\n```\n")
        self.bad("```sh\nwindward reproduce lr2008-fig99\n```\n")
        self.good("```sh\nwindward reproduce lr2008-fig9\n```\n")

    def test_python(self) -> None:
        self.good("```python\nx = 1\n```\n\n```python\n>>> x\n1\n\n```\n\n```python\nassert x == 1\n```\n", 3)
        self.bad("```python\nprint(1 / 0)\n```\n")
        self.bad("```python\n>>> 1 + 1\n3\n\n```\n")
        # Blocks after one that ends the interpreter are not skipped.
        self.assertEqual(len(self.run_page("```python\nimport os; os._exit(0)\n```\n\n```python\nx = 1\n```\n")[1]), 2)

    def test_toml(self) -> None:
        self.good('```toml\n[endpoint]\nrwnd = 20\n```\n')
        self.bad('```toml\n[endpoint]\nrwnnd = 20\n```\n')
        self.bad('```toml\nduration = "1s"\nflows = []\n```\n')
        self.bad("```toml\nduration =\n```\n")

    def test_others(self) -> None:
        self.bad("```rust\nfn main() {}\n```\n")
        self.bad("```perl\nprint 1\n```\n")
        self.good("```text\na = b\n```\n", 0)
        self.assertEqual(self.run_page("<!-- not run: why -->\n```sh\nfalse\n```\n"), (0, [], 1))
        with self.assertRaises(SystemExit):
            self.run_page("```sh\ntrue\n")


class Links(unittest.TestCase):
    def wrong(self, body: str) -> str:
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "a.html").write_text(f"<h1 id='top'>A</h1>{body}", "utf-8")
            (Path(folder) / "b.html").write_text("<h1 id='b'>B</h1>", "utf-8")
            (Path(folder) / "searchindex.js").write_text("westwood dumbbel fingerprint", "utf-8")
            said = io.StringIO()
            with contextlib.redirect_stdout(said):
                sys.argv = ["check.py", folder]
                check.main()
            return said.getvalue()

    def test_links(self) -> None:
        for good in ("#top", "b.html", "b.html#b", "https://example.org/x"):
            self.assertIn(", 0 wrong", self.wrong(f"<a href='{good}'>x</a>"))
        for bad in ("#bottom", "c.html", "b.html#c"):
            self.assertIn(", 1 wrong", self.wrong(f"<a href='{bad}'>x</a>"))

    def test_nothing_is_fetched(self) -> None:
        self.assertIn(", 1 wrong", self.wrong("<script src='https://example.org/x.js'></script>"))
        self.assertIn(", 1 wrong", self.wrong("<link rel='stylesheet' href='//example.org/x.css'>"))


class Stage(unittest.TestCase):
    def test_links_lead_through_the_site(self) -> None:
        site = stage.Stage(Path("nowhere"))

        def through(text: str) -> str:
            return site.rewritten(text, "docs", "scenarios.md")

        self.assertEqual(through("[x](../ARCHITECTURE.md#a-link)"), "[x](architecture.md#a-link)")
        self.assertEqual(through("[x](protocols/README.md)"), "[x](protocols/index.md)")
        self.assertEqual(through("[x](../experiments/papers)"), "[x](papers.md)")
        self.assertEqual(through("[x](https://a.org)"), "[x](https://a.org)")
        self.assertEqual(through("```text\n[x](../nowhere)\n```"), "```text\n[x](../nowhere)\n```")
        self.assertEqual(
            through("[x](../benches/growth.sh)"), "[x](files/benches/growth.sh.md)"
        )
        with self.assertRaises(SystemExit):
            through("[x](../nowhere.md)")


if __name__ == "__main__":
    unittest.main()
