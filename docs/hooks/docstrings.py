"""Docstrings as Markdown: cross-references and examples, which are written as Sphinx reads them.

``:func:`load_dataset``` becomes a link to what the name means in that place, an ``Example:`` section the ``Examples:``
that mkdocstrings shows as a session, and a session outside of such a section a block of code. Definitions (a
short line, and indented ones below it) get the marks that Markdown wants.
"""

from __future__ import annotations

import re
from typing import Any

import griffe

__all__ = ["SphinxRoles"]

ROLE = re.compile(r":(?:func|class|meth|data|mod|attr):`(?P<short>~)?(?P<target>[\w.]+)`")
MATH = re.compile(r":math:`([^`]+)`")
EXAMPLE = re.compile(r"^Example:$", re.MULTILINE)
SESSION = re.compile(r"^>>> .*(?:\n.+)*", re.MULTILINE)
"""At the margin: the text of a section is indented."""
ITEMS = re.compile(r"^(?:Args|Attributes|Raises):\n(?:(?: {4}.*)?\n?)+", re.MULTILINE)
RUN_ON = re.compile(r"^ {4}(?![\w*]+(?: \(.*\))?:|[ ])(?=\S)", re.MULTILINE)
"""A line of such a section where an item could begin: it continues the item above."""
DEFINED = re.compile(r"^(?P<term>(?![-*] |\d+\. |>>>)\S.{0,60}[^:\n])\n(?P<body>(?: {4}.*(?:\n|\Z))+)", re.MULTILINE)


def _definition(found: re.Match[str]) -> str:
    return f"\n{found['term']}\n\n:{found['body'][1:].rstrip()}\n\n"


class SphinxRoles(griffe.Extension):
    """Rewrites every docstring of a package once it is loaded."""

    def on_package(self, *, pkg: griffe.Module, loader: griffe.GriffeLoader, **kwargs: Any) -> None:
        """Called by griffe when the whole package is there, so that every name can be found."""
        self._rewrite(pkg)

    def _rewrite(self, one: griffe.Object) -> None:
        if one.docstring is not None:
            text = EXAMPLE.sub("Examples:", one.docstring.value)
            text = SESSION.sub(lambda found: f"```pycon\n{found[0]}\n```", text)
            text = DEFINED.sub(_definition, text)
            text = ITEMS.sub(lambda found: RUN_ON.sub(" " * 8, found[0]), text)
            text = MATH.sub(r"$\1$", text)
            one.docstring.value = ROLE.sub(lambda found: self._link(one, found), text)
        for member in one.members.values():
            if isinstance(member, griffe.Object):
                self._rewrite(member)

    def _link(self, one: griffe.Object, found: re.Match[str]) -> str:
        target = found["target"]
        title = target.rpartition(".")[2] if found["short"] else target
        meant = _find(one, target)
        if meant is None or not _documented(meant):
            return f"`{title}`"
        return f"[`{title}`][{meant.canonical_path}]"


def _documented(one: griffe.Object) -> bool:
    """Whether it is on a page: it and all around it are public, and it has a docstring."""
    if one.docstring is None or one.name.startswith("_"):
        return False
    return one.parent is None or one.parent.is_module or _documented(one.parent)


def _find(one: griffe.Object, target: str) -> griffe.Object | None:
    """What a dotted name means in the place of a docstring; None where it means nothing that is known."""
    first, _, rest = target.partition(".")
    try:
        if first == one.package.name:
            found = one.package if not rest else one.package[rest]
        else:
            path = one.resolve(first)
            found = one.package[path.removeprefix(f"{one.package.name}.")]
            found = found[rest] if rest else found
        return found.final_target if isinstance(found, griffe.Alias) else found
    except (KeyError, griffe.GriffeError):
        return None
