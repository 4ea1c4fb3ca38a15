"""Prediction by partial matching: against hand-worked figures, a plain trie in exact fractions, and enumeration."""

from __future__ import annotations

import itertools
import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from StaICC.kernels.ppm import PPMKernel, ppm_inference
from StaICC.kernels.protocol import label_probabilities

ESCAPES = ("A", "C", "D")
texts = st.text(alphabet="abc \n", max_size=30)
any_texts = st.text(max_size=20)
orders = st.integers(0, 6)
escapes = st.sampled_from(ESCAPES)


class Trie:
    """The textbook model: a table of every context of every order, updated after each character, in fractions."""

    def __init__(self, order: int, escape: str, alphabet: set[str]) -> None:
        self.order = order
        self.escape = escape
        self.alphabet = alphabet
        self.text = ""
        """What was read."""
        self.followers: dict[str, Counter[str]] = defaultdict(Counter)
        """For each context, how often each character followed it."""

    def read(self, text: str) -> Trie:
        """Count each character of a text as a follower of its contexts, from the empty one to the longest one."""
        for character in text:
            for context in self.contexts():
                self.followers[context][character] += 1
            self.text += character
        return self

    def contexts(self) -> list[str]:
        """Return the ends of the text that was read, from the empty one to the one of the model's order."""
        longest = min(self.order, len(self.text))
        return [self.text[len(self.text) - length :] for length in range(longest + 1)]

    def distribution(self) -> dict[str, Fraction]:
        """Return the probabilities of the next character, from the longest context down to order -1.

        A context predicts the characters that no longer context has predicted. A character that followed it n times has
        the weight n (method D: 2n - 1). The escape to shorter contexts has the number of different followers as its
        weight (method A: 1), or 0 if no character is left. Order -1 shares the rest among the unseen characters.
        """
        probabilities: dict[str, Fraction] = {}
        escaped = Fraction(1)
        for context in reversed(self.contexts()):
            followers = self.followers.get(context, Counter())
            if not followers or probabilities.keys() == self.alphabet:
                continue
            weights = {}
            for character, count in followers.items():
                if character not in probabilities:
                    weights[character] = Fraction(2 * count - 1 if self.escape == "D" else count)
            escape_weight = Fraction(1 if self.escape == "A" else len(followers))
            if probabilities.keys() | weights.keys() == self.alphabet:
                escape_weight = Fraction(0)

            total = sum(weights.values()) + escape_weight
            for character, weight in weights.items():
                probabilities[character] = escaped * weight / total
            escaped = escaped * escape_weight / total

        unseen = self.alphabet - probabilities.keys()
        return probabilities | {character: escaped / len(unseen) for character in unseen}

    def probability(self, text: str) -> Fraction:
        """P(text | what was read), learning along the way."""
        result = Fraction(1)
        for character in text:
            result *= self.distribution()[character]
            self.read(character)
        return result


def probability(kernel: PPMKernel, text: str, history: str, alphabet: str = "") -> float:
    """Return the probability of a text after another one."""
    return math.exp(kernel.log_probability(text, history, alphabet))


# -- figures worked by hand: "abracadabra", order 2, the usual example of the literature ------------------------------
#
# Method C. What followed the contexts that matter after "abracadabra":
#   order 2, "ra":  c 1                          n = 1,  q = 1
#   order 1, "a":   b 2, c 1, d 1                n = 4,  q = 3
#   order 0, "":    a 5, b 2, c 1, d 1, r 2      n = 11, q = 5
#   order -1:       the alphabet, here 256 characters
# c:  "ra" predicts it: 1 / (1 + 1) = 1/2.
# d:  escape from "ra" 1/2; under "a" c is excluded, leaving n = 3, q = 3: 1 / (3 + 3) = 1/6.   1/2 * 1/6
# b:  escape from "ra" 1/2; 2 / (3 + 3) = 2/6.                                                  1/2 * 2/6
# r:  escape 1/2; escape from "a" 3 / (3 + 3); under "" b, c and d are excluded: a 5, r 2, so
#     n = 7, q = 5: 2 / (7 + 5) = 2/12.                                                         1/2 * 3/6 * 2/12
# t:  escape 1/2, 3/6, 5/12; at order -1 there are 256 - 5 characters left.                     1/2 * 3/6 * 5/12 / 251
ALPHABET_256 = "".join(chr(code) for code in range(256))
ABRACADABRA_C = {
    "c": Fraction(1, 2),
    "d": Fraction(1, 12),
    "b": Fraction(1, 6),
    "r": Fraction(1, 24),
    "a": Fraction(5, 48),
    "t": Fraction(1, 2) * Fraction(3, 6) * Fraction(5, 12) / 251,
}


@pytest.mark.parametrize(("character", "expected"), ABRACADABRA_C.items())
def test_method_c_on_abracadabra_by_hand(character, expected):
    kernel = PPMKernel(order=2, escape="C")
    log_probability = kernel.log_probability(character, "abracadabra", ALPHABET_256)
    assert math.exp(log_probability) == pytest.approx(float(expected), rel=1e-12)


# Method A: the escape counts one. c: 1/2. d: 1/2 * 1/(3+1). t: 1/2 * 1/(3+1) * 1/(7+1) / 251.
# Method D: a character that came x times weighs 2x - 1, the escape q; without exclusion that makes (2x-1)/2n and q/2n.


# -- against the plain trie -------------------------------------------------------------------------------------------


@given(texts | any_texts, texts | any_texts, orders, escapes)
@settings(max_examples=150, deadline=None)
def test_log_probability_is_that_of_the_plain_trie(history, text, order, escape):
    """The alphabet is that of both texts and of the given characters."""
    log_probability = PPMKernel(order, escape).log_probability(text, history, "abcz")

    trie = Trie(order, escape, alphabet=set(history + text + "abcz")).read(history)
    assert log_probability == pytest.approx(math.log(trie.probability(text)), rel=1e-9, abs=1e-12)


@given(texts, orders, escapes, st.sampled_from(["", "xyz", "é😀"]))
@settings(max_examples=100, deadline=None)
def test_the_next_character_has_probabilities_that_sum_to_one(history, order, escape, unseen):
    alphabet = "".join(sorted(set(history + unseen + "a")))
    kernel = PPMKernel(order, escape)
    probabilities = [probability(kernel, character, history, alphabet) for character in alphabet]
    assert math.fsum(probabilities) == pytest.approx(1, abs=1e-12)


# -- rows of labels ---------------------------------------------------------------------------------------------------


label_spaces = st.lists(st.text(alphabet="abé ", max_size=5), min_size=1, max_size=5)


def expected_row(prompt: str, labels: list[str], order: int, escape: str) -> list[float]:
    """Return the probabilities of the labels as beginnings of the text after the prompt.

    A text counts for the longest label with which it begins. So the probability of a label is that of the texts that
    begin with it, without those that begin with a longer label. Equal labels share theirs.
    """
    alphabet = set(prompt).union(*labels)
    is_longest_beginning: dict[str, Fraction] = {}
    for label in sorted(set(labels), key=len, reverse=True):
        probability = Trie(order, escape, alphabet).read(prompt).probability(label)
        for longer_label in is_longest_beginning:
            if longer_label.startswith(label):
                probability -= is_longest_beginning[longer_label]
        is_longest_beginning[label] = probability
    shares = [is_longest_beginning[label] / labels.count(label) for label in labels]
    return [float(share / sum(shares)) for share in shares]


@given(any_texts | texts, label_spaces, orders, escapes)
@settings(max_examples=200, deadline=None)
def test_a_label_has_the_probability_of_texts_of_which_it_is_the_longest_beginning(prompt, labels, order, escape):
    row = PPMKernel(order, escape)(prompt=prompt, label_space=labels)
    assert row == pytest.approx(expected_row(prompt, labels, order, escape), rel=1e-6, abs=1e-12)


@given(any_texts | texts, label_spaces, orders, escapes)
@settings(max_examples=200, deadline=None)
def test_a_row_is_a_distribution(prompt, labels, order, escape):
    row = PPMKernel(order, escape)(prompt=prompt, label_space=labels)
    for value in row:
        assert type(value) is float
        assert 0 <= value <= 1
    assert math.fsum(row) == pytest.approx(1, abs=1e-12)


def test_a_label_of_a_thousand_characters_does_not_underflow():
    row = ppm_inference("prompt: ", ["x" * 100 + "yz" * 450, "zy" * 450 + "x" * 100])
    assert math.fsum(row) == pytest.approx(1)
    assert min(row) > 0


# -- noisy channel ----------------------------------------------------------------------------------------------------


def channel_prompts(labels: list[str]) -> list[str]:
    """Return the prompts of a query, one for each label, which is written before the text of the query."""
    demonstrations = f"{labels[0]} text: it shines\n{labels[1]} text: it hurts\n{labels[1]} text: how it hurts\n"
    return [f"{demonstrations}{label} text: it hurts me\n" for label in labels]


channel_labels = pytest.mark.parametrize(
    "labels", [["bad", "good"], ["positive", "negative"], ["pos", "positive", "sad"]]
)
channel_kernels = pytest.mark.parametrize("kernel", [ppm_inference, PPMKernel(2, "D")])


@channel_labels
@channel_kernels
def test_the_noisy_channel_scores_the_text_behind_the_label(labels, kernel):
    prompts = channel_prompts(labels)

    row = kernel(prompt=prompts, label_space=labels)

    text_behind_label = " text: it hurts me\n"
    scores = []
    for prompt in prompts:
        up_to_label = prompt.removesuffix(text_behind_label)
        scores.append(kernel.log_probability(text_behind_label, up_to_label, alphabet="".join(prompts)))
    assert row == pytest.approx(label_probabilities(scores), abs=1e-12)


@channel_labels
@channel_kernels
def test_the_prompts_of_a_noisy_channel_may_be_a_tuple(labels, kernel):
    prompts = channel_prompts(labels)
    assert kernel(tuple(prompts), labels) == kernel(prompts, labels)


@channel_labels
@channel_kernels
def test_the_order_of_the_labels_of_a_noisy_channel_does_not_matter(labels, kernel):
    prompts = channel_prompts(labels)
    reversed_row = kernel(prompts[::-1], labels[::-1])
    assert reversed_row[::-1] == kernel(prompts, labels)


# -- one call, many calls, other processes ----------------------------------------------------------------------------


REVIEWS = ["a warm film .", "what a bore .", "it is set in Rome ."]
SENTIMENTS = ["negative", "positive"]


def review_prompt(labels: Sequence[str]) -> str:
    """Return a prompt that shows reviews with these labels."""
    shown = [f"review: {review}  sentiment: {label}\n" for review, label in zip(REVIEWS, labels, strict=True)]
    return "".join(shown) + "review: I liked it .  sentiment: "


REVIEW_PROMPTS = [review_prompt(labels) for labels in itertools.product(SENTIMENTS, repeat=3)]
"""Eight prompts with all labels of three reviews."""


def single_rows(prompts: Sequence[Any]) -> list[list[float]]:
    """Return the rows of prompts, each from a call of its own."""
    return [ppm_inference(prompt, SENTIMENTS) for prompt in prompts]


def test_a_batch_has_the_rows_of_single_calls():
    assert ppm_inference.batch(REVIEW_PROMPTS, SENTIMENTS) == single_rows(REVIEW_PROMPTS)


def test_the_order_of_a_batch_does_not_matter():
    reversed_rows = ppm_inference.batch(REVIEW_PROMPTS[::-1], SENTIMENTS)
    assert reversed_rows[::-1] == ppm_inference.batch(REVIEW_PROMPTS, SENTIMENTS)


def test_an_empty_batch_has_no_rows():
    assert ppm_inference.batch(prompts=[], label_space=SENTIMENTS) == []


def test_a_batch_of_a_noisy_channel_has_the_rows_of_single_calls():
    prompts_of_queries = [[f"negative {prompt}", f"positive {prompt}"] for prompt in REVIEW_PROMPTS]
    assert ppm_inference.batch(prompts_of_queries, SENTIMENTS) == single_rows(prompts_of_queries)


def test_threads_get_the_rows_of_single_calls():
    with ThreadPoolExecutor(4) as pool:
        rows = list(pool.map(lambda prompt: ppm_inference(prompt, SENTIMENTS), REVIEW_PROMPTS))
    assert rows == single_rows(REVIEW_PROMPTS)


def test_the_label_space_is_not_changed():
    labels = ["negative", "positive"]
    ppm_inference.batch(REVIEW_PROMPTS, labels)
    assert labels == ["negative", "positive"]


def test_the_identity_names_the_algorithm_and_its_settings():
    identity = ppm_inference.identity()
    assert dict(identity.who) == {"model": "ppm", "algorithm": "ppm/1"}
    assert dict(identity.settings) == {"escape": "C", "order": "12"}


def test_each_order_and_escape_has_an_identity_of_its_own():
    kernels = [PPMKernel(order, escape) for order in (1, 2) for escape in ("A", "C", "D")]
    assert len({kernel.identity().digest for kernel in kernels}) == 6


def test_a_known_row_stays_as_it_is():
    """Frozen figures: a change here needs a new version in the identity."""
    row = ppm_inference(review_prompt(["negative", "positive", "positive"]), SENTIMENTS)
    assert row == pytest.approx([0.06256615648691177, 0.9374338435130882], rel=1e-12)
