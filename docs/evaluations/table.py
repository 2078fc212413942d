"""Writes the table of README.md anew from the evaluations beside it: table.py"""

import json
import pathlib

HERE = pathlib.Path(__file__).parent
SIGNS = {"meets": "+", "does not": "**−**", "undecided": "?", "not applicable": "", "to come": ""}
MARK = "<!-- made by table.py -->\n"


def main() -> None:
    rows = []
    criteria: list[dict] = []
    for name in ("upwind", "rfc9743", "noq-bbr3", "assisted"):
        found = json.loads((HERE / f"{name}.json").read_text("utf-8"))
        asked = [c for c in found["criteria"] if any(a["answer"] for a in c["answers"])]
        criteria = criteria or asked
        for at, subject in enumerate(found["subjects"]):
            # The others of that page are rows of the next ones.
            if name == "upwind" and subject != name:
                continue
            answers = [c["answers"][at]["answer"] for c in asked]
            met = sum(answer == "meets" for answer in answers)
            rows.append([f"`{subject}`", str(met), *(SIGNS[answer] for answer in answers)])
    head = ["", "met", *(c["section"] for c in criteria)]
    lines = [head, ["---", "--:", *(":-:" for _ in criteria)], *rows]
    table = "".join("| " + " | ".join(cells) + " |\n" for cells in lines)
    titles = ", ".join(f"{c['section']} {c['title'][0].lower() + c['title'][1:]}" for c in criteria)
    page = HERE / "README.md"
    before, _, after = page.read_text("utf-8").split(MARK)
    page.write_text(f"{before}{MARK}\n{table}\n{titles}.\n\n{MARK}{after}", "utf-8")


main()
