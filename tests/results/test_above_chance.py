"""Verdicts about baselines: decided by the tests, the same in every output, next to intervals that may differ."""

from __future__ import annotations

import random
import re
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


def evaluated(accuracy: float, names: tuple[str, ...] = ("own", "other"), limit: int = 100) -> Result:
    data = [
        Dataset.from_rows([(f"{name} {text}", label) for text, label in ROWS], name=name, label_space=["no", "yes"])
        for name in names
    ]
    benchmark = StaICC.Normal(datasets=data, limit=limit)
    labels = {str(query.prompt): query.label for own in benchmark.experimentor for query in own.all_queries()}

    def model(prompt: str, label_space: list[str]) -> int:
        right = random.Random(f"{accuracy} {prompt}").random() < accuracy
        return labels[prompt] if right else 1 - labels[prompt]

    result = benchmark(model)
    assert isinstance(result, Result)
    return result


@pytest.mark.parametrize("names", [("own",), ("own", "other")])
@pytest.mark.parametrize("accuracy", [0.4, 0.55, 0.62, 0.66, 0.7, 0.9])
def test_every_output_has_the_verdicts_of_the_tests(accuracy: float, names: tuple[str, ...]) -> None:
    result = evaluated(accuracy, names)
    baselines = (result.means if len(names) > 1 else result.details["own"]).baselines["normal"]
    assert baselines.p_value_rows is not None
    p_values = {
        "uniform guessing": (baselines.max_random, max(baselines.p_value, baselines.p_value_rows)),
        "always the majority label": (baselines.majority, baselines.p_value_majority),
        "a copy of the last demonstration's label": (
            baselines.last_demonstration,
            baselines.p_value_last_demonstration,
        ),
    }
    left = {name: value or 0.0 for name, (value, p_value) in p_values.items() if p_value is None or p_value > 0.05}
    strongest = max(left, key=left.__getitem__, default="")
    place = "the mean" if len(names) > 1 else "own"
    said = {text.partition(" (p > ")[0] for text in remarks(result) if re.search(rf"[:,] {place}[.,]", text)}
    assert {f"Not better than {name}" for name in left} == {text for text in said if text.startswith("Not better")}
    (record,) = (own for own in score_records(result) if (own["dataset"], own["metric"]) == (None, "accuracy"))
    assert record["not_beaten"] == strongest
    page = unescape(re.sub("<[^>]*>", "", report_html({"mine": result})))
    expected = f"does not beat {strongest}" if strongest else "beats every baseline"
    assert expected in page
    headline = f"not shown to be better than {strongest}" if strongest else "better than every baseline"
    assert headline in page
    (card,) = model_index([result])
    (of_mean,) = (own["metrics"] for own in card["results"] if own["dataset"]["name"] == "mean over data sets")
    (metric,) = (own for own in of_mean if own["type"] == "accuracy")
    assert metric["args"].get("not_better_than", "") == strongest


def test_the_test_decides_and_a_sentence_says_where_the_interval_does_not_agree() -> None:
    """The interval is above both baselines; the test against the majority label does not reject."""
    own = Baselines(100, 2, 0.5, 0.55, 1, 0.5, 0.001, 0.002, 0.06, None, None)
    assert [verdict.beaten for verdict in verdicts_of(own)] == [True, False]
    details = SimpleNamespace(baselines={"normal": own}, intervals={"accuracy": Interval(0.56, 0.7, 0.95, "")})
    result: Any = SimpleNamespace(divided={"own": {}}, details={"own": details}, means=MeanDetails())
    (sentence,) = interval_disagreements(result)
    assert sentence.startswith("own: the interval of the accuracy is above always the majority label (accuracy 0.5500")
    found = above_chance(result)
    assert found is not None
    assert found.headline == "not shown to be better than always the majority label (accuracy 0.5500, p = 0.06)"
    details.intervals["accuracy"] = Interval(0.54, 0.7, 0.95, "")
    assert interval_disagreements(result) == []


@pytest.mark.parametrize(("p_value", "beaten"), [(0.0499, True), (0.05, True), (0.0501, False)])
def test_a_p_value_of_exactly_5_percent_beats_a_baseline(p_value: float, beaten: bool) -> None:
    """At most 0.05 is significant: in the verdicts of all baselines, and in the remark, which says "p > 0.05"."""
    own = Baselines(100, 2, 0.5, 0.55, 1, 0.5, p_value, 0.001, p_value, 0.52, p_value)
    assert [verdict.beaten for verdict in verdicts_of(own)] == [beaten] * 3
    details = SimpleNamespace(baselines={"normal": own}, intervals={})
    result: Any = SimpleNamespace(divided={"own": {}}, details={"own": details}, means=MeanDetails())
    found = above_chance(result)
    assert found is not None
    assert found.beaten_on == int(beaten)
    assert (found.short == "beats every baseline") is beaten


def test_the_headline_names_the_strongest_baseline_that_is_not_beaten() -> None:
    own = Baselines(100, 2, 0.5, 0.55, 1, 0.5, 0.2, 0.3, 0.4, 0.6, 0.5)
    details = SimpleNamespace(baselines={"normal": own}, intervals={})
    found = above_chance(SimpleNamespace(divided={"own": {}}, details={"own": details}, means=MeanDetails()))  # type: ignore[arg-type]
    assert found is not None
    assert found.not_beaten is not None
    assert found.not_beaten.baseline == "a copy of the last demonstration's label"
    experiment = SimpleNamespace(
        divided={"own": {"experiment": {"name": "order"}}}, details={"own": details}, means=MeanDetails()
    )
    assert above_chance(experiment) is None  # type: ignore[arg-type]


def rounds_model(right_until: int) -> Any:
    """Predicts the right label of "kind N" in contexts with few demonstrations; else the first label."""

    def model(prompt: str, label_space: list[str]) -> str:
        demonstration_count = prompt.count("label: ") - 1
        if demonstration_count > right_until:
            return label_space[0]
        return "kind " + re.findall(r"kind (\d+)", prompt)[-1]

    return model


def own_rounds(**options: Any) -> StaICC.LongICL:
    rows = [(f"row {number} is of kind {number % 20}", f"kind {number % 20}") for number in range(400)]
    return StaICC.LongICL(datasets=[Dataset.from_rows(rows, name="own")], limit=60, **options)


@pytest.mark.parametrize(
    ("right_until", "where"), [(20, "conditions 2R, 3R"), (40, "condition 3R"), (60, None), (0, "all 3 conditions")]
)
def test_all_rounds_that_do_not_beat_a_baseline_are_named(right_until: int, where: str | None) -> None:
    """A later round that is not better than guessing is not hidden behind the first one, which is."""
    result: Any = own_rounds(rounds=(1, 2, 3))(rounds_model(right_until))
    remarks_about_guessing = [text for text in remarks(result) if "uniform guessing" in text]
    if where is None:
        assert remarks_about_guessing == []
    else:
        assert remarks_about_guessing == [f"Not better than uniform guessing ({where}; p > 0.05): own."]


def test_conditions_of_an_experiment_that_do_not_beat_a_baseline_are_named() -> None:
    benchmark = own_rounds(experiment=StaICC.Experiment("shots", levels=(0, 1, 2)))
    result: Any = benchmark(rounds_model(right_until=20))
    assert "Not better than uniform guessing (condition 2 shots; p > 0.05): own." in remarks(result)


def test_a_baseline_without_a_test_is_not_beaten_in_any_output() -> None:
    """Clusters of rows that are too few for a test show nothing, however accurate the run is."""
    dataset = Dataset.from_rows(ROWS, name="own", label_space=["no", "yes"], cluster=lambda row: len(row.texts[0]) % 3)
    benchmark = StaICC.Normal(datasets=[dataset])
    labels = {str(query.prompt): query.label for query in benchmark[0].all_queries()}
    result: Any = benchmark(lambda prompt, label_space: labels[prompt])
    assert result["Averaged results"]["accuracy"] == 1.0
    majority, last = "always the majority label", "a copy of the last demonstration's label"
    for baseline in (majority, last):
        assert f"Untested against {baseline} (too few clusters of test rows): own." in remarks(result)
    found = above_chance(result)
    assert found is not None
    assert found.beaten_on == 0
    assert found.short.startswith("untested against")
    assert found.headline.endswith("untested)")
    record = next(own for own in score_records(result) if own["metric"] == "accuracy")
    assert record["not_beaten"] in (majority, last)
    text = unescape(report_html({"own": result}))
    assert "better than every baseline" not in text
    (entry,) = model_index([result])
    metric = next(own for evaluated in entry["results"] for own in evaluated["metrics"] if own["name"] == "accuracy")
    assert metric["args"]["not_better_than"] == record["not_beaten"]


def test_conditions_that_fail_on_other_data_sets_have_sentences_of_their_own() -> None:
    beaten = Baselines(100, 2, 0.5, 0.55, 1, 0.5, 0.001, p_value_majority=0.001)
    missed = Baselines(100, 2, 0.5, 0.55, 1, 0.5, 0.3, p_value_majority=0.001)
    details = {
        "own": SimpleNamespace(baselines={"1R": beaten, "2R": missed, "3R": missed}, intervals={}),
        "other": SimpleNamespace(baselines={"1R": beaten, "2R": beaten, "3R": missed}, intervals={}),
    }
    means = MeanDetails(baselines={"1R": beaten, "2R": beaten, "3R": missed})
    result: Any = SimpleNamespace(divided={"own": {}, "other": {}}, details=details, means=means)
    assert not_beaten_by_baseline(result) == [
        NotBeaten("uniform guessing", datasets=("own",), conditions=("2R",)),
        NotBeaten("uniform guessing", datasets=("own", "other", "the mean"), conditions=("3R",)),
    ]


def test_a_score_over_several_conditions_has_not_the_verdict_of_the_first_one() -> None:
    """A benchmark of one's own may report the mean accuracy of its conditions, which no test is about."""
    result = StaICC.GLER(datasets=["mini"], limit=6)(lambda prompt, label_space: len(prompt) % 3)
    beaten = Baselines(20, 3, 1 / 3, 0.4, 1, 1 / 3, 0.001, p_value_majority=0.001)
    missed = Baselines(20, 3, 1 / 3, 0.4, 1, 1 / 3, 0.3, p_value_majority=0.3)
    details = result.details["mini"]
    baselines = {record.name: missed if number else beaten for number, record in enumerate(details.conditions)}
    scores = {**result.divided["mini"], "accuracy": 0.5}
    of_conditions = replace(result, divided={"mini": scores}, details={"mini": replace(details, baselines=baselines)})
    records = {record["metric"]: record for record in score_records(of_conditions) if record["dataset"] == "mini"}
    assert len(baselines) > 1
    assert (records["accuracy"]["random"], records["accuracy"]["majority"]) == (1 / 3, 0.4)
    assert records["accuracy"]["not_beaten"] is None
    for number, name in enumerate(baselines):
        assert records[f"{name}.accuracy"]["not_beaten"] == ("always the majority label" if number else "")

    one_condition = replace(details, baselines={name: baselines[name] for name in list(baselines)[:1]})
    of_one = replace(result, divided={"mini": scores}, details={"mini": one_condition})
    (record,) = [
        record for record in score_records(of_one) if (record["dataset"], record["metric"]) == ("mini", "accuracy")
    ]
    assert record["not_beaten"] == ""


def test_the_mean_of_one_data_set_is_that_data_set() -> None:
    """Also its interval: that of the calibration error was another one in the means."""
    data = Dataset.from_rows(ROWS, name="own", label_space=["no", "yes"])
    result = StaICC.Normal(datasets=[data], limit=60)(
        lambda prompt, label_space: [0.3 + len(prompt) % 7 / 20, 0.7 - len(prompt) % 7 / 20]
    )
    intervals = result.details["own"].intervals
    assert "expected_calibration_error_1" in intervals
    assert result.means.intervals == intervals
    records = {(record["dataset"], record["metric"]): record for record in score_records(result)}
    for metric in intervals:
        for key in ("value", "low", "high", "not_beaten"):
            assert records[None, metric][key] == records["own", metric][key]
