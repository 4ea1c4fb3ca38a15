"""Robustness: label noise, templates, demonstrations."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from typing import Any

import pytest

import StaICC
from StaICC import GLER, DemonstrationSensitivity, Normal, TemplateSensitivity
from StaICC.benchmarks.tasks.label_noise import L9
from StaICC.datasets.catalogue import SplitSizes, TemplateAlternatives
from StaICC.datasets.dataset import Dataset
from StaICC.metrics.clusters import level_over_clusters
from StaICC.metrics.intervals import ratio_part

LABELS = ["no", "yes"]


def known(alternatives: TemplateAlternatives | None = None) -> Dataset:
    """A data set whose texts contain their row and their true label, so that a function can see what was falsified."""
    return Dataset.from_rows(
        [(f"row {row} is {LABELS[row % 2]}", row % 2) for row in range(400)],
        name="known",
        label_space=LABELS,
        split=SplitSizes(calibration=0, demonstration=200, test=200),
        alternatives=alternatives,
    )


SHOWN = re.compile(r"row \d+ is (no|yes) label: (no|yes)\n")
QUERY = re.compile(r"row (\d+) is (no|yes) label: $")


def share_correct(prompt: str) -> float:
    """Read off the share of demonstrations that show their true label."""
    shown = SHOWN.findall(prompt)
    return sum(true == label for true, label in shown) / len(shown)


def linear(low: float, high: float, benchmark: Any) -> Callable[..., int]:
    """A function whose accuracy is low + (high - low) * share of correct labels, exactly."""
    test = benchmark[0].test_set()
    ranks = {re.findall(r"\d+", test.texts(row)[0])[0]: row for row in range(len(test))}

    def function(prompt: str, label_space: list[str]) -> int:
        row, label = QUERY.search(prompt).groups()  # type: ignore[union-attr]
        wanted = (low + (high - low) * share_correct(prompt)) * len(test)
        right = label_space.index(label)
        return right if ranks[row] < round(wanted) else 1 - right

    return function


# -- GLER


@pytest.mark.parametrize(("high", "low"), [(1.0, 0.0), (0.5, 0.5), (0.25, 0.75), (0.9, 0.5), (0.82, 0.34), (0.7, 0.7)])
def test_an_accuracy_that_falls_linearly_from_a_to_b_has_slope_a_minus_b(high: float, low: float) -> None:
    """The release regresses on 1, 0.75, 0.25, -0.5, -1.5 (defect 5)."""
    benchmark = GLER(datasets=[known()])
    function = linear(low, high, benchmark)
    result = benchmark(function)
    scores = result["Divided results"]["known"]
    accuracies = [scores[str(step)]["accuracy"] for step in range(5)]
    assert accuracies == pytest.approx([low + (high - low) * share for share in (1, 0.75, 0.5, 0.25, 0)], abs=1e-12)
    slope, intercept = scores["sensitivity"]["accuracy"]
    assert (slope, intercept) == pytest.approx((high - low, low), abs=1e-14)
    assert result["Averaged results"]["accuracy"] == slope
    if all(value * 64 == int(value * 64) for value in (high, low)):
        assert (slope, intercept) == (high - low, low)
    released = GLER(datasets=[known()], metrics="0.1.1")(function)["Averaged results"]["accuracy"]
    assert high == low or abs(released - (high - low)) > 0.1 * abs(high - low)


@pytest.mark.parametrize(("k", "steps"), [(4, 5), (1, 5), (3, 5), (8, 3), (4, 2), (5, 11)])
def test_the_abscissa_is_the_share_that_the_prompts_show(k: int, steps: int) -> None:
    benchmark = GLER(k=k, datasets=[known()], interpolations=steps)
    conditions = benchmark[0].conditions()
    assert [condition.name for condition in conditions] == [str(step) for step in range(steps)]
    shares = []
    for condition in conditions:
        (share,) = {share_correct(str(query.prompt)) for query in condition.queries}
        shares.append(share)
    assert shares == pytest.approx([1 - int(k * (step / (steps - 1))) / k for step in range(steps)])
    assert (shares[0], shares[-1]) == (1.0, 0.0)
    result = benchmark(linear(0.25, 0.75, benchmark))
    accuracies = [result["Divided results"]["known"][str(step)]["accuracy"] for step in range(steps)]
    middle, height = sum(shares) / steps, sum(accuracies) / steps
    top = sum((share - middle) * (value - height) for share, value in zip(shares, accuracies, strict=True))
    slope = top / sum((share - middle) ** 2 for share in shares)
    assert result["Averaged results"]["accuracy"] == pytest.approx(slope, rel=1e-12)


def test_slopes_are_undefined_without_demonstrations_or_without_a_metric() -> None:
    result = GLER(k=0, datasets=["mini"])(lambda prompt, label_space: len(prompt) % 3)
    scores = result["Divided results"]["mini"]
    assert scores["sensitivity"]["accuracy"] is result["Averaged results"]["accuracy"] is None
    assert scores["0"]["accuracy"] is not None
    assert "without demonstrations" in result.details["mini"].missing["sensitivity.accuracy"]
    result = GLER(datasets=["mini"])(lambda prompt, label_space: len(prompt) % 3)
    sensitivity, missing = result["Divided results"]["mini"]["sensitivity"], result.details["mini"].missing
    assert sensitivity["averaged_truelabel_likelihood"] is None
    assert sensitivity["accuracy"] is not None
    assert "undefined at some noise rate" in missing["sensitivity.averaged_truelabel_likelihood"]
    assert "bare labels" in missing["3.averaged_truelabel_likelihood"]


# -- templates


def test_the_orthogonal_array() -> None:
    assert len(L9) == len(set(L9)) == 9
    for first in range(4):
        for second in range(first):
            assert len({(row[first], row[second]) for row in L9}) == 9


@pytest.mark.parametrize("columns", [1, 2, 3])
def test_nine_templates(make_own: Callable[..., Dataset], columns: int, stand_in: Any) -> None:
    dataset = make_own(columns)
    benchmark = TemplateSensitivity(k=1, datasets=[dataset])
    own, alternatives = benchmark[0], dataset.card.alternatives
    assert alternatives is not None
    conditions = own.conditions()
    assert [condition.name for condition in conditions] == [str(place) for place in range(9)]
    for condition, row in zip(conditions, L9, strict=True):
        levels = list(map(int, row))
        prefixes = alternatives.input_text_prefixes[levels[1]]
        prefix, affix = alternatives.label_prefix[levels[2]], alternatives.label_affix[levels[3]]
        for number, query in enumerate(condition.queries):
            texts, label = own.demonstration_set()[own.demonstration_sampler[number][0]]
            shown, last = (
                "".join(f"{before}{text} " for before, text in zip(prefixes, given, strict=True)) + prefix
                for given in (texts, own.test_set()[number][0])
            )
            assert query.prompt == f"{alternatives.instruction[levels[0]]}{shown}{label}{affix}{last}"
    assert benchmark(stand_in).complete


def test_one_hundred_rows_are_used_once() -> None:
    three = ("a: ", "b: ", "c: ")
    dataset = known(TemplateAlternatives(three, tuple((level,) for level in three), three, three))
    own = TemplateSensitivity(datasets=[dataset])[0]
    assert [len(condition.queries) for condition in own.conditions()] == [100] * 9
    assert own.get_repeat_times() == 1
    assert own.test_set().indexes == Normal(datasets=[known()])[0].test_set().indexes[:100]


# -- demonstrations


def test_eight_lists_of_demonstrations_for_each_query() -> None:
    own = DemonstrationSensitivity(datasets=[known()])[0]
    conditions = own.conditions()
    assert [[query.row for query in condition.queries] for condition in conditions] == [list(range(128))] * 8
    assert own.test_set().indexes == Normal(datasets=[known()])[0].test_set().indexes[:128]
    lists = own.demonstration_sampler
    assert len(lists) == 1024
    prompts = [own.prompt_former.write_prompt(positions, number % 128) for number, positions in enumerate(lists)]
    assert [query.prompt for condition in conditions for query in condition.queries] == prompts
    assert len(set(prompts)) > 1000


# -- consistency


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        ([0, 0, 0, 0, 0, 0, 0, 0, 0], 1.0),
        ([0, 0, 0, 1, 1, 1, 2, 2, 2], 3 / 9),
        ([0, 1, 1, 1, 1, 1, 1, 1, 1], 8 / 9),
        ([2, 0, 2, 0, 2, 0, 2, 0, 2], 5 / 9),
    ],
)
@pytest.mark.parametrize("metrics", ["standard", "0.1.1"])
def test_consistency_is_the_share_of_the_most_frequent_label(answers: list[int], expected: float, metrics: str) -> None:
    benchmark = TemplateSensitivity(datasets=["mini"], metrics=metrics)
    rows = len(benchmark[0].conditions()[0].queries)
    given = [[float(place == label) for place in range(3)] for label in answers for _ in range(rows)]
    result = benchmark(preentered_prediction=[given])
    assert result["Divided results"]["mini"] == {"sensitivity": {"consistency": pytest.approx(expected, rel=1e-12)}}
    assert result["Averaged results"] == {"consistency": pytest.approx(expected, rel=1e-12)}


def test_consistency_is_averaged_over_queries() -> None:
    benchmark = DemonstrationSensitivity(datasets=["mini"])
    rows = len(benchmark[0].conditions()[0].queries)
    given = [int(row == 0 and repeat % 2 == 1) for repeat in range(8) for row in range(rows)]
    consistency = benchmark(preentered_prediction=[given])["Averaged results"]["consistency"]
    assert consistency == pytest.approx((rows - 1 + 0.5) / rows, rel=1e-12)


@pytest.mark.parametrize(("lost", "expected", "reason"), [(1, 1.0, ""), (None, None, "no query has a prediction")])
def test_a_query_counts_where_every_condition_has_a_prediction(lost: Any, expected: Any, reason: str) -> None:
    benchmark = DemonstrationSensitivity(datasets=["mini"])
    first = {query.prompt for query in benchmark[0].conditions()[0].queries[:lost]}
    result = benchmark(lambda prompt, label_space: None if prompt in first else 1, on_error="collect")
    assert not result.complete
    assert result["Averaged results"] == {"consistency": expected}
    assert reason in str(result.details["mini"].missing)


def test_demonstrations_by_hand_leave_nothing_to_compare() -> None:
    benchmark = DemonstrationSensitivity(datasets=["mini"])
    benchmark[0].set_demonstration_sampler([[0] * 4] * len(benchmark[0].test_set()))
    result = benchmark(lambda prompt, label_space: 1)
    assert result["Averaged results"] == {"consistency": None}
    assert "only one condition to compare" in str(result.details["mini"].missing)


def test_the_interval_of_consistency_leaves_failed_queries_out() -> None:
    benchmark = DemonstrationSensitivity(datasets=["mini"])
    queries = benchmark[0].conditions()[0].queries
    failing = {query.prompt for query in queries if query.row % 2}
    result = benchmark(lambda prompt, label_space: None if prompt in failing else 1, on_error="collect")
    (interval,) = result.details["mini"].intervals.values()
    rows = len({query.row for query in queries if query.prompt not in failing})
    assert interval.low == pytest.approx(1 - ratio_part([1.0] * rows, [1.0] * rows, 0.95).below)


def clustered_data() -> Dataset:
    """Return a data set with 40 clusters of different sizes."""
    rows = [(f"text {number}", number % 2) for number in range(400)]
    return Dataset.from_rows(
        rows, name="clustered", label_space=["no", "yes"], cluster=lambda row: int(row.texts[0].split()[1]) ** 2 // 4000
    )


@pytest.mark.parametrize("benchmark", [TemplateSensitivity, DemonstrationSensitivity])
def test_the_interval_of_consistency_is_over_clusters_where_rows_are_in_clusters(benchmark: Any) -> None:
    """Against the sums of the consistencies over each cluster, as of a ratio of two sums."""

    def predict(prompt: str, label_space: list[str]) -> int:
        return hashlib.sha256(prompt.encode()).digest()[0] % 2

    result = benchmark(datasets=[clustered_data()], k=1)(predict)
    details = result.details["clustered"]
    sums: dict[int, float] = {}
    sizes: dict[int, float] = {}
    predictions_by_query = zip(*[record.predictions for record in details.conditions], strict=True)
    for row, labels in zip(details.conditions[0].rows, predictions_by_query, strict=True):
        cluster = details.clusters[row]
        sums[cluster] = sums.get(cluster, 0.0) + max(map(labels.count, labels)) / len(labels)
        sizes[cluster] = sizes.get(cluster, 0.0) + 1.0
    shares = [size / sum(sizes.values()) for size in sizes.values()]
    assert len(set(shares)) > 1
    share = ratio_part(list(sums.values()), list(sizes.values()), level_over_clusters(0.95, shares))
    interval = details.intervals["sensitivity.consistency"]
    assert (interval.low, interval.high) == pytest.approx((share.value - share.below, share.value + share.above))
    assert (interval.level, interval.method.rpartition(", ")[2]) == (0.95, "unit: cluster")


@pytest.mark.parametrize("name", ["Normal", "GLER", "TemplateSensitivity", "Generalisation"])
def test_no_interval_is_over_test_rows_where_rows_are_in_clusters(name: str) -> None:
    """Rows of a cluster are not independent, so that such an interval would be too narrow."""
    data = clustered_data()
    result = getattr(StaICC, name)(datasets=[data], limit=120, k=1)(
        lambda prompt, label_space: [0.3 + len(prompt) % 7 / 20, 0.7 - len(prompt) % 7 / 20]
    )
    details = result.details["clustered"]
    for intervals in (details.intervals, result.means.intervals):
        for key, interval in intervals.items():
            assert "test row" not in interval.method, key
    assert details.intervals
