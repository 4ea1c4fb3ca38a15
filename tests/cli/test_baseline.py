"""``python -m StaICC baseline``: the table, the JSON, and what is refused."""

from __future__ import annotations

import pytest

from StaICC.cli import main


def run(*arguments: str) -> int:
    return main(["baseline", *arguments])


def test_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--n", "100", "--labels", "2", "--t", "1", "10", "--accuracy", "0.6") == 0
    out, err = capsys.readouterr()
    assert err == ""
    head, _, *rows = (line.split() for line in out.splitlines())
    assert [head, *rows] == [
        ["t", "baseline", "p", "<=", "0.05", "from", "p-value", "of", "60/100"],
        ["1", "0.50000", "0.59000", "0.0284"],
        ["10", "0.57678", "0.64000", "0.2507"],
    ]


def test_a_p_value_below_floating_point_is_not_printed_as_zero(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--n", "1024", "--labels", "6", "--t", "10", "--accuracy", "1") == 0
    assert capsys.readouterr().out.splitlines()[2].split()[-1] == "1.49e-796"


@pytest.mark.parametrize(
    ("labels", "accuracy", "message"),
    [
        ("2", "0.333", "0.333 is no share of n = 100"),
        ("2", "60", "between 0 and 1, not '60'"),
        ("2:50,5:40", "0.5", "number 90, but n is 100"),
    ],
)
def test_an_accuracy_that_is_no_share_of_n_is_refused(
    labels: str, accuracy: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("--n", "100", "--labels", labels, "--accuracy", accuracy) == 2
    assert message in capsys.readouterr().err
