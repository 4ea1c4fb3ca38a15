"""What all methods of Table 2 compute together: positions of the model, beside the distinct ones that they need.

A *position* is a token at which the model is evaluated. Methods together need each distinct prefix of their token
sequences once. The script runs ``run_all`` once alone, and then a second time with the same store. Usage::

    python tests/performance/methods.py [--model smollm2] [--dataset GLUE-SST2] [--limit 8] [--variant paper]
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

from records import record

from StaICC import Normal
from StaICC.kernels.huggingface.batching import BatchRunner
from StaICC.kernels.registry import load_kernel
from StaICC.methods.run import Method, run_all


class Positions:
    """The positions that kernels compute within :func:`counted`."""

    def __init__(self) -> None:
        self.computed = 0
        self.sequences: set[tuple[int, ...]] = set()

    @property
    def distinct(self) -> int:
        """Number of distinct prefixes of all sequences."""
        ordered = sorted(self.sequences)
        if not ordered:
            return 0
        return len(ordered[0]) + sum(len(one) - _shared(before, one) for before, one in pairwise(ordered))


def _shared(one: Sequence[int], other: Sequence[int]) -> int:
    return next((place for place, (a, b) in enumerate(zip(one, other)) if a != b), min(len(one), len(other)))  # noqa: B905


@contextmanager
def counted() -> Iterator[Positions]:
    """Count positions within the block."""
    found, original = Positions(), BatchRunner.run

    def run(self: BatchRunner, sequences: Any, *arguments: Any, **keywords: Any) -> Any:
        counts = original(self, sequences, *arguments, **keywords)
        found.computed += counts.computed
        found.sequences.update(map(tuple, sequences))
        return counts

    BatchRunner.run = run  # type: ignore[method-assign]
    try:
        yield found
    finally:
        BatchRunner.run = original  # type: ignore[method-assign]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="smollm2")
    parser.add_argument("--dataset", default="GLUE-SST2")
    parser.add_argument("--limit", type=int, default=8)
    parser.add_argument("--variant", default="paper")
    parser.add_argument("--samples", type=int, default=32)
    parser.add_argument("--k", type=int, default=4)
    parser.add_argument("--cut", type=int, default=256, help="demonstrations that TopK and SA-ICL choose from")
    parser.add_argument("--alone", action="store_true", help="also run each method alone")
    options = parser.parse_args()
    benchmark = Normal(k=options.k, datasets=[options.dataset], limit=options.limit)
    given = {"demonstration_set_cut": options.cut}
    with tempfile.TemporaryDirectory() as folder:
        run: dict[str, Any] = {"store": Path(folder) / "store.sqlite"}
        began = time.process_time()
        with counted() as together:
            table = run_all(
                load_kernel(options.model), benchmark, options.variant, options.samples, options=given, **run
            )
        seconds = time.process_time() - began
        with counted() as again:
            run_all(load_kernel(options.model), benchmark, options.variant, options.samples, options=given, **run)
        size = (Path(folder) / "store.sqlite").stat().st_size
    print(table)
    ratio = together.computed / together.distinct
    print(f"together: {together.computed} positions of {together.distinct} distinct ones: {ratio:.3f}")
    print(f"a second run with the same store: {again.computed} positions; store: {size / 1e6:.1f} MB; {seconds:.0f} s")
    figures = {"computed": together.computed, "distinct": together.distinct, "ratio": ratio, "second": again.computed}
    if options.alone:
        single = 0
        for name in table:
            own = {"demonstration_set_cut": options.cut} if name in ("topk", "sa_icl") else {}
            with counted() as alone:
                Method(name, load_kernel(options.model), options.variant, options.samples, **own).run(benchmark)
            print(f"{name} alone: {alone.computed} positions")
            single += alone.computed
        print(f"all alone: {single} positions, {single / together.computed:.2f} times as many")
        figures["alone"] = single
    record(__file__, figures, vars(options))


if __name__ == "__main__":
    main()
