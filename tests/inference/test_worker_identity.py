"""Workers refuse an inference function that is not the one that was sent."""

from __future__ import annotations

import copy
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
from StaICC.inference.identity import identity_of
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
        return Normal(datasets=["mini"], limit=2)(function, store=store, executor=pool)


def stored(store: Path) -> int:
    with PredictionStore(store, read_only=True) as opened:
        return opened.info().answers


def test_a_function_is_the_same_in_workers(made: ModuleType, tmp_path: Path) -> None:
    store = tmp_path / "run.sqlite"
    assert run(made.predict, store) == Normal(datasets=["mini"], limit=2)(made.predict)
    assert stored(store) > 0


@pytest.mark.parametrize("name", ["WEIGHT", "Model"])
def test_a_change_in_memory_that_workers_do_not_have_ends_the_run(made: ModuleType, tmp_path: Path, name: str) -> None:
    function: Any = made.predict
    if name == "WEIGHT":
        vars(made)["WEIGHT"] = 3.0
    else:
        made.Model.scale = 3.0
        function = made.Model()
    store = tmp_path / "run.sqlite"
    with pytest.raises(IdentityError, match="another inference function than the one that was sent"):
        run(function, store)
    assert stored(store) == 0


def test_copies_do_not_change_an_identity() -> None:
    class Model:
        def __init__(self) -> None:
            self.scale = 2.0

        def __call__(self, prompt: Any, label_space: Any) -> list[float]:
            return [self.scale, 1.0]

    model = Model()
    before = identity_of(model)
    copy.copy(model)  # writes __slotnames__ into the class
    assert identity_of(model) == before


def test_what_workers_cannot_compare_is_said(
    made: ModuleType, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    made.Model.scale = [1.0]  # type: ignore[attr-defined]
    with pytest.raises(IdentityError), caplog.at_level("WARNING"):
        Normal(datasets=["mini"], limit=2)(
            made.Model(), executor=lambda: ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn"))
        )
    assert "cannot be compared with this process" in caplog.text


@pytest.mark.parametrize("name", ["_html", "_numbers", "__re"])
def test_modules_named_like_private_ones_of_python_are_the_users(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / f"{name}.py").write_text("W = 1.0\ndef helper():\n    return W\n", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, name, raising=False)
    helper = importlib.import_module(name)

    def predict(prompt: Any, label_space: Any) -> list[float]:
        return [helper.helper(), 0.5]

    called = helper.helper
    before = identity_of(lambda prompt, label_space: [called(), 0.5])
    assert identity_of(predict).unidentified
    vars(helper)["W"] = 2.0
    after = identity_of(lambda prompt, label_space: [called(), 0.5])
    assert (before.digest, before.unidentified) != (after.digest, after.unidentified)
