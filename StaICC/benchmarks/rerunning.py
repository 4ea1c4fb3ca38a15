"""Queries of a saved result that a model predicts again."""

from __future__ import annotations

import random
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, TypeGuard

from StaICC.arguments import set_integers
from StaICC.benchmarks.context import RunContext
from StaICC.benchmarks.findings import Contradicted, Finding, Results, Unchecked, Verification, limited, short_value
from StaICC.benchmarks.rerun_scores import DatasetRerun, RerunScore, rerun_score
from StaICC.benchmarks.rescoring import RerunSource, ScoredResult, recorded_predictions
from StaICC.inference.contract import Answer, Inference
from StaICC.inference.function_check import refuse_unsuitable_function
from StaICC.inference.identity import Identity, identity_of
from StaICC.inference.recheck import TOLERANCE, difference, tolerance_of
from StaICC.inference.replies import Failure
from StaICC.inference.runner import Part, predict_queries
from StaICC.prompting.prompt_writer import Query
from StaICC.results.predictor import GIVEN
from StaICC.results.result import ResultGroup


@dataclass(frozen=True, slots=True)
class Rerun:
    """Options for predicting some queries of a result again.

    The queries are drawn at random from all parts, data sets and conditions.

    Raises:
        ArgumentError: The model is no function, or the number of queries is not positive.
    """

    model: Inference
    """The inference function, such as a kernel."""
    queries: int = 20
    """The maximum number of queries."""
    seed: int = field(default_factory=lambda: secrets.randbelow(10**9))
    """The seed with which the queries are drawn; random by default. The finding states it."""

    def __post_init__(self) -> None:
        set_integers(self, queries=1)
        refuse_unsuitable_function(self.model, "model")


Prediction = Answer | Failure
"""The prediction of a query, or its failure. A reply without a label is a failure, too, which has the reply."""
NewPredictions = dict[RerunSource, dict[int, Prediction]]
"""The new predictions of each data set, by the number of the query in it."""


def predict_again(
    rerun: Rerun, name: str, sources: Sequence[RerunSource], whole: Results | None = None
) -> Verification:
    """Return the findings about random queries of a result, which a model predicts again.

    A new prediction that differs from the saved one by more than the tolerance of the model contradicts it.

    Args:
        rerun: The model, the number of queries and the seed.
        name: The name of the result.
        sources: The data sets from which queries are drawn. If several models predicted the data sets, those of other
            models than the given one are left out.
        whole: The complete result. If it is given, the returned verification has a copy of it with the new predictions
            and the scores that follow from them. ``None`` makes no copy.
    """
    candidates = _candidates_of(sources, identity_of(rerun.model))
    numbers_by_source = _draw_numbers(candidates.queries, rerun)
    comparison = _RerunComparison(declared_tolerance=tolerance_of(rerun.model))
    with RunContext(False, on_error="collect", progress=False) as context:
        context.start([rerun.model])
        for source, numbers in numbers_by_source.items():
            for repeated in _predict_queries(rerun.model, source, numbers, context):
                comparison.add(source, repeated)

    scores = _rerun_scores(comparison.predictions, comparison.tolerance)
    if candidates.queries:
        n_chosen = sum(len(numbers) for numbers in numbers_by_source.values())
        message = (
            f"{n_chosen} of {len(candidates.queries)} queries predicted again (seed {rerun.seed}): "
            f"{comparison.n_differing} differ, by at most {comparison.largest_difference:.2g} (accepted: "
            f"{comparison.tolerance:g})"
        )
    else:
        message = "no query could be predicted again"
    for score in scores:
        message += f"; {score}"
    recomputed = None
    if whole is not None:
        recomputed = _with_predictions(whole, comparison.predictions)
    findings = limited("rerun", [*candidates.findings, *comparison.findings])
    return Verification(name, None, message, findings, scores=scores, recomputed=recomputed)


class _Candidate(NamedTuple):
    """A query that the model may predict again."""

    source: RerunSource
    """Its data set."""
    number: int
    """Its number, counted from 0 over all conditions of the data set."""


class _Candidates(NamedTuple):
    """The queries that a model may predict again, and findings about the data sets."""

    queries: list[_Candidate]
    findings: list[Finding]
    """For each data set that is left out the reason; for any other one, how the model differs from that of the run."""


def _candidates_of(sources: Sequence[RerunSource], model: Identity) -> _Candidates:
    """Return the queries that a model can predict again, with findings about the data sets.

    A data set is left out, with a finding, if the model cannot predict its queries as the run did, for example because
    the run has a method or other settings. A data set that another model predicted in the run is not left out, but has
    a finding as well: the predictions may then differ for this reason.

    Args:
        sources: The data sets of the results, each with its run.
        model: The identity of the model.
    """
    queries: list[_Candidate] = []
    findings: list[Finding] = []
    several_models = _has_several_models(sources)
    for source in sources:
        refusal = _why_not_predicted_again(source, model, several_models)
        if refusal is not None:
            findings.append(Unchecked(f"{source.place}: not predicted again, {refusal}"))
            continue
        query_count = len(source.run.answers)
        queries += [_Candidate(source, number) for number in range(query_count)]
        difference_of_model = _difference_of_model(source, model)
        if difference_of_model is not None:
            findings.append(Unchecked(f"{source.place}: {difference_of_model}"))
    if not queries:
        findings.append(Unchecked("rerun: no query has a known prompt and a prediction of this model"))
    return _Candidates(queries, findings)


def _draw_numbers(candidates: Sequence[_Candidate], rerun: Rerun) -> dict[RerunSource, list[int]]:
    """Return the numbers of the queries to predict again, in order and by data set, drawn at random.

    Args:
        candidates: The queries that can be predicted again.
        rerun: The maximum number of queries, and the seed.
    """
    n_chosen = min(rerun.queries, len(candidates))
    chosen = random.Random(rerun.seed).sample(range(len(candidates)), n_chosen)
    numbers_by_source: dict[RerunSource, list[int]] = {}
    for index in sorted(chosen):
        candidate = candidates[index]
        numbers_by_source.setdefault(candidate.source, []).append(candidate.number)
    return numbers_by_source


def _has_several_models(sources: Sequence[RerunSource]) -> bool:
    """Return whether several models predicted the data sets.

    Given predictions do not count, because they name no model.
    """
    digests = set()
    for source in sources:
        predictor = source.predictor
        if GIVEN not in predictor.who:
            digests.add(predictor.digest)
    return len(digests) > 1


def _why_not_predicted_again(source: RerunSource, model: Identity, several_models: bool) -> str | None:
    """Return the reason why a model does not predict queries of a data set again; ``None`` if it does.

    Args:
        source: The data set.
        model: The identity of the model.
        several_models: Whether several models predicted the data sets of the result. Each data set then needs the
            model that predicted it.
    """
    result = source.scored.result
    predictor = source.predictor
    if result.method != "vanilla":
        return f"its method is {result.method:.60}"
    settings = _different_settings(predictor, model)
    differences = _differences(predictor, model)
    is_another_model = len(differences) > len(settings)
    if settings and is_another_model:
        return f"another model: {_as_text(differences):.300}; give the model and the options of the run"
    if settings:
        return f"{_as_text(settings):.300}; give the options of the run"
    if several_models and predictor.digest != model.digest:
        return "another model predicted it"
    identities = [recorded.identity for recorded in result.provenance.predictors]
    if identities.count(predictor.digest) > 1:
        return "two functions of the run have its identity"
    return None


_Differences = dict[str, tuple[str | None, str | None]]
"""The facts and settings in which two models differ, by name: the value of the model in the run, and the value now."""


def _different_settings(predictor: Identity, model: Identity) -> _Differences:
    """Return the settings in which a model differs from the model of the run; empty for given predictions.

    A setting says how label scores are computed, such as ``label_scoring``.
    """
    settings = predictor.settings.keys() | model.settings.keys()
    differences: _Differences = {}
    for name, values in _differences(predictor, model).items():
        if name in settings:
            differences[name] = values
    return differences


def _differences(predictor: Identity, model: Identity) -> _Differences:
    """Return all facts and settings in which a model differs from the model of the run.

    A fact says which model it is, such as ``weights`` or ``dtype``.

    Args:
        predictor: The model of the run, as the result records it. Given predictions have no model, so nothing differs.
        model: The model that is used now.
    """
    are_given_predictions = GIVEN in predictor.who  # then `who` has their digest under this key
    if are_given_predictions:
        return {}
    return predictor.differences(model)


def _difference_of_model(source: RerunSource, model: Identity) -> str | None:
    """Return a text that says how a model differs from the model of the run; ``None`` if it does not differ."""
    differences = _differences(source.predictor, model)
    if not differences:
        return None
    return f"another model: {_as_text(differences):.300}"


def _as_text(differences: _Differences) -> str:
    """Return the differences of two models as a text, such as ``dtype was float32, is bfloat16``."""
    phrases = [f"{name} was {before}, is {now}" for name, (before, now) in differences.items()]
    return ", ".join(phrases)


@dataclass(frozen=True, slots=True)
class _RepeatedQuery:
    """A query with its two predictions: the one in the result, and the new one."""

    place: str
    """The data set, the condition and the number of the query in the condition, for findings."""
    number: int
    """The number of the query, counted from 0 over all conditions of the data set."""
    saved: Prediction
    """The prediction in the result."""
    new: Prediction
    """The new prediction."""


def _predict_queries(
    model: Inference, source: RerunSource, numbers: Sequence[int], context: RunContext
) -> list[_RepeatedQuery]:
    """Return some queries of a data set, each with its saved prediction and the new prediction of a model.

    Args:
        model: The model that predicts the queries again.
        source: The data set.
        numbers: The numbers of the queries, counted from 0 over all conditions.
        context: The context in which the queries are predicted.
    """
    experimentor = source.experimentor
    queries: list[Query] = []
    places: list[str] = []
    for condition in experimentor.conditions():
        for number_in_condition, query in enumerate(condition.queries):
            queries.append(query)
            places.append(f"{source.place} / {condition.name} / query {number_in_condition} (test row {query.row})")

    # With unparsed="wrong", a reply without a label does not end the predictions. It is returned as a failure with the
    # reply, and compared with the saved prediction, which may be such a reply, too.
    options = replace(context.options_for(model, free_text=experimentor.task.free_text), unparsed="wrong")
    answers = predict_queries(model, [queries[number] for number in numbers], Part("rerun"), options)
    repeated = []
    for number, answer in zip(numbers, answers, strict=True):
        repeated.append(
            _RepeatedQuery(
                place=places[number],
                number=number,
                saved=source.run.answers[number],
                new=experimentor.read_again(number, answer),
            )
        )
    return repeated


class _RerunComparison:
    """The comparison of new predictions with the saved ones, query by query.

    Args:
        declared_tolerance: The largest difference of two predictions of a query that the model declares. ``None`` if
            it declares none: its predictions may change, so a difference is unchecked instead of contradicted.

    Attributes:
        tolerance: The largest accepted difference: the declared one, or else a default.
        predictions: The new predictions of queries that failed neither in the run nor now.
        findings: The queries that failed, and those whose predictions differ by more than the tolerance.
        n_differing: How many predictions differ by more than the tolerance.
        largest_difference: The largest difference of two predictions.
    """

    def __init__(self, declared_tolerance: float | None) -> None:
        """Begin without any predictions."""
        self.tolerance = TOLERANCE if declared_tolerance is None else declared_tolerance
        self.predictions: NewPredictions = {}
        self.findings: list[Finding] = []
        self.n_differing = 0
        self.largest_difference = 0.0
        self._may_change = declared_tolerance is None

    def add(self, source: RerunSource, query: _RepeatedQuery) -> None:
        """Compare the two predictions of a query, and add the result to the attributes.

        Args:
            source: The data set.
            query: The query with both predictions.
        """
        if _has_failed(query.new):
            self.findings.append(Unchecked(f"{query.place}: it failed when predicted again: {query.new.reason}"))
            return
        if _has_failed(query.saved):
            self.findings.append(Unchecked(f"{query.place}: it failed in the run: {query.saved.reason}"))
            return
        self.predictions.setdefault(source, {})[query.number] = query.new
        distance = difference(_without_reply(query.new), _without_reply(query.saved))
        self.largest_difference = max(self.largest_difference, distance)
        if distance > self.tolerance:
            self.n_differing += 1
            self.findings.append(self._difference_found(query))

    def _difference_found(self, query: _RepeatedQuery) -> Finding:
        """Return the finding about a query whose predictions differ by more than the tolerance."""
        text = (
            f"{query.place}: saved {short_value(query.saved)}, predicted again {short_value(query.new)} "
            f"(accepted difference: {self.tolerance:g})"
        )
        # The predictions of a model that declares no tolerance may change, so a difference proves nothing.
        if self._may_change:
            return Unchecked(text)
        return Contradicted(text)


def _has_failed(prediction: Prediction) -> TypeGuard[Failure]:
    """Return whether a query failed. A query with a reply without a label has not failed."""
    return isinstance(prediction, Failure) and prediction.reply is None


def _without_reply(prediction: Prediction) -> Answer | None:
    """Return a prediction in the form in which it is compared; ``None`` for a reply without a label.

    So any two replies without a label are equal, whatever their texts are.
    """
    if isinstance(prediction, Failure):
        return None
    return prediction


def _rerun_scores(predictions: NewPredictions, tolerance: float) -> tuple[RerunScore, ...]:
    """Return the accuracies of each result of which queries were predicted again, with the new predictions.

    A result whose benchmark does not average an accuracy has none, and is left out.

    Args:
        predictions: The new predictions.
        tolerance: The largest accepted difference of two predictions.
    """
    results: list[ScoredResult] = []
    for source in predictions:
        # Two parts of a group may be equal results, so results are distinguished by their identity in memory.
        is_listed = any(source.scored is scored for scored in results)
        if not is_listed and "accuracy" in source.scored.result.averaged:
            results.append(source.scored)

    scores = []
    for scored in results:
        reruns = []
        for source, new_predictions in predictions.items():
            if source.scored is scored:
                truth = [query.label for query in source.experimentor.all_queries()]
                reruns.append(DatasetRerun(truth, source.run.answers, new_predictions))
        scores.append(rerun_score(scored.result.benchmark, reruns, tolerance))
    return tuple(scores)


def _with_predictions(result: Results, predictions: NewPredictions) -> Results:
    """Return a copy of a result with new predictions instead of the saved ones, and with the scores that follow.

    A result without new predictions is returned unchanged.

    Args:
        result: The result, or a group of results.
        predictions: The new predictions.
    """
    if isinstance(result, ResultGroup):
        parts = {name: _with_predictions(part, predictions) for name, part in result.items()}
        return ResultGroup(result.name, parts)
    # The sources of a result are its data sets that were predicted again. All have the same scored result.
    sources = [source for source in predictions if source.scored.result is result]
    if not sources:
        return result

    scored = sources[0].scored
    runs = dict(scored.runs)
    counts = []
    for source in sources:
        new_predictions = predictions[source]
        answers = list(source.run.answers)
        for query_number, new_answer in new_predictions.items():
            answers[query_number] = new_answer
        runs[source.dataset] = source.experimentor.assemble(source.experimentor.conditions(), answers)
        counts.append(f"{len(new_predictions)} of {len(answers)} on {source.dataset}")

    recomputed = scored.benchmark.collect(runs, recorded_predictions(result), divided=result.with_divided)
    recomputed.signature = result.signature
    recomputed.stopping = result.stopping
    are_given_predictions = any(GIVEN in predictor.who for predictor in result.provenance.predictors)
    if are_given_predictions:
        # The identity of given predictions is their digest. It changed with the predictions, so the new one is kept.
        recomputed.provenance = replace(
            recomputed.provenance,
            method=result.provenance.method,
            method_settings=result.provenance.method_settings,
        )
    else:
        recomputed.provenance = result.provenance
    recomputed.warnings += (
        f"predictions that verify --rerun computed are in the place of saved ones: {', '.join(counts)}",
    )
    return recomputed
