"""Without an option, the command line does what a call in Python does without the argument.

Both defaults are read from the objects: from the parsers, and from the signatures of the functions and classes that the
module of a command imports.
"""

from __future__ import annotations

import argparse
import ast
import dataclasses
import importlib
import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import StaICC
from StaICC import Dataset, LongICL, Normal, load_kernel
from StaICC.benchmarks.catalogue import BENCHMARKS
from StaICC.cli import _COMMANDS, _parser, long_icl, main
from StaICC.cli.benchmark_options import make, run_settings
from StaICC.inference import RunOptions
from StaICC.inference.identity import identity_of
from StaICC.kernels.text_inference import text_inference

EVALUATING = ("run", "race", "score", "prompts", "export")


def parsed(*words: str) -> argparse.Namespace:
    found: argparse.Namespace = _parser(words[0]).parse_args(list(words))
    return found


def options_of(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for choice in action.choices.values():
                yield from options_of(choice)
        elif action.option_strings:
            yield action


def imported_by(command: str) -> Iterator[Any]:
    """What the module of a command, and the modules of the command line that it imports, import from the library."""
    waiting, seen = [f"StaICC.cli.{_COMMANDS[command][0]}"], set()
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        file = importlib.import_module(name).__file__
        assert file is not None
        for node in ast.walk(ast.parse(Path(file).read_text("utf-8"))):
            if not isinstance(node, ast.ImportFrom) or not (node.module or "").startswith("StaICC"):
                continue
            module = importlib.import_module(node.module or "")
            for alias in node.names:
                found = getattr(module, alias.name, None)
                if inspect.ismodule(found):
                    waiting.append(found.__name__)
                elif module.__name__.startswith("StaICC.cli"):
                    waiting.append(module.__name__)
                elif callable(found) and not (isinstance(found, type) and issubclass(found, dict)):
                    yield found


def defaults_in_python(command: str) -> Iterator[tuple[str, str, Any]]:
    """The parameters with a default of everything that a command may call: owner, name, default."""
    benchmarks = [value for value in BENCHMARKS.values() if isinstance(value, type)]
    for found in [*imported_by(command), *benchmarks, RunOptions]:
        members = [found]
        if isinstance(found, type):
            members += [value for name, value in vars(found).items() if name[0] != "_" or name == "__init__"]
        for member in members:
            function = getattr(member, "__func__", member)
            if not callable(function):
                continue
            try:
                parameters = inspect.signature(function).parameters.values()
            except (TypeError, ValueError):
                continue
            for one in parameters:
                if one.default is not one.empty:
                    yield f"{getattr(found, '__name__', found)}", one.name, one.default


@pytest.mark.parametrize("command", EVALUATING)
def test_an_option_has_the_default_of_the_argument_of_its_name(command: str) -> None:
    assert command in _COMMANDS
    parsers = next(one for one in _parser(command)._actions if isinstance(one, argparse._SubParsersAction))
    options = {one.dest: one for one in options_of(parsers.choices[command])}
    compared = set()
    for owner, name, default in defaults_in_python(command):
        if name in options and options[name].default is not None:  # without a default, nothing is passed on
            compared.add(name)
            assert options[name].default == default, f"{command} --{name}: {owner}"
    assert compared >= {"k", "noisy_channel"}


@pytest.mark.parametrize("name", list(BENCHMARKS))
def test_a_benchmark_of_the_command_line_is_that_of_python(name: str) -> None:
    in_python = BENCHMARKS[name](datasets=["mini"])
    made = make(parsed("run", name, "--datasets", "mini"))
    if isinstance(in_python, StaICC.benchmarks.Benchmark):
        assert str(made.signature()) == str(in_python.signature())
        return
    assert [str(made[part].signature()) for part in made] == [str(in_python[part].signature()) for part in in_python]


def test_the_settings_of_a_run_are_those_of_python() -> None:
    given = run_settings(parsed("run", "normal"))
    known = {one.name: one.default for one in dataclasses.fields(RunOptions)}
    assert {name: known.get(name) for name in given} | {"recheck": True} == given


def test_a_model_of_the_command_line_is_that_of_python(make_model: Any, make_tokenizer: Any, tmp_path: Path) -> None:
    """LongICL scored labels in full on the command line, and by their last token in Python."""
    pytest.importorskip("torch")
    make_model("Llama", max_position_embeddings=4096).save_pretrained(tmp_path)
    make_tokenizer().save_pretrained(tmp_path)
    for model in ("ppm", str(tmp_path), f"{tmp_path};label_scoring=full"):
        args = parsed("run", "long-icl", "--model", model, "--answers", "labels")
        function, writes = long_icl.load_model(args)
        assert not writes
        assert identity_of(function) == identity_of(load_kernel(model))
    function, writes = long_icl.load_model(parsed("run", "long-icl", "--model", str(tmp_path)))
    assert writes
    assert identity_of(function) == identity_of(text_inference(load_kernel(str(tmp_path))))


def test_long_icl_of_the_command_line_is_that_of_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rows = "".join(f"message {i},kind {i % 25:02}\n" for i in range(500))
    Path("t.csv").write_text("text,label\n" + rows, "utf-8")
    own = ["--data", "t.csv", "--text", "text", "--label", "label"]
    assert main(["run", "long-icl", *own, "--json", "r.json", "--quiet"]) == 0
    result = LongICL(datasets=[Dataset.from_file("t.csv", "text", "label")])(load_kernel("ppm"))
    saved = StaICC.load("r.json")
    assert isinstance(saved, StaICC.Result)
    assert str(saved.signature) == str(result.signature)
    assert saved["Averaged results"] == result["Averaged results"]


def test_normal_of_the_command_line_is_that_of_python(tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    assert main(["run", "normal", "--datasets", "mini", "--json", str(path), "--quiet"]) == 0
    saved = StaICC.load(path)
    assert isinstance(saved, StaICC.Result)
    assert str(saved.signature) == str(Normal(datasets=["mini"])(load_kernel("ppm")).signature)
