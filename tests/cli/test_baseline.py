"""``python -m StaICC baseline``: the table, the JSON, and what is refused."""

from __future__ import annotations

import argparse
import json

import pytest

from StaICC.cli import comparing
from StaICC.errors import ArgumentError
from StaICC.metrics.random_baselines import RandomBaseline


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


def test_one_try_and_no_accuracy_by_default(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--n", "3", "--labels", "2") == 0
    assert [line.split() for line in capsys.readouterr().out.splitlines()[2:]] == [["1", "0.50000", "never"]]


def test_a_p_value_below_floating_point_is_not_printed_as_zero(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--n", "1024", "--labels", "6", "--t", "10", "--accuracy", "1") == 0
    assert capsys.readouterr().out.splitlines()[2].split()[-1] == "1.49e-796"


def test_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--n", "100", "--labels", "2:50,5:50", "--t", "10", "--accuracy", "0.29", "--json") == 0
    document = json.loads(capsys.readouterr().out)
    guessing = RandomBaseline(100, {2: 50, 5: 50})
    (line,) = document.pop("baselines")
    assert document == {"n": 100, "labels": {"2": 50, "5": 50}, "accuracy": 0.29, "correct": 29, "alpha": 0.05}
    assert line["baseline"] == guessing.max_random_baseline(10)
    assert line["p_value"] == guessing.p_value(0.29, 10)
    assert line["significant_from"] == 0.48
    assert line["log10_p_value"] == pytest.approx(0.0, abs=1e-10)


def test_an_accuracy_that_is_no_share_of_n_is_refused() -> None:
    with pytest.raises(ArgumentError, match=r"0\.333 is no share of n = 100.*33/100 = 0\.330 and 34/100 = 0\.340"):
        run("--n", "100", "--labels", "2", "--accuracy", "0.333")
    with pytest.raises(ArgumentError, match="between 0 and 1, not '60'"):
        run("--n", "100", "--labels", "2", "--accuracy", "60")
    with pytest.raises(ArgumentError, match="number 90, but n is 100"):
        run("--n", "100", "--labels", "2:50,5:40")


def test_an_accuracy_is_accepted_as_tables_print_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--n", "1024", "--labels", "2", "--accuracy", "0.5508", "--json") == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["accuracy"], document["correct"]) == (0.5508, 564)
    assert document["baselines"][0]["p_value"] == RandomBaseline(1024, 0.5).p_value_of_count(564)
    with pytest.raises(ArgumentError, match="any of 559/1024 to 568/1024"):
        run("--n", "1024", "--labels", "2", "--accuracy", "0.55")


def test_long_computations_are_announced(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--n", "1000000", "--labels", "2", "--t", "1", "10") == 0
    out, err = capsys.readouterr()
    assert len(out.splitlines()) == 4
    assert err.count("1,000,000 queries for t = ") == 2
