"""``python -m StaICC baseline``: print random baselines.

The maximum random baseline is the expected accuracy of the best of t random guessers (Yauney and Mimno 2024).
Set t to the number of settings (prompts, templates, seeds, ...) that you tried and of which you report the best.

examples:
  python -m StaICC baseline --n 100 --labels 2 --t 1 10 --accuracy 0.6
  python -m StaICC baseline --n 1024 --labels 2 --accuracy 0.5508
  python -m StaICC baseline --n 100 --labels 2:50,5:50 --t 10 --json
"""

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


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("--n", type=int, required=True, help="number of scored queries")
    parser.add_argument(
        "--labels", type=_labels, required=True, help="number of labels, or labels:queries pairs if it varies"
    )
    parser.add_argument("--t", type=int, nargs="+", default=[1], help="number of settings tried (default: 1)")
    parser.add_argument(
        "--accuracy", help="accuracy to test against random guessing, as a share (0.6, not 60); rounded as in tables"
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")


def _power_of_ten(logarithm: float) -> str:
    """Write a p-value from its natural logarithm, also where floating point has no such number."""
    if logarithm > math.log(1e-4):
        return f"{math.exp(logarithm):.4f}"
    if logarithm == -math.inf:
        return "0"
    exponent = math.floor(logarithm / math.log(10))
    return f"{math.exp(logarithm - exponent * math.log(10)):.2f}e{exponent}"


def run(args: argparse.Namespace) -> int:
    """Print the baselines and return the exit status."""
    uniform = {args.labels: args.n} if isinstance(args.labels, int) else args.labels
    guessing = RandomBaseline(args.n, uniform)
    correct = None if args.accuracy is None else guessing.count_of_rounded(args.accuracy)
    lines = []
    for t in args.t:
        if args.n >= _LONG:
            print(f"computing the baselines of {args.n:,} queries for t = {t} ...", file=sys.stderr, flush=True)
        count = guessing.critical_count(t, _ALPHA)
        line: dict[str, float | None] = {
            "t": t,
            "baseline": guessing.max_random_baseline(t),
            "significant_from": None if count is None else count / args.n,
        }
        if correct is not None:
            line["p_value"] = guessing.p_value_of_count(correct, t)
            logarithm = guessing.log_p_value(correct / args.n, t)
            line["log10_p_value"] = logarithm / math.log(10) if math.isfinite(logarithm) else None
        lines.append(line)
    if args.json:
        labels = {str(labels): queries for labels, queries in uniform.items()}
        accuracy = None if correct is None else float(args.accuracy)
        document = {
            **{"n": args.n, "labels": labels, "accuracy": accuracy, "correct": correct, "alpha": _ALPHA},
            "baselines": lines,
        }
        print_json(document, indent=2)
        return 0
    table = [["t", "baseline", f"p <= {_ALPHA} from"]]
    if correct is not None:
        table[0].append(f"p-value of {correct}/{args.n}")
    for line in lines:
        needed = line["significant_from"]
        row = [str(line["t"]), f"{line['baseline']:.5f}", "never" if needed is None else f"{needed:.5f}"]
        if correct is not None:
            row.append(_power_of_ten(guessing.log_p_value(correct / args.n, int(line["t"] or 1))))
        table.append(row)
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    for row in table:
        print("  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
    return 0
