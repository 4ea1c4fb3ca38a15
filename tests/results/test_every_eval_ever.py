"""Results as files of Every Eval Ever: links, scores, samples, and the official validator where it is installed."""

from __future__ import annotations

import hashlib
import json
import math
import os
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import StaICC
from StaICC.benchmarks.exchange import identified_queries, score_predictions
from StaICC.benchmarks.saved_prompts import written_prompts
from StaICC.cli import main
from StaICC.errors import ArgumentError
from StaICC.logs.reading import read_logs
from StaICC.results.every_eval_ever import ExportedResult, ExportSettings, export_result
from StaICC.results.result import Result
from StaICC.results.score_records import single_scores
from StaICC.results.scored_samples import scored_samples
from tests.results.test_json_schema import KINDS, probabilities

VALIDATOR = "STAICC_EVERY_EVAL_EVER"
"""Environment variable: a Python (3.12 or later) that has the package every-eval-ever, with the official validator."""


def normal(**settings: Any) -> Result:
    """Return a result on ``mini`` of the model org/name."""
    result: Result = StaICC.Normal(datasets=["mini"], limit=10, **settings)(probabilities, model_name="org/name")
    return result


def aggregate_of(exported: ExportedResult) -> Any:
    """Return the JSON values of the file of scores."""
    return json.loads(exported.aggregate)


def lines_of(exported: ExportedResult) -> list[Any]:
    """Return the JSON values of each line of the file of samples."""
    return [json.loads(line) for line in exported.samples.splitlines()]


def test_the_scores_have_their_values_intervals_and_bounds() -> None:
    result = normal()
    exported = aggregate_of(export_result(result, {}))
    assert exported["model_info"]["id"] == "org/name"
    scores = {score["evaluation_result_id"]: score for score in exported["evaluation_results"]}
    accuracy = scores["Normal/mini/accuracy"]
    interval = result.details["mini"].intervals["accuracy"]
    assert accuracy["score_details"]["score"] == result.divided["mini"]["accuracy"]
    assert accuracy["score_details"]["uncertainty"] == {
        "num_samples": 20,
        "confidence_interval": {
            "lower": interval.low,
            "upper": interval.high,
            "confidence_level": 0.95,
            "method": interval.method,
        },
    }
    config = accuracy["metric_config"]
    assert (config["lower_is_better"], config["min_score"], config["max_score"]) == (False, 0.0, 1.0)
    calibration_error = scores["Normal/mini/expected_calibration_error_1"]["metric_config"]
    assert calibration_error["lower_is_better"] is True


@pytest.mark.parametrize("name", ["Normal", "GLER"])
def test_the_mean_of_the_samples_of_a_score_is_the_score(name: str) -> None:
    result = getattr(StaICC, name)(datasets=["mini"], limit=10)(probabilities)
    exported = export_result(result, written_prompts(result))
    values: dict[str, list[float]] = {}
    for line in lines_of(exported):
        values.setdefault(line["evaluation_result_id"], []).append(line["evaluation"]["score"])
    assert values
    scores = dict(single_scores(result.divided["mini"]))
    for result_id, samples in values.items():
        key = result_id.removeprefix(f"{name}/mini/")
        assert math.fsum(samples) / len(samples) == pytest.approx(scores[key], abs=1e-12)


def test_a_sample_has_the_question_the_prompt_the_labels_and_the_prediction() -> None:
    result = normal()
    line = lines_of(export_result(result, written_prompts(result)))[0]
    query = result.queries(StaICC.written_prompts)[0]
    assert line["input"]["formatted"] == query.prompt
    assert line["input"]["raw"]
    assert line["input"]["formatted"].endswith(line["input"]["raw"])
    assert line["input"]["reference"] == [query.ground_truth_label]
    assert line["input"]["choices"] == list(result.details["mini"].labels)
    assert line["output"]["raw"] == [query.prediction_label]
    assert line["answer_attribution"][0]["extraction_method"] == "largest label score"
    text = json.dumps(
        {"raw": line["input"]["raw"], "reference": line["input"]["reference"]}, sort_keys=True, separators=(",", ":")
    )
    assert line["sample_hash"] == hashlib.sha256(text.encode()).hexdigest()


@pytest.mark.parametrize("unparsed", ["wrong", "excluded"])
def test_a_sample_of_a_reply_is_correct_if_its_label_is_the_true_one(unparsed: str) -> None:
    """Every fifth reply has no label, so it is not correct, however it counts in the score."""
    benchmark = StaICC.Normal(datasets=["mini"], limit=10, unparsed=unparsed)
    replies = {}
    for number, identified in enumerate(identified_queries(benchmark)):
        label = identified.query.label_space[identified.query.row % 3]
        replies[identified.id] = {"reply": "?" if number % 5 == 0 else label}
    result = score_predictions(benchmark, replies, model_name="org/name")
    assert isinstance(result, Result)
    check_correct_samples(result)


def test_a_high_score_of_a_wrong_prediction_is_no_correct_sample() -> None:
    result = normal(metrics={"share": StaICC.MeanOf(lambda label, row: 0.5 + row[label] / 2)})
    check_correct_samples(result)


def check_correct_samples(result: Result) -> None:
    """Check that the samples of a result are correct where its queries are, and that some are and some are not."""
    query_is_correct = {(str(query.row), query.repeat): query.correct is True for query in result.queries()}
    assert set(query_is_correct.values()) == {True, False}
    samples = list(scored_samples(result, {}))
    assert {(sample.sample_id, sample.repeat) for sample in samples} == query_is_correct.keys()
    for sample in samples:
        expected = query_is_correct[sample.sample_id, sample.repeat]
        assert sample.is_correct is expected, (
            f"{sample.metric} of test row {sample.sample_id}, repeat {sample.repeat}: is_correct is "
            f"{sample.is_correct}, expected {expected} (score {sample.score}, reason {sample.reason!r})"
        )


def test_a_sample_of_a_log_is_correct_only_with_the_best_possible_score(tmp_path: Path) -> None:
    path = tmp_path / "scores.csv"
    path.write_text("row,acc,points\na,1,5\nb,0,2.5\nc,1,\n", "utf-8")
    (result,) = read_logs(path, value_range={"points": (0, 5)}).values()
    correct = {(sample.metric, sample.sample_id): sample.is_correct for sample in scored_samples(result, {})}
    assert [correct["points", row] for row in "abc"] == [True, False, False]
    assert [correct["acc", row] for row in "abc"] == [True, False, True]


def test_the_two_files_belong_together() -> None:
    exported = export_result(normal(), {})
    aggregate = aggregate_of(exported)
    details = aggregate["detailed_evaluation_results"]
    assert details["file_path"] == exported.samples_path
    assert exported.samples_path == exported.aggregate_path.replace(".json", "_samples.jsonl")
    assert details["checksum"] == hashlib.sha256(exported.samples).hexdigest()
    lines = lines_of(exported)
    assert details["total_rows"] == len(lines)
    assert {line["evaluation_id"] for line in lines} == {aggregate["evaluation_id"]}
    assert {line["model_id"] for line in lines} == {"org/name"}


def test_the_same_result_has_the_same_file_names() -> None:
    result = normal()
    assert export_result(result, {}).aggregate_path == export_result(result, {}).aggregate_path
    assert export_result(result, {}).aggregate_path != export_result(normal(k=2), {}).aggregate_path


def test_partial_runs_are_marked_and_failed_queries_have_an_error() -> None:
    benchmark = StaICC.Normal(datasets=["mini"], limit=10)
    by_id = {query.id: {"index": 0} for query in list(identified_queries(benchmark))[3:]}
    result = score_predictions(benchmark, by_id, partial=True, model_name="org/name")
    assert isinstance(result, Result)
    exported = export_result(result, {})
    scores = {score["evaluation_result_id"]: score for score in aggregate_of(exported)["evaluation_results"]}
    accuracy = scores["Normal/mini/accuracy"]
    assert accuracy["score_details"]["details"]["PARTIAL"] == "3 of 20 queries are left out"
    assert accuracy["metric_config"]["metric_name"] == "accuracy (3 left out)"
    assert accuracy["score_details"]["uncertainty"]["num_samples"] == 17
    errors = [line.get("error") for line in lines_of(exported)]
    assert errors == ["no prediction was given"] * 3 + [None] * 17


def test_a_run_that_stopped_early_is_marked_and_has_the_interval_of_its_rule() -> None:
    result = StaICC.Normal(datasets=["mini"])(probabilities, precision=0.3, model_name="org/name")
    assert result.stopping is not None
    scores = aggregate_of(export_result(result, {}))["evaluation_results"]
    by_id = {score["evaluation_result_id"]: score["score_details"] for score in scores}
    mean = by_id["Normal/mean over data sets/accuracy"]
    assert mean["details"]["STOPPED EARLY"]
    assert mean["uncertainty"]["confidence_interval"]["method"] == result.stopping.interval.method
    with_interval = [key for key, details in by_id.items() if "confidence_interval" in details["uncertainty"]]
    assert with_interval == ["Normal/mean over data sets/accuracy"]


def test_the_time_of_an_evaluation_is_that_of_its_first_prediction() -> None:
    result = normal()
    (predictor,) = result.provenance.predictors
    days = ("2026-03-02", "2026-03-01", "2026-03-03", "")
    predictors = tuple(replace(predictor, started=f"{day}T10:00:00Z" if day else "") for day in days)
    several = replace(result, provenance=replace(result.provenance, predictors=predictors))
    assert aggregate_of(export_result(several, {}))["evaluation_timestamp"] == "2026-03-01T10:00:00Z"
    unknown = replace(result, provenance=replace(result.provenance, predictors=predictors[3:]))
    assert "evaluation_timestamp" not in aggregate_of(export_result(unknown, {}))


def test_a_metric_whose_name_has_no_utf8_is_linked_to_its_samples() -> None:
    name = "half \ud83d"
    metric = StaICC.Metric(name, StaICC.MeanOf(lambda label, row: row[label]), higher_is_better=True)
    result = StaICC.Normal(datasets=["mini"], limit=10, metrics={name: metric})(probabilities)

    exported = export_result(result, {})

    ids_of_scores = {score["evaluation_result_id"] for score in aggregate_of(exported)["evaluation_results"]}
    ids_in_samples = {sample["evaluation_result_id"] for sample in lines_of(exported)}
    assert ids_in_samples <= ids_of_scores
    assert "Normal/mini/half \\ud83d" in ids_in_samples


def test_a_stated_name_is_marked_as_stated() -> None:
    benchmark = StaICC.Normal(datasets=["mini"], limit=4)
    by_id = {query.id: {"index": 0} for query in identified_queries(benchmark)}
    result = score_predictions(benchmark, by_id, model_name="openai/gpt-4o")
    assert isinstance(result, Result)
    info = aggregate_of(export_result(result, {}))["model_info"]
    assert (info["name"], info["id"], info["developer"]) == ("openai/gpt-4o", "openai/gpt-4o", "openai")
    assert "stated" in info["additional_details"]["name"]


@pytest.mark.parametrize(
    ("name", "folder"),
    [
        ("EleutherAI/pythia-70m", "EleutherAI/pythia-70m"),
        ("hf:EleutherAI/pythia-70m", "EleutherAI/pythia-70m"),
        ("gpt2", "unspecified/gpt2"),
        ("/home/someone/models/mine", "unspecified/mine"),
        ("../../../etc/passwd", "unspecified/passwd"),
        ("a/../b", "a/__b"),
        ("con", "unspecified/_con"),
        ("unknown", "unspecified/_unknown"),
        ('a<b>:"|?*', "unspecified/a_b______"),
    ],
)
def test_no_name_of_a_model_leads_out_of_the_folder(name: str, folder: str) -> None:
    result = StaICC.Normal(datasets=["mini"], limit=4)(probabilities, model_name=name)
    path = export_result(result, {}).aggregate_path
    assert path.startswith("data/staicc/")
    assert ".." not in path.split("/")
    assert path.split("/")[2:4] == folder.split("/")


@pytest.mark.parametrize(
    "settings",
    [{"collection": "a/b"}, {"collection": ".."}, {"model_id": "gpt2"}, {"model_id": "a:b/c"}, {"relationship": "x"}],
)
def test_settings_that_the_schema_does_not_allow_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(ArgumentError):
        ExportSettings(**settings)


def test_a_result_without_any_score_is_refused_with_the_reasons() -> None:
    result = KINDS["no prediction"](Path())
    with pytest.raises(ArgumentError, match="no query has a prediction"):
        export_result(result, {})


@pytest.fixture(scope="module")
def file_of_suite(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the file of a suite of a model that is called "org/name"."""
    path = tmp_path_factory.mktemp("suite") / "suite.json"
    StaICC.Suite(datasets=["mini"], limit=6)(probabilities, model_name="org/name").save(path)
    return path


def export_by_command(suite: Path, folder: Path, capsys: pytest.CaptureFixture[str], *options: str) -> list[Path]:
    """Export a suite to a folder by the command, and return the paths that it prints."""
    capsys.readouterr()
    assert main(["export", "every-eval-ever", str(suite), "-o", str(folder), "--json", *options]) == 0
    return [Path(path) for path in json.loads(capsys.readouterr().out)]


def first_prompt(paths: list[Path]) -> str:
    """Return the prompt of the first sample of the first file of samples."""
    sample_files = [path for path in paths if path.name.endswith("_samples.jsonl")]
    first_line = sample_files[0].read_text("utf-8").splitlines()[0]
    prompt: str = json.loads(first_line)["input"]["raw"]
    return prompt


def test_the_command_writes_the_files_of_a_suite_under_the_given_model(
    file_of_suite: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = export_by_command(file_of_suite, tmp_path, capsys, "--organization", "me", "--model-id", "org/other")
    folder = tmp_path / "data" / "staicc" / "org" / "other"
    assert len(list(folder.iterdir())) == len(paths)


def test_the_command_says_which_scores_are_left_out(
    file_of_suite: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["export", "every-eval-ever", str(file_of_suite), "-o", str(tmp_path)]) == 0
    expected = "left out: GLER/mini/sensitivity.accuracy (whether higher values are better is not stated)"
    assert expected in capsys.readouterr().err


def test_the_command_writes_samples_of_normal_and_gler_with_their_prompts(
    file_of_suite: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = export_by_command(file_of_suite, tmp_path, capsys)
    files_of_samples = [path for path in paths if path.name.endswith("_samples.jsonl")]
    assert len(files_of_samples) == 2, "of Normal and of GLER; the other scores are no means over samples"
    assert first_prompt(paths) != ""


def test_the_command_leaves_prompts_out_on_request(
    file_of_suite: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert first_prompt(export_by_command(file_of_suite, tmp_path, capsys, "--no-prompts")) == ""


@pytest.mark.skipif(
    VALIDATOR not in os.environ,
    reason="the official validator needs Python 3.12 and an environment of its own: .ci/exports",
)
def test_the_official_validator_accepts_every_kind_of_result_without_a_warning(tmp_path: Path) -> None:
    files = []
    for kind, make in KINDS.items():
        folder = tmp_path / kind.replace(" ", "_")
        folder.mkdir()
        for result in make(folder).results():
            try:
                exported = export_result(result, written_prompts(result))
            except ArgumentError:
                continue  # The result has no score.
            for name, content in {
                exported.samples_path: exported.samples,
                exported.aggregate_path: exported.aggregate,
            }.items():
                if content:
                    path = tmp_path / "datastore" / name
                    path.parent.mkdir(parents=True, exist_ok=True)
                    path.write_bytes(content)
                    files.append(str(path))
    command = [os.environ[VALIDATOR], "-m", "every_eval_ever", "validate", "--format", "json", *files]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={"PATH": os.environ["PATH"]})
    reports = json.loads(done.stdout)
    assert len(reports) == len(files)
    assert [report for report in reports if report["errors"] or report["warnings"]] == []
    assert done.returncode == 0
