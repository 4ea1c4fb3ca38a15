"""Chunks: their size by the measured speed, what comes back, and how runs on one store share their queries."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
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


def queries(numbers: Iterable[int]) -> list[PromptKey]:
    """Return the queries with these numbers: "prompt 0", "prompt 1", ..., each with the labels "no" and "yes"."""
    return [(f"prompt {number}", LABELS) for number in numbers]


def numbers_of(chunk: Sequence[PromptKey] | None) -> list[int]:
    """Return the numbers of the queries of a chunk."""
    assert chunk is not None
    return [int(str(prompt).split()[1]) for prompt, _ in chunk]


# -- sizes


def sizes_of_chunks(pace: Pace, queries_per_second: float, chunks: int) -> list[int]:
    """Let a model evaluate chunks at a speed, and return their sizes."""
    sizes = []
    for _ in range(chunks):
        sizes.append(pace.size)
        pace.note(pace.size, seconds=pace.size / queries_per_second)
    return sizes


def test_chunks_grow_to_half_a_second_of_work() -> None:
    """At 100 queries a second, the size doubles until 50 queries take half a second."""
    assert CHUNK_SECONDS == 0.5
    assert sizes_of_chunks(Pace(most=1000), 100, chunks=8) == [1, 2, 4, 8, 16, 32, 50, 50]


def test_chunks_shrink_when_queries_become_slow() -> None:
    pace = Pace(most=1000)
    assert sizes_of_chunks(pace, 100, chunks=7)[-1] == 50
    pace.note(50, seconds=100)  # two seconds a query
    assert pace.size == 1


def test_a_function_of_one_prompt_gets_chunks_of_the_size_that_was_asked_for() -> None:
    """But for the end of a block, which ends the chunk, too."""
    blocks = [queries([0, 1, 2, 3, 4]), queries([5, 6, 7, 8, 9])]
    pending = PendingQueries(blocks, fixed=False)
    assert numbers_of(pending.take(2)) == [0, 1]
    assert numbers_of(pending.take(100)) == [2, 3, 4]
    assert numbers_of(pending.take(1)) == [5]


def test_a_batched_kernel_gets_its_own_blocks_without_stored_queries() -> None:
    (stored_query,) = queries([1])
    blocks = blocks_of([queries([0, 1, 2, 3, 4]), queries([5, 6, 7, 8, 9])], cached={stored_query: 0})
    pending = PendingQueries(blocks, fixed=True)
    assert numbers_of(pending.take(1)) == [0, 2, 3, 4]
    assert numbers_of(pending.take(100)) == [5, 6, 7, 8, 9]
    assert pending.take(1) is None


def test_a_chunk_ends_before_the_prompt_that_would_exceed_its_characters() -> None:
    """The prompts have 8 characters: three have 24, which is the maximum."""
    pending = PendingQueries([queries(range(5))], fixed=False, most_characters=24)
    assert numbers_of(pending.take(100)) == [0, 1, 2]
    assert numbers_of(pending.take(100)) == [3, 4]

    pending = PendingQueries([queries(range(5))], fixed=False, most_characters=23)
    assert numbers_of(pending.take(100)) == [0, 1]


def test_a_prompt_with_more_characters_than_a_chunk_may_have_is_a_chunk_alone() -> None:
    pending = PendingQueries([queries(range(2))], fixed=False, most_characters=7)
    assert numbers_of(pending.take(100)) == [0]
    assert numbers_of(pending.take(100)) == [1]


def test_the_maximum_of_characters_holds_for_chunks_that_are_not_fixed_only() -> None:
    pending = PendingQueries([queries(range(5))], fixed=True, most_characters=7)
    assert numbers_of(pending.take(100)) == [0, 1, 2, 3, 4]


def test_what_a_worker_did_not_evaluate_in_its_time_comes_next() -> None:
    pending = PendingQueries([queries(range(8))], fixed=False)
    chunk = pending.take(4)
    assert numbers_of(chunk) == [0, 1, 2, 3]
    pending.give_back(queries([1, 2, 3]))
    assert len(pending) == 7
    assert numbers_of(pending.take(2)) == [1, 2]
    assert numbers_of(pending.take(2)) == [3]
    assert numbers_of(pending.take(9)) == [4, 5, 6, 7]


# -- claims


def digest(query: PromptKey) -> bytes:
    return hashlib.sha256(str(query[0]).encode()).digest()


def claims_of_model(path: Path, name: str) -> Claims:
    """Return the claims of a run with a model on a store: the queries that other runs leave to it."""
    return BoundStore(PredictionStore(path), name).claims()


def test_a_claim_excludes_other_runs_from_the_same_queries(tmp_path: Path) -> None:
    with claims_of_model(tmp_path / "s", "a") as first, claims_of_model(tmp_path / "s", "a") as second:
        assert first.take(queries(range(0, 10)))
        assert not second.take(queries([9, 10, 11]))  # of which the first run has claimed 9
        assert second.take(queries([10, 11]))


def test_a_released_claim_is_free_for_other_runs(tmp_path: Path) -> None:
    with claims_of_model(tmp_path / "s", "a") as first, claims_of_model(tmp_path / "s", "a") as second:
        assert first.take(queries(range(0, 10)))
        first.release(queries(range(5, 10)))
        assert second.take(queries(range(5, 10)))
        assert not second.take(queries([4]))


def test_a_claim_is_of_one_model(tmp_path: Path) -> None:
    with claims_of_model(tmp_path / "s", "a") as model_a, claims_of_model(tmp_path / "s", "b") as model_b:
        assert model_a.take(queries(range(10)))
        assert model_b.take(queries(range(10)))


def test_claims_leave_no_file(tmp_path: Path) -> None:
    with claims_of_model(tmp_path / "s", "a") as first, claims_of_model(tmp_path / "s", "a") as second:
        assert first.take(queries([0]))
        assert second.take(queries([1]))
        assert (tmp_path / "s-claims").exists()
    assert not (tmp_path / "s-claims").exists()


def test_all_paths_to_a_store_lead_to_the_same_claims(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "s")
    with claims_of_model(tmp_path / "s", "a") as first, claims_of_model(tmp_path / "link", "a") as second:
        assert first.take(queries([0, 1]))
        assert not second.take(queries([0, 1]))


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
    """The other process claims 0 to 9, and 20 to 29, of which this one has 20. It is killed and cannot release them."""
    path = tmp_path / "s-claims"
    with Claims(path, digest) as claims:
        assert claims.take(queries([20]))
        command = [sys.executable, "-c", CLAIMING, str(path)]
        with subprocess.Popen(command, env=environment(), stdout=subprocess.PIPE, text=True) as other:
            assert other.stdout is not None
            assert other.stdout.readline() == "True False\n"
            assert not claims.take(queries([9, 10, 11]))
            os.kill(other.pid, signal.SIGKILL)
            other.wait()
        assert claims.take(queries([9, 10, 11]))
    assert not path.exists()


def taken_by_a_forked_process(path: Path, *chunks: list[PromptKey], before: Callable[[], None] | None = None) -> str:
    """Fork this process, let the child try to claim each chunk, and return its answers, such as "True False".

    Args:
        path: The file of the claims.
        chunks: What the child tries to claim, one after another.
        before: What the child calls first.
    """
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            if before is not None:
                before()
            with Claims(path, digest) as claims:
                answers = [claims.take(chunk) for chunk in chunks]
            os.write(write_end, " ".join(map(str, answers)).encode())
        finally:
            os._exit(0)
    os.close(write_end)
    with open(read_end, encoding="ascii") as pipe:
        answers_of_child = pipe.read()
    os.waitpid(child, 0)
    return answers_of_child


@pytest.mark.posix
def test_a_forked_process_has_no_claims_of_its_parent(tmp_path: Path) -> None:
    path = tmp_path / "s-claims"
    with Claims(path, digest) as claims:
        assert claims.take(queries([0, 1]))
        assert taken_by_a_forked_process(path, queries([0, 1]), queries([2, 3])) == "False True"


@pytest.mark.posix
def test_a_forked_process_cannot_release_claims_of_its_parent(tmp_path: Path) -> None:
    path = tmp_path / "s-claims"
    with Claims(path, digest) as claims:
        assert claims.take(queries([0, 1]))

        def release_in_the_child() -> None:
            claims.release(queries([0, 1]))

        assert taken_by_a_forked_process(path, queries([0, 1]), before=release_in_the_child) == "False"


@pytest.mark.posix
def test_a_forked_process_can_claim_what_its_parent_has_released(tmp_path: Path) -> None:
    path = tmp_path / "s-claims"
    with Claims(path, digest) as claims:
        assert claims.take(queries([0, 1]))
        claims.release(queries([0, 1]))
        assert taken_by_a_forked_process(path, queries([0, 1])) == "True"


@pytest.mark.posix
def test_a_claim_excludes_other_processes_also_if_its_file_was_removed_while_it_was_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that ends removes the file. Another run may have opened it right before, and its claims would be unseen."""
    path = tmp_path / "s-claims"
    open_file = os.open
    removals_left = 3

    def open_and_remove(*arguments: Any) -> int:
        """Open a file as ``os.open`` does; the first three times, remove it right after."""
        nonlocal removals_left
        descriptor = open_file(*arguments)
        if removals_left > 0:
            removals_left -= 1
            path.unlink()
        return descriptor

    monkeypatch.setattr(os, "open", open_and_remove)
    with Claims(path, digest) as claims:
        assert removals_left == 0
        assert claims.take(queries([0, 1]))
        assert taken_by_a_forked_process(path, queries([0, 1]), queries([2, 3])) == "False True"


# -- several runs on one store


class Run:
    """One run on a store, over the queries from 0: it takes a chunk, and ends it, when the test asks for it.

    Args:
        path: The store.
        number: The number of queries.
        batches_of_four: Whether chunks are batches of four queries, as for a batched kernel.
        size: The most queries of a chunk otherwise.
    """

    def __init__(self, path: Path, number: int, *, batches_of_four: bool = False, size: int = 4) -> None:
        self.store = BoundStore(PredictionStore(path), "model")
        groups = [queries(range(number))]
        if batches_of_four:
            groups = [queries(range(first, first + 4)) for first in range(0, number, 4)]
        version = self.store.version()
        stored = self.store.get_many(queries(range(number)))
        self.found: dict[PromptKey, Answer] = {}
        """The predictions that other runs have stored meanwhile."""
        self.evaluated: list[int] = []
        """The numbers of the queries that this run has evaluated."""
        self.size = size
        blocks = blocks_of(groups, stored)
        claims = self.store.claims()
        self.pending = PendingQueries(blocks, batches_of_four, self.store, claims, version, self.found.update)

    def take(self) -> list[PromptKey] | None:
        """Return the next chunk, claimed for this run; ``None`` if others have claimed all that is left."""
        chunk = self.pending.take(self.size)
        return None if chunk is None else list(chunk)

    def end(self, numbers: list[int]) -> None:
        """Store predictions for a chunk, given as the numbers of its queries, and end its claim."""
        chunk = queries(numbers)
        self.evaluated += numbers
        self.pending.finish(chunk)
        self.store.put_many([(query, 1) for query in chunk])
        self.pending.release_finished()

    def close(self) -> None:
        self.pending.close()
        self.store.store.close()


@pytest.fixture
def start_run(tmp_path: Path) -> Iterator[Callable[..., Run]]:
    """Return a function that starts a run (see ``Run``) on the store of the test."""
    runs: list[Run] = []

    def start(number: int, **options: Any) -> Run:
        runs.append(Run(tmp_path / "s", number, **options))
        return runs[-1]

    yield start
    for run in runs:
        run.close()


def evaluate_in_turns(runs: list[Run]) -> None:
    """Let runs evaluate all of their queries: each takes a chunk in its turn, and the oldest chunk ends."""
    chunks_in_flight: list[tuple[Run, list[int]]] = []
    unfinished = list(runs)
    while unfinished or chunks_in_flight:
        for run in list(unfinished):
            chunk = run.take()
            if chunk is not None:
                chunks_in_flight.append((run, numbers_of(chunk)))
            elif not chunks_in_flight and not run.pending.wait_for_others():
                unfinished.remove(run)
        if chunks_in_flight:
            run, numbers = chunks_in_flight.pop(0)
            run.end(numbers)


@pytest.mark.parametrize("batches_of_four", [False, True])
def test_runs_on_one_store_divide_the_queries_among_themselves(
    start_run: Callable[..., Run], batches_of_four: bool
) -> None:
    """Each of four runs evaluates some of 40 queries, none is evaluated twice, and each run has all predictions."""
    runs = [start_run(40, batches_of_four=batches_of_four, size=size) for size in (1, 2, 3, 4)]
    evaluate_in_turns(runs)
    assert sorted(number for run in runs for number in run.evaluated) == list(range(40))
    for run in runs:
        assert run.evaluated
        assert {*run.evaluated, *numbers_of(list(run.found))} == set(range(40))


def test_runs_of_different_lists_evaluate_the_queries_that_both_have_once(start_run: Callable[..., Run]) -> None:
    first, second = start_run(8), start_run(6)
    assert numbers_of(first.take()) == [0, 1, 2, 3]
    assert numbers_of(second.take()) == [4, 5]
    assert first.take() is None
    assert second.take() is None
    first.end([0, 1, 2, 3])
    assert second.pending.wait_for_others()
    assert second.take() is None
    assert sorted(numbers_of(list(second.found))) == [0, 1, 2, 3]


def test_a_claim_ends_with_all_of_its_chunk_also_if_others_stored_some_of_it(
    start_run: Callable[..., Run], tmp_path: Path
) -> None:
    """The first run claims 0 to 7, of which 0, 1, 6 and 7 are in the store meanwhile; it evaluates the four others."""
    first, second = start_run(8, size=8), start_run(8, size=8)
    BoundStore(PredictionStore(tmp_path / "s"), "model").put_many([(query, 1) for query in queries([0, 1, 6, 7])])
    assert numbers_of(first.take()) == [2, 3, 4, 5]
    assert second.take() is None
    first.end([2, 3, 4, 5])
    assert second.pending.wait_for_others()
    assert second.take() is None
    assert not second.pending.wait_for_others()
    assert sorted(numbers_of(list(second.found))) == [0, 1, 2, 3, 4, 5, 6, 7]


def test_a_run_does_not_wait_for_ever_for_one_that_is_stopped(
    start_run: Callable[..., Run], monkeypatch: Any, caplog: Any
) -> None:
    """After the patience of a fifth of a second, the second run takes what the first one has claimed."""
    monkeypatch.setattr("StaICC.inference.pending._PATIENCE_SECONDS", 0.2)
    stopped, second = start_run(4), start_run(4)
    assert numbers_of(stopped.take()) == [0, 1, 2, 3]
    chunk = second.take()
    assert chunk is None
    while chunk is None and second.pending.wait_for_others():
        chunk = second.take()
    assert numbers_of(chunk) == [0, 1, 2, 3]
    assert "stores nothing" in caplog.text
