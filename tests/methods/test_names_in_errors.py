"""Errors of methods name the method and the data set once, whatever the messages say."""

from __future__ import annotations

from typing import Any

import pytest

from StaICC.errors import ArgumentError, OutputError
from StaICC.methods.contract import MethodSpec
from StaICC.methods.many_shot import run_many_shot
from StaICC.methods.run import Method, run_all
from tests.methods.fakes import Kernel, benchmark_on_mini


def refusing(message: str) -> MethodSpec:
    """Return a method with the title ``k-NN`` that refuses its rows with a message."""

    def refuses(data: Any) -> Any:
        yield [data.ask()]
        raise ArgumentError(message)

    return MethodSpec("refuses", "k-NN", refuses)


@pytest.mark.parametrize("message", ["k-NN needs more rows", "got 1 row, expected 2"])
def test_an_error_names_the_method_and_the_data_set(message: str) -> None:
    """A message may begin with the same words as the title of its method; this does not say where it happened."""
    with pytest.raises(ArgumentError) as raised:
        Method(refusing(message), Kernel()).run(benchmark_on_mini())

    assert str(raised.value) == f"k-NN, mini: {message}"


@pytest.mark.parametrize("message", ["k-NN needs more rows", "got 1 row, expected 2"])
def test_the_reason_of_a_skipped_method_names_the_method_and_the_data_set(message: str) -> None:
    table = run_all(Kernel(), benchmark_on_mini(), methods=["vanilla", refusing(message)])

    assert table.skipped["refuses"] == f"k-NN, mini: {message}"


def test_the_reason_of_a_skipped_run_names_its_k() -> None:
    """Also if the message begins with the same words."""

    def refuses_more_than_no_demonstration(data: Any) -> Any:
        (rows,) = yield [data.ask()]
        if data.k == 2:
            raise ArgumentError("got 1 row, expected 2")
        if data.k == 3:
            raise ArgumentError("k = 3: no")
        return rows

    method = Method(MethodSpec("refuses", "Refuses", refuses_more_than_no_demonstration), Kernel())

    table = run_many_shot(method, lambda k: benchmark_on_mini(k=k), [0, 2, 3])

    assert table.skipped == {
        "k=2": "k = 2: Refuses, mini: got 1 row, expected 2",
        "k=3": "k = 3: Refuses, mini: k = 3: no",
    }


def one_prediction_too_few(data: Any) -> Any:
    """Return all predictions but the first one."""
    (rows,) = yield [data.ask()]
    return rows[1:]


def test_the_reason_of_wrong_predictions_names_the_benchmark_once() -> None:
    short = MethodSpec("short", "Short", one_prediction_too_few)

    table = run_all(Kernel(), benchmark_on_mini(), methods=["vanilla", short])

    assert table.skipped["short"].startswith("Short: Normal, mini: got 7 predictions, expected 8")


def test_an_error_of_the_model_names_the_query_once() -> None:
    fails_always = Kernel(fails=lambda feature, prompt: OutputError("gone"))

    with pytest.raises(OutputError, match=r"^Batch calibration: Normal, mini, query 0: "):
        Method("batch_calibration", fails_always).run(benchmark_on_mini())


def test_a_model_without_what_a_method_needs_is_refused_with_the_title() -> None:
    def predict(prompt: str, label_space: list[str]) -> list[float]:
        return [1.0, 0.0, 0.0]

    with pytest.raises(ArgumentError, match=r"^Hidden calibration needs hidden states"):
        Method("hidden_calibration", predict).run(benchmark_on_mini())
