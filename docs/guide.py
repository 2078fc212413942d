#!/usr/bin/env python3
"""Carries out what CONTRIBUTING.md says about additions: applies docs/guide/*.patch in a scratch copy, and uses them.

    docs/guide.py             applies the patches, compiles the program, and checks what each of them adds
    docs/guide.py --tests     runs all tests of the patches, and not only those of windward-core
    docs/guide.py --check     applies the patches and checks that CONTRIBUTING.md names the files that they touch

The scratch copy is target/guide. It has the files that git tracks, as they are in the working tree. Each patch belongs
to the section of CONTRIBUTING.md below.
"""

import argparse
import csv
import filecmp
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
COPY = ROOT / "target" / "guide"
OUT = ROOT / "target" / "guide-out"
PROGRAM = OUT / "debug" / "windward"
SECTIONS = {
    "controller": "A new congestion controller",
    "aqm": "A new AQM",
    "channel": "A new channel",
    "metric": "A new metric",
    "experiment": "A new experiment",
    "criterion": "A new criterion",
}
# An expression over a metric, in a sweep: a packet is 1 ms on the wire, and each way takes 49 ms. The window is one packet.
STALL = """
duration = "4s"
warmup = "1s"
dumbbell.bottleneck = { rate = "8Mbit", delay = "49ms" }
dumbbell.access = { rate = "8Gbit", delay = "0s" }
flows = [{ group = "slow", protocol = "newreno", rwnd = 1 }]

[experiment]
id = "stall"
title = "Stalls"
setting = "One packet a round trip."
quick = { repetitions = 2 }
full = { repetitions = 2 }
metrics = { stall = "longest_stall(slow)" }
axes = [{ name = "window", key = "flows.slow.rwnd", values = [1] }]
claims = [{ id = "STALL", claim = "A round trip.", expected = "99 ms", checks = ["stall[1] >= 0.0985", "stall[1] <= 0.0995"] }]
"""
LINK = """
duration = "20s"
dumbbell.bottleneck = {{ rate = "8Mbit", delay = "20ms", queue = "50p", {link} }}
dumbbell.access = {{ rate = "1Gbit", delay = "0s" }}
flows = [{{ group = "all", {flow} }}]
"""

passed = failed = 0


def check(what, holds, found=""):
    global passed, failed
    passed, failed = passed + bool(holds), failed + (not holds)
    print(f"{'ok' if holds else 'FAILED'}: {what}" + (f": {found}" if found and not holds else ""), flush=True)
    return bool(holds)


def patch_of(name):
    return ROOT / "docs" / "guide" / f"add-{name}.patch"


def touched(patch):
    """The files that a patch changes, and the folders of those that it adds."""
    pairs = re.findall(r"^--- (\S+)\n\+\+\+ b/(\S+)$", patch, re.MULTILINE)
    return [str(Path(new).parent) + "/" if old == "/dev/null" else new for old, new in pairs]


def check_names():
    guide = (ROOT / "CONTRIBUTING.md").read_text()
    for name, heading in SECTIONS.items():
        _, found, section = guide.partition(f"\n## {heading}\n")
        section = section.partition("\n## ")[0]
        paths = touched(patch_of(name).read_text())
        missing = [path for path in paths if f"`{path}`" not in section]
        check(f"CONTRIBUTING.md, {heading!r}, names each file that add-{name}.patch touches", found and paths and not missing,
              ", ".join(missing) or "no such section, or an empty patch")


def copy_into(folder):
    """Copies the files of the repository."""
    files = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    for file in filter(None, files.split("\0")):
        if (ROOT / file).is_file():
            (folder / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / file, folder / file)


def apply_in(folder):
    """Makes a copy of the files in `folder`, and applies all patches to it."""
    copy_into(folder)
    # Not a subdirectory of the repository, where git would apply nothing.
    env = dict(os.environ, GIT_CEILING_DIRECTORIES=str(folder.parent))
    good = True
    for name in SECTIONS:
        done = subprocess.run(["git", "apply", patch_of(name)], cwd=folder, env=env, capture_output=True, text=True)
        good &= check(f"add-{name}.patch applies", done.returncode == 0, done.stderr.strip())
    return good


def bring(new, old):
    """Makes `old` the same as `new`. Files that are the same keep their times, so that they are not compiled again."""
    known = {path.relative_to(new) for path in new.rglob("*") if path.is_file()}
    for path in [path for path in old.rglob("*") if path.is_file()]:
        if path.relative_to(old) not in known:
            path.unlink()
    for path in known:
        if not (old / path).exists() or not filecmp.cmp(new / path, old / path, shallow=False):
            (old / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(new / path, old / path)


def cargo(command, *words, **how):
    env = dict(os.environ, CARGO_TARGET_DIR=str(OUT), CARGO_BUILD_BUILD_DIR=str(ROOT / "target"))
    return subprocess.run(["cargo", command, "--locked", *words], cwd=COPY, env=env, **how)


def run_tests(crates):
    """Runs the tests that the patches add to these crates."""
    names = []
    for name in SECTIONS:
        for file in re.split(r"^diff --git ", patch_of(name).read_text(), flags=re.MULTILINE):
            if file.startswith(tuple(f"a/crates/{crate}/" for crate in crates)):
                names += re.findall(r"^\+\s*#\[test\]\n\+\s*fn (\w+)", file, re.MULTILINE)
    # With the program among the packages, dependencies have the features that they have for it.
    packages = [word for crate in ["windward", *(f"windward-{crate}" for crate in crates)] for word in ("-p", crate)]
    done = cargo("test", *packages, "--lib", "--", *names, stdout=subprocess.PIPE, text=True)
    for name in names:
        check(f"the test {name} passes", re.search(rf"^test \S*\b{name} \.\.\. ok$", done.stdout, re.MULTILINE), done.stdout)


def windward(*words):
    done = subprocess.run([PROGRAM, *words], cwd=COPY, capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr


def run(scratch, text, *words):
    (scratch / "scenario.toml").write_text(text)
    status, said, error = windward("run", str(scratch / "scenario.toml"), "--json", *words)
    check("the scenario runs", status == 0, error)
    return json.loads(said or "{}")


def use(scratch):
    """Uses what the patches add, as a user would."""
    outcome = run(scratch, LINK.format(link="", flow='protocol = "illinois"'))
    flow = outcome["flows"][0]
    check("illinois fills a link", flow["protocol"] == "illinois" and flow["goodput_bps"] > 7.5e6, flow)
    status, said, error = windward("explain", "illinois")
    check("`windward explain illinois` names the source", "Basar" in said, error)

    flows = 'protocol = "newreno", count = 4'
    link = run(scratch, LINK.format(link='aqm = "droptail"', flow=flows))["links"][0]
    blue = run(scratch, LINK.format(link='aqm = { kind = "blue", increase = 0.01 }', flow=flows))["links"][0]
    check("blue keeps a shorter queue than droptail", 0 < blue["mean_queue_packets"] < link["mean_queue_packets"], blue)
    status, said, error = windward("router", "--help")
    check("`windward router` offers it", re.search(r"possible values: [^]]*\bblue,", said), error)

    flow = 'cbr = { rate = "800kbit", packet_size = 1000 }'
    link = run(scratch, LINK.format(link="periodic = 7", flow=flow))["links"][0]
    crossed = link["delivered"] + link["corrupted"]
    check("each seventh packet is lost", crossed > 1900 and link["corrupted"] == crossed // 7, link)

    scenario = STALL.partition("\n[experiment]")[0]
    outcome = run(scratch, scenario, "--out", str(scratch / "run"))
    stalls = [row["longest_stall_s"] for row in outcome["flows"] + outcome["groups"]]
    check("the longest stall is in JSON", all(abs(stall - 0.099) < 0.001 for stall in stalls), stalls)
    with open(scratch / "run" / "run-flows.csv") as file:
        rows = [float(row["longest_stall_s"]) for row in csv.DictReader(file)]
    check("the longest stall is in CSV", rows == stalls[:1], rows)
    (scratch / "stall.toml").write_text(STALL)
    sweep(scratch, "the longest stall is in expressions", str(scratch / "stall.toml"), "STALL")

    sweep(scratch, "the experiment's claim holds", "experiments/field/initial-window.toml", "INITIAL-WINDOW")
    status, said, error = windward("reproduce", "field", "--list")
    check("`windward reproduce` has the experiment", "field-initial-window" in said, error)

    out = scratch / "suite"
    status, said, error = windward("evaluate", "newreno", "--only", "slow-way-back", "--out", str(out))
    check("the criterion has a verdict", status == 0 and '"slow-way-back"' in texts(out), error or said)


def sweep(scratch, what, file, claim):
    out = scratch / claim
    status, said, error = windward("sweep", file, "--out", str(out))
    claims = json.loads((out / "claims.json").read_text()) if status == 0 else []
    check(what, f'"{claim}"' in json.dumps(claims) and "not held" not in said, said + error)


def texts(folder):
    return "".join(path.read_text() for path in sorted(folder.rglob("*.json")))


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="compile and run nothing")
    parser.add_argument("--tests", action="store_true", help="run the tests of all patches")
    options = parser.parse_args()
    COPY.mkdir(parents=True, exist_ok=True)
    check_names()
    with tempfile.TemporaryDirectory() as folder:
        fresh, scratch = Path(folder) / "copy", Path(folder) / "scratch"
        fresh.mkdir()
        scratch.mkdir()
        applies = apply_in(fresh)
        if applies and not options.check:
            bring(fresh, COPY)
            if check("the program compiles", cargo("build", "-p", "windward").returncode == 0):
                use(scratch)
                run_tests(["core", "sim"] if options.tests else ["core"])
    print(f"guide: {passed} passed, {failed} failed")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
