"""The page in a real browser: no errors, no requests, both themes, sorting, the view of queries.

Needs Chromium and its driver (Debian: ``apt-get install chromium chromium-driver``) and ``pip install selenium``.
"""

from __future__ import annotations

import json
import shutil
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


def test_markup_in_the_data_stays_text(show: Open, nasty: Result) -> None:
    browser = show({"<img src=x onerror=alert(1)>": nasty})
    assert browser.title == "StaICC report"
    assert browser.execute_script("return document.querySelectorAll('main script, main img').length") == 0
    assert '<script>document.title = "owned"</script>' in browser.execute_script("return document.body.textContent")
    assert browser.get_log("browser") == []


# -- single queries

DETAIL = "return document.querySelector('.query-detail').textContent"


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
