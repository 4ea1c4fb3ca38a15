"""What all methods of Table 2 compute together: positions of the model, beside the distinct ones that they need.

A *position* is a token at which the model is evaluated. Methods together need each distinct prefix of their token
sequences once. The script runs ``run_all`` once alone, and then a second time with the same store. Usage::

    python tests/performance/methods.py [--model smollm2] [--dataset GLUE-SST2] [--limit 8] [--variant paper]
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

from records import arguments, record

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
        shared = sum(len(os.path.commonprefix(pair)) for pair in pairwise(ordered))  # noqa: RUF071
        return sum(map(len, ordered)) - shared


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


if __name__ == "__main__":
    options = arguments(
        __doc__,
        {
            "--model": "smollm2",
            "--dataset": "GLUE-SST2",
            "--limit": 8,
            "--variant": "paper",
            "--samples": 32,
            "--k": 4,
            "--cut": 256,  # demonstrations that TopK and SA-ICL choose from
        },
    )
    benchmark = Normal(k=options.k, datasets=[options.dataset], limit=options.limit)
    cut = {"demonstration_set_cut": options.cut}
    figures: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        for name in ("together", "again with the same store"):
            with counted() as positions:
                table = run_all(
                    load_kernel(options.model),
                    benchmark,
                    options.variant,
                    options.samples,
                    options=cut,
                    store=Path(folder) / "store.sqlite",
                )
            figures[name] = [positions.computed, positions.distinct]
    figures["alone"] = 0
    for name in table:
        own = cut if name in ("topk", "sa_icl") else {}
        with counted() as positions:
            Method(name, load_kernel(options.model), options.variant, options.samples, **own).run(benchmark)
        figures["alone"] += positions.computed
    print(table)
    print(f"positions computed and distinct ones: {figures}")
    record(__file__, figures, vars(options))
