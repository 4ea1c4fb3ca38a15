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
def complete_store(tmp_path: Path) -> Path:
    """Return a store with all predictions of a benchmark with limit 20."""
    path = tmp_path / "run.sqlite"
    Normal(datasets=["mini"], limit=20)(scores, store=path, model_name="lengths")
    PROMPTS.clear()
    return path


@pytest.fixture
def read_only_store(complete_store: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a store with all predictions of a benchmark with limit 20, which cannot be written."""
    monkeypatch.setattr(StaICC.benchmarks.context, "can_be_written", lambda path: False)
    return complete_store


def test_a_complete_store_that_cannot_be_written_has_the_predictions_of_a_run(read_only_store: Path) -> None:
    result = Normal(datasets=["mini"], limit=20)(scores, store=read_only_store, model_name="lengths")
    without_store = Normal(datasets=["mini"], limit=20)(scores)
    assert result.divided == without_store.divided


def test_a_run_leaves_a_store_that_cannot_be_written_as_it_is(read_only_store: Path) -> None:
    before = read_only_store.read_bytes()
    Normal(datasets=["mini"], limit=20)(scores, store=read_only_store, model_name="lengths")
    assert read_only_store.read_bytes() == before
    assert [file.name for file in read_only_store.parent.iterdir()] == [read_only_store.name]


def test_an_incomplete_store_that_cannot_be_written_is_refused_before_the_first_query(read_only_store: Path) -> None:
    with pytest.raises(ArgumentError, match="lacks predictions of this run, and it is read-only"):
        Normal(datasets=["mini"], limit=30)(scores, store=read_only_store, model_name="lengths")
    assert PROMPTS == []


def test_a_forecast_needs_no_store_that_can_be_written(read_only_store: Path) -> None:
    forecast = Normal(datasets=["mini"], limit=30).forecast(scores, store=read_only_store, model_name="lengths")
    assert 0 < forecast.cached < forecast.queries


@pytest.fixture
def store_with_two_editions(tmp_path: Path) -> Path:
    """Return a store with two editions of a served model."""
    with PredictionStore(tmp_path / "run.sqlite") as store:
        store.put_many("served", [(query_key("prompt", ["a", "b"]), 1)])
        store.add_edition("served", "edition 1", allowed=True)
        store.add_edition("served", "edition 2", allowed=True)
    return tmp_path / "run.sqlite"


def test_an_edition_that_is_recorded_needs_no_writing(store_with_two_editions: Path) -> None:
    with PredictionStore(store_with_two_editions, read_only=True) as store:
        other_editions = store.add_edition("served", "edition 2", allowed=False)
    assert other_editions == ["edition 1"]


def test_a_new_edition_is_refused_by_a_store_that_is_only_read(store_with_two_editions: Path) -> None:
    with (
        PredictionStore(store_with_two_editions, read_only=True) as store,
        pytest.raises(ArgumentError, match="read-only"),
    ):
        store.add_edition("served", "edition 3", allowed=False)


def test_an_ordinary_store_can_be_written(complete_store: Path) -> None:
    assert can_be_written(complete_store)


def test_a_new_store_can_be_written(tmp_path: Path) -> None:
    assert can_be_written(tmp_path / "new.sqlite")


@pytest.mark.posix
def test_a_store_without_the_permission_cannot_be_written(complete_store: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("root can write files without the permission: run the tests as another user")
    complete_store.chmod(0o444)
    assert not can_be_written(complete_store)


MOUNT_READ_ONLY = 'mount --bind "$0" "$0" && mount -o remount,bind,ro "$0" || exit 99; exec "$@"'
"""A shell script that mounts the folder ``$0`` read-only, and runs the other arguments as a command."""


@pytest.fixture
def read_only_mount(tmp_path: Path) -> list[str]:
    """The beginning of a command that sees the folder ``mounted`` as a read-only mount; a skip where there is none."""
    folder = tmp_path / "mounted"
    folder.mkdir()
    unshare = shutil.which("unshare") or "sh"
    beginning = [unshare, "--map-root-user", "--mount", "sh", "-c", MOUNT_READ_ONLY, str(folder)]
    attempt = subprocess.run([*beginning, "true"], capture_output=True, text=True, check=False)
    if attempt.returncode != 0:
        pytest.skip(
            "a real read-only mount needs Linux with unshare and the right to use namespaces, which containers often "
            f"take away ({attempt.stderr.strip()}); the tests above refuse the writing in another way"
        )
    return beginning


def run_command(command: list[str]) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


@pytest.fixture
def run_with_store(tmp_path: Path, read_only_mount: list[str]) -> list[str]:
    """A command of a run whose store is complete, in the folder ``mounted``."""
    command = [sys.executable, "-m", "StaICC", "run", "normal", "--datasets", "mini", "--no-save"]
    command += ["--store", str(tmp_path / "mounted" / "run.sqlite")]
    assert run_command(command).returncode == 0
    return command


@pytest.mark.posix
def test_a_run_on_a_read_only_mount_prints_the_scores_from_the_store(
    run_with_store: list[str], read_only_mount: list[str]
) -> None:
    writable = run_command(run_with_store)
    read_only = run_command([*read_only_mount, *run_with_store])

    assert read_only.returncode == 0, read_only.stderr
    assert read_only.stdout == writable.stdout


@pytest.mark.posix
def test_a_run_with_other_prompts_on_a_read_only_mount_is_refused(
    run_with_store: list[str], read_only_mount: list[str]
) -> None:
    """With two demonstrations, the store has none of its predictions."""
    refused = run_command([*read_only_mount, *run_with_store, "--k", "2"])

    assert refused.returncode == 2
    assert "lacks predictions of this run, and it is read-only" in refused.stderr
