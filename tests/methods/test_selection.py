"""Instruction, demonstrations and order: on a made-up kernel, against brute force, and everything to be refused."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, get_args

import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from StaICC import Dataset, Normal
from StaICC.errors import ArgumentError, OutputError
from StaICC.kernels.ppm import PPMKernel
from StaICC.methods.ppl_icl import least_perplexity
from StaICC.methods.run import Method
from StaICC.methods.sa_icl import lowest_entropy
from StaICC.methods.selection_rules import Pool, SelectionRule, choose_demonstrations
from StaICC.methods.text_distances import EncodedTexts, WordOverlap
from StaICC.methods.vote_k import representatives
from StaICC.metrics import released
from StaICC.prefabricate_inference.prompt_template_edit import PPL_ICL, SA_ICL


class Kernel:
    """Encodes a text by its length and its number of blanks; answers by the length of the prompt's first line."""

    def __init__(self) -> None:
        self.encoded: list[str] = []
        self.prompts: list[str] = []

    def hidden_states(self, prompts: Sequence[str]) -> Any:
        self.encoded += prompts
        return numpy.array([[float(len(text)), float(text.count(" "))] for text in prompts])

    def losses(self, texts: Sequence[str]) -> list[float]:
        return [1.0 / len(text) for text in texts]

    def batch(self, prompts: Sequence[str], label_space: Sequence[str]) -> list[list[float]]:
        self.prompts += prompts
        rows = []
        for prompt in prompts:
            sure = len(prompt.split("\n")[0])
            rest = 1.0 / (sure + len(label_space))
            rows.append([1.0 - rest * (len(label_space) - 1)] + [rest] * (len(label_space) - 1))
        return rows

    def __call__(self, prompt: str, label_space: Sequence[str]) -> list[float]:
        return self.batch([prompt], label_space)[0]

    def score_in_detail(self, prompts: Sequence[str], label_space: Sequence[str]) -> Any:
        return self.batch(prompts, label_space), self.hidden_states(prompts), self.hidden_states(prompts)


def encoded(encode: Any, *texts: str) -> EncodedTexts:
    """Texts that are compared by an encoder."""
    distinct = list(dict.fromkeys(texts))
    return EncodedTexts(distinct, list(encode(distinct)))


def mini(k: int = 2, limit: int | None = None) -> Any:
    return Normal(k=k, datasets=["mini"], limit=limit)[0]


# -- PPL-ICL


@pytest.mark.filterwarnings("ignore::StaICC.TemplateWarning")
def test_instruction_of_the_lowest_perplexity() -> None:
    """The made-up losses fall with length: the longest instruction wins, in both variants."""
    for variant in ("paper", "0.1.1"):
        experimentor = mini()
        assert PPL_ICL(Kernel(), None, ["Topic? ", "What is the topic? ", "x"], experimentor, variant=variant) == (
            "What is the topic? "
        )
        assert experimentor.prompt_former.get_config_dict()["instruction"] == "What is the topic? "
        assert experimentor.prompt_set()[0].startswith("What is the topic? ")


def test_perplexities_are_averaged_not_losses() -> None:
    """Losses (0, 4) have the mean 2 and the mean perplexity 27.8; (3, 3) have 3 and 20.1; the first of equals wins."""
    assert least_perplexity([0.0, 4.0, 3.0, 3.0], 2) == 1
    assert least_perplexity([1.0, 1.0, 1.0], 3) == 0
    assert least_perplexity([2000.0, 1999.0], 2) == 1
    for bad in ([math.nan], [math.inf], [OutputError("gone")]):
        with pytest.raises(OutputError, match=r"not finite|gone"):
            least_perplexity(bad, 1)


# -- nearness


@given(st.lists(st.text("ab ", max_size=6), min_size=3, max_size=20), st.text("ab ", min_size=1, max_size=6))
def test_nearest_is_a_stable_sort_by_distance(texts: list[str], query: str) -> None:
    texts = [text for text in texts if text]
    if not texts:
        return

    def distance(place: int) -> float:
        text = texts[place]
        return math.hypot(len(text) - len(query), text.count(" ") - query.count(" "))

    compared = encoded(Kernel().hidden_states, *texts, query)
    (chosen,) = choose_demonstrations(Pool(texts, None), [query], compared, len(texts))
    assert chosen == sorted(range(len(texts)), key=lambda place: (round(distance(place), 9), place))


# -- TopK


def test_topk_sets_demonstrations_and_nothing_else() -> None:
    experimentor, kernel = mini(), Kernel()
    before = len(experimentor.demonstration_set())
    method = SA_ICL(kernel, None, experimentor)
    method.set_TopK_to_demonstration(3)
    assert experimentor.get_k() == 3
    assert len(experimentor.demonstration_set()) == before
    assert len(kernel.encoded) == len(set(kernel.encoded))
    assert experimentor.get_repeat_times() == 1
    query, row = experimentor.test_set()[0][0][0], experimentor.demonstration_sampler[0]
    nearest_text = experimentor.demonstration_set()[row[0]][0][0]
    best = min(
        math.hypot(len(t[0]) - len(query), t[0].count(" ") - query.count(" "))
        for t, _ in experimentor.demonstration_set()
    )
    assert math.hypot(len(nearest_text) - len(query), nearest_text.count(" ") - query.count(" ")) == best
    assert experimentor.prompt_set()[0].startswith(f"sentence: {nearest_text}")
    SA_ICL(kernel, None, few := mini(), demonstration_set_cut=5).set_TopK_to_demonstration(3)
    assert {place for own in few.demonstration_sampler for place in own} <= set(range(5))


# -- SA-ICL


def test_entropy_by_hand() -> None:
    assert lowest_entropy([[0.5, 0.5], [0.9, 0.1], [0.1, 0.9]]) == 1
    # 0.7 + 0.2 + 0.1 misses 1.0 by an ulp from left to right: the release takes its softmax, so the flatter row wins.
    rows = [[0.7, 0.2, 0.1], [0.2, 0.3, 0.5]]
    assert lowest_entropy(rows) == 0
    assert lowest_entropy(rows, released.entropy) == 1


@pytest.mark.parametrize("variant", ["paper", "0.1.1"])
def test_sa_icl_keeps_the_surest_order(variant: str) -> None:
    """The made-up kernel is surer the longer the first line is: the order that begins with the longest wins."""
    experimentor, kernel = mini(k=2, limit=4), Kernel()
    method = SA_ICL(kernel, None, experimentor, variant=variant)
    chosen = method.inference_interface(experimentor.prompt_set(), experimentor.get_label_space(), 3, 2, 6)
    assert len(chosen) == 8
    assert chosen[:4] == chosen[4:]  # both repeats ask the same rows
    assert len(kernel.prompts) == 4 * 6  # all six orders of each row, each once
    query = experimentor.test_set().get_input_text(0)[0]
    lengths = [len(prompt.split("\n")[0]) for prompt in kernel.prompts if query in prompt]
    assert len(lengths) == 6
    assert chosen[0][0] == pytest.approx(1.0 - 2 / (max(lengths) + 3))
    assert (
        method.inference_interface(experimentor.prompt_set()[1], experimentor.get_label_space(), 3, 2, 6) == chosen[1]
    )


def test_the_surest_order_of_logits_is_that_of_their_probabilities() -> None:
    """A model that returns logits has the predictions that it has with the softmax of them."""

    class Probabilities:
        def __call__(self, prompt: str, label_space: Sequence[str]) -> list[float]:
            scores = [1 + hashlib.sha256(f"{prompt}{label}".encode()).digest()[0] for label in label_space]
            return [score / sum(scores) for score in scores]

    class Logits(Probabilities):
        def __call__(self, prompt: str, label_space: Sequence[str]) -> list[float]:
            return [math.log(value) - 5 for value in super().__call__(prompt, label_space)]

    expected, logits = (
        Method("sa_icl", kernel, encoder="bm25").run(Normal(k=2, datasets=["mini"], limit=16)).averaged
        for kernel in (Probabilities(), Logits())
    )
    assert logits == pytest.approx(expected, abs=1e-9)


words = st.lists(st.sampled_from(["red", "blue", "Green", "a", "the", "cat!"]), min_size=1, max_size=6).map(" ".join)


def bag(texts: list[str]) -> Any:
    """Counts of six letters."""
    return [[float(text.casefold().count(letter)) for letter in "abcdet"] for text in texts]


@given(st.lists(words, min_size=1, max_size=8), words)
@settings(max_examples=60, deadline=None)
def test_bm25_is_its_formula(texts: list[str], query: str) -> None:
    """Okapi BM25 written out, word by word."""
    bags = [re.findall(r"\w+", text.lower()) for text in texts]
    mean = sum(map(len, bags)) / len(bags)
    for text, words_of in zip(WordOverlap().distances([query], texts)[0], bags, strict=True):
        score = 0.0
        for word in re.findall(r"\w+", query.lower()):
            having = sum(word in other for other in bags)
            idf = math.log(1 + (len(bags) - having + 0.5) / (having + 0.5))
            count = words_of.count(word)
            score += idf * count * 2.5 / (count + 1.5 * (0.25 + 0.75 * len(words_of) / mean))
        assert text == pytest.approx(-score, abs=1e-9)


COMPARED_BY = pytest.mark.parametrize("compared_by", ["vectors", "words"])
SELECTIONS = given(st.lists(words, min_size=4, max_size=10), words, st.integers(1, 4))


class Selection:
    """A pool of texts with three labels, a query among others, and the distances that a rule is to go by."""

    def __init__(self, compared_by: str, texts: list[str], query: str, count: int) -> None:
        self.labels = [len(text) % 3 for text in texts]
        self.count = count
        self._pool = Pool(texts, self.labels)
        self._queries = [f"the {query}", query, query]
        self.compared: Any = encoded(bag, *texts, *self._queries) if compared_by == "vectors" else WordOverlap()
        # A measure by words depends on all texts of the pool, each counted once.
        distinct = list(dict.fromkeys(texts))
        (distances,) = self.compared.distances([query], distinct)
        self.distance = [distances[distinct.index(text)] for text in texts]
        """The distance of each text of the pool to the query."""
        self.nearest_first = sorted(range(len(texts)), key=lambda place: self.distance[place])

    def chosen(self, rule: Any = "nearest") -> list[int]:
        """The places in the pool of the demonstrations that a rule chooses for the query."""
        chosen: Any = choose_demonstrations(self._pool, self._queries, self.compared, self.count, rule)
        _, for_query, for_equal_query = chosen
        assert for_query == for_equal_query
        return list(for_query)


@COMPARED_BY
@SELECTIONS
@settings(max_examples=20, deadline=None)
def test_the_nearest_demonstrations_are_chosen_by_default(
    compared_by: str, texts: list[str], query: str, count: int
) -> None:
    selection = Selection(compared_by, texts, query, count)
    assert selection.chosen() == selection.nearest_first[:count]


@COMPARED_BY
@SELECTIONS
@settings(max_examples=20, deadline=None)
def test_balanced_demonstrations_begin_with_the_nearest_and_have_as_many_of_each_label(
    compared_by: str, texts: list[str], query: str, count: int
) -> None:
    selection = Selection(compared_by, texts, query, count)
    chosen = selection.chosen("balanced")
    assert len(set(chosen)) == count, "one was chosen twice"
    assert chosen[0] == selection.nearest_first[0]
    shares = [sum(selection.labels[place] == label for place in chosen) for label in range(3)]
    for label, share in enumerate(shares):
        has_fewer_by_two = share < max(shares) - 1
        if has_fewer_by_two:
            assert share == selection.labels.count(label), f"label {label} has more rows in the pool: {shares}"


@COMPARED_BY
@SELECTIONS
@settings(max_examples=20, deadline=None)
def test_diverse_demonstrations_begin_with_the_nearest_and_are_different(
    compared_by: str, texts: list[str], query: str, count: int
) -> None:
    selection = Selection(compared_by, texts, query, count)
    chosen = selection.chosen("diverse")
    assert len(set(chosen)) == count, "one was chosen twice"
    assert chosen[0] == selection.nearest_first[0]


@SELECTIONS
@settings(max_examples=40, deadline=None)
def test_each_diverse_demonstration_has_the_largest_marginal_relevance(
    texts: list[str], query: str, count: int
) -> None:
    """Maximal marginal relevance, by its definition: near the query, and far from those that were chosen before."""
    selection = Selection("vectors", texts, query, count)
    between = selection.compared.distances(texts, texts)

    def relevance(place: int, chosen_before: list[int]) -> float:
        redundancy = max((-between[place, other] for other in chosen_before), default=0.0)
        return float(-selection.distance[place] - redundancy)

    chosen = selection.chosen("diverse")
    for number, place in enumerate(chosen):
        chosen_before = chosen[:number]
        left = [other for other in range(len(texts)) if other not in chosen_before]
        largest = max(relevance(other, chosen_before) for other in left)
        assert relevance(place, chosen_before) == pytest.approx(largest, abs=1e-5)


def sphere(number: int) -> Any:
    """Points on the unit sphere, at angles without repetition, denser near one pole."""
    steps = numpy.arange(1, number + 1)
    turn, height = 2.4 * steps + numpy.sin(steps * steps), (steps * 0.618 % 1) ** 2
    radius = numpy.sqrt(1 - height**2)
    return numpy.stack([radius * numpy.cos(turn), radius * numpy.sin(turn), height], 1)


def test_vote_k_chooses_the_rows_of_the_authors_code() -> None:
    """The rows are those that ``fast_votek`` of HKUNLP/icl-selective-annotation (two_steps.py) returns."""
    points = sphere(260)
    distances = numpy.sqrt(((points[:, None] - points[None]) ** 2).sum(-1))

    assert representatives(distances, 12) == [54, 232, 143, 198, 20, 109, 89, 219, 29, 41, 75, 144]


def test_each_choice_of_vote_k_has_the_highest_score() -> None:
    """Algorithm 1 of the paper, in exact numbers.

    Each row votes for its 150 nearest rows. The vote of a row that has ``n`` chosen rows among its nearest weighs
    ``10^-n``, and a chosen row has no vote.
    """
    points = sphere(260)
    distances = numpy.sqrt(((points[:, None] - points[None]) ** 2).sum(-1))
    nearest_rows = [set(numpy.argsort(line)[1:151].tolist()) for line in distances]  # the first one is the row itself

    chosen_rows = representatives(distances, 12)

    for position, chosen in enumerate(chosen_rows):
        before = set(chosen_rows[:position])
        scores = dict.fromkeys(set(range(260)) - before, Fraction(0))
        for voter in set(range(260)) - before:
            weight = Fraction(1, 10 ** len(nearest_rows[voter] & before))
            for row in nearest_rows[voter] - before:
                scores[row] += weight
        assert scores[chosen] == max(scores.values()), f"choice {position}: row {chosen}"


def test_duplicates_are_counted_and_excluded(caplog: Any) -> None:
    texts = ["the cat", "the dog", "the cat", "a bird"]
    pool, compared = Pool(texts, [0, 1, 0, 1]), encoded(bag, *texts)
    assert choose_demonstrations(pool, ["the cat"], compared, 2) == [[0, 2]]
    assert choose_demonstrations(pool, ["", "the cat"], compared, 2) == [None, [0, 2]]
    for rule in get_args(SelectionRule):
        (chosen,) = choose_demonstrations(pool, ["the cat"], compared, 2, rule, exclude_duplicates=True)
        assert set(chosen or ()) == {1, 3}, rule
    with pytest.raises(ArgumentError, match="too many duplicates of a query, expected at least 3"):
        choose_demonstrations(pool, ["the cat"], compared, 3, exclude_duplicates=True)
    same = [((f"text {number % 7}",), number % 2) for number in range(80)]
    benchmark = Normal(k=2, datasets=[Dataset.from_rows(same, name="same", label_space=["a", "b"])], limit=6)
    shown = Method("topk", PPMKernel(), encoder="bm25").run(benchmark)
    assert shown.timing["duplicates"] == 6
    assert "6 test examples are shown a demonstration of exactly their text" in caplog.text
    hidden = Method("topk", PPMKernel(), encoder="bm25", exclude_duplicates=True).run(benchmark)
    assert hidden.timing["duplicates"] == 0
