"""Measure the frozen data: import, opening all ten tables with verification, random reads, memory.

Run: python tests/performance/datasets.py (the data pack must be installed; on Linux also the resident memory is shown).
"""

from __future__ import annotations

import random
import time
from pathlib import Path

from records import record


def resident() -> str:
    try:
        lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    except OSError:
        return ""
    found = {line.split(":")[0]: int(line.split()[1]) / 1024 for line in lines if line.startswith(("VmRSS", "VmHWM"))}
    return f"   resident {found['VmRSS']:.1f} MB (highest {found['VmHWM']:.1f})"


def main() -> None:
    figures: dict[str, float] = {}
    start = time.perf_counter()

    def show(what: str) -> None:
        nonlocal start
        figures[f"{what}, ms"] = (time.perf_counter() - start) * 1000
        print(f"{what:<45}{figures[f'{what}, ms']:8.1f} ms{resident()}")
        start = time.perf_counter()

    from StaICC.datasets import load_dataset, names

    show("import StaICC.datasets")
    tables = [load_dataset(name).table for name in names()]
    show("open and verify the ten tables")
    order = [random.Random(i).sample(range(len(table)), min(5632, len(table))) for i, table in enumerate(tables)]
    start = time.perf_counter()
    for table, numbers in zip(tables, order, strict=True):
        for number in numbers:
            table[number]
    show(f"read {sum(map(len, order))} rows at random, one by one")
    tables = [load_dataset(name).table for name in names()]
    show("open the ten tables again")
    for table in tables:
        for _ in table:
            pass
    show(f"read all {sum(map(len, tables))} rows in order")
    record(__file__, figures)


if __name__ == "__main__":
    main()
