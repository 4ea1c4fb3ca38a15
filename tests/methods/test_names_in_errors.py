"""Errors of methods name the method and the data set once, whatever the messages say."""

from __future__ import annotations

from typing import Any

import pytest

from StaICC.errors import ArgumentError, OutputError
from StaICC.methods.contract import MethodSpec
from StaICC.methods.many_shot import run_many_shot
from StaICC.methods.run import Method, run_all
from tests.methods.fakes import Kernel, mini


def refusing(message: str, title: str = "k-NN") -> MethodSpec:
    def refuses(data: Any) -> Any:
        yield [data.ask()]
        raise ArgumentError(message)

    return MethodSpec("refuses", title, refuses)


@pytest.mark.parametrize("message", ["k-NN needs more rows", "got 1 row, expected 2"])
def test_a_message_that_begins_with_the_title_is_named_too(message: str) -> None:
    """A message may begin with the same words as the title of its method; this does not say where it happened."""
    with pytest.raises(ArgumentError) as raised:
        Method(refusing(message), Kernel()).run(mini())
    assert str(raised.value) == f"k-NN, mini: {message}"
    table = run_all(Kernel(), mini(), methods=["vanilla", refusing(message)])
    assert table.skipped["refuses"] == f"k-NN, mini: {message}"


def test_an_error_of_a_run_is_named_by_the_title_of_the_run() -> None:
    def fails(data: Any) -> Any:
        yield [data.ask()]
        raise ArgumentError("got 1 row, expected 2" if data.k == 2 else "k = 3: no")

    method = Method(MethodSpec("refuses", "Refuses", lambda data: fails(data) if data.k else answers(data)), Kernel())
    table = run_many_shot(method, lambda k: mini(k=k), [0, 2, 3])
    assert table.skipped == {
        "k=2": "k = 2: Refuses, mini: got 1 row, expected 2",
        "k=3": "k = 3: Refuses, mini: k = 3: no",
    }


def answers(data: Any) -> Any:
    (rows,) = yield [data.ask()]
    return rows


def wrong_number(data: Any) -> Any:
    (rows,) = yield [data.ask()]
    return rows[1:]


def test_errors_that_say_where_they_happened_are_not_named_again() -> None:
    def gone(feature: str, prompt: str) -> Exception:
        return OutputError("gone")

    table = run_all(Kernel(), mini(), methods=["vanilla", MethodSpec("short", "Short", wrong_number)])
    assert table.skipped["short"].startswith("Short: Normal, mini: got 7 predictions, expected 8")
    with pytest.raises(OutputError) as raised:
        Method("batch_calibration", Kernel(fails=gone)).run(mini())
    assert str(raised.value).startswith("Batch calibration: Normal, mini, query 0: ")
    with pytest.raises(ArgumentError, match=r"^Hidden calibration needs hidden states"):
        Method("hidden_calibration", lambda prompt, label_space: [1.0, 0.0, 0.0]).run(mini())
