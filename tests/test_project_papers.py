"""CITATION.cff, CHANGELOG.md and CONTRIBUTING.md say the same as the library."""

from __future__ import annotations

import datetime
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

import StaICC
import StaICC.cli
from StaICC.results.citations import find_work

ROOT = Path(__file__).parents[1]
CHANGELOG = (ROOT / "CHANGELOG.md").read_text("utf-8")
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
PYPROJECT = (ROOT / "pyproject.toml").read_text("utf-8")


@pytest.fixture(scope="module")
def citation() -> dict[str, Any]:
    return pytest.importorskip("yaml").safe_load((ROOT / "CITATION.cff").read_text("utf-8"))


def test_citation_has_what_the_format_requires(citation: dict[str, Any]) -> None:
    assert citation["cff-version"] == "1.2.0"
    assert {"message", "title", "authors"} <= set(citation)
    assert citation["type"] == "software"
    assert citation["authors"] == [{"name": "StaICC contributors"}]
    assert re.search(rf'^license = "{citation["license"]}"$', PYPROJECT, re.MULTILINE)
    assert isinstance(citation["date-released"], datetime.date)
    assert citation["version"] == StaICC.__version__


def test_preferred_citation_is_the_paper_that_cite_prints(citation: dict[str, Any]) -> None:
    paper = citation["preferred-citation"]
    assert {"type", "title", "authors", "year"} <= set(paper)
    printed = dict(re.findall(r"(\w+) += \{(.*)\},?$", find_work("StaICC").bibtex, flags=re.MULTILINE))
    assert paper["title"] == printed["title"].replace("{", "").replace("}", "")
    names = [f"{one['family-names']}, {one['given-names']}" for one in paper["authors"]]
    assert " and ".join(names) == printed["author"]
    assert (paper["journal"], str(paper["year"])) == (printed["journal"], printed["year"])


def test_changelog_begins_with_this_version(citation: dict[str, Any]) -> None:
    unreleased = StaICC.__version__.endswith(".dev0")
    assert CHANGELOG.startswith("# Changelog")
    assert ("\n## Unreleased\n" in CHANGELOG) == unreleased
    released, date = re.findall(r"^## (\S+) - (\d{4}-\d{2}-\d{2})$", CHANGELOG, re.MULTILINE)[0]
    assert datetime.date.fromisoformat(date) == citation["date-released"]
    if unreleased:  # results of the code in between differ from those of both releases
        assert StaICC.__version__.split(".") > released.split(".")
    else:
        assert released == StaICC.__version__


def section(text: str, head: str) -> str:
    found = re.findall(rf"^#+ {re.escape(head)}\n(.*?)(?=^##|\Z)", text, re.MULTILINE | re.DOTALL)
    assert found, head
    return "\n".join(found)


def test_changelog_names_every_figure_and_method_that_moved() -> None:
    from StaICC.methods.run import METHODS

    moved = section(CHANGELOG[CHANGELOG.index("\n## 1.0.0") :], "Numbers change").casefold()
    unmoved = {"vanilla", "knn_prompt_centroid"}
    unmoved |= {
        "temperature_scaling",
        "linear_calibration",
        "prototypical_calibration",
        "dc_pmi",
        "ensemble",
        "generate",
    }  # new
    for name, spec in METHODS.items():
        assert name in unmoved or spec.title.casefold() in moved, name
    kernel = StaICC.load_kernel("ppm")
    for head, benchmark, key in (
        ("likelihood", StaICC.Normal, "averaged_truelabel_likelihood"),
        ("ece-1", StaICC.Normal, "expected_calibration_error_1"),
        ("`entropy`", StaICC.ContextualBias, "entropy"),
        ("gler", StaICC.GLER, "accuracy"),
    ):
        assert head in moved
        figures = [
            benchmark(datasets=["mini"], metrics=metrics)(kernel)["Averaged results"][key]
            for metrics in ("standard", "0.1.1")
        ]
        assert figures[0] != pytest.approx(figures[1], rel=1e-3)


def answers_nothing(prompt: str, label_space: list[str]) -> list[float]:
    return [0.0] * len(label_space)


def test_changelog_on_labels_and_ties() -> None:
    """What 0.1.1 gives here was seen by running its wheel."""
    for metrics, defined in (("standard", False), ("0.1.1", True)):
        tied = StaICC.Normal(datasets=["mini"], metrics=metrics)(answers_nothing)["Averaged results"]
        assert tied["accuracy"] is not None
        assert tied["macro_F1"] is not None
        last = StaICC.Normal(datasets=["mini"], metrics=metrics)(lambda prompt, label_space: len(label_space) - 1)
        scores = last["Averaged results"]
        assert scores["averaged_truelabel_likelihood"] == (scores["accuracy"] if defined else None)
        assert scores["expected_calibration_error_1"] == (0 if defined else None)


@pytest.mark.parametrize("metrics", ["standard", "0.1.1"])
def test_changelog_on_the_distribution_of_posterior_bias(metrics: str) -> None:
    result = StaICC.PosteriorBias(datasets=["mini"], metrics=metrics)(StaICC.load_kernel("ppm"))
    total = sum(result["Divided results"]["mini"]["distribution"])
    assert total == pytest.approx(1 if metrics == "standard" else 0, abs=1e-9)
    assert result["Averaged results"].get("distribution") == (None if metrics == "standard" else 0)


@pytest.mark.parametrize("text", [CHANGELOG, CONTRIBUTING], ids=["CHANGELOG.md", "CONTRIBUTING.md"])
def test_links_and_paths_lead_somewhere(text: str) -> None:
    for target in re.findall(r"\]\(([^)#\s]+)", text):
        assert (ROOT / target).exists(), target
    for path in re.findall(r"`((?:StaICC|tests|docs|examples|\.ci)/[\w./]*)`", text):
        assert path == "examples/NAME.py" or (ROOT / path).exists(), path


def test_contributing_names_all_marks_and_variables() -> None:
    marks = re.findall(r'"(\w+): ', re.findall(r"^markers = \[(.*?)^\]$", PYPROJECT, re.MULTILINE | re.DOTALL)[0])
    assert sorted(re.findall(r"^\| `(\w+)` \|", CONTRIBUTING, re.MULTILINE)) == sorted(marks)
    sources = "".join(file.read_text("utf-8") for room in ("StaICC", "tests") for file in (ROOT / room).rglob("*.py"))
    for variable in re.findall(r"^\| `(STAICC_\w+)=", CONTRIBUTING, re.MULTILINE):
        assert f'"{variable}"' in sources, variable
    required = set(re.findall(r'"(STAICC_REQUIRE_\w+)"', sources))
    assert required <= set(re.findall(r"STAICC_\w+", CONTRIBUTING))


def test_commands_of_contributing() -> None:
    commands = [
        line for block in re.findall(r"```console\n(.*?)```", CONTRIBUTING, re.DOTALL) for line in block.splitlines()
    ]
    assert len(commands) >= 10
    for command in commands:
        for extra in re.findall(r"\.\[([\w,]+)\]", command):
            assert [one for one in extra.split(",") if not re.search(rf"^{one} = \[", PYPROJECT, re.MULTILINE)] == []
        words = shlex.split(command)
        if words[0] == "staicc":
            StaICC.cli._parser(words[1]).parse_args(words[1:])
        for wheel in re.findall(r"dist/staicc-(\S+)-py3", command):
            assert wheel == StaICC.__version__.removesuffix(".dev0")
