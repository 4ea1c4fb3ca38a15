"""The demonstrations that are nearest to each query, as a step of methods."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Any

from StaICC.arguments import validate_integer
from StaICC.errors import ArgumentError
from StaICC.methods.contract import MethodData
from StaICC.methods.options import option
from StaICC.methods.requests import Request
from StaICC.methods.selection_rules import Pool, SelectionRule, choose_demonstrations
from StaICC.methods.text_distances import EncodedTexts, TextDistances, WordOverlap
from StaICC.methods.text_encoders import encoder, encoder_signature
from StaICC.prompting.prompt_text import question_only


@dataclass(frozen=True, slots=True)
class SelectionOptions:
    """Options of methods that choose near demonstrations."""

    demonstration_set_cut: int | None = None
    """Choose from this many first demonstrations; none: from all (0.1.1: 512)."""
    encoder: str | Callable[[list[str]], Any] = option(
        "hidden",
        "What compares texts: hidden (states of the model), bm25, hf:NAME_OR_FOLDER (mean states of an encoder), "
        "sentence-transformers:NAME, or a function.",
        signature=encoder_signature,
    )
    rule: SelectionRule = "nearest"
    """How demonstrations are chosen: nearest, diverse, balanced (by label), vote-k or dpp."""
    exclude_duplicates: bool = False
    """Never choose a demonstration with exactly the text of the query."""


@dataclass(frozen=True)
class NearDemonstrations:
    """What was chosen for each query, before it is shown."""

    chosen: list[list[int] | None]
    """For each query, positions among :attr:`usable`; ``None`` for a query without text."""
    usable: list[int]
    """The demonstrations that have a text: positions of the demonstration set."""


def nearest_demonstrations(
    data: MethodData, count: int, options: SelectionOptions = SelectionOptions(), at_least: int | None = None
) -> Generator[Sequence[Request], list[list[Any]], list[list[int]]]:
    """Choose for each test row the demonstrations that are nearest to it, or by another rule of the options.

    A method calls it by ``nearest = yield from nearest_demonstrations(data, count)``.

    Args:
        data: The data of the method.
        count: How many demonstrations each test row gets.
        options: How they are chosen.
        at_least: The least number of demonstrations in the set; ``count`` by default. If the set has fewer than
            ``count``, each test row gets all of them.

    Returns:
        For each test row, positions of the demonstration set, the nearest first. A demonstration without text is never
        chosen; a query without text gets the first demonstrations.

    Raises:
        ArgumentError: The benchmark has no demonstrations to choose, or too few.
    """
    if at_least is None:
        at_least = count
    near = yield from choose_near(data, count, options, at_least)
    demonstrations_of_rows = []
    for chosen in near.chosen:
        if chosen is None:  # a query without text
            demonstrations_of_rows.append(near.usable[:count])
        else:
            demonstrations_of_rows.append([near.usable[number] for number in chosen])
    count_duplicates(data, demonstrations_of_rows)
    return demonstrations_of_rows


def choose_near(
    data: MethodData, count: int, options: SelectionOptions, at_least: int
) -> Generator[Sequence[Request], list[list[Any]], NearDemonstrations]:
    """Return for each test row the chosen demonstrations, as positions among those that have a text.

    Args:
        data: The data of the method; it gets warnings if there are too few demonstrations or queries without text.
        count: How many demonstrations each test row gets.
        options: How they are chosen.
        at_least: The least number of demonstrations with text in the set.

    Raises:
        ArgumentError: The benchmark has no demonstrations to choose, or too few.
    """
    if not data.k or not count:
        raise ArgumentError("got k = 0, expected at least 1: there are no demonstrations to choose")
    data.refuse_several_lists()
    usable = demonstrations_with_text(data, options.demonstration_set_cut)
    if at_least > len(usable):
        raise ArgumentError(f"got {len(usable)} demonstrations with text, expected at least {at_least}")

    rows = data.demonstration_set
    labels = None
    if options.rule == "balanced":  # labels that are read are a cost of the method
        labels = [rows.label(position) for position in usable]
    pool = Pool([" ".join(rows.texts(position)) for position in usable], labels)
    query_texts = [" ".join(texts) for texts in data.test_texts]
    text_distances = yield from compare_texts(data, options.encoder, pool.texts, query_texts)

    if len(usable) < count:
        data.warn(
            f"only {len(usable)} demonstrations have a text, so each query has {len(usable)} near ones, not {count}"
        )
    without_text = query_texts.count("")
    if without_text:
        data.warn(
            f"{without_text} test examples have no text, so nothing is near to them: they are shown the first "
            "demonstrations"
        )
    chosen_count = min(count, len(usable))
    chosen = choose_demonstrations(
        pool, query_texts, text_distances, chosen_count, options.rule, options.exclude_duplicates
    )
    return NearDemonstrations(chosen, usable)


def demonstrations_with_text(data: MethodData, cut: int | None) -> list[int]:
    """Return the positions of the demonstrations that have a text.

    Args:
        data: The data of the method.
        cut: How many of the first demonstrations are considered; ``None`` for all.
    """
    rows = data.demonstration_set
    size = len(rows)
    if cut is not None:
        size = min(size, validate_integer("demonstration_set_cut", cut, 1))
    return [position for position in range(size) if " ".join(rows.texts(position))]


def compare_texts(
    data: MethodData, encoder_choice: Any, pool_texts: Sequence[str], query_texts: Sequence[str]
) -> Generator[Sequence[Request], list[list[Any]], TextDistances]:
    """Return what computes the distances between texts: of their encodings, or by their words (``"bm25"``).

    Each distinct text is encoded once; an empty text is not encoded.

    Args:
        data: The data of the method.
        encoder_choice: The option ``encoder``.
        pool_texts: The texts of demonstrations. Encoding them is a cost of training.
        query_texts: The texts of test queries. Encoding them is a cost of the test.
    """
    if encoder_choice == "bm25":
        return WordOverlap()
    feature = encoder(encoder_choice)
    distinct_pool_texts = list(dict.fromkeys(pool_texts))
    not_encoded_again = {"", *distinct_pool_texts}
    other_query_texts = [text for text in dict.fromkeys(query_texts) if text not in not_encoded_again]
    pool_encodings, query_encodings = yield [
        data.ask(feature, [question_only(text) for text in distinct_pool_texts], role="train"),
        data.ask(feature, [question_only(text) for text in other_query_texts]),
    ]
    return EncodedTexts([*distinct_pool_texts, *other_query_texts], [*pool_encodings, *query_encodings])


def count_duplicates(data: MethodData, lists: Sequence[Sequence[int]]) -> None:
    """Note in the data of a method how many test rows are shown a demonstration with exactly their text.

    Args:
        data: The data of the method.
        lists: For each test row its demonstrations, as positions of the demonstration set.
    """
    rows = data.demonstration_set
    duplicate_count = 0
    for query_texts, positions in zip(data.test_texts, lists, strict=True):
        query_text = " ".join(query_texts)
        shown_texts = [" ".join(rows.texts(position)) for position in positions]
        if query_text and query_text in shown_texts:
            duplicate_count += 1
    data.note("duplicates", duplicate_count)
