"""Every public option of a benchmark: if it changes a number, it changes the signature.

The options are found by introspection, so a new one fails here until it is listed: among the options that change
numbers, or among those that change none, which is checked by running both.
"""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from StaICC.benchmarks.benchmark import Benchmark, Settings
from StaICC.benchmarks.builtin import BENCHMARKS
from StaICC.benchmarks.experimentor import Experimentor
from StaICC.benchmarks.task import Statistics
from StaICC.datasets.catalogue import SplitSizes, TemplateAlternatives
from StaICC.datasets.dataset import Dataset
from StaICC.methods.contract import MethodSpec
from StaICC.methods.run import Method
from StaICC.results.result import Result, ResultGroup
from StaICC.version import __version__

OWN = Dataset.from_rows(
    [(f"the {'good' if row % 3 else 'bad'} text {row * 7 % 60}", row % 2) for row in range(60)],
    name="own",
    label_space=["no", "yes"],
    split=SplitSizes(calibration=0, demonstration=40, test=20),
    alternatives=TemplateAlternatives(
        ("", "Choose. ", "Answer. "), (("a: ",), ("b: ",), ("c: ",)), ("l: ", "m: ", "n: "), ("\n", " ", "\t")
    ),
)


def model(prompt: Any, label_space: list[str]) -> list[float]:
    """Probabilities from a hash."""
    text = prompt if isinstance(prompt, str) else "\0".join(prompt)
    weights = [1 + hashlib.sha256(f"{text}\0{label}".encode()).digest()[0] for label in label_space]
    return [weight / sum(weights) for weight in weights]


def first_of_batch(prompt: Any, label_space: list[str]) -> Any:
    """Depends on how it is called: all prompts of a batch get the prediction of the first."""
    return [model(prompt[0], label_space)] * len(prompt) if isinstance(prompt, list) else model(prompt, label_space)


def replying(prompt: Any, label_space: list[str]) -> str:
    """A reply for each prompt; a third of them name no label."""
    return ["no", "yes", "?"][hashlib.sha256(str(prompt).encode()).digest()[0] % 3]


def mine(truth: list[int], rows: list[list[float]]) -> float:
    return sum(truth) + rows[0][0]


CONSTRUCTOR: dict[str, Any] = {
    **{"k": 2, "noisy_channel": True, "metrics": "0.1.1", "datasets": ["mini"], "limit": 5, "outputs": "logits"},
    **{"statistics": Statistics(level=0.5), "domain_query_length": 4, "interpolations": 3, "draws": 3, "templates": 2},
    **{"unparsed": "wrong", "sampler": "nested"},
}
"""Another value of every option of a benchmark's constructor; each changes a number."""

_WITHOUT_ACCURACY = ("contextual-bias", "domain-bias", "post-bias", "triplet-bias", "template", "demonstration")
NO_NUMBER = {("post-bias", "domain_query_length"), *((name, "unparsed") for name in _WITHOUT_ACCURACY)}
"""Options of constructors that change none, by benchmark: posterior bias asks real queries; 0.1.1 had the parameter. A
reply without a label counts as wrong, or is left out, where accuracy is scored."""


RUN: dict[str, Any] = {
    **{"store": "store.sqlite", "model_name": "a name", "executor": lambda: ThreadPoolExecutor(2)},
    **{"on_error": "collect", "chunk_size": 2, "progress": lambda progress: None, "recheck": False},
    "on_result": lambda result: None,
}
"""Another value of every setting of a run; none changes a number."""


def make(name: str, **options: Any) -> Any:
    return BENCHMARKS[name](**{"datasets": [OWN], "limit": 12, **options})


def parts(found: Result | ResultGroup) -> Iterator[Result]:
    yield from [found] if isinstance(found, Result) else found.results()


def numbers(result: Result) -> dict[str, Any]:
    """Everything of a result but who predicted, how, when and where."""
    reported = ("arguments", "signature", "provenance", "timing", "environment", "with_divided")
    return {key: value for key, value in result.to_dict().items() if key not in reported}


def options_of(name: str) -> list[str]:
    parameters = inspect.signature(BENCHMARKS[name]).parameters.values()
    own = [parameter.name for parameter in parameters if parameter.kind is not parameter.VAR_KEYWORD]
    return [*own, *Settings.__annotations__]


REFUSED = {("generalisation", "sampler")}
"""Other values end with an error: draws are a factor only if all test rows share their demonstrations."""
TESTED_ELSEWHERE = ("long-icl", "helmet")
OF_FROZEN_DATA = [name for name in BENCHMARKS if name not in TESTED_ELSEWHERE]
CASES = [(name, option) for name in OF_FROZEN_DATA for option in options_of(name) if (name, option) not in REFUSED]


@pytest.mark.parametrize(("name", "option"), CASES)
def test_an_option_that_changes_a_number_is_in_the_signature(name: str, option: str) -> None:
    assert option in CONSTRUCTOR, f"the new option {option!r} of {name} must be listed here, and tested"
    asked, base = (replying, {"unparsed": "excluded"}) if option == "unparsed" else (model, {})
    before, after = make(name, **base)(asked), make(name, **{option: CONSTRUCTOR[option]})(asked)
    changed = False
    for one, other in zip(parts(before), parts(after), strict=True):
        differs = numbers(one) != numbers(other)
        changed |= differs
        fields = {*one.signature.differences(other.signature)} - {"prompts", "failed"}
        assert not differs or fields, f"{one.benchmark}: only the digest of the prompts shows {option}"
        assert "scoring" not in one.signature.differences(other.signature)
    assert changed == ((name, option) not in NO_NUMBER)
    if not changed and option != "unparsed":
        assert [one.signature for one in parts(before)] == [one.signature for one in parts(after)]


@pytest.mark.parametrize("name", ["normal", "gler", "triplet-bias"])
@pytest.mark.parametrize("option", RUN)
def test_a_setting_of_the_run_changes_no_number(
    option: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    settings = {option: RUN[option]} | ({"model_name": "a name"} if option == "store" else {})
    base, other = make(name)(model), make(name)(model, **settings)
    if "store" in settings:
        assert other == make(name)(model, **settings)  # from the store
    for one, two in zip(parts(base), parts(other), strict=True):
        assert numbers(one) == numbers(two)
        assert one.signature == two.signature
        assert one.provenance == two.provenance or "model_name" in settings


def test_calls_that_change_numbers_are_told_apart() -> None:
    """A batched function gets the whole list, and its predictions may depend on it."""
    benchmark = make("normal")
    base, batched = benchmark(first_of_batch), benchmark(first_of_batch, batched_inference=True)
    assert numbers(base) != numbers(batched)
    assert base.signature.differences(batched.signature) == {"scoring": ("function", "function;batched")}
    rows = [model(prompt, benchmark[0].get_label_space()) for prompt in benchmark[0].prompt_set()]
    given, ran = benchmark(preentered_prediction=[rows]), benchmark(model)
    assert numbers(given) == numbers(ran)
    assert given.signature.differences(ran.signature) == {"scoring": ("given", "function")}
    assert given.provenance != ran.provenance


def test_early_stopping_is_told_apart() -> None:
    """Also where all rows are evaluated: signatures differ with each setting, and none is that of a full run."""
    benchmark = make("normal", outputs="logits")
    calls = [{"precision": one, "score": score} for one in (1e-9, 0.4) for score in ("accuracy", "likelihood")]
    signatures = [benchmark(model, **call).signature for call in ({}, *calls)]
    assert len(set(signatures)) == 5
    assert [signature.fields.get("stopping") is not None for signature in signatures] == [False, True, True, True, True]


# -- a limit


@pytest.mark.parametrize("name", ["normal", "gler", "template", "suite"])
def test_a_limit_above_the_number_of_rows_is_none(name: str) -> None:
    rows = 20
    base = make(name, limit=None)(model)
    for limit in (rows, 10**9):
        assert make(name, limit=limit)(model) == base
    below = make(name, limit=rows - 1)(model)
    assert [one for one in parts(below) if one.signature.fields["limit"] != str(rows - 1)] == []


def test_a_limit_that_cuts_some_data_sets_only() -> None:
    """It is a number in the signature, from which the benchmark can be made again."""
    signatures = {limit: make("normal", datasets=[OWN, "mini"], limit=limit).signature() for limit in (None, 20, 21)}
    assert signatures[20].fields["limit"] == "20"
    assert signatures[20].differences(signatures[21]).keys() == {"limit", "prompts"}
    assert "limit" not in signatures[None].fields


# -- metrics of the user


def with_default(truth: list[int], rows: list[list[float]], weight: float = 3.0) -> float:
    return weight * rows[0][0]


def scaled(factor: float) -> Callable[..., float]:
    return lambda truth, rows: factor * rows[0][0]


OTHER_METRICS: list[Callable[..., float]] = [mine, with_default, scaled(1.0), scaled(2.0)]


def ways(function: Callable[..., float]) -> Iterator[Benchmark]:
    """The ways to use a metric of one's own."""
    from StaICC.metrics.metric_set import Metric, metric_set

    yield make("normal", metrics={"mine": function})
    yield make("normal", metrics=metric_set("standard").adding(Metric("mine", function)))
    added = make("normal")
    added[0].add_metric("mine", function)
    yield added


def test_own_metrics_of_one_name_are_told_apart_by_their_code() -> None:
    for made in zip(*map(ways, OTHER_METRICS), strict=True):
        results = [benchmark(model) for benchmark in made]
        assert len({result.averaged["mine"] for result in results}) == len(OTHER_METRICS)
        assert len({result.signature for result in results}) == len(OTHER_METRICS)
        assert [result for result in results if "mine@" not in result.signature.fields["metrics"]] == []
    assert [benchmark.signature() for benchmark in ways(scaled(3.0))] == [
        benchmark.signature() for benchmark in ways(scaled(3.0))
    ]


# -- tasks and methods of the user


def own_method(name: str, sign: int) -> Method:
    def steps(data: Any) -> Any:
        (rows,) = yield [data.ask()]
        return [row[::sign] for row in rows]

    return Method(MethodSpec(name, "Mine", steps), model)


@pytest.mark.parametrize("name", ["mine", "vanilla", "knn_prompt"])
def test_own_methods_of_one_name_are_told_apart_by_their_code(name: str) -> None:
    one, other, again = (own_method(name, sign).run(make("normal")) for sign in (1, -1, 1))
    assert isinstance(one, Result)
    assert isinstance(other, Result)
    assert numbers(one) != numbers(other)
    assert one.signature.differences(other.signature).keys() == {"method"}
    assert one == again
    if name == "vanilla":
        assert one.signature.fields.get("method") != make("normal")(model).signature.fields.get("method")


# -- controls of an experimentor

CONTROLS: dict[str, Callable[[Experimentor], object]] = {
    "set_k": lambda one: one.set_k(2),
    "set_demonstration_sampler": lambda one: one.set_demonstration_sampler([[3, 2, 1, 0]] * len(one.test_set())),
    "set_in_domain_mode": lambda one: one.set_in_domain_mode(),
    "set_out_of_domain_mode": lambda one: one.set_out_of_domain_mode(),
    "add_metric": lambda one: one.add_metric("mine", mine),
}


@pytest.mark.parametrize("control", list(CONTROLS))
def test_controls_change_the_signature(control: str) -> None:
    base, changed = make("normal", limit=None), make("normal", limit=None)
    CONTROLS[control](changed[0])
    one, other = base(model), changed(model)
    assert numbers(one) != numbers(other)
    assert one.signature != other.signature
    assert other.signature.fields["version"] == __version__
