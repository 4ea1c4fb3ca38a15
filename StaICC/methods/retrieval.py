"""Choice of prompts: demonstrations near to the query (TopK), their surest order (SA-ICL), an instruction (PPL-ICL).

TopK: Liu et al. 2022, "What Makes Good In-Context Examples". SA-ICL: Wu et al. 2023, "Self-Adaptive In-Context
Learning". A text's encoding is the model's last hidden state at its last token; the distances of all queries to all
demonstrations are one matrix product.

PPL-ICL (Gonen et al. 2023, "Demystifying Prompts in Language Models via Perplexity Estimation").
"""

from __future__ import annotations

import itertools
import json
import math
import operator
import pkgutil
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

from StaICC import numerics
from StaICC.arguments import validate_integer
from StaICC.benchmarks.experimentor import Experimentor
from StaICC.errors import ArgumentError, OutputError, unknown_name
from StaICC.inference.contract import Answer
from StaICC.inference.replies import Failure
from StaICC.kernels.protocol import Capability
from StaICC.methods import specification as spec
from StaICC.methods.features import check_answered, numpy, present
from StaICC.methods.nearness import euclidean, finite_matrix, nearest
from StaICC.metrics import released
from StaICC.optional import require
from StaICC.prompting.bm25 import bm25_scores
from StaICC.prompting.demonstrations import turns_of
from StaICC.prompting.prompt_text import question_only
from StaICC.prompting.stable_random import StableRandom

HIDDEN_STATES = frozenset({Capability.HIDDEN_STATES})


@dataclass(frozen=True, slots=True)
class RetrievalOptions:
    """Options of TopK."""

    demonstration_set_cut: int | None = None
    """Choose from this many first demonstrations; none: from all (0.1.1: 512)."""
    encoder: str | Callable[[list[str]], Any] = "hidden"
    """What compares texts: hidden (states of the model), bm25, hf:NAME_OR_FOLDER (mean states of an encoder),
    sentence-transformers:NAME, or a function."""
    rule: Literal["nearest", "diverse", "balanced", "vote-k"] = "nearest"
    """How demonstrations are chosen: nearest, diverse, balanced (by label) or vote-k."""
    exclude_duplicates: bool = False
    """Never choose a demonstration with exactly the text of the query."""

    @property
    def not_required(self) -> frozenset[Capability]:
        """The capabilities that the method does not need with these options."""
        return frozenset() if self.encoder == "hidden" else HIDDEN_STATES

    @property
    def signed(self) -> dict[str, str]:
        """What signatures contain in the place of values: of an encoder of transformers, the digest of its files."""
        is_model = isinstance(self.encoder, str) and self.encoder.startswith("hf:")
        return {"encoder": f"hf-{encoder(self.encoder).files[:12]}"} if is_model else {}


def near_demonstrations(data: spec.MethodData, count: int, at_least: int) -> Generator[Any, Any, list[list[int]]]:
    """Find the ``count`` nearest demonstrations of each test example, or as many as there are."""
    experimentor, options = data.experimentor, data.options
    if not experimentor.get_k():
        raise ArgumentError("got k = 0, expected at least 1: there are no demonstrations to choose")
    spec.refuse_several_lists(experimentor)
    pool, cut = [*experimentor.demonstration_set()], options.demonstration_set_cut
    if cut is not None or data.variant == "0.1.1":
        pool = pool[: validate_integer("demonstration_set_cut", RELEASED_CUT if cut is None else cut, 1)]
    texts = [" ".join(row[0]) for row in pool]
    usable = sum(map(bool, texts))
    if at_least > usable:
        raise ArgumentError(f"got {usable} demonstrations with text, expected at least {at_least}")
    queries = [experimentor.test_set().get_input_text(row) for row in range(experimentor.row_count)]
    query_texts = [" ".join(query) for query in queries]
    distances: Distances = bm25_distances
    if options.encoder != "bm25":
        distinct = [text for text in dict.fromkeys([*texts, *query_texts]) if text]
        (states,) = yield [data.training(encoder(options.encoder), list(map(question_only, distinct)), "encoding")]
        distances = vector_distances(distinct, states)
    data.warnings += _fallbacks(count, usable, sum(not text for text in query_texts))
    settings = min(count, usable), data.variant, options.rule, options.exclude_duplicates
    lists = nearest_demonstrations(distances, pool, queries, *settings)
    shown = [text in (texts[place] for place in own) for text, own in zip(query_texts, lists, strict=True) if text]
    data.notes["duplicates"] = float(sum(shown))
    return lists


def _fallbacks(count: int, usable: int, queries_without_text: int) -> list[str]:
    """Return what a choice of demonstrations does in the place of what it should.

    Args:
        count: How many demonstrations it should choose for each query.
        usable: How many demonstrations have a text.
        queries_without_text: How many queries have none.
    """
    warnings = []
    if usable < count:
        warnings.append(f"only {usable} demonstrations have a text, so each query has {usable} near ones, not {count}")
    if queries_without_text:
        warnings.append(
            f"{queries_without_text} test examples have no text, so nothing is near to them: they are shown the first "
            "demonstrations"
        )
    return warnings


def topk(data: spec.MethodData) -> spec.Steps:
    """Show each test example the demonstrations that are nearest to it, nearest first."""
    k = data.experimentor.get_k()
    lists = yield from near_demonstrations(data, k, k)
    data.experimentor = spec.with_demonstrations(data.experimentor, lists)
    (rows,) = yield [data.queries()]
    return rows


TOPK = spec.MethodSpec("topk", "TopK", topk, HIDDEN_STATES, options=RetrievalOptions)

RELEASED_CUT = 512
"""Number of demonstrations that 0.1.1 chooses from."""


Distances = Callable[[list[str], list[str]], Any]
"""Returns the distance of each of some texts to each of others: array (texts, others)."""


def vector_distances(texts: Sequence[str], states: Any) -> Distances:
    """Return the Euclidean distances between texts by their encodings.

    Args:
        texts: The texts, all different.
        states: The encoding of each.

    Raises:
        OutputError: An encoding is missing, or has NaN or an infinity.
    """
    matrix = finite_matrix(check_answered(states, "encoding"), "encoding")
    places = {text: place for place, text in enumerate(texts)}

    def distances(some: list[str], others: list[str]) -> Any:
        first, second = (matrix[[places[text] for text in part]] for part in (some, others))
        return euclidean(first, second)

    return distances


def bm25_distances(some: list[str], others: list[str]) -> Any:
    """Return distances by words: minus the score of :func:`StaICC.prompting.bm25.bm25_scores`."""
    return -numpy.array(bm25_scores(some, others))


def encoder(choice: Any) -> Any:
    """Return the feature that encodes texts.

    Args:
        choice: ``"hidden"``: the hidden states of the kernel; ``"hf:NAME_OR_FOLDER"``;
            ``"sentence-transformers:NAME"``; or a function that returns a vector for each text of a list.
    """
    kind, _, name = str(choice).partition(":")
    if isinstance(choice, str) and kind == "hf" and name:
        from StaICC.kernels.huggingface.sentence_encoder import SentenceEncoder

        return SentenceEncoder.from_spec(choice)
    if isinstance(choice, str) and kind == "sentence-transformers" and name:
        return _sentence_encoder(name)
    if choice != "hidden" and not callable(choice):
        raise unknown_name("encoder", choice, ["hidden", "bm25", "hf:NAME_OR_FOLDER", "sentence-transformers:NAME"])
    return choice


@lru_cache(maxsize=4)
def _sentence_encoder(name: str) -> Any:
    package = require("sentence_transformers", "hf", "encoding demonstrations")
    return package.SentenceTransformer(name).encode


SelectionRule = Literal["nearest", "diverse", "balanced", "vote-k"]
"""How demonstrations are chosen by their distances; see :func:`nearest_demonstrations`."""


def nearest_demonstrations(
    distances_of: Distances,
    demonstrations: Any,
    queries: Sequence[Sequence[str]],
    count: int,
    variant: spec.Variant = "paper",
    rule: SelectionRule = "nearest",
    exclude_duplicates: bool = False,
) -> list[list[int]]:
    """Choose demonstrations for each query (TopK; Liu et al. 2022, "What Makes Good In-Context Examples").

    Args:
        distances_of: Compares the texts; several input texts of a row are joined by blanks.
        demonstrations: Rows to choose from, each its input texts and its label.
        queries: Input texts of each query.
        count: How many to choose.
        variant: ``"0.1.1"`` counts positions among the demonstrations with text only, so that every demonstration after
            one without text is taken for the one before it (``tweet_eval_hate`` has four without).
        rule: ``"nearest"``; ``"balanced"``: the nearest of each label in turn, the label with the nearest first;
            ``"diverse"``: of the ``10 * count`` nearest, one after the other, the one that is most similar to the query
            and least to those chosen, with equal weights (maximal marginal relevance; Carbonell and Goldstein 1998);
            ``"vote-k"``: the nearest of 100 demonstrations that represent all (Su et al. 2023, fast vote-k).
        exclude_duplicates: Never choose a demonstration with exactly the text of the query.

    Returns:
        For each query, positions of the demonstrations, the nearest first and the first of equals first (``"diverse"``:
        in the order chosen). A demonstration without text is never chosen; a query without text gets the first ones.

    Raises:
        ArgumentError: There are too many duplicates of a query.
        OutputError: A state has NaN or an infinity.
    """
    texts = [" ".join(demonstrations[place][0]) for place in range(len(demonstrations))]
    usable = [place for place, text in enumerate(texts) if text]
    query_texts = [" ".join(query) for query in queries]
    # Equal texts share a column, so that their distances are equal to the last bit and their order is that of the set.
    distinct = {text: column for column, text in enumerate(dict.fromkeys(texts[place] for place in usable))}
    rows = {text: row for row, text in enumerate(dict.fromkeys(filter(None, query_texts)))}
    if not rows:
        return [usable[:count] for _ in query_texts]
    columns = [distinct[texts[place]] for place in usable]
    distances = numpy.array(distances_of(list(rows), list(distinct))[:, columns])
    if exclude_duplicates:
        for text, row in rows.items():
            distances[row, [texts[place] == text for place in usable]] = math.inf
        if (numpy.isfinite(distances).sum(1) < count).any():
            raise ArgumentError(f"got too many duplicates of a query, expected at least {count} other demonstrations")
    if rule == "vote-k":
        between = distances_of(list(distinct), list(distinct))[columns][:, columns]
        outside = numpy.ones(len(usable), bool)
        outside[representatives(between, max(count, 100))] = False
        distances[:, outside] = math.inf
    positions = range(len(usable)) if variant == "0.1.1" else usable
    lists = {}
    for text, own, order in zip(rows, distances, nearest(distances, len(usable)).tolist(), strict=True):
        if rule == "balanced":  # the nearest of each label in turn
            turns = turns_of([operator.index(demonstrations[usable[place]][1]) for place in order])
            order = [order[place] for turn in turns for place in turn]
        elif rule == "diverse":
            order = _diverse(distances_of, order[: 10 * count], own, [texts[place] for place in usable], count)
        lists[text] = [positions[place] for place in order[:count]]
    return [list(lists[text]) if text else usable[:count] for text in query_texts]


def _diverse(
    distances_of: Distances, candidates: Sequence[int], distances: Any, texts: Sequence[str], count: int
) -> list[int]:
    """Choose by maximal marginal relevance."""
    candidate_texts = [texts[place] for place in candidates]
    between = distances_of(candidate_texts, candidate_texts)
    rest, chosen = list(range(len(candidates))), list[int]()
    while len(chosen) < count:
        similarity = [max((-between[place, other] for other in chosen), default=0.0) for place in rest]
        values = [-distances[candidates[place]] - near for place, near in zip(rest, similarity, strict=True)]
        chosen.append(rest.pop(values.index(max(values))))
    return [candidates[place] for place in chosen]


def representatives(between: Any, number: int) -> list[int]:
    """Choose rows that represent all, by fast vote-k.

    Each row votes for its 150 nearest. The vote of a row counts a tenth for each chosen row that it voted for; chosen
    rows have no vote. Of equals, the one with most votes at the start is chosen, then the one that was voted for first,
    as in the authors' code.
    """
    others = between.copy()
    numpy.fill_diagonal(others, math.inf)
    votes = numpy.zeros(between.shape)
    numpy.put_along_axis(votes, nearest(others, min(150, len(between) - 1)), 1.0, axis=1)
    weights = numpy.ones(len(between))
    voter = votes.argmax(0)
    order = numpy.lexsort((-between[voter, range(len(between))], voter, -votes.sum(0)))
    chosen: list[int] = []
    while len(chosen) < min(number, len(between)):
        scores = weights @ votes
        scores[chosen] = -1.0
        chosen.append(int(order[scores[order].argmax()]))
        weights[votes[:, chosen[-1]] > 0] /= 10
        weights[chosen[-1]] = 0.0
    return chosen


# -- SA-ICL

CANDIDATES = 30
"""Nearest demonstrations from which the authors of SA-ICL draw orders."""


@dataclass(frozen=True, slots=True)
class OrderOptions(RetrievalOptions):
    """Options of SA-ICL."""

    orders: int = 10
    """Orders of the demonstrations that are tried."""
    candidates: int | None = None
    """Nearest demonstrations for orders; none: 30, in other variants k + 1."""


def surest_order(data: spec.MethodData) -> spec.Steps:
    """Predict with several orders of near demonstrations, and keep the prediction of the lowest entropy."""
    experimentor, k, given = data.experimentor, data.experimentor.get_k(), data.options.candidates
    number = validate_integer("orders", data.options.orders, 1)
    default = CANDIDATES if data.variant == "paper" else k + 1  # 5 for 4, as released
    count = default if given is None else validate_integer("candidates", given, k)
    optional = given is None and data.variant == "paper"
    near = yield from near_demonstrations(data, count, k if optional else count)
    views = views_of_orders(experimentor, near, number, data.variant)
    data.experimentor = views[0]
    answers = yield [data.queries(view=view) for view in views]
    return [_surest(candidates, data.variant) for candidates in zip(*answers, strict=True)]


SA_ICL = spec.MethodSpec(
    "sa_icl", "SA-ICL", surest_order, HIDDEN_STATES | {Capability.LABEL_SCORES}, options=OrderOptions
)


def _surest(candidates: Sequence[Answer | Failure], variant: str) -> Answer | Failure:
    rows = present(candidates)
    if not all(isinstance(row, list) for row in rows):
        raise OutputError("SA-ICL: the kernel returned labels, expected label probabilities")
    return rows[lowest_entropy(rows, variant)] if rows else candidates[0]


def views_of_orders(
    experimentor: Experimentor, lists: Sequence[Sequence[int]], number: int, variant: spec.Variant
) -> list[Experimentor]:
    """Return copies of an experimentor, each with another order of its ``k`` demonstrations.

    Args:
        experimentor: The experimentor.
        lists: For each test row within the limit, positions of the demonstration set.
        number: As for :func:`order_patterns`, and ``variant``.
        variant: ``"paper"``, ``"staicc"`` or ``"0.1.1"``.
    """
    patterns = order_patterns(len(lists), len(lists[0]), experimentor.get_k(), number, variant)
    views = [zip(lists, orders, strict=True) for orders in zip(*patterns, strict=True)]
    shown = [[[row[place] for place in order] for row, order in pairs] for pairs in views]
    return [spec.with_demonstrations(experimentor, of_view) for of_view in shown]


def order_patterns(
    queries: int, candidates: int, k: int, number: int, variant: spec.Variant
) -> list[list[tuple[int, ...]]]:
    """Return the orders of demonstrations that self-adaptive in-context learning evaluates for each query.

    Args:
        queries: How many queries.
        candidates: How many near demonstrations each query has.
        k: How many of them a prompt has.
        number: Number of orders; fewer if fewer exist.
        variant: ``"paper"``: drawn at random, all different, and as the last one the order of TopK, with the nearest
            next to the query (in the authors' code, random ones can be equal); ``"staicc"``: drawn at random;
            ``"0.1.1"``: the first in lexicographic order (the release shuffles them, and throws the shuffled list
            away).

    Returns:
        For each query its orders, each of ``k`` places among the candidates. A query's do not depend on how many
        queries come after it.

    Example:
        >>> order_patterns(1, 3, 2, 4, "0.1.1")
        [[(0, 1), (0, 2), (1, 0), (1, 2)]]
    """
    first = list(itertools.islice(itertools.permutations(range(candidates), k), number))
    if variant == "0.1.1" or math.perm(candidates, k) <= number:
        return [first for _ in range(queries)]
    generator = StableRandom()
    last = [tuple(reversed(range(k)))] if variant == "paper" else []
    patterns = []
    for _ in range(queries):
        drawn: dict[tuple[int, ...], None] = {}
        while len(drawn) < number - len(last):
            order = tuple(generator.sample_indexes(candidates, k))
            if order not in last:
                drawn[order] = None
        patterns.append([*drawn, *last])
    return patterns


def lowest_entropy(rows: Sequence[Sequence[float]], variant: str = "paper") -> int:
    """Return the position of the distribution with the lowest entropy, the first of equals.

    Args:
        rows: Distributions over the labels.
        variant: ``"0.1.1"`` takes the release's entropy: that of the softmax where a row, added from left to right,
            misses 1.0 by an ulp. Which rows do is a matter of the last bit, so its choice does not survive another
            order of additions inside the model.

    Example:
        >>> lowest_entropy([[0.5, 0.5], [0.0, 1.0], [1.0, 0.0]])
        1
    """
    entropy = released.entropy if spec.check_variant(variant) == "0.1.1" else numerics.entropy
    entropies = [entropy(row) for row in rows]
    return entropies.index(min(entropies))


LOSSES = frozenset({Capability.LOSSES})


@dataclass(frozen=True, slots=True)
class InstructionOptions:
    """Options of PPL-ICL."""

    instructions: Sequence[str] | Mapping[str, Sequence[str]] | None = None
    """Candidate instructions, or lists of them by data set; none: those of the release."""


def choose_instruction(data: spec.MethodData) -> spec.Steps:
    """Set the instruction whose prompts have the lowest mean perplexity."""
    experimentor, given = data.experimentor, data.options.instructions
    if isinstance(given, Mapping):
        given = given.get(experimentor.name)
    candidates = check_instructions(instructions_for(experimentor.name) if given is None else given)
    conditions = spec.with_settings(experimentor, instruction=candidates[0]).conditions()
    for prompt in (condition.queries[0].prompt for condition in conditions if condition.queries):
        if not (prompt if isinstance(prompt, str) else prompt[0]).startswith(candidates[0]):
            raise ArgumentError(f"{experimentor.task.name} sets the instruction itself, so PPL-ICL cannot choose it")
    tried = instruction_prompts(candidates, experimentor, data.variant, data.calibration_number)
    (losses,) = yield [data.training("losses", [text for texts in tried for text in texts])]
    best = candidates[least_perplexity(losses, len(tried))]
    data.experimentor = spec.with_settings(experimentor, instruction=best)
    (rows,) = yield [data.queries()]
    return rows


PPL_ICL = spec.MethodSpec(
    "ppl_icl", "PPL-ICL", choose_instruction, LOSSES, lambda options, variant: variant != "0.1.1", InstructionOptions
)


def instructions_for(name: str) -> list[str]:
    """Return the candidate instructions of a data set: the five of the release, for ``mini`` five of ours.

    Args:
        name: The data set.

    Raises:
        ArgumentError: There are none for it.

    Example:
        >>> instructions_for("TREC")[0]
        'What is the topic of the question? '
    """
    instructions: Mapping[str, list[str]] = json.loads(pkgutil.get_data(__package__, "instructions.json") or b"{}")
    if name not in instructions:
        options = """option instructions (--method-option 'instructions=["...", "..."]')"""
        remedy = f"Give a list of texts: the {options}, or instruction_set of PPL_ICL"
        raise ArgumentError(f"no candidate instructions for {name!r}. {remedy}")
    return instructions[name]


def check_instructions(instructions: Any) -> list[str]:
    """Return the candidate instructions; refuse what is no list of texts."""
    if isinstance(instructions, str) or not instructions or not all(isinstance(text, str) for text in instructions):
        raise ArgumentError(f"instruction_set must be a list of texts, not {instructions!r}")
    return list(instructions)


def least_perplexity(losses: Sequence[Any], candidates: int) -> int:
    """Return the candidate, the first of equals, whose texts have the lowest mean perplexity.

    Args:
        losses: The mean loss of each text, candidate by candidate.
        candidates: How many candidates.

    Raises:
        OutputError: A loss is missing or not finite.
    """
    losses = check_answered(losses, "instruction prompt")
    if not all(math.isfinite(loss) for loss in losses):
        raise OutputError(f"the model's losses {losses[:5]} are not finite; use a wider number type")
    size = len(losses) // candidates
    parts = [losses[start : start + size] for start in range(0, len(losses), size)]
    scores = [max(own) + math.log(math.fsum(math.exp(loss - max(own)) for loss in own) / size) for own in parts]
    return scores.index(min(scores))  # they are logarithms of mean perplexities


def instruction_prompts(
    instructions: Sequence[str], experimentor: Experimentor | None, variant: str, number: int
) -> list[list[str]]:
    """Return the texts whose perplexity decides about each instruction: full prompts, or (0.1.1) instructions alone.

    Args:
        instructions: The candidates.
        experimentor: Its prompt writer and calibration set; not needed for ``"0.1.1"``.
        variant: ``"paper"`` or ``"0.1.1"``.
        number: How many rows of the calibration set each instruction is tried on (``"paper"``).

    Raises:
        ArgumentError: No experimentor was given (``"paper"``), or its calibration set is empty.
    """
    if spec.check_variant(variant) == "0.1.1":
        return [[instruction] for instruction in instructions]
    if experimentor is None:
        raise ArgumentError("PPL-ICL: experimentor is missing; its prompts are needed to compare instructions")
    rows = experimentor.calibration_set()
    count = min(validate_integer("calibration_number", number, 1), len(rows))
    if not count:
        raise ArgumentError("the calibration set is empty")
    indexes = StableRandom().sample_indexes(len(rows), count)
    tried = []
    for instruction in instructions:
        write = spec.with_settings(experimentor, instruction=instruction).prompt_former.write_prompt_from_dataline
        prompts = [write([], rows[index][0]) for index in indexes]
        tried.append([text for prompt in prompts for text in ([prompt] if isinstance(prompt, str) else prompt)])
    return tried
