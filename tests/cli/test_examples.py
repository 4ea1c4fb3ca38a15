"""Every example of every command's help runs."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from pathlib import Path
from typing import Any

import pytest

import StaICC
import StaICC.cli
from StaICC.benchmarks.exchange import identified_queries
from StaICC.cli import main
from StaICC.cli.output import Printed
from StaICC.layout import Line
from tests.logs.made_logs import write_evaluation

PROGRAM = "python -m StaICC "
COMMANDS = tuple(StaICC.cli._COMMANDS)

SHORTER = {
    "run normal --model smollm2 --datasets TREC AGNews --limit 50": "run normal --datasets mini --limit 3",
    "run suite --model smollm2 --store run.sqlite --workers 2": "run suite --datasets mini --limit 2 "
    "--store fresh.sqlite --workers 2",
    "run normal --model smollm2 --precision 0.02": "run normal --datasets mini --precision 0.1",
    "run normal --model smollm2 --k 4,16,64 --sampler nested --datasets TREC": "run normal --k 0,1 --sampler nested "
    "--datasets mini --limit 2",
    "run generalisation --json first.json": "run generalisation --datasets mini --limit 2 --json new.json",
    "race --model smollm2 --model ppm": "race --model ppm --model 'ppm;order=3' --datasets mini --margin 0.1",
    "race --model hf:gpt2 --model hf:distilgpt2 --margin 0.03 --store run.sqlite": "race --model ppm --model "
    "'ppm;order=3' --datasets mini --margin 0.1 --store race.sqlite",
    "race --model smollm2 --model smollm2 --model-option dtype=bfloat16": "race --model ppm --model ppm --model-option "
    "order=3 --datasets mini --margin 0.1",
    "verify result.json --rerun 20 --model hf:gpt2": "verify ppm.json --rerun 20 --model ppm",
    "score normal predictions.jsonl --model-name my-model": "score normal predictions.jsonl --datasets mini "
    "--limit 10 --model-name my-model",
    "score normal logged": "score normal logged --datasets mini --limit 10",
    "prompts normal --datasets mini --limit 1 --model 'smollm2;prompt_format=chat'": "prompts normal --datasets mini "
    "--limit 1 --model 'ppm;order=3'",
    "prompts normal -o prompts.jsonl": "prompts normal -o prompts.jsonl --datasets mini",
    "export lm-eval tasks": "export lm-eval tasks --datasets mini --limit 2",
}
"""What replaces an example that needs weights, the ten data sets, or minutes: the same with the mini data set."""

ELSEWHERE = {
    "data install": "fetches the wheel: tests/datasets/test_pack.py",
    "data install StaICC-0.1.1-py3-none-any.whl": "needs the wheel: tests/datasets/test_pack.py",
    "data install long-icl --from DIR": "needs the user's files: tests/cli/test_data.py",
    "data remove NAME": "needs a converted model: tests/kernels/huggingface/test_gguf.py",
    "data verify": "its status says whether data is installed: tests/cli/test_data.py",
    "export eval-results result.json -o staicc.yaml": "needs data sets of the hub: tests/results/test_hub_exports.py",
    "show --nearest-gold result.json": "needs an experiment: tests/long_icl/test_gold_demonstrations.py",
    "run long-icl --data-dir DIR --rounds 1 2 --limit 20": "needs the user's files: tests/cli/test_data.py",
    "run long-icl --experiment context --levels 4K 8K 16K --dry-run": "needs the user's files: tests/cli/test_data.py",
}
"""Examples that need what a test has not got, and where they are tested."""


def command_of(name: str) -> Any:
    """The parser of a command."""
    commands = StaICC.cli._parser(name)._subparsers
    assert commands is not None
    return commands._group_actions[0].choices[name]  # type: ignore[index]


def examples() -> list[str]:
    """Return the examples of all commands, without the name of the program."""
    texts = [StaICC.cli._EPILOG, *(command_of(name).epilog for name in COMMANDS)]
    lines = [line.strip() for text in texts for line in text.splitlines()]
    return [line.removeprefix(PROGRAM) for line in lines if line.startswith(PROGRAM)]


RUN = [example for example in dict.fromkeys(examples()) if example not in ELSEWHERE and not example.endswith("--help")]
RUN += [
    "export lm-eval t --datasets mini --limit 2 --json",
    "components first.json second.json --json",
    "plan --half-width 0.1 --json",
    "run normal --datasets mini --limit 2 --quiet --json",
    "score normal predictions.jsonl --datasets mini --limit 10 --json",
    "data path --json",
    "store info run.sqlite --json",
]


def length(prompt: str, label_space: list[str]) -> int:
    """Predict a label by the length of the prompt."""
    return len(prompt) % len(label_space)


def save_results(folder: Path) -> None:
    """Save results of four models of one label or of the length, one of ppm, and two that are crossed."""
    for name, label in (("a", 0), ("b", 1), ("c", 2)):
        result = StaICC.Normal(datasets=["mini"])(lambda prompt, label_space, label=label: label)
        result.save(folder / f"{name}.json")
    StaICC.Normal(datasets=["mini"])(length).save(folder / "result.json")
    StaICC.Normal(datasets=["mini"], limit=20)(StaICC.load_kernel("ppm")).save(folder / "ppm.json")
    for name, order in (("first", 2), ("second", 3)):
        crossed = StaICC.Generalisation(datasets=["mini"], limit=10)
        crossed(StaICC.load_kernel(f"ppm;order={order}")).save(folder / f"{name}.json")
    (folder / "runs").mkdir()
    for name in ("a.json", "b.json"):
        shutil.copy(folder / name, folder / "runs" / name)


def write_predictions(folder: Path, queries: list[Any]) -> None:
    """Write predictions of queries as JSON lines, as CSV, and as a log of lm-evaluation-harness."""
    lines = [json.dumps({"id": query.id, "index": 1}) for query in queries]
    (folder / "predictions.jsonl").write_text("\n".join(lines) + "\n", "utf-8")
    rows = [f"{query.id},food" for query in queries]
    (folder / "predictions.csv").write_text("\n".join(["id,label", *rows]) + "\n", "utf-8")

    (folder / "logged").mkdir()
    samples = [json.dumps(logged_sample(query)) for query in queries]
    log = folder / "logged" / "samples_staicc_normal_mini_2026.jsonl"
    log.write_text("\n".join(samples) + "\n", "utf-8")


def logged_sample(query: Any) -> dict[str, Any]:
    """Return a query as lm-evaluation-harness logs it: the first label has the highest log-likelihood."""
    prompt, labels = query.query.prompt, list(query.query.label_space)
    return {
        "doc": {"id": query.id, "prompt": prompt, "label_space": labels},
        "arguments": {f"gen_args_{n}": {"arg_0": prompt, "arg_1": label} for n, label in enumerate(labels)},
        "filtered_resps": [[str(-float(n)), "False"] for n in range(len(labels))],
    }


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with everything that the examples name."""
    folder = tmp_path_factory.mktemp("examples")
    save_results(folder)
    benchmark = StaICC.Normal(datasets=["mini"], limit=10)
    benchmark(length, store=folder / "run.sqlite", model_name="length")
    write_predictions(folder, list(identified_queries(benchmark)))
    for name, correct in (("first", 1.0), ("second", 0.0)):
        tasks = {"sums": {"acc": [correct] * 20, "acc_norm": [correct] * 20}}
        write_evaluation(folder / "out" / f"{name}_model", tasks, model=name)
    for name in ("a", "b"):
        rows = [f"{row},{row}" for row in range(9)]
        (folder / f"{name}.csv").write_text("\n".join(["row,score", *rows]) + "\n", "utf-8")
    (folder / "run.toml").write_text('benchmark = "normal"\ndatasets = ["mini"]\n', "utf-8")
    return folder


def status_in_this_process(words: list[str]) -> object:
    """Return the exit status of a command, also of one that ends the program, as ``--version`` does."""
    try:
        return main(words)
    except SystemExit as end:
        return end.code


@pytest.mark.parametrize("example", RUN)
def test_the_example_runs(
    example: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], program: Any
) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setenv("STAICC_OFFLINE", "1")
    words = shlex.split(SHORTER.get(example, example))
    assert "smollm2" not in words, "an example with a large model must be shortened"
    if "--workers" in words:  # worker processes start from a program, not from a test
        done = program(*words, env={"HOME": str(folder)})
        assert done.returncode == 0, done.stderr
        return

    status = status_in_this_process(words)
    printed = capsys.readouterr()
    assert status == 0, printed.err
    if words[-1] == "--json":
        json.loads(printed.out)
    if "-o" in words:
        output = Path(words[words.index("-o") + 1])
        assert output.stat().st_size > 0


def test_every_command_has_an_example() -> None:
    assert {example.split()[0] for example in examples()} >= set(COMMANDS)


def test_the_tables_above_name_examples_only() -> None:
    """An entry that is no example any more would hide that one is missing."""
    assert set(SHORTER) | set(ELSEWHERE) <= set(examples())


@pytest.mark.parametrize("example", ELSEWHERE)
def test_an_example_that_runs_elsewhere_is_read_by_the_parser(example: str) -> None:
    words = shlex.split(example)

    assert callable(StaICC.cli._parser(words[0]).parse_args(words).run)


def test_the_help_of_the_program_lists_the_exit_statuses() -> None:
    assert re.findall(r"^  (\d+) +\w", StaICC.cli._EPILOG, re.MULTILINE) == ["0", "1", "2", "3", "4", "130"]


def kinds_of_options() -> dict[str, set[tuple[str | None, str]]]:
    """Return the name of the value and its type for each option, as each command has them."""
    kinds: dict[str, set[tuple[str | None, str]]] = {}
    for name in COMMANDS:
        for action in command_of(name)._actions:
            type_name = getattr(action.type, "__name__", type(action.type).__name__)
            for option in action.option_strings:
                kinds.setdefault(option, set()).add((action.metavar, type_name))
    return kinds


def test_an_option_has_the_same_kind_of_value_in_all_commands() -> None:
    kinds = kinds_of_options()
    for option in ("--json", "--output", "-o"):  # a file of some commands, a switch or a folder of others
        del kinds[option]

    assert kinds.pop("--k") == {("K", "int"), ("K", "Converted")}  # only `run` takes several
    for option, kinds_of_option in kinds.items():
        assert len(kinds_of_option) == 1, f"{option} has different values: {kinds_of_option}"


def test_what_a_command_returns_is_printed_as_text_and_as_json(monkeypatch: pytest.MonkeyPatch, staicc: Any) -> None:
    """Without an option of its own: this ended in a traceback."""
    monkeypatch.setattr("StaICC.cli.cite.add_cite", lambda parser: None)
    monkeypatch.setattr("StaICC.cli.cite.cite", lambda args: Printed({"a": 1}, [Line("one")]))

    assert staicc("cite") == (0, "one\n", "")

    status, out, _ = staicc("cite", "--json")
    assert status == 0
    assert json.loads(out) == {"a": 1}
