"""Methods in one call: results, tables, groups, refusals, signatures, every option; many-shot."""

from __future__ import annotations

import contextlib
import re
from collections import Counter
from collections.abc import Callable
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
def test_every_method_runs_and_is_signed(name: str, variant: str) -> None:
    result = ms.Method(name, Kernel(), variant, calibration_number=20).run(benchmark_on_mini())

    assert isinstance(result, Result)
    assert result.complete
    assert 0 <= result.averaged["accuracy"] <= 1
    assert (f"{name} {variant}" in str(result.signature)) is (name != "vanilla")


@pytest.mark.parametrize(("name", "variant"), METHODS_WITH_VARIANTS)
def test_every_method_leaves_the_benchmark_unchanged(name: str, variant: str) -> None:
    benchmark = benchmark_on_mini()
    signature, prompts = benchmark.signature(), benchmark[0].prompt_set()

    first = ms.Method(name, Kernel(), variant, calibration_number=20).run(benchmark)
    second = ms.Method(name.replace("_", "-"), Kernel(), variant, calibration_number=20)(benchmark)

    assert benchmark.signature() == signature
    assert benchmark[0].prompt_set() == prompts
    assert second == first


@pytest.mark.parametrize(
    ("name", "variant", "training_prompts", "test_prompts"),
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
def test_the_prompts_that_a_method_costs(name: str, variant: str, training_prompts: int, test_prompts: int) -> None:
    timing = ms.Method(name, Kernel(), variant, calibration_number=20).run(benchmark_on_mini()).timing

    assert timing["training_prompts"] == training_prompts
    assert timing["test_prompts"] == test_prompts
    assert timing["reused_prompts"] == 0
    assert (timing["training_seconds"] > 0) is (training_prompts > 0)


def test_a_calibration_method_is_a_kernel_with_its_trained_calibration() -> None:
    experimentor = benchmark_on_mini()[0]
    write = experimentor.prompt_former.write_prompt_from_dataline
    options = {"calibration_number": 20, "sample_length": 7}
    calibration = DomainCalibration(experimentor.get_label_space())
    calibration.train(write, Kernel(), experimentor.calibration_set(), k=2, **options)

    of_kernel = benchmark_on_mini()(CalibratedKernel(Kernel(), calibration), return_outputs=True)
    method = ms.Method("domain_calibration", Kernel(), "staicc", **options)
    of_method = method.run(benchmark_on_mini(), return_outputs=True)

    assert predictions_of(of_method) == predictions_of(of_kernel)


def benchmark_with_another_instruction() -> Any:
    benchmark = benchmark_on_mini()
    benchmark[0].prompt_former.change_instruction("Look: ")
    return benchmark


def in_domain_benchmark_with_another_instruction() -> Any:
    benchmark = benchmark_with_another_instruction()
    benchmark[0].set_in_domain_mode()
    return benchmark


@pytest.mark.filterwarnings("ignore::StaICC.TemplateWarning")
def test_a_copy_in_the_noisy_channel_has_the_changed_instruction() -> None:
    original = benchmark_with_another_instruction()[0]

    copy = clean_copy(original, noisy_channel=True)

    first_text_of_prompt = copy.prompt_set()[0][0]
    assert first_text_of_prompt.startswith("Look: ")
    assert copy.prompt_former.settings.noisy_channel
    assert not original.prompt_former.settings.noisy_channel


@pytest.mark.filterwarnings("ignore::StaICC.TemplateWarning")
def test_a_copy_in_the_noisy_channel_has_the_in_domain_demonstrations_and_the_changed_instruction() -> None:
    original = in_domain_benchmark_with_another_instruction()[0]

    copy = clean_copy(original, noisy_channel=True)

    first_text_of_prompt = copy.prompt_set()[0][0]
    assert first_text_of_prompt.startswith("Look: ")
    assert copy.prompt_former.settings.noisy_channel
    assert not original.prompt_former.settings.noisy_channel
    assert copy.demonstration_lists() == original.demonstration_lists()
    assert copy.demonstration_lists() != benchmark_on_mini()[0].demonstration_lists()


@pytest.mark.filterwarnings("ignore::StaICC.TemplateWarning")
@pytest.mark.parametrize(
    "make_benchmark", [benchmark_with_another_instruction, in_domain_benchmark_with_another_instruction]
)
def test_a_changed_instruction_is_signed_by_a_method(make_benchmark: Callable[[], Any]) -> None:
    method = ms.Method("contextual_calibration", Kernel(), calibration_number=4)

    result = method.run(make_benchmark())

    assert result.signature.fields["template"].startswith("changed-")


@pytest.mark.filterwarnings("ignore::StaICC.TemplateWarning")
def test_vanilla_keeps_a_changed_instruction_and_a_mode_of_demonstrations() -> None:
    benchmark = in_domain_benchmark_with_another_instruction()

    assert ms.Method("vanilla", Kernel()).run(benchmark) == benchmark(Kernel())


# -- all


def test_options_are_signed_by_the_methods_that_read_them() -> None:
    methods = ["ppl_icl", "topk", "sa_icl", "batch_calibration"]
    options = {"instructions": ["Odd | even. ", "Sort. "], "orders": 3, "batch_size": 64}

    table = ms.run_all(Kernel(), benchmark_on_mini(), methods=methods, options=options, calibration_number=4)

    fields = {name: result.signature.fields["method"] for name, result in table.items()}
    topk_alone = ms.Method("topk", Kernel(), calibration_number=4).run(benchmark_on_mini())
    assert fields["topk"] == topk_alone.signature.fields["method"]
    assert fields["sa_icl"].endswith("orders=3")
    assert fields["batch_calibration"].endswith("batch_size=64")
    assert re.search(r" instructions=[0-9a-f]{12}$", fields["ppl_icl"])


def plain_function(prompt: str, label_space: list[str]) -> list[float]:
    """A model that cannot be identified, so that a store needs its name."""
    probabilities: list[float] = Kernel()(prompt, label_space)
    return probabilities


def test_a_store_does_not_mix_calibrated_and_plain_predictions_of_a_named_function(
    tmp_path: Path, anonymous: Any
) -> None:
    store = tmp_path / "store.sqlite"
    vanilla = ms.Method("vanilla", plain_function)
    calibration = ms.Method("contextual_calibration", plain_function, calibration_number=8)

    stored_vanilla = vanilla.run(benchmark_on_mini(), store=store, model_name="m")
    stored_calibration = calibration.run(benchmark_on_mini(), store=store, model_name="m")

    assert anonymous(stored_vanilla) == anonymous(vanilla.run(benchmark_on_mini()))
    assert anonymous(stored_calibration) == anonymous(calibration.run(benchmark_on_mini()))


def test_a_store_refuses_a_function_without_a_name(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="model_name"):
        ms.Method("vanilla", plain_function).run(benchmark_on_mini(), store=tmp_path / "store.sqlite")


def kernel_that_fails(is_failing: Callable[[str], bool]) -> Kernel:
    """Return a kernel that fails on some prompts."""
    return Kernel(fails=lambda feature, prompt: OutputError("gone") if is_failing(prompt) else None)


def kernel_without_query_3() -> Kernel:
    failing_prompt = benchmark_on_mini()[0].prompt_set()[3]
    return kernel_that_fails(lambda prompt: prompt == failing_prompt)


def kernel_of_queries_only() -> Kernel:
    """Return a kernel that fails on all prompts of a training."""
    prompts_of_queries = set(benchmark_on_mini()[0].prompt_set())
    return kernel_that_fails(lambda prompt: prompt not in prompts_of_queries)


BY_QUERIES = pytest.mark.parametrize("name", ["vanilla", "batch_calibration", "contextual_calibration"])


@BY_QUERIES
def test_a_failed_query_ends_a_run_of_a_method(name: str) -> None:
    with pytest.raises(OutputError, match="query 3"):
        ms.Method(name, kernel_without_query_3()).run(benchmark_on_mini())


@BY_QUERIES
def test_a_collected_failure_of_a_query_leaves_it_without_a_prediction(name: str) -> None:
    method = ms.Method(name, kernel_without_query_3())

    result: Any = method.run(benchmark_on_mini(), on_error="collect", return_outputs=True)

    assert result.details["mini"].failed == 1
    assert predictions_of(result)[3] is None


def test_batch_calibration_is_computed_without_the_failed_query() -> None:
    method = ms.Method("batch_calibration", kernel_without_query_3())

    result: Any = method.run(benchmark_on_mini(), on_error="collect", return_outputs=True)

    rows = predictions_of(benchmark_on_mini()(Kernel(), return_outputs=True))
    del rows[3]
    assert [row for row in predictions_of(result) if row is not None] == batch_calibrated(rows)


@pytest.mark.parametrize(("name", "failed"), [("vanilla", 0), ("batch_calibration", 0), ("contextual_calibration", 8)])
def test_queries_fail_without_training_prompts_only_where_a_method_needs_these(name: str, failed: int) -> None:
    result = ms.Method(name, kernel_of_queries_only()).run(benchmark_on_mini(), on_error="collect")

    assert result.details["mini"].failed == failed


def test_failed_rows_are_left_out_with_their_labels() -> None:
    rows = [Failure("gone"), [1.0], [2.0]]

    assert without_failures(rows, "abc") == ([[1.0], [2.0]], ["b", "c"])


def test_replies_are_signed_as_in_a_run_without_a_method() -> None:
    """With the version of the parser that finds their labels."""

    def reply(prompt: str, label_space: list[str]) -> str:
        return f"It is {label_space[len(prompt) % len(label_space)]}."

    assert ms.Method("vanilla", reply).run(benchmark_on_mini()).signature == benchmark_on_mini()(reply).signature


def test_a_method_of_the_user_is_signed_by_its_code() -> None:
    def with_query_prefix(data: Any) -> Any:
        template = replace(data.settings.template, query_prefix="Now: ")
        view = data.on(template=template)
        (rows,) = yield [view.ask()]
        return view.predictions(rows)

    result = ms.Method(ms.MethodSpec("now", "Now", with_query_prefix), Kernel()).run(benchmark_on_mini())

    fields = result.signature.fields
    assert re.fullmatch("now@[0-9a-f]{12} paper", fields["method"])
    assert fields["template"].startswith("changed-")


def test_a_table_takes_methods_of_the_user() -> None:
    def first_label(data: Any) -> Any:
        yield from ()
        return [0] * len(data.queries)

    methods = ["vanilla", ms.MethodSpec("mine", "Mine", first_label)]

    assert list(ms.run_all(Kernel(), benchmark_on_mini(), methods=methods)) == ["vanilla", "mine"]


# -- every option of every method, found by introspection, is in the signature of a result


NAMES = sorted(METHODS)
OPTIONS = [(name, fact) for name in NAMES for fact in options_of(METHODS[name].options)]


def two_other_values(method: str, fact: OptionFact) -> tuple[Any, Any]:
    """Return two values of an option that are not its default; of a truth value, the other one and the default."""
    type_name = str(get_type_hints(METHODS[method].options)[fact.name])
    if "bool" in type_name:
        return not fact.default, fact.default
    if "Literal" in type_name:
        return "diverse", "balanced"  # the rules of selection
    if "int" in type_name:
        return 7, 8
    if "float" in type_name:
        return 0.25, 0.5
    if "Sequence[str]" in type_name:
        return ["One.", "Two."], ["Two.", "One."]
    assert "str" in type_name, f"add values of {type_name} for the option {fact.name} of {method}"
    return "One.", "Two."


def method_in_signature(name: str, calibration_number: int = 128, **settings: Any) -> str:
    """Return how a signature names a method with its settings."""
    method = Method(name, Kernel(), calibration_number=calibration_number, **settings)
    signed_number = None
    with contextlib.suppress(StaICCError):  # some values of options fit no data set
        if method.started(benchmark_on_mini()[0]).data.record.calibration_number_read:
            signed_number = calibration_number
    return method_field(method.spec, method.variant, method.options, signed_number)


@pytest.mark.parametrize(("name", "fact"), OPTIONS, ids=lambda value: getattr(value, "name", value))
def test_an_option_is_in_the_signature_if_it_is_not_the_default(name: str, fact: OptionFact) -> None:
    default = method_in_signature(name)
    first_value, second_value = two_other_values(name, fact)

    with_first = method_in_signature(name, **{fact.name: first_value})
    with_second = method_in_signature(name, **{fact.name: second_value})

    assert with_first != default
    assert with_first != with_second
    if second_value != fact.default:
        assert with_second != default
    assert method_in_signature(name, **{fact.name: fact.default}) == default


@pytest.mark.parametrize(("name", "fact"), OPTIONS, ids=lambda value: getattr(value, "name", value))
def test_every_option_says_what_it_means(name: str, fact: OptionFact) -> None:
    assert fact.help


@pytest.mark.parametrize("name", [name for name in NAMES if name != "vanilla"])
def test_the_variant_of_a_method_is_in_the_signature(name: str) -> None:
    assert method_in_signature(name) != method_in_signature(name, variant="staicc")


@pytest.mark.parametrize("name", [name for name in NAMES if name in RELEASED and name != "vanilla"])
def test_the_release_s_variant_of_a_method_is_in_the_signature(name: str) -> None:
    assert method_in_signature(name, variant="0.1.1") != method_in_signature(name)


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
    assert " n=16" in method_in_signature(name, calibration_number=16, **settings)


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("contextual_calibration", {}),
        ("domain_calibration", {}),
        ("hidden_calibration", {}),
        ("knn_prompt", {"samples_per_label": 3}),
        ("ppl_icl", {"variant": "0.1.1"}),
    ],
)
def test_the_calibration_number_is_not_signed_where_it_is_not_used(name: str, settings: dict[str, Any]) -> None:
    assert " n=16" not in method_in_signature(name, calibration_number=16, **settings)


class Drifting(Kernel):
    """A kernel whose predictions may change."""

    recheck_tolerance = None  # type: ignore[assignment]

    def identity(self) -> Identity:
        return Identity({"model": "drifting"})


@pytest.mark.parametrize(("noise", "expected_warnings"), [(0.5, 1), (0.0, 0)], ids=["changed", "unchanged"])
def test_each_method_of_a_table_warns_if_stored_predictions_have_changed(
    tmp_path: Path, noise: float, expected_warnings: int
) -> None:
    """Stored predictions are read, and some computed again, for all methods together, before the first one runs."""
    store = tmp_path / "store.sqlite"
    Normal(datasets=["mini"], limit=3, k=1)(Drifting(), store=store)

    table = run_all(
        Drifting(noise=noise),
        Normal(datasets=["mini"], limit=4, k=1),
        methods=["vanilla", "batch_calibration"],
        calibration_number=4,
        store=store,
    )

    assert list(table) == ["vanilla", "batch_calibration"]
    for result in table.results():
        of_recheck = [warning for warning in result.warnings if "computed again differ" in warning]
        assert len(of_recheck) == expected_warnings, result.method


# -- many-shot: nested demonstrations, several ``k`` computed together


def nested(k: int, **options: Any) -> Normal:
    """Return a benchmark of three test rows in which a smaller k has the first demonstrations of a larger one."""
    return Normal(k, **{"datasets": ["mini"], "limit": 3, "sampler": "nested", **options})


@pytest.mark.parametrize("k", [0, 1, 16, 39])
def test_a_smaller_k_has_the_first_demonstrations(k: int) -> None:
    """Of a pool of 50, for nine queries."""
    forty_demonstrations = sample_nested(50, 40, 9)

    assert sample_nested(50, k, 9) == tuple(positions[:k] for positions in forty_demonstrations)


def test_a_prompt_with_a_larger_k_begins_with_that_of_a_smaller_one() -> None:
    for short_prompt, long_prompt in zip(nested(2)[0].prompt_set(), nested(8)[0].prompt_set(), strict=True):
        demonstrations, _, _query = short_prompt.rpartition("\n")
        assert long_prompt.startswith(demonstrations)


def test_queries_have_different_demonstrations_each_shown_once() -> None:
    lists = sample_nested(50, 40, 9)

    assert len(set(lists)) == 9
    for positions in lists:
        assert len(set(positions)) == 40


def test_queries_can_share_their_demonstrations_in_blocks() -> None:
    """Six queries in blocks of three: two different lists."""
    first, second = sample_nested(50, 7, 2)

    assert sample_nested(50, 7, 6, 3) == (first, first, first, second, second, second)


@pytest.mark.parametrize(("queries", "block"), [(1, 1), (2, 1), (9, 1), (3, 3), (6, 3)])
def test_the_first_list_does_not_depend_on_the_number_of_lists(queries: int, block: int) -> None:
    (alone,) = sample_nested(50, 7, 1)

    assert sample_nested(50, 7, queries, block)[0] == alone


def test_a_list_does_not_depend_on_the_number_of_lists_after_it() -> None:
    assert sample_nested(50, 7, 9)[:2] == sample_nested(50, 7, 2)


def test_each_demonstration_is_the_first_one_equally_often() -> None:
    first_positions = Counter(positions[0] for positions in sample_nested(4, 1, 4000))

    for position in (0, 1, 2, 3):
        assert abs(first_positions[position] - 1000) < 120  # four standard deviations are 110


def test_the_default_sampler_is_not_signed() -> None:
    plain = Normal(4, datasets=["mini"], limit=3).signature()

    assert nested(4, sampler="default").signature() == plain
    assert "demonstrations" not in str(plain)


@pytest.mark.parametrize("sampler", ["nested", "nested-shared"])
def test_another_sampler_is_signed_and_verified(sampler: str) -> None:
    result = nested(4, sampler=sampler)(Kernel())

    assert result.signature.fields["demonstrations"] == sampler
    for finding in verify(result):
        assert finding.contradicted == ()


def test_setting_k_takes_the_first_nested_demonstrations() -> None:
    experimentor = nested(4)[0]

    experimentor.set_k(2)

    assert experimentor.demonstration_lists() == nested(2)[0].demonstration_lists()


def test_other_benchmarks_take_nested_demonstrations() -> None:
    assert GLER(k=2, datasets=["mini"], limit=2, sampler="nested")(Kernel()).complete


def test_a_misspelt_sampler_is_refused() -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'nested'"):
        nested(4, sampler="nestd")


def test_more_nested_demonstrations_than_the_pool_has_are_refused() -> None:
    with pytest.raises(ArgumentError, match="k = 193, expected at most 192"):
        nested(193)[0].prompt_set()


def test_many_shot_results_are_those_of_separate_runs() -> None:
    table = run_many_shot(Method("vanilla", Kernel()), nested, [8, 2])

    assert list(table) == ["k=2", "k=8"]
    assert table["k=2"] == nested(2)(Kernel())
    assert table["k=8"] == nested(8)(Kernel())


def test_the_prompts_of_a_query_with_all_k_follow_each_other() -> None:
    """Six queries with two k each; the prompts of a query begin with the same demonstrations."""
    kernel = Kernel()

    run_many_shot(Method("vanilla", kernel), nested, [8, 2])

    assert len(kernel.ran) == 6 * 2
    first_prompt, second_prompt, *_ = kernel.ran
    assert first_prompt[:40] == second_prompt[:40]


def test_a_larger_k_computes_only_the_characters_that_a_smaller_one_has_not() -> None:
    table = run_many_shot(Method("vanilla", Kernel()), nested, [8, 2])

    two_shots, eight_shots = table["k=2"].timing, table["k=8"].timing
    assert two_shots["new_characters"] <= two_shots["prompt_characters"] < eight_shots["prompt_characters"]
    shared_characters = eight_shots["prompt_characters"] - eight_shots["new_characters"]
    assert shared_characters > 0.6 * two_shots["new_characters"]


def test_stored_many_shot_predictions_are_not_computed_again(tmp_path: Path) -> None:
    store, second_kernel = tmp_path / "store.sqlite", Kernel()
    first = run_many_shot(Method("vanilla", Kernel()), nested, [8, 2], store=store)

    second = run_many_shot(Method("vanilla", second_kernel), nested, [2, 8], store=store, recheck=False)

    assert second == first
    assert second_kernel.ran == []
