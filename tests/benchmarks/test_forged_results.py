"""Forged results: none is recomputed as a whole, and none is ranked; honest results of every benchmark are.

A forger can compute the digests of a file again, so every forged file has the right ones.
"""

from __future__ import annotations

import copy
import csv
import dataclasses
import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import StaICC
from StaICC.benchmarks.race import race
from StaICC.cli import main
from StaICC.datasets import Dataset
from StaICC.inference.identity import Identity
from StaICC.methods.run import Method, run_all, run_many_shot
from StaICC.results.result import with_digests

DIVIDED, AVERAGED = "Divided results", "Averaged results"
METHODS = ["vanilla", "contextual_calibration", "batch_calibration"]
LABELS = [f"kind {letter}" for letter in "abcdefghijklmnopqrstuvw"]


def model(prompt: Any, label_space: list[str]) -> list[float]:
    return [hashlib.sha256(f"{prompt}\0{label}".encode()).digest()[0] / 16 - 8 for label in label_space]


def other(prompt: Any, label_space: list[str]) -> list[float]:
    return [value / 2 + 1 for value in model(prompt, label_space)[::-1]]


def label(prompt: Any, label_space: list[str]) -> int:
    return len(prompt) % len(label_space)


def unsure(prompt: Any, label_space: list[str]) -> Any:
    return None if len(prompt) % 5 == 0 else model(prompt, label_space)


def text(prompt: str, label_space: list[str]) -> str:
    number = hashlib.sha256(prompt.encode()).digest()[0]
    return label_space[number % 3] if number % 7 else ""


def honest(folder: Path) -> dict[str, Any]:
    """The saved results of every kind of run, by a name."""
    with open(folder / "own.csv", "w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([("text", "label"), *((f"row {n}", "no" if n % 3 else "yes") for n in range(90))])
    with open(folder / "intents.csv", "w", encoding="utf-8", newline="") as file:
        pairs = [(f"Text {turn} of {one}", one) for turn in range(16) for one in LABELS]
        csv.writer(file).writerows([("query", "intent"), *pairs])
    own = Dataset.from_file(folder / "own.csv", "text", "label")
    intents = Dataset.from_file(folder / "intents.csv", "query", "intent")
    few: dict[str, Any] = {"datasets": ["mini"], "limit": 4}
    kernel = StaICC.load_kernel("ppm")
    normal = StaICC.Normal(**few)
    found: dict[str, Any] = {
        "normal": normal(kernel),
        "labels": normal(label),
        "partial": normal(unsure, on_error="collect"),
        "given": normal(preentered_prediction=[[n % 3 for n in range(8)]]),
        "two": StaICC.Normal(datasets=["mini", own], limit=4)(model),
        "own": StaICC.Normal(datasets=[own], limit=4)(model),
        "bias": StaICC.PosteriorBias(**few)(model),
        "domain": StaICC.DomainBias(**few, domain_query_length=9)(model),
        "gler": StaICC.GLER(**few)(model),
        "template": StaICC.TemplateSensitivity(**few)(model),
        "tried": StaICC.Normal(**few, statistics=StaICC.Statistics(level=0.9, tried=3))(model),
        "suite": StaICC.Suite(**few)(kernel),
        "other": StaICC.Suite(**few)(other),
        "small": StaICC.Suite(datasets=["mini"], limit=2)(kernel),
        "k2": StaICC.Suite(k=2, **few)(kernel),
        "released": StaICC.Suite(metrics="0.1.1", **few)(kernel),
        "diagnosis": StaICC.Diagnosis(**few)(kernel),
        "triplet": StaICC.TripletBias(**few, domain_query_length=9)(kernel),
        "longicl": StaICC.LongICL(datasets=[intents], rounds=(1, 2), test_number=20)(text),
        "scored": StaICC.LongICL(datasets=[intents], rounds=[1], test_number=20)(kernel),
        "stopped": StaICC.Normal(datasets=["mini"])(model, precision=0.3),
        "race": race(StaICC.Normal(datasets=["mini"]), model, other, margin=0.3),
        "methods": run_all(kernel, normal, "staicc", 4, methods=METHODS),
        "others": run_all(other, normal, "staicc", 4, methods=METHODS),
        "of_groups": run_all(kernel, StaICC.TripletBias(**few), "staicc", 4, methods=METHODS),
        "shots": run_many_shot(Method("vanilla", kernel), lambda k: StaICC.Normal(k, **few), [1, 2]),
        "fewer": run_many_shot(
            Method("vanilla", kernel), lambda k: StaICC.Normal(k, datasets=["mini"], limit=2), [1, 2]
        ),
    }
    return {name: json.loads(json.dumps(one.to_dict())) for name, one in found.items()}


# -- forgeries: each gets copies of the honest documents and returns what the forger saves

Documents = dict[str, Any]
Forgery = Callable[[Documents], Any]
FORGERIES: dict[str, Forgery] = {}


def forgery(made: Forgery) -> Forgery:
    FORGERIES[made.__name__] = made
    return made


def edit(name: str, source: str, *path: Any, to: Any) -> None:
    """Register a forgery that changes one value; ``None`` removes it."""

    def made(docs: Documents) -> Any:
        inner = docs[source]
        for key in path[:-1]:
            inner = inner[key]
        assert inner.get(path[-1]) != to, name
        inner[path[-1]] = to
        if to is None:
            del inner[path[-1]]
        return docs[source]

    FORGERIES[name] = made


def everywhere(document: Any, old: str, new: str) -> Any:
    """Another name in all texts and keys of a document."""
    if isinstance(document, dict):
        return {everywhere(key, old, new): everywhere(value, old, new) for key, value in document.items()}
    if isinstance(document, list):
        return [everywhere(value, old, new) for value in document]
    return document.replace(old, new) if isinstance(document, str) else document


def called(document: Any, name: str) -> Any:
    """The result under the name of another benchmark."""
    document["benchmark"] = document["signature"]["benchmark"] = name
    return document


def predicted_by(document: Any, **who: str) -> Any:
    """The result with another model, whose identity is computed again."""
    (predictor,) = document["provenance"]["predictors"]
    predictor["who"] = who
    predictor["identity"] = Identity(who, predictor["how"]).digest
    return document


# the kinds of the review


@forgery
def a_renamed_benchmark_with_better_scores(docs: Documents) -> Any:
    found = called(docs["normal"], "MyBench")
    found[DIVIDED]["mini"]["accuracy"] = found[AVERAGED]["accuracy"] = 0.95
    return found


@forgery
def a_renamed_benchmark(docs: Documents) -> Any:
    return called(docs["normal"], "MyBench")


@forgery
def a_renamed_gler_with_better_slopes(docs: Documents) -> Any:
    found = called(docs["gler"], "MyGLER")
    found[DIVIDED]["mini"]["sensitivity"]["accuracy"] = [0.9, 0.0]
    found[AVERAGED]["accuracy"] = 0.9
    return found


@forgery
def two_parts_swapped(docs: Documents) -> Any:
    parts = docs["suite"]["parts"]
    parts["Template_sens"], parts["Demo_sens"] = parts["Demo_sens"], parts["Template_sens"]
    return docs["suite"]


@forgery
def two_parts_swapped_and_renamed(docs: Documents) -> Any:
    parts = docs["suite"]["parts"]
    first, second = parts["Template_sens"], parts["Demo_sens"]
    parts["Template_sens"], parts["Demo_sens"] = called(second, "Template_sens"), called(first, "Demo_sens")
    return docs["suite"]


@forgery
def one_part_of_another_model(docs: Documents) -> Any:
    docs["suite"]["parts"]["Normal"] = docs["other"]["parts"]["Normal"]
    return docs["suite"]


@forgery
def one_part_only(docs: Documents) -> Any:
    docs["suite"]["parts"] = {"Normal": docs["suite"]["parts"]["Normal"]}
    return docs["suite"]


@forgery
def a_part_is_missing(docs: Documents) -> Any:
    del docs["suite"]["parts"]["GLER"]
    return docs["suite"]


@forgery
def a_part_more(docs: Documents) -> Any:
    docs["diagnosis"]["parts"]["Normal"] = docs["suite"]["parts"]["Normal"]
    return docs["diagnosis"]


@forgery
def a_suite_called_diagnosis(docs: Documents) -> Any:
    return docs["suite"] | {"name": "Diagnosis"}


@forgery
def a_diagnosis_called_suite(docs: Documents) -> Any:
    return docs["diagnosis"] | {"name": "Suite"}


@forgery
def a_suite_called_otherwise(docs: Documents) -> Any:
    return docs["suite"] | {"name": "MySuite"}


REVIEWED = len(FORGERIES)

# groups


@forgery
def a_part_under_another_name(docs: Documents) -> Any:
    docs["suite"]["parts"]["Main"] = docs["suite"]["parts"].pop("Normal")
    return docs["suite"]


@forgery
def a_part_twice(docs: Documents) -> Any:
    docs["triplet"]["parts"]["contextual again"] = docs["triplet"]["parts"]["contextual"]
    return docs["triplet"]


@forgery
def a_group_in_a_group(docs: Documents) -> Any:
    docs["suite"]["parts"]["Normal"] = {**docs["suite"], "parts": {"Normal": docs["suite"]["parts"]["Normal"]}}
    return docs["suite"]


@forgery
def a_group_without_parts(docs: Documents) -> Any:
    return docs["suite"] | {"name": "Methods", "parts": {}}


def part_from(name: str, source: str, part: str) -> None:
    def made(docs: Documents) -> Any:
        docs["suite"]["parts"][part] = docs[source]["parts"][part]
        return docs["suite"]

    FORGERIES[name] = made


part_from("a_part_with_another_limit", "small", "GLER")
part_from("a_part_with_another_k", "k2", "Contextual_bias")
part_from("the_first_part_with_another_k", "k2", "Normal")
part_from("a_part_with_other_metrics", "released", "Normal")


@forgery
def a_part_of_another_domain_query_length(docs: Documents) -> Any:
    docs["suite"]["parts"]["Domain_bias"] = docs["triplet"]["parts"]["domain"]
    return docs["suite"]


@forgery
def a_part_of_another_data_set(docs: Documents) -> Any:
    docs["triplet"]["parts"]["post"] = called(docs["own"], "Post_bias")
    return docs["triplet"]


@forgery
def a_part_of_another_model_name(docs: Documents) -> Any:
    docs["suite"]["parts"]["Normal"]["provenance"]["predictors"][0]["name"] = "a better model"
    return docs["suite"]


@forgery
def a_part_of_another_identity(docs: Documents) -> Any:
    predicted_by(docs["suite"]["parts"]["GLER"], model="a better model")
    return docs["suite"]


@forgery
def a_part_of_a_method(docs: Documents) -> Any:
    part = docs["suite"]["parts"]["Normal"]
    part["signature"]["method"] = part["provenance"]["method"] = "hidden_calibration paper"
    return docs["suite"]


@forgery
def methods_swapped(docs: Documents) -> Any:
    parts = docs["methods"]["parts"]
    parts["vanilla"], parts["batch_calibration"] = parts["batch_calibration"], parts["vanilla"]
    return docs["methods"]


@forgery
def a_method_of_another_model(docs: Documents) -> Any:
    docs["methods"]["parts"]["vanilla"] = docs["others"]["parts"]["vanilla"]
    return docs["methods"]


@forgery
def a_method_of_another_limit(docs: Documents) -> Any:
    docs["methods"]["parts"]["vanilla"] = docs["small"]["parts"]["Normal"]
    return docs["methods"]


@forgery
def a_method_on_another_benchmark(docs: Documents) -> Any:
    docs["methods"]["parts"]["vanilla"] = docs["suite"]["parts"]["Post_bias"]
    return docs["methods"]


@forgery
def a_method_on_a_part_of_the_group(docs: Documents) -> Any:
    del docs["of_groups"]["parts"]["vanilla"]["parts"]["post"]
    return docs["of_groups"]


@forgery
def methods_called_otherwise(docs: Documents) -> Any:
    return docs["methods"] | {"name": "Many-shot"}


@forgery
def shots_swapped(docs: Documents) -> Any:
    parts = docs["shots"]["parts"]
    parts["k=1"], parts["k=2"] = parts["k=2"], parts["k=1"]
    return docs["shots"]


@forgery
def shots_of_another_limit(docs: Documents) -> Any:
    docs["shots"]["parts"]["k=2"] = docs["fewer"]["parts"]["k=2"]
    return docs["shots"]


@forgery
def a_race_swapped(docs: Documents) -> Any:
    parts = docs["race"]["parts"]
    parts["first"], parts["second"] = parts["second"], parts["first"]
    return docs["race"]


@forgery
def a_race_against_itself(docs: Documents) -> Any:
    docs["race"]["parts"]["second"] = docs["race"]["parts"]["first"]
    return docs["race"]


@forgery
def a_race_of_complete_runs(docs: Documents) -> Any:
    docs["race"]["parts"] = dict.fromkeys(("first", "second"), docs["normal"])
    return docs["race"]


@forgery
def a_race_without_its_second_model(docs: Documents) -> Any:
    del docs["race"]["parts"]["second"]
    return docs["race"]


@forgery
def a_race_of_three(docs: Documents) -> Any:
    docs["race"]["parts"]["third"] = docs["race"]["parts"]["first"]
    return docs["race"]


@forgery
def a_part_of_a_race_alone(docs: Documents) -> Any:
    return docs["race"]["parts"]["first"]


# names


@forgery
def an_unknown_data_set(docs: Documents) -> Any:
    return everywhere(docs["normal"], "mini", "MyData")


@forgery
def the_name_of_a_built_in_data_set(docs: Documents) -> Any:
    return everywhere(docs["normal"], "mini", "subjective")


@forgery
def own_data_under_the_name_of_a_built_in_data_set(docs: Documents) -> Any:
    found = everywhere(docs["own"], "own", "mini")
    found["files"]["mini"]["file"] = "own.csv"
    return found


@forgery
def other_rows_under_the_name_of_a_built_in_data_set(docs: Documents) -> Any:
    rows = [(f"food {n}", "food") for n in range(40)] + [("rain", "weather"), ("train", "travel")] * 20
    easy = Dataset.from_rows(rows, name="easy", label_space=["food", "travel", "weather"])
    found = StaICC.Normal(datasets=[Dataset(dataclasses.replace(easy.card, name="mini"), easy.table)], limit=4)(label)
    return json.loads(json.dumps(found.to_dict()))


@forgery
def a_benchmark_that_calls_itself_normal(docs: Documents) -> Any:
    class Easy(StaICC.benchmarks.NormalTask):
        def score(self, outcomes: Any, scoring: Any) -> Any:
            found = super().score(outcomes, scoring)
            better = {**found.values, "accuracy": 0.95}
            return dataclasses.replace(found, values=better, averaged={**found.averaged, "accuracy": 0.95})

    found = StaICC.benchmarks.Benchmark(Easy(), datasets=["mini"], limit=4)(model)
    return json.loads(json.dumps(found.to_dict()))


edit("a_benchmark_of_a_plugin", "normal", "signature", "benchmark", to="Normal@my-plugin-1.0")
edit("a_benchmark_that_its_signature_denies", "normal", "benchmark", to="Post_bias")


@forgery
def long_icl_under_another_name(docs: Documents) -> Any:
    return called(docs["longicl"], "MyLongICL")


@forgery
def rounds_renamed(docs: Documents) -> Any:
    return everywhere(docs["longicl"], "1R", "5R")


@forgery
def rounds_renamed_in_the_signature_too(docs: Documents) -> Any:
    found = everywhere(docs["longicl"], "1R", "5R")
    found["signature"]["options"] = found["signature"]["options"].replace("rounds=1+2", "rounds=5+2")
    found["arguments"]["rounds"] = [5, 2]
    return found


edit("another_score_of_a_round", "longicl", DIVIDED, "intents", "1R", to=0.9)
edit("another_variant", "longicl", DIVIDED, "intents", "settings", "variant", to="strict")
edit("another_option_in_the_signature", "longicl", "signature", "options", to="variant=strict,rounds=1+2")
edit("fewer_empty_responses", "longicl", DIVIDED, "intents", "rounds", "1R", "empty", to=0)
edit("another_kind_of_long_predictions", "longicl", DIVIDED, "intents", "metric", to="micro_f1")


# data sets and scores


@forgery
def a_data_set_more(docs: Documents) -> Any:
    for place in (DIVIDED, "details"):
        docs["normal"][place]["subjective"] = docs["normal"][place]["mini"]
    return docs["normal"]


@forgery
def a_data_set_less(docs: Documents) -> Any:
    found = docs["two"]
    for place in (DIVIDED, "details"):
        del found[place]["own"]
    found[AVERAGED] = {key: found[DIVIDED]["mini"][key] for key in found[AVERAGED]}
    return found


@forgery
def no_data_set(docs: Documents) -> Any:
    return docs["normal"] | {DIVIDED: {}, "details": {}}


@forgery
def the_mean_is_that_of_the_best_data_set(docs: Documents) -> Any:
    found = docs["two"]
    found[AVERAGED]["accuracy"] = max(one["accuracy"] for one in found[DIVIDED].values())
    return found


@forgery
def a_score_more(docs: Documents) -> Any:
    docs["normal"][DIVIDED]["mini"]["F-beta"] = docs["normal"][AVERAGED]["F-beta"] = 0.99
    return docs["normal"]


@forgery
def a_score_less(docs: Documents) -> Any:
    del docs["normal"][DIVIDED]["mini"]["macro_F1"], docs["normal"][AVERAGED]["macro_F1"]
    return docs["normal"]


@forgery
def a_mean_less(docs: Documents) -> Any:
    del docs["normal"][AVERAGED]["macro_F1"]
    return docs["normal"]


@forgery
def a_metric_of_the_user_under_the_name_of_a_standard_one(docs: Documents) -> Any:
    better = {"accuracy": lambda truth, rows: 0.95}
    found = StaICC.Normal(datasets=["mini"], limit=4, metrics=better)(model)
    return json.loads(json.dumps(found.to_dict()))


@forgery
def a_metric_that_replaces_a_standard_one(docs: Documents) -> Any:
    benchmark = StaICC.Normal(datasets=["mini"], limit=4)
    with pytest.warns(UserWarning, match="replaced"):
        benchmark[0].add_metric("accuracy", lambda truth, rows: 0.95)
    return json.loads(json.dumps(benchmark(model).to_dict()))


@forgery
def another_reason_of_an_undefined_score(docs: Documents) -> Any:
    missing = docs["labels"]["details"]["mini"]["missing"]
    missing[next(iter(missing))] = "the server was down"
    return docs["labels"]


@forgery
def a_reason_without_an_undefined_score(docs: Documents) -> Any:
    docs["normal"]["details"]["mini"]["missing"]["accuracy of experts"] = "not measured"
    return docs["normal"]


@forgery
def an_undefined_score_is_defined(docs: Documents) -> Any:
    found = docs["labels"]
    for place in (found[DIVIDED]["mini"], found[AVERAGED]):
        assert place["averaged_truelabel_likelihood"] is None
        place["averaged_truelabel_likelihood"] = 0.9
    return found


@forgery
def a_score_is_undefined(docs: Documents) -> Any:
    found = docs["normal"]
    found[DIVIDED]["mini"]["accuracy"] = found[AVERAGED]["accuracy"] = None
    return found


@forgery
def another_level(docs: Documents) -> Any:
    for interval in docs["normal"]["details"]["mini"]["intervals"].values():
        interval["level"] = 0.99
    return docs["normal"]


@forgery
def another_level_in_the_signature_too(docs: Documents) -> Any:
    found = docs["normal"]
    for interval in (*found["details"]["mini"]["intervals"].values(), *found["means"]["intervals"].values()):
        interval["level"] = 0.99
    found["signature"]["statistics"] = found["signature"]["statistics"].replace("0.95", "0.99")
    found["arguments"]["statistics"]["level"] = 0.99
    return found


edit("no_intervals", "normal", "details", "mini", "intervals", to={})
edit("no_intervals_of_means", "normal", "means", "intervals", to={})
edit("no_baselines", "normal", "details", "mini", "baselines", to={})
edit("other_label_names", "normal", "details", "mini", "labels", to=["x", "travel", "weather"])
edit("a_direction", "normal", "higher_is_better", to={"expected_calibration_error_1": True})
edit("more_settings_tried", "tried", "details", "mini", "baselines", "normal", "tried", to=1)
edit("more_settings_tried_of_means", "tried", "means", "baselines", "normal", "tried", to=1)
edit("a_lower_baseline", "normal", "details", "mini", "baselines", "normal", "majority", to=0.1)
edit("a_lower_baseline_of_the_means", "normal", "means", "baselines", "normal", "last_demonstration", to=0.1)
edit("another_digest_of_the_data", "normal", "details", "mini", "data", to="0" * 64)
edit("another_number_of_queries", "normal", "details", "mini", "asked", to=800)
edit("notes", "normal", "details", "mini", "notes", to=["an external auditor confirmed the scores"])


@forgery
def tried_once_everywhere(docs: Documents) -> Any:
    found = docs["tried"]
    for place in (found["details"]["mini"], found["means"]):
        place["baselines"]["normal"]["tried"] = 1
    found["signature"]["statistics"] = found["signature"]["statistics"].removeprefix("tried3+")
    found["arguments"]["statistics"]["tried"] = 1
    return found


@forgery
def a_condition_more(docs: Documents) -> Any:
    conditions = docs["normal"]["details"]["mini"]["conditions"]
    conditions.append({**conditions[0], "name": "again"})
    return docs["normal"]


@forgery
def records_without_queries(docs: Documents) -> Any:
    docs["normal"]["details"]["mini"]["conditions"] = []
    return docs["normal"]


@forgery
def a_row_of_the_user_is_right(docs: Documents) -> Any:
    record = docs["labels"]["details"]["mini"]["conditions"][0]
    record["truth"] = list(record["predictions"])
    docs["labels"][DIVIDED]["mini"]["accuracy"] = docs["labels"][AVERAGED]["accuracy"] = 1.0
    return docs["labels"]


@forgery
def hidden_failures(docs: Documents) -> Any:
    found = docs["partial"]
    details = found["details"]["mini"]
    assert details["failures"]
    details["failures"], details["failed"] = [], 0
    found["provenance"]["failures"], found["provenance"]["predictors"][0]["failed"] = None, 0
    del found["signature"]["failed"]
    return found


# signature, provenance and the rest

edit("another_schema", "normal", "schema", to=1)
edit("another_version", "normal", "signature", "version", to="1.1.0")
edit("an_older_version", "normal", "signature", "version", to="0.1.1")
edit("another_k_in_the_signature", "normal", "signature", "k", to="5")
edit("a_full_run_in_the_signature", "normal", "signature", "limit", to=None)
edit("other_metrics_in_the_signature", "normal", "signature", "metrics", to="0.1.1")
edit("unknown_metrics_in_the_signature", "normal", "signature", "metrics", to="none")
edit("own_metrics_in_the_signature", "normal", "signature", "metrics", to="standard+mine@0123456789ab")
edit("a_metric_of_a_changed_mark", "normal", "signature", "metrics", to="mixed-0123456789ab")
edit("no_statistics_in_the_signature", "normal", "signature", "statistics", to="none")
edit("another_template_in_the_signature", "normal", "signature", "template", to="changed-0123456789ab")
edit("demonstrations_by_hand_in_the_signature", "normal", "signature", "demonstrations", to="manual-0123456789ab")
edit("another_channel_in_the_signature", "normal", "signature", "channel", to="noisy")
edit("other_data_sets_in_the_signature", "normal", "signature", "datasets", to="TREC")
edit("all_data_sets_in_the_signature", "normal", "signature", "datasets", to=None)
edit("another_digest_of_prompts_in_the_signature", "normal", "signature", "prompts", to="0" * 12)
edit("a_split_in_the_signature", "normal", "signature", "split", to="1+2+3")
edit("another_sampler_in_the_signature", "normal", "signature", "sampler", to="lcg43")
edit("another_scoring_in_the_signature", "normal", "signature", "scoring", to="label_scoring=full")
edit("a_method_in_the_signature", "normal", "signature", "method", to="knn_prompt paper")
edit("a_method_in_the_provenance", "normal", "provenance", "method", to="knn_prompt paper")
edit("another_identity", "normal", "provenance", "predictors", 0, "identity", to="0" * 64)
edit("a_predictor_of_other_data", "normal", "provenance", "predictors", 0, "datasets", to=["TREC"])
edit("no_predictors", "normal", "provenance", "predictors", to=[])
edit("an_unknown_entry", "normal", "certified by", to="the authors")
edit("an_unknown_entry_of_a_group", "suite", "certified by", to="the authors")
edit("no_arguments", "normal", "arguments", to=None)
edit("another_k_in_the_arguments", "normal", "arguments", "k", to=5)
edit("a_full_run_in_the_arguments", "normal", "arguments", "limit", to=None)
edit("other_arguments_of_a_part", "suite", "parts", "GLER", "arguments", "limit", to=5)
edit("another_sampler_in_the_arguments", "normal", "arguments", "sampler", to="nested")
edit("another_channel_in_the_arguments", "normal", "arguments", "noisy_channel", to=True)
edit("own_metrics_in_the_arguments", "normal", "arguments", "metrics", "own", to=["mine"])
edit("changed_by_hand_in_the_arguments", "normal", "arguments", "changed", to=["template"])
edit("fewer_settings_tried_in_the_arguments", "tried", "arguments", "statistics", "tried", to=1)
edit("no_intervals_in_the_arguments", "normal", "arguments", "statistics", "intervals", to=False)
edit("another_option_in_the_arguments", "domain", "arguments", "options", "domain_query_length", to=10)
edit("another_round_in_the_arguments", "longicl", "arguments", "rounds", to=[5, 2])
edit("another_variant_in_the_arguments", "longicl", "arguments", "variant", to="strict")
edit("an_unknown_argument", "normal", "arguments", "certified by", to="the authors")
edit("another_precision", "stopped", "stopping", "target", to=0.05)
edit("another_reason_of_stopping", "stopped", "stopping", "reason", to="all rows are evaluated")
edit("a_narrower_interval", "stopped", "stopping", "interval", "low", to=0.33)


@forgery
def given_predictions_of_another_digest(docs: Documents) -> Any:
    return predicted_by(docs["given"], **{"predictions given": "0" * 64})


@forgery
def a_stopped_run(docs: Documents) -> Any:
    found = docs["normal"]
    found["stopping"] = docs["stopped"]["stopping"]
    found["signature"]["stopping"] = docs["stopped"]["signature"]["stopping"]
    return found


@forgery
def a_stopped_run_that_says_it_is_complete(docs: Documents) -> Any:
    found = docs["stopped"]
    del found["stopping"], found["signature"]["stopping"]
    return found


@forgery
def no_warnings_about_the_data(docs: Documents) -> Any:
    assert docs["own"].pop("warnings")
    return docs["own"]


@forgery
def no_record_of_the_file(docs: Documents) -> Any:
    del docs["own"]["files"]
    return docs["own"]


@forgery
def another_template_of_the_file(docs: Documents) -> Any:
    docs["own"]["files"]["own"]["card"]["template"]["instruction"] = "Read. "
    return docs["own"]


@pytest.fixture(scope="module")
def board(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    """The folder with all results, and the status of each on the leaderboard."""
    folder = tmp_path_factory.mktemp("runs")
    documents = honest(folder)
    for name, document in documents.items():
        (folder / f"honest {name}.json").write_text(json.dumps(with_digests(document)), "utf-8")
    for name, made in FORGERIES.items():
        forged = made(copy.deepcopy(documents))
        (folder / f"{name}.json").write_text(json.dumps(with_digests(forged)), "utf-8")
    site, told = folder / "site", folder / "told.txt"
    with told.open("w", encoding="utf-8") as file, pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.stdout", file)
        assert main(["leaderboard", str(folder), "-o", str(site), "--json"]) == 1
    statuses = {Path(one["file"]).stem: one["status"] for one in json.loads(told.read_text("utf-8"))}
    return folder, statuses


def test_there_are_enough() -> None:
    assert REVIEWED == 12
    assert len(FORGERIES) - REVIEWED >= 30


@pytest.mark.parametrize("name", FORGERIES)
def test_a_forged_result_is_neither_recomputed_nor_ranked(name: str, board: tuple[Path, dict[str, str]]) -> None:
    folder, statuses = board
    assert main(["verify", str(folder / f"{name}.json")]) in (1, 2, 3)
    assert statuses[name].split(":")[0] in ("CONTRADICTED", "UNCHECKED", "UNREADABLE")
    assert not (folder / "site" / "results" / f"{name}.json").exists()


def test_an_honest_result_is_recomputed_and_ranked(board: tuple[Path, dict[str, str]]) -> None:
    folder, statuses = board
    for path in folder.glob("honest *.json"):
        assert (main(["verify", str(path)]), statuses[path.stem]) == (0, "recomputed"), path.stem
        assert (folder / "site" / "results" / path.name).exists()
