"""The name that a user gives to a model, under which its predictions are stored."""

from __future__ import annotations

from StaICC.argument_syntax import argument
from StaICC.errors import ArgumentError
from StaICC.inference.identity import Identity

IDENTITY = "identity/1:"
"""Prefix of the names in a store."""

_NAMING_FACTS = ("model", "kernel", "class", "function")
"""The facts of an identity that name the inference function; the first one that it has is used."""
_MOST_REASONS = 3
"""Reasons for an incomplete identity that a message lists."""


def check_model_name(name: object) -> None:
    """Refuse what is no name of a model.

    Raises:
        ArgumentError: It is neither ``None`` nor a non-empty text.
    """
    if name is not None and (not isinstance(name, str) or not name.strip()):
        raise ArgumentError(f"the name of a model must be a non-empty text, not {name!r}")


def name_in_store(identity: Identity, model_name: str | None = None) -> str:
    """Return the text under which a store keeps the predictions of an inference function.

    It begins with ``identity/1:`` and the digest of the identity. A readable name follows.

    Args:
        identity: The identity.
        model_name: The name that the user gives it, in addition.

    Raises:
        ArgumentError: The identity is incomplete and no name was given.
    """
    check_model_name(model_name)
    if model_name is not None:
        return f"{IDENTITY}{identity.digest} name:{model_name}"
    readable_name = _readable_name(identity)
    if not identity.complete:
        raise ArgumentError(
            f"store: the inference function {readable_name!r} has no complete identity, and no model_name was given: "
            f"{_why_incomplete(identity)}. Name it ({argument('model_name', 'NAME')}), and change the name whenever "
            "its predictions may change"
        )
    return f"{IDENTITY}{identity.digest} {readable_name}".strip()


def _readable_name(identity: Identity) -> str:
    """Return the name of the model, kernel, class or function of an identity; empty if it has none."""
    for fact in _NAMING_FACTS:
        if fact in identity.who:
            return identity.who[fact]
    return ""


def _why_incomplete(identity: Identity) -> str:
    """Return why an identity is incomplete; of many reasons the first ones and the number of the others."""
    if not identity.unidentified:
        return "it is a plain function"
    reasons = "; ".join(identity.unidentified[:_MOST_REASONS])
    further_reasons = len(identity.unidentified) - _MOST_REASONS
    if further_reasons > 0:
        return f"{reasons} (and {further_reasons} more)"
    return reasons
