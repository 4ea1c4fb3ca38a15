"""A saved result that is scored a second time, from its own records."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

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
from StaICC.benchmarks.prompt_digests import PromptDigests, compare_prompts, digest_prompts
from StaICC.benchmarks.race import marked, replay
from StaICC.benchmarks.rebuilding import UNREADABLE, finding_of_error
from StaICC.benchmarks.records import Written, count_distinct
from StaICC.benchmarks.running import BaseBenchmark, DatasetTask
from StaICC.benchmarks.task import Condition
from StaICC.errors import SchemaError, StaICCError
from StaICC.inference.contract import Answer
from StaICC.inference.identity import Identity
from StaICC.inference.recheck import RunRecord
from StaICC.inference.replies import Failure, unlabelled
from StaICC.inference.reply_parser import PARSER_VERSION
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
    """The keys of the values that cannot be judged, with the reason (:func:`reasons_for_unknown`)."""
    sources: list[RerunSource] | None
    """A list to which the data sets that can be predicted again are added; ``None`` if nothing is predicted again."""
    runs: dict[str, DatasetRun] = field(default_factory=dict)
    """The run over each data set that was scored, by name."""

    def dataset(self, name: str) -> Verification:
        """Score the records of a data set again, compare with the saved values, and return what differs.

        The prompts of the data set are written again for this. If its records can be scored, its run is added to
        :attr:`runs`.

        Args:
            name: The name of the data set.
        """
        place = f"{self.where}details / {name}"
        findings: list[Finding] = []
        same: bool | None = None
        first_difference: int | None = None
        message = "nothing was computed again"
        try:
            details = self.result.details[name]
            absent_run = self._absent_run(name)
            conditions: Sequence[Condition] = ()
            written: list[Written] = []
            digests = PromptDigests(of_all="", marks="")  # as the run records them of an absent data set
            if absent_run is None:
                conditions = self.benchmark[name].conditions()
                queries = (query for condition in conditions for query in condition.queries)
                digests = digest_prompts(queries, written)
            comparison = compare_prompts(details, digests)
            same = comparison.same
            first_difference = comparison.first_difference
            message = comparison.message
            if not same:
                compared_field = "prompts" if first_difference is None else "query_digests"
                findings.append(Contradicted(f"{place} / {compared_field}: {message}"))
            run = absent_run
            if run is None:
                run = self._score(name, conditions, written)
        except UNREADABLE as error:
            findings.append(finding_of_error(f"{place} / conditions", error))
        else:
            self.runs[name] = run
            findings += self._compare_dataset(name, run)
            if same and run.answers and self.sources is not None:
                self.sources.append(RerunSource(self, name))
        return Verification(
            self.result.benchmark,
            name,
            message,
            limited(place, findings),
            same=same,
            first_difference=first_difference,
        )

    def _absent_run(self, name: str) -> DatasetRun | None:
        """Return the empty run of a data set whose files are not there; ``None`` for any other data set."""
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
        experimentor: DatasetTask = self.benchmark[name]
        if experimentor.unrecorded is not None:
            return self._saved_run(name, written)

        written_sizes = [(condition.name, len(condition.queries)) for condition in conditions]
        recorded_sizes = [(record.name, len(record.truth)) for record in details.conditions]
        if written_sizes != recorded_sizes:
            raise SchemaError(f"saved {short_value(recorded_sizes)}, written {short_value(written_sizes)}")
        answers = list(_recorded_answers(details, n_labels=len(experimentor.get_label_space())))
        run = experimentor.assemble(conditions, answers)
        if experimentor.free_text:
            # The file has the labels that were read from the texts, but not the texts. So the recomputed kind of the
            # predictions is that of labels, and is replaced by the saved kind.
            records = []
            for computed, saved in zip(run.details.conditions, details.conditions, strict=True):
                records.append(replace(computed, output=saved.output))
            run = replace(run, details=replace(run.details, conditions=tuple(records)))
        return run

    def _saved_run(self, name: str, written: Sequence[Written]) -> DatasetRun:
        """Return the run of a data set whose predictions the file does not record.

        Its scores are the saved ones, which nothing computes again. The numbers of queries and the digest of the data
        are computed again.

        Args:
            name: The name of the data set.
            written: The records of its queries.
        """
        details = self.result.details[name]
        known_details = replace(
            details,
            asked=len(written),
            distinct=count_distinct(written),
            data=self.benchmark[name].data_digest,
        )
        scores = self.result.divided[name]
        averaged = {key: scores.get(key) for key in self.result.averaged}
        # Some notes of a data set are warnings of the result, where the name of the data set is in front.
        warnings = tuple(note for note in details.notes if f"{name}: {note}" in self.result.warnings)
        return DatasetRun(
            values=scores,
            averaged=averaged,
            details=known_details,
            outcomes=(),
            intervals=known_details.intervals,
            answers=(),
            warnings=warnings,
        )

    def _compare_dataset(self, name: str, run: DatasetRun) -> Iterator[Finding]:
        """Compare the saved scores and details of a data set with those of its recomputed run.

        Args:
            name: The name of the data set.
            run: The run that follows from its records.
        """
        unrecorded = self._why_unrecorded(name)
        expected_scores: Mapping[str, Any] | Unchecked = run.values
        if unrecorded is not None:
            expected_scores = Unchecked(unrecorded)
        saved_scores = self.saved[DIVIDED][name]
        yield from compare_values(f"{self.where}{DIVIDED} / {name}", saved_scores, expected_scores, self.unknown)

        saved_details = self.saved["details"][name]
        expected_details = run.details.to_dict()
        for key in _NOT_OF_RECORDS:
            expected_details[key] = saved_details[key]
        yield from compare_values(f"{self.where}details / {name}", saved_details, expected_details, self.unknown)

    def _why_unrecorded(self, name: str) -> str | None:
        """Return why the scores of a data set cannot be computed from the file; ``None`` if they can."""
        details = self.result.details[name]
        if details.dropped and self.benchmark[name].free_text:
            return "prompts lost demonstrations, and the file does not record which ones"
        if self._absent_run(name) is not None:
            return None
        experimentor: DatasetTask = self.benchmark[name]
        return experimentor.unrecorded

    def shared(self, race: bool) -> Iterator[Finding]:
        """Compare what the data sets share (means, signature, provenance) with that of the recomputed result.

        Args:
            race: Whether the result is one of the two of a race. The caller then compares the decision to stop, which
                follows from both results.
        """
        recomputed = self._recomputed_result()
        expected = recomputed.to_dict()
        for key in _COMPARED_BEFORE:
            expected[key] = self.saved[key]
        self._copy_records_of_predictors(expected)

        stopping = self.result.stopping
        if stopping is not None and not race:
            if stopping.rule == "race":
                expected["stopping"] = Unchecked("the decision of a race follows from both of its results, this is one")
            else:
                yield from self.replayed([self])

        saved = {**self.saved, "signature": _all_fields(self.result.signature)}
        expected["signature"] = _all_fields(recomputed.signature)
        yield from compare_values(self.where.removesuffix(" / "), saved, expected, self.unknown)

    def _recomputed_result(self) -> Result:
        """Return the result that is computed from the scored data sets.

        What only the run could know, such as its times, is copied from the saved result.
        """
        saved = self.result
        runs = {name: self.runs[name] for name in self.benchmark.dataset_names}
        recomputed = self.benchmark.collect(runs, recorded_predictions(saved), divided=saved.with_divided)
        if saved.stopping is not None:
            recomputed = marked(recomputed, saved.stopping)

        # Signature and provenance both state the method, which nothing computes. Each is compared with the other one.
        recomputed.signature = Signature({**recomputed.signature.fields, "method": saved.provenance.method})
        recomputed.provenance = replace(recomputed.provenance, method=saved.signature.fields.get("method"))

        # A data file is found by its digest, so it may have another name than in the run.
        for name in recomputed.files.keys() & saved.files.keys():
            recomputed.files[name] = {**recomputed.files[name], "file": saved.files[name].get("file")}
        return recomputed

    def _copy_records_of_predictors(self, expected: dict[str, Any]) -> None:
        """Copy from the saved result what only the run can know about its models, such as their times and counts.

        Args:
            expected: The JSON values of the recomputed result, which are changed.
        """
        parses_texts = any(experimentor.free_text for experimentor in self.benchmark)
        expected_predictors = expected["provenance"]["predictors"]
        saved_predictors = self.saved["provenance"]["predictors"]
        for expected_predictor, saved_predictor in zip(expected_predictors, saved_predictors, strict=False):
            copied_keys = list(_OF_RUNS)
            # The digest of given predictions is their identity. Texts are not in the file, so it cannot be computed.
            if parses_texts and GIVEN in saved_predictor["who"]:
                copied_keys += ["who", "identity"]
            for key in copied_keys:
                if key in saved_predictor:
                    expected_predictor[key] = saved_predictor[key]

    def replayed(self, models: Sequence[ScoredResult]) -> Iterator[Finding]:
        """Apply the stopping rule to the predictions again, and compare the decision with the saved one.

        Args:
            models: The results that the rule depends on: this one, or the two of a race.
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


@dataclass(frozen=True, slots=True, eq=False)
class RerunSource:
    """A data set whose queries can be predicted again, since its prompts are those of the result."""

    scored: ScoredResult
    """The result."""
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
    def experimentor(self) -> DatasetTask:
        """The data set of the benchmark."""
        experimentor: DatasetTask = self.scored.benchmark[self.dataset]
        return experimentor

    @property
    def run(self) -> DatasetRun:
        """The run that the records were scored as."""
        return self.scored.runs[self.dataset]


_COMPARED_BEFORE = (DIVIDED, "details", "environment", "timing")
"""Entries of a result that were compared data set by data set, or that only the run can know."""
_NOT_OF_RECORDS = ("prompts", "query_digests", "label_mass", "dropped")
"""Details of a data set that do not follow from its predictions. The digests of the prompts are compared before."""
_OF_RUNS = ("name", "started", "finished", "editions", "computed", "reused", "rechecked", "retried")
"""The fields of a predictor that only the run can know."""
OTHER_SCHEMA = {"schema": f"another one than this version writes, {RESULT_SCHEMA}"}
"""The reason why another number of the schema is unchecked."""
_OF_VERSIONS = ("version", "scoring", "statistics", "intervals", "missing", "baselines", "notes", "warnings")
"""Keys of values that another version of this library may have computed in another way."""


def _all_fields(signature: Signature) -> dict[str, str | None]:
    """Return the value of each field that a signature may have; ``None`` for one that it leaves out as a default."""
    return {name: signature.fields.get(name) for name in FIELDS}


def reasons_for_unknown(result: Result, own_metrics: Sequence[str]) -> dict[str, str]:
    """Return the keys whose values cannot be judged, with the reason: another version, or metrics of the user's own.

    Args:
        result: The result.
        own_metrics: The names of the user's own metrics in the result, which the rebuilt benchmark does not have.
    """
    reasons = dict(OTHER_SCHEMA)
    version = result.signature.fields.get("version")
    if version != __version__:
        reason = f"computed by version {short_value(version)}, this is {__version__}"
        for key in _OF_VERSIONS:
            reasons[key] = reason
    if own_metrics:
        reason = f"{'+'.join(own_metrics)} is the user's own; pass the benchmark"
        reasons["metrics"] = reason
        reasons["statistics"] = reason
    return reasons


def recorded_predictions(result: Result) -> Predictions:
    """Return the provenance of the predictions of a saved result, in the form in which a run has it.

    The code of a run computes the provenance in the file from it a second time.
    """
    scoring = result.signature.fields.get("scoring") or ""
    parser = f";parser={PARSER_VERSION}"
    has_replies = scoring.endswith(parser)
    records: dict[str, RunRecord] = {}
    for predictor in result.provenance.predictors:
        if GIVEN in predictor.who:
            continue
        # Two functions may have equal identities; a plain one is not merged with another.
        identity = Identity(predictor.who, predictor.how, predictor.unidentified, plain=True)
        record = RunRecord(identity, predictor.name, started="", finished="", counts=Counter(), replies=has_replies)
        for dataset in predictor.datasets:
            records[dataset] = record
    return Predictions(
        records,
        batched=";batched" in scoring,
        given=f"given{parser}" if has_replies else "given",
        warnings=result.warnings,
    )


def _recorded_answers(details: DatasetDetails, n_labels: int) -> Iterator[Answer | Failure]:
    """Yield the prediction of each query of a data set, as its records have it.

    It is the list of label scores if the file has them, otherwise the predicted label. A query without a prediction
    yields its failure.

    Args:
        details: The saved details of the data set.
        n_labels: The number of labels.

    Raises:
        SchemaError: A query has neither a prediction nor a reason, or the label does not exist.
    """
    failures: dict[tuple[str, int], Failure] = {}
    for failed in details.failures:
        failures[failed.condition, failed.query] = Failure(failed.reason)
    for reply in details.unparsed:
        failures[reply.condition, reply.query] = unlabelled(reply.reason)
    for record in details.conditions:
        failures_of_record = [failures.get((record.name, number)) for number in range(len(record.truth))]
        score_rows = record.label_scores(n_labels)
        recorded = zip(failures_of_record, score_rows, record.predictions, strict=True)
        for number, (failure, score_row, label) in enumerate(recorded):
            if failure is not None:
                yield failure
            elif score_row is not None:
                yield score_row
            elif label is not None and 0 <= label < n_labels:
                yield label
            else:
                raise SchemaError(f"prediction {number} is {label}, but there are {n_labels} labels")
