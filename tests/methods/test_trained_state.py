"""Trained state and cached features: computed once, durable, and never of another template, data set or run."""

from __future__ import annotations

import json
import math
import warnings
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from StaICC import Dataset, Normal
from StaICC.benchmarks.builtin import Suite
from StaICC.benchmarks.group import BenchmarkGroup
from StaICC.benchmarks.tasks.sensitivity import TemplateSensitivity
from StaICC.datasets.catalogue import SplitSizes
from StaICC.errors import ArgumentError, IdentityError, OutputError
from StaICC.inference.identity import Identity
from StaICC.methods import run as ms
from StaICC.methods.catalogue import METHODS
from StaICC.methods.features import FeatureCache
from StaICC.methods.kernel_functions import FeatureFunction
from StaICC.methods.model_caches import ModelCaches
from StaICC.methods.noisy_channel import ChannelScores
from StaICC.methods.released.calibrations import ContextualCalibration, HiddenCalibration
from StaICC.methods.requests import Request, prompt_keys
from StaICC.methods.run import Method
from StaICC.methods.training_prompts import GivenSource
from StaICC.prompting.prompt_writer import TemplateWarning
from StaICC.prompting.stable_random import StableRandom
from tests.methods.fakes import Kernel, predictions_of
from tests.methods.fakes import benchmark_on_mini as bench

pytestmark = pytest.mark.filterwarnings("ignore::StaICC.TemplateWarning")

CHOOSE_DEMONSTRATIONS = (
    *("topk", "sa_icl", "ensemble", "permutation_ensemble", "task_vectors", "in_context_vectors"),
    *("demonstration_shapley", "self_icl"),
)
REFUSED = {"ppl_icl": "Template_sens"} | dict.fromkeys(CHOOSE_DEMONSTRATIONS, "Demo_sens")
"""The member of a suite that sets what a method chooses."""
OPTIONS: dict[str, dict[str, Any]] = {
    "ppl_icl": {"instructions": ["Read. ", "Classify. ", "Sort the text. "]},
    "prototypical_calibration": {"restarts": 2},
}


def suite_on_mini() -> Suite:
    return Suite(k=2, datasets=["mini"], limit=3)


def facts(result: Any) -> dict[str, Any]:
    """Return all that must not depend on the other members of a group."""
    return {
        "scores": result,
        "predictions": result.outputs,
        "signature": str(result.signature),
        "training prompts": result.timing["training_prompts"],
        "test prompts": result.timing["test_prompts"],
        "intervals": result.details["mini"].intervals,
    }


# -- alone and in a group


def marks(name: str) -> Any:
    """The training by gradient steps takes as long as all others together."""
    return pytest.mark.slow if name == "linear_calibration" else ()


EVERY_METHOD = pytest.mark.parametrize(
    ("name", "variant"),
    [
        *(pytest.param(name, "paper", marks=marks(name)) for name in METHODS),
        ("knn_prompt", "staicc"),
        ("contextual_calibration", "0.1.1"),
    ],
)


@EVERY_METHOD
def test_a_member_of_a_group_has_the_scores_that_it_has_alone(name: str, variant: str) -> None:
    """In the group, the member Normal comes first and Template_sens second, so that others come before and after."""
    method = Method(name, Kernel(), variant, calibration_number=12, **OPTIONS.get(name, {}))
    members = suite_on_mini().members
    members.pop(REFUSED.get(name), None)
    first_names = [member for member in ("Normal", "Template_sens") if member in members]
    order = [*first_names, *(member for member in members if member not in first_names)]

    in_group: Any = method.run(
        BenchmarkGroup("group", {member: members[member] for member in order}), return_outputs=True
    )

    assert list(in_group) == order
    for member, benchmark in members.items():
        alone: Any = method.run(benchmark, return_outputs=True)
        assert facts(in_group[member]) == facts(alone), member


@pytest.mark.parametrize(("name", "member"), REFUSED.items())
def test_a_group_of_the_member_that_a_method_refuses_is_refused(name: str, member: str) -> None:
    method = Method(name, Kernel(), calibration_number=12, **OPTIONS.get(name, {}))
    group = BenchmarkGroup("refused", {member: suite_on_mini().members[member]})

    with pytest.raises(ArgumentError, match=member):
        method.run(group)


# -- one calibration for each template


CALIBRATION_PROMPTS = 12
TEMPLATES = ("0000", "0111", "0222", "1012", "1120", "1201", "2021", "2102", "2210")
"""The nine templates of template sensitivity: numbers of instruction, input prefixes, label prefix and label affix."""


def experimentor_with_template(levels: str) -> Any:
    experimentor = TemplateSensitivity(k=2, datasets=["mini"])[0]
    alternatives, writer = experimentor.card.alternatives, experimentor.prompt_former
    assert alternatives is not None
    instruction, input_prefixes, label_prefix, label_affix = map(int, levels)
    writer.change_instruction(alternatives.instruction[instruction])
    writer.change_input_text_prefixes(alternatives.input_text_prefixes[input_prefixes])
    writer.change_label_prefix(alternatives.label_prefix[label_prefix])
    writer.change_label_affix(alternatives.label_affix[label_affix])
    return experimentor


def contextually_calibrated(levels: str) -> list[list[float]]:
    """Return the calibrated probabilities of three test rows with a template: softmax(p / prior) of StaICC's variant.

    The prior is the mean of content-free prompts with drawn demonstrations.
    """
    experimentor, kernel, generator = experimentor_with_template(levels), Kernel(), StableRandom()
    writer, rows, labels = experimentor.prompt_former, experimentor.calibration_set(), experimentor.get_label_space()
    content_free_prompts: list[Any] = []
    for number in range(CALIBRATION_PROMPTS):
        demonstrations = [rows[position] for position in generator.sample_indexes(len(rows), 2)]
        text = ["N/A", "[MASK]", ""][number % 3]
        content_free_prompts.append(writer.write_prompt_from_dataline(demonstrations, [text]))
    prior = numpy.mean(kernel.batch(content_free_prompts, labels), axis=0)

    lists = experimentor.demonstration_lists()
    prompts: list[Any] = [writer.write_prompt(lists[row], row) for row in range(3)]
    powers = numpy.exp(numpy.array(kernel.batch(prompts, labels)) / prior)
    return list((powers / powers.sum(1, keepdims=True)).tolist())


def consistency(predictions_of_templates: list[list[list[float]]]) -> float:
    """Return the mean share of templates that predict the most frequent label of a row."""
    shares = []
    for probabilities_of_row in zip(*predictions_of_templates, strict=True):
        labels = Counter(int(numpy.argmax(probabilities)) for probabilities in probabilities_of_row)
        shares.append(max(labels.values()) / len(probabilities_of_row))
    return float(numpy.mean(shares))


@pytest.mark.parametrize("order", ["first to last", "last to first", "alone"])
def test_each_template_has_the_calibration_of_its_own_prompts(order: str) -> None:
    """Whatever other benchmarks the group has before it."""
    members = suite_on_mini().members
    if order == "last to first":
        members = dict(reversed(members.items()))
    elif order == "alone":
        members = {"Template_sens": members["Template_sens"]}
    method = Method("contextual_calibration", Kernel(), "staicc", calibration_number=CALIBRATION_PROMPTS)

    results: Any = method.run(BenchmarkGroup("group", members), return_outputs=True)

    result = results["Template_sens"]
    expected = [contextually_calibrated(levels) for levels in TEMPLATES]
    assert result.timing["training_prompts"] == 9 * CALIBRATION_PROMPTS
    assert numpy.allclose(predictions_of(result), numpy.concatenate(expected), rtol=0, atol=1e-12)
    assert result.averaged["consistency"] == pytest.approx(consistency(expected), abs=1e-12)


# -- never shared


def rows(word: str = "text", shift: int = 0) -> list[tuple[str, int]]:
    """Return 60 rows such as ("text 3", 1); with a shift, some have the other label."""
    return [(f"{word} {number}", (number * 7 + shift * (number % 5)) % 2) for number in range(60)]


def data(
    given_rows: Sequence[tuple[str, int]], labels: Sequence[str] = ("no", "yes"), calibration: int = 24
) -> Dataset:
    split = SplitSizes(calibration=calibration, demonstration=56 - calibration, test=4)
    return Dataset.from_rows(given_rows, name="own", label_space=list(labels), split=split)


def changed(**changes: Any) -> Normal:
    """Return the plain benchmark after calls of its prompt writer's methods, each with its argument."""
    benchmark = Normal(2, datasets=[data(rows())])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TemplateWarning)
        for method, argument in changes.items():
            getattr(benchmark[0].prompt_former, method)(argument)
    return benchmark


def shortened() -> Normal:
    """Return a benchmark whose texts are cut after three words."""
    benchmark = Normal(2, datasets=[data(rows())])
    benchmark[0].prompt_former.cut_by_length = 3
    return benchmark


def chosen() -> Normal:
    """Return a benchmark with the same two demonstrations in all prompts."""
    benchmark = Normal(2, datasets=[data(rows())])
    benchmark[0].set_demonstration_sampler([[0, 1]] * 4)
    return benchmark


BENCHMARKS = {
    "plain": changed,
    "other texts": lambda: Normal(2, datasets=[data(rows("word"))]),
    "other labels of the rows": lambda: Normal(2, datasets=[data(rows(shift=1))]),
    "other label names": lambda: Normal(2, datasets=[data(rows(), ("bad", "good"))]),
    "renamed labels": lambda: changed(change_label_space=["bad", "good"]),
    "labels in another order": lambda: Normal(2, datasets=[data(rows(), ("yes", "no"))]),
    "another split": lambda: Normal(2, datasets=[data(rows(), calibration=20)]),
    "another k": lambda: Normal(3, datasets=[data(rows())]),
    "another sampler": lambda: Normal(2, datasets=[data(rows())], sampler="nested"),
    "chosen demonstrations": chosen,
    "an instruction": lambda: changed(change_instruction="Choose. "),
    "shortened prompts": shortened,
    "noisy channel": lambda: Normal(2, noisy_channel=True, datasets=[data(rows())]),
}


def needs_direct(name: str) -> bool:
    """Whether a method cannot run in the noisy channel with the made-up kernel."""
    return name in (
        "knn_prompt",
        "knn_prompt_centroid",
        "hidden_calibration",
        "dc_pmi",
        "task_vectors",
        "in_context_vectors",
        "self_icl",
    )


@pytest.mark.parametrize("name", [pytest.param(name, marks=marks(name)) for name in METHODS if "generat" not in name])
def test_no_other_benchmark_gets_what_was_learned(name: str) -> None:
    """With one cache for all benchmarks, each has the result of a run of its own; the plain one is run twice."""
    method = Method(name, Kernel(), calibration_number=12, **OPTIONS.get(name, {}))
    shared_caches = ModelCaches(method.kernel)
    different_predictions = set()

    for benchmark_name in (*BENCHMARKS, "plain"):
        if benchmark_name == "noisy channel" and needs_direct(name):
            continue
        make_benchmark = BENCHMARKS[benchmark_name]
        shared: Any = method.run_on(shared_caches, make_benchmark(), return_outputs=True)
        alone: Any = method.run(make_benchmark(), return_outputs=True)
        assert shared == alone, benchmark_name
        assert shared.outputs == alone.outputs, benchmark_name
        assert shared.timing["training_prompts"] == alone.timing["training_prompts"], benchmark_name
        different_predictions.add(json.dumps(predictions_of(shared, "own")))

    assert len(different_predictions) > 5, "the benchmarks hardly differ"


class Scaled(Kernel):
    """Its hidden states have the length of the text in them, as much as ``share`` says."""

    share = 0.0

    def identity(self) -> Identity:
        return Identity({"model": "made up", "share": str(self.share)})

    def hidden_states(self, prompts: Sequence[str]) -> Any:
        return (1 - self.share) * super().hidden_states(prompts) + self.share * numpy.array(
            [[math.sin(len(prompt) * place) for place in range(1, 13)] for prompt in prompts]
        )


class Unclear(Scaled):
    def identity(self) -> Identity:
        return Identity({"model": "made up"}, {}, ("its share",))


def predictions_with_share(name: str, share: float) -> Any:
    """Return the outputs of a method on GLER with a model of a constant share."""
    kernel = Scaled()
    kernel.share = share
    result: Any = Method(name, kernel, calibration_number=12).run(suite_on_mini()["GLER"], return_outputs=True)
    return result.outputs


@pytest.mark.parametrize("kernel_class", [Scaled, Unclear], ids=["it says its share", "it does not say its share"])
@pytest.mark.parametrize("name", ["hidden_calibration", "topk", "sa_icl"])
def test_a_model_that_changes_within_a_group_gets_nothing_that_was_learned_before(
    name: str, kernel_class: type[Scaled]
) -> None:
    """Its hidden states change after the first of two equal benchmarks."""
    kernel = kernel_class()
    group = BenchmarkGroup("group", {"first": suite_on_mini()["GLER"], "second": suite_on_mini()["GLER"]})

    def change_the_model(result: Any) -> None:
        kernel.share = 1.0

    method = Method(name, kernel, calibration_number=12)
    results: Any = method.run(group, return_outputs=True, on_result=change_the_model)

    before, after = predictions_with_share(name, 0.0), predictions_with_share(name, 1.0)
    assert before != after
    assert results["first"].outputs == before
    assert results["second"].outputs == after


TABLES = st.lists(st.tuples(st.sampled_from(["a", "b c", "d", "a b"]), st.integers(0, 1)), min_size=28, max_size=28)
SPACES = st.sampled_from([("no", "yes"), ("yes", "no"), ("n", "y")])


@settings(max_examples=40, deadline=None)
@given(st.tuples(TABLES, SPACES), st.tuples(TABLES, SPACES), st.sampled_from([0.0, 0.5]), st.booleans())
def test_calibrations_are_one_only_if_trained_on_the_same(first: Any, second: Any, share: float, same: bool) -> None:
    """Property: equal training gives equal identities; equal identities give equal predictions."""
    identities, trained, learned = [], [], []
    for number, (table, labels) in enumerate((first, first if same else second)):
        kernel = Scaled()
        kernel.share = share * number
        split = SplitSizes(calibration=16, demonstration=8, test=4)
        experimentor = Normal(1, datasets=[Dataset.from_rows(table, name="own", label_space=labels, split=split)])[0]
        for kind in (ContextualCalibration, HiddenCalibration):
            calibration = kind(experimentor.get_label_space())
            writer, calibration_set = (
                experimentor.prompt_former.write_prompt_from_dataline,
                experimentor.calibration_set(),
            )
            written = calibration.definition().write_prompts(GivenSource(writer, calibration_set, labels, 16, 1))
            try:
                calibration.train(writer, kernel, calibration_set, 16, k=1)
            except ArgumentError:  # a label without a row
                return
            prompts = written.all
            own = kernel.hidden_states(prompts) if kind is HiddenCalibration else kernel.batch(prompts, labels)
            trained.append([labels, prompts, list(written.labels), numpy.asarray(own).tolist()])
            learned.append([labels, calibration.apply(numpy.eye(12) if kind is HiddenCalibration else [[0.3, 0.7]])])
            identities.append(calibration.identity().digest)
    for kind in (0, 1):
        equal = identities[kind] == identities[kind + 2]
        assert equal or trained[kind] != trained[kind + 2]
        assert not equal or learned[kind] == learned[kind + 2]


# -- cached features: computed once for all methods, durable, resumed, shared, and not lost by a failure


@pytest.mark.parametrize("variant", ["paper", "staicc", "0.1.1"])
def test_no_prompt_runs_twice(variant: str) -> None:
    kernel = Kernel()
    table = ms.run_all(kernel, bench(), variant, 12)
    assert len(table) == 10
    # Each prompt once; a text that is both encoded and evaluated for its loss, say, may run twice.
    assert len(kernel.ran) <= 1.02 * len(set(kernel.ran))
    assert len({result.model for result in table.results()}) == 2  # the noisy channel is another way to score
    alone = [Kernel() for _ in table]
    for kernel_alone, name in zip(alone, table, strict=True):
        assert ms.Method(name, kernel_alone, variant, 12).run(bench()) == table[name]
    assert len(kernel.ran) < 0.8 * sum(len(kernel_alone.ran) for kernel_alone in alone)


def all_methods_in_a_table(kernel: Kernel, variant: str, store: Path) -> dict[str, Any]:
    return dict(ms.run_all(kernel, bench(), variant, 12, store=store, recheck=False))


def each_method_alone(kernel: Kernel, variant: str, store: Path) -> dict[str, Any]:
    results = {}
    for name in ms.METHODS:
        results[name] = ms.Method(name, kernel, variant, 12).run(bench(), store=store, recheck=False)
    return results


@pytest.mark.parametrize(
    ("run_methods", "variant"),
    [
        (all_methods_in_a_table, "paper"),
        (all_methods_in_a_table, "staicc"),
        (all_methods_in_a_table, "0.1.1"),
        (each_method_alone, "paper"),
    ],
)
def test_a_second_run_computes_nothing(run_methods: Any, variant: str, tmp_path: Path) -> None:
    """Also with noise: nothing that was learned is in a key."""
    store, second_kernel = tmp_path / "store.sqlite", Kernel(noise=1e-6)
    first = run_methods(Kernel(noise=1e-6), variant, store)

    second = run_methods(second_kernel, variant, store)

    assert second == first
    assert second_kernel.ran == []
    for name, result in second.items():
        assert sum(entry.computed for entry in result.provenance.predictors) == 0, name
        assert result.timing["reused_prompts"] > 0, name


@pytest.fixture
def store_of_first_model(tmp_path: Path) -> Path:
    """A prediction store with the features of three test rows, from the model ``Kernel()``."""
    path = tmp_path / "store.sqlite"
    Method("hidden_calibration", Kernel(), calibration_number=12).run(bench(limit=3), store=path)
    return path


def test_a_store_of_another_model_is_refused(store_of_first_model: Path) -> None:
    """Cached features are computed again now and then, as predictions are; those of ``Kernel(1.0)`` differ."""
    other_model = Method("hidden_calibration", Kernel(1.0), calibration_number=12)

    with pytest.raises(IdentityError, match="computed again"):
        other_model.run(bench(limit=4), store=store_of_first_model)


def test_without_recheck_a_store_of_another_model_is_used(store_of_first_model: Path) -> None:
    other_model = Method("hidden_calibration", Kernel(1.0), calibration_number=12)

    assert other_model.run(bench(limit=5), store=store_of_first_model, recheck=False).complete


# -- rows that name their method, cost, small parts


PROMPTS = ["one", "two"]


@pytest.mark.parametrize(
    ("feature", "compute"),
    [
        ("hidden", Kernel().hidden_states),
        ("vocabulary", Kernel().full_vocabulary_logits),
        ("losses", Kernel().losses),
    ],
    ids=["hidden", "vocabulary", "losses"],
)
def test_cached_features_are_those_of_the_kernel(feature: str, compute: Any) -> None:
    cache = FeatureCache(Kernel())

    (rows_of_cache,) = cache.rows([Request(feature, prompt_keys(PROMPTS, ["a", "b"]))])

    assert numpy.array_equal(rows_of_cache, compute(PROMPTS))


def test_cached_probabilities_are_those_of_each_label_space() -> None:
    cache = FeatureCache(Kernel())
    for labels in (["a", "b"], ["a", "b", "c"]):
        (found,) = cache.rows([Request("probabilities", prompt_keys(PROMPTS, labels))])
        assert found == Kernel().batch(PROMPTS, labels)


def test_a_cache_counts_what_it_computed_and_reused() -> None:
    """A prompt that a request names several times counts once."""
    cache = FeatureCache(Kernel())
    one, two = prompt_keys(["one", "two"], ["a", "b"])

    cache.rows([Request("hidden", [one, two])])
    cache.rows([Request("hidden", [one, two, one, two, one])])

    assert cache.computed == 2
    assert cache.reused == 2


@pytest.mark.parametrize("labels", [["a", "b"], ["a", "b", "c"], ["b", "a"]])
def test_cached_calls_of_a_kernel_are_those_of_each_label_space(labels: list[str]) -> None:
    cache = FeatureCache(Kernel())
    prompts: list[Any] = [("one", "two"), ("three", "four")]
    request = Request(ChannelScores("paper"), prompt_keys(prompts, labels))

    assert cache.rows([request, request]) == [Kernel().batch(prompts, labels)] * 2


class OddHiddenStates(Kernel):
    """A model of which only the first and the last of six prompts have hidden states."""

    def hidden_states(self, prompts: Sequence[str]) -> Any:
        return [[1.0, 2.0], [[1.0]], [], [float("nan")], ["x"], [1 / 3]][: len(prompts)]


def test_features_that_are_no_list_of_numbers_are_errors() -> None:
    rows_of_model = FeatureFunction(OddHiddenStates(), {"hidden"}).batch(list("abcdef"), [])

    are_errors = [isinstance(row, Exception) for row in rows_of_model]
    assert are_errors == [False, True, True, True, True, False]


def test_the_first_query_with_unusable_features_is_named() -> None:
    with pytest.raises(OutputError, match="query 1"):
        FeatureCache(OddHiddenStates()).rows([Request("hidden", prompt_keys(list("abcdef")))])
