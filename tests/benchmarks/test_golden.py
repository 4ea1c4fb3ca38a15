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
    **{f"Normal(k={k})": (StaICC.Normal, {"k": k}) for k in (0, 1, 4, 8)},
    "Normal(k=4, noisy_channel=True)": (StaICC.Normal, {"k": 4, "noisy_channel": True}),
    **{
        f"{name}(k=4)": (getattr(StaICC, name), {"k": 4})
        for name in ("Contextual_bias", "Domain_bias", "Post_bias", "GLER", "Template_sens", "Demo_sens")
    },
}
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
def test_prompts_label_spaces_and_released_figures(
    run: str, name: str, golden: dict[str, Any], stand_in: Any, sha: Callable[[Any], str]
) -> None:
    expected = golden["runs"][run][name]
    kind, settings = RUNS[run]
    benchmark = kind(datasets=[name], metrics="0.1.1", **settings)
    result = benchmark(stand_in)
    details = result.details[name]
    assert details.asked == details.scored == expected["prompts"]
    assert details.prompts == expected["prompts_sha256"]
    if name in ("TREC", "AGNews"):  # the digest of the library is that of the golden file
        queries = benchmark[0].all_queries()
        prompts = [query.prompt if isinstance(query.prompt, str) else list(query.prompt) for query in queries]
        assert (len(prompts), sha(prompts)) == (expected["prompts"], expected["prompts_sha256"])
        flat = [text for prompt in prompts for text in ([prompt] if isinstance(prompt, str) else prompt)]
        assert sum(map(len, flat)) == expected["chars"]
        assert sha(prompts[0]) == expected["first_prompt_sha256"]
        assert sha([list(query.label_space) for query in queries]) == expected["label_spaces_sha256"]
    assert_close(result["Divided results"][name], expected["results_0_1_1"], f"{run}, {name}")


@EVERY
def test_split_and_demonstration_digests(name: str, golden: dict[str, Any], sha: Callable[[Any], str]) -> None:
    expected = golden["datasets"][name]
    experimentor = StaICC.Normal(datasets=[name])[0]
    parts = {
        "calibration": experimentor.calibration_set(),
        "demonstration": experimentor.demonstration_set(),
        "test": experimentor.test_set(),
    }
    assert [len(part) for part in parts.values()] == expected["split_sizes"]
    indexes = [list(part.indexes) for part in parts.values()]
    assert [part[:10] for part in indexes] == expected["split_indexes_first_10"]
    assert sha([row for part in indexes for row in part]) == expected["split_indexes_sha256"]
    for part, rows in parts.items():
        assert (
            sha([[list(row.texts), row.label] for row in map(rows.row, range(len(rows)))])
            == (expected[f"{part}_sha256"])
        ), part
    test = parts["test"]
    assert sha([test.label(row) for row in range(len(test))]) == expected["ground_truth_sha256"]
    lists = experimentor.demonstration_sampler
    assert lists[:10] == expected["demonstration_indexes_first_10"]
    assert sha(lists) == expected["demonstration_indexes_sha256"]


@pytest.mark.parametrize(("name", "mode"), [(name, mode) for name, modes in DOMAIN["k=4"].items() for mode in modes])
def test_demonstrations_of_the_domain_modes(name: str, mode: str, sha: Callable[[Any], str]) -> None:
    experimentor = StaICC.Normal(datasets=[name])[0]
    switch = {"in": Experimentor.set_in_domain_mode, "out": Experimentor.set_out_of_domain_mode}[mode]
    switch(experimentor)
    assert sha(experimentor.demonstration_sampler) == DOMAIN["k=4"][name][mode]
