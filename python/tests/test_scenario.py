"""Scenarios: three ways to make one, and errors equal to those of the command line."""

import builtins
import datetime
import errno
import pathlib
import pickle

import pytest

import windward as ww

ROOT = pathlib.Path(__file__).parents[2]
FIRST = ROOT / "experiments/examples/first.toml"

TEXT = """
duration = "5s"
warmup = "1s"

[dumbbell]
bottleneck = { rate = "5Mbit", delay = "20ms", queue = "50p" }
access = { rate = "10Mbit", delay = "5ms" }

[[flows]]
group = "bulk"
count = 2
protocol = "newreno"
"""

KEYS = dict(
    duration=5 * ww.s,
    warmup=datetime.timedelta(seconds=1),
    dumbbell={
        "bottleneck": {"rate": 5 * ww.Mbit, "delay": 20 * ww.ms, "queue": 50 * ww.packets},
        "access": {"rate": ww.Mbit * 10, "delay": "5ms"},
    },
    flows=[{"group": "bulk", "count": 2, "protocol": "newreno"}],
)


def test_three_ways_give_one_scenario(tmp_path):
    path = tmp_path / "scenario.toml"
    path.write_text(TEXT)
    ways = [ww.Scenario(TEXT), ww.Scenario.read(path), ww.Scenario(path), ww.Scenario(**KEYS)]
    assert all(way == ways[0] for way in ways)
    assert len({way.run().fingerprint for way in ways}) == 1
    assert ways[0].flows == ["bulk-1", "bulk-2"]
    assert ways[0].duration == 5.0 and ways[0].warmup == 1.0


def test_with_gives_another_scenario():
    scenario = ww.Scenario(TEXT)
    lossy = scenario.with_({"flows.bulk.last_hop.loss": 0.05}, duration=3 * ww.s)
    assert lossy != scenario and lossy.duration == 3.0
    assert scenario.duration == 5.0
    assert lossy == ww.Scenario(TEXT).with_({"duration": "3s", "flows.bulk.last_hop.loss": 0.05})
    assert lossy.run().groups["goodput_bps"][0] < scenario.run().groups["goodput_bps"][0]


def test_errors_have_parts():
    with pytest.raises(ww.ScenarioError) as caught:
        ww.Scenario(TEXT.replace("newreno", "newrno"))
    error = caught.value
    assert isinstance(error, ValueError)
    assert (error.file, error.value, error.suggestion) == ("scenario", '"newrno"', "newreno")
    assert error.key is not None and error.key.endswith("protocol")
    # Line 12 of the text: it begins with an empty line.
    assert error.line == 12
    assert "did you mean" in str(error) and "newreno" in str(error)
    # It can be pickled.
    again = pickle.loads(pickle.dumps(error))
    assert str(again) == str(error) and again.line == 12


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        (dict(duration=object()), "duration"),
        (dict(duration=2**70), "too large"),
        ({**KEYS, "flows": [{"group": "a", "count": -1, "protocol": "newreno"}]}, "count"),
        ({**KEYS, "nonsense": 1}, "nonsense"),
        ({**KEYS, "warmup": float("nan")}, "warmup"),
    ],
)
def test_values_that_make_no_sense_are_refused(keys, message):
    with pytest.raises((ww.ScenarioError, TypeError, ValueError), match=message):
        ww.Scenario(**keys)


def test_what_is_no_scenario_says_what_to_do():
    with pytest.raises(TypeError, match=r"Scenario\.read"):
        ww.Scenario("first.toml")
    with pytest.raises(TypeError):
        ww.Scenario()
    with pytest.raises(TypeError):
        ww.Scenario(TEXT, duration="1s")
    with pytest.raises(FileNotFoundError, match="none.toml"):
        ww.Scenario.read("there/is/none.toml")
    with pytest.raises(TypeError):
        ww.Scenario(TEXT).with_(duration=None)


def test_scenarios_are_pickled_with_their_changes():
    scenario = ww.Scenario.read(FIRST).with_(duration="2s", warmup="1s")
    again = pickle.loads(pickle.dumps(scenario))
    assert again == scenario and again.changes == scenario.changes
    assert again.run(seed=3).fingerprint == scenario.run(seed=3).fingerprint


def test_numbers_times_units_are_texts():
    assert 5 * ww.Mbit == "5Mbit"
    assert 2.5 * ww.ms == "2.5ms"
    assert 1e-7 * ww.s == "0.0000001s"
    assert 10**9 * ww.bit == "1000000000bit"


def test_scenarios_of_another_version_are_read_or_the_error_names_both():
    scenario = ww.Scenario.read(FIRST)
    make, (version, name, text, changes, parts, _) = scenario.__reduce__()
    assert version == ww.__version__
    # Both versions read it as the same scenario.
    assert make("0.0.1", name, text, changes, parts) == scenario
    newer = "a_key_of_tomorrow = 1\n" + text
    message = f"windward 9.9.9 cannot be read by windward {ww.__version__}: .*a_key_of_tomorrow"
    with pytest.raises(ValueError, match=message) as caught:
        make("9.9.9", name, newer, changes, parts)
    assert isinstance(caught.value.__cause__, ww.ScenarioError)
    with pytest.raises(ww.ScenarioError):
        make(version, name, newer, changes, parts)


@pytest.mark.parametrize("read", [ww.Scenario.read, ww.Experiment.read, ww.Scenario])
def test_a_file_that_the_system_does_not_give_is_its_error(read, tmp_path):
    with pytest.raises(FileNotFoundError, match=r"none\.toml") as caught:
        read(tmp_path / "none.toml")
    assert caught.value.errno == errno.ENOENT
    assert caught.value.filename == str(tmp_path / "none.toml")
    with pytest.raises(IsADirectoryError):
        read(tmp_path)
    with pytest.raises(NotADirectoryError):
        read(pathlib.Path(__file__) / "below.toml")
    # The contents of a readable file are checked by the scenario.
    (tmp_path / "latin.toml").write_bytes(b"# \xe4")
    with pytest.raises(ww.ScenarioError):
        read(tmp_path / "latin.toml")


def test_a_folder_that_cannot_be_made_is_the_error_of_the_system(tmp_path):
    scenario = ww.Scenario(TEXT).with_(duration="1s", warmup="0s")
    (tmp_path / "file").write_text("")
    below = tmp_path / "file" / "folder"
    for write in (scenario.run().write, lambda folder: scenario.run(qlog=folder)):
        with pytest.raises(NotADirectoryError, match="cannot create") as caught:
            write(below)
        assert caught.value.filename == str(below)


@pytest.mark.parametrize("seed", [-1, 2**64])
def test_a_seed_out_of_range_is_a_value_error(seed):
    scenario = ww.Scenario(TEXT)
    for begin in (scenario.run, lambda seed: ww.Simulation(scenario, seed=seed)):
        with pytest.raises(ValueError, match=f"seed = {seed}: must be from 0"):
            begin(seed=seed)


@pytest.mark.parametrize("seed", [True, 1.0, "1"])
def test_a_seed_that_is_no_whole_number_is_a_type_error(seed):
    with pytest.raises(TypeError, match="whole number"):
        ww.Scenario(TEXT).run(seed=seed)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"repetitions": -1}, "repetitions = -1: must be from 1 to"),
        ({"repetitions": 0}, "repetitions = 0: must be from 1 to"),
        ({"repetitions": 2**32}, "must be from 1 to 4294967295"),
        ({"threads": -1}, "threads = -1: must be from 0 to 65535"),
        ({"threads": 2**16}, "must be from 0 to 65535"),
    ],
)
def test_numbers_of_runs_and_threads_out_of_range_are_value_errors(given, expected):
    experiment = ww.Experiment.read(ROOT / "experiments/examples/loss-sweep.toml")
    with pytest.raises(ValueError, match=expected):
        experiment.sweep(**given)
    if "repetitions" in given:
        with pytest.raises(ValueError, match=expected):
            ww.sweep(experiment, **given)


def test_the_largest_seed_is_taken():
    assert ww.Scenario(TEXT).with_(duration="1s", warmup="0s").run(seed=2**64 - 1).seed == 2**64 - 1


def test_a_star_import_hides_nothing_of_python():
    assert not set(ww.__all__) & set(dir(builtins))
    assert 2 * ww.min == "2min"
    assert all(hasattr(ww, name) for name in ww.__all__)
