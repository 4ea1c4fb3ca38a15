"""Scores of Normal and of prediction bias: right by default, bug for bug as in the release on request; intervals."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pytest

import StaICC
from StaICC import GLER, ContextualBias, DomainBias, Normal, PosteriorBias
from StaICC.datasets.dataset import Dataset
from StaICC.errors import OutputError
from StaICC.metrics.intervals import mean_interval, ratio_part
from StaICC.metrics.metric_set import metric_set
from StaICC.metrics.random_baselines import RandomBaseline
from StaICC.metrics.statistics import Statistic
from StaICC.results.result import Result
from tests.benchmarks.conftest import invented_dataset

LIKELIHOOD, ECE = "averaged_truelabel_likelihood", "expected_calibration_error_1"


def averaged_results(predictions: Sequence[Any], dataset: Dataset, **settings: Any) -> dict[str, Any]:
    """Return "Averaged results" of Normal on one data set for given predictions, one for each query in order."""
    benchmark = Normal(datasets=[dataset], **settings)
    result = benchmark(preentered_prediction=[predictions])
    return dict(result["Averaged results"])


def scores_for_true_label(labels_of_queries: Sequence[int], of_true: float, of_other: float) -> list[list[float]]:
    """Return two scores for each query, one for each label: ``of_true`` for its true label, ``of_other`` for the other.

    For the true labels 0 and 1 and the scores 0.9 and 0.1, these are [[0.9, 0.1], [0.1, 0.9]].
    """
    rows = []
    for true_label in labels_of_queries:
        if true_label == 0:
            rows.append([of_true, of_other])
        else:
            rows.append([of_other, of_true])
    return rows


def logistic(difference: float) -> float:
    """Return the softmax probability of a label whose score is higher by this difference than that of the other."""
    return 1 / (1 + math.exp(-difference))


@pytest.fixture
def yes_no_dataset() -> Dataset:
    """A data set "own" with 12 test rows, and the labels "no" and "yes"."""
    return invented_dataset(columns=1)


@pytest.fixture
def labels_of_queries(yes_no_dataset: Dataset) -> list[int]:
    """The true label of each query of Normal on the data set ``own``: 12 test rows, twice."""
    return [query.label for query in Normal(datasets=[yes_no_dataset])[0].all_queries()]


def test_probabilities_are_not_put_through_softmax_again(yes_no_dataset: Dataset, labels_of_queries: list[int]) -> None:
    """One row that does not sum to exactly 1.0 sends the release's whole matrix through softmax (defect 1)."""
    rows = scores_for_true_label(labels_of_queries, 0.9, 0.1)
    rows[3] = [value * (1 + 1e-15) for value in rows[3]]
    assert math.fsum(rows[3]) != 1.0

    found = averaged_results(rows, yes_no_dataset)
    released = averaged_results(rows, yes_no_dataset, metrics="0.1.1")

    assert found[LIKELIHOOD] == pytest.approx(0.9)
    assert found[ECE] == pytest.approx(0.1)
    assert released[LIKELIHOOD] == pytest.approx(logistic(0.9 - 0.1))


@pytest.mark.parametrize(
    ("shift", "settings"),
    [(0.0, {}), (100.0, {"outputs": "logits"}), (-100.0, {})],
    ids=["of both signs", "all positive, declared", "all negative"],
)
def test_logits_are_softmaxed(
    yes_no_dataset: Dataset, labels_of_queries: list[int], shift: float, settings: dict[str, Any]
) -> None:
    """A constant that is added to all logits of a row changes no probability."""
    rows = scores_for_true_label(labels_of_queries, 3.0 + shift, -1.0 + shift)

    found = averaged_results(rows, yes_no_dataset, **settings)

    assert found[LIKELIHOOD] == pytest.approx(logistic(3.0 + 1.0))


def test_logits_with_another_shift_in_each_row_are_softmaxed(
    yes_no_dataset: Dataset, labels_of_queries: list[int]
) -> None:
    rows = scores_for_true_label(labels_of_queries, 3.0, -1.0)
    shifted = [[value + 100.5 + query for value in row] for query, row in enumerate(rows)]

    found = averaged_results(shifted, yes_no_dataset, outputs="logits")

    assert found[LIKELIHOOD] == pytest.approx(logistic(3.0 + 1.0))
    assert averaged_results(shifted, yes_no_dataset)[LIKELIHOOD] is None, (
        "positive numbers that are not declared as logits"
    )


def test_positive_numbers_that_are_not_declared_have_no_likelihood(
    yes_no_dataset: Dataset, labels_of_queries: list[int]
) -> None:
    """Such numbers may be logits, or weights that are to be divided by their sum."""
    positive = scores_for_true_label(labels_of_queries, 103.0, 99.0)

    assert averaged_results(positive, yes_no_dataset)[LIKELIHOOD] is None


def test_ambiguous_numbers_have_an_accuracy_and_a_reason_for_the_other_scores(
    yes_no_dataset: Dataset, labels_of_queries: list[int]
) -> None:
    """Positive numbers that sum to 0.4 may be logits, or weights: both have the same largest label."""
    rows = scores_for_true_label(labels_of_queries, 0.3, 0.1)

    result = Normal(datasets=[yes_no_dataset])(preentered_prediction=[rows])

    assert result["Averaged results"]["accuracy"] == 1.0
    assert result["Averaged results"][LIKELIHOOD] is None
    missing = result.details["own"].missing
    assert set(missing) == {LIKELIHOOD, ECE}
    assert "row 0 sums to 0.4" in missing[LIKELIHOOD]


@pytest.mark.parametrize(
    ("outputs", "likelihood"), [("probabilities", 0.3 / (0.3 + 0.1)), ("logits", logistic(0.3 - 0.1))]
)
def test_ambiguous_numbers_are_read_as_the_user_says(
    yes_no_dataset: Dataset, labels_of_queries: list[int], outputs: str, likelihood: float
) -> None:
    rows = scores_for_true_label(labels_of_queries, 0.3, 0.1)

    found = averaged_results(rows, yes_no_dataset, outputs=outputs)

    assert found[LIKELIHOOD] == pytest.approx(likelihood)


def test_a_mixture_of_probabilities_and_logits_has_no_likelihood(yes_no_dataset: Dataset) -> None:
    logits = [4.0, -2.0]
    probabilities = [0.5, 0.5]
    predictions = [logits, probabilities] * 12  # two queries of 12 test rows

    result = Normal(datasets=[yes_no_dataset])(preentered_prediction=[predictions])

    assert result["Averaged results"][LIKELIHOOD] is None
    assert "mixture" in result.details["own"].missing[LIKELIHOOD]


def test_negative_numbers_are_refused_as_probabilities(yes_no_dataset: Dataset, labels_of_queries: list[int]) -> None:
    rows = [[3.0, -1.0]] * len(labels_of_queries)

    with pytest.raises(OutputError, match=r"^Normal, own: row 0, column 1 of the predictions is -1\.0"):
        averaged_results(rows, yes_no_dataset, outputs="probabilities")


def test_certain_and_always_wrong_is_fully_miscalibrated(yes_no_dataset: Dataset, labels_of_queries: list[int]) -> None:
    """Confidence 1.0 falls in no bin of the release (defect 2)."""
    wrong = scores_for_true_label(labels_of_queries, 0.0, 1.0)

    assert averaged_results(wrong, yes_no_dataset)[ECE] == 1.0
    assert averaged_results(wrong, yes_no_dataset, metrics="0.1.1")[ECE] == 0.0


def test_certain_and_always_right_is_perfectly_calibrated(
    yes_no_dataset: Dataset, labels_of_queries: list[int]
) -> None:
    right = scores_for_true_label(labels_of_queries, 1.0, 0.0)

    assert averaged_results(right, yes_no_dataset)[ECE] == 0.0


def test_labels_that_are_never_predicted_have_the_f1_of_zero() -> None:
    """An IndexError in the release (defect 9).

    The only label that is predicted has the precision ``share`` and the recall 1, so the F1 2 share / (share + 1).
    """
    benchmark = Normal(datasets=[invented_dataset(columns=1, labels=("a", "b", "c", "d"))])
    true_labels = [query.label for query in benchmark[0].all_queries()]
    share = true_labels.count(0) / len(true_labels)

    found = benchmark(lambda prompt, label_space: 0)["Averaged results"]

    assert found["accuracy"] == share
    assert found["macro_F1"] == pytest.approx((2 * share / (share + 1) + 0 + 0 + 0) / 4)


def test_bare_labels_have_no_likelihood_and_no_calibration_error(yes_no_dataset: Dataset) -> None:
    found = Normal(datasets=[yes_no_dataset])(lambda prompt, label_space: 0)["Averaged results"]

    assert found[LIKELIHOOD] is None
    assert found[ECE] is None


def test_of_equal_scores_the_first_label_is_the_prediction(
    yes_no_dataset: Dataset, labels_of_queries: list[int]
) -> None:
    equal = averaged_results([[0.5, 0.5]] * len(labels_of_queries), yes_no_dataset)
    first = averaged_results([[1.0, 0.0]] * len(labels_of_queries), yes_no_dataset)

    assert equal["accuracy"] == labels_of_queries.count(0) / len(labels_of_queries)
    assert first["accuracy"] == equal["accuracy"]
    assert first["macro_F1"] == equal["macro_F1"]
    assert equal[LIKELIHOOD] == 0.5
    assert equal[ECE] == pytest.approx(abs(equal["accuracy"] - 0.5))


def test_equal_scores_in_all_queries_are_noted_and_no_score_is_missing(yes_no_dataset: Dataset) -> None:
    details = Normal(datasets=[yes_no_dataset])(lambda prompt, label_space: [0.5, 0.5]).details["own"]

    assert not details.missing
    assert any("tie for the largest score" in note for note in details.notes), f"got {details.notes}"


def test_equal_scores_are_scored_as_in_the_release(yes_no_dataset: Dataset, labels_of_queries: list[int]) -> None:
    rows = [[0.5, 0.5]] * len(labels_of_queries)

    found = averaged_results(rows, yes_no_dataset)
    released = averaged_results(rows, yes_no_dataset, metrics="0.1.1")

    for name, value in released.items():
        assert found[name] == pytest.approx(value, abs=1e-12), name


def test_accuracy_has_the_baselines_of_guessing_and_of_the_majority_label(
    yes_no_dataset: Dataset, labels_of_queries: list[int]
) -> None:
    result = Normal(datasets=[yes_no_dataset])(preentered_prediction=[[0] * len(labels_of_queries)])

    baselines = result.details["own"].baselines["normal"]
    assert baselines.queries == len(labels_of_queries)
    assert baselines.labels == 2
    assert baselines.uniform == 0.5
    assert baselines.max_random == pytest.approx(0.5)
    assert baselines.majority == max(labels_of_queries.count(0), labels_of_queries.count(1)) / len(labels_of_queries)


def test_of_two_equally_frequent_labels_the_first_one_is_the_majority() -> None:
    """Always the first label equals the baseline, and always the second one differs from it in every query."""
    benchmark = Normal(datasets=[invented_dataset(columns=1, rows=50)])
    true_labels = [query.label for query in benchmark[0].all_queries()]
    assert true_labels.count(0) == true_labels.count(1) == 12

    p_values = []
    for label in (0, 1):
        result = benchmark(preentered_prediction=[[label] * len(true_labels)])
        p_values.append(result.details["own"].baselines["normal"].p_value_majority)

    assert p_values[0] == 1
    assert p_values[1] < 1


def test_the_interval_of_accuracy_is_over_test_rows(yes_no_dataset: Dataset, labels_of_queries: list[int]) -> None:
    """A row is one unit with the number of its correct queries, of two."""
    predictions = [0 if query % 3 else 1 for query in range(len(labels_of_queries))]
    row_count = len(labels_of_queries) // 2
    correct_queries_of_row = [0.0] * row_count
    for query, (prediction, true_label) in enumerate(zip(predictions, labels_of_queries, strict=True)):
        if prediction == true_label:
            correct_queries_of_row[query % row_count] += 1  # each of two repeats has all rows in order

    result = Normal(datasets=[yes_no_dataset])(preentered_prediction=[predictions])

    interval = result.details["own"].intervals["accuracy"]
    queries_of_row = [2.0] * row_count
    expected = ratio_part(correct_queries_of_row, queries_of_row, 0.95).interval(0.95, Statistic.method)
    assert interval == expected
    assert interval.low <= result["Averaged results"]["accuracy"] <= interval.high


@pytest.mark.parametrize("order", [("two", "five"), ("five", "two")], ids=str)
def test_baselines_of_the_mean_are_the_means_of_those_of_data_sets_with_other_numbers_of_labels(
    order: tuple[str, str],
) -> None:
    datasets = {
        "two": invented_dataset(columns=1, name="two"),
        "five": invented_dataset(columns=1, name="five", labels=tuple("abcde")),
    }

    result = Normal(datasets=[datasets[name] for name in order])(lambda prompt, label_space: 0)

    of_mean = result.means.baselines["normal"]
    of_two = result.details["two"].baselines["normal"]
    of_five = result.details["five"].baselines["normal"]
    assert of_two.uniform == 1 / 2
    assert of_five.uniform == 1 / 5
    assert of_mean.uniform == pytest.approx((1 / 2 + 1 / 5) / 2)
    assert of_mean.max_random == pytest.approx(of_mean.uniform)  # the expected accuracy of one guesser
    assert of_mean.majority == pytest.approx((of_two.majority + of_five.majority) / 2)
    assert of_mean.queries == of_two.queries + of_five.queries


@pytest.fixture
def better_than_guesses_for_queries_only() -> Result:
    """A result on ``mini`` that is correct in both queries of the first 38 test rows, and in no other one.

    There are twice as many guesses for queries as for rows, so the same accuracy is less likely by guesses for queries.
    """
    benchmark = Normal(datasets=["mini"])
    queries = benchmark.experimentor[0].all_queries()
    predictions = [query.label if query.row < 38 else (query.label + 1) % 3 for query in queries]
    result = benchmark(preentered_prediction=[predictions])
    assert isinstance(result, Result)
    return result


def test_one_guess_for_each_row_has_a_p_value_of_its_own(better_than_guesses_for_queries_only: Result) -> None:
    result = better_than_guesses_for_queries_only
    row_count = len(set(result.details["mini"].conditions[0].rows))

    baselines = result.details["mini"].baselines["normal"]

    accuracy = result["Averaged results"]["accuracy"]
    assert baselines.p_value_rows == RandomBaseline(row_count, 1 / 3).p_value(accuracy)
    assert baselines.p_value < 0.05 < baselines.p_value_rows


def test_the_larger_one_of_the_p_values_of_guessing_counts(better_than_guesses_for_queries_only: Result) -> None:
    assert "Not better than uniform guessing (p > 0.05): mini." in str(better_than_guesses_for_queries_only)


# -- prediction bias: the queries, the README's and the paper's figures, and the release's


PROBABILITY_ROWS = [[0.5, 0.3, 0.2], [0.1, 0.1, 0.8], [0.25, 0.5, 0.25], [1.0, 0.0, 0.0]]


def entropy(row: list[float]) -> float:
    """Return -sum(p log p); a probability of 0 adds nothing."""
    return -math.fsum(probability * math.log(probability) for probability in row if probability > 0)


def rows_by_turns(benchmark: Any, rows: list[list[float]] = PROBABILITY_ROWS) -> list[list[float]]:
    """Return one of four rows by turns for each query of the only data set."""
    return [rows[number % 4] for number in range(len(benchmark[0]))]


def mean_of_columns(rows: list[list[float]]) -> list[float]:
    return [math.fsum(column) / len(rows) for column in zip(*rows, strict=True)]


# -- queries


def test_contextual_bias_has_empty_queries_after_normals_demonstrations() -> None:
    """A prompt of Normal ends with the text of the query and with what the template writes after it."""
    normal = Normal(datasets=["mini"])[0]
    bias = ContextualBias(datasets=["mini"])[0]
    template = normal.card.template
    after_text = template.input_text_affixes[0] + template.label_prefix
    queries = normal.all_queries()

    assert bias.demonstration_sampler == normal.demonstration_sampler
    for query, bias_prompt in zip(queries, bias.prompt_set(), strict=True):
        (text,) = normal.test_set().texts(query.row)
        normal_prompt = str(query.prompt)
        before_text = normal_prompt.removesuffix(text + after_text)
        assert before_text != normal_prompt
        assert bias_prompt == before_text + after_text


@pytest.mark.parametrize("length", [0, 1, 7])
def test_domain_bias_has_queries_of_words_of_the_demonstrations(length: int) -> None:
    """Without demonstrations (k = 0), a prompt is the query between the parts of the template."""
    bias = DomainBias(k=0, datasets=["mini"], domain_query_length=length)[0]
    template, demonstrations = bias.card.template, bias.demonstration_set()
    before_query = template.input_text_prefixes[0]
    after_query = template.input_text_affixes[0] + template.label_prefix
    known_words = {""}  # a query of length 0 is split into one empty word
    for position in range(len(demonstrations)):
        (text,) = demonstrations.texts(position)
        known_words.update(text.split(" "))

    for prompt in bias.prompt_set():
        words = prompt.removeprefix(before_query).removesuffix(after_query).split(" ")
        assert len(words) == max(length, 1)
        assert set(words) <= known_words


# -- the figures


@pytest.mark.parametrize(("make", "figure"), [(ContextualBias, "contextual_bias"), (DomainBias, "domain_bias")])
def test_the_readmes_and_the_papers_figures(make: Any, figure: str) -> None:
    """The release means the entropy of the mean distribution, and its paper the mean entropy (defect 15)."""
    benchmark = make(datasets=["mini"])
    rows = rows_by_turns(benchmark)

    scores = benchmark(preentered_prediction=[rows])["Divided results"]["mini"]

    mean_entropy = math.fsum(entropy(row) for row in rows) / len(rows)
    assert list(scores) == ["entropy", "distribution", figure]
    assert scores["distribution"] == pytest.approx(mean_of_columns(rows), rel=1e-12)
    assert scores["entropy"] == pytest.approx(entropy(mean_of_columns(rows)), rel=1e-12)
    assert scores[figure] == pytest.approx(-mean_entropy, rel=1e-12)


def test_the_divergence_from_the_label_frequencies() -> None:
    """The divergence is sum(p log(p / q)), of the mean probability p and the frequency q of each label."""
    benchmark = PosteriorBias(datasets=["mini"])
    rows = rows_by_turns(benchmark)

    scores = benchmark(preentered_prediction=[rows])["Divided results"]["mini"]

    true_labels = [query.label for query in benchmark[0].all_queries()]
    divergence = 0.0
    for label, mean_probability in enumerate(mean_of_columns(rows)):
        frequency = true_labels.count(label) / len(true_labels)
        divergence += mean_probability * math.log(mean_probability / frequency)
    assert list(scores) == ["DL div.", "distribution", "empirical_bias"]
    assert scores["DL div."] == pytest.approx(divergence, rel=1e-12)
    assert scores["empirical_bias"] == scores["DL div."]


@pytest.fixture
def rows_of_logits() -> list[list[float]]:
    """Logits whose softmax is in ``PROBABILITY_ROWS``; 1e-300 in the place of 0, whose logarithm is no number."""
    return [[math.log(max(p, 1e-300)) + 5 for p in row] for row in PROBABILITY_ROWS]


def test_logits_are_normalised_before_they_are_averaged(rows_of_logits: list[list[float]]) -> None:
    benchmark = ContextualBias(datasets=["mini"])

    of_logits = benchmark(preentered_prediction=[rows_by_turns(benchmark, rows_of_logits)])
    of_probabilities = benchmark(preentered_prediction=[rows_by_turns(benchmark, PROBABILITY_ROWS)])

    assert of_logits.averaged["entropy"] == pytest.approx(of_probabilities.averaged["entropy"], rel=1e-9)


def test_the_metrics_of_the_release_average_raw_outputs(rows_of_logits: list[list[float]]) -> None:
    """Defect 4 of the release, kept on request."""
    benchmark = ContextualBias(datasets=["mini"], metrics="0.1.1")
    logits = rows_by_turns(benchmark, rows_of_logits)

    released = benchmark(preentered_prediction=[logits])

    assert released["Divided results"]["mini"]["distribution"] == pytest.approx(mean_of_columns(logits))
    assert released["Averaged results"]["distribution"] == 0.0


def test_a_model_that_is_certain_has_the_entropy_zero() -> None:
    """Entropy crashes on zeros in the release (defect 3)."""
    scores = ContextualBias(datasets=["mini"])(certain)["Averaged results"]

    assert scores["entropy"] == 0.0
    assert scores["contextual_bias"] == 0.0


def test_the_divergence_of_a_certain_model_is_minus_the_logarithm_of_the_share_of_its_label() -> None:
    """1 log (1 / q) for the label that it gives, and 0 for the others; it crashes in the release (defect 3)."""
    benchmark = PosteriorBias(datasets=["mini"])
    true_labels = [query.label for query in benchmark[0].all_queries()]
    share = true_labels.count(0) / len(true_labels)

    result = benchmark(certain)

    assert result.averaged["empirical_bias"] == pytest.approx(-math.log(share))


def test_an_infinite_divergence_is_undefined() -> None:
    """All rows have the label a, and the model gives b the probability 0.5: 0.5 log (0.5 / 0) is infinite."""
    rows = [(f"text {row}", "a") for row in range(40)]
    one_sided = Dataset.from_rows(rows, name="one-sided", label_space=["a", "b"])

    result = PosteriorBias(datasets=[one_sided, "mini"])(
        lambda prompt, label_space: [1 / len(label_space)] * len(label_space)
    )

    assert result["Divided results"]["one-sided"]["distribution"] == [0.5, 0.5]
    assert result["Divided results"]["one-sided"]["DL div."] is None
    assert result["Averaged results"]["DL div."] is None
    assert "infinite" in result.details["one-sided"].missing["empirical_bias"]
    assert "infinite" in str(result)


def test_bare_labels_have_a_distribution_and_no_contextual_bias() -> None:
    """The labels 0 and 1 by turns: half of the predictions are the one, half the other."""
    benchmark = ContextualBias(datasets=["mini"])
    labels = [number % 2 for number in range(len(benchmark[0]))]

    result = benchmark(preentered_prediction=[labels])

    scores = result["Divided results"]["mini"]
    assert scores["distribution"] == [0.5, 0.5, 0.0]
    assert scores["entropy"] == pytest.approx(math.log(2))
    assert scores["contextual_bias"] is None
    assert "bare labels" in result.details["mini"].missing["contextual_bias"]


def test_ambiguous_numbers_have_no_figure_of_bias() -> None:
    result = ContextualBias(datasets=["mini"])(lambda prompt, label_space: [0.1, 0.2, 0.3])

    assert result["Divided results"]["mini"] == {"entropy": None, "distribution": None, "contextual_bias": None}
    assert "sums to 0.6" in result.details["mini"].missing["entropy"]


def test_ambiguous_numbers_that_are_declared_have_figures_of_bias() -> None:
    benchmark = ContextualBias(datasets=["mini"], outputs="probabilities")

    result = benchmark(lambda prompt, label_space: [0.1, 0.2, 0.3])

    assert result["Averaged results"]["entropy"] is not None


@pytest.mark.parametrize(
    "row", [[1 / 3] * 3, [0.1, 0.2, 0.7], [1.0, 0.0, 0.0], [0.2, 0.6, 0.2], [1 / 3 + 1e-16, 1 / 3, 1 / 3]], ids=str
)
@pytest.mark.parametrize(
    ("figure", "least", "most"),
    [("entropy", 0.0, math.log(3)), ("contextual_bias", -math.log(3), 0.0)],  # of three labels
    ids=["entropy", "contextual bias"],
)
def test_intervals_of_entropies_hold_the_estimate_and_stay_in_range(
    figure: str, least: float, most: float, row: list[float]
) -> None:
    """Rounding once put limits past the estimate, past the logarithm of the number of labels, or at minus zero."""
    result = ContextualBias(datasets=["mini"])(lambda prompt, label_space: row)

    estimate = result["Divided results"]["mini"][figure]
    for interval in (result.details["mini"].intervals[figure], result.means.intervals[figure]):
        assert least <= interval.low <= estimate <= interval.high <= most
        is_minus_zero = interval.high == 0.0 and math.copysign(1.0, interval.high) < 0
        assert not is_minus_zero


# -- each score that is not None has an interval or a reason


def constant(labels_of_queries: Sequence[int], rows: Sequence[Sequence[float]]) -> float:
    return 0.125


def first_label(prompt: str, label_space: list[str]) -> int:
    return 0


def any_scores(prompt: str, label_space: list[str]) -> list[float]:
    draw = random.Random(str(prompt))
    values = [0.1 + draw.random() for _ in label_space]
    return [value / sum(values) for value in values]


def certain(prompt: str, label_space: list[str]) -> list[float]:
    return [1.0, *[0.0] * (len(label_space) - 1)]


def every_seventh_fails() -> Callable[..., Any]:
    """Return a function that has no prediction for every seventh call."""
    numbers = itertools.count()
    return lambda prompt, label_space: any_scores(prompt, label_space) if next(numbers) % 7 else None


def scores_without_interval_and_reason(result: Result) -> Iterator[str]:
    """Yield each score of a data set, or mean, that has neither an interval nor a reason why it has none."""
    for dataset, details in result.details.items():
        explained = {key.removeprefix("interval of ") for key in details.missing if key.startswith("interval of ")}
        for name, value in plain_scores(result.divided[dataset]):
            if value is None or name in details.intervals or explained & {name, "each score"}:
                continue
            yield f"{dataset}: {name}"
    for name, value in result.averaged.items():
        if value is not None and name not in result.means.intervals and name not in result.means.missing:
            yield f"mean: {name}"


def plain_scores(scores: Mapping[str, Any]) -> Iterator[tuple[str, float | None]]:
    """Yield the scores that are numbers; of a sensitivity, which is a list, the slope."""
    for name, value in scores.items():
        if name == "sensitivity":
            for metric, slope_and_more in value.items():
                slope = slope_and_more[0] if isinstance(slope_and_more, (list, tuple)) else slope_and_more
                yield f"sensitivity.{metric}", slope
        elif isinstance(value, float):
            yield name, value


ONE_METRIC_OF_EACH_KIND = {
    "accuracy": constant,
    "mine": constant,
    "macro_F1": metric_set("standard").metrics[2].function,
}
"""A function under the name of a standard metric, a metric of the user's own, and a standard one by its function."""


@pytest.mark.parametrize(
    ("name", "metrics"),
    [
        *((name, "standard") for name in ("Normal", "GLER", "ContextualBias", "PosteriorBias", "TemplateSensitivity")),
        *((name, ONE_METRIC_OF_EACH_KIND) for name in ("Normal", "GLER")),
    ],
)
@pytest.mark.parametrize("make_model", [lambda: first_label, lambda: any_scores, lambda: certain, every_seventh_fails])
@pytest.mark.parametrize(("dataset_count", "limit"), [(1, 1), (2, 2), (2, 9)])
def test_each_score_has_an_interval_or_a_reason(
    name: str, metrics: Any, make_model: Any, dataset_count: int, limit: int, two_datasets: list[Dataset]
) -> None:
    benchmark = getattr(StaICC, name)(datasets=two_datasets[:dataset_count], limit=limit, metrics=metrics)

    result = benchmark(make_model(), on_error="collect")

    assert list(scores_without_interval_and_reason(result)) == []


@pytest.fixture
def two_datasets() -> list[Dataset]:
    """Data sets with two and with three labels."""
    return [invented_dataset(columns=1), invented_dataset(columns=1, name="three", labels=("a", "b", "c"))]


@pytest.mark.parametrize(
    ("kind", "score", "ranges"),
    [
        (Normal, ECE, [(0.0, 1.0), (0.0, 1.0)]),
        (ContextualBias, "entropy", [(0.0, math.log(2)), (0.0, math.log(3))]),
    ],
    ids=["calibration error", "entropy"],
)
def test_intervals_of_means_are_those_of_the_data_sets(
    kind: Any, score: str, ranges: list[tuple[float, float]], two_datasets: list[Dataset]
) -> None:
    result = kind(datasets=two_datasets)(any_scores)

    values = [scores[score] for scores in result.divided.values()]
    intervals = [details.intervals[score] for details in result.details.values()]
    assert result.means.intervals[score] == mean_interval(values, intervals, ranges)


def random_label(prompt: str, label_space: list[str]) -> int:
    """Predict one of two labels at random."""
    return random.Random(str(prompt)).randrange(2)


def other_label(prompt: str, label_space: list[str]) -> int:
    """Predict the label that ``random_label`` does not, so that it is right where the other function is wrong."""
    return 1 - random_label(prompt, label_space)


@pytest.mark.parametrize(
    ("kind", "metrics", "score"),
    [(GLER, "standard", "accuracy"), (Normal, "standard+matthews", "matthews")],
    ids=["slope of the accuracy", "Matthews correlation"],
)
def test_the_mean_score_of_opposite_predictions_has_the_opposite_interval(kind: Any, metrics: str, score: str) -> None:
    """Both scores have a range from -x to x, and the sign of each changes with that of the predictions."""
    datasets = [invented_dataset(columns=1, name=name) for name in ("first", "second", "third")]

    result = kind(datasets=datasets, metrics=metrics)(random_label)
    opposite_result = kind(datasets=datasets, metrics=metrics)(other_label)

    interval = result.means.intervals[score]
    opposite_interval = opposite_result.means.intervals[score]
    assert opposite_result.averaged[score] == pytest.approx(-result.averaged[score])
    assert (opposite_interval.low, opposite_interval.high) == pytest.approx((-interval.high, -interval.low))


def test_a_mean_has_an_interval_where_each_data_set_has_too_few_rows_for_one(two_datasets: list[Dataset]) -> None:
    result = Normal(datasets=two_datasets, limit=8)(any_scores)

    for name, details in result.details.items():
        assert "macro_F1" not in details.intervals, name
    assert "macro_F1" in result.means.intervals


@pytest.mark.pack
def test_posterior_bias_of_a_label_without_rows_and_without_probability() -> None:
    """None of the first 20 test rows of TREC has one of its six labels, whose term 0 log (0 / 0) counts as 0."""
    result = PosteriorBias(datasets=["TREC"], limit=20)(lambda prompt, label_space: 1)

    assert result["Averaged results"]["DL div."] == pytest.approx(1.897, abs=1e-3)
    assert "1 of them none" in result.details["TREC"].missing["interval of DL div."]
    assert "1 of them none" in result.means.missing["DL div."]
    assert "interval of DL div." in str(result)


def test_slopes_have_intervals_if_a_row_fails_in_one_condition() -> None:
    """The row has two queries in the condition; the intervals move by the little that they weigh."""
    benchmark = GLER(datasets=[invented_dataset(columns=1)])
    condition = benchmark[0].conditions()[2]
    failing_row = condition.queries[0].row
    failing_prompts = {query.prompt for query in condition.queries if query.row == failing_row}

    def function(prompt: str, label_space: list[str]) -> Any:
        return None if prompt in failing_prompts else any_scores(prompt, label_space)

    expected = benchmark(any_scores).details["own"].intervals
    result = benchmark(function, on_error="collect")

    assert result.details["own"].failed == 2
    found = result.details["own"].intervals
    assert set(found) == set(expected)
    slopes = result["Divided results"]["own"]["sensitivity"]
    for key, interval in found.items():
        slope, *_ = slopes[key.removeprefix("sensitivity.")]
        assert interval.low <= slope <= interval.high, key
        limits = (expected[key].low, expected[key].high)
        assert (interval.low, interval.high) == pytest.approx(limits, abs=0.2), key


def test_the_error_about_two_kinds_of_predictions_passes_over_failed_queries() -> None:
    failed, label, row = None, 0, [0.1, 0.2, 0.7]
    predictions = iter([failed, label, row, label])
    benchmark = Normal(datasets=["mini"], limit=2)

    with pytest.raises(OutputError, match="the prediction of query 1 is a label, that of query 2 is a row of numbers"):
        benchmark(lambda prompt, label_space: next(predictions), on_error="collect", chunk_size=1)
