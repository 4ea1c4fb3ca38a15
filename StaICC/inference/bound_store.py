"""A prediction store as the runner needs it: bound to one inference function, keyed by queries.

A store may hold the predictions of many models. They are kept under the *identity* of the inference function
(:mod:`StaICC.inference.identity`) and the name that its user gives it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from StaICC.errors import OutputError
from StaICC.inference.contract import Answer, check_answer
from StaICC.inference.edition import Served, pin_for_run
from StaICC.inference.store import PredictionStore
from StaICC.inference.store_format import query_key
from StaICC.prompting import Prompt

_Key = tuple[Prompt, tuple[str, ...]]


class BoundStore:
    """One inference function's predictions in a store.

    Args:
        store: The store.
        name: See :func:`~StaICC.inference.store_names.name_in_store`.

    Attributes:
        written: The keys of the predictions that were stored through this object.
    """

    def __init__(self, store: PredictionStore, name: str) -> None:
        self.written: set[bytes] = set()
        self._store = store
        self._name = name

    def get_many(self, queries: Sequence[_Key]) -> dict[_Key, Answer]:
        """Return the cached predictions."""
        keys = {query_key(prompt, labels): (prompt, labels) for prompt, labels in queries}
        return self._checked(keys, self._store.get_many(self._name, list(keys)))

    def put_many(self, answers: Iterable[tuple[_Key, Answer]]) -> dict[_Key, Answer]:
        """Store predictions; they are on the disk when this returns.

        Returns:
            Predictions that another process stored earlier and that differ. They stay in the store, and the run uses
            them, so that its result equals that of the next run.
        """
        given = {query_key(prompt, labels): ((prompt, labels), answer) for (prompt, labels), answer in answers}
        self.written.update(given)  # before: an interruption may come right after they are on the disk
        kept = self._store.put_many(self._name, [(digest, answer) for digest, (_, answer) in given.items()])
        self.written.difference_update(kept)
        return self._checked({digest: query for digest, (query, _) in given.items()}, kept)

    def pin_edition(self, function: Served) -> None:
        """Pin the edition of a served model, unless the store has predictions of another one.

        Raises:
            EditionError: The store has predictions of another edition.
        """
        pin_for_run(function, self._store, self._name)

    def quarantine(self) -> int:
        """Quarantine the predictions that were written through this object.

        Returns:
            Their number.
        """
        return self._store.quarantine(self._name, sorted(self.written)) if self.written else 0

    def _checked(self, queries: Mapping[bytes, _Key], found: Mapping[bytes, Answer]) -> dict[_Key, Answer]:
        checked: dict[_Key, Answer] = {}
        for digest, answer in found.items():
            query = queries[digest]
            try:
                checked[query] = check_answer(answer, query[1], free_text=True)
            except OutputError as error:
                raise OutputError(f"a cached prediction does not fit its query: {error}") from error
        return checked
