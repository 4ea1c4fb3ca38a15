"""Early stopping: evaluate test rows in a fixed random order until the score of all rows is known well enough.

A round is one test row of each data set (data sets with fewer rows drop out when they are exhausted), with all its
repeats. The order of the rows is a function of the data set alone (its name and its table), the same for all models.
The orders of different data sets are independent, also if their rows are equal. After each look of
:data:`LOOK` rounds, the confidence sequence (:mod:`StaICC.metrics.confidence_sequences`) decides whether to go on.
Predictions come from the runner as in every run, so a run that was interrupted continues from its store and gives the
same result.

The estimand is the score that the full benchmark would give. Scores are means over data sets of means over test rows.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from StaICC.benchmarks.evaluation import DatasetRun
from StaICC.benchmarks.experimentor import Experimentor
from StaICC.benchmarks.outcome import argmax
from StaICC.benchmarks.running import RunContext
from StaICC.errors import ArgumentError, OutputError, unknown_name
from StaICC.inference import Answer, Failure, Inference, Part, ask
from StaICC.metrics import Interval, Kind, normalise
from StaICC.metrics.confidence_sequences import CONFIDENCE_SEQUENCE_VERSION, ConfidenceSequence
from StaICC.prompting import Query
from StaICC.results.early_stopping import EarlyStopping

LOOK = 8
"""Rounds between two decisions whether to go on."""

_ROUNDING = 1e-9  # of a difference that is exactly 0
_LIKELIHOOD = "averaged_truelabel_likelihood"
_SHORT_NAMES = {"likelihood": _LIKELIHOOD}

Rule = Literal["precision", "race"]

_Place = tuple[int, int, int]
"""Number of the data set, test row, and repeat of a query."""


@dataclass(frozen=True, slots=True)
class StoppingRule:
    """When to stop.

    Raises:
        ArgumentError: The target is out of range.
    """

    kind: Rule
    score: str
    target: float
    """Half the width of the interval, or the margin of the difference."""
    level: float

    def __post_init__(self) -> None:
        name, most = ("precision", 0.5) if self.kind == "precision" else ("margin", 1.0)
        number = isinstance(self.target, (int, float)) and not isinstance(self.target, bool)
        if not number or not 0 < self.target < most:
            raise ArgumentError(f"wrong {name}: got {self.target!r}, expected a number between 0 and {most:g}")

    @classmethod
    def for_experimentors(
        cls, kind: Rule, target: float, score: str | None, experimentors: Sequence[Experimentor]
    ) -> StoppingRule:
        """Return the rule for a benchmark.

        Args:
            kind: What is wanted.
            target: The precision, or the margin.
            score: Name of the score; accuracy by default.
            experimentors: The data sets of the benchmark.

        Raises:
            ArgumentError: The score cannot be stopped early with these settings.
            UnknownNameError: The score is not a mean over test rows.
        """
        first = experimentors[0]
        name = _SHORT_NAMES.get(score or "accuracy", score or "accuracy")
        if not first.task.row_scores:
            raise ArgumentError(
                f"early stopping needs scores that are means over test rows: got {first.task.name}, expected Normal"
            )
        if name not in first.task.row_scores:
            raise unknown_name(
                "score for early stopping",
                name,
                (*first.task.row_scores, *_SHORT_NAMES),
                "Early stopping needs a mean over test rows; macro F1 and calibration errors are none.",
            )
        for experimentor in experimentors:
            if not any(metric.name == name and metric.known for metric in experimentor.metric_set.metrics):
                raise ArgumentError(f"early stopping needs the standard metric {name}. Use metrics='standard'")
            if name == _LIKELIHOOD and experimentor.outputs == "auto":
                raise ArgumentError(
                    "early stopping by likelihood cannot infer the kind of scores from all rows: got outputs='auto', "
                    "expected 'probabilities' or 'logits'"
                )
            if experimentor.statistics.tried > 1:
                raise ArgumentError(
                    "early stopping has no baseline for the best of several settings: got "
                    f"tried={experimentor.statistics.tried}, expected 1"
                )
        return cls(kind, name, target, first.statistics.level)

    def sequence(self, sizes: Sequence[int]) -> ConfidenceSequence:
        """Return the confidence sequence before the first round.

        Args:
            sizes: Rows of each data set.
        """
        return ConfidenceSequence(sizes, self.level, 0.0 if self.kind == "precision" else -1.0)

    def gaps(self, sequence: ConfidenceSequence) -> tuple[float, float]:
        """Return the distances to the lower and the upper bound that the next bets aim at.

        A race aims at the margin, or at 0 where the difference is clearly larger.
        """
        if self.kind == "precision":
            return self.target, self.target
        estimate, error = sequence.estimate, sequence.standard_error
        return max(self.target, estimate - error), max(self.target, -estimate - error)

    def reason(self, sequence: ConfidenceSequence) -> str | None:
        """Return why to stop now; ``None`` to go on."""
        low, high = sequence.interval
        if self.kind == "race":
            if low > _ROUNDING:
                return "the first model is better"
            if high < -_ROUNDING:
                return "the second model is better"
            if -self.target < low and high < self.target:
                return f"the difference is below the margin of {self.target:g}"
        elif (high - low) / 2 <= self.target and sequence.rounds < sequence.all_rounds:
            return f"the precision of {self.target:g} is reached"
        return "all rows are evaluated" if sequence.rounds == sequence.all_rounds else None


def row_order(experimentor: Experimentor) -> list[int]:
    """Return the test rows of a data set in the order of evaluation: random, but a function of the data set alone.

    The proof of the confidence sequence needs independent orders. The name counts, so that two data sets with equal
    rows (the same texts with two templates) have different orders.

    Args:
        experimentor: The data set.
    """
    seed = f"early stopping\0{experimentor.name}\0{experimentor.dataset.table.digest}"
    rows = range(experimentor.row_count)
    return sorted(rows, key=lambda row: hashlib.sha256(f"{seed}\0{row}".encode("utf-8", "surrogatepass")).digest())


def _row_score(score: str, outputs: Kind, queries: Sequence[Query], answers: Sequence[Answer]) -> float:
    """Return the score of one test row: the mean over its repeats."""
    total = 0.0
    for query, answer in zip(queries, answers, strict=True):
        if score != _LIKELIHOOD:
            assert not isinstance(answer, str)
            total += query.label == (answer if isinstance(answer, int) else argmax(answer))
        elif isinstance(answer, list):
            probabilities = normalise([answer], outputs).probabilities
            assert probabilities is not None
            total += probabilities[0][query.label]
        else:
            raise OutputError("labels have no likelihood: got a label, expected one score for each label")
    return total / len(queries)


def follow(
    rule: StoppingRule,
    orders: Sequence[Sequence[int]],
    evaluate: Callable[[range], None],
    score: Callable[[int, int], float],
) -> tuple[ConfidenceSequence, str]:
    """Evaluate look by look until the rule stops; return the sequence and why it stopped.

    Args:
        rule: The rule.
        orders: The rows of each data set, in order.
        evaluate: Called with the rounds of each look.
        score: Returns the score of a row, or its difference, from the number of the data set and the row.
    """
    sequence = rule.sequence([len(order) for order in orders])
    while True:
        look = range(sequence.rounds, min(sequence.rounds + LOOK, sequence.all_rounds))
        evaluate(look)
        for place in look:
            values = [score(number, rows[place]) if place < len(rows) else None for number, rows in enumerate(orders)]
            sequence.update(values, *rule.gaps(sequence))
        reason = rule.reason(sequence)
        if reason is not None:
            return sequence, reason


def _scorer(
    rule: StoppingRule,
    experimentors: Sequence[Experimentor],
    queries: Sequence[Mapping[int, Sequence[Query]]],
    answers: Sequence[Mapping[_Place, Answer]],
) -> Callable[[int, int], float]:
    """Return the function that scores a row: of one model, or first minus second.

    Args:
        rule: The rule.
        experimentors: The data sets.
        queries: For each data set, the queries of each row.
        answers: For each model, the predictions.
    """

    def score(number: int, row: int) -> float:
        asked, outputs = queries[number][row], experimentors[number].outputs
        first, *others = (
            _row_score(rule.score, outputs, asked, [of_model[number, row, query.repeat] for query in asked])
            for of_model in answers
        )
        return first - sum(others)

    return score


def evaluate_in_rounds(
    rule: StoppingRule,
    experimentors: Sequence[Experimentor],
    functions: Sequence[Sequence[Inference]],
    context: RunContext,
) -> tuple[EarlyStopping, list[dict[str, DatasetRun]]]:
    """Evaluate one model, or the two of a race, until the rule stops.

    Args:
        rule: When to stop.
        experimentors: The data sets.
        functions: For each model, the inference function of each data set.
        context: The context of the run.

    Returns:
        The record, and for each model its run over each data set.

    Raises:
        ArgumentError: The run collects failed queries, or passes complete lists of prompts.
        OutputError: A query has no usable prediction.
    """
    name = experimentors[0].task.name
    options = context.options_for(functions[0][0])
    if any(one.unparsed != "error" for one in experimentors):
        raise ArgumentError(
            f"early stopping needs the label of every reply: got unparsed={experimentors[0].unparsed!r}. Leave it out"
        )
    if options.on_error != "raise" or options.batched:
        got = "batched_inference=True" if options.batched else "on_error='collect'"
        raise ArgumentError(
            f"early stopping needs the prediction of every query, each on its own: got {got}. Leave it out"
        )
    conditions = [one.conditions() for one in experimentors]
    orders = [row_order(one) for one in experimentors]
    queries: list[dict[int, list[Query]]] = [{row: [] for row in order} for order in orders]
    for number, of_dataset in enumerate(conditions):
        for query in (query for condition in of_dataset for query in condition.queries):
            queries[number][query.row].append(query)
    answers: list[dict[_Place, Answer]] = [{} for _ in functions]

    def evaluate(look: range) -> None:
        looks = -(-max(map(len, orders)) // LOOK)
        for model, of_model in enumerate(functions):
            which = f", model {model + 1}" if len(functions) > 1 else ""
            part = Part(f"{name}{which}, rounds {look[0] + 1} to {look[-1] + 1}", look[0] // LOOK, looks)
            for function in {id(one): one for one in of_model}.values():  # one call for all its data sets
                places = [
                    (number, query)
                    for number, order in enumerate(orders)
                    if of_model[number] is function
                    for row in order[look.start : look.stop]
                    for query in queries[number][row]
                ]
                found = ask(function, [query for _, query in places], part, context.options_for(function))
                for (number, query), answer in zip(places, found, strict=True):
                    assert not isinstance(answer, Failure)  # on_error="raise"
                    answers[model][number, query.row, query.repeat] = answer

    sequence, reason = follow(rule, orders, evaluate, _scorer(rule, experimentors, queries, answers))
    runs: list[dict[str, DatasetRun]] = [{} for _ in functions]
    for number, one in enumerate(experimentors):
        view = one.restricted_to(orders[number][: sequence.rounds])
        chosen = view.select(conditions[number])
        asked = [query for condition in chosen for query in condition.queries]
        for model, of_model in enumerate(answers):
            predictions = [of_model[number, query.row, query.repeat] for query in asked]
            runs[model][one.name] = view.assemble(chosen, predictions, f"{name}, {one.name}")
    all_queries = sum(len(rows) for of_rows in queries for rows in of_rows.values())
    return _record(rule, sequence, reason, runs, all_queries), runs


def _record(
    rule: StoppingRule,
    sequence: ConfidenceSequence,
    reason: str,
    runs: Sequence[Mapping[str, DatasetRun]],
    all_queries: int,
) -> EarlyStopping:
    defined = all(one.averaged.get(rule.score) is not None for of_model in runs for one in of_model.values())
    low, high = sequence.interval
    return EarlyStopping(
        rule.kind,
        rule.score,
        float(rule.target),
        sequence.estimate if defined else None,
        Interval(low, high, rule.level, f"confidence sequence {CONFIDENCE_SEQUENCE_VERSION}"),
        sequence.rounds,
        sequence.all_rounds,
        sum(one.details.asked for one in runs[0].values()),
        all_queries,
        reason,
    )


def replay(
    saved: EarlyStopping, experimentors: Sequence[Experimentor], runs: Sequence[Mapping[str, DatasetRun]]
) -> EarlyStopping:
    """Return the record that follows from the predictions of a run.

    Args:
        saved: The record of the run, for its rule.
        experimentors: The data sets of the full benchmark.
        runs: For each model, its run over each data set.

    Raises:
        ArgumentError: The rule goes on after the last evaluated row, or its settings are impossible.
    """
    rule = StoppingRule.for_experimentors(
        "race" if saved.rule == "race" else "precision", saved.target, saved.score, experimentors
    )
    queries: list[dict[int, list[Query]]] = [{} for _ in experimentors]
    answers: list[dict[_Place, Answer]] = [{} for _ in runs]
    for model, of_model in enumerate(runs):
        for number, one in enumerate(experimentors):
            for outcome in of_model[one.name].outcomes:
                for query, answer in zip(outcome.condition.queries, outcome.answers, strict=True):
                    if isinstance(answer, Failure):
                        raise ArgumentError("a query has no prediction, but early stopping needs all")
                    answers[model][number, query.row, query.repeat] = answer
                    if model == 0:
                        queries[number].setdefault(query.row, []).append(query)
    score = _scorer(rule, experimentors, queries, answers)
    try:
        sequence, reason = follow(rule, [row_order(one) for one in experimentors], lambda look: None, score)
    except KeyError as error:
        raise ArgumentError("by its rule the run goes on, but further rows were not evaluated") from error
    each = [one.row_count * one.get_repeat_times() for one in experimentors]
    return _record(rule, sequence, reason, runs, sum(each))
