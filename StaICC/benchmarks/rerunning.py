"""Queries of a saved result that a model predicts again."""

from __future__ import annotations

import random
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from operator import itemgetter

from StaICC.arguments import set_integers
from StaICC.benchmarks.context import RunContext
from StaICC.benchmarks.findings import Contradicted, Finding, Results, Unchecked, Verification, limited, short_value
from StaICC.benchmarks.rerun_scores import DatasetRerun, RerunScore, rerun_score
from StaICC.benchmarks.rescoring import ScoredResult, recorded_predictions
from StaICC.errors import ArgumentError
from StaICC.inference.contract import Answer, Inference
from StaICC.inference.identity import identity_of
from StaICC.inference.recheck import TOLERANCE, difference, tolerance_of
from StaICC.inference.replies import Failure
from StaICC.inference.runner import Part, predict_queries
from StaICC.results.predictor import GIVEN
from StaICC.results.result import ResultGroup


@dataclass(frozen=True, slots=True)
class Rerun:
    """Which queries to predict again: random ones, over all parts, data sets and conditions.

    Raises:
        ArgumentError: The model is no function, or the number is not positive.
    """

    model: Inference
    """The inference function, such as a kernel."""
    queries: int = 20
    """The maximum number of queries."""
    seed: int = field(default_factory=lambda: secrets.randbelow(10**9))
    """Chooses the queries; random by default. The finding names it."""

    def __post_init__(self) -> None:
        set_integers(self, queries=1)
        if not callable(self.model):
            raise ArgumentError(f"model: got {self.model!r:.60}, expected an inference function or a kernel")


def predict_again(
    rerun: Rerun, name: str, sources: Sequence[tuple[ScoredResult, str]], whole: Results | None = None
) -> Verification:
    """Predict random queries again, and compare within the tolerance that the model declares.

    Args:
        rerun: The model, and how many queries.
        name: Name of the result.
        sources: The data sets to draw from, whose prompts are those of the result, each with the result that has it.
            With predictions of several models, those of this one.
        whole: The result, of which the finding has a copy with the new predictions.
    """
    findings: list[Finding] = []
    predicted: dict[int, dict[int, Answer | Failure]] = {}
    drawn_from: list[tuple[int, int]] = []
    model = identity_of(rerun.model)
    predictors = [scored.predictor(dataset) for scored, dataset in sources]
    several = len({predictor.digest for predictor in predictors if GIVEN not in predictor.who}) > 1
    for place, ((scored, dataset), predictor) in enumerate(zip(sources, predictors, strict=True)):
        result, known = scored.result, {} if GIVEN in predictor.who else predictor.differences(model)
        settings = {key: pair for key, pair in known.items() if key in {**predictor.settings, **model.settings}}
        listed = ", ".join(f"{name} was {before}, is {now}" for name, (before, now) in (settings or known).items())
        if result.method != "vanilla":
            why = f"not predicted again, its method is {result.method:.60}"
        elif settings:
            why = f"not predicted again, {listed:.300}; give the options of the run"
        elif several and predictor.digest != model.digest:
            why = "not predicted again, another model predicted it"
        elif [own.identity for own in result.provenance.predictors].count(predictor.digest) > 1:
            why = "not predicted again, two functions of the run have its identity"
        else:
            drawn_from += [(place, number) for number in range(len(scored.runs[dataset].answers))]
            why = f"another model: {listed:.300}" if known else ""
        findings += [Unchecked(f"{scored.where}{dataset}: {why}")] if why else []
    if not drawn_from:
        findings.append(Unchecked("rerun: no query has a known prompt and a prediction of this model"))
    chosen = sorted(random.Random(rerun.seed).sample(drawn_from, min(rerun.queries, len(drawn_from))))
    declared = tolerance_of(rerun.model)
    tolerance = TOLERANCE if declared is None else declared
    distances = [0.0]
    with RunContext(False, on_error="collect", progress=False) as context:
        context.start([rerun.model])
        for place, drawn in groupby(chosen, itemgetter(0)):
            (scored, dataset), numbers = sources[place], [number for _, number in drawn]
            own = scored.benchmark[dataset]
            queries = [
                (f"{scored.where}{dataset} / {condition.name} / query {number} (test row {query.row})", query)
                for condition in own.conditions()
                for number, query in enumerate(condition.queries)
            ]
            options = replace(context.options_for(rerun.model, free_text=own.free_text), unparsed="wrong")
            answers = predict_queries(rerun.model, [queries[number][1] for number in numbers], Part("rerun"), options)
            for number, answer in zip(numbers, answers, strict=True):
                where, stored = queries[number][0], scored.runs[dataset].answers[number]
                again = own.read_again(number, answer)
                pair = {"when predicted again": again, "in the run": stored}
                lost = [(when, it) for when, it in pair.items() if isinstance(it, Failure) and it.reply is None]
                findings += [Unchecked(f"{where}: it failed {when}: {it.reason}") for when, it in lost[:1]]
                if not lost:
                    predicted.setdefault(place, {})[number] = again
                    distances.append(difference(*(None if isinstance(it, Failure) else it for it in pair.values())))
                    if distances[-1] > tolerance:
                        text = f"{where}: saved {short_value(stored)}, predicted again {short_value(again)}"
                        kind = Unchecked if declared is None else Contradicted  # its predictions may change
                        findings.append(kind(f"{text} (accepted difference: {tolerance:g})"))
    differing = sum(distance > tolerance for distance in distances)
    message = (
        f"{len(chosen)} of {len(drawn_from)} queries predicted again (seed {rerun.seed}): {differing} differ, by at "
        f"most {max(distances):.2g} (accepted: {tolerance:g})"
    )
    scores = _rerun_scores(sources, predicted, tolerance)
    message = "; ".join([message, *map(str, scores)])
    recomputed = None if whole is None else _with_predictions(whole, sources, predicted)
    return Verification(name, None, message, limited("rerun", findings), scores=scores, recomputed=recomputed)


_Predicted = Mapping[int, Mapping[int, Answer | Failure]]
"""New predictions by the position of their source (a data set of a result), then by the number of their query."""


def _rerun_scores(
    sources: Sequence[tuple[ScoredResult, str]], predicted: _Predicted, tolerance: float
) -> tuple[RerunScore, ...]:
    """Return the recomputed accuracy of each result of which queries were predicted again."""
    datasets_of: dict[int, list[DatasetRerun]] = {}
    names: dict[int, str] = {}
    for place, again in predicted.items():
        scored, dataset = sources[place]
        if "accuracy" not in scored.result.averaged:
            continue
        truth = [query.label for query in scored.benchmark[dataset].all_queries()]
        names[id(scored)] = scored.result.benchmark
        datasets_of.setdefault(id(scored), []).append(DatasetRerun(truth, scored.runs[dataset].answers, again))
    return tuple(rerun_score(names[key], datasets, tolerance) for key, datasets in datasets_of.items())


def _with_predictions(result: Results, sources: Sequence[tuple[ScoredResult, str]], predicted: _Predicted) -> Results:
    """Return a result with the new predictions in the place of the saved ones, and scores that follow from them."""
    if isinstance(result, ResultGroup):
        parts = {name: _with_predictions(part, sources, predicted) for name, part in result.items()}
        return ResultGroup(result.name, parts)
    own = {place: source for place, source in enumerate(sources) if source[0].result is result and place in predicted}
    if not own:
        return result
    scored = next(iter(own.values()))[0]
    runs = dict(scored.runs)
    counts = []
    for place, (_, dataset) in own.items():
        experimentor = scored.benchmark[dataset]
        answers = list(runs[dataset].answers)
        for number, answer in predicted[place].items():
            answers[number] = answer
        runs[dataset] = experimentor.assemble(experimentor.conditions(), answers)
        counts.append(f"{len(predicted[place])} of {len(answers)} on {dataset}")
    again = scored.benchmark.collect(runs, recorded_predictions(result), divided=result.with_divided)
    again.signature, again.stopping = result.signature, result.stopping
    given = any(GIVEN in predictor.who for predictor in result.provenance.predictors)
    if given:  # their identity is a digest of the predictions
        again.provenance = replace(again.provenance, method=result.provenance.method)
    else:
        again.provenance = result.provenance
    again.warnings += (f"predictions that verify --rerun computed are in the place of saved ones: {', '.join(counts)}",)
    return again
