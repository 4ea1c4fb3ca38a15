"""Files of prompts and of predictions: JSON Lines, or CSV where the name ends in ``.csv``.

A prediction is a record with the ``id`` of its query and exactly one of these fields:

* ``probabilities`` or ``logits``: a list with one number for each label, or a mapping from each label name to its
  number;
* ``index``: the index of the predicted label;
* ``label``: the name of the predicted label;
* ``reply``: a generated text, from which :mod:`StaICC.inference.reply_parser` reads the label.

Other fields are ignored, so an engine may add its prediction to the record of the prompt. In CSV, lists and mappings
are JSON within their cell, and an empty cell is a missing field. :mod:`StaICC.benchmarks.exchange.harness` reads what
lm-evaluation-harness logs.
"""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from StaICC.datasets.json_reading import parse_json, refuse_device
from StaICC.errors import ArgumentError, SchemaError
from StaICC.safe_text import csv_cell

PREDICTION_FIELDS = ("probabilities", "logits", "index", "label", "reply")
"""The fields that hold a prediction."""

LONGEST_ID = 1000
"""The maximum length of an id, in characters. No query has a longer one, and it would fill error messages."""
_CSV = ".csv"


def json_lines(records: Iterator[Mapping[str, Any]]) -> Iterator[str]:
    """Yield records as JSON Lines."""
    for record in records:
        yield json.dumps(record, ensure_ascii=False, allow_nan=False) + "\n"


def csv_lines(records: Iterator[Mapping[str, Any]], verbatim: bool = False) -> Iterator[str]:
    """Yield records as CSV, with a header; lists and mappings are JSON within their cell.

    A text that a spreadsheet would run as a formula is prefixed with an apostrophe
    (:func:`StaICC.safe_text.csv_cell`).

    Args:
        records: The records, all with the keys of the first.
        verbatim: Refuse texts that would be prefixed, because another program reads them.

    Raises:
        ArgumentError: A text cannot be written verbatim.
    """
    buffer = io.StringIO(newline="")
    writer = csv.writer(buffer, lineterminator="\r\n")  # so that a cell with a carriage return is quoted

    def line(cells: Iterable[Any]) -> str:
        try:
            writer.writerow(cells)
        except csv.Error as error:  # of a null character, before Python 3.11
            raise ArgumentError(f"a text cannot be written as CSV ({error}); write JSON Lines instead") from error
        text = buffer.getvalue().removesuffix("\r\n") + "\n"
        buffer.seek(0)
        buffer.truncate()
        return text

    for number, record in enumerate(records):
        if number == 0:
            yield line(csv_cell(key) for key in record)
        cells = [_cell(value) for value in record.values()]
        shown = [csv_cell(cell) for cell in cells]
        if verbatim and shown != cells:
            field = next(key for key, cell, safe in zip(record, cells, shown, strict=True) if cell != safe)
            raise ArgumentError(
                f"record {number}: its {field} begins with {record[field][:1]!r}, and a spreadsheet would run such a "
                "cell of CSV as a formula; write JSON Lines instead (a file name that does not end in .csv)"
            )
        yield line(shown)


def _cell(value: Any) -> Any:
    return json.dumps(value, ensure_ascii=False, allow_nan=False) if isinstance(value, (list, dict)) else value


def _decoded(path: Path, lines: Iterable[str]) -> Iterator[str]:
    """Yield the lines of a file; raise an error that names the file if it is not UTF-8."""
    try:
        yield from lines
    except UnicodeDecodeError as error:
        raise SchemaError(f"{path}: this is not UTF-8 text ({error}); save the predictions as UTF-8") from error


def numbered_records(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the records of a JSON Lines file with their line numbers.

    Args:
        path: The file.

    Raises:
        SchemaError: A line is not a JSON object.
        OSError: The file cannot be read.
    """
    refuse_device(path)
    with path.open(encoding="utf-8-sig", errors="surrogatepass") as lines:
        for number, line in enumerate(_decoded(path, lines), 1):
            if not line.strip():
                continue
            record = parse_json(line, f"{path}, line {number}", constants=True)
            if not isinstance(record, dict):
                raise SchemaError(f"{path}, line {number}: expected a JSON object, found {type(record).__name__}")
            yield number, record


def _csv_records(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    refuse_device(path)
    with path.open(encoding="utf-8-sig", newline="") as lines:
        reader = csv.DictReader(_decoded(path, lines))
        try:
            names = reader.fieldnames or []
            for name in names:
                if names.count(name) > 1:
                    raise SchemaError(f"{path}, line 1: the column {name!r} appears twice")
            for record in reader:
                if None in record:
                    raise SchemaError(f"{path}, line {reader.line_num}: more cells than the header has")
                yield reader.line_num, {key: value for key, value in record.items() if value}
        except csv.Error as error:
            raise SchemaError(f"{path}, line {reader.line_num}: {error}") from error


def _from_cell(where: str, field: str, text: str) -> Any:
    """Read a prediction from a CSV cell."""
    if field in ("label", "reply"):
        return text
    try:
        return parse_json(text, f"{where}, {field}", constants=True)
    except SchemaError as error:
        raise SchemaError(f"{error}; write a list as [0.2, 0.8]") from error


def read_predictions(path: str | os.PathLike[str]) -> dict[str, dict[str, Any]]:
    """Read predictions.

    Args:
        path: A file of JSON Lines, or of CSV if its name ends in ``.csv`` (see the module).

    Returns:
        For each id, the prediction under its field, such as ``{"index": 2}``.

    Raises:
        SchemaError: The file is damaged, an id is missing or appears twice, or a record does not have exactly one
            prediction.
        OSError: The file cannot be read.
    """
    path = Path(path)
    as_csv = path.suffix.lower() == _CSV
    predictions: dict[str, dict[str, Any]] = {}
    lines: dict[str, int] = {}
    for number, record in _csv_records(path) if as_csv else numbered_records(path):
        where = f"{path}, line {number}"
        key = record.get("id")
        if not isinstance(key, str) or len(key) > LONGEST_ID:
            raise SchemaError(f"{where}: there is no id (a text); copy it from the record of the prompt")
        if key in predictions:
            raise SchemaError(f"{where}: the id {key} appears twice; it is in line {lines[key]} too")
        fields = [field for field in PREDICTION_FIELDS if record.get(field) is not None]
        if len(fields) != 1:
            what = f"{len(fields)} predictions ({', '.join(fields)})" if fields else "no prediction"
            raise SchemaError(f"{where}: {what} for {key}; expected exactly one of {', '.join(PREDICTION_FIELDS)}")
        (field,) = fields
        predictions[key] = {field: _from_cell(where, field, record[field]) if as_csv else record[field]}
        lines[key] = number
    return predictions
