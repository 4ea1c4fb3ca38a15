"""Runs on a Dask cluster: the same result as here, also when its workers are killed."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from durability_kernels import Deterministic, Loading

from StaICC import Normal
from StaICC.errors import ArgumentError
from StaICC.inference.workers import WorkerPool
from StaICC.results import Result

distributed = pytest.importorskip("distributed")

ROOT = Path(__file__).parents[2]


def content(result: Result) -> str:
    return json.dumps(result.reproducible())


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    import dask

    settings = {
        "distributed.scheduler.allowed-failures": 2,
        "temporary-directory": str(tmp_path_factory.mktemp("dask")),
        "distributed.worker.memory.terminate": False,
    }
    patch = pytest.MonkeyPatch()
    patch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), str(Path(__file__).parent)]))
    with (
        dask.config.set(settings),
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, host="127.0.0.1"
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client
    patch.undo()


@pytest.fixture(autouse=True)
def whole(client: Any) -> None:
    """Workers that another test killed are back: without any, a cluster waits for ever."""
    try:
        client.wait_for_workers(2, timeout=60)
    except TimeoutError:
        client.restart(timeout=120)


def test_a_cluster_gives_the_same(client, tmp_path):
    calls, executor = tmp_path / "calls", client.get_executor()
    found = content(Normal(datasets=["mini"])(Loading(str(calls)), executor=executor, chunk_size=8))
    assert found == content(Normal(datasets=["mini"])(Loading(str(tmp_path / "others"))))
    assert WorkerPool(executor).capacity() == 2
    loads = Path(f"{calls}.loads").read_text(encoding="utf-8").split()
    assert 1 <= len(loads) == len(set(loads)) <= 2  # each worker loads the kernel once
    with pytest.raises(ArgumentError, match=r"Dask's client has one: client.get_executor\(\)"):
        Normal(datasets=["mini"])(Deterministic(), executor=client)
