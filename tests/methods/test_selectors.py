"""Selectors of recent papers: determinantal processes, Shapley values, self-made demonstrations, and compositions."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from StaICC import Normal
from StaICC.benchmarks.tasks.sensitivity import TemplateSensitivity
from StaICC.errors import ArgumentError
from StaICC.inference.replies import Failure
from StaICC.methods.contract import MethodData, MethodSpec, Steps
from StaICC.methods.demonstration_shapley import shapley_values
from StaICC.methods.determinantal_process import greedy_map, quality_similarity_kernel
from StaICC.methods.nearest_demonstrations import SelectionOptions, nearest_demonstrations
from StaICC.methods.run import Method
from StaICC.methods.selection_rules import Pool, choose_demonstrations
from StaICC.methods.self_icl import PSEUDO_INPUTS, read_inputs
from StaICC.methods.text_distances import EncodedTexts, WordOverlap
from StaICC.prompting.stable_random import StableRandom
from tests.methods.fakes import Kernel, benchmark_on_mini, predictions_of

# -- determinantal point processes


def determinant(kernel: Any, members: Sequence[int]) -> float:
    return float(numpy.linalg.det(kernel[numpy.ix_(members, members)]))


@given(st.integers(0, 10_000), st.integers(2, 7), st.integers(1, 4))
@settings(max_examples=60, deadline=None)
def test_each_member_makes_the_determinant_largest(seed: int, size: int, count: int) -> None:
    """Against determinants of all sets: each step is the best one, and the set is within the bound of greedy search."""
    count = min(count, size)
    vectors = numpy.random.default_rng(seed).normal(size=(size, size))
    kernel = vectors @ vectors.T
    chosen = greedy_map(kernel, count)
    for step in range(count):
        before = chosen[:step]
        candidates = [member for member in range(size) if member not in before]
        best = max(determinant(kernel, [*before, member]) for member in candidates)
        assert determinant(kernel, chosen[: step + 1]) == pytest.approx(best, rel=1e-6)
    best_set = max(determinant(kernel, members) for members in itertools.combinations(range(size), count))
    assert determinant(kernel, chosen) >= best_set / math.factorial(count) ** 2 * (1 - 1e-6)


def test_where_members_are_independent_the_most_relevant_are_chosen() -> None:
    assert greedy_map(numpy.diag([1.0, 4.0, 2.0, 3.0]), 3) == [1, 3, 2]


def test_copies_of_members_are_chosen_last() -> None:
    vectors = numpy.array([[1.0, 0.0], [1.0, 0.0], [0.0, 0.5], [0.0, 0.5]])
    assert greedy_map(vectors @ vectors.T, 4) == [0, 2, 1, 3]


NEAR_DUPLICATES = {"query": [1.0, 0.0], "near": [1.0, 0.1], "near too": [1.0, 0.11], "other": [1.0, -0.2]}
"""Encodings of a query, of two near texts that are almost equal, and of a third one."""


def test_a_determinantal_process_shows_other_demonstrations_than_the_nearest() -> None:
    """The third text is shown in the place of the second one, which is almost equal to the first."""
    compared = EncodedTexts(list(NEAR_DUPLICATES), list(NEAR_DUPLICATES.values()))
    pool = Pool(["near", "near too", "other"], None)

    assert choose_demonstrations(pool, ["query"], compared, 2) == [[0, 1]]
    assert choose_demonstrations(pool, ["query"], compared, 2, "dpp") == [[0, 2]]


def test_the_kernel_of_a_determinantal_process_is_similarity_times_both_qualities() -> None:
    """Up to a factor: (1 + cosine) / 2 of two texts, times exp(relevance / 0.2) of each of them."""
    texts = ["near", "near too", "other"]
    compared = EncodedTexts(list(NEAR_DUPLICATES), list(NEAR_DUPLICATES.values()))

    relevance = compared.cosines(["query"], texts)[0]
    kernel = quality_similarity_kernel(relevance, compared.cosines(texts, texts))

    def similarity(first: str, second: str) -> float:
        a, b = numpy.array(NEAR_DUPLICATES[first]), numpy.array(NEAR_DUPLICATES[second])
        cosine = float(a @ b / numpy.sqrt((a @ a) * (b @ b)))
        return (cosine + 1) / 2

    def quality(text: str) -> float:
        return math.exp(similarity("query", text) / 0.2)

    expected = numpy.zeros((3, 3))
    for row, first in enumerate(texts):
        for column, second in enumerate(texts):
            expected[row, column] = quality(first) * similarity(first, second) * quality(second)
    numpy.testing.assert_allclose(kernel / kernel[0, 0], expected / expected[0, 0])


def test_a_determinantal_process_needs_vectors() -> None:
    pool = Pool(["near", "near too", "other"], None)

    with pytest.raises(ArgumentError, match="bm25' has no vectors"):
        choose_demonstrations(pool, ["query"], WordOverlap(), 2, "dpp")


# -- Shapley values


def exact_shapley(value: Any, players: int) -> list[float]:
    """The definition over sets: sum of |S|! (n - |S| - 1)! / n! times the contribution to S."""
    values = []
    for player in range(players):
        others = [other for other in range(players) if other != player]
        total = 0.0
        for size in range(players):
            weight = math.factorial(size) * math.factorial(players - size - 1) / math.factorial(players)
            for members in itertools.combinations(others, size):
                total += weight * (value({*members, player}) - value({*members}))
        values.append(total)
    return values


@given(st.integers(0, 10_000))
@settings(max_examples=20, deadline=None)
def test_over_all_orders_it_is_the_shapley_value(seed: int) -> None:
    """A random value of each set of four players; the orders only meet the sets of their first players."""
    random = numpy.random.default_rng(seed)
    value_of_set = {}
    for size in range(5):
        for members in itertools.combinations(range(4), size):
            value_of_set[frozenset(members)] = float(random.random())
    orders = list(itertools.permutations(range(4)))
    value_of_beginning = {}
    for order in orders:
        for size in range(5):
            value_of_beginning[order[:size]] = value_of_set[frozenset(order[:size])]

    values = shapley_values(orders, value_of_beginning)

    assert values == pytest.approx(exact_shapley(lambda members: value_of_set[frozenset(members)], 4))
    gain_of_all = value_of_set[frozenset(range(4))] - value_of_set[frozenset()]
    assert sum(values) == pytest.approx(gain_of_all)


def test_all_queries_are_shown_the_demonstrations_of_the_highest_values() -> None:
    """The method written out: a value is the sum of the gains in accuracy by a candidate, over three orders of five."""
    benchmark = benchmark_on_mini(k=2)
    experimentor = benchmark[0]
    options = {"calibration_number": 6, "candidates": 5, "permutations": 3}
    method = Method("demonstration_shapley", Kernel(), **options)

    demonstration_lists = method.prepare(experimentor).demonstration_lists()

    pool, rows = experimentor.demonstration_set(), experimentor.calibration_set()
    labels = experimentor.get_label_space()
    write = experimentor.prompt_former.write_prompt_from_dataline
    generator = StableRandom()
    candidates = generator.sample_indexes(len(pool), 5)
    orders = [generator.sample_indexes(5, 5) for _ in range(3)]
    calibration_rows = [rows[number] for number in StableRandom().sample_indexes(len(rows), 6)]

    def accuracy(members: Sequence[int]) -> float:
        """The accuracy on the calibration rows with some of the candidates as demonstrations."""
        demonstrations = [pool[candidates[member]] for member in members]
        predicted = Kernel().batch([write(demonstrations, texts) for texts, _ in calibration_rows], labels)
        correct = 0
        for probabilities, (_, true_label) in zip(predicted, calibration_rows, strict=True):
            correct += labels[probabilities.index(max(probabilities))] == true_label
        return correct / 6

    values = [0.0] * 5
    for order in orders:
        for position, member in enumerate(order):
            values[member] += accuracy(order[: position + 1]) - accuracy(order[:position])
    highest_first = sorted(range(5), key=lambda member: (-round(values[member], 9), member))
    expected = tuple(candidates[member] for member in highest_first[:2])
    assert {tuple(positions) for positions in demonstration_lists[:4]} == {expected}


def test_shapley_values_cost_each_different_beginning_of_an_order_once() -> None:
    options = {"calibration_number": 6, "candidates": 5, "permutations": 3}
    benchmark = benchmark_on_mini(k=2)

    result = Method("demonstration_shapley", Kernel(), **options).run(benchmark)

    generator = StableRandom()
    generator.sample_indexes(len(benchmark[0].demonstration_set()), 5)  # the candidates are drawn before the orders
    orders = [generator.sample_indexes(5, 5) for _ in range(3)]
    beginnings = set()
    for order in orders:
        for size in range(6):
            beginnings.add(tuple(order[:size]))
    assert result.timing["training_prompts"] == 6 * len(beginnings)
    assert " n=6" in str(result.signature)


def test_shapley_values_need_a_demonstration() -> None:
    with pytest.raises(ArgumentError, match="got k = 0"):
        Method("demonstration_shapley", Kernel()).run(benchmark_on_mini(k=0))


# -- demonstrations that the model writes


class Author(Kernel):
    """Writes two new inputs for each query, for every third query one only."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str] = []

    def generate(self, prompts: Sequence[str], max_new_tokens: int, stop: Any = (), **how: Any) -> list[str]:
        self.asked += prompts
        texts = []
        for prompt in prompts:
            first = f" is {len(prompt)} large?"
            texts.append(first if len(prompt) % 3 == 0 else f"{first}\n\nNew instance 2:\nQ: who has {len(prompt)}?")
        return texts


def inputs_of_author(prompt: str) -> list[str]:
    """The new inputs that ``Author`` writes for a prompt."""
    inputs = [f"is {len(prompt)} large?", f"who has {len(prompt)}?"]
    writes_one_only = len(prompt) % 3 == 0
    return inputs[:1] if writes_one_only else inputs


def self_icl_prompt(experimentor: Any, row: int) -> str:
    """The prompt that asks for two new inputs like a test row."""
    (text,) = experimentor.test_set().get_input_text(row)
    label_names = ", ".join(experimentor.get_label_space())
    return PSEUDO_INPUTS.format(task=f"choose one of {label_names}", count=2, text=text)


def test_demonstrations_are_written_and_labelled_by_the_model() -> None:
    """New inputs get the labels that the model predicts for them without demonstrations."""
    kernel, benchmark = Author(), benchmark_on_mini(k=2, limit=4)
    experimentor = benchmark[0]
    labels, write = experimentor.get_label_space(), experimentor.prompt_former.write_prompt_from_dataline

    result: Any = Method("self_icl", kernel).run(benchmark, return_outputs=True)

    prompts = [self_icl_prompt(experimentor, row) for row in range(4)]
    assert kernel.asked[:4] == prompts
    expected = []
    for row, prompt in enumerate(prompts):
        demonstrations = []
        for new_input in inputs_of_author(prompt):
            (probabilities,) = Kernel().batch([write([], [new_input])], labels)
            demonstrations.append(([new_input], labels[probabilities.index(max(probabilities))]))
        (text,) = experimentor.test_set().get_input_text(row)
        expected += Kernel().batch([write(demonstrations, [text])], labels)
    assert predictions_of(result) == [pytest.approx(row) for row in expected]
    assert "|k:0|" in str(result.signature)


def test_a_warning_counts_the_examples_with_fewer_self_made_demonstrations_than_k() -> None:
    benchmark = benchmark_on_mini(k=2, limit=4)
    prompts = [self_icl_prompt(benchmark[0], row) for row in range(4)]
    with_one_input = sum(len(inputs_of_author(prompt)) == 1 for prompt in prompts)
    assert 0 < with_one_input < 4

    result: Any = Method("self_icl", Author()).run(benchmark)

    expected = f"{with_one_input} of 4 test examples have fewer than 2 self-made"
    assert [warning for warning in result.warnings if expected in str(warning)] != []


def test_self_made_demonstrations_need_a_k() -> None:
    with pytest.raises(ArgumentError, match="Expected k >= 1"):
        Method("self_icl", Author()).run(benchmark_on_mini(k=0))


def test_each_template_of_template_sensitivity_has_the_same_new_inputs() -> None:
    kernel = Author()
    result: Any = Method("self_icl", kernel).run(
        benchmark_on_mini(k=2, limit=2, kind=TemplateSensitivity), return_outputs=True
    )
    assert len(kernel.asked) == 2
    assert len(predictions_of(result)) == 9 * 2
    assert len({str(row) for row in predictions_of(result)}) > 9


def test_new_inputs_are_read_line_by_line() -> None:
    reply = " one\n\nNew instance 2:\nQ: two\nA: label\n\nNew instance 3:\nQ:  \nQ: three"
    assert read_inputs(reply, 2) == ["one", "two"]
    assert read_inputs(reply, 9) == ["one", "two", "three"]
    assert read_inputs("\nno question here", 3) == []
    assert read_inputs(Failure("gone"), 3) == []


# -- methods of two methods


def nearest_then_calibrated(data: MethodData) -> Steps:
    from StaICC.methods.catalogue import METHODS

    nearest = yield from nearest_demonstrations(data, data.k, SelectionOptions(encoder="bm25"))
    return (yield from METHODS["batch_calibration"](data.on(demonstrations=nearest)))


def test_a_calibration_after_a_selection() -> None:
    """The predictions are those of batch calibration on a benchmark with the demonstrations of TopK."""
    spec = MethodSpec("nearest_then_calibrated", "Nearest, then calibrated", nearest_then_calibrated)
    result = Method(spec, Kernel()).run(benchmark_on_mini(), return_outputs=True)
    benchmark = Normal(k=2, datasets=["mini"], limit=4)
    lists = Method("topk", Kernel(), encoder="bm25").prepare(benchmark[0]).demonstration_lists()
    benchmark[0].set_demonstration_sampler([list(positions) for positions in lists])
    expected = Method("batch_calibration", Kernel()).run(benchmark, return_outputs=True)
    assert predictions_of(result) == predictions_of(expected)
