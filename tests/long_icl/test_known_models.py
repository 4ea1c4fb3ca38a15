"""Models of known behaviour: what each experiment should conclude about them, and what it says.

A model is a function of the prompt. The texts of the small data name their label, so a model can know the label of a
query, or copy it from the demonstration that shares the most words with the query.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

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


class ReadPrompt(NamedTuple):
    """A prompt as a model of these tests reads it."""

    demonstrations: list[tuple[str, str]]
    """Text and label of each demonstration."""
    query: str
    """The text of the query."""


def read_prompt(prompt: str) -> ReadPrompt:
    """Read a prompt of BANKING77 or GoEmotions."""
    dataset = "banking77" if "service query: " in prompt else "goemotions"
    *demonstrations, (query, _) = demonstrations_in(prompt, dataset)
    return ReadPrompt(demonstrations, query)


def label_in_text(query: str) -> str:
    """Return the label that a text of the small data names, such as "joy" of "test text 0 of joy"."""
    _, after_of, *_ = query.split(" of ")
    return after_of.split()[0].strip('"')


def first_byte_of_hash(text: str) -> int:
    """Return a number from 0 to 255 that depends on a text in no sensible way."""
    return hashlib.sha256(text.encode()).digest()[0]


def copies_most_similar(prompt: str, label_space: list[str]) -> str:
    """Copies the label of the demonstration that shares the most words with the query."""
    demonstrations, query = read_prompt(prompt)
    query_words = set(query.split())
    best_label = label_space[0]
    most_shared = -1
    for text, label in demonstrations:
        shared = len(query_words & set(text.split()))
        if shared > most_shared:
            best_label, most_shared = label, shared
    return best_label


def copies_last(prompt: str, label_space: list[str]) -> str:
    """Copies the label of the last demonstration."""
    labels = [label for _, label in read_prompt(prompt).demonstrations]
    return labels[-1] if labels else label_space[0]


def copies_first(prompt: str, label_space: list[str]) -> str:
    """Copies the label of the first demonstration."""
    labels = [label for _, label in read_prompt(prompt).demonstrations]
    return labels[0] if labels else label_space[0]


def copies_middle(prompt: str, label_space: list[str]) -> str:
    """Copies the label of the demonstration in the middle."""
    labels = [label for _, label in read_prompt(prompt).demonstrations]
    return labels[len(labels) // 2] if labels else label_space[0]


def guesses(prompt: str, label_space: list[str]) -> str:
    """Predicts a label that depends on the prompt in no sensible way."""
    number = int(hashlib.sha256(prompt.encode()).hexdigest(), 16)
    return label_space[number % len(label_space)]


def fails_in_long_prompts(prompt: str, label_space: list[str]) -> str:
    """Knows the labels, but only in prompts of less than 2,000 characters."""
    if len(prompt) >= 2000:
        return label_space[0]
    return label_in_text(read_prompt(prompt).query)


def believes_wrong_demonstrations(prompt: str, label_space: list[str]) -> str:
    """Knows the labels, unless more than half of the demonstrations contradict their text: then it guesses.

    Labels that are no names of emotions, such as symbols, contradict nothing.
    """
    demonstrations, query = read_prompt(prompt)
    contradicting = 0
    for text, label in demonstrations:
        if label in LABELS and f" of {label} " not in f"{text} ":
            contradicting += 1
    if contradicting > len(demonstrations) / 2:
        return guesses(prompt, label_space)
    return label_in_text(query)


def copies_after_reasoning(prompt: str, label_space: list[str]) -> str:
    """Copies as ``copies_most_similar``, after it thought aloud about two other labels."""
    thoughts = f"<think>It may be {label_space[1]} or {label_space[2]}.</think>"
    return f"{thoughts}\nThe answer is {copies_most_similar(prompt, label_space)}."


def cut_off_in_reasoning(prompt: str, label_space: list[str]) -> str:
    """Begins to think, and ends at the maximum number of tokens."""
    return Text("<think>Let me compare the query with the", "length")


def refuses_a_fifth(prompt: str, label_space: list[str]) -> str:
    """Copies as ``copies_most_similar``, but refuses about a fifth of the queries (50 of 256)."""
    if first_byte_of_hash(read_prompt(prompt).query) < 50:
        return "I cannot help with that."
    return copies_most_similar(prompt, label_space)


def reads_last_fifth(prompt: str, label_space: list[str]) -> str:
    """Copies from the last fifth of the demonstrations; without a similar one there, predicts the first label."""
    demonstrations, query = read_prompt(prompt)
    read_demonstrations = demonstrations[len(demonstrations) * 4 // 5 :]
    true_label = label_in_text(query)
    if true_label in [label for _, label in read_demonstrations]:
        return true_label
    return label_space[0]


def run_experiment(
    folder: Path, experiment: Experiment, model: Model, dataset: str = "goemotions", **options: Any
) -> Result:
    """Run an experiment on all test items of one data set, with the library's parser."""
    options = {"limit": None, "parsing": "library", **options}
    result = long_icl_on(folder, [dataset], experiment=experiment, **options)(model, progress=False)
    assert isinstance(result, Result)
    return result


def experiment_of(result: Result) -> dict[str, Any]:
    """Return what a run of one data set saved of its experiment."""
    (scores,) = result.divided.values()
    experiment: dict[str, Any] = scores["experiment"]
    return experiment


def changes_of_scores(result: Result) -> dict[str, str]:
    """Return how the score of each condition differs from its reference: ``rises``, ``falls``, ``same``.

    Differences with a p-value above 0.05 are ``same``; conditions without a reference are left out.
    """
    changes = {}
    for condition, row in experiment_of(result)["conditions"].items():
        if row["p_value"] is None:
            continue
        if row["p_value"] > 0.05:
            changes[condition] = "same"
        elif row["difference"] > 0:
            changes[condition] = "rises"
        else:
            changes[condition] = "falls"
    return changes


# -- controls

NO_CHANGE = {
    "zero shots": "same",
    "shuffled labels": "same",
    "random labels": "same",
    "symbols": "same",
    "irrelevant text": "same",
}
CHANGES_OF_A_COPIER = {
    "zero shots": "falls",
    "shuffled labels": "falls",
    "random labels": "falls",
    "symbols": "same",
    "irrelevant text": "falls",
}
CHANGES_OF_BELIEVER = {
    "zero shots": "same",
    "shuffled labels": "falls",
    "random labels": "falls",
    "symbols": "falls",
    "irrelevant text": "same",
}


@pytest.mark.parametrize(
    ("model", "expected_changes"),
    [
        (copies_most_similar, CHANGES_OF_A_COPIER),
        (copies_after_reasoning, CHANGES_OF_A_COPIER),
        (refuses_a_fifth, CHANGES_OF_A_COPIER),
        (copies_last, NO_CHANGE),
        (copies_first, NO_CHANGE),
        (copies_middle, NO_CHANGE),
        (guesses, NO_CHANGE),
        (cut_off_in_reasoning, NO_CHANGE),
        (fails_in_long_prompts, {**NO_CHANGE, "zero shots": "rises"}),  # the only short prompts
        (believes_wrong_demonstrations, CHANGES_OF_BELIEVER),
    ],
)
def test_controls_say_what_a_model_uses(data_folder: Path, model: Model, expected_changes: dict[str, str]) -> None:
    result = run_experiment(data_folder, Experiment("controls", shots=2), model)

    assert changes_of_scores(result) == expected_changes


# -- length

LENGTHS = Experiment("length", (256, 512, 1000))


@pytest.mark.parametrize(
    ("model", "length"),
    [
        (copies_most_similar, "1000 padded"),
        (copies_after_reasoning, "1000 padded"),
        (refuses_a_fifth, "1000 padded"),
        (believes_wrong_demonstrations, "1000 padded"),
        (fails_in_long_prompts, "256"),
    ],
)
def test_the_effective_length_is_the_longest_context_that_a_model_uses(
    data_folder: Path, model: Model, length: str
) -> None:
    result = run_experiment(data_folder, LENGTHS, model)

    effective_length = experiment_of(result)["effective_length"]
    assert effective_length["low"] == length
    assert effective_length["high"] == length
    assert f"the effective length is {effective_length['length']} (" in str(result)


@pytest.mark.parametrize("model", [copies_last, copies_first, copies_middle, guesses, cut_off_in_reasoning])
def test_a_model_that_is_not_better_than_guessing_has_no_effective_length(data_folder: Path, model: Model) -> None:
    result = run_experiment(data_folder, LENGTHS, model)

    effective_length = experiment_of(result)["effective_length"]
    assert effective_length["length"] is None
    assert effective_length["low"] is None
    assert effective_length["high"] is None
    assert "the effective length is undefined: the score of 256 is not above guessing" in str(result)


# -- position and order


@pytest.mark.parametrize(
    "model",
    [
        copies_most_similar,
        copies_after_reasoning,
        refuses_a_fifth,
        guesses,
        fails_in_long_prompts,
        cut_off_in_reasoning,
    ],
)
def test_the_position_of_a_demonstration_changes_nothing_for_models_that_read_all_or_none(
    data_folder: Path, model: Model
) -> None:
    result = run_experiment(data_folder, Experiment("position", shots=2), model, "banking77")

    assert experiment_of(result)["p_value"] > 0.05


@pytest.mark.parametrize(
    ("model", "best_part"),
    [(copies_last, "part 5"), (reads_last_fifth, "part 5"), (copies_first, "part 1"), (copies_middle, "part 3")],
)
def test_the_position_matters_for_models_that_read_one_of_five_parts(
    data_folder: Path, model: Model, best_part: str
) -> None:
    result = run_experiment(data_folder, Experiment("position", shots=2), model, "banking77")

    experiment = experiment_of(result)
    scores = {part: row["score"] for part, row in experiment["conditions"].items()}
    assert experiment["p_value"] < 0.01
    assert scores[best_part] == max(scores.values())


@pytest.mark.parametrize(
    "model",
    [
        copies_most_similar,
        copies_after_reasoning,
        refuses_a_fifth,
        guesses,
        believes_wrong_demonstrations,
        cut_off_in_reasoning,
        copies_last,
        copies_first,
    ],
)
def test_orders_do_not_spread_the_scores_of_models_that_ignore_them(data_folder: Path, model: Model) -> None:
    """A model that copies the last label predicts another one with each order, and is equally often right."""
    result = run_experiment(data_folder, Experiment("order", shots=2), model)

    spread = experiment_of(result)["order_spread"]
    assert spread["deviation_low"] == 0.0
    assert spread["range_low"] == 0.0
    assert "over orders, without sampling noise, the standard deviation is" in str(result)


def needs_published_order(prompt: str, label_space: list[str]) -> str:
    """Copies in contexts that begin with the first label, as the published order does.

    In other contexts, it copies for about 40 of 256 queries, and predicts the first label for the others.
    """
    demonstrations, query = read_prompt(prompt)
    _, label_of_first_demonstration = demonstrations[0]
    if label_of_first_demonstration == LABELS[0] or first_byte_of_hash(query) < 40:
        return copies_most_similar(prompt, label_space)
    return label_space[0]


def test_orders_spread_the_scores_of_a_model_that_needs_one_order(data_folder: Path) -> None:
    result = run_experiment(data_folder, Experiment("order", shots=2), needs_published_order)

    spread = experiment_of(result)["order_spread"]
    assert 0.1 < spread["deviation_low"] < spread["deviation"] < spread["deviation_high"]
    assert 0.4 < spread["range_low"] < spread["range"] < spread["range_high"]
    assert spread["deviation"] <= spread["observed_deviation"] < spread["deviation_high"]
    assert spread["range"] <= spread["observed_range"] < spread["range_high"]


# -- retrieval


@pytest.mark.parametrize(
    ("model", "change"),
    [
        (copies_most_similar, "same"),
        (copies_after_reasoning, "same"),
        (refuses_a_fifth, "same"),
        (believes_wrong_demonstrations, "same"),
        (guesses, "same"),
        (cut_off_in_reasoning, "same"),
        (copies_last, "rises"),
        (copies_first, "same"),
    ],
)
def test_similar_demonstrations_next_to_the_query_help_models_that_copy_the_last_label(
    data_folder: Path, model: Model, change: str
) -> None:
    """In comparison with as many tokens of fixed demonstrations."""
    result = run_experiment(data_folder, Experiment("budget", (1200,)), model)

    changes = changes_of_scores(result)
    assert changes["1200 retrieved"] == change
    assert changes["1200 hybrid"] == change


# -- replies without a label


def test_replies_that_are_cut_off_in_reasoning_are_counted_as_such(data_folder: Path) -> None:
    """The data set has 72 test items."""
    result = run_experiment(data_folder, Experiment("shots", (1, 2)), cut_off_in_reasoning)

    for condition, row in experiment_of(result)["conditions"].items():
        assert row["score"] == 0.0, condition
    assert "72 (72 cut off)" in str(result)


def test_refused_queries_are_left_out_and_widen_the_limits_of_differences(data_folder: Path) -> None:
    """The model is right wherever it replies, in both conditions."""
    result = run_experiment(data_folder, Experiment("shots", (1, 2)), refuses_a_fifth, unparsed="excluded")

    one_shot, two_shots = experiment_of(result)["conditions"].values()
    assert one_shot["score"] == 1.0
    assert two_shots["score"] == 1.0
    assert two_shots["difference_low"] < 0.0 < two_shots["difference_high"]
    assert "left out" in str(result)


# -- interactions of two runs


def interactions_of(folder: Path, first: Model, second: Model, experiment: Experiment) -> dict[str, str]:
    """Return for each condition whether its effect on two models is significantly different: ``differs``, ``same``."""
    first_result = run_experiment(folder, experiment, first)
    second_result = run_experiment(folder, experiment, second)
    verdicts = {}
    for interaction in compare(first_result, second_result).interactions:
        is_significant = getattr(interaction.outcome, "significant", False)
        verdicts[interaction.condition] = "differs" if is_significant else "same"
    return verdicts


def test_padding_changes_only_the_model_that_fails_in_long_prompts(data_folder: Path) -> None:
    length = Experiment("length", (256, 1000))

    verdicts = interactions_of(data_folder, believes_wrong_demonstrations, fails_in_long_prompts, length)

    assert verdicts["1000 padded"] == "differs"


@pytest.mark.parametrize("other_copier", [copies_most_similar, refuses_a_fifth])
def test_lengths_change_two_copiers_alike(data_folder: Path, other_copier: Model) -> None:
    length = Experiment("length", (256, 1000))

    verdicts = interactions_of(data_folder, copies_most_similar, other_copier, length)

    assert set(verdicts.values()) == {"same"}


def test_controls_change_a_copier_and_a_model_that_knows_labels_differently(data_folder: Path) -> None:
    controls = Experiment("controls", shots=2)

    verdicts = interactions_of(data_folder, copies_most_similar, believes_wrong_demonstrations, controls)

    assert verdicts == {
        "zero shots": "differs",  # a copier needs demonstrations
        "shuffled labels": "same",  # both need true labels
        "random labels": "same",
        "symbols": "differs",  # a copier reads them
        "irrelevant text": "differs",
    }
