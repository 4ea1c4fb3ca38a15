"""Logs of lm_eval in the formats of its versions: read as results, and compared sample by sample."""

from __future__ import annotations

import json
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
from tests.logs.made_logs import DATE, results_file, samples_file, write_evaluation

VERSIONS = ("0.4.2", "0.4.3", "0.4.4", "0.4.7", "0.4.13")


COINS = 120
"""The number of documents of most tasks here."""


def coins(seed: int, share: float, count: int = COINS) -> list[float]:
    """Return scores of documents that are 1 with a probability, else 0."""
    generator = random.Random(seed)
    return [float(generator.random() < share) for _ in range(count)]


def grades(seed: int, most: float, count: int = 20) -> list[float]:
    """Return scores of documents from 0 to a largest one, with four digits."""
    generator = random.Random(seed)
    return [round(generator.random() * most, 4) for _ in range(count)]


def only(results: dict[str, Result]) -> Result:
    """Return the only result that logs gave."""
    (result,) = results.values()
    return result


# -- p-values and intervals by other formulas


def favourable_weight(documents: int) -> float:
    """The weight of the more favourable of the two pseudo-rows."""
    return min(0.25, 0.0214 * math.sqrt(documents))


def mcnemar(first: list[float], second: list[float]) -> float:
    """The two-sided test of McNemar: the sign test of the documents on which the runs differ (a binomial).

    The observed outcome counts with one minus the weight of the favourable pseudo-row; with 1 the test would be exact,
    with 1/2 the p-value would be the mid-p-value.
    """
    gains = sum(a > b for a, b in zip(first, second, strict=True))
    losses = sum(a < b for a, b in zip(first, second, strict=True))
    differing = gains + losses
    most = max(gains, losses)
    more_extreme = sum(math.comb(differing, count) for count in range(most + 1, differing + 1))
    observed = (1 - favourable_weight(len(first))) * math.comb(differing, most)
    return min(1.0, 2 * (more_extreme + observed) / 2**differing)


def gaffke(steps: list[Fraction], extreme: Fraction) -> float:
    """P(sum of the steps and of one extreme step, with exponential weights, is at most 0), by partial fractions.

    The steps must be different from each other. With x the terms, the probability that the weighted sum is positive is
    the sum over positive terms of the product over all others of ``x_i / (x_i - x_j)``.
    """
    terms = [*steps, extreme]
    positive = Fraction(0)
    for index, term in enumerate(terms):
        if term <= 0:
            continue
        product = Fraction(1)
        for other_index, other in enumerate(terms):
            if other_index != index:
                product *= term / (term - other)
        positive += product
    return float(1 - positive)


def one_sided_gaffke(steps: list[Fraction], lowest: Fraction, highest: Fraction) -> float:
    """The weighted mean of the p-values with the lowest and with the highest step that a further row could have."""
    weight = favourable_weight(len(steps))
    return (1 - weight) * gaffke(steps, lowest) + weight * gaffke(steps, highest)


def two_sided_gaffke(first: list[float], second: list[float], width: int) -> float:
    """Twice the smaller one-sided p-value. A further row can change the difference by at most the width."""
    steps = [Fraction(str(a)) - Fraction(str(b)) for a, b in zip(first, second, strict=True)]
    higher = one_sided_gaffke(steps, Fraction(-width), Fraction(width))
    lower = one_sided_gaffke([-step for step in steps], Fraction(-width), Fraction(width))
    return min(1.0, 2 * min(higher, lower))


def test_the_p_value_of_correct_answers_is_that_of_mcnemar(tmp_path: Path) -> None:
    first, second = coins(1, 0.5), coins(2, 0.7)
    results = read_logs(
        write_evaluation(tmp_path / "a", {"sums": {"acc": first}}, model="m/a"),
        write_evaluation(tmp_path / "b", {"sums": {"acc": second}}, model="m/b"),
    )
    comparison = compare(results["m/a"], results["m/b"])
    (line,) = comparison.datasets
    assert line.values == (pytest.approx(sum(first) / 120), pytest.approx(sum(second) / 120))
    assert line.p_value == pytest.approx(mcnemar(first, second), rel=1e-9)
    assert line.rows == 120


def test_the_p_value_of_grades_is_that_of_gaffke_for_the_range_of_the_metric(tmp_path: Path) -> None:
    first, second = grades(1, 0.5), [1 - value for value in grades(2, 0.5)]
    results = read_logs(
        write_evaluation(tmp_path / "a", {"summary": {"rougeL": first}}, model="a"),
        write_evaluation(tmp_path / "b", {"summary": {"rougeL": second}}, model="b"),
    )
    (line,) = compare(results["a"], results["b"]).datasets
    assert line.p_value == pytest.approx(two_sided_gaffke(first, second, width=1), rel=1e-6)


def test_the_ends_of_the_interval_are_the_differences_with_p_value_5_percent(tmp_path: Path) -> None:
    """At the lower end d of the interval of 95 %, the one-sided test of "at most d" has p = 0.025; so at the upper."""
    first, second = grades(3, 0.9), grades(4, 0.4)
    results = read_logs(
        write_evaluation(tmp_path / "a", {"summary": {"rouge1": first}}, model="a"),
        write_evaluation(tmp_path / "b", {"summary": {"rouge1": second}}, model="b"),
    )
    interval = compare(results["a"], results["b"]).datasets[0].interval
    assert interval is not None
    steps = [Fraction(str(a)) - Fraction(str(b)) for a, b in zip(first, second, strict=True)]
    low, high = Fraction(interval.low), Fraction(interval.high)
    assert one_sided_gaffke([step - low for step in steps], -1 - low, 1 - low) == pytest.approx(0.025, abs=1e-6)
    assert one_sided_gaffke([high - step for step in steps], high - 1, high + 1) == pytest.approx(0.025, abs=1e-6)


def test_the_interval_of_an_accuracy_is_that_of_wilson(tmp_path: Path) -> None:
    correct = coins(5, 0.3)
    result = only(read_logs(write_evaluation(tmp_path, {"sums": {"acc": correct}}, model="a")))
    interval = result.details["sums"].intervals["acc"]
    n, share, z = len(correct), sum(correct) / len(correct), 1.959963984540054
    centre = (share + z * z / (2 * n)) / (1 + z * z / n)
    half_width = z / (1 + z * z / n) * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    # The quantile is that of Student's t with n - 1 degrees of freedom instead of the normal one.
    assert interval.low == pytest.approx(centre - half_width, abs=0.002)
    assert interval.high == pytest.approx(centre + half_width, abs=0.002)


# -- versions of the format


@pytest.mark.parametrize("version", VERSIONS)
def test_the_logs_of_each_version_are_read(tmp_path: Path, version: str) -> None:
    tasks = {
        "kinds": {"acc": coins(1, 0.4), "acc_norm": coins(2, 0.5)},
        "sums": {"exact_match,strict": coins(3, 0.2), "exact_match,flexible": coins(4, 0.6)},
    }
    result = only(read_logs(write_evaluation(tmp_path, tasks, model="org/name", version=version, fewshot=3)))
    assert result.divided["kinds"]["acc"] == pytest.approx(sum(tasks["kinds"]["acc"]) / 120)
    assert result.divided["sums"]["exact_match,flexible"] == pytest.approx(sum(coins(4, 0.6)) / 120)
    assert result.model.startswith("org/name")
    assert result.signature.fields["k"] == "3"
    assert result.signature.fields["datasets"] == "kinds@1.0+sums@1.0"


def test_old_files_of_tasks_with_similar_names_are_told_apart(tmp_path: Path) -> None:
    tasks = {"arc": {"acc": [1.0] * 9}, "my_arc": {"acc": [0.0] * 9}}
    result = only(read_logs(write_evaluation(tmp_path, tasks, model="a", version="0.4.2")))
    assert (result.divided["arc"]["acc"], result.divided["my_arc"]["acc"]) == (1.0, 0.0)


def test_logs_of_two_versions_have_the_same_documents(tmp_path: Path) -> None:
    """Version 0.4.4 made all targets texts. Rendered prompts and hashes are not part of the digests."""
    results = read_logs(
        write_evaluation(tmp_path / "a", {"sums": {"acc": coins(1, 0.5)}}, model="a", version="0.4.2"),
        write_evaluation(tmp_path / "b", {"sums": {"acc": coins(2, 0.5)}}, model="b", version="0.4.13"),
    )
    assert compare(results["a"], results["b"]).datasets[0].rows == 120


def test_the_order_of_documents_does_not_matter(tmp_path: Path) -> None:
    first, second = coins(1, 0.5), coins(2, 0.7)
    folder = write_evaluation(tmp_path / "b", {"sums": {"acc": second}}, model="b")
    file = samples_file(folder)
    lines = file.read_text("utf-8").splitlines(keepends=True)
    random.Random(0).shuffle(lines)
    file.write_text("".join(lines), "utf-8")
    results = read_logs(write_evaluation(tmp_path / "a", {"sums": {"acc": first}}, model="a"), folder)
    assert compare(results["a"], results["b"]).datasets[0].p_value == pytest.approx(mcnemar(first, second), rel=1e-9)
    assert "task_hashes" in results["b"].warnings[0]


# -- results


def test_a_result_of_logs_is_saved_and_loaded(tmp_path: Path) -> None:
    tasks = {"sums": {"acc": coins(1, 0.5), "bleu": [3.5] * 120}, "kinds": {"acc": coins(2, 0.5)}}
    result = only(read_logs(write_evaluation(tmp_path, tasks, model="a", aggregation=None)))
    result.save(tmp_path / "result.json")
    loaded = load(tmp_path / "result.json")
    assert loaded == result
    assert loaded.samples == result.samples  # type: ignore[union-attr]
    assert str(loaded) == str(result)


def test_groups_of_tasks_are_data_sets_whose_mean_gives_each_the_same_weight(tmp_path: Path) -> None:
    tasks = {"group_a": {"acc": coins(1, 0.9, 50)}, "group_b": {"acc": coins(2, 0.1, 150)}}
    result = only(read_logs(write_evaluation(tmp_path, tasks, model="a")))
    assert list(result.divided) == ["group_a", "group_b"]
    means = [sum(tasks["group_a"]["acc"]) / 50, sum(tasks["group_b"]["acc"]) / 150]
    assert result.averaged["acc"] == pytest.approx(sum(means) / 2)
    assert "same weight" in str(result)


def test_demonstrations_version_and_decoding_are_in_the_provenance(tmp_path: Path) -> None:
    folder = write_evaluation(tmp_path, {"sums": {"acc": coins(1, 0.5)}}, model="a", fewshot=3, task_version=2.0)
    file = results_file(folder)
    values = json.loads(file.read_text("utf-8"))
    values["configs"]["sums"]["generation_kwargs"] = {"do_sample": False, "until": ["."]}
    file.write_text(json.dumps(values), "utf-8")
    (predictor,) = only(read_logs(folder)).provenance.predictors
    assert predictor.who["model"] == "a"
    assert (predictor.how["k"], predictor.how["task version"]) == ("3", "2.0")
    assert predictor.how["generation_kwargs"] == "do_sample=False, until=['.']"


def test_tasks_with_other_batch_sizes_are_one_result(tmp_path: Path) -> None:
    for task, batch_size in (("sums", 8), ("kinds", 16)):
        date = f"2026-01-0{batch_size // 8}T00-00-00.0"
        folder = write_evaluation(tmp_path, {task: {"acc": coins(1, 0.5)}}, model="a", date=date)
        file = folder / f"results_{date}.json"
        values = json.loads(file.read_text("utf-8"))
        values["config"]["batch_size"] = batch_size
        file.write_text(json.dumps(values), "utf-8")
    assert sorted(only(read_logs(tmp_path)).divided) == ["kinds", "sums"]


def test_a_metric_of_some_tasks_has_no_mean(tmp_path: Path) -> None:
    tasks = {"kinds": {"acc": coins(1, 0.9)}, "sums": {"exact_match": coins(2, 0.1)}}
    result = only(read_logs(write_evaluation(tmp_path, tasks, model="a")))
    assert result.averaged == {"acc": None, "exact_match": None}
    assert "1 of 2 tasks" in result.means.missing["acc"]


def test_runs_of_one_model_are_named_by_their_folders(tmp_path: Path) -> None:
    for shots in (0, 5):
        write_evaluation(tmp_path / f"shots{shots}", {"sums": {"acc": coins(shots, 0.5)}}, model="a", fewshot=shots)
    results = read_logs(tmp_path)
    assert sorted(results) == ["a (shots0)", "a (shots5)"]
    comparison = compare(*results.values())
    assert any(str(difference) == "k: 0 and 5" for difference in comparison.differences), (
        f"got {comparison.differences}"
    )


def test_tasks_that_ran_one_after_the_other_are_one_result(tmp_path: Path) -> None:
    write_evaluation(tmp_path, {"sums": {"acc": coins(1, 0.5)}}, model="a")
    write_evaluation(tmp_path, {"kinds": {"acc": coins(2, 0.5)}}, model="a", date="2026-01-03T00-00-00.0")
    assert sorted(only(read_logs(tmp_path)).divided) == ["kinds", "sums"]


def test_another_version_of_a_task_is_not_compared(tmp_path: Path) -> None:
    results = read_logs(
        write_evaluation(tmp_path / "a", {"sums": {"acc": coins(1, 0.5)}}, model="a", task_version=1.0),
        write_evaluation(tmp_path / "b", {"sums": {"acc": coins(2, 0.5)}}, model="b", task_version=2.0),
    )
    with pytest.raises(ArgumentError, match=r"other versions of the task: 1\.0 and 2\.0"):
        compare(results["a"], results["b"])


def test_other_documents_under_the_same_ids_are_not_compared(tmp_path: Path) -> None:
    folder = write_evaluation(tmp_path / "b", {"sums": {"acc": coins(2, 0.5)}}, model="b")
    file = samples_file(folder)
    file.write_text(file.read_text("utf-8").replace("How many are 7 and 7?", "How many are 7 and 8?"), "utf-8")
    results = read_logs(write_evaluation(tmp_path / "a", {"sums": {"acc": coins(1, 0.5)}}, model="a"), folder)
    with pytest.raises(ArgumentError, match=r"other documents or targets under the same id.*document 7"):
        compare(results["a"], results["b"])


def test_documents_that_one_run_lacks_by_a_limit_are_not_compared(tmp_path: Path) -> None:
    results = read_logs(
        write_evaluation(tmp_path / "a", {"sums": {"acc": coins(1, 0.5)}}, model="a"),
        write_evaluation(tmp_path / "b", {"sums": {"acc": coins(2, 0.5, 100)}}, model="b"),
    )
    comparison = compare(results["a"], results["b"])
    assert comparison.datasets[0].rows == 100
    assert any("20 of 120 queries of first are not compared" in note for note in comparison.left_out), (
        f"got {comparison.left_out}"
    )


def test_missing_samples_count_at_their_worst(tmp_path: Path) -> None:
    """The file of results says 120 documents, and the last 20 are lost: they count against each direction."""
    first, second = coins(1, 0.4), coins(2, 0.6)
    folder = write_evaluation(tmp_path / "b", {"sums": {"acc": second}}, model="b")
    file = samples_file(folder)
    lines = file.read_text("utf-8").splitlines(keepends=True)
    file.write_text("".join(lines[:100]), "utf-8")
    results = read_logs(write_evaluation(tmp_path / "a", {"sums": {"acc": first}}, model="a"), folder)
    (line,) = compare(results["a"], results["b"]).datasets
    assert line.missing == (0, 20)
    assert line.ends is not None
    lost_right = sum(first) / 120 - (sum(second[:100]) + 20) / 120
    lost_wrong = sum(first) / 120 - sum(second[:100]) / 120
    assert line.ends == (pytest.approx(lost_right), pytest.approx(lost_wrong))


def test_filters_with_other_documents_under_the_same_id_are_refused(tmp_path: Path) -> None:
    """A task with two filters logs each document twice; the last one has another target in its second sample."""
    values = {"exact_match,strict": coins(1, 0.5), "exact_match,flexible": coins(2, 0.5)}
    folder = write_evaluation(tmp_path, {"sums": values}, model="a")
    file = samples_file(folder)
    *other_samples, last_sample = [json.loads(line) for line in file.read_text("utf-8").splitlines()]
    last_sample["target"] = "another target"
    file.write_text("\n".join(map(json.dumps, [*other_samples, last_sample])), "utf-8")

    with pytest.raises(SchemaError, match=f"document {COINS - 1} have different documents or targets"):
        read_logs(folder)


def test_a_score_that_is_nan_is_a_missing_query(tmp_path: Path) -> None:
    values: list[float] = coins(1, 0.5)
    values[3] = math.nan
    folder = write_evaluation(tmp_path, {"sums": {"acc": values}}, model="a")
    result = only(read_logs(folder))
    assert result.details["sums"].failed == 1
    assert result.query_scores["acc"].values["sums"]["samples"][3] is None  # type: ignore[index]


def test_each_metric_says_how_many_samples_it_leaves_out(tmp_path: Path) -> None:
    values: list[float] = coins(1, 0.5)
    values[3] = math.nan
    tasks = {"sums": {"acc": values, "acc_norm": coins(2, 0.5)}}
    result = only(read_logs(write_evaluation(tmp_path, tasks, model="a")))
    assert (result.left_out_of("acc"), result.left_out_of("acc_norm")) == (1, 0)
    assert str(result).count("(1 left out)") == 1


def test_ranks_and_margins_are_those_of_other_results(tmp_path: Path) -> None:
    folders = []
    for number, share in enumerate((0.2, 0.5, 0.52)):
        tasks = {"sums": {"acc": coins(number, share, 300)}}
        folders.append(write_evaluation(tmp_path / str(number), tasks, model=f"model {number}"))
    results = read_logs(*folders)
    ranking = rank(results)
    assert ranking.runs[-1].run == "model 0"
    pair = compare_runs(results, margin=0.05).comparisons[0]
    assert [claim.shown for claim in pair.non_inferiority] == [False, True]


# -- metrics that are no scores of samples


def test_pairs_that_are_aggregated_are_left_out(tmp_path: Path) -> None:
    pairs = [[1, 0]] * 120
    result = only(read_logs(write_evaluation(tmp_path, {"sums": {"acc": coins(1, 0.5), "f1": pairs}}, model="a")))
    assert list(result.averaged) == ["acc"]
    assert "lm_eval logs a list" in result.details["sums"].missing["f1"]


def test_the_exponential_of_a_mean_is_left_out(tmp_path: Path) -> None:
    tasks = {"words": {"acc": coins(1, 0.5), "perplexity": [-3.5] * 120}}
    result = only(read_logs(write_evaluation(tmp_path, tasks, model="a", aggregation=None)))
    assert list(result.averaged) == ["acc"]
    assert "perplexity" in result.details["words"].missing


def test_a_metric_with_another_aggregation_is_left_out(tmp_path: Path) -> None:
    """A metric of a task's own code, whose reported value is no mean of the samples."""
    folder = write_evaluation(
        tmp_path, {"sums": {"acc": coins(1, 0.5), "largest": grades(1, 1.0, 120)}}, model="a", aggregation=None
    )
    file = results_file(folder)
    values = json.loads(file.read_text("utf-8"))
    values["results"]["sums"]["largest,none"] = 0.99
    file.write_text(json.dumps(values), "utf-8")
    result = only(read_logs(folder))
    assert list(result.averaged) == ["acc"]
    assert "which is not the mean of the samples" in result.details["sums"].missing["largest"]


def test_numbers_of_other_types_are_texts_in_the_log(tmp_path: Path) -> None:
    texts = ["True" if value else "False" for value in coins(1, 0.5)]
    result = only(read_logs(write_evaluation(tmp_path, {"sums": {"acc": texts}}, model="a")))
    assert result.divided["sums"]["acc"] == pytest.approx(sum(coins(1, 0.5)) / 120)


def test_a_metric_without_a_known_range_is_untested_until_the_range_is_stated(tmp_path: Path) -> None:
    folders = []
    for model in ("a", "b"):
        values = [10 * value for value in coins(ord(model), 0.5)]
        folders.append(write_evaluation(tmp_path / model, {"sums": {"points": values}}, model=model))
    results = read_logs(*folders, higher_is_better=True)
    comparison = compare(results["a"], results["b"])
    assert comparison.datasets[0].p_value is None
    assert comparison.datasets[0].difference is not None
    assert "value_range=(low, high)" in str(comparison)

    results = read_logs(*folders, value_range=(0, 10))
    p_value = compare(results["a"], results["b"]).datasets[0].p_value
    assert p_value == pytest.approx(mcnemar(coins(ord("a"), 0.5), coins(ord("b"), 0.5)), rel=1e-9)


def test_a_value_outside_the_usual_range_of_a_metric_leaves_it_untested(tmp_path: Path) -> None:
    result = only(read_logs(write_evaluation(tmp_path, {"sums": {"rouge1": [37.5, 12.0, 80.0]}}, model="a")))
    assert result.query_scores["rouge1"].low is None
    assert any("outside its usual range 0 to 1" in note for note in result.details["sums"].notes), (
        f"got {result.details['sums'].notes}"
    )


def test_keys_in_the_arguments_of_a_model_are_not_copied(tmp_path: Path) -> None:
    folder = write_evaluation(tmp_path, {"sums": {"acc": coins(1, 0.5)}}, model="a")
    file = results_file(folder)
    values = json.loads(file.read_text("utf-8"))
    values["config"]["model_args"] = "pretrained=a,tokenizer=b,api_key=sk-123,token=hf_456"
    values["config"]["gen_kwargs"] = {"temperature": 0.5, "auth_token": "sk-789"}
    file.write_text(json.dumps(values), "utf-8")
    result = only(read_logs(folder))
    (predictor,) = result.provenance.predictors
    assert predictor.who["model_args"].startswith("pretrained=a,tokenizer=b,api_key=(hidden),token=(SHA-256 ")
    assert predictor.how["gen_kwargs"] == "auth_token=(hidden), temperature=0.5"


def test_the_public_name_reads_logs(tmp_path: Path) -> None:
    folder = write_evaluation(tmp_path, {"sums": {"acc": coins(1, 0.5)}}, model="a")
    assert StaICC.read_logs(folder)["a"] == read_logs(folder / f"samples_sums_{DATE}.jsonl")["a"]
