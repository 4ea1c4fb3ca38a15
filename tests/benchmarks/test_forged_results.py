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
from StaICC import Normal, Suite
from StaICC.benchmarks.race import race
from StaICC.cli import main
from StaICC.datasets.dataset import Dataset
from StaICC.inference.identity import Identity
from StaICC.methods.many_shot import run_many_shot
from StaICC.methods.run import Method, run_all
from StaICC.results.files import with_digests
from tests import result_edits
from tests.benchmarks.test_verify_edits import hash_scores

PPM = StaICC.load_kernel("ppm")


# -- models


def reversed_hash_scores(prompt: Any, label_space: list[str]) -> list[float]:
    """Predict other scores than ``hash_scores``: in the opposite order of labels, halved, plus one."""
    return [score / 2 + 1 for score in reversed(hash_scores(prompt, label_space))]


def label_by_length(prompt: Any, label_space: list[str]) -> int:
    """Predict a bare label, by the length of the prompt."""
    return len(prompt) % len(label_space)


def fails_for_every_fifth_length(prompt: Any, label_space: list[str]) -> Any:
    """Predict scores, and nothing for prompts whose length is a multiple of five."""
    if len(prompt) % 5 == 0:
        return None
    return hash_scores(prompt, label_space)


def reply_with_one_of_three_labels(prompt: str, label_space: list[str]) -> str:
    """Reply with one of the first three labels, and to about a seventh of the prompts with an empty text."""
    number = hashlib.sha256(prompt.encode()).digest()[0]
    return label_space[number % 3] if number % 7 else ""


# -- honest results


def dataset_from_csv(path: Path, rows: list[tuple[str, str]]) -> Dataset:
    """Write rows of text and label to a file, and return the data set that is read from it."""
    with open(path, "w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([("text", "label"), *rows])
    return Dataset.from_file(path, "text", "label")


def own_dataset(folder: Path) -> Dataset:
    """Return the data set ``own`` of a file with 90 texts, of which every third one has the label "yes"."""
    rows = [(f"row {number}", "no" if number % 3 else "yes") for number in range(90)]
    return dataset_from_csv(folder / "own.csv", rows)


def intents_dataset(folder: Path) -> Dataset:
    """Return the data set ``intents`` of a file with 16 texts of each of 23 labels, as LongICL needs them."""
    rows = []
    for number in range(16):
        for letter in "abcdefghijklmnopqrstuvw":
            rows.append((f"Text {number} of kind {letter}", f"kind {letter}"))
    return dataset_from_csv(folder / "intents.csv", rows)


def runs_of_normal(own: Dataset) -> dict[str, Any]:
    """Return results of the benchmark Normal by name: of each kind of predictions, data and settings."""
    normal = Normal(datasets=["mini"], limit=4)
    with_three_tried = Normal(datasets=["mini"], limit=4, statistics=StaICC.Statistics(level=0.9, tried=3))
    return {
        "normal": normal(PPM),
        "bare labels": normal(label_by_length),
        "with failures": normal(fails_for_every_fifth_length, on_error="collect"),
        "given predictions": normal(preentered_prediction=[[0, 1, 2, 0, 1, 2, 0, 1]]),
        "two data sets": Normal(datasets=["mini", own], limit=4)(hash_scores),
        "own data": Normal(datasets=[own], limit=4)(hash_scores),
        "three settings tried": with_three_tried(hash_scores),
        "stopped early": Normal(datasets=["mini"])(hash_scores, precision=0.3),
    }


def runs_of_other_benchmarks(intents: Dataset) -> dict[str, Any]:
    """Return results of the other benchmarks by name; those of LongICL have replies, and scores of labels."""
    return {
        "bias": StaICC.PosteriorBias(datasets=["mini"], limit=4)(hash_scores),
        "domain": StaICC.DomainBias(datasets=["mini"], limit=4, domain_query_length=9)(hash_scores),
        "gler": StaICC.GLER(datasets=["mini"], limit=4)(hash_scores),
        "template": StaICC.TemplateSensitivity(datasets=["mini"], limit=4)(hash_scores),
        "generalisation": StaICC.Generalisation(datasets=["mini"], limit=4)(hash_scores),
        "longicl": StaICC.LongICL(datasets=[intents], rounds=(1, 2), limit=20)(reply_with_one_of_three_labels),
        "longicl with scores": StaICC.LongICL(datasets=[intents], rounds=[1], limit=20)(PPM),
    }


def runs_of_groups() -> dict[str, Any]:
    """Return results of several benchmarks, and a race of two models, by name."""
    return {
        "suite": Suite(datasets=["mini"], limit=4)(PPM),
        "suite of another model": Suite(datasets=["mini"], limit=4)(reversed_hash_scores),
        "suite with limit 2": Suite(datasets=["mini"], limit=2)(PPM),
        "suite with k 2": Suite(k=2, datasets=["mini"], limit=4)(PPM),
        "suite with metrics of 0.1.1": Suite(metrics="0.1.1", datasets=["mini"], limit=4)(PPM),
        "diagnosis": StaICC.Diagnosis(datasets=["mini"], limit=4)(PPM),
        "triplet": StaICC.TripletBias(datasets=["mini"], limit=4, domain_query_length=9)(PPM),
        "race": race(Normal(datasets=["mini"]), hash_scores, reversed_hash_scores, margin=0.3),
    }


def runs_of_methods() -> dict[str, Any]:
    """Return results of three methods, and of one method with one and two demonstrations, by name."""
    normal = Normal(datasets=["mini"], limit=4)
    triplet = StaICC.TripletBias(datasets=["mini"], limit=4)
    methods = ["vanilla", "contextual_calibration", "batch_calibration"]
    vanilla = Method("vanilla", PPM)
    return {
        "methods": run_all(PPM, normal, "staicc", 4, methods=methods),
        "methods of another model": run_all(reversed_hash_scores, normal, "staicc", 4, methods=methods),
        "methods on a group": run_all(PPM, triplet, "staicc", 4, methods=methods),
        "shots": run_many_shot(vanilla, lambda k: Normal(k, datasets=["mini"], limit=4), [1, 2]),
        "shots with limit 2": run_many_shot(vanilla, lambda k: Normal(k, datasets=["mini"], limit=2), [1, 2]),
    }


def as_saved(result: Any) -> Any:
    """Return the content of the file of a result."""
    return json.loads(json.dumps(result.to_dict()))


def honest_documents(folder: Path) -> dict[str, Any]:
    """Return the content of the file of each honest result, by name; the folder gets the files of own data."""
    results = {
        **runs_of_normal(own_dataset(folder)),
        **runs_of_other_benchmarks(intents_dataset(folder)),
        **runs_of_groups(),
        **runs_of_methods(),
    }
    return {name: as_saved(result) for name, result in results.items()}


# -- forgeries that replace values of an honest document

Documents = Mapping[str, Any]
"""The content of the files of honest results, by name."""

REMOVED = object()
"""In place of a new value: the field is removed."""


class ValueAt(NamedTuple):
    """In place of a new value: that at a path of the honest documents, such as ``suite/parts/Normal``."""

    path: str


class Forgery(NamedTuple):
    """A copy of an honest document in which values are replaced."""

    document: str
    """The name of the honest document."""
    new_values: Mapping[str, Any]
    """By the path of the value, such as ``details/mini/asked``: the new value, ``REMOVED``, or a ``ValueAt``."""


def keys_of(path: str) -> tuple[Any, ...]:
    """Return the keys of a path, such as ("conditions", 0) of ``conditions/0``."""
    return tuple(int(key) if key.isdigit() else key for key in path.split("/"))


def value_in(container: Any, key: Any) -> Any:
    """Return the value of a key of a dictionary or of an index of a list; of a missing key, ``REMOVED``."""
    if isinstance(container, dict):
        return container.get(key, REMOVED)
    return container[key]


def forge(forgery: Forgery, documents: Documents) -> Any:
    """Return the forged document; each new value must differ from the honest one."""
    document = copy.deepcopy(documents[forgery.document])
    for path, new_value in forgery.new_values.items():
        *outer_keys, last_key = keys_of(path)
        container = result_edits.value_at(document, tuple(outer_keys))
        if isinstance(new_value, ValueAt):
            new_value = copy.deepcopy(result_edits.value_at(documents, keys_of(new_value.path)))
        assert new_value != value_in(container, last_key), path
        if new_value is REMOVED:
            del container[last_key]
        else:
            container[last_key] = new_value
    return document


FORGERIES: dict[str, Forgery] = {
    # of the name and the parts of a group
    "renamed benchmark with better scores": Forgery(
        "normal",
        {
            "benchmark": "MyBench",
            "signature/benchmark": "MyBench",
            "Divided results/mini/accuracy": 0.95,
            "Averaged results/accuracy": 0.95,
        },
    ),
    "draws called templates": Forgery("generalisation", {"arguments/options": {"draws": 3, "templates": 4}}),
    "parts swapped": Forgery(
        "suite",
        {
            "parts/Template_sens": ValueAt("suite/parts/Demo_sens"),
            "parts/Demo_sens": ValueAt("suite/parts/Template_sens"),
        },
    ),
    "parts swapped and renamed": Forgery(
        "suite",
        {
            "parts/Template_sens": ValueAt("suite/parts/Demo_sens"),
            "parts/Template_sens/benchmark": "Template_sens",
            "parts/Template_sens/signature/benchmark": "Template_sens",
            "parts/Demo_sens": ValueAt("suite/parts/Template_sens"),
            "parts/Demo_sens/benchmark": "Demo_sens",
            "parts/Demo_sens/signature/benchmark": "Demo_sens",
        },
    ),
    "part of another model": Forgery("suite", {"parts/Normal": ValueAt("suite of another model/parts/Normal")}),
    "missing part": Forgery("suite", {"parts/GLER": REMOVED}),
    "additional part": Forgery("diagnosis", {"parts/Normal": ValueAt("suite/parts/Normal")}),
    "suite called diagnosis": Forgery("suite", {"name": "Diagnosis"}),
    "suite of an unknown name": Forgery("suite", {"name": "MySuite"}),
    "part under another name": Forgery("suite", {"parts/Main": ValueAt("suite/parts/Normal"), "parts/Normal": REMOVED}),
    "part twice": Forgery("triplet", {"parts/contextual again": ValueAt("triplet/parts/contextual")}),
    "group in a group": Forgery("suite", {"parts/Normal": ValueAt("suite")}),
    "part with another limit": Forgery("suite", {"parts/GLER": ValueAt("suite with limit 2/parts/GLER")}),
    "first part with another k": Forgery("suite", {"parts/Normal": ValueAt("suite with k 2/parts/Normal")}),
    "part with another option": Forgery("suite", {"parts/Domain_bias": ValueAt("triplet/parts/domain")}),
    "part of another model name": Forgery("suite", {"parts/Normal/provenance/predictors/0/name": "a better model"}),
    "part of a method": Forgery(
        "suite",
        {
            "parts/Normal/signature/method": "hidden_calibration paper",
            "parts/Normal/provenance/method": "hidden_calibration paper",
        },
    ),
    "methods swapped": Forgery(
        "methods",
        {
            "parts/vanilla": ValueAt("methods/parts/batch_calibration"),
            "parts/batch_calibration": ValueAt("methods/parts/vanilla"),
        },
    ),
    "method of another model": Forgery("methods", {"parts/vanilla": ValueAt("methods of another model/parts/vanilla")}),
    "method on a part of the group": Forgery("methods on a group", {"parts/vanilla/parts/post": REMOVED}),
    "shots swapped": Forgery(
        "shots", {"parts/k=1": ValueAt("shots/parts/k=2"), "parts/k=2": ValueAt("shots/parts/k=1")}
    ),
    "race swapped": Forgery(
        "race", {"parts/first": ValueAt("race/parts/second"), "parts/second": ValueAt("race/parts/first")}
    ),
    "race against itself": Forgery("race", {"parts/second": ValueAt("race/parts/first")}),
    "race of complete runs": Forgery("race", {"parts/first": ValueAt("normal"), "parts/second": ValueAt("normal")}),
    "plug-in": Forgery("normal", {"signature/benchmark": "Normal@my-plugin-1.0"}),
    "benchmark that its signature denies": Forgery("normal", {"benchmark": "Post_bias"}),
    # of LongICL
    "LongICL under another name": Forgery("longicl", {"benchmark": "MyLongICL", "signature/benchmark": "MyLongICL"}),
    "score of a round": Forgery("longicl", {"Divided results/intents/1R": 0.9}),
    "parsing": Forgery("longicl", {"Divided results/intents/settings/parsing": "published"}),
    "option in the signature": Forgery("longicl", {"signature/options": "parsing=published,rounds=1+2"}),
    "round in the arguments": Forgery("longicl", {"arguments/rounds": [5, 2]}),
    # of data sets and scores
    "additional data set": Forgery(
        "normal",
        {
            "Divided results/subjective": ValueAt("normal/Divided results/mini"),
            "details/subjective": ValueAt("normal/details/mini"),
        },
    ),
    "details of one more data set": Forgery("normal", {"details/subjective": ValueAt("normal/details/mini")}),
    "details of one data set less": Forgery("two data sets", {"details/own": REMOVED}),
    "missing data set": Forgery(
        "two data sets",
        {
            "Divided results/own": REMOVED,
            "details/own": REMOVED,
            "Averaged results": ValueAt("two data sets/Divided results/mini"),
        },
    ),
    "no data set": Forgery("normal", {"Divided results": {}, "details": {}}),
    "mean of the best data set": Forgery(
        "two data sets", {"Averaged results/accuracy": ValueAt("two data sets/Divided results/mini/accuracy")}
    ),
    "additional score": Forgery("normal", {"Divided results/mini/F-beta": 0.99, "Averaged results/F-beta": 0.99}),
    "missing score": Forgery(
        "normal", {"Divided results/mini/macro_F1": REMOVED, "Averaged results/macro_F1": REMOVED}
    ),
    "undefined score": Forgery("normal", {"Divided results/mini/accuracy": None, "Averaged results/accuracy": None}),
    "defined score": Forgery(
        "bare labels",
        {
            "Divided results/mini/averaged_truelabel_likelihood": 0.9,
            "Averaged results/averaged_truelabel_likelihood": 0.9,
        },
    ),
    "no intervals": Forgery("normal", {"details/mini/intervals": {}}),
    "no baselines": Forgery("normal", {"details/mini/baselines": {}}),
    "label names": Forgery("normal", {"details/mini/labels": ["x", "travel", "weather"]}),
    "direction": Forgery("normal", {"higher_is_better": {"expected_calibration_error_1": True}}),
    "settings tried": Forgery("three settings tried", {"details/mini/baselines/normal/tried": 1}),
    "lower baseline": Forgery("normal", {"details/mini/baselines/normal/majority": 0.1}),
    "digest of the data": Forgery("normal", {"details/mini/data": "0" * 64}),
    "number of queries": Forgery("normal", {"details/mini/asked": 800}),
    "notes": Forgery("normal", {"details/mini/notes": ["an external auditor confirmed the scores"]}),
    "no label scores": Forgery(
        "normal",
        {
            "details/mini/conditions/0/scores": None,
            "Divided results/mini/averaged_truelabel_likelihood": 0.99,
            "Averaged results/averaged_truelabel_likelihood": 0.99,
        },
    ),
    "true labels": Forgery(
        "bare labels",
        {
            "details/mini/conditions/0/truth": ValueAt("bare labels/details/mini/conditions/0/predictions"),
            "Divided results/mini/accuracy": 1.0,
            "Averaged results/accuracy": 1.0,
        },
    ),
    "hidden failures": Forgery(
        "with failures",
        {
            "details/mini/failures": [],
            "details/mini/failed": 0,
            "provenance/failures": None,
            "provenance/predictors/0/failed": 0,
            "signature/failed": REMOVED,
        },
    ),
    # of provenance and arguments
    "schema": Forgery("normal", {"schema": 1}),
    "identity": Forgery("normal", {"provenance/predictors/0/identity": "0" * 64}),
    "predictor of other data": Forgery("normal", {"provenance/predictors/0/datasets": ["TREC"]}),
    "who": Forgery("normal", {"provenance/predictors/0/who": {"model": "gpt2"}}),
    "no predictors": Forgery("normal", {"provenance/predictors": []}),
    "method in the provenance": Forgery("normal", {"provenance/method": "knn_prompt paper"}),
    "unknown entry": Forgery("normal", {"certified by": "the authors"}),
    "unknown entry of a group": Forgery("suite", {"certified by": "the authors"}),
    "no arguments": Forgery("normal", {"arguments": REMOVED}),
    "arguments of a part": Forgery("suite", {"parts/GLER/arguments/limit": 5}),
    "no intervals in the arguments": Forgery("normal", {"arguments/statistics/intervals": False}),
    "option in the arguments": Forgery("domain", {"arguments/options/domain_query_length": 10}),
    "no warnings about the data": Forgery("own data", {"warnings": REMOVED}),
    "no record of the file": Forgery("own data", {"files": REMOVED}),
    # of early stopping
    "interval of stopping": Forgery("stopped early", {"stopping/interval/low": 0.33}),
    "estimate of stopping": Forgery("stopped early", {"stopping/estimate": 0.9}),
    "target of stopping": Forgery("stopped early", {"stopping/target": 0.05}),
    "rounds of stopping": Forgery("stopped early", {"stopping/rounds": 24}),
    "all_rounds of stopping": Forgery("stopped early", {"stopping/all_rounds": 512}),
    "queries of stopping": Forgery("stopped early", {"stopping/queries": 10}),
    "all_queries of stopping": Forgery("stopped early", {"stopping/all_queries": 10}),
    "reason of stopping": Forgery("stopped early", {"stopping/reason": "all rows are evaluated"}),
    "score of stopping": Forgery("stopped early", {"stopping/score": "macro_F1"}),
    "rule of stopping": Forgery("stopped early", {"stopping/rule": "race"}),
    "stopped run": Forgery(
        "normal",
        {
            "stopping": ValueAt("stopped early/stopping"),
            "signature/stopping": ValueAt("stopped early/signature/stopping"),
        },
    ),
    "stopped run that claims to be complete": Forgery(
        "stopped early", {"stopping": REMOVED, "signature/stopping": REMOVED}
    ),
    # of fields of the signature
    "signature version 1.1.0": Forgery("normal", {"signature/version": "1.1.0"}),
    "signature version 0.1.1": Forgery("normal", {"signature/version": "0.1.1"}),
    "signature k": Forgery("normal", {"signature/k": "5"}),
    "signature without limit": Forgery("normal", {"signature/limit": REMOVED}),
    "signature metrics of 0.1.1": Forgery("normal", {"signature/metrics": "0.1.1"}),
    "signature metrics none": Forgery("normal", {"signature/metrics": "none"}),
    "signature metrics with an own one": Forgery("normal", {"signature/metrics": "standard+mine@0123456789ab"}),
    "signature metrics mixed": Forgery("normal", {"signature/metrics": "mixed-0123456789ab"}),
    "signature statistics": Forgery("normal", {"signature/statistics": "none"}),
    "signature template": Forgery("normal", {"signature/template": "changed-0123456789ab"}),
    "signature channel": Forgery("normal", {"signature/channel": "noisy"}),
    "signature demonstrations": Forgery("normal", {"signature/demonstrations": "manual-0123456789ab"}),
    "signature datasets": Forgery("normal", {"signature/datasets": "TREC"}),
    "signature without datasets": Forgery("normal", {"signature/datasets": REMOVED}),
    "signature prompts": Forgery("normal", {"signature/prompts": "0" * 12}),
    "signature split": Forgery("normal", {"signature/split": "1+2+3"}),
    "signature sampler": Forgery("normal", {"signature/sampler": "lcg43"}),
    "signature scoring": Forgery("normal", {"signature/scoring": "label_scoring=full"}),
    "signature method": Forgery("normal", {"signature/method": "knn_prompt paper"}),
    # of fields of the arguments
    "arguments k": Forgery("normal", {"arguments/k": 5}),
    "arguments limit": Forgery("normal", {"arguments/limit": None}),
    "arguments sampler": Forgery("normal", {"arguments/sampler": "nested"}),
    "arguments noisy_channel": Forgery("normal", {"arguments/noisy_channel": True}),
    "arguments changed": Forgery("normal", {"arguments/changed": ["template"]}),
    "arguments own metrics": Forgery("normal", {"arguments/metrics/own": ["mine"]}),
    "arguments metric set": Forgery("normal", {"arguments/metrics/set": None}),
    "arguments certified by the authors": Forgery("normal", {"arguments/certified by": "the authors"}),
    "arguments without changed": Forgery("normal", {"arguments/changed": REMOVED}),
    "arguments without options": Forgery("normal", {"arguments/options": REMOVED}),
    "arguments without metrics": Forgery("normal", {"arguments/metrics": REMOVED}),
    "arguments without k": Forgery("normal", {"arguments/k": REMOVED}),
    "arguments without statistics": Forgery("normal", {"arguments/statistics": REMOVED}),
}


# -- forgeries that need more than new values; each function gets a copy of the honest documents


def only_one_part(documents: Documents) -> Any:
    suite = documents["suite"]
    suite["parts"] = {"Normal": suite["parts"]["Normal"]}
    return suite


def other_reasons_of_missing_scores(documents: Documents) -> Any:
    missing = documents["bare labels"]["details"]["mini"]["missing"]
    for score in missing:
        missing[score] = "the server was down"
    return documents["bare labels"]


def higher_level_everywhere(documents: Documents) -> Any:
    """The intervals of the level 0.95 are said to be of 0.99, wherever the file states the level."""
    normal = documents["normal"]
    for intervals in (normal["details"]["mini"]["intervals"], normal["means"]["intervals"]):
        for interval in intervals.values():
            interval["level"] = 0.99
    normal["arguments"]["statistics"]["level"] = 0.99
    normal["signature"]["statistics"] = normal["signature"]["statistics"].replace("0.95", "0.99")
    return normal


def replace_text(value: Any, old: str, new: str) -> Any:
    """Return a copy of JSON data with another text in place of one, in all texts and keys."""
    if isinstance(value, dict):
        return {replace_text(key, old, new): replace_text(item, old, new) for key, item in value.items()}
    if isinstance(value, list):
        return [replace_text(item, old, new) for item in value]
    if isinstance(value, str):
        return value.replace(old, new)
    return value


def replace_predictor(document: Any, **who: str) -> None:
    """Say in a document that another model predicted, with the digest of its identity."""
    (predictor,) = document["provenance"]["predictors"]
    predictor["who"] = who
    predictor["identity"] = Identity(who, predictor["how"]).digest


def part_of_another_identity(documents: Documents) -> Any:
    replace_predictor(documents["suite"]["parts"]["GLER"], model="a better model")
    return documents["suite"]


def given_predictions_of_another_digest(documents: Documents) -> Any:
    replace_predictor(documents["given predictions"], **{"predictions given": "0" * 64})
    return documents["given predictions"]


def given_predictions_as_those_of_a_model(documents: Documents) -> Any:
    """The name of a model does not make given predictions those of a model."""
    document = documents["given predictions"]
    replace_predictor(document, model="a better model")
    document["provenance"]["predictors"][0]["name"] = "a better model"
    return document


def part_of_a_race(documents: Documents) -> Any:
    return documents["race"]["parts"]["first"]


def unknown_data_set(documents: Documents) -> Any:
    return replace_text(documents["normal"], "mini", "MyData")


def name_of_a_built_in_data_set(documents: Documents) -> Any:
    return replace_text(documents["normal"], "mini", "subjective")


def own_data_under_the_name_of_a_built_in_data_set(documents: Documents) -> Any:
    document = replace_text(documents["own data"], "own", "mini")
    document["files"]["mini"]["file"] = "own.csv"
    return document


def other_rows_under_the_name_of_a_built_in_data_set(documents: Documents) -> Any:
    rows = [(f"food {number}", "food") for number in range(40)]
    rows += [("rain", "weather"), ("train", "travel")] * 20
    easy = Dataset.from_rows(rows, name="easy", label_space=["food", "travel", "weather"])
    called_mini = Dataset(dataclasses.replace(easy.card, name="mini"), easy.table)
    return as_saved(Normal(datasets=[called_mini])(label_by_length))


def benchmark_that_calls_itself_normal(documents: Documents) -> Any:
    """Return a benchmark whose task has the name of Normal's, and an accuracy of 0.95 whatever the predictions are."""

    class GenerousTask(StaICC.NormalTask):
        def score(self, outcomes: Any, scoring: Any) -> Any:
            scores = super().score(outcomes, scoring)
            better = {**scores.values, "accuracy": 0.95}
            return dataclasses.replace(scores, values=better, averaged=better)

    return as_saved(StaICC.Benchmark(GenerousTask(), datasets=["mini"], limit=4)(hash_scores))


def metric_under_the_name_of_a_standard_one(documents: Documents) -> Any:
    own_metrics = {"accuracy": lambda truth, rows: 0.95}
    return as_saved(Normal(datasets=["mini"], limit=4, metrics=own_metrics)(hash_scores))


def metric_that_replaces_a_standard_one(documents: Documents) -> Any:
    benchmark = Normal(datasets=["mini"], limit=4)
    with pytest.warns(UserWarning, match="replaced"):
        benchmark[0].add_metric("accuracy", lambda truth, rows: 0.95)
    return as_saved(benchmark(hash_scores))


def rounds_renamed(documents: Documents) -> Any:
    return replace_text(documents["longicl"], "1R", "5R")


def rounds_renamed_in_the_arguments_too(documents: Documents) -> Any:
    document = rounds_renamed(documents)
    document["signature"]["options"] = document["signature"]["options"].replace("rounds=1+2", "rounds=5+2")
    document["arguments"]["rounds"] = [5, 2]
    return document


FORGERS: list[Callable[[Documents], Any]] = [
    only_one_part,
    other_reasons_of_missing_scores,
    higher_level_everywhere,
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

# -- the leaderboard of all files

FORGED_NAMES = [*FORGERIES, *(forger.__name__ for forger in FORGERS)]

UNREADABLE = ["details of one more data set", "details of one data set less", "schema", "no arguments"]
UNCHECKED = [
    "renamed benchmark with better scores",
    "LongICL under another name",
    "suite of an unknown name",
    "plug-in",
    "method of another model",
    "additional score",
    "direction",
    "no record of the file",
    "unknown entry",
    "unknown entry of a group",
    "arguments certified by the authors",
    "arguments changed",
    "arguments own metrics",
    "signature version 1.1.0",
    "signature version 0.1.1",
    "part_of_a_race",
    "unknown_data_set",
    "own_data_under_the_name_of_a_built_in_data_set",
    "benchmark_that_calls_itself_normal",
    "metric_under_the_name_of_a_standard_one",
    "metric_that_replaces_a_standard_one",
]
"""The forgeries that are not contradicted: this library has nothing to compare them with."""


class Leaderboard(NamedTuple):
    """The leaderboard of a folder with honest and forged results; their files have the names of the results."""

    folder: Path
    honest_names: list[str]
    statuses: dict[str, str]
    """The status of each file by its name, such as "recomputed", or "CONTRADICTED: ..." with the reason."""

    def is_ranked(self, name: str) -> bool:
        """Return whether the site has a copy of the file of a result, as it has of those that it ranks."""
        return (self.folder / "site" / "results" / f"{name}.json").exists()

    def path(self, name: str) -> str:
        return str(self.folder / f"{name}.json")


@pytest.fixture(scope="module")
def leaderboard(tmp_path_factory: pytest.TempPathFactory) -> Leaderboard:
    folder = tmp_path_factory.mktemp("runs")
    honest = honest_documents(folder)
    documents = {f"honest {name}": document for name, document in honest.items()}
    honest_names = list(documents)
    for name, forgery in FORGERIES.items():
        documents[name] = forge(forgery, honest)
    for forger in FORGERS:
        documents[forger.__name__] = forger(copy.deepcopy(honest))
    for name, document in documents.items():
        (folder / f"{name}.json").write_text(json.dumps(with_digests(document)), "utf-8")

    output = folder / "reported.txt"
    with output.open("w", encoding="utf-8") as file, pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.stdout", file)
        exit_status = main(["leaderboard", str(folder), "-o", str(folder / "site"), "--json"])
    assert exit_status == 1, "some results are refused"
    entries = json.loads(output.read_text("utf-8"))
    statuses = {Path(entry["file"]).stem: entry["status"] for entry in entries}
    return Leaderboard(folder, honest_names, statuses)


def test_forged_results_are_contradicted_unchecked_or_unreadable(leaderboard: Leaderboard) -> None:
    statuses = {name: leaderboard.statuses[name].split(":")[0] for name in FORGED_NAMES}

    expected = dict.fromkeys(FORGED_NAMES, "CONTRADICTED")
    expected |= dict.fromkeys(UNREADABLE, "UNREADABLE")
    expected |= dict.fromkeys(UNCHECKED, "UNCHECKED")
    assert statuses == expected


def test_no_forged_result_is_ranked(leaderboard: Leaderboard) -> None:
    ranked = [name for name in FORGED_NAMES if leaderboard.is_ranked(name)]

    assert ranked == []


def test_the_command_verify_fails_for_forged_results(leaderboard: Leaderboard) -> None:
    """Of every twelfth one, to save time. It exits with 1 (contradicted), 2 (unreadable) or 3 (unchecked)."""
    for name in FORGED_NAMES[::12]:
        assert main(["verify", leaderboard.path(name)]) in (1, 2, 3), name


def test_honest_results_are_recomputed(leaderboard: Leaderboard) -> None:
    statuses = {name: leaderboard.statuses[name] for name in leaderboard.honest_names}

    assert statuses == dict.fromkeys(leaderboard.honest_names, "recomputed")


def test_honest_results_are_ranked(leaderboard: Leaderboard) -> None:
    not_ranked = [name for name in leaderboard.honest_names if not leaderboard.is_ranked(name)]

    assert not_ranked == []


def test_the_command_verify_succeeds_for_honest_results(leaderboard: Leaderboard) -> None:
    """Of every fourth one, to save time."""
    paths = [leaderboard.path(name) for name in sorted(leaderboard.honest_names)[::4]]

    assert main(["verify", *paths]) == 0
