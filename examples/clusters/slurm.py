"""A sweep on a SLURM cluster, from its login node: dask-jobqueue submits the workers as jobs.

    pip install '.[dask]' dask-jobqueue      # in a clone that all nodes see
    python slurm.py experiment.toml results/ --jobs 16 --cores 64 --queue compute --time 02:00:00
    python slurm.py ... --dry-run                 # prints the job script and submits nothing

Jobs that end, by their time limit or otherwise, lose their current runs, which other jobs repeat. If
this program ends, the same command continues the sweep.
"""

import argparse

from dask.distributed import Client
from dask_jobqueue import SLURMCluster

import windward as ww

parser = argparse.ArgumentParser(description="A sweep on a SLURM cluster.")
parser.add_argument("experiment")
parser.add_argument("dataset")
parser.add_argument("--jobs", type=int, default=4, help="jobs to submit, each of one node")
parser.add_argument("--cores", type=int, default=16, help="cores of a job")
parser.add_argument("--memory", default="16GB", help="memory of a job")
parser.add_argument("--queue", help="partition")
parser.add_argument("--time", default="01:00:00", help="time limit of a job")
parser.add_argument("--dry-run", action="store_true")
args = parser.parse_args()

cluster = SLURMCluster(
    cores=args.cores,
    # Runs release the interpreter lock: one process with a thread per core would do as well.
    processes=1,
    memory=args.memory,
    queue=args.queue,
    walltime=args.time,
    scheduler_options={"port": 0, "dashboard": False},
)
if args.dry_run:
    print(cluster.job_script())
else:
    cluster.scale(jobs=args.jobs)
    with Client(cluster) as client:
        data = ww.sweep(
            ww.Experiment.read(args.experiment), client, dataset=args.dataset, resume=True
        )
    print(f"{data.runs} runs; the rows are in {data.path}")
cluster.close()
