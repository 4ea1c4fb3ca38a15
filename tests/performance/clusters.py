"""Coverage, type I error and power with test rows in clusters.

The logit of a correct prediction is a constant plus an effect of the cluster, which is normal with standard deviation
sd, of each run its own. In half of the rows of a cluster with sd > 0, the true label is that of the cluster. Unequal
sizes are exponential with the mean that is stated. Run with --all for all cells of accuracy, or --metrics for the other
metrics (slow), or --rare for clusters of a rare kind; the tables are in docs/error_rates.md.
"""

import argparse
import math
import random

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
    truth, cluster_of_row = [], []
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


def cell(clusters, rows, sd, unequal, logit, metrics, samples, gain):
    """Return for each metric coverage, type I error, coverage of the difference, power, and the untested share."""
    rng = random.Random(f"{clusters} {rows} {sd} {unequal} {logit}")
    truths = true_values(sd, logit, metrics)
    counts = {metric: [0, 0, 0, 0, 0] for metric in metrics}
    for _ in range(samples):
        truth, cluster_of_row, (first, second, better) = draw(
            rng, sizes_of(rng, clusters, rows, unequal), sd, [logit, logit, logit + gain]
        )
        sample = sample_of(truth, cluster_of_row)
        for metric in metrics:
            statistic = STATISTICS[metric]
            # The coverage of a metric whose interval is withheld over clusters is measured all the same.
            units = sample.by_cluster()
            interval = statistic._interval_over_units(units, predictions(statistic, first), LEVEL)
            assert not isinstance(interval, NoInterval)
            count = counts[metric]
            count[0] += interval.low <= truths[metric] <= interval.high
            equal = difference_of(statistic, sample, first, second)
            if too_few_rows(equal) is None:
                count[1] += 1
                count[2] += p_value(equal) <= 0.05
                of_difference = difference_interval(equal, LEVEL)
                count[3] += of_difference is None or of_difference.low <= 0.0 <= of_difference.high
            different = difference_of(statistic, sample, better, first)
            if too_few_rows(different) is None:
                count[4] += p_value(different) <= 0.05
    return counts


def cell_of_accuracy(clusters, rows, sd, unequal, logit, samples, gain):
    """Return the same counts as :func:`cell` for the accuracy, faster: only the hits of each cluster are drawn."""
    generator = numpy.random.default_rng([clusters, rows, int(10 * sd), unequal, int(10 * logit)])
    rng = random.Random(f"{clusters} {rows} {sd} {unequal} {logit}")

    def shares_correct(mean_logit):
        """Return the probability of a correct prediction in each cluster."""
        return 1.0 / (1.0 + numpy.exp(-(mean_logit + sd * generator.standard_normal(clusters))))

    # The mean of the probability over the distribution of the effect, by quadrature.
    nodes, weights = numpy.polynomial.hermite_e.hermegauss(80)
    truth = float((weights / (1.0 + numpy.exp(-(logit + sd * nodes)))).sum() / weights.sum())
    covered = tested = wrong = of_difference = found = 0
    for _ in range(samples):
        sizes = sizes_of(rng, clusters, rows, unequal)
        total = sum(sizes)
        first, second, better = (
            generator.binomial(sizes, shares_correct(x)).tolist() for x in (logit, logit, logit + gain)
        )
        shares = [size / total for size in sizes]
        level = level_over_clusters(LEVEL, shares)
        term = ratio_part([float(hits) for hits in first], [float(size) for size in sizes], level)
        covered += term.value - term.below <= truth <= term.value + term.above
        equal = _difference_of_hits(first, second, shares, total)
        if too_few_rows(equal) is None:
            tested += 1
            is_wrong = p_value(equal) <= 0.05
            wrong += is_wrong
            of_difference += not is_wrong  # the interval has the differences that the test does not reject
        different = _difference_of_hits(better, first, shares, total)
        if too_few_rows(different) is None:
            found += p_value(different) <= 0.05
    return covered, tested, wrong, of_difference, found


def error_with_rare_clusters(clusters, rows, unequal, samples):
    """Return how often equal models are called different if a tenth of the clusters is of another kind.

    There, one model has the accuracy 0.9 and the other 0.1. Elsewhere the other one is a little better, so that both
    have the same mean.
    """
    generator = numpy.random.default_rng([clusters, rows, unequal])
    rng = random.Random(f"rare {clusters} {rows} {unequal}")
    rare_share, loss = 0.1, 0.8
    wrong = 0
    for _ in range(samples):
        sizes = sizes_of(rng, clusters, rows, unequal)
        is_rare = generator.random(clusters) < rare_share
        first = numpy.where(is_rare, 0.9 - loss, 0.6 + loss * rare_share / (1.0 - rare_share))
        second = numpy.where(is_rare, 0.9, 0.6)
        hits = [generator.binomial(sizes, chances).tolist() for chances in (first, second)]
        total = sum(sizes)
        difference = _difference_of_hits(*hits, [size / total for size in sizes], total)
        wrong += too_few_rows(difference) is None and p_value(difference) <= 0.05
    return wrong / samples


def _difference_of_hits(first, second, shares, total):
    """Return the difference of two accuracies, of the hits of each cluster."""
    steps = [(hits - other_hits) / total for hits, other_hits in zip(first, second, strict=True)]
    return PairedDifference(
        sum(first) / total, sum(second) / total, steps, -max(shares), max(shares), 1.0, cluster_shares=tuple(shares)
    )


def main():
    """Print a line for each cell and metric."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=1000)
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--metrics", action="store_true")
    parser.add_argument("--rare", action="store_true")
    args = parser.parse_args()
    if args.rare:
        for unequal in (False, True):
            for clusters in (10, 20, 50, 100, 200):
                print(clusters, 16, unequal, "|", error_with_rare_clusters(clusters, 16, unequal, args.samples))
        return
    sds = (0.0, 1.0, 2.0)
    print("clusters rows unequal sd logit metric | coverage | type I, tested | difference covered | power (0.7 logits)")
    for unequal in (False, True):
        for clusters in (10, 20, 50, 200) if args.all else (10, 20, 50):
            for rows in (4, 8, 16) if args.all else (4, 16):
                for sd in sds:
                    for logit in (0.4, 2.2):
                        arguments = (clusters, rows, sd, unequal, logit)
                        if args.metrics:
                            counts = cell(*arguments, METRICS, args.samples, gain=0.7)
                        else:
                            counts = {"accuracy": cell_of_accuracy(*arguments, args.samples, gain=0.7)}
                        for metric, (covered, tested, wrong, of_difference, found) in counts.items():
                            n = args.samples
                            print(
                                clusters, rows, unequal, sd, logit, metric, "|", round(covered / n, 3), "|",
                                round(wrong / n, 3), round(tested / n, 2), "|",
                                round(of_difference / max(1, tested), 3), "|", round(found / n, 3), flush=True,
                            )  # fmt: skip


if __name__ == "__main__":
    main()
