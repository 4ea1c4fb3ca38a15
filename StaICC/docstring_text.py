"""Docstrings as plain text, for listings or schemas: without the markup of references."""

from __future__ import annotations

import re

_REFERENCE = re.compile(r":\w+:`~?(?:\w+\.)*(\w+)`")
"""A reference in a docstring, such as ``:func:`StaICC.written_prompts```; its group is the last part of the name."""


def without_references(docstring: str) -> str:
    """Return a docstring in which references are the names of what they refer to.

    Args:
        docstring: A docstring, or a part of it.

    Example:
        >>> without_references("A name of :data:`~StaICC.kernels.huggingface.label_rules.LABEL_RULES`.")
        'A name of LABEL_RULES.'
    """
    return _REFERENCE.sub(r"\1", docstring)
