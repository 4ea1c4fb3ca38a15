"""The command ``cite``: BibTeX entries."""

from __future__ import annotations

import argparse
from pathlib import Path

from StaICC.cli.output import Printed
from StaICC.cli.saved_results import load_named
from StaICC.comparing.citing import Work, entries, find_work, works
from StaICC.comparing.paper import works_of
from StaICC.datasets.catalogue import names
from StaICC.errors import UnknownNameError
from StaICC.layout import Line


def add_cite(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("names", nargs="*", metavar="NAME", help="what to cite (default: the benchmark and its data)")
    parser.add_argument("--methods", action="store_true", help="also all methods of the paper")


def long_icl_works() -> list[Work]:
    """Return the works of the data sets of LongICL, which are not in the catalogue."""
    from StaICC.long_icl.cards import cards

    return [Work((card.name,), "data set", card.citation) for card in cards(None).values()]


def cite(args: argparse.Namespace) -> Printed:
    """Print the BibTeX of the benchmark, its data sets and the methods.

    Without a name: the benchmark and its ten data sets. NAME is a data set (including those of LongICL), a benchmark, a
    method of the paper (hidden-calibration, ...), 'random baselines', or the file of a saved result, for all that it
    used. The benchmark is always printed first.

    examples:
      python -m StaICC cite
      python -m StaICC cite TREC AGNews hidden-calibration
      python -m StaICC cite LongICL banking77
      python -m StaICC cite result.json
      python -m StaICC cite --methods --json
    """
    further_works = long_icl_works()
    cited = [find_work("StaICC")]
    files = []
    for name in args.names:
        try:
            cited.append(find_work(name, further_works))
        except UnknownNameError:
            is_named_as_result = Path(name).suffix.lower() == ".json"
            if not is_named_as_result and not Path(name).is_file():
                raise
            files.append(Path(name))
    if args.methods:
        cited += [work for work in works() if work.kind == "method"]
    if not args.names and not args.methods:
        cited += [find_work(name) for name in names()]
    for saved in load_named(files).values():
        for result in saved.results():
            cited += works_of(result, further_works)

    document = []
    for work in dict.fromkeys(cited):
        document.append({"names": list(work.names), "kind": work.kind, "bibtex": work.bibtex.strip()})
    text = "\n\n".join(entries(cited))
    return Printed(document, [Line(line, "code") for line in text.split("\n")])
