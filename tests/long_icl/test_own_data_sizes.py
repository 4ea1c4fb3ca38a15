"""Own data of many sizes and languages in LongICL: number of labels, long contexts of short rows, filler."""

from __future__ import annotations

import itertools
import tracemalloc
import unicodedata
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from StaICC import Dataset, Experiment, LongICL
from StaICC.datasets.catalogue import SplitSizes
from StaICC.errors import ArgumentError
from StaICC.long_icl.filler import irrelevant_text
from StaICC.long_icl.own_data import load_own
from StaICC.prompting.views import split_dataset
from tests.long_icl.conftest import right_answers, score_replies
from tests.long_icl.languages import LANGUAGES
from tests.processor_time import check_growth


def short_rows(label_count: int, rows_per_label: int) -> list[tuple[str, str]]:
    """Return rows such as ("ask 3 of 17", "kind 17"): 20 reference tokens or less in a prompt."""
    rows = []
    for number in range(rows_per_label):
        for label in range(label_count):
            rows.append((f"ask {number} of {label}", f"kind {label}"))
    return rows


def short_data(label_count: int, rows_per_label: int, **facts: Any) -> Dataset:
    return Dataset.from_rows(short_rows(label_count, rows_per_label), name="many", **facts)


@pytest.mark.parametrize("label_count", [20, 77, 150, 300])
def test_twelve_rows_of_each_label_are_enough_for_all_rounds(label_count: int) -> None:
    experimentor = LongICL(datasets=[short_data(label_count, rows_per_label=12)])["many"]

    for number in (1, 2, 3, 4, 5):
        shown = Counter(item.gold[0] for item in experimentor.data.demonstration_rows(number))
        assert shown == dict.fromkeys(experimentor.card.labels, number)
        assert experimentor.contexts[number].demonstrations == number * label_count
    assert score_replies(experimentor, right_answers(experimentor)).values["5R"] == 1.0


@pytest.mark.parametrize("label_count", [20, 77, 150, 300])
@pytest.mark.parametrize(
    "experiment",
    [
        Experiment("context", levels=(256,)),
        Experiment("length", levels=(256, 512)),
        Experiment("shots", levels=(0, 1, 5)),
        Experiment("order"),
        Experiment("position"),
        Experiment("controls"),
        Experiment("retrieval"),
    ],
    ids=lambda experiment: experiment.name,
)
def test_twelve_rows_of_each_label_are_enough_for_all_conditions(experiment: Experiment, label_count: int) -> None:
    data = short_data(label_count, rows_per_label=12)

    assert LongICL(datasets=[data], experiment=experiment)["many"].queries.unavailable == {}


def test_a_context_of_64k_tokens_is_filled_with_short_rows() -> None:
    """Of 16,000 rows, 512 are tested, and the default split has 4,096 demonstrations; the context needs more."""
    data = short_data(20, rows_per_label=800)
    assert len(split_dataset(data).demonstration) == 4096
    longest_row = max(len(f"text: {text}\nlabel: {label}\n") for text, label in short_rows(20, 800))

    experimentor = LongICL(datasets=[data], limit=5, experiment=Experiment("context", levels=(65_536,)))["many"]

    context = experimentor.context("64K")
    budget = 4 * 65_536  # characters; four of them are one reference token
    assert budget - longest_row < len(context) <= budget
    assert experimentor.contexts["64K"].demonstrations > 7500
    for item in experimentor.test_items:
        assert f"text: {item.texts[0]}\n" not in context


def test_all_rows_that_are_not_tested_can_be_demonstrations() -> None:
    data = load_own(short_data(20, rows_per_label=400))

    training_rows = {row.item().row for row in data.train}
    test_rows = {row.item().row for row in data.test}
    assert len(training_rows) == 20 * 400 - 512
    assert training_rows.isdisjoint(test_rows)


def test_the_demonstration_set_of_the_split_comes_first() -> None:
    own = short_data(20, rows_per_label=400)
    demonstration_rows = list(split_dataset(own).demonstration.indexes)

    training_rows = [row.item().row for row in load_own(own).train]

    assert training_rows[: len(demonstration_rows)] == demonstration_rows


def test_a_demonstration_set_of_the_user_s_size_is_not_enlarged() -> None:
    own = short_data(20, rows_per_label=400, split=SplitSizes(calibration=100, demonstration=300, test=40))

    experimentor = LongICL(datasets=[own], experiment=Experiment("context", levels=(1024, 8192)))["many"]

    assert len(load_own(own).train) == 300
    reason = experimentor.queries.unavailable["8K"]
    assert "with 300 demonstrations" in reason
    assert "split=" in reason


EXTRA_ROWS = itertools.count()


def prompt_with_all_rows(rows_per_label: int) -> str:
    """Return the first prompt of a context that needs all rows.

    Each call has one row more of each label, so that nothing is reused that an earlier call has computed.
    """
    rows_per_label += next(EXTRA_ROWS)
    data = short_data(20, rows_per_label)
    experiment = Experiment("context", levels=(rows_per_label * 32,))
    return str(LongICL(datasets=[data], limit=5, experiment=experiment)["many"].prompt_set()[0])


def peak_bytes(work: Callable[[], object]) -> int:
    tracemalloc.start()
    work()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return peak


FEW_ROWS, MANY_ROWS = partial(prompt_with_all_rows, 200), partial(prompt_with_all_rows, 1600)
"""Eight times as many rows. What grows with the square of the rows would take 64 times as much."""


def test_time_grows_with_the_rows_not_faster() -> None:
    assert len(MANY_ROWS()) > 7.5 * len(FEW_ROWS())
    check_growth(FEW_ROWS, MANY_ROWS, below=16)


def test_memory_grows_with_the_rows_not_faster() -> None:
    assert peak_bytes(MANY_ROWS) < 16 * peak_bytes(FEW_ROWS)


@pytest.mark.parametrize("written", ["{label}", " {label}。\n{text_prefix}...", "**{label}**"])
@pytest.mark.parametrize("name", LANGUAGES)
def test_replies_in_other_languages_are_read(name: str, written: str) -> None:
    language = LANGUAGES[name]
    experimentor = LongICL(datasets=[language.dataset(name)], rounds=[1], parsing="library")[name]

    replies = []
    for item in experimentor.test_items:
        replies.append(written.format(label=item.gold[0], text_prefix=language.text_prefix))

    assert score_replies(experimentor, replies).values["1R"] == 1.0


@pytest.mark.parametrize("name", LANGUAGES)
def test_prompts_in_other_languages_have_the_template_of_the_data(name: str) -> None:
    language = LANGUAGES[name]

    prompt = LongICL(datasets=[language.dataset(name)])[name].prompt_set()[0]

    assert str(prompt).startswith(language.instruction + language.text_prefix)


def controls_on(language: str) -> Any:
    """Return the prompts of the controls on data in a language, of which one shows irrelevant text in that language."""
    return LongICL(datasets=[LANGUAGES[language].dataset(language)], experiment="controls")[language]


@pytest.mark.parametrize("name", LANGUAGES)
def test_irrelevant_text_has_the_letters_of_the_language_and_no_label(name: str) -> None:
    language, experimentor = LANGUAGES[name], controls_on(name)

    filler = experimentor.context("irrelevant text").removeprefix(language.instruction)

    letters = [character for character in filler if unicodedata.category(character).startswith("L")]
    first, last = language.alphabet
    assert letters
    assert [letter for letter in letters if not first <= letter <= last] == []
    for label in experimentor.card.labels:
        assert label not in filler


@pytest.mark.parametrize("name", LANGUAGES)
def test_irrelevant_text_is_the_same_each_time(name: str) -> None:
    assert controls_on(name).context("irrelevant text") == controls_on(name).context("irrelevant text")


@pytest.mark.parametrize("name", LANGUAGES)
def test_all_controls_with_a_context_have_the_same_number_of_bytes(name: str) -> None:
    """A character has several bytes in some languages."""
    experimentor = controls_on(name)

    names = [name for name in experimentor.rounds if name != "zero shots"]
    sizes = {len(experimentor.context(name).encode()) for name in names}

    assert len(sizes) == 1


@pytest.mark.parametrize("name", LANGUAGES)
def test_padding_has_the_language_of_the_data(name: str) -> None:
    length = Experiment("length", levels=(256, 1024))
    experimentor = LongICL(datasets=[LANGUAGES[name].dataset(name)], experiment=length)[name]

    padded = experimentor.context("1K padded")

    budget = 4 * 1024  # bytes; four of them are one reference token
    assert budget - 200 <= len(padded.encode()) <= budget
    assert "harbour" not in padded, "a word of the published filler"


FIRST_WORDS = ["now", "then", "soon", "later", "here", "there", "please", "thanks", "again", "never"]
LAST_WORDS = ["some", "many", "few", "all", "none", "other", "same", "new", "old", "next", "last", "first"]


def test_the_filler_has_no_word_of_a_label_name_and_none_that_points_to_a_label() -> None:
    """Texts such as "The refunds of case-0 now some some hint0" of the label "refund_kind 0"."""
    rows = []
    for number in range(12):
        for label in range(25):
            common_words = " ".join(
                [
                    FIRST_WORDS[(number + label) % 10],
                    LAST_WORDS[(number * 5 + label) % 12],
                    LAST_WORDS[(number + label) % 12],
                ]
            )
            rows.append((f"The refunds of case-{number} {common_words} hint{label}", f"refund_kind {label}"))

    filler = load_own(Dataset.from_rows(rows, name="cases")).filler(5000)

    assert len(filler) == 5000
    assert "now" in filler.split()
    assert "refunds" not in filler, "it contains a word of the label names"
    assert "kind" not in filler
    assert "hint" not in filler, "each of these words occurs with one label only"


def test_data_whose_words_are_all_label_names_have_the_published_filler() -> None:
    """The texts of the label "w3" are "w3", "w3 w3", "w3 w3 w3", ..."""
    labels = [f"w{number}" for number in range(20)]
    rows = [(" ".join([label] * length), label) for length in range(1, 13) for label in labels]

    filler = load_own(Dataset.from_rows(rows, name="words")).filler(300)

    assert filler == irrelevant_text(300)


def test_retrieval_finds_similar_texts_without_blanks_between_words() -> None:
    """Twelve Chinese texts of each label: the name of a thing, and one more character."""
    last_characters = "甲乙丙丁戊己庚辛壬癸子丑"
    rows = []
    for thing, label in LANGUAGES["chinese"].things.items():
        rows += [(thing + character, label) for character in last_characters]
    own = Dataset.from_rows(rows, name="chinese")

    experimentor = LongICL(datasets=[own], experiment=Experiment("retrieval", levels=(2,)))["chinese"]

    for index, item in enumerate(experimentor.test_items[:20]):
        assert f"label: {item.gold[0]}\n" in experimentor.context("2 retrieved", index)


def test_own_data_too_small_for_a_level_say_what_there_is() -> None:
    message = r"the training data fills only \d+ reference tokens with 144 demonstrations"

    with pytest.raises(ArgumentError, match=message):
        LongICL(datasets=[short_data(20, rows_per_label=12)], experiment="context")
