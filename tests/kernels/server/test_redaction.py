"""Keys are removed from text and log records; what is no key stays as it is."""

from __future__ import annotations

import logging
import random
import string
import urllib.parse

import pytest

from StaICC.errors import ArgumentError
from StaICC.kernels.server import transport as redaction
from StaICC.kernels.server.transport import MIN_LENGTH, has_key, key_from_environment, redact, redact_logs

KEY = "sk-Te5t/w+K=0_9.zQ~8"


@pytest.fixture(autouse=True)
def no_key(monkeypatch):
    monkeypatch.setattr(redaction, "_READ", set())
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)


def leaks(key: str, text: str) -> bool:
    """Whether a text has the key, verbatim or URL-encoded."""
    return any(form.lower() in text.lower() for form in (key, urllib.parse.quote(key), urllib.parse.quote(key, "")))


@pytest.mark.parametrize("key", [KEY, "0123456789ab", "a%20b%41cdefgh", "[key][key][key]"])
def test_a_key_is_redacted(monkeypatch, key):
    monkeypatch.setenv("OPENAI_API_KEY", key)
    assert key_from_environment() == key
    monkeypatch.delenv("OPENAI_API_KEY")  # the process has sent it
    forms = {
        "verbatim": (key, "[key]"),
        "in upper case": (key.upper(), "[key]"),
        "URL-encoded": (urllib.parse.quote(key), "[key]"),
        "URL-encoded with the slash, in lower case": (urllib.parse.quote(key, "").lower(), "[key]"),
        "twice": (key * 2, "[key][key]"),
    }
    for name, (form, shown) in forms.items():
        assert has_key(f"The key <{form}> is wrong."), f"a key {name} was not found"
        assert redact(f"The key <{form}> is wrong.") == f"The key <{shown}> is wrong.", f"a key {name} was left in"


@pytest.mark.parametrize("name", ["MY_PROVIDER_API_KEY", "hub_token", "Some_Password", "VERTEX_CREDENTIALS"])
def test_other_keys_of_the_environment_are_redacted_too(monkeypatch, name):
    monkeypatch.setenv(name, KEY)
    assert redact(f"no {KEY}!") == "no [key]!"
    assert not has_key(KEY)  # a reply with it is a reply


def test_other_text_is_not_changed(monkeypatch):
    chance = random.Random(7)
    for key in (None, KEY, "x", "EMPTY", "a" * (MIN_LENGTH - 1)):
        if key is not None:
            monkeypatch.setenv("OPENAI_API_KEY", key)
        for length in (*range(40), 500):
            text = "".join(chance.choices(string.printable + "éß日本\u200b\\%&=\"' x EMPTY", k=length))
            assert redact(text) == text
            assert not has_key(text)


@pytest.mark.parametrize("key", ["a b", "é", "a\x01b"])
def test_a_key_that_cannot_be_sent_is_refused_without_showing_it(monkeypatch, key):
    monkeypatch.setenv("OPENAI_API_KEY", key)
    with pytest.raises(ArgumentError, match="OPENAI_API_KEY") as caught:
        key_from_environment()
    assert key not in str(caught.value)


def test_log_records_are_redacted(monkeypatch, caplog):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    logger = logging.getLogger("httpx.test")
    redact_logs()
    redact_logs()
    assert len(logger.filters) == 1
    with caplog.at_level(logging.DEBUG):
        logger.debug("sent %s to %s", {"authorization": f"Bearer {KEY}"}, "x")
        try:
            raise ValueError(KEY)
        except ValueError:
            logger.exception("failed")
        logger.debug("fine %s", 1)
    wrong = logging.LogRecord("httpx.test", 10, "", 0, "%d", ("no number",), None)
    assert logger.filter(wrong)  # the record is wrong; logging says so when it is written
    formatted = [logging.Formatter("%(message)s").format(record) for record in caplog.records]
    assert "fine 1" in formatted
    assert KEY not in "".join(formatted)
    assert "ValueError: [key]" in "".join(formatted)


def test_a_key_that_begins_with_another_is_removed_as_a_whole(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "0123456789abcdef")
    monkeypatch.setenv("MY_API_KEY", "0123456789abcdef-proj-7")
    assert redact("key 0123456789abcdef-proj-7!") == "key [key]!"
