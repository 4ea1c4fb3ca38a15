"""Reading a run file: TOML, checked key by key; a sweep becomes one set of values for each run."""

from __future__ import annotations

import argparse
import importlib
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from StaICC.cli.parser import Parser
from StaICC.cli.run_files.keys import SWEEP, RunFileKey, find_key, option_name, run_file_keys, shown
from StaICC.errors import ArgumentError, StaICCError
from StaICC.optional import require

_LARGEST_FILE = 1 << 20
"""Bytes of the largest run file. A file with more is something else, such as a model."""

_LARGEST_SWEEP = 10_000
"""The largest number of runs of a sweep."""

_OTHER_FORMATS = (".yaml", ".yml", ".json")
_REMEDY_FOR_YAML = (
    "Run files are TOML: write 'key: value' as 'key = value', texts in quotes, lists in square brackets, and name the "
    "file such as run.toml"
)


@dataclass(frozen=True, slots=True)
class RunFile:
    """A run file whose keys are known; values of other types are found when they are applied."""

    path: str
    """The file, as it was named."""
    values: Mapping[str, Any]
    """The value of each key outside the sweep."""
    sweep: Mapping[str, Sequence[Any]]
    """The values of each key of the sweep."""

    def combinations(self) -> list[dict[str, Any]]:
        """Return the values of the sweep for each run, the last key varying fastest; one empty one without a sweep."""
        names = list(self.sweep)
        return [dict(zip(names, values, strict=True)) for values in itertools.product(*self.sweep.values())]

    def without(self, names: Sequence[str]) -> RunFile:
        """Return the file without some keys."""
        values = {name: value for name, value in self.values.items() if name not in names}
        sweep = {name: value for name, value in self.sweep.items() if name not in names}
        return RunFile(self.path, values, sweep)

    def apply(self, values: Mapping[str, Any], parser: Parser, args: argparse.Namespace) -> None:
        """Set arguments of the command to values of the file.

        Args:
            values: Values by key.
            parser: The parser of ``run``.
            args: The arguments of the command, which are changed.

        Raises:
            ArgumentError: A value has another type, or is not one of the choices. The message names file and key.
        """
        for name, key in run_file_keys(parser).items():
            if name not in values:
                continue
            try:
                key.apply(values[name], parser, args)
            except StaICCError as error:
                raise ArgumentError(f"{self.path}: {error}") from None


def read_run_file(path: str, parser: Parser) -> RunFile:
    """Read a run file.

    Args:
        path: The file. Paths in it are relative to the current folder, as on the command line.
        parser: The parser of ``run``.

    Raises:
        ArgumentError: It is no TOML file, a key is unknown or given twice, or the sweep has no lists.
        MissingDependencyError: This version of Python cannot read TOML, and the package tomli is missing.
        OSError: There is no such file, or it cannot be read.
    """
    content = _parse(path)
    keys = run_file_keys(parser)
    sweep_content = content.pop(SWEEP, {})
    if not isinstance(sweep_content, Mapping):
        raise ArgumentError(
            f"{path}: [{SWEEP}]: got {shown(sweep_content)}, expected one table of lists, such as k = [0, 4]"
        )
    try:
        values = _by_key(content, keys)
        sweep = _by_key(sweep_content, keys, in_sweep=True)
        for name, settings in sweep.items():
            _check_sweep(name, settings)
            if name in values:
                raise ArgumentError(f"{name} is given in the file and in its [{SWEEP}]. Remove one of them")
    except StaICCError as error:
        raise ArgumentError(f"{path}: {error}") from None
    _check_size(path, sweep)
    return RunFile(path, values, sweep)


def _by_key(content: Mapping[str, Any], keys: Mapping[str, RunFileKey], in_sweep: bool = False) -> dict[str, Any]:
    """Return values by the names of their keys; tables of options by the names of the options.

    Args:
        content: The values as the file has them.
        keys: The keys of run files.
        in_sweep: Whether each key has a list with a value for each run.

    Raises:
        StaICCError: A key or an option is unknown, or given in two spellings.
    """
    values: dict[str, Any] = {}
    for name, value in content.items():
        key = find_key(name, keys)
        if key.name in values:
            raise ArgumentError(f"{key.name} is given twice, in two spellings. Remove one of them")
        if key.is_table and in_sweep and isinstance(value, list):
            value = [_by_option(key.name, table) for table in value]
        elif key.is_table:
            value = _by_option(key.name, value)
        values[key.name] = value
    return values


def _by_option(key_name: str, table: object) -> object:
    """Return a table of options by the names of the options; what is no table is found when it is applied.

    Raises:
        ArgumentError: An option is given in two spellings.
    """
    if not isinstance(table, Mapping):
        return table
    values: dict[str, Any] = {}
    for text, value in table.items():
        name = option_name(text)
        if name in values:
            raise ArgumentError(f"{key_name}.{name} is given twice, in two spellings. Remove one of them")
        values[name] = value
    return values


def _check_sweep(name: str, settings: object) -> None:
    """Refuse settings of a sweep that are no list of different values."""
    if not isinstance(settings, list) or not settings:
        raise ArgumentError(f"{SWEEP}.{name}: got {shown(settings)}, expected a list with a value for each run")
    for index, setting in enumerate(settings):
        for earlier in settings[:index]:
            # Python has 1 == True, so the types are compared as well.
            if setting == earlier and type(setting) is type(earlier):
                raise ArgumentError(f"{SWEEP}.{name}: got {shown(setting)} twice, expected different values")


def _check_size(path: str, sweep: Mapping[str, Sequence[Any]]) -> None:
    """Refuse a sweep with too many runs."""
    n_runs = 1
    for settings in sweep.values():
        n_runs *= len(settings)
    if n_runs > _LARGEST_SWEEP:
        raise ArgumentError(
            f"{path}: [{SWEEP}] has {n_runs:,} runs, expected at most {_LARGEST_SWEEP:,}. Divide it into several files"
        )


def _parse(path: str) -> dict[str, Any]:
    """Return the content of a TOML file, unchecked."""
    if Path(path).is_dir():
        raise ArgumentError(f"--config: got the folder {path}, expected a file such as {Path(path) / 'run.toml'}")
    if Path(path).suffix.lower() in _OTHER_FORMATS:
        raise ArgumentError(f"--config: got {path}. {_REMEDY_FOR_YAML}")
    toml = _toml_reader()
    with open(path, "rb") as file:
        data = file.read(_LARGEST_FILE + 1)
    if len(data) > _LARGEST_FILE:
        raise ArgumentError(f"{path}: got more than a megabyte, expected a run file")
    try:
        content: dict[str, Any] = toml.loads(data.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise ArgumentError(f"{path} is not UTF-8 (byte {error.start}). Save it as UTF-8") from None
    except ValueError as error:
        raise ArgumentError(f"{path} is not TOML: {error}") from None
    except RecursionError:
        raise ArgumentError(f"{path}: too many tables or lists in each other, expected a run file") from None
    return content


def _toml_reader() -> Any:
    """Return the module that reads TOML: that of Python 3.11 or later, else the package tomli.

    Raises:
        MissingDependencyError: There is neither.
    """
    try:
        return importlib.import_module("tomllib")  # by name: type checkers for Python 3.10 do not know it
    except ModuleNotFoundError:
        return require("tomli", extra="toml", feature="a run file on Python 3.10")
