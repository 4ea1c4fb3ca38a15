"""Texts of models and users are stored and read back, whatever characters they have; outputs are valid UTF-8."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from StaICC import Normal, PredictionStore, compare, load, verify
from StaICC.cli import main
from StaICC.errors import StaICCError
from StaICC.logs.reading import read_logs
from StaICC.results.result import Result
from StaICC.safe_text import utf8

TEXTS = {
    "first half of a pair": "Great \ud83d",
    "second half of a pair": "\udc00",
    "two first halves": "\ud83d\ud83d x",
    "a byte of a file name": "a\udcffb",
    "NUL": "NUL \x00 end",
    "only NUL": "\x00",
    "right to left": "bidi \u202e abc",
    "isolates": "\u2066x\u2069",
    "only a combining accent": "\u0301",
    "two accents": "e\u0301\u0301",
    "byte-order mark": "\ufeffbom",
    "zero width": "\u200b",
    "escape sequence": "esc \x1b[31m",
    "line ends": "line\r\nfeed\u2028",
    "tag": "tag \U000e0041",
    "noncharacter": "\uffff \x7f\x85",
}
SURE = [-1.0, -2.0, -1.5]


@cache
def run_that_fails_with(text: str) -> Result:
    """Return a run in which about a third of the queries fail with a message of this text."""

    def function(prompt: str, label_space: list[str]) -> list[float]:
        if len(prompt) % 3 == 0:
            raise ValueError(text)
        return SURE

    return Normal(datasets=["mini"])(function, on_error="collect")


@cache
def run_that_replies_with(text: str) -> Result:
    """Return a run in which about a third of the replies are this text."""
    return Normal(datasets=["mini"], unparsed="wrong")(
        lambda prompt, label_space: text if len(prompt) % 3 == 0 else "food"
    )


@cache
def run_of_function_named(text: str) -> Result:
    """Return a run of a function with this name."""

    def function(prompt: str, label_space: list[str]) -> list[float]:
        return SURE

    function.__name__ = function.__qualname__ = text
    return Normal(datasets=["mini"])(function)


@cache
def run_of_model_called(text: str) -> Result:
    """Return a run of a model that the user gave this name."""
    return Normal(datasets=["mini"])(lambda prompt, label_space: SURE, model_name=f"model {text}")


@cache
def run_with_metric_named(text: str) -> Result:
    """Return a run with a metric of one's own of this name."""
    return Normal(datasets=["mini"], metrics={f"metric {text}": lambda truth, prediction: 0.5})(
        lambda prompt, label_space: SURE
    )


with_such_a_text = pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
in_each_kind_of_result = pytest.mark.parametrize(
    "make_result",
    [run_that_fails_with, run_that_replies_with, run_of_function_named, run_of_model_called, run_with_metric_named],
)
# A metric of one's own is neither recomputed nor ranked, and has no direction.
in_each_result_with_known_metrics = pytest.mark.parametrize(
    "make_result", [run_that_fails_with, run_that_replies_with, run_of_function_named, run_of_model_called]
)


@in_each_kind_of_result
@with_such_a_text
def test_a_result_with_such_a_text_is_saved_and_loaded(
    make_result: Callable[[str], Result], text: str, tmp_path: Path
) -> None:
    result = make_result(text)
    result.save(tmp_path / "result.json")
    loaded = load(tmp_path / "result.json")
    assert loaded == result
    loaded.save(tmp_path / "again.json")
    assert (tmp_path / "again.json").read_bytes() == (tmp_path / "result.json").read_bytes()
    assert [finding for finding in verify(loaded) if finding.same is False] == []


@in_each_kind_of_result
@with_such_a_text
def test_a_loaded_result_with_such_a_text_is_shown(
    make_result: Callable[[str], Result], text: str, tmp_path: Path
) -> None:
    make_result(text).save(tmp_path / "result.json")
    loaded: Any = load(tmp_path / "result.json")
    str(loaded).encode("utf-8")
    loaded._repr_html_().encode("utf-8")


@cache
def other_result() -> Result:
    return Normal(datasets=["mini"])(lambda prompt, label_space: SURE)


@in_each_result_with_known_metrics
@with_such_a_text
def test_a_loaded_result_with_such_a_text_is_compared(
    make_result: Callable[[str], Result], text: str, tmp_path: Path
) -> None:
    make_result(text).save(tmp_path / "result.json")
    loaded: Any = load(tmp_path / "result.json")
    str(compare(other_result(), loaded)).encode("utf-8")


def assert_valid_utf8(folder: Path) -> None:
    """Check all files of a folder."""
    for path in folder.rglob("*"):
        if path.is_file():
            path.read_bytes().decode("utf-8")


EXPORTS = [
    ("model-card", "md"),
    ("latex", "tex"),
    ("queries", "csv"),
    ("queries", "jsonl"),
    ("scores", "csv"),
    ("scores", "jsonl"),
]


@in_each_kind_of_result
@with_such_a_text
def test_a_result_with_such_a_text_is_exported(make_result: Callable[[str], Result], text: str, tmp_path: Path) -> None:
    file = tmp_path / "result.json"
    make_result(text).save(file)
    for kind, suffix in EXPORTS:
        assert main(["export", kind, str(file), "--output", str(tmp_path / f"{kind}.{suffix}")]) == 0, kind
    assert_valid_utf8(tmp_path)


@in_each_kind_of_result
@with_such_a_text
def test_a_report_has_such_a_text(make_result: Callable[[str], Result], text: str, tmp_path: Path) -> None:
    file, other_file = tmp_path / "result.json", tmp_path / "other.json"
    make_result(text).save(file)
    other_result().save(other_file)
    assert main(["report", str(file), str(other_file), "--output", str(tmp_path / "report.html")]) == 0
    assert_valid_utf8(tmp_path)


@in_each_result_with_known_metrics
@with_such_a_text
def test_a_result_with_such_a_text_is_verified_and_ranked(
    make_result: Callable[[str], Result], text: str, tmp_path: Path
) -> None:
    file, other_file = tmp_path / "result.json", tmp_path / "other.json"
    make_result(text).save(file)
    other_result().save(other_file)
    assert main(["verify", str(file)]) == 0
    assert main(["rank", str(file), str(other_file)]) == 0


@in_each_result_with_known_metrics
@with_such_a_text
def test_a_log_of_every_eval_ever_has_such_a_text(
    make_result: Callable[[str], Result], text: str, tmp_path: Path
) -> None:
    file = tmp_path / "result.json"
    make_result(text).save(file)
    assert main(["export", "every-eval-ever", str(file), "--output", str(tmp_path / "datastore")]) == 0
    assert_valid_utf8(tmp_path)
    for log in tmp_path.glob("datastore/data/*/*/*/*.json"):
        read_logs(log)


def test_data_frames_have_valid_texts(tmp_path: Path) -> None:
    pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    result = run_that_fails_with("Great \ud83d")
    for level in ("score", "query"):
        result.to_pandas(level).to_parquet(tmp_path / f"{level}.parquet")  # type: ignore[arg-type]
    assert any("Great \\ud83d" in str(reason) for reason in result.to_pandas("query")["reason"]), (
        f"got {result.to_pandas('query')['reason']}"
    )


def run_with_store(text: str, path: Path) -> Result:
    """Return a run with a store of a model that has the text in its name and replies with it to every prompt."""
    benchmark = Normal(datasets=["mini"], unparsed="wrong")
    result = benchmark(lambda prompt, label_space: text, model_name=f"m{text}", store=path)
    assert isinstance(result, Result)
    return result


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_a_store_keeps_the_model_and_its_replies(text: str, tmp_path: Path) -> None:
    """The second run has the replies of the store."""
    path = tmp_path / "store.sqlite"
    run_with_store(text, path)

    again = run_with_store(text, path)

    assert len(again.details["mini"].unparsed) == 192
    with PredictionStore(path) as store:
        assert f"m{text}" in " ".join(store.info().models)
    assert main(["store", "info", str(path)]) == 0


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_the_exported_replies_of_a_store_have_the_text(text: str, tmp_path: Path) -> None:
    """Verbatim, or escaped as by ``repr``."""
    path = tmp_path / "store.sqlite"
    run_with_store(text, path)

    assert main(["store", "export", str(path), "-o", str(tmp_path / "replies.jsonl")]) == 0

    lines = (tmp_path / "replies.jsonl").read_text("utf-8").splitlines()
    exported = [str(json.loads(line)) for line in lines]
    escaped = repr(text)[1:-1]
    assert [entry for entry in exported if text in entry or escaped in entry] != [], exported


# -- any text in any field


def paths_of_texts(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path of each text in JSON values: the keys and indexes that lead to it."""
    if isinstance(value, str):
        yield path
    elif isinstance(value, (dict, list)):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for key, item in items:
            yield from paths_of_texts(item, (*path, key))


def with_text(data: dict[str, Any], path: tuple[Any, ...], text: str) -> dict[str, Any]:
    """Return a copy of JSON values with a text at a path."""
    changed = copy.deepcopy(data)
    target: Any = changed
    for key in path[:-1]:
        target = target[key]
    target[path[-1]] = text
    return changed


def is_accepted(data: dict[str, Any]) -> bool:
    """Return whether these values are read as a result."""
    try:
        Result.from_dict(data)
    except StaICCError:
        return False
    return True


SAVED_RESULT = json.loads(json.dumps(run_that_fails_with("reason").to_dict())) | {"warnings": ["a warning"]}
PATHS_OF_FREE_TEXTS = [
    path for path in paths_of_texts(SAVED_RESULT) if is_accepted(with_text(SAVED_RESULT, path, "any text"))
]
"""The fields in which a result has texts that are no words of the format."""


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.sampled_from(PATHS_OF_FREE_TEXTS),
    st.one_of(st.text(), st.text(st.characters(categories=["Cs", "Cc", "Cf", "Mn"]))),
)
def test_any_text_in_any_field_is_saved_and_read_back(
    tmp_path_factory: pytest.TempPathFactory, caplog: pytest.LogCaptureFixture, path: tuple[Any, ...], text: str
) -> None:
    data = with_text(SAVED_RESULT, path, text)
    if not is_accepted(data):  # such as an empty name
        return
    folder = tmp_path_factory.mktemp("any")

    Result.from_dict(data).save(folder / "first.json")
    loaded = load(folder / "first.json")
    loaded.save(folder / "again.json")

    # Two halves of a surrogate pair that meet in the text become one character.
    with_joined_pairs = text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
    assert loaded.to_dict() == Result.from_dict(with_text(SAVED_RESULT, path, with_joined_pairs)).to_dict()
    assert not caplog.records, "no remark that the file was changed"
    assert (folder / "first.json").read_bytes() == (folder / "again.json").read_bytes()
    (folder / "first.json").read_bytes().decode("utf-8")


def test_many_fields_of_a_result_may_have_any_text() -> None:
    assert len(PATHS_OF_FREE_TEXTS) > 20


def test_files_have_the_escape_of_json() -> None:
    assert json.loads(utf8(json.dumps("half \ud83d", ensure_ascii=False))) == "half \ud83d"
