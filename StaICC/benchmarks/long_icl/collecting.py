"""From the scores of a data set to what a result holds: figures, intervals, baselines, notes, records.

The result is the library's own :class:`~StaICC.results.Result`, so it prints, saves, loads and compares like every
other. For each data set it has

* the scores ``1R`` to ``5R`` and their ``mean``, ``uniform`` and ``majority`` (guessing), ``metric`` (which score);
* under ``rounds``, for each round: counts, precision and recall where there are such, counts for each label, and the
  places of each label's demonstrations, which is all that the positional study needs;
* under ``settings``, everything that was asked, with the digests of the files and of each round's prompts.

A round with an unanswered query has no score, and so the data set has no mean; a data set that was skipped has no
figures at all, and so there is no mean over the data sets. Both say why.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from StaICC.benchmarks.long_icl.experimentor import LongICLExperimentor
from StaICC.benchmarks.long_icl.items import Item
from StaICC.benchmarks.long_icl.loading import Skipped
from StaICC.benchmarks.long_icl.records import DataSetScore, RoundScore
from StaICC.benchmarks.long_icl.scoring import Accuracy, Tally, micro_f1, scored
from StaICC.benchmarks.statistics import Statistics
from StaICC.inference import Failure
from StaICC.metrics.intervals import Interval, bootstrap_sums, wilson
from StaICC.metrics.random_baselines import RandomBaseline
from StaICC.results import Baselines, ConditionRecord, DatasetDetails, FailedQuery

__all__ = ["NO_LABEL", "details_of", "divided_of", "mean", "records_of", "round_name", "skipped_details"]

NO_LABEL = -1
"""Predicted label index of an answer that names no label: a wrong one."""

_METRICS = {"accuracy": "accuracy", "micro_f1": "micro F1"}


def round_name(number: int) -> str:
    """How the paper writes a round.

    Example:
        >>> round_name(3)
        '3R'
    """
    return f"{number}R"


def mean(values: Sequence[float | None]) -> float | None:
    """The mean; one missing part makes it missing."""
    if not values or any(value is None for value in values):
        return None
    return math.fsum(value for value in values if value is not None) / len(values)


def divided_of(score: DataSetScore) -> dict[str, Any]:
    """A data set's share of the divided results (see the module)."""
    values = {round_name(number): value for number, value in score.values().items()}
    found: dict[str, Any] = {
        **values,
        "mean": mean(list(values.values())),
        "uniform": score.baselines.uniform,
        "majority": score.baselines.majority,
        "metric": score.metric,
        "rounds": {round_name(one.round): one.to_dict() for one in score.rounds},
        "settings": score.settings,
    }
    if score.baselines.majority_label is not None:
        found["majority_label"] = score.baselines.majority_label
    return found


def _interval(own: LongICLExperimentor, one: RoundScore, statistics: Statistics) -> Interval | None:
    """Of a round's score: Wilson's for an accuracy, a bootstrap over items for an F1."""
    if one.score is None:
        return None
    if isinstance(one.score, Accuracy):
        return wilson(one.score.correct, one.score.items, statistics.level)
    rule = own.card.scoring
    tallies = scored(rule, [outcome.tally for outcome in one.outcomes if outcome.tally is not None], own.variant)
    if len(tallies) < 2:
        return None

    def f1(sums: Sequence[float]) -> dict[str, float]:
        gold, predicted, correct = map(int, sums)
        return {"f1": micro_f1(rule, gold, predicted, correct, own.variant).f1}

    return bootstrap_sums(
        [[len(tally.gold), len(tally.predicted), len(tally.correct)] for tally in tallies],
        f1,
        seed=statistics.seed,
        resamples=statistics.resamples,
        level=statistics.level,
    )["f1"]


def _predicted(own: LongICLExperimentor, tally: Tally | None) -> int | None:
    if tally is None:
        return None
    return own.card.labels.index(tally.predicted[0]) if tally.predicted else NO_LABEL


def _kind(answers: Sequence[Any]) -> str:
    """How a round was answered."""
    kinds = {
        "text" if isinstance(answer, str) else "labels" if hasattr(answer, "__index__") else "numbers"
        for answer in answers
        if not isinstance(answer, Failure)
    }
    return kinds.pop() if len(kinds) == 1 else "mixed" if kinds else "none"


def _conditions(
    own: LongICLExperimentor, score: DataSetScore, rounds: Sequence[Sequence[Any]]
) -> tuple[ConditionRecord, ...]:
    """One record for each round, where an item has one label; what compares two results query by query reads them."""
    if own.card.structured:
        return ()
    truth = tuple(own.card.labels.index(item.gold[0]) for item in own.test_items)
    rows = tuple(item.row for item in own.test_items)
    return tuple(
        ConditionRecord(
            round_name(one.round),
            _kind(answers),
            truth,
            tuple(_predicted(own, outcome.tally) for outcome in one.outcomes),
            rows,
        )
        for one, answers in zip(score.rounds, rounds, strict=True)
    )


def _guessing(own: LongICLExperimentor, score: DataSetScore, tried: int) -> dict[str, Baselines]:
    """What guessing would score on the share of right answers, and how surprising that share is."""
    if own.card.structured:
        return {}
    items, labels = own.test_items, len(own.card.labels)
    guesser = RandomBaseline(len(items), 1 / labels)
    best = guesser.max_random_baseline(tried)
    gold = [item.gold[0] for item in items]
    majority = max(gold.count(label) for label in set(gold)) / len(gold)
    return {
        round_name(one.round): Baselines(
            queries=len(items),
            labels=labels,
            uniform=1 / labels,
            majority=majority,
            tried=tried,
            max_random=best,
            p_value=guesser.p_value_of_count(sum(part.correct for part in one.labels), tried),
        )
        for one in score.rounds
        if one.score is not None
    }


def _notes(own: LongICLExperimentor, score: DataSetScore) -> tuple[str, ...]:
    """What a reader must know beside the figures."""
    found = [f"the scores are {_METRICS[score.metric]}"]
    if own.data.made_up:
        found.append("MADE-UP ROWS: the figures show that the code runs, not what a model can do")
    elif not (own.data.train_file.verified and own.data.test_file.verified):
        found.append("the files are not known to be the published ones")
    for one in score.rounds:
        expected = own.card.demonstrations.expected[one.round - 1]
        if one.demonstrations != expected:
            found.append(f"{round_name(one.round)} has {one.demonstrations} demonstrations instead of {expected}")
    empty = {round_name(one.round): one.empty for one in score.rounds if one.empty}
    if empty:
        listed = ", ".join(f"{name} {count}" for name, count in empty.items())
        found.append(f"empty answers, which count as wrong: {listed} (of {score.rounds[0].asked} each)")
    return tuple(found)


def _missing(score: DataSetScore) -> dict[str, str]:
    found = {round_name(one.round): one.note for one in score.rounds if one.score is None}
    if found:
        found["mean"] = f"no score in {', '.join(found)}"
    if score.baselines.uniform is None:
        found["uniform"] = found["majority"] = score.baselines.note
    return found


def details_of(
    own: LongICLExperimentor, score: DataSetScore, answers: Sequence[Any], statistics: Statistics
) -> DatasetDetails:
    """What stands beside the scores of a data set.

    Args:
        own: The data set's experimentor.
        score: Its scores.
        answers: The answers that were scored, in the order of the queries.
        statistics: Level, resamples and seed of the intervals; how many settings were tried.
    """
    each = len(own.test_items)
    rounds = [answers[place * each : (place + 1) * each] for place in range(len(own.rounds))]
    prompts, marks = own.digests()
    intervals = {round_name(one.round): _interval(own, one, statistics) for one in score.rounds if statistics.resamples}
    return DatasetDetails(
        asked=len(answers),
        distinct=len({own.context(number) for number in own.rounds}) * own.distinct_questions,
        scored=sum(one.asked for one in score.rounds if one.score is not None),
        failed=sum(one.asked - one.answered for one in score.rounds),
        prompts=prompts,
        query_digests=marks,
        conditions=_conditions(own, score, rounds),
        missing=_missing(score),
        notes=_notes(own, score),
        intervals={name: interval for name, interval in intervals.items() if interval is not None},
        baselines=_guessing(own, score, statistics.tried),
        failures=tuple(
            FailedQuery(round_name(number), place, answer.reason)
            for number, part in zip(own.rounds, rounds, strict=True)
            for place, answer in enumerate(part)
            if isinstance(answer, Failure)
        ),
    )


def skipped_details(skipped: Skipped) -> DatasetDetails:
    """The details of a data set that was asked for and is not there."""
    note = f"SKIPPED: {skipped.reason}. {skipped.instructions}"
    return DatasetDetails(
        asked=0, distinct=0, scored=0, failed=0, prompts="", query_digests="", conditions=(), notes=(note,)
    )


def _truth(item: Item) -> Any:
    return list(item.gold) if len(item.gold) != 1 else item.gold[0]


def records_of(own: LongICLExperimentor, score: DataSetScore, answers: Sequence[Any]) -> list[dict[str, Any]]:
    """One record for each query: what was asked (by number), the truth, the answer as given and as parsed."""
    outcomes = [(one.round, place, outcome) for one in score.rounds for place, outcome in enumerate(one.outcomes)]
    return [
        {
            "condition": round_name(number),
            "query": place,
            "row": outcome.row,
            "ground_truth": _truth(own.test_items[place]),
            "prediction": outcome.answer,
            "response": answer if isinstance(answer, str) else None,
            "predicted_probabilities": _row(answer),
        }
        for (number, place, outcome), answer in zip(outcomes, answers, strict=True)
    ]


def _row(answer: Any) -> list[float] | None:
    if isinstance(answer, (str, Failure)) or hasattr(answer, "__index__"):
        return None
    return [float(value) for value in answer]
