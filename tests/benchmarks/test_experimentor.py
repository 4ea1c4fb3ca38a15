"""The experimentor: every control that the README of 0.1.1 documents, and that nothing stays from run to run."""

from __future__ import annotations

import json
import math
import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import StaICC
from StaICC import Normal
from StaICC.benchmarks import Experimentor, NormalTask
from StaICC.benchmarks.verify import verify_file
from StaICC.datasets import Dataset, SplitSizes
from StaICC.errors import ArgumentError, OutputError, UnknownNameError
from StaICC.inference import RunOptions
from StaICC.prompting import PromptWriter, TemplateWarning

pytestmark = pytest.mark.filterwarnings("ignore::StaICC.prompting.TemplateWarning")
METRICS = ["accuracy", "averaged_truelabel_likelihood", "macro_F1", "expected_calibration_error_1"]


@pytest.fixture
def mini() -> Experimentor:
    return Experimentor("mini", NormalTask())


def first_label(prompt: str, label_space: list[str]) -> int:
    return 0


def test_scores_and_outputs_are_aligned_with_the_prompts(mini: Experimentor, stand_in: Any) -> None:
    """The release's keys differ from its README's (defect 16)."""
    result, success = mini.auto_run(stand_in)
    assert (list(result), success) == (METRICS, True)
    again, _, outputs = mini(stand_in, return_outputs=True)
    assert again == result
    documented = ["ground_truth", "predictions", "predicted_probabilities"]
    assert list(outputs) == [*documented, "normalised_probabilities"]
    assert [outputs[key] for key in ("groundtruth", "predicted", "prob.")] == [outputs[key] for key in documented]
    with pytest.raises(KeyError, match="did you mean 'predictions'"):
        outputs["prediction"]
    rows = [mini.test_set().label(row) for row in range(len(mini.test_set()))]
    assert outputs["ground_truth"] == rows * 2
    logits = [stand_in(prompt, mini.get_label_space()) for prompt in mini.prompt_set()]
    assert outputs["predictions"] == [row.index(max(row)) for row in logits]
    assert outputs["predicted_probabilities"] == [list(row) for row in logits], "as the function returned them"
    for row, probabilities in zip(logits, outputs["normalised_probabilities"], strict=True):
        assert probabilities == pytest.approx([math.exp(x) / sum(map(math.exp, row)) for x in row])
    json.dumps(outputs, allow_nan=False)


# -- k, repeats, demonstrations


@pytest.mark.parametrize("k", [0, 1, 7])
def test_k_can_be_set_later(mini: Experimentor, k: int) -> None:
    mini.set_k(k)
    assert mini.get_k() == k
    assert all(len(positions) == k for positions in mini.demonstration_sampler)
    assert mini.prompt_set() == Experimentor("mini", NormalTask(), k=k).prompt_set()


def test_demonstrations_by_hand_are_used_once(mini: Experimentor) -> None:
    default, before, rows = mini.prompt_set(), mini.demonstration_sampler, len(mini.test_set())
    with pytest.raises(ArgumentError, match=f"sampler has 1 rows, expected .* {rows} test rows"):
        mini.set_demonstration_sampler([[0, 1, 2, 3]])
    with pytest.raises(ArgumentError, match="row 1 of the sampler has 2 positions, expected k = 4"):
        mini.set_demonstration_sampler([[0, 1, 2, 3], [0, 1], *[[0, 1, 2, 3]] * (rows - 2)])
    assert mini.demonstration_sampler == before
    chosen = [[row % 5, 3, 3, 0] for row in range(rows)]
    mini.set_demonstration_sampler(chosen)
    assert mini.get_repeat_times() == 1
    assert mini.demonstration_sampler == chosen
    assert mini.prompt_set() == [mini.prompt_former.write_prompt(chosen[row], row) for row in range(rows)]
    chosen[0][0] = 99
    assert mini.demonstration_sampler[0][0] == 0
    mini.reset_demonstration_sampler()
    assert mini.get_repeat_times() == 2
    assert mini.prompt_set() == default


@pytest.mark.parametrize("inside", [True, False])
def test_domain_modes_hold_for_every_query_and_can_be_left(mini: Experimentor, inside: bool) -> None:
    default = mini.prompt_set()
    (mini.set_in_domain_mode if inside else mini.set_out_of_domain_mode)()
    test, shown = mini.test_set(), mini.demonstration_set()
    for number, positions in enumerate(mini.demonstration_sampler):
        own = test.label(number % len(test))
        assert (own in {shown.label(position) for position in positions}) == inside
    changed = mini.prompt_set()
    assert changed != default
    (mini.set_out_of_domain_mode if inside else mini.set_in_domain_mode)()
    (mini.set_in_domain_mode if inside else mini.set_out_of_domain_mode)()
    assert mini.prompt_set() == changed
    mini.set_k(4)
    assert mini.prompt_set() == default


def test_a_mode_that_cannot_succeed_leaves_everything_as_it_was() -> None:
    """The release loops for ever (defect 14)."""
    rows = [(f"text {row}", int(row < 2)) for row in range(40)]
    dataset = Dataset.from_rows(rows, name="skewed", label_space=["a", "b"], split=SplitSizes(0, 20, 20))
    skewed = Experimentor(dataset, NormalTask())
    before = skewed.prompt_set()
    with pytest.raises(ArgumentError, match=r"out-of-domain mode cannot succeed on skewed: k = 4"):
        skewed.set_out_of_domain_mode()
    assert skewed.prompt_set() == before
    assert "default demonstrations" in repr(skewed)


def test_more_demonstrations_than_there_are(make_own: Callable[..., Dataset], stand_in: Any) -> None:
    """The release returns zeros as if measured (defect 13); its README says that demonstrations repeat."""
    own = Experimentor(make_own(1), NormalTask(), k=35)
    assert [prompt.count("label: ") for prompt in own.prompt_set()] == [36] * 24
    result, success = own.auto_run(stand_in)
    assert success
    assert result["accuracy"] > 0


# -- prompts: twice, in a subset, out of order, elsewhere


def test_prompts_written_twice_are_the_same(mini: Experimentor) -> None:
    """Label noise and pseudo-queries depend on how often they were written in the release (defect 6)."""
    mini.prompt_former.change_label_wrong_rate(0.5)
    first = mini.prompt_set()
    mini.prompt_former.write_prompt([0, 1, 2, 3], 0)
    mini.prompt_former.example()
    assert mini.prompt_set() == first
    assert first != Experimentor("mini", NormalTask()).prompt_set()


@pytest.mark.parametrize("name", ["Normal", "DomainBias", "GLER", "TemplateSensitivity", "DemonstrationSensitivity"])
@pytest.mark.parametrize("limit", [1, 5])
def test_a_limit_keeps_a_subset_of_the_same_queries(name: str, limit: int) -> None:
    whole, part = (getattr(StaICC, name)(datasets=["mini"], limit=rows)[0] for rows in (None, limit))
    kept = [query for query in whole.all_queries() if query.row < limit]
    assert part.all_queries() == kept
    assert len(kept) < len(whole.all_queries())


# -- predictions


def probability_rows(mini: Experimentor) -> list[list[float]]:
    rows = [[0.2, 0.3, 0.5], [0.6, 0.3, 0.1], [0.1, 0.7, 0.2]]
    return [rows[number % 3] for number in range(len(mini))]


def test_given_predictions_equal_those_of_a_function(mini: Experimentor) -> None:
    rows = probability_rows(mini)
    given = mini.auto_run(preentered_prediction=rows, return_outputs=True)
    answers = iter(rows)
    assert mini.auto_run(lambda prompt, label_space: next(answers), return_outputs=True) == given
    assert mini.auto_run(preentered_prediction=tuple(map(tuple, rows)), return_outputs=True) == given
    assert given[2]["predicted_probabilities"] == given[2]["normalised_probabilities"] == rows

    def never(prompt: str, label_space: list[str]) -> int:
        raise AssertionError("the README says that it is ignored")

    assert mini.auto_run(never, preentered_prediction=[0] * len(mini)) == mini.auto_run(first_label)


@pytest.mark.parametrize("metrics", ["standard", "0.1.1"])
@pytest.mark.parametrize("row", [[3, 1, 2], [1.5, 1.5, 0.25], [0.5, 0.25, 0.0], [-3.0, float("-inf"), 2.0]])
def test_what_the_function_returned_is_kept_as_it_was(metrics: str, row: list[float]) -> None:
    experimentor = Normal(datasets=["mini"], metrics=metrics, limit=9)[0]
    outputs = experimentor.auto_run(lambda prompt, label_space: row, return_outputs=True)[2]
    assert outputs["predicted_probabilities"] == [row] * 18
    outputs["predicted_probabilities"][0][0] = 7
    assert outputs["predicted_probabilities"][1] == row, "rows are not shared"
    assert (outputs["normalised_probabilities"][0] is None) == (min(row) >= 0)  # ambiguous
    labels = experimentor.auto_run(lambda prompt, label_space: 2, return_outputs=True)[2]
    assert labels["predicted_probabilities"] == [[0, 0, 1]] * 18


def test_given_label_indexes_and_texts(mini: Experimentor) -> None:
    """The release takes the width from the largest index: an IndexError here (defect 9)."""
    indexes = [number % 2 for number in range(len(mini))]
    given = mini.auto_run(preentered_prediction=indexes, return_outputs=True)
    outputs = given[2]
    assert outputs["predictions"] == indexes
    right = sum(index == label for index, label in zip(indexes, outputs["ground_truth"], strict=True))
    assert given[0]["accuracy"] == right / len(indexes)
    assert given[0]["averaged_truelabel_likelihood"] is None
    texts = [mini.get_label_space()[index] for index in indexes]
    assert mini.auto_run(preentered_prediction=texts, return_outputs=True) == given


def test_given_arrays_and_tensors(mini: Experimentor) -> None:
    np = pytest.importorskip("numpy")
    rows = probability_rows(mini)
    expected = mini.auto_run(preentered_prediction=rows)
    assert mini.auto_run(preentered_prediction=np.array(rows)) == expected
    assert mini.auto_run(preentered_prediction=[np.array(row) for row in rows]) == expected
    assert mini.auto_run(lambda prompt, label_space: np.array([0.2, 0.3, 0.5]))[1]
    indexes = np.arange(len(rows)) % 2
    assert mini.auto_run(preentered_prediction=indexes) == mini.auto_run(preentered_prediction=indexes.tolist())
    torch = pytest.importorskip("torch")
    assert mini.auto_run(preentered_prediction=torch.tensor(rows, dtype=torch.float64)) == expected


BAD_GIVEN: dict[str, tuple[Callable[[int], Any], type[Exception], str]] = {
    "too few": (lambda n: [0] * (n - 1), ArgumentError, "^Normal, mini: .*has {few} predictions"),
    "none": (lambda n: [], ArgumentError, "has 0 predictions"),
    "a text": (lambda n: "x" * n, ArgumentError, "not str$"),
    "a number": (lambda n: 5, ArgumentError, "not int$"),
    "a generator": (lambda n: (0 for _ in range(n)), ArgumentError, "not generator$"),
    "an index": (lambda n: [0, 3] + [0] * (n - 2), OutputError, "^Normal, mini, query 1: .*index 3"),
    "a row": (lambda n: [[0.2, 0.3, 0.5]] * (n - 1) + [[0.5, 0.5]], OutputError, "query {few}: got 2 values"),
    "not finite": (lambda n: [[0.2, 0.3, float("nan")]] * n, OutputError, "query 0: .*'weather' is nan"),
    "nothing": (lambda n: [None] * n, OutputError, "query 0: got None"),
    "a label": (lambda n: ["snow"] * n, OutputError, "query 0: .*'snow', which is no label"),
    "labels and rows": (lambda n: [[0.2, 0.3, 0.5]] * (n - 1) + [1], OutputError, "query {few} is a label"),
    "no predictions": (lambda n: None, ArgumentError, "^give forward_inference"),
}


@pytest.mark.parametrize(("given", "error", "message"), BAD_GIVEN.values(), ids=BAD_GIVEN)
def test_bad_given_predictions(
    mini: Experimentor, given: Callable[[int], Any], error: type[Exception], message: str
) -> None:
    n = len(mini)
    with pytest.raises(error, match=message.format(n=n, few=n - 1)):
        mini.auto_run(preentered_prediction=given(n))


def test_batched_functions_and_options_of_a_run(mini: Experimentor, stand_in: Any) -> None:
    calls = []

    def batched(prompts: list[str], label_space: list[str]) -> list[list[float]]:
        calls.append(prompts)
        return [stand_in(prompt, label_space) for prompt in prompts]

    assert mini.auto_run(batched, batched_inference=True) == mini.auto_run(stand_in)
    assert calls == [mini.prompt_set()]

    def sometimes(prompt: str, label_space: list[str]) -> Any:
        return None if prompt == mini.prompt_set()[3] else stand_in(prompt, label_space)

    result, success, outputs = mini.auto_run(sometimes, return_outputs=True, options=RunOptions(on_error="collect"))
    assert success is False
    assert [number for number, label in enumerate(outputs["predictions"]) if label is None] == [3]
    assert outputs["predicted_probabilities"][3] is outputs["normalised_probabilities"][3] is None
    right = sum(a == b for a, b in zip(outputs["predictions"], outputs["ground_truth"], strict=True))
    assert result["accuracy"] == right / (len(mini) - 1)


# -- custom metrics


def test_a_custom_metric_gets_copies_and_probabilities(mini: Experimentor, stand_in: Any) -> None:
    seen = []

    def metric(ground_truth: list[int], prediction: list[list[float]]) -> float:
        seen.append((list(ground_truth), prediction[1]))
        ground_truth.clear()
        prediction[1] = []
        return 0.25

    undefined = {"nan": math.nan, "infinite": math.inf, "none": None}
    mini.add_metric("mine", metric)
    mini.add_metric("rows", lambda ground_truth, prediction: prediction[0][2])
    for name, value in undefined.items():
        mini.add_metric(name, lambda ground_truth, prediction, value=value: value)
    first, second = mini.run(stand_in), mini.run(stand_in)
    assert first.values == second.values
    assert (list(first.values), first.values["mine"]) == ([*METRICS, "mine", "rows", *undefined], 0.25)
    assert all(str(value) in first.details.missing[name] for name, value in undefined.items())
    assert seen[0] == seen[1]
    assert mini.auto_run(lambda prompt, label_space: [-5, 3, 3])[0]["rows"] == pytest.approx(1 / (2 + math.exp(-8)))
    assert mini.auto_run(lambda prompt, label_space: "weather")[0]["rows"] == 1.0


def test_a_metric_of_the_same_name_is_replaced_with_a_warning(mini: Experimentor, stand_in: Any) -> None:
    """As in 0.1.1; the signature tells it from the library's metric."""
    before = mini.settings_for_signature()["metrics"]
    with pytest.warns(UserWarning, match="the metric 'accuracy' is replaced"):
        mini.add_metric("accuracy", lambda truth, rows: 0.125)
    assert sorted(mini.metrics) == sorted(METRICS)
    run = mini.run(stand_in)
    assert run.values["accuracy"] == 0.125
    assert "accuracy" not in run.details.intervals
    assert mini.settings_for_signature()["metrics"] != before


def test_metrics_are_shared_by_the_data_sets_of_a_benchmark(make_own: Any, stand_in: Any) -> None:
    """As in 0.1.1: so each metric has a mean, also after re_initialize; other benchmarks are not affected."""
    benchmark = Normal(datasets=[make_own(1, "one"), make_own(1, "two")])
    benchmark[1].metrics["half"] = lambda truth, rows: 0.5
    assert [*benchmark.metrics] == [*benchmark[0].metrics] == [*METRICS, "half"]
    assert benchmark(stand_in)["Averaged results"]["half"] == 0.5
    benchmark.re_initialize(k=2)
    del benchmark.metrics["macro_F1"]
    result = benchmark(stand_in)
    assert list(result["Averaged results"]) == [name for name in [*METRICS, "half"] if name != "macro_F1"]
    assert "without macro_F1" in str(result.signature)
    assert [*Normal(datasets=["mini"]).metrics] == METRICS
    with pytest.raises(KeyError):
        del benchmark.metrics["macro_F1"]
    with pytest.raises(ArgumentError, match="functions by name"):
        benchmark.metrics["half"] = 0.5  # type: ignore[assignment]


# -- no state from run to run; changed templates


def test_a_changed_label_space_and_another_prompt_writer(mini: Experimentor) -> None:
    seen = set()

    def function(prompt: str, label_space: list[str]) -> str:
        seen.add(tuple(label_space))
        return label_space[1]

    mini.prompt_former.change_label_space(["A", "B", "C"])
    assert mini.auto_run(function)[0]["accuracy"] > 0
    assert seen == {("A", "B", "C")}
    writer = PromptWriter(mini.card, mini.triplet_dataset)
    writer.change_instruction("Decide. ")
    mini.prompt_former = writer
    assert all(prompt.startswith("Decide. ") for prompt in mini.prompt_set())


def test_a_changed_template_warns_and_shows_in_the_signature() -> None:
    benchmark = Normal(datasets=["mini"])
    assert "template" not in benchmark.signature().fields
    with pytest.warns(TemplateWarning, match="the prompts of mini are no longer the benchmark's"):
        benchmark[0].prompt_former.change_instruction("Decide. ")
    changed = benchmark.signature()
    assert str(changed.fields["template"]).startswith("changed-")
    benchmark[0].prompt_former.change_instruction("Choose. ")
    assert benchmark.signature().fields["template"] != changed.fields["template"]
    benchmark[0].prompt_former.reset()
    assert benchmark.signature() == Normal(datasets=["mini"]).signature()


# -- custom data


# -- arguments


@pytest.mark.parametrize(
    "settings",
    [
        *({"limit": value} for value in (0, 2.5, True)),
        *({"k": value} for value in (-1, 2.0, "4", None, True)),
        *({"metrics": value} for value in ("0.1", ["accuracy"])),
        {"statistics": 200},
        {"noisy_channel": "no"},
        {"outputs": "logit"},
    ],
)
def test_bad_settings(settings: dict[str, Any]) -> None:
    ((name, value),) = settings.items()
    for make in (lambda: Experimentor("mini", NormalTask(), **settings), lambda: Normal(datasets=["mini"], **settings)):
        with pytest.raises((ArgumentError, UnknownNameError), match=re.escape(repr(value))) as caught:
            make()
        assert name.split("_")[0].rstrip("s") in str(caught.value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda one: one.set_k(2), "k changed from 4 to 2"),
        (lambda one: one.prompt_former.change_instruction("Read. "), "template changed from None to changed-"),
        (lambda one: one.add_metric("mine", lambda truth, rows: 0.5), "metrics changed from standard to standard"),
    ],
)
def test_a_function_that_changes_its_own_benchmark(change: Any, message: str) -> None:
    benchmark = Normal(datasets=["mini"], limit=3)

    def changing(prompt: str, label_space: list[str]) -> int:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            change(benchmark[0])
        return 0

    with pytest.raises(ArgumentError, match=f"^Normal, mini: {message}"):
        benchmark(changing, progress=False)


class WithItsOwnScore(NormalTask):
    """Scores as Normal does, and one figure more."""

    def intervals(self, outcomes, scoring):
        intervals = dict(super().intervals(outcomes, scoring))
        return intervals | {"own score": intervals["accuracy"]}


def test_intervals_are_those_of_the_metric_set_and_of_the_tasks_own_scores():
    run = Experimentor("mini", WithItsOwnScore(), limit=20, metrics={"zero": lambda truth, rows: 0.0}).run(first_label)
    assert set(run.details.intervals) == {"own score"}
    released = Experimentor("mini", NormalTask(), limit=5, metrics="0.1.1")
    assert released.settings_for_signature()["statistics"] is None
    assert not released.run(lambda prompt, label_space: [0.2, 0.3, 0.5]).details.intervals


def test_given_predictions_in_another_order_are_refused() -> None:
    pandas = pytest.importorskip("pandas")
    experimentor = Normal(datasets=["mini"], limit=4)[0]
    labels, number = experimentor.get_label_space(), len(experimentor.prompt_set())
    frame = pandas.DataFrame([[0.7, 0.2, 0.1]] * number, columns=labels)
    shuffled = pandas.Series([0, 1] * (number // 2)).iloc[::-1]
    for given, message in ((frame, "got a DataFrame"), (shuffled, "got a Series with the index .*, expected the def")):
        with pytest.raises(ArgumentError, match=f"preentered_prediction: {message}"):
            experimentor.auto_run(preentered_prediction=given)
    rows = [row for _, row in frame[labels[::-1]].iterrows()]
    expected = experimentor.auto_run(preentered_prediction=frame.to_numpy())
    assert experimentor.auto_run(preentered_prediction=rows) == expected


@pytest.mark.parametrize("metrics", ["standard", "0.1.1"])
def test_logits_of_minus_infinity_through_store_file_and_verification(tmp_path: Path, metrics: str) -> None:
    """A label that is ruled out has the probability 0; no file holds a number that is not JSON."""

    def ruled_out(prompt: str, label_space: list[str]) -> list[float]:
        return [float(len(prompt) % 7), -math.inf, float(len(prompt) % 3)]

    def large(prompt: str, label_space: list[str]) -> list[float]:
        return [-1e9 if score == -math.inf else score for score in ruled_out(prompt, label_space)]

    for kind in (Normal, StaICC.ContextualBias, StaICC.PosteriorBias, StaICC.TemplateSensitivity):
        benchmark = kind(datasets=["mini"], limit=12, metrics=metrics)
        path = tmp_path / f"{kind.__name__}.json"
        run = {"store": tmp_path / "store.sqlite", "model_name": "m", "return_outputs": True}
        results = [benchmark(ruled_out, **run) for _ in range(2)]
        results[1].save(path)
        json.loads(path.read_text(encoding="utf-8"), parse_constant=pytest.fail)
        assert not [line for finding in verify_file(path) for line in finding.contradicted]
        if kind is Normal or metrics == "standard":
            assert results[0]["Averaged results"] == results[1]["Averaged results"]
            assert results[0]["Averaged results"] == pytest.approx(benchmark(large)["Averaged results"])
    with pytest.raises(OutputError, match="which cannot be a probability"):
        Normal(datasets=["mini"], limit=12, outputs="probabilities")(ruled_out)
