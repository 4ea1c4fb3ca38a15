"""Prediction bias: the queries, the README's and the paper's figures, and the release's."""

from __future__ import annotations

import math
from typing import Any

import pytest

from StaICC import ContextualBias, DomainBias, Normal, PosteriorBias
from StaICC.datasets import Dataset

ROWS = [[0.5, 0.3, 0.2], [0.1, 0.1, 0.8], [0.25, 0.5, 0.25], [1.0, 0.0, 0.0]]


def entropy(row: list[float]) -> float:
    return -math.fsum(p * math.log(p) for p in row if p)


def given(benchmark: Any, rows: list[list[float]] = ROWS) -> list[list[float]]:
    """One row for each query of the only data set."""
    return [rows[number % 4] for number in range(len(benchmark[0]))]


def mean(rows: list[list[float]]) -> list[float]:
    return [math.fsum(column) / len(rows) for column in zip(*rows, strict=True)]


# -- queries


def test_contextual_bias_has_empty_queries_after_normals_demonstrations() -> None:
    normal, bias = Normal(datasets=["mini"])[0], ContextualBias(datasets=["mini"])[0]
    assert bias.demonstration_sampler == normal.demonstration_sampler
    test, template = normal.test_set(), normal.card.template
    for number, (prompt, usual) in enumerate(zip(bias.prompt_set(), normal.prompt_set(), strict=True)):
        (text,), _ = test[number % len(test)]
        end = template.input_text_affixes[0] + template.label_prefix
        assert usual.endswith(text + end)
        assert prompt == usual[: -len(text + end)] + end


@pytest.mark.parametrize("length", [0, 1, 7])
def test_domain_bias_has_queries_of_words_of_the_demonstrations(length: int) -> None:
    bias = DomainBias(k=0, datasets=["mini"], domain_query_length=length)[0]
    prefix, affix = bias.card.template.input_text_prefixes[0], bias.card.template.input_text_affixes[0]
    shown = bias.demonstration_set()
    words = {word for position in range(len(shown)) for word in shown.texts(position)[0].split(" ")}
    for prompt in bias.prompt_set():
        query = prompt[len(prefix) : -len(affix + bias.card.template.label_prefix)].split(" ")
        assert len(query) == max(length, 1)
        assert set(query) <= words | {""}


# -- the figures


@pytest.mark.parametrize(("make", "figure"), [(ContextualBias, "contextual_bias"), (DomainBias, "domain_bias")])
def test_the_readmes_and_the_papers_figures(make: Any, figure: str) -> None:
    """The release and its paper mean different things by the entropy (defect 15)."""
    benchmark = make(datasets=["mini"])
    rows = given(benchmark)
    result = benchmark(preentered_prediction=[rows])["Divided results"]["mini"]
    assert list(result) == ["entropy", "distribution", figure]
    assert result["distribution"] == pytest.approx(mean(rows), rel=1e-12)
    assert result["entropy"] == pytest.approx(entropy(mean(rows)), rel=1e-12)
    assert result[figure] == pytest.approx(-math.fsum(map(entropy, rows)) / len(rows), rel=1e-12)


def test_the_divergence_from_the_label_frequencies() -> None:
    benchmark = PosteriorBias(datasets=["mini"])
    rows = given(benchmark)
    result = benchmark(preentered_prediction=[rows])["Divided results"]["mini"]
    truth = [query.label for query in benchmark[0].all_queries()]
    frequencies = [truth.count(label) / len(truth) for label in range(3)]
    expected = math.fsum(p * math.log(p / q) for p, q in zip(mean(rows), frequencies, strict=True))
    assert list(result) == ["DL div.", "distribution", "empirical_bias"]
    assert result["DL div."] == result["empirical_bias"] == pytest.approx(expected, rel=1e-12)


def test_logits_are_normalised_before_they_are_averaged() -> None:
    """The release averages raw outputs (defect 4)."""
    benchmark = ContextualBias(datasets=["mini"])
    logits = given(benchmark, [[math.log(max(p, 1e-300)) + 5 for p in row] for row in ROWS])
    result, expected = (benchmark(preentered_prediction=[rows]) for rows in (logits, given(benchmark)))
    assert result.averaged["entropy"] == pytest.approx(expected.averaged["entropy"], rel=1e-9)
    released = ContextualBias(datasets=["mini"], metrics="0.1.1")(preentered_prediction=[logits])
    assert released["Divided results"]["mini"]["distribution"] == pytest.approx(mean(logits))


def test_zeros_are_no_accident_and_an_infinite_divergence_is_undefined() -> None:
    """KL and entropy crash on zeros in the release (defect 3)."""

    def certain(prompt: str, label_space: list[str]) -> list[float]:
        return [1.0, 0.0, 0.0]

    result = ContextualBias(datasets=["mini"])(certain)["Averaged results"]
    assert result["entropy"] == result["contextual_bias"] == 0.0
    posterior = PosteriorBias(datasets=["mini"])
    truth = [query.label for query in posterior[0].all_queries()]
    assert posterior(certain).averaged["empirical_bias"] == pytest.approx(-math.log(truth.count(0) / len(truth)))
    rows = [(f"text {row}", 0) for row in range(40)]
    dataset = Dataset.from_rows(rows, name="one-sided", label_space=["a", "b"])
    uniform = PosteriorBias(datasets=[dataset, "mini"])(
        lambda prompt, label_space: [1 / len(label_space)] * len(label_space)
    )
    assert uniform["Divided results"]["one-sided"]["DL div."] is uniform["Averaged results"]["DL div."] is None
    assert uniform["Divided results"]["one-sided"]["distribution"] == [0.5, 0.5]
    assert "infinite" in uniform.details["one-sided"].missing["empirical_bias"]
    assert "infinite" in str(uniform)


def test_labels_and_ambiguous_numbers_have_undefined_figures() -> None:
    benchmark = ContextualBias(datasets=["mini"])
    result = benchmark(preentered_prediction=[[number % 2 for number in range(len(benchmark[0]))]])
    scores = result["Divided results"]["mini"]
    assert scores == {"distribution": [0.5, 0.5, 0.0], "entropy": pytest.approx(math.log(2)), "contextual_bias": None}
    assert "bare labels" in result.details["mini"].missing["contextual_bias"]
    result = benchmark(lambda prompt, label_space: [0.1, 0.2, 0.3])
    assert result["Divided results"]["mini"] == {"entropy": None, "distribution": None, "contextual_bias": None}
    assert "sums to 0.6" in result.details["mini"].missing["entropy"]
    forced = ContextualBias(datasets=["mini"], outputs="probabilities")
    assert forced(lambda prompt, label_space: [0.1, 0.2, 0.3])["Averaged results"]["entropy"] is not None


@pytest.mark.parametrize(
    "row", [[1 / 3] * 3, [0.1, 0.2, 0.7], [1.0, 0.0, 0.0], [0.2, 0.6, 0.2], [1 / 3 + 1e-16, 1 / 3, 1 / 3]]
)
def test_intervals_of_entropies_hold_the_estimate_and_stay_in_range(row: list[float]) -> None:
    """Rounding once put limits past the estimate, past the logarithm of the number of labels, or at minus zero."""
    result = ContextualBias(datasets=["mini"])(lambda prompt, label_space: row)
    scores, intervals = result["Divided results"]["mini"], result.details["mini"].intervals
    for key, least, most in (("entropy", 0.0, math.log(3)), ("contextual_bias", -math.log(3), 0.0)):
        for interval in (intervals[key], result.means.intervals[key]):
            assert least <= interval.low <= scores[key] <= interval.high <= most
            assert not (interval.high == 0.0 and math.copysign(1.0, interval.high) < 0)
