"""What the performance scripts share: options, tables, finished cells, and a dated record of measurements.

Each script appends a line to ``records.jsonl``. A line has date, script, options, figures, version, commit, Python and
machine. The environment variable ``STAICC_PERFORMANCE_RECORDS`` names another
file; empty, nothing is recorded.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

FILE = Path(__file__).with_name("records.jsonl")
VARIABLE = "STAICC_PERFORMANCE_RECORDS"
ROOT = Path(__file__).resolve().parents[2]
FEATURES = ("avx2", "avx512f", "avx512_bf16", "amx_tile", "amx_bf16", "amx_int8", "asimd", "sve")
"""Instructions of the processor that change the speed of matrix products."""

sys.path.insert(0, str(ROOT))  # scripts measure the library that they lie next to


def arguments(doc: str | None, options: Mapping[str, Any], given: Sequence[str] | None = None) -> argparse.Namespace:
    """Parse a command line.

    Args:
        doc: The script's docstring.
        options: For each option its default, a list of them, or its type if it has no default.
        given: The command line, by default that of the process.
    """
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in options.items():
        if default is False:
            parser.add_argument(name, action="store_true")
        elif isinstance(default, type):
            parser.add_argument(name, type=default)
        elif isinstance(default, (list, tuple)):
            parser.add_argument(name, nargs="+", type=type(default[0]), default=list(default))
        else:
            parser.add_argument(name, type=type(default), default=default)
    return parser.parse_args(given)


def markdown(heads: Sequence[str], rows: Iterable[Iterable[Any]]) -> str:
    """A table; numbers have three digits."""
    cells = [[f"{cell:.3f}" if isinstance(cell, float) else str(cell) for cell in row] for row in rows]
    return "\n".join(f"| {' | '.join(row)} |" for row in [heads, ["---"] * len(heads), *cells])


def resumed(path: Path | None, cells: Iterable[tuple[str, Callable[[], Any]]]) -> dict[str, Any]:
    """Compute the cells that the lines of a file lack, append each when it is finished, and return all of them."""
    texts = path.read_text("utf-8").splitlines() if path and path.exists() else []
    done = dict(map(json.loads, texts))
    for name, cell in cells:
        if name not in done:
            began = time.monotonic()
            done[name] = cell()
            print(f"{name}: {json.dumps(done[name])[:400]} ({time.monotonic() - began:.0f} s)", flush=True)
            if path:
                with path.open("a", encoding="utf-8") as file:
                    file.write(json.dumps([name, done[name]]) + "\n")
    return done


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


def peak_memory() -> float:
    """Return the largest memory that this process has had so far, in MiB. It is not available on Windows."""
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def commit() -> str:
    """The commit of the repository, with ``+`` where files differ from it; empty without git."""
    try:
        command = ["git", "-C", str(ROOT), "describe", "--always", "--abbrev=12", "--exclude=*", "--dirty=+"]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


def record(script: str, figures: Mapping[str, Any], options: Mapping[str, Any] | None = None) -> None:
    """Append what a script measured.

    Args:
        script: The script's ``__file__``.
        figures: Numbers by name, or nested dictionaries and lists of numbers.
        options: What the figures depend on, such as ``vars(options)``.
    """
    target = os.environ.get(VARIABLE, str(FILE))
    if not target:
        return
    from StaICC.version import __version__

    entry = {
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "script": Path(script).stem,
        "options": options or {},
        "figures": figures,
        "version": __version__,
        "commit": commit(),
        "python": platform.python_version(),
        "machine": machine(),
    }
    with open(target, "a", encoding="utf-8", newline="\n") as file:
        file.write(json.dumps(entry, ensure_ascii=False, default=str) + "\n")
