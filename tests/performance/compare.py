"""Compare the latest record of each performance script with the previous one of the same options and machine.

    python tests/performance/compare.py [SCRIPT ...] [--records FILE] [--all]

Prints each figure before and after, with the ratio; by default only figures that changed by 5 % or more. The files
``tests/performance/*.py`` are the scripts; each appends to ``tests/performance/records.jsonl`` when it runs.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from records import load


def previous(entry: dict[str, Any], entries: list[dict[str, Any]]) -> dict[str, Any] | None:
    """The last of some entries that has the same script, options and machine."""
    same = [one for one in entries if all(one[key] == entry[key] for key in ("script", "options", "machine"))]
    return same[-1] if same else None


def lines(before: dict[str, Any], after: dict[str, Any], threshold: float) -> list[str]:
    """One line for each figure that changed by at least so much."""
    found = []
    for name, new in after["figures"].items():
        old = before["figures"].get(name)
        if old is None:
            found.append(f"  {name:<50}{'':>12} -> {new:<12g} new")
        elif old != new and (not old or abs(new / old - 1) >= threshold):
            ratio = f"x {new / old:.3g}" if old else ""
            found.append(f"  {name:<50}{old:>12g} -> {new:<12g} {ratio}")
    gone = [name for name in before["figures"] if name not in after["figures"]]
    return [*found, *(f"  {name:<50} gone" for name in gone)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scripts", nargs="*", help="names without .py; by default all")
    parser.add_argument("--records", type=Path)
    parser.add_argument("--all", action="store_true", help="also figures that hardly changed")
    arguments = parser.parse_args()
    entries = load(arguments.records)
    if not entries:
        print("There are no records yet. Run a script of tests/performance.")
    unknown = sorted(set(arguments.scripts) - {entry["script"] for entry in entries})
    if unknown:
        print(f"no record of {', '.join(unknown)}")
        return 1
    for script in arguments.scripts or sorted({entry["script"] for entry in entries}):
        place = max(place for place, entry in enumerate(entries) if entry["script"] == script)
        after, before = entries[place], previous(entries[place], entries[:place])
        print(f"{script} {after['date']} {after['version']} {after['commit']}", end=" ")
        if before is None:
            print("is the first with its options on this machine")
            continue
        print(f"compared with {before['date']} {before['version']} {before['commit']}")
        print("\n".join(lines(before, after, 0.0 if arguments.all else 0.05)) or "  nothing changed by 5 % or more")
    return 0


if __name__ == "__main__":
    sys.exit(main())
