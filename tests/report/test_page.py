"""The page: complete, self-contained, escaped, accessible; read with a parser of its own."""

from __future__ import annotations

import base64
import hashlib
import json
import math
import re
from collections.abc import Iterator
from dataclasses import replace
from html import unescape
from html.parser import HTMLParser
from inspect import signature
from statistics import fmean
from typing import Any

import pytest

import StaICC
from StaICC.benchmarks.saved_prompts import written_prompts
from StaICC.comparing.comparison import compare, compare_all
from StaICC.comparing.formats import format_comparisons
from StaICC.comparing.ranking import rank
from StaICC.comparing.verdicts import p_text
from StaICC.datasets.catalogue import SplitSizes
from StaICC.datasets.dataset import Dataset
from StaICC.errors import StaICCError
from StaICC.report.chart_scores import ChartScore
from StaICC.report.figures.accuracy_plot import accuracy_by_dataset
from StaICC.report.heat_maps import _shades
from StaICC.report.html import Missing, escape, resource
from StaICC.report.latex_tables import latex_scores
from StaICC.report.page import report_html
from StaICC.report.query_view import query_section
from StaICC.report.tables import table
from StaICC.results.model_card import model_index
from StaICC.results.result import Result, ResultGroup
from StaICC.results.signature import Signature
from tests.report.conftest import model

VOID = {"meta", "br", "wbr", "img", "link", "input", "hr"}


class Page(HTMLParser):
    """A page as nested elements: what is where, and whether every element closes."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[tuple[str, str]] = []
        self.open: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert len({name for name, _ in attrs}) == len(attrs), (tag, attrs)
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append((self.open[-1] if self.open else "", data))

    def count(self, tag: str) -> int:
        return sum(name == tag for name, _ in self.elements)

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]


@pytest.fixture(scope="module")
def text(suite: ResultGroup) -> str:
    return report_html({"run": suite})


@pytest.fixture(scope="module")
def page(text: str) -> Page:
    return Page(text)


@pytest.fixture(scope="module")
def wild(nasty: Result, long_icl: Result) -> str:
    return report_html({"<i>a</i>": nasty, "_b & $x$": nasty, "c": long_icl}, title="</title><script>1</script>")


# -- what it holds


def test_a_page_has_a_section_for_each_question(page: Page) -> None:
    headings = [text for tag, text in page.texts if tag == "h2"]
    questions = ["How accurate?", "How calibrated?", "How biased?", "How robust?"]
    assert headings == ["Leaderboard", *questions, "Published figures", "All scores", "Runs"]


def test_a_page_has_each_figure_once(text: str, page: Page) -> None:
    captions = [caption for tag, caption in page.texts if tag == "strong" and caption.endswith(".")]
    for caption in (
        "Accuracy by data set.",
        "Reliability by run.",
        "Reliability by data set, run.",
        "Mean predictions, run.",
        "Accuracy against label noise.",
    ):
        assert caption in captions
    assert len(captions) == len(set(captions)), "a figure is there twice"
    assert "Not drawn" not in text


def test_a_page_has_each_score(text: str, suite: ResultGroup) -> None:
    for result in suite.results():
        for name, value in result.averaged.items():
            is_distribution = result.benchmark == "Post_bias" and name == "distribution"
            if value is not None and not is_distribution:
                assert f"{value:.4f}" in text, (result.benchmark, name)


def test_a_page_has_the_signature_of_each_result(text: str, suite: ResultGroup) -> None:
    text_without_line_breaks = text.replace("<wbr>", "")
    for result in suite.results():
        assert escape(str(result.signature)) in text_without_line_breaks


def test_each_section_has_a_link_and_an_address_of_its_own(wild: str) -> None:
    parsed = Page(wild)
    names = [attributes["id"] for _, attributes in parsed.elements if "id" in attributes]
    assert len(names) == len({*names}) == parsed.count("section") > 6
    assert [f"#{name}" for name in names] == [attributes["href"] for attributes in parsed.all("a")]


def test_the_same_results_give_the_same_bytes(text: str, suite: ResultGroup) -> None:
    assert report_html({"run": suite}) == text


def rows_of(text: str, caption: str) -> list[list[str]]:
    """Return the texts of the rows of a table."""
    start = text.index(f"<caption>{caption}")
    rows = re.findall(r"<tr>(.*?)</tr>", text[start : text.index("</table>", start)], re.DOTALL)
    cells = [re.findall(r"<t[hd].*?</t[hd]>", one.replace("<wbr>", "")) for one in rows]
    return [[" ".join(unescape(re.sub("<[^>]*>", " ", cell)).split()) for cell in row] for row in cells]


def with_version(result: Result, version: str) -> Result:
    """The result as another version of the library would have saved it."""
    return replace(result, signature=Signature({**result.signature.fields, "version": version}))


def test_versions_of_the_runs_are_in_the_leaderboard_if_they_differ(normal: Result) -> None:
    """The version in the header is the one that wrote the page."""
    version = normal.signature.fields["version"]
    assert f"version {version}" in report_html({"a": normal, "b": normal})
    page = report_html({"a": normal, "b": with_version(normal, "0.9.0")})
    head, first, second = rows_of(page, "Leaderboard")
    assert head[2] == "version"
    assert (first[2], second[2]) == (version, "0.9.0")
    assert f"Page written by StaICC {StaICC.__version__}" in page


def test_groups_say_in_what_they_differ_and_have_titles_of_their_own(suite: ResultGroup, normal: Result) -> None:
    """They were said to differ in data sets, limit, metrics or options, also where only the benchmarks do."""
    parts = {result.benchmark: result for result in suite.results()}
    page = report_html({"a": parts["Normal"], "b": parts["GLER"]})
    assert "The groups differ in: benchmarks." in page
    assert headings(page) == ["10 data sets, benchmarks Normal", "10 data sets, benchmarks GLER"]

    other_texts = replace(normal, signature=Signature({**normal.signature.fields, "data": "0123456789ab"}))
    page = report_html({"a": normal, "b": other_texts})
    assert "The groups differ in: contents of data sets." in page
    assert headings(page)[1].endswith("contents of data sets 0123456789ab")
    assert len({*headings(page)}) == 2


def headings(page: str) -> list[str]:
    """Return the headings of the leaderboards."""
    end = page.index("</section>")
    return re.findall("<h3>(.*?)</h3>", page[:end].replace("<wbr>", ""))


def easy_and_hard_data() -> list[Dataset]:
    """Return two data sets with 40 test rows each; the text of a row has its number and its label."""
    datasets = []
    for name in ("easy", "hard"):
        rows = []
        for row in range(80):
            label = row % 2
            label_name = "no" if label == 1 else "yes"
            rows.append((f"{name} {row} {label_name}", label))
        sizes = SplitSizes(calibration=0, demonstration=40, test=40)
        datasets.append(Dataset.from_rows(rows, name=name, label_space=["yes", "no"], split=sizes))
    return datasets


def known(share: float, shift: int = 0, fails: bool = False) -> Result:
    """Return a run that is right on a share of the rows of two data sets; it is wrong on the others, or fails on them.

    Which rows these are depends on the last digit of the number of the row, to which ``shift`` is added.
    """

    def predict(prompt: str, label_space: list[str]) -> list[float] | None:
        _, row, label_name = re.findall(r"(easy|hard) (\d+) (yes|no)", prompt)[-1]
        is_known = (int(row) + shift) % 10 < 10 * share
        if fails and not is_known:
            return None
        predicts_yes = (label_name == "yes") == is_known
        return [0.8, 0.2] if predicts_yes else [0.2, 0.8]

    return StaICC.Normal(datasets=easy_and_hard_data())(predict, on_error="collect")


def first_words(cells: list[str]) -> list[str]:
    """Return the first word of each cell: of a leaderboard, the name of the run without its details."""
    return [cell.split()[0] for cell in cells]


def marks_in_leaderboard(page: str) -> dict[str, str]:
    """Return the word behind the first score of each run: best, tied, or another."""
    _, *rows = rows_of(page, "Leaderboard")
    return {row[0].split()[0]: row[1].split()[1] for row in rows}


@pytest.fixture(scope="module")
def four_runs() -> dict[str, Result]:
    """Runs with accuracy below 50 %, of 50 %, and twice 100 %, on 80 rows."""
    return {"worst": known(0.5), "bad": known(0.5, 2), "<b>best</b>": known(1.0), "copy": known(1.0)}


def test_runs_are_ranked_by_accuracy(four_runs: dict[str, Result]) -> None:
    head, *rows = rows_of(report_html(four_runs), "Leaderboard")
    assert head[1].split() == ["accuracy", "higher", "is", "better"]
    assert head[-1].split()[-3:] == ["lower", "is", "better"]
    assert first_words([row[0] for row in rows]) == ["<b>best</b>", "copy", "bad", "worst"]


def test_a_score_of_the_leaderboard_has_its_interval(four_runs: dict[str, Result]) -> None:
    _, *rows = rows_of(report_html(four_runs), "Leaderboard")
    for row in rows:
        run = four_runs[row[0].split()[0]]
        interval = run.means.intervals["accuracy"]
        expected = [f"{run.averaged['accuracy']:.4f}", f"{interval.low:.3f}", f"{interval.high:.3f}"]
        assert re.findall(r"\d\.\d+", row[1]) == expected


def test_equal_runs_are_both_the_best(four_runs: dict[str, Result]) -> None:
    marks = marks_in_leaderboard(report_html(four_runs))
    assert marks["<b>best</b>"] == "best"
    assert marks["copy"] == "best"


def test_runs_that_the_test_tells_from_the_best_are_not_marked_as_tied(four_runs: dict[str, Result]) -> None:
    """By the test of ``compare``: 50 % and 100 % are shown to differ."""
    marks = marks_in_leaderboard(report_html(four_runs))
    assert {marks["bad"], marks["worst"]}.isdisjoint({"best", "tied"})


def test_runs_that_the_test_does_not_tell_apart_are_tied(four_runs: dict[str, Result]) -> None:
    """By the test of ``compare``: 42 % and 50 % are not shown to differ."""
    worst, bad = four_runs["worst"], four_runs["bad"]
    assert worst.averaged["accuracy"] < bad.averaged["accuracy"]
    assert marks_in_leaderboard(report_html({"worst": worst, "bad": bad})) == {"bad": "best", "worst": "tied"}


def sentence(runs: dict[str, Result]) -> str:
    """Return the sentence above the first leaderboard."""
    found = re.search(r'<p class="answer">(.*?)</p>', report_html(runs))
    assert found is not None
    return unescape(re.sub("<[^>]*>", "", found[1]))


def many_runs() -> dict[str, Result]:
    """Return 21 runs, more than :data:`MOST_RUNS`: one leads, ten are near it, ten are far from it.

    The first is right on all of 80 rows, the near ones are wrong on 13 of them, the far ones on all.
    """
    rows = [(f"{row}.", "ny"[row % 2]) for row in range(160)]
    data = Dataset.from_rows(rows, name="many", split=SplitSizes(calibration=0, demonstration=80, test=80))
    benchmark = StaICC.Normal(datasets=[data])
    queries = benchmark[0].all_queries()
    test_rows = list(dict.fromkeys(query.row for query in queries))

    def run(wrong: int) -> Result:
        wrong_rows = test_rows[:wrong]
        predictions = [1 - query.label if query.row in wrong_rows else query.label for query in queries]
        return benchmark(preentered_prediction=[predictions])

    near = {f"near{number}": run(wrong=13) for number in range(10)}
    low = {f"low{number}": run(wrong=80) for number in range(10)}
    return {"lead": run(wrong=0), **near, **low}


def test_of_many_runs_the_leaderboard_has_the_verdicts_of_rank() -> None:
    """Holm's correction decides about the pairs with the best run; Bonferroni's, which compare has, would not."""
    runs = many_runs()
    marks = marks_in_leaderboard(report_html(runs))
    assert marks == {place.run: place.verdict.case for place in rank(runs).runs}
    assert marks["near0"] == "worse"


def test_of_many_runs_latex_underlines_no_run_as_tied() -> None:
    (accuracies,) = [line for line in latex_scores(many_runs()).splitlines() if line.startswith("accuracy")]
    assert r"\underline{" not in accuracies


def test_of_many_runs_latex_and_the_page_say_that_compare_may_differ_from_rank() -> None:
    runs = many_runs()
    assert "can be tied where rank has worse" in latex_scores(runs)
    assert "can be tied where rank has worse" in report_html(runs)


@pytest.fixture(scope="module")
def three_runs() -> dict[str, Result]:
    """Runs that are right on half of the rows, on all, and on another half."""
    return {"half": known(0.5), "all": known(1.0), "some": known(0.5, 2)}


def test_the_sentence_says_who_leads_and_by_how_much(three_runs: dict[str, Result]) -> None:
    """The second is the better of the others. The numbers are those of ``compare``."""
    text = sentence(three_runs)
    assert text.startswith("all leads with accuracy 1.0000")
    second = max(("half", "some"), key=lambda name: three_runs[name].averaged["accuracy"] or 0.0)
    pair = compare(three_runs["all"], three_runs[second]).overall
    interval = f"(95 % interval {pair.interval.low:+.3f} .. {pair.interval.high:+.3f})"
    assert f"all minus {second} is {pair.difference:+.4f} {interval}: a significant difference (p " in text
    assert "mean of 2 data sets" in text
    assert "2 of 2 data sets" in text


def test_the_sentence_says_that_a_difference_is_not_significant(three_runs: dict[str, Result]) -> None:
    half, some = three_runs["half"], three_runs["some"]
    text = sentence({"half": half, "some": some})
    p = compare(half, some).overall.holm
    assert f"not a significant difference (p = {p:.3g})" in text
    assert "No value" not in text, "both runs have all scores"
    assert "test rows" not in text, "both runs have all rows"


def test_the_sentence_says_that_runs_share_the_best_score(three_runs: dict[str, Result]) -> None:
    runs = {"all": three_runs["all"], "same": three_runs["all"], "half": three_runs["half"]}
    assert "share the best accuracy" in sentence(runs)


def test_the_sentence_about_one_run_has_its_score(three_runs: dict[str, Result]) -> None:
    assert sentence({"all": three_runs["all"]}).startswith("all: accuracy 1.0000")


def test_the_sentence_names_the_run_with_the_lowest_bias() -> None:
    """Of a bias, lower values are better."""
    bias = StaICC.Domain_bias(datasets=["mini"], limit=6)
    low, middle, high = (bias(lambda prompt, label_space, a=a: [a, 0.2, 0.8 - a]) for a in (0.5, 0.6, 0.7))
    lead = middle.averaged["domain_bias"] - low.averaged["domain_bias"]
    text = sentence({"high": high, "low": low, "middle": middle})
    assert re.match(rf"low leads with domain bias .* low minus middle is -{lead:.4f} ", text)


@pytest.mark.parametrize("name", ["whole", "a"], ids=["after the other name", "before the other name"])
def test_a_run_with_missing_queries_never_leads_by_the_others(name: str) -> None:
    """Without its missing queries, it is right on more than half. With them at their worst, it is not better."""
    benchmark = StaICC.Normal(datasets=["mini"], limit=6)
    whole = benchmark(lambda prompt, label_space: [0.1, 0.2, 0.7])
    partial = benchmark(lambda prompt, label_space: [0.5, 0.3, 0.2] if len(prompt) % 2 else None, on_error="collect")
    text = sentence({"partial": partial, name: whole})
    assert text.startswith(f"{name} leads with accuracy 0.5000")
    assert re.search(rf"{name} minus partial is \+\d\.\d{{4}} with missing queries at their worst: not ", text)


def test_the_sentence_says_which_scores_are_undefined_and_how_many_rows_there_are() -> None:
    """A run that predicts labels has no probabilities, and so no calibration error."""
    benchmark = StaICC.Normal(datasets=["mini"], limit=6)
    text = sentence({"labels": benchmark(lambda prompt, label_space: 0), "scores": benchmark(model)})
    assert "the first 6 test rows)" in text
    assert "No value: likelihood, calibration error (ECE-1) (labels)." in text


def test_the_sentence_says_that_a_score_is_undefined_for_all_runs() -> None:
    labels = StaICC.Normal(datasets=["mini"], limit=6)(lambda prompt, label_space: 0)
    assert "(all runs)" in sentence({"labels": labels, "again": labels})


def test_of_many_runs_pairs_and_parts_are_folded() -> None:
    """A page of many runs stays short: of what has changed, only the first part is open."""
    runs = {f"run {number}": known(number / 8) for number in range(8)}
    folds = re.findall(r"<details( open)?><summary>([^<]*)", section(report_html(runs), "changed"))
    open_parts = [name for is_open, name in folds if is_open]
    folded_parts = [name for is_open, name in folds if not is_open]
    assert open_parts == ["", "Normal"]
    assert len(folded_parts) == 7, "each pair with the leading run"
    for name in folded_parts:
        assert "run 7, run " in name, "the leading run comes first"


def section(page: str, key: str) -> str:
    """Return a section of a page."""
    return page[page.index(f'<section id="{key}">') :].split("</section>")[0]


@pytest.mark.parametrize("lower_is_better", [False, True])
def test_headline_and_table_have_the_same_difference_and_p_value(lower_is_better: bool) -> None:
    """Also where lower values are better, and where the leading run is not the first one."""
    runs = {"half": known(0.5), "lead": known(1.0), "some": known(0.5, 2)}
    if lower_is_better:
        bias = StaICC.Domain_bias(datasets=["mini"], limit=20)
        shares = {"half": 0.7, "lead": 0.5, "some": 0.6}
        runs = {name: bias(lambda prompt, label_space, a=a: [a, 0.2, 0.8 - a]) for name, a in shares.items()}
    text = sentence(runs)
    found = re.search(r"lead minus (\w+) is ([+-]\d\.\d{4}) \(.*?: (.*)", text)
    assert found is not None, text
    other, difference, verdict = found.groups()
    assert difference.startswith("-" if lower_is_better else "+")
    changed = section(report_html(runs), "changed")
    head, *_, last = rows_of(changed, f"{runs['lead'].benchmark}: lead, {other}")
    assert last[head.index("difference")] == difference
    if lower_is_better:
        assert verdict.startswith("not tested: ")
        assert "p (Holm)" not in head
    else:
        p = p_text(float(last[head.index("p (Holm)")]))
        assert verdict.startswith(f"a significant difference ({p}, corrected for all pairs of runs)")


def test_headline_and_table_of_many_runs_have_the_same_difference_and_p_value() -> None:
    """Of more than 20 runs, compare corrects by Bonferroni's method, and the leaderboard by Holm's."""
    runs = many_runs()
    text = sentence(runs)
    found = re.search(r"lead minus (near\d) is ([+-]\d\.\d{4}) \(.*?: .*? difference \((p .*?), corrected", text)
    assert found is not None, text
    other, difference, p_of_sentence = found.groups()
    head, *_, last = rows_of(section(report_html(runs), "changed"), f"Normal: lead, {other}")
    assert last[head.index("difference")] == difference
    assert p_text(float(last[head.index("p (Holm)")])) == p_of_sentence


def test_headline_and_table_have_the_same_p_value_if_queries_are_missing() -> None:
    """The table has the difference of the values of the other queries; the sentence that with missing ones at worst."""
    runs = {"whole": known(0.9), "partial": known(0.3, fails=True)}
    text = sentence(runs)
    found = re.search(
        r"whole minus partial is (\+0\.\d{4}) with missing queries at their worst: .*? difference \((p .*?)\)", text
    )
    assert found is not None, text
    head, *_, last = rows_of(section(report_html(runs), "changed"), "Normal: whole, partial")
    # Without its missing queries, the partial run is always right.
    assert last[head.index("difference")].startswith("-")
    assert p_text(float(last[head.index("p (Holm)")])) == found[2]


def test_a_setting_that_varies_is_a_column_and_one_that_is_shared_is_stated_once() -> None:
    runs = {f"k {k}": StaICC.Normal(k, datasets=["mini"], limit=6)(model, model_name="m") for k in (4, 1, 0)}
    page = report_html(runs)
    head, *rows = rows_of(page, "Leaderboard")
    column = head.index("k")
    assert {row[0]: row[column] for row in rows} == {"k 4": "4", "k 1": "1", "k 0": "0"}
    assert "sampler" not in head
    shared = re.search(r'<dl class="facts">(.*?)</dl>', page)
    assert shared is not None
    assert shared[1].count("sampler") == 1
    assert "k 4" not in shared[1]


def columns_of(runs: dict[str, Result]) -> list[str]:
    """Return the headings of the leaderboard of runs."""
    headings_of_columns, *_ = rows_of(report_html(runs), "Leaderboard")
    return headings_of_columns


def test_a_column_that_repeats_the_names_of_the_runs_is_left_out() -> None:
    benchmark = StaICC.Normal(datasets=["mini"], limit=6)
    first, second = (benchmark(model, model_name=name) for name in ("a", "b"))
    assert "model" not in columns_of({first.model: first, second.model: second})
    assert "model" in columns_of({"first": first, "second": second})


def test_a_score_that_no_run_has_is_no_column() -> None:
    """A run that predicts labels has no calibration error."""
    labels = StaICC.Normal(datasets=["mini"], limit=6)(lambda prompt, label_space: 0)
    scores = StaICC.Normal(datasets=["mini"], limit=6)(model)
    calibration = "calibration error (ECE-1)"
    assert calibration not in " ".join(columns_of({"a": labels}))
    assert calibration in " ".join(columns_of({"a": labels, "b": scores}))


def test_a_column_without_values_is_left_out_with_its_reason() -> None:
    not_counted = Missing("not counted")
    html = table("numbers", ["run", "cost", "n"], [["a", not_counted, "1"], ["b", not_counted, "2"]])
    assert rows_of(html, "numbers")[0] == ["run", "n"]
    assert "<li>No column cost: not counted.</li>" in html


def test_the_darkest_cell_of_a_data_set_is_the_best_also_where_lower_is_better() -> None:
    bias = StaICC.Domain_bias(datasets=["mini"], limit=6)
    runs = {str(a): bias(lambda prompt, label_space, a=a: [a, 0.2, 0.8 - a]) for a in (0.7, 0.5, 0.6)}
    page = report_html(runs)
    start = page.index("<caption>domain bias, by data set (lower is better; darker: better")
    shades = [int(shade) for shade in re.findall(r'class="h(\d+)"', page[start : page.index("</table>", start)])]
    values = [run.averaged["domain_bias"] for run in runs.values()]
    assert shades[values.index(min(values))] == 10
    assert shades[values.index(max(values))] == 0
    single = report_html({"a": runs["0.7"]})
    assert "darker: better than on the other data sets" in single


def numbers_in(value: Any) -> Iterator[float]:
    """Yield every number of a JSON value."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        yield float(value)
    members: list[Any] = []
    if isinstance(value, dict):
        members = list(value.values())
    elif isinstance(value, list):
        members = value
    for member in members:
        yield from numbers_in(member)


def visible_text(page: str) -> str:
    """Return the text of a page, with the tips of its figures, without scripts and styles."""
    without_scripts = re.sub(r"<(script|style)\b.*?</\1>", " ", page, flags=re.DOTALL)
    with_tips_only = re.sub(r"<svg.*?(?=<title>|</svg>)", " ", without_scripts, flags=re.DOTALL)
    return unescape(re.sub(r"<[^>]*>", " ", with_tips_only))


def is_rounded(text: str, numbers: set[float]) -> bool:
    """Return whether a text is one of the numbers, rounded to the decimals of the text."""
    half_of_last_decimal = 0.5 * 10 ** -len(text.partition(".")[2])
    return any(abs(float(text) - number) <= 1.0000002 * half_of_last_decimal for number in numbers)


def test_every_number_with_decimals_is_one_of_the_saved_results() -> None:
    """Or of the comparison of two of them, or a number of the text of this page. Figures are read by their tips."""
    runs = {"half": known(0.5), "all": known(1.0), "partial": known(0.6, fails=True)}
    comparisons, _ = compare_all(runs)
    known_numbers = set(numbers_in(json.loads(format_comparisons(list(comparisons), "json"))))
    for result in runs.values():
        known_numbers.update(numbers_in(json.loads(json.dumps(result.to_dict()))))
    for dataset in ("easy", "hard"):  # the page has the mean of the complete runs
        scores = [runs[name].divided[dataset]["accuracy"] for name in ("half", "all")]
        known_numbers.add(fmean(scores))
    known_numbers |= {-number for number in known_numbers}
    version, alpha, level, power, smallest_p_value = "1.0", "0.05", "0.95", "0.8", "0.0001"

    numbers = set(re.findall(r"(?<![\w.])[+-]?\d+\.\d+(?![\w.])", visible_text(report_html(runs))))

    assert len(numbers) > 50
    numbers_of_results = numbers - {version, alpha, level, power, smallest_p_value}
    assert [text for text in numbers_of_results if not is_rounded(text, known_numbers)] == []


def test_no_cell_is_without_a_value_and_a_reason(text: str, wild: str) -> None:
    """A cell without value is a dash with the number of a remark, such as -[1]."""
    for page in (text, wild):
        cells = [unescape(re.sub("<[^>]*>", "", cell)).strip() for cell in re.findall(r"<td.*?</td>", page, re.DOTALL)]
        assert len(cells) > 100
        for empty in ("", "-", "None", "nan"):
            assert empty not in cells
        page_has_remarks = "<li>[1] " in page
        if not page_has_remarks:
            assert [cell for cell in cells if cell.startswith("-[")] == []


def test_heat_maps_have_the_numbers_of_the_results(text: str, suite: ResultGroup) -> None:
    for benchmark, caption, key in (
        ("Normal", "accuracy, by data set", "accuracy"),
        ("GLER", "label noise (GLER), by data set", "accuracy"),
        ("Template_sens", "template consistency, by data set", "consistency"),
        ("Domain_bias", "domain bias, by data set", "domain_bias"),
    ):
        head, row, *_ = rows_of(text, caption)
        result = suite[benchmark]
        for dataset, cell in zip(head[1:-1], row[1:-1], strict=True):
            value = result.divided[dataset].get("sensitivity", result.divided[dataset])[key]
            assert cell.strip() == f"{value[0] if isinstance(value, (list, tuple)) else value:.4f}"
        assert row[-1].strip() == f"{result.averaged[key]:.4f}"
    shades = {int(one) for one in re.findall(r'<td class="h(\d+)">', text)}
    assert {0, 10} <= shades <= set(range(11))


def counts_of_confusion_matrix(page: str, caption: str) -> list[list[int]]:
    """Return the counts of a confusion matrix: a row for each true label, a column for each predicted one."""
    _, *rows = rows_of(page, caption)
    return [[int(cell) for cell in cells] for _, *cells in rows]


def test_confusions_count_every_query(normal: Result) -> None:
    page = report_html({"run": normal})
    for dataset, details in normal.details.items():
        counts = counts_of_confusion_matrix(page, f"{dataset}, run")
        correct = sum(counts[label][label] for label in range(len(counts)))
        assert sum(map(sum, counts)) == details.scored
        assert correct / details.scored == normal.divided[dataset]["accuracy"]


def test_the_shades_of_a_confusion_matrix_are_the_shares_of_its_rows(normal: Result) -> None:
    """In ten steps."""
    page = report_html({"run": normal})
    for dataset in normal.details:
        expected = []
        for row in counts_of_confusion_matrix(page, f"{dataset}, run"):
            expected += [round(10 * count / sum(row)) for count in row]

        _, _, matrix_and_rest = page.partition(f"<caption>{dataset}, run")
        matrix, _, _ = matrix_and_rest.partition("</table>")
        shades = [int(shade) for shade in re.findall(r'class="[he](\d+)"', matrix)]
        assert shades == expected


# -- self-contained


def test_no_element_fetches_a_file(page: Page) -> None:
    tags = {tag for tag, _ in page.elements}
    assert tags.isdisjoint({"link", "img", "iframe", "object", "embed", "base", "audio", "video", "source"})
    assert page.count("script") == page.count("style") == 1
    for tag, attributes in page.elements:
        assert "src" not in attributes, tag


def test_links_lead_to_places_of_the_page(page: Page) -> None:
    for tag, attributes in page.elements:
        for name in ("href", "xlink:href"):
            target = attributes.get(name) or "#"
            assert target.startswith("#"), f"{tag}: {name}={target}"


def test_no_element_has_a_script_of_its_own(page: Page) -> None:
    for tag, attributes in page.elements:
        assert [name for name in attributes if name.startswith("on")] == [], tag


def test_texts_and_styles_have_no_address(text: str) -> None:
    assert re.findall(r"url\((?!#)", text) == []
    assert "@import" not in text
    assert re.findall(r"https?://", text) == []


def test_the_policy_forbids_the_rest(page: Page) -> None:
    (policy,) = (one["content"] for one in page.all("meta") if one.get("http-equiv") == "Content-Security-Policy")
    assert policy is not None
    assert policy.startswith("default-src 'none';")
    digest = base64.b64encode(hashlib.sha256(resource("page.js").encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in policy
    assert "unsafe-eval" not in policy


# -- escaped


EVIL = '</script></style></title><evil onload="evil()">\'" evil=1 &lt;evil&gt;\x00'


TextPath = tuple[Any, ...]
"""Keys and indexes that lead to a text of a saved result; ``(..., None, key)`` is the text of the key itself."""


def paths_of_texts(data: Any, path: TextPath = ()) -> Iterator[TextPath]:
    """Yield the path of every text of a saved result, keys of dictionaries included."""
    if isinstance(data, str):
        yield path
    elif isinstance(data, dict):
        for key, value in data.items():
            yield (*path, None, key)
            yield from paths_of_texts(value, (*path, key))
    elif isinstance(data, list):
        for index, value in enumerate(data):
            yield from paths_of_texts(value, (*path, index))


def with_text(data: Any, path: TextPath, text: str) -> Any:
    """Return a copy with one text, or one key, replaced."""
    if path == ():
        return text
    first, *rest = path
    if first is None:
        (old_key,) = rest
        return {text if key == old_key else key: value for key, value in data.items()}
    copy = data.copy()
    copy[first] = with_text(data[first], tuple(rest), text)
    return copy


def one_path_of_each_field(data: Any) -> list[TextPath]:
    """Return paths of texts, but of members of lists and of data sets one only, since they have the same fields."""
    path_of_field = {}
    for path in paths_of_texts(data):
        field = tuple("*" if isinstance(key, int) or key in ("own", "mini") else key for key in path)
        path_of_field[field] = path
    return list(path_of_field.values())


def unescaped(page: str) -> list[str]:
    """Return what is markup because of :data:`EVIL`; the parser knows elements and attributes, as a browser does."""
    parsed = Page(page)
    found = [tag for tag, attributes in parsed.elements if "evil" in tag or {"evil", "onload"} & set(attributes)]
    script = page.count("</script>") - parsed.count("script")
    return found + ["</script>"] * script


def own_and_mini() -> dict[str, Any]:
    """Return the settings of a benchmark on two rows of a data set of the user and of ``mini``."""
    rows = [(f"row {row}", row % 2) for row in range(40)]
    own = Dataset.from_rows(rows, name="own", label_space=["no", "yes"])
    return {"datasets": [own, "mini"], "limit": 2}


def failing_model(prompt: str, label_space: list[str]) -> Any:
    """Return no probabilities for about a seventh of the prompts."""
    return None if len(prompt) % 7 == 0 else model(prompt, label_space)


def number_of_hostile_pages(result: Result, other_runs: dict[str, Result]) -> int:
    """Put a hostile text into one field of a result after the other, and return how many pages show it.

    Asserts that it is text on each of them. A result that is refused has no page.
    """
    saved = result.to_dict()
    pages = 0
    for path in one_path_of_each_field(saved):
        try:
            changed = Result.from_dict(with_text(saved, path, EVIL))
            page = report_html({"a": changed, **other_runs}, more=query_section({"a": changed}, lambda result: {}))
        except (StaICCError, KeyError, ValueError, TypeError, AttributeError, IndexError):
            continue
        assert unescaped(page) == [], path
        if "evil" in page:
            pages += 1
    return pages


@pytest.mark.slow
def test_hostile_texts_in_every_field_of_a_result_stay_text() -> None:
    settings = own_and_mini()
    partial = StaICC.Normal(**settings)(failing_model, on_error="collect")
    complete = StaICC.Normal(**settings)(model)
    bias = StaICC.ContextualBias(**settings)(model, model_name="named")

    pages = number_of_hostile_pages(partial, {"b": complete}) + number_of_hostile_pages(bias, {})

    assert pages > 60


def test_every_text_parameter_of_the_page_is_escaped(normal: Result) -> None:
    parameters = signature(report_html).parameters.values()
    texts = {one.name: EVIL for one in parameters if "str" in str(one.annotation).split("|")[0].split()}
    assert "title" in texts
    page = report_html({EVIL: normal, f"{EVIL} 2": normal}, **texts)
    assert unescaped(page) == []
    assert "evil" in page


def test_no_control_characters_anywhere(wild: str) -> None:
    assert re.findall(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]", wild) == []
    assert r"maybe & \x00\x1b\u202e" in "".join(data for _, data in Page(wild).texts)


def test_a_notebook_shows_the_first_queries_and_says_how_many_there_are() -> None:
    queries = StaICC.Normal(datasets=["mini"], limit=30)(model).queries(prompts=written_prompts)
    shown = queries._repr_html_()
    assert "The first 20 of 60 queries." in shown
    assert shown.count("<tr>") == 21, "a row for each, and the headings"


def test_a_part_of_the_queries_is_a_list_of_them() -> None:
    queries = StaICC.Normal(datasets=["mini"], limit=30)(model).queries()
    assert queries[:2] == list(queries)[:2]


def test_a_notebook_shows_queries_without_their_texts() -> None:
    benchmark = StaICC.Normal(datasets=["mini"], limit=30)
    queries = benchmark(model).queries(prompts=written_prompts)
    prompt = queries[0].prompt
    assert prompt is not None
    text_of_query = prompt.splitlines()[-2]
    for displayed in (queries, queries[0], benchmark[0].all_queries()[0]):
        html = displayed._repr_html_()
        assert Page(html).count("table") == 1
        assert text_of_query not in unescape(html), type(displayed)


def test_a_notebook_shows_the_settings_of_an_experimentor() -> None:
    benchmark = StaICC.Normal(datasets=["mini"], limit=30)
    assert "<td>limit</td><td>30</td>" in benchmark[0]._repr_html_()


def test_a_notebook_escapes_the_names_of_data_sets_and_labels() -> None:
    rows = [(f"text {row} {EVIL}", row % 3) for row in range(60)]
    benchmark = StaICC.Normal(datasets=[Dataset.from_rows(rows, name=EVIL, label_space=[EVIL, "b", "c"])], limit=4)
    result = benchmark(model)
    experimentor, queries = benchmark[0], result.queries()
    for displayed in (experimentor, experimentor.all_queries()[0], queries, queries[0], result.signature):
        html = displayed._repr_html_()
        assert unescaped(html) == [], type(displayed)
        assert "evil" in html, type(displayed)


def test_a_notebook_shows_a_result_with_a_title_and_one_block_of_notes(nasty: Result) -> None:
    assert Page(nasty._repr_html_()).count("p") == 2


def test_notebook_tables_escape_too(nasty: Result, suite: ResultGroup) -> None:
    assert Page(nasty._repr_html_()).count("script") == 0
    assert Page(suite._repr_html_()).count("table") == 7


# -- the view of single queries: its data are those of the results, its texts cannot become markup


def scorer(seed: int) -> Any:
    return lambda prompt, label_space: model(f"{seed}{prompt}", label_space)


def data_of(page: str) -> Any:
    found = re.search(r'<script type="application/json" id="query-data">(.*?)</script>', page, re.DOTALL)
    assert found is not None
    return json.loads(found[1])


def page_of(runs: dict[str, Result]) -> str:
    return report_html(runs, more=query_section(runs, written_prompts))


def prompts_in(data: Any, run: int, number: int = 0) -> list[str]:
    queries = data["sets"][number]["runs"][str(run)]["queries"].values()
    return ["".join(data["parts"][part] for part in data["prompts"][prompt]) for *_, prompt in queries]


KINDS = [type(member) for member in StaICC.Suite(datasets=["mini"]).members.values()]


BENCHMARKS_WITH_SETTINGS = [
    *[(kind, {}) for kind in KINDS],
    (StaICC.Normal, {"k": 0}),
    (StaICC.Normal, {"noisy_channel": True}),
    (StaICC.Normal, {"k": 2, "sampler": "nested"}),
    (StaICC.DomainBias, {"noisy_channel": True}),
]


@pytest.mark.parametrize(("kind", "settings"), BENCHMARKS_WITH_SETTINGS)
def test_prompts_on_a_page_are_those_of_the_run(kind: Any, settings: dict[str, Any]) -> None:
    """In the noisy channel, the first of the prompts of a query."""
    benchmark = kind(datasets=["mini"], limit=3, **settings)
    written = written_prompts(benchmark(scorer(0)))["mini"]
    assert not isinstance(written, str)
    sent = [prompt if isinstance(prompt, str) else prompt[0] for prompt in benchmark[0].prompt_set()]
    assert ["".join(parts) for parts in written] == sent


@pytest.mark.parametrize(("kind", "settings"), BENCHMARKS_WITH_SETTINGS)
def test_the_parts_of_a_prompt_are_an_instruction_each_demonstration_and_the_query(
    kind: Any, settings: dict[str, Any]
) -> None:
    benchmark = kind(datasets=["mini"], limit=3, **settings)
    written = written_prompts(benchmark(scorer(0)))["mini"]
    pool = benchmark[0].demonstration_set()
    texts_of_pool = {text for number in range(len(pool)) for text in pool.row(number).texts}
    for parts in written:
        _instruction, *demonstrations, _query = list(parts)
        assert len(demonstrations) == settings.get("k", 4)
        for demonstration in demonstrations:
            assert any(text in demonstration for text in texts_of_pool), demonstration


@pytest.fixture(scope="module")
def runs_with_outputs() -> dict[str, Result]:
    """Return two runs of ten queries."""
    benchmark = StaICC.Normal(datasets=["mini"], limit=5)
    return {"a": benchmark(scorer(1), return_outputs=True), "b": benchmark(scorer(2), return_outputs=True)}


def test_a_page_has_the_runs_and_labels_of_its_queries(runs_with_outputs: dict[str, Result]) -> None:
    data = data_of(page_of(runs_with_outputs))
    (dataset,) = data["sets"]
    assert data["runs"] == ["a", "b"]
    assert dataset["labels"] == ["food", "travel", "weather"]


@pytest.mark.parametrize(("number", "name"), [(0, "a"), (1, "b")])
def test_a_page_has_each_query_with_its_prediction_and_probabilities(
    runs_with_outputs: dict[str, Result], number: int, name: str
) -> None:
    """A probability is stored in units of a ten-thousandth."""
    data = data_of(page_of(runs_with_outputs))
    (dataset,) = data["sets"]
    outputs = runs_with_outputs[name].outputs
    assert outputs is not None
    records = outputs["mini"]
    queries = dataset["runs"][str(number)]["queries"]
    assert dataset["queries"] == [[0, record["row"], record["repeat"], record["ground_truth"]] for record in records]
    assert list(queries) == [str(query) for query in range(len(records))]
    for (prediction, _, scores, _), record in zip(queries.values(), records, strict=True):
        assert prediction == record["prediction"]
        assert scores == [round(10000 * value) for value in record["normalised_probabilities"]]


def test_a_page_has_each_prompt_and_stores_each_text_once(runs_with_outputs: dict[str, Result]) -> None:
    """Ten prompts have six parts each, of which many are equal."""
    data = data_of(page_of(runs_with_outputs))
    prompts = StaICC.Normal(datasets=["mini"], limit=5)[0].prompt_set()
    assert prompts_in(data, run=0) == prompts
    assert prompts_in(data, run=1) == prompts
    assert len(data["parts"]) < 10 * 6


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
    assert (found == "the records of the queries are not those of the prompts") == (kept != slice(5))
    runs = {"a": StaICC.Normal(datasets=["mini"], limit=3)(scorer(0)), "b": edited}
    (own,) = data_of(page_of(runs))["sets"]
    first, second = (own["runs"][number]["queries"].values() for number in "01")
    assert [prompt for *_, prompt in first if prompt < 0] == []
    assert [prompt for *_, prompt in second if prompt != -1] == []
    assert [scores for _, _, scores, _ in second if (scores is None) != (kept.step is None)] == []


@pytest.fixture(scope="module")
def partial_and_whole() -> dict[str, Result]:
    """A run that fails where it is wrong, on 40 queries of each of two data sets, and a run without failures.

    The first has accuracy 1: readers must see that 80 of its 160 queries are not in it.
    """
    runs = {"partial": known(0.6, fails=True), "whole": known(0.9)}
    assert runs["partial"].averaged["accuracy"] == 1.0
    return runs


def test_the_text_of_a_result_has_the_number_of_queries_left_out(partial_and_whole: dict[str, Result]) -> None:
    text = str(partial_and_whole["partial"])
    last_column = {}
    for line in text.splitlines():
        name, *cells = line.split() or [""]
        if name in ("easy", "hard", "mean"):
            last_column[name] = cells[-1]
    assert last_column == {"easy": "40", "hard": "40", "mean": "80"}
    assert "conditional on a prediction" in text


def test_the_page_has_the_number_of_queries_left_out_at_each_score(partial_and_whole: dict[str, Result]) -> None:
    page = report_html(partial_and_whole)
    accuracy_of = {row[0].split()[0]: row[1] for row in rows_of(page, "Leaderboard")[1:]}
    assert re.match(r"1\.0000 \w+ \(80 left out\)", accuracy_of["partial"]), "the mark follows the verdict"
    assert "left out" not in accuracy_of["whole"]
    assert "Queries left out: partial: 80." in unescape(page)

    by_dataset = {row[0]: row[1:] for row in rows_of(page, "accuracy, by data set")}
    assert by_dataset["partial"] == ["1.0000 (40 left out)", "1.0000 (40 left out)", "1.0000 (80 left out)"]


def test_a_figure_has_the_number_of_queries_left_out(partial_and_whole: dict[str, Result]) -> None:
    assert "Queries left out: partial: 40." in unescape(accuracy_by_dataset(partial_and_whole).caption)


def test_latex_has_the_number_of_queries_left_out(partial_and_whole: dict[str, Result]) -> None:
    assert "$1.0000$ (80 left out)" in latex_scores({"partial": partial_and_whole["partial"]})


def test_a_model_card_has_the_number_of_queries_left_out(partial_and_whole: dict[str, Result]) -> None:
    (card,) = model_index([partial_and_whole["partial"]])
    (means,) = [result for result in card["results"] if result["dataset"]["name"].startswith("mean")]
    (accuracy,) = [metric for metric in means["metrics"] if metric["type"] == "accuracy"]
    assert accuracy["name"] == "accuracy (80 left out)"
    assert accuracy["args"]["queries_left_out"] == 80


def test_comparisons_and_rankings_have_the_number_of_queries_left_out(partial_and_whole: dict[str, Result]) -> None:
    (compared,), _ = compare_all(partial_and_whole)
    assert "80, 0" in format_comparisons([compared], "text")
    assert "80, 0" in format_comparisons([compared], "markdown")
    assert ",80,0," in format_comparisons([compared], "csv")
    (document,) = json.loads(format_comparisons([compared], "json"))
    assert document["comparisons"][0]["mean"]["missing"] == [80, 0]
    line_of_partial = str(rank(partial_and_whole)).splitlines()[5]
    assert "80" in line_of_partial.split()


def test_a_run_that_stopped_early_is_marked_where_it_is_exported_with_its_interval() -> None:
    early = StaICC.Normal(datasets=["mini"])(model, precision=0.3)
    assert early.stopping is not None
    interval = early.stopping.interval
    text = latex_scores({"early": early})
    value = early.averaged["accuracy"]
    assert f"${value:.4f}$ [{interval.low:.3f}, {interval.high:.3f}] (stopped early)" in text
    (card,) = model_index([early])
    for evaluation in card["results"]:
        assert [metric for metric in evaluation["metrics"] if not metric["name"].endswith(" (stopped early)")] == []
        assert [metric for metric in evaluation["metrics"] if not metric["args"]["stopped_early"]] == []
    assert f"{value:.4f} (stopped early)" in unescape(report_html({"early": early}))


def test_a_score_without_bound_has_no_shade() -> None:
    shades = _shades([[ChartScore(1.0)], [ChartScore(math.inf)], [ChartScore(3.0)]], higher_is_better=True)
    assert shades == [[0], [0], [10]]
