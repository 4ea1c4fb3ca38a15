"""The page in a real browser: no errors, no requests, both themes, sorting, the view of queries.

Needs Chromium and its driver (Debian: ``apt-get install chromium chromium-driver``) and ``pip install selenium``.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import StaICC
from StaICC.benchmarks.saved_prompts import written_prompts
from StaICC.datasets.dataset import Dataset
from StaICC.report.colours import DARK, LIGHT
from StaICC.report.page import write_report
from StaICC.report.query_view import query_section
from StaICC.results.result import Result, ResultGroup
from tests.pictures import chromium, skip_without_chromium

selenium = pytest.importorskip("selenium", reason="the browser test needs selenium")

pytestmark = pytest.mark.slow

FLAGS = ("--disable-gpu", "--no-first-run", "--disable-background-networking")


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    skip_without_chromium()
    opened = chromium(*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('profile')}")
    opened.set_window_size(1200, 900)
    opened.set_script_timeout(600)  # axe-core takes more than the 30 s of selenium on a busy machine
    yield opened
    opened.quit()


Open = Callable[..., Any]


@pytest.fixture
def show(browser: Any, tmp_path: Path) -> Open:
    """Return a function that opens a report, after the browser has forgotten what it logged and blocked."""

    def open_report(results: Any, mark: str = "", queries: bool = False, prompts_of: Any = written_prompts) -> Any:
        """Open the report of results, with a view of their queries if wanted; ``mark`` ends the address."""
        path = tmp_path / "report.html"
        write_report(results, path, more=query_section(results, prompts_of) if queries else None)
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "", "features": []})
        browser.get("about:blank")
        browser.get_log("browser")
        browser.get_log("performance")
        browser.get(path.as_uri() + mark)
        return browser

    return open_report


def test_no_errors_and_no_requests(show: Open, suite: ResultGroup) -> None:
    browser = show(suite)

    browser.execute_script("document.querySelectorAll('button').forEach(button => button.click())")

    assert browser.get_log("browser") == []
    messages = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    requests = [message["params"]["request"] for message in messages if message["method"] == REQUEST]
    assert {request["url"].partition(":")[0] for request in requests} == {"file"}


REQUEST = "Network.requestWillBeSent"
"""The message of the browser before each request."""


SORT = """
    const tables = [...document.querySelectorAll('table')];
    const table = tables.find(table => table.caption.textContent.startsWith('Normal: all scores'));
    const head = table.tHead.rows[0].cells[1];
    if (arguments[0] === 'click') head.querySelector('button').click();
    return [head.getAttribute('aria-sort'),
            [...table.tBodies[0].rows].map(row => parseFloat(row.cells[1].textContent)),
            table.tFoot.rows[0].cells[0].textContent];
"""
"""Sort the table of all scores by its first score if ``click`` is set.

Returns the order that the head of the column states, the scores, and the first cell of the last row.
"""


def test_tables_sort_by_number_and_back(show: Open, normal: Result) -> None:
    """The row of means stays the last one."""
    browser = show(normal)

    order, scores, last_row = browser.execute_script(SORT, "read")
    assert (order, last_row) == ("none", "mean")

    assert browser.execute_script(SORT, "click") == ["ascending", sorted(scores), "mean"]
    assert browser.execute_script(SORT, "click") == ["descending", sorted(scores, reverse=True), "mean"]


def test_markup_in_the_data_stays_text(show: Open, result_with_markup: Result) -> None:
    browser = show({"<img src=x onerror=alert(1)>": result_with_markup})
    assert browser.title == "StaICC report"
    assert browser.execute_script("return document.querySelectorAll('main script, main img').length") == 0
    assert '<script>document.title = "owned"</script>' in browser.execute_script("return document.body.textContent")
    assert browser.get_log("browser") == []


def axe_core() -> str:
    """Return the script of axe-core: ``npm install axe-core`` in the root of the repository or a folder above."""
    for folder in Path(__file__).parents:
        script = folder / "node_modules/axe-core/axe.min.js"
        if script.exists():
            return script.read_text("utf-8")
    pytest.skip("axe-core is not installed: npm install axe-core")


def emulate(browser: Any, theme: str) -> None:
    """Set the theme of the browser: ``light`` or ``dark``."""
    features = [{"name": "prefers-color-scheme", "value": theme}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "screen", "features": features})


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_no_violations_of_accessibility_rules(
    theme: str, show: Open, suite: ResultGroup, result_with_markup: Result
) -> None:
    """By axe-core, with the texts of one query shown and all details open."""
    script = axe_core()
    browser = show(
        {"suite": suite, "other": suite, "result_with_markup": result_with_markup},
        "#run=suite&show=wrong",
        queries=True,
    )
    emulate(browser, theme)
    browser.execute_script(SHOW_TEXTS)
    browser.execute_script(OPEN_QUERY, 0)
    browser.execute_script("document.querySelectorAll('details').forEach(details => details.open = true)")

    browser.execute_script(script)
    violations = browser.execute_async_script(
        "axe.run(document, {resultTypes: ['violations']}).then(result => arguments[0](result.violations))"
    )

    assert [(violation["id"], violation["nodes"][0]["html"]) for violation in violations] == []


def test_names_of_rows_are_inside_their_figure(show: Open, normal: Result) -> None:
    names = [
        "W" * 40,
        "x" * 40,
        "\U0001f600" * 20,
        "\u4e2d" * 30,
        "e" + "\u0301" * 30,
        "meta-llama/Llama-3.1-8B-Instruct",
    ]
    browser = show(dict.fromkeys(names, normal))
    left_edges = browser.execute_script(
        "return [...document.querySelectorAll('.overview svg text')].map(text => [text.textContent, text.getBBox().x])"
    )
    assert len(left_edges) > len(names)
    assert [(name, x) for name, x in left_edges if x < 0] == []


# -- single queries

COUNT = "return document.querySelector('#query-view > p').textContent"
DETAIL = "return document.querySelector('.query-detail').textContent"
VISIBLE_TEXT = "return document.getElementById('query-view').innerText"
SHOW_TEXTS = "document.querySelector('.query-controls button').click()"
END_SELECTION = "document.querySelectorAll('.query-controls button')[1].click()"
CELLS = "[...document.querySelectorAll('td[data-queries] a')]"
"""The links in the cells of confusion matrices."""
OPEN_QUERY = "document.querySelectorAll('.query-row')[arguments[0]].click()"
SET = """
    const control = document.getElementById('query-' + arguments[0]);
    control.value = arguments[1];
    control.dispatchEvent(new Event(control.tagName === 'INPUT' ? 'input' : 'change'));
"""
"""Set a control of the view of queries, such as ``show`` or ``other``, to a value."""


def benchmark_of_60_queries() -> StaICC.Normal:
    """Return a benchmark of 30 rows with two queries each."""
    return StaICC.Normal(datasets=["mini"], limit=30)


def two_runs() -> dict[str, Result]:
    """Return two runs: "two" is always sure of label 0, and "one" only for prompts of odd length.

    For the other prompts, it predicts label 2 with a low probability.
    """

    def predict_by_length(prompt: str, label_space: list[str]) -> list[float]:
        if len(prompt) % 2 == 1:
            return [0.95, 0.03, 0.02]
        return [0.3, 0.3, 0.4]

    def always_predict_first(prompt: str, label_space: list[str]) -> list[float]:
        return [0.95, 0.03, 0.02]

    benchmark = benchmark_of_60_queries()
    return {"one": benchmark(predict_by_length), "two": benchmark(always_predict_first)}


def labels_of(result: Result) -> list[tuple[int, int | None]]:
    """Return the true and the predicted label of each query."""
    (record,) = result.details["mini"].conditions
    return list(zip(record.truth, record.predictions, strict=True))


def test_a_filter_selects_the_queries_of_the_result(show: Open) -> None:
    runs = two_runs()
    browser = show(runs, queries=True)
    wrong = sum(truth != predicted for truth, predicted in labels_of(runs["one"]))
    confident_wrong = sum(truth != 0 and predicted == 0 for truth, predicted in labels_of(runs["one"]))
    assert 0 < confident_wrong < wrong < 60

    queries_of_filter = {"wrong": wrong, "confident": confident_wrong, "failed": 0, "unparsed": 0, "all": 60}
    for name, queries in queries_of_filter.items():
        browser.execute_script(SET, "show", name)
        assert browser.execute_script(COUNT) == f"{queries} of 60 queries."
    assert browser.get_log("browser") == []


def test_queries_in_which_two_runs_differ_are_selected(show: Open) -> None:
    runs = two_runs()
    browser = show(runs, queries=True)
    pairs = zip(labels_of(runs["one"]), labels_of(runs["two"]), strict=True)
    different = sum(first != second for first, second in pairs)
    assert 0 < different < 60

    browser.execute_script(SET, "show", "differs")
    assert browser.execute_script(COUNT) == "0 of 60 queries. Choose the other run."

    browser.execute_script(SET, "other", "two")
    assert browser.execute_script(COUNT) == f"{different} of 60 queries."
    assert browser.get_log("browser") == []


def test_queries_with_a_text_are_selected(show: Open) -> None:
    browser = show(two_runs(), queries=True)
    last_lines = [prompt.splitlines()[-1] for prompt in benchmark_of_60_queries()[0].prompt_set()]
    with_rain = sum("rain" in line.lower() for line in last_lines)

    browser.execute_script(SET, "text", "RAIN")

    assert browser.execute_script(COUNT) == f"{with_rain} of 60 queries."
    assert browser.get_log("browser") == []


@pytest.mark.parametrize(("link", "truth", "predicted"), [(9, 0, 0), (12, 1, 0), (13, 1, 1)])
def test_a_cell_of_a_confusion_matrix_selects_its_queries(show: Open, link: int, truth: int, predicted: int) -> None:
    """Two matrices with nine cells each; those of the second run begin with link 9, a row for each true label."""
    runs = two_runs()
    queries = labels_of(runs["two"]).count((truth, predicted))
    browser = show(runs, queries=True)
    texts_of_links = browser.execute_script(f"return {CELLS}.map(cell => cell.textContent)")
    assert len(texts_of_links) == 18
    assert texts_of_links[link] == str(queries)

    browser.execute_script(f"{CELLS}[{link}].click()")

    assert wait_for(browser, COUNT, f"{queries} of 60 queries.")
    assert browser.execute_script("return document.getElementById('query-run').value") == "two"
    assert browser.get_log("browser") == []


def test_a_button_ends_the_selection_of_a_cell(show: Open) -> None:
    browser = show(two_runs(), queries=True)
    queries = browser.execute_script(f"return {CELLS}[9].textContent")
    browser.execute_script(f"{CELLS}[9].click()")
    assert wait_for(browser, COUNT, f"{queries} of 60 queries.")
    assert queries != "60"

    browser.execute_script(END_SELECTION)

    assert browser.execute_script(COUNT) == "60 of 60 queries."
    assert browser.get_log("browser") == []


def wait_for(browser: Any, script: str, expected: str) -> bool:
    """Wait until a script returns a text: the address changes after the click."""
    for _ in range(100):
        if browser.execute_script(script) == expected:
            return True
        time.sleep(0.05)
    return False


@pytest.fixture(params=[390, 1280, 1920])
def width(browser: Any, request: pytest.FixtureRequest) -> Iterator[int]:
    """Set the width of the screen: of a phone, a laptop and a monitor."""
    metrics = {"width": request.param, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    yield request.param
    browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_the_page_fits_every_screen_and_its_first_one_answers(show: Open, suite: ResultGroup, width: int) -> None:
    """The screen is 900 pixels high."""
    browser = show({"one": suite, "two": suite})

    assert browser.execute_script("return document.documentElement.scrollWidth") <= width
    bottom = "return document.querySelector(arguments[0]).getBoundingClientRect().bottom"
    assert 0 < browser.execute_script(bottom, ".answer") <= 900
    assert 0 < browser.execute_script(bottom, ".overview svg") <= 900


SMALL_TEXTS = """
    document.querySelectorAll('details').forEach(details => { details.open = true; });
    return [...document.querySelectorAll('main *')].filter(element =>
        [...element.childNodes].some(node => node.nodeType === 3 && node.textContent.trim())
        && element.getBoundingClientRect().width && !element.closest('sup, title')
    ).map(element => {
        const drawing = element.closest('svg[viewBox]');
        const scale = drawing ? drawing.getBoundingClientRect().width / drawing.viewBox.baseVal.width : 1;
        return [parseFloat(getComputedStyle(element).fontSize) * scale, element.textContent.slice(0, 40)];
    }).filter(([size]) => size < 12);
"""


def test_texts_are_legible(show: Open, suite: ResultGroup, width: int) -> None:
    """No text is below 12 pixels, also in figures and folded parts."""
    browser = show({"one": suite, "two": suite})

    assert browser.execute_script(SMALL_TEXTS) == []


def test_names_of_runs_take_less_than_half_of_a_phone_and_a_quarter_of_other_screens(
    show: Open, suite: ResultGroup, width: int
) -> None:
    browser = show({"a run with a name that is long and has no place to break_it_well": suite, "two": suite})

    widths_of_names = browser.execute_script(
        "return [...document.querySelectorAll('.board tbody th')].map(name => name.getBoundingClientRect().width)"
    )

    is_phone = width == 390
    assert max(widths_of_names) < (width / 2 if is_phone else width / 4)


@pytest.mark.parametrize(("theme", "colours"), [("light", LIGHT), ("dark", DARK)], ids=["light", "dark"])
def test_figures_have_the_colours_of_the_theme(
    show: Open, suite: ResultGroup, theme: str, colours: dict[str, str]
) -> None:
    browser = show(suite)

    emulate(browser, theme)

    fill = browser.execute_script("return getComputedStyle(document.querySelector('.overview .fill-series-1')).fill")
    red, green, blue = bytes.fromhex(colours["series-1"].removeprefix("#"))
    assert fill == f"rgb({red}, {green}, {blue})"


def test_texts_are_hidden_until_requested(show: Open) -> None:
    browser = show(two_runs(), queries=True)
    prompt = benchmark_of_60_queries()[0].prompt_set()[7]
    query = prompt.splitlines()[-1]

    browser.execute_script(OPEN_QUERY, 7)
    assert query not in browser.execute_script(VISIBLE_TEXT)
    assert "Texts are hidden" in browser.execute_script(DETAIL)

    browser.execute_script(SHOW_TEXTS)
    assert query in browser.execute_script(DETAIL)


def test_a_prompt_is_shown_in_its_parts(show: Open) -> None:
    """Each part of a prompt is an element with its kind and its text."""
    browser = show(two_runs(), queries=True)
    browser.execute_script(OPEN_QUERY, 7)
    browser.execute_script(SHOW_TEXTS)

    parts = browser.execute_script(
        "return [...document.querySelectorAll('.query-part')].map("
        "part => [part.children[0].textContent, part.children[1].textContent])"
    )

    kinds = [kind for kind, _ in parts]
    assert kinds == ["demonstration 1", "demonstration 2", "demonstration 3", "demonstration 4", "query"]
    assert "".join(text for _, text in parts) == benchmark_of_60_queries()[0].prompt_set()[7]


def test_a_link_restores_the_view_without_its_texts(show: Open) -> None:
    browser = show(two_runs(), queries=True)
    query = benchmark_of_60_queries()[0].prompt_set()[7].splitlines()[-1]
    browser.execute_script(SET, "other", "two")
    browser.execute_script(OPEN_QUERY, 7)
    browser.execute_script(SHOW_TEXTS)
    link = browser.current_url

    browser.get("about:blank")
    browser.get(link)

    assert query not in browser.execute_script(VISIBLE_TEXT)
    selected_row = "return document.querySelector('.query-row[aria-selected=true]').textContent"
    assert "Normal/mini/normal/7/0" in browser.execute_script(selected_row)
    assert browser.execute_script("return document.getElementById('query-other').value") == "two"


HOSTILE = "</script><script>document.title = 'owned'</script><img src=x onerror='document.title=1'>\u2028\u202e"
"""A text that would run a script if it were markup, with a character that ends lines and one that turns the text."""


def test_texts_of_queries_stay_text(show: Open) -> None:
    rows = [(f"{HOSTILE} {row}", row % 2) for row in range(60)]
    dataset = Dataset.from_rows(rows, name=HOSTILE, label_space=["<b>no</b>", "</script>"])
    result = StaICC.Normal(datasets=[dataset], limit=5)(lambda prompt, label_space: [0.4, 0.6])
    prompts = [("", f"{HOSTILE}\x00 {number}") for number in range(10)]
    browser = show({"<i>run": result}, prompts_of=lambda result: {HOSTILE: prompts}, queries=True)

    browser.execute_script(SHOW_TEXTS)
    browser.execute_script(OPEN_QUERY, 0)

    assert browser.title == "StaICC report"
    assert browser.execute_script("return document.querySelectorAll('#query-view :is(script, img, b, i)').length") == 0
    assert HOSTILE[:60] in browser.execute_script(DETAIL)
    visible_text = browser.execute_script(VISIBLE_TEXT)
    assert "\u202e" not in visible_text
    assert "\x00" not in visible_text
    assert browser.get_log("browser") == []
