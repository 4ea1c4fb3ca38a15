"""Paired comparisons of results: the same figures as the tables, and what happens to results that do not fit."""

from __future__ import annotations

import copy
import hashlib
import math
import random
from collections.abc import Callable
from itertools import combinations
from typing import Any

import pytest

import StaICC
from StaICC.datasets import Dataset
from StaICC.errors import ArgumentError, UnknownNameError
from StaICC.metrics.paired_tests import holm
from StaICC.results import Result, ResultGroup, compare, compare_runs
from StaICC.results.comparison import (
    FORMATS,
    MOST_RUNS,
    Best,
    Tied,
    Untested,
    Worse,
    _groups,
    format_comparisons,
    standings,
    verdict_of,
)
from StaICC.results.comparison import Tested as WasTested

ROWS = [(f"text {row} {row * 7919 % 101}", row % 2) for row in range(400)]


def own_data(name: str = "own", labels: tuple[str, str] = ("no", "yes"), swap: bool = False, shift: int = 0) -> Dataset:
    rows = [(text, (label + shift * (row % 3 == 0)) % 2 ^ swap) for row, (text, label) in enumerate(ROWS)]
    return Dataset.from_rows(rows, name=name, label_space=list(labels))


def scored(salt: str, skill: float = 0.0) -> Callable[..., list[float]]:
    """Logits from a hash; with skill, they lean towards the label that the row's number has."""

    def function(prompt: str, label_space: list[str]) -> list[float]:
        place = [
            hashlib.sha256(f"{salt}\0{prompt}\0{number}".encode()).digest()[0] / 32 - 4
            for number in range(len(label_space))
        ]
        words = prompt.split()
        numbers = [int(word) for word in words if word.isdecimal()]
        if numbers and len(label_space) == 2:
            place[numbers[-2] % 2 if len(numbers) > 1 else 0] += skill
        return place

    return function


@pytest.fixture(scope="module")
def suites(pack: None) -> dict[str, ResultGroup]:
    return {
        name: StaICC.Suite(datasets=["mini", "AGNews"], limit=12)(scored(name, skill))
        for name, skill in (("a", 2.0), ("b", 0.0))
    }


@pytest.fixture(scope="module")
def pair() -> dict[str, Result]:
    return {
        name: StaICC.Normal(datasets=["mini", own_data()], limit=30)(scored(name, skill))
        for name, skill in (("a", 2.0), ("b", 0.0))
    }


def edited(result: Result, change: Callable[[dict[str, Any]], None]) -> Result:
    plain = copy.deepcopy(result.to_dict())
    change(plain)
    return Result.from_dict(plain)


def figures(found: Any) -> list[tuple[Any, ...]]:
    return [(one.dataset, one.values, one.p_value, one.interval) for one in [*found.datasets, found.mean] if one]


# -- the figures of the tables


def test_every_metric_of_every_benchmark_has_the_means_of_the_tables(suites: dict[str, ResultGroup]) -> None:
    seen = 0
    first = {one.benchmark: one for one in suites["a"].results()}
    second = {one.benchmark: one for one in suites["b"].results()}
    for name, result in first.items():
        for metric in result.averaged:
            if metric == "distribution":
                continue
            found = compare(result, second[name], metric)
            assert found.mean is not None, (name, metric, found.left_out)
            expected = (result.averaged[metric], second[name].averaged[metric])
            assert found.mean.values == pytest.approx(expected, abs=1e-12)
            assert found.metric == metric
            assert not any("the table of" in note for note in found.left_out)
            for one in found.datasets:
                assert one.interval is not None
                if isinstance(one.outcome, Untested):
                    assert "too few rows" in one.outcome.reason
                    continue
                assert 0.0 <= one.outcome.p_value <= one.outcome.holm <= 1.0
                assert one.difference == pytest.approx(one.values[0] - one.values[1])
                assert one.interval.low <= one.difference <= one.interval.high
            seen += 1
    assert seen == 4 + 2 + 2 + 2 + 4 + 1 + 1


def test_identical_runs_do_not_differ(suites: dict[str, ResultGroup]) -> None:
    for result in suites["a"].results():
        for metric in result.averaged:
            if metric == "distribution":
                continue
            found = compare(result, result, metric, margin=0.01)
            for one in [*found.datasets, found.overall]:
                assert (one.difference, one.outcome, one.detectable) == (0.0, WasTested(1.0, 1.0), None)
                assert one.interval is not None
                assert one.interval.low < 0.0 < one.interval.high
            assert not any(one.shown for one in found.non_inferiority)  # 24 rows show no difference below 0.01


def test_an_unknown_metric_and_a_bad_margin_are_refused(pair: dict[str, Result]) -> None:
    with pytest.raises(UnknownNameError, match="no metric 'macro_f1'; did you mean 'macro_F1'"):
        compare(pair["a"], pair["b"], "macro_f1")
    for margin in (0.0, -0.1, math.inf, math.nan, 1, 5, True, "a"):
        with pytest.raises(ArgumentError, match=r"margin: got .*, expected a number between 0 and 1"):
            compare(pair["a"], pair["b"], margin=margin)  # type: ignore[arg-type]


def test_lower_is_better_where_it_is(suites: dict[str, ResultGroup]) -> None:
    results = {
        one.benchmark: [one, other] for one, other in zip(suites["a"].results(), suites["b"].results(), strict=True)
    }
    for benchmark, metric, higher in (
        ("Normal", "accuracy", True),
        ("Normal", "expected_calibration_error_1", False),
        ("Contextual_bias", "entropy", True),
        ("Contextual_bias", "contextual_bias", False),
        ("Post_bias", "DL div.", False),
        ("GLER", "accuracy", False),
        ("GLER", "averaged_truelabel_likelihood", False),
        ("GLER", "macro_F1", False),
        ("GLER", "expected_calibration_error_1", True),
        ("Demo_sens", "consistency", True),
    ):
        one, two = results[benchmark]
        found = compare_runs({"a": one, "b": two}, metric)
        assert found.comparisons[0].higher_is_better is higher
        values = [rank.value for rank in found.ranking]
        assert values == sorted(values, reverse=higher)


# -- results that do not fit


def test_the_order_of_the_records_does_not_matter(pair: dict[str, Result]) -> None:
    from StaICC.results.details import pack_scores, unpack_scores

    def shuffle(plain: dict[str, Any]) -> None:
        for details in plain["details"].values():
            (record,) = details["conditions"]
            order = sorted(range(len(record["rows"])), key=lambda place: (place * 37 % 41, place))
            scores = unpack_scores(record["scores"], len(details["labels"]))
            record["scores"] = pack_scores([scores[place] for place in order])
            for key in ("truth", "predictions", "rows"):
                record[key] = [record[key][place] for place in order]

    for metric in pair["a"].averaged:
        plain = compare(pair["a"], pair["b"], metric)
        mixed = compare(edited(pair["a"], shuffle), pair["b"], metric)
        for one, two in zip(plain.datasets, mixed.datasets, strict=True):
            assert two.values == pytest.approx(one.values, abs=1e-12)
            assert (two.p_value is None) is (one.p_value is None)
            assert two.p_value is None or two.p_value == pytest.approx(one.p_value, rel=1e-6)


def test_other_limits_are_compared_on_the_shared_rows(pair: dict[str, Result]) -> None:
    small = StaICC.Normal(datasets=["mini", own_data()], limit=12)(scored("a", 2.0))
    found = compare(pair["b"], small)
    assert [one.rows for one in found.datasets] == [12, 12]
    assert found.datasets[1].values[1] == small.divided["own"]["accuracy"]
    assert "own: 36 of 60 queries of first are not compared" in found.left_out
    same = StaICC.Normal(datasets=["mini", own_data()], limit=12)(scored("b"))
    assert figures(compare(same, small)) == figures(found)


def test_failed_queries_are_left_out_with_a_line() -> None:
    inner = scored("a", 2.0)

    def failing(prompt: str, label_space: list[str]) -> Any:
        row = inner(prompt, label_space)
        return None if row[0] > 3.0 else row

    sets = [own_data()]
    partial = StaICC.Normal(datasets=sets, limit=30)(failing, on_error="collect")
    whole = StaICC.Normal(datasets=sets, limit=30)(scored("b"))
    failed = partial.details["own"].failed
    assert 0 < failed < 60
    found = compare(partial, whole)
    assert found.datasets[0].queries == 60 - failed
    assert found.datasets[0].values[0] == partial.divided["own"]["accuracy"]
    assert f"own: {failed} of 60 queries of first are not compared; {failed} of them failed in it" in found.left_out
    assert f"own: {failed} of 60 queries of second are not compared" in found.left_out
    assert "failed" in {one.field for one in found.differences}
    for metric in ("averaged_truelabel_likelihood", "expected_calibration_error_1", "macro_F1"):
        assert compare(partial, whole, metric).datasets[0].values[0] == pytest.approx(partial.divided["own"][metric])


def test_renamed_and_reordered_labels() -> None:
    runs = [
        StaICC.Normal(datasets=[data], limit=30)(scored("a", 1.0))
        for data in (own_data(), own_data(labels=("bad", "good")), own_data(labels=("yes", "no"), swap=True))
    ]
    renamed = compare(runs[0], runs[1])
    assert renamed.datasets[0].values == tuple(run.averaged["accuracy"] for run in runs[:2])
    assert str(renamed.differences[0]) == "labels of own: no/yes and bad/good"
    for metric in runs[0].averaged:  # the same names in another order: found by name
        found = compare(runs[0], runs[2], metric)
        assert found.datasets[0].values == pytest.approx((runs[0].averaged[metric], runs[2].averaged[metric]))


def test_other_true_labels_and_other_data_are_not_compared() -> None:
    run = StaICC.Normal(datasets=[own_data()], limit=30)(scored("a"))
    wrong = StaICC.Normal(datasets=[own_data(shift=1)], limit=30)(scored("a"))
    with pytest.raises(ArgumentError, match=r"other true labels \(test row \d+: label [01] and [01]\)"):
        compare(run, wrong)
    texts = Dataset.from_rows([(f"other {t}", label) for t, label in ROWS], name="own", label_space=["no", "yes"])
    foreign = StaICC.Normal(datasets=[texts], limit=30)(scored("a"))
    with pytest.raises(ArgumentError, match="other data under this name"):
        compare(run, foreign)


def given(datasets: list[Any], salt: str, right: float, **settings: Any) -> Result:
    """A run whose labels are right at a rate, whatever the prompts say."""
    benchmark = StaICC.Normal(datasets=datasets, limit=30, **settings)
    predictions = []
    for each in benchmark.experimentor:
        draw, labels = random.Random(f"{salt} {each.name}"), len(each.card.label_space)
        queries = each.all_queries()
        predictions.append([q.label if draw.random() < right else (q.label + 1) % labels for q in queries])
    return benchmark(preentered_prediction=predictions)


def other_texts(name: str, labels: tuple[str, str] = ("no", "yes")) -> Dataset:
    return Dataset.from_rows([(f"other {t}", label) for t, label in ROWS], name=name, label_space=list(labels))


@pytest.mark.parametrize("more", [[], ["mini"]])
@pytest.mark.parametrize("labels", [("no", "yes"), ("bad", "good")])
@pytest.mark.parametrize("k", [4, 2])
def test_other_texts_under_one_name_are_never_paired(more: list[str], labels: tuple[str, str], k: int) -> None:
    with pytest.raises(ArgumentError, match="other data under this name"):
        compare(given([own_data()], "a", 0.9), given([other_texts("own", labels), *more], "b", 0.6, k=k))


def test_a_table_with_another_value_is_named(pair: dict[str, Result]) -> None:
    def change(plain: dict[str, Any]) -> None:
        plain["Divided results"]["own"]["accuracy"] = 0.123

    found = compare(pair["a"], edited(pair["b"], change))
    (note,) = (note for note in found.left_out if "the table of second has 0.1230 (metrics standard)" in note)
    assert note.startswith("own: ")
    assert note.endswith("the file may have been changed: check it with verify")


def test_missing_records_and_data_sets_are_named(pair: dict[str, Result]) -> None:
    def remove(plain: dict[str, Any]) -> None:
        plain["details"]["own"]["conditions"] = []

    found = compare(pair["a"], edited(pair["b"], remove))
    assert [one.dataset for one in found.datasets] == ["mini"]
    assert found.mean is None
    assert "own (second: the file has no records of its queries)" in found.left_out
    alone = StaICC.Normal(datasets=["mini"], limit=30)(scored("c"))
    assert "own (second: not in this run)" in compare(pair["a"], alone).left_out
    assert "own (first: not in this run)" in compare(alone, pair["a"]).left_out


def test_a_metric_that_a_run_does_not_have_is_named(pair: dict[str, Result]) -> None:
    bare = StaICC.Normal(datasets=["mini", own_data()], limit=30)(lambda prompt, label_space: 1)
    with pytest.raises(ArgumentError, match="have no probabilities"):
        compare(pair["a"], bare, "averaged_truelabel_likelihood")
    three = compare_runs({**pair, "bare": bare}, "averaged_truelabel_likelihood")
    assert [(one.first, one.second) for one in three.comparisons] == [("a", "b")]
    assert three.left_out[0].startswith("bare (mini, own: bare: ")


def test_a_metric_of_the_users_own_cannot_be_recomputed() -> None:
    runs = [
        StaICC.Normal(datasets=["mini"], limit=6, metrics={"mine": lambda truth, rows: 0.5})(scored(name))
        for name in "ab"
    ]
    with pytest.raises(ArgumentError, match="mine cannot be recomputed from a file"):
        compare(runs[0], runs[1])


# -- several runs


@pytest.mark.parametrize("count", [3, 6])
def test_ranking_and_corrections_of_several_runs(count: int) -> None:
    skills = (4.0, 4.0, 2.0, 2.0, 0.0, 0.0)[-count:]
    runs = {
        f"run {n}": StaICC.Normal(datasets=["mini", own_data()], limit=40)(scored(str(n), skill))
        for n, skill in enumerate(skills)
    }
    found = compare_runs(runs, margin=0.05)
    assert [(one.first, one.second) for one in found.comparisons] == list(combinations(runs, 2))
    of_means = [one.overall.p_value for one in found.comparisons]
    assert [one.overall.holm for one in found.comparisons] == holm(of_means)
    of_datasets = [each.p_value for one in found.comparisons for each in one.datasets]
    assert [each.holm for one in found.comparisons for each in one.datasets] == holm(of_datasets)
    values = {rank.run: rank.value for rank in found.ranking}
    assert values == pytest.approx({name: run.averaged["accuracy"] for name, run in runs.items()})
    groups = {rank.run: set(rank.groups) for rank in found.ranking}
    for one in found.comparisons:
        significant = isinstance(one.overall.outcome, WasTested) and one.overall.outcome.significant
        assert bool(groups[one.first] & groups[one.second]) is not significant
    assert found.ranking[0].groups.startswith("a")
    best = found.ranking[0].run
    outcomes = {frozenset((one.first, one.second)): one.overall.outcome for one in found.comparisons}
    for rank in found.ranking:
        expected = Best() if rank.value == values[best] else verdict_of(outcomes[frozenset((best, rank.run))])
        assert rank.verdict == expected
    assert {type(rank.verdict) for rank in found.ranking[1:]} <= {Best, Tied, Worse, Untested}


def test_one_run_is_compared_with_all_others_by_reference() -> None:
    runs = {
        name: StaICC.Normal(datasets=["mini"], limit=30)(lambda prompt, label_space, n=n: (len(prompt) + n) % 3)
        for n, name in enumerate("abc")
    }
    found = compare_runs(runs, reference="b")
    assert [(one.first, one.second) for one in found.comparisons] == [("b", "a"), ("b", "c")]
    assert found.ranking == ()
    every = {(one.first, one.second): one for one in compare_runs(runs).comparisons}
    (to_c,) = (one for one in found.comparisons if one.second == "c")
    assert to_c.overall.p_value == every["b", "c"].overall.p_value
    with pytest.raises(UnknownNameError, match="run"):
        compare_runs(runs, reference="d")


# -- verdicts


@pytest.mark.parametrize("count", [24, 60])
def test_groups_of_many_runs(count: int) -> None:
    """Any two runs share a group if and only if they do not differ; also where every run has one opponent."""
    names = [f"run {n}" for n in range(count)]
    graphs = {
        "equal": set(),
        "opponents": {frozenset((names[n], names[n + 1])) for n in range(0, count, 2)},
        "ordered": {frozenset((a, b)) for a, b in combinations(names, 2) if names.index(b) - names.index(a) > 3},
        "random": {frozenset(pair) for pair in combinations(names, 2) if random.Random(f"{pair}").random() < 0.3},
    }
    for differing in graphs.values():
        groups = _groups(names, differing)
        for a, b in combinations(names, 2):
            assert any({a, b} <= group for group in groups) is (frozenset((a, b)) not in differing)
        assert all(any(name in group for group in groups) for name in names)
    assert _groups(names, set()) == [set(names)]


def test_of_many_runs_each_is_compared_with_the_best() -> None:
    count = MOST_RUNS + 10
    runs = {f"run {n}": given(["mini"], str(n % 25), 0.95 - 0.025 * (n % 25)) for n in range(count)}
    found = compare_runs(runs)
    assert len(found.comparisons) == count - 1
    assert {one.first for one in found.comparisons} == {found.ranking[0].run}
    assert [rank.value for rank in found.ranking] == sorted((rank.value for rank in found.ranking), reverse=True)
    assert {rank.groups for rank in found.ranking} == {""}
    assert isinstance(found.ranking[-1].verdict, Worse)
    assert {rank.run: rank.verdict for rank in found.ranking} == standings(runs, "accuracy", True)


def test_the_best_of_many_equal_runs_is_corrected_for_its_choice() -> None:
    """The best run is known from the same rows: a correction for the runs next to it alone rejects too often."""
    runs = {f"run {n}": given(["mini"], f"equal {n}", 0.7) for n in range(12)}
    found = compare_runs(runs)
    assert standings(runs, "accuracy", True) == {rank.run: rank.verdict for rank in found.ranking}
    (few,) = (one for one in found.comparisons if {one.first, one.second} == {"run 3", "run 7"})
    count = MOST_RUNS + 1
    many = compare_runs({**runs, **{f"more {n}": given(["mini"], f"more {n}", 0.7) for n in range(count - 12)}})
    for one in many.comparisons:
        p = one.overall.p_value
        assert p is not None
        assert one.overall.holm == pytest.approx(min(1.0, p * count * (count - 1) / 2))
    assert few.overall.holm is not None
    assert few.overall.p_value is not None
    assert few.overall.holm >= few.overall.p_value


def test_a_score_that_leaves_replies_out_is_untested() -> None:
    """Wrong answers that are not parsed would make a run the best one."""

    def model(unclear: float) -> Callable[..., str]:
        def answer(prompt: str, label_space: list[str]) -> str:
            draw = random.Random(prompt)
            return draw.choice(label_space) if draw.random() >= unclear else "I cannot tell."

        return answer

    benchmark = StaICC.Normal(datasets=["mini"], limit=30, unparsed="excluded")
    made = {name: benchmark(model(unclear)) for name, unclear in (("all", 0.0), ("some", 0.7), ("more", 0.0001))}
    assert made["some"].excluded > 0
    whole = compare_runs({name: made[name] for name in ("all", "more")})
    failed = StaICC.Normal(datasets=["mini"], limit=30)(model(0.7), on_error="collect")
    for partial in (made["some"], failed):
        runs = {**made, "some": partial}
        verdicts = standings(runs, "accuracy", True)
        assert isinstance(verdicts["some"], Untested)
        found = compare_runs(runs)
        assert any(reason.startswith("some (") for reason in found.left_out)
        assert found.ranking == whole.ranking, "a partial run changes the rows of no other"
        alone = compare_runs({"all": made["all"], "some": partial})
        assert {type(rank.verdict) for rank in alone.ranking} == {Untested}
        assert alone.comparisons[0].left_out


def test_without_a_test_there_is_no_tie() -> None:
    """Twelve rows cannot show any difference of macro F1 here: the worst run is untested, not tied."""
    benchmark = StaICC.Normal(datasets=["mini"], limit=4)
    truth = [query.label for query in benchmark.experimentor[0].all_queries()]
    runs = {
        "right": benchmark(preentered_prediction=[truth]),
        "wrong": benchmark(preentered_prediction=[[(label + 1) % 3 for label in truth]]),
    }
    for metric in ("accuracy", "macro_F1"):
        found = compare_runs(runs, metric)
        assert isinstance(found.comparisons[0].overall.outcome, Untested)
        assert [type(rank.verdict) for rank in found.ranking] == [Best, Untested]
        assert [type(one) for one in standings(runs, metric, True).values()] == [Best, Untested]
        for form in FORMATS:
            text = format_comparisons([found], form)
            assert "tied" not in text
            assert "untested" in text
    failed = StaICC.Normal(datasets=["mini"], limit=4)(lambda prompt, label_space: None, on_error="collect")
    assert standings({**runs, "failed": failed}, "accuracy", True).keys() == {"right", "wrong"}
    alone = StaICC.Normal(datasets=["mini"], limit=4, metrics={"mine": lambda truth, rows: 0.5})
    others = {name: alone(scored(name)) for name in "ab"}
    assert list(map(type, standings(others, "mine", True).values())) == [Best, Best]  # equal values
