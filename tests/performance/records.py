"""A dated record of measurements: each script appends a line to ``records.jsonl``, and ``compare.py`` compares lines.

A line has date, script, options, figures, version, commit, Python and machine. The environment variable
``STAICC_PERFORMANCE_RECORDS`` names another file; empty, nothing is recorded.
"""

from __future__ import annotations

import datetime
import json
import os
import platform
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

FILE = Path(__file__).with_name("records.jsonl")
VARIABLE = "STAICC_PERFORMANCE_RECORDS"
ROOT = Path(__file__).resolve().parents[2]
FEATURES = ("avx2", "avx512f", "avx512_bf16", "amx_tile", "amx_bf16", "amx_int8", "asimd", "sve")
"""Instructions of the processor that change the speed of matrix products."""

SHOWN = {"json", "verbose"}
"""Options of scripts that change no figure."""


def machine() -> dict[str, Any]:
    """The processor's model, its instructions that matter here, and the cores that this process may use."""
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8", "replace").splitlines()
    except OSError:  # not Linux
        lines = []
    entries = {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in lines)}
    flags = (entries.get("flags") or entries.get("Features") or "").split()
    cores = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count()
    return {
        "cpu": entries.get("model name") or platform.processor() or platform.machine(),
        "features": [feature for feature in FEATURES if feature in flags],
        "cores": cores,
        "system": platform.system(),
    }


def commit() -> str:
    """The commit of the repository, with ``+`` where files differ from it; empty without git."""
    try:
        command = ["git", "-C", str(ROOT), "describe", "--always", "--abbrev=12", "--exclude=*", "--dirty=+"]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


def numbers(value: Any, name: str = "") -> Iterator[tuple[str, float]]:
    """The numbers in nested dictionaries and lists, with the path to each as its name."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from numbers(inner, f"{name} / {key}" if name else str(key))
    elif isinstance(value, (list, tuple)):
        for place, inner in enumerate(value):
            yield from numbers(inner, f"{name} [{place}]")
    elif isinstance(value, (int, float)):
        yield name, float(f"{value:.6g}") if isinstance(value, float) else int(value)


def record(script: str, figures: Mapping[str, Any], options: Mapping[str, Any] | None = None) -> None:
    """Append what a script measured.

    Args:
        script: The script's ``__file__``.
        figures: Numbers by name, or nested dictionaries and lists of numbers; anything else in them is left out.
        options: What the figures depend on, such as ``vars(arguments)``.
    """
    target = os.environ.get(VARIABLE, str(FILE))
    if not target:
        return
    sys.path.append(str(ROOT))
    from StaICC.version import __version__

    given = {
        name: value if isinstance(value, (int, float, list)) else str(value)
        for name, value in (options or {}).items()
        if value is not None and name not in SHOWN
    }
    entry = {
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "script": Path(script).stem,
        "options": given,
        "figures": dict(numbers(figures)),
        "version": __version__,
        "commit": commit(),
        "python": platform.python_version(),
        "machine": machine(),
    }
    with open(target, "a", encoding="utf-8", newline="\n") as file:
        file.write(json.dumps(entry, ensure_ascii=False) + "\n")


def load(path: Path | None = None) -> list[dict[str, Any]]:
    """The entries of a record, oldest first."""
    path = path or Path(os.environ.get(VARIABLE) or FILE)
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text("utf-8").splitlines() if line]
