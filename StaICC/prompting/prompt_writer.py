"""The prompt writer: every control of a prompt that the README of 0.1.1 documents.

``experimentor.prompt_former`` is one of these. It holds the settings, changes them, and writes single prompts for a
user who looks around; the benchmark's own prompts come from the same settings through
:class:`~StaICC.prompting.render.PromptRenderer`.

A template that was changed is no longer the benchmark's: a :class:`TemplateWarning` says so once, and it is recorded
in the signature of every result.
"""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Iterator, Mapping, Sequence
from operator import index as as_index
from typing import Any, SupportsIndex

from StaICC.datasets import Card, Template
from StaICC.errors import ArgumentError, unknown_name, validate_integer
from StaICC.frozen import FixedAttributes, FrozenList
from StaICC.prompting.render import Prompt, PromptRenderer, PromptSettings
from StaICC.prompting.sampler import check_position
from StaICC.prompting.split import TripletSplit
from StaICC.prompting.stable_random import StableRandom

NOISY_LABEL_AFFIX = " "
NOISY_LAST_INPUT_AFFIX = "\n"
_TEMPLATE_KEYS = tuple(field.name for field in dataclasses.fields(Template))


class TemplateWarning(UserWarning):
    """The standard prompts were changed; results are not comparable with the published ones."""


class _Setting:
    """A setting as an attribute; assigning it is the same as :meth:`PromptWriter.set_config_dict` with its key."""

    def __set_name__(self, owner: type[PromptWriter], name: str) -> None:
        self._key = name.removeprefix("_")

    def __get__(self, writer: PromptWriter, owner: type[PromptWriter] | None = None) -> Any:
        value = writer.get_config_dict()[self._key]
        return FrozenList(value) if isinstance(value, list) else value

    def __set__(self, writer: PromptWriter, value: Any) -> None:
        writer.set_config_dict({self._key: value})


class PromptWriter(FixedAttributes):
    """Writes prompts from a template that the user may change.

    Args:
        card: Has the default template and label space.
        split: Where demonstrations and queries come from.
        noisy_channel: Start in the noisy channel.

    Attributes:
        pseudo_prompt: An iterator over query texts (one list of input texts each), used by :meth:`write_prompt` when
            no query index is given; ``None`` at first.
        label_wrong_rate: The share of falsified labels; see :meth:`change_label_wrong_rate`.
    """

    __slots__ = ("_before_noisy", "_card", "_noise", "_settings", "_split", "_starts_noisy", "_warned", "pseudo_prompt")
    _assignable = ("pseudo_prompt",)
    pseudo_prompt: Iterator[Sequence[str]] | None

    def __init__(self, card: Card, split: TripletSplit, noisy_channel: bool = False) -> None:
        self._card = card
        self._split = split
        self._starts_noisy = noisy_channel
        self._warned = False
        self.pseudo_prompt = None
        self.reset()

    # -- settings

    @property
    def settings(self) -> PromptSettings:
        """All settings, as one immutable record."""
        return self._settings

    @property
    def default_settings(self) -> PromptSettings:
        """The settings after :meth:`reset`."""
        default = PromptSettings(self._card.template, self._card.label_space)
        return _noisy(default, NOISY_LABEL_AFFIX, NOISY_LAST_INPUT_AFFIX) if self._starts_noisy else default

    @property
    def changed(self) -> bool:
        """Whether the settings differ from the benchmark's."""
        return self._settings != self.default_settings

    _instruction = _Setting()
    _input_text_prefixes = _Setting()
    _input_text_affixes = _Setting()
    _label_prefix = _Setting()
    _label_affix = _Setting()
    _query_prefix = _Setting()
    _label_space = _Setting()
    _label_wrong_rate = label_wrong_rate = _Setting()
    _use_noisy_channel = _Setting()

    def get_label_space(self) -> list[str]:
        """Return the labels that the inference function is given."""
        return list(self._settings.label_space)

    def get_config_dict(self) -> dict[str, Any]:
        """Return the settings under the documented keys; :meth:`set_config_dict` takes them back unchanged."""
        template = self._settings.template
        return {
            "instruction": template.instruction,
            "input_text_prefixes": list(template.input_text_prefixes),
            "input_text_affixes": list(template.input_text_affixes),
            "label_prefix": template.label_prefix,
            "label_affix": template.label_affix,
            "query_prefix": template.query_prefix,
            "label_space": list(self._settings.label_space),
            "label_wrong_rate": self._settings.label_wrong_rate,
            "use_noisy_channel": self._settings.noisy_channel,
        }

    # -- changes

    def reset(self) -> None:
        """Go back to the benchmark's template and label space, without label noise."""
        self._settings = self.default_settings
        self._before_noisy = self._card.template
        self._noise = StableRandom()

    def _set(self, **changes: Any) -> None:
        """Take changed settings over; the template checks itself."""
        template = {key: changes.pop(key) for key in _TEMPLATE_KEYS if key in changes}
        if template:
            changes["template"] = dataclasses.replace(self._settings.template, **template)
        self._settings = dataclasses.replace(self._settings, **changes)
        if self.changed and not self._warned:
            self._warned = True
            warnings.warn(
                f"the prompts of {self._card.name} are no longer the benchmark's; results say so in their signature "
                "and are not comparable with the published ones",
                TemplateWarning,
                stacklevel=3,
            )

    def change_instruction(self, instruction: str) -> None:
        """Change the instruction, which begins the prompt."""
        self._set(instruction=instruction)

    def change_input_text_prefixes(self, input_text_prefixes: Sequence[str]) -> None:
        """Change the prefixes of the input texts (one for each input text of a row)."""
        self._set(input_text_prefixes=self._one_per_text("prefix", input_text_prefixes))

    def change_input_text_affixes(self, input_text_affixes: Sequence[str]) -> None:
        """Change the affixes of the input texts (one for each input text of a row)."""
        self._set(input_text_affixes=self._one_per_text("affix", input_text_affixes))

    def _one_per_text(self, kind: str, given: Sequence[str]) -> Sequence[str]:
        expected = len(self._card.template.input_text_prefixes)
        if isinstance(given, str) or not isinstance(given, Sequence):
            raise ArgumentError(f"expected a list with one {kind} for each of {expected} input texts, not {given!r}")
        if len(given) != expected:
            raise ArgumentError(f"{len(given)} given, expected one {kind} for each of the {expected} input texts")
        return given

    def change_label_prefix(self, label_prefix: str) -> None:
        """Change the label prefix, which precedes each label and ends the prompt."""
        self._set(label_prefix=label_prefix)

    def change_label_affix(self, label_affix: str) -> None:
        """Change the label affix, which follows each demonstration's label."""
        self._set(label_affix=label_affix)

    def change_query_prefix(self, query_prefix: str) -> None:
        """Change the query prefix, which separates the demonstrations from the query."""
        self._set(query_prefix=query_prefix)

    def change_label_space(self, label_space: Sequence[str]) -> None:
        """Rename the labels, in prompts and in what the inference function is given.

        Raises:
            ArgumentError: There are not as many names as labels, or they are not distinct, non-empty texts.
        """
        expected = len(self._card.label_space)
        if isinstance(label_space, str) or not isinstance(label_space, Sequence):
            raise ArgumentError(f"the label space must be a list of {expected} names, not {label_space!r}")
        if len(label_space) != expected:
            raise ArgumentError(f"{len(label_space)} labels given, but {self._card.name} has {expected}")
        for label in label_space:
            if not isinstance(label, str) or not label:
                raise ArgumentError(f"a label must be a non-empty text, not {label!r}")
        if len(set(label_space)) != expected:
            raise ArgumentError(f"the labels must be distinct, not {list(label_space)!r}")
        self._set(label_space=tuple(label_space))

    def change_label_wrong_rate(self, label_wrong_rate: float) -> None:
        """Falsify the labels of ``int(k * label_wrong_rate)`` demonstrations of each prompt.

        Raises:
            ArgumentError: The rate is no number in [0, 1].
        """
        number = isinstance(label_wrong_rate, (int, float)) and not isinstance(label_wrong_rate, bool)
        if not number or not 0 <= label_wrong_rate <= 1:
            raise ArgumentError(f"the label wrong rate must be a number in [0, 1], not {label_wrong_rate!r}")
        self._set(label_wrong_rate=float(label_wrong_rate))  # 1 and 1.0 are one setting, and have one signature

    set_label_wrong_rate = change_label_wrong_rate

    @property
    def cut_by_length(self) -> int:
        """How many characters are cut off the end of each prompt."""
        return self._settings.cut_by_length

    @cut_by_length.setter
    def cut_by_length(self, characters: int) -> None:
        self._set(cut_by_length=validate_integer("cut_by_length", characters, 0))

    def use_noisy_channel(
        self, new_label_affix: str = NOISY_LABEL_AFFIX, new_last_input_affix: str = NOISY_LAST_INPUT_AFFIX
    ) -> None:
        """Write prompts for the noisy channel: one for each label, the label before its text.

        Args:
            new_label_affix: Follows each label from now on.
            new_last_input_affix: Follows the last input text from now on; it separates the demonstrations.
        """
        if not self._settings.noisy_channel:
            self._before_noisy = self._settings.template
        noisy = _noisy(self._settings, new_label_affix, new_last_input_affix)
        self._set(template=noisy.template, noisy_channel=True)

    def disable_noisy_channel(self) -> None:
        """Return to the direct channel, with its previous affixes."""
        if self._settings.noisy_channel:
            self._set(
                input_text_affixes=self._before_noisy.input_text_affixes,
                label_affix=self._before_noisy.label_affix,
                noisy_channel=False,
            )

    cancel_noisy_channel = disable_noisy_channel

    def set_config_dict(self, config_dict: Mapping[str, Any]) -> None:
        """Change the settings that the dictionary names, and nothing else.

        Args:
            config_dict: Some or all of the keys of :meth:`get_config_dict`.

        Raises:
            UnknownNameError: A key that does not exist.
            ArgumentError: It is no dictionary, or a value is one that its own setter refuses; nothing is changed then.
        """
        if not isinstance(config_dict, Mapping):
            raise ArgumentError(f"expected a dictionary of prompt settings, not {type(config_dict).__name__}")
        known = self.get_config_dict()
        for key in config_dict:
            if key not in known:
                raise unknown_name("prompt setting", key, known)
        noisy = config_dict.get("use_noisy_channel", False)
        if not isinstance(noisy, bool):
            raise ArgumentError(f"use_noisy_channel must be True or False, not {noisy!r}")
        before = self._settings
        try:
            if "use_noisy_channel" in config_dict:  # first: it sets affixes, which the dictionary may set otherwise
                if noisy:
                    self.use_noisy_channel()
                else:
                    self.disable_noisy_channel()
            for key, value in config_dict.items():
                if key != "use_noisy_channel":
                    getattr(self, f"change_{key}")(value)
        except ArgumentError:
            self._settings = before
            raise

    def replace_space_to_label(self) -> None:
        """Reset, then move a space at the end of the label prefix to the head of each label.

        Some tokenizers treat ``"positive"`` and ``" positive"`` as different words. A label prefix that ends in no
        space leaves everything as it was after the reset.
        """
        self.reset()
        prefix = self._settings.template.label_prefix
        if prefix.endswith(" "):
            self._set(label_prefix=prefix[:-1], label_space=tuple(" " + label for label in self._settings.label_space))

    # -- prompts

    def write_prompt(self, demos_indexes: Sequence[int], query_index: int | None = None) -> str | list[str]:
        """Write one prompt.

        Label noise draws from this writer's own generator, which :meth:`reset` makes fresh; prompts of a benchmark
        have their own.

        Args:
            demos_indexes: The demonstrations, as positions of the demonstration set.
            query_index: The query, as a position of the test set; ``None`` takes the next of :attr:`pseudo_prompt`.

        Returns:
            The prompt, or one prompt for each label in the noisy channel.

        Raises:
            ArgumentError: A position that does not exist, or no query index and no pseudo-query.
        """
        shown = [check_position(position, self._split.demonstration) for position in demos_indexes]
        if query_index is not None:
            query: Sequence[str] = self._split.test.texts(check_position(query_index, self._split.test))
        elif self.pseudo_prompt is not None:
            pseudo = next(self.pseudo_prompt, None)
            if pseudo is None:
                raise ArgumentError("pseudo_prompt has no further query; set it to an iterator that has")
            query = self._input_texts(pseudo)
        else:
            raise ArgumentError("give query_index, or set pseudo_prompt to an iterator over lists of input texts")
        return as_argument(PromptRenderer(self._split, self._settings).render(shown, query, self._noise))

    def write_prompt_from_dataline(
        self,
        demos_lines: Sequence[tuple[Sequence[str] | str, str | SupportsIndex]],
        query_line: Sequence[str] | str,
        cut_by_length: int = 0,
    ) -> str | list[str]:
        """Write one prompt from given texts.

        Args:
            demos_lines: For each demonstration its input texts and its label (text or index), as the sets return them.
            query_line: The query's input texts.
            cut_by_length: How many characters to cut off the end of the prompt.

        Returns:
            The prompt, or one prompt for each label in the noisy channel. Labels are not falsified.

        Raises:
            ArgumentError: A demonstration that is no such pair, a label that is not in the label space, or a wrong
                number of input texts.
        """
        cut = validate_integer("cut_by_length", cut_by_length, 0) or self._settings.cut_by_length
        renderer = PromptRenderer(self._split, dataclasses.replace(self._settings, cut_by_length=cut))
        lines = []
        for number, line in enumerate(demos_lines):
            if isinstance(line, str) or not isinstance(line, Sequence) or len(line) != 2:
                raise ArgumentError(f"demonstration {number} must be a pair (input texts, label), not {line!r}")
            lines.append((renderer.query_part(self._input_texts(line[0])), self._label_index(line[1])))
        return as_argument(renderer.assemble(lines, self._input_texts(query_line)))

    def _input_texts(self, given: Sequence[str] | str) -> Sequence[str]:
        texts = [given] if isinstance(given, str) else given
        if not isinstance(texts, Sequence) or not all(isinstance(text, str) for text in texts):
            raise ArgumentError(f"input texts must be a list of texts, not {given!r}")
        expected = len(self._settings.template.input_text_prefixes)
        if len(texts) != expected:
            raise ArgumentError(f"{len(texts)} input texts given, but a row of {self._card.name} has {expected}")
        return texts

    def _label_index(self, label: str | SupportsIndex) -> int:
        """Find a label given by index, as the label of a row, by its present name, or by its name in the data set."""
        if isinstance(label, SupportsIndex) and not isinstance(label, bool):
            index = as_index(label)
            if 0 <= index < len(self._settings.label_space):
                return index
        for space in (self._settings.label_space, self._card.label_space):
            if isinstance(label, str) and label in space:
                return space.index(label)
        raise ArgumentError(f"{label!r} is no label; labels: {', '.join(self._settings.label_space)}")

    def example(self, k: int = 8) -> str | list[str]:
        """Write an example prompt: the same one every time.

        Args:
            k: How many demonstrations it has.

        Returns:
            The prompt, or one prompt for each label in the noisy channel.
        """
        generator = StableRandom()
        positions = generator.sample_indexes(len(self._split.demonstration), k)
        query = self._split.test.texts(generator.integer(0, len(self._split.test)))
        return as_argument(PromptRenderer(self._split, self._settings).render(positions, query, StableRandom()))

    def __repr__(self) -> str:
        changed = "changed" if self.changed else "default"
        return f"<prompt writer of {self._card.name}, {changed} settings: {self.get_config_dict()!r}>"


def as_argument(prompt: Prompt) -> str | list[str]:
    """Return a prompt as the inference function gets it (a list in the noisy channel, as 0.1.1 has it)."""
    return prompt if isinstance(prompt, str) else list(prompt)


def _noisy(settings: PromptSettings, label_affix: str, last_input_affix: str) -> PromptSettings:
    affixes = (*settings.template.input_text_affixes[:-1], last_input_affix)
    template = dataclasses.replace(settings.template, input_text_affixes=affixes, label_affix=label_affix)
    return dataclasses.replace(settings, template=template, noisy_channel=True)
