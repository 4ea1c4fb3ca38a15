"""The published figures: what the papers print, what is doubtful in it, and what may stand beside a result."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable
from typing import Any

import pytest

import StaICC
from StaICC.errors import UnknownNameError
from StaICC.results import Result, Signature
from StaICC.results.published import (
    BENCHMARKS,
    compare_with_published,
    figures,
    find_method,
    find_models,
    format_published,
    models,
)

# -- the facts


def test_how_many_there_are() -> None:
    """Table 8 has 862, Table 2 alone 24 more; Table 7 has 174; LongICLBench 297, and 4 for whole rows."""
    known = {name: [one for one in figures(name) if one.value is not None] for name in BENCHMARKS}
    assert {name: len(found) for name, found in known.items()} == {"Normal": 886, "Diagnosis": 174, "LongICL": 301}
    assert sum("Table 2" in one.source for one in known["Normal"]) == 24
    assert sum(one.metric == "all rounds" for one in known["LongICL"]) == 4


@pytest.mark.parametrize(
    ("model", "method", "metric", "value"),
    [
        ("GPT2 0.137", "vanilla", "accuracy", 0.4024),
        ("GPT2 0.137", "vanilla", "averaged_truelabel_likelihood", 0.3836),
        ("Llama2 6.74", "Vanilla ICL", "expected_calibration_error_1", 0.1509),
        ("Qwen2 72B instruct", "ppl-icl", "accuracy", 0.7581),
        ("GPT2 1.61", "k-NN", "accuracy", 0.5917),
        ("Qwen2 7.6B instruct", "hidden_calibration", "accuracy", 0.8053),  # Table 2 only
    ],
)
def test_single_figures(model: str, method: str, metric: str, value: float) -> None:
    (found,) = figures("Normal", model=model, method=method, metric=metric)
    assert found.value == value


def test_ranges() -> None:
    """What the notes on the tables checked, once more on the file."""
    ranges = {
        "accuracy": (0.3586, 0.8070),  # 0.7581 in Table 8; Table 2 has more
        "averaged_truelabel_likelihood": (0.3399, 0.7102),
        "macro_F1": (0.2704, 0.6730),
        "expected_calibration_error_1": (0.0279, 0.4390),
        "contextual_bias": (-0.9743, -0.7059),
        "domain_bias": (-0.9468, -0.6303),
        "empirical_bias": (0.0513, 0.4302),
        "template_robustness": (0.8046, 0.9134),
        "sample_robustness": (0.6973, 0.9302),
        "gler": (0.0127, 0.0986),
    }
    for metric, (low, high) in ranges.items():
        values = [one.value for one in figures(metric=metric) if one.value is not None]
        assert (min(values), max(values)) == (low, high), metric


def test_the_29_models() -> None:
    assert len({model.name for model in models()}) == len(models()) == 29
    assert sum(model.instruction_tuned for model in models()) == 3
    assert {model.column for model in models() if model.note} == {23, 24, 25, 27}
    assert [model.name for model in models() if model.quantised] == ["Llama2 13B", "Llama2 34B", "Qwen2 72B instruct"]


def test_copied_cells_are_doubtful() -> None:
    doubtful = {(one.model, one.method) for one in figures() if one.doubtful}
    assert doubtful == {
        ("NEO 2.7B", "Noisy Channel"),
        ("NEO 2.7B", "Contextual Calibration"),
        ("NEO 1.3B", "Noisy Channel"),
    }
    for model, twin, method in (("NEO 2.7", "OPT 2.7", "noisy channel"), ("NEO 1.3", "OPT 1.3", "noisy channel")):
        assert [one.value for one in figures(model=model, method=method)] == [
            one.value for one in figures(model=twin, method=method)
        ]
        assert all(one.warnings and not one.doubtful for one in figures(model=twin, method=method))


def test_figures_that_contradict_table_2_are_marked() -> None:
    marked = {
        (one.model, one.method)
        for one in figures("Normal", metric="accuracy")
        if any(warning.startswith("Table 2 prints") for warning in one.warnings)
    }
    assert marked == {
        ("OPT 2.7B", "Batch Calibration"),
        ("OPT 2.7B", "k-NN"),
        ("GPT2 1.61B", "k-NN"),
        ("Llama2 6.74B", "k-NN"),
    }


# -- names


def test_families_and_spellings() -> None:
    assert len(find_models("Pythia")) == 8
    assert find_models("gpt2 1.61") == find_models("GPT2-1.61B") == ("GPT2 1.61B",)
    assert find_models("qwen2 7.6") == ("Qwen2 7.6B",)
    assert find_method("knn_prompt_centroid") == find_method("K-NN") == "k-NN"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"model": "Pytia"}, "there is no published model 'Pytia'; did you mean 'Pythia'?"),
        ({"method": "domain calibratoin"}, "did you mean 'Domain Calibration'?"),
        ({"benchmark": "Normel"}, "did you mean 'Normal'?"),
        ({"metric": "macro-f2"}, "did you mean 'macro_F1'?"),
        ({"dataset": "banking"}, "did you mean 'banking77'?"),
    ],
)
def test_unknown_names_get_the_nearest(given: dict[str, str], message: str) -> None:
    with pytest.raises(UnknownNameError) as caught:
        figures(**given)
    assert message in str(caught.value)


# -- beside a result


@pytest.fixture
def normal(result: Result) -> Result:
    """A result of Normal on mini, told to be one on the ten."""
    return changed(result)


def changed(result: Result, **fields: str | None) -> Result:
    from StaICC.results.published import published_data

    published = {"datasets": None, "data": published_data(), "limit": None}
    signature = Signature({**result.signature.fields, **published, **fields})
    other = copy.deepcopy(result)
    other.signature = signature
    return other


def reasons(result: Result) -> dict[str, str | None]:
    return {one.metric: one.reason for one in compare_with_published(result)}


def test_a_run_of_the_published_prompts_stands_beside_vanilla(normal: Result) -> None:
    placed = compare_with_published(normal)
    assert [one.metric for one in placed] == [
        "accuracy",
        "averaged_truelabel_likelihood",
        "macro_F1",
        "expected_calibration_error_1",
    ]
    for one in placed:
        assert one.reason is None
        assert {figure.method for figure in one.figures} == {"Vanilla ICL"}
        assert len(one.figures) == 29
        assert one.value is not None
        assert one.below == sum(figure.value < one.value for figure in one.figures if figure.value is not None)
        assert len(one.nearest()) == 3


SLOW = pytest.mark.slow


@pytest.mark.pack
@pytest.mark.parametrize(
    "name",
    [
        "Normal",
        "ContextualBias",
        pytest.param("DomainBias", marks=SLOW),
        "PosteriorBias",
        pytest.param("GLER", marks=SLOW),
        "TemplateSensitivity",
        "DemonstrationSensitivity",
    ],
)
def test_the_benchmarks_themselves_ask_the_published_prompts(name: str) -> None:
    """Their own signatures, over the frozen data, and not one that a test puts together."""
    from StaICC.results.published import _other_prompts

    benchmark = getattr(StaICC, name)()
    empty = Result(benchmark=benchmark.task.name, divided={}, averaged={}, signature=benchmark.signature())
    assert _other_prompts(empty, ()) is None


def test_better_is_lower_for_errors_and_biases(normal: Result) -> None:
    """A larger calibration error is worse than those below it, a larger accuracy is better."""
    found = {one.metric: one for one in compare_with_published(normal)}
    for metric, lower in (("accuracy", False), ("macro_F1", False), ("expected_calibration_error_1", True)):
        one = found[metric]
        assert one.value is not None
        values = [figure.value for figure in one.figures if figure.value is not None]
        assert one.lower_is_better is lower
        assert one.better_than == sum(value > one.value if lower else value < one.value for value in values)


def test_doubtful_cells_are_left_out(normal: Result) -> None:
    placed = compare_with_published(normal, "contextual calibration")[0]
    assert len(placed.figures) == 28
    assert "NEO 2.7B" not in {figure.model for figure in placed.figures}


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"datasets": "mini"}, "the published figures are means over the ten data sets, this result has mini"),
        ({"data": "0" * 12}, "the rows or the labels are not the published ones"),
        ({"k": "8"}, "the published figures are for k = 4, this result has k = 8"),
        ({"limit": "100"}, "this result is limited to 100 test examples"),
        ({"template": "changed-abc"}, "this result has other templates (changed-abc)"),
        ({"demonstrations": "in-domain"}, "this result has other demonstrations (in-domain)"),
        ({"repeats": "1"}, "the published repeats are 2, this result has 1"),
        ({"failed": "3"}, "3 queries of this result failed"),
        ({"method": "my_method paper"}, "the paper does not have the method my_method"),
        ({"method": "hidden_calibration paper n=64"}, "128 calibration samples, this result has 64"),
    ],
)
def test_why_nothing_is_comparable(result: Result, fields: dict[str, str], reason: str) -> None:
    for one in compare_with_published(changed(result, **fields)):
        assert one.reason is not None
        assert reason in one.reason
        assert one.figures == ()


def test_the_release_s_double_softmax(make_model: Callable[..., Any]) -> None:
    """Its likelihood and calibration error of probabilities are not comparable; those of logits are."""
    from StaICC.metrics import softmax

    def probabilities(prompt: str, label_space: list[str]) -> list[float]:
        return softmax(make_model(prompt, label_space))

    released = {"metrics": "0.1.1", "datasets": ["mini"], "limit": 6}
    soft = reasons(changed(StaICC.Normal(**released)(probabilities)))
    assert soft["accuracy"] is soft["macro_F1"] is None
    for metric in ("averaged_truelabel_likelihood", "expected_calibration_error_1"):
        assert "apply the softmax to probabilities" in str(soft[metric])
    assert set(reasons(changed(StaICC.Normal(**released)(make_model))).values()) == {None}


def test_the_release_s_bias_scores_are_never_comparable(make_model: Callable[..., Any]) -> None:
    group = StaICC.TripletBias(datasets=["mini"], limit=4, metrics="0.1.1")(make_model)
    for result in group.results():
        options = "domain_query_length=128" if result.benchmark == "Domain_bias" else None
        (reason,) = reasons(changed(result, options=options)).values()
        assert "average logits without normalising them" in str(reason)


def test_methods_stand_beside_their_own(normal: Result) -> None:
    placed = compare_with_published(changed(normal, method="hidden_calibration paper n=128"))[0]
    assert {figure.method for figure in placed.figures} == {"Hidden Calibration"}
    assert any("its own paper defines it" in caution for caution in placed.cautions)
    assert reasons(changed(normal, method="topk paper", demonstrations="manual-1", repeats="1"))["accuracy"] is None
    assert reasons(changed(normal, method="topk paper", template="changed-1"))["accuracy"] is not None


def test_the_noisy_channel(normal: Result) -> None:
    found = reasons(changed(normal, channel="noisy"))
    assert found["accuracy"] is found["macro_F1"] is None
    assert "mean loss over the complete prompt" in str(found["averaged_truelabel_likelihood"])


def long_icl(output: str = "text", **settings: Any) -> Result:
    own = {"variant": "published", "test_number": 500, "instruct": False, "arrangement": "interleaved"}
    own |= {"made_up": False, "files": {"train": {"verified": True}}, **settings}
    divided = {"banking77": {"1R": 0.5, "2R": None, "settings": own}, "goemotions": {"1R": 0.1, "settings": own}}
    some = _details()
    conditions = tuple(dataclasses.replace(one, output=output) for one in some.conditions)
    some = dataclasses.replace(some, conditions=conditions, missing={"2R": "too long"})
    details = dict.fromkeys(divided, some)
    signature = Signature({"benchmark": "LongICL"})
    return Result(benchmark="LongICL", divided=divided, averaged={}, signature=signature, details=details)


def _details() -> Any:
    return StaICC.Normal(datasets=["mini"], limit=2)(lambda prompt, label_space: 0).details["mini"]


def test_long_icl_by_rounds() -> None:
    first, second, other = compare_with_published(long_icl())
    assert (first.dataset, first.metric, first.reason) == ("banking77", "1R", None)
    assert first.below == 12  # of 15; GPT4-turbo, GPT4o and Claude3-Opus are better
    assert second.reason == "too long"
    assert other.reason == "this data set is not in the tables of the paper"


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"variant": "strict"}, "for variant = published, this result has strict"),
        ({"test_number": 20}, "for test_number = 500, this result has 20"),
        ({"arrangement": "grouped"}, "for arrangement = interleaved, this result has grouped"),
        ({"made_up": True}, "the rows are synthetic"),
        ({"files": {"train": {"verified": False}}}, "the files are not known to be the published ones"),
    ],
)
def test_why_a_round_is_not_comparable(settings: dict[str, Any], reason: str) -> None:
    assert reason in str(compare_with_published(long_icl(**settings))[0].reason)


def test_a_choice_among_labels_is_not_comparable_with_generated_text() -> None:
    reason = str(compare_with_published(long_icl("labels"))[0].reason)
    assert reason == "the published models generated text, this result has labels"


def test_the_text_gives_reasons_and_cautions(normal: Result) -> None:
    text = format_published(compare_with_published(normal))
    assert "of 29" in text
    assert "the release's last confidence bin is open" in text
    assert "not comparable: this result is limited to 9 test examples" in format_published(
        compare_with_published(changed(normal, limit="9"))
    )
