"""The means that a harness reports are compared with those of the samples, also where samples lack a score."""

from __future__ import annotations

import math
import random
from pathlib import Path
from typing import Any

import pytest

from StaICC import read_logs
from StaICC.errors import SchemaError
from StaICC.logs.helm import read_helm_run
from StaICC.logs.inspect_ai import read_json_log
from StaICC.logs.lm_eval import read_results
from StaICC.logs.reported_means import SampleGroup, can_be_mean
from StaICC.logs.samples import LoggedRun
from tests.logs.helm_logs import instance_stats, request_state, stat, write_run
from tests.logs.inspect_logs import header, result_of_scorer, sample, write_json
from tests.logs.made_logs import edited_json, edited_samples, results_file, write_evaluation


def write_run_that_reports(
    reported: float, folder: Path, scores: list[float], standard_error: float | None = None
) -> Path:
    """Write a run of lm_eval that reports this accuracy, whatever the scores of its samples are.

    Returns:
        The path of its file of results.
    """
    write_evaluation(folder, {"sums": {"acc": scores}}, model="a")
    file = results_file(folder / "a")
    with edited_json(file) as results:
        results["results"]["sums"]["acc,none"] = reported
        if standard_error is not None:
            results["results"]["sums"]["acc_stderr,none"] = standard_error
    return file


def remove_last_samples(results: Path, count: int) -> None:
    """Remove the last lines of the file of samples next to a file of results."""
    with edited_samples(results.parent) as samples:
        del samples[-count:]


def read_lm_eval(results: Path) -> LoggedRun:
    """Return the only run of a file of results."""
    (run,) = read_results(results).runs
    return run


# -- lm_eval


def test_one_sample_without_a_score_does_not_hide_that_the_samples_are_of_another_run(tmp_path: Path) -> None:
    results = write_run_that_reports(0.1, tmp_path, scores=[math.nan] + [1.0] * 59)
    with pytest.raises(SchemaError, match="samples of another run"):
        read_lm_eval(results)


def test_one_missing_line_does_not_hide_that_the_samples_are_of_another_run(tmp_path: Path) -> None:
    results = write_run_that_reports(0.1, tmp_path, scores=[1.0] * 60)
    remove_last_samples(results, 1)
    with pytest.raises(SchemaError, match="samples of another run"):
        read_lm_eval(results)


def test_lost_samples_may_have_any_value_of_the_range(tmp_path: Path) -> None:
    """Of 60 samples, 40 are correct. Without ten of them, the mean of the others is another one."""
    results = write_run_that_reports(40 / 60, tmp_path, scores=[0.0] * 20 + [1.0] * 40)
    remove_last_samples(results, 10)
    run = read_lm_eval(results)
    assert len(run.samples) == 60
    assert run.notes == ("the log has 50 of 60 documents: the others are missing",)


def write_run_of_every_seventh_document(folder: Path, expected: int) -> Path:
    """Write a run of 143 of 1,001 documents that states another number of documents, and return its file of results."""
    every_seventh = range(0, 1001, 7)
    n = len(every_seventh)
    generator = random.Random(1)
    scores = [float(generator.random() < 0.6) for _ in every_seventh]
    write_evaluation(folder, {"sums": {"acc": scores}}, model="a", documents=every_seventh)
    accuracy = sum(scores) / n
    file = results_file(folder / "a")
    with edited_json(file) as results:
        results["results"]["sums"]["acc_stderr,none"] = math.sqrt(accuracy * (1 - accuracy) / (n - 1))
        results["n-samples"]["sums"]["effective"] = expected
    return file


def test_selected_documents_are_not_missing(tmp_path: Path) -> None:
    run = read_lm_eval(write_run_of_every_seventh_document(tmp_path, expected=1000))
    assert len(run.samples) == 143
    assert run.expected == 143
    assert "they were selected (--samples)" in run.notes[0]


def test_a_log_that_lost_samples_by_chance_without_a_change_of_the_mean_is_no_selection(tmp_path: Path) -> None:
    """The standard error is that of 60 samples, so that ten are missing."""
    standard_error_of_60 = math.sqrt(0.5 * 0.5 / (60 - 1))
    results = write_run_that_reports(0.5, tmp_path, scores=[0.0, 1.0] * 30, standard_error=standard_error_of_60)
    remove_last_samples(results, 10)
    assert len(read_lm_eval(results).samples) == 60


# -- inspect_ai


FAILED_SAMPLE = sample(4, None, scores={}, error={"message": "too many requests"})
"""A fifth sample, which has no score."""


def header_with_accuracy(accuracy: float) -> dict[str, Any]:
    """Return the header of a run of five rows that reports an accuracy."""
    head = header(n_rows=5)
    head["results"]["scores"] = [result_of_scorer("match", accuracy=accuracy)]
    return head


def test_inspect_reports_the_mean_of_the_scored_samples(tmp_path: Path) -> None:
    """Two of four samples are right. The fifth one has no score and does not count."""
    samples = [sample(0, "C"), sample(1, "C"), sample(2, "I"), sample(3, "I"), FAILED_SAMPLE]
    (run,) = read_json_log(write_json(tmp_path / "log.json", samples, header_with_accuracy(0.5))).runs
    assert run.metrics == ("match",)


def test_a_mean_that_inspect_reports_and_its_samples_contradict_is_refused(tmp_path: Path) -> None:
    samples = [sample(0, "C"), sample(1, "C"), sample(2, "C"), sample(3, "C"), FAILED_SAMPLE]
    with pytest.raises(SchemaError, match=r"inspect_ai reports 0\.5, which is not the mean of the samples \(1\)"):
        read_json_log(write_json(tmp_path / "log.json", samples, header_with_accuracy(0.5)))


def test_inspect_averages_the_epochs_of_a_row_first(tmp_path: Path) -> None:
    """Row 0 has one scored epoch and row 1 has two: the mean of the rows is 1/2, that of the samples 1/3."""
    head = header(n_rows=2, epochs=2)
    head["results"]["scores"] = [result_of_scorer("match", accuracy=0.5)]
    failed = sample(0, None, epoch=2, scores={}, error={"message": "too many requests"})
    samples = [sample(0, "C"), failed, sample(1, "I"), sample(1, "I", epoch=2)]
    log = write_json(tmp_path / "log.json", samples, head)

    (run,) = read_json_log(log).runs

    assert run.metrics == ("match",)
    (note,) = run.notes
    assert "match: inspect_ai reports 0.5, the mean over rows after the mean of their epochs" in note
    assert "here it is 0.3333, the mean over all scored samples" in note
    (result,) = read_logs(log).values()
    (value,) = result.averaged.values()
    assert value == pytest.approx(1 / 3)


def test_epochs_that_are_all_scored_need_no_note(tmp_path: Path) -> None:
    head = header(n_rows=2, epochs=2)
    head["results"]["scores"] = [result_of_scorer("match", accuracy=0.25)]
    samples = [sample(0, "C"), sample(0, "I", epoch=2), sample(1, "I"), sample(1, "I", epoch=2)]

    (run,) = read_json_log(write_json(tmp_path / "log.json", samples, head)).runs

    assert run.notes == ()


def test_invalidated_samples_may_be_part_of_the_reported_mean(tmp_path: Path) -> None:
    head = header(n_rows=4)
    head["results"]["scores"] = [result_of_scorer("match", accuracy=0.75)]
    invalidated = sample(3, "C", invalidation={"author": "someone"})
    samples = [sample(row, "CCI"[row]) for row in range(3)]
    (run,) = read_json_log(write_json(tmp_path / "log.json", [*samples, invalidated], head)).runs
    assert run.metrics == ("match",)


# -- HELM


def test_helm_reports_the_mean_of_the_instances_that_have_the_metric(tmp_path: Path) -> None:
    items = [instance_stats(f"id{n}", stat("exact_match", float(n == 0)), stat("f1_score", 0.5)) for n in range(2)]
    items.append(instance_stats("id2", stat("f1_score", 0.5)))
    stats = [stat("exact_match", 0.5), stat("f1_score", 0.5)]
    (run,) = read_helm_run(write_run(tmp_path / "run", items, stats=stats)).runs
    assert run.metrics == ("exact_match", "f1_score")

    stats = [stat("exact_match", 0.9), stat("f1_score", 0.5)]
    (run,) = read_helm_run(write_run(tmp_path / "changed", items, stats=stats)).runs
    assert run.metrics == ("f1_score",)


def test_an_instance_that_the_log_of_helm_lost_may_have_any_value(tmp_path: Path) -> None:
    items = [instance_stats("id0", stat("exact_match", 1.0))]
    requests = [request_state("id0"), request_state("id1")]
    for reported, is_possible in ((0.5, True), (1.0, True), (0.2, False)):
        folder = write_run(tmp_path / str(reported), items, requests, stats=[stat("exact_match", reported)])
        (run,) = read_helm_run(folder).runs
        assert ("exact_match" in run.metrics) is is_possible


# -- any harness


def test_the_mean_of_all_samples_can_be_reported_whatever_samples_the_log_lost() -> None:
    """In 300 simulated logs: five groups of one to three samples, from each of which some are lost."""
    generator = random.Random(2)
    for _ in range(300):
        all_samples: list[float] = []
        means_of_groups = []
        groups = []
        for _ in range(5):
            samples = [generator.random() for _ in range(generator.randint(1, 3))]
            seen_count = generator.randint(0, len(samples))
            groups.append(SampleGroup(samples[:seen_count], unseen_count=len(samples) - seen_count))
            means_of_groups.append(sum(samples) / len(samples))
            all_samples += samples

        mean_of_samples = sum(all_samples) / len(all_samples)
        mean_of_groups = sum(means_of_groups) / len(means_of_groups)
        assert can_be_mean(mean_of_samples, groups, (0.0, 1.0))
        assert can_be_mean(mean_of_groups, groups, (0.0, 1.0))


def test_nothing_is_known_about_lost_samples_of_a_metric_without_a_range() -> None:
    assert can_be_mean(1000.0, [SampleGroup([1.0], unseen_count=1)], value_range=None)
    assert not can_be_mean(1000.0, [SampleGroup([1.0])], value_range=None)
