"""A kept verdict holds only as long as all that the verification read is the same."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from StaICC import Dataset, Metric, Normal
from StaICC.benchmarks import verdict_cache
from StaICC.benchmarks.verdict_cache import VerdictCache, digest_of_inputs
from StaICC.metrics.metric_set import metric_set
from StaICC.results.result import Result, ResultGroup
from StaICC.results.signature import Signature

LINES = ["text,label", *(f"text {row},{'yes' if row % 2 else 'no'}" for row in range(60))]


def write(path: Path, lines: list[str]) -> Path:
    path.write_text("\n".join(lines) + "\n", "utf-8")
    return path


def test_a_verdict_holds_until_the_data_file_changes_or_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verdict_cache, "data_home", lambda: tmp_path / "home")
    data = write(tmp_path / "tickets.csv", LINES)
    result = Normal(datasets=[Dataset.from_file(data, ["text"], "label")], limit=4)(lambda prompt, label_space: 0)

    def is_kept() -> bool:
        return VerdictCache().has("digest of the result", digest_of_inputs("digest of the result", result, [tmp_path]))

    assert not is_kept()
    verdicts = VerdictCache()
    verdicts.add("digest of the result", digest_of_inputs("digest of the result", result, [tmp_path]))
    verdicts.save()
    assert is_kept()
    write(data, [*LINES, "text 60,no"])
    assert not is_kept()
    data.unlink()
    assert not is_kept()
    write(data, LINES)
    assert is_kept()


def predict(prompt: str, label_space: list[str]) -> int:
    return 0


def signed(**fields: str) -> Result:
    """Return a result on ``mini``, with other fields of its signature."""
    result: Result = Normal(datasets=["mini"], limit=4)(predict)
    return replace(result, signature=Signature({**result.signature.fields, **fields}))


METRIC = Metric("mine", lambda truth, rows: 0.5)
RESULTS_OF_OTHER_CODE: dict[str, Callable[[], Result | ResultGroup]] = {
    "functions as metrics": lambda: Normal(datasets=["mini"], limit=4, metrics={"mine": lambda truth, rows: 0.5})(
        predict
    ),
    "an added metric": lambda: Normal(datasets=["mini"], limit=4, metrics=metric_set().adding(METRIC))(predict),
    "a metric of a plug-in": lambda: signed(metrics="standard+mine@plugin-0123456789ab"),
    "a benchmark of a plug-in": lambda: signed(benchmark="Mine@plugin-0123456789ab"),
    "rows of a program": lambda: Normal(
        datasets=[
            Dataset.from_rows([(f"text {row}", row % 2) for row in range(60)], name="rows", label_space=["a", "b"])
        ],
        limit=4,
    )(predict),
    "a group of which one member has other code": lambda: ResultGroup(
        "both", {"known": signed(), "other": signed(metrics="standard+mine@plugin-0123456789ab")}
    ),
}
"""Results whose verification runs code, or reads data, of which no digest is known."""


@pytest.mark.parametrize("make", RESULTS_OF_OTHER_CODE.values(), ids=RESULTS_OF_OTHER_CODE)
def test_no_verdict_is_kept_where_something_is_read_that_has_no_digest(
    make: Callable[[], Result | ResultGroup], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The code of a metric can change without a change of the file. Its verdict must not outlive it."""
    monkeypatch.setattr(verdict_cache, "data_home", lambda: tmp_path)
    assert digest_of_inputs("file", signed(), []) is not None
    inputs = digest_of_inputs("file", make(), [])
    assert inputs is None
    verdicts = VerdictCache()
    verdicts.add("file", inputs)
    verdicts.save()
    assert not VerdictCache().has("file", inputs)
    assert VerdictCache().files == {"file"}


def test_the_digest_of_the_inputs_is_that_of_the_file_the_code_and_the_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = write(tmp_path / "tickets.csv", LINES)
    result = Normal(datasets=[Dataset.from_file(data, ["text"], "label")], limit=4)(predict)
    digests = [
        digest_of_inputs("file", result, [tmp_path]),
        digest_of_inputs("other file", result, [tmp_path]),
        digest_of_inputs("file", result, [tmp_path / "no folder"]),
        digest_of_inputs("file", result, [tmp_path / "no folder", tmp_path]),
    ]
    assert digests[0] == digest_of_inputs("file", result, [tmp_path])
    monkeypatch.setattr(verdict_cache, "digest_of_code", lambda: "another version")
    digests.append(digest_of_inputs("file", result, [tmp_path]))
    assert None not in digests
    assert len(set(digests)) == len(digests)
