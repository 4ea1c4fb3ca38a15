"""Commands on files and of races: what they print, save, verify and refuse."""

from __future__ import annotations

import csv
import functools
import io
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import StaICC
from StaICC.benchmarks.race import race
from StaICC.cli import main
from StaICC.results.result import load
from tests.cli.conftest import Cli

LIMITS = ["--datasets", "mini", "--limit", "10"]


@pytest.fixture(scope="module")
def folder_of_results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the results a and b of two models on 20 queries, a suite on fewer, and a file that is no JSON."""
    folder = tmp_path_factory.mktemp("results")
    for name, label in (("a", 0), ("b", 1)):
        result = StaICC.Normal(datasets=["mini"], limit=10)(lambda prompt, label_space, label=label: label)
        result.save(folder / f"{name}.json")
    StaICC.Suite(datasets=["mini"], limit=4)(lambda prompt, label_space: 0).save(folder / "suite.json")
    (folder / "bad.json").write_text("{", "utf-8")
    return folder


@pytest.fixture(autouse=True)
def folder(folder_of_results: Path, tmp_path: Path) -> Path:
    """A copy of that folder, which is the working folder."""
    shutil.copytree(folder_of_results, tmp_path, dirs_exist_ok=True)
    return tmp_path


def averages(name: str) -> Any:
    """Return the averages over data sets of a saved result."""
    return StaICC.load(name)["Averaged results"]


def test_a_comparison_names_the_benchmark_the_runs_and_the_metric(staicc: Cli) -> None:
    status, out, err = staicc("compare", "a.json", "b.json")

    assert (status, err) == (0, "")
    assert out.startswith("Normal: first a, second b\nmetric: accuracy (higher is better)\n")


def test_a_comparison_with_a_margin_says_whether_the_second_is_not_worse(staicc: Cli) -> None:
    _, out, _ = staicc("compare", "a.json", "b.json", "--margin", "0.01")

    assert "b not worse than a by more than 0.01: " in out


def test_a_comparison_as_csv_has_the_averages_of_both_runs(staicc: Cli) -> None:
    options = ["--margin", "0.01", "--metric", "macro_F1", "--format", "csv"]
    _, out, _ = staicc("compare", "a.json", "b.json", *options)
    (row,) = csv.DictReader(io.StringIO(out))

    assert float(row["first"]) == averages("a.json")["macro_F1"]
    assert float(row["second"]) == averages("b.json")["macro_F1"]


def test_runs_whose_files_have_one_name_are_named_by_their_paths(staicc: Cli) -> None:
    for name in ("a", "b"):
        Path(name).mkdir()
        Path(f"{name}.json").rename(f"{name}/result.json")
    _, out, _ = staicc("compare", "a/result.json", "b/result.json")

    assert "first a/result.json, second b/result.json" in out


def test_a_file_that_cannot_be_read_is_named_once(staicc: Cli) -> None:
    _, _, err = staicc("verify", "a.json", "bad.json")

    assert err.count("bad.json") == 1


@pytest.fixture
def predictions(staicc: Cli) -> list[str]:
    """The lines of a file p.jsonl: a prediction for each of the 20 prompts, the first label as model a, last first."""
    assert staicc("prompts", "normal", *LIMITS, "-o", "prompts.jsonl").status == 0
    prompts = [json.loads(line) for line in Path("prompts.jsonl").read_text("utf-8").splitlines()]
    lines = [json.dumps({"id": prompt["id"], "index": 0}) for prompt in reversed(prompts)]
    Path("p.jsonl").write_text("\n".join(lines), "utf-8")
    return lines


@pytest.mark.usefixtures("predictions")
def test_predictions_of_another_program_have_the_scores_of_a_run(staicc: Cli, anonymous: Any) -> None:
    """Prompts to a file, predictions by a program that knows only the file, and the scores of the run itself."""
    status, _, _ = staicc("score", "normal", "p.jsonl", *LIMITS, "--json", "scored.json", "--records", "r.jsonl")

    assert status == 0
    assert anonymous(StaICC.load("scored.json")) == anonymous(StaICC.load("a.json"))
    assert len(Path("r.jsonl").read_text("utf-8").splitlines()) == 20
    assert staicc("verify", "scored.json").status == 0


@pytest.mark.usefixtures("predictions")
def test_a_file_of_predictions_may_follow_the_data_sets(staicc: Cli) -> None:
    """``--datasets`` takes several names, and the file is none of them."""
    _, expected, _ = staicc("score", "normal", "p.jsonl", *LIMITS, "--json", "scored.json")
    status, out, _ = staicc("score", "normal", "--limit", "10", "--datasets", "mini", "p.jsonl")

    assert (status, out) == (0, expected)

    (saved,) = Path("staicc-results").iterdir()
    assert load(saved) == load("scored.json")


def test_missing_predictions_are_refused_unless_partial(staicc: Cli, predictions: list[str]) -> None:
    Path("p.jsonl").write_text(predictions[0], "utf-8")
    status, _, err = staicc("score", "normal", "p.jsonl", *LIMITS)

    assert status == 2
    assert "19 of 20 queries have no prediction" in err

    status, out, _ = staicc("score", "normal", "p.jsonl", *LIMITS, "--partial")
    assert status == 1
    assert "PARTIAL: 19 of 20" in out


def model_card_metadata(file: str) -> Any:
    """Return the YAML of the model card of a result, which is between two lines of hyphens."""
    yaml = pytest.importorskip("yaml")
    assert main(["export", "model-card", file, "-o", "card.md"]) == 0
    before, metadata, after = Path("card.md").read_text("utf-8").split("---\n")
    assert (before, after) == ("", "")
    return yaml.safe_load(metadata)


def test_a_model_card_has_the_scores_in_the_format_of_the_hub() -> None:
    hub = pytest.importorskip("huggingface_hub.repocard_data")
    _, evaluations = hub.model_index_to_eval_results(model_card_metadata("a.json")["model-index"])
    evaluation_of = {(evaluation.dataset_name, evaluation.metric_name): evaluation for evaluation in evaluations}
    result = StaICC.load("a.json")

    accuracy = evaluation_of["mini", "accuracy"]
    assert accuracy.metric_value == result["Divided results"]["mini"]["accuracy"]
    assert accuracy.metric_args["low"] <= accuracy.metric_value <= accuracy.metric_args["high"]
    assert accuracy.dataset_args["signature"] == str(result.signature)
    assert evaluation_of["mini", "macro_F1"].metric_type == "f1"


def test_a_model_card_has_the_name_of_the_model() -> None:
    hub = pytest.importorskip("huggingface_hub.repocard_data")
    model, _ = hub.model_index_to_eval_results(model_card_metadata("a.json")["model-index"])

    assert model == StaICC.load("a.json").provenance.names


def test_a_model_name_with_marks_of_yaml_is_read_as_it_is() -> None:
    """Line breaks of Unicode become spaces."""
    hub = pytest.importorskip("huggingface_hub.repocard_data")
    name = "a: 'b' \"c\" # \u2028 \U0001f600 \x85 ---"
    result = StaICC.Normal(datasets=["mini"], limit=10)(lambda prompt, label_space: 0, model_name=name)
    result.save("named.json")
    model, _ = hub.model_index_to_eval_results(model_card_metadata("named.json")["model-index"])

    assert model == " ".join(name.split())


def test_a_model_card_of_a_suite_has_each_benchmark_as_a_task(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", "model-card", "suite.json", "--json"]) == 0

    (model,) = json.loads(capsys.readouterr().out)
    tasks = {evaluation["task"]["name"] for evaluation in model["results"]}

    assert len(tasks) == len(StaICC.load("suite.json"))


def test_two_models_are_refused_before_the_run(staicc: Cli) -> None:
    status, out, err = staicc("run", "normal", *LIMITS, "--model", "mine:f", "--model", "ppm")

    assert (status, out) == (2, "")
    assert "mine:f and ppm" in err


# -- ``race``: the result of the library, saved and verified


RACING_MODELS = """
from StaICC.inference.identity import Identity

class Model:
    def __init__(self, name):
        self.name = name

    def identity(self):
        return Identity({"model": self.name})

    def __call__(self, prompt, label_space):
        chosen = len(prompt) % len(label_space) if self.name == "by_length" else 0
        return [float(place == chosen) for place in range(len(label_space))]

def by_length(argument):
    return Model("by_length")

def first(argument):
    return Model("first")
"""
"""A module with two models: one predicts a label by the length of the prompt, the other the first label."""

MINI = ["--datasets", "mini"]
MODELS = ("racing_models:by_length", "racing_models:first")


@pytest.fixture
def race_command(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The command of a race of the two models, with a store."""
    Path("racing_models.py").write_text(RACING_MODELS)
    monkeypatch.syspath_prepend(Path.cwd())
    return ["race", "--model", MODELS[0], "--model", MODELS[1], *MINI, "--margin", "0.1", "--store", "s.sqlite"]


def test_a_race_prints_and_saves_what_the_library_returns(staicc: Cli, race_command: list[str]) -> None:
    status, out, err = staicc(*race_command, "--json", "race.json", "--records", "records.jsonl")
    assert (status, err) == (0, "")
    expected = race(StaICC.Normal(datasets=["mini"]), *map(StaICC.load_kernel, MODELS), 0.1)
    saved: Any = load("race.json")
    assert [result.stopping for result in saved.results()] == [result.stopping for result in expected.results()]
    assert [result.model.split()[0] for result in saved.results()] == list(MODELS)

    stopping = expected["first"].stopping
    assert str(stopping) in out
    assert len(Path("records.jsonl").read_text().splitlines()) == 2 * stopping.queries, "each query of both models"


def test_a_saved_race_is_verified_compared_and_exported(staicc: Cli, race_command: list[str]) -> None:
    staicc(*race_command, "--json", "race.json")
    status, out, _ = staicc("verify", "race.json")
    assert status == 0
    assert "recomputed  Race: the parts" in out

    _, _, err = staicc("compare", "race.json")
    assert "stopped early" in err

    _, out, _ = staicc("export", "scores", "race.json", "--json")
    rows = [json.loads(line) for line in out.splitlines()]
    assert {row["run"] for row in rows} == {"race: first", "race: second"}
    for row in rows:
        assert row["low"] is None, f"{row}: the interval of a race is that of the difference"


def test_a_race_is_repeated_from_its_store(staicc: Cli, race_command: list[str]) -> None:
    staicc(*race_command, "--json", "race.json")

    assert staicc(*race_command, "--json", "again.json", "--chunk-size", "3").status == 0

    first: Any = load("race.json")
    again: Any = load("again.json")

    assert list(again.results()) == list(first.results())
    for result in again.results():
        assert result.provenance.predictors[0].computed == 0, "a prediction was not taken from the store"


SEVERAL = ["--metric", "accuracy", "--metric", "macro_F1"]


def test_a_comparison_by_label_has_a_row_of_all_labels_too(staicc: Cli) -> None:
    status, out, err = staicc("compare", "a.json", "b.json", "--by", "label")

    assert (status, err) == (0, "")
    assert out.startswith("Normal by label: first a, second b\nmetric: accuracy (higher is better)\n")
    assert "mini (all rows)" in out


def test_a_comparison_by_two_metrics_counts_two_tests(staicc: Cli) -> None:
    status, out, err = staicc("compare", "a.json", "b.json", *SEVERAL, "--format", "json")

    assert (status, err) == (0, "")
    assert json.loads(out)[0]["tests"] == 2


def constant_scores(prompt: str, label_space: list[str], scores: tuple[float, ...]) -> list[float]:
    """Predict the same for each prompt."""
    return list(scores)


@pytest.mark.parametrize(
    ("metric", "column", "options"),
    [
        ("accuracy", "accuracy", []),
        ("averaged_truelabel_likelihood", "likelihood", ["--metric", "averaged_truelabel_likelihood"]),
        ("averaged_truelabel_likelihood", "likelihood", ["--metric", "likelihood"]),
    ],
    ids=["by default", "given by its key", "given by its column"],
)
@pytest.mark.parametrize(
    "command", ["compare", "compare --by label", "compare --margin 0.5", "rank"], ids=lambda command: command
)
def test_a_metric_that_is_given_is_the_one_that_is_compared(
    command: str, metric: str, column: str, options: list[str], staicc: Cli
) -> None:
    """JSON has the key of the metric, the text has the name of its column."""
    for name, scores in (("c", (0.2, 0.5, 0.3)), ("d", (0.1, 0.1, 0.8))):
        model = functools.partial(constant_scores, scores=scores)
        StaICC.Normal(datasets=["mini"], limit=10)(model).save(f"{name}.json")
    words = [*command.split(), "c.json", "d.json", *options]
    status, out, err = staicc(*words, "--format", "json")
    assert (status, err) == (0, "")
    (comparison,) = json.loads(out)
    assert comparison["metric"] == metric

    status, out, _ = staicc(*words)
    assert status == 0
    heading = out.partition("\n\n")[0]
    assert column in heading
    assert column == metric or metric not in heading


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--by", "labels"], "there is no column 'labels'. There are: label"),
        (["--by", "label", "--margin", "0.01"], "--margin: it is about all test rows"),
        (["--by", "label", "--format", "csv"], "--format: got csv with --by, expected one of text, markdown, latex"),
        (["--metric", "accuracy", "--metric", "accuracy"], "expected two or more names, each once"),
        ([*SEVERAL, "--by", "label"], "--by: got it with 2 metrics"),
        ([*SEVERAL, "--margin", "0.01"], "--margin: got it with 2 metrics"),
    ],
)
def test_options_of_compare_that_contradict_each_other_are_refused(
    staicc: Cli, options: list[str], message: str
) -> None:
    status, _, err = staicc("compare", "a.json", "b.json", *options)

    assert status == 2
    assert message in err


def test_what_a_table_says_is_left_out_is_not_repeated_on_stderr(staicc: Cli) -> None:
    reason = "mini: 12 of 20 queries of a are not compared"
    _, out, err = staicc("compare", "a.json", "suite.json")

    assert out.count(reason) == 1
    assert reason not in err
    assert "GLER (not in a)" in err
