"""``python -m StaICC cite``: print the BibTeX of the benchmark, its data sets and the methods."""

from __future__ import annotations

import argparse
import json

from StaICC.datasets import names
from StaICC.results.citations import entries, find_work, works

__all__ = ["EPILOG", "add_arguments", "run"]

EPILOG = """\
Without a name: the benchmark and its ten data sets. NAME is a data set, a benchmark (StaICC, LongICL), a method of the
paper (hidden-calibration, ...), GLER, or 'random baselines'; the benchmark is always printed first.

examples:
  python -m StaICC cite
  python -m StaICC cite TREC AGNews hidden-calibration
  python -m StaICC cite --methods --json
"""

BENCHMARK = "StaICC"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``cite`` to its parser.

    Args:
        parser: The parser of the subcommand.
    """
    parser.add_argument("names", nargs="*", metavar="NAME", help="what to cite (default: the benchmark and its data)")
    parser.add_argument("--methods", action="store_true", help="all methods of the paper too")
    parser.add_argument("--json", action="store_true", help="print JSON instead of BibTeX")


def run(args: argparse.Namespace) -> int:
    """Print the citations.

    Args:
        args: The parsed arguments.

    Returns:
        The exit status.

    Raises:
        UnknownNameError: There is nothing of that name.
    """
    methods = [work.names[0] for work in works() if work.kind == "method"] if args.methods else []
    chosen = [*args.names, *methods] or list(names())
    found = list(dict.fromkeys(find_work(name) for name in [BENCHMARK, *chosen]))
    if args.json:
        document = [{"names": list(one.names), "kind": one.kind, "bibtex": one.bibtex.strip()} for one in found]
        print(json.dumps(document, ensure_ascii=False, indent=1))
    else:
        print("\n\n".join(entries(found)))
    return 0
