"""Instruction, demonstrations and order: on a made-up kernel, against brute force, and everything to be refused."""

from __future__ import annotations

import hashlib
import math
import re
from collections import Counter
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


class LengthKernel:
    """A model that reads lengths only.

    The encoding of a text is its length and its number of blanks, its loss the reciprocal of its length. The first
    label is the more probable, the longer the first line of a prompt is.
    """

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
            first_line = prompt.split("\n")[0]
            other_label = 1.0 / (len(first_line) + len(label_space))
            first_label = 1.0 - other_label * (len(label_space) - 1)
            rows.append([first_label] + [other_label] * (len(label_space) - 1))
        return rows

    def __call__(self, prompt: str, label_space: Sequence[str]) -> list[float]:
        return self.batch([prompt], label_space)[0]

    def score_in_detail(self, prompts: Sequence[str], label_space: Sequence[str]) -> Any:
        return self.batch(prompts, label_space), self.hidden_states(prompts), self.hidden_states(prompts)


def encoded(encode: Any, *texts: str) -> EncodedTexts:
    """Texts that are compared by an encoder."""
    distinct = list(dict.fromkeys(texts))
    return EncodedTexts(distinct, list(encode(distinct)))


def experimentor_on_mini(k: int = 2, limit: int | None = None) -> Any:
    return Normal(k=k, datasets=["mini"], limit=limit)[0]


def distance(first: str, second: str) -> float:
    """Return the distance of the encodings of two texts: their lengths and their numbers of blanks."""
    return math.hypot(len(first) - len(second), first.count(" ") - second.count(" "))


# -- PPL-ICL


@pytest.mark.filterwarnings("ignore::StaICC.TemplateWarning")
@pytest.mark.parametrize("variant", ["paper", "0.1.1"])
def test_ppl_icl_sets_the_instruction_of_the_lowest_perplexity(variant: str) -> None:
    """The made-up losses fall with length, so the longest instruction wins."""
    experimentor = experimentor_on_mini()
    instructions = ["Topic? ", "What is the topic? ", "x"]

    chosen = PPL_ICL(LengthKernel(), None, instructions, experimentor, variant=variant)

    assert chosen == "What is the topic? "
    assert experimentor.prompt_former.get_config_dict()["instruction"] == "What is the topic? "
    assert experimentor.prompt_set()[0].startswith("What is the topic? ")


@pytest.mark.parametrize(
    ("losses", "prompts_of_an_instruction", "chosen"),
    [
        ([0.0, 4.0, 3.0, 3.0], 2, 1),  # the mean losses are 2 and 3, the mean perplexities 27.8 and 20.1
        ([2000.0, 1999.0], 1, 1),
    ],
    ids=["perplexities are averaged, not losses", "no overflow"],
)
def test_the_instruction_of_the_least_mean_perplexity(
    losses: list[float], prompts_of_an_instruction: int, chosen: int
) -> None:
    instructions = len(losses) // prompts_of_an_instruction

    assert least_perplexity(losses, instructions) == chosen


def test_of_equally_perplexing_instructions_the_first_one_is_chosen() -> None:
    assert least_perplexity([1.0, 1.0, 1.0], 3) == 0


@pytest.mark.parametrize("loss", [math.nan, math.inf, OutputError("gone")], ids=str)
def test_a_loss_that_is_no_number_is_an_error(loss: Any) -> None:
    with pytest.raises(OutputError, match=r"not finite|gone"):
        least_perplexity([loss], 1)


# -- nearness


texts_of_a_and_b = st.text("ab ", min_size=1, max_size=6)


@given(st.lists(texts_of_a_and_b, min_size=1, max_size=20), texts_of_a_and_b)
def test_nearest_is_a_stable_sort_by_distance(texts: list[str], query: str) -> None:
    """Of texts at the same distance, the first one in the pool comes first."""
    compared = encoded(LengthKernel().hidden_states, *texts, query)

    (chosen,) = choose_demonstrations(Pool(texts, None), [query], compared, len(texts))

    distances = [round(distance(text, query), 9) for text in texts]
    assert chosen == sorted(range(len(texts)), key=distances.__getitem__)


# -- TopK


def test_topk_shows_the_nearest_demonstration_first() -> None:
    experimentor = experimentor_on_mini()
    query = experimentor.test_set().get_input_text(0)[0]

    SA_ICL(LengthKernel(), None, experimentor).set_TopK_to_demonstration(3)

    pool_texts = [texts[0] for texts, _ in experimentor.demonstration_set()]
    shown_text = pool_texts[experimentor.demonstration_sampler[0][0]]
    assert distance(shown_text, query) == min(distance(text, query) for text in pool_texts)
    assert experimentor.prompt_set()[0].startswith(f"sentence: {shown_text}")


def test_topk_sets_demonstrations_and_nothing_else() -> None:
    experimentor, kernel = experimentor_on_mini(), LengthKernel()
    pool_size = len(experimentor.demonstration_set())

    SA_ICL(kernel, None, experimentor).set_TopK_to_demonstration(3)

    assert experimentor.get_k() == 3
    assert experimentor.get_repeat_times() == 1
    assert len(experimentor.demonstration_set()) == pool_size
    assert len(kernel.encoded) == len(set(kernel.encoded)), "a text was encoded twice"


def test_topk_may_choose_from_the_first_demonstrations_only() -> None:
    experimentor = experimentor_on_mini()

    SA_ICL(LengthKernel(), None, experimentor, demonstration_set_cut=5).set_TopK_to_demonstration(3)

    for positions in experimentor.demonstration_sampler:
        assert set(positions) <= {0, 1, 2, 3, 4}


# -- SA-ICL


def test_the_row_of_the_lowest_entropy_is_chosen() -> None:
    """Of two rows with the same entropy, the first one."""
    assert lowest_entropy([[0.5, 0.5], [0.9, 0.1], [0.1, 0.9]]) == 1


def test_the_entropy_of_the_release_takes_a_row_for_logits_if_its_sum_is_rounded() -> None:
    """0.7 + 0.2 + 0.1 is not 1.0 but 0.9999999999999999: its softmax is flatter than the second row."""
    rows = [[0.7, 0.2, 0.1], [0.2, 0.3, 0.5]]

    assert lowest_entropy(rows) == 0
    assert lowest_entropy(rows, released.entropy) == 1


def predicted_by_sa_icl(kernel: LengthKernel, experimentor: Any, prompts: Any, variant: str) -> Any:
    """Return predictions with three candidates, two demonstrations, and six orders."""
    labels = experimentor.get_label_space()
    return SA_ICL(kernel, None, experimentor, variant=variant).inference_interface(prompts, labels, 3, 2, 6)


@pytest.mark.parametrize("variant", ["paper", "0.1.1"])
def test_sa_icl_keeps_the_prediction_of_the_surest_order(variant: str) -> None:
    """The made-up kernel is surer the longer the first line is, so the order that begins with the longest wins."""
    experimentor, kernel = experimentor_on_mini(k=2, limit=4), LengthKernel()
    query = experimentor.test_set().get_input_text(0)[0]

    prediction, *_ = predicted_by_sa_icl(kernel, experimentor, experimentor.prompt_set(), variant)

    first_line_lengths = [len(prompt.split("\n")[0]) for prompt in kernel.prompts if query in prompt]
    assert len(first_line_lengths) == 6
    assert prediction[0] == pytest.approx(1.0 - 2 / (max(first_line_lengths) + 3))


@pytest.mark.parametrize("variant", ["paper", "0.1.1"])
def test_sa_icl_predicts_each_row_once_for_both_repeats(variant: str) -> None:
    """Four rows with six orders each; the queries of the second repeat have the same rows."""
    experimentor, kernel = experimentor_on_mini(k=2, limit=4), LengthKernel()

    predictions = predicted_by_sa_icl(kernel, experimentor, experimentor.prompt_set(), variant)

    assert len(predictions) == 8
    assert predictions[:4] == predictions[4:]
    assert len(kernel.prompts) == 4 * 6


@pytest.mark.parametrize("variant", ["paper", "0.1.1"])
def test_sa_icl_predicts_one_prompt_as_among_all(variant: str) -> None:
    experimentor = experimentor_on_mini(k=2, limit=4)
    prompts = experimentor.prompt_set()

    all_predictions = predicted_by_sa_icl(LengthKernel(), experimentor, prompts, variant)
    prediction = predicted_by_sa_icl(LengthKernel(), experimentor, prompts[1], variant)

    assert prediction == all_predictions[1]


class Probabilities:
    """Probabilities by a digest of the prompt and the label."""

    def __call__(self, prompt: str, label_space: Sequence[str]) -> list[float]:
        scores = [1 + hashlib.sha256(f"{prompt}{label}".encode()).digest()[0] for label in label_space]
        return [score / sum(scores) for score in scores]


class Logits(Probabilities):
    """The same model, which returns logits."""

    def __call__(self, prompt: str, label_space: Sequence[str]) -> list[float]:
        return [math.log(value) - 5 for value in super().__call__(prompt, label_space)]


def test_the_surest_order_of_logits_is_that_of_their_probabilities() -> None:
    benchmark = Normal(k=2, datasets=["mini"], limit=16)

    of_probabilities = Method("sa_icl", Probabilities(), encoder="bm25").run(benchmark)
    of_logits = Method("sa_icl", Logits(), encoder="bm25").run(benchmark)

    assert of_logits.averaged == pytest.approx(of_probabilities.averaged, abs=1e-9)


words = st.lists(st.sampled_from(["red", "blue", "Green", "a", "the", "cat!"]), min_size=1, max_size=6).map(" ".join)


def letter_counts(texts: list[str]) -> Any:
    """Encode texts as their counts of six letters."""
    return [[float(text.casefold().count(letter)) for letter in "abcdet"] for text in texts]


def words_of(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())


@given(st.lists(words, min_size=1, max_size=8), words)
@settings(max_examples=60, deadline=None)
def test_word_overlap_is_the_formula_of_okapi_bm25(texts: list[str], query: str) -> None:
    """The sum over query words of idf * count * (k1 + 1) / (count + k1 * (1 - b + b * length / mean length)).

    With k1 = 1.5, b = 0.75 and idf = ln(1 + (n - texts with the word + 1/2) / (texts with the word + 1/2)).
    """
    mean_length = sum(len(words_of(text)) for text in texts) / len(texts)

    (distances,) = WordOverlap().distances([query], texts)

    for text, distance_of_text in zip(texts, distances, strict=True):
        length = len(words_of(text))
        score = 0.0
        for word in words_of(query):
            texts_with_word = sum(word in words_of(other) for other in texts)
            idf = math.log(1 + (len(texts) - texts_with_word + 0.5) / (texts_with_word + 0.5))
            count = words_of(text).count(word)
            score += idf * count * 2.5 / (count + 1.5 * (0.25 + 0.75 * length / mean_length))
        assert distance_of_text == pytest.approx(-score, abs=1e-9)


COMPARED_BY = pytest.mark.parametrize("compared_by", ["vectors", "words"])
SELECTIONS = given(st.lists(words, min_size=4, max_size=10), words, st.integers(1, 4))


class Selection:
    """The demonstrations that rules choose for a query from a pool of texts with three labels.

    Attributes:
        labels: The label of each text of the pool: its length modulo three.
        distances: The distance of each text of the pool to the query.
        nearest_first: The positions of the pool by increasing distance.
    """

    def __init__(self, compared_by: str, texts: list[str], query: str, count: int) -> None:
        self.count = count
        self.labels = [len(text) % 3 for text in texts]
        self._pool = Pool(texts, self.labels)
        self._queries = [f"the {query}", query, query]  # a similar query comes before, an equal one afterwards
        self.compared: Any = WordOverlap()
        if compared_by == "vectors":
            self.compared = encoded(letter_counts, *texts, *self._queries)

        distinct_texts = list(dict.fromkeys(texts))  # a measure by words depends on all texts, each counted once
        (distances_of_texts,) = self.compared.distances([query], distinct_texts)
        distance_of_text = dict(zip(distinct_texts, distances_of_texts, strict=True))
        self.distances = [distance_of_text[text] for text in texts]
        self.nearest_first = sorted(range(len(texts)), key=self.distances.__getitem__)

    def chosen(self, rule: Any = "nearest") -> list[int]:
        """Return the positions in the pool of the demonstrations that a rule chooses for the query."""
        for_each_query: Any = choose_demonstrations(self._pool, self._queries, self.compared, self.count, rule)
        _, for_query, for_equal_query = for_each_query
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
def test_balanced_demonstrations_begin_with_the_nearest_and_are_different(
    compared_by: str, texts: list[str], query: str, count: int
) -> None:
    selection = Selection(compared_by, texts, query, count)

    chosen = selection.chosen("balanced")

    assert len(set(chosen)) == count, "one was chosen twice"
    assert chosen[0] == selection.nearest_first[0]


@COMPARED_BY
@SELECTIONS
@settings(max_examples=20, deadline=None)
def test_balanced_demonstrations_have_equally_many_of_each_label_where_the_pool_has_them(
    compared_by: str, texts: list[str], query: str, count: int
) -> None:
    """A label may have one demonstration less than another one, and fewer only if the pool has no more."""
    selection = Selection(compared_by, texts, query, count)

    shown = Counter(selection.labels[position] for position in selection.chosen("balanced"))

    for label in (0, 1, 2):
        in_pool = selection.labels.count(label)
        assert shown[label] >= max(shown.values()) - 1 or shown[label] == in_pool, f"label {label}: {shown}"


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
    """Maximal marginal relevance: the similarity to the query, minus the largest one to those chosen before.

    The similarity of two texts is their negative distance; without any text chosen before, the redundancy is 0.
    """
    selection = Selection("vectors", texts, query, count)
    distances = selection.compared.distances(texts, texts)

    chosen = selection.chosen("diverse")

    def marginal_relevance(position: int, chosen_before: list[int]) -> float:
        similarity = -selection.distances[position]
        redundancy = max((-distances[position, other] for other in chosen_before), default=0.0)
        return float(similarity - redundancy)

    for number, position in enumerate(chosen):
        chosen_before = chosen[:number]
        candidates = [candidate for candidate in range(len(texts)) if candidate not in chosen_before]
        largest = max(marginal_relevance(candidate, chosen_before) for candidate in candidates)
        assert marginal_relevance(position, chosen_before) == pytest.approx(largest, abs=1e-5)


def points_on_a_sphere(count: int) -> Any:
    """Return points on the unit sphere, at angles without repetition, denser near one pole: array (count, 3)."""
    numbers = numpy.arange(1, count + 1)
    angles = 2.4 * numbers + numpy.sin(numbers * numbers)
    heights = (numbers * 0.618 % 1) ** 2
    radii = numpy.sqrt(1 - heights**2)
    return numpy.stack([radii * numpy.cos(angles), radii * numpy.sin(angles), heights], axis=1)


def distances_between(points: Any) -> Any:
    """Return the distance of each point to each other one."""
    return numpy.linalg.norm(points[:, None] - points[None], axis=2)


def test_vote_k_chooses_the_rows_of_the_authors_code() -> None:
    """The rows are those that ``fast_votek`` of HKUNLP/icl-selective-annotation (two_steps.py) returns."""
    distances = distances_between(points_on_a_sphere(260))

    assert representatives(distances, 12) == [54, 232, 143, 198, 20, 109, 89, 219, 29, 41, 75, 144]


def vote_k_scores(nearest_rows: list[set[int]], chosen: set[int]) -> dict[int, Fraction]:
    """Return the score of each row that is not chosen yet, in exact numbers: algorithm 1 of the paper.

    Each row that is not chosen votes for its nearest rows. If ``n`` of these are chosen, its vote weighs ``10^-n``.
    """
    rows = set(range(len(nearest_rows))) - chosen
    scores = dict.fromkeys(rows, Fraction(0))
    for voter in rows:
        n = len(nearest_rows[voter] & chosen)
        for row in nearest_rows[voter] - chosen:
            scores[row] += Fraction(1, 10**n)
    return scores


def test_each_choice_of_vote_k_has_the_highest_score() -> None:
    distances = distances_between(points_on_a_sphere(260))
    nearest_rows = []
    for distances_of_row in distances:
        _row_itself, *others = numpy.argsort(distances_of_row).tolist()
        nearest_rows.append(set(others[:150]))

    chosen = representatives(distances, 12)

    assert len(chosen) == 12
    for number, row in enumerate(chosen):
        scores = vote_k_scores(nearest_rows, set(chosen[:number]))
        assert scores[row] == max(scores.values()), f"choice {number}: row {row}"


CAT_POOL = Pool(["the cat", "the dog", "the cat", "a bird"], [0, 1, 0, 1])


def chosen_for(queries: list[str], count: int, rule: Any = "nearest", exclude_duplicates: bool = False) -> Any:
    """Return the positions in the pool of the demonstrations of each query."""
    compared = encoded(letter_counts, *CAT_POOL.texts)
    return choose_demonstrations(CAT_POOL, queries, compared, count, rule, exclude_duplicates=exclude_duplicates)


def test_texts_equal_to_the_query_are_chosen_by_default() -> None:
    assert chosen_for(["the cat"], 2) == [[0, 2]]


def test_an_empty_query_has_no_demonstrations() -> None:
    assert chosen_for(["", "the cat"], 2) == [None, [0, 2]]


@pytest.mark.parametrize("rule", get_args(SelectionRule))
def test_texts_equal_to_the_query_can_be_excluded(rule: Any) -> None:
    (chosen,) = chosen_for(["the cat"], 2, rule, exclude_duplicates=True)

    assert sorted(chosen) == [1, 3]


def test_too_few_texts_that_differ_from_the_query_are_an_error() -> None:
    with pytest.raises(ArgumentError, match="too many duplicates of a query, expected at least 3"):
        chosen_for(["the cat"], 3, exclude_duplicates=True)


def benchmark_with_seven_texts() -> Normal:
    """Return a benchmark whose 80 rows have seven different texts."""
    rows = [((f"text {number % 7}",), number % 2) for number in range(80)]
    return Normal(k=2, datasets=[Dataset.from_rows(rows, name="same", label_space=["a", "b"])], limit=6)


def test_test_examples_that_are_shown_their_own_text_are_counted_in_a_warning(caplog: Any) -> None:
    result = Method("topk", PPMKernel(), encoder="bm25").run(benchmark_with_seven_texts())

    assert result.timing["duplicates"] == 6
    assert "6 test examples are shown a demonstration of exactly their text" in caplog.text


def test_no_test_example_is_shown_its_own_text_without_duplicates() -> None:
    method = Method("topk", PPMKernel(), encoder="bm25", exclude_duplicates=True)

    assert method.run(benchmark_with_seven_texts()).timing["duplicates"] == 0
