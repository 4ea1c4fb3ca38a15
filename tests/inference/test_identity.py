"""Inference functions that differ never share predictions; those that are the same share all, also in workers."""

from __future__ import annotations

import contextlib
import functools
import importlib
import itertools
import math
import multiprocessing
import pickle
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar
from unittest.mock import Mock

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from identity_cases import (
    CHANGING_FUNCTIONS,
    LABELS,
    ORDINARY_FUNCTIONS,
    QUERIES,
    Retrying,
    closure_with_score,
    documented,
    two_scores,
)

from StaICC import Dataset, Normal, Suite
from StaICC.benchmarks.context import RunContext
from StaICC.errors import ArgumentError, IdentityError, OutputError, RunEndingError
from StaICC.inference.identity import Identity, combined, display_name, identity_of
from StaICC.inference.recheck import NOT_RECHECKED, RunCounter, RunRecord, difference, may_cost_money, tolerance_of
from StaICC.inference.runner import Part, predict_queries
from StaICC.inference.store import PredictionStore
from StaICC.inference.workers import RemoteFunction
from StaICC.kernels.ppm import PPMKernel
from StaICC.kernels.registry import load_kernel
from StaICC.kernels.text_inference import TextInference
from StaICC.methods.kernel_functions import FeatureFunction
from StaICC.methods.run import Method
from StaICC.prompting.prompt_writer import Query


def run(function: Any, store: Any = None, queries: Any = None, **settings: Any) -> tuple[list[Any], RunRecord]:
    """Return the predictions of a run, and its record with the counts of computed, reused and rechecked queries."""
    with RunContext(False, store=store, **settings) as running:
        running.start([function])
        found = predict_queries(function, queries or QUERIES, "Test", running.options_for(function))
    return found, running.predictions({"": function}).records[""]


def counts_of_run(function: Any, store: Any = None, queries: Any = None, **settings: Any) -> Counter[str]:
    """Return how many queries a run computed, took from the store, and computed again as a check."""
    _, record = run(function, store, queries, **settings)
    return record.counts


def direct(function: Any, queries: Any = None) -> list[Any]:
    """Return the predictions of direct calls: the oracle."""
    return [function(prompt=query.prompt, label_space=list(query.label_space)) for query in queries or QUERIES]


# -- functions


@pytest.mark.parametrize("name", CHANGING_FUNCTIONS)
def test_a_changed_function_gets_no_stale_prediction(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A changed function has another identity, is refused, or is found by the predictions that are computed again."""
    original_and_changed = CHANGING_FUNCTIONS[name](monkeypatch, tmp_path)
    store = tmp_path / "run.sqlite"

    original = next(original_and_changed)
    predictions_of_original, _ = run(original, store, model_name="m")
    changed = next(original_and_changed)  # from here on, the function is another one
    expected, _ = run(changed)

    changes = [before != after for before, after in zip(predictions_of_original, expected, strict=True)]
    assert sum(changes) >= len(QUERIES) // 10, "the function predicts nearly the same"
    with contextlib.suppress(IdentityError):
        predictions, _ = run(changed, store, model_name="m")
        assert predictions == expected


def test_the_identity_of_a_subclass_without_one_of_its_own_is_incomplete() -> None:
    assert identity_of(PPMKernel()).complete
    subclass = type("Mine", (PPMKernel,), {})
    assert identity_of(subclass()).unidentified == ("the class Mine has no identity() of its own",)


def constant_batch(*given: Any) -> list[list[float]]:
    """Predict the same for each prompt, in place of the batched form of a kernel."""
    prompts = given[-2]
    return [[0.1, 0.9] for _ in prompts]


def test_the_identity_of_a_kernel_with_a_replaced_method_is_incomplete(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PPMKernel, "batch", constant_batch)
    assert identity_of(PPMKernel()).unidentified == ("replaced method PPMKernel.batch",)


def test_the_identity_of_a_partial_needs_named_arguments_and_no_batched_form() -> None:
    """Only arguments with names are in the identity of a function."""
    partial = functools.partial(documented, number=1.0)
    assert identity_of(partial).complete
    assert not identity_of(functools.partial(documented, "an argument without a name", number=1.0)).complete
    partial.batch = constant_batch  # type: ignore[attr-defined]
    assert not identity_of(partial).complete


SUBCLASS = """
from StaICC.kernels.ppm import PPMKernel

class Between(PPMKernel):
    def shift(self):
        return {shift}

class Mine(Between):
    def __call__(self, prompt, label_space):
        return [row + self.shift() * {factor} for row in super().__call__(prompt, label_space)]
"""


def test_the_identity_of_a_subclass_has_the_source_of_all_classes_of_the_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without it, an edited subclass with the same ``model_name`` would get the predictions of the earlier one."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def digest(module: str, shift: int, factor: int) -> str:
        (tmp_path / f"{module}.py").write_text(SUBCLASS.format(shift=shift, factor=factor), "utf-8")
        importlib.invalidate_caches()
        return identity_of(importlib.import_module(module).Mine()).digest

    original = digest("subclass_original", 0, 1)
    assert digest("subclass_copied", 0, 1) == original
    assert digest("subclass_edited", 0, 2) != original, "the class itself"
    assert digest("subclass_edited_above", 1, 1) != original, "the class between it and the kernel"


NUMBERS = st.lists(st.floats(-1e12, 1e12) | st.sampled_from([0.0, 1.0, -math.inf]), min_size=2, max_size=3)


@given(NUMBERS, NUMBERS)
@example([1e9, 1e9 - 1.0], [1e9 - 1.0, 1e9])
@example([1e9, 1e9 - 1000.0, 1e9 - 1000.5], [1e9 - 999.0, 1e9 - 999.5, 0.0])
def test_the_difference_of_two_predictions_is_the_same_in_both_directions(
    first: list[float], other: list[float]
) -> None:
    """Which of the two the store has is chance, so both directions find a change."""
    assert difference(first, other) == difference(other, first)
    assert difference(first, first) == 0.0


@pytest.mark.parametrize("swap", [False, True], ids=["stored first", "stored second"])
def test_a_label_that_changed_by_a_large_distance_of_scores_is_a_difference(swap: bool) -> None:
    """Of large scores, a change of a few units is small relative to the scores, but may be another label."""
    clear = [1e9 + 600.0, 1e9]  # the first label by the complete range of the scores
    close = [1e9, 1e9 + 1e-6 * 600.0]
    stored, again = (close, clear) if swap else (clear, close)
    assert difference(stored, again) == 0.5


@pytest.mark.parametrize("name", ORDINARY_FUNCTIONS)
def test_ordinary_functions_need_a_name_with_a_store(name: str, tmp_path: Path) -> None:
    store = tmp_path / "run.sqlite"
    with pytest.raises(ArgumentError, match=r"\(model_name='NAME'\)"):
        run(ORDINARY_FUNCTIONS[name](), store)
    assert not store.exists()


@pytest.mark.parametrize("name", ORDINARY_FUNCTIONS)
def test_predictions_of_ordinary_functions_are_reused_from_a_store(name: str, tmp_path: Path) -> None:
    function, store = ORDINARY_FUNCTIONS[name](), tmp_path / "run.sqlite"
    first, record = run(function, store, model_name="m")
    assert record.counts == Counter(computed=len(QUERIES))
    without_store, _ = run(function)
    assert first == without_store

    again, record = run(function, store, model_name="m")
    assert again == first
    assert record.counts == Counter(reused=len(QUERIES), rechecked=len(QUERIES))


@pytest.mark.parametrize("settings", [{}, {"executor": functools.partial(ThreadPoolExecutor, 3)}], ids=str)
def test_retries_are_counted(settings: Any) -> None:
    """The kernel retries each query once. Under two names, it is one function, whose retries are those of both."""
    kernel = Retrying()
    functions = {
        "a": kernel,
        "b": kernel,
        "c": functools.partial(kernel),
        "d": functools.partial(kernel),
    }
    with RunContext(False, **settings) as running:
        for name, function in functions.items():
            vars(function)["kernel"] = kernel  # retries of the kernel that a function wraps count, too
            predict_queries(function, QUERIES, name, running.options_for(function))
    records = running.predictions(functions).records
    retries = {name: record.counts["retried"] for name, record in records.items()}
    of_one_run = len(QUERIES)
    assert retries == {"a": 2 * of_one_run, "b": 2 * of_one_run, "c": of_one_run, "d": of_one_run}


def test_a_kernel_that_holds_itself_has_no_name() -> None:
    kernel = Retrying()
    vars(kernel)["kernel"] = kernel
    assert display_name(kernel) is None


# -- lists of functions


def two_data_sets_with_the_same_prompts() -> list[Dataset]:
    """Return two data sets of 60 rows that differ in their names only."""
    rows = [(("good",), 1), (("bad",), 0)] * 30
    return [Dataset.from_rows(rows, name=name, label_space=["no", "yes"]) for name in ("a", "b")]


def test_functions_that_nothing_tells_apart_are_refused_under_one_name(tmp_path: Path) -> None:
    """The store would hand predictions of one to the other. Without a store, they may run."""
    functions = [closure_with_score(1.0), closure_with_score(2.0)]
    benchmark = Normal(datasets=two_data_sets_with_the_same_prompts(), limit=4)
    with pytest.raises(ArgumentError, match="two inference functions of the list have the same model_name"):
        benchmark(functions, store=tmp_path / "run.sqlite", model_name="m")
    assert not (tmp_path / "run.sqlite").exists()
    assert benchmark(functions).complete


def test_a_list_with_a_function_that_has_no_name_is_refused_with_a_store(tmp_path: Path) -> None:
    benchmark = Normal(datasets=two_data_sets_with_the_same_prompts(), limit=4)
    with pytest.raises(ArgumentError, match="no model_name"):
        benchmark([PPMKernel(), closure_with_score(1.0)], store=tmp_path / "run.sqlite")
    assert not (tmp_path / "run.sqlite").exists()


def test_a_list_may_have_one_function_twice(tmp_path: Path, anonymous: Callable[[Any], Any]) -> None:
    function = closure_with_score(1.0)
    benchmark = Normal(datasets=two_data_sets_with_the_same_prompts(), limit=4)
    stored = benchmark([function, function], store=tmp_path / "run.sqlite", model_name="m")
    assert anonymous(stored) == anonymous(benchmark(function))


# -- changes


class Changing:
    """A report of progress that changes the order of a kernel from 5 to 0 when so many queries are done.

    Args:
        kernel: The kernel.
        at: The number of queries.
        then: An exception that it raises after the change.
    """

    def __init__(self, kernel: PPMKernel, at: int, then: type[BaseException] | None = None) -> None:
        self.kernel, self.at, self.then = kernel, at, then

    def __call__(self, progress: Any) -> None:
        if progress.done >= self.at:
            object.__setattr__(self.kernel, "order", 0)
            if self.then is not None:
                raise self.then("stop")


@pytest.mark.parametrize("at", [1, len(QUERIES)], ids=["at the first query", "at the last query"])
@pytest.mark.parametrize("then", [None, ValueError])
def test_a_change_during_the_run_ends_it(at: int, then: type[BaseException] | None, tmp_path: Path) -> None:
    """Also if the run ends by another error, which is the cause then."""
    kernel = PPMKernel(order=5)
    with pytest.raises(IdentityError, match="order was 5, is 0") as found:
        run(kernel, tmp_path / "run.sqlite", chunk_size=1, progress=Changing(kernel, at, then))
    assert isinstance(found.value.__cause__, then or type(None))


@pytest.mark.parametrize("at", [1, len(QUERIES)], ids=["at the first query", "at the last query"])
@pytest.mark.parametrize("then", [None, ValueError, KeyboardInterrupt])
def test_predictions_of_a_run_in_which_the_function_changed_are_not_served(
    at: int, then: type[BaseException] | None, tmp_path: Path
) -> None:
    kernel, store = PPMKernel(order=5), tmp_path / "run.sqlite"
    with pytest.raises((IdentityError, KeyboardInterrupt)):
        run(kernel, store, chunk_size=1, progress=Changing(kernel, at, then))
    for order in (5, 0):
        predictions, record = run(PPMKernel(order), store)
        assert predictions == direct(PPMKernel(order)), order
        assert record.counts["computed"] == len(QUERIES), order


@pytest.mark.parametrize("kind", [Normal, Suite])
def test_every_benchmark_finds_a_change_without_a_store(kind: Any) -> None:
    kernel = PPMKernel(order=5)
    with pytest.raises(IdentityError, match="order was 5, is 0"):
        kind(datasets=["mini"], limit=4)(kernel, progress=Changing(kernel, at=2))


def test_a_method_finds_a_change_without_a_store() -> None:
    kernel = PPMKernel(order=5)
    method = Method("batch_calibration", kernel)
    with pytest.raises(IdentityError, match="order was 5, is 0"):
        method(Normal(datasets=["mini"], limit=4), progress=Changing(kernel, at=2))


# -- recheck


def numbered_queries(number: int) -> list[Query]:
    """Return so many queries, whose prompts are numbered from 0."""
    return [Query(f"prompt {row} -> ", LABELS, label=0, row=row, repeat=0) for row in range(number)]


@dataclass(frozen=True)
class Drifting:
    """A kernel whose predictions drift although its identity stays the same.

    Args:
        shift: How far its first score is from that of a kernel that has not drifted.
        tolerance: The largest difference of two of its predictions of one query; None: it may be any.
    """

    shift: float = 0.0
    tolerance: float | None = 1e-6

    def identity(self) -> Identity:
        return Identity({"model": "drifting"})

    @property
    def recheck_tolerance(self) -> float | None:
        return self.tolerance

    def __call__(self, prompt: str, label_space: Any) -> list[float]:
        return two_scores(prompt, 0.25 + self.shift)


class Unidentified(Drifting):
    """Without an identity of its own, as a subclass of a user."""


RECHECKS = [(0, 0), (1, 1), (29, 29), (30, 30), (300, 30)]
"""Numbers of reused predictions, each with how many of them are computed again as a check: 30 at most."""


@pytest.mark.parametrize(("reused", "rechecked"), RECHECKS)
def test_thirty_of_the_reused_predictions_are_rechecked(reused: int, rechecked: int, tmp_path: Path) -> None:
    store = tmp_path / "run.sqlite"
    if reused > 0:
        run(Drifting(), store, numbered_queries(reused))
    counts = counts_of_run(Drifting(), store, numbered_queries(reused + 5))
    assert counts == Counter(computed=5, reused=reused, rechecked=rechecked)


@pytest.mark.parametrize(("reused", "rechecked"), RECHECKS[1:])
def test_a_run_that_computes_nothing_rechecks_as_many(reused: int, rechecked: int, tmp_path: Path) -> None:
    store, queries = tmp_path / "run.sqlite", numbered_queries(reused)
    run(Drifting(), store, queries)
    assert counts_of_run(Drifting(), store, queries) == Counter(reused=reused, rechecked=rechecked)
    with pytest.raises(IdentityError, match="Test, query"):
        run(Drifting(shift=1.0), store, queries)


def test_predictions_that_may_change_are_not_rechecked(tmp_path: Path) -> None:
    store, queries = tmp_path / "run.sqlite", numbered_queries(40)
    run(Drifting(), store, queries)
    may_change = Drifting(shift=1.0, tolerance=None)
    assert counts_of_run(may_change, store, queries) == Counter(reused=40)


def test_predictions_of_an_unidentified_kernel_that_may_change_are_rechecked_with_a_warning(
    tmp_path: Path, caplog: Any
) -> None:
    """Nothing else would show that it is another kernel. The run continues, since a difference proves nothing."""
    store, queries = tmp_path / "run.sqlite", numbered_queries(40)
    run(Unidentified(tolerance=None), store, queries, model_name="m")
    drifted = Unidentified(shift=1.0, tolerance=None)
    counts = counts_of_run(drifted, store, queries, model_name="m")
    assert counts == Counter(reused=40, rechecked=30)
    assert caplog.text.count("This kernel's predictions may change") == 30

    with RunContext(False, store=store, model_name="m") as running:
        predict_queries(drifted, queries, "Test", running.options_for(drifted))
    (warning,) = running.warnings
    assert warning == (
        "Test: 30 of 30 stored predictions that were computed again differ; the predictions of this kernel may change"
    )


@pytest.mark.parametrize(
    ("stored", "rechecked"),
    [(600, [5, 5, 5, 5, 5, 5]), (300, [5, 5, 5, 15, 0, 0])],
    ids=["all are stored", "those of three parts are stored"],
)
def test_the_recheck_is_spread_over_the_parts_and_precedes_new_predictions(
    stored: int, rechecked: list[int], tmp_path: Path
) -> None:
    """A run of six parts, each with 100 queries. All 30 rechecks are done before the first new prediction."""
    store, kernel, queries = tmp_path / "run.sqlite", Drifting(), numbered_queries(600)
    run(kernel, store, queries[:stored])
    totals = []
    with RunContext(False, store=store) as running:
        options = running.options_for(kernel)
        for number in range(6):
            of_part = queries[100 * number : 100 * (number + 1)]
            predict_queries(kernel, of_part, Part(f"Test {number}", number, 6), options)
            assert options.counter is not None
            totals.append(options.counter.counts["rechecked"])
    in_each_part = [later - earlier for earlier, later in itertools.pairwise([0, *totals])]
    assert in_each_part == rechecked


def test_after_thirty_rechecks_one_more_is_due_in_each_part_with_reused_predictions() -> None:
    counter = RunCounter(done=30)
    counter.count_reused({("prompt", LABELS): [0.5, 0.5]}, str)
    assert len(counter.choose_for_recheck(1, False)) == 1


class Overtaken:
    """A kernel that another run overtakes: while its first query is evaluated, the other stores the 39 queries after.

    Args:
        other: The kernel of the other run, which has the same identity.
        store: The store of both runs.
    """

    def __init__(self, other: Any, store: Path) -> None:
        self.other = other
        self.store = store
        self.is_first_query = True

    def identity(self) -> Identity:
        return Identity({"model": "drifting"})

    def __call__(self, prompt: str, label_space: Any) -> Any:
        if self.is_first_query:
            self.is_first_query = False
            self.run_other()
        return two_scores(prompt, 0.25)

    def run_other(self) -> None:
        all_but_the_first = numbered_queries(40)[1:]
        with RunContext(False, store=self.store, on_error="collect") as running:
            running.start([self.other])
            predict_queries(self.other, all_but_the_first, "Other run", running.options_for(self.other))


def test_predictions_that_another_run_stores_meanwhile_are_rechecked(tmp_path: Path) -> None:
    store, queries = tmp_path / "run.sqlite", numbered_queries(40)
    predictions, record = run(Overtaken(Drifting(), store), store, queries)
    assert predictions == direct(Drifting(), queries)
    assert record.counts == Counter(computed=1, reused=39, rechecked=30)


def test_other_predictions_that_another_run_stores_meanwhile_end_the_run(tmp_path: Path) -> None:
    store = tmp_path / "run.sqlite"
    with pytest.raises(IdentityError, match="Test, query"):
        run(Overtaken(Drifting(shift=1.0), store), store, numbered_queries(40))


class Unsure:
    """Returns replies without a label, with the identity of the other kernels here."""

    def identity(self) -> Identity:
        return Identity({"model": "drifting"})

    def __call__(self, prompt: str, label_space: Any) -> Any:
        return "I cannot tell."


def test_replies_without_a_label_that_another_run_stores_meanwhile_count_once(tmp_path: Path) -> None:
    """Each is reused, and failed, but not computed."""
    store = tmp_path / "run.sqlite"
    overtaken = Overtaken(Unsure(), store)
    counts = counts_of_run(overtaken, store, numbered_queries(40), on_error="collect", recheck=False)
    assert counts == Counter(computed=1, reused=39, failed=39)


LONG = 200_000
"""Characters of a prompt of about 50,000 tokens."""


def test_of_long_prompts_one_in_each_part_is_rechecked(tmp_path: Path) -> None:
    """More would be expensive."""
    queries = [Query(f"{row} ".ljust(LONG, "x"), LABELS, label=0, row=row, repeat=0) for row in range(40)]
    store, kernel = tmp_path / "run.sqlite", Drifting()
    run(kernel, store, queries[:35])
    assert counts_of_run(kernel, store, queries) == Counter(computed=5, reused=35, rechecked=1)
    assert counts_of_run(kernel, store, queries) == Counter(reused=40, rechecked=1)
    with pytest.raises(IdentityError):
        run(Drifting(shift=1.0), store, queries)


def test_the_rechecked_prompts_have_two_percent_of_the_characters(tmp_path: Path) -> None:
    """But 20,000 characters in any case, which cost next to nothing. Each prompt has 4,000."""
    queries = [Query(f"{row} ".ljust(4_000, "x"), LABELS, label=0, row=row, repeat=0) for row in range(1_200)]
    store, kernel = tmp_path / "run.sqlite", Drifting()
    run(kernel, store, queries)
    assert counts_of_run(kernel, store, queries)["rechecked"] == 0.02 * 1_200
    assert counts_of_run(kernel, store, queries[:100])["rechecked"] == 20_000 / 4_000


class Priced(Drifting):
    """A kernel whose requests may cost money."""

    may_cost_money = True

    def identity(self) -> Identity:
        return Identity({"model": "priced"})


def cost_warnings(store: Path, number: int, **settings: Any) -> list[str]:
    """Return the warnings about money of a run of a priced kernel with so many queries."""
    with RunContext(False, store=store, **settings) as running:
        predict_queries(Priced(), numbered_queries(number), "Test", running.options_for(Priced()))
    return [warning for warning in running.warnings if "cost money" in warning]


def test_requests_that_may_cost_money_are_not_sent_again(tmp_path: Path) -> None:
    store = tmp_path / "run.sqlite"
    run(Priced(), store, numbered_queries(20))
    assert counts_of_run(Priced(), store, numbered_queries(25)) == Counter(computed=5, reused=20)


def test_requests_that_may_cost_money_are_sent_again_on_request(tmp_path: Path) -> None:
    store = tmp_path / "run.sqlite"
    run(Priced(), store, numbered_queries(25))
    assert counts_of_run(Priced(), store, numbered_queries(30), recheck=True)["rechecked"] == 25


def test_a_run_warns_that_nothing_was_sent_again_unless_that_was_chosen(tmp_path: Path) -> None:
    store = tmp_path / "run.sqlite"
    run(Priced(), store, numbered_queries(20))
    assert cost_warnings(store, 20) == [NOT_RECHECKED]
    assert cost_warnings(store, 20, recheck=False) == []


@pytest.mark.parametrize(
    ("spec", "priced"),
    [
        ("openai:http://localhost:8000/v1#m", False),
        ("openai:https://api.example.com/v1#m", True),
        ("litellm:a/m", True),
    ],
)
def test_which_servers_may_cost_money(spec: str, priced: bool) -> None:
    kernel = load_kernel(spec)
    assert may_cost_money(kernel) is may_cost_money(TextInference(kernel)) is priced


class Seeing(Drifting):
    """A kernel that remembers its prompts."""

    seen: ClassVar[list[str]] = []

    def identity(self) -> Identity:
        return Identity({"model": "drifting"})

    def __call__(self, prompt: str, label_space: Any) -> list[float]:
        self.seen.append(prompt)
        return super().__call__(prompt, label_space)


def test_each_run_rechecks_other_predictions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three runs recheck 30 of 300 predictions each. The same 30 each time would be 30 prompts."""
    store, queries = tmp_path / "run.sqlite", numbered_queries(300)
    run(Drifting(), store, queries)
    monkeypatch.setattr(Seeing, "seen", [])
    for _ in range(3):
        run(Seeing(), store, queries)
    assert len(Seeing.seen) == 90
    assert len(set(Seeing.seen)) > 40


@pytest.mark.parametrize("shift", [1e-3, -0.1])
@pytest.mark.parametrize("settings", [{}, {"executor": functools.partial(ThreadPoolExecutor, 3)}], ids=str)
def test_a_drift_ends_the_run_before_anything_is_computed(shift: float, settings: Any, tmp_path: Path) -> None:
    """The error has the stored prediction, the one that was computed again, and the argument that turns this off."""
    store = tmp_path / "run.sqlite"
    run(Drifting(), store, numbered_queries(50))
    message = r"^Test, query \d+: the store has \[0.25, .*again it is \[.*recheck=False"
    with pytest.raises(IdentityError, match=message):
        run(Drifting(shift), store, numbered_queries(60), **settings)
    assert predictions_in(store) == 50


def test_without_a_recheck_a_drift_is_not_found(tmp_path: Path) -> None:
    store = tmp_path / "run.sqlite"
    run(Drifting(), store, numbered_queries(50))
    counts = counts_of_run(Drifting(shift=1e-3), store, numbered_queries(60), recheck=False)
    assert counts == Counter(computed=10, reused=50)


@pytest.mark.parametrize(("shift", "tolerance"), [(1e-9, 1e-6), (1e-5, 1e-4), (0.01, 0.02)])
def test_a_drift_within_the_tolerance_that_a_kernel_declares_is_none(
    shift: float, tolerance: float, tmp_path: Path
) -> None:
    store = tmp_path / "run.sqlite"
    run(Drifting(), store, numbered_queries(10))
    with pytest.raises(IdentityError):
        run(Drifting(shift, tolerance=tolerance / 1e6), store, numbered_queries(20))
    assert counts_of_run(Drifting(shift, tolerance), store, numbered_queries(20))["rechecked"] == 10


FAILING = Drifting("no number")  # type: ignore[arg-type]
"""A kernel that raises a TypeError for each query, with the identity of the others."""


def test_a_recheck_that_fails_ends_the_run(tmp_path: Path) -> None:
    store = tmp_path / "run.sqlite"
    run(Drifting(), store, numbered_queries(3))
    with pytest.raises(OutputError, match=r"recheck of a stored prediction: .*TypeError"):
        run(FAILING, store, numbered_queries(4))


def test_a_recheck_that_fails_is_not_counted_if_failures_are_collected(tmp_path: Path) -> None:
    """Only the query that is not stored has failed."""
    store = tmp_path / "run.sqlite"
    run(Drifting(), store, numbered_queries(3))
    counts = counts_of_run(FAILING, store, numbered_queries(4), on_error="collect")
    assert counts == Counter(reused=3, failed=1)


def test_a_failure_in_a_batched_call_is_counted_as_failed_and_not_as_computed() -> None:
    """The benchmark has four queries, and the second reply is no label."""
    benchmark = Normal(datasets=["mini"], limit=2)
    result = benchmark(lambda prompt, label_space: [0, "?", 0, 1], batched_inference=True, on_error="collect")
    (predictor,) = result.provenance.predictors
    assert (predictor.computed, predictor.failed) == (3, 1)


def test_an_error_that_ends_runs_also_ends_one_that_collects_failures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = tmp_path / "run.sqlite"
    run(Drifting(), store, numbered_queries(3))
    monkeypatch.setitem(globals(), "two_scores", Mock(side_effect=RunEndingError("no quota")))  # what the kernel calls
    with pytest.raises(OutputError, match=r"recheck of a stored prediction: .*no quota"):
        run(Drifting(), store, numbered_queries(3), on_error="collect")


def scores_with_a_dtype(prompt: Any, label_space: Any, dtype: str = "float32") -> list[float]:
    """A function whose tolerance may depend on its argument dtype."""
    return [0.0]


def test_the_tolerance_of_a_function_is_a_millionth_by_default() -> None:
    assert tolerance_of(scores_with_a_dtype) == 1e-6


def test_the_tolerance_of_a_function_may_depend_on_what_a_partial_binds(monkeypatch: pytest.MonkeyPatch) -> None:
    def tolerance_for(dtype: str) -> float:
        return {"float32": 1e-4, "bfloat16": 1e-2}[dtype]

    monkeypatch.setattr(scores_with_a_dtype, "recheck_tolerance_for", tolerance_for, raising=False)
    partial = functools.partial(scores_with_a_dtype, dtype="bfloat16")
    assert tolerance_of(partial) == 1e-2
    assert tolerance_of(lambda *_: partial) == 1e-2, "a function that holds it"


def test_wrappers_of_the_library_have_the_tolerance_of_their_kernel() -> None:
    assert tolerance_of(Drifting(tolerance=None)) is None
    assert tolerance_of(TextInference(Drifting(tolerance=None))) is None
    assert tolerance_of(FeatureFunction(Drifting(tolerance=0.5), {"hidden"})) == 0.5


def functions_that_hold(kernel: Any) -> dict[str, Any]:
    """Return functions that can call a kernel, by how they hold it."""

    def by_default(prompt: Any, label_space: Any, held: Any = kernel) -> int:
        return 0

    def by_keyword(prompt: Any, label_space: Any, *, held: Any = kernel) -> int:
        return 0

    return {
        "default": by_default,
        "keyword": by_keyword,
        "container of a partial": functools.partial(scores_with_a_dtype, [{"kernel": kernel}]),
        "closure": lambda *_: kernel,
        "keyword of a partial": functools.partial(print, file=kernel),
    }


def test_a_function_that_holds_a_kernel_has_its_tolerance() -> None:
    for how, function in functions_that_hold(Drifting(tolerance=0.5)).items():
        assert tolerance_of(function) == 0.5, how


# -- the contract


def test_a_value_has_another_digest_as_a_setting_than_as_an_identity() -> None:
    """And each value has its own."""
    identities = [
        Identity({"dtype": "a"}, {"dtype": "x"}),
        Identity({"dtype": "b"}, {"dtype": "x"}),
        Identity({"dtype": "x"}, {}),
        Identity({}, {"dtype": "x"}),
    ]
    assert len({identity.digest for identity in identities}) == 4


def test_a_digest_depends_on_no_order_and_on_no_remark() -> None:
    identity = Identity({"a": "1", "b": "2"}, {"s": "x"})
    assert identity.digest == Identity({"b": "2", "a": "1"}, {"s": "x"}).digest
    assert identity.digest == replace(identity, unidentified=("because",)).digest
    assert identity.digest != Identity({"a": "1", "b": "2"}, {"s": "y"}).digest


def test_differences_have_both_values_and_none_for_a_missing_one() -> None:
    identity = Identity({"a": "1", "b": "2"}, {"s": "x"})
    assert identity.differences(Identity({"a": "1"}, {"s": "y"})) == {"b": ("2", None), "s": ("x", "y")}


def test_an_identity_that_is_combined_with_that_of_a_plain_function_is_incomplete() -> None:
    identity = Identity({"a": "1"})
    assert not combined(identity, "calibration", replace(identity, plain=True)).complete


# -- workers refuse an inference function that is not the one that was sent


SOURCE_OF_MODEL = """
WEIGHT = 1.0

def predict(prompt, label_space):
    return [WEIGHT, *(0.5 for _ in label_space[1:])]
"""


@pytest.fixture
def user_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """A module of the user, which workers can import, too."""
    (tmp_path / "made_for_workers.py").write_text(SOURCE_OF_MODEL, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=":")
    yield importlib.import_module("made_for_workers")
    sys.modules.pop("made_for_workers", None)


def run_in_worker(function: Any, store: Path) -> Any:
    """Run a benchmark in a worker process that imports everything itself."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return Normal(datasets=["mini"], limit=2)(function, store=store, model_name="made", executor=pool)


def predictions_in(store: Path) -> int:
    """Return how many predictions a store has."""
    with PredictionStore(store, read_only=True) as opened:
        return opened.info().answers


def test_a_function_is_the_same_in_workers(user_module: ModuleType, tmp_path: Path) -> None:
    store, function = tmp_path / "run.sqlite", user_module.predict
    in_this_process = Normal(datasets=["mini"], limit=2)(function, model_name="made")
    assert run_in_worker(function, store) == in_this_process
    assert predictions_in(store) > 0


def test_a_module_that_was_edited_since_it_was_imported_is_refused(user_module: ModuleType, tmp_path: Path) -> None:
    """The worker imports the edited one."""
    run_in_worker(user_module.predict, tmp_path / "before.sqlite")
    edited = SOURCE_OF_MODEL.replace("*(0.5", "*(0.25")
    (tmp_path / "made_for_workers.py").write_text(edited, encoding="utf-8")
    with pytest.raises(IdentityError, match="another inference function than the one that was sent"):
        run_in_worker(user_module.predict, tmp_path / "after.sqlite")
    assert predictions_in(tmp_path / "after.sqlite") == 0


@pytest.mark.parametrize(
    "changes",
    [{"who": {}}, {"settings": {"s": "x"}}, {"unidentified": ("x",)}, {"plain": True}],
    ids=["who", "settings", "unidentified", "plain"],
)
def test_a_copy_with_another_identity_is_refused(changes: dict[str, Any]) -> None:
    """A worker loads the function from its copy, and compares the identity with that which was sent."""
    copy = pickle.loads(pickle.dumps(RemoteFunction(Drifting())))
    assert copy.load() == Drifting()
    with pytest.raises(IdentityError):
        replace(copy, identity=replace(copy.identity, **changes), identifier="other").load()
