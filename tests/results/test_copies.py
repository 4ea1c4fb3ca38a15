"""Places of a leaderboard: which results share one, what it shows, and which rows there are."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from StaICC import GLER, Normal, Suite
from StaICC.results.copies import Place, labels_key, places_of, ranked_runs
from StaICC.results.result import Result, ResultGroup


def first_label_everywhere(benchmark: Normal, shift: float = 0.0, name: str = "model") -> Result:
    """Return a run with the first label in all queries, whose scores are shifted towards the true label.

    Args:
        benchmark: The benchmark, with one data set of three labels, whose scores are 0.6, 0.2 and 0.2 without a shift.
        shift: How much probability moves to the true label from the others; too little to change a prediction.
        name: The name that the run states.
    """
    true_labels = {str(query.prompt): query.label for query in benchmark[0].all_queries()}

    def model(prompt: str, label_space: list[str]) -> list[float]:
        scores = [0.6, 0.2, 0.2]
        for label in range(3):
            if label == true_labels[prompt]:
                scores[label] += shift
            else:
                scores[label] -= shift / 2
        return scores

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
    name_of_original, name_of_copy = names
    (place,) = places_of({name_of_original: {"Normal": original}, name_of_copy: {"Normal": copy}})
    assert [*place.holders] == ["a", "b"]
    assert place.result is original
    low, high = place.score_ranges()["averaged_truelabel_likelihood"]
    assert low == original.averaged["averaged_truelabel_likelihood"]
    assert high == copy.averaged["averaged_truelabel_likelihood"]
    assert "accuracy" not in place.score_ranges()


def test_equal_results_show_the_same_one_under_any_names() -> None:
    first = {"Normal": first_label_everywhere(mini(k=1), name="model 1")}
    second = {"Normal": first_label_everywhere(mini(k=2), name="model 2")}
    third = {"Normal": first_label_everywhere(mini(k=4), name="model 4")}
    (place,) = places_of({"a": first, "b": second, "c": third})
    (place_with_other_names,) = places_of({"b": first, "c": second, "a": third})
    (place_with_third_names,) = places_of({"c": first, "a": second, "b": third})
    assert place.result is place_with_other_names.result is place_with_third_names.result


@pytest.mark.parametrize("settings", [{"k": 1}, {"k": 8}, {"sampler": "nested"}])
def test_a_copy_under_other_prompts_shares_the_place(settings: dict[str, Any]) -> None:
    original = first_label_everywhere(mini())
    copy = first_label_everywhere(mini(**settings))
    assert original.signature.fields["prompts"] != copy.signature.fields["prompts"]
    (place,) = places_of({"original": {"Normal": original}, "copy": {"Normal": copy}})
    assert [*place.holders] == ["copy", "original"]


@pytest.mark.parametrize("rules", [{"unparsed": "wrong"}, {"unparsed": "excluded"}, {"metrics": "0.1.1"}])
def test_runs_that_are_scored_by_other_rules_share_no_place(rules: dict[str, Any]) -> None:
    """Labels and scores are the same in all queries, but what a score counts is not: two leaderboards."""
    usual = first_label_everywhere(mini())
    other = first_label_everywhere(mini(**rules))
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
        if prompt in prompts_of_condition:
            return [0.9, 0.05, 0.05]
        return [0.6, 0.2, 0.2]

    first = benchmark(unsure)
    second = benchmark(surer_in_one_condition)
    labels_of_first = [condition.predictions for condition in first.details["mini"].conditions]
    labels_of_second = [condition.predictions for condition in second.details["mini"].conditions]
    assert labels_of_first == labels_of_second

    places = places_of({"first": {"GLER": first}, "second": {"GLER": second}})

    runs_with_equal_labels = {place.shown: place.other_scores for place in places}
    assert runs_with_equal_labels == {"first": ["second"], "second": ["first"]}


def suite_run(label: int, bias_label: int) -> dict[str, Result]:
    """Return the results of a suite by benchmark: one label in all queries of Normal, another one in all others."""
    suite = Suite(datasets=["mini"], limit=6)
    results = {}
    for name in suite:
        benchmark = suite[name]
        if name == "Normal":
            result = benchmark(lambda prompt, label_space: label)
        else:
            result = benchmark(lambda prompt, label_space: bias_label)
        assert not isinstance(result, ResultGroup)
        results[name] = result
    return results


def test_a_copy_of_one_part_leaves_the_part_in_its_row() -> None:
    original = suite_run(label=0, bias_label=0)
    copy = {"Normal": original["Normal"]}
    other = suite_run(label=1, bias_label=1)
    rows = ranked_runs(places_of({"0_copy": copy, "original": original, "other": other}))
    assert {name: [*parts] for name, parts in rows.items()} == {
        "original = 0_copy (Normal)": [*original],
        "other": [*original],
    }


def test_runs_with_places_of_their_own_both_keep_a_shared_one() -> None:
    first = suite_run(label=0, bias_label=0)
    second = suite_run(label=0, bias_label=1)
    rows = ranked_runs(places_of({"first": first, "second": second}))
    assert {name: [*parts] for name, parts in rows.items()} == {
        "first = second (Normal)": [*first],
        "second = first (Normal)": [*second],
    }


def test_a_file_with_the_name_of_a_row_has_a_row_of_its_own() -> None:
    """The copies a and b have one row with the name ``a = b``, which is the name of another file, too."""
    original = first_label_everywhere(mini())
    copy = first_label_everywhere(mini())
    other = mini()(lambda prompt, label_space: 1)
    assert isinstance(other, Result)
    rows = ranked_runs(places_of({"a": {"Normal": original}, "b": {"Normal": copy}, "a = b": {"Normal": other}}))
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


def test_results_with_other_queries_or_predictions_have_another_key() -> None:
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


def test_results_with_the_same_queries_and_predictions_have_the_same_key() -> None:
    result = first_label_everywhere(mini())

    assert labels_key(first_label_everywhere(mini(), name="other")) == labels_key(result)
    assert labels_key(first_label_everywhere(mini(), shift=0.02)) == labels_key(result), "other scores"
    assert labels_key(first_label_everywhere(mini(k=1))) == labels_key(result), "other prompts"
    assert labels_key(replace(result, timing={"seconds": 1e9})) == labels_key(result), "other times"
