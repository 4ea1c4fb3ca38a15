"""Start-up and prompts: this library next to the release, in one run.

Each is measured in fresh processes: the time to make ``Normal()``, to write all prompts of the ten data sets, and the
highest resident memory. The release's wheel is fetched with pip unless it is given.

    python tests/performance/startup.py [--wheel StaICC-0.1.1-py3-none-any.whl] [--runs 3]
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from records import ROOT, arguments, markdown, record, released

CODE = """
import contextlib, io, json, resource, sys, time
started = time.perf_counter()
with contextlib.redirect_stdout(io.StringIO()):
    from StaICC import Normal
    imported = time.perf_counter()
    benchmark = Normal()
    made = time.perf_counter()
    prompts = [benchmark[index].prompt_set() for index in range(10)]
    written = time.perf_counter()
print(json.dumps({
    "import": imported - started, "Normal()": made - imported, "prompts": written - made, "all": written - started,
    "count": sum(map(len, prompts)), "MB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
}))
"""


def measure(path: Path) -> dict[str, float]:
    command = [sys.executable, "-W", "ignore", "-c", CODE]  # `-c` looks for modules in the working directory first
    done = subprocess.run(command, cwd=path, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


if __name__ == "__main__":
    options = arguments(__doc__, {"--wheel": Path, "--runs": 3})
    with tempfile.TemporaryDirectory() as folder:
        release = released(Path(folder), options.wheel)
        runs = [(measure(ROOT), measure(release)) for _ in range(options.runs)]
    medians = {key: [statistics.median(run[side][key] for run in runs) for side in (0, 1)] for key in runs[0][0]}
    rows = ([key, ours, theirs, theirs / ours] for key, (ours, theirs) in medians.items())
    print(markdown(["median", "ours", "0.1.1", "ratio"], rows))
    record(__file__, medians, {"runs": options.runs})
