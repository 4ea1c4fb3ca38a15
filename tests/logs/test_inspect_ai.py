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


def test_an_archive_and_a_json_file_of_the_same_run_have_the_same_samples(tmp_path: Path) -> None:
    samples = [sample(0, "C"), sample(1, "I"), sample(2, "P"), sample(3, "N")]

    from_archive = read(write_archive(tmp_path / "log.eval", samples))
    from_json = read(write_json(tmp_path / "log.json", samples))

    assert values_of(from_json, "match") == {("0", 0): 1.0, ("1", 0): 0.0, ("2", 0): 0.5, ("3", 0): 0.0}
    assert sorted(from_archive.samples, key=lambda item: item.document) == list(from_json.samples)
    assert from_json.prompts is not None
    assert from_archive.prompts == from_json.prompts


@pytest.mark.parametrize(("name", "write"), [("log.eval", write_archive), ("log.json", write_json)])
def test_a_log_names_its_model_task_and_harness(tmp_path: Path, name: str, write: Any) -> None:
    """A log without anything unusual has no notes, whatever the grades of its samples."""
    run = read(write(tmp_path / name, [sample(0, "C"), sample(1, "I"), sample(2, "P"), sample(3, "N")]))

    assert run.model == "openai/small"
    assert run.task == "capitals"
    assert run.task_version == "3"
    assert run.expected == 4
    assert run.harness == "inspect_ai"
    assert run.harness_version == "0.3.285"
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


def setting_of(path: Path, stop: str) -> str:
    """Return how the setting ``stop`` of the model is read from a log that has it."""
    head = header()
    head["eval"]["model_args"] = {"stop": [stop]}
    return read(write_json(path, [sample(row, "C") for row in range(4)], head)).model_settings["stop"]


def test_settings_that_are_shortened_stay_distinct(tmp_path: Path) -> None:
    setting_with_a = setting_of(tmp_path / "log.json", stop="x" * 5000 + "a")
    setting_with_b = setting_of(tmp_path / "log.json", stop="x" * 5000 + "b")

    assert len(setting_with_a) < 80
    assert len(setting_with_b) < 80
    assert setting_with_a != setting_with_b


def test_epochs_are_repeats_of_a_row(tmp_path: Path) -> None:
    """An epoch is counted from 1, a repeat from 0."""
    samples = [
        sample(0, "C", epoch=1),
        sample(0, "I", epoch=2),
        sample(0, "I", epoch=3),
        sample(1, "I", epoch=1),
        sample(1, "P", epoch=2),
        sample(1, "C", epoch=3),
    ]

    run = read(write_archive(tmp_path / "log.eval", reversed(samples), header(n_rows=2, epochs=3)))

    assert values_of(run, "match") == {
        ("0", 0): 1.0,
        ("0", 1): 0.0,
        ("0", 2): 0.0,
        ("1", 0): 0.0,
        ("1", 1): 0.5,
        ("1", 2): 1.0,
    }
    digests = {item.digest for item in run.samples}
    assert len(digests) == 2  # one for each row


def digests_of_question(path: Path, question: str, message_id: str) -> list[str | None]:
    """Return the digests of a log with one row, whose question is a message with an id."""
    message = {"id": message_id, "role": "user", "content": question, "source": "input"}
    run = read(write_json(path, [sample(0, "C", input=[message])], header(n_rows=1)))
    return [item.digest for item in run.samples]


def test_the_ids_of_messages_do_not_change_the_digest_of_a_row(tmp_path: Path) -> None:
    log = tmp_path / "log.json"
    digests = digests_of_question(log, "Which city?", message_id="aaa")
    assert digests_of_question(log, "Which city?", message_id="bbb") == digests
    assert digests_of_question(log, "Which river?", message_id="aaa") != digests


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
    """Of three rows in two epochs, the log has row 0 in both epochs and row 2 in the first one."""
    samples = [sample(0, "C", epoch=1), sample(0, "C", epoch=2), sample(2, "I", epoch=1)]
    head = header(n_rows=3, epochs=2, status="cancelled", results=None)

    run = read(write_archive(tmp_path / "log.eval", samples, head))

    missing = {(item.document, item.repeat) for item in run.samples if item.reason == "the sample is not in the log"}
    assert missing == {("1", 0), ("1", 1), ("2", 1)}
    assert len(run.samples) == 3 * 2
    assert run.notes == (
        "the run did not end: its status is 'cancelled'",
        "the log has 3 of 6 samples: the others are missing",
    )


def copy_without_header(archive: Path, copied: Path) -> None:
    """Copy a log without the member that is written at the end of a run."""
    with zipfile.ZipFile(archive) as source, zipfile.ZipFile(copied, "w") as copy:
        for name in source.namelist():
            if name != "header.json":
                copy.writestr(name, source.read(name))


def test_a_log_without_a_header_is_read_from_its_journal(tmp_path: Path) -> None:
    """As that of a run that was killed."""
    head = header()
    start = {"version": head["version"], "eval": head["eval"], "plan": head["plan"]}
    journal = {"_journal/start.json": json.dumps(start).encode()}
    complete = write_archive(tmp_path / "complete.eval", [sample(0, "C")], members=journal)
    copy_without_header(complete, tmp_path / "killed.eval")

    run = read(tmp_path / "killed.eval")

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


def test_a_reported_mean_that_is_not_that_of_the_samples_makes_the_metric_unusable(tmp_path: Path) -> None:
    """Two of four samples are right, and the header says 0.25; the metric f1 stays usable."""
    head = header()
    head["results"]["scores"] = [result_of_scorer("match", accuracy=0.25)]
    samples = []
    for row, grade in enumerate("CCII"):
        samples.append(sample(row, "", scores={"match": {"value": grade}, "f1": {"value": 0.5}}))

    run = read(write_json(tmp_path / "log.json", samples, head))

    assert run.metrics == ("f1",)
    assert run.not_scores == {"match": "inspect_ai reports 0.25, which is not the mean of the samples (0.5)"}


@pytest.mark.parametrize("version", [2, 3])
def test_the_scores_of_a_version_are_by_scorer(tmp_path: Path, version: int) -> None:
    scored = sample(0, "C", scores={"match": {"value": "C"}})
    run = read(write_json(tmp_path / "log.json", [scored], header(n_rows=1, version=version)))
    assert values_of(run, "match") == {("0", 0): 1.0}


def test_the_first_version_has_one_score_without_a_scorer(tmp_path: Path) -> None:
    scored = sample(0, "C", score={"value": "C"})
    del scored["scores"]

    run = read(write_json(tmp_path / "log.json", [scored], header(n_rows=1, version=1)))

    (metric,) = run.metrics
    assert values_of(run, metric) == {("0", 0): 1.0}


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
