"""The options that choose a model."""

from __future__ import annotations

import argparse
import re
from pathlib import Path, PurePath
from typing import Any

from StaICC.cli.parser import flag
from StaICC.errors import ArgumentError
from StaICC.kernels.protocol import Capability, capabilities_of
from StaICC.kernels.registry import KERNELS, load_kernel, names_option
from StaICC.kernels.text_inference import load_for_text

# -- the model


class _OfModel(argparse.Action):
    """Adds an option to the model; of several models, to the last one before it."""

    def __call__(self, parser: Any, namespace: argparse.Namespace, values: Any, option_string: Any = None) -> None:
        if ";" in values:
            parser.error(f"--model-option: got {values!r}, expected one NAME=VALUE without a semicolon")
        if namespace.model:
            namespace.model = [*namespace.model[:-1], f"{namespace.model[-1]};{values}"]
        else:
            namespace.model_option = [*namespace.model_option, values]


def add_model(parser: argparse._ActionsContainer, text: str, default: str = "") -> None:
    """Add the options ``--model``, and ``--model-option`` for shells in which a semicolon ends the command.

    Args:
        parser: The parser of the command, or a group of its options.
        text: The help of ``--model``.
        default: The model if it is not given.
    """
    parser.set_defaults(default_model=default)
    parser.add_argument("--model", action="append", default=[], help=text)
    text = "an option of the last model before it; repeat it for several (python -m StaICC models lists them)"
    parser.add_argument("--model-option", action=_OfModel, default=[], metavar="NAME=VALUE", help=text)


def add_text_options(parser: argparse._ActionsContainer) -> None:
    """Add the options of models that generate text."""
    text = "generate text and find its label, or score the labels (default; long-icl: text, if the model can)"
    parser.add_argument("--answers", choices=("text", "labels"), help=text)
    parser.add_argument("--max-tokens", type=int, metavar="N", help="of a generated text (default 100)")
    text = "texts before which a generated text ends"
    parser.add_argument("--stop", nargs="+", action="extend", metavar="TEXT", help=text)


def model_of(args: argparse.Namespace) -> str:
    """Return the name of the model with its options; empty if the command needs none.

    Raises:
        ArgumentError: There are several models, or options without a model.
    """
    model, *others = args.model or [args.default_model]
    if others:
        raise ArgumentError(f"--model: got {model} and {others[0]}, expected one. Run each, then compare the results")
    if args.model_option and not model:
        raise ArgumentError(f"got {args.model_option[0]}, an option of models, but no model. Name it with --model")
    return ";".join([model, *args.model_option])


def load_model(args: argparse.Namespace, for_long_icl: bool = False) -> tuple[Any, bool]:
    """Return the inference function that ``--model`` names, and whether it generates text.

    Args:
        args: The parsed arguments of ``run`` or ``verify``.
        for_long_icl: By default, text is generated if the model can, and prompts are unchanged.

    Raises:
        ArgumentError: Options of generated text were given, but labels are scored.
    """
    if args.answers == "text" or (for_long_icl and args.answers is None):
        stop = args.stop
        if for_long_icl and stop is None and not names_option(args.model, "stop"):
            stop = ()
        try:
            return load_for_text(args.model, args.max_tokens, stop, strip_blank=not for_long_icl), True
        except ArgumentError:
            if args.answers == "text" or Capability.TEXT in capabilities_of(load_kernel(args.model)):
                raise
    for name in ("max_tokens", "stop"):
        if getattr(args, name) is not None:
            raise ArgumentError(f"{flag(name)} is about generated text: got no --answers text. Add it")
    return load_kernel(args.model), False


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
    spec = spec.partition(";")[0]
    kind, colon, rest = spec.partition(":")
    if kind == "openai":
        return f"{kind}{colon}{rest.partition('#')[2] or 'the model of its server'}"
    loaded = kind in ("hf", "vllm", "llama")
    if kind in KERNELS and not loaded:
        return spec if kind == "litellm" else kind
    name = rest.removeprefix("hf:") if loaded else spec
    if name.startswith((".", "/", "~", "\\")) or Path(name).exists():
        name = PurePath(name).name
    return f"{kind}:{name}" if loaded else name


_MODEL_FILES = ("*config.json", "*.safetensors*", "*.bin*", "*.gguf", "*token*", "vocab*", "merges.txt", "*.py")
"""The files of a checkpoint folder. Outputs must not overwrite them, but may be saved next to them."""


def model_files(model: str) -> list[Path]:
    """Return the files of a model.

    Args:
        model: The value of ``--model``.
    """
    named = model.partition(":")[2].partition(";")[0]
    places = [Path(part) for part in [named, *re.split("[;=#]", model)] if part]
    folders = [place for place in places if place.is_dir()]
    return [*places, *(file for folder in folders for pattern in _MODEL_FILES for file in folder.glob(pattern))]
