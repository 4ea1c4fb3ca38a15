"""Prediction by partial matching: against hand-worked figures, a plain trie in exact fractions, and enumeration."""

from __future__ import annotations

import functools
import itertools
import math
from collections import Counter, defaultdict
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction

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
        self.order, self.escape, self.alphabet = order, escape, alphabet
        self.table: dict[str, Counter[str]] = defaultdict(Counter)
        self.text = ""

    def read(self, text: str) -> Trie:
        for character in text:
            for length in range(min(self.order, len(self.text)) + 1):
                self.table[self.text[len(self.text) - length :]][character] += 1
            self.text += character
        return self

    def distribution(self) -> dict[str, Fraction]:
        """All shares at once, from the longest context down to order -1."""
        found: dict[str, Fraction] = {}
        left = Fraction(1)
        for length in range(min(self.order, len(self.text)), -1, -1):
            followers = self.table.get(self.text[len(self.text) - length :], Counter())
            if not followers or found.keys() == self.alphabet:
                continue
            fresh = {c: n for c, n in followers.items() if c not in found}
            weights = {c: Fraction(2 * n - 1 if self.escape == "D" else n) for c, n in fresh.items()}
            escape = Fraction(1 if self.escape == "A" else len(followers))
            if found.keys() | fresh.keys() == self.alphabet:
                escape = Fraction(0)
            total = sum(weights.values()) + escape
            found |= {c: left * weight / total for c, weight in weights.items()}
            left = left * escape / total
        unseen = self.alphabet - found.keys()
        return found | {c: left / len(unseen) for c in unseen}

    def probability(self, text: str) -> Fraction:
        """P(text | what was read), learning along the way."""
        result = Fraction(1)
        for character in text:
            result *= self.distribution()[character]
            self.read(character)
        return result


def probability(kernel: PPMKernel, text: str, history: str, alphabet: str = "") -> float:
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
    found = probability(PPMKernel(order=2, escape="C"), character, "abracadabra", ALPHABET_256)
    assert found == pytest.approx(float(expected), rel=1e-12)


# Method A: the escape counts one. c: 1/2. d: 1/2 * 1/(3+1). t: 1/2 * 1/(3+1) * 1/(7+1) / 251.
# Method D: a character that came x times weighs 2x - 1, the escape q; without exclusion that makes (2x-1)/2n and q/2n.


# -- against the plain trie -------------------------------------------------------------------------------------------


@given(texts | any_texts, texts | any_texts, orders, escapes)
@settings(max_examples=150, deadline=None)
def test_log_probability_is_that_of_the_plain_trie(history, text, order, escape):
    alphabet = set(history + text + "abcz")
    expected = Trie(order, escape, alphabet).read(history).probability(text)
    found = PPMKernel(order, escape).log_probability(text, history, "abcz")
    assert found == pytest.approx(math.log(expected), rel=1e-9, abs=1e-12)


@given(texts, orders, escapes, st.sampled_from(["", "xyz", "é😀"]))
@settings(max_examples=100, deadline=None)
def test_the_next_character_has_probabilities_that_sum_to_one(history, order, escape, more):
    alphabet = sorted(set(history + more + "a"))
    kernel = PPMKernel(order, escape)
    total = math.fsum(probability(kernel, character, history, "".join(alphabet)) for character in alphabet)
    assert total == pytest.approx(1, abs=1e-12)


# -- rows of labels ---------------------------------------------------------------------------------------------------


label_spaces = st.lists(st.text(alphabet="abé ", max_size=5), min_size=1, max_size=5)


@given(any_texts | texts, label_spaces, orders, escapes)
@settings(max_examples=200, deadline=None)
def test_a_row_is_a_distribution(prompt, labels, order, escape):
    """Of all continuations, each label has those of which it is the longest label at the start."""
    row = PPMKernel(order, escape)(prompt=prompt, label_space=labels)
    begins = {one: Trie(order, escape, set(prompt).union(*labels)).read(prompt).probability(one) for one in labels}
    longer = {one: {other for other in begins if other != one and other.startswith(one)} for one in begins}
    next_ones = {one: longer[one] - {far for near in longer[one] for far in longer[near]} for one in begins}
    events = [(begins[one] - sum(begins[other] for other in next_ones[one])) / labels.count(one) for one in labels]
    assert row == pytest.approx([float(event / sum(events)) for event in events], rel=1e-6, abs=1e-12)
    assert [value for value in row if not (type(value) is float and 0 <= value <= 1)] == []
    assert math.fsum(row) == pytest.approx(1, abs=1e-12)


def test_a_label_of_a_thousand_characters_does_not_underflow():
    row = ppm_inference("prompt: ", ["x" * 100 + "yz" * 450, "zy" * 450 + "x" * 100])
    assert math.fsum(row) == pytest.approx(1)
    assert min(row) > 0


def demonstrations(labels: list[str]) -> str:
    words = ["a warm film .", "what a bore .", "it is set in Rome .", "two hours long .", "no plot at all ."]
    shots = [f"review: {word}  sentiment: {label}\n" for word, label in zip(words, labels, strict=False)]
    return "".join(shots) + "review: I liked it .  sentiment: "


# -- noisy channel ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("labels", [["bad", "good"], ["positive", "negative"], ["pos", "positive", "sad"]])
@pytest.mark.parametrize("kernel", [ppm_inference, PPMKernel(2, "D")])
def test_the_noisy_channel_scores_the_text_behind_the_label(labels, kernel):
    head = f"{labels[0]} text: it shines\n{labels[1]} text: it hurts\n{labels[1]} text: how it hurts\n"
    tail = " text: it hurts me\n"
    prompts = [head + label + tail for label in labels]
    alphabet = "".join(prompts)
    expected = label_probabilities([kernel.log_probability(tail, head + label, alphabet) for label in labels])
    row = kernel(prompt=prompts, label_space=labels)
    assert row == pytest.approx(expected, abs=1e-12)
    assert kernel(prompt=tuple(prompts), label_space=labels) == row
    turned = kernel(prompt=prompts[::-1], label_space=labels[::-1])
    assert turned == row[::-1]


# -- one call, many calls, other processes ----------------------------------------------------------------------------


def test_a_batch_gives_the_rows_of_single_calls_in_any_order():
    labels = ["negative", "positive"]
    prompts = [demonstrations(list(shots)) for shots in itertools.product(labels, repeat=3)]
    rows = ppm_inference.batch(prompts=prompts, label_space=labels)
    assert rows == [ppm_inference(prompt=prompt, label_space=labels) for prompt in prompts]
    assert ppm_inference.batch(prompts[::-1], labels) == rows[::-1]
    assert ppm_inference.batch(prompts=[], label_space=labels) == []
    channel = [[f"{label} {prompt}" for label in labels] for prompt in prompts]
    assert ppm_inference.batch(channel, labels) == [ppm_inference(pair, labels) for pair in channel]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(functools.partial(ppm_inference, label_space=labels), prompts)) == rows
    assert labels == ["negative", "positive"]


def test_the_identity_names_everything_that_moves_a_number():
    identity = ppm_inference.identity()
    assert dict(identity.who) == {"model": "ppm", "algorithm": "ppm/1"}
    assert dict(identity.settings) == {"escape": "C", "order": "12"}
    kernels = [PPMKernel(order, escape) for order in (1, 2) for escape in ESCAPES]
    assert len({kernel.identity().digest for kernel in kernels}) == len(kernels)


def test_known_rows_stay_as_they_are():
    """Frozen figures: a change here needs a new version in the identity."""
    prompt = demonstrations(["negative", "positive", "positive"])
    assert ppm_inference(prompt, ["negative", "positive"]) == pytest.approx(FROZEN_ROW, rel=1e-12)


FROZEN_ROW = [0.06256615648691177, 0.9374338435130882]
