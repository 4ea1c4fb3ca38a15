"""Logs of lm_eval in the formats of its versions: read as results, and compared sample by sample."""

from __future__ import annotations

import math
import random
from fractions import Fraction
from pathlib import Path

import pytest

import StaICC
from StaICC.comparing.comparison import compare, compare_runs
from StaICC.comparing.ranking import rank
from StaICC.errors import ArgumentError, SchemaError
from StaICC.logs.reading import read_logs
from StaICC.results.result import Result, load
from tests.logs.made_logs import DATE, edited_json, edited_samples, results_file, write_evaluation

VERSIONS = ("0.4.2", "0.4.3", "0.4.4", "0.4.7", "0.4.13")


N_DOCUMENTS = 120
"""The number of documents of most tasks here."""


def bernoulli_scores(seed: int, p: float, count: int = N_DOCUMENTS) -> list[float]:
    """Return random scores of documents, each 1 with probability p and otherwise 0."""
    generator = random.Random(seed)
    return [1.0 if generator.random() < p else 0.0 for _ in range(count)]


def uniform_scores(seed: int, highest: float, count: int = 20) -> list[float]:
    """Return random scores of documents between 0 and a highest one, with four decimals."""
    generator = random.Random(seed)
    return [round(generator.random() * highest, 4) for _ in range(count)]


def read_result(folder: Path) -> Result:
    """Return the result of a folder with the logs of one model."""
    (result,) = read_logs(folder).values()
    return result


# -- p-values and intervals by other formulas


def favourable_weight(documents: int) -> float:
    """Return the weight of the more favourable of the two pseudo-rows."""
    return min(0.25, 0.0214 * math.sqrt(documents))


def mcnemar(first: list[float], second: list[float]) -> float:
    """Return the p-value of the two-sided test of McNemar, the sign test of the documents on which the runs differ.

    One run wins n of these documents. If both runs are equally good, each document is won by either run with
    probability 1/2, so the number N of wins is binomial: p = 2 (P(N > n) + w P(N = n)). With w = 1 the test would be
    exact, with w = 1/2 p would be the mid-p-value; here, w is one minus the weight of the favourable pseudo-row.
    """
    differences = differences_of(first, second)
    wins_of_first = sum(difference > 0 for difference in differences)
    wins_of_second = sum(difference < 0 for difference in differences)
    documents = wins_of_first + wins_of_second
    wins = max(wins_of_first, wins_of_second)

    def probability_of_wins(count: int) -> float:
        return math.comb(documents, count) / 2**documents

    p_more_wins = sum(probability_of_wins(count) for count in range(wins + 1, documents + 1))
    weight = 1 - favourable_weight(len(first))
    return min(1.0, 2 * (p_more_wins + weight * probability_of_wins(wins)))


def gaffke(steps: list[Fraction], extreme_step: Fraction) -> float:
    """Return P(sum of weight_i * x_i <= 0), where x are the steps with an extreme one, and the weights exponential.

    By partial fractions, with different x: P(sum > 0) is the sum over positive x_i of the product over all other x_j
    of ``x_i / (x_i - x_j)``.
    """
    x = [*steps, extreme_step]
    probability_of_positive_sum = Fraction(0)
    for i, x_i in enumerate(x):
        if x_i > 0:
            product = Fraction(1)
            for j, x_j in enumerate(x):
                if j != i:
                    product *= x_i / (x_i - x_j)
            probability_of_positive_sum += product
    return float(1 - probability_of_positive_sum)


def one_sided_gaffke(steps: list[Fraction], lowest: Fraction, highest: Fraction) -> float:
    """Return the weighted mean of the p-values with the lowest and the highest step that a further row could have."""
    weight = favourable_weight(len(steps))
    return (1 - weight) * gaffke(steps, lowest) + weight * gaffke(steps, highest)


def differences_of(first: list[float], second: list[float]) -> list[Fraction]:
    """Return the exact differences of the decimal scores of two runs."""
    return [Fraction(str(a)) - Fraction(str(b)) for a, b in zip(first, second, strict=True)]


def two_sided_gaffke(first: list[float], second: list[float], width: int) -> float:
    """Return twice the smaller one-sided p-value. A further row can change the difference by at most the width."""
    steps = differences_of(first, second)
    negative_steps = [-step for step in steps]
    p_higher = one_sided_gaffke(steps, Fraction(-width), Fraction(width))
    p_lower = one_sided_gaffke(negative_steps, Fraction(-width), Fraction(width))
    return min(1.0, 2 * min(p_higher, p_lower))


def test_the_p_value_of_correct_answers_is_that_of_mcnemar(tmp_path: Path) -> None:
    first = bernoulli_scores(seed=1, p=0.5)
    second = bernoulli_scores(seed=2, p=0.7)
    results = read_logs(
        write_evaluation(tmp_path / "a", {"sums": {"acc": first}}, model="m/a"),
        write_evaluation(tmp_path / "b", {"sums": {"acc": second}}, model="m/b"),
    )

    (sums,) = compare(results["m/a"], results["m/b"]).datasets

    accuracy_of_first, accuracy_of_second = sums.values
    assert sums.rows == N_DOCUMENTS
    assert accuracy_of_first == pytest.approx(sum(first) / N_DOCUMENTS)
    assert accuracy_of_second == pytest.approx(sum(second) / N_DOCUMENTS)
    assert sums.p_value == pytest.approx(mcnemar(first, second), rel=1e-9)


def test_the_p_value_of_scores_from_0_to_1_is_that_of_gaffke(tmp_path: Path) -> None:
    first = uniform_scores(seed=1, highest=0.5)
    second = [1 - score for score in uniform_scores(seed=2, highest=0.5)]
    results = read_logs(
        write_evaluation(tmp_path / "a", {"summary": {"rougeL": first}}, model="a"),
        write_evaluation(tmp_path / "b", {"summary": {"rougeL": second}}, model="b"),
    )

    (summary,) = compare(results["a"], results["b"]).datasets

    assert summary.p_value == pytest.approx(two_sided_gaffke(first, second, width=1), rel=1e-6)


def test_the_ends_of_the_interval_are_the_differences_with_p_value_5_percent(tmp_path: Path) -> None:
    """At the lower end d of the interval of 95 %, the one-sided test of "at most d" has p = 0.025; so at the upper.

    A difference is between -1 and 1.
    """
    first = uniform_scores(seed=3, highest=0.9)
    second = uniform_scores(seed=4, highest=0.4)
    results = read_logs(
        write_evaluation(tmp_path / "a", {"summary": {"rouge1": first}}, model="a"),
        write_evaluation(tmp_path / "b", {"summary": {"rouge1": second}}, model="b"),
    )

    interval = compare(results["a"], results["b"]).datasets[0].interval

    assert interval is not None
    low, high = Fraction(interval.low), Fraction(interval.high)
    differences = differences_of(first, second)
    above_low = [difference - low for difference in differences]
    below_high = [high - difference for difference in differences]
    assert one_sided_gaffke(above_low, -1 - low, 1 - low) == pytest.approx(0.025, abs=1e-6)
    assert one_sided_gaffke(below_high, high - 1, high + 1) == pytest.approx(0.025, abs=1e-6)


def test_the_interval_of_an_accuracy_is_that_of_wilson(tmp_path: Path) -> None:
    correct = bernoulli_scores(seed=5, p=0.3)
    folder = write_evaluation(tmp_path, {"sums": {"acc": correct}}, model="a")

    interval = read_result(folder).details["sums"].intervals["acc"]

    n = N_DOCUMENTS
    p = sum(correct) / n
    z = 1.959963984540054  # the quantile of the normal distribution for 95 %
    centre = (p + z**2 / (2 * n)) / (1 + z**2 / n)
    half_width = z / (1 + z**2 / n) * math.sqrt(p * (1 - p) / n + z**2 / (4 * n**2))
    # The library has the quantile of Student's t with n - 1 degrees of freedom instead.
    assert interval.low == pytest.approx(centre - half_width, abs=0.002)
    assert interval.high == pytest.approx(centre + half_width, abs=0.002)


# -- versions of the format


@pytest.mark.parametrize("version", VERSIONS)
def test_the_scores_of_each_version_are_read(tmp_path: Path, version: str) -> None:
    """A task has a metric of no filter, the other one a metric of two filters."""
    tasks = {
        "kinds": {"acc": [1.0, 0.0, 0.0, 0.0, 1.0], "acc_norm": [1.0, 0.0, 0.0, 0.0, 0.0]},
        "sums": {
            "exact_match,strict": [1.0, 0.0, 0.0, 0.0, 0.0],
            "exact_match,flexible": [1.0, 1.0, 1.0, 0.0, 0.0],
        },
    }
    folder = write_evaluation(tmp_path, tasks, model="org/name", version=version)

    result = read_result(folder)

    assert result.divided["kinds"]["acc"] == pytest.approx(2 / 5)
    assert result.divided["sums"]["exact_match,flexible"] == pytest.approx(3 / 5)


@pytest.mark.parametrize("version", VERSIONS)
def test_model_demonstrations_and_tasks_of_each_version_are_read(tmp_path: Path, version: str) -> None:
    tasks = {"kinds": {"acc": [1.0, 0.0]}, "sums": {"acc": [1.0, 0.0]}}
    folder = write_evaluation(tmp_path, tasks, model="org/name", version=version, fewshot=3)

    result = read_result(folder)

    assert result.model.startswith("org/name")
    assert result.signature.fields["k"] == "3"
    assert result.signature.fields["datasets"] == "kinds@1.0+sums@1.0"


def test_old_files_of_tasks_with_similar_names_are_told_apart(tmp_path: Path) -> None:
    tasks = {"arc": {"acc": [1.0] * 9}, "my_arc": {"acc": [0.0] * 9}}
    folder = write_evaluation(tmp_path, tasks, model="a", version="0.4.2")
    result = read_result(folder)
    assert (result.divided["arc"]["acc"], result.divided["my_arc"]["acc"]) == (1.0, 0.0)


def test_logs_of_two_versions_have_the_same_documents(tmp_path: Path) -> None:
    """Version 0.4.4 made all targets texts. Rendered prompts and hashes are not part of the digests."""
    results = read_logs(
        write_evaluation(
            tmp_path / "a", {"sums": {"acc": bernoulli_scores(seed=1, p=0.5)}}, model="a", version="0.4.2"
        ),
        write_evaluation(
            tmp_path / "b", {"sums": {"acc": bernoulli_scores(seed=2, p=0.5)}}, model="b", version="0.4.13"
        ),
    )
    assert compare(results["a"], results["b"]).datasets[0].rows == N_DOCUMENTS


def test_the_order_of_documents_does_not_matter(tmp_path: Path) -> None:
    """But there is a warning, since the hashes of the file of results depend on it."""
    first = bernoulli_scores(seed=1, p=0.5)
    second = bernoulli_scores(seed=2, p=0.7)
    folder_of_a = write_evaluation(tmp_path / "a", {"sums": {"acc": first}}, model="a")
    folder_of_b = write_evaluation(tmp_path / "b", {"sums": {"acc": second}}, model="b")
    with edited_samples(folder_of_b) as samples:
        random.Random(0).shuffle(samples)

    results = read_logs(folder_of_a, folder_of_b)

    (sums,) = compare(results["a"], results["b"]).datasets
    assert sums.p_value == pytest.approx(mcnemar(first, second), rel=1e-9)
    assert "task_hashes" in results["b"].warnings[0]


# -- results


def test_a_result_of_logs_is_saved_and_loaded(tmp_path: Path) -> None:
    tasks = {
        "sums": {"acc": bernoulli_scores(seed=1, p=0.5), "bleu": [3.5] * N_DOCUMENTS},
        "kinds": {"acc": bernoulli_scores(seed=2, p=0.5)},
    }
    folder = write_evaluation(tmp_path, tasks, model="a", aggregation=None)
    result = read_result(folder)
    result.save(tmp_path / "result.json")
    loaded = load(tmp_path / "result.json")
    assert loaded == result
    assert loaded.samples == result.samples  # type: ignore[union-attr]
    assert str(loaded) == str(result)


def test_groups_of_tasks_are_data_sets_whose_mean_gives_each_the_same_weight(tmp_path: Path) -> None:
    tasks = {
        "group_a": {"acc": bernoulli_scores(seed=1, p=0.9, count=50)},
        "group_b": {"acc": bernoulli_scores(seed=2, p=0.1, count=150)},
    }
    folder = write_evaluation(tmp_path, tasks, model="a")
    result = read_result(folder)
    assert list(result.divided) == ["group_a", "group_b"]
    means = [sum(tasks["group_a"]["acc"]) / 50, sum(tasks["group_b"]["acc"]) / 150]
    assert result.averaged["acc"] == pytest.approx(sum(means) / 2)
    assert "same weight" in str(result)


def test_demonstrations_version_and_decoding_are_in_the_provenance(tmp_path: Path) -> None:
    folder = write_evaluation(
        tmp_path, {"sums": {"acc": bernoulli_scores(seed=1, p=0.5)}}, model="a", fewshot=3, task_version=2.0
    )
    with edited_json(results_file(folder)) as results:
        results["configs"]["sums"]["generation_kwargs"] = {"do_sample": False, "until": ["."]}

    (predictor,) = read_result(folder).provenance.predictors

    assert predictor.who["model"] == "a"
    assert predictor.how["k"] == "3"
    assert predictor.how["task version"] == "2.0"
    assert predictor.how["generation_kwargs"] == "do_sample=False, until=['.']"


def test_tasks_with_other_batch_sizes_are_one_result(tmp_path: Path) -> None:
    first_date, second_date = "2026-01-01T00-00-00.0", "2026-01-02T00-00-00.0"
    folder = write_evaluation(tmp_path, {"sums": {"acc": [1.0, 0.0]}}, model="a", date=first_date)
    with edited_json(folder / f"results_{first_date}.json") as results:
        results["config"]["batch_size"] = 8
    write_evaluation(tmp_path, {"kinds": {"acc": [1.0, 0.0]}}, model="a", date=second_date)
    with edited_json(folder / f"results_{second_date}.json") as results:
        results["config"]["batch_size"] = 16

    result = read_result(tmp_path)

    assert sorted(result.divided) == ["kinds", "sums"]


def test_a_metric_of_some_tasks_has_no_mean(tmp_path: Path) -> None:
    tasks = {
        "kinds": {"acc": bernoulli_scores(seed=1, p=0.9)},
        "sums": {"exact_match": bernoulli_scores(seed=2, p=0.1)},
    }
    folder = write_evaluation(tmp_path, tasks, model="a")
    result = read_result(folder)
    assert result.averaged == {"acc": None, "exact_match": None}
    assert "1 of 2 tasks" in result.means.missing["acc"]


def test_runs_of_one_model_are_named_by_their_folders(tmp_path: Path) -> None:
    write_evaluation(tmp_path / "zero", {"sums": {"acc": [1.0, 0.0]}}, model="a", fewshot=0)
    write_evaluation(tmp_path / "five", {"sums": {"acc": [1.0, 1.0]}}, model="a", fewshot=5)

    results = read_logs(tmp_path)

    assert sorted(results) == ["a (five)", "a (zero)"]
    comparison = compare(results["a (zero)"], results["a (five)"])
    assert "k: 0 and 5" in [str(difference) for difference in comparison.differences]


def test_tasks_that_ran_one_after_the_other_are_one_result(tmp_path: Path) -> None:
    write_evaluation(tmp_path, {"sums": {"acc": bernoulli_scores(seed=1, p=0.5)}}, model="a")
    write_evaluation(
        tmp_path, {"kinds": {"acc": bernoulli_scores(seed=2, p=0.5)}}, model="a", date="2026-01-03T00-00-00.0"
    )
    assert sorted(read_result(tmp_path).divided) == ["kinds", "sums"]


def test_another_version_of_a_task_is_not_compared(tmp_path: Path) -> None:
    results = read_logs(
        write_evaluation(
            tmp_path / "a", {"sums": {"acc": bernoulli_scores(seed=1, p=0.5)}}, model="a", task_version=1.0
        ),
        write_evaluation(
            tmp_path / "b", {"sums": {"acc": bernoulli_scores(seed=2, p=0.5)}}, model="b", task_version=2.0
        ),
    )
    with pytest.raises(ArgumentError, match=r"other versions of the task: 1\.0 and 2\.0"):
        compare(results["a"], results["b"])


def test_other_documents_under_the_same_ids_are_not_compared(tmp_path: Path) -> None:
    folder_of_a = write_evaluation(tmp_path / "a", {"sums": {"acc": bernoulli_scores(seed=1, p=0.5)}}, model="a")
    folder_of_b = write_evaluation(tmp_path / "b", {"sums": {"acc": bernoulli_scores(seed=2, p=0.5)}}, model="b")
    with edited_samples(folder_of_b) as samples:
        samples[7]["doc"]["question"] = "How many are 7 and 8?"
    results = read_logs(folder_of_a, folder_of_b)

    with pytest.raises(ArgumentError, match=r"other documents or targets under the same id.*document 7"):
        compare(results["a"], results["b"])


def test_documents_that_one_run_lacks_by_a_limit_are_not_compared(tmp_path: Path) -> None:
    results = read_logs(
        write_evaluation(tmp_path / "a", {"sums": {"acc": bernoulli_scores(seed=1, p=0.5)}}, model="a"),
        write_evaluation(tmp_path / "b", {"sums": {"acc": bernoulli_scores(seed=2, p=0.5, count=100)}}, model="b"),
    )
    comparison = compare(results["a"], results["b"])
    assert comparison.datasets[0].rows == 100
    assert "20 of 120 queries of first are not compared" in "\n".join(comparison.left_out)


def test_missing_samples_count_at_their_worst(tmp_path: Path) -> None:
    """The file of results says 120 documents, and the last 20 are lost: they count against each direction."""
    first = bernoulli_scores(seed=1, p=0.4)
    second = bernoulli_scores(seed=2, p=0.6)
    folder_of_a = write_evaluation(tmp_path / "a", {"sums": {"acc": first}}, model="a")
    folder_of_b = write_evaluation(tmp_path / "b", {"sums": {"acc": second}}, model="b")
    with edited_samples(folder_of_b) as samples:
        del samples[100:]

    results = read_logs(folder_of_a, folder_of_b)
    (sums,) = compare(results["a"], results["b"]).datasets

    assert sums.missing == (0, 20)
    accuracy_of_first = sum(first) / 120
    lowest_difference = accuracy_of_first - (sum(second[:100]) + 20) / 120  # all lost documents are right
    highest_difference = accuracy_of_first - sum(second[:100]) / 120  # all lost documents are wrong
    assert sums.ends == (pytest.approx(lowest_difference), pytest.approx(highest_difference))


def test_filters_with_other_documents_under_the_same_id_are_refused(tmp_path: Path) -> None:
    """A task with two filters logs each document twice; the last one has another target in its second sample."""
    values = {
        "exact_match,strict": bernoulli_scores(seed=1, p=0.5),
        "exact_match,flexible": bernoulli_scores(seed=2, p=0.5),
    }
    folder = write_evaluation(tmp_path, {"sums": values}, model="a")
    with edited_samples(folder) as samples:
        samples[-1]["target"] = "another target"

    with pytest.raises(SchemaError, match=f"document {N_DOCUMENTS - 1} have different documents or targets"):
        read_logs(folder)


def test_a_score_that_is_nan_is_a_missing_query(tmp_path: Path) -> None:
    folder = write_evaluation(tmp_path, {"sums": {"acc": [1.0, 0.0, 1.0, math.nan, 1.0]}}, model="a")

    result = read_result(folder)

    assert result.details["sums"].failed == 1
    assert result.query_scores["acc"].values["sums"]["samples"][3] is None  # type: ignore[index]


def test_each_metric_says_how_many_samples_it_leaves_out(tmp_path: Path) -> None:
    tasks = {"sums": {"acc": [1.0, 0.0, 1.0, math.nan, 1.0], "acc_norm": [1.0, 0.0, 1.0, 0.0, 1.0]}}
    folder = write_evaluation(tmp_path, tasks, model="a")

    result = read_result(folder)

    assert result.left_out_of("acc") == 1
    assert result.left_out_of("acc_norm") == 0
    assert str(result).count("(1 left out)") == 1


@pytest.fixture
def results_of_three_models(tmp_path: Path) -> dict[str, Result]:
    """Results of models that are right on 20 %, 50 % and 52 % of 300 documents."""
    folders = []
    for seed, (model, p) in enumerate([("low", 0.2), ("middle", 0.5), ("high", 0.52)]):
        scores = bernoulli_scores(seed=seed, p=p, count=300)
        folders.append(write_evaluation(tmp_path / model, {"sums": {"acc": scores}}, model=model))
    return read_logs(*folders)


def test_logs_are_ranked(results_of_three_models: dict[str, Result]) -> None:
    assert rank(results_of_three_models).runs[-1].run == "low"


def test_logs_are_compared_with_a_margin(results_of_three_models: dict[str, Result]) -> None:
    first_pair = compare_runs(results_of_three_models, margin=0.05).comparisons[0]

    assert (first_pair.first, first_pair.second) == ("low", "middle")
    low_is_not_worse, middle_is_not_worse = first_pair.non_inferiority
    assert not low_is_not_worse.shown
    assert middle_is_not_worse.shown


# -- metrics that are no scores of samples


def test_pairs_that_are_aggregated_are_left_out(tmp_path: Path) -> None:
    pairs = [[1, 0]] * N_DOCUMENTS
    folder = write_evaluation(tmp_path, {"sums": {"acc": bernoulli_scores(seed=1, p=0.5), "f1": pairs}}, model="a")
    result = read_result(folder)
    assert list(result.averaged) == ["acc"]
    assert "lm_eval logs a list" in result.details["sums"].missing["f1"]


def test_the_exponential_of_a_mean_is_left_out(tmp_path: Path) -> None:
    tasks = {"words": {"acc": bernoulli_scores(seed=1, p=0.5), "perplexity": [-3.5] * N_DOCUMENTS}}
    folder = write_evaluation(tmp_path, tasks, model="a", aggregation=None)
    result = read_result(folder)
    assert list(result.averaged) == ["acc"]
    assert "perplexity" in result.details["words"].missing


def test_a_metric_with_another_aggregation_is_left_out(tmp_path: Path) -> None:
    """A metric of a task's own code, whose reported value is no mean of the samples."""
    folder = write_evaluation(
        tmp_path,
        {"sums": {"acc": bernoulli_scores(seed=1, p=0.5), "largest": uniform_scores(seed=1, highest=1.0, count=120)}},
        model="a",
        aggregation=None,
    )
    with edited_json(results_file(folder)) as results:
        results["results"]["sums"]["largest,none"] = 0.99
    result = read_result(folder)
    assert list(result.averaged) == ["acc"]
    assert "which is not the mean of the samples" in result.details["sums"].missing["largest"]


def test_numbers_of_other_types_are_texts_in_the_log(tmp_path: Path) -> None:
    """Truth values of NumPy are logged so."""
    folder = write_evaluation(tmp_path, {"sums": {"acc": ["True", "False", "True", "True"]}}, model="a")

    result = read_result(folder)

    assert result.divided["sums"]["acc"] == pytest.approx(3 / 4)


def write_points(tmp_path: Path, model: str, scores: list[float]) -> Path:
    """Write the log of a model with ten points for each correct document, a metric that the library does not know."""
    points = [10 * score for score in scores]
    return write_evaluation(tmp_path / model, {"sums": {"points": points}}, model=model)


def test_a_metric_without_a_known_range_is_untested(tmp_path: Path) -> None:
    folder_of_a = write_points(tmp_path, "a", bernoulli_scores(seed=97, p=0.5))
    folder_of_b = write_points(tmp_path, "b", bernoulli_scores(seed=98, p=0.5))
    results = read_logs(folder_of_a, folder_of_b, higher_is_better=True)

    comparison = compare(results["a"], results["b"])

    (sums,) = comparison.datasets
    assert sums.p_value is None
    assert sums.difference is not None
    assert "value_range=(low, high)" in str(comparison)


def test_a_metric_with_a_stated_range_is_tested(tmp_path: Path) -> None:
    first = bernoulli_scores(seed=97, p=0.5)
    second = bernoulli_scores(seed=98, p=0.5)
    folder_of_a = write_points(tmp_path, "a", first)
    folder_of_b = write_points(tmp_path, "b", second)
    results = read_logs(folder_of_a, folder_of_b, value_range=(0, 10))

    (sums,) = compare(results["a"], results["b"]).datasets

    assert sums.p_value == pytest.approx(mcnemar(first, second), rel=1e-9)


def test_a_value_outside_the_usual_range_of_a_metric_leaves_it_untested(tmp_path: Path) -> None:
    folder = write_evaluation(tmp_path, {"sums": {"rouge1": [37.5, 12.0, 80.0]}}, model="a")
    result = read_result(folder)
    assert result.query_scores["rouge1"].low is None
    assert "outside its usual range 0 to 1" in "\n".join(result.details["sums"].notes)


def test_keys_in_the_arguments_of_a_model_are_not_copied(tmp_path: Path) -> None:
    folder = write_evaluation(tmp_path, {"sums": {"acc": bernoulli_scores(seed=1, p=0.5)}}, model="a")
    with edited_json(results_file(folder)) as results:
        results["config"]["model_args"] = "pretrained=a,tokenizer=b,api_key=sk-123,token=hf_456"
        results["config"]["gen_kwargs"] = {"temperature": 0.5, "auth_token": "sk-789"}

    (predictor,) = read_result(folder).provenance.predictors

    assert predictor.who["model_args"].startswith("pretrained=a,tokenizer=b,api_key=(hidden),token=(SHA-256 ")
    assert predictor.how["gen_kwargs"] == "auth_token=(hidden), temperature=0.5"


def test_the_public_name_reads_logs(tmp_path: Path) -> None:
    folder = write_evaluation(tmp_path, {"sums": {"acc": bernoulli_scores(seed=1, p=0.5)}}, model="a")
    assert StaICC.read_logs(folder)["a"] == read_logs(folder / f"samples_sums_{DATE}.jsonl")["a"]
