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
    monkeypatch.setattr(redaction, "_SENT_KEYS", set())
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)


def leaks(key: str, text: str) -> bool:
    """Whether a text has the key, verbatim or URL-encoded."""
    return any(form.lower() in text.lower() for form in (key, urllib.parse.quote(key), urllib.parse.quote(key, "")))


FORMS = {
    "verbatim": lambda key: key,
    "in upper case": str.upper,
    "URL-encoded": urllib.parse.quote,
    "URL-encoded with the slash, in lower case": lambda key: urllib.parse.quote(key, "").lower(),
}


@pytest.mark.parametrize("key", [KEY, "0123456789ab", "a%20b%41cdefgh", "[key][key][key]"])
@pytest.mark.parametrize("form", FORMS)
def test_a_key_is_redacted(monkeypatch, key, form):
    monkeypatch.setenv("OPENAI_API_KEY", key)
    text = f"The key <{FORMS[form](key)}> is wrong."
    assert has_key(text)
    assert redact(text) == "The key <[key]> is wrong."


def test_a_key_that_occurs_twice_is_redacted_twice(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    assert redact(KEY + KEY) == "[key][key]"


def test_a_key_that_was_sent_is_redacted_also_when_it_has_left_the_environment(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    assert key_from_environment() == KEY
    monkeypatch.delenv("OPENAI_API_KEY")
    assert has_key(KEY)
    assert redact(KEY) == "[key]"


@pytest.mark.parametrize("name", ["MY_PROVIDER_API_KEY", "hub_token", "Some_Password", "VERTEX_CREDENTIALS"])
def test_other_keys_of_the_environment_are_redacted_too(monkeypatch, name):
    monkeypatch.setenv(name, KEY)
    assert redact(f"no {KEY}!") == "no [key]!"
    assert not has_key(KEY)  # a reply with it is a reply


def random_texts():
    """Return texts of up to 39 random characters and one of 500, the same each time."""
    draw = random.Random(7)
    characters = string.printable + "éß日本\u200b\\%&=\"' x EMPTY"
    return ["".join(draw.choices(characters, k=length)) for length in (*range(40), 500)]


@pytest.mark.parametrize("key", [KEY, "x", "EMPTY", "a" * (MIN_LENGTH - 1)])
def test_text_without_the_key_is_not_changed(monkeypatch, key):
    """Also if the key is too short to be one, such as the word that a local server accepts."""
    monkeypatch.setenv("OPENAI_API_KEY", key)
    for text in random_texts():
        assert redact(text) == text
        assert not has_key(text)


def test_without_a_key_no_text_is_changed():
    for text in random_texts():
        assert redact(text) == text
        assert not has_key(text)


@pytest.mark.parametrize("key", ["a b", "é", "a\x01b"])
def test_a_key_that_cannot_be_sent_is_refused_without_showing_it(monkeypatch, key):
    monkeypatch.setenv("OPENAI_API_KEY", key)
    with pytest.raises(ArgumentError, match="OPENAI_API_KEY") as caught:
        key_from_environment()
    assert key not in str(caught.value)


@pytest.fixture
def logger(monkeypatch, caplog):
    """Return a logger of the HTTP client whose records are redacted, with a key in the environment."""
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    logger = logging.getLogger("httpx.test")
    redact_logs()
    caplog.set_level(logging.DEBUG)
    return logger


def written(caplog):
    """Return the log as a handler writes it."""
    return "\n".join(logging.Formatter("%(message)s").format(record) for record in caplog.records)


def test_a_key_in_the_arguments_of_a_log_record_is_redacted(logger, caplog):
    logger.debug("sent %s to %s", {"authorization": f"Bearer {KEY}"}, "x")
    assert "Bearer [key]" in written(caplog)
    assert KEY not in written(caplog)


def test_a_key_in_the_exception_of_a_log_record_is_redacted(logger, caplog):
    try:
        raise ValueError(KEY)
    except ValueError:
        logger.exception("failed")
    assert "ValueError: [key]" in written(caplog)
    assert KEY not in written(caplog)


def test_a_log_record_without_a_key_is_not_changed(logger, caplog):
    logger.debug("fine %s", 1)
    assert written(caplog) == "fine 1"


def test_a_log_record_that_cannot_be_formatted_is_left_to_logging(logger):
    """The module ``logging`` says so when the record is written."""
    wrong = logging.LogRecord("httpx.test", 10, "", 0, "%d", ("no number",), None)
    assert logger.filter(wrong)


def test_a_logger_has_one_filter_however_often_logs_are_to_be_redacted(logger):
    redact_logs()
    assert len(logger.filters) == 1


def test_a_key_that_begins_with_another_is_removed_as_a_whole(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "0123456789abcdef")
    monkeypatch.setenv("MY_API_KEY", "0123456789abcdef-proj-7")
    assert redact("key 0123456789abcdef-proj-7!") == "key [key]!"
