"""Does a smaller number type predict the same labels? float32 next to bfloat16 on the same prompts.

A label that changes is a near-tie where float32 itself hardly prefers one label: its margin (the difference of the two
largest probabilities) is printed next to the median margin of all prompts. Usage::

    python tests/performance/number_types.py [--model smollm2] [--datasets TREC GLUE-SST2] [--prompts 200]
"""

from __future__ import annotations

import statistics

from records import arguments, markdown, record

from StaICC import Normal, load_kernel


def margin(row: list[float]) -> float:
    """How much the first label is preferred to the second."""
    first, second = sorted(row, reverse=True)[:2]
    return first - second


if __name__ == "__main__":
    options = arguments(__doc__, {"--model": "smollm2", "--datasets": ["TREC", "GLUE-SST2"], "--prompts": 200})
    kernels = [load_kernel(options.model, dtype=dtype) for dtype in ("float32", "bfloat16")]
    figures: dict[str, dict[str, float]] = {}
    for experimentor in Normal(datasets=options.datasets):
        prompts, labels = experimentor.prompt_set()[: options.prompts], experimentor.get_label_space()
        exact, short = ([list(row) for row in kernel.batch(prompts, labels)] for kernel in kernels)
        changed = [a for a, b in zip(exact, short, strict=True) if a.index(max(a)) != b.index(max(b))]
        figures[experimentor.name] = {
            "prompts": len(prompts),
            "labels that change": len(changed),
            "largest margin among them": max(map(margin, changed), default=0.0),
            "median margin": statistics.median(map(margin, exact)),
            "largest difference": max(
                abs(x - y) for a, b in zip(exact, short, strict=True) for x, y in zip(a, b, strict=True)
            ),
        }
    rows = ([name, *row.values()] for name, row in figures.items())
    print(markdown(["data set", *next(iter(figures.values()))], rows))
    record(__file__, figures, vars(options))
