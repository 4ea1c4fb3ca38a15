"""Run files: what a command line says, a file says, and a result repeats."""

from __future__ import annotations

import dataclasses
import json
import random
import re
import sys
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import StaICC
from StaICC import load, load_kernel
from StaICC.cli import _parser
from StaICC.cli.run_files.command import _distinct_names
from StaICC.cli.run_files.keys import run_file_keys
from StaICC.cli.run_files.recorded_model import _KINDS_WITH_FILES, _RECORDED_KERNELS
from StaICC.cli.run_files.toml_text import toml_text
from StaICC.errors import SchemaError
from StaICC.inference.identity import identity_of
from StaICC.kernels.huggingface.prompts import KernelOptions
from StaICC.kernels.ppm import PPMKernel
from StaICC.kernels.registry import KERNELS, options_by_kind
from StaICC.methods.catalogue import METHODS
from StaICC.methods.contract import MethodSpec
from StaICC.methods.run import Method
from StaICC.results.predictor import describe_environment
from tests.cli.conftest import Cli
from tests.cli.run_file_cases import RUN_FILES, defaults_left_out

tomllib = pytest.importorskip("tomllib", reason="Python 3.11 brings it")


def write_own_data() -> None:
    """Write files of own data with 120 rows of two labels, and one with 25 labels for LongICL.

    ``own.csv`` has a column that three rows share. ``bare.tsv`` has no heading, and ``latin.csv`` another encoding.
    """
    words = ["calm", "bright", "dull", "grim", "warm", "cold", "quick", "slow"]
    draw = random.Random(1)
    rows = ["review,mood,who"]
    for number in range(120):
        text = " ".join(draw.choices(words, k=5))
        rows.append(f"{text} {number},{('good', 'bad')[number % 2]},{number // 3}")
    Path("own.csv").write_text("\n".join(rows) + "\n", "utf-8")
    bare = [row.replace(",", "\t") for row in rows[1:]]
    Path("bare.tsv").write_text("\n".join(bare) + "\n", "utf-8")
    Path("latin.csv").write_text("\n".join(rows).replace("calm", "café") + "\n", "latin-1")
    many = [f"message {number},kind {number % 25:02}" for number in range(500)]
    Path("many.csv").write_text("\n".join(["text,label", *many]) + "\n", "utf-8")


def write_run_file(text: str, name: str = "run.toml") -> dict[str, Any]:
    """Write a run file, and return its values."""
    Path(name).write_text(textwrap.dedent(text), "utf-8")
    return tomllib.loads(textwrap.dedent(text))


def run_and_load(staicc: Cli, name: str, *words: str) -> Any:
    """Run a command that saves its result, and return the result."""
    status, _, stderr = staicc("run", *words, "--json", name, "--quiet")
    assert status == 0, stderr
    return load(name)


DESCRIBE_DATA = {"text", "label", "encoding", "quoting", "columns", "cluster", "subgroups", "label_separator"}
"""Keys about a file of own data, which a saved result replaces as its card."""


def with_result_as_card(values: dict[str, Any], result_file: str) -> dict[str, Any]:
    """Return the values of a run file as ``show run`` writes them: it names the result in place of columns of data."""
    if "data" not in values:
        return values
    kept = {name: value for name, value in values.items() if name not in DESCRIBE_DATA}
    return {**kept, "card": result_file}


@pytest.mark.parametrize("command", RUN_FILES)
def test_a_run_file_is_its_command_line_and_its_result_repeats_it(staicc: Cli, command: str) -> None:
    write_own_data()
    of_command = run_and_load(staicc, "command.json", *command.split())
    values = write_run_file(RUN_FILES[command])
    of_file = run_and_load(staicc, "file.json", "--config", "run.toml")
    assert of_file == of_command

    status, shown, stderr = staicc("show", "run", "file.json")
    assert status == 0, stderr
    assert defaults_left_out(tomllib.loads(shown)) == with_result_as_card(values, "file.json")
    Path("again.toml").write_text(shown, "utf-8")
    assert run_and_load(staicc, "again.json", "--config", "again.toml") == of_file
    assert staicc("show", "run", "again.json").stdout == shown.replace('"file.json"', '"again.json"')


SMALL = 'benchmark = "normal"\ndatasets = ["mini"]\nlimit = 2\n'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("limt = 3", "no key of a run file 'limt'; did you mean 'limit'", id="misspelt"),
        pytest.param("datsets = []", "did you mean 'datasets'", id="misspelt list"),
        pytest.param("num_fewshot = 3", "use k", id="of another tool"),
        pytest.param('dtype = "float32"', "Write it under [model_option]", id="of a model"),
        pytest.param('api_key = "sk-secret"', "set the environment variable OPENAI_API_KEY", id="key"),
        pytest.param('config = "x.toml"', "no key of a run file 'config'", id="run file in a run file"),
        pytest.param('"k\u2010shot" = 3', "no key of a run file", id="other hyphen"),
        pytest.param('k = "4,x"', "k: got the text '4,x', expected a number, or several such as 4,16,64", id="text"),
        pytest.param('tried = "4"', "tried: got the text '4', expected an integer", id="number in quotes"),
        pytest.param("tried = 1.0", "tried: got 1.0, expected an integer", id="float for an integer"),
        pytest.param("tried = true", "tried: got true, expected an integer", id="true for an integer"),
        pytest.param("model = 4", "model: got 4, expected a text in quotes", id="number for a text"),
        pytest.param("noisy_channel = 1", "noisy_channel: got 1, expected true or false", id="number for a switch"),
        pytest.param('quiet = "yes"', "quiet: got the text 'yes', expected true or false", id="text for a switch"),
        pytest.param("precision = nan", "precision: got nan, expected a finite number", id="nan"),
        pytest.param("precision = inf", "precision: got inf, expected a finite number", id="infinity"),
        pytest.param("tried = 1979-05-27", "tried: got the date 1979-05-27, expected an integer", id="date"),
        pytest.param("model = 07:32:00", "model: got the time 07:32:00, expected a text", id="time"),
        pytest.param("k = [4, 16]", "k: got the list [4, 16]", id="list for one value"),
        pytest.param("datasets = []", "datasets: got [], expected a list of values", id="empty list"),
        pytest.param("datasets = [1]", "datasets: got 1, expected", id="number in a list of texts"),
        pytest.param('datasets = [["mini"]]', "datasets: got ['mini'], expected a list", id="list in a list"),
        pytest.param("prices = [1.0]", "prices: got [1.0], expected a list of 2 values", id="short list"),
        pytest.param('[store]\nfile = "x"', "store: got a table with file, expected a text", id="table"),
        pytest.param('model_option = "order=5"', "model_option: got the text 'order=5'", id="text for a table"),
        pytest.param("[model_option]\norder = [5]", "model_option.order: got [5]", id="list for an option"),
        pytest.param('[model_option]\nescape = "C;order=2"', "model_option: got", id="two options in one"),
        pytest.param('sampler = "nestd"', "did you mean 'nested'", id="misspelt choice"),
        pytest.param('benchmark = "nrmal"', "did you mean 'normal'", id="misspelt benchmark"),
        pytest.param("max-tokens = 1\nmax_tokens = 2", "max_tokens is given twice", id="two spellings"),
        pytest.param("k = 1\nk = 2", "is not TOML", id="twice"),
        pytest.param("k 3", "is not TOML", id="no equals sign"),
        pytest.param('model = "hf:FILL-IN"', "model: got the text 'hf:FILL-IN', which is to be", id="unfilled"),
        pytest.param("[sweep]\nk = 3", "sweep.k: got 3, expected a list", id="sweep without a list"),
        pytest.param("[sweep]\nk = []", "sweep.k: got [], expected a list", id="empty sweep"),
        pytest.param("[sweep]\nk = [3, 4, 3]", "sweep.k: got 3 twice", id="equal settings"),
        pytest.param("k = 1\n[sweep]\nk = [3]", "k is given in the file and in its [sweep]", id="fixed and swept"),
        pytest.param("[[sweep]]\nk = [3]", "expected one table of lists", id="list of sweeps"),
        pytest.param("[sweep]\nkk = [3]", "no key of a run file 'kk'", id="misspelt in a sweep"),
        pytest.param('[sweep]\nk = [1, "x"]', "k: got the text 'x'", id="wrong type in a sweep"),
        pytest.param('score = "accuracy"\nk = "1,2"', "--score is for the benchmark normal", id="contradiction"),
    ],
)
def test_a_mistake_in_a_run_file_is_one_sentence(staicc: Cli, text: str, message: str) -> None:
    if "benchmark" not in text:
        text = f'benchmark = "normal"\n{text}'
    Path("run.toml").write_text(text, "utf-8")

    status, stdout, stderr = staicc("run", "--config", "run.toml")

    assert (status, stdout) == (2, "")
    assert message in stderr
    assert "sk-secret" not in stderr
    assert stderr.count("\n") == 1
    assert "run.toml" in stderr


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        pytest.param("run.yaml", b"benchmark: normal\n", "write 'key: value' as 'key = value'", id="YAML"),
        pytest.param("run.toml", 'model = "é"'.encode("latin-1"), "run.toml is not UTF-8", id="another encoding"),
        pytest.param("run.toml", b"k = " + b"[" * 100_000, "run.toml", id="nested"),
        pytest.param("run.toml", b"k = " + b"9" * 10_000, "run.toml", id="digits"),
        pytest.param("run.toml", b"#" * 2_000_000, "more than a megabyte", id="large"),
        pytest.param("run.toml", b"", "the benchmark is missing", id="empty"),
    ],
)
def test_a_file_that_is_no_run_file_is_refused_in_one_line(
    staicc: Cli, name: str, content: bytes, message: str
) -> None:
    Path(name).write_bytes(content)
    status, _, stderr = staicc("run", "--config", name)

    assert (status, stderr.count("\n")) == (2, 1), stderr
    assert message in stderr


def test_a_run_file_that_is_missing_or_a_folder_is_refused_in_one_line(staicc: Cli) -> None:
    status, _, stderr = staicc("run", "--config", "missing.toml")
    assert (status, stderr.count("\n")) == (2, 1), stderr
    assert "there is no file missing.toml" in stderr

    Path("folder").mkdir()
    status, _, stderr = staicc("run", "--config", "folder")
    assert (status, stderr.count("\n")) == (2, 1), stderr
    assert "got the folder folder, expected a file such as" in stderr


def test_a_run_file_of_a_windows_editor_is_read(staicc: Cli) -> None:
    Path("run.toml").write_bytes(b"\xef\xbb\xbf" + SMALL.replace("\n", "\r\n").encode())

    assert len(run_and_load(staicc, "r.json", "--config", "run.toml").queries()) == 4


def test_on_python_3_10_a_run_file_is_read_by_tomli(staicc: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("run.toml").write_text(SMALL, "utf-8")
    monkeypatch.setitem(sys.modules, "tomllib", None)  # as in Python 3.10
    monkeypatch.setitem(sys.modules, "tomli", tomllib)

    assert staicc("run", "--config", "run.toml", "--no-save", "--quiet").status == 0


def test_without_a_reader_of_toml_the_error_says_what_to_install(staicc: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("run.toml").write_text(SMALL, "utf-8")
    monkeypatch.setitem(sys.modules, "tomllib", None)
    monkeypatch.setitem(sys.modules, "tomli", None)

    status, _, stderr = staicc("run", "--config", "run.toml")

    assert status == 3
    assert "a run file on Python 3.10 needs the package 'tomli'" in stderr
    assert "[toml]" in stderr


# The command line and the file.


def test_the_command_line_replaces_values_of_the_file(staicc: Cli) -> None:
    """Options of a model are replaced one by one: escape is as in the file."""
    Path("run.toml").write_text(SMALL + 'k = 2\n[model_option]\norder = 5\nescape = "D"\n', "utf-8")
    of_both = run_and_load(staicc, "both.json", "--k", "1", "--config", "run.toml", "--model-option", "order=3")
    words = "normal --datasets mini --limit 2 --k 1 --model-option order=3 --model-option escape=D"

    assert of_both == run_and_load(staicc, "words.json", *words.split())


def test_each_value_that_the_command_line_replaces_is_named(staicc: Cli) -> None:
    Path("run.toml").write_text(SMALL + 'k = 2\n[model_option]\norder = 5\nescape = "D"\n', "utf-8")
    _, _, stderr = staicc("run", "suite", "--config=run.toml", "--k", "1", "--model-option", "order=3", "--dry-run")

    for replaced in ("benchmark", "k", "model_option.order"):
        assert f"run.toml: {replaced} is replaced by the command line\n" in stderr
    for unchanged in ("escape", "limit"):
        assert unchanged not in stderr


@pytest.mark.parametrize("in_file", ["batch_size", "batch-size"])
@pytest.mark.parametrize("given", ["batch_size", "batch-size"])
def test_an_option_of_a_method_is_replaced_in_each_spelling(staicc: Cli, in_file: str, given: str) -> None:
    Path("run.toml").write_text(f'{SMALL}method = "batch-calibration"\n[method_option]\n{in_file} = 3\n', "utf-8")
    words = ["--method-option", f"{given}=5"]

    result = run_and_load(staicc, "r.json", "--config", "run.toml", *words)

    assert "batch_size=5" in result.method

    status, _, stderr = staicc("run", "--config", "run.toml", *words, "--dry-run")
    assert status == 0
    assert "run.toml: method_option.batch_size is replaced by the command line\n" in stderr


@pytest.mark.parametrize(
    "text",
    [
        "method_option = {batch_size = 3, batch-size = 4}\n",
        "[sweep]\nmethod_option = [{batch_size = 3, batch-size = 4}]\n",
    ],
    ids=["run", "sweep"],
)
def test_an_option_in_two_spellings_is_refused(staicc: Cli, text: str) -> None:
    Path("run.toml").write_text(f'{SMALL}method = "batch-calibration"\n{text}', "utf-8")
    status, stdout, stderr = staicc("run", "--config", "run.toml")

    assert (status, stdout) == (2, "")
    assert "run.toml: method_option.batch_size is given twice, in two spellings" in stderr


def test_options_of_a_model_are_left_out_if_another_model_is_given(staicc: Cli) -> None:
    Path("run.toml").write_text(SMALL + "[model_option]\norder = 5\n", "utf-8")
    _, _, stderr = staicc("run", "--config", "run.toml", "--model", "ppm", "--dry-run")

    assert "run.toml: model_option is left out, since --model is given\n" in stderr


def test_another_model_or_method_of_the_command_line_replaces_its_options_too(staicc: Cli) -> None:
    options = 'method = "batch_calibration"\n[method_option]\nbatch_size = 4\n[model_option]\norder = 5\n'
    Path("run.toml").write_text(SMALL + options, "utf-8")

    result = run_and_load(staicc, "r.json", "--config", "run.toml", "--model", "ppm", "--method", "vanilla")

    assert result == run_and_load(staicc, "words.json", "normal", "--datasets", "mini", "--limit", "2")


def test_data_sets_of_the_command_line_replace_those_of_the_file(staicc: Cli) -> None:
    Path("run.toml").write_text(SMALL.replace('["mini"]', '["TREC", "SST2"]'), "utf-8")

    assert list(run_and_load(staicc, "r.json", "--config", "run.toml", "--datasets", "mini").details) == ["mini"]


@pytest.mark.parametrize(
    "words", [["--config", "run.toml", "--config=b.toml"], ["--config"]], ids=["two run files", "none"]
)
def test_the_option_of_run_files_takes_one_file(staicc: Cli, words: list[str]) -> None:
    Path("run.toml").write_text(SMALL, "utf-8")
    status, _, stderr = staicc("run", *words)

    assert status == 2
    assert "argument --config: got" in stderr


def test_the_option_of_run_files_has_no_abbreviation(staicc: Cli) -> None:
    Path("run.toml").write_text(SMALL, "utf-8")
    status, _, stderr = staicc("run", "normal", "--conf", "run.toml")

    assert status == 2
    assert "no option '--conf'" in stderr
    assert "did you mean '--config'" in stderr


def test_every_option_of_run_is_a_key_of_run_files() -> None:
    """A new option is in run files without further code."""
    parser = _parser("run").command("run")
    keys = run_file_keys(parser)
    options = {action.dest for action in parser.arguments()} - {"help", "config"}

    assert {key.action.dest for key in keys.values()} == options

    parser.add_argument("--new-option", type=int)
    assert run_file_keys(parser)["new_option"].expected == "an integer"


CHANGE_NO_RESULT = {
    *("store", "workers", "chunk_size", "recheck", "quiet"),
    *("json", "records", "output", "overwrite", "no_save", "published"),
    *("dry_run", "probe_seconds", "tokenizer", "prices", "cached_price", "currency"),
    "data_dir",
}
"""Keys that change no result. The files of a folder of data are those that are published, whatever the folder."""

WITH_TESTS_OF_CARDS = {"card", "label_separator"}
"""Keys of own data; ``show run`` names the result itself as the card."""

WITH_OTHER_TESTS = {"on_error"}

NEED_OTHER_MODELS_OR_DATA = {"answers", "max_tokens", "stop", "lengths"}


def test_every_option_that_changes_a_result_is_in_a_case_above() -> None:
    """A new option needs a case, which fails until ``show run`` writes it."""
    in_cases: set[str] = set()
    for text in RUN_FILES.values():
        in_cases |= set(tomllib.loads(textwrap.dedent(text)))
    keys = set(run_file_keys(_parser("run").command("run")))
    not_in_cases = CHANGE_NO_RESULT | WITH_TESTS_OF_CARDS | WITH_OTHER_TESTS | NEED_OTHER_MODELS_OR_DATA | {"model"}

    assert keys - not_in_cases == in_cases


# Sweeps.


SWEEP = """
benchmark = "normal"
limit = 2
[sweep]
k = [0, 2]
datasets = [["mini"]]
model_option = [{order = 3}, {order = 5}]
"""
"""A sweep over two numbers of demonstrations, one list of data sets, and two orders of the model: four runs."""


def test_a_sweep_is_a_run_for_each_combination(staicc: Cli) -> None:
    Path("run.toml").write_text(SWEEP, "utf-8")
    status, stdout, stderr = staicc("run", "--config", "run.toml", "--no-save")

    assert status == 0
    assert stdout.count("StaICC|benchmark:Normal") == 4
    assert "run 2 of 4: k = 0, datasets = mini, model_option = order=5\n" in stderr


def test_files_of_a_sweep_have_the_settings_of_their_run_in_their_names(staicc: Cli) -> None:
    Path("run.toml").write_text(SWEEP, "utf-8")

    assert staicc("run", "--config", "run.toml", "--json", "r.json", "--records", "r.jsonl").status == 0

    expected = {"run.toml"}
    for k in (0, 2):
        for order in (3, 5):
            name = f"r_k-{k}_datasets-mini_model_option-order-{order}"
            expected |= {f"{name}.json", f"{name}.jsonl"}

    assert {path.name for path in Path().iterdir()} == expected


def test_a_run_of_a_sweep_is_that_of_its_command_line(staicc: Cli) -> None:
    Path("run.toml").write_text(SWEEP, "utf-8")

    assert staicc("run", "--config", "run.toml", "--json", "r.json").status == 0

    words = "normal --datasets mini --limit 2 --k 2 --model ppm;order=5"
    of_command = run_and_load(staicc, "command.json", *words.split())

    assert load("r_k-2_datasets-mini_model_option-order-5.json") == of_command


def test_results_of_a_sweep_in_a_folder_have_the_setting_in_their_names(staicc: Cli) -> None:
    Path("run.toml").write_text(SMALL + 'output = "out"\n[sweep]\nk = [0, 1]\n', "utf-8")

    assert staicc("run", "--config", "run.toml").status == 0
    assert [path.name.rpartition("_")[0] for path in sorted(Path("out").iterdir())] == [
        "Normal_ppm_k-0",
        "Normal_ppm_k-1",
    ]


def test_settings_whose_names_are_equal_have_results_of_their_own(staicc: Cli) -> None:
    Path("run.toml").write_text(SMALL + '[sweep]\nmodel_name = ["a b", "a-b", "A b"]\n', "utf-8")

    assert staicc("run", "--config", "run.toml", "--json", "r.json").status == 0
    assert {load(path).model.partition(" [")[0] for path in Path().glob("r_*.json")} == {"a b", "a-b", "A b"}


def test_names_of_results_have_each_value_of_a_setting() -> None:
    """Long names of models are cut, so that two of them have equal beginnings."""
    settings = []
    for model_name in ("a long name of a model " * 5, "a long name of a model " * 6):
        settings += [{"model_name": model_name, "datasets": ["mini"], "k": k} for k in range(1000)]

    names = _distinct_names(settings)

    names_in_lower_case = {name.casefold() for name in names}
    assert len(names_in_lower_case) == 2 * 1000
    assert max(len(name) for name in names) < 130
    for setting, name in zip(settings, names, strict=True):
        assert f"_k-{setting['k']}" in name


def test_thousands_of_settings_with_equal_names_get_numbers() -> None:
    """Names are cut, so that long values that begin alike have equal names."""
    settings = [{"model_name": "a" * 200, "k": "A" * length} for length in range(100, 4100)]

    names = _distinct_names(settings)

    assert names[1] == f"{names[0]}_2"
    assert len(set(names)) == len(settings)


@pytest.mark.parametrize(
    "sweep", ['method_variant = ["paper", "staicc"]', 'k = [0, "x"]'], ids=["contradiction", "wrong type"]
)
def test_a_sweep_is_checked_before_its_first_run(staicc: Cli, sweep: str) -> None:
    Path("run.toml").write_text(f"{SMALL}[sweep]\n{sweep}\n", "utf-8")
    status, stdout, _ = staicc("run", "--config", "run.toml")

    assert (status, stdout) == (2, "")


def test_a_sweep_is_not_printed_as_one_json(staicc: Cli) -> None:
    Path("run.toml").write_text(SMALL + "[sweep]\nk = [0, 1]\n", "utf-8")
    status, stdout, stderr = staicc("run", "--config", "run.toml", "--json")

    assert (status, stdout) == (2, "")
    assert "each run has its own" in stderr


@pytest.mark.parametrize(
    "sweep",
    [
        "k = [0, -1]",
        "limit = [2, 0]",
        'datasets = [["mini"], ["nope"]]',
        'metrics = ["standard", "nope"]',
        'method = ["vanilla", "nope"]',
        'method = ["vanilla", "topk"]',
        'model = ["ppm", "ppm;ordr=3"]',
        'model_option = [{order = 3}, {order = "x"}]',
        "level = [0.9, 2.0]",
        'records = ["a.jsonl", "missing/a.jsonl"]',
        'json = ["a.json", "missing/a.json"]',
        'k = ["1", "1,1"]',
        'k = ["1", "1,2"]\nbenchmark = ["suite"]',
        "chunk_size = [4, 0]",
        "workers = [1, -1]",
        "precision = [0.4, -1.0]",
    ],
)
def test_a_mistake_in_the_last_run_of_a_sweep_ends_it_before_the_first(staicc: Cli, sweep: str) -> None:
    check_that_last_run_is_refused(staicc, sweep)


def test_an_error_before_a_run_names_the_file_and_the_setting_of_a_sweep(staicc: Cli) -> None:
    Path("run.toml").write_text(SMALL + "[model_option]\nordr = 4\n", "utf-8")
    _, _, stderr = staicc("run", "--config", "run.toml")
    assert "run.toml: there is no option of ppm 'ordr'" in stderr

    Path("run.toml").write_text(SMALL + '[sweep]\nmodel = ["ppm", "pmm"]\n', "utf-8")
    _, _, stderr = staicc("run", "--config", "run.toml")
    assert "run.toml, model = pmm: there is no kind of model 'pmm'" in stderr


def test_a_mistake_in_an_option_of_all_methods_ends_a_sweep_before_its_first_run(staicc: Cli) -> None:
    check_that_last_run_is_refused(staicc, "method_option = [{}, {nosuch = 3}]", 'method = "all"')


def test_a_mistake_in_the_last_forecast_of_a_sweep_ends_it_before_the_first(staicc: Cli) -> None:
    for sweep in ("probe_seconds = [0.0, -1.0]", "chunk_size = [4, 0]"):
        check_that_last_run_is_refused(staicc, sweep, "dry_run = true")


def check_that_last_run_is_refused(staicc: Cli, sweep: str, *further_lines: str) -> None:
    """Check that the sweep of a run file ends before its first run.

    Args:
        staicc: Runs a command.
        sweep: Lines of the table of lists. Each replaces the line of the file that has its key.
        further_lines: Lines that are added to the file.
    """
    lines = ['benchmark = "normal"', 'datasets = ["mini"]', "limit = 2", "no_save = true", *further_lines]
    swept_keys = {line.partition(" ")[0] for line in sweep.splitlines()}
    not_swept = [line for line in lines if line.partition(" ")[0] not in swept_keys]
    Path("run.toml").write_text("\n".join([*not_swept, "[sweep]", sweep, ""]), "utf-8")
    status, stdout, stderr = staicc("run", "--config", "run.toml", "--quiet")
    assert (status, stdout) == (2, "")
    assert "run 1 of 2" not in stderr
    assert "left out" not in stderr


def test_an_option_of_the_command_line_ends_the_sweep_over_it(staicc: Cli) -> None:
    Path("run.toml").write_text(SMALL + "[sweep]\nk = [0, 1]\n", "utf-8")
    result = run_and_load(staicc, "r.json", "--config", "run.toml", "--k", "2")

    assert result.signature.fields["k"] == "2"


# Results that no run file repeats as they are.


def length(prompt: str, label_space: list[str]) -> int:
    """Return a label by the length of the prompt."""
    return len(prompt) % len(label_space)


def test_a_result_from_python_is_repeated(staicc: Cli) -> None:
    in_python = StaICC.GLER(2, datasets=["mini"], limit=2, interpolations=3)(load_kernel("ppm;order=4"))
    in_python.save("python.json")
    Path("run.toml").write_text(staicc("show", "run", "python.json").stdout, "utf-8")

    repeated = run_and_load(staicc, "r.json", "--config", "run.toml")

    assert repeated.signature == in_python.signature
    assert repeated.divided == in_python.divided
    assert repeated.queries() == in_python.queries()


def test_the_run_file_of_a_function_has_a_place_for_its_name(staicc: Cli) -> None:
    StaICC.Normal(datasets=["mini"], limit=2)(length).save("python.json")
    status, shown, _ = staicc("show", "run", "python.json")
    assert status == 0
    assert "# Fill in the model, as after --model: the function length" in shown

    Path("run.toml").write_text(shown, "utf-8")
    status, _, stderr = staicc("run", "--config", "run.toml")
    assert status == 2
    assert "model: got the text 'FILL-IN', which is to be filled in" in stderr


def test_the_run_file_of_a_function_repeats_its_result_when_it_is_filled_in(
    staicc: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    StaICC.Normal(datasets=["mini"], limit=2)(length).save("python.json")
    source = "def length(prompt, label_space):\n    return len(prompt) % len(label_space)\n"
    Path("lengths.py").write_text(source, "utf-8")
    monkeypatch.syspath_prepend(".")
    shown = staicc("show", "run", "python.json").stdout
    Path("run.toml").write_text(shown.replace("FILL-IN", "lengths:length"), "utf-8")

    assert run_and_load(staicc, "r.json", "--config", "run.toml").divided == load("python.json").divided


def test_a_model_in_a_folder_that_is_to_be_filled_in_keeps_its_options(
    staicc: Cli, make_model: Any, make_tokenizer: Any
) -> None:
    pytest.importorskip("torch")
    make_model("Llama", max_position_embeddings=4096).save_pretrained("tiny_llama")
    make_tokenizer().save_pretrained("tiny_llama")
    words = "normal --datasets mini --limit 4 --model tiny_llama --dtype bfloat16 --label-scoring first"
    of_command = run_and_load(staicc, "command.json", *words.split())

    shown = staicc("show", "run", "command.json").stdout

    assert 'model = "FILL-IN"' in shown

    Path("run.toml").write_text(shown.replace("FILL-IN", "tiny_llama"), "utf-8")
    assert run_and_load(staicc, "file.json", "--config", "run.toml") == of_command


def fails_at_some_lengths(prompt: str, label_space: list[str]) -> int:
    """Predict nothing for every fifth length of a prompt."""
    if len(prompt) % 5 == 0:
        raise ValueError("no prediction")
    return len(prompt) % len(label_space)


def test_the_run_file_of_a_result_with_failures_collects_them(staicc: Cli) -> None:
    """Without that option, the repeated run would end at the first failure."""
    benchmark = StaICC.Normal(datasets=["mini"], limit=20)
    incomplete = benchmark(fails_at_some_lengths, on_error="collect")

    assert not incomplete.complete

    incomplete.save("incomplete.json")
    assert tomllib.loads(staicc("show", "run", "incomplete.json").stdout)["on_error"] == "collect"


def test_the_run_file_of_a_complete_result_leaves_the_collecting_out(staicc: Cli) -> None:
    complete = StaICC.Normal(datasets=["mini"], limit=20)(length, on_error="collect")
    complete.save("complete.json")

    assert "on_error" not in tomllib.loads(staicc("show", "run", "complete.json").stdout)


def remarks_of(staicc: Cli, result: Any) -> str:
    """Return the comments of the run file of a result."""
    result.save("r.json")
    status, shown, stderr = staicc("show", "run", "r.json")
    assert status == 0, stderr
    return "\n".join(line for line in shown.splitlines() if line.startswith("#"))


def test_a_file_of_data_has_a_remark_about_its_path(staicc: Cli) -> None:
    write_own_data()
    own = ["normal", "--data", "own.csv", "--text", "review", "--label", "mood", "--limit", "2"]

    assert "Write the path of own.csv" in remarks_of(staicc, run_and_load(staicc, "own.json", *own))


# A saved result as the card of its data.

OWN = ("normal", "--data", "own.csv", "--text", "review", "--label", "mood", "--limit", "4")
ANOTHER_TEMPLATE = {"instruction": "Which mood? ", "input_text_prefixes": ["Words: "]}


@pytest.mark.parametrize("card_in_run", [None, {"template": ANOTHER_TEMPLATE}], ids=["no card", "a card"])
@pytest.mark.parametrize("card_now", [None, {"template": {"label_prefix": "M: "}}], ids=["no card now", "another card"])
def test_a_run_is_repeated_with_its_card_whatever_card_is_next_to_the_data(
    staicc: Cli, card_in_run: dict[str, Any] | None, card_now: dict[str, Any] | None
) -> None:
    write_own_data()
    card = Path("own.card.json")
    if card_in_run is not None:
        card.write_text(json.dumps(card_in_run))
    result = run_and_load(staicc, "first.json", *OWN)
    Path("again.toml").write_text(staicc("show", "run", "first.json").stdout)

    card.unlink(missing_ok=True)
    if card_now is not None:
        card.write_text(json.dumps(card_now))

    assert run_and_load(staicc, "again.json", "--config", "again.toml") == result


def test_rows_with_several_labels_are_repeated_without_their_separator(
    staicc: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("replier.py").write_text("def reply(prompt, label_space):\n    return label_space[len(prompt) % 25]\n")
    monkeypatch.syspath_prepend(".")
    rows = [f"message {number},kind {number % 25:02};kind {(number + 1) % 25:02}" for number in range(500)]
    Path("several.csv").write_text("\n".join(["text,label", *rows]) + "\n")
    run = ["long-icl", "--data", "several.csv", "--label-separator", ";", "--rounds", "1", "--limit", "2"]
    result = run_and_load(staicc, "first.json", *run, "--model", "replier:reply")
    Path("again.toml").write_text(staicc("show", "run", "first.json").stdout.replace("FILL-IN", "replier:reply"))

    assert run_and_load(staicc, "again.json", "--config", "again.toml") == result


def test_a_result_is_no_card_of_a_file_with_other_bytes(staicc: Cli) -> None:
    write_own_data()
    run_and_load(staicc, "first.json", *OWN)
    with open("own.csv", "a") as data:
        data.write("new text,good,40\n")

    status, _, stderr = staicc("run", "normal", "--data", "own.csv", "--card", "first.json")

    assert status == 2
    assert "a result describes its own file of data, and own.csv is another one" in stderr


def test_a_result_as_card_leaves_no_column_to_name(staicc: Cli) -> None:
    write_own_data()
    run_and_load(staicc, "first.json", *OWN)

    status, _, stderr = staicc("run", "normal", "--data", "own.csv", "--card", "first.json", "--text", "review")

    assert status == 2
    assert "--text: the result first.json says how to read the file. Leave the option out" in stderr


def test_a_result_over_other_data_is_no_card(staicc: Cli) -> None:
    write_own_data()
    run_and_load(staicc, "mini.json", "normal", "--datasets", "mini", "--limit", "2")

    status, _, stderr = staicc("run", "normal", "--data", "own.csv", "--card", "mini.json")

    assert status == 2
    assert "the result has 0 files of own data, expected one" in stderr


def test_a_method_that_changes_demonstrations_has_a_remark(staicc: Cli) -> None:
    method = Method("topk", load_kernel("ppm"), encoder="bm25")
    remarks = remarks_of(staicc, method.run(StaICC.Normal(datasets=["mini"], limit=2)))

    assert "If you changed them by hand as well, that is not here" in remarks


def test_metrics_of_the_user_have_a_remark(staicc: Cli) -> None:
    metrics = {"first_label_rate": lambda truth, rows: 0.5}
    result = StaICC.Normal(datasets=["mini"], limit=2, metrics=metrics)(load_kernel("ppm"))

    assert "Fill in the metrics of your own as package.module:name: first_label_rate" in remarks_of(staicc, result)


def test_a_model_that_may_be_a_file_has_a_remark(staicc: Cli) -> None:
    result = StaICC.Normal(datasets=["mini"], limit=2)(load_kernel("ppm"))
    names = {"llama:m.gguf": "LlamaKernel 3", "hf:folder": "CausalLMKernel 3", "vllm:m": "VLLMKernel"}

    for name, kernel in names.items():
        predictor = dataclasses.replace(result.provenance.predictors[0], name=name, who={"kernel": kernel})
        result.provenance = dataclasses.replace(result.provenance, predictors=(predictor,))
        assert f"If the model {name} is a folder or file, write its path" in remarks_of(staicc, result)


def test_each_kind_of_models_is_known_by_what_its_kernels_record() -> None:
    """A new kind needs an entry, without which its results have FILL-IN as their model."""
    assert set(_RECORDED_KERNELS) == set(KERNELS)
    assert set(_KINDS_WITH_FILES) <= set(KERNELS)

    names_without_weights = {"ppm": "ppm", "openai": "openai:http://localhost:9/v1#m", "litellm": "litellm:a/b"}
    for kind, word in _RECORDED_KERNELS.items():
        if kind not in names_without_weights:
            factory: Any = KERNELS[kind]  # the function from_spec of the class of kernels
            assert word == factory.__self__.__name__
            continue
        who = identity_of(load_kernel(names_without_weights[kind])).who
        assert word in (who.get("model"), who.get("kernel", "").partition(" ")[0])


@pytest.mark.parametrize(
    ("method", "option", "value"),
    [
        ("batch_calibration", "batch_size", 202401310930),
        ("dc_pmi", "premise", "abcdefabcdef"),
        ("topk", "encoder", "bm25"),
    ],
)
def test_an_option_of_a_method_that_looks_like_a_digest_is_repeated(
    staicc: Cli, method: str, option: str, value: Any
) -> None:
    options = ["--method", method, "--method-option", f"{option}={value}"]
    result = run_and_load(staicc, "a.json", "normal", "--datasets", "mini", "--limit", "2", *options)

    shown = staicc("show", "run", "a.json").stdout

    assert tomllib.loads(shown)["method_option"] == {option: value}

    Path("run.toml").write_text(shown, "utf-8")
    assert run_and_load(staicc, "b.json", "--config", "run.toml").signature == result.signature


def first_letters(texts: list[str]) -> list[list[float]]:
    """Return a vector for each text."""
    return [[float(ord(text[0])), 1.0] for text in texts]


def test_an_option_of_which_there_is_a_digest_is_to_be_filled_in(staicc: Cli) -> None:
    without_source = eval("lambda texts: [[float(len(text)), 1.0] for text in texts]")

    for encoder in (first_letters, without_source):
        method = Method("topk", load_kernel("ppm"), encoder=encoder)
        method.run(StaICC.Normal(datasets=["mini"], limit=2)).save("python.json")
        shown = staicc("show", "run", "python.json").stdout
        assert tomllib.loads(shown)["method_option"] == {"encoder": "FILL-IN"}
        assert "# Fill in the option encoder of the method: results have its digest only" in shown


@dataclasses.dataclass(frozen=True)
class NumberOptions:
    """The options of a method of the user's own, with the names of other settings in the signature."""

    n: int = 3
    k: int = 5


def test_a_method_of_the_user_is_to_be_filled_in_with_its_options(staicc: Cli) -> None:
    """The method of the user may have the name of one of StaICC, which a run file must not name."""
    spec = MethodSpec("vanilla", "My method", METHODS["vanilla"].steps, options=NumberOptions)
    method = Method(spec, load_kernel("ppm"), n=8)
    method.run(StaICC.Normal(datasets=["mini"], limit=2)).save("python.json")
    shown = staicc("show", "run", "python.json").stdout
    values = tomllib.loads(shown)

    assert values["method"] == "FILL-IN"
    assert "# Fill in the method as package.module:name: vanilla" in shown
    assert values["method_option"] == {"n": 8, "k": 5}
    assert "calibration_number" not in values


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("name", "topk"),
        ("variant", "staicc"),
        ("calibration_number", 8),
        ("options", {"batch_size": 9}),
        ("options", {"batches": None}),
    ],
)
def test_settings_of_a_method_that_contradict_its_text_are_refused(staicc: Cli, field: str, value: Any) -> None:
    options = ["--method", "batch-calibration", "--method-option", "batch_size=4"]
    document = run_and_load(staicc, "a.json", "normal", "--datasets", "mini", "--limit", "2", *options).to_dict()

    assert StaICC.Result.from_dict(document).to_dict() == document

    document["provenance"]["method_settings"][field] = value
    with pytest.raises(SchemaError, match="method_settings has"):
        StaICC.Result.from_dict(document)


class _OwnPPM(PPMKernel):
    """A model of the user's own that is derived from a built-in one."""

    def __repr__(self) -> str:
        return "a model of the user's own"


@pytest.mark.parametrize("name", ["ppm", "hf:gpt2", "smollm2", "openai:http://localhost/v1#m", "litellm:a/b"])
@pytest.mark.parametrize("function", [length, _OwnPPM()], ids=["function", "subclass"])
def test_a_function_with_the_name_of_a_model_is_to_be_filled_in(staicc: Cli, function: Any, name: str) -> None:
    StaICC.Normal(datasets=["mini"], limit=2)(function, model_name=name).save("python.json")
    status, shown, _ = staicc("show", "run", "python.json")

    assert status == 0
    assert 'model = "FILL-IN"' in shown


def test_the_environment_has_openai_only_if_a_server_predicted(staicc: Cli) -> None:
    result = run_and_load(staicc, "a.json", "normal", "--datasets", "mini", "--limit", "2", "--order", "4")

    assert "openai" not in result.environment

    pytest.importorskip("openai")
    server = dataclasses.replace(result.provenance.predictors[0], who={"kernel": "endpoint 4"})

    assert "openai" in describe_environment([server])


def test_the_name_of_another_model_does_not_replace_the_model(staicc: Cli) -> None:
    named = ["--model", "ppm", "--model-name", "hf:gpt2"]
    result = run_and_load(staicc, "a.json", "normal", "--datasets", "mini", "--limit", "2", *named)

    Path("run.toml").write_text(staicc("show", "run", "a.json").stdout, "utf-8")

    assert run_and_load(staicc, "b.json", "--config", "run.toml").queries() == result.queries()


def refusal_of(staicc: Cli, name: str) -> str:
    """Return why there is no run file of a saved file."""
    status, stdout, stderr = staicc("show", "run", name)
    assert (status, stdout) == (2, "")
    return stderr


def test_a_result_of_changed_demonstrations_has_no_run_file(staicc: Cli) -> None:
    benchmark = StaICC.Normal(datasets=["mini"], limit=2)
    for experimentor in benchmark:
        experimentor.set_in_domain_mode()

    benchmark(length).save("changed.json")

    assert "demonstrations (in-domain). Run has no option for it" in refusal_of(staicc, "changed.json")


def test_a_race_has_no_run_file(staicc: Cli) -> None:
    race = "race --model ppm --model ppm;order=3 --datasets mini --margin 0.3 --quiet --json race.json"

    assert staicc(*race.split()).status == 0
    assert "python -m StaICC race" in refusal_of(staicc, "race.json")


def test_a_result_of_given_predictions_and_their_prompts_have_no_run_file(staicc: Cli) -> None:
    prompts = "prompts normal --datasets mini --limit 2 -o prompts.jsonl"

    assert staicc(*prompts.split()).status == 0

    lines = Path("prompts.jsonl").read_text("utf-8").splitlines()
    predictions = [json.dumps({"id": json.loads(line)["id"], "index": 0}) for line in lines]
    Path("predictions.jsonl").write_text("\n".join(predictions), "utf-8")
    score = "score normal predictions.jsonl --datasets mini --limit 2 --json given.json"

    assert staicc(*score.split()).status == 0
    assert "the predictions were given" in refusal_of(staicc, "given.json")
    assert "prompts.jsonl" in refusal_of(staicc, "prompts.jsonl")


SERVER = "openai:http://localhost:9/v1#my-model"


@pytest.fixture
def run_file_of_a_server(staicc: Cli, monkeypatch: pytest.MonkeyPatch) -> str:
    """The run file of a result of a server with a temperature of 0.5, whose key is in the environment.

    No server is asked: the result is that of another model, with the record of a kernel of the server.
    """
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    identity = identity_of(load_kernel(SERVER, scoring="text", temperature=0.5))
    result = StaICC.Normal(datasets=["mini"], limit=2)(load_kernel("ppm"))
    with_recorded_model("openai:my-model", identity.who, identity.settings, result).save("served.json")
    return staicc("show", "run", "served.json").stdout


def test_a_run_file_has_no_key_of_a_server(run_file_of_a_server: str) -> None:
    assert SERVER in run_file_of_a_server
    assert "sk-secret" not in run_file_of_a_server


def test_a_run_file_has_the_address_and_the_options_of_a_server(run_file_of_a_server: str) -> None:
    values = tomllib.loads(run_file_of_a_server)

    assert values["model"] == SERVER

    options = ";".join(f"{name}={value}" for name, value in values["model_option"].items())
    repeated = load_kernel(f"{SERVER};{options}")

    assert identity_of(repeated) == identity_of(load_kernel(SERVER, scoring="text", temperature=0.5))


def test_show_run_needs_a_result(staicc: Cli) -> None:
    assert "Name it, such as" in staicc("show", "run").stderr


def test_the_other_lists_of_show_take_no_result(staicc: Cli) -> None:
    assert "got r.json as well" in staicc("show", "methods", "r.json").stderr


def test_show_run_prints_the_values_as_json(staicc: Cli) -> None:
    StaICC.Normal(datasets=["mini"], limit=2)(length).save("r.json")
    _, stdout, _ = staicc("show", "run", "r.json", "--json")

    assert json.loads(stdout)["limit"] == 2


@given(text=st.text(), number=st.floats(allow_nan=False, allow_infinity=False), whole=st.integers(-(10**30), 10**30))
def test_written_toml_is_read_as_the_same_values(text: str, number: float, whole: int) -> None:
    values: dict[str, Any] = {"a": text, "b": [text, text], "c": number, "d": whole, "e": True, "t": {text: text}}

    assert tomllib.loads(toml_text(values, [text])) == values


# The page.

PAGE = (Path(__file__).parents[2] / "docs" / "run_files.md").read_text("utf-8")


def blocks_of_page(language: str) -> list[str]:
    """Return the code blocks of the page in a language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def run_files_of_page() -> dict[str, str]:
    """Return the run files of the page by their names, with which they begin: ``# run.toml``."""
    names_and_files = {}
    for block in blocks_of_page("toml"):
        name = re.match(r"# (\S+\.toml)\n", block)
        if name is not None:
            names_and_files[name[1]] = block
    return names_and_files


def test_excerpts_of_run_files_on_the_page_have_keys_of_run_files() -> None:
    """Of a run file that the page does not show as a whole, it shows lines without a name."""
    keys = run_file_keys(_parser("run").command("run"))

    excerpts = [block for block in blocks_of_page("toml") if block not in run_files_of_page().values()]

    assert len(excerpts) == 1
    for excerpt in excerpts:
        assert set(tomllib.loads(excerpt)) <= set(keys), excerpt


def test_the_sessions_of_the_page_are_as_shown(staicc: Cli) -> None:
    """A session whose output goes to a file shows the errors."""
    for name, content in run_files_of_page().items():
        Path(name).write_text(content, "utf-8")

    for session in blocks_of_page("text"):
        line, _, shown = session.partition("\n")
        command, to_file, _ = line.removeprefix("$ python -m StaICC ").partition(" > ")
        _, stdout, stderr = staicc(*command.split())
        printed = stderr if to_file else stdout + stderr
        assert printed == shown, command


def test_the_command_that_the_page_calls_equal_is(staicc: Cli) -> None:
    (command,) = blocks_of_page("console")
    first_run_file, *_ = run_files_of_page().values()
    Path("run.toml").write_text(first_run_file, "utf-8")

    of_file = run_and_load(staicc, "file.json", "--config", "run.toml")
    words = command.removeprefix("python -m StaICC run ").split()
    of_command = run_and_load(staicc, "words.json", *words)

    assert of_file == of_command


def test_the_names_of_results_on_the_page_are_those_of_its_sweep(staicc: Cli) -> None:
    Path("sweep.toml").write_text(run_files_of_page()["sweep.toml"], "utf-8")

    assert staicc("run", "--config", "sweep.toml", "--json", "sweep.json", "--quiet").status == 0

    names_on_page = set(re.findall(r"`(sweep_\S+\.json)`", PAGE))
    assert {path.name for path in Path().glob("*.json")} == names_on_page


def test_the_keys_of_the_page_exist() -> None:
    keys = run_file_keys(_parser("run").command("run"))
    shown = re.findall(r"`(\w+) = [^`]+`", PAGE)

    assert len(shown) > 15
    assert set(shown) <= {*keys, "dtype", "knn_k", "key"}


def with_recorded_model(name: str, who: Mapping[str, str], how: Mapping[str, str], result: Any) -> Any:
    """Return a result as if a model had predicted it whose kernel records this about itself."""
    predictor = dataclasses.replace(result.provenance.predictors[0], name=name, who=who, how=how)
    result.provenance = dataclasses.replace(result.provenance, predictors=(predictor,))
    return result


def test_an_adapter_is_to_be_filled_in(staicc: Cli) -> None:
    """A result records a digest of the adapter's files, and not where the files are."""
    result = StaICC.Normal(datasets=["mini"], limit=2)(load_kernel("ppm"))
    who = {"kernel": "CausalLMKernel", "adapter": "0c" * 32, "dtype": "bfloat16"}
    with_recorded_model("hf:gpt2", who, {}, result).save("r.json")

    shown = staicc("show", "run", "r.json").stdout

    assert tomllib.loads(shown)["model_option"] == {"dtype": "bfloat16", "adapter": "FILL-IN"}
    assert "# Fill in the option adapter of the model: results have the digest of its files only" in shown

    Path("run.toml").write_text(shown, "utf-8")
    assert "which is to be filled in" in staicc("run", "--config", "run.toml").stderr


def test_only_adapters_are_recorded_as_digests() -> None:
    """A new option whose record is no text of its value must declare it."""
    declared = {fact.name for facts in options_by_kind().values() for fact in facts if fact.recorded_as_digest}

    assert declared == {"adapter"}


@pytest.mark.parametrize("system", ["Be brief.", '"quoted"', "two\nlines", "'a'", "1"])
@pytest.mark.parametrize(
    ("model", "options"),
    [
        ("openai:http://localhost:9/v1#m", {"scoring": "text", "api": "chat", "reasoning_effort": "low"}),
        ("litellm:a/b", {"reasoning_effort": "low", "temperature": 0.5}),
    ],
)
def test_texts_of_servers_are_repeated_as_they_were_given(
    staicc: Cli, model: str, options: dict[str, Any], system: str
) -> None:
    given = {**options, "system": system}
    identity = identity_of(load_kernel(model, **given))
    result = StaICC.Normal(datasets=["mini"], limit=2)(load_kernel("ppm"))
    with_recorded_model(model, identity.who, identity.settings, result).save("r.json")

    assert tomllib.loads(staicc("show", "run", "r.json").stdout)["model_option"] == given


@pytest.mark.parametrize("system", ["Be brief.", '"quoted"', "two\nlines", "'a'", "1"])
def test_texts_of_a_llama_model_are_repeated_as_they_were_given(staicc: Cli, system: str) -> None:
    """The record of the model is written here, since there is no such model to load."""
    given: dict[str, Any] = {"prompt_format": "chat", "system": system}
    who = {"kernel": "LlamaKernel", "engine arguments": "{}"}
    result = StaICC.Normal(datasets=["mini"], limit=2)(load_kernel("ppm"))
    with_recorded_model("llama:m", who, KernelOptions(**given).settings(), result).save("r.json")

    assert tomllib.loads(staicc("show", "run", "r.json").stdout)["model_option"] == given


@pytest.mark.parametrize(
    ("model", "options"),
    [
        ("openai:http://localhost:9/v1#m", {"scoring": "text", "temperature": None}),
        ("openai:http://localhost:9/v1#m", {"scoring": "text", "max_tokens": None}),
        ("openai:http://localhost:9/v1#m", {"scoring": "text", "max_completion_tokens": 50}),
        ("openai:http://localhost:9/v1#m", {"temperature": None}),
        ("openai:http://localhost:9/v1#m", {}),
        ("litellm:a/b", {"temperature": None, "max_tokens": None}),
        ("litellm:a/b", {}),
    ],
)
def test_a_setting_that_requests_leave_out_is_repeated(staicc: Cli, model: str, options: dict[str, Any]) -> None:
    """``None`` is not recorded; without it, a repeated run would send the default."""
    identity = identity_of(load_kernel(model, **options))
    result = StaICC.Normal(datasets=["mini"], limit=2)(load_kernel("ppm"))
    with_recorded_model(model, identity.who, identity.settings, result).save("r.json")
    shown = tomllib.loads(staicc("show", "run", "r.json").stdout)
    shown_options = ";".join(f"{name}={value}" for name, value in shown.get("model_option", {}).items())

    assert identity_of(load_kernel(f"{shown['model']};{shown_options}" if shown_options else model)) == identity


def test_arguments_of_an_engine_are_options_of_the_model(staicc: Cli) -> None:
    arguments = {"rope_freq_base": 10.5, "offload_kqv": False, "kv_overrides": {"a": 1}}
    who = {"kernel": "LlamaKernel", "engine arguments": json.dumps(arguments)}
    result = StaICC.Normal(datasets=["mini"], limit=2)(load_kernel("ppm"))
    with_recorded_model("llama:m", who, {}, result).save("r.json")
    shown = staicc("show", "run", "r.json").stdout
    expected = {"rope_freq_base": 10.5, "offload_kqv": False, "kv_overrides": "FILL-IN"}

    assert tomllib.loads(shown)["model_option"] == expected
    assert "# Fill in the option kv_overrides of the model" in shown
