"""Runs that survive: kills at random moments, workers that die, stores that are shared, full or named wrongly."""

from __future__ import annotations

import json
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from durability_kernels import Batching, Deterministic, Loading, calls_of, mark_of
from durability_kills import QUERIES, WAYS, Way, environment, kill_and_resume
from durability_shared import share
from durability_signals import QUERY_SECONDS, SIGNALS, end_run
from durability_signals import WAYS as SIGNAL_WAYS

from StaICC import Normal
from StaICC.errors import ArgumentError, OutputError, RunEndingError
from StaICC.inference.store import PredictionStore, StoreError
from StaICC.inference.workers import RemoteFunction, WorkerPool, worker_processes
from StaICC.progress import Progress
from StaICC.results.result import Result
from StaICC.version import __version__

HERE = Path(__file__).parent


def normal(function: Any, **settings: Any) -> Result:
    """Return the result of a run on the whole mini data set."""
    result = Normal(datasets=["mini"])(function, **settings)
    assert isinstance(result, Result)
    return result


def content(result: Result) -> str:
    """Return a result as it is saved, without times and counts."""
    return json.dumps(result.reproducible())


def predictions_in(path: Path) -> int:
    """Return how many predictions a store has."""
    with PredictionStore(path) as store:
        return store.info().answers


@pytest.fixture(scope="module")
def prompts() -> list[str]:
    """The prompts of the run, each once."""
    return list(dict.fromkeys(Normal(datasets=["mini"])[0].prompt_set()))


@pytest.fixture(scope="module")
def undisturbed_content() -> str:
    """The content of the result of a run that nothing disturbs."""
    return content(normal(Deterministic()))


# -- kills


IN_BATCHES, THREE_THREADS, TWO_PROCESSES_OF_COMMAND = WAYS[1], WAYS[2], WAYS[5]


@pytest.mark.posix
@pytest.mark.parametrize(
    ("way", "kills"),
    [
        (IN_BATCHES, 2),
        (THREE_THREADS, 2),
        (TWO_PROCESSES_OF_COMMAND, 1),
        *[pytest.param(way, 17, marks=pytest.mark.slow) for way in WAYS],
    ],
)
def test_a_killed_run_goes_on_and_ends_with_the_same_result(way: Way, kills: int, tmp_path: Path) -> None:
    counts = kill_and_resume(way, tmp_path, kills, seed=1)

    assert counts.kills == kills
    assert counts.equal_results == counts.resumed_runs


SAVING_PROGRAM = """
import sys
from StaICC import load
first, second, target = sys.argv[1:]
results = [load(first), load(second)]
print("ready", flush=True)
while True:
    for result in results:
        result.save(target)
"""
"""Saves two results by turns under one name, until it is killed."""


def wait_for_file(path: Path) -> None:
    """Wait until a file is there: a busy machine may take seconds to write the first one."""
    end = time.monotonic() + 60
    while not path.exists():
        assert time.monotonic() < end, f"{path} was not written within a minute"
        time.sleep(0.001)


@pytest.mark.parametrize("kills", [3, pytest.param(100, marks=pytest.mark.slow)])
def test_a_result_is_saved_whole_or_not_at_all(kills: int, tmp_path: Path) -> None:
    """A process saves two results by turns under one name, and is killed at another moment each time."""
    first, second, target = tmp_path / "first.json", tmp_path / "second.json", tmp_path / "target.json"
    normal(Deterministic()).save(first)
    Normal(datasets=["mini"], limit=10)(Deterministic()).save(second)

    contents_after_kills = set()
    for number in range(kills):
        command = [sys.executable, "-c", SAVING_PROGRAM, str(first), str(second), str(target)]
        with subprocess.Popen(command, env=environment(), stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            process.stdout.readline()
            wait_for_file(target)
            time.sleep(0.013 * ((number + 1) % 8))
            process.kill()
            process.wait()
        contents_after_kills.add(target.read_bytes())

    assert contents_after_kills <= {first.read_bytes(), second.read_bytes()}


class StopError(Exception):
    """Ends a run of a test."""


def stop_at_100(progress: Progress) -> None:
    """End the run as soon as 100 queries are done."""
    if progress.done >= 100:
        raise StopError


def test_batches_of_a_resumed_run_are_those_of_an_unbroken_one(tmp_path: Path) -> None:
    """Rounding depends on the batch, so a resumed run must ask in the same batches."""
    unbroken = content(normal(Batching(), chunk_size=16))
    assert content(normal(Batching(), chunk_size=32)) != unbroken, "rounding does not depend on the batch"
    store = tmp_path / "run.sqlite"
    with pytest.raises(StopError):
        normal(Batching(), store=store, chunk_size=16, progress=stop_at_100)
    assert predictions_in(store) == 7 * 16, "complete batches"
    assert content(normal(Batching(), store=store, chunk_size=16)) == unbroken


def test_batches_are_the_same_with_and_without_a_store(tmp_path: Path) -> None:
    with_store = normal(Batching(), store=tmp_path / "run.sqlite")
    assert content(with_store) == content(normal(Batching()))


# -- workers

EXECUTORS = {"threads": ThreadPoolExecutor, "processes": ProcessPoolExecutor}


@pytest.mark.parametrize("number", [2, 3])
@pytest.mark.parametrize("kind", EXECUTORS)
def test_the_number_of_workers_changes_no_result(
    kind: Any, number: int, undisturbed_content: str, tmp_path: Path
) -> None:
    with EXECUTORS[kind](number) as executor:
        one_by_one = normal(Deterministic(), executor=executor)
        in_batches = normal(Batching(), executor=executor, chunk_size=16, store=tmp_path / "run.sqlite")
    assert content(one_by_one) == undisturbed_content
    assert content(in_batches) == content(normal(Batching(), chunk_size=16))


def test_an_executor_of_the_user_stays_open() -> None:
    with ThreadPoolExecutor(2) as executor:
        normal(Deterministic(), executor=executor)
        assert executor.submit(max, 1, 2).result() == 2


# -- workers that die


class FaultyExecutor(Executor):
    """Evaluates some chunks, and then fails at each.

    Args:
        complete_chunks: How many it evaluates.
        fault: An exception, as Dask raises one when it has lost its workers; "cancels": it cancels the chunk;
            "forgets": it leaves out the last prediction of the chunk.
    """

    num_workers: int | None = 0  # as that of MPI after its end

    def __init__(self, complete_chunks: int, fault: Any) -> None:
        self.remaining_chunks, self.fault = complete_chunks, fault

    def submit(self, function: Any, /, *arguments: Any, **keywords: Any) -> Future[Any]:
        future: Future[Any] = Future()
        if self.remaining_chunks > 0:
            self.remaining_chunks -= 1
            future.set_result(function(*arguments, **keywords))
        elif self.fault == "cancels":
            future.cancel()
            future.set_running_or_notify_cancel()
        elif self.fault == "forgets":
            chunk = function(*arguments, **keywords)
            future.set_result(chunk._replace(predictions=chunk.predictions[:-1]))
        else:
            future.set_exception(self.fault)
        return future


class KilledWorker(Exception):
    """The error of Dask when its workers are gone: it has this name."""


CHUNKS_OF_8_WITHOUT_THE_FIRST_3 = (QUERIES - 3 * 8) // 8


@pytest.mark.parametrize(
    ("fault", "kind", "message", "stored"),
    [
        (KilledWorker("1 2 3"), OutputError, "a worker died", 3 * 8),
        ("cancels", RunEndingError, "the executor cancelled a chunk.*run the same again to continue", 3 * 8),
        ("forgets", OutputError, "the executor gave no answer for it", QUERIES - CHUNKS_OF_8_WITHOUT_THE_FIRST_3),
    ],
    ids=["fails", "cancels", "forgets one prediction of each chunk"],
)
def test_the_completed_chunks_of_an_executor_that_fails_are_stored(
    fault: Any, kind: Any, message: str, stored: int, tmp_path: Path
) -> None:
    """The executor completes three chunks of eight queries."""
    with pytest.raises(kind, match=message):
        normal(Deterministic(), executor=FaultyExecutor(3, fault), store=tmp_path / "run.sqlite", chunk_size=8)
    assert predictions_in(tmp_path / "run.sqlite") == stored


@pytest.mark.posix
@pytest.mark.parametrize(("workers", "on_error"), [(1, "raise"), (3, "collect")])
def test_a_worker_that_dies_ends_the_run_and_the_same_call_continues(
    workers: int, on_error: Any, prompts: list[str], undisturbed_content: str, tmp_path: Path
) -> None:
    """The worker dies once, at the 101st of the prompts, which are evaluated in chunks of eight."""
    calls, store = tmp_path / "calls", tmp_path / "run.sqlite"
    kernel = Deterministic(str(calls), guilty=mark_of(prompts[100]), once=str(tmp_path / "died"))
    settings = {"store": store, "chunk_size": 8, "on_error": on_error}
    with pytest.raises(OutputError, match=r"a worker died .* continue"):
        normal(kernel, executor=lambda: ProcessPoolExecutor(workers), **settings)
    assert (tmp_path / "died").exists()
    calls_of_first_run, stored = len(calls_of(calls)), predictions_in(store)
    in_flight = 8 * workers
    assert 100 - in_flight <= stored <= calls_of_first_run

    result = normal(kernel, executor=lambda: ProcessPoolExecutor(workers), recheck=False, **settings)
    assert content(result) == undisturbed_content
    assert len(calls_of(calls)) - calls_of_first_run == QUERIES - stored, "calls of the second run"


def surroundings_of_worker(_: int) -> tuple[int, str | None, str | None]:
    """Return the process of a worker, the devices that it sees, and its threads."""
    time.sleep(0.1)  # so that the other one gets a task, too
    return os.getpid(), os.environ.get("CUDA_VISIBLE_DEVICES"), os.environ.get("OMP_NUM_THREADS")


def surroundings_of_two_workers(devices: Any) -> list[tuple[str | None, str | None]]:
    """Return the visible devices and the threads of each of two workers."""
    by_process: dict[int, tuple[str | None, str | None]] = {}
    with worker_processes(2, devices)() as pool:
        until = time.monotonic() + 120
        while len(by_process) < 2 and time.monotonic() < until:
            for process, device, threads in pool.map(surroundings_of_worker, range(8)):
                by_process[process] = device, threads
    assert len(by_process) == 2
    return list(by_process.values())


@pytest.fixture
def without_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    """No variable of the environment chooses devices or threads."""
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)


@pytest.mark.usefixtures("without_devices")
def test_each_worker_has_its_own_of_the_given_devices() -> None:
    surroundings = surroundings_of_two_workers(devices=[3, "GPU-5"])
    assert {device for device, _ in surroundings} == {"3", "GPU-5"}
    assert {threads for _, threads in surroundings} == {None}, "threads of the CPU are as they are"


@pytest.mark.usefixtures("without_devices")
def test_each_worker_has_its_own_of_the_visible_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,7")
    surroundings = surroundings_of_two_workers(devices=None)
    assert {device for device, _ in surroundings} == {"4", "7"}
    assert {threads for _, threads in surroundings} == {None}


@pytest.mark.usefixtures("without_devices")
def test_without_devices_each_worker_has_its_share_of_the_cores() -> None:
    half_of_the_cores = max(1, (os.cpu_count() or 1) // 2)
    surroundings = surroundings_of_two_workers(devices=None)
    assert set(surroundings) == {(None, str(half_of_the_cores))}


def test_after_a_failure_a_run_evaluates_only_what_is_in_flight(tmp_path: Path) -> None:
    """The function fails from its 40th call. Two threads have chunks of four queries, and two chunks each are sent."""
    calls = tmp_path / "calls"
    kernel = Deterministic(str(calls), seconds=0.002)

    def fails_from_40th_call(prompt: Any, label_space: Any) -> Any:
        prediction = kernel(prompt, label_space)
        return prediction if len(calls_of(calls)) < 40 else None

    settings = {"chunk_size": 4, "store": tmp_path / "run.sqlite", "model_name": "fails"}
    with ThreadPoolExecutor(2) as executor, pytest.raises(OutputError, match=r"query \d+: .* got None"):
        normal(fails_from_40th_call, executor=executor, **settings)
    in_flight = 4 * 2 * 2
    assert len(calls_of(calls)) <= 40 + in_flight
    assert predictions_in(tmp_path / "run.sqlite") >= 36


# -- the store


def test_a_disk_that_is_full_in_mid_run_loses_nothing(tmp_path: Path, undisturbed_content: str) -> None:
    """The store may grow by two pages, which is as a full disk for SQLite. Later there is space again."""
    calls = tmp_path / "calls"
    chunk_size, workers = 8, 2
    settings = {"executor": lambda: ThreadPoolExecutor(workers), "chunk_size": chunk_size}
    with PredictionStore(tmp_path / "run.sqlite") as store:
        pages = store._connection.execute("PRAGMA page_count").fetchone()[0]
        store._connection.execute(f"PRAGMA max_page_count = {pages + 2}")
        with pytest.raises(StoreError, match=r"disk is full.*what was stored before is kept.*run again"):
            normal(Deterministic(str(calls)), store=store, **settings)
        stored, asked = store.info().answers, len(calls_of(calls))
        in_flight = workers * chunk_size
        assert chunk_size <= stored < asked <= stored + in_flight + chunk_size

        store._connection.execute("PRAGMA max_page_count = 100000")
        result = normal(Deterministic(str(calls)), store=store, recheck=False, **settings)
    assert content(result) == undisturbed_content
    assert len(calls_of(calls)) - asked == QUERIES - stored, "calls of the second run"


def interrupt_after(calls: Path, count: int) -> None:
    """Interrupt the main thread when so many calls were made. After a minute without them, nothing is interrupted."""

    def watch() -> None:
        end = time.monotonic() + 60
        while time.monotonic() < end:
            if len(calls_of(calls)) >= count:
                signal.raise_signal(signal.SIGINT)
                return
            time.sleep(0.01)

    threading.Thread(target=watch).start()


def test_an_interrupt_stops_threads_after_their_query_and_keeps_what_they_did(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three threads have 50 queries each. Threads that went on would make 150 calls."""
    monkeypatch.setattr("StaICC.inference.workers._CUT_SECONDS", 60.0)  # else they stop after .75 s in any case
    store, calls = tmp_path / "run.sqlite", tmp_path / "calls"
    kernel = Deterministic(str(calls), seconds=0.05)
    interrupt_after(calls, count=10)
    with ThreadPoolExecutor(3) as executor, pytest.raises(KeyboardInterrupt):
        normal(kernel, store=store, executor=executor, chunk_size=50)

    calls_made = len(calls_of(calls))
    assert 10 <= calls_made < 150, "the threads went on with their chunks"
    assert predictions_in(store) == calls_made, "a prediction is lost"


def test_a_pool_that_is_closed_in_a_hurry_kills_its_processes() -> None:
    pool = WorkerPool(lambda: ProcessPoolExecutor(1))
    pool.executor.submit(time.sleep, 30)
    (process,) = pool.executor._processes.values()  # type: ignore[attr-defined]
    pool.close(hurry=True)
    process.join(5)
    assert process.exitcode == -signal.SIGKILL


class ClusterExecutor(FaultyExecutor):
    """The executor of a cluster, as Dask's is: its client is asked for the workers, which may be none yet.

    Args:
        seconds_without_workers: How long there is no worker, from the first question on.
        fault: An error of the scheduler, once chunks were evaluated; None: there is none.
    """

    num_workers = None

    def __init__(self, seconds_without_workers: float, fault: Any = None) -> None:
        more_chunks_than_any_run_has = 10**6
        super().__init__(more_chunks_than_any_run_has, None)
        self.seconds_without_workers = seconds_without_workers
        self.begin: float | None = None
        self.scheduler_fault = fault
        self._client = self
        self.chunk_sizes: list[int] = []
        self.chunk_seconds: list[float] = []

    def nthreads(self) -> dict[str, int]:
        if self.scheduler_fault is not None and self.chunk_sizes:
            raise self.scheduler_fault
        if self.begin is None:
            self.begin = time.monotonic() + self.seconds_without_workers
        return {} if time.monotonic() < self.begin else {"tcp://1": 2}

    def submit(self, function: Any, /, *arguments: Any, **keywords: Any) -> Future[Any]:
        began = time.monotonic()
        assert self.begin is not None
        if began < self.begin:  # the cluster keeps the chunk until it has a worker
            future: Future[Any] = Future()
            threading.Timer(self.begin - began, self._complete, (future, function, arguments)).start()
            return future
        future = super().submit(function, *arguments, **keywords)
        self.chunk_sizes.append(len(arguments[1]))
        self.chunk_seconds.append(time.monotonic() - began)
        return future

    def _complete(self, future: Future[Any], function: Any, arguments: tuple[Any, ...]) -> None:
        future.set_result(function(*arguments))


def test_a_run_says_once_that_its_executor_has_no_workers_and_waits(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, undisturbed_content: str
) -> None:
    monkeypatch.setattr("StaICC.inference.workers._NO_WORKERS_SECONDS", 0.1)
    assert content(normal(Deterministic(), executor=ClusterExecutor(1.0))) == undisturbed_content
    said = [record.getMessage() for record in caplog.records if "workers" in record.getMessage()]
    assert said == ["the executor has no workers; the run waits for them"]


def test_a_scheduler_that_does_not_answer_ends_the_run_and_the_same_call_continues(
    tmp_path: Path, undisturbed_content: str
) -> None:
    lost = OSError("Timed out trying to connect to tcp://127.0.0.1:8786")
    with pytest.raises(RunEndingError, match=r"scheduler of the cluster does not answer .* run the same again"):
        normal(Deterministic(), executor=ClusterExecutor(0, lost), store=tmp_path / "run.sqlite")
    assert (
        content(normal(Deterministic(), executor=ClusterExecutor(0), store=tmp_path / "run.sqlite"))
        == undisturbed_content
    )


def test_a_worker_with_another_version_is_refused_and_both_versions_are_named() -> None:
    sent = RemoteFunction(Deterministic(), versions=("9.9", "3.42"))
    copy = pickle.loads(pickle.dumps(sent))
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    with pytest.raises(
        ArgumentError, match=f"has StaICC {__version__} with Python {python}.* StaICC 9.9 with Python 3.42"
    ):
        copy.load()
    assert pickle.loads(pickle.dumps(RemoteFunction(Deterministic()))).load().name == "one"


def test_chunks_of_workers_grow_to_half_a_second_and_end_small(tmp_path: Path) -> None:
    """A query takes 0.01 s, so that 50 take half a second. Small chunks at the end keep all workers busy."""
    executor = ClusterExecutor(0)
    normal(Deterministic(seconds=0.01), executor=executor, store=tmp_path / "run.sqlite")
    assert executor.chunk_sizes[:3] == [1, 1, 2]
    assert max(executor.chunk_sizes) <= 50
    assert executor.chunk_sizes[-1] == 1
    assert sum(executor.chunk_sizes) >= QUERIES


def test_a_worker_that_becomes_slow_returns_what_it_has() -> None:
    """From the 60th query, each takes 200 times as long. A whole chunk of the earlier size would take many seconds."""
    calls: list[str] = []

    def becomes_slow(prompt: Any, label_space: Any) -> list[float]:
        calls.append(prompt)
        time.sleep(0.001 if len(calls) < 60 else 0.2)
        return [float(len(prompt)), 0.0, 1.0]

    executor = ClusterExecutor(0)
    normal(becomes_slow, executor=executor)
    assert len(calls) == QUERIES
    assert max(executor.chunk_seconds) < 3


# -- runs at the same time


@pytest.mark.posix
@pytest.mark.parametrize(
    ("way", "runs"), [("plain", 2), ("batches", 3), pytest.param("served", 4, marks=pytest.mark.slow)]
)
def test_equal_runs_on_one_store_evaluate_each_query_once(way: str, runs: int, tmp_path: Path) -> None:
    outcome = share(way, runs, tmp_path)

    assert outcome.repeated == 0
    assert outcome.equal


# -- signals


def lost_by_signal(way: str, signal_name: str, folder: Path) -> int:
    """End a run with a signal 0.7 s after its first prediction, and return how many predictions it lost."""
    if way == "served":
        pytest.importorskip("openai")
    if way == "Dask":
        pytest.importorskip("distributed")
    ended = end_run(SIGNAL_WAYS[way], signal.Signals[signal_name], 0.7, folder)
    assert ended.stored > 0
    return ended.made - ended.stored


@pytest.mark.posix
@pytest.mark.parametrize(("way", "signal_name"), [("processes", "SIGTERM"), ("served", "SIGINT")])
def test_no_prediction_is_lost_when_a_signal_ends_the_run(way: str, signal_name: str, tmp_path: Path) -> None:
    assert lost_by_signal(way, signal_name, tmp_path) == 0


@pytest.mark.slow
@pytest.mark.posix
@pytest.mark.parametrize("way", ["threads", "Dask"])
@pytest.mark.parametrize("signal_name", SIGNALS)
def test_at_most_a_second_of_work_is_lost_when_a_signal_ends_the_run(
    way: str, signal_name: str, tmp_path: Path
) -> None:
    workers = 3
    a_second_of_work = workers / QUERY_SECONDS

    assert lost_by_signal(way, signal_name, tmp_path) <= a_second_of_work


# -- a Dask cluster


@pytest.fixture
def client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The client of a Dask cluster with two worker processes."""
    distributed = pytest.importorskip("distributed")
    import dask

    settings = {"temporary-directory": str(tmp_path), "distributed.worker.memory.terminate": False}
    monkeypatch.setenv("PYTHONPATH", environment()["PYTHONPATH"])
    local = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None, "host": "127.0.0.1"}
    with dask.config.set(settings), distributed.LocalCluster(**local) as cluster, distributed.Client(cluster) as client:
        client.wait_for_workers(2, timeout=60)
        yield client


def test_a_run_on_a_cluster_is_that_of_one_process(client: Any, tmp_path: Path) -> None:
    executor = client.get_executor()
    on_cluster = normal(Loading(str(tmp_path / "calls")), executor=executor, chunk_size=8)
    in_this_process = normal(Loading(str(tmp_path / "others")))
    assert content(on_cluster) == content(in_this_process)
    assert WorkerPool(executor).workers() == 2


def test_each_worker_of_a_cluster_loads_the_kernel_once(client: Any, tmp_path: Path) -> None:
    calls = tmp_path / "calls"
    normal(Loading(str(calls)), executor=client.get_executor(), chunk_size=8)
    processes_that_loaded = Path(f"{calls}.loads").read_text(encoding="utf-8").split()
    assert 1 <= len(processes_that_loaded) <= 2
    assert len(set(processes_that_loaded)) == len(processes_that_loaded), "a process loaded it twice"


def test_a_client_of_a_cluster_is_no_executor(client: Any) -> None:
    with pytest.raises(ArgumentError, match=r"Dask's client has one: client.get_executor\(\)"):
        normal(Deterministic(), executor=client)


@pytest.mark.posix
def test_a_run_goes_on_when_a_worker_of_the_cluster_is_killed(client: Any, tmp_path: Path) -> None:
    """Dask starts the worker again and evaluates its chunk elsewhere."""
    pids = list(client.run(os.getpid).values())
    killing = threading.Timer(0.5, os.kill, [pids[0], signal.SIGKILL])
    killing.start()
    kernel = Deterministic(str(tmp_path / "calls"), seconds=0.02)
    found = content(normal(kernel, executor=client.get_executor()))
    killing.join()
    assert found == content(normal(Deterministic()))
    assert pids[0] not in client.run(os.getpid).values(), "the worker was not killed"
    evaluated = calls_of(tmp_path / "calls")
    assert len(set(evaluated)) == QUERIES
    assert len(evaluated) - QUERIES <= 1 / 0.02, "more than a second of one worker was repeated"
