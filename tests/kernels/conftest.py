"""A server that answers wrongly on purpose, and a saved model."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from StaICC.kernels.server import transport
from tests.kernels.server import endpoint_server


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[endpoint_server.Server]:
    monkeypatch.setattr(transport, "_SENT_KEYS", set())
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    running = endpoint_server.Server()
    yield running
    running.close()


@pytest.fixture(scope="session")
def saved_model(make_model: Any, make_tokenizer: Any, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Saves a tiny random Llama with a tokenizer in a folder."""

    def save(**config: Any) -> Path:
        path = tmp_path_factory.mktemp("model")
        make_model("Llama", **config).save_pretrained(path)
        make_tokenizer().save_pretrained(path)
        return path

    return save
