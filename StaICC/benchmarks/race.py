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
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar, cast

from StaICC.argument_syntax import argument
from StaICC.arguments import known_name
from StaICC.benchmarks.base_experimentor import queries_of_conditions
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
from StaICC.metrics.equivalence import interval_shows_equivalence
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

_ROUNDING_ERROR = 1e-9
"""A difference of two models that is not larger than this may be due to rounding, so it counts as 0."""
LIKELIHOOD = "averaged_truelabel_likelihood"
"""The score that users call ``"likelihood"``."""

RACE = Sweep("Race", lambda part, result: part in ("first", "second") and result.stopping is not None, ("scoring",))
"""The results of a race between two models (:func:`race`)."""

StoppingKind = Literal["precision", "race"]

_NumberedQuery = tuple[int, Query]
"""A query with the number of its data set: its position among the data sets of the benchmark, from 0."""
_Answers = dict[_NumberedQuery, Answer | Failure]
"""The predictions of one model, by the number of the data set and the query."""


# -- when to stop


class BoundGaps(NamedTuple):
    """The distances from the mean to the bounds of a confidence sequence that would end the run."""

    lower: float
    upper: float


@dataclass(frozen=True, slots=True)
class StoppingRule:
    """The rule by which a run or a race stops.

    A run stops when half the width of the interval of its score is at most the target. A race stops when one model is
    better, or when the models are equivalent within the target as margin.

    Raises:
        ArgumentError: The target is out of range.
    """

    kind: StoppingKind
    score: str
    """The key of the score."""
    target: float
    """The precision of a run, or the margin of a race."""
    level: float
    """Nominal coverage of the interval."""

    def __post_init__(self) -> None:
        """Check the target: half a width is below 0.5 and a margin below 1, because scores are between 0 and 1."""
        if self.kind == "precision":
            name, largest = "precision", 0.5
        else:
            name, largest = "margin", 1.0
        is_number = isinstance(self.target, (int, float)) and not isinstance(self.target, bool)
        if not is_number or not 0 < self.target < largest:
            raise ArgumentError(f"wrong {name}: got {self.target!r}, expected a number between 0 and {largest:g}")

    @classmethod
    def for_experimentors(
        cls, kind: StoppingKind, target: Any, score: str | None, experimentors: Sequence[Experimentor]
    ) -> StoppingRule:
        """Return the stopping rule for a benchmark, after a check that the benchmark allows it.

        Args:
            kind: ``"precision"`` for a run, ``"race"`` for a race.
            target: The precision, or the margin.
            score: Name of the score; accuracy by default.
            experimentors: The data sets of the benchmark.

        Raises:
            ArgumentError: The score cannot be stopped early with these settings.
            UnknownNameError: The score is not a mean over test rows.
        """
        first = experimentors[0]
        if not first.row_scores:
            raise ArgumentError(f"early stopping needs scores that are means over test rows: got {first!r}")
        name = known_name(
            "score for early stopping",
            score or "accuracy",
            (*first.row_scores, "likelihood"),
            "Early stopping needs a mean over test rows; macro F1 and calibration errors are none.",
        )
        if name == "likelihood":
            name = LIKELIHOOD
        for experimentor in experimentors:
            _check_settings(experimentor, name)
        return cls(kind, name, target, first.statistics.level)

    def gaps(self, sequence: ConfidenceSequence) -> BoundGaps:
        """Return the distances for which the next bets are chosen: from the mean to its lower, and to its upper bound.

        A bet is a parameter of the confidence sequence, which is valid with any bets. The best bets depend on where a
        bound must be to end the run:

        * For a run, both distances are the precision.
        * For a race, both are the margin. If a model leads by more than the margin plus a standard error, a bound that
          excludes 0 ends the race. The distance to this bound is then the lead minus a standard error.

        For example, with a margin of 0.02, an estimate of 0.10 and a standard error of 0.03, they are 0.07 and 0.02.

        Args:
            sequence: The confidence sequence so far.
        """
        if self.kind == "precision":
            return BoundGaps(lower=self.target, upper=self.target)
        estimate = sequence.estimate
        error = sequence.standard_error
        return BoundGaps(lower=max(self.target, estimate - error), upper=max(self.target, -estimate - error))

    def reason(self, sequence: ConfidenceSequence) -> str | None:
        """Return the reason to stop now, in words; ``None`` if the run goes on.

        The confidence sequence has an interval of the score. In a race, it is that of the score of the first model
        minus the score of the second.

        1. A race stops if this interval does not contain 0, or if it is within the margin.
        2. A run and a race stop if all test rows are evaluated.
        3. A run stops if half the width of the interval is at most the precision.

        Args:
            sequence: The confidence sequence so far.
        """
        low, high = sequence.interval
        if self.kind == "race":
            margin = self.target
            if low > _ROUNDING_ERROR:
                return "the first model is better"
            if high < -_ROUNDING_ERROR:
                return "the second model is better"
            if interval_shows_equivalence(low, high, margin):
                return f"the models are equivalent within the margin of {margin:g}"

        all_rows_are_evaluated = sequence.rounds == sequence.all_rounds
        if all_rows_are_evaluated:
            return "all rows are evaluated"

        if self.kind == "precision":
            precision = self.target
            half_width = (high - low) / 2
            if half_width <= precision:
                return f"the precision of {precision:g} is reached"
        return None


def _check_settings(experimentor: Experimentor, score: str) -> None:
    """Raise an error if a run over a data set with these settings cannot stop early by a score.

    Args:
        experimentor: The data set.
        score: The key of the score.

    Raises:
        ArgumentError: The score is not a standard metric. Or it needs label scores, and the predictions of all rows
            must be known to read these. Or its baseline is the best of several settings.
    """
    is_known = any(metric.name == score and metric.known for metric in experimentor.metric_set.metrics)
    if not is_known:
        raise ArgumentError(f"early stopping needs the standard metric {score}. Use metrics='standard'")
    if score == LIKELIHOOD and experimentor.outputs == "auto":
        raise ArgumentError(
            f"early stopping by likelihood: got {argument('outputs', 'auto')}, which needs the scores of all rows. Say "
            f"what the model returns: {argument('outputs', 'probabilities')} or {argument('outputs', 'logits')}"
        )
    tried = experimentor.statistics.tried
    if tried > 1:
        raise ArgumentError(f"early stopping has no baseline of several settings: got tried={tried}, expected 1")


# -- the order of the rows, and what is evaluated in it


def row_order(experimentor: Experimentor) -> list[int]:
    """Return the test rows of a data set in the order in which they are evaluated.

    The order is pseudo-random. It is a function of the name and the table of the data set only, so it is the same for
    all models. It depends on the name because the proof of the confidence sequence needs independent orders: two data
    sets may have equal rows, such as the same texts with two templates.

    Args:
        experimentor: The data set.
    """
    seed = f"early stopping\0{experimentor.name}\0{experimentor.dataset.table.digest}"

    def digest(row: int) -> bytes:
        """Return the key by which a row is sorted: a pseudo-random number."""
        return hashlib.sha256(f"{seed}\0{row}".encode("utf-8", "surrogatepass")).digest()

    return sorted(range(experimentor.row_count), key=digest)


@dataclass(frozen=True, slots=True)
class _Rounds:
    """The queries of a benchmark by round. A round is one test row of each data set that has rows left."""

    sizes: Sequence[int]
    """The number of test rows of each data set."""
    queries: Mapping[tuple[int, int], Sequence[Query]]
    """The queries of each test row, by the number of the data set and the round of the row. A row that the benchmark
    does not evaluate, because it was restricted to the first rounds, is left out."""

    @classmethod
    def of(cls, experimentors: Sequence[Experimentor]) -> _Rounds:
        """Return the queries of all test rows, by data set and round.

        Args:
            experimentors: The data sets of the benchmark.
        """
        sizes = []
        queries: dict[tuple[int, int], list[Query]] = {}
        for dataset, experimentor in enumerate(experimentors):
            sizes.append(experimentor.row_count)
            round_of_row = {row: round_number for round_number, row in enumerate(row_order(experimentor))}
            for query in experimentor.all_queries():
                queries.setdefault((dataset, round_of_row[query.row]), []).append(query)
        return cls(sizes, queries)

    def queries_of_look(self, look: range) -> list[_NumberedQuery]:
        """Return the queries of a look, data set by data set, each with the number of its data set.

        Args:
            look: The numbers of the rounds between two decisions whether to go on, such as ``range(8, 16)``.
        """
        queries = []
        for dataset in range(len(self.sizes)):
            for round_number in look:
                queries_of_row = self.queries.get((dataset, round_number), ())
                queries += [(dataset, query) for query in queries_of_row]
        return queries

    def query_count(self, rounds: int) -> int:
        """Return the number of queries in the first rounds, over all data sets.

        Args:
            rounds: The number of rounds.
        """
        count = 0
        for (_dataset, round_number), queries_of_row in self.queries.items():
            if round_number < rounds:
                count += len(queries_of_row)
        return count


def first_rows(benchmark: _B, rounds: int) -> _B:
    """Return a copy of a benchmark with the test rows of the first rounds only.

    Args:
        benchmark: The full benchmark.
        rounds: The number of rounds, which is the largest number of test rows of a data set.
    """
    restricted = []
    for experimentor in benchmark.experimentor:
        restricted.append(experimentor.restricted_to(row_order(experimentor)[:rounds]))
    return benchmark.copy_with(experimentor=restricted)


# -- the decision


class Stopped(NamedTuple):
    """The end of an evaluation that a rule stopped."""

    sequence: ConfidenceSequence
    """The confidence sequence with the values of all evaluated rounds."""
    reason: str
    """Why the rule stopped."""


def follow(
    rule: StoppingRule, sizes: Sequence[int], evaluate: Callable[[range], Iterable[Sequence[float | None]]]
) -> Stopped:
    """Evaluate test rows round by round until the rule stops.

    The rule decides after each look: after every :data:`LOOK` rounds.

    Args:
        rule: The rule.
        sizes: The number of test rows of each data set.
        evaluate: Takes the numbers of the rounds of a look. Returns for each round one value for each data set. The
            value is the score of the row; in a race, it is the score of the first model minus that of the second.
            ``None`` means that the data set has no more rows.
    """
    smallest_value = -1.0  # of the difference of two scores
    if rule.kind == "precision":
        smallest_value = 0.0
    sequence = ConfidenceSequence(sizes, rule.level, smallest_value)
    while True:
        end_of_look = min(sequence.rounds + LOOK, sequence.all_rounds)
        for values in evaluate(range(sequence.rounds, end_of_look)):
            gaps = rule.gaps(sequence)
            sequence.update(values, gaps.lower, gaps.upper)
        reason = rule.reason(sequence)
        if reason is not None:
            return Stopped(sequence, reason)


def decide(
    rule: StoppingRule,
    experimentors: Sequence[Experimentor],
    answers: Sequence[_Answers],
    before_look: Callable[[range, list[_NumberedQuery]], None],
) -> EarlyStopping:
    """Return the record of the decision to stop: its reason, and the estimate of the score with its interval.

    The rule is followed look by look over the predictions of one model, or of the two models of a race. A look is
    :data:`LOOK` rounds, and a round is one test row of each data set.

    Args:
        rule: When to stop.
        experimentors: The data sets of the full benchmark.
        answers: The predictions of each model so far. ``before_look`` adds those of the next look.
        before_look: Called with the rounds of each look and their queries, before they are scored. It must add the
            predictions of these queries to ``answers``, or raise an error if there are none.

    Raises:
        OutputError: The score needs label scores, and a prediction is a label.
    """
    rounds = _Rounds.of(experimentors)

    def evaluate(look: range) -> Iterator[list[float | None]]:
        """Yield the scores of each round of a look, after ``before_look`` has added its predictions to ``answers``."""
        before_look(look, rounds.queries_of_look(look))
        for round_number in look:
            yield _round_scores(rule, experimentors, rounds, round_number, answers)

    sequence, reason = follow(rule, rounds.sizes, evaluate)
    low, high = sequence.interval
    return EarlyStopping(
        rule=rule.kind,
        score=rule.score,
        target=float(rule.target),
        estimate=sequence.estimate,
        interval=Interval(low, high, rule.level, f"confidence sequence {CONFIDENCE_SEQUENCE_VERSION}"),
        rounds=sequence.rounds,
        all_rounds=sequence.all_rounds,
        queries=rounds.query_count(sequence.rounds),
        all_queries=_count_all_queries(experimentors),
        reason=reason,
    )


def _count_all_queries(experimentors: Sequence[Experimentor]) -> int:
    """Return the number of queries of the full benchmark, also of those that were not evaluated."""
    return sum(experimentor.row_count * experimentor.get_repeat_times() for experimentor in experimentors)


def _round_scores(
    rule: StoppingRule,
    experimentors: Sequence[Experimentor],
    rounds: _Rounds,
    round_number: int,
    answers: Sequence[_Answers],
) -> list[float | None]:
    """Return for each data set the score of its test row of a round; ``None`` if it has no more rows.

    Args:
        rule: The rule, which names the score.
        experimentors: The data sets.
        rounds: The queries of each data set and round. A round is one test row of each data set.
        round_number: The number of the round, from 0.
        answers: The predictions of each model.

    Raises:
        OutputError: The score needs label scores, and a prediction is a label.
    """
    scores: list[float | None] = []
    for dataset, row_count in enumerate(rounds.sizes):
        if round_number < row_count:
            queries_of_row = rounds.queries[dataset, round_number]
            scores.append(_row_score(rule, experimentors[dataset], dataset, queries_of_row, answers))
        else:
            scores.append(None)
    return scores


def _row_score(
    rule: StoppingRule, experimentor: Experimentor, dataset: int, queries: Sequence[Query], answers: Sequence[_Answers]
) -> float:
    """Return the score of a test row: the mean over its queries.

    In a race, it is the score of the first model minus that of the second, so it is positive if the first is better.

    Args:
        rule: The rule, which names the score.
        experimentor: The data set.
        dataset: The number of the data set, which is in the keys of ``answers``.
        queries: The queries of the row.
        answers: The predictions of each model.

    Raises:
        OutputError: The score needs label scores, and a prediction is a label.
    """
    statistic = STATISTICS[rule.score]
    scores = []
    for answers_of_model in answers:
        predicted = [answers_of_model[dataset, query] for query in queries]
        outcome = Outcome(Condition("row", queries), predicted, experimentor.outputs)
        predictions = outcome.read(statistic)
        if predictions is None:
            raise OutputError("labels have no likelihood: got a label, expected one score for each label")
        scores.append(statistic.value(outcome.sample, predictions))
    if len(scores) == 1:
        return scores[0]
    first_score, second_score = scores
    return first_score - second_score


# -- running until the decision


def run_early(
    benchmark: BaseBenchmark[Experimentor],
    rule: StoppingRule,
    models: Sequence[Sequence[Inference]],
    settings: EarlySettings,
) -> tuple[RunContext, list[Result]]:
    """Run a benchmark with one model, or with the two of a race, until the rule stops.

    Args:
        benchmark: The benchmark.
        rule: When to stop.
        models: For each model, the inference function of each data set.
        settings: The settings of the run.

    Returns:
        The context of the run, and the result of each model. A result has the scores of the evaluated rows only.

    Raises:
        ArgumentError: The run collects failed queries, or passes complete lists of prompts.
        OutputError: A query has no usable prediction.
    """
    # The predictions of each model so far. decide() calls predict() before each look, which adds those of the look.
    answers: list[_Answers] = [{} for _ in models]
    with RunContext(settings.batched, **settings.run) as context:
        context.start(chain.from_iterable(models))
        run_options = context.options_for(None)  # those that do not depend on an inference function
        _refuse_settings(benchmark, models, settings, on_error=run_options.on_error)
        context.log(*benchmark.data_warnings())

        def predict(look: range, queries: list[_NumberedQuery]) -> None:
            """Predict the queries of a look with each model, and add the predictions to ``answers``."""
            for number, functions in enumerate(models):
                name = benchmark.benchmark_name
                if len(models) > 1:
                    name = f"{name}, model {number + 1}"
                part = _part_of_look(name, benchmark, look)
                answers[number].update(_predictions_of_look(functions, queries, part, context))
            context.checkpoint()

        stopping = decide(rule, benchmark.experimentor, answers, before_look=predict)

    # From here on as in a complete run, but for a benchmark with the test rows that were evaluated.
    evaluated = first_rows(benchmark, stopping.rounds)
    conditions = [experimentor.conditions() for experimentor in evaluated]
    results = []
    for functions, answers_of_model in zip(models, answers, strict=True):
        runs = _scored(evaluated, conditions, functions, answers_of_model)
        for dataset, run in runs.items():
            context.log(*dataset_warnings(dataset, run))
        function_by_dataset = dict(
            zip(runs, functions, strict=True)
        )  # runs and functions are in the order of data sets
        predictions = context.predictions(function_by_dataset)
        result = evaluated.collect(runs, predictions, keep_outputs=settings.keep_outputs, divided=settings.divided)
        results.append(marked(result, stopping))  # with the decision to stop, and its mark in the signature
    return context, results


def _refuse_settings(
    benchmark: BaseBenchmark[Experimentor],
    models: Sequence[Sequence[Inference]],
    settings: EarlySettings,
    on_error: str,
) -> None:
    """Raise an error for settings that do not go with early stopping.

    Early stopping needs one prediction for each evaluated query, computed for this query alone.

    Args:
        benchmark: The benchmark.
        models: For each model, the inference function of each data set; ``None`` if its predictions are given.
        settings: The settings of the run.
        on_error: ``"raise"``, or ``"collect"`` for a run that goes on after a failed query.

    Raises:
        ArgumentError: Predictions are given, made for complete lists of prompts, or may be missing.
    """
    unparsed = benchmark[0].unparsed
    if None in models[0]:
        refused = "preentered_prediction"
    elif unparsed != "error":
        refused = f"unparsed={unparsed!r}"
    elif settings.batched:
        refused = "batched_inference=True"
    elif on_error != "raise":
        refused = "on_error='collect'"
    else:
        return
    raise ArgumentError(
        f"early stopping needs a function and a label per reply, query by query: got {refused}. Leave it out"
    )


def _part_of_look(name: str, benchmark: BaseBenchmark[Experimentor], look: range) -> Part:
    """Return the name and the number of a look among all looks, for messages and progress.

    Args:
        name: The name of the run.
        benchmark: The benchmark.
        look: The numbers of the rounds of the look.
    """
    most_rows = max(experimentor.row_count for experimentor in benchmark)
    return Part(
        f"{name}, rounds {look[0] + 1} to {look[-1] + 1}", number=look[0] // LOOK, parts=math.ceil(most_rows / LOOK)
    )


def _predictions_of_look(
    functions: Sequence[Inference], queries: Sequence[_NumberedQuery], part: Part, context: RunContext
) -> _Answers:
    """Return the predictions of a model for the queries of a look.

    If several data sets have the same inference function, it gets their queries in one call.

    Args:
        functions: The inference function of each data set.
        queries: The queries, with the number of their data set.
        part: The part of the run.
        context: The run.
    """
    answers: _Answers = {}
    distinct_functions = {id(function): function for function in functions}
    for function in distinct_functions.values():
        keys = []
        queries_of_function = []
        for dataset, query in queries:
            if functions[dataset] is function:
                keys.append((dataset, query))
                queries_of_function.append(query)
        predictions = predict_queries(function, queries_of_function, part, context.options_for(function))
        answers.update(zip(keys, predictions, strict=True))
    return answers


def _scored(
    benchmark: BaseBenchmark[Experimentor],
    conditions: Sequence[Sequence[Condition]],
    functions: Sequence[Inference],
    answers: _Answers,
) -> dict[str, DatasetRun]:
    """Return the scored run of a model over the evaluated rows of each data set, by name.

    Args:
        benchmark: The benchmark with the evaluated rows only.
        conditions: The conditions of each data set.
        functions: The inference function of each data set.
        answers: The predictions of the model.
    """
    runs = {}
    for dataset, experimentor in enumerate(benchmark):
        queries = list(queries_of_conditions(conditions[dataset]))
        answers_of_dataset = [answers[dataset, query] for query in queries]
        run = experimentor.assemble(
            conditions[dataset], answers_of_dataset, f"{benchmark.benchmark_name}, {experimentor.name}"
        )
        runs[experimentor.name] = with_model_warnings(run, functions[dataset], queries, answers_of_dataset)
    return runs


def marked(result: Result, stopping: EarlyStopping) -> Result:
    """Return a result after the decision to stop early was added to it and to its signature.

    Args:
        result: The result, which is changed in place.
        stopping: The record of the decision.
    """
    result.stopping = stopping
    result.signature = Signature({**result.signature.fields, "stopping": stopping.settings})
    return result


def replay(saved: EarlyStopping, experimentors: Sequence[Experimentor], runs: Sequence[RunsByDataset]) -> EarlyStopping:
    """Return the decision to stop, computed again from the recorded predictions of a run.

    The saved rule is followed from the first row on, without a call of a model. Verification compares the returned
    decision with the saved one.

    Args:
        saved: The saved decision. Only its rule is used: kind, target and score.
        experimentors: The data sets of the full benchmark.
        runs: For each model, its run over each data set.

    Raises:
        ArgumentError: The rule does not stop where the run stopped, so it needs a row that has no prediction. Or the
            rule is impossible for this benchmark.
    """
    rule = StoppingRule.for_experimentors(cast("StoppingKind", saved.rule), saved.target, saved.score, experimentors)
    answers = [_recorded_answers(experimentors, runs_of_model) for runs_of_model in runs]

    def check_predicted(_look: range, queries: list[_NumberedQuery]) -> None:
        """Raise an error if a model has no recorded prediction for a query of the next look."""
        for answers_of_model in answers:
            if any(query not in answers_of_model for query in queries):
                raise ArgumentError("by its rule the run goes on, but further rows have no prediction")

    return decide(rule, experimentors, answers, before_look=check_predicted)


def _recorded_answers(experimentors: Sequence[Experimentor], runs: RunsByDataset) -> _Answers:
    """Return the recorded predictions of one model by data set and query. Failed queries are left out.

    Args:
        experimentors: The data sets of the full benchmark.
        runs: The run over each data set, by name.
    """
    answers: _Answers = {}
    for dataset, experimentor in enumerate(experimentors):
        for outcome in runs[experimentor.name].outcomes:
            for query, answer in zip(outcome.condition.queries, outcome.answers, strict=True):
                if not isinstance(answer, Failure):
                    answers[dataset, query] = answer
    return answers


def race(
    benchmark: BaseBenchmark[Experimentor],
    first: Sequence[Inference] | Inference,
    second: Sequence[Inference] | Inference,
    margin: float = 0.02,
    score: str | None = None,
    return_outputs: bool = False,
    **run: Unpack[RunSettings],
) -> ResultGroup:
    """Run two models on the same rows until one is better, or their difference is certainly small.

    Args:
        benchmark: A benchmark whose score is a mean over test rows, such as ``Normal()``.
        first: An inference function, or one for each data set.
        second: The second model, in the same form.
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
    settings = EarlySettings(batched=False, keep_outputs=return_outputs, divided=True, run=run)
    context, (first_result, second_result) = run_early(benchmark, rule, models, settings)
    return context.deliver(ResultGroup(RACE.name, {"first": first_result, "second": second_result}))
