"""Warnings about predictions: how often honest and real models get one.

Usage::

    python tests/performance/prediction_warnings.py --repetitions 25      # false alarms of simulated honest models
    python tests/performance/prediction_warnings.py --models 25           # 12 honest and 16 broken kinds of models
    python tests/performance/prediction_warnings.py --model ppm           # runs of a model

A warning about a real run is a false alarm if what it says does not hold for all test rows of the data set;
``--model`` therefore runs every setting with a warning about collapse again without a limit.
"""

from __future__ import annotations

import random
from array import array
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import product

from records import arguments, record

from StaICC import ContextualBias, Normal, TemplateSensitivity, load_kernel
from StaICC.benchmarks.task import Condition, Outcome, Statistics
from StaICC.benchmarks.warnings import find_warnings
from StaICC.kernels.protocol import label_probabilities
from StaICC.prompting.prompt_writer import Query

KINDS = {
    "do not depend": "same",
    "are one label": "collapse",
    "have a tie": "tie",
    "order of the labels": "order",
    "is 1 to rounding": "saturated",
    "not clearly": "ambiguous",
    "sum to more than 1": "sums",
    "may be exchanged": "renamed",
    "below the": "below chance",
    "of the last demonstration": "echo",
    "are right": "leak",
}
FAST = Statistics(intervals=False)


def kinds(notes: Sequence[str]) -> list[str]:
    """The kind of each warning; texts that are no warnings about predictions are left out."""
    return [kind for note in notes for text, kind in KINDS.items() if text in note]


class Rows:
    """The queries of a data set, for which a kind of model draws one row of logits each.

    Half of the variance of the logits is shared by the queries of a test row.
    """

    def __init__(self, queries: Sequence[Query], draw: random.Random) -> None:
        self.queries = [replace(query, prompt=str(number)) for number, query in enumerate(queries)]
        self.draw = draw
        self.width = len(queries[0].label_space)
        self.counts = Counter(query.label for query in queries if query.repeat == 0)
        self.rare = min(self.counts, key=self.counts.__getitem__)
        self.frequent = max(self.counts, key=self.counts.__getitem__)

    def logits(self, skill: float, prior: Sequence[float] | None = None, recency: float = 0.0) -> list[list[float]]:
        """Draw logits around the skill at the true label, a prior, and a preference for the last demonstration."""
        shared: dict[int, list[float]] = {}
        rows = []
        for query in self.queries:
            of_row = shared.setdefault(query.row, [self.draw.gauss(0, 1) for _ in range(self.width)])
            row = [value + self.draw.gauss(0, 1) for value in of_row]
            if prior is not None:
                row = [a + b for a, b in zip(row, prior, strict=True)]
            row[query.label] += skill
            row[query.last_label] += recency
            rows.append(row)
        return rows

    def leaning(self, label: int, size: float) -> list[float]:
        return [size * (place == label) for place in range(self.width)]

    def mistaken(self, share: float) -> list[list[float]]:
        """Draw logits that are right except on a share of the test rows."""
        wrong = {query.row: self.draw.random() < share for query in self.queries}
        return [
            self.named(
                (query.label + self.draw.randrange(1, self.width)) % self.width if wrong[query.row] else query.label
            )
            for query in self.queries
        ]

    def named(self, label: int) -> list[float]:
        """Draw logits of which that of a label is the largest."""
        row = sorted(self.draw.gauss(0, 1) for _ in range(self.width))
        row[label], row[-1] = row[-1], row[label]
        return row

    def renamed(self, rows: Sequence[Sequence[float]], order: Sequence[int]) -> list[list[float]]:
        return [[row[place] for place in order] for row in rows]

    def frequencies(self) -> list[list[float]]:
        labels = [query.label for query in self.queries]
        return [self.named(self.draw.choice(labels)) for _ in self.queries]

    def indistinct(self) -> list[list[float]]:
        """Draw logits of a model that cannot tell the two most frequent labels apart, and has 10 % of others wrong."""
        pair = [label for label, _ in self.counts.most_common(2)]
        return [
            self.named(self.draw.choice(pair) if query.label in pair else query.label)
            if self.draw.random() < 0.9
            else self.named(self.draw.randrange(self.width))
            for query in self.queries
        ]


def simulate(repetitions: int) -> None:
    """Print the share of data sets for which honest models get a warning."""
    draw = random.Random("honest")
    alarms: Counter[str] = Counter()
    runs = 0
    for limit, data in product((20, 50, 128, 512), Normal(limit=512)):
        (condition,) = data.conditions()
        rows = Rows([query for query in condition.queries if query.row < limit], draw)
        frequent = [query.label for query in rows.queries]
        for accuracy, leaning, number in product(
            (1 / rows.width, 0.5, 0.7, 0.9, 0.99), (False, True), range(repetitions)
        ):
            guesses = [
                query.label
                if draw.random() < accuracy
                else draw.choice(frequent)
                if leaning
                else draw.randrange(rows.width)
                for query in rows.queries
            ]
            logits = map(rows.named, guesses)
            scores = [array("f", row).tolist() if number % 2 else label_probabilities(row) for row in logits]
            warnings = kinds(find_warnings([Outcome(Condition("c", tuple(rows.queries)), scores, "auto")]))
            runs += 1
            alarms.update(f"{kind}, limit {limit}" for kind in warnings)
    print(f"honest models: {sum(alarms.values())} warnings in {runs} runs over one data set: {dict(alarms)}")
    record(__file__, {"runs": runs, "false alarms": sum(alarms.values())}, {"repetitions": repetitions})


Make = Callable[[Rows], list[list[float]]]
HONEST: dict[str, Make] = {
    "guesses": lambda rows: [rows.named(rows.draw.randrange(rows.width)) for _ in rows.queries],
    "guesses, one for each row": lambda rows: rows.logits(0.0),
    "majority label": lambda rows: [rows.named(rows.frequent) for _ in rows.queries],
    "guesses with the label frequencies": lambda rows: rows.frequencies(),
    "weak": lambda rows: rows.logits(0.5),
    "medium": lambda rows: rows.logits(2.0),
    "good": lambda rows: rows.logits(5.0),
    "3 % errors": lambda rows: rows.mistaken(0.03),
    "weak, prefers the rarest label": lambda rows: rows.logits(0.5, rows.leaning(rows.rare, 2.0)),
    "weak, leans to the last demonstration": lambda rows: rows.logits(0.5, None, 2.0),
    "good, leans to the last demonstration": lambda rows: rows.logits(4.0, None, 2.0),
    "confuses two labels": lambda rows: rows.indistinct(),
}


def _rotated(rows: Rows, by: int) -> list[int]:
    return [(place + by) % rows.width for place in range(rows.width)]


def _exchanged(rows: Rows) -> list[int]:
    first, second = (label for label, _ in rows.counts.most_common(2))
    return [{first: second, second: first}.get(label, label) for label in range(rows.width)]


def _alphabetical(rows: Rows) -> list[int]:
    space = rows.queries[0].label_space
    order = sorted(range(rows.width), key=space.__getitem__)
    return order if order != list(range(rows.width)) else order[::-1]


MODELS: dict[str, tuple[str | None, Make]] = {
    **{name: (None, make) for name, make in HONEST.items()},
    "good, negated scores": ("below chance", lambda rows: [[-x for x in row] for row in rows.logits(5.0)]),
    "medium, negated scores": ("below chance", lambda rows: [[-x for x in row] for row in rows.logits(2.0)]),
    "good, labels shifted by one": ("renamed", lambda rows: rows.renamed(rows.logits(5.0), _rotated(rows, 1))),
    "medium, labels shifted by one": ("renamed", lambda rows: rows.renamed(rows.logits(2.0), _rotated(rows, 1))),
    "good, labels shifted back": ("renamed", lambda rows: rows.renamed(rows.logits(5.0), _rotated(rows, -1))),
    "good, labels reversed": ("renamed", lambda rows: rows.renamed(rows.logits(5.0), range(rows.width)[::-1])),
    "good, two labels exchanged": ("renamed", lambda rows: rows.renamed(rows.logits(5.0), _exchanged(rows))),
    "medium, two labels exchanged": ("renamed", lambda rows: rows.renamed(rows.logits(2.0), _exchanged(rows))),
    "good, labels in alphabetical order": ("renamed", lambda rows: rows.renamed(rows.logits(5.0), _alphabetical(rows))),
    "last demonstration": ("echo", lambda rows: [rows.named(query.last_label) for query in rows.queries]),
    "last demonstration, 5 % guesses": (
        "echo",
        lambda rows: [
            rows.named(query.last_label if rows.draw.random() > 0.05 else rows.draw.randrange(rows.width))
            for query in rows.queries
        ],
    ),
    "last demonstration, as logits": ("echo", lambda rows: rows.logits(0.0, None, 7.0)),
    "sees the true labels": ("leak", lambda rows: rows.mistaken(0.0)),
    "equal scores for all": ("same", lambda rows: [[0.3 + place for place in range(rows.width)] for _ in rows.queries]),
    "one label": ("collapse", lambda rows: [rows.named(rows.rare) for _ in rows.queries]),
    "no scores": ("tie", lambda rows: [[rows.draw.gauss(0, 1)] * rows.width for _ in rows.queries]),
}


def table(repetitions: int) -> None:
    """Print how often honest and broken models of each kind get a warning of their kind, over ten data sets."""
    draw = random.Random("models")
    conditions = {data.name: data.conditions()[0].queries for data in Normal(limit=512)}
    figures: dict[str, float] = {}
    for limit in (50, 128, 512):
        sets = [Rows([query for query in queries if query.row < limit], draw) for queries in conditions.values()]
        for name, (expected, make) in MODELS.items():
            found: Counter[str] = Counter()
            alarms = 0
            for _ in range(repetitions):
                outcomes = [Outcome(Condition("c", rows.queries), make(rows), "auto") for rows in sets]
                of_run = [set(kinds(find_warnings([outcome]))) for outcome in outcomes]
                found.update(warning for warnings in of_run for warning in warnings)
                if expected is None:
                    alarms += any(warnings & {"renamed", "below chance", "echo", "leak"} for warnings in of_run)
                else:
                    alarms += sum(bool(warnings) for warnings in of_run)
            share = alarms / repetitions / (1 if expected is None else len(sets))
            figures[f"{limit}: {name}"] = share
            print(f"{limit:4} {name:40} {share:6.3f}  {dict(found)}", flush=True)
    record(__file__, figures, {"models": repetitions})


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
    options = arguments(__doc__, {"--model": str, "--models": 0, "--repetitions": 25})
    if options.model:
        real(options.model)
    elif options.models:
        table(options.models)
    else:
        simulate(options.repetitions)
