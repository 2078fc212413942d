"""Searches over the keys of a scenario."""

import concurrent.futures
import pathlib
import sys
import threading

import pytest

import windward as ww

optuna = pytest.importorskip("optuna")

FIRST = pathlib.Path(__file__).parents[2] / "experiments/examples/first.toml"
LOSS = "flows.lossy.last_hop.loss"


def first(**changes):
    return ww.Scenario.read(FIRST).with_(**{"duration": "3s", "warmup": "1s", "seed": 5, **changes})


def lossy(run):
    """Mbit/s of the group behind lossy links."""
    return run.groups["goodput_bps"][1] / 1e6


SPACE = {
    LOSS: (0.0, 0.2),
    "dumbbell.bottleneck.queue": ("5p", "80p"),
    "dumbbell.bottleneck.rate": ("1Mbit", "20Mbit", "log"),
    "flows.lossy.protocol": ["newreno", "sack"],
}


def search(**options):
    options = {"trials": 20, "seeds": 2, "fresh": 4, "batch": 5, **options}
    return ww.search(first(), SPACE, lossy, **options)


def test_the_least_and_the_largest_are_found():
    worst, best = search(trials=40), search(trials=40, direction="maximize")
    assert worst.value < 0.3 < best.value
    assert worst.parameters[LOSS] > best.parameters[LOSS]
    for found in [worst, best]:
        values = [trial.value for trial in found.trials]
        assert len(values) == 40
        pick = min if found is worst else max
        assert found.searched_value == pick(values) == found.best(1)[0].value
        low, high = found.interval
        assert low < found.value < high


def test_what_is_reported_is_what_runs_say():
    found = search()
    assert found.seeds == (5, 6) and found.fresh_seeds == (7, 8, 9, 10)
    for trial in found.trials[:3]:
        scenario = first().with_(trial.parameters)
        # All trials have the same seeds.
        assert trial.values == tuple(lossy(scenario.run(seed)) for seed in (5, 6))
        assert trial.value == pytest.approx(sum(trial.values) / 2)
    chosen = first().with_(found.parameters)
    assert found.scenario == chosen
    fresh = [lossy(chosen.run(seed)) for seed in (7, 8, 9, 10)]
    assert list(found.values) == fresh and found.value == pytest.approx(sum(fresh) / 4)
    # Student's t of 3 degrees of freedom at 95 %: 3.182.
    deviation = (sum((value - found.value) ** 2 for value in fresh) / 3) ** 0.5
    assert found.interval[1] - found.value == pytest.approx(3.182446 * deviation / 2, rel=1e-5)


def test_workers_do_not_show():
    alone = search()
    with concurrent.futures.ThreadPoolExecutor(1) as one:
        assert search(executor=one) == alone
    with concurrent.futures.ProcessPoolExecutor(2) as processes:
        assert search(executor=processes) == alone
    assert search(seed=1).trials != alone.trials


def test_values_are_drawn_as_the_space_says():
    found = search()
    for trial in found.trials:
        assert 0 <= trial.parameters[LOSS] <= 0.2
        queue = trial.parameters["dumbbell.bottleneck.queue"]
        assert queue.endswith("p") and 5 <= int(queue[:-1]) <= 80
        rate = trial.parameters["dumbbell.bottleneck.rate"]
        assert rate.endswith("Mbit") and 1 <= float(rate[:-4]) <= 20
        assert trial.parameters["flows.lossy.protocol"] in ("newreno", "sack")
    space = {"dumbbell.bottleneck.rate": (1, 2)}
    with pytest.raises(ValueError, match="no scenario was possible.*a rate needs a unit"):
        ww.search(first(), space, lossy, trials=2)
    steps = {LOSS: optuna.distributions.FloatDistribution(0, 0.2, step=0.1)}
    own = ww.search(first(), steps, lossy, trials=6, sampler=optuna.samplers.RandomSampler(seed=1))
    assert {round(trial.parameters[LOSS], 9) for trial in own.trials} <= {0.0, 0.1, 0.2}


def test_impossible_scenarios_are_listed():
    # The upper threshold must be above the lower one, 30.
    scenario = first().with_(
        {"dumbbell.bottleneck.aqm": {"kind": "red", "min_threshold": 30, "max_threshold": 40}}
    )
    space = {"dumbbell.bottleneck.aqm.max_threshold": (20, 45)}
    found = ww.search(scenario, space, lossy, trials=20, seeds=1, direction="maximize")
    impossible = [t for t in found.trials if t.parameters[next(iter(space))] <= 30]
    assert found.impossible == impossible and 0 < len(impossible) < 20
    assert all("must be more than" in trial.impossible for trial in impossible)
    assert f"{len(impossible)} of 20 impossible" in repr(found)
    states = [trial.state.name for trial in found.study.trials]
    assert states.count("PRUNED") == len(impossible)
    columns = found.to_pydict()
    assert [value is None for value in columns["value"]] == [
        reason is not None for reason in columns["impossible"]
    ]


def test_a_notebook_sees_both_numbers_and_the_best_trials():
    space = {"flows.lossy.protocol": ["newreno", "sack"], LOSS: (0, 0.1)}
    found = ww.search(first(), space, lossy, trials=12, seeds=1, fresh=2)
    page = found._repr_html_()
    assert page.count("<tr>") == 11
    assert f"{found.value:.6g}" in page and f"{found.searched_value:.6g}" in page
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame(found.to_pydict())
    assert frame.columns == ["number", "flows.lossy.protocol", LOSS, "value", "impossible"]


def test_progress_goes_to_one():
    shares = []
    search(progress=shares.append)
    assert shares == sorted(shares) and shares[-1] == 1.0 and len(shares) == 5


class Client:
    """Like Dask's client, which merges equal tasks unless `pure` is false."""

    __module__ = "distributed.client"

    def __init__(self):
        self.pool = concurrent.futures.ThreadPoolExecutor(2)

    def submit(self, work, *arguments, pure=True):
        assert not pure
        return self.pool.submit(work, *arguments)


def test_a_client_of_dask_is_an_executor():
    client = Client()
    with client.pool:
        assert search(executor=client) == search()


def test_a_function_makes_scenarios_that_are_compared_with_changed_ones():
    def made(drawn):
        return first(**{"dumbbell.bottleneck.queue": f"{2 * drawn['half']}p"})

    def gain(run, beside):
        return lossy(beside) - lossy(run)

    found = ww.search(made, {"half": (2, 40)}, gain, compare={LOSS: 0}, trials=6, seeds=1, fresh=2)
    assert found.seeds == (1,) and set(found.parameters) == {"half"}
    for trial in found.trials:
        scenario = made(trial.parameters)
        lossless = scenario.with_({LOSS: 0})
        assert trial.value == lossy(lossless.run(1)) - lossy(scenario.run(1))
    assert found.scenario.toml == made(found.parameters).toml


def test_what_the_objective_raises_ends_the_search_and_its_runs():
    threads = threading.active_count()

    def raises(run):
        raise LookupError("no objective")

    with pytest.raises(LookupError, match="no objective"):
        ww.search(first(duration="50s"), SPACE, raises, trials=5)
    assert threading.active_count() == threads
    with pytest.raises(ValueError, match="the objective is nan"):
        ww.search(first(), SPACE, lambda run: float("nan"), trials=1)


def test_without_optuna_is_said_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(ImportError, match=r"pip install '\.\[search\]' in a clone"):
        search()


@pytest.mark.parametrize(
    ("space", "error", "message"),
    [
        ({}, ValueError, "no key"),
        ({LOSS: []}, ValueError, "the list of choices is empty"),
        ({LOSS: 0.1}, TypeError, "or a list of choices"),
        ({LOSS: (0.1,)}, TypeError, "or a list of choices"),
        ({LOSS: (0.1, 0.05)}, ValueError, "not below"),
        ({LOSS: (0.1, float("inf"))}, ValueError, "is not a bound"),
        ({LOSS: (0, 0.1, "log")}, ValueError, "must begin above 0"),
        ({LOSS: (0.1, 0.2, "lin")}, ValueError, "is not a scale"),
        ({LOSS: ("1%", "0.2")}, ValueError, "different units"),
        ({LOSS: ("few", "many")}, ValueError, "does not begin with a number"),
        ({"flows.lossy.protocl": ["newreno"]}, ValueError, "no scenario was possible"),
    ],
)
def test_spaces_that_are_none_are_refused(space, error, message):
    with pytest.raises(error, match=message):
        ww.search(first(), space, lossy, trials=2)


@pytest.mark.parametrize(
    "options",
    [{"trials": 0}, {"batch": 0}, {"seeds": 0}, {"seeds": []}, {"fresh": 0}, {"confidence": 1},
     {"direction": "up"}],
)  # fmt: skip
def test_options_out_of_range_are_refused(options):
    with pytest.raises(ValueError, match=next(iter(options))):
        search(**options)
