"""Hostile wheels and pickles: nothing but rows may come out, and no code may run."""

from __future__ import annotations

import copyreg
import io
import os
import pickle
import zipfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from StaICC.datasets import Row
from StaICC.datasets.pack import read_rows, read_tables
from StaICC.errors import DataDamagedError

GOOD = [(["a text"], 0), (["", "two é"], 1)]
MARK = "staicc_code_ran"


def read(data: bytes) -> list[Row]:
    return read_rows(io.BytesIO(data), "here")


def run_me(*_: Any) -> list[Any]:
    os.environ[MARK] = "1"
    return []


class Reduces:
    def __init__(self, function: Any, *arguments: Any) -> None:
        self.result = function, arguments

    def __reduce__(self) -> Any:
        return self.result


@pytest.fixture(autouse=True)
def nothing_runs(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.delenv(MARK, raising=False)
    yield
    assert MARK not in os.environ, "code of the pickle ran"


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_plain_rows_come_out(protocol: int) -> None:
    rows = read(pickle.dumps(GOOD, protocol))
    assert rows == [Row(("a text",), 0), Row(("", "two é"), 1)]
    assert all(type(row) is Row for row in rows)


SET = f"__import__('os').environ.__setitem__('{MARK}', '1')"


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("attack", [Reduces(eval, SET), Reduces(list)], ids=["eval", "list"])
def test_globals_are_refused(attack: Any, protocol: int) -> None:
    for whole in (attack, [attack], [*GOOD, attack], [([attack], 0)], [(["a"], attack)]):
        with pytest.raises(DataDamagedError, match=r"here: .*the pickle refers to [\w.]+; plain values need no code"):
            read(pickle.dumps(whole, protocol))


def test_extension_codes() -> None:
    code, attack = 200, b"\x80\x02\x82\xc8)R."
    with pytest.raises(DataDamagedError, match="cannot be read"):
        read(attack)
    copyreg.add_extension(__name__, "run_me", code)
    try:
        with pytest.raises(DataDamagedError, match=r"the pickle refers to .*run_me"):
            read(attack)
        copyreg._extension_cache[code] = run_me  # as if an innocent pickle had used the code before
        with pytest.raises(DataDamagedError, match=r"the pickle refers to .*run_me"):
            read(attack)
    finally:
        copyreg.remove_extension(__name__, "run_me", code)


@pytest.mark.parametrize("value", [None, (1,), "rows", [["a"]], [(["a"], 0, 0)], [(7, 0)]])
def test_other_values_are_refused(value: object) -> None:
    with pytest.raises(DataDamagedError, match="here: "):
        read(pickle.dumps(value))


def test_broken_pickles() -> None:
    broken = [b"", b"\x80", b"\x80\xff.", b"not a pickle", b"\x80\x04]h\x05.", b"\x80\x04\x8d" + b"\xff" * 8]
    data = pickle.dumps(GOOD, 4)
    for content in (*broken, *(data[:size] for size in range(len(data)))):
        with pytest.raises(DataDamagedError, match="here: "):
            read(content)


@given(st.lists(st.binary(min_size=1, max_size=3), max_size=12).map(b"".join))
@settings(max_examples=400, deadline=None)
def test_any_bytes_give_rows_or_our_error(noise: bytes) -> None:
    # Without the opcodes of large memo indexes, which take much memory (a wheel's digest is checked first).
    noise = noise.translate(None, b"rj")
    try:
        rows = read(noise)
    except DataDamagedError:
        return
    assert all(type(row) is Row for row in rows)


MEMBERS = {"one": "data/one.dataset", "two": "data/two.dataset"}


def zipped(path: Path, files: list[tuple[str, bytes]], method: int = zipfile.ZIP_DEFLATED) -> Path:
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, data in files:
            archive.writestr(name, data)
    return path


def good_files() -> list[tuple[str, bytes]]:
    return [(member, pickle.dumps(GOOD)) for member in MEMBERS.values()]


def test_paths_that_lead_out_are_never_unpacked(tmp_path: Path) -> None:
    inner = tmp_path / "in"
    inner.mkdir()
    wheel = zipped(inner / "w", [("../evil", b"x"), ("/tmp/evil_of_staicc", b"x"), ("..\\evil", b"x"), *good_files()])
    assert len(list(read_tables(wheel, MEMBERS))) == 2
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["in", "w"]
    assert not Path("/tmp/evil_of_staicc").exists()


@pytest.mark.parametrize("method", [zipfile.ZIP_DEFLATED, zipfile.ZIP_STORED])
def test_every_truncated_or_flipped_zip_gives_the_rows_or_our_error(tmp_path: Path, method: int) -> None:
    data = zipped(tmp_path / "w", good_files(), method).read_bytes()
    wanted = [Row(tuple(texts), label) for texts, label in GOOD]
    bad = tmp_path / "bad"
    refused = 0
    for position in range(0, len(data), 2):
        for changed in (data[:position], data[:position] + bytes([data[position] ^ 0x55]) + data[position + 1 :]):
            bad.write_bytes(changed)
            try:
                tables = dict(read_tables(bad, MEMBERS))
            except DataDamagedError as error:
                refused += str(bad) in str(error)
            else:
                assert list(tables.values()) == [wanted, wanted], "damage that zip ignores changes no row"
    assert refused > len(data) / 2
