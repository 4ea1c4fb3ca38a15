"""Which files are logs of other harnesses: formats are recognised by the name or the beginning of a file."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from StaICC.datasets.table_files import format_suffix

HELM_SCORES = "per_instance_stats.json"
"""The name of the scores of HELM."""
EVERY_EVAL_EVER_SAMPLES = "_samples.jsonl"
"""How the names of samples of Every Eval Ever end."""
DATE_IN_NAME = re.compile(r"_([0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}-[0-9]{2}-[0-9]{2}(?:\.[0-9]+)?)$")
"""How the names of files of lm_eval end since version 0.4.3, before their suffix."""
TABLE_SUFFIXES = (".csv", ".tsv", ".jsonl", ".ndjson", ".parquet")
"""The formats of tables of scores, compressed with gzip or not."""

_BEGINNING = 4096
"""Bytes of a file from which its format is recognised."""
_LM_EVAL_RESULTS = re.compile(rb'\s*\{\s*"results"\s*:\s*\{')
"""How a file of results of lm_eval begins."""
_LM_EVAL_SAMPLE = re.compile(rb'\s*(?:\[\s*)?\{\s*"doc_id"\s*:')
"""How a file of samples of lm_eval begins: in JSON Lines, or in the JSON array of versions before 0.4.3."""
_INSPECT_LOG = re.compile(rb'\s*\{\s*(?:"version"\s*:\s*[^,]{1,20},\s*)?"status"\s*:')
"""How a log of inspect_ai in one JSON file begins."""
_EVERY_EVAL_EVER = re.compile(rb'\s*\{\s*"schema_version"\s*:\s*"0\.')
"""How files of Every Eval Ever begin, those of scores and those of samples."""


@dataclass(frozen=True, slots=True)
class LogFormat:
    """A format of logs."""

    name: str
    recognises: Callable[[Path, bytes], bool]
    """Whether a file has this format, by its path and its beginning."""
    in_folders: bool = True
    """Whether such files are read if they are in a folder that was given, not only if they are named."""


def _is_lm_eval_results(path: Path, beginning: bytes) -> bool:
    return path.suffix == ".json" and _LM_EVAL_RESULTS.match(beginning) is not None


def _is_lm_eval_samples(path: Path, beginning: bytes) -> bool:
    return _is_lm_eval_samples_name(path) or _LM_EVAL_SAMPLE.match(beginning) is not None


def _is_lm_eval_samples_name(path: Path) -> bool:
    """Return whether a file has the name of samples of version 0.4.3 or later."""
    return path.suffix == ".jsonl" and path.name.startswith("samples_") and DATE_IN_NAME.search(path.stem) is not None


def _is_inspect_archive(path: Path, beginning: bytes) -> bool:
    return path.suffix == ".eval"


def _is_inspect_json(path: Path, beginning: bytes) -> bool:
    return path.suffix == ".json" and _INSPECT_LOG.match(beginning) is not None


def _is_helm_run(path: Path, beginning: bytes) -> bool:
    return path.name == HELM_SCORES


def _is_every_eval_ever_scores(path: Path, beginning: bytes) -> bool:
    return path.suffix == ".json" and _EVERY_EVAL_EVER.match(beginning) is not None


def _is_every_eval_ever_samples(path: Path, beginning: bytes) -> bool:
    has_name = path.name.endswith(EVERY_EVAL_EVER_SAMPLES)
    return has_name and _EVERY_EVAL_EVER.match(beginning) is not None


def _is_score_table(path: Path, beginning: bytes) -> bool:
    return format_suffix(path) in TABLE_SUFFIXES


LM_EVAL_RESULTS = LogFormat("results of lm_eval", _is_lm_eval_results)
# The samples in a folder are read with their file of results.
LM_EVAL_SAMPLES = LogFormat("samples of lm_eval", _is_lm_eval_samples, in_folders=False)
INSPECT_ARCHIVE = LogFormat("log of inspect_ai (.eval)", _is_inspect_archive)
INSPECT_JSON = LogFormat("log of inspect_ai (JSON)", _is_inspect_json)
HELM = LogFormat("scores of HELM", _is_helm_run)
EVERY_EVAL_EVER = LogFormat("scores of Every Eval Ever", _is_every_eval_ever_scores)
# The samples in a folder are read with their file of scores.
EVERY_EVAL_EVER_WITH_SAMPLES = LogFormat("samples of Every Eval Ever", _is_every_eval_ever_samples, in_folders=False)
SCORE_TABLE = LogFormat("table of scores", _is_score_table, in_folders=False)

FORMATS = (
    LM_EVAL_RESULTS,
    LM_EVAL_SAMPLES,
    INSPECT_ARCHIVE,
    INSPECT_JSON,
    HELM,
    EVERY_EVAL_EVER,
    EVERY_EVAL_EVER_WITH_SAMPLES,
    SCORE_TABLE,
)
"""The formats, in the order in which they are tried."""


def format_of(path: Path) -> LogFormat | None:
    """Return the format of a log; ``None`` for other files, and for those that cannot be read."""
    if not path.is_file():
        return None
    try:
        with path.open("rb") as file:
            beginning = file.read(_BEGINNING).removeprefix(b"\xef\xbb\xbf")
    except OSError:
        return None
    for log_format in FORMATS:
        if log_format.recognises(path, beginning):
            return log_format
    return None


def is_log(path: str | os.PathLike[str]) -> bool:
    """Return whether a file is a log of another harness, by its name and its beginning."""
    return format_of(Path(path)) is not None


def logs_in_folder(folder: str | os.PathLike[str]) -> list[Path]:
    """Return the logs in a folder and its subfolders, sorted, without hidden files, and without tables of scores."""
    root = Path(folder)
    logs = []
    for path in sorted(root.rglob("*")):
        is_hidden = any(name.startswith(".") for name in path.relative_to(root).parts)
        if is_hidden:
            continue
        log_format = format_of(path)
        if log_format is not None and log_format.in_folders:
            logs.append(path)
    return logs
