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


def as_json(value: Any) -> Any:
    """Return a value as JSON, in which lists, tuples, arrays and dictionaries are distinguished.

    A function becomes a text, and so does an infinite number; a class becomes the built-in class that it is derived
    from.
    """
    if isinstance(value, float) and not math.isfinite(value):
        return repr(value)
    if value is None or isinstance(value, (bool, int, float)):
        return value
    if isinstance(value, str):
        return str(value)
    is_array = hasattr(value, "dtype") and hasattr(value, "tolist")
    if is_array:
        return {"array": str(value.dtype), "shape": list(value.shape), "values": as_json(value.tolist())}
    if isinstance(value, tuple):
        return {"tuple": [as_json(item) for item in value]}
    if isinstance(value, Mapping):
        return {"dict": {str(key): as_json(item) for key, item in value.items()}}
    if isinstance(value, type):
        built_in_classes = [base.__name__ for base in value.__mro__ if base.__module__ == "builtins"]
        return {"class": built_in_classes[0]}
    if callable(value):
        return "a function"
    is_sequence = hasattr(value, "__len__") and hasattr(value, "__getitem__")
    if is_sequence or hasattr(value, "__iter__"):
        return [as_json(item) for item in value]
    return f"an object {type(value).__name__}"


def sha(value: Any) -> str:
    """Return the first 16 hexadecimal digits of the SHA-256 of a value as JSON."""
    text = json.dumps(value, ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def printed(function: Any) -> str:
    """Return what a function prints."""
    with contextlib.redirect_stdout(io.StringIO()) as stream:
        function()
    return stream.getvalue()


def probabilities(prompt: Any, label_space: list[str]) -> list[float]:
    """Return 1/2, 1/4, ..., in an order that depends on the prompt; the last two are equal, so that the sum is 1."""
    n_labels = len(label_space)
    row = [0.5 ** min(index + 1, n_labels - 1) for index in range(n_labels)]
    first = sum(map(ord, str(prompt)[-40:])) % n_labels
    return row[first:] + row[:first]


def logits(prompt: Any, label_space: list[str]) -> list[float]:
    """Return a number from -3 to 3 for each label, which depends on the label and on the end of the prompt."""
    row = []
    for label in label_space:
        last_characters = f"{prompt}{label}"[-60:]
        row.append(sum(map(ord, last_characters)) % 7 - 3.0)
    return row


def last_label(prompt: Any, label_space: list[str]) -> int:
    """Predict the last label."""
    return len(label_space) - 1


def many(predict: Any) -> Any:
    """Return the batched form of a function that predicts one prompt: its ``prompt`` is a list, as in the release."""
    return lambda prompt, label_space: [predict(one_prompt, label_space) for one_prompt in prompt]


def use_small_data(release: bool) -> None:
    """Let benchmarks without the argument ``datasets`` use two small data sets, which saves minutes."""
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
        self.demonstrations = [experimentor.demonstration_set()[row] for row in range(demonstrations)]
        self.tests = [experimentor.test_set()[row] for row in range(tests)]
        self.given: Any = None
        """The demonstration sampler that was set."""

    def demonstration_set(self) -> Any:
        return self.demonstrations

    def test_set(self) -> Any:
        return self.tests

    def set_demonstration_sampler(self, sampler: Any) -> None:
        self.given = sampler


def describe_error(error: Exception) -> dict[str, Any]:
    """Return the names of the classes of an error, its own first, and its message."""
    return {"error": [base.__name__ for base in type(error).__mro__], "message": str(error)}


class Observations(dict[str, Any]):
    """What a workflow shows, by its keys; its methods are called in the code of workflows."""

    def show(self, key: str, value: Any) -> None:
        self[key] = as_json(value)

    def fails(self, key: str, function: Any) -> None:
        """Call a function, and show its error; if it has none, its result."""
        try:
            self.show(key, function())
        except Exception as error:
            self[key] = describe_error(error)


def run_workflow(code: str, names: dict[str, Any]) -> Observations:
    """Run the code of one workflow, and return what it shows: under "raises", the error that ends it."""
    observations = Observations()
    names = {**names, "show": observations.show, "fails": observations.fails}
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        try:
            exec(code, names)
        except Exception as error:
            observations["raises"] = describe_error(error)
    return observations


def smallest_index(values: list[Any]) -> int:
    """Return the index of the smallest value, the first one of several."""
    return values.index(min(values))


def names_of_workflows(torch_is_needed: bool) -> dict[str, Any]:
    """Return what code of a workflow may use without importing it."""
    helpers = (collections.Counter, sha, printed, probabilities, logits, last_label, many, FirstRows)
    names: dict[str, Any] = {helper.__name__: helper for helper in helpers}
    names |= {"json": json, "math": math, "functools": functools}
    # The README's example uses ``StaICC.util.functional.argmin`` of the release without importing it.
    names["functional"] = types.SimpleNamespace(argmin=smallest_index)
    with contextlib.suppress(ImportError):
        import numpy

        names["np"] = numpy
    if torch_is_needed:
        import torch

        names["torch"] = torch
        names["model"], names["tokenizer"] = make_model()
    return names


def run_in_a_fork(code: str, names: dict[str, Any]) -> Any:
    """Return what one workflow shows, or an error of its own if its process ends without any output."""
    reading_end, writing_end = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading_end)
        with os.fdopen(writing_end, "w") as stream:
            json.dump(run_workflow(code, names), stream)
        os._exit(0)
    os.close(writing_end)
    with os.fdopen(reading_end) as stream:
        text = stream.read()
    os.waitpid(child, 0)
    if text == "":
        return {"raises": {"error": ["the process ended"], "message": ""}}
    return json.loads(text)


def main() -> None:
    """Read workflows from standard input, and print what they show."""
    sys.path.append(str(Path(__file__).parents[2]))
    job = json.load(sys.stdin)
    is_release = job["release"] is not None
    if is_release:
        sys.path.insert(0, job["release"])
    names = names_of_workflows(job["torch"])
    with contextlib.redirect_stdout(io.StringIO()):
        use_small_data(is_release)

    names_after_setup: dict[str, dict[str, Any]] = {"": names}  # each setup is run once
    shown = {}
    for name, setup, code in job["workflows"]:
        if setup not in names_after_setup:
            names_after_setup[setup] = dict(names)
            with contextlib.redirect_stdout(io.StringIO()):
                exec(setup, names_after_setup[setup])
        shown[name] = run_in_a_fork(code, names_after_setup[setup])
    json.dump(shown, sys.stdout)


if __name__ == "__main__":
    main()
