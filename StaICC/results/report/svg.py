"""Figures as inline SVG with selectable text, names for screen readers, and colours of the page's theme.

Matplotlib writes an SVG document; the page needs an element. The document is parsed and written again without metadata
and namespaces, with identifiers that are unique on the page, with CSS variables as colours, and with a role, a name and
a description. Text from data appears in text nodes only.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING
from xml.etree import ElementTree

from StaICC.results.report.drawing import FONT, ROLES, printable, settings
from StaICC.results.report.html import Markup, escape

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["inline_svg"]

_COLOURS = {colour: f"var(--{role})" for role, colour in ROLES.items()}
_COLOUR = re.compile("|".join(_COLOURS))
_POINTER = re.compile(r"url\(#([^)]+)\)")
_FONTS = f"'{FONT}', Verdana, sans-serif"
_NUMBER = re.compile(r"-?\d+\.\d{3,}")
_DROPPED = ("metadata", "style", "title")
_GEOMETRY = ("d", "points", "transform", "x", "y", "width", "height", "cx", "cy", "r")


def inline_svg(figure: Figure, key: str, title: str, description: str) -> Markup:
    """Return a figure as an SVG element.

    Args:
        figure: The figure.
        key: Prefix of its identifiers; unique on the page.
        title: Its name.
        description: Its description for screen readers.

    Returns:
        The element.
    """
    buffer = io.BytesIO()
    with settings():
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    root = ElementTree.fromstring(buffer.getvalue())
    for name in ("width", "height", "version"):
        root.attrib.pop(name, None)
    widest = figure.get_figwidth() * 1.35
    attributes = {
        "viewBox": root.attrib.pop("viewBox"),
        "role": "img",
        "aria-labelledby": f"{key}-title {key}-text",
        # Below the minimum width the text would be too small to read, so the figure scrolls.
        "style": f"max-width: {widest:.1f}in; min-width: min({widest:.1f}in, 48rem)",
    }
    pointed = _pointed(root)
    inner = [
        f'<title id="{key}-title">{escape(title)}</title><desc id="{key}-text">{escape(description)}</desc>',
        *(piece for child in root for piece in _write(child, key, pointed)),
    ]
    written = "".join(f' {name}="{escape(value)}"' for name, value in attributes.items())
    return Markup(f"<svg{written}>{''.join(inner)}</svg>")


def _pointed(root: ElementTree.Element) -> frozenset[str]:
    """Return the identifiers that are referenced; the others are removed."""
    found: set[str] = set()
    for element in root.iter():
        for name, value in element.attrib.items():
            if name.endswith("href"):
                found.add(value.removeprefix("#"))
            found.update(_POINTER.findall(value))
    return frozenset(found)


def _write(element: ElementTree.Element, key: str, pointed: frozenset[str]) -> Iterator[str]:
    name = element.tag.rpartition("}")[2]
    if name in _DROPPED:
        return
    attributes = "".join(_attribute(name, value, key, pointed) for name, value in element.attrib.items())
    yield f"<{name}{attributes}>"
    if name == "text":
        yield escape(printable(element.text or ""))
    for child in element:
        yield from _write(child, key, pointed)
    yield f"</{name}>"


def _attribute(name: str, value: str, key: str, pointed: frozenset[str]) -> str:
    name = name.rpartition("}")[2]
    if name == "id":
        if value not in pointed:
            return ""
        value = f"{key}-{value}"
    elif name == "href":
        value = f"#{key}-{value.removeprefix('#')}"
    else:
        value = _POINTER.sub(rf"url(#{key}-\1)", value)
        value = value.replace(f"'{FONT}'", _FONTS)
        value = _COLOUR.sub(lambda found: _COLOURS[found[0]], value)
        if name in _GEOMETRY:
            value = " ".join(_NUMBER.sub(lambda found: f"{float(found[0]):.2f}", value).split())
    return f' {name}="{escape(value)}"'
