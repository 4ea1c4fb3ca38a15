"""Wrong names get the nearest right one; shells complete with argcomplete and do without it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import StaICC
from StaICC.cli import main

ROOT = Path(StaICC.__file__).parents[1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["rnu"], "there is no command 'rnu'; did you mean 'run'?"),
        (["run", "nromal"], "there is no benchmark 'nromal'; did you mean 'normal'?"),
        (["run", "normal", "--outputs", "logit"], "there is no outputs 'logit'; did you mean 'logits'?"),
        (["compare", "a", "b", "--format", "markdwn"], "there is no format 'markdwn'; did you mean 'markdown'?"),
        (["export", "scoress", "a"], "there is no action 'scoress'; did you mean 'scores'?"),
        (["export", "lm-eval", "d", "--benchmark", "gller"], "there is no benchmark 'gller'; did you mean 'gler'?"),
    ],
)
def test_the_nearest_choice(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["run", "normal", "--datsets", "mini"],
            "run: error: there is no option '--datsets'; did you mean '--data",
        ),
        (["export", "lm-eval", "d", "--benchmrk=gler"], "there is no option '--benchmrk'; did you mean '--benchmark'?"),
        (["store", "info", "a", "--jsno"], "store info: error: there is no option '--jsno'; did you mean '--json'?"),
        (["published", "b.json"], "published: error: unrecognized arguments: b.json"),
    ],
)
def test_the_nearest_option(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["prompts", "normal", "--datasets", "TREK"], "did you mean 'TREC'?"),
        (["published", "--model", "Lama2"], "did you mean 'Llama2'?"),
        (["cite", "topp-k"], "did you mean 'TopK'?"),
    ],
)
def test_the_nearest_name(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    assert message in capsys.readouterr().err


def complete(line: str, folder: Path) -> list[str]:
    """Ask as a shell does: through the environment, with the answer in a file."""
    answer = folder / "answer"
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "_ARGCOMPLETE": "3",  # the words of `python -m StaICC` that come first
        "_ARGCOMPLETE_IFS": "\n",
        "_ARGCOMPLETE_SUPPRESS_SPACE": "1",
        "_ARGCOMPLETE_STDOUT_FILENAME": str(answer),
        "COMP_LINE": f"python -m StaICC {line}",
        "COMP_POINT": str(len(f"python -m StaICC {line}")),
    }
    subprocess.run([sys.executable, "-m", "StaICC"], env=environment, cwd=folder, capture_output=True, check=False)
    return answer.read_text("utf-8").split("\n") if answer.exists() else []


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("comp", {"compare"}),
        ("run template", {"template"}),
        ("run normal --no", {"--noisy-channel"}),
        ("compare a.json --format ", {"text", "markdown", "latex", "csv", "json"}),
        ("export ", {"lm-eval", "scores", "queries"}),
    ],
)
def test_shells_complete(line: str, expected: set[str], tmp_path: Path) -> None:
    pytest.importorskip("argcomplete")
    assert {one.strip() for one in complete(line, tmp_path)} >= expected


def test_the_mark_that_argcomplete_looks_for() -> None:
    assert "PYTHON_ARGCOMPLETE_OK" in (ROOT / "StaICC" / "__main__.py").read_text("utf-8")[:1024]


def test_without_argcomplete_nothing_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "argcomplete", None)
    monkeypatch.setenv("_ARGCOMPLETE", "1")
    with pytest.raises(SystemExit) as caught:
        main(["--version"])
    assert caught.value.code == 0


def test_only_the_command_that_is_asked_for_is_imported() -> None:
    code = (
        "import sys\n"
        "from StaICC.cli import main\n"
        "main(['cite', 'TREC'])\n"
        "loaded = [name for name in sys.modules if name.startswith('StaICC.')]\n"
        "assert not [name for name in loaded if 'kernel' in name or 'report' in name or 'long_icl' in name], loaded\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
