"""The figures of the pages are computed again: the embedded model on the ten data sets, by both metric sets."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import pytest

from StaICC import Normal, Suite, load_kernel
from StaICC.benchmarks.task import Statistics
from tests.test_docs_blocks import BLOCKS

pytestmark = [pytest.mark.pack, pytest.mark.slow]

PAGE = (Path(__file__).parents[1] / "docs" / "published_figures.md").read_text(encoding="utf-8")
LIKELIHOOD, ERROR = "averaged_truelabel_likelihood", "expected_calibration_error_1"


def rows_of_table(heading: str) -> list[list[str]]:
    """Return the rows of the page's table whose first line begins with a heading, as cells without backticks."""
    table = PAGE[PAGE.index(heading) :].split("\n\n")[0]
    rows = []
    for line in table.splitlines()[2:]:  # after the headings and the rule
        rows.append([cell.strip().strip("`") for cell in line.strip("|").split("|")])
    return rows


class EmbeddedModel:
    """The predictions of the embedded model in three forms. Each distinct prompt is scored once."""

    def __init__(self) -> None:
        self.kernel = load_kernel("ppm")
        self.cache: dict[tuple[str, tuple[str, ...]], list[float]] = {}

    def probabilities(self, prompt: str, label_space: list[str]) -> list[float]:
        """Return the probability of each label, from the cache if the prompt was scored before."""
        key = (prompt, tuple(label_space))
        if key not in self.cache:
            self.cache[key] = self.kernel(prompt=prompt, label_space=label_space)
        return self.cache[key]

    def logits(self, prompt: str, label_space: list[str]) -> list[float]:
        return [math.log(max(value, 1e-300)) for value in self.probabilities(prompt, label_space)]

    def labels(self, prompt: str, label_space: list[str]) -> int:
        probabilities = self.probabilities(prompt, label_space)
        return probabilities.index(max(probabilities))


@pytest.fixture(scope="module")
def results_of_suite(pack: None) -> dict[str, Any]:
    """Results of the suite by metric set and kind of outputs, each under the heading of its column on the page."""
    model = EmbeddedModel()
    standard = Suite(metrics="standard", statistics=Statistics(intervals=False))
    of_release = Suite(metrics="0.1.1", statistics=Statistics(intervals=False))
    return {
        "default": standard(model.probabilities),
        "0.1.1, probabilities": of_release(model.probabilities),
        "0.1.1, logits": of_release(model.logits),
        "0.1.1, labels": of_release(model.labels),
        "default, logits": standard(model.logits),
    }


def four_decimals(value: float | None) -> str:
    return "None" if value is None else f"{value:.4f}"


def test_the_table_of_metric_sets_has_the_scores_of_the_results(results_of_suite: dict[str, Any]) -> None:
    headings = re.search(r"\| part \| key \| (.*) \|\n", PAGE)
    assert headings is not None
    columns = headings[1].split(" | ")
    rows = rows_of_table("| part | key |")
    assert len(rows) == 8, "one for each of the scores that the page compares"
    for benchmark, metric, *cells in rows:
        scores = [results_of_suite[column][benchmark]["Averaged results"][metric] for column in columns]
        assert cells == [four_decimals(score) for score in scores], (benchmark, metric)


def test_scores_of_the_default_metrics_are_the_same_of_logits_as_of_probabilities(
    results_of_suite: dict[str, Any],
) -> None:
    for benchmark, metric, cell_of_probabilities, *_ in rows_of_table("| part | key |"):
        score_of_logits = results_of_suite["default, logits"][benchmark]["Averaged results"][metric]
        assert cell_of_probabilities == four_decimals(score_of_logits), (benchmark, metric)


def test_the_readme_shows_the_first_table_of_the_embedded_model(pack: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    (block,) = (block for block in BLOCKS if block.rule == "output of the ten data sets")
    table, _, rest = block.code.rpartition("...")
    assert table
    assert rest.strip() == "", "the block ends with ..."

    assert str(Normal()(load_kernel("ppm"))).startswith(table.rstrip("\n"))
