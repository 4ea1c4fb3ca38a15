"""Robustness: label noise, templates, demonstrations."""

from __future__ import annotations

import hashlib
import itertools
import math
import re
import statistics
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import pytest

import StaICC
from StaICC import GLER, DemonstrationSensitivity, Normal, TemplateSensitivity
from StaICC.benchmarks.tasks.label_noise import L9
from StaICC.datasets.catalogue import SplitSizes, TemplateAlternatives
from StaICC.datasets.dataset import Dataset
from StaICC.metrics.clusters import level_over_clusters
from StaICC.metrics.intervals import ratio_part
from tests.benchmarks.conftest import invented_dataset

LABELS = ["no", "yes"]


def dataset_that_names_labels(alternatives: TemplateAlternatives | None = None) -> Dataset:
    """Return a data set "known" of texts such as "row 7 is yes", which say their true label.

    So a function can see in a prompt which demonstrations have a wrong label. It has 200 demonstrations and 200 test
    rows.
    """
    rows = [(f"row {row} is {LABELS[row % 2]}", row % 2) for row in range(400)]
    return Dataset.from_rows(
        rows,
        name="known",
        label_space=LABELS,
        split=SplitSizes(calibration=0, demonstration=200, test=200),
        alternatives=alternatives,
    )


DEMONSTRATION = re.compile(r"row \d+ is (no|yes) label: (no|yes)\n")
"""A demonstration in a prompt: its true label, and the label that the prompt shows."""
QUERY = re.compile(r"row (\d+) is (no|yes) label: $")
"""The query of a prompt: the number of its row, and its true label."""


def share_of_true_labels(prompt: str) -> float:
    """Return the share of the demonstrations in a prompt that show their true label."""
    is_true = [true_label == shown_label for true_label, shown_label in DEMONSTRATION.findall(prompt)]
    return sum(is_true) / len(is_true)


def model_with_linear_accuracy(benchmark: Any, low: float, high: float) -> Callable[..., int]:
    """Return a model whose accuracy is ``low + (high - low) * share``, of the share of true labels in its prompts.

    It is right in the first test rows, as many as this accuracy needs, and wrong in the others.
    """
    test_set = benchmark[0].test_set()
    position_of_row = {}
    for position in range(len(test_set)):
        (text,) = test_set.texts(position)
        _, row, _, _ = text.split()  # "row 7 is yes"
        position_of_row[row] = position

    def predict(prompt: str, label_space: list[str]) -> int:
        query = QUERY.search(prompt)
        assert query is not None
        row, true_label = query.groups()
        accuracy = low + (high - low) * share_of_true_labels(prompt)
        right_row_count = round(accuracy * len(test_set))
        label = label_space.index(true_label)
        wrong_label = 1 - label
        return label if position_of_row[row] < right_row_count else wrong_label

    return predict


# -- GLER


@pytest.mark.parametrize(
    ("high", "low"),
    [(1.0, 0.0), (0.5, 0.5), (0.25, 0.75), (0.9, 0.5), (0.82, 0.34), (0.7, 0.7)],
    ids=["from 1 to 0", "constant", "rising", "falling to 0.5", "uneven", "constant at 0.7"],
)
def test_an_accuracy_that_falls_linearly_has_the_difference_of_its_ends_as_slope(high: float, low: float) -> None:
    """The accuracy is ``high`` if all labels of the demonstrations are true, and ``low`` if none is."""
    benchmark = GLER(datasets=[dataset_that_names_labels()])

    result = benchmark(model_with_linear_accuracy(benchmark, low, high))

    scores = result["Divided results"]["known"]
    accuracies = [scores[step]["accuracy"] for step in ("0", "1", "2", "3", "4")]
    expected_accuracies = [low + (high - low) * share for share in (1, 0.75, 0.5, 0.25, 0)]
    assert accuracies == pytest.approx(expected_accuracies, abs=1e-12)
    slope, intercept = scores["sensitivity"]["accuracy"]
    assert slope == pytest.approx(high - low, abs=1e-14)
    assert intercept == pytest.approx(low, abs=1e-14)
    assert result["Averaged results"]["accuracy"] == slope


@pytest.mark.parametrize(("high", "low"), [(1.0, 0.0), (0.5, 0.5), (0.25, 0.75)])
def test_the_slope_of_accuracies_that_are_binary_fractions_is_exact(high: float, low: float) -> None:
    benchmark = GLER(datasets=[dataset_that_names_labels()])

    result = benchmark(model_with_linear_accuracy(benchmark, low, high))

    slope, intercept = result["Divided results"]["known"]["sensitivity"]["accuracy"]
    assert slope == high - low
    assert intercept == low


@pytest.mark.parametrize(("high", "low"), [(1.0, 0.0), (0.25, 0.75), (0.9, 0.5), (0.82, 0.34)])
def test_the_slope_of_the_release_is_wrong_by_more_than_a_tenth(high: float, low: float) -> None:
    """It regresses on 1, 0.75, 0.25, -0.5, -1.5 (defect 5), in place of 1, 0.75, 0.5, 0.25, 0; kept on request."""
    benchmark = GLER(datasets=[dataset_that_names_labels()], metrics="0.1.1")

    result = benchmark(model_with_linear_accuracy(benchmark, low, high))

    true_slope = high - low
    released_slope = result["Averaged results"]["accuracy"]
    assert abs(released_slope - true_slope) > 0.1 * abs(true_slope)


NUMBERS_OF_STEPS = pytest.mark.parametrize(("k", "steps"), [(4, 5), (1, 5), (3, 5), (8, 3), (4, 2), (5, 11)])
"""Numbers of demonstrations, and of noise rates from 0 to 1."""


def shares_in_conditions(benchmark: Any) -> list[float]:
    """Return the share of true labels in the prompts of each condition; it is the same in all of them."""
    shares = []
    for condition in benchmark[0].conditions():
        (share,) = {share_of_true_labels(str(query.prompt)) for query in condition.queries}
        shares.append(share)
    return shares


@NUMBERS_OF_STEPS
def test_a_prompt_shows_as_many_true_labels_as_its_noise_rate_leaves(k: int, steps: int) -> None:
    """The number of wrong labels is ``k * noise_rate``, rounded down."""
    benchmark = GLER(k=k, datasets=[dataset_that_names_labels()], interpolations=steps)

    shares = shares_in_conditions(benchmark)

    expected_shares = []
    for step in range(steps):
        noise_rate = step / (steps - 1)
        wrong_labels = math.floor(k * noise_rate)
        expected_shares.append((k - wrong_labels) / k)
    assert shares == pytest.approx(expected_shares)
    assert shares[0] == 1.0
    assert shares[-1] == 0.0


@NUMBERS_OF_STEPS
def test_the_slope_is_that_of_least_squares_over_the_shares_of_true_labels(k: int, steps: int) -> None:
    """With x the share and y the accuracy: sum((x - mean x) (y - mean y)) / sum((x - mean x)^2)."""
    benchmark = GLER(k=k, datasets=[dataset_that_names_labels()], interpolations=steps)

    result = benchmark(model_with_linear_accuracy(benchmark, low=0.25, high=0.75))

    shares = shares_in_conditions(benchmark)
    accuracies = [result["Divided results"]["known"][str(step)]["accuracy"] for step in range(steps)]
    expected_slope = statistics.linear_regression(shares, accuracies).slope
    assert result["Averaged results"]["accuracy"] == pytest.approx(expected_slope, rel=1e-12)


def label_by_length(prompt: str, label_space: list[str]) -> int:
    """Predict a bare label of three, by the length of the prompt."""
    return len(prompt) % 3


def test_slopes_are_undefined_without_demonstrations() -> None:
    result = GLER(k=0, datasets=["mini"])(label_by_length)

    scores = result["Divided results"]["mini"]
    assert scores["0"]["accuracy"] is not None
    assert scores["sensitivity"]["accuracy"] is None
    assert result["Averaged results"]["accuracy"] is None
    assert "without demonstrations" in result.details["mini"].missing["sensitivity.accuracy"]


def test_the_slope_of_a_metric_that_is_undefined_in_the_conditions_is_undefined() -> None:
    """Bare labels have an accuracy, and no likelihood."""
    result = GLER(datasets=["mini"])(label_by_length)

    sensitivity = result["Divided results"]["mini"]["sensitivity"]
    assert sensitivity["accuracy"] is not None
    assert sensitivity["averaged_truelabel_likelihood"] is None
    reasons = result.details["mini"].missing
    assert "undefined at some noise rate" in reasons["sensitivity.averaged_truelabel_likelihood"]
    assert "bare labels" in reasons["3.averaged_truelabel_likelihood"]


# -- templates: the nine conditions are the rows of an orthogonal array of four factors with three levels each


@pytest.mark.parametrize(("first_factor", "second_factor"), list(itertools.combinations(range(4), 2)))
def test_two_factors_of_the_orthogonal_array_have_all_nine_pairs_of_levels(
    first_factor: int, second_factor: int
) -> None:
    pairs_of_levels = {(row[first_factor], row[second_factor]) for row in L9}

    assert len(L9) == 9
    assert len(pairs_of_levels) == 3 * 3


@pytest.mark.parametrize("columns", [1, 2, 3])
def test_nine_conditions_have_a_number_as_name(columns: int) -> None:
    experimentor = TemplateSensitivity(k=1, datasets=[invented_dataset(columns=columns)])[0]

    names = [condition.name for condition in experimentor.conditions()]

    assert names == ["0", "1", "2", "3", "4", "5", "6", "7", "8"]


class PartsOfTemplate(NamedTuple):
    """The parts of a template that a condition changes."""

    instruction: str
    text_prefixes: Sequence[str]
    label_prefix: str
    label_affix: str

    def write_texts(self, texts: Sequence[str]) -> str:
        """Return the texts of a row with their prefixes, and the label prefix: "a0: text 3 l: "."""
        with_prefixes = [f"{prefix}{text} " for prefix, text in zip(self.text_prefixes, texts, strict=True)]
        return "".join(with_prefixes) + self.label_prefix


def parts_of_template(dataset: Dataset, levels: str) -> PartsOfTemplate:
    """Return the parts of a data set's template at the levels in a row of the orthogonal array, such as "0121"."""
    alternatives = dataset.card.alternatives
    assert alternatives is not None
    instruction_level, prefix_level, label_prefix_level, label_affix_level = map(int, levels)
    return PartsOfTemplate(
        instruction=alternatives.instruction[instruction_level],
        text_prefixes=alternatives.input_text_prefixes[prefix_level],
        label_prefix=alternatives.label_prefix[label_prefix_level],
        label_affix=alternatives.label_affix[label_affix_level],
    )


@pytest.mark.parametrize("condition_number", range(9))
@pytest.mark.parametrize("columns", [1, 2, 3])
def test_a_condition_has_the_template_of_its_row_of_the_orthogonal_array(columns: int, condition_number: int) -> None:
    """With one demonstration, a prompt is the instruction, the demonstration and the query."""
    dataset = invented_dataset(columns=columns)
    experimentor = TemplateSensitivity(k=1, datasets=[dataset])[0]
    template = parts_of_template(dataset, L9[condition_number])

    queries = experimentor.conditions()[condition_number].queries

    expected_prompts = []
    for row in range(len(queries)):
        (demonstration_position,) = experimentor.demonstration_sampler[row]
        shown_texts, shown_label = experimentor.demonstration_set()[demonstration_position]
        query_texts, _ = experimentor.test_set()[row]
        demonstration = f"{template.write_texts(shown_texts)}{shown_label}{template.label_affix}"
        expected_prompts.append(template.instruction + demonstration + template.write_texts(query_texts))
    assert [query.prompt for query in queries] == expected_prompts


@pytest.mark.parametrize("columns", [1, 2, 3])
def test_a_run_with_nine_templates_is_complete(columns: int, hash_model: Any) -> None:
    benchmark = TemplateSensitivity(k=1, datasets=[invented_dataset(columns=columns)])

    assert benchmark(hash_model).complete


def test_one_hundred_rows_are_used_once_with_each_template() -> None:
    levels = ("a: ", "b: ", "c: ")
    alternatives = TemplateAlternatives(levels, (("a: ",), ("b: ",), ("c: ",)), levels, levels)

    experimentor = TemplateSensitivity(datasets=[dataset_that_names_labels(alternatives)])[0]

    assert [len(condition.queries) for condition in experimentor.conditions()] == [100] * 9
    assert experimentor.get_repeat_times() == 1


def test_the_rows_of_template_sensitivity_are_the_first_test_rows_of_normal() -> None:
    levels = ("a: ", "b: ", "c: ")
    alternatives = TemplateAlternatives(levels, (("a: ",), ("b: ",), ("c: ",)), levels, levels)

    experimentor = TemplateSensitivity(datasets=[dataset_that_names_labels(alternatives)])[0]

    rows_of_normal = Normal(datasets=[dataset_that_names_labels()])[0].test_set().indexes
    assert experimentor.test_set().indexes == rows_of_normal[:100]


# -- demonstrations


def test_128_rows_are_used_with_eight_lists_of_demonstrations() -> None:
    experimentor = DemonstrationSensitivity(datasets=[dataset_that_names_labels()])[0]

    rows_by_condition = [[query.row for query in condition.queries] for condition in experimentor.conditions()]

    assert rows_by_condition == [list(range(128))] * 8


def test_the_rows_of_demonstration_sensitivity_are_the_first_test_rows_of_normal() -> None:
    experimentor = DemonstrationSensitivity(datasets=[dataset_that_names_labels()])[0]

    rows_of_normal = Normal(datasets=[dataset_that_names_labels()])[0].test_set().indexes
    assert experimentor.test_set().indexes == rows_of_normal[:128]


def test_each_query_has_its_own_list_of_demonstrations() -> None:
    """The lists are in the order of the conditions, with 128 rows in each."""
    experimentor = DemonstrationSensitivity(datasets=[dataset_that_names_labels()])[0]

    prompts = [query.prompt for condition in experimentor.conditions() for query in condition.queries]

    expected_prompts = []
    for query_number, positions in enumerate(experimentor.demonstration_sampler):
        row = query_number % 128
        expected_prompts.append(experimentor.prompt_former.write_prompt(positions, row))
    assert prompts == expected_prompts
    assert len(prompts) == 8 * 128
    assert len(set(prompts)) > 1000, "nearly all lists are different"


# -- consistency


@pytest.mark.parametrize(
    ("labels", "consistency"),
    [
        ([0, 0, 0, 0, 0, 0, 0, 0, 0], 9 / 9),
        ([0, 0, 0, 1, 1, 1, 2, 2, 2], 3 / 9),
        ([0, 1, 1, 1, 1, 1, 1, 1, 1], 8 / 9),
        ([2, 0, 2, 0, 2, 0, 2, 0, 2], 5 / 9),
    ],
    ids=str,
)
@pytest.mark.parametrize("metrics", ["standard", "0.1.1"])
def test_consistency_is_the_share_of_the_most_frequent_label(
    labels: list[int], consistency: float, metrics: str
) -> None:
    """All rows have these predictions with the nine templates."""
    one_hot_rows = {0: [1.0, 0.0, 0.0], 1: [0.0, 1.0, 0.0], 2: [0.0, 0.0, 1.0]}
    benchmark = TemplateSensitivity(datasets=["mini"], metrics=metrics)
    row_count = len(benchmark[0].conditions()[0].queries)
    predictions = []
    for label in labels:
        predictions += [one_hot_rows[label]] * row_count

    result = benchmark(preentered_prediction=[predictions])

    expected = {"consistency": pytest.approx(consistency, rel=1e-12)}
    assert result["Divided results"]["mini"] == {"sensitivity": expected}
    assert result["Averaged results"] == expected


def test_consistency_is_averaged_over_rows() -> None:
    """The first row has one label with half of the eight lists, and another with the others: its consistency is 1/2.

    The other rows have one label with all lists: their consistency is 1.
    """
    benchmark = DemonstrationSensitivity(datasets=["mini"])
    row_count = len(benchmark[0].conditions()[0].queries)
    predictions = []
    for label_of_first_row in [0, 1, 0, 1, 0, 1, 0, 1]:
        predictions += [label_of_first_row, *[0] * (row_count - 1)]

    result = benchmark(preentered_prediction=[predictions])

    expected = (1 / 2 + (row_count - 1) * 1) / row_count
    assert result["Averaged results"]["consistency"] == pytest.approx(expected, rel=1e-12)


def run_that_fails_for(prompts: set[Any]) -> Any:
    """Return a run of a model that always predicts the same label, but nothing for some prompts."""
    benchmark = DemonstrationSensitivity(datasets=["mini"])
    result = benchmark(lambda prompt, label_space: None if prompt in prompts else 1, on_error="collect")
    assert not result.complete
    return result


def test_a_row_that_lacks_a_prediction_does_not_count_for_the_consistency() -> None:
    first_condition = DemonstrationSensitivity(datasets=["mini"])[0].conditions()[0]
    first_prompt = first_condition.queries[0].prompt

    result = run_that_fails_for({first_prompt})

    assert result["Averaged results"] == {"consistency": 1.0}


def test_consistency_is_undefined_if_all_rows_lack_a_prediction() -> None:
    first_condition = DemonstrationSensitivity(datasets=["mini"])[0].conditions()[0]

    result = run_that_fails_for({query.prompt for query in first_condition.queries})

    assert result["Averaged results"] == {"consistency": None}
    assert "no query has a prediction" in str(result.details["mini"].missing)


def test_consistency_is_undefined_with_demonstrations_by_hand() -> None:
    """Demonstrations by hand are one list for each row, so there is only one condition."""
    benchmark = DemonstrationSensitivity(datasets=["mini"])
    benchmark[0].set_demonstration_sampler([[0, 0, 0, 0]] * len(benchmark[0].test_set()))

    result = benchmark(lambda prompt, label_space: 1)

    assert result["Averaged results"] == {"consistency": None}
    assert "only one condition to compare" in str(result.details["mini"].missing)


def test_the_interval_of_consistency_leaves_failed_rows_out() -> None:
    """Rows with an odd number fail, and all others have the consistency 1, as shares of 1 in so many rows."""
    queries = DemonstrationSensitivity(datasets=["mini"])[0].conditions()[0].queries
    prompts_of_odd_rows = {query.prompt for query in queries if query.row % 2 == 1}

    result = run_that_fails_for(prompts_of_odd_rows)

    (interval,) = result.details["mini"].intervals.values()
    row_count = len(queries) - len(prompts_of_odd_rows)
    share = ratio_part([1.0] * row_count, [1.0] * row_count, 0.95)
    assert interval.low == pytest.approx(1 - share.below)


def clustered_dataset() -> Dataset:
    """Return a data set "clustered" of 400 texts in 40 clusters of different sizes.

    The text with the number n is in the cluster n^2 / 4000, rounded down: early clusters are larger.
    """
    rows = [(f"text {number}", number % 2) for number in range(400)]

    def cluster_of(row: Any) -> int:
        _, number = row.texts[0].split()
        return int(number) ** 2 // 4000

    return Dataset.from_rows(rows, name="clustered", label_space=["no", "yes"], cluster=cluster_of)


def consistency_of(labels: Sequence[int]) -> float:
    """Return the share of the most frequent label."""
    return max(labels.count(label) for label in labels) / len(labels)


@pytest.mark.parametrize("benchmark", [TemplateSensitivity, DemonstrationSensitivity])
def test_the_interval_of_consistency_is_over_clusters_where_rows_are_in_clusters(benchmark: Any) -> None:
    """It is that of a ratio: the sums of the consistencies in each cluster, to the numbers of rows in each."""

    def predict(prompt: str, label_space: list[str]) -> int:
        return hashlib.sha256(prompt.encode()).digest()[0] % 2

    result = benchmark(datasets=[clustered_dataset()], k=1)(predict)

    details = result.details["clustered"]
    labels_by_row = zip(*[condition.predictions for condition in details.conditions], strict=True)
    consistency_sums: dict[int, float] = defaultdict(float)
    cluster_sizes: dict[int, float] = defaultdict(float)
    for row, labels in zip(details.conditions[0].rows, labels_by_row, strict=True):
        cluster = details.clusters[row]
        consistency_sums[cluster] += consistency_of(labels)
        cluster_sizes[cluster] += 1
    cluster_shares = [size / sum(cluster_sizes.values()) for size in cluster_sizes.values()]
    assert len(set(cluster_shares)) > 1, "clusters have different sizes"

    level = level_over_clusters(0.95, cluster_shares)
    ratio = ratio_part(list(consistency_sums.values()), list(cluster_sizes.values()), level)
    interval = details.intervals["sensitivity.consistency"]
    assert interval.low == pytest.approx(ratio.value - ratio.below)
    assert interval.high == pytest.approx(ratio.value + ratio.above)
    assert interval.level == 0.95
    assert interval.method.endswith(", unit: cluster")


def uncertain_about_two_labels(prompt: str, label_space: list[str]) -> list[float]:
    """Predict seven different pairs of probabilities, by the length of the prompt."""
    shift = len(prompt) % 7 / 20
    return [0.3 + shift, 0.7 - shift]


@pytest.mark.parametrize("name", ["Normal", "GLER", "TemplateSensitivity", "Generalisation"])
def test_no_interval_is_over_test_rows_where_rows_are_in_clusters(name: str) -> None:
    """Rows of a cluster are not independent, so that such an interval would be too narrow."""
    benchmark = getattr(StaICC, name)(datasets=[clustered_dataset()], limit=120, k=1)

    result = benchmark(uncertain_about_two_labels)

    intervals_of_dataset = result.details["clustered"].intervals
    assert intervals_of_dataset
    for intervals in (intervals_of_dataset, result.means.intervals):
        for score, interval in intervals.items():
            assert "test row" not in interval.method, score
