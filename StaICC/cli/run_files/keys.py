"""The keys of a run file, derived from the options of ``run``, with the types of their values."""

from __future__ import annotations

import argparse
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from StaICC.argument_syntax import flag
from StaICC.cli.foreign_options import ADVICE, EQUIVALENTS
from StaICC.cli.parser import Converted, Parser, model_option_flags
from StaICC.errors import ArgumentError, unknown_name

SWEEP = "sweep"
"""The table of a run file whose values are lists: there is a run for each combination."""

FILL_IN = "FILL-IN"
"""What a run file has in the place of a value that a result does not have. A run refuses it."""

_NOT_IN_FILES = ("help", "config")
_TABLE_METAVAR = "NAME=VALUE"
"""The metavar of an option whose values are options themselves, such as ``--model-option``."""

_SHOWN_CHARACTERS = 60


@dataclass(frozen=True, slots=True)
class RunFileKey:
    """A key of a run file: an option of ``run``, or its argument."""

    name: str
    """The name of the option with underscores, such as ``max_tokens``."""
    action: argparse.Action
    """What the command line declares about it."""

    @property
    def is_table(self) -> bool:
        """Whether the value is a table of options, such as those of a model."""
        return self.action.metavar == _TABLE_METAVAR

    @property
    def is_switch(self) -> bool:
        """Whether the value is true or false."""
        return self.action.nargs == 0

    @property
    def is_list(self) -> bool:
        """Whether the option takes several values: any number, or a fixed one."""
        return self.action.nargs == "+" or self._length is not None

    @property
    def _length(self) -> int | None:
        """The number of values of an option that takes a fixed number of them; ``None`` for other options."""
        nargs = self.action.nargs
        if isinstance(nargs, int) and nargs > 0:
            return nargs
        return None

    @property
    def table_of(self) -> str:
        """The key whose value has the options of this table: ``model`` for ``model_option``; empty for other keys."""
        if not self.is_table:
            return ""
        return self.name.removesuffix("_option")

    @property
    def expected(self) -> str:
        """What the value must be, for messages."""
        if self.is_table:
            return "a table of options, such as {name = value}"
        if self.is_switch:
            return "true or false"
        if self._length is not None:
            return f"a list of {self._length} values, each {self._expected_item}"
        if self.is_list:
            return f"a list of values, each {self._expected_item}"
        return self._expected_item

    @property
    def _expected_item(self) -> str:
        """What one value must be."""
        value_type = self.action.type
        if isinstance(value_type, Converted):
            return value_type.expected
        if value_type is int:
            return "an integer"
        if value_type is float:
            return "a finite number"
        return "a text in quotes"

    def apply(self, value: object, parser: Parser, args: argparse.Namespace) -> None:
        """Set the argument of the command to a value of a run file.

        Args:
            value: The value, as TOML has it.
            parser: The parser of ``run``.
            args: The arguments of the command, which are changed.

        Raises:
            ArgumentError: The value has another type, or is not one of the choices.
        """
        if self.is_switch:
            self._apply_switch(value, parser, args)
        elif self.is_table:
            for text in self._option_texts(value):
                self._call(text, parser, args)
        elif self.is_list:
            self._call(self._converted_list(value, parser), parser, args)
        else:
            self._call(self._converted(value, parser), parser, args)

    def _apply_switch(self, value: object, parser: Parser, args: argparse.Namespace) -> None:
        """Set a switch of the command to a truth value of a run file.

        For ``false``, there may be an option such as ``--no-recheck``. Otherwise it is the default, and nothing is set.
        """
        if not isinstance(value, bool):
            raise self.error(value)
        option = flag(self.name)
        if not value:
            option = f"--no-{option.removeprefix('--')}"
        if option in self.action.option_strings:
            self.action(parser, args, [], option)

    def _option_texts(self, value: object) -> list[str]:
        """Return the options of a table as the command line has them: ``["order=8"]``."""
        if not isinstance(value, Mapping):
            raise self.error(value)
        texts = []
        for name, option_value in value.items():
            where = f"{self.name}.{name}"
            texts.append(f"{name}={_option_text(where, option_value)}")
        return texts

    def _converted_list(self, value: object, parser: Parser) -> list[Any]:
        """Return the converted items of a list; a single value is a list of one."""
        items = value if isinstance(value, list) else [value]
        if not items or self._length not in (None, len(items)):
            raise self.error(value)
        return [self._converted(item, parser) for item in items]

    def _converted(self, value: object, parser: Parser) -> Any:
        """Return a value of a run file in the type of the option, as the command line would read it.

        Raises:
            ArgumentError: It has another type, is to be filled in, or is not one of the choices.
        """
        if isinstance(value, list) and not self.is_list:
            remedy = f"For a run with each of them, write {self.name} under [{SWEEP}]"
            raise ArgumentError(f"{self.name}: got the list {shown(value)}, expected {self.expected}. {remedy}")
        if not self._has_right_type(value):
            raise self.error(value)
        if isinstance(value, str) and FILL_IN in value:
            raise ArgumentError(f"{self.name}: got {shown(value)}, which is to be filled in. Expected {self.expected}")
        try:
            return parser.converted_value(self.action, str(value))
        except argparse.ArgumentError as error:
            if isinstance(self.action.type, Converted):
                raise self.error(value) from None
            raise ArgumentError(f"{self.name}: {error.message}") from None

    def _has_right_type(self, value: object) -> bool:
        """Return whether a value has a type that the option reads."""
        if isinstance(value, bool):
            return False
        value_type = self.action.type
        if value_type is int:
            return isinstance(value, int)
        if value_type is float:
            return isinstance(value, (int, float)) and math.isfinite(value)
        if isinstance(value_type, Converted):
            return isinstance(value, (str, int))
        return isinstance(value, str)

    def _call(self, values: Any, parser: Parser, args: argparse.Namespace) -> None:
        """Set the argument of the command to the values of a run file, as the command line does with its words.

        Raises:
            ArgumentError: The argument does not take these values.
        """
        try:
            self.action(parser, args, values, flag(self.name))
        except argparse.ArgumentError as error:
            raise ArgumentError(f"{self.name}: {error.message}") from None

    def error(self, value: object) -> ArgumentError:
        """Return the error about a value of another type."""
        return ArgumentError(f"{self.name}: got {shown(value)}, expected {self.expected}")


def _option_text(where: str, value: object) -> str:
    """Return the value of an option of a model or method as text, as the command line has it.

    Args:
        where: The key, for messages.
        value: A text, a number, or true or false.

    Raises:
        ArgumentError: It is something else, or is to be filled in.
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    is_number = isinstance(value, (int, float)) and math.isfinite(value)
    if not is_number and not isinstance(value, str):
        raise ArgumentError(
            f"{where}: got {shown(value)}, expected a text in quotes, a finite number, true or false. Write lists and "
            "mappings as JSON in quotes"
        )
    if isinstance(value, str) and FILL_IN in value:
        raise ArgumentError(f"{where}: got {shown(value)}, which is to be filled in")
    return str(value)


def shown(value: object) -> str:
    """Return a value of a TOML file for a message, with its kind where that may be in doubt.

    Args:
        value: The value.

    Example:
        >>> shown("4"), shown(4), shown(True), shown({"a": 1})
        ("the text '4'", '4', 'true', 'a table with a')
    """
    if isinstance(value, str):
        return f"the text {_cut(repr(value))}"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Mapping):
        return _cut(f"a table with {', '.join(map(str, value)) or 'nothing'}")
    if isinstance(value, (int, float, list)):
        return _cut(_text_of(value))
    return f"the {type(value).__name__} {value}"  # a date or a time


def _text_of(value: object) -> str:
    """Return a number or a list as text; integers with thousands of digits have none in Python."""
    try:
        return repr(value)
    except ValueError:
        return "a very large integer"


def _cut(text: str) -> str:
    if len(text) <= _SHOWN_CHARACTERS:
        return text
    return f"{text[:_SHOWN_CHARACTERS]} ..."


def run_file_keys(parser: Parser) -> dict[str, RunFileKey]:
    """Return the keys of a run file by name: the arguments of the parser of ``run``, in its order.

    Args:
        parser: The parser of ``run``.
    """
    keys = {}
    for action in parser.arguments():
        if action.dest in _NOT_IN_FILES:
            continue
        name = action.dest
        for option in action.option_strings:
            if option.startswith("--"):
                name = option.removeprefix("--").replace("-", "_")
                break
        keys[name] = RunFileKey(name, action)
    return keys


def option_name(text: str) -> str:
    """Return the name of an option of a model or method, which may have hyphens instead of underscores.

    Args:
        text: The name, or the option with its value as the command line has it.

    Example:
        >>> option_name("knn-k"), option_name("knn-k=5")
        ('knn_k', 'knn_k')
    """
    return text.partition("=")[0].strip().replace("-", "_")


def find_key(name: str, keys: Mapping[str, RunFileKey]) -> RunFileKey:
    """Return the key of a name, which may have hyphens instead of underscores.

    Args:
        name: The name in the run file.
        keys: All keys.

    Raises:
        ArgumentError: The name is that of an option of models, or of another tool.
        UnknownNameError: There is no such key.
    """
    key_name = name.replace("-", "_")
    if key_name in keys:
        return keys[key_name]
    option = flag(key_name)
    for key in keys.values():
        # The name may be a second option of a key, such as --texts. That of a switch switches it off, and is no key.
        if option in key.action.option_strings and not key.is_switch:
            return key
    if option in ADVICE:
        raise ArgumentError(f"there is no key {name!r}: {ADVICE[option]}")
    equivalent_key = EQUIVALENTS.get(option, "").removeprefix("--").replace("-", "_")
    if equivalent_key in keys:
        raise ArgumentError(f"there is no key {name!r}: use {equivalent_key}")
    if option in model_option_flags():
        raise ArgumentError(f"{name} is an option of models. Write it under [model_option]")
    raise unknown_name("key of a run file", name, [*keys, SWEEP], "docs/run_files.md shows a file.")
