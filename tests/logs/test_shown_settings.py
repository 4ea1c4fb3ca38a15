"""Secrets in the settings of logs stay out of every output, and other settings still tell runs apart."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from StaICC.cli import main
from StaICC.logs.inspect_ai import read_json_log
from StaICC.logs.reading import read_logs
from StaICC.logs.shown_settings import shown_options, shown_setting
from tests.logs.inspect_logs import header, sample, write_json
from tests.logs.made_logs import edited_json, results_file, write_evaluation

SECRETS = ("hunter2", "sk-")
"""Parts of the secrets in these tests."""

MODEL_ARGS: dict[str, Any] = {
    "password and key in an address": {"base_url": "https://user:hunter2@host/v1?api_key=sk-1"},
    "nested key": {"extra": {"api_key": "sk-1", "list": [{"token": "sk-1"}]}},
    "header": {"client": {"headers": {"Authorization": "Bearer sk-1", "x-api-key": "sk-2"}}},
    "address as a key": {"proxies": {"https://user:hunter2@host": None}},
    "other names": {
        **{"apikey": "sk-1", "apiKey": "sk-2", "api-key": "sk-3", "credentials": "sk-4", "passwd": "sk-5"},
        **{"pwd": "hunter2", "OPENAI_API_KEY": "sk-6", "Authorization": "sk-7", "my_login": "sk-8"},
    },
    "text": 'base_url=https://user:hunter2@host,header={"x-a": "1", "Authorization": "Bearer sk-1=="},pwd=hunter2',
    "address of a model": "pretrained=https://user:hunter2@host/a?key=sk-1",
}


def write_run_with_arguments(folder: Path, model: str, model_args: Any) -> Path:
    """Write a run of lm_eval with these arguments of the model, which are the options of decoding, too."""
    folder = write_evaluation(folder, {"sums": {"acc": [1.0, 0.0] * 5}}, model=model)
    with edited_json(results_file(folder)) as results:
        results["config"]["model_args"] = model_args
        results["config"]["gen_kwargs"] = model_args
    return folder


def assert_no_secret(text: str) -> None:
    for secret in SECRETS:
        assert secret not in text


@pytest.mark.parametrize("model_args", MODEL_ARGS.values(), ids=MODEL_ARGS)
def test_secrets_are_not_in_results(model_args: Any, tmp_path: Path) -> None:
    folder = write_run_with_arguments(tmp_path, "a", model_args)

    (result,) = read_logs(folder).values()

    assert_no_secret(json.dumps(result.to_dict()))


@pytest.mark.parametrize("model_args", MODEL_ARGS.values(), ids=MODEL_ARGS)
def test_secrets_are_neither_in_the_output_of_commands_nor_on_a_site(
    model_args: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = str(write_run_with_arguments(tmp_path / "a", "a", model_args))
    second = str(write_run_with_arguments(tmp_path / "b", "b", "dtype=float16"))

    assert main(["compare", first, second]) == 0
    assert main(["leaderboard", first, second, "-o", str(tmp_path / "site")]) == 0

    out, err = capsys.readouterr()
    assert_no_secret(out)
    assert_no_secret(err)
    for file in (tmp_path / "site").rglob("*"):
        if file.is_file():
            assert_no_secret(file.read_text("utf-8"))


@pytest.mark.parametrize("case", [case for case, arguments in MODEL_ARGS.items() if isinstance(arguments, dict)])
def test_secrets_in_logs_of_inspect_are_not_read(case: str, tmp_path: Path) -> None:
    head = header()
    head["eval"]["model_args"] = MODEL_ARGS[case]
    head["eval"]["task_args"] = MODEL_ARGS[case]
    head["plan"]["steps"] = [{"solver": "generate", "params": MODEL_ARGS[case]}]
    (run,) = read_json_log(write_json(tmp_path / "log.json", [sample(row, "C") for row in range(4)], head)).runs
    shown = repr(run.model_settings) + repr(run.settings)
    assert [secret for secret in SECRETS if secret in shown] == []


def test_runs_that_differ_in_tokens_of_the_prompt_are_seen_to_differ(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folders = []
    for value in ("True", "False"):
        folders.append(str(write_run_with_arguments(tmp_path / value, "a", f"pretrained=a,add_bos_token={value}")))
    assert main(["compare", *folders]) == 0
    assert (
        "they differ in model_args: pretrained=a,add_bos_token=True and pretrained=a,add_bos_token=False"
        in capsys.readouterr().out
    )


def test_other_values_of_unknown_options_have_other_digests() -> None:
    shown = [shown_setting("options", {"host": host}) for host in ("one", "two", "one")]
    assert shown[0] != shown[1]
    assert shown[0] == shown[2]


def test_numbers_and_known_options_are_shown() -> None:
    assert shown_options("pretrained=org/a,dtype=bfloat16,gpus=4,fast=True") == (
        "pretrained=org/a,dtype=bfloat16,gpus=4,fast=True"
    )
    assert shown_options("password=1234") == "password=(hidden)"


def test_a_digest_remains_the_same_when_a_result_is_read_again() -> None:
    once = shown_setting("host", "one")
    assert shown_setting("host", once) == once
