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

    chosen = PPL_ICL(Kernel(), None, instructions, experimentor, variant=variant)

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
    compared = encoded(Kernel().hidden_states, *texts, query)

    (chosen,) = choose_demonstrations(Pool(texts, None), [query], compared, len(texts))

    distances = [round(distance(text, query), 9) for text in texts]
    assert chosen == sorted(range(len(texts)), key=distances.__getitem__)


# -- TopK


def test_topk_shows_the_nearest_demonstration_first() -> None:
    experimentor = experimentor_on_mini()
    query = experimentor.test_set().get_input_text(0)[0]

    SA_ICL(Kernel(), None, experimentor).set_TopK_to_demonstration(3)

    pool_texts = [texts[0] for texts, _ in experimentor.demonstration_set()]
    shown_text = pool_texts[experimentor.demonstration_sampler[0][0]]
    assert distance(shown_text, query) == min(distance(text, query) for text in pool_texts)
    assert experimentor.prompt_set()[0].startswith(f"sentence: {shown_text}")


def test_topk_sets_demonstrations_and_nothing_else() -> None:
    experimentor, kernel = experimentor_on_mini(), Kernel()
    pool_size = len(experimentor.demonstration_set())

    SA_ICL(kernel, None, experimentor).set_TopK_to_demonstration(3)

    assert experimentor.get_k() == 3
    assert experimentor.get_repeat_times() == 1
    assert len(experimentor.demonstration_set()) == pool_size
    assert len(kernel.encoded) == len(set(kernel.encoded)), "a text was encoded twice"


def test_topk_may_choose_from_the_first_demonstrations_only() -> None:
    experimentor = experimentor_on_mini()

    SA_ICL(Kernel(), None, experimentor, demonstration_set_cut=5).set_TopK_to_demonstration(3)

    for positions in experimentor.demonstration_sampler:
        assert set(positions) <= {0, 1, 2, 3, 4}


# -- SA-ICL


def test_entropy_by_hand() -> None:
    assert lowest_entropy([[0.5, 0.5], [0.9, 0.1], [0.1, 0.9]]) == 1
    # 0.7 + 0.2 + 0.1 misses 1.0 by an ulp from left to right: the release takes its softmax, so the flatter row wins.
    rows = [[0.7, 0.2, 0.1], [0.2, 0.3, 0.5]]
    assert lowest_entropy(rows) == 0
    assert lowest_entropy(rows, released.entropy) == 1


def predicted_by_sa_icl(kernel: Kernel, experimentor: Any, prompts: Any, variant: str) -> Any:
    """Return predictions with three candidates, two demonstrations, and six orders."""
    labels = experimentor.get_label_space()
    return SA_ICL(kernel, None, experimentor, variant=variant).inference_interface(prompts, labels, 3, 2, 6)


@pytest.mark.parametrize("variant", ["paper", "0.1.1"])
def test_sa_icl_keeps_the_prediction_of_the_surest_order(variant: str) -> None:
    """The made-up kernel is surer the longer the first line is, so the order that begins with the longest wins."""
    experimentor, kernel = experimentor_on_mini(k=2, limit=4), Kernel()
    query = experimentor.test_set().get_input_text(0)[0]

    prediction, *_ = predicted_by_sa_icl(kernel, experimentor, experimentor.prompt_set(), variant)

    first_line_lengths = [len(prompt.split("\n")[0]) for prompt in kernel.prompts if query in prompt]
    assert len(first_line_lengths) == 6
    assert prediction[0] == pytest.approx(1.0 - 2 / (max(first_line_lengths) + 3))


@pytest.mark.parametrize("variant", ["paper", "0.1.1"])
def test_sa_icl_predicts_each_row_once_for_both_repeats(variant: str) -> None:
    """Four rows with six orders each; the queries of the second repeat have the same rows."""
    experimentor, kernel = experimentor_on_mini(k=2, limit=4), Kernel()

    predictions = predicted_by_sa_icl(kernel, experimentor, experimentor.prompt_set(), variant)

    assert len(predictions) == 8
    assert predictions[:4] == predictions[4:]
    assert len(kernel.prompts) == 4 * 6


@pytest.mark.parametrize("variant", ["paper", "0.1.1"])
def test_sa_icl_predicts_one_prompt_as_among_all(variant: str) -> None:
    experimentor = experimentor_on_mini(k=2, limit=4)
    prompts = experimentor.prompt_set()

    all_predictions = predicted_by_sa_icl(Kernel(), experimentor, prompts, variant)
    prediction = predicted_by_sa_icl(Kernel(), experimentor, prompts[1], variant)

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

    There are other queries, too: a similar one before it, and an equal one after it.
    """

    def __init__(self, compared_by: str, texts: list[str], query: str, count: int) -> None:
        self.labels = [len(text) % 3 for text in texts]
        self.count = count
        self._pool = Pool(texts, self.labels)
        self._queries = [f"the {query}", query, query]
        self.compared: Any = WordOverlap()
        if compared_by == "vectors":
            self.compared = encoded(letter_counts, *texts, *self._queries)
        # A measure by words depends on all texts of the pool, each counted once.
        distinct_texts = list(dict.fromkeys(texts))
        (distances,) = self.compared.distances([query], distinct_texts)
        self.distance = [distances[distinct_texts.index(text)] for text in texts]
        """The distance of each text of the pool to the query."""
        self.nearest_first = sorted(range(len(texts)), key=lambda position: self.distance[position])

    def chosen(self, rule: Any = "nearest") -> list[int]:
        """Return the positions in the pool of the demonstrations that a rule chooses for the query."""
        chosen: Any = choose_demonstrations(self._pool, self._queries, self.compared, self.count, rule)
        _, of_query, of_equal_query = chosen
        assert of_query == of_equal_query
        return list(of_query)


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
    """Maximal marginal relevance, by its definition: near the query, and far from those that were chosen before."""
    selection = Selection("vectors", texts, query, count)
    distances = selection.compared.distances(texts, texts)

    def relevance(position: int, chosen_before: list[int]) -> float:
        redundancy = max((-distances[position, other] for other in chosen_before), default=0.0)
        return float(-selection.distance[position] - redundancy)

    chosen = selection.chosen("diverse")

    for number, position in enumerate(chosen):
        chosen_before = chosen[:number]
        candidates = [other for other in range(len(texts)) if other not in chosen_before]
        largest = max(relevance(candidate, chosen_before) for candidate in candidates)
        assert relevance(position, chosen_before) == pytest.approx(largest, abs=1e-5)


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
