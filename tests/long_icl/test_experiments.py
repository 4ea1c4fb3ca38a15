"""Experiments: conditions, scores, the test of positions, controls; with functions that read prompts as models do."""

from __future__ import annotations

import itertools
import json
import math
import random
import re
import tracemalloc
from collections import Counter
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

import pytest

from StaICC.benchmarks.verify import verify
from StaICC.comparing import alignment
from StaICC.comparing.comparison import compare, compare_runs
from StaICC.comparing.formats import FORMATS, format_comparisons
from StaICC.comparing.published_comparison import compare_with_published
from StaICC.comparing.ranking import rank
from StaICC.errors import ArgumentError, SchemaError
from StaICC.long_icl.benchmark import LongICL
from StaICC.long_icl.cards import task_card
from StaICC.long_icl.condition_scores import mcnemar_p_value
from StaICC.long_icl.contexts import SharedContext
from StaICC.long_icl.designs.orders import blocks_of
from StaICC.long_icl.experimentor import LongICLExperimentor
from StaICC.long_icl.experiments import Experiment
from StaICC.long_icl.position_test import position_p_value
from StaICC.long_icl.prompts import write_context
from StaICC.long_icl.reference_tokens import reference_tokens
from StaICC.long_icl.scoring import Tally
from StaICC.metrics.intervals import ratio_part
from StaICC.metrics.paired_tests import holm
from StaICC.prompting.demonstrations import turns_of
from StaICC.prompting.prompt_text import PromptParts
from StaICC.report.figures.experiment_plot import experiment_chart
from StaICC.report.latex_tables import latex_scores
from StaICC.report.page import report_html
from StaICC.results.experiment_table import experiment_rows
from StaICC.results.result import Result
from tests.long_icl.conftest import SINGLE_LABEL_DATASETS, long_icl_on

EVERY = ("context", "length", "shots", "order", "position", "controls", "retrieval")


def benchmark(folder: Path, experiment: Any, name: str = "goemotions", **options: Any) -> LongICL:
    """Return LongICL with one experiment, on the small file of one data set."""
    return long_icl_on(folder, [name], experiment=experiment, **{"limit": "default", **options})


def experimentor_of(folder: Path, experiment: Any, name: str = "goemotions", limit: int = 3, **options: Any) -> Any:
    """Return the experimentor of one experiment on one small data set, with three test items."""
    return benchmark(folder, experiment, name, limit=limit, **options)[0]


def published_rounds(folder: Path, name: str = "goemotions", number: int = 5, **options: Any) -> LongICLExperimentor:
    """Return the experimentor of one round of the published protocol: no experiment."""
    return long_icl_on(folder, [name], [number], 3, **options)[0]


CUES = {
    "goemotions": ("comment: ", "\nemotion category: "),
    "banking77": ("service query: ", "\nintent category: "),
}
"""What is written before the text and before the label of a demonstration, by the data set."""


def demonstrations_in(prompt: str, name: str = "goemotions") -> list[tuple[str, str]]:
    """Return text and label of each demonstration in a prompt, read without the library.

    The query at the end of a prompt is the last pair, with an empty label.
    """
    text_cue, label_cue = CUES[name]
    demonstrations = []
    for part in prompt.split(text_cue)[1:]:
        text, label = part.split(label_cue)
        demonstrations.append((text, label.strip()))
    return demonstrations


def condition_rows(result: Result, name: str = "goemotions") -> dict[str, dict[str, float]]:
    """Scores, intervals and tests of each condition of an experiment."""
    rows: dict[str, dict[str, float]] = result.divided[name]["experiment"]["conditions"]
    return rows


def test_more_than_100_levels_are_refused() -> None:
    with pytest.raises(ArgumentError, match="got 101 levels, expected at most 100"):
        Experiment("context", levels=tuple(range(1, 102)))


def test_the_experiment_order_takes_one_level() -> None:
    with pytest.raises(ArgumentError, match="got 2 levels, expected at most 1"):
        Experiment("order", levels=(2, 3))


@pytest.mark.parametrize("levels", [(2, 1), (1, 1)], ids=["falling", "equal"])
def test_levels_that_do_not_rise_are_refused(levels: tuple[int, ...]) -> None:
    with pytest.raises(ArgumentError, match="expected different numbers in rising order"):
        Experiment("shots", levels=levels)


# -- conditions


@pytest.mark.parametrize("instruct", [False, True])
@pytest.mark.parametrize("name", SINGLE_LABEL_DATASETS)
def test_contexts_of_larger_budgets_begin_with_those_of_smaller_ones(
    data_folder: Path, name: str, instruct: bool
) -> None:
    budgets = (1500, 2048, 3000)
    experimentor = experimentor_of(data_folder, Experiment("context", budgets), name, instruct=instruct)
    contexts = [experimentor.context(key) for key in experimentor.rounds]
    published_context = published_rounds(data_folder, name, instruct=instruct).context(5)

    names_of_available = ["1500", "2K", "3000"][: len(contexts)]  # a data set may be too small for the last ones
    assert list(experimentor.contexts) == names_of_available
    for shorter, longer in itertools.pairwise([*contexts, published_context]):
        assert longer.startswith(shorter)
    for budget, context in zip(budgets, contexts, strict=False):
        assert reference_tokens(context) == math.ceil(len(context.encode()) / 4) <= budget


def published_order(experimentor: Any) -> list[Any]:
    """The demonstrations of all labels in turns, as the published protocol shows them."""
    items = [row.item() for row in experimentor.data.train]
    turns = turns_of([item.gold[0] for item in items])
    return [items[index] for turn in turns for index in turn]


WITHOUT_TACRED = [name for name in SINGLE_LABEL_DATASETS if name != "tacred"]
"""The data sets whose demonstrations show all labels in turns; TACRED has a rule of its own."""


@pytest.mark.parametrize("instruct", [False, True])
@pytest.mark.parametrize("name", WITHOUT_TACRED)
def test_a_budget_has_no_room_for_one_more_demonstration(data_folder: Path, name: str, instruct: bool) -> None:
    budgets = (1500, 2048, 3000)
    experimentor = experimentor_of(data_folder, Experiment("context", budgets), name, instruct=instruct)
    demonstrations = published_order(experimentor)

    for condition, budget in zip(experimentor.contexts.values(), budgets, strict=False):
        count = condition.demonstrations
        one_more = write_context(experimentor.card, demonstrations[: count + 1], instruct=instruct)
        assert condition.context == write_context(experimentor.card, demonstrations[:count], instruct=instruct)
        assert len(one_more.text.encode()) > 4 * budget  # four bytes are one reference token


@pytest.mark.parametrize("instruct", [False, True])
@pytest.mark.parametrize("name", WITHOUT_TACRED)
def test_a_context_may_have_exactly_the_size_of_its_budget(data_folder: Path, name: str, instruct: bool) -> None:
    """A budget of n reference tokens has room for 4 n bytes."""
    experimentor = experimentor_of(data_folder, Experiment("context", (1500,)), name, instruct=instruct)
    demonstrations = published_order(experimentor)

    def bytes_of_first(count: int) -> int:
        return len(write_context(experimentor.card, demonstrations[:count], instruct=instruct).text.encode())

    full_count = next(count for count in range(1, 40) if bytes_of_first(count) % 4 == 0)
    budget = bytes_of_first(full_count) // 4
    experiment = Experiment("context", (budget,))

    (context,) = experimentor_of(data_folder, experiment, name, instruct=instruct).contexts.values()

    assert context.demonstrations == full_count


@pytest.mark.parametrize("name", SINGLE_LABEL_DATASETS)
@pytest.mark.parametrize("number", [1, 2, 5])
def test_so_many_shots_are_the_round_of_this_number(data_folder: Path, name: str, number: int) -> None:
    experimentor = experimentor_of(data_folder, Experiment("shots", (0, 1, 2, 5, 7)), name)

    published_context = published_rounds(data_folder, name, number).context(number)
    assert experimentor.context(f"{number} shots") == published_context


@pytest.mark.parametrize("name", SINGLE_LABEL_DATASETS)
def test_a_context_of_zero_shots_is_the_instruction_alone(data_folder: Path, name: str) -> None:
    experimentor = experimentor_of(data_folder, Experiment("shots", (0, 1)), name)

    instruction = PromptParts(task_card(name).template.plain, (), "")
    assert experimentor.contexts["0 shots"] == SharedContext(instruction, 0)


@pytest.mark.parametrize("name", SINGLE_LABEL_DATASETS)
def test_more_shots_than_training_rows_of_a_label_are_unavailable(data_folder: Path, name: str) -> None:
    """The small files have six training rows of each label."""
    experimentor = experimentor_of(data_folder, Experiment("shots", (0, 1, 2, 5, 7)), name)

    unavailable = experimentor.queries.unavailable
    assert unavailable.keys() == {"7 shots"}
    assert "got 7 shots" in unavailable["7 shots"]
    assert "6 demonstrations of every label" in unavailable["7 shots"]


def order_experimentor(folder: Path, seed: int = 0) -> Any:
    """Three rotations and three shuffles of two shots for each of 28 labels: of 56 demonstrations."""
    return experimentor_of(folder, Experiment("order", (3,), shots=2, seed=seed))


def test_orders_are_different_and_have_the_same_demonstrations(data_folder: Path) -> None:
    experimentor = order_experimentor(data_folder)
    orders = {str(name): demonstrations_in(experimentor.context(name)) for name in experimentor.rounds}

    rotations = ["rotation 1", "rotation 2", "rotation 3"]
    shuffles = ["shuffle 1", "shuffle 2", "shuffle 3"]
    assert list(orders) == ["published", *rotations, *shuffles]
    for name, order in orders.items():
        assert sorted(order) == sorted(orders["published"]), name
    different_orders = {tuple(order) for order in orders.values()}
    assert len(different_orders) == 7


def test_the_second_of_three_rotations_begins_in_the_middle(data_folder: Path) -> None:
    experimentor = order_experimentor(data_folder)
    published = demonstrations_in(experimentor.context("published"))
    middle = 28  # of 56 demonstrations

    assert demonstrations_in(experimentor.context("rotation 2")) == published[middle:] + published[:middle]


def test_the_seed_changes_shuffles_and_no_rotation(data_folder: Path) -> None:
    first = order_experimentor(data_folder, seed=0)
    same_seed = order_experimentor(data_folder, seed=0)
    other_seed = order_experimentor(data_folder, seed=1)

    assert same_seed.contexts == first.contexts
    first_shuffles = [first.context(f"shuffle {number}") for number in (1, 2, 3)]
    for number in (1, 2, 3):
        assert other_seed.context(f"rotation {number}") == first.context(f"rotation {number}")
        assert other_seed.context(f"shuffle {number}") not in first_shuffles


LATIN_SQUARES = pytest.mark.parametrize(("parts", "shots", "seed"), [(2, 1, 0), (5, 3, 0), (5, 3, 1), (28, 2, 1)])
"""The position experiment divides the labels into blocks, as many as parts of the context.

Each condition is one order of the blocks. Over all conditions, each block is in each part of the context once.
"""


@LATIN_SQUARES
def test_blocks_of_labels_differ_by_one_label_at_most(data_folder: Path, parts: int, shots: int, seed: int) -> None:
    experimentor = experimentor_of(data_folder, Experiment("position", (parts,), shots, seed))

    block_of_label = blocks_of(experimentor.card.labels, parts, seed)

    assert set(block_of_label) == set(experimentor.card.labels)
    block_sizes = Counter(block_of_label.values())
    assert len(block_sizes) == parts
    assert max(block_sizes.values()) - min(block_sizes.values()) <= 1


@LATIN_SQUARES
def test_each_block_of_labels_is_in_another_part_in_each_order(
    data_folder: Path, parts: int, shots: int, seed: int
) -> None:
    """Block b is in part b of order 0, in part b + 1 of order 1, and so on; part 0 follows the last part."""
    experimentor = experimentor_of(data_folder, Experiment("position", (parts,), shots, seed))
    block_of_label = blocks_of(experimentor.card.labels, parts, seed)

    assert len(experimentor.rounds) == parts
    for order, condition in enumerate(experimentor.rounds):
        remaining_labels = [label for _, label in demonstrations_in(experimentor.context(condition))]
        for part in range(parts):
            block = (part - order) % parts
            labels_of_block = [label for label in block_of_label if block_of_label[label] == block]
            part_size = len(labels_of_block) * shots
            labels_of_part = remaining_labels[:part_size]
            remaining_labels = remaining_labels[part_size:]
            assert Counter(labels_of_part) == dict.fromkeys(labels_of_block, shots), f"order {order}, part {part}"
        assert remaining_labels == [], f"order {order}"


def length_benchmark(folder: Path) -> LongICL:
    """Contexts of 256 tokens show some of the 28 labels; longer ones are padded, or show more of the same labels."""
    return benchmark(folder, Experiment("length", (256, 1024, 1500)), limit=None)


def test_longer_contexts_of_the_length_experiment_show_no_further_label(data_folder: Path) -> None:
    experimentor = length_benchmark(data_folder)[0]
    shortest = demonstrations_in(experimentor.context("256"))
    padded = demonstrations_in(experimentor.context("1K padded"))
    same_labels = demonstrations_in(experimentor.context("1K same labels"))

    assert padded == shortest
    assert same_labels[: len(shortest)] == shortest
    assert len(same_labels) > len(shortest)
    assert {label for _, label in same_labels} == {label for _, label in shortest}


def test_both_contexts_of_a_length_have_the_same_size(data_folder: Path) -> None:
    experimentor = length_benchmark(data_folder)[0]
    padded = experimentor.context("1K padded").encode()
    same_labels = experimentor.context("1K same labels").encode()

    assert len(padded) == len(same_labels) <= 4 * 1024


def test_a_length_with_too_few_demonstrations_of_its_labels_is_padded_only(data_folder: Path) -> None:
    experimentor = length_benchmark(data_folder)[0]

    assert "demonstrations of the" in experimentor.queries.unavailable["1500 same labels"]
    assert len(experimentor.context("1500 padded").encode()) == 4 * 1500


def test_a_copying_model_is_as_good_as_the_share_of_labels_shown_at_any_length(data_folder: Path) -> None:
    benchmark = length_benchmark(data_folder)
    shown_labels = {label for _, label in demonstrations_in(benchmark[0].context("256"))}
    gold = [item.gold[0] for item in benchmark[0].test_items]
    share_shown = fmean(label in shown_labels for label in gold)
    assert 0 < share_shown < 0.9

    rows = condition_rows(benchmark(copies))

    for row in rows.values():
        assert row["share_shown"] == pytest.approx(share_shown)
        assert row["score_shown"] == 1.0
        assert row["score_not_shown"] == 0.0
        assert row["difference"] in (None, 0.0)
        assert row["p_value"] in (None, 1.0)


def test_a_row_of_the_length_experiment_has_its_labels_and_demonstrations_of_each(data_folder: Path) -> None:
    benchmark = length_benchmark(data_folder)
    shown_labels = {label for _, label in demonstrations_in(benchmark[0].context("256"))}

    rows = condition_rows(benchmark(copies))

    for name, row in rows.items():
        demonstrations = benchmark[0].contexts[name].demonstrations
        assert row["labels_shown"] == len(shown_labels)
        assert row["per_shown_label"] == pytest.approx(demonstrations / len(shown_labels))


def test_more_demonstrations_of_the_same_labels_are_compared_with_padding_of_the_same_length(
    data_folder: Path,
) -> None:
    result = length_benchmark(data_folder)(copies)

    assert result.divided["goemotions"]["experiment"]["compared"]["1K same labels"] == "1K padded"
    assert "1K same labels from 1K padded" in str(result)


def test_the_band_of_all_lengths_is_corrected_for_their_number(data_folder: Path) -> None:
    """The band is an interval at the level 1 - .05 / lengths (Bonferroni)."""
    benchmark = length_benchmark(data_folder)
    labels = {label for _, label in demonstrations_in(benchmark[0].context("256"))}
    hits = [float(item.gold[0] in labels) for item in benchmark[0].test_items]  # of a model that copies

    rows = condition_rows(benchmark(copies))

    level = 1 - 0.05 / len(rows)
    distance_below = ratio_part(hits, [1.0] * len(hits), level).below
    for row in rows.values():
        assert row["band_low"] <= row["score_low"] <= row["score"] <= row["score_high"] <= row["band_high"]
        assert row["band_low"] == pytest.approx(row["score"] - distance_below)


def test_in_the_published_order_a_copying_model_seems_to_improve_with_length(data_folder: Path) -> None:
    """The published order shows more labels in more tokens, which the length experiment keeps apart."""
    rows = condition_rows(benchmark(data_folder, Experiment("context", (256, 1024)), limit=None)(copies))

    for row in rows.values():
        assert row["score"] == pytest.approx(row["share_shown"])
    assert rows["1K"]["difference_low"] > 0


def test_a_model_that_long_prompts_disturb_loses_with_padding(data_folder: Path) -> None:
    def disturbed(prompt: str, label_space: list[str]) -> str:
        is_long = len(prompt) >= 1500
        return label_space[0] if is_long else copies(prompt, label_space)

    rows = condition_rows(length_benchmark(data_folder)(disturbed))

    assert rows["1K padded"]["p_value"] < 0.05
    assert rows["1K padded"]["difference_high"] < 0
    assert rows["1K same labels"]["difference"] == 0.0  # from the padded one, which is as long


RIGHT_ITEM = Tally(gold=("a",), predicted=(), correct=("a",))
WRONG_ITEM = Tally(gold=("a",), predicted=(), correct=())


@pytest.mark.parametrize("changed_each_way", [0, 5])
def test_as_many_gains_as_losses_are_no_difference(changed_each_way: int) -> None:
    gains_and_losses = [WRONG_ITEM, RIGHT_ITEM] * changed_each_way
    losses_and_gains = [RIGHT_ITEM, WRONG_ITEM] * changed_each_way
    unchanged = [RIGHT_ITEM, WRONG_ITEM]

    assert mcnemar_p_value([*gains_and_losses, *unchanged], [*losses_and_gains, *unchanged]) == 1.0


@pytest.mark.parametrize(
    ("gained", "lost", "more_extreme", "as_extreme"),
    [
        (0, 6, 0, 2),  # no outcome is more extreme than six losses; six gains are as extreme
        (3, 9, 2 * (1 + 12 + 66), 2 * 220),  # 0, 1 or 2 gains of 12 changes, and as few losses; 3 of them
        (40, 2, 2 * (1 + 42), 2 * 861),  # 0 or 1 loss of 42 changes, and as few gains; 2 of them
    ],
)
def test_the_p_value_of_a_difference_counts_the_signs_of_the_changed_items(
    gained: int, lost: int, more_extreme: int, as_extreme: int
) -> None:
    """Without a difference, each changed item is a gain or a loss with the same chance.

    The p-value is the share of outcomes that are more extreme than the observed one, and a part of the share of those
    that are as extreme.
    """
    unchanged = [RIGHT_ITEM, WRONG_ITEM]
    before = [*[WRONG_ITEM] * gained, *[RIGHT_ITEM] * lost, *unchanged]
    after = [*[RIGHT_ITEM] * gained, *[WRONG_ITEM] * lost, *unchanged]

    p_value = mcnemar_p_value(before, after)

    items = gained + lost + 2
    counted_part = 1 - 0.0214 * math.sqrt(items)  # docs/error_rates.md: w = 0.0214 sqrt(n) for n items
    outcomes = 2 ** (gained + lost)
    assert p_value == pytest.approx((more_extreme + counted_part * as_extreme) / outcomes)


def controls_experimentor(folder: Path, seed: int = 0) -> Any:
    """All control conditions with two shots for each label."""
    return experimentor_of(folder, Experiment("controls", shots=2, seed=seed))


def texts_and_labels(experimentor: Any, condition: str) -> tuple[list[str], list[str]]:
    """The texts and the labels of the demonstrations of a condition, in the order of its context."""
    demonstrations = demonstrations_in(experimentor.context(condition))
    return [text for text, _ in demonstrations], [label for _, label in demonstrations]


def test_the_normal_condition_is_the_published_context(data_folder: Path) -> None:
    experimentor = controls_experimentor(data_folder)

    assert experimentor.context("normal") == published_rounds(data_folder, number=2).context(2)


def test_zero_shots_are_the_template_alone(data_folder: Path) -> None:
    experimentor = controls_experimentor(data_folder)

    assert experimentor.context("zero shots") == experimentor.card.template.plain


@pytest.mark.parametrize("condition", ["shuffled labels", "symbols", "random labels"])
def test_controls_of_labels_keep_the_texts(data_folder: Path, condition: str) -> None:
    experimentor = controls_experimentor(data_folder)
    normal_texts, _ = texts_and_labels(experimentor, "normal")
    texts, _ = texts_and_labels(experimentor, condition)

    assert texts == normal_texts


def test_irrelevant_text_has_no_demonstration(data_folder: Path) -> None:
    experimentor = controls_experimentor(data_folder)

    assert demonstrations_in(experimentor.context("irrelevant text")) == []


@pytest.mark.parametrize("condition", ["irrelevant text", "symbols", "random labels", "shuffled labels"])
def test_controls_with_a_context_are_as_long_as_the_normal_one(data_folder: Path, condition: str) -> None:
    experimentor = controls_experimentor(data_folder)

    assert len(experimentor.context(condition).encode()) == len(experimentor.context("normal").encode())


def test_shuffled_labels_are_the_same_labels_in_other_places(data_folder: Path) -> None:
    experimentor = controls_experimentor(data_folder)
    _, normal = texts_and_labels(experimentor, "normal")
    _, shuffled = texts_and_labels(experimentor, "shuffled labels")

    assert Counter(shuffled) == Counter(normal)
    unchanged = sum(before == after for before, after in zip(normal, shuffled, strict=True))
    assert unchanged < 10  # of 56


def test_random_labels_are_drawn_anew_from_all_labels(data_folder: Path) -> None:
    experimentor = controls_experimentor(data_folder)
    _, normal = texts_and_labels(experimentor, "normal")
    _, drawn = texts_and_labels(experimentor, "random labels")

    assert set(drawn) <= set(experimentor.card.labels)
    assert Counter(drawn) != Counter(normal)


def test_symbols_rename_each_label_to_one_new_name(data_folder: Path) -> None:
    experimentor = controls_experimentor(data_folder)
    _, normal = texts_and_labels(experimentor, "normal")
    _, symbols = texts_and_labels(experimentor, "symbols")
    label_names = experimentor.contexts["symbols"].label_names

    assert len(set(label_names)) == 28
    renamed = dict(zip(normal, symbols, strict=True))
    assert renamed == dict(zip(experimentor.card.labels, label_names, strict=True))
    assert [renamed[label] for label in normal] == symbols  # in all demonstrations of the label
    assert not set(symbols) & set(experimentor.card.labels)
    assert {query.label_space for query in experimentor.round_queries("symbols")} == {label_names}


def test_the_normal_context_is_the_same_with_each_seed(data_folder: Path) -> None:
    """Also where the random labels of a seed are longer than the labels of the normal context."""
    contexts = {controls_experimentor(data_folder, seed).context("normal") for seed in range(5)}

    assert len(contexts) == 1


def test_the_instruction_lists_the_label_names_of_its_condition(data_folder: Path) -> None:
    experimentor = experimentor_of(data_folder, Experiment("controls", shots=1), instruct=True)

    symbols = experimentor.contexts["symbols"].label_names
    assert ", ".join(symbols) in experimentor.context("symbols")
    assert ", ".join(experimentor.card.labels) in experimentor.context("irrelevant text")


WORDS = ["red", "blue", "green", "fast", "slow", "late", "lost", "paid", "card", "bank", "door"]


def okapi(query: str, texts: list[str]) -> list[float]:
    """Return the BM25 score of each text for a query, with k1 = 1.5 and b = 0.75.

    The score of a text is the sum over the words of the query of

        idf * count * (k1 + 1) / (count + k1 * (1 - b + b * length / mean_length)),

    where count is how often the text has the word, and idf = log(1 + (N - n + 0.5) / (n + 0.5)) for N texts, of which
    n have the word.
    """
    words_of_texts = [re.findall(r"\w+", text.lower()) for text in texts]
    mean_length = fmean(len(words) for words in words_of_texts)
    scores = []
    for words in words_of_texts:
        relative_length = len(words) / mean_length
        score = 0.0
        for query_word in re.findall(r"\w+", query.lower()):
            texts_with_word = sum(query_word in other_words for other_words in words_of_texts)
            idf = math.log(1 + (len(texts) - texts_with_word + 0.5) / (texts_with_word + 0.5))
            count = words.count(query_word)
            score += idf * count * 2.5 / (count + 1.5 * (0.25 + 0.75 * relative_length))
        scores.append(score)
    return scores


def replace_texts_by_common_words(path: Path, step: int) -> None:
    """Replace the texts of a file of BANKING77 by one to five common words and the number of the row.

    Row r has the words with the numbers ``r * step + 0``, ``r * step + 1``, ``r * step + 4``, ...
    """
    header, *lines = path.read_text("utf-8").splitlines()
    new_lines = [header]
    for row, line in enumerate(lines):
        _, _, label = line.rpartition(",")
        word_count = 1 + row % 5
        row_words = [WORDS[(row * step + place**2) % len(WORDS)] for place in range(word_count)]
        new_lines.append(f"{' '.join(row_words)} {row},{label}")
    path.write_text("\n".join(new_lines) + "\n", "utf-8", newline="")


@pytest.fixture
def banking_of_common_words(data_folder_copy: Path) -> Path:
    """A folder whose texts of BANKING77 have one to five common words and a number, so that many are similar."""
    replace_texts_by_common_words(data_folder_copy / "banking77_train.csv", step=3)
    replace_texts_by_common_words(data_folder_copy / "banking77_test.csv", step=7)
    return data_folder_copy


def retrieval_experimentor(folder: Path, shots: int, limit: int = 12) -> Any:
    """Contexts of 1 and 5 of the demonstrations (``shots`` of each of 77 labels); all of them cannot be retrieved."""
    return experimentor_of(folder, Experiment("retrieval", (1, 5, 77 * shots), shots), "banking77", limit)


def banking_demonstrations(context: str) -> list[tuple[str, str]]:
    """Text and label of each demonstration in a context of BANKING77."""
    return demonstrations_in(context, "banking77")


@pytest.mark.parametrize("shots", [1, 2])
def test_the_full_context_has_all_shots_of_the_published_round(banking_of_common_words: Path, shots: int) -> None:
    experimentor = retrieval_experimentor(banking_of_common_words, shots)
    published = experimentor_of(banking_of_common_words, Experiment("shots", (shots,)), "banking77")

    assert experimentor.context("full context") == published.context(f"{shots} shots")
    assert len(banking_demonstrations(experimentor.context("full context"))) == 77 * shots


@pytest.mark.parametrize("count", [1, 5])
@pytest.mark.parametrize("shots", [1, 2])
def test_the_most_similar_demonstrations_come_last(banking_of_common_words: Path, shots: int, count: int) -> None:
    experimentor = retrieval_experimentor(banking_of_common_words, shots)
    pool = banking_demonstrations(experimentor.context("full context"))
    pool_texts = [text for text, _ in pool]

    for item_index, item in enumerate(experimentor.test_items):
        scores = okapi(item.texts[0], pool_texts)
        best_first = sorted(range(len(pool)), key=lambda index: (-round(scores[index], 9), index))
        expected = [pool[index] for index in reversed(best_first[:count])]
        retrieved = banking_demonstrations(experimentor.context(f"{count} retrieved", item_index))
        assert retrieved == expected, f"item {item_index}"


@pytest.mark.parametrize("shots", [1, 2])
def test_most_items_have_retrieved_contexts_of_their_own(banking_of_common_words: Path, shots: int) -> None:
    experimentor = retrieval_experimentor(banking_of_common_words, shots, limit=12)
    contexts = {experimentor.context("5 retrieved", item_index) for item_index in range(12)}

    assert len(contexts) > 6


@pytest.mark.parametrize("count", [1, 5])
@pytest.mark.parametrize("shots", [1, 2])
def test_retrieval_for_an_item_does_not_depend_on_further_items(
    banking_of_common_words: Path, shots: int, count: int
) -> None:
    twelve_items = retrieval_experimentor(banking_of_common_words, shots, limit=12)
    three_items = retrieval_experimentor(banking_of_common_words, shots, limit=3)

    for item_index in range(3):
        context = three_items.context(f"{count} retrieved", item_index)
        assert context == twelve_items.context(f"{count} retrieved", item_index), f"item {item_index}"


@pytest.mark.parametrize("shots", [1, 2])
def test_random_demonstrations_are_five_of_the_pool_in_any_order(banking_of_common_words: Path, shots: int) -> None:
    experimentor = retrieval_experimentor(banking_of_common_words, shots, limit=12)
    pool = banking_demonstrations(experimentor.context("full context"))
    drawn = [banking_demonstrations(experimentor.context("5 random", item_index)) for item_index in range(12)]

    for item_index, demonstrations in enumerate(drawn):
        assert len(set(demonstrations) & set(pool)) == 5, f"item {item_index}"
    first_ones = {pool.index(demonstrations[0]) for demonstrations in drawn}
    last_ones = {pool.index(demonstrations[-1]) for demonstrations in drawn}
    assert first_ones != last_ones


def test_random_contexts_are_compared_with_retrieved_ones_and_those_with_the_full_context(
    banking_of_common_words: Path,
) -> None:
    experimentor = retrieval_experimentor(banking_of_common_words, shots=1)

    assert experimentor.contexts["1 random"].compared == "1 retrieved"
    assert experimentor.contexts["5 random"].compared == "5 retrieved"
    reference_condition = ""
    assert experimentor.contexts["5 retrieved"].compared == reference_condition


@pytest.mark.parametrize("shots", [1, 2])
def test_all_demonstrations_of_the_pool_cannot_be_retrieved(banking_of_common_words: Path, shots: int) -> None:
    experimentor = retrieval_experimentor(banking_of_common_words, shots)

    pool_size = 77 * shots
    assert experimentor.queries.unavailable.keys() == {f"{pool_size} retrieved", f"{pool_size} random"}


# -- scores


def reads_last_fifth(prompt: str, label_space: list[str]) -> str:
    """Predict the true label if its demonstrations are in the last fifth of the context, else the first label.

    The query names its true label. The position of demonstrations is the middle between the first and the last of them.
    """
    *demonstrations, (query, _) = demonstrations_in(prompt)
    (true_label,) = re.findall(r"of (\w+)", query)
    positions = []
    for position, (_, label) in enumerate(demonstrations):
        if label == true_label:
            positions.append(position)
    middle = (positions[0] + positions[-1]) / 2
    if middle / len(demonstrations) >= 0.8:
        return true_label
    return label_space[0]


def test_an_effect_of_the_last_fifth_is_found(data_folder: Path) -> None:
    result = benchmark(data_folder, Experiment("position", shots=2), limit=None)(reads_last_fifth)

    rows = condition_rows(result)
    assert list(rows) == ["part 1", "part 2", "part 3", "part 4", "part 5"]
    right_by_chance = 3 / 72  # the first label, which is the prediction elsewhere, is the true one of 3 items
    *other_parts, last_part = rows.values()
    assert last_part["score"] == pytest.approx(1.0, abs=right_by_chance)
    for row in other_parts:
        assert row["score"] <= right_by_chance
        assert row["difference_high"] < 0
    mean_of_others = sum(row["score"] for row in other_parts) / 4
    assert last_part["difference"] == pytest.approx(last_part["score"] - mean_of_others)
    assert 0.6 < last_part["difference_low"] < last_part["difference"] <= last_part["difference_high"]


def test_the_smallest_p_value_of_the_position_test_is_one_of_its_permutations(data_folder: Path) -> None:
    result = benchmark(data_folder, Experiment("position", shots=2), limit=None)(reads_last_fifth)

    permutations = 2000  # with the observed assignment
    assert result.divided["goemotions"]["experiment"]["p_value"] == 1 / permutations
    assert "test of no effect of the part of the context: p = 0.0005." in str(result)


def spread_of_parts(correct: dict[str, list[int]], block_of_label: dict[str, int]) -> float:
    """Return the sum over the parts of a context of (correct items of the part - mean of all parts)^2.

    Args:
        correct: The number of correct items of each label in each order.
        block_of_label: The block of each label. In the order with the number ``order``, the labels of a block are in
            the part ``(block + order) % parts``.
    """
    parts = len(next(iter(correct.values())))
    correct_in_part = [0] * parts
    for label, correct_by_order in correct.items():
        for order, count in enumerate(correct_by_order):
            part = (block_of_label[label] + order) % parts
            correct_in_part[part] += count
    mean = fmean(correct_in_part)
    sum_of_squares = sum((count - mean) ** 2 for count in correct_in_part)
    return round(sum_of_squares, 9)


def exact_p_value(correct: dict[str, list[int]], block_of_label: dict[str, int]) -> float:
    """Return the share of all assignments of labels to blocks whose spread is that of the observed one or larger."""
    observed_spread = spread_of_parts(correct, block_of_label)
    blocks = [block_of_label[label] for label in correct]
    is_as_extreme = []
    for permutation in itertools.permutations(blocks):
        assigned_block = dict(zip(correct, permutation, strict=True))
        is_as_extreme.append(spread_of_parts(correct, assigned_block) >= observed_spread)
    return fmean(is_as_extreme)


def correct_items_better_in_the_last_part(seed: int) -> tuple[dict[str, list[int]], dict[str, int]]:
    """Return the correct items of seven labels in three orders, and the block of each label.

    In the last of three parts an item is correct with a chance of 0.9, in the others with one of 0.4.
    """
    draw = random.Random(seed)
    labels = "abcdefg"
    blocks = blocks_of(labels, parts=3, seed=seed)
    correct: dict[str, list[int]] = {}
    for label in labels:
        items_of_label = 2 if label == "a" else 1
        correct[label] = []
        for order in range(3):
            part = (blocks[label] + order) % 3
            chance = 0.9 if part == 2 else 0.4
            correct[label].append(items_of_label if draw.random() < chance else 0)

    return correct, blocks


@pytest.mark.parametrize("seed", range(4))
def test_the_p_value_of_random_assignments_is_near_that_of_all_assignments(seed: int) -> None:
    correct, blocks = correct_items_better_in_the_last_part(seed)

    permutations = 4000
    p_value = position_p_value(correct, blocks, permutations)

    exact = exact_p_value(correct, blocks)
    standard_error = math.sqrt(max(exact * (1 - exact), 1e-3) / permutations)
    assert p_value == pytest.approx(exact, abs=4 * standard_error)


@pytest.mark.parametrize("seed", range(4))
def test_the_p_value_of_random_assignments_is_the_same_each_time(seed: int) -> None:
    correct, blocks = correct_items_better_in_the_last_part(seed)

    first_p_value = position_p_value(correct, blocks, 4000)
    second_p_value = position_p_value(correct, blocks, 4000)

    assert second_p_value == first_p_value


def copies(prompt: str, label_space: list[str]) -> str:
    """Predict the label of the demonstration that shares the most words; without one, the first label."""
    *demonstrations, (query, _) = demonstrations_in(prompt)
    if not demonstrations:
        return label_space[0]
    query_words = set(query.split())

    def shared_words(demonstration: tuple[str, str]) -> int:
        text, _ = demonstration
        return len(query_words & set(text.split()))

    _, label = max(demonstrations, key=shared_words)
    return label


def knows(prompt: str, label_space: list[str]) -> str:
    """Predict the label that the query names, such as "joy" of "test text 0 of joy", without reading the context."""
    return re.findall(r"of (\w+)", prompt)[-1]


def always_sixth_label(prompt: str, label_space: list[str]) -> str:
    return label_space[5]


def controls_benchmark(folder: Path, limit: int | None = None) -> LongICL:
    """All control conditions with two shots for each label."""
    return benchmark(folder, Experiment("controls", shots=2), limit=limit)


def test_a_copying_model_is_right_with_any_label_names_and_only_with_right_demonstrations(data_folder: Path) -> None:
    rows = condition_rows(controls_benchmark(data_folder)(copies))

    assert rows["normal"]["score"] == rows["symbols"]["score"] == 1.0
    assert rows["symbols"]["difference"] == 0.0
    for name in ("zero shots", "shuffled labels", "random labels", "irrelevant text"):
        assert rows[name]["score"] < 0.2, name
        assert rows[name]["difference_high"] < -0.5, name


def test_a_model_with_prior_knowledge_is_right_except_with_symbols(data_folder: Path) -> None:
    rows = condition_rows(controls_benchmark(data_folder)(knows))

    scores = {name: row["score"] for name, row in rows.items()}
    assert scores.pop("symbols") == 0.0
    assert scores == dict.fromkeys(scores, 1.0)
    assert rows["symbols"]["difference_high"] < -0.9
    assert rows["shuffled labels"]["difference"] == 0.0


def test_a_constant_model_has_the_share_of_its_label_in_all_conditions(data_folder: Path) -> None:
    rows = condition_rows(controls_benchmark(data_folder)(always_sixth_label))

    (score,) = {row["score"] for row in rows.values()}
    assert 0 < score <= 3 / 72  # 3 of 72 items have the label
    for name, row in rows.items():
        assert row.get("difference") in (None, 0.0), name


def test_p_values_of_controls_are_corrected_by_holm(data_folder: Path) -> None:
    """All nine items are right in the normal condition, so that each change is a loss.

    The chance of so many losses, or of as many gains, is 2 / 2^losses.
    """
    items = 9
    normal, *controls = condition_rows(controls_benchmark(data_folder, limit=items)(copies)).values()

    counted_part = 1 - 0.0214 * math.sqrt(items)  # docs/error_rates.md: w = 0.0214 sqrt(n) for n items
    uncorrected = []
    for control in controls:
        losses = round(items * (1 - control["score"]))
        uncorrected.append(1.0 if losses == 0 else min(1.0, counted_part * 2 / 2**losses))
    assert [control["p_value"] for control in controls] == pytest.approx(holm(uncorrected))
    assert normal["p_value"] is None


class ExperimentRun(NamedTuple):
    """A run of one experiment on 20 items of one small data set."""

    experiment: str
    name: str
    benchmark: LongICL
    result: Result
    prompts: list[str]
    """The prompts that the model was called with."""
    folder: Path
    """The folder of the data."""


EXPERIMENTS_WITH_LEVELS = {
    "context": Experiment("context", (1024, 1500, 2048)),
    "length": Experiment("length", (1024, 1500, 2048)),
    "shots": Experiment("shots", (0, 1, 4)),
    "order": Experiment("order", shots=2, seed=3),
    "position": Experiment("position", shots=2, seed=3),
    "controls": Experiment("controls", shots=2, seed=3),
    "retrieval": Experiment("retrieval", shots=2, seed=3),
}
RUNS = [*((experiment, "goemotions") for experiment in EVERY), ("context", "tacred"), ("position", "tacred")]


def label_by_length(prompt: str, label_space: list[str]) -> str:
    """One of the first seven labels, by the length of the prompt."""
    return label_space[len(prompt) % 7]


@pytest.fixture(scope="module", params=RUNS, ids="-".join)
def experiment_run(
    request: pytest.FixtureRequest, data_folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> ExperimentRun:
    experiment, name = request.param
    experiment_benchmark = benchmark(data_folder, EXPERIMENTS_WITH_LEVELS[experiment], name, limit=20)
    prompts: list[str] = []

    def model(prompt: str, label_space: list[str]) -> str:
        prompts.append(prompt)
        return label_by_length(prompt, label_space)

    store = tmp_path_factory.mktemp("experiment") / "store.sqlite"
    result = experiment_benchmark(model, store=store, model_name="m")
    return ExperimentRun(experiment, name, experiment_benchmark, result, prompts, data_folder)


def saved(run: ExperimentRun, folder: Path) -> dict[str, Any]:
    """The saved result of a run, as read from its JSON file."""
    run.result.save(folder / "result.json")
    record: dict[str, Any] = json.loads((folder / "result.json").read_text("utf-8"))
    return record


def first_condition(record: dict[str, Any], name: str) -> dict[str, Any]:
    """The row of the first condition in a saved result."""
    conditions: dict[str, dict[str, Any]] = record["Divided results"][name]["experiment"]["conditions"]
    return next(iter(conditions.values()))


def test_each_distinct_prompt_is_run_once(experiment_run: ExperimentRun) -> None:
    run = experiment_run
    distinct_prompts = set(run.benchmark[0].prompt_set())

    assert sorted(run.prompts) == sorted(distinct_prompts)
    assert run.result.details[run.name].distinct == len(distinct_prompts)


def test_entered_predictions_have_the_results_of_a_run(experiment_run: ExperimentRun) -> None:
    run = experiment_run
    predictions = [label_by_length(query.prompt, list(query.label_space)) for query in run.benchmark[0].all_queries()]

    assert run.benchmark(preentered_prediction=[predictions]).divided == run.result.divided


def test_a_saved_experiment_is_verified(experiment_run: ExperimentRun, tmp_path: Path) -> None:
    loaded = Result.from_dict(saved(experiment_run, tmp_path))

    findings = verify(loaded, data_dir=experiment_run.folder)
    assert [finding.contradicted for finding in findings] == [(), ()]


def test_a_changed_limit_in_a_saved_experiment_is_contradicted(experiment_run: ExperimentRun, tmp_path: Path) -> None:
    record = saved(experiment_run, tmp_path)
    first_condition(record, experiment_run.name)["score_low"] -= 0.001

    findings = verify(Result.from_dict(record), data_dir=experiment_run.folder)
    contradicted = [message for finding in findings for message in finding.contradicted]
    assert contradicted


def test_a_text_in_place_of_a_limit_is_refused_on_loading(experiment_run: ExperimentRun, tmp_path: Path) -> None:
    record = saved(experiment_run, tmp_path)
    first_condition(record, experiment_run.name)["score_low"] = "<b>"

    with pytest.raises(SchemaError, match="experiment"):
        Result.from_dict(record)


def test_compare_has_the_scores_of_each_condition(experiment_run: ExperimentRun) -> None:
    run = experiment_run

    def other_model(prompt: str, label_space: list[str]) -> str:
        predictions = [*label_space[:5], "?"]  # "?" is no label
        return predictions[len(prompt) % 6]

    other = run.benchmark(other_model, model_name="other")
    scores = {line.dataset: line.values for line in compare(run.result, other).claims}

    assert list(scores) == [str(key) for key in run.benchmark[0].rounds]
    for condition, pair in scores.items():
        expected = (run.result.divided[run.name][condition], other.divided[run.name][condition])
        assert pair == pytest.approx(expected), condition


def test_condition_scores_and_limits_are_those_of_the_result(experiment_run: ExperimentRun) -> None:
    run = experiment_run
    scores, intervals = run.result.divided[run.name], run.result.details[run.name].intervals

    for condition, row in condition_rows(run.result, run.name).items():
        assert row["score_low"] <= row["score"] <= row["score_high"], condition
        if run.experiment != "position":  # its conditions are parts of contexts, its results whole contexts
            assert row["score"] == pytest.approx(scores[condition], abs=1e-7), condition
            assert row["score_low"] == intervals[condition].low, condition
            assert row["score_high"] == intervals[condition].high, condition


def test_the_table_of_a_loaded_experiment_has_a_row_for_each_condition(
    experiment_run: ExperimentRun, tmp_path: Path
) -> None:
    run = experiment_run
    conditions = condition_rows(run.result, run.name)

    columns, table_rows = experiment_rows(Result.from_dict(saved(run, tmp_path)))

    assert [cells[0] for cells in table_rows] == [f"{run.name}, {condition}" for condition in conditions]
    for row, cells in zip(conditions.values(), table_rows, strict=True):
        score_cell = dict(zip(columns, cells, strict=True))["score"]
        assert score_cell.startswith(f"{row['score']:.4f} ["), cells[0]


def test_an_experiment_has_no_common_mean(experiment_run: ExperimentRun) -> None:
    run = experiment_run

    assert run.result.divided[run.name]["mean"] is None
    assert run.result.averaged["mean"] is None
    assert "no common mean" in run.result.details[run.name].missing["mean"]


def test_the_chart_has_the_score_of_each_condition(experiment_run: ExperimentRun, tmp_path: Path) -> None:
    run = experiment_run
    loaded = Result.from_dict(saved(run, tmp_path))

    chart_scores = {}
    for _, _, condition, score, *_ in experiment_chart({"mine": loaded}).rows:
        chart_scores[condition] = score

    conditions = condition_rows(run.result, run.name)
    assert chart_scores == {condition: f"{row['score']:.4f}" for condition, row in conditions.items()}


def test_the_report_of_a_loaded_experiment_names_it(experiment_run: ExperimentRun, tmp_path: Path) -> None:
    loaded = Result.from_dict(saved(experiment_run, tmp_path))

    assert f"Experiment: {experiment_run.experiment}" in report_html({"mine": loaded})


def test_an_experiment_is_compared_with_no_published_figure(experiment_run: ExperimentRun) -> None:
    for comparison in compare_with_published(experiment_run.result):
        assert comparison.reason
        assert not comparison.figures


def wrong_label(label: int) -> int:
    """Another one of the 28 labels of GoEmotions."""
    return (label + 1) % 28


class ControlRuns(NamedTuple):
    """Runs of the controls on 60 items that are right in the first condition only, in none, and in all."""

    conditions: list[str]
    in_first: Result
    in_none: Result
    in_all: Result

    @property
    def all_three(self) -> dict[str, Result]:
        return {"one": self.in_first, "none": self.in_none, "all": self.in_all}


@pytest.fixture(scope="module")
def control_runs(data_folder: Path) -> ControlRuns:
    controls = benchmark(data_folder, "controls", limit=60)
    conditions = [condition.name for condition in controls[0].conditions()]

    def run_that_is_right_in(names: list[str]) -> Result:
        predictions = []
        for condition in controls[0].conditions():
            is_right = condition.name in names
            predictions += [query.label if is_right else wrong_label(query.label) for query in condition.queries]
        return controls(preentered_prediction=[predictions])

    return ControlRuns(
        conditions,
        in_first=run_that_is_right_in(conditions[:1]),
        in_none=run_that_is_right_in([]),
        in_all=run_that_is_right_in(conditions),
    )


def test_a_run_is_better_only_in_the_condition_in_which_it_is_right(control_runs: ControlRuns) -> None:
    comparison = compare(control_runs.in_first, control_runs.in_none)

    first, *others = control_runs.conditions
    conclusions = [text for text in comparison.conclusion() if "better" in text]
    assert conclusions == [
        f"{first}: first is better (p < 0.0001)",
        *(f"{name}: neither run is shown to be better (p = 1)" for name in others),
    ]


def test_a_comparison_of_experiments_has_no_overall_difference(control_runs: ControlRuns) -> None:
    comparison = compare(control_runs.in_first, control_runs.in_none)

    assert comparison.mean is None
    assert [line.dataset for line in comparison.claims] == control_runs.conditions
    with pytest.raises(ArgumentError, match="no overall difference"):
        _ = comparison.overall


def test_the_better_run_only_is_shown_to_be_not_worse(control_runs: ControlRuns) -> None:
    comparison = compare(control_runs.in_first, control_runs.in_none, margin=0.2)

    not_worse = {(claim.condition, claim.run) for claim in comparison.non_inferiority if claim.shown}
    first_condition_name = control_runs.conditions[0]
    assert (first_condition_name, "first") in not_worse
    assert (first_condition_name, "second") not in not_worse


def test_non_inferiority_is_corrected_for_the_number_of_conditions(control_runs: ControlRuns) -> None:
    """The p-value of all conditions together is that of one condition alone, times their number (Bonferroni)."""
    comparison = compare(control_runs.in_first, control_runs.in_none, margin=0.2)

    assert comparison.non_inferiority
    for claim in comparison.non_inferiority:
        one_condition = compare(control_runs.in_first, control_runs.in_none, claim.condition, margin=0.2)
        (p_value_alone,) = [other.p_value for other in one_condition.non_inferiority if other.run == claim.run]
        expected = min(1.0, (p_value_alone or 0.0) * len(control_runs.conditions))
        assert claim.p_value == expected, f"{claim.condition}, {claim.run}"


def test_several_runs_are_corrected_for_the_number_of_conditions(control_runs: ControlRuns) -> None:
    """The corrected p-value is that of one condition alone (Holm over pairs), times the number of conditions."""
    runs = control_runs.all_three

    p_values = {}
    for pair in compare_runs(runs).comparisons:
        for claim in pair.claims:
            p_values[pair.first, pair.second, claim.dataset] = claim.holm

    expected = {}
    for condition in control_runs.conditions:
        for pair in compare_runs(runs, condition).comparisons:
            p_value_alone = pair.overall.holm or 0.0
            expected[pair.first, pair.second, condition] = min(1.0, p_value_alone * len(control_runs.conditions))
    assert p_values == expected


def test_few_runs_are_said_to_be_corrected_by_holm(control_runs: ControlRuns) -> None:
    text = str(compare_runs(control_runs.all_three))

    of_scores = "corrected for pairs of runs and directions (Holm), and for the conditions (Bonferroni)"
    assert f"p (corrected): {of_scores}" in text
    assert "p (corrected): for all interactions and directions (Holm)" in text
    assert "p (Holm)" not in text  # no table has such a column


def test_many_runs_are_said_to_be_corrected_by_bonferroni(
    control_runs: ControlRuns, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(alignment, "MOST_RUNS", 2)  # three runs are too many for Holm then

    text = str(compare_runs(control_runs.all_three))

    assert "p (corrected): corrected for all pairs of runs and for the conditions (Bonferroni)" in text
    assert "p (corrected): for the interactions of all pairs of runs (Bonferroni)" in text
    assert "Holm" not in text


def test_experiments_are_ranked_by_one_condition_only(control_runs: ControlRuns) -> None:
    runs = control_runs.all_three

    assert compare_runs(runs).ranking == ()
    with pytest.raises(ArgumentError, match="expected one of"):
        rank(runs)
    ranked = [place.run for place in rank(runs, control_runs.conditions[0]).runs]
    assert ranked[-1] == "none"


def test_tables_of_several_experiments_have_all_conditions(control_runs: ControlRuns) -> None:
    runs = control_runs.all_three
    comparison = compare_runs(runs)

    for name in control_runs.conditions:
        assert f"LongICL: {name}" in latex_scores(runs), name
        assert f"LongICL: {name}" in report_html(runs), name
        for form in FORMATS:
            text = format_comparisons([comparison], form).replace("\\", "")
            assert name in text, f"{name}: {form}"


class GainInOneCondition(NamedTuple):
    """Two runs of the controls, of which one gains seven items in the first of six conditions.

    The p-value is 0.016 there, and 0.094 if it is corrected for the conditions.
    """

    runs: dict[str, Result]
    condition: str
    corrected_p_value: float


@pytest.fixture(scope="module")
def gain_in_one_condition(data_folder: Path) -> GainInOneCondition:
    controls = benchmark(data_folder, "controls", limit=60)
    first_name = controls[0].conditions()[0].name

    def run_with_right_items(in_first_condition: int, in_others: int) -> Result:
        predictions = []
        for condition in controls[0].conditions():
            right_items = in_first_condition if condition.name == first_name else in_others
            for index, query in enumerate(condition.queries):
                predictions.append(query.label if index < right_items else wrong_label(query.label))
        return controls(preentered_prediction=[predictions])

    runs = {"more": run_with_right_items(37, 30), "less": run_with_right_items(30, 30)}
    line = compare(runs["more"], runs["less"]).datasets[0]
    assert line.p_value is not None
    assert line.p_value < 0.05 < line.holm
    return GainInOneCondition(runs, first_name, line.holm)


def test_latex_underlines_what_is_not_significant_after_the_correction(
    gain_in_one_condition: GainInOneCondition,
) -> None:
    table = latex_scores(gain_in_one_condition.runs)

    row_start = f"LongICL: {gain_in_one_condition.condition} "
    (row,) = [line for line in table.splitlines() if line.startswith(row_start)]
    assert r"\underline" in row
    assert "corrected for all of them" in table


def test_the_report_has_the_p_value_after_the_correction(gain_in_one_condition: GainInOneCondition) -> None:
    page = report_html(gain_in_one_condition.runs)

    assert f"not a significant difference (p = {gain_in_one_condition.corrected_p_value:.3g})" in page
    before_single_comparisons, _, _ = page.partition("What changed between two runs")
    assert "p = 0.0156" not in before_single_comparisons


def run_with_a_failed_condition(folder: Path, experiment: Experiment) -> tuple[LongICLExperimentor, Result]:
    """A run whose model fails on all prompts of the second context."""
    benchmark_of_experiment = benchmark(folder, experiment, limit=20)
    experimentor = benchmark_of_experiment[0]
    failing_context = experimentor.context(experimentor.rounds[1])

    def model(prompt: str, label_space: list[str]) -> int:
        query_length = len(prompt) - len(failing_context)  # a longer rest is that of a longer context
        if prompt.startswith(failing_context) and query_length < 120:
            raise ValueError("the server is gone")
        return 0

    return experimentor, benchmark_of_experiment(model, on_error="collect")


FAILED_EXPERIMENTS = [Experiment("position", shots=1), Experiment("shots", (0, 1, 2))]


@pytest.mark.parametrize("experiment", FAILED_EXPERIMENTS, ids=["position", "shots"])
def test_scores_of_a_failed_context_are_undefined(data_folder: Path, experiment: Experiment) -> None:
    experimentor, result = run_with_a_failed_condition(data_folder, experiment)

    failed_context = str(experimentor.rounds[1])
    assert result.divided["goemotions"][failed_context] is None
    assert result.divided["goemotions"]["experiment"].get("p_value") is None
    assert "PARTIAL" in str(result)
    assert experiment_chart(result).rows


def undefined_conditions(result: Result) -> list[str]:
    """The conditions without a score; they have no difference and no limits then."""
    undefined = []
    for name, row in condition_rows(result).items():
        if row["score"] is None:
            assert row["difference"] is None, name
            assert row["score_low"] is None, name
            undefined.append(name)
    return undefined


def test_a_failed_condition_is_undefined_and_no_other(data_folder: Path) -> None:
    _, result = run_with_a_failed_condition(data_folder, Experiment("shots", (0, 1, 2)))

    assert undefined_conditions(result) == ["1 shots"]


def test_all_parts_are_undefined_if_one_of_their_contexts_failed(data_folder: Path) -> None:
    """Each part of the context has items of all contexts."""
    _, result = run_with_a_failed_condition(data_folder, Experiment("position", shots=1))

    assert undefined_conditions(result) == list(condition_rows(result))


@pytest.mark.parametrize(("gained", "lost"), [(12, 0), (0, 12), (4, 4)])
def test_missing_replies_have_the_largest_p_value_of_all_replies_in_their_place(gained: int, lost: int) -> None:
    """One item has no reply before, and one that is right before has none after."""
    before = [*[WRONG_ITEM] * gained, *[RIGHT_ITEM] * lost]
    after = [*[RIGHT_ITEM] * gained, *[WRONG_ITEM] * lost]

    def p_value_with(reply_before: Tally | None, reply_after: Tally | None) -> float:
        return mcnemar_p_value([*before, reply_before, RIGHT_ITEM], [*after, RIGHT_ITEM, reply_after])

    p_values_of_replies = [
        p_value_with(RIGHT_ITEM, RIGHT_ITEM),
        p_value_with(RIGHT_ITEM, WRONG_ITEM),
        p_value_with(WRONG_ITEM, RIGHT_ITEM),
        p_value_with(WRONG_ITEM, WRONG_ITEM),
    ]
    assert p_value_with(None, None) == pytest.approx(max(p_values_of_replies))


def predictions_with_25_hits(experimentor: Any) -> list[str]:
    """Predictions for 40 items: the first 25 are right, each other one has the label of the item before it."""
    gold = [item.gold[0] for item in experimentor.test_items]
    return gold[:25] + gold[24:39]


def run_with_missing_replies(folder: Path) -> Result:
    """25 of 40 items are right in both conditions, but the last ten, which are wrong, have no reply in the second.

    The score of the remaining replies rises in the second condition, although no prediction changes.
    """
    shots = benchmark(folder, Experiment("shots", (0, 1)), limit=40, unparsed="excluded")
    predictions = predictions_with_25_hits(shots[0])
    no_label = "?"
    result: Result = shots(preentered_prediction=[[*predictions, *predictions[:30], *[no_label] * 10]])
    return result


def test_scores_are_of_the_items_with_a_reply(data_folder: Path) -> None:
    first, second = condition_rows(run_with_missing_replies(data_folder)).values()

    assert first["score"] == 25 / 40
    assert second["score"] == 25 / 30
    assert second["items"] == 30


def test_a_difference_by_missing_replies_alone_is_not_significant(data_folder: Path) -> None:
    result = run_with_missing_replies(data_folder)
    _, second = condition_rows(result).values()

    assert second["difference"] == pytest.approx(25 / 30 - 25 / 40)
    assert second["difference_low"] < 0.0 < second["difference_high"]
    assert second["p_value"] == 1.0
    assert "missing replies count at their worst for each direction" in " ".join(str(result).split())


def test_missing_replies_are_wrong_ones_in_the_test_against_guessing(data_folder: Path) -> None:
    """The p-value is the chance of 25 or more hits in 40 guesses among 28 labels."""
    baselines = run_with_missing_replies(data_folder).details["goemotions"].baselines

    assert [of_condition.queries for of_condition in baselines.values()] == [40, 40]
    ways_of_as_many_hits = sum(math.comb(40, hits) * 27 ** (40 - hits) for hits in range(25, 41))
    assert baselines["1 shots"].p_value == pytest.approx(ways_of_as_many_hits / 28**40, rel=1e-9, abs=0)


def test_the_effect_of_the_position_is_untested_with_missing_replies(data_folder: Path) -> None:
    position = benchmark(data_folder, Experiment("position", (2,), shots=1), limit=40, unparsed="excluded")
    predictions = predictions_with_25_hits(position[0])

    result = position(preentered_prediction=[[*predictions, *predictions[:30], *["?"] * 10]])

    for name, row in condition_rows(result).items():
        assert row["difference_low"] < 0.0 < row["difference_high"], name
    assert result.divided["goemotions"]["experiment"]["p_value"] is None
    assert "the effect of the part of the context is untested" in str(result)


def test_equal_predictions_with_all_replies_show_no_effect_of_the_position(data_folder: Path) -> None:
    position = benchmark(data_folder, Experiment("position", (2,), shots=1), limit=40, unparsed="excluded")
    predictions = predictions_with_25_hits(position[0])

    result = position(preentered_prediction=[[*predictions, *predictions]])

    assert {row["difference"] for row in condition_rows(result).values()} == {0.0}
    assert result.divided["goemotions"]["experiment"]["p_value"] == 1.0


def right_with_chance(gold: list[str], chance: float, draw: random.Random) -> list[str]:
    """Return predictions that are right with this chance; a wrong one is another label of the data set."""
    first_label, second_label = sorted(set(gold))[:2]
    predictions = []
    for label in gold:
        wrong_label = second_label if label == first_label else first_label
        predictions.append(label if draw.random() < chance else wrong_label)
    return predictions


def without_replies_to_errors(predictions: list[str], gold: list[str], chance: float, draw: random.Random) -> list[str]:
    """Return the predictions, where each wrong one is replaced with this chance by a reply without a label."""
    replies = []
    for prediction, label in zip(predictions, gold, strict=True):
        is_missing = prediction != label and draw.random() < chance
        replies.append("?" if is_missing else prediction)
    return replies


@pytest.mark.parametrize("seed", range(5))
def test_a_condition_without_replies_to_its_errors_is_not_better_than_an_equal_one(
    data_folder: Path, seed: int
) -> None:
    """Both conditions are right on about 70 % of the items; the second has no label in 60 % of its wrong replies."""
    shots = benchmark(data_folder, Experiment("shots", (0, 1)), limit=40, unparsed="excluded")
    gold = [item.gold[0] for item in shots[0].test_items]
    draw = random.Random(seed)
    first = right_with_chance(gold, 0.7, draw)
    second = right_with_chance(gold, 0.7, draw)
    second_with_missing = without_replies_to_errors(second, gold, 0.6, draw)

    complete = condition_rows(shots(preentered_prediction=[[*first, *second]]))["1 shots"]
    with_missing = condition_rows(shots(preentered_prediction=[[*first, *second_with_missing]]))["1 shots"]

    assert with_missing["difference_low"] <= complete["difference"] <= with_missing["difference_high"]
    assert with_missing["difference_low"] < 0.0
    assert with_missing["p_value"] >= complete["p_value"]


@pytest.mark.parametrize(
    ("experiment", "message"),
    [
        (
            Experiment("order", (1000,)),
            r"got 1000 rotations of \d+ demonstrations, expected at most \d+, which",
        ),
        (Experiment("position", (1000,)), "got 1000 parts for 28 labels, expected at most 28, so that each part has"),
    ],
)
def test_levels_that_the_data_cannot_fill_say_what_is_expected(
    data_folder: Path, experiment: Experiment, message: str
) -> None:
    with pytest.raises(ArgumentError, match=message):
        long_icl_on(data_folder, ["goemotions"], experiment=experiment)


# -- memory


def test_a_run_keeps_the_prompts_of_one_condition_only(data_folder: Path) -> None:
    experiment = Experiment("context", levels=(9000, 9100, 9200, 9300, 9400, 9500))
    benchmark = long_icl_on(data_folder, ["banking77"], limit=40, experiment=experiment)
    characters_of_conditions = []
    for condition in benchmark[0].conditions():
        characters_of_conditions.append(sum(len(query.prompt) for query in condition.queries))

    tracemalloc.start()
    benchmark(lambda prompt, label_space: 0, progress=False)
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert len(characters_of_conditions) == 6
    bytes_of_two_conditions = sum(characters_of_conditions[:2])  # a character of these prompts is one byte
    assert peak_bytes < bytes_of_two_conditions


@pytest.mark.parametrize("option", ["shots", "seed"])
def test_an_option_that_an_experiment_does_not_have_is_named_alone(option: str) -> None:
    with pytest.raises(ArgumentError, match=f"^the experiment context has no option {option}[.:]"):
        Experiment("context", **{option: 7})
