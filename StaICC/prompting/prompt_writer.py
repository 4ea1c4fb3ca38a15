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
import functools
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any, NamedTuple, SupportsIndex

from StaICC import habits
from StaICC.arguments import known_name, validate_integer, whole_number
from StaICC.datasets.catalogue import Card, Template
from StaICC.errors import ArgumentError
from StaICC.frozen import FixedAttributes, FrozenList
from StaICC.layout import TextTable, html
from StaICC.prompting.prompt_text import Demonstration, Prompt, PromptParts, PromptText
from StaICC.prompting.stable_random import StableRandom
from StaICC.prompting.views import TripletSplit
from StaICC.safe_text import one_line


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

    def _repr_html_(self) -> str:
        """Return the query for a notebook, without its text: some data sets contain offensive ones."""
        texts = [self.prompt] if isinstance(self.prompt, str) else self.prompt
        lengths = ", ".join(str(len(text)) for text in texts)
        if 0 <= self.label < len(self.label_space):
            true_label = self.label_space[self.label]
        else:
            true_label = str(self.label)
        values = {
            "label space": ", ".join(self.label_space),
            "true label": true_label,
            "test row": str(self.row),
            "repeat": str(self.repeat),
            "prompt": f"{lengths} characters; print(query.prompt) shows it",
        }
        rows = [[name, value] for name, value in values.items()]
        return html([TextTable(["query", "value"], rows, texts=(0, 1))])

    @property
    def parts(self) -> PromptParts | None:
        """Instruction, demonstrations and question; in the noisy channel, those of the text for the first label.

        ``None`` for the prompt of a task of the user's own that writes plain texts.
        """
        return parts_of_prompt(self.prompt)


def parts_of_prompt(prompt: Prompt) -> PromptParts | None:
    """Return the parts of a prompt; in the noisy channel, those of the text for the first label.

    ``None`` for a plain text, such as the prompt of a task of the user's own.
    """
    text = prompt if isinstance(prompt, str) else prompt[0]
    if not isinstance(text, PromptText):
        return None
    return text.parts


class _ShownRow(NamedTuple):
    """A row of the demonstration set as prompts show it, with the fields of a :class:`Demonstration`.

    A run writes tens of thousands of them, and most inference functions read the text of a prompt only. A tuple is made
    faster than a demonstration, which is made when the parts of the prompt are read.
    """

    before: str
    label: str
    after: str
    position: int | None


class PromptRenderer:
    """Writes prompts with fixed settings.

    Args:
        split: Where demonstrations and queries come from.
        settings: Everything else.
    """

    __slots__ = ("_demonstration_set", "_written", "settings")

    def __init__(self, split: TripletSplit, settings: PromptSettings) -> None:
        """Keep the settings and the demonstration set; nothing is written yet."""
        self.settings = settings
        self._demonstration_set = split.demonstration
        # The demonstrations of earlier prompts: by position, with the true label or a falsified one.
        self._written: dict[tuple[int, bool], _ShownRow] = {}

    def input_text(self, texts: Sequence[str]) -> str:
        """Return input texts between their prefixes and affixes."""
        template = self.settings.template
        joined = ""
        for prefix, text, affix in zip(template.input_text_prefixes, texts, template.input_text_affixes, strict=True):
            joined += prefix + text + affix
        return joined

    def demonstration(self, texts: Sequence[str], label: int, position: int | None = None) -> Demonstration:
        """Return a demonstration as prompts show it; in the noisy channel the label comes first.

        Args:
            texts: Its input texts.
            label: The label index to show.
            position: Its row of the demonstration set, if it is one.
        """
        return Demonstration(*self._shown_row(texts, label, position))

    def _shown_row(self, texts: Sequence[str], label: int, position: int | None) -> _ShownRow:
        """Return a demonstration as prompts show it. The arguments are those of :meth:`demonstration`."""
        template = self.settings.template
        input_text = self.input_text(texts)
        label_name = self.settings.label_space[label]
        if self.settings.noisy_channel:
            return _ShownRow(template.label_prefix, label_name, template.label_affix + input_text, position)
        return _ShownRow(input_text + template.label_prefix, label_name, template.label_affix, position)

    def assemble(self, demonstrations: Sequence[Demonstration], query: Sequence[str]) -> Prompt:
        """Return the prompt of a query: instruction, demonstrations and question.

        Args:
            demonstrations: The demonstrations, as :meth:`demonstration` writes them.
            query: The query's input texts.

        Returns:
            The prompt: a text, or one text for each label in the noisy channel.
        """
        shown = []
        for demonstration in demonstrations:
            row = _ShownRow(
                demonstration.before, demonstration.label, demonstration.after, position=demonstration.position
            )
            shown.append(row)
        return self._assemble(shown, query)

    def _assemble(self, shown: Sequence[_ShownRow], query: Sequence[str]) -> Prompt:
        """Return the prompt of a query with its demonstrations, as :meth:`assemble` does."""
        template = self.settings.template
        question = template.query_prefix + self.input_text(query)
        if not self.settings.noisy_channel:
            return self._prompt_text(shown, question + template.label_prefix)
        prompts = []
        for label in self.settings.label_space:
            candidate = template.label_prefix + label + template.label_affix
            prompts.append(self._prompt_text(shown, candidate + question))
        return tuple(prompts)

    def _prompt_text(self, shown: Sequence[_ShownRow], question: str) -> str:
        """Return a prompt of demonstrations and a question, without the characters that the settings cut off its end.

        Usually it is a :class:`PromptText`, which knows its parts. If more than the question is cut off, it is a plain
        text, because the parts would be wrong.
        """
        pieces = [self.settings.template.instruction]
        for row in shown:
            pieces += (row.before, row.label, row.after)
        pieces.append(question)
        text = "".join(pieces)

        cut_characters = self.settings.cut_by_length
        if cut_characters > 0:
            text = text[:-cut_characters]
            if cut_characters > len(question):
                return text
            question = question[:-cut_characters]
        return PromptText.of_text(text, functools.partial(self._parts, shown, question))

    def _parts(self, shown: Sequence[_ShownRow], question: str) -> PromptParts:
        """Return the parts of a prompt.

        Args:
            shown: Its demonstrations.
            question: Everything after them.
        """
        template = self.settings.template
        return PromptParts(
            instruction=template.instruction,
            demonstrations=tuple([Demonstration(*row) for row in shown]),
            question=question,
            label_prefix=template.label_prefix,
            text_prefixes=template.input_text_prefixes,
        )

    def render(self, positions: Sequence[int], query: Sequence[str], noise: StableRandom) -> Prompt:
        """Write the prompt of one query.

        Args:
            positions: The demonstrations, as positions of the demonstration set.
            query: The query's input texts.
            noise: Draws which labels are falsified: ``int(k * rate)`` of ``k``. If this is 0, nothing is drawn.

        Returns:
            The prompt. A falsified label is the next one of the label space.
        """
        falsified_count = int(len(positions) * self.settings.label_wrong_rate)
        falsified_positions: Sequence[int] = ()
        if falsified_count > 0:
            falsified_positions = noise.sample(positions, falsified_count)
        shown = []
        for position in positions:
            is_falsified = position in falsified_positions
            row = self._written.get((position, is_falsified))
            if row is None:
                row = self._shown_row_at(position, is_falsified)
                self._written[position, is_falsified] = row
            shown.append(row)
        return self._assemble(shown, query)

    def _shown_row_at(self, position: int, is_falsified: bool) -> _ShownRow:
        """Return a row of the demonstration set as prompts show it; a falsified label is the next one."""
        texts, label = self._demonstration_set.row(position)
        if is_falsified:
            label = (label + 1) % len(self.settings.label_space)
        return self._shown_row(texts, label, position)


NOISY_LABEL_AFFIX = " "
NOISY_LAST_INPUT_AFFIX = "\n"
"""The affixes of the noisy channel in 0.1.1: the label comes before its text, so the text ends the line."""
_TEMPLATE_KEYS = tuple(field.name for field in dataclasses.fields(Template))


class TemplateWarning(UserWarning):
    """The standard prompts were changed; results are not comparable with the published ones."""


class _Setting:
    """A setting as an attribute; assigning it is the same as :meth:`PromptWriter.set_config_dict` with its key."""

    def __set_name__(self, owner: type[PromptWriter], name: str) -> None:
        self._key = name.removeprefix("_")

    def __get__(self, writer: PromptWriter | None, owner: type[PromptWriter] | None = None) -> Any:
        """Return the value of the setting; a list in a form that cannot be changed."""
        if writer is None:  # an attribute of the class
            return self
        value = writer.get_config_dict()[self._key]
        if isinstance(value, list):
            return FrozenList(value)
        return value

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
        "_before_noisy",
        "_card",
        "_noise",
        "_own_pseudo",
        "_pseudo",
        "_settings",
        "_split",
        "_starts_noisy",
        "_warned",
    )
    _advice = habits.OF_PROMPT_WRITERS

    def __init__(self, card: Card, split: TripletSplit, noisy_channel: bool = False) -> None:
        """Begin with the template and the label space of the card."""
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
        direct = PromptSettings(self._card.template, self._card.label_space)
        if not self._starts_noisy:
            return direct
        return _for_noisy_channel(direct, label_affix=NOISY_LABEL_AFFIX, last_input_affix=NOISY_LAST_INPUT_AFFIX)

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
        config = {}
        for key in _TEMPLATE_KEYS:
            value = getattr(settings.template, key)
            if isinstance(value, tuple):
                value = list(value)
            config[key] = value
        config["label_space"] = list(settings.label_space)
        config["label_wrong_rate"] = settings.label_wrong_rate
        config["use_noisy_channel"] = settings.noisy_channel
        return config

    # -- changes

    def reset(self) -> None:
        """Go back to the benchmark's template and label space, without label noise."""
        self._settings = self.default_settings
        self._before_noisy = self._card.template
        self._noise = StableRandom()

    def _set(self, **changes: Any) -> None:
        """Change settings; the first change warns that the prompts are no longer the benchmark's.

        Args:
            **changes: Fields of :class:`PromptSettings` or of its template, which checks itself.
        """
        template_changes = {}
        settings_changes = {}
        for key, value in changes.items():
            if key in _TEMPLATE_KEYS:
                template_changes[key] = value
            else:
                settings_changes[key] = value
        if template_changes:
            settings_changes["template"] = dataclasses.replace(self._settings.template, **template_changes)
        self._settings = dataclasses.replace(self._settings, **settings_changes)
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
        label_count = len(self._card.label_space)
        if not _are_distinct_texts(label_space, label_count):
            raise ArgumentError(f"the label space must be {label_count} distinct non-empty texts, not {label_space!r}")
        self._set(label_space=tuple(label_space))

    def change_label_wrong_rate(self, label_wrong_rate: float) -> None:
        """Falsify the labels of ``int(k * label_wrong_rate)`` demonstrations of each prompt.

        Raises:
            ArgumentError: The rate is no number in [0, 1].
        """
        is_number = isinstance(label_wrong_rate, Real) and not isinstance(label_wrong_rate, bool)
        if not is_number or not 0 <= label_wrong_rate <= 1:
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
        noisy = _for_noisy_channel(self._settings, new_label_affix, new_last_input_affix)
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
        changes = dict(config_dict)
        noisy_channel = changes.pop("use_noisy_channel", None)
        if "use_noisy_channel" in config_dict and not isinstance(noisy_channel, bool):
            raise ArgumentError(f"use_noisy_channel must be True or False, not {noisy_channel!r}")
        settings_before = self._settings
        try:
            # The channel first: it sets affixes, which the dictionary may set otherwise.
            if noisy_channel is True:
                self.use_noisy_channel()
            elif noisy_channel is False:
                self.disable_noisy_channel()
            for key, value in changes.items():
                change_setting = getattr(self, f"change_{key}")
                change_setting(value)
        except ArgumentError:
            self._settings = settings_before
            raise

    def replace_space_to_label(self) -> None:
        """Reset, then move a space at the end of the label prefix to the head of each label.

        Some tokenizers treat ``"positive"`` and ``" positive"`` as different words. A label prefix that ends in no
        space leaves everything as it was after the reset.
        """
        self.reset()
        label_prefix = self._settings.template.label_prefix
        if label_prefix.endswith(" "):
            labels_with_space = tuple(" " + label for label in self._settings.label_space)
            self._set(label_prefix=label_prefix[:-1], label_space=labels_with_space)

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
        last_position = len(self._split.demonstration) - 1
        positions = []
        for position in demos_indexes:
            positions.append(validate_integer("a demonstration", position, 0, last_position))
        if query_index is None:
            query = self._next_pseudo_query()
        else:
            test = self._split.test
            query = test.texts(validate_integer("query_index", query_index, 0, len(test) - 1))
        renderer = PromptRenderer(self._split, self._settings)
        return _text_or_list(renderer.render(positions, query, self._noise))

    def _next_pseudo_query(self) -> Sequence[str]:
        """Return the input texts of the next pseudo-query.

        Raises:
            ArgumentError: There is none.
        """
        if self.pseudo_prompt is None:
            raise ArgumentError("give query_index, or set pseudo_prompt to an iterator over lists of input texts")
        pseudo_query = next(self.pseudo_prompt, None)
        if pseudo_query is None:
            raise ArgumentError("pseudo_prompt has no further query; set it to an iterator that has")
        return self.checked_texts(pseudo_query)

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
        cut_characters = validate_integer("cut_by_length", cut_by_length, 0)
        if cut_characters == 0:
            cut_characters = self._settings.cut_by_length
        settings = dataclasses.replace(self._settings, cut_by_length=cut_characters)
        renderer = PromptRenderer(self._split, settings)
        demonstrations = []
        for number, line in enumerate(demos_lines):
            is_sequence = isinstance(line, Sequence) and not isinstance(line, str)
            if not is_sequence or len(line) != 2:
                raise ArgumentError(f"demonstration {number} must be a pair (input texts, label), not {line!r}")
            texts, label = line
            demonstrations.append(renderer.demonstration(self.checked_texts(texts), self._label_index(label)))
        query_texts = self.checked_texts(query_line)
        return _text_or_list(renderer.assemble(demonstrations, query_texts))

    def checked_texts(self, text_or_texts: Sequence[str] | str) -> Sequence[str]:
        """Return the input texts of a row, checked; a single text is a row of one.

        Raises:
            ArgumentError: They are not as many texts as a row of the data set has.
        """
        column_count = self._card.columns
        if isinstance(text_or_texts, str):
            texts: Sequence[str] = [text_or_texts]
        else:
            texts = text_or_texts
        if not _are_texts(texts, column_count):
            raise ArgumentError(
                f"expected {column_count} input texts, as a row of {self._card.name} has, not {text_or_texts!r}"
            )
        return texts

    def _label_index(self, label: str | SupportsIndex) -> int:
        """Return the index of a label.

        Args:
            label: The index itself, the label of a row, or a name: the present one or that of the data set.

        Raises:
            ArgumentError: There is no such label.
        """
        present_names = self._settings.label_space
        index = whole_number(label)
        if index is not None and 0 <= index < len(present_names):
            return index
        if isinstance(label, str):
            for names in (present_names, self._card.label_space):
                if label in names:
                    return names.index(label)
        raise ArgumentError(f"{label!r} is no label; labels: {', '.join(present_names)}")

    def example(self, k: int = 8) -> str | list[str]:
        """Write an example prompt: the same one every time.

        Args:
            k: How many demonstrations it has.

        Returns:
            The prompt, or one prompt for each label in the noisy channel.
        """
        k = validate_integer("k", k, 0)
        generator = StableRandom()
        positions = generator.sample_indexes(len(self._split.demonstration), k)
        query_position = generator.integer(0, len(self._split.test))
        query = self._split.test.texts(query_position)
        renderer = PromptRenderer(self._split, self._settings)
        return _text_or_list(renderer.render(positions, query, noise=StableRandom()))

    def __repr__(self) -> str:
        state = "changed" if self.changed else "default"
        return one_line(f"<prompt writer of {self._card.name}, {state} settings: {self.get_config_dict()!r}>")


def _are_texts(values: object, count: int) -> bool:
    """Return whether a value is a sequence of ``count`` texts."""
    if not isinstance(values, Sequence) or len(values) != count:
        return False
    return all(isinstance(value, str) for value in values)


def _are_distinct_texts(names: object, count: int) -> bool:
    """Return whether a value is a sequence of ``count`` different texts, none of them empty; a single text is none."""
    if isinstance(names, str) or not isinstance(names, Sequence):
        return False
    for name in names:
        if not isinstance(name, str) or not name:
            return False
    return len(names) == count and len(set(names)) == count


def as_argument(prompt: Prompt, with_parts: bool = False) -> str | list[str]:
    """Return a prompt as the inference function gets it: a text, or in the noisy channel a list of texts.

    Args:
        prompt: The prompt.
        with_parts: Whether the function reads the parts of its prompts. Then the texts stay objects that know their
            parts (:class:`~StaICC.prompting.prompt_text.PromptText`); otherwise they become plain texts.
    """
    if with_parts:
        return _text_or_list(prompt)
    # str() of a PromptText is a plain text, without its parts.
    if isinstance(prompt, str):
        return str(prompt)
    return [str(text) for text in prompt]


def _text_or_list(prompt: Prompt) -> str | list[str]:
    """Return a prompt of one text unchanged, and the texts of the noisy channel as a list."""
    if isinstance(prompt, str):
        return prompt
    return list(prompt)


def _for_noisy_channel(settings: PromptSettings, label_affix: str, last_input_affix: str) -> PromptSettings:
    """Return settings with which prompts are written for the noisy channel: the label comes before its text.

    Args:
        settings: The settings to change.
        label_affix: Follows each label. It separates the label from its text.
        last_input_affix: Follows the last input text of a row. It ends a demonstration, in place of the label affix.
    """
    other_affixes = settings.template.input_text_affixes[:-1]
    template = dataclasses.replace(
        settings.template, label_affix=label_affix, input_text_affixes=(*other_affixes, last_input_affix)
    )
    return dataclasses.replace(settings, template=template, noisy_channel=True)
