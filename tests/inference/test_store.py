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
from pathlib import Path

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
    """Return the key of the query with this number."""
    return query_key(f"prompt {number}", LABELS)


def answer(number: int, width: int = 2) -> list[float]:
    """Return the scores of the query with this number: always the same, of so many labels."""
    draw = random.Random(number)
    return [draw.gauss(0, 1) for _ in range(width)]


def fill(path: Path, numbers: range, model: str = "model", width: int = 2) -> None:
    """Store the scores of queries with these numbers."""
    with PredictionStore(path) as store:
        store.put_many(model, [(key(number), answer(number, width)) for number in numbers])


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "run.sqlite"


# -- keys -----------------------------------------------------------------------------------------------------------

texts = st.text(max_size=8)


@given(st.one_of(texts, st.lists(texts, max_size=3)), st.lists(texts, max_size=3), st.data())
def test_equal_keys_mean_equal_queries(prompt, labels, data):
    other = data.draw(st.one_of(texts, st.lists(texts, max_size=3), st.just(prompt)))
    others = data.draw(st.one_of(st.lists(texts, max_size=3), st.just(labels)))
    assert (query_key(prompt, labels) == query_key(other, others)) == ((prompt, labels) == (other, others))


EIGHT_BYTES = struct.Struct(">Q").pack


def test_the_key_of_a_prompt_is_stable_over_versions():
    """Written out by hand: the name of the layout, then the prompt and the labels, each text with its length."""
    prompt = EIGHT_BYTES(3) + "aé".encode()
    labels = EIGHT_BYTES(1) + EIGHT_BYTES(1) + b"b"
    assert query_key("aé", ["b"]) == hashlib.sha256(b"staicc-query-1 one" + prompt + labels).digest()


def test_the_key_of_a_noisy_channel_is_stable_over_versions():
    """With the number of prompts, as with that of labels."""
    prompts = EIGHT_BYTES(2) + EIGHT_BYTES(1) + b"a" + EIGHT_BYTES(0)
    labels = EIGHT_BYTES(0)
    assert query_key(("a", ""), ()) == hashlib.sha256(b"staicc-query-1 all" + prompts + labels).digest()


def test_prompts_that_differ_in_a_lone_surrogate_have_different_keys():
    assert query_key("\ud800", []) != query_key("\ud801", [])


def test_a_label_space_is_encoded_once_for_many_prompts(monkeypatch):
    encoded = []
    frame = StaICC.inference.store._framed_list
    monkeypatch.setattr(StaICC.inference.store, "_framed_list", lambda texts: encoded.append(texts) or frame(texts))
    for number in range(1000):
        query_key(f"prompt {number}", ["encoded", "once"])
    assert encoded == [("encoded", "once")]


# -- what goes in comes out -----------------------------------------------------------------------------------------


def test_pages_stay_in_the_log_until_it_is_large_so_that_a_page_that_changes_often_is_seldom_moved(path):
    with PredictionStore(path) as store:
        size_of_empty_store = path.stat().st_size
        for first in range(0, 4000, 100):
            store.put_many("model", [(key(number), answer(number)) for number in range(first, first + 100)])
        log = path.with_name(f"{path.name}-wal")
        assert log.stat().st_size > 5_000_000  # SQLite moves the pages of such a log by default
        assert path.stat().st_size <= size_of_empty_store
        store.checkpoint()
        assert path.stat().st_size > 200_000
        assert store.info().answers == 4000


answers = st.one_of(
    st.lists(st.floats(allow_nan=False, max_value=1.7976931348623157e308), min_size=1, max_size=300),
    st.integers(0, 2**31 - 1),
    st.text(max_size=20),
    st.builds(Text, st.sampled_from(["a", "", '["a", "stop"]']), st.sampled_from(["stop", "length", None])),
)


@settings(max_examples=25, deadline=None)
@given(st.dictionaries(st.integers(), answers, max_size=40))
def test_every_answer_comes_back_bit_for_bit(tmp_path_factory, given_answers):
    path = tmp_path_factory.mktemp("store") / "s"
    items = {key(number): value for number, value in given_answers.items()}
    with PredictionStore(path) as store:
        store.put_many("model", items.items())
    with PredictionStore(path) as store:
        found = store.get_many("model", list(items))
    assert {k: bits(v) for k, v in found.items()} == {k: bits(v) for k, v in items.items()}
    assert [type(found[k]) for k in items] == [Text if type(v) is str else type(v) for v in items.values()]


def bits(value):
    numbers = isinstance(value, list)
    return [struct.pack("<d", one) for one in value] if numbers else (value, getattr(value, "finish_reason", None))


@pytest.mark.parametrize("bad", [[None], [[0.5]], b"x", (key(1),)])
def test_what_cannot_be_stored_is_not_stored_nor_anything_with_it(path, bad):
    with PredictionStore(path) as store:
        with pytest.raises((TypeError, struct.error)):
            store.put_many("model", [(key(1), [0.5]), (key(2), bad)])
        assert store.info().answers == 0


def test_a_store_survives_a_power_cut(path):
    with PredictionStore(path) as store:
        (synchronous,) = store._connection.execute("PRAGMA synchronous").fetchone()
    full = 2
    assert synchronous == full


def test_an_equal_prediction_is_stored_once_silently(path, caplog):
    with PredictionStore(path) as store:
        assert store.put_many("model", [(key(1), [0.5])]) == {}
        assert store.put_many("model", [(key(1), [0.5]), (key(1), [0.5])]) == {}
        assert store.info().answers == 1
    assert not caplog.records


@pytest.mark.parametrize(
    ("first", "second"), [([0.5], [0.75]), ([0.25], 1), ([0.0], [-0.0]), (0, 1)], ids=["score", "type", "sign", "label"]
)
def test_the_first_prediction_stays_and_is_returned_if_another_is_stored(path, first, second):
    with PredictionStore(path) as store:
        store.put_many("model", [(key(1), first)])
        assert store.put_many("model", [(key(1), second)]) == {key(1): first}
        assert store.get_many("model", [key(1)]) == {key(1): first}


def test_of_two_predictions_at_once_the_first_stays(path):
    with PredictionStore(path) as store:
        assert store.put_many("model", [(key(1), 0), (key(1), 1)]) == {key(1): 0}
        assert store.get_many("model", [key(1)]) == {key(1): 0}


def test_a_model_that_predicts_differently_is_named_once(path, caplog):
    with PredictionStore(path) as store, caplog.at_level(logging.WARNING):
        store.put_many("model", [(key(1), [0.5]), (key(2), [0.25])])
        store.put_many("model", [(key(1), [0.75])])
        store.put_many("model", [(key(2), [0.75])])
    (record,) = caplog.records
    assert "'model' predicted 1 queries differently" in record.getMessage()


def test_removed_predictions_are_gone_and_no_others(path):
    """Of two models with five predictions each, two of one are removed. Query 9 is not there."""
    with PredictionStore(path) as store:
        for model in ("A", "B"):
            store.put_many(model, [(key(number), number) for number in range(5)])
        assert store.remove("A", [key(0), key(1), key(9)]) == 2
        assert store.remove("unknown", [key(0)]) == 0
        left = store.get_many("A", [key(number) for number in range(5)])
        assert left == {key(2): 2, key(3): 3, key(4): 4}
        assert store.info().models == {"A": 3, "B": 5}


def test_export_gives_back_every_bit(path):
    values = {key(1): [0.1 + 0.2, -0.0, 5e-324], key(2): 3, key(3): "posi\ntive \U0001f600"}
    with PredictionStore(path) as store:
        store.put_many("model", values.items())
        store.put_many("another", [(key(1), 0)])
        stream = io.StringIO()
        assert store.export(stream) == 4
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    found = {bytes.fromhex(line["key"]): line["answer"] for line in lines if line["fingerprint"] == "model"}
    assert {k: bits(v) for k, v in found.items()} == {k: bits(v) for k, v in values.items()}
    again = io.StringIO()
    with PredictionStore(path, read_only=True) as store:
        store.export(again)
    assert again.getvalue() == stream.getvalue()


def test_a_merge_adds_what_is_missing_and_keeps_what_is_there(path, tmp_path):
    other = tmp_path / "other.sqlite"
    with PredictionStore(path) as store, PredictionStore(other) as source:
        store.put_many("A", [(key(1), [1.0]), (key(2), [2.0])])
        source.put_many("A", [(key(1), [1.0]), (key(2), [2.5]), (key(3), [3.0])])
        report = store.merge(other)
        assert (report.added, report.present, report.different) == (1, 1, 1)
        merged = store.get_many("A", [key(1), key(2), key(3)])
        assert merged == {key(1): [1.0], key(2): [2.0], key(3): [3.0]}
        assert store.merge(other).added == 0


def test_a_merge_adds_all_predictions_of_another_model(path, tmp_path):
    other = tmp_path / "other.sqlite"
    fill(path, range(2), model="A")
    fill(other, range(1000), model="B")
    with PredictionStore(path) as store:
        assert store.merge(other).added == 1000
        assert store.get_many("B", [key(999)]) == {key(999): answer(999)}
        assert store.info().models == {"A": 2, "B": 1000}


def test_a_store_is_not_merged_into_itself(path, tmp_path):
    """Also by another name of the file."""
    fill(path, range(2))
    os.link(path, tmp_path / "link")
    with PredictionStore(path) as store:
        for same in (path, tmp_path / "link"):
            with pytest.raises(ArgumentError, match="cannot be merged into itself"):
                store.merge(same)


def test_stores_with_different_editions_of_one_model_are_not_merged(tmp_path):
    for number in (1, 2):
        with PredictionStore(tmp_path / f"{number}.sqlite") as store:
            store.put_many("model", [(key(number), 1)])
            assert store.add_edition("model", f"edition {number}", allowed=False) == []
    with PredictionStore(tmp_path / "1.sqlite") as store:
        assert store.add_edition("model", "edition 3", allowed=False) == ["edition 1"]
        assert store.add_edition("model", "edition 3", allowed=True) == ["edition 1"]
        with pytest.raises(StoreError, match=r"edition 1.*edition 2"):
            store.merge(tmp_path / "2.sqlite")
        assert store.get_many("model", [key(2)]) == {}
    with PredictionStore(tmp_path / "3.sqlite") as store:
        assert store.merge(tmp_path / "2.sqlite").added == 1
        assert store.add_edition("model", "edition 1", allowed=False) == ["edition 2"]  # it came with the copy
        assert store.merge(tmp_path / "2.sqlite").added == 0


# -- threads, forks, processes --------------------------------------------------------------------------------------


WRITER = """
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


def writer(path: Path, worker: int, chunks: int, size: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", WRITER, str(path), str(worker), str(chunks), str(size)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=ENVIRONMENT)


def present(store: PredictionStore, worker: int, chunk: int, size: int) -> int:
    """How many rows of a chunk are there; each must be the right one."""
    keys = {query_key(f"{worker} {chunk} {number}", ["a", "b"]): number for number in range(size)}
    found = store.get_many("model", list(keys))
    assert [k for k in found if found[k] != [float(worker), float(chunk), float(keys[k])]] == []
    return len(found)


def test_several_processes_create_and_write_one_store(path):
    """Four processes race to make the file, and write twelve chunks of twenty predictions each."""
    writers = [writer(path, worker, chunks=12, size=20) for worker in range(4)]
    assert [process.wait(60) for process in writers] == [0] * 4
    for process in writers:
        process.stdout.close()
    with PredictionStore(path) as store:
        for worker in range(4):
            for chunk in range(12):
                assert present(store, worker, chunk, size=20) == 20, (worker, chunk)
    assert sorted(os.listdir(path.parent)) == [path.name]


@pytest.mark.posix
@pytest.mark.parametrize("kills", [6, pytest.param(100, marks=pytest.mark.slow)])
def test_a_kill_at_any_moment_leaves_whole_chunks(path, kills):
    """One process after the other writes chunks of 25 predictions, and is killed after a random time."""
    draw = random.Random(kills)
    written_by_worker = []
    for worker in range(kills):
        written = chunks_until_killed(path, worker, least=worker % 4, seconds=draw.uniform(0, 0.08))
        written_by_worker.append(written)
        with PredictionStore(path) as store:
            assert present(store, worker, chunk=written, size=25) in (0, 25), "a part of the chunk in work"
            assert present(store, worker, chunk=written + 1, size=25) == 0

    assert sum(written_by_worker) > kills
    with PredictionStore(path) as store:
        for worker, written in enumerate(written_by_worker):
            for chunk in range(written):
                assert present(store, worker, chunk, size=25) == 25, f"chunk {chunk} of worker {worker}"


def chunks_until_killed(path: Path, worker: int, least: int, seconds: float) -> int:
    """Kill a writer some time after its least number of chunks, and return how many chunks it said were written."""
    with writer(path, worker, chunks=100_000, size=25) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "open\n"
        first_chunks = [process.stdout.readline() for _ in range(least)]
        time.sleep(seconds)
        process.kill()
        return len(first_chunks) + len(process.stdout.readlines())


@pytest.mark.posix
def test_after_ctrl_c_while_another_process_writes_the_store_can_be_written(path):
    with PredictionStore(path) as store:
        other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        other.execute("BEGIN IMMEDIATE")
        interrupt = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
        end_of_other = threading.Timer(0.6, other.rollback)
        interrupt.start()
        end_of_other.start()
        with pytest.raises(KeyboardInterrupt):
            store.put_many("m", [(key(0), answer(0))])
        end_of_other.join()
        store.put_many("m", [(key(0), answer(0))])
        assert store.info().answers == 1
        other.close()


@pytest.mark.posix
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_must_open_the_store_itself(path):
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


@pytest.mark.parametrize("how", ["delete", "replace"])
def test_a_file_that_went_away_is_noticed_before_anything_is_lost_in_it(path, how):
    with PredictionStore(path) as store:
        store.put_many("model", [(key(1), 1)])
        path.unlink()
        if how == "replace":
            for suffix in ("-wal", "-shm"):
                path.with_name(path.name + suffix).unlink()
            fill(path, range(3))
        with pytest.raises(StoreError, match="was deleted, moved or replaced while it was in use"):
            store.put_many("model", [(key(2), 1)])


# -- what is no store -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("content", [b"label,text\n" * 1000, b"SQLite format 3\x00", bytes(5000), "database"])
def test_another_file_is_refused_and_left_alone(path, content):
    if content == "database":
        change(path, "CREATE TABLE answers (a)")
        content = path.read_bytes()
    path.write_bytes(content)
    with pytest.raises(SchemaError, match=r"prediction store|damaged") as caught:
        PredictionStore(path)
    assert str(path) in str(caught.value)
    assert path.read_bytes() == content


def change(path: Path, sql: str) -> None:
    other = sqlite3.connect(path)
    other.executescript(sql)
    other.close()


@pytest.mark.parametrize(("version", "word"), [(1, "an earlier state of 1.0.0"), (SCHEMA + 1, "newer version")])
def test_another_schema_is_refused(path, version, word):
    fill(path, range(3))
    change(path, f"PRAGMA user_version = {version}")
    for read_only in (False, True):
        with pytest.raises(SchemaError, match=word):
            PredictionStore(path, read_only=read_only)
    with PredictionStore(path.with_name("new")) as store, pytest.raises(SchemaError, match=word):
        store.merge(path)


def test_a_log_left_over_from_a_deleted_store_is_refused(path):
    store = PredictionStore(path)
    store.put_many("model", [(key(1), 1)])
    path.unlink()
    with pytest.raises(SchemaError, match=r"run\.sqlite is not there, but .*run\.sqlite-wal is\. Move"):
        PredictionStore(path)
    store.close()


# -- damage ---------------------------------------------------------------------------------------------------------


NESTED = "prediction = printf('%.*c', 100000, '[')"
SET = {"predictions": ["prediction = x'00'", "prediction = '['", NESTED, "prediction = 5", "query = ''"]}
SET["models"] = ["name = x'ff'", "name = 'text'", "editions = '['", NESTED.replace("prediction", "editions")]
SQL = [f"UPDATE OR IGNORE {table} SET {own}" for table, every in SET.items() for own in every]
SQL += ["DROP TABLE models", "CREATE TABLE more (a)", "CREATE INDEX i ON predictions (query)"]
SQL += ["CREATE TRIGGER t AFTER INSERT ON predictions BEGIN DELETE FROM predictions; END"]


@pytest.mark.parametrize("kind", ["page", "cut", "header", *SQL])
def test_a_damaged_store_is_refused_and_sqlite_recovers_its_rows(path, tmp_path, kind):
    fill(path, range(600), width=6)
    data = bytearray(path.read_bytes())
    if kind == "page":
        data[16384:20480] = bytes(4096)
    elif kind == "cut":
        del data[20000:]
    elif kind == "header":
        data[100:140] = random.Random(1).randbytes(40)
    path.write_bytes(data)
    if kind in SQL:
        change(path, kind)
    with pytest.raises(SchemaError, match=r"\.recover"), PredictionStore(path) as store:
        (store.export if "predictions" in kind else str)(io.StringIO())  # all else is found when it is opened
    if kind == "page" and shutil.which("sqlite3") is not None:
        new = tmp_path / "new.sqlite"
        recovered = subprocess.run(["sqlite3", path, ".recover"], capture_output=True, check=False)
        if recovered.returncode == 0:  # some distributions build it without
            subprocess.run(["sqlite3", new], input=recovered.stdout, capture_output=True, check=True)
            with PredictionStore(new) as store:
                stored = store.get_many("model", [key(number) for number in range(600)])
            assert len(stored) > 100
            assert stored.items() <= {key(number): answer(number, 6) for number in range(600)}.items()


def test_what_another_run_stored_first_is_used_and_not_removed(path):
    with PredictionStore(path) as store:
        bound, query = BoundStore(store, "m"), Query("p", tuple(LABELS), 0, 0, 0)

        def predict(prompt, label_space):
            store.put_many("m", [(query_key("p", LABELS), [0.5, 0.5])])
            return [0.25, 0.75]

        assert predict_queries(predict, [query], "Test", RunOptions(store=bound)) == [[0.5, 0.5]]
        assert bound.remove_written() == 0
        assert store.info().answers == 1
