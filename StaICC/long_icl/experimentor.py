"""One data set of LongICL: its queries, their run, the details of their scores.

A failed query has a :class:`~StaICC.inference.replies.Failure` with the reason as its prediction. It is never scored as
a wrong prediction: the score of its round is undefined, and the record says why. If a prompt exceeds the context length
of the model, the run continues with the next round, also with ``on_error="raise"``.

The scores of a data set are ``1R`` to ``5R``, their ``mean``, the baselines ``uniform`` and ``majority``, and the
``metric``; under ``rounds``, for each round: counts, precision and recall (for F1), and counts for each label; under
``experiment``, what the conditions of an experiment show; under ``settings``, the options, and the digests of the files
and of each round's prompts.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from StaICC.argument_syntax import in_each_syntax
from StaICC.benchmarks.base_experimentor import BaseExperimentor, PredictedQueries
from StaICC.benchmarks.evaluation import DatasetRun
from StaICC.benchmarks.records import reply_record
from StaICC.benchmarks.task import Answers, Condition, Scoring
from StaICC.errors import ArgumentError, OutputError, PromptTooLongError
from StaICC.inference.contract import Answer, Inference, own_attribute
from StaICC.inference.forecast import forecast_prompts
from StaICC.inference.replies import Failure, alike
from StaICC.inference.runner import Part, RunOptions, predict_queries
from StaICC.long_icl.analysis import analyse
from StaICC.long_icl.condition_design import ConditionDesign
from StaICC.long_icl.contexts import Contexts
from StaICC.long_icl.loading import LongICLData
from StaICC.long_icl.options import LongICLOptions
from StaICC.long_icl.outcome import LongICLOutcome
from StaICC.long_icl.prompts import FIELDS, Item
from StaICC.long_icl.queries import LongICLQueries, round_name
from StaICC.long_icl.reading import read_prediction
from StaICC.long_icl.recorded_tallies import recorded_tallies
from StaICC.long_icl.reference_tokens import to_bytes
from StaICC.long_icl.scoring import Tally, scored
from StaICC.long_icl.task import LongICLTask
from StaICC.metrics.metric_set import MetricSet
from StaICC.prompting.prompt_writer import Query
from StaICC.results.details import DatasetDetails
from StaICC.safe_text import logger, one_line

_log = logger(__name__)

_NO_METRICS = MetricSet("", ())
"""The scores are those of the card."""


class LongICLExperimentor(BaseExperimentor):
    """Writes the queries of a data set, and scores the predictions.

    Args:
        data: The data set, from :func:`~StaICC.long_icl.loading.load`.
        **options: Those of :class:`~StaICC.long_icl.options.LongICLOptions`.

    Attributes:
        data: The data set.
        card: The card of the data set.
        options: The options of the run.
        queries: Writes the queries.
        limit: Maximum number of test items; ``None`` if it leaves none out.

    Raises:
        ArgumentError: An argument cannot be used with this data set.
        UnknownNameError: The parsing or policy is unknown.
    """

    __slots__ = ("_prompt_digests", "card", "data", "limit", "options", "queries", "statistics", "task", "unparsed")
    task: LongICLTask
    task_class: ClassVar[type[LongICLTask]] = LongICLTask
    """Scores the predictions."""
    has_separate_conditions = True

    def __init__(self, data: LongICLData, **options: Any) -> None:
        self.data = data
        self.card = data.card
        self.options = LongICLOptions(**options)
        self.statistics = self.options.statistics
        self.unparsed = self.options.unparsed
        self.queries = LongICLQueries(data, self.options)
        self.task = self.task_class(self.queries, self.options)
        all_items = tuple(data.test_items(None))
        self.limit = None if self.test_items == all_items else self.options.limit
        self._prompt_digests: Mapping[int | str, str] | None = None

    @property
    def name(self) -> str:
        """The name of the data set."""
        return self.card.name

    @property
    def data_digest(self) -> str:
        """The digest of the test rows."""
        return self.data.test_file.identity

    @property
    def rounds(self) -> tuple[int | str, ...]:
        """The rounds, or the names of the conditions of the experiment."""
        return self.queries.rounds

    @property
    def test_items(self) -> tuple[Item, ...]:
        """The test items, the same in each round."""
        return self.queries.test_items

    @property
    def contexts(self) -> Mapping[int | str, Contexts]:
        """What the prompts of each round show before the query."""
        return self.queries.contexts

    def __repr__(self) -> str:
        rounds = ", ".join(round_name(number) for number in self.rounds)
        return one_line(f"<{self.task.name} on {self.name}: {rounds}, {len(self.test_items)} items>")

    def get_label_space(self) -> list[str]:
        """Return the label names, in prompt order."""
        return list(self.card.labels)

    # -- queries

    def context(self, number: int | str, position: int = 0) -> str:
        """Return the text before the query, which all prompts of a round share.

        Args:
            number: The round, or the name of a condition.
            position: The test item, for conditions with a context for each.
        """
        return self.queries.context(number, position)

    def round_queries(self, number: int | str) -> Sequence[Query]:
        """Return the queries of a round, each written when it is read.

        ``label`` is the index of the gold label, or -1 if an item has several; ``row`` is the item's row in its
        file.
        """
        return self.queries.of_round(number)

    def conditions(self) -> Sequence[Condition]:
        """Return the conditions: named lists of queries."""
        return self.queries.conditions()

    @property
    def prompt_digests(self) -> Mapping[int | str, str]:
        """For each round the SHA-256 of the SHA-256 digests of its prompts, one per line."""
        if self._prompt_digests is None:
            self._prompt_digests = {number: _digest_of_prompts(self.round_queries(number)) for number in self.rounds}
        return self._prompt_digests

    def longest_prompts(self, measure: Callable[[str], int] = len) -> dict[int | str, int]:
        """Return for each round the length of its longest prompt, to compare with the context length of a model.

        Args:
            measure: Returns the length of a text: by default in characters; for tokens, pass
                ``lambda text: len(tokenizer(text).input_ids)``. It is called once per round, on the prompt with the
                most characters.
        """
        lengths = {}
        for number in self.rounds:
            prompts = (str(query.prompt) for query in self.round_queries(number))  # not in memory together
            longest_prompt = max(prompts, key=len)
            lengths[number] = measure(longest_prompt)
        return lengths

    def settings(self) -> dict[str, Any]:
        """Return the options and digests that can change a score, as plain values."""
        options = self.options
        experiment = None
        if options.experiment is not None:
            experiment = options.experiment.options()
        files = {}
        for split, file in (("train", self.data.train_file), ("test", self.data.test_file)):
            files[split] = {"sha256": file.sha256, "verified": file.verified}
        return {
            "dataset": self.card.name,
            "rounds": list(self.rounds),
            "limit": self.limit,
            "instruct": options.instruct,
            "parsing": options.parsing,
            "unparsed": options.unparsed,
            "experiment": experiment,
            "files": files,
            "prompts": {str(number): digest for number, digest in self.prompt_digests.items()},
        }

    def recorded_settings(self) -> Mapping[str, Any]:
        """Return the options and digests under their key in a result."""
        return {"settings": self.settings()}

    # -- what methods use

    @property
    def text_count(self) -> int:
        """The number of input texts of a query."""
        return len(FIELDS[self.card.kind])

    def without_labels(self) -> LongICLExperimentor:
        """Return a copy without the labels of the test items; its prompts are the same.

        Raises:
            ArgumentError: Items have several labels. Methods predict one label, or scores of the labels.
        """
        if self.card.structured:
            raise ArgumentError(f"{self.card.needs_text}, and a method predicts one label")
        return self.copy_with(queries=self.queries.without_labels())

    def with_labels_of(self, original: LongICLExperimentor) -> LongICLExperimentor:
        """Return the original data set: no method changes its prompts."""
        return original

    def with_query(self, texts: Sequence[str]) -> LongICLExperimentor:
        """Return a copy in which these texts take the place of every query, after the context of each.

        Args:
            texts: The input texts.
        """
        return self.copy_with(queries=self.queries.with_query(tuple(texts)))

    # -- running

    def refuse_function(self, function: Inference) -> None:
        """Raise an error if an inference function cannot predict the labels of an item with several.

        Raises:
            ArgumentError: Items have several labels, and the function scores labels or generates one label only.
        """
        if not self.card.structured:
            return
        guided = own_attribute(function, "guided")
        if guided:
            raise ArgumentError(f"{self.card.needs_text}, and guided={guided!r} allows one label only")
        if callable(getattr(function, "generate", None)):
            remedy = f"Generate text: {in_each_syntax('StaICC.text_inference(kernel)', '--answers text')}"
            raise ArgumentError(f"{self.card.needs_text}, but {type(function).__name__} scores labels. {remedy}")

    def predict_condition(
        self, function: Inference, condition: Condition, part: Part, options: RunOptions
    ) -> PredictedQueries:
        """Return the predictions of a round, with its duration; of an experiment, also the tokens of its prompts.

        Args:
            function: The inference function.
            condition: The condition.
            part: Name and number of this step of the run.
            options: Options of the run.

        Raises:
            OutputError: A query fails and ``on_error="raise"``. A prompt that exceeds the context length of the model
                does not raise; the score of its round is undefined.
        """
        began = time.monotonic()
        queries = list(condition.queries)
        answers = self._predict(function, queries, part, replace(options, group_prefixes=True))
        if self.unparsed == "error" or self.card.structured:
            self.task.read_outcome(condition, answers, "auto", None)  # raises an error now, not after all rounds
        name = f"{self.name}, {condition.name}"
        timing = {name: time.monotonic() - began}
        if self.options.experiment is not None:
            tokens = _tokens_of_longest(function, queries, answers)
            if tokens is not None:
                timing[f"{name}, tokens"] = tokens
        return PredictedQueries(answers, timing)

    def _predict(
        self, function: Inference, queries: Sequence[Query], part: Part, options: RunOptions
    ) -> list[Answer | Failure]:
        """Return a prediction or a failure for each query of a round.

        If a prompt is longer than the model's limit, all queries of the round have this failure. If items have several
        labels, a prediction that is not text is a failure, too, unless the run stops at the first failure.

        Args:
            function: The inference function.
            queries: The queries.
            part: Name and number of this part of the run.
            options: Options of the run.
        """
        try:
            answers = list(predict_queries(function, queries, part, options))
        except PromptTooLongError as error:
            message = str(error).removeprefix(f"{part.name}, ")
            ((reason, _),) = alike({message: 1})  # without the code location in the message
            _log.warning("%s: not scored: a prompt is longer than the model's limit: %s", part.name, reason)
            return [Failure(reason, is_too_long=True)] * len(queries)
        if options.on_error == "raise" or not self.card.structured:
            return answers
        answers_or_failures: list[Answer | Failure] = []
        for answer in answers:
            if isinstance(answer, (str, Failure)):
                answers_or_failures.append(answer)
            else:
                answers_or_failures.append(Failure(self.card.needs_text))
        return answers_or_failures

    # -- scoring

    def scoring(self) -> Scoring:
        """Return the settings with which the task scores outcomes."""
        return Scoring(_NO_METRICS, 0, self.statistics, unparsed=self.unparsed)

    def assemble(self, conditions: Sequence[Condition], answers: Answers, where: str | None = None) -> DatasetRun:
        """Score the predictions of all conditions.

        Args:
            conditions: The conditions.
            answers: One for each query, in the order of :meth:`prompt_set`: text; or, for data sets with one label per
                item, a label index or one score per label; or a :class:`~StaICC.inference.replies.Failure`.
            where: Name of this data set's run, for messages; by default the name of the data set.

        Returns:
            The scores of all rounds, with details.

        Raises:
            OutputError: The number of predictions is wrong, or one cannot be scored.
        """
        item_count = len(self.test_items)
        if len(answers) != item_count * len(conditions):
            expected = f"{item_count * len(conditions)} predictions ({item_count} items in {len(conditions)} rounds)"
            raise OutputError(f"{self.card.title}: expected {expected}, found {len(answers)}")
        run = super().assemble(conditions, answers, where)
        outcomes = run.outcomes
        warnings = (*self._warnings_of_data(), *run.warnings)
        bounds = {}
        for key in self._bounded_scores(outcomes):
            bounds[key] = run.details.bounds.get(key, (None, None))
        details = replace(run.details, notes=self._notes(run, warnings), bounds=bounds)
        if self.card.structured:
            details = replace(details, conditions=(), baselines={})
        else:
            baselines = {}
            for outcome in outcomes:
                if outcome.score is not None:
                    baselines[outcome.condition.name] = self.task.baselines(outcome)
            details = replace(details, baselines=baselines)
        return replace(
            run,
            values={**run.values, **self._further_values(outcomes)},
            details=details,
            warnings=warnings,
            model_warnings=_remark_on_published_parser(outcomes),
        )

    def _further_values(self, outcomes: Sequence[LongICLOutcome]) -> dict[str, Any]:
        """Return what the result has next to the scores: the rounds, the settings, the analysis of an experiment."""
        records = {}
        for outcome in outcomes:
            record = outcome.record()
            record["nearest"] = self.task.nearest_score(outcome)  # of a baseline
            records[outcome.condition.name] = record
        values: dict[str, Any] = {
            "metric": self.card.scoring.metric,
            "rounds": records,
            **self.recorded_settings(),
        }
        majority_label = self.task.guessing.majority_label
        if majority_label is not None:
            values["majority_label"] = majority_label
        if self.card.kind == "labels":
            # A reply has each label once at most. Comparisons need the limit for replies that are missing.
            values["most_labels_of_reply"] = len(self.card.labels)
        if self.options.experiment is not None:
            values["experiment"] = self._analysis(self.options.experiment, outcomes)
        return values

    def _analysis(self, experiment: ConditionDesign, outcomes: Sequence[LongICLOutcome]) -> dict[str, Any]:
        """Return the scores of an experiment, their differences, and their tests (:func:`analyse`)."""
        contexts = {}
        tallies: dict[str, Sequence[Tally | None]] = {}
        for outcome in outcomes:
            name = outcome.condition.name
            contexts[name] = self.contexts[outcome.number].sent(outcome.dropped)
            if outcome.value is None:
                tallies[name] = ()  # a query of the condition failed
            else:
                tallies[name] = outcome.tallies
        level = self.statistics.level if self.statistics.intervals else None
        return analyse(experiment, self.card, self.test_items, contexts, tallies, level)

    def _bounded_scores(self, outcomes: Sequence[LongICLOutcome]) -> list[str]:
        """Return the keys of the scores that have bounds, because replies without a label are left out."""
        if self.unparsed != "excluded":
            return []
        bounded = [outcome.condition.name for outcome in outcomes if outcome.unparsed and not outcome.failed]
        if bounded and self.options.experiment is None:
            bounded.append("mean")
        return bounded

    def _warnings_of_data(self) -> tuple[str, ...]:
        """Return warnings about files and prompts that are not the published ones."""
        warnings = []
        if self.data.dataset is None and not self.data.verified:
            warnings.append("the files are not known to be the published ones")
        for number, contexts in self.contexts.items():
            if not isinstance(number, int):
                continue
            expected = self.card.demonstrations.expected[number - 1]
            if contexts.demonstrations != expected:
                shown = f"{contexts.demonstrations} demonstrations instead of {expected}"
                warnings.append(f"{round_name(number)} has {shown}")
        warnings += self._warning_of_unscored_items()
        return tuple(warnings)

    def _warning_of_unscored_items(self) -> list[str]:
        """Return that test items are queried but not scored, in a list; an empty list if all items are scored.

        The published score of DialogRE ends at the 500th pair of entities, so that it leaves out items of a run without
        a limit.
        """
        unscored_count = self._unscored_count()
        if unscored_count == 0:
            return []
        pair_count = self.card.scoring.stop_at
        return [
            f"the published score ends at pair {pair_count}: {unscored_count} of {len(self.test_items)} items are "
            f"queried, but not scored; the limit {pair_count} leaves them out"
        ]

    def _unscored_count(self) -> int:
        """Return the number of test items that are queried, but not scored: the last ones of DialogRE."""
        tallies = [Tally(item.gold, predicted=(), correct=()) for item in self.test_items]
        return len(tallies) - len(scored(self.card.scoring, tallies))

    def _notes(self, run: DatasetRun, warnings: Sequence[str]) -> tuple[str, ...]:
        """Return warnings and facts that a reader of the scores needs.

        Args:
            run: The scored run of the data set.
            warnings: The warnings.
        """
        metric = self.card.scoring.metric.replace("micro_f1", "micro F1")
        notes = [f"the scores are {metric}", *warnings]
        if run.details.unparsed:
            counts = []
            for outcome in run.outcomes:
                count = f"{outcome.condition.name} {len(outcome.unparsed)}"
                if outcome.cut_off:
                    count += f" ({outcome.cut_off} cut off)"
                counts.append(count)
            notes.append(f"unparsed replies of {len(self.test_items)} in each condition: {', '.join(counts)}")
        return tuple(notes)

    # -- records and verification

    def query_records(self, run: DatasetRun) -> list[dict[str, Any]]:
        """Return one record for each query: its position, the true label, the response and the parsed prediction."""
        records = []
        for outcome in run.outcomes:
            for position, item in enumerate(self.test_items):
                response = outcome.responses[position]
                reply = None if isinstance(response, Failure) else response
                has_one_label = len(item.gold) == 1
                ground_truth = item.gold[0] if has_one_label else list(item.gold)
                records.append(
                    {
                        "condition": outcome.condition.name,
                        "query": position,
                        "row": item.row,
                        "ground_truth": ground_truth,
                        "prediction": outcome.parsed[position],
                        "response": None,  # unless the reply is text, which reply_record adds
                        **reply_record(reply),
                        "predicted_probabilities": _label_scores(response),
                    }
                )
        return records

    @property
    def unrecorded(self) -> str | None:
        """Why results have no records of all predictions; ``None`` if they have."""
        if self.card.structured and self._unscored_count() > 0:
            return "the published score leaves out the last items, and the file has no labels of these"
        return None

    def recorded_label_lists(
        self, details: DatasetDetails, scores: Mapping[str, Any]
    ) -> Sequence[Tally | Failure] | None:
        """Return the recorded labels of items with several labels; ``None`` for data sets with one label per item.

        Args:
            details: The saved details of this data set.
            scores: Its saved scores, with the labels of the items of each round.

        Raises:
            SchemaError: The records are not those of the items.
        """
        if not self.card.structured:
            return None
        return recorded_tallies(self.card, self.test_items, self.options.parsing, details, scores)

    def read_again(self, number: int, answer: Answer | Failure) -> Answer | Failure:
        """Return a new prediction as results record it: a label, or a failure.

        Args:
            number: Which query of the data set it is for, counted over all rounds from 0.
            answer: The prediction.
        """
        round_index, position = divmod(number, len(self.test_items))
        reading = read_prediction(self.queries, self.options, self.rounds[round_index], position, answer)
        return reading.answer


def _digest_of_prompts(queries: Sequence[Query]) -> str:
    """Return the SHA-256 of the SHA-256 digests of prompts, one per line."""
    digests = [hashlib.sha256(to_bytes(str(query.prompt))).hexdigest() for query in queries]
    return hashlib.sha256("\n".join(digests).encode()).hexdigest()


def _tokens_of_longest(
    function: Inference, queries: Sequence[Query], answers: Sequence[Answer | Failure]
) -> float | None:
    """Return the tokens of the longest prompt, without what the model may generate; ``None`` if they are unknown.

    Args:
        function: The inference function, which counts the tokens if it can.
        queries: The queries of a condition.
        answers: Their predictions. If all are texts, the model generated them.
    """
    longest = max(queries, key=lambda query: len(query.prompt))
    cost = forecast_prompts(function, [longest.prompt], longest.label_space)
    if cost.longest_prompt is None:
        return None
    generates_text = all(isinstance(answer, (str, Failure)) for answer in answers)
    if generates_text:
        return float(cost.longest_prompt - (cost.output_tokens or 0))
    return float(cost.longest_prompt)


def _label_scores(response: Answer | Failure) -> list[float] | None:
    """Return a prediction that has one score for each label as a list; ``None`` for other predictions."""
    if isinstance(response, (str, Failure)) or hasattr(response, "__index__"):
        return None
    scores: Any = response
    return [float(score) for score in scores]


def _remark_on_published_parser(outcomes: Sequence[LongICLOutcome]) -> tuple[str, ...]:
    """Return how many replies the published parser would have read, if it reads fewer than the library's parser."""
    published_count = sum(outcome.published_reads for outcome in outcomes)
    library_count = sum(outcome.library_reads for outcome in outcomes)
    if published_count >= library_count:
        return ()
    return (f"the published parser would read {published_count} of the {library_count} replies that were read",)
