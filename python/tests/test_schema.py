"""The JSON Schemas of `windward schema`, compared with files that the program reads."""

import copy
import json
import pathlib
import subprocess
import sys
import tomllib

import pytest

import windward as ww

jsonschema = pytest.importorskip("jsonschema")

ROOT = pathlib.Path(__file__).parents[2]
FILES = sorted((ROOT / "experiments").rglob("*.toml"))


def printed(*flags):
    command = [sys.executable, "-m", "windward", "schema", *flags]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    schema = json.loads(done.stdout)
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


SCENARIO = printed()
READINGS = printed("--readings")
SUITE = printed("suite")
WORLDS = printed("worlds")
NS2 = printed("ns2")


def read(path):
    content = tomllib.loads(path.read_text("utf-8"))
    if set(content) == {"readings"}:
        return content, READINGS
    if "suite" in content:
        return content, SUITE
    if "worlds" in content:
        return content, WORLDS
    if "script" in content:
        return content, NS2
    return content, SCENARIO


def test_there_are_files_of_each_kind():
    kinds = [read(path) for path in FILES]
    assert sum(validator is READINGS for _, validator in kinds) >= 5
    assert sum(validator is SUITE for _, validator in kinds) >= 2
    assert sum("experiment" in content for content, _ in kinds) >= 57
    assert sum("experiment" not in content and "flows" in content for content, _ in kinds) >= 5


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_every_shipped_file_is_valid(path):
    content, validator = read(path)
    validator.validate(content)


def tables(value, path=()):
    """Every table of a file, except those whose keys the file chooses."""
    if isinstance(value, dict):
        if path and path[-1] in ("metrics", "set", "only", "departs"):
            return
        yield path
        for key, inner in value.items():
            yield from tables(inner, (*path, key))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from tables(inner, (*path, index))


@pytest.mark.parametrize("name", ["examples/loss-sweep", "examples/graph", "papers/lr2008/fig8", "papers/lr2008/readings", "suites/rfc9743/suite"])
def test_a_key_that_does_not_exist_is_found_wherever_it_stands(name):
    content, validator = read(ROOT / f"experiments/{name}.toml")
    places = list(tables(content))
    assert len(places) > 3
    for place in places:
        # Values of axes are values of the scenario: any type.
        if "values" in place and "readings" not in place:
            continue
        wrong = copy.deepcopy(content)
        table = wrong
        for step in place:
            table = table[step]
        table["nonsense"] = 1
        assert not validator.is_valid(wrong), place


BASE = """
duration = "2s"
[dumbbell]
bottleneck = { rate = "5Mbit", delay = "20ms" }
access = { rate = "5Mbit", delay = "20ms" }
[[flows]]
group = "a"
protocol = "newreno"
"""


@pytest.mark.parametrize(
    ("text", "valid"),
    [
        ("", True),
        ("rwnd = 20", True),
        ("rwnd = 0", False),
        ("rwnd = 1.5", False),
        ("rto_floor = 0", True),
        ("rto_floor = 1", False),
        ("delayed_acks = true", True),
        ('delayed_acks = "40ms"', True),
        ("delayed_acks = 3", False),
        ('preset = "linux"', True),
        ('preset = "windows"', False),
        ("vegas.alpha = 3", True),
        ('vegas.alpha = "3"', False),
        ('first_hop.aqm = "red"', True),
        ('first_hop.aqm = "green"', False),
        ('first_hop.aqm = { kind = "red", gentle = false }', True),
        ('first_hop.aqm = { kind = "red", gentle = "no" }', False),
        ("first_hop.classes = true", True),
        ('first_hop.router = { kind = "xcp", alpha = 0.4, increase_limit = "600kB" }', True),
        ('first_hop.router = { kind = "xcp", increase_limit = 600 }', False),
        ("nonsense = 1", False),
    ],
)
def test_the_schema_and_the_program_agree(text, valid):
    text = BASE + text
    assert SCENARIO.is_valid(tomllib.loads(text)) == valid
    if valid:
        ww.Scenario(text)
    else:
        with pytest.raises(ww.ScenarioError):
            ww.Scenario(text)


def test_protocols_are_completed_by_name():
    group = SCENARIO.schema["$defs"]["group"]["properties"]["protocol"]
    assert group["anyOf"][0]["enum"] == list(ww.protocols)
    link = SCENARIO.schema["$defs"]["link"]["properties"]["aqm"]
    assert link["anyOf"][0]["enum"] == list(ww.parts["aqm"])
