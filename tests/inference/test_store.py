"""The prediction store: what goes in comes out, survives kills, and is refused when it is not what was written."""

from __future__ import annotations

import contextlib
import errno
import io
import json
import logging
import math
import multiprocessing
import os
import pickle
import random
import shutil
import signal
import sqlite3
import struct
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import StaICC.inference.store
import StaICC.inference.store_file
from StaICC.errors import ArgumentError, SchemaError, StaICCError
from StaICC.inference.store import PredictionStore, StoreError, query_key
from StaICC.inference.store_file import until_free
from StaICC.inference.store_format import (
    APPLICATION_ID,
    KEY_BYTES,
    MODEL_BYTES,
    PAGE_SIZE,
    SCHEMA,
    BrokenRowError,
    decode_answer,
)
from StaICC.inference.store_salvage import salvage

ROOT = Path(StaICC.inference.store.__file__).parents[2]
LABELS = ["negative", "positive"]


def key(number: int) -> bytes:
    return query_key(f"prompt {number}", LABELS)


def answer(number: int, width: int = 2) -> list[float]:
    draw = random.Random(number)
    return [draw.gauss(0, 1) for _ in range(width)]


def fill(path: Path, numbers: range, model: str = "model", width: int = 2) -> None:
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


@pytest.mark.parametrize(
    ("one", "two"),
    [
        (("ab", ["c"]), ("a", ["bc"])),
        (("a", ["b", "c"]), (["a", "b"], ["c"])),
        ((["a"], []), ("a", [])),
        ((["a", "b"], ["c"]), (["a"], ["b", "c"])),
        (("", [""]), ("", [])),
        (("é", []), ("e\u0301", [])),
    ],
)
def test_texts_do_not_run_into_each_other(one, two):
    assert query_key(*one) != query_key(*two)


def test_the_key_is_stable_over_versions():
    # Written out by hand: the name of the layout, then each text with its length in eight bytes.
    import hashlib

    eight = struct.Struct(">Q").pack
    one = b"staicc-query-1 one" + eight(3) + "aé".encode() + eight(1) + eight(1) + b"b"
    assert query_key("aé", ["b"]) == hashlib.sha256(one).digest()
    many = b"staicc-query-1 all" + eight(2) + eight(1) + b"a" + eight(0) + eight(0)
    assert query_key(("a", ""), ()) == hashlib.sha256(many).digest()
    assert query_key("\ud800", []) != query_key("\ud801", [])


@pytest.mark.parametrize("bad", [(None, []), (3, []), (["a", 3], []), ("a", [3]), ("a", None)])
def test_what_is_no_query_has_no_key(bad):
    with pytest.raises(ArgumentError, match="a query is a prompt"):
        query_key(*bad)


def test_a_text_is_no_label_space():
    with pytest.raises(ArgumentError, match="not the single text 'yes'"):
        query_key("a", "yes")


# -- what goes in comes out -----------------------------------------------------------------------------------------

answers = st.one_of(
    st.lists(st.floats(allow_nan=False, max_value=1.7976931348623157e308), min_size=1, max_size=300),
    st.integers(0, 2**31 - 1),
    st.text(max_size=20),
)


@given(st.dictionaries(st.integers(), answers, max_size=20))
def test_every_answer_comes_back_bit_for_bit(tmp_path_factory, given_answers):
    path = tmp_path_factory.mktemp("store") / "s"
    items = {key(number): value for number, value in given_answers.items()}
    with PredictionStore(path) as store:
        store.put_many("model", items.items())
    with PredictionStore(path) as store:
        found = store.get_many("model", list(items))
    assert {k: bits(v) for k, v in found.items()} == {k: bits(v) for k, v in items.items()}
    assert [type(found[k]) for k in items] == [type(v) for v in items.values()]


def bits(value):
    return [struct.pack("<d", number) for number in value] if isinstance(value, list) else value


@pytest.mark.parametrize("count", [0, 1, 399, 400, 401, 1700])
def test_any_number_of_keys(path, count):
    fill(path, range(1700))
    with PredictionStore(path) as store:
        keys = [key(number) for number in range(count)]
        assert store.get_many("model", keys) == {key(number): answer(number) for number in range(count)}
        assert store.get_many("model", [*keys, key(-1), *keys]) == store.get_many("model", keys)


def test_two_models_never_share_answers(path):
    with PredictionStore(path) as store:
        store.put_many("A", [(key(1), [1.0])])
        store.put_many("B", [(key(1), [2.0]), (key(2), 1)])
        assert store.get_many("A", [key(1), key(2)]) == {key(1): [1.0]}
        assert store.get_many("B", [key(1), key(2)]) == {key(1): [2.0], key(2): 1}
        assert store.get_many("a", [key(1)]) == store.get_many("A ", [key(1)]) == {}


@pytest.mark.parametrize("fingerprint", ["", None, b"A", 3])
def test_a_model_without_a_name_is_refused(path, fingerprint):
    with PredictionStore(path) as store:
        for call in (lambda: store.get_many(fingerprint, [key(1)]), lambda: store.put_many(fingerprint, [])):
            with pytest.raises(ArgumentError, match="fingerprint that is a text and not empty"):
                call()


@pytest.mark.parametrize(
    "bad", [[], [1], [math.nan], [0.5, math.inf], True, -1, 2**31, 0.5, None, (0.5,), [None], [True], [[0.5]], b"x"]
)
def test_what_is_no_answer_is_not_stored_nor_anything_with_it(path, bad):
    with PredictionStore(path) as store:
        with pytest.raises(ArgumentError, match="an answer to be stored is"):
            store.put_many("model", [(key(1), [0.5]), (key(2), bad)])
        assert store.info().answers == 0


@pytest.mark.parametrize("damaged", [b"", b"f", b"f" + bytes(7), b"f" + bytes(9), b"i", b"i1x", b"s\xff", b"x1"])
def test_bytes_that_are_no_answer_are_told_apart(damaged):
    with pytest.raises(BrokenRowError, match="no answer has these bytes"):
        decode_answer(damaged)


@pytest.mark.parametrize("bad", ["key", b"short", None, bytes(33)])
def test_what_is_no_key_is_refused(path, bad):
    with PredictionStore(path) as store, pytest.raises(ArgumentError, match="the 32 bytes that query_key gives"):
        store.put_many("model", [(bad, [0.5])])


def test_the_first_answer_stays_and_a_different_one_is_said_once(path, caplog):
    with PredictionStore(path) as store:
        assert store.put_many("model", [(key(1), [0.5]), (key(2), [0.25])]) == {}
        assert store.put_many("model", [(key(1), [0.5]), (key(1), [0.5])]) == {}
        assert not caplog.records
        with caplog.at_level(logging.WARNING):
            assert store.put_many("model", [(key(1), [0.75]), (key(3), [0.0])]) == {key(1): [0.5]}
            assert store.put_many("model", [(key(2), 1), (key(3), [-0.0])]) == {key(2): [0.25], key(3): [0.0]}
        assert store.get_many("model", [key(1), key(2), key(3)]) == {key(1): [0.5], key(2): [0.25], key(3): [0.0]}
    assert len(caplog.records) == 1
    assert "'model' answered 1 queries differently" in caplog.text


def test_within_one_call_the_first_counts_too(path):
    with PredictionStore(path) as store:
        assert store.put_many("model", [(key(1), 0), (key(1), 1)]) == {key(1): 0}
        assert store.get_many("model", [key(1)]) == {key(1): 0}


def test_info_counts_by_model(path):
    with PredictionStore(path) as store:
        store.put_many("B", [(key(number), answer(number)) for number in range(30)])
        store.put_many("A", [(key(1), "positive")])
        info = store.info(verify=True)
    assert [(model.fingerprint, model.answers, model.damaged) for model in info.models] == [("A", 1, 0), ("B", 30, 0)]
    assert (info.answers, info.damaged, info.schema, info.path) == (31, 0, SCHEMA, path)
    assert info.size_bytes > 30 * 60


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


def test_an_error_of_the_stream_is_not_one_of_the_store(path):
    class Broken(io.StringIO):
        def write(self, text):
            raise BrokenPipeError("gone")

    fill(path, range(3))
    with PredictionStore(path) as store, pytest.raises(BrokenPipeError):
        store.export(Broken())


def test_a_merge_holds_one_lock_at_a_time(path, tmp_path, monkeypatch):
    """A fork takes the locks of all stores, in an order of its own: whoever holds one and wants another may wait."""
    other = tmp_path / "other.sqlite"
    with PredictionStore(other) as source:
        source.put_many("A", [(key(1), [1.0])])
    free = []

    def look():
        for store in list(StaICC.inference.store._STORES):
            if store.path == other and not store._closed:
                free.append(store._lock.acquire(timeout=2))
                if free[-1]:
                    store._lock.release()

    absorb = PredictionStore.absorb

    def looked_at(store, rows, names):
        looking = threading.Thread(target=look)
        looking.start()
        looking.join()
        return absorb(store, rows, names)

    monkeypatch.setattr(PredictionStore, "absorb", looked_at)
    with PredictionStore(path) as store:
        assert store.merge(other).added == 1
    assert free == [True]


def test_merge_adds_keeps_and_counts(path, tmp_path):
    other = tmp_path / "other.sqlite"
    with PredictionStore(path) as store, PredictionStore(other) as source:
        store.put_many("A", [(key(1), [1.0]), (key(2), [2.0])])
        source.put_many("A", [(key(1), [1.0]), (key(2), [2.5]), (key(3), [3.0])])
        source.put_many("B", [(key(number), answer(number)) for number in range(6000)])
        report = store.merge(other)
        assert (report.added, report.present, report.different) == (6001, 1, 1)
        assert store.get_many("A", [key(1), key(2), key(3)]) == {key(1): [1.0], key(2): [2.0], key(3): [3.0]}
        assert store.get_many("B", [key(5999)]) == {key(5999): answer(5999)}
        assert [model.fingerprint for model in store.info().models] == ["A", "B"]
        assert store.merge(other).added == 0
        with pytest.raises(ArgumentError, match="cannot be merged into itself"):
            store.merge(path)


def test_two_models_that_differ_at_one_key_are_two_differences(path, tmp_path):
    other = tmp_path / "other.sqlite"
    with PredictionStore(path) as store, PredictionStore(other) as source:
        for model in "AB":
            store.put_many(model, [(key(1), 0)])
            source.put_many(model, [(key(1), 1)])
        assert store.merge(other).different == 2


def test_closed_is_closed(path):
    store = PredictionStore(path)
    store.close()
    store.close()
    with pytest.raises(ArgumentError, match="this store was closed"):
        store.get_many("model", [key(1)])
    assert sorted(os.listdir(path.parent)) == [path.name]  # no log is left behind


def test_a_pickled_store_opens_itself_again(path):
    with PredictionStore(path) as store:
        store.put_many("model", [(key(1), 1)])
        with pickle.loads(pickle.dumps(store)) as again:
            assert again.get_many("model", [key(1)]) == {key(1): 1}


def test_a_relative_path_stays_where_it_was(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    store = PredictionStore("run.sqlite")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    with pickle.loads(pickle.dumps(store)) as again:
        assert again.path == store.path == tmp_path / "run.sqlite"
    store.close()


@pytest.mark.parametrize("name", ["a b", "50%", "a?mode=ro", "a#b", "é", ":memory:", "file:x"])
def test_any_file_name(tmp_path, name, file_name):
    name = file_name(name) or "e"
    fill(tmp_path / name, range(3))
    assert sorted(os.listdir(tmp_path)) == [name]
    with PredictionStore(tmp_path / name) as store:
        assert store.info().answers == 3


# -- threads, forks, processes --------------------------------------------------------------------------------------


def test_many_threads_share_one_store(path):
    errors = []

    def work(store, worker):
        try:
            for number in range(40):
                store.put_many("model", [(key(worker * 1000 + number), answer(number))])
                assert store.get_many("model", [key(worker * 1000 + number)])
        except BaseException as error:
            errors.append(error)

    with PredictionStore(path) as store:
        threads = [threading.Thread(target=work, args=(store, worker)) for worker in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not errors
        assert store.info(verify=True).answers == 240


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


def writer(path: Path, worker: int, chunks: int, size: int, **options) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path), str(worker), str(chunks), str(size)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        **options,
    )


def present(store: PredictionStore, worker: int, chunk: int, size: int) -> int:
    """How many rows of a chunk are there; each must be the right one."""
    keys = {query_key(f"{worker} {chunk} {number}", ["a", "b"]): number for number in range(size)}
    found = store.get_many("model", list(keys))
    assert all(found[k] == [float(worker), float(chunk), float(keys[k])] for k in found)
    return len(found)


def test_several_processes_create_and_write_one_store(path):
    writers = [writer(path, worker, 12, 20) for worker in range(4)]  # they race to make the file, too
    assert [process.wait(60) for process in writers] == [0] * 4
    for process in writers:
        process.stdout.close()
    with PredictionStore(path) as store:
        assert all(present(store, worker, chunk, 20) == 20 for worker in range(4) for chunk in range(12))
        assert store.info(verify=True).damaged == 0
    assert sorted(os.listdir(path.parent)) == [path.name]


def kill_loop(path: Path, rounds: int, seed: int) -> None:
    draw = random.Random(seed)
    size, done = 25, []
    for worker in range(rounds):
        process = writer(path, worker, 100000, size)
        assert process.stdout.readline() == "open\n"
        time.sleep(draw.uniform(0, 0.08))
        process.send_signal(signal.SIGKILL)
        process.wait()
        said = [int(line) for line in process.stdout.read().split()]
        process.stdout.close()
        done.append(len(said))
        with PredictionStore(path) as store:
            for chunk in range(len(said)):
                assert present(store, worker, chunk, size) == size  # what was promised is there
            assert present(store, worker, len(said), size) in (0, size)  # the last one: all of it or nothing
            assert present(store, worker, len(said) + 1, size) == 0
            assert store.info(verify=True).damaged == 0
    with PredictionStore(path) as store:
        assert all(present(store, worker, chunk, size) == size for worker, n in enumerate(done) for chunk in range(n))
    assert sum(done) > rounds


@pytest.mark.posix
def test_a_kill_at_any_moment_leaves_whole_chunks(path):
    kill_loop(path, 10, 1)


@pytest.mark.posix
@pytest.mark.slow
def test_a_hundred_kills_leave_whole_chunks(path):
    kill_loop(path, 100, 2)


def test_a_kill_while_the_store_is_made_leaves_a_store_or_none(tmp_path):
    imports = "import sys\nfrom StaICC.inference.store import PredictionStore\n"
    code = imports + "print(flush=True)\nPredictionStore(sys.argv[1])"
    draw = random.Random(3)
    for number in range(12):
        path = tmp_path / str(number)
        process = subprocess.Popen(
            [sys.executable, "-c", code, str(path)],
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        process.stdout.readline()
        time.sleep(draw.uniform(0, 0.006))
        process.kill()
        process.wait()
        process.stdout.close()
        fill(path, range(3))  # never refused
        with PredictionStore(path) as store:
            assert store.info().answers == 3


def in_child(store, number):
    store.put_many("model", [(key(number), answer(number))])
    return store.get_many("model", [key(0), key(number)])


@pytest.mark.posix
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_opens_the_store_again(path):
    with PredictionStore(path) as store:
        store.put_many("model", [(key(0), answer(0))])
        stop = threading.Event()

        def busy():
            number = 10_000
            while not stop.is_set():
                store.put_many("model", [(key(number), answer(number))])
                number += 1

        thread = threading.Thread(target=busy)  # another thread is inside the store when the fork comes
        thread.start()
        try:
            children = []
            for number in range(1, 9):
                child = os.fork()
                if child == 0:
                    status = 1
                    try:
                        found = in_child(store, number)
                        status = 0 if found == {key(0): answer(0), key(number): answer(number)} else 2
                        store.close()
                    finally:
                        os._exit(status)
                children.append(child)
            assert [os.waitpid(child, 0)[1] for child in children] == [0] * 8
        finally:
            stop.set()
            thread.join()
        assert len(store.get_many("model", [key(number) for number in range(9)])) == 9
        assert store.info(verify=True).damaged == 0


def pool_work(arguments):
    store, number = arguments
    with store:
        return in_child(store, number)[key(number)]


def test_process_pool_workers_get_the_store_by_pickle(path):
    fill(path, range(1))
    with (
        ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as pool,
        PredictionStore(path) as store,
    ):
        assert list(pool.map(pool_work, [(store, number) for number in range(1, 9)])) == [
            answer(n) for n in range(1, 9)
        ]


# -- what cannot be written -----------------------------------------------------------------------------------------


def test_a_full_disk_loses_nothing_that_was_stored(path):
    with PredictionStore(path) as store:
        store.put_many("model", [(key(number), answer(number)) for number in range(50)])
        pages = store._connection.execute("PRAGMA page_count").fetchone()[0]
        store._connection.execute(f"PRAGMA max_page_count = {pages + 2}")
        with pytest.raises(
            StoreError, match=r"database or disk is full.*what was stored before is kept.*Free the disk"
        ):
            store.put_many("model", [(key(number), answer(number)) for number in range(50, 5000)])
        assert store.info(verify=True).answers == 50
        store._connection.execute("PRAGMA max_page_count = 100000")
        store.put_many("model", [(key(number), answer(number)) for number in range(50, 5000)])
        assert store.info(verify=True).answers == 5000


def test_a_read_only_file_system_is_an_error_about_the_store(path, monkeypatch):
    def refuse(*given, **options):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(given[0]))

    def unable(*given, **options):
        raise sqlite3.OperationalError("unable to open database file")

    monkeypatch.setattr(Path, "unlink", refuse)
    monkeypatch.setattr("StaICC.inference.store_file.sqlite3.connect", unable)
    with pytest.raises(StoreError, match="the prediction store cannot be") as caught:
        PredictionStore(path)
    assert str(caught.value).startswith(f"{path}: ")


@pytest.mark.posix
def test_a_file_size_limit_is_an_error_and_the_store_is_whole(path):
    fill(path, range(200))
    code = (
        "import resource, sys\n"
        "from StaICC.inference.store import PredictionStore, StoreError, query_key\n"
        "store = PredictionStore(sys.argv[1])\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (60000, 60000))\n"
        "done = 0\n"
        "try:\n"
        "    for chunk in range(1000):\n"
        "        store.put_many('full', [(query_key(f'{chunk} {n}', []), [float(n)]) for n in range(20)])\n"
        "        done += 1\n"
        "except StoreError as error:\n"
        "    print(done)\n"
    )
    child = subprocess.run(
        [sys.executable, "-c", code, str(path)],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert child.stdout.strip().isdigit(), child.stderr
    with PredictionStore(path) as store:
        counts = {model.fingerprint: model.answers for model in store.info(verify=True).models}
        assert counts == {"model": 200, "full": 20 * int(child.stdout)}
        assert store.info(verify=True).damaged == 0
    import resource

    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] != 60000


def test_a_lock_held_too_long_is_said(path):
    fill(path, range(3))
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with PredictionStore(path, timeout=0.2) as store:
        assert store.get_many("model", [key(1)]) == {key(1): answer(1)}  # reading goes on
        with pytest.raises(StoreError, match=r"run\.sqlite: .*locked.*wait for the other process"):
            store.put_many("model", [(key(9), 1)])
        other.execute("ROLLBACK")
        store.put_many("model", [(key(9), 1)])
    other.close()


def test_a_lock_held_for_a_moment_is_waited_for(path):
    fill(path, range(3))
    other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")
    threading.Timer(0.3, lambda: other.execute("ROLLBACK")).start()
    with PredictionStore(path, timeout=20) as store:
        store.put_many("model", [(key(9), 1)])
    other.close()


def test_a_lock_that_sqlite_does_not_wait_for_is_waited_for(path):
    """SQLite gives up at once where two connections change the journal of a new file."""
    options = {"timeout": 0, "isolation_level": None, "check_same_thread": False}
    with contextlib.closing(sqlite3.connect(path, **options)) as holder:
        holder.execute("CREATE TABLE t (x)")
        holder.execute("BEGIN EXCLUSIVE")
        with contextlib.closing(sqlite3.connect(path, **options)) as other:
            with pytest.raises(sqlite3.OperationalError, match="locked"):
                until_free(other, "PRAGMA journal_mode = WAL", 0.1)
            free = threading.Timer(0.3, holder.execute, ["COMMIT"])
            free.start()
            until_free(other, "PRAGMA journal_mode = WAL", 60.0)
            free.join()
            assert other.execute("PRAGMA journal_mode").fetchone() == ("wal",)
            with pytest.raises(sqlite3.OperationalError, match="syntax error"):
                until_free(other, "PRAGNA journal_mode", 60.0)


def test_a_file_system_without_hard_links_will_do(path, monkeypatch):
    def link(source, target):
        raise PermissionError("no hard links here")

    monkeypatch.setattr(os, "link", link)
    fill(path, range(3))
    assert sorted(file.name for file in path.parent.iterdir()) == [path.name]
    with PredictionStore(path) as store:
        assert store.get_many("model", [key(2)]) == {key(2): answer(2)}


def test_a_store_that_cannot_be_made_is_said(path, monkeypatch):
    def link(source, target):
        raise PermissionError("no hard links here")

    def copyfileobj(source, target):
        raise OSError("the disk is full")

    monkeypatch.setattr(os, "link", link)
    monkeypatch.setattr(StaICC.inference.store_file.shutil, "copyfileobj", copyfileobj)
    with pytest.raises(
        StoreError, match=r"the prediction store cannot be made \(the disk is full\); give another path"
    ):
        PredictionStore(path)
    assert list(path.parent.iterdir()) == []


@pytest.fixture
def open_path():
    """A store's path in a folder that every user can enter, wherever pytest keeps its own."""
    for place in map(Path, (tempfile.gettempdir(), "/tmp", "/var/tmp")):
        if place.is_dir() and all(folder.stat().st_mode & 0o001 for folder in (place, *place.resolve().parents)):
            break
    else:
        pytest.skip("no folder for passing files can be entered by every user")
    with tempfile.TemporaryDirectory(dir=place) as folder:
        Path(folder).chmod(0o755)
        yield Path(folder) / "run.sqlite"
        Path(folder).chmod(0o755)


@pytest.fixture
def as_nobody():
    """Run a piece of code as a user without rights, where the tests run as root."""

    def run(code: str, path: Path) -> str:
        change = "import os\nif os.geteuid() == 0: os.setgid(65534); os.setuid(65534)\n"
        child = subprocess.run(
            [sys.executable, "-c", imports + change + code, str(path)],
            capture_output=True,
            text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        return child.stdout + child.stderr

    imports = "import sys, urllib.parse\nfrom StaICC.inference.store import *\nfrom StaICC.errors import *\n"
    return run


ATTEMPT = """
try:
    PredictionStore(sys.argv[1])
except StaICCError as error:
    print(type(error).__name__, error)
"""
LOOK = """
with PredictionStore(sys.argv[1], read_only=True) as store:
    print(store.info(verify=True).answers)
"""


@pytest.mark.posix
def test_a_read_only_file_is_refused_for_writing_and_can_be_read(open_path, as_nobody):
    path = open_path
    fill(path, range(3))
    path.chmod(0o444)
    said = as_nobody(ATTEMPT, path)
    assert said.startswith("StoreError")
    assert f"{path}: this store cannot be written (no permission)" in said
    assert as_nobody(LOOK, path) == "3\n"
    with PredictionStore(path, read_only=True) as store, pytest.raises(ArgumentError, match="opened read-only"):
        store.put_many("model", [(key(9), 1)])


@pytest.mark.posix
def test_a_folder_without_permission_is_a_store_error(open_path, as_nobody):
    path = open_path
    path.parent.chmod(0o555)  # the tests may run as nobody
    said = as_nobody(ATTEMPT, path)
    assert said.startswith("StoreError")
    assert "cannot be" in said
    assert str(path) in said
    path.parent.chmod(0o755)
    fill(path, range(3))
    path.chmod(0o666)
    path.parent.chmod(0o555)
    assert as_nobody(ATTEMPT, path).startswith("StoreError")  # the file may be written, but no log beside it


def test_read_only_needs_a_store(path):
    with pytest.raises(ArgumentError, match="there is no prediction store at"):
        PredictionStore(path, read_only=True)
    assert not path.exists()


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


def test_a_folder_is_refused(tmp_path):
    with pytest.raises(ArgumentError, match="is a folder; a prediction store is a file, such as"):
        PredictionStore(tmp_path)


def test_a_missing_folder_is_refused(tmp_path):
    with pytest.raises(ArgumentError, match="is not there; make it first"):
        PredictionStore(tmp_path / "no" / "run.sqlite")
    assert os.listdir(tmp_path) == []


@pytest.mark.posix
def test_what_is_no_regular_file_is_refused(path):
    os.mkfifo(path)
    with pytest.raises(ArgumentError, match="not a regular file"):
        PredictionStore(path)


def test_an_empty_file_is_refused_and_left_alone(path):
    path.touch()
    with pytest.raises(SchemaError, match="is empty, which no prediction store is; delete it to start anew"):
        PredictionStore(path)
    assert path.stat().st_size == 0


@pytest.mark.parametrize("content", [b"x", b"label,text\n" * 1000, b"SQLite format 3\x00", bytes(5000)])
def test_another_file_is_refused_and_left_alone(path, content):
    path.write_bytes(content)
    with pytest.raises(SchemaError) as caught:
        PredictionStore(path)
    assert str(path) in str(caught.value)
    assert path.read_bytes() == content


def test_another_database_is_refused_and_left_alone(path):
    with sqlite3.connect(path) as other:
        other.execute("CREATE TABLE answers (a)")
    other.close()
    before = path.read_bytes()
    with pytest.raises(SchemaError, match="is an SQLite database, but not a prediction store"):
        PredictionStore(path)
    assert path.read_bytes() == before


def change(path: Path, sql: str) -> None:
    other = sqlite3.connect(path)
    other.executescript(sql)
    other.close()


def test_a_newer_schema_is_refused(path):
    fill(path, range(3))
    change(path, f"PRAGMA user_version = {SCHEMA + 1}")
    message = (
        rf"newer version of StaICC \(store schema {SCHEMA + 1}; this version knows {SCHEMA}\).*pip install --upgrade"
    )
    with pytest.raises(SchemaError, match=message):
        PredictionStore(path)
    with PredictionStore(path.with_name("new")) as store, pytest.raises(SchemaError, match=message):
        store.merge(path)


@pytest.mark.parametrize(
    "sql",
    [
        "PRAGMA user_version = 0",
        "DROP TABLE models",
        "CREATE TABLE more (a)",
        "CREATE TRIGGER t AFTER INSERT ON answers BEGIN DELETE FROM answers; END",
        "CREATE INDEX i ON answers (key)",
    ],
)
def test_another_layout_is_refused(path, sql):
    fill(path, range(3))
    change(path, sql)
    with pytest.raises(SchemaError, match="is damaged"):
        PredictionStore(path)


def test_a_log_left_over_from_a_deleted_store_is_refused(path):
    store = PredictionStore(path)
    store.put_many("model", [(key(1), 1)])
    path.unlink()
    with pytest.raises(SchemaError, match=r"run\.sqlite is not there, but .*run\.sqlite-wal is, left over"):
        PredictionStore(path)
    store.close()


def test_the_log_of_a_killed_process_is_read(path):
    process = writer(path, 0, 100000, 5)
    for _ in range(20):
        process.stdout.readline()
    process.kill()
    process.wait()
    process.stdout.close()
    assert path.with_name(path.name + "-wal").stat().st_size > 0
    with PredictionStore(path) as store:
        assert all(present(store, 0, chunk, 5) == 5 for chunk in range(19))


@pytest.mark.parametrize("what", ["garbage", "cut", "another store's", "none"])
def test_a_wrong_log_never_gives_a_wrong_answer(path, tmp_path, what):
    def leave(place: Path, numbers: range) -> None:
        store = PredictionStore(place)
        fill_open(store, numbers)
        for suffix in ("", "-wal"):
            shutil.copy(f"{place}{suffix}", f"{tmp_path / 'copy'}{place.name}{suffix}")
        store.close()

    leave(path, range(500))
    leave(tmp_path / "other.sqlite", range(1000, 1100))
    copy = tmp_path / "copyrun.sqlite"
    log = copy.with_name(copy.name + "-wal")
    if what == "garbage":
        log.write_bytes(random.Random(1).randbytes(log.stat().st_size))
    elif what == "cut":
        log.write_bytes(log.read_bytes()[: log.stat().st_size // 2])
    elif what == "another store's":
        shutil.copy(tmp_path / "copyother.sqlite-wal", log)
    else:
        log.unlink()
    assert_right_or_refused(copy, {key(number): answer(number) for number in [*range(500), *range(1000, 1100)]})


def fill_open(store: PredictionStore, numbers: range) -> None:
    for first in range(numbers.start, numbers.stop, 50):
        store.put_many(
            "model", [(key(number), answer(number)) for number in range(first, min(first + 50, numbers.stop))]
        )


def assert_right_or_refused(path: Path, truth: dict[bytes, list[float]]) -> bool:
    """Look up and write; whatever comes back must be true. Returns whether the store was refused."""
    try:
        with PredictionStore(path, timeout=1) as store:
            for model in ("model", "another"):
                found = store.get_many(model, list(truth))
                assert model == "model" or not found
                assert all(bits(found[k]) == bits(truth[k]) for k in found)
            store.put_many("model", truth.items())
            found = store.get_many("model", list(truth))
            assert {k: bits(v) for k, v in found.items()} == {k: bits(v) for k, v in truth.items()}
    except StaICCError as error:
        refusal = error
    else:
        return False
    assert isinstance(refusal, (SchemaError, StoreError))
    assert str(path) in str(refusal)
    assert any(word in str(refusal) for word in ("salvage", "give another path", "upgrade", "run again"))
    return True


# -- damage ---------------------------------------------------------------------------------------------------------


def damage_loop(tmp_path: Path, rounds: int, seed: int, width: int) -> tuple[int, int, int]:
    good = tmp_path / "good.sqlite"
    count = 120
    fill(good, range(count), width=width)
    truth = {key(number): answer(number, width) for number in range(count)}
    data = good.read_bytes()
    draw = random.Random(seed)
    refused = saved = 0
    for number in range(rounds):
        broken = bytearray(data)
        kind = number % 5
        position = draw.randrange(len(data))
        if kind == 0:
            broken[position] ^= 1 << draw.randrange(8)
        elif kind == 1:
            broken[position] = draw.randrange(256)
        elif kind == 2:
            length = draw.randrange(1, 600)
            broken[position : position + length] = draw.randbytes(len(broken[position : position + length]))
        elif kind == 3:
            page = position // PAGE_SIZE * PAGE_SIZE
            broken[page : page + PAGE_SIZE] = bytes(PAGE_SIZE)
        else:
            del broken[position:]
        path = tmp_path / f"broken{number}"
        path.write_bytes(broken)
        new = tmp_path / f"new{number}"
        try:
            report = salvage(path, new)
        except SchemaError:
            assert not new.exists()
        else:
            with PredictionStore(new) as store:
                found = store.get_many("model", list(truth))
                assert len(found) == report.answers
                assert all(bits(found[k]) == bits(truth[k]) for k in found)
                saved += len(found)
        refused += assert_right_or_refused(path, truth)
        for file in tmp_path.glob(f"*{number}*"):
            file.unlink()
    return refused, saved, rounds * count


@pytest.mark.parametrize("width", [2, 200])  # 200 numbers do not fit a page: the rows have overflow pages
def test_damage_anywhere_never_gives_a_wrong_answer(tmp_path, width):
    refused, saved, rows = damage_loop(tmp_path, 60, width, width)
    assert refused > 0
    assert saved > rows / 3  # cutting the file short, every fifth time, loses half of it


@pytest.mark.slow
@pytest.mark.parametrize("width", [1, 6, 150, 700])
def test_damage_at_many_positions_never_gives_a_wrong_answer(tmp_path, width):
    damage_loop(tmp_path, 300, 100 + width, width)


def test_an_answer_changed_behind_our_back_is_refused(path):
    fill(path, range(30))
    change(path, "UPDATE answers SET answer = (SELECT answer FROM answers ORDER BY key LIMIT 1)")
    with PredictionStore(path) as store:
        with pytest.raises(SchemaError, match=r"run\.sqlite: this prediction store is damaged.*store salvage"):
            store.get_many("model", [key(number) for number in range(30)])
        with pytest.raises(SchemaError, match="fails its checksum"):
            store.export(io.StringIO())
        assert store.info(verify=True).damaged == 29
        assert store.info().damaged is None
        other = PredictionStore(path.with_name("other"))
        with pytest.raises(SchemaError, match=r"run\.sqlite: this prediction store is damaged"):
            other.merge(path)
        with pytest.raises(SchemaError, match="fails its checksum"):
            store.put_many("model", [(key(number), answer(number)) for number in range(30)])
        other.close()


def test_rows_moved_to_another_model_or_query_are_refused(path):
    with PredictionStore(path) as store:
        store.put_many("A", [(key(1), 1)])
        store.put_many("B", [(key(2), 0)])
    change(path, "UPDATE answers SET model = (SELECT model FROM models LIMIT 1)")
    with PredictionStore(path) as store:
        outcomes = []
        for model in "AB":
            try:
                outcomes.append(store.get_many(model, [key(1), key(2)]))
            except SchemaError:
                outcomes.append("refused")
    assert "refused" in outcomes
    assert all(outcome in ("refused", {}, {key(1): 1}) for outcome in outcomes)


def test_salvage_loses_only_the_damaged_row(path, tmp_path):
    fill(path, range(300), width=6)
    data = bytearray(path.read_bytes())
    victim = struct.pack("<6d", *answer(7, 6))
    assert data.count(victim) == 1
    data[data.index(victim) + 20] ^= 4
    path.write_bytes(data)
    report = salvage(path, tmp_path / "new")
    assert (report.answers, report.models, report.unnamed) == (299, ("model",), 0)
    with PredictionStore(tmp_path / "new") as store:
        found = store.get_many("model", [key(number) for number in range(300)])
    assert found == {key(number): answer(number, 6) for number in range(300) if number != 7}


def test_salvage_without_names(path, tmp_path):
    fill(path, range(300))
    change(path, "DELETE FROM models")
    report = salvage(path, tmp_path / "new")
    assert (report.answers, report.models, report.unnamed, report.problem) == (300, (), 1, None)
    with PredictionStore(tmp_path / "new") as store:
        assert store.info().models[0].fingerprint is None
        assert len(store.get_many("model", [key(number) for number in range(300)])) == 300
        store.put_many("model", [])
        assert store.info().models[0].fingerprint == "model"  # the next run of the model stores its name again


def test_salvage_of_a_file_that_sqlite_cannot_read_names_its_recovery(path, tmp_path):
    fill(path, range(300))
    data = bytearray(path.read_bytes())
    data[:PAGE_SIZE] = random.Random(1).randbytes(PAGE_SIZE)
    path.write_bytes(data)
    with pytest.raises(SchemaError, match=r"file is not a database.*sqlite3 .*run\.sqlite \.recover"):
        salvage(path, tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_salvage_reads_on_both_sides_of_an_unreadable_page(path, tmp_path):
    fill(path, range(300), width=6)
    data = bytearray(path.read_bytes())
    pages = len(data) // PAGE_SIZE
    place = pages // 2 * PAGE_SIZE
    data[place : place + PAGE_SIZE] = bytes(PAGE_SIZE)
    path.write_bytes(data)
    report = salvage(path, tmp_path / "new")
    assert "malformed" in report.problem
    assert 150 < report.answers < 300
    with PredictionStore(tmp_path / "new") as store:
        found = store.get_many("model", [key(number) for number in range(300)])
    assert all(value == answer(number, 6) for number in range(300) if (value := found.get(key(number))))


def test_salvage_reads_the_log_too(path, tmp_path):
    store = PredictionStore(path)
    fill_open(store, range(500))
    copy = tmp_path / "copy"
    for suffix in ("", "-wal"):
        shutil.copy(f"{path}{suffix}", f"{copy}{suffix}")
    store.close()
    assert salvage(copy, tmp_path / "new").answers == 500


def test_salvage_of_every_length_around_the_page_limits(path, tmp_path):
    values = {key(length): "x" * length for length in [*range(1, 40), *range(900, 1040), *range(4000, 4120, 3), 70_000]}
    with PredictionStore(path) as store:
        store.put_many("model", values.items())
    salvage(path, tmp_path / "new")
    with PredictionStore(tmp_path / "new") as store:
        assert store.get_many("model", list(values)) == values


def test_salvage_of_many_models_and_answers(path, tmp_path):
    with PredictionStore(path) as store:
        for model in range(40):
            store.put_many(f"model {model} " + "x" * 37 * model, [(key(number), number) for number in range(300)])
    report = salvage(path, tmp_path / "new")
    assert (report.answers, len(report.models), report.unnamed) == (12_000, 40, 0)


def test_salvage_refuses_what_it_cannot_use(path, tmp_path):
    with pytest.raises(ArgumentError, match="there is no file"):
        salvage(path, tmp_path / "new")
    fill(path, range(3))
    with pytest.raises(ArgumentError, match="exists already"):
        salvage(path, path)
    (tmp_path / "text").write_text("nothing " * 1000)
    with pytest.raises(SchemaError, match="SQLite reads no intact row"):
        salvage(tmp_path / "text", tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_the_layout_is_the_one_that_the_schema_number_names(path):
    """A change here needs a new schema number, or old stores would be misread."""
    fill(path, range(2))
    connection = sqlite3.connect(path)
    assert connection.execute("PRAGMA application_id").fetchone() == (0x53744943,) == (APPLICATION_ID,)
    assert connection.execute("PRAGMA user_version").fetchone() == (1,)
    assert connection.execute("PRAGMA page_size").fetchone() == (PAGE_SIZE,)
    assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    rows = connection.execute("SELECT model, key, answer, seal FROM answers").fetchall()
    connection.close()
    import hashlib

    for model, query, data, mark in rows:
        assert (len(model), len(query)) == (MODEL_BYTES, KEY_BYTES)
        assert model == hashlib.sha256(b"model").digest()[:16]
        assert mark == hashlib.blake2b(model + query + data, digest_size=8, person=b"staicc-store-1").digest()
        assert data[:1] == b"f"
        assert len(data) == 17


def test_all_errors_are_ours(path):
    assert issubclass(StoreError, StaICCError)
    assert issubclass(StoreError, OSError)


def test_stores_with_different_editions_of_one_model_are_not_merged(tmp_path):
    place = query_key("served edition 0", ())
    for number in (1, 2):
        with PredictionStore(tmp_path / f"{number}.sqlite") as store:
            store.put_many("model", [(key(number), 1)])
            store.put_many("edition/1:model", [(place, f"edition {number}")])
    with PredictionStore(tmp_path / "1.sqlite") as store:
        with pytest.raises(StoreError, match="in the edition edition 1, the other in edition 2"):
            store.merge(tmp_path / "2.sqlite")
        assert store.get_many("model", [key(2)]) == {}
    with PredictionStore(tmp_path / "3.sqlite") as store:  # of the same edition
        store.put_many("edition/1:model", [(place, "edition 2")])
        assert store.merge(tmp_path / "2.sqlite").added == 1


def test_a_copy_does_not_bring_quarantined_predictions_back(tmp_path):
    with PredictionStore(tmp_path / "1.sqlite") as store, PredictionStore(tmp_path / "2.sqlite") as copy:
        for one in (store, copy):
            one.put_many("model", [(key(1), 1), (key(2), 0)])
        assert store.quarantine("model", [key(1)]) == 1
        store.merge(tmp_path / "2.sqlite")
        assert store.get_many("model", [key(1), key(2)]) == {key(2): 0}
