"""JSON that is not trusted: equal to :mod:`json` where that is right, one line where it is not."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from StaICC.errors import SchemaError
from StaICC.files.json_reading import LARGE, parse_json, read_json, read_value
from StaICC.results.result import load

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(), inner, max_size=5),
    max_leaves=20,
)


@settings(max_examples=25)
@given(VALUES, st.booleans(), st.booleans())
def test_what_json_writes_comes_back(value: object, ascii_only: bool, mark: bool) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only)
    data = (b"\xef\xbb\xbf" if mark else b"") + text.encode("utf-8", "surrogatepass")
    assert parse_json(data, "x") == parse_json(text, "x") == value


@given(st.binary(max_size=60) | st.text(alphabet='[]{}",:0123456789eE+-.nultrfasNI\\ \ud800\x00', max_size=60))
def test_any_bytes_are_a_value_or_a_schema_error(data: bytes | str) -> None:
    try:
        value = parse_json(data, "somewhere")
    except SchemaError as error:
        message = str(error)
        assert message.startswith("somewhere: ")
        assert "\n" not in message
    else:
        assert value == json.loads(data if isinstance(data, str) else data.decode("utf-8-sig", "surrogatepass"))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[" * 101 + "]" * 101, "nested more than 100 deep"),
        ('{"a":' * 50_000 + "1" + "}" * 50_000, "nested more than 100 deep"),
        ("1" * 301, "an integer of 301 digits is too large"),
        ("[1e999]", "the number 1e999 is too large"),
        ("1" * 400 + ".0", "too large"),
        ("[NaN]", "NaN is not a JSON number"),
        ("[-Infinity]", "-Infinity is not a JSON number"),
        ('{"a": 1, "b": 2, "a": 3}', "the key 'a' appears twice"),
        (" \n", "found nothing"),
        ("\ufeff", "found nothing"),
        ("[1]\x00", "Extra data"),
    ],
)
def test_what_is_refused(text: str, reason: str) -> None:
    with pytest.raises(SchemaError, match=r"^x\.json: ") as caught:
        parse_json(text, "x.json")
    assert reason in str(caught.value)
    assert len(str(caught.value)) < 200


def test_files(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_bytes(b'\xff\xfe{\x00"\x00')
    with pytest.raises(SchemaError, match=r"x\.json: this is not text in UTF-8"):
        read_json(path)
    path.write_bytes(b'\xef\xbb\xbf{"a": "\xed\xa0\x80"}')
    assert read_json(path) == {"a": "\ud800"}
    with pytest.raises(FileNotFoundError):
        read_json(tmp_path / "none")
    with pytest.raises(SchemaError, match="this is a folder, expected the list"):
        read_json(tmp_path, "the list")


@pytest.mark.parametrize(
    ("hint", "value", "place"),
    [
        (tuple[tuple[str, ...], ...], ["a", "b"], "x, item 0 must be a list"),
        (tuple[int | None, ...], [1, None, True], "x, item 2 must be a whole number or null"),
        (Mapping[str, tuple[float, float]], {"k": [1.0, 2.0, 3.0]}, "x, k must be a list"),
        (int, True, "x must be a whole number"),
        (float, "1", "x must be a number"),
    ],
)
def test_values_of_another_type_are_named_with_their_place(hint: Any, value: Any, place: str) -> None:
    with pytest.raises(SchemaError, match=place):
        read_value(hint, value, "x")


def test_a_list_with_a_type_for_each_item_is_read_by_position() -> None:
    """All items were read as the first type: a saved LongICL result with a failed query could not be loaded."""
    hint = tuple[int, int | None, str]
    assert read_value(hint, [1, None, "a"], "x") == (1, None, "a")
    with pytest.raises(SchemaError, match="x, item 0 must be a whole number, not None"):
        read_value(hint, [None, 1, "a"], "x")
    expected = r"x must be a list of 3 items \(a whole number, a whole number or null, a text\)"
    with pytest.raises(SchemaError, match=expected):
        read_value(hint, [1, None], "x")


def test_a_large_file_that_is_no_result_is_refused_by_its_beginning(tmp_path: Path) -> None:
    path = tmp_path / "large.json"
    path.write_bytes(b'{"numbers": [' + b"1," * (LARGE // 2) + b"1]}")
    began = time.process_time()
    with pytest.raises(SchemaError, match="16 MB does not begin like the file of a saved result"):
        load(path)
    assert time.process_time() - began < 1


def test_a_key_that_appears_twice_among_many_is_found_at_once() -> None:
    keys = ", ".join(f'"{number}": 0' for number in range(200_000))
    began = time.process_time()
    with pytest.raises(SchemaError, match="the key '199999' appears twice"):
        parse_json("{" + keys + ', "199999": 1}', "many.json")
    assert time.process_time() - began < 5
