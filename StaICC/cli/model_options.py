"""The options that choose a model."""

from __future__ import annotations

import argparse
import re
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any

from StaICC.cli.foreign_options import flag
from StaICC.errors import ArgumentError
from StaICC.inference.contract import Inference
from StaICC.kernels.protocol import Capability, capabilities_of
from StaICC.kernels.registry import KERNELS, load_kernel, names_option
from StaICC.kernels.text_inference import load_for_text

_CHECKPOINT_KINDS = ("hf", "vllm", "llama")
"""The kinds of models whose name is a folder, a file or a name on the hub."""

_CHECKPOINT_FILES = ("*config.json", "*.safetensors*", "*.bin*", "*.gguf", "*token*", "vocab*", "merges.txt", "*.py")
"""The files of a checkpoint folder. Outputs must not overwrite them, but may be saved next to them."""


class _AddToLastModel(argparse.Action):
    """Adds ``--model-option`` to the last ``--model`` before it, or to ``model_option`` if there was none yet."""

    def __call__(self, parser: Any, namespace: argparse.Namespace, values: Any, option_string: Any = None) -> None:
        if ";" in values:
            parser.error(f"--model-option: got {values!r}, expected one NAME=VALUE without a semicolon")
        if not namespace.model:
            namespace.model_option = [*namespace.model_option, values]
            return
        *earlier_models, last_model = namespace.model
        namespace.model = [*earlier_models, f"{last_model};{values}"]


def add_model(parser: argparse._ActionsContainer, text: str, default: str = "") -> None:
    """Add the options ``--model``, and ``--model-option`` for shells in which a semicolon ends the command.

    Args:
        parser: The parser of the command, or a group of its options.
        text: The help of ``--model``.
        default: The model if it is not given.
    """
    parser.set_defaults(default_model=default)
    parser.add_argument("--model", action="append", default=[], help=text)
    parser.add_argument(
        "--model-option",
        action=_AddToLastModel,
        default=[],
        metavar="NAME=VALUE",
        help="an option of the last model before it; repeat it for several (python -m StaICC models lists them)",
    )


def add_text_options(parser: argparse._ActionsContainer) -> None:
    """Add the options of models that generate text."""
    parser.add_argument(
        "--answers",
        choices=("text", "labels"),
        help="generate text and find its label, or score the labels (default; long-icl: text, if the model can)",
    )
    parser.add_argument("--max-tokens", type=int, metavar="N", help="of a generated text (default 100)")
    parser.add_argument(
        "--stop",
        nargs="+",
        action="extend",
        metavar="TEXT",
        help="texts before which a generated text ends",
    )


def model_of(args: argparse.Namespace) -> str:
    """Return the name of the model with its options; empty if the command needs none.

    Raises:
        ArgumentError: There are several models, or options without a model.
    """
    models = args.model or [args.default_model]
    if len(models) > 1:
        raise ArgumentError(
            f"--model: got {models[0]} and {models[1]}, expected one. Run each, then compare the results"
        )
    model = models[0]
    if args.model_option and not model:
        raise ArgumentError(f"got {args.model_option[0]}, an option of models, but no model. Name it with --model")
    return ";".join([model, *args.model_option])


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """The model that the options name."""

    function: Inference
    """Its inference function."""
    generates_text: bool
    """Whether it generates text, in which the label is found; otherwise it scores labels."""


def load_model(args: argparse.Namespace, for_long_icl: bool = False) -> LoadedModel:
    """Load the model that ``--model`` names.

    Args:
        args: The parsed arguments of ``run`` or ``verify``.
        for_long_icl: By default, text is generated if the model can, and prompts are unchanged.

    Raises:
        ArgumentError: Options of generated text were given, but labels are scored.
    """
    if args.answers == "text":
        return _load_for_text(args, for_long_icl)
    if for_long_icl and args.answers is None:
        try:
            return _load_for_text(args, for_long_icl)
        except ArgumentError:
            if Capability.TEXT in capabilities_of(load_kernel(args.model)):
                raise  # the model generates text, so another argument is wrong
    for name in ("max_tokens", "stop"):
        if getattr(args, name) is not None:
            raise ArgumentError(f"{flag(name)} is about generated text: got no --answers text. Add it")
    return LoadedModel(load_kernel(args.model), generates_text=False)


def _load_for_text(args: argparse.Namespace, for_long_icl: bool) -> LoadedModel:
    """Load a model that generates text; arguments as for :func:`load_model`."""
    stop = args.stop
    if for_long_icl and stop is None and not names_option(args.model, "stop"):
        stop = ()  # LongICL parses the whole reply, unless the user says where it ends
    function = load_for_text(args.model, args.max_tokens, stop, strip_blank=not for_long_icl)
    return LoadedModel(function, generates_text=True)


def shown_model(spec: str) -> str:
    """Return the model name for a result: the given name without folders and addresses, for privacy.

    Args:
        spec: The value of ``--model``.

    Example:
        >>> shown_model("smollm2"), shown_model("vllm:EleutherAI/pythia-70m"), shown_model("/home/me/model.gguf")
        ('smollm2', 'vllm:EleutherAI/pythia-70m', 'model.gguf')
        >>> shown_model("openai:http://localhost:8000/v1#name;api=chat"), shown_model("hf:./runs/mine;adapter=./a")
        ('openai:name', 'hf:mine')
        >>> shown_model("litellm:openai/gpt-4o"), shown_model("ppm;order=3")
        ('litellm:openai/gpt-4o', 'ppm')
    """
    spec_without_options = spec.partition(";")[0]
    kind, _, name = spec_without_options.partition(":")
    if kind == "openai":
        served_name = name.partition("#")[2]  # before it is the address of the server
        return f"openai:{served_name or 'the model of its server'}"
    if kind == "litellm":
        return spec_without_options
    if kind in _CHECKPOINT_KINDS:
        return f"{kind}:{_without_folders(name.removeprefix('hf:'))}"
    if kind in KERNELS:
        return kind
    return _without_folders(spec_without_options)


def _without_folders(name: str) -> str:
    """Return the last part of a path; other names unchanged, such as ``EleutherAI/pythia-70m``."""
    if name.startswith((".", "/", "~", "\\")) or Path(name).exists():
        return PurePath(name).name
    return name


def model_files(model: str) -> list[Path]:
    """Return the files of a model: those that its value names, and those of its checkpoint folders.

    Args:
        model: The value of ``--model``.
    """
    name = model.partition(":")[2].partition(";")[0]
    words = [name, *re.split("[;=#]", model)]
    files = [Path(word) for word in words if word]
    folders = [path for path in files if path.is_dir()]
    for folder in folders:
        for pattern in _CHECKPOINT_FILES:
            files += folder.glob(pattern)
    return files
