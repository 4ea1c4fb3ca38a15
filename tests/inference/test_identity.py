"""Inference functions that differ never share predictions; those that are the same share all of them."""

from __future__ import annotations

import functools
import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import identity_cases
import pytest
from identity_cases import DIFFERENT, LABELS, QUERIES, SAME, UNIDENTIFIED, Scaled, module, row

from StaICC import Dataset, Normal, Suite
from StaICC.benchmarks.running import RunContext
from StaICC.errors import ArgumentError, IdentityError, OutputError
from StaICC.inference import ask
from StaICC.inference.contract import batch_form
from StaICC.inference.identity import Identity, identity_of
from StaICC.inference.recheck import tolerance_of
from StaICC.inference.run_record import RunCounts, RunRecord
from StaICC.inference.store import PredictionStore, query_key
from StaICC.inference.store_format import IDENTITY, QUARANTINE
from StaICC.kernels.ppm import PPMKernel
from StaICC.kernels.protocol import Kernel
from StaICC.kernels.text_inference import TextInference
from StaICC.methods.caching import CachingKernel
from StaICC.prompting import Query

HERE = Path(__file__).parent


def run(function: Any, store: Any = None, queries: Any = None, **settings: Any) -> tuple[list[Any], RunRecord]:
    """The predictions of a run, and its record."""
    with RunContext(False, store=store, **settings) as running:
        running.start([function])
        found = ask(function, queries or QUERIES, "Test", running.options_for(function))
    (record,) = running.records
    return found, record


def direct(function: Any, queries: Any = None) -> list[Any]:
    """The predictions of direct calls: the oracle."""
    return [function(prompt=query.prompt, label_space=list(query.label_space)) for query in queries or QUERIES]


# -- tables


@pytest.mark.parametrize("name", DIFFERENT)
def test_functions_that_differ_never_share_predictions(name: str, tmp_path: Path) -> None:
    one, other = DIFFERENT[name]()
    expected = direct(one), direct(other)
    assert expected[0] != expected[1]
    assert identity_of(one).unidentified == identity_of(other).unidentified == ()
    assert identity_of(one).differences(identity_of(other))
    store = tmp_path / "run.sqlite"
    for number, function in [(0, one), (1, other), (0, one), (1, other)]:
        assert run(function)[0] == expected[number]
        assert run(function, store)[0] == expected[number]
        assert run(function, store, model_name="m")[0] == expected[number]  # the name is added, it replaces nothing
    with ThreadPoolExecutor(2) as executor:
        assert run(other, executor=executor)[0] == expected[1]


def test_a_batch_of_a_partial_is_part_of_its_identity() -> None:
    def made(number: float) -> Any:
        function = functools.partial(identity_cases.documented, number=1.0)
        function.batch = lambda prompts, label_space: [[number, 1.5] for _ in prompts]  # type: ignore[attr-defined]
        return function

    one, other = made(1.0), made(2.0)
    assert run(one)[0] != run(other)[0]
    assert identity_of(one).digest != identity_of(other).digest
    wrapped = functools.update_wrapper(functools.partial(row, number=1.0), row)
    assert identity_of(wrapped) == identity_of(functools.partial(row, number=1.0))


@pytest.mark.parametrize("name", UNIDENTIFIED)
def test_what_cannot_be_identified_needs_a_name(name: str, tmp_path: Path) -> None:
    functions = UNIDENTIFIED[name]()
    changed = functions[1]  # the first of a pair may be complete, where the second one is patched
    assert identity_of(changed).unidentified
    assert run(changed)[1].identity.unidentified
    with pytest.raises(ArgumentError, match=r"cannot be identified completely.*model_name='my-model-v1'"):
        run(changed, tmp_path / "run.sqlite")
    for number, function in enumerate(functions):
        assert run(function, tmp_path / "run.sqlite", model_name=f"m{number}")[1].counts.computed == len(QUERIES)
        assert run(function, tmp_path / "run.sqlite", model_name=f"m{number}")[1].counts.computed == 0


def test_the_reason_names_what_is_not_identified() -> None:
    def reasons(name: str) -> str:
        return "; ".join(identity_of(UNIDENTIFIED[name]()[1]).unidentified)

    assert reasons("a_patched_method") == "attribute 'predict' replaces a method of its class"
    assert reasons("global_dictionaries") == "global 'TABLE' is a dict, which can change"
    assert reasons("lists_in_a_closure") == "closure variable 'numbers' is a list, which can change"
    assert reasons("lists_in_attributes") == "attribute 'numbers' is a list, which can change"
    assert reasons("global_objects") == "global 'c' is an object of type C, which can change"
    assert "global 'open'" in reasons("files_that_are_read")
    assert reasons("other_modules") == "global 'os' is the module os, which is not known to be pure"


@pytest.mark.parametrize("name", SAME)
def test_functions_that_are_the_same_share_all_predictions(name: str, tmp_path: Path) -> None:
    one, other = SAME[name]()
    assert identity_of(one) == identity_of(other)
    assert not identity_of(one).unidentified
    first, _ = run(one, tmp_path / "run.sqlite")
    again, record = run(other, tmp_path / "run.sqlite")
    assert first == again == direct(one) == direct(other)
    assert record.counts == RunCounts(reused=len(QUERIES))


OTHER_PROCESS = """
import json, sys
sys.path.insert(0, {here!r})
import identity_cases as cases
from StaICC.inference.identity import identity_of
from test_identity import run
found = {{}}
for table in (cases.DIFFERENT, cases.SAME):
    for name, make in table.items():
        predictions, record = run(make()[{which}], {folder!r} + "/" + name)
        found[name] = [predictions, record.counts.computed, record.identity.digest]
print(json.dumps(found))
"""


def test_across_processes(tmp_path: Path) -> None:
    found = []
    for which, seed in ((0, "1"), (1, "2"), (0, "3")):
        text = OTHER_PROCESS.format(here=str(HERE), which=which, folder=str(tmp_path))
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        done = subprocess.run([sys.executable, "-c", text], env=environment, capture_output=True, text=True, check=True)
        found.append(json.loads(done.stdout))
    first, second, third = found
    for name, make in DIFFERENT.items():
        one, other = make()
        assert first[name] == [direct(one), len(QUERIES), identity_of(one).digest], name
        assert second[name] == [direct(other), len(QUERIES), identity_of(other).digest], name
        assert third[name] == [direct(one), 0, identity_of(one).digest], name
    for name, make in SAME.items():
        assert first[name][0] == second[name][0] == direct(make()[0]), name
        assert (first[name][1], second[name][1]) == (len(QUERIES), 0), name


@pytest.mark.parametrize(
    "settings",
    [{"chunk_size": 1}, {"chunk_size": 3}, {"executor": functools.partial(ThreadPoolExecutor, 3)}, {"recheck": False}],
    ids=str,
)
@pytest.mark.parametrize("kernel", [PPMKernel(), Scaled(2.0)], ids=["batched", "plain"])
def test_how_a_run_asks_is_no_part_of_the_identity(settings: Any, kernel: Any, tmp_path: Path) -> None:
    first, _ = run(kernel, tmp_path / "run.sqlite")
    again, record = run(kernel, tmp_path / "run.sqlite", QUERIES[::-1], **settings)
    assert (again[::-1], record.counts) == (first, RunCounts(reused=len(QUERIES)))


def test_benchmarks_share_predictions_of_one_function(tmp_path: Path) -> None:
    store, count = tmp_path / "run.sqlite", []

    def make() -> Any:
        return lambda prompt, label_space: [len(prompt) % 7 + len(label) for label in label_space]

    suite = Suite(datasets=["mini"], limit=4)(make(), store=store)
    with PredictionStore(store) as opened:
        count.append(opened.info().answers)
    assert Normal(datasets=["mini"], limit=4)(make(), store=store) == suite["Normal"]
    assert Suite(datasets=["mini"], limit=4)(make(), store=store) == suite
    with PredictionStore(store) as opened:
        assert [opened.info().answers] == count


# -- lists of functions


def _two_sets() -> list[Dataset]:
    rows = [(("good",), 1), (("bad",), 0)] * 30
    return [Dataset.from_rows(rows, name=name, label_space=["no", "yes"]) for name in ("a", "b")]  # the same prompts


@pytest.mark.parametrize("model_name", [None, "m"])
def test_a_swapped_list_never_exchanges_predictions(
    model_name: str | None, tmp_path: Path, anonymous: Callable[[Any], Any]
) -> None:
    functions = [lambda prompt, label_space: 0, lambda prompt, label_space: 1]
    benchmark = Normal(datasets=_two_sets(), limit=4)
    for each in (functions, functions[::-1], functions):
        for _ in range(2):
            stored = benchmark(each, store=tmp_path / "run.sqlite", model_name=model_name)
            assert anonymous(stored) == anonymous(benchmark(each))


def test_functions_that_nothing_tells_apart_are_refused_under_one_name(
    tmp_path: Path, anonymous: Callable[[Any], Any]
) -> None:
    functions = UNIDENTIFIED["lists_in_a_closure"]()
    benchmark = Normal(datasets=_two_sets(), limit=4)
    with pytest.raises(ArgumentError, match="two inference functions of the list have the same model_name"):
        benchmark(functions, store=tmp_path / "run.sqlite", model_name="m")
    assert benchmark(functions).complete
    stored = benchmark([functions[0]] * 2, store=tmp_path / "run.sqlite", model_name="m")
    assert anonymous(stored) == anonymous(benchmark(functions[0]))


# -- changes


def test_a_global_that_changes_between_two_runs(tmp_path: Path) -> None:
    made = module("N = 1.0\ndef f(prompt, label_space):\n    return [N, 1.5]\n")
    for number in (1.0, 2.0, 1.0):
        made.N = number
        assert run(made.f, tmp_path / "run.sqlite")[0] == direct(made.f)


def test_the_difference_is_named() -> None:
    one, other = identity_cases.DIFFERENT["global_constants"]()
    assert identity_of(one).differences(identity_of(other)) == {"global NUMBER": ("1.0", "2.0")}


def test_texts_are_not_shown() -> None:
    secret = "a-key-of-many-characters"
    assert secret not in str(identity_of(lambda prompt, label_space, key=secret: key))


class Changing:
    """Its factor is changed from outside, at a prompt."""

    def __init__(self, made: Any, at: int, then: type[BaseException] | None = None) -> None:
        self.made, self.at, self.then = made, at, then

    def __call__(self, progress: Any) -> None:
        if progress.done == self.at:
            self.made.N = 2.0
            if self.then is not None:
                raise self.then("stop")


def _made() -> Any:
    return module("N = 1.0\ndef f(prompt, label_space):\n    return [N, 1.5 + len(prompt)]\n")


@pytest.mark.parametrize("at", [1, 3, len(QUERIES)])
@pytest.mark.parametrize("then", [None, ValueError, KeyboardInterrupt])
def test_a_change_during_the_run_is_found_and_what_was_stored_is_not_served(
    at: int, then: type[BaseException] | None, tmp_path: Path
) -> None:
    made, store = _made(), tmp_path / "run.sqlite"
    error = KeyboardInterrupt if then is KeyboardInterrupt else IdentityError
    with pytest.raises(error) as found:
        run(made.f, store, progress=Changing(made, at, then))
    if error is IdentityError:
        assert "global N was 1.0, is 2.0" in str(found.value)
        assert "quarantined" in str(found.value)
        assert isinstance(found.value.__cause__, then or type(None))
    with PredictionStore(store) as opened:
        (info,) = opened.info(verify=True).models
        assert info.fingerprint is not None
        assert info.fingerprint.startswith(QUARANTINE + IDENTITY)
        assert info.limits is not None
        assert (info.answers, info.damaged) == (at if then else len(QUERIES), 0)
    for number in (1.0, 2.0):
        made.N = number
        predictions, record = run(made.f, store)
        assert (predictions, record.counts.computed) == (direct(made.f), len(QUERIES))


def test_what_earlier_runs_stored_is_not_quarantined(tmp_path: Path) -> None:
    made, store = _made(), tmp_path / "run.sqlite"
    run(made.f, store, QUERIES[:3])
    with pytest.raises(IdentityError):
        run(made.f, store, QUERIES, recheck=False, progress=Changing(made, 5))
    made.N = 1.0
    assert run(made.f, store, recheck=False)[1].counts == RunCounts(computed=len(QUERIES) - 3, reused=3)


def test_a_change_is_found_without_a_store_too() -> None:
    made = _made()
    with pytest.raises(IdentityError, match=r"global N was 1.0, is 2.0"):
        run(made.f, progress=Changing(made, 2))


@pytest.mark.parametrize(
    "make", [lambda: Normal(datasets=["mini"], limit=4), lambda: Suite(datasets=["mini"], limit=4)]
)
def test_every_benchmark_finds_a_change(make: Any) -> None:
    made = module("N = 0\ndef f(prompt, label_space):\n    return N\n")
    changed = Changing(made, 2)
    with pytest.raises(IdentityError, match=r"global N was 0, is 2.0"):
        make()(made.f, progress=changed)


def test_a_change_of_what_was_never_identified_is_reported(tmp_path: Path) -> None:
    """It may load what it needs when it is first called."""

    class Lazy:
        def __init__(self) -> None:
            self.table = {"factor": 1.0}
            self.loaded = False

    lazy = Lazy()

    def f(prompt: str, label_space: Any) -> list[float]:
        object.__setattr__(lazy, "loaded", True)
        return row(prompt, lazy.table["factor"])

    predictions, record = run(f)
    assert predictions == direct(f)
    assert record.identity.unidentified[0].startswith("closure variable 'lazy': attribute 'table' is a dict")
    lazy.loaded = False
    changed = run(f)[1].identity.unidentified
    assert any("closure lazy was" in reason for reason in changed)
    lazy.loaded = False
    with pytest.raises(IdentityError, match="closure lazy was"):
        run(f, tmp_path / "run.sqlite", model_name="m")


def test_methods_find_a_change() -> None:
    from StaICC.methods.run import Method

    class Model(PPMKernel):
        factor = 1.0

    model = Model()

    def change(progress: Any) -> None:
        Model.factor = 2.0

    with pytest.raises(IdentityError, match="subclass code was"):
        Method("batch_calibration", model)(Normal(datasets=["mini"], limit=4), progress=change)


def test_functions_that_count_their_calls_run() -> None:
    calls: list[str] = []
    number = 0

    def f(prompt: str, label_space: Any) -> list[float]:
        nonlocal number
        number += 1
        calls.append(prompt)
        return row(prompt, 1.0)

    class Counting:
        number = 0

        def __call__(self, prompt: str, label_space: Any) -> list[float]:
            self._count()
            return row(prompt, 1.0)

        def _count(self) -> None:
            self.number += 1

    counting = Counting()
    assert run(f)[0] == run(counting)[0] == direct(f)
    assert (number, counting.number) == (2 * len(QUERIES), len(QUERIES))
    assert run(f)[1].identity.unidentified == (
        "closure variable 'calls' is a list, which can change",
        "closure variable 'number' is rebound by the function itself",
    )


# -- wrappers and batches


def test_a_wrapper_has_its_own_batch_or_none() -> None:
    documented = identity_cases.documented

    @functools.wraps(documented)
    def wrapper(prompt: Any, label_space: Any, **more: Any) -> list[float]:
        return documented(prompt, label_space)[::-1]

    assert batch_form(documented) is not None
    assert batch_form(functools.partial(documented, number=1.0)) is not None
    assert batch_form(wrapper) is None
    assert batch_form(functools.partial(wrapper, number=1.0)) is None
    assert batch_form(functools.wraps(wrapper)(lambda prompt, label_space: 0)) is None
    setattr(wrapper, "batch", lambda prompts, label_space, **more: [wrapper(prompt, label_space) for prompt in prompts])  # noqa: B010
    own = batch_form(wrapper)
    assert own is not None
    assert own(["a"], ["no", "yes"]) == [wrapper("a", ["no", "yes"])]


def test_partials_of_documented_functions_are_asked() -> None:
    partial = functools.partial(identity_cases.documented, number=3.0)
    assert identity_of(partial) == Identity({"model": "documented"}, {"n": "{'number': 3.0}"})


# -- the record


def test_retries_in_worker_processes_are_counted(tmp_path: Path) -> None:
    kernel = identity_cases.Retrying()
    with RunContext(False, executor=lambda: ProcessPoolExecutor(2), chunk_size=2) as running:
        running.start([kernel])
        ask(kernel, _many(12), "Test", running.options_for(kernel))
    (record,) = running.records
    assert (kernel.retried, record.counts) == (0, RunCounts(computed=12, retried=12))


def test_the_record_of_a_run(tmp_path: Path) -> None:
    class Retrying(PPMKernel):
        retried = 0

        def __call__(self, prompt: Any, label_space: Any) -> list[float]:
            if "sad" in prompt:
                raise ValueError("no")
            return PPMKernel.__call__(self, prompt, label_space)

    kernel = Retrying()
    run(kernel, tmp_path / "run.sqlite", QUERIES[:2], model_name="m")

    def retry(progress: Any) -> None:
        Retrying.retried = 4 if progress.done else 0

    settings = {"model_name": "m", "on_error": "collect"}
    with RunContext(False, store=tmp_path / "run.sqlite", **settings) as running:  # type: ignore[arg-type]
        running.start([kernel])
        ask(kernel, QUERIES, "Test", running.options_for(kernel))
        assert running.records == ()
    (record,) = running.records
    assert record.identity == identity_of(kernel)
    assert record.model_name == "m"
    assert record.counts == RunCounts(computed=4, reused=2, rechecked=2, failed=1)
    assert record.started <= record.finished
    assert record.started.endswith("+00:00")
    assert len(record.started) == len("2026-11-21T22:00:00+00:00")


def test_one_record_for_each_function() -> None:
    functions = [PPMKernel(2), Scaled(1.0), PPMKernel(2)]
    with RunContext(False) as running:
        for function in (*functions, functions[0]):
            ask(function, QUERIES, "Test", running.options_for(function))
    assert [record.counts.computed for record in running.records] == [2 * len(QUERIES), len(QUERIES), len(QUERIES)]


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


@pytest.mark.parametrize(("reused", "rechecked"), [(0, 0), (1, 1), (2, 2), (3, 3), (299, 3), (301, 4), (1000, 10)])
def test_a_hundredth_of_the_reused_is_rechecked(reused: int, rechecked: int, tmp_path: Path) -> None:
    store = tmp_path / "run.sqlite"
    run(Drifting(), store, _many(reused) or _many(1)[:0] or None) if reused else None
    _, record = run(Drifting(), store, _many(reused + 5))
    assert record.counts == RunCounts(computed=5, reused=reused, rechecked=rechecked)
    _, record = run(Drifting(1.0), store, _many(reused + 5))  # complete in the store
    assert record.counts == RunCounts(reused=reused + 5)


def test_the_reused_of_all_parts_count(tmp_path: Path) -> None:
    store, kernel = tmp_path / "run.sqlite", Drifting()
    run(kernel, store, _many(400))
    with RunContext(False, store=store) as running:
        options = running.options_for(kernel)
        for start in range(0, 600, 100):
            ask(kernel, _many(600)[start : start + 100], "Test", options)
    assert running.records[0].counts == RunCounts(computed=200, reused=400, rechecked=4)


@pytest.mark.parametrize("shift", [1e-3, 5.0, -0.1])
@pytest.mark.parametrize(
    "settings", [{}, {"chunk_size": 2}, {"executor": functools.partial(ThreadPoolExecutor, 3)}], ids=str
)
def test_a_drift_ends_the_run_before_anything_is_computed(shift: float, settings: Any, tmp_path: Path) -> None:
    store = tmp_path / "run.sqlite"
    run(Drifting(), store, _many(50))
    with pytest.raises(IdentityError, match=r"the store has \[0.25, .*computed again it is \[.*recheck=False"):
        run(Drifting(shift), store, _many(60), **settings)
    with PredictionStore(store) as opened:
        assert opened.info().answers == 50
    assert run(Drifting(shift), store, _many(60), recheck=False)[1].counts == RunCounts(computed=10, reused=50)


def test_a_drift_names_the_part_whose_prediction_differs(tmp_path: Path) -> None:
    """The first new query may belong to a later part than the reused prediction that is rechecked."""
    store = tmp_path / "run.sqlite"
    run(Drifting(), store, _many(3))
    with RunContext(False, store=store) as running:
        options = running.options_for(Drifting(1.0))
        ask(Drifting(1.0), _many(3), "first", options)
        with pytest.raises(IdentityError, match=r"^first: the store has"):
            ask(Drifting(1.0), _many(6)[3:], "second", options)


@pytest.mark.parametrize(("shift", "tolerance"), [(1e-9, 1e-6), (1e-5, 1e-4), (0.01, 0.02)])
def test_the_tolerance_that_a_kernel_declares(shift: float, tolerance: float, tmp_path: Path) -> None:
    run(Drifting(), tmp_path / "run.sqlite", _many(10))
    with pytest.raises(IdentityError):
        run(Drifting(shift, tolerance / 1e6), tmp_path / "run.sqlite", _many(20))
    assert run(Drifting(shift, tolerance), tmp_path / "run.sqlite", _many(20))[1].counts.rechecked == 3


def test_a_kernel_without_a_tolerance_only_warns(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    run(Drifting(), tmp_path / "run.sqlite", _many(10))
    _, record = run(Drifting(1.0, None), tmp_path / "run.sqlite", _many(20))
    assert record.counts == RunCounts(computed=10, reused=10, rechecked=3)
    assert sum("computed again it is" in message for message in caplog.messages) == 3


def test_labels_and_texts_must_be_equal(tmp_path: Path) -> None:
    class Labelling:
        def __init__(self, label: int) -> None:
            self.label = label

        def identity(self) -> Identity:
            return Identity({"model": "labelling"})

        def __call__(self, prompt: str, label_space: Any) -> int:
            return self.label

    run(Labelling(0), tmp_path / "run.sqlite", _many(3))
    with pytest.raises(IdentityError, match=r"the store has 0 .*computed again it is 1"):
        run(Labelling(1), tmp_path / "run.sqlite", _many(4))


def test_a_recheck_that_fails(tmp_path: Path) -> None:
    class Failing(Drifting):
        def identity(self) -> Identity:
            return Identity({"model": "drifting"})

        def __call__(self, prompt: str, label_space: Any) -> list[float]:
            raise ValueError("out of order")

    run(Drifting(), tmp_path / "run.sqlite", _many(3))
    with pytest.raises(OutputError, match=r"recheck of a stored prediction: .*out of order"):
        run(Failing(), tmp_path / "run.sqlite", _many(4))
    _, record = run(Failing(), tmp_path / "run.sqlite", _many(4), on_error="collect")
    assert record.counts == RunCounts(reused=3, failed=1)


def test_tolerances() -> None:
    def f(prompt: Any, label_space: Any, dtype: str = "float32") -> list[float]:
        return [0.0]

    assert tolerance_of(f) == 1e-6
    f.recheck_tolerance_for = lambda dtype: 1e-4 if dtype == "float32" else 1e-2  # type: ignore[attr-defined]
    assert tolerance_of(functools.partial(f, dtype="bfloat16")) == 1e-2
    assert tolerance_of(Drifting(tolerance=None)) is None
    assert tolerance_of(CachingKernel(Drifting(tolerance=0.5))) == 0.5
    assert tolerance_of(TextInference(Drifting(tolerance=None))) is None


def test_a_function_has_the_tolerance_of_the_kernels_that_it_refers_to() -> None:
    def using(*kernels: Any) -> Any:
        return lambda prompt, label_space: next(kernel(prompt, label_space) for kernel in kernels)

    class Wrapper:
        def __init__(self, kernel: Drifting) -> None:
            self.kernel = kernel

        def __call__(self, prompt: str, label_space: Any) -> list[float]:
            return self.kernel(prompt, label_space)

    quarter = Drifting(tolerance=0.25)

    def with_default(prompt: str, label_space: Any, kernel: Any = quarter) -> Any:
        return kernel(prompt, label_space)

    assert tolerance_of(using(Drifting(tolerance=0.5))) == 0.5
    assert tolerance_of(using(Drifting(tolerance=0.5), quarter)) == 0.5
    assert tolerance_of(using(Drifting(tolerance=0.5), Drifting(tolerance=None))) is None
    assert tolerance_of(Wrapper(Drifting(tolerance=0.5))) == 0.5
    assert tolerance_of(with_default) == 0.25
    assert tolerance_of(functools.partial(lambda prompt, label_space, kernel: 0, kernel=quarter)) == 0.25
    assert tolerance_of(using(PPMKernel())) == 1e-6


@pytest.mark.parametrize("value", ["no", 1, None])
def test_recheck_is_true_or_false(value: Any) -> None:
    with pytest.raises(ArgumentError, match="recheck must be True or False"):
        Normal(datasets=["mini"], limit=2)(PPMKernel(), recheck=value)


# -- stores


def test_stores_of_the_version_before_are_read_and_never_mixed(tmp_path: Path) -> None:
    store = tmp_path / "run.sqlite"
    with PredictionStore(store) as opened:  # the layout is the same; the names were others
        for name in ("ppm/1 escape=C order=12", "name:m", "name:m, function 1"):
            opened.put_many(name, [(query_key(query.prompt, query.label_space), [9.0, 1.0]) for query in QUERIES])
    for model_name in (None, "m"):
        assert run(PPMKernel(), store, model_name=model_name)[0] == direct(PPMKernel())
    with PredictionStore(store) as opened:
        limits = {model.fingerprint: model.limits for model in opened.info().models}
        old = [name for name, limit in limits.items() if limit is not None]
        assert sorted(old) == ["name:m", "name:m, function 1", "ppm/1 escape=C order=12"]  # type: ignore[type-var]
        assert all("older version" in str(limits[name]) for name in old)
        assert opened.info().answers == 5 * len(QUERIES)


def test_quarantine_moves_rows_and_only_these(tmp_path: Path) -> None:
    keys = [query_key(query.prompt, query.label_space) for query in QUERIES]
    with PredictionStore(tmp_path / "run.sqlite") as store:
        store.put_many("A", [(key, number) for number, key in enumerate(keys)])
        store.put_many("B", [(key, number) for number, key in enumerate(keys)])
        assert store.quarantine("A", [*keys[:2], b"x" * 32]) == 2
        assert store.quarantine("A", keys[:2]) == 0
        assert store.get_many("A", keys) == {key: number for number, key in enumerate(keys) if number >= 2}
        assert len(store.get_many("B", keys)) == len(keys)
        assert store.get_many(QUARANTINE + "A", keys) == {keys[0]: 0, keys[1]: 1}
        store.put_many("A", [(keys[0], 5)])
        assert store.quarantine("A", keys[:1]) == 1
        assert store.get_many(QUARANTINE + "A", keys[:1]) == {keys[0]: 5}
        assert store.info(verify=True).damaged == 0
    with sqlite3.connect(tmp_path / "run.sqlite") as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)


# -- the contract


def test_ppm_is_a_kernel() -> None:
    assert isinstance(PPMKernel(), Kernel)
    identity = PPMKernel(3, "A").identity()
    assert identity == identity_of(PPMKernel(3, "A"))
    assert dict(identity.who) == {"model": "ppm", "algorithm": "ppm/1"}
    assert dict(identity.settings) == {"escape": "A", "order": "3"}


def test_digest_and_differences() -> None:
    one = Identity({"a": "1", "b": "2"}, {"s": "x"})
    assert one.digest == Identity({"b": "2", "a": "1"}, {"s": "x"}).digest
    assert one.digest != Identity({"a": "1", "b": "2"}, {"s": "y"}).digest
    assert one.digest == replace(one, unidentified=("because",)).digest
    assert one.differences(Identity({"a": "1"}, {"s": "y"})) == {"b": ("2", None), "s": ("x", "y")}
