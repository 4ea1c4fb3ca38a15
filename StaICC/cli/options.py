"""Options that several commands share."""

from __future__ import annotations

import argparse
import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path, PurePath
from typing import Any, get_args

from StaICC.benchmarks.builtin import BENCHMARKS, make_benchmark
from StaICC.benchmarks.experimentor import SAMPLERS
from StaICC.benchmarks.task import Statistics
from StaICC.cli.parser import converted, flag
from StaICC.datasets.dataset import Dataset
from StaICC.datasets.delimited import QUOTING
from StaICC.errors import ArgumentError, StaICCError
from StaICC.inference.replies import Unparsed
from StaICC.inference.workers import worker_processes
from StaICC.kernels.protocol import Capability, capabilities_of
from StaICC.kernels.registry import KERNELS, load_kernel, names_option
from StaICC.kernels.text_inference import load_for_text
from StaICC.safe_text import one_line

LONG_ICL = "long-icl"
"""Name of the benchmark LongICL and its data on the command line."""


class Names:
    """The names of benchmarks as choices of an argument; plug-ins are loaded only if a name is not built in.

    Args:
        more: Further names.
    """

    def __init__(self, *more: str) -> None:
        self._more = more

    def __contains__(self, name: object) -> bool:
        return name in self._more or BENCHMARKS.knows(name)

    def __iter__(self) -> Iterator[str]:
        return iter((*BENCHMARKS.names(), *self._more))


def add_benchmark(parser: argparse.ArgumentParser, *more: str, option: bool = False) -> None:
    """Add the benchmark argument.

    Args:
        parser: The parser of the command.
        *more: Further names.
        option: Add it as the option ``--benchmark`` (default ``normal``), not as a positional argument.
    """
    text = f"{', '.join([*BENCHMARKS, *more])}, the name of a plug-in, or package.module:name"
    name, default = ("--benchmark", "normal") if option else ("benchmark", None)
    parser.add_argument(name, choices=Names(*more), default=default, metavar="BENCHMARK", help=text)


def _numbers(text: str) -> int | list[int]:
    numbers = [int(word) for word in text.split(",")]
    return numbers if len(numbers) > 1 else numbers[0]


def add_prompt_options(parser: argparse.ArgumentParser, several: bool = False) -> None:
    """Add the options that change the prompts.

    Args:
        parser: The parser of the command.
        several: Whether ``--k`` takes several numbers.
    """
    add = parser.add_argument
    more = "; several with commas, such as 4,16,64, for a curve" if several else ""
    kind = converted(_numbers, "a number, or several such as 4,16,64") if several else int
    add("--k", type=kind, default=4, metavar="K", help=f"demonstrations per prompt (default 4){more}")
    text = "default: as published; nested: those of a smaller k come first; nested-shared: and all test rows share them"
    add("--sampler", choices=SAMPLERS, default="default", help=text)
    add("--noisy-channel", action="store_true", help="score the text given each label")
    text = "data sets (default: the ten); 'mini' needs no download"
    add("--datasets", nargs="+", action="extend", metavar="NAME", help=text)
    add("--limit", type=int, metavar="N", help="use only the first N test examples of each data set")
    own = parser.add_argument_group("own data (a CSV, TSV, JSON Lines or Parquet file)").add_argument
    own("--data", type=Path, metavar="FILE", help="evaluate on this file; --datasets may add others")
    text = "its text columns (default: text or sentence next to label only)"
    own("--text", nargs="+", action="extend", metavar="COLUMN", help=text)
    own("--label", metavar="COLUMN", help="its label column (default: label, as for --text)")
    own("--card", type=Path, metavar="FILE", help="its card (default: NAME.card.toml or .json next to it)")
    own("--encoding", metavar="NAME", help="its encoding (default: utf-8)")
    text = "double quotes of a CSV or TSV file: around fields (standard), or ordinary characters (none)"
    own("--quoting", choices=QUOTING, help=text)
    own("--columns", nargs="+", metavar="COLUMN", help="names of all columns of a CSV or TSV file without a header")


def add_scoring_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that change the scores but not the prompts."""
    add = parser.add_argument
    text = "standard, or 0.1.1 (with its errors); add metrics with +: standard+my_package.metrics:f2"
    add("--metrics", default="standard", help=text)
    text = "replies without a label: stop (error, the default; long-icl: wrong), count as wrong, or exclude with bounds"
    add("--unparsed", choices=get_args(Unparsed), help=text)
    text = "number of settings tried, of which this is the best (for the random baseline)"
    add("--tried", type=int, default=1, metavar="T", help=text)


_OF_DATA = ("text", "label", "card", "encoding", "quoting", "columns")
_OF_BENCHMARK = ("k", "sampler", "noisy_channel", "limit", "metrics", "outputs", "unparsed", "draws", "templates")


def datasets_of(args: argparse.Namespace) -> list[Any] | None:
    """Return the data sets that the options name; ``None`` for all of the benchmark.

    Raises:
        StaICCError: The file of own data cannot be used.
    """
    if args.data is None:
        given = next((name for name in _OF_DATA if getattr(args, name) is not None), None)
        if given is not None:
            raise ArgumentError(f"--{given} describes a file of own data. Name the file with --data FILE")
        return None if args.datasets is None else list(args.datasets)
    try:
        reading = {"card": args.card, "encoding": args.encoding, "quoting": args.quoting, "columns": args.columns}
        own = Dataset.from_file(args.data, args.text, args.label, **reading)
    except StaICCError as error:
        raise type(error)(_with_options(str(error))) from error.__cause__
    split = own.card.split
    print(
        f"{one_line(own.card.name)}: {own.card.rows} rows, {len(own.card.label_space)} labels; {split.test} test, "
        f"{split.demonstration} demonstration, {split.calibration} calibration rows",
        file=sys.stderr,
    )
    return [*(args.datasets or []), own]


def _with_options(message: str) -> str:
    """Return a message of :meth:`Dataset.from_file` with options of the command line for its arguments."""
    message = message.replace("texts=['text'], label='label'", "--text text --label label")
    message = message.replace("encoding=", "--encoding ")
    message = re.sub(r"quoting='(\w+)'", r"--quoting \1", message)
    return re.sub(r"columns=\[([^]]*)\]", _as_columns_option, message)


def _as_columns_option(argument: re.Match[str]) -> str:
    names = argument[1].replace("'", "").replace(",", "")
    return f"--columns {names}"


def inputs_of(args: argparse.Namespace) -> list[Path]:
    """Return the files of the user's own data, which no output may overwrite."""
    return [path for path in (args.data, args.card) if path is not None]


def make(args: argparse.Namespace, **changes: Any) -> Any:
    """Return the benchmark, or the group of benchmarks, that the options describe.

    Args:
        args: The arguments of the command.
        **changes: Arguments of the benchmark that replace those of the command.

    Raises:
        StaICCError: A name is unknown, a value is invalid, or data is missing.
    """
    given = {name: getattr(args, name, None) for name in _OF_BENCHMARK}
    options: dict[str, Any] = {name: value for name, value in given.items() if value not in (None, "default")}
    if hasattr(args, "tried"):
        options["statistics"] = Statistics(tried=args.tried)
    return make_benchmark(args.benchmark, datasets=datasets_of(args), **options | changes)


def repeated(args: argparse.Namespace) -> str:
    """Return the prompt options that differ from their defaults, as command line text with a leading blank."""
    words = ["--noisy-channel"] if args.noisy_channel else []
    for name in ("k", "sampler", "limit", "datasets", "data", *_OF_DATA):
        value = getattr(args, name)
        if value is not None and value != {"k": 4, "sampler": "default"}.get(name):
            values = value if isinstance(value, list) else [value.absolute() if isinstance(value, Path) else value]
            words += [f"--{name}", *map(str, values)]
    return "".join(f" {shlex.quote(word)}" for word in words)


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


# -- execution


def add_execution_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of every command that evaluates a model: how to read scores, store, workers, progress."""
    add = parser.add_argument
    kinds = ("auto", "probabilities", "logits")
    add("--outputs", default="auto", choices=kinds, help="how to read the scores of the model")
    text = "cache predictions in this file; the same command then continues an interrupted run"
    add("--store", type=Path, metavar="FILE", help=text)
    text = "run N processes, each with its own model, on the GPUs of CUDA_VISIBLE_DEVICES in turn"
    add("--workers", type=int, metavar="N", help=text)
    text = "compute some of the stored predictions again for comparison (default: unless these requests may cost money)"
    add("--recheck", action=argparse.BooleanOptionalAction, default=None, help=text)
    text = "queries that a local model or a worker computes together; a crash loses at most this many of each"
    add("--chunk-size", type=int, metavar="N", help=text)
    add("--quiet", dest="progress", action="store_const", const=False, help="no progress on stderr")


def run_settings(args: argparse.Namespace) -> dict[str, Any]:
    """Return the settings of a run that :func:`add_execution_options` added: all but ``outputs``."""
    settings = {name: getattr(args, name) for name in ("store", "chunk_size", "recheck", "progress")}
    return {**settings, "executor": None if args.workers is None else worker_processes(args.workers)}
