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
from collections.abc import Callable
from typing import Any

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

Lost = Callable[[bool, float, float], bool]
"""Whether a query is lost, from whether the model is right, the difficulty of the row, and a random number."""
WAYS: dict[str, tuple[str, Lost]] = {
    "fails on 60 % of its errors": (FAILED, lambda right, difficulty, draw: not right and draw < 0.6),
    "no label for 60 % of its errors": (EXCLUDED, lambda right, difficulty, draw: not right and draw < 0.6),
    "fails on the hardest fifth of the rows": (FAILED, lambda right, difficulty, draw: difficulty > 0.8),
    "fails on hard rows, more often if wrong": (
        FAILED,
        lambda right, difficulty, draw: draw < difficulty * (0.1 if right else 0.5),
    ),
}


def chance(*key: object) -> float:
    """Return a number between 0 and 1 that the key decides."""
    return random.Random(repr(key)).random()


def run(name: str, model: str, accuracy: float, seed: int, lost: Lost | None, policy: str = FAILED) -> Result:
    """Return the run of a model that is right at a rate, and loses some queries."""
    answers: dict[str, str | None] = {}
    for query in QUERIES[name, policy]:
        prompt, difficulty = str(query.prompt), chance("difficulty", seed, query.row)
        right = chance(model, seed, prompt) < accuracy + 0.6 * (0.5 - difficulty)
        answer: str | None = query.label_space[query.label if right else 1 - query.label]
        if lost is not None and lost(right, difficulty, chance("lost", model, seed, prompt)):
            answer = "I do not know" if policy == EXCLUDED else None
        answers[prompt] = answer
    result = BENCHMARKS[name, policy](lambda prompt, label_space: answers[str(prompt)], on_error="collect")
    assert isinstance(result, Result)
    return result


def differs(comparison: StaICC.Comparison) -> bool:
    """Return whether two runs are called different."""
    outcome = comparison.overall.outcome
    return isinstance(outcome, Tested) and outcome.significant


def false_alarms(pairs: int) -> None:
    """Print how often equal models are called different."""
    for way, (policy, lost) in WAYS.items():
        counts = dict.fromkeys(("compare", "rank", "reference", "generalising"), 0)
        for seed in range(pairs):
            runs = {
                "partial": run("normal", "a", 0.7, seed, lost, policy),
                "whole": run("normal", "b", 0.7, seed, None, policy),
            }
            counts["compare"] += differs(StaICC.compare(*runs.values()))
            counts["rank"] += any(isinstance(place.verdict, Worse) for place in StaICC.rank(runs).runs)
            (pair,) = StaICC.compare_runs(runs, reference="whole").comparisons
            counts["reference"] += differs(pair)
            partial = run("generalisation", "a", 0.7, seed, lost, policy)
            whole = run("generalisation", "b", 0.7, seed, None, policy)
            counts["generalising"] += differs(StaICC.compare_generalising(partial, whole))
        print(f"{way}:", {name: f"{count / pairs:.3f}" for name, count in counts.items()}, flush=True)


def power(pairs: int) -> None:
    """Print how often a better model is called better, if a share of the queries of both, or of one, is lost."""
    for share in (0.0, 0.01, 0.05):
        lost: Lost = lambda right, difficulty, draw, share=share: draw < 2.0 * share * difficulty  # noqa: E731
        for which, other in (("both models", lost), ("the better model", None)):
            found = sum(
                differs(StaICC.compare(run("normal", "a", 0.8, seed, lost), run("normal", "b", 0.7, seed, other)))
                for seed in range(pairs)
            )
            print(f"power with {share:.0%} of the queries of {which} lost: {found / pairs:.3f}", flush=True)


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    number = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    false_alarms(number)
    power(number)
