"""A small server of a deterministic model that counts the requests it answers, and fails at will.

``durability_server.py CALLS SECONDS FAULTS [PORT]`` prints its address, and appends a line to the file CALLS for each
reply that it sent without a fault. A share FAULTS of the requests gets status 500, in an order that is drawn with a
seed.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

LABELS = ("negative", "positive")
MODEL = "counted"


def reply_to(prompt: str) -> str:
    """Return the label that the model gives a prompt."""
    return LABELS[hashlib.sha256(prompt.encode()).digest()[0] % 2]


def mark_of(prompt: str) -> str:
    """Return a short name of a prompt."""
    return hashlib.sha256(prompt.encode()).hexdigest()[:12]


class CountingServer(ThreadingHTTPServer):
    """The server.

    Args:
        calls: The file of the answered requests.
        seconds: The time of each request.
        faults: The share of requests that fail.
        port: The port, such as that of a server that was killed; 0 for a free one.
    """

    daemon_threads = True
    request_queue_size = 256

    def __init__(self, calls: str, seconds: float, faults: float = 0.0, port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), Handler)
        self.calls = os.open(calls, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        self.seconds = seconds
        self.faults = faults
        self.drawn = random.Random(1)
        self.lock = threading.Lock()

    @property
    def url(self) -> str:
        """The address, as the kernel takes it."""
        return f"http://127.0.0.1:{self.server_address[1]}/v1"

    def fails_now(self) -> bool:
        """Draw whether a request fails."""
        with self.lock:
            return self.drawn.random() < self.faults

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients that were killed are no error."""


class Handler(BaseHTTPRequestHandler):
    """Answers requests for completions."""

    protocol_version = "HTTP/1.1"
    wbufsize = -1
    disable_nagle_algorithm = True
    server: CountingServer

    def log_message(self, *arguments: Any) -> None:
        """Log nothing."""

    def do_POST(self) -> None:
        """Reply with the label of the prompt, or with status 500."""
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        prompt = request["prompt"]
        time.sleep(self.server.seconds)
        if self.server.fails_now():
            self._send(500, {"error": {"message": "failed at random"}})
            return
        choice = {"index": 0, "text": reply_to(prompt), "finish_reason": "stop", "logprobs": None}
        usage = {"prompt_tokens": len(prompt.split()), "completion_tokens": 1}
        self._send(200, {"model": request["model"], "choices": [choice], "usage": usage})
        os.write(self.server.calls, f"{mark_of(prompt)}\n".encode())

    def _send(self, status: int, body: dict[str, Any]) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)
        self.wfile.flush()


if __name__ == "__main__":
    calls, seconds, faults, *port = sys.argv[1:]
    server = CountingServer(calls, float(seconds), float(faults), *map(int, port))
    print(server.url, flush=True)
    server.serve_forever(0.05)
