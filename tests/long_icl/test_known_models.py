"""Models of known behaviour: what each experiment should conclude about them, and what it says.

A model is a function of the prompt. The texts of the small data name their label, so a model can know the label of a
query, or copy it from the demonstration that shares the most words with the query.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from StaICC.comparing.comparison import compare
from StaICC.inference.contract import Text
from StaICC.long_icl.cards import task_card
from StaICC.long_icl.experiments import Experiment
from StaICC.results.result import Result
from tests.long_icl.conftest import long_icl_on
from tests.long_icl.test_experiments import demonstrations_in

LABELS = task_card("goemotions").labels
Model = Callable[[str, list[str]], str]


def read(prompt: str) -> list[tuple[str, str]]:
    """Return text and label of each demonstration in a prompt, and the query as the last pair, with an empty label."""
    dataset = "banking77" if "service query: " in prompt else "goemotions"
    return demonstrations_in(prompt, dataset)


def query_of(prompt: str) -> str:
    """Return the text of the query."""
    text, _ = read(prompt)[-1]
    return text


def demonstrations_of(prompt: str) -> list[tuple[str, str]]:
    """Return text and label of each demonstration."""
    return read(prompt)[:-1]


def copier(prompt: str, label_space: list[str]) -> str:
    """Copies the label of the demonstration that shares the most words with the query."""
    demonstrations = demonstrations_of(prompt)
    words = set(query_of(prompt).split())
    if not demonstrations:
        return label_space[0]
    return max(demonstrations, key=lambda pair: len(words & set(pair[0].split())))[1]


def recency(prompt: str, label_space: list[str]) -> str:
    """Copies the label of the last demonstration."""
    return [("", label_space[0]), *demonstrations_of(prompt)][-1][1]


def primacy(prompt: str, label_space: list[str]) -> str:
    """Copies the label of the first demonstration."""
    return [*demonstrations_of(prompt), ("", label_space[0])][0][1]


def middle(prompt: str, label_space: list[str]) -> str:
    """Copies the label of the demonstration in the middle."""
    demonstrations = demonstrations_of(prompt) or [("", label_space[0])]
    return demonstrations[len(demonstrations) // 2][1]


def guesses(prompt: str, label_space: list[str]) -> str:
    """Predicts a label that depends on the prompt in no sensible way."""
    return label_space[int(hashlib.sha256(prompt.encode()).hexdigest(), 16) % len(label_space)]


def known_label(prompt: str) -> str:
    """The label that the query names."""
    return query_of(prompt).split(" of ")[1].split()[0].strip('"')


def disturbed(prompt: str, label_space: list[str]) -> str:
    """Knows the labels, but only in prompts of less than 2,000 characters."""
    return known_label(prompt) if len(prompt) < 2000 else label_space[0]


def noise_sensitive(prompt: str, label_space: list[str]) -> str:
    """Knows the labels, unless most demonstrations contradict them."""
    demonstrations = demonstrations_of(prompt)
    wrong = sum(f" of {label} " not in f"{text} " for text, label in demonstrations if label in LABELS)
    return guesses(prompt, label_space) if 2 * wrong > len(demonstrations) else known_label(prompt)


def reasoning(prompt: str, label_space: list[str]) -> str:
    """Copies as :func:`copier`, after it thought aloud about two other labels."""
    thoughts = f"<think>It may be {label_space[1]} or {label_space[2]}.</think>"
    return f"{thoughts}\nThe answer is {copier(prompt, label_space)}."


def truncated(prompt: str, label_space: list[str]) -> str:
    """Begins to think, and ends at the maximum number of tokens."""
    return Text("<think>Let me compare the query with the", "length")


def refusing(prompt: str, label_space: list[str]) -> str:
    """Copies as :func:`copier`, but refuses about a fifth of the queries."""
    if hashlib.sha256(query_of(prompt).encode()).digest()[0] < 50:
        return "I cannot help with that."
    return copier(prompt, label_space)


def last_fifth(prompt: str, label_space: list[str]) -> str:
    """Copies from the last fifth of the demonstrations; without a similar one there, predicts the first label."""
    demonstrations = demonstrations_of(prompt)
    known = known_label(prompt)
    last = [label for _, label in demonstrations[len(demonstrations) * 4 // 5 :]]
    return known if known in last else label_space[0]


def run(folder: Path, experiment: Experiment, model: Model, name: str = "goemotions", **options: Any) -> Result:
    options = {"limit": None, "parsing": "library", **options}
    result = long_icl_on(folder, [name], experiment=experiment, **options)(model, progress=False)
    assert isinstance(result, Result)
    return result


def record_of(result: Result) -> dict[str, Any]:
    """Return what a run of one data set saved of its experiment."""
    (scores,) = result.divided.values()
    record: dict[str, Any] = scores["experiment"]
    return record


def conclusions(result: Result) -> dict[str, str]:
    """What an experiment says of each difference: ``rises``, ``falls`` or ``same`` (not significant)."""
    found = {}
    for name, row in record_of(result)["conditions"].items():
        if row["p_value"] is None:
            continue
        found[name] = "same"
        if row["p_value"] <= 0.05:
            found[name] = "rises" if row["difference"] > 0 else "falls"
    return found


# -- controls

CONTROLS = ("zero shots", "shuffled labels", "random labels", "symbols", "irrelevant text")
COPIES = ("falls", "falls", "falls", "same", "falls")
NO_CHANGE = ("same",) * 5
OF_CONTROLS = {
    copier: COPIES,
    reasoning: COPIES,
    refusing: COPIES,
    recency: NO_CHANGE,
    primacy: NO_CHANGE,
    middle: NO_CHANGE,
    guesses: NO_CHANGE,
    truncated: NO_CHANGE,
    disturbed: ("rises", "same", "same", "same", "same"),
    noise_sensitive: ("same", "falls", "falls", "falls", "same"),
}


@pytest.mark.parametrize("model", OF_CONTROLS)
def test_controls_say_what_a_model_uses(data_folder: Path, model: Model) -> None:
    found = conclusions(run(data_folder, Experiment("controls", shots=2), model))
    assert found == dict(zip(CONTROLS, OF_CONTROLS[model], strict=True))


# -- length

OF_LENGTH = {
    copier: ("1000 padded", "1000 padded"),
    reasoning: ("1000 padded", "1000 padded"),
    refusing: ("1000 padded", "1000 padded"),
    noise_sensitive: ("1000 padded", "1000 padded"),
    disturbed: ("256", "256"),
    recency: None,
    primacy: None,
    middle: None,
    guesses: None,
    truncated: None,
}
"""The bounds of the effective length; ``None`` where a model is not better than guessing, so that it has none."""


@pytest.mark.parametrize("model", OF_LENGTH)
def test_the_effective_length_is_that_of_the_model(data_folder: Path, model: Model) -> None:
    result = run(data_folder, Experiment("length", (256, 512, 1000)), model)
    found = record_of(result)["effective_length"]
    if OF_LENGTH[model] is None:
        assert found["length"] is found["low"] is found["high"] is None
        assert "the effective length is undefined: the score of 256 is not above guessing" in str(result)
    else:
        assert (found["low"], found["high"]) == OF_LENGTH[model]
        assert f"the effective length is {found['length']} (" in str(result)


# -- position and order

OF_POSITION = {
    copier: None,
    reasoning: None,
    refusing: None,
    guesses: None,
    disturbed: None,
    truncated: None,
    recency: "part 5",
    last_fifth: "part 5",
    primacy: "part 1",
    middle: "part 3",
}
"""The part of the context whose labels a model predicts; ``None`` if the position changes nothing."""


@pytest.mark.parametrize("model", OF_POSITION)
def test_positions_matter_for_models_that_read_a_part_of_the_context(data_folder: Path, model: Model) -> None:
    record = record_of(run(data_folder, Experiment("position", shots=2), model, "banking77"))
    scores = {name: row["score"] for name, row in record["conditions"].items()}
    part = OF_POSITION[model]
    if part is None:
        assert record["p_value"] > 0.05
    else:
        assert record["p_value"] < 0.01
        assert max(scores, key=lambda name: scores[name]) == part


@pytest.mark.parametrize("model", [copier, reasoning, refusing, guesses, noise_sensitive, truncated, recency, primacy])
def test_orders_do_not_spread_the_scores_of_models_that_ignore_them(data_folder: Path, model: Model) -> None:
    """The last label of each order is another one, so recency predicts other labels, and is equally often right."""
    result = run(data_folder, Experiment("order", shots=2), model)
    found = record_of(result)["order_spread"]
    assert found["deviation_low"] == 0.0
    assert found["range_low"] == 0.0
    assert "over orders, without sampling noise, the standard deviation is" in str(result)


def half_right_after_rotation(prompt: str, label_space: list[str]) -> str:
    """Copies, but in contexts that begin with another label than the published order it misses most queries."""
    if demonstrations_of(prompt)[0][1] == LABELS[0] or hash_below(query_of(prompt), 40):
        return copier(prompt, label_space)
    return label_space[0]


def hash_below(text: str, limit: int) -> bool:
    """Return whether a text is one of about ``limit`` in 256 that are chosen by their hash."""
    return hashlib.sha256(text.encode()).digest()[0] < limit


def test_orders_spread_the_scores_of_a_model_that_needs_one_order(data_folder: Path) -> None:
    found = record_of(run(data_folder, Experiment("order", shots=2), half_right_after_rotation))["order_spread"]
    assert 0.1 < found["deviation_low"] < found["deviation"] <= found["observed_deviation"] < found["deviation_high"]
    assert 0.4 < found["range_low"] < found["range"] <= found["observed_range"] < found["range_high"]


# -- retrieval


OF_BUDGET = {
    copier: "same",
    reasoning: "same",
    refusing: "same",
    noise_sensitive: "same",
    guesses: "same",
    truncated: "same",
    recency: "rises",
    primacy: "same",
}
"""What retrieved demonstrations change in comparison with as many tokens of fixed ones."""


@pytest.mark.parametrize("model", OF_BUDGET)
def test_similar_demonstrations_next_to_the_query_help_models_that_copy_the_last_label(
    data_folder: Path, model: Model
) -> None:
    found = conclusions(run(data_folder, Experiment("budget", (1200,)), model))
    assert found["1200 retrieved"] == OF_BUDGET[model]
    assert found["1200 hybrid"] == OF_BUDGET[model]


# -- replies without a label


def test_models_whose_replies_have_no_label_are_said_to_have_none(data_folder: Path) -> None:
    cut_off = run(data_folder, Experiment("shots", (1, 2)), truncated)
    assert {row["score"] for row in record_of(cut_off)["conditions"].values()} == {0.0}
    assert "72 (72 cut off)" in str(cut_off)
    refused = run(data_folder, Experiment("shots", (1, 2)), refusing, unparsed="excluded")
    rows = record_of(refused)["conditions"].values()
    assert {row["score"] for row in rows} == {1.0}  # of the queries with a reply
    assert [row for row in list(rows)[1:] if not (row["difference_low"] < 0.0 < row["difference_high"])] == []
    assert "left out" in str(refused)


# -- interactions of two runs


def interactions(folder: Path, first: Model, second: Model, experiment: Experiment) -> dict[str, str]:
    comparison = compare(run(folder, experiment, first), run(folder, experiment, second))
    verdicts = {}
    for interaction in comparison.interactions:
        is_significant = getattr(interaction.outcome, "significant", False)
        verdicts[interaction.condition] = "differs" if is_significant else "same"
    return verdicts


def test_runs_interact_with_conditions_that_change_only_one_of_them(data_folder: Path) -> None:
    length = Experiment("length", (256, 1000))
    assert interactions(data_folder, noise_sensitive, disturbed, length)["1000 padded"] == "differs"
    assert set(interactions(data_folder, copier, refusing, length).values()) == {"same"}
    assert set(interactions(data_folder, copier, copier, length).values()) == {"same"}
    controls = interactions(data_folder, copier, noise_sensitive, Experiment("controls", shots=2))
    assert controls == {
        "zero shots": "differs",  # a copier needs demonstrations
        "shuffled labels": "same",  # both need true labels
        "random labels": "same",
        "symbols": "differs",  # a copier reads them
        "irrelevant text": "differs",
    }
