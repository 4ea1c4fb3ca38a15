"""The prompt writer: every control that the README of 0.1.1 documents, and what it refuses."""

from __future__ import annotations

import dataclasses
import json
import re
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from StaICC.datasets.catalogue import plain_values
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


def use(experimentor: Any, control: str) -> Any:
    """Do what a key of the golden file says."""
    writer = experimentor.prompt_former
    size = len(experimentor.demonstration_set())
    if control == "example()":
        return writer.example()
    if control == "example(2)":
        return writer.example(2)
    if control.startswith("use_noisy_channel("):
        writer.use_noisy_channel(*(("; ", " || ") if "||" in control else ()))
        return writer.example()
    if control.startswith("replace_space_to_label"):
        writer.replace_space_to_label()
        return writer.example()
    if control.startswith("label wrong rate"):
        writer.change_label_wrong_rate(float(control.split()[3].rstrip(";")))
        if control.endswith("prompt_set()"):
            return experimentor.prompt_set()
        written = [writer.write_prompt([3, 1, 4, 15], 9) for _ in range(2)]
        return written if control.endswith("twice") else written[0]
    if control.startswith("write_prompt_from_dataline"):
        lines = [experimentor.demonstration_set()[row] for row in range(3)]
        return writer.write_prompt_from_dataline(lines, experimentor.test_set()[5][0], cut_by_length=7)
    if control.startswith("every change_*"):
        writer.change_instruction("I: ")
        writer.change_input_text_prefixes(["P: "])
        writer.change_label_prefix("L: ")
        writer.change_label_affix(" #\n")
        writer.change_query_prefix("Q> ")
        writer.change_label_space([str(label) for label in range(len(writer.get_label_space()))])
        return writer.write_prompt([3, 1, 4], 2)
    if control.startswith("set_k(2)"):
        experimentor.set_k(2)
        return experimentor.prompt_set()
    assert control.startswith("set_demonstration_sampler")
    rows = len(experimentor.test_set())
    experimentor.set_demonstration_sampler([[row % size, 7 * row % size, 5, 5] for row in range(rows)])
    return experimentor.prompt_set()


@pytest.mark.pack
@pytest.mark.parametrize("name", GOLDEN)
def test_every_control_writes_what_the_release_writes(name: str) -> None:
    import hashlib

    from StaICC import Normal

    benchmark = Normal(datasets=[name])
    for control, expected in GOLDEN[name].items():
        benchmark.re_initialize()
        text = json.dumps(use(benchmark[0], control), ensure_ascii=False, separators=(",", ":"))
        assert hashlib.sha256(text.encode()).hexdigest() == expected, control


# -- settings: reading, changing, resetting


@pytest.mark.parametrize(("method", "key", "value"), CHANGES)
def test_each_control_changes_its_setting_and_nothing_else(
    writer: PromptWriter, method: str, key: str, value: Any
) -> None:
    before = writer.get_config_dict()
    example = writer.example()
    getattr(writer, method)(value)
    writer.cancel_noisy_channel()  # which was not used
    assert writer.get_config_dict() == {**before, key: value}
    assert getattr(writer, f"_{key}") == value
    assert type(getattr(writer, f"_{key}")) is not list  # changing it in place would have no effect
    assert ", changed settings: " in repr(writer)
    assert writer.example() != example
    writer.reset()
    assert writer.get_config_dict() == before
    assert ", default settings: " in repr(writer)
    assert writer.example() == example
    setattr(writer, f"_{key}", value)  # the README of 0.1.1 documents the settings as members, too
    assert writer.get_config_dict() == {**before, key: value}


@pytest.mark.parametrize("reset", ["reset", "replace_space_to_label"])
@pytest.mark.parametrize("written_before", [0, 1, 5])
@pytest.mark.parametrize("starts_noisy", [False, True])
def test_after_a_reset_a_writer_writes_what_a_new_one_writes(
    small: Callable[..., Dataset], reset: str, written_before: int, starts_noisy: bool
) -> None:
    """Also prompts with label noise, and the affixes after the noisy channel, do not depend on what was before."""
    dataset = small(2)
    split = split_dataset(dataset)

    def changed_and_written(writer: PromptWriter) -> list[Any]:
        getattr(writer, reset)()
        writer.change_label_wrong_rate(0.5)
        prompts = [writer.write_prompt(range(8), query_index) for query_index in range(4)]
        writer.use_noisy_channel()
        writer.disable_noisy_channel()
        return [*prompts, writer.write_prompt(range(8), 0), writer.get_config_dict()]

    used = PromptWriter(dataset.card, split, starts_noisy)
    used.change_label_affix("; ")
    used.change_label_wrong_rate(1.0)
    used.use_noisy_channel(" | ")
    for query_index in range(written_before):
        used.write_prompt(range(8), query_index)
    assert changed_and_written(used) == changed_and_written(PromptWriter(dataset.card, split, starts_noisy))


def test_a_space_moves_from_the_label_prefix_to_the_labels(small: Callable[..., Dataset], writer: PromptWriter) -> None:
    writer.change_instruction("gone after the reset")
    writer.replace_space_to_label()
    config = writer.get_config_dict()
    assert (config["label_prefix"], config["label_space"]) == ("label:", [" no", " yes", " maybe"])
    assert config["instruction"] == ""
    assert writer.get_label_space() == [" no", " yes", " maybe"]
    card = small().card
    card = dataclasses.replace(card, template=dataclasses.replace(card.template, label_prefix="label:"))
    other = PromptWriter(card, split_dataset(small()))
    other.replace_space_to_label()
    assert not other.changed


# -- a changed template is said once


def test_a_change_warns_once(small: Callable[..., Dataset]) -> None:
    dataset = small()
    writer = PromptWriter(dataset.card, split_dataset(dataset))
    with pytest.warns(TemplateWarning, match=r"the prompts of small .* are not comparable") as caught:
        writer.change_instruction("Decide. ")
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        writer.change_label_prefix("y: ")
        writer.use_noisy_channel()


# -- writing prompts


@pytest.mark.parametrize("starts_noisy", [False, True])
def test_the_noisy_channel_changes_two_affixes_until_it_is_disabled(
    small: Callable[..., Dataset], starts_noisy: bool
) -> None:
    dataset = small(3)
    split = split_dataset(dataset)
    before = plain_values(dataset.card.template) | {"label_space": ["no", "yes", "maybe"], "label_wrong_rate": 0.0}
    before |= {"use_noisy_channel": False}
    plain, writer, other = (PromptWriter(dataset.card, split, noisy) for noisy in (False, starts_noisy, True))
    assert plain.get_config_dict() == before
    plain.use_noisy_channel()
    assert other.settings == plain.settings
    if not starts_noisy:
        before |= {"input_text_affixes": [" a", " b", " c"], "label_affix": ";"}
        writer.set_config_dict(before)
    for given in ([], [" :", " ||"], [": "]):
        writer.use_noisy_channel(*given)
        label, last = given + [" ", "\n"][len(given) :]
        noisy = {"label_affix": label, "input_text_affixes": [*before["input_text_affixes"][:2], last]}
        assert writer.get_config_dict() == before | noisy | {"use_noisy_channel": True}
        prompts = writer.write_prompt([0], 1)
        assert (type(prompts), len(prompts)) == (list, 3)
        other.set_config_dict(writer.get_config_dict())
        assert other.settings == writer.settings
    writer.set_config_dict({"label_prefix": "y: "})
    noisy |= {"use_noisy_channel": True, "label_prefix": "y: "}
    assert writer.get_config_dict() == before | noisy
    writer.disable_noisy_channel()
    for config in (writer.get_config_dict(), before | noisy):
        other.set_config_dict(config)
        assert other.get_config_dict() == config
    assert writer.get_config_dict() == before | {"label_prefix": "y: "}


def test_renamed_labels_are_shown_under_their_new_name(writer: PromptWriter) -> None:
    writer.change_label_space(["A", "B", "C"])
    lines: list[Any] = [("one", "maybe"), (["y"], "B"), (["z"], 0)]
    prompt = writer.write_prompt_from_dataline(lines, "query")
    assert prompt == "t0: one label: C\nt0: y label: B\nt0: z label: A\nt0: query label: "


def test_pseudo_queries(writer: PromptWriter) -> None:
    def queries() -> Iterator[list[str]]:
        yield ["one"]
        yield ["two"]

    writer.pseudo_prompt = queries()
    assert str(writer.write_prompt([], None)).startswith("t0: one ")
    assert str(writer.write_prompt([])).startswith("t0: two ")
    with pytest.raises(ArgumentError, match=r"^pseudo_prompt has no further query; set it to an iterator that has$"):
        writer.write_prompt([])


# -- bad arguments, each with its message

BAD: dict[str, list[tuple[tuple[Any, ...], str]]] = {
    "change_instruction": [((5,), "must be a text, not 5"), ((None,), "not None"), (("\ud800",), "lone surrogate")],
    "change_label_prefix": [((["a"],), "must be a text, not ['a']")],
    "change_input_text_prefixes": [
        (("a",), "'input_text_prefixes' must be a list, each item a text, not 'a'"),
        ((["a", "b"],), "2 'input_text_prefixes' and 1 'input_text_affixes'"),
    ],
    "change_input_text_affixes": [(([],), "1 'input_text_prefixes' and 0 'input_text_affixes'")],
    "change_label_space": [
        (("abc",), "must be 3 distinct non-empty texts, not 'abc'"),
        ((["a", "b"],), "must be 3 distinct non-empty texts, not ['a', 'b']"),
        *(((["a", "b", bad],), f"must be 3 distinct non-empty texts, not ['a', 'b', {bad!r}]") for bad in ("a", "", 3)),
    ],
    "change_label_wrong_rate": [((rate,), f"in [0, 1], not {rate!r}") for rate in (2, -1, float("nan"), "0.5", True)],
    "use_noisy_channel": [((3,), "'label_affix' must be a text, not 3"), ((" ", 3), "item 0 must be a text, not 3")],
    "set_config_dict": [
        ((["instruction"],), "dictionary of prompt settings, not list"),
        (({"use_noisy_channel": "no"},), "must be True or False, not 'no'"),
        (({"use_noisy_channel": True, "instruction": "x", "label_wrong_rate": 2},), "in [0, 1], not 2"),
    ],
    "__setattr__": [(("cut_by_length", -1), "cut_by_length must be an integer of at least 0, not -1")],
    "write_prompt": [
        (([0], 8), "query_index must be an integer from 0 to 7, not 8"),
        (([0, 20], 7), "a demonstration must be an integer from 0 to 19, not 20"),
        (([0],), "set pseudo_prompt"),
    ],
    "write_prompt_from_dataline": [
        (([], "q", 1.0), "cut_by_length must be an integer of at least 0, not 1.0"),
        *((([("a", bad)], "q"), f"{bad!r} is no label; labels: no, yes, maybe") for bad in ("perhaps", 3, -1)),
        (([], ["a", "b"]), "expected 1 input texts, as a row"),
        *(
            (([("a", 1), bad], "q"), f"demonstration 1 must be a pair (input texts, label), not {bad!r}")
            for bad in (["b"], "ab", {"b": 1, "c": 2})
        ),
    ],
}


@pytest.mark.parametrize("method", BAD)
def test_bad_arguments_are_refused_and_change_nothing(writer: PromptWriter, method: str) -> None:
    before = writer.get_config_dict()
    for arguments, message in BAD[method]:
        with pytest.raises(ArgumentError, match=re.escape(message)):
            getattr(writer, method)(*arguments)
        assert writer.get_config_dict() == before
        assert not writer.changed
