"""Chunks: their size by the measured speed, what comes back, and how runs on one store share their queries."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from durability_kills import environment

from StaICC.inference.claims import Claims
from StaICC.inference.contract import Answer
from StaICC.inference.pending import CHUNK_SECONDS, Pace, PendingQueries, blocks_of
from StaICC.inference.prompt_key import PromptKey
from StaICC.inference.store import BoundStore, PredictionStore

LABELS = ("no", "yes")


def keys(number: int) -> list[PromptKey]:
    return [(f"prompt {place}", LABELS) for place in range(number)]


def prompts(chunk: Sequence[PromptKey] | None) -> list[Any]:
    assert chunk is not None
    return [int(str(prompt).split()[1]) for prompt, _ in chunk]


# -- sizes


def test_chunks_grow_to_half_a_second_of_work_and_shrink_when_queries_become_slow() -> None:
    pace = Pace(most=1000)
    sizes = []
    for _ in range(8):
        sizes.append(pace.size)
        pace.note(pace.size, seconds=pace.size * CHUNK_SECONDS / 50)
    assert sizes == [1, 2, 4, 8, 16, 32, 50, 50]
    pace.note(50, seconds=50 * 2.0)
    assert pace.size == 1


def test_a_function_of_one_prompt_gets_chunks_of_any_size_and_a_batched_kernel_its_own() -> None:
    groups = [keys(10)[:5], keys(10)[5:]]
    pending = PendingQueries(blocks_of(groups, {}), fixed=False)
    assert [prompts(pending.take(size)) for size in (2, 100, 1)] == [[0, 1], [2, 3, 4], [5]]
    stored: Mapping[PromptKey, Answer] = {keys(10)[1]: 0}
    pending = PendingQueries(blocks_of(groups, stored), fixed=True)
    assert [prompts(pending.take(1)), prompts(pending.take(100))] == [[0, 2, 3, 4], [5, 6, 7, 8, 9]]
    assert pending.take(1) is None


def test_what_a_worker_did_not_evaluate_in_its_time_comes_next() -> None:
    pending = PendingQueries(blocks_of([keys(8)], {}), fixed=False)
    chunk = pending.take(4)
    assert chunk is not None
    assert len(pending) == 4
    pending.give_back(chunk[1:])
    assert len(pending) == 7
    assert [prompts(pending.take(2)), prompts(pending.take(2)), prompts(pending.take(9))] == [[1, 2], [3], [4, 5, 6, 7]]


# -- claims


def digest(query: PromptKey) -> bytes:
    return hashlib.sha256(str(query[0]).encode()).digest()


def claims_of_model(path: Path, name: str) -> Claims:
    return BoundStore(PredictionStore(path), name).claims()


def test_a_claim_excludes_other_runs_with_the_same_queries_of_the_same_model_only(tmp_path: Path) -> None:
    store = tmp_path / "s"
    with claims_of_model(store, "a") as first, claims_of_model(store, "a") as second, claims_of_model(store, "b") as b:
        assert first.take(keys(10))
        assert not second.take(keys(12)[9:])
        assert second.take(keys(12)[10:])
        assert b.take(keys(10))
        first.release(keys(10)[5:])
        assert second.take(keys(10)[5:])
        assert not second.take(keys(10)[4:])
    assert not (tmp_path / "s-claims").exists()


def test_all_paths_to_a_store_lead_to_the_same_claims(tmp_path: Path) -> None:
    first = claims_of_model(tmp_path / "s", "a")
    (tmp_path / "link").symlink_to(tmp_path / "s")
    second = claims_of_model(tmp_path / "link", "a")
    assert first.take(keys(2))
    assert not second.take(keys(2))
    for claims in (first, second):
        claims.close()


CLAIMING = """
import hashlib, sys, time
from pathlib import Path
from StaICC.inference.claims import Claims
claims = Claims(Path(sys.argv[1]), lambda query: hashlib.sha256(query[0].encode()).digest())
queries = [(f"prompt {number}", ("no", "yes")) for number in range(30)]
print(claims.take(queries[:10]), claims.take(queries[20:]), flush=True)
time.sleep(60)
"""


@pytest.mark.posix
def test_a_claim_excludes_other_processes_and_ends_with_its_process(tmp_path: Path) -> None:
    path = tmp_path / "s-claims"
    with Claims(path, digest) as claims:
        assert claims.take(keys(30)[20:21])
        command = [sys.executable, "-c", CLAIMING, str(path)]
        with subprocess.Popen(command, env=environment(), stdout=subprocess.PIPE, text=True) as other:
            assert other.stdout is not None
            assert other.stdout.readline().split() == ["True", "False"]
            assert not claims.take(keys(30)[9:12])
            os.kill(other.pid, signal.SIGKILL)
            other.wait()
        assert claims.take(keys(30)[9:12])
    assert not path.exists()


@pytest.mark.posix
def test_a_forked_process_has_no_claims_of_its_parent(tmp_path: Path) -> None:
    path = tmp_path / "s-claims"
    with Claims(path, digest) as claims:
        assert claims.take(keys(2))
        child = os.fork()
        if child == 0:
            with Claims(path, digest) as of_child:
                taken = [of_child.take(keys(2)), of_child.take(keys(4)[2:])]
                claims.release(keys(2))  # the parent's, which the child does not have
                taken.append(of_child.take(keys(2)))
            os._exit(0 if taken == [False, True, False] else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        claims.release(keys(2))
        child = os.fork()
        if child == 0:
            with Claims(path, digest) as of_child:
                os._exit(0 if of_child.take(keys(2)) else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.posix
def test_a_claim_excludes_other_processes_also_if_its_file_was_removed_while_it_was_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that ends removes the file. Another run may have opened it right before, and its claims would be unseen."""
    path = tmp_path / "s-claims"
    open_file = os.open
    removals = 3

    def opened_and_removed(*arguments: Any) -> int:
        nonlocal removals
        file = open_file(*arguments)
        if removals > 0:
            removals -= 1
            path.unlink()
        return file

    monkeypatch.setattr(os, "open", opened_and_removed)
    with Claims(path, digest) as claims:
        assert removals == 0
        assert claims.take(keys(2))
        child = os.fork()
        if child == 0:
            with Claims(path, digest) as of_child:
                taken = [of_child.take(keys(2)), of_child.take(keys(4)[2:])]
            os._exit(0 if taken == [False, True] else 1)
        exit_status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        assert exit_status == 0, "another process took a query that this one has claimed"


# -- several runs on one store


class Run:
    """One run on a store: it takes chunks and stores their predictions when the test asks for it."""

    def __init__(self, path: Path, number: int, fixed: bool = False, size: int = 4) -> None:
        self.store = BoundStore(PredictionStore(path), "model")
        groups = [keys(number)[first : first + 4] for first in range(0, number, 4)] if fixed else [keys(number)]
        version = self.store.version()
        stored = self.store.get_many(keys(number))
        self.found: dict[PromptKey, Answer] = {}
        self.pending = PendingQueries(
            blocks_of(groups, stored), fixed, self.store, self.store.claims(), version, self.found.update
        )
        self.size = size
        self.evaluated: list[int] = []

    def take(self) -> Sequence[PromptKey] | None:
        return self.pending.take(self.size)

    def end(self, chunk: Sequence[PromptKey]) -> None:
        self.evaluated += prompts(chunk)
        self.pending.finish(chunk)
        self.store.put_many([(key, 1) for key in chunk])
        self.pending.release_finished()

    def close(self) -> None:
        self.pending.close()
        self.store.store.close()


@pytest.mark.parametrize("fixed", [False, True])
def test_runs_on_one_store_divide_the_queries_among_themselves(fixed: bool, tmp_path: Path) -> None:
    runs = [Run(tmp_path / "s", 40, fixed, size=1 + number) for number in range(4)]
    in_flight: list[tuple[Run, Sequence[PromptKey]]] = []
    left = list(runs)
    while left or in_flight:
        for run in list(left):
            chunk = run.take()
            if chunk is not None:
                in_flight.append((run, chunk))
            elif not in_flight and not run.pending.wait_for_others():
                left.remove(run)
        if in_flight:
            run, chunk = in_flight.pop(0)
            run.end(chunk)
    evaluated = [number for run in runs for number in run.evaluated]
    assert sorted(evaluated) == list(range(40))
    assert [run for run in runs if not run.evaluated] == []
    for run in runs:
        assert {*run.evaluated} | {int(str(key[0]).split()[1]) for key in run.found} == {*range(40)}
        run.close()


def test_runs_of_different_lists_evaluate_the_queries_that_both_have_once(tmp_path: Path) -> None:
    first, second = Run(tmp_path / "s", 8, size=4), Run(tmp_path / "s", 6, size=4)
    chunk = first.take()
    assert prompts(chunk) == [0, 1, 2, 3]
    assert prompts(second.take()) == [4, 5]
    assert first.take() is None
    assert second.take() is None
    assert chunk is not None
    first.end(chunk)
    assert second.pending.wait_for_others()
    assert second.take() is None
    assert len(second.found) == 4
    for run in (first, second):
        run.close()


def test_a_claim_ends_with_all_of_its_chunk_also_if_others_stored_some_of_it(tmp_path: Path) -> None:
    first, second = Run(tmp_path / "s", 8, size=8), Run(tmp_path / "s", 8, size=8)
    BoundStore(PredictionStore(tmp_path / "s"), "model").put_many([(keys(8)[place], 1) for place in (0, 1, 6, 7)])
    chunk = first.take()
    assert prompts(chunk) == [2, 3, 4, 5]
    assert second.take() is None
    assert chunk is not None
    first.end(chunk)
    assert second.pending.wait_for_others()
    assert second.take() is None
    assert not second.pending.wait_for_others()
    assert len(second.found) == 8
    for run in (first, second):
        run.close()


def test_a_run_does_not_wait_for_ever_for_one_that_is_stopped(tmp_path: Path, monkeypatch: Any, caplog: Any) -> None:
    monkeypatch.setattr("StaICC.inference.pending._PATIENCE_SECONDS", 0.2)
    first, second = Run(tmp_path / "s", 4), Run(tmp_path / "s", 4)
    assert first.take() is not None
    assert second.take() is None
    chunk: Sequence[PromptKey] | None = None
    while chunk is None and second.pending.wait_for_others():
        chunk = second.take()
    assert prompts(chunk) == [0, 1, 2, 3]
    assert "stores nothing" in caplog.text
    for run in (first, second):
        run.close()
