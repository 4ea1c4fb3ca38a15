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
from StaICC.benchmarks.prompt_digests import compare_prompts, digest_prompts
from StaICC.benchmarks.race import marked, replay
from StaICC.benchmarks.rebuilding import UNREADABLE, finding_of_error
from StaICC.benchmarks.records import Written
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
    """As for :func:`compare_values`."""
    sources: list[tuple[ScoredResult, str]] | None
    """Gets the data sets that can be predicted again; ``None`` if none is."""
    runs: dict[str, DatasetRun] = field(default_factory=dict)
    """The scored data sets."""

    def predictor(self, name: str) -> Identity:
        """Return the identity of the model that predicted a data set."""
        predictors = (own for own in self.result.provenance.predictors if name in own.datasets)
        return next((Identity(own.who, own.how) for own in predictors), Identity({}))

    def dataset(self, name: str) -> Verification:
        """Write the prompts of a data set, score its records, and compare."""
        place, seen, findings = f"{self.where}details / {name}", list[Written](), list[Finding]()
        same, first, message = None, None, "nothing was computed again"
        try:
            details = self.result.details[name]
            absent = None if details.asked else self.benchmark.absent.get(name)
            conditions = self.benchmark[name].conditions() if absent is None else ()
            queries = (query for condition in conditions for query in condition.queries)
            digests = digest_prompts(queries, seen) if absent is None else ("", "")
            same, first, message = compare_prompts(details, *digests)
            if not same:
                findings.append(Contradicted(f"{place} / {'prompts' if first is None else 'query_digests'}: {message}"))
            run = absent or self._score(name, conditions, seen)
        except UNREADABLE as error:
            findings.append(finding_of_error(f"{place} / conditions", error))
        else:
            self.runs[name] = run
            unrecorded = None if absent is not None else self.benchmark[name].unrecorded
            if details.dropped and self.benchmark[name].free_text:
                unrecorded = "prompts lost demonstrations, and the file does not record which ones"
            values = run.values if unrecorded is None else Unchecked(unrecorded)
            saved = self.saved["details"][name]
            recorded = {key: saved[key] for key in ("prompts", "query_digests", "label_mass", "dropped")}
            findings += compare_values(
                f"{self.where}{DIVIDED} / {name}", self.saved[DIVIDED][name], values, self.unknown
            )
            expected = run.details.to_dict() | recorded  # compared before, or recorded with the predictions
            findings += compare_values(place, saved, expected, self.unknown)
            if same and run.answers and self.sources is not None:
                self.sources.append((self, name))
        return Verification(self.result.benchmark, name, message, limited(place, findings), same, first)

    def _score(self, name: str, conditions: Sequence[Condition], seen: Sequence[Written]) -> DatasetRun:
        """Score the records of a data set.

        Raises:
            StaICCError: The records are not those of the benchmark's queries.
        """
        details: DatasetDetails = self.result.details[name]
        own: DatasetTask = self.benchmark[name]
        if own.unrecorded is not None:
            saved = self.result.divided[name]
            distinct = len({written[:2] for written in seen})
            known = replace(details, asked=len(seen), distinct=distinct, data=own.data_digest)
            averaged = {key: saved.get(key) for key in self.result.averaged}
            warnings = tuple(note for note in details.notes if f"{name}: {note}" in self.result.warnings)
            return DatasetRun(saved, averaged, known, (), known.intervals, (), warnings=warnings)
        written = [(condition.name, len(condition.queries)) for condition in conditions]
        recorded = [(record.name, len(record.truth)) for record in details.conditions]
        if written != recorded:
            raise SchemaError(f"saved {short_value(recorded)}, written {short_value(written)}")
        run = own.assemble(conditions, list(_answers(details, len(own.get_label_space()))))
        if own.free_text:  # the run recorded the kind of its predictions, and the labels that were read
            pairs = zip(run.details.conditions, details.conditions, strict=True)
            kinds = tuple(replace(computed, output=saved.output) for computed, saved in pairs)
            run = replace(run, details=replace(run.details, conditions=kinds))
        return run

    def shared(self, race: bool) -> Iterator[Finding]:
        """Compare what the data sets share with that of the recomputed result, into which the records of the run go."""
        result, benchmark = self.result, self.benchmark
        runs = {name: self.runs[name] for name in benchmark.dataset_names}
        again = benchmark.collect(runs, recorded_predictions(result), divided=result.with_divided)
        if result.stopping is not None:
            again = marked(again, result.stopping)
        again.signature = Signature({**again.signature.fields, "method": result.provenance.method})
        again.provenance = replace(again.provenance, method=result.signature.fields.get("method"))
        for name in again.files.keys() & result.files.keys():
            again.files[name] = {**again.files[name], "file": result.files[name].get("file")}
        not_compared = (DIVIDED, "details", "environment", "timing")  # compared before, or of the run only
        expected = again.to_dict() | {key: self.saved[key] for key in not_compared}
        pairs = zip(expected["provenance"]["predictors"], self.saved["provenance"]["predictors"], strict=False)
        texts = any(experimentor.free_text for experimentor in benchmark)  # their digest is of texts that no file has
        for computed, saved in pairs:
            copied = (*_OF_RUNS, "who", "identity") if texts and GIVEN in saved["who"] else _OF_RUNS
            computed |= {key: saved[key] for key in copied if key in saved}
        if result.stopping is not None and not race:
            if result.stopping.rule == "race":
                expected["stopping"] = Unchecked("the decision of a race follows from both of its results, this is one")
            else:
                yield from self.replayed([self])
        saved, expected["signature"] = (  # a field that a signature lacks states a default
            {field: one.signature.fields.get(field) for field in FIELDS} for one in (result, again)
        )
        yield from compare_values(
            self.where.removesuffix(" / "), {**self.saved, "signature": saved}, expected, self.unknown
        )

    def replayed(self, models: Sequence[ScoredResult]) -> Iterator[Finding]:
        """Follow the stopping rule over the predictions of the models, and compare with the saved record."""
        stopping, place = self.result.stopping, f"{self.where}stopping"
        if stopping is None:
            yield Contradicted(f"{place}: saved nothing, but the results of a race have the record of its decision")
            return
        try:
            expected = replay(stopping, self.benchmark.experimentor, [model.runs for model in models])
        except (StaICCError, LookupError) as error:
            yield Contradicted(f"{place}: {error}")
        else:
            yield from compare_values(place, stopping.to_dict(), expected.to_dict())


_OF_RUNS = ("name", "started", "finished", "editions", "computed", "reused", "rechecked", "retried")
"""What a run alone can know of who predicted."""
OTHER_SCHEMA = {"schema": f"another one than this version writes, {RESULT_SCHEMA}"}
_OF_VERSIONS = ("version", "scoring", "statistics", "intervals", "missing", "baselines", "notes", "warnings")
"""What another version of this library may have computed in another way."""


def reasons_for_unknown(result: Result, own: Sequence[str]) -> dict[str, str]:
    """Return the keys whose values cannot be judged, with the reason: another version, or metrics of the user's own."""
    reasons, version = dict(OTHER_SCHEMA), result.signature.fields.get("version")
    if version != __version__:
        reasons |= dict.fromkeys(_OF_VERSIONS, f"computed by version {short_value(version)}, this is {__version__}")
    if own:
        reason = f"{'+'.join(own)} is the user's own; pass the benchmark"
        reasons |= dict.fromkeys(("metrics", "statistics"), reason)
    return reasons


def recorded_predictions(result: Result) -> Predictions:
    """Return who predicted, as the run recorded it; the run's code computes identities and counts from it again."""
    scoring = result.signature.fields.get("scoring") or ""
    replies, batched = scoring.endswith(parser := f";parser={PARSER_VERSION}"), ";batched" in scoring
    records: dict[str, RunRecord] = {}
    for saved in result.provenance.predictors:
        identity = Identity(saved.who, saved.how, saved.unidentified, plain=True)  # equal ones may be two functions
        record = RunRecord(identity, saved.name, "", "", Counter(), replies=replies)
        records |= dict.fromkeys(() if GIVEN in saved.who else saved.datasets, record)
    return Predictions(records, batched, given=f"given{parser}" if replies else "given", warnings=result.warnings)


def _answers(details: DatasetDetails, labels: int) -> Iterator[Answer | Failure]:
    """Yield the predictions of a data set: label scores, or else predicted labels."""
    failures = {(failed.condition, failed.query): Failure(failed.reason) for failed in details.failures}
    failures |= {(reply.condition, reply.query): unlabelled(reply.reason) for reply in details.unparsed}
    for record in details.conditions:
        failed = [failures.get((record.name, number)) for number in range(len(record.truth))]
        rows = record.label_scores(labels)
        for number, known in enumerate(zip(failed, rows, record.predictions, strict=True)):
            answer = next((answer for answer in known if answer is not None), None)
            if answer is None or (isinstance(answer, int) and not 0 <= answer < labels):
                raise SchemaError(f"prediction {number} is {answer}, but there are {labels} labels")
            yield answer
