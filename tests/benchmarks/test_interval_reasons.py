"""Each score that is not None has an interval or a reason."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

import StaICC
from StaICC import GLER, PosteriorBias
from StaICC.datasets import Dataset
from StaICC.metrics import metric_set
from StaICC.results import Result


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


def seventh_fails() -> Callable[..., Any]:
    numbers = itertools.count()
    return lambda prompt, label_space: any_scores(prompt, label_space) if next(numbers) % 7 else None


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


@pytest.mark.parametrize("name", ["Normal", "GLER", "ContextualBias", "PosteriorBias", "TemplateSensitivity"])
@pytest.mark.parametrize("model", [first_label, any_scores, certain, None])
@pytest.mark.parametrize(("several", "limit"), [(False, 1), (True, 2), (True, 9)])
def test_each_score_has_an_interval_or_a_reason(
    name: str, model: Any, several: bool, limit: int, make_own: Callable[..., Dataset]
) -> None:
    datasets = [make_own(1), make_own(1, name="three", labels=("a", "b", "c"))][: 1 + several]
    metrics = {"accuracy": constant, "mine": constant, "macro_F1": metric_set("standard").metrics[2].function}
    for chosen in ("standard", metrics) if name in ("Normal", "GLER") else ("standard",):
        benchmark = getattr(StaICC, name)(datasets=datasets, limit=limit, metrics=chosen)
        assert not list(without_reason(benchmark(model or seventh_fails(), on_error="collect")))


@pytest.mark.pack
def test_posterior_bias_of_a_label_without_rows_and_without_probability() -> None:
    result = PosteriorBias(datasets=["TREC"], limit=20)(lambda prompt, label_space: 1)
    assert result["Averaged results"]["DL div."] == pytest.approx(1.897, abs=1e-3)
    for reason in (result.details["TREC"].missing["interval of DL div."], result.means.missing["DL div."]):
        assert "1 of them none" in reason
    assert "interval of DL div." in str(result)


def test_slopes_have_intervals_if_a_row_fails_in_one_condition(make_own: Callable[..., Dataset]) -> None:
    benchmark = GLER(datasets=[make_own(1)])
    queries = benchmark[0].conditions()[2].queries
    lost = {query.prompt for query in queries if query.row == queries[0].row}

    def function(prompt: str, label_space: list[str]) -> Any:
        return None if prompt in lost else any_scores(prompt, label_space)

    complete = benchmark(any_scores).details["own"].intervals
    result = benchmark(function, on_error="collect")
    intervals = result.details["own"].intervals
    assert result.details["own"].failed == 2
    assert set(intervals) == set(complete)
    for key, interval in intervals.items():
        slope = result["Divided results"]["own"]["sensitivity"][key.removeprefix("sensitivity.")][0]
        assert interval.low <= slope <= interval.high
        assert (interval.low, interval.high) == pytest.approx((complete[key].low, complete[key].high), abs=0.2)
