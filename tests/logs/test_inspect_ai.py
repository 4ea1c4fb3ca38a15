"""Logs of inspect_ai: the scores of its archives and JSON files, and what the header says about the run."""

from __future__ import annotations

import json
import sys
import zipfile
import zlib
from pathlib import Path
from typing import Any

import pytest

from StaICC.errors import MissingDependencyError
from StaICC.logs.inspect_ai import read_archive, read_json_log
from StaICC.logs.samples import LoggedRun
from tests.logs.inspect_logs import header, result_of_scorer, sample, write_archive, write_json

GRADES = ["C", "I", "P", "N"]


def read(path: Path) -> LoggedRun:
    reading = read_archive(path) if path.suffix == ".eval" else read_json_log(path)
    (run,) = reading.runs
    return run


def values_of(run: LoggedRun, metric: str) -> dict[tuple[str, int], float]:
    return {(item.document, item.repeat): item.values[metric] for item in run.samples if metric in item.values}


def test_an_archive_and_a_json_file_of_the_same_run_are_the_same(tmp_path: Path) -> None:
    samples = [sample(row, grade) for row, grade in enumerate(GRADES)]
    from_archive = read(write_archive(tmp_path / "log.eval", samples))
    from_json = read(write_json(tmp_path / "log.json", samples))
    assert sorted(from_archive.samples, key=lambda item: item.document) == list(from_json.samples)
    assert values_of(from_json, "match") == {("0", 0): 1.0, ("1", 0): 0.0, ("2", 0): 0.5, ("3", 0): 0.0}
    for run in (from_archive, from_json):
        assert (run.model, run.task, run.task_version, run.expected) == ("openai/small", "capitals", "3", 4)
        assert (run.harness, run.harness_version) == ("inspect_ai", "0.3.285")
        assert run.prompts == from_json.prompts is not None
        assert run.notes == ()


def test_settings_that_change_scores_are_kept_and_secrets_are_not(tmp_path: Path) -> None:
    head = header()
    head["eval"]["task_args"] = {"difficulty": "hard", "grader_api_key": "hidden"}
    run = read(write_json(tmp_path / "log.json", [sample(row, "C") for row in range(4)], head))
    assert run.settings == {
        "task_args": '{"difficulty": "hard", "grader_api_key": "(hidden)"}',
        "temperature": "0.0",
        "max_tokens": "8",
        "epochs": "1",
        "epochs_reducer": '["mean"]',
        "solvers": "generate",
        "scorers": "match(numeric=true)",
    }
    assert run.model_settings == {"revision": "main", "api_key": "(hidden)"}


def test_long_settings_are_shortened_and_can_still_be_told_apart(tmp_path: Path) -> None:
    settings = []
    for last in ("a", "b"):
        head = header()
        head["eval"]["model_args"] = {"stop": ["x" * 5000 + last]}
        run = read(write_json(tmp_path / "log.json", [sample(row, "C") for row in range(4)], head))
        settings.append(run.model_settings["stop"])
    assert [setting for setting in settings if len(setting) >= 80] == []
    assert settings[0] != settings[1]


def test_epochs_are_repeats_of_a_row(tmp_path: Path) -> None:
    samples = [sample(row, "C" if row == epoch else "I", epoch) for row in range(4) for epoch in (1, 2, 3)]
    run = read(write_archive(tmp_path / "log.eval", reversed(samples), header(epochs=3)))
    values = values_of(run, "match")
    assert len(values) == 12
    assert values["2", 1] == 1.0
    assert values["2", 2] == 0.0
    digests = {item.digest for item in run.samples}
    assert len(digests) == 4  # one for each row


def test_the_same_rows_have_the_same_digests_whatever_the_ids_of_their_messages(tmp_path: Path) -> None:
    def with_messages(message_id: str, row: int) -> dict[str, Any]:
        message = {"id": message_id, "role": "user", "content": f"question {row}", "source": "input"}
        return sample(row, "C", input=[message])

    first = read(write_json(tmp_path / "a.json", [with_messages("aaa", row) for row in range(4)]))
    second = read(write_json(tmp_path / "b.json", [with_messages("bbb", row) for row in range(4)]))
    other = read(write_json(tmp_path / "c.json", [with_messages("aaa", row + 1) for row in range(4)]))
    assert [item.digest for item in first.samples] == [item.digest for item in second.samples]
    assert first.samples[0].digest != other.samples[0].digest


def test_each_scorer_and_each_key_of_its_values_is_a_metric(tmp_path: Path) -> None:
    def with_scores(row: int) -> dict[str, Any]:
        shape = {"fluent": row / 4, "short": True}
        return sample(row, "C", scores={"match": {"value": "C"}, "shape": {"value": shape}})

    head = header()
    results = [result_of_scorer("match", accuracy=1.0), result_of_scorer("shape", name="fluent", mean=0.375)]
    head["results"]["scores"] = results
    run = read(write_json(tmp_path / "log.json", [with_scores(row) for row in range(4)], head))
    assert run.metrics == ("match", "shape/fluent", "shape/short")
    assert run.reported == {"match": 1.0, "shape/fluent": 0.375}
    # Grades and truth values are from 0 to 1. Nothing says that of the other numbers.
    assert run.ranges == {"match": (0.0, 1.0), "shape/short": (0.0, 1.0)}


def test_numbers_of_which_inspect_computes_the_accuracy_are_from_0_to_1(tmp_path: Path) -> None:
    head = header()
    head["results"]["scores"] = [result_of_scorer("closeness", accuracy=0.5)]
    samples = [sample(row, 0.5, scorer="closeness") for row in range(4)]
    assert read(write_json(tmp_path / "log.json", samples, head)).ranges == {"closeness": (0.0, 1.0)}


def test_samples_without_a_score_say_why(tmp_path: Path) -> None:
    samples = [
        sample(0, "C"),
        sample(1, float("nan"), scores={"match": {"value": float("nan"), "reason": "no grade in the reply"}}),
        sample(2, None, scores={}, error={"message": "RateLimitError: too many requests\ntraceback", "traceback": ""}),
        sample(3, "C", invalidation={"author": "someone"}),
    ]
    run = read(write_archive(tmp_path / "log.eval", samples))
    assert values_of(run, "match") == {("0", 0): 1.0}
    assert [item.reason for item in sorted(run.samples, key=lambda item: item.document)] == [
        None,
        "the sample has no scores; match: unscored (no grade in the reply)",
        "the sample ended with an error: RateLimitError: too many requests",
        "the sample was invalidated in the log",
    ]


def test_a_cancelled_run_lacks_samples(tmp_path: Path) -> None:
    head = header(n_rows=3, epochs=2, status="cancelled", results=None)
    run = read(write_archive(tmp_path / "log.eval", [sample(0, "C", 1), sample(0, "C", 2), sample(2, "I", 1)], head))
    assert len(run.samples) == 6
    missing = {(item.document, item.repeat) for item in run.samples if item.reason == "the sample is not in the log"}
    assert missing == {("1", 0), ("1", 1), ("2", 1)}
    assert run.notes == (
        "the run did not end: its status is 'cancelled'",
        "the log has 3 of 6 samples: the others are missing",
    )


def test_a_run_that_was_killed_has_no_header_and_is_read_from_its_journal(tmp_path: Path) -> None:
    head = header()
    start = {"version": head["version"], "eval": head["eval"], "plan": head["plan"]}
    members = {"_journal/start.json": json.dumps(start).encode()}
    path = write_archive(tmp_path / "log.eval", [sample(0, "C")], members=members)
    without_header = tmp_path / "killed.eval"
    with zipfile.ZipFile(path) as source, zipfile.ZipFile(without_header, "w") as copy:
        for name in source.namelist():
            if name != "header.json":
                copy.writestr(name, source.read(name))
    run = read(without_header)
    assert run.notes[0] == "the run did not end: its status is 'started'"
    assert len(run.samples) == 4


def test_another_reducer_of_epochs_is_a_note_and_its_results_are_not_compared(tmp_path: Path) -> None:
    head = header(n_rows=1, epochs=3)
    head["eval"]["config"]["epochs_reducer"] = ["mode"]
    head["results"]["scores"] = [result_of_scorer("match", reducer="mode", accuracy=1.0)]
    samples = [sample(0, "C", 1), sample(0, "C", 2), sample(0, "I", 3)]
    run = read(write_json(tmp_path / "log.json", samples, head))
    assert run.reported == {}
    assert run.notes == ("the task reduces the epochs of a row by mode; here its value is their mean",)


def test_a_changed_score_makes_its_metric_unusable(tmp_path: Path) -> None:
    head = header()
    head["results"]["scores"] = [result_of_scorer("match", accuracy=0.25)]
    samples = [sample(row, "", scores={"match": {"value": "CCII"[row]}, "f1": {"value": 0.5}}) for row in range(4)]
    run = read(write_json(tmp_path / "log.json", samples, head))
    assert run.metrics == ("f1",)
    assert run.not_scores == {"match": "inspect_ai reports 0.25, which is not the mean of the samples (0.5)"}


@pytest.mark.parametrize("version", [1, 2, 3])
def test_versions_of_the_format(tmp_path: Path, version: int) -> None:
    samples = [sample(row, "C") for row in range(4)]
    if version == 1:  # one score, without the name of its scorer
        samples = [{**item, "score": item["scores"]["match"]} for item in samples]
        for item in samples:
            del item["scores"]
    run = read(write_json(tmp_path / "log.json", samples, header(version=version)))
    assert len(values_of(run, run.metrics[0])) == 4


def write_zstandard(path: Path, contents: dict[str, bytes]) -> None:
    """Write an archive of members that are compressed with Zstandard, as inspect_ai does since 2026."""
    zstandard = pytest.importorskip("zstandard")
    compressed_contents = {}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for name, content in contents.items():
            compressed = zstandard.ZstdCompressor().compress(content)
            compressed_contents[name] = (content, compressed)
            archive.writestr(name, compressed)
        for member in archive.infolist():
            content, compressed = compressed_contents[member.filename]
            member.compress_type = 93
            member.file_size = len(content)
            member.CRC = zlib.crc32(content)
            assert member.compress_size == len(compressed)


def test_archives_that_are_compressed_with_zstandard(tmp_path: Path) -> None:
    contents = {"header.json": json.dumps(header()).encode()}
    for row, grade in enumerate(GRADES):
        contents[f"samples/{row}_epoch_1.json"] = json.dumps(sample(row, grade)).encode()
    path = tmp_path / "log.eval"
    write_zstandard(path, contents)
    assert values_of(read(path), "match") == {("0", 0): 1.0, ("1", 0): 0.0, ("2", 0): 0.5, ("3", 0): 0.0}


def test_zstandard_that_is_not_installed_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if hasattr(zipfile, "ZIP_ZSTANDARD"):
        pytest.skip("Python 3.14 and later read Zstandard themselves, so no package can be missing")
    path = tmp_path / "log.eval"
    write_zstandard(path, {"header.json": json.dumps(header()).encode()})
    monkeypatch.setitem(sys.modules, "zstandard", None)
    with pytest.raises(MissingDependencyError, match=r"zstandard.*\[logs\]"):
        read(path)
