"""Methods in one call: results, tables, groups, refusals, signatures, every option; many-shot."""

from __future__ import annotations

import contextlib
import re
from dataclasses import replace
from pathlib import Path
from typing import Any, get_type_hints

import pytest

from StaICC import GLER, DomainCalibration, Normal
from StaICC.benchmarks.verify import verify
from StaICC.errors import ArgumentError, OutputError, StaICCError, UnknownNameError
from StaICC.inference.identity import Identity
from StaICC.inference.replies import Failure
from StaICC.kernels.registry import OptionFact, options_of
from StaICC.methods import run as ms
from StaICC.methods.batch_calibration import batch_calibrated
from StaICC.methods.calibrated_kernel import CalibratedKernel
from StaICC.methods.catalogue import METHODS
from StaICC.methods.many_shot import run_many_shot
from StaICC.methods.method_signature import method_field
from StaICC.methods.present_rows import without_failures
from StaICC.methods.prompt_views import clean_copy
from StaICC.methods.released.methods import RELEASED
from StaICC.methods.run import Method, run_all
from StaICC.prompting.demonstrations import sample_nested
from StaICC.results.result import Result
from tests.methods.fakes import METHODS_WITH_VARIANTS, Kernel, benchmark_on_mini, predictions_of

SIXTEEN_EACH = 14 + 15 + 16
"""Calibration rows of mini with which hidden calibration is trained: two labels have fewer than 16."""


def test_a_method_that_the_release_has_not_is_refused_before_anything_runs() -> None:
    kernel = Kernel()
    with pytest.raises(ArgumentError, match="the release has no method 'ensemble', only batch_calibration"):
        ms.Method("ensemble", kernel, "0.1.1").run(benchmark_on_mini())
    assert kernel.ran == []


@pytest.mark.parametrize(("name", "variant"), METHODS_WITH_VARIANTS)
def test_every_method_runs_and_leaves_the_benchmark_alone(name: str, variant: str) -> None:
    bench = benchmark_on_mini()
    before, prompts = bench.signature(), bench[0].prompt_set()
    result = ms.Method(name, Kernel(), variant, calibration_number=20).run(bench)
    assert isinstance(result, Result)
    assert result.complete
    assert 0 <= result["Averaged results"]["accuracy"] <= 1
    assert (bench.signature(), bench[0].prompt_set()) == (before, prompts)
    assert ms.Method(name.replace("_", "-"), Kernel(), variant, calibration_number=20)(bench) == result
    assert (f"{name} {variant}" in str(result.signature)) is (name != "vanilla")


@pytest.mark.parametrize(
    ("name", "variant", "training", "test"),
    [
        ("vanilla", "paper", 0, 8),
        ("hidden_calibration", "paper", SIXTEEN_EACH, 8),
        ("hidden_calibration", "staicc", 20, 8),
        ("ppl_icl", "paper", 5 * 20, 8),
        ("contextual_calibration", "paper", 0, 8 * 4),  # the query and three texts after its demonstrations
        ("contextual_calibration", "staicc", 20, 8),
        ("domain_calibration", "paper", 0, 8 * 21),
        ("topk", "paper", 192, 4 + 4),  # 192 demonstrations and 4 queries are encoded
        ("sa_icl", "paper", 192, 4 + 4 * 10),
    ],
)
def test_cost(name: str, variant: str, training: int, test: int) -> None:
    timing = ms.Method(name, Kernel(), variant, calibration_number=20).run(benchmark_on_mini()).timing
    assert (timing["training_prompts"], timing["test_prompts"], timing["reused_prompts"]) == (training, test, 0)
    assert (timing["training_seconds"] > 0) is (training > 0)


def test_calibration_is_what_its_class_computes() -> None:
    experimentor = benchmark_on_mini()[0]
    made = DomainCalibration(experimentor.get_label_space())
    write = experimentor.prompt_former.write_prompt_from_dataline
    made.train(write, Kernel(), experimentor.calibration_set(), calibration_number=20, sample_length=7, k=2)
    plain = benchmark_on_mini()(CalibratedKernel(Kernel(), made), return_outputs=True)
    method = ms.Method("domain_calibration", Kernel(), "staicc", calibration_number=20, sample_length=7)
    assert predictions_of(method.run(benchmark_on_mini(), return_outputs=True)) == predictions_of(plain)


@pytest.mark.filterwarnings("ignore::StaICC.TemplateWarning")
def test_changed_templates_are_kept() -> None:
    bench = benchmark_on_mini()
    bench[0].prompt_former.change_instruction("Look: ")
    bench[0].set_in_domain_mode()
    noisy = clean_copy(bench[0], noisy_channel=True)
    assert noisy.prompt_set()[0][0].startswith("Look: ")
    assert noisy.prompt_former.settings.noisy_channel
    assert not bench[0].prompt_former.settings.noisy_channel
    result = ms.Method("contextual_calibration", Kernel(), calibration_number=4).run(bench)
    assert result.signature.fields["template"].startswith("changed-")
    assert ms.Method("vanilla", Kernel()).run(bench) == bench(Kernel())


# -- all


def test_options_are_signed_by_the_methods_that_read_them() -> None:
    methods = ["ppl_icl", "topk", "sa_icl", "batch_calibration"]
    options = {"instructions": ["Odd | even. ", "Sort. "], "orders": 3, "batch_size": 64}
    table = ms.run_all(Kernel(), benchmark_on_mini(), methods=methods, options=options, calibration_number=4)
    plain = ms.run_all(Kernel(), benchmark_on_mini(), methods=methods, calibration_number=4)
    signed = {name: result.signature.fields["method"] for name, result in table.items()}
    assert signed["topk"] == plain["topk"].signature.fields["method"]
    assert signed["sa_icl"].endswith("orders=3")
    assert signed["batch_calibration"].endswith("batch_size=64")
    assert re.search(r" instructions=[0-9a-f]{12}$", signed["ppl_icl"])


def test_named_functions_in_a_store(tmp_path: Path, anonymous: Any) -> None:
    """The name of a function that cannot be identified must not mix calibrated with plain predictions."""
    kernels = [Kernel()]

    def plain(prompt: str, label_space: list[str]) -> list[float]:
        return kernels[0](prompt, label_space)

    path = tmp_path / "store.sqlite"
    for name in ("vanilla", "contextual_calibration"):
        method = ms.Method(name, plain, calibration_number=8)
        stored = method.run(benchmark_on_mini(), store=path, model_name="m")
        assert anonymous(stored) == anonymous(method.run(benchmark_on_mini()))
    with pytest.raises(ArgumentError, match="model_name"):
        ms.Method("vanilla", plain).run(benchmark_on_mini(), store=path)


@pytest.mark.parametrize("name", ["vanilla", "batch_calibration", "contextual_calibration"])
def test_queries_without_a_prediction(name: str) -> None:
    bad = benchmark_on_mini()[0].prompt_set()[3]
    method = ms.Method(name, Kernel(fails=lambda _, prompt: OutputError("gone") if prompt == bad else None))
    with pytest.raises(OutputError, match="query 3"):
        method.run(benchmark_on_mini())
    result: Any = method.run(benchmark_on_mini(), on_error="collect", return_outputs=True)
    assert result.details["mini"].failed == 1
    rows = predictions_of(result)
    assert rows[3] is None
    if name == "batch_calibration":
        plain = predictions_of(benchmark_on_mini()(Kernel(), return_outputs=True))
        assert [row for row in rows if row] == batch_calibrated([row for i, row in enumerate(plain) if i != 3])
    known = set(benchmark_on_mini()[0].prompt_set())
    untrained = ms.Method(name, Kernel(fails=lambda _, prompt: None if prompt in known else OutputError("gone")))
    result = untrained.run(benchmark_on_mini(), on_error="collect")
    assert result.details["mini"].failed == (len(rows) if name == "contextual_calibration" else 0)
    assert without_failures([Failure("gone"), [1.0], [2.0]], "abc") == ([[1.0], [2.0]], ["b", "c"])


def test_replies_are_signed_as_in_a_run_without_a_method() -> None:
    """With the version of the parser that finds their labels."""

    def reply(prompt: str, label_space: list[str]) -> str:
        return f"It is {label_space[len(prompt) % len(label_space)]}."

    assert ms.Method("vanilla", reply).run(benchmark_on_mini()).signature == benchmark_on_mini()(reply).signature


def test_a_method_of_the_user_is_signed_by_its_code() -> None:
    def now(data: Any) -> Any:
        template = replace(data.settings.template, query_prefix="Now: ")
        view = data.on(template=template)
        rows = yield [view.ask()]
        return view.predictions(rows[0])

    table = ms.run_all(Kernel(), benchmark_on_mini(), methods=["vanilla", ms.MethodSpec("now", "Now", now)])
    assert list(table) == ["vanilla", "now"]
    assert re.fullmatch("now@[0-9a-f]{12} paper", table["now"].signature.fields["method"])
    assert table["now"].signature.fields["template"].startswith("changed-")


# -- every option of every method, found by introspection, is in the signature of a result


NAMES = sorted(METHODS)
OPTIONS = [(name, fact) for name in NAMES for fact in options_of(METHODS[name].options)]


def others(name: str, fact: OptionFact) -> list[Any]:
    hint = str(get_type_hints(METHODS[name].options)[fact.name])
    if "bool" in hint:
        return [not fact.default, fact.default]
    if "Literal" in hint:
        return ["diverse", "balanced"]
    if "int" in hint:
        return [7, 8]
    if "float" in hint:
        return [0.25, 0.5]
    if "Sequence" not in hint:
        return ["One.", "Two."]
    assert "str" in hint, f"add values of {hint} for the option {fact.name} of {name}"
    return [["One.", "Two."], ["Two.", "One."]]


def signed(name: str, calibration_number: int = 128, **settings: Any) -> str:
    """The field of the signature after the first step of a method, in a data set that it can be applied to."""
    method = Method(name, Kernel(), calibration_number=calibration_number, **settings)
    read = False
    with contextlib.suppress(StaICCError):  # some values of options fit no data set
        read = method.started(benchmark_on_mini()[0]).data.record.calibration_number_read
    return method_field(method.spec, method.variant, method.options, calibration_number if read else None)


@pytest.mark.parametrize(("name", "fact"), OPTIONS, ids=lambda value: getattr(value, "name", value))
def test_an_option_is_in_the_signature(name: str, fact: OptionFact) -> None:
    first, second = others(name, fact)
    texts = {signed(name), signed(name, **{fact.name: first}), signed(name, **{fact.name: second})}
    assert len(texts) == (2 if fact.type == "bool" else 3)
    assert fact.help
    assert signed(name, **{fact.name: fact.default}) == signed(name)


@pytest.mark.parametrize("name", [name for name in NAMES if name != "vanilla"])
def test_the_settings_of_all_methods_are_in_the_signature(name: str) -> None:
    assert signed(name) != signed(name, variant="staicc")
    if name in RELEASED:
        assert signed(name) not in (signed(name, variant="0.1.1"), signed(name, variant="staicc"))


def test_vanilla_inference_is_not_in_the_signature() -> None:
    plain, vanilla = benchmark_on_mini()(Kernel()), Method("vanilla", Kernel()).run(benchmark_on_mini())
    assert vanilla.signature == plain.signature


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("contextual_calibration", {"shared_contexts": True}),
        ("domain_calibration", {"variant": "staicc"}),
        ("hidden_calibration", {"variant": "staicc"}),
        ("knn_prompt", {}),
        ("ppl_icl", {}),
    ],
)
def test_the_calibration_number_is_signed_where_it_is_used(name: str, settings: dict[str, Any]) -> None:
    assert " n=16" in signed(name, calibration_number=16, **settings)
    unused = {"ppl_icl": {"variant": "0.1.1"}, "knn_prompt": {"samples_per_label": 3}}.get(name, {})
    assert " n=16" not in signed(name, calibration_number=16, **unused)


class Drifting(Kernel):
    """A kernel whose predictions may change."""

    recheck_tolerance = None  # type: ignore[assignment]

    def identity(self) -> Identity:
        return Identity({"model": "drifting"})


@pytest.mark.parametrize("changed", [True, False])
def test_each_method_has_what_the_recheck_of_shared_predictions_found(tmp_path: Path, changed: bool) -> None:
    """Stored predictions are read, and some computed again, for all methods together, before the first one runs."""
    store = tmp_path / "store.sqlite"
    Normal(datasets=["mini"], limit=3, k=1)(Drifting(), store=store)
    benchmark = Normal(datasets=["mini"], limit=4, k=1)
    names = ["vanilla", "batch_calibration"]
    table = run_all(Drifting(noise=0.5 * changed), benchmark, methods=names, calibration_number=4, store=store)
    assert [*table] == names
    for result in table.results():
        found = [warning for warning in result.warnings if "computed again differ" in warning]
        assert len(found) == changed, result.method


# -- many-shot: nested demonstrations, several ``k`` computed together


def nested(k: int, **more: Any) -> Normal:
    return Normal(k, **{"datasets": ["mini"], "limit": 3, "sampler": "nested", **more})


def test_a_smaller_k_has_the_first_demonstrations() -> None:
    large = sample_nested(50, 40, 9)
    for k in (0, 1, 16, 39):
        assert sample_nested(50, k, 9) == tuple(row[:k] for row in large)
    assert len(set(large)) == 9
    assert [row for row in large if len(set(row)) != 40] == []
    assert sample_nested(50, 7, 6, 3) == (*[sample_nested(50, 7, 1)[0]] * 3, *[sample_nested(50, 7, 2)[1]] * 3)
    first = [row[0] for row in sample_nested(4, 1, 4000)]
    assert [place for place in range(4) if abs(first.count(place) - 1000) >= 120] == []
    for few, many in zip(nested(2)[0].prompt_set(), nested(8)[0].prompt_set(), strict=True):
        assert many.startswith(few[: few.rindex("\n") + 1])  # all but the query


def test_the_sampler_is_signed_and_verified() -> None:
    plain = Normal(4, datasets=["mini"], limit=3)
    assert nested(4, sampler="default").signature() == plain.signature()
    assert "demonstrations" not in str(plain.signature())
    for sampler in ("nested", "nested-shared"):
        result = nested(4, sampler=sampler)(Kernel())
        assert result.signature.fields["demonstrations"] == sampler
        assert [finding for finding in verify(result) if finding.contradicted] == []
    experimentor = nested(4)[0]
    experimentor.set_k(2)
    assert experimentor.demonstration_lists() == nested(2)[0].demonstration_lists()
    assert GLER(k=2, datasets=["mini"], limit=2, sampler="nested")(Kernel()).complete
    with pytest.raises(UnknownNameError, match="did you mean 'nested'"):
        nested(4, sampler="nestd")
    with pytest.raises(ArgumentError, match="k = 193, expected at most 192"):
        nested(193)[0].prompt_set()


def test_results_are_those_of_separate_runs(tmp_path: Path) -> None:
    store = tmp_path / "store.sqlite"
    kernel = Kernel()
    table = run_many_shot(Method("vanilla", kernel), nested, [8, 2], store=store)
    assert list(table) == ["k=2", "k=8"]
    assert len(kernel.ran) == 12
    for k in (2, 8):
        assert table[f"k={k}"] == nested(k)(Kernel())
    assert kernel.ran[0][:40] == kernel.ran[1][:40]  # the two k of a query follow each other
    timings = [result.timing for result in table.results()]
    costs = [(timing["prompt_characters"], timing["new_characters"]) for timing in timings]
    assert costs[0][1] <= costs[0][0] < costs[1][0]
    assert costs[1][1] < costs[1][0] - 0.6 * costs[0][1]
    again = Kernel()
    assert run_many_shot(Method("vanilla", again), nested, [2, 8], store=store, recheck=False) == table
    assert again.ran == []
