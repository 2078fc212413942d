"""Cost of distributing a sweep over workers: `python benches/sweep.py`.

Efficiency: packet-hops per second of W workers over W times those of one thread that does the same runs
serially without an executor; both in turns, since the speed of shared machines changes. Then the cost of a
task for the driver, which bounds the number of workers.
"""

import argparse
import concurrent.futures
import contextlib
import logging
import os
import pathlib
import statistics
import tempfile
import time

import windward as ww
from windward import _windward

ROOT = pathlib.Path(__file__).parents[1]


def experiment(duration):
    """The large sweep with one buffer and one number of competitors: 400 combinations."""
    path = ROOT / "experiments/examples/large-sweep.toml"
    text = path.read_text()
    for axis, one in [
        ('"10p", "30p", "100p", "300p", "1000p"', '"100p"'),
        ("1, 2, 4, 8, 16", "4"),
    ]:
        assert axis in text, "the example has other axes now: change this too"
        text = text.replace(f"values = [{axis}]", f"values = [{one}]")
    text = text.partition("[[experiment.plots]]")[0]
    return ww.Experiment(text, name=str(path)).with_(duration=duration, warmup="1s")


@contextlib.contextmanager
def executors(workers):
    """Each available executor, by name."""
    found = {}
    with contextlib.ExitStack() as stack:
        found["threads"] = stack.enter_context(concurrent.futures.ThreadPoolExecutor(workers))
        found["processes"] = stack.enter_context(concurrent.futures.ProcessPoolExecutor(workers))
        with contextlib.suppress(ImportError):
            import distributed

            cluster = distributed.LocalCluster(
                n_workers=workers,
                threads_per_worker=1,
                dashboard_address=None,
                silence_logs=logging.ERROR,
            )
            stack.enter_context(cluster)
            found["Dask"] = stack.enter_context(distributed.Client(cluster))
        with contextlib.suppress(ImportError):
            import ray

            ray.init(
                num_cpus=workers,
                include_dashboard=False,
                log_to_driver=False,
                logging_level=logging.ERROR,
            )
            stack.callback(ray.shutdown)
            found["Ray"] = ray
        yield found


def timed(work):
    since = time.perf_counter()
    work()
    return time.perf_counter() - since


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--duration", default="10s", help="simulated time of a run")
    parser.add_argument("--only", help="one executor")
    parser.add_argument("--workers", type=int, nargs="+", default=[1, os.cpu_count() or 1])
    args = parser.parse_args()

    # 4000 runs of some milliseconds.
    sweep = experiment(args.duration)
    grid = _windward.Grid(sweep, repetitions=10)
    everything = list(range(grid.runs))
    part = everything[::5]
    print(f"{grid.runs} runs; serially {len(part)} of them")
    print("workers executor  efficiency (each round)")
    for workers in args.workers:
        with executors(workers) as found:
            ratios = {name: [] for name in found}
            for _ in range(args.rounds):
                for name, executor in found.items():
                    if args.only not in (None, name):
                        continue
                    # Before and after, for a machine whose speed drifts.
                    before = timed(lambda: grid.run(part))
                    with tempfile.TemporaryDirectory() as folder:
                        wall = timed(
                            lambda: ww.sweep(sweep, executor, repetitions=10, dataset=folder)
                        )
                    after = timed(lambda: grid.run(part))
                    serial = (before + after) / 2 * len(everything) / len(part)
                    ratios[name].append(serial / workers / wall)
            for name, each in ratios.items():
                if not each:
                    continue
                values = " ".join(f"{ratio:.3f}" for ratio in each)
                print(f"{workers:7} {name:9} {statistics.mean(each):.3f} ({values})", flush=True)

    # Tasks of one run of some microseconds: only the cost of the task remains.
    short = experiment("2s").with_({"dumbbell.access.rate": "1Mbit"})
    with executors(max(args.workers)) as found:
        print("executor  ms of the driver and its scheduler a task")
        for name, executor in found.items():
            tasks = 0

            def count(_):
                nonlocal tasks
                tasks += 1

            cpu = time.process_time()
            wall = timed(
                lambda: ww.sweep(
                    short, executor, repetitions=2, task_seconds=1e-6, progress=count
                )
            )
            cpu = time.process_time() - cpu
            print(f"{name:9} {cpu / tasks * 1e3:.2f} of CPU, {wall / tasks * 1e3:.2f} passed")


if __name__ == "__main__":
    main()
