"""What commands that evaluate models do around a run: names of models, the message of an interrupt."""

from __future__ import annotations

import argparse
import contextlib
import itertools
from collections.abc import Iterator

from StaICC.cli.saving import ResultSaver
from StaICC.inference.runner import CHUNK_OF_KERNELS
from StaICC.results.result import Result, ResultGroup


def name_models(result: Result | ResultGroup, *names: str) -> None:
    """Write the names of the models into the provenance of a result.

    Args:
        result: A result, or a group of results.
        *names: The models. In a group of several models, results of the models follow each other in this order.
    """
    for single_result, name in zip(result.results(), itertools.cycle(names), strict=False):
        single_result.provenance = single_result.provenance.named(name)


def _lost_chunk(chunk_size: int | None) -> str:
    """Return what an interrupt loses of a local model, and the option with which the next one loses less.

    Args:
        chunk_size: The value of ``--chunk-size``; ``None`` if it is not given.
    """
    size = CHUNK_OF_KERNELS if chunk_size is None else chunk_size
    if size == 1:
        return ""
    return f" (of a local model, up to {size} queries are lost; with a smaller --chunk-size, fewer)"


@contextlib.contextmanager
def explained_interrupt(args: argparse.Namespace, saver: ResultSaver) -> Iterator[None]:
    """Say in an interrupt what is kept, and how to continue.

    The command line prints this message, with the command that continues.

    Raises:
        KeyboardInterrupt: The run was interrupted; its argument is the message.
    """
    try:
        yield
    except KeyboardInterrupt:
        if args.store is None:
            message = "no predictions were stored; with --store FILE a run can continue"
        else:
            message = (
                f"completed predictions are in {args.store}{_lost_chunk(args.chunk_size)}; the same command continues"
            )
        if saver.path is not None:
            message += f"; the runs that are finished are in {saver.path}"
        raise KeyboardInterrupt(message) from None
