"""Make the pictures of pages for the documentation: ``python tests/pictures.py``.

It runs the commands of ``docs/gallery.md`` and opens the pages in Chromium, which it needs with chromedriver and
selenium.
"""

from __future__ import annotations

import base64
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
ASSETS = ROOT / "docs" / "assets"
FORMAT = {"captureBeyondViewport": True, "format": "webp", "quality": 70}
WIDTH = 1280
"""Of the browser's window and of each picture, in pixels."""
QUERY = "#run=gemma-3-270m&other=smollm2-135m&set=Normal%2FAGNews&show=differs&query=Normal%2FAGNews%2Fnormal%2F10%2F0"
"""What the report's view of queries shows: two models that differ. Texts of the data sets stay hidden."""


def picture(browser: Any, name: str, start: str, height: int) -> None:
    """Save the part of a page that begins at an element."""
    top = browser.execute_script(f"return document.querySelector({start!r}).getBoundingClientRect().top + scrollY")
    margin = 12
    clip = {"x": 0, "y": max(0, top - margin), "width": WIDTH, "height": height, "scale": 1}
    screenshot = browser.execute_cdp_cmd("Page.captureScreenshot", {**FORMAT, "clip": clip})
    (ASSETS / name).write_bytes(base64.b64decode(screenshot["data"]))


def skip_without_chromium() -> None:
    """Skip a test that opens pages in a browser where none is installed; ``.ci/test`` installs one."""
    import pytest

    pytest.importorskip("selenium", reason="pages are opened through selenium: pip install selenium")
    has_browser = shutil.which("chromium") is not None or shutil.which("google-chrome") is not None
    if not has_browser or shutil.which("chromedriver") is None:
        pytest.skip("pages are opened in Chromium, which is not installed (Debian: chromium, chromium-driver)")


def chromium(*flags: str) -> Any:
    """Return a browser without a window, whose logs can be read."""
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or shutil.which("google-chrome") or ""
    for flag in ("--headless", "--no-sandbox", *flags):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    return webdriver.Chrome(options, webdriver.ChromeService(shutil.which("chromedriver")))


def commands_of_the_gallery() -> list[str]:
    """Return the commands of the page of pictures, in their order; those of the leaderboard are the last ones."""
    page = (ROOT / "docs" / "gallery.md").read_text("utf-8")
    commands = []
    for block in re.findall("```console\n(.*?)```", page, re.DOTALL):
        commands += block.splitlines()
    commands += re.findall("`(python -m StaICC leaderboard .*?)`", page)
    return commands


def run_commands(commands: list[str], folder: str) -> None:
    """Run commands in a folder. A command ``cd`` copies its folder there, whose files the next commands read."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    for command in commands:
        program, *arguments = shlex.split(command)
        if program == "cd":
            shutil.copytree(ROOT / arguments[0], folder, dirs_exist_ok=True)
        else:
            python_command = [sys.executable, *arguments]
            subprocess.run(python_command, cwd=folder, env=environment, check=True, stdout=subprocess.DEVNULL)


def make_pictures(folder: str) -> None:
    """Open the pages that the commands have written, and save the pictures of their parts."""
    browser = chromium("--hide-scrollbars")
    browser.set_window_size(WIDTH, 900)

    browser.get(Path(folder, "report.html").as_uri() + QUERY)
    picture(browser, "report.webp", "h1", 1040)
    picture(browser, "accuracies.webp", "#accurate", 330)
    picture(browser, "queries.webp", "#queries", 850)

    browser.get(Path(folder, "suite.html").as_uri())
    picture(browser, "diagnosis.webp", "#biased", 660)

    browser.get(Path(folder, "site", "index.html").as_uri())
    picture(browser, "leaderboard.webp", "#files", 332)

    browser.quit()


def main() -> None:
    """Run the commands, and make the pictures."""
    with tempfile.TemporaryDirectory() as folder:
        run_commands(commands_of_the_gallery(), folder)
        make_pictures(folder)


if __name__ == "__main__":
    main()
