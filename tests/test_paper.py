"""The article docs/paper/paper.md: the form that the Journal of Open Source Software asks for, and its references."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from StaICC.comparing.citing import find_work
from StaICC.datasets.catalogue import names

PAPER = Path(__file__).parents[1] / "docs" / "paper"
_, METADATA, TEXT = (PAPER / "paper.md").read_text("utf-8").split("---\n", 2)
BIBLIOGRAPHY = (PAPER / "paper.bib").read_text("utf-8")

SECTIONS = [
    "Summary",
    "Statement of need",
    "State of the field",
    "Software design",
    "Research impact statement",
    "AI usage disclosure",
    "Acknowledgements",
    "References",
]
"""The sections that the journal requires, in its order."""


def test_it_has_the_sections_that_the_journal_requires_and_none_is_empty() -> None:
    parts = re.split(r"^# (.+)$", TEXT, flags=re.MULTILINE)[1:]
    texts = dict(zip(parts[::2], parts[1::2], strict=True))
    assert list(texts) == SECTIONS
    assert [section for section, text in texts.items() if not text.strip() and section != "References"] == []


def test_its_length_is_what_the_journal_allows() -> None:
    assert 750 <= len(TEXT.split()) <= 1750


def test_its_metadata_has_what_the_journal_requires() -> None:
    metadata = pytest.importorskip("yaml").safe_load(METADATA)
    assert {"title", "tags", "authors", "affiliations", "date", "bibliography"} <= set(metadata)
    assert (PAPER / metadata["bibliography"]).exists()
    affiliations = {affiliation["index"] for affiliation in metadata["affiliations"]}
    assert {author["affiliation"] for author in metadata["authors"]} <= affiliations


def test_every_reference_is_cited_and_every_citation_has_a_reference() -> None:
    cited = set(re.findall(r"@(\w+)", TEXT))
    assert cited == set(re.findall(r"^@\w+\{(\w+),$", BIBLIOGRAPHY, re.MULTILINE))


def test_every_reference_has_a_doi_or_an_address() -> None:
    entries = re.findall(r"^@\w+\{(\w+),\n(.*?)^\}$", BIBLIOGRAPHY, re.MULTILINE | re.DOTALL)
    assert len(entries) == BIBLIOGRAPHY.count("@")
    assert [key for key, fields in entries if not re.search(r"^ *(doi|url) *= \{", fields, re.MULTILINE)] == []


def test_every_work_of_the_data_sets_is_cited() -> None:
    entries = [find_work(dataset).bibtex for dataset in names()]
    keys = {key for bibtex in entries for key in re.findall(r"^@\w+\{(\w+),$", bibtex, re.MULTILINE)}
    assert keys <= set(re.findall(r"@(\w+)", TEXT))


WORKS = {
    "cho2025staicc": "StaICC",
    "li2024long": "LongICL",
    "yen2024helmet": "HELMET",
    "zhao2021calibrate": "Contextual bias",
    "fei2023mitigating": "Domain bias",
    "yoo2022ground": "GLER",
    "brown2020language": "Vanilla ICL",
    "zhou2024batch": "Batch Calibration",
    "liu2022what": "TopK",
    "cho2024token": "Hidden Calibration",
    "yauney2024stronger": "random baselines",
}
"""References that ``python -m StaICC cite`` prints, too, with a name under which it finds them."""


@pytest.mark.parametrize("key", WORKS)
def test_references_are_those_that_the_command_prints(key: str) -> None:
    printed = find_work(WORKS[key]).bibtex
    (entry,) = re.findall(rf"^@\w+\{{{key},\n.*?^\}}$", BIBLIOGRAPHY, re.MULTILINE | re.DOTALL)
    for field in ("title", "author", "year"):
        pattern = rf"^ *{field} *= \{{(.*)\}},?$"
        assert re.findall(pattern, entry, re.MULTILINE) == re.findall(pattern, printed, re.MULTILINE), field
