"""Prompts, written from settings that a user can change.

A prompt is a pure function of the settings (template, label space, channel, label noise), the positions of the
demonstrations, the query's texts, and the state of the noise generator. The renderer keeps no state between calls,
so the same arguments give the same bytes.

Direct channel: instruction, then for each demonstration (each input text between its prefix and affix; label prefix +
label + label affix), then query prefix, the query's texts in the same way, and the label prefix.

Noisy channel (Min et al. 2022, arXiv 2108.04106): one prompt for each candidate label: instruction, then for each
demonstration (label prefix + label + label affix; texts), then label prefix + candidate + label affix, query prefix,
texts.

``experimentor.prompt_former`` is a :class:`PromptWriter`: every control of a prompt that the README of 0.1.1
documents. It holds the settings, changes them, and writes single prompts for a user who looks around; the benchmark's
own prompts come from the same settings through :class:`PromptRenderer`. A template that was changed is no longer the
benchmark's: a :class:`TemplateWarning` says so once, and it is recorded in the signature of every result.
"""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any, SupportsIndex

from StaICC.arguments import known_name, validate_integer, whole_number
from StaICC.datasets.catalogue import Card, Template
from StaICC.errors import ArgumentError
from StaICC.frozen import FixedAttributes, FrozenList
from StaICC.prompting.prompt_text import Demonstration, PromptParts, PromptText
from StaICC.prompting.stable_random import StableRandom
from StaICC.prompting.views import TripletSplit
from StaICC.safe_text import one_line

Prompt = str | tuple[str, ...]
"""The prompt of one query: a text, or in the noisy channel one text for each label of the label space. The prompts of
benchmarks know their parts (:class:`~StaICC.prompting.prompt_text.PromptText`)."""


@dataclass(frozen=True, slots=True)
class PromptSettings:
    """Everything about a prompt but its rows."""

    template: Template
    """The constant strings."""
    label_space: tuple[str, ...]
    """The labels' texts; a row's label is an index into it."""
    label_wrong_rate: float = 0.0
    """Share of each prompt's demonstrations whose label is falsified, in [0, 1]."""
    noisy_channel: bool = False
    """Whether prompts are for the noisy channel, which scores the text given the label."""
    cut_by_length: int = 0
    """How many characters to cut off the end of each prompt."""


@dataclass(frozen=True, slots=True)
class Query:
    """One question of a benchmark."""

    prompt: Prompt
    """What the inference function gets."""
    label_space: tuple[str, ...]
    """The labels that it chooses from."""
    label: int
    """Index of the true label."""
    row: int
    """Position of the test example in the test set; queries of one example are resampled together."""
    repeat: int
    """Which of the repeats of this row it is."""
    last_label: int | None = None
    """Label of the last demonstration; ``None`` without demonstrations, or where labels are falsified."""

    @property
    def parts(self) -> PromptParts | None:
        """Instruction, demonstrations and question; in the noisy channel, those of the text for the first label.

        ``None`` for the prompt of a task of the user's own that writes plain texts.
        """
        text = self.prompt if isinstance(self.prompt, str) else self.prompt[0]
        return text.parts if isinstance(text, PromptText) else None


class PromptRenderer:
    """Writes prompts with fixed settings.

    Args:
        split: Where demonstrations and queries come from.
        settings: Everything else.
    """

    __slots__ = ("_demonstration", "_shown", "settings")

    def __init__(self, split: TripletSplit, settings: PromptSettings) -> None:
        self.settings = settings
        self._demonstration = split.demonstration
        self._shown: dict[tuple[int, int], Demonstration] = {}  # by row and label, for several prompts

    def input_text(self, texts: Sequence[str]) -> str:
        """Return input texts between their prefixes and affixes."""
        template = self.settings.template
        pieces = zip(template.input_text_prefixes, texts, template.input_text_affixes, strict=True)
        return "".join([prefix + text + affix for prefix, text, affix in pieces])

    def demonstration(self, texts: Sequence[str], label: int) -> Demonstration:
        """Return a demonstration as prompts show it; in the noisy channel the label comes first.

        Args:
            texts: Its input texts.
            label: The label index to show.
        """
        template, shown = self.settings.template, self.input_text(texts)
        name = self.settings.label_space[label]
        if self.settings.noisy_channel:
            return Demonstration(template.label_prefix, name, template.label_affix + shown)
        return Demonstration(shown + template.label_prefix, name, template.label_affix)

    def assemble(self, demonstrations: Sequence[Demonstration], query: Sequence[str]) -> Prompt:
        """Put a prompt together.

        Args:
            demonstrations: The demonstrations.
            query: The query's input texts.

        Returns:
            The prompt: a text, or one text for each label in the noisy channel.
        """
        template = self.settings.template
        question = template.query_prefix + self.input_text(query)
        if not self.settings.noisy_channel:
            return self._written(demonstrations, question + template.label_prefix)
        candidates = [template.label_prefix + label + template.label_affix for label in self.settings.label_space]
        return tuple([self._written(demonstrations, candidate + question) for candidate in candidates])

    def _written(self, demonstrations: Sequence[Demonstration], question: str) -> str:
        """Return a prompt, without the characters that the settings cut off; these may be more than the question."""
        template = self.settings.template
        prefixes = template.label_prefix, template.input_text_prefixes
        parts = PromptParts(template.instruction, tuple(demonstrations), question, *prefixes)
        cut = self.settings.cut_by_length
        if not cut:
            return PromptText(parts)
        if cut <= len(question):
            return PromptText(dataclasses.replace(parts, question=question[:-cut]))
        return parts.text[:-cut]

    def render(self, positions: Sequence[int], query: Sequence[str], noise: StableRandom) -> Prompt:
        """Write the prompt of one query.

        Args:
            positions: The demonstrations, as positions of the demonstration set.
            query: The query's input texts.
            noise: Generator of the label noise; nothing is drawn while ``int(k * rate)`` is 0.

        Returns:
            The prompt.
        """
        wrong = int(len(positions) * self.settings.label_wrong_rate)
        falsified = noise.sample(positions, wrong) if wrong else ()
        demonstrations = []
        for position in positions:
            texts, label = self._demonstration.row(position)
            if position in falsified:
                label = (label + 1) % len(self.settings.label_space)
            shown = self._shown.get((position, label))
            if shown is None:
                shown = self._shown[position, label] = self.demonstration(texts, label)
            demonstrations.append(shown)
        return self.assemble(demonstrations, query)


NOISY_LABEL_AFFIX = " "
NOISY_LAST_INPUT_AFFIX = "\n"
_TEMPLATE_KEYS = tuple(field.name for field in dataclasses.fields(Template))


class TemplateWarning(UserWarning):
    """The standard prompts were changed; results are not comparable with the published ones."""


class _Setting:
    """A setting as an attribute; assigning it is the same as :meth:`PromptWriter.set_config_dict` with its key."""

    def __set_name__(self, owner: type[PromptWriter], name: str) -> None:
        self._key = name.removeprefix("_")

    def __get__(self, writer: PromptWriter | None, owner: type[PromptWriter] | None = None) -> Any:
        if writer is None:
            return self
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
        label_wrong_rate: The share of falsified labels; see :meth:`change_label_wrong_rate`.
    """

    __slots__ = (
        *("_before_noisy", "_card", "_noise", "_own_pseudo", "_pseudo", "_settings", "_split", "_starts_noisy"),
        "_warned",
    )

    def __init__(self, card: Card, split: TripletSplit, noisy_channel: bool = False) -> None:
        self._card = card
        self._split = split
        self._starts_noisy = noisy_channel
        self._warned = False
        self._pseudo: Iterator[Sequence[str]] | None = None
        self._own_pseudo = False
        self.reset()

    @property
    def pseudo_prompt(self) -> Iterator[Sequence[str]] | None:
        """An iterator over query texts (one list of input texts each); ``None`` at first.

        :meth:`write_prompt` uses it when no query index is given. The prompts of a run do not, and an experimentor
        refuses to run while another iterator than its benchmark's is assigned.
        """
        return self._pseudo

    @pseudo_prompt.setter
    def pseudo_prompt(self, queries: Iterator[Sequence[str]] | None) -> None:
        self._pseudo = queries
        self._own_pseudo = queries is not None

    @property
    def has_own_pseudo_queries(self) -> bool:
        """Whether the user assigned :attr:`pseudo_prompt`."""
        return self._own_pseudo

    def set_pseudo_queries(self, queries: Iterator[Sequence[str]] | None) -> None:
        """Set the benchmark's own :attr:`pseudo_prompt`."""
        self._pseudo = queries
        self._own_pseudo = False

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
        settings = self._settings
        config = {key: getattr(settings.template, key) for key in _TEMPLATE_KEYS}
        config |= {"label_space": settings.label_space, "label_wrong_rate": settings.label_wrong_rate}
        config["use_noisy_channel"] = settings.noisy_channel
        return {key: list(value) if isinstance(value, tuple) else value for key, value in config.items()}

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
                f"the prompts of {one_line(self._card.name)} are no longer the benchmark's; results say so in their "
                "signature and are not comparable with the published ones",
                TemplateWarning,
                stacklevel=3,
            )

    def change_instruction(self, instruction: str) -> None:
        """Change the instruction, which begins the prompt."""
        self._set(instruction=instruction)

    def change_input_text_prefixes(self, input_text_prefixes: Sequence[str]) -> None:
        """Change the prefixes of the input texts (one for each input text of a row)."""
        self._set(input_text_prefixes=input_text_prefixes)

    def change_input_text_affixes(self, input_text_affixes: Sequence[str]) -> None:
        """Change the affixes of the input texts (one for each input text of a row)."""
        self._set(input_text_affixes=input_text_affixes)

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
        names = list(label_space) if isinstance(label_space, Sequence) and not isinstance(label_space, str) else []
        if not all(isinstance(name, str) and name for name in names) or not len(names) == len({*names}) == expected:
            raise ArgumentError(f"the label space must be {expected} distinct non-empty texts, not {label_space!r}")
        self._set(label_space=tuple(names))

    def change_label_wrong_rate(self, label_wrong_rate: float) -> None:
        """Falsify the labels of ``int(k * label_wrong_rate)`` demonstrations of each prompt.

        Raises:
            ArgumentError: The rate is no number in [0, 1].
        """
        number = isinstance(label_wrong_rate, Real) and not isinstance(label_wrong_rate, bool)
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
            known_name("prompt setting", key, known)
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
        pool, test = self._split.demonstration, self._split.test
        shown = [validate_integer("a demonstration", position, 0, len(pool) - 1) for position in demos_indexes]
        if query_index is not None:
            query: Sequence[str] = test.texts(validate_integer("query_index", query_index, 0, len(test) - 1))
        elif self.pseudo_prompt is not None:
            pseudo = next(self.pseudo_prompt, None)
            if pseudo is None:
                raise ArgumentError("pseudo_prompt has no further query; set it to an iterator that has")
            query = self._input_texts(pseudo)
        else:
            raise ArgumentError("give query_index, or set pseudo_prompt to an iterator over lists of input texts")
        return _listed(PromptRenderer(self._split, self._settings).render(shown, query, self._noise))

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
            lines.append(renderer.demonstration(self._input_texts(line[0]), self._label_index(line[1])))
        return _listed(renderer.assemble(lines, self._input_texts(query_line)))

    def _input_texts(self, given: Sequence[str] | str) -> Sequence[str]:
        texts, expected = [given] if isinstance(given, str) else given, self._card.columns
        if isinstance(texts, Sequence) and len(texts) == expected and all(isinstance(text, str) for text in texts):
            return texts
        raise ArgumentError(f"expected {expected} input texts, as a row of {self._card.name} has, not {given!r}")

    def _label_index(self, label: str | SupportsIndex) -> int:
        """Find a label given by index, as the label of a row, by its present name, or by its name in the data set."""
        index = whole_number(label)
        if index is not None and 0 <= index < len(self._settings.label_space):
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
        positions = generator.sample_indexes(len(self._split.demonstration), validate_integer("k", k, 0))
        query = self._split.test.texts(generator.integer(0, len(self._split.test)))
        return _listed(PromptRenderer(self._split, self._settings).render(positions, query, StableRandom()))

    def __repr__(self) -> str:
        changed = "changed" if self.changed else "default"
        return one_line(f"<prompt writer of {self._card.name}, {changed} settings: {self.get_config_dict()!r}>")


def as_argument(prompt: Prompt, with_parts: bool = False) -> str | list[str]:
    """Return a prompt as the inference function gets it (a list in the noisy channel, as 0.1.1 has it).

    Args:
        prompt: The prompt.
        with_parts: Keep the parts (:class:`~StaICC.prompting.prompt_text.PromptText`), for a function that reads them.
    """
    if with_parts:
        return _listed(prompt)
    return str(prompt) if isinstance(prompt, str) else [str(text) for text in prompt]


def _listed(prompt: Prompt) -> str | list[str]:
    """Return a prompt, in the noisy channel as a list."""
    return prompt if isinstance(prompt, str) else list(prompt)


def _noisy(settings: PromptSettings, label_affix: str, last_input_affix: str) -> PromptSettings:
    affixes = (*settings.template.input_text_affixes[:-1], last_input_affix)
    template = dataclasses.replace(settings.template, input_text_affixes=affixes, label_affix=label_affix)
    return dataclasses.replace(settings, template=template, noisy_channel=True)
