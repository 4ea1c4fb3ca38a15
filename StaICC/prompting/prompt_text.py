"""The text of a prompt, which knows its parts: instruction, demonstrations, question.

An inference function reads the text. What has to know where a demonstration begins (chat turns, a prompt that is too
long) reads the parts; nothing splits the text of a prompt.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from StaICC.errors import PromptError

Prompt = str | tuple[str, ...]
"""The prompt of one query: a text, or in the noisy channel one text for each label of the label space. The prompts of
benchmarks know their parts (:class:`PromptText`)."""


@dataclass(frozen=True, slots=True)
class Demonstration:
    """A demonstration (in-context example) as a prompt shows it; its text is the three fields together."""

    before: str
    """Everything before the label."""
    label: str
    """The label, or the answer of a task without labels."""
    after: str
    """Everything after the label, such as the line feed that ends the demonstration."""
    position: int | None = field(default=None, compare=False)
    """The row of the demonstration set, whatever the template and the label that it is shown with; ``None`` if it is
    not known."""

    @property
    def text(self) -> str:
        """The demonstration in the prompt."""
        return self.before + self.label + self.after


@dataclass(frozen=True, slots=True)
class PromptParts:
    """The parts of a prompt; its text is all of them together."""

    instruction: str
    """Everything before the first demonstration."""
    demonstrations: Sequence[Demonstration]
    """The demonstrations, in order."""
    question: str
    """Everything after the last demonstration: the query, up to the place where the model continues."""
    label_prefix: str = field(default="", compare=False)
    """The text before a label, such as ``"sentiment: "``: a reply may repeat it."""
    text_prefixes: tuple[str, ...] = field(default=(), compare=False)
    """The beginnings of the input texts, such as ``"review: "``: a model that writes a next example begins with one."""

    @property
    def text(self) -> str:
        """The prompt."""
        pieces = [self.instruction]
        for demonstration in self.demonstrations:
            pieces += (demonstration.before, demonstration.label, demonstration.after)
        pieces.append(self.question)
        return "".join(pieces)

    def without_first(self, count: int) -> PromptParts:
        """Return the parts without the first demonstrations."""
        return replace(self, demonstrations=self.demonstrations[count:])

    def turns(self) -> list[str]:
        r"""Return the contents of a conversation, of the user and the assistant in turn; the last one is the user's.

        The assistant says the labels. White space after a label separates the demonstrations in a text, and is left
        out here; other text after a label begins the next turn of the user.

        Example:
            >>> shown = Demonstration("text: sun label: ", "good", "\n")
            >>> PromptParts("Classify. ", [shown], "text: rain label: ").turns()
            ['Classify. text: sun label: ', 'good', 'text: rain label: ']
        """
        turns = []
        beginning_of_turn = self.instruction
        for demonstration in self.demonstrations:
            turns.append(beginning_of_turn + demonstration.before)
            turns.append(demonstration.label)
            beginning_of_turn = demonstration.after
            if beginning_of_turn.isspace():
                beginning_of_turn = ""
        turns.append(beginning_of_turn + self.question)
        return turns


class PromptText(str):
    """The text of a prompt with its parts. It equals its text.

    Args:
        parts: The parts.
        text: The text, if the caller has it; it must be that of the parts.
    """

    __slots__ = ("_parts", "_write_parts")
    _parts: PromptParts | None
    _write_parts: Callable[[], PromptParts] | None

    def __new__(cls, parts: PromptParts, text: str | None = None) -> PromptText:
        """Make a prompt of its parts; its text is put together from them, unless the caller gives it."""
        if text is None:
            text = parts.text
        prompt = super().__new__(cls, text)
        prompt._parts = parts
        prompt._write_parts = None
        return prompt

    @classmethod
    def of_text(cls, text: str, write_parts: Callable[[], PromptParts]) -> PromptText:
        """Return a prompt whose parts are written when they are read first. Most functions read only the text.

        Args:
            text: The text.
            write_parts: Returns the parts; their text must be this one.
        """
        prompt = super().__new__(cls, text)
        prompt._parts = None
        prompt._write_parts = write_parts
        return prompt

    @property
    def parts(self) -> PromptParts:
        """The parts."""
        if self._parts is None:
            assert self._write_parts is not None
            self._parts = self._write_parts()
        return self._parts

    def __reduce__(self) -> tuple[type[PromptText], tuple[PromptParts]]:
        return PromptText, (self.parts,)


def question_only(text: str) -> PromptText:
    """Return a text as a prompt without instruction and demonstrations."""
    return PromptText(PromptParts("", (), text))


def parts_of(prompt: str, needed_for: str) -> PromptParts:
    """Return the parts of a prompt.

    Args:
        prompt: The prompt.
        needed_for: What needs them, for the message.

    Raises:
        PromptError: It is a plain text.
    """
    if isinstance(prompt, PromptText):
        return prompt.parts
    raise PromptError(
        f"{needed_for} needs a prompt with its parts, and {prompt[:80]!r} is a plain text. Pass the kernel itself to "
        "the benchmark (a function around it has to declare reads_parts = True), or make a StaICC.PromptText",
        index=0,
    )


def prefixes_of(prompt: str | Sequence[str]) -> tuple[str, tuple[str, ...]]:
    """Return the label prefix and the text prefixes of a prompt (:class:`PromptParts`), if it knows its parts.

    Args:
        prompt: A prompt of one text, or the texts of a prompt for the noisy channel.

    Returns:
        Both are empty for a plain text, and for the noisy channel.
    """
    if isinstance(prompt, PromptText):
        return prompt.parts.label_prefix, prompt.parts.text_prefixes
    return "", ()


def extended(prompt: str, text: str) -> str:
    """Return a prompt with text after its question; it keeps its parts."""
    if isinstance(prompt, PromptText):
        return PromptText(replace(prompt.parts, question=prompt.parts.question + text))
    return prompt + text
