"""The published figures: what the papers print, what is doubtful in it, and what may be compared with a result."""

from __future__ import annotations

import copy
import dataclasses
from typing import Any

import pytest

import StaICC
from StaICC import Text
from StaICC.comparing.published import published_data, published_figures, published_models
from StaICC.comparing.published_comparison import compare_with_published, display_published
from StaICC.layout import layout
from StaICC.metrics.classification import softmax
from StaICC.results.result import Result
from StaICC.results.signature import Signature, digest

# -- the facts


def test_the_facts_are_those_that_were_checked_against_the_papers() -> None:
    """Table 8 has 862, Table 2 alone 24 more; Table 7 has 174; LongICLBench 297, and 4 for whole rows."""
    every = [[dataclasses.astuple(one) for one in facts] for facts in (published_figures(), published_models())]

    assert digest(every) == "cb9b0761c448c9637a59db84b0f04eff1c7dac27f3bc96f3a269ff8a1bf986ce"


# -- next to a result


def as_if_of_all_datasets(result: Result, **fields: str | None) -> Result:
    """Return a copy of a result of ``mini`` whose signature has the ten data sets, and these fields."""
    published = {"datasets": None, "data": published_data(), "limit": None}
    copied = copy.deepcopy(result)
    copied.signature = Signature({**result.signature.fields, **published, **fields})
    return copied


@pytest.fixture
def normal(result: Result) -> Result:
    return as_if_of_all_datasets(result)


def reasons(result: Result) -> dict[str, str | None]:
    """Return for each metric of a result why it is not comparable; ``None`` if it is."""
    return {compared.metric: compared.reason for compared in compare_with_published(result)}


def test_a_run_of_the_published_prompts_is_compared_with_vanilla(normal: Result) -> None:
    comparisons = compare_with_published(normal)

    assert [compared.metric for compared in comparisons] == list(normal.averaged)
    for compared in comparisons:
        assert compared.reason is None
        assert {figure.method for figure in compared.figures} == {"Vanilla ICL"}


def test_the_calibration_error_alone_is_better_if_it_is_lower(normal: Result) -> None:
    lower_is_better = [compared.metric for compared in compare_with_published(normal) if compared.lower_is_better]

    assert lower_is_better == ["expected_calibration_error_1"]


METRICS = ["accuracy", "averaged_truelabel_likelihood", "macro_F1", "expected_calibration_error_1"]


@pytest.fixture(params=METRICS)
def compared(normal: Result, request: pytest.FixtureRequest) -> Any:
    """Return the comparison of one metric of a result with the figures of 29 models."""
    (found,) = [compared for compared in compare_with_published(normal) if compared.metric == request.param]
    return found


def with_value_of_tenth_figure(compared: Any) -> Any:
    """Return the comparison of a score that is equal to a published figure."""
    return dataclasses.replace(compared, value=compared.figures[9].value)


def published_values(compared: Any) -> list[float]:
    """Return the published values of a comparison; a model that the paper could not run has none."""
    return [figure.value for figure in compared.figures if figure.value is not None]


@pytest.mark.parametrize("equal", [False, True], ids=["own value", "value of a figure"])
def test_a_score_is_better_than_the_figures_that_it_exceeds(compared: Any, equal: bool) -> None:
    """A calibration error is better than the figures above it."""
    if equal:
        compared = with_value_of_tenth_figure(compared)
    values = published_values(compared)
    assert len(values) == 29

    values_below = [value for value in values if value < compared.value]
    values_above = [value for value in values if value > compared.value]
    worse_values = values_above if compared.lower_is_better else values_below

    assert compared.below == len(values_below)
    assert compared.better_than == len(worse_values)
    assert f"{len(worse_values)} of 29" in layout(display_published([compared]), width=1000)


@pytest.mark.parametrize("equal", [False, True], ids=["own value", "value of a figure"])
def test_the_nearest_figures_are_the_three_with_the_smallest_distance(compared: Any, equal: bool) -> None:
    if equal:
        compared = with_value_of_tenth_figure(compared)

    nearest = compared.nearest()

    distances_of_nearest = [abs(figure.value - compared.value) for figure in nearest]
    all_distances = sorted(abs(value - compared.value) for value in published_values(compared))
    assert distances_of_nearest == all_distances[:3]


def test_a_figure_that_is_doubtful_in_the_paper_is_left_out(normal: Result) -> None:
    """The paper's accuracy of NEO 2.7B with contextual calibration."""
    accuracy, *_ = compare_with_published(normal, "contextual calibration")
    models = {figure.model for figure in accuracy.figures}

    assert len(models) == 28
    assert "NEO 2.7B" not in models


@pytest.mark.pack
@pytest.mark.parametrize(
    "name",
    [
        "Normal",
        "ContextualBias",
        "PosteriorBias",
        "TemplateSensitivity",
        "DemonstrationSensitivity",
        pytest.param("DomainBias", marks=pytest.mark.slow),
        pytest.param("GLER", marks=pytest.mark.slow),
    ],
)
def test_the_benchmarks_themselves_write_the_published_prompts(name: str) -> None:
    """With the published prompts, an empty result is only refused because it has no scores."""
    benchmark = getattr(StaICC, name)()
    empty = Result(benchmark=benchmark.task.name, divided={}, averaged={}, signature=benchmark.signature())

    first, *_ = compare_with_published(empty)

    assert first.reason is not None
    assert first.reason.startswith("this result has no")


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"datasets": "mini"}, "datasets = the ten data sets, this result has mini"),
        ({"data": "0" * 12}, ", this result has 000000000000"),
        ({"k": None}, "k = 4, this result has none"),
        ({"limit": "100"}, "limit = none, this result has 100"),
        ({"stopping": "precision"}, "stopping = none, this result has precision"),
        ({"template": "changed-abc"}, "this result has changed-abc"),
        ({"demonstrations": "in-domain"}, "this result has in-domain"),
        ({"repeats": "1"}, "repeats = 2, this result has 1"),
        ({"failed": "3"}, "failed = none, this result has 3"),
        ({"method": "my_method paper"}, "the paper does not have the method my_method"),
        ({"method": "hidden_calibration paper n=64"}, "128 calibration samples, this result has 64"),
    ],
)
def test_a_result_of_other_settings_is_not_comparable(
    result: Result, fields: dict[str, str | None], reason: str
) -> None:
    with_other_settings = as_if_of_all_datasets(result, **fields)

    comparisons = compare_with_published(with_other_settings)

    assert [compared.metric for compared in comparisons] == METRICS
    for compared in comparisons:
        assert compared.reason is not None
        assert reason in compared.reason
        assert compared.figures == ()
        assert compared.nearest() == ()
        assert f"not comparable: {compared.reason}" in layout(display_published([compared]), width=1000)


def test_a_score_that_leaves_queries_out_is_not_comparable() -> None:
    def sometimes_without_label(prompt: str, label_space: list[str]) -> str:
        return "no label" if len(prompt) % 2 else label_space[0]

    benchmark = StaICC.Normal(datasets=["mini"], limit=12, unparsed="excluded")
    partial = as_if_of_all_datasets(benchmark(sometimes_without_label), unparsed=None)
    left_out = partial.left_out_of("accuracy")
    assert left_out > 0

    reason = reasons(partial)["accuracy"]

    assert reason == f"{left_out} queries without a prediction are left out of this result"


def test_a_score_of_prompts_that_lost_demonstrations_is_not_comparable() -> None:
    """A model with a short context reads other prompts than the published models, although the settings are equal."""

    def model(prompt: str, label_space: list[str]) -> Text:
        return Text(label_space[0], dropped=3)

    result = as_if_of_all_datasets(StaICC.Normal(datasets=["mini"], limit=4)(model), unparsed=None)

    lost_demonstrations = 3 * 2 * 4  # two repeats of four test rows
    reason = f"{lost_demonstrations} demonstrations were left out of prompts that were too long for the model"
    assert reasons(result)["accuracy"] == reason


def reasons_of_release(model: Any) -> dict[str, str | None]:
    """Return for each metric why a score of a model, computed as 0.1.1 does, is not comparable; ``None`` if it is."""
    result = StaICC.Normal(datasets=["mini"], limit=6, metrics="0.1.1")(model)
    return reasons(as_if_of_all_datasets(result))


def test_scores_of_the_release_are_not_comparable_where_it_applies_the_softmax_twice(make_model: Any) -> None:
    """The release applies the softmax to all outputs, so a second time to those of a model that has applied it."""

    def predict_probabilities(prompt: str, label_space: list[str]) -> list[float]:
        logits = make_model(prompt, label_space)
        return softmax(logits)

    reason = reasons_of_release(predict_probabilities)

    assert reason["accuracy"] is None
    assert reason["macro_F1"] is None
    assert "apply the softmax to probabilities" in str(reason["averaged_truelabel_likelihood"])
    assert "apply the softmax to probabilities" in str(reason["expected_calibration_error_1"])


def test_scores_of_the_release_of_logits_are_comparable(make_model: Any) -> None:
    def predict_logits(prompt: str, label_space: list[str]) -> Any:
        return make_model(prompt, label_space)

    for metric, reason in reasons_of_release(predict_logits).items():
        assert reason is None, metric


def test_bias_scores_of_the_release_are_never_comparable(make_model: Any) -> None:
    group = StaICC.TripletBias(datasets=["mini"], limit=6, metrics="0.1.1")(make_model)

    for result in group.results():
        options = "domain_query_length=128" if result.benchmark == "Domain_bias" else None
        (reason,) = reasons(as_if_of_all_datasets(result, options=options)).values()
        assert "average logits without normalising them" in str(reason)


def result_of_long_icl(output: str = "text", **settings: Any) -> Result:
    """Return a result of LongICL: banking77 with 0.5 in round 1 and nothing in round 2, goemotions with 0.1.

    Args:
        output: What the model gave: "text" or "numbers".
        **settings: Changes of the settings of the paper.
    """
    settings = {
        "parsing": "published",
        "limit": 500,
        "instruct": False,
        "made_up": False,
        "files": {"train": {"verified": True}},
        **settings,
    }
    divided = {
        "banking77": {"1R": 0.5, "2R": None, "settings": settings},
        "goemotions": {"1R": 0.1, "settings": settings},
    }
    of_normal = StaICC.Normal(datasets=["mini"], limit=2)(lambda prompt, label_space: 0).details["mini"]
    conditions = tuple(dataclasses.replace(condition, output=output) for condition in of_normal.conditions)
    details = dataclasses.replace(of_normal, conditions=conditions, missing={"2R": "too long"})
    return Result(
        benchmark="LongICL",
        divided=divided,
        averaged={},
        signature=Signature({"benchmark": "LongICL"}),
        details=dict.fromkeys(divided, details),
    )


def test_a_round_of_long_icl_is_compared_with_the_paper() -> None:
    first_round, *_ = compare_with_published(result_of_long_icl())

    assert first_round.dataset == "banking77"
    assert first_round.metric == "1R"
    assert first_round.reason is None
    assert first_round.below == 12  # of 15; GPT4-turbo, GPT4o and Claude3-Opus are better


def test_a_round_of_long_icl_that_is_missing_is_not_comparable() -> None:
    _, second_round, _ = compare_with_published(result_of_long_icl())

    assert second_round.metric == "2R"
    assert second_round.reason == "too long"


def test_a_data_set_of_long_icl_that_is_not_in_the_paper_is_not_comparable() -> None:
    _, _, round_of_other_dataset = compare_with_published(result_of_long_icl())

    assert round_of_other_dataset.dataset == "goemotions"
    assert round_of_other_dataset.reason == "this data set is not in the tables of the paper"


def test_a_round_of_long_icl_of_a_model_that_predicts_numbers_is_not_comparable() -> None:
    first_round, *_ = compare_with_published(result_of_long_icl("numbers"))

    assert "this result has numbers" in str(first_round.reason)


def test_a_round_of_long_icl_with_an_instruction_is_not_comparable() -> None:
    first_round, *_ = compare_with_published(result_of_long_icl(instruct=True))

    assert "are for instruct = False" in str(first_round.reason)


def test_a_round_of_long_icl_whose_prompts_lost_demonstrations_is_not_comparable() -> None:
    result = result_of_long_icl()
    prompts_and_lost_demonstrations = (500, 20_000)
    details = dataclasses.replace(result.details["banking77"], dropped={"1R": prompts_and_lost_demonstrations})
    shortened = dataclasses.replace(result, details={**result.details, "banking77": details})

    first_round, *_ = compare_with_published(shortened)

    assert first_round.figures == ()
    assert first_round.reason == "20000 demonstrations were left out of prompts that were too long for the model"


def test_a_round_with_failed_queries_is_not_comparable() -> None:
    result = result_of_long_icl()
    result.divided["banking77"]["rounds"] = {"1R": {"asked": 500, "answered": 497}}

    first_round, *_ = compare_with_published(result)

    assert first_round.dataset == "banking77"
    assert first_round.reason == "3 queries without a prediction are left out of this result"
    assert first_round.figures == ()


def test_failed_queries_of_another_data_set_do_not_matter_to_a_round() -> None:
    result = result_of_long_icl()
    result.divided["goemotions"]["rounds"] = {"1R": {"asked": 500, "answered": 497}}

    first_round, *_ = compare_with_published(result)

    assert first_round.dataset == "banking77"
    assert first_round.reason is None
    assert len(first_round.figures) == 15
