"""Records of queries: each with its prediction, its scores, its reply."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from StaICC.datasets.catalogue import plain_values
from StaICC.errors import ArgumentError
from StaICC.files.output import write_output
from StaICC.results.details import query_positions
from StaICC.results.files import json_row
from StaICC.results.protocol import ResultLike, ResultsLike
from StaICC.results.score_records import origin
from StaICC.safe_text import utf8


@dataclass(frozen=True, slots=True)
class QueryRecord:
    """A query of a result with its prediction. Labels are indexes, and names where the result has them."""

    benchmark: str
    model: str
    method: str
    dataset: str
    condition: str
    query: int
    """Number within the condition."""
    row: int
    """Test row."""
    repeat: int
    """Number among the queries of this row in the condition."""
    ground_truth: int
    prediction: int | None
    """``None`` without a prediction; ``reason`` says why."""
    correct: bool | None
    """As the accuracy counts it: a reply without a label may count as wrong; ``None`` if it is left out."""
    ground_truth_label: str | None
    prediction_label: str | None
    scores: tuple[float, ...] | None
    """One number for each label, as the inference function returned them; ``None`` for predicted labels and texts."""
    probabilities: tuple[float, ...] | None
    """The scores as the metrics read them; ``None`` also for scores that may be probabilities or logits."""
    reply: str | None
    """The generated text, if the run kept it (``return_outputs=True``); results do not save it."""
    finish_reason: str | None
    """How the reply ended: ``"stop"`` or ``"length"``, if known."""
    reason: str | None
    """Why the query has no prediction: the error, or the beginning of a reply without a label."""
    prompt: str | None
    """The prompt, if it was requested and can be written; of the noisy channel that of the first label."""
    demonstrations: tuple[str, ...] | None
    """The parts of the prompt that are demonstrations."""
    signature: str


WrittenPrompts = Mapping[str, Sequence[tuple[str, ...]] | str]
"""The prompts of a result by data set, in the order of its queries: each as instruction, demonstrations and query. A
text is the reason why a data set has none."""


def records_of_queries(result: ResultLike, written: WrittenPrompts) -> Iterator[QueryRecord]:
    """Yield the queries of a single result."""
    signature = str(result.signature)
    for dataset, details in result.details.items():
        texts = written.get(dataset, ())
        prompt_parts = iter(() if isinstance(texts, str) else texts)
        lost = {(failed.condition, failed.query): failed.reason for failed in (*details.failures, *details.unparsed)}
        wrong = result.counted_wrong(dataset)
        kept = (result.outputs or {}).get(dataset, ())
        outputs = {(output["condition"], output["query"]): output for output in kept}
        for record in details.conditions:
            width = len(details.labels)
            columns = (record.truth, record.predictions, record.label_scores(width), record.probabilities(width))
            rows = zip(query_positions(record.rows), *columns, strict=True)
            for number, ((row, repeat), truth, prediction, scores, probabilities) in enumerate(rows):
                parts, output = next(prompt_parts, None), outputs.get((record.name, number), {})
                scored = prediction is not None or (record.name, number) in wrong
                correct = prediction == truth if scored else None
                if prediction is not None and prediction < 0:  # a reply of LongICL that names no label
                    prediction = None
                yield QueryRecord(
                    **origin(result, dataset),
                    condition=record.name,
                    query=number,
                    row=row,
                    repeat=repeat,
                    ground_truth=truth,
                    prediction=prediction,
                    correct=correct,
                    ground_truth_label=_label(details.labels, truth),
                    prediction_label=_label(details.labels, prediction),
                    scores=None if scores is None else tuple(scores),
                    probabilities=None if probabilities is None else tuple(probabilities),
                    reply=output.get("response"),
                    finish_reason=output.get("finish_reason"),
                    reason=lost.get((record.name, number)),
                    prompt=None if parts is None else "".join(parts),
                    demonstrations=None if parts is None else parts[1:-1],
                    signature=signature,
                )


def query_records(result: ResultsLike) -> Iterator[dict[str, Any]]:
    """Yield one record for each query of a result, as JSON values.

    Args:
        result: A result, or a group of results.

    Yields:
        The fields of :class:`QueryRecord` but prompt, demonstrations and signature.

    Example:
        >>> from StaICC import Normal
        >>> result = Normal(datasets=["mini"], limit=4)(lambda prompt, label_space: 0)
        >>> next(query_records(result))["prediction_label"]
        'food'
    """
    for single in result.results():
        for query in records_of_queries(single, {}):
            values = plain_values(query)
            yield {key: json_row(values[key]) for key in values if key not in ("prompt", "demonstrations", "signature")}


def _label(labels: tuple[str, ...], index: int | None) -> str | None:
    return labels[index] if index is not None and 0 <= index < len(labels) else None


def save_records(result: ResultsLike, path: str | os.PathLike[str]) -> None:
    """Write the prediction of each query as JSON Lines, completely or not at all.

    Args:
        result: A result, or a group of results.
        path: The file. Each line has benchmark, model, method, data set, condition, query, test row and repeat.

    Raises:
        ArgumentError: The run did not keep the predictions (``return_outputs=True`` does).
    """
    lines = []
    for single in result.results():
        if single.outputs is None:
            raise ArgumentError(
                f"the result of {single.benchmark} has no outputs; run with return_outputs=True to keep them"
            )
        for name, records in single.outputs.items():
            for record in records:
                plain = {key: json_row(value) for key, value in (origin(single, name) | record).items()}
                lines.append(json.dumps(plain, ensure_ascii=False, allow_nan=False) + "\n")
    write_output(path, map(utf8, lines))
