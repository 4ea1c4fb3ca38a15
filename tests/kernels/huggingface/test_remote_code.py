"""Code of a checkpoint runs only if trust_remote_code is given; standard input is never read."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

import StaICC

SCORE = """
import sys
from StaICC.kernels.huggingface.kernel import CausalLMKernel
options = {"trust_remote_code": True} if sys.argv[2] == "trusted" else {}
kernel = CausalLMKernel.from_spec(sys.argv[1], **options)
print(kernel(prompt="A text. label: ", label_space=["a", "b"]))
"""


@pytest.fixture
def checkpoint(saved_model: Callable[..., Path], tmp_path: Path) -> Path:
    """Return a folder with a model whose configuration is code of the folder, which makes the file ``ran.txt``."""
    folder = saved_model()
    (folder / "configuration_own.py").write_text(
        "from pathlib import Path\n"
        "from transformers import LlamaConfig\n"
        f"Path({str(tmp_path / 'ran.txt')!r}).touch()\n"
        "class OwnConfig(LlamaConfig):\n    model_type = 'own'\n"
    )
    (folder / "modeling_own.py").write_text(
        "from transformers import LlamaForCausalLM\n"
        "from .configuration_own import OwnConfig\n"
        "class OwnForCausalLM(LlamaForCausalLM):\n    config_class = OwnConfig\n"
    )
    config = json.loads((folder / "config.json").read_text())
    config["model_type"] = "own"
    config["auto_map"] = {
        "AutoConfig": "configuration_own.OwnConfig",
        "AutoModelForCausalLM": "modeling_own.OwnForCausalLM",
    }
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def score_in_a_process(checkpoint: Path, trust: str, tmp_path: Path) -> subprocess.CompletedProcess[str]:
    """Score a prompt in another process, which gets "yes" for each question that it asks on standard input."""
    package = str(Path(StaICC.__file__).parents[1])
    environment = {**os.environ, "PYTHONPATH": package, "HF_MODULES_CACHE": str(tmp_path / "modules")}
    command = [sys.executable, "-c", SCORE, str(checkpoint), trust]
    return subprocess.run(command, input="yes\n" * 9, capture_output=True, text=True, check=False, env=environment)


def test_a_piped_yes_runs_no_code(checkpoint: Path, tmp_path: Path) -> None:
    done = score_in_a_process(checkpoint, "not trusted", tmp_path)
    assert not (tmp_path / "ran.txt").exists(), done.stderr
    assert done.returncode != 0
    assert "trust_remote_code=True" in done.stderr
    assert "[y/N]" not in done.stdout + done.stderr


def test_trusted_code_runs(checkpoint: Path, tmp_path: Path) -> None:
    done = score_in_a_process(checkpoint, "trusted", tmp_path)
    assert (tmp_path / "ran.txt").exists(), done.stderr
    assert done.returncode == 0, done.stderr


def calls_of_from_pretrained(path: Path) -> list[ast.Call]:
    """Return the calls of ``from_pretrained`` in a file, but those of peft, which runs no code of a checkpoint."""
    calls = [node for node in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(node, ast.Call)]
    return [
        call
        for call in calls
        if isinstance(call.func, ast.Attribute)
        and call.func.attr == "from_pretrained"
        and "PeftModel" not in ast.unparse(call.func)
    ]


def says_whether_code_is_trusted(call: ast.Call) -> bool:
    """Whether the call itself has the keyword, or passes ``**arguments``, a dictionary that has it."""
    for keyword in call.keywords:
        if keyword.arg == "trust_remote_code":
            return True
        if keyword.arg is None and ast.unparse(keyword.value) == "arguments":
            return True
    return False


def test_every_call_says_whether_code_is_trusted() -> None:
    """A new call of ``from_pretrained`` in the package cannot forget it."""
    for path in Path(StaICC.__file__).parent.rglob("*.py"):
        for call in calls_of_from_pretrained(path):
            assert says_whether_code_is_trusted(call), f"{path}:{call.lineno}: {ast.unparse(call)}"


def test_a_call_inside_another_does_not_say_it_for_the_outer_one() -> None:
    text = "AutoModel.from_pretrained(folder, config=AutoConfig.from_pretrained(folder, trust_remote_code=False))"
    outer = ast.parse(text, mode="eval").body

    assert isinstance(outer, ast.Call)
    assert not says_whether_code_is_trusted(outer)
