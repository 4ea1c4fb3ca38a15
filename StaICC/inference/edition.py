"""Editions of served models: a name that a server may move to another model between two requests.

The identity of an inference function that sends requests to a server holds the address and the requested model, but not
the edition that the server has behind that name: it is known only once the server has responded, and it may change.
Such a function is :class:`Served`. Before a run computes anything it pins the edition, compares it with the editions
that made the stored predictions, and records it in the store (:func:`pin_for_run`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

from StaICC.errors import EditionError
from StaICC.inference.contract import Interface

if TYPE_CHECKING:
    from StaICC.inference.store import PredictionStore

UNNAMED = "an edition without a name"
CHANGING = "editions that were allowed to change during a run"


@runtime_checkable
class Served(Interface, Protocol):
    """An inference function whose model is served, under a name that may move to another edition."""

    @property
    def allow_edition_change(self) -> bool:
        """Whether predictions of several editions may be in one run or store."""

    def pin_edition(self) -> str | None:
        """Ask the server which edition it serves now; until the next call, responses of another one are errors.

        Workers to which the function is sent afterwards hold their responses to the same edition.

        Returns:
            The edition; ``None`` if the server does not name one.
        """

    @property
    def editions(self) -> tuple[str, ...]:
        """The editions seen in this process since the last :meth:`pin_edition`, in order; for the provenance."""


@runtime_checkable
class UsesServed(Interface, Protocol):
    """An inference function that calls another one, which may be served."""

    def served(self) -> Served | None:
        """Return the served function, if there is one."""


def served_function(function: object) -> Served | None:
    """Return the served function behind an inference function; ``None`` if there is none."""
    if isinstance(function, UsesServed):
        return function.served()
    return function if isinstance(function, Served) else None


def pin_for_run(function: Served, store: PredictionStore, fingerprint: str) -> str | None:
    """Pin the edition of a run; to be called before the first prediction is computed, not if all are stored.

    Args:
        function: The inference function.
        store: The store of the run's predictions.
        fingerprint: The text under which it keeps the predictions of this function.

    Returns:
        The edition; ``None`` if the server does not name one.

    Raises:
        EditionError: The store has predictions of another edition, and the function does not allow that.
        OutputError: The server failed.
    """
    edition, allowed = function.pin_edition(), function.allow_edition_change
    served = edition or UNNAMED
    others = store.add_edition(fingerprint, served, allowed)
    if others and not allowed:
        raise EditionError(
            f"the served edition changed: the store has predictions of {', '.join(others)}, the server now serves "
            f"{served}. Use a new store, or accept predictions of several editions with allow_edition_change=True"
        )
    if allowed:
        store.add_edition(fingerprint, CHANGING, allowed)
    return edition
