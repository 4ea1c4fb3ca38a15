"""The documentation site: it builds without a warning, holds every page and public name, and asks no other host."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import ClassVar

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
