"""The key changes no score, and is in no file, message or log, however a server or the client repeats it."""

from __future__ import annotations

import logging
import os
import pickle
import traceback
import urllib.parse

import pytest

pytest.importorskip("openai")

import endpoint_server as wrong
from test_redaction import leaks

from StaICC import Normal
from StaICC.errors import ArgumentError, EditionError, OutputError
from StaICC.kernels.server.endpoint import EndpointKernel
from StaICC.kernels.server.transport import EndpointError

LABELS = ["negative", "positive", "a"]
PROMPTS = ["sentence: a film , good or not sentiment: ", "1 x EMPTY: "]
SCORINGS = ("prompt-logprobs", "top-logprobs", "text")
KEY = "sk-Te5t/w+K=0_9.zQ~8"


def kernel_for(server, scoring, **options):
    more = {"unlisted": "bound"} if scoring == "top-logprobs" else {}
    return EndpointKernel(server.url, wrong.MODEL, scoring=scoring, backoff=0.01, **more, **options)


def chunked(handler, answer):
    """A body that splits the key over two chunks."""
    handler.send_response(500)
    handler.send_header("content-type", "text/plain")
    handler.send_header("transfer-encoding", "chunked")
    handler.end_headers()
    for part in (b"your key " + KEY[:9].encode(), KEY[9:].encode() + b" is wrong"):
        handler.wfile.write(b"%x\r\n%s\r\n" % (len(part), part))
        handler.wfile.flush()
    handler.wfile.write(b"0\r\n\r\n")


def raw(*lines: str):
    """No HTTP: the client's exception repeats it."""

    def answer(handler, _):
        handler.wfile.write("\r\n".join(lines).encode() + b"\r\n\r\n")
        handler.wfile.flush()
        handler.close_connection = True

    return answer


def spoken(text):
    """The model's reply is this text, in each of the ways in which a scoring reads it."""

    def change(answer):
        choice = answer["choices"][0]
        choice["text"] = text
        if choice["logprobs"]:
            top = {text: -0.5, "zzz": -1.5, "yyy": -3.0}
            choice["logprobs"] = {"tokens": [text], "token_logprobs": [-0.5], "top_logprobs": [top]}

    return wrong.changed(change)


QUOTED = urllib.parse.quote(KEY, safe="")
LONG = "x" * 140

ECHOES = {
    "401 at the end of what is shown": wrong.status(401, body={"error": {"message": LONG + KEY}}),
    "404 with the URL": wrong.status(404, body=f"no /v1?api_key={QUOTED}".encode(), kind="text/plain"),
    "302 to a URL": wrong.status(302, [("location", f"http://h/{QUOTED}/x?key={QUOTED}")]),
    "200 with HTML": wrong.status(200, body=f"<html>{KEY}</html>".encode(), kind="text/html"),
    "500 in chunks": chunked,
    "500 as the code": wrong.status(500, body={"error": {"code": KEY, "message": KEY}}),
    "200 with an error": wrong.status(200, body={"error": {"headers": {"authorization": f"Bearer {KEY}"}}}),
    "200 with cut JSON": wrong.status(200, body=f'{{"choices": "{KEY}'.encode()),
    "an exception of the client, status line": raw(f"HTTP/1.1 {KEY}"),
    "an exception of the client, header": raw("HTTP/1.1 200 OK", f"bad header {KEY}\x00"),
    "the model's name": wrong.changed(lambda answer: answer.update(model=KEY)),
    "the reply": spoken(f"Your key is {KEY}"),
    "the reason of a filter": wrong.changed(
        lambda answer: answer["choices"][0].update(finish_reason=KEY, text=None, logprobs=None)
    ),
    "headers of the response": wrong.status(500, [("x-debug", f"Bearer {KEY}"), ("retry-after", KEY)]),
}


def outcome_of(function):
    """The error of a call, as a user's program sees it; ``None`` if it has none (not every way stops generation)."""
    try:
        function(PROMPTS[0], LABELS) if isinstance(function, EndpointKernel) else function(PROMPTS[:1])
    except OutputError as error:
        return error
    return None


@pytest.mark.parametrize("way", ECHOES)
def test_a_long_key_is_in_no_file_message_or_log(server, monkeypatch, caplog, tmp_path, way):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    said = []
    server.always = ECHOES[way]
    with caplog.at_level(logging.DEBUG):
        for scoring in SCORINGS:
            kernel = kernel_for(server, scoring, retries=1, timeout=5)
            said += [repr(kernel), str(kernel.identity()), str(vars(kernel)), pickle.dumps(kernel).decode("latin-1")]
            progress = []
            server.wrong = [None]  # a run may ask first which edition is served
            try:
                result = Normal(datasets=["mini"], limit=2, unparsed="excluded")(
                    kernel, store=str(tmp_path / f"{scoring}.sqlite"), on_error="collect", progress=progress.append
                )
            except OutputError as error:  # what every query would meet
                said.append("".join(traceback.format_exception(error)))
            else:
                assert [failure.reason for failure in result.details["mini"].failures]
                result.save(tmp_path / f"{scoring}.json")
                said.append(str(result))
            said += map(str, progress)
            for error in filter(None, [outcome_of(kernel), outcome_of(kernel.generate)]):
                assert (error.__cause__, error.__context__) == (None, None)
                said += [repr(error), "".join(traceback.format_exception(error)), pickle.dumps(error).decode("latin-1")]
            said += [*kernel.editions, str(kernel.usage)]
            kernel.close()
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(files) >= 3
    said += [path.read_bytes().decode("latin-1") for path in files]
    said += [logging.Formatter().format(record) for record in caplog.records]
    assert len(caplog.records) > 10
    assert server.headers[0]["authorization"] == f"Bearer {KEY}"
    if "headers" not in way:
        assert any("[key]" in text for text in said), f"got {said}"
    for text in said:
        for line in text.splitlines():
            assert not leaks(KEY, line), line


@pytest.mark.parametrize("form", [KEY, QUOTED])
def test_a_generated_text_that_holds_the_key_is_an_error_and_not_stored(server, monkeypatch, form):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    kernel = kernel_for(server, "text")
    server.always = spoken(f"Your key: {form}")
    with pytest.raises(EndpointError, match=r"the reply holds the key from OPENAI_API_KEY.*'Your key: \[key\]'"):
        kernel.generate(PROMPTS[:1])
    kernel.close()


def test_an_edition_that_holds_the_key_is_recorded_without_it(server, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    kernel = kernel_for(server, "text")
    server.always = wrong.changed(lambda answer: answer.update(system_fingerprint=f"fp {KEY}"))
    assert kernel.pin_edition() == "model 'words'; system_fingerprint 'fp [key]'"
    assert kernel.generate(PROMPTS)
    assert not leaks(KEY, pickle.dumps(kernel).decode("latin-1") + str(vars(kernel)))
    server.always = wrong.changed(lambda answer: answer.update(system_fingerprint="fp"))
    with pytest.raises(EditionError, match=r"from model 'words'; system_fingerprint 'fp \[key\]' to"):
        kernel.generate(PROMPTS[:1])
    kernel.close()


@pytest.mark.parametrize("name", ["base_url", "model", "served_model", "system"])
def test_options_that_hold_the_key_are_refused(monkeypatch, name):
    key = "sk-0123456789abcdef"
    monkeypatch.setenv("OPENAI_API_KEY", key)
    options = {"base_url": "http://host/v1", "model": "m", "api": "chat", "scoring": "text"}
    with pytest.raises(ArgumentError, match=f"{name} holds the key from OPENAI_API_KEY") as caught:
        EndpointKernel(**{**options, name: f"http://host/{key}"})
    assert not leaks(key, str(caught.value))


def test_a_worker_reads_the_key_itself(server, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    kernel = kernel_for(server, "text")
    kernel.generate(PROMPTS)
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        data = pickle.dumps(kernel, protocol)
        assert not leaks(KEY, data.decode("latin-1"))
    monkeypatch.setitem(os.environ, "OPENAI_API_KEY", "other")
    copy = pickle.loads(data)
    server.headers.clear()
    copy.generate(PROMPTS[:1])
    assert server.headers[0]["authorization"] == "Bearer other"
