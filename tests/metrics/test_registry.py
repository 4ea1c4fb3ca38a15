"""Named sets of metrics: values with reasons, bare labels, metrics of the user."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest

import StaICC
from StaICC.benchmarks.evaluation import interval_of_mean
from StaICC.benchmarks.findings import Contradicted, Recomputed, status_of
from StaICC.benchmarks.verify import verify
from StaICC.comparing.comparison import compare
from StaICC.errors import ArgumentError, UndefinedMetricError
from StaICC.metrics import classification, diagnosis, intervals, paired_tests, scores
from StaICC.metrics import metric_set as metric_sets
from StaICC.metrics.intervals import Interval
from StaICC.metrics.metric_set import Metric, Score, metric_set
from StaICC.metrics.scores import SCORES, ScoreRecord, score_record
from StaICC.metrics.statistics import Contributions, Mean, MeanOf, Sample, Statistic, ValueOnly

PUBLISHED = ["accuracy", "averaged_truelabel_likelihood", "macro_F1", "expected_calibration_error_1"]
"""The metrics of the paper and of StaICC 0.1.1."""
METRICS_OF_LIBRARY = [key for key, score in SCORES.items() if score.metric is not None]
TRUTH = [0, 1, 1]
PROBABILITIES = [[0.75, 0.25], [0.25, 0.75], [0.625, 0.375]]


@pytest.mark.parametrize("name", ["standard", "0.1.1"])
def test_the_sets_have_the_published_metrics_and_no_others(name):
    found = metric_set(name)

    assert found.name == name
    assert [metric.name for metric in found.metrics] == PUBLISHED
    assert metric_set(found) is found


def test_the_metrics_of_the_standard_set_are_between_0_and_1():
    assert {metric.range for metric in metric_set("standard").metrics} == {(0.0, 1.0)}


def test_the_metrics_of_the_released_set_have_no_range():
    assert {metric.range for metric in metric_set("0.1.1").metrics} == {None}


def test_two_metrics_of_one_name_in_a_set_are_refused():
    found = metric_set("standard")

    with pytest.raises(ArgumentError, match="two metrics of one name"):
        replace(found, metrics=found.metrics * 2)


@pytest.mark.parametrize("name", ["standard", "0.1.1"])
def test_a_metric_can_be_deleted_from_the_table_of_a_benchmark(name):
    table = StaICC.Normal(datasets=["mini"], metrics=name).metrics

    del table["macro_F1"]

    assert list(table) == ["accuracy", "averaged_truelabel_likelihood", "expected_calibration_error_1"]
    assert list(dict(table)) == list(table)


@pytest.mark.parametrize("name", METRICS_OF_LIBRARY)
def test_every_metric_of_the_library_is_found_by_its_name(name):
    (metric,) = metric_set(name).metrics

    assert metric.of_library
    assert metric.function is SCORES[name].metric
    assert metric.higher_is_better is SCORES[name].higher_is_better
    assert metric.statistic is SCORES[name].statistic


@pytest.mark.parametrize("name", METRICS_OF_LIBRARY)
def test_every_metric_of_the_library_can_be_added_to_the_standard_set(name):
    names = [metric.name for metric in metric_set(f"standard+{name}").metrics]

    assert name in names


def test_ambiguous_predictions_have_accuracy_but_no_likelihood():
    """The first row may be logits, or weights that are to be divided by their sum, 0.4."""
    true_labels = [0, 1, 1]
    ambiguous_rows = [[0.3, 0.1], [0.1, 0.2], [0.75, 0.25]]

    scores = metric_set().score(true_labels, ambiguous_rows)

    assert scores["accuracy"].value == 2 / 3
    for name in ("averaged_truelabel_likelihood", "expected_calibration_error_1"):
        assert scores[name].value is None
        assert "row 0 sums to 0.4" in scores[name].reason


@pytest.mark.parametrize("name", ["standard", "0.1.1"])
@pytest.mark.parametrize("hard", [False, True])
def test_without_predictions_each_score_is_undefined(name, hard):
    scores = metric_set(name).score([], [], hard=hard)

    assert list(scores) == PUBLISHED
    for score in scores.values():
        assert score.value is None
    assert "a metric of nothing is undefined" in scores["accuracy"].reason


def test_a_statistic_says_which_of_its_methods_is_missing():
    """A maintainer who adds a score without all methods learns which one, and what it is for."""

    class Recall(Statistic):
        pass

    sample = Sample([0, 1], [0, 1], 2, 2)
    with pytest.raises(NotImplementedError, match=r"Recall does not define value\(\), which computes the value"):
        Recall().value(sample, [0, 1])
    with pytest.raises(NotImplementedError, match=r"Recall does not define part\(\), .* the confidence interval"):
        Recall().interval(sample, [0, 1], 0.95)
    with pytest.raises(NotImplementedError, match=r"Recall does not define of_run\(\), .* the paired test"):
        Recall().of_run(sample, [0, 1])


# --- metrics of the user ---------------------------------------------------------------------------------------------


def test_a_value_at_the_end_of_the_range_of_its_metric_is_a_score():
    always_2 = Metric("brier", lambda truth, rows: 2, range=(0.0, 2.0))

    scores = metric_set({"brier": always_2}).score(TRUTH, PROBABILITIES)

    assert scores["brier"] == Score(2.0)


@pytest.mark.parametrize("value", [-0.01, 2.5])
def test_a_value_outside_the_range_of_its_metric_ends_the_run(value):
    metric = Metric("brier", lambda truth, rows: value, range=(0.0, 2.0))

    with pytest.raises(ArgumentError, match=rf"'brier' returned {value}, .* 0 to 2"):
        metric_set({"brier": metric}).score(TRUTH, PROBABILITIES)


def test_hard_predictions_must_have_one_label_in_each_row():
    one_label = [0.0, 1.0]
    two_labels = [1.0, 1.0]  # it would count as the first of its labels

    with pytest.raises(ArgumentError, match="row 1 of the predictions"):
        metric_set("standard").score([0, 1], [one_label, two_labels], hard=True)


def test_every_score_of_a_benchmark_has_a_record():
    suite = StaICC.Suite(datasets=["mini"], limit=3)(lambda prompt, label_space: [0.5, 0.3, 0.2])

    for result in suite.results():
        for key in result.averaged.keys() - {"distribution"}:  # a list, which is no score
            assert score_record(result.benchmark, key).statistic is not None, f"{result.benchmark}, {key}"


def test_a_function_under_the_name_of_a_score_is_not_compared_as_this_score():
    benchmark = StaICC.Normal(datasets=["mini"], limit=3, metrics={"accuracy": lambda truth, rows: 0.5})
    first = benchmark(lambda prompt, label_space: 0)
    second = benchmark(lambda prompt, label_space: 1)

    with pytest.raises(ArgumentError, match="accuracy cannot be recomputed"):
        compare(first, second, "accuracy")


def test_a_function_under_the_name_of_a_score_has_no_direction():
    benchmark = StaICC.Normal(datasets=["mini"], limit=3, metrics={"accuracy": lambda truth, rows: 0.5})
    result = benchmark(lambda prompt, label_space: 0)

    assert score_record("Normal", "accuracy", result.higher_is_better).higher_is_better is None


EVEN = [[0.5, 0.5]] * 4
CERTAIN_OF_ONE_LABEL = [[1.0, 0.0]] * 4
EXTREME_TRUTH = [0, 0, 1, 1]
RIGHT = {
    "always right, two labels": (EXTREME_TRUTH, [[1.0, 0.0]] * 2 + [[0.0, 1.0]] * 2),
    "always right, three labels": ([0, 1, 2], [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]),
    "confident where right": ([0, 0, 0, 0], [[1.0, 0.0], [0.25, 0.75]] * 2),
}
"""True labels and probabilities of models that are as good as possible in some respect."""
WRONG = {
    "always wrong, two labels": (EXTREME_TRUTH, [[0.0, 1.0]] * 2 + [[1.0, 0.0]] * 2),
    "always wrong, three labels": ([0, 1, 2], [[0.0, 0.25, 0.75], [0.75, 0.0, 0.25], [0.75, 0.25, 0.0]]),
    "confident where wrong": ([0, 0, 0, 0], [[0.75, 0.25], [0.0, 1.0]] * 2),
    "undecided": (EXTREME_TRUTH, EVEN),
}
"""True labels and probabilities of models that are as bad as possible in some respect."""
BIAS_FUNCTIONS = {
    "contextual_bias": diagnosis.negated_mean_entropy,
    "domain_bias": diagnosis.negated_mean_entropy,
    "entropy": diagnosis.entropy_of_mean,
    "DL div.": lambda rows: diagnosis.empirical_bias(rows, EXTREME_TRUTH),
    "empirical_bias": lambda rows: diagnosis.empirical_bias(rows, EXTREME_TRUTH),
}

ONE_QUERY = Sample([0], [0], 1, 2)
AGREEING = [[0, 0, 0, 0]]
"""The predicted labels of one query in four conditions."""
DISAGREEING = [[0, 0, 1, 1]]


def defined_values(metric, models):
    """Return the values of a metric for some models; without those for which it is undefined."""
    values = []
    for truth, rows in models.values():
        try:
            values.append(metric(truth, rows))
        except UndefinedMetricError:
            continue
    return values


class ExtremeValues(NamedTuple):
    """The values of a score for models that are as good, and as bad as possible."""

    better: list[float]
    worse: list[float]


def extreme_values_of(key: str) -> ExtremeValues:
    """Return the values of a score of the library, by the function that computes it."""
    metric = SCORES[key].metric
    if metric is not None:
        return ExtremeValues(defined_values(metric, RIGHT), defined_values(metric, WRONG))
    statistic = SCORES[key].statistic
    if statistic.compares_conditions:
        agreeing = statistic.value(ONE_QUERY, AGREEING)
        return ExtremeValues([agreeing], [statistic.value(ONE_QUERY, DISAGREEING)])
    assert key in BIAS_FUNCTIONS, f"{key!r} has no metric: add its function to BIAS_FUNCTIONS"
    bias = BIAS_FUNCTIONS[key]
    return ExtremeValues([bias(EVEN)], [bias(CERTAIN_OF_ONE_LABEL)])


@pytest.mark.parametrize("key", SCORES)
def test_good_models_have_the_better_values_of_a_score(key: str) -> None:
    better, worse = extreme_values_of(key)
    all_values = [*better, *worse]

    if SCORES[key].higher_is_better is True:
        assert max(better) == max(all_values)
        assert max(better) > min(worse)
    else:
        assert SCORES[key].higher_is_better is False
        assert min(better) == min(all_values)
        assert min(better) < max(worse)


@pytest.mark.parametrize("key", SCORES)
def test_the_range_of_a_score_ends_at_the_values_of_extreme_models(key: str) -> None:
    """But for a score without a largest value. The models have two labels; the range of a consistency depends on the
    number of conditions."""
    better, worse = extreme_values_of(key)
    all_values = [*better, *worse]

    statistic = SCORES[key].statistic
    if statistic.compares_conditions:
        low, high = statistic.possible(ONE_QUERY, DISAGREEING)
    else:
        low, high = statistic.range(2)

    assert low <= min(all_values)
    assert max(all_values) <= high
    if high < math.inf:
        assert [low, high] == pytest.approx([min(all_values), max(all_values)])


@pytest.mark.parametrize("name", METRICS_OF_LIBRARY)
def test_a_metric_of_nothing_is_undefined(name: str) -> None:
    with pytest.raises(UndefinedMetricError, match="nothing"):
        SCORES[name].metric([], [])


@pytest.mark.parametrize("name", METRICS_OF_LIBRARY)
def test_the_statistic_of_every_metric_has_the_value_of_its_function(name: str) -> None:
    statistic = SCORES[name].statistic
    rows = [[0.75, 0.25], [0.25, 0.75]] * 6
    truth = [0, 0, 1, 1] * 3
    predictions = rows if statistic.reads == "probabilities" else classification.predicted_labels(rows)
    sample = Sample(truth, range(12), 12, 2)

    value_of_function = SCORES[name].metric(truth, rows)

    assert statistic.of_run(sample, predictions).value == pytest.approx(value_of_function)
    _, highest = statistic.range(2)
    has_interval = math.isfinite(highest) and not isinstance(statistic, ValueOnly)
    if has_interval:
        assert statistic.part(sample, predictions, 0.95).value == pytest.approx(value_of_function)


# --- what is missing is said where a metric is defined


class HalfBrier(Mean):
    reads = "probabilities"
    of_classification = True

    def scores(self, sample, predictions):
        return [brier(label, row) / 2 for label, row in zip(sample.truth, predictions, strict=True)]

    def part(self, sample, predictions, level):
        return intervals.ratio_part(sample.sums(self.scores(sample, predictions)), sample.sizes, level, continuous=True)


class WithoutPart(HalfBrier):
    part = Statistic.part


class WithoutPairedTest(HalfBrier):
    of_run = Statistic.of_run


class NotOfClassification(HalfBrier):
    of_classification = False


class WithoutValue(HalfBrier):
    value = Statistic.value


def half_brier(ground_truth, prediction):
    return sum(map(brier, ground_truth, prediction)) / len(prediction) / 2


@pytest.mark.parametrize(
    ("statistic", "missing"),
    [
        (WithoutPart(), r"the score 'half_brier': WithoutPart needs part\(\), for confidence intervals"),
        (WithoutPairedTest(), r"WithoutPairedTest needs of_run\(\), for paired tests"),
        (NotOfClassification(), "needs of_classification = True"),
        (HalfBrier(0.0, math.inf), r"needs withheld\(\), for the reason why a score without a largest value"),
        (Statistic(), r"needs of_run\(\), for paired tests; needs part\(\)"),
    ],
)
def test_the_record_of_a_metric_says_what_its_statistic_lacks(statistic: Statistic, missing: str) -> None:
    with pytest.raises(TypeError, match=missing):
        ScoreRecord("half_brier", "Brier score, halved", False, statistic, metric=half_brier)


def test_the_record_of_a_score_of_one_benchmark_needs_a_value() -> None:
    with pytest.raises(TypeError, match=r"WithoutValue needs value\(\), because its record has no metric"):
        ScoreRecord("half_brier", "Brier score, halved", False, WithoutValue())


@pytest.fixture
def metrics_with_half_brier(monkeypatch: pytest.MonkeyPatch) -> metric_sets.MetricSet:
    """The standard metrics and "half_brier", of which the library has nothing but a record."""
    record = ScoreRecord("half_brier", "Brier score, halved", False, HalfBrier(), metric=half_brier)
    monkeypatch.setitem(scores.SCORES, "half_brier", record)
    monkeypatch.setitem(scores.STATISTICS, "half_brier", record.statistic)
    monkeypatch.setattr(metric_sets, "_BUILT_IN", metric_sets._built_in_metrics())
    return metric_set("standard").adding(metric_sets._BUILT_IN[-1])


def always_unsure(prompt: str, label_space: list[str]) -> list[float]:
    return [0.4, 0.3, 0.3]


@pytest.mark.parametrize(
    ("benchmark", "name_of_interval"),
    [(StaICC.Normal, "half_brier"), (StaICC.GLER, "sensitivity.half_brier")],
    ids=["value", "slope"],
)
def test_a_metric_of_the_library_has_a_column_and_an_interval_by_its_record(
    benchmark: Any, name_of_interval: str, metrics_with_half_brier: metric_sets.MetricSet
) -> None:
    result = benchmark(datasets=["mini"], limit=20, metrics=metrics_with_half_brier)(noisy)

    interval = result.details["mini"].intervals[name_of_interval]
    assert interval.low < result.averaged["half_brier"] < interval.high
    assert "half_brier" in str(result)


@pytest.mark.parametrize(
    ("benchmark", "higher_is_better"), [(StaICC.Normal, False), (StaICC.GLER, True)], ids=["value", "slope"]
)
def test_a_metric_of_the_library_is_compared_by_its_record(
    benchmark: Any, higher_is_better: bool, metrics_with_half_brier: metric_sets.MetricSet
) -> None:
    """A low error is good. A slope of GLER, over the share of correct labels, is good if the error hardly falls."""
    prepared = benchmark(datasets=["mini"], limit=20, metrics=metrics_with_half_brier)
    first, second = prepared(noisy), prepared(always_unsure)

    comparison = compare(first, second, "half_brier")

    values_of_tables = (first.averaged["half_brier"], second.averaged["half_brier"])
    assert comparison.overall.values == pytest.approx(values_of_tables)
    assert comparison.higher_is_better is higher_is_better


class LowHalfBrier(HalfBrier):
    """Half of the Brier score minus 1, a number from -1 to 0."""

    def __init__(self):
        super().__init__(-1.0, 0.0)

    def scores(self, sample, predictions):
        return [score - 1 for score in super().scores(sample, predictions)]

    def part(self, sample, predictions, level):
        of_half_brier = HalfBrier().part(sample, predictions, level)
        return replace(of_half_brier, value=of_half_brier.value - 1)


def test_a_slope_has_the_same_interval_wherever_the_range_of_its_metric_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    """A metric from 0 to 1, and the same metric minus 1."""
    from_zero = ScoreRecord("from_zero", "from zero", False, HalfBrier(), metric=half_brier)
    from_minus_one = ScoreRecord(
        "from_minus_one", "from -1", False, LowHalfBrier(), metric=lambda truth, rows: half_brier(truth, rows) - 1
    )
    metrics = metric_set("standard")
    for record in (from_zero, from_minus_one):
        monkeypatch.setitem(scores.SCORES, record.key, record)
        monkeypatch.setitem(scores.STATISTICS, record.key, record.statistic)
        monkeypatch.setattr(metric_sets, "_BUILT_IN", metric_sets._built_in_metrics())
        metrics = metrics.adding(metric_sets._BUILT_IN[-1])

    result = StaICC.GLER(datasets=["mini"], limit=20, metrics=metrics)(noisy)

    intervals_of_slopes = result.details["mini"].intervals
    of_from_zero = intervals_of_slopes["sensitivity.from_zero"]
    of_from_minus_one = intervals_of_slopes["sensitivity.from_minus_one"]
    assert of_from_zero.low == pytest.approx(of_from_minus_one.low)
    assert of_from_zero.high == pytest.approx(of_from_minus_one.high)


class MatthewsInterval(NamedTuple):
    value: float
    interval: Interval


def matthews_interval(truth: list[int], predictions: list[int]) -> MatthewsInterval:
    """Return the Matthews correlation of 40 rows with two labels, and its interval."""
    sample = Sample(truth, range(40), 40, 2)
    statistic = scores.STATISTICS["matthews"]
    interval = statistic.interval(sample, predictions, 0.95)
    assert isinstance(interval, Interval)
    return MatthewsInterval(statistic.of_run(sample, predictions).value, interval)


def test_the_mean_of_negative_matthews_correlations_has_the_interval_of_opposite_predictions() -> None:
    """The range begins at -1. A mean over data sets whose range began at 0 would have another interval."""
    truth = [0] * 20 + [1] * 20
    two_wrong = [1] * 2 + [0] * 18 + [1] * 20
    seven_wrong = [1] * 7 + [0] * 13 + [1] * 20
    runs: Any = dict.fromkeys(["a", "b"], SimpleNamespace(ranges={"matthews": (-1.0, 1.0)}))

    def interval_of_mean_of(*predictions_of_datasets: list[int]) -> Interval:
        found = [matthews_interval(truth, predictions) for predictions in predictions_of_datasets]
        values = [of_dataset.value for of_dataset in found]
        return interval_of_mean("matthews", values, [of_dataset.interval for of_dataset in found], runs)

    positive = interval_of_mean_of(two_wrong, seven_wrong)
    negative = interval_of_mean_of([1 - label for label in two_wrong], [1 - label for label in seven_wrong])

    assert 0.0 < positive.low < positive.high < 1.0
    assert (negative.low, negative.high) == pytest.approx((-positive.high, -positive.low))


def test_a_mean_over_data_sets_has_the_range_that_its_score_states() -> None:
    """The limits of the mean of two scores are minus those of the opposite scores.

    It has the interval of shares of the range. If the range began at 0, these scores would be no shares.
    """
    values = [-0.95, -0.3]
    intervals_of_datasets = [Interval(-0.99, -0.7, 0.95, "any"), Interval(-0.5, 0.1, 0.95, "any")]
    opposite_values = [0.95, 0.3]
    opposite_intervals = [Interval(0.7, 0.99, 0.95, "any"), Interval(-0.1, 0.5, 0.95, "any")]
    runs: Any = dict.fromkeys(["a", "b"], SimpleNamespace(ranges={"own": (-1.0, 1.0)}))

    mean = interval_of_mean("own", values, intervals_of_datasets, runs)
    opposite_mean = interval_of_mean("own", opposite_values, opposite_intervals, runs)

    assert (mean.low, mean.high) == pytest.approx((-opposite_mean.high, -opposite_mean.low))


def test_only_the_range_of_entropies_depends_on_the_number_of_labels() -> None:
    depends = {key for key, statistic in scores.STATISTICS.items() if statistic.range(2) != statistic.range(3)}

    assert depends == {"contextual_bias", "domain_bias", "entropy"}


def brier(label: int, row: list[float]) -> float:
    return sum((value - (place == label)) ** 2 for place, value in enumerate(row))


BRIER = Metric("brier", MeanOf(brier, 0.0, 2.0), requires_probabilities=True, higher_is_better=False)


def noisy(prompt: str, label_space: list[str]) -> list[float]:
    numbers = [sum(map(ord, prompt)) * (place + 3) % 17 + 1 for place in range(len(label_space))]
    return [number / sum(numbers) for number in numbers]


@pytest.fixture(scope="module")
def brier_runs() -> list[StaICC.Result]:
    """Two runs with a mean of a score of each query as a metric of the user's own."""
    benchmark = StaICC.Normal(datasets=["mini"], limit=20, metrics={"brier": BRIER})
    return [benchmark(noisy), benchmark(always_unsure)]


def test_a_mean_of_query_scores_has_an_interval_around_its_value(brier_runs: list[StaICC.Result]) -> None:
    for result in brier_runs:
        interval = result.details["mini"].intervals["brier"]

        assert 0.0 <= interval.low < result.averaged["brier"] < interval.high <= 2.0
        assert result.means.intervals["brier"].low == pytest.approx(interval.low)
        reasons_for_missing_values = [key for key in result.details["mini"].missing if "brier" in key]
        assert reasons_for_missing_values == []


def brier_contributions(run: StaICC.Result) -> Contributions:
    """Return what each of 20 test rows contributes to the Brier score of a run, computed from its records."""
    (record,) = run.details["mini"].conditions
    brier_of_queries = []
    for label, row in zip(record.truth, record.probabilities(3), strict=True):
        assert row is not None
        brier_of_queries.append(brier(label, row))
    return Mean(0.0, 2.0).of_run(Sample(record.truth, record.rows, 20, 3), brier_of_queries)


def test_a_mean_of_query_scores_is_tested_as_the_same_scores_by_hand(brier_runs: list[StaICC.Result]) -> None:
    first, second = brier_runs

    compared = compare(first, second, "brier")

    expected = paired_tests.paired_difference([(1.0, brier_contributions(first))], [(1.0, brier_contributions(second))])
    assert compared.overall.values == (first.averaged["brier"], second.averaged["brier"])
    assert compared.overall.difference == pytest.approx(expected.difference)
    assert compared.overall.interval == paired_tests.difference_interval(expected)
    assert compared.overall.interval.low < expected.difference < compared.overall.interval.high
    assert not compared.higher_is_better


@pytest.fixture
def loaded_run(brier_runs: list[StaICC.Result]) -> StaICC.Result:
    """The first run, saved and loaded, so that a test can change it."""
    return StaICC.Result.from_dict(json.loads(json.dumps(brier_runs[0].to_dict())))


def set_query_scores(result: StaICC.Result, scores: tuple[float | None, ...]) -> None:
    """Replace the Brier score of each query of a run."""
    result.query_scores["brier"] = replace(result.query_scores["brier"], values={"mini": {"normal": scores}})


def query_scores_of(result: StaICC.Result) -> tuple[float | None, ...]:
    """Return the Brier score of each query of a run: 20 rows in two repeats."""
    scores = result.query_scores["brier"].values["mini"]["normal"]
    assert scores is not None
    assert len(scores) == 40
    return scores


def verification_of(result: StaICC.Result) -> object:
    """Return the status of a run after it is verified with its metric."""
    benchmark = StaICC.Normal(datasets=["mini"], limit=20, metrics={"brier": BRIER})
    return status_of(verify(result, benchmark))


def test_query_scores_are_saved(brier_runs: list[StaICC.Result], loaded_run: StaICC.Result) -> None:
    assert loaded_run == brier_runs[0]
    assert compare(loaded_run, brier_runs[1], "brier") == compare(*brier_runs, "brier")


def test_query_scores_are_verified(loaded_run: StaICC.Result) -> None:
    assert verification_of(loaded_run) == Recomputed()


def test_an_edited_query_score_is_contradicted(loaded_run: StaICC.Result) -> None:
    first, *others = query_scores_of(loaded_run)
    assert first is not None

    set_query_scores(loaded_run, (first / 2, *others))

    assert isinstance(verification_of(loaded_run), Contradicted)


def test_a_missing_query_score_is_refused(brier_runs: list[StaICC.Result], loaded_run: StaICC.Result) -> None:
    set_query_scores(loaded_run, query_scores_of(loaded_run)[1:])

    with pytest.raises(ArgumentError, match="39 queries, expected 40"):
        compare(loaded_run, brier_runs[1], "brier")


def test_a_saved_query_score_outside_its_range_is_refused(
    brier_runs: list[StaICC.Result], loaded_run: StaICC.Result
) -> None:
    set_query_scores(loaded_run, (1e308, *query_scores_of(loaded_run)[1:]))

    with pytest.raises(ArgumentError, match="outside its range"):
        compare(loaded_run, brier_runs[1], "brier")


def test_a_query_score_outside_its_range_is_refused():
    metrics = metric_set({"brier": MeanOf(lambda label, row: 1.5)})

    with pytest.raises(ArgumentError, match=r"query 0 is 1\.5, expected 0 to 1"):
        metrics.score(TRUTH, PROBABILITIES)


def test_an_empty_range_of_query_scores_is_refused():
    with pytest.raises(ArgumentError, match="range"):
        MeanOf(brier, 1.0, 1.0)


def test_the_signature_distinguishes_means_of_different_scores():
    def half_of_true_label(label: int, row: list[float]) -> float:
        return row[label] / 2

    def metrics_of_signature(metric: MeanOf) -> str | None:
        return StaICC.Normal(datasets=["mini"], limit=2, metrics={"mine": metric}).signature().fields["metrics"]

    of_brier = metrics_of_signature(MeanOf(brier))
    of_other_function = metrics_of_signature(MeanOf(half_of_true_label))
    of_other_range = metrics_of_signature(MeanOf(half_of_true_label, high=2.0))

    assert of_brier != of_other_function
    assert of_brier != of_other_range
    assert of_other_function != of_other_range


def test_a_metric_without_a_direction_is_not_compared():
    benchmark = StaICC.Normal(datasets=["mini"], limit=5, metrics={"brier": MeanOf(brier, 0.0, 2.0)})

    with pytest.raises(ArgumentError, match="higher_is_better"):
        compare(benchmark(noisy), benchmark(noisy), "brier")


def brier_run_with_labels(labels: list[str]) -> StaICC.Result:
    """Return a run on rows with the labels good and bad, in which the first label always has 0.75."""
    rows = [(f"a text with the number {number}", "bad" if number % 3 else "good") for number in range(60)]
    dataset = StaICC.Dataset.from_rows(rows, name="own", label_space=labels)
    benchmark = StaICC.Normal(datasets=[dataset], limit=20, metrics={"brier": BRIER})
    return benchmark(lambda prompt, label_space: [0.75, 0.25])


def test_query_scores_of_runs_with_labels_in_another_order_are_compared():
    bad_first = brier_run_with_labels(["bad", "good"])
    good_first = brier_run_with_labels(["good", "bad"])

    compared = compare(bad_first, good_first, "brier").overall

    assert bad_first.averaged["brier"] != good_first.averaged["brier"]
    assert compared.values == pytest.approx((bad_first.averaged["brier"], good_first.averaged["brier"]))


def mean_interval_of(metric: MeanOf) -> tuple[float, float]:
    rows = [(f"a text with the number {number}", "bad" if number % 5 else "good") for number in range(60)]
    datasets = ["mini", StaICC.Dataset.from_rows(rows, name="own")]
    metrics = {"mine": Metric("mine", metric, requires_probabilities=True)}
    interval = StaICC.Normal(datasets=datasets, limit=20, metrics=metrics)(noisy).means.intervals["mine"]
    return interval.low, interval.high


@pytest.mark.parametrize(("low", "width"), [(0.0, 100.0), (-5.0, 1.0), (0.0, 0.01)])
def test_intervals_of_means_over_data_sets_do_not_depend_on_the_unit(low: float, width: float) -> None:
    """A score from 0 to 1, and the same score as a number from ``low`` to ``low + width``."""
    low_of_share, high_of_share = mean_interval_of(MeanOf(lambda label, row: row[label]))

    low_of_scaled, high_of_scaled = mean_interval_of(
        MeanOf(lambda label, row: low + width * row[label], low, low + width)
    )

    assert low_of_scaled == pytest.approx(low + width * low_of_share)
    assert high_of_scaled == pytest.approx(low + width * high_of_share)


def test_an_undefined_query_score_is_missing_with_its_reason():
    def undefined(label: int, row: list[float]) -> float:
        raise UndefinedMetricError("there is none")

    accuracy = metric_set("standard").metrics[0]

    result = StaICC.Normal(datasets=["mini"], limit=20, metrics={"a": accuracy, "mine": MeanOf(undefined)})(noisy)

    assert result.details["mini"].missing["mine"] == "there is none"
    assert result.details["mini"].missing.keys() == {"mine", "interval of a"}
    assert result.query_scores["mine"].values == {"mini": {"normal": None}}


def test_a_subclass_that_changes_the_mean_has_no_interval_and_no_query_scores():
    class RootOfMean(MeanOf):
        def __call__(self, ground_truth, rows):
            return super().__call__(ground_truth, rows) ** 0.5

    root_of_brier = RootOfMean(brier, 0.0, 2.0)

    result = StaICC.Normal(datasets=["mini"], limit=20, metrics={"mine": root_of_brier})(noisy)

    assert "mine" not in result.details["mini"].intervals
    assert not result.query_scores


def test_query_scores_are_not_saved_where_the_metric_set_of_the_release_passes_logits():
    score_of_true_label = Metric("mine", MeanOf(lambda label, row: row[label], -10.0, 10.0), None, True)
    benchmark = StaICC.Normal(datasets=["mini"], limit=5, metrics=metric_set("0.1.1").adding(score_of_true_label))

    result = benchmark(lambda prompt, label_space: [3.0, 1.0, 2.0])

    assert result.averaged["mine"] > 1.0, "the mean of logits, and not of probabilities"
    assert not result.query_scores


class RowsOfMetric:
    """A metric that is always 0 and records the rows that it gets."""

    def __init__(self) -> None:
        self.rows: list[list[list[float]]] = []

    def __call__(self, truth: list[int], rows: list[list[float]]) -> float:
        self.rows.append(rows)
        return 0.0


LOGITS = [[2.0, 1.0], [-1.0, 3.0]]


@pytest.mark.parametrize("name", ["0.1.1", "0.1.1+balanced_accuracy", "0.1.1+balanced_accuracy+matthews"])
def test_metrics_that_are_added_to_the_released_set_get_logits(name: str) -> None:
    metric = RowsOfMetric()
    metrics = metric_set(name).adding(Metric("first", metric, requires_probabilities=True))
    metrics = metrics.adding(Metric("second", metric, requires_probabilities=True))

    metrics.score([0, 1], LOGITS)

    assert metric.rows == [LOGITS, LOGITS]


@pytest.mark.parametrize("name", ["standard", "standard+balanced_accuracy", "standard+balanced_accuracy+matthews"])
def test_metrics_that_are_added_to_the_standard_set_get_probabilities(name: str) -> None:
    metric = RowsOfMetric()
    metrics = metric_set(name).adding(Metric("first", metric, requires_probabilities=True))
    metrics = metrics.adding(Metric("second", metric, requires_probabilities=True))

    metrics.score([0, 1], LOGITS)

    first_row = pytest.approx([1 / (1 + math.exp(-1.0)), 1 / (1 + math.exp(1.0))])  # the softmax of 2 and 1
    second_row = pytest.approx([1 / (1 + math.exp(4.0)), 1 / (1 + math.exp(-4.0))])  # of -1 and 3
    assert metric.rows == [[first_row, second_row], [first_row, second_row]]


def run_with_accuracy_metric(metric: Metric) -> StaICC.Result:
    """Return a run with a metric that has the name of the accuracy."""
    return StaICC.Normal(datasets=["mini"], limit=20, metrics={"accuracy": metric})(noisy)


MEAN_PROBABILITY = Metric("accuracy", MeanOf(lambda label, row: row[label]), None, True)
"""A metric of the user, without a direction."""


@pytest.mark.parametrize(
    ("first_metric", "second_metric"),
    [
        (metric_set("standard").metrics[0], MEAN_PROBABILITY),
        (MEAN_PROBABILITY, metric_set("standard").metrics[0]),
        (MEAN_PROBABILITY, replace(MEAN_PROBABILITY, higher_is_better=False)),
        (replace(MEAN_PROBABILITY, higher_is_better=False), MEAN_PROBABILITY),
    ],
    ids=["library and user", "user and library", "without and with a direction", "with and without a direction"],
)
def test_runs_with_other_metrics_under_one_name_are_not_compared(first_metric: Metric, second_metric: Metric) -> None:
    first, second = run_with_accuracy_metric(first_metric), run_with_accuracy_metric(second_metric)

    with pytest.raises(ArgumentError, match="accuracy cannot be recomputed"):
        compare(first, second, "accuracy")
