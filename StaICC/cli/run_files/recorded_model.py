"""The model of a saved result as settings of a run file: its name, its options, the form of its replies."""

from __future__ import annotations

import ast
import json
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from StaICC.cli.model_options import shown_model
from StaICC.cli.run_files.keys import FILL_IN
from StaICC.cli.run_files.settings import Settings
from StaICC.errors import ArgumentError
from StaICC.kernels.registry import KERNELS, OptionFact, options_by_kind
from StaICC.kernels.text_inference import ReplySettings
from StaICC.results.predictor import GIVEN, Predictor
from StaICC.results.result import Result

_KINDS_WITH_FILES = ("hf", "vllm", "llama")
"""The kinds of models whose name may be a folder or file; results have it without the folders above it."""

_RECORDED_KERNELS = {
    "ppm": "ppm",
    "hf": "CausalLMKernel",
    "smollm2": "CausalLMKernel",
    "vllm": "VLLMKernel",
    "llama": "LlamaKernel",
    "openai": "endpoint",
    "litellm": "litellm",
}
"""For each built-in kind of models, the first word of what its kernels record about themselves."""

_SERVED_KINDS = ("openai", "litellm")
"""The kinds of models whose settings of replies are recorded as JSON."""

_TEXT_PREFIX = "text "
"""How the settings of a local model that generates text begin in the provenance."""


def model_settings(result: Result) -> Settings:
    """Return the settings of the model that predicted a result.

    Args:
        result: The result.

    Raises:
        ArgumentError: Its predictions are those of several models, or were given instead of a model.
    """
    predictors = result.provenance.predictors
    if not predictors:
        raise ArgumentError(f"{result.benchmark}: the result does not record its model, so no run file repeats it")
    if any(GIVEN in predictor.who for predictor in predictors):
        raise ArgumentError(
            f"{result.benchmark}: the predictions were given, so no run repeats them. Score them again with: "
            "python -m StaICC score"
        )
    if len(predictors) > 1:
        raise ArgumentError(
            f"{result.benchmark}: {len(predictors)} models predicted the data sets, and run takes one. Repeat the "
            "result in Python"
        )
    predictor = predictors[0]
    settings = Settings()
    model = _model_of(predictor, settings)
    settings.values["model"] = model
    if predictor.name is not None and predictor.name != shown_model(model):
        settings.values["model_name"] = predictor.name
    settings.values["model_option"] = _options_of(model, predictor, settings)
    _add_reply_settings(predictor, settings)
    return settings


def _model_of(predictor: Predictor, settings: Settings) -> str:
    """Return the value of ``model`` in a run file.

    Args:
        predictor: The model in the provenance.
        settings: Gets a remark about what is to be filled in.
    """
    name = predictor.name or ""
    kind, _, argument = name.partition(":")
    recorded_kernel = _recorded_kernel(predictor)
    if recorded_kernel == "endpoint" and "server" in predictor.who:
        return f"openai:{predictor.who['server']}#{predictor.who['model']}"
    if recorded_kernel == "ppm":
        return "ppm"
    if not _is_of_kind(kind, recorded_kernel):
        what = predictor.label
        if "function" in predictor.who:
            what = f"the function {predictor.who['function']}"
        settings.remarks.append(
            f"Fill in the model, as after --model: {what}. A function is named as package.module:name"
        )
        return FILL_IN
    if kind in _KINDS_WITH_FILES and "/" not in argument:
        settings.remarks.append(
            f"If the model {name} is a folder or file, write its path: results have the last part of a path only"
        )
    return name


def _is_of_kind(kind: str, recorded_kernel: str | None) -> bool:
    """Return whether a model is of the kind with which its name begins: the name may be any text of the user.

    Args:
        kind: The kind in the name. Of the kinds of plug-ins, it is not known what their kernels record.
        recorded_kernel: The kernel that the result records (:func:`_recorded_kernel`); ``None`` if it records none.
    """
    if kind not in KERNELS or recorded_kernel is None:
        return False
    return kind not in _RECORDED_KERNELS or recorded_kernel == _RECORDED_KERNELS[kind]


def _recorded_kernel(predictor: Predictor) -> str | None:
    """Return the first word of what the kernel of a result records about itself; empty if it records nothing.

    It is ``None`` for functions and subclasses of the user's own: no name of a model makes them.
    """
    who = predictor.who
    if "function" in who or "subclass" in who:
        return None
    if who.get("model") == "ppm":
        return "ppm"
    return who.get("kernel", "").partition(" ")[0]


def _kind_of_recorded_kernel(predictor: Predictor) -> str | None:
    """Return the first built-in kind of models with the recorded kernel; ``None`` if there is none."""
    recorded_kernel = _recorded_kernel(predictor)
    for kind, kernel in _RECORDED_KERNELS.items():
        if kernel == recorded_kernel:
            return kind
    return None


def _options_of(model: str, predictor: Predictor, settings: Settings) -> dict[str, Any]:
    """Return the options of a model that its provenance records and that are not the default.

    A model whose name is to be filled in, such as a file, has the options of its recorded kernel.

    Args:
        model: The value of ``model``.
        predictor: The model in the provenance.
        settings: Gets remarks about the options that are to be filled in.
    """
    kind: str | None = model.partition(":")[0]
    if model == FILL_IN:
        kind = _kind_of_recorded_kernel(predictor)
    if kind is None:
        return {}
    recorded = {**predictor.who, **predictor.how}
    options = {}
    for option in options_by_kind().get(kind, ()):
        text = recorded.get(option.name)
        if text is None:
            continue
        if option.recorded_as_digest:
            options[option.name] = FILL_IN
            settings.remarks.append(
                f"Fill in the option {option.name} of the model: results have the digest of its files only"
            )
            continue
        value_type = option.type.removesuffix(" | None")
        if value_type in ("int", "float"):
            text = text.partition(" (")[0]  # what the kernel derives from the number follows in brackets
        if value_type == "str":
            text = _text_of_option(kind, option.name, text)
        if text != str(option.default):
            options[option.name] = _option_value(option, text)
    return options | _settings_left_out(kind, recorded) | _engine_arguments(predictor, settings)


def _settings_left_out(kind: str, recorded: Mapping[str, str]) -> dict[str, str]:
    """Return the settings of replies that were ``None``, as ``{"temperature": "None"}``.

    Requests without a setting are recorded without it. So a setting with another default that is not recorded was
    ``None``. The limit of tokens is recorded only if the model answers by text, and another limit may replace it.

    Args:
        kind: The kind of the model.
        recorded: What the provenance records of the model.
    """
    if kind not in _SERVED_KINDS:
        return {}
    left_out = {}
    if "temperature" not in recorded:
        left_out["temperature"] = "None"
    answers_by_text = recorded.get("scoring", "text") == "text"
    has_limit = "max_tokens" in recorded or "max_completion_tokens" in recorded
    if answers_by_text and not has_limit:
        left_out["max_tokens"] = "None"
    return left_out


def _text_of_option(kind: str, name: str, recorded: str) -> str:
    """Return the text that the user gave for an option of a model, from what the provenance of a result records.

    Recorded is the text itself, except for two kinds of options: those for replies of served models are recorded as
    JSON, and texts with line breaks as Python writes them, in quotes.

    Args:
        kind: The kind of the model.
        name: The name of the option.
        recorded: The text in the provenance.
    """
    names_of_reply_settings = {field.name for field in fields(ReplySettings)}
    is_json = kind in _SERVED_KINDS and name in names_of_reply_settings
    try:
        decoded = json.loads(recorded) if is_json else ast.literal_eval(recorded)
    except (SyntaxError, ValueError):
        return recorded  # such as a name, which is no literal of Python
    if not isinstance(decoded, str):
        return recorded
    if is_json:
        return decoded
    has_line_breaks = not decoded.isprintable()
    return decoded if has_line_breaks else recorded


def _engine_arguments(predictor: Predictor, settings: Settings) -> dict[str, Any]:
    """Return the arguments of the engine of a local model, which are options like those of its kernel.

    Args:
        predictor: The model in the provenance.
        settings: Gets remarks about the arguments that are to be filled in.
    """
    arguments: dict[str, Any] = {}
    for name, value in json.loads(predictor.who.get("engine arguments", "{}")).items():
        is_unidentified = any(reason.startswith(f"engine argument {name!r} ") for reason in predictor.unidentified)
        if is_unidentified or not isinstance(value, (bool, int, float, str)):
            arguments[name] = FILL_IN
            settings.remarks.append(f"Fill in the option {name} of the model: a run file has no value of this kind")
            continue
        arguments[name] = value
    return arguments


def _option_value(option: OptionFact, text: str) -> Any:
    """Return the value of an option in the type that TOML has for it; the provenance has it as text."""
    value_type = option.type.removesuffix(" | None")
    try:
        if value_type == "bool":
            return {"True": True, "False": False}[text]
        if value_type == "int":
            return int(text)
        if value_type == "float":
            return float(text)
    except (KeyError, ValueError):
        pass  # such as None, which is a text in a run file as well
    return text


def _add_reply_settings(predictor: Predictor, settings: Settings) -> None:
    """Add how a local model generates text; nothing if it scores labels."""
    max_tokens = predictor.how.get(f"{_TEXT_PREFIX}max_new_tokens")
    if max_tokens is None:
        return
    settings.values["answers"] = "text"
    settings.values["max_tokens"] = int(max_tokens)
    stop = ast.literal_eval(predictor.how.get(f"{_TEXT_PREFIX}stop", "[]"))
    if stop:
        settings.values["stop"] = list(stop)
