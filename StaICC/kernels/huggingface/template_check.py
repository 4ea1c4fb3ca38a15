"""Whether a chat template writes each message of a conversation once, in full, in its place.

A chat template is a program that comes with a model. Some drop the system text, cut or change contents, repeat or
reorder turns, or expect each content as a list of parts. A model would then read something else than the prompt that
the signature states.

**The layout of a shape.** The roles of the messages are the shape of a conversation. For each shape, a conversation is
written once with a unique mark in place of each content (:func:`find_layout`). Each mark must occur exactly once, and
the turns must be in order. The system text may be anywhere: some templates write it before the last turn of the user.
What is between the marks is what the template adds.

**The check of a prompt.** A written prompt must be its layout with the contents in place of the marks
(:meth:`ConversationLayout.check`). White space at the ends of a content may be missing, since many templates strip it.
Every prompt is checked: a template may change some contents only, such as those that are long or contain ``</think>``.

What a template adds, such as a system text of its own, is logged once for each template (:func:`known_layout`), and
so is a beginning of the reply that differs from that of replies in the prompt.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from os.path import commonprefix
from typing import Any

from StaICC.errors import RunEndingError, StaICCError
from StaICC.safe_text import logger

Messages = Sequence[Mapping[str, str]]
Write = Callable[[Sequence[Mapping[str, Any]]], str]
"""Writes messages, whose contents are texts or lists of parts, by the chat template."""

EXCERPT = 60
"""Maximum number of characters of a text in a message."""
LONGEST_DESCRIPTION = 600
"""Maximum number of characters that are logged of what a template adds."""
LEAST_TRACE = 6
"""Characters of a mark that show, without the others, that the template cut it."""
KEPT_LAYOUTS = 1000
"""Layouts that are kept in memory; with demonstrations as turns, each number of them is a shape."""
_LIST_OF_PARTS = re.compile(r"""['"]type['"]\s*:""")
"""What shows that a template wrote a list of parts as it is, not the texts in it."""

_log = logger(__name__)
_layouts: dict[tuple[str, tuple[str, ...]], ConversationLayout] = {}
_described: set[str] = set()
"""Templates whose layout was logged."""


def in_parts(messages: Messages) -> list[dict[str, Any]]:
    """Return messages whose contents are lists with one part, as templates of models with images expect them."""
    return [{**message, "content": [{"type": "text", "text": message["content"]}]} for message in messages]


def message_name(roles: Sequence[str], number: int) -> str:
    """Return the name of a message for error messages.

    Example:
        >>> message_name(["system", "user", "assistant", "user"], 3)
        'turn 2 of the user'
    """
    role = roles[number]
    if role == "system":
        return "the system text"
    return f"turn {roles[: number + 1].count(role)} of the {role}"


@dataclass(frozen=True, slots=True)
class ConversationLayout:
    """What a chat template writes around the messages of one shape of conversation."""

    roles: Sequence[str]
    """The roles of the messages."""
    order: Sequence[int]
    """The numbers of the messages, in the order in which the template writes them."""
    around: Sequence[str]
    """The text before the first written message, between each two, and after the last one."""
    needs_parts: bool
    """Whether the template reads each content as a list of parts."""

    def written(self, contents: Sequence[str]) -> str:
        """Return the text that the template writes for messages with these contents, one for each message."""
        text = self.around[0]
        for number, after in zip(self.order, self.around[1:], strict=True):
            text += contents[number] + after
        return text

    def description(self) -> str:
        """Return what the template adds, with the names of the messages in brackets."""
        names = [f"[{message_name(self.roles, number)}]" for number in range(len(self.roles))]
        return self.written(names)

    def check(self, messages: Messages, text: str) -> None:
        """Refuse a written conversation that differs from its messages.

        Args:
            messages: The messages.
            text: What the template wrote.

        Raises:
            RunEndingError: A message was dropped, cut, repeated or changed.
        """
        contents = [message["content"] for message in messages]
        stripped_contents = [content.strip() for content in contents]
        if text in (self.written(contents), self.written(stripped_contents)):
            return
        # The template strips some of the contents, or one of their ends, or it does something wrong.
        self._check_beginning(text)
        self._check_contents(contents, text)

    def _check_beginning(self, text: str) -> None:
        """Refuse a written conversation that does not begin as others of its shape."""
        expected = self.around[0]
        if text.startswith(expected):
            return
        shared = _shared_length(expected, text)
        raise RunEndingError(
            f"the chat template begins this prompt differently than others, from character {shared + 1} on: got "
            f"{_excerpt(text[shared:])}, expected {_excerpt(expected[shared:])}. It may read words of the system text "
            "as a command: write another one, use another template, or prompt_format='plain'"
        )

    def _check_contents(self, contents: Sequence[str], text: str) -> None:
        """Refuse a written conversation that lacks a content, or changes more of it than white space at its ends.

        The contents are looked for one after the other, each with the text that the template writes after it.

        Args:
            contents: The content of each message.
            text: The written conversation. It begins as the layout does, which was checked before.
        """
        position = len(self.around[0])
        for number, text_after in zip(self.order, self.around[1:], strict=True):
            content = contents[number]
            is_last = number == self.order[-1]
            end = _end_of_content(content, text_after, text, position, is_last)
            if end is None:
                name = message_name(self.roles, number)
                change = _change_of_content(content, text_after, text[position:], name)
                raise RunEndingError(f"the chat template {change}. Use another template, or prompt_format='plain'")
            position = end


def _end_of_content(content: str, after: str, text: str, start: int, is_last: bool) -> int | None:
    """Return where a content, and the template's text after it, end in a written conversation.

    Args:
        content: The content. White space at its ends may be missing in the text.
        after: What the template writes after it.
        text: The written conversation.
        start: Where the content begins.
        is_last: Whether nothing may follow.

    Returns:
        The position, or ``None`` if the text has something else there.
    """
    for shortened_content in _stripped_forms(content):
        expected = shortened_content + after
        end = start + len(expected)
        may_end_here = end == len(text) or not is_last
        if text.startswith(expected, start) and may_end_here:
            return end
    return None


def _stripped_forms(content: str) -> Iterator[str]:
    r"""Yield what a content can be after a template removed none, some or all of the white space at its ends.

    Example:
        >>> list(_stripped_forms(" a\n"))
        [' a\n', ' a', 'a\n', 'a']
    """
    core = content.strip()
    core_start = content.find(core)
    spaces_before = content[:core_start]
    spaces_after = content[core_start + len(core) :]
    for missing_before in range(len(spaces_before) + 1):
        for kept_after in range(len(spaces_after), -1, -1):
            yield spaces_before[missing_before:] + core + spaces_after[:kept_after]


def _change_of_content(content: str, after: str, text: str, name: str) -> str:
    """Return what a template did with a content, as the end of a sentence: "drops turn 2 of the user: got ...".

    The text is not the content followed by ``after``. The first of these explanations that fits is returned: the
    content is followed by something else, is in another case, is missing, is cut at its end or its beginning, or
    follows other text. Otherwise it was changed in another way.

    Args:
        content: The content.
        after: What the template writes after other contents in this place.
        text: What it wrote from this content on.
        name: The name of the message.
    """
    content = content.strip()
    text_with_spaces = text
    text = text.lstrip()
    got = f"got {_excerpt(text)} for the content {_excerpt(content)}"
    if text.startswith(content):
        rest = text[len(content) :]
        is_repeated = content != "" and content in rest
        if is_repeated:
            return f"repeats {name}: {got}"
        return f"writes {_excerpt(rest)} after {name} of this prompt, and {_excerpt(after)} after those of others"
    if text[: len(content)].casefold() == content.casefold():
        return f"changes the case of {name}: {got}"

    if _goes_on_with(text_with_spaces, after):
        return f"drops {name}: {got}"
    shared = _shared_length(content, text)
    if _goes_on_with(text[shared:], after):
        missing_count = len(content) - shared
        return f"cuts {missing_count} of {len(content)} characters at the end of {name}: {got}"
    if after:
        written_content, _, _ = text.partition(after)
        if content.endswith(written_content.rstrip()):
            return f"cuts the beginning of {name}: {got}"
    if content in text:
        return f"adds text before {name}: {got}"
    return f"changes {name} from character {shared + 1} on: {got}"


def _goes_on_with(text: str, after: str) -> bool:
    """Return whether a text begins with what a template writes after a content; white space before it may differ."""
    if after.strip():
        return text.lstrip().startswith(after.lstrip())
    if after:
        return text.startswith(after)
    # Every text begins with nothing, so it must be nothing.
    return text == ""


def _shared_length(first: str, second: str) -> int:
    """Return the number of characters with which two texts begin alike."""
    return len(commonprefix([first, second]))  # noqa: RUF071 - characters are meant


def _excerpt(text: str) -> str:
    """Return a text in quotes for a message, of a long one the beginning."""
    if len(text) > EXCERPT:
        return f"{text[:EXCERPT]!r}..."
    return repr(text)


def _marks(count: int) -> list[str]:
    """Return marks that no template contains or treats specially: letters of both cases and digits."""
    return [f"qZ{number}xMarkOfMessage{number}Kw" for number in range(count)]


def find_layout(write: Write, roles: Sequence[str]) -> ConversationLayout:
    """Return what a chat template writes around messages, found by a trial with a unique mark in place of each content.

    First each content is a text. If the template does not write these messages as it should, each is a list of parts.

    Args:
        write: Writes messages by the template.
        roles: The roles of the messages.

    Raises:
        RunEndingError: It drops, cuts, repeats, changes or reorders messages, in both forms.
        StaICCError: It refuses both forms.
    """
    marks = _marks(len(roles))
    messages = [{"role": role, "content": mark} for role, mark in zip(roles, marks, strict=True)]
    try:
        return _layout_of(write(messages), marks, roles, needs_parts=False)
    except StaICCError as error:
        problem_with_texts = error
    # If lists of parts do not help, the problem with texts is raised: all templates should know texts, so it says more.
    try:
        layout = _layout_of(write(in_parts(messages)), marks, roles, needs_parts=True)
    except StaICCError:
        raise problem_with_texts from None
    writes_lists_as_they_are = any(_LIST_OF_PARTS.search(text) for text in layout.around)
    if writes_lists_as_they_are:
        raise problem_with_texts
    return layout


def known_layout(template: str, write: Write, roles: Sequence[str]) -> ConversationLayout:
    """Return what a chat template writes around messages with these roles, found once for each template and roles.

    At the first call for a template, the log gets what it adds to a prompt.

    Args:
        template: Everything that determines what the template writes around contents, as a text.
        write: Writes messages by the template.
        roles: The roles of the messages.

    Raises:
        RunEndingError: The template does not write each message once, unchanged, in order.
        StaICCError: It refuses the messages.
    """
    key = (template, tuple(roles))
    if key in _layouts:
        return _layouts[key]
    layout = find_layout(write, roles)
    if len(_layouts) >= KEPT_LAYOUTS:
        _layouts.clear()
    _layouts[key] = layout
    if template not in _described:
        _described.add(template)
        _log.warning("the chat template writes a prompt as %r", _shortened(layout.description()))
        _warn_of_other_beginning(write)
    return layout


def _warn_of_other_beginning(write: Write) -> None:
    """Log a warning if a template begins the reply that the model is to write in another way than replies in a prompt.

    Templates of models that reason often end a prompt within the reasoning, where no model would write a label.
    """
    try:
        conversation = find_layout(write, ["user", "assistant", "user"])
    except StaICCError:  # only a prompt with such turns must be written
        return
    _, before_given_reply, _, before_new_reply = conversation.around
    if before_given_reply != before_new_reply:
        _log.warning(
            "the chat template writes %r where the model is to reply, and %r before a reply that it is given. If the "
            "first ends within reasoning, labels are scored there: template_arguments may turn reasoning off",
            _shortened(before_new_reply),
            _shortened(before_given_reply),
        )


def _shortened(text: str) -> str:
    """Return a text for the log, of a long one the beginning and the end."""
    if len(text) <= LONGEST_DESCRIPTION:
        return text
    half = LONGEST_DESCRIPTION // 2
    return f"{text[:half]} ... {text[-half:]}"


def _layout_of(text: str, marks: Sequence[str], roles: Sequence[str], needs_parts: bool) -> ConversationLayout:
    """Return the layout of a conversation of marks: what is between the marks.

    Args:
        text: The conversation as the template wrote it.
        marks: The content of each message.
        roles: The role of each message.
        needs_parts: Whether the template got each content as a list of parts.

    Raises:
        RunEndingError: A mark does not occur exactly once, or turns are in another order.
    """
    for number, mark in enumerate(marks):
        problem = _problem_of_mark(mark, text)
        if problem:
            raise RunEndingError(
                f"the chat template {problem} {message_name(roles, number)}: it writes a conversation of "
                f"{', '.join(roles)} as {_without_marks(text, marks, roles)!r}. {_remedy(roles[number])}"
            )
    start_of_mark = [text.index(mark) for mark in marks]
    order = sorted(range(len(marks)), key=lambda number: start_of_mark[number])
    _check_order(order, roles)

    around = []
    previous_end = 0
    for number in order:
        around.append(text[previous_end : start_of_mark[number]])
        previous_end = start_of_mark[number] + len(marks[number])
    around.append(text[previous_end:])
    return ConversationLayout(tuple(roles), tuple(order), tuple(around), needs_parts)


def _check_order(order: Sequence[int], roles: Sequence[str]) -> None:
    """Refuse a template that reorders turns; the system text may be anywhere.

    Args:
        order: The numbers of the messages in the order in which the template writes them.
        roles: The roles of the messages.
    """
    turns = [number for number in order if roles[number] != "system"]
    if turns == sorted(turns):
        return
    names = ", ".join(message_name(roles, number) for number in turns)
    raise RunEndingError(
        f"the chat template reorders the turns of a conversation: it writes {names}. Use another template, or "
        "prompt_format='plain'"
    )


def _problem_of_mark(mark: str, text: str) -> str:
    """Return what a template did with a mark; an empty text if the mark occurs exactly once."""
    count = text.count(mark)
    if count == 1:
        return ""
    if count > 1:
        return "repeats"
    if mark.casefold() in text.casefold():
        return "changes the case of"
    if mark[:LEAST_TRACE] in text or mark[-LEAST_TRACE:] in text:
        return "cuts or changes"
    return "drops"


def _without_marks(text: str, marks: Sequence[str], roles: Sequence[str]) -> str:
    """Return a written conversation with the names of messages in place of the marks."""
    for number, mark in enumerate(marks):
        text = text.replace(mark, f"[{message_name(roles, number)}]")
    return _shortened(text)


def _remedy(role: str) -> str:
    """Return what to do about a template that does not write messages of a role."""
    if role == "system":
        return "Leave out the option system, and write its text into the prompts"
    if role == "assistant":
        return "Use prompt_format='chat', which has one turn, or 'plain'"
    return "Use another template, or prompt_format='plain'"
