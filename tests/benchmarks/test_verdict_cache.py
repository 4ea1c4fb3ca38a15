"""A kept verdict holds only as long as all that the verification read is the same."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from StaICC import Dataset, Metric, Normal
from StaICC.benchmarks import verdict_cache
from StaICC.benchmarks.verdict_cache import VerdictCache, digest_of_inputs
from StaICC.metrics.metric_set import metric_set
from StaICC.results.result import Result, ResultGroup
from StaICC.results.signature import Signature

LINES = ["text,label", *(f"text {row},{'yes' if row % 2 else 'no'}" for row in range(60))]
"""The lines of a CSV file with 60 texts and the labels "no" and "yes" by turns."""

FILE = "digest of the result file"


def write_lines(path: Path, lines: list[str]) -> Path:
    path.write_text("\n".join(lines) + "\n", "utf-8")
    return path


def predict_first_label(prompt: str, label_space: list[str]) -> int:
    return 0


def run_on_file(path: Path) -> Result:
    """Return a result on the data of a file with the columns "text" and "label"."""
    result: Result = Normal(datasets=[Dataset.from_file(path, ["text"], "label")], limit=4)(predict_first_label)
    return result


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder in which verdicts are kept in this test."""
    monkeypatch.setattr(verdict_cache, "data_home", lambda: tmp_path / "home")
    return tmp_path / "home"


def keep_verdict(result: Result, data_folder: Path) -> None:
    """Keep the verdict of a verification that read the data in a folder."""
    verdicts = VerdictCache()
    verdicts.add(FILE, digest_of_inputs(FILE, result, [data_folder]))
    verdicts.save()


def is_verdict_kept(result: Result, data_folder: Path) -> bool:
    """Return whether a verdict is kept for what a verification would read now."""
    return VerdictCache().has(FILE, digest_of_inputs(FILE, result, [data_folder]))


@pytest.mark.usefixtures("home")
def test_a_verdict_is_kept_once_it_was_added(tmp_path: Path) -> None:
    result = run_on_file(write_lines(tmp_path / "tickets.csv", LINES))
    assert not is_verdict_kept(result, tmp_path)

    keep_verdict(result, tmp_path)

    assert is_verdict_kept(result, tmp_path)


@pytest.mark.usefixtures("home")
def test_a_verdict_does_not_hold_for_a_data_file_with_one_more_row(tmp_path: Path) -> None:
    result = run_on_file(write_lines(tmp_path / "tickets.csv", LINES))
    keep_verdict(result, tmp_path)

    write_lines(tmp_path / "tickets.csv", [*LINES, "text 60,no"])

    assert not is_verdict_kept(result, tmp_path)


@pytest.mark.usefixtures("home")
def test_a_verdict_does_not_hold_without_the_data_file(tmp_path: Path) -> None:
    result = run_on_file(write_lines(tmp_path / "tickets.csv", LINES))
    keep_verdict(result, tmp_path)

    (tmp_path / "tickets.csv").unlink()

    assert not is_verdict_kept(result, tmp_path)


@pytest.mark.usefixtures("home")
def test_a_verdict_holds_again_for_a_data_file_that_is_restored(tmp_path: Path) -> None:
    result = run_on_file(write_lines(tmp_path / "tickets.csv", LINES))
    keep_verdict(result, tmp_path)
    (tmp_path / "tickets.csv").unlink()

    write_lines(tmp_path / "tickets.csv", LINES)

    assert is_verdict_kept(result, tmp_path)


def result_with_signature(**fields: str) -> Result:
    """Return a result on ``mini``, with other values of some fields of its signature."""
    result: Result = Normal(datasets=["mini"], limit=4)(predict_first_label)
    return replace(result, signature=Signature({**result.signature.fields, **fields}))


def half(truth: list[int], rows: list[list[float]]) -> float:
    """A metric that is always 0.5."""
    return 0.5


def result_with_function_as_metric() -> Any:
    return Normal(datasets=["mini"], limit=4, metrics={"mine": half})(predict_first_label)


def result_with_added_metric() -> Any:
    metrics = metric_set().adding(Metric("mine", half))
    return Normal(datasets=["mini"], limit=4, metrics=metrics)(predict_first_label)


def result_with_metric_of_plugin() -> Any:
    return result_with_signature(metrics="standard+mine@plugin-0123456789ab")


def result_of_benchmark_of_plugin() -> Any:
    return result_with_signature(benchmark="Mine@plugin-0123456789ab")


def result_on_rows_of_a_program() -> Any:
    rows = [(f"text {row}", row % 2) for row in range(60)]
    data = Dataset.from_rows(rows, name="rows", label_space=["a", "b"])
    return Normal(datasets=[data], limit=4)(predict_first_label)


def group_with_one_member_of_plugin() -> Any:
    return ResultGroup("both", {"known": result_with_signature(), "other": result_with_metric_of_plugin()})


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize(
    "make_result",
    [
        result_with_function_as_metric,
        result_with_added_metric,
        result_with_metric_of_plugin,
        result_of_benchmark_of_plugin,
        result_on_rows_of_a_program,
        group_with_one_member_of_plugin,
    ],
)
def test_no_verdict_is_kept_where_the_verification_depends_on_code_or_rows_without_a_digest(
    make_result: Callable[[], Any],
) -> None:
    """The code of a metric can change without a change of the file. Its verdict must not outlive it."""
    inputs = digest_of_inputs(FILE, make_result(), [])
    verdicts = VerdictCache()
    verdicts.add(FILE, inputs)
    verdicts.save()

    assert inputs is None
    assert not VerdictCache().has(FILE, inputs)
    assert VerdictCache().files == {FILE}, "that the file was verified is known"


def test_a_result_of_this_library_on_its_own_data_has_a_digest_of_its_inputs() -> None:
    assert digest_of_inputs(FILE, result_with_signature(), []) is not None


def test_the_digest_of_the_inputs_is_the_same_each_time(tmp_path: Path) -> None:
    result = run_on_file(write_lines(tmp_path / "tickets.csv", LINES))

    digest = digest_of_inputs(FILE, result, [tmp_path])

    assert digest is not None
    assert digest_of_inputs(FILE, result, [tmp_path]) == digest


def test_the_digest_of_the_inputs_depends_on_the_file_the_code_and_the_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = run_on_file(write_lines(tmp_path / "tickets.csv", LINES))
    missing_folder = tmp_path / "no folder"

    digests = [
        digest_of_inputs(FILE, result, [tmp_path]),
        digest_of_inputs("digest of another file", result, [tmp_path]),
        digest_of_inputs(FILE, result, [missing_folder]),
        digest_of_inputs(FILE, result, [missing_folder, tmp_path]),
    ]
    monkeypatch.setattr(verdict_cache, "digest_of_code", lambda: "another version")
    digests.append(digest_of_inputs(FILE, result, [tmp_path]))

    assert None not in digests
    assert len(set(digests)) == 5, "all are different"
