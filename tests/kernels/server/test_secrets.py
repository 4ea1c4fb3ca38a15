"""The key changes no score, and is in no file, message or log, however a server or the client repeats it."""

from __future__ import annotations

import logging
import pickle
import traceback
import urllib.parse

import pytest

pytest.importorskip("openai")

import endpoint_server
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
    """Return a kernel for the server of the test that retries at once."""
    if scoring == "top-logprobs":
        options["unlisted"] = "bound"
    return EndpointKernel(server.url, endpoint_server.MODEL, scoring=scoring, backoff=0.01, **options)


def key_in_two_chunks(handler, answer):
    """Answer with an error whose text has the key, half of it in one chunk and half in the next."""
    handler.send_response(500)
    handler.send_header("content-type", "text/plain")
    handler.send_header("transfer-encoding", "chunked")
    handler.end_headers()
    for chunk in (b"your key " + KEY[:9].encode(), KEY[9:].encode() + b" is wrong"):
        handler.wfile.write(b"%x\r\n%s\r\n" % (len(chunk), chunk))
        handler.wfile.flush()
    handler.wfile.write(b"0\r\n\r\n")


def malformed_response(*lines: str):
    """Answer with these lines, which are not valid HTTP: the client raises an exception that repeats them."""

    def answer(handler, _):
        handler.wfile.write("\r\n".join(lines).encode() + b"\r\n\r\n")
        handler.wfile.flush()
        handler.close_connection = True

    return answer


def model_replies(text):
    """Answer with this text as the model's reply and, for requests of log-probabilities, as its most probable token."""

    def change(answer):
        choice = answer["choices"][0]
        choice["text"] = text
        if choice["logprobs"]:
            top = {text: -0.5, "zzz": -1.5, "yyy": -3.0}
            choice["logprobs"] = {"tokens": [text], "token_logprobs": [-0.5], "top_logprobs": [top]}

    return endpoint_server.changed_body(change)


QUOTED = urllib.parse.quote(KEY, safe="")
LONG = "x" * 140

ECHOES = {
    "401 at the end of what is shown": endpoint_server.status(401, body={"error": {"message": LONG + KEY}}),
    "404 with the URL": endpoint_server.status(404, body=f"no /v1?api_key={QUOTED}".encode(), kind="text/plain"),
    "302 to a URL": endpoint_server.status(302, [("location", f"http://h/{QUOTED}/x?key={QUOTED}")]),
    "200 with HTML": endpoint_server.status(200, body=f"<html>{KEY}</html>".encode(), kind="text/html"),
    "500 in chunks": key_in_two_chunks,
    "500 as the code": endpoint_server.status(500, body={"error": {"code": KEY, "message": KEY}}),
    "200 with an error": endpoint_server.status(200, body={"error": {"headers": {"authorization": f"Bearer {KEY}"}}}),
    "200 with cut JSON": endpoint_server.status(200, body=f'{{"choices": "{KEY}'.encode()),
    "an exception of the client, status line": malformed_response(f"HTTP/1.1 {KEY}"),
    "an exception of the client, header": malformed_response("HTTP/1.1 200 OK", f"bad header {KEY}\x00"),
    "the model's name": endpoint_server.changed_body(lambda answer: answer.update(model=KEY)),
    "the reply": model_replies(f"Your key is {KEY}"),
    "the reason of a filter": endpoint_server.changed_body(
        lambda answer: answer["choices"][0].update(finish_reason=KEY, text=None, logprobs=None)
    ),
    "headers of the response": endpoint_server.status(500, [("x-debug", f"Bearer {KEY}"), ("retry-after", KEY)]),
}


def texts_of_kernel(kernel):
    """Return the texts in which a user may see a kernel, and its pickle."""
    return [repr(kernel), str(kernel.identity()), str(vars(kernel)), pickle.dumps(kernel).decode("latin-1")]


def texts_of_run(kernel, folder):
    """Run two test examples with a store in a folder, save the result there, and return all that the run shows."""
    benchmark = Normal(datasets=["mini"], limit=2, unparsed="excluded")
    progress = []
    try:
        result = benchmark(kernel, store=folder / "run.sqlite", on_error="collect", progress=progress.append)
    except OutputError as error:  # every query would meet this error
        return [*map(str, progress), "".join(traceback.format_exception(error))]

    assert [failure.reason for failure in result.details["mini"].failures]
    result.save(folder / "result.json")
    return [*map(str, progress), str(result)]


def texts_of_error(function, *arguments):
    """Call a function and return the texts in which a user may see its error: none if it succeeds."""
    try:
        function(*arguments)
    except OutputError as caught:
        error = caught
    else:
        return []
    assert (error.__cause__, error.__context__) == (None, None)  # the client's exception may have the key
    return [repr(error), "".join(traceback.format_exception(error)), pickle.dumps(error).decode("latin-1")]


def texts_of_files(folder):
    """Return the contents of all files in a folder."""
    return [path.read_bytes().decode("latin-1") for path in folder.rglob("*") if path.is_file()]


@pytest.mark.parametrize("scoring", SCORINGS)
@pytest.mark.parametrize("echo", ECHOES)
def test_a_long_key_is_never_shown_or_saved(server, monkeypatch, caplog, tmp_path, echo, scoring):
    """The server repeats the key that it got, in each way of ``ECHOES``; it is shown as ``[key]`` or not at all."""
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    caplog.set_level(logging.DEBUG)
    server.next_answers = [None]  # the first request, which may ask which edition is served, succeeds
    server.usual_answer = ECHOES[echo]
    kernel = kernel_for(server, scoring, retries=1, timeout=5)

    shown = texts_of_kernel(kernel)
    shown += texts_of_run(kernel, tmp_path)
    shown += texts_of_error(kernel, PROMPTS[0], LABELS)
    shown += texts_of_error(kernel.generate, PROMPTS[:1])
    shown += [*kernel.editions, str(kernel.usage)]
    kernel.close()
    files = texts_of_files(tmp_path)
    logged = [logging.Formatter().format(record) for record in caplog.records]

    assert server.headers[0]["authorization"] == f"Bearer {KEY}"
    assert len(files) >= 1
    assert len(logged) >= 4
    all_lines = "\n".join(shown + files + logged).splitlines()
    lines_with_the_key = [line for line in all_lines if leaks(KEY, line)]
    assert lines_with_the_key == []
    if echo != "headers of the response":  # of which nothing is shown
        assert "[key]" in "".join(all_lines)


@pytest.mark.parametrize("form", [KEY, QUOTED])
def test_a_generated_text_that_holds_the_key_is_an_error_and_not_stored(server, monkeypatch, form):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    kernel = kernel_for(server, "text")
    server.usual_answer = model_replies(f"Your key: {form}")
    with pytest.raises(EndpointError, match=r"the reply holds the key from OPENAI_API_KEY.*'Your key: \[key\]'"):
        kernel.generate(PROMPTS[:1])
    kernel.close()


@pytest.fixture
def kernel_of_edition_with_key(server, monkeypatch):
    """Return a kernel after its first prompt, to which the server answered under the edition ``fp`` and the key."""
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    server.usual_answer = endpoint_server.changed_body(lambda answer: answer.update(system_fingerprint=f"fp {KEY}"))
    kernel = kernel_for(server, "text")
    assert kernel.pin_edition() == "model 'words'; system_fingerprint 'fp [key]'"
    yield kernel
    kernel.close()


def test_an_edition_that_holds_the_key_is_recorded_without_it(kernel_of_edition_with_key):
    kernel_of_edition_with_key.generate(PROMPTS)
    assert not leaks(KEY, pickle.dumps(kernel_of_edition_with_key).decode("latin-1"))
    assert not leaks(KEY, str(vars(kernel_of_edition_with_key)))


def test_a_change_of_an_edition_that_holds_the_key_is_shown_without_it(server, kernel_of_edition_with_key):
    server.usual_answer = endpoint_server.changed_body(lambda answer: answer.update(system_fingerprint="fp"))
    with pytest.raises(EditionError, match=r"from model 'words'; system_fingerprint 'fp \[key\]' to"):
        kernel_of_edition_with_key.generate(PROMPTS)


@pytest.mark.parametrize("name", ["base_url", "model", "served_model", "system"])
def test_options_that_hold_the_key_are_refused(monkeypatch, name):
    key = "sk-0123456789abcdef"
    monkeypatch.setenv("OPENAI_API_KEY", key)
    options = {"base_url": "http://host/v1", "model": "m", "api": "chat", "scoring": "text"}
    with pytest.raises(ArgumentError, match=f"{name} holds the key from OPENAI_API_KEY") as caught:
        EndpointKernel(**{**options, name: f"http://host/{key}"})
    assert not leaks(key, str(caught.value))


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_pickled_kernel_has_no_key(server, monkeypatch, protocol):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    kernel = kernel_for(server, "text")
    kernel.generate(PROMPTS)  # reads the key
    pickled = pickle.dumps(kernel, protocol)
    kernel.close()
    assert not leaks(KEY, pickled.decode("latin-1"))


def test_an_unpickled_kernel_reads_the_key_from_its_own_environment(server, monkeypatch):
    """As in a worker process whose environment has another key."""
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    kernel = kernel_for(server, "text")
    kernel.generate(PROMPTS)
    copy = pickle.loads(pickle.dumps(kernel))
    monkeypatch.setenv("OPENAI_API_KEY", "other")
    copy.generate(PROMPTS[:1])
    assert server.headers[-1]["authorization"] == "Bearer other"
    kernel.close()
    copy.close()
