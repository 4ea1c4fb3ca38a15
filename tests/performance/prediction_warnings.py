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
"""The kind of each warning, by a part of its text."""
WITHOUT_INTERVALS = Statistics(intervals=False)


def kinds_of(notes: Sequence[str]) -> list[str]:
    """Return the kind of each warning; texts that are no warnings about predictions are left out."""
    return [kind for note in notes for text, kind in KINDS.items() if text in note]


Logits = list[list[float]]
"""A row for each query, with a logit for each label."""


class Rows:
    """The queries of a data set, for which a kind of model draws one row of logits each.

    Half of the variance of the logits is shared by the queries of a test row.
    """

    def __init__(self, queries: Sequence[Query], draw: random.Random) -> None:
        self.queries = [replace(query, prompt=str(number)) for number, query in enumerate(queries)]
        self.draw = draw
        self.n_labels = len(queries[0].label_space)
        self.counts = Counter(query.label for query in queries if query.repeat == 0)
        self.rarest = min(self.counts, key=self.counts.__getitem__)
        self.most_frequent = max(self.counts, key=self.counts.__getitem__)

    def logits(self, skill: float, prior: Sequence[float] | None = None, recency: float = 0.0) -> Logits:
        """Draw sums of normal logits.

        Args:
            skill: What is added to the logit of the true label.
            prior: What is added to the logit of each label.
            recency: What is added to the logit of the label of the last demonstration.
        """
        logits_of_test_rows: dict[int, list[float]] = {}
        logits = []
        for query in self.queries:
            # Drawn for each query, used for the first one of a test row: the published figures come from these draws.
            logits_of_new_row = [self.draw.gauss(0, 1) for _ in range(self.n_labels)]
            logits_of_test_row = logits_of_test_rows.setdefault(query.row, logits_of_new_row)
            row = [logit + self.draw.gauss(0, 1) for logit in logits_of_test_row]
            if prior is not None:
                row = [logit + more for logit, more in zip(row, prior, strict=True)]
            row[query.label] += skill
            row[query.last_label] += recency
            logits.append(row)
        return logits

    def prior_for(self, label: int, size: float) -> list[float]:
        """Return a prior with this size for a label, and 0 for the others."""
        prior = [0.0] * self.n_labels
        prior[label] = size
        return prior

    def random_label(self) -> int:
        return self.draw.randrange(self.n_labels)

    def predicting(self, label: int) -> list[float]:
        """Draw a row of normal logits, and exchange the largest one with that of the label."""
        row = sorted(self.draw.gauss(0, 1) for _ in range(self.n_labels))
        row[label], row[-1] = row[-1], row[label]
        return row

    def right_but_for(self, share: float) -> Logits:
        """Draw logits that predict the true label, except on a share of the test rows."""
        is_wrong = {query.row: self.draw.random() < share for query in self.queries}
        logits = []
        for query in self.queries:
            label = query.label
            if is_wrong[query.row]:
                label = (label + self.draw.randrange(1, self.n_labels)) % self.n_labels
            logits.append(self.predicting(label))
        return logits

    def reordered(self, logits: Logits, order: Sequence[int]) -> Logits:
        """Return logits in which label i has the logit of the label ``order[i]``."""
        return [[row[label] for label in order] for row in logits]

    def guesses_by_frequency(self) -> Logits:
        true_labels = [query.label for query in self.queries]
        return [self.predicting(self.draw.choice(true_labels)) for _ in self.queries]

    def confusing_two_labels(self) -> Logits:
        """Draw logits of a model that cannot tell the two most frequent labels apart; 10 % are random labels."""
        two_labels = [label for label, _ in self.counts.most_common(2)]
        logits = []
        for query in self.queries:
            if self.draw.random() >= 0.9:
                label = self.random_label()
            elif query.label in two_labels:
                label = self.draw.choice(two_labels)
            else:
                label = query.label
            logits.append(self.predicting(label))
        return logits


def warnings_of(queries: Sequence[Query], scores: Logits) -> list[str]:
    """Return the kinds of the warnings about the predictions for a data set."""
    return kinds_of(find_warnings([Outcome(Condition("c", tuple(queries)), scores, "auto")]))


def draw_guess(draw: random.Random, query: Query, accuracy: float, wrong_labels: Sequence[int]) -> int:
    """Return the true label with a probability, else one of some labels."""
    if draw.random() < accuracy:
        return query.label
    return draw.choice(wrong_labels)


def simulate(repetitions: int) -> None:
    """Print the share of data sets for which honest models get a warning.

    Wrong predictions are random labels, or have the frequencies of the true ones. Every second run has probabilities,
    the others have logits in single precision.
    """
    draw = random.Random("honest")
    false_alarms: Counter[str] = Counter()
    runs = 0
    for limit, data in product((20, 50, 128, 512), Normal(limit=512)):
        (condition,) = data.conditions()
        rows = Rows([query for query in condition.queries if query.row < limit], draw)
        true_labels = [query.label for query in rows.queries]
        accuracies = (1 / rows.n_labels, 0.5, 0.7, 0.9, 0.99)
        for accuracy, leans_to_frequent_labels, number in product(accuracies, (False, True), range(repetitions)):
            wrong_labels = true_labels if leans_to_frequent_labels else range(rows.n_labels)
            guesses = [draw_guess(draw, query, accuracy, wrong_labels) for query in rows.queries]
            scores = []
            for guess in guesses:
                row = rows.predicting(guess)
                in_single_precision = number % 2 == 1
                scores.append(array("f", row).tolist() if in_single_precision else label_probabilities(row))
            runs += 1
            false_alarms.update(f"{kind}, limit {limit}" for kind in warnings_of(rows.queries, scores))
    total = sum(false_alarms.values())
    print(f"honest models: {total} warnings in {runs} runs over one data set: {dict(false_alarms)}")
    record(__file__, {"runs": runs, "false alarms": total}, {"repetitions": repetitions})


DrawLogits = Callable[[Rows], Logits]
HONEST: dict[str, DrawLogits] = {
    "guesses": lambda rows: [rows.predicting(rows.random_label()) for _ in rows.queries],
    "guesses, one for each row": lambda rows: rows.logits(0.0),
    "majority label": lambda rows: [rows.predicting(rows.most_frequent) for _ in rows.queries],
    "guesses with the label frequencies": lambda rows: rows.guesses_by_frequency(),
    "weak": lambda rows: rows.logits(0.5),
    "medium": lambda rows: rows.logits(2.0),
    "good": lambda rows: rows.logits(5.0),
    "3 % errors": lambda rows: rows.right_but_for(0.03),
    "weak, prefers the rarest label": lambda rows: rows.logits(0.5, prior=rows.prior_for(rows.rarest, 2.0)),
    "weak, leans to the last demonstration": lambda rows: rows.logits(0.5, recency=2.0),
    "good, leans to the last demonstration": lambda rows: rows.logits(4.0, recency=2.0),
    "confuses two labels": lambda rows: rows.confusing_two_labels(),
}


def shifted_order(rows: Rows, by: int) -> list[int]:
    """Return all labels, beginning with the one of this index; -1 is the last label."""
    return [(label + by) % rows.n_labels for label in range(rows.n_labels)]


def order_with_two_exchanged(rows: Rows) -> list[int]:
    """Return all labels, of which the two most frequent ones are exchanged."""
    first, second = (label for label, _ in rows.counts.most_common(2))
    order = list(range(rows.n_labels))
    order[first], order[second] = second, first
    return order


def alphabetical_order(rows: Rows) -> list[int]:
    """Return all labels by their names; in reverse where the usual order is alphabetical."""
    names = rows.queries[0].label_space
    usual_order = list(range(rows.n_labels))
    order = sorted(usual_order, key=lambda label: names[label])
    return order if order != usual_order else order[::-1]


def negated(logits: Logits) -> Logits:
    return [[-logit for logit in row] for row in logits]


def mostly_last_label(rows: Rows) -> Logits:
    """Predict the label of the last demonstration, but guess in 5 % of the queries."""
    logits = []
    for query in rows.queries:
        copies = rows.draw.random() > 0.05
        logits.append(rows.predicting(query.last_label if copies else rows.random_label()))
    return logits


def equal_scores(rows: Rows) -> Logits:
    """Return the same scores for all queries: 0.3, 1.3, 2.3, ..."""
    return [[0.3 + label for label in range(rows.n_labels)] for _ in rows.queries]


def one_score_for_all_labels(rows: Rows) -> Logits:
    return [[rows.draw.gauss(0, 1)] * rows.n_labels for _ in rows.queries]


MODELS: dict[str, tuple[str | None, DrawLogits]] = {
    **{name: (None, draw_logits) for name, draw_logits in HONEST.items()},
    "good, negated scores": ("below chance", lambda rows: negated(rows.logits(5.0))),
    "medium, negated scores": ("below chance", lambda rows: negated(rows.logits(2.0))),
    "good, labels shifted by one": ("renamed", lambda rows: rows.reordered(rows.logits(5.0), shifted_order(rows, 1))),
    "medium, labels shifted by one": ("renamed", lambda rows: rows.reordered(rows.logits(2.0), shifted_order(rows, 1))),
    "good, labels shifted back": ("renamed", lambda rows: rows.reordered(rows.logits(5.0), shifted_order(rows, -1))),
    "good, labels reversed": ("renamed", lambda rows: rows.reordered(rows.logits(5.0), range(rows.n_labels)[::-1])),
    "good, two labels exchanged": (
        "renamed",
        lambda rows: rows.reordered(rows.logits(5.0), order_with_two_exchanged(rows)),
    ),
    "medium, two labels exchanged": (
        "renamed",
        lambda rows: rows.reordered(rows.logits(2.0), order_with_two_exchanged(rows)),
    ),
    "good, labels in alphabetical order": (
        "renamed",
        lambda rows: rows.reordered(rows.logits(5.0), alphabetical_order(rows)),
    ),
    "last demonstration": ("echo", lambda rows: [rows.predicting(query.last_label) for query in rows.queries]),
    "last demonstration, 5 % guesses": ("echo", mostly_last_label),
    "last demonstration, as logits": ("echo", lambda rows: rows.logits(0.0, recency=7.0)),
    "sees the true labels": ("leak", lambda rows: rows.right_but_for(0.0)),
    "equal scores for all": ("same", equal_scores),
    "one label": ("collapse", lambda rows: [rows.predicting(rows.rarest) for _ in rows.queries]),
    "no scores": ("tie", one_score_for_all_labels),
}
"""Each kind of models: the kind of warning that is expected (``None`` for honest ones), and how logits are drawn."""
ABOUT_THE_RUN = {"renamed", "below chance", "echo", "leak"}
"""Kinds of warnings that are false about an honest model, whatever the data set is."""


def count_alarms(expected: str | None, kinds_by_dataset: Sequence[set[str]]) -> int:
    """Return 1 if an honest model gets a false warning, else 0; of a broken model, the number of warned data sets."""
    if expected is None:
        return int(any(kinds & ABOUT_THE_RUN for kinds in kinds_by_dataset))
    return sum(bool(kinds) for kinds in kinds_by_dataset)


def table(repetitions: int) -> None:
    """Print how often honest and broken models of each kind get a warning of their kind, over ten data sets."""
    draw = random.Random("models")
    queries_of_datasets = {data.name: data.conditions()[0].queries for data in Normal(limit=512)}
    figures: dict[str, float] = {}
    for limit in (50, 128, 512):
        datasets = []
        for queries in queries_of_datasets.values():
            datasets.append(Rows([query for query in queries if query.row < limit], draw))
        for name, (expected, draw_logits) in MODELS.items():
            all_kinds: Counter[str] = Counter()
            alarms = 0
            for _ in range(repetitions):
                logits_of_datasets = [draw_logits(rows) for rows in datasets]
                kinds_by_dataset = []
                for rows, logits in zip(datasets, logits_of_datasets, strict=True):
                    kinds_by_dataset.append(set(warnings_of(rows.queries, logits)))
                    all_kinds.update(kinds_by_dataset[-1])
                alarms += count_alarms(expected, kinds_by_dataset)
            possible_alarms = 1 if expected is None else len(datasets)
            share = alarms / repetitions / possible_alarms
            figures[f"{limit}: {name}"] = share
            print(f"{limit:4} {name:40} {share:6.3f}  {dict(all_kinds)}", flush=True)
    record(__file__, figures, {"models": repetitions})


def share_of_most_frequent(predictions: Sequence[int | None]) -> float:
    ((_, count),) = Counter(predictions).most_common(1)
    return count / len(predictions)


def real(model: str) -> None:
    """Print the warnings for runs of a model, and whether a collapse holds for all test rows."""
    kernel = load_kernel(model)
    runs = 0
    for k, limit, kind in product((0, 1, 4, 8), (20, 50), (Normal, ContextualBias, TemplateSensitivity)):
        result = kind(k=k, limit=limit, statistics=WITHOUT_INTERVALS)(kernel)
        runs += len(result.details)
        notes = [(name, note) for name, details in result.details.items() for note in details.notes]
        for name, note in notes:
            print(f"  {kind.__name__}, k = {k}, limit {limit}, {name}: {note}", flush=True)
            if "are one label" in note and kind is Normal:
                without_limit = Normal(k=k, datasets=[name], statistics=WITHOUT_INTERVALS)(kernel)
                share = share_of_most_frequent(without_limit.details[name].conditions[0].predictions)
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
