"""Coverage, type I error and power with test rows in clusters.

The logit of a correct prediction is a constant plus an effect of the cluster, which is normal with standard deviation
sd, of each run its own. In half of the rows of a cluster with sd > 0, the true label is that of the cluster. Unequal
sizes are exponential with the mean that is stated. Run with --all for all cells of accuracy, or --metrics for the other
metrics (slow), or --rare for clusters of a rare kind; the tables are in docs/error_rates.md.
"""

import argparse
import math
import random
from dataclasses import dataclass
from itertools import product
from typing import NamedTuple

import numpy

from StaICC.metrics.clusters import level_over_clusters
from StaICC.metrics.intervals import NoInterval, ratio_part
from StaICC.metrics.paired_tests import PairedDifference, difference_interval, p_value, paired_difference, too_few_rows
from StaICC.metrics.scores import STATISTICS
from StaICC.metrics.statistics import OtherRun, Sample

LEVEL = 0.95
LABELS = 3
METRICS = ("accuracy", "averaged_truelabel_likelihood", "macro_F1", "expected_calibration_error_1")
ROWS_OF_TRUTH = 60_000


def sizes_of(rng, clusters, rows, unequal):
    """Return the number of rows of each cluster."""
    if not unequal:
        return [rows] * clusters
    return [max(1, round(rng.expovariate(1.0 / rows))) for _ in range(clusters)]


def draw(rng, sizes, sd, logits):
    """Return true labels, the cluster of each row, and the label probabilities of each run."""
    truth = []
    cluster_of_row = []
    runs = [[] for _ in logits]
    for cluster, size in enumerate(sizes):
        effects = [rng.gauss(0.0, sd) for _ in logits]
        common_label = rng.randrange(LABELS)
        for _ in range(size):
            label = common_label if sd and rng.random() < 0.5 else rng.randrange(LABELS)
            truth.append(label)
            cluster_of_row.append(cluster)
            for run, logit, effect in zip(runs, logits, effects, strict=True):
                run.append(_probabilities(rng, label, logit + effect))
    return truth, cluster_of_row, runs


def _probabilities(rng, label, logit):
    """Return label probabilities; the label with the largest one is correct with the probability of the logit."""
    is_correct = rng.random() < 1.0 / (1.0 + math.exp(-logit))
    predicted = label if is_correct else (label + rng.randrange(1, LABELS)) % LABELS
    confidence = 1.0 / LABELS + (1.0 - 1.0 / LABELS) * rng.betavariate(2.0, 1.0)
    row = [(1.0 - confidence) / (LABELS - 1)] * LABELS
    row[predicted] = confidence
    return row


def predictions(statistic, rows):
    """Return the predictions in the form that a statistic reads."""
    if statistic.reads == "labels":
        return [row.index(max(row)) for row in rows]
    return rows


def sample_of(truth, cluster_of_row):
    """Return the rows as a sample in clusters."""
    return Sample(truth, range(len(truth)), len(truth), LABELS, clusters=cluster_of_row)


def true_values(sd, logit, metrics):
    """Return the value of each metric in a very large sample, with clusters of one row for the mean over clusters."""
    rng = random.Random(f"truth {sd} {logit}")
    truth, _, (rows,) = draw(rng, [1] * ROWS_OF_TRUTH, sd, [logit])
    sample = Sample(truth, range(len(truth)), len(truth), LABELS)
    values = {}
    for metric in metrics:
        statistic = STATISTICS[metric]
        values[metric] = statistic.of_run(sample, predictions(statistic, rows)).value
    return values


def difference_of(statistic, sample, first, second):
    """Return the difference of two runs over clusters."""
    units = sample.by_cluster()
    first, second = predictions(statistic, first), predictions(statistic, second)
    return paired_difference(
        [(1.0, statistic.of_run(units, first, OtherRun(units, second)))],
        [(1.0, statistic.of_run(units, second, OtherRun(units, first)))],
        units.cluster_shares,
    )


class Cell(NamedTuple):
    """The clusters and the models of a cell."""

    clusters: int
    rows: int
    """Of a cluster, or their mean."""
    unequal: bool
    """Whether the sizes of clusters differ."""
    sd: float
    """Standard deviation of the effect of a cluster."""
    logit: float

    def generator(self):
        """Return a generator of the standard library that the cell decides."""
        return random.Random(f"{self.clusters} {self.rows} {self.sd} {self.unequal} {self.logit}")

    def draw_sizes(self, rng):
        return sizes_of(rng, self.clusters, self.rows, self.unequal)


@dataclass
class Counts:
    """In how many samples each thing happened."""

    covered: int = 0
    """The interval contains the true score."""
    tested: int = 0
    """Equal models are tested."""
    wrong: int = 0
    """Equal models are called different."""
    difference_covered: int = 0
    """The interval of the difference of equal models contains 0."""
    found: int = 0
    """Models with different logits are called different."""


def is_significant(difference):
    return too_few_rows(difference) is None and p_value(difference) <= 0.05


def count_by_metric(cell, metrics, samples, gain):
    """Return the counts of each metric; the gain is the difference of the logits of the models that differ."""
    rng = cell.generator()
    true_score = true_values(cell.sd, cell.logit, metrics)
    counts = {metric: Counts() for metric in metrics}
    for _ in range(samples):
        sizes = cell.draw_sizes(rng)
        logits = [cell.logit, cell.logit, cell.logit + gain]
        truth, cluster_of_row, (first, second, better) = draw(rng, sizes, cell.sd, logits)
        sample = sample_of(truth, cluster_of_row)
        for metric, count in counts.items():
            statistic = STATISTICS[metric]
            # The coverage of a metric whose interval is withheld over clusters is measured all the same.
            interval = statistic._interval_over_units(sample.by_cluster(), predictions(statistic, first), LEVEL)
            assert not isinstance(interval, NoInterval)
            count.covered += interval.low <= true_score[metric] <= interval.high
            equal = difference_of(statistic, sample, first, second)
            if too_few_rows(equal) is None:
                count.tested += 1
                count.wrong += p_value(equal) <= 0.05
                of_difference = difference_interval(equal, LEVEL)
                count.difference_covered += of_difference is None or of_difference.low <= 0.0 <= of_difference.high
            count.found += is_significant(difference_of(statistic, sample, better, first))
    return counts


def mean_accuracy(logit, sd):
    """Return the mean of the probability of a correct prediction over the effects of clusters, by quadrature."""
    nodes, weights = numpy.polynomial.hermite_e.hermegauss(80)
    return float((weights / (1.0 + numpy.exp(-(logit + sd * nodes)))).sum() / weights.sum())


def accuracy_term(hits, sizes):
    """Return the accuracy with its distances to the limits, of the correct predictions and the rows of each cluster."""
    shares = [size / sum(sizes) for size in sizes]
    level = level_over_clusters(LEVEL, shares)
    return ratio_part([float(of_cluster) for of_cluster in hits], [float(size) for size in sizes], level)


def count_accuracy(cell, samples, gain):
    """Return the same counts as :func:`count_by_metric` for the accuracy, faster: it draws the hits of each cluster."""
    generator = numpy.random.default_rng(
        [cell.clusters, cell.rows, int(10 * cell.sd), cell.unequal, int(10 * cell.logit)]
    )
    rng = cell.generator()

    def draw_hits(sizes, logit):
        """Return the number of correct predictions in each cluster."""
        effects = cell.sd * generator.standard_normal(cell.clusters)
        return generator.binomial(sizes, 1.0 / (1.0 + numpy.exp(-(logit + effects)))).tolist()

    true_accuracy = mean_accuracy(cell.logit, cell.sd)
    counts = Counts()
    for _ in range(samples):
        sizes = cell.draw_sizes(rng)
        first = draw_hits(sizes, cell.logit)
        second = draw_hits(sizes, cell.logit)
        better = draw_hits(sizes, cell.logit + gain)
        term = accuracy_term(first, sizes)
        counts.covered += term.value - term.below <= true_accuracy <= term.value + term.above
        equal = _difference_of_hits(first, second, sizes)
        if too_few_rows(equal) is None:
            is_wrong = p_value(equal) <= 0.05
            counts.tested += 1
            counts.wrong += is_wrong
            counts.difference_covered += not is_wrong  # the interval has the differences that the test does not reject
        counts.found += is_significant(_difference_of_hits(better, first, sizes))
    return counts


def error_with_rare_clusters(clusters, rows, unequal, samples):
    """Return how often equal models are called different if a tenth of the clusters is of another kind.

    There, the first model has the accuracy 0.1 and the second one 0.9. Elsewhere the first one is a little better than
    0.6, the accuracy of the second, so that both have the same mean.
    """
    generator = numpy.random.default_rng([clusters, rows, unequal])
    rng = random.Random(f"rare {clusters} {rows} {unequal}")
    rare_share = 0.1
    loss_in_rare = 0.8
    gain_elsewhere = loss_in_rare * rare_share / (1.0 - rare_share)
    wrong = 0
    for _ in range(samples):
        sizes = sizes_of(rng, clusters, rows, unequal)
        is_rare = generator.random(clusters) < rare_share
        first = generator.binomial(sizes, numpy.where(is_rare, 0.9 - loss_in_rare, 0.6 + gain_elsewhere)).tolist()
        second = generator.binomial(sizes, numpy.where(is_rare, 0.9, 0.6)).tolist()
        wrong += is_significant(_difference_of_hits(first, second, sizes))
    return wrong / samples


def _difference_of_hits(first, second, sizes):
    """Return the difference of two accuracies, of the correct predictions and the number of rows of each cluster."""
    total = sum(sizes)
    shares = tuple(size / total for size in sizes)
    steps = [(hits - other_hits) / total for hits, other_hits in zip(first, second, strict=True)]
    return PairedDifference(
        first=sum(first) / total,
        second=sum(second) / total,
        steps=steps,
        lowest_step=-max(shares),
        highest_step=max(shares),
        largest_size=1.0,
        cluster_shares=shares,
    )


def print_rare_clusters(samples):
    """Print how often equal models are called different, with a tenth of the clusters of another kind."""
    for unequal, clusters in product((False, True), (10, 20, 50, 100, 200)):
        print(clusters, 16, unequal, "|", error_with_rare_clusters(clusters, 16, unequal, samples))


def print_cell(cell, metric, counts, samples):
    """Print a line of the table: shares of the samples, or (difference covered) of the tested ones."""
    coverage = round(counts.covered / samples, 3)
    wrong = round(counts.wrong / samples, 3)
    tested = round(counts.tested / samples, 2)
    difference_covered = round(counts.difference_covered / max(1, counts.tested), 3)
    power = round(counts.found / samples, 3)
    about = (cell.clusters, cell.rows, cell.unequal, cell.sd, cell.logit, metric)
    print(*about, "|", coverage, "|", wrong, tested, "|", difference_covered, "|", power, flush=True)


def main():
    """Print a line for each cell and metric."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=1000)
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--metrics", action="store_true")
    parser.add_argument("--rare", action="store_true")
    args = parser.parse_args()
    if args.rare:
        print_rare_clusters(args.samples)
        return
    numbers_of_clusters = (10, 20, 50, 200) if args.all else (10, 20, 50)
    numbers_of_rows = (4, 8, 16) if args.all else (4, 16)
    gain = 0.7
    print("clusters rows unequal sd logit metric | coverage | type I, tested | difference covered | power (0.7 logits)")
    for unequal, clusters, rows, sd, logit in product(
        (False, True), numbers_of_clusters, numbers_of_rows, (0.0, 1.0, 2.0), (0.4, 2.2)
    ):
        cell = Cell(clusters, rows, unequal, sd, logit)
        if args.metrics:
            counts = count_by_metric(cell, METRICS, args.samples, gain)
        else:
            counts = {"accuracy": count_accuracy(cell, args.samples, gain)}
        for metric, of_metric in counts.items():
            print_cell(cell, metric, of_metric, args.samples)


if __name__ == "__main__":
    main()
