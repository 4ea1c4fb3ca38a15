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
    """Choose demonstrations for each test row.

    A method calls it by ``nearest = yield from nearest_demonstrations(data, count)``.

    Args:
        data: The data of the method.
        count: How many demonstrations.
        options: How they are chosen.
        at_least: How many there must be; ``count`` by default. Where there are fewer than ``count``, all are chosen.

    Returns:
        For each test row, positions of the demonstration set, the nearest first. A demonstration without text is never
        chosen; a query without text gets the first demonstrations.

    Raises:
        ArgumentError: The benchmark has no demonstrations to choose, or too few.
    """
    near = yield from choose_near(data, count, options, count if at_least is None else at_least)
    lists = []
    for places in near.chosen:
        if places is None:
            lists.append(near.usable[:count])
        else:
            lists.append([near.usable[place] for place in places])
    count_duplicates(data, lists)
    return lists


def choose_near(
    data: MethodData, count: int, options: SelectionOptions, at_least: int
) -> Generator[Sequence[Request], list[list[Any]], NearDemonstrations]:
    """Choose demonstrations for each test row; warn of what is chosen in the place of near ones."""
    if not data.k or not count:
        raise ArgumentError("got k = 0, expected at least 1: there are no demonstrations to choose")
    data.refuse_several_lists()
    usable = demonstrations_with_text(data, options.demonstration_set_cut)
    if at_least > len(usable):
        raise ArgumentError(f"got {len(usable)} demonstrations with text, expected at least {at_least}")

    rows = data.demonstration_set
    reads_labels = options.rule == "balanced"
    pool = Pool(
        texts=[" ".join(rows.texts(position)) for position in usable],
        labels=[rows.label(position) for position in usable] if reads_labels else None,
    )
    query_texts = [" ".join(texts) for texts in data.test_texts]
    compared = yield from compare_texts(data, options.encoder, pool.texts, query_texts)

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
    chosen = choose_demonstrations(
        pool, query_texts, compared, min(count, len(usable)), options.rule, options.exclude_duplicates
    )
    return NearDemonstrations(chosen, usable)


def demonstrations_with_text(data: MethodData, cut: int | None) -> list[int]:
    """Return the positions of the demonstrations that have a text, of all or of the first ``cut``."""
    rows = data.demonstration_set
    size = len(rows)
    if cut is not None:
        size = min(size, validate_integer("demonstration_set_cut", cut, 1))
    return [position for position in range(size) if " ".join(rows.texts(position))]


def compare_texts(
    data: MethodData, encoder_choice: Any, pool_texts: Sequence[str], query_texts: Sequence[str]
) -> Generator[Sequence[Request], list[list[Any]], TextDistances]:
    """Encode texts, each once, unless they are compared by their words.

    Args:
        data: The data of the method.
        encoder_choice: The option ``encoder``.
        pool_texts: The texts of demonstrations. Encoding them is a cost of training.
        query_texts: The texts of test queries. Encoding them is a cost of the test.
    """
    if encoder_choice == "bm25":
        return WordOverlap()
    feature = encoder(encoder_choice)
    of_pool = list(dict.fromkeys(pool_texts))
    known = {"", *of_pool}
    of_queries = [text for text in dict.fromkeys(query_texts) if text not in known]
    pool_encodings, query_encodings = yield [
        data.ask(feature, [question_only(text) for text in of_pool], role="train"),
        data.ask(feature, [question_only(text) for text in of_queries]),
    ]
    return EncodedTexts([*of_pool, *of_queries], [*pool_encodings, *query_encodings])


def count_duplicates(data: MethodData, lists: Sequence[Sequence[int]]) -> None:
    """Note for how many queries a demonstration has exactly the text of the query.

    Args:
        data: The data of the method.
        lists: For each test row, positions of the demonstration set.
    """
    rows = data.demonstration_set
    duplicates = 0
    for texts, positions in zip(data.test_texts, lists, strict=True):
        text = " ".join(texts)
        shown = [" ".join(rows.texts(position)) for position in positions]
        if text and text in shown:
            duplicates += 1
    data.note("duplicates", duplicates)
