"""The contract of methods: no labels of test rows, no kernel, measured cost, refusal before the first query."""

from __future__ import annotations

import contextlib
import itertools
import time
import types
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
from tests.methods.fakes import METHODS_WITH_VARIANTS, Kernel, mini, rows_of


def reached(start: Any) -> list[Any]:
    """All that can be reached from an object by attributes, items, closures, frames and what methods are bound to."""
    seen: dict[int, Any] = {}
    ahead = [start]
    while ahead:
        value = ahead.pop()
        if id(value) in seen or isinstance(value, (types.ModuleType, type, str, bytes, int, float, types.CodeType)):
            continue
        seen[id(value)] = value
        names = {name for kind in type(value).__mro__ for name in getattr(kind, "__slots__", ())}
        names |= {"__dict__", "__closure__", "cell_contents", "__self__", "__func__", "__defaults__", "__wrapped__"}
        names |= {"func", "args", "keywords", "gi_frame", "f_locals"}
        if type(value).__module__.startswith("StaICC"):
            names |= {name for name in dir(value) if not name.startswith("__")}
        for name in names:
            try:
                ahead.append(getattr(value, name))
            except Exception:
                continue
        if isinstance(value, dict):
            ahead += [*value.keys(), *value.values()]
        elif isinstance(value, (list, tuple, set, frozenset)):
            ahead += value
    return list(seen.values())


@pytest.mark.parametrize("kind", [Normal, GLER])
@pytest.mark.parametrize("mode", [None, "set_in_domain_mode"])
def test_a_method_finds_no_label_of_a_test_row_and_no_kernel(kind: Any, mode: str | None) -> None:
    """A spy looks at everything that it can reach, before and after its requests."""
    rows = [(f"secret {number} {number * 7 % 3}", (number * 7) % 3) for number in range(60)]
    data = Dataset.from_rows(rows, name="own", label_space=["a", "b", "c"], split=SplitSizes(20, 30, 10))
    benchmark, kernel, objects = kind(k=1, datasets=[data]), Kernel(), []
    if mode:
        getattr(benchmark[0], mode)()
    texts = {benchmark[0].test_set().texts(place) for place in range(10)}

    def spy(data: Any) -> Any:
        objects.extend(reached(data))
        rows = yield [data.ask()]
        objects.extend(reached(rows))
        for query in [*data.queries, *data.conditions[0].queries]:
            with pytest.raises(ArgumentError, match="a method does not get the labels of test queries"):
                query.label  # noqa: B018
        return rows[0]

    result = ms.Method(MethodSpec("spy", "Spy", spy), kernel).run(benchmark)
    assert dict(result) == dict(benchmark(Kernel()))  # the harness scores with the true labels
    known = [(value.texts, value.label) for value in objects if isinstance(value, Row) and value.texts in texts]
    assert {text for text, _ in known} == texts  # it sees the texts
    assert {label for _, label in known} == {0}
    assert [value for value in objects if value is kernel or value is data or value is benchmark[0]] == []
    assert len(objects) > 300


PHASES = ("training", "test")


class Counting(Kernel):
    """A token is a character; each prompt generates one."""

    @property
    def tokens_used(self) -> tuple[int, int]:
        return sum(map(len, self.ran)), len(self.ran)


@pytest.mark.parametrize(("name", "variant"), METHODS_WITH_VARIANTS)
def test_the_harness_counts_what_the_kernel_runs(name: str, variant: str) -> None:
    """Not what a method says of itself: every prompt of training and test, samples and reasoning included."""
    options: dict[str, Any] = {"samples": 3, "reasoning": True} if name == "generate" else {}
    kernel = Counting()
    timing = ms.Method(name, kernel, variant, 12, **options).run(mini()).timing
    assert timing["training_prompts"] + timing["test_prompts"] == len(kernel.ran)
    assert timing["training_prompts"] <= len(set(kernel.ran))
    for place, kind in enumerate(("read", "generated")):
        assert sum(timing[f"{phase}_tokens_{kind}"] for phase in PHASES) == kernel.tokens_used[place]


def test_the_time_of_a_methods_own_steps_is_that_of_their_phase() -> None:
    def slow(data: Any) -> Any:
        yield [data.ask("probabilities", ["a prompt"], role="train")]
        time.sleep(0.1)
        (rows,) = yield [data.ask()]
        return rows

    timing = ms.Method(MethodSpec("slow", "Slow", slow), Kernel()).run(mini()).timing
    assert timing["training_seconds"] > 0.1


def test_vocabulary_rows_beyond_the_memory_are_computed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = Kernel()
    cache, requests = FeatureCache(kernel), [Request("vocabulary", prompt_keys(["a", "b"]))]
    monkeypatch.setattr("StaICC.methods.features._MEMORY", 95)  # a row has 48 bytes
    (first,), (second,) = cache.rows(requests), cache.rows(requests)
    assert [row.tolist() for row in first] == [row.tolist() for row in second]
    assert kernel.ran == ["a", "b", "b"]


def of_threads(call: Any) -> None:
    with ThreadPoolExecutor(1) as pool:
        pool.submit(call).exception()


def of_caught_errors(call: Any) -> None:
    for _ in range(2):
        with contextlib.suppress(ArgumentError):
            call()


@pytest.mark.parametrize("way", [lambda call: call(), of_caught_errors, of_threads])
@pytest.mark.parametrize("later", [False, True])
def test_a_method_that_calls_the_kernel_by_itself_is_refused(way: Any, later: bool) -> None:
    """Before and after its first request."""
    kernel = Counting()
    calls = [
        lambda: kernel(prompt="behind the harness", label_space=["a", "b"]),
        lambda: kernel.batch(["behind the harness"], ["a", "b"]),
    ]
    for call in calls:

        def method(data: Any) -> Any:
            if not later:
                way(call)  # noqa: B023
            rows = yield [data.ask()]
            way(call)  # noqa: B023
            return rows[0]

        with pytest.raises(ArgumentError, match=r"Mine.* calls the kernel by itself"):
            ms.Method(MethodSpec("mine", "Mine", method), kernel).run(mini())
    assert ms.Method("vanilla", kernel).run(mini()).complete


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
    benchmark = mini(limit=2, k=1, unparsed="wrong")
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
    benchmark = mini(limit=2, k=1, unparsed="wrong")
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
    table = ms.run_all(Kernel(), mini(), methods=["vanilla", "contextual_calibration"], calibration_number=4)

    rows = table.curve()

    assert [row["method"] for row in rows] == list(table)
    assert [row["title"] for row in rows] == [ms.METHODS[name].title for name in table]
    for row, result in zip(rows, table.results(), strict=True):
        interval = result.means.intervals["accuracy"]
        assert row["prompts"] == result.timing["training_prompts"] + result.timing["test_prompts"]
        assert row["accuracy"] == result.averaged["accuracy"]
        assert (row["low"], row["high"]) == (interval.low, interval.high)


def test_tokens_are_undefined_for_a_kernel_that_does_not_count_them() -> None:
    (row,) = ms.run_all(Kernel(), mini(), methods=["vanilla"]).curve()

    assert row["tokens"] is None


def test_tokens_of_a_method_with_a_failed_prompt_are_undefined(make_model: Any, make_tokenizer: Any) -> None:
    """The empty text fails; the other method has its tokens."""
    pytest.importorskip("torch")

    def with_an_empty_text(data: Any) -> Any:
        _, rows = yield [data.ask("losses", ["", "readable"], role="train"), data.ask()]
        return rows

    kernel = text_kernel(make_model, make_tokenizer)
    methods = [MethodSpec("broken", "Broken", with_an_empty_text), "vanilla"]
    benchmark = mini(limit=2, k=1, unparsed="wrong")

    broken, vanilla = ms.run_all(kernel, benchmark, methods=methods, on_error="collect").curve()

    alone = ms.Method("vanilla", text_kernel(make_model, make_tokenizer)).run(benchmark)
    assert broken["tokens"] is None
    assert vanilla["tokens"] == tokens_read(alone.timing)


def test_tokens_of_all_samples_are_counted(make_model: Any, make_tokenizer: Any) -> None:
    """Two samples of four queries (two rows, two repeats): each has one to three tokens."""
    pytest.importorskip("torch")
    kernel = text_kernel(make_model, make_tokenizer)
    method = ms.Method("generate", kernel, samples=2, max_new_tokens=3)

    timing = method.run(mini(limit=2, k=1, unparsed="wrong"), on_error="collect").timing

    assert (timing["test_tokens_read"], timing["test_tokens_generated"]) == kernel.tokens_used
    assert 2 * 4 * 1 <= timing["test_tokens_generated"] <= 2 * 4 * 3


SETS_ITSELF = {"ppl_icl": "Template_sens", "topk": "Demo_sens", "sa_icl": "Demo_sens", "ensemble": "Demo_sens"}


def group() -> Suite:
    return Suite(k=2, datasets=["mini"], limit=2)


@pytest.mark.parametrize("name", SETS_ITSELF)
def test_only_the_member_of_a_group_that_does_not_fit_is_left_out(name: str) -> None:
    left_out = SETS_ITSELF[name]

    results: Any = ms.Method(name, Kernel(), calibration_number=4).run(group())

    assert list(results) == [member for member in group().members if member != left_out]
    assert left_out in results.skipped[left_out]
    assert f"left out: {results.skipped[left_out]}" in str(results)
    assert [result for result in results.results() if not result.complete] == []


@pytest.mark.parametrize("name", SETS_ITSELF)
def test_a_table_of_methods_that_leave_out_different_members_is_verified(name: str) -> None:
    other = "topk" if name == "ppl_icl" else "ppl_icl"  # it leaves out another member

    table = ms.run_all(Kernel(), group(), calibration_number=4, methods=["vanilla", name, other])

    assert [message for finding in verify(table) for message in finding.contradicted] == []
    alone: Any = ms.Method(name, Kernel(), calibration_number=4).run(group())
    assert f"left out: {alone.skipped[SETS_ITSELF[name]]}" in str(table)


@pytest.mark.parametrize("name", SETS_ITSELF)
def test_a_member_that_does_not_fit_is_refused_on_its_own(name: str) -> None:
    kernel, member = Kernel(), SETS_ITSELF[name]

    with pytest.raises(ArgumentError, match=member):
        ms.Method(name, kernel, calibration_number=4).run(group()[member])
    assert kernel.ran == []


@pytest.mark.parametrize(
    ("feature", "named"), [("log_probabilities", "log-probabilities"), ("hidden", "hidden states")]
)
def test_a_requested_feature_that_the_kernel_lacks_is_refused_first(feature: str, named: str) -> None:
    """Nothing that the record of the method declares; the request says it."""
    called = []

    def kernel(prompt: str, label_space: list[str]) -> list[float]:
        called.append(prompt)
        return [1 / len(label_space)] * len(label_space)

    def method(data: Any) -> Any:
        rows = yield [data.ask(), data.ask(feature, ["a prompt"], role="train")]
        return rows[0]

    mine = MethodSpec("mine", "Mine", method)
    with pytest.raises(ArgumentError, match=f"Mine.* needs {named}, .*; it provides label scores\\."):
        ms.Method(mine, kernel).run(mini())
    assert not called
    table = ms.run_all(kernel, mini(), methods=["vanilla", mine])
    assert named in table.skipped["mine"]
    assert "vanilla" in table


@pytest.mark.parametrize("yielded", [None, "probabilities", ["probabilities"]])
def test_a_method_that_yields_no_requests_is_refused(yielded: Any) -> None:
    def method(data: Any) -> Any:
        rows = yield yielded
        return rows

    with pytest.raises(ArgumentError, match=r"Mine.*expected a list of requests: yield \[data\.ask\(\.\.\.\)\]"):
        ms.Method(MethodSpec("mine", "Mine", method), Kernel()).run(mini())


def changing_rows(data: Any) -> Any:
    """A method that works in place: each row of the same prompt is its own."""
    rows, again, vectors = yield [data.ask(), data.ask(), data.ask("hidden")]
    for row, vector in zip(rows, vectors, strict=True):
        row.reverse()
        vector[:] = 0.0
    assert [(row, other) for row, other in zip(rows, again, strict=True) if row != other[::-1]] == []
    return rows


def test_a_method_that_changes_its_rows_changes_no_other_method() -> None:
    methods = [MethodSpec("mine", "Mine", changing_rows), "vanilla", "batch_calibration", "topk"]
    table = ms.run_all(Kernel(), mini(), methods=methods)
    assert not table.skipped
    for name in ("vanilla", "batch_calibration", "topk"):
        assert dict(table[name]) == dict(ms.Method(name, Kernel()).run(mini()))


@pytest.mark.parametrize("mode", ["in_domain", "out_of_domain"])
def test_a_method_cannot_draw_demonstrations_by_labels_that_it_does_not_know(mode: str) -> None:
    def method(data: Any) -> Any:
        getattr(experimentor_of(data), f"set_{mode}_mode")()  # behind the contract
        (rows,) = yield [data.ask()]
        return rows

    with pytest.raises(ArgumentError, match="labels of test rows, which a method does not know"):
        ms.Method(MethodSpec("mine", "Mine", method), Kernel()).run(mini())


def test_a_function_of_texts_can_be_a_feature_of_the_queries() -> None:
    def method(data: Any) -> Any:
        (lengths,) = yield [data.ask(lambda texts: [[len(text)] for text in texts])]
        return [length % 3 for (length,) in lengths]

    benchmark = mini()
    result: Any = ms.Method(MethodSpec("mine", "Mine", method), Kernel()).run(benchmark)
    assert [query.prediction for query in result.queries()] == [
        len(query.prompt) % 3 for query in benchmark[0].all_queries()
    ]


def test_one_method_by_its_name() -> None:
    assert [*ms.run_all(Kernel(), mini(), methods="vanilla")] == ["vanilla"]


def test_a_method_may_request_nothing() -> None:
    def first(data: Any) -> Any:
        yield from ()
        return [0] * len(data.queries)

    kernel = Kernel()
    table = ms.run_all(kernel, mini(), methods=[MethodSpec("first", "First", first), MethodSpec("one", "One", first)])
    assert [result.timing["test_prompts"] for result in table.results()] == [0, 0]
    assert not kernel.ran


def test_data_cannot_be_changed() -> None:
    """Other prompts are other data, so that two views never share a change."""
    seen = []

    def method(data: Any) -> Any:
        before = [query.prompt for query in data.queries]
        view = data.on(instruction="Sort. ").on(demonstrations=[[0, 1] for _ in data.demonstrations])
        assert [query for query in view.queries if not query.prompt.startswith("Sort. ")] == []
        assert [query.prompt for query in data.queries] == before
        for name in ("variant", "options", "_experimentor", "demonstrations"):
            with pytest.raises(AttributeError):
                setattr(data, name, None)
        seen.append(view)
        (rows,) = yield [view.ask()]
        return view.predictions(rows)

    result: Any = ms.Method(MethodSpec("mine", "Mine", method), Kernel()).run(mini(), return_outputs=True)
    expected = Kernel().batch([query.prompt for query in seen[-1].queries], mini()[0].get_label_space())
    assert rows_of(result) == expected


@pytest.mark.parametrize("number", [0, 2, 97])
def test_a_test_row_without_demonstrations_of_its_own_is_refused(number: int) -> None:
    """Four test rows are within the limit, 96 in the test set."""

    def method(data: Any) -> Any:
        view = data.on(demonstrations=[[5, 6]] * number)
        (rows,) = yield [view.ask()]
        return view.predictions(rows)

    kernel = Kernel()
    with pytest.raises(ArgumentError, match=f"got {number} lists, expected one for each of the 4 test rows"):
        ms.Method(MethodSpec("mine", "Mine", method), kernel).run(mini())
    assert not kernel.ran


OTHER_TEMPLATE = Template("Sort. ", ("Text: ",), (" |",), "Topic: ", " #", "")


@pytest.mark.parametrize("template", ["1012", OTHER_TEMPLATE])
def test_views_in_any_order_have_the_prompts_of_one_view(template: Any) -> None:
    changes = {"template": template, "noisy_channel": True, "query_texts": "N/A", "demonstrations": [[1, 2]] * 4}
    prompts_of_view = []

    def prompts(view: Any) -> Any:
        return [query.prompt for query in view.queries]

    def method(data: Any) -> Any:
        prompts_of_view.append(prompts(data.on(**changes)))
        for order in itertools.permutations(changes):
            view = data
            for name in order:
                view = view.on(**{name: changes[name]})
            prompts_of_view.append(prompts(view))
        (rows,) = yield [data.ask()]
        return rows

    ms.Method(MethodSpec("mine", "Mine", method), Kernel()).run(mini())
    in_one_call, *in_several_calls = prompts_of_view
    assert len(in_several_calls) >= 24
    assert [prompts for prompts in in_several_calls if prompts != in_one_call] == []
    label_affix = "\t" if template == "1012" else " #"
    assert label_affix in in_one_call[0][0]


def test_an_instruction_after_a_template_is_kept_in_the_noisy_channel() -> None:
    def method(data: Any) -> Any:
        view = data.on(template=OTHER_TEMPLATE).on(instruction="Look: ").on(noisy_channel=True)
        assert view.queries[0].prompt[0].startswith("Look: ")
        assert (
            view.queries[0].prompt
            == data.on(template=OTHER_TEMPLATE, instruction="Look: ", noisy_channel=True).queries[0].prompt
        )
        (rows,) = yield [data.ask()]
        return rows

    ms.Method(MethodSpec("mine", "Mine", method), Kernel()).run(mini())
