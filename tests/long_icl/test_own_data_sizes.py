"""Own data of many sizes and languages in LongICL: number of labels, long contexts of short rows, filler."""

from __future__ import annotations

import time
import tracemalloc
import unicodedata

import pytest

from StaICC import Dataset, Experiment, LongICL
from StaICC.datasets.catalogue import SplitSizes
from StaICC.errors import ArgumentError
from StaICC.long_icl.filler import irrelevant_text
from StaICC.long_icl.own_data import load_own
from StaICC.prompting.views import split_dataset
from tests.long_icl.conftest import right_answers, scored
from tests.long_icl.languages import LANGUAGES


def rows_of(label_count: int, rows_per_label: int) -> list[tuple[str, str]]:
    """Short rows: 20 reference tokens or less in a prompt."""
    return [
        (f"ask {turn} of {label}", f"kind {label}") for turn in range(rows_per_label) for label in range(label_count)
    ]


@pytest.mark.parametrize("label_count", [20, 77, 150, 300])
def test_twelve_rows_of_each_label_are_enough_for_all_rounds_and_experiments(label_count: int) -> None:
    dataset = Dataset.from_rows(rows_of(label_count, 12), name="many")
    rounds = LongICL(datasets=[dataset])["many"]
    shown = {number: contexts.demonstrations for number, contexts in rounds.contexts.items()}
    assert shown == {number: number * label_count for number in range(1, 6)}
    for number in range(1, 6):
        labels = [item.gold[0] for item in rounds.data.demonstration_rows(number)]
        assert [label for label in rounds.card.labels if labels.count(label) != number] == []
    assert scored(rounds, right_answers(rounds)).values["5R"] == 1.0
    for experiment in (
        Experiment("context", levels=(256,)),
        Experiment("length", levels=(256, 512)),
        Experiment("shots", levels=(0, 1, 5)),
        Experiment("order"),
        Experiment("position"),
        Experiment("controls"),
        Experiment("retrieval"),
    ):
        assert LongICL(datasets=[dataset], experiment=experiment)["many"].queries.unavailable == {}, experiment.name


def test_a_context_of_64k_tokens_is_filled_with_short_rows() -> None:
    dataset = Dataset.from_rows(rows_of(20, 800), name="many")  # 16,000 rows, of which 512 are tested
    demonstration_set = len(split_dataset(dataset).demonstration)
    benchmark = LongICL(datasets=[dataset], limit=5, experiment=Experiment("context", levels=(64 * 1024,)))
    contexts = benchmark["many"].contexts["64K"]
    assert demonstration_set == 4096  # the most of the default split
    assert contexts.demonstrations > 7500
    context = benchmark["many"].context("64K")
    longest_row = max(len(f"text: {text}\nlabel: {label}\n") for text, label in rows_of(20, 800))
    assert 4 * 64 * 1024 - longest_row < len(context) <= 4 * 64 * 1024
    tested = {item.texts[0] for item in benchmark["many"].test_items}
    assert [text for text in tested if f"text: {text}\n" in context] == []


def test_all_rows_that_are_not_tested_can_be_demonstrations() -> None:
    dataset = Dataset.from_rows(rows_of(20, 400), name="many")
    data = load_own(dataset)
    assert len(data.train) == 20 * 400 - 512
    rows = {row.item().row for row in data.train}
    assert rows.isdisjoint(row.item().row for row in data.test)
    split = split_dataset(dataset)
    first_rows = [row.item().row for row in data.train[: len(split.demonstration)]]
    assert first_rows == list(split.demonstration.indexes)


def test_sizes_that_the_user_names_are_kept() -> None:
    dataset = Dataset.from_rows(rows_of(20, 400), name="many", split=SplitSizes(100, 300, 40))
    assert len(load_own(dataset).train) == 300
    benchmark = LongICL(datasets=[dataset], experiment=Experiment("context", levels=(1024, 8 * 1024)))
    reason = benchmark["many"].queries.unavailable["8K"]
    assert "with 300 demonstrations" in reason
    assert "split=" in reason


def test_time_and_memory_grow_with_the_rows_not_faster() -> None:
    """Eight times as many rows: less than 16 times the time and memory."""
    costs = []
    for rows_per_label in (200, 1600):
        dataset = Dataset.from_rows(rows_of(20, rows_per_label), name="many")
        experiment = Experiment("context", levels=(rows_per_label * 32,))
        tracemalloc.start()
        begin = time.process_time()
        benchmark = LongICL(datasets=[dataset], limit=5, experiment=experiment)
        prompt = str(benchmark["many"].prompt_set()[0])
        seconds = time.process_time() - begin
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        costs.append((seconds, peak, len(prompt)))
    (seconds, peak, size), (more_seconds, more_peak, more_size) = costs
    assert more_size > 7.5 * size
    assert more_seconds < 16 * max(seconds, 0.05)
    assert more_peak < 16 * peak


@pytest.mark.parametrize("name", LANGUAGES)
def test_own_data_in_other_languages(name: str) -> None:
    language = LANGUAGES[name]
    dataset = language.dataset(name)
    benchmark = LongICL(datasets=[dataset], parsing="library")[name]
    prompt = str(benchmark.prompt_set()[0])
    assert prompt.startswith(language.instruction + language.text_prefix)
    gold = [item.gold[0] for item in benchmark.test_items]
    for replies in (
        gold,
        [f" {label}。\n{language.text_prefix}..." for label in gold],
        [f"**{label}**" for label in gold],
    ):
        assert scored(benchmark, replies * 5).values["1R"] == 1.0, replies[0]


@pytest.mark.parametrize("name", LANGUAGES)
def test_the_filler_has_the_language_of_the_data(name: str) -> None:
    language = LANGUAGES[name]
    dataset = language.dataset(name)
    first, last = language.alphabet
    controls = LongICL(datasets=[dataset], experiment="controls")[name]
    filler = controls.context("irrelevant text").removeprefix(language.instruction)
    letters = [character for character in filler if unicodedata.category(character).startswith("L")]
    assert letters
    assert [character for character in letters if not (first <= character <= last)] == []
    for label in dataset.card.label_space:
        assert label not in filler
    sizes = {len(controls.context(condition).encode()) for condition in controls.rounds if condition != "zero shots"}
    assert len(sizes) == 1  # also where a character has several bytes
    again = LongICL(datasets=[language.dataset(name)], experiment="controls")[name]
    assert again.context("irrelevant text") == controls.context("irrelevant text")

    length = LongICL(datasets=[dataset], experiment=Experiment("length", levels=(256, 1024)))[name]
    padded = length.context("1024 padded" if "1024 padded" in length.rounds else "1K padded")
    assert len(padded.encode()) in range(4 * 1024 - 200, 4 * 1024 + 1)
    assert "harbour" not in padded


def test_the_filler_has_no_word_of_a_label_name_and_none_that_points_to_a_label() -> None:
    words = ("now", "then", "soon", "later", "here", "there", "please", "thanks", "again", "never")
    more = ("some", "many", "few", "all", "none", "other", "same", "new", "old", "next", "last", "first")
    rows = []
    for turn in range(12):
        for number in range(25):
            common = f"{words[(turn + number) % 10]} {more[(turn * 5 + number) % 12]} {more[(turn + number) % 12]}"
            rows.append((f"The refunds of case-{turn} {common} hint{number}", f"refund_kind {number}"))
    filler = load_own(Dataset.from_rows(rows, name="cases")).filler(5000)
    assert len(filler) == 5000
    assert "now" in filler.split()
    assert "refunds" not in filler  # contains a word of the label names
    assert "kind" not in filler
    assert "hint" not in filler  # each of these words occurs with one label only


def test_data_whose_words_are_all_label_names_have_the_published_filler() -> None:
    rows = [(" ".join([label] * turn), label) for turn in range(1, 13) for label in (f"w{n}" for n in range(20))]
    assert load_own(Dataset.from_rows(rows, name="words")).filler(300) == irrelevant_text(300)


def test_retrieval_finds_similar_texts_without_blanks_between_words() -> None:
    language = LANGUAGES["chinese"]
    rows = [
        (f"{thing}{form}", label) for thing, label in language.things.items() for form in "甲乙丙丁戊己庚辛壬癸子丑"
    ]
    dataset = Dataset.from_rows(rows, name="chinese")
    benchmark = LongICL(datasets=[dataset], experiment=Experiment("retrieval", levels=(2,)))["chinese"]
    for place, item in enumerate(benchmark.test_items[:20]):
        assert f"label: {item.gold[0]}\n" in benchmark.context("2 retrieved", place)


def test_own_data_too_small_for_a_level_say_what_there_is() -> None:
    dataset = Dataset.from_rows(rows_of(20, 12), name="many")
    with pytest.raises(
        ArgumentError, match=r"the training data fills only \d+ reference tokens with 144 demonstrations"
    ):
        LongICL(datasets=[dataset], experiment="context")
