"""The scores of each query as a table for mixed models, and the recipe of docs/mixed_models.md."""

from __future__ import annotations

import csv
import re
import shutil
import subprocess
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from StaICC import (
    GLER,
    ContextualBias,
    Dataset,
    DemonstrationSensitivity,
    DomainBias,
    Generalisation,
    Normal,
    TemplateSensitivity,
    row_scores,
    written_prompts,
)
from StaICC.benchmarks.exchange import csv_lines
from StaICC.cli import main
from StaICC.comparing.generalisation import variance_components
from StaICC.errors import ArgumentError
from StaICC.results.result import Result
from StaICC.results.signature import Signature
from tests.results.conftest import model, sometimes_failing_model

PAGE = Path(__file__).parents[2] / "docs" / "mixed_models.md"


def probabilities(prompt: str, label_space: list[str]) -> list[float]:
    weights = [2.0**score for score in model(prompt, label_space)]
    return [weight / sum(weights) for weight in weights]


def mean(values: list[Any]) -> float:
    return sum(values) / len(values)


def test_the_means_of_the_columns_are_the_scores() -> None:
    result = Normal(datasets=["mini"], limit=40)(probabilities)
    rows = list(row_scores(result))
    assert len(rows) == 40 * 2  # rows, repeats
    scores = result["Averaged results"]
    assert mean([row["accuracy"] for row in rows]) == pytest.approx(scores["accuracy"], abs=1e-12)
    likelihoods = [row["likelihood"] for row in rows]
    assert mean(likelihoods) == pytest.approx(scores["averaged_truelabel_likelihood"], abs=1e-12)
    assert {row["label"] for row in rows} == {"food", "travel", "weather"}


@pytest.mark.parametrize(
    ("benchmark", "sampler"),
    [
        (Normal, None),
        (Normal, "nested-shared"),
        (GLER, None),
        (GLER, "nested-shared"),
        (TemplateSensitivity, None),
        (TemplateSensitivity, "nested-shared"),
        (DemonstrationSensitivity, None),
        (Generalisation, None),
    ],
)
def test_queries_with_one_name_have_the_same_demonstrations(benchmark: Any, sampler: str | None) -> None:
    settings = {} if sampler is None else {"sampler": sampler}
    result = benchmark(datasets=["mini"], limit=5, **settings)(probabilities)
    texts_by_name: dict[str, set[Any]] = {}
    names_by_texts: dict[Any, set[str]] = {}
    for row, query in zip(row_scores(result), result.queries(written_prompts), strict=True):
        assert row["demonstrations"] is not None
        texts = query.demonstrations
        if benchmark is GLER:  # it replaces labels in each query
            texts = tuple(text.partition(" topic:")[0] for text in texts)
        key = (row["template"], texts)
        texts_by_name.setdefault((row["demonstrations"], row["template"]), set()).add(texts)
        names_by_texts.setdefault(key, set()).add(row["demonstrations"])
    assert [texts for texts in texts_by_name.values() if len(texts) != 1] == []
    if sampler == "nested-shared" or benchmark is Generalisation:
        assert [names for names in names_by_texts.values() if len(names) != 1] == []
        assert len(names_by_texts) < len(result.queries())


def test_the_labels_of_gler_differ_between_queries_with_one_name_of_demonstrations() -> None:
    result = GLER(datasets=["mini"], limit=5, sampler="nested-shared")(probabilities)
    lists: dict[tuple[str, str], set[Any]] = {}
    for row, query in zip(row_scores(result), result.queries(written_prompts), strict=True):
        lists.setdefault((row["demonstrations"], row["condition"]), set()).add(query.demonstrations)
    assert {name for name, _ in lists} == {"repeat0", "repeat1"}
    assert len(lists["repeat0", "0"]) == 1  # all labels are right
    assert len(lists["repeat0", "1"]) > 1


def test_each_template_has_a_name() -> None:
    result = TemplateSensitivity(datasets=["mini"], limit=4, k=0)(probabilities)
    instructions_by_template: dict[str, set[str]] = {}
    for row, query in zip(row_scores(result), result.queries(written_prompts), strict=True):
        if row["row"] == 0:
            instructions_by_template.setdefault(row["template"], set()).add(query.prompt)
    assert len(instructions_by_template) == 9
    assert [prompts for prompts in instructions_by_template.values() if len(prompts) != 1] == []


@pytest.mark.parametrize("benchmark", [ContextualBias, DomainBias])
def test_queries_without_a_text_have_no_label_and_no_score(benchmark: Any) -> None:
    rows = list(row_scores(benchmark(datasets=["mini"], limit=4)(probabilities)))
    assert rows
    for row in rows:
        assert row["label"] is row["accuracy"] is row["likelihood"] is None


def test_a_failed_query_has_no_scores() -> None:
    result = Normal(datasets=["mini"], limit=40)(sometimes_failing_model, on_error="collect")

    failed = [row for row in row_scores(result) if row["accuracy"] is None]

    assert len(failed) == result.details["mini"].failed > 0
    for row in failed:
        assert row["likelihood"] is None


def test_a_bare_label_has_no_likelihood() -> None:
    result = Normal(datasets=["mini"], limit=4)(lambda prompt, label_space: 0)

    assert {row["likelihood"] for row in row_scores(result)} == {None}


def test_without_demonstrations_their_name_is_none_as_a_text() -> None:
    result = Normal(datasets=["mini"], k=0, limit=4)(model)

    assert {row["demonstrations"] for row in row_scores(result)} == {"none"}


def test_demonstrations_of_the_domain_bias_have_no_name() -> None:
    result = DomainBias(datasets=["mini"], limit=4)(model)

    assert {row["demonstrations"] for row in row_scores(result)} == {None}


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("demonstrations", "manual"),
        ("demonstrations", "manual-0123456789ab"),
        ("demonstrations", "mixed-0123456789ab"),
        ("k", None),
        ("benchmark", "My_benchmark"),
        ("method", "topk"),
    ],
)
def test_lists_of_demonstrations_have_no_name_where_it_is_not_known_who_shares_them(
    field: str, value: str | None
) -> None:
    """A name says which queries share a list: a mixed model with wrong names has wrong variances."""
    result = Normal(datasets=["mini"], limit=4)(model)
    changed = replace(result, signature=Signature({**result.signature.fields, field: value}))
    if field == "benchmark":
        changed = replace(changed, benchmark=str(value))
    if field == "method":
        changed = replace(changed, provenance=replace(result.provenance, method=value))
    assert {row["demonstrations"] for row in row_scores(result)} != {None}
    assert {row["demonstrations"] for row in row_scores(changed)} == {None}


def test_clusters_and_subgroups_are_columns() -> None:
    """The cluster of a row is its number without the last digit, and its subgroup is that digit."""
    data = Dataset.from_rows(
        [(f"text {number}", "no" if number % 2 == 0 else "yes") for number in range(200)],
        name="rows",
        cluster=lambda row: int(row.texts[0].split()[1]) // 10,
        subgroups={"last": lambda row: row.texts[0][-1]},
    )
    result = Normal(datasets=[data])(lambda prompt, label_space: 0)
    details = result.details["rows"]
    assert details.clusters is not None
    assert details.subgroups is not None

    for row in row_scores(result):
        assert row["cluster"] == details.clusters[row["row"]]
        assert row["subgroup last"] == details.subgroups["last"][row["row"]]


STANDARD_DEVIATIONS = {
    (24, 1, 1): 1.0,  # rows
    (1, 4, 1): 0.8,  # draws
    (1, 1, 3): 0.8,  # templates
    (24, 4, 1): 0.9,
    (24, 1, 3): 0.9,
    (1, 4, 3): 0.6,
    (24, 4, 3): 0.6,
}
"""Those of the effects of each source, by the shape of the effects: 24 rows, 4 draws, 3 templates."""


def crossed_result(seed: int) -> Result:
    """Return a result of Generalisation with effects of rows, draws, templates and their interactions.

    A prediction is right if the sum of the effects is positive, else it is the label behind the true one.
    """
    result = Generalisation(datasets=["mini"], limit=24)(lambda prompt, label_space: 0)
    details = result.details["mini"]
    generator = np.random.default_rng(seed)
    total: Any = 0.0
    for shape, deviation in STANDARD_DEVIATIONS.items():
        total = total + generator.normal(0.0, deviation, shape)
    conditions = []
    for number, record in enumerate(details.conditions):
        draw, template = divmod(number, 3)
        row_is_right = total[:, draw, template] > 0.0
        predictions = []
        for true_label, row in zip(record.truth, record.rows, strict=True):
            predictions.append(true_label if row_is_right[row] else (true_label + 1) % 3)
        conditions.append(replace(record, predictions=tuple(predictions)))
    changed: Result = replace(result, details={"mini": replace(details, conditions=tuple(conditions))})
    return changed


def write_table(result: Result, path: Path) -> None:
    """Write the table of rows of a result."""
    with path.open("w", encoding="utf-8", newline="") as file:
        rows = list(row_scores(result))
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


@pytest.mark.parametrize("seed", [0, 1])
def test_the_recipe_for_statsmodels_reproduces_our_components(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    pytest.importorskip("statsmodels")
    result = crossed_result(seed)
    monkeypatch.chdir(tmp_path)
    write_table(result, Path("rows.csv"))
    (recipe,) = re.findall(
        r"```python\n(import pandas\nimport statsmodels.+?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL
    )
    names: dict[str, Any] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exec(recipe, names)
    expected = variance_components(result).lines[0].effects.components
    assert names["components"].keys() == expected.keys()
    for source, component in expected.items():
        assert names["components"][source] == pytest.approx(component, abs=1e-10), source


SOURCES_IN_R = {
    "row": "rows",
    "demonstrations": "draws",
    "template": "templates",
    "row:demonstrations": "rows x draws",
    "row:template": "rows x templates",
    "demonstrations:template": "draws x templates",
    "Residual": "rest",
}
"""Our names of the sources of variance, by their names in the recipe for R."""


def components_in_r(folder: Path) -> tuple[dict[str, float], str]:
    """Run the recipe of the page in R on ``rows.csv``; return the components, and what R printed as messages."""
    (recipe,) = re.findall(r"```text\n(library\(lme4\).+?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    script = folder / "recipe.R"
    script.write_text(f"options(digits = 15)\n{recipe}", encoding="utf-8")
    done = subprocess.run(["Rscript", str(script)], cwd=folder, capture_output=True, text=True, check=True)
    components = {}
    for line in done.stdout.splitlines()[1:]:
        _, source, variance = line.split()
        components[SOURCES_IN_R[source]] = float(variance)
    return components, done.stderr


@pytest.fixture(scope="module")
def lme4() -> None:
    """Skip tests that need R with lme4, where it is not installed."""
    if shutil.which("Rscript") is None:
        pytest.skip("R is not installed: the recipe of the page cannot be run")
    if subprocess.run(["Rscript", "-e", "library(lme4)"], capture_output=True).returncode != 0:
        pytest.skip("lme4 is not installed in R: the recipe of the page cannot be run")


@pytest.mark.usefixtures("lme4")
@pytest.mark.parametrize("seed", [0, 3])
def test_the_recipe_for_r_agrees_if_all_estimates_are_positive(tmp_path: Path, seed: int) -> None:
    result = crossed_result(seed)
    write_table(result, tmp_path / "rows.csv")
    in_r, messages = components_in_r(tmp_path)
    ours = variance_components(result).lines[0].effects.components
    assert min(ours.values()) > 0.0
    assert in_r == pytest.approx(ours, abs=1e-5)
    assert "boundary (singular) fit" not in messages


@pytest.mark.usefixtures("lme4")
@pytest.mark.parametrize(
    ("seed", "rows", "rows_and_templates", "rows_and_templates_in_r"),
    [(1, -0.0028, 0.0338, 0.0322), (2, -0.0043, 0.0233, 0.0210)],
)
def test_the_recipe_for_r_has_0_in_the_place_of_a_negative_estimate(
    tmp_path: Path, seed: int, rows: float, rows_and_templates: float, rows_and_templates_in_r: float
) -> None:
    result = crossed_result(seed)
    write_table(result, tmp_path / "rows.csv")
    in_r, messages = components_in_r(tmp_path)
    ours = variance_components(result).lines[0].effects.components
    assert ours["rows"] == pytest.approx(rows, abs=5e-5)
    assert ours["rows x templates"] == pytest.approx(rows_and_templates, abs=5e-5)
    assert in_r["rows"] == pytest.approx(0.0, abs=1e-6)
    assert in_r["rows x templates"] == pytest.approx(rows_and_templates_in_r, abs=5e-5)
    assert "boundary (singular) fit" in messages


def test_the_command_writes_the_table(tmp_path: Path) -> None:
    saved = tmp_path / "g.json"
    result = Generalisation(datasets=["mini"], limit=6)(probabilities)
    result.save(saved)
    table = tmp_path / "rows.csv"
    assert main(["export", "rows", str(saved), "-o", str(table)]) == 0
    with table.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 6 * 4 * 3  # rows, draws, templates
    assert {row["run"] for row in rows} == {"g"}
    assert {row["template"] for row in rows} == {"template1", "template2", "template3"}
    assert [int(row["accuracy"]) for row in rows] == [row["accuracy"] for row in row_scores(result)]


def test_the_page_writes_one_table_on_the_command_line_and_in_python() -> None:
    """Its Python block writes ``rows.csv`` again, whose components are compared with those of the command's result."""
    assert "limit" not in PAGE.read_text(encoding="utf-8").partition("The columns:")[0]


def own_run(folder: Path, name: str, subgroups: dict[str, Any] | None) -> str:
    """Save a run of own data with some columns of subgroups, and return its file."""
    pairs = [(f"text {number}", ("no", "yes")[number % 2]) for number in range(60)]
    data = Dataset.from_rows(pairs, name="rows", subgroups=subgroups)
    Normal(datasets=[data])(lambda prompt, label_space: 0).save(folder / name)
    return str(folder / name)


def test_runs_with_other_subgroups_have_a_table_with_all_columns(tmp_path: Path) -> None:
    files = [
        own_run(tmp_path, "without.json", None),
        own_run(tmp_path, "last.json", {"last": lambda row: f"last {row.texts[0][-1]}"}),
        own_run(tmp_path, "size.json", {"size": lambda row: f"size {len(row.texts[0])}"}),
    ]
    table = tmp_path / "rows.csv"
    assert main(["export", "rows", *files, "-o", str(table)]) == 0
    with table.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    kinds = {(row["run"], row["subgroup last"][:4], row["subgroup size"][:4]) for row in rows}
    assert kinds == {("without", "", ""), ("last", "last", ""), ("size", "", "size")}


def test_records_with_other_columns_are_not_written_below_the_wrong_heads() -> None:
    records: list[dict[str, Any]] = [{"run": "a", "size": 1}, {"run": "b", "last": 2}]
    with pytest.raises(ArgumentError, match=r"record 2 has other columns than the first \(last, size\)"):
        list(csv_lines(iter(records)))
