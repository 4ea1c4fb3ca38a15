"""Objects that refuse an assignment which nothing would read."""

from __future__ import annotations

import copy
from types import MemberDescriptorType
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

if TYPE_CHECKING:
    from typing_extensions import Self


class FixedAttributes:
    """Base of objects without attributes that nothing reads.

    A public slot is assigned once, when the object is made; properties decide for themselves. There are no further
    attributes, except in a class of the user's own that is derived without ``__slots__``.
    """

    __slots__ = ()
    _assignable: ClassVar[tuple[str, ...]] = ()
    """The public slots that may be assigned at any time."""

    def copy_with(self, **attributes: Any) -> Self:
        """Return a copy with other values of some attributes."""
        twin = copy.copy(self)
        for name, value in attributes.items():
            object.__setattr__(twin, name, value)
        return twin

    def __setattr__(self, name: str, value: Any) -> None:
        known = getattr(type(self), name, None)
        if isinstance(known, MemberDescriptorType):
            may_change = name.startswith("_") or name in self._assignable or not hasattr(self, name)
        else:
            may_change = hasattr(known, "__set__") or not type(self).__module__.startswith("StaICC.")
        if may_change:
            try:
                super().__setattr__(name, value)
                return
            except AttributeError:
                pass
        changing = ("set_", "change_", "add_", "use_", "re_initialize")
        methods = ", ".join(f"{method}()" for method in dir(self) if method.startswith(changing)) or "a new object"
        attribute = f"{type(self).__name__}.{name}"
        raise AttributeError(f"{attribute} cannot be assigned: it would have no effect. Use one of: {methods}")


class FrozenList(list[Any]):
    """A list that cannot be changed, because it is a copy of what an object holds. Copies of it can be changed."""

    __slots__ = ()

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        """Raise a TypeError."""
        raise TypeError(
            "this list is a copy, so changing it would have no effect. Change list(...) of it, and assign or pass that"
        )

    append = extend = insert = pop = remove = clear = sort = reverse = _refuse
    __setitem__ = __delitem__ = __iadd__ = __imul__ = _refuse

    def __reduce__(self) -> tuple[type[list[Any]], tuple[list[Any]]]:
        return list, (list(self),)
