r"""The API key, and how it is removed from messages, failure reasons and log records.

Responses are never changed: they are parsed as the server sent them. Only text that is shown is redacted, after
decoding and before it is shortened. A server or a client may repeat a key in another form: with JSON, Python, URL, HTML
or quoted-printable escapes, several of them over one another, in base64 (of the key, of ``Bearer KEY``, of
``user:KEY``, twice), in hexadecimal, as a list of character codes, with other letter case, or broken over lines. All of
these are found by decoding copies of the text; the part of the text from which the key was decoded becomes ``[key]``.

A key of fewer than :data:`MIN_LENGTH` characters (``x``, ``1``, ``EMPTY``, as local servers take) is an ordinary word.
It is redacted only where the text says that it is a credential: after ``Authorization:``, ``Bearer``, ``API key
provided:`` and the like, as the password of a URL, and in base64 of ``Bearer KEY`` and ``user:KEY``.
"""

from __future__ import annotations

import base64
import binascii
import html
import logging
import os
import re
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeAlias

from StaICC.errors import ArgumentError

KEY_VARIABLE = "OPENAI_API_KEY"

MIN_LENGTH = 12
"""Keys of at least so many characters are redacted wherever they occur; shorter ones only as credentials."""

_SHOWN = "[key]"
_MAX_DEPTH = 5  # escapes over escapes
_MAX_VIEWS = 64
_MAX_TEXT = 2**17  # characters that are searched; a message shows far fewer

_CLIENTS = frozenset({"httpcore", "httpx", "openai"})  # their debug logs show the headers of responses

Span: TypeAlias = "tuple[int, int]"


def _backslash(match: re.Match[str]) -> str:
    *codes, octal, other = match.groups()
    if octal is not None:
        return chr(int(octal, 8))
    if other is not None:
        return "" if other in "nrtfbv" else other
    code = int(next(digits for digits in codes if digits is not None), 16)
    return chr(code) if code < 0x110000 else match.group()


def _hexadecimal(match: re.Match[str]) -> str:
    return chr(int(match.group(1), 16)) if match.group(1) else ""


_DECODERS: tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], str]], ...] = (
    (
        re.compile(
            r"\\(?:u\{([0-9a-fA-F]{1,6})\}|U([0-9a-fA-F]{8})|[uU]([0-9a-fA-F]{4})|[xX]([0-9a-fA-F]{2})|([0-7]{2,3})|([^\w\s]|[nrtfbv]))"
        ),
        _backslash,
    ),
    (re.compile(r"%(?:u00)?([0-9a-fA-F]{2})"), _hexadecimal),
    (re.compile(r"&(?:#[xX]?[0-9a-fA-F]+|\w+);?"), lambda match: html.unescape(match.group())),
    (re.compile(r"=(?:([0-9a-fA-F]{2})|\r?\n)"), _hexadecimal),
)

_INVISIBLE = dict.fromkeys((*range(33), *range(127, 161), 173, *range(8192, 8208), *range(8232, 8240), 8288, 65279))
_FOLDED: dict[int, int | None] = {**_INVISIBLE, **{code: code + 32 for code in range(ord("A"), ord("Z") + 1)}}
_BASE64 = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/-_=")
_CODE = re.compile(r"(?<![A-Za-z0-9+/_-])[A-Za-z0-9+/_-]{4,}={0,2}")


def _views(text: str) -> Iterator[tuple[str, tuple[int, ...]]]:
    """The text, and what becomes of it by decoding it in each way, again and again; each with the way."""
    seen = {text}
    queue: list[tuple[str, tuple[int, ...]]] = [(text, ())]
    for view, path in queue:
        yield view, path
        if len(path) == _MAX_DEPTH:
            continue
        for number, (pattern, read) in enumerate(_DECODERS):
            decoded = pattern.sub(read, view)
            if decoded not in seen and len(queue) < _MAX_VIEWS:
                seen.add(decoded)
                queue.append((decoded, (*path, number)))


def _origins(text: str, path: tuple[int, ...]) -> list[Span]:
    """For each character of a view, the part of the text from which it was decoded."""
    view, spans = text, [(place, place + 1) for place in range(len(text))]
    for number in path:
        pattern, read = _DECODERS[number]
        parts: list[str] = []
        origins: list[Span] = []
        end = 0
        for match in pattern.finditer(view):
            decoded = read(match)
            parts += [view[end : match.start()], decoded]
            origins += spans[end : match.start()]
            origins += [(spans[match.start()][0], spans[match.end() - 1][1])] * len(decoded)
            end = match.end()
        view, spans = "".join([*parts, view[end:]]), origins + spans[end:]
    return spans


def _inside_base64(text: str) -> set[str]:
    """What base64 of any text that contains this one contains, whatever comes before and after it."""
    found = set()
    for offset in range(3):
        encoded = base64.b64encode(b"\0" * offset + text.encode() + b"\0\0").decode()
        inside = encoded[-(-offset * 8 // 6) : (offset + len(text)) * 8 // 6]
        found |= {inside, inside.replace("+", "-").replace("/", "_")}
    return found


class Secret:
    """A key that no ``repr`` shows and no pickle holds, and that can be removed from texts.

    Args:
        key: The key, of printable ASCII characters without spaces; empty if there is none.
    """

    __slots__ = ("_forms", "_key", "_short")

    def __init__(self, key: str) -> None:
        self._key = key
        self._forms: list[tuple[re.Pattern[str], bool]] = []  # each with whether it is base64
        self._short: re.Pattern[str] | None = None
        if len(key) >= MIN_LENGTH:
            once = _inside_base64(key)
            twice = set().union(*map(_inside_base64, once))
            codes = [r"\W*(?:0x)?".join(f"{ord(c):02x}" for c in key), r"\W*".join(str(ord(c)) for c in key)]
            self._forms = [(re.compile(form), False) for form in (re.escape(key.translate(_FOLDED)), *codes)]
            self._forms += [(re.compile(re.escape(form.translate(_FOLDED))), True) for form in sorted(once | twice)]
        elif key:
            said = r"authorization|bearer|basic|token|key|secret|credentials?|password"
            between = rf"(?:[\s:=\"'`(\[{{<,]|provided|given|sent|supplied|received|was|is|b(?=['\"])|{said}){{0,8}}"
            self._short = re.compile(rf"(?:(?i:{said}){between}|://[^/\s:@]*:)(?<!\w)({re.escape(key)})(?!\w)")

    def __bool__(self) -> bool:
        return bool(self._key)

    def __reduce__(self) -> Any:
        raise TypeError("an API key is not pickled; each process reads it from its environment")

    def occurs(self, text: str) -> bool:
        """Whether a text holds the key in any form; shorter keys than :data:`MIN_LENGTH` are never found."""
        return len(self._key) >= MIN_LENGTH and self.redact(text) != text[:_MAX_TEXT]

    def redact(self, text: str) -> str:
        """Return the text with ``[key]`` in place of the key, in whatever form it occurs.

        Only the first 131,072 characters are searched; what comes after them is left out.
        """
        if not self._key:
            return text
        text = text[:_MAX_TEXT]
        spans: list[Span] = []
        for view, path in _views(text):
            found = self._short_spans(view) if self._short else self._long_spans(view)
            if found:
                origins = _origins(text, path)
                spans += [(origins[start][0], origins[end - 1][1]) for start, end in found]
        parts: list[str] = []
        done = 0
        for start, end in sorted(spans):
            if start >= done:
                parts += [text[done:start], _SHOWN]
            done = max(done, end)
        return "".join([*parts, text[done:]])

    def _long_spans(self, view: str) -> list[Span]:
        folded = view.translate(_FOLDED)
        found = [(*match.span(), encoded) for form, encoded in self._forms for match in form.finditer(folded)]
        if not found:
            return []
        visible = [place for place, character in enumerate(view) if ord(character) not in _INVISIBLE]
        spans = []
        for first, last, encoded in found:
            start, end = visible[first], visible[last - 1] + 1
            while encoded and start and view[start - 1] in _BASE64:
                start -= 1
            while encoded and end < len(view) and view[end] in _BASE64:
                end += 1
            spans.append((start, end))
        return spans

    def _short_spans(self, view: str) -> list[Span]:
        assert self._short is not None
        found = [match.span(1) for match in self._short.finditer(view)]
        return found + [match.span() for match in _CODE.finditer(view) if self._is_credential(match.group())]

    def _is_credential(self, code: str) -> bool:
        """Whether this is base64 of ``Bearer KEY`` or ``user:KEY``."""
        code = code.rstrip("=").replace("-", "+").replace("_", "/")
        try:
            decoded = base64.b64decode(code + "=" * (-len(code) % 4)).decode("ascii")
        except (binascii.Error, UnicodeDecodeError):
            return False
        before = decoded.removesuffix(self._key)
        return decoded != before and before.isprintable() and (before.endswith(":") or before.lower() == "bearer ")


_CURRENT: ContextVar[Secret] = ContextVar("staicc_endpoint_key", default=Secret(""))  # noqa: B039 (it is immutable)


def occurs(text: str) -> bool:
    """Whether a text holds the key of the transport on whose behalf this code runs; see :meth:`Secret.occurs`."""
    return _CURRENT.get().occurs(text)


def redact(text: str) -> str:
    """Return the text without the key of the transport on whose behalf this code runs."""
    return _CURRENT.get().redact(text)


@contextmanager
def redacting(secret: Secret) -> Iterator[None]:
    """Let :func:`redact` remove this key, in this context and the tasks that are started in it."""
    token = _CURRENT.set(secret)
    try:
        yield
    finally:
        _CURRENT.reset(token)


def key_from_environment() -> str | None:
    """Read the key; ``None`` if there is none (a server of one's own needs none).

    Raises:
        ArgumentError: It holds characters that cannot be sent. The message does not show it.
    """
    key = os.environ.get(KEY_VARIABLE, "").strip()
    if not key:
        return None
    if not key.isascii() or not key.isprintable() or " " in key:
        raise ArgumentError(
            f"the key in {KEY_VARIABLE} holds spaces or characters that no header can carry; set it again"
        )
    return key


_NAMES = re.compile("KEY|TOKEN|SECRET|PASSWORD|CREDENTIAL", re.IGNORECASE)


def redact_environment(text: str) -> str:
    """Return the text without the values of all environment variables that are named like keys of providers."""
    for name, value in sorted(os.environ.items()):
        if _NAMES.search(name):
            text = Secret(value.strip()).redact(text)
    return text


class LogFilter(logging.Filter):
    """Removes a key from the log records of the HTTP client, whose debug log shows the headers of responses."""

    def __init__(self, secret: Secret) -> None:
        super().__init__()
        self._secret = secret

    def filter(self, record: logging.LogRecord) -> bool:
        """Redact a record; none is dropped."""
        try:
            message = record.getMessage()
        except Exception:  # logging reports it when the record is written
            return True
        shown = self._secret.redact(message)
        if shown != message:
            record.msg, record.args = shown, None
        if record.exc_info:
            record.exc_text = self._secret.redact("".join(traceback.format_exception(*record.exc_info)).rstrip())
        return True

    def install(self) -> Callable[[], None]:
        """Filter the records of the client's loggers; return what ends that."""
        names = [
            name for name in logging.root.manager.loggerDict if name.split(".")[0].rstrip("0123456789") in _CLIENTS
        ]
        loggers = [logging.getLogger(name) for name in names]
        for logger in loggers:
            logger.addFilter(self)

        def remove() -> None:
            for logger in loggers:
                logger.removeFilter(self)

        return remove
