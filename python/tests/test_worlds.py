"""The search for worlds on executors and Dask, with a worker that is killed."""

import concurrent.futures
import os
import pickle
import signal

import pytest

import windward as ww
from windward import _windward

#: A claim whose world is found in a second, and core seconds for it.
CLAIM, BUDGET = "E2b", 8


@pytest.fixture(scope="module")
def serial(tmp_path_factory):
    """Reference of an undisturbed search on one thread."""
    folder = tmp_path_factory.mktemp("serial")
    found = ww.worlds(CLAIM, folder=folder, budget=BUDGET, threads=1)
    return found, (folder / "eten2004/worlds.toml").read_text()


def same(found, folder, serial):
    assert found.claims == serial[0].claims and found.joint == serial[0].joint
    assert found.runs == serial[0].runs
    assert (folder / "eten2004/worlds.toml").read_text() == serial[1]


def test_a_world_is_found_and_shown(serial):
    found, text = serial
    (claim,) = found.claims
    # As in ../../experiments/papers/eten2004/worlds.toml.
    world = {"ber": "ten times the printed rate"}
    assert (claim["plain"], claim["verdict"], claim["readings"]) == ("not held", "held", world)
    assert claim["assumptions"][0]["instead"] == world["ber"]
    assert 'readings = { ber = "ten times the printed rate" }' in text
    assert "E2b not held, held with ber = ten times the printed rate" in repr(found)
    assert "<td>E2b</td><td>not held</td>" in found._repr_html_()


def test_processes_find_the_same_world(tmp_path, serial):
    with concurrent.futures.ProcessPoolExecutor(2) as pool:
        same(ww.worlds(CLAIM, executor=pool, folder=tmp_path, budget=BUDGET), tmp_path, serial)


def test_dask_with_a_worker_killed_finds_the_same_world(tmp_path, serial):
    distributed = pytest.importorskip("distributed")
    cluster = distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address=None, silence_logs=50
    )
    with cluster, distributed.Client(cluster) as client:
        pids = list(client.run(os.getpid).values())
        killed = []

        def kill(share):
            if not killed and share > 0:
                killed.append(pids[0])
                os.kill(pids[0], signal.SIGKILL)

        found = ww.worlds(CLAIM, executor=client, folder=tmp_path, budget=BUDGET, progress=kill)
        assert killed
        same(found, tmp_path, serial)


def test_an_interrupted_search_continues(tmp_path, serial):
    def stop(share):
        if share > 0.2:
            raise KeyboardInterrupt

    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        with pytest.raises(KeyboardInterrupt):
            ww.worlds(CLAIM, executor=pool, folder=tmp_path, budget=BUDGET, progress=stop)
        found = ww.worlds(CLAIM, executor=pool, folder=tmp_path, budget=BUDGET, resume=True)
    same(found, tmp_path, serial)


def test_what_is_wrong_is_said(tmp_path):
    with pytest.raises(TypeError, match="needs a name"):
        ww.worlds(folder=tmp_path)
    with pytest.raises(ValueError, match="budget = 0: must be greater than 0"):
        ww.worlds(CLAIM, folder=tmp_path, budget=0)
    with pytest.raises(ww.ScenarioError, match="L99"):
        ww.worlds("L99", folder=tmp_path)
    with concurrent.futures.ThreadPoolExecutor(1) as pool, pytest.raises(ww.ScenarioError, match="L99"):
        ww.worlds("L99", executor=pool, folder=tmp_path)
    runs = _windward.WorldRuns([CLAIM], False)
    with pytest.raises(ValueError, match="not a run of a search"):
        runs.run(b"")
    function, parts = runs.__reduce__()
    assert isinstance(pickle.loads(pickle.dumps(runs)), _windward.WorldRuns)
    with pytest.raises(RuntimeError, match="cannot run a search of windward 9.9.9"):
        function("9.9.9", *parts[1:])
