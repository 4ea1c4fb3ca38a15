"""Each score that is not None has an interval or a reason."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

import StaICC
from StaICC import GLER, Normal, PosteriorBias
from StaICC.benchmarks import Statistics
from StaICC.datasets import Dataset
from StaICC.metrics import metric_set
from StaICC.results import Result

REASON = "no confidence interval is known for this score"


def constant(truth: Sequence[int], rows: Sequence[Sequence[float]]) -> float:
    return 0.125


def first_label(prompt: str, label_space: list[str]) -> int:
    return 0


def any_scores(prompt: str, label_space: list[str]) -> list[float]:
    draw = random.Random(str(prompt))
    values = [0.1 + draw.random() for _ in label_space]
    return [value / sum(values) for value in values]


def certain(prompt: str, label_space: list[str]) -> list[float]:
    return [1.0, *[0.0] * (len(label_space) - 1)]


def seventh_fails() -> Callable[..., list[float]]:
    numbers = itertools.count()

    def function(prompt: str, label_space: list[str]) -> list[float]:
        if next(numbers) % 7 == 0:
            raise RuntimeError("timeout")
        return any_scores(prompt, label_space)

    return function


def without_reason(result: Result) -> Iterator[str]:
    """Yield the scores without interval and without reason."""
    for name, details in result.details.items():
        for key, value in result.divided[name].items():
            nested = value.items() if key == "sensitivity" else [("", value)]
            for metric, figure in nested:
                place = f"{key}.{metric}" if metric else key
                scalar = figure[0] if metric and isinstance(figure, (list, tuple)) else figure
                if not isinstance(scalar, float) or place in details.intervals:
                    continue
                if not {f"interval of {place}", "interval of each score"} & set(details.missing):
                    yield f"{name}: {place}"
    for key, value in result.averaged.items():
        if value is not None and key not in result.means.intervals and key not in result.means.missing:
            yield f"mean: {key}"


@pytest.mark.parametrize(
    "name", ["Normal", "GLER", "ContextualBias", "DomainBias", "PosteriorBias", "TemplateSensitivity"]
)
@pytest.mark.parametrize("model", [first_label, any_scores, certain, None])
@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize("limit", [1, 2, 9])
def test_each_score_has_an_interval_or_a_reason(
    name: str, model: Any, several: bool, limit: int, make_own: Callable[..., Dataset]
) -> None:
    datasets = [make_own(1), make_own(1, name="three", labels=("a", "b", "c"))][: 1 + several]
    metrics = {"accuracy": constant, "mine": constant, "macro_F1": metric_set("standard").metrics[2].function}
    for chosen in ("standard", metrics) if name in ("Normal", "GLER") else ("standard",):
        benchmark = getattr(StaICC, name)(datasets=datasets, limit=limit, metrics=chosen)
        result = benchmark(model or seventh_fails(), on_error="collect")
        assert not list(without_reason(result))


@pytest.mark.pack
def test_posterior_bias_of_a_label_without_rows_and_without_probability() -> None:
    def function(prompt: str, label_space: list[str]) -> int:
        return 1

    result = PosteriorBias(datasets=["TREC"], limit=20)(function)
    details = result.details["TREC"]
    assert result["Averaged results"]["DL div."] == pytest.approx(1.897, abs=1e-3)
    assert "1 of them none" in details.missing["interval of DL div."]
    assert "interval of DL div." in str(result)
    assert "1 of them none" in result.means.missing["DL div."]


def test_slopes_have_intervals_if_a_row_fails_in_one_condition(make_own: Callable[..., Dataset]) -> None:
    benchmark = GLER(datasets=[make_own(1)])
    queries = benchmark[0].conditions()[2].queries
    lost = {query.prompt for query in queries if query.row == queries[0].row}

    def function(prompt: str, label_space: list[str]) -> list[float]:
        if prompt in lost:
            raise RuntimeError("timeout")
        return any_scores(prompt, label_space)

    complete = benchmark(any_scores).details["own"].intervals
    result = benchmark(function, on_error="collect")
    found = result.details["own"].intervals
    assert result.details["own"].failed == 2
    assert set(found) == set(complete)
    for key, interval in found.items():
        slope = result["Divided results"]["own"]["sensitivity"][key.removeprefix("sensitivity.")][0]
        assert interval.low <= slope <= interval.high
        assert interval.low == pytest.approx(complete[key].low, abs=0.2)
        assert interval.high == pytest.approx(complete[key].high, abs=0.2)


def test_an_own_metric_named_accuracy_has_neither_interval_nor_baselines(make_own: Callable[..., Dataset]) -> None:
    result = Normal(datasets=[make_own(1)], metrics={"accuracy": constant})(first_label)
    details = result.details["own"]
    assert details.missing["interval of accuracy"] == REASON
    assert result.means.missing["accuracy"] == f"no interval on own: {REASON}"
    assert not details.intervals
    assert not details.baselines
    assert not result.means.baselines
    assert "Not better" not in str(result)


@pytest.mark.parametrize("metrics", ["standard", "0.1.1"])
def test_the_librarys_accuracies_have_baselines(metrics: str, make_own: Callable[..., Dataset]) -> None:
    assert Normal(datasets=[make_own(1)], metrics=metrics)(first_label).details["own"].baselines


def test_no_reason_where_no_interval_was_requested(make_own: Callable[..., Dataset]) -> None:
    for settings in ({"metrics": "0.1.1"}, {"statistics": Statistics(intervals=False), "metrics": {"mine": constant}}):
        result = Normal(datasets=[make_own(1)], **settings)(any_scores)  # type: ignore[arg-type]
        assert not any(key.startswith("interval of") for key in result.details["own"].missing)
        assert not result.means.missing
