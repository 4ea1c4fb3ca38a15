"""JSON that is not trusted: equal to :mod:`json` where that is right, one line where it is not."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from StaICC.errors import SchemaError
from StaICC.files.json_reading import LARGE, parse_json, read_json, read_value, unique_keys
from StaICC.results.result import load

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(), inner, max_size=5),
    max_leaves=20,
)


@settings(max_examples=25)
@given(VALUES, st.booleans())
def test_what_json_writes_is_read_back(value: object, ascii_only: bool) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only)

    assert parse_json(text, "x") == value
    assert parse_json(text.encode("utf-8", "surrogatepass"), "x") == value


def test_a_byte_order_mark_is_skipped() -> None:
    assert parse_json(b"\xef\xbb\xbf[1]", "x") == [1]


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
def test_a_text_that_cannot_be_read_is_refused_in_one_short_line(text: str, reason: str) -> None:
    with pytest.raises(SchemaError, match=r"^x\.json: ") as caught:
        parse_json(text, "x.json")

    assert reason in str(caught.value)
    assert len(str(caught.value)) < 200


def test_a_file_in_another_encoding_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_bytes("{}".encode("utf-16"))

    with pytest.raises(SchemaError, match=r"x\.json: this is not text in UTF-8"):
        read_json(path)


def test_a_lone_surrogate_in_a_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_bytes(b'{"a": "\xed\xa0\x80"}')

    assert read_json(path) == {"a": "\ud800"}


def test_a_file_that_is_not_there_is_not_found(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read_json(tmp_path / "none")


def test_a_folder_in_place_of_a_file_is_refused(tmp_path: Path) -> None:
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
    assert read_value(tuple[int, int | None, str], [1, None, "a"], "x") == (1, None, "a")


def test_an_item_of_another_type_than_that_of_its_position_is_refused() -> None:
    with pytest.raises(SchemaError, match="x, item 0 must be a whole number, not None"):
        read_value(tuple[int, int | None, str], [None, 1, "a"], "x")


def test_a_list_with_fewer_items_than_types_is_refused() -> None:
    expected = r"x must be a list of 3 items \(a whole number, a whole number or null, a text\)"
    with pytest.raises(SchemaError, match=expected):
        read_value(tuple[int, int | None, str], [1, None], "x")


def test_a_large_file_that_is_no_result_is_refused_by_its_beginning(tmp_path: Path) -> None:
    """The rest is no JSON; to parse it would be another error."""
    path = tmp_path / "large.json"
    path.write_bytes(b'{"numbers": [' + b"," * LARGE)

    with pytest.raises(SchemaError, match="16 MB does not begin like the file of a saved result"):
        load(path)


class CountedKey(str):
    """A key that counts how often keys are compared."""

    comparisons = 0

    def __eq__(self, other: object) -> bool:
        CountedKey.comparisons += 1
        return str(self) == str(other)

    __hash__ = str.__hash__


def test_a_key_that_appears_twice_among_many_is_found_with_few_comparisons() -> None:
    CountedKey.comparisons = 0
    keys = [CountedKey(number) for number in [*range(1000), 999]]

    with pytest.raises(ValueError, match="the key '999' appears twice"):
        unique_keys([(key, 0) for key in keys])

    assert CountedKey.comparisons < 100
