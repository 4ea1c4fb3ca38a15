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
SUFFIXES = (".csv", ".tsv", ".jsonl", ".ndjson", ".parquet")
"""The formats of tables of scores, compressed with gzip or not."""

_ROW = "row"
_REPEAT = "repeat"
_FACTS = (_ROW, _REPEAT, "task", "model", "digest")
"""Columns that are no metrics."""
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_MISSING = frozenset({"", "nan", "none", "null", "na"})
"""Texts that stand for a missing score, in lower case."""
_SCORE = "score"
"""The column that is called so is a metric of which higher values are better, by the meaning of the word."""


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
    values_by_row = _read_rows(path, columns)
    not_scores = _columns_without_scores(metrics, values_by_row)
    tasks = _read_samples(path, values_by_row, [metric for metric in metrics if metric not in not_scores])

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


def _read_rows(path: Path, columns: Sequence[str]) -> list[tuple[str, Mapping[str, Any]]]:
    """Return the values of each row by column, with the place of the row for messages.

    Raises:
        StaICCError: The table cannot be read without guessing.
    """
    records = read_records(path, columns, encoding=None)
    if records.malformed is not None:
        raise SchemaError(f"{path}: {records.malformed.message}. {records.malformed.advice}")
    rows: list[tuple[str, Mapping[str, Any]]] = []
    for number, (texts, last_value) in enumerate(records.rows):
        values = [*texts, last_value]
        rows.append((records.place(number), dict(zip(columns, values, strict=True))))
    return rows


def _columns_without_scores(metrics: Sequence[str], rows: Sequence[tuple[str, Mapping[str, Any]]]) -> dict[str, str]:
    """Return the columns that are no metrics, because a value is neither a number nor missing, with the reason."""
    reasons: dict[str, str] = {}
    for place, values in rows:
        for metric in metrics:
            if metric not in reasons and not _is_number_or_missing(values[metric]):
                reasons[metric] = f"the column has {values[metric]!r:.60} ({place}), which is no number"
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


def _read_samples(
    path: Path, rows: Sequence[tuple[str, Mapping[str, Any]]], metrics: Sequence[str]
) -> dict[tuple[str, str], _Task]:
    """Return the samples of each task of each model, by the names of model and task.

    Raises:
        SchemaError: No column is a metric, a row has no id, or the same row and repeat appear twice.
    """
    if not metrics:
        raise SchemaError(f"{path}: no column has numbers only, expected one for each metric, such as score")
    default_model = uncompressed_name(path).stem
    tasks: dict[tuple[str, str], _Task] = {}
    for place, values in rows:
        document = _id_text(values[_ROW])
        if document is None:
            raise SchemaError(f"{place}: the row has no id, expected a number or a text in the column row")
        repeat = _repeat_number(values.get(_REPEAT, 0), place)
        model = _id_text(values.get("model"))
        names_model = model is not None
        if model is None:
            model = default_model
        task = _id_text(values.get("task"))
        if task is None:
            task = TASK
        if (model, task) not in tasks:
            tasks[model, task] = _Task(names_model)
        of_task = tasks[model, task]
        if (document, repeat) in of_task.samples:
            raise SchemaError(
                f"{place}: the row {document:.60} appears twice with the repeat {repeat}; number several scores of one "
                "row in a column repeat"
            )
        of_task.samples[document, repeat] = _sample(values, metrics, document, repeat)
    return tasks


def _sample(values: Mapping[str, Any], metrics: Sequence[str], document: str, repeat: int) -> SampleScore:
    """Return the sample of one row of the table."""
    scores = {}
    for metric in metrics:
        score = _score(values[metric])
        if score is not None:
            scores[metric] = score
    reason = None
    if len(scores) < len(metrics):
        reason = "the table has no score"
    return SampleScore(document, repeat, _id_text(values.get("digest")), scores, reason)


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
