"""Early stopping: evaluate test rows in a fixed random order until a score, or the better of two models, is known.

A round is one test row of each data set (data sets with fewer rows drop out when they are exhausted), with all its
repeats. The order of the rows is a function of the data set alone (its name and its table), the same for all models.
The orders of different data sets are independent, also if their rows are equal. After each look of
:data:`LOOK` rounds, the confidence sequence (:mod:`StaICC.metrics.intervals`) decides whether to go on.
Predictions come from the runner as in every run, so a run that was interrupted continues from its store and gives the
same result. What was evaluated is scored by the same benchmark with fewer rows.

The estimand is the score that the full benchmark would give. Scores are means over data sets of means over test rows.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast

from StaICC.arguments import known_name
from StaICC.benchmarks.context import EarlySettings, RunContext, RunSettings
from StaICC.benchmarks.evaluation import DatasetRun, RunsByDataset
from StaICC.benchmarks.experimentor import Experimentor
from StaICC.benchmarks.result_warnings import dataset_warnings, with_model_warnings
from StaICC.benchmarks.running import BaseBenchmark
from StaICC.benchmarks.task import Condition, Outcome
from StaICC.errors import ArgumentError, OutputError
from StaICC.inference.contract import Answer, Inference
from StaICC.inference.replies import Failure
from StaICC.inference.runner import Part, predict_queries
from StaICC.metrics.confidence_sequences import CONFIDENCE_SEQUENCE_VERSION, ConfidenceSequence
from StaICC.metrics.intervals import Interval
from StaICC.metrics.scores import STATISTICS
from StaICC.prompting.prompt_writer import Query
from StaICC.results.details import EarlyStopping
from StaICC.results.result import Result, ResultGroup
from StaICC.results.runs import Sweep
from StaICC.results.signature import Signature

if TYPE_CHECKING:
    from typing_extensions import Unpack


_B = TypeVar("_B", bound=BaseBenchmark[Experimentor])

LOOK = 8
"""Rounds between two decisions whether to go on."""

_ROUNDING = 1e-9  # of a difference that is exactly 0
_LIKELIHOOD = "averaged_truelabel_likelihood"

RACE = Sweep("Race", lambda part, result: part in ("first", "second") and result.stopping is not None, ("scoring",))
"""The results of a race between two models (:func:`race`)."""

StoppingKind = Literal["precision", "race"]

_Answers = dict[tuple[int, Query], Answer | Failure]
"""The predictions of a model, by number of the data set and query."""


def is_within_margin(low: float, high: float, margin: float) -> bool:
    """Return whether a difference is certainly smaller than a margin in both directions.

    Args:
        low: The lower end of its interval.
        high: The upper end.
        margin: The margin.

    Example:
        >>> is_within_margin(-0.01, 0.015, 0.02), is_within_margin(-0.3, 0.015, 0.02)
        (True, False)
    """
    return -margin < low and high < margin


@dataclass(frozen=True, slots=True)
class StoppingRule:
    """When to stop.

    Raises:
        ArgumentError: The target is out of range.
    """

    kind: StoppingKind
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
        cls, kind: StoppingKind, target: Any, score: str | None, experimentors: Sequence[Experimentor]
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
        row_scores = first.row_scores
        if not row_scores:
            raise ArgumentError(f"early stopping needs scores that are means over test rows: got {first!r}")
        hint = "Early stopping needs a mean over test rows; macro F1 and calibration errors are none."
        name = known_name("score for early stopping", score or "accuracy", (*row_scores, "likelihood"), hint)
        name = _LIKELIHOOD if name == "likelihood" else name
        for experimentor in experimentors:
            if not any(metric.name == name and metric.known for metric in experimentor.metric_set.metrics):
                raise ArgumentError(f"early stopping needs the standard metric {name}. Use metrics='standard'")
            if name == _LIKELIHOOD and experimentor.outputs == "auto":
                expected = "'probabilities' or 'logits', because 'auto' needs the scores of all rows"
                raise ArgumentError(f"early stopping by likelihood: got outputs='auto', expected {expected}")
            if (tried := experimentor.statistics.tried) > 1:
                raise ArgumentError(
                    f"early stopping has no baseline of several settings: got tried={tried}, expected 1"
                )
        return cls(kind, name, target, first.statistics.level)

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
            if is_within_margin(low, high, self.target):
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


def follow(
    rule: StoppingRule, sizes: Sequence[int], evaluate: Callable[[range], Iterable[Sequence[float | None]]]
) -> tuple[ConfidenceSequence, str]:
    """Evaluate look by look until the rule stops; return the sequence and why it stopped.

    Args:
        rule: The rule.
        sizes: The number of rows of each data set.
        evaluate: Returns for each round of a look the scores of its rows, or their differences; ``None`` for a data set
            that has no more rows.
    """
    sequence, reason = ConfidenceSequence(sizes, rule.level, 0.0 if rule.kind == "precision" else -1.0), None
    while reason is None:
        look = range(sequence.rounds, min(sequence.rounds + LOOK, sequence.all_rounds))
        for values in evaluate(look):
            sequence.update(values, *rule.gaps(sequence))
        reason = rule.reason(sequence)
    return sequence, reason


def decide(
    rule: StoppingRule,
    experimentors: Sequence[Experimentor],
    answers: Sequence[_Answers],
    predict: Callable[[range, list[tuple[int, Query]]], None] = lambda look, queries: None,
) -> EarlyStopping:
    """Follow a rule over the predictions of one model, or of the two of a race; return the record of the decision.

    Args:
        rule: When to stop.
        experimentors: The data sets of the full benchmark.
        answers: For each model, its predictions so far.
        predict: Called with the rounds of each look and their queries, before they are scored.

    Raises:
        KeyError: A query has no prediction.
        OutputError: The score needs label scores, and a prediction is a label.
    """
    sizes = [own.row_count for own in experimentors]
    by_round: dict[tuple[int, int], list[Query]] = {}  # the queries of a row of a data set, by its place in the order
    for number, own in enumerate(experimentors):
        rounds = {row: place for place, row in enumerate(row_order(own))}
        for query in own.all_queries():
            by_round.setdefault((number, rounds[query.row]), []).append(query)

    def score(number: int, place: int) -> float:
        """Return the mean score of the repeats of a row: of one model, or the first minus the second."""
        statistic, queries, scores = STATISTICS[rule.score], by_round[number, place], []
        for known in answers:
            predicted = [known[number, query] for query in queries]
            outcome = Outcome(Condition("row", queries), predicted, experimentors[number].outputs)
            if (predictions := outcome.read(statistic)) is None:
                raise OutputError("labels have no likelihood: got a label, expected one score for each label")
            scores.append(statistic.value(outcome.sample, predictions))
        return scores[0] - sum(scores[1:])

    def evaluate(look: range) -> Iterator[list[float | None]]:
        places = [(number, place) for number in range(len(sizes)) for place in look]
        predict(look, [(place[0], query) for place in places for query in by_round.get(place, ())])
        for place in look:
            yield [score(number, place) if place < size else None for number, size in enumerate(sizes)]

    sequence, reason = follow(rule, sizes, evaluate)
    n_queries = sum(len(queries) for (_, place), queries in by_round.items() if place < sequence.rounds)
    complete = sum(own.row_count * own.get_repeat_times() for own in experimentors)  # of which there may be a part only
    interval = Interval(*sequence.interval, rule.level, f"confidence sequence {CONFIDENCE_SEQUENCE_VERSION}")
    measured = sequence.estimate, interval, sequence.rounds, sequence.all_rounds
    return EarlyStopping(rule.kind, rule.score, float(rule.target), *measured, n_queries, complete, reason)


def first_rows(benchmark: _B, rounds: int) -> _B:
    """Return a benchmark with the test rows of the first rounds only.

    Args:
        benchmark: The benchmark.
        rounds: Number of rounds.
    """
    restricted = [own.restricted_to(row_order(own)[:rounds]) for own in benchmark.experimentor]
    return benchmark.copy_with(experimentor=restricted)


def marked(result: Result, stopping: EarlyStopping) -> Result:
    """Record in a result, and in its signature, that the run stopped early.

    Args:
        result: The result, which is changed.
        stopping: The record.
    """
    result.stopping = stopping
    result.signature = Signature({**result.signature.fields, "stopping": stopping.settings})
    return result


def run_early(
    benchmark: BaseBenchmark[Experimentor],
    rule: StoppingRule,
    models: Sequence[Sequence[Inference]],
    settings: EarlySettings,
) -> tuple[RunContext, list[Result]]:
    """Run a benchmark until the rule stops.

    Args:
        benchmark: The benchmark.
        rule: When to stop.
        models: For each model, the inference function of each data set.
        settings: Those of the run.

    Returns:
        The context of the run, and the result of each model.

    Raises:
        ArgumentError: The run collects failed queries, or passes complete lists of prompts.
        OutputError: A query has no usable prediction.
    """
    name, unparsed = benchmark.benchmark_name, benchmark[0].unparsed
    batched, keep_outputs, with_divided, run = settings
    answers: list[_Answers] = [{} for _ in models]
    with RunContext(batched, **run) as context:
        context.start([function for functions in models for function in functions])
        for got, refused in (
            ("preentered_prediction", None in models[0]),
            (f"unparsed={unparsed!r}", unparsed != "error"),
            ("batched_inference=True", batched),
            ("on_error='collect'", context.options_for(None).on_error != "raise"),
        ):
            if refused:
                raise ArgumentError(
                    f"early stopping needs a function and a label per reply, query by query: got {got}. Leave it out"
                )
        context.log(*benchmark.data_warnings())
        looks = -(-max(experimentor.row_count for experimentor in benchmark) // LOOK)

        def predict(look: range, places: list[tuple[int, Query]]) -> None:
            for model, functions in enumerate(models):
                which = f", model {model + 1}" if len(models) > 1 else ""
                part = Part(f"{name}{which}, rounds {look[0] + 1} to {look[-1] + 1}", look[0] // LOOK, looks)
                for function in {id(function): function for function in functions}.values():  # a call for all its sets
                    own = [(number, query) for number, query in places if functions[number] is function]
                    options = context.options_for(function)
                    predictions = predict_queries(function, [query for _, query in own], part, options)
                    answers[model].update(zip(own, predictions, strict=True))
            context.checkpoint()

        stopping = decide(rule, benchmark.experimentor, answers, predict)
    finished = first_rows(benchmark, stopping.rounds)
    written = [(own, own.conditions()) for own in finished]
    results = []
    for functions, known in zip(models, answers, strict=True):
        runs: dict[str, DatasetRun] = {}
        for number, (own, conditions) in enumerate(written):
            given = [known[number, query] for condition in conditions for query in condition.queries]
            scored = own.assemble(conditions, given, f"{name}, {own.name}")
            queries = [query for condition in conditions for query in condition.queries]
            runs[own.name] = with_model_warnings(scored, functions[number], queries, given)
            context.log(*dataset_warnings(own.name, runs[own.name]))
        predictions = context.predictions(dict(zip(runs, functions, strict=True)))
        result = finished.collect(runs, predictions, keep_outputs, with_divided)
        results.append(marked(result, stopping))
    return context, results


def replay(saved: EarlyStopping, experimentors: Sequence[Experimentor], runs: Sequence[RunsByDataset]) -> EarlyStopping:
    """Return the record that follows from the predictions of a run.

    Args:
        saved: The record of the run, for its rule.
        experimentors: The data sets of the full benchmark.
        runs: For each model, its run over each data set.

    Raises:
        ArgumentError: The rule goes on after the last evaluated row, or its settings are impossible.
    """
    rule = StoppingRule.for_experimentors(cast("StoppingKind", saved.rule), saved.target, saved.score, experimentors)
    answers = [
        {
            (number, query): answer
            for number, experimentor in enumerate(experimentors)
            for outcome in of_model[experimentor.name].outcomes
            for query, answer in zip(outcome.condition.queries, outcome.answers, strict=True)
            if not isinstance(answer, Failure)
        }
        for of_model in runs
    ]
    try:
        return decide(rule, experimentors, answers)
    except KeyError as error:
        raise ArgumentError("by its rule the run goes on, but further rows have no prediction") from error


def race(
    benchmark: BaseBenchmark[Experimentor],
    first: Sequence[Inference] | Inference,
    second: Sequence[Inference] | Inference,
    margin: float = 0.02,
    score: str | None = None,
    return_outputs: bool = False,
    **run: Unpack[RunSettings],
) -> ResultGroup:
    """Return the results of two models on the rows that were needed to decide between them.

    Args:
        benchmark: A benchmark whose score is a mean over test rows, such as ``Normal()``.
        first: An inference function, or one for each data set.
        second: The other.
        margin: Stop also when the difference is certainly smaller than this.
        score: ``"accuracy"`` (the default) or ``"likelihood"``.
        return_outputs: Keep the prediction of each query in the results' ``outputs``.
        **run: Store, executor, progress; see :class:`~StaICC.benchmarks.context.RunSettings`.

    Returns:
        The results ``"first"`` and ``"second"``. The ``stopping`` of both has the difference, its interval and the
        decision.

    Raises:
        ArgumentError: An argument is invalid, or failed queries are collected.
        OutputError: A query has no usable prediction.

    Example:
        >>> from StaICC import Normal, load_dataset
        >>> rows = {" ".join(row.texts): row.label for row in load_dataset("mini").table}
        >>> def good(prompt, label_space):
        ...     return next(label for text, label in rows.items() if text in prompt.splitlines()[-2])
        >>> def poor(prompt, label_space):
        ...     return 0
        >>> results = race(Normal(datasets=["mini"]), good, poor)
        >>> results["first"].stopping.reason
        'the first model is better'
    """
    if not isinstance(benchmark, BaseBenchmark):
        raise ArgumentError(f"benchmark: got {benchmark!r:.60}, expected a single benchmark such as Normal()")
    models = [benchmark.functions_for_datasets(first), benchmark.functions_for_datasets(second)]
    rule = StoppingRule.for_experimentors("race", margin, score, benchmark.experimentor)
    context, results = run_early(benchmark, rule, models, (False, return_outputs, True, run))
    return context.deliver(ResultGroup(RACE.name, dict(zip(("first", "second"), results, strict=True))))
