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
from tests.methods.fakes import Kernel, mini, rows_of

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


def test_a_determinantal_process_shows_other_demonstrations_than_the_nearest() -> None:
    """Two near texts that are almost equal, and a third one: the third is shown in the place of the second."""
    encodings = {"query": [1.0, 0.0], "near": [1.0, 0.1], "near too": [1.0, 0.11], "other": [1.0, -0.2]}
    compared = EncodedTexts(list(encodings), list(encodings.values()))
    pool = Pool(["near", "near too", "other"], None)
    assert choose_demonstrations(pool, ["query"], compared, 2) == [[0, 1]]
    assert choose_demonstrations(pool, ["query"], compared, 2, "dpp") == [[0, 2]]

    def cosine(first: str, second: str) -> float:
        a, b = numpy.array(encodings[first]), numpy.array(encodings[second])
        return float(a @ b / numpy.sqrt((a @ a) * (b @ b)))

    quality = [math.exp((cosine("query", text) + 1) / 2 / 0.2) for text in pool.texts]
    expected = [
        [quality[i] * (cosine(a, b) + 1) / 2 * quality[j] for j, b in enumerate(pool.texts)]
        for i, a in enumerate(pool.texts)
    ]
    relevance = compared.cosines(["query"], pool.texts)[0]
    kernel = quality_similarity_kernel(relevance, compared.cosines(pool.texts, pool.texts))
    numpy.testing.assert_allclose(kernel / kernel[0, 0], numpy.array(expected) / expected[0][0])
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
    random = numpy.random.default_rng(seed)
    sets = [frozenset(members) for size in range(5) for members in itertools.combinations(range(4), size)]
    table = dict(zip(sets, random.random(len(sets)).tolist(), strict=True))
    orders = list(itertools.permutations(range(4)))
    value_of = {order[:size]: table[frozenset(order[:size])] for order in orders for size in range(5)}
    expected = exact_shapley(lambda members: table[frozenset(members)], 4)
    assert shapley_values(orders, value_of) == pytest.approx(expected)
    assert sum(shapley_values(orders, value_of)) == pytest.approx(table[frozenset(range(4))] - table[frozenset()])


def test_all_queries_are_shown_the_demonstrations_of_the_highest_values() -> None:
    """The method's prompts and values, written out."""
    kernel, benchmark = Kernel(), mini(k=2)
    experimentor = benchmark[0]
    method = Method("demonstration_shapley", kernel, calibration_number=6, candidates=5, permutations=3)
    shown = method.prepare(experimentor).demonstration_lists()

    generator = StableRandom()
    pool, rows = experimentor.demonstration_set(), experimentor.calibration_set()
    candidates = generator.sample_indexes(len(pool), 5)
    orders = [generator.sample_indexes(5, 5) for _ in range(3)]
    queries = StableRandom().sample_indexes(len(rows), 6)
    labels = experimentor.get_label_space()

    def accuracy(members: Sequence[int]) -> float:
        lines = [pool[candidates[member]] for member in members]
        write = experimentor.prompt_former.write_prompt_from_dataline
        predicted = Kernel().batch([write(lines, rows[row][0]) for row in queries], labels)
        names = [labels[row.index(max(row))] for row in predicted]
        return sum(name == rows[number][1] for name, number in zip(names, queries, strict=True)) / 6

    totals = [0.0] * 5
    for order in orders:
        for size, member in enumerate(order):
            totals[member] += accuracy(order[: size + 1]) - accuracy(order[:size])
    best = sorted(range(5), key=lambda member: (-round(totals[member], 9), member))[:2]
    assert {tuple(lists) for lists in shown[:4]} == {tuple(candidates[member] for member in best)}
    result = method.run(benchmark)
    assert result.timing["training_prompts"] == 6 * len({tuple(o[:n]) for o in orders for n in range(6)})
    assert " n=6" in str(result.signature)
    with pytest.raises(ArgumentError, match="got k = 0"):
        Method("demonstration_shapley", kernel).run(mini(k=0))


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


def test_demonstrations_are_written_and_labelled_by_the_model() -> None:
    kernel, benchmark = Author(), mini(k=2)
    result: Any = Method("self_icl", kernel).run(benchmark, return_outputs=True)
    experimentor = benchmark[0]
    labels, write = experimentor.get_label_space(), experimentor.prompt_former.write_prompt_from_dataline
    expected = []
    few = 0
    for row in range(4):
        (text,) = experimentor.test_set().get_input_text(row)
        prompt = PSEUDO_INPUTS.format(task=f"choose one of {', '.join(labels)}", count=2, text=text)
        assert prompt == kernel.asked[row]
        inputs = [f"is {len(prompt)} large?", f"who has {len(prompt)}?"][: 1 if len(prompt) % 3 == 0 else 2]
        few += len(inputs) < 2
        predicted = Kernel().batch([write([], [new]) for new in inputs], labels)
        shown = [([new], labels[answer.index(max(answer))]) for new, answer in zip(inputs, predicted, strict=True)]
        expected += Kernel().batch([write(shown, [text])], labels)
    assert rows_of(result) == [pytest.approx(row) for row in expected]
    assert 0 < few < 4
    assert any(
        f"{few} of 4 test examples have fewer than 2 self-made" in str(warning) for warning in result.warnings
    ), f"got {result.warnings}"
    assert "|k:0|" in str(result.signature)
    with pytest.raises(ArgumentError, match="Expected k >= 1"):
        Method("self_icl", kernel).run(mini(k=0))


def test_each_template_of_template_sensitivity_has_the_same_new_inputs() -> None:
    kernel = Author()
    result: Any = Method("self_icl", kernel).run(mini(k=2, limit=2, kind=TemplateSensitivity), return_outputs=True)
    assert len(kernel.asked) == 2
    assert len(rows_of(result)) == 9 * 2
    assert len({str(row) for row in rows_of(result)}) > 9


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
    result = Method(spec, Kernel()).run(mini(), return_outputs=True)
    benchmark = Normal(k=2, datasets=["mini"], limit=4)
    lists = Method("topk", Kernel(), encoder="bm25").prepare(benchmark[0]).demonstration_lists()
    benchmark[0].set_demonstration_sampler([list(positions) for positions in lists])
    expected = Method("batch_calibration", Kernel()).run(benchmark, return_outputs=True)
    assert rows_of(result) == rows_of(expected)
