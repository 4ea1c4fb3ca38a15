"""The view of single queries: its data are those of the results, its texts cannot become markup."""

from __future__ import annotations

import json
import random
import re
from typing import Any

import pytest

import StaICC
from StaICC.benchmarks.verify import written_prompts
from StaICC.results import Result
from StaICC.results.report import report_html
from StaICC.results.report.page import query_section


def scorer(seed: int) -> Any:
    """Label probabilities from the prompt."""

    def model(prompt: Any, label_space: list[str]) -> list[float]:
        rows = [random.Random(f"{seed}{prompt}{label}").random() for label in label_space]
        return [row / sum(rows) for row in rows]

    return model


def data_of(page: str) -> Any:
    found = re.search(r'<script type="application/json" id="query-data">(.*?)</script>', page, re.DOTALL)
    assert found is not None
    return json.loads(found[1])


def page_of(runs: dict[str, Result]) -> str:
    return report_html(runs, more=query_section(runs, written_prompts))


def prompts_in(data: Any, run: int, number: int = 0) -> list[str]:
    queries = data["sets"][number]["runs"][str(run)]["queries"].values()
    return ["".join(data["parts"][part] for part in data["prompts"][prompt]) for *_, prompt in queries]


KINDS = [
    StaICC.Normal,
    StaICC.GLER,
    StaICC.TemplateSensitivity,
    StaICC.DemonstrationSensitivity,
    StaICC.ContextualBias,
    StaICC.DomainBias,
    StaICC.PosteriorBias,
]


@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        *((kind, {}) for kind in KINDS),
        *((StaICC.Normal, settings) for settings in ({"k": 0}, {"noisy_channel": True}, {"k": 2, "sampler": "nested"})),
        (StaICC.DomainBias, {"noisy_channel": True}),
    ],
)
def test_prompts_are_those_of_the_run_and_their_parts_are_its_demonstrations(
    kind: Any, settings: dict[str, Any]
) -> None:
    benchmark = kind(datasets=["mini"], limit=3, **settings)
    found = written_prompts(benchmark(scorer(0)))["mini"]
    assert not isinstance(found, str)
    asked = [prompt if isinstance(prompt, str) else prompt[0] for prompt in benchmark[0].prompt_set()]
    assert ["".join(parts) for parts in found] == asked
    assert {len(parts) for parts in found} == {2 + settings.get("k", 4)}
    pool = benchmark[0].demonstration_set()
    texts = {text for place in range(len(pool)) for text in pool.row(place).texts}
    for _, *demonstrations, _ in found:
        assert all(any(text in one for text in texts) for one in demonstrations)


def test_every_query_is_there_with_its_prediction_and_probabilities() -> None:
    benchmark = StaICC.Normal(datasets=["mini"], limit=5)
    results = {"a": benchmark(scorer(1), return_outputs=True), "b": benchmark(scorer(2), return_outputs=True)}
    data = data_of(page_of(results))
    assert data["runs"] == ["a", "b"]
    (own,) = data["sets"]
    assert own["labels"] == ["food", "travel", "weather"]
    for number, result in enumerate(results.values()):
        records = result.outputs["mini"]
        run = own["runs"][str(number)]["queries"]
        assert list(map(int, run)) == list(range(len(records)))
        assert own["queries"] == [[0, one["row"], one["repeat"], one["ground_truth"]] for one in records]
        for (prediction, _, scores, _), one in zip(run.values(), records, strict=True):
            assert prediction == one["prediction"]
            assert scores == [round(10000 * value) for value in one["normalised_probabilities"]]
        assert prompts_in(data, number) == benchmark[0].prompt_set()
    assert len(data["parts"]) < 5 * 2 * 6  # each text is stored once


def test_a_forged_result_has_no_prompts() -> None:
    """The prompts that the file claims are not those of its signature: none is shown."""
    values = StaICC.Normal(datasets=["mini"], limit=3)(scorer(0)).to_dict()
    digests = values["details"]["mini"]["query_digests"]
    values["details"]["mini"]["query_digests"] = digests.replace("A", "B").replace("c", "d")
    assert "differs" in written_prompts(Result.from_dict(values))["mini"]


@pytest.mark.parametrize("kept", [slice(5), slice(None), slice(None, None, -1)])
def test_an_edited_result_shows_no_prompt_of_another_query(kept: slice) -> None:
    """Fewer records, more of them, or others, than the prompts and the scores: not paired with them."""
    values = StaICC.Normal(datasets=["mini"], limit=3)(scorer(0)).to_dict()
    (record,) = values["details"]["mini"]["conditions"]
    for name in ("rows", "truth", "predictions"):
        record[name] = (record[name] + record[name][: kept == slice(None)])[kept]
    edited = Result.from_dict(values)
    found = written_prompts(edited)["mini"]
    assert isinstance(found, str)
    assert (found == "the records of the queries are not those of the prompts") == (kept.step == -1)
    runs = {"a": StaICC.Normal(datasets=["mini"], limit=3)(scorer(0)), "b": edited}
    (own,) = data_of(page_of(runs))["sets"]
    first, second = (own["runs"][number]["queries"].values() for number in "01")
    assert all(prompt >= 0 for *_, prompt in first)
    assert all(prompt == -1 for *_, prompt in second)
    assert all((scores is None) == (kept.step is None) for _, _, scores, _ in second)
