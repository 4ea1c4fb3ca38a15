"""The documentation site: it builds without a warning, holds every page and public name, and asks no other host."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from types import ModuleType
from typing import ClassVar

import pytest

import StaICC
from StaICC.benchmarks.long_icl import cards as long_icl_cards
from StaICC.datasets import get_card, load_dataset, names

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
WRITTEN = sorted(path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md"))
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
            return ast.literal_eval(node.value)
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


def hook(name: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A module of docs/hooks, as MkDocs loads it."""
    monkeypatch.syspath_prepend(str(DOCS / "hooks"))
    return importlib.import_module(name)


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


@pytest.mark.slow
def test_every_page_is_in_the_navigation(built: dict[str, Page]) -> None:
    """``omitted_files`` warns of it too; this also holds the generated pages."""
    pages = {name for name in built if name != "404.html"}
    assert {Path(name).with_suffix(".html").as_posix() for name in WRITTEN} <= pages
    assert {f"data_sets/{name}.html" for name in (*names(), "mini")} <= pages
    assert {f"data_sets/long_icl_{name}.html" for name in long_icl_cards()} <= pages
    assert {"changelog.html", "contributing.html"} <= pages
    nav = (ROOT / "mkdocs.yml").read_text("utf-8").split("\ntheme:")[0]
    assert [name for name in WRITTEN if name not in nav] == []


@pytest.mark.slow
def test_data_set_pages_say_what_the_cards_say(built: dict[str, Page]) -> None:
    for name in names():
        card, page = get_card(name), built[f"data_sets/{name}.html"]
        said = " ".join(page.text.split())
        numbers = (f"{card.rows:,}", f"{card.split.demonstration:,}")
        for fact in (card.task, card.licence, card.source, card.notes, *numbers):
            assert " ".join(fact.split()) in said, (name, fact)
        for label in (*card.label_space, *card.full_label_space):
            assert label in said, (name, label)
        assert card.citation.strip() in page.text, name
        assert ("Offensive language" in said) == card.offensive
        assert "frozen tables were not installed" in said  # the fixture hides them
    assert "right for 37.5 % of them" in built["data_sets/mini.html"].text
    for name, task in long_icl_cards().items():
        page = built[f"data_sets/long_icl_{name}.html"]
        for fact in (task.licence, task.terms, task.obtain, task.citation, *task.labels):
            assert fact in page.text, (name, fact)
        assert ("Offensive language" in page.text) == task.offensive


@pytest.mark.slow
def test_formulas_are_mathml_and_code_is_left_alone(built: dict[str, Page]) -> None:
    metrics = built["metrics.html"]
    assert metrics.source.count("<math") >= 20
    assert not any("arithmatex" in page.source for page in built.values())
    assert not any(re.search(r"<m[ion]>\\", page.source) for page in built.values())
    shell = 'eval "$(register-python-argcomplete staicc)"'
    assert shell in built["reports.html"].text


@pytest.mark.slow
def test_links_to_source_lead_to_the_api(built: dict[str, Page]) -> None:
    assert 'href="api/StaICC.metrics.classification.html#StaICC.metrics.classification"' in built["metrics.html"].source
    assert 'href="examples/adding_a_method.html"' in built["adding_a_method.html"].source
    assert not any(re.search(r'href="[^":]*\.(py|md)["#]', page.source) for page in built.values())


@pytest.mark.slow
def test_docstrings_are_shown_as_meant(built: dict[str, Page]) -> None:
    sections = 0
    for name, page in built.items():
        if name.startswith("api/"):
            assert not re.search(r":(func|class|meth|data|mod|attr|math):", page.text), name
            assert "<autoref" not in page.source, name
            returned = re.findall(r">Returns:</span>.*?</ul>", page.source, flags=re.DOTALL)
            assert [section for section in returned if section.count("doc-section-item") != 1] == [], name
            sections += len(returned)
            assert not re.search(r"<p>\s*&gt;&gt;&gt;|<blockquote>", page.source), name  # a session outside of code
    assert sections > 100


def test_every_page_can_be_reached() -> None:
    """By links, from the README."""
    reached: set[Path] = set()
    waiting = [ROOT / "README.md"]
    while waiting:
        page = waiting.pop()
        if page in reached or not page.is_file():
            continue
        reached.add(page)
        for target in re.findall(r"\]\((?!\w+:)([^)#\s]+\.md)[^)]*\)", page.read_text("utf-8")):
            waiting.append((page.parent / target).resolve())
    assert [name for name in WRITTEN if DOCS / name not in reached] == []


@pytest.mark.pack
def test_label_counts_are_those_of_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    pages = hook("data_set_pages", monkeypatch)
    card = get_card("TREC")
    balance = pages.balance_of("TREC")
    assert sum(balance.table) == card.rows
    assert sum(balance.test) == card.split.test
    rows = [row.label for row in load_dataset("TREC").table]
    assert balance.table[0] == rows.count(0)
    page = pages.data_set_page(card, balance)
    assert f"{rows.count(0):,} ({100 * rows.count(0) / len(rows):.1f} %)" in page
