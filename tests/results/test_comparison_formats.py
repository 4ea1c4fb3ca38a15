"""Comparisons of saved results: which are made, which refused, and how they are written."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest

import StaICC
from StaICC.datasets import Dataset
from StaICC.errors import ArgumentError, UnknownNameError
from StaICC.results import Result, ResultGroup, compare
from StaICC.results.comparison_formats import FORMATS, compare_all, format_comparisons


@pytest.fixture(scope="module")
def runs(make_model: Callable[..., Any]) -> dict[str, Result]:
    functions = {"hash": make_model, "first": lambda prompt, label_space: 0, "last": lambda prompt, label_space: 2}
    return {name: StaICC.Normal(datasets=["mini"], limit=20)(function) for name, function in functions.items()}


def test_each_with_the_first(runs: dict[str, Result]) -> None:
    found, left_out = compare_all(runs)
    assert [(one.first, one.second) for one in found] == [("hash", "first"), ("hash", "last")]
    assert left_out == ()
    assert found[0].comparison == compare(runs["hash"], runs["first"])


def test_one_is_not_enough(runs: dict[str, Result]) -> None:
    with pytest.raises(ArgumentError, match="a comparison needs two results at least, 1 given"):
        compare_all({"hash": runs["hash"]})


@pytest.mark.parametrize(
    ("changed", "part"),
    [
        ({"k": 2}, "k: 4 and 2"),
        ({"limit": 9}, "limit: 20 and 9"),
        ({"metrics": "0.1.1"}, "metrics: standard and 0.1.1"),
    ],
)
def test_unequal_signatures_are_refused_naming_the_part(
    runs: dict[str, Result], changed: dict[str, Any], part: str
) -> None:
    other = StaICC.Normal(**{"datasets": ["mini"], "limit": 20, **changed})(lambda prompt, label_space: 0)
    with pytest.raises(ArgumentError, match=r"hash and other, Normal: the results were not asked the same") as caught:
        compare_all({"hash": runs["hash"], "other": other})
    assert part in str(caught.value)


def test_groups_part_by_part(make_model: Callable[..., Any], group: ResultGroup) -> None:
    other = StaICC.Suite(datasets=["mini"], limit=3)(lambda prompt, label_space: 1)
    found, left_out = compare_all({"a": group, "b": other})
    assert [one.benchmark for one in found] == ["Normal", "GLER"]
    assert "Template_sens (no accuracy)" in left_out
    assert len(left_out) == 5


def test_a_group_and_a_single_result_share_a_part(group: ResultGroup) -> None:
    single = StaICC.Normal(datasets=["mini"], limit=3)(lambda prompt, label_space: 1)
    found, left_out = compare_all({"a": single, "b": group})
    assert [one.benchmark for one in found] == ["Normal"]
    assert "GLER (one file only)" in left_out


def test_nothing_in_common(runs: dict[str, Result]) -> None:
    gler = StaICC.GLER(datasets=["mini"], limit=3)(lambda prompt, label_space: 1)
    with pytest.raises(ArgumentError, match=r"hash \(Normal\) and gler \(GLER\) share no benchmark"):
        compare_all({"hash": runs["hash"], "gler": gler})


def test_no_accuracy_at_all(make_model: Callable[..., Any]) -> None:
    bias = StaICC.ContextualBias(datasets=["mini"], limit=3)(make_model)
    with pytest.raises(ArgumentError, match="scores no accuracy"):
        compare_all({"a": bias, "b": bias})


def test_the_methods_of_one_file(runs: dict[str, Result]) -> None:
    other = StaICC.Normal(datasets=["mini"], limit=20, k=2)(lambda prompt, label_space: 0)
    methods = ResultGroup("methods", {"vanilla": runs["hash"], "mine": runs["first"], "odd": other})
    found, left_out = compare_all({"gpt2": methods})
    assert [(one.first, one.second) for one in found] == [("gpt2: vanilla", "gpt2: mine")]
    assert left_out[0].startswith("gpt2: odd (the results were not asked the same")


def test_rows_of_several_conditions_count_once(make_model: Callable[..., Any]) -> None:
    """Label noise asks a row under five conditions: they are no five rows of evidence."""
    own = Dataset.from_rows([(f"text {row}", row % 2) for row in range(60)], name="own", label_space=["no", "yes"])
    sets = ["mini", own]
    first = StaICC.GLER(datasets=sets, limit=4)(make_model)
    second = StaICC.GLER(datasets=sets, limit=4)(lambda prompt, label_space: 0)
    together = compare(first, second).together
    assert together is not None
    assert together.condition == "all conditions"
    assert together.queries == 2 * 4 * 2 * 5
    assert together.permutation >= 2 / 2**8  # eight rows can show no more than that


# -- formats


def cells(line: str, separator: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split(separator)]


def test_json_has_everything(runs: dict[str, Result]) -> None:
    document = json.loads(format_comparisons(compare_all(runs)[0], "json"))
    assert [one["second"] for one in document] == ["first", "last"]
    assert document[0]["datasets"][0]["difference"] == compare(runs["hash"], runs["first"]).datasets[0].difference


def test_markdown_is_a_table(runs: dict[str, Result]) -> None:
    text = format_comparisons(compare_all(runs)[0], "markdown")
    lines = [line for line in text.splitlines() if line.startswith("|")]
    head, rows = compare(runs["hash"], runs["first"]).table()
    assert cells(lines[0], "|") == head
    assert set("".join(cells(lines[1], "|"))) == {"-", ":"}
    assert cells(lines[2], "|") == rows[0]


def test_latex_is_a_table(runs: dict[str, Result]) -> None:
    text = format_comparisons(compare_all(runs)[0], "latex")
    assert text.count(r"\begin{tabular}{lrrrrrrrr}") == text.count(r"\end{tabular}") == 2
    rows = [line for line in text.splitlines() if line.startswith("mini &")]
    assert all(row.count(" & ") == 8 and row.endswith(r"\\") for row in rows)
    assert re.search(r"\$[+-]\d\.\d{4}\$", rows[0])


def test_text_says_what_the_columns_mean(runs: dict[str, Result]) -> None:
    text = format_comparisons(compare_all(runs)[0])
    assert text.startswith("Normal: first hash, second first\n")
    assert "McNemar: exact test" in text


NASTY = r"50 % of $x_1$ | {a}\b & <i> # ~ ^ *"


def nasty() -> dict[str, Result]:
    own = Dataset.from_rows([(f"text {row}", row % 2) for row in range(60)], name=NASTY, label_space=["no", "yes"])
    return {
        f"{name} {NASTY}": StaICC.Normal(datasets=[own], limit=4)(lambda prompt, label_space, n=n: n)
        for n, name in enumerate("ab")
    }


def test_markdown_cells_keep_what_names_hold() -> None:
    lines = format_comparisons(compare_all(nasty())[0], "markdown").splitlines()
    row = next(line for line in lines if line.startswith("| 50"))
    assert len(re.findall(r"(?<!\\)\|", row)) == 10
    assert re.sub(r"\\([^\w\s]|_)", r"\1", cells(re.sub(r"\\\|", "\0", row), "|")[0].replace("\0", r"\|")) == NASTY


def test_latex_cells_hold_no_command_of_the_data() -> None:
    text = format_comparisons(compare_all(nasty())[0], "latex")
    row = next(line for line in text.splitlines() if line.startswith("50"))
    assert r"50 \% of \$x\_1\$ \textbar{} \{a\}\textbackslash{}b \& \textless{}i\textgreater{}" in text
    bare = re.sub(r"\\[%$_{}&#]|\\text\w+\{\}|\\ldots ", "", row.removesuffix(r" \\"))
    assert set(bare) & set("%_#~^<>|\\{}") == set()


SCRIPT = '<script>document.title = "owned"</script>'


@pytest.mark.parametrize("name", [SCRIPT, f"a ` {SCRIPT} `` b", f"{SCRIPT}\n\n{SCRIPT}", f"{SCRIPT}\r`|"])
def test_markup_in_a_name_is_text_in_every_format(name: str) -> None:
    """Rendered as Markdown that lets HTML through, and read as LaTeX, no name of a data set becomes markup."""
    from StaICC.datasets import Dataset

    own = Dataset.from_rows([(f"text {row} {SCRIPT}", row % 2) for row in range(60)], name=name, label_space=["a", "b"])
    benchmark = StaICC.Normal(datasets=[own], limit=12)
    both = {
        f"one {SCRIPT}": benchmark(lambda prompt, label_space: len(prompt) % 2),
        f"other ` {SCRIPT}": benchmark(lambda prompt, label_space: 1),
    }
    found, _ = compare_all(both)
    latex = format_comparisons(found, "latex")
    assert [line for line in latex.splitlines() if "<" in line and not line.startswith("% ")] == []
    text = format_comparisons(found, "text").split("\n\n")[0]
    assert len(text.splitlines()) == 5  # title, head, rule, row, signature
    code = format_comparisons(found, "markdown").splitlines()[-1]
    fence = re.match("`+", code)
    assert fence is not None
    assert [row for row in re.findall("`+", code) if len(row) >= len(fence[0])] == [fence[0]] * 2
    parser = pytest.importorskip("markdown_it", reason="the Markdown is rendered by markdown-it-py")
    tokens = (
        parser.MarkdownIt("commonmark", {"html": True}).enable("table").parse(format_comparisons(found, "markdown"))
    )
    kinds = {child.type for token in tokens for child in [token, *(token.children or [])]}
    assert {"table_open", "code_inline"} <= kinds
    assert not {"html_inline", "html_block"} & kinds


def test_an_unknown_format() -> None:
    with pytest.raises(UnknownNameError, match=r"no format 'mardown'; did you mean 'markdown'\?"):
        format_comparisons((), "mardown")
    assert tuple(FORMATS) == ("text", "markdown", "latex", "json")
