"""A store that cannot be written: a complete one is enough for a run, an incomplete one is refused before the model."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

import StaICC.benchmarks.context
from StaICC import Normal
from StaICC.errors import ArgumentError
from StaICC.inference.store import PredictionStore, can_be_written, query_key

ROOT = Path(StaICC.benchmarks.context.__file__).parents[2]
PROMPTS: list[str] = []
"""The prompts that the function of the tests was called with."""


def scores(prompt: str, label_space: Sequence[str]) -> list[float]:
    """An inference function that notes its prompts."""
    PROMPTS.append(prompt)
    return [float(len(prompt) % (3 + number)) for number in range(len(label_space))]


@pytest.fixture
def complete(tmp_path: Path) -> Path:
    """Return a store with all predictions of a benchmark with limit 20."""
    path = tmp_path / "run.sqlite"
    Normal(datasets=["mini"], limit=20)(scores, store=path, model_name="lengths")
    PROMPTS.clear()
    return path


@pytest.fixture
def read_only(complete: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return this store, which cannot be written."""
    monkeypatch.setattr(StaICC.benchmarks.context, "can_be_written", lambda path: False)
    return complete


def test_a_complete_store_that_cannot_be_written_has_the_predictions_of_a_run(read_only: Path) -> None:
    result = Normal(datasets=["mini"], limit=20)(scores, store=read_only, model_name="lengths")
    without_store = Normal(datasets=["mini"], limit=20)(scores)
    assert result.divided == without_store.divided


def test_a_run_leaves_a_store_that_cannot_be_written_as_it_is(read_only: Path) -> None:
    before = read_only.read_bytes()
    Normal(datasets=["mini"], limit=20)(scores, store=read_only, model_name="lengths")
    assert read_only.read_bytes() == before
    assert [file.name for file in read_only.parent.iterdir()] == [read_only.name]


def test_an_incomplete_store_that_cannot_be_written_is_refused_before_the_first_query(read_only: Path) -> None:
    with pytest.raises(ArgumentError, match="lacks predictions of this run, and it is read-only"):
        Normal(datasets=["mini"], limit=30)(scores, store=read_only, model_name="lengths")
    assert PROMPTS == []


def test_a_forecast_needs_no_store_that_can_be_written(read_only: Path) -> None:
    forecast = Normal(datasets=["mini"], limit=30).forecast(scores, store=read_only, model_name="lengths")
    assert 0 < forecast.cached < forecast.queries


@pytest.fixture
def with_two_editions(tmp_path: Path) -> Path:
    """Return a store with two editions of a served model."""
    with PredictionStore(tmp_path / "run.sqlite") as store:
        store.put_many("served", [(query_key("prompt", ["a", "b"]), 1)])
        store.add_edition("served", "edition 1", allowed=True)
        store.add_edition("served", "edition 2", allowed=True)
    return tmp_path / "run.sqlite"


def test_an_edition_that_is_recorded_needs_no_writing(with_two_editions: Path) -> None:
    with PredictionStore(with_two_editions, read_only=True) as store:
        other_editions = store.add_edition("served", "edition 2", allowed=False)
    assert other_editions == ["edition 1"]


def test_a_new_edition_is_refused_by_a_store_that_is_only_read(with_two_editions: Path) -> None:
    with (
        PredictionStore(with_two_editions, read_only=True) as store,
        pytest.raises(ArgumentError, match="read-only"),
    ):
        store.add_edition("served", "edition 3", allowed=False)


def test_an_ordinary_store_can_be_written(complete: Path) -> None:
    assert can_be_written(complete)


def test_a_new_store_can_be_written(tmp_path: Path) -> None:
    assert can_be_written(tmp_path / "new.sqlite")


@pytest.mark.posix
def test_a_store_without_the_permission_cannot_be_written(complete: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("root can write files without the permission: run the tests as another user")
    complete.chmod(0o444)
    assert not can_be_written(complete)


@pytest.mark.posix
def test_a_run_on_a_read_only_mount(tmp_path: Path) -> None:
    mounted = tmp_path / "mounted"
    mounted.mkdir()
    command = [sys.executable, "-m", "StaICC", "run", "normal", "--datasets", "mini", "--no-save", "--store"]
    command += [str(mounted / "run.sqlite")]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    first = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    mount = 'mount --bind "$0" "$0" && mount -o remount,bind,ro "$0" || exit 99; exec "$@"'
    within = [shutil.which("unshare") or "sh", "--map-root-user", "--mount", "sh", "-c", mount, str(mounted)]
    possible = subprocess.run([*within, "true"], capture_output=True, text=True, check=False)
    if possible.returncode != 0:
        pytest.skip(
            "a real read-only mount needs Linux with unshare and the right to use namespaces, which containers often "
            f"take away ({possible.stderr.strip()}); the tests above refuse the writing in another way"
        )
    again = subprocess.run([*within, *command], env=environment, capture_output=True, text=True, check=False)
    assert (again.returncode, again.stdout) == (0, first.stdout), again.stderr
    more = subprocess.run([*within, *command, "--k", "2"], env=environment, capture_output=True, text=True, check=False)
    assert more.returncode == 2
    assert "lacks predictions of this run, and it is read-only" in more.stderr
