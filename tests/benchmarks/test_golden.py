"""The benchmark's bytes and, bug for bug, the release's figures: everything that the golden file pins."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import StaICC
from StaICC.benchmarks.experimentor import Experimentor
from StaICC.datasets.catalogue import names

GOLDEN = Path(__file__).parents[1] / "golden"
DOMAIN = json.loads((GOLDEN / "domain_modes.json").read_text("utf-8"))

RUNS: dict[str, tuple[Any, dict[str, Any]]] = {
    "Normal(k=0)": (StaICC.Normal, {"k": 0}),
    "Normal(k=1)": (StaICC.Normal, {"k": 1}),
    "Normal(k=4)": (StaICC.Normal, {"k": 4}),
    "Normal(k=8)": (StaICC.Normal, {"k": 8}),
    "Normal(k=4, noisy_channel=True)": (StaICC.Normal, {"k": 4, "noisy_channel": True}),
    "Contextual_bias(k=4)": (StaICC.Contextual_bias, {"k": 4}),
    "Domain_bias(k=4)": (StaICC.Domain_bias, {"k": 4}),
    "Post_bias(k=4)": (StaICC.Post_bias, {"k": 4}),
    "GLER(k=4)": (StaICC.GLER, {"k": 4}),
    "Template_sens(k=4)": (StaICC.Template_sens, {"k": 4}),
    "Demo_sens(k=4)": (StaICC.Demo_sens, {"k": 4}),
}
"""Each run of the golden file: a benchmark and its settings."""

EVERY = pytest.mark.parametrize("name", names())

pytestmark = pytest.mark.pack


def assert_close(found: Any, expected: Any, where: str) -> None:
    """Compare nested figures to 1e-12; what the golden file has must be there, in its shape."""
    if isinstance(expected, dict):
        assert set(expected) <= set(found), where
        for key, value in expected.items():
            assert_close(found[key], value, f"{where}/{key}")
    elif isinstance(expected, list):
        assert len(found) == len(expected), where
        for place, value in enumerate(expected):
            assert_close(found[place], value, f"{where}[{place}]")
    else:
        assert found == pytest.approx(expected, rel=1e-12, abs=1e-12), where


def test_every_run_of_the_golden_file_is_tried(golden: dict[str, Any]) -> None:
    assert set(golden["runs"]) == set(RUNS)
    assert list(golden["datasets"]) == list(names())


@EVERY
@pytest.mark.parametrize("run", RUNS)
def test_prompts_and_scores_are_those_of_the_release(
    run: str, name: str, golden: dict[str, Any], hash_model: Any
) -> None:
    """``hash_model`` is the model that predicted for the golden file."""
    expected = golden["runs"][run][name]
    benchmark_type, settings = RUNS[run]

    result = benchmark_type(datasets=[name], metrics="0.1.1", **settings)(hash_model)

    details = result.details[name]
    assert details.asked == expected["prompts"]
    assert details.scored == expected["prompts"]
    assert details.prompts == expected["prompts_sha256"]
    assert_close(result.divided[name], expected["results_0_1_1"], f"{run}, {name}")


def texts_of_prompts(run: str, name: str) -> list[Any]:
    """Return the prompts of a run: each is a text, or in the noisy channel a list of texts."""
    benchmark_type, settings = RUNS[run]
    queries = benchmark_type(datasets=[name], metrics="0.1.1", **settings)[0].all_queries()
    return [query.prompt if isinstance(query.prompt, str) else list(query.prompt) for query in queries]


@pytest.mark.parametrize("name", ["TREC", "AGNews"])
@pytest.mark.parametrize("run", RUNS)
def test_texts_of_prompts_are_those_of_the_release(
    run: str, name: str, golden: dict[str, Any], sha256_of_json: Callable[[Any], str]
) -> None:
    expected = golden["runs"][run][name]

    prompts = texts_of_prompts(run, name)

    assert len(prompts) == expected["prompts"]
    assert sha256_of_json(prompts) == expected["prompts_sha256"]
    assert sha256_of_json(prompts[0]) == expected["first_prompt_sha256"]


@pytest.mark.parametrize("name", ["TREC", "AGNews"])
@pytest.mark.parametrize("run", RUNS)
def test_prompts_have_as_many_characters_as_those_of_the_release(run: str, name: str, golden: dict[str, Any]) -> None:
    characters = 0
    for prompt in texts_of_prompts(run, name):
        characters += len(prompt) if isinstance(prompt, str) else sum(len(text) for text in prompt)

    assert characters == golden["runs"][run][name]["chars"]


@pytest.mark.parametrize("name", ["TREC", "AGNews"])
@pytest.mark.parametrize("run", RUNS)
def test_label_spaces_of_queries_are_those_of_the_release(
    run: str, name: str, golden: dict[str, Any], sha256_of_json: Callable[[Any], str]
) -> None:
    benchmark_type, settings = RUNS[run]
    queries = benchmark_type(datasets=[name], metrics="0.1.1", **settings)[0].all_queries()

    label_spaces = [list(query.label_space) for query in queries]

    assert sha256_of_json(label_spaces) == golden["runs"][run][name]["label_spaces_sha256"]


@EVERY
def test_splits_are_those_of_the_release(
    name: str, golden: dict[str, Any], sha256_of_json: Callable[[Any], str]
) -> None:
    expected = golden["datasets"][name]
    experimentor = StaICC.Normal(datasets=[name])[0]

    calibration = list(experimentor.calibration_set().indexes)
    demonstration = list(experimentor.demonstration_set().indexes)
    test = list(experimentor.test_set().indexes)

    assert [len(calibration), len(demonstration), len(test)] == expected["split_sizes"]
    assert [calibration[:10], demonstration[:10], test[:10]] == expected["split_indexes_first_10"]
    assert sha256_of_json([*calibration, *demonstration, *test]) == expected["split_indexes_sha256"]


@EVERY
@pytest.mark.parametrize("split", ["calibration", "demonstration", "test"])
def test_rows_of_splits_are_those_of_the_release(
    name: str, split: str, golden: dict[str, Any], sha256_of_json: Callable[[Any], str]
) -> None:
    rows = getattr(StaICC.Normal(datasets=[name])[0], f"{split}_set")()
    texts_and_labels = []
    for number in range(len(rows)):
        row = rows.row(number)
        texts_and_labels.append([list(row.texts), row.label])

    assert sha256_of_json(texts_and_labels) == golden["datasets"][name][f"{split}_sha256"]


@EVERY
def test_true_labels_are_those_of_the_release(
    name: str, golden: dict[str, Any], sha256_of_json: Callable[[Any], str]
) -> None:
    rows = StaICC.Normal(datasets=[name])[0].test_set()

    assert (
        sha256_of_json([rows.label(number) for number in range(len(rows))])
        == golden["datasets"][name]["ground_truth_sha256"]
    )


@EVERY
def test_demonstrations_are_those_of_the_release(
    name: str, golden: dict[str, Any], sha256_of_json: Callable[[Any], str]
) -> None:
    indexes = StaICC.Normal(datasets=[name])[0].demonstration_sampler

    assert indexes[:10] == golden["datasets"][name]["demonstration_indexes_first_10"]
    assert sha256_of_json(indexes) == golden["datasets"][name]["demonstration_indexes_sha256"]


@pytest.mark.parametrize(("name", "mode"), [(name, mode) for name, modes in DOMAIN["k=4"].items() for mode in modes])
def test_demonstrations_of_the_domain_modes(name: str, mode: str, sha256_of_json: Callable[[Any], str]) -> None:
    experimentor = StaICC.Normal(datasets=[name])[0]
    switch = {"in": Experimentor.set_in_domain_mode, "out": Experimentor.set_out_of_domain_mode}[mode]
    switch(experimentor)

    assert sha256_of_json(experimentor.demonstration_sampler) == DOMAIN["k=4"][name][mode]
