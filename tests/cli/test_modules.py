"""Every module can be imported, and every command shows its help, within this process."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator

import pytest

import StaICC
from StaICC.cli import _COMMANDS, main
from StaICC.errors import MissingDependencyError


def modules() -> Iterator[str]:
    for one in pkgutil.walk_packages(StaICC.__path__, "StaICC."):
        if one.name.rpartition(".")[2] != "__main__":
            yield one.name


@pytest.mark.parametrize("name", list(modules()))
def test_a_module_can_be_imported(name: str) -> None:
    try:
        importlib.import_module(name)
    except (ModuleNotFoundError, MissingDependencyError) as error:
        if str(getattr(error, "name", None) or "StaICC").startswith("StaICC") and not isinstance(
            error, MissingDependencyError
        ):
            raise
        pytest.skip(str(error))


@pytest.mark.parametrize("arguments", [[], *([name] for name in _COMMANDS)], ids=lambda one: "".join(one) or "all")
def test_help(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([*arguments, "--help"])
    assert not ended.value.code
    shown = capsys.readouterr().out
    assert shown.startswith(f"usage: python -m StaICC {' '.join(arguments)}".rstrip())
    if not arguments:
        assert all(name in shown for name in _COMMANDS)


def test_methods_is_short_for_show_methods(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["methods"]) == 0
    shown = capsys.readouterr().out
    assert main(["show", "methods"]) == 0
    assert capsys.readouterr().out == shown
    assert "paper: Calibrate Before Use: Improving Few-shot Performance of Language Models (2021)" in shown
    assert "    knn_k=3 (int): Nearest neighbours that vote." in shown


def test_every_command_with_a_model_takes_options_of_the_model(capsys: pytest.CaptureFixture[str]) -> None:
    """``published`` names models of published tables, which have no options."""
    with_model = set()
    for command in _COMMANDS:
        with pytest.raises(SystemExit):
            main([command, "--help"])
        shown = capsys.readouterr().out
        if "--model MODEL" in shown:
            with_model.add(command)
            assert ("--model-option" in shown) is (command != "published"), command
    assert with_model == {"run", "race", "prompts", "published", "verify"}
