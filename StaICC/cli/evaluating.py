"""What commands that evaluate models do around a run: names of models, the message of an interrupt."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Iterator
from typing import Any

from StaICC.cli.saving import ResultSaver


def name_models(result: Any, *names: str) -> None:
    """Write the names of the models into the provenance of a result, or of each result of a group."""
    results = list(result.results())
    for single, name in zip(results, names * (len(results) // len(names)), strict=True):
        single.provenance = single.provenance.named(name)


@contextlib.contextmanager
def explained_interrupt(args: argparse.Namespace, saver: ResultSaver) -> Iterator[None]:
    """Say in an interrupt what is kept and how to continue; the command line prints it with the command."""
    try:
        yield
    except KeyboardInterrupt:
        kept = "no predictions were stored; with --store FILE a run can continue"
        if args.store is not None:
            kept = f"completed predictions are in {args.store}; the same command continues"
        if saver.path is not None:
            kept += f"; the runs that are finished are in {saver.path}"
        raise KeyboardInterrupt(kept) from None
