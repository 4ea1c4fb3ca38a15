"""``baseline``: random baselines, and the p-value of an accuracy."""

from __future__ import annotations

import argparse
import math
import sys

from StaICC.cli.files import print_json
from StaICC.metrics.random_baselines import RandomBaseline

_ALPHA = 0.05
_LONG = 1_000_000  # queries; more take seconds


def _labels(text: str) -> int | dict[int, int]:
    """Parse ``5`` (five labels for all queries) or ``2:50,5:50`` (number of labels: number of queries)."""
    try:
        if ":" not in text:
            return int(text)
        pairs = [part.split(":") for part in text.split(",")]
        mapping = {int(labels): int(queries) for labels, queries in pairs}
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"expected a number of labels, such as 2, or labels:queries pairs, such as 2:50,5:50: got {text!r}"
        ) from None
    if len(mapping) < len(pairs):
        raise argparse.ArgumentTypeError(f"duplicate number of labels: got {text!r}")
    return mapping


def add_baseline(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    add = parser.add_argument
    add("--n", type=int, required=True, help="number of scored queries")
    add("--labels", type=_labels, required=True, help="number of labels, or labels:queries pairs if it varies")
    add("--t", type=int, nargs="+", default=[1], help="number of settings tried (default: 1)")
    text = "accuracy to test against random guessing, as a share (0.6, not 60); rounded as in tables"
    add("--accuracy", help=text)
    add("--json", action="store_true", help="print JSON instead of a table")


def _power_of_ten(logarithm: float) -> str:
    """Write a p-value from its natural logarithm, also where floating point has no such number."""
    if logarithm > math.log(1e-4):
        return f"{math.exp(logarithm):.4f}"
    if logarithm == -math.inf:
        return "0"
    exponent = math.floor(logarithm / math.log(10))
    return f"{math.exp(logarithm - exponent * math.log(10)):.2f}e{exponent}"


def baseline(args: argparse.Namespace) -> int:
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
    table = [["t", "baseline", f"p <= {_ALPHA} from", *([] if correct is None else [f"p-value of {correct}/{args.n}"])]]
    for t in args.t:
        if args.n >= _LONG:
            print(f"computing the baselines of {args.n:,} queries for t = {t} ...", file=sys.stderr, flush=True)
        count = guessing.critical_count(t, _ALPHA)
        needed, expected = None if count is None else count / args.n, guessing.max_random_baseline(t)
        lines.append({"t": t, "baseline": expected, "significant_from": needed})
        table.append([str(t), f"{expected:.5f}", "never" if needed is None else f"{needed:.5f}"])
        if correct is not None:
            logarithm = guessing.log_p_value(correct / args.n, t)
            log10 = logarithm / math.log(10) if math.isfinite(logarithm) else None
            lines[-1] |= {"p_value": guessing.p_value_of_count(correct, t), "log10_p_value": log10}
            table[-1].append(_power_of_ten(logarithm))
    if args.json:
        labels = {str(labels): queries for labels, queries in uniform.items()}
        accuracy = None if correct is None else float(args.accuracy)
        document = {"n": args.n, "labels": labels, "accuracy": accuracy, "correct": correct, "alpha": _ALPHA}
        print_json({**document, "baselines": lines}, indent=2)
        return 0
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    for row in table:
        print("  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
    return 0
