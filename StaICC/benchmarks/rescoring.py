"""A saved result that is scored a second time, from its own records.

Verification (:mod:`StaICC.benchmarks.verify`) compares the scores, means, signature and provenance of the file with
those that the code of a run computes again from the recorded predictions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any

from StaICC.benchmarks.base_experimentor import BaseExperimentor
from StaICC.benchmarks.context import Predictions
from StaICC.benchmarks.evaluation import DatasetRun
from StaICC.benchmarks.findings import (
    Contradicted,
    Finding,
    Unchecked,
    Verification,
    compare_values,
    limited,
    short_value,
)
from StaICC.benchmarks.prompt_digests import PromptComparison, PromptDigests, compare_prompts, digest_prompts
from StaICC.benchmarks.race import marked, replay
from StaICC.benchmarks.rebuilding import UNREADABLE, finding_of_error
from StaICC.benchmarks.records import Written, count_distinct, recorded_failures
from StaICC.benchmarks.running import BaseBenchmark
from StaICC.benchmarks.task import Condition
from StaICC.errors import SchemaError, StaICCError
from StaICC.inference.contract import Answer
from StaICC.inference.identity import Identity
from StaICC.inference.recheck import RunRecord
from StaICC.inference.replies import Failure
from StaICC.results.details import DatasetDetails
from StaICC.results.files import DIVIDED
from StaICC.results.predictor import GIVEN
from StaICC.results.result import Result
from StaICC.results.signature import FIELDS, Signature
from StaICC.version import RESULT_SCHEMA, __version__


@dataclass(slots=True)
class ScoredResult:
    """A result whose records are scored again, data set by data set."""

    result: Result
    saved: Mapping[str, Any]
    """Its JSON values."""
    benchmark: BaseBenchmark[Any]
    where: str
    """Path of the result within its file."""
    unknown: Mapping[str, str]
    """The keys of the saved values that cannot be judged, each with the reason (:func:`reasons_for_unknown`)."""
    sources: list[RerunSource] | None
    """A list to which the data sets that can be predicted again are added; ``None`` if nothing is predicted again."""
    runs: dict[str, DatasetRun] = field(default_factory=dict)
    """The run over each data set that was scored, by name."""

    def dataset(self, name: str) -> Verification:
        """Return the findings about a data set: which of its saved values differ when they are computed again.

        1. The prompts of the data set are written again, and their digests are compared with the saved ones.
        2. The recorded predictions are scored, which gives a run. It is added to :attr:`runs`.
        3. The scores and the details of this run are compared with the saved ones.

        If an error is raised in the first two, it is the only further finding, and there is no run.

        Args:
            name: The name of the data set.
        """
        place = f"{self.where}details / {name}"
        findings: list[Finding] = []
        comparison: PromptComparison | None = None
        try:
            details = self.result.details[name]
            run = self._absent_run(name)
            if run is not None:
                comparison = compare_prompts(details, _DIGESTS_OF_ABSENT)
                findings += _prompt_findings(place, comparison)
            else:
                prompts = self._write_prompts(name)
                comparison = compare_prompts(details, prompts.digests)
                findings += _prompt_findings(place, comparison)
                run = self._score(name, prompts.conditions, prompts.written)
        except UNREADABLE as error:
            findings.append(finding_of_error(f"{place} / conditions", error))
        else:
            self.runs[name] = run
            findings += self._compare_dataset(name, run)
            has_same_prompts = comparison is not None and comparison.same
            if has_same_prompts and run.answers and self.sources is not None:
                self.sources.append(RerunSource(self, name))
        if comparison is None:
            return Verification(self.result.benchmark, name, "nothing was computed again", limited(place, findings))
        return Verification(
            self.result.benchmark,
            name,
            comparison.message,
            limited(place, findings),
            same=comparison.same,
            first_difference=comparison.first_difference,
        )

    def _write_prompts(self, name: str) -> _WrittenPrompts:
        """Return the conditions of a data set with the digests of their prompts, which are written again."""
        conditions: Sequence[Condition] = self.benchmark[name].conditions()
        queries = chain.from_iterable(condition.queries for condition in conditions)
        written: list[Written] = []
        digests = digest_prompts(queries, written)
        return _WrittenPrompts(conditions, digests, written)

    def _absent_run(self, name: str) -> DatasetRun | None:
        """Return the run without scores of a data set that the run skipped, because its files were missing.

        ``None`` means that the data set has queries in the result, or that the benchmark has its files now.
        """
        query_count = self.result.details[name].asked
        if query_count != 0:
            return None
        return self.benchmark.absent.get(name)

    def _score(self, name: str, conditions: Sequence[Condition], written: Sequence[Written]) -> DatasetRun:
        """Return the run that follows from the records of a data set.

        Args:
            name: The name of the data set.
            conditions: Its conditions, written again.
            written: The records of their queries.

        Raises:
            StaICCError: The records are not those of the benchmark's queries.
        """
        details = self.result.details[name]
        experimentor: BaseExperimentor = self.benchmark[name]
        if experimentor.unrecorded is not None:
            return self._saved_run(name, written)
        recorded_labels = experimentor.recorded_label_lists(details, self.result.divided[name])
        if recorded_labels is not None:
            run = experimentor.assemble(conditions, recorded_labels)
            # Label lists cannot be compared with replies, so these queries are not predicted again.
            return replace(run, answers=())

        written_sizes = [(condition.name, len(condition.queries)) for condition in conditions]
        recorded_sizes = [(record.name, len(record.truth)) for record in details.conditions]
        if written_sizes != recorded_sizes:
            raise SchemaError(f"saved {short_value(recorded_sizes)}, written {short_value(written_sizes)}")
        answers = list(_recorded_answers(details, n_labels=len(experimentor.get_label_space())))
        run = experimentor.assemble(conditions, answers)
        if experimentor.task.free_text:
            # The file has the labels that were read from the texts, but not the texts. So the recomputed kind of the
            # predictions is that of labels, and is replaced by the saved kind.
            records = []
            for computed, saved in zip(run.details.conditions, details.conditions, strict=True):
                records.append(replace(computed, output=saved.output))
            run = replace(run, details=replace(run.details, conditions=tuple(records)))
        return run

    def _saved_run(self, name: str, written: Sequence[Written]) -> DatasetRun:
        """Return the run of a data set whose predictions are not in the file, with the saved scores.

        These scores cannot be computed again. Only the numbers of queries, the settings and the digest of the data are.

        Args:
            name: The name of the data set.
            written: The records of its queries.
        """
        details = self.result.details[name]
        experimentor: BaseExperimentor = self.benchmark[name]
        known_details = replace(
            details,
            asked=len(written),
            distinct=count_distinct(written),
            data=experimentor.data_digest,
        )
        scores = self.result.divided[name]
        averaged = {key: scores.get(key) for key in self.result.averaged}
        # Notes of a data set may be repeated among the warnings of the result, with the name of the data set in front.
        warnings = tuple(note for note in details.notes if f"{name}: {note}" in self.result.warnings)
        return DatasetRun(
            values={**scores, **experimentor.recorded_settings()},
            averaged=averaged,
            details=known_details,
            outcomes=(),
            intervals=known_details.intervals,
            answers=(),
            warnings=warnings,
        )

    def _compare_dataset(self, name: str, run: DatasetRun) -> Iterator[Finding]:
        """Yield the findings of a comparison: the saved scores and details of a data set, and those of its new run.

        Args:
            name: The name of the data set.
            run: The run that follows from its records.
        """
        reason = self._why_scores_unknown(name)
        expected_scores: Mapping[str, Any] | Unchecked = run.values
        if reason is not None:
            expected_scores = Unchecked(reason)
        saved_scores = self.saved[DIVIDED][name]
        place = f"{self.where}{DIVIDED} / {name}"
        yield from self._compare_settings(f"{place} / settings", saved_scores, run.values)
        yield from compare_values(place, saved_scores, expected_scores, self.unknown)

        saved_details = self.saved["details"][name]
        expected_details = run.details.to_dict()
        for key in _DETAILS_NOT_FROM_PREDICTIONS:
            expected_details[key] = saved_details[key]
        yield from compare_values(f"{self.where}details / {name}", saved_details, expected_details, self.unknown)

    def _compare_settings(
        self, place: str, saved_scores: Mapping[str, Any], expected_scores: Mapping[str, Any]
    ) -> Iterator[Finding]:
        """Yield the findings about the settings that LongICL records with its scores; none for other benchmarks.

        Settings need no predictions. So they are compared also where the scores cannot be computed.

        Args:
            place: The path of the settings.
            saved_scores: The saved scores of a data set.
            expected_scores: Those of its new run.
        """
        saved_settings = saved_scores.get("settings")
        expected_settings = expected_scores.get("settings")
        if isinstance(saved_settings, Mapping) and isinstance(expected_settings, Mapping):
            yield from _unknown_settings(place, saved_settings, expected_settings)
            yield from compare_values(place, saved_settings, expected_settings, self.unknown)

    def _why_scores_unknown(self, name: str) -> str | None:
        """Return the reason why the scores of a data set cannot be computed from the file; ``None`` if they can.

        There are two reasons. Prompts of a task with free texts were too long and lost demonstrations, on which its
        scores depend. Or the file has no records of the predictions, for example of queries with several labels.

        Args:
            name: The name of the data set.
        """
        details = self.result.details[name]
        if details.dropped and self.benchmark[name].task.free_text:
            return "prompts lost demonstrations, and the file does not record which ones"
        if self._absent_run(name) is not None:
            return None  # The run skipped the data set. All of its scores are undefined, which needs no predictions.
        experimentor: BaseExperimentor = self.benchmark[name]
        return experimentor.unrecorded

    def shared(self, race: bool) -> Iterator[Finding]:
        """Yield the findings about what the data sets share: the means, the signature and the provenance.

        The saved values are compared with those of the result that is computed from the recorded predictions.

        If the run stopped early, the decision is compared, too: the rule is applied to the predictions again. The
        decision of a race of two models follows from the results of both. It is compared by the caller if he has both
        of them, and cannot be compared if the file has this one only.

        Args:
            race: Whether the caller has both results of the race.
        """
        recomputed = self._recomputed_result()
        saved = {**self.saved, "signature": _all_fields(self.result.signature)}
        expected = recomputed.to_dict()
        expected["signature"] = _all_fields(recomputed.signature)

        # What is not compared here is expected to be as it was saved.
        for key in _ENTRIES_NOT_SHARED:
            expected[key] = self.saved[key]
        self._copy_records_of_predictors(expected)

        stopping = self.result.stopping
        if stopping is not None and not race:
            if stopping.rule == "race":
                expected["stopping"] = Unchecked("the decision of a race follows from both of its results, this is one")
            else:
                yield from self.replayed([self])

        path_in_file = self.where.removesuffix(" / ")
        yield from compare_values(path_in_file, saved, expected, self.unknown)

    def _recomputed_result(self) -> Result:
        """Return the result that is computed from the scored data sets, for a comparison with the saved one.

        Some values cannot be computed from the records. They are copied from the saved result, and so are not checked.
        """
        saved = self.result
        runs = {name: self.runs[name] for name in self.benchmark.dataset_names}
        recomputed = self.benchmark.collect(runs, recorded_predictions(saved), divided=saved.with_divided)
        if saved.stopping is not None:
            recomputed = marked(recomputed, saved.stopping)

        # Signature and provenance both state the method, which nothing computes. Each is compared with the other one.
        recomputed.signature = Signature({**recomputed.signature.fields, "method": saved.provenance.method})
        recomputed.provenance = replace(
            recomputed.provenance,
            method=saved.signature.fields.get("method"),
            asked=saved.provenance.asked,
            further_models=saved.provenance.further_models,
            method_settings=saved.provenance.method_settings,
        )

        # A data file is found by its digest, so it may have another name than in the run.
        for name in recomputed.files.keys() & saved.files.keys():
            recomputed.files[name] = {**recomputed.files[name], "file": saved.files[name].get("file")}
        return recomputed

    def _copy_records_of_predictors(self, expected: dict[str, Any]) -> None:
        """Copy what only the run can know about its models from the saved result, such as times and counts.

        The recomputed result is compared with the saved one next. A copied value is equal, so that it is not reported.

        Args:
            expected: The JSON values of the recomputed result, which are changed.
        """
        predictions_are_texts = any(experimentor.task.free_text for experimentor in self.benchmark)
        expected_models = expected["provenance"]["predictors"]
        saved_models = self.saved["provenance"]["predictors"]
        for expected_model, saved_model in zip(expected_models, saved_models, strict=False):
            copied_keys = list(_PREDICTOR_FIELDS_OF_RUN)
            # The identity of given predictions is their digest. That of texts is not known, as the file has no texts.
            if predictions_are_texts and GIVEN in saved_model["who"]:
                copied_keys += ["who", "identity"]
            for key in copied_keys:
                if key in saved_model:
                    expected_model[key] = saved_model[key]

    def replayed(self, models: Sequence[ScoredResult]) -> Iterator[Finding]:
        """Yield the findings about the decision to stop early: the rule is applied to the predictions again.

        Args:
            models: The results that the rule depends on: this one, or both results of a race of two models.
        """
        place = f"{self.where}stopping"
        stopping = self.result.stopping
        if stopping is None:
            yield Contradicted(f"{place}: saved nothing, but the results of a race have the record of its decision")
            return
        try:
            runs_of_models = [model.runs for model in models]
            expected = replay(stopping, self.benchmark.experimentor, runs_of_models)
        except (StaICCError, LookupError) as error:
            yield Contradicted(f"{place}: {error}")
        else:
            yield from compare_values(place, stopping.to_dict(), expected.to_dict())


@dataclass(frozen=True, slots=True)
class _WrittenPrompts:
    """What is kept of the prompts of a data set after they were written again; they may be long."""

    conditions: Sequence[Condition]
    digests: PromptDigests
    written: Sequence[Written]
    """The record of each query of all conditions."""


_DIGESTS_OF_ABSENT = PromptDigests(of_all="", marks="")
"""The digests that a run records for a data set whose files are missing."""


def _prompt_findings(place: str, comparison: PromptComparison) -> list[Finding]:
    """Return the finding about prompts that are not the saved ones; none if they are the same.

    Args:
        place: The path of the details of the data set.
        comparison: The comparison of the prompts.
    """
    if comparison.same:
        return []
    compared_field = "prompts" if comparison.first_difference is None else "query_digests"
    return [Contradicted(f"{place} / {compared_field}: {comparison.message}")]


def _unknown_settings(place: str, saved: Mapping[str, Any], expected: Mapping[str, Any]) -> Iterator[Finding]:
    """Yield a finding for each saved setting that no run records.

    All settings are computed from the benchmark, so that a setting that is not among them was not written by a run.
    Other unknown values of a file are only unchecked.

    Args:
        place: The path of the settings.
        saved: The settings of the file, or a part of them.
        expected: Those of the benchmark.
    """
    for key, value in saved.items():
        if key not in expected:
            yield Contradicted(f"{place} / {key}: saved {short_value(value)}, but runs record no such setting")
        elif isinstance(value, Mapping) and isinstance(expected[key], Mapping):
            yield from _unknown_settings(f"{place} / {key}", value, expected[key])


@dataclass(frozen=True, slots=True, eq=False)
class RerunSource:
    """A data set whose queries can be predicted again, because its prompts are known to be those of the run."""

    scored: ScoredResult
    """The result, with its data sets scored again."""
    dataset: str
    """The name of the data set."""

    @property
    def place(self) -> str:
        """The path of the data set within the file, for findings."""
        return f"{self.scored.where}{self.dataset}"

    @property
    def predictor(self) -> Identity:
        """The identity of the model that predicted the data set; an empty one if the result names none."""
        for predictor in self.scored.result.provenance.predictors:
            if self.dataset in predictor.datasets:
                return Identity(predictor.who, predictor.how)
        return Identity({})

    @property
    def experimentor(self) -> BaseExperimentor:
        """The data set of the benchmark."""
        experimentor: BaseExperimentor = self.scored.benchmark[self.dataset]
        return experimentor

    @property
    def run(self) -> DatasetRun:
        """The run that follows from the recorded predictions of the data set."""
        return self.scored.runs[self.dataset]


_ENTRIES_NOT_SHARED = (DIVIDED, "details", "environment", "timing")
"""Entries of a result that :meth:`ScoredResult.shared` does not compare. They were compared before, data set by data
set, or only the run can know them."""
_DETAILS_NOT_FROM_PREDICTIONS = ("prompts", "query_digests", "label_mass", "dropped")
"""Details of a data set that do not follow from its predictions. The digests of the prompts are compared before."""
_PREDICTOR_FIELDS_OF_RUN = (
    "name",
    "started",
    "finished",
    "editions",
    "computed",
    "reused",
    "rechecked",
    "retried",
    "tokens_read",
    "tokens_generated",
)
"""The fields of a predictor (a model in the provenance) that only the run can know."""
OTHER_SCHEMA = {"schema": f"another one than this version writes, {RESULT_SCHEMA}"}
"""The key of a file's schema number, with the reason why another number is unchecked instead of contradicted."""
_VERSION_DEPENDENT_KEYS = ("version", "scoring", "statistics", "intervals", "missing", "baselines", "notes", "warnings")
"""Keys of the values that another version of this library may have computed in another way."""


def _all_fields(signature: Signature) -> dict[str, str | None]:
    """Return the value of each field that a signature may have; ``None`` for a default, which it leaves out."""
    return {name: signature.fields.get(name) for name in FIELDS}


def reasons_for_unknown(result: Result, own_metrics: Sequence[str]) -> dict[str, str]:
    """Return the keys of a saved result whose values this library cannot judge, each with the reason.

    A difference at such a key is unchecked, not contradicted. There are three reasons. The file may have another number
    of the schema. Another version of this library may have computed the value in another way. Or the value depends on
    metrics of the user's own, whose functions are not in the file.

    Args:
        result: The result.
        own_metrics: The names of the user's own metrics in the result, which the rebuilt benchmark does not have.

    Returns:
        The reasons by key, such as ``{"metrics": "mine is the user's own; ..."}``.
    """
    reasons = dict(OTHER_SCHEMA)
    version = result.signature.fields.get("version")
    if version != __version__:
        reason = f"computed by version {short_value(version)}, this is {__version__}"
        for key in _VERSION_DEPENDENT_KEYS:
            reasons[key] = reason
    if own_metrics:
        reason = f"{'+'.join(own_metrics)} is the user's own; pass the benchmark in Python: verify(result, benchmark)"
        reasons["metrics"] = reason
        reasons["statistics"] = reason
    return reasons


def recorded_predictions(result: Result) -> Predictions:
    """Return which model predicted each data set of a saved result, as a run has this record before it saves a result.

    The benchmark makes a result from scored data sets and this record
    (:meth:`~StaICC.benchmarks.running.BaseBenchmark.collect`). So the provenance is computed again by the code of a
    run, and can be compared with the saved one. Times and counts, which only the run knew, are empty.

    Args:
        result: The saved result.
    """
    # The field "scoring" of the signature, such as "function;parser=5", ends with the version of the parser
    # if labels were read from generated replies.
    scoring = result.signature.fields.get("scoring") or ""
    has_replies = False
    parser = ""
    if ";parser=" in scoring:
        # The patterns of this module take long to load, and are made for replies only.
        from StaICC.inference.reply_parser import PARSER_VERSION

        parser = f";parser={PARSER_VERSION}"
        has_replies = scoring.endswith(parser)
    records: dict[str, RunRecord] = {}
    given_name = None
    for predictor in result.provenance.predictors:
        if GIVEN in predictor.who:
            given_name = predictor.name
            continue  # No model of the run made these predictions, and a data set without a record says so.
        # The provenance merges functions with equal and complete identities. The saved predictors are merged already,
        # so each one is marked as plain, which means incomplete: it is not merged with another one.
        identity = Identity(predictor.who, predictor.how, predictor.unidentified, plain=True)
        record = RunRecord(identity, predictor.name, started="", finished="", counts=Counter(), replies=has_replies)
        for dataset in predictor.datasets:
            records[dataset] = record
    return Predictions(
        records,
        batched=";batched" in scoring,
        given=f"given{parser}" if has_replies else "given",
        given_name=given_name,
        warnings=result.warnings,
    )


def _recorded_answers(details: DatasetDetails, n_labels: int) -> Iterator[Answer | Failure]:
    """Yield the recorded prediction of each query of a data set, over all conditions.

    A prediction is the list of label scores if the file has them, otherwise the predicted label. For a query that
    failed, and for a reply without a label, it is a :class:`~StaICC.inference.replies.Failure`.

    Args:
        details: The saved details of the data set.
        n_labels: The number of labels.

    Raises:
        SchemaError: A query has neither a prediction nor a reason, or the label does not exist.
    """
    failures = recorded_failures(details)
    for record in details.conditions:
        score_rows = record.label_scores(n_labels)
        recorded = zip(record.truth, score_rows, record.predictions, strict=True)
        for number, (_true_label, score_row, label) in enumerate(recorded):
            failure = failures.get((record.name, number))
            if failure is not None:
                yield failure
            elif score_row is not None:
                yield score_row
            elif label is not None and 0 <= label < n_labels:
                yield label
            else:
                raise SchemaError(f"prediction {number} is {label}, but there are {n_labels} labels")
