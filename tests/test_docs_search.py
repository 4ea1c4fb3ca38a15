"""The search of the documentation site, in a browser: users' words lead to guides, names of internals to the API."""

from __future__ import annotations

import functools
import http.server
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
SEARCHES = (
    *("p-value", "confidence interval", "accuracy below random", "batch size", "device", "GPU", "chat template"),
    *("vllm", "openai server", "few-shot", "number of demonstrations", "calibration", "contextual calibration", "ECE"),
    *("expected calibration error", "macro F1", "likelihood", "significance test", "compare two models", "leaderboard"),
    *("own data", "csv", "hugging face dataset", "install", "offline", "resume interrupted run", "cache predictions"),
    *("cost of a run", "retry rate limit", "label words", "template", "signature", "reproduce paper", "data frame"),
    *("export to lm-evaluation-harness", "verify result"),
)
QUESTIONS = {
    "Is a difference of two runs significant?": "comparing.html",
    "What does it cost before I run?": "durable_runs.html",
    "How do I use several GPUs?": "durable_runs.html",
    "How do I run my own model?": "kernels.html",
}
NAMES = ("values_equal", "PPMKernel", "split_runs", "EndpointKernel")
INTERNALS = ("api/", "changelog.html", "contributing.html", "architecture.html")


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *args: Any) -> None:
        pass


def first_hits(site: Path, searches: tuple[str, ...]) -> Iterator[str]:
    """The page that the built site's own search lists first, for each search."""
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or shutil.which("google-chrome") or ""
    for flag in ("--headless", "--no-sandbox"):
        options.add_argument(flag)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(_Quiet, directory=str(site)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    browser = webdriver.Chrome(options, webdriver.ChromeService(shutil.which("chromedriver")))
    script = "return document.querySelector('.md-search-result__item > a')?.href"
    try:
        for words in searches:
            address = f"http://127.0.0.1:{server.server_port}/"
            browser.get(f"{address}index.html?q={words.replace(' ', '+')}")
            hit, until = None, time.monotonic() + 60
            while hit is None and time.monotonic() < until:
                time.sleep(0.1)
                hit = browser.execute_script(script)
            yield str(hit).removeprefix(address).partition("?")[0]
    finally:
        browser.quit()
        server.shutdown()
        server.server_close()


@pytest.mark.slow
def test_searches_find_guides_first(tmp_path: Path) -> None:
    for package in ("selenium", "mkdocs", "material", "mkdocstrings_handlers", "latex2mathml"):
        pytest.importorskip(package)
    if shutil.which("chromedriver") is None:
        pytest.skip("the search was not tried in a browser: chromium and chromedriver are not installed")
    subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "-q", "-f", str(ROOT / "mkdocs.yml"), "-d", str(tmp_path / "site")],
        cwd=tmp_path,
        env={**os.environ, "STAICC_OFFLINE": "1", "STAICC_HOME": str(tmp_path), "NO_MKDOCS_2_WARNING": "1"},
        check=True,
    )
    searches = (*SEARCHES, *NAMES, *QUESTIONS)
    hits = dict(zip(searches, first_hits(tmp_path / "site", searches), strict=True))
    guides = [words for words in SEARCHES if hits[words].endswith(".html") and not hits[words].startswith(INTERNALS)]
    assert len(guides) >= 32, {words: hits[words] for words in SEARCHES if words not in guides}
    assert all(hits[name].startswith("api/") for name in NAMES), hits
    assert {words: hits[words].partition("#")[0] for words in QUESTIONS} == QUESTIONS
