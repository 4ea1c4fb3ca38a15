"""Mistakes that newcomers make, and the message that each gets: none is silent.

A case says what the user does, and what the message must contain: what is wrong, and a way out (empty where the first
part implies it).
"""

from __future__ import annotations

import itertools
import json
import logging
import re
import sys
from collections.abc import Callable
from operator import attrgetter
from pathlib import Path
from typing import Any

import pytest

from StaICC import Dataset, Normal, Suite, load_kernel
from StaICC.benchmarks.verify import verify
from StaICC.cli import main
from StaICC.comparing.comparison import compare
from StaICC.comparing.ranking import rank
from StaICC.errors import MissingDependencyError, StaICCError
from StaICC.kernels.text_inference import text_inference
from StaICC.methods.many_shot import run_many_shot
from StaICC.methods.run import Method, run_all
from StaICC.optional import require
from StaICC.report.page import write_report
from StaICC.results.result import load

GOOD = "text,label\n" + "".join(f"ticket {i},{'bug' if i % 2 else 'wish'}\n" for i in range(40))


def written(name: str, content: str | bytes) -> str:
    Path(name).write_bytes(content.encode() if isinstance(content, str) else content)
    return name


def read(name: str, content: str | bytes, texts: Any = ("text",), label: Any = "label") -> Dataset:
    return Dataset.from_file(written(name, content), list(texts), label)


def first(prompt: Any, label_space: list[str]) -> list[float]:
    return [1.0] + [0.0] * (len(label_space) - 1)


def run(*arguments: Any, **named: Any) -> Any:
    return Normal(datasets=["mini"], limit=2)(*arguments, **named)


ROWS = [{"text": f"t{i}", "label": "ab"[i % 2]} for i in range(20)]

# content of a file (CSV, or JSON Lines of a list), what the message says, what it says to do
CSV: dict[str, tuple[Any, str, str]] = {
    "empty": ("", "a.csv is empty", ""),
    "spreadsheet": (b"PK\x03\x04 and more", "an Excel file", "Save it as CSV"),
    "too few fields": (GOOD + "only text\n", "line 42 has 1 fields, but the header has 2", "Complete"),
    "comma without quotes": ("text,label\nYes, it crashes,bug\n", "line 2 has 3 fields", "in double quotes"),
    "quote within a field": ('text,label\n"a" b,bug\n', "a.csv, line 2", 'twice ("")'),
    "Latin-1": ("text,label\ncaf\xe9,a\n".encode("latin-1"), "a.csv is not text in utf-8", "encoding='cp1252'"),
    "empty text": (GOOD + " ,bug\n", "line 42 has no text (1 of 41 rows)", "Remove"),
    "empty label": (GOOD + "x,\ny, \n", "line 42 has no label (2 of 42", "fill in"),
    "JSON key missing": ([*ROWS, {"txt": "x", "label": "a"}], "a.jsonl: line 21 has no 'text'", "it has: txt, label"),
    "text is null": (
        [*ROWS, {"text": None, "label": "a"}],
        "a.jsonl, line 21: column 'text' must be a string, not None",
        "Correct or remove",
    ),
    "half a character": (
        [*ROWS, {"text": "x", "label": "\ud800"}],
        "a.jsonl, line 21, column 'label': a label holds a lone surrogate",
        "",
    ),
}

# arguments of from_file for a good file
ARGUMENTS: dict[str, tuple[dict[str, Any], str, str]] = {
    "text column misspelt": ({"texts": ["txt"]}, "no column of a.csv 'txt'", "did you mean 'text'"),
    "unknown encoding": ({"encoding": "utf-88"}, "encoding: got 'utf-88'", "Use a name such as"),
    "encoding of Parquet": (
        {"path": "a.parquet", "encoding": "cp1252"},
        "encoding='cp1252', but a Parquet file has no encoding",
        "Leave it out",
    ),
    "quoting of JSON Lines": ({"path": "a.jsonl", "quoting": "none"}, "is about CSV and TSV files", "Leave it out"),
    "label missing in labels": ({"labels": ["bugs", "wish"]}, "no label 'bug'; did you mean 'bugs'", "Add it"),
}

# what an inference function returns or is
FUNCTIONS: dict[str, tuple[Any, str, str]] = {
    "name of a model instead of f": ("hf:gpt2", "must be callable, not str", "pass load_kernel('hf:gpt2')"),
    "f returns an unknown label": (lambda prompt, label_space: "foods", "foods", "food"),
    "a label within a sentence": (
        lambda prompt, label_space: "I think it is about food",
        "it mentions 'food', but not as the answer",
        "expected one of",
    ),
    "f has other parameters": (lambda text, labels: 0, "'prompt'", "call its parameters prompt and label_space"),
    "batched f": (lambda prompts, label_space: [0] * 4, "'prompt'", "pass batched_inference=True"),
    "labels counted from 1": (lambda prompt, label_space: 3, "got label index 3", "expected 0 to 2"),
    "f fails": (lambda prompt, label_space: {}["x"], "query 0", "raised KeyError: 'x' (at test_newcomer"),
    "f with a third parameter": (lambda prompt, label_space, model: 0, "argument: 'model'", "functools.partial"),
}

# settings of a benchmark or a run on the data set mini
SETTINGS: dict[str, tuple[dict[str, Any], str, str]] = {
    "store is a number": ({"store": 5}, "must be the path of a file or a PredictionStore, not 5", ""),
    "setting misspelt": ({"progres": False}, "no setting 'progres'", "progress"),
    "f for one prompt": ({"batched_inference": True}, "returned 3 answers for 4", "leave out batched_inference=True"),
}

# what else the user does, what the message says, what it says to do
PYTHON: dict[str, tuple[Callable[[], Any], str, str]] = {
    "path misspelt": (
        lambda: (written("tickets.csv", GOOD), Dataset.from_file("ticket.csv", ["text"], "label")),
        "there is no file ticket.csv",
        "Did you mean 'tickets.csv'?",
    ),
    "other format": (lambda: read("a.xlsx", b"PK"), "the format .xlsx is not known", "Save it as CSV"),
    "number as label column": (
        lambda: read("a.csv", "text,score\n" + "".join(f"t{i},{i / 7}\n" for i in range(20)), label="score"),
        "each of the 20 rows has a label of its own",
        "Choose the column of the classes",
    ),
    "corrupt Parquet": (lambda: read("a.parquet", b"PAR1 nothing"), "cannot be read as Parquet", ""),
    "score as a key": (lambda: run(first)["accuracy"], "'accuracy'", 'Use result["Averaged results"]'),
    "model misspelt": (lambda: load_kernel("smollm"), "no kind of model 'smollm'", "did you mean 'smollm2'"),
    "a hub model without hf:": (lambda: load_kernel("gpt2"), "no kind of model 'gpt2'", "Write hf:gpt2 for a model"),
    "data as k": (lambda: Normal("mini"), "k must be an integer of at least 0, not 'mini'", "Normal(datasets=[...])"),
    "wrong argument": (lambda: Normal(dataset=["mini"]), "no argument of Normal 'dataset'", "did you mean 'datasets'"),
    "prompts are asked for": (
        lambda: run(first).queries(prompts=True),
        "prompts: got True, expected a function",
        "written_prompts",
    ),
    "method run": (
        lambda: attrgetter("run")(Normal(datasets=["mini"])),
        "no attribute 'run'",
        "Call the benchmark itself",
    ),
    "evaluate of a group": (
        lambda: attrgetter("evaluate")(Suite(datasets=["mini"])),
        "'evaluate'",
        "Call the benchmark itself",
    ),
    "score as an attribute": (lambda: run(first).accuracy, "'accuracy'", 'Use result["Averaged results"]["accuracy"]'),
    "template of a data set": (
        lambda: attrgetter("change_template")(Normal(datasets=["mini"])[0].prompt_former),
        "no attribute 'change_template'",
        "change_instruction",
    ),
    "k of a data set": (
        lambda: attrgetter("change_k")(Normal(datasets=["mini"])[0].prompt_former),
        "'change_k'",
        "Normal(k=8)",
    ),
    "text for texts": (
        lambda: Dataset.from_file("a.csv", text=["text"], label="label"),  # type: ignore[arg-type]
        "no argument of Dataset.from_file 'text'",
        "did you mean 'texts'",
    ),
    "no model": (lambda: Normal(datasets=["mini"])(), "got neither", "as in benchmark(my_inference)"),
    "predictions without a list around them": (
        lambda: run(preentered_prediction=[1, 1, 1, 1]),
        "expected 1, one for each data set",
        "Put yours into a list",
    ),
    "seed": (lambda: Normal(seed=1), "no argument of Normal 'seed'", "nothing to seed"),  # type: ignore[call-arg]
    "names with commas": (lambda: Normal(datasets="SST2,TREC"), "no data set", "one by one: 'SST2', 'TREC'"),
    "all data sets": (lambda: Normal(datasets="all"), "no data set 'all'. There are", "leave datasets out"),
    "runs are a list": (lambda: rank([run(first)] * 2), "expected a mapping of names", ""),  # type: ignore[arg-type]
    "a file for a run": (lambda: compare(run(first), "r.json"), "second: got 'r.json'", "StaICC.load(path) reads"),  # type: ignore
    "a file among runs": (
        lambda: rank({"a": run(first), "b": "r.json"}),  # type: ignore[dict-item]
        "'b': got 'r.json'",
        "StaICC.load(path) reads",
    ),
    "a report of a file": (lambda: write_report("r.json", "r.html"), "got 'r.json'", "StaICC.load(path) reads"),  # type: ignore
    "a report of a list": (
        lambda: write_report([run(first)], "r.html"),  # type: ignore[arg-type]
        "got a list of results",
        "Give each result a name",
    ),
    "a number for a file": (lambda: load(5), "path: got 5", "expected the path of a file"),  # type: ignore
    "a number for an output file": (lambda: run(first).save(3), "path: got 3", "expected the path of a file"),  # type: ignore
    "a number for a file of data": (lambda: Dataset.from_file(3), "path: got 3", "expected the path of a file"),  # type: ignore
    "a file is verified": (lambda: verify("r.json"), "result: got 'r.json'", "use verify_file"),  # type: ignore[arg-type]
    "model and benchmark exchanged": (
        lambda: run_all(Normal(datasets=["mini"]), load_kernel("ppm"), methods=["vanilla"]),  # type: ignore[arg-type]
        "benchmark: got PPMKernel, expected a Benchmark",
        "",
    ),
    "score without a precision": (
        lambda: run(first, score="likelihood"),
        "score='likelihood' belongs to precision",
        "as in precision=0.02",
    ),
    "one label": (
        lambda: Dataset.from_rows([("t", "bug")] * 20, name="x"),
        "all 20 rows have the label 'bug'",
        "name all labels with label_space=[...]",
    ),
    "benchmark for several k": (
        lambda: run_many_shot(Method("vanilla", load_kernel("ppm")), Normal(datasets=["mini"]), [2]),  # type: ignore[arg-type]
        "make_benchmark: got <Normal over mini>",
        "such as lambda k: Normal(k)",
    ),
    "name of a method for several k": (
        lambda: run_many_shot("vanilla", lambda k: Normal(k, datasets=["mini"]), [2]),  # type: ignore[arg-type]
        "method: got 'vanilla'",
        "Method('vanilla', kernel)",
    ),
    "one result is ranked": (
        lambda: rank(run(first)),  # type: ignore[arg-type]
        "results: got one result of Normal",
        'as in {"first": result',
    ),
    "text of a model without any": (
        lambda: text_inference(load_kernel("ppm")),
        "PPMKernel cannot generate text",
        "Pass it to the benchmark itself",
    ),
    "store is the data": (
        lambda: run(load_kernel("ppm"), store=written("a.csv", GOOD)),
        "a.csv is not a prediction store",
        "give another path",
    ),
}

LINES: dict[str, tuple[str, str]] = {
    "show kernel": ("there is no kind 'kernel'", "did you mean 'kernels'"),
    "run norml": ("there is no benchmark 'norml'", "did you mean 'normal'"),
    "run normal --datasets tickets.csv": ("no data set 'tickets.csv'", "For a file: --data FILE"),
    "run normal --data titled.csv": (
        "name the columns, as --texts text --label label",
        "There are: text, title, label",
    ),
    "run normal --datasets SST2,TREC": ("no data set 'SST2,TREC'", "one by one: 'SST2', 'TREC'"),
    "run normal --datasets all": ("no data set 'all'. There are", "leave --datasets out"),
    "run MINI --device cuda": ("no option of ppm 'device'", "as in --model hf:NAME"),
    "run MINI --k 4 8 16": ("unrecognized arguments: 8 16", "--k 4,16,64"),
    "run MINI --limit 5 6": ("unrecognized arguments: 6", "--limit takes one value"),
    "run normal --k 4 4": ("unrecognized arguments: 4;", "--k 4,16,64"),
    "run normal --model-name normal normal": ("unrecognized arguments: normal;", "--model-name takes one value"),
    "run normal mini --datasets TREC mini": ("unrecognized arguments: mini;", "a file of data with --data"),
    "run MINI --model-option order=8 escape=D": ("--model-option takes one value: repeat it", "NAME=VALUE"),
    "run MINI --tried lots": ("got 'lots'", "expected an integer"),
    "run MINI --unparsed ignore": ("no value 'ignore'", "There are: error, wrong, excluded"),
    "run normal --seed 1": ("--seed belongs to long-icl", "nothing to seed"),
    "run MINI --template X": ("there is no option '--template'", "card"),
    "run MINI --batch-size 8": ("there is no option '--batch-size'", "--token-budget"),
    "run OWN --json tickets.csv": ("tickets.csv is an input of this command", "give another path"),
    "run MINI --method hiden": ("there is no method 'hiden'", "List them with"),
    "run MINI --method knn_prompt --method-option knnk=3": ("'knnk'", "did you mean 'knn_k'?"),
    "run MINI --calibration-number 8": ("--calibration-number belongs to --method", "Add --method NAME"),
    "run MINI --metrics standard+acuracy": ("'acuracy'", "did you mean 'accuracy'?"),
    "run MINI --output r.json": ("--output", "--json FILE"),
    "run MINI --model tickets.py:f": ("no kind of model 'tickets.py'", "write 'tickets:f'"),
    "normal": ("there is no command 'normal'", "python -m StaICC run NAME"),
    "run normal tickets.csv": ("unrecognized arguments: tickets.csv", "a file of data with --data"),
    "run normal --datasets mini,TREC": ("no data set 'mini,TREC'", "name them one by one: 'mini', 'TREC'"),
    "run normal --text text": ("--text describes a file", "--data FILE"),
    "run long-icl --shots 3": ("--shots belongs to an experiment", "--experiment"),
    "run long-icl --model ppm --datasets few_nerd": ("several labels", "--answers text"),
    "race --model ppm": ("got 1, expected two", "Give --model twice"),
    "race --model-option order=1 --model ppm --model ppm": ("order=1", "put it after the model"),
    "data install x.whl --hub": ("--hub", "data install long-icl"),
    "data install long-icl": ("one place of the files", "--hub"),
    "score normal": ("predictions: got none", "Put it first"),
    "export openai-batch --benchmark normal --output x.jsonl": ("--model: got none", "such as"),
    "verify empty.json --rerun 3": ("belong together", "Give both"),
    "plan --tokens -1 2 --difference 0.1 --max-datasets 3": ("--tokens: got", "at least 0"),
    "published --benchmark LongICL --method vanilla": ("no published figure", "remove one"),
    "run MINI --score likelihood": ("--score likelihood belongs to --precision", "as in --precision 0.02"),
    "run MINI --score likelihood --precision 0.1": ("got --outputs auto", "--outputs probabilities"),
    "run MINI --model ppm --max-tokens 20": ("ppm only scores labels", "Leave --max-tokens out"),
    "run MINI --model ppm --answers text": ("cannot generate text", "Leave --answers text out"),
    "run normal --data one.csv": ("all 40 rows have the label 'bug'", "under [labels] in its card"),
    "run normal --data tickets.csv --columns text": ("has 1 name, but the first line has 2", "Name all columns"),
    "run OWN --label-separator ;": ("none of the 40 labels has ';'", "Leave it out"),
    "run normal --data several.csv --label-separator ;": ("several labels", "such as hf:NAME"),
    "run long-icl --data several.csv --label-separator ; --model ppm": ("only scores labels", "--model hf:NAME"),
    "run MINI --model llama:tickets.csv": ("'tickets.csv' is a file", "expected a .gguf file"),
    "run MINI --model tickets.py": ("no kind of model 'tickets.py'", "write 'tickets:NAME'"),
    "export lm-eval tickets.csv --data missing.csv": ("tickets.csv is a file", "give a folder"),
    "prompts normal --method topk": ("no option '--method' here", "belongs to run"),
    "run helmet --data-dir nodir": ("HELMET is in nodir, which does not exist", "data install long-icl --hub"),
    "run long-icl --data-dir nodir --datasets tacred": ("tacred of LongICL is not in nodir", "Source: https://"),
    "run normal --data cut.jsonl": ("cut.jsonl, line 3: this is not JSON", " at column 1)"),
    "run normal --data lacking.jsonl": (
        "line 2 has no 'label', it has: text (missing in 1 of 40 rows)",
        "or remove the row",
    ),
    "run normal --data carded.csv": ("carded.csv, line 2: there is no label 'wish'", "to 'labels' of the card file"),
    "models ppm": ("unrecognized arguments: ppm", "takes options only, no name"),
    "data path mini": ("unrecognized arguments: mini", "takes options only, no name"),
    "report run.sqlite": ("run.sqlite: this is a prediction store", "expected the file of a saved result"),
}


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def refused(act: Callable[[], Any], what_is_wrong: str, advice: str) -> None:
    """Check that a mistake is an error of one short message, which says what is wrong and what to do."""
    with pytest.raises((StaICCError, LookupError, AttributeError, TypeError)) as caught:
        act()

    message = str(caught.value)
    assert what_is_wrong in message
    assert advice in message
    assert "Traceback" not in message
    assert len(message) < 600


@pytest.mark.parametrize("mistake", PYTHON)
def test_in_python(mistake: str) -> None:
    if "Parquet" in mistake:
        pytest.importorskip("pyarrow")
    refused(*PYTHON[mistake])


@pytest.mark.parametrize(("content", "said", "advice"), CSV.values(), ids=CSV)
def test_in_a_file(content: Any, said: str, advice: str) -> None:
    lines = "".join(json.dumps(row) + "\n" for row in content) if isinstance(content, list) else content
    refused(lambda: read("a.csv" if lines is content else "a.jsonl", lines), said, advice)


@pytest.mark.parametrize(("given", "said", "advice"), ARGUMENTS.values(), ids=ARGUMENTS)
def test_in_arguments_of_a_file(given: dict[str, Any], said: str, advice: str) -> None:
    for name in ("a.csv", "a.parquet", "a.jsonl"):
        written(name, GOOD)
    arguments = {"path": "a.csv", "texts": ["text"], "label": "label"} | given
    refused(lambda: Dataset.from_file(**arguments), said, advice)


@pytest.mark.parametrize(("function", "said", "advice"), FUNCTIONS.values(), ids=FUNCTIONS)
def test_in_an_inference_function(function: Any, said: str, advice: str) -> None:
    refused(lambda: run(function), said, advice)


@pytest.mark.parametrize(("given", "said", "advice"), SETTINGS.values(), ids=SETTINGS)
def test_in_settings(given: dict[str, Any], said: str, advice: str) -> None:
    refused(lambda: run(load_kernel("ppm") if "store" in given else first, **given), said, advice)


def write_files_of_mistakes() -> None:
    """Write the files that the command lines above name, good ones and others, into the folder of the test."""
    written("tickets.csv", GOOD)
    written("titled.csv", GOOD.replace(",", ",a title,").replace("a title", "title", 1))
    written("one.csv", GOOD.replace("wish", "bug"))
    written("several.csv", GOOD.replace("wish", "wish;bug"))
    json_lines = []
    for number in range(40):
        json_lines.append(json.dumps({"text": f"ticket {number}", "label": "bug" if number % 2 else "wish"}))
    written("cut.jsonl", "\n".join([*json_lines[:2], "ticket", *json_lines[3:]]))
    written("lacking.jsonl", "\n".join([json_lines[0], '{"text": "ticket 1"}', *json_lines[2:]]))
    written("carded.csv", GOOD)
    written("carded.card.json", '{"labels": ["bug", "praise"]}')
    written("empty.json", "{}")
    written("run.sqlite", b"SQLite format 3\0\xff")


ABBREVIATIONS = {
    "MINI": "normal --datasets mini",
    "OWN": "normal --data tickets.csv --text text --label label",
}
"""What capitals in the command lines above stand for."""


def status_of_command(line: str) -> int:
    """Return the status with which a command ends."""
    for abbreviation, words in ABBREVIATIONS.items():
        line = line.replace(abbreviation, words)
    try:
        return main(line.split())
    except SystemExit as stop:
        return int(stop.code or 0)


@pytest.mark.parametrize("line", LINES)
def test_a_mistake_on_the_command_line_is_said_with_advice(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    write_files_of_mistakes()

    status = status_of_command(line)

    *_, last_line = capsys.readouterr().err.splitlines()
    what_is_wrong, advice = LINES[line]
    assert status in (2, 3)
    assert what_is_wrong in last_line
    assert advice in last_line


# what runs, but is suspicious: a warning, once, in the log and in the result
WARNED: dict[str, tuple[Callable[[], Dataset], str]] = {
    "few rows": (
        lambda: Dataset.from_rows([(f"t{i}", i % 2) for i in range(300)], name="x", label_space=["a", "b"]),
        "2 of 300 rows are tested: an accuracy of 50 % is known to +/- 50 points. Use a larger limit",
    ),
    "labels without rows": (
        lambda: Dataset.from_rows([(f"t{i}", i % 2) for i in range(300)], name="x", label_space=list("abcd")),
        "2 labels have no test row, such as 'c', 'd'.",
    ),
    "k above the pool": (lambda: read("a.csv", GOOD), "k = 64 is larger than the demonstration set (16 rows)"),
    "duplicates": (lambda: read("a.csv", GOOD + GOOD.partition("\n")[2]), "are also in the demonstration set"),
    "contradicting labels": (
        lambda: read("a.csv", GOOD + GOOD.partition("\n")[2].replace("bug", "wish", 5)),
        " 5 texts have two or more labels",
    ),
    "repeated test rows": (
        lambda: Dataset.from_rows([(f"t{i % 7}", i % 7 % 2) for i in range(300)], name="x", label_space=["a", "b"]),
        "113 of 120 test rows have the texts of other test rows (first: row ",
    ),
    "spelling of labels": (lambda: read("a.csv", GOOD + "x,Bug\ny,Bug\n"), "the labels 'Bug', 'bug' differ only in"),
}


@pytest.mark.parametrize("mistake", WARNED)
def test_suspicious_data_are_a_warning_once_in_the_log_and_in_the_result(
    mistake: str, caplog: pytest.LogCaptureFixture
) -> None:
    make_dataset, text = WARNED[mistake]
    k = 64 if mistake == "k above the pool" else 2

    with caplog.at_level(logging.WARNING):
        result = Suite(k=k, datasets=[make_dataset()], limit=2)(first)

    assert len([warning for warning in result.warnings if text in warning]) == 1
    assert caplog.text.count(text) == 1
    assert str(result).count(text) == 1
    assert "warnings" in result["Normal"].to_dict()


def test_one_label_for_the_first_fifty_queries_is_a_warning() -> None:
    """25 test rows have 50 queries."""
    warnings_of_run = Normal(datasets=["mini"], limit=25)(first).warnings

    text = "the first 50 queries all got the label 'food'"
    assert any(text in warning for warning in warnings_of_run), warnings_of_run


def test_one_label_for_fewer_queries_is_no_warning() -> None:
    warnings_of_run = Normal(datasets=["mini"], limit=24)(first).warnings

    assert [warning for warning in warnings_of_run if "queries all got" in warning] == []


def test_different_labels_are_no_warning() -> None:
    labels = itertools.cycle([0, 1, 2])

    assert Normal(datasets=["mini"], limit=25)(lambda prompt, label_space: next(labels)).warnings == ()


def test_the_package_of_a_missing_module_is_named() -> None:
    with pytest.raises(MissingDependencyError, match="needs the package 'no_such_package',"):
        require("no_such_package.platforms", "vllm", "the vLLM kernel")


def needs_torch(prompt: str, label_space: list[str]) -> Any:
    """A model that imports torch when it is called."""
    return require("torch", "hf", "the kernel")


def test_a_missing_package_ends_a_run_that_collects_failures_with_the_command_that_installs_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is not about one query."""
    monkeypatch.setitem(sys.modules, "torch", None)  # as if it were not installed

    with pytest.raises(MissingDependencyError, match=r"^the kernel needs the package 'torch'") as caught:
        Normal(datasets=["mini"], limit=1)(needs_torch, on_error="collect")

    message = str(caught.value)
    assert "query" not in message
    assert re.search(r"Install it with: (uv )?pip install .*\[hf\]", message)
    assert "'staicc[hf]'" not in message
