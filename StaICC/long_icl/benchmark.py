"""The LongICL benchmark: six data sets, one to five rounds each, or the conditions of an experiment.

:class:`LongICL` loads the available data sets, evaluates an inference function round by round, and returns a
:class:`~StaICC.results.result.Result`. It passes all queries of a round together, so a kernel or server with prefix
caching computes the context once. A :class:`LongICLExperimentor` writes the queries of a data set, in order. It has no
state: every call returns the same queries. Its predictions are scored by
:func:`~StaICC.benchmarks.evaluation.evaluate`, like those of all tasks: a :class:`LongICLOutcome` is a round with its
predictions, parsed.

A failed query has a :class:`~StaICC.inference.replies.Failure` with the reason as its prediction. It is never scored as
a wrong prediction: the score of its round is undefined, and the record says why. If a prompt exceeds the context length
of the model, the run continues with the next round, also with ``on_error="raise"``.

The scores of a data set are ``1R`` to ``5R``, their ``mean``, the baselines ``uniform`` and ``majority``, and the
``metric``; under ``rounds``, for each round: counts, precision and recall (for F1), and counts for each label; under
``experiment``, what the conditions of an experiment show; under ``settings``, the options, and the digests of the files
and of each round's prompts.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Literal, get_args

from StaICC import benchmark_names
from StaICC.arguments import known_name, validate_integer
from StaICC.benchmarks.context import Predictions
from StaICC.benchmarks.evaluation import DatasetRun, evaluate
from StaICC.benchmarks.forecast import forecast
from StaICC.benchmarks.rebuilding import refuse_unknown_arguments
from StaICC.benchmarks.records import reply_record
from StaICC.benchmarks.result_warnings import (
    answers_by_key,
    log_dataset_warnings,
    log_prompt_warnings,
    with_model_warnings,
)
from StaICC.benchmarks.running import BaseBenchmark, DatasetTask
from StaICC.benchmarks.score_intervals import Intervals
from StaICC.benchmarks.task import Assumed, Condition, Outcome, Scorer, Scores, Scoring, Statistics
from StaICC.datasets.dataset import Dataset
from StaICC.errors import ArgumentError, DataMissingError, OutputError, PromptTooLongError
from StaICC.inference.contract import Answer, Inference, dropped_demonstrations, own_attribute
from StaICC.inference.forecast import forecast_prompts
from StaICC.inference.replies import Failure, Unparsed, alike, unparsed_reason
from StaICC.inference.reply_parser import PARSER_VERSION
from StaICC.inference.runner import Part, RunOptions, predict_queries
from StaICC.long_icl.analysis import analyse
from StaICC.long_icl.available import load_available
from StaICC.long_icl.cards import ROUNDS, cards
from StaICC.long_icl.condition_scores import METHOD, score_part
from StaICC.long_icl.contexts import Contexts
from StaICC.long_icl.experiments import DESIGNS, Experiment
from StaICC.long_icl.install import default_folder
from StaICC.long_icl.loading import LongICLData, show_notice
from StaICC.long_icl.material import Material
from StaICC.long_icl.nearest_baseline import nearest_score
from StaICC.long_icl.parsing import PARSINGS
from StaICC.long_icl.prompts import write_query
from StaICC.long_icl.reference_tokens import to_bytes
from StaICC.long_icl.scoring import (
    Tally,
    guessing_scores,
    label_counts,
    score_tallies,
    scored,
    tally_prediction,
    value_of,
)
from StaICC.metrics.classification import Kind
from StaICC.metrics.fixed_baselines import CorrectPredictions, p_value_against_labels
from StaICC.metrics.intervals import combine
from StaICC.metrics.metric_set import MetricSet
from StaICC.metrics.random_baselines import RandomBaseline
from StaICC.metrics.statistics import Sample
from StaICC.numerics import mean
from StaICC.prompting.prompt_text import PromptText
from StaICC.prompting.prompt_writer import Query
from StaICC.results.details import Baselines, DatasetDetails
from StaICC.results.result import Result
from StaICC.results.signature import Signature, escaped, short_digest
from StaICC.safe_text import logger, one_line

if TYPE_CHECKING:
    from StaICC.inference.forecast import Forecast


_log = logger(__name__)

NO_LABEL = -1
"""Predicted label index of a response that names no label; it is a wrong prediction."""
ALL_ROUNDS = tuple(range(1, ROUNDS + 1))
OPTIONS = ("limit", "instruct", "parsing", "unparsed")
"""The options that the settings of a data set contain unchanged."""
CUT_OFF = "cut off"
"""Why a reply has no label: it ended at the maximum number of tokens."""
NO_MEAN = "the conditions of an experiment have no common mean: each answers another question"
_NO_METRICS = MetricSet("", ())
"""The scores are those of the card."""


def round_name(number: int | str) -> str:
    """Return the name of a round in the paper; the name of a condition of an experiment is returned unchanged.

    Example:
        >>> round_name(3), round_name("zero shots")
        ('3R', 'zero shots')
    """
    return f"{number}R" if isinstance(number, int) else number


@dataclass
class LongICLOptions:
    """The options of a run, for all of its data sets; results save them in this order.

    Raises:
        ArgumentError: A value is invalid, or does not go together with the experiment.
        UnknownNameError: The parsing or policy is unknown.
    """

    rounds: Iterable[int] = ALL_ROUNDS
    """Rounds to evaluate, in order."""
    limit: int | None = 500
    """Maximum number of test items (DialogRE: pairs); None for all."""
    instruct: bool = False
    """Show the label list in the prompt."""
    parsing: str = "published"
    """How responses are parsed, a value of :data:`~StaICC.long_icl.parsing.PARSINGS`."""
    unparsed: Unparsed = "wrong"
    """How a response without a label, or one that the server withheld, counts: ``wrong`` as published, ``excluded``
    with bounds on the score, or ``error``."""
    experiment: Experiment | None = None
    """Replaces the rounds by its conditions."""
    statistics: Statistics = field(default_factory=Statistics)
    """Options of the confidence intervals and baselines."""

    def __post_init__(self) -> None:
        given = tuple(self.rounds) if isinstance(self.rounds, Iterable) else ()
        numbers = tuple(validate_integer("a round", number, 1, ROUNDS) for number in given)
        if not numbers or len(set(numbers)) < len(numbers):
            expected = f"different whole numbers from 1 to {ROUNDS}, in a list"
            raise ArgumentError(f"rounds must be {expected}, not {self.rounds!r}")
        self.rounds = numbers
        if self.limit is not None:
            self.limit = validate_integer("limit", self.limit, 1)
        self.instruct = bool(self.instruct)
        known_name("parsing", self.parsing, PARSINGS)
        known_name("value of unparsed", self.unparsed, get_args(Unparsed))
        if self.experiment is not None and self.rounds != ALL_ROUNDS:
            raise ArgumentError(f"the experiment {self.experiment.name} replaces the rounds; leave them out")


class _LazyQueries(Sequence[Query]):
    """The queries of a condition. Each is written when it is read: 500 long prompts would take 100 MB."""

    def __init__(self, write: Callable[[int], Query], count: int) -> None:
        self._write, self._places = write, range(count)

    def __len__(self) -> int:
        return len(self._places)

    def __getitem__(self, place: Any) -> Any:
        chosen = self._places[place]
        return self._write(chosen) if isinstance(chosen, int) else [*map(self._write, chosen)]


class LongICLOutcome(Outcome):
    """A round, or a condition of an experiment, with its predictions, parsed and compared with the true labels.

    Args:
        own: Parses the predictions.
        condition: The condition.
        responses: One prediction or failure for each test item.
        assume: As for :class:`~StaICC.benchmarks.task.Outcome`; ``None`` leaves responses without a label out.

    Attributes:
        answers: The label index of each prediction (several labels: its text); a failure where it names none.
        parsed: The parsed answer of each query; ``None`` if it failed.
        tallies: ``None`` for failed queries and excluded responses.
        unparsed: The reason of each response without a label, and of each one that the server withheld.
        cut_off: How many responses without a label ended at the maximum number of tokens.
        dropped: How many demonstrations each prompt lost because it was too long.
        score: The score with its counts; ``None`` if a query failed, or all responses are excluded.
        value: The score.
        note: Why the score is undefined; empty if it is defined.

    Raises:
        OutputError: A prediction cannot be scored, or has no label and ``unparsed="error"``.
    """

    hard = True

    def __init__(
        self, own: LongICLExperimentor, condition: Condition, responses: Sequence[Answer | Failure], assume: Assumed
    ) -> None:
        self.condition, self.responses, self.queries = condition, responses, []
        self.dropped = [dropped_demonstrations(response) for response in responses]
        self.number = next(number for number in own.rounds if round_name(number) == condition.name)
        readings = [own.read_response(self.number, place, response) for place, response in enumerate(responses)]
        self.tallies, self.parsed = [tally for tally, *_ in readings], [text for _, text, _ in readings]
        self.answers = [answer for *_, answer in readings]
        failures = {place: answer for place, answer in enumerate(self.answers) if isinstance(answer, Failure)}
        self.failed = Counter(failure.reason for failure in failures.values() if failure.reply is None)
        unread = {place: failure.reason for place, failure in failures.items() if failure.reply is not None}
        for place, reason in unread.items() if assume != "wrong" else ():
            if own.options.unparsed == "error":
                remedy = "unparsed='wrong' or 'excluded' continues without it"
                raise OutputError(f"{own.place_of(self.number, place)}: {reason}. {remedy}")
            gold = own.test_items[place].gold
            self.tallies[place] = None if assume is None else Tally(gold, gold, gold)
        rule, self.unparsed = own.card.scoring, [*unread.values()]
        self.cut_off = sum(reason.startswith(f"unparsed reply ({CUT_OFF})") for reason in self.unparsed)
        self.kept = scored(rule, self.tallies)
        self.score = None if self.failed else score_tallies(rule, self.kept)
        self.value = value_of(self.score)
        too_long = all(failure.is_too_long for failure in failures.values() if failure.reply is None)
        reasons = alike(self.failed)
        self.note = "" if self.score else _why_not_scored(reasons, self.failed.total(), len(responses), too_long)

    @property
    def scored(self) -> int:
        """The number of queries that are scored: none if one failed."""
        return 0 if self.score is None else sum(tally is not None for tally in self.tallies)

    @property
    def kind(self) -> Any:
        """What the predictions are: ``"text"``, ``"labels"``, ``"numbers"``, ``"mixed"`` or ``"none"``."""
        kinds = {
            "text" if isinstance(answer, str) else "labels" if hasattr(answer, "__index__") else "numbers"
            for answer in self.responses
            if not isinstance(answer, Failure)
        }
        return kinds.pop() if len(kinds) == 1 else "mixed" if kinds else "none"

    @property
    def predictions(self) -> list[int | None]:
        """The predicted label index of each query; ``None`` if it failed or is excluded."""
        pairs = zip(self.tallies, self.answers, strict=True)
        return [None if tally is None else answer if isinstance(answer, int) else NO_LABEL for tally, answer in pairs]

    def record(self, own: LongICLExperimentor) -> dict[str, Any]:
        """Return counts, score and counts for each label, as the result has them."""
        contexts, items, failed = own.contexts[self.number].sent(self.dropped), own.test_items, self.failed
        replies = (answer.reply if isinstance(answer, Failure) else answer for answer in self.responses)
        record: dict[str, Any] = {
            "round": self.number,
            "demonstrations": contexts.demonstrations,
            **contexts.coverage([item.gold for item in items]),
            "dropped": sum(self.dropped),
            "asked": len(items),
            "answered": len(items) - failed.total(),
            "empty": sum(isinstance(reply, str) and not reply.strip() for reply in replies),
            "unparsed": len(self.unparsed),
            "cut_off": self.cut_off,
            "unanswered": dict(alike(failed)),
            "score": self.score,
            "nearest": own.nearest_scores[self.number],
            "note": self.note,
            "labels": label_counts(own.card, self.kept),
        }
        if own.card.scoring.metric == "micro_f1":  # row, true, predicted and correct labels: to compare two runs
            record["items"] = [
                [item.row, *((None,) * 3 if tally is None else map(len, tally))]
                for item, tally in zip(items, self.kept, strict=False)
            ]
        return record


class LongICLExperimentor(Scorer, DatasetTask):
    """Writes the queries of a data set, and reads and scores the predictions.

    Args:
        data: The data set, from :func:`~StaICC.long_icl.loading.load`.
        **options: Those of :class:`LongICLOptions`.

    Attributes:
        rounds: The rounds, or the names of the conditions of the experiment.
        test_items: The test items, the same in each round.
        contexts: What their prompts show before the query.
        guessing: The scores of guessing (:func:`~StaICC.long_icl.scoring.guessing_scores`).
        unavailable: Conditions of the experiment that the data cannot fill, with the reason.

    Raises:
        ArgumentError: An argument cannot be used with this data set.
        UnknownNameError: The parsing or policy is unknown.
    """

    free_text = True
    scores_accuracy = True

    def __init__(self, data: LongICLData, **options: Any) -> None:
        self.data, self.card = data, data.card
        self.options = chosen = LongICLOptions(**options)
        self.test_items = tuple(data.test_items(chosen.limit))
        every = tuple(data.test_items(None))
        self.limit = None if self.test_items == every else chosen.limit  # in the signature
        self._questions = tuple(write_query(self.card, item) for item in self.test_items)
        self.guessing = guessing_scores(self.card, self.test_items)
        material = Material(data, self.test_items, chosen.instruct)
        made: Mapping[Any, Contexts | str] = (
            {number: material.round(number) for number in chosen.rounds}
            if chosen.experiment is None
            else chosen.experiment.conditions(material)
        )
        self.unavailable = {name: reason for name, reason in made.items() if isinstance(reason, str)}
        self.contexts = {name: own for name, own in made.items() if not isinstance(own, str)}
        if not self.contexts:
            reasons = "; ".join(f"{name}: {reason}" for name, reason in self.unavailable.items())
            raise ArgumentError(f"{self.card.title}: the experiment has no condition: {reasons}")
        self.rounds = tuple(self.contexts)
        self._shared_texts: dict[int | str, str] = {}

    @property
    def name(self) -> str:
        """The name of the data set."""
        return self.card.name

    def __repr__(self) -> str:
        rounds = ", ".join(map(round_name, self.rounds))
        return one_line(f"<LongICL on {self.name}: {rounds}, {len(self.test_items)} items>")

    def get_label_space(self) -> list[str]:
        """Return the label names, in prompt order."""
        return list(self.card.labels)

    # -- queries

    def context(self, number: int | str, place: int = 0) -> str:
        """Return the text before the query, which all prompts of a round share.

        Args:
            number: The round, or the name of a condition.
            place: The test item, for conditions with a context for each.
        """
        contexts = self.contexts[number]
        if not contexts.shared:
            return contexts.context_of(place).text
        if number not in self._shared_texts:  # one text for the round, not one for each query
            self._shared_texts[number] = contexts.context_of(place).text
        return self._shared_texts[number]

    def round_queries(self, number: int | str) -> Sequence[Query]:
        """Return the queries of a round for the runner, each written when it is read.

        ``label`` is the index of the gold label, or -1 if an item has several; ``row`` is the item's row in its
        file.
        """
        contexts, labels = self.contexts[number], self.card.labels

        def write(place: int) -> Query:
            item = self.test_items[place]
            label = -1 if self.card.structured else labels.index(item.gold[0])
            parts = replace(contexts.context_of(place), question=self._questions[place])
            prompt = PromptText(parts, self.context(number, place) + parts.question if contexts.shared else None)
            return Query(prompt, contexts.labels_of(place) or labels, label, item.row, 0)

        return _LazyQueries(write, len(self.test_items))

    def conditions(self) -> Sequence[Condition]:
        """Return the conditions: named lists of queries."""
        return [Condition(round_name(number), self.round_queries(number)) for number in self.rounds]

    @cached_property
    def prompt_digests(self) -> Mapping[int | str, str]:
        """For each round the SHA-256 of the SHA-256 digests of its prompts, one per line."""
        digests = {
            number: [hashlib.sha256(to_bytes(str(query.prompt))).hexdigest() for query in self.round_queries(number)]
            for number in self.rounds
        }
        return {number: hashlib.sha256("\n".join(lines).encode()).hexdigest() for number, lines in digests.items()}

    def longest_prompts(self, measure: Callable[[str], int] = len) -> dict[int | str, int]:
        """Return the length of each round's longest prompt, to compare with the context length of a model.

        Args:
            measure: Returns the length of a text: by default in characters; for tokens, pass
                ``lambda text: len(tokenizer(text).input_ids)``. It is called once per round, on the prompt with the
                most characters.
        """
        return {
            number: measure(max((str(query.prompt) for query in self.round_queries(number)), key=len))
            for number in self.rounds
        }

    def settings(self) -> dict[str, Any]:
        """Return the options and digests that can change a score, as plain values."""
        files, experiment = {"train": self.data.train_file, "test": self.data.test_file}, self.options.experiment
        return {
            "dataset": self.card.name,
            "rounds": list(self.rounds),
            **{name: getattr(self.options, name) for name in OPTIONS},
            "limit": self.limit,
            "experiment": None if experiment is None else experiment.options(),
            "files": {split: {"sha256": file.sha256, "verified": file.verified} for split, file in files.items()},
            "prompts": {str(number): digest for number, digest in self.prompt_digests.items()},
        }

    # -- running

    @property
    def steps(self) -> int:
        """How many parts a run reports: the queries of a round are predicted together."""
        return len(self.rounds)

    def run(
        self,
        forward_inference: Inference | None,
        preentered_prediction: Sequence[Any] | None,
        options: RunOptions,
        part: Part,
    ) -> DatasetRun:
        """Predict round by round, or take given predictions, and score.

        Args:
            forward_inference: The inference function.
            preentered_prediction: One prediction for each prompt of :meth:`prompt_set` instead.
            options: Options of the run.
            part: Name and number of the first round within the run.

        Raises:
            OutputError: A query fails and ``on_error="raise"``. A prompt that exceeds the context length of the model
                does not raise; the score of its round is undefined.
        """
        conditions = self.conditions()
        if preentered_prediction is not None or forward_inference is None:
            return self.assemble(conditions, list(preentered_prediction or ()))
        options = replace(options, group_prefixes=True, free_text=True)
        every = [query for condition in conditions for query in condition.queries]
        before_predicting = functools.partial(log_prompt_warnings, self.name, forward_inference, every, options.log)
        options = replace(options, before_predicting=functools.cache(before_predicting))
        answers: list[Any] = []
        timing: dict[str, float] = {}
        for number, condition in enumerate(conditions):
            before, name = time.monotonic(), f"{self.name}, {condition.name}"
            step = replace(part, name=f"{part.name}, {condition.name}", number=part.number + number)
            queries = list(condition.queries)
            predictions = self._predict(forward_inference, queries, step, options)
            if self.options.unparsed == "error" or self.card.structured:
                LongICLOutcome(self, condition, predictions, None)  # ends the run now, not after all rounds
            answers += predictions
            timing[name] = time.monotonic() - before
            if self.options.experiment is not None:
                longest = max(queries, key=lambda query: len(query.prompt))
                cost = forecast_prompts(forward_inference, [longest.prompt], longest.label_space)
                if cost.longest_prompt is not None:  # of one prompt, without what the model may generate
                    writes = all(isinstance(prediction, (str, Failure)) for prediction in predictions)
                    timing[f"{name}, tokens"] = float(cost.longest_prompt - writes * (cost.output_tokens or 0))
        run = with_model_warnings(self.assemble(conditions, answers), forward_inference, every, answers)
        log_dataset_warnings(self.name, run, forward_inference, answers_by_key(every, answers), options.log)
        return replace(run, timing=timing)

    def _predict(self, function: Inference, queries: Sequence[Query], part: Part, options: RunOptions) -> list[Any]:
        """Return the predictions or failures of a round."""
        try:
            answers: list[Any] = list(predict_queries(function, queries, part, options))
        except PromptTooLongError as error:
            ((reason, _),) = alike({str(error).removeprefix(f"{part.name}, "): 1})
            _log.warning("%s: not scored: a prompt is longer than the model's limit: %s", part.name, reason)
            return [Failure(reason, is_too_long=True)] * len(queries)
        if options.on_error == "raise" or not self.card.structured:
            return answers
        return [answer if isinstance(answer, (str, Failure)) else Failure(self.card.needs_text) for answer in answers]

    # -- scoring

    @cached_property
    def nearest_scores(self) -> Mapping[int | str, float | None]:
        """For each round the score of the baseline ``nearest`` (:mod:`StaICC.long_icl.nearest_baseline`)."""
        return {name: nearest_score(self.card, self.test_items, self.contexts[name]) for name in self.rounds}

    def read_outcome(
        self, condition: Condition, answers: Sequence[Any], outputs: Kind, assume: Assumed
    ) -> LongICLOutcome:
        """Return the outcome of a condition."""
        return LongICLOutcome(self, condition, answers, assume)

    def score(self, outcomes: Sequence[Any], scoring: Scoring) -> Scores:
        """Return the scores of all conditions, their mean, and the scores of guessing."""
        values = {outcome.condition.name: outcome.value for outcome in outcomes}
        missing = {outcome.condition.name: outcome.note for outcome in outcomes if outcome.value is None}
        overall = None
        if self.options.experiment is not None:
            missing["mean"] = NO_MEAN
        elif missing:
            missing["mean"] = f"no score in {', '.join(missing)}"
        else:
            overall = mean(list(values.values()))
        missing |= self.unavailable
        guesses = {"uniform": self.guessing[0], "majority": self.guessing[1]}
        if None in guesses.values():
            missing |= dict.fromkeys(guesses, "a random guess of entities is not defined")
        if self.options.experiment is None:  # each condition of an experiment has its own
            nearest = [score for score in self.nearest_scores.values() if score is not None]
            guesses["nearest"] = mean(nearest) if nearest else None
            if not nearest:
                missing["nearest"] = "demonstrations have several labels"
        averaged = {**values, **dict.fromkeys(self.unavailable), "mean": overall, **guesses}
        return Scores(averaged, averaged, missing)

    def intervals(self, outcomes: Sequence[Any], scoring: Scoring) -> Intervals:
        """Return the intervals of the rounds and of their mean, with the row as the unit."""
        level, rows = scoring.statistics.level, [item.row for item in self.test_items]
        scored = {outcome.condition.name: outcome.tallies for outcome in outcomes if outcome.score}
        terms = {name: score_part(self.card, own, level, rows) for name, own in scored.items()}
        parts = {name: part for name, part in terms.items() if part is not None}
        if len(parts) == len(outcomes) and self.options.experiment is None:
            parts["mean"] = combine(list(parts.values()), [1 / len(parts)] * len(parts))
        return {name: part.interval(level, f"{METHOD}item") for name, part in parts.items()}

    def assemble(self, conditions: Sequence[Condition], answers: Sequence[Any]) -> DatasetRun:
        """Score the predictions of all conditions.

        Args:
            conditions: The conditions.
            answers: One for each query, in the order of :meth:`prompt_set`: text; or, for data sets with one label per
                item, a label index or one score per label; or a :class:`~StaICC.inference.replies.Failure`.

        Returns:
            The scores of all rounds, with details.

        Raises:
            OutputError: The number of predictions is wrong, or one cannot be scored.
        """
        size, structured = len(self.test_items), self.card.structured
        if len(answers) != size * len(conditions):
            expected = f"{size * len(conditions)} predictions ({size} items in {len(conditions)} rounds)"
            raise OutputError(f"{self.card.title}: expected {expected}, found {len(answers)}")
        scorer = Scoring(_NO_METRICS, 0, self.options.statistics, unparsed=self.options.unparsed)
        run = evaluate(self, scorer, conditions, answers, self.name)
        values = {
            **run.values,
            "metric": self.card.scoring.metric,
            "rounds": {outcome.condition.name: outcome.record(self) for outcome in run.outcomes},
            "settings": self.settings(),
            **({} if self.guessing[2] is None else {"majority_label": self.guessing[2]}),
        }
        if self.options.experiment is not None:
            contexts = {own.condition.name: self.contexts[own.number].sent(own.dropped) for own in run.outcomes}
            tallies = {own.condition.name: () if own.value is None else own.tallies for own in run.outcomes}
            level = self.options.statistics.level if self.options.statistics.intervals else None
            of_task = self.options.experiment, self.card, self.test_items
            values["experiment"] = analyse(*of_task, contexts, tallies, level)
        bounded = [own.condition.name for own in run.outcomes if own.unparsed and not own.failed]
        if self.options.unparsed != "excluded":
            bounded = []
        elif bounded and self.options.experiment is None:
            bounded.append("mean")
        warnings = (*self._warnings_of_data(), *run.warnings)
        details = replace(
            run.details,
            conditions=() if structured else run.details.conditions,
            data=self.data_digest,
            notes=self._notes(run, warnings),
            baselines={
                own.condition.name: self._baselines(own) for own in run.outcomes if own.score and not structured
            },
            bounds={key: run.details.bounds.get(key, (None, None)) for key in bounded},
        )
        return replace(run, values=values, details=details, warnings=warnings)

    def place_of(self, number: int | str, place: int) -> str:
        """Return the name of a query in messages."""
        kind = "condition" if self.options.experiment else "round"
        return f"{self.card.title}, {kind} {number}, query {place} (row {self.test_items[place].row})"

    def read_response(
        self, number: int | str, place: int, response: Any
    ) -> tuple[Tally | None, str | None, Answer | Failure]:
        """Return the tally of a prediction, the parsed answer, and the label index (several labels: the text).

        Args:
            number: The round, or the name of the condition.
            place: The test item.
            response: The prediction; a failed query has neither tally nor answer. A response without a label, or that
                the server withheld, has a failure in place of the label.

        Raises:
            OutputError: The prediction cannot be scored.
        """
        failed = isinstance(response, Failure)
        if failed and response.reply is None:
            return None, None, response
        text: Any = "" if failed else response  # withheld: empty, as published
        card, item, names = self.card, self.test_items[place], self.contexts[number].labels_of(place)
        prompt = None if self.options.parsing == "published" else self.context(number, place) + self._questions[place]
        try:
            tally, parsed = tally_prediction(card, text, item, self.options.parsing, prompt, names)
        except OutputError as error:
            raise OutputError(f"{self.place_of(number, place)}: {error}") from error
        if isinstance(text, str) and item.gold and not tally.predicted:
            cause = "no label" if text.strip() else "empty"
            cause = CUT_OFF if getattr(text, "finish_reason", None) == "length" else cause
            return tally, parsed, response if failed else Failure(unparsed_reason(cause, text), reply=text)
        return tally, parsed, text if card.structured else card.labels.index(tally.predicted[0])

    def _baselines(self, outcome: LongICLOutcome) -> Baselines:
        """Return the accuracies of predictors without a model, and the p-values against them, for a scored round.

        They are those of all test items: a reply that is left out counts as wrong.
        """
        labels, tried, (_, majority, frequent) = len(self.card.labels), self.options.statistics.tried, self.guessing
        items = self.test_items
        correct = [tally is not None and bool(tally.correct) for tally in outcome.tallies]
        places = {row: place for place, row in enumerate(dict.fromkeys(item.row for item in items))}
        sample = Sample([0] * len(items), [places[item.row] for item in items], len(places), labels)
        by_row = {item.row: right for item, right in zip(items, correct, strict=True)}  # HELMET may test a row twice
        guesser = RandomBaseline(len(by_row), 1 / labels)
        against = CorrectPredictions(sample, correct, [frequent in item.gold for item in items])
        return Baselines(
            queries=len(by_row),
            labels=labels,
            uniform=1 / labels,
            majority=majority or 0.0,
            tried=tried,
            max_random=guesser.max_random_baseline(tried),
            p_value=guesser.p_value_of_count(sum(by_row.values()), tried),
            p_value_majority=p_value_against_labels([against], tried),
        )

    def _warnings_of_data(self) -> tuple[str, ...]:
        """Return warnings about files and prompts that are not the published ones."""
        warnings = []
        if self.data.dataset is None and not self.data.verified:
            warnings.append("the files are not known to be the published ones")
        for number, contexts in self.contexts.items():
            expected = self.card.demonstrations.expected[number - 1] if isinstance(number, int) else None
            if expected is not None and contexts.demonstrations != expected:
                shown = f"{contexts.demonstrations} demonstrations instead of {expected}"
                warnings.append(f"{round_name(number)} has {shown}")
        return tuple(warnings)

    def _notes(self, run: DatasetRun, warnings: Sequence[str]) -> tuple[str, ...]:
        """Return warnings and facts that a reader of the scores needs."""
        notes = [f"the scores are {self.card.scoring.metric.replace('micro_f1', 'micro F1')}", *warnings]
        if run.details.unparsed:
            counts = [
                f"{own.condition.name} {len(own.unparsed)}{f' ({own.cut_off} cut off)' * bool(own.cut_off)}"
                for own in run.outcomes
            ]
            notes.append(f"unparsed replies of {len(self.test_items)} in each condition: {', '.join(counts)}")
        return tuple(notes)

    def query_records(self, run: DatasetRun) -> list[dict[str, Any]]:
        """Return one record for each query: its position, the true label, the response and the parsed prediction."""
        return [
            {
                "condition": outcome.condition.name,
                "query": place,
                "row": item.row,
                "ground_truth": item.gold[0] if len(item.gold) == 1 else list(item.gold),
                "prediction": outcome.parsed[place],
                "response": None,
                **reply_record(None if isinstance(answer, Failure) else answer),
                "predicted_probabilities": None
                if isinstance(answer, (str, Failure)) or hasattr(answer, "__index__")
                else [float(value) for value in answer],
            }
            for outcome in run.outcomes
            for place, (item, answer) in enumerate(zip(self.test_items, outcome.responses, strict=True))
        ]

    # -- verification

    @property
    def unrecorded(self) -> str | None:
        """Why results have no records of the predictions; ``None`` if they have."""
        return "the file holds no records of queries with several labels" if self.card.structured else None

    @property
    def data_digest(self) -> str:
        """The digest of the test rows."""
        return self.data.test_file.identity

    def read_again(self, number: int, answer: Answer | Failure) -> Answer | Failure:
        """Return a new prediction as results record it: a label, or a failure."""
        condition, place = divmod(number, len(self.test_items))
        return self.read_response(self.rounds[condition], place, answer)[2]


def _why_not_scored(reasons: Sequence[tuple[str, int]], failed: int, asked: int, too_long: bool) -> str:
    """Return why the score of a round is undefined."""
    if not failed:
        return "not scored: all responses are unparsed"
    if too_long:
        listed = "; ".join(reason for reason, _ in reasons)
        count = f"{failed} of {asked} queries without an answer"
        return f"not scored: context and query are longer than the model's limit ({count}): {listed}"
    listed = "; ".join(f"{reason} ({count})" for reason, count in reasons)
    return f"not scored: {failed} of {asked} queries were not answered: {listed}"


class LongICL(BaseBenchmark[LongICLExperimentor]):
    """The benchmark of classification with many labels and long contexts.

    Args:
        data_dir: Folder with the published files; None for the folder of ``python -m StaICC data install long-icl``.
        datasets: Names, such as ``["banking77", "tacred"]``, and data sets of your own
            (:class:`~StaICC.datasets.dataset.Dataset`) with 20 or more labels; None for all six (in an experiment: for
            those with one label per item; in ``helmet``: for the five of HELMET). Data sets without files are skipped;
            a warning and the result say how to get the files.
        rounds: Rounds to evaluate, in order.
        limit: Maximum number of test items (DialogRE: pairs); None for all; by default 500, or 100 in an
            experiment other than ``helmet``.
        instruct: Show the label list in the prompt.
        parsing: How responses are parsed: ``published``, or ``library`` with the parser of all benchmarks
            (reasoning, "the answer is ...", JSON, bold, lists).
        unparsed: How a response without a label, or one that the server withheld, counts: ``wrong`` as published,
            ``excluded`` with bounds on the score, or ``error``, which ends the run.
        experiment: An :class:`~StaICC.long_icl.experiments.Experiment`, or the name of one with its default options:
            ``context``, ``length``, ``shots``, ``order``, ``position``, ``controls``, ``retrieval``, ``helmet``. Its
            conditions replace the rounds.
        verify: Refuse files whose digest is not the published one.
        statistics: Options of the confidence intervals and baselines.
        announce: Called with the licence notice of each data set before its files are opened; by default, the notice is
            logged as a warning.

    Attributes:
        experimentor: One experimentor for each available data set, in order.
        skipped: The other data sets, with reasons and instructions.

    Raises:
        DataMissingError: No data set is available.
        DataDamagedError: A file is damaged, or not the published one.
        ArgumentError: An argument is invalid.
        UnknownNameError: The data set or parsing is unknown.

    Example:
        >>> benchmark = LongICL("my_data", ["banking77"], rounds=(1, 2))  # doctest: +SKIP
        >>> result = benchmark(my_kernel)  # doctest: +SKIP
        >>> result["Divided results"]["banking77"]["1R"]  # doctest: +SKIP
        0.702
    """

    __slots__ = ("_notes", "skipped")
    task_name: ClassVar[str] = benchmark_names.LONG_ICL
    """The name that results carry."""
    benchmark_name = task_name

    def __init__(
        self,
        data_dir: str | os.PathLike[str] | None = None,
        datasets: Iterable[str | Dataset] | Dataset | None = None,
        rounds: Iterable[int] = ALL_ROUNDS,
        limit: int | Literal["default"] | None = "default",
        instruct: bool = False,
        *,
        parsing: str = "published",
        unparsed: Unparsed = "wrong",
        experiment: Experiment | str | None = None,
        verify: bool = True,
        statistics: Statistics | None = None,
        announce: Callable[[str], object] = show_notice,
    ) -> None:
        folder = default_folder() if data_dir is None else os.fspath(data_dir)
        design, chosen = None, Experiment(experiment) if isinstance(experiment, str) else experiment
        if chosen is not None:
            if not isinstance(chosen, Experiment):
                raise ArgumentError(f"experiment must be an Experiment or its name, not {chosen!r}")
            design = DESIGNS[chosen.name]
        number = (design.items if design else 500) if limit == "default" else limit
        options = LongICLOptions(rounds, number, instruct, parsing, unparsed, chosen, statistics or Statistics())
        if design is not None and datasets is None:
            offered = cards(design.suite)
            datasets = [name for name, card in offered.items() if not card.structured]
        loaded, self.skipped = load_available(folder, datasets, verify=verify, announce=announce)
        if not loaded:
            listed = "\n".join(f"{skipped.dataset}: {skipped}" for skipped in self.skipped)
            raise DataMissingError(f"none of the data sets of LongICL is in {folder}:\n{listed}")
        self._notes = {skipped.dataset: (f"SKIPPED: {skipped}",) for skipped in self.skipped}
        self.experimentor = [LongICLExperimentor(data, **vars(options)) for data in loaded]

    def __getitem__(self, index: int | str) -> LongICLExperimentor:
        """Return an experimentor by position or by the name of its data set.

        Raises:
            DataMissingError: The data set was skipped.
            UnknownNameError: This benchmark has no such data set.
        """
        for skipped in self.skipped:
            if isinstance(index, str) and skipped.dataset == index.casefold():
                raise DataMissingError(f"{index} was skipped: {skipped}")
        return super().__getitem__(index)

    @property
    def absent(self) -> Mapping[str, DatasetRun]:
        """The skipped data sets, without scores."""
        first = self.experimentor[0]
        names = [*map(round_name, first.rounds), *first.unavailable, "mean", "uniform", "majority"]
        if first.options.experiment is None:
            names.append("nearest")
        values: dict[str, float | None] = dict.fromkeys(names)
        counts: dict[str, Any] = dict.fromkeys(("asked", "distinct", "scored", "failed"), 0)
        empty = DatasetDetails(**counts, prompts="", query_digests="", conditions=())
        details = {name: replace(empty, notes=own) for name, own in self._notes.items()}
        return {name: DatasetRun(values, values, own, (), {}, ()) for name, own in details.items()}

    def own_data(self) -> Sequence[Dataset]:
        """Return the data sets of the user's own."""
        return [experimentor.data.dataset for experimentor in self if experimentor.data.dataset is not None]

    def data_warnings(self) -> Sequence[str]:
        """Return the warnings about the data sets of the user's own."""
        return [f"{dataset.card.name}: {remark}" for dataset in self.own_data() for remark in dataset.remarks]

    def functions_for_datasets(
        self, functions: Inference | Sequence[Inference] | Mapping[str, Inference]
    ) -> Sequence[Inference]:
        """Return one inference function for each data set; those that cannot predict several labels are refused."""
        chosen = super().functions_for_datasets(functions)
        for own, function in zip(self, chosen, strict=True):
            if own.card.structured and (guided := own_attribute(function, "guided")):
                raise ArgumentError(f"{own.card.needs_text}, and guided={guided!r} allows one label only")
            if own.card.structured and callable(getattr(function, "generate", None)):
                remedy = "Generate text: --answers text, or text_inference(kernel) of StaICC.kernels.text_inference"
                raise ArgumentError(f"{own.card.needs_text}, but {type(function).__name__} scores labels. {remedy}")
        return chosen

    def forecast(self, function: Inference, **options: Any) -> Forecast:
        """Forecast the run of a function; see :meth:`StaICC.benchmarks.benchmark.Benchmark.forecast`."""
        self.functions_for_datasets(function)
        parts = [condition.queries for experimentor in self for condition in experimentor.conditions()]
        return forecast(parts, function, True, **options)

    def arguments(self) -> dict[str, Any]:
        """Return the arguments of this benchmark as JSON values: results save them, verification makes it from them."""
        options = {"datasets": self.dataset_names, **asdict(self.experimentor[0].options)}
        options["limit"] = max((own.limit for own in self if own.limit is not None), default=None)
        arguments: dict[str, Any] = json.loads(json.dumps(options))
        return arguments

    def signature(
        self, runs: Mapping[str, DatasetRun] | None = None, predictions: Predictions | None = None
    ) -> Signature:
        """Return every option of this benchmark that can change a score; arguments as for the base class."""
        own, datasets = self.experimentor[0].options, self.dataset_names
        limit = self.arguments()["limit"]
        files = [file.identity for each in self for file in (each.data.train_file, each.data.test_file)]
        options = {
            "rounds": None if own.experiment else "+".join(map(str, own.rounds)),
            "instruct": "yes" if own.instruct else None,
            "parsing": None if own.parsing == "published" else own.parsing,
            "parser": PARSER_VERSION if own.parsing == "library" else None,
            **(own.experiment.options() if own.experiment else {}),
        }
        return Signature(
            {
                "benchmark": self.task_name,
                "datasets": None if datasets == list(cards()) else "+".join(map(escaped, datasets)),
                "data": short_digest(files),
                "limit": None if limit is None else str(limit),
                "options": ",".join(f"{key}={value}" for key, value in options.items() if value is not None),
                "unparsed": None if own.unparsed == "wrong" else own.unparsed,
                "statistics": own.statistics.for_signature(),
                **self.common_fields(runs, predictions),
            }
        )


def rebuild_long_icl(
    result: Result, data_dir: str | os.PathLike[str] | None, datasets: Sequence[str | Dataset], statistics: Statistics
) -> LongICL:
    """Return the benchmark of a result, made with the arguments that the result records.

    Args:
        result: A result of LongICL.
        data_dir: Folder with the data; by default, the installed data.
        datasets: The data sets that the result has scores of; the others are skipped, as in the run.
        statistics: Options of the confidence intervals and baselines.

    Raises:
        DataMissingError: No data set is available.
        UnknownBenchmarkError: Another version of StaICC wrote the result, with an argument that is gone.
    """
    recorded = {name: value for name, value in result.arguments.items() if name not in ("datasets", "statistics")}
    refuse_unknown_arguments(LongICL, recorded)
    if recorded["experiment"] is not None:
        recorded["experiment"] = Experiment(**recorded["experiment"])
    benchmark = LongICL(data_dir, datasets, **recorded, verify=False, statistics=statistics)  # the prompts are compared
    notes = {name: details.notes for name, details in result.details.items() if not details.asked}
    return benchmark.copy_with(_notes=benchmark._notes | notes)
