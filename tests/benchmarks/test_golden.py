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

    assert details.asked == details.scored == expected["prompts"]
    assert details.prompts == expected["prompts_sha256"]
    assert_close(result["Divided results"][name], expected["results_0_1_1"], f"{run}, {name}")


@pytest.mark.parametrize("name", ["TREC", "AGNews"])
@pytest.mark.parametrize("run", RUNS)
def test_texts_of_prompts_and_label_spaces_are_those_of_the_release(
    run: str, name: str, golden: dict[str, Any], sha256_of_json: Callable[[Any], str]
) -> None:
    """A prompt is a text, or in the noisy channel a list of texts."""
    expected = golden["runs"][run][name]
    benchmark_type, settings = RUNS[run]
    queries = benchmark_type(datasets=[name], metrics="0.1.1", **settings)[0].all_queries()
    prompts = [query.prompt if isinstance(query.prompt, str) else list(query.prompt) for query in queries]

    assert len(prompts) == expected["prompts"]
    assert sha256_of_json(prompts) == expected["prompts_sha256"]
    assert sha256_of_json(prompts[0]) == expected["first_prompt_sha256"]

    characters = sum(len(prompt) if isinstance(prompt, str) else sum(map(len, prompt)) for prompt in prompts)
    assert characters == expected["chars"]
    assert sha256_of_json([list(query.label_space) for query in queries]) == expected["label_spaces_sha256"]


@EVERY
def test_splits_are_those_of_the_release(
    name: str, golden: dict[str, Any], sha256_of_json: Callable[[Any], str]
) -> None:
    expected = golden["datasets"][name]
    experimentor = StaICC.Normal(datasets=[name])[0]
    splits = [experimentor.calibration_set(), experimentor.demonstration_set(), experimentor.test_set()]
    indexes = [list(split.indexes) for split in splits]

    assert [len(split) for split in splits] == expected["split_sizes"]
    assert [split_indexes[:10] for split_indexes in indexes] == expected["split_indexes_first_10"]
    assert (
        sha256_of_json([index for split_indexes in indexes for index in split_indexes])
        == expected["split_indexes_sha256"]
    )


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
