"""``python -m StaICC baseline``: the table, the JSON, and what is refused."""

from __future__ import annotations

import argparse

import pytest

from StaICC.cli import comparing
from StaICC.errors import ArgumentError


def run(*arguments: str) -> int:
    parser = argparse.ArgumentParser()
    comparing.add_baseline(parser)
    return comparing.baseline(parser.parse_args(arguments))


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


def test_an_accuracy_that_is_no_share_of_n_is_refused() -> None:
    with pytest.raises(ArgumentError, match=r"0\.333 is no share of n = 100.*33/100 = 0\.330 and 34/100 = 0\.340"):
        run("--n", "100", "--labels", "2", "--accuracy", "0.333")
    with pytest.raises(ArgumentError, match="between 0 and 1, not '60'"):
        run("--n", "100", "--labels", "2", "--accuracy", "60")
    with pytest.raises(ArgumentError, match="number 90, but n is 100"):
        run("--n", "100", "--labels", "2:50,5:40")
