"""A server that speaks OpenAI's protocol with a small model of its own, and answers wrongly on request.

The model is a table of words: a text is split into words with the space before them, and the log-probability of a word
after a text is drawn from a digest of both. So a test can compute every right answer by itself.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import re
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

WORDS = [
    *(" negative", " positive", "negative", "positive", " pos", "pos", "itive"),
    *(" very", " a", " the", ".", ",", " good", "\n"),
]
MODEL = "words"


def split(text: str) -> list[str]:
    """Return the words of a text, each with the space before it: the tokens of the model."""
    return re.findall(r" ?[^\s.,]+|[.,]|\s", text)


def distribution(before: str) -> dict[str, float]:
    """Log-probabilities of the next word; together they are 0.9, the rest is for words that are not in the table."""
    weights = {word: math.exp(hashlib.sha256(f"{before}|{word}".encode()).digest()[0] / 40) for word in WORDS}
    total = sum(weights.values()) / 0.9
    return {word: math.log(weight / total) for word, weight in weights.items()}


def log_probability(before: str, word: str) -> float:
    """Return the log-probability of a word after a text; words that are not in the table have at most -10."""
    digest = hashlib.sha256(f"{before}|{word}|rare".encode()).digest()
    return distribution(before).get(word, -10 - digest[0] / 50)


def best(before: str, n: int) -> dict[str, float]:
    """Return the most probable next words with their log-probabilities, best first."""
    return dict(sorted(distribution(before).items(), key=lambda item: -item[1])[:n])


def joint(prompt: str, labels: list[str]) -> list[float]:
    """The oracle: for each label, the log-probability of its words after those that all labels have as prompt."""
    words_of_labels = [split(prompt + label) for label in labels]
    n_shared = n_words_of_prompt(words_of_labels, prompt)
    scores = []
    for words in words_of_labels:
        log_probabilities = []
        for index in range(n_shared, len(words)):
            text_before = "".join(words[:index])
            log_probabilities.append(log_probability(text_before, words[index]))
        scores.append(math.fsum(log_probabilities))
    return scores


def n_words_of_prompt(words_of_labels: list[list[str]], prompt: str) -> int:
    """Return how many first words all labels share and the prompt contains; a word may go on behind the prompt."""
    n_shared = 0
    text = ""
    for words_in_place in zip(*words_of_labels, strict=False):
        text += words_in_place[0]
        if len(set(words_in_place)) > 1 or len(text) > len(prompt):
            break
        n_shared += 1
    return n_shared


class Server:
    """A server on a port of this machine.

    Attributes:
        next_answers: How the next requests are answered, one after the other (``None``: rightly).
        usual_answer: How the requests after these are answered (``None``: rightly).
        requests: The bodies of all requests, with their ``path``.
        headers: The headers of all requests, with names in lower case.
        delay: Seconds before each answer.
    """

    def __init__(self) -> None:
        self.requests: list[dict] = []
        self.headers: list[dict[str, str]] = []
        self.next_answers: list = []
        self.usual_answer: Any = None
        self.delay = 0.0
        self._lock = threading.Lock()
        self._server = QuietServer(("127.0.0.1", 0), Handler)
        self._server.endpoint = self
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/v1"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()

    def record(self, path: str, headers: dict[str, str], body: dict) -> Any:
        """Record a request, and return how it is to be answered."""
        with self._lock:
            self.requests.append({**body, "path": path})
            self.headers.append(headers)
            if self.next_answers:
                return self.next_answers.pop(0)
            return self.usual_answer

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


class QuietServer(ThreadingHTTPServer):
    """Answers each request in a thread, and prints nothing when a client goes away."""

    daemon_threads = True
    request_queue_size = 128
    endpoint: Server

    def handle_error(self, request, client_address):
        pass


class Handler(BaseHTTPRequestHandler):
    """Answers requests as the endpoint of its server."""

    server: QuietServer
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # headers and body in one piece
    disable_nagle_algorithm = True

    def log_message(self, *arguments):
        pass

    def do_POST(self):
        endpoint = self.server.endpoint
        self.body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        headers = {name.lower(): value for name, value in self.headers.items()}
        answer = endpoint.record(self.path, headers, self.body)
        if endpoint.delay:
            time.sleep(endpoint.delay)
        right_answer = chat(self.body) if "chat" in self.path else completion(self.body)
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            if answer is None:
                send(self, right_answer)
            else:
                answer(self, right_answer)


def send(handler, answer, status=200, headers=(), kind="application/json"):
    """Send an answer: bytes as they are, all else as JSON."""
    data = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
    handler.send_response(status)
    handler.send_header("content-type", kind)
    handler.send_header("content-length", str(len(data)))
    for name, value in headers:
        handler.send_header(name, value)
    handler.end_headers()
    handler.wfile.write(data)


def answer_with(kind: str, body: dict, prompt: str, **choice: object) -> dict:
    """Return an answer of OpenAI's protocol with one choice, and the words of the prompt as its usage."""
    words_read = len(split(prompt))
    return {
        "id": "c",
        "object": kind,
        "created": 0,
        "model": body["model"],
        "choices": [{"index": 0, **choice}],
        "usage": {"prompt_tokens": words_read, "completion_tokens": 1, "total_tokens": words_read + 1},
    }


def completion(body: dict) -> dict:
    """Answer a request of completions: the most probable next word, and with ``echo`` the prompt before it."""
    prompt = body["prompt"]
    (next_word,) = best(prompt, 1)
    if body.get("echo"):
        words = [*split(prompt), next_word]
        text_before_words = ""
    else:
        words = [next_word]
        text_before_words = prompt

    logprobs = None
    if body.get("logprobs") is not None:
        logprobs = logprobs_of_words(words, text_before_words, n_best=body["logprobs"])
    finish_reason = "length" if body.get("max_tokens") == 1 else "stop"
    return answer_with(
        "text_completion", body, prompt, text="".join(words), finish_reason=finish_reason, logprobs=logprobs
    )


def logprobs_of_words(words: list[str], text_before_words: str, n_best: int) -> dict:
    """Return the field ``logprobs`` of a completion: log-probabilities of its words, and the best words in each place.

    The first word of a text has nothing before it, and thus no log-probability.
    """
    values: list[float | None] = []
    offsets = []
    best_words = []
    before = text_before_words
    for word in words:
        values.append(log_probability(before, word) if before else None)
        offsets.append(len(before))
        best_words.append(best(before, n_best))
        before += word
    return {"tokens": words, "token_logprobs": values, "text_offset": offsets, "top_logprobs": best_words}


def chat(body: dict) -> dict:
    """Answer a request of the chat: the most probable next word after all messages."""
    prompt = "\n".join(message["content"] for message in body["messages"])
    next_words = [{"token": word, "logprob": value, "bytes": None} for word, value in best(prompt, 20).items()]
    reply = next_words[0]
    logprobs = None
    if body.get("logprobs"):
        token = {**reply, "top_logprobs": next_words[: body.get("top_logprobs", 0)]}
        logprobs = {"content": [token], "refusal": None}
    message = {"role": "assistant", "content": reply["token"]}
    return answer_with("chat.completion", body, prompt, message=message, finish_reason="stop", logprobs=logprobs)


# -- ways to answer a request -----------------------------------------------------------------------------------------


def status(code, headers=(), body=None, kind="application/json"):
    """Answer with a status and a body, by default that of an error."""
    if body is None:
        body = {"error": {"message": "failed on request", "code": None}}
    return lambda handler, answer: send(handler, body, code, headers, kind)


def changed_body(change):
    """Answer rightly, but with a changed body: ``change`` changes it in place, or returns a new one."""

    def answer_request(handler, right_answer):
        replacement = change(right_answer)
        send(handler, right_answer if replacement is None else replacement)

    return answer_request


def reply_with(text_of_request, reason="stop"):
    """Reply with the text (``None``: no text) that a function returns for the request, in the form of its interface."""

    def answer_request(handler, right_answer):
        text = text_of_request(handler.body)
        choice = {"index": 0, "finish_reason": reason, "logprobs": None}
        if "messages" in handler.body:
            choice["message"] = {"role": "assistant", "content": text}
        else:
            choice["text"] = text
        send(handler, {**right_answer, "choices": [choice]})

    return answer_request


def no_answer(handler, answer):
    """Close the connection without an answer."""
    handler.close_connection = True
    handler.connection.shutdown(2)


def half_a_body(handler, answer):
    """Close the connection after half of the body."""
    data = json.dumps(answer).encode()
    handler.send_response(200)
    handler.send_header("content-type", "application/json")
    handler.send_header("content-length", str(len(data)))
    handler.end_headers()
    handler.wfile.write(data[: len(data) // 2])
    handler.wfile.flush()
    handler.close_connection = True
    handler.connection.shutdown(2)


def endless_body(code=200, seconds=20.0, part=b" ", pause=0.05):
    """A body that never ends, byte by byte: each read succeeds soon, the whole never does."""

    def answer_request(handler, right_answer):
        handler.send_response(code)
        handler.send_header("content-type", "application/json")
        handler.send_header("transfer-encoding", "chunked")
        handler.end_headers()
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            handler.wfile.write(b"%x\r\n%s\r\n" % (len(part), part))
            handler.wfile.flush()
            time.sleep(pause)

    return answer_request
