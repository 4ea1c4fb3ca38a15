"""Benchmarks and experimentors: choosing data sets, running in any way, aggregating, signing; names of 0.1.1."""

from __future__ import annotations

import json
import math
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
from tests.benchmarks.conftest import invented_dataset

pytestmark = pytest.mark.filterwarnings("ignore::StaICC.TemplateWarning")


@pytest.fixture
def benchmark_on_three() -> Benchmark:
    """Normal on the data sets "one" (a column of texts), "two" (two columns) and "mini"."""
    return Normal(datasets=[invented_dataset(columns=1, name="one"), invented_dataset(columns=2, name="two"), "mini"])


def first_label(prompt: str, label_space: list[str]) -> int:
    return 0


def by_length(prompt: str, label_space: list[str]) -> list[float]:
    """A function of a module, so that other processes can import it."""
    return [float(len(prompt) * (place + 1) % 11) for place in range(len(label_space))]


@pytest.mark.parametrize("kind", [*StaICC.Diagnosis.kinds, Normal, Generalisation], ids=lambda kind: kind.__name__)
def test_a_saved_name_says_whether_queries_have_true_labels(kind: type[TaskBenchmark]) -> None:
    (experimentor,) = kind(datasets=["mini"])

    assert has_true_labels(kind.task_name) is not experimentor.task.content_free


def test_a_cut_of_prompts_is_a_setting(benchmark_on_three: Benchmark) -> None:
    experimentor = benchmark_on_three[0]

    experimentor.prompt_former.cut_by_length = 3
    settings_of_short_cut = experimentor.settings_for_signature()
    experimentor.prompt_former.cut_by_length = 4
    settings_of_long_cut = experimentor.settings_for_signature()

    assert settings_of_short_cut != settings_of_long_cut


def test_the_mean_over_one_data_set_has_no_interval_where_the_data_set_has_none() -> None:
    """Six test rows are too few for an interval of the macro F1, so the data set's is withheld."""
    result = StaICC.Normal(datasets=["mini"], limit=6)(lambda prompt, label_space: len(prompt) % len(label_space))

    assert "macro_F1" not in result.details["mini"].intervals
    assert "macro_F1" not in result.means.intervals
    assert "macro_F1" in result.means.missing


def test_re_initialize_undoes_changes(benchmark_on_three: Benchmark) -> None:
    experimentor = benchmark_on_three[0]
    default_prompts = experimentor.prompt_set()
    experimentor.prompt_former.change_instruction("Decide. ")
    experimentor.set_k(1)

    benchmark_on_three.re_initialize()

    assert benchmark_on_three[0].prompt_set() == default_prompts


def test_re_initialize_can_turn_the_noisy_channel_on(benchmark_on_three: Benchmark) -> None:
    """In the noisy channel form, a prompt is a list of texts, one for each label."""
    benchmark_on_three.re_initialize(noisy_channel=True)

    assert isinstance(benchmark_on_three[0].prompt_set()[0], list)


def test_re_initialize_can_keep_the_changed_templates(benchmark_on_three: Benchmark) -> None:
    """The release raised an IndexError here (defect 12)."""
    unchanged, changed, _ = benchmark_on_three
    changed.prompt_former.change_instruction("Decide. ")
    prompt_formers = [experimentor.prompt_former for experimentor in benchmark_on_three]

    benchmark_on_three.re_initialize(k=2, keep_prompter=True)

    assert [experimentor.get_k() for experimentor in benchmark_on_three] == [2, 2, 2]
    assert [experimentor.prompt_former for experimentor in benchmark_on_three] == prompt_formers
    for prompt in changed.prompt_set():
        assert prompt.startswith("Decide. ")
    for prompt in unchanged.prompt_set():
        assert not prompt.startswith("Decide. ")


# -- functions and bad arguments


def test_queries_are_predicted_in_the_order_of_the_data_sets_each_prompt_once(benchmark_on_three: Benchmark) -> None:
    predicted: list[str] = []

    def record_prompt(prompt: str, label_space: list[str]) -> int:
        predicted.append(prompt)
        return 0

    benchmark_on_three(record_prompt)

    expected: list[str] = []
    for experimentor in benchmark_on_three:
        expected.extend(dict.fromkeys(experimentor.prompt_set()))  # without repetitions, in order
    assert predicted == expected


def test_progress_reports_the_end_of_every_data_set_in_order(benchmark_on_three: Benchmark) -> None:
    reports: list[Progress] = []

    benchmark_on_three(first_label, progress=reports.append)

    finished = [report.where for report in reports if report.done == report.total and not report.phase]
    assert finished == ["Normal, one", "Normal, two", "Normal, mini"]
    numbers = {(report.number, report.parts) for report in reports}
    assert numbers == {(0, 3), (1, 3), (2, 3)}


def test_predictions_can_be_given_for_each_data_set(
    benchmark_on_three: Benchmark, hash_model: Any, anonymous: Any
) -> None:
    predictions_by_dataset = {}
    for experimentor in benchmark_on_three:
        label_space = experimentor.get_label_space()
        predictions_by_dataset[experimentor.name] = [
            hash_model(prompt, label_space) for prompt in experimentor.prompt_set()
        ]

    from_dictionary = benchmark_on_three(preentered_prediction=predictions_by_dataset)
    from_list = benchmark_on_three(preentered_prediction=list(predictions_by_dataset.values()))

    assert anonymous(from_dictionary) == anonymous(benchmark_on_three(hash_model))
    assert from_list == from_dictionary


# -- failures


def failing(prompt: str, label_space: list[str]) -> Any:
    """Return None, which is no prediction, for some prompts of the data set ``two`` (it alone has a second column)."""
    if "column 1" in prompt and "text 3" in prompt:
        return None
    return by_length(prompt, label_space)


QUERIES_OF_TWO = 24
"""Queries of the data set ``two``: 12 test rows, each in 2 repeats."""


def failed_count(benchmark: Benchmark) -> int:
    """Return for how many queries of the data set ``two`` the function ``failing`` has no prediction."""
    count = sum("text 3" in prompt for prompt in benchmark["two"].prompt_set())
    assert 0 < count < QUERIES_OF_TWO
    return count


def test_a_failed_query_ends_the_run_by_default(benchmark_on_three: Benchmark) -> None:
    with pytest.raises(OutputError, match=r"^Normal, two, query \d+: .*cannot be scored: "):
        benchmark_on_three(failing)


def test_a_partial_result_counts_its_failed_queries(benchmark_on_three: Benchmark) -> None:
    failed = failed_count(benchmark_on_three)

    result = benchmark_on_three(failing, on_error="collect")

    failed_by_dataset = {name: details.failed for name, details in result.details.items()}
    assert failed_by_dataset == {"one": 0, "two": failed, "mini": 0}
    assert result.details["two"].scored == QUERIES_OF_TWO - failed
    assert not result.complete


def test_a_partial_result_has_the_reason_of_each_failure(benchmark_on_three: Benchmark) -> None:
    result = benchmark_on_three(failing, on_error="collect")

    failures = result.details["two"].failures
    assert len(failures) == failed_count(benchmark_on_three)
    assert "got None" in failures[0].reason


def test_the_table_and_the_signature_of_a_partial_result_say_how_many_queries_failed(
    benchmark_on_three: Benchmark,
) -> None:
    failed = failed_count(benchmark_on_three)
    query_count = sum(len(experimentor) for experimentor in benchmark_on_three)

    result = benchmark_on_three(failing, on_error="collect")

    assert f"PARTIAL: {failed} of {query_count} queries" in str(result)
    assert result.signature.fields["failed"] == str(failed)


def test_a_run_after_a_partial_one_is_complete(benchmark_on_three: Benchmark) -> None:
    benchmark_on_three(failing, on_error="collect")

    assert benchmark_on_three(by_length).complete


def test_the_scores_of_a_partial_result_are_over_the_scored_queries(benchmark_on_three: Benchmark) -> None:
    result = benchmark_on_three(failing, on_error="collect", return_outputs=True)

    assert result.outputs is not None
    scored = [record for record in result.outputs["two"] if record["prediction"] is not None]
    correct = [record for record in scored if record["prediction"] == record["ground_truth"]]
    assert len(scored) == QUERIES_OF_TWO - failed_count(benchmark_on_three)
    assert result["Divided results"]["two"]["accuracy"] == len(correct) / len(scored)


def equal_probabilities(prompt: str, label_space: list[str]) -> list[float]:
    return [1 / len(label_space)] * len(label_space)


def test_a_score_that_one_data_set_lacks_has_no_mean(benchmark_on_three: Benchmark) -> None:
    """Bare labels have no likelihood, and numbers that may be logits or probabilities have none either."""
    likelihood = "averaged_truelabel_likelihood"

    result = benchmark_on_three([first_label, by_length, equal_probabilities])

    outputs = [details.conditions[0].output for details in result.details.values()]
    assert outputs == ["labels", "ambiguous", "probabilities"]
    assert result["Divided results"]["one"][likelihood] is None
    assert result["Divided results"]["mini"][likelihood] is not None
    assert result["Averaged results"][likelihood] is None
    assert likelihood not in result.means.intervals
    assert likelihood not in result.means.missing
    assert result.details["one"].missing[likelihood].startswith("the predictions are bare labels")


def test_a_score_that_all_data_sets_have_is_averaged(benchmark_on_three: Benchmark) -> None:
    result = benchmark_on_three([first_label, by_length, equal_probabilities])

    accuracies = [scores["accuracy"] for scores in result["Divided results"].values()]
    assert result["Averaged results"]["accuracy"] == math.fsum(accuracies) / 3


# -- runs and signatures


def test_a_second_run_equals_the_first_and_nothing_stays_from_another_model(
    benchmark_on_three: Benchmark, hash_model: Any
) -> None:
    """The release keeps predictions in the object (defect 7)."""
    first = benchmark_on_three(hash_model)
    of_another_model = benchmark_on_three(by_length)
    second = benchmark_on_three(hash_model)

    assert of_another_model != first
    assert second == first
    assert json.dumps(second.to_dict()["details"]) == json.dumps(first.to_dict()["details"])


def test_a_run_differs_from_the_signature_of_its_benchmark_by_how_it_is_scored(
    benchmark_on_three: Benchmark, hash_model: Any
) -> None:
    result = benchmark_on_three(hash_model)

    assert result.signature.differences(benchmark_on_three.signature()) == {"scoring": ("function", None)}


def yes_no_dataset(name: str) -> Dataset:
    rows = [("One text.", 0), ("Another.", 1)] * 30
    return Dataset.from_rows(rows, name=name, label_space=["x", "y"])


def signature_of(names: list[str]) -> str:
    """Return the line of the signature of a benchmark on data sets with these names."""
    return str(Normal(datasets=[yes_no_dataset(name) for name in names], limit=2).signature())


@pytest.mark.parametrize(
    ("one", "other"), [(["a+b"], ["a", "b"]), (["a%2Bb"], ["a+b"]), (["a|k:9"], ["a"]), (["a\nb"], ["a%0Ab"])]
)
def test_names_of_own_data_cannot_pass_for_other_settings(one: list[str], other: list[str]) -> None:
    """Names with the separators of a signature, or with their escapes, are other names than those they imitate."""
    first_line, second_line = signature_of(one), signature_of(other)

    assert first_line.partition("|data:")[0] != second_line.partition("|data:")[0]
    assert first_line.count("|") == second_line.count("|"), "a name adds no field"
    assert first_line.isprintable()
    assert second_line.isprintable()


def test_data_sets_need_names_that_differ_in_more_than_case() -> None:
    with pytest.raises(ArgumentError, match="each once, case ignored"):
        Normal(datasets=[yes_no_dataset("once"), yes_no_dataset("Once")])


# -- experimentors: every control that the README of 0.1.1 documents; nothing stays from run to run


METRICS = ["accuracy", "averaged_truelabel_likelihood", "macro_F1", "expected_calibration_error_1"]


@pytest.fixture
def mini() -> Experimentor:
    return Experimentor("mini", NormalTask())


def test_auto_run_returns_the_standard_metrics_and_success(mini: Experimentor, hash_model: Any) -> None:
    mini.outputs = "logits"  # those of the model are all positive, so they could be anything

    scores, success = mini.auto_run(hash_model)
    scores_with_outputs, _, _ = mini(hash_model, return_outputs=True)

    assert list(scores) == METRICS
    assert success is True
    assert scores_with_outputs == scores


def test_outputs_have_the_documented_keys_and_those_of_the_release(mini: Experimentor, hash_model: Any) -> None:
    """The release's keys differ from its README's (defect 16)."""
    mini.outputs = "logits"

    _, _, outputs = mini(hash_model, return_outputs=True)

    documented = ["ground_truth", "predictions", "predicted_probabilities"]
    released = ["groundtruth", "predicted", "prob."]
    assert list(outputs) == [*documented, "normalised_probabilities"]
    for documented_key, released_key in zip(documented, released, strict=True):
        assert outputs[released_key] == outputs[documented_key], released_key
    with pytest.raises(KeyError, match="did you mean 'predictions'"):
        outputs["prediction"]


def test_outputs_are_aligned_with_the_prompts(mini: Experimentor, hash_model: Any) -> None:
    mini.outputs = "logits"

    _, _, outputs = mini(hash_model, return_outputs=True)

    test_set = mini.test_set()
    truth = [test_set.label(row) for row in range(len(test_set))]
    assert outputs["ground_truth"] == truth * 2, "every test row is in 2 queries, one in each repeat"
    logits = [hash_model(prompt, mini.get_label_space()) for prompt in mini.prompt_set()]
    assert outputs["predictions"] == [row.index(max(row)) for row in logits]
    assert outputs["predicted_probabilities"] == logits, "as the function returned them"
    for row, probabilities in zip(logits, outputs["normalised_probabilities"], strict=True):
        total = sum(math.exp(logit) for logit in row)
        assert probabilities == pytest.approx([math.exp(logit) / total for logit in row])
    json.dumps(outputs, allow_nan=False)


# -- k, repeats, demonstrations


@pytest.fixture
def positions_by_hand(mini: Experimentor) -> list[list[int]]:
    """Positions of four demonstrations for each test row, as a user could write them, one of them twice."""
    return [[row % 5, 3, 3, 0] for row in range(len(mini.test_set()))]


def test_demonstrations_by_hand_replace_the_drawn_ones(mini: Experimentor, positions_by_hand: list[list[int]]) -> None:
    """One list of positions for each test row, so that each row is in one query and not in two."""
    mini.set_demonstration_sampler(positions_by_hand)

    assert mini.get_repeat_times() == 1
    assert mini.demonstration_sampler == positions_by_hand
    expected = [mini.prompt_former.write_prompt(positions, row) for row, positions in enumerate(positions_by_hand)]
    assert mini.prompt_set() == expected


def test_demonstrations_by_hand_are_copied(mini: Experimentor, positions_by_hand: list[list[int]]) -> None:
    mini.set_demonstration_sampler(positions_by_hand)

    positions_by_hand[0][0] = 99

    assert mini.demonstration_sampler[0][0] == 0


def test_a_reset_of_the_sampler_restores_the_drawn_demonstrations(
    mini: Experimentor, positions_by_hand: list[list[int]]
) -> None:
    default_prompts = mini.prompt_set()
    mini.set_demonstration_sampler(positions_by_hand)

    mini.reset_demonstration_sampler()

    assert mini.get_repeat_times() == 2
    assert mini.prompt_set() == default_prompts


def test_demonstrations_by_hand_of_another_size_are_refused_and_change_nothing(
    mini: Experimentor, positions_by_hand: list[list[int]]
) -> None:
    drawn, row_count = mini.demonstration_sampler, len(mini.test_set())

    with pytest.raises(ArgumentError, match=f"sampler has 1 rows, expected .* {row_count} test rows"):
        mini.set_demonstration_sampler([[0, 1, 2, 3]])
    positions_by_hand[1] = [0, 1]
    with pytest.raises(ArgumentError, match="row 1 of the sampler has 2 positions, expected k = 4"):
        mini.set_demonstration_sampler(positions_by_hand)

    assert mini.demonstration_sampler == drawn


def has_demonstration_of_own_label(mini: Experimentor) -> list[bool]:
    """Return for each query whether a demonstration has the true label of its test row."""
    test_set, demonstrations = mini.test_set(), mini.demonstration_set()
    answers = []
    for query_number, positions in enumerate(mini.demonstration_sampler):
        true_label = test_set.label(query_number % len(test_set))  # each repeat has all test rows in order
        answers.append(true_label in [demonstrations.label(position) for position in positions])
    return answers


def test_the_in_domain_mode_shows_the_true_label_in_every_query(mini: Experimentor) -> None:
    default_prompts = mini.prompt_set()

    mini.set_in_domain_mode()

    assert set(has_demonstration_of_own_label(mini)) == {True}
    assert mini.prompt_set() != default_prompts


def test_the_out_of_domain_mode_shows_the_true_label_in_no_query(mini: Experimentor) -> None:
    default_prompts = mini.prompt_set()

    mini.set_out_of_domain_mode()

    assert set(has_demonstration_of_own_label(mini)) == {False}
    assert mini.prompt_set() != default_prompts


def test_the_prompts_of_a_domain_mode_are_the_same_after_the_other_mode(mini: Experimentor) -> None:
    mini.set_in_domain_mode()
    first_prompts = mini.prompt_set()

    mini.set_out_of_domain_mode()
    mini.set_in_domain_mode()

    assert mini.prompt_set() == first_prompts


@pytest.mark.parametrize("mode", ["set_in_domain_mode", "set_out_of_domain_mode"])
def test_set_k_leaves_a_domain_mode(mini: Experimentor, mode: str) -> None:
    """``set_k`` draws the demonstrations anew, without a mode; with the default k, they are the default ones."""
    default_prompts, default_k = mini.prompt_set(), mini.get_k()
    getattr(mini, mode)()

    mini.set_k(default_k)

    assert mini.prompt_set() == default_prompts


# -- prompts: twice, in a subset, out of order, elsewhere


@pytest.mark.parametrize("name", ["Normal", "DomainBias", "GLER", "TemplateSensitivity", "DemonstrationSensitivity"])
@pytest.mark.parametrize("limit", [1, 5])
def test_a_limit_keeps_a_subset_of_the_same_queries(name: str, limit: int) -> None:
    benchmark_class = getattr(StaICC, name)

    all_queries = benchmark_class(datasets=["mini"])[0].all_queries()
    limited_queries = benchmark_class(datasets=["mini"], limit=limit)[0].all_queries()

    assert limited_queries == [query for query in all_queries if query.row < limit]
    assert len(limited_queries) < len(all_queries)


# -- predictions


def probability_rows(mini: Experimentor) -> list[list[float]]:
    """Return probabilities of the three labels for every query: three rows by turns."""
    rows = [[0.2, 0.3, 0.5], [0.6, 0.3, 0.1], [0.1, 0.7, 0.2]]
    return [rows[number % 3] for number in range(len(mini))]


def test_given_predictions_equal_those_of_a_function(mini: Experimentor) -> None:
    rows = probability_rows(mini)
    next_row = iter(rows)

    given = mini.auto_run(preentered_prediction=rows, return_outputs=True)
    given_as_tuples = mini.auto_run(preentered_prediction=tuple(map(tuple, rows)), return_outputs=True)
    of_function = mini.auto_run(lambda prompt, label_space: next(next_row), return_outputs=True)

    assert of_function == given
    assert given_as_tuples == given
    _, _, outputs = given
    assert outputs["predicted_probabilities"] == rows
    assert outputs["normalised_probabilities"] == rows


def test_a_function_is_not_called_where_predictions_are_given(mini: Experimentor) -> None:
    """The README of 0.1.1 says that it is ignored."""

    def never_called(prompt: str, label_space: list[str]) -> int:
        raise AssertionError("the function was called")

    given = mini.auto_run(never_called, preentered_prediction=[0] * len(mini))

    assert given == mini.auto_run(first_label)


# -- custom metrics


def test_a_custom_metric_is_listed_after_the_standard_ones(mini: Experimentor, hash_model: Any) -> None:
    mini.add_metric("mine", lambda ground_truth, prediction: 0.25)

    scores = mini.run(hash_model).values

    assert list(scores) == [*METRICS, "mine"]
    assert scores["mine"] == 0.25


def test_a_custom_metric_that_changes_its_arguments_changes_no_score(mini: Experimentor, hash_model: Any) -> None:
    expected = dict(mini.run(hash_model).values)
    received = []

    def destructive(ground_truth: list[int], prediction: list[list[float]]) -> float:
        received.append((list(ground_truth), prediction[1]))
        ground_truth.clear()
        prediction[1] = []
        return 0.25

    mini.add_metric("first", destructive)
    mini.add_metric("second", destructive)
    first_run, second_run = mini.run(hash_model), mini.run(hash_model)

    assert first_run.values == {**expected, "first": 0.25, "second": 0.25}
    assert second_run.values == first_run.values
    assert received == [received[0]] * 4, "two metrics in two runs got the same arguments"


@pytest.mark.parametrize("value", [math.nan, math.inf, None], ids=str)
def test_a_custom_metric_without_a_finite_value_is_missing_with_the_value_as_reason(
    mini: Experimentor, hash_model: Any, value: Any
) -> None:
    mini.add_metric("undefined", lambda ground_truth, prediction: value)

    details = mini.run(hash_model).details

    assert str(value) in details.missing["undefined"]


@pytest.mark.parametrize(
    ("prediction", "probability_of_last_label"),
    [([-5, 3, 3], 1 / (2 + math.exp(-8))), ("weather", 1.0)],  # softmax of the logits; a label has all probability
    ids=["logits", "label"],
)
def test_a_custom_metric_gets_probabilities(
    mini: Experimentor, prediction: Any, probability_of_last_label: float
) -> None:
    mini.add_metric("last label", lambda ground_truth, probabilities: probabilities[0][2])

    scores, _ = mini.auto_run(lambda prompt, label_space: prediction)

    assert scores["last label"] == pytest.approx(probability_of_last_label)


# -- no state from run to run; changed templates


def test_a_changed_template_warns_and_shows_in_the_signature() -> None:
    benchmark = Normal(datasets=["mini"])
    assert "template" not in benchmark.signature().fields

    with pytest.warns(TemplateWarning, match="the prompts of mini are no longer the benchmark's"):
        benchmark[0].prompt_former.change_instruction("Decide. ")
    first_template = benchmark.signature().fields["template"]
    benchmark[0].prompt_former.change_instruction("Choose. ")
    second_template = benchmark.signature().fields["template"]

    assert str(first_template).startswith("changed-")
    assert second_template != first_template


def test_a_template_that_is_reset_leaves_no_trace_in_the_signature() -> None:
    benchmark = Normal(datasets=["mini"])
    benchmark[0].prompt_former.change_instruction("Decide. ")

    benchmark[0].prompt_former.reset()

    assert benchmark.signature() == Normal(datasets=["mini"]).signature()


# -- arguments


def test_a_given_data_frame_is_refused() -> None:
    """Its columns have names, whose order may not be that of the labels."""
    pandas = pytest.importorskip("pandas")
    experimentor = Normal(datasets=["mini"], limit=4)[0]
    frame = pandas.DataFrame([[0.7, 0.2, 0.1]] * len(experimentor), columns=experimentor.get_label_space())

    with pytest.raises(ArgumentError, match="preentered_prediction: got a DataFrame"):
        experimentor.auto_run(preentered_prediction=frame)


def test_a_given_series_in_another_order_is_refused() -> None:
    """Its index may not be that of the queries."""
    pandas = pytest.importorskip("pandas")
    experimentor = Normal(datasets=["mini"], limit=4)[0]
    reversed_series = pandas.Series([0, 1] * (len(experimentor) // 2)).iloc[::-1]

    with pytest.raises(ArgumentError, match=r"got a Series with the index .*, expected the def"):
        experimentor.auto_run(preentered_prediction=reversed_series)


def test_given_rows_that_name_their_labels_may_have_them_in_any_order() -> None:
    pandas = pytest.importorskip("pandas")
    experimentor = Normal(datasets=["mini"], limit=4)[0]
    labels, query_count = experimentor.get_label_space(), len(experimentor.prompt_set())
    frame = pandas.DataFrame([[0.7, 0.2, 0.1]] * query_count, columns=labels)

    as_matrix = experimentor.auto_run(preentered_prediction=frame.to_numpy())
    reversed_columns = frame[labels[::-1]]
    as_named_rows = experimentor.auto_run(preentered_prediction=[row for _, row in reversed_columns.iterrows()])

    assert as_named_rows == as_matrix


def ruled_out(prompt: str, label_space: list[str]) -> list[float]:
    """Return logits of three labels, of which the second one is impossible."""
    return [float(len(prompt) % 7), -math.inf, float(len(prompt) % 3)]


def nearly_ruled_out(prompt: str, label_space: list[str]) -> list[float]:
    """Return the logits of ``ruled_out`` with a finite one that has the probability 0 as well."""
    first, _, third = ruled_out(prompt, label_space)
    return [first, -1e9, third]


BENCHMARKS_OF_ALL_SCORES = [Normal, StaICC.ContextualBias, StaICC.PosteriorBias, StaICC.TemplateSensitivity]


@pytest.mark.parametrize("kind", BENCHMARKS_OF_ALL_SCORES)
@pytest.mark.parametrize("metrics", ["standard", "0.1.1"])
def test_logits_of_minus_infinity_are_stored_saved_and_verified(
    tmp_path: Path, kind: type[TaskBenchmark], metrics: str
) -> None:
    """No file holds a number that is not JSON."""
    benchmark = kind(datasets=["mini"], limit=12, metrics=metrics)
    path = tmp_path / "result.json"
    run = {"store": tmp_path / "store.sqlite", "model_name": "m", "return_outputs": True}

    computed = benchmark(ruled_out, **run)
    from_store = benchmark(ruled_out, **run)
    from_store.save(path)

    json.loads(path.read_text(encoding="utf-8"), parse_constant=pytest.fail)
    for finding in verify_file(path):
        assert not finding.contradicted
    assert from_store["Averaged results"] == computed["Averaged results"]


@pytest.mark.parametrize(
    ("kind", "metrics"), [*((kind, "standard") for kind in BENCHMARKS_OF_ALL_SCORES), (Normal, "0.1.1")]
)
def test_a_label_that_is_ruled_out_has_the_probability_zero(kind: type[TaskBenchmark], metrics: str) -> None:
    benchmark = kind(datasets=["mini"], limit=12, metrics=metrics)

    scores = benchmark(ruled_out)["Averaged results"]

    assert scores == pytest.approx(benchmark(nearly_ruled_out)["Averaged results"])


def test_minus_infinity_is_refused_as_a_probability() -> None:
    benchmark = Normal(datasets=["mini"], limit=12, outputs="probabilities")

    with pytest.raises(OutputError, match=r"which cannot be a probability; .* or outputs='logits'"):
        benchmark(ruled_out)


# -- the spellings of 0.1.1


ALIASES = {
    **{"Contextual_bias": "ContextualBias", "Domain_bias": "DomainBias", "Post_bias": "PosteriorBias"},
    **{"Triplet_bias": "TripletBias", "Template_sens": "TemplateSensitivity", "Demo_sens": "DemonstrationSensitivity"},
}


@pytest.mark.parametrize(("old", "new"), ALIASES.items())
def test_old_names_are_the_new_classes(old: str, new: str) -> None:
    new_class = getattr(StaICC, new)

    assert getattr(StaICC, old) is new_class
    assert getattr(compat, old) is new_class
    assert new_class.__module__.startswith("StaICC.benchmarks")


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


def test_the_split_gives_the_labels_of_the_test_rows() -> None:
    experimentor = StaICC.Normal(datasets=["mini"])[0]
    split, test_set = experimentor.triplet_dataset, experimentor.test_set()

    assert split.get_dataset_name() == "mini"
    assert split.get_label_space() == experimentor.get_label_space()
    for row in (0, len(test_set) - 1):
        _, label_name = test_set[row]
        assert split.get_default_ground_truth_label_index(row) == test_set.label(row)
        assert split.get_default_ground_truth_label(row) == label_name
        assert test_set.get_label(row) == label_name


def test_the_sampler_gives_the_demonstrations_of_a_query() -> None:
    experimentor = StaICC.Normal(datasets=["mini"])[0]
    sampler = experimentor.demonstration_sampler

    assert sampler.get_sampled_indexes(3) == sampler[3]
    assert sampler[3] == list(experimentor.demonstration_lists()[3])


@pytest.mark.parametrize("index", [-1, 10_000, 1.0, True])
def test_an_index_that_no_query_has_is_refused(index: Any) -> None:
    experimentor = StaICC.Normal(datasets=["mini"])[0]

    with pytest.raises(ValueError, match="index must be an integer from 0 to"):
        experimentor.demonstration_sampler.get_sampled_indexes(index)
    with pytest.raises(ValueError, match="index must be an integer from 0 to"):
        experimentor.triplet_dataset.get_default_ground_truth_label(index)
