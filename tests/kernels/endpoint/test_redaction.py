"""The key is found in text in whatever form it is written; what is no key stays as it is."""

from __future__ import annotations

import base64
import codecs
import contextlib
import html
import json
import logging
import pickle
import quopri
import random
import re
import string
import time
import urllib.parse
import warnings

import pytest
from hypothesis import given
from hypothesis import strategies as st

from StaICC.kernels.endpoint.redaction import MIN_LENGTH, LogFilter, Secret, redact, redacting

KEY = "sk-Te5t/w+K=0_9.zQ~8"
ODD = "a\"b\\c'd&e<f>g%41h{i}j:k,l/m+n=o?p#q"

WRITTEN = {
    "verbatim": lambda key: key,
    "upper case": str.upper,
    "JSON": json.dumps,
    "JSON, escaped slash": lambda key: json.dumps(key).replace("/", "\\/"),
    "JSON, each character": lambda key: "".join(f"\\u{ord(c):04x}" for c in key),
    "JSON, upper-case digits": lambda key: "".join(f"\\u{ord(c):04X}" for c in key),
    "JSON in JSON": lambda key: json.dumps(json.dumps({"a": key})),
    "repr": repr,
    "repr of bytes": lambda key: repr(key.encode()),
    "hexadecimal escapes": lambda key: "".join(f"\\x{ord(c):02x}" for c in key),
    "octal escapes": lambda key: "".join(f"\\{ord(c):03o}" for c in key),
    "braces": lambda key: "".join(f"\\u{{{ord(c):x}}}" for c in key),
    "URL": lambda key: urllib.parse.quote(key, safe=""),
    "URL, each character": lambda key: "".join(f"%{ord(c):02x}" for c in key),
    "URL in URL": lambda key: urllib.parse.quote(urllib.parse.quote(key, safe=""), safe=""),
    "HTML": html.escape,
    "HTML, decimal": lambda key: "".join(f"&#{ord(c)};" for c in key),
    "HTML, hexadecimal": lambda key: "".join(f"&#x{ord(c):X};" for c in key),
    "HTML in HTML": lambda key: html.escape(html.escape(key)),
    "HTML in JSON in URL": lambda key: urllib.parse.quote(json.dumps(html.escape(key))),
    "base64": lambda key: base64.b64encode(key.encode()).decode(),
    "base64 of Bearer": lambda key: base64.b64encode(f"Bearer {key}".encode()).decode(),
    "base64 of user": lambda key: base64.b64encode(f"user:{key}".encode()).decode(),
    "URL-safe base64 of a header": lambda key: base64.urlsafe_b64encode(f'{{"key": "{key}"}}'.encode()).decode(),
    "base64 in URL": lambda key: urllib.parse.quote(base64.b64encode(key.encode()).decode(), safe=""),
    "base64 of base64": lambda key: base64.b64encode(base64.b64encode(key.encode())).decode(),
    "hexadecimal": lambda key: key.encode().hex(),
    "hexadecimal with colons": lambda key: key.encode().hex(":").upper(),
    "codes": lambda key: str(list(key.encode())),
    "quoted-printable": lambda key: quopri.encodestring(key.encode(), quotetabs=True).decode(),
    "UTF-16 read as UTF-8": lambda key: key.encode("utf-16-le").decode(),
    "broken over lines": lambda key: "\n   ".join(key[i : i + 7] for i in range(0, len(key), 7)),
}


def pieces(key: str, text: str, length: int = 8) -> list[str]:
    return [key[i : i + length] for i in range(len(key) - length + 1) if key[i : i + length].lower() in text.lower()]


def decodings(text: str) -> set[str]:
    """The oracle: all that standard decoders make of a text and of the runs of base64 and hexadecimal in it."""
    found, new = {text}, {text}
    for _ in range(4):
        made = set()
        for one in new:
            made |= {html.unescape(one), urllib.parse.unquote(one), one.replace("\\/", "/").replace('\\"', '"')}
            made.add(re.sub(r"\\u([0-9a-fA-F]{4})", lambda match: chr(int(match[1], 16)), one))
            with contextlib.suppress(ValueError), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                made.add(codecs.decode(one.encode("latin-1", "replace"), "unicode_escape"))
        new = made - found
        found |= made
        if len(found) > 200:
            break
    for one in list(found):
        for run in re.findall(r"[A-Za-z0-9+/_-]{16,}", one):
            for start in range(4):
                part = run[start:].replace("-", "+").replace("_", "/")
                data = base64.b64decode(part[: len(part) // 4 * 4])
                found.add(data.decode("latin-1"))
            if re.fullmatch("(?:[0-9a-fA-F]{2})+", run):
                found.add(bytes.fromhex(run).decode("latin-1"))
    return found


def leaks(key: str, text: str) -> bool:
    return any(pieces(key, one) for one in decodings(text))


@pytest.mark.parametrize("key", [KEY, ODD, "0123456789ab", "nrtfbvnrtfbv", "&amp;%20\\n=41\\u0041"], ids=range(5))
@pytest.mark.parametrize("form", WRITTEN)
def test_every_form_of_a_key_is_redacted(form, key):
    written = WRITTEN[form](key)
    shown = Secret(key).redact(f"The key <{written}> is wrong.")
    assert "[key]" in shown
    assert shown.startswith("The key <")
    assert shown.endswith("> is wrong.")
    assert not leaks(key, shown)
    assert (
        leaks(key, written)
        or form
        in {
            "octal escapes",
            "braces",
            "codes",
            "quoted-printable",
            "UTF-16 read as UTF-8",
            "broken over lines",
            "hexadecimal with colons",
            "base64 of base64",
        }
        or key != KEY
    )  # the oracle can fail


ESCAPES = [
    json.dumps,
    repr,
    html.escape,
    lambda text: urllib.parse.quote(text, safe=""),
    lambda text: urllib.parse.quote(text),
    lambda text: "".join(f"\\u{ord(c):04x}" for c in text),
    lambda text: "".join(f"&#{ord(c)};" for c in text),
    str.upper,
]


@given(
    st.text("".join(chr(code) for code in range(33, 127)), min_size=MIN_LENGTH, max_size=60),
    st.lists(st.sampled_from(ESCAPES), max_size=2),
)
def test_random_keys_under_escapes_of_escapes(key, escapes):
    written = key
    for escape in escapes:
        written = escape(written)
    assert "[key]" in Secret(key).redact(f"a {written} b")


@given(
    st.text(string.ascii_letters + string.digits, min_size=MIN_LENGTH, max_size=40),
    st.binary(max_size=9),
    st.binary(max_size=9),
)
def test_base64_of_anything_around_the_key(key, before, after):
    code = base64.b64encode(before + key.encode() + after).decode()
    shown = Secret(key).redact(f"got {code} here")
    assert shown == "got [key] here"


def test_random_text_is_not_changed():
    chance = random.Random(7)
    alphabet = string.printable + "éß日本\u200b\\%&=\"'"
    for length in (*range(40), 500, 3000):
        text = "".join(chance.choices(alphabet, k=length))
        assert Secret(KEY).redact(text) == text
        assert Secret("").redact(text) == text


MESSAGES = [
    "status 401: x of 1 is EMPTY, 11 xx, foo",
    "the reply 'food is 1' begins with no label; expected one of 'foo', 'x', 'EMPTY'",
    "retry 1 of 1 after 1 s; max_tokens 1; x-request-id: 1",
    "[1, 1, 1] {'x': 1}",
]


@pytest.mark.parametrize("key", ["x", "1", "EMPTY", "foo", "[", '"', "none", "a" * (MIN_LENGTH - 1)])
def test_a_short_key_is_redacted_as_a_credential_only(key):
    secret = Secret(key)
    for message in MESSAGES:
        assert secret.redact(message) == message
    basic = base64.b64encode(f"user:{key}".encode()).decode()
    for before, credential in [
        ("Incorrect API key provided: ", key),
        ("Authorization: Bearer ", key),
        ("{'authorization': '", f"Bearer {key}"),
        ("Authorization: Basic ", basic),
        ("invalid token '", key),
        ("http://user:", key + "@host/v1"),
        ("/v1?api_key=", key + "&a=b"),
        ("code ", base64.b64encode(f"Bearer {key}".encode()).decode()),
        ("\\u0022api-key\\u0022: \\u0022", key),
    ]:
        shown = secret.redact(before + credential + " .")
        assert "[key]" in shown, shown
        assert shown.startswith(before[:4])
        assert not shown.endswith(credential + " .")


def test_a_long_text_is_searched_in_bounded_time():
    for text in (
        "\\" * 200_000,
        "%25" * 70_000,
        "&amp;" * 40_000,
        "Bearer " * 30_000,
        "authorization" * 10_000,
        "key is was " * 20_000,
        "A" * 200_000,
    ):
        for key in (KEY, "x", "EMPTY"):
            start = time.process_time()
            Secret(key).redact(text)
            assert time.process_time() - start < 5


def test_a_secret_shows_itself_nowhere():
    secret = Secret(KEY)
    assert KEY not in repr(secret) + str(secret)
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        with pytest.raises(TypeError, match="an API key is not pickled"):
            pickle.dumps(secret, protocol)


def test_redact_uses_the_key_of_its_context():
    assert redact(KEY) == KEY
    with redacting(Secret(KEY)):
        assert redact(KEY) == "[key]"
    assert redact(KEY) == KEY


def test_log_records_are_redacted(caplog):
    logger = logging.getLogger("httpx.test")
    remove = LogFilter(Secret(KEY)).install()
    with caplog.at_level(logging.DEBUG):
        logger.debug("sent %s to %s", {"authorization": f"Bearer {KEY}"}, "x")
        try:
            raise ValueError(KEY)
        except ValueError:
            logger.exception("failed")
        logger.debug("fine %s", 1)
    wrong = logging.LogRecord("httpx.test", 10, "", 0, "%d", ("no number",), None)
    assert logger.filter(wrong)  # the record is wrong; logging says so when it is written
    remove()
    assert not logger.filters
    formatted = [logging.Formatter("%(message)s").format(record) for record in caplog.records]
    assert "fine 1" in formatted
    assert KEY not in "".join(formatted)
    assert "ValueError: [key]" in "".join(formatted)
