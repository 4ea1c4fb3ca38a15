"""From predictions to scores: records, intervals, baselines and warnings of one data set, and the means over data sets.

The random baseline follows Yauney and Mimno (2024, arXiv 2404.13020). In the intervals of means, the data sets are
fixed and their rows independent: an interval says how the mean could move with other rows of the same data sets, not
with other data sets.

Warnings about predictions never change a score. There is one of each kind for a data set; its counts are sums over the
conditions in which it holds. The thresholds keep false alarms below 1 % (``tests/performance/prediction_warnings.py``,
``docs/warnings.md``).

Three warnings are about broken models: renamed labels, echoes of the last demonstration, leaks of the true label. An
honest model may be weak, prefer a label or lean to recent demonstrations; its accuracy may then be far below ``1 / L``.
So nothing here compares with uniform guessing. The null hypothesis is that predictions and labels are independent,
whatever the frequencies of both: :func:`_association` has the mean and variance of the number of matches over all
permutations of the labels over the test rows (Hoeffding 1951, "A combinatorial central limit theorem"). All queries of
a row stay together, because they are not independent.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, islice, pairwise
from operator import eq, mul, sub
from typing import Any

from StaICC.benchmarks.task import Assumed, Condition, Outcome, Scorer, Scoring
from StaICC.errors import OutputError, UndefinedMetricError, unknown_key
from StaICC.inference import Answer, Failure
from StaICC.inference.contract import ReplyLabel, Text
from StaICC.metrics import released
from StaICC.metrics.classification import confidence_bins
from StaICC.metrics.intervals import Interval, MetricTerm, NoInterval, combine, mean_interval, of_difference
from StaICC.metrics.registry import CONSISTENCY, STATISTICS, Mean, Sample, Statistic
from StaICC.prompting import Query
from StaICC.prompting.prompt_writer import as_argument
from StaICC.results import Baselines, ConditionRecord, DatasetDetails, FailedQuery, MeanDetails
from StaICC.results.provenance import pack_scores

_Z = 4.5
"""Standard errors of a warning: a normal variable exceeds them in 3 of a million cases; small samples are skewed."""
_ECHO = 0.9
"""Smallest agreement with the last demonstration, after the correction for chance."""
_OTHER_LABELS = 10
"""Fewest queries for an echo whose last demonstration has a wrong label; models that are right agree with the rest."""
_LEAK_ROWS = 256
"""Fewest test rows for a leak: an accuracy of 0.97 has no error on so many in 0.04 % of cases."""
_CONSTANT = 1e-9
"""Smaller sums of squares are rounding: all units, or all labels, are the same."""


_Unit = tuple[Sequence[float], int, int]
"""A test row or a query: for each label the matches if this were its label; its label; how many units are equal."""


def _association(units: Sequence[_Unit]) -> tuple[float, float, float]:
    """Compare matches with those of randomly permuted labels.

    Args:
        units: The independent units.

    Returns:
        The mean number of matches under permutation, the excess of the observed mean, and this excess in standard
        errors: the larger one of the permutations and of the sample, for excesses that are not zero under the null.
    """
    size = sum(number for _, _, number in units)
    shares = [0.0] * len(units[0][0])
    for _, label, number in units:
        shares[label] += number / size
    of_unit = [math.fsum(map(mul, row, shares)) for row, _, _ in units]
    of_label = [math.fsum(row[label] * number for row, _, number in units) / size for label in range(len(shares))]
    mean = math.fsum(map(mul, shares, of_label))
    residuals = [
        [match - unit - average + mean for match, average in zip(row, of_label, strict=True)]
        for (row, _, _), unit in zip(units, of_unit, strict=True)
    ]
    numbers = [number for _, _, number in units]
    squares = [math.fsum(share * value**2 for value, share in zip(row, shares, strict=True)) for row in residuals]
    permuted = math.fsum(map(mul, squares, numbers))
    observed = [row[label] for row, (_, label, _) in zip(residuals, units, strict=True)]
    excess = math.fsum(map(mul, observed, numbers)) / size
    if permuted < _CONSTANT:
        return mean, 0.0, 0.0
    sample = math.fsum((value - excess) ** 2 * number for value, number in zip(observed, numbers, strict=True))
    return mean, excess, excess / math.sqrt(max(permuted, sample) / (size * (size - 1)))


def _units(rows: Iterable[tuple[tuple[int, ...], int]], outcome: Outcome) -> list[_Unit]:
    """Return the units of test rows (predictions, true label): the share of their predictions that are each label."""
    width = len(outcome.rows[0])
    return [
        ([predictions.count(label) / len(predictions) for label in range(width)], truth, number)
        for (predictions, truth), number in Counter(rows).items()
    ]


def _rows(outcome: Outcome) -> list[tuple[tuple[int, ...], int]]:
    """Return the predictions of each test row and its true label, sorted by the latter."""
    of_rows: dict[tuple[int, int], list[int]] = {}
    for query, predicted in zip(outcome.queries, outcome.answered, strict=True):
        of_rows.setdefault((query.label, query.row), []).append(predicted)
    return [(tuple(predictions), label) for (label, _), predictions in sorted(of_rows.items())]


def _renaming(units: Sequence[_Unit]) -> list[int]:
    """Return for each predicted label the true one that it goes with: the largest excess first, each label once."""
    labels = range(len(units[0][0]))
    size = sum(number for _, _, number in units)
    shares = [sum(number for _, label, number in units if label == true) / size for true in labels]
    excess = {
        (predicted, true): math.fsum(
            number * row[predicted] * ((label == true) - shares[true]) for row, label, number in units
        )
        for predicted in labels
        for true in labels
    }
    renaming = dict[int, int]()
    for predicted, true in sorted(excess, key=lambda pair: (-excess[pair], pair[0] != pair[1])):
        if predicted not in renaming and true not in renaming.values():
            renaming[predicted] = true
    return [renaming[label] for label in labels]


def baselines_of(outcomes: Sequence[Outcome], tried: int) -> Baselines:
    """Return the baselines of the mean accuracy of a condition over data sets, of which there may be one.

    Args:
        outcomes: The outcome of each data set, with predictions.
        tried: The number of settings that were tried.
    """
    from StaICC.metrics.random_baselines import expected_best, guessing_p_value, sign_test  # only runs need it

    totals = [len(outcome.queries) for outcome in outcomes]
    labels = [len(outcome.queries[0].label_space) for outcome in outcomes]
    scale, samples = len(outcomes), [outcome.sample for outcome in outcomes]
    frequent = [max(Counter(own.truth).items(), key=lambda item: (item[1], -item[0]))[0] for own in samples]
    shown = [[query.last_label for query in outcome.queries] for outcome in outcomes]

    def hits(predictions: Iterable[Sequence[int | None]]) -> list[list[float]]:
        """Return the number of right predictions of each test row."""
        return [own.sums(map(eq, of_set, own.truth)) for own, of_set in zip(samples, predictions, strict=True)]

    def mean(sums: Sequence[Sequence[float]]) -> float:
        return math.fsum(sum(rows) / total for rows, total in zip(sums, totals, strict=True)) / scale

    def beaten(others: Sequence[Sequence[float]]) -> float:
        units = totals if len(set(totals)) > 1 else [1] * scale  # shares, or counts
        rows = zip(correct, others, units, strict=True)
        return sign_test([(a - b) / unit for ours, theirs, unit in rows for a, b in zip(ours, theirs, strict=True)])

    correct = hits(outcome.answered for outcome in outcomes)
    majority = hits([label] * total for label, total in zip(frequent, totals, strict=True))
    last = None if None in chain(*shown) else hits(shown)
    per_query = tuple((1 / (total * scale), count, total) for total, count in zip(totals, labels, strict=True))
    per_row = tuple(
        (size / (total * scale), count, rows)
        for own, total, count in zip(samples, totals, labels, strict=True)
        for size, rows in sorted(Counter(own.sizes).items())
    )
    return Baselines(
        queries=sum(totals),
        labels=labels[0] if scale == 1 else 0,
        uniform=math.fsum(1 / count for count in labels) / scale,
        majority=mean(majority),
        tried=tried,
        max_random=expected_best(per_query, tried),
        p_value=guessing_p_value(per_query, mean(correct), tried),
        p_value_rows=guessing_p_value(per_row, mean(correct), tried),
        p_value_majority=beaten(majority),
        last_demonstration=None if last is None else mean(last),
        p_value_last_demonstration=None if last is None else beaten(last),
    )


_MARK = 4  # bytes kept of each prompt's digest


def _failures(outcomes: Sequence[Outcome], of_replies: bool) -> tuple[FailedQuery, ...]:
    """Return the failed queries, or the replies without a label, which do not count as failed."""
    return tuple(
        FailedQuery(outcome.condition.name, number, answer.reason)
        for outcome in outcomes
        for number, answer in enumerate(outcome.answers)
        if isinstance(answer, Failure) and (answer.reply is not None) == of_replies
    )


def _record(outcome: Outcome, written: Sequence[Written]) -> ConditionRecord:
    """Return the record of a condition."""
    scored = bool(outcome.queries) and not outcome.hard
    probabilities = outcome.normalised.probabilities if scored else None
    return ConditionRecord(
        outcome.condition.name,
        outcome.kind,
        tuple(label for _, _, label, _ in written),
        tuple(outcome.predictions),
        tuple(row for *_, row in written),
        None if probabilities is None else confidence_bins(outcome.truth, probabilities),
        pack_scores(outcome.returned_rows) if scored else None,
    )


def reply_record(answer: object) -> dict[str, str | None]:
    """Return the reply that is a prediction, or of which the label was read, and how it ended; nothing without one."""
    reply = answer.reply if isinstance(answer, (Failure, ReplyLabel)) else answer
    reason = reply.finish_reason if isinstance(reply, Text) else None
    return {"response": str(reply), "finish_reason": reason} if isinstance(reply, str) else {}


_OUTPUTS = ("ground_truth", "prediction", "predicted_probabilities", "normalised_probabilities")
_RELEASED_KEYS = {"groundtruth": "ground_truth", "predicted": "predictions", "prob.": "predicted_probabilities"}


class Outputs(dict[str, list[Any]]):
    """The outputs of a run, one value for each query; the keys of the code of 0.1.1 can be read, too."""

    def __missing__(self, key: str) -> list[Any]:
        if key not in _RELEASED_KEYS:
            raise unknown_key("output", key, self)
        return self[_RELEASED_KEYS[key]]


def records_of(outcomes: Sequence[Outcome]) -> list[dict[str, Any]]:
    """Return one record for each query: condition, number, test row, repeat, true label, prediction and reply."""
    records = []
    for outcome in outcomes:
        read = outcome.normalised.probabilities if outcome.queries else None
        scored = iter(zip(outcome.rows, read or [()] * len(outcome.rows), strict=True))
        for number, (query, answer) in enumerate(zip(outcome.condition.queries, outcome.answers, strict=True)):
            rows = ((), ()) if isinstance(outcome.given[number], Failure) else next(scored)
            returned, normalised = (None if isinstance(answer, Failure) else list(row) or None for row in rows)
            record = {
                "condition": outcome.condition.name,
                "query": number,
                "row": query.row,
                "repeat": query.repeat,
                "ground_truth": query.label,
                "prediction": outcome.predictions[number],
                "predicted_probabilities": returned,
                "normalised_probabilities": normalised,
            }
            records.append(record | reply_record(answer))
    return records


def outputs_of(outcomes: Sequence[Outcome]) -> Outputs:
    """Return the outputs of all queries, in order; ``None`` where a query failed.

    ``ground_truth`` and ``predictions`` are label indexes. ``predicted_probabilities`` has the rows that the inference
    function returned (one-hot rows for labels), ``normalised_probabilities`` what the metrics read them as: ``None``
    if they may be probabilities or logits.
    """
    records = records_of(outcomes)
    return Outputs({f"{key}s" if key == "prediction" else key: [record[key] for record in records] for key in _OUTPUTS})


_JSON = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


Written = tuple[bytes, tuple[str, ...], int, int]
"""Digest of a prompt, with the label space, the true label and the test row of its query."""


def digest_prompts(queries: Iterable[Query], seen: list[Written] | None = None) -> tuple[str, str]:
    """Return the digest of all prompts in order, and the first 32 bits of each one's own digest as base64.

    The former is that of their list (:func:`~StaICC.results.provenance.digest`), of which one prompt is in memory.

    Args:
        queries: The queries, which may be written one by one.
        seen: Gets what is kept of each query: it takes long to write long prompts again.
    """
    whole, marks, before = hashlib.sha256(b"["), bytearray(), b""
    for query in queries:
        whole.update(before + _JSON(as_argument(query.prompt)).encode("utf-8", "surrogatepass"))
        text = query.prompt if isinstance(query.prompt, str) else "\x1e".join(query.prompt)
        own = hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
        marks += own[:_MARK]
        if seen is not None:
            seen.append((own, query.label_space, query.label, query.row))
        before = b","
    whole.update(b"]")
    return whole.hexdigest(), base64.b64encode(marks).decode()


def compare_prompts(details: DatasetDetails, prompts: str, marks: str) -> tuple[bool, int | None, str]:
    """Compare the prompts of a data set by their digests.

    Args:
        details: The saved details.
        prompts: Digest of all prompts that were written again.
        marks: First bytes of the digest of each of them, as base64.

    Returns:
        Whether all are the same, the number of the first query that differs, and both as a sentence.
    """
    ours = base64.b64decode(marks)
    try:
        theirs = base64.b64decode(details.query_digests, validate=True)
    except ValueError:
        theirs = b""
    places = range(0, max(len(ours), len(theirs)), _MARK)
    first = next((at // _MARK for at in places if ours[at : at + _MARK] != theirs[at : at + _MARK]), None)
    if first is not None:
        return False, first, f"query {first} is the first whose prompt differs"
    if prompts != details.prompts:
        return False, None, f"the digest of all prompts differs: saved {details.prompts:.64}, written {prompts}"
    return True, None, f"the {details.asked} prompts are the same"


@dataclass(frozen=True, slots=True)
class DatasetRun:
    """The scores of one data set, with details and outcomes."""

    values: Mapping[str, Any]
    """Scores under the documented keys."""
    averaged: Mapping[str, float | None]
    """The scores that enter the mean over data sets."""
    details: DatasetDetails
    outcomes: Sequence[Any]
    """One :class:`~StaICC.benchmarks.task.Outcome` for each condition."""
    intervals: Mapping[str, Interval | NoInterval]
    """The interval of each averaged score, or why it has none."""
    answers: Sequence[Any]
    """The prediction of each query."""
    timing: Mapping[str, float] = field(default_factory=dict)
    """What the run measured, in addition to its duration."""
    statistics: Mapping[str, Statistic] = field(default_factory=dict)
    """The statistics of the metrics that have one, by name."""


RunsByDataset = Mapping[str, DatasetRun]
"""The run over each data set, by name."""


def evaluate(
    task: Scorer, scoring: Scoring, conditions: Sequence[Condition], predictions: Sequence[Answer | Failure], name: str
) -> DatasetRun:
    """Score the predictions of all conditions of one data set.

    Args:
        task: The task.
        scoring: How it scores.
        conditions: The conditions.
        predictions: The predictions of all conditions, in order.
        name: Benchmark and data set, for messages.

    Raises:
        OutputError: Predictions cannot be read, or some are labels and some are rows of numbers.
    """
    unparsed = scoring.unparsed if task.scores_accuracy or scoring.unparsed == "error" else "excluded"

    def read(assume: Assumed) -> list[Outcome]:
        outcomes, left = [], iter(predictions)
        for condition in conditions:
            answers = list(islice(left, len(condition.queries)))
            try:
                outcomes.append(task.read_outcome(condition, answers, scoring.outputs, assume))
                _ = outcomes[-1].kind  # normalises now, so that the message can name the condition
            except OutputError as error:
                if task.free_text:
                    raise  # the message names the query
                place = f", condition {condition.name}" if len(conditions) > 1 else ""
                raise OutputError(f"{name}{place}: {error}") from error
        return outcomes

    outcomes = read("wrong" if unparsed == "wrong" else None)
    failures, replies = (_failures(outcomes, of_replies) for of_replies in (False, True))
    scores = task.score(outcomes, scoring)
    bounds: dict[str, tuple[float | None, float | None]] = {}
    if unparsed == "excluded" and task.scores_accuracy and replies:
        low, high = task.score(read("wrong"), scoring).averaged, task.score(read("right"), scoring).averaged
        bounds = {key: (low[key], high[key]) for key in scores.averaged if low[key] is not None}
    missing = dict(scores.missing)
    places = {key: key if key in scores.values else f"sensitivity.{key}" for key in scores.averaged}
    intervals = _intervals(task, scoring, outcomes, places.values(), missing)
    tried = settings_tried(task, scoring)
    seen: list[Written] = []
    prompts, marks = digest_prompts(chain.from_iterable(condition.queries for condition in conditions), seen)
    left, notes = iter(seen), find_warnings(outcomes, task.content_free)
    if replies:
        examples = "; ".join(dict.fromkeys(reply.reason.removeprefix("unparsed reply ") for reply in replies[:3]))
        how = "count as wrong" if unparsed == "wrong" else "are excluded"
        notes += (f"{len(replies)} of {len(seen)} replies are unparsed and {how}, such as {examples}",)
    details = DatasetDetails(
        asked=len(seen),
        distinct=len({written[:2] for written in seen}),
        scored=sum(outcome.scored for outcome in outcomes),
        failed=len(failures) + (len(replies) if unparsed == "error" else 0),
        prompts=prompts,
        query_digests=marks,
        conditions=tuple(_record(outcome, [*islice(left, len(outcome.answers))]) for outcome in outcomes),
        missing=missing,
        notes=notes,
        intervals={key: own for key, own in intervals.items() if isinstance(own, Interval) and key not in missing},
        baselines={
            outcome.condition.name: baselines_of([outcome], tried)
            for outcome in outcomes
            if tried is not None and outcome.queries
        },
        failures=failures,
        unparsed=replies,
        bounds=bounds,
        labels=next((own.queries[0].label_space for own in conditions if own.queries and not task.free_text), ()),
    )
    own = {key: intervals[place] for key, place in places.items() if place in intervals}
    statistics = scoring.metric_set.statistics
    return DatasetRun(scores.values, scores.averaged, details, outcomes, own, predictions, statistics=statistics)


_EACH_INTERVAL = "interval of each score"
"""Key of the reason why no score of a data set has an interval."""


def _intervals(
    task: Scorer, scoring: Scoring, outcomes: Sequence[Outcome], places: Iterable[str], missing: dict[str, str]
) -> Intervals:
    """Return the intervals of a data set, and add the reasons for missing ones."""
    if not scoring.statistics.intervals or scoring.metric_set.as_released:
        return {}
    intervals: dict[str, Interval | NoInterval] = {}
    try:
        if task.free_text or all(outcome.queries for outcome in outcomes):
            intervals |= task.intervals(outcomes, scoring)
    except UndefinedMetricError as error:
        missing[_EACH_INTERVAL] = str(error)
        return {}
    for place in () if task.free_text else places:
        if place not in missing:
            intervals.setdefault(place, NoInterval("no confidence interval is known for this score", None))
    for key, interval in intervals.items():
        if isinstance(interval, NoInterval) and key not in missing:
            missing[f"interval of {key}"] = interval.reason
    return intervals


def settings_tried(task: Scorer, scoring: Scoring) -> int | None:
    """Return how many settings were tried, for the random baseline; ``None`` where accuracy is not scored.

    Another metric under the name ``accuracy`` has no baselines.
    """
    own = next((metric for metric in scoring.metric_set.metrics if metric.name == "accuracy"), None)
    scored = task.scores_accuracy and own is not None and (own.known or own.function is released.accuracy)
    return scoring.statistics.tried if scored else None


def means_of(runs: RunsByDataset) -> MeanDetails:
    """Return the intervals and the baselines of the means.

    Args:
        runs: The run over each data set, by name.
    """
    intervals: dict[str, Interval] = {}
    missing: dict[str, str] = {}
    for key in dict.fromkeys(key for run in runs.values() for key in run.averaged):
        values = [value for run in runs.values() if (value := run.averaged.get(key)) is not None]
        known: list[Interval] = []
        without: dict[str, str] = {}
        for name, run in runs.items():
            own = run.intervals.get(key, NoInterval(run.details.missing.get(_EACH_INTERVAL, ""), None))
            interval = own.approximate if isinstance(own, NoInterval) and len(runs) > 1 else own
            if isinstance(interval, Interval):
                known.append(interval)
            elif isinstance(own, NoInterval):
                without[name] = own.reason
        if len(values) == len(known) == len(runs):
            intervals[key] = _mean_interval(key, values, known, runs)
        elif len(values) == len(runs) and any(without.values()):
            missing[key] = f"no interval on {', '.join(without)}: {next(filter(None, without.values()))}"
    return MeanDetails(intervals, missing, _baselines(runs))


def _mean_interval(key: str, values: Sequence[float], intervals: Sequence[Interval], runs: RunsByDataset) -> Interval:
    """Return the interval of the mean of a score over data sets."""
    statistic = next(iter(runs.values())).statistics.get(key)
    low, top = statistic.range(0) if isinstance(statistic, Mean) else (0.0, 1.0)
    highest, width = 1.0, top - low
    if key in STATISTICS:
        spaces = [run.outcomes[0].condition.queries[0].label_space for run in runs.values()]
        highest = math.fsum(STATISTICS[key].range(len(space))[1] for space in spaces) / len(spaces)
    parts = [replace(own, low=(own.low - low) / width, high=(own.high - low) / width) for own in intervals]
    mean = mean_interval([(value - low) / width for value in values], parts, highest)  # in units of the range
    return replace(mean, low=low + width * mean.low, high=low + width * mean.high)


def _baselines(runs: RunsByDataset) -> dict[str, Baselines]:
    """Return the baselines of the mean accuracy of each condition that all data sets score."""
    first, *others = runs.values()
    return {
        outcome.condition.name: baselines_of([run.outcomes[place] for run in runs.values()], baselines.tried)
        for place, outcome in enumerate(first.outcomes)
        if outcome.queries  # free text has none
        and (baselines := first.details.baselines.get(outcome.condition.name)) is not None
        and all(outcome.condition.name in run.details.baselines for run in others)
    }


Intervals = Mapping[str, Interval | NoInterval]
"""Intervals of scores by key."""


def score_intervals(outcome: Outcome, statistics: Mapping[str, Statistic], level: float) -> Intervals:
    """Return the intervals of scores of one outcome, without those that need probabilities which it lacks.

    Args:
        outcome: The predictions.
        statistics: The statistic of each score.
        level: Nominal coverage.
    """
    return {
        key: statistic.interval(outcome.sample, predictions, level)
        for key, statistic in statistics.items()
        if (predictions := outcome.read(statistic)) is not None
    }


def slope_intervals(
    outcomes: Sequence[Outcome], shares: Sequence[float], statistics: Mapping[str, Statistic], level: float
) -> Intervals:
    """Return intervals of the regression slopes of the classification metrics over conditions.

    Args:
        outcomes: One outcome for each share.
        shares: Share of correct demonstration labels in each condition.
        statistics: The statistic of each score.
        level: Nominal coverage.
    """
    if len(set(shares)) < 2:
        return {}
    middle = math.fsum(shares) / len(shares)
    spread = math.fsum((share - middle) ** 2 for share in shares)
    weights = [(share - middle) / spread for share in shares]  # the slope is a weighted sum of the values
    reach = math.fsum(map(abs, weights)) / 2.0
    rows_of = [sorted({query.row for query in outcome.queries}) for outcome in outcomes]
    rows = sorted(set().union(*rows_of))

    def slope(statistic: Statistic, predictions: Sequence[Sequence[Any]]) -> Interval:
        parts = [
            aligned(of_difference(statistic.part(outcome.sample, read, level), level), own, rows)
            for outcome, read, own in zip(outcomes, predictions, rows_of, strict=True)
        ]
        method = "variance recovery over conditions, unit: test row"
        return combine(parts, weights).interval(level, method, -reach, reach)

    slopes: dict[str, Interval | NoInterval] = {}
    for key, statistic in statistics.items():
        read = [predictions for outcome in outcomes if (predictions := outcome.read(statistic)) is not None]
        if statistic.of_classification and len(read) == len(outcomes):
            slopes[f"sensitivity.{key}"] = statistic.withheld(outcomes[0].sample, partial(slope, statistic, read))
    return slopes


def aligned(part: MetricTerm, own: Sequence[Hashable], rows: Sequence[Hashable]) -> MetricTerm:
    """Return a part with an influence for each of `rows`: 0 for those that failed in its condition."""
    influence = dict(zip(own, part.influence, strict=True))
    return replace(part, influence=[influence.get(row, 0.0) for row in rows])


def consistency_intervals(outcomes: Sequence[Outcome], level: float) -> Intervals:
    """Return the interval of the consistency over conditions.

    Args:
        outcomes: The conditions, over the same queries.
        level: Nominal coverage.
    """
    by_query = zip(*(outcome.predictions for outcome in outcomes), strict=True)
    queries = zip(outcomes[0].condition.queries, by_query, strict=True)
    complete = [(query.row, query.label, labels) for query, labels in queries if None not in labels]
    places = {row: place for place, row in enumerate(dict.fromkeys(row for row, _, _ in complete))}
    sample = Sample([label for _, label, _ in complete], [places[row] for row, _, _ in complete], len(places), 0)
    return {"sensitivity.consistency": CONSISTENCY.interval(sample, [labels for _, _, labels in complete], level)}


_ROUNDING = 1e-6
"""Scores whose relative difference is smaller are tied: single precision with a few operations is not more exact."""
_TIED = 0.01
"""Smallest share of tied predictions that is reported."""
_SATURATED = 1 - 2.0**-24
"""Single precision rounds larger probabilities to 1."""
_MOSTLY = 0.9
"""Smallest share of saturated predictions that is reported."""
_PREDICTIONS = 29
"""Fewest predictions for a collapse or saturation: a label with a share of 0.85 fills so many in 0.9 % of cases."""
_OTHER_ROWS = 10
"""Fewest test rows with another true label for a collapse: a model that recognises 0.4 of them misses all in 0.6 %."""
_ORDERED_LABELS = 4
"""Fewest labels for a preference for their order: a fixed ranking of three labels is in order in 2 of 6 cases."""


_Found = tuple[int, str]
"""How many predictions a warning concerns (0: there is none), and its text, with places for both numbers."""


def find_warnings(outcomes: Sequence[Outcome], content_free: bool = False) -> tuple[str, ...]:
    """Return the warnings about the predictions of all conditions, one of each kind.

    Args:
        outcomes: The conditions with their predictions.
        content_free: Whether the queries have no content, so that one ranking of the labels for all is no fault.
    """
    warnings = []
    answered = [outcome for outcome in outcomes if outcome.queries]
    shown = [outcome for outcome in answered if outcome.queries[0].last_label is not None]
    for check in _CHECKS:
        if content_free and check in (_collapsed, _ordered, *_BROKEN_MODELS):
            continue
        checked = shown if shown and check in _BROKEN_MODELS else answered  # models may follow demonstrations' noise
        found = [(outcome, *warned) for outcome in checked if (warned := check(outcome))[0]]
        if found:
            count, total = sum(count for _, count, _ in found), sum(len(outcome.rows) for outcome, _, _ in found)
            warning = found[0][2].replace("{count}", str(count), 1).replace("{total}", str(total), 1)
            if len(found) < len(outcomes):
                names = ", ".join(outcome.condition.name for outcome, _, _ in found)
                warning += f" (condition{'s' * (len(found) > 1)} {names})"
            warnings.append(warning)
    return tuple(warnings)


# -- checks of a condition with predictions


_NONE: _Found = (0, "")


def _same(outcome: Outcome) -> _Found:
    """All scores are equal to rounding, although the prompts and the test rows differ."""
    if not _equal_scores(outcome) or len({query.prompt for query in outcome.queries}) < 2:
        return _NONE
    coarse = all(math.isclose(value, round(value, 2)) for value in outcome.rows[0] if math.isfinite(value))
    enough = _other_rows(outcome) >= _OTHER_ROWS if coarse else len({query.row for query in outcome.queries}) > 1
    return enough * len(outcome.rows), "all {count} predictions are the same: they do not depend on the query"


def _other_rows(outcome: Outcome) -> int:
    """Return the number of test rows whose true label is not the first prediction."""
    return len({query.row for query in outcome.queries if query.label != outcome.answered[0]})


def _equal_scores(outcome: Outcome) -> bool:
    """Return whether all rows are equal; rows that only name a label may be, as several queries have one label."""
    if _only_label(outcome.rows[0]):
        return False
    return all(_equal(a, b) for row in outcome.rows for a, b in zip(row, outcome.rows[0], strict=True))


def _only_label(row: Sequence[float]) -> bool:
    """Return whether a row is one-hot: one value is larger, and the others are equal (of two labels: 0 or -inf)."""
    *others, largest = sorted(row)
    return bool(others) and others[0] == others[-1] < largest and (len(row) > 2 or others[0] in (0, -math.inf))


def _equal(a: float, b: float) -> bool:
    return math.isclose(a, b, rel_tol=_ROUNDING)


def _collapsed(outcome: Outcome) -> _Found:
    """All predictions are one label, whatever their probabilities."""
    label, count = outcome.answered[0], len(outcome.rows)
    collapsed = count >= _PREDICTIONS and len(set(outcome.answered)) == 1 and _other_rows(outcome) >= _OTHER_ROWS
    named = f"{outcome.queries[0].label_space[label]!r}{' (the first label)' * (label == 0)}"
    text = f"all {{count}} predictions are one label, {named}"
    return (collapsed and not _equal_scores(outcome)) * count, text


def _tied(outcome: Outcome) -> _Found:
    """The largest scores are equal, or differ by rounding only."""
    largest = [sorted(row)[:-3:-1] for row in outcome.rows if len(row) > 1 and not outcome.hard]
    tied = sum(_equal(*pair) for pair in largest)
    text = "predictions have a tie for the largest score, to rounding: the first, or rounding, decides"
    return tied * (tied >= _TIED * len(outcome.rows)), f"{{count}} of {{total}} {text}"


def _ordered(outcome: Outcome) -> _Found:
    """The scores of every row rise, or fall, in the order of the labels."""
    rows = outcome.rows
    if outcome.hard or len(rows[0]) < _ORDERED_LABELS or _equal_scores(outcome):
        return _NONE
    ordered = any(all(sign * a > sign * b for row in rows for a, b in pairwise(row)) for sign in (1, -1))
    return ordered * len(rows), "the scores of all {count} predictions follow the order of the labels"


def _saturated(outcome: Outcome) -> _Found:
    """The largest probability is 1 to rounding in most rows."""
    rows = () if outcome.hard else outcome.normalised.probabilities or ()
    saturated = sum(max(row) > _SATURATED for row in rows if len(row) > 1)
    text = "in {count} of {total} predictions the largest probability is 1 to rounding: "
    many = len(rows) >= _PREDICTIONS and saturated >= _MOSTLY * len(rows)
    return many * saturated, f"{text}likelihood and ECE-1 add nothing to accuracy"


def _ambiguous(outcome: Outcome) -> _Found:
    text = "the numbers are not clearly probabilities or logits: set outputs='probabilities' or outputs='logits'"
    return (outcome.kind == "ambiguous") * len(outcome.rows), text


def _renamed(outcome: Outcome) -> _Found:
    """A renaming that one half of the rows chooses raises the accuracy on the other half, also above chance.

    The half that tests the renaming did not choose it, so the test needs no correction for the number of renamings.
    """
    rows, space = _rows(outcome), outcome.queries[0].label_space
    renaming = _renaming(_units(rows[::2], outcome)) if len(rows) > 3 else []
    pairs = [f"{space[old]!r} to {space[new]!r}" for old, new in enumerate(renaming) if old != new]
    if not pairs:
        return _NONE
    tested = _units(rows[1::2], outcome)
    places = [renaming.index(label) for label in range(len(renaming))]
    renamed = [([row[place] for place in places], label, number) for row, label, number in tested]
    gains = [([*map(sub, new[0], old[0])], *old[1:]) for new, old in zip(renamed, tested, strict=True)]
    _, gain, z = _association(gains)
    if min(z, _association(renamed)[2]) <= _Z:
        return _NONE
    more = f" and {len(pairs) - 3} more" if len(pairs) > 3 else ""
    return (
        len(outcome.rows),
        f"the labels of {{count}} predictions may be exchanged: renaming {', '.join(pairs[:3])}{more} raises the "
        f"accuracy by {gain:.2f}, on rows that did not choose the names",
    )


def _below_chance(outcome: Outcome) -> _Found:
    """The accuracy is below that of random predictions with the same frequencies, and no renaming explains it."""
    chance, excess, z = _association(_units(_rows(outcome), outcome))
    if z >= -_Z or _renamed(outcome)[0]:
        return _NONE
    return (
        len(outcome.rows),
        f"the accuracy of {{count}} predictions is {chance + excess:.3f}, below the {chance:.3f} of random predictions "
        "with the same frequencies: are the scores negated, or the labels in another order?",
    )


def _echo(outcome: Outcome) -> _Found:
    """The predictions are the label of the last demonstration, also where this label is wrong."""
    shown = [query.last_label for query in outcome.queries if query.last_label is not None]
    agreeing = sum(map(eq, outcome.answered, shown))
    if not shown or len(shown) < len(outcome.queries) or agreeing < _ECHO * len(shown):
        return _NONE
    echoed = [
        last == given for last, given, true in zip(shown, outcome.answered, outcome.truth, strict=True) if last != true
    ]
    chance, excess, z = _association(_units(zip(((label,) for label in outcome.answered), shown, strict=True), outcome))
    echo = len(echoed) >= _OTHER_LABELS and sum(echoed) >= _ECHO * len(echoed) and z > _Z
    text = "{count} of {total} predictions are the label of the last demonstration, also where it is wrong"
    return (echo and excess >= _ECHO * (1 - chance)) * agreeing, text


def _leak(outcome: Outcome) -> _Found:
    """All predictions are right."""
    leaked = outcome.sample.n_rows >= _LEAK_ROWS and outcome.answered == outcome.truth
    return leaked * len(outcome.rows), "all {count} predictions are right: does the model see the true labels?"


_BROKEN_MODELS = (_renamed, _below_chance, _echo, _leak)
_CHECKS = (_same, _collapsed, _tied, _ordered, _saturated, _ambiguous, *_BROKEN_MODELS)
