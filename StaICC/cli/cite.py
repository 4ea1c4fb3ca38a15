"""``python -m StaICC cite``: print the BibTeX of the benchmark, its data sets and the methods.

Without a name: the benchmark and its ten data sets. NAME is a data set (including those of LongICL), a benchmark, a
method of the paper (hidden-calibration, ...), or 'random baselines'. The benchmark is always printed first.

examples:
  python -m StaICC cite
  python -m StaICC cite TREC AGNews hidden-calibration
  python -m StaICC cite LongICL banking77
  python -m StaICC cite --methods --json
"""

from __future__ import annotations

import argparse

from StaICC.cli.files import print_json
from StaICC.datasets import names
from StaICC.errors import UnknownNameError, unknown_name
from StaICC.results.citations import Work, entries, find_work, works

BENCHMARK = "StaICC"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("names", nargs="*", metavar="NAME", help="what to cite (default: the benchmark and its data)")
    parser.add_argument("--methods", action="store_true", help="also all methods of the paper")
    parser.add_argument("--json", action="store_true", help="print JSON instead of BibTeX")


def _find(name: str) -> Work:
    """Return the work of a name; the data sets of LongICL are loaded only if nothing else matches."""
    try:
        return find_work(name)
    except UnknownNameError:
        from StaICC.benchmarks.long_icl import cards

        found = next((card for key, card in cards().items() if key == name.casefold().replace("-", "_")), None)
        if found is None:
            legal = [*names(), *cards(), *(one for work in works() for one in work.names)]
            raise unknown_name("data set, method or benchmark", name, legal) from None
        return Work((found.name,), "data set", found.citation)


def run(args: argparse.Namespace) -> int:
    """Print the citations.

    Returns:
        The exit status.

    Raises:
        UnknownNameError: The name is unknown.
    """
    methods = [work.names[0] for work in works() if work.kind == "method"] if args.methods else []
    chosen = [*args.names, *methods] or list(names())
    found = list(dict.fromkeys(_find(name) for name in [BENCHMARK, *chosen]))
    if args.json:
        document = [{"names": list(one.names), "kind": one.kind, "bibtex": one.bibtex.strip()} for one in found]
        print_json(document, indent=1)
    else:
        print("\n\n".join(entries(found)))
    return 0
