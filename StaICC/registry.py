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
    normal_form = unicodedata.normalize("NFKC", name).casefold()
    return "".join(letter for letter in normal_form if letter.isalnum())


def is_reference(name: str) -> bool:
    """Return whether a text has the form ``package.module:name``.

    Example:
        >>> is_reference("my_package.metrics:f2"), is_reference("hf:openai/gpt"), is_reference("ppm")
        (True, False, False)
    """
    module, colon, attribute = name.partition(":")
    if not colon:
        return False
    identifiers = [*module.split("."), *attribute.split(".")]
    return all(identifier.isidentifier() for identifier in identifiers)


def labelled(name: str, origin: str) -> str:
    """Return a name with its origin, as signatures have it.

    Example:
        >>> labelled("f2", "my-plugin 1.2"), labelled("accuracy", "")
        ('f2@my-plugin-1.2', 'accuracy')
    """
    if not origin:
        return name
    return f"{name}@{origin.replace(' ', '-')}"


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
        return _origin_of_partial(value)
    module = getattr(value, "__module__", None)
    if not module:  # an instance of a class in C, for instance
        module = type(value).__module__
    module = str(module)
    top_package = module.partition(".")[0]
    if top_package in ("StaICC", "__main__") or top_package in sys.stdlib_module_names:
        return ""
    return _origin_of_module(module, tuple(sys.path))


def _origin_of_partial(function: functools.partial[Any]) -> str:
    """Return the origin of the function or of the first argument whose code is in an installed distribution."""
    for value in (function.func, *function.args, *function.keywords.values()):
        if callable(value):
            origin = origin_of(value)
            if origin:
                return origin
    return ""


def _name_and_version(distribution: Distribution) -> str:
    return f"{distribution.metadata['Name']} {distribution.version}"


@functools.lru_cache(maxsize=256)
def _origin_of_module(module: str, path: tuple[str, ...]) -> str:
    """Return the distribution and version that a module comes from; empty if it is in no installed distribution.

    If the package of the module has an entry point, the distribution of this entry point is the one. It is found also
    where the code is in another folder (an editable installation). A module of a package without entry points is
    installed if it is in a folder of installed packages.

    Args:
        module: The name of the module.
        path: The search path of modules, as a part of the key of the cache: entry points depend on it.
    """
    root = _outermost_package(module)
    origins_by_length = []
    for group in GROUPS:
        for point in _entry_points(group, path):
            is_in_same_package = f"{point.module}.".startswith(f"{root}.")
            if is_in_same_package:
                origins_by_length.append((len(point.module), _origin(point)))
    if origins_by_length:
        # The entry point with the longest module name is the most specific one.
        _, origin = max(origins_by_length)
        return origin

    if not _is_in_package_folder(module):
        return ""
    from importlib import metadata

    top_package = module.partition(".")[0]
    distributions = metadata.packages_distributions().get(top_package, ())
    return ", ".join(_name_and_version(metadata.distribution(name)) for name in sorted(set(distributions)))


def _outermost_package(module: str) -> str:
    """Return the outermost package of a module that one distribution owns: the first that is no namespace package."""
    parts = module.split(".")
    for length in range(1, len(parts) + 1):
        package = ".".join(parts[:length])
        # A namespace package, which several distributions share, has no file.
        if getattr(sys.modules.get(package), "__file__", None):
            return package
    return parts[0]


def _is_in_package_folder(module: str) -> bool:
    """Return whether the file of a module is in a folder of installed packages."""
    file = getattr(sys.modules.get(module), "__file__", None) or ""
    folders = file.replace("\\", "/").split("/")
    return "site-packages" in folders or "dist-packages" in folders


@functools.lru_cache(maxsize=64)
def _entry_points(group: str, path: tuple[str, ...]) -> tuple[EntryPoint, ...]:
    """Read the entry points of a group; the search path is part of the cache's key."""
    from importlib import metadata

    points = metadata.entry_points(group=group)
    return tuple(sorted(points, key=lambda point: (point.name, _origin(point))))


def _origin(point: EntryPoint) -> str:
    """Return the distribution and version of an entry point; an empty text if that is not known."""
    if point.dist is None:
        return ""
    return _name_and_version(point.dist)


_MOST_NAMES = 10
"""Names of a module that a message lists."""


def import_reference(reference: str) -> Any:
    """Return the object that a reference names.

    Rooms that must not know each other are joined by such references, such as ``result.plot()`` and the figures.

    Args:
        reference: ``"package.module:name"``, not from a file: the module is imported.

    Example:
        >>> import_reference("math:pi") == __import__("math").pi
        True
    """
    module, _, path = reference.partition(":")
    value: Any = importlib.import_module(module)
    for attribute in path.split("."):
        if not hasattr(value, attribute):
            raise AttributeError(_missing_attribute(module, value, attribute))
        value = getattr(value, attribute)
    return value


def _missing_attribute(module: str, owner: Any, attribute: str) -> str:
    """Return the message that a module, or an object in it, lacks a name, with the public functions that it has."""
    names = [
        name for name, value in getattr(owner, "__dict__", {}).items() if callable(value) and not name.startswith("_")
    ]
    message = f"{module} has no {attribute!r}"
    if names:
        message += f"; there are: {', '.join(names[:_MOST_NAMES])}"
    if len(names) > _MOST_NAMES:
        message += f" and {len(names) - _MOST_NAMES} more"
    return message


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
        spellings = {fold(name): name for name in self.builtin}
        object.__setattr__(self, "folded", {**spellings, **self.folded})

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
        folded = _folded_or_empty(name)
        if folded in self.folded:
            builtin_name = self.folded[folded]
            return Entry(builtin_name, self[builtin_name])
        if isinstance(name, str) and is_reference(name):
            if not references:
                raise unknown_name(self.kind, name, self.names(), "Names that are read from a file import no module.")
            return self._referenced(name)
        points = self._plugins().get(folded, [])
        if not points:
            raise unknown_name(self.kind, name, self.names(), self.hint)
        if len(points) > 1:
            raise PluginError(_conflict(self.kind, points))
        return self._plugin(points[0])

    def _plugin(self, point: EntryPoint) -> Entry[T]:
        """Import an entry of a plug-in."""
        where = f"the {self.kind} {point.name!r} of the plug-in {_origin(point)}"
        value = self._checked(point.name, where, point.load)
        if self.named is not None and self.named(value) != point.name:
            raise PluginError(f"{where} calls itself {self.named(value)!r}; expected the name of its entry point")
        return Entry(point.name, value, _origin(point))

    def knows(self, name: object) -> bool:
        """Return whether :meth:`find` accepts a name, without importing anything."""
        folded = _folded_or_empty(name)
        if folded in self.folded:
            return True
        return is_reference(str(name)) or folded in self._plugins()

    def names(self) -> tuple[str, ...]:
        """Return all names, the built-in ones first."""
        plugin_names = [points[0].name for points in self._plugins().values()]
        return (*self.builtin, *plugin_names)

    def listing(self) -> list[Listed]:
        """Return all entries, with what is wrong with those of plug-ins that cannot be used."""
        rows = [Listed(name) for name in self.builtin]
        for folded, points in self._grouped().items():
            problem = ""
            if folded in self.folded:
                problem = _shadowed(self.kind, points[0])
            elif len(points) > 1:
                problem = _conflict(self.kind, points)
            for point in points:
                rows.append(Listed(point.name, _origin(point), problem))
        return rows

    def _grouped(self) -> dict[str, list[EntryPoint]]:
        """Return all entry points by folded name."""
        points_by_name: dict[str, list[EntryPoint]] = {}
        for point in _entry_points(self.group, tuple(sys.path)):
            points_by_name.setdefault(fold(point.name), []).append(point)
        return points_by_name

    def _plugins(self) -> dict[str, list[EntryPoint]]:
        """Return the entry points by folded name; one that has a built-in name is left out with a warning."""
        plugins = {}
        for folded, points in self._grouped().items():
            if folded in self.folded:
                warnings.warn(_shadowed(self.kind, points[0]), PluginWarning, stacklevel=4)
            else:
                plugins[folded] = points
        return plugins

    def _referenced(self, name: str) -> Entry[T]:
        """Import the entry that ``package.module:name`` names."""
        module, _, attribute = name.partition(":")
        try:
            value = self._checked(attribute, f"the {self.kind} {name!r}", lambda: import_reference(name))
        except PluginError as error:
            missing_module = _missing_module(error, module)
            if missing_module is None:
                raise
            if module.endswith(".py"):
                hint = f"For a function in a file, write {name.replace('.py:', ':', 1)!r}."
            else:
                hint = f"There is no module {missing_module!r} either (current folder, installed packages)."
            raise unknown_name(self.kind, module, self.names(), hint) from None
        return Entry(name, value, origin_of(import_reference(name)))

    def _checked(self, name: str, where: str, load: Callable[[], Any]) -> T:
        """Import an object and return the value of its entry.

        Args:
            name: The name of the entry.
            where: What it is, for errors.
            load: Imports the object.
        """
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


def _folded_or_empty(name: object) -> str:
    """Return a folded name; an empty text for what is no text."""
    if isinstance(name, str):
        return fold(name)
    return ""


def _missing_module(error: PluginError, module: str) -> str | None:
    """Return which module an import did not find, if that is the imported module itself or a package around it.

    Args:
        error: The error of the import.
        module: The module that was imported.

    Returns:
        ``None`` for other errors, such as that of a module that is there and imports a missing one.
    """
    cause = error.__cause__
    if not isinstance(cause, ModuleNotFoundError):
        return None
    is_module_or_package = f"{module}.".startswith(f"{cause.name}.")
    if is_module_or_package:
        return cause.name
    return None


def _shadowed(kind: str, point: EntryPoint) -> str:
    """Return the message about a plug-in with a built-in name."""
    return f"the plug-in {_origin(point)} has a {kind} {point.name!r}; the name is built in, and that one is used"


def _conflict(kind: str, points: Sequence[EntryPoint]) -> str:
    """Return the message about several plug-ins with one name."""
    first = points[0]
    origins = " and ".join(_origin(point) for point in points)
    return f"two plug-ins have a {kind} {first.name!r}: {origins}; uninstall one, or name one as {first.value!r}"


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
