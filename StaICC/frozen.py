"""Objects that refuse an assignment which nothing would read."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from types import MemberDescriptorType
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

from StaICC.habits import missing_attribute, raise_hidden_error

if TYPE_CHECKING:
    from typing_extensions import Self


_CHANGING = ("set_", "change_", "add_", "use_", "re_initialize")
"""What the names of methods begin with that change an object."""


class FixedAttributes:
    """Base of objects without attributes that nothing reads.

    A public slot is assigned once, when the object is made; properties decide for themselves. There are no further
    attributes, except in a class of the user's own that is derived without ``__slots__``.
    """

    __slots__ = ()
    _assignable: ClassVar[tuple[str, ...]] = ()
    """The public slots that may be assigned at any time."""
    _advice: ClassVar[Mapping[str, str]] = {}
    """For attributes that users look for in vain, what to write instead (:mod:`StaICC.habits`)."""

    if not TYPE_CHECKING:  # a type checker would believe that there are all attributes

        def __getattr__(self, name: str) -> NoReturn:
            raise_hidden_error(self, name)
            raise missing_attribute(self, name, type(self)._advice.get(name))

    def copy_with(self, **attributes: Any) -> Self:
        """Return a copy with other values of some attributes."""
        changed_copy = copy.copy(self)
        for name, value in attributes.items():
            object.__setattr__(changed_copy, name, value)
        return changed_copy

    def __setattr__(self, name: str, value: Any) -> None:
        """Assign an attribute, or refuse an assignment that would have no effect.

        Raises:
            AttributeError: The attribute is fixed, or does not exist. The message has the methods that change objects.
        """
        if self._may_be_assigned(name):
            try:
                super().__setattr__(name, value)
                return
            except AttributeError:  # of a property without a setter, for instance: the message below says more
                pass
        attribute = f"{type(self).__name__}.{name}"
        raise AttributeError(f"{attribute} cannot be assigned: it would have no effect. Use one of: {self._remedies()}")

    def _may_be_assigned(self, name: str) -> bool:
        """Return whether an attribute may be assigned now."""
        attribute_of_class = getattr(type(self), name, None)
        if isinstance(attribute_of_class, MemberDescriptorType):  # a slot
            is_private = name.startswith("_")
            return is_private or name in self._assignable or not hasattr(self, name)
        if hasattr(attribute_of_class, "__set__"):  # a property
            return True
        # Any attribute of a class of the user's own.
        return not type(self).__module__.startswith("StaICC.")

    def _remedies(self) -> str:
        """Return the methods that change an object of this class; ``"a new object"`` without any."""
        methods = [f"{name}()" for name in dir(self) if name.startswith(_CHANGING)]
        if not methods:
            return "a new object"
        return ", ".join(methods)


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
