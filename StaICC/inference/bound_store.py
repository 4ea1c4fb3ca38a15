"""A prediction store as the runner needs it: bound to one model, keyed by queries.

A store may hold the answers of many models, so every model needs a name that no other has: its *fingerprint*. Kernels
have one; a plain function does not, and two of them must never share answers, so its user names it.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence

from StaICC.errors import ArgumentError, OutputError
from StaICC.inference.contract import Answer, Inference, check_answer
from StaICC.inference.store import PredictionStore
from StaICC.inference.store_format import query_key
from StaICC.prompting import Prompt

__all__ = ["BoundStore", "fingerprint_of"]

_Key = tuple[Prompt, tuple[str, ...]]


def fingerprint_of(function: Inference, name: str | None = None) -> str:
    """Find what tells the answers of this inference function from all others'.

    Args:
        function: The inference function.
        name: A name that its user gives it; it wins.

    Returns:
        The fingerprint.

    Raises:
        ArgumentError: The function has none and no name was given.
    """
    if name is not None:
        if not isinstance(name, str) or not name.strip():
            raise ArgumentError(f"the name of a model must be a non-empty text, not {name!r}")
        return f"name:{name}"
    own = getattr(function, "fingerprint", None)
    if isinstance(own, str) and own:
        return own
    if isinstance(function, functools.partial):
        of_partial = getattr(function.func, "fingerprint_for", None)
        if callable(of_partial) and not function.args:
            return str(of_partial(**function.keywords))
    raise ArgumentError(
        f"{function!r} has no fingerprint, so a store cannot tell its answers from those of another model; name it "
        "(model_name='my-model-v1'), and change the name whenever its answers may change"
    )


class BoundStore:
    """One model's answers in a store.

    Args:
        store: The store.
        fingerprint: The model.
        free_text: Texts are answers as they stand.
    """

    def __init__(self, store: PredictionStore, fingerprint: str, free_text: bool = False) -> None:
        self._store = store
        self._fingerprint = fingerprint
        self._free_text = free_text

    def get_many(self, queries: Sequence[_Key]) -> dict[_Key, Answer]:
        """Return the answers that are there and fit their label space."""
        keys = {query_key(prompt, labels): (prompt, labels) for prompt, labels in queries}
        return self._checked(keys, self._store.get_many(self._fingerprint, list(keys)))

    def put_many(self, answers: Iterable[tuple[_Key, Answer]]) -> dict[_Key, Answer]:
        """Keep answers; they are on the disk when this returns.

        Returns:
            The answers that were there already and differ (another process was faster): they stay, and a result that
            equals the one of the next run uses them.
        """
        given = {query_key(prompt, labels): ((prompt, labels), answer) for (prompt, labels), answer in answers}
        kept = self._store.put_many(self._fingerprint, [(digest, answer) for digest, (_, answer) in given.items()])
        return self._checked({digest: query for digest, (query, _) in given.items()}, kept)

    def _checked(self, queries: Mapping[bytes, _Key], found: Mapping[bytes, Answer]) -> dict[_Key, Answer]:
        checked: dict[_Key, Answer] = {}
        for digest, answer in found.items():
            query = queries[digest]
            try:
                checked[query] = check_answer(answer, query[1], self._free_text)
            except OutputError as error:
                raise OutputError(f"an answer of the store does not fit its query: {error}") from error
        return checked
