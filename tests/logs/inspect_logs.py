"""Small logs as inspect_ai writes them, for tests."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any


def header(n_rows: int = 4, epochs: int = 1, **changes: Any) -> dict[str, Any]:
    """The header of a run of the task "capitals", whose scorer "match" grades with C and I."""
    values = {
        "version": 2,
        "status": "success",
        "eval": {
            "created": "2026-01-02T03:04:05+00:00",
            "task": "capitals",
            "task_version": 3,
            "dataset": {"name": "capitals", "samples": n_rows, "sample_ids": list(range(n_rows)), "shuffled": False},
            "model": "openai/small",
            "model_args": {"revision": "main", "api_key": "hidden"},
            "model_generate_config": {"temperature": 0.0},
            "config": {"epochs": epochs, "epochs_reducer": ["mean"]},
            "packages": {"inspect_ai": "0.3.285"},
            "scorers": [{"name": "match", "options": {"numeric": True}, "metrics": [{"name": "inspect_ai/accuracy"}]}],
        },
        "plan": {"steps": [{"solver": "generate", "params": {}}], "config": {"max_tokens": 8, "max_connections": 5}},
        "results": {"scores": []},
    }
    values.update(changes)
    return values


def sample(row: int | str, value: Any, epoch: int = 1, scorer: str = "match", **changes: Any) -> dict[str, Any]:
    """A sample with the value of one scorer."""
    question = f"What is the capital of country {row}?"
    values = {
        "id": row,
        "epoch": epoch,
        "input": question,
        "target": f"city {row}",
        "messages": [
            {"id": f"random-{value}-{epoch}", "role": "user", "content": question},
            {"id": "other", "role": "assistant", "content": f"city {value}"},
        ],
        "scores": {scorer: {"value": value, "answer": "city"}},
    }
    values.update(changes)
    return values


def result_of_scorer(scorer: str, name: str | None = None, reducer: str = "mean", **means: float) -> dict[str, Any]:
    """What the header says about a scorer: its metrics over all samples."""
    metrics = {metric: {"name": metric, "value": value} for metric, value in means.items()}
    return {"name": name or scorer, "scorer": scorer, "reducer": reducer, "metrics": metrics}


def write_archive(
    path: Path,
    samples: Iterable[Mapping[str, Any]],
    head: Mapping[str, Any] | None = None,
    members: Mapping[str, bytes] | None = None,
) -> Path:
    """Write a log as a ZIP archive.

    Args:
        path: The file.
        samples: Its samples.
        head: Its header.
        members: More members, or other ones of the same name.
    """
    contents: dict[str, bytes] = {"_journal/start.json": b"{}"}
    for values in samples:
        contents[f"samples/{values.get('id')}_epoch_{values.get('epoch')}.json"] = json.dumps(values).encode()
    contents["summaries.json"] = b"[]"
    contents["header.json"] = json.dumps(head if head is not None else header()).encode()
    contents.update(members or {})
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in contents.items():
            archive.writestr(name, content)
    return path


def write_json(path: Path, samples: Iterable[Mapping[str, Any]], head: Mapping[str, Any] | None = None) -> Path:
    """Write a log as one JSON file."""
    values = dict(head if head is not None else header())
    values["samples"] = list(samples)
    path.write_text(json.dumps(values))
    return path
