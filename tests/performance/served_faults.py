"""A served model with faults: seconds against the ideal, and whether each query was paid once.

Run it from the repository: ``python tests/performance/served_faults.py``. A local server takes 0.3 s for each
request; a share of them fails with status 500. The ideal is queries times seconds over connections, without any fault.
"Repeated" counts queries that were answered twice.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from records import ROOT, arguments, markdown, record

sys.path.insert(0, str(ROOT / "tests" / "inference"))

from durability_server import MODEL

from StaICC.benchmarks.context import RunContext
from StaICC.inference.runner import predict_queries
from StaICC.kernels.server.endpoint import EndpointKernel
from StaICC.prompting.prompt_writer import Query

LABELS = ("negative", "positive")


def measured(faults: float, options: argparse.Namespace, folder: Path) -> list[object]:
    """Run once, and again where queries failed; return the row of the table."""
    calls = folder / "calls"
    program = [sys.executable, str(ROOT / "tests" / "inference" / "durability_server.py")]
    server = subprocess.Popen(
        [*program, str(calls), str(options.seconds), str(faults)], stdout=subprocess.PIPE, text=True
    )
    assert server.stdout is not None
    kernel = EndpointKernel(
        server.stdout.readline().strip(),
        MODEL,
        scoring="text",
        concurrency=options.connections,
        retries=options.retries,
    )
    queries = [Query(f"query {number} of the list", LABELS, 0, number, 0) for number in range(options.queries)]
    began = time.monotonic()
    with RunContext(False, store=str(folder / "run.sqlite"), on_error="raise", progress=False) as context:
        context.start([kernel])
        predict_queries(kernel, queries, "queries", context.options_for(kernel))
    seconds = time.monotonic() - began
    kernel.close()
    server.kill()
    paid = Counter(calls.read_text().split())
    ideal = options.queries * options.seconds / options.connections
    repeated = sum(times - 1 for times in paid.values())
    return [f"{faults:.0%}", seconds, ideal, seconds / ideal, len(paid), repeated]


if __name__ == "__main__":
    options = arguments(
        __doc__,
        {"--queries": 3000, "--connections": 32, "--seconds": 0.3, "--faults": [0.0, 0.3], "--retries": 12},
    )
    rows = []
    for faults in options.faults:
        with tempfile.TemporaryDirectory() as folder:
            rows.append(measured(faults, options, Path(folder)))
    heads = ["faults", "seconds", "ideal", "ratio", "answered", "repeated"]
    record(__file__, {row[0]: dict(zip(heads[1:], row[1:], strict=True)) for row in rows}, vars(options))
    print(markdown(heads, rows))
