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
    """The elements and the texts of a page, of which every element must be closed.

    Attributes:
        elements: The tag and the attributes of each element.
        texts: Each text, after the tag of the element that it is in.
        open_tags: The elements that are not closed yet.
    """

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[tuple[str, str]] = []
        self.open_tags: list[str] = []
        self.feed(text)
        self.close()
        assert self.open_tags == [], "elements are not closed"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert len(dict(attrs)) == len(attrs), f"{tag} has an attribute twice: {attrs}"
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open_tags.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open_tags.pop() == tag

    def handle_data(self, data: str) -> None:
        tag = self.open_tags[-1] if self.open_tags else ""
        self.texts.append((tag, data))

    def count(self, tag: str) -> int:
        """Return the number of elements with a tag."""
        return len(self.attributes_of(tag))

    def attributes_of(self, tag: str) -> list[dict[str, str | None]]:
        """Return the attributes of each element with a tag."""
        return [attributes for name, attributes in self.elements if name == tag]


@pytest.fixture(scope="module")
def html_of_suite(suite: ResultGroup) -> str:
    """The page of one run of a suite."""
    return report_html({"run": suite})


@pytest.fixture(scope="module")
def page_of_suite(html_of_suite: str) -> Page:
    """The same page, parsed."""
    return Page(html_of_suite)


@pytest.fixture(scope="module")
def html_with_markup(result_with_markup: Result, long_icl: Result) -> str:
    """A page whose title and whose names of runs, data sets and labels have markup."""
    runs = {"<i>a</i>": result_with_markup, "_b & $x$": result_with_markup, "c": long_icl}
    return report_html(runs, title="</title><script>1</script>")


# -- what it holds


def test_a_page_has_a_section_for_each_question(page_of_suite: Page) -> None:
    headings = [text for tag, text in page_of_suite.texts if tag == "h2"]
    questions = ["How accurate?", "How calibrated?", "How biased?", "How robust?"]
    assert headings == ["Leaderboard", *questions, "Published figures", "All scores", "Runs"]


def test_a_page_has_each_figure_once(html_of_suite: str, page_of_suite: Page) -> None:
    captions = [text for tag, text in page_of_suite.texts if tag == "strong" and text.endswith(".")]
    for caption in (
        "Accuracy by data set.",
        "Reliability by run.",
        "Reliability by data set, run.",
        "Mean predictions, run.",
        "Accuracy against label noise.",
    ):
        assert captions.count(caption) == 1
    assert len(captions) == len(set(captions)), "a figure is there twice"
    assert "Not drawn" not in html_of_suite


def test_a_page_has_each_score(html_of_suite: str, suite: ResultGroup) -> None:
    for result in suite.results():
        for name, value in result.averaged.items():
            is_distribution = result.benchmark == "Post_bias" and name == "distribution"
            if value is not None and not is_distribution:
                assert f"{value:.4f}" in html_of_suite, (result.benchmark, name)


def test_a_page_has_the_signature_of_each_result(html_of_suite: str, suite: ResultGroup) -> None:
    page_without_line_breaks = html_of_suite.replace("<wbr>", "")
    for result in suite.results():
        assert escape(str(result.signature)) in page_without_line_breaks


def test_each_section_has_an_id_of_its_own_and_a_link_to_it(html_with_markup: str) -> None:
    page = Page(html_with_markup)
    ids = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
    addresses = [attributes["href"] for attributes in page.attributes_of("a")]
    assert page.count("section") > 6
    assert len(ids) == page.count("section")
    assert len(ids) == len(set(ids)), "two sections have the same id"
    assert addresses == [f"#{section_id}" for section_id in ids]


def test_the_same_results_give_the_same_bytes(html_of_suite: str, suite: ResultGroup) -> None:
    assert report_html({"run": suite}) == html_of_suite


def text_of_cell(cell: str) -> str:
    """Return the text of a cell without its markup, with single spaces."""
    return " ".join(unescape(re.sub("<[^>]*>", " ", cell)).split())


def rows_of(page: str, caption: str) -> list[list[str]]:
    """Return the rows of the table whose caption begins so, each as the texts of its cells, the headings first."""
    _, _, table_and_rest = page.partition(f"<caption>{caption}")
    assert table_and_rest, f"no table has the caption {caption}"
    table_of_caption, _, _ = table_and_rest.partition("</table>")
    rows = []
    for row in re.findall(r"<tr>(.*?)</tr>", table_of_caption.replace("<wbr>", ""), re.DOTALL):
        cells = re.findall(r"<t[hd].*?</t[hd]>", row)
        rows.append([text_of_cell(cell) for cell in cells])
    return rows


def with_version(result: Result, version: str) -> Result:
    """The result as another version of the library would have saved it."""
    return replace(result, signature=Signature({**result.signature.fields, "version": version}))


def test_a_version_that_the_runs_share_is_stated_once(normal: Result) -> None:
    version = normal.signature.fields["version"]
    assert f"version {version}" in report_html({"a": normal, "b": normal})


def test_versions_of_runs_that_differ_are_a_column_of_the_leaderboard(normal: Result) -> None:
    """The version in the header of the page is the one that wrote it."""
    version = normal.signature.fields["version"]

    page = report_html({"a": normal, "b": with_version(normal, "0.9.0")})

    headings, row_of_a, row_of_b = rows_of(page, "Leaderboard")
    assert headings[2] == "version"
    assert row_of_a[2] == version
    assert row_of_b[2] == "0.9.0"
    assert f"Page written by StaICC {StaICC.__version__}" in page


def test_groups_of_other_benchmarks_differ_in_benchmarks(suite: ResultGroup) -> None:
    results = {result.benchmark: result for result in suite.results()}

    page = report_html({"a": results["Normal"], "b": results["GLER"]})

    assert "The groups differ in: benchmarks." in page
    assert headings_of_leaderboards(page) == ["10 data sets, benchmarks Normal", "10 data sets, benchmarks GLER"]


def test_groups_with_other_digests_of_data_differ_in_contents_of_data_sets(normal: Result) -> None:
    on_other_texts = replace(normal, signature=Signature({**normal.signature.fields, "data": "0123456789ab"}))

    page = report_html({"a": normal, "b": on_other_texts})

    assert "The groups differ in: contents of data sets." in page
    first_heading, second_heading = headings_of_leaderboards(page)
    assert second_heading.endswith("contents of data sets 0123456789ab")
    assert first_heading != second_heading


def headings_of_leaderboards(page: str) -> list[str]:
    """Return the headings of the leaderboards, which are in the first section."""
    first_section, _, _ = page.partition("</section>")
    return re.findall("<h3>(.*?)</h3>", first_section.replace("<wbr>", ""))


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


def run_right_on(share: float, shift: int = 0, fails: bool = False) -> Result:
    """Return a run on :func:`easy_and_hard_data` that is right on a share of the rows.

    Args:
        share: Of ten rows with different last digits of their numbers, ten times this share are right.
        shift: Added to the number of a row, so that others are right.
        fails: Whether the run has no prediction for the other rows; otherwise it is wrong on them.
    """

    def predict(prompt: str, label_space: list[str]) -> list[float] | None:
        _, row, label_name = re.findall(r"(easy|hard) (\d+) (yes|no)", prompt)[-1]
        is_right = (int(row) + shift) % 10 < 10 * share
        if fails and not is_right:
            return None
        predicts_yes = (label_name == "yes") if is_right else (label_name == "no")
        return [0.8, 0.2] if predicts_yes else [0.2, 0.8]

    return StaICC.Normal(datasets=easy_and_hard_data())(predict, on_error="collect")


def first_words(cells: list[str]) -> list[str]:
    """Return the first word of each cell: of a leaderboard, the name of the run without its details."""
    return [cell.split()[0] for cell in cells]


def marks_in_leaderboard(page: str) -> dict[str, str]:
    """Return the word behind the first score of each run: best, tied, or another."""
    marks = {}
    _headings, *rows = rows_of(page, "Leaderboard")
    for name_and_details, score_and_mark, *_ in rows:
        name = name_and_details.split()[0]
        marks[name] = score_and_mark.split()[1]
    return marks


@pytest.fixture(scope="module")
def four_runs() -> dict[str, Result]:
    """Runs with accuracy below 50 %, of 50 %, and twice 100 %, on 80 rows.

    The first two are right on different rows: the test rows do not have every last digit equally often.
    """
    return {
        "worst": run_right_on(0.5),
        "bad": run_right_on(0.5, shift=2),
        "<b>best</b>": run_right_on(1.0),
        "copy": run_right_on(1.0),
    }


def test_runs_are_ranked_by_accuracy(four_runs: dict[str, Result]) -> None:
    _headings, *rows = rows_of(report_html(four_runs), "Leaderboard")
    cells_with_names = [cells[0] for cells in rows]
    assert first_words(cells_with_names) == ["<b>best</b>", "copy", "bad", "worst"]


def test_headings_say_whether_higher_or_lower_is_better(four_runs: dict[str, Result]) -> None:
    """The first score is the accuracy, the last one an error."""
    headings = rows_of(report_html(four_runs), "Leaderboard")[0]
    assert headings[1] == "accuracy higher is better"
    assert headings[-1].endswith(" lower is better")


def test_a_score_of_the_leaderboard_has_its_interval(four_runs: dict[str, Result]) -> None:
    _headings, *rows = rows_of(report_html(four_runs), "Leaderboard")
    for name_and_details, score_and_interval, *_ in rows:
        result = four_runs[name_and_details.split()[0]]
        interval = result.means.intervals["accuracy"]
        expected = [f"{result.averaged['accuracy']:.4f}", f"{interval.low:.3f}", f"{interval.high:.3f}"]
        assert re.findall(r"\d\.\d+", score_and_interval) == expected


def test_equal_runs_are_both_the_best(four_runs: dict[str, Result]) -> None:
    marks = marks_in_leaderboard(report_html(four_runs))
    assert marks["<b>best</b>"] == "best"
    assert marks["copy"] == "best"


def test_runs_that_the_test_tells_from_the_best_are_not_marked_as_tied(four_runs: dict[str, Result]) -> None:
    """By the test of ``compare``: 50 % and 100 % are shown to differ."""
    marks = marks_in_leaderboard(report_html(four_runs))
    assert {marks["bad"], marks["worst"]}.isdisjoint({"best", "tied"})


def test_runs_whose_difference_is_not_significant_are_tied(four_runs: dict[str, Result]) -> None:
    """By the test of ``compare``: 42 % and 50 % are not shown to differ."""
    worst, bad = four_runs["worst"], four_runs["bad"]
    assert worst.averaged["accuracy"] < bad.averaged["accuracy"]

    marks = marks_in_leaderboard(report_html({"worst": worst, "bad": bad}))

    assert marks == {"bad": "best", "worst": "tied"}


def headline(runs: dict[str, Result]) -> str:
    """Return the sentence above the first leaderboard of a report, without its markup."""
    sentence = re.search(r'<p class="answer">(.*?)</p>', report_html(runs))
    assert sentence is not None
    return unescape(re.sub("<[^>]*>", "", sentence[1]))


def run_wrong_on(benchmark: Any, wrong: int) -> Result:
    """Return a run of a benchmark of two labels that is wrong on so many test rows."""
    queries = benchmark[0].all_queries()
    test_rows = list(dict.fromkeys(query.row for query in queries))
    predictions = []
    for query in queries:
        is_wrong = query.row in test_rows[:wrong]
        predictions.append(1 - query.label if is_wrong else query.label)
    return benchmark(preentered_prediction=[predictions])


def one_leading_of_21_runs() -> dict[str, Result]:
    """Return a run that is right on all of 80 rows, ten that are wrong on 13 of them, and ten that are wrong on all.

    They are more than :data:`MOST_RUNS`.
    """
    rows = [(f"{row}.", "n" if row % 2 == 0 else "y") for row in range(160)]
    data = Dataset.from_rows(rows, name="many", split=SplitSizes(calibration=0, demonstration=80, test=80))
    benchmark = StaICC.Normal(datasets=[data])
    runs = {"lead": run_wrong_on(benchmark, wrong=0)}
    for number in range(10):
        runs[f"near{number}"] = run_wrong_on(benchmark, wrong=13)
        runs[f"low{number}"] = run_wrong_on(benchmark, wrong=80)
    return runs


def test_the_leaderboard_of_21_runs_has_the_verdicts_of_rank() -> None:
    """Holm's correction, which rank has, finds the run worse; Bonferroni's, which compare has, would not."""
    runs = one_leading_of_21_runs()

    marks = marks_in_leaderboard(report_html(runs))

    assert marks == {place.run: place.verdict.case for place in rank(runs).runs}
    assert marks["near0"] == "worse"


def test_latex_of_21_runs_underlines_no_run_as_tied() -> None:
    lines = latex_scores(one_leading_of_21_runs()).splitlines()
    (accuracies,) = [line for line in lines if line.startswith("accuracy")]
    assert r"\underline{" not in accuracies


def test_latex_and_the_page_of_21_runs_say_that_compare_may_differ_from_rank() -> None:
    runs = one_leading_of_21_runs()
    assert "can be tied where rank has worse" in latex_scores(runs)
    assert "can be tied where rank has worse" in report_html(runs)


@pytest.fixture(scope="module")
def three_runs() -> dict[str, Result]:
    """Runs that are right on half of the rows, on all, and on another half."""
    return {"half": run_right_on(0.5), "all": run_right_on(1.0), "some": run_right_on(0.5, shift=2)}


def test_the_headline_says_who_leads_and_by_how_much(three_runs: dict[str, Result]) -> None:
    """The second run is the better of the others. The numbers are those of ``compare``."""
    assert three_runs["some"].averaged["accuracy"] > three_runs["half"].averaged["accuracy"]
    pair = compare(three_runs["all"], three_runs["some"]).overall

    text = headline(three_runs)

    assert text.startswith("all leads with accuracy 1.0000")
    interval = f"(95 % interval {pair.interval.low:+.3f} .. {pair.interval.high:+.3f})"
    assert f"all minus some is {pair.difference:+.4f} {interval}: a significant difference (p " in text
    assert "mean of 2 data sets" in text
    assert "2 of 2 data sets" in text


def test_the_headline_says_that_a_difference_is_not_significant(three_runs: dict[str, Result]) -> None:
    half, some = three_runs["half"], three_runs["some"]
    text = headline({"half": half, "some": some})
    p = compare(half, some).overall.holm
    assert f"not a significant difference (p = {p:.3g})" in text
    assert "No value" not in text, "both runs have all scores"
    assert "test rows" not in text, "both runs have all rows"


def test_the_headline_says_that_runs_share_the_best_score(three_runs: dict[str, Result]) -> None:
    runs = {"all": three_runs["all"], "same": three_runs["all"], "half": three_runs["half"]}
    assert "share the best accuracy" in headline(runs)


def test_the_headline_about_one_run_has_its_score(three_runs: dict[str, Result]) -> None:
    assert headline({"all": three_runs["all"]}).startswith("all: accuracy 1.0000")


def run_of_domain_bias(first_probability: float, limit: int = 6) -> Result:
    """Return a result of domain bias: the higher the probability of the first of three labels, the higher is it."""
    benchmark = StaICC.Domain_bias(datasets=["mini"], limit=limit)
    return benchmark(lambda prompt, label_space: [first_probability, 0.2, 0.8 - first_probability])


def test_the_headline_names_the_run_with_the_lowest_bias() -> None:
    """Of a bias, lower values are better."""
    low, middle, high = run_of_domain_bias(0.5), run_of_domain_bias(0.6), run_of_domain_bias(0.7)

    text = headline({"high": high, "low": low, "middle": middle})

    lead = middle.averaged["domain_bias"] - low.averaged["domain_bias"]
    assert re.match(rf"low leads with domain bias .* low minus middle is -{lead:.4f} ", text)


@pytest.mark.parametrize("name", ["whole", "a"], ids=["after the other name", "before the other name"])
def test_a_run_with_missing_queries_does_not_lead_by_its_other_queries(name: str) -> None:
    """Without its missing queries, it is right on more than half. With them at their worst, it is not better."""

    def predict_half_of_the_queries(prompt: str, label_space: list[str]) -> list[float] | None:
        return [0.5, 0.3, 0.2] if len(prompt) % 2 else None

    benchmark = StaICC.Normal(datasets=["mini"], limit=6)
    complete = benchmark(lambda prompt, label_space: [0.1, 0.2, 0.7])
    partial = benchmark(predict_half_of_the_queries, on_error="collect")

    text = headline({"partial": partial, name: complete})

    assert text.startswith(f"{name} leads with accuracy 0.5000")
    assert re.search(rf"{name} minus partial is \+\d\.\d{{4}} with missing queries at their worst: not ", text)


def test_the_headline_says_which_scores_are_undefined_and_how_many_rows_there_are() -> None:
    """A run that predicts labels has no probabilities, and so no calibration error."""
    benchmark = StaICC.Normal(datasets=["mini"], limit=6)
    text = headline({"labels": benchmark(lambda prompt, label_space: 0), "scores": benchmark(model)})
    assert "the first 6 test rows)" in text
    assert "No value: likelihood, calibration error (ECE-1) (labels)." in text


def test_the_headline_says_that_a_score_is_undefined_for_all_runs() -> None:
    labels = StaICC.Normal(datasets=["mini"], limit=6)(lambda prompt, label_space: 0)
    assert "(all runs)" in headline({"labels": labels, "again": labels})


def test_pairs_of_eight_runs_are_folded() -> None:
    """A page of many runs stays short: of the section "What has changed?", only the first part is open."""
    runs = {f"run {number}": run_right_on(number / 8) for number in range(8)}

    parts = re.findall(r"<details( open)?><summary>([^<]*)", section_of(report_html(runs), "changed"))

    open_parts = [name for is_open, name in parts if is_open]
    folded_parts = [name for is_open, name in parts if not is_open]
    assert open_parts == ["", "Normal"]
    assert len(folded_parts) == 7, "each pair with the leading run"
    for name in folded_parts:
        assert "run 7, run " in name, "the leading run comes first"


def section_of(page: str, section_id: str) -> str:
    """Return a section of a page."""
    return page[page.index(f'<section id="{section_id}">') :].split("</section>")[0]


def mean_of_pair(runs: dict[str, Result], title: str) -> dict[str, str]:
    """Return the row of the mean in the table of two runs on the page, by the headings of the columns."""
    headings, *_, row_of_mean = rows_of(section_of(report_html(runs), "changed"), title)
    return dict(zip(headings, row_of_mean, strict=True))


def test_the_headline_and_the_table_have_the_same_difference_and_p_value() -> None:
    """The leading run is not the first one."""
    runs = {"half": run_right_on(0.5), "lead": run_right_on(1.0), "some": run_right_on(0.5, shift=2)}
    text = headline(runs)

    mean = mean_of_pair(runs, "Normal: lead, some")

    assert mean["difference"].startswith("+")
    p_value = p_text(float(mean["p (Holm)"]))
    assert f"lead minus some is {mean['difference']} (" in text
    assert f"a significant difference ({p_value}, corrected for all pairs of runs)" in text


def test_the_headline_and_the_table_of_a_bias_have_the_same_difference_and_no_p_value() -> None:
    """Lower values are better, and the leading run is not the first one."""
    runs = {
        "high": run_of_domain_bias(0.7, limit=20),
        "low": run_of_domain_bias(0.5, limit=20),
        "middle": run_of_domain_bias(0.6, limit=20),
    }
    text = headline(runs)

    mean = mean_of_pair(runs, "Domain_bias: low, middle")

    assert mean["difference"].startswith("-")
    assert f"low minus middle is {mean['difference']} (" in text
    assert ": not tested: " in text
    assert "p (Holm)" not in mean


def test_the_headline_and_the_table_of_21_runs_have_the_same_difference_and_p_value() -> None:
    """Of more than 20 runs, compare corrects by Bonferroni's method, and the leaderboard by Holm's."""
    runs = one_leading_of_21_runs()
    text = headline(runs)

    mean = mean_of_pair(runs, "Normal: lead, near0")

    assert f"lead minus near0 is {mean['difference']} (" in text
    assert f" difference ({p_text(float(mean['p (Holm)']))}, corrected" in text


def test_the_headline_and_the_table_have_the_same_p_value_if_queries_are_missing() -> None:
    """The difference in the table is that of the other queries; in the headline, the missing ones are at their worst.

    Without its missing queries, the partial run is always right.
    """
    runs = {"whole": run_right_on(0.9), "partial": run_right_on(0.3, fails=True)}
    text = headline(runs)

    mean = mean_of_pair(runs, "Normal: whole, partial")

    assert mean["difference"].startswith("-")
    p_value = p_text(float(mean["p (Holm)"]))
    difference_at_worst = r"whole minus partial is \+0\.\d{4} with missing queries at their worst: "
    assert re.search(rf"{difference_at_worst}.*? difference \({re.escape(p_value)}\)", text), text


@pytest.fixture(scope="module")
def runs_with_different_k() -> dict[str, Result]:
    """Runs with four demonstrations, with one and with none."""
    runs = {}
    for k in (4, 1, 0):
        runs[f"k {k}"] = StaICC.Normal(k, datasets=["mini"], limit=6)(model, model_name="m")
    return runs


def test_a_setting_that_differs_is_a_column_of_the_leaderboard(runs_with_different_k: dict[str, Result]) -> None:
    headings, *rows = rows_of(report_html(runs_with_different_k), "Leaderboard")

    column = headings.index("k")
    assert {row[0]: row[column] for row in rows} == {"k 4": "4", "k 1": "1", "k 0": "0"}


def test_a_setting_that_all_runs_share_is_stated_once(runs_with_different_k: dict[str, Result]) -> None:
    page = report_html(runs_with_different_k)

    assert "sampler" not in rows_of(page, "Leaderboard")[0]
    (facts,) = re.findall(r'<dl class="facts">(.*?)</dl>', page)
    assert facts.count("sampler") == 1
    assert "k 4" not in facts, "k differs"


def columns_of(runs: dict[str, Result]) -> list[str]:
    """Return the headings of the leaderboard of runs."""
    headings_of_columns, *_ = rows_of(report_html(runs), "Leaderboard")
    return headings_of_columns


def test_a_column_that_repeats_the_names_of_the_runs_is_left_out() -> None:
    benchmark = StaICC.Normal(datasets=["mini"], limit=6)
    first = benchmark(model, model_name="a")
    second = benchmark(model, model_name="b")
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


def test_the_darkest_cell_of_a_bias_is_the_lowest_value() -> None:
    """There are eleven shades, from the lightest one, h0, to the darkest one, h10."""
    runs = {"high": run_of_domain_bias(0.7), "low": run_of_domain_bias(0.5), "middle": run_of_domain_bias(0.6)}

    page = report_html(runs)

    _, _, heat_map_and_rest = page.partition("<caption>domain bias, by data set (lower is better; darker: better")
    heat_map, _, _ = heat_map_and_rest.partition("</table>")
    shade_of_high, shade_of_low, *_ = re.findall(r'class="h(\d+)"', heat_map)
    assert shade_of_high == "0"
    assert shade_of_low == "10"


def test_the_cells_of_one_run_are_darker_than_those_of_other_data_sets() -> None:
    page = report_html({"a": run_of_domain_bias(0.7)})
    assert "darker: better than on the other data sets" in page


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
    runs = {"half": run_right_on(0.5), "all": run_right_on(1.0), "partial": run_right_on(0.6, fails=True)}
    comparisons, _ = compare_all(runs)
    saved_numbers = set(numbers_in(json.loads(format_comparisons(list(comparisons), "json"))))
    for result in runs.values():
        saved_numbers.update(numbers_in(json.loads(json.dumps(result.to_dict()))))
    for dataset in ("easy", "hard"):  # the page has the mean of the complete runs
        scores = [runs["half"].divided[dataset]["accuracy"], runs["all"].divided[dataset]["accuracy"]]
        saved_numbers.add(fmean(scores))
    negative_numbers = {-number for number in saved_numbers}
    version, alpha, level, power, smallest_p_value = "1.0", "0.05", "0.95", "0.8", "0.0001"

    numbers = set(re.findall(r"(?<![\w.])[+-]?\d+\.\d+(?![\w.])", visible_text(report_html(runs))))

    assert len(numbers) > 50, "the search finds no numbers"
    numbers_of_results = numbers - {version, alpha, level, power, smallest_p_value}
    invented = [text for text in numbers_of_results if not is_rounded(text, saved_numbers | negative_numbers)]
    assert invented == []


@pytest.mark.parametrize("fixture", ["html_of_suite", "html_with_markup"])
def test_a_cell_has_a_value_or_the_number_of_a_remark(fixture: str, request: pytest.FixtureRequest) -> None:
    """A cell without value is a dash with the number of a remark, such as -[1]."""
    page = request.getfixturevalue(fixture)
    cells = [text_of_cell(cell) for cell in re.findall(r"<td.*?</td>", page, re.DOTALL)]
    assert len(cells) > 100, "the search finds no cells"

    for empty in ("", "-", "None", "nan"):
        assert empty not in cells
    page_has_remarks = "<li>[1] " in page
    if not page_has_remarks:
        assert [cell for cell in cells if cell.startswith("-[")] == []


@pytest.mark.parametrize(
    ("benchmark", "caption", "metric"),
    [
        ("Normal", "accuracy, by data set", "accuracy"),
        ("Domain_bias", "domain bias, by data set", "domain_bias"),
    ],
)
def test_a_heat_map_has_the_score_of_each_data_set_and_the_mean(
    benchmark: str, caption: str, metric: str, html_of_suite: str, suite: ResultGroup
) -> None:
    """Its columns are the name of the run, the data sets, and the mean; it has one run."""
    headings, cells_of_run, *_ = rows_of(html_of_suite, caption)
    datasets = headings[1:-1]
    result = suite[benchmark]

    scores = [f"{result.divided[dataset][metric]:.4f}" for dataset in datasets]
    mean = f"{result.averaged[metric]:.4f}"
    assert cells_of_run[1:] == [*scores, mean]
    assert datasets == list(result.divided)


def test_a_heat_map_of_label_noise_has_the_slope_of_each_data_set(html_of_suite: str, suite: ResultGroup) -> None:
    """The sensitivity to label noise is a slope, which is saved with its intercept."""
    headings, cells_of_run, *_ = rows_of(html_of_suite, "label noise (GLER), by data set")
    result = suite["GLER"]

    expected = []
    for dataset in headings[1:-1]:
        slope, _intercept = result.divided[dataset]["sensitivity"]["accuracy"]
        expected.append(f"{slope:.4f}")
    assert cells_of_run[1:-1] == expected
    assert cells_of_run[-1] == f"{result.averaged['accuracy']:.4f}", "the mean"


def test_a_heat_map_of_templates_has_the_consistency_of_each_data_set(html_of_suite: str, suite: ResultGroup) -> None:
    headings, cells_of_run, *_ = rows_of(html_of_suite, "template consistency, by data set")
    result = suite["Template_sens"]

    expected = []
    for dataset in headings[1:-1]:
        consistency = result.divided[dataset]["sensitivity"]["consistency"]
        expected.append(f"{consistency:.4f}")
    assert cells_of_run[1:-1] == expected
    assert cells_of_run[-1] == f"{result.averaged['consistency']:.4f}", "the mean"


def test_the_shades_of_heat_maps_are_from_0_to_10(html_of_suite: str) -> None:
    shades = {int(shade) for shade in re.findall(r'<td class="h(\d+)">', html_of_suite)}
    assert min(shades) == 0
    assert max(shades) == 10


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


def test_no_element_fetches_a_file(page_of_suite: Page) -> None:
    tags = {tag for tag, _ in page_of_suite.elements}
    assert tags.isdisjoint({"link", "img", "iframe", "object", "embed", "base", "audio", "video", "source"})
    assert page_of_suite.count("script") == 1
    assert page_of_suite.count("style") == 1
    for tag, attributes in page_of_suite.elements:
        assert "src" not in attributes, tag


def test_links_lead_to_places_of_the_page(page_of_suite: Page) -> None:
    for tag, attributes in page_of_suite.elements:
        for name in ("href", "xlink:href"):
            target = attributes.get(name) or "#"
            assert target.startswith("#"), f"{tag}: {name}={target}"


def test_no_element_has_a_script_of_its_own(page_of_suite: Page) -> None:
    for tag, attributes in page_of_suite.elements:
        assert [name for name in attributes if name.startswith("on")] == [], tag


def test_texts_and_styles_have_no_address(html_of_suite: str) -> None:
    assert re.findall(r"url\((?!#)", html_of_suite) == []
    assert "@import" not in html_of_suite
    assert re.findall(r"https?://", html_of_suite) == []


def test_the_content_security_policy_allows_the_script_of_the_page_only(page_of_suite: Page) -> None:
    policies = []
    for attributes in page_of_suite.attributes_of("meta"):
        if attributes.get("http-equiv") == "Content-Security-Policy":
            policies.append(attributes["content"] or "")

    (policy,) = policies
    digest_of_script = base64.b64encode(hashlib.sha256(resource("page.js").encode()).digest()).decode()
    assert policy.startswith("default-src 'none';")
    assert f"script-src 'sha256-{digest_of_script}'" in policy
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
    """Return a copy of a saved result with another text at a path, or another key."""
    if path == ():
        return text
    key, *rest_of_path = path
    if key is None:
        (old_key,) = rest_of_path
        return {text if name == old_key else name: value for name, value in data.items()}
    copy = data.copy()
    copy[key] = with_text(data[key], tuple(rest_of_path), text)
    return copy


def one_path_of_each_field(data: Any) -> list[TextPath]:
    """Return paths of texts, but only one for all members of a list and for all data sets, which are alike."""
    path_of_field = {}
    for path in paths_of_texts(data):
        field = tuple("any" if isinstance(key, int) or key in ("own", "mini") else key for key in path)
        path_of_field[field] = path
    return list(path_of_field.values())


def markup_made_by_evil(page: str) -> list[str]:
    """Return the tags that a browser would find because of :data:`EVIL`, none if it is escaped."""
    parsed_page = Page(page)
    tags = []
    for tag, attributes in parsed_page.elements:
        if "evil" in tag or "evil" in attributes or "onload" in attributes:
            tags.append(tag)
    further_ends_of_scripts = page.count("</script>") - parsed_page.count("script")
    return tags + ["</script>"] * further_ends_of_scripts


def fails_for_a_seventh(prompt: str, label_space: list[str]) -> Any:
    """Return no probabilities for about a seventh of the prompts."""
    return None if len(prompt) % 7 == 0 else model(prompt, label_space)


def check_pages_with_evil_fields(result: Result, other_runs: dict[str, Result]) -> int:
    """Put :data:`EVIL` into one field of a saved result after the other, and check that it is no markup on its page.

    Returns:
        The number of pages that show it. A result that is refused has no page.
    """
    saved = result.to_dict()
    pages_with_evil = 0
    for path in one_path_of_each_field(saved):
        try:
            changed = Result.from_dict(with_text(saved, path, EVIL))
            page = report_html({"a": changed, **other_runs}, more=query_section({"a": changed}, lambda result: {}))
        except (StaICCError, KeyError, ValueError, TypeError, AttributeError, IndexError):
            continue
        assert markup_made_by_evil(page) == [], path
        if "evil" in page:
            pages_with_evil += 1
    return pages_with_evil


@pytest.mark.slow
def test_hostile_texts_in_every_field_of_a_result_stay_text() -> None:
    rows = [(f"row {row}", row % 2) for row in range(40)]
    datasets = [Dataset.from_rows(rows, name="own", label_space=["no", "yes"]), "mini"]
    partial = StaICC.Normal(datasets=datasets, limit=2)(fails_for_a_seventh, on_error="collect")
    complete = StaICC.Normal(datasets=datasets, limit=2)(model)
    bias = StaICC.ContextualBias(datasets=datasets, limit=2)(model, model_name="named")

    pages_of_accuracy = check_pages_with_evil_fields(partial, other_runs={"b": complete})
    pages_of_bias = check_pages_with_evil_fields(bias, other_runs={})

    assert pages_of_accuracy + pages_of_bias > 60, "hardly any page shows the text"


def test_every_text_argument_of_the_page_is_escaped(normal: Result) -> None:
    evil_arguments = {}
    for name, parameter in signature(report_html).parameters.items():
        first_type = str(parameter.annotation).split("|")[0].strip()
        if first_type == "str":
            evil_arguments[name] = EVIL
    assert "title" in evil_arguments

    page = report_html({EVIL: normal, f"{EVIL} 2": normal}, **evil_arguments)

    assert markup_made_by_evil(page) == []
    assert "evil" in page


def test_no_control_characters_anywhere(html_with_markup: str) -> None:
    assert re.findall(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]", html_with_markup) == []
    assert r"maybe & \x00\x1b\u202e" in "".join(text for _, text in Page(html_with_markup).texts)


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
        assert markup_made_by_evil(html) == [], type(displayed)
        assert "evil" in html, type(displayed)


def test_a_notebook_shows_a_result_with_a_title_and_one_block_of_notes(result_with_markup: Result) -> None:
    assert Page(result_with_markup._repr_html_()).count("p") == 2


def test_notebook_tables_escape_too(result_with_markup: Result, suite: ResultGroup) -> None:
    assert Page(result_with_markup._repr_html_()).count("script") == 0
    assert Page(suite._repr_html_()).count("table") == 7


# -- the view of single queries: its data are those of the results, its texts cannot become markup


def model_with_seed(seed: int) -> Any:
    """Return a model whose probabilities depend on a number, too."""
    return lambda prompt, label_space: model(f"{seed}{prompt}", label_space)


def query_data_of_page(runs: dict[str, Result]) -> Any:
    """Return the data of the view of queries on the page of runs.

    It has the parts of all prompts as texts, each prompt as a list of indexes of parts, and for each query of a run its
    prediction, a reason, its scores and the index of its prompt, which is -1 without one.
    """
    page = report_html(runs, more=query_section(runs, written_prompts))
    (data,) = re.findall(r'<script type="application/json" id="query-data">(.*?)</script>', page, re.DOTALL)
    return json.loads(data)


def queries_of(data: Any, run: int) -> list[Any]:
    """Return the queries of a run on the first data set."""
    return list(data["sets"][0]["runs"][str(run)]["queries"].values())


def prompts_of(data: Any, run: int) -> list[str]:
    """Return the prompts of the queries of a run, with their parts joined."""
    prompts = []
    for *_, prompt in queries_of(data, run):
        parts = [data["parts"][part] for part in data["prompts"][prompt]]
        prompts.append("".join(parts))
    return prompts


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
    written = written_prompts(benchmark(model_with_seed(0)))["mini"]
    assert not isinstance(written, str)
    prompts_of_run = [prompt if isinstance(prompt, str) else prompt[0] for prompt in benchmark[0].prompt_set()]
    assert ["".join(parts) for parts in written] == prompts_of_run


@pytest.mark.parametrize(("kind", "settings"), BENCHMARKS_WITH_SETTINGS)
def test_the_parts_of_a_prompt_are_an_instruction_each_demonstration_and_the_query(
    kind: Any, settings: dict[str, Any]
) -> None:
    benchmark = kind(datasets=["mini"], limit=3, **settings)
    default_k = 4
    demonstration_set = benchmark[0].demonstration_set()
    texts = set()
    for number in range(len(demonstration_set)):
        texts.update(demonstration_set.row(number).texts)

    for parts in written_prompts(benchmark(model_with_seed(0)))["mini"]:
        _instruction, *demonstrations, _query = list(parts)
        assert len(demonstrations) == settings.get("k", default_k)
        for demonstration in demonstrations:
            assert any(text in demonstration for text in texts), demonstration


@pytest.fixture(scope="module")
def runs_with_outputs() -> dict[str, Result]:
    """Two runs of ten queries: five test rows, each with two draws of demonstrations."""
    benchmark = StaICC.Normal(datasets=["mini"], limit=5)
    return {
        "a": benchmark(model_with_seed(1), return_outputs=True),
        "b": benchmark(model_with_seed(2), return_outputs=True),
    }


def test_a_page_has_the_runs_and_labels_of_its_queries(runs_with_outputs: dict[str, Result]) -> None:
    data = query_data_of_page(runs_with_outputs)
    (dataset,) = data["sets"]
    assert data["runs"] == ["a", "b"]
    assert dataset["labels"] == ["food", "travel", "weather"]


def test_a_page_has_the_row_repeat_and_true_label_of_each_query(runs_with_outputs: dict[str, Result]) -> None:
    """The first number is that of the condition; there is only one."""
    outputs = runs_with_outputs["a"].outputs
    assert outputs is not None

    (dataset,) = query_data_of_page(runs_with_outputs)["sets"]

    expected = [[0, record["row"], record["repeat"], record["ground_truth"]] for record in outputs["mini"]]
    assert dataset["queries"] == expected


@pytest.mark.parametrize(("run", "name"), [(0, "a"), (1, "b")])
def test_a_page_has_the_prediction_and_the_probabilities_of_each_query(
    runs_with_outputs: dict[str, Result], run: int, name: str
) -> None:
    """A probability is stored in units of a ten-thousandth."""
    outputs = runs_with_outputs[name].outputs
    assert outputs is not None

    data = query_data_of_page(runs_with_outputs)

    assert list(data["sets"][0]["runs"][str(run)]["queries"]) == [str(query) for query in range(10)]
    for (prediction, _, scores, _), record in zip(queries_of(data, run), outputs["mini"], strict=True):
        assert prediction == record["prediction"]
        assert scores == [round(10000 * probability) for probability in record["normalised_probabilities"]]


def test_a_page_has_the_prompts_of_both_runs(runs_with_outputs: dict[str, Result]) -> None:
    data = query_data_of_page(runs_with_outputs)

    prompts = StaICC.Normal(datasets=["mini"], limit=5)[0].prompt_set()
    assert prompts_of(data, run=0) == prompts
    assert prompts_of(data, run=1) == prompts


def test_a_page_stores_equal_parts_of_prompts_once(runs_with_outputs: dict[str, Result]) -> None:
    """Ten prompts have six parts each: an instruction, four demonstrations and the query."""
    data = query_data_of_page(runs_with_outputs)
    assert len(data["parts"]) < 10 * 6
    assert len(data["parts"]) == len(set(data["parts"]))


def test_a_result_with_other_digests_of_its_prompts_shows_none() -> None:
    """The prompts that the file claims are not those of its signature."""
    saved = StaICC.Normal(datasets=["mini"], limit=3)(model_with_seed(0)).to_dict()
    digests = saved["details"]["mini"]["query_digests"]
    saved["details"]["mini"]["query_digests"] = digests.replace("A", "B").replace("c", "d")

    assert "differs" in written_prompts(Result.from_dict(saved))["mini"]


EDITS_OF_RECORDS = {
    "one record fewer": lambda records: records[:5],
    "one record more": lambda records: records + records[:1],
    "another order": lambda records: records[::-1],
}


def result_with_edited_records(edit: str) -> Result:
    """Return a result of six queries, of whose records an edit was made in the saved file."""
    saved = StaICC.Normal(datasets=["mini"], limit=3)(model_with_seed(0)).to_dict()
    (records,) = saved["details"]["mini"]["conditions"]
    for name in ("rows", "truth", "predictions"):
        records[name] = EDITS_OF_RECORDS[edit](records[name])
    return Result.from_dict(saved)


@pytest.mark.parametrize("edit", EDITS_OF_RECORDS)
def test_a_result_with_edited_records_has_no_prompts(edit: str) -> None:
    """Instead of the prompts, there is a reason."""
    assert isinstance(written_prompts(result_with_edited_records(edit))["mini"], str)


@pytest.mark.parametrize("edit", ["one record more", "another order"])
def test_the_reason_is_that_the_records_are_not_those_of_the_prompts(edit: str) -> None:
    reason = written_prompts(result_with_edited_records(edit))["mini"]
    assert reason == "the records of the queries are not those of the prompts"


@pytest.mark.parametrize("edit", EDITS_OF_RECORDS)
def test_a_page_shows_prompts_of_the_run_without_edits_only(edit: str) -> None:
    unedited = StaICC.Normal(datasets=["mini"], limit=3)(model_with_seed(0))

    data = query_data_of_page({"a": unedited, "b": result_with_edited_records(edit)})

    assert [prompt for *_, prompt in queries_of(data, run=0) if prompt == -1] == []
    assert {prompt for *_, prompt in queries_of(data, run=1)} == {-1}


@pytest.mark.parametrize(
    ("edit", "scores_are_shown"), [("one record fewer", False), ("one record more", False), ("another order", True)]
)
def test_a_page_shows_scores_if_there_are_as_many_as_records(edit: str, scores_are_shown: bool) -> None:
    data = query_data_of_page({"a": result_with_edited_records(edit)})

    assert {scores is not None for _, _, scores, _ in queries_of(data, run=0)} == {scores_are_shown}


@pytest.fixture(scope="module")
def partial_and_whole() -> dict[str, Result]:
    """A run that fails where it is wrong, on 40 queries of each of two data sets, and a run without failures.

    The first has accuracy 1: readers must see that 80 of its 160 queries are not in it.
    """
    runs = {"partial": run_right_on(0.6, fails=True), "whole": run_right_on(0.9)}
    assert runs["partial"].averaged["accuracy"] == 1.0
    return runs


def test_the_text_of_a_result_has_the_number_of_queries_left_out(partial_and_whole: dict[str, Result]) -> None:
    text = str(partial_and_whole["partial"])

    (line_of_easy,) = [line for line in text.splitlines() if line.startswith("easy ")]
    (line_of_hard,) = [line for line in text.splitlines() if line.startswith("hard ")]
    line_of_mean, *_ = [line for line in text.splitlines() if line.startswith("mean ")]
    assert line_of_easy.endswith(" 40")
    assert line_of_hard.endswith(" 40")
    assert line_of_mean.endswith(" 80")
    assert "conditional on a prediction" in text


def test_an_accuracy_of_the_leaderboard_has_the_number_of_queries_left_out(
    partial_and_whole: dict[str, Result],
) -> None:
    page = report_html(partial_and_whole)

    accuracies = {}
    _headings, *rows = rows_of(page, "Leaderboard")
    for name_and_details, accuracy, *_ in rows:
        accuracies[name_and_details.split()[0]] = accuracy
    assert re.match(r"1\.0000 \w+ \(80 left out\)", accuracies["partial"]), "the number follows the verdict"
    assert "left out" not in accuracies["whole"]
    assert "Queries left out: partial: 80." in unescape(page)


def test_a_heat_map_has_the_number_of_queries_left_out_at_each_score(partial_and_whole: dict[str, Result]) -> None:
    """Two data sets and the mean."""
    cells_of_runs = rows_of(report_html(partial_and_whole), "accuracy, by data set")
    (cells_of_partial,) = [cells for cells in cells_of_runs if cells[0] == "partial"]
    assert cells_of_partial[1:] == ["1.0000 (40 left out)", "1.0000 (40 left out)", "1.0000 (80 left out)"]


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


@pytest.mark.parametrize(
    ("format_name", "text"), [("text", "80, 0"), ("markdown", "80, 0"), ("csv", ",80,0,")], ids=["text", "md", "csv"]
)
def test_a_comparison_has_the_numbers_of_queries_left_out_of_both_runs(
    format_name: str, text: str, partial_and_whole: dict[str, Result]
) -> None:
    comparisons, _ = compare_all(partial_and_whole)
    assert text in format_comparisons(comparisons, format_name)


def test_a_comparison_as_json_has_the_numbers_of_queries_left_out_of_both_runs(
    partial_and_whole: dict[str, Result],
) -> None:
    comparisons, _ = compare_all(partial_and_whole)
    (document,) = json.loads(format_comparisons(comparisons, "json"))
    assert document["comparisons"][0]["mean"]["missing"] == [80, 0]


def test_a_ranking_has_the_number_of_queries_left_out(partial_and_whole: dict[str, Result]) -> None:
    lines = str(rank(partial_and_whole)).splitlines()
    (line_of_rank_2,) = [line for line in lines if line.startswith("2 ")]
    assert "partial" in line_of_rank_2.split()
    assert "80" in line_of_rank_2.split()


@pytest.fixture(scope="module")
def run_stopped_early() -> Result:
    """A run that stopped as soon as its accuracy was known to +/- 0.3."""
    return StaICC.Normal(datasets=["mini"])(model, precision=0.3)


def test_latex_marks_a_run_that_stopped_early_and_has_its_interval(run_stopped_early: Result) -> None:
    accuracy = run_stopped_early.averaged["accuracy"]
    assert run_stopped_early.stopping is not None
    interval = run_stopped_early.stopping.interval

    text = latex_scores({"early": run_stopped_early})

    assert f"${accuracy:.4f}$ [{interval.low:.3f}, {interval.high:.3f}] (stopped early)" in text


def test_a_model_card_marks_each_metric_of_a_run_that_stopped_early(run_stopped_early: Result) -> None:
    (card,) = model_index([run_stopped_early])
    for evaluation in card["results"]:
        for metric in evaluation["metrics"]:
            assert metric["name"].endswith(" (stopped early)")
            assert metric["args"]["stopped_early"]


def test_the_page_marks_a_run_that_stopped_early(run_stopped_early: Result) -> None:
    accuracy = run_stopped_early.averaged["accuracy"]
    assert f"{accuracy:.4f} (stopped early)" in unescape(report_html({"early": run_stopped_early}))


def test_a_score_without_bound_has_no_shade() -> None:
    shades = _shades([[ChartScore(1.0)], [ChartScore(math.inf)], [ChartScore(3.0)]], higher_is_better=True)
    assert shades == [[0], [0], [10]]
