"""docs/durable_runs.md promises only what runs here; what needs a cluster is compiled, and its names are looked up."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "durable_runs.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, flags=re.S)
COMMANDS = [line for block in re.findall(r"```console\n(.*?)```", PAGE, flags=re.S) for line in block.splitlines()]


def environment(home: Path) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT), "STAICC_OFFLINE": "1", "STAICC_HOME": str(home)}


def needs(block: str) -> str:
    found = re.match(r"# needs: (.*)", block)
    return found[1] if found else ""


def can_run(block: str) -> bool:
    return not needs(block) or (needs(block) == "distributed" and importlib.util.find_spec("distributed") is not None)


def test_the_page_has_examples_of_both_kinds() -> None:
    assert sum(not needs(block) for block in BLOCKS) >= 5
    assert sum(bool(needs(block)) for block in BLOCKS) >= 4


@pytest.mark.parametrize("block", [block for block in BLOCKS if can_run(block)])
def test_a_block_runs(block: str, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(block, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-W", "ignore", str(script)],
        cwd=tmp_path,
        env=environment(tmp_path / "home"),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("block", [block for block in BLOCKS if not can_run(block)])
def test_a_block_that_cannot_run_names_what_is_there(block: str) -> None:
    tree = ast.parse(block)
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module is not None and node.module.startswith("StaICC"):
            module = importlib.import_module(node.module)
            assert all(hasattr(module, alias.name) for alias in node.names)
    from StaICC.benchmarks.running import RunSettings

    for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Call)):
        assert {keyword.arg for keyword in call.keywords} <= set(RunSettings.__annotations__)


def test_the_commands_run_in_order(tmp_path: Path) -> None:
    from StaICC.cli import main

    ran = []
    for command in COMMANDS:
        words = [word for word in shlex.split(command) if not re.match(r"[A-Z_]+=", word)]
        assert words[:3] == ["python", "-m", "StaICC"]
        if "NAME" in command:  # a model of the reader's: its options must be there
            with pytest.raises(SystemExit) as end:
                main([*words[3:], "--help"])
            assert end.value.code == 0
            continue
        done = subprocess.run(
            [sys.executable, *words[1:]],
            cwd=tmp_path,
            env=environment(tmp_path / "home"),
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        ran.append(words[3])
    assert len(ran) >= 5
    assert (tmp_path / "result.json").exists()
