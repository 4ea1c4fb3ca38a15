"""Commands on files and of races: what they print, save, verify and refuse."""

from __future__ import annotations

import csv
import functools
import io
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import StaICC
from StaICC.benchmarks.race import race
from StaICC.cli import main
from StaICC.results.result import load

Cli = Callable[..., tuple[int, str, str]]
LIMITS = ["--datasets", "mini", "--limit", "10"]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("results")
    for name, label in (("a", 0), ("b", 1)):
        result = StaICC.Normal(datasets=["mini"], limit=10)(lambda prompt, label_space, label=label: label)
        result.save(folder / f"{name}.json")
    StaICC.Suite(datasets=["mini"], limit=4)(lambda prompt, label_space: 0).save(folder / "suite.json")
    (folder / "bad.json").write_text("{", "utf-8")
    return folder


@pytest.fixture(autouse=True)
def folder(made: Path, tmp_path: Path) -> Path:
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    return tmp_path


def averages(name: str) -> Any:
    return StaICC.load(name)["Averaged results"]


def test_compare(staicc: Cli) -> None:
    status, out, err = staicc("compare", "a.json", "b.json")
    assert (status, err) == (0, "")
    assert out.startswith("Normal: first a, second b\nmetric: accuracy (higher is better)\n")
    margin = ["compare", "a.json", "b.json", "--margin", "0.01"]
    assert "b not worse than a by more than 0.01: " in staicc(*margin)[1]
    (row,) = csv.DictReader(io.StringIO(staicc(*margin, "--metric", "macro_F1", "--format", "csv")[1]))
    assert [float(row["first"]), float(row["second"])] == [averages(f"{name}.json")["macro_F1"] for name in "ab"]
    status, out, err = staicc("compare", "a.json", "suite.json")
    assert "left out: mini: 12 of 20 queries of a are not compared" in out
    assert "GLER (not in a)" in err
    assert staicc("verify", "a.json", "bad.json")[2].count("bad.json") == 1
    for name in "ab":
        Path(name).mkdir()
        Path(f"{name}.json").rename(f"{name}/result.json")
    assert "first a/result.json, second b/result.json" in staicc("compare", "a/result.json", "b/result.json")[1]


def test_the_whole_way_out_and_back(staicc: Cli, anonymous: Any) -> None:
    """Prompts to a file, predictions by a program that knows only the file, the score of the run itself."""
    assert staicc("prompts", "normal", *LIMITS, "-o", "prompts.jsonl")[0] == 0
    prompts = [json.loads(line) for line in Path("prompts.jsonl").read_text("utf-8").splitlines()]
    lines = [json.dumps({"id": prompt["id"], "index": 0}) for prompt in reversed(prompts)]
    Path("p.jsonl").write_text("\n".join(lines), "utf-8")
    status, out, _ = staicc("score", "normal", "p.jsonl", *LIMITS, "--json", "scored.json", "--records", "r.jsonl")
    assert status == 0
    assert anonymous(StaICC.load("scored.json")) == anonymous(StaICC.load("a.json"))
    assert len(Path("r.jsonl").read_text("utf-8").splitlines()) == 20
    assert staicc("verify", "scored.json")[0] == 0
    last = staicc("score", "normal", "--limit", "10", "--datasets", "mini", "p.jsonl")
    assert last[:2] == (0, out), "predictions after data sets are found"
    assert [load(path) for path in Path("staicc-results").iterdir()] == [load("scored.json")]
    Path("p.jsonl").write_text(lines[0], "utf-8")
    status, _, err = staicc("score", "normal", "p.jsonl", *LIMITS)
    assert status == 2
    assert "19 of 20 queries have no prediction" in err
    status, out, _ = staicc("score", "normal", "p.jsonl", *LIMITS, "--partial")
    assert status == 1
    assert "PARTIAL: 19 of 20" in out


def test_a_model_card_has_the_scores_in_the_format_of_the_hub(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    yaml = pytest.importorskip("yaml")
    hub = pytest.importorskip("huggingface_hub.repocard_data")
    data = json.loads(Path("a.json").read_text("utf-8"))
    name = "a: 'b' \"c\" # \u2028 \U0001f600 \x85 ---"
    result = StaICC.Normal(datasets=["mini"], limit=10)(lambda prompt, label_space: 0, model_name=name)
    result.save("named.json")
    for file, model in (("a.json", StaICC.load("a.json").provenance.names), ("named.json", " ".join(name.split()))):
        assert main(["export", "model-card", file, "-o", "card.md"]) == 0
        start, card, end = Path("card.md").read_text("utf-8").split("---\n")[0::1][:3]
        metadata = yaml.safe_load(card)
        assert (start, end) == ("", "")
        found, evaluations = hub.model_index_to_eval_results(metadata["model-index"])
        assert found == model
        scores = {(each.dataset_name, each.metric_name): each for each in evaluations}
        assert scores["mini", "accuracy"].metric_value == data["Divided results"]["mini"]["accuracy"]
        assert scores["mini", "macro_F1"].metric_type == "f1"
        interval = scores["mini", "accuracy"].metric_args
        assert interval["low"] <= scores["mini", "accuracy"].metric_value <= interval["high"]
        signature = scores["mini", "accuracy"].dataset_args["signature"]
        assert signature == str(StaICC.load(file).signature)
    assert main(["export", "model-card", "suite.json", "--json"]) == 0
    (entry,) = json.loads(capsys.readouterr().out)
    assert len({evaluation["task"]["name"] for evaluation in entry["results"]}) == len(StaICC.load("suite.json"))


def test_two_models_are_refused_before_the_run(staicc: Cli) -> None:
    status, out, err = staicc("run", "normal", *LIMITS, "--model", "mine:f", "--model", "ppm")
    assert (status, out) == (2, "")
    assert "mine:f and ppm" in err


# -- ``race``: the result of the library, saved and verified


MODULE = """
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

MINI = ["--datasets", "mini"]
MODELS = ("racing_models:by_length", "racing_models:first")


def test_a_race_prints_and_saves_what_the_library_returns(staicc: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("racing_models.py").write_text(MODULE)
    monkeypatch.syspath_prepend(Path.cwd())
    command = ["race", "--model", MODELS[0], "--model", MODELS[1], *MINI, "--margin", "0.1", "--store", "s.sqlite"]
    status, out, err = staicc(*command, "--json", "race.json", "--records", "records.jsonl")
    assert (status, err) == (0, "")
    first, second = map(StaICC.load_kernel, MODELS)
    expected = race(StaICC.Normal(datasets=["mini"]), first, second, 0.1)
    saved: Any = load("race.json")
    assert [result.stopping for result in saved.results()] == [result.stopping for result in expected.results()]
    assert str(expected["first"].stopping) in out
    assert [result.model.split()[0] for result in saved.results()] == list(MODELS)
    assert len(Path("records.jsonl").read_text().splitlines()) == 2 * expected["first"].stopping.queries
    status, out, _ = staicc("verify", "race.json")
    assert status == 0
    assert "recomputed  Race: the parts" in out
    assert "stopped early" in staicc("compare", "race.json")[2]
    rows = [json.loads(line) for line in staicc("export", "scores", "race.json", "--json")[1].splitlines()]
    assert {row["run"] for row in rows} == {"race: first", "race: second"}
    assert [row for row in rows if row["low"] is not None] == []  # the interval of a race is that of the difference
    assert staicc(*command, "--json", "two.json", "--chunk-size", "3")[0] == 0
    again: Any = load("two.json")
    assert list(again.results()) == list(saved.results())
    assert all(result.provenance.predictors[0].computed == 0 for result in again.results()), "all from the store"


SEVERAL = ["--metric", "accuracy", "--metric", "macro_F1"]


def test_compare_by_label_and_by_several_metrics(staicc: Cli) -> None:
    status, out, err = staicc("compare", "a.json", "b.json", "--by", "label")
    assert (status, err) == (0, "")
    assert out.startswith("Normal by label: first a, second b\nmetric: accuracy (higher is better)\n")
    assert "mini (all rows)" in out
    status, out, err = staicc("compare", "a.json", "b.json", *SEVERAL, "--format", "json")
    assert (status, err) == (0, "")
    assert json.loads(out)[0]["tests"] == 2


METRIC = "averaged_truelabel_likelihood"


@pytest.mark.parametrize(
    "command", [["compare"], ["compare", "--by", "label"], ["compare", "--margin", "0.5"], ["rank"]], ids=" ".join
)
def test_a_metric_that_is_given_is_the_one_that_is_compared(staicc: Cli, command: list[str]) -> None:
    """Whatever else is given. Without ``--metric``, it is the accuracy."""

    def model(prompt: str, label_space: list[str], probabilities: tuple[float, ...]) -> list[float]:
        return list(probabilities)

    for name, probabilities in (("c", (0.2, 0.5, 0.3)), ("d", (0.1, 0.1, 0.8))):
        function = functools.partial(model, probabilities=probabilities)
        StaICC.Normal(datasets=["mini"], limit=10)(function).save(f"{name}.json")
    name, *options = command
    for metric, given in (("accuracy", []), (METRIC, ["--metric", METRIC])):
        status, out, err = staicc(name, "c.json", "d.json", *options, *given, "--format", "json")
        assert (status, err) == (0, "")
        (compared,) = json.loads(out)
        assert compared["metric"] == metric
        status, out, _ = staicc(name, "c.json", "d.json", *options, *given)
        assert status == 0
        assert metric in out.partition("\n\n")[0]


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
