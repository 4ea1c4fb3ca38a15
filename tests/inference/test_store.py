"""The prediction store: what goes in comes out, survives kills, and is refused when it is no store."""

from __future__ import annotations

import hashlib
import io
import json
import logging
import os
import random
import shutil
import signal
import sqlite3
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import StaICC.inference.store
from StaICC.errors import ArgumentError, SchemaError
from StaICC.inference.contract import Text
from StaICC.inference.runner import RunOptions, predict_queries
from StaICC.inference.store import SCHEMA, BoundStore, PredictionStore, StoreError, query_key
from StaICC.prompting.prompt_writer import Query

ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(StaICC.inference.store.__file__).parents[2])}
LABELS = ["negative", "positive"]


def key(number: int) -> bytes:
    """Return the key of the query with the prompt "prompt NUMBER" and the labels "negative" and "positive"."""
    return query_key(f"prompt {number}", LABELS)


def scores_of_query(number: int, label_count: int = 2) -> list[float]:
    """Return scores that are drawn with the number of a query as seed, so they are always the same."""
    draw = random.Random(number)
    return [draw.gauss(0, 1) for _ in range(label_count)]


def store_scores(path: Path, numbers: range, model: str = "model", label_count: int = 2) -> None:
    """Store the scores of the queries with these numbers."""
    predictions = [(key(number), scores_of_query(number, label_count)) for number in numbers]
    with PredictionStore(path) as store:
        store.put_many(model, predictions)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """The path of a store that is not there yet."""
    return tmp_path / "run.sqlite"


# -- keys -----------------------------------------------------------------------------------------------------------

TEXTS = st.text(max_size=8)
LISTS_OF_TEXTS = st.lists(TEXTS, max_size=3)
PROMPTS = st.one_of(TEXTS, LISTS_OF_TEXTS)
"""A prompt is a text; that of a noisy channel is a list of texts."""


@given(PROMPTS, LISTS_OF_TEXTS, st.data())
def test_keys_are_equal_if_prompts_and_labels_are(prompt: Any, labels: list[str], data: st.DataObject) -> None:
    """The second query has the same prompt, or the same labels, or both, often enough."""
    second_prompt = data.draw(st.one_of(PROMPTS, st.just(prompt)))
    second_labels = data.draw(st.one_of(LISTS_OF_TEXTS, st.just(labels)))

    have_equal_keys = query_key(prompt, labels) == query_key(second_prompt, second_labels)

    are_equal = prompt == second_prompt and labels == second_labels
    assert have_equal_keys == are_equal


EIGHT_BYTES = struct.Struct(">Q").pack


def test_the_key_of_a_prompt_is_stable_over_versions() -> None:
    """Written out by hand: the name of the layout, then the prompt and the labels, each text with its length."""
    prompt = EIGHT_BYTES(3) + "aé".encode()
    labels = EIGHT_BYTES(1) + EIGHT_BYTES(1) + b"b"
    assert query_key("aé", ["b"]) == hashlib.sha256(b"staicc-query-1 one" + prompt + labels).digest()


def test_the_key_of_a_noisy_channel_is_stable_over_versions() -> None:
    """With the number of prompts, as with that of labels."""
    prompts = EIGHT_BYTES(2) + EIGHT_BYTES(1) + b"a" + EIGHT_BYTES(0)
    labels = EIGHT_BYTES(0)
    assert query_key(("a", ""), ()) == hashlib.sha256(b"staicc-query-1 all" + prompts + labels).digest()


def test_prompts_that_differ_in_a_lone_surrogate_have_different_keys() -> None:
    assert query_key("\ud800", []) != query_key("\ud801", [])


def test_a_label_space_is_encoded_once_for_many_prompts(monkeypatch: pytest.MonkeyPatch) -> None:
    encoded: list[Sequence[str]] = []
    framed_list = StaICC.inference.store._framed_list

    def counting_framed_list(texts: Sequence[str]) -> bytes:
        encoded.append(texts)
        return framed_list(texts)

    monkeypatch.setattr(StaICC.inference.store, "_framed_list", counting_framed_list)
    for number in range(1000):
        query_key(f"prompt {number}", ["encoded", "once"])
    assert encoded == [("encoded", "once")]


# -- what goes in comes out -----------------------------------------------------------------------------------------


def test_pages_stay_in_the_log_until_it_is_large_so_that_a_page_that_changes_often_is_seldom_moved(path: Path) -> None:
    with PredictionStore(path) as store:
        size_of_empty_store = path.stat().st_size
        for first in range(0, 4000, 100):
            numbers = range(first, first + 100)
            store.put_many("model", [(key(number), scores_of_query(number)) for number in numbers])
        log = path.with_name(f"{path.name}-wal")
        assert log.stat().st_size > 5_000_000  # SQLite moves the pages of such a log by default
        assert path.stat().st_size <= size_of_empty_store
        store.checkpoint()
        assert path.stat().st_size > 200_000
        assert store.info().answers == 4000


FINITE_OR_MINUS_INFINITY = st.floats(allow_nan=False, max_value=sys.float_info.max)
PREDICTIONS = st.one_of(
    st.lists(FINITE_OR_MINUS_INFINITY, min_size=1, max_size=300),
    st.integers(0, 2**31 - 1),
    st.text(max_size=20),
    st.builds(Text, st.sampled_from(["a", "", '["a", "stop"]']), st.sampled_from(["stop", "length", None])),
)
"""Scores, an index of a label, a reply, or a reply with the reason why it ended."""


def exact_form(prediction: Any) -> Any:
    """Return a form of a prediction that is equal only for the same bits: -0.0 equals 0.0, but its bytes differ.

    A reply is returned with the reason why it ended.
    """
    if isinstance(prediction, list):
        return [struct.pack("<d", score) for score in prediction]
    return prediction, getattr(prediction, "finish_reason", None)


def exact_forms(predictions: dict[bytes, Any]) -> dict[bytes, Any]:
    return {query: exact_form(prediction) for query, prediction in predictions.items()}


@settings(max_examples=25, deadline=None)
@given(st.dictionaries(st.integers(), PREDICTIONS, max_size=40))
def test_every_prediction_comes_back_bit_for_bit(
    tmp_path_factory: pytest.TempPathFactory, predictions_by_number: dict[int, Any]
) -> None:
    """A reply comes back as a ``Text``, also if it was stored as a plain text."""
    path = tmp_path_factory.mktemp("store") / "s"
    predictions = {key(number): prediction for number, prediction in predictions_by_number.items()}

    with PredictionStore(path) as store:
        store.put_many("model", predictions.items())
    with PredictionStore(path) as store:
        received = store.get_many("model", list(predictions))

    assert exact_forms(received) == exact_forms(predictions)
    for query, prediction in predictions.items():
        expected_type = Text if type(prediction) is str else type(prediction)
        assert type(received[query]) is expected_type


@pytest.mark.parametrize(
    "invalid", [[None], [[0.5]], b"x", (key(1),)], ids=["no number", "a list in a list", "bytes", "a tuple"]
)
def test_nothing_is_stored_if_one_of_several_predictions_is_invalid(path: Path, invalid: Any) -> None:
    with PredictionStore(path) as store:
        with pytest.raises((TypeError, struct.error)):
            store.put_many("model", [(key(1), [0.5]), (key(2), invalid)])

        assert store.info().answers == 0


def test_a_store_survives_a_power_cut(path: Path) -> None:
    with PredictionStore(path) as store:
        (synchronous,) = store._connection.execute("PRAGMA synchronous").fetchone()
    full = 2
    assert synchronous == full


def test_an_equal_prediction_is_stored_once_silently(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with PredictionStore(path) as store:
        assert store.put_many("model", [(key(1), [0.5])]) == {}
        assert store.put_many("model", [(key(1), [0.5]), (key(1), [0.5])]) == {}
        assert store.info().answers == 1
    assert not caplog.records


@pytest.mark.parametrize(
    ("first", "second"), [([0.5], [0.75]), ([0.25], 1), ([0.0], [-0.0]), (0, 1)], ids=["score", "type", "sign", "label"]
)
def test_the_first_prediction_stays_and_is_returned_if_another_is_stored(path: Path, first: Any, second: Any) -> None:
    with PredictionStore(path) as store:
        store.put_many("model", [(key(1), first)])
        assert store.put_many("model", [(key(1), second)]) == {key(1): first}
        assert store.get_many("model", [key(1)]) == {key(1): first}


def test_of_two_predictions_at_once_the_first_stays(path: Path) -> None:
    with PredictionStore(path) as store:
        assert store.put_many("model", [(key(1), 0), (key(1), 1)]) == {key(1): 0}
        assert store.get_many("model", [key(1)]) == {key(1): 0}


def test_a_model_that_predicts_differently_is_named_once(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with PredictionStore(path) as store, caplog.at_level(logging.WARNING):
        store.put_many("model", [(key(1), [0.5]), (key(2), [0.25])])
        store.put_many("model", [(key(1), [0.75])])
        store.put_many("model", [(key(2), [0.75])])
    (record,) = caplog.records
    assert "'model' predicted 1 queries differently" in record.getMessage()


def test_removed_predictions_are_gone_and_no_others(path: Path) -> None:
    """Of two models with five predictions each, two of one are removed. Query 9 is not there."""
    with PredictionStore(path) as store:
        for model in ("A", "B"):
            store.put_many(model, [(key(number), number) for number in range(5)])
        assert store.remove("A", [key(0), key(1), key(9)]) == 2
        assert store.remove("unknown", [key(0)]) == 0
        left = store.get_many("A", [key(number) for number in range(5)])
        assert left == {key(2): 2, key(3): 3, key(4): 4}
        assert store.info().models == {"A": 3, "B": 5}


def exported_lines(path: Path) -> list[str]:
    """Return the lines of the export of a store."""
    stream = io.StringIO()
    with PredictionStore(path, read_only=True) as store:
        store.export(stream)
    return stream.getvalue().splitlines()


def test_an_export_has_every_bit_of_the_predictions(path: Path) -> None:
    predictions = {key(1): [0.1 + 0.2, -0.0, 5e-324], key(2): 3, key(3): "posi\ntive \U0001f600"}
    with PredictionStore(path) as store:
        store.put_many("model", predictions.items())

    exported = {}
    for line in exported_lines(path):
        record = json.loads(line)
        exported[bytes.fromhex(record["key"])] = record["answer"]

    assert exact_forms(exported) == exact_forms(predictions)


def test_an_export_has_a_line_for_each_prediction_of_each_model(path: Path) -> None:
    with PredictionStore(path) as store:
        store.put_many("model", [(key(1), 0), (key(2), 1)])
        store.put_many("another", [(key(1), 0)])
        line_count = store.export(io.StringIO())

    models = [json.loads(line)["fingerprint"] for line in exported_lines(path)]
    assert line_count == 3
    assert sorted(models) == ["another", "model", "model"]


def test_two_exports_of_a_store_are_equal(path: Path) -> None:
    store_scores(path, range(20))

    assert exported_lines(path) == exported_lines(path)


def test_a_merge_adds_what_is_missing_and_keeps_what_is_there(path: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.sqlite"
    with PredictionStore(path) as store, PredictionStore(other) as source:
        store.put_many("A", [(key(1), [1.0]), (key(2), [2.0])])
        source.put_many("A", [(key(1), [1.0]), (key(2), [2.5]), (key(3), [3.0])])
        report = store.merge(other)
        assert (report.added, report.present, report.different) == (1, 1, 1)
        merged = store.get_many("A", [key(1), key(2), key(3)])
        assert merged == {key(1): [1.0], key(2): [2.0], key(3): [3.0]}
        assert store.merge(other).added == 0


def test_a_merge_adds_all_predictions_of_another_model(path: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.sqlite"
    store_scores(path, range(2), model="A")
    store_scores(other, range(1000), model="B")
    with PredictionStore(path) as store:
        assert store.merge(other).added == 1000
        assert store.get_many("B", [key(999)]) == {key(999): scores_of_query(999)}
        assert store.info().models == {"A": 2, "B": 1000}


def test_a_store_is_not_merged_into_itself(path: Path, tmp_path: Path) -> None:
    """Also by another name of the file."""
    store_scores(path, range(2))
    os.link(path, tmp_path / "link")
    with PredictionStore(path) as store:
        for same in (path, tmp_path / "link"):
            with pytest.raises(ArgumentError, match="cannot be merged into itself"):
                store.merge(same)


def write_store_with_edition(path: Path, edition: str, query: int) -> None:
    """Write a store with one prediction of a served model, which had an edition."""
    with PredictionStore(path) as store:
        store.put_many("model", [(key(query), 1)])
        other_editions = store.add_edition("model", edition, allowed=False)
    assert other_editions == []


def test_another_edition_of_a_model_is_reported_whether_it_is_allowed_or_not(path: Path) -> None:
    write_store_with_edition(path, "edition 1", query=1)

    with PredictionStore(path) as store:
        assert store.add_edition("model", "edition 3", allowed=False) == ["edition 1"]
        assert store.add_edition("model", "edition 3", allowed=True) == ["edition 1"]


def test_another_edition_of_a_model_is_recorded_only_if_it_is_allowed(path: Path) -> None:
    write_store_with_edition(path, "edition 1", query=1)

    with PredictionStore(path) as store:
        store.add_edition("model", "edition 2", allowed=False)
        store.add_edition("model", "edition 3", allowed=True)

        assert store.add_edition("model", "edition 4", allowed=False) == ["edition 1", "edition 3"]


def test_stores_with_different_editions_of_one_model_are_not_merged(tmp_path: Path) -> None:
    write_store_with_edition(tmp_path / "first.sqlite", "edition 1", query=1)
    write_store_with_edition(tmp_path / "second.sqlite", "edition 2", query=2)

    with PredictionStore(tmp_path / "first.sqlite") as store:
        with pytest.raises(StoreError, match=r"edition 1.*edition 2"):
            store.merge(tmp_path / "second.sqlite")

        assert store.get_many("model", [key(2)]) == {}


def test_a_merge_into_a_new_store_copies_the_edition(tmp_path: Path) -> None:
    write_store_with_edition(tmp_path / "old.sqlite", "edition 2", query=2)

    with PredictionStore(tmp_path / "new.sqlite") as store:
        assert store.merge(tmp_path / "old.sqlite").added == 1
        assert store.add_edition("model", "edition 1", allowed=False) == ["edition 2"]


def test_a_second_merge_of_the_same_store_adds_nothing(tmp_path: Path) -> None:
    write_store_with_edition(tmp_path / "old.sqlite", "edition 2", query=2)

    with PredictionStore(tmp_path / "new.sqlite") as store:
        store.merge(tmp_path / "old.sqlite")

        assert store.merge(tmp_path / "old.sqlite").added == 0


# -- threads, forks, processes --------------------------------------------------------------------------------------


WRITING_PROGRAM = """
import sys
from StaICC.inference.store import PredictionStore, query_key
path, worker, chunks, size = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
with PredictionStore(path) as store:
    print("open", flush=True)
    for chunk in range(chunks):
        store.put_many("model", [
            (query_key(f"{worker} {chunk} {number}", ["a", "b"]), [float(worker), float(chunk), float(number)])
            for number in range(size)
        ])
        print(chunk, flush=True)
"""
"""Writes chunks of predictions, each at once; the scores are the numbers of worker, chunk and query."""


def start_writer(path: Path, worker: int, chunks: int, size: int) -> subprocess.Popen[str]:
    """Start a process that writes so many chunks of a size, and prints the number of each chunk that it has written."""
    command = [sys.executable, "-c", WRITING_PROGRAM, str(path), str(worker), str(chunks), str(size)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=ENVIRONMENT)


def count_stored(store: PredictionStore, worker: int, chunk: int, size: int) -> int:
    """Return how many predictions of a chunk are stored; each must be the right one."""
    expected = {}
    for number in range(size):
        query = query_key(f"{worker} {chunk} {number}", ["a", "b"])
        expected[query] = [float(worker), float(chunk), float(number)]
    stored = store.get_many("model", list(expected))
    for query, scores in stored.items():
        assert scores == expected[query]
    return len(stored)


def test_several_processes_create_and_write_one_store(path: Path) -> None:
    """Four processes race to make the file, and write twelve chunks of twenty predictions each."""
    writers = [start_writer(path, worker, chunks=12, size=20) for worker in range(4)]
    for process in writers:
        process.communicate(timeout=60)

    assert [process.returncode for process in writers] == [0, 0, 0, 0]
    with PredictionStore(path) as store:
        for worker in range(4):
            for chunk in range(12):
                assert count_stored(store, worker, chunk, size=20) == 20, f"chunk {chunk} of worker {worker}"
    assert os.listdir(path.parent) == [path.name], "no other file is left"


@pytest.mark.posix
@pytest.mark.parametrize("kills", [6, pytest.param(100, marks=pytest.mark.slow)])
def test_a_kill_at_any_moment_leaves_whole_chunks(path: Path, kills: int) -> None:
    """One process after the other writes chunks of 25 predictions, and is killed after a random time."""
    draw = random.Random(kills)
    chunks_of_workers = []
    for worker in range(kills):
        chunks = chunks_until_killed(path, worker, least=worker % 4, seconds=draw.uniform(0, 0.08))
        chunks_of_workers.append(chunks)
        with PredictionStore(path) as store:
            chunk_in_work, chunk_after_it = chunks, chunks + 1
            assert count_stored(store, worker, chunk_in_work, size=25) in (0, 25), "a part of the chunk in work"
            assert count_stored(store, worker, chunk_after_it, size=25) == 0

    assert sum(chunks_of_workers) > kills
    with PredictionStore(path) as store:
        for worker, chunks in enumerate(chunks_of_workers):
            for chunk in range(chunks):
                assert count_stored(store, worker, chunk, size=25) == 25, f"chunk {chunk} of worker {worker}"


def chunks_until_killed(path: Path, worker: int, least: int, seconds: float) -> int:
    """Kill a writer some time after its least number of chunks, and return how many chunks it said were written."""
    with start_writer(path, worker, chunks=100_000, size=25) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "open\n"
        first_chunks = [process.stdout.readline() for _ in range(least)]
        time.sleep(seconds)
        process.kill()
        return len(first_chunks) + len(process.stdout.readlines())


@pytest.mark.posix
def test_after_ctrl_c_while_another_process_writes_the_store_can_be_written(path: Path) -> None:
    with PredictionStore(path) as store:
        other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        other.execute("BEGIN IMMEDIATE")
        interrupt = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
        end_of_other = threading.Timer(0.6, other.rollback)
        interrupt.start()
        end_of_other.start()
        with pytest.raises(KeyboardInterrupt):
            store.put_many("m", [(key(0), scores_of_query(0))])
        end_of_other.join()
        store.put_many("m", [(key(0), scores_of_query(0))])
        assert store.info().answers == 1
        other.close()


@pytest.mark.posix
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_must_open_the_store_itself(path: Path) -> None:
    with PredictionStore(path) as store:
        store.put_many("model", [(key(0), 0)])
        child = os.fork()
        if child == 0:
            try:
                store.get_many("model", [key(0)])
            except ArgumentError:
                store.close()  # it leaves the connection of the parent alone
                os._exit(0)
            finally:
                os._exit(1)
        assert os.waitpid(child, 0)[1] == 0
        store.put_many("model", [(key(1), 1)])
        assert store.info().answers == 2


# -- what cannot be written -----------------------------------------------------------------------------------------


def test_a_store_that_was_deleted_is_noticed_before_predictions_are_lost_in_it(path: Path) -> None:
    with PredictionStore(path) as store:
        store.put_many("model", [(key(1), 1)])
        path.unlink()

        with pytest.raises(StoreError, match="was deleted, moved or replaced while it was in use"):
            store.put_many("model", [(key(2), 1)])


def test_a_store_that_was_replaced_is_noticed_before_predictions_are_lost_in_it(path: Path) -> None:
    with PredictionStore(path) as store:
        store.put_many("model", [(key(1), 1)])
        for suffix in ("", "-wal", "-shm"):
            path.with_name(path.name + suffix).unlink()
        store_scores(path, range(3))

        with pytest.raises(StoreError, match="was deleted, moved or replaced while it was in use"):
            store.put_many("model", [(key(2), 1)])


# -- what is no store -----------------------------------------------------------------------------------------------


def execute_sql(path: Path, sql: str) -> None:
    """Execute statements on a database without the library."""
    connection = sqlite3.connect(path)
    connection.executescript(sql)
    connection.close()


def assert_refused_and_unchanged(path: Path) -> None:
    content = path.read_bytes()
    with pytest.raises(SchemaError, match=r"prediction store|damaged") as caught:
        PredictionStore(path)
    assert str(path) in str(caught.value)
    assert path.read_bytes() == content


@pytest.mark.parametrize(
    "content",
    [b"label,text\n" * 1000, b"SQLite format 3\x00", bytes(5000)],
    ids=["a table of texts", "the beginning of a database", "zeros"],
)
def test_another_file_is_refused_and_left_alone(path: Path, content: bytes) -> None:
    path.write_bytes(content)

    assert_refused_and_unchanged(path)


def test_another_database_is_refused_and_left_alone(path: Path) -> None:
    execute_sql(path, "CREATE TABLE answers (a)")

    assert_refused_and_unchanged(path)


OTHER_SCHEMAS = pytest.mark.parametrize(
    ("version", "message"), [(1, "an earlier state of 1.0.0"), (SCHEMA + 1, "newer version")], ids=["earlier", "later"]
)


@OTHER_SCHEMAS
@pytest.mark.parametrize("read_only", [False, True])
def test_a_store_with_another_schema_is_refused(path: Path, version: int, message: str, read_only: bool) -> None:
    store_scores(path, range(3))
    execute_sql(path, f"PRAGMA user_version = {version}")

    with pytest.raises(SchemaError, match=message):
        PredictionStore(path, read_only=read_only)


@OTHER_SCHEMAS
def test_a_store_with_another_schema_is_not_merged(path: Path, version: int, message: str) -> None:
    store_scores(path, range(3))
    execute_sql(path, f"PRAGMA user_version = {version}")

    with PredictionStore(path.with_name("new")) as store, pytest.raises(SchemaError, match=message):
        store.merge(path)


def test_a_log_left_over_from_a_deleted_store_is_refused(path: Path) -> None:
    store = PredictionStore(path)
    store.put_many("model", [(key(1), 1)])
    path.unlink()
    with pytest.raises(SchemaError, match=r"run\.sqlite is not there, but .*run\.sqlite-wal is\. Move"):
        PredictionStore(path)
    store.close()


# -- damage ---------------------------------------------------------------------------------------------------------


NESTED_LISTS = "printf('%.*c', 100000, '[')"
"""In SQL: a text of 100,000 opening brackets."""

DAMAGE_FOUND_ON_OPENING = {
    "model name that is no text": "UPDATE models SET name = x'ff'",
    "two models with one name": "UPDATE OR IGNORE models SET name = 'text'",
    "editions that are no JSON": "UPDATE models SET editions = '['",
    "editions that are nested too deep": f"UPDATE models SET editions = {NESTED_LISTS}",
    "a missing table": "DROP TABLE models",
    "a further table": "CREATE TABLE more (a)",
    "a further index": "CREATE INDEX i ON predictions (query)",
    "a trigger": "CREATE TRIGGER t AFTER INSERT ON predictions BEGIN DELETE FROM predictions; END",
}
DAMAGE_FOUND_ON_READING = {
    "a prediction of one byte": "UPDATE predictions SET prediction = x'00'",
    "a prediction that is no JSON": "UPDATE predictions SET prediction = '['",
    "a prediction that is nested too deep": f"UPDATE predictions SET prediction = {NESTED_LISTS}",
    "a prediction that is a number": "UPDATE predictions SET prediction = 5",
    "a query that is no key": "UPDATE OR IGNORE predictions SET query = ''",
}
"""What is wrong, and the SQL statement that does it."""


@pytest.mark.parametrize("statement", DAMAGE_FOUND_ON_OPENING.values(), ids=DAMAGE_FOUND_ON_OPENING)
def test_a_store_with_damaged_tables_is_refused_when_it_is_opened(path: Path, statement: str) -> None:
    store_scores(path, range(600), label_count=6)
    execute_sql(path, statement)

    with pytest.raises(SchemaError, match=r"\.recover"):
        PredictionStore(path)


@pytest.mark.parametrize("statement", DAMAGE_FOUND_ON_READING.values(), ids=DAMAGE_FOUND_ON_READING)
def test_a_store_with_damaged_predictions_is_refused_when_they_are_read(path: Path, statement: str) -> None:
    store_scores(path, range(600), label_count=6)
    execute_sql(path, statement)

    with PredictionStore(path) as store, pytest.raises(SchemaError, match=r"\.recover"):
        store.export(io.StringIO())


def overwrite_a_page(content: bytearray) -> None:
    """Replace the fifth page of 4,096 bytes with zeros."""
    content[16384:20480] = bytes(4096)


def cut_off(content: bytearray) -> None:
    """Remove all but the first 20,000 bytes."""
    del content[20000:]


def overwrite_the_schema(content: bytearray) -> None:
    """Replace bytes after the header of 100 bytes, where the schema begins."""
    content[100:140] = random.Random(1).randbytes(40)


@pytest.mark.parametrize("damage", [overwrite_a_page, cut_off, overwrite_the_schema])
def test_a_damaged_file_is_refused(path: Path, damage: Callable[[bytearray], None]) -> None:
    store_scores(path, range(600), label_count=6)
    content = bytearray(path.read_bytes())
    damage(content)
    path.write_bytes(content)

    with pytest.raises(SchemaError, match=r"\.recover"):
        PredictionStore(path)


@pytest.mark.skipif(shutil.which("sqlite3") is None, reason="the program sqlite3, which repairs the file, is not here")
def test_the_program_sqlite3_recovers_predictions_of_a_damaged_file(path: Path, tmp_path: Path) -> None:
    """With the command that the message names."""
    store_scores(path, range(600), label_count=6)
    content = bytearray(path.read_bytes())
    overwrite_a_page(content)
    path.write_bytes(content)

    recovery = subprocess.run(["sqlite3", path, ".recover"], capture_output=True, check=False)
    if recovery.returncode != 0:
        pytest.skip(f"this build of the program sqlite3 has no .recover: {recovery.stderr.decode()}")
    new_path = tmp_path / "new.sqlite"
    subprocess.run(["sqlite3", new_path], input=recovery.stdout, capture_output=True, check=True)

    with PredictionStore(new_path) as store:
        recovered = store.get_many("model", [key(number) for number in range(600)])
    assert len(recovered) > 100
    for number in range(600):
        if key(number) in recovered:
            assert recovered[key(number)] == scores_of_query(number, label_count=6)


def test_what_another_run_stored_first_is_used_and_not_removed(path: Path) -> None:
    """Another run stores a prediction of the only query while this one computes it."""
    query = Query("the prompt", tuple(LABELS), label=0, row=0, repeat=0)
    with PredictionStore(path) as store:
        store_of_this_run = BoundStore(store, "model")

        def predict(prompt: str, label_space: list[str]) -> list[float]:
            store.put_many("model", [(query_key("the prompt", LABELS), [0.5, 0.5])])
            return [0.25, 0.75]

        predictions = predict_queries(predict, [query], "Test", RunOptions(store=store_of_this_run))

        assert predictions == [[0.5, 0.5]]
        assert store_of_this_run.remove_written() == 0
        assert store.info().answers == 1
