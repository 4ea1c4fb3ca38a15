"""The page in a real browser: no errors, no requests, both themes, sorting, the view of queries.

Needs Chromium and its driver (Debian: ``apt-get install chromium chromium-driver``) and ``pip install selenium``.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import StaICC
from StaICC.benchmarks.verify import written_prompts
from StaICC.datasets import Dataset
from StaICC.results import Result, ResultGroup
from StaICC.results.report import write_report
from StaICC.results.report.page import query_section

selenium = pytest.importorskip("selenium", reason="the browser test needs selenium")

pytestmark = pytest.mark.slow

BROWSER = shutil.which("chromium") or shutil.which("google-chrome")
DRIVER = shutil.which("chromedriver")
FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking")


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    if BROWSER is None or DRIVER is None:
        pytest.skip("THE REPORT WAS NOT OPENED IN A BROWSER: chromium and chromedriver are not installed")
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = BROWSER
    for flag in (*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('profile')}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    found = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))
    found.set_window_size(1200, 900)
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


# -- single queries

COUNT = "return document.querySelector('#query-view > p').textContent"
DETAIL = "return document.querySelector('.query-detail').textContent"


def two_runs() -> dict[str, Result]:
    def model(prompt: str, label_space: list[str]) -> list[float]:
        return [0.95, 0.03, 0.02] if len(prompt) % 2 else [0.3, 0.3, 0.4]

    benchmark = StaICC.Normal(datasets=["mini"], limit=30)
    return {"one": benchmark(model), "two": benchmark(lambda prompt, label_space: [0.95, 0.03, 0.02])}


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
