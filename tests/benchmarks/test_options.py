"""Every public option of a benchmark: if it changes a number, it changes the signature.

The options are found by introspection, so a new one fails here until it is listed: among the options that change
numbers, or among those that change none, which is checked by running both.
"""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

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

SIXTY_TEXTS = [(f"the {'good' if row % 3 else 'bad'} text {row * 7 % 60}", row % 2) for row in range(60)]

YES_NO_DATASET = Dataset.from_rows(
    SIXTY_TEXTS,
    name="own",
    label_space=["no", "yes"],
    split=SplitSizes(calibration=0, demonstration=40, test=20),
    alternatives=TemplateAlternatives(
        instruction=("", "Choose. ", "Answer. "),
        input_text_prefixes=(("a: ",), ("b: ",), ("c: ",)),
        label_prefix=("l: ", "m: ", "n: "),
        label_affix=("\n", " ", "\t"),
    ),
)
"""Data of the user with 20 test rows."""


def hash_probabilities(prompt: Any, label_space: list[str]) -> list[float]:
    """Predict probabilities that are in proportion to hashes of prompt and label."""
    text = prompt if isinstance(prompt, str) else "\0".join(prompt)
    weights = [1 + hashlib.sha256(f"{text}\0{label}".encode()).digest()[0] for label in label_space]
    return [weight / sum(weights) for weight in weights]


def repeat_prediction_of_first(prompt: Any, label_space: list[str]) -> Any:
    """Predict as ``hash_probabilities``, but for all prompts of a batch as for its first one."""
    if isinstance(prompt, list):
        return [hash_probabilities(prompt[0], label_space)] * len(prompt)
    return hash_probabilities(prompt, label_space)


def reply_with_or_without_label(prompt: Any, label_space: list[str]) -> str:
    """Reply "no", "yes" or "?", which is no label, to about a third of the prompts each."""
    digest = hashlib.sha256(str(prompt).encode()).digest()
    return ["no", "yes", "?"][digest[0] % 3]


def own_metric(truth: list[int], rows: list[list[float]]) -> float:
    return sum(truth) + rows[0][0]


OTHER_VALUE_OF_OPTION: dict[str, Any] = {
    "k": 2,
    "noisy_channel": True,
    "metrics": "0.1.1",
    "datasets": ["mini"],
    "limit": 5,
    "outputs": "logits",
    "statistics": Statistics(level=0.5),
    "domain_query_length": 4,
    "interpolations": 3,
    "draws": 3,
    "templates": 2,
    "unparsed": "wrong",
    "sampler": "nested",
}
"""A value of every option of a benchmark's constructor that is not the default one."""

OPTIONS_WITHOUT_EFFECT = [
    ("post-bias", "domain_query_length"),  # posterior bias has real queries; 0.1.1 had the parameter
    # a reply without a label counts as wrong, or is left out, only where accuracy is scored:
    ("contextual-bias", "unparsed"),
    ("domain-bias", "unparsed"),
    ("post-bias", "unparsed"),
    ("triplet-bias", "unparsed"),
    ("template", "unparsed"),
    ("demonstration", "unparsed"),
]
"""Benchmarks, each with an option of its constructor that changes no number."""

REFUSED_OPTIONS = [("generalisation", "sampler")]
"""Other values end with an error: draws are a factor only if all test rows share their demonstrations."""

BENCHMARKS_OF_FROZEN_DATA = [name for name in BENCHMARKS if name not in ("long-icl", "helmet")]
"""LongICL and HELMET have tests of their options of their own."""


def options_of(benchmark: str) -> list[str]:
    """Return the names of the options of a benchmark's constructor."""
    parameters = inspect.signature(BENCHMARKS[benchmark]).parameters.values()
    own_options = [parameter.name for parameter in parameters if parameter.kind is not parameter.VAR_KEYWORD]
    return [*own_options, *Settings.__annotations__]


BENCHMARKS_AND_OPTIONS = [(name, option) for name in BENCHMARKS_OF_FROZEN_DATA for option in options_of(name)]

OPTIONS_WITH_EFFECT = [
    (name, option)
    for name, option in BENCHMARKS_AND_OPTIONS
    if (name, option) not in OPTIONS_WITHOUT_EFFECT and (name, option) not in REFUSED_OPTIONS
]


def benchmark_on_own_data(name: str, **options: Any) -> Any:
    """Return a benchmark on twelve test rows of data of the user, with other options."""
    return BENCHMARKS[name](**{"datasets": [YES_NO_DATASET], "limit": 12, **options})


def results_in(result: Result | ResultGroup) -> list[Result]:
    """Return the results of a group, or a single result alone."""
    return [result] if isinstance(result, Result) else list(result.results())


def numbers_of(result: Result) -> dict[str, Any]:
    """Return all fields of a result but those that say who predicted, how, when and where."""
    about_the_run = ("arguments", "signature", "provenance", "timing", "environment", "with_divided")
    return {key: value for key, value in result.to_dict().items() if key not in about_the_run}


class ChangedOption(NamedTuple):
    """The results of two runs that differ in one option."""

    default: list[Result]
    changed: list[Result]


def run_with_changed_option(name: str, option: str) -> ChangedOption:
    """Run a benchmark twice, the second time with another value of an option.

    For the policy for replies without a label, the model generates such replies, and the default is to leave them out.
    """
    default_options: dict[str, Any] = {}
    model: Any = hash_probabilities
    if option == "unparsed":
        default_options = {"unparsed": "excluded"}
        model = reply_with_or_without_label
    default = benchmark_on_own_data(name, **default_options)(model)
    changed = benchmark_on_own_data(name, **{option: OTHER_VALUE_OF_OPTION[option]})(model)
    return ChangedOption(results_in(default), results_in(changed))


@pytest.mark.parametrize("name", BENCHMARKS_OF_FROZEN_DATA)
def test_every_option_of_a_benchmark_is_tested_here(name: str) -> None:
    assert set(options_of(name)) <= OTHER_VALUE_OF_OPTION.keys(), "list a new option, with another value of it"


@pytest.mark.parametrize(("name", "option"), OPTIONS_WITH_EFFECT)
def test_an_option_that_changes_a_number_is_in_the_signature(name: str, option: str) -> None:
    """The digest of the prompts, and the number of failures, do not show which option it was."""
    results = run_with_changed_option(name, option)

    some_number_differs = False
    for before, after in zip(results.default, results.changed, strict=True):
        differing_fields = set(before.signature.differences(after.signature))
        assert "scoring" not in differing_fields, before.benchmark
        if numbers_of(before) != numbers_of(after):
            some_number_differs = True
            assert differing_fields - {"prompts", "failed"}, before.benchmark
    assert some_number_differs


@pytest.mark.parametrize(("name", "option"), OPTIONS_WITHOUT_EFFECT)
def test_an_option_that_changes_no_number(name: str, option: str) -> None:
    """Such an option changes no signature either. The policy for replies without a label is in every signature."""
    results = run_with_changed_option(name, option)

    for before, after in zip(results.default, results.changed, strict=True):
        assert numbers_of(before) == numbers_of(after), before.benchmark
        assert "scoring" not in before.signature.differences(after.signature), before.benchmark
        if option != "unparsed":
            assert before.signature == after.signature, before.benchmark


SETTINGS_OF_RUN: dict[str, Any] = {
    "store": "store.sqlite",
    "model_name": "a name",
    "executor": lambda: ThreadPoolExecutor(2),
    "on_error": "collect",
    "chunk_size": 2,
    "progress": lambda progress: None,
    "recheck": False,
    "on_result": lambda result: None,
}
"""A value of every setting of a run that is not the default one."""


@pytest.mark.parametrize("name", ["normal", "gler", "triplet-bias"])
@pytest.mark.parametrize("setting", SETTINGS_OF_RUN)
def test_a_setting_of_the_run_changes_no_number(
    setting: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A function needs a name with a store, which is in the provenance."""
    monkeypatch.chdir(tmp_path)
    settings = {setting: SETTINGS_OF_RUN[setting]}
    if setting == "store":
        settings["model_name"] = "a name"

    plain = benchmark_on_own_data(name)(hash_probabilities)
    with_setting = benchmark_on_own_data(name)(hash_probabilities, **settings)

    for before, after in zip(results_in(plain), results_in(with_setting), strict=True):
        assert numbers_of(before) == numbers_of(after), before.benchmark
        assert before.signature == after.signature, before.benchmark
        if "model_name" not in settings:
            assert before.provenance == after.provenance, before.benchmark


@pytest.mark.parametrize("name", ["normal", "gler", "triplet-bias"])
def test_a_run_from_a_store_equals_the_one_that_filled_it(name: str, tmp_path: Path) -> None:
    benchmark = benchmark_on_own_data(name)
    store = tmp_path / "store.sqlite"

    first = benchmark(hash_probabilities, store=store, model_name="a name")
    from_store = benchmark(hash_probabilities, store=store, model_name="a name")

    assert from_store == first


def test_a_batched_call_is_in_the_signature() -> None:
    """A batched function gets the whole list, and its predictions may depend on it."""
    benchmark = benchmark_on_own_data("normal")

    one_by_one = benchmark(repeat_prediction_of_first)
    batched = benchmark(repeat_prediction_of_first, batched_inference=True)

    assert numbers_of(one_by_one) != numbers_of(batched)
    assert one_by_one.signature.differences(batched.signature) == {"scoring": ("function", "function;batched")}


def test_given_predictions_are_in_the_signature() -> None:
    """Nothing is known of how they were computed, though their scores are those of a run."""
    benchmark = benchmark_on_own_data("normal")
    label_space = benchmark[0].get_label_space()
    rows = [hash_probabilities(prompt, label_space) for prompt in benchmark[0].prompt_set()]

    given = benchmark(preentered_prediction=[rows])
    of_function = benchmark(hash_probabilities)

    assert numbers_of(given) == numbers_of(of_function)
    assert given.signature.differences(of_function.signature) == {"scoring": ("given", "function")}
    assert given.provenance != of_function.provenance


def test_each_setting_of_early_stopping_is_in_the_signature() -> None:
    """Also where all rows are evaluated, as with a precision of 1e-9."""
    benchmark = benchmark_on_own_data("normal", outputs="logits")

    complete = benchmark(hash_probabilities).signature
    stopped = [
        benchmark(hash_probabilities, precision=1e-9, score="accuracy").signature,
        benchmark(hash_probabilities, precision=1e-9, score="likelihood").signature,
        benchmark(hash_probabilities, precision=0.4, score="accuracy").signature,
        benchmark(hash_probabilities, precision=0.4, score="likelihood").signature,
    ]

    assert len({complete, *stopped}) == 5, "all are different"
    assert "stopping" not in complete.fields
    for signature in stopped:
        assert "stopping" in signature.fields


# -- a limit


@pytest.mark.parametrize("name", ["normal", "gler", "template", "suite"])
@pytest.mark.parametrize("limit", [20, 10**9], ids=["number of test rows", "far above it"])
def test_a_limit_of_all_test_rows_or_more_is_as_no_limit(name: str, limit: int) -> None:
    without_limit = benchmark_on_own_data(name, limit=None)(hash_probabilities)
    with_limit = benchmark_on_own_data(name, limit=limit)(hash_probabilities)

    assert with_limit == without_limit


@pytest.mark.parametrize("name", ["normal", "gler", "template", "suite"])
def test_a_limit_below_the_number_of_test_rows_is_in_the_signature(name: str) -> None:
    result = benchmark_on_own_data(name, limit=19)(hash_probabilities)

    for part in results_in(result):
        assert part.signature.fields["limit"] == "19", part.benchmark


@pytest.mark.parametrize(
    "datasets", [[YES_NO_DATASET, "mini"], ["mini", YES_NO_DATASET]], ids=["cut one last", "cut one first"]
)
def test_a_limit_that_cuts_one_of_two_data_sets_is_in_the_signature(datasets: list[Any]) -> None:
    """The own data have 20 test rows, ``mini`` has more. The benchmark can be made again from the number."""

    def signature_with_limit(limit: int | None) -> Any:
        return benchmark_on_own_data("normal", datasets=datasets, limit=limit).signature()

    assert "limit" not in signature_with_limit(None).fields
    assert signature_with_limit(20).fields["limit"] == "20"
    differences = signature_with_limit(20).differences(signature_with_limit(21))
    assert differences.keys() == {"limit", "prompts"}


# -- metrics of the user


def metric_with_default(truth: list[int], rows: list[list[float]], weight: float = 3.0) -> float:
    return weight * rows[0][0]


def scaled_metric(factor: float) -> Callable[..., float]:
    """Return a metric: the first score of the first query, times a factor."""
    return lambda truth, rows: factor * rows[0][0]


def with_metric_in_dictionary(function: Callable[..., float]) -> Benchmark:
    return benchmark_on_own_data("normal", metrics={"mine": function})


def with_metric_in_metric_set(function: Callable[..., float]) -> Benchmark:
    from StaICC.metrics.metric_set import Metric, metric_set

    return benchmark_on_own_data("normal", metrics=metric_set("standard").adding(Metric("mine", function)))


def with_added_metric(function: Callable[..., float]) -> Benchmark:
    benchmark = benchmark_on_own_data("normal")
    benchmark[0].add_metric("mine", function)
    return benchmark


WAYS_TO_USE_A_METRIC = pytest.mark.parametrize(
    "benchmark_with_metric", [with_metric_in_dictionary, with_metric_in_metric_set, with_added_metric]
)


@WAYS_TO_USE_A_METRIC
def test_own_metrics_of_one_name_are_told_apart_by_their_code(benchmark_with_metric: Any) -> None:
    """The last two are closures with the same source, and different factors."""
    metrics = [own_metric, metric_with_default, scaled_metric(1.0), scaled_metric(2.0)]

    results = [benchmark_with_metric(metric)(hash_probabilities) for metric in metrics]

    assert len({result.averaged["mine"] for result in results}) == 4
    assert len({result.signature for result in results}) == 4
    for result in results:
        assert "mine@" in result.signature.fields["metrics"]


@WAYS_TO_USE_A_METRIC
def test_the_same_own_metric_has_the_same_signature(benchmark_with_metric: Any) -> None:
    first = benchmark_with_metric(scaled_metric(3.0)).signature()
    second = benchmark_with_metric(scaled_metric(3.0)).signature()

    assert first == second


# -- tasks and methods of the user


def own_method(name: str, direction: int) -> Method:
    """Return a method of the user with this name, which keeps the scores of two labels (1) or exchanges them (-1).

    Both have the same source: they differ in a variable of the closure.
    """

    def steps(data: Any) -> Any:
        (rows,) = yield [data.ask()]
        return [row[::direction] for row in rows]

    return Method(MethodSpec(name, "Mine", steps), hash_probabilities)


@pytest.mark.parametrize("name", ["mine", "vanilla", "knn_prompt"])
def test_own_methods_of_one_name_are_told_apart_by_their_code(name: str) -> None:
    """The name may be that of a built-in method."""
    benchmark = benchmark_on_own_data("normal")

    kept: Any = own_method(name, direction=1).run(benchmark)
    exchanged: Any = own_method(name, direction=-1).run(benchmark)
    kept_again = own_method(name, direction=1).run(benchmark)

    assert numbers_of(kept) != numbers_of(exchanged)
    assert kept.signature.differences(exchanged.signature).keys() == {"method"}
    assert kept_again == kept


def test_an_own_method_called_vanilla_is_told_apart_from_the_model_alone() -> None:
    benchmark = benchmark_on_own_data("normal")

    by_method: Any = own_method("vanilla", direction=1).run(benchmark)
    by_model = benchmark(hash_probabilities)

    assert by_method.signature.fields.get("method") != by_model.signature.fields.get("method")


# -- controls of an experimentor


def set_k(experimentor: Experimentor) -> None:
    experimentor.set_k(2)


def set_demonstrations_by_hand(experimentor: Experimentor) -> None:
    experimentor.set_demonstration_sampler([[3, 2, 1, 0]] * len(experimentor.test_set()))


def set_in_domain_mode(experimentor: Experimentor) -> None:
    experimentor.set_in_domain_mode()


def set_out_of_domain_mode(experimentor: Experimentor) -> None:
    experimentor.set_out_of_domain_mode()


def add_metric(experimentor: Experimentor) -> None:
    experimentor.add_metric("mine", own_metric)


@pytest.mark.parametrize(
    "change", [set_k, set_demonstrations_by_hand, set_in_domain_mode, set_out_of_domain_mode, add_metric]
)
def test_a_control_of_an_experimentor_changes_numbers_and_signature(change: Callable[[Experimentor], None]) -> None:
    default_benchmark = benchmark_on_own_data("normal", limit=None)
    changed_benchmark = benchmark_on_own_data("normal", limit=None)
    change(changed_benchmark[0])

    default, changed = default_benchmark(hash_probabilities), changed_benchmark(hash_probabilities)

    assert numbers_of(default) != numbers_of(changed)
    assert default.signature != changed.signature
    assert changed.signature.fields["version"] == __version__
