"""Identity: everything that determines the predictions of an inference function.

An :class:`Identity` has two parts. ``who`` says which model predicts: weights, tokenizer, adapters, number type,
device, code, versions. ``settings`` says how its scores are computed: label scoring, normalisation, truncation, prompt
format. Predictions are cached under both. The settings also go into a result's signature, ``who`` into its provenance.

A function that cannot be identified completely runs, and :attr:`Identity.unidentified` says why. A prediction store
then requires a ``model_name``.
"""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from StaICC.inference.code_identity import (
    REBOUND,
    class_facts,
    facts_of,
    in_library,
    is_constant,
    own_of_partial,
    replaced_methods,
    stored_attributes,
)
from StaICC.inference.contract import own_attribute
from StaICC.registry import origin_of


@dataclass(frozen=True)
class Identity:
    """What determines the predictions of an inference function.

    Args:
        who: Readable facts about the model by name: ``weights``, ``tokenizer``, ``dtype``, ``device``, ``code``, ...
        settings: How scores are computed, by option name, such as ``label_scoring``.
        unidentified: Reasons why the identity is incomplete; empty if it is complete.
    """

    who: Mapping[str, str]
    settings: Mapping[str, str] = field(default_factory=dict)
    unidentified: tuple[str, ...] = ()

    @property
    def digest(self) -> str:
        """SHA-256 over ``who`` and ``settings``, as 64 hexadecimal digits."""
        text = json.dumps([dict(self.who), dict(self.settings)], sort_keys=True, ensure_ascii=False)
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()

    def differences(self, other: Identity) -> dict[str, tuple[str | None, str | None]]:
        """Return the entries in which two identities differ, each with both values (``None`` where absent)."""
        found = {}
        for mine, theirs in ((self.who, other.who), (self.settings, other.settings)):
            for name in sorted({*mine, *theirs}):
                if mine.get(name) != theirs.get(name):
                    found[name] = (mine.get(name), theirs.get(name))
        return found


def identity_of(function: Any) -> Identity:
    """Compute the identity of an inference function as it is now.

    For an object whose class defines ``identity() -> Identity``, that is used; it computes the identity as the object
    is now. What a subclass adds to such a class is added: its code and its own attributes (those that the base class
    sets as well are covered by its ``identity()``, with the class attribute ``identifies_state = True`` all of them).
    A :func:`functools.partial` of a function with an attribute ``identity_for`` is identified by
    ``function.identity_for(**keywords)``. Every other function or object is identified by its code and by the values
    that it refers to (see :mod:`StaICC.inference.code_identity`), objects with an identity among them.

    Args:
        function: The inference function.

    Returns:
        The identity. :attr:`Identity.unidentified` is empty if nothing was left out.
    """
    stated_by = _StatedIdentities()
    stated = stated_by.identity(function)
    if stated is not None:
        origin = origin_of(function)  # what a plug-in states need not name its version
        return replace(stated, who={**stated.who, "distribution": origin}) if origin else stated
    facts = facts_of(function, stated_by)
    return Identity(facts.known, {}, tuple(facts.reasons))


def code_mark(value: Any) -> str:
    """Return 12 digits of the digest of code, as signatures have it, with ``-unidentified`` where it is incomplete.

    Args:
        value: A function, or an object of a class of the user's own.
    """
    identity = identity_of(value)
    return f"{identity.digest[:12]}{'-unidentified' if identity.unidentified else ''}"


def combined(base: Identity, name: str, added: Identity) -> Identity:
    """Return the identity of something that builds on another, such as a kernel with a trained calibration.

    Args:
        base: The identity of what it builds on.
        name: What is added; its facts and settings get this in front of their names.
        added: The identity of what is added.
    """
    return Identity(
        {**base.who, **{f"{name} {key}": value for key, value in added.who.items()}},
        {**base.settings, **{f"{name} {key}": value for key, value in added.settings.items()}},
        (*base.unidentified, *(f"{name}: {reason}" for reason in added.unidentified)),
    )


def lasting(reason: str) -> str | None:
    """Return what is compared of a reason in :attr:`Identity.unidentified`; ``None`` for what may come by running."""
    return None if reason.endswith(REBOUND) else reason.partition(" (and ")[0]


class _StatedIdentities:
    """Calls ``identity()`` of objects, once each."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[object, Identity | None]] = {}

    def __call__(self, value: object) -> tuple[str, tuple[str, ...]] | None:
        stated = self.identity(value)
        return None if stated is None else (stated.digest, stated.unidentified)

    def identity(self, value: Any) -> Identity | None:
        """Return the identity that an object states; ``None`` if it states none."""
        if id(value) not in self._known:
            self._known[id(value)] = value, None  # during the call, for objects that refer to themselves
            self._known[id(value)] = value, self._stated(value)
        return self._known[id(value)][1]

    def _stated(self, value: Any) -> Identity | None:
        if isinstance(value, functools.partial):
            identity_for = own_attribute(value.func, "identity_for")
            plain = not value.args and not own_of_partial(value)
            stated = identity_for(**value.keywords) if callable(identity_for) and plain else None
            return stated if isinstance(stated, Identity) else None
        owner = next((base for base in type(value).__mro__ if "identity" in vars(base)), None)
        if owner is None or isinstance(value, type):
            return None
        stated = value.identity()
        if not isinstance(stated, Identity):
            return None
        replaced = tuple(
            f"attribute {name!r} replaces a method of {type(value).__qualname__}" for name in replaced_methods(value)
        )
        added = [base for base in type(value).__mro__ if base not in owner.__mro__ and not in_library(base)]
        if not added:
            return Identity(stated.who, stated.settings, stated.unidentified + replaced)
        covered = stored_attributes(owner.__mro__)
        if getattr(owner, "identifies_state", False):
            covered |= {name for name, content in vars(value).items() if not is_constant(content)}
        facts = class_facts(value, added, covered, self)
        reasons = dict.fromkeys((*stated.unidentified, *replaced, *facts.reasons))
        return Identity({**stated.who, **facts.known}, stated.settings, tuple(reasons))
