"""The name that a user gives to a model, under which its predictions are stored."""

from __future__ import annotations

from StaICC.errors import ArgumentError
from StaICC.inference.identity import Identity

# -- the name in a store

IDENTITY = "identity/1:"
"""Prefix of the names in a store."""

_NAMED_BY = ("model", "kernel", "class", "function")
_MOST_REASONS = 3


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
    shown = next((identity.who[name] for name in _NAMED_BY if name in identity.who), "")
    if not identity.complete:
        reasons = "; ".join(identity.unidentified[:_MOST_REASONS]) or "it is a plain function"
        more = f" (and {n} more)" if (n := len(identity.unidentified) - _MOST_REASONS) > 0 else ""
        raise ArgumentError(
            f"store: the inference function {shown!r} has no complete identity, and no model_name was given: {reasons}"
            f"{more}. Name it (model_name= or --model-name), and change the name whenever its predictions may change"
        )
    return f"{IDENTITY}{identity.digest} {shown}".strip()
