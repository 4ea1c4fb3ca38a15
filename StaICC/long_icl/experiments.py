"""Experiments: what a long context does, one factor at a time.

An experiment replaces the rounds of a run by *conditions*: contexts for the same test items, which differ in one
factor. The factors are the length of the context, the demonstrations per label, their order, the position of the
demonstrations of the true label, and their content; ``helmet`` has the contexts of another benchmark. Conditions follow
from the data, the options and a seed, so equal options give equal prompts for all models.

A longer context usually shows more labels, too. So each condition has its *coverage*: the labels that it shows, the
share of test items whose label is shown, and the demonstrations per shown label.

A further experiment is a function in :data:`DESIGNS`.
"""

from __future__ import annotations

import hashlib
import random
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, compress
from operator import not_
from typing import Any, TypeVar

from StaICC.arguments import known_name, set_integers, validate_integer
from StaICC.benchmarks.score_intervals import aligned
from StaICC.errors import ArgumentError
from StaICC.long_icl.cards import TaskCard, cards
from StaICC.long_icl.loading import MOST_TURNS, LongICLData
from StaICC.long_icl.prompts import Item, as_shown, write_context, write_demonstration, write_instruction
from StaICC.long_icl.scoring import Tally, score_tallies, scored, value_of
from StaICC.long_icl.selection import SEED, balanced
from StaICC.metrics.intervals import MetricTerm, combine, of_difference, ratio_part
from StaICC.metrics.paired_tests import PairedDifference, holm, p_value, upper_p_value
from StaICC.prompting.demonstrations import bm25_scores, rows_by_label
from StaICC.prompting.prompt_text import PromptParts

_BYTES = 4
_MOST = 10**9 - 1  # the largest number of an option, which fits into a signature
_Value = TypeVar("_Value")


def reference_tokens(text: str) -> int:
    """Return the length of a text in reference tokens, which do not depend on a model: four bytes of UTF-8 each.

    Example:
        >>> reference_tokens("service query: Where is it?")
        7
    """
    return -(-_size(text) // _BYTES)


def to_bytes(text: str) -> bytes:
    """Return a text in UTF-8."""
    return text.encode("utf-8", "surrogatepass")


def _size(text: str) -> int:
    return len(to_bytes(text))


ShownLabels = tuple[tuple[str, ...], ...]
"""The labels of each demonstration of a context."""


@dataclass(frozen=True, slots=True)
class Contexts:
    """What the prompts of a condition (a round, or a level of an experiment) show before the query."""

    context: PromptParts | Callable[[int], PromptParts]
    """What is before the query, for all test items; or a function that writes that of a test item, so that long
    contexts are not in memory together."""
    demonstrations: float
    """Number of demonstrations (for a context of each test item: of one context; the mean, where some were dropped)."""
    labels: tuple[str, ...] | Callable[[int], tuple[str, ...]] = ()
    """Names that replace those of the labels, in the order of the card, or a function that returns those of a test
    item; empty: the card's."""
    shown: tuple[ShownLabels, ...] = ((),)
    """The labels of each demonstration in the order of the prompt, as in the card: of the shared context, or of that of
    each test item."""
    shown_to: Callable[[int], ShownLabels] | None = None
    """Returns them for a test item, where :attr:`shown` has those of one context for all."""
    compared: str = ""
    """The condition from which the difference is computed; empty: the first one."""

    @property
    def shared(self) -> bool:
        """Whether all test items have one context."""
        return isinstance(self.context, PromptParts)

    def context_of(self, place: int) -> PromptParts:
        """Return the context of a test item: instruction and demonstrations, with an empty question."""
        return self.context if isinstance(self.context, PromptParts) else self.context(place)

    def labels_of(self, place: int) -> tuple[str, ...]:
        """Return the names of the labels in the prompt of a test item; empty: the card's."""
        return self.labels if isinstance(self.labels, tuple) else self.labels(place)

    def shown_labels(self, place: int) -> ShownLabels:
        """Return the labels of each demonstration in the context of a test item."""
        if self.shown_to:
            return self.shown_to(place)
        if len(self.shown) == 1:
            return self.shown[0]
        return self.shown[place]

    def sent(self, dropped: Sequence[int]) -> Contexts:
        """Return what the model read, where demonstrations were dropped because prompts were too long.

        Args:
            dropped: For each test item, how many demonstrations were dropped from the front.
        """
        if not any(dropped):
            return self
        kept = []
        lost = 0
        for place, count in enumerate(dropped):
            of_item = self.shown_labels(place)
            kept.append(of_item[count:])
            if len(of_item) == self.demonstrations:
                lost += count
            else:  # merged dialogues: the number of demonstrations is that of their labels
                lost += sum(map(len, of_item[:count]))

        def context(place: int) -> PromptParts:
            return self.context_of(place).without_first(dropped[place])

        number = self.demonstrations - lost / len(dropped)
        return replace(self, context=context, demonstrations=number, shown=tuple(kept), shown_to=None)

    def shows(self, labels: Sequence[Sequence[str]]) -> list[list[bool]]:
        """Return whether the context of each test item shows its true labels, given those of all test items."""
        sets = [frozenset(chain.from_iterable(shown)) for shown in self.shown]
        if len(sets) == 1:
            sets *= len(labels)
        return [[label in shown for label in of_item] for shown, of_item in zip(sets, labels, strict=True)]

    def coverage(self, labels: Sequence[Sequence[str]]) -> dict[str, float]:
        """Return the labels that a context shows, the share of true labels that are shown, demonstrations per label.

        Args:
            labels: The true labels of each test item.
        """
        numbers = [len(set(chain.from_iterable(shown))) for shown in self.shown]
        known = [*chain.from_iterable(self.shows(labels))]
        return {
            "labels_shown": sum(numbers) / len(numbers),
            "share_shown": sum(known) / max(1, len(known)),
            "per_shown_label": sum(len(labels) for shown in self.shown for labels in shown) / max(1, sum(numbers)),
        }


Conditions = dict[str, Contexts | str]


@dataclass(frozen=True, slots=True)
class Material:
    """What conditions are made of."""

    data: LongICLData
    items: tuple[Item, ...]
    """The test items."""
    instruct: bool

    def shots(self, number: int) -> list[Item]:
        """Return a number of demonstrations of each label, in the published order.

        Raises:
            ArgumentError: A label has fewer.
        """
        turns = self.data.turns(number)
        complete = sum(len(turn) == len(self.data.card.labels) for turn in turns)
        if complete < number:
            there = f"the training data has {complete} demonstrations of every label"
            raise ArgumentError(f"{self.data.card.title}: got {number} shots, but {there}")
        return [self.data.train[place].item() for place in chain.from_iterable(turns)]

    def round(self, number: int) -> Contexts:
        """Return the contexts of a round; the number of demonstrations is that before dialogues are merged."""
        rows = self.data.demonstration_rows(number)
        shown = as_shown(self.data.card, rows)
        return replace(self.contexts(shown), demonstrations=len(rows))

    def contexts(self, shown: Sequence[Item], card: TaskCard | None = None, size: int = 0) -> Contexts:
        """Return the contexts that show demonstrations to all test items.

        Args:
            shown: The demonstrations.
            card: With other names of labels, which the demonstrations have.
            size: Bytes of the context; a shorter one gets irrelevant text before the demonstrations.
        """
        own = card or self.data.card
        context = write_context(own, shown, instruct=self.instruct)
        room = size - _size(context.text)
        if room > 0:
            context = replace(context, instruction=context.instruction + _irrelevant_text(room))
        true = dict(zip(own.labels, self.data.card.labels, strict=True))
        names = own.labels if own.labels != self.data.card.labels else ()
        labels = tuple(tuple(true[label] for label in item.gold) for item in shown)
        return Contexts(context, len(shown), names, (labels,))


@dataclass(frozen=True, slots=True)
class Experiment:
    """An experiment and its options.

    Args:
        name: ``context``, ``length``, ``shots``, ``order``, ``position``, ``controls``, ``retrieval`` or ``helmet``.
        levels: ``context`` and ``length``: budgets in reference tokens (:func:`reference_tokens`), such as 4096;
            ``helmet``: lengths of HELMET, 4096 to 131072;
            ``shots``: demonstrations per label; ``order``: the number of rotations, which is also that of shuffles;
            ``position``: the number of parts of the context; ``retrieval``: numbers of retrieved demonstrations; empty
            for the default.
        shots: Demonstrations per label of the experiments ``order``, ``position``, ``controls`` and ``retrieval``.
        seed: Of shuffles and random demonstrations.

    Raises:
        ArgumentError: An option is invalid.
        UnknownNameError: The experiment is unknown.
    """

    name: str
    levels: tuple[int, ...] = ()
    shots: int = 3
    seed: int = 0

    def __post_init__(self) -> None:
        design = DESIGNS[known_name("experiment", self.name, DESIGNS)]
        if not isinstance(self.levels, Iterable):
            raise ArgumentError(f"levels must be whole numbers in a list, not {self.levels!r}")
        what = f"a level of the experiment {self.name}"
        levels = tuple(validate_integer(what, level, design.least, _MOST) for level in self.levels) or design.levels
        if sorted(set(levels)) != list(levels) or len(levels) > design.most:
            expected = "different numbers in rising order" if design.most > 1 else f"at most {design.most}"
            raise ArgumentError(f"levels of the experiment {self.name}: got {levels!r}, expected {expected}")
        set_integers(self, shots=1)
        object.__setattr__(self, "seed", validate_integer("seed", self.seed, 0, _MOST))
        if not design.has_shots and (self.shots, self.seed) != (3, 0):
            raise ArgumentError(f"the experiment {self.name} has no options shots and seed. Use levels")
        object.__setattr__(self, "levels", levels)

    def options(self) -> dict[str, str]:
        """Return the options that the signature contains."""
        levels = {"levels": "+".join(map(str, self.levels))} if self.levels else {}
        shots = {"shots": str(self.shots), "seed": str(self.seed)} if DESIGNS[self.name].has_shots else {}
        return {"experiment": self.name, **levels, **shots}

    def conditions(self, material: Material) -> Conditions:
        """Return the conditions by name; for one that the data cannot fill, the reason."""
        if material.data.card.structured:
            got = f"{material.data.card.title}: items have several labels, so experiments are not defined"
            raise ArgumentError(f"{got}. Name data sets with one label per item")
        return DESIGNS[self.name].write(self, material)


def _shuffled(values: Sequence[_Value], seed: int | str) -> list[_Value]:
    """Return a random order that is the same in all versions of Python."""
    draw = random.Random(seed).random  # only random() is promised to stay the same
    return [value for _, _, value in sorted((draw(), place, value) for place, value in enumerate(values))]


def _filled(
    material: Material, places: Iterable[int], budgets: Sequence[int], of: str = ""
) -> Iterator[tuple[str, list[Item], int, str]]:
    """Yield for each budget its name, as many demonstrations as it has room for, their bytes, and why it is not filled.

    Args:
        material: What conditions are made of.
        places: Training rows, in order.
        budgets: The budgets, in rising order.
        of: Which demonstrations these are, in messages.
    """
    card = material.data.card
    shown: list[Item] = []
    sizes = [_size(write_instruction(card, instruct=material.instruct))]
    for place in places:
        shown.append(material.data.train[place].item())
        sizes.append(sizes[-1] + _size(write_demonstration(card, shown[-1]).text))
        if sizes[-1] > _BYTES * budgets[-1]:
            break
    largest = -(-sizes[-1] // _BYTES)
    for budget in budgets:
        count, size, reason = bisect_right(sizes, _BYTES * budget) - 1, _BYTES * budget, ""
        if count == len(shown):
            cut = material.data.dataset is None and len(material.data.turns()) == MOST_TURNS
            every = f"first {MOST_TURNS} training rows of each label fill" if cut else "training data fills"
            reason = f"the {every} only {largest} reference tokens with {count} demonstrations{of}. Choose levels "
            reason += f"below {largest}, such as {largest // 4} {largest // 2}"
        elif count < 1:
            reason = f"no demonstration fits into {budget} reference tokens"
        else:
            size = sizes[count]
        yield _budget_name(budget), shown[:count], size, reason


def _budget_name(budget: int) -> str:
    return f"{budget // 1024}K" if budget % 1024 == 0 else str(budget)


def _context(experiment: Experiment, material: Material) -> Conditions:
    """Show as many demonstrations, in the published order, as a budget has room for."""
    filled = _filled(material, chain.from_iterable(material.data.turns()), experiment.levels)
    return {name: reason or material.contexts(shown) for name, shown, _, reason in filled}


def _length(experiment: Experiment, material: Material) -> Conditions:
    """Show the demonstrations of the first budget; add irrelevant text, or demonstrations of the same labels.

    Both contexts of a budget have the same number of bytes, so their difference is that of the demonstrations, and the
    difference between irrelevant text and the first context is that of the length alone.
    """
    order, larger = [*chain.from_iterable(material.data.turns())], experiment.levels[1:]
    ((first, base, _, reason),) = _filled(material, order, experiment.levels[:1])
    if not base:
        return {first: reason}
    conditions: Conditions = {first: material.contexts(base)}
    labels = {item.gold[0] for item in base}
    same = (place for place in order if material.data.train[place].label in labels)
    for name, shown, size, reason in _filled(material, same, larger, f" of the {len(labels)} labels") if larger else ():
        conditions[f"{name} padded"] = material.contexts(base, size=size)
        conditions[f"{name} same labels"] = reason or replace(material.contexts(shown), compared=f"{name} padded")
    return conditions


def _shots(experiment: Experiment, material: Material) -> Conditions:
    conditions: Conditions = {}
    for number in experiment.levels:
        try:
            conditions[f"{number} shots"] = material.contexts(material.shots(number))
        except ArgumentError as error:
            conditions[f"{number} shots"] = str(error)
    return conditions


def _order(experiment: Experiment, material: Material) -> Conditions:
    """Show the same demonstrations in the published order, rotated, and shuffled."""
    shown = material.shots(experiment.shots)
    (count,) = experiment.levels
    if count >= len(shown):
        raise ArgumentError(f"{material.data.card.title}: got {count} rotations of {len(shown)} demonstrations")
    numbers = range(1, count + 1)
    cuts = {number: len(shown) * number // (count + 1) for number in numbers}
    orders = {"published": shown} | {f"rotation {number}": shown[cut:] + shown[:cut] for number, cut in cuts.items()}
    orders |= {f"shuffle {number}": _shuffled(shown, experiment.seed * count + number) for number in numbers}
    return {name: material.contexts(order) for name, order in orders.items()}


def blocks_of(labels: Sequence[_Value], parts: int, seed: int) -> dict[_Value, int]:
    """Assign labels to blocks of equal size (up to one label) at random: the design of the experiment ``position``.

    In condition b, counted from 0, block k is in part (k + b) modulo the number of parts. So every label is in every
    part once, and the part does not depend on the label.
    """
    return {label: rank * parts // len(labels) for rank, label in enumerate(_shuffled(labels, seed))}


def _position(experiment: Experiment, material: Material) -> Conditions:
    (parts,) = experiment.levels
    labels = material.data.card.labels
    if parts > len(labels):
        raise ArgumentError(f"{material.data.card.title}: got {parts} parts for {len(labels)} labels")
    shown, blocks = material.shots(experiment.shots), blocks_of(labels, parts, experiment.seed)
    return {
        f"order {shift + 1}": material.contexts(sorted(shown, key=lambda item: (blocks[item.gold[0]] + shift) % parts))
        for shift in range(parts)
    }


_IRRELEVANT = (
    "The lamp in the harbour office was lit before the first boat came in.",
    "A cat slept on the folded nets, and nobody wanted to wake it.",
    "By noon the clouds had moved behind the hills, and the stones were dry again.",
    "Two children counted the steps of the lighthouse and found a different number each time.",
    "The baker closed early, because the flour had not arrived.",
    "Someone had painted the old gate green and left the brush beside it.",
    "In the evening the wind turned, and the flags pointed to the sea.",
    "A letter lay under the door, without a stamp and without a name.",
)
"""Sentences about no task."""


def _irrelevant_text(size: int) -> str:
    """Return text about no task, with a number of bytes; it ends with a line feed."""
    cycles = size // (len("".join(_IRRELEVANT)) + len(_IRRELEVANT)) + 1
    orders = (_shuffled(_IRRELEVANT, number * len(_IRRELEVANT)) for number in range(cycles))
    return "".join(f"{sentence} " for order in orders for sentence in order)[: size - 1] + "\n"


def _random_labels(card: TaskCard, shown: Sequence[Item], seed: int) -> list[str]:
    """Draw a label for each demonstration; draws again until they are together not longer than the true labels."""
    draw, most = random.Random(f"random labels {seed}").random, sum(_size(item.gold[0]) for item in shown)
    while True:
        labels = [card.labels[int(draw() * len(card.labels))] for _ in shown]
        if sum(map(_size, labels)) <= most:
            return labels


def _controls(experiment: Experiment, material: Material) -> Conditions:
    """Show no demonstrations, wrong labels, symbols as labels, and a text about something else, at equal length."""
    card, shown = material.data.card, material.shots(experiment.shots)
    codes = _shuffled(range(len(card.labels)), experiment.seed)
    digits, true = len(str(len(codes) - 1)), [item.gold[0] for item in shown]
    symbols = {label: f"S{code:0{digits}d}" for label, code in zip(card.labels, codes, strict=True)}
    labels = {
        "normal": (true, card),
        "shuffled labels": (_shuffled(true, experiment.seed), card),
        "random labels": (_random_labels(card, shown, experiment.seed), card),
        "symbols": ([symbols[label] for label in true], replace(card, labels=(*symbols.values(),))),
    }
    written = {
        name: ([replace(item, gold=(label,)) for item, label in zip(shown, names, strict=True)], own)
        for name, (names, own) in labels.items()
    }
    size = max(_size(write_context(own, items, instruct=material.instruct).text) for items, own in written.values())
    conditions = {name: material.contexts(items, own, size) for name, (items, own) in written.items()}
    normal = conditions.pop("normal")
    others = {"irrelevant text": material.contexts((), size=size)}
    return {"normal": normal, "zero shots": material.contexts(()), **conditions, **others}


def _retrieval(experiment: Experiment, material: Material) -> Conditions:
    """Show all demonstrations; to each test item the most similar ones by BM25, the most similar one last; random ones.

    As many random demonstrations tell similarity from the number of demonstrations.
    """
    pool = material.shots(experiment.shots)
    queries, texts = ([" ".join(item.texts) for item in items] for items in (material.items, pool))
    orders = {
        "retrieved": [sorted(range(len(pool)), key=lambda place: -row[place]) for row in bm25_scores(queries, texts)],
        "random": [_shuffled(range(len(pool)), f"{experiment.seed} {item.row}") for item in material.items],
    }

    def context(nearest: Sequence[Sequence[int]], number: int, place: int) -> PromptParts:
        shown = [pool[row] for row in reversed(nearest[place][:number])]
        return write_context(material.data.card, shown, instruct=material.instruct)

    conditions: Conditions = {"full context": material.contexts(pool)}
    for number in experiment.levels:
        for kind, nearest in orders.items():
            shown = tuple(tuple(pool[row].gold for row in reversed(places[:number])) for places in nearest)
            compared = f"{number} retrieved" if kind == "random" else ""
            conditions[f"{number} {kind}"] = (
                Contexts(partial(context, nearest, number), number, (), shown, compared=compared)
                if number < len(pool)
                else f"the full context has {len(pool)} demonstrations"
            )
    return conditions


def _helmet(experiment: Experiment, material: Material) -> Conditions:
    """Show as many demonstrations as HELMET does for a length: balanced ones, with numbers as labels.

    Each test item has its own demonstrations and numbers.
    """
    card, template = material.data.card, material.data.card.template
    if not card.shots or material.instruct:
        got, expected = "instruct=True" if card.shots else card.name, ", ".join(cards("HELMET"))
        raise ArgumentError(f"experiment helmet: got {got}, expected {expected}, without a label list")
    train = [row.item() for row in material.data.train]
    labels, index = [item.gold[0] for item in train], {label: place for place, label in enumerate(card.labels)}
    groups = rows_by_label(labels)

    def seed(place: int) -> int:
        return (int(hashlib.sha256(to_bytes(material.items[place].texts[0])).hexdigest(), 16) + SEED) % 2**31

    def numbers(place: int) -> tuple[str, ...]:
        shuffled = [*range(len(card.labels))]
        random.Random(seed(place)).shuffle(shuffled)
        return tuple(map(str, shuffled))

    def context(count: int, place: int) -> PromptParts:
        names = numbers(place)
        shown = []
        for row in balanced(groups, count, seed(place)):
            numbered = replace(train[row], gold=(names[index[labels[row]]],))
            shown.append(write_demonstration(card, numbered))
        return PromptParts(template.plain, tuple(shown), "")

    def shown_to(count: int, place: int) -> ShownLabels:
        return tuple((labels[row],) for row in balanced(groups, count, seed(place)))

    counts, conditions = dict(zip(_BUDGETS, card.shots, strict=True)), Conditions()
    for level in experiment.levels:
        count, name = counts.get(level, 0), _budget_name(level)
        conditions[name] = f"HELMET has no such length. Choose from {', '.join(map(_budget_name, _BUDGETS))}"
        if count:  # each context shows every label that has rows
            shown = tuple((labels[row],) for row in balanced(groups, count, seed(0)))
            of_items = partial(shown_to, count)
            conditions[name] = Contexts(partial(context, count), count, numbers, (shown,), shown_to=of_items)
    return conditions


@dataclass(frozen=True, slots=True)
class ExperimentDesign:
    """What an experiment does."""

    write: Callable[[Experiment, Material], Conditions]
    """Returns the conditions by name; for a condition that the data cannot fill, the reason."""
    levels: tuple[int, ...] = ()
    """The default."""
    least: int = 1
    """The least level."""
    most: int = 100
    """Maximum number of levels."""
    has_shots: bool = True
    """Whether ``shots`` and ``seed`` are options."""
    items: int = 100
    """Test items by default: the first of those of the benchmark."""
    suite: str = "LongICLBench"
    """The data sets by default: the cards of this benchmark."""


_BUDGETS = tuple(1024 * number for number in (4, 8, 16, 32, 64, 128))
DESIGNS: Mapping[str, ExperimentDesign] = {
    "context": ExperimentDesign(_context, _BUDGETS, has_shots=False),
    "length": ExperimentDesign(_length, _BUDGETS, has_shots=False),
    "shots": ExperimentDesign(_shots, (0, 1, 2, 5, 10), least=0, has_shots=False),
    "order": ExperimentDesign(_order, (4,), most=1),
    "position": ExperimentDesign(_position, (5,), least=2, most=1),
    "controls": ExperimentDesign(_controls, most=0),
    "retrieval": ExperimentDesign(_retrieval, (4, 16)),
    "helmet": ExperimentDesign(_helmet, _BUDGETS[1:], has_shots=False, items=500, suite="HELMET"),
}
"""The experiments by name."""


# -- what the conditions show: scores and differences with intervals, and the test of positions

REDRAWS = 1999
"""Designs that the test of positions draws; its smallest p-value is 1 / 2000."""
METHOD = "Wilson score, design effect and t, unit: "


def score_part(
    card: TaskCard, tallies: Sequence[Tally | None], level: float, units: Sequence[Hashable]
) -> MetricTerm | None:
    """Return a score with its limits and the influence of each unit; ``None`` with fewer than two units.

    Args:
        card: Card of the data set.
        tallies: One for each test item.
        level: Of the limits.
        units: The unit of each item: what another sample would draw again.
    """
    hits, sizes, accuracy = Counter[Hashable](), Counter[Hashable](), card.scoring.metric == "accuracy"
    for unit, tally in zip(units, scored(card.scoring, tallies), strict=False):
        if tally is not None:
            size = 1 if accuracy else len(tally.gold) + len(tally.predicted)
            hits[unit] += len(tally.correct) if accuracy else min(2 * len(tally.correct), size)
            sizes[unit] += size
    if len(sizes) < 2:
        return None
    return aligned(ratio_part([*hits.values()], [*sizes.values()], level), [*sizes], [*dict.fromkeys(units)])


def _lacks_replies(tallies: Sequence[Tally | None]) -> bool:
    """Return whether a condition has a missing reply: one without a label that is excluded."""
    return any(tally is None for tally in tallies)


def _completed(tallies: Sequence[Tally | None], labels: Sequence[str], correct: bool) -> list[Tally]:
    """Return the tallies of a condition with each missing reply as a correct, or as a wrong one.

    Args:
        tallies: One for each test item; ``None`` for a missing reply.
        labels: The true label of each test item.
        correct: Whether the missing replies are correct.
    """
    completed = []
    for tally, label in zip(tallies, labels, strict=True):
        if tally is not None:
            completed.append(tally)
        elif correct:
            completed.append(Tally((label,), (label,), (label,)))
        else:
            completed.append(Tally((label,), ("",), ()))
    return completed


def analyse(
    experiment: Experiment,
    card: TaskCard,
    items: Sequence[Item],
    contexts: Mapping[str, Contexts],
    tallies: Mapping[str, Sequence[Tally | None]],
    level: float | None,
) -> dict[str, Any]:
    """Return the scores of an experiment, their differences, and the p-value of the test of positions.

    The scores of ``position`` are not those of its conditions, but of the parts of the context: a part has each test
    item once, in the condition in which the demonstrations of its true label are in this part.

    Args:
        experiment: The experiment.
        card: Card of the data set.
        items: The test items.
        contexts: Those of each condition.
        tallies: For each condition one for each test item; empty if a query failed.
        level: Of the intervals; ``None`` for none.

    Returns:
        For each condition (``position``: each part of the context) ``items``, ``demonstrations``, its coverage
        (:meth:`Contexts.coverage`), ``reference_tokens`` (of the longest context), ``all_contexts`` (reference tokens
        of all distinct contexts together), ``score``, ``score_shown`` and ``score_not_shown`` (of the test items whose
        label the context shows, and of the others), and ``difference`` from the condition that ``compared`` names, the
        first one by default (``position``: from the mean of the other parts). Scores are those of the items with a
        reply, and so are differences; what is said of differences, their limits and p-values, holds whatever the
        missing replies would have been: they count at their worst for each direction. Scores and differences are
        followed by ``low`` and ``high``; ``band_low`` and ``band_high`` are limits of the scores of all conditions
        together (Bonferroni).
        ``p_value`` is that of an exact McNemar test of the difference, corrected by Holm for all differences; that of
        the test of positions is ``None`` if a reply is missing.
    """
    by_position, rows, labels = experiment.name == "position", [i.row for i in items], [i.gold[0] for i in items]
    units: Sequence[Hashable] = labels if by_position else rows
    gold = [(label,) for label in labels]
    analysis: dict[str, Any] = {"name": experiment.name, "conditions": {}}
    if by_position:
        tallies, analysis["p_value"] = _by_part(experiment, card, labels, list(tallies.values()))
    band = None if level is None else 1.0 - (1.0 - level) / len(tallies)

    def part_of(of_condition: Sequence[Tally | None], at: float | None) -> MetricTerm | None:
        return score_part(card, of_condition, at or 0.95, units) if of_condition else None

    def limits(key: str, part: MetricTerm | None, at: float | None, least: float) -> dict[str, float | None]:
        interval = None if part is None or at is None else part.interval(at, METHOD, least)
        low, high = (None, None) if interval is None else (interval.low, interval.high)
        return {f"{key}_low": low, f"{key}_high": high}

    def score_of(of_condition: Iterable[Tally | None]) -> float | None:
        return value_of(score_tallies(card.scoring, of_condition))

    def difference_of(pairs: Sequence[Sequence[Tally | None]]) -> MetricTerm | None:
        """Return the difference of the first condition from the mean of the others; ``None`` if one has no reply."""
        terms = [of_difference(term, level or 0.95) for own_items in pairs if (term := part_of(own_items, level))]
        if not terms or len(terms) < len(pairs):
            return None
        others = len(pairs) - 1
        return combine(terms, [1.0, *[-1.0 / others] * others])

    def with_missing(pairs: Sequence[Sequence[Tally | None]], first_correct: bool) -> list[list[Tally]]:
        """Return conditions with missing replies of the first one correct and of the others wrong, or the reverse."""
        first, *others = pairs
        completed = [_completed(other, labels, not first_correct) for other in others]
        return [_completed(first, labels, first_correct), *completed]

    conditions: dict[str, dict[str, Any]] = {}
    for (name, of_condition), own in zip(tallies.items(), contexts.values(), strict=True):
        candidates = tallies if by_position else [own.compared or next(iter(tallies))]
        others = [other for other in candidates if other != name]
        part = part_of(of_condition, level)
        pairs = [tallies.get(other, ()) for other in (name, *others)]
        if not others or not all(pairs):
            pairs = []
        change = difference_of(pairs)
        lowest = highest = change
        if any(map(_lacks_replies, pairs)):
            lowest, highest = difference_of(with_missing(pairs, False)), difference_of(with_missing(pairs, True))
        by_row = dict(zip(rows, zip(*pairs, strict=True), strict=True)) if pairs else {}  # HELMET may test a row twice
        texts = (own.context_of(place).text for place in range(1 if own.shared else len(labels)))
        sizes = {hashlib.sha256(to_bytes(text)).digest(): reference_tokens(text) for text in texts}
        shown = [is_shown for (is_shown,) in own.shows(gold)]
        conditions[name] = {
            "items": sum(tally is not None for tally in of_condition),
            "demonstrations": own.demonstrations,
            **own.coverage(gold),
            "reference_tokens": max(sizes.values()),
            "all_contexts": sum(sizes.values()),
            "score": score_of(of_condition) if part is None else part.value,  # one unit: without an interval
            **limits("score", part, level, 0.0),
            **limits("band", part_of(of_condition, band), band, 0.0),
            "score_shown": score_of(compress(of_condition, shown)),
            "score_not_shown": score_of(compress(of_condition, map(not_, shown))),
            "difference": change and change.value,
            "difference_low": limits("difference", lowest, level, -1.0)["difference_low"],
            "difference_high": limits("difference", highest, level, -1.0)["difference_high"],
            "p_value": mcnemar_p_value(*zip(*by_row.values(), strict=True)) if pairs and not by_position else None,
        }
    tested = [row for row in conditions.values() if row["p_value"] is not None]
    for row, adjusted in zip(tested, holm([row["p_value"] for row in tested]), strict=True):
        row["p_value"] = adjusted
    compared = {name: contexts[name].compared for name in tallies if name in contexts and contexts[name].compared}
    return analysis | {"compared": compared, "conditions": conditions}


def _by_part(
    experiment: Experiment, card: TaskCard, labels: Sequence[str], orders: Sequence[Sequence[Tally | None]]
) -> tuple[dict[str, list[Tally | None]], float | None]:
    """Return the tallies of ``position`` by part of the context, and the p-value; no tallies if a query failed.

    There is no p-value if a reply is missing: replies can be missing because of the position.
    """
    count, complete = len(orders), all(orders)
    blocks = blocks_of(card.labels, count, experiment.seed)
    parts = {
        f"part {part + 1}": [
            orders[(part - blocks[label]) % count][place] for place, label in enumerate(labels) if complete
        ]
        for part in range(count)
    }
    correct: dict[str, list[int]] = {label: [0] * count for label in card.labels}
    if not complete or any(map(_lacks_replies, orders)):
        return parts, None
    for order, of_order in enumerate(orders):
        for label, tally in zip(labels, of_order, strict=True):
            correct[label][order] += bool(tally and tally.correct)
    return parts, position_p_value(correct, blocks)


def mcnemar_p_value(first: Sequence[Tally | None], second: Sequence[Tally | None]) -> float:
    """Return the p-value of an exact McNemar test: two-sided, of the items that are correct in one condition only.

    Missing replies count at their worst for each direction: that the first condition is better is tested with those of
    the first as wrong and those of the second as correct, that the second one is better the other way round.

    Example:
        >>> right, wrong = Tally(("a",), ("a",), ("a",)), Tally(("a",), ("b",), ())
        >>> round(mcnemar_p_value([right] * 6, [wrong] * 5 + [right]), 12)
        0.0625
    """
    lowest = _difference_in_correct(first, second, first_correct=False)
    if not _lacks_replies(first) and not _lacks_replies(second):
        return p_value(lowest)
    highest = _difference_in_correct(first, second, first_correct=True)
    first_better = upper_p_value(lowest) if any(lowest.steps) else 1.0
    second_better = upper_p_value(highest.negated) if any(highest.steps) else 1.0
    return min(1.0, 2.0 * min(first_better, second_better))


def _difference_in_correct(
    first: Sequence[Tally | None], second: Sequence[Tally | None], first_correct: bool
) -> PairedDifference:
    """Return the difference in the number of correct items between two conditions.

    Args:
        first: The tallies of the first condition; ``None`` for a missing reply.
        second: Those of the second one.
        first_correct: Whether missing replies of the first condition are correct, and those of the second one wrong, or
            the other way round.
    """
    of_first = [float(first_correct if tally is None else bool(tally.correct)) for tally in first]
    of_second = [float(not first_correct if tally is None else bool(tally.correct)) for tally in second]
    steps = [before - after for before, after in zip(of_first, of_second, strict=True)]
    return PairedDifference(sum(of_first), sum(of_second), steps, lowest_step=-1.0, highest_step=1.0)


def position_p_value(
    correct: Mapping[str, Sequence[int]], blocks: Mapping[str, int], redraws: int = REDRAWS, seed: int = 0
) -> float:
    """Return the p-value of the hypothesis that the position of a label in the context changes no prediction.

    The design assigned labels to blocks at random. If positions change nothing, the predictions would be the same
    under every assignment. So the statistic, the variance of the number of correct predictions over the parts, is
    compared with that under other random assignments. The test is exact for any model: a constant one, one that is
    better on some labels or under some orders, and one whose predictions depend on each other.

    Args:
        correct: For each label the number of correct predictions in each condition.
        blocks: The block of each label (:func:`blocks_of`).
        redraws: Number of other assignments.
        seed: Of the draws.

    Source:
        Fisher 1935, "The Design of Experiments"; the p-value counts the observed assignment as one of the drawn ones.

    Example:
        >>> position_p_value({"a": [1, 0], "b": [0, 1], "c": [1, 0], "d": [0, 1]}, {"a": 0, "b": 1, "c": 0, "d": 1}, 9)
        0.4
    """
    draw = random.Random(seed).random
    slots = list(blocks.values())
    labels = [label for label in blocks if len(set(correct[label])) > 1]  # the others add the same to all parts
    count = max(slots) + 1
    by_block = [
        [tuple(correct[label][(part - block) % count] for part in range(count)) for block in range(count)]
        for label in labels
    ]

    def statistic(assigned: Sequence[int]) -> int:
        columns = zip(*(rows[block] for rows, block in zip(by_block, assigned, strict=False)), strict=True)
        return sum(number * number for number in map(sum, columns))

    observed = statistic([blocks[label] for label in labels])
    extreme = 0
    for _ in range(redraws):
        order = sorted((draw(), slot) for slot in slots)
        extreme += statistic([slot for _, slot in order]) >= observed
    return (1 + extreme) / (1 + redraws)
