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
    found = chromium(*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('profile')}")
    found.set_window_size(1200, 900)
    found.set_script_timeout(600)  # axe-core takes more than the 30 s of selenium on a busy machine
    yield found
    found.quit()


Open = Callable[..., Any]


@pytest.fixture
def show(browser: Any, tmp_path: Path) -> Open:
    """Open a report; forget what the browser logged and blocked before."""

    def open_(results: Any, mark: str = "", queries: bool = False) -> Any:
        path = tmp_path / "report.html"
        write_report(results, path, more=query_section(results, written_prompts) if queries else None)
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "", "features": []})
        browser.get("about:blank")
        browser.get_log("browser")
        browser.get_log("performance")
        browser.get(path.as_uri() + mark)
        return browser

    return open_


def test_no_errors_and_no_requests(show: Open, suite: ResultGroup) -> None:
    browser = show(suite)
    browser.execute_script("document.querySelectorAll('button').forEach(one => one.click())")
    assert browser.get_log("browser") == []
    messages = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    sent = [one["params"]["request"]["url"] for one in messages if one["method"] == "Network.requestWillBeSent"]
    assert {url.split(":")[0] for url in sent} == {"file"}


def test_tables_sort_by_number_and_back(show: Open, normal: Result) -> None:
    browser = show(normal)
    script = """
        const tables = [...document.querySelectorAll('table')];
        const table = tables.find(t => t.caption.textContent.startsWith('Normal: all scores'));
        const head = table.tHead.rows[0].cells[1];
        if (arguments[0]) head.querySelector('button').click();
        return [head.getAttribute('aria-sort'), [...table.tBodies[0].rows].map(r => parseFloat(r.cells[1].textContent)),
                table.tFoot.rows[0].cells[0].textContent];
    """
    state, before, foot = browser.execute_script(script, False)
    assert (state, foot) == ("none", "mean")
    assert browser.execute_script(script, True) == ["ascending", sorted(before), "mean"]
    assert browser.execute_script(script, True) == ["descending", sorted(before, reverse=True), "mean"]


def test_markup_in_the_data_stays_text(show: Open, nasty: Result) -> None:
    browser = show({"<img src=x onerror=alert(1)>": nasty})
    assert browser.title == "StaICC report"
    assert browser.execute_script("return document.querySelectorAll('main script, main img').length") == 0
    assert '<script>document.title = "owned"</script>' in browser.execute_script("return document.body.textContent")
    assert browser.get_log("browser") == []


@pytest.mark.parametrize("name", ["light", "dark"])
def test_no_violations_of_accessibility_rules(name: str, show: Open, suite: ResultGroup, nasty: Result) -> None:
    """By axe-core: ``npm install axe-core`` in the root of the repository or a folder above."""
    script = next(
        (one for up in Path(__file__).parents if (one := up / "node_modules/axe-core/axe.min.js").exists()), None
    )
    if script is None:
        pytest.skip("axe-core is not installed: npm install axe-core")
    browser = show({"suite": suite, "other": suite, "nasty": nasty}, "#run=suite&show=wrong", queries=True)
    browser.execute_script("document.querySelector('.query-controls button').click()")
    browser.execute_script("document.querySelector('.query-row').click()")
    features = [{"name": "prefers-color-scheme", "value": name}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "screen", "features": features})
    browser.execute_script("document.querySelectorAll('details').forEach(one => one.open = true)")
    browser.execute_script(script.read_text("utf-8"))
    rules = "axe.run(document, {resultTypes: ['violations']}).then(found => arguments[0](found.violations))"
    found = browser.execute_async_script(rules)
    assert [(one["id"], one["nodes"][0]["html"]) for one in found] == []


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
    script = (
        "return [...document.querySelectorAll('.overview svg text')].map(one => [one.textContent, one.getBBox().x])"
    )
    starts = browser.execute_script(script)
    assert len(starts) > len(names)
    assert [(name, x) for name, x in starts if x < 0] == []


# -- single queries

COUNT = "return document.querySelector('#query-view > p').textContent"
DETAIL = "return document.querySelector('.query-detail').textContent"
SET = """
    const one = document.getElementById('query-' + arguments[0]);
    one.value = arguments[1];
    one.dispatchEvent(new Event(one.tagName === 'INPUT' ? 'input' : 'change'));
"""


def two_runs() -> dict[str, Result]:
    def model(prompt: str, label_space: list[str]) -> list[float]:
        return [0.95, 0.03, 0.02] if len(prompt) % 2 else [0.3, 0.3, 0.4]

    benchmark = StaICC.Normal(datasets=["mini"], limit=30)
    return {"one": benchmark(model), "two": benchmark(lambda prompt, label_space: [0.95, 0.03, 0.02])}


def test_filters_select_the_queries_of_the_result(show: Open) -> None:
    runs = two_runs()
    browser = show(runs, queries=True)
    (own,) = runs["one"].details["mini"].conditions
    (other,) = runs["two"].details["mini"].conditions
    pairs = list(zip(own.truth, own.predictions, strict=True))
    expected = {
        "wrong": sum(truth != found for truth, found in pairs),
        "confident": sum(truth != found and found == 0 for truth, found in pairs),
        "failed": 0,
        "unparsed": 0,
        "all": 60,
    }
    assert 0 < expected["confident"] < expected["wrong"] < 60
    for name, number in expected.items():
        browser.execute_script(SET, "show", name)
        assert browser.execute_script(COUNT) == f"{number} of 60 queries."
    browser.execute_script(SET, "show", "differs")
    assert browser.execute_script(COUNT) == "0 of 60 queries. Choose the other run."
    browser.execute_script(SET, "other", "two")
    differs = sum(a != b for a, b in zip(own.predictions, other.predictions, strict=True))
    assert browser.execute_script(COUNT) == f"{differs} of 60 queries."
    browser.execute_script(SET, "show", "all")
    browser.execute_script(SET, "text", "RAIN")
    questions = [prompt.splitlines()[-1] for prompt in StaICC.Normal(datasets=["mini"], limit=30)[0].prompt_set()]
    assert browser.execute_script(COUNT) == f"{sum('rain' in one.lower() for one in questions)} of 60 queries."
    assert browser.get_log("browser") == []


def test_a_cell_of_a_confusion_matrix_selects_its_queries(show: Open) -> None:
    runs = two_runs()
    browser = show(runs, queries=True)
    (record,) = runs["two"].details["mini"].conditions
    pairs = list(zip(record.truth, record.predictions, strict=True))
    links = "[...document.querySelectorAll('td[data-queries] a')]"
    assert browser.execute_script(f"return {links}.length") == 18
    for place, (truth, label) in ((9, (0, 0)), (12, (1, 0)), (13, (1, 1))):
        assert int(browser.execute_script(f"return {links}[{place}].textContent")) == pairs.count((truth, label))
        browser.execute_script(f"{links}[{place}].click()")
        assert wait_for(browser, COUNT, f"{pairs.count((truth, label))} of 60 queries.")
        assert browser.execute_script("return document.getElementById('query-run').value") == "two"
    browser.execute_script("document.querySelectorAll('.query-controls button')[1].click()")
    assert browser.execute_script(COUNT) == "60 of 60 queries."
    assert browser.get_log("browser") == []


def wait_for(browser: Any, script: str, expected: str) -> bool:
    """Wait until a script returns a text: the address changes after the click."""
    for _ in range(100):
        if browser.execute_script(script) == expected:
            return True
        time.sleep(0.05)
    return False


@pytest.mark.parametrize("width", [390, 1280, 1920])
def test_the_page_fits_every_screen_and_its_first_one_answers(show: Open, suite: ResultGroup, width: int) -> None:
    browser = show({"one": suite, "two": suite})
    metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width
    for part in (".answer", ".overview svg"):
        bottom = f"return document.querySelector('{part}').getBoundingClientRect().bottom"
        assert 0 < browser.execute_script(bottom) <= 900
    browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


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


@pytest.mark.parametrize("width", [390, 1280, 1920])
def test_texts_are_legible_and_the_fixed_column_leaves_room(show: Open, suite: ResultGroup, width: int) -> None:
    """No text below 12 pixels, also in figures and folded parts; names take less than half of a phone."""
    browser = show({"a run with a name that is long and has no place to break_it_well": suite, "two": suite})
    metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    assert browser.execute_script(SMALL_TEXTS) == []
    widths = "return [...document.querySelectorAll('.board tbody th')].map(head => head.getBoundingClientRect().width)"
    assert max(browser.execute_script(widths)) < (195 if width == 390 else width / 4)
    browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


@pytest.mark.parametrize("name", ["light", "dark"])
def test_figures_have_the_colours_of_the_theme(show: Open, suite: ResultGroup, name: str) -> None:
    browser = show(suite)
    features = [{"name": "prefers-color-scheme", "value": name}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "screen", "features": features})
    colour = "return getComputedStyle(document.querySelector('.overview .fill-series-1')).fill"
    expected = {"light": LIGHT, "dark": DARK}[name]["series-1"]
    red, green, blue = (int(expected[place : place + 2], 16) for place in (1, 3, 5))
    assert browser.execute_script(colour) == f"rgb({red}, {green}, {blue})"


def test_texts_are_hidden_until_requested_and_a_link_restores_the_view(show: Open) -> None:
    browser = show(two_runs(), queries=True)
    text = StaICC.Normal(datasets=["mini"], limit=30)[0].prompt_set()[7]
    query = text.splitlines()[-1]
    visible = "return document.getElementById('query-view').innerText"
    browser.execute_script(SET, "other", "two")
    browser.execute_script("document.querySelectorAll('.query-row')[7].click()")
    assert query not in browser.execute_script(visible)
    assert "Texts are hidden" in browser.execute_script(DETAIL)
    browser.execute_script("document.querySelector('.query-controls button').click()")
    parts = browser.execute_script(
        "return [...document.querySelectorAll('.query-part')].map(one => [...one.children].map(two => two.textContent))"
    )
    assert [kind for kind, *_ in parts] == [*(f"demonstration {number}" for number in range(1, 5)), "query"]
    assert "".join(shown for _, shown, *_ in parts) == text
    link = browser.current_url
    browser.get("about:blank")
    browser.get(link)
    assert query not in browser.execute_script(visible)  # a link does not show texts
    chosen = "return document.querySelector('.query-row[aria-selected=true]').textContent"
    assert "Normal/mini/normal/7/0" in browser.execute_script(chosen)
    assert browser.execute_script("return document.getElementById('query-other').value") == "two"


def test_texts_of_queries_stay_text(show: Open) -> None:
    wild = "</script><script>document.title = 'owned'</script><img src=x onerror='document.title=1'>\u2028\u202e"
    rows = [(f"{wild} {row}", row % 2) for row in range(60)]
    own = Dataset.from_rows(rows, name=wild, label_space=["<b>no</b>", "</script>"])
    run = {"<i>run": StaICC.Normal(datasets=[own], limit=5)(lambda prompt, label_space: [0.4, 0.6])}
    prompts = [("", f"{wild}\x00 {number}") for number in range(10)]
    browser = show({"<i>run": run["<i>run"]})
    path = browser.current_url.removeprefix("file://")
    write_report(run, path, more=query_section(run, lambda result: {wild: prompts}))
    browser.get("about:blank")
    browser.get(f"file://{path}")
    browser.execute_script("document.querySelector('.query-controls button').click()")
    browser.execute_script("document.querySelector('.query-row').click()")
    assert browser.title == "StaICC report"
    assert browser.execute_script("return document.querySelectorAll('#query-view :is(script, img, b, i)').length") == 0
    assert wild[:60] in browser.execute_script(DETAIL)
    assert not {"\u202e", "\x00"} & set(
        browser.execute_script("return document.getElementById('query-view').innerText")
    )
    assert browser.get_log("browser") == []
