"""The experimentor: every control that the README of 0.1.1 documents, and that nothing stays from run to run."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

import StaICC
from StaICC import Normal
from StaICC.benchmarks import Experimentor, NormalTask
from StaICC.benchmarks.verify import verify_file
from StaICC.errors import ArgumentError, OutputError
from StaICC.prompting import TemplateWarning

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


# -- prompts: twice, in a subset, out of order, elsewhere


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


# -- no state from run to run; changed templates


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


# -- arguments


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
