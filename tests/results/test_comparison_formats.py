"""Comparisons of saved results: which are made, which refused, and how they are written."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable
from typing import Any

import pytest

import StaICC
from StaICC.datasets import Dataset
from StaICC.results import Result, compare
from StaICC.results.comparison import Untested, compare_all, format_comparisons

SCRIPT = '<script>document.title = "owned"</script>'


def own(name: str, ones: Callable[[int], bool] = lambda row: row % 2 == 1) -> Dataset:
    return Dataset.from_rows(
        [(f"text {n} {SCRIPT}", int(ones(n))) for n in range(60)], name=name, label_space=["a", "b"]
    )


@pytest.fixture(scope="module")
def runs(make_model: Callable[..., Any]) -> dict[str, Result]:
    benchmark = StaICC.Normal(datasets=["mini"], limit=20)
    functions = {"hash": make_model, "first": lambda prompt, label_space: 0, "last": lambda prompt, label_space: 2}
    return {name: benchmark(function) for name, function in functions.items()}


@pytest.mark.parametrize(
    ("changed", "field"),
    [({"k": 2}, "k"), ({"limit": 9}, "limit"), ({"metrics": "0.1.1"}, "metrics"), ({"noisy_channel": True}, "channel")],
)
def test_other_settings_are_listed(
    runs: dict[str, Result], make_model: Callable[..., Any], changed: dict[str, Any], field: str
) -> None:
    benchmark = StaICC.Normal(**{"datasets": ["mini"], "limit": 20, **changed})
    other = benchmark(lambda prompt, label_space: make_model(str(prompt), label_space))
    (found,), left_out = compare_all({"hash": runs["hash"], "other": other})
    assert field in {one.field for one in found.comparisons[0].differences}
    assert found.comparisons[0].datasets[0].rows == changed.get("limit", 20)
    assert bool(left_out) == (field == "limit")


# -- formats


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def test_json_has_everything(runs: dict[str, Result]) -> None:
    (document,) = json.loads(format_comparisons(compare_all(runs)[0], "json"))
    assert [one["second"] for one in document["comparisons"]] == ["first", "last", "last"]
    figures, expected = document["comparisons"][0]["datasets"][0], compare(runs["hash"], runs["first"]).datasets[0]
    assert figures["difference"] == expected.difference
    assert (figures["outcome"], figures["reason"], figures["p_value"]) == ("tested", None, expected.p_value)
    best, *others = document["ranking"]
    assert best["verdict"] == {"case": "best"}
    assert {one["verdict"]["case"] for one in others} <= {"tied", "worse", "untested"}


def test_csv_says_what_the_text_says_below_the_table(make_model: Callable[..., Any]) -> None:
    """Non-inferiority and reasons were left out of CSV files."""
    few = own("few", lambda row: row > 20)
    first, second = (StaICC.Normal(datasets=sets, limit=4)(make_model) for sets in (["mini"], ["mini", few]))
    (found,), _ = compare_all({"a": first, "b": second}, "macro_F1", margin=0.02)
    notes = "; ".join(line["note"] for line in csv.DictReader(io.StringIO(format_comparisons([found], "csv"))))
    (pair,) = found.comparisons
    assert len(pair.left_out) > 0
    assert len(pair.non_inferiority) == 2
    assert all(text in notes for text in (*pair.left_out, *map(str, pair.non_inferiority)))
    other = StaICC.Normal(datasets=["mini"], limit=4)(lambda prompt, label_space: 0)
    ((untested,), _) = compare_all({"a": first, "b": other}, "macro_F1")
    outcome = untested.comparisons[0].datasets[0].outcome
    assert isinstance(outcome, Untested)
    assert outcome.reason in format_comparisons([untested], "csv")


def test_markdown_and_latex_are_tables(runs: dict[str, Result]) -> None:
    found, _ = compare_all(runs)
    lines = [line for line in format_comparisons(found, "markdown").splitlines() if line.startswith("|")]
    head, rows = found[0].comparisons[0].table()
    assert [cells(lines[0]), cells(lines[2])] == [head, rows[0]]
    assert set("".join(cells(lines[1]))) == {"-", ":"}
    text = format_comparisons(found, "latex")
    assert text.count(r"\begin{tabular}{lrrrrrrrr}") == text.count(r"\end{tabular}") - 1 == 3  # and the ranking
    latex = [line for line in text.splitlines() if line.startswith("mini &")]
    assert all(row.count(" & ") == 8 and row.endswith(r"\\") for row in latex)
    assert re.search(r"\$[+-]\d\.\d{4}\$", latex[0])


@pytest.mark.parametrize("name", [f"a ` {SCRIPT} `` b", f"{SCRIPT}\n\n{SCRIPT}", f"{SCRIPT}\r`|"])
def test_markup_in_a_name_is_text_in_every_format(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rendered as Markdown that lets HTML through, and read as LaTeX, no name of a data set becomes markup."""
    monkeypatch.setenv("COLUMNS", "1000")
    benchmark = StaICC.Normal(datasets=[own(name)], limit=12)
    both = {
        f"one {SCRIPT}": benchmark(lambda prompt, label_space: len(prompt) % 2),
        f"other ` {SCRIPT}": benchmark(lambda prompt, label_space: 1),
    }
    found, _ = compare_all(both)
    latex = format_comparisons(found, "latex")
    assert [line for line in latex.splitlines() if "<" in line and not line.startswith("% ")] == []
    text, compared = format_comparisons(found, "text").split("\n\n")[0], found[0].comparisons[0]
    notes = len(compared.introduction()) + len(compared.conclusion())
    assert len(text.splitlines()) == 6 + notes  # title, head, rule, row, whose signature, signature
    markdown = format_comparisons(found, "markdown")
    code = markdown.splitlines()[-1]
    fence = re.match("`+", code)
    assert fence is not None
    assert [row for row in re.findall("`+", code) if len(row) >= len(fence[0])] == [fence[0]] * 2
    parser = pytest.importorskip("markdown_it", reason="the Markdown is rendered by markdown-it-py")
    tokens = parser.MarkdownIt("commonmark", {"html": True}).enable("table").parse(markdown)
    kinds = {child.type for token in tokens for child in [token, *(token.children or [])]}
    assert {"table_open", "code_inline"} <= kinds
    assert not {"html_inline", "html_block"} & kinds
