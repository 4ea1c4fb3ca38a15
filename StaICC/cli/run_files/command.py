"""Running a run file: options of the command line replace those of the file; a sweep is one run after the other."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from StaICC.argument_syntax import flag
from StaICC.cli.option_rules import refuse_options_without_another
from StaICC.cli.output import STDOUT
from StaICC.cli.parser import Parser, long_option
from StaICC.cli.run import PreparedRun, check_arguments, prepare, run, run_prepared
from StaICC.cli.run_files.keys import SWEEP, RunFileKey, option_name, run_file_keys
from StaICC.cli.run_files.reading import RunFile, read_run_file
from StaICC.errors import ArgumentError, UnknownNameError
from StaICC.safe_text import one_line

_REPLACED = "replaced by the command line"

_OUTPUT_FILES = ("json", "records")
"""Arguments that name a file; each run of a sweep has its own."""

_VALUE_LENGTH = 30
"""Characters of a value in the name of a file; longer values are cut, so that those after them are still there."""

_NAME_LENGTH = 120
"""Characters of a setting in the name of a file."""


@dataclass(frozen=True, slots=True)
class PlannedRun:
    """A run of a run file."""

    args: argparse.Namespace
    """Its arguments."""
    setting: Mapping[str, Any]
    """The values of the sweep; empty without one."""


def run_of_file(words: Sequence[str], make_parser: Callable[[], Parser]) -> int:
    """Run what a run file says.

    Args:
        words: The words after ``run``, with ``--config FILE``.
        make_parser: Makes a new parser of ``run``.

    Returns:
        The exit status: the largest of those of the runs.

    Raises:
        StaICCError: The file or an option is invalid, or a run failed. The results of the runs before it are saved.
    """
    runs = plan_runs(words, make_parser)
    if len(runs) == 1:
        return run_prepared(_prepare(runs[0]), runs[0].args) or 0

    for planned in runs:  # before the first run, so that a mistake in a later one is found at once
        _prepare(planned)
    status = 0
    for number, planned in enumerate(runs, start=1):
        print(one_line(f"run {number} of {len(runs)}: {_setting_text(planned.setting)}"), file=sys.stderr)
        status = max(status, run(planned.args) or 0)
    return status


def _prepare(planned: PlannedRun) -> PreparedRun:
    """Do all that a run does before its first prediction; an error names the run file and the setting of a sweep."""
    try:
        return prepare(planned.args)
    except (ArgumentError, UnknownNameError) as error:
        where = str(planned.args.config)
        if planned.setting:
            where += f", {_setting_text(planned.setting)}"
        raise ArgumentError(f"{where}: {error}") from error


def plan_runs(words: Sequence[str], make_parser: Callable[[], Parser]) -> list[PlannedRun]:
    """Return the runs of a run file with their arguments: one run, or one for each setting of its sweep.

    Options of the command line replace those of the file, with a message on stderr.

    Args:
        words: The words after ``run``, with ``--config FILE``.
        make_parser: Makes a new parser of ``run``.

    Raises:
        ArgumentError: The file is invalid, or the arguments of a run do not belong together.
    """
    parser = make_parser()
    path, other_words = _take_config(words, parser)
    # A parser of its own, since parse_given() changes it.
    given = make_parser().parse_given(other_words)
    file = read_run_file(path, parser)
    file, remarks = _without_given(file, given, run_file_keys(parser))
    for remark in remarks:
        print(one_line(f"{path}: {remark}"), file=sys.stderr)

    settings = file.combinations()
    names = _distinct_names(settings)
    runs = []
    for setting, name in zip(settings, names, strict=True):
        args = _arguments(file, setting, given, parser)
        try:
            if file.sweep:
                _name_outputs(args, name)
            refuse_options_without_another(args)
            check_arguments(args)
        except ArgumentError as error:
            raise ArgumentError(f"{path}: {error}") from None
        args.config = path
        runs.append(PlannedRun(args, setting))
    return runs


def names_run_file(words: Sequence[str]) -> bool:
    """Return whether words of the command line have the option ``--config``."""
    return any(word == "--config" or word.startswith("--config=") for word in words)


def _take_config(words: Sequence[str], parser: Parser) -> tuple[str, list[str]]:
    """Divide the words of a command into the file of ``--config`` and all other words.

    Args:
        words: The words, with ``--config FILE`` or ``--config=FILE`` among them.
        parser: The parser of the command, which exits with an error if there is no file, or several.
    """
    paths = []
    other_words = []
    remaining = list(words)
    while remaining:
        word = remaining.pop(0)
        option, equals_sign, path = word.partition("=")
        if option != "--config":
            other_words.append(word)
            continue
        if not equals_sign and remaining and not remaining[0].startswith("--"):
            path = remaining.pop(0)
        if not path:
            parser.error("argument --config: got no value, expected a file such as run.toml")
        paths.append(path)
    if len(paths) > 1:
        parser.error(f"argument --config: got {' and '.join(paths)}, expected one file. Run each by itself")
    return paths[0], other_words


def _without_given(
    file: RunFile, given: Mapping[str, Any], keys: Mapping[str, RunFileKey]
) -> tuple[RunFile, list[str]]:
    """Return a run file without the keys that the command line replaces, and a remark about each of them.

    The options of a model or method are a table, such as ``model_option``. They are replaced one by one; all of them if
    the command line names the model or method.

    Args:
        file: The run file.
        given: The arguments of the command line.
        keys: The keys of run files.
    """
    values = dict(file.values)
    replaced_keys = []
    remarks = []
    for name, key in keys.items():
        is_in_file = name in file.values or name in file.sweep
        if not is_in_file:
            continue
        if key.table_of in given:
            replaced_keys.append(name)
            remarks.append(f"{name} is left out, since {flag(key.table_of)} is given")
            continue
        argument = key.action.dest
        if argument not in given:
            continue
        options_of_file = values.get(name)
        if key.is_table and isinstance(options_of_file, Mapping):
            given_options = {option_name(text) for text in given[argument]}
            remaining_options = {}
            for option, value in options_of_file.items():
                if option in given_options:
                    remarks.append(f"{name}.{option} is {_REPLACED}")
                else:
                    remaining_options[option] = value
            values[name] = remaining_options
        else:
            replaced_keys.append(name)
            remarks.append(f"{name} is {_REPLACED}")
    return RunFile(file.path, values, file.sweep).without(replaced_keys), remarks


def _arguments(
    file: RunFile, setting: Mapping[str, Any], given: Mapping[str, Any], parser: Parser
) -> argparse.Namespace:
    """Return the arguments of a run: those of the command line, then of the sweep and of the file, then the defaults.

    Args:
        file: The run file, without what the command line replaces.
        setting: The values of the sweep.
        given: The arguments of the command line.
        parser: The parser of ``run``.
    """
    # The parser needs a benchmark to return the defaults of the other arguments.
    args = parser.parse_args([_any_benchmark(parser)])
    args.benchmark = None
    file.apply({**file.values, **setting}, parser, args)
    arguments_of_tables = {key.action.dest for key in run_file_keys(parser).values() if key.is_table}
    for name, value in given.items():
        if name in arguments_of_tables:
            options_of_file = getattr(args, name)  # those that the command line does not replace
            setattr(args, name, [*options_of_file, *value])
        else:
            setattr(args, name, value)
    if args.benchmark is None:
        raise ArgumentError(f'{file.path}: the benchmark is missing. Write a line such as: benchmark = "normal"')
    args.command = "run"
    args.given_options = _changed_options(args, parser)
    return args


def _changed_options(args: argparse.Namespace, parser: Parser) -> dict[str, str]:
    """Return the options whose values are not the defaults, in the form of the parser's ``given_options``."""
    options = {}
    for action in parser.arguments():
        if action.option_strings and getattr(args, action.dest, action.default) != action.default:
            option = long_option(action)
            options[option] = option
    return options


def _any_benchmark(parser: Parser) -> str:
    """Return the name of a benchmark, with which the parser returns its defaults."""
    for action in parser.arguments():
        if action.dest == "benchmark" and action.choices is not None:
            return str(next(iter(action.choices)))
    raise ValueError("the command has no benchmark")


# The names of the results of a sweep.


def _distinct_names(combinations: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return a name for each setting of a sweep, as a part of file names.

    A setting whose name another one has gets a number behind it, from 2 on: ``k-4``, ``k-4_2``. Names are compared
    without case, as some file systems do.
    """
    names: list[str] = []
    used_names: set[str] = set()
    # The next number for each name without a number, so that no number is tried twice: a sweep may have many settings.
    next_numbers: dict[str, int] = {}
    for setting in combinations:
        name_of_setting = _file_name_part(setting)
        number = next_numbers.get(name_of_setting.casefold(), 2)
        name = name_of_setting
        while name.casefold() in used_names:
            name = f"{name_of_setting}_{number}"
            number += 1
        next_numbers[name_of_setting.casefold()] = number
        used_names.add(name.casefold())
        names.append(name)
    return names


def _file_name_part(setting: Mapping[str, Any]) -> str:
    """Return a setting as a part of file names: ``"k-4_model-ppm"``."""
    words = []
    for name, value in setting.items():
        value_text = re.sub(r"[^A-Za-z0-9._-]+", "-", _value_text(value))
        words.append(f"{name}-{value_text[:_VALUE_LENGTH]}".rstrip(".-"))
    return "_".join(words)[:_NAME_LENGTH].strip(".-")


def _setting_text(setting: Mapping[str, Any]) -> str:
    """Return the values of a sweep for one run as they are shown: ``"k = 4, model = ppm"``."""
    return ", ".join(f"{name} = {_value_text(value)}" for name, value in setting.items())


def _value_text(value: object) -> str:
    """Return a value of a sweep as it is shown, and as it is in file names."""
    if isinstance(value, list):
        return "+".join(map(_value_text, value))
    if isinstance(value, Mapping):
        return ",".join(f"{name}={_value_text(option)}" for name, option in value.items())
    return str(value)


def _name_outputs(args: argparse.Namespace, name: str) -> None:
    """Add the name of a setting to the names of the files that a run writes.

    Raises:
        ArgumentError: Results of a sweep cannot be printed as JSON, since they would follow each other.
    """
    args.setting = name
    for argument in _OUTPUT_FILES:
        path: Path | None = getattr(args, argument)
        if path is None:
            continue
        if str(path) == STDOUT:
            raise ArgumentError(f"--{argument}: got {STDOUT} with a [{SWEEP}], expected a file: each run has its own")
        setattr(args, argument, path.with_name(f"{path.stem}_{name}{path.suffix}"))
