"""Prompts from settings: the pure half of the prompt writer.

A prompt is a pure function of the settings (template, label space, channel, label noise), the positions of the
demonstrations, the query's texts, and the state of the noise generator. Nothing here keeps state between calls,
so the same arguments give the same bytes.

Direct channel: instruction, then for each demonstration (each input text between its prefix and affix; label prefix +
label + label affix), then query prefix, the query's texts in the same way, and the label prefix.

Noisy channel (Min et al. 2022, arXiv 2108.04106): one prompt for each candidate label: instruction, then for each
demonstration (label prefix + label + label affix; texts), then label prefix + candidate + label affix, query prefix,
texts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from StaICC.datasets import Template
from StaICC.prompting.split import TripletSplit
from StaICC.prompting.stable_random import StableRandom

Prompt = str | tuple[str, ...]
"""The prompt of one query: a text, or in the noisy channel one text for each label of the label space."""


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


class PromptRenderer:
    """Writes prompts with fixed settings.

    Args:
        split: Where demonstrations and queries come from.
        settings: Everything else.
    """

    __slots__ = ("_demonstration", "_label_parts", "_labels", "_texts", "settings")

    def __init__(self, split: TripletSplit, settings: PromptSettings) -> None:
        self.settings = settings
        self._demonstration = split.demonstration
        template = settings.template
        self._label_parts = [template.label_prefix + label + template.label_affix for label in settings.label_space]
        self._texts: dict[int, str] = {}  # demonstrations as text: each is shown in several prompts
        self._labels: dict[int, int] = {}

    def query_part(self, texts: Sequence[str]) -> str:
        """Return input texts between their prefixes and affixes."""
        template = self.settings.template
        parts = zip(template.input_text_prefixes, texts, template.input_text_affixes, strict=True)
        return "".join(prefix + text + affix for prefix, text, affix in parts)

    def assemble(self, demonstrations: Sequence[tuple[str, int]], query: Sequence[str]) -> Prompt:
        """Put a prompt together.

        Args:
            demonstrations: For each, its texts as :meth:`query_part` writes them and the label index to show.
            query: The query's input texts.

        Returns:
            The prompt: a text, or one text for each label in the noisy channel.
        """
        settings = self.settings
        template = settings.template
        parts = self._label_parts
        if settings.noisy_channel:
            shown = template.instruction + "".join([parts[label] + text for text, label in demonstrations])
            asked = template.query_prefix + self.query_part(query)
            return tuple(self._cut(shown + candidate + asked) for candidate in parts)
        shown = template.instruction + "".join([text + parts[label] for text, label in demonstrations])
        return self._cut(shown + template.query_prefix + self.query_part(query) + template.label_prefix)

    def _cut(self, prompt: str) -> str:
        return prompt[: -self.settings.cut_by_length] if self.settings.cut_by_length else prompt

    def render(self, positions: Sequence[int], query: Sequence[str], noise: StableRandom) -> Prompt:
        """Write the prompt of one query.

        Args:
            positions: The demonstrations, as positions of the demonstration set.
            query: The query's input texts.
            noise: Generator of the label noise; nothing is drawn while ``int(k * rate)`` is 0.

        Returns:
            The prompt.
        """
        falsified: Sequence[int] = ()
        wrong = int(len(positions) * self.settings.label_wrong_rate)
        if wrong:
            falsified = noise.sample(positions, wrong)
        texts, labels = self._texts, self._labels
        count = len(self._label_parts)
        demonstrations = []
        for position in positions:
            text = texts.get(position)
            if text is None:
                row_texts, label = self._demonstration.row(position)
                text = texts[position] = self.query_part(row_texts)
                labels[position] = label
            label = labels[position]
            demonstrations.append((text, (label + 1) % count if position in falsified else label))
        return self.assemble(demonstrations, query)
