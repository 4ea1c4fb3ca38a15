"""Trained state and cached features: computed once, durable, and never of another template, data set or run."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

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
    order = sorted(members, key=lambda member: {"Normal": 0, "Template_sens": 1}.get(member, 2))
    group = BenchmarkGroup("group", {member: members[member] for member in order})

    in_group: Any = method.run(group, return_outputs=True)

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
    """Return an experimentor on mini with a template of ``TEMPLATES``, whose digits are indexes of alternatives."""
    experimentor = TemplateSensitivity(k=2, datasets=["mini"])[0]
    alternatives = experimentor.card.alternatives
    assert alternatives is not None
    instruction, input_prefixes, label_prefix, label_affix = map(int, levels)
    writer = experimentor.prompt_former
    writer.change_instruction(alternatives.instruction[instruction])
    writer.change_input_text_prefixes(alternatives.input_text_prefixes[input_prefixes])
    writer.change_label_prefix(alternatives.label_prefix[label_prefix])
    writer.change_label_affix(alternatives.label_affix[label_affix])
    return experimentor


def contextual_prior(experimentor: Any) -> Any:
    """Return the mean probabilities of content-free prompts, each with two random demonstrations."""
    rows = experimentor.calibration_set()
    generator = StableRandom()
    prompts: list[Any] = []
    for number in range(CALIBRATION_PROMPTS):
        demonstrations = [rows[position] for position in generator.sample_indexes(len(rows), 2)]
        content_free_text = ["N/A", "[MASK]", ""][number % 3]
        prompts.append(experimentor.prompt_former.write_prompt_from_dataline(demonstrations, [content_free_text]))
    return numpy.mean(Kernel().batch(prompts, experimentor.get_label_space()), axis=0)


def contextually_calibrated(levels: str) -> Any:
    """Return softmax(p / prior), as in StaICC's variant, for the probabilities p of three test rows with a template."""
    experimentor = experimentor_with_template(levels)
    demonstration_lists = experimentor.demonstration_lists()
    prompts = [experimentor.prompt_former.write_prompt(demonstration_lists[row], row) for row in range(3)]
    probabilities = numpy.array(Kernel().batch(prompts, experimentor.get_label_space()))
    powers = numpy.exp(probabilities / contextual_prior(experimentor))
    return powers / powers.sum(axis=1, keepdims=True)


def consistency(probabilities_by_template: Any) -> float:
    """Return the mean share of templates that predict the most frequent label of a row.

    The argument is an array (templates, rows, labels).
    """
    predicted_labels = numpy.argmax(probabilities_by_template, axis=2)
    shares = []
    for labels_of_row in predicted_labels.T.tolist():
        ((_most_frequent_label, count),) = Counter(labels_of_row).most_common(1)
        shares.append(count / len(labels_of_row))
    return float(numpy.mean(shares))


@pytest.mark.parametrize("order", ["first to last", "last to first", "alone"])
def test_each_template_has_the_calibration_of_its_own_prompts(order: str) -> None:
    """Whatever other benchmarks of the group run before template sensitivity."""
    members = suite_on_mini().members
    if order == "last to first":
        members = dict(reversed(members.items()))
    elif order == "alone":
        members = {"Template_sens": members["Template_sens"]}
    method = Method("contextual_calibration", Kernel(), "staicc", calibration_number=CALIBRATION_PROMPTS)

    results: Any = method.run(BenchmarkGroup("group", members), return_outputs=True)

    result = results["Template_sens"]
    expected = numpy.array([contextually_calibrated(template) for template in TEMPLATES])
    predictions_of_all_templates = numpy.concatenate(expected)
    assert result.timing["training_prompts"] == 9 * CALIBRATION_PROMPTS
    assert numpy.allclose(predictions_of(result), predictions_of_all_templates, rtol=0, atol=1e-12)
    assert result.averaged["consistency"] == pytest.approx(consistency(expected), abs=1e-12)


# -- never shared


def own_rows(word: str = "text", shift: int = 0) -> list[tuple[str, int]]:
    """Return 60 rows such as ("text 3", 1); with a shift, some have the other label."""
    return [(f"{word} {number}", (number * 7 + shift * (number % 5)) % 2) for number in range(60)]


def own_benchmark(
    rows: Sequence[tuple[str, int]] | None = None,
    label_space: Sequence[str] = ("no", "yes"),
    calibration_rows: int = 24,
    k: int = 2,
    **options: Any,
) -> Normal:
    """Return a benchmark on 60 rows, the last four of which are test rows; by default the one called "plain" below."""
    split = SplitSizes(calibration=calibration_rows, demonstration=56 - calibration_rows, test=4)
    dataset = Dataset.from_rows(rows or own_rows(), name="own", label_space=list(label_space), split=split)
    return Normal(k, datasets=[dataset], **options)


def benchmark_with_instruction() -> Normal:
    benchmark = own_benchmark()
    benchmark[0].prompt_former.change_instruction("Choose. ")
    return benchmark


def benchmark_with_renamed_labels() -> Normal:
    benchmark = own_benchmark()
    benchmark[0].prompt_former.change_label_space(["bad", "good"])
    return benchmark


def benchmark_with_shortened_prompts() -> Normal:
    """Return a benchmark whose prompts lose their last three characters."""
    benchmark = own_benchmark()
    benchmark[0].prompt_former.cut_by_length = 3
    return benchmark


def benchmark_with_chosen_demonstrations() -> Normal:
    """Return a benchmark with the same two demonstrations in all prompts."""
    benchmark = own_benchmark()
    benchmark[0].set_demonstration_sampler([[0, 1]] * 4)
    return benchmark


BENCHMARKS = {
    "plain": own_benchmark,
    "other texts": lambda: own_benchmark(own_rows("word")),
    "other labels of the rows": lambda: own_benchmark(own_rows(shift=1)),
    "other label names": lambda: own_benchmark(label_space=("bad", "good")),
    "renamed labels": benchmark_with_renamed_labels,
    "labels in another order": lambda: own_benchmark(label_space=("yes", "no")),
    "another split": lambda: own_benchmark(calibration_rows=20),
    "another k": lambda: own_benchmark(k=3),
    "another sampler": lambda: own_benchmark(sampler="nested"),
    "chosen demonstrations": benchmark_with_chosen_demonstrations,
    "an instruction": benchmark_with_instruction,
    "shortened prompts": benchmark_with_shortened_prompts,
    "noisy channel": lambda: own_benchmark(noisy_channel=True),
}


NEED_THE_DIRECT_CHANNEL = (
    *("knn_prompt", "knn_prompt_centroid", "hidden_calibration", "dc_pmi"),
    *("task_vectors", "in_context_vectors", "self_icl"),
)
"""Methods that cannot run in the noisy channel with the made-up kernel."""


@pytest.mark.parametrize("name", [pytest.param(name, marks=marks(name)) for name in METHODS if "generat" not in name])
def test_no_other_benchmark_gets_what_was_learned(name: str) -> None:
    """With one cache for all benchmarks, each has the result of a run with a cache of its own."""
    method = Method(name, Kernel(), calibration_number=12, **OPTIONS.get(name, {}))
    shared_caches = ModelCaches(method.kernel)
    different_predictions = set()

    for benchmark_name in [*BENCHMARKS, "plain"]:  # the first one again, when the caches have all others
        if benchmark_name == "noisy channel" and name in NEED_THE_DIRECT_CHANNEL:
            continue
        make_benchmark = BENCHMARKS[benchmark_name]
        shared: Any = method.run_on(shared_caches, make_benchmark(), return_outputs=True)
        alone: Any = method.run(make_benchmark(), return_outputs=True)
        assert shared == alone, benchmark_name
        assert shared.outputs == alone.outputs, benchmark_name
        assert shared.timing["training_prompts"] == alone.timing["training_prompts"], benchmark_name
        different_predictions.add(json.dumps(predictions_of(shared, "own")))

    assert len(different_predictions) > 5, "the benchmarks hardly differ"


class ChangingKernel(Kernel):
    """A model whose hidden states can change: they are ``1 - share`` parts its usual ones and ``share`` parts others.

    The others depend on the length of the prompt. The identity names the share.
    """

    def __init__(self, share: float = 0.0) -> None:
        super().__init__()
        self.share = share

    def identity(self) -> Identity:
        return Identity({"model": "made up", "share": str(self.share)})

    def hidden_states(self, prompts: Sequence[str]) -> Any:
        usual_states = super().hidden_states(prompts)
        lengths = numpy.array([len(prompt) for prompt in prompts])
        other_states = numpy.sin(numpy.outer(lengths, range(1, 13)))
        return (1 - self.share) * usual_states + self.share * other_states


class UnidentifiedChangingKernel(ChangingKernel):
    """The same model, whose identity says that its share is unknown."""

    def identity(self) -> Identity:
        return Identity({"model": "made up"}, {}, ("its share",))


def outputs_with_share(name: str, share: float) -> Any:
    """Return the outputs of a method on GLER with a model of this share."""
    method = Method(name, ChangingKernel(share), calibration_number=12)
    result: Any = method.run(suite_on_mini()["GLER"], return_outputs=True)
    return result.outputs


@pytest.mark.parametrize("kernel_class", [ChangingKernel, UnidentifiedChangingKernel])
@pytest.mark.parametrize("name", ["hidden_calibration", "topk", "sa_icl"])
def test_a_model_that_changes_within_a_group_gets_nothing_that_was_learned_before(
    name: str, kernel_class: type[ChangingKernel]
) -> None:
    """The hidden states of the model change after the first of two equal benchmarks."""
    kernel = kernel_class(share=0.0)
    group = BenchmarkGroup("group", {"first": suite_on_mini()["GLER"], "second": suite_on_mini()["GLER"]})

    def change_the_model(result: Any) -> None:
        kernel.share = 1.0

    method = Method(name, kernel, calibration_number=12)
    results: Any = method.run(group, return_outputs=True, on_result=change_the_model)

    outputs_before = outputs_with_share(name, share=0.0)
    outputs_after = outputs_with_share(name, share=1.0)
    assert outputs_before != outputs_after
    assert results["first"].outputs == outputs_before
    assert results["second"].outputs == outputs_after


TABLES = st.lists(st.tuples(st.sampled_from(["a", "b c", "d", "a b"]), st.integers(0, 1)), min_size=28, max_size=28)
SPACES = st.sampled_from([("no", "yes"), ("yes", "no"), ("n", "y")])


class Training(NamedTuple):
    """All that a calibration was trained on, the digest of its identity, and what it predicts afterwards."""

    inputs: list[Any]
    digest: str
    predictions: list[Any]


def train(calibration_class: Any, rows: list[tuple[str, int]], labels: tuple[str, str], share: float) -> Training:
    """Train a calibration on 16 of 28 rows, with a model whose hidden states depend on the share."""
    split = SplitSizes(calibration=16, demonstration=8, test=4)
    dataset = Dataset.from_rows(rows, name="own", label_space=labels, split=split)
    experimentor = Normal(1, datasets=[dataset])[0]
    write_prompt = experimentor.prompt_former.write_prompt_from_dataline
    calibration_set = experimentor.calibration_set()
    kernel = ChangingKernel(share)
    calibration = calibration_class(experimentor.get_label_space())
    calibration.train(write_prompt, kernel, calibration_set, 16, k=1)

    training = calibration.definition().write_prompts(GivenSource(write_prompt, calibration_set, labels, 16, 1))
    if calibration_class is HiddenCalibration:
        features = kernel.hidden_states(training.all).tolist()
        predictions = calibration.apply(numpy.eye(12))
    else:
        features = kernel.batch(training.all, labels)
        predictions = calibration.apply([[0.3, 0.7]])
    inputs = [labels, training.all, list(training.labels), features]
    return Training(inputs, calibration.identity().digest, [labels, predictions])


@pytest.mark.parametrize("calibration_class", [ContextualCalibration, HiddenCalibration])
@settings(max_examples=40, deadline=None)
@given(TABLES, SPACES, TABLES, SPACES, st.sampled_from([0.0, 0.5]), st.booleans())
def test_calibrations_are_identified_by_what_they_were_trained_on(
    calibration_class: Any,
    rows: Any,
    labels: Any,
    other_rows: Any,
    other_labels: Any,
    other_share: float,
    is_same_data: bool,
) -> None:
    """Equal training gives equal identities, and equal identities give equal predictions."""
    if is_same_data:
        other_rows, other_labels = rows, labels
    try:
        first = train(calibration_class, rows, labels, share=0.0)
        second = train(calibration_class, other_rows, other_labels, other_share)
    except ArgumentError:  # a label has no row in the calibration set
        return

    if first.inputs == second.inputs:
        assert first.digest == second.digest
    if first.digest == second.digest:
        assert first.predictions == second.predictions


# -- cached features: computed once for all methods, durable, resumed, shared, and not lost by a failure


@pytest.mark.parametrize("variant", ["paper", "staicc", "0.1.1"])
def test_a_table_of_methods_runs_each_prompt_once(variant: str) -> None:
    kernel = Kernel()

    table = ms.run_all(kernel, bench(), variant, calibration_number=12)

    assert len(table) == 10
    different_prompts = set(kernel.ran)
    run_twice = len(kernel.ran) - len(different_prompts)
    assert run_twice <= 0.02 * len(different_prompts), "few texts need two features that are computed separately"
    models = {result.model for result in table.results()}
    assert len(models) == 2, "the model, and its noisy channel"


@pytest.mark.parametrize("variant", ["paper", "staicc", "0.1.1"])
def test_a_table_of_methods_has_the_results_of_runs_alone_for_fewer_prompts(variant: str) -> None:
    kernel = Kernel()
    prompts_run_alone = 0

    table = ms.run_all(kernel, bench(), variant, calibration_number=12)

    for name, result in table.items():
        kernel_alone = Kernel()
        assert result == Method(name, kernel_alone, variant, calibration_number=12).run(bench()), name
        prompts_run_alone += len(kernel_alone.ran)
    assert len(kernel.ran) < 0.8 * prompts_run_alone


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

    (rows_of_two_labels,) = cache.rows([Request("probabilities", prompt_keys(PROMPTS, ["a", "b"]))])
    (rows_of_three_labels,) = cache.rows([Request("probabilities", prompt_keys(PROMPTS, ["a", "b", "c"]))])

    assert rows_of_two_labels == Kernel().batch(PROMPTS, ["a", "b"])
    assert rows_of_three_labels == Kernel().batch(PROMPTS, ["a", "b", "c"])


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


class DamagedHiddenStates(Kernel):
    """A model with a usable hidden state for the prompts "good" and "fine" only."""

    STATES: ClassVar[dict[str, Any]] = {
        "good": [1.0, 2.0],
        "nested": [[1.0]],
        "empty": [],
        "not finite": [float("nan")],
        "text": ["x"],
        "fine": [1 / 3],
    }

    def hidden_states(self, prompts: Sequence[str]) -> Any:
        return [self.STATES[prompt] for prompt in prompts]


def test_hidden_states_that_are_no_lists_of_numbers_are_errors() -> None:
    prompts = ["good", "nested", "empty", "not finite", "text", "fine"]

    rows = FeatureFunction(DamagedHiddenStates(), {"hidden"}).batch(prompts, [])

    with_error = [prompt for prompt, row in zip(prompts, rows, strict=True) if isinstance(row, Exception)]
    assert with_error == ["nested", "empty", "not finite", "text"]


def test_the_first_query_with_unusable_features_is_named() -> None:
    cache = FeatureCache(DamagedHiddenStates())
    queries = prompt_keys(["good", "nested", "text"])

    with pytest.raises(OutputError, match="query 1"):
        cache.rows([Request("hidden", queries)])
