"""Code of a checkpoint runs only if trust_remote_code is given; standard input is never read."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

import StaICC

RUN = """
import sys
from StaICC.kernels.huggingface.kernel import CausalLMKernel
kernel = CausalLMKernel.from_spec(sys.argv[1], **({"trust_remote_code": True} if sys.argv[2] == "trusted" else {}))
print(kernel(prompt="A text. label: ", label_space=["a", "b"]))
"""


@pytest.fixture
def checkpoint(saved_model: Callable[..., Path]) -> Path:
    """A folder whose configuration is a class of the folder; the code leaves a file behind."""
    folder = saved_model()
    (folder / "configuration_own.py").write_text(
        "from pathlib import Path\n"
        "from transformers import LlamaConfig\n"
        f"Path({str(folder.parent / 'ran.txt')!r}).touch()\n"
        "class OwnConfig(LlamaConfig):\n    model_type = 'own'\n"
    )
    (folder / "modeling_own.py").write_text(
        "from transformers import LlamaForCausalLM\n"
        "from .configuration_own import OwnConfig\n"
        "class OwnForCausalLM(LlamaForCausalLM):\n    config_class = OwnConfig\n"
    )
    path = folder / "config.json"
    classes = {"AutoConfig": "configuration_own.OwnConfig", "AutoModelForCausalLM": "modeling_own.OwnForCausalLM"}
    path.write_text(json.dumps({**json.loads(path.read_text()), "model_type": "own", "auto_map": classes}))
    return folder


def run(checkpoint: Path, trusted: str, environment: dict[str, str]) -> Any:
    command = [sys.executable, "-c", RUN, str(checkpoint), trusted]
    return subprocess.run(command, input="yes\n" * 9, capture_output=True, text=True, check=False, env=environment)


@pytest.mark.parametrize("trusted", ["", "trusted"])
def test_a_piped_yes_runs_no_code(checkpoint: Path, trusted: str, tmp_path: Path) -> None:
    import os

    (checkpoint.parent / "ran.txt").unlink(missing_ok=True)
    root = str(Path(StaICC.__file__).parents[1])
    environment = {**os.environ, "PYTHONPATH": root, "HF_MODULES_CACHE": str(tmp_path)}
    done = run(checkpoint, trusted, environment)
    assert (checkpoint.parent / "ran.txt").exists() is (trusted == "trusted"), done.stderr
    assert (done.returncode == 0) is (trusted == "trusted"), done.stderr
    if not trusted:
        assert "trust_remote_code=True" in done.stderr
        assert "[y/N]" not in done.stdout + done.stderr


def test_every_call_says_whether_code_is_trusted() -> None:
    """A new call of from_pretrained in the package cannot forget it; peft runs no code of a checkpoint."""
    for path in Path(StaICC.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
                continue
            if node.func.attr != "from_pretrained" or "PeftModel" in ast.unparse(node.func):
                continue
            passed = [keyword.arg for keyword in node.keywords]
            assert "trust_remote_code" in passed or "**arguments" in ast.unparse(node), f"{path}:{node.lineno}"
