"""Benchmarks and experimentors: choosing data sets, running in any way, aggregating, signing; names of 0.1.1."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import StaICC
from StaICC import Generalisation, Normal, compat
from StaICC.benchmark_names import has_true_labels
from StaICC.benchmarks.benchmark import Benchmark, TaskBenchmark
from StaICC.benchmarks.experimentor import Experimentor
from StaICC.benchmarks.tasks.normal import NormalTask
from StaICC.benchmarks.verify import verify_file
from StaICC.datasets.dataset import Dataset
from StaICC.errors import ArgumentError, OutputError
from StaICC.progress import Progress
from StaICC.prompting.prompt_writer import TemplateWarning

pytestmark = pytest.mark.filterwarnings("ignore::StaICC.TemplateWarning")


@pytest.fixture
def three(make_own: Callable[..., Dataset]) -> Benchmark:
    return Normal(datasets=[make_own(1, "one"), make_own(2, "two"), "mini"])


def first_label(prompt: str, label_space: list[str]) -> int:
    return 0


def by_length(prompt: str, label_space: list[str]) -> list[float]:
    """A function of a module, so that other processes can import it."""
    return [float(len(prompt) * (place + 1) % 11) for place in range(len(label_space))]


@pytest.mark.parametrize("kind", [*StaICC.Diagnosis.kinds, Normal, Generalisation], ids=lambda kind: kind.__name__)
def test_a_saved_name_says_whether_queries_have_true_labels(kind: type[TaskBenchmark]) -> None:
    (experimentor,) = kind(datasets=["mini"])
    assert has_true_labels(kind.task_name) is not experimentor.task.content_free


def test_a_cut_of_prompts_is_a_setting(three: Benchmark) -> None:
    settings = []
    for three[0].prompt_former.cut_by_length in (3, 4):
        settings.append(three[0].settings_for_signature())
    assert settings[0] != settings[1]


def test_a_withheld_interval_is_not_that_of_a_mean_of_one() -> None:
    result = StaICC.Normal(datasets=["mini"], limit=6)(lambda prompt, label_space: len(prompt) % len(label_space))
    assert "macro_F1" in result.means.missing


def test_re_initialize(three: Benchmark) -> None:
    default = three[0].prompt_set()
    three[0].prompt_former.change_instruction("Decide. ")
    three[0].set_k(1)
    three.re_initialize()
    assert three[0].prompt_set() == default
    three.re_initialize(noisy_channel=True)
    assert isinstance(three[0].prompt_set()[0], list)
    three.re_initialize()
    three[1].prompt_former.change_instruction("Decide. ")
    writers = [experimentor.prompt_former for experimentor in three]
    three.re_initialize(k=2, keep_prompter=True)  # an IndexError in the release (defect 12)
    assert [experimentor.get_k() for experimentor in three] == [2] * 3
    assert [experimentor.prompt_former for experimentor in three] == writers
    assert [prompt for prompt in three[1].prompt_set() if not prompt.startswith("Decide. ")] == []
    assert not three[0].prompt_set()[0].startswith("Decide. ")


# -- functions and bad arguments


def test_queries_and_progress_are_in_order(three: Benchmark) -> None:
    prompts: list[str] = []
    reported: list[Progress] = []
    three(lambda prompt, label_space: prompts.append(prompt) or 0, progress=reported.append)
    assert prompts == [prompt for experimentor in three for prompt in dict.fromkeys(experimentor.prompt_set())]
    ends = [progress.where for progress in reported if progress.done == progress.total and not progress.phase]
    assert ends == ["Normal, one", "Normal, two", "Normal, mini"]
    assert {(progress.number, progress.parts) for progress in reported} == {(0, 3), (1, 3), (2, 3)}


def test_predictions_for_each_data_set(three: Benchmark, stand_in: Any, anonymous: Any) -> None:
    given = {
        experimentor.name: [stand_in(prompt, experimentor.get_label_space()) for prompt in experimentor.prompt_set()]
        for experimentor in three
    }
    result = three(preentered_prediction=given)
    assert anonymous(result) == anonymous(three(stand_in))
    assert three(preentered_prediction=list(given.values())) == result


# -- failures


def failing(prompt: str, label_space: list[str]) -> Any:
    return None if "column 1" in prompt and "text 3" in prompt else by_length(prompt, label_space)


def test_a_partial_result_says_so(three: Benchmark) -> None:
    with pytest.raises(OutputError, match=r"^Normal, two, query \d+: .*cannot be scored: "):
        three(failing)
    result = three(failing, on_error="collect", return_outputs=True)
    failed = sum("text 3" in prompt for prompt in three["two"].prompt_set())
    assert 0 < failed < 24
    assert not result.complete
    assert three(by_length).complete
    assert [details.failed for details in result.details.values()] == [0, failed, 0]
    assert (result.details["two"].scored, len(result.details["two"].failures)) == (24 - failed, failed)
    assert "got None" in result.details["two"].failures[0].reason
    assert result.signature.fields["failed"] == str(failed)
    assert f"PARTIAL: {failed} of {sum(map(len, three))} queries" in str(result)
    assert result.outputs is not None
    scored = [record for record in result.outputs["two"] if record["prediction"] is not None]
    accuracy = sum(record["prediction"] == record["ground_truth"] for record in scored) / (24 - failed)
    assert result["Divided results"]["two"]["accuracy"] == accuracy


def test_a_mean_with_a_missing_part_is_missing(three: Benchmark) -> None:
    result = three([first_label, by_length, lambda prompt, label_space: [1 / len(label_space)] * len(label_space)])
    assert result["Divided results"]["mini"]["averaged_truelabel_likelihood"] is not None
    unread = result["Divided results"]["one"], result["Averaged results"]
    assert [scores["averaged_truelabel_likelihood"] for scores in unread] == [None, None]
    assert "averaged_truelabel_likelihood" not in {**result.means.intervals, **result.means.missing}
    assert result.details["one"].missing["averaged_truelabel_likelihood"].startswith("the predictions are bare labels")
    accuracies = [scores["accuracy"] for scores in result["Divided results"].values()]
    assert result["Averaged results"]["accuracy"] == math.fsum(accuracies) / 3
    read = [details.conditions[0].output for details in result.details.values()]
    assert read == ["labels", "ambiguous", "probabilities"]


# -- runs and signatures


def test_a_second_run_equals_the_first(three: Benchmark, stand_in: Any) -> None:
    """The release keeps predictions in the object (defect 7)."""
    first = three(stand_in)
    assert [three(function) == first for function in (by_length, stand_in)] == [False, True]
    assert json.dumps(first.to_dict()["details"]) == json.dumps(three(stand_in).to_dict()["details"])
    assert first.signature.differences(three.signature()) == {"scoring": ("function", None)}


def own(name: str, label_space: list[str], last: str = "Another.") -> Dataset:
    rows = [("One text.", 0), ("Another.", 1)] * 29 + [("One text.", 0), (last, 1)]
    return Dataset.from_rows(rows, name=name, label_space=label_space)


@pytest.mark.parametrize(
    ("one", "other"), [(["a+b"], ["a", "b"]), (["a%2Bb"], ["a+b"]), (["a|k:9"], ["a"]), (["a\nb"], ["a%0Ab"])]
)
def test_names_of_own_data_cannot_pass_for_other_settings(one, other):
    lines = [str(Normal(datasets=[own(n, ["x", "y"]) for n in names], limit=2).signature()) for names in (one, other)]
    assert lines[0].split("|data:")[0] != lines[1].split("|data:")[0]
    assert [line for line in lines if not (line.count("|") == lines[0].count("|") and line.isprintable())] == []
    with pytest.raises(ArgumentError, match="each once, case ignored"):
        Normal(datasets=[own(name, ["x", "y"]) for name in ("once", "Once")])


# -- experimentors: every control that the README of 0.1.1 documents; nothing stays from run to run


METRICS = ["accuracy", "averaged_truelabel_likelihood", "macro_F1", "expected_calibration_error_1"]


@pytest.fixture
def mini() -> Experimentor:
    return Experimentor("mini", NormalTask())


def test_a_run_with_outputs_has_the_same_scores(mini: Experimentor, stand_in: Any) -> None:
    mini.outputs = "logits"  # those of the stand-in are all positive
    result, success = mini.auto_run(stand_in)
    assert (list(result), success) == (METRICS, True)
    with_outputs, _, _ = mini(stand_in, return_outputs=True)
    assert with_outputs == result


def test_outputs_are_aligned_with_the_prompts(mini: Experimentor, stand_in: Any) -> None:
    mini.outputs = "logits"
    _, _, outputs = mini(stand_in, return_outputs=True)
    labels = [mini.test_set().label(row) for row in range(len(mini.test_set()))]
    assert outputs["ground_truth"] == labels * 2  # two queries for each row, the second ones after all first ones
    logits = [stand_in(prompt, mini.get_label_space()) for prompt in mini.prompt_set()]
    assert outputs["predictions"] == [row.index(max(row)) for row in logits]
    assert outputs["predicted_probabilities"] == [list(row) for row in logits], "as the function returned them"
    for number, (row, probabilities) in enumerate(zip(logits, outputs["normalised_probabilities"], strict=True)):
        softmax = [math.exp(x) / sum(map(math.exp, row)) for x in row]
        assert probabilities == pytest.approx(softmax), f"query {number}"
    json.dumps(outputs, allow_nan=False)


def test_outputs_have_the_keys_of_the_release_and_those_of_its_readme(mini: Experimentor, stand_in: Any) -> None:
    """The keys that the release returns differ from those that its README describes (defect 16)."""
    mini.outputs = "logits"
    _, _, outputs = mini(stand_in, return_outputs=True)
    documented = ["ground_truth", "predictions", "predicted_probabilities"]
    returned = ["groundtruth", "predicted", "prob."]
    assert list(outputs) == [*documented, "normalised_probabilities"]
    assert [outputs[key] for key in returned] == [outputs[key] for key in documented]
    with pytest.raises(KeyError, match="did you mean 'predictions'"):
        outputs["prediction"]


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
    assert [(name, value) for name, value in undefined.items() if str(value) not in first.details.missing[name]] == []
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
    expected = experimentor.auto_run(preentered_prediction=frame.to_numpy())
    assert experimentor.auto_run(preentered_prediction=[row for _, row in frame[labels[::-1]].iterrows()]) == expected


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


# -- the spellings of 0.1.1


ALIASES = {
    **{"Contextual_bias": "ContextualBias", "Domain_bias": "DomainBias", "Post_bias": "PosteriorBias"},
    **{"Triplet_bias": "TripletBias", "Template_sens": "TemplateSensitivity", "Demo_sens": "DemonstrationSensitivity"},
}


@pytest.mark.parametrize(("old", "new"), ALIASES.items())
def test_old_names_are_the_new_classes(old: str, new: str) -> None:
    assert getattr(StaICC, old) is getattr(StaICC, new) is getattr(compat, old)
    assert getattr(compat, old).__module__.startswith("StaICC.benchmarks")


README = """
from StaICC import Normal
benchmark = Normal(datasets=["mini"])
result_dictionary = benchmark(my_inference)
result_dictionary['Divided results']['mini']['accuracy']
result_dictionary['Averaged results']['expected_calibration_error_1']
benchmark = Normal(k = 2, datasets=["mini"])
experimentor = benchmark[0]
experimentor.set_k(3)
demonstrations, tests = experimentor.demonstration_set(), experimentor.test_set()
for demo in demonstrations:
    assert len(demo[0]) == 1
sampler = [[0, 1, 2] for i in range(len(experimentor.test_set()))]
experimentor.set_demonstration_sampler(sampler)
experimentor.reset_demonstration_sampler()
prompt_former = experimentor.prompt_former
prompt_former.change_instruction('Classify the text.\\n')
prompt_former.change_input_text_prefixes(['Text: '])
prompt_former.change_input_text_affixes(['\\n'])
prompt_former.change_label_prefix('Label: ')
prompt_former.change_label_affix('\\n\\n')
prompt_former.change_query_prefix('')
prompt_former.change_label_space(['A', 'B', 'C'])
prompt_former.change_label_wrong_rate(0.0)
prompt_former.use_noisy_channel()
prompt_former.disable_noisy_channel()
config_dict = prompt_former.get_config_dict()
prompt_former.reset()
prompt_former.set_config_dict({'instruction': 'Classify.', 'use_noisy_channel': False})
prompt_former.example()
prompt_former.reset()
result, success = experimentor.auto_run(forward_inference = my_inference)
result, success, outputs = experimentor.auto_run(forward_inference = my_inference, return_outputs=True)
outputs['ground_truth'], outputs['predictions'], outputs['predicted_probabilities']
experimentor.auto_run(preentered_prediction=[0] * len(experimentor.prompt_set()))
experimentor.auto_run(lambda prompts, label_space: [0] * len(prompts), batched_inference=True)
experimentor.add_metric('mine', lambda ground_truth, prediction: 1.0)
assert experimentor(my_inference)[0]['mine'] == 1.0
benchmark.auto_run(list_of_forward_inference = [my_inference])
texts, label = experimentor.calibration_set()[0]
experimentor.test_set().label_index_to_text(label)
benchmark = Normal(k = 2, noisy_channel = True, datasets=["mini"])
benchmark(lambda prompt, label_space: [-len(one) for one in prompt])
"""


def test_code_written_for_the_readme_of_0_1_1_runs() -> None:
    names: dict[str, Any] = {"my_inference": by_length}
    exec(README, names)
    assert names["success"] is True
    assert names["config_dict"]["label_space"] == ["A", "B", "C"]


def test_members_of_the_split_and_of_the_sampler() -> None:
    experimentor = StaICC.Normal(datasets=["mini"])[0]
    split, test = experimentor.triplet_dataset, experimentor.test_set()
    assert (split.get_dataset_name(), split.get_label_space()) == ("mini", experimentor.get_label_space())
    for row in (0, len(test) - 1):
        assert split.get_default_ground_truth_label_index(row) == test.label(row)
        assert split.get_default_ground_truth_label(row) == test.get_label(row) == test[row][1]
    sampler = experimentor.demonstration_sampler
    assert sampler.get_sampled_indexes(3) == sampler[3] == list(experimentor.demonstration_lists()[3])
    for wrong in (-1, len(sampler), 1.0, True):
        with pytest.raises(ValueError, match="index must be an integer from 0 to"):
            sampler.get_sampled_indexes(wrong)  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="index must be an integer from 0 to"):
            split.get_default_ground_truth_label(wrong)  # type: ignore[arg-type]
