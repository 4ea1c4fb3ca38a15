"""Does a smaller number type predict the same labels? float32 beside bfloat16 on the same prompts.

A label that changes is a near-tie where float32 itself hardly prefers one label: its margin (the difference of the two
largest probabilities) is printed beside the median margin of all prompts. Usage::

    python tests/performance/number_types.py [--model smollm2] [--datasets TREC GLUE-SST2] [--prompts 200]
"""

from __future__ import annotations

import argparse
import statistics
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from records import record

from StaICC import Normal, load_kernel


def margin(row: list[float]) -> float:
    """How much the first label is preferred to the second."""
    first, second = sorted(row, reverse=True)[:2]
    return first - second


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="smollm2")
    parser.add_argument("--datasets", nargs="+", default=["TREC", "GLUE-SST2"])
    parser.add_argument("--prompts", type=int, default=200)
    options = parser.parse_args()
    kernels = [load_kernel(options.model, dtype=dtype) for dtype in ("float32", "bfloat16")]
    figures: dict[str, dict[str, float]] = {}
    for one in Normal(datasets=options.datasets):
        prompts, labels = one.prompt_set()[: options.prompts], one.get_label_space()
        exact, short = ([list(row) for row in kernel.batch(prompts, labels)] for kernel in kernels)
        changed = [a for a, b in zip(exact, short, strict=True) if a.index(max(a)) != b.index(max(b))]
        largest = max(abs(x - y) for a, b in zip(exact, short, strict=True) for x, y in zip(a, b, strict=True))
        print(
            f"{one.name}: {len(changed)} of {len(prompts)} labels change; largest margin among them "
            f"{max(map(margin, changed), default=0.0):.4f}, median margin of all "
            f"{statistics.median(map(margin, exact)):.4f}; probabilities differ by at most {largest:.4f}"
        )
        figures[one.name] = {"labels that change": len(changed), "prompts": len(prompts), "largest difference": largest}
    record(__file__, figures, vars(options))


if __name__ == "__main__":
    main()
