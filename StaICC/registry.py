"""Registries: kernels, methods, data sets, benchmarks, metrics by name.

A name is one of three things: a built-in entry, an entry point of an installed package (a *plug-in*), or
``package.module:name``, an object that Python can import. Built-in entries are stored as text and imported when they
are used. Entry points are read only if a name is not built in, or for a listing. A plug-in never replaces a built-in
entry, and two plug-ins with one name are an error.

The distribution and version of code that is not StaICC's own (:func:`origin_of`) belong to signatures and identities.
"""

from __future__ import annotations

import functools
import importlib
import itertools
import sys
import unicodedata
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from StaICC.errors import ArgumentError, PluginError, StaICCError, UnknownNameError, unknown_name

if TYPE_CHECKING:
    from importlib.metadata import Distribution, EntryPoint

T = TypeVar("T")

GROUPS = ("staicc.kernels", "staicc.methods", "staicc.datasets", "staicc.benchmarks", "staicc.metrics")
"""The entry point groups that plug-ins use."""


class PluginWarning(UserWarning):
    """A plug-in uses the name of a built-in entry; the built-in entry is used."""


@dataclass(frozen=True, slots=True)
class Entry(Generic[T]):
    """An entry of a registry, imported."""

    name: str
    """The registered name, or ``package.module:name``."""
    value: T
    origin: str = ""
    """Distribution and version, such as ``"my-plugin 1.2"``; empty if built in, or if the code is not installed."""


@dataclass(frozen=True, slots=True)
class Listed:
    """An entry of a registry as a listing shows it, not imported."""

    name: str
    origin: str = ""
    problem: str = ""
    """Why the entry cannot be used, if so."""


def fold(name: str) -> str:
    """Reduce a name to what all its spellings share: case, blanks, hyphens, underscores and letter forms do not matter.

    Example:
        >>> fold("Tweet Eval-hate") == fold("tweet_eval_hate")
        True
    """
    return "".join(letter for letter in unicodedata.normalize("NFKC", name).casefold() if letter.isalnum())


def is_reference(name: str) -> bool:
    """Return whether a text has the form ``package.module:name``.

    Example:
        >>> is_reference("my_package.metrics:f2"), is_reference("hf:openai/gpt"), is_reference("ppm")
        (True, False, False)
    """
    module, colon, attribute = name.partition(":")
    return bool(colon) and all(part.isidentifier() for part in [*module.split("."), *attribute.split(".")])


def labelled(name: str, origin: str) -> str:
    """Return a name with its origin, as signatures have it.

    Example:
        >>> labelled("f2", "my-plugin 1.2"), labelled("accuracy", "")
        ('f2@my-plugin-1.2', 'accuracy')
    """
    return f"{name}@{origin.replace(' ', '-')}" if origin else name


def origin_of(value: Any) -> str:
    """Return the distribution and version that an object's code comes from.

    Args:
        value: A class, function, ``functools.partial`` or instance.

    Returns:
        Text such as ``"my-plugin 1.2"``. It is empty for StaICC itself, the standard library, and code that is in no
        installed distribution (scripts, notebooks).

    Example:
        >>> origin_of(origin_of), origin_of(len)
        ('', '')
    """
    if isinstance(value, functools.partial):
        parts = (value.func, *value.args, *value.keywords.values())
        return next((origin for part in parts if callable(part) and (origin := origin_of(part))), "")
    module = str(getattr(value, "__module__", None) or type(value).__module__)
    top = module.partition(".")[0]
    known = top in ("StaICC", "__main__") or top in sys.stdlib_module_names
    return "" if known else _origin_of_module(module, tuple(sys.path))


def _text(distribution: Distribution) -> str:
    return f"{distribution.metadata['Name']} {distribution.version}"


@functools.lru_cache(maxsize=256)
def _origin_of_module(module: str, path: tuple[str, ...]) -> str:
    names = list(itertools.accumulate(module.split("."), "{}.{}".format))
    # The outermost package that one distribution owns: the first that is no namespace package.
    root = next((name for name in names if getattr(sys.modules.get(name), "__file__", None)), names[0])
    points = [point for group in GROUPS for point in _entry_points(group, path)]
    near = [(len(point.module), _origin(point)) for point in points if f"{point.module}.".startswith(f"{root}.")]
    if near:
        return max(near)[1]
    file = getattr(sys.modules.get(module), "__file__", None) or ""
    if not {"site-packages", "dist-packages"} & set(file.replace("\\", "/").split("/")):
        return ""
    from importlib import metadata

    installed = sorted({*metadata.packages_distributions().get(module.partition(".")[0], ())})
    return ", ".join(_text(metadata.distribution(name)) for name in installed)


@functools.lru_cache(maxsize=64)
def _entry_points(group: str, path: tuple[str, ...]) -> tuple[EntryPoint, ...]:
    """Read the entry points of a group; the search path is part of the cache's key."""
    from importlib import metadata

    return tuple(sorted(metadata.entry_points(group=group), key=lambda point: (point.name, _origin(point))))


def _origin(point: EntryPoint) -> str:
    return "" if point.dist is None else _text(point.dist)


def import_reference(reference: str) -> Any:
    """Return the object that a reference names.

    Rooms that must not know each other are joined by such references, such as ``result.plot()`` and the figures.

    Args:
        reference: ``"package.module:name"``, not from a file: the module is imported.

    Example:
        >>> import_reference("math:pi") == __import__("math").pi
        True
    """
    module, _, attribute = reference.partition(":")
    return functools.reduce(getattr, attribute.split("."), importlib.import_module(module))


@dataclass(frozen=True, eq=False, repr=False)
class Registry(Mapping[str, T]):
    """Entries of one kind by name. As a mapping, it holds the built-in entries; :meth:`find` finds all."""

    kind: str
    """What the entries are, in the singular (``"data set"``), for messages."""
    group: str
    """The entry point group of plug-ins."""
    builtin: Mapping[str, str]
    """The built-in entries as ``"package.module:name"``."""
    read: Callable[[str, Any], T]
    """Checks an imported object under its name and returns the entry's value."""
    hint: str = ""
    """A sentence for the error of unknown names."""
    folded: Mapping[str, str] = field(default_factory=dict)
    """Further folded spellings of built-in names, with their names."""
    named: Callable[[T], str] | None = None
    """Returns the name that a value has itself, which must be that of its entry point."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "folded", {fold(name): name for name in self.builtin} | dict(self.folded))

    def __getitem__(self, name: str) -> T:
        """Return a built-in entry by its exact name."""
        return self.read(name, import_reference(self.builtin[name]))

    def __iter__(self) -> Iterator[str]:
        return iter(self.builtin)

    def __contains__(self, name: object) -> bool:
        return name in self.builtin  # not by importing the entry, as Mapping would

    def __len__(self) -> int:
        return len(self.builtin)

    def __repr__(self) -> str:
        return f"<Registry {self.group}: {', '.join(self.builtin)}>"

    def find(self, name: str, references: bool = True) -> Entry[T]:
        """Find and import an entry.

        Args:
            name: A built-in name or a plug-in's, in any spelling (see :func:`fold`), or ``package.module:name``.
            references: Whether ``package.module:name`` is accepted. Names from files must not import any module.

        Returns:
            The entry.

        Raises:
            UnknownNameError: There is no such entry; the nearest name is suggested.
            PluginError: Two plug-ins have that name, or the plug-in is broken.
        """
        folded = fold(name) if isinstance(name, str) else ""
        if folded in self.folded:
            known = self.folded[folded]
            return Entry(known, self[known])
        if isinstance(name, str) and is_reference(name):
            if not references:
                raise unknown_name(self.kind, name, self.names(), "Names that are read from a file import no module.")
            return self._referenced(name)
        points = self._plugins().get(folded, ())
        if not points:
            raise unknown_name(self.kind, name, self.names(), self.hint)
        if len(points) > 1:
            raise PluginError(_conflict(self.kind, points))
        (point,) = points
        where = f"the {self.kind} {point.name!r} of the plug-in {_origin(point)}"
        value = self._checked(point.name, where, point.load)
        if self.named is not None and self.named(value) != point.name:
            raise PluginError(f"{where} calls itself {self.named(value)!r}; expected the name of its entry point")
        return Entry(point.name, value, _origin(point))

    def knows(self, name: object) -> bool:
        """Return whether :meth:`find` accepts a name, without importing anything."""
        folded = fold(name) if isinstance(name, str) else ""
        return folded in self.folded or is_reference(str(name)) or folded in self._plugins()

    def names(self) -> tuple[str, ...]:
        """Return all names, the built-in ones first."""
        return (*self.builtin, *(points[0].name for points in self._plugins().values()))

    def listing(self) -> list[Listed]:
        """Return all entries, with what is wrong with those of plug-ins that cannot be used."""
        rows = [Listed(name) for name in self.builtin]
        for folded, points in self._grouped().items():
            problem = _conflict(self.kind, points) if len(points) > 1 else ""
            if folded in self.folded:
                problem = _shadowed(self.kind, points[0])
            rows += [Listed(point.name, _origin(point), problem) for point in points]
        return rows

    def _grouped(self) -> dict[str, list[EntryPoint]]:
        points: dict[str, list[EntryPoint]] = {}
        for point in _entry_points(self.group, tuple(sys.path)):
            points.setdefault(fold(point.name), []).append(point)
        return points

    def _plugins(self) -> dict[str, list[EntryPoint]]:
        """Return the entry points by folded name, without those that have a built-in name."""
        plugins = self._grouped()
        for name in self.folded.keys() & plugins.keys():
            warnings.warn(_shadowed(self.kind, plugins.pop(name)[0]), PluginWarning, stacklevel=4)
        return plugins

    def _referenced(self, name: str) -> Entry[T]:
        module, _, attribute = name.partition(":")
        try:
            value = self._checked(attribute, f"the {self.kind} {name!r}", lambda: import_reference(name))
        except PluginError as error:
            missing = error.__cause__
            if isinstance(missing, ModuleNotFoundError) and f"{module}.".startswith(f"{missing.name}."):
                there = f"There is no module {missing.name!r} either (current folder, installed packages)."
                if module.endswith(".py"):
                    there = f"For a function in a file, write {name.replace('.py:', ':', 1)!r}."
                raise unknown_name(self.kind, module, self.names(), there) from None
            raise
        return Entry(name, value, origin_of(import_reference(name)))

    def _checked(self, name: str, where: str, load: Callable[[], Any]) -> T:
        try:
            loaded = load()
        except (Exception, SystemExit) as error:
            raise PluginError(f"{where} cannot be imported: {type(error).__name__}: {error}") from error
        try:
            return self.read(name, loaded)
        except UnknownNameError:
            raise
        except StaICCError as error:
            raise PluginError(f"{where} cannot be used: {error}") from error


def _shadowed(kind: str, point: EntryPoint) -> str:
    return f"the plug-in {_origin(point)} has a {kind} {point.name!r}; the name is built in, and that one is used"


def _conflict(kind: str, points: Sequence[EntryPoint]) -> str:
    origins, advice = " and ".join(map(_origin, points)), f"uninstall one, or name one as {points[0].value!r}"
    return f"two plug-ins have a {kind} {points[0].name!r}: {origins}; {advice}"


def callable_entry(what: str) -> Callable[[str, Any], Any]:
    """Make a ``read`` function for entries that are functions or classes.

    Args:
        what: What is expected, for the message.
    """

    def read(name: str, value: Any) -> Any:
        if not callable(value):
            raise ArgumentError(f"{name!r} is {value!r:.80}; expected {what}")
        return value

    return read
