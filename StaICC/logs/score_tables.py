"""Plain tables of scores: CSV, TSV, JSON Lines or Parquet with one sample in each row.

======== =====================================================================
column   meaning
======== =====================================================================
row      id of the test row (document); required
repeat   number of the repeat of the row; 0 without this column
task     name of the task; without this column, all rows are one task
model    name of the model; without this column, the name of the file (:mod:`StaICC.logs.reading`)
digest   digest of the document, if the rows of two tables are to be compared by it
======== =====================================================================

Every other column is a metric if all of its values are numbers or empty. An empty value, or ``nan``, is a missing
score.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from StaICC.datasets.table_files import listed_columns, read_records, uncompressed_name
from StaICC.errors import SchemaError
from StaICC.logs.samples import LoggedRun, LogReading, SampleScore

HARNESS = "score table"
TASK = "scores"
"""Name of the task of a table without a column of tasks."""

_ROW = "row"
_REPEAT = "repeat"
_FACTS = (_ROW, _REPEAT, "task", "model", "digest")
"""Columns that are no metrics."""
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_MISSING = frozenset({"", "nan", "none", "null", "na"})
"""Texts that stand for a missing score, in lower case."""
_SCORE = "score"
"""The column that is called so is a metric of which higher values are better, by the meaning of the word."""


@dataclass(frozen=True, slots=True)
class _TableRow:
    """A row of the table."""

    place: str
    """Where it is, for messages."""
    values: Mapping[str, Any]
    """Its values by column."""


@dataclass(slots=True)
class _Task:
    """The samples of one task of one model."""

    names_model: bool
    """Whether the table names the model; otherwise its name is that of the file."""
    samples: dict[tuple[str, int], SampleScore] = field(default_factory=dict)
    """By row and repeat."""


def read_table(path: Path) -> LogReading:
    """Return the runs of a table: one for each task of each model.

    Raises:
        StaICCError: The table cannot be read, has no column ``row``, has a row twice, or has no column of numbers.
        OSError: The file cannot be read.
    """
    columns = list(listed_columns(path, encoding=None))
    if _ROW not in columns:
        raise SchemaError(
            f"{path}: this table has the columns {', '.join(columns)[:200]}, expected row (the id of the test row) and "
            "a column for each metric, such as score"
        )
    metrics = [column for column in columns if column not in _FACTS]
    rows = _read_rows(path, columns)
    not_scores = _columns_without_scores(metrics, rows)
    tasks = _read_samples(path, rows, [metric for metric in metrics if metric not in not_scores])

    directions = {}
    if _SCORE in metrics:
        directions[_SCORE] = True
    runs = []
    for (model, task), of_task in tasks.items():
        samples = tuple(of_task.samples.values())
        runs.append(
            LoggedRun(
                path=str(path),
                harness=HARNESS,
                model=model,
                task=task,
                samples=samples,
                higher_is_better=directions,
                not_scores=not_scores,
                evaluation=str(path),
                names_model=of_task.names_model,
            )
        )
    return LogReading(tuple(runs))


def _read_rows(path: Path, columns: Sequence[str]) -> list[_TableRow]:
    """Return the rows of the table.

    Raises:
        StaICCError: The table cannot be read without guessing.
    """
    records = read_records(path, columns, encoding=None)
    if records.malformed is not None:
        raise SchemaError(f"{path}: {records.malformed.message}. {records.malformed.advice}")
    rows = []
    for number, (texts, last_value) in enumerate(records.rows):
        values = dict(zip(columns, [*texts, last_value], strict=True))
        rows.append(_TableRow(records.place(number), values))
    return rows


def _columns_without_scores(metrics: Sequence[str], rows: Sequence[_TableRow]) -> dict[str, str]:
    """Return the columns that are no metrics, because a value is neither a number nor missing, with the reason."""
    reasons: dict[str, str] = {}
    for row in rows:
        for metric in metrics:
            value = row.values[metric]
            if metric not in reasons and not _is_number_or_missing(value):
                reasons[metric] = f"the column has {value!r:.60} ({row.place}), which is no number"
    return reasons


def _is_number_or_missing(value: Any) -> bool:
    """Return whether a value of a column is a finite number, or means a missing score."""
    if value is None or isinstance(value, (bool, int)):
        return True
    if isinstance(value, float):
        return not math.isinf(value)
    if not isinstance(value, str):
        return False
    text = value.strip()
    if text.lower() in _MISSING:
        return True
    return _NUMBER.fullmatch(text) is not None and math.isfinite(float(text))


def _score(value: Any) -> float | None:
    """Return a value of a metric (:func:`_is_number_or_missing`); ``None`` for a missing score."""
    if value is None:
        return None
    if isinstance(value, str):
        value = value.strip()
        if value.lower() in _MISSING:
            return None
    number = float(value)
    if math.isnan(number):
        return None
    return number


def _read_samples(path: Path, rows: Sequence[_TableRow], metrics: Sequence[str]) -> dict[tuple[str, str], _Task]:
    """Return the samples of each task of each model, by the names of model and task.

    Raises:
        SchemaError: No column is a metric, a row has no id, or the same row and repeat appear twice.
    """
    if not metrics:
        raise SchemaError(f"{path}: no column has numbers only, expected one for each metric, such as score")
    model_of_file = uncompressed_name(path).stem
    tasks: dict[tuple[str, str], _Task] = {}
    for row in rows:
        named_model = _id_text(row.values.get("model"))
        model = model_of_file if named_model is None else named_model
        named_task = _id_text(row.values.get("task"))
        task_name = TASK if named_task is None else named_task
        sample = _sample(row, metrics)
        task = tasks.setdefault((model, task_name), _Task(names_model=named_model is not None))
        key = (sample.document, sample.repeat)
        if key in task.samples:
            raise SchemaError(
                f"{row.place}: the row {sample.document:.60} appears twice with the repeat {sample.repeat}; number "
                "several scores of one row in a column repeat"
            )
        task.samples[key] = sample
    return tasks


def _sample(row: _TableRow, metrics: Sequence[str]) -> SampleScore:
    """Return the sample of one row of the table.

    Raises:
        SchemaError: The row has no id, or its repeat is no number.
    """
    document = _id_text(row.values[_ROW])
    if document is None:
        raise SchemaError(f"{row.place}: the row has no id, expected a number or a text in the column row")
    repeat = _repeat_number(row.values.get(_REPEAT, 0), row.place)
    scores = {}
    for metric in metrics:
        score = _score(row.values[metric])
        if score is not None:
            scores[metric] = score
    reason = None
    if len(scores) < len(metrics):
        reason = "the table has no score"
    return SampleScore(document, repeat, _id_text(row.values.get("digest")), scores, reason)


def _id_text(value: Any) -> str | None:
    """Return an id or a name as text; ``None`` if it is missing. A whole number is the same as its text."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if value is None or isinstance(value, (bool, float, list, tuple, Mapping)):
        return None
    text = str(value).strip()
    if not text:
        return None
    return text


def _repeat_number(value: Any, place: str) -> int:
    """Return the number of a repeat.

    Raises:
        SchemaError: It is no whole number from 0 on.
    """
    text = _id_text(value)
    if text is None or not text.isascii() or not text.isdecimal() or len(text) > 9:
        raise SchemaError(f"{place}: got the repeat {value!r:.60}, expected a whole number from 0 on")
    return int(text)
