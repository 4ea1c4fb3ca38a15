"""The documentation site: it builds without a warning, has every page and public name, and asks no other host."""

from __future__ import annotations

import ast
import functools
import http.server
import os
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, ClassVar

import pytest

import StaICC

ROOT = Path(__file__).parents[1]
PUBLIC_MODULES = [
    path
    for path in sorted((ROOT / "StaICC").rglob("*.py"))
    if not any(part.startswith("_") and part != "__init__.py" for part in path.relative_to(ROOT).parts)
]


def module_name(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def public_names(path: Path) -> list[str]:
    for node in ast.parse(path.read_text("utf-8")).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return ast.literal_eval(node.value) if isinstance(node.value, ast.List) else StaICC.__all__
    defined = (
        node for node in ast.parse(path.read_text("utf-8")).body if isinstance(node, (ast.ClassDef, ast.FunctionDef))
    )
    return [node.name for node in defined if not node.name.startswith("_")]


class Page(HTMLParser):
    """What a test asks of a page: anchors, what a browser would fetch, links, and the text."""

    FETCHED: ClassVar[dict[str, str]] = {
        **dict.fromkeys(("script", "img", "iframe", "source", "video", "audio", "embed"), "src"),
        **{"object": "data", "use": "href", "image": "href", "form": "action"},
    }
    RELATIONS: ClassVar[set[str]] = {
        *("stylesheet", "icon", "preload", "prefetch", "preconnect", "dns-prefetch", "modulepreload"),
    }

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.fetched: list[str] = []
        self.tags: list[str] = []
        self.text = ""
        self.source = path.read_text("utf-8")
        self.feed(self.source)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.tags.append(tag)
        self.anchors.add(given.get("id", ""))
        if tag in self.FETCHED:
            self.fetched.append(given.get(self.FETCHED[tag], ""))
        if tag == "link" and self.RELATIONS & set(given.get("rel", "").split()):
            self.fetched.append(given.get("href", ""))
        self.fetched += [part.split()[0] for part in given.get("srcset", "").split(",") if part.strip()]
        self.fetched += re.findall(r"url\(([^)]*)\)", given.get("style", ""))

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built site. It is built without the frozen data, as on a machine that never had them."""
    for package in ("mkdocs", "material", "mkdocstrings_handlers", "latex2mathml"):
        pytest.importorskip(package)
    folder = tmp_path_factory.mktemp("site")
    home = tmp_path_factory.mktemp("home")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "-f", str(ROOT / "mkdocs.yml"), "-d", str(folder)],
        cwd=folder,
        env={**os.environ, "STAICC_OFFLINE": "1", "STAICC_HOME": str(home), "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr
    assert list(home.iterdir()) == []  # nothing was fetched
    return folder


@pytest.fixture(scope="session")
def built(site: Path) -> dict[str, Page]:
    return {path.relative_to(site).as_posix(): Page(path) for path in sorted(site.rglob("*.html"))}


@pytest.mark.slow
def test_every_public_name_stands_on_an_api_page(built: dict[str, Page]) -> None:
    missing = []
    for path in PUBLIC_MODULES:
        module = module_name(path)
        page = built.get(f"api/{module}.html")
        if page is None:
            missing.append(module)
            continue
        assert module in page.anchors
        for name in public_names(path):
            own = f"{module}.{name}" in page.anchors
            passed_on = re.search(rf'href="[^"]*#[\w.]+"[^>]*><code>{name}</code>', page.source)
            if not own and not passed_on:
                missing.append(f"{module}.{name}")
    assert missing == []
    top = built["api/index.html"].source
    assert [
        name for name in StaICC.__all__ if not re.search(rf'href="[^"]+#[^"]+"[^>]*><code>{name}</code>', top)
    ] == []


@pytest.mark.slow
def test_no_other_host_is_asked(site: Path, built: dict[str, Page]) -> None:
    outside = {
        f"{name}: {address}"
        for name, page in built.items()
        for address in page.fetched
        if re.match(r"\s*[\"']?(\w+:)?//", address) and not address.startswith("data:")
    }
    assert outside == set()
    for path in site.rglob("*.css"):
        addresses = re.findall(r"(?:url\(|@import)\s*[\"']?([^\"')]+)", path.read_text("utf-8"))
        assert [address for address in addresses if re.match(r"(\w+:)?//", address)] == [], path.name
    # A policy in the page: without it, the theme's script would fetch a renderer for some classes of code blocks, and
    # stars and versions of a repository.
    policy = "<head>\n<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; script-src 'self' "
    assert [name for name, page in built.items() if policy not in page.source] == []
    assert not any('class="mermaid"' in page.source for page in built.values())
    assert not any('data-md-component="source"' in page.source for page in built.values())


# -- the search, in a browser: users' words lead to guides, names of internals to the API


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
def test_searches_find_guides_first(site: Path) -> None:
    pytest.importorskip("selenium")
    if shutil.which("chromedriver") is None:
        pytest.skip("the search was not tried in a browser: chromium and chromedriver are not installed")
    searches = (*SEARCHES, *NAMES, *QUESTIONS)
    hits = dict(zip(searches, first_hits(site, searches), strict=True))
    guides = [words for words in SEARCHES if hits[words].endswith(".html") and not hits[words].startswith(INTERNALS)]
    assert len(guides) >= 32, {words: hits[words] for words in SEARCHES if words not in guides}
    assert all(hits[name].startswith("api/") for name in NAMES), hits
    assert {words: hits[words].partition("#")[0] for words in QUESTIONS} == QUESTIONS
