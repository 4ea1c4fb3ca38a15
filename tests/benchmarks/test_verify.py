"""Verification: prompts written anew, and queries that are predicted again, are those of a saved result."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import Any, ClassVar

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
from StaICC.errors import ArgumentError
from StaICC.inference.identity import Identity
from StaICC.inference.recheck import difference
from StaICC.methods.run import Method
from StaICC.results.details import pack_scores, unpack_scores
from StaICC.results.result import Result, load
from StaICC.results.signature import Signature
from tests.benchmarks.conftest import invented_dataset
from tests.benchmarks.test_verify_edits import hash_scores

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


def all_contradictions(findings: list[Verification]) -> list[str]:
    return [line for finding in findings for line in finding.contradicted]


def all_unchecked(findings: list[Verification]) -> list[str]:
    return [line for finding in findings for line in finding.unchecked]


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("Normal", {"k": 0}),
        ("Normal", {"noisy_channel": True, "limit": 3}),
        ("GLER", {"interpolations": 3}),
        ("DemonstrationSensitivity", {"limit": 2}),
    ],
    ids=str,
)
def test_a_saved_result_is_recomputed(tmp_path: Path, name: str, settings: dict[str, Any], hash_model: Any) -> None:
    """One finding is about the prompts of the data set, one about what data sets share."""
    getattr(StaICC, name)(datasets=["mini"], **settings)(hash_model).save(tmp_path / "result.json")
    result = load(tmp_path / "result.json")
    assert isinstance(result, Result)

    of_mini, shared = verify(result)

    assert of_mini.dataset == "mini"
    assert of_mini.same is True
    assert of_mini.first_difference is None
    assert of_mini.message == f"the {result.details['mini'].asked} prompts are the same"
    assert shared.dataset is None
    assert of_mini.status == Recomputed()
    assert shared.status == Recomputed()
    assert status_of([of_mini, shared]) == Recomputed()


def test_a_rebuilt_benchmark_differs_from_the_result_by_how_it_was_scored(hash_model: Any) -> None:
    """How a function scores is not the benchmark's."""
    result = Normal(datasets=["mini"], limit=3)(hash_model)

    assert rebuild(result).signature().differences(result.signature) == {"scoring": (None, "function")}


@pytest.mark.parametrize("query_number", [0, 17, 191])
def test_the_first_query_that_differs_is_named(
    query_number: int, hash_model: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The demonstrations of this query, and of the last one of 192, are in another order than in the result."""
    benchmark = Normal(datasets=["mini"])
    result = benchmark(hash_model)
    positions_of_queries = [list(positions) for positions in benchmark[0].demonstration_sampler]
    for number in {query_number, 191}:
        positions_of_queries[number].reverse()
    reordered = tuple(tuple(positions) for positions in positions_of_queries)
    monkeypatch.setattr(StaICC.Experimentor, "demonstration_lists", lambda self: reordered)

    finding, _ = verify(result, Normal(datasets=["mini"]))

    assert finding.same is False
    assert finding.first_difference == query_number
    assert finding.message.startswith(f"query {query_number} is the first")


def test_a_result_of_more_queries_differs_at_the_first_further_one(hash_model: Any) -> None:
    result = Normal(datasets=["mini"])(hash_model)

    finding, _ = verify(result, Normal(datasets=["mini"], limit=5))

    assert finding.same is False
    assert finding.first_difference == 5


def test_another_digest_of_the_prompts_is_a_difference(hash_model: Any) -> None:
    """The digests of the single prompts are the same, so that no query is named."""
    result = Normal(datasets=["mini"])(hash_model)
    result.details["mini"] = dataclasses.replace(result.details["mini"], prompts="0" * 64)

    finding, _ = verify(result)

    assert finding.same is False
    assert finding.first_difference is None
    assert "0" * 64 in finding.message


def change_template(experimentor: Any) -> None:
    experimentor.prompt_former.change_instruction("Decide. ")


def set_demonstrations_by_hand(experimentor: Any) -> None:
    experimentor.set_demonstration_sampler([[0] * 4] * len(experimentor.test_set()))


def change_k(experimentor: Any) -> None:
    experimentor.set_k(1)


def change_nothing(experimentor: Any) -> None:
    """Leave the experimentor of ``mini`` as it is: the other data set is the user's own."""


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (change_template, "set by hand or by the method, .*: template; "),
        (set_demonstrations_by_hand, "by hand or by the method, .*: demonstrations; "),
        (change_k, "set by hand or by the method, .*: k; pass the benchmark itself$"),
        (change_nothing, "^the result is over the user's own data .*pass the benchmark itself$"),
    ],
)
def test_changed_prompts_and_custom_data_need_their_benchmark(change: Any, reason: str, hash_model: Any) -> None:
    benchmark = Normal(datasets=["mini", invented_dataset(columns=2)])
    change(benchmark[0])

    result = benchmark(hash_model)

    assert_recomputed(verify(result, benchmark))
    assert_unchecked(result, reason)


INTERVALS_OF_ANOTHER_VERSION = "intervals-2-0.95"


@pytest.fixture
def result_of_version_2(hash_model: Any) -> Result:
    """A result of version 2.0.0, which has another rule of intervals and no p-value against the majority label."""
    result = Normal(datasets=["mini"], limit=20)(hash_model)
    details = result.details["mini"]
    intervals = {score: dataclasses.replace(interval, high=1.0) for score, interval in details.intervals.items()}
    baselines = {}
    for condition, baseline in details.baselines.items():
        baselines[condition] = dataclasses.replace(baseline, p_value_majority=None)
    result.details["mini"] = dataclasses.replace(details, intervals=intervals, baselines=baselines)
    fields = {**result.signature.fields, "statistics": INTERVALS_OF_ANOTHER_VERSION, "version": "2.0.0"}
    result.signature = Signature(fields)
    return Result.from_dict(result.to_dict())


def test_intervals_and_p_values_of_another_version_are_unchecked(result_of_version_2: Result) -> None:
    findings = verify(result_of_version_2)

    assert all_contradictions(findings) == []
    for path in ("intervals / accuracy", "baselines / normal / p_value_majority"):
        assert any(path in line for line in all_unchecked(findings)), path


def test_scores_of_another_version_are_checked(result_of_version_2: Result) -> None:
    result_of_version_2.averaged["accuracy"] = 0.99

    assert isinstance(status_of(verify(result_of_version_2)), Contradicted)


def test_intervals_that_this_version_does_not_write_are_contradicted_under_its_name(
    result_of_version_2: Result,
) -> None:
    fields = {**result_of_version_2.signature.fields, "version": StaICC.__version__}
    result_of_version_2.signature = Signature(fields)

    assert isinstance(status_of(verify(result_of_version_2)), Contradicted)


def shifted_by(shift: int) -> Any:
    """Return a closure: all of them have the same source, and so the same identity."""
    return lambda prompt, label_space: (len(prompt) + shift) % len(label_space)


def test_two_functions_with_one_source_are_two_predictors() -> None:
    """A closure may predict otherwise than another one of the same factory: the result has an entry for each."""
    benchmark = Normal(datasets=["mini", invented_dataset(columns=2)], limit=4)

    result = benchmark([shifted_by(0), shifted_by(1)])

    first, second = result.provenance.predictors
    assert first.identity == second.identity
    assert_recomputed(verify(result, benchmark))


def test_a_rerun_with_one_of_two_functions_of_one_source_is_unchecked() -> None:
    """Nothing says which of the two it is."""
    benchmark = Normal(datasets=["mini", invented_dataset(columns=2)], limit=4)
    result = benchmark([shifted_by(0), shifted_by(1)])

    findings = verify(result, benchmark, rerun=Rerun(shifted_by(0)))

    assert isinstance(status_of(findings), Unchecked)


@pytest.mark.parametrize("benchmark", ["normal", Normal, StaICC.Suite(datasets=["mini"])])
def test_what_is_no_single_benchmark_is_refused(benchmark: Any, hash_model: Any) -> None:
    with pytest.raises(ArgumentError, match="benchmark: got"):
        verify(Normal(datasets=["mini"], limit=1)(hash_model), benchmark)
    with pytest.raises(ArgumentError, match="benchmark: got"):
        race(benchmark, hash_model, hash_model)


@pytest.mark.parametrize("make", [Normal, StaICC.Suite])
@pytest.mark.parametrize("rebuilt", [True, False], ids=["rebuilt benchmark", "benchmark of the user"])
def test_given_scores_are_read_as_their_file_says(make: Any, rebuilt: bool) -> None:
    """The automatic reading of the benchmark would take these logits for probabilities."""
    benchmark = make(datasets=["mini"], limit=4)
    predictions = {query.id: {"logits": [0.5, 0.25, 0.25]} for query in identified_queries(benchmark)}
    result = score_predictions(benchmark, predictions)

    findings = verify(result, None if rebuilt else benchmark)

    assert status_of(findings) == Recomputed()


def test_fractions_that_differ_in_the_eighth_digit_are_contradicted() -> None:
    (finding,) = compare_values("x", 0.5, 0.5 * (1 + 1e-8))

    assert isinstance(finding, Contradicted)


def test_fractions_that_differ_in_the_twelfth_digit_are_the_same() -> None:
    assert list(compare_values("x", 0.5, 0.5 * (1 + 1e-12))) == []


def test_true_is_not_the_number_one() -> None:
    (finding,) = compare_values("x", 1, True)

    assert isinstance(finding, Contradicted)


@pytest.mark.parametrize(("number", "last"), [(20, []), (21, ["x: 1 more values"]), (40, ["x: 20 more values"])])
def test_twenty_different_values_are_named_and_the_others_counted(number: int, last: list[str]) -> None:
    """A value that is found twice counts once."""
    findings = [Unchecked("y"), *(Contradicted(str(value)) for value in range(number))]

    limited_findings = limited("x", findings + findings)

    differences = [finding.difference for finding in limited_findings if isinstance(finding, Contradicted)]
    assert differences == [str(value) for value in range(20)] + last


# -- queries that are predicted again: what differs is contradicted, what cannot be predicted is unchecked


class ShiftedModel:
    """A model with a declared tolerance, whose scores can be shifted."""

    def __init__(self, shift: float = 0.0, tolerance: float | None = 1e-6) -> None:
        self.shift = shift
        self.recheck_tolerance = tolerance
        self.prompts: list[Any] = []

    def identity(self) -> Identity:
        return Identity({"model": "shifted"})

    def __call__(self, prompt: Any, label_space: list[str]) -> list[float]:
        self.prompts.append(prompt)
        first, *rest = hash_scores(prompt, label_space)
        return [first + self.shift, *rest]


def rerun(result: Any, function: Any, queries: int = 20, benchmark: Any = None) -> Verification:
    """Return the finding about a sample of the queries, which the function predicts again."""
    *_, of_rerun = verify(result, benchmark, rerun=Rerun(function, queries, seed=3))
    return of_rerun


ALL_KINDS = pytest.mark.parametrize(
    "name", ["Normal", "ContextualBias", "GLER", "TemplateSensitivity", "Suite", "Diagnosis", "TripletBias"]
)


@ALL_KINDS
def test_the_predictions_of_the_same_model_are_recomputed(name: str) -> None:
    result = getattr(StaICC, name)(datasets=["mini"], limit=4)(hash_scores)

    findings = verify(result, rerun=Rerun(hash_scores))

    assert status_of(findings) == Recomputed()
    query_count = sum(part.details["mini"].asked for part in result.results())
    assert f"{min(query_count, 20)} of {query_count} queries predicted again" in findings[-1].message


@ALL_KINDS
def test_the_predictions_of_a_shifted_model_are_contradicted(name: str) -> None:
    result = getattr(StaICC, name)(datasets=["mini"], limit=4)(hash_scores)

    assert isinstance(rerun(result, ShiftedModel(shift=9.0)).status, Contradicted)


@pytest.mark.parametrize(
    ("shift", "tolerance", "status"),
    [(1e-4, 1e-3, Recomputed), (1e-4, 1e-5, Contradicted), (1.0, None, Unchecked)],
    ids=["within the tolerance", "above the tolerance", "predictions may change"],
)
def test_the_tolerance_is_that_of_the_kernel(shift: float, tolerance: float | None, status: type) -> None:
    result = StaICC.Normal(datasets=["mini"], limit=4)(ShiftedModel())

    finding = rerun(result, ShiftedModel(shift, tolerance))

    assert isinstance(finding.status, status)
    query_count = 8
    assert len(finding.contradicted) == (query_count if status is Contradicted else 0)


def test_the_query_that_is_predicted_otherwise_is_named() -> None:
    """All scores of one query are higher by 1, so that the label is the same."""
    result = StaICC.Normal(datasets=["mini"], limit=40)(ShiftedModel())
    details = result.details["mini"].to_dict()
    record = details["conditions"][0]
    rows = unpack_scores(record["scores"], 3)
    rows[17] = [value + 1 for value in rows[17]]
    record["scores"] = pack_scores(rows)
    forged = Result.from_dict(result.to_dict() | {"details": {"mini": details}})

    finding = rerun(forged, ShiftedModel(), queries=80)

    (line,) = finding.contradicted
    assert line.startswith("mini / normal / query 17 (test row 17): saved ")
    assert "80 of 80 queries predicted again (seed 3): 1 differ" in finding.message


class NearlyEvenModel(ShiftedModel):
    """Predicts the first label with nearly the scores of the others; two of its runs may differ by 0.05."""

    def __init__(self) -> None:
        super().__init__(shift=0.0, tolerance=0.05)

    def __call__(self, prompt: str, label_space: list[str]) -> list[float]:
        return [0.336, 0.332, 0.332]


@pytest.fixture(scope="module")
def accuracy_of_nearly_even_model() -> float:
    accuracy: float = StaICC.Normal(datasets=["mini"], limit=4)(NearlyEvenModel()).averaged["accuracy"]
    return accuracy


@pytest.fixture
def result_moved_to_the_truth(accuracy_of_nearly_even_model: float) -> Result:
    """A result that says to be of ``NearlyEvenModel``, whose highest score was moved to the true label."""
    benchmark = StaICC.Normal(datasets=["mini"], limit=4)
    rows = []
    for query in benchmark[0].all_queries():
        row = [0.332, 0.332, 0.332]
        row[query.label] = 0.336
        rows.append(row)
    forged = benchmark(preentered_prediction=[rows])
    honest = benchmark(NearlyEvenModel())
    forged.provenance = honest.provenance
    forged.signature = honest.signature
    assert forged.averaged["accuracy"] > accuracy_of_nearly_even_model
    return forged


def test_close_predictions_that_were_moved_to_the_truth_are_shown_with_a_range(
    result_moved_to_the_truth: Result, accuracy_of_nearly_even_model: float
) -> None:
    """Four of eight queries are predicted again. Nothing differs by more than the kernel declares."""
    finding = rerun(result_moved_to_the_truth, NearlyEvenModel(), queries=4)

    assert finding.status == Recomputed()
    (accuracy,) = finding.scores
    assert accuracy.recomputed <= accuracy.saved
    assert accuracy.low <= accuracy_of_nearly_even_model <= accuracy.high
    assert f"confirmed as {accuracy.low:.4f} to {accuracy.high:.4f}" in finding.message


def test_of_close_predictions_that_were_all_repeated_the_true_accuracy_is_shown(
    result_moved_to_the_truth: Result, accuracy_of_nearly_even_model: float
) -> None:
    finding = rerun(result_moved_to_the_truth, NearlyEvenModel(), queries=8)

    assert isinstance(finding.recomputed, Result)
    assert finding.recomputed.averaged["accuracy"] == accuracy_of_nearly_even_model
    (accuracy,) = finding.scores
    assert accuracy.low == accuracy_of_nearly_even_model
    assert accuracy.high == accuracy_of_nearly_even_model


def given_predictions_of(kernel: Any) -> Any:
    """Return a result with given predictions, which are those of a kernel."""
    benchmark = StaICC.Normal(datasets=["mini"], limit=4)
    rows = [kernel(query.prompt, list(query.label_space)) for query in benchmark[0].all_queries()]
    return benchmark(preentered_prediction=[rows])


@pytest.mark.parametrize(
    "make",
    [
        lambda kernel: StaICC.Normal(datasets=["mini"], limit=4)(kernel),
        given_predictions_of,
        lambda kernel: StaICC.Normal(datasets=["mini"])(kernel, precision=0.2),
        lambda kernel: StaICC.Suite(datasets=["mini"], limit=4)(kernel),
    ],
    ids=["a run", "given predictions", "a run that stopped early", "a group"],
)
def test_a_result_with_the_predictions_of_a_rerun_is_recomputed(make: Any) -> None:
    kernel = ShiftedModel()

    with_new_predictions = rerun(make(kernel), kernel, queries=6).recomputed

    assert with_new_predictions is not None
    assert status_of(verify(with_new_predictions)) == Recomputed()


def fails_for_odd_lengths(prompt: Any, label_space: list[str]) -> Any:
    """Return the scores of the model, and no prediction for prompts of an odd length."""
    return None if len(prompt) % 2 else hash_scores(prompt, label_space)


def no_label_for_odd_lengths(prompt: Any, label_space: list[str]) -> Any:
    """Return the scores of the model, and a reply without a label for prompts of an odd length."""
    return "?" if len(prompt) % 2 else hash_scores(prompt, label_space)


EIGHT_QUERIES = 8
"""The queries of Normal with four test rows, each in two repeats."""


@pytest.fixture
def odd_length_count() -> int:
    """For how many of the eight queries the function ``failing`` has no prediction."""
    count = sum(len(query.prompt) % 2 for query in StaICC.Normal(datasets=["mini"], limit=4)[0].all_queries())
    assert 0 < count < EIGHT_QUERIES
    return count


def test_queries_that_failed_in_the_run_are_unchecked(odd_length_count: int) -> None:
    result = StaICC.Normal(datasets=["mini"], limit=4)(fails_for_odd_lengths, on_error="collect")

    finding = rerun(result, hash_scores)

    assert isinstance(finding.status, Unchecked)
    reasons = [reason for reason in finding.unchecked if "failed in the run" in reason]
    assert len(reasons) == odd_length_count


def test_queries_that_fail_in_the_rerun_are_unchecked(odd_length_count: int) -> None:
    finding = rerun(StaICC.Normal(datasets=["mini"], limit=4)(hash_scores), fails_for_odd_lengths)

    reasons = [reason for reason in finding.unchecked if "got None" in reason]
    assert len(reasons) == odd_length_count


def test_a_model_that_names_labels_contradicts_saved_replies_without_one() -> None:
    """A file could otherwise call its wrong predictions replies without a label."""
    result = StaICC.Normal(datasets=["mini"], limit=4, unparsed="excluded")(no_label_for_odd_lengths)
    assert 0 < result.left_out_of("accuracy") < EIGHT_QUERIES

    assert isinstance(rerun(result, hash_scores).status, Contradicted)


def test_replies_without_a_label_in_run_and_rerun_contradict_nothing() -> None:
    result = StaICC.Normal(datasets=["mini"], limit=4, unparsed="excluded")(no_label_for_odd_lengths)

    assert not rerun(result, no_label_for_odd_lengths).contradicted


@pytest.mark.parametrize(
    ("function", "of_benchmark", "of_run"),
    [
        (fails_for_odd_lengths, {}, {"on_error": "collect"}),
        (no_label_for_odd_lengths, {"unparsed": "excluded"}, {}),
        (no_label_for_odd_lengths, {"unparsed": "wrong"}, {}),
    ],
    ids=["failed", "excluded", "wrong"],
)
def test_a_rerun_says_that_missing_queries_count_as_wrong(
    function: Any, of_benchmark: dict[str, Any], of_run: dict[str, Any]
) -> None:
    """Where the file leaves them out of its accuracy, a reader would search in vain for the printed one."""
    result = StaICC.Normal(datasets=["mini"], limit=4, **of_benchmark)(function, **of_run)
    details = result.details["mini"]
    missing = details.failed + len(details.unparsed)
    assert 0 < missing < EIGHT_QUERIES

    finding = rerun(result, function)

    (score,) = finding.scores
    assert score.missing == missing
    sentence = f"({missing} of them without a saved label count as wrong here; the accuracy in the file may "
    assert sentence in finding.message
    assert score.saved_of_all <= result.averaged["accuracy"]


def test_a_rerun_of_a_complete_result_says_nothing_of_missing_queries() -> None:
    (score,) = rerun(StaICC.Normal(datasets=["mini"], limit=4)(hash_scores), hash_scores).scores

    assert "count as wrong" not in str(score)


def test_a_method_is_not_predicted_again() -> None:
    kernel = ShiftedModel()

    finding = rerun(Method("batch_calibration", kernel).run(StaICC.Normal(datasets=["mini"], limit=4)), kernel)

    assert isinstance(finding.status, Unchecked)
    assert "batch_calibration" in finding.status.reason


def test_of_a_race_the_part_of_another_model_is_not_predicted_again() -> None:
    result = race(StaICC.Normal(datasets=["mini"]), ShiftedModel(), hash_scores, margin=0.3)

    finding = rerun(result, hash_scores)

    assert not finding.contradicted
    (line,) = finding.unchecked
    assert line.startswith("parts / first / mini: ")


def test_another_model_is_named_with_what_differs() -> None:
    result = StaICC.Normal(datasets=["mini"], limit=4)(ShiftedModel())

    (line,) = rerun(result, hash_scores, queries=1).unchecked

    assert line.startswith("mini: another model: ")
    assert "model was shifted, is None" in line


def test_prompts_of_another_benchmark_are_not_predicted_again() -> None:
    kernel = ShiftedModel()

    finding = rerun(
        StaICC.Normal(datasets=["mini"], limit=4)(ShiftedModel()),
        kernel,
        benchmark=StaICC.Normal(3, datasets=["mini"], limit=4),
    )

    assert isinstance(finding.status, Unchecked)
    assert not kernel.prompts


class NamedModel(ShiftedModel):
    """A kernel with a name, which is its identity, and with scores that are shifted by its own amount."""

    shifts: ClassVar[dict[str, float]] = {"zero": 0.0, "nine": 9.0}

    def __init__(self, name: str) -> None:
        super().__init__(self.shifts[name])
        self.name = name

    def identity(self) -> Identity:
        return Identity({"model": self.name})


@pytest.mark.parametrize(("name", "other"), [("zero", "nine"), ("nine", "zero")])
def test_of_several_models_each_predicts_only_its_own_data_set_again(name: str, other: str) -> None:
    """The predictions of another model contradict nothing, however much they differ."""
    benchmark = StaICC.Normal(datasets=["mini", invented_dataset(columns=1)], limit=4)
    dataset_of = dict(zip(("zero", "nine"), benchmark.dataset_names, strict=True))
    result = benchmark([NamedModel("zero"), NamedModel("nine")])
    kernel = NamedModel(name)

    finding = rerun(result, kernel, benchmark=benchmark)

    assert not finding.contradicted
    assert finding.unchecked == (f"{dataset_of[other]}: not predicted again, another model predicted it",)
    assert kernel.prompts


@pytest.mark.parametrize(("name", "part_of_other"), [("zero", "second"), ("nine", "first")])
def test_of_a_race_each_model_predicts_only_its_own_part_again(name: str, part_of_other: str) -> None:
    result = race(StaICC.Normal(datasets=["mini"]), NamedModel("zero"), NamedModel("nine"), margin=0.3)
    kernel = NamedModel(name)

    finding = rerun(result, kernel)

    assert not finding.contradicted
    assert finding.unchecked == (f"parts / {part_of_other} / mini: not predicted again, another model predicted it",)
    assert kernel.prompts


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ([1.0, 2.0], [1.0, 2.5], 0.2),  # relative to the largest score: 0.5 / 2.5
        ([0.1, 0.2], [0.1, 0.3], 0.1),  # absolute where all scores are below 1
        ([1000.0, 1000.1], [1002.0, 1000.0], 0.5),
        ([1.0, -math.inf], [1.0, -math.inf], 0.0),
        (1, 1, 0.0),
        (1, 2, math.inf),
        ("a", "b", math.inf),
        ([1.0, 0.0], [1.0, -math.inf], math.inf),
        ([1e308, 0.0], [-1e308, 0.0], math.inf),
        ([1.0], [1.0, 2.0], math.inf),
        (1, [0.0, 1.0], math.inf),
    ],
    ids=str,
)
def test_the_difference_of_two_predictions(one: Any, other: Any, expected: float) -> None:
    assert difference(one, other) == pytest.approx(expected)
    assert difference(other, one) == pytest.approx(expected)


@pytest.mark.parametrize("metrics", ["standard", "standard+brier", "0.1.1"])
def test_a_suite_is_recomputed_with_each_named_metric_set(metrics: str) -> None:
    result = StaICC.Suite(datasets=["mini"], limit=5, metrics=metrics)(hash_scores)

    contradicted = [message for finding in verify(result) for message in finding.contradicted]

    assert contradicted == []
