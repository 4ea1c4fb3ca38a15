"""Ranking of runs: intervals of ranks, probability of being the best, wins and strengths against other computations."""

from __future__ import annotations

import math
import random
from itertools import combinations, permutations
from typing import Any

import pytest

import StaICC
from StaICC.datasets import Dataset
from StaICC.metrics.paired_tests import LEVEL, directional_holm
from StaICC.results import Result, compare, compare_runs, comparison, rank, ranking
from StaICC.results.comparison import Best, Tied, Worse

ROWS = [(f"number {row}", row % 2) for row in range(600)]


def predictor(name: str, skill: float, probabilities: bool = False) -> Any:
    """A model that is right with a probability between `skill` - 0.2 and `skill` + 0.2, which the row decides."""

    def predict(prompt: str, label_space: list[str]) -> Any:
        number = int(prompt.rsplit("number ", 1)[1].split()[0])
        chance = skill + 0.4 * random.Random(number).random() - 0.2
        right = random.Random(f"{name} {prompt[-400:]}").random() < chance
        label = number % 2 if right else 1 - number % 2
        confidence = 0.5 + 0.5 * random.Random(f"{number} {name}").random()
        return [confidence if place == label else 1.0 - confidence for place in (0, 1)] if probabilities else label

    return predict


def evaluate(skills: list[float], sets: int = 1, limit: int = 100, **options: Any) -> dict[str, Result]:
    data = [Dataset.from_rows(ROWS, name=f"own {n}", label_space=["no", "yes"]) for n in range(sets)]
    return {
        f"run {n}": StaICC.Normal(datasets=data, limit=limit, k=1)(predictor(str(n), skill, **options))
        for n, skill in enumerate(skills)
    }


def correct(result: Result) -> list[list[list[bool]]]:
    """Whether each run is correct, by data set, row and repeat."""
    found = []
    for details in result.details.values():
        (record,) = details.conditions
        rows: dict[int, list[bool]] = {}
        for row, truth, prediction in zip(record.rows, record.truth, record.predictions, strict=True):
            rows.setdefault(row, []).append(truth == prediction)
        found.append([rows[row] for row in sorted(rows)])
    return found


def test_both_directions_of_all_pairs_are_corrected_as_so_many_hypotheses() -> None:
    """Against the closed test of Bonferroni over the directions, of which the larger one has at least 1 - p."""
    generator = random.Random(1)
    for count in (1, 2, 3):
        for _ in range(20):
            p_values = [min(1.0, 2 * generator.random() ** 3) for _ in range(count)]
            sides = [*(p / 2 for p in p_values), *(1 - p / 2 for p in p_values)]
            for pair, adjusted in enumerate(directional_holm(p_values)):
                subsets = [
                    [sides[place] for place in range(2 * count) if number >> place & 1]
                    for number in range(4**count)
                    if number >> pair & 1
                ]
                expected = max(min(1.0, len(subset) * min(subset)) for subset in subsets)
                assert adjusted == pytest.approx(expected, abs=0.5 if p_values[pair] > 0.5 else 1e-12)
    assert directional_holm([0.03]) == [0.03]


def test_an_interval_of_ranks_counts_the_runs_that_are_shown_to_be_better_and_worse() -> None:
    runs = evaluate([0.75, 0.5, 0.76, 0.6, 0.74], sets=2)
    found = rank(runs)
    pairs = list(permutations(runs, 2))
    p_values = [compare(runs[a], runs[b]).overall.p_value for a, b in combinations(runs, 2)]
    adjusted = dict(zip(combinations(runs, 2), directional_holm(p_values), strict=True))
    values = {run.run: run.value for run in found.runs}
    better = {
        (a, b)
        for a, b in pairs
        if values[a] > values[b] and (adjusted.get((a, b)) or adjusted.get((b, a)) or 1.0) <= LEVEL
    }
    assert better
    for place in found.runs:
        behind = sum((other, place.run) in better for other in runs)
        before = sum((place.run, other) in better for other in runs)
        assert place.ranks == (1 + behind, len(runs) - before)
        assert isinstance(place.verdict, Best | Tied) == ((found.runs[0].run, place.run) not in better)
        for other in found.runs:
            differ = (place.run, other.run) in better or (other.run, place.run) in better
            assert bool({*place.groups} & {*other.groups}) is not differ
    assert [place.value for place in found.runs] == sorted(values.values(), reverse=True)


@pytest.mark.parametrize("metric", ["accuracy", "averaged_truelabel_likelihood", "macro_F1"])
def test_bounds_decide_as_the_tests_of_all_pairs(metric: str, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = evaluate([0.4 + 0.02 * n for n in range(14)], limit=200, probabilities=True)
    exact = rank(runs, metric, draws=1)
    monkeypatch.setattr(ranking, "MOST_RUNS", 2)
    bounded = rank(runs, metric, draws=1)
    assert [place.ranks for place in bounded.runs] == [place.ranks for place in exact.runs]
    assert len({place.ranks for place in exact.runs}) > 4
    for place, other in zip(bounded.runs, exact.runs, strict=True):
        assert type(place.verdict) is type(other.verdict)


@pytest.mark.parametrize("most_runs", [2, 20])
def test_verdicts_do_not_depend_on_which_of_two_best_runs_comes_first(
    most_runs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The third run is right on 60 of the 70 rows of the first, and with the second it shares 30."""
    monkeypatch.setattr(comparison, "MOST_RUNS", most_runs)
    monkeypatch.setattr(ranking, "MOST_RUNS", most_runs)
    data = Dataset.from_rows(ROWS, name="own", label_space=["no", "yes"])
    benchmark = StaICC.Normal(datasets=[data], limit=100, k=0)
    rows = list(dict.fromkeys(query.prompt for query in benchmark[0].conditions()[0].queries))
    known = {"a": rows[:70], "b": rows[30:], "c": rows[:60]}

    def model(name: str) -> Any:
        right = set(known[name])

        def predict(prompt: str, label_space: list[str]) -> int:
            number = int(prompt.rsplit("number ", 1)[1].split()[0])
            return number % 2 if prompt in right else 1 - number % 2

        return predict

    runs = {name: benchmark(model(name)) for name in known}
    verdicts = []
    for names in permutations(runs):
        ranks = {run.run: run for run in rank({name: runs[name] for name in names}).runs}
        assert [ranks[name].best for name in "ab"] == pytest.approx([0.5, 0.5], abs=0.2)
        assert sum(run.best for run in ranks.values()) <= 1
        assert ranks["c"].ranks == (2, 3)
        compared = {run.run: run for run in compare_runs({name: runs[name] for name in names}).ranking}
        assert ranks["a"].verdict == ranks["b"].verdict == compared["a"].verdict == compared["b"].verdict == Best()
        verdicts += [ranks["c"].verdict, compared["c"].verdict]
    (verdict,) = set(verdicts)
    assert isinstance(verdict, Worse)
    assert verdict.p_value == pytest.approx(3 * 2 * 0.5**10)


def test_the_probability_of_being_the_best_against_a_direct_bootstrap() -> None:
    numpy = pytest.importorskip("numpy")
    runs = evaluate([0.7, 0.7, 0.66], sets=2, limit=60)
    found = {place.run: place.best for place in rank(runs, draws=2000, seed=3).runs}
    assert sum(found.values()) == pytest.approx(1.0)
    generator = numpy.random.default_rng(0)
    wins = dict.fromkeys(runs, 0.0)
    data = {name: [numpy.array(rows).sum(1) for rows in correct(result)] for name, result in runs.items()}
    for _ in range(4000):
        places = [generator.integers(0, 60, 60) for _ in range(2)]
        sums = {
            name: sum(rows[place].sum() for rows, place in zip(own, places, strict=True)) for name, own in data.items()
        }
        best = [name for name, value in sums.items() if value == max(sums.values())]
        for name in best:
            wins[name] += 1 / len(best) / 4000
    for name, share in wins.items():
        assert found[name] == pytest.approx(share, abs=0.045)
    assert rank(runs, draws=50, seed=1) == rank(runs, draws=50, seed=1)


def test_win_rates_and_strengths_over_data_sets() -> None:
    optimize = pytest.importorskip("scipy.optimize")
    runs = evaluate([0.5, 0.55, 0.6, 0.75], sets=4, limit=40)
    names = list(runs)
    values = [[own["accuracy"] for own in result.divided.values()] for result in runs.values()]
    won = [
        [sum((a > b) + (a == b) / 2 for a, b in zip(ours, others, strict=True)) for others in values] for ours in values
    ]

    def loss(strengths: Any) -> float:
        total = sum(math.log1p(math.exp(-b)) / 2 + math.log1p(math.exp(b)) / 2 for b in strengths)
        for i, j in permutations(range(4), 2):
            total += won[i][j] * math.log1p(math.exp(strengths[j] - strengths[i]))
        return total

    expected = optimize.minimize(loss, [0.0] * 4, tol=1e-12).x
    for place in rank(runs, draws=1).runs:
        number = names.index(place.run)
        wins = place.wins
        assert wins is not None
        assert wins.interval is not None
        assert wins.strength_interval is not None
        assert wins.rate == pytest.approx((sum(won[number]) - won[number][number]) / 12)
        assert wins.strength == pytest.approx(expected[number], abs=1e-3)
        assert 0.0 <= wins.interval.low <= wins.rate <= wins.interval.high <= 1.0
        assert wins.strength_interval[0] <= wins.strength <= wins.strength_interval[1]
    assert all(place.wins is None for place in rank(evaluate([0.5, 0.6]), draws=1).runs)
    equal = rank(dict.fromkeys(("one", "two"), runs["run 0"]), draws=1).runs
    assert [place.wins and place.wins.rate for place in equal] == [0.5, 0.5]  # a tie is half a win


def test_ranks_over_templates_and_draws() -> None:
    runs = {
        name: StaICC.Generalisation(datasets=["mini"], limit=24, draws=2, templates=2)(model)
        for name, model in (("same", lambda prompt, label_space: 0), ("other", lambda prompt, label_space: 1))
    }
    assert {place.condition_ranks for place in rank(runs, draws=1).runs} <= {(1, 1), (2, 2)}

    def changing(prompt: str, label_space: list[str]) -> int:
        return len(prompt) % 2

    runs["changing"] = StaICC.Generalisation(datasets=["mini"], limit=24, draws=2, templates=2)(changing)
    found = {place.run: place.condition_ranks for place in rank(runs, draws=1).runs}
    accuracies = {
        name: [sum(map(int.__eq__, r.truth, r.predictions)) for r in result.details["mini"].conditions]
        for name, result in runs.items()
    }
    for name, own in accuracies.items():
        ranks = [1 + sum(other[n] > value for other in accuracies.values()) for n, value in enumerate(own)]
        assert found[name] == (min(ranks), max(ranks))
    repeated = evaluate([0.5, 0.55, 0.6])
    found = {place.run: place.condition_ranks for place in rank(repeated, draws=1).runs}
    sums = {
        name: [sum(column) for column in zip(*correct(result)[0], strict=True)] for name, result in repeated.items()
    }
    for name, own in sums.items():  # two draws of demonstrations for each row
        ranks = [1 + sum(other[n] > value for other in sums.values()) for n, value in enumerate(own)]
        assert len(ranks) == 2
        assert found[name] == (min(ranks), max(ranks))
