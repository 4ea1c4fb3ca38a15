"""Files of prompts and of predictions: JSON Lines, or CSV where the name ends in ``.csv``.

A prediction is a record with the ``id`` of its query and exactly one answer:

* ``probabilities`` or ``logits``: a list with one number for each label, or a mapping from each label's text to its
  number;
* ``index``: the index of the predicted label;
* ``label``: its text.

Other fields do not matter, so an engine may add its answer to the record of the prompt. In CSV, lists and mappings are
JSON within their cell, and an empty cell is no answer. The folders and files that lm-evaluation-harness logs are read
by :mod:`StaICC.benchmarks.exchange.harness`.
"""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from StaICC.benchmarks.benchmark import Benchmark
from StaICC.benchmarks.exchange.queries import prompt_records
from StaICC.benchmarks.group import BenchmarkGroup
from StaICC.datasets.storage import write_beside
from StaICC.errors import SchemaError

__all__ = ["ANSWERS", "csv_lines", "json_lines", "numbered_records", "read_predictions", "write_prompts"]

ANSWERS = ("probabilities", "logits", "index", "label")
"""The fields that hold an answer."""

_CSV = ".csv"


def json_lines(records: Iterator[Mapping[str, Any]]) -> Iterator[str]:
    """Give records as JSON Lines.

    Args:
        records: The records.
    """
    for record in records:
        yield json.dumps(record, ensure_ascii=False, allow_nan=False) + "\n"


def csv_lines(records: Iterator[Mapping[str, Any]]) -> Iterator[str]:
    """Give records as CSV, with a head; lists and mappings are JSON within their cell.

    Args:
        records: The records, all with the keys of the first.
    """
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    for number, record in enumerate(records):
        if number == 0:
            writer.writerow(record)
        writer.writerow([_cell(value) for value in record.values()])
        yield buffer.getvalue()
        buffer.seek(0)
        buffer.truncate()


def _cell(value: Any) -> Any:
    return json.dumps(value, ensure_ascii=False, allow_nan=False) if isinstance(value, (list, dict)) else value


def write_prompts(
    benchmark: Benchmark | BenchmarkGroup, path: str | os.PathLike[str], with_truth: bool = False
) -> None:
    """Write the prompts of a benchmark as JSON Lines, or as CSV if the name ends so; whole or not at all.

    Args:
        benchmark: A benchmark or a group of benchmarks.
        path: Where the file shall stand.
        with_truth: Add the index of the true label.

    Raises:
        OSError: The file cannot be written.
    """
    path = Path(path)
    lines = csv_lines if path.suffix.lower() == _CSV else json_lines
    write_beside(path, (line.encode("utf-8", "surrogatepass") for line in lines(prompt_records(benchmark, with_truth))))


def _decoded(path: Path, lines: Iterable[str]) -> Iterator[str]:
    """Give the lines of a file, and say so where it is no text."""
    try:
        yield from lines
    except UnicodeDecodeError as error:
        raise SchemaError(f"{path}: this is no text in UTF-8 ({error}); save the predictions as UTF-8") from error


def numbered_records(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Give the records of a JSON Lines file with their line numbers.

    Args:
        path: The file.

    Raises:
        SchemaError: A line is no JSON object.
        OSError: The file cannot be read.
    """
    with path.open(encoding="utf-8-sig", errors="surrogatepass") as lines:
        for number, line in enumerate(_decoded(path, lines), 1):
            if not line.strip():
                continue
            try:
                record = json.loads(line)
            except ValueError as error:
                raise SchemaError(f"{path}, line {number}: no JSON ({error})") from error
            if not isinstance(record, dict):
                raise SchemaError(f"{path}, line {number}: expected a JSON object, found {type(record).__name__}")
            yield number, record


def _csv_records(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    with path.open(encoding="utf-8-sig", newline="") as lines:
        reader = csv.DictReader(_decoded(path, lines))
        try:
            for record in reader:
                if None in record:
                    raise SchemaError(f"{path}, line {reader.line_num}: more cells than the head has")
                yield reader.line_num, {key: value for key, value in record.items() if value}
        except csv.Error as error:
            raise SchemaError(f"{path}, line {reader.line_num}: {error}") from error


def _from_cell(where: str, field: str, text: str) -> Any:
    """Read an answer out of a CSV cell."""
    if field == "label":
        return text
    try:
        return json.loads(text)
    except ValueError as error:
        raise SchemaError(f"{where}: {field} is no JSON ({error}); write a list as [0.2, 0.8]") from error


def read_predictions(path: str | os.PathLike[str]) -> dict[str, dict[str, Any]]:
    """Read predictions.

    Args:
        path: A file of JSON Lines, or of CSV if its name ends so (see the module).

    Returns:
        For each id, the answer under its field, such as ``{"index": 2}``.

    Raises:
        SchemaError: The file is damaged, an id is missing or stands twice, or a record has no answer or two.
        OSError: The file cannot be read.
    """
    path = Path(path)
    as_csv = path.suffix.lower() == _CSV
    found: dict[str, dict[str, Any]] = {}
    lines: dict[str, int] = {}
    for number, record in _csv_records(path) if as_csv else numbered_records(path):
        where = f"{path}, line {number}"
        key = record.get("id")
        if not isinstance(key, str):
            raise SchemaError(f"{where}: there is no id (a text); take it over from the prompt that is answered")
        if key in found:
            raise SchemaError(f"{where}: the id {key} stands twice; it is answered in line {lines[key]} too")
        answers = [field for field in ANSWERS if record.get(field) is not None]
        if len(answers) != 1:
            what = f"{len(answers)} answers ({', '.join(answers)})" if answers else "no answer"
            raise SchemaError(f"{where}: {what} for {key}; expected exactly one of {', '.join(ANSWERS)}")
        (field,) = answers
        found[key] = {field: _from_cell(where, field, record[field]) if as_csv else record[field]}
        lines[key] = number
    return found
