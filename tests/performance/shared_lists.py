"""Intervals and tests of runs whose test rows share two lists of demonstrations, against the mean over all lists.

The logit of a correct prediction is 0.4 plus an effect of the list, which is normal and of each model its own. So both
models are equal in the mean over lists.

    python tests/performance/shared_lists.py
"""

import numpy

from StaICC.metrics.intervals import ratio_part
from StaICC.metrics.paired_tests import p_value, paired_difference
from StaICC.metrics.statistics import Sample, mean_contributions

LISTS = 2
SAMPLES = 1000
LOGIT = 0.4


NODES, WEIGHTS = numpy.polynomial.hermite_e.hermegauss(80)
"""Quadrature for means over a normal variable."""


def accuracy_with(effect):
    """Return the probability of a correct prediction with a list that has this effect on the logit."""
    return 1.0 / (1.0 + numpy.exp(-(LOGIT + effect)))


def draw_run(generator, n_rows, deviation):
    """Return 1 for correct predictions and 0 for others: rows x lists."""
    accuracy_of_list = accuracy_with(deviation * generator.standard_normal(LISTS))
    return (generator.random((n_rows, LISTS)) < accuracy_of_list).astype(float)


def interval_covers(run, accuracy):
    """Return whether the interval of a run contains the accuracy over all lists."""
    hits_of_rows = run.sum(axis=1).tolist()
    term = ratio_part(hits_of_rows, [float(LISTS)] * len(run), 0.95)
    return term.value - term.below <= accuracy <= term.value + term.above


def are_called_different(first, second):
    """Return whether the paired test of two runs is significant."""
    n_rows = len(first)
    row_of_query = [row for row in range(n_rows) for _ in range(LISTS)]
    sample = Sample([0] * len(row_of_query), row_of_query, n_rows, 2)
    of_first = mean_contributions(sample, first.ravel().tolist(), (0.0, 1.0))
    of_second = mean_contributions(sample, second.ravel().tolist(), (0.0, 1.0))
    return p_value(paired_difference([(1.0, of_first)], [(1.0, of_second)])) <= 0.05


def main():
    """Print the coverage of the interval, and how often equal models are called different."""
    generator = numpy.random.default_rng(0)
    print("rows, sd of a list | coverage | called different")
    for n_rows in (128, 512):
        for deviation in (0.2, 0.4, 0.8):
            mean_accuracy = float((WEIGHTS * accuracy_with(deviation * NODES)).sum() / WEIGHTS.sum())
            covered = 0
            different = 0
            for _ in range(SAMPLES):
                first = draw_run(generator, n_rows, deviation)
                second = draw_run(generator, n_rows, deviation)
                covered += interval_covers(first, mean_accuracy)
                different += are_called_different(first, second)
            print(n_rows, deviation, "|", covered / SAMPLES, "|", different / SAMPLES, flush=True)


if __name__ == "__main__":
    main()
