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
from identity_cases import ATTACKS, LABELS, ORDINARY, QUERIES, Retrying, closure, documented, row

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
    """The predictions of a run, and its record."""
    with RunContext(False, store=store, **settings) as running:
        running.start([function])
        found = predict_queries(function, queries or QUERIES, "Test", running.options_for(function))
    return found, running.predictions({"": function}).records[""]


def direct(function: Any, queries: Any = None) -> list[Any]:
    """The predictions of direct calls: the oracle."""
    return [function(prompt=query.prompt, label_space=list(query.label_space)) for query in queries or QUERIES]


# -- functions


@pytest.mark.parametrize("name", ATTACKS)
def test_a_changed_function_gets_no_stale_prediction(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has another identity, is refused, or is found by the predictions that are computed again."""
    functions = ATTACKS[name](monkeypatch, tmp_path)
    stored, _ = run(next(functions), tmp_path / "run.sqlite", model_name="m")
    changed = next(functions)
    expected = run(changed)[0]
    assert sum(one != other for one, other in zip(stored, expected, strict=True)) >= len(QUERIES) // 10
    with contextlib.suppress(IdentityError):
        assert run(changed, tmp_path / "run.sqlite", model_name="m")[0] == expected


def test_replaced_methods_and_subclasses_make_an_identity_incomplete(monkeypatch: pytest.MonkeyPatch) -> None:
    assert identity_of(PPMKernel()).complete
    subclass = type("Mine", (PPMKernel,), {})
    assert identity_of(subclass()).unidentified == ("the class Mine has no identity() of its own",)
    monkeypatch.setattr(PPMKernel, "batch", lambda self, prompts, label_space: [[0.1, 0.9] for _ in prompts])
    assert identity_of(PPMKernel()).unidentified == ("replaced method PPMKernel.batch",)
    partial = functools.partial(documented, number=1.0)
    assert identity_of(partial).complete
    assert not identity_of(functools.partial(documented, "an argument without a name", number=1.0)).complete
    partial.batch = lambda prompts, label_space: [[0.1, 0.9] for _ in prompts]  # type: ignore[attr-defined]
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


@pytest.mark.parametrize("name", ORDINARY)
def test_ordinary_functions_run_with_a_store_and_a_name(name: str, tmp_path: Path) -> None:
    function, store = ORDINARY[name](), tmp_path / "run.sqlite"
    with pytest.raises(ArgumentError, match=r"\(model_name='NAME'\)"):
        run(function, store)
    assert not store.exists()
    first, record = run(function, store, model_name="m")
    assert record.counts == Counter(computed=len(QUERIES))
    assert first == run(function)[0]
    again, record = run(function, store, model_name="m")
    assert (again, record.counts) == (first, Counter(reused=len(QUERIES), rechecked=len(QUERIES)))


@pytest.mark.parametrize("settings", [{}, {"executor": functools.partial(ThreadPoolExecutor, 3)}], ids=str)
def test_retries_are_counted(settings: Any) -> None:
    kernel = Retrying()
    functions = dict.fromkeys("ab", kernel) | {name: functools.partial(kernel) for name in "cd"}
    with RunContext(False, **settings) as running:
        for name, function in functions.items():
            vars(function)["kernel"] = kernel  # of the kernel itself, too
            predict_queries(function, QUERIES, name, running.options_for(function))
    records = running.predictions(functions).records
    assert [records[name].counts["retried"] for name in functions] == [2 * len(QUERIES)] * 2 + [len(QUERIES)] * 2
    assert display_name(kernel) is None


# -- lists of functions


def _two_sets() -> list[Dataset]:
    rows = [(("good",), 1), (("bad",), 0)] * 30
    return [Dataset.from_rows(rows, name=name, label_space=["no", "yes"]) for name in ("a", "b")]  # the same prompts


def test_functions_that_nothing_tells_apart_are_refused_under_one_name(
    tmp_path: Path, anonymous: Callable[[Any], Any]
) -> None:
    functions = [closure(1.0), closure(2.0)]
    benchmark = Normal(datasets=_two_sets(), limit=4)
    with pytest.raises(ArgumentError, match="two inference functions of the list have the same model_name"):
        benchmark(functions, store=tmp_path / "run.sqlite", model_name="m")
    with pytest.raises(ArgumentError, match="no model_name"):
        benchmark([PPMKernel(), closure(1.0)], store=tmp_path / "run.sqlite")
    assert not (tmp_path / "run.sqlite").exists()
    assert benchmark(functions).complete
    stored = benchmark([functions[0]] * 2, store=tmp_path / "run.sqlite", model_name="m")
    assert anonymous(stored) == anonymous(benchmark(functions[0]))


# -- changes


class Changing:
    """Changes the order of a kernel at a prompt."""

    def __init__(self, kernel: PPMKernel, at: int, then: type[BaseException] | None = None) -> None:
        self.kernel, self.at, self.then = kernel, at, then

    def __call__(self, progress: Any) -> None:
        if progress.done >= self.at:
            object.__setattr__(self.kernel, "order", 0)
            if self.then is not None:
                raise self.then("stop")


@pytest.mark.parametrize("at", [1, len(QUERIES)])
@pytest.mark.parametrize("then", [None, ValueError, KeyboardInterrupt])
def test_a_change_during_the_run_is_found_and_what_was_stored_is_not_served(
    at: int, then: type[BaseException] | None, tmp_path: Path
) -> None:
    kernel, store = PPMKernel(5), tmp_path / "run.sqlite"
    error = KeyboardInterrupt if then is KeyboardInterrupt else IdentityError
    with pytest.raises(error) as found:
        run(kernel, store, chunk_size=1, progress=Changing(kernel, at, then))
    if error is IdentityError:
        assert "order was 5, is 0" in str(found.value)
        assert isinstance(found.value.__cause__, then or type(None))
    for order in (5, 0):
        predictions, record = run(PPMKernel(order), store)
        assert (predictions, record.counts["computed"]) == (direct(PPMKernel(order)), len(QUERIES))


@pytest.mark.parametrize("kind", [Normal, Suite, Method])
def test_every_benchmark_and_method_finds_a_change_without_a_store(kind: Any) -> None:
    kernel, settings = PPMKernel(5), {"datasets": ["mini"], "limit": 4}
    pair = (Method("batch_calibration", kernel), Normal(**settings)) if kind is Method else (kind(**settings), kernel)
    with pytest.raises(IdentityError, match="order was 5, is 0"):
        pair[0](pair[1], progress=Changing(kernel, 2))


# -- recheck


def _many(number: int) -> list[Query]:
    return [Query(f"prompt {place} -> ", LABELS, 0, place, 0) for place in range(number)]


@dataclass(frozen=True)
class Drifting:
    """Says that it is the same, and is not."""

    shift: float = 0.0
    tolerance: float | None = 1e-6

    def identity(self) -> Identity:
        return Identity({"model": "drifting"})

    @property
    def recheck_tolerance(self) -> float | None:
        return self.tolerance

    def __call__(self, prompt: str, label_space: Any) -> list[float]:
        return row(prompt, 0.25 + self.shift)


@pytest.mark.parametrize(("reused", "rechecked"), [(0, 0), (1, 1), (29, 29), (30, 30), (300, 30)])
def test_thirty_of_the_reused_are_rechecked(reused: int, rechecked: int, tmp_path: Path, caplog: Any) -> None:
    store = tmp_path / "run.sqlite"
    if reused:
        run(Drifting(), store, _many(reused))
    _, record = run(Drifting(), store, _many(reused + 5))
    assert record.counts == Counter(computed=5, reused=reused, rechecked=rechecked)
    _, record = run(Drifting(), store, _many(reused + 5))  # complete in the store
    assert record.counts == Counter(reused=reused + 5, rechecked=min(30, reused + 5))
    with pytest.raises(IdentityError, match="Test, query"):
        run(Drifting(1.0), store, _many(reused + 5))
    # It may change: nothing is sent, unless it is unidentified.
    assert run(Drifting(1.0, None), store, _many(reused + 5))[1].counts == Counter(reused=reused + 5)
    subclass = type("Subclass", (Drifting,), {})
    for shift in (0.0, 1.0):
        _, record = run(subclass(shift, None), store, _many(reused + 5), model_name="m")
    assert record.counts == Counter(reused=reused + 5, rechecked=min(30, reused + 5))
    assert caplog.text.count("This kernel's predictions may change") == min(30, reused + 5)
    with RunContext(False, store=store, model_name="m") as running:
        predict_queries(subclass(1.0, None), _many(reused + 5), "Test", running.options_for(subclass(1.0, None)))
    rechecks = min(30, reused + 5)
    assert list(running.warnings) == [
        f"Test: {rechecks} of {rechecks} stored predictions that were computed again differ; the predictions of this "
        "kernel may change"
    ]


@pytest.mark.parametrize(("stored", "rechecked"), [(600, [5, 5, 5, 5, 5, 5]), (300, [5, 5, 5, 15, 0, 0])])
def test_the_recheck_is_spread_over_the_parts_and_precedes_new_predictions(
    stored: int, rechecked: list[int], tmp_path: Path
) -> None:
    store, kernel, found = tmp_path / "run.sqlite", Drifting(), [0]
    run(kernel, store, _many(stored))
    with RunContext(False, store=store) as running:
        options = running.options_for(kernel)
        for number in range(6):
            part = Part(f"Test {number}", number, 6)
            predict_queries(kernel, _many(600)[100 * number : 100 * number + 100], part, options)
            assert options.counter is not None
            found.append(options.counter.counts["rechecked"])
    assert [later - before for before, later in itertools.pairwise(found)] == rechecked
    counter = RunCounter(done=30)  # after thirty, one more in each part with reused ones
    counter.reuse({("prompt", LABELS): [0.5, 0.5]}, str)
    assert len(counter.due(1, False)) == 1


class Overtaken:
    """While its first query is evaluated, another run stores predictions of the others."""

    def __init__(self, other: Any, store: Path) -> None:
        self.other = other
        self.store = store
        self.first = True

    def identity(self) -> Identity:
        return Identity({"model": "drifting"})

    def __call__(self, prompt: str, label_space: Any) -> Any:
        if self.first:
            self.first = False
            with RunContext(False, store=self.store, on_error="collect") as other_run:
                other_run.start([self.other])
                predict_queries(self.other, _many(40)[1:], "Other", other_run.options_for(self.other))
        return row(prompt, 0.25)


def test_predictions_that_another_run_stores_meanwhile_are_rechecked(tmp_path: Path) -> None:
    found, record = run(Overtaken(Drifting(), tmp_path / "equal"), tmp_path / "equal", _many(40))
    assert found == direct(Drifting(), _many(40))
    assert record.counts == Counter(computed=1, reused=39, rechecked=30)
    with pytest.raises(IdentityError, match="Test, query"):
        run(Overtaken(Drifting(1.0), tmp_path / "other"), tmp_path / "other", _many(40))


class Unsure:
    """Returns replies without a label."""

    def identity(self) -> Identity:
        return Identity({"model": "drifting"})

    def __call__(self, prompt: str, label_space: Any) -> Any:
        return "I cannot tell."


def test_replies_without_a_label_that_another_run_stores_meanwhile_count_once(tmp_path: Path) -> None:
    overtaken = Overtaken(Unsure(), tmp_path / "s")
    _, record = run(overtaken, tmp_path / "s", _many(40), on_error="collect", recheck=False)
    assert record.counts == Counter(computed=1, reused=39, failed=39)


LONG = 200_000
"""Characters of a prompt of about 50,000 tokens."""


def test_of_long_prompts_one_in_each_part_is_rechecked(tmp_path: Path) -> None:
    queries = [Query(f"{place} ".ljust(LONG, "x"), LABELS, 0, place, 0) for place in range(40)]
    store, kernel = tmp_path / "run.sqlite", Drifting()
    run(kernel, store, queries[:35])
    assert run(kernel, store, queries)[1].counts == Counter(computed=5, reused=35, rechecked=1)
    assert run(kernel, store, queries)[1].counts == Counter(reused=40, rechecked=1)
    with pytest.raises(IdentityError):
        run(Drifting(1.0), store, queries)


def test_the_sample_has_two_percent_of_the_characters(tmp_path: Path) -> None:
    queries = [Query(f"{place} ".ljust(4_000, "x"), LABELS, 0, place, 0) for place in range(1_200)]
    store, kernel = tmp_path / "run.sqlite", Drifting()
    run(kernel, store, queries)
    assert run(kernel, store, queries)[1].counts["rechecked"] == 24
    assert run(kernel, store, queries[:100])[1].counts["rechecked"] == 5  # 20,000 characters cost next to nothing


def test_requests_that_may_cost_money_are_not_sent_again_unless_asked(tmp_path: Path) -> None:
    class Priced(Drifting):
        may_cost_money = True

        def identity(self) -> Identity:
            return Identity({"model": "priced"})

    store = tmp_path / "run.sqlite"
    run(Priced(), store, _many(20))
    with RunContext(False, store=store) as running:
        options = running.options_for(Priced())
        predict_queries(Priced(), _many(25), "Test", options)
    assert options.counter.counts == Counter(computed=5, reused=20)
    assert [warning for warning in running.warnings if "cost money" in warning] == [NOT_RECHECKED]
    assert run(Priced(), store, _many(30), recheck=True)[1].counts["rechecked"] == 25
    with RunContext(False, store=store, recheck=False) as running:
        predict_queries(Priced(), _many(30), "Test", running.options_for(Priced()))
    assert not running.warnings


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


def test_the_sample_is_random(tmp_path: Path) -> None:
    store = tmp_path / "run.sqlite"
    run(Drifting(), store, _many(300))

    class Seeing(Drifting):
        seen: ClassVar[list[str]] = []

        def identity(self) -> Identity:
            return Identity({"model": "drifting"})

        def __call__(self, prompt: str, label_space: Any) -> list[float]:
            self.seen.append(prompt)
            return super().__call__(prompt, label_space)

    for _ in range(3):
        run(Seeing(), store, _many(300))
    assert len(Seeing.seen) == 90
    assert len(set(Seeing.seen)) > 40


@pytest.mark.parametrize("shift", [1e-3, -0.1])
@pytest.mark.parametrize("settings", [{}, {"executor": functools.partial(ThreadPoolExecutor, 3)}], ids=str)
def test_a_drift_ends_the_run_before_anything_is_computed(shift: float, settings: Any, tmp_path: Path) -> None:
    store = tmp_path / "run.sqlite"
    run(Drifting(), store, _many(50))
    with pytest.raises(IdentityError, match=r"^Test, query \d+: the store has \[0.25, .*again it is \[.*recheck=False"):
        run(Drifting(shift), store, _many(60), **settings)
    with PredictionStore(store) as opened:
        assert opened.info().answers == 50
    assert run(Drifting(shift), store, _many(60), recheck=False)[1].counts == Counter(computed=10, reused=50)


@pytest.mark.parametrize(("shift", "tolerance"), [(1e-9, 1e-6), (1e-5, 1e-4), (0.01, 0.02)])
def test_the_tolerance_that_a_kernel_declares(shift: float, tolerance: float, tmp_path: Path) -> None:
    run(Drifting(), tmp_path / "run.sqlite", _many(10))
    with pytest.raises(IdentityError):
        run(Drifting(shift, tolerance / 1e6), tmp_path / "run.sqlite", _many(20))
    assert run(Drifting(shift, tolerance), tmp_path / "run.sqlite", _many(20))[1].counts["rechecked"] == 10


def test_a_recheck_that_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    failing = Drifting("out of order")  # type: ignore[arg-type]
    run(Drifting(), tmp_path / "run.sqlite", _many(3))
    with pytest.raises(OutputError, match=r"recheck of a stored prediction: .*TypeError"):
        run(failing, tmp_path / "run.sqlite", _many(4))
    _, record = run(failing, tmp_path / "run.sqlite", _many(4), on_error="collect")
    assert record.counts == Counter(reused=3, failed=1)
    benchmark, settings = Normal(datasets=["mini"], limit=2), {"batched_inference": True, "on_error": "collect"}
    (predictor,) = benchmark(lambda prompt, label_space: [0, "?", 0, 1], **settings).provenance.predictors
    assert (predictor.computed, predictor.failed) == (3, 1)
    monkeypatch.setitem(globals(), "row", Mock(side_effect=RunEndingError("no quota")))  # also on_error="collect" ends
    with pytest.raises(OutputError, match=r"recheck of a stored prediction: .*no quota"):
        run(Drifting(), tmp_path / "run.sqlite", _many(3), on_error="collect")


def test_tolerances() -> None:
    def f(prompt: Any, label_space: Any, dtype: str = "float32") -> list[float]:
        return [0.0]

    assert tolerance_of(f) == 1e-6
    f.recheck_tolerance_for = lambda dtype: 1e-4 if dtype == "float32" else 1e-2  # type: ignore[attr-defined]
    partial = functools.partial(f, dtype="bfloat16")
    assert tolerance_of(partial) == tolerance_of(lambda *_: partial) == 1e-2
    assert tolerance_of(Drifting(tolerance=None)) is None
    assert tolerance_of(FeatureFunction(Drifting(tolerance=0.5), {"hidden"})) == 0.5
    assert tolerance_of(TextInference(Drifting(tolerance=None))) is None
    kernel, by_default, by_keyword = Drifting(tolerance=0.5), lambda *_: 0, lambda *_: 0
    by_default.__defaults__, by_keyword.__kwdefaults__ = (kernel,), {"kernel": kernel}
    held = functools.partial(f, [{"kernel": kernel}])
    for function in (by_default, by_keyword, held, lambda *_: kernel, functools.partial(print, file=kernel)):
        assert tolerance_of(function) == 0.5


# -- the contract


def test_digest_and_differences() -> None:
    pairs = [
        ({"dtype": "a"}, {"dtype": "x"}),
        ({"dtype": "b"}, {"dtype": "x"}),
        ({"dtype": "x"}, {}),
        ({}, {"dtype": "x"}),
    ]
    assert len({Identity(*pair).digest for pair in pairs}) == 4
    one = Identity({"a": "1", "b": "2"}, {"s": "x"})
    assert one.digest == Identity({"b": "2", "a": "1"}, {"s": "x"}).digest
    assert one.digest != Identity({"a": "1", "b": "2"}, {"s": "y"}).digest
    assert one.digest == replace(one, unidentified=("because",)).digest
    assert not combined(one, "calibration", replace(one, plain=True)).complete
    assert one.differences(Identity({"a": "1"}, {"s": "y"})) == {"b": ("2", None), "s": ("x", "y")}


# -- workers refuse an inference function that is not the one that was sent


SOURCE = """
WEIGHT = 1.0

def predict(prompt, label_space):
    return [WEIGHT, *(0.5 for _ in label_space[1:])]

class Model:
    scale = 1.0

    def __call__(self, prompt, label_space):
        return [self.scale, *(0.5 for _ in label_space[1:])]
"""


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    (tmp_path / "made_for_workers.py").write_text(SOURCE, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=":")
    yield importlib.import_module("made_for_workers")
    sys.modules.pop("made_for_workers", None)


def run_in_worker(function: Any, store: Path) -> Any:
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return Normal(datasets=["mini"], limit=2)(function, store=store, model_name="made", executor=pool)


def stored(store: Path) -> int:
    with PredictionStore(store, read_only=True) as opened:
        return opened.info().answers


def test_a_function_is_the_same_in_workers(made: ModuleType, tmp_path: Path) -> None:
    store = tmp_path / "run.sqlite"
    assert run_in_worker(made.predict, store) == Normal(datasets=["mini"], limit=2)(made.predict, model_name="made")
    assert stored(store) > 0


def test_a_module_that_was_edited_since_it_was_imported_is_refused(made: ModuleType, tmp_path: Path) -> None:
    path, store = tmp_path / "made_for_workers.py", tmp_path / "run.sqlite"
    run_in_worker(made.predict, store)
    path.write_text(SOURCE.replace("*(0.5", "*(0.25"), encoding="utf-8")
    with pytest.raises(IdentityError, match="another inference function than the one that was sent"):
        run_in_worker(made.predict, tmp_path / "other.sqlite")
    assert stored(tmp_path / "other.sqlite") == 0


@pytest.mark.parametrize(
    "part",
    [{"who": {}}, {"settings": {"s": "x"}}, {"unidentified": ("x",)}, {"plain": True}],
    ids=["who", "settings", "unidentified", "plain"],
)
def test_a_copy_with_another_identity_is_refused(part: dict[str, Any]) -> None:
    copy = pickle.loads(pickle.dumps(RemoteFunction(Drifting())))
    assert copy.load() == Drifting()
    with pytest.raises(IdentityError):
        replace(copy, identity=replace(copy.identity, **part), identifier="other").load()
