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
from tests.logs.made_logs import results_file, write_evaluation

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


def evaluation(folder: Path, model: str, model_args: Any) -> Path:
    """A run of lm_eval with the arguments of the model, which are the options of decoding, too."""
    folder = write_evaluation(folder, {"sums": {"acc": [1.0, 0.0] * 5}}, model=model)
    file = results_file(folder)
    values = json.loads(file.read_text("utf-8"))
    values["config"]["model_args"] = model_args
    values["config"]["gen_kwargs"] = model_args
    file.write_text(json.dumps(values), "utf-8")
    return folder


@pytest.mark.parametrize("case", MODEL_ARGS)
def test_secrets_are_neither_in_output_nor_in_results_nor_on_a_site(
    case: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folders = [evaluation(tmp_path / "a", "a", MODEL_ARGS[case]), evaluation(tmp_path / "b", "b", "dtype=float16")]
    site = tmp_path / "site"
    assert main(["compare", *map(str, folders)]) == 0
    assert main(["leaderboard", *map(str, folders), "-o", str(site)]) == 0
    output = capsys.readouterr()
    texts = [output.out, output.err, *(json.dumps(result.to_dict()) for result in read_logs(*folders).values())]
    texts += [file.read_text("utf-8") for file in site.rglob("*") if file.is_file()]
    found = [secret for secret in SECRETS for text in texts if secret in text]
    assert found == []


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
        folders.append(str(evaluation(tmp_path / value, "a", f"pretrained=a,add_bos_token={value}")))
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
