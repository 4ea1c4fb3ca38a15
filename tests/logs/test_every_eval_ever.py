"""Files of Every Eval Ever: round trips of our own exports, files as converters write them, and broken ones."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import StaICC
from StaICC.benchmarks.saved_prompts import written_prompts
from StaICC.comparing.comparison import compare
from StaICC.errors import StaICCError
from StaICC.logs.every_eval_ever import read_evaluation
from StaICC.logs.reading import read_logs
from StaICC.results.every_eval_ever import export_result
from StaICC.results.result import Result

UUID = "6f0c3b0e-0f6e-4d56-8a7a-2f6b1c9d3e4f"


def model(shift: int) -> Callable[[str, list[str]], list[float]]:
    """Return a model whose probabilities depend on the prompt and a number."""

    def predict(prompt: str, label_space: list[str]) -> list[float]:
        weights = []
        for label in range(len(label_space)):
            weights.append(1.0 + (shift * len(prompt) + 3 * label) % (6 + shift))
        return [weight / sum(weights) for weight in weights]

    return predict


def write_exported(exported: Any, folder: Path) -> Path:
    """Write the two files of an exported result and return the path of its scores."""
    path = folder / exported.aggregate_path
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(exported.aggregate)
    (folder / exported.samples_path).write_bytes(exported.samples)
    return path


def export(result: Result, folder: Path) -> Path:
    """Export a result to a folder, with its prompts unless it is from logs, and return the path of its scores."""
    is_from_logs = bool(result.samples)
    prompts = {} if is_from_logs else written_prompts(result)
    return write_exported(export_result(result, prompts), folder)


# -- round trips


@pytest.mark.parametrize("metric", ["accuracy", "averaged_truelabel_likelihood"])
def test_exported_runs_are_compared_as_the_runs_themselves(tmp_path: Path, metric: str) -> None:
    benchmark = StaICC.Normal(datasets=["mini"])
    first = benchmark(model(1), model_name="org/first")
    second = benchmark(model(5), model_name="org/second")
    export(first, tmp_path)
    export(second, tmp_path)

    exported_runs = read_logs(tmp_path)

    assert list(exported_runs) == ["org/first", "org/second"]
    (expected,) = compare(first, second, metric=metric).datasets
    (received,) = compare(*exported_runs.values(), metric=metric).datasets
    assert expected.p_value is not None
    assert received.interval is not None
    assert expected.interval is not None
    assert received.low == pytest.approx(expected.low, abs=1e-12)
    assert received.high == pytest.approx(expected.high, abs=1e-12)
    assert replace(received, dataset="mini", interval=None) == replace(expected, interval=None)


def test_a_result_of_logs_that_is_exported_is_read_back(tmp_path: Path) -> None:
    """Scores, intervals, missing samples and digests of documents are those of the log."""
    lines = ["row,repeat,acc,points,digest"]
    for row in range(20):
        for repeat in range(2):
            lines.append(f"row{row},{repeat},{row % 3 % 2},{row * 0.1:.1f},{row:032x}")
    third_row_without_scores = "row2,1,,,00000000000000000000000000000002"
    lines[1 + 2 * 2 + 1] = third_row_without_scores
    (tmp_path / "scores.csv").write_text("\n".join(lines), "utf-8")
    (logged,) = read_logs(
        tmp_path / "scores.csv", value_range={"points": (0.0, 5.0)}, higher_is_better={"points": True}
    ).values()

    (read_back,) = read_logs(export(logged, tmp_path / "out")).values()

    assert logged.details["scores"].failed == 1
    assert read_back.details["scores"].failed == 1
    assert read_back.divided == logged.divided
    assert read_back.details["scores"].intervals == logged.details["scores"].intervals
    assert read_back.samples == logged.samples
    assert read_back.query_scores == logged.query_scores
    assert read_back.higher_is_better == logged.higher_is_better


# -- files as converters write them


def sample_of(row: int, repeat: int, result_id: str) -> dict[str, Any]:
    """Return a line of a file of samples. Every third document is wrong, beginning with the first one."""
    score = 0.0 if (row + repeat) % 3 == 0 else 1.0
    return {
        "schema_version": "0.3.0",
        "evaluation_id": "sums/org/name/1",
        "model_id": "org/name",
        "evaluation_name": "sums",
        "evaluation_result_id": result_id,
        "sample_id": f"s{row}",
        "interaction_type": "single_turn",
        "input": {"raw": f"{row} + 1 =", "reference": [str(row + 1)]},
        "output": {"raw": ["?"]},
        "answer_attribution": [],
        "evaluation": {"score": score, "is_correct": score == 1.0},
        "error": None,
        "metadata": {"epoch": str(repeat + 1)},
    }


def samples(metric_ids: tuple[str, ...] = ("m:accuracy",), repeats: int = 1) -> list[dict[str, Any]]:
    """Return the lines of a file of samples: ten documents with repeats, each with a line for each metric."""
    lines = []
    for row in range(10):
        for repeat in range(repeats):
            lines += [sample_of(row, repeat, result_id) for result_id in metric_ids]
    return lines


def mean_of(lines: list[dict[str, Any]], result_id: str) -> float:
    """Return the mean of the scores of a metric."""
    scores = [line["evaluation"]["score"] for line in lines if line["evaluation_result_id"] == result_id]
    return sum(scores) / len(scores)


def result_of_metric(lines: list[dict[str, Any]], result_id: str) -> dict[str, Any]:
    """Return the entry of a metric in the file of scores."""
    config = {"metric_id": "accuracy", "lower_is_better": False, "score_type": "continuous"}
    return {
        "evaluation_result_id": result_id,
        "evaluation_name": "sums",
        "source_data": {"dataset_name": "sums", "source_type": "other"},
        "metric_config": {**config, "min_score": 0.0, "max_score": 1.0},
        "score_details": {"score": mean_of(lines, result_id)},
        "generation_config": {
            "generation_args": {"temperature": 0.7},
            "additional_details": {"num_fewshot": "3"},
        },
    }


def scores_of(lines: list[dict[str, Any]], content: bytes) -> dict[str, Any]:
    """Return the content of the file of scores for a file of samples, whose bytes it has a digest of."""
    result_ids = list(dict.fromkeys(line["evaluation_result_id"] for line in lines))
    results = [result_of_metric(lines, result_id) for result_id in result_ids]
    details = {"deployment_type": "unknown", "model_availability": "unknown", "revision": "abc"}
    return {
        "schema_version": "0.3.0",
        "evaluation_id": "sums/org/name/1",
        "retrieved_timestamp": "1",
        "source_metadata": {
            "source_type": "evaluation_run",
            "source_organization_name": "me",
            "evaluator_relationship": "other",
        },
        "eval_library": {"name": "inspect_ai", "version": "0.3.200"},
        "model_info": {"name": "org/name", "id": "org/name", "additional_details": details},
        "evaluation_results": results,
        "detailed_evaluation_results": {
            "format": "jsonl",
            "file_path": f"data/sums/org/name/{UUID}_samples.jsonl",
            "hash_algorithm": "sha256",
            "checksum": hashlib.sha256(content).hexdigest(),
            "total_rows": len(lines),
        },
    }


def write(folder: Path, lines: list[dict[str, Any]], edit: Callable[[dict[str, Any]], None] | None = None) -> Path:
    """Write the two files and return the path of the scores.

    Args:
        folder: The folder.
        lines: The samples.
        edit: Changes the scores before they are written.
    """
    content = "".join(json.dumps(line) + "\n" for line in lines).encode()
    scores = scores_of(lines, content)
    if edit is not None:
        edit(scores)
    (folder / f"{UUID}_samples.jsonl").write_bytes(content)
    path = folder / f"{UUID}.json"
    path.write_text(json.dumps(scores), "utf-8")
    return path


def test_a_converted_log_has_model_harness_settings_and_scores(tmp_path: Path) -> None:
    (run,) = read_evaluation(write(tmp_path, samples())).runs

    assert run.model == "org/name"
    assert run.model_settings["revision"] == "abc"
    assert (run.harness, run.harness_version) == ("inspect_ai", "0.3.200")
    assert run.task == "sums"
    assert run.fewshot == 3
    assert run.settings == {"temperature": "0.7"}
    assert run.ranges == {"accuracy": (0.0, 1.0)}
    assert run.higher_is_better == {"accuracy": True}
    assert [sample.values["accuracy"] for sample in run.samples] == [0, 1, 1, 0, 1, 1, 0, 1, 1, 0]
    assert len({sample.digest for sample in run.samples}) == 10, "each document has a digest of its own"


@pytest.mark.parametrize("named", ["scores", "samples", "folder"])
def test_the_files_are_found_by_either_name_and_in_a_folder(tmp_path: Path, named: str) -> None:
    scores_path = write(tmp_path, samples())
    paths = {"scores": scores_path, "samples": tmp_path / f"{UUID}_samples.jsonl", "folder": tmp_path}
    (result,) = read_logs(paths[named]).values()
    assert result.divided["sums"]["accuracy"] == pytest.approx(0.6)


def test_repeats_of_a_document_have_the_numbers_of_their_epochs(tmp_path: Path) -> None:
    (run,) = read_evaluation(write(tmp_path, samples(repeats=3))).runs

    first_four = [(sample.document, sample.repeat) for sample in run.samples[:4]]
    assert first_four == [("s0", 0), ("s0", 1), ("s0", 2), ("s1", 0)]
    assert "order of lines" not in "\n".join(run.notes)


def test_repeats_of_a_document_without_epochs_are_counted_with_a_note(tmp_path: Path) -> None:
    lines = samples(repeats=3)
    for line in lines:
        line["metadata"] = None

    (run,) = read_evaluation(write(tmp_path, lines)).runs

    first_four = [(sample.document, sample.repeat) for sample in run.samples[:4]]
    assert first_four == [("s0", 0), ("s0", 1), ("s0", 2), ("s1", 0)]
    assert "order of lines" in "\n".join(run.notes)


def test_metrics_of_one_name_have_the_ids_of_their_scores_as_names(tmp_path: Path) -> None:
    (run,) = read_evaluation(write(tmp_path, samples(("first:mean", "second:mean")))).runs
    assert run.metrics == ("first:mean", "second:mean")


def test_a_sample_with_an_error_is_a_missing_sample_with_the_reason(tmp_path: Path) -> None:
    lines = samples()
    lines[2]["error"] = "the request timed out"

    def set_mean_of_the_nine_others(scores: dict[str, Any]) -> None:
        scores["evaluation_results"][0]["score_details"]["score"] = 5 / 9

    path = write(tmp_path, lines, edit=set_mean_of_the_nine_others)

    (run,) = read_evaluation(path).runs
    assert run.samples[2].values == {}
    assert run.samples[2].reason == "the request timed out"
    (result,) = read_logs(path).values()
    assert result.details["sums"].failed == 1


def test_a_score_that_is_not_the_mean_of_its_samples_is_left_out(tmp_path: Path) -> None:
    def other_score(scores: dict[str, Any]) -> None:
        scores["evaluation_results"][0]["score_details"]["score"] = 0.9

    path = write(tmp_path, samples(("a", "b")), other_score)
    (run,) = read_evaluation(path).runs
    assert run.metrics == ("b",)
    assert run.not_scores == {"a": "the file of scores says 0.9, and the mean of the samples is 0.6"}


def test_a_direction_that_the_exporter_does_not_know_is_not_taken_as_known(tmp_path: Path) -> None:
    def unknown_polarity(scores: dict[str, Any]) -> None:
        scores["evaluation_results"][0]["metric_config"]["additional_details"] = {"polarity": "unknown"}

    (run,) = read_evaluation(write(tmp_path, samples(), unknown_polarity)).runs
    assert run.higher_is_better == {}


# -- broken and hostile files


def samples_with_other(**fields: Any) -> list[dict[str, Any]]:
    """Return samples of which the fourth, of the document s3, has other fields."""
    lines = samples()
    lines[3] = {**lines[3], **fields}
    return lines


BROKEN_LINES: dict[str, tuple[list[dict[str, Any]], str]] = {
    "another evaluation": (samples_with_other(evaluation_id="other"), "which is another one"),
    "another model": (samples_with_other(model_id="org/other"), "is of the model 'org/other'"),
    "no id": (samples_with_other(sample_id=None), "sample_id: got None"),
    "an id that is a number": (samples_with_other(sample_id=5), "sample_id: got 5"),
    "a document twice": (samples_with_other(sample_id="s2"), "another input or reference"),
    "a sample twice": ([*samples(), samples()[0]], "two scores by accuracy"),
    "another version": (samples_with_other(schema_version="7.0"), "schema version '7.0'"),
}
"""Samples with a fault, and what the refusal says."""


@pytest.mark.parametrize(("lines", "reason"), BROKEN_LINES.values(), ids=BROKEN_LINES)
def test_broken_samples_are_refused_with_the_reason(lines: list[dict[str, Any]], reason: str, tmp_path: Path) -> None:
    path = write(tmp_path, lines)

    with pytest.raises(StaICCError, match=reason):
        read_logs(path)


def test_a_sample_of_a_score_that_the_file_of_scores_lacks_is_refused(tmp_path: Path) -> None:
    def remove_second_score(scores: dict[str, Any]) -> None:
        del scores["evaluation_results"][1]

    path = write(tmp_path, samples_with_other(evaluation_result_id="m:f1"), edit=remove_second_score)

    with pytest.raises(StaICCError, match="has no score 'm:f1'"):
        read_logs(path)


def test_a_file_of_scores_with_an_empty_file_of_samples_is_refused(tmp_path: Path) -> None:
    def set_scores_of_ten_samples(scores: dict[str, Any]) -> None:
        scores["evaluation_results"] = [result_of_metric(samples(), "m:accuracy")]

    path = write(tmp_path, [], edit=set_scores_of_ten_samples)

    with pytest.raises(StaICCError, match="the file has no samples"):
        read_logs(path)


BROKEN_SCORES: dict[str, tuple[Callable[[dict[str, Any]], Any], str]] = {
    "another version": (lambda scores: scores.update(schema_version="0.9"), "schema version '0.9'"),
    "two scores of one id": (lambda scores: scores["evaluation_results"].extend(scores["evaluation_results"]), "both"),
    "results that are no list": (lambda scores: scores.update(evaluation_results={}), "must be a list"),
    "a result that is no object": (lambda scores: scores.update(evaluation_results=[5]), "expected an object"),
    "no evaluation id": (lambda scores: scores.update(evaluation_id=None), "evaluation_id: got None"),
    "another number of rows": (
        lambda scores: scores["detailed_evaluation_results"].update(total_rows=11),
        "has 10 samples, and .* says 11",
    ),
    "another checksum": (
        lambda scores: scores["detailed_evaluation_results"].update(checksum="0" * 64),
        "the file was changed",
    ),
}


@pytest.mark.parametrize(("edit", "reason"), BROKEN_SCORES.values(), ids=BROKEN_SCORES)
def test_broken_scores_are_refused_with_the_reason(
    edit: Callable[[dict[str, Any]], Any], reason: str, tmp_path: Path
) -> None:
    path = write(tmp_path, samples(), edit)

    with pytest.raises(StaICCError, match=reason):
        read_logs(path)


def test_a_model_without_a_name_is_named_by_its_id(tmp_path: Path) -> None:
    def remove_name(scores: dict[str, Any]) -> None:
        scores["model_info"].update(name="", id="org/name")

    assert list(read_logs(write(tmp_path, samples(), edit=remove_name))) == ["org/name"]


@pytest.mark.parametrize("share_that_is_left", [0.1, 0.5, 0.99])
def test_a_file_of_samples_that_was_cut_is_refused(tmp_path: Path, share_that_is_left: float) -> None:
    path = write(tmp_path, samples())
    samples_path = tmp_path / f"{UUID}_samples.jsonl"
    content = samples_path.read_bytes()
    samples_path.write_bytes(content[: int(share_that_is_left * len(content))])

    with pytest.raises(StaICCError):
        read_logs(path)


def test_a_file_without_samples_has_nothing_to_compare(tmp_path: Path) -> None:
    path = write(tmp_path, samples())
    (tmp_path / f"{UUID}_samples.jsonl").unlink()
    with pytest.raises(StaICCError, match="it has scores only"):
        read_logs(path)


def test_samples_are_read_from_the_folder_whatever_path_the_file_names(tmp_path: Path) -> None:
    def elsewhere(scores: dict[str, Any]) -> None:
        scores["detailed_evaluation_results"]["file_path"] = "/etc/passwd"

    (run,) = read_evaluation(write(tmp_path, samples(), elsewhere)).runs
    assert len(run.samples) == 10


def test_many_samples_of_one_id_are_read_in_linear_time(tmp_path: Path) -> None:
    line = {**samples()[1], "metadata": None}
    (run,) = read_evaluation(write(tmp_path, [line] * 20_000)).runs
    assert run.samples[-1].repeat == 19_999


def test_scores_that_are_left_out_have_no_samples(tmp_path: Path) -> None:
    """The direction of loss is not known, so the schema cannot have it. The other score can be read again."""
    (tmp_path / "a.csv").write_text("row,score,loss\n0,0,3\n1,1,4\n2,0,5\n3,1,6\n", "utf-8")
    (result,) = read_logs(tmp_path / "a.csv").values()

    exported = export_result(result, "the prompts are not known")
    (read_back,) = read_logs(write_exported(exported, tmp_path)).values()

    assert "loss" in "\n".join(exported.left_out)
    assert read_back.divided["scores"] == {"score": 0.5}
