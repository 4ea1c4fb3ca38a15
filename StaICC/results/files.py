"""Files of results.

A file has two digests: ``digests / file`` of everything else in it, ``digests / scores`` of the scores alone. Both are
SHA-256 of compact JSON in the order of the file. They detect damage and careless edits, not intent: whoever edits a
file can compute them again (:mod:`StaICC.benchmarks.verify` recomputes the scores instead).

No NaN is written to JSON: an undefined score is ``None``, its reason is in the details, and its average is ``None``.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from StaICC.arguments import validate_path
from StaICC.errors import ArgumentError, SchemaError
from StaICC.files.json_reading import read_json
from StaICC.files.output import write_output
from StaICC.results.signature import digest
from StaICC.safe_text import has_lone_surrogate, utf8
from StaICC.version import RESULT_SCHEMA

DIVIDED = "Divided results"
"""Key of the scores by data set."""
AVERAGED = "Averaged results"
"""Key of the means over the data sets."""
DIGESTS = "digests"
"""Key of the digests; the last one of a file."""

_BEGINNING = re.compile(rb'\s*\{\s*"schema"\s*:\s*[0-9]+\s*,\s*"kind"\s*:\s*"(result|group)"')
"""How large files of results begin. Small ones may have another order of keys; what is small is
:data:`StaICC.files.json_reading.LARGE`."""
_BEGINNING_LENGTH = 200  # bytes, more than the beginning has with the indentation of any writer
_DIGEST_LENGTH = 64  # hexadecimal digits of SHA-256
_MEANING_OF_MISMATCH = {"file": "the file was changed after it was written", "scores": "the scores were changed"}
"""What it means that a digest is not that of the content, by the name of the digest."""
WHERE_RESULTS_ARE = (
    "Give a file that run saved (in staicc-results/, or the one of --json), or one of result.save(FILE). Which logs of "
    "other harnesses are read: docs/logs.md"
)
"""What to give in the place of a file that is no saved result, for messages."""
_OTHER_FORMATS = {".csv", ".html", ".md", ".parquet", ".pkl", ".tex", ".tsv", ".xlsx"}
"""Endings that no file of a result may have, because other programs would take it for another format."""


def _scores_alone(data: Any) -> Any:
    """Return the scores in the JSON values of a file, without everything else, for the digest of the scores.

    Args:
        data: The JSON values of a result or a group of results. They may be damaged.

    Returns:
        For a result, a list of two items: the scores by data set, and the means. For a group, a dictionary that has
        this for each of its results or groups, by name. ``None`` for values that are no JSON object.
    """
    if not isinstance(data, Mapping):
        return None
    parts = data.get("parts")
    if isinstance(parts, Mapping):
        return {name: _scores_alone(part) for name, part in parts.items()}
    return [data.get(DIVIDED), data.get(AVERAGED)]


def _without_digests(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the JSON values of a file without its digests."""
    return {key: value for key, value in data.items() if key != DIGESTS}


def _digests_of(content: Mapping[str, Any]) -> dict[str, str]:
    """Return the digests of the JSON values of a file: of all of them, and of the scores alone.

    Raises:
        ValueError: A number is not finite.
    """
    return {"file": digest(content), "scores": digest(_scores_alone(content))}


def with_digests(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the JSON values of a result with their digests.

    Args:
        data: What ``to_dict()`` of a result or of a group returns.

    Raises:
        ValueError: A number is not finite.
    """
    content = _without_digests(data)
    return {**content, DIGESTS: _digests_of(content)}


def digest_problems(data: Mapping[str, Any]) -> list[str]:
    """Compute the digests of a file from its content, and compare them with those that it has.

    Args:
        data: The JSON values of the file.

    Returns:
        What is wrong, one line each; empty if the file has not changed since it was written.
    """
    saved_digests = data.get(DIGESTS)
    if not isinstance(saved_digests, Mapping):
        return [f"{DIGESTS}: missing; every file of result schema {RESULT_SCHEMA} or later has them"]
    problems = []
    computed_digests = _digests_of(_without_digests(data))
    for name, computed in computed_digests.items():
        saved = saved_digests.get(name)
        if saved != computed:
            shown = str(saved)[:_DIGEST_LENGTH]
            problems.append(f"{DIGESTS} / {name}: {_MEANING_OF_MISMATCH[name]} (saved {shown}, computed {computed})")
    for name in saved_digests:
        if name not in computed_digests:
            problems.append(f"{DIGESTS} / {str(name)[:40]}: unknown digest")
    return problems


def read_result_file(path: str | os.PathLike[str]) -> Mapping[str, Any]:
    """Read the JSON values of a saved result.

    Args:
        path: The file.

    Returns:
        A mapping; its fields are not checked yet.

    Raises:
        SchemaError: The path is neither a regular file nor a pipe, or the content is no JSON object (see
            :func:`~StaICC.files.json_reading.parse_json`).
        OSError: There is no such file, or it cannot be read.
    """
    # A large file that does not begin like a result is refused before it is parsed. The fields, also "schema" and
    # "kind", are checked later (check_schema).
    try:
        data = read_json(path, expected="the file of a saved result", begins=_BEGINNING)
    except SchemaError as error:
        raise SchemaError(f"{error}. {WHERE_RESULTS_ARE}") from error
    if not isinstance(data, dict):
        raise SchemaError(
            f"{os.fspath(path)}: this is no saved result, which is a JSON object, but another JSON value. "
            f"{WHERE_RESULTS_ARE}"
        )
    return data


def is_result_file(path: str | os.PathLike[str]) -> bool:
    """Return whether a regular file begins as this library writes saved results."""
    file = Path(path)
    if not file.is_file():
        return False
    with file.open("rb") as opened:
        return _BEGINNING.match(opened.read(_BEGINNING_LENGTH)) is not None


def check_result_name(path: str | os.PathLike[str]) -> None:
    """Refuse to save a result in a file whose name has the ending of another format.

    Raises:
        ArgumentError: The name has such an ending. The message shows a valid name, ``result.json``.
    """
    validate_path("path", path)
    _, ending = os.path.splitext(path)
    if ending.lower() in _OTHER_FORMATS:
        raise ArgumentError(
            f"results are saved as JSON: got {str(path)!r}, expected a name such as 'result.json'. "
            "For tables: python -m StaICC export scores"
        )


def write_result_file(data: Mapping[str, Any], path: str | os.PathLike[str], fresh: bool = False) -> None:
    """Write the JSON values of a result with their digests, completely or not at all.

    Args:
        data: What ``to_dict()`` of a result or of a group returns.
        path: The file.
        fresh: Refuse a file that exists already.

    Raises:
        ArgumentError: The name of the file has the ending of another format.
        ValueError: A number is not finite.
        OSError: The file cannot be written.
    """
    check_result_name(path)
    # One line for each top-level key: a diff of two files shows what differs, and long lists stay compact.
    lines = []
    for key, value in with_digests(as_read_back(data)).items():
        lines.append(f"{json.dumps(key)}: {json.dumps(value, ensure_ascii=False, allow_nan=False)}")
    text = "{\n" + ",\n".join(lines) + "\n}\n"
    write_output(path, [utf8(text)], fresh)


def as_read_back(data: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return JSON values as a reader of their file gets them, so that the digests are those of the file's content.

    Only texts with surrogates can differ. A character beyond the first 65,536 may be in a text as two surrogates. The
    file has an escape for each of them, and a JSON reader joins the two escapes to one character.
    """
    text = json.dumps(data, ensure_ascii=False, allow_nan=False)
    if not has_lone_surrogate(text):
        return data
    read: Mapping[str, Any] = json.loads(utf8(text))
    return read


def json_row(value: Any) -> Any:
    """Return a value of a record for JSON, which has no infinity.

    In a row of label scores, minus infinity becomes the text ``"-inf"``. Values that are no list stay unchanged.
    """
    if not isinstance(value, list):
        return value
    return ["-inf" if item == -math.inf else item for item in value]


def check_schema(data: Any, *kinds: str) -> None:
    """Refuse JSON values that are no saved result, or that have another schema than this version writes.

    Args:
        data: The values.
        *kinds: What they may be: ``"result"``, ``"group"``.

    Raises:
        SchemaError: The values are something else.
    """
    schema = None
    kind = None
    if isinstance(data, Mapping):
        schema = data.get("schema")
        kind = data.get("kind")
    if type(schema) is not int or kind not in kinds:
        expected = " or ".join(repr(expected_kind) for expected_kind in kinds)
        raise SchemaError(
            f"this is no saved result: got schema {schema!r:.60} and kind {kind!r:.60}, expected a number and "
            f"{expected}. {WHERE_RESULTS_ARE}"
        )
    if schema < RESULT_SCHEMA:
        raise SchemaError(f"the file has result schema {schema}, written by an earlier state of 1.0.0: run again")
    if schema > RESULT_SCHEMA:
        raise SchemaError(
            f"the file has result schema {schema}, this version of StaICC reads up to {RESULT_SCHEMA}. Update StaICC"
        )
