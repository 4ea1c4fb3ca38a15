"""Workers refuse an inference function that is not the one that was sent."""

from __future__ import annotations

import importlib
import multiprocessing
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from StaICC import Normal
from StaICC.errors import IdentityError
from StaICC.inference.store import PredictionStore

SOURCE = """
WEIGHT = 1.0

def predict(prompt, label_space):
    return [WEIGHT, *(0.5 for _ in label_space[1:])]

class Model:
    scale = 1.0

    def __call__(self, prompt, label_space):
        return [self.scale, *(0.5 for _ in label_space[1:])]
"""


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    (tmp_path / "made_for_workers.py").write_text(SOURCE, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=":")
    yield importlib.import_module("made_for_workers")
    sys.modules.pop("made_for_workers", None)


def run(function: Any, store: Path) -> Any:
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return Normal(datasets=["mini"], limit=2)(function, store=store, model_name="made", executor=pool)


def stored(store: Path) -> int:
    with PredictionStore(store, read_only=True) as opened:
        return opened.info().answers


def test_a_function_is_the_same_in_workers(made: ModuleType, tmp_path: Path) -> None:
    store = tmp_path / "run.sqlite"
    assert run(made.predict, store) == Normal(datasets=["mini"], limit=2)(made.predict, model_name="made")
    assert stored(store) > 0


def test_a_module_that_was_edited_since_it_was_imported_is_refused(made: ModuleType, tmp_path: Path) -> None:
    path, store = tmp_path / "made_for_workers.py", tmp_path / "run.sqlite"
    run(made.predict, store)
    path.write_text(SOURCE.replace("*(0.5", "*(0.25"), encoding="utf-8")
    with pytest.raises(IdentityError, match="another inference function than the one that was sent"):
        run(made.predict, tmp_path / "other.sqlite")
    assert stored(tmp_path / "other.sqlite") == 0
