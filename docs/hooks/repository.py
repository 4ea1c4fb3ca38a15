"""What is written for a code host, made to work on the site: links to source files, formulas, drawings.

Pages link to files of the repository (``../StaICC/metrics/released.py``). On the site, a module's link leads to its API
page, an example's to the page that shows it, and a link to any other file becomes its text.
"""

from __future__ import annotations

import html
import posixpath
import re
from pathlib import Path
from xml.etree.ElementTree import Element, fromstring

from latex2mathml.converter import convert
from markdown import Markdown
from markdown.extensions import Extension
from markdown.treeprocessors import Treeprocessor
from mkdocs.plugins import get_plugin_logger

__all__ = ["TOP", "RepositoryLinks", "draw", "enlarge", "formulas"]

ROOT = Path(__file__).parents[2]
log = get_plugin_logger("repository")

TOP = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "examples/leaderboard/README.md": "examples/leaderboard.md",
    "examples/leaderboard/submissions/three-models/README.md": "examples/three_models.md",
}
"""Files outside of the docs folder that are pages of the site."""
FORMULA = re.compile(
    r'<(?P<tag>span|div) class="arithmatex">\\(?P<kind>[(\[])(?P<latex>.*?)\\[)\]]</(?P=tag)>', flags=re.DOTALL
)
PICTURE = re.compile(r'<img alt="[^"]*" src="(?P<path>[^":]+\.webp)"\s*/?>')
DRAWING = re.compile(r'<img alt="(?P<alt>[^"]*)" src="(?P<path>[^":]+\.svg)"\s*/?>')
PARTS = {"mfrac": 2, "mroot": 2, "msub": 2, "msup": 2, "munder": 2, "mover": 2, "msubsup": 3, "munderover": 3}
"""How many parts an element of MathML must have; the converter writes what it is given."""


class RepositoryLinks(Extension):
    """A Markdown extension; the site's hook tells it which page is read."""

    page = ""
    """Place of the page in the docs folder."""
    folder = "docs"
    """Folder of the repository that the page's links start from."""

    def extendMarkdown(self, md: Markdown) -> None:
        """Called by Markdown."""
        # After links are read (inline, 20), before MkDocs checks them (relpath, 0).
        md.treeprocessors.register(_Rewrite(md, self), "repository_links", 5)


class _Rewrite(Treeprocessor):
    def __init__(self, md: Markdown, owner: RepositoryLinks) -> None:
        super().__init__(md)
        self.owner = owner

    def run(self, root: Element) -> None:
        for element in root.iter("a"):
            address = element.get("href", "")
            if address and not re.match(r"[a-z]+:|#|/", address):
                self._rewrite(element, address)
        for element in root.iter("img"):  # the README's pictures are in docs/
            path = posixpath.normpath(posixpath.join(self.owner.folder, element.get("src", "")))
            if path.startswith("docs/"):
                element.set("src", posixpath.relpath(path, posixpath.dirname(f"docs/{self.owner.page}")))

    def _rewrite(self, element: Element, address: str) -> None:
        path, mark, anchor = address.partition("#")
        target = posixpath.normpath(posixpath.join(self.owner.folder, path))
        page = target.removeprefix("docs/") if target.startswith("docs/") else TOP.get(target)
        if page is None and target.startswith("examples/") and target.endswith(".py"):
            page = target.removesuffix(".py") + ".md"
        if page is not None:
            element.set("href", posixpath.relpath(page, posixpath.dirname(self.owner.page) or ".") + mark + anchor)
            return
        if not (ROOT / target).exists():
            log.warning("%s links to %s, which is not in the repository", self.owner.page, target)
        element.attrib.clear()
        if target == "StaICC" or (target.startswith("StaICC/") and (ROOT / target).suffix in ("", ".py")):
            element.tag = "autoref"
            element.set("identifier", target.removesuffix(".py").removesuffix("/__init__").replace("/", "."))
        else:
            element.tag = "span"


def formulas(page: str, text: str) -> str:
    """Turn formulas, as Markdown left them, into MathML, which browsers draw by themselves."""

    def drawn(found: re.Match[str]) -> str:
        latex = html.unescape(found["latex"]).strip()
        try:
            formula = convert(latex, display="block" if found["kind"] == "[" else "inline")
        except Exception as error:  # whatever the converter ends with, the page and the formula must be named
            log.warning("%s: the formula %s cannot be read: %r", page, latex, error)
            return found[0]
        parts = [(one.tag.rpartition("}")[2], len(one)) for one in fromstring(formula).iter()]
        if "\\" in formula or any(PARTS.get(tag, count) != count for tag, count in parts):
            log.warning("%s: the formula %s is not whole, or has a command that is not known", page, latex)
        wide = ' class="formula"' if found["kind"] == "[" else ""
        return f"<{found['tag']}{wide}>{formula}</{found['tag']}>"

    return FORMULA.sub(drawn, text)


def draw(page: str, text: str) -> str:
    """Put drawings (SVG files of the docs folder) into the page, so that they follow its light or dark theme."""

    def drawn(found: re.Match[str]) -> str:
        path = (ROOT / "docs" / posixpath.dirname(page) / html.unescape(found["path"])).resolve()
        if not path.is_file():
            log.warning("%s shows %s, which is not there", page, found["path"])
            return found[0]
        drawing = re.sub(r"^<\?xml.*?\?>\s*", "", path.read_text(encoding="utf-8"))
        return drawing.replace("<svg ", f'<svg role="img" aria-label="{found["alt"]}" ', 1)

    return DRAWING.sub(drawn, text)


def enlarge(text: str) -> str:
    """Make each screenshot a link to its file, so that a click shows it in full size."""
    return PICTURE.sub(r'<a href="\g<path>" title="Show in full size">\g<0></a>', text)
