"""Records of queries: each with its prediction, its scores, its reply."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

from StaICC.datasets.catalogue import plain_values
from StaICC.errors import ArgumentError
from StaICC.files.output import write_output
from StaICC.layout import Line, TextTable, html
from StaICC.results.details import DatasetDetails, QueryPosition, query_positions
from StaICC.results.files import json_row
from StaICC.results.protocol import ResultLike, ResultsLike
from StaICC.results.score_records import origin
from StaICC.safe_text import logger, utf8

_log = logger(__name__)


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

    def _repr_html_(self) -> str:
        """Return the query for a notebook, without its texts: some data sets contain offensive ones."""
        return html([_table_of_queries([self]), Line(_TEXTS_NOTE)])


_TEXTS_NOTE = "Prompts and replies are not shown, because some data sets contain offensive texts: print(query.prompt)."
_SHOWN_QUERIES = 20
"""Queries that a notebook shows."""


class QueryRecords(list[QueryRecord]):
    """Queries of a result: a list that a notebook shows as a table."""

    def _repr_html_(self) -> str:
        """Return the first queries for a notebook, without their texts."""
        shown = self[:_SHOWN_QUERIES]
        count = ""
        if len(shown) < len(self):
            count = f"The first {len(shown)} of {len(self)} queries."
        return html([_table_of_queries(shown), Line(count), Line(_TEXTS_NOTE)])


def _table_of_queries(queries: Sequence[QueryRecord]) -> TextTable:
    """Return queries as a table, one row for each."""
    head = ["benchmark", "data set", "condition", "row", "repeat", "true label", "prediction", "correct"]
    rows = []
    for query in queries:
        prediction = "no prediction"
        if query.prediction is not None:
            prediction = _label_cell(query.prediction, query.prediction_label)
        rows.append(
            [
                query.benchmark,
                query.dataset,
                query.condition,
                str(query.row),
                str(query.repeat),
                _label_cell(query.ground_truth, query.ground_truth_label),
                prediction,
                _correct_cell(query.correct),
            ]
        )
    return TextTable(head, rows, texts=(0, 1, 2, 5, 6, 7))


def _correct_cell(correct: bool | None) -> str:
    """Return whether a prediction is correct as a cell; ``None`` for a query that the accuracy leaves out."""
    if correct is None:
        return "left out"
    return "yes" if correct else "no"


def _label_cell(label: int, name: str | None) -> str:
    """Return a label as a cell: its name where the result has names, else its index."""
    if name is None:
        return str(label)
    return name


WrittenPrompts = Mapping[str, Sequence[tuple[str, ...]] | str]
"""The prompts of a result by data set, in the order of its queries: each as instruction, demonstrations and query. A
text is the reason why a data set has none."""


QueryKey = tuple[str, int]
"""The condition of a query, and its number within the condition."""


@dataclass(frozen=True, slots=True)
class _DatasetFacts:
    """Everything that the records of the queries of one data set are made of, but their predictions."""

    origin: Mapping[str, Any]
    """The keys that all records have (:func:`~StaICC.results.score_records.origin`)."""
    labels: tuple[str, ...]
    reasons: Mapping[QueryKey, str]
    """Why queries have no prediction."""
    counted_wrong: Set[QueryKey]
    """Queries whose reply has no label and counts as wrong."""
    outputs: Mapping[QueryKey, Mapping[str, Any]]
    """The records that the run kept."""
    signature: str

    def label_name(self, label: int | None) -> str | None:
        """Return the name of a label; ``None`` if there is no label, or if the result has no name for this index."""
        if label is None:
            return None
        if 0 <= label < len(self.labels):
            return self.labels[label]
        return None

    def record(
        self,
        key: QueryKey,
        position: QueryPosition,
        *,
        truth: int,
        prediction: int | None,
        scores: Sequence[float] | None,
        probabilities: Sequence[float] | None,
        prompt_parts: tuple[str, ...] | None,
    ) -> QueryRecord:
        """Return the record of a query.

        Whether the prediction is correct is ``None`` if no score counts the query: a failed query, or an excluded reply
        without a label. A reply without a label that counts as wrong has ``False``, although its prediction is
        ``None``.

        Args:
            key: The condition of the query, and its number within the condition.
            position: Its test row, and its number among the queries of this row.
            truth: The true label.
            prediction: The predicted label. For a reply without a label it is -1 in LongICL, which counts as wrong, and
                ``None`` in other benchmarks. It is ``None`` for a failed query.
            scores: The label scores; ``None`` if there are none.
            probabilities: The label scores as the metrics read them; ``None`` if there are none.
            prompt_parts: Instruction, demonstrations and query of the prompt; ``None`` if the prompt is not known.
        """
        condition, query = key
        row, repeat = position
        correct = None
        if prediction is not None or key in self.counted_wrong:
            correct = prediction == truth
        # The -1 of LongICL was compared with the true label above. In the record, no label is None.
        if prediction is not None and prediction < 0:
            prediction = None
        prompt = None
        demonstrations = None
        if prompt_parts is not None:
            prompt = "".join(prompt_parts)
            demonstrations = prompt_parts[1:-1]
        output = self.outputs.get(key, {})
        return QueryRecord(
            **self.origin,
            condition=condition,
            query=query,
            row=row,
            repeat=repeat,
            ground_truth=truth,
            prediction=prediction,
            correct=correct,
            ground_truth_label=self.label_name(truth),
            prediction_label=self.label_name(prediction),
            scores=None if scores is None else tuple(scores),
            probabilities=None if probabilities is None else tuple(probabilities),
            reply=output.get("response"),
            finish_reason=output.get("finish_reason"),
            reason=self.reasons.get(key),
            prompt=prompt,
            demonstrations=demonstrations,
            signature=self.signature,
        )


def _dataset_facts(result: ResultLike, dataset: str, signature: str) -> _DatasetFacts:
    """Return everything that the records of the queries of a data set are made of, but their predictions."""
    details = result.details[dataset]
    reasons = {}
    for query in (*details.failures, *details.unparsed):
        reasons[query.condition, query.query] = query.reason
    outputs = {}
    if result.outputs is not None:
        for output in result.outputs.get(dataset, ()):
            outputs[output["condition"], output["query"]] = output
    return _DatasetFacts(
        origin=origin(result, dataset),
        labels=details.labels,
        reasons=reasons,
        counted_wrong=result.counted_wrong(dataset),
        outputs=outputs,
        signature=signature,
    )


def records_of_queries(result: ResultLike, written: WrittenPrompts) -> Iterator[QueryRecord]:
    """Yield the record of each query of a single result, in the order of the run.

    Texts with several labels (LongICL) have no records; a warning in the log says so for each such data set.

    Args:
        result: The result.
        written: The prompts by data set; a text instead of them is the reason why there are none. A query without a
            prompt has ``None`` as its prompt.
    """
    signature = str(result.signature)
    for dataset, details in result.details.items():
        if details.asked and not details.conditions and not result.samples:
            _log.warning(
                "%s, %s: the result has no records of the %d queries: they are kept for predictions of one label, and "
                "these texts have several. A run with return_outputs=True has the replies (result.outputs)",
                result.benchmark,
                dataset,
                details.asked,
            )
        prompts = written.get(dataset, ())
        if isinstance(prompts, str):  # a reason; the log has it already
            prompts = ()
        facts = _dataset_facts(result, dataset, signature)
        yield from _records_of_dataset(details, facts, iter(prompts))


def _records_of_dataset(
    details: DatasetDetails, facts: _DatasetFacts, prompts: Iterator[tuple[str, ...]]
) -> Iterator[QueryRecord]:
    """Yield the record of each query of a data set.

    Args:
        details: The details of the data set, with the predictions of each condition.
        facts: What else the records are made of.
        prompts: The prompts of all queries, in order. They may end before the queries.
    """
    label_count = len(details.labels)
    for condition in details.conditions:
        queries = zip(
            query_positions(condition.rows),
            condition.truth,
            condition.predictions,
            condition.label_scores(label_count),
            condition.probabilities(label_count),
            strict=True,
        )
        for number, (position, truth, prediction, scores, probabilities) in enumerate(queries):
            yield facts.record(
                (condition.name, number),
                position,
                truth=truth,
                prediction=prediction,
                scores=scores,
                probabilities=probabilities,
                prompt_parts=next(prompts, None),
            )


_NOT_EXPORTED = ("prompt", "demonstrations", "signature")
"""Fields of a query's record that :func:`query_records` leaves out."""


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
            record = {}
            for name, value in plain_values(query).items():
                if name not in _NOT_EXPORTED:
                    record[name] = json_row(value)
            yield record


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
        for dataset, outputs in single.outputs.items():
            for output in outputs:
                record = {**origin(single, dataset), **output}
                values = {key: json_row(value) for key, value in record.items()}
                lines.append(json.dumps(values, ensure_ascii=False, allow_nan=False) + "\n")
    write_output(path, map(utf8, lines))
