"""Names of 0.1.1 that are gone: they can be imported, but not used; the error has what to write instead.

Code that imports a module of 0.1.1 at the top of a file, and uses none of its names, keeps running.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from StaICC.errors import RemovedNameError
from StaICC.safe_text import one_line


class RemovedName:
    """A name of 0.1.1 that is gone. It can be imported, passed around and printed; every other use raises.

    Args:
        name: The full name, such as ``"StaICC.util.functional.linspace"``.
        instead: What to write instead.

    Example:
        >>> RemovedName("StaICC.util.functional.linspace", "[i / 4 for i in range(5)]")
        <StaICC.util.functional.linspace of StaICC 0.1.1, which is gone; write [i / 4 for i in range(5)]>
    """

    def __init__(self, name: str, instead: str) -> None:
        self._name = name
        self._instead = instead

    def refuse(self, *_: Any, **__: Any) -> NoReturn:
        """Raise the error that names what to write instead.

        Raises:
            RemovedNameError: Always.
        """
        raise RemovedNameError(
            f"{self._name} of StaICC 0.1.1 is gone. Write: {self._instead} (see 'Removed names' in docs/migration.md)"
        )

    __call__ = __getitem__ = __setitem__ = __contains__ = __iter__ = __len__ = refuse
    __bool__ = __eq__ = __ne__ = refuse  # such as: if configs.STRICT_MODE == True
    __instancecheck__ = __subclasscheck__ = __mro_entries__ = refuse
    __hash__ = object.__hash__

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):  # doctest and inspect look for such attributes in every object of a module
            raise AttributeError(name)
        self.refuse()

    def __repr__(self) -> str:
        return one_line(f"<{self._name} of StaICC 0.1.1, which is gone; write {self._instead}>")


def removed_names(module: str, instead: Mapping[str, str]) -> Callable[[str], RemovedName]:
    """Return the ``__getattr__`` of a module, for its names of 0.1.1 that are gone.

    Args:
        module: The module.
        instead: For each name, what to write instead.

    Returns:
        A function that returns a :class:`RemovedName` for these names, and raises AttributeError for others.
    """

    def find(name: str) -> RemovedName:
        if name not in instead:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        return RemovedName(f"{module}.{name}", instead[name])

    return find
