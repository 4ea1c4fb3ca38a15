"""Compare the latest record of each performance script with the previous one of the same options and machine.

    python tests/performance/compare.py [--script SCRIPT] [--records FILE] [--all]

Prints each figure before and after, with the ratio; by default only figures that changed by 5 % or more. The files
``tests/performance/*.py`` are the scripts; each appends to ``tests/performance/records.jsonl`` when it runs.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from records import arguments, load


def lines(before: dict[str, Any], after: dict[str, Any], threshold: float) -> list[str]:
    """One line for each figure that changed by at least so much."""
    shown = []
    for name, new in after["figures"].items():
        old = before["figures"].get(name)
        if old is None:
            shown.append(f"  {name:<50}{'':>12} -> {new:<12g} new")
        elif old != new and (not old or abs(new / old - 1) >= threshold):
            ratio = f"x {new / old:.3g}" if old else ""
            shown.append(f"  {name:<50}{old:>12g} -> {new:<12g} {ratio}")
    return [*shown, *(f"  {name:<50} gone" for name in before["figures"] if name not in after["figures"])]


def main() -> int:
    options = arguments(__doc__, {"--script": str, "--records": Path, "--all": False})
    entries = load(options.records)
    if not entries:
        print("There are no records yet. Run a script of tests/performance.")
    recorded = sorted({entry["script"] for entry in entries})
    if options.script and options.script not in recorded:
        print(f"no record of {options.script}")
        return 1
    for script in [options.script] if options.script else recorded:
        *earlier, after = (entry for entry in entries if entry["script"] == script)
        same = [one for one in earlier if all(one[key] == after[key] for key in ("options", "machine"))]
        print(f"{script} {after['date']} {after['version']} {after['commit']}", end=" ")
        if not same:
            print("is the first with its options on this machine")
            continue
        print(f"compared with {same[-1]['date']} {same[-1]['version']} {same[-1]['commit']}")
        print("\n".join(lines(same[-1], after, 0.0 if options.all else 0.05)) or "  nothing changed by 5 % or more")
    return 0


if __name__ == "__main__":
    sys.exit(main())
