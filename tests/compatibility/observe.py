"""Runs workflows and prints what they show, as JSON. Started by the tests, once with the release and once with ours.

Reads JSON from standard input: ``{"release": folder or null, "torch": bool, "workflows": [[name, setup, code], ...]}``.
Each workflow runs in a fork of its own, because objects of 0.1.1 share dictionaries. ``show(key, value)`` records one,
``fails(key, function)`` the classes of an error; another error is recorded, too, and ends the workflow.
"""

from __future__ import annotations

import collections
import contextlib
import functools
import hashlib
import io
import json
import math
import os
import sys
import types
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def plain(value: Any) -> Any:
    """A value as JSON: lists and tuples are distinguished, and so are texts, numbers and functions."""
    if value is None or isinstance(value, (bool, int, float)):
        return value if not isinstance(value, float) or math.isfinite(value) else repr(value)
    if isinstance(value, str):
        return str(value)
    if hasattr(value, "dtype") and hasattr(value, "tolist"):
        return {"array": str(value.dtype), "shape": list(value.shape), "values": plain(value.tolist())}
    if isinstance(value, tuple):
        return {"tuple": [plain(item) for item in value]}
    if isinstance(value, Mapping):
        return {"dict": {str(key): plain(item) for key, item in value.items()}}
    if isinstance(value, type):
        return {"class": next(kind.__name__ for kind in value.__mro__ if kind.__module__ == "builtins")}
    if callable(value):
        return "a function"
    if (hasattr(value, "__len__") and hasattr(value, "__getitem__")) or hasattr(value, "__iter__"):
        return [plain(item) for item in value]
    return f"an object {type(value).__name__}"


def sha(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, ensure_ascii=False).encode()).hexdigest()[:16]


def printed(function: Any) -> str:
    """What a function prints."""
    with contextlib.redirect_stdout(io.StringIO()) as stream:
        function()
    return stream.getvalue()


def probabilities(prompt: Any, label_space: list[str]) -> list[float]:
    """Probabilities that depend on the prompt, and add up to exactly 1."""
    last = len(label_space) - 1
    row = [0.5 ** min(place + 1, last) for place in range(last + 1)]
    turn = sum(map(ord, str(prompt)[-40:])) % (last + 1)
    return row[turn:] + row[:turn]


def logits(prompt: Any, label_space: list[str]) -> list[float]:
    return [sum(map(ord, f"{prompt}{label}"[-60:])) % 7 - 3.0 for label in label_space]


def last_label(prompt: Any, label_space: list[str]) -> int:
    return len(label_space) - 1


def many(function: Any) -> Any:
    return lambda prompt, label_space: [function(one, label_space) for one in prompt]


def use_small_data(release: bool) -> None:
    """Benchmarks without the argument ``datasets`` use two small data sets, which saves minutes."""
    if release:
        import StaICC.normal  # type: ignore[import-not-found,unused-ignore]
        from StaICC.util import hgf_dataset_loader as loaders

        loaders_used: Any = StaICC.normal.ORIGINAL_DATA_LOADER_NORMAL  # type: ignore[attr-defined,unused-ignore]
        loaders_used[:] = [loaders.trec, loaders.financial_phrasebank]
    else:
        import StaICC.benchmarks.benchmark as module

        module.names = lambda: ("TREC", "financial_phrasebank")  # type: ignore[attr-defined,assignment,unused-ignore]


def make_model() -> tuple[Any, Any]:
    """A tiny random model and its tokenizer, the same every time; both have what users call on them."""
    import torch
    import transformers

    from tests.tiny_models import train_tokenizer

    torch.set_num_threads(1)
    torch.manual_seed(0)
    config = transformers.GPT2Config(
        vocab_size=384,
        n_embd=32,
        n_layer=2,
        n_head=4,
        n_positions=4096,
        bos_token_id=0,
        eos_token_id=0,
        initializer_range=0.3,
    )
    model = transformers.AutoModelForCausalLM.from_config(config).float().eval()
    text = "question: who wrote the play? target: person location number entity"
    made = train_tokenizer([text] * 2, 384, ["<|end|>"])
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=made, eos_token="<|end|>", bos_token="<|end|>")
    model.cuda = lambda: model  # the README and the notebooks call it; the model stays where it is
    transformers.AutoModelForCausalLM.from_pretrained = lambda name: model
    transformers.AutoTokenizer.from_pretrained = lambda name: tokenizer
    return model, tokenizer


class FirstRows:
    """An experimentor with the first rows of its sets only: the nearest-neighbour example encodes every row."""

    def __init__(self, experimentor: Any, demonstrations: int, tests: int) -> None:
        self.demonstrations = [experimentor.demonstration_set()[place] for place in range(demonstrations)]
        self.tests = [experimentor.test_set()[place] for place in range(tests)]
        self.given: Any = None

    def demonstration_set(self) -> Any:
        return self.demonstrations

    def test_set(self) -> Any:
        return self.tests

    def set_demonstration_sampler(self, sampler: Any) -> None:
        self.given = sampler


def run(code: str, names: dict[str, Any]) -> dict[str, Any]:
    """Run one workflow."""
    shown: dict[str, Any] = {}

    def raised(error: Exception) -> dict[str, Any]:
        return {"error": [kind.__name__ for kind in type(error).__mro__], "message": str(error)}

    def fails(key: str, function: Any) -> None:
        try:
            shown[key] = plain(function())
        except Exception as error:
            shown[key] = raised(error)

    names["show"] = lambda key, value: shown.__setitem__(key, plain(value))
    names["fails"] = fails
    quiet = io.StringIO()
    with warnings.catch_warnings(), contextlib.redirect_stdout(quiet):
        warnings.simplefilter("ignore")
        try:
            exec(code, names)
        except Exception as error:
            shown["raises"] = raised(error)
    return shown


def names_of_workflows(torch_is_needed: bool) -> dict[str, Any]:
    """Return what code of a workflow may use without importing it."""
    helpers = (collections.Counter, sha, printed, probabilities, logits, last_label, many, FirstRows)
    names: dict[str, Any] = {helper.__name__: helper for helper in helpers}
    names |= {"json": json, "math": math, "functools": functools}
    # The README's example uses ``StaICC.util.functional.argmin`` of the release without importing it.
    names["functional"] = types.SimpleNamespace(argmin=lambda values: min(range(len(values)), key=values.__getitem__))
    with contextlib.suppress(ImportError):
        import numpy

        names["np"] = numpy
    if torch_is_needed:
        import torch

        names["torch"] = torch
        names["model"], names["tokenizer"] = make_model()
    return names


def run_in_a_fork(code: str, names: dict[str, Any]) -> Any:
    """Return what one workflow shows, or an error of its own where its process ends without a word."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        with os.fdopen(writing, "w") as stream:
            json.dump(run(code, dict(names)), stream)
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as stream:
        text = stream.read()
    os.waitpid(child, 0)
    if text == "":
        return {"raises": {"error": ["the process ended"], "message": ""}}
    return json.loads(text)


def main() -> None:
    """Read workflows from standard input, and print what they show."""
    sys.path.append(str(Path(__file__).parents[2]))
    given = json.load(sys.stdin)
    is_release = given["release"] is not None
    if is_release:
        sys.path.insert(0, given["release"])
    names = names_of_workflows(given["torch"])
    with contextlib.redirect_stdout(io.StringIO()):
        use_small_data(is_release)

    names_after: dict[str, dict[str, Any]] = {"": names}  # by the code of a setup, which is run once
    shown = {}
    for name, setup, code in given["workflows"]:
        if setup not in names_after:
            names_after[setup] = dict(names)
            with contextlib.redirect_stdout(io.StringIO()):
                exec(setup, names_after[setup])
        shown[name] = run_in_a_fork(code, names_after[setup])
    json.dump(shown, sys.stdout)


if __name__ == "__main__":
    main()
