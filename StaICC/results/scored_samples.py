"""The samples of a result with their scores by each metric, for exports that have single samples."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from StaICC import benchmark_names
from StaICC.results.details import ConditionRecord, LoggedSamples, query_positions
from StaICC.results.query_records import QueryRecord, WrittenPrompts, records_of_queries
from StaICC.results.result import Result
from StaICC.results.score_records import single_scores

_LIKELIHOOD = "averaged_truelabel_likelihood"


@dataclass(frozen=True, slots=True)
class ScoredSample:
    """The score of one sample by one metric."""

    dataset: str
    score_key: str
    """Key of the score in the result that is the mean over such samples."""
    metric: str
    """Name of the metric, such as ``"accuracy"``."""
    sample_id: str
    """Id of the document, with the condition if the benchmark has several conditions."""
    repeat: int
    """Number among the samples with this id."""
    score: float | None
    """``None`` without a prediction, or if the score leaves the sample out; ``reason`` says why."""
    is_correct: bool
    """Whether the prediction is right; for metrics of other harnesses, whether the score is the best possible one."""
    reason: str | None
    """Why there is no score, or no label in a reply that counts as wrong."""
    query: QueryRecord | None = None
    """The query, if this library wrote it."""
    question: str | None = None
    """The part of the prompt that asks about the document; ``None`` if the prompt is not known."""
    labels: tuple[str, ...] = ()
    """Names of all labels."""
    document_digest: str | None = None
    """Digest of document and target, as another harness logged them; ``None`` for queries of this library."""


def scored_samples(result: Result, written: WrittenPrompts) -> Iterator[ScoredSample]:
    """Yield the samples of a result, data set by data set, for each metric that is a mean over samples.

    These are the accuracy, the likelihood, and metrics that are not of this library. Samples are left out if the result
    has no such score of their condition, as in benchmarks of bias, whose queries have no true label.

    Args:
        result: The result.
        written: The prompts by data set; a text instead of them is the reason why there are none.
    """
    if result.samples:
        yield from _logged_samples(result)
        return
    for query, question in _queries_with_questions(result, written):
        yield from _samples_of_query(result, query, question)
    yield from _samples_of_own_metrics(result)


# -- samples that another harness logged


def _logged_samples(result: Result) -> Iterator[ScoredSample]:
    """Yield the samples of a result of scores, task by task, metric by metric."""
    for dataset, samples in result.samples.items():
        reasons = {failure.query: failure.reason for failure in result.details[dataset].failures}
        for metric, query_scores in result.query_scores.items():
            scores_by_condition = query_scores.values.get(dataset) or {}
            for scores in scores_by_condition.values():
                if scores is None:
                    continue
                yield from _logged_samples_of_metric(
                    dataset, metric, samples, scores, best_score=query_scores.high, reasons=reasons
                )


def _logged_samples_of_metric(
    dataset: str,
    metric: str,
    samples: LoggedSamples,
    scores: Sequence[float | None],
    *,
    best_score: float | None,
    reasons: Mapping[int, str],
) -> Iterator[ScoredSample]:
    """Yield the samples of one task with their scores by one metric.

    Args:
        dataset: The task.
        metric: The metric.
        samples: The documents.
        scores: The score of each sample.
        best_score: The highest possible score; ``None`` if it is not known.
        reasons: Why samples have no scores, by number.
    """
    for number, score in enumerate(scores):
        yield ScoredSample(
            dataset=dataset,
            score_key=metric,
            metric=metric,
            sample_id=samples.documents[number],
            repeat=samples.repeats[number],
            score=score,
            is_correct=score is not None and score == best_score,
            reason=None if score is not None else reasons.get(number, "the log has no score of this sample"),
            document_digest=samples.digests[number],
        )


# -- queries of this library


def _queries_with_questions(result: Result, written: WrittenPrompts) -> Iterator[tuple[QueryRecord, str | None]]:
    """Yield each query with the part of its prompt that asks about the document; ``None`` without the prompt."""
    questions_by_dataset: dict[str, Iterator[str]] = {}
    for dataset, prompts in written.items():
        if not isinstance(prompts, str):  # a text is the reason why there are no prompts
            questions_by_dataset[dataset] = (prompt_parts[-1] for prompt_parts in prompts)
    for query in records_of_queries(result, written):
        # The prompts are in the order of the queries of the data set.
        questions = questions_by_dataset.get(query.dataset, iter(()))
        yield query, next(questions, None)


def _samples_of_query(result: Result, query: QueryRecord, question: str | None) -> Iterator[ScoredSample]:
    """Yield a query with its score by the accuracy, and by the likelihood if it has probabilities."""
    scores: dict[str, float | None] = {"accuracy": None}
    if query.correct is not None:
        scores["accuracy"] = float(query.correct)
    if query.probabilities is not None:
        scores[_LIKELIHOOD] = query.probabilities[query.ground_truth]
    for metric, score in scores.items():
        score_key = _score_key(result, query.dataset, query.condition, metric)
        if score_key is None:
            continue
        yield ScoredSample(
            dataset=query.dataset,
            score_key=score_key,
            metric=metric,
            sample_id=_sample_id(result, query.dataset, query.condition, query.row),
            repeat=query.repeat,
            score=score,
            is_correct=bool(query.correct),
            reason=query.reason,
            query=query,
            question=question,
            labels=result.details[query.dataset].labels,
        )


def _samples_of_own_metrics(result: Result) -> Iterator[ScoredSample]:
    """Yield the queries with their scores by the user's own metrics that state them."""
    for metric, query_scores in result.query_scores.items():
        for dataset, scores_by_condition in query_scores.values.items():
            for condition in result.details[dataset].conditions:
                scores = scores_by_condition.get(condition.name)
                if scores is not None:
                    yield from _samples_of_condition(result, dataset, condition, metric, scores)


def _samples_of_condition(
    result: Result, dataset: str, condition: ConditionRecord, metric: str, scores: Sequence[float | None]
) -> Iterator[ScoredSample]:
    """Yield the queries of a condition with their scores by a metric; none if the result does not report the metric.

    Args:
        result: The result.
        dataset: The data set.
        condition: The condition, with the predictions of its queries.
        metric: The metric.
        scores: The score of each query.
    """
    score_key = _score_key(result, dataset, condition.name, metric)
    if score_key is None:
        return
    positions = query_positions(condition.rows)
    for (row, repeat), score, prediction, truth in zip(
        positions, scores, condition.predictions, condition.truth, strict=True
    ):
        yield ScoredSample(
            dataset=dataset,
            score_key=score_key,
            metric=metric,
            sample_id=_sample_id(result, dataset, condition.name, row),
            repeat=repeat,
            score=score,
            is_correct=prediction == truth,
            reason=None if score is not None else "no score counts the query",
            labels=result.details[dataset].labels,
        )


def _sample_id(result: Result, dataset: str, condition: str, row: int) -> str:
    """Return the id of the test row, with the condition if there are several conditions."""
    if len(result.details[dataset].conditions) == 1:
        return str(row)
    return f"{condition}/{row}"


def _score_key(result: Result, dataset: str, condition: str, metric: str) -> str | None:
    """Return the key of the score that a metric has on a condition; ``None`` if the result does not have it.

    In LongICL, the key of the accuracy is the name of the condition. In other benchmarks with one condition, it is that
    of the metric; with several, it is that of condition and metric.
    """
    if benchmark_names.has_long_contexts(result.benchmark):
        if metric != "accuracy":
            return None
        key = condition
    elif len(result.details[dataset].conditions) == 1:
        key = metric
    else:
        key = f"{condition}.{metric}"
    reported_keys = {reported_key for reported_key, _ in single_scores(result.divided[dataset])}
    if key not in reported_keys:
        return None
    return key
