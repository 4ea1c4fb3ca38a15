"""Robustness: label noise, templates, demonstrations."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from typing import Any

import pytest

from StaICC import GLER, Demo_sens, DemonstrationSensitivity, Normal, Template_sens, TemplateSensitivity
from StaICC.benchmarks.diagnosis import L9
from StaICC.datasets import Dataset, SplitSizes, TemplateAlternatives
from StaICC.errors import ArgumentError

LABELS = ["no", "yes"]


def known(rows: int = 400, test: int = 200, alternatives: TemplateAlternatives | None = None) -> Dataset:
    """A data set whose texts tell their row and their true label, so that a function can see what was falsified."""
    return Dataset.from_rows(
        [(f"row {row} is {LABELS[row % 2]}", row % 2) for row in range(rows)],
        name="known",
        label_space=LABELS,
        split=SplitSizes(calibration=0, demonstration=rows - test, test=test),
        alternatives=alternatives,
    )


SHOWN = re.compile(r"row \d+ is (no|yes) label: (no|yes)\n")
ASKED = re.compile(r"row (\d+) is (no|yes) label: $")


def share_correct(prompt: str) -> float:
    """Read off the share of demonstrations that show their true label."""
    shown = SHOWN.findall(prompt)
    return sum(true == label for true, label in shown) / len(shown)


def linear(low: float, high: float, ranks: dict[str, int], queries: int) -> Callable[..., int]:
    """A function whose accuracy is low + (high - low) * share of correct labels, exactly."""

    def function(prompt: str, label_space: list[str]) -> int:
        found = ASKED.search(prompt)
        assert found is not None
        right = label_space.index(found.group(2))
        wanted = (low + (high - low) * share_correct(prompt)) * queries
        return right if ranks[found.group(1)] < round(wanted) else 1 - right

    return function


# -- GLER


def ranks_of(benchmark: Any) -> dict[str, int]:
    test = benchmark[0].test_set()
    found = [re.findall(r"\d+", test.texts(row)[0])[0] for row in range(len(test))]
    return {number: rank for rank, number in enumerate(found)}


@pytest.mark.parametrize(
    ("high", "low"), [(1.0, 0.0), (0.75, 0.25), (0.5, 0.5), (0.25, 0.75), (0.9, 0.5), (0.82, 0.34), (0.7, 0.7)]
)
def test_an_accuracy_that_falls_linearly_from_a_to_b_has_slope_a_minus_b(high: float, low: float) -> None:
    """The release regresses on 1, 0.75, 0.25, -0.5, -1.5 (defect 5)."""
    benchmark = GLER(datasets=[known()])
    function = linear(low, high, ranks_of(benchmark), 200)
    result = benchmark(function)
    scores = result["Divided results"]["known"]
    accuracies = [scores[str(step)]["accuracy"] for step in range(5)]
    assert accuracies == pytest.approx([low + (high - low) * share for share in (1, 0.75, 0.5, 0.25, 0)], abs=1e-12)
    slope, intercept = scores["sensitivity"]["accuracy"]
    assert slope == pytest.approx(high - low, abs=1e-14)
    assert intercept == pytest.approx(low, abs=1e-14)
    assert result["Averaged results"]["accuracy"] == slope
    if all(value * 64 == int(value * 64) for value in (high, low)):
        assert (slope, intercept) == (high - low, low)
    released = GLER(datasets=[known()], metrics="0.1.1")(function)["Averaged results"]["accuracy"]
    assert high == low or abs(released - (high - low)) > 0.1 * abs(high - low)


@pytest.mark.parametrize(("k", "steps"), [(4, 5), (1, 5), (3, 5), (8, 3), (4, 2), (5, 11)])
def test_the_abscissa_is_the_share_that_the_prompts_show(k: int, steps: int) -> None:
    benchmark = GLER(k=k, datasets=[known()], interpolations=steps)
    shares = []
    for step, condition in enumerate(benchmark[0].conditions()):
        assert condition.name == str(step)
        found = {share_correct(str(query.prompt)) for query in condition.queries}
        assert len(found) == 1
        shares.append(found.pop())
    assert shares == pytest.approx([1 - int(k * (step / (steps - 1))) / k for step in range(steps)])
    assert (shares[0], shares[-1]) == (1.0, 0.0)
    function = linear(0.25, 0.75, ranks_of(benchmark), 200)
    result = benchmark(function)
    slope = result["Averaged results"]["accuracy"]
    accuracies = [result["Divided results"]["known"][str(step)]["accuracy"] for step in range(steps)]
    middle, height = sum(shares) / steps, sum(accuracies) / steps
    top = sum((share - middle) * (value - height) for share, value in zip(shares, accuracies, strict=True))
    assert slope == pytest.approx(top / sum((share - middle) ** 2 for share in shares), rel=1e-12)


def test_without_noise_the_queries_are_normals() -> None:
    conditions = GLER(datasets=["mini"])[0].conditions()
    assert conditions[0].queries == Normal(datasets=["mini"])[0].conditions()[0].queries
    assert all(
        first.label == last.label and first.row == last.row and first.prompt != last.prompt
        for first, last in zip(conditions[0].queries, conditions[4].queries, strict=True)
    )


def test_noisy_prompts_are_the_same_every_time(stand_in: Any) -> None:
    """They depend on how often they were asked for in the release (defect 6)."""
    benchmark = GLER(datasets=["mini"])
    first = benchmark[0].prompt_set()
    benchmark[0].prompt_former.change_label_wrong_rate(0)
    benchmark[0].prompt_former.write_prompt([0, 1], 0)
    assert benchmark[0].prompt_set() == first
    result = benchmark(stand_in)
    assert benchmark(stand_in) == result
    assert benchmark[0].prompt_set() == first


def test_without_demonstrations_there_is_no_slope() -> None:
    result = GLER(k=0, datasets=["mini"])(lambda prompt, label_space: len(prompt) % 3)
    assert result["Divided results"]["mini"]["sensitivity"]["accuracy"] is None
    assert result["Averaged results"]["accuracy"] is None
    assert result["Divided results"]["mini"]["0"]["accuracy"] is not None
    assert result.details["mini"].missing["sensitivity.accuracy"] == "without demonstrations, labels cannot be wrong"


def test_a_metric_that_is_undefined_at_some_rate_has_no_slope() -> None:
    result = GLER(datasets=["mini"])(lambda prompt, label_space: len(prompt) % 3)
    sensitivity = result["Divided results"]["mini"]["sensitivity"]
    assert sensitivity["averaged_truelabel_likelihood"] is None
    assert sensitivity["accuracy"] is not None
    missing = result.details["mini"].missing
    assert missing["sensitivity.averaged_truelabel_likelihood"] == "the metric is undefined at some noise rate"
    assert missing["3.averaged_truelabel_likelihood"].startswith("the predictions are bare labels")


@pytest.mark.parametrize("interpolations", [1, 0, -3, 2.5, "5", None])
def test_bad_numbers_of_rates(interpolations: Any) -> None:
    message = f"interpolations must be an integer of at least 2, not {interpolations!r}"
    with pytest.raises(ArgumentError, match=f"^{re.escape(message)}$"):
        GLER(datasets=["mini"], interpolations=interpolations)


@pytest.mark.parametrize("columns", [2, 3])
def test_label_noise_with_several_texts(make_own: Callable[..., Dataset], columns: int, stand_in: Any) -> None:
    benchmark = GLER(k=2, datasets=[make_own(columns)])
    assert benchmark(stand_in).complete
    clean, noisy = (benchmark[0].conditions()[place].queries[0].prompt for place in (0, 4))
    assert isinstance(clean, str)
    swapped = (
        clean.replace("label: no", "label: *").replace("label: yes", "label: no").replace("label: *", "label: yes")
    )
    assert noisy == swapped


def test_label_noise_in_the_noisy_channel(make_own: Callable[..., Dataset], stand_in: Any) -> None:
    benchmark = GLER(k=2, datasets=[make_own(2)], noisy_channel=True)
    assert benchmark(stand_in).complete
    clean, noisy = (benchmark[0].conditions()[place].queries[0].prompt for place in (0, 4))
    assert isinstance(clean, tuple)
    assert len(clean) == len(noisy) == 2
    assert clean != noisy


# -- templates


def test_the_orthogonal_array() -> None:
    assert len(L9) == len(set(L9)) == 9
    for first in range(4):
        for second in range(first):
            assert len({(row[first], row[second]) for row in L9}) == 9


@pytest.mark.parametrize("columns", [1, 2, 3])
def test_nine_templates(make_own: Callable[..., Dataset], columns: int, stand_in: Any) -> None:
    dataset = make_own(columns)
    benchmark = TemplateSensitivity(k=1, datasets=[dataset])
    own = benchmark[0]
    alternatives = dataset.card.alternatives
    assert alternatives is not None
    conditions = own.conditions()
    assert [condition.name for condition in conditions] == [str(place) for place in range(9)]
    for condition, row in zip(conditions, L9, strict=True):
        instruction, prefixes, label_prefix, label_affix = map(int, row)
        for number, query in enumerate(condition.queries):
            texts, label = own.demonstration_set()[own.demonstration_sampler[number][0]]
            asked, _ = own.test_set()[number]

            def show(given: list[str], level: int = prefixes) -> str:
                return "".join(
                    prefix + text + " "
                    for prefix, text in zip(alternatives.input_text_prefixes[level], given, strict=True)
                )

            assert query.prompt == (
                f"{alternatives.instruction[instruction]}{show(texts)}{alternatives.label_prefix[label_prefix]}{label}"
                f"{alternatives.label_affix[label_affix]}{show(asked)}{alternatives.label_prefix[label_prefix]}"
            )
    assert benchmark(stand_in).complete


def test_one_hundred_rows_are_asked_once() -> None:
    three = ("a: ", "b: ", "c: ")
    dataset = known(alternatives=TemplateAlternatives(three, tuple((level,) for level in three), three, three))
    own = TemplateSensitivity(datasets=[dataset])[0]
    assert [len(condition.queries) for condition in own.conditions()] == [100] * 9
    assert own.get_repeat_times() == 1
    assert own.test_set().indexes == Normal(datasets=[known()])[0].test_set().indexes[:100]


def test_a_card_without_alternatives_is_refused() -> None:
    rows = known()
    without = dataclasses.replace(rows, card=dataclasses.replace(rows.card, alternatives=None))
    message = (
        "the card of known has no alternative templates, which template sensitivity needs; give the data set's card"
    )
    with pytest.raises(ArgumentError, match=f"^{re.escape(message)}"):
        TemplateSensitivity(datasets=[without])(lambda prompt, label_space: 0)


# -- demonstrations


def test_eight_lists_of_demonstrations_for_each_query() -> None:
    own = DemonstrationSensitivity(datasets=[known()])[0]
    conditions = own.conditions()
    assert [len(condition.queries) for condition in conditions] == [128] * 8
    assert [[query.row for query in condition.queries] for condition in conditions] == [list(range(128))] * 8
    assert own.test_set().indexes == Normal(datasets=[known()])[0].test_set().indexes[:128]
    lists = own.demonstration_sampler
    assert len(lists) == 1024
    for repeat, condition in enumerate(conditions):
        for row, query in enumerate(condition.queries):
            assert query.prompt == own.prompt_former.write_prompt(lists[repeat * 128 + row], row)
    assert len({query.prompt for condition in conditions for query in condition.queries}) > 1000


# -- consistency


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        ([0, 0, 0, 0, 0, 0, 0, 0, 0], 1.0),
        ([0, 0, 0, 1, 1, 1, 2, 2, 2], 3 / 9),
        ([0, 1, 1, 1, 1, 1, 1, 1, 1], 8 / 9),
        ([2, 0, 2, 0, 2, 0, 2, 0, 2], 5 / 9),
    ],
)
@pytest.mark.parametrize("metrics", ["standard", "0.1.1"])
def test_consistency_is_the_share_of_the_most_frequent_label(answers: list[int], expected: float, metrics: str) -> None:
    benchmark = Template_sens(datasets=["mini"], metrics=metrics)
    rows = len(benchmark[0].conditions()[0].queries)
    given = [
        [float(place == label) for place in range(3)] for condition in range(9) for label in [answers[condition]] * rows
    ]
    result = benchmark(preentered_prediction=[given])
    assert result["Divided results"]["mini"] == {"sensitivity": {"consistency": pytest.approx(expected, rel=1e-12)}}
    assert result["Averaged results"] == {"consistency": pytest.approx(expected, rel=1e-12)}


def test_consistency_is_averaged_over_queries() -> None:
    benchmark = Demo_sens(datasets=["mini"])
    rows = len(benchmark[0].conditions()[0].queries)
    given = [int(row == 0 and repeat % 2 == 1) for repeat in range(8) for row in range(rows)]
    consistency = benchmark(preentered_prediction=[given])["Averaged results"]["consistency"]
    assert consistency == pytest.approx((rows - 1 + 0.5) / rows, rel=1e-12)


def test_a_query_counts_where_every_condition_has_an_answer() -> None:
    benchmark = Demo_sens(datasets=["mini"])
    prompts = benchmark[0].prompt_set()
    lost = prompts[0]

    def function(prompt: str, label_space: list[str]) -> Any:
        return None if prompt == lost else 1

    result = benchmark(function, on_error="collect")
    assert not result.complete
    assert result["Averaged results"]["consistency"] == 1.0


def test_without_a_query_answered_everywhere_nothing_agrees_or_disagrees() -> None:
    benchmark = Demo_sens(datasets=["mini"])
    first = {query.prompt for query in benchmark[0].conditions()[0].queries}
    result = benchmark(lambda prompt, label_space: None if prompt in first else 1, on_error="collect")
    assert result["Averaged results"] == {"consistency": None}
    assert "no query has a prediction in every condition" in str(result.details["mini"].missing)


def test_demonstrations_by_hand_leave_nothing_to_agree_with() -> None:
    benchmark = Demo_sens(datasets=["mini"])
    one = benchmark[0]
    one.set_demonstration_sampler([[0] * one.get_k()] * len(one.test_set()))
    result = benchmark(lambda prompt, label_space: 1)
    assert result["Averaged results"] == {"consistency": None}
    assert "there is only one condition to compare" in str(result.details["mini"].missing)
