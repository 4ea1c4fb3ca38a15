"""The run file that repeats a saved result, from the settings that the result records."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from StaICC import benchmark_names
from StaICC.benchmarks.builtin import BENCHMARKS
from StaICC.benchmarks.race import LIKELIHOOD, RACE
from StaICC.cli.parser import Parser
from StaICC.cli.run_files.keys import FILL_IN, run_file_keys
from StaICC.cli.run_files.recorded_model import model_settings
from StaICC.cli.run_files.settings import Settings
from StaICC.datasets.catalogue import names
from StaICC.errors import ArgumentError
from StaICC.files.output import StrPath
from StaICC.long_icl.effective_length import DEFAULT_SHARE
from StaICC.long_icl.experiments import Experiment
from StaICC.long_icl.helmet import DEFAULT_LENGTHS
from StaICC.long_icl.options import ALL_ROUNDS, DEFAULT_LIMIT, default_limit, default_parsing
from StaICC.methods.catalogue import TABLE_2
from StaICC.methods.table import OF_METHODS, OF_SHOTS
from StaICC.registry import fold
from StaICC.results.files import read_result_file
from StaICC.results.result import Result, ResultGroup, load
from StaICC.version import __version__

_CHANGED_BY_METHODS = {"demonstrations", "demonstrations (manual)", "template", "repeats"}
"""The changes of an experimentor that methods make."""


def settings_of_file(path: StrPath, parser: Parser) -> Settings:
    """Return the settings that repeat a saved result, without defaults, in the order of the options.

    Args:
        path: The file of the result.
        parser: The parser of ``run``.

    Raises:
        ArgumentError: No run file repeats the result; the message says why.
        SchemaError: The file is no saved result.
    """
    result = load(path)
    parts = list(result.results())
    if not parts:
        raise ArgumentError(f"{path}: the group has no results, so there is nothing to repeat")
    if isinstance(result, ResultGroup):
        skipped = list(read_result_file(path).get("skipped") or ())
        settings = _settings_of_group(result, skipped)
    else:
        settings = _settings_of_result(result, [result])
    if "data" in settings.values:
        settings.values["card"] = os.fspath(path)
    return _in_order(settings, parser)


def _in_order(settings: Settings, parser: Parser) -> Settings:
    """Return settings without defaults, in the order of the options, with the remarks of every run file first."""
    defaults = {}
    for name, key in run_file_keys(parser).items():
        defaults[name] = False if key.is_switch else parser.get_default(key.action.dest)
    defaults["model"] = None
    values = settings.without_defaults(defaults)
    ordered = {name: values[name] for name in defaults if name in values}
    remarks = [f"Repeats a result, as StaICC {__version__} reads it: python -m StaICC run --config FILE"]
    return Settings(ordered, list(dict.fromkeys([*remarks, *settings.remarks])))


# Groups.


def _settings_of_group(group: ResultGroup, skipped: Sequence[str]) -> Settings:
    """Return the settings of a group: of benchmarks, of methods, or of several k.

    Args:
        group: The group.
        skipped: The parts that the run left out.
    """
    parts = list(group.results())
    if group.name == RACE.name:
        raise ArgumentError("the result is a race of two models. Repeat it with: python -m StaICC race")
    if group.name == OF_SHOTS.name:
        settings = _settings_of_result(parts[0], parts)
        names_of_parts = [*group, *skipped]
        settings.values["k"] = ",".join(name.removeprefix("k=") for name in names_of_parts)
        return settings
    if group.name == OF_METHODS.name:
        return _settings_of_methods(group, skipped)
    return _settings_of_result(parts[0], parts, group_name=group.name)


def _settings_of_methods(group: ResultGroup, skipped: Sequence[str]) -> Settings:
    """Return the settings of a run with all methods of the paper's Table 2, from the results of the methods.

    Each result records variant and options of its own method; those of all methods together are the settings.

    Args:
        group: The result of each method, or its group of benchmarks, by the name of the method.
        skipped: The methods that the run left out.

    Raises:
        ArgumentError: They are not those of ``--method all``.
    """
    methods_of_all = {name.removesuffix("_centroid") for name in TABLE_2}
    methods = {name.partition("@")[0].removesuffix("_centroid") for name in [*group, *skipped]}
    if methods != methods_of_all:
        listed = ", ".join(group)
        raise ArgumentError(
            f"the group has the methods {listed}, and a run has one method, or all of Table 2. Run each, with "
            "method = [...] under [sweep]"
        )
    first_method = next(iter(group.values()))
    name_of_benchmarks = first_method.name if isinstance(first_method, ResultGroup) else ""
    results = list(group.results())
    settings = _settings_of_result(results[0], list(first_method.results()), name_of_benchmarks)
    settings.values["method"] = "all"
    method_options: dict[str, Any] = {}
    for result in results:
        method_settings = _method_settings(result)
        for name in ("method_variant", "calibration_number"):
            if name in method_settings:
                settings.values[name] = method_settings[name]
        method_options |= method_settings.get("method_option", {})
    settings.values["method_option"] = method_options
    return settings


# One result.


def _settings_of_result(result: Result, parts: Sequence[Result], group_name: str = "") -> Settings:
    """Return the settings of a result.

    Args:
        result: The result, or the first part of a group.
        parts: All results that have these settings, with the options of their benchmarks.
        group_name: The name of the group of benchmarks; empty for a benchmark.
    """
    if result.samples:
        raise ArgumentError("the result was read from logs of another harness, so no run of StaICC repeats it")
    if not result.arguments:
        raise ArgumentError(f"{result.benchmark}: the result does not record the arguments of its benchmark")
    settings = model_settings(result)
    _refuse_other_changes(parts, settings)
    settings.values["benchmark"] = _benchmark_name(group_name or result.benchmark, result)
    _add_method(result, settings)
    if not result.complete:
        settings.values["on_error"] = "collect"
    _add_data(result, settings)
    if result.benchmark == benchmark_names.LONG_ICL:
        settings.values |= _long_icl_settings(result)
    elif result.benchmark == benchmark_names.HELMET:
        settings.values |= _helmet_settings(result)
    else:
        settings.values |= _classification_settings(parts)
        _add_metrics(result, settings)
    settings.values |= _statistics_settings(result)
    return settings


def _refuse_other_changes(parts: Sequence[Result], settings: Settings) -> None:
    """Refuse results with settings that are no options of ``run``.

    Some methods change the demonstrations or the template themselves. Their results do not say who did.

    Args:
        parts: The results.
        settings: Gets a remark about the changes of a method.

    Raises:
        ArgumentError: There is such a setting.
    """
    for part in parts:
        changes = _changes_in_python(part)
        may_be_of_method = part.provenance.method is not None and set(changes) <= _CHANGED_BY_METHODS
        if changes and may_be_of_method:
            settings.remarks.append(
                "The method changes demonstrations or templates. If you changed them by hand as well, that is not here"
            )
        elif changes:
            raise ArgumentError(
                f"{part.benchmark}: changed in Python: {', '.join(changes)}. Run has no option for it, so repeat the "
                "result in Python"
            )
        if part.stopping is not None and part.stopping.rule != "precision":
            raise ArgumentError("the result is a part of a race of two models. Repeat it with: python -m StaICC race")


def _changes_in_python(result: Result) -> list[str]:
    """Return what was changed in the prompts of a benchmark by code, such as ``"template"``."""
    changes = list(result.arguments.get("changed", ()))
    demonstrations = result.arguments.get("demonstrations", "default")
    if demonstrations not in ("default", result.arguments.get("sampler")):
        changes.append(f"demonstrations ({demonstrations})")
    return changes


def _benchmark_name(name: str, result: Result) -> str:
    """Return the name of a benchmark on the command line.

    Raises:
        ArgumentError: The benchmark is the user's own.
    """
    if fold(name) in BENCHMARKS.folded:
        return BENCHMARKS.folded[fold(name)]
    if BENCHMARKS.knows(name):
        return name
    recorded = result.signature.fields.get("benchmark") or name
    raise ArgumentError(f"there is no benchmark {recorded!r} here. Install its plug-in, or repeat the result in Python")


def _method_settings(result: Result) -> dict[str, Any]:
    """Return the method with its variant and options.

    Raises:
        ArgumentError: The result has a method, but not its settings as values.
    """
    method = result.provenance.method
    recorded = result.provenance.method_settings
    if method is None:
        return {}
    if recorded is None:
        raise ArgumentError(
            f"{result.benchmark}: the result has no settings of its method but {method!r}. Run it again"
        )
    settings: dict[str, Any] = {"method": recorded.name or FILL_IN, "method_variant": recorded.variant}
    if recorded.calibration_number is not None:
        settings["calibration_number"] = recorded.calibration_number
    options = {}
    for name, value in recorded.options.items():
        options[name] = FILL_IN if value is None else value
    settings["method_option"] = options
    return settings


def _add_method(result: Result, settings: Settings) -> None:
    """Add a result's method with its options to the settings; what the result does not record is to be filled in."""
    settings.values |= _method_settings(result)
    if settings.values.get("method") == FILL_IN:
        settings.remarks.append(f"Fill in the method as package.module:name: {result.provenance.method}")
    for name, value in settings.values.get("method_option", {}).items():
        if value == FILL_IN:
            settings.remarks.append(f"Fill in the option {name} of the method: results have its digest only")


def _add_data(result: Result, settings: Settings) -> None:
    """Add the names of a result's data sets, and what it records about the file of own data, to the settings.

    Raises:
        ArgumentError: There are several files of own data, and run takes one.
    """
    if len(result.files) > 1:
        raise ArgumentError(
            f"{result.benchmark}: {len(result.files)} files of own data, and run takes one. Repeat the result in Python"
        )
    dataset_names = list(result.arguments["datasets"])
    are_the_default = dataset_names == list(names())
    names_without_file = [name for name in dataset_names if name not in result.files]
    if names_without_file and not are_the_default:
        settings.values["datasets"] = names_without_file
    for record in result.files.values():
        settings.values["data"] = record["file"]
        settings.remarks.append(
            f"Write the path of {record['file']}: results have the name of a file only. How the file is read is in the "
            "result, which is its card"
        )


def _toml_value(value: Any) -> Any:
    """Return a recorded value in a type of TOML, which has lists and no tuples."""
    if isinstance(value, tuple):
        return list(value)
    return value


def _classification_settings(parts: Sequence[Result]) -> dict[str, Any]:
    """Return the arguments of a classification benchmark, with the options of all parts of a group."""
    arguments = parts[0].arguments
    settings = {name: arguments[name] for name in ("k", "noisy_channel", "limit", "outputs", "sampler")}
    if arguments["unparsed"] != "error":
        settings["unparsed"] = arguments["unparsed"]
    for part in parts:
        settings |= _own_settings(part)
    stopping = parts[0].stopping
    if stopping is not None:
        settings["precision"] = stopping.target
        settings["score"] = "likelihood" if stopping.score == LIKELIHOOD else None
    return settings


def _own_settings(result: Result) -> dict[str, Any]:
    """Return the sampler and the options of a result's benchmark that are not the default ones.

    A sampler that is the default is ``None``.
    """
    benchmark_class = BENCHMARKS[_benchmark_name(result.benchmark, result)]
    # The defaults do not depend on the data sets, and this one needs no download.
    defaults = benchmark_class(datasets=["mini"]).arguments()
    settings: dict[str, Any] = {"sampler": None}
    for name, value in result.arguments["options"].items():
        if value != defaults["options"][name]:
            settings[name] = value
    sampler = result.arguments["sampler"]
    if sampler != defaults["sampler"]:
        settings["sampler"] = sampler
    return settings


def _add_metrics(result: Result, settings: Settings) -> None:
    """Add a result's metrics to the settings; metrics that are functions of the user's own are to be filled in."""
    recorded = result.arguments["metrics"]
    metric_set: str = recorded["set"]  # such as "standard+my_package.metrics:f2"
    names_in_set = metric_set.split("+")
    functions = [name for name in recorded["own"] if name not in names_in_set]
    settings.values["metrics"] = metric_set
    if functions:
        settings.values["metrics"] = f"{metric_set}+{FILL_IN}".removeprefix("+")
        settings.remarks.append(f"Fill in the metrics of your own as package.module:name: {', '.join(functions)}")


def _statistics_settings(result: Result) -> dict[str, Any]:
    """Return the options of intervals and baselines; a run that stops early has no other intervals."""
    statistics = dict(result.arguments["statistics"])
    settings: dict[str, Any] = {"tried": statistics["tried"], "level": statistics["level"]}
    if not statistics["intervals"] and result.stopping is None:
        settings["no_intervals"] = True
    return settings


# Benchmarks with long contexts.


def _long_icl_settings(result: Result) -> dict[str, Any]:
    """Return the arguments of LongICL that are not the default."""
    arguments = result.arguments
    recorded_experiment = arguments["experiment"]
    experiment = None
    settings: dict[str, Any] = {}
    if recorded_experiment is not None:
        experiment = Experiment(**recorded_experiment)
        settings |= _experiment_settings(experiment, recorded_experiment)
    elif tuple(arguments["rounds"]) != ALL_ROUNDS:
        settings["rounds"] = list(arguments["rounds"])
    settings["limit"] = _limit_setting(arguments["limit"], default_limit(experiment))
    settings["instruct"] = arguments["instruct"] or None
    parsing = default_parsing(experiment, has_own_data=bool(result.files))
    return settings | _settings_of_replies(arguments, parsing)


def _experiment_settings(experiment: Experiment, recorded: Mapping[str, Any]) -> dict[str, Any]:
    """Return an experiment with its options that are not the default."""
    default = Experiment(experiment.name)
    settings: dict[str, Any] = {"experiment": experiment.name}
    for name in ("levels", "shots", "seed", "share"):
        if getattr(experiment, name) != getattr(default, name):
            settings[name] = _toml_value(recorded[name])
    return settings


def _helmet_settings(result: Result) -> dict[str, Any]:
    """Return the arguments of HELMET that are not the default."""
    arguments = result.arguments
    settings: dict[str, Any] = {"limit": _limit_setting(arguments["limit"], DEFAULT_LIMIT)}
    if tuple(arguments["lengths"]) != DEFAULT_LENGTHS:
        settings["lengths"] = list(arguments["lengths"])
    if arguments["share"] != DEFAULT_SHARE:
        settings["share"] = arguments["share"]
    return settings | _settings_of_replies(arguments, "published")


def _settings_of_replies(arguments: Mapping[str, Any], default_parsing: str) -> dict[str, Any]:
    """Return how replies are parsed, and how those without a label count, where that is not the default."""
    settings: dict[str, Any] = {}
    if arguments["parsing"] != default_parsing:
        settings["parsing"] = arguments["parsing"]
    if arguments["unparsed"] != "wrong":
        settings["unparsed"] = arguments["unparsed"]
    return settings


def _limit_setting(limit: int | None, default: int) -> int | str | None:
    """Return the value of ``limit`` in a run file: a number, ``"all"``, or ``None`` if it need not be written.

    Args:
        limit: The limit of the run; ``None`` if it had all test rows.
        default: The limit of a run without the setting, which need not be written.
    """
    if limit == default:
        return None
    if limit is None:
        return "all"
    return limit
