"""Code of 0.1.1, unchanged, against the released wheel and against this library.

The wheel is an oracle: it runs in a process of its own. Values, shapes, types
and classes of errors must be the same, or docs/migration.md has a row that says why not. The last table of that page is
made from the workflows; ``STAICC_WRITE_TABLES=1`` writes it.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.compatibility import workflows

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
PAGE = ROOT / "docs" / "migration.md"
BEGIN, END = "<!-- table: begin -->\n", "<!-- table: end -->"

ALL = [one for group in workflows.GROUPS.values() for one in group]
TOLERANCE = 1e-6  # logits of our kernels may differ in the last digits of float32


def same(released: Any, ours: Any) -> bool:
    """Whether two observations are equal; our error may be of a class derived from the released one."""
    if isinstance(released, dict) and isinstance(ours, dict):
        if "error" in released and "error" in ours:
            return bool(released["error"][0] in ours["error"])
        return released.keys() == ours.keys() and all(same(released[key], ours[key]) for key in released)
    if isinstance(released, list) and isinstance(ours, list):
        return len(released) == len(ours) and all(map(same, released, ours))
    if type(released) in (int, float) and type(ours) in (int, float):
        return bool(abs(released - ours) <= TOLERANCE * max(1, abs(released)))
    return type(released) is type(ours) and bool(released == ours)


def observe(items: list[tuple[str, str, str]], release: Path | None, torch: bool) -> dict[str, Any]:
    given = {"release": None if release is None else str(release), "torch": torch, "workflows": items}
    done = subprocess.run(
        [sys.executable, str(HERE / "observe.py")],
        input=json.dumps(given),
        capture_output=True,
        text=True,
        encoding="utf-8",
        env={**os.environ, "PYTHONPATH": "" if release else str(ROOT), "PYTHONUTF8": "1"},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def table() -> str:
    """The last table of the page: for each group of workflows how many are equal, and the differences of the others."""
    lines = ["| group | compared | equal | differences |", "|---|---|---|---|"]
    for group, members in workflows.GROUPS.items():
        entries = dict.fromkeys(f"`{workflow.entry}`" for workflow in members if workflow.entry)
        equal = sum(not workflow.entry for workflow in members)
        lines.append(f"| {group} | {len(members)} | {equal} | {', '.join(entries)} |")
    return "\n".join(lines) + "\n"


@pytest.mark.slow
@pytest.mark.posix
@pytest.mark.pack
@pytest.mark.parametrize("torch", [False, True], ids=["core", "torch"])
def test_code_of_the_release_runs_unchanged_or_the_page_says_why(torch: bool, release: Path, need: Any) -> None:
    need(["torch", "transformers", "numpy"], "the released kernels")
    (metadata,) = release.glob("*.dist-info/METADATA")
    blocks = workflows.readme_blocks(metadata.read_text(encoding="utf-8"))
    some = [one for one in [*blocks, *ALL] if one.torch is torch]
    items = [(one.name, one.setup, one.code) for one in some]
    new = [(f"new: {one.name}", one.setup, one.new) for one in some if one.new]
    of_release, of_ours = observe(items, release, torch), observe([*items, *new], None, torch)
    wrong = []
    for one in some:
        released, ours = of_release[one.name], of_ours[one.name]
        if same(released, ours) is bool(one.entry):
            wrong.append(f"{one.name}: {'equal, but has an entry' if one.entry else f'{released} != {ours}'}"[:1500])
        if one.new and not same(released, of_ours[f"new: {one.name}"]):
            wrong.append(f"{one.name}, the new call: {released} != {of_ours[f'new: {one.name}']}"[:1500])
        if one.entry in ("fixed", "readme") and "raises" in ours:
            wrong.append(f"{one.name}: still fails: {ours}")
        if one.entry == "removed" and "docs/migration.md" not in ours["raises"]["message"]:
            wrong.append(f"{one.name}: {ours}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.slow
@pytest.mark.posix
@pytest.mark.pack
def test_every_public_member_is_there_or_on_the_page(release: Path, need: Any) -> None:
    """Read from the objects of both, so that no member is forgotten."""
    need(["numpy"], "the release")
    items = [("members", "", workflows.MEMBERS)]
    released, ours = (observe(items, folder, False)["members"] for folder in (release, None))
    gone = {name: set(released[name]) - set(ours[name]) for name in released}
    section = PAGE.read_text(encoding="utf-8").split("\n## Removed members\n")[1].split("\n## ")[0]
    listed: dict[str, set[str]] = {}
    for name, members in re.findall(r"^\| ([a-z_()]+) \| (`[^|]*) \|", section, re.MULTILINE):
        listed.setdefault(name, set()).update(re.findall("`([^`]+)`", members))
    assert listed == {name: members for name, members in gone.items() if members}


def test_every_difference_has_a_row_and_every_row_a_workflow() -> None:
    rows = re.findall(r"^\| `([a-z-]+)` \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert {one.entry for one in ALL} - {""} == set(rows)


def test_the_table_of_the_page_has_all_workflows() -> None:
    names = [one.name for one in ALL]
    assert len(names) == len(set(names))
    head, rest = PAGE.read_text(encoding="utf-8").split(BEGIN)
    made = head + BEGIN + table() + END + rest.split(END)[1]
    if os.environ.get("STAICC_WRITE_TABLES") == "1":
        PAGE.write_text(made, encoding="utf-8")
    assert PAGE.read_text(encoding="utf-8") == made, "the table is old: run this test with STAICC_WRITE_TABLES=1"


@pytest.mark.parametrize(
    "statement",
    [
        "from StaICC.util import functional",
        "from StaICC.normal import Normal",
        "from StaICC.diagnosis import GLER",
        "from StaICC.prefabricate_inference.model_kernel import inference_standard_template",
        "import StaICC.util as gone; gone.configs",
    ],
)
def test_a_name_that_is_gone_raises_an_error_that_names_the_page(statement: str) -> None:
    with pytest.raises(ImportError, match=r"is gone\. See 'Removed names' in docs/migration\.md"):
        exec(statement)
    assert "\n## Removed names\n" in PAGE.read_text(encoding="utf-8")
