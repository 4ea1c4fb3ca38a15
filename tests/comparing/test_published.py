"""The published figures: what the papers print, what is doubtful in it, and what may be compared with a result."""

from __future__ import annotations

import copy
import dataclasses
from typing import Any

import pytest

import StaICC
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


def changed(result: Result, **fields: str | None) -> Result:
    """A result of ``mini``, said to be one of the ten data sets."""
    published = {"datasets": None, "data": published_data(), "limit": None}
    other = copy.deepcopy(result)
    other.signature = Signature({**result.signature.fields, **published, **fields})
    return other


@pytest.fixture
def normal(result: Result) -> Result:
    return changed(result)


def reasons(result: Result) -> dict[str, str | None]:
    return {one.metric: one.reason for one in compare_with_published(result)}


def test_a_run_of_the_published_prompts_is_compared_with_vanilla(normal: Result) -> None:
    placed = compare_with_published(normal)
    assert [one.metric for one in placed] == [*normal.averaged]
    assert [one.metric for one in placed if one.lower_is_better] == ["expected_calibration_error_1"]
    for one in (*placed, *(dataclasses.replace(one, value=one.figures[9].value) for one in placed)):
        assert one.reason is None
        assert {figure.method for figure in one.figures} == {"Vanilla ICL"}
        values = [figure.value for figure in one.figures if figure.value is not None]
        assert len(values) == 29
        assert one.value is not None
        assert one.below == sum(value < one.value for value in values)
        worse = [value > one.value if one.lower_is_better else value < one.value for value in values]
        assert one.better_than == sum(worse)
        distances = sorted(abs(value - one.value) for value in values)
        assert [abs((figure.value or 0) - one.value) for figure in one.nearest()] == distances[:3]
        assert f"{one.better_than} of 29" in layout(display_published([one]), width=1000)
    doubtful = compare_with_published(normal, "contextual calibration")[0]
    assert len(doubtful.figures) == 28
    assert "NEO 2.7B" not in {figure.model for figure in doubtful.figures}


@pytest.mark.pack
@pytest.mark.parametrize(
    "name",
    [
        *("Normal", "ContextualBias", "PosteriorBias", "TemplateSensitivity", "DemonstrationSensitivity"),
        *(pytest.param(name, marks=pytest.mark.slow) for name in ("DomainBias", "GLER")),
    ],
)
def test_the_benchmarks_themselves_write_the_published_prompts(name: str) -> None:
    """Their own signatures, over the frozen data, and not one that a test puts together."""
    benchmark = getattr(StaICC, name)()
    empty = Result(benchmark=benchmark.task.name, divided={}, averaged={}, signature=benchmark.signature())
    assert str(compare_with_published(empty)[0].reason).startswith("this result has no")


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
def test_why_nothing_is_comparable(result: Result, fields: dict[str, str | None], reason: str) -> None:
    placed = compare_with_published(changed(result, **fields))
    assert len(placed) == 4
    for one in placed:
        assert reason in str(one.reason)
        assert one.figures == one.nearest() == ()
    assert f"not comparable: {placed[0].reason}" in layout(display_published(placed), width=1000)


def test_a_score_that_leaves_queries_out_is_not_comparable() -> None:
    def model(prompt: str, label_space: list[str]) -> str:
        return "no label" if len(prompt) % 2 else label_space[0]

    benchmark = StaICC.Normal(datasets=["mini"], limit=12, unparsed="excluded")
    partial = changed(benchmark(model), unparsed=None)
    left_out = partial.left_out_of("accuracy")
    assert left_out > 0
    assert reasons(partial)["accuracy"] == (f"{left_out} queries without a prediction are left out of this result")


def test_scores_of_the_release_are_not_comparable_where_it_applies_the_softmax_twice(make_model: Any) -> None:
    """Likelihood and calibration error of probabilities are not, those of logits are; bias scores never are."""
    released = {"metrics": "0.1.1", "datasets": ["mini"], "limit": 6}
    soft = reasons(changed(StaICC.Normal(**released)(lambda **query: softmax(make_model(**query)))))
    assert soft["accuracy"] is soft["macro_F1"] is None
    for metric in ("averaged_truelabel_likelihood", "expected_calibration_error_1"):
        assert "apply the softmax to probabilities" in str(soft[metric])
    assert set(reasons(changed(StaICC.Normal(**released)(make_model))).values()) == {None}
    for result in StaICC.TripletBias(**released)(make_model).results():
        options = "domain_query_length=128" if result.benchmark == "Domain_bias" else None
        (reason,) = reasons(changed(result, options=options)).values()
        assert "average logits without normalising them" in str(reason)


def long_icl(output: str = "text", **settings: Any) -> Result:
    own = {"parsing": "published", "limit": 500, "instruct": False}
    own |= {"made_up": False, "files": {"train": {"verified": True}}, **settings}
    divided = {"banking77": {"1R": 0.5, "2R": None, "settings": own}, "goemotions": {"1R": 0.1, "settings": own}}
    some = StaICC.Normal(datasets=["mini"], limit=2)(lambda prompt, label_space: 0).details["mini"]
    conditions = tuple(dataclasses.replace(one, output=output) for one in some.conditions)
    details = dict.fromkeys(divided, dataclasses.replace(some, conditions=conditions, missing={"2R": "too long"}))
    signature = Signature({"benchmark": "LongICL"})
    return Result(benchmark="LongICL", divided=divided, averaged={}, signature=signature, details=details)


def test_long_icl_by_rounds() -> None:
    first, second, other = compare_with_published(long_icl())
    assert (first.dataset, first.metric, first.reason) == ("banking77", "1R", None)
    assert first.below == 12  # of 15; GPT4-turbo, GPT4o and Claude3-Opus are better
    assert [second.reason, other.reason] == ["too long", "this data set is not in the tables of the paper"]
    assert "this result has numbers" in str(next(iter(compare_with_published(long_icl("numbers")))).reason)
    assert "are for instruct = False" in str(next(iter(compare_with_published(long_icl(instruct=True)))).reason)


@pytest.mark.parametrize(
    ("failed_dataset", "reason"),
    [("banking77", "3 queries without a prediction are left out of this result"), ("goemotions", None)],
)
def test_failed_queries_of_another_data_set_do_not_matter_to_a_round(failed_dataset: str, reason: str | None) -> None:
    """Rounds are compared data set by data set: one with all predictions is comparable, whatever failed elsewhere."""
    result = long_icl()
    result.divided[failed_dataset]["rounds"] = {"1R": {"asked": 500, "answered": 497}}
    first, *_ = compare_with_published(result)
    assert (first.dataset, first.metric, first.reason) == ("banking77", "1R", reason)
    assert len(first.figures) == (15 if reason is None else 0)
