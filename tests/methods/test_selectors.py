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
    """Return the determinant of the rows and columns of these members."""
    return float(numpy.linalg.det(kernel[numpy.ix_(members, members)]))


def random_kernel(seed: int, size: int) -> Any:
    """Return a random positive definite matrix."""
    vectors = numpy.random.default_rng(seed).normal(size=(size, size))
    return vectors @ vectors.T


@given(st.integers(0, 10_000), st.integers(2, 7), st.integers(1, 4))
@settings(max_examples=60, deadline=None)
def test_each_member_makes_the_determinant_largest(seed: int, size: int, count: int) -> None:
    """Of all members that could come next."""
    kernel = random_kernel(seed, size)

    chosen = greedy_map(kernel, min(count, size))

    for step, member in enumerate(chosen):
        before = chosen[:step]
        candidates = [candidate for candidate in range(size) if candidate not in before]
        largest = max(determinant(kernel, [*before, candidate]) for candidate in candidates)
        assert determinant(kernel, [*before, member]) == pytest.approx(largest, rel=1e-6)


@given(st.integers(0, 10_000), st.integers(2, 7), st.integers(1, 4))
@settings(max_examples=60, deadline=None)
def test_the_determinant_is_within_the_bound_of_greedy_search(seed: int, size: int, count: int) -> None:
    """Greedy search for k members reaches at least 1 / (k!)^2 of the largest determinant of all sets."""
    kernel = random_kernel(seed, size)
    count = min(count, size)

    chosen = greedy_map(kernel, count)

    largest = max(determinant(kernel, members) for members in itertools.combinations(range(size), count))
    rounding = 1e-6
    assert determinant(kernel, chosen) >= largest / math.factorial(count) ** 2 * (1 - rounding)


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


class ShapleyByHand:
    """Demonstration Shapley on mini, written out: five candidates, three orders, and six calibration rows."""

    def __init__(self, experimentor: Any) -> None:
        self.experimentor = experimentor
        pool = experimentor.demonstration_set()
        rows = experimentor.calibration_set()
        generator = StableRandom()
        self.candidates = generator.sample_indexes(len(pool), 5)
        self.orders = [generator.sample_indexes(5, 5) for _ in range(3)]
        self.demonstrations = [pool[position] for position in self.candidates]
        self.calibration_rows = [rows[position] for position in StableRandom().sample_indexes(len(rows), 6)]

    def accuracy(self, members: Sequence[int]) -> float:
        """Return the accuracy on the calibration rows with some of the candidates as demonstrations."""
        labels = self.experimentor.get_label_space()
        demonstrations = [self.demonstrations[member] for member in members]
        correct = 0
        for texts, true_label in self.calibration_rows:
            prompt = self.experimentor.prompt_former.write_prompt_from_dataline(demonstrations, texts)
            predicted = labels[numpy.argmax(Kernel()(prompt, labels))]
            if predicted == true_label:
                correct += 1
        return correct / 6

    def values(self) -> list[float]:
        """Return the value of each candidate: the sum, over the orders, of the accuracy that is gained by adding it."""
        values = [0.0] * 5
        for order in self.orders:
            for position, member in enumerate(order):
                before = order[:position]
                values[member] += self.accuracy([*before, member]) - self.accuracy(before)
        return values


def test_all_queries_are_shown_the_demonstrations_of_the_highest_values() -> None:
    experimentor = benchmark_on_mini(k=2)[0]
    options = {"calibration_number": 6, "candidates": 5, "permutations": 3}

    prepared = Method("demonstration_shapley", Kernel(), **options).prepare(experimentor)

    by_hand = ShapleyByHand(experimentor)
    values = [round(value, 9) for value in by_hand.values()]
    first, second, *_ = sorted(range(5), key=lambda member: -values[member])  # of equal values, the first candidate
    expected = (by_hand.candidates[first], by_hand.candidates[second])
    assert [tuple(positions) for positions in prepared.demonstration_lists()[:4]] == [expected] * 4


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
    """Writes two new inputs for each prompt, such as "is 80 large?" and "who has 80?" for one of 80 characters.

    For a prompt whose length is a multiple of three, it writes the first one only.
    """

    def __init__(self) -> None:
        super().__init__()
        self.prompts_of_texts: list[str] = []

    def generate(self, prompts: Sequence[str], max_new_tokens: int, stop: Any = (), **options: Any) -> list[str]:
        self.prompts_of_texts += prompts
        texts = []
        for prompt in prompts:
            text = f" is {len(prompt)} large?"
            if len(prompt) % 3 != 0:
                text += f"\n\nNew instance 2:\nQ: who has {len(prompt)}?"
            texts.append(text)
        return texts


def inputs_of_author(prompt: str) -> list[str]:
    """Return the new inputs that ``Author`` writes for a prompt."""
    if len(prompt) % 3 == 0:
        return [f"is {len(prompt)} large?"]
    return [f"is {len(prompt)} large?", f"who has {len(prompt)}?"]


def self_icl_prompt(experimentor: Any, row: int) -> str:
    """Return the prompt that asks for two new inputs like a test row."""
    (text,) = experimentor.test_set().get_input_text(row)
    label_names = ", ".join(experimentor.get_label_space())
    return PSEUDO_INPUTS.format(task=f"choose one of {label_names}", count=2, text=text)


def label_without_demonstrations(experimentor: Any, text: str) -> str:
    """Return the label that the model predicts for an input without demonstrations."""
    labels = experimentor.get_label_space()
    prompt = experimentor.prompt_former.write_prompt_from_dataline([], [text])
    probabilities = Kernel()(prompt, labels)
    label: str = labels[numpy.argmax(probabilities)]
    return label


def test_demonstrations_are_written_and_labelled_by_the_model() -> None:
    """New inputs get the labels that the model predicts for them without demonstrations."""
    kernel = Author()
    benchmark = benchmark_on_mini(k=2, limit=4)
    experimentor = benchmark[0]

    result: Any = Method("self_icl", kernel).run(benchmark, return_outputs=True)

    for row, predicted in enumerate(predictions_of(result)):
        request = self_icl_prompt(experimentor, row)
        assert kernel.prompts_of_texts[row] == request
        demonstrations = []
        for text in inputs_of_author(request):
            demonstrations.append(([text], label_without_demonstrations(experimentor, text)))
        query = experimentor.test_set().get_input_text(row)
        prompt = experimentor.prompt_former.write_prompt_from_dataline(demonstrations, query)
        assert predicted == pytest.approx(Kernel()(prompt, experimentor.get_label_space())), f"test row {row}"
    assert len(predictions_of(result)) == 4
    assert "|k:0|" in str(result.signature)


def test_a_warning_counts_the_examples_with_fewer_self_made_demonstrations_than_k() -> None:
    benchmark = benchmark_on_mini(k=2, limit=4)
    with_one_input = 0
    for row in range(4):
        if len(inputs_of_author(self_icl_prompt(benchmark[0], row))) == 1:
            with_one_input += 1
    assert 0 < with_one_input < 4

    result: Any = Method("self_icl", Author()).run(benchmark)

    warnings = "\n".join(map(str, result.warnings))
    assert f"{with_one_input} of 4 test examples have fewer than 2 self-made" in warnings


def test_self_made_demonstrations_need_a_k() -> None:
    with pytest.raises(ArgumentError, match="Expected k >= 1"):
        Method("self_icl", Author()).run(benchmark_on_mini(k=0))


def test_the_nine_templates_of_template_sensitivity_have_the_same_new_inputs() -> None:
    kernel = Author()
    benchmark = benchmark_on_mini(k=2, limit=2, kind=TemplateSensitivity)

    result: Any = Method("self_icl", kernel).run(benchmark, return_outputs=True)

    predictions = [tuple(row) for row in predictions_of(result)]
    assert len(kernel.prompts_of_texts) == 2, "one request for each test row"
    assert len(predictions) == 9 * 2
    assert len(set(predictions)) > 9, "the prompts of the templates do not differ"


REPLY_WITH_THREE_INPUTS = " one\n\nNew instance 2:\nQ: two\nA: label\n\nNew instance 3:\nQ:  \nQ: three"


@pytest.mark.parametrize(
    ("reply", "most", "inputs"),
    [
        pytest.param(REPLY_WITH_THREE_INPUTS, 9, ["one", "two", "three"], id="all inputs"),
        pytest.param(REPLY_WITH_THREE_INPUTS, 2, ["one", "two"], id="more than needed"),
        pytest.param("\nno question here", 3, [], id="no input"),
        pytest.param(Failure("gone"), 3, [], id="no reply"),
    ],
)
def test_new_inputs_are_read_line_by_line(reply: Any, most: int, inputs: list[str]) -> None:
    assert read_inputs(reply, most) == inputs


# -- methods of two methods


def nearest_then_calibrated(data: MethodData) -> Steps:
    """A method of the user: the nearest demonstrations by BM25, and batch calibration of the predictions."""
    from StaICC.methods.catalogue import METHODS

    nearest = yield from nearest_demonstrations(data, data.k, SelectionOptions(encoder="bm25"))
    return (yield from METHODS["batch_calibration"](data.on(demonstrations=nearest)))


def test_a_calibration_after_a_selection_is_that_of_a_benchmark_with_the_selected_demonstrations() -> None:
    spec = MethodSpec("nearest_then_calibrated", "Nearest, then calibrated", nearest_then_calibrated)

    result = Method(spec, Kernel()).run(benchmark_on_mini(), return_outputs=True)

    with_nearest = benchmark_on_mini()
    nearest = Method("topk", Kernel(), encoder="bm25").prepare(with_nearest[0]).demonstration_lists()
    with_nearest[0].set_demonstration_sampler([list(positions) for positions in nearest])
    expected = Method("batch_calibration", Kernel()).run(with_nearest, return_outputs=True)
    assert predictions_of(result) == predictions_of(expected)
