"""Broken, mismatched, truncated and hostile logs of lm_eval: refused, or untested, with the reason."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from StaICC.comparing.comparison import compare
from StaICC.errors import StaICCError
from StaICC.logs.lm_eval import _LONGEST_LINE
from StaICC.logs.reading import read_logs
from tests.logs.made_logs import results_file, samples_file, write_evaluation

CORRECT = [1.0, 0.0, 1.0, 1.0, 0.0, 1.0, 0.0, 1.0, 1.0, 0.0]


def edit_results(folder: Path, change: Callable[[dict[str, Any]], None]) -> None:
    file = results_file(folder)
    values = json.loads(file.read_text("utf-8"))
    change(values)
    file.write_text(json.dumps(values), "utf-8")


def edit_samples(folder: Path, change: Callable[[list[dict[str, Any]]], None]) -> None:
    file = samples_file(folder)
    samples = [json.loads(line) for line in file.read_text("utf-8").splitlines()]
    change(samples)
    file.write_text("".join(json.dumps(sample) + "\n" for sample in samples), "utf-8")


def set_of_first(**values: Any) -> Callable[[Path], None]:
    """Change values of the first sample."""
    return lambda folder: edit_samples(folder, lambda samples: samples[0].update(values))


def append_again(folder: Path) -> None:
    file = samples_file(folder)
    file.write_bytes(file.read_bytes() * 2)


def remove_results(folder: Path) -> None:
    results_file(folder).unlink()


def remove_samples(folder: Path) -> None:
    samples_file(folder).unlink()


def cut_last_line(folder: Path) -> None:
    file = samples_file(folder)
    file.write_bytes(file.read_bytes()[:-100])


def cut_results(folder: Path) -> None:
    file = results_file(folder)
    file.write_bytes(file.read_bytes()[:-100])


def of_another_model(folder: Path) -> None:
    """The samples of a run with other answers, under the date of this one."""
    edit_samples(folder, lambda samples: [sample.update(acc=1.0 - sample["acc"]) for sample in samples])  # type: ignore[func-returns-value]


def in_utf_16(folder: Path) -> None:
    file = samples_file(folder)
    file.write_text(file.read_text("utf-8"), "utf-16")


def with_latin_letters(folder: Path) -> None:
    file = samples_file(folder)
    file.write_bytes(file.read_bytes().replace(b"How", b"H\xf6w", 1))


def nested_deeply(folder: Path) -> None:
    file = samples_file(folder)
    deep = b"[" * 100_000 + b"]" * 100_000
    file.write_bytes(file.read_bytes().replace(b'"doc":', b'"doc_of_lists": ' + deep + b', "doc":', 1))


def with_huge_integer(folder: Path) -> None:
    file = samples_file(folder)
    file.write_bytes(file.read_bytes().replace(b'"acc": 1.0', b'"acc": ' + b"9" * 5000, 1))


def with_key_twice(folder: Path) -> None:
    file = samples_file(folder)
    file.write_bytes(file.read_bytes().replace(b'"acc": 1.0', b'"acc": 1.0, "acc": 0.0', 1))


def with_many_more(folder: Path) -> None:
    edit_samples(folder, lambda samples: samples.append({**samples[0], "doc_id": 77}))


def without_samples(folder: Path) -> None:
    samples_file(folder).write_text("", "utf-8")


def as_pipe(folder: Path) -> None:
    file = samples_file(folder)
    file.unlink()
    os.symlink("/dev/zero", file)


def without_model(folder: Path) -> None:
    def change(values: dict[str, Any]) -> None:
        del values["model_name"]
        values["config"] = {}

    edit_results(folder, change)


def with_task_out_of_folder(folder: Path) -> None:
    def change(values: dict[str, Any]) -> None:
        values["configs"] = {"../../../etc/passwd": {}}

    edit_results(folder, change)


REFUSED: dict[str, tuple[Callable[[Path], None], str]] = {
    "two runs in one file": (append_again, "document 0 appears twice with the filter none"),
    "two documents with one id": (set_of_first(doc_id=1), "document 1 appears twice"),
    "no file of results": (remove_results, "no log of this folder can be read"),
    "no file of samples": (remove_samples, "--log_samples"),
    "the last sample is cut": (cut_last_line, "line 10: this is not JSON"),
    "the results are cut": (cut_results, "this is not JSON"),
    "samples of another model": (of_another_model, "the samples of another run"),
    "more documents than the results say": (with_many_more, "the samples of another evaluation"),
    "fewer documents, whose ids are not counted from 0": (
        lambda folder: edit_samples(folder, lambda samples: [samples.pop(), samples[0].update(doc_id="x")]),  # type: ignore[func-returns-value]
        "it is not known which ones are missing",
    ),
    "a metric that is called doc_id": (set_of_first(metrics=["acc", "doc_id"]), "has overwritten this field"),
    "a metric that is called target": (set_of_first(metrics=["acc", "target"]), "has overwritten this field"),
    "an id that is a fraction": (set_of_first(doc_id=0.5), "got the doc_id 0.5"),
    "an id that is true": (set_of_first(doc_id=True), "got the doc_id True"),
    "an id of another type": (set_of_first(doc_id=[1]), "got the doc_id"),
    "all values are texts": (
        lambda folder: edit_samples(folder, lambda samples: [s.update(acc="good") for s in samples]),  # type: ignore[func-returns-value]
        "no metric has a number for each sample",
    ),
    "UTF-16": (in_utf_16, "not text in UTF-8|this is not JSON"),
    "Latin letters": (with_latin_letters, "not text in UTF-8"),
    "lists in lists": (nested_deeply, "nested more than 100 deep"),
    "a huge integer": (with_huge_integer, "an integer of 5000 digits is too large"),
    "a key twice": (with_key_twice, "the key 'acc' appears twice"),
    "an empty file of samples": (without_samples, "the file has no samples"),
    "a device": (as_pipe, "a device or a socket"),
    "no name of a model": (without_model, "does not name the model"),
    "more documents than are read": (
        lambda folder: edit_results(folder, lambda values: values["n-samples"]["sums"].update(effective=10**12)),
        "more than the 1000000 that are read",
    ),
    "a task with a path": (with_task_out_of_folder, "is not in its folder"),
    "results without tasks": (
        lambda folder: edit_results(folder, lambda v: v.update(results={}, configs={})),
        "no task",
    ),
}
"""What is done to a log, and what the refusal says."""


@pytest.mark.parametrize("fault", REFUSED)
def test_a_broken_log_is_refused_with_the_reason(fault: str, tmp_path: Path) -> None:
    folder = write_evaluation(tmp_path, {"sums": {"acc": CORRECT}}, model="a")
    change, reason = REFUSED[fault]
    change(folder)
    with pytest.raises(StaICCError, match=reason) as caught:
        read_logs(tmp_path)
    assert len(str(caught.value)) < 1500


def read_and_compare(first: Path, second: Path) -> None:
    results = read_logs(first, second)
    compare(results["a"], results["b"])


def two_runs(tmp_path: Path, second: dict[str, Any]) -> tuple[Path, Path]:
    first_folder = write_evaluation(tmp_path / "a", {"sums": {"acc": CORRECT * 10}}, model="a")
    return first_folder, write_evaluation(tmp_path / "b", {"sums": second}, model="b")


UNTESTED: dict[str, tuple[Callable[[Path], None], str]] = {
    "a value outside the range": (
        lambda folder: edit_samples(folder, lambda samples: samples[0].update(acc=1e300)),
        "range",
    ),
    "infinite values": (
        lambda folder: edit_samples(folder, lambda samples: [s.update(acc=math.inf) for s in samples]),  # type: ignore[func-returns-value]
        "no metric has a number|no acc here",
    ),
    "other targets": (
        lambda folder: edit_samples(folder, lambda samples: samples[3].update(target="7")),
        "other documents or targets",
    ),
    "other ids": (
        lambda folder: edit_samples(folder, lambda samples: [s.update(doc_id=f"x{s['doc_id']}") for s in samples]),  # type: ignore[func-returns-value]
        "share no test row",
    ),
    "no documents": (
        lambda folder: edit_samples(folder, lambda samples: [s.pop("doc") for s in samples]),  # type: ignore[func-returns-value]
        "only one of the logs has their digests",
    ),
    "another direction": (
        lambda folder: edit_results(folder, lambda values: values.update(higher_is_better={"sums": {"acc": False}})),
        "other ranges or directions",
    ),
}
"""What is done to the second of two logs, and why they are not compared, or not tested."""


@pytest.mark.parametrize("fault", UNTESTED)
def test_logs_that_do_not_fit_are_not_tested(fault: str, tmp_path: Path) -> None:
    first, second = two_runs(tmp_path, {"acc": CORRECT * 10})
    change, reason = UNTESTED[fault]
    change(second)
    if fault == "a value outside the range":
        # The mean differs from the reported one, too: that of a metric whose aggregation is not known is not compared.
        edit_results(second, lambda values: values["results"]["sums"].pop("acc,none"))
    with pytest.raises(StaICCError, match=reason):
        read_and_compare(first, second)


def test_a_line_without_an_end_does_not_fill_the_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert _LONGEST_LINE < 2**30
    monkeypatch.setattr("StaICC.logs.lm_eval._LONGEST_LINE", 1000)
    folder = write_evaluation(tmp_path, {"sums": {"acc": CORRECT}}, model="a")
    file = samples_file(folder)
    file.write_bytes(file.read_bytes() + b" " * 10_000)
    with pytest.raises(StaICCError, match="the line is longer"):
        read_logs(tmp_path)


def test_the_other_tasks_of_an_evaluation_with_a_broken_task_are_read(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = write_evaluation(tmp_path, {"sums": {"acc": CORRECT}, "kinds": {"acc": CORRECT}}, model="a")
    (broken,) = folder.glob("samples_kinds_*")
    broken.write_bytes(broken.read_bytes() * 2)
    assert list(read_logs(folder)["a"].divided) == ["sums"]
    assert "appears twice" in caplog.text


def test_names_that_results_use_for_something_else_are_left_out(tmp_path: Path) -> None:
    tasks = {"sums": {"acc": CORRECT, "rounds": CORRECT, "majority": CORRECT, "metric": CORRECT}}
    result = read_logs(write_evaluation(tmp_path, tasks, model="a"))["a"]
    assert list(result.averaged) == ["acc"]
    assert "rounds" in result.details["sums"].missing


def test_hostile_names_are_shown_in_one_line(tmp_path: Path) -> None:
    folder = write_evaluation(tmp_path, {"sums": {"acc\x1b[31m\n": CORRECT}}, model="a")
    edit_results(folder, lambda values: values.update(model_name="evil\x1b[2J\nmodel|x:y"))
    (result,) = read_logs(folder).values()
    assert "\n" not in str(result.signature)
    assert "\x1b" not in str(result)
