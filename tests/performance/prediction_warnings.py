"""Warnings about predictions: how often honest and real models get one.

Usage::

    python tests/performance/prediction_warnings.py --repetitions 25      # false alarms of simulated honest models
    python tests/performance/prediction_warnings.py --model ppm           # runs of a model

A warning about a real run is a false alarm if what it says does not hold for all test rows of the data set;
``--model`` therefore runs every setting with a warning about collapse again without a limit.
"""

from __future__ import annotations

import math
import random
import struct
from collections import Counter
from collections.abc import Sequence

from records import arguments, record

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


def real(model: str) -> None:
    """Print the warnings for runs of a model, and whether a collapse holds for all test rows."""
    kernel = load_kernel(model)
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
    options = arguments(__doc__, {"--model": str, "--repetitions": 25})
    if options.model:
        real(options.model)
    else:
        simulate(options.repetitions)
