"""docs/architecture.md lists every folder of the package, with what it may import, and names files that exist."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")


def may_import() -> dict[str, set[str]]:
    """The rules that tests/test_imports.py checks."""
    for node in ast.parse((ROOT / "tests" / "test_imports.py").read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "MAY_IMPORT":
            rules = ast.unparse(node.value).replace("set()", "{None}")
            return {room: allowed - {None} for room, allowed in ast.literal_eval(rules).items()}
    raise AssertionError("tests/test_imports.py has no MAY_IMPORT")


def test_the_table_has_the_rules_of_the_import_test() -> None:
    rows = re.findall(r"^\| `(\w+)` \| .+ \| (.+) \|$", PAGE.split("## The path")[0], flags=re.MULTILINE)
    assert {room: set(re.findall(r"`(\w+)`", allowed)) for room, allowed in rows} == may_import()


def test_files_that_the_page_names_exist() -> None:
    named = set(re.findall(r"`((?:\w+/)+(?:\w+\.\w+)?)`", PAGE))
    assert len(named) > 30
    for name in named:
        assert (ROOT / "StaICC" / name).exists() or (ROOT / name).exists() or list(ROOT.glob(f"StaICC/*/{name}")), name
