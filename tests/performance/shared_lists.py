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


def accuracy_given(effect):
    """Return the probability of a correct prediction with a list."""
    return 1.0 / (1.0 + numpy.exp(-(LOGIT + effect)))


def main():
    """Print the coverage of the interval, and how often equal models are called different."""
    generator = numpy.random.default_rng(0)
    nodes, weights = numpy.polynomial.hermite_e.hermegauss(80)
    print("rows, sd of a list | coverage | called different")
    for n_rows in (128, 512):
        queries = [row for row in range(n_rows) for _ in range(LISTS)]
        sample = Sample([0] * len(queries), queries, n_rows, 2)
        for sd in (0.2, 0.4, 0.8):
            truth = float((weights * accuracy_given(sd * nodes)).sum() / weights.sum())
            covered = different = 0
            for _ in range(SAMPLES):
                runs = []
                for _ in range(2):
                    chances = accuracy_given(sd * generator.standard_normal(LISTS))
                    runs.append((generator.random((n_rows, LISTS)) < chances).astype(float))
                term = ratio_part(runs[0].sum(axis=1).tolist(), [float(LISTS)] * n_rows, 0.95)
                covered += term.value - term.below <= truth <= term.value + term.above
                first, second = (mean_contributions(sample, run.ravel().tolist(), (0.0, 1.0)) for run in runs)
                different += p_value(paired_difference([(1.0, first)], [(1.0, second)])) <= 0.05
            print(n_rows, sd, "|", covered / SAMPLES, "|", different / SAMPLES, flush=True)


if __name__ == "__main__":
    main()
