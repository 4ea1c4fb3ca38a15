"""The prompt writer: every control that the README of 0.1.1 documents, and what it refuses."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from StaICC import Normal
from StaICC.datasets.dataset import Dataset
from StaICC.errors import ArgumentError
from StaICC.prompting.prompt_writer import PromptWriter, TemplateWarning
from StaICC.prompting.views import split_dataset

pytestmark = pytest.mark.filterwarnings("ignore::StaICC.TemplateWarning")

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "prompt_controls.json").read_text("utf-8"))["controls"]
CHANGES: list[tuple[str, str, Any]] = [
    ("change_instruction", "instruction", "Decide. "),
    ("change_input_text_prefixes", "input_text_prefixes", ["x: "]),
    ("change_input_text_affixes", "input_text_affixes", [" ||"]),
    ("change_label_prefix", "label_prefix", "y: "),
    ("change_label_affix", "label_affix", ";"),
    ("change_query_prefix", "query_prefix", "now "),
    ("change_label_space", "label_space", ["a", "b", "c"]),
    ("change_label_wrong_rate", "label_wrong_rate", 1.0),
    ("set_label_wrong_rate", "label_wrong_rate", 0.25),
]


@pytest.fixture
def writer(small: Callable[..., Dataset]) -> PromptWriter:
    dataset = small()
    return PromptWriter(dataset.card, split_dataset(dataset))


# -- against the release


# Each function writes prompts with one control, of a new experimentor.


def example_in_the_noisy_channel(experimentor: Any, *affixes: str) -> Any:
    experimentor.prompt_former.use_noisy_channel(*affixes)
    return experimentor.prompt_former.example()


def example_with_the_space_in_the_labels(experimentor: Any) -> Any:
    experimentor.prompt_former.replace_space_to_label()
    return experimentor.prompt_former.example()


def prompts_with_wrong_labels(experimentor: Any, rate: float, count: int) -> list[Any]:
    """Write the same prompt so many times; each draws other wrong labels."""
    writer = experimentor.prompt_former
    writer.change_label_wrong_rate(rate)
    return [writer.write_prompt([3, 1, 4, 15], 9) for _ in range(count)]


def all_prompts_with_half_of_the_labels_wrong(experimentor: Any) -> Any:
    experimentor.prompt_former.change_label_wrong_rate(0.5)
    return experimentor.prompt_set()


def prompt_of_given_rows(experimentor: Any) -> Any:
    demonstrations = [experimentor.demonstration_set()[row] for row in (0, 1, 2)]
    query_texts, _ = experimentor.test_set()[5]
    return experimentor.prompt_former.write_prompt_from_dataline(demonstrations, query_texts, cut_by_length=7)


def prompts_of_two_shots(experimentor: Any) -> Any:
    experimentor.set_k(2)
    return experimentor.prompt_set()


def prompts_of_given_demonstrations(experimentor: Any) -> Any:
    n = len(experimentor.demonstration_set())
    lists_of_rows = [[i % n, 7 * i % n, 5, 5] for i in range(len(experimentor.test_set()))]
    experimentor.set_demonstration_sampler(lists_of_rows)
    return experimentor.prompt_set()


def prompt_after_every_change(experimentor: Any) -> Any:
    """Change each setting but the affixes, and return a prompt; the labels become ``"0"``, ``"1"`` and so on."""
    writer = experimentor.prompt_former
    writer.change_instruction("I: ")
    writer.change_input_text_prefixes(["P: "])
    writer.change_label_prefix("L: ")
    writer.change_label_affix(" #\n")
    writer.change_query_prefix("Q> ")
    writer.change_label_space([str(label) for label in range(len(writer.get_label_space()))])
    return writer.write_prompt([3, 1, 4], 2)


CONTROLS: dict[str, Callable[[Any], Any]] = {
    "example()": lambda experimentor: experimentor.prompt_former.example(),
    "example(2)": lambda experimentor: experimentor.prompt_former.example(2),
    "use_noisy_channel(); example()": example_in_the_noisy_channel,
    'use_noisy_channel("; ", " || "); example()': (
        lambda experimentor: example_in_the_noisy_channel(experimentor, "; ", " || ")
    ),
    "replace_space_to_label(); example()": example_with_the_space_in_the_labels,
    "label wrong rate 0.5; write_prompt([3, 1, 4, 15], 9) twice": (
        lambda experimentor: prompts_with_wrong_labels(experimentor, rate=0.5, count=2)
    ),
    "label wrong rate 0.2; write_prompt([3, 1, 4, 15], 9)": (
        lambda experimentor: prompts_with_wrong_labels(experimentor, rate=0.2, count=1)[0]
    ),
    "label wrong rate 0.5; prompt_set()": all_prompts_with_half_of_the_labels_wrong,
    "write_prompt_from_dataline of demonstration rows 0 to 2, test row 5, cut_by_length=7": prompt_of_given_rows,
    "every change_* but the affixes; write_prompt([3, 1, 4], 2)": prompt_after_every_change,
    "set_k(2); prompt_set()": prompts_of_two_shots,
    "set_demonstration_sampler([[i % n, 7 * i % n, 5, 5] ...]); prompt_set()": prompts_of_given_demonstrations,
}
"""By the key of the golden file: a function that uses a control of the prompt writer, and returns the prompt."""


def sha256_of_json(value: Any) -> str:
    """Return the digest of a value as the golden file has it."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


@pytest.mark.pack
@pytest.mark.parametrize("name", GOLDEN)
def test_every_control_writes_what_the_release_writes(name: str) -> None:
    benchmark = Normal(datasets=[name])
    digest_by_control = GOLDEN[name]

    for control, expected_digest in digest_by_control.items():
        benchmark.re_initialize()
        write_prompts = CONTROLS[control]
        assert sha256_of_json(write_prompts(benchmark[0])) == expected_digest, control


# -- settings: reading, changing, resetting


@pytest.mark.parametrize(("method", "key", "value"), CHANGES)
def test_each_control_changes_its_setting_and_nothing_else(
    writer: PromptWriter, method: str, key: str, value: Any
) -> None:
    before = writer.get_config_dict()

    getattr(writer, method)(value)

    assert writer.get_config_dict() == {**before, key: value}


@pytest.mark.parametrize(("method", "key", "value"), CHANGES)
def test_each_control_changes_the_prompts_until_the_reset(
    writer: PromptWriter, method: str, key: str, value: Any
) -> None:
    before = writer.get_config_dict()
    example = writer.example()

    getattr(writer, method)(value)
    assert writer.example() != example
    assert ", changed settings: " in repr(writer)

    writer.reset()
    assert writer.example() == example
    assert ", default settings: " in repr(writer)
    assert writer.get_config_dict() == before


@pytest.mark.parametrize(("method", "key", "value"), CHANGES)
def test_each_setting_is_a_member_with_an_underscore(writer: PromptWriter, method: str, key: str, value: Any) -> None:
    """The README of 0.1.1 documents them."""
    setattr(writer, f"_{key}", value)

    assert getattr(writer, f"_{key}") == value
    assert writer.get_config_dict()[key] == value


@pytest.mark.parametrize("member", ["_input_text_prefixes", "_input_text_affixes", "_label_space"])
def test_a_list_of_settings_cannot_be_changed_in_place(writer: PromptWriter, member: str) -> None:
    with pytest.raises(TypeError, match="this list is a copy, so changing it would have no effect"):
        getattr(writer, member)[0] = "x"


def test_leaving_the_noisy_channel_in_the_direct_channel_changes_nothing(writer: PromptWriter) -> None:
    writer.change_label_affix(";")
    before = writer.get_config_dict()

    writer.cancel_noisy_channel()

    assert writer.get_config_dict() == before


def prompts_with_label_noise(writer: PromptWriter) -> list[Any]:
    """Return the prompts of four queries, of whose eight demonstrations four have a wrong label."""
    writer.change_label_wrong_rate(0.5)
    return [writer.write_prompt(range(8), query_index) for query_index in range(4)]


@pytest.mark.parametrize("reset", ["reset", "replace_space_to_label"])
@pytest.mark.parametrize("written_before", [0, 1, 5])
def test_after_a_reset_label_noise_is_that_of_a_new_writer(
    small: Callable[..., Dataset], reset: str, written_before: int
) -> None:
    dataset = small()
    used = PromptWriter(dataset.card, split_dataset(dataset))
    new = PromptWriter(dataset.card, split_dataset(dataset))
    used.change_label_wrong_rate(1.0)
    for query_index in range(written_before):
        used.write_prompt(range(8), query_index)

    getattr(used, reset)()
    getattr(new, reset)()

    assert prompts_with_label_noise(used) == prompts_with_label_noise(new)


@pytest.mark.parametrize("reset", ["reset", "replace_space_to_label"])
@pytest.mark.parametrize("starts_noisy", [False, True])
def test_after_a_reset_the_noisy_channel_is_left_as_by_a_new_writer(
    small: Callable[..., Dataset], reset: str, starts_noisy: bool
) -> None:
    """The affixes that a writer keeps for its return to the direct channel are reset, too."""
    dataset = small()
    used = PromptWriter(dataset.card, split_dataset(dataset), starts_noisy)
    new = PromptWriter(dataset.card, split_dataset(dataset), starts_noisy)
    used.change_label_affix("; ")
    used.use_noisy_channel(" | ")

    for writer in (used, new):
        getattr(writer, reset)()
        writer.use_noisy_channel()
        writer.disable_noisy_channel()

    assert used.get_config_dict() == new.get_config_dict()
    assert used.write_prompt(range(8), 0) == new.write_prompt(range(8), 0)


def test_a_space_moves_from_the_label_prefix_to_the_labels(writer: PromptWriter) -> None:
    assert writer.get_config_dict()["label_prefix"] == "label: "

    writer.replace_space_to_label()

    assert writer.get_config_dict()["label_prefix"] == "label:"
    assert writer.get_config_dict()["label_space"] == [" no", " yes", " maybe"]
    assert writer.get_label_space() == [" no", " yes", " maybe"]


def test_moving_the_space_resets_the_other_settings(writer: PromptWriter) -> None:
    writer.change_instruction("Decide. ")

    writer.replace_space_to_label()

    assert writer.get_config_dict()["instruction"] == ""


def test_a_label_prefix_without_a_space_is_not_changed(small: Callable[..., Dataset]) -> None:
    dataset = small()
    template = dataclasses.replace(dataset.card.template, label_prefix="label:")
    card = dataclasses.replace(dataset.card, template=template)
    writer = PromptWriter(card, split_dataset(dataset))

    writer.replace_space_to_label()

    assert not writer.changed


# -- a changed template is said once


def test_the_first_change_warns_where_it_was_made(writer: PromptWriter) -> None:
    with pytest.warns(TemplateWarning, match=r"the prompts of small .* are not comparable") as caught:
        writer.change_instruction("Decide. ")

    assert caught[0].filename == __file__


def test_the_second_change_does_not_warn(writer: PromptWriter) -> None:
    writer.change_instruction("Decide. ")

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        writer.change_label_prefix("y: ")
        writer.use_noisy_channel()


# -- writing prompts


def test_the_noisy_channel_changes_the_affixes_of_the_label_and_the_last_text(
    small: Callable[..., Dataset],
) -> None:
    dataset = small(columns=3)
    writer = PromptWriter(dataset.card, split_dataset(dataset))
    writer.change_input_text_affixes([" a", " b", " c"])
    before = writer.get_config_dict()

    writer.use_noisy_channel(" :", " ||")

    changes = {"label_affix": " :", "input_text_affixes": [" a", " b", " ||"], "use_noisy_channel": True}
    assert writer.get_config_dict() == {**before, **changes}


@pytest.mark.parametrize(
    ("arguments", "label_affix", "last_input_affix"),
    [((), " ", "\n"), ((": ",), ": ", "\n"), ((" :", " ||"), " :", " ||")],
)
def test_the_affixes_of_the_noisy_channel_have_defaults(
    writer: PromptWriter, arguments: tuple[str, ...], label_affix: str, last_input_affix: str
) -> None:
    writer.use_noisy_channel(*arguments)

    config = writer.get_config_dict()
    assert config["label_affix"] == label_affix
    assert config["input_text_affixes"] == [last_input_affix]


def test_a_writer_that_starts_in_the_noisy_channel_has_the_same_settings(small: Callable[..., Dataset]) -> None:
    dataset = small()
    split = split_dataset(dataset)
    switched = PromptWriter(dataset.card, split)
    switched.use_noisy_channel()

    assert PromptWriter(dataset.card, split, noisy_channel=True).settings == switched.settings


def test_the_noisy_channel_writes_one_prompt_for_each_label(writer: PromptWriter) -> None:
    writer.use_noisy_channel()

    prompts = writer.write_prompt([], 0)

    assert isinstance(prompts, list)
    beginnings = [prompt.partition("t0: ")[0] for prompt in prompts]
    assert beginnings == ["label: no ", "label: yes ", "label: maybe "]


@pytest.mark.parametrize("starts_noisy", [False, True])
def test_the_direct_channel_has_its_previous_affixes(small: Callable[..., Dataset], starts_noisy: bool) -> None:
    """The direct channel has the affixes from before the noisy channel, however often its own were changed.

    Other changes are kept.
    """
    dataset = small()
    direct = PromptWriter(dataset.card, split_dataset(dataset)).get_config_dict()
    writer = PromptWriter(dataset.card, split_dataset(dataset), starts_noisy)
    writer.use_noisy_channel(" :", " ||")
    writer.use_noisy_channel(": ")
    writer.change_label_prefix("y: ")

    writer.disable_noisy_channel()

    assert writer.get_config_dict() == {**direct, "label_prefix": "y: "}


@pytest.mark.parametrize("noisy", [False, True], ids=["direct", "noisy"])
@pytest.mark.parametrize("starts_noisy", [False, True])
def test_a_writer_takes_the_settings_of_another(small: Callable[..., Dataset], noisy: bool, starts_noisy: bool) -> None:
    dataset = small()
    split = split_dataset(dataset)
    first = PromptWriter(dataset.card, split)
    second = PromptWriter(dataset.card, split, starts_noisy)
    first.change_label_affix(";")
    if noisy:
        first.use_noisy_channel(" :", " ||")

    second.set_config_dict(first.get_config_dict())

    assert second.get_config_dict() == first.get_config_dict()
    assert second.write_prompt([0], 1) == first.write_prompt([0], 1)


def test_a_dictionary_changes_only_the_settings_that_it_names(writer: PromptWriter) -> None:
    writer.use_noisy_channel()
    before = writer.get_config_dict()

    writer.set_config_dict({"label_prefix": "y: "})

    assert writer.get_config_dict() == {**before, "label_prefix": "y: "}


def test_renamed_labels_are_shown_under_their_new_name(writer: PromptWriter) -> None:
    """A demonstration names its label by the old name, the new name or the index."""
    writer.change_label_space(["A", "B", "C"])
    lines: list[Any] = [("one", "maybe"), (["y"], "B"), (["z"], 0)]

    prompt = writer.write_prompt_from_dataline(lines, "query")

    assert prompt == "t0: one label: C\nt0: y label: B\nt0: z label: A\nt0: query label: "


def test_pseudo_queries_are_written_in_order(writer: PromptWriter) -> None:
    writer.pseudo_prompt = iter([["one"], ["two"]])

    assert writer.write_prompt([], None) == "t0: one label: "
    assert writer.write_prompt([]) == "t0: two label: "


def test_a_prompt_after_the_last_pseudo_query_is_refused(writer: PromptWriter) -> None:
    writer.pseudo_prompt = iter([])

    with pytest.raises(ArgumentError, match=r"^pseudo_prompt has no further query; set it to an iterator that has$"):
        writer.write_prompt([])


# -- bad arguments, each with its message


class BadCall(NamedTuple):
    """A call of a method of the prompt writer with a bad argument, and words of the refusal."""

    method: str
    arguments: tuple[Any, ...]
    refusal: str


NO_LABEL_NAMES = "must be 3 distinct non-empty texts, not"
NO_RATE = "in [0, 1], not"
BAD_CALLS = [
    BadCall("change_instruction", (5,), "must be a text, not 5"),
    BadCall("change_instruction", (None,), "not None"),
    BadCall("change_instruction", ("\ud800",), "lone surrogate"),
    BadCall("change_label_prefix", (["a"],), "must be a text, not ['a']"),
    BadCall("change_input_text_prefixes", ("a",), "'input_text_prefixes' must be a list, each item a text, not 'a'"),
    BadCall("change_input_text_prefixes", (["a", "b"],), "2 'input_text_prefixes' and 1 'input_text_affixes'"),
    BadCall("change_input_text_affixes", ([],), "1 'input_text_prefixes' and 0 'input_text_affixes'"),
    BadCall("change_label_space", ("abc",), f"{NO_LABEL_NAMES} 'abc'"),
    BadCall("change_label_space", (["a", "b"],), f"{NO_LABEL_NAMES} ['a', 'b']"),
    BadCall("change_label_space", (["a", "b", "a"],), f"{NO_LABEL_NAMES} ['a', 'b', 'a']"),
    BadCall("change_label_space", (["a", "b", ""],), f"{NO_LABEL_NAMES} ['a', 'b', '']"),
    BadCall("change_label_space", (["a", "b", 3],), f"{NO_LABEL_NAMES} ['a', 'b', 3]"),
    BadCall("change_label_wrong_rate", (2,), f"{NO_RATE} 2"),
    BadCall("change_label_wrong_rate", (-1,), f"{NO_RATE} -1"),
    BadCall("change_label_wrong_rate", (float("nan"),), f"{NO_RATE} nan"),
    BadCall("change_label_wrong_rate", ("0.5",), f"{NO_RATE} '0.5'"),
    BadCall("change_label_wrong_rate", (True,), f"{NO_RATE} True"),
    BadCall("use_noisy_channel", (3,), "'label_affix' must be a text, not 3"),
    BadCall("use_noisy_channel", (" ", 3), "item 0 must be a text, not 3"),
    BadCall("set_config_dict", (["instruction"],), "dictionary of prompt settings, not list"),
    BadCall("set_config_dict", ({"use_noisy_channel": "no"},), "must be True or False, not 'no'"),
    BadCall(
        "set_config_dict",
        ({"use_noisy_channel": True, "instruction": "x", "label_wrong_rate": 2},),
        f"{NO_RATE} 2",
    ),
    BadCall("__setattr__", ("cut_by_length", -1), "cut_by_length must be an integer of at least 0, not -1"),
    BadCall("write_prompt", ([0], 8), "query_index must be an integer from 0 to 7, not 8"),
    BadCall("write_prompt", ([0, 20], 7), "a demonstration must be an integer from 0 to 19, not 20"),
    BadCall("write_prompt", ([0],), "set pseudo_prompt"),
    BadCall("write_prompt_from_dataline", ([], "q", 1.0), "cut_by_length must be an integer of at least 0, not 1.0"),
    BadCall(
        "write_prompt_from_dataline",
        ([("a", "perhaps")], "q"),
        "'perhaps' is no label; labels: no, yes, maybe",
    ),
    BadCall("write_prompt_from_dataline", ([("a", 3)], "q"), "3 is no label; labels: no, yes, maybe"),
    BadCall("write_prompt_from_dataline", ([("a", -1)], "q"), "-1 is no label; labels: no, yes, maybe"),
    BadCall("write_prompt_from_dataline", ([], ["a", "b"]), "expected 1 input texts, as a row"),
    BadCall(
        "write_prompt_from_dataline",
        ([("a", 1), ["b"]], "q"),
        "demonstration 1 must be a pair (input texts, label), not ['b']",
    ),
    BadCall(
        "write_prompt_from_dataline",
        ([("a", 1), "ab"], "q"),
        "demonstration 1 must be a pair (input texts, label), not 'ab'",
    ),
    BadCall(
        "write_prompt_from_dataline",
        ([("a", 1), {"b": 1, "c": 2}], "q"),
        "demonstration 1 must be a pair (input texts, label), not {'b': 1, 'c': 2}",
    ),
]


@pytest.mark.parametrize("call", BAD_CALLS, ids=[call.method for call in BAD_CALLS])
def test_a_call_with_a_bad_argument_is_refused_and_changes_nothing(writer: PromptWriter, call: BadCall) -> None:
    settings_before = writer.get_config_dict()

    with pytest.raises(ArgumentError, match=re.escape(call.refusal)):
        getattr(writer, call.method)(*call.arguments)

    assert writer.get_config_dict() == settings_before
    assert not writer.changed
