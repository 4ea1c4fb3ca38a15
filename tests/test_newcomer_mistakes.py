"""Mistakes that newcomers make, and the message that each gets: none is silent.

A case is a name, what the user does, and what the message must contain: what is wrong, and a way out (empty where the
first part implies it).
"""

from __future__ import annotations

import json
import logging
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import StaICC
from StaICC import Dataset, Normal, Suite, load_kernel
from StaICC.cli import main
from StaICC.datasets import SplitSizes
from StaICC.errors import StaICCError

GOOD = "text,label\n" + "".join(f"ticket {i},{'bug' if i % 2 else 'wish'}\n" for i in range(40))


def written(name: str, content: str | bytes) -> str:
    Path(name).write_bytes(content.encode() if isinstance(content, str) else content)
    return name


def read(name: str, content: str | bytes, texts: Any = ("text",), label: Any = "label", **more: Any) -> Dataset:
    return Dataset.from_file(written(name, content), list(texts), label, **more)


def first(prompt: Any, label_space: list[str]) -> list[float]:
    return [1.0] + [0.0] * (len(label_space) - 1)


def small_result() -> Any:
    return Normal(datasets=["mini"], limit=2)(first)


def run(*arguments: Any, **named: Any) -> Any:
    return Normal(datasets=["mini"], limit=2)(*arguments, **named)


async def asynchronous(prompt: Any, label_space: Any) -> int:
    return 0


def jsonl(*rows: Any) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


ROWS = [{"text": f"t{i}", "label": "ab"[i % 2]} for i in range(20)]

# what the user does, what the message says, what it says to do
PYTHON: dict[str, tuple[Callable[[], Any], str, str]] = {
    # -- files
    "path misspelt": (
        lambda: (written("tickets.csv", GOOD), Dataset.from_file("ticket.csv", ["text"], "label")),
        "there is no file ticket.csv",
        "Did you mean 'tickets.csv'?",
    ),
    "folder": (
        lambda: (Path("d").mkdir(), written("d/a.csv", GOOD), Dataset.from_file("d", ["text"], "label")),
        "d is a folder, expected a file",
        "It contains a.csv",
    ),
    "empty file": (lambda: read("a.csv", ""), "a.csv is empty", ""),
    "header only": (lambda: read("a.csv", "text,label\n"), "a.csv has no rows", ""),
    "spreadsheet": (lambda: read("a.xlsx", b"PK"), "the format .xlsx is not known", "Save it as CSV"),
    "no suffix": (lambda: read("data", GOOD), "without a suffix", "Save it as CSV"),
    "text column misspelt": (lambda: read("a.csv", GOOD, ["txt"]), "no column of a.csv 'txt'", "did you mean 'text'"),
    "label column in other case": (
        lambda: read("a.csv", GOOD, label="Label"),
        "no column of a.csv 'Label'",
        "did you mean 'label'",
    ),
    "column twice": (
        lambda: read("a.csv", "text,text,label\na,b,c\n"),
        "2 columns are called 'text'",
        "Rename all but one",
    ),
    "too few fields": (
        lambda: read("a.csv", GOOD + "only text\n"),
        "line 42 has 1 fields, but the header has 2",
        "quotes",
    ),
    "comma without quotes": (
        lambda: read("a.csv", "text,label\nYes, it crashes,bug\n"),
        "line 2 has 3 fields",
        "in double quotes",
    ),
    "quote not closed": (
        lambda: read("a.csv", 'text,label\n"a,bug\nb,wish\n'),
        "a.csv, up to line 3",
        "may not be closed",
    ),
    "quote within a field": (lambda: read("a.csv", 'text,label\n"a" b,bug\n'), "a.csv, up to line 2", 'twice ("")'),
    "a huge field": (
        lambda: read("a.csv", f'text,label\n"{"x" * 200_000}",bug\n'),
        "field larger than field limit",
        "may not be closed",
    ),
    "Latin-1": (
        lambda: read("a.csv", "text,label\ncafé,a\nthé,b\n".encode("latin-1")),
        "a.csv is not text in utf-8",
        "encoding='cp1252'",
    ),
    "unknown encoding": (
        lambda: read("a.csv", GOOD, encoding="utf-88"),
        "encoding: got 'utf-88'",
        "Use a name such as",
    ),
    "NUL": (lambda: read("a.csv", "text,label\na\0b,c\n"), "line 2 has a NUL character", "another encoding"),
    "UTF-16 without a mark": (lambda: read("a.csv", GOOD.encode("utf-16-le")), "NUL character", "another encoding"),
    "empty text": (
        lambda: read("a.csv", GOOD + " ,bug\n"),
        "line 42 has no text (1 of 41 rows have none)",
        "Remove these rows",
    ),
    "empty label": (lambda: read("a.csv", GOOD + "x,\ny, \n"), "line 42 has no label (2 of 42", "fill in"),
    "label null": (
        lambda: read("a.jsonl", jsonl(*ROWS, {"text": "x", "label": None})),
        "line 21 has no label",
        "Remove",
    ),
    "label is a list": (lambda: read("a.jsonl", jsonl({"text": "x", "label": ["a"]})), "a text or a number", ""),
    "one class": (lambda: read("a.csv", "text,label\na,x\nb,x\n"), "all 2 rows have the label 'x'", "labels=[...]"),
    "number as label column": (
        lambda: read("a.csv", "text,score\n" + "".join(f"t{i},{i / 7}\n" for i in range(20)), label="score"),
        "each of the 20 rows has a label of its own",
        "Choose the column of the classes",
    ),
    "broken JSON line": (lambda: read("a.jsonl", jsonl(*ROWS) + '{"text": "x"'), "line 21: this is not JSON", ""),
    "JSON line is a list": (lambda: read("a.jsonl", jsonl(ROWS[0]) + "5\n"), "line 2: got 5", "expected an object"),
    "JSON key missing": (
        lambda: read("a.jsonl", jsonl(*ROWS, {"txt": "x", "label": "a"})),
        "a.jsonl, line 21 'text'",
        "did you mean 'txt'",
    ),
    "number as text": (
        lambda: read("a.jsonl", jsonl(*ROWS, {"text": 5, "label": "a"})),
        "line 21, column 'text': got 5 (int)",
        "Correct or remove",
    ),
    "text is null": (lambda: read("a.jsonl", jsonl({"text": None, "label": "a"})), "got nothing", "Correct or remove"),
    "corrupt Parquet": (lambda: read("a.parquet", b"PAR1 nothing"), "cannot be read as Parquet", ""),
    "columns forgotten": (
        lambda: Dataset.from_file(written("a.csv", GOOD)),
        "texts and label is missing",
        "text, label",
    ),
    "same column twice": (lambda: read("a.csv", GOOD, label="text"), "a column is used twice", ""),
    "label missing in labels": (
        lambda: read("a.csv", GOOD, labels=["bugs", "wish"]),
        "there is no label 'bug'; did you mean 'bugs'",
        "Add it to the labels",
    ),
    "two cards": (
        lambda: (written("a.card.toml", ""), written("a.card.json", "{}"), read("a.csv", GOOD)),
        "a.csv has two cards",
        "Remove one",
    ),
    "key of the card misspelt": (
        lambda: (written("a.card.json", '{"licens": "MIT"}'), read("a.csv", GOOD)),
        "there is no key 'licens'",
        "did you mean 'licence'",
    ),
    "split larger than the file": (
        lambda: read("a.csv", GOOD, split=SplitSizes(100, 100, 100)),
        "the split takes 100 + 100 + 100 = 300 rows, but there are 40",
        "",
    ),
    "list instead of a data frame": (
        lambda: Dataset.from_pandas([1], ["text"], "label", name="x"),
        "got list, expected a pandas.DataFrame",
        "",
    ),
    "rows with a wrong label": (
        lambda: Dataset.from_rows([("a", "bugg")], name="x", label_space=["bug", "wish"]),
        "row 0: there is no label 'bugg'",
        "did you mean 'bug'",
    ),
    "name of an own file as a data set": (
        lambda: Normal(datasets=["tickets.csv"]),
        "no data set 'tickets.csv'",
        "data list",
    ),
    # -- Python
    "score misspelt": (
        lambda: small_result()["Averaged results"]["acuracy"],
        "there is no score 'acuracy'",
        "did you mean 'accuracy'",
    ),
    "data set as a key of the result": (
        lambda: small_result()["mini"],
        "no entry",
        "result[\"Divided results\"]['mini']",
    ),
    "data set misspelt in a result": (
        lambda: small_result()["Divided results"]["mni"],
        "there is no data set in this result 'mni'",
        "did you mean 'mini'",
    ),
    "part misspelt": (
        lambda: Suite(datasets=["mini"], limit=1)(first)["Norml"],
        "there is no part 'Norml'",
        "did you mean 'Normal'",
    ),
    "data set of a benchmark misspelt": (lambda: Normal(datasets=["mini"])["mnii"], "'mnii'", "did you mean 'mini'"),
    "number of a data set": (lambda: Normal(datasets=["mini"])[9], "there is no data set 9", "has 1: mini"),
    "store is a number": (
        lambda: Normal(datasets=["mini"], limit=1)(first, store=5),
        "store must be the path of a file or a PredictionStore, not 5",
        "",
    ),
    "progress is a word": (
        lambda: Normal(datasets=["mini"], limit=1)(first, progress="no"),
        "progress must be True, False or a function",
        "",
    ),
    "setting misspelt": (
        lambda: Normal(datasets=["mini"], limit=1)(first, progres=False),
        "no setting 'progres'",
        "progress",
    ),
    "f returns nothing": (
        lambda: Normal(datasets=["mini"], limit=1)(lambda prompt, label_space: None),
        "None",
        "expected",
    ),
    "f returns two scores": (
        lambda: Normal(datasets=["mini"], limit=1)(lambda prompt, label_space: [1, 2]),
        "got 2 values",
        "expected 3, one for each label",
    ),
    "f returns an unknown label": (
        lambda: Normal(datasets=["mini"], limit=1)(lambda prompt, label_space: "foods"),
        "foods",
        "food",
    ),
    "f has other parameters": (
        lambda: Normal(datasets=["mini"], limit=1)(lambda text, labels: 0),
        "unexpected keyword argument 'prompt'",
        "call its parameters prompt and label_space",
    ),
    "no function": (lambda: Normal(datasets=["mini"])(), "give an inference function", ""),
    "model misspelt": (lambda: load_kernel("smollm"), "no kind of model 'smollm'", "did you mean 'smollm2'"),
    # -- a second list, written before the messages and the first list were read
    "the result of f instead of f": (
        lambda: run(None),
        "give an inference function",
        "(the function itself, not what it returns)",
    ),
    "name of a model instead of f": (
        lambda: run("hf:gpt2"),
        "must be callable, not str",
        "pass load_kernel('hf:gpt2')",
    ),
    "a hub model without hf:": (lambda: load_kernel("gpt2"), "no kind of model 'gpt2'", "Write hf:NAME for a model"),
    "batched f without batched_inference": (
        lambda: run(lambda prompts, label_space: [0] * len(prompts)),
        "unexpected keyword argument 'prompt'",
        "pass batched_inference=True",
    ),
    "f for one prompt with batched_inference": (
        lambda: run(first, batched_inference=True),
        "the batched function returned 3 answers for 4 prompts",
        "leave out batched_inference=True",
    ),
    "a matrix for one prompt": (lambda: run(lambda prompt, label_space: [[1, 2, 3]]), "got 1 values", "return one row"),
    "a sentence without a label": (
        lambda: run(lambda prompt, label_space: "No idea."),
        "no label): 'No idea.'",
        "expected one of 'food', 'travel', 'weather'",
    ),
    "labels counted from 1": (lambda: run(lambda prompt, label_space: 3), "got label index 3", "expected 0 to 2"),
    "label and probability": (
        lambda: run(lambda prompt, label_space: ("food", 0.9)),
        "got 2 values",
        "expected 3, one for each label",
    ),
    "asynchronous f": (lambda: run(asynchronous), "asynchronous functions are not awaited", "expected a sequence of 3"),
    "f fails": (lambda: run(lambda prompt, label_space: {}["x"]), "query 0", "raised KeyError: 'x' (at test_newcomer"),
    "score as a key of the result": (
        lambda: small_result()["accuracy"],
        "no entry of a result 'accuracy'",
        "Use result[\"Averaged results\"]['accuracy']",
    ),
    "folder of the result missing": (lambda: small_result().save("no/r.json"), "the folder no is not there", "make it"),
    "result saved as CSV": (
        lambda: small_result().save("r.csv"),
        "results are saved as JSON: got 'r.csv'",
        "export scores",
    ),
    "data set as k": (
        lambda: Normal("mini"),
        "k must be an integer of at least 0, not 'mini'",
        "Normal(datasets=[...])",
    ),
    "f as k": (lambda: Normal(first), "k must be an integer of at least 0, not <function first", "Normal()(function)"),
    "f without label_space": (
        lambda: run(lambda prompt: 0),
        "unexpected keyword argument 'label_space'",
        "call its parameters prompt and label_space",
    ),
    "f with a third parameter": (
        lambda: run(lambda prompt, label_space, model: 0),
        "missing 1 required positional argument: 'model'",
        "functools.partial",
    ),
    "argument misspelt": (
        lambda: Normal(dataset=["mini"]),
        "no argument of Normal 'dataset'",
        "did you mean 'datasets'",
    ),
    "no data sets": (lambda: Normal(datasets=[]), "no data set was chosen", "name at least one"),
    "k assigned": (lambda: setattr(Normal(datasets=["mini"])[0], "k", 2), "k cannot be assigned", "set_k()"),
    "predictions without their data set": (
        lambda: run(preentered_prediction=[0, 1]),
        "one list of predictions for each of the 1 data sets",
        "a list of 1 lists",
    ),
    "too few predictions": (lambda: run(preentered_prediction=[[0]]), "has 1 predictions", "prompt_set() has 4"),
    "limit is a share": (
        lambda: Normal(datasets=["mini"], limit=0.5),
        "limit must be an integer of at least 1, not 0.5",
        "",
    ),
    "rows counted from 1": (
        lambda: Dataset.from_rows([(f"t{i}", i % 2 + 1) for i in range(9)], name="x", label_space=["a", "b"]),
        "row 1: the label index is 2",
        "(indexes 0 to 1)",
    ),
    "rows are texts": (
        lambda: Dataset.from_rows(["a", "b"], name="x", label_space=["a", "b"]),  # type: ignore[list-item]
        "row 0: expected (text or texts, label index), got 'a'",
        "",
    ),
    "rows are dictionaries": (
        lambda: Dataset.from_rows(ROWS, name="x", label_space=["a", "b"]),  # type: ignore[arg-type]
        "row 0: expected (text or texts, label index), got {",
        "use Dataset.from_file, from_pandas or from_huggingface",
    ),
    "columns in one text": (
        lambda: read("a.csv", "premise,hypothesis,label\na,b,c\n", ["premise, hypothesis"]),
        "no column of a.csv 'premise, hypothesis'",
        "name them one by one: 'premise', 'hypothesis'",
    ),
    "label column by number": (lambda: read("a.csv", GOOD, label=1), "label: got 1", "the name of the label column"),
    "spreadsheet called CSV": (lambda: read("a.csv", b"PK\x03\x04 and more"), "an Excel file", "Save it as CSV"),
    "store is a folder": (lambda: run(load_kernel("ppm"), store="."), "is a folder; a prediction store is a file", ""),
    "store is the data": (
        lambda: run(load_kernel("ppm"), store=written("a.csv", GOOD)),
        "a.csv is not a prediction store",
        "give another path",
    ),
    "class in lower case": (lambda: StaICC.suite, "module 'StaICC' has no attribute 'suite'", ""),
    "k is a text": (lambda: Normal(k="4", datasets=["mini"]), "k must be an integer of at least 0, not '4'", ""),
}

LINES: dict[str, tuple[str, str, str]] = {
    "benchmark misspelt": ("run norml", "there is no benchmark 'norml'", "did you mean 'normal'"),
    "data set misspelt": ("run normal --datasets TRECC", "there is no data set 'TRECC'", "did you mean 'TREC'"),
    "a file as a data set": (
        "run normal --datasets tickets.csv",
        "no data set 'tickets.csv'",
        "--data FILE or Dataset.from_file",
    ),
    "--data without columns": ("run normal --data tickets.csv", "texts and label is missing", "--text and --label"),
    "--text without --data": ("run normal --text text", "--text describes a file of own data", "--data FILE"),
    "--k negative": ("run normal --datasets mini --k -1", "k must be an integer of at least 0, not -1", ""),
    "--seed": ("run normal --seed 1", "--seed belongs to long-icl", "nothing to seed"),
    "--shots": ("run normal --shots 1", "--shots belongs to long-icl", "use --k"),
    "--num-fewshot": ("run normal --num-fewshot 1", "there is no option", "use --k"),
    "--json into a missing folder": (
        "run normal --datasets mini --json no/r.json",
        "the folder no is not there",
        "make it",
    ),
    "--json over the data": (
        "run normal --data tickets.csv --text text --label label --json tickets.csv",
        "tickets.csv is an input of this command",
        "give another path",
    ),
    "verify what is no result": ("verify tickets.csv", "tickets.csv: this is not JSON", ""),
    "verify a missing file": ("verify no.json", "no.json: No such file", ""),
    "method misspelt": ("run normal --datasets mini --method hiden", "there is no method 'hiden'", "List them with"),
    "a benchmark as a command": ("normal", "there is no command 'normal'", "python -m StaICC run NAME"),
    "a data set as an argument": ("run normal mini", "unrecognized arguments: mini", "name data sets with --datasets"),
    "a file as an argument": (
        "run normal tickets.csv",
        "unrecognized arguments: tickets.csv",
        "a file of data with --data",
    ),
    "data sets with a comma": (
        "run normal --datasets mini,TREC",
        "no data set 'mini,TREC'",
        "name them one by one: 'mini', 'TREC'",
    ),
    "columns with a comma": (
        "run normal --data tickets.csv --text text,label --label label",
        "no column of tickets.csv 'text,label'",
        "one by one",
    ),
    "label among the texts": (
        "run normal --data tickets.csv --text text label",
        "label is missing",
        "There are: text, label",
    ),
    "--output": ("run normal --datasets mini --output r.json", "there is no option '--output'", "use --json FILE"),
    "--texts": (
        "run normal --data tickets.csv --texts text --label label",
        "no option '--texts'",
        "did you mean '--text'",
    ),
    "--k four": ("run normal --datasets mini --k four", "argument --k: got 'four', expected a number", ""),
    "a hub model without hf:": ("run normal --datasets mini --model gpt2", "no kind of model 'gpt2'", "hf:NAME"),
    "a server without a model": (
        "run normal --datasets mini --model openai:http://127.0.0.1:9/v1",
        "the model is missing",
        "openai:BASE_URL#MODEL",
    ),
    "no command": ("--quiet", "are required: COMMAND", "There are: run, race"),
    "run without a benchmark": ("run", "are required: BENCHMARK", "There are: normal, contextual-bias"),
    "a function in a file": (
        "run normal --datasets mini --model tickets.py:f",
        "no kind of model 'tickets.py'",
        "write 'tickets:f'",
    ),
    "a function in no file": ("run normal --datasets mini --model nowhere:f", "no module 'nowhere'", "current folder"),
    "columns of an empty object": (
        "run normal --data empty.json --text text --label label",
        "empty.json, line 1 has no columns",
        "expected text, label",
    ),
    "report of a store": (
        "report run.sqlite",
        "run.sqlite: this is a prediction store",
        "expected the file of a saved result",
    ),
    "report of the data": ("report tickets.csv", "tickets.csv: this is not JSON", ""),
    "model folder missing": ("run normal --datasets mini --limit 1 --model hf:./nowhere", "nowhere", ""),
}


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_there_are_a_hundred() -> None:
    assert len(PYTHON) + len(LINES) + len(WARNED) >= 100


@pytest.mark.filterwarnings("ignore:coroutine 'asynchronous'")
@pytest.mark.parametrize("mistake", PYTHON)
def test_in_python(mistake: str) -> None:
    act, said, advice = PYTHON[mistake]
    if "Parquet" in mistake:
        pytest.importorskip("pyarrow")
    if "data frame" in mistake:
        pytest.importorskip("pandas")
    with pytest.raises((StaICCError, LookupError, AttributeError, TypeError)) as caught:
        act()
    message = str(caught.value)
    assert said in message
    assert advice in message
    assert "Traceback" not in message
    assert len(message) < 600


@pytest.mark.parametrize("mistake", LINES)
def test_on_the_command_line(mistake: str, capsys: pytest.CaptureFixture[str]) -> None:
    line, said, advice = LINES[mistake]
    written("tickets.csv", GOOD)
    written("empty.json", "{}")
    written("run.sqlite", b"SQLite format 3\0\xff")
    if "hf:" in line:
        pytest.importorskip("torch")
    try:
        status = main(line.split())
    except SystemExit as stop:
        status = int(stop.code or 0)
    told = capsys.readouterr().err.splitlines()[-1]
    assert status in (2, 3)
    assert said in told
    assert advice in told


# what runs, but is suspicious: a warning, once, in the log and in the result
WARNED: dict[str, tuple[Callable[[], Dataset], str]] = {
    "few rows": (
        lambda: Dataset.from_rows([(f"t{i}", i % 2) for i in range(300)], name="x", label_space=["a", "b"]),
        "2 of 300 rows are tested: an accuracy of 50 % is known to +/- 50 points. Use a larger limit",
    ),
    "six rows": (
        lambda: read("a.csv", "text,label\n" + "a,x\nb,y\nc,x\nd,y\ne,x\nf,y\n"),
        "2 of 6 rows are tested: an accuracy of 50 % is known to +/- 50 points. Use more rows",
    ),
    "k above the pool": (lambda: read("a.csv", GOOD), "k = 64 is larger than the demonstration set (16 rows)"),
    "duplicates": (lambda: read("a.csv", GOOD + GOOD.partition("\n")[2]), "are also in the demonstration set"),
    "contradicting labels": (
        lambda: read("a.csv", GOOD + GOOD.partition("\n")[2].replace("bug", "wish", 5)),
        "texts have two or more labels",
    ),
    "labels in two spellings": (
        lambda: read("a.csv", GOOD + "x,Bug\ny,Bug\n"),
        "the labels 'Bug', 'bug' differ only in",
    ),
    "labels 1 and 1.0": (lambda: read("a.csv", "text,label\na,1\nb,1.0\nc,2\nd,1\n"), "'1', '1.0' differ only in"),
    "labels with blanks": (lambda: read("a.csv", GOOD.replace(",bug", ", bug ")), "20 labels have surrounding spaces"),
    "labels are numbers": (
        lambda: read("a.csv", GOOD.replace("bug", "1").replace("wish", "0")),
        "the labels are numbers",
    ),
    "one text of two is empty": (
        lambda: read("a.csv", "text,b,label\n" + "x,y,p\nx2,,q\n" * 9, ["text", "b"]),
        "9 rows have an empty text",
    ),
}


@pytest.mark.parametrize("mistake", WARNED)
def test_warnings(mistake: str, caplog: pytest.LogCaptureFixture) -> None:
    make, said = WARNED[mistake]
    with caplog.at_level(logging.WARNING):
        result = Suite(k=64 if "pool" in mistake else 2, datasets=[make()], limit=2)(first)
    assert [said in warning for warning in result.warnings].count(True) == 1
    assert caplog.text.count(said) == 1
    assert str(result).count(said) == 1
    assert "warnings" in result["Normal"].to_dict()


def test_one_label_for_the_first_fifty_queries(caplog: pytest.LogCaptureFixture) -> None:
    benchmark = Normal(datasets=["mini"], limit=40)
    result = benchmark(first)
    assert any("the first 50 queries all got the label 'food'" in one for one in result.warnings)
    turns = iter(range(10_000))
    assert benchmark(lambda prompt, label_space: next(turns) % 3).warnings == ()


def test_torch_is_missing(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    import StaICC.optional as module

    def refuse(name: str, *arguments: Any) -> Any:
        raise ImportError(f"No module named {name!r}")

    monkeypatch.setattr("StaICC.optional.importlib.import_module", refuse)
    from StaICC.errors import MissingDependencyError

    def needs_torch(prompts: Any, label_space: Any) -> Any:
        return module.require("torch", "hf", "the kernel")

    def function(prompt: Any, label_space: Any) -> Any:
        return needs_torch([prompt], label_space)

    for each in (
        function,
        type(
            "Batched", (), {"__call__": lambda self, **named: 0, "batch": lambda self, **named: needs_torch(**named)}
        )(),
    ):
        with pytest.raises(MissingDependencyError) as caught:
            Normal(datasets=["mini"], limit=1)(each)
        message = str(caught.value)
        assert message.startswith("the kernel needs the package 'torch'")
        assert "query" not in message
        assert re.search(r"Install it with: (uv )?pip install .*\[hf\]", message)
        assert "'staicc[hf]'" not in message


def test_a_result_is_not_replaced_silently(capsys: pytest.CaptureFixture[str]) -> None:
    line = ["run", "normal", "--datasets", "mini", "--limit", "1", "--json", "r.json"]
    for command in (line, [*line[:-1], "k.json", "--k", "0,1"]):  # saved after each k
        assert main(command) == 0
        assert "replaced" not in capsys.readouterr().err
        assert main(command) == 0
        assert f"{command[7]} was replaced" in capsys.readouterr().err


def test_verify_goes_on_after_an_unreadable_file(capsys: pytest.CaptureFixture[str]) -> None:
    small_result().save("good.json")
    written("bad.json", "{")
    assert main(["verify", "no.json", "bad.json", "good.json"]) == 2
    shown = capsys.readouterr()
    assert "no.json: No such file" in shown.err
    assert "bad.json: " in shown.err
    assert "good.json:\nrecomputed" in shown.out


@pytest.mark.parametrize(
    "name",
    ["Normal", "NORMAL", "template_sens", "Template_sens", "Demo_sens", "PosteriorBias", "Contextual_bias", "gler"],
)
def test_names_of_the_release_and_any_case(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["Run", name, "--datasets", "Mini", "--limit", "1", "--outputs", "Auto", "--quiet"]) == 0


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_cannot_be_written(capsys: pytest.CaptureFixture[str]) -> None:
    Path("closed").mkdir(mode=0o500)
    assert main(["run", "normal", "--datasets", "mini", "--json", "closed/r.json"]) == 2
    assert "cannot be written to; give another path" in capsys.readouterr().err


def test_a_mistake_within_f_gets_no_advice_about_its_parameters() -> None:
    with pytest.raises(StaICCError) as caught:
        run(lambda prompt, label_space: first(prompt))  # type: ignore[call-arg]
    assert "functools.partial" not in str(caught.value)
