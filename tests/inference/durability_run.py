"""A run to be killed: ``durability_run.py api STORE RESULT CALLS SECONDS WORKERS CHUNK KIND`` or ``... cli ARGUMENTS``.

KIND is a class of ``durability_kernels`` and an executor (``here``, ``threads``, ``processes``), joined by a comma.
"""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor

import durability_kernels

from StaICC import Normal
from StaICC.cli import main
from StaICC.inference.workers import worker_processes


def run(store: str, result: str, calls: str, seconds: str, workers: str, chunk: str, kind: str) -> None:
    """Run StaICC-Normal on the mini data set and save the result."""
    name, where = kind.split(",")
    kernel = getattr(durability_kernels, name)(calls, float(seconds))
    executors = {"threads": lambda: ThreadPoolExecutor(int(workers)), "processes": worker_processes(int(workers))}
    found = Normal(datasets=["mini"])(kernel, store=store, executor=executors.get(where), chunk_size=int(chunk))
    found.save(result)


if __name__ == "__main__":
    if sys.argv[1] == "cli":
        sys.argv[1:2] = []
        sys.exit(main())
    run(*sys.argv[2:])
