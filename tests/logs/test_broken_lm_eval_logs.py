"""Broken, mismatched, truncated and hostile logs of lm_eval: refused, or untested, with the reason."""

from __future__ import annotations

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
from tests.logs.made_logs import edited_json, edited_samples, results_file, samples_file, write_evaluation

CORRECT = [1.0, 0.0, 1.0, 1.0, 0.0, 1.0, 0.0, 1.0, 1.0, 0.0]


def edit_results(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change the content of the file of results of a folder."""
    with edited_json(results_file(folder)) as results:
        change(results)


def edit_each_sample(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change each sample of a folder."""
    with edited_samples(folder) as samples:
        for sample in samples:
            change(sample)


def set_of_first(**values: Any) -> Callable[[Path], None]:
    """Return a function that changes values of the first sample of a folder."""

    def change_first_sample(folder: Path) -> None:
        with edited_samples(folder) as samples:
            samples[0].update(values)

    return change_first_sample


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
    """Exchange right and wrong documents: the samples are those of a run with other predictions."""
    edit_each_sample(folder, lambda sample: sample.update(acc=1.0 - sample["acc"]))


def without_last_document_and_first_number(folder: Path) -> None:
    """Remove the last sample, and give the first one an id that is no number."""
    with edited_samples(folder) as samples:
        samples.pop()
        samples[0]["doc_id"] = "x"


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


def with_another_document(folder: Path) -> None:
    with edited_samples(folder) as samples:
        samples.append({**samples[0], "doc_id": 77})


def without_samples(folder: Path) -> None:
    samples_file(folder).write_text("", "utf-8")


def as_pipe(folder: Path) -> None:
    file = samples_file(folder)
    file.unlink()
    os.symlink("/dev/zero", file)


def without_model(folder: Path) -> None:
    with edited_json(results_file(folder)) as results:
        del results["model_name"]
        results["config"] = {}


def with_task_out_of_folder(folder: Path) -> None:
    with edited_json(results_file(folder)) as results:
        results["configs"] = {"../../../etc/passwd": {}}


REFUSED: dict[str, tuple[Callable[[Path], None], str]] = {
    "two runs in one file": (append_again, "document 0 appears twice with the filter none"),
    "two documents with one id": (set_of_first(doc_id=1), "document 1 appears twice"),
    "no file of results": (remove_results, "no log of this folder can be read"),
    "no file of samples": (remove_samples, "--log_samples"),
    "the last sample is cut": (cut_last_line, "line 10: this is not JSON"),
    "the results are cut": (cut_results, "this is not JSON"),
    "samples of another model": (of_another_model, "the samples of another run"),
    "more documents than the results say": (with_another_document, "the samples of another evaluation"),
    "fewer documents, whose ids are not counted from 0": (
        without_last_document_and_first_number,
        "it is not known which ones are missing",
    ),
    "a metric that is called doc_id": (set_of_first(metrics=["acc", "doc_id"]), "has overwritten this field"),
    "a metric that is called target": (set_of_first(metrics=["acc", "target"]), "has overwritten this field"),
    "an id that is a fraction": (set_of_first(doc_id=0.5), "got the doc_id 0.5"),
    "an id that is true": (set_of_first(doc_id=True), "got the doc_id True"),
    "an id of another type": (set_of_first(doc_id=[1]), "got the doc_id"),
    "all values are texts": (
        lambda folder: edit_each_sample(folder, lambda sample: sample.update(acc="good")),
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
        lambda folder: edit_results(folder, lambda results: results["n-samples"]["sums"].update(effective=10**12)),
        "more than the 1000000 that are read",
    ),
    "a task with a path": (with_task_out_of_folder, "is not in its folder"),
    "results without tasks": (
        lambda folder: edit_results(folder, lambda results: results.update(results={}, configs={})),
        "no task",
    ),
}
"""A function that breaks a log, and what the refusal says."""


@pytest.mark.parametrize(("break_log", "reason"), REFUSED.values(), ids=REFUSED)
def test_a_broken_log_is_refused_with_the_reason(
    break_log: Callable[[Path], None], reason: str, tmp_path: Path
) -> None:
    folder = write_evaluation(tmp_path, {"sums": {"acc": CORRECT}}, model="a")
    break_log(folder)

    with pytest.raises(StaICCError, match=reason) as caught:
        read_logs(tmp_path)

    assert len(str(caught.value)) < 1500


def with_value_outside_range(folder: Path) -> None:
    """Set a score to 1e300, and remove the mean that the harness reports: it is another one then."""
    set_of_first(acc=1e300)(folder)
    edit_results(folder, lambda results: results["results"]["sums"].pop("acc,none"))


def with_another_target(folder: Path) -> None:
    with edited_samples(folder) as samples:
        samples[3]["target"] = "7"


UNTESTED: dict[str, tuple[Callable[[Path], None], str]] = {
    "a value outside the range": (with_value_outside_range, "range"),
    "infinite values": (
        lambda folder: edit_each_sample(folder, lambda sample: sample.update(acc=math.inf)),
        "no metric has a number|no acc here",
    ),
    "other targets": (with_another_target, "other documents or targets"),
    "other ids": (
        lambda folder: edit_each_sample(folder, lambda sample: sample.update(doc_id=f"x{sample['doc_id']}")),
        "share no test row",
    ),
    "no documents": (
        lambda folder: edit_each_sample(folder, lambda sample: sample.pop("doc")),
        "only one of the logs has their digests",
    ),
    "another direction": (
        lambda folder: edit_results(folder, lambda results: results.update(higher_is_better={"sums": {"acc": False}})),
        "other ranges or directions",
    ),
}
"""A function that changes the second of two logs, and why they are not compared, or not tested."""


@pytest.mark.parametrize(("change_log", "reason"), UNTESTED.values(), ids=UNTESTED)
def test_logs_that_do_not_fit_are_not_compared(change_log: Callable[[Path], None], reason: str, tmp_path: Path) -> None:
    first = write_evaluation(tmp_path / "a", {"sums": {"acc": CORRECT * 10}}, model="a")
    second = write_evaluation(tmp_path / "b", {"sums": {"acc": CORRECT * 10}}, model="b")
    change_log(second)

    with pytest.raises(StaICCError, match=reason):
        compare(*read_logs(first, second).values())


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
