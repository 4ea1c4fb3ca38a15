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

    def inference(prompt: str, label_space: list[str]) -> list[float]:
        weights = [1.0 + (shift * len(prompt) + 3 * place) % (6 + shift) for place in range(len(label_space))]
        return [weight / sum(weights) for weight in weights]

    return inference


def export(result: Result, folder: Path) -> Path:
    """Write the files of a result and return the path of its scores."""
    exported = export_result(result, written_prompts(result) if not result.samples else {})
    path = folder / exported.aggregate_path
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(exported.aggregate)
    (folder / exported.samples_path).write_bytes(exported.samples)
    return path


# -- round trips


@pytest.mark.parametrize("metric", ["accuracy", "averaged_truelabel_likelihood"])
def test_exported_runs_are_compared_as_the_runs_themselves(tmp_path: Path, metric: str) -> None:
    benchmark = StaICC.Normal(datasets=["mini"])
    first = benchmark(model(1), model_name="org/first")
    second = benchmark(model(5), model_name="org/second")
    for result in (first, second):
        export(result, tmp_path)
    read = read_logs(tmp_path)
    assert list(read) == ["org/first", "org/second"]

    expected = compare(first, second, metric=metric)
    found = compare(read["org/first"], read["org/second"], metric=metric)
    (expected_test,) = expected.datasets
    (found_test,) = found.datasets
    assert expected_test.p_value is not None
    assert found_test.interval is not None
    assert expected_test.interval is not None
    assert found_test.low == pytest.approx(expected_test.low, abs=1e-12)
    assert found_test.high == pytest.approx(expected_test.high, abs=1e-12)
    assert replace(found_test, dataset="mini", interval=None) == replace(expected_test, interval=None)


def test_results_of_logs_survive_the_round_trip(tmp_path: Path) -> None:
    """Scores, intervals, missing samples, digests of documents and versions are those of the log."""
    table = tmp_path / "scores.csv"
    rows = [f"row{row},{repeat},{row % 3 % 2},{row * 0.1:.1f},{row:032x}" for row in range(20) for repeat in range(2)]
    rows[5] = rows[5].rsplit(",", 3)[0] + ",,,00000000000000000000000000000002"
    table.write_text("\n".join(["row,repeat,acc,points,digest", *rows]), "utf-8")
    stated = {"value_range": {"points": (0.0, 5.0)}, "higher_is_better": {"points": True}}
    (logged,) = read_logs(table, **stated).values()
    (read,) = read_logs(export(logged, tmp_path / "out")).values()
    assert read.divided == logged.divided
    assert read.details["scores"].intervals == logged.details["scores"].intervals
    assert read.samples == logged.samples
    assert read.query_scores == logged.query_scores
    assert read.details["scores"].failed == logged.details["scores"].failed == 1
    assert read.higher_is_better == logged.higher_is_better


# -- files as converters write them


def samples(metric_ids: tuple[str, ...] = ("m:accuracy",), repeats: int = 1) -> list[dict[str, Any]]:
    """Return the lines of a file of samples: ten documents, of which every third is wrong."""
    lines = []
    for row in range(10):
        for repeat in range(repeats):
            for result_id in metric_ids:
                score = float((row + repeat) % 3 > 0)
                lines.append(
                    {
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
                )
    return lines


def mean_of(lines: list[dict[str, Any]], result_id: str) -> float:
    scores = [line["evaluation"]["score"] for line in lines if line["evaluation_result_id"] == result_id]
    return sum(scores) / len(scores)


def scores_of(lines: list[dict[str, Any]], content: bytes) -> dict[str, Any]:
    """Return the file of scores of lines of samples."""
    results = []
    for result_id in dict.fromkeys(line["evaluation_result_id"] for line in lines):
        config = {"metric_id": "accuracy", "lower_is_better": False, "score_type": "continuous"}
        results.append(
            {
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
        )
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
    assert (run.model, run.harness, run.harness_version, run.task) == ("org/name", "inspect_ai", "0.3.200", "sums")
    assert (run.fewshot, run.settings) == (3, {"temperature": "0.7"})
    assert run.model_settings["revision"] == "abc"
    assert run.ranges == {"accuracy": (0.0, 1.0)}
    assert run.higher_is_better == {"accuracy": True}
    assert [sample.values["accuracy"] for sample in run.samples] == [float(row % 3 > 0) for row in range(10)]
    assert len({sample.digest for sample in run.samples}) == 10


@pytest.mark.parametrize("named", ["scores", "samples", "folder"])
def test_the_files_are_found_by_either_name_and_in_a_folder(tmp_path: Path, named: str) -> None:
    scores_path = write(tmp_path, samples())
    paths = {"scores": scores_path, "samples": tmp_path / f"{UUID}_samples.jsonl", "folder": tmp_path}
    (result,) = read_logs(paths[named]).values()
    assert result.divided["sums"]["accuracy"] == pytest.approx(0.6)


@pytest.mark.parametrize("has_numbers", [True, False])
def test_repeats_of_a_document_are_kept_apart(tmp_path: Path, has_numbers: bool) -> None:
    lines = samples(repeats=3)
    if not has_numbers:
        for line in lines:
            line["metadata"] = None
    (run,) = read_evaluation(write(tmp_path, lines)).runs
    assert [(sample.document, sample.repeat) for sample in run.samples][:4] == [
        ("s0", 0),
        ("s0", 1),
        ("s0", 2),
        ("s1", 0),
    ]
    assert any("order of lines" in note for note in run.notes) is not has_numbers


def test_metrics_of_one_name_have_the_ids_of_their_scores_as_names(tmp_path: Path) -> None:
    (run,) = read_evaluation(write(tmp_path, samples(("first:mean", "second:mean")))).runs
    assert run.metrics == ("first:mean", "second:mean")


def test_a_sample_with_an_error_is_a_missing_sample_with_the_reason(tmp_path: Path) -> None:
    lines = samples()
    lines[2]["error"] = "the request timed out"

    def as_mean_of_others(scores: dict[str, Any]) -> None:
        scores["evaluation_results"][0]["score_details"]["score"] = 5 / 9

    (run,) = read_evaluation(write(tmp_path, lines, as_mean_of_others)).runs
    assert (run.samples[2].values, run.samples[2].reason) == ({}, "the request timed out")
    (result,) = read_logs(tmp_path).values()
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


def changed(index: int, **fields: Any) -> list[dict[str, Any]]:
    """Return samples of which one has other fields."""
    lines = samples()
    lines[index] = {**lines[index], **fields}
    return lines


BROKEN_LINES: dict[str, tuple[list[dict[str, Any]], str]] = {
    "another evaluation": (changed(3, evaluation_id="other"), "which is another one"),
    "another model": (changed(3, model_id="org/other"), "is of the model 'org/other'"),
    "an unknown score": (changed(3, evaluation_result_id="m:f1"), "has no score 'm:f1'"),
    "no id": (changed(3, sample_id=None), "sample_id: got None"),
    "an id that is a number": (changed(3, sample_id=5), "sample_id: got 5"),
    "a document twice": (changed(3, sample_id="s2"), "another input or reference"),
    "a sample twice": ([*samples(), samples()[0]], "two scores by accuracy"),
    "another version": (changed(3, schema_version="7.0"), "schema version '7.0'"),
    "no samples": ([], "the file has no samples"),
}


@pytest.mark.parametrize("name", BROKEN_LINES)
def test_broken_samples_are_refused_with_the_reason(tmp_path: Path, name: str) -> None:
    lines, reason = BROKEN_LINES[name]
    path = write(tmp_path, lines, None if lines else as_of_full_file)
    if name == "an unknown score":  # the file of scores does not list it either
        scores = json.loads(path.read_text("utf-8"))
        del scores["evaluation_results"][1]
        path.write_text(json.dumps(scores), "utf-8")
    with pytest.raises(StaICCError, match=reason):
        read_logs(path)


def as_of_full_file(scores: dict[str, Any]) -> None:
    scores["evaluation_results"] = scores_of(samples(), b"")["evaluation_results"]


BROKEN_SCORES: dict[str, tuple[Callable[[dict[str, Any]], Any], str]] = {
    "another version": (lambda scores: scores.update(schema_version="0.9"), "schema version '0.9'"),
    "two scores of one id": (lambda scores: scores["evaluation_results"].extend(scores["evaluation_results"]), "both"),
    "results that are no list": (lambda scores: scores.update(evaluation_results={}), "must be a list"),
    "a result that is no object": (lambda scores: scores.update(evaluation_results=[5]), "expected an object"),
    "no name of the model": (lambda scores: scores["model_info"].update(name="", id="org/name"), ""),
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


@pytest.mark.parametrize("name", BROKEN_SCORES)
def test_broken_scores_are_refused_with_the_reason(tmp_path: Path, name: str) -> None:
    edit, reason = BROKEN_SCORES[name]
    path = write(tmp_path, samples(), edit)
    if name == "no name of the model":
        assert list(read_logs(path)) == ["org/name"]  # the id is its name then
        return
    with pytest.raises(StaICCError, match=reason):
        read_logs(path)


@pytest.mark.parametrize("size", [0.1, 0.5, 0.99])
def test_a_file_of_samples_that_was_cut_is_refused(tmp_path: Path, size: float) -> None:
    path = write(tmp_path, samples())
    samples_path = tmp_path / f"{UUID}_samples.jsonl"
    content = samples_path.read_bytes()
    samples_path.write_bytes(content[: int(size * len(content))])
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
    table = tmp_path / "a.csv"
    table.write_text("row,score,loss\n" + "".join(f"{row},{row % 2},{row}\n" for row in range(6)), "utf-8")
    (result,) = read_logs(table).values()
    exported = export_result(result, "the prompts are not known")
    assert any("loss" in reason for reason in exported.left_out), f"got {exported.left_out}"
    aggregate = tmp_path / exported.aggregate_path
    aggregate.parent.mkdir(parents=True)
    aggregate.write_bytes(exported.aggregate)
    (tmp_path / exported.samples_path).write_bytes(exported.samples)
    (again,) = read_logs(aggregate).values()
    assert again.divided["scores"] == {"score": 0.5}
