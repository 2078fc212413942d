#!/usr/bin/env python3
"""Refuses checks that their controls call too strict or too lax: controls.py report/claims.json

A check that something fails against itself is too strict, one that nothing measured can fail too lax
(docs/reproduction.md). docs/controls.toml lists those that are known, with reasons.
Prints the others; the exit code is 1 if there are any.
"""

from __future__ import annotations

import json
import sys
import tomllib
from pathlib import Path
from typing import Any

KNOWN = Path(__file__).resolve().parents[1] / "docs/controls.toml"
REFUSED = ("too strict", "too lax")


def refused(claims: list[dict[str, Any]], known: list[dict[str, str]]) -> list[str]:
    wrong = []
    for claim in claims:
        for check in claim["checks"]:
            control = check["control"] or {}
            if control.get("verdict") not in REFUSED:
                continue
            listed = any(
                e["claim"] == claim["id"]
                and e["control"] == control["verdict"]
                and check["check"].startswith(e["check"])
                for e in known
            )
            if not listed:
                wrong.append(f"{claim['id']}: {control['verdict']}: {check['check']}: {control['reason']}")
    return wrong


def main() -> int:
    known = tomllib.loads(KNOWN.read_text("utf-8"))["exceptions"]
    for entry in known:
        if not entry["reason"].strip():
            print(f"{KNOWN}: an exception of {entry['claim']} has no reason")
            return 1
    claims = json.loads(Path(sys.argv[1]).read_text("utf-8"))
    # A list without a single control would pass silently.
    if not any(check["control"] for claim in claims for check in claim["checks"]):
        print("no check has a control")
        return 1
    wrong = refused(claims, known)
    print("\n".join(wrong) or "controls: every check is sound, not testable, or known with its reason")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
