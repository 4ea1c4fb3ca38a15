"""How the predictions of a data set of LongICL become scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from StaICC import benchmark_names
from StaICC.benchmarks.score_intervals import Intervals
from StaICC.benchmarks.task import Answers, Assumed, Condition, Scorer, Scores, Scoring
from StaICC.long_icl.condition_scores import METHOD, score_part
from StaICC.long_icl.nearest_baseline import NearestBaseline
from StaICC.long_icl.options import LongICLOptions
from StaICC.long_icl.outcome import LongICLOutcome
from StaICC.long_icl.queries import LongICLQueries
from StaICC.long_icl.scoring import guessing_scores
from StaICC.metrics.classification import Kind
from StaICC.metrics.fixed_baselines import CorrectPredictions, p_value_against_labels
from StaICC.metrics.intervals import combine
from StaICC.metrics.random_baselines import RandomBaseline
from StaICC.metrics.statistics import Sample
from StaICC.numerics import mean
from StaICC.results.details import Baselines


class LongICLTask(Scorer):
    """Scores the predictions of a data set: a score for each round or condition, their mean, and guessing.

    Args:
        queries: The queries of the data set.
        options: The options of the run.

    Attributes:
        guessing: The scores of guessing (:func:`~StaICC.long_icl.scoring.guessing_scores`).
    """

    name: ClassVar[str] = benchmark_names.LONG_ICL
    no_mean: ClassVar[str] = "the conditions of an experiment have no common mean: each answers another question"
    """Why conditions that are no rounds have no mean."""
    free_text = True
    scores_accuracy = True

    def __init__(self, queries: LongICLQueries, options: LongICLOptions) -> None:
        self._queries = queries
        self._options = options
        self.guessing = guessing_scores(queries.card, queries.test_items)
        self._nearest_scores: Mapping[int | str, float | None] | None = None

    @property
    def _is_experiment(self) -> bool:
        """Whether the conditions are those of an experiment, which have no common mean."""
        return self._options.experiment is not None

    def read_outcome(self, condition: Condition, answers: Answers, outputs: Kind, assume: Assumed) -> LongICLOutcome:
        """Return the outcome of a condition."""
        return LongICLOutcome(self._queries, self._options, condition, answers, assume)

    def score(self, outcomes: Sequence[Any], scoring: Scoring) -> Scores:
        """Return the scores of all conditions, their mean, and the scores of guessing."""
        values: dict[str, float | None] = {}
        missing: dict[str, str] = {}
        for outcome in outcomes:
            values[outcome.condition.name] = outcome.value
            if outcome.value is None:
                missing[outcome.condition.name] = outcome.note

        overall = None
        if self._is_experiment:
            missing["mean"] = self.no_mean
        elif missing:
            missing["mean"] = f"no score in {', '.join(missing)}"
        else:
            overall = mean(list(values.values()))

        for name, reason in self._queries.unavailable.items():
            values[name] = None
            missing[name] = reason
        values["mean"] = overall
        values["uniform"] = self.guessing.uniform
        values["majority"] = self.guessing.majority
        for name in ("uniform", "majority"):
            if values[name] is None:
                missing[name] = "a random guess of entities is not defined"
        # Of an experiment, each condition has its own baseline of the nearest demonstration.
        if not self._is_experiment:
            values["nearest"] = self._mean_nearest_score()
            if values["nearest"] is None:
                missing["nearest"] = "demonstrations have several labels"
        return Scores(values, values, missing)

    @property
    def nearest_scores(self) -> Mapping[int | str, float | None]:
        """For each round the score of the baseline ``nearest`` (:mod:`StaICC.long_icl.nearest_baseline`)."""
        if self._nearest_scores is None:
            baseline = NearestBaseline(self._queries.card, self._queries.test_items)
            nearest_scores = {}
            for number, contexts in self._queries.contexts.items():
                nearest_scores[number] = baseline.score(contexts)
            self._nearest_scores = nearest_scores
        return self._nearest_scores

    def _mean_nearest_score(self) -> float | None:
        """Return the mean of the baseline ``nearest`` over the rounds; ``None`` if it is undefined."""
        scores = [score for score in self.nearest_scores.values() if score is not None]
        if not scores:
            return None
        return mean(scores)

    def intervals(self, outcomes: Sequence[Any], scoring: Scoring) -> Intervals:
        """Return the intervals of the rounds and of their mean, with the row as the unit."""
        level = scoring.statistics.level
        rows = [item.row for item in self._queries.test_items]
        terms = {}
        for outcome in outcomes:
            if outcome.score is None:
                continue
            term = score_part(self._queries.card, outcome.tallies, level, rows)
            if term is not None:
                terms[outcome.condition.name] = term
        if len(terms) == len(outcomes) and not self._is_experiment:
            equal_weights = [1 / len(terms)] * len(terms)
            terms["mean"] = combine(list(terms.values()), equal_weights)
        return {name: term.interval(level, f"{METHOD}item") for name, term in terms.items()}

    def baselines(self, outcome: LongICLOutcome) -> Baselines:
        """Return the accuracies of predictors without a model, and the p-values against them, for a scored round.

        They are those of all test items: a reply that is left out counts as wrong.
        """
        items = self._queries.test_items
        label_count = len(self._queries.card.labels)
        tried = self._options.statistics.tried
        is_correct = [tally is not None and len(tally.correct) > 0 for tally in outcome.tallies]

        # HELMET may test a row twice: both queries are of one row, and count as one guess.
        row_numbers: dict[int, int] = {}
        correct_by_row: dict[int, bool] = {}
        for item, item_is_correct in zip(items, is_correct, strict=True):
            row_numbers.setdefault(item.row, len(row_numbers))
            correct_by_row[item.row] = item_is_correct
        row_count = len(row_numbers)

        guesser = RandomBaseline(row_count, 1 / label_count)
        sample = Sample(
            truth=[0] * len(items),  # not used: which predictions are correct is known
            rows=[row_numbers[item.row] for item in items],
            n_rows=row_count,
            n_labels=label_count,
        )
        majority_is_correct = [self.guessing.majority_label in item.gold for item in items]
        majority_comparison = CorrectPredictions(sample, is_correct, majority_is_correct)
        return Baselines(
            queries=row_count,
            labels=label_count,
            uniform=1 / label_count,
            majority=self.guessing.majority or 0.0,
            tried=tried,
            max_random=guesser.max_random_baseline(tried),
            p_value=guesser.p_value_of_count(sum(correct_by_row.values()), tried),
            p_value_majority=p_value_against_labels([majority_comparison], tried),
        )
