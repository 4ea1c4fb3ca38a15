"""Forged results: none is recomputed as a whole, and none is ranked; honest results of every benchmark are.

A forger can compute the digests of a file again, so every forged file has the right ones.
"""

from __future__ import annotations

import copy
import csv
import dataclasses
import hashlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import StaICC
from StaICC.benchmarks.race import race
from StaICC.cli import main
from StaICC.datasets.dataset import Dataset
from StaICC.inference.identity import Identity
from StaICC.methods.many_shot import run_many_shot
from StaICC.methods.run import Method, run_all
from StaICC.results.files import with_digests
from tests import result_edits
from tests.benchmarks.test_verify_edits import model

METHODS = ["vanilla", "contextual_calibration", "batch_calibration"]
INTENTS = [f"kind {letter}" for letter in "abcdefghijklmnopqrstuvw"]
KERNEL = StaICC.load_kernel("ppm")
FEW: dict[str, Any] = {"datasets": ["mini"], "limit": 4}


def other(prompt: Any, label_space: list[str]) -> list[float]:
    return [value / 2 + 1 for value in model(prompt, label_space)[::-1]]


def label(prompt: Any, label_space: list[str]) -> int:
    return len(prompt) % len(label_space)


def unsure(prompt: Any, label_space: list[str]) -> Any:
    return None if len(prompt) % 5 == 0 else model(prompt, label_space)


def text(prompt: str, label_space: list[str]) -> str:
    number = hashlib.sha256(prompt.encode()).digest()[0]
    return label_space[number % 3] if number % 7 else ""


def saved_values(result: Any) -> Any:
    """Return the content of the file of a result."""
    return json.loads(json.dumps(result.to_dict()))


def data_file(path: Path, rows: list[tuple[str, str]]) -> Dataset:
    """Write rows of text and label to a file, and return the data set that is read from it."""
    with open(path, "w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([("text", "label"), *rows])
    return Dataset.from_file(path, "text", "label")


def runs_of_normal(own: Dataset) -> dict[str, Any]:
    """Return results of the benchmark Normal: of each kind of predictions, data and settings, by a name."""
    normal = StaICC.Normal(**FEW)
    return {
        "normal": normal(KERNEL),
        "labels": normal(label),
        "partial": normal(unsure, on_error="collect"),
        "given": normal(preentered_prediction=[[0, 1, 2, 0, 1, 2, 0, 1]]),
        "two": StaICC.Normal(datasets=["mini", own], limit=4)(model),
        "own": StaICC.Normal(datasets=[own], limit=4)(model),
        "tried": StaICC.Normal(**FEW, statistics=StaICC.Statistics(level=0.9, tried=3))(model),
        "stopped": StaICC.Normal(datasets=["mini"])(model, precision=0.3),
    }


def runs_of_other_benchmarks() -> dict[str, Any]:
    """Return a result of each other benchmark whose result is no group, by a name."""
    return {
        "bias": StaICC.PosteriorBias(**FEW)(model),
        "domain": StaICC.DomainBias(**FEW, domain_query_length=9)(model),
        "gler": StaICC.GLER(**FEW)(model),
        "template": StaICC.TemplateSensitivity(**FEW)(model),
        "generalisation": StaICC.Generalisation(**FEW)(model),
    }


def groups() -> dict[str, Any]:
    """Return results of benchmarks that are groups, by a name."""
    return {
        "suite": StaICC.Suite(**FEW)(KERNEL),
        "other": StaICC.Suite(**FEW)(other),
        "small": StaICC.Suite(datasets=["mini"], limit=2)(KERNEL),
        "k2": StaICC.Suite(k=2, **FEW)(KERNEL),
        "released": StaICC.Suite(metrics="0.1.1", **FEW)(KERNEL),
        "diagnosis": StaICC.Diagnosis(**FEW)(KERNEL),
        "triplet": StaICC.TripletBias(**FEW, domain_query_length=9)(KERNEL),
        "race": race(StaICC.Normal(datasets=["mini"]), model, other, margin=0.3),
    }


def runs_of_long_icl(intents: Dataset) -> dict[str, Any]:
    """Return a result of LongICL with replies and one with scores, by a name."""
    return {
        "longicl": StaICC.LongICL(datasets=[intents], rounds=(1, 2), limit=20)(text),
        "scored": StaICC.LongICL(datasets=[intents], rounds=[1], limit=20)(KERNEL),
    }


def groups_of_methods() -> dict[str, Any]:
    """Return results of several methods, or of one method with several numbers of demonstrations, by a name."""
    normal = StaICC.Normal(**FEW)
    vanilla = Method("vanilla", KERNEL)
    return {
        "methods": run_all(KERNEL, normal, "staicc", 4, methods=METHODS),
        "others": run_all(other, normal, "staicc", 4, methods=METHODS),
        "of_groups": run_all(KERNEL, StaICC.TripletBias(**FEW), "staicc", 4, methods=METHODS),
        "shots": run_many_shot(vanilla, lambda k: StaICC.Normal(k, **FEW), [1, 2]),
        "fewer": run_many_shot(vanilla, lambda k: StaICC.Normal(k, datasets=["mini"], limit=2), [1, 2]),
    }


def honest(folder: Path) -> dict[str, Any]:
    """Return the saved results of every kind of run, by a name; the files of own data are in the folder."""
    own = data_file(folder / "own.csv", [(f"row {row}", "no" if row % 3 else "yes") for row in range(90)])
    texts_of_intents = [(f"Text {number} of {intent}", intent) for number in range(16) for intent in INTENTS]
    intents = data_file(folder / "intents.csv", texts_of_intents)
    results = {
        **runs_of_normal(own),
        **runs_of_other_benchmarks(),
        **groups(),
        **runs_of_long_icl(intents),
        **groups_of_methods(),
    }
    return {name: saved_values(result) for name, result in results.items()}


# -- forgeries: a document, and another value at some of its paths, one after the other

Documents = Mapping[str, Any]
GONE = object()


class Copied(NamedTuple):
    """The value at a path of the honest documents."""

    path: str


def keys_of(path: str) -> list[Any]:
    """The keys of a path such as ``D/mini/accuracy``."""
    short = {"D": "Divided results", "A": "Averaged results"}
    return [int(key) if key.isdigit() else short.get(key, key) for key in path.split("/")]


def changed(document: Any, edits: Mapping[str, Any], documents: Documents) -> Any:
    for path, value in edits.items():
        *place, last = keys_of(path)
        inner = result_edits.value_at(document, tuple(place))
        before = inner.get(last, GONE) if isinstance(inner, dict) else inner[last]
        if isinstance(value, Copied):
            value = copy.deepcopy(result_edits.value_at(documents, tuple(keys_of(value.path))))
        elif callable(value):
            value = value(before)
        assert value != before, path
        if value is GONE:
            del inner[last]
        else:
            inner[last] = value
    return document


def called(name: str) -> dict[str, Any]:
    return {"benchmark": name, "signature/benchmark": name}


def accuracy(value: float | None) -> dict[str, Any]:
    return {"D/mini/accuracy": value, "A/accuracy": value}


def swapped(source: str, first: str, second: str) -> dict[str, Any]:
    first_path, second_path = f"parts/{first}", f"parts/{second}"
    return {first_path: Copied(f"{source}/{second_path}"), second_path: Copied(f"{source}/{first_path}")}


def levels(intervals: Any) -> Any:
    return {key: {**interval, "level": 0.99} for key, interval in intervals.items()}


DETAILS, MEANS = "details/mini", "means"
STATED = "signature"
MADE = "arguments"
BASELINES = "baselines/normal"
PREDICTOR = "provenance/predictors/0"

EDITS: dict[str, tuple[str, dict[str, Any]]] = {
    "renamed benchmark with better scores": ("normal", called("MyBench") | accuracy(0.95)),
    "draws called templates": ("generalisation", {"arguments/options": {"draws": 3, "templates": 4}}),
    "parts swapped": ("suite", swapped("suite", "Template_sens", "Demo_sens")),
    "parts swapped and renamed": (
        "suite",
        swapped("suite", "Template_sens", "Demo_sens")
        | {f"parts/{name}/{key}": name for name in ("Template_sens", "Demo_sens") for key in called("")},
    ),
    "part of another model": ("suite", {"parts/Normal": Copied("other/parts/Normal")}),
    "one part only": ("suite", {"parts": lambda parts: {"Normal": parts["Normal"]}}),
    "missing part": ("suite", {"parts/GLER": GONE}),
    "additional part": ("diagnosis", {"parts/Normal": Copied("suite/parts/Normal")}),
    "suite called diagnosis": ("suite", {"name": "Diagnosis"}),
    "suite of an unknown name": ("suite", {"name": "MySuite"}),
    # groups
    "part under another name": ("suite", {"parts/Main": Copied("suite/parts/Normal"), "parts/Normal": GONE}),
    "part twice": ("triplet", {"parts/contextual again": Copied("triplet/parts/contextual")}),
    "group in a group": ("suite", {"parts/Normal": Copied("suite")}),
    "part with another limit": ("suite", {"parts/GLER": Copied("small/parts/GLER")}),
    "first part with another k": ("suite", {"parts/Normal": Copied("k2/parts/Normal")}),
    "part with another option": ("suite", {"parts/Domain_bias": Copied("triplet/parts/domain")}),
    "part of another model name": ("suite", {f"parts/Normal/{PREDICTOR}/name": "a better model"}),
    "part of a method": (
        "suite",
        {f"parts/Normal/{place}/method": "hidden_calibration paper" for place in (STATED, "provenance")},
    ),
    "methods swapped": ("methods", swapped("methods", "vanilla", "batch_calibration")),
    "method of another model": ("methods", {"parts/vanilla": Copied("others/parts/vanilla")}),
    "method on a part of the group": ("of_groups", {"parts/vanilla/parts/post": GONE}),
    "shots swapped": ("shots", swapped("shots", "k=1", "k=2")),
    "race swapped": ("race", swapped("race", "first", "second")),
    "race against itself": ("race", {"parts/second": Copied("race/parts/first")}),
    "race of complete runs": ("race", {"parts/first": Copied("normal"), "parts/second": Copied("normal")}),
    "plug-in": ("normal", {"signature/benchmark": "Normal@my-plugin-1.0"}),
    "benchmark that its signature denies": ("normal", {"benchmark": "Post_bias"}),
    # LongICL
    "LongICL under another name": ("longicl", called("MyLongICL")),
    "score of a round": ("longicl", {"D/intents/1R": 0.9}),
    "parsing": ("longicl", {"D/intents/settings/parsing": "published"}),
    "option in the signature": ("longicl", {"signature/options": "parsing=published,rounds=1+2"}),
    "round in the arguments": ("longicl", {"arguments/rounds": [5, 2]}),
    # data sets and scores
    "additional data set": ("normal", {f"{at}/subjective": Copied(f"normal/{at}/mini") for at in ("D", "details")}),
    "details of one more data set": ("normal", {"details/subjective": Copied("normal/details/mini")}),
    "details of one data set less": ("two", {"details/own": GONE}),
    "missing data set": ("two", {"D/own": GONE, "details/own": GONE, "A": Copied("two/D/mini")}),
    "no data set": ("normal", {"D": {}, "details": {}}),
    "mean of the best data set": ("two", {"A/accuracy": Copied("two/D/mini/accuracy")}),
    "additional score": ("normal", {"D/mini/F-beta": 0.99, "A/F-beta": 0.99}),
    "missing score": ("normal", {"D/mini/macro_F1": GONE, "A/macro_F1": GONE}),
    "undefined score": ("normal", accuracy(None)),
    "defined score": ("labels", {f"{at}/averaged_truelabel_likelihood": 0.9 for at in ("D/mini", "A")}),
    "reason": ("labels", {f"{DETAILS}/missing": lambda reasons: dict.fromkeys(reasons, "the server was down")}),
    "level everywhere": (
        "normal",
        {f"{DETAILS}/intervals": levels, f"{MEANS}/intervals": levels, f"{MADE}/statistics/level": 0.99}
        | {f"{STATED}/statistics": lambda field: field.replace("0.95", "0.99")},
    ),
    "no intervals": ("normal", {f"{DETAILS}/intervals": {}}),
    "no baselines": ("normal", {f"{DETAILS}/baselines": {}}),
    "label names": ("normal", {f"{DETAILS}/labels": ["x", "travel", "weather"]}),
    "direction": ("normal", {"higher_is_better": {"expected_calibration_error_1": True}}),
    "settings tried": ("tried", {f"{DETAILS}/{BASELINES}/tried": 1}),
    "lower baseline": ("normal", {f"{DETAILS}/{BASELINES}/majority": 0.1}),
    "digest of the data": ("normal", {f"{DETAILS}/data": "0" * 64}),
    "number of queries": ("normal", {f"{DETAILS}/asked": 800}),
    "notes": ("normal", {f"{DETAILS}/notes": ["an external auditor confirmed the scores"]}),
    "no label scores": (
        "normal",
        {f"{DETAILS}/conditions/0/scores": None}
        | {f"{at}/averaged_truelabel_likelihood": 0.99 for at in ("D/mini", "A")},
    ),
    "true labels": (
        "labels",
        {f"{DETAILS}/conditions/0/truth": Copied(f"labels/{DETAILS}/conditions/0/predictions")} | accuracy(1.0),
    ),
    "hidden failures": (
        "partial",
        {f"{DETAILS}/failures": [], f"{DETAILS}/failed": 0, "provenance/failures": None}
        | {f"{PREDICTOR}/failed": 0, f"{STATED}/failed": GONE},
    ),
    # the rest
    "schema": ("normal", {"schema": 1}),
    "identity": ("normal", {f"{PREDICTOR}/identity": "0" * 64}),
    "predictor of other data": ("normal", {f"{PREDICTOR}/datasets": ["TREC"]}),
    "who": ("normal", {f"{PREDICTOR}/who": {"model": "gpt2"}}),
    "no predictors": ("normal", {"provenance/predictors": []}),
    "method in the provenance": ("normal", {"provenance/method": "knn_prompt paper"}),
    "unknown entry": ("normal", {"certified by": "the authors"}),
    "unknown entry of a group": ("suite", {"certified by": "the authors"}),
    "no arguments": ("normal", {"arguments": GONE}),
    "arguments of a part": ("suite", {"parts/GLER/arguments/limit": 5}),
    "no intervals in the arguments": ("normal", {f"{MADE}/statistics/intervals": False}),
    "option in the arguments": ("domain", {f"{MADE}/options/domain_query_length": 10}),
    "interval of stopping": ("stopped", {"stopping/interval/low": 0.33}),
    **{
        f"{field} of stopping": ("stopped", {f"stopping/{field}": value})
        for field, value in {
            **{"estimate": 0.9, "target": 0.05, "rounds": 24, "all_rounds": 512, "queries": 10, "all_queries": 10},
            **{"reason": "all rows are evaluated", "score": "macro_F1", "rule": "race"},
        }.items()
    },
    "stopped run": (
        "normal",
        {"stopping": Copied("stopped/stopping"), "signature/stopping": Copied("stopped/signature/stopping")},
    ),
    "stopped run that claims to be complete": ("stopped", {"stopping": GONE, "signature/stopping": GONE}),
    "no warnings about the data": ("own", {"warnings": GONE}),
    "no record of the file": ("own", {"files": GONE}),
}
STATEMENTS: dict[str, list[tuple[str, Any]]] = {
    STATED: [
        *(("version", "1.1.0"), ("version", "0.1.1"), ("k", "5"), ("limit", GONE), ("metrics", "0.1.1")),
        *(("metrics", "none"), ("metrics", "standard+mine@0123456789ab"), ("metrics", "mixed-0123456789ab")),
        *(("statistics", "none"), ("template", "changed-0123456789ab"), ("channel", "noisy")),
        *(("demonstrations", "manual-0123456789ab"), ("datasets", "TREC"), ("datasets", GONE)),
        *(("prompts", "0" * 12), ("split", "1+2+3"), ("sampler", "lcg43"), ("scoring", "label_scoring=full")),
        ("method", "knn_prompt paper"),
    ],
    MADE: [
        *(("k", 5), ("limit", None), ("sampler", "nested"), ("noisy_channel", True), ("changed", ["template"])),
        *(("metrics/own", ["mine"]), ("metrics/set", None), ("certified by", "the authors")),
        *((name, GONE) for name in ("changed", "options", "metrics", "k", "statistics")),
    ],
}
for place, fields in STATEMENTS.items():
    for field, value in fields:
        name = f"{place} {field.replace('/', ' ')} {'absent' if value is GONE else value}"
        EDITS[name] = ("normal", {f"{place}/{field}": value})


def everywhere(document: Any, old: str, new: str) -> Any:
    """Another name in all texts and keys of a document."""
    if isinstance(document, dict):
        return {everywhere(key, old, new): everywhere(value, old, new) for key, value in document.items()}
    if isinstance(document, list):
        return [everywhere(value, old, new) for value in document]
    return document.replace(old, new) if isinstance(document, str) else document


def predicted_by(document: Any, **who: str) -> None:
    """Another model, whose identity is computed again."""
    (predictor,) = document["provenance"]["predictors"]
    predictor |= {"who": who, "identity": Identity(who, predictor["how"]).digest}


def part_of_another_identity(documents: Documents) -> Any:
    predicted_by(documents["suite"]["parts"]["GLER"], model="a better model")
    return documents["suite"]


def given_predictions_of_another_digest(documents: Documents) -> Any:
    predicted_by(documents["given"], **{"predictions given": "0" * 64})
    return documents["given"]


def given_predictions_as_those_of_a_model(documents: Documents) -> Any:
    """The name of a model does not make given predictions those of a model."""
    predicted_by(documents["given"], model="a better model")
    documents["given"]["provenance"]["predictors"][0]["name"] = "a better model"
    return documents["given"]


def part_of_a_race(documents: Documents) -> Any:
    return documents["race"]["parts"]["first"]


def unknown_data_set(documents: Documents) -> Any:
    return everywhere(documents["normal"], "mini", "MyData")


def name_of_a_built_in_data_set(documents: Documents) -> Any:
    return everywhere(documents["normal"], "mini", "subjective")


def own_data_under_the_name_of_a_built_in_data_set(documents: Documents) -> Any:
    document = everywhere(documents["own"], "own", "mini")
    document["files"]["mini"]["file"] = "own.csv"
    return document


def other_rows_under_the_name_of_a_built_in_data_set(documents: Documents) -> Any:
    rows = [(f"food {number}", "food") for number in range(40)]
    rows += [("rain", "weather"), ("train", "travel")] * 20
    easy = Dataset.from_rows(rows, name="easy", label_space=["food", "travel", "weather"])
    called_mini = Dataset(dataclasses.replace(easy.card, name="mini"), easy.table)
    return saved_values(StaICC.Normal(datasets=[called_mini])(label))


def benchmark_that_calls_itself_normal(documents: Documents) -> Any:
    class Easy(StaICC.NormalTask):
        def score(self, outcomes: Any, scoring: Any) -> Any:
            scores = super().score(outcomes, scoring)
            better = {**scores.values, "accuracy": 0.95}
            return dataclasses.replace(scores, values=better, averaged=better)

    return saved_values(StaICC.Benchmark(Easy(), **FEW)(model))


def metric_under_the_name_of_a_standard_one(documents: Documents) -> Any:
    return saved_values(StaICC.Normal(**FEW, metrics={"accuracy": lambda truth, rows: 0.95})(model))


def metric_that_replaces_a_standard_one(documents: Documents) -> Any:
    benchmark = StaICC.Normal(**FEW)
    with pytest.warns(UserWarning, match="replaced"):
        benchmark[0].add_metric("accuracy", lambda truth, rows: 0.95)
    return saved_values(benchmark(model))


def rounds_renamed(documents: Documents) -> Any:
    return everywhere(documents["longicl"], "1R", "5R")


def rounds_renamed_in_the_arguments_too(documents: Documents) -> Any:
    document = rounds_renamed(documents)
    document["signature"]["options"] = document["signature"]["options"].replace("rounds=1+2", "rounds=5+2")
    document["arguments"]["rounds"] = [5, 2]
    return document


FORGERS: list[Callable[[Documents], Any]] = [
    part_of_another_identity,
    given_predictions_of_another_digest,
    given_predictions_as_those_of_a_model,
    part_of_a_race,
    unknown_data_set,
    name_of_a_built_in_data_set,
    own_data_under_the_name_of_a_built_in_data_set,
    other_rows_under_the_name_of_a_built_in_data_set,
    benchmark_that_calls_itself_normal,
    metric_under_the_name_of_a_standard_one,
    metric_that_replaces_a_standard_one,
    rounds_renamed,
    rounds_renamed_in_the_arguments_too,
]
FORGED = [*EDITS, *(forger.__name__ for forger in FORGERS)]
STATUSES = {
    "UNREADABLE": ["details of one more data set", "details of one data set less", "schema", "no arguments"],
    "UNCHECKED": [
        *("renamed benchmark with better scores", "LongICL under another name", "suite of an unknown name", "plug-in"),
        *("method of another model", "additional score", "direction", "no record of the file"),
        *("unknown entry", "unknown entry of a group", "arguments certified by the authors"),
        *("arguments changed ['template']", "arguments metrics own ['mine']"),
        *("signature version 1.1.0", "signature version 0.1.1", "part_of_a_race", "unknown_data_set"),
        *("own_data_under_the_name_of_a_built_in_data_set", "benchmark_that_calls_itself_normal"),
        *("metric_under_the_name_of_a_standard_one", "metric_that_replaces_a_standard_one"),
    ],
}
"""The forgeries that are not contradicted: this library has nothing to compare them with."""


@pytest.fixture(scope="module")
def board(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    """Return the folder with all results, and the status of each on the leaderboard."""
    folder = tmp_path_factory.mktemp("runs")
    documents = honest(folder)
    files = {f"honest {name}": document for name, document in documents.items()}
    for name, (source, edits) in EDITS.items():
        files[name] = changed(copy.deepcopy(documents[source]), edits, documents)
    for forger in FORGERS:
        files[forger.__name__] = forger(copy.deepcopy(documents))
    for name, document in files.items():
        (folder / f"{name}.json").write_text(json.dumps(with_digests(document)), "utf-8")

    output = folder / "reported.txt"
    with output.open("w", encoding="utf-8") as file, pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.stdout", file)
        assert main(["leaderboard", str(folder), "-o", str(folder / "site"), "--json"]) == 1
    entries = json.loads(output.read_text("utf-8"))
    return folder, {Path(entry["file"]).stem: entry["status"] for entry in entries}


def test_no_forged_result_is_recomputed_or_ranked(board: tuple[Path, dict[str, str]]) -> None:
    folder, statuses = board
    expected = {name: status for status, names in STATUSES.items() for name in names}
    reported = {name: statuses[name].split(":")[0] for name in FORGED}
    assert reported == dict.fromkeys(FORGED, "CONTRADICTED") | expected
    assert [name for name in FORGED if (folder / "site" / "results" / f"{name}.json").exists()] == []
    verified = {name: main(["verify", str(folder / f"{name}.json")]) for name in FORGED[::12]}
    assert {name: status for name, status in verified.items() if status not in (1, 2, 3)} == {}


def test_an_honest_result_is_recomputed_and_ranked(board: tuple[Path, dict[str, str]]) -> None:
    folder, statuses = board
    paths = sorted(folder.glob("honest *.json"))
    assert {path.stem: statuses[path.stem] for path in paths} == {path.stem: "recomputed" for path in paths}
    assert [path for path in paths if not (folder / "site" / "results" / path.name).exists()] == []
    assert main(["verify", *map(str, paths[::4])]) == 0
