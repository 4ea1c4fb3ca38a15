"""Pairs of models of which one fails on some queries: how often they are called different, and the power.

Two models are right at the same rate, and failures depend on the difficulty of a row, which both models share. The
first one fails in four ways. Each pair is compared as by ``compare``, ``rank``, ``compare_runs(reference=...)`` and
``compare_generalising``. For the power, models of accuracy 0.8 and 0.7 fail on a share of the queries.

    python tests/performance/missing_queries.py 200
"""

from __future__ import annotations

import logging
import random
import sys
from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple

import StaICC
from StaICC.comparing.verdicts import Tested, Worse
from StaICC.results.result import Result

ROWS = [(f"text {number}", number % 2) for number in range(900)]
NAMES = ("one", "two")
DATA = [
    StaICC.Dataset.from_rows([(f"{name} {text}", label) for text, label in ROWS], name=name, label_space=["no", "yes"])
    for name in NAMES
]
FAILED, EXCLUDED = "error", "excluded"
BENCHMARKS: dict[tuple[str, str], Any] = {}
for policy in (FAILED, EXCLUDED):
    BENCHMARKS["normal", policy] = StaICC.Normal(datasets=DATA, limit=100, k=1, unparsed=policy)  # type: ignore[typeddict-item]
    BENCHMARKS["generalisation", policy] = StaICC.Generalisation(
        datasets=DATA[:1],
        limit=80,
        draws=3,
        templates=3,
        k=1,
        unparsed=policy,  # type: ignore[typeddict-item]
    )
QUERIES = {
    key: [query for own in benchmark.experimentor for query in own.all_queries()]
    for key, benchmark in BENCHMARKS.items()
}

IsLost = Callable[[bool, float, float], bool]
"""Whether a query is lost, from whether the model is right, the difficulty of the row, and a uniform random number."""


class Way(NamedTuple):
    """How a run has no score for some queries."""

    policy: str
    """:data:`FAILED`, or :data:`EXCLUDED` for replies without a label."""
    is_lost: IsLost


def most_errors(is_right: bool, difficulty: float, uniform: float) -> bool:
    return not is_right and uniform < 0.6


def hardest_fifth(is_right: bool, difficulty: float, uniform: float) -> bool:
    return difficulty > 0.8


def hard_rows_and_errors(is_right: bool, difficulty: float, uniform: float) -> bool:
    return uniform < difficulty * (0.1 if is_right else 0.5)


WAYS = {
    "fails on 60 % of its errors": Way(FAILED, most_errors),
    "no label for 60 % of its errors": Way(EXCLUDED, most_errors),
    "fails on the hardest fifth of the rows": Way(FAILED, hardest_fifth),
    "fails on hard rows, more often if wrong": Way(FAILED, hard_rows_and_errors),
}


def uniform_from(*key: object) -> float:
    """Return a number between 0 and 1 that the key decides."""
    return random.Random(repr(key)).random()


def run(benchmark: str, model: str, accuracy: float, seed: int, is_lost: IsLost | None, policy: str = FAILED) -> Result:
    """Return the run of a model that is right at a rate, and loses some queries.

    Args:
        benchmark: "normal" or "generalisation".
        model: The name of the model, on which its predictions depend.
        accuracy: The rate; on a row it is up to 0.3 higher or lower, by the difficulty that all models share.
        seed: The seed of difficulties and predictions.
        is_lost: Whether a query is lost; ``None`` if none is.
        policy: How queries are lost.
    """
    replies: dict[str, str | None] = {}
    for query in QUERIES[benchmark, policy]:
        prompt = str(query.prompt)
        difficulty = uniform_from("difficulty", seed, query.row)
        is_right = uniform_from(model, seed, prompt) < accuracy + 0.6 * (0.5 - difficulty)
        replies[prompt] = query.label_space[query.label if is_right else 1 - query.label]
        if is_lost is not None and is_lost(is_right, difficulty, uniform_from("lost", model, seed, prompt)):
            replies[prompt] = "I do not know" if policy == EXCLUDED else None
    result = BENCHMARKS[benchmark, policy](lambda prompt, label_space: replies[str(prompt)], on_error="collect")
    assert isinstance(result, Result)
    return result


def differs(comparison: StaICC.Comparison) -> bool:
    """Return whether two runs are called different."""
    outcome = comparison.overall.outcome
    return isinstance(outcome, Tested) and outcome.significant


def alarms_of_pair(way: Way, seed: int) -> dict[str, bool]:
    """Return by which function a model that loses queries and an equal one that loses none are called different."""
    runs = {
        "partial": run("normal", "a", 0.7, seed, way.is_lost, way.policy),
        "whole": run("normal", "b", 0.7, seed, None, way.policy),
    }
    (against_reference,) = StaICC.compare_runs(runs, reference="whole").comparisons
    generalising_partial = run("generalisation", "a", 0.7, seed, way.is_lost, way.policy)
    generalising_whole = run("generalisation", "b", 0.7, seed, None, way.policy)
    return {
        "compare": differs(StaICC.compare(runs["partial"], runs["whole"])),
        "rank": any(isinstance(place.verdict, Worse) for place in StaICC.rank(runs).runs),
        "reference": differs(against_reference),
        "generalising": differs(StaICC.compare_generalising(generalising_partial, generalising_whole)),
    }


def false_alarms(pairs: int) -> None:
    """Print how often equal models are called different."""
    for name, way in WAYS.items():
        counts: Counter[str] = Counter()
        for seed in range(pairs):
            counts.update(alarms_of_pair(way, seed))
        print(f"{name}:", {function: f"{count / pairs:.3f}" for function, count in counts.items()}, flush=True)


def loses_a_share(share: float) -> IsLost:
    """Return a way to lose this share of the queries, and more of hard rows."""

    def is_lost(is_right: bool, difficulty: float, uniform: float) -> bool:
        return uniform < 2.0 * share * difficulty  # the mean difficulty is a half

    return is_lost


def power(pairs: int) -> None:
    """Print how often a better model is called better, if a share of the queries of both, or of one, is lost."""
    for share in (0.0, 0.01, 0.05):
        for which in ("both models", "the better model"):
            is_lost = loses_a_share(share)
            found = 0
            for seed in range(pairs):
                better = run("normal", "a", 0.8, seed, is_lost)
                worse = run("normal", "b", 0.7, seed, is_lost if which == "both models" else None)
                found += differs(StaICC.compare(better, worse))
            print(f"power with {share:.0%} of the queries of {which} lost: {found / pairs:.3f}", flush=True)


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    number = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    false_alarms(number)
    power(number)
