"""Verification: prompts written anew, and queries that are predicted again, are those of a saved result."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import StaICC
from StaICC import Normal
from StaICC.benchmarks.exchange import identified_queries, score_predictions
from StaICC.benchmarks.findings import (
    Contradicted,
    Recomputed,
    Unchecked,
    Verification,
    compare_values,
    limited,
    status_of,
)
from StaICC.benchmarks.race import race
from StaICC.benchmarks.rebuilding import rebuild
from StaICC.benchmarks.rerunning import Rerun
from StaICC.benchmarks.verify import verify
from StaICC.datasets.dataset import Dataset
from StaICC.errors import ArgumentError
from StaICC.inference.identity import Identity
from StaICC.inference.recheck import difference
from StaICC.methods.run import Method
from StaICC.results.details import pack_scores, unpack_scores
from StaICC.results.result import Result, load
from StaICC.results.signature import Signature
from tests.benchmarks.test_verify_edits import model

pytestmark = pytest.mark.filterwarnings("ignore::StaICC.TemplateWarning")


def assert_recomputed(findings: list[Verification]) -> None:
    assert status_of(findings) == Recomputed(), findings
    assert [finding for finding in findings if finding.dataset and not finding.same] == []


def assert_unchecked(result: Result, reason: str) -> None:
    """The benchmark cannot be rebuilt: nothing is recomputed, and the reason is named."""
    with pytest.raises(ArgumentError, match=reason) as caught:
        rebuild(result)
    (finding,) = verify(result)
    assert isinstance(finding.status, Unchecked)
    assert str(caught.value) in finding.status.reason


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        *(("Normal", {"k": 0}), ("Normal", {"noisy_channel": True, "limit": 3})),
        *(("GLER", {"interpolations": 3}), ("DemonstrationSensitivity", {"limit": 2})),
    ],
)
def test_a_saved_result_verifies(tmp_path: Path, name: str, settings: dict[str, Any], stand_in: Any) -> None:
    getattr(StaICC, name)(datasets=["mini"], **settings)(stand_in).save(tmp_path / "result.json")
    result = load(tmp_path / "result.json")
    assert isinstance(result, Result)
    prompts, shared = verify(result)
    assert (prompts.dataset, prompts.same, prompts.first_difference, shared.dataset) == ("mini", True, None, None)
    assert prompts.message == f"the {result.details['mini'].asked} prompts are the same"
    assert prompts.status == shared.status == status_of([prompts, shared]) == Recomputed()
    differences = rebuild(result).signature().differences(result.signature)
    assert differences == {"scoring": (None, "function")}  # how f scores is not the benchmark's


@pytest.mark.parametrize("number", [0, 17, 191])
def test_the_first_query_that_differs_is_named(number: int, stand_in: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    benchmark = Normal(datasets=["mini"])
    result = benchmark(stand_in)
    lists = [list(positions) for positions in benchmark[0].demonstration_sampler]
    for place in {number, 191}:
        lists[place].reverse()
    monkeypatch.setattr(StaICC.Experimentor, "demonstration_lists", lambda self: tuple(map(tuple, lists)))
    finding, _ = verify(result, Normal(datasets=["mini"]))
    assert (finding.same, finding.first_difference) == (False, number)
    assert finding.message.startswith(f"query {number} is the first")


def test_fewer_queries_and_another_digest_are_differences(stand_in: Any) -> None:
    result = Normal(datasets=["mini"])(stand_in)
    finding, _ = verify(result, Normal(datasets=["mini"], limit=5))
    assert (finding.same, finding.first_difference) == (False, 5)
    result.details["mini"] = dataclasses.replace(result.details["mini"], prompts="0" * 64)
    finding, _ = verify(result)
    assert (finding.same, finding.first_difference) == (False, None)
    assert "0" * 64 in finding.message


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda one: one.prompt_former.change_instruction("Decide. "), "changed by hand, .*: template; "),
        (lambda one: one.set_demonstration_sampler([[0] * 4] * len(one.test_set())), "by hand, .*: demonstrations; "),
        (lambda one: one.set_k(1), "changed by hand, .*: k; pass the benchmark itself$"),
        (lambda one: None, "^the result is over the user's own data .*pass the benchmark itself$"),
    ],
)
def test_changed_prompts_and_custom_data_need_their_benchmark(
    change: Any, reason: str, make_own: Callable[..., Dataset], stand_in: Any
) -> None:
    benchmark = Normal(datasets=["mini", make_own(2)])
    change(benchmark[0])
    result = benchmark(stand_in)
    assert_recomputed(verify(result, benchmark))
    assert_unchecked(result, reason)


def test_of_another_version_the_intervals_are_unchecked_and_the_scores_are_not(stand_in: Any) -> None:
    benchmark = Normal(datasets=["mini"], limit=20)
    result = benchmark(stand_in)
    details = result.details["mini"]
    wider = {key: dataclasses.replace(interval, high=1.0) for key, interval in details.intervals.items()}
    fewer = {key: dataclasses.replace(base, p_value_majority=None) for key, base in details.baselines.items()}
    result.details["mini"] = dataclasses.replace(details, intervals=wider, baselines=fewer)
    fields = {**result.signature.fields, "statistics": "intervals-2-0.95"}
    result.signature = Signature({**fields, "version": "2.0.0"})
    result = Result.from_dict(result.to_dict())
    findings = verify(result)
    assert not [line for finding in findings for line in finding.contradicted]
    lines = [line for finding in findings for line in finding.unchecked]
    for unchecked in ("intervals / accuracy", "baselines / normal / p_value_majority"):
        assert any(unchecked in line for line in lines), f"got {lines}"
    result.signature = Signature(fields)  # this version does not write these intervals
    assert isinstance(status_of(verify(result)), Contradicted)
    result.signature = Signature({**fields, "version": "2.0.0"})
    result.averaged["accuracy"] = 0.99
    assert isinstance(status_of(verify(result)), Contradicted)


def test_two_functions_with_one_source_are_two_predictors(make_own: Callable[..., Dataset], stand_in: Any) -> None:
    """A closure may predict otherwise than another one of the same factory: the result has an entry for each."""

    def shifted(by: int) -> Any:
        return lambda prompt, label_space: (len(prompt) + by) % len(label_space)

    benchmark = Normal(datasets=["mini", make_own(2)], limit=4)
    result = benchmark([shifted(0), shifted(1)])
    assert len({predictor.identity for predictor in result.provenance.predictors}) == 1
    assert len(result.provenance.predictors) == 2
    assert_recomputed(verify(result, benchmark))
    again = status_of(verify(result, benchmark, rerun=Rerun(shifted(0))))
    assert isinstance(again, Unchecked)  # nothing says which of the two it is


@pytest.mark.parametrize("benchmark", ["normal", Normal, StaICC.Suite(datasets=["mini"])])
def test_what_is_no_single_benchmark_is_refused(benchmark: Any, stand_in: Any) -> None:
    with pytest.raises(ArgumentError, match="benchmark: got"):
        verify(Normal(datasets=["mini"], limit=1)(stand_in), benchmark)
    with pytest.raises(ArgumentError, match="benchmark: got"):
        race(benchmark, stand_in, stand_in)


@pytest.mark.parametrize("make", [Normal, StaICC.Suite])
def test_given_scores_are_read_as_their_file_says(make: Any) -> None:
    """The automatic reading of the benchmark would take these logits for probabilities."""
    benchmark = make(datasets=["mini"], limit=4)
    given = {query.id: {"logits": [0.5, 0.25, 0.25]} for query in identified_queries(benchmark)}
    for own in (None, benchmark):
        assert status_of(verify(score_predictions(benchmark, given), own)) == Recomputed()


@pytest.mark.parametrize(("ratio", "kinds"), [(1 + 1e-8, [Contradicted]), (1 + 1e-12, [])])
def test_fractions_are_compared_to_nine_digits(ratio: float, kinds: list[type]) -> None:
    assert [type(found) for found in compare_values("x", 0.5, 0.5 * ratio)] == kinds
    assert [type(found) for found in compare_values("x", 1, True)] == [Contradicted]


@pytest.mark.parametrize(("number", "more"), [(20, []), (21, ["x: 1 more values"]), (40, ["x: 20 more values"])])
def test_twenty_values_are_named_and_the_others_counted(number: int, more: list[str]) -> None:
    found = limited("x", [Unchecked("y"), *(Contradicted(str(place)) for place in range(number))] * 2)
    assert list(map(str, range(20))) + more == [one.difference for one in found if isinstance(one, Contradicted)]


# -- queries that are predicted again: what differs is contradicted, what cannot be predicted is unchecked


FEW: dict[str, Any] = {"datasets": ["mini"], "limit": 4}


class Kernel:
    """A model with a declared tolerance, whose scores can be shifted."""

    def __init__(self, shift: float = 0.0, tolerance: float | None = 1e-6) -> None:
        self.shift = shift
        self.recheck_tolerance = tolerance
        self.prompts: list[Any] = []

    def identity(self) -> Identity:
        return Identity({"model": "shifted"})

    def __call__(self, prompt: Any, label_space: list[str]) -> list[float]:
        self.prompts.append(prompt)
        first, *rest = model(prompt, label_space)
        return [first + self.shift, *rest]


def rerun(result: Any, function: Any, queries: int = 20, benchmark: Any = None) -> Verification:
    *_, last = verify(result, benchmark, rerun=Rerun(function, queries, 3))
    return last


@pytest.mark.parametrize(
    "name", ["Normal", "ContextualBias", "GLER", "TemplateSensitivity", "Suite", "Diagnosis", "TripletBias"]
)
def test_the_same_model_predicts_the_same(name: str) -> None:
    benchmark = getattr(StaICC, name)(**FEW)
    found = verify(benchmark(model), rerun=Rerun(model))
    assert status_of(found) == Recomputed()
    asked = sum(result.details["mini"].asked for result in benchmark(model).results())
    assert f"{min(asked, 20)} of {asked} queries predicted again" in found[-1].message
    assert isinstance(rerun(benchmark(model), Kernel(9.0)).status, Contradicted)


def test_the_tolerance_is_that_of_the_kernel() -> None:
    result = StaICC.Normal(**FEW)(Kernel())
    assert rerun(result, Kernel(1e-4, 1e-3)).status == Recomputed()
    found = rerun(result, Kernel(1e-4, 1e-5))
    assert isinstance(found.status, Contradicted)
    assert len(found.contradicted) == 8
    assert isinstance(rerun(result, Kernel(1.0, None)).status, Unchecked)  # says that its predictions may change


def test_the_first_query_that_is_predicted_otherwise_is_named() -> None:
    result = StaICC.Normal(datasets=["mini"], limit=40)(Kernel())
    details = result.details["mini"].to_dict()
    rows = unpack_scores(details["conditions"][0]["scores"], 3)
    rows[17] = [value + 1 for value in rows[17]]  # the same order, and so the same label
    details["conditions"][0]["scores"] = pack_scores(rows)
    forged = Result.from_dict(result.to_dict() | {"details": {"mini": details}})
    found = rerun(forged, Kernel(), 80)
    (line,) = found.contradicted
    assert line.startswith("mini / normal / query 17 (test row 17): saved ")
    assert "80 of 80 queries predicted again (seed 3): 1 differ" in found.message


def test_close_predictions_that_were_moved_to_the_truth_are_shown_as_recomputed() -> None:
    """The labels of predictions within the accepted difference can be chosen by whoever writes the file."""

    class Half(Kernel):
        """Predicts the first label with nearly the scores of the others."""

        def __call__(self, prompt: str, label_space: list[str]) -> list[float]:
            return [0.336, 0.332, 0.332]

    benchmark = StaICC.Normal(**FEW)
    honest = benchmark(Half(0.0, 5e-2))
    truth = [query.label for query in benchmark[0].all_queries()]
    moved = [[0.336 if place == label else 0.332 for place in range(3)] for label in truth]
    forged = benchmark(preentered_prediction=[moved])
    forged.provenance, forged.signature = honest.provenance, honest.signature
    assert forged.averaged["accuracy"] > honest.averaged["accuracy"]

    found = rerun(forged, Half(0.0, 5e-2), 4)
    assert found.status == Recomputed()  # nothing differs by more than the kernel declares
    (score,) = found.scores
    assert score.recomputed <= score.saved
    assert score.low <= honest.averaged["accuracy"] <= score.high
    assert f"confirmed as {score.low:.4f} to {score.high:.4f}" in found.message

    whole = rerun(forged, Half(0.0, 5e-2), 8)
    assert isinstance(whole.recomputed, Result)
    assert whole.recomputed.averaged == honest.averaged
    assert whole.scores[0].low == whole.scores[0].high == honest.averaged["accuracy"]


def test_a_result_with_the_predictions_of_a_rerun_is_recomputed() -> None:
    kernel = Kernel()
    benchmark = StaICC.Normal(**FEW)
    rows = [kernel(query.prompt, list(query.label_space)) for query in benchmark[0].all_queries()]
    results = [
        benchmark(kernel),
        benchmark(preentered_prediction=[rows]),
        StaICC.Normal(datasets=["mini"])(kernel, precision=0.2),
        StaICC.Suite(**FEW)(kernel),
    ]
    for result in results:
        again = rerun(result, kernel, 6).recomputed
        assert again is not None
        assert status_of(verify(again)) == Recomputed()


def test_failed_and_unparsed_queries_are_predicted_again() -> None:
    """Otherwise a file could call its wrong predictions failed, or without a label."""

    def failing(prompt: Any, label_space: list[str]) -> Any:
        return None if len(prompt) % 2 else model(prompt, label_space)

    def unparsed(prompt: Any, label_space: list[str]) -> Any:
        return "?" if len(prompt) % 2 else model(prompt, label_space)

    result = StaICC.Normal(**FEW)(failing, on_error="collect")
    failed = result.details["mini"].failed
    assert 0 < failed < 8
    found = rerun(result, model)
    assert isinstance(found.status, Unchecked)
    assert sum("failed in the run" in reason for reason in found.unchecked) == failed
    again = rerun(StaICC.Normal(**FEW)(model), failing)  # fails in the rerun only
    assert sum("got None" in reason for reason in again.unchecked) == failed
    hidden = StaICC.Normal(**FEW, unparsed="excluded")(unparsed)
    assert 0 < hidden.left_out_of("accuracy") < 8
    assert isinstance(rerun(hidden, model).status, Contradicted)
    assert not rerun(hidden, unparsed).contradicted


@pytest.mark.parametrize("settings", [{"on_error": "collect"}, {"unparsed": "excluded"}, {"unparsed": "wrong"}])
def test_a_rerun_says_that_missing_queries_count_as_wrong(settings: dict[str, str]) -> None:
    """Where the file leaves them out of its accuracy, a reader would search in vain for the printed one."""
    reply = None if "on_error" in settings else "?"

    def missing(prompt: Any, label_space: list[str]) -> Any:
        return reply if len(prompt) % 2 else model(prompt, label_space)

    policy = {"unparsed": settings["unparsed"]} if "unparsed" in settings else {}
    result = StaICC.Normal(**FEW, **policy)(missing, **({} if policy else settings))
    details = result.details["mini"]
    number = details.failed + len(details.unparsed)
    assert 0 < number < 8
    found = rerun(result, missing)
    (score,) = found.scores
    assert score.missing == number
    assert (
        f"({number} of them without a saved label count as wrong here; the accuracy in the file may " in found.message
    )
    assert score.saved_of_all <= result.averaged["accuracy"]
    (whole,) = rerun(StaICC.Normal(**FEW)(model), model).scores
    assert "count as wrong" not in str(whole)


def test_a_method_another_model_and_other_prompts_are_not_predicted_again() -> None:
    kernel = Kernel()
    found = rerun(Method("batch_calibration", kernel).run(StaICC.Normal(**FEW)), kernel)
    assert isinstance(found.status, Unchecked)
    assert "batch_calibration" in found.status.reason
    raced = race(StaICC.Normal(datasets=["mini"]), Kernel(), model, margin=0.3)
    found = rerun(raced, model)
    assert not found.contradicted
    assert [line.split(": ")[0] for line in found.unchecked] == ["parts / first / mini"]
    (line,) = rerun(StaICC.Normal(**FEW)(Kernel()), model, 1).unchecked
    assert line.startswith("mini: another model: ")
    assert "model was shifted, is None" in line
    other = Kernel()
    found = rerun(StaICC.Normal(**FEW)(Kernel()), other, benchmark=StaICC.Normal(3, **FEW))
    assert isinstance(found.status, Unchecked)
    assert not other.prompts


def test_of_several_models_each_predicts_only_its_own_data_sets_again(make_own: Callable[..., Dataset]) -> None:
    """The predictions of another model contradict nothing, however much they differ."""

    class Named(Kernel):
        def __init__(self, name: str, shift: float) -> None:
            super().__init__(shift)
            self.name = name

        def identity(self) -> Identity:
            return Identity({"model": self.name})

    shifts = {"zero": 0.0, "nine": 9.0}
    benchmark = StaICC.Normal(datasets=["mini", make_own(1)], limit=4)
    datasets = dict(zip(shifts, benchmark.dataset_names, strict=True))
    result = benchmark([Named(name, shift) for name, shift in shifts.items()])
    raced = race(StaICC.Normal(datasets=["mini"]), *[Named(name, shift) for name, shift in shifts.items()], margin=0.3)
    parts = {"zero": "parts / first / mini", "nine": "parts / second / mini"}
    for results, given, place_of in ((result, benchmark, datasets), (raced, None, parts)):
        for name, other in (("zero", "nine"), ("nine", "zero")):
            again = Named(name, shifts[name])
            found = rerun(results, again, benchmark=given)
            assert not found.contradicted
            assert found.unchecked == (f"{place_of[other]}: not predicted again, another model predicted it",)
            assert again.prompts


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        *(([1.0, 2.0], [1.0, 2.5], 0.2), ([0.1, 0.2], [0.1, 0.3], 0.1), ([1000.0, 1000.1], [1002.0, 1000.0], 0.5)),
        *(([1.0, -math.inf], [1.0, -math.inf], 0.0), (1, 1, 0.0), (1, 2, math.inf), ("a", "b", math.inf)),
        *(([1.0, 0.0], [1.0, -math.inf], math.inf), ([1e308, 0.0], [-1e308, 0.0], math.inf)),
        *(([1.0], [1.0, 2.0], math.inf), (1, [0.0, 1.0], math.inf)),
    ],
)
def test_differences(one: Any, other: Any, expected: float) -> None:
    assert difference(one, other) == pytest.approx(expected)
    assert difference(other, one) == pytest.approx(expected)
