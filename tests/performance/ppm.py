"""Accuracy and speed of the embedded model on the real prompts of StaICC-Normal, beside guessing.

Run it from the repository's root::

    python tests/performance/ppm.py [--k 4] [--noisy-channel] [--limit N] [--datasets TREC AGNews] [--order N]

For each data set it prints the accuracy of the kernel, of the uniform guess (1 / labels), of always answering the most
frequent true label of the test rows (which nobody knows beforehand), and the milliseconds per prompt; below, the means
and the total time on one core. Asked for nothing but the whole benchmark (no options), it ends with status 1 if the
kernel does not beat the uniform guess on average or needs more than 60 seconds for the 10,240 prompts.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from statistics import fmean

from records import record

from StaICC import Normal
from StaICC.kernels.ppm import PPMKernel

ALLOWED_SECONDS = 60


def main() -> int:
    parser = argparse.ArgumentParser(description="Measure the embedded model on StaICC-Normal.")
    parser.add_argument("--k", type=int, default=4, help="demonstrations per prompt")
    parser.add_argument("--noisy-channel", action="store_true")
    parser.add_argument("--limit", type=int, help="only the first so many test rows")
    parser.add_argument("--datasets", nargs="+", help="the ten by default")
    parser.add_argument("--order", type=int, default=PPMKernel().order)
    parser.add_argument("--escape", default=PPMKernel().escape, help="A, C or D")
    arguments = parser.parse_args()

    kernel = PPMKernel(arguments.order, arguments.escape)
    benchmark = Normal(
        k=arguments.k,
        noisy_channel=arguments.noisy_channel,
        datasets=arguments.datasets,
        limit=arguments.limit,
    )
    channel = ", noisy channel" if arguments.noisy_channel else ""
    print(f"ppm order={kernel.order} escape={kernel.escape}, k={arguments.k}{channel}")
    print(f"{'data set':<22}{'prompts':>8}{'accuracy':>10}{'uniform':>9}{'majority':>10}{'ms/prompt':>11}")
    figures = []
    prompts_total = 0
    seconds_total = 0.0
    for experimentor in benchmark:
        labels = experimentor.get_label_space()
        prompts = experimentor.prompt_set()
        truth = [query.label for query in experimentor.all_queries()]
        start = time.process_time()
        rows = kernel.batch(prompts=prompts, label_space=labels)
        seconds = time.process_time() - start
        right = sum(row.index(max(row)) == label for row, label in zip(rows, truth, strict=True))
        figure = (right / len(truth), 1 / len(labels), Counter(truth).most_common(1)[0][1] / len(truth))
        figures.append(figure)
        prompts_total += len(prompts)
        seconds_total += seconds
        accuracy, uniform, majority = figure
        pace = 1000 * seconds / len(prompts)
        print(f"{experimentor.name:<22}{len(prompts):>8}{accuracy:>10.4f}{uniform:>9.4f}{majority:>10.4f}{pace:>11.3f}")
    accuracy, uniform, majority = (fmean(column) for column in zip(*figures, strict=True))
    pace = 1000 * seconds_total / prompts_total
    print(f"{'mean':<22}{prompts_total:>8}{accuracy:>10.4f}{uniform:>9.4f}{majority:>10.4f}{pace:>11.3f}")
    print(f"total: {seconds_total:.2f} s of one core")
    totals = {"accuracy": accuracy, "uniform": uniform, "majority": majority, "ms a prompt": pace, "s": seconds_total}
    record(__file__, totals, vars(arguments))
    whole = len(sys.argv) == 1
    return int(whole and (accuracy <= uniform or seconds_total > ALLOWED_SECONDS))


if __name__ == "__main__":
    sys.exit(main())
