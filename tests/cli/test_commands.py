"""Commands: help, names, exit statuses, completion, streams; baseline, cite, run and store."""

from __future__ import annotations

import errno
import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

import StaICC
from StaICC.cli import _COMMANDS, _parser, main
from StaICC.datasets.catalogue import cite, names
from StaICC.inference.store import PredictionStore, query_key
from StaICC.results.result import load
from tests.cli.conftest import Cli

MINI = ["run", "normal", "--datasets", "mini", "--limit", "2"]


@pytest.mark.parametrize("command", _COMMANDS)
def test_the_help_of_a_command_has_its_usage_and_an_example(command: str, staicc: Cli) -> None:
    status, shown, _ = staicc(command, "--help")

    assert status == 0
    assert shown.startswith(f"usage: python -m StaICC {command}")

    examples = shown.partition("examples:")[2]
    assert f"python -m StaICC {command}" in examples


@pytest.mark.parametrize("command", [command for command in _COMMANDS if command != "published"])
def test_a_command_that_takes_a_model_takes_its_options(command: str, staicc: Cli) -> None:
    _, shown, _ = staicc(command, "--help")

    if "--model MODEL" in shown:
        assert "--model-option" in shown


def test_a_model_of_published_figures_has_no_options(staicc: Cli) -> None:
    """The model is the name of a row of the published tables, and nothing is loaded."""
    _, shown, _ = staicc("published", "--help")

    assert "--model MODEL" in shown
    assert "--model-option" not in shown


def test_the_help_of_the_program_lists_all_commands(staicc: Cli) -> None:
    status, shown, _ = staicc("--help")

    assert status == 0
    assert shown.startswith("usage: python -m StaICC")
    for command in _COMMANDS:
        assert re.search(rf"^ +{command}\b", shown, re.MULTILINE), f"{command} is not listed"


@pytest.mark.parametrize("name", ["prompts", "score"])
def test_help_names_every_kind_of_a_prediction(name: str, staicc: Cli) -> None:
    _, shown, _ = staicc(name, "--help")

    assert "probabilities, logits, index, label, or reply" in " ".join(shown.split())


def test_a_full_disk_is_one_line_that_names_the_file(staicc: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    def write_to_a_full_disk(*given: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "p.jsonl")

    monkeypatch.setattr("StaICC.cli.output.write_output", write_to_a_full_disk)
    status, _, err = staicc("prompts", *MINI[1:], "-o", "p.jsonl")
    assert (status, err) == (2, f"staicc: p.jsonl: {os.strerror(errno.ENOSPC)}\n")


def test_an_operating_system_error_without_a_file_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    """Such an error is a fault of StaICC, whose traceback must be seen."""

    def write_with_a_fault(*given: object) -> None:
        raise OSError(errno.EBADF, os.strerror(errno.EBADF))

    monkeypatch.setattr("StaICC.cli.output.write_output", write_with_a_fault)
    with pytest.raises(OSError, match=os.strerror(errno.EBADF)):
        main(["prompts", *MINI[1:], "-o", "p.jsonl"])


MODEL_THAT_RENDERS = """\
class Model:
    def __call__(self, prompt, label_space):
        return label_space[0]

    def rendered(self, prompts, label_space=()):
        return [f"{', '.join(label_space)}: {prompt}" for prompt in prompts]

model = Model()
"""
"""A model that writes the labels before each prompt."""


@pytest.fixture
def prompts_of_a_model_that_renders(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The command that writes prompts as this model renders them."""
    Path("shown_model.py").write_text(MODEL_THAT_RENDERS, "utf-8")
    monkeypatch.syspath_prepend(Path.cwd())
    return ["prompts", *MINI[1:], "--model", "shown_model:model"]


def test_prompts_are_rendered_with_their_labels(staicc: Cli, prompts_of_a_model_that_renders: list[str]) -> None:
    """Any kernel may write labels into prompts, or leave room for them."""
    status, shown, _ = staicc(*prompts_of_a_model_that_renders)

    assert status == 0
    for line in shown.splitlines():
        record = json.loads(line)
        assert record["rendered"] == f"{', '.join(record['label_space'])}: {record['prompt']}"


def test_prompts_of_the_noisy_channel_are_rendered_without_labels(
    staicc: Cli, prompts_of_a_model_that_renders: list[str]
) -> None:
    """There is a prompt for each label, so the label is in the prompt already."""
    status, shown, _ = staicc(*prompts_of_a_model_that_renders, "--noisy-channel")

    assert status == 0
    for line in shown.splitlines():
        record = json.loads(line)
        assert record["rendered"] == [f": {prompt}" for prompt in record["prompt"]]


# -- as a program


def test_the_program_runs_the_mini_data_set_without_installed_data(program: Any, tmp_path: Path) -> None:
    empty_home = {"STAICC_HOME": str(tmp_path), "STAICC_OFFLINE": "1"}
    done = program(*MINI, "--no-save", env=empty_home)

    assert done.returncode == 0
    assert done.stdout.startswith("Normal\n")

    (warning,) = done.stderr.splitlines()
    assert warning.startswith("mini: 2 labels have no test row"), "with the limit of this run"
    assert list(tmp_path.iterdir()) == []


def test_the_program_says_how_to_install_data_that_is_missing(program: Any, tmp_path: Path) -> None:
    empty_home = {"STAICC_HOME": str(tmp_path), "STAICC_OFFLINE": "1"}
    done = program("run", "normal", "--datasets", "TREC", env=empty_home)

    assert (done.returncode, done.stdout) == (3, "")
    assert "python -m StaICC data install" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_console_script_finds_modules_in_the_current_folder(program: Any, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "staicc").write_text("import sys\nfrom StaICC.cli import script\nsys.exit(script())\n")
    (tmp_path / "mine.py").write_text("def my_inference(prompt, label_space):\n    return 0\n")

    done = program(*MINI, "--model=mine:my_inference", start=("bin/staicc",), cwd=tmp_path)

    assert done.returncode == 0, done.stderr
    assert "my_inference" in done.stdout


# -- ``baseline``: the table, the JSON, and what is refused


def test_the_baseline_is_a_table_with_a_line_for_each_number_of_settings(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["baseline", "--n", "100", "--labels", "2", "--t", "1", "10", "--accuracy", "0.6"]) == 0

    out, err = capsys.readouterr()
    assert err == ""

    header, _, *rows = (line.split() for line in out.splitlines())
    assert header == ["t", "baseline", "p", "<=", "0.05", "from", "p-value", "of", "60/100"]
    assert rows == [["1", "0.50000", "0.59000", "0.0284"], ["10", "0.57678", "0.64000", "0.2507"]]


def test_a_p_value_below_floating_point_is_printed_with_its_exponent(capsys: pytest.CaptureFixture[str]) -> None:
    """The smallest float is about 1e-308."""
    assert main(["baseline", "--n", "1200000", "--labels", "77", "--t", "10", "--accuracy", "1"]) == 0

    first_row = capsys.readouterr().out.splitlines()[2]
    assert first_row.split()[-1] == "1.35e-2263788"


@pytest.mark.parametrize(
    ("labels", "accuracy", "message"),
    [
        ("2", "0.333", "0.333 is no share of n = 100"),
        ("2", "60", "between 0 and 1, not '60'"),
        ("2:50,5:40", "0.5", "90 examples, but n is 100"),
    ],
)
def test_an_accuracy_that_is_no_share_of_n_is_refused(
    labels: str, accuracy: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["baseline", "--n", "100", "--labels", labels, "--accuracy", accuracy]) == 2
    assert message in capsys.readouterr().err


# -- ``published`` and ``plan``: every number in its place


def printed(*words: str) -> Any:
    """Return what a command prints: its text in blocks, and its JSON as a document."""
    args = _parser(words[0]).parse_args(words)
    return args.run(args)


def published_cell(figure: dict[str, Any], mark_of: dict[str, str]) -> str:
    """Return the cell of a published figure: its value, or "-" without one, with the marks of its warnings."""
    if figure["absent"]:
        return "-" + mark_of[figure["absent"]]
    marks = [mark_of[warning] for warning in figure["warnings"]]
    return f"{figure['value']:.4f}" + "".join(marks)


def row_with(rows: list[dict[str, str]], names: dict[str, str]) -> dict[str, str]:
    """Return the one row of a table that has these names in these columns."""
    (row,) = [row for row in rows if names.items() <= row.items()]
    return row


@pytest.mark.parametrize(
    "words", ["", "--model Pythia --metric macro_F1", "--method TopK", "--benchmark diagnosis", "--dataset banking77"]
)
def test_a_table_of_published_figures_has_each_with_its_warnings(words: str) -> None:
    """The first table has the first benchmark of the document. Below it, each line begins with a mark, as "[1]"."""
    output = printed("published", *words.split())
    table, *lines_below = output.blocks
    rows = [dict(zip(table.head, row, strict=True)) for row in table.rows]
    mark_of = {}
    for line in lines_below:
        mark, _, text = line.text.partition(" ")
        mark_of[text] = mark

    first_benchmark = output.document[0]["benchmark"]
    figures = [figure for figure in output.document if figure["benchmark"] == first_benchmark]
    if not words:  # without a choice, the table has the accuracy only
        figures = [figure for figure in figures if figure["metric"] == "accuracy"]
    name_columns = [name for name in ("model", "method", "dataset", "metric") if name in table.head]
    for figure in figures:
        row = row_with(rows, {name: figure[name] or "" for name in name_columns})
        column = figure["method"] if figure["method"] in table.head else figure["metric"]
        assert row.pop(column) == published_cell(figure, mark_of), figure
        if figure["value"] is not None:
            assert mark_of[figure["source"]] == "source:", figure

    for row in rows:
        cells_of_no_figure = {name: cell for name, cell in row.items() if name not in name_columns and cell}
        assert cells_of_no_figure == {}, "each figure was taken out of its row"


PLANS = pytest.mark.parametrize("aim", [("--half-width", "0.05"), ("--difference", "0.1")], ids=" ".join)
TOKENS_AND_PRICES = ("--max-datasets", "10", "--tokens", "10", "2", "--prices", "1", "30")
COST_OF_QUERY = (10 * 1 + 2 * 30) / 1e6
"""Of 10 tokens of input and 2 of output; the prices are those of a million tokens."""


@PLANS
def test_a_plan_counts_the_queries_the_tokens_and_the_cost_of_each_design(aim: tuple[str, str]) -> None:
    plan = printed("plan", *aim, *TOKENS_AND_PRICES)

    for design in plan.document["designs"]:
        queries = design["datasets"] * design["rows"] * design["draws"] * design["templates"]
        assert design["queries"] == queries
        assert design["tokens"] == 10 * queries
        assert design["output_tokens"] == 2 * queries
        assert design["cost"] == pytest.approx(COST_OF_QUERY * queries)


@PLANS
def test_a_plan_is_shown_with_a_row_for_each_design(aim: tuple[str, str]) -> None:
    """Only a plan for a difference has the power of its test."""
    plan = printed("plan", *aim, *TOKENS_AND_PRICES)
    table, _, _ = plan.blocks

    for row, design in zip(table.rows, plan.document["designs"], strict=True):
        queries = design["queries"]
        tokens = (10 + 2) * queries
        sizes = [str(design[size]) for size in ("datasets", "rows", "draws", "templates")]
        power = [f"{design['power']:.2f}"] if "--difference" in aim else []
        cost = f"{COST_OF_QUERY * queries:.2f}"
        assert row == [*sizes, f"{queries:,}", f"{tokens:,}", f"{design['half_width']:.3f}", *power, cost]


def test_a_plan_ends_with_the_command_of_its_best_design() -> None:
    plan = printed("plan", "--half-width", "0.05", "--max-datasets", "10")
    best = plan.document["designs"][0]
    command = plan.blocks[-1]
    options = f"--limit {best['rows']} --draws {best['draws']} --templates {best['templates']}"

    assert command.text == f"for {best['datasets']} data sets: python -m StaICC run generalisation {options}"


# -- ``cite``


def entries(text: str) -> list[str]:
    """Return the keys of the BibTeX entries of a text."""
    return re.findall(r"^@\w+\{([^,]+),", text, re.MULTILINE)


def test_cite_has_the_benchmark_first_and_the_ten_data_sets_once(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cite"]) == 0

    cited = entries(capsys.readouterr().out)
    assert cited[0] == "cho2025staicc"
    assert len(set(cited)) == len(cited), "BibTeX refuses a duplicate key"
    for name in names():
        assert set(entries(cite(name))) <= set(cited), name


def test_cite_has_the_methods_on_request(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cite", "--methods"]) == 0
    assert {"min2022noisy", "cho2024token"} < set(entries(capsys.readouterr().out))


def test_everything_that_can_be_run_can_be_cited(capsys: pytest.CaptureFixture[str]) -> None:
    """Every name that ``run`` takes for a benchmark, a data set or a method, and those that results carry."""
    from StaICC.benchmarks.builtin import BENCHMARKS
    from StaICC.long_icl.cards import cards
    from StaICC.methods.catalogue import METHODS

    carried = ["Normal", "Contextual_bias", "Domain_bias", "Post_bias", "GLER", "Template_sens", "Demo_sens", "LongICL"]
    for name in (*names(), "mini", *cards(), *METHODS, *BENCHMARKS, *carried):
        assert main(["cite", name]) == 0
        text = capsys.readouterr().out
        assert entries(text)[0] == "cho2025staicc"
        assert text.count("{") == text.count("}"), name


def test_a_file_with_the_name_of_a_data_set_does_not_hide_it(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("TREC").write_text("a file of the user", "utf-8")

    assert main(["cite", "TREC"]) == 0
    assert set(entries(cite("TREC"))) <= set(entries(capsys.readouterr().out))


# -- ``run``: every benchmark, saved, shown, and what it refuses


SMALL = ["--datasets", "mini", "--limit", "2"]


def test_a_run_of_the_command_line_is_the_run_of_python(staicc: Cli) -> None:
    settings = ["--k", "2", "--noisy-channel", "--metrics", "0.1.1"]
    status, out, _ = staicc("run", "normal", *SMALL, *settings, "--json", "r.json")
    benchmark = StaICC.Normal(k=2, noisy_channel=True, metrics="0.1.1", datasets=["mini"], limit=2)
    expected = benchmark(StaICC.load_kernel("ppm"))
    expected.provenance = expected.provenance.named("ppm")  # Python has a kernel, the command line a name

    assert status == 0
    assert load("r.json") == expected
    assert str(expected.signature) in out


def test_records_have_each_row_of_each_repetition(staicc: Cli) -> None:
    assert staicc("run", "normal", *SMALL, "--records", "r.jsonl").status == 0

    records = [json.loads(line) for line in Path("r.jsonl").read_text("utf-8").splitlines()]
    assert [(record["row"], record["repeat"]) for record in records] == [(0, 0), (1, 0), (0, 1), (1, 1)]


def printed_result(staicc: Cli, *options: str) -> Any:
    """Return the result that a run prints as JSON."""
    _, out, _ = staicc("run", "normal", *SMALL, *options, "--json")
    return StaICC.Result.from_dict(json.loads(out))


def test_the_kind_of_outputs_and_the_tried_settings_are_in_the_result(staicc: Cli) -> None:
    result = printed_result(staicc, "--outputs", "logits", "--tried", "9")

    assert result.signature.fields["outputs"] == "logits"
    assert result.details["mini"].baselines["normal"].tried == 9


def test_the_variant_and_the_calibration_set_of_a_method_are_in_the_result(staicc: Cli) -> None:
    method = ["--method", "contextual-calibration", "--method-variant", "staicc", "--calibration-number", "8"]

    assert "staicc n=8" in printed_result(staicc, *method).signature.fields["method"]


@pytest.mark.parametrize("model_name", ["a", "b"])
def test_a_repeated_run_with_a_store_prints_the_same(model_name: str, staicc: Cli) -> None:
    command = ["run", "normal", *SMALL, "--store", "s", "--model-name", model_name, "--json", "r.json", "--overwrite"]
    first_status, first_out, _ = staicc(*command)

    again_status, again_out, _ = staicc(*command)

    assert (again_status, again_out) == (first_status, first_out)

    saved: Any = load("r.json")
    assert saved.provenance.predictors[0].name == model_name


def test_a_store_keeps_predictions_by_the_name_of_the_model(staicc: Cli) -> None:
    for model_name in ("a", "b"):
        staicc("run", "normal", *SMALL, "--store", "s", "--model-name", model_name)
    with PredictionStore("s") as store:
        predictions_of = {fingerprint.split()[-1]: count for fingerprint, count in store.info().models.items()}
    queries = 4  # two rows, each with two draws of demonstrations

    assert predictions_of == {"name:a": queries, "name:b": queries}


@pytest.fixture
def fails_at_first_query(monkeypatch: pytest.MonkeyPatch) -> None:
    """The command line loads a model that has no prediction for the first of four prompts."""
    first_prompt = StaICC.Normal(datasets=["mini"])[0].prompt_set()[0]

    def model(prompt: str, label_space: list[str]) -> list[float] | None:
        if prompt == first_prompt:
            return None
        return [0.1 * len(prompt), 3.0, 2.0]

    monkeypatch.setattr("StaICC.cli.model_options.load_kernel", lambda spec: model)


@pytest.mark.usefixtures("fails_at_first_query")
def test_a_partial_run_is_saved_with_status_1(staicc: Cli) -> None:
    status, out, _ = staicc("run", "normal", *SMALL, "--on-error", "collect", "--json", "r.json")

    assert status == 1
    assert "PARTIAL: 1 of 4" in out
    assert not load("r.json").complete


@pytest.mark.usefixtures("fails_at_first_query")
def test_a_failed_query_ends_a_run_with_status_2(staicc: Cli) -> None:
    status, out, err = staicc("run", "normal", *SMALL)

    assert (status, out) == (2, "")
    assert err.startswith("staicc: Normal, mini, query 0: ")


# -- ``store``: data on stdout, exit status, JSON


KEYS = [query_key(f"prompt {number}", ["a", "b"]) for number in range(50)]
"""The keys of the predictions in the store of these tests: model A has all of them, model B the first."""


def store_command(*words: object) -> int:
    """Run a command on stores, and return its exit status."""
    return main(["store", *map(str, words)])


@pytest.fixture
def store_path(tmp_path: Path) -> Path:
    """A store with 50 predictions of model A and one of model B."""
    with PredictionStore(tmp_path / "run.sqlite") as store:
        store.put_many("model A", [(key, [0.25, 0.75]) for key in KEYS])
        store.put_many("model B", [(KEYS[0], 1)])
    return tmp_path / "run.sqlite"


def test_store_info_counts_the_predictions_of_each_model(store_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert store_command("info", store_path) == 0

    out = capsys.readouterr().out
    assert "51 answers" in out
    assert "        50  model A\n         1  model B\n" in out


def test_store_info_has_the_same_counts_as_json(store_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert store_command("info", store_path, "--json") == 0

    info = json.loads(capsys.readouterr().out)
    assert info["answers"] == 51
    assert info["models"] == {"model A": 50, "model B": 1}


def test_store_export_prints_a_line_for_each_prediction(store_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert store_command("export", store_path) == 0

    printed = capsys.readouterr()
    lines = [json.loads(line) for line in printed.out.splitlines()]

    assert len(lines) == 51
    assert {"answer": [0.25, 0.75], "fingerprint": "model A", "key": KEYS[0].hex()} in lines
    assert printed.err == "51 answers\n"


def test_store_export_writes_to_a_file_what_it_would_print(
    store_path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store_command("export", store_path)
    printed = capsys.readouterr().out

    assert store_command("export", store_path, "--output", tmp_path / "out.jsonl", "--json") == 0
    assert (tmp_path / "out.jsonl").read_text() == printed


def test_store_export_replaces_no_file(store_path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "out.jsonl").write_text("of the user", "utf-8")

    assert store_command("export", store_path, "--output", tmp_path / "out.jsonl") == 2
    assert str(tmp_path / "out.jsonl") in capsys.readouterr().err
    assert (tmp_path / "out.jsonl").read_text("utf-8") == "of the user"


def test_store_merge_adds_each_prediction_once(
    store_path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same store is given twice: the second time, all of its predictions are there."""
    assert store_command("merge", tmp_path / "all.sqlite", store_path, store_path, "--json") == 0

    report = json.loads(capsys.readouterr().out)
    assert report == {str(store_path): {"added": 0, "present": 51, "different": 0}}


def test_store_merge_says_how_many_predictions_differ(
    store_path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    merged = tmp_path / "all.sqlite"
    store_command("merge", merged, store_path)
    capsys.readouterr()
    key = query_key("further prompt", [])
    for file, prediction in ((merged, 0), (store_path, 1)):
        with PredictionStore(file) as store:
            store.put_many("model A", [(key, prediction)])

    assert store_command("merge", merged, store_path) == 0

    expected = f"{store_path}: 0 answers added, 51 were there, 1 differ from those there (not copied)\n"
    assert capsys.readouterr().out == expected


@pytest.mark.parametrize(
    "words", ["run normal", "run suite", "run normal --method all", "run normal --k=2,4"], ids=lambda words: words
)
def test_a_refused_run_leaves_no_store(words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A plain function needs --model-name with a store."""
    Path("plain_function.py").write_text("def f(prompt, label_space):\n    return 0\n", "utf-8")
    monkeypatch.syspath_prepend(str(Path.cwd()))
    options = ["--datasets", "mini", "--model", "plain_function:f", "--store", "refused.sqlite"]

    assert main([*words.split(), *options]) == 2
    assert not list(Path().glob("refused.sqlite*"))
