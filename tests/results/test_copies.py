"""Places of a leaderboard: which results share one, what it shows, and which rows there are."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from StaICC import GLER, Normal, Suite
from StaICC.results.copies import Place, labels_key, places_of, ranked_runs
from StaICC.results.result import Result, ResultGroup

TOP = 0.6


def first_label_everywhere(benchmark: Normal, shift: float = 0.0, name: str = "model") -> Result:
    """Return a run with the first label in all queries, whose scores are shifted towards the true label.

    Args:
        benchmark: The benchmark, with three labels.
        shift: How much probability moves to the true label from the others; too little to change a prediction.
        name: The name that the run states.
    """
    truths = {str(query.prompt): query.label for part in benchmark.experimentor for query in part.all_queries()}

    def model(prompt: str, label_space: list[str]) -> list[float]:
        scores = [TOP, (1 - TOP) / 2, (1 - TOP) / 2]
        shifted = [score - shift / 2 for score in scores]
        shifted[truths[prompt]] = scores[truths[prompt]] + shift
        return shifted

    result = benchmark(model, model_name=name)
    assert isinstance(result, Result)
    return result


def mini(**settings: Any) -> Normal:
    return Normal(datasets=["mini"], limit=6, **settings)


@pytest.mark.parametrize("names", [("a", "b"), ("b", "a")])
def test_the_name_of_a_file_does_not_decide_which_scores_are_shown(names: tuple[str, str]) -> None:
    """A copy with scores that are shifted towards the truth, but within the tolerance, improves no row."""
    original = first_label_everywhere(mini())
    copy = first_label_everywhere(mini(), shift=0.04, name="copy")
    runs = dict(zip(names, ({"Normal": original}, {"Normal": copy}), strict=True))
    (place,) = places_of(runs)
    assert [*place.holders] == ["a", "b"]
    assert place.result is original
    low, high = place.score_ranges()["averaged_truelabel_likelihood"]
    assert low == original.averaged["averaged_truelabel_likelihood"]
    assert high == copy.averaged["averaged_truelabel_likelihood"]
    assert "accuracy" not in place.score_ranges()


def test_equal_results_show_the_same_one_under_any_names() -> None:
    first, second, third = [{"Normal": first_label_everywhere(mini(k=k), name=f"model {k}")} for k in (1, 2, 4)]
    (place,) = places_of({"a": first, "b": second, "c": third})
    (place_with_other_names,) = places_of({"b": first, "c": second, "a": third})
    (place_with_third_names,) = places_of({"c": first, "a": second, "b": third})
    assert place.result is place_with_other_names.result is place_with_third_names.result


@pytest.mark.parametrize("settings", [{"k": 1}, {"k": 8}, {"sampler": "nested"}])
def test_a_copy_under_other_prompts_shares_the_place(settings: dict[str, Any]) -> None:
    original, copy = first_label_everywhere(mini()), first_label_everywhere(mini(**settings))
    assert original.signature.fields["prompts"] != copy.signature.fields["prompts"]
    (place,) = places_of({"original": {"Normal": original}, "copy": {"Normal": copy}})
    assert [*place.holders] == ["copy", "original"]


@pytest.mark.parametrize("rules", [{"unparsed": "wrong"}, {"unparsed": "excluded"}, {"metrics": "0.1.1"}])
def test_runs_that_are_scored_by_other_rules_share_no_place(rules: dict[str, Any]) -> None:
    """Labels and scores are the same in all queries, but what a score counts is not: two leaderboards."""
    usual, other = first_label_everywhere(mini()), first_label_everywhere(mini(**rules))
    assert usual.details["mini"].conditions[0].scores == other.details["mini"].conditions[0].scores
    places = places_of({"usual": {"Normal": usual}, "other": {"Normal": other}})
    assert sorted([*place.holders] for place in places) == [["other"], ["usual"]]
    assert [place.other_scores for place in places] == [[], []]


@pytest.mark.parametrize("differing_condition", range(5))
def test_equal_scores_in_all_conditions_but_one_are_no_copy(differing_condition: int) -> None:
    """Two models predict the same labels. In one of five conditions, one of them is surer, so it is another model."""
    benchmark = GLER(datasets=["mini"], limit=6)
    conditions = benchmark[0].conditions()
    prompts_of_condition = {str(query.prompt) for query in conditions[differing_condition].queries}

    def unsure(prompt: str, label_space: list[str]) -> list[float]:
        return [0.6, 0.2, 0.2]

    def surer_in_one_condition(prompt: str, label_space: list[str]) -> list[float]:
        return [0.9, 0.05, 0.05] if prompt in prompts_of_condition else [0.6, 0.2, 0.2]

    first, second = benchmark(unsure), benchmark(surer_in_one_condition)
    first_conditions, second_conditions = first.details["mini"].conditions, second.details["mini"].conditions
    for first_condition, second_condition in zip(first_conditions, second_conditions, strict=True):
        assert first_condition.predictions == second_condition.predictions
    places = places_of({"first": {"GLER": first}, "second": {"GLER": second}})
    assert {place.shown: place.other_scores for place in places} == {"first": ["second"], "second": ["first"]}


def suite_run(label: int, bias_label: int) -> dict[str, Result]:
    """Return the parts of a suite, with one label in all queries of Normal and another one in those of the others."""
    parts, suite = {}, Suite(datasets=["mini"], limit=6)
    for name in suite:
        answer = label if name == "Normal" else bias_label
        result = suite[name](lambda prompt, label_space, answer=answer: answer)
        assert not isinstance(result, ResultGroup)
        parts[name] = result
    return parts


def test_a_copy_of_one_part_leaves_the_part_in_its_row() -> None:
    original = suite_run(0, 0)
    copy = {"Normal": original["Normal"]}
    rows = ranked_runs(places_of({"0_copy": copy, "original": original, "other": suite_run(1, 1)}))
    assert {name: [*parts] for name, parts in rows.items()} == {
        "original = 0_copy (Normal)": [*original],
        "other": [*original],
    }


def test_runs_with_places_of_their_own_both_keep_a_shared_one() -> None:
    first, second = suite_run(0, 0), suite_run(0, 1)
    rows = ranked_runs(places_of({"first": first, "second": second}))
    assert {name: [*parts] for name, parts in rows.items()} == {
        "first = second (Normal)": [*first],
        "second = first (Normal)": [*second],
    }


def test_a_file_with_the_name_of_a_row_has_a_row_of_its_own() -> None:
    one, two = first_label_everywhere(mini()), first_label_everywhere(mini())
    other = mini()(lambda prompt, label_space: 1)
    assert isinstance(other, Result)
    rows = ranked_runs(places_of({"a": {"Normal": one}, "b": {"Normal": two}, "a = b": {"Normal": other}}))
    assert sorted(rows) == ["a = b", "a = b [2]"]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ((0.5, 0.5), None),
        ((0.50001, 0.50004), None),
        ((0.5, 0.5001), (0.5, 0.5001)),
        ((0.503, 0.5), (0.5, 0.503)),
        ((-0.02, 0.4, -0.1), (-0.1, 0.4)),
        ((None, 0.5, 0.51), (0.5, 0.51)),
        ((None, 0.5), None),
        ((None, None), None),
    ],
)
def test_a_place_states_the_range_of_every_score_that_is_printed_with_other_digits(
    values: tuple[float | None, ...], expected: tuple[float, float] | None
) -> None:
    """A reader would otherwise take the score that is shown for that of all holders."""
    result = first_label_everywhere(mini())
    holders = {}
    for number, value in enumerate(values):
        holders[f"run {number}"] = replace(result, averaged={"accuracy": value, "macro_F1": 0.25})
    place = Place("Normal", shown="run 0", holders=holders)
    assert place.score_ranges().get("accuracy") == expected
    assert "macro_F1" not in place.score_ranges()


def with_record(result: Result, **changes: Any) -> Result:
    """Return a result on ``mini`` with other fields of the record of its condition."""
    details = result.details["mini"]
    (record,) = details.conditions
    changed = replace(details, conditions=(replace(record, **changes),))
    return replace(result, details={"mini": changed})


def test_the_key_of_the_labels_has_everything_that_tells_queries_and_predictions_apart() -> None:
    """Results with one key share a place: what the key leaves out, a run with other predictions could hide behind."""
    result = first_label_everywhere(mini())
    details = result.details["mini"]
    (record,) = details.conditions
    others = {
        "test rows": with_record(result, rows=(*record.rows[2:], *record.rows[:2])),
        "a prediction": with_record(result, predictions=(1, *record.predictions[1:])),
        "a missing prediction": with_record(result, predictions=(None, *record.predictions[1:])),
        "the name of the condition": with_record(result, name="other"),
        "the test texts": replace(result, details={"mini": replace(details, data="0" * 64)}),
        "the name of the data set": replace(result, details={"other": details}),
        "the benchmark": replace(result, benchmark="GLER"),
        "fewer queries": first_label_everywhere(Normal(datasets=["mini"], limit=5)),
    }
    keys = {name: labels_key(other) for name, other in others.items()}
    assert labels_key(result) not in keys.values()
    assert len(set(keys.values())) == len(keys), keys

    same = {
        "the name of the model": first_label_everywhere(mini(), name="other"),
        "scores": first_label_everywhere(mini(), shift=0.02),
        "prompts": first_label_everywhere(mini(k=1)),
        "times": replace(result, timing={"seconds": 1e9}),
    }
    for name, other in same.items():
        assert labels_key(other) == labels_key(result), name
