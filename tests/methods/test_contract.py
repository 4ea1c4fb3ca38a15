"""The contract of methods: no labels of test rows, no kernel, measured cost, refusal before the first query."""

from __future__ import annotations

import contextlib
import itertools
import time
import types
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from StaICC import Dataset, Normal
from StaICC.benchmarks.builtin import Suite
from StaICC.benchmarks.tasks.label_noise import GLER
from StaICC.benchmarks.verify import verify
from StaICC.datasets.catalogue import SplitSizes, Template
from StaICC.datasets.table import Row
from StaICC.errors import ArgumentError
from StaICC.methods import run as ms
from StaICC.methods.contract import MethodSpec, experimentor_of
from StaICC.methods.features import FeatureCache
from StaICC.methods.forecast import forecast_method
from StaICC.methods.requests import Request, prompt_keys
from tests.methods.fakes import METHODS_WITH_VARIANTS, Kernel, benchmark_on_mini, data_for_a_method, predictions_of

PLAIN_TYPES = (types.ModuleType, types.CodeType, type, str, bytes, int, float)
"""Types of objects whose attributes lead to nothing of a run."""
ATTRIBUTES_WITH_OBJECTS = {
    *("__dict__", "__closure__", "cell_contents", "__self__", "__func__", "__defaults__", "__wrapped__"),
    *("func", "args", "keywords", "gi_frame", "f_locals"),
}
"""Attributes of functions, bound methods, partials, generators and frames by which code can reach other objects."""


def attribute_names(value: Any) -> set[str]:
    """Return the names of the attributes of an object that may hold other objects."""
    names = set(ATTRIBUTES_WITH_OBJECTS)
    for base in type(value).__mro__:
        names.update(getattr(base, "__slots__", ()))
    if type(value).__module__.startswith("StaICC"):
        names.update(name for name in dir(value) if not name.startswith("__"))
    return names


def neighbours(value: Any) -> list[Any]:
    """Return the objects that an object holds as attributes or items."""
    objects = []
    for name in attribute_names(value):
        with contextlib.suppress(Exception):  # an attribute may refuse to be read
            objects.append(getattr(value, name))
    if isinstance(value, dict):
        objects += [*value.keys(), *value.values()]
    elif isinstance(value, (list, tuple, set, frozenset)):
        objects += value
    return objects


def reachable_objects(start: Any) -> list[Any]:
    """Return all objects that can be reached from one by attributes and items, in any number of steps."""
    objects_by_id: dict[int, Any] = {}
    to_visit = [start]
    while to_visit:
        value = to_visit.pop()
        if id(value) not in objects_by_id and not isinstance(value, PLAIN_TYPES):
            objects_by_id[id(value)] = value
            to_visit += neighbours(value)
    return list(objects_by_id.values())


SECRET_ROWS = [(f"secret {number} {number * 7 % 3}", number * 7 % 3) for number in range(60)]
"""Rows of three labels (0, 1 and 2)."""
SECRET_DATA = Dataset.from_rows(
    SECRET_ROWS,
    name="own",
    label_space=["a", "b", "c"],
    split=SplitSizes(calibration=20, demonstration=30, test=10),
)


def normal_benchmark() -> Any:
    return Normal(k=1, datasets=[SECRET_DATA])


def label_noise_benchmark() -> Any:
    return GLER(k=1, datasets=[SECRET_DATA])


def in_domain_benchmark() -> Any:
    """Return a benchmark whose demonstrations are chosen by the true labels of the test rows."""
    benchmark = normal_benchmark()
    benchmark[0].set_in_domain_mode()
    return benchmark


def in_domain_label_noise_benchmark() -> Any:
    benchmark = label_noise_benchmark()
    benchmark[0].set_in_domain_mode()
    return benchmark


SECRET_BENCHMARKS = pytest.mark.parametrize(
    "make_benchmark",
    [normal_benchmark, label_noise_benchmark, in_domain_benchmark, in_domain_label_noise_benchmark],
)


def objects_reached_by_a_spy(benchmark: Any, kernel: Any) -> list[Any]:
    """Run a method that collects all objects that it can reach, before and after its request, and return them."""
    objects: list[Any] = []

    def spy(data: Any) -> Any:
        objects.extend(reachable_objects(data))
        rows = yield [data.ask()]
        objects.extend(reachable_objects(rows))
        return rows[0]

    ms.Method(MethodSpec("spy", "Spy", spy), kernel).run(benchmark)
    assert len(objects) > 300, "the spy hardly reaches anything"
    return objects


@SECRET_BENCHMARKS
def test_a_method_reaches_the_texts_of_test_rows_with_the_first_label_in_the_place_of_all(make_benchmark: Any) -> None:
    benchmark = make_benchmark()

    objects = objects_reached_by_a_spy(benchmark, Kernel())

    test_set = benchmark[0].test_set()
    test_texts = {test_set.texts(row) for row in range(10)}
    test_rows = [value for value in objects if isinstance(value, Row) and value.texts in test_texts]
    assert {row.texts for row in test_rows} == test_texts
    assert {row.label for row in test_rows} == {0}, "a true label"


@SECRET_BENCHMARKS
def test_a_method_reaches_neither_kernel_nor_data_set_nor_experimentor(make_benchmark: Any) -> None:
    benchmark = make_benchmark()
    kernel = Kernel()

    objects = objects_reached_by_a_spy(benchmark, kernel)

    for value in objects:
        assert value is not kernel
        assert value is not SECRET_DATA
        assert value is not benchmark[0]


@SECRET_BENCHMARKS
def test_queries_of_a_method_refuse_to_say_their_label(make_benchmark: Any) -> None:
    data = data_for_a_method(make_benchmark())

    for query in [*data.queries, *data.conditions[0].queries]:
        with pytest.raises(ArgumentError, match="a method does not get the labels of test queries"):
            query.label  # noqa: B018


@SECRET_BENCHMARKS
def test_predictions_of_a_method_are_scored_with_the_true_labels(make_benchmark: Any) -> None:
    of_method = ms.Method("vanilla", Kernel()).run(make_benchmark())
    of_kernel = make_benchmark()(Kernel())

    assert dict(of_method) == dict(of_kernel)


class CountingKernel(Kernel):
    """A kernel that counts tokens: a token for each character that it reads, and a generated one for each prompt."""

    @property
    def tokens_used(self) -> tuple[int, int]:
        """The tokens that were read, and those that were generated."""
        characters = sum(len(prompt) for prompt in self.ran)
        return characters, len(self.ran)


@pytest.mark.parametrize(("name", "variant"), METHODS_WITH_VARIANTS)
def test_the_harness_counts_what_the_kernel_runs(name: str, variant: str) -> None:
    """Not what a method says of itself: every prompt of training and test, samples and reasoning included."""
    options: dict[str, Any] = {"samples": 3, "reasoning": True} if name == "generate" else {}
    kernel = CountingKernel()

    timing = ms.Method(name, kernel, variant, 12, **options).run(benchmark_on_mini()).timing

    tokens_read = timing["training_tokens_read"] + timing["test_tokens_read"]
    tokens_generated = timing["training_tokens_generated"] + timing["test_tokens_generated"]
    assert timing["training_prompts"] + timing["test_prompts"] == len(kernel.ran)
    assert timing["training_prompts"] <= len(set(kernel.ran))
    assert (tokens_read, tokens_generated) == kernel.tokens_used


def test_the_time_of_a_methods_own_steps_is_that_of_their_phase() -> None:
    def slow(data: Any) -> Any:
        yield [data.ask("probabilities", ["a prompt"], role="train")]
        time.sleep(0.1)
        (rows,) = yield [data.ask()]
        return rows

    timing = ms.Method(MethodSpec("slow", "Slow", slow), Kernel()).run(benchmark_on_mini()).timing
    assert timing["training_seconds"] > 0.1


def test_vocabulary_rows_beyond_the_memory_are_computed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("StaICC.methods.features._MEMORY", 95)  # a row has 48 bytes, so there is no room for two
    kernel = Kernel()
    cache = FeatureCache(kernel)
    request = Request("vocabulary", prompt_keys(["a", "b"]))

    (first_rows,) = cache.rows([request])
    (second_rows,) = cache.rows([request])

    assert [row.tolist() for row in second_rows] == [row.tolist() for row in first_rows]
    assert kernel.ran == ["a", "b", "b"]


def call_in_a_thread(kernel: Any, use: Callable[[Any], Any]) -> None:
    with ThreadPoolExecutor(1) as pool:
        pool.submit(use, kernel).exception()


def call_twice_and_catch_errors(kernel: Any, use: Callable[[Any], Any]) -> None:
    for _ in range(2):
        with contextlib.suppress(ArgumentError):
            use(kernel)


def call_directly(kernel: Any, use: Callable[[Any], Any]) -> None:
    use(kernel)


def predict_a_prompt(kernel: Any) -> Any:
    return kernel(prompt="behind the harness", label_space=["a", "b"])


def predict_a_batch(kernel: Any) -> Any:
    return kernel.batch(["behind the harness"], ["a", "b"])


USES = pytest.mark.parametrize("use", [predict_a_prompt, predict_a_batch])
WAYS = pytest.mark.parametrize("call", [call_directly, call_twice_and_catch_errors, call_in_a_thread])


@USES
@WAYS
def test_a_method_that_calls_the_kernel_before_its_first_request_is_refused(call: Any, use: Any) -> None:
    kernel = CountingKernel()

    def calls_first(data: Any) -> Any:
        call(kernel, use)
        (rows,) = yield [data.ask()]
        return rows

    with pytest.raises(ArgumentError, match=r"Mine.* calls the kernel by itself"):
        ms.Method(MethodSpec("mine", "Mine", calls_first), kernel).run(benchmark_on_mini())


@USES
@WAYS
def test_a_method_that_calls_the_kernel_after_its_first_request_is_refused(call: Any, use: Any) -> None:
    kernel = CountingKernel()

    def calls_later(data: Any) -> Any:
        (rows,) = yield [data.ask()]
        call(kernel, use)
        return rows

    with pytest.raises(ArgumentError, match=r"Mine.* calls the kernel by itself"):
        ms.Method(MethodSpec("mine", "Mine", calls_later), kernel).run(benchmark_on_mini())


@USES
@WAYS
@pytest.mark.parametrize("is_before", [True, False], ids=["before the first request", "after it"])
def test_a_kernel_that_a_method_called_by_itself_can_be_used_by_other_methods(
    is_before: bool, call: Any, use: Any
) -> None:
    kernel = CountingKernel()

    def calls_the_kernel(data: Any) -> Any:
        if is_before:
            call(kernel, use)
        (rows,) = yield [data.ask()]
        call(kernel, use)
        return rows

    with pytest.raises(ArgumentError):
        ms.Method(MethodSpec("mine", "Mine", calls_the_kernel), kernel).run(benchmark_on_mini())

    assert ms.Method("vanilla", kernel).run(benchmark_on_mini()).complete


def text_kernel(make_model: Any, make_tokenizer: Any) -> Any:
    from StaICC.kernels.huggingface.kernel import CausalLMKernel

    return CausalLMKernel(make_model("Llama", max_position_embeddings=2048), make_tokenizer())


METHODS_OF_A_LOCAL_MODEL = (
    "vanilla",
    "noisy_channel",
    "ppl_icl",
    "hidden_calibration",
    "knn_prompt",
    "contextual_calibration",
)


def tokens_read(timing: dict[str, float]) -> float:
    """The tokens that a method read in both phases."""
    return timing["training_tokens_read"] + timing["test_tokens_read"]


@pytest.mark.parametrize("name", METHODS_OF_A_LOCAL_MODEL)
def test_tokens_of_a_local_model_are_those_of_its_forecast(name: str, make_model: Any, make_tokenizer: Any) -> None:
    """Counted by the kernel while it runs; the forecast counts them by the tokenizer before."""
    pytest.importorskip("torch")
    benchmark = benchmark_on_mini(limit=2, k=1, unparsed="wrong")
    kernel = text_kernel(make_model, make_tokenizer)
    forecast = forecast_method(name, kernel, [benchmark], calibration_number=9, probe_seconds=0)
    before, _ = kernel.tokens_used

    timing = ms.Method(name, kernel, calibration_number=9).run(benchmark).timing

    after, _ = kernel.tokens_used
    assert tokens_read(timing) == after - before
    assert (timing["training_tokens_read"] > 0) is (timing["training_prompts"] > 0)
    if name != "ppl_icl":  # its prompts depend on what it learns
        assert forecast.tokens == after - before


def test_the_cost_of_a_method_in_a_table_is_that_of_its_own_run(make_model: Any, make_tokenizer: Any) -> None:
    """Whatever another method computed before: the kernel itself runs each prompt once for all of them."""
    pytest.importorskip("torch")
    benchmark = benchmark_on_mini(limit=2, k=1, unparsed="wrong")
    alone = {}
    for name in METHODS_OF_A_LOCAL_MODEL:
        method = ms.Method(name, text_kernel(make_model, make_tokenizer), calibration_number=9)
        alone[name] = tokens_read(method.run(benchmark).timing)
    kernel = text_kernel(make_model, make_tokenizer)

    table = ms.run_all(kernel, benchmark, calibration_number=9, methods=[*METHODS_OF_A_LOCAL_MODEL, "generate"])

    *rows, row_of_generate = table.curve()
    assert {row["method"]: row["tokens"] for row in rows} == alone
    timing = table["generate"].timing
    assert row_of_generate["tokens"] == timing["test_tokens_read"] + timing["test_tokens_generated"]
    used_by_the_table, _ = kernel.tokens_used
    assert used_by_the_table < sum(alone.values())


def test_the_curve_has_score_and_cost_of_each_method() -> None:
    methods = ["vanilla", "contextual_calibration"]
    table = ms.run_all(Kernel(), benchmark_on_mini(), methods=methods, calibration_number=4)

    vanilla, calibration = table.curve()

    assert (vanilla["method"], vanilla["title"]) == ("vanilla", ms.METHODS["vanilla"].title)
    assert calibration["method"] == "contextual_calibration"
    assert calibration["title"] == ms.METHODS["contextual_calibration"].title
    for row, result in zip([vanilla, calibration], table.results(), strict=True):
        interval = result.means.intervals["accuracy"]
        assert row["prompts"] == result.timing["training_prompts"] + result.timing["test_prompts"]
        assert row["accuracy"] == result.averaged["accuracy"]
        assert (row["low"], row["high"]) == (interval.low, interval.high)


def test_tokens_are_undefined_for_a_kernel_that_does_not_count_them() -> None:
    (row,) = ms.run_all(Kernel(), benchmark_on_mini(), methods=["vanilla"]).curve()

    assert row["tokens"] is None


def test_tokens_of_a_method_with_a_failed_prompt_are_undefined(make_model: Any, make_tokenizer: Any) -> None:
    """The empty text fails; the other method has its tokens."""
    pytest.importorskip("torch")

    def with_an_empty_text(data: Any) -> Any:
        _, rows = yield [data.ask("losses", ["", "readable"], role="train"), data.ask()]
        return rows

    kernel = text_kernel(make_model, make_tokenizer)
    methods = [MethodSpec("broken", "Broken", with_an_empty_text), "vanilla"]
    benchmark = benchmark_on_mini(limit=2, k=1, unparsed="wrong")

    broken, vanilla = ms.run_all(kernel, benchmark, methods=methods, on_error="collect").curve()

    alone = ms.Method("vanilla", text_kernel(make_model, make_tokenizer)).run(benchmark)
    assert broken["tokens"] is None
    assert vanilla["tokens"] == tokens_read(alone.timing)


def test_tokens_of_all_samples_are_counted(make_model: Any, make_tokenizer: Any) -> None:
    """Two samples of four queries (two rows, two repeats): each has one to three tokens."""
    pytest.importorskip("torch")
    kernel = text_kernel(make_model, make_tokenizer)
    method = ms.Method("generate", kernel, samples=2, max_new_tokens=3)

    timing = method.run(benchmark_on_mini(limit=2, k=1, unparsed="wrong"), on_error="collect").timing

    assert (timing["test_tokens_read"], timing["test_tokens_generated"]) == kernel.tokens_used
    assert 2 * 4 * 1 <= timing["test_tokens_generated"] <= 2 * 4 * 3


LEFT_OUT = {"ppl_icl": "Template_sens", "topk": "Demo_sens", "sa_icl": "Demo_sens", "ensemble": "Demo_sens"}
"""By method: the benchmark of the suite that would set what the method sets itself."""


def suite_on_mini() -> Suite:
    return Suite(k=2, datasets=["mini"], limit=2)


@pytest.mark.parametrize(("method", "left_out"), LEFT_OUT.items())
def test_only_the_benchmark_of_a_suite_that_does_not_fit_is_left_out(method: str, left_out: str) -> None:
    results: Any = ms.Method(method, Kernel(), calibration_number=4).run(suite_on_mini())

    assert list(results) == [name for name in suite_on_mini().members if name != left_out]
    assert left_out in results.skipped[left_out]
    assert f"left out: {results.skipped[left_out]}" in str(results)
    for result in results.results():
        assert result.complete


@pytest.mark.parametrize(
    ("method", "other_method"),
    [("ppl_icl", "topk"), ("topk", "ppl_icl"), ("sa_icl", "ppl_icl"), ("ensemble", "ppl_icl")],
)
def test_a_table_of_methods_that_leave_out_different_benchmarks_is_verified(method: str, other_method: str) -> None:
    methods = ["vanilla", method, other_method]

    table = ms.run_all(Kernel(), suite_on_mini(), calibration_number=4, methods=methods)

    for finding in verify(table):
        assert finding.contradicted == ()
    alone: Any = ms.Method(method, Kernel(), calibration_number=4).run(suite_on_mini())
    assert f"left out: {alone.skipped[LEFT_OUT[method]]}" in str(table)


@pytest.mark.parametrize(("method", "benchmark_name"), LEFT_OUT.items())
def test_a_benchmark_that_does_not_fit_is_refused_on_its_own(method: str, benchmark_name: str) -> None:
    kernel = Kernel()

    with pytest.raises(ArgumentError, match=benchmark_name):
        ms.Method(method, kernel, calibration_number=4).run(suite_on_mini()[benchmark_name])
    assert kernel.ran == []


class UniformModel:
    """A plain function of probabilities, which counts its calls."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, prompt: str, label_space: list[str]) -> list[float]:
        self.calls += 1
        return [1 / len(label_space)] * len(label_space)


def method_that_requests(feature: str) -> MethodSpec:
    """Return a method that requests a feature of a prompt; its record does not declare it."""

    def steps(data: Any) -> Any:
        rows, _ = yield [data.ask(), data.ask(feature, ["a prompt"], role="train")]
        return rows

    return MethodSpec("mine", "Mine", steps)


FEATURES = pytest.mark.parametrize(
    ("feature", "title"), [("log_probabilities", "log-probabilities"), ("hidden", "hidden states")]
)


@FEATURES
def test_a_feature_that_the_model_lacks_is_refused_before_the_first_query(feature: str, title: str) -> None:
    model = UniformModel()

    with pytest.raises(ArgumentError, match=f"Mine.* needs {title}, .*; it provides label scores\\."):
        ms.Method(method_that_requests(feature), model).run(benchmark_on_mini())
    assert model.calls == 0


@FEATURES
def test_a_table_skips_a_method_that_requests_a_feature_that_the_model_lacks(feature: str, title: str) -> None:
    methods = ["vanilla", method_that_requests(feature)]

    table = ms.run_all(UniformModel(), benchmark_on_mini(), methods=methods)

    assert list(table) == ["vanilla"]
    assert title in table.skipped["mine"]


@pytest.mark.parametrize("yielded", [None, "probabilities", ["probabilities"]])
def test_a_method_that_yields_no_requests_is_refused(yielded: Any) -> None:
    def method(data: Any) -> Any:
        rows = yield yielded
        return rows

    with pytest.raises(ArgumentError, match=r"Mine.*expected a list of requests: yield \[data\.ask\(\.\.\.\)\]"):
        ms.Method(MethodSpec("mine", "Mine", method), Kernel()).run(benchmark_on_mini())


def changes_its_rows(data: Any) -> Any:
    """Reverse the probabilities of a request in place, and set encodings to zero."""
    rows, same_rows, encodings = yield [data.ask(), data.ask(), data.ask("hidden")]
    for row, encoding in zip(rows, encodings, strict=True):
        row.reverse()
        encoding[:] = 0.0
    for row, unchanged_row in zip(rows, same_rows, strict=True):
        assert row == unchanged_row[::-1], "a change in one request changed the other"
    return rows


@pytest.mark.parametrize("other_method", ["vanilla", "batch_calibration", "topk"])
def test_a_method_that_changes_its_rows_changes_no_other_method(other_method: str) -> None:
    methods = [MethodSpec("mine", "Mine", changes_its_rows), other_method]

    table = ms.run_all(Kernel(), benchmark_on_mini(), methods=methods)

    alone = ms.Method(other_method, Kernel()).run(benchmark_on_mini())
    assert list(table) == ["mine", other_method]
    assert dict(table[other_method]) == dict(alone)


@pytest.mark.parametrize("mode", ["in_domain", "out_of_domain"])
def test_a_method_cannot_draw_demonstrations_by_labels_that_it_does_not_know(mode: str) -> None:
    def method(data: Any) -> Any:
        getattr(experimentor_of(data), f"set_{mode}_mode")()  # behind the contract
        (rows,) = yield [data.ask()]
        return rows

    with pytest.raises(ArgumentError, match="labels of test rows, which a method does not know"):
        ms.Method(MethodSpec("mine", "Mine", method), Kernel()).run(benchmark_on_mini())


def test_a_function_of_texts_can_be_a_feature_of_the_queries() -> None:
    """A method that predicts the length of a prompt modulo the three labels."""

    def method(data: Any) -> Any:
        (lengths,) = yield [data.ask(lambda texts: [[len(text)] for text in texts])]
        return [length % 3 for (length,) in lengths]

    benchmark = benchmark_on_mini()
    result: Any = ms.Method(MethodSpec("mine", "Mine", method), Kernel()).run(benchmark)

    predictions = [query.prediction for query in result.queries()]
    assert predictions == [len(query.prompt) % 3 for query in benchmark[0].all_queries()]


def test_one_method_by_its_name() -> None:
    assert [*ms.run_all(Kernel(), benchmark_on_mini(), methods="vanilla")] == ["vanilla"]


def test_a_method_may_request_nothing() -> None:
    def always_first_label(data: Any) -> Any:
        yield from ()
        return [0] * len(data.queries)

    kernel = Kernel()
    result = ms.Method(MethodSpec("mine", "Mine", always_first_label), kernel).run(benchmark_on_mini())

    assert result.timing["test_prompts"] == 0
    assert kernel.ran == []


def test_two_methods_of_a_table_may_request_nothing() -> None:
    def always_first_label(data: Any) -> Any:
        yield from ()
        return [0] * len(data.queries)

    methods = [MethodSpec("one", "One", always_first_label), MethodSpec("two", "Two", always_first_label)]
    one, two = ms.run_all(Kernel(), benchmark_on_mini(), methods=methods).results()

    assert one.timing["test_prompts"] == 0
    assert two.timing["test_prompts"] == 0


def prompts_of(data: Any) -> list[Any]:
    """Return the prompts of the data of a method, or of a view of them."""
    return [query.prompt for query in data.queries]


def test_a_view_has_prompts_with_its_instruction() -> None:
    data = data_for_a_method(benchmark_on_mini())

    view = data.on(instruction="Sort. ").on(demonstrations=[[0, 1]] * 4)

    for prompt in prompts_of(view):
        assert prompt.startswith("Sort. ")


def test_a_view_leaves_the_prompts_of_the_data_unchanged() -> None:
    data = data_for_a_method(benchmark_on_mini())
    prompts_before = prompts_of(data)

    view = data.on(instruction="Sort. ").on(demonstrations=[[0, 1]] * 4)
    prompts_of(view)

    assert prompts_of(data) == prompts_before


@pytest.mark.parametrize("attribute", ["variant", "options", "_experimentor", "demonstrations"])
def test_attributes_of_the_data_of_a_method_cannot_be_assigned(attribute: str) -> None:
    data = data_for_a_method(benchmark_on_mini())

    with pytest.raises(AttributeError):
        setattr(data, attribute, None)


def test_predictions_of_a_view_are_those_of_its_prompts() -> None:
    prompts: list[str] = []

    def method(data: Any) -> Any:
        view = data.on(instruction="Sort. ").on(demonstrations=[[0, 1]] * 4)
        prompts[:] = [query.prompt for query in view.queries]
        (rows,) = yield [view.ask()]
        return view.predictions(rows)

    benchmark = benchmark_on_mini()
    result: Any = ms.Method(MethodSpec("mine", "Mine", method), Kernel()).run(benchmark, return_outputs=True)

    assert predictions_of(result) == Kernel().batch(prompts, benchmark[0].get_label_space())


@pytest.mark.parametrize("number", [0, 2, 97])
def test_a_view_needs_one_list_of_demonstrations_for_each_test_row(number: int) -> None:
    """Four test rows are within the limit, 96 in the test set."""

    def method(data: Any) -> Any:
        view = data.on(demonstrations=[[5, 6]] * number)
        (rows,) = yield [view.ask()]
        return view.predictions(rows)

    kernel = Kernel()
    with pytest.raises(ArgumentError, match=f"got {number} lists, expected one for each of the 4 test rows"):
        ms.Method(MethodSpec("mine", "Mine", method), kernel).run(benchmark_on_mini())
    assert not kernel.ran


OTHER_TEMPLATE = Template(
    instruction="Sort. ",
    input_text_prefixes=("Text: ",),
    input_text_affixes=(" |",),
    label_prefix="Topic: ",
    label_affix=" #",
    query_prefix="",
)


VIEW_CHANGES = ["template", "noisy_channel", "query_texts", "demonstrations"]


def all_view_changes(template: Any) -> dict[str, Any]:
    """Return one change of each kind; four test rows need a list of demonstrations each."""
    return {"template": template, "noisy_channel": True, "query_texts": "N/A", "demonstrations": [[1, 2]] * 4}


@pytest.mark.parametrize("order", [*itertools.permutations(VIEW_CHANGES)], ids=", ".join)
@pytest.mark.parametrize("template", ["1012", OTHER_TEMPLATE], ids=["levels", "own"])
def test_changes_of_a_view_have_the_same_prompts_in_any_order(template: Any, order: tuple[str, ...]) -> None:
    changes = all_view_changes(template)
    data = data_for_a_method(benchmark_on_mini())

    all_at_once = data.on(**changes)
    one_by_one = data
    for name in order:
        one_by_one = one_by_one.on(**{name: changes[name]})

    assert prompts_of(one_by_one) == prompts_of(all_at_once)


@pytest.mark.parametrize(("template", "label_affix"), [("1012", "\t"), (OTHER_TEMPLATE, " #")], ids=["levels", "own"])
def test_a_view_of_the_noisy_channel_has_the_label_affix_of_its_template(template: Any, label_affix: str) -> None:
    view = data_for_a_method(benchmark_on_mini()).on(**all_view_changes(template))

    prompt_of_first_label = view.queries[0].prompt[0]
    assert label_affix in prompt_of_first_label


def test_an_instruction_after_a_template_is_kept_in_the_noisy_channel() -> None:
    data = data_for_a_method(benchmark_on_mini())

    view = data.on(template=OTHER_TEMPLATE).on(instruction="Look: ").on(noisy_channel=True)

    one_view = data.on(template=OTHER_TEMPLATE, instruction="Look: ", noisy_channel=True)
    assert view.queries[0].prompt[0].startswith("Look: ")
    assert view.queries[0].prompt == one_view.queries[0].prompt
