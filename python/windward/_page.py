"""Tables of results in notebooks, and the origin of reports."""

from __future__ import annotations

import datetime
import html
import os
import platform
from collections.abc import Collection, Iterable


def table(heads: Iterable[object], rows: Iterable[Iterable[object]], left: Collection[int] = ()) -> str:
    """A table as HTML; the columns with these numbers are aligned to the left."""

    def cell(at: int, value: object) -> str:
        style = " style='text-align:left'" if at in left else ""
        return f"<td{style}>{html.escape(str(value))}</td>"

    head = "".join(f"<th>{html.escape(str(value))}</th>" for value in heads)
    body = "".join(
        f"<tr>{''.join(cell(at, value) for at, value in enumerate(row))}</tr>" for row in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def about(command: str) -> tuple[str, str, str]:
    """Date, machine and command of a report."""
    date = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC")
    machine = f"{os.cpu_count()} cores, {platform.system().lower()} {platform.machine()}"
    return date, machine, command
