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


def test_the_article_has_the_sections_that_the_journal_requires_and_none_is_empty() -> None:
    """The section of references is empty in the source, because it is written from the bibliography."""
    _, *headings_and_texts = re.split(r"^# (.+)$", TEXT, flags=re.MULTILINE)
    headings = headings_and_texts[0::2]
    texts = headings_and_texts[1::2]

    assert headings == SECTIONS
    for heading, text in zip(headings, texts, strict=True):
        if heading != "References":
            assert text.strip(), f"the section {heading} is empty"


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
    cited_keys = re.findall(r"@(\w+)", TEXT)

    for dataset in names():
        bibtex = find_work(dataset).bibtex  # one entry or more
        for key in re.findall(r"^@\w+\{(\w+),$", bibtex, re.MULTILINE):
            assert key in cited_keys, f"{key} of {dataset} is not cited"


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
    name_of_work = WORKS[key]
    (entry_of_article,) = re.findall(rf"^@\w+\{{{key},\n.*?^\}}$", BIBLIOGRAPHY, re.MULTILINE | re.DOTALL)

    printed_entry = find_work(name_of_work).bibtex

    for field in ("title", "author", "year"):
        value_of_field = rf"^ *{field} *= \{{(.*)\}},?$"
        printed = re.findall(value_of_field, printed_entry, re.MULTILINE)
        assert re.findall(value_of_field, entry_of_article, re.MULTILINE) == printed, field
