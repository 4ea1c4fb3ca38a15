"""Mistakes on the command line: a sentence, and one line of usage."""

from __future__ import annotations

import json
import re
from concurrent.futures import Executor
from pathlib import Path
from typing import Any

import pytest

import StaICC
from StaICC.argument_syntax import argument, command_line_syntax
from StaICC.cli import _COMMANDS, main
from StaICC.cli.option_rules import _CONTRADICTIONS, _NEEDED_OPTIONS
from StaICC.errors import ArgumentError
from StaICC.inference.workers import worker_processes
from StaICC.kernels.server.endpoint import NoMatch, next_token_scores, next_tokens, other_scoring
from StaICC.kernels.server.transport import EndpointError


@pytest.mark.parametrize("command", _COMMANDS)
def test_a_usage_mistake_prints_the_usage_and_the_error(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main([command, "--no-such-option"])

    assert end.value.code == 2
    usage, error = capsys.readouterr().err.splitlines()
    assert usage.startswith(f"usage: python -m StaICC {command}")
    _, remark_about_help = usage.split("all options:")
    assert f"python -m StaICC {command}" in remark_about_help
    assert error.startswith(f"python -m StaICC {command}")
    assert ": error: " in error


def test_the_usage_names_the_arguments_that_are_needed(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["run"])

    usage, error = capsys.readouterr().err.splitlines()
    assert usage == "usage: python -m StaICC run [options] BENCHMARK (all options: python -m StaICC run --help)"
    assert "are required: BENCHMARK" in error


@pytest.mark.parametrize(
    ("name", "value", "in_python", "on_the_command_line"),
    [
        ("unparsed", "wrong", "unparsed='wrong'", "--unparsed wrong"),
        ("texts", ["a", "b c"], "texts=['a', 'b c']", "--texts a 'b c'"),
        ("recheck", True, "recheck=True", "--recheck"),
        ("intervals", False, "intervals=False", "--no-intervals"),
        ("limit", 5, "limit=5", "--limit 5"),
        ("label_separator", None, "label_separator", "--label-separator"),
    ],
)
def test_a_message_has_the_syntax_of_its_reader(
    name: str, value: object, in_python: str, on_the_command_line: str
) -> None:
    assert argument(name, value) == in_python
    with command_line_syntax():
        assert argument(name, value) == on_the_command_line
    assert argument(name, value) == in_python


def test_the_syntax_of_commands_ends_with_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "normal", "--datasets", "all", "--no-save"]) == 2
    assert "leave --datasets out" in capsys.readouterr().err
    assert argument("datasets") == "datasets"


def saved_failures(path: str) -> Any:
    """Return why queries of a saved result failed."""
    return json.loads(Path(path).read_text("utf-8"))["details"]["mini"]["failures"]


def test_a_saved_reason_is_the_same_from_python_and_from_the_command_line(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("undecided.py").write_text("def reply(prompt, label_space):\n    return 'I cannot tell.'\n", "utf-8")
    monkeypatch.syspath_prepend(Path.cwd())

    benchmark = StaICC.Normal(datasets=["mini"], limit=2)
    benchmark(StaICC.load_kernel("undecided:reply"), on_error="collect").save("python.json")
    line = "run normal --datasets mini --limit 2 --model undecided:reply --no-save --on-error collect"
    assert main([*line.split(), "--json", "command.json"]) == 1

    reasons = saved_failures("python.json")
    assert saved_failures("command.json") == reasons
    assert "unparsed='wrong' (--unparsed wrong) counts such replies as wrong" in str(reasons)


def test_the_reasons_of_a_server_are_the_same_from_python_and_from_the_command_line() -> None:
    in_python = reasons_of_a_server()
    with command_line_syntax():
        on_the_command_line = reasons_of_a_server()

    assert in_python == on_the_command_line
    assert in_python[0].startswith("use scoring='top-logprobs' (--scoring top-logprobs), or ")


def reasons_of_a_server() -> list[str]:
    """Return why queries of a server fail, where the remedy is an argument."""
    reasons = [other_scoring()]
    with pytest.raises(EndpointError) as without_logprobs:
        next_tokens({"choices": [{"logprobs": None}]}, 5)
    reasons.append(str(without_logprobs.value))
    with pytest.raises(NoMatch) as two_labels_begin_so:
        next_token_scores({"n": -0.1, "x": -3.0}, ["no", "never"], "refuse")
    reasons.append(str(two_labels_begin_so.value))
    with pytest.raises(NoMatch) as label_is_not_listed:
        next_token_scores({"yes": -0.1, "x": -3.0}, ["yes", "no"], "refuse")
    reasons.append(str(label_is_not_listed.value))
    return reasons


def test_a_worker_process_writes_messages_as_its_parent_does() -> None:
    with command_line_syntax():
        command_pool = worker_processes(1)()

    assert message_of(command_pool) == "--limit 5"
    assert message_of(worker_processes(1)()) == "limit=5"


def message_of(pool: Executor) -> str:
    """Return how a worker writes an argument, and end the pool."""
    with pool:
        return pool.submit(argument, "limit", 5).result(timeout=120)


@pytest.mark.parametrize("kind", ["kernels", "methods", "datasets", "benchmarks", "metrics"])
def test_listings_have_no_markup_of_references(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    main(["show", kind])

    assert not re.search(r":\w+:[`~]", capsys.readouterr().out)


IGNORED = {
    "run normal --recheck": "--recheck belongs to --store. Add --store FILE",
    "run normal --no-recheck": "--no-recheck belongs to --store. Add --store FILE",
    "run normal --overwrite": "--overwrite belongs to --json. Add --json FILE",
    "run normal --method-variant paper": "--method-variant belongs to --method. Add --method NAME",
    "run normal --calibration-number 128": "--calibration-number belongs to --method",
    "run normal --method-option knn_k=5": "--method-option belongs to --method",
    "run normal --prices 1 2": "--prices belongs to --dry-run. Add --dry-run",
    "run normal --no-save --output folder": "--output and --no-save: got both, expected one of them",
    "run normal --no-intervals --level 0.95": "--level and --no-intervals: got both",
    "run long-icl --k 4": "long-icl has no --k. Leave it out",
    "score normal p.jsonl --overwrite": "--overwrite belongs to --json",
    "score normal p.jsonl --model ppm": "there is no option '--model'",
    "race --model ppm --model ppm;order=2 --recheck": "--recheck belongs to --store",
    "race --model ppm --model ppm": "--model: got ppm twice, expected two different models",
    "verify a.json --seed 3": "--seed belongs to --rerun. Add --rerun N",
    "compare a.json b.json --json --format latex": "--format and --json: got both",
    "compare a.json b.json --direction lower": "--direction is about metrics of logs",
    "rank a.json b.json --range 0 100": "--range is about metrics of logs",
    "leaderboard a.json --range 0 100": "--range is about metrics of logs",
    "run normal --datasets mini --k 4 --k 8": "argument --k: given several times, expected once",
    "run normal --label-prefix x": "for a data set of the benchmark, change it in Python",
    "run normal --datasets mini --num-fewshot 4 --k=8": "--num-fewshot and --k mean the same here",
    "run normal --subgroups a --subgroups b": "expected once. Name all values behind it, as in --subgroups COLUMN",
    "compare a.json b.json --by label --by domain": "argument --by: given several times, expected once",
    "plan --half-width 0.05 --power 0.9": "--power belongs to --difference. Add --difference X",
    "baseline --n 10 --labels 1": "--labels: got 1, expected at least 2",
}


@pytest.mark.parametrize("command", sorted({*_NEEDED_OPTIONS, *_CONTRADICTIONS}))
def test_rules_of_ignored_options_name_options_of_the_command(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    """An option that is renamed would end its rule silently."""
    names_in_rules = set()
    for option, needed in _NEEDED_OPTIONS.get(command, {}).items():
        needed_option, *_value = needed.split()  # such as "--store FILE"
        names_in_rules |= {option, needed_option}
    for contradiction in _CONTRADICTIONS.get(command, ()):
        names_in_rules |= {contradiction.first, contradiction.second}

    with pytest.raises(SystemExit):
        main([command, "--help"])

    options_of_command = set(re.findall(r"--[a-z-]+", capsys.readouterr().out))
    assert names_in_rules
    assert names_in_rules <= options_of_command


@pytest.fixture(scope="module")
def saved_results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the results ``a.json`` and ``b.json``."""
    folder = tmp_path_factory.mktemp("results")
    for name in ("a", "b"):
        StaICC.Normal(datasets=["mini"], limit=2)(StaICC.load_kernel("ppm")).save(folder / f"{name}.json")
    return folder


def status_of(line: str) -> object:
    """Return the exit status of a command line."""
    try:
        return main(line.split())
    except SystemExit as end:
        return end.code


@pytest.mark.parametrize("line", IGNORED)
def test_an_option_that_would_be_ignored_is_refused(
    line: str, saved_results: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(saved_results)

    assert status_of(line) == 2
    assert IGNORED[line] in capsys.readouterr().err.splitlines()[-1]


def test_a_run_file_may_name_a_folder_that_the_command_line_does_not_use() -> None:
    """On the command line alone, --output and --no-save contradict each other."""
    Path("run.toml").write_text('benchmark = "normal"\ndatasets = ["mini"]\noutput = "runs"\nlimit = 2\n', "utf-8")

    assert main(["run", "--config", "run.toml", "--no-save"]) == 0


def test_an_option_of_a_run_file_that_would_be_ignored_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    Path("run.toml").write_text('benchmark = "normal"\nrecheck = true\n', "utf-8")

    assert main(["run", "--config", "run.toml"]) == 2
    assert "run.toml: --recheck belongs to --store" in capsys.readouterr().err


def test_an_unranked_result_is_named(saved_results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("runs").mkdir()
    content = (saved_results / "a.json").read_text("utf-8")
    Path("runs/a.json").write_text(content, "utf-8")
    Path("runs/cut.json").write_text(content[:500], "utf-8")

    assert main(["leaderboard", "runs"]) == 1
    assert "not ranked: cut: UNREADABLE: runs" in capsys.readouterr().err


def test_a_partial_result_has_the_first_failure(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("undefined_scores.py").write_text(
        "def scores(prompt, label_space):\n    return [float('nan')] * len(label_space)\n", "utf-8"
    )
    monkeypatch.syspath_prepend(Path.cwd())
    line = "run normal --datasets mini --limit 2 --model undefined_scores:scores --no-save --on-error collect"

    assert main(line.split()) == 1

    output = " ".join(capsys.readouterr().out.split())
    assert "PARTIAL: 4 of 4 queries" in output
    assert "The first: mini, query 0: " in output
    assert "nan" in output


def test_a_forecast_says_why_its_cost_is_unknown(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "normal", "--datasets", "mini", "--limit", "2", "--dry-run", "--prices", "1", "2"]) == 0
    assert "this model does not count the tokens" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize("settings", [{"store": "x.sqlite"}, {"recheck": True}])
def test_given_predictions_have_no_store(settings: dict[str, Any]) -> None:
    benchmark = StaICC.Normal(datasets=["mini"], limit=1)

    with pytest.raises(ArgumentError, match=r"predictions of a function: got preentered_prediction"):
        benchmark(preentered_prediction=[[0, 0]], **settings)


INCOMPLETE = {
    "run normal --k": "--k K, demonstrations per prompt (default 4)",
    "run normal --dry-run --prices 1": "--prices INPUT OUTPUT, cost of a million tokens",
    "plan": "got none, expected either --half-width or --difference",
    "plan --half-width 0.1 --difference 0.1": "got both, expected either --half-width or --difference",
    "plan --half-width 5": "--half-width: got 5.0",
    "verify a.json --rerun 0 --model ppm": "--rerun: got 0, expected a number of queries",
    "cite nofile.json": "there is no file nofile.json. The .json files in this folder are:",
    "leaderboard a.json -o b.json": "--output: got the file b.json, expected a folder",
    "run normal --datasets mini --model openai:localhost:8000#m": "openai:http://localhost:8000/v1#NAME",
    "run normal --datasets mini --model math:nofunction": "math has no 'nofunction'; there are: ",
    "run normal --data rows.csv --text text --label label": "If these are a row, name all columns with --columns",
}


@pytest.mark.parametrize("line", INCOMPLETE)
def test_a_message_says_what_is_missing(
    line: str, saved_results: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(saved_results)
    Path("rows.csv").write_text("It rains,wet\nIt shines,dry\n", "utf-8")

    assert status_of(line) == 2
    assert INCOMPLETE[line] in capsys.readouterr().err.splitlines()[-1]
