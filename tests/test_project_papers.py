"""CITATION.cff, CHANGELOG.md and CONTRIBUTING.md say the same as the library."""

from __future__ import annotations

import datetime
import re
from pathlib import Path
from typing import Any

import pytest

import StaICC
import StaICC.cli
from StaICC.results.published import find_work

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
    names = [f"{author['family-names']}, {author['given-names']}" for author in paper["authors"]]
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


@pytest.mark.parametrize("text", [CHANGELOG, CONTRIBUTING], ids=["CHANGELOG.md", "CONTRIBUTING.md"])
def test_links_and_paths_lead_somewhere(text: str) -> None:
    for target in re.findall(r"\]\(([^)#\s]+)", text):
        assert (ROOT / target).exists(), target
    for path in re.findall(r"`((?:StaICC|tests|docs|examples|\.ci)/[\w./]*)`", text):
        assert path == "examples/NAME.py" or (ROOT / path).exists(), path
