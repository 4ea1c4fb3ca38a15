"""Warnings about predictions: which each kind of model gets, and how often honest and real models get one.

Run with the repository on the path::

    PYTHONPATH=. python tests/performance/prediction_warnings.py models     # the table in docs/warnings.md
    PYTHONPATH=. python tests/performance/prediction_warnings.py honest     # false alarms of simulated honest models
    PYTHONPATH=. python tests/performance/prediction_warnings.py real       # runs of the embedded model
    PYTHONPATH=. python tests/performance/prediction_warnings.py saved FILE ...   # the same for saved results

A warning about a real run is a false alarm if what it says does not hold for all test rows of the data set; ``real``
therefore runs every setting with a warning about collapse again without a limit.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import struct
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from records import record

from StaICC import ContextualBias, Normal, TemplateSensitivity, load_kernel
from StaICC.benchmarks.diagnostics import find_warnings
from StaICC.benchmarks.task import Condition, Outcome, Statistics
from StaICC.prompting import Query

KINDS = {
    "do not depend": "same",
    "are one label": "collapse",
    "have a tie": "tie",
    "order of the labels": "order",
    "is 1 to rounding": "saturated",
    "not clearly": "ambiguous",
}
FAST = Statistics(intervals=False)


def kinds(notes: Sequence[str]) -> list[str]:
    """The kind of each warning; texts that are no warnings about predictions are left out."""
    return [kind for note in notes for text, kind in KINDS.items() if text in note]


def softmax(row: Sequence[float]) -> list[float]:
    powers = [math.exp(value - max(row)) for value in row]
    return [power / sum(powers) for power in powers]


def single(row: Sequence[float]) -> list[float]:
    """Round to single precision, as the scores of most models are."""
    return list(struct.unpack(f"{len(row)}f", struct.pack(f"{len(row)}f", *row)))


def honest(guess: int, labels: int, draw: random.Random) -> list[float]:
    """Logits whose largest is that of the predicted label."""
    row = [draw.gauss(0, 1.5) for _ in range(labels)]
    best = row.index(max(row))
    row[best], row[guess] = row[guess], row[best]
    return row


Row = Callable[[int, int, random.Random], list[float]]


def one_hot(label: int, labels: int) -> list[float]:
    return [float(place == label) for place in range(labels)]


def votes(truth: int, labels: int, draw: random.Random) -> list[float]:
    count = Counter(draw.choices(range(labels), softmax(honest(truth, labels, draw)), k=10))
    return [float(count[label]) for label in range(labels)]


def near_tied(truth: int, labels: int, draw: random.Random) -> list[float]:
    return [1 / labels + draw.uniform(-1e-9, 1e-9) for _ in range(labels)]


def confused(truth: int, labels: int, draw: random.Random) -> int:
    """The true label in 8 of 10 cases."""
    return truth if draw.random() < 0.8 else draw.randrange(labels)


MODELS: dict[str, Row] = {
    "perfect": lambda truth, labels, draw: softmax(honest(truth, labels, draw)),
    "80 % right, logits": lambda truth, labels, draw: honest(confused(truth, labels, draw), labels, draw),
    "random probabilities (uniform guesses)": lambda truth, labels, draw: softmax(
        honest(draw.randrange(labels), labels, draw)
    ),
    "constant row": lambda truth, labels, draw: softmax([float(label) for label in range(labels)]),
    "one label, other probabilities each time": lambda truth, labels, draw: softmax(honest(0, labels, draw)),
    "equal probabilities": lambda truth, labels, draw: [1 / labels] * labels,
    "all labels tied, another value each time": lambda truth, labels, draw: [draw.gauss(0, 1)] * labels,
    "tied to rounding": near_tied,
    "percentages": lambda truth, labels, draw: [
        100 * p for p in softmax(honest(confused(truth, labels, draw), labels, draw))
    ],
    "ten votes": votes,
    "one-hot, 80 % right": lambda truth, labels, draw: one_hot(confused(truth, labels, draw), labels),
    "scores in label order": lambda truth, labels, draw: sorted(
        [draw.gauss(0, 1) for _ in range(labels)], reverse=True
    ),
}


def models(limit: int) -> None:
    """Print which warnings each model gets on each of the ten data sets."""
    benchmark = Normal(limit=limit, statistics=FAST)
    for name, row in MODELS.items():
        draw = random.Random(name)
        rows = {
            one.name: [row(query.label, len(query.label_space), draw) for query in one.conditions()[0].queries]
            for one in benchmark
        }
        result = benchmark(preentered_prediction=rows)
        found: Counter[str] = Counter()
        for details in result.details.values():
            found.update(kinds(details.notes) or ["-"])
        print(f"| {name} | {', '.join(f'{kind} ({count})' for kind, count in found.items())} |", flush=True)


def simulate(repetitions: int) -> None:
    """Print the share of data sets for which honest models get a warning."""
    draw = random.Random("honest")
    alarms: Counter[str] = Counter()
    runs: Counter[str] = Counter()
    benchmark = Normal(limit=512)
    for one in benchmark:
        (condition,) = one.conditions()
        space = condition.queries[0].label_space
        by_repeat = [[query for query in condition.queries if query.repeat == repeat] for repeat in (0, 1)]
        for limit in (20, 50, 128, 512):
            queries = [query for of_repeat in by_repeat for query in of_repeat[:limit]]
            prompts = [Query(str(number), space, q.label, q.row, q.repeat) for number, q in enumerate(queries)]
            frequent = [query.label for query in queries]
            for accuracy in (1 / len(space), 0.5, 0.7, 0.9, 0.99):
                for leaning in (False, True):
                    for number in range(repetitions):
                        rows = []
                        for query in queries:
                            other = draw.choice(frequent) if leaning else draw.randrange(len(space))
                            guess = query.label if draw.random() < accuracy else other
                            row = honest(guess, len(space), draw)
                            rows.append(single(row if number % 2 else softmax(row)))
                        found = find_warnings([Outcome(Condition("c", tuple(prompts)), rows, "auto")])
                        runs[f"limit {limit}"] += 1
                        alarms.update(f"{kind}, limit {limit}" for kind in kinds(found))
    total = sum(runs.values())
    print(f"honest models: {sum(alarms.values())} warnings in {total} runs over one data set: {dict(alarms)}")
    record(__file__, {"runs": total, "false alarms": sum(alarms.values())}, {"repetitions": repetitions})


def details_in(document: Any, where: str) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """The details of each data set in a saved result or group of results."""
    if isinstance(document, dict):
        for name, details in document.get("details", {}).items():
            yield where, name, details
        for key, value in document.items():
            if key != "details":
                yield from details_in(value, f"{where} {key}" if key != "parts" else where)


def saved(files: Sequence[str]) -> None:
    """Print the warnings for saved results, from their label scores."""
    from StaICC.results.details import unpack_scores

    runs, found = 0, Counter[str]()
    for file in files:
        for where, name, details in details_in(json.loads(Path(file).read_text("utf-8")), Path(file).stem):
            outcomes = []
            marks = iter(range(10**9)) if details["distinct"] > 1 else iter([0] * details["asked"])
            space = tuple(details["labels"])
            for one in details["conditions"]:
                labelled = zip(one["truth"], one["rows"], strict=True)
                queries = tuple(Query(str(next(marks)), space, label, row, 0) for label, row in labelled)
                if one["output"] == "labels" or None in one["predictions"] or not queries:
                    continue
                rows = unpack_scores(one["scores"], len(space))
                outcomes.append(Outcome(Condition(one["name"], queries), rows, "auto"))
            runs += 1
            content_free = any(one["name"] in ("contextual_bias", "domain_bias") for one in details["conditions"])
            for note in find_warnings(outcomes, content_free):
                found.update(kinds([note]))
                print(f"  {where}, {name}: {note}")
    print(f"{runs} runs over one data set: {dict(found)}")


def real() -> None:
    """Print the warnings for runs of the embedded model, and whether a collapse holds for all test rows."""
    kernel = load_kernel("ppm")
    runs = 0
    for k in (0, 1, 4, 8):
        for limit in (20, 50):
            for kind in (Normal, ContextualBias, TemplateSensitivity):
                result = kind(k=k, limit=limit, statistics=FAST)(kernel)
                runs += len(result.details)
                for name, details in result.details.items():
                    for note in details.notes:
                        print(f"  {kind.__name__}, k = {k}, limit {limit}, {name}: {note}", flush=True)
                        if "are one label" in note and kind is Normal:
                            whole = Normal(k=k, datasets=[name], statistics=FAST)(kernel).details[name].conditions[0]
                            share = Counter(whole.predictions).most_common(1)[0][1] / len(whole.predictions)
                            print(f"    without a limit: {share:.1%} of the predictions are one label")
    print(f"{runs} runs over one data set")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["models", "honest", "real", "saved"])
    parser.add_argument("files", nargs="*")
    parser.add_argument("--limit", type=int, default=128)
    parser.add_argument("--repetitions", type=int, default=25)
    arguments = parser.parse_args()
    if arguments.what == "models":
        models(arguments.limit)
    elif arguments.what == "honest":
        simulate(arguments.repetitions)
    elif arguments.what == "saved":
        saved(arguments.files)
    else:
        real()
