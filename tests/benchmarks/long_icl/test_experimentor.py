from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from StaICC.benchmarks.long_icl import LongICLExperimentor, card, cards, load
from StaICC.benchmarks.long_icl.prompts import write_answer, write_context, write_query
from StaICC.errors import ArgumentError, OutputError, UnknownNameError
from StaICC.inference import Failure

SINGLE = ("banking77", "goemotions", "discovery", "tacred")


def make(name: str, folder: Path, **options: Any) -> LongICLExperimentor:
    return LongICLExperimentor(load(name, folder, verify=False), **options)


@pytest.mark.parametrize("name", cards())
def test_queries(small: Path, name: str) -> None:
    own = make(name, small, rounds=[3, 1], test_number=9)
    queries = own.queries()
    assert [query.round for query in queries] == [3] * (len(queries) // 2) + [1] * (len(queries) // 2)
    assert (
        own.prompt_set()
        == [query.prompt for query in queries]
        == make(name, small, rounds=[3, 1], test_number=9).prompt_set()
    )
    for query in queries:
        assert query.prompt == query.context + write_query(own.card, query.item)
        assert query.context is own.context(query.round)  # one string for the round, not one for each query
    assert [query.number for query in queries] == [*range(len(queries) // 2)] * 2
    assert own.queries() == queries
    assert own.get_label_space() == list(card(name).labels)
    assert sum(len(item.gold) for item in own.test_items) <= 9 or name == "few_nerd"


def test_half_a_surrogate_pair_in_a_file_is_digested_like_any_text(small: Path) -> None:
    path = small / card("few_nerd").files["test"][0].names[0]
    whole = make("few_nerd", small, rounds=[1]).prompts_digest(1)
    records = json.loads(path.read_text("utf-8"))
    records[0]["sentence"] += " \ud83d"
    path.write_text(json.dumps(records), "utf-8")
    own = make("few_nerd", small, rounds=[1])
    assert own.settings()["prompts"]["1"] != whole
    assert own.prompt_set()[0].count("\ud83d") == 1


@pytest.mark.parametrize("variant", ["published", "strict"])
@pytest.mark.parametrize("name", cards())
def test_right_and_wrong_answers(small: Path, name: str, variant: str) -> None:
    own = make(name, small, rounds=[1, 2], test_number=20, variant=variant)
    queries = own.queries()
    right = [write_answer(own.card, query.item) for query in queries]
    half = len(queries) // 2
    result = own.score(right[:half] + ["nothing of the kind"] * half)
    first, second = result.values["rounds"]["1R"], result.values["rounds"]["2R"]
    best = 1.0 if name != "few_nerd" or variant == "strict" else 0.5  # half of the entities have a colon
    assert result.values["1R"] == pytest.approx(best, abs=1e-7)
    assert result.values["2R"] == 0.0
    assert list(first["score"])[-1] == list(second["score"])[-1] == card(name).scoring.metric.removeprefix("micro_")
    assert (first["asked"], first["answered"], first["empty"], first["unanswered"]) == (half, half, 0, {})
    assert sum(part["gold"] for part in first["labels"].values()) == sum(len(item.gold) for item in own.test_items)
    assert first["demonstrations"] == len(own.data.demonstration_rows(1))


def test_a_round_without_all_answers_has_no_score(small: Path) -> None:
    own = make("banking77", small, rounds=[1, 2], test_number=5)
    long = Failure("the prompt has 40,000 tokens, the model reads 32,768")
    result = own.score([0, 1, "", 3, 4, long, 1, long, Failure("refused"), 4])
    first, second = result.values["rounds"]["1R"], result.values["rounds"]["2R"]
    assert first["score"] is not None
    assert first["empty"] == 1
    assert second["score"] is result.values["2R"] is None
    assert (second["asked"], second["answered"]) == (5, 2)
    assert second["unanswered"] == {long.reason: 2, "refused": 1}
    assert second["note"] == f"not scored: 3 of 5 queries were not answered: {long.reason} (2); refused (1)"
    assert [text is None for text in result.scores[1].parsed] == [True, False, True, True, False]
    nothing = own.score([long] * 10)
    assert nothing.values["1R"] is nothing.values["2R"] is None


def test_settings_tell_runs_apart(small: Path) -> None:
    def settings(**options: Any) -> dict[str, Any]:
        return make("tacred", small, rounds=[1], test_number=6, **options).settings()

    base = settings()
    assert base == settings()
    assert settings(instruct=True)["prompts"] != base["prompts"]
    assert settings(arrangement="grouped")["prompts"] != base["prompts"]
    assert settings(variant="strict") == {**base, "variant": "strict", "parsing": "strict"}
    assert base["files"]["train"]["verified"] is False


def test_longest_prompts(small: Path) -> None:
    own = make("goemotions", small, rounds=[1, 4], test_number=20)
    by_round = {number: [query.prompt for query in own.queries() if query.round == number] for number in own.rounds}
    assert own.longest_prompts() == {number: max(map(len, prompts)) for number, prompts in by_round.items()}
    asked: list[str] = []
    assert own.longest_prompts(lambda text: asked.append(text) or 7) == {1: 7, 4: 7}
    assert [text in by_round[number] for text, number in zip(asked, own.rounds, strict=True)] == [True, True]


@pytest.mark.parametrize("instruct", [False, True])
def test_grouped_demonstrations(small: Path, instruct: bool) -> None:
    data = load("banking77", small, verify=False)
    own = LongICLExperimentor(data, rounds=[3], test_number=5, arrangement="grouped", instruct=instruct)
    shown = sorted(data.demonstrations(3), key=lambda item: item.gold)
    assert own.context(3) == write_context(own.card, shown, instruct=instruct)


@pytest.mark.parametrize("name", ["few_nerd", "dialogre"])
def test_several_labels_cannot_be_grouped(small: Path, name: str) -> None:
    with pytest.raises(ArgumentError, match="cannot be 'grouped'"):
        make(name, small, arrangement="grouped")


@pytest.mark.parametrize(
    ("options", "error", "said"),
    [
        ({"rounds": []}, ArgumentError, "rounds must be different whole numbers from 1 to 5"),
        ({"rounds": [1, 1]}, ArgumentError, "different"),
        ({"rounds": [0]}, ArgumentError, "a round must be an integer from 1 to 5, not 0"),
        ({"rounds": [True]}, ArgumentError, "a round must be an integer from 1 to 5, not True"),
        ({"rounds": 3}, ArgumentError, "in a list, not 3"),
        ({"rounds": "12"}, ArgumentError, "a round must be an integer"),
        ({"test_number": 0}, ArgumentError, "test_number"),
        ({"variant": "publisched"}, UnknownNameError, "did you mean 'published'"),
        ({"arrangement": "mixed"}, UnknownNameError, "interleaved, grouped"),
    ],
)
def test_arguments(small: Path, options: dict[str, Any], error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        make("tacred", small, **options)


def test_predictions_are_checked(small: Path) -> None:
    own = make("tacred", small, rounds=[1, 2], test_number=3)
    with pytest.raises(OutputError, match=r"expected 6 predictions \(3 items in 2 rounds\), found 5"):
        own.score([0] * 5)
    with pytest.raises(OutputError, match=r"TACRED, round 2, query 1 \(row 1\): got label index 41"):
        own.score([0, 0, 0, 0, 41, 0])
    with pytest.raises(OutputError, match="round 1, query 2"):
        own.score([0, 0, None, 0, 0, 0])


def test_the_strict_variant_drops_an_echoed_prompt(small: Path) -> None:
    own = make("goemotions", small, rounds=[1, 2], test_number=10, variant="strict")
    queries = own.queries()
    echoed = [query.prompt.rstrip() + " " + query.item.gold[0] + "\n" + query.prompt for query in queries]
    assert [own.score(echoed).values[name] for name in ("1R", "2R")] == [1.0, 1.0]
    published = make("goemotions", small, rounds=[1, 2], test_number=10)
    assert published.score(echoed).values["mean"] == 0.0  # the last copy of the query has no answer
