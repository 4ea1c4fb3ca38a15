"""The command ``baseline``: what random guessing reaches."""

from __future__ import annotations

import argparse
import math
import sys
from decimal import MIN_EMIN, Context, Decimal

from StaICC.cli.output import Printed, table
from StaICC.cli.parser import Converted
from StaICC.errors import ArgumentError
from StaICC.metrics.random_baselines import RandomBaseline

_ALPHA = 0.05
"""The level of the test against random guessing."""

_SLOW_FROM = 1_000_000
"""Queries from which the computation takes seconds, so that it is announced."""

_SMALLEST_FIXED = 1e-4
"""The smallest p-value that is printed with four decimals; smaller ones have an exponent."""


def _label_counts(text: str) -> int | dict[int, int]:
    """Parse ``5`` (five labels for all queries) or ``2:50,5:50`` (number of labels: number of queries)."""
    if ":" not in text:
        return int(text)
    queries_by_labels: dict[int, int] = {}
    for pair in text.split(","):
        labels, queries = pair.split(":")
        if int(labels) in queries_by_labels:
            raise argparse.ArgumentTypeError(f"duplicate number of labels: got {text!r}")
        queries_by_labels[int(labels)] = int(queries)
    return queries_by_labels


def add_baseline(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("--n", type=int, required=True, help="number of scored queries")
    parser.add_argument(
        "--labels",
        type=Converted(_label_counts, "a number of labels, such as 2, or labels:queries pairs, such as 2:50,5:50"),
        required=True,
        help="number of labels, or labels:queries pairs if it varies",
    )
    parser.add_argument("--t", type=int, nargs="+", action="extend", help="number of settings tried (default: 1)")
    parser.add_argument(
        "--accuracy", help="accuracy to test against random guessing, as a share (0.6, not 60); rounded as in tables"
    )


def baseline(args: argparse.Namespace) -> Printed:
    """Print random baselines, and the p-value of an accuracy.

    The maximum random baseline is the expected accuracy of the best of t random guessers (Yauney and Mimno 2024).
    Set t to the number of settings (prompts, templates, seeds, ...) that you tried and of which you report the best.

    examples:
      python -m StaICC baseline --n 100 --labels 2 --t 1 10 --accuracy 0.6
      python -m StaICC baseline --n 1024 --labels 2 --accuracy 0.5508
      python -m StaICC baseline --n 100 --labels 2:50,5:50 --t 10 --json
    """
    queries_by_labels = args.labels
    if isinstance(args.labels, int):
        queries_by_labels = {args.labels: args.n}
    if set(queries_by_labels) == {1}:
        raise ArgumentError(
            "--labels: got 1, expected at least 2: with one label, each guess is right. Give the number of labels that "
            "a query can have"
        )
    guessing = RandomBaseline(args.n, queries_by_labels)
    accuracy = None
    correct = None
    if args.accuracy is not None:
        correct = guessing.count_of_rounded(args.accuracy)
        accuracy = float(args.accuracy)

    records = []
    rows = []
    for t in args.t or [1]:
        if args.n >= _SLOW_FROM:
            print(f"computing the baselines of {args.n:,} queries for t = {t} ...", file=sys.stderr, flush=True)
        record, row = _baseline_of_best(guessing, t)
        if correct is not None:
            p_value = guessing.p_value_of_count(correct, t)
            log_p_value = guessing.log_p_value(correct / args.n, t)
            log10_p_value = log_p_value / math.log(10) if math.isfinite(log_p_value) else None
            record |= {"p_value": p_value, "log10_p_value": log10_p_value}
            row[f"p-value of {correct}/{args.n}"] = _shown_p_value(p_value, log_p_value)
        records.append(record)
        rows.append(row)

    document = {
        "n": args.n,
        "labels": {str(labels): queries for labels, queries in queries_by_labels.items()},
        "accuracy": accuracy,
        "correct": correct,
        "alpha": _ALPHA,
        "baselines": records,
    }
    return Printed(document, [table(rows, texts=())])


def _baseline_of_best(guessing: RandomBaseline, t: int) -> tuple[dict[str, float | None], dict[str, object]]:
    """Return the baseline of the best of t random guessers, as a record and as a row of the table.

    Args:
        guessing: The baseline of one random guesser.
        t: The number of guessers.
    """
    expected = guessing.max_random_baseline(t)
    critical_count = guessing.critical_count(t, _ALPHA)
    significant_from = None
    shown_limit = "never"
    if critical_count is not None:
        significant_from = critical_count / guessing.n
        shown_limit = f"{significant_from:.5f}"
    record = {"t": t, "baseline": expected, "significant_from": significant_from}
    row: dict[str, object] = {"t": t, "baseline": f"{expected:.5f}", f"p <= {_ALPHA} from": shown_limit}
    return record, row


def _shown_p_value(p_value: float, log_p_value: float) -> str:
    """Return a p-value as text; from its natural logarithm if it may be too small for a floating-point number."""
    if p_value > _SMALLEST_FIXED:
        return f"{p_value:.4f}"
    exact = Context(Emin=MIN_EMIN).exp(Decimal(log_p_value))
    return f"{exact:.2e}"
