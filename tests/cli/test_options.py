"""Options: without one, the command line does what Python does; with one, it has an effect or a right suggestion."""

from __future__ import annotations

import argparse
import dataclasses
import sys
from pathlib import Path
from typing import Any

import pytest

import StaICC
from StaICC import Dataset, LongICL, load_kernel
from StaICC.benchmarks.builtin import BENCHMARKS
from StaICC.cli import _parser, main
from StaICC.cli.long_icl_options import HELMET, LONG_ICL
from StaICC.cli.model_options import load_model, model_files, model_of
from StaICC.cli.options import make, run_settings
from StaICC.inference.identity import identity_of
from StaICC.inference.runner import RunOptions
from StaICC.kernels.text_inference import text_inference


def parsed(*words: str) -> argparse.Namespace:
    """Return the arguments that a command reads from its words."""
    arguments: argparse.Namespace = _parser(words[0]).parse_args(list(words))
    return arguments


WITH_OWN_DATA = (LONG_ICL, HELMET)


@pytest.mark.parametrize("name", [name for name in BENCHMARKS if name not in WITH_OWN_DATA])
def test_a_benchmark_of_the_command_line_is_that_of_python(name: str) -> None:
    in_python = BENCHMARKS[name](datasets=["mini"])
    made = make(parsed("run", name, "--datasets", "mini"))

    if isinstance(in_python, StaICC.Benchmark):
        assert str(made.signature()) == str(in_python.signature())
        return
    assert [str(made[part].signature()) for part in made] == [str(in_python[part].signature()) for part in in_python]


def test_the_default_settings_of_a_run_are_those_of_python() -> None:
    settings = run_settings(parsed("run", "normal"))
    default_of = {field.name: field.default for field in dataclasses.fields(RunOptions)}

    assert {name: default_of.get(name) for name in settings} == settings


def test_options_of_a_run_become_settings_of_the_run() -> None:
    words = "--data-parallel 2 --store s --chunk-size 5 --no-recheck --quiet"
    settings = run_settings(parsed("run", "normal", *words.split()))

    assert callable(settings.pop("executor")), "it makes the two worker processes"
    assert settings == {"store": Path("s"), "chunk_size": 5, "recheck": False, "progress": False}


def test_options_of_a_benchmark_become_its_arguments() -> None:
    words = "--datasets mini --k 3 --limit 5 --noisy-channel --outputs logits --unparsed wrong"
    of_command = make(parsed("run", "normal", *words.split()))
    in_python = StaICC.Normal(3, noisy_channel=True, datasets=["mini"], limit=5, outputs="logits", unparsed="wrong")

    assert str(of_command.signature()) == str(in_python.signature())


@pytest.fixture
def model_folder(make_model: Any, make_tokenizer: Any, tmp_path: Path) -> str:
    """A folder with a tiny language model."""
    pytest.importorskip("torch")
    make_model("Llama", max_position_embeddings=4096).save_pretrained(tmp_path)
    make_tokenizer().save_pretrained(tmp_path)
    return str(tmp_path)


@pytest.mark.parametrize("model", ["ppm", "FOLDER", "FOLDER;label_scoring=full"])
def test_a_model_of_the_command_line_scores_labels_as_that_of_python(model: str, model_folder: str) -> None:
    """LongICL scored labels in full on the command line, and by their last token in Python."""
    args = parsed("run", "long-icl", "--answers", "labels")
    args.model = model.replace("FOLDER", model_folder)
    loaded = load_model(args, prefers_text=True, as_published=True)

    assert not loaded.generates_text
    assert identity_of(loaded.function) == identity_of(load_kernel(args.model))


def test_a_model_of_the_command_line_generates_as_that_of_python(model_folder: str) -> None:
    args = parsed("run", "long-icl")
    args.model = model_folder
    loaded = load_model(args, prefers_text=True, as_published=True)

    assert loaded.generates_text
    assert identity_of(loaded.function) == identity_of(text_inference(load_kernel(model_folder)))


def test_the_option_of_text_columns_has_the_name_of_the_argument_too() -> None:
    rows = "".join(f"message {i},{'good' if i % 2 else 'bad'}\n" for i in range(50))
    Path("own.csv").write_text("words,label\n" + rows, "utf-8")
    results = []

    for option in ("--text", "--texts"):
        words = ["run", "normal", "--data", "own.csv", option, "words", "--label", "label", "--json", f"r{option}.json"]
        assert main([*words, "--quiet"]) == 0
        results.append(StaICC.load(f"r{option}.json"))
    assert results[0] == results[1]


def test_long_icl_of_the_command_line_is_that_of_python() -> None:
    rows = "".join(f"message {i},kind {i % 25:02}\n" for i in range(500))
    Path("t.csv").write_text("text,label\n" + rows, "utf-8")
    own = ["--data", "t.csv", "--text", "text", "--label", "label"]

    assert main(["run", "long-icl", *own, "--json", "r.json", "--quiet"]) == 0

    result = LongICL(datasets=[Dataset.from_file("t.csv", "text", "label")])(load_kernel("ppm"))
    saved = StaICC.load("r.json")

    assert isinstance(saved, StaICC.Result)
    assert str(saved.signature) == str(result.signature)
    assert saved["Averaged results"] == result["Averaged results"]


# -- options that users type: accepted with an effect, or refused before the first query with the right suggestion


HF, SERVER = "--model smollm2", "--model openai:http://127.0.0.1:9/v1#m"
TEXT = f"{SERVER};scoring=text"

ACCEPTED = {
    f"{HF} --device cuda": "device=cuda",
    f"--device mps {HF}": "device=mps",
    f"{HF} --dtype bfloat16": "dtype=bfloat16",
    f"{HF} --max-length 512": "max_length=512",
    f"{HF} --chat": "prompt_format=chat",
    f"{HF} --fewshot_as_multiturn": "prompt_format=chat-turns",
    f"{HF} --chat --system Hello": "prompt_format=chat;system=Hello",
    f"{HF} --chat=true --system=--Hello": "prompt_format=chat;system=--Hello",
    f"{HF} --trust-remote-code": "trust_remote_code=true",
    f"{HF} --attn-implementation sdpa": "attn_implementation=sdpa",
    "--model hf:a/b --load-in-4bit --datasets mini": "quantization=4bit",
    f"{TEXT} --temperature none": "temperature=none",
    f"{TEXT} --top-p 0.5": "top_p=0.5",
    f"{TEXT} --max-connections 3": "concurrency=3",
    f"{TEXT} --guided choice": "guided=choice",
    f"{SERVER};scoring=top-logprobs --top-n 5": "top_n=5",
    "--order 3": "order=3",
}
"""Options of a command line, each with the options that the model has then."""

REFUSED = {
    "--model smollm2 --device gpu": ("'gpu'", "cuda"),
    "--model smollm2 --dtype bf16": ("'bf16'", "'bfloat16'"),
    "--model smollm2 --system Hello": ("system", "'chat'"),
    "--model smollm2 --batch-size 8": ("'--batch-size'", "--token-budget"),
    "--model smollm2 --dtpye float32": ("'--dtpye'", "'--dtype'"),
    "--model smollm2 --template X": ("'--template'", "card"),
    "--model smollm2 --max-tokens 5": ("--max-tokens", "--answers text"),
    "--model smollm2 --seed 3": ("--seed", "fixed"),
    "--device cuda": ("ppm 'device'", "for --model: smollm2, hf:NAME_OR_PATH"),
    "--model smollm2 --device --limit 5": ("--device", "no value"),
    f"{SERVER} --top-n 5": ("top_n", "top-logprobs"),
    f"{SERVER} --system Hello": ("system", "api='chat'"),
    f"{SERVER} --guided choice": ("guided", "scoring='text'"),
    f"{SERVER} --model-option max_tokens=5": ("max_tokens", "scoring='text'"),
    f"{SERVER} --api-key sk-1": ("'--api-key'", "OPENAI_API_KEY"),
}


@pytest.mark.parametrize("line", ACCEPTED)
def test_an_accepted_option_is_one_of_the_model(line: str) -> None:
    model = model_of(parsed("run", "normal", *line.split()))

    assert model.endswith(f";{ACCEPTED[line]}")

    load_kernel(model)  # it has such options


@pytest.mark.parametrize("line", ACCEPTED)
def test_an_option_of_the_model_changes_nothing_else_of_the_run(line: str) -> None:
    with_option = vars(parsed("run", "normal", *line.split()))
    without = vars(parsed("run", "normal", "--model", "ppm"))
    about_the_model = {"model", "model_option", "given_options"}
    in_a_line_of_the_table = {"datasets"}

    for name in without.keys() - about_the_model - in_a_line_of_the_table:
        assert with_option[name] == without[name], name
    assert with_option.keys() == without.keys()


@pytest.mark.parametrize("line", REFUSED)
def test_a_refused_option_has_a_suggestion(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    try:
        status: object = main(["run", "normal", "--datasets", "mini", *line.split()])
    except SystemExit as end:
        status = end.code
    error = capsys.readouterr().err

    assert status == 2
    for text in REFUSED[line]:
        assert text in error


@pytest.mark.parametrize("model", ["m", "hf:m", "hf:m;dtype=float32", "vllm:hf:a/b;adapter=m"])
def test_the_files_of_a_model_are_known_as_such(model: str) -> None:
    """The files of a model are never overwritten. A result in the same folder may be."""
    files_of_model = {
        *("adapter_config.json", "model-1.safetensors", "pytorch_model.bin"),
        *("f.gguf", "tokenizer.json", "vocab.txt"),
    }
    Path("m").mkdir()
    for name in (*files_of_model, "result.json"):
        Path("m", name).touch()

    assert {path.name for path in model_files(model) if path.is_file()} == files_of_model


def test_options_belong_to_the_last_model_before_them() -> None:
    args = _parser("race").parse_args(
        ["race", "--model", "a", "--device", "cuda", "--model", "b", "--chat", "--dtype", "float32"]
    )

    assert args.model == ["a;device=cuda", "b;prompt_format=chat;dtype=float32"]


@pytest.mark.parametrize("more", [[], ["--k", "0,4"], ["--method", "all"]])
def test_a_missing_package_has_one_exit_status(
    more: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "vllm", None)

    assert main(["run", "normal", "--model", "vllm:hf:a/b", "--datasets", "mini", "--limit", "2", *more]) == 3
    assert capsys.readouterr().err.splitlines()[-1].count("needs the package") == 1
