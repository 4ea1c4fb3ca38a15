"""The command ``baseline``: what random guessing reaches."""

from __future__ import annotations

import argparse
import math
import sys
from decimal import MIN_EMIN, Context, Decimal

from StaICC.cli import output
from StaICC.cli.output import Printed
from StaICC.cli.parser import converted
from StaICC.metrics.random_baselines import RandomBaseline

_ALPHA = 0.05


_LONG = 1_000_000  # queries; more take seconds


def _label_counts(text: str) -> int | dict[int, int]:
    """Parse ``5`` (five labels for all queries) or ``2:50,5:50`` (number of labels: number of queries)."""
    pairs = [part.split(":") for part in text.split(",")]
    counts = int(text) if ":" not in text else {int(labels): int(queries) for labels, queries in pairs}
    if isinstance(counts, dict) and len(counts) < len(pairs):
        raise argparse.ArgumentTypeError(f"duplicate number of labels: got {text!r}")
    return counts


def add_baseline(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    add = parser.add_argument
    add("--n", type=int, required=True, help="number of scored queries")
    counts = converted(_label_counts, "a number of labels, such as 2, or labels:queries pairs, such as 2:50,5:50")
    add("--labels", type=counts, required=True, help="number of labels, or labels:queries pairs if it varies")
    add("--t", type=int, nargs="+", action="extend", help="number of settings tried (default: 1)")
    text = "accuracy to test against random guessing, as a share (0.6, not 60); rounded as in tables"
    add("--accuracy", help=text)


def baseline(args: argparse.Namespace) -> Printed:
    """Print random baselines, and the p-value of an accuracy.

    The maximum random baseline is the expected accuracy of the best of t random guessers (Yauney and Mimno 2024).
    Set t to the number of settings (prompts, templates, seeds, ...) that you tried and of which you report the best.

    examples:
      python -m StaICC baseline --n 100 --labels 2 --t 1 10 --accuracy 0.6
      python -m StaICC baseline --n 1024 --labels 2 --accuracy 0.5508
      python -m StaICC baseline --n 100 --labels 2:50,5:50 --t 10 --json
    """
    uniform = {args.labels: args.n} if isinstance(args.labels, int) else args.labels
    guessing = RandomBaseline(args.n, uniform)
    correct = None if args.accuracy is None else guessing.count_of_rounded(args.accuracy)
    lines: list[dict[str, float | None]] = []
    table: list[dict[str, object]] = []
    for t in args.t or [1]:
        if args.n >= _LONG:
            print(f"computing the baselines of {args.n:,} queries for t = {t} ...", file=sys.stderr, flush=True)
        count = guessing.critical_count(t, _ALPHA)
        needed, expected = None if count is None else count / args.n, guessing.max_random_baseline(t)
        lines.append({"t": t, "baseline": expected, "significant_from": needed})
        from_share = "never" if needed is None else f"{needed:.5f}"
        table.append({"t": t, "baseline": f"{expected:.5f}", f"p <= {_ALPHA} from": from_share})
        if correct is not None:
            logarithm, p_value = guessing.log_p_value(correct / args.n, t), guessing.p_value_of_count(correct, t)
            log10 = logarithm / math.log(10) if math.isfinite(logarithm) else None
            lines[-1] |= {"p_value": p_value, "log10_p_value": log10}
            small = f"{Context(Emin=MIN_EMIN).exp(Decimal(logarithm)):.2e}"  # floating point may have no such number
            table[-1][f"p-value of {correct}/{args.n}"] = f"{p_value:.4f}" if p_value > 1e-4 else small
    labels = {str(labels): queries for labels, queries in uniform.items()}
    accuracy = None if correct is None else float(args.accuracy)
    document = {"n": args.n, "labels": labels, "accuracy": accuracy, "correct": correct, "alpha": _ALPHA}
    return Printed({**document, "baselines": lines}, [output.table(table, ())])
