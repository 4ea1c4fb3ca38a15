"""The command ``cite``: BibTeX entries."""

from __future__ import annotations

import argparse

from StaICC.cli.output import Printed
from StaICC.comparing.citing import Work, entries, find_work, works
from StaICC.datasets.catalogue import names
from StaICC.layout import Line


def add_cite(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("names", nargs="*", metavar="NAME", help="what to cite (default: the benchmark and its data)")
    parser.add_argument("--methods", action="store_true", help="also all methods of the paper")


def cite(args: argparse.Namespace) -> Printed:
    """Print the BibTeX of the benchmark, its data sets and the methods.

    Without a name: the benchmark and its ten data sets. NAME is a data set (including those of LongICL), a benchmark, a
    method of the paper (hidden-calibration, ...), or 'random baselines'. The benchmark is always printed first.

    examples:
      python -m StaICC cite
      python -m StaICC cite TREC AGNews hidden-calibration
      python -m StaICC cite LongICL banking77
      python -m StaICC cite --methods --json
    """
    from StaICC.long_icl.cards import cards

    chosen = list(args.names)
    if args.methods:
        chosen += [work.names[0] for work in works() if work.kind == "method"]
    if not chosen:
        chosen = list(names())

    long_icl_works = [Work((card.name,), "data set", card.citation) for card in cards(None).values()]
    found = [find_work(name, long_icl_works) for name in ["StaICC", *chosen]]
    cited = list(dict.fromkeys(found))
    document = [{"names": list(work.names), "kind": work.kind, "bibtex": work.bibtex.strip()} for work in cited]
    text = "\n\n".join(entries(cited))
    return Printed(document, [Line(line, "code") for line in text.split("\n")])
