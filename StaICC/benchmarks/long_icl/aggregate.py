"""Converts the scores of a data set to the parts of a result: scores, intervals, baselines, notes, records.

For each data set, the :class:`~StaICC.results.Result` has

* the scores ``1R`` to ``5R``, their ``mean``, the baselines ``uniform`` and ``majority``, and the ``metric``;
* under ``rounds``, for each round: counts, precision and recall (for F1), and counts for each label;
* under ``experiment``, what the conditions of an experiment show (:mod:`StaICC.benchmarks.long_icl.analysis`);
* under ``settings``, the options, and the digests of the files and of each round's prompts.

If a query fails, the score of its round and the mean of its data set are undefined. If a data set is skipped, the means
over the data sets are undefined. The result says why.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from StaICC.benchmarks.benchmark import mean
from StaICC.benchmarks.long_icl.analysis import analyse, score_part
from StaICC.benchmarks.long_icl.data.items import Item
from StaICC.benchmarks.long_icl.data.loading import Skipped
from StaICC.benchmarks.long_icl.experimentor import LongICLExperimentor
from StaICC.benchmarks.long_icl.records import DataSetScore, RoundScore, round_name
from StaICC.benchmarks.long_icl.scoring import MicroF1, Tally
from StaICC.benchmarks.records import unparsed_note
from StaICC.benchmarks.statistics import Statistics
from StaICC.inference import Failure
from StaICC.metrics.intervals import Interval
from StaICC.metrics.random_baselines import RandomBaseline
from StaICC.metrics.score_intervals import combine, mean_interval
from StaICC.results import Baselines, ConditionRecord, DatasetDetails, FailedQuery, MeanDetails

__all__ = ["NO_LABEL", "details_of", "divided_of", "mean", "means_of", "records_of", "skipped_details"]

NO_LABEL = -1
"""Predicted label index of a response that names no label; it is a wrong prediction."""

_METRICS = {"accuracy": "accuracy", "micro_f1": "micro F1"}


def divided_of(own: LongICLExperimentor, score: DataSetScore, statistics: Statistics) -> dict[str, Any]:
    """Return the divided results of a data set (see the module)."""
    values = {round_name(number): value for number, value in score.values().items()}
    divided: dict[str, Any] = {
        **values,
        **dict.fromkeys(own.unavailable),
        "mean": mean(list(values.values())),
        "uniform": score.baselines.uniform,
        "majority": score.baselines.majority,
        "metric": score.metric,
        "rounds": {
            round_name(one.round): one.to_dict() | ({"items": _items(one)} if score.metric == "micro_f1" else {})
            for one in score.rounds
        },
        "settings": score.settings,
    }
    if own.experiment is not None:
        divided["experiment"] = analyse(own, score, statistics.level if statistics.intervals else None)
    if score.baselines.majority_label is not None:
        divided["majority_label"] = score.baselines.majority_label
    return divided


def _items(one: RoundScore) -> list[list[int | None]]:
    """Return row, and numbers of true, predicted and correct labels, of each scored item (null if its query failed).

    F1 of two runs is compared with these counts.
    """
    items: list[list[int | None]] = []
    left = one.score.gold if isinstance(one.score, MicroF1) else None
    for outcome in one.outcomes:
        if left is not None and left <= 0:
            break
        tally = outcome.tally
        counts = [None] * 3 if tally is None else [len(tally.gold), len(tally.predicted), len(tally.correct)]
        items.append([outcome.row, *counts])
        left = left if left is None or tally is None else left - len(tally.gold)
    return items


def _intervals(own: LongICLExperimentor, score: DataSetScore, level: float) -> dict[str, Interval]:
    """Return the intervals of the rounds and of their mean, with the item as the unit."""
    parts = {
        round_name(one.round): None if one.score is None else score_part(own, one.outcomes, level)
        for one in score.rounds
    }
    known = {name: part for name, part in parts.items() if part is not None}
    if len(known) == len(parts) and known:
        known["mean"] = combine(list(known.values()), [1 / len(known)] * len(known))
    return {name: part.interval(level, "Wilson score, design effect and t, unit: item") for name, part in known.items()}


def means_of(divided: Mapping[str, Mapping[str, Any]], details: Mapping[str, DatasetDetails]) -> MeanDetails:
    """Return the intervals of the means over data sets, of the scores that all data sets have."""
    shared = [
        key for key in next(iter(details.values())).intervals if all(key in one.intervals for one in details.values())
    ]
    return MeanDetails(
        {
            key: mean_interval(
                [one[key] for one in divided.values()], [details[name].intervals[key] for name in divided]
            )
            for key in shared
        }
    )


def _predicted(own: LongICLExperimentor, tally: Tally | None) -> int | None:
    if tally is None:
        return None
    return own.card.labels.index(tally.predicted[0]) if tally.predicted else NO_LABEL


def _kind(answers: Sequence[Any]) -> str:
    """Return the kind of the predictions of a round."""
    kinds = {
        "text" if isinstance(answer, str) else "labels" if hasattr(answer, "__index__") else "numbers"
        for answer in answers
        if not isinstance(answer, Failure)
    }
    return kinds.pop() if len(kinds) == 1 else "mixed" if kinds else "none"


def _conditions(
    own: LongICLExperimentor, score: DataSetScore, rounds: Sequence[Sequence[Any]]
) -> tuple[ConditionRecord, ...]:
    """Return one record for each round, if items have one label; paired comparisons of results read them."""
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
    """Return the accuracy of random guessing, and the p-value of the accuracy, for each scored round."""
    if own.card.structured:
        return {}
    labels, found = len(own.card.labels), {}
    for one in score.rounds:
        if one.score is not None:
            queries, correct = (sum(getattr(part, count) for part in one.labels) for count in ("gold", "correct"))
            guesser = RandomBaseline(queries, 1 / labels)  # of the scored queries: others may be excluded
            found[round_name(one.round)] = Baselines(
                queries=queries,
                labels=labels,
                uniform=1 / labels,
                majority=score.baselines.majority or 0.0,
                tried=tried,
                max_random=guesser.max_random_baseline(tried),
                p_value=guesser.p_value_of_count(correct, tried),
            )
    return found


def _notes(own: LongICLExperimentor, score: DataSetScore) -> tuple[str, ...]:
    """Return warnings and facts that a reader of the scores needs."""
    notes = [f"the scores are {_METRICS[score.metric]}"]
    if own.data.made_up:
        notes.append("MADE-UP ROWS: the figures show that the code runs, not what a model can do")
    elif own.data.dataset is None and not (own.data.train_file.verified and own.data.test_file.verified):
        notes.append("the files are not known to be the published ones")
    for one in score.rounds:
        if isinstance(one.round, str):
            continue
        expected = own.card.demonstrations.expected[one.round - 1]
        if one.demonstrations != expected:
            notes.append(f"{round_name(one.round)} has {one.demonstrations} demonstrations instead of {expected}")
    unparsed = _unparsed(score)
    if unparsed:
        asked = sum(one.asked for one in score.rounds)
        notes.append(unparsed_note(unparsed, asked, own.unparsed))
    empty = {round_name(one.round): one.empty for one in score.rounds if one.empty}
    if empty:
        listed = ", ".join(f"{name} {count}" for name, count in empty.items())
        how = "which count as wrong" if own.unparsed == "wrong" else "which are excluded"
        notes.append(f"empty answers, {how}: {listed} (of {score.rounds[0].asked} each)")
    return tuple(notes)


def _unparsed(score: DataSetScore) -> tuple[FailedQuery, ...]:
    return tuple(FailedQuery(round_name(one.round), *pair) for one in score.rounds for pair in one.unparsed)


def _bounds(score: DataSetScore) -> dict[str, tuple[float | None, float | None]]:
    """Return the bounds of the rounds with excluded responses, and of the mean over the rounds."""
    found = {round_name(one.round): one.bounds for one in score.rounds if one.bounds is not None}
    if not found:
        return {}
    pairs = [one.bounds or (value, value) for one, value in zip(score.rounds, score.values().values(), strict=True)]
    return {**found, "mean": (mean([low for low, _ in pairs]), mean([high for _, high in pairs]))}


def _missing(own: LongICLExperimentor, score: DataSetScore) -> dict[str, str]:
    reasons = {round_name(one.round): one.note for one in score.rounds if one.score is None}
    if reasons:
        reasons["mean"] = f"no score in {', '.join(reasons)}"
    reasons |= own.unavailable
    if score.baselines.uniform is None:
        reasons["uniform"] = reasons["majority"] = score.baselines.note
    return reasons


def details_of(
    own: LongICLExperimentor, score: DataSetScore, answers: Sequence[Any], statistics: Statistics
) -> DatasetDetails:
    """Return the details of a data set.

    Args:
        own: The experimentor of the data set.
        score: Its scores.
        answers: The scored predictions, in the order of the queries.
        statistics: Level of the intervals, and the number of tried settings.
    """
    each = len(own.test_items)
    rounds = [answers[place * each : (place + 1) * each] for place in range(len(own.rounds))]
    prompts, marks = own.digests()
    return DatasetDetails(
        asked=len(answers),
        distinct=own.distinct,
        scored=sum(
            one.asked - len(one.unparsed) * (own.unparsed == "excluded")
            for one in score.rounds
            if one.score is not None
        ),
        failed=sum(one.asked - one.answered for one in score.rounds),
        prompts=prompts,
        query_digests=marks,
        conditions=_conditions(own, score, rounds),
        missing=_missing(own, score),
        notes=_notes(own, score),
        intervals=_intervals(own, score, statistics.level) if statistics.intervals else {},
        baselines=_guessing(own, score, statistics.tried),
        failures=tuple(
            FailedQuery(round_name(number), place, answer.reason)
            for number, part in zip(own.rounds, rounds, strict=True)
            for place, answer in enumerate(part)
            if isinstance(answer, Failure) and answer.reply is None
        ),
        unparsed=_unparsed(score),
        bounds=_bounds(score),
        data=own.data.test_file.identity,
    )


def skipped_details(skipped: Skipped) -> DatasetDetails:
    """Return the details of a data set without files."""
    note = f"SKIPPED: {skipped.reason}. {skipped.instructions}"
    return DatasetDetails(
        asked=0, distinct=0, scored=0, failed=0, prompts="", query_digests="", conditions=(), notes=(note,)
    )


def _truth(item: Item) -> Any:
    return list(item.gold) if len(item.gold) != 1 else item.gold[0]


def records_of(own: LongICLExperimentor, score: DataSetScore, answers: Sequence[Any]) -> list[dict[str, Any]]:
    """Return one record for each query: its position, the true label, the response and the parsed prediction."""
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
