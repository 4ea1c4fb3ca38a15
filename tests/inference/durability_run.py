"""A run to be killed: ``durability_run.py api STORE RESULT CALLS SECONDS WORKERS CHUNK KIND`` or ``... cli ARGUMENTS``.

KIND is a class of ``durability_kernels`` and an executor (``here``, ``threads``, ``processes``, ``dask``), joined by a
comma. CHUNK may be empty, for chunks of the usual size.
"""

from __future__ import annotations

import signal
import sys
from concurrent.futures import Executor, ThreadPoolExecutor

import durability_kernels

from StaICC import Normal
from StaICC.cli import main
from StaICC.inference.workers import worker_processes


def dask_cluster(workers: int) -> Executor:
    """Return the executor of a Dask cluster on this machine."""
    import distributed

    cluster = distributed.LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=None)
    client = distributed.Client(cluster)
    client.wait_for_workers(workers)
    return client.get_executor()


def run(store: str, result: str, calls: str, seconds: str, workers: str, chunk: str, kind: str) -> None:
    """Run StaICC-Normal on the mini data set and save the result."""
    name, where = kind.split(",")
    kernel = getattr(durability_kernels, name)(calls, float(seconds))
    executors = {
        "threads": lambda: ThreadPoolExecutor(int(workers)),
        "processes": worker_processes(int(workers)),
        "dask": lambda: dask_cluster(int(workers)),
    }
    chunk_size = int(chunk) if chunk else None
    found = Normal(datasets=["mini"])(kernel, store=store, executor=executors.get(where), chunk_size=chunk_size)
    found.save(result)


if __name__ == "__main__":
    if sys.argv[1] == "cli":
        sys.argv[1:2] = []
        sys.exit(main())
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    run(*sys.argv[2:])
