"""Mistakes that newcomers make, and the message that each gets: none is silent.

A case has what the user does, and what the message must contain: the problem, and advice (empty where the problem
implies it).
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
from StaICC.kernels.ppm import PPMKernel
from StaICC.kernels.text_inference import text_inference
from StaICC.methods.many_shot import run_many_shot
from StaICC.methods.run import Method, run_all
from StaICC.optional import require
from StaICC.report.page import write_report
from StaICC.results.result import load

LINES_OF_TICKETS = "".join(f"ticket {row},wish\nticket {row + 1},bug\n" for row in range(0, 40, 2))
TICKETS_CSV = f"text,label\n{LINES_OF_TICKETS}"
"""A file without a mistake: 40 rows with two labels."""


def write_file(name: str, content: str | bytes) -> str:
    """Write a file into the folder of the test, and return its name."""
    Path(name).write_bytes(content.encode() if isinstance(content, str) else content)
    return name


def dataset_from_content(name: str, content: str | bytes, label: str = "label") -> Dataset:
    """Write a file and read it as a data set, whose texts are in the column ``text``."""
    write_file(name, content)
    return Dataset.from_file(name, ["text"], label)


def predict_first_label(prompt: Any, label_space: list[str]) -> list[float]:
    return [1.0] + [0.0] * (len(label_space) - 1)


def run_on_mini(*arguments: Any, **settings: Any) -> Any:
    """Run a benchmark of four queries: two test rows, each with two draws of demonstrations."""
    return Normal(datasets=["mini"], limit=2)(*arguments, **settings)


ERRORS_OF_MISTAKES = (StaICCError, LookupError, AttributeError, TypeError)


def assert_error_with_advice(error: BaseException, problem: str, advice: str) -> None:
    """Check that the message of an error is short, and says what is wrong and what to do."""
    message = str(error)
    assert problem in message
    assert advice in message
    assert "Traceback" not in message
    assert len(message) < 600


# content of a CSV file, what the message says, what it says to do
CSV: dict[str, tuple[str | bytes, str, str]] = {
    "empty": ("", "a.csv is empty", ""),
    "spreadsheet": (b"PK\x03\x04 and more", "an Excel file", "Save it as CSV"),
    "too few fields": (TICKETS_CSV + "only text\n", "line 42 has 1 fields, but the header has 2", "Complete"),
    "comma without quotes": ("text,label\nYes, it crashes,bug\n", "line 2 has 3 fields", "in double quotes"),
    "quote within a field": ('text,label\n"a" b,bug\n', "a.csv, line 2", 'twice ("")'),
    "Latin-1": ("text,label\ncaf\xe9,a\n".encode("latin-1"), "a.csv is not text in utf-8", "encoding='cp1252'"),
    "empty text": (TICKETS_CSV + " ,bug\n", "line 42 has no text (1 of 41 rows)", "Remove"),
    "empty label": (TICKETS_CSV + "x,\ny, \n", "line 42 has no label (2 of 42", "fill in"),
}

# line 21 of a file of JSON Lines whose first 20 lines are good, what the message says, what it says to do
LINE_21_OF_JSON_LINES: dict[str, tuple[dict[str, Any], str, str]] = {
    "key missing": ({"txt": "x", "label": "a"}, "a.jsonl: line 21 has no 'text'", "it has: txt, label"),
    "text is null": (
        {"text": None, "label": "a"},
        "a.jsonl, line 21: column 'text' must be a string, not None",
        "Correct or remove",
    ),
    "half a character": (
        {"text": "x", "label": "\ud800"},
        "a.jsonl, line 21, column 'label': a label holds a lone surrogate",
        "",
    ),
}

# arguments of Dataset.from_file which replace good ones, what the message says, what it says to do
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


class ClassifierWithPredict:
    """A classifier as scikit-learn has them, which is not callable."""

    def predict(self, texts: list[str]) -> list[int]:
        return [0 for _ in texts]


class ModelWithGenerate:
    """A model that generates text, which is not callable."""

    def generate(self, prompt: str) -> str:
        return prompt


# an inference function, what the message says, what it says to do
FUNCTIONS: dict[str, tuple[Any, str, str]] = {
    "name of a model instead of f": ("hf:gpt2", "must be callable, not str", "pass load_kernel('hf:gpt2')"),
    "an object with predict": (
        ClassifierWithPredict(),
        "must be callable, not ClassifierWithPredict",
        "lambda prompt, label_space: model.predict([prompt])[0]",
    ),
    "an object with generate": (
        ModelWithGenerate(),
        "must be callable, not ModelWithGenerate",
        "lambda prompt, label_space: model.generate(prompt)",
    ),
    "an object without a method": (object(), "must be callable, not object", "Write a function of prompt"),
    "the class of a kernel": (PPMKernel, "got the class PPMKernel, expected an object of it", "load_kernel('hf:gpt2')"),
    "the class of a classifier": (ClassifierWithPredict, "got the class ClassifierWithPredict", "expected an object"),
    "a benchmark instead of f": (Normal(datasets=["mini"]), "got a benchmark, Normal", "benchmark(my_inference)"),
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

# a call of the user, what the message says, what it says to do
PYTHON: dict[str, tuple[Callable[[], Any], str, str]] = {
    "store is a number": (
        lambda: run_on_mini(load_kernel("ppm"), store=5),
        "must be the path of a file or a PredictionStore, not 5",
        "",
    ),
    "setting misspelt": (
        lambda: run_on_mini(predict_first_label, progres=False),
        "no setting 'progres'",
        "progress",
    ),
    "f for one prompt": (
        lambda: run_on_mini(predict_first_label, batched_inference=True),
        "returned 3 answers for 4",  # the scores of three labels, for four prompts
        "leave out batched_inference=True",
    ),
    "path misspelt": (
        lambda: (write_file("tickets.csv", TICKETS_CSV), Dataset.from_file("ticket.csv", ["text"], "label")),
        "there is no file ticket.csv",
        "Did you mean 'tickets.csv'?",
    ),
    "other format": (lambda: dataset_from_content("a.xlsx", b"PK"), "the format .xlsx is not known", "Save it as CSV"),
    "number as label column": (
        lambda: dataset_from_content(
            "a.csv", "text,score\n" + "".join(f"t{i},{i / 7}\n" for i in range(20)), label="score"
        ),
        "each of the 20 rows has a label of its own",
        "Choose the column of the classes",
    ),
    "score as a key": (
        lambda: run_on_mini(predict_first_label)["accuracy"],
        "'accuracy'",
        'Use result["Averaged results"]',
    ),
    "model misspelt": (lambda: load_kernel("smollm"), "no kind of model 'smollm'", "did you mean 'smollm2'"),
    "a hub model without hf:": (lambda: load_kernel("gpt2"), "no kind of model 'gpt2'", "Write hf:gpt2 for a model"),
    "data as k": (lambda: Normal("mini"), "k must be an integer of at least 0, not 'mini'", "Normal(datasets=[...])"),
    "k is a text": (lambda: Normal(k="4"), "k must be an integer of at least 0, not '4'", "Write 4"),  # type: ignore[arg-type]
    "limit is a number with a point": (
        lambda: Normal(limit=8.0),  # type: ignore[arg-type]
        "limit must be an integer of at least 1, not 8.0",
        "Write 8",
    ),
    "wrong argument": (lambda: Normal(dataset=["mini"]), "no argument of Normal 'dataset'", "did you mean 'datasets'"),
    "prompts are asked for": (
        lambda: run_on_mini(predict_first_label).queries(prompts=True),
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
    "score as an attribute": (
        lambda: run_on_mini(predict_first_label).accuracy,
        "'accuracy'",
        'Use result["Averaged results"]["accuracy"]',
    ),
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
        lambda: run_on_mini(preentered_prediction=[1, 1, 1, 1]),
        "expected a list of 1 item: a list of predictions for the data set mini",
        "Put yours into a list",
    ),
    "an array without a list around it": (
        lambda: run_on_mini(preentered_prediction=(1, 1, 1, 1)),
        "preentered_prediction: got 4 items, (1, 1, 1, 1), expected a list of 1 item",
        "Put yours into a list",
    ),
    "no predictions for a data set": (
        lambda: run_on_mini(preentered_prediction=[None]),
        "preentered_prediction: got None for mini",
        "expected a list of predictions",
    ),
    "seed": (lambda: Normal(seed=1), "no argument of Normal 'seed'", "nothing to seed"),  # type: ignore[call-arg]
    "names with commas": (lambda: Normal(datasets="SST2,TREC"), "no data set", "one by one: 'SST2', 'TREC'"),
    "all data sets": (lambda: Normal(datasets="all"), "no data set 'all'. There are", "leave datasets out"),
    "runs are a list": (lambda: rank([run_on_mini(predict_first_label)] * 2), "expected a mapping of names", ""),  # type: ignore[arg-type]
    "a file for a run": (
        lambda: compare(run_on_mini(predict_first_label), "r.json"),
        "second: got 'r.json'",
        "StaICC.load(path) reads",
    ),  # type: ignore
    "a file among runs": (
        lambda: rank({"a": run_on_mini(predict_first_label), "b": "r.json"}),  # type: ignore[dict-item]
        "'b': got 'r.json'",
        "StaICC.load(path) reads",
    ),
    "a report of a file": (lambda: write_report("r.json", "r.html"), "got 'r.json'", "StaICC.load(path) reads"),  # type: ignore
    "a report of a list": (
        lambda: write_report([run_on_mini(predict_first_label)], "r.html"),  # type: ignore[arg-type]
        "got a list of results",
        "Give each result a name",
    ),
    "a number for a file": (lambda: load(5), "path: got 5", "expected the path of a file"),  # type: ignore
    "a number for an output file": (
        lambda: run_on_mini(predict_first_label).save(3),
        "path: got 3",
        "expected the path of a file",
    ),  # type: ignore
    "a number for a file of data": (lambda: Dataset.from_file(3), "path: got 3", "expected the path of a file"),  # type: ignore
    "a file is verified": (lambda: verify("r.json"), "result: got 'r.json'", "use verify_file"),  # type: ignore[arg-type]
    "model and benchmark exchanged": (
        lambda: run_all(Normal(datasets=["mini"]), load_kernel("ppm"), methods=["vanilla"]),  # type: ignore[arg-type]
        "benchmark: got PPMKernel, expected a Benchmark",
        "",
    ),
    "score without a precision": (
        lambda: run_on_mini(predict_first_label, score="likelihood"),
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
        lambda: rank(run_on_mini(predict_first_label)),  # type: ignore[arg-type]
        "results: got one result of Normal",
        'as in {"first": result',
    ),
    "text of a model without any": (
        lambda: text_inference(load_kernel("ppm")),
        "PPMKernel cannot generate text",
        "Pass it to the benchmark itself",
    ),
    "store is the data": (
        lambda: run_on_mini(load_kernel("ppm"), store=write_file("a.csv", TICKETS_CSV)),
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
    "run normal --data titled.csv --text title": (
        "name the column of labels, too, as --label label",
        "There are: text, title, label",
    ),
    "run normal --data titled.csv --label label": (
        "name the columns of texts, too, as --texts text",
        "There are: text, title, label",
    ),
    "run normal --datasets SST2,TREC": ("no data set 'SST2,TREC'", "one by one: 'SST2', 'TREC'"),
    "run normal --datasets all": ("no data set 'all'. There are", "leave --datasets out"),
    "run MINI --device cuda": ("no option of ppm 'device'", "for --model: smollm2, hf:NAME_OR_PATH"),
    "run MINI --model-option temperature=0.7": ("no option of ppm 'temperature'", "for --model: openai:BASE_URL#MODEL"),
    "run normal --tasks TREC --datasets mini": ("--tasks and --datasets mean the same here", "Give only --datasets"),
    "run MINI --num_fewshot 2 --k 3": ("--num-fewshot and --k mean the same here", "Give only --k"),
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


@pytest.mark.parametrize(("call", "problem", "advice"), PYTHON.values(), ids=PYTHON)
def test_a_wrong_call_is_an_error_with_advice(call: Callable[[], Any], problem: str, advice: str) -> None:
    with pytest.raises(ERRORS_OF_MISTAKES) as caught:
        call()

    assert_error_with_advice(caught.value, problem, advice)


@pytest.mark.parametrize(("content", "problem", "advice"), CSV.values(), ids=CSV)
def test_a_wrong_csv_file_is_an_error_with_advice(content: str | bytes, problem: str, advice: str) -> None:
    write_file("a.csv", content)

    with pytest.raises(ERRORS_OF_MISTAKES) as caught:
        Dataset.from_file("a.csv", ["text"], "label")

    assert_error_with_advice(caught.value, problem, advice)


@pytest.mark.parametrize(("record", "problem", "advice"), LINE_21_OF_JSON_LINES.values(), ids=LINE_21_OF_JSON_LINES)
def test_a_wrong_line_of_json_lines_is_an_error_with_advice(record: dict[str, Any], problem: str, advice: str) -> None:
    twenty_good_lines = '{"text": "t0", "label": "a"}\n{"text": "t1", "label": "b"}\n' * 10
    write_file("a.jsonl", twenty_good_lines + json.dumps(record) + "\n")

    with pytest.raises(ERRORS_OF_MISTAKES) as caught:
        Dataset.from_file("a.jsonl", ["text"], "label")

    assert_error_with_advice(caught.value, problem, advice)


@pytest.mark.parametrize(("changes", "problem", "advice"), ARGUMENTS.values(), ids=ARGUMENTS)
def test_a_wrong_argument_of_from_file_is_an_error_with_advice(
    changes: dict[str, Any], problem: str, advice: str
) -> None:
    for name in ("a.csv", "a.parquet", "a.jsonl"):
        write_file(name, TICKETS_CSV)
    good_arguments = {"path": "a.csv", "texts": ["text"], "label": "label"}

    with pytest.raises(ERRORS_OF_MISTAKES) as caught:
        Dataset.from_file(**(good_arguments | changes))

    assert_error_with_advice(caught.value, problem, advice)


def test_a_corrupt_parquet_file_is_refused() -> None:
    pytest.importorskip("pyarrow")
    write_file("a.parquet", b"PAR1 nothing")

    with pytest.raises(StaICCError) as caught:
        Dataset.from_file("a.parquet", ["text"], "label")

    assert_error_with_advice(caught.value, problem="cannot be read as Parquet", advice="")


@pytest.mark.parametrize(("function", "problem", "advice"), FUNCTIONS.values(), ids=FUNCTIONS)
def test_a_wrong_inference_function_is_an_error_with_advice(function: Any, problem: str, advice: str) -> None:
    benchmark = Normal(datasets=["mini"], limit=2)

    with pytest.raises(ERRORS_OF_MISTAKES) as caught:
        benchmark(function)

    assert_error_with_advice(caught.value, problem, advice)


def write_files_named_on_command_lines() -> None:
    """Write the files that the command lines above name, good ones and others, into the folder of the test."""
    write_file("tickets.csv", TICKETS_CSV)
    write_file("titled.csv", "text,title,label\n" + LINES_OF_TICKETS.replace(",", ",a title,"))
    write_file("one.csv", TICKETS_CSV.replace("wish", "bug"))
    write_file("several.csv", TICKETS_CSV.replace("wish", "wish;bug"))
    two_lines = '{"text": "a wish", "label": "wish"}\n{"text": "a bug", "label": "bug"}\n'
    line_without_label = '{"text": "a bug"}\n'
    write_file("cut.jsonl", two_lines + "ticket\n" + two_lines * 19)
    write_file("lacking.jsonl", '{"text": "a wish", "label": "wish"}\n' + line_without_label + two_lines * 19)
    write_file("carded.csv", TICKETS_CSV)
    write_file("carded.card.json", '{"labels": ["bug", "praise"]}')
    write_file("empty.json", "{}")
    write_file("run.sqlite", b"SQLite format 3\0\xff")


ABBREVIATIONS = {
    "MINI": "normal --datasets mini",
    "OWN": "normal --data tickets.csv --text text --label label",
}
"""What capitals in the command lines above stand for."""


def exit_status_of(line: str) -> int:
    """Run a command line, whose abbreviations are spelled out first, and return its exit status."""
    for abbreviation, words in ABBREVIATIONS.items():
        line = line.replace(abbreviation, words)
    try:
        return main(line.split())
    except SystemExit as stop:
        return int(stop.code or 0)


@pytest.mark.parametrize(
    ("line", "problem", "advice"), [(line, *message) for line, message in LINES.items()], ids=LINES
)
def test_a_wrong_command_line_is_an_error_with_advice(
    line: str, problem: str, advice: str, capsys: pytest.CaptureFixture[str]
) -> None:
    write_files_named_on_command_lines()

    status = exit_status_of(line)

    last_line_of_stderr = capsys.readouterr().err.splitlines()[-1]
    assert status in (2, 3), "2: an argument is invalid, 3: data are missing"
    assert problem in last_line_of_stderr
    assert advice in last_line_of_stderr


def rows_with_labels_0_and_1(different_texts: int) -> list[tuple[str, int]]:
    """Return 300 rows, whose texts begin again after some rows; equal texts have equal labels."""
    rows = []
    for row in range(300):
        number_of_text = row % different_texts
        rows.append((f"t{number_of_text}", number_of_text % 2))
    return rows


# k, a function that makes a data set, and what the warning says
WARNED: dict[str, tuple[int, Callable[[], Dataset], str]] = {
    "few rows": (
        2,
        lambda: Dataset.from_rows(rows_with_labels_0_and_1(different_texts=300), name="x", label_space=["a", "b"]),
        "2 of 300 rows are tested: an accuracy of 50 % is known to +/- 50 points. Use a larger limit",
    ),
    "labels without rows": (
        2,
        lambda: Dataset.from_rows(rows_with_labels_0_and_1(different_texts=300), name="x", label_space=list("abcd")),
        "2 labels have no test row, such as 'c', 'd'.",
    ),
    "k above the pool": (
        64,
        lambda: dataset_from_content("a.csv", TICKETS_CSV),
        "k = 64 is larger than the demonstration set (16 rows)",
    ),
    "duplicates": (
        2,
        lambda: dataset_from_content("a.csv", TICKETS_CSV + LINES_OF_TICKETS),
        "are also in the demonstration set",
    ),
    "contradicting labels": (
        2,
        lambda: dataset_from_content("a.csv", TICKETS_CSV + LINES_OF_TICKETS.replace("bug", "wish", 5)),
        " 5 texts have two or more labels",
    ),
    "repeated test rows": (
        2,
        lambda: Dataset.from_rows(rows_with_labels_0_and_1(different_texts=7), name="x", label_space=["a", "b"]),
        "113 of 120 test rows have the texts of other test rows (first: row ",  # 120 rows have 7 different texts
    ),
    "spelling of labels": (
        2,
        lambda: dataset_from_content("a.csv", TICKETS_CSV + "x,Bug\ny,Bug\n"),
        "the labels 'Bug', 'bug' differ only in",
    ),
}


@pytest.mark.parametrize(("k", "make_dataset", "warning"), WARNED.values(), ids=WARNED)
def test_suspicious_data_are_one_warning_in_the_log_and_in_the_result(
    k: int, make_dataset: Callable[[], Dataset], warning: str, caplog: pytest.LogCaptureFixture
) -> None:
    suite = Suite(k=k, datasets=[make_dataset()], limit=2)

    with caplog.at_level(logging.WARNING):
        result = suite(predict_first_label)

    assert "\n".join(result.warnings).count(warning) == 1
    assert caplog.text.count(warning) == 1
    assert str(result).count(warning) == 1
    assert "warnings" in result["Normal"].to_dict()


def test_a_model_that_predicts_one_label_for_the_first_50_queries_is_a_warning() -> None:
    """Each test row has two queries."""
    result = Normal(datasets=["mini"], limit=25)(predict_first_label)

    assert "the first 50 queries all got the label 'food'" in "\n".join(result.warnings)


def test_a_model_that_predicts_one_label_for_48_queries_is_no_warning() -> None:
    """Each test row has two queries."""
    result = Normal(datasets=["mini"], limit=24)(predict_first_label)

    assert "queries all got" not in "\n".join(result.warnings)


def test_a_model_that_predicts_all_labels_is_no_warning() -> None:
    labels = itertools.cycle([0, 1, 2])

    result = Normal(datasets=["mini"], limit=25)(lambda prompt, label_space: next(labels))

    assert result.warnings == ()


def test_the_package_of_a_missing_module_is_named() -> None:
    with pytest.raises(MissingDependencyError, match="needs the package 'no_such_package',"):
        require("no_such_package.platforms", "vllm", "the vLLM kernel")


def predict_with_torch(prompt: str, label_space: list[str]) -> Any:
    """A model that imports torch when it is called."""
    return require("torch", "hf", "the kernel")


def test_a_missing_package_ends_a_run_that_collects_failures(monkeypatch: pytest.MonkeyPatch) -> None:
    """A missing package is no failure of one query. The message has the command that installs the package."""
    monkeypatch.setitem(sys.modules, "torch", None)  # as if it were not installed

    with pytest.raises(MissingDependencyError, match=r"^the kernel needs the package 'torch'") as caught:
        Normal(datasets=["mini"], limit=1)(predict_with_torch, on_error="collect")

    message = str(caught.value)
    assert "query" not in message
    assert re.search(r"Install it with: (uv )?pip install .*\[hf\]", message)
    assert "'staicc[hf]'" not in message
