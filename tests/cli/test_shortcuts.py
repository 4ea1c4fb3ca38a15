"""Options that users type: accepted with an effect, or refused before the first query with the right suggestion."""

from __future__ import annotations

from pathlib import Path

import pytest

from StaICC.cli import _parser, main
from StaICC.cli.options import model_of
from StaICC.kernels.registry import load_kernel
from StaICC.results.result import load

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

REFUSED = {
    "--model smollm2 --device gpu": ("'gpu'", "cuda"),
    "--model smollm2 --dtype bf16": ("'bf16'", "'bfloat16'"),
    "--model smollm2 --system Hello": ("system", "'chat'"),
    "--model smollm2 --batch-size 8": ("'--batch-size'", "--token-budget"),
    "--model smollm2 --dtpye float32": ("'--dtpye'", "'--dtype'"),
    "--model smollm2 --template X": ("'--template'", "card"),
    "--model smollm2 --max-tokens 5": ("--max-tokens", "--answers text"),
    "--model smollm2 --seed 3": ("--seed", "fixed"),
    "--model smollm2 --temperature 0": ("'temperature'", "There are"),
    "--device cuda": ("ppm 'device'", "order"),
    "--model smollm2 --device --limit 5": ("--device", "no value"),
    f"{SERVER} --top-n 5": ("top_n", "top-logprobs"),
    f"{SERVER} --guided choice": ("guided", "scoring='text'"),
    f"{SERVER} --model-option max_tokens=5": ("max_tokens", "scoring='text'"),
    f"{SERVER} --api-key sk-1": ("'--api-key'", "OPENAI_API_KEY"),
}


@pytest.mark.parametrize("line", ACCEPTED)
def test_an_accepted_option_is_one_of_the_model(line: str) -> None:
    written, plain = (_parser("run").parse_args(["run", "normal", *text.split()]) for text in (line, "--model ppm"))
    model = model_of(written)
    assert model.endswith(f";{ACCEPTED[line]}")
    load_kernel(model)
    del written.model, written.model_option, plain.model, plain.model_option
    written.datasets = None
    assert written == plain


@pytest.mark.parametrize("line", REFUSED)
def test_a_refused_option_has_a_suggestion(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    try:
        status: object = main(["run", "normal", "--datasets", "mini", *line.split()])
    except SystemExit as end:
        status = end.code
    error = capsys.readouterr().err
    assert status == 2
    assert all(text in error for text in REFUSED[line]), error


def test_processes_predict_what_one_process_predicts(tmp_path: Path) -> None:
    scores = []
    for number, more in enumerate([[], ["--data-parallel", "2"]]):
        path = tmp_path / f"{number}.json"
        line = ["run", "normal", "--datasets", "mini", "--limit", "20", "--quiet", "--no-save", "--json", str(path)]
        assert main([*line, "--chunk-size", "5", *more]) == 0
        scores.append(load(path).divided)
    assert scores[0] == scores[1]


def test_options_belong_to_the_last_model_before_them() -> None:
    args = _parser("race").parse_args(
        ["race", "--model", "a", "--device", "cuda", "--model", "b", "--chat", "--dtype", "float32"]
    )
    assert args.model == ["a;device=cuda", "b;prompt_format=chat;dtype=float32"]
