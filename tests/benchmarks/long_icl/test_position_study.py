"""Accuracy by position from results, also from saved ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from StaICC import Normal
from StaICC.benchmarks.long_icl import (
    LongICL,
    accuracy_by_position,
    card,
    cards,
    positions_of,
    study_positions,
)
from StaICC.benchmarks.long_icl.protocol.prompts import write_answer
from StaICC.errors import ArgumentError, UnknownNameError
from StaICC.results import load


def quiet(notice: str) -> None:
    pass


@pytest.mark.parametrize("place", ["first", "mean", "last"])
@pytest.mark.parametrize("name", cards())
def test_results_say_what_the_outcomes_say(small: Path, tmp_path: Path, name: str, place: str) -> None:
    benchmark = LongICL(small, [name], (1, 2), 30, variant="strict", verify=False, announce=quiet)
    own = benchmark[0]
    answers = [write_answer(own.card, query.item) if query.number % 3 else "none of them" for query in own.queries()]
    result = benchmark(preentered_prediction=[answers])
    result.save(tmp_path / "result.json")
    found = positions_of(load(tmp_path / "result.json"), name, bins=4, place=place)
    for one in own.score(answers).rounds:
        tallies = [outcome.tally for outcome in one.outcomes if outcome.tally is not None]
        assert found[f"{one.round}R"] == accuracy_by_position(tallies, one.positions, bins=4, place=place)


def test_rounds_without_a_score_are_left_out(small: Path) -> None:
    benchmark = LongICL(small, ["tacred"], (1, 2), 5, verify=False, announce=quiet)

    def function(prompt: str, label_space: list[str]) -> int:
        if prompt.startswith(benchmark[0].context(2)):
            raise ValueError("the prompt is too long")
        return 0

    assert list(positions_of(benchmark(function), "tacred")) == ["1R"]


def test_both_arrangements(small: Path) -> None:
    seen: list[str] = []
    labels = card("tacred").labels

    def function(prompt: str, label_space: list[str]) -> int:
        # Knows the first half of the labels only.
        return len(prompt) % (len(labels) // 2)

    study = study_positions(
        function, "tacred", small, rounds=(2, 3), test_number=41, bins=3, verify=False, announce=seen.append
    )
    assert seen == [card("tacred").notice()]
    assert list(study.results) == list(study.bins) == ["interleaved", "grouped"]
    assert list(study.bins["grouped"]) == ["2R", "3R"]
    fields = {name: result.signature.fields["options"] for name, result in study.results.items()}
    assert fields["grouped"] == fields["interleaved"] + ",arrangement=grouped"
    lines = str(study).splitlines()
    assert lines[0].split() == ["tacred", "score", *["part", "1", "part", "2", "part", "3"]]
    assert [line.split("  ")[0] for line in lines[2:]] == [
        "interleaved, 2R",
        "interleaved, 3R",
        "grouped, 2R",
        "grouped, 3R",
    ]
    # Grouped, a label's places are together, in alphabetical order of the labels; scattered, their means are alike.
    spans = {
        name: [max(places) - min(places) for places in result.divided["tacred"]["rounds"]["3R"]["positions"].values()]
        for name, result in study.results.items()
    }
    assert set(spans["grouped"]) == {2}
    assert set(spans["interleaved"]) == {82}


def test_errors(small: Path) -> None:
    (small / "tacred_test.json").unlink()
    result: Any = LongICL(small, ["goemotions", "tacred"], [1], 5, verify=False, announce=quiet)(
        lambda prompt, label_space: 0
    )
    with pytest.raises(UnknownNameError, match="did you mean 'goemotions'"):
        positions_of(result, "goemotion")
    with pytest.raises(ArgumentError, match="tacred was skipped"):
        positions_of(result, "tacred")
    with pytest.raises(ArgumentError, match="bins must be"):
        positions_of(result, "goemotions", bins=29)
    with pytest.raises(ArgumentError, match="got one of Normal"):
        positions_of(Normal(datasets=["mini"], limit=2)(lambda prompt, label_space: 0), "mini")
    with pytest.raises(ArgumentError, match="cannot be 'grouped'"):
        study_positions(lambda prompt, label_space: "x", "few_nerd", small, test_number=5, verify=False, announce=quiet)
