"""Scores of Normal and of prediction bias: right by default, bug for bug as in the release on request; intervals."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Iterator, Sequence
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

LIKELIHOOD, ECE = "averaged_truelabel_likelihood", "expected_calibration_error_1"


def scores(rows: Sequence[Any], dataset: Dataset, **settings: Any) -> dict[str, Any]:
    """Score given predictions; the true label of query i is that of its test row."""
    return dict(Normal(datasets=[dataset], **settings)(preentered_prediction=[rows])["Averaged results"])


@pytest.fixture
def own(make_own: Callable[..., Dataset]) -> Dataset:
    return make_own(1)


@pytest.fixture
def truth(own: Dataset) -> list[int]:
    return [query.label for query in Normal(datasets=[own])[0].all_queries()]


def test_probabilities_are_not_put_through_softmax_again(own: Dataset, truth: list[int]) -> None:
    """One row that does not sum to exactly 1.0 sends the release's whole matrix through softmax (defect 1)."""
    rows = [[0.9, 0.1] if label == 0 else [0.1, 0.9] for label in truth]
    rows[3] = [value * (1 + 1e-15) for value in rows[3]]
    assert math.fsum(rows[3]) != 1.0
    assert scores(rows, own)[LIKELIHOOD] == pytest.approx(0.9)
    assert scores(rows, own)[ECE] == pytest.approx(0.1)
    assert scores(rows, own, metrics="0.1.1")[LIKELIHOOD] == pytest.approx(1 / (1 + math.exp(-0.8)))


def test_logits_are_softmaxed(own: Dataset, truth: list[int]) -> None:
    rows = [[3.0, -1.0] if label == 0 else [-1.0, 3.0] for label in truth]
    shifted = [[value + 100.5 + number for value in row] for number, row in enumerate(rows)]
    positive = [[value + 100 for value in row] for row in rows]
    for found in (scores(rows, own), scores(shifted, own, outputs="logits"), scores(positive, own, outputs="logits")):
        assert found[LIKELIHOOD] == pytest.approx(1 / (1 + math.exp(-4)))
    assert scores(positive, own)[LIKELIHOOD] is None
    assert scores(shifted, own)[LIKELIHOOD] is None


def test_what_is_ambiguous_is_named_and_can_be_forced(own: Dataset, truth: list[int]) -> None:
    rows = [[0.3, 0.1] if label == 0 else [0.1, 0.3] for label in truth]
    result = Normal(datasets=[own])(preentered_prediction=[rows])
    assert result["Averaged results"]["accuracy"] == 1.0
    assert result["Averaged results"][LIKELIHOOD] is None
    missing = result.details["own"].missing
    assert set(missing) == {LIKELIHOOD, ECE}
    assert "row 0 sums to 0.4" in missing[LIKELIHOOD]
    assert scores(rows, own, outputs="probabilities")[LIKELIHOOD] == pytest.approx(0.75)
    assert scores(rows, own, outputs="logits")[LIKELIHOOD] == pytest.approx(1 / (1 + math.exp(-0.2)))
    mixed = [[0.5, 0.5] if number % 2 else [4.0, -2.0] for number in range(len(truth))]
    result = Normal(datasets=[own])(preentered_prediction=[mixed])
    assert result["Averaged results"][LIKELIHOOD] is None
    assert "mixture" in result.details["own"].missing[LIKELIHOOD]
    with pytest.raises(OutputError, match=r"^Normal, own: row 0, column 1 of the predictions is -1\.0"):
        scores([[3.0, -1.0]] * len(truth), own, outputs="probabilities")


def test_certain_and_always_wrong_is_fully_miscalibrated(own: Dataset, truth: list[int]) -> None:
    """Confidence 1.0 falls in no bin of the release (defect 2)."""
    wrong = [[0.0, 1.0] if label == 0 else [1.0, 0.0] for label in truth]
    assert scores(wrong, own)[ECE] == 1.0
    assert scores([row[::-1] for row in wrong], own)[ECE] == 0.0
    assert scores(wrong, own, metrics="0.1.1")[ECE] == 0.0


def test_a_label_that_is_never_predicted(make_own: Callable[..., Dataset]) -> None:
    """An IndexError in the release (defect 9)."""
    benchmark = Normal(datasets=[make_own(1, labels=("a", "b", "c", "d"))])
    result = benchmark(lambda prompt, label_space: 0)["Averaged results"]
    truth = [query.label for query in benchmark[0].all_queries()]
    share = truth.count(0) / len(truth)
    assert result["accuracy"] == share
    assert result["macro_F1"] == pytest.approx(2 * share / (1 + share) / 4)
    assert result[LIKELIHOOD] is result[ECE] is None


def test_of_equal_scores_the_first_counts_also_if_all_are_equal(own: Dataset, truth: list[int]) -> None:
    result = Normal(datasets=[own])(lambda prompt, label_space: [0.5, 0.5])
    always_first = Normal(datasets=[own])(lambda prompt, label_space: [1.0, 0.0])["Averaged results"]
    equal = result["Averaged results"]
    assert equal["accuracy"] == always_first["accuracy"] == truth.count(0) / len(truth)
    assert equal["macro_F1"] == always_first["macro_F1"]
    assert equal[LIKELIHOOD] == 0.5
    assert equal[ECE] == pytest.approx(abs(equal["accuracy"] - 0.5))
    assert not result.details["own"].missing
    assert any("tie for the largest score" in note for note in result.details["own"].notes), (
        f"got {result.details['own'].notes}"
    )
    released = Normal(datasets=[own], metrics="0.1.1")(lambda prompt, label_space: [0.5, 0.5])["Averaged results"]
    assert [name for name in released if equal[name] != pytest.approx(released[name], abs=1e-12)] == []


def test_accuracy_has_baselines_and_an_interval(own: Dataset, truth: list[int], make_own: Any) -> None:
    rows = [[0.7, 0.3] if number % 3 else [0.3, 0.7] for number in range(len(truth))]
    result = Normal(datasets=[own])(preentered_prediction=[rows])
    baselines = result.details["own"].baselines["normal"]
    assert (baselines.queries, baselines.labels, baselines.uniform) == (len(truth), 2, 0.5)
    assert baselines.majority == max(truth.count(0), truth.count(1)) / len(truth)
    assert baselines.max_random == pytest.approx(0.5)
    tied = Normal(datasets=[make_own(1, rows=50)])  # as many rows of label 1 as of label 0, which is the baseline
    assert sum(query.label for query in tied[0].all_queries()) == 12
    first, second = (tied(preentered_prediction=[[n] * 24]).details["own"].baselines["normal"] for n in (0, 1))
    assert first.p_value_majority == 1 > second.p_value_majority
    interval = result.details["own"].intervals["accuracy"]
    correct = [row.index(max(row)) == label for row, label in zip(rows, truth, strict=True)]
    of_rows = [float(first + second) for first, second in zip(correct[:12], correct[12:], strict=True)]
    assert interval == ratio_part(of_rows, [2.0] * 12, 0.95).interval(0.95, Statistic.method)
    assert interval.low <= result["Averaged results"]["accuracy"] <= interval.high


@pytest.mark.parametrize("reverse", [False, True])
def test_baselines_of_the_mean_are_the_means_of_those_of_data_sets_with_other_numbers_of_labels(
    make_own: Callable[..., Dataset], reverse: bool
) -> None:
    datasets = [make_own(1, "two"), make_own(1, "five", labels=tuple("abcde"))]
    if reverse:
        datasets.reverse()
    result = Normal(datasets=datasets)(lambda prompt, label_space: 0)
    of_mean = result.means.baselines["normal"]
    of_datasets = {name: details.baselines["normal"] for name, details in result.details.items()}
    assert {name: one.uniform for name, one in of_datasets.items()} == {"two": 1 / 2, "five": 1 / 5}
    assert of_mean.uniform == pytest.approx((1 / 2 + 1 / 5) / 2)
    assert of_mean.max_random == pytest.approx(of_mean.uniform)  # the expected accuracy of one guesser
    assert of_mean.majority == pytest.approx((of_datasets["two"].majority + of_datasets["five"].majority) / 2)
    assert of_mean.queries == of_datasets["two"].queries + of_datasets["five"].queries


def test_one_guess_for_each_row_has_a_p_value_of_its_own() -> None:
    benchmark = Normal(datasets=["mini"])
    queries = benchmark.experimentor[0].all_queries()
    answers = [query.label if query.row < 38 else (query.label + 1) % 3 for query in queries]
    result = benchmark(preentered_prediction=[answers])
    (baselines,) = result.details["mini"].baselines.values()
    accuracy, rows = result["Averaged results"]["accuracy"], len({query.row for query in queries})
    assert baselines.p_value_rows == RandomBaseline(rows, 1 / 3).p_value(accuracy) > 0.05 > baselines.p_value
    assert "Not better than uniform guessing (p > 0.05): mini." in str(result)  # the larger one counts


# -- prediction bias: the queries, the README's and the paper's figures, and the release's


ROWS = [[0.5, 0.3, 0.2], [0.1, 0.1, 0.8], [0.25, 0.5, 0.25], [1.0, 0.0, 0.0]]


def entropy(row: list[float]) -> float:
    return -math.fsum(p * math.log(p) for p in row if p)


def given(benchmark: Any, rows: list[list[float]] = ROWS) -> list[list[float]]:
    """One row for each query of the only data set."""
    return [rows[number % 4] for number in range(len(benchmark[0]))]


def mean(rows: list[list[float]]) -> list[float]:
    return [math.fsum(column) / len(rows) for column in zip(*rows, strict=True)]


# -- queries


def test_contextual_bias_has_empty_queries_after_normals_demonstrations() -> None:
    normal, bias = Normal(datasets=["mini"])[0], ContextualBias(datasets=["mini"])[0]
    assert bias.demonstration_sampler == normal.demonstration_sampler
    test, template = normal.test_set(), normal.card.template
    for number, (prompt, usual) in enumerate(zip(bias.prompt_set(), normal.prompt_set(), strict=True)):
        (text,), _ = test[number % len(test)]
        end = template.input_text_affixes[0] + template.label_prefix
        assert usual.endswith(text + end)
        assert prompt == usual[: -len(text + end)] + end


@pytest.mark.parametrize("length", [0, 1, 7])
def test_domain_bias_has_queries_of_words_of_the_demonstrations(length: int) -> None:
    bias = DomainBias(k=0, datasets=["mini"], domain_query_length=length)[0]
    prefix, affix = bias.card.template.input_text_prefixes[0], bias.card.template.input_text_affixes[0]
    shown = bias.demonstration_set()
    words = {word for position in range(len(shown)) for word in shown.texts(position)[0].split(" ")}
    for prompt in bias.prompt_set():
        query = prompt[len(prefix) : -len(affix + bias.card.template.label_prefix)].split(" ")
        assert len(query) == max(length, 1)
        assert set(query) <= words | {""}


# -- the figures


@pytest.mark.parametrize(("make", "figure"), [(ContextualBias, "contextual_bias"), (DomainBias, "domain_bias")])
def test_the_readmes_and_the_papers_figures(make: Any, figure: str) -> None:
    """The release and its paper mean different things by the entropy (defect 15)."""
    benchmark = make(datasets=["mini"])
    rows = given(benchmark)
    result = benchmark(preentered_prediction=[rows])["Divided results"]["mini"]
    assert list(result) == ["entropy", "distribution", figure]
    assert result["distribution"] == pytest.approx(mean(rows), rel=1e-12)
    assert result["entropy"] == pytest.approx(entropy(mean(rows)), rel=1e-12)
    assert result[figure] == pytest.approx(-math.fsum(map(entropy, rows)) / len(rows), rel=1e-12)


def test_the_divergence_from_the_label_frequencies() -> None:
    benchmark = PosteriorBias(datasets=["mini"])
    rows = given(benchmark)
    result = benchmark(preentered_prediction=[rows])["Divided results"]["mini"]
    truth = [query.label for query in benchmark[0].all_queries()]
    frequencies = [truth.count(label) / len(truth) for label in range(3)]
    expected = math.fsum(p * math.log(p / q) for p, q in zip(mean(rows), frequencies, strict=True))
    assert list(result) == ["DL div.", "distribution", "empirical_bias"]
    assert result["DL div."] == result["empirical_bias"] == pytest.approx(expected, rel=1e-12)


def test_logits_are_normalised_before_they_are_averaged() -> None:
    """The release averages raw outputs (defect 4)."""
    benchmark = ContextualBias(datasets=["mini"])
    logits = given(benchmark, [[math.log(max(p, 1e-300)) + 5 for p in row] for row in ROWS])
    result, expected = (benchmark(preentered_prediction=[rows]) for rows in (logits, given(benchmark)))
    assert result.averaged["entropy"] == pytest.approx(expected.averaged["entropy"], rel=1e-9)
    released = ContextualBias(datasets=["mini"], metrics="0.1.1")(preentered_prediction=[logits])
    assert released["Divided results"]["mini"]["distribution"] == pytest.approx(mean(logits))
    assert released["Averaged results"]["distribution"] == 0.0


def test_zeros_are_no_accident_and_an_infinite_divergence_is_undefined() -> None:
    """KL and entropy crash on zeros in the release (defect 3)."""

    def certain(prompt: str, label_space: list[str]) -> list[float]:
        return [1.0, 0.0, 0.0]

    result = ContextualBias(datasets=["mini"])(certain)["Averaged results"]
    assert result["entropy"] == result["contextual_bias"] == 0.0
    posterior = PosteriorBias(datasets=["mini"])
    truth = [query.label for query in posterior[0].all_queries()]
    assert posterior(certain).averaged["empirical_bias"] == pytest.approx(-math.log(truth.count(0) / len(truth)))
    rows = [(f"text {row}", 0) for row in range(40)]
    dataset = Dataset.from_rows(rows, name="one-sided", label_space=["a", "b"])
    uniform = PosteriorBias(datasets=[dataset, "mini"])(
        lambda prompt, label_space: [1 / len(label_space)] * len(label_space)
    )
    assert uniform["Divided results"]["one-sided"]["DL div."] is uniform["Averaged results"]["DL div."] is None
    assert uniform["Divided results"]["one-sided"]["distribution"] == [0.5, 0.5]
    assert "infinite" in uniform.details["one-sided"].missing["empirical_bias"]
    assert "infinite" in str(uniform)


def test_labels_and_ambiguous_numbers_have_undefined_figures() -> None:
    benchmark = ContextualBias(datasets=["mini"])
    result = benchmark(preentered_prediction=[[number % 2 for number in range(len(benchmark[0]))]])
    scores = result["Divided results"]["mini"]
    assert scores == {"distribution": [0.5, 0.5, 0.0], "entropy": pytest.approx(math.log(2)), "contextual_bias": None}
    assert "bare labels" in result.details["mini"].missing["contextual_bias"]
    result = benchmark(lambda prompt, label_space: [0.1, 0.2, 0.3])
    assert result["Divided results"]["mini"] == {"entropy": None, "distribution": None, "contextual_bias": None}
    assert "sums to 0.6" in result.details["mini"].missing["entropy"]
    forced = ContextualBias(datasets=["mini"], outputs="probabilities")
    assert forced(lambda prompt, label_space: [0.1, 0.2, 0.3])["Averaged results"]["entropy"] is not None


@pytest.mark.parametrize(
    "row", [[1 / 3] * 3, [0.1, 0.2, 0.7], [1.0, 0.0, 0.0], [0.2, 0.6, 0.2], [1 / 3 + 1e-16, 1 / 3, 1 / 3]]
)
def test_intervals_of_entropies_hold_the_estimate_and_stay_in_range(row: list[float]) -> None:
    """Rounding once put limits past the estimate, past the logarithm of the number of labels, or at minus zero."""
    result = ContextualBias(datasets=["mini"])(lambda prompt, label_space: row)
    scores, intervals = result["Divided results"]["mini"], result.details["mini"].intervals
    for key, least, most in (("entropy", 0.0, math.log(3)), ("contextual_bias", -math.log(3), 0.0)):
        for interval in (intervals[key], result.means.intervals[key]):
            assert least <= interval.low <= scores[key] <= interval.high <= most
            assert not (interval.high == 0.0 and math.copysign(1.0, interval.high) < 0)


# -- each score that is not None has an interval or a reason


def constant(truth: Sequence[int], rows: Sequence[Sequence[float]]) -> float:
    return 0.125


def first_label(prompt: str, label_space: list[str]) -> int:
    return 0


def any_scores(prompt: str, label_space: list[str]) -> list[float]:
    draw = random.Random(str(prompt))
    values = [0.1 + draw.random() for _ in label_space]
    return [value / sum(values) for value in values]


def certain(prompt: str, label_space: list[str]) -> list[float]:
    return [1.0, *[0.0] * (len(label_space) - 1)]


def seventh_fails() -> Callable[..., Any]:
    numbers = itertools.count()
    return lambda prompt, label_space: any_scores(prompt, label_space) if next(numbers) % 7 else None


def without_reason(result: Result) -> Iterator[str]:
    """Yield the scores without interval and without reason."""
    for name, details in result.details.items():
        for key, value in result.divided[name].items():
            nested = value.items() if key == "sensitivity" else [("", value)]
            for metric, figure in nested:
                place = f"{key}.{metric}" if metric else key
                scalar = figure[0] if metric and isinstance(figure, (list, tuple)) else figure
                if not isinstance(scalar, float) or place in details.intervals:
                    continue
                if not {f"interval of {place}", "interval of each score"} & set(details.missing):
                    yield f"{name}: {place}"
    for key, value in result.averaged.items():
        if value is not None and key not in result.means.intervals and key not in result.means.missing:
            yield f"mean: {key}"


@pytest.mark.parametrize("name", ["Normal", "GLER", "ContextualBias", "PosteriorBias", "TemplateSensitivity"])
@pytest.mark.parametrize("model", [first_label, any_scores, certain, None])
@pytest.mark.parametrize(("several", "limit"), [(False, 1), (True, 2), (True, 9)])
def test_each_score_has_an_interval_or_a_reason(
    name: str, model: Any, several: bool, limit: int, make_own: Callable[..., Dataset]
) -> None:
    datasets = [make_own(1), make_own(1, name="three", labels=("a", "b", "c"))][: 1 + several]
    metrics = {"accuracy": constant, "mine": constant, "macro_F1": metric_set("standard").metrics[2].function}
    for chosen in ("standard", metrics) if name in ("Normal", "GLER") else ("standard",):
        benchmark = getattr(StaICC, name)(datasets=datasets, limit=limit, metrics=chosen)
        assert not list(without_reason(benchmark(model or seventh_fails(), on_error="collect")))


def test_intervals_of_means_are_those_of_the_data_sets(make_own: Callable[..., Dataset]) -> None:
    datasets = [make_own(1), make_own(1, name="three", labels=("a", "b", "c"))]
    for kind, key, highest in ((Normal, ECE, 1.0), (ContextualBias, "entropy", math.log(6) / 2)):
        result = kind(datasets=datasets)(any_scores)
        values = [own[key] for own in result.divided.values()]
        intervals = [details.intervals[key] for details in result.details.values()]
        assert result.means.intervals[key] == mean_interval(values, intervals, highest)
    few = Normal(datasets=datasets, limit=8)(any_scores)  # each has too few rows for an interval of its own
    assert "macro_F1" in few.means.intervals
    assert [details for details in few.details.values() if "macro_F1" in details.intervals] == []


@pytest.mark.pack
def test_posterior_bias_of_a_label_without_rows_and_without_probability() -> None:
    result = PosteriorBias(datasets=["TREC"], limit=20)(lambda prompt, label_space: 1)
    assert result["Averaged results"]["DL div."] == pytest.approx(1.897, abs=1e-3)
    for reason in (result.details["TREC"].missing["interval of DL div."], result.means.missing["DL div."]):
        assert "1 of them none" in reason
    assert "interval of DL div." in str(result)


def test_slopes_have_intervals_if_a_row_fails_in_one_condition(make_own: Callable[..., Dataset]) -> None:
    benchmark = GLER(datasets=[make_own(1)])
    queries = benchmark[0].conditions()[2].queries
    lost = {query.prompt for query in queries if query.row == queries[0].row}

    def function(prompt: str, label_space: list[str]) -> Any:
        return None if prompt in lost else any_scores(prompt, label_space)

    complete = benchmark(any_scores).details["own"].intervals
    result = benchmark(function, on_error="collect")
    intervals = result.details["own"].intervals
    assert result.details["own"].failed == 2
    assert set(intervals) == set(complete)
    for key, interval in intervals.items():
        slope = result["Divided results"]["own"]["sensitivity"][key.removeprefix("sensitivity.")][0]
        assert interval.low <= slope <= interval.high
        assert (interval.low, interval.high) == pytest.approx((complete[key].low, complete[key].high), abs=0.2)


def test_the_error_about_two_kinds_of_predictions_names_no_failed_query() -> None:
    answers = iter([None, 0, [0.1, 0.2, 0.7], 0])
    message = "the prediction of query 1 is a label, that of query 2 is a row of numbers"
    with pytest.raises(OutputError, match=message):
        Normal(datasets=["mini"], limit=2)(lambda prompt, label_space: next(answers), on_error="collect", chunk_size=1)
