"""Verdicts about baselines: decided by the tests, the same in every output, next to intervals that may differ."""

from __future__ import annotations

import functools
import random
import re
from collections.abc import Mapping
from dataclasses import replace
from html import unescape
from types import SimpleNamespace
from typing import Any

import pytest

import StaICC
from StaICC.datasets.dataset import Dataset
from StaICC.metrics.intervals import Interval
from StaICC.report.page import report_html
from StaICC.results.above_chance import (
    NotBeaten,
    above_chance,
    interval_disagreements,
    not_beaten_by_baseline,
    verdicts_of,
)
from StaICC.results.details import Baselines, MeanDetails
from StaICC.results.model_card import model_index
from StaICC.results.remarks import remarks
from StaICC.results.result import Result
from StaICC.results.score_records import score_records

ROWS = [(f"text {row}", int(row % 10 < 4)) for row in range(400)]
"""Texts with the label 0, or (four of ten) the label 1."""

GUESSING = "uniform guessing"
MAJORITY = "always the majority label"
LAST_DEMONSTRATION = "a copy of the last demonstration's label"


@functools.cache
def evaluated(accuracy: float, names: tuple[str, ...]) -> Result:
    """Return the result of a model that is right with a probability, on data sets with these names."""
    datasets = []
    for name in names:
        rows = [(f"{name} {text}", label) for text, label in ROWS]
        datasets.append(Dataset.from_rows(rows, name=name, label_space=["no", "yes"]))
    benchmark = StaICC.Normal(datasets=datasets, limit=100)
    true_labels = true_label_of_prompts(benchmark)

    def model(prompt: str, label_space: list[str]) -> int:
        is_right = random.Random(f"{accuracy} {prompt}").random() < accuracy
        return true_labels[prompt] if is_right else 1 - true_labels[prompt]

    result = benchmark(model)
    assert isinstance(result, Result)
    return result


def true_label_of_prompts(benchmark: StaICC.Normal) -> dict[str, int]:
    true_labels = {}
    for experimentor in benchmark.experimentor:
        for query in experimentor.all_queries():
            true_labels[str(query.prompt)] = query.label
    return true_labels


def unbeaten_baselines(baselines: Baselines) -> dict[str, float]:
    """Return the accuracies of the baselines that are not beaten at the level 0.05, computed again from their p-values.

    Uniform guessing has two p-values (a guess for each query, or for each row), of which the larger one counts.
    """
    assert baselines.p_value_rows is not None
    assert baselines.p_value_majority is not None
    assert baselines.p_value_last_demonstration is not None
    assert baselines.last_demonstration is not None
    unbeaten = {}
    if max(baselines.p_value, baselines.p_value_rows) > 0.05:
        unbeaten[GUESSING] = baselines.max_random
    if baselines.p_value_majority > 0.05:
        unbeaten[MAJORITY] = baselines.majority
    if baselines.p_value_last_demonstration > 0.05:
        unbeaten[LAST_DEMONSTRATION] = baselines.last_demonstration
    return unbeaten


def unbeaten_in_first_condition(result: Result) -> dict[str, float]:
    """Return the baselines that the mean accuracy does not beat; that of one data set is the accuracy there."""
    baselines = result.means.baselines if len(result.details) > 1 else result.details["own"].baselines
    return unbeaten_baselines(baselines["normal"])


def strongest_unbeaten(result: Result) -> str:
    """Return the unbeaten baseline with the largest accuracy; an empty text if all are beaten."""
    unbeaten = unbeaten_in_first_condition(result)
    return max(unbeaten, key=unbeaten.__getitem__, default="")


def mean_record(result: Any, metric: str = "accuracy") -> Any:
    """Return the record of the mean of a metric over the data sets."""
    (record,) = [record for record in score_records(result) if record["dataset"] is None and record["metric"] == metric]
    return record


def accuracy_of_card(evaluations: list[Any], dataset: str) -> Any:
    """Return the entry of the accuracy on a data set (or of the mean) in a model card."""
    (evaluation,) = [evaluation for evaluation in evaluations if evaluation["dataset"]["name"] == dataset]
    (metric,) = [metric for metric in evaluation["metrics"] if metric["type"] == "accuracy"]
    return metric


def report_text(result: Any) -> str:
    """Return the text of the report of a result, without the tags."""
    return unescape(re.sub("<[^>]*>", "", report_html({"mine": result})))


EVALUATIONS = [
    pytest.param(accuracy, names, id=f"{accuracy} on {len(names)} data sets")
    for accuracy in (0.4, 0.55, 0.62, 0.66, 0.7, 0.9)  # the majority label has 0.6
    for names in (("own",), ("own", "other"))
]


def test_the_evaluations_have_every_number_of_unbeaten_baselines() -> None:
    counts = {len(unbeaten_in_first_condition(evaluated(*case.values))) for case in EVALUATIONS}  # type: ignore[arg-type]

    assert counts >= {0, 1, 3}


@pytest.mark.parametrize(("accuracy", "names"), EVALUATIONS)
def test_the_remarks_name_every_baseline_that_the_tests_do_not_reject(accuracy: float, names: tuple[str, ...]) -> None:
    result = evaluated(accuracy, names)

    place = "the mean" if len(names) > 1 else "own"
    remarks_on_place = [text for text in remarks(result) if re.search(rf"[:,] {place}[.,]", text)]
    not_better = {text.partition(" (p > ")[0] for text in remarks_on_place if text.startswith("Not better")}
    assert not_better == {f"Not better than {baseline}" for baseline in unbeaten_in_first_condition(result)}


@pytest.mark.parametrize(("accuracy", "names"), EVALUATIONS)
def test_the_score_records_name_the_strongest_unbeaten_baseline(accuracy: float, names: tuple[str, ...]) -> None:
    result = evaluated(accuracy, names)

    assert mean_record(result)["not_beaten"] == strongest_unbeaten(result)


@pytest.mark.parametrize(("accuracy", "names"), EVALUATIONS)
def test_the_report_names_the_strongest_unbeaten_baseline(accuracy: float, names: tuple[str, ...]) -> None:
    result = evaluated(accuracy, names)

    text = report_text(result)

    strongest = strongest_unbeaten(result)
    if strongest:
        assert f"does not beat {strongest}" in text
        assert f"not shown to be better than {strongest}" in text
    else:
        assert "beats every baseline" in text
        assert "better than every baseline" in text


@pytest.mark.parametrize(("accuracy", "names"), EVALUATIONS)
def test_the_model_card_names_the_strongest_unbeaten_baseline(accuracy: float, names: tuple[str, ...]) -> None:
    result = evaluated(accuracy, names)

    (card,) = model_index([result])

    metric = accuracy_of_card(card["results"], "mean over data sets")
    assert metric["args"].get("not_better_than", "") == strongest_unbeaten(result)


UNIFORM_IS_HALF = Baselines(
    **{"queries": 100, "labels": 2, "uniform": 0.5, "majority": 0.55, "tried": 1, "max_random": 0.5},
    **{"p_value": 0.001, "p_value_rows": 0.001, "p_value_majority": 0.001},
)
"""Baselines of a run with two labels that beats guessing and always the majority label, of which 0.55 are correct."""


def result_with(baselines: Baselines, accuracy_interval: Interval | None = None) -> Any:
    """Return a result on the data set ``own`` with nothing but these baselines and this interval."""
    intervals = {} if accuracy_interval is None else {"accuracy": accuracy_interval}
    details = SimpleNamespace(baselines={"normal": baselines}, intervals=intervals)
    return SimpleNamespace(divided={"own": {}}, details={"own": details}, means=MeanDetails())


def test_the_test_decides_where_the_interval_does_not_agree() -> None:
    """The interval is above both baselines; the test against the majority label does not reject."""
    baselines = replace(UNIFORM_IS_HALF, p_value_majority=0.06)
    result = result_with(baselines, accuracy_interval=Interval(0.56, 0.7, 0.95, ""))

    beaten = {verdict.baseline: verdict.beaten for verdict in verdicts_of(baselines)}
    found = above_chance(result)

    assert beaten == {GUESSING: True, MAJORITY: False}
    assert found is not None
    assert found.headline == "not shown to be better than always the majority label (accuracy 0.5500, p = 0.06)"


def test_a_sentence_says_where_the_interval_does_not_agree_with_the_test() -> None:
    result = result_with(
        replace(UNIFORM_IS_HALF, p_value_majority=0.06), accuracy_interval=Interval(0.56, 0.7, 0.95, "")
    )

    (sentence,) = interval_disagreements(result)

    assert sentence.startswith("own: the interval of the accuracy is above always the majority label (accuracy 0.5500")


def test_no_sentence_is_written_where_the_interval_agrees_with_the_test() -> None:
    """The interval begins below the accuracy of the majority label, 0.55, which the test does not reject either."""
    result = result_with(
        replace(UNIFORM_IS_HALF, p_value_majority=0.06), accuracy_interval=Interval(0.54, 0.7, 0.95, "")
    )

    assert interval_disagreements(result) == []


@pytest.mark.parametrize(("p_value", "beaten"), [(0.0499, True), (0.05, True), (0.0501, False)])
def test_a_p_value_of_exactly_5_percent_beats_a_baseline(p_value: float, beaten: bool) -> None:
    """At most 0.05 is significant: in the verdicts of all baselines, and in the remark, which says "p > 0.05"."""
    baselines = replace(
        UNIFORM_IS_HALF,
        p_value=p_value,
        p_value_majority=p_value,
        last_demonstration=0.52,
        p_value_last_demonstration=p_value,
    )

    assert [verdict.beaten for verdict in verdicts_of(baselines)] == [beaten, beaten, beaten]
    found = above_chance(result_with(baselines))
    assert found is not None
    assert found.beaten_on == int(beaten)
    assert (found.short == "beats every baseline") is beaten


def test_the_headline_names_the_strongest_baseline_that_is_not_beaten() -> None:
    """Three baselines are not beaten, with the accuracies 0.5, 0.55 and, by copying, 0.6."""
    baselines = replace(
        UNIFORM_IS_HALF, p_value=0.2, p_value_majority=0.4, last_demonstration=0.6, p_value_last_demonstration=0.5
    )

    found = above_chance(result_with(baselines))

    assert found is not None
    assert found.not_beaten is not None
    assert found.not_beaten.baseline == LAST_DEMONSTRATION


def test_an_experiment_has_no_headline() -> None:
    """The conditions of an experiment differ on purpose, so that the first one is not the result."""
    result = result_with(UNIFORM_IS_HALF)
    result.divided = {"own": {"experiment": {"name": "order"}}}

    assert above_chance(result) is None


def rounds_model(right_until: int) -> Any:
    """Return a model that is right in contexts of at most so many demonstrations, and else gives the first label.

    Texts say their label: "row 3 is of kind 3".
    """

    def model(prompt: str, label_space: list[str]) -> str:
        demonstration_count = prompt.count("label: ") - 1
        if demonstration_count > right_until:
            return label_space[0]
        return "kind " + re.findall(r"kind (\d+)", prompt)[-1]

    return model


def own_rounds(**options: Any) -> StaICC.LongICL:
    """Return LongICL on 20 labels: in round R, a context has R demonstrations of each label, so 20 R in all."""
    rows = [(f"row {number} is of kind {number % 20}", f"kind {number % 20}") for number in range(400)]
    return StaICC.LongICL(datasets=[Dataset.from_rows(rows, name="own")], limit=60, **options)


@pytest.mark.parametrize(
    ("right_until", "conditions"),
    [(0, "all 3 conditions"), (20, "conditions 2R, 3R"), (40, "condition 3R")],
    ids=["right nowhere", "right in the first round", "right in two rounds"],
)
def test_all_rounds_that_do_not_beat_a_baseline_are_named(right_until: int, conditions: str) -> None:
    """A later round that is not better than guessing is not hidden behind the first one, which is."""
    result: Any = own_rounds(rounds=(1, 2, 3))(rounds_model(right_until))

    about_guessing = [text for text in remarks(result) if GUESSING in text]
    assert about_guessing == [f"Not better than uniform guessing ({conditions}; p > 0.05): own."]


def test_no_remark_is_about_guessing_where_all_rounds_beat_it() -> None:
    result: Any = own_rounds(rounds=(1, 2, 3))(rounds_model(right_until=60))

    assert [text for text in remarks(result) if GUESSING in text] == []


def test_conditions_of_an_experiment_that_do_not_beat_a_baseline_are_named() -> None:
    """With 2 demonstrations of each of 20 labels, a context has 40, and the model is right up to 20."""
    benchmark = own_rounds(experiment=StaICC.Experiment("shots", levels=(0, 1, 2)))

    result: Any = benchmark(rounds_model(right_until=20))

    assert "Not better than uniform guessing (condition 2 shots; p > 0.05): own." in remarks(result)


@pytest.fixture(scope="module")
def untested() -> Any:
    """The result of a perfect model on rows in three clusters, which are too few for a test against a fixed label.

    The rows are in one cluster if their texts are equally long: "text 1", "text 10", "text 100".
    """
    dataset = Dataset.from_rows(ROWS, name="own", label_space=["no", "yes"], cluster=lambda row: len(row.texts[0]))
    benchmark = StaICC.Normal(datasets=[dataset])
    true_labels = true_label_of_prompts(benchmark)
    result = benchmark(lambda prompt, label_space: true_labels[prompt])
    assert result["Averaged results"]["accuracy"] == 1.0
    return result


@pytest.mark.parametrize("baseline", [MAJORITY, LAST_DEMONSTRATION])
def test_a_remark_names_a_baseline_without_a_test(untested: Any, baseline: str) -> None:
    assert f"Untested against {baseline} (too few clusters of test rows): own." in remarks(untested)


def test_the_headline_says_that_a_baseline_is_untested(untested: Any) -> None:
    found = above_chance(untested)

    assert found is not None
    assert found.beaten_on == 0
    assert found.short.startswith("untested against")
    assert found.headline.endswith("untested)")


def test_records_and_model_card_do_not_count_an_untested_baseline_as_beaten(untested: Any) -> None:
    not_beaten = mean_record(untested)["not_beaten"]
    (card,) = model_index([untested])

    assert not_beaten in (MAJORITY, LAST_DEMONSTRATION)
    assert accuracy_of_card(card["results"], "own")["args"]["not_better_than"] == not_beaten


def test_the_report_does_not_count_an_untested_baseline_as_beaten(untested: Any) -> None:
    assert "better than every baseline" not in report_text(untested)


def test_conditions_that_fail_on_other_data_sets_have_sentences_of_their_own() -> None:
    """Round 2 fails on one data set of two, so that the mean is beaten; round 3 fails on both."""
    beaten = UNIFORM_IS_HALF
    missed = replace(UNIFORM_IS_HALF, p_value=0.3)
    details = {
        "own": SimpleNamespace(baselines={"1R": beaten, "2R": missed, "3R": missed}, intervals={}),
        "other": SimpleNamespace(baselines={"1R": beaten, "2R": beaten, "3R": missed}, intervals={}),
    }
    means = MeanDetails(baselines={"1R": beaten, "2R": beaten, "3R": missed})
    result: Any = SimpleNamespace(divided={"own": {}, "other": {}}, details=details, means=means)

    assert not_beaten_by_baseline(result) == [
        NotBeaten(GUESSING, datasets=("own",), conditions=("2R",)),
        NotBeaten(GUESSING, datasets=("own", "other", "the mean"), conditions=("3R",)),
    ]


BEATEN = Baselines(
    **{"queries": 20, "labels": 3, "uniform": 1 / 3, "majority": 0.4, "tried": 1, "max_random": 1 / 3},
    **{"p_value": 0.001, "p_value_majority": 0.001},
)
MISSED = replace(BEATEN, p_value=0.3, p_value_majority=0.3)
"""Neither guessing nor always the majority label, which is the stronger one, is beaten."""


def result_of_conditions(baselines: Mapping[str, Baselines], result: Result) -> Result:
    """Return a result on ``mini`` with other baselines by condition, and with the accuracy 0.5."""
    scores = {**result.divided["mini"], "accuracy": 0.5}
    details = replace(result.details["mini"], baselines=baselines)
    return replace(result, divided={"mini": scores}, details={"mini": details})


def records_on_mini(result: Result) -> dict[Any, Any]:
    """Return the records of the scores on ``mini``, by metric."""
    return {record["metric"]: record for record in score_records(result) if record["dataset"] == "mini"}


@pytest.fixture
def several_conditions() -> Result:
    """A result of a benchmark with several conditions, whose names are ``details["mini"].conditions``."""
    return StaICC.GLER(datasets=["mini"], limit=6)(lambda prompt, label_space: len(prompt) % 3)


def test_a_score_over_several_conditions_has_no_verdict(several_conditions: Result) -> None:
    """A benchmark of one's own may report the mean accuracy of its conditions, which no test is about."""
    first, *others = [record.name for record in several_conditions.details["mini"].conditions]
    assert others
    result = result_of_conditions({first: BEATEN, **dict.fromkeys(others, MISSED)}, several_conditions)

    records = records_on_mini(result)

    assert records["accuracy"]["not_beaten"] is None
    assert records["accuracy"]["random"] == 1 / 3
    assert records["accuracy"]["majority"] == 0.4


def test_the_score_of_each_of_several_conditions_has_its_own_verdict(several_conditions: Result) -> None:
    first, *others = [record.name for record in several_conditions.details["mini"].conditions]
    result = result_of_conditions({first: BEATEN, **dict.fromkeys(others, MISSED)}, several_conditions)

    records = records_on_mini(result)

    assert records[f"{first}.accuracy"]["not_beaten"] == ""
    for name in others:
        assert records[f"{name}.accuracy"]["not_beaten"] == MAJORITY, name


def test_the_only_condition_with_baselines_gives_its_verdict_to_the_score(several_conditions: Result) -> None:
    first = several_conditions.details["mini"].conditions[0].name
    result = result_of_conditions({first: BEATEN}, several_conditions)

    assert records_on_mini(result)["accuracy"]["not_beaten"] == ""


def test_the_mean_of_one_data_set_is_that_data_set() -> None:
    """Also its interval: that of the calibration error was another one in the means."""

    def model(prompt: str, label_space: list[str]) -> list[float]:
        probability = 0.3 + len(prompt) % 7 / 20
        return [probability, 1.0 - probability]

    data = Dataset.from_rows(ROWS, name="own", label_space=["no", "yes"])
    result = StaICC.Normal(datasets=[data], limit=60)(model)

    intervals = result.details["own"].intervals
    assert "expected_calibration_error_1" in intervals
    assert result.means.intervals == intervals
    records = {(record["dataset"], record["metric"]): record for record in score_records(result)}
    for metric in intervals:
        of_mean, of_dataset = records[None, metric], records["own", metric]
        for key in ("value", "low", "high", "not_beaten"):
            assert of_mean[key] == of_dataset[key], f"{metric}, {key}"
