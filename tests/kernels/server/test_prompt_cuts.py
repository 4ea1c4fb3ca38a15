"""Servers that read only a part of long prompts are noticed, and servers that read all of them are not suspected."""

from __future__ import annotations

import pickle
import random
import re

import pytest

pytest.importorskip("openai")

import endpoint_server

from StaICC import Normal
from StaICC.errors import PromptTooLongError
from StaICC.kernels.server.prompt_cuts import NEVER_CUT, PromptCheck, PromptCutError, chunks, measure

LABELS = ["negative", "positive"]
WORDS = {
    "English": ["the", "film", "was", "long", "but", "never", "dull", "and", "its", "actors", "were", "good"],
    "German": ["die", "Donaudampfschifffahrtsgesellschaft", "war", "groß", "und", "häufig", "überraschend"],
    "Russian": ["фильм", "был", "длинным", "но", "никогда", "не", "скучным"],
    "digits": ["3", "14159", "26535", "8979", "323846"],
}


class TokenCounter:
    """Counts the tokens of texts as a server does, which may write a template, cut, and cache.

    Args:
        limit: The most tokens that it reads; of longer texts it reads the end.
        keeps: Whether it then reads ``"limit"`` tokens, or ``"half"`` of them.
        template: The tokens of its chat template.
        cached: Whether tokens in its cache are ``"included"`` in the count or ``"left out"``.
        replicas: How many servers share the requests, each with a cache of its own.
        piece: The longest token in characters.
        draw: The generator that chooses the replica of a request.
    """

    def __init__(self, limit=None, *, keeps="limit", template=0, cached="included", replicas=1, piece=4, draw=None):
        self.limit = limit
        self.keeps = keeps
        self.template = template
        self.cached = cached
        self.piece = piece
        self.caches = [[] for _ in range(replicas)]
        self.draw = draw or random.Random(0)
        self.requests = 0

    def tokens(self, text):
        """Return the tokens of a text: pieces of words, each with the blank before it, after those of the template."""
        pieces = re.findall(rf"\s?[^\s]{{1,{self.piece}}}|\s", text)
        return ["<template>"] * self.template + pieces

    def cut(self, tokens):
        """Return the tokens that the server reads."""
        if self.limit is None or len(tokens) <= self.limit:
            return tokens
        if self.keeps == "limit":
            return tokens[-self.limit :]
        return tokens[-(self.limit // 2 + 2) :]

    def __call__(self, text):
        """Return the number of tokens that the server states for a text, which is in the cache afterwards."""
        self.requests += 1
        tokens = self.cut(self.tokens(text))
        cache = self.draw.choice(self.caches)
        tokens_in_cache = max((common_prefix(tokens, cached) for cached in cache), default=0)
        cache.append(tokens)
        if self.cached == "left out":
            return len(tokens) - tokens_in_cache
        return len(tokens)


def common_prefix(tokens, other):
    """Return how many tokens two lists share at their beginning."""
    length = 0
    for token, other_token in zip(tokens, other, strict=False):
        if token != other_token:
            break
        length += 1
    return length


def text_of(size, language="English", seed=0, separator=" "):
    """Return a random text of about so many bytes, the same for the same arguments."""
    draw = random.Random(seed)
    text = ""
    while len(text.encode()) < size:
        text += draw.choice(WORDS[language]) + separator
    return text


def check_each(prompts, count):
    """Check prompts as a run does, and yield the check after each: it announces all, and measures the unknown ones."""
    check = PromptCheck()
    check.announce(prompts)
    for prompt in prompts:
        if not check.is_known_to_be_read(prompt):
            check.refuse_if_cut(prompt, count)
        yield check


@pytest.mark.parametrize("keeps", ["limit", "half"])
@pytest.mark.parametrize("cached", ["included", "left out"])
@pytest.mark.parametrize("template", [0, 40])
@pytest.mark.parametrize("size", [2_500, 6_000, 60_000])
def test_a_server_that_cuts_a_prompt_is_noticed(keeps, cached, template, size):
    """The server reads 400 tokens or half of them. It has the prompt in its cache, whose tokens it may leave out."""
    count_tokens = TokenCounter(400, keeps=keeps, cached=cached, template=template)
    prompt = text_of(size)
    for _ in range(3):
        count_tokens(prompt)

    with pytest.raises(PromptCutError, match=r"the server reads [\d,]+ tokens of a prompt of about [\d,]+"):
        PromptCheck().refuse_if_cut(prompt, count_tokens)


def random_server(cached, draw):
    """Return the counter of a server that reads all of any prompt."""
    return TokenCounter(
        template=draw.choice([0, 3, 40]),
        cached=cached,
        replicas=draw.choice([1, 1, 2]),
        piece=draw.choice([1, 2, 4, 12]),
        draw=draw,
    )


def random_prompts(language, seed, draw):
    """Return four prompts with a common beginning of 3 to 4,000 bytes, which may have no blanks, as in Chinese."""
    size_of_beginning = int(10 ** draw.uniform(0.5, 3.6))
    separator = draw.choice([" ", "\n", ""])
    beginning = text_of(size_of_beginning, language, seed, separator)
    prompts = []
    for number in range(4):
        size_of_end = draw.randrange(5, 100)
        prompts.append(beginning + text_of(size_of_end, language, seed=number))
    return prompts


@pytest.mark.parametrize("cached", ["included", "left out"])
@pytest.mark.parametrize("language", WORDS)
def test_a_server_that_reads_all_is_never_suspected(cached, language):
    """In 250 simulated runs, each of a random server; the check raises if it suspects one."""
    draw = random.Random(language + cached)
    for run in range(250):
        server = random_server(cached, draw)
        prompts = random_prompts(language, run, draw)
        for prompt, _ in zip(prompts, check_each(prompts, server), strict=True):
            server(prompt)  # the run sends the prompt after its check
        requests_of_checks = server.requests - len(prompts)
        assert requests_of_checks <= 8


def test_the_longest_prompt_alone_is_measured():
    """What holds for it holds for all that are shorter; a measurement has four requests."""
    count = TokenCounter()
    prompts = [text_of(900), text_of(3_000), text_of(1_000), text_of(2_000)]

    *_, check_after_last = check_each(prompts, count)

    assert count.requests == 4
    assert check_after_last.is_known_to_be_read(text_of(3_000))


def test_a_copy_of_a_check_knows_what_was_measured():
    check = PromptCheck()
    check.refuse_if_cut(text_of(3_000), TokenCounter())
    assert pickle.loads(pickle.dumps(check)).is_known_to_be_read(text_of(3_000))


def test_prompts_that_no_server_cuts_are_not_measured():
    assert PromptCheck().is_known_to_be_read("x" * NEVER_CUT)


def test_of_a_server_that_cuts_only_long_prompts_are_refused():
    """The server reads 400 tokens, about 1,600 bytes of these words."""
    count = TokenCounter(limit=400)
    check = PromptCheck()
    short_prompts = [text_of(600), text_of(1_000)]
    long_prompts = [text_of(4_000), text_of(4_100), text_of(9_000)]
    check.announce(short_prompts + long_prompts)

    for prompt in short_prompts:
        check.refuse_if_cut(prompt, count)
    for prompt in long_prompts:
        with pytest.raises(PromptCutError):
            check.refuse_if_cut(prompt, count)


def test_a_prompt_is_checked_although_the_server_refuses_the_longest_one():
    server = TokenCounter()
    check = PromptCheck()

    def count_up_to_5000_characters(text):
        if len(text) > 5_000:
            raise PromptTooLongError("too long")
        return server(text)

    check.announce([text_of(9_000)])
    check.refuse_if_cut(text_of(1_000), count_up_to_5000_characters)

    assert check.is_known_to_be_read(text_of(1_000))


@pytest.mark.parametrize("stated", [None, 0, 9])
def test_a_server_that_does_not_count_is_not_measured_again(stated):
    check = PromptCheck()
    check.refuse_if_cut(text_of(2_000), lambda text: stated)
    assert check.is_known_to_be_read(text_of(9_000))
    assert check.is_unmeasured(text_of(9_000))
    assert not check.is_unmeasured("a short prompt, which no server cuts")


TEXTS = ["a" * 500, "one two " * 70, "x" * 999, "日本語" * 300, "a " * 5000]


@pytest.mark.parametrize("text", TEXTS)
def test_chunks_make_the_text(text):
    assert "".join(chunks(text)) == text


LONGEST_CHUNK = 500 + 250
"""Characters: a chunk of 500 is longer by up to a half if there is a blank at which it can end."""


@pytest.mark.parametrize("text", TEXTS)
def test_a_text_has_several_short_chunks(text):
    chunks_of_text = chunks(text)
    assert len(chunks_of_text) >= 2
    assert max(len(chunk) for chunk in chunks_of_text) <= LONGEST_CHUNK


@pytest.mark.parametrize(
    ("blank", "length"),
    [(499, 500), (500, 500), (501, 501), (749, 749), (750, 500)],
    ids=["before 500", "first place", "second place", "last place", "behind the last place"],
)
def test_a_chunk_ends_at_the_first_blank_from_500_to_749_characters_or_has_500(blank, length):
    """The text has two blanks, one after the other."""
    first_chunk, *_ = chunks("x" * blank + "  " + "x" * 1000)
    assert len(first_chunk) == length


def test_a_chunk_may_end_before_the_last_character_of_the_text():
    """The second chunk is from 500 to 1099, where the only blank is."""
    assert [len(chunk) for chunk in chunks("x" * 1099 + " ")] == [500, 599, 1]


def test_a_measured_prompt_has_about_the_tokens_of_its_halves():
    tokens = measure(text_of(5_000), TokenCounter(template=30))
    assert abs(tokens.read - tokens.expected) <= 3
    assert not tokens.cut


# -- with the kernel --------------------------------------------------------------------------------------------------


def cutting_to(limit):
    """Answer as a server that reads the last ``limit`` words and says so in its usage."""

    def answer(handler, right_answer):
        words_read = endpoint_server.split(handler.body["prompt"])[-limit:]
        right_answer["usage"] = {"prompt_tokens": len(words_read), "completion_tokens": 1}
        endpoint_server.send(handler, right_answer)

    return answer


@pytest.mark.parametrize("scoring", ["top-logprobs", "text"])
def test_only_long_queries_fail_at_a_server_that_cuts(make_kernel, server, scoring):
    """The server reads 200 words."""
    server.usual_answer = cutting_to(200)
    prompt_of_600_bytes, prompt_of_3000_bytes = text_of(600), text_of(3_000)

    prompts = ["short: ", prompt_of_600_bytes, prompt_of_3000_bytes]
    short, medium, long = make_kernel(scoring).batch(prompts, LABELS)

    assert not isinstance(short, PromptCutError)
    assert not isinstance(medium, PromptCutError)
    assert isinstance(long, PromptCutError)


def test_a_run_ends_with_the_limit_and_what_to_do(make_kernel, server):
    server.usual_answer = cutting_to(40)
    with pytest.raises(Exception, match=r"reads \d+ tokens of a prompt of about .* num_ctx"):
        Normal(datasets=["mini"], k=40, limit=3)(make_kernel())


def test_the_check_costs_four_requests_of_a_run(make_kernel, server):
    kernel = make_kernel()
    kernel.batch([text_of(600 + number) for number in range(20)], LABELS)
    assert len(server.requests) == 20 + 4


def test_a_run_warns_of_next_tokens_without_visible_text(make_kernel, server):
    """After every prompt, the most probable token is a blank, with the log-probability -0.5: exp(-0.5) = 0.61."""
    log_probabilities = {" ": -0.5, "food": -2.0, "travel": -3.0, "weather": -3.5}

    def answer_with_blank(handler, right_answer):
        (choice,) = right_answer["choices"]
        choice["logprobs"] = {"tokens": [" "], "token_logprobs": [-0.5], "top_logprobs": [log_probabilities]}
        endpoint_server.send(handler, right_answer)

    server.usual_answer = answer_with_blank
    result = Normal(datasets=["mini"], limit=5)(make_kernel())

    (warning,) = [message for message in result.warnings if "without visible text" in message]
    assert "probability 0.61 on average, and more than 0.5 in 10 of 10 prompts" in warning
    assert "last_blank='label'" in warning
