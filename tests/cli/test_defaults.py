"""Without an option, the command line does what a call in Python does without the argument."""

from __future__ import annotations

import argparse
import dataclasses
from pathlib import Path
from typing import Any

import pytest

import StaICC
from StaICC import Dataset, LongICL, load_kernel
from StaICC.benchmarks.tasks import BENCHMARKS
from StaICC.cli import _parser, main
from StaICC.cli.options import load_model, make, run_settings
from StaICC.inference import RunOptions
from StaICC.inference.identity import identity_of
from StaICC.kernels.text_inference import text_inference


def parsed(*words: str) -> argparse.Namespace:
    arguments: argparse.Namespace = _parser(words[0]).parse_args(list(words))
    return arguments


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
    known = {field.name: field.default for field in dataclasses.fields(RunOptions)}
    assert {name: known.get(name) for name in given} | {"recheck": True} == given


def test_a_model_of_the_command_line_is_that_of_python(make_model: Any, make_tokenizer: Any, tmp_path: Path) -> None:
    """LongICL scored labels in full on the command line, and by their last token in Python."""
    pytest.importorskip("torch")
    make_model("Llama", max_position_embeddings=4096).save_pretrained(tmp_path)
    make_tokenizer().save_pretrained(tmp_path)
    for model in ("ppm", str(tmp_path), f"{tmp_path};label_scoring=full"):
        args = parsed("run", "long-icl", "--model", model, "--answers", "labels")
        function, writes = load_model(args, for_long_icl=True)
        assert not writes
        assert identity_of(function) == identity_of(load_kernel(model))
    function, writes = load_model(parsed("run", "long-icl", "--model", str(tmp_path)), for_long_icl=True)
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
