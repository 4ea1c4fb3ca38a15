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
from StaICC.benchmarks.benchmark import Benchmark
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
from tests.methods.fakes import Kernel
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


def suite() -> Suite:
    return Suite(k=2, datasets=["mini"], limit=3)


def facts(result: Any) -> dict[str, Any]:
    """All that must not depend on the other members of a group."""
    return {
        **{"scores": result, "predictions": result.outputs, "signature": str(result.signature)},
        **{phase: result.timing[f"{phase}_prompts"] for phase in ("training", "test")},
        "intervals": result.details["mini"].intervals,
    }


# -- alone and in a group


def marks(name: str) -> Any:
    """The training by gradient steps takes as long as all others together."""
    return pytest.mark.slow if name == "linear_calibration" else ()


@pytest.mark.parametrize(
    ("name", "variant"),
    [
        *(pytest.param(name, "paper", marks=marks(name)) for name in METHODS),
        ("knn_prompt", "staicc"),
        ("contextual_calibration", "0.1.1"),
    ],
)
def test_a_member_of_a_group_has_the_scores_that_it_has_alone(name: str, variant: str) -> None:
    method = Method(name, Kernel(), variant, calibration_number=12, **OPTIONS.get(name, {}))

    def run(benchmark: Benchmark | BenchmarkGroup) -> Any:
        return method.run(benchmark, return_outputs=True)

    members = suite().members
    if name in REFUSED:
        with pytest.raises(ArgumentError, match=REFUSED[name]):
            run(BenchmarkGroup("refused", {REFUSED[name]: members.pop(REFUSED[name])}))
    alone = {part: facts(run(member)) for part, member in members.items()}
    order = sorted(alone, key=lambda part: ("Normal", "Template_sens", part).index(part))  # before it and after it
    results = run(BenchmarkGroup("group", {part: members[part] for part in order}))
    assert {part: facts(result) for part, result in results.items()} == alone


# -- one calibration for each template


def test_each_template_has_the_calibration_of_its_own_prompts() -> None:
    """Contextual calibration from its definition, template by template."""
    kernel, number, k, limit = Kernel(), 12, 2, 3
    by_hand: list[list[float]] = []
    for levels in ("0000", "0111", "0222", "1012", "1120", "1201", "2021", "2102", "2210"):
        experimentor = TemplateSensitivity(k=k, datasets=["mini"])[0]
        others, (instruction, inputs, prefix, affix) = experimentor.card.alternatives, map(int, levels)
        assert others is not None
        writer, rows, generator = experimentor.prompt_former, experimentor.calibration_set(), StableRandom()
        writer.change_instruction(others.instruction[instruction])
        writer.change_input_text_prefixes(others.input_text_prefixes[inputs])
        writer.change_label_prefix(others.label_prefix[prefix])
        writer.change_label_affix(others.label_affix[affix])
        lists = [generator.sample_indexes(len(rows), k) for _ in range(number)]
        prompts: list[Any] = [
            writer.write_prompt_from_dataline([rows[place] for place in places], [("N/A", "[MASK]", "")[turn % 3]])
            for turn, places in enumerate(lists)
        ]
        labels = experimentor.get_label_space()
        prior = numpy.mean(kernel.batch(prompts, labels), axis=0)
        prompts_of_queries: list[Any] = [
            writer.write_prompt(experimentor.demonstration_lists()[row], row) for row in range(limit)
        ]
        shares = numpy.exp(numpy.array(kernel.batch(prompts_of_queries, labels)) / prior)
        by_hand += (shares / shares.sum(1, keepdims=True)).tolist()
    guesses = [numpy.argmax(by_hand[row::limit], axis=1).tolist() for row in range(limit)]
    consistency = numpy.mean([Counter(labels).most_common(1)[0][1] / 9 for labels in guesses])

    members = suite().members
    for order in (members, dict(reversed(members.items())), {"Template_sens": members["Template_sens"]}):
        method = Method("contextual_calibration", Kernel(), "staicc", calibration_number=number)
        results: Any = method.run(BenchmarkGroup("group", order), return_outputs=True)
        result = results["Template_sens"]
        assert result.timing["training_prompts"] == 9 * number
        assert result["Averaged results"]["consistency"] == pytest.approx(consistency, abs=1e-12)
        for record, expected in zip(result.outputs["mini"], by_hand, strict=True):
            assert record["predicted_probabilities"] == pytest.approx(expected, abs=1e-12)


# -- never shared


def rows(texts: str = "text", shift: int = 0) -> list[tuple[str, int]]:
    return [(f"{texts} {number}", (number * 7 + shift * (number % 5)) % 2) for number in range(60)]


def data(
    given_rows: Sequence[tuple[str, int]], labels: Sequence[str] = ("no", "yes"), calibration: int = 24
) -> Dataset:
    split = SplitSizes(calibration=calibration, demonstration=56 - calibration, test=4)
    return Dataset.from_rows(given_rows, name="own", label_space=list(labels), split=split)


def changed(**settings: Any) -> Normal:
    """The plain benchmark with changes of its prompt writer."""
    made = Normal(2, datasets=[data(rows())])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TemplateWarning)
        for name, value in settings.items():
            getattr(made[0].prompt_former, name)(value)
    return made


def shortened() -> Normal:
    made = Normal(2, datasets=[data(rows())])
    made[0].prompt_former.cut_by_length = 3
    return made


def chosen() -> Normal:
    made = Normal(2, datasets=[data(rows())])
    made[0].set_demonstration_sampler([[0, 1]] * 4)
    return made


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
    """One cache, one data set after the other: each has the result of a run of its own."""
    method = Method(name, Kernel(), calibration_number=12, **OPTIONS.get(name, {}))
    caches = ModelCaches(method.kernel)
    differ = set()
    for which in (*BENCHMARKS, "plain"):
        if which == "noisy channel" and needs_direct(name):
            continue
        once: Any = method.run_on(caches, BENCHMARKS[which](), return_outputs=True)
        again: Any = method.run(BENCHMARKS[which](), return_outputs=True)
        assert (once, once.outputs) == (again, again.outputs), which
        assert once.timing["training_prompts"] == again.timing["training_prompts"]
        differ.add(json.dumps([record["predicted_probabilities"] for record in once.outputs["own"]]))
    assert len(differ) > 5  # the benchmarks differ in what they show


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


@pytest.mark.parametrize("name", ["hidden_calibration", "topk", "sa_icl"])
def test_no_other_model_gets_what_was_learned(name: str) -> None:
    kernel = Scaled()
    results = {}
    for kernel.share in (0.0, 1.0):
        results[kernel.share] = Method(name, kernel, calibration_number=12).run(suite()["GLER"], return_outputs=True)
    assert results[0.0].outputs != results[1.0].outputs
    group = BenchmarkGroup("group", {"first": suite()["GLER"], "second": suite()["GLER"]})
    for changing in (Scaled(), Unclear()):

        def changes(result: Any, changing: Any = changing) -> None:
            changing.share = 1.0

        parts: Any = Method(name, changing, calibration_number=12).run(group, return_outputs=True, on_result=changes)
        assert [parts["first"].outputs, parts["second"].outputs] == [results[0.0].outputs, results[1.0].outputs]


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


@pytest.mark.parametrize(
    ("together", "variant"), [(True, "paper"), (True, "staicc"), (True, "0.1.1"), (False, "paper")]
)
def test_a_second_run_computes_nothing(variant: str, together: bool, tmp_path: Path) -> None:
    """Also with noise: nothing that was learned is in a key."""
    path = tmp_path / "store.sqlite"

    def run(kernel: Kernel) -> Any:
        if together:
            return dict(ms.run_all(kernel, bench(), variant, 12, store=path, recheck=False))
        names = [*ms.METHODS]
        return {name: ms.Method(name, kernel, variant, 12).run(bench(), store=path, recheck=False) for name in names}

    first = run(Kernel(1e-6))
    again = Kernel(1e-6)
    second = run(again)
    assert again.ran == []
    assert second == first
    for result in second.values():
        assert [entry for entry in result.provenance.predictors if entry.computed != 0] == []
        assert result.timing["reused_prompts"] > 0


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
    cache = FeatureCache(Kernel())
    keys = prompt_keys(PROMPTS, ["a", "b"])

    cache.rows([Request("hidden", keys)])
    cache.rows([Request("hidden", keys * 3)])

    assert (cache.computed, cache.reused) == (2, 2)


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
