"""Imports: in one direction, nothing heavy, no side effect."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

import StaICC

ROOT = Path(StaICC.__file__).parents[1]
PACKAGE = ROOT / "StaICC"
MODULES = sorted(PACKAGE.rglob("*.py"))

ROOMS = ["errors", "datasets", "prompting", "inference", "metrics", "results", "benchmarks", "cli"]
"""Each room may import from those before it."""
ANYWHERE = {"version", "optional"}
EXTRAS = {
    "argcomplete",
    "cloudpickle",
    "datasets",
    "gguf",
    "huggingface_hub",
    "ipywidgets",
    "matplotlib",
    "numpy",
    "openai",
    "pyarrow",
    "tokenizers",
    "torch",
    "tqdm",
    "transformers",
    "typing_extensions",
}
"""Packages that a function may ask for; the documented extras bring them."""


class Import(NamedTuple):
    """One import statement."""

    module: str
    when: str
    """``"load"``, ``"call"`` (inside a function) or ``"types"`` (under TYPE_CHECKING)."""
    line: int


def name_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports_of(path: Path) -> Iterator[Import]:
    """Walk the module and tell each import and when it happens."""

    def walk(node: ast.AST, when: str) -> Iterator[Import]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.Import):
                yield from (Import(alias.name, when, child.lineno) for alias in child.names)
            elif isinstance(child, ast.ImportFrom):
                assert child.level == 0, f"{path}:{child.lineno}: a relative import"
                yield Import(child.module or "", when, child.lineno)
            elif isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
                yield from walk(child, "call" if when == "load" else when)
            elif isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
                for part in child.body:
                    yield from walk(ast.Module([part], []), "types")
                for part in child.orelse:
                    yield from walk(ast.Module([part], []), when)
            else:
                yield from walk(child, when)

    yield from walk(ast.parse(path.read_text("utf-8")), "load")


def room_of(module: str) -> str:
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else ""


PARAMETERS = pytest.mark.parametrize("path", MODULES, ids=name_of)


@PARAMETERS
def test_imports_point_in_one_direction(path: Path) -> None:
    """Also inside functions; only for types may a room look ahead."""
    own = room_of(name_of(path))
    wrong = []
    for found in imports_of(path):
        target = room_of(found.module)
        if not found.module.startswith("StaICC") or found.when == "types" or target in {own, *ANYWHERE, ""}:
            continue
        if own in ROOMS:
            fine = target in ROOMS[: ROOMS.index(own)] or (own == "cli" and target == "prefabricate_inference")
        elif own == "prefabricate_inference":
            fine = target in ROOMS and target != "cli"
        elif own == "compat":
            fine = target == "benchmarks"
        else:
            fine = own in {"", "__main__"} or (own == "optional" and target == "errors")
        if not fine:
            wrong.append(f"{path.relative_to(ROOT)}:{found.line} imports {found.module}")
    assert wrong == []


@PARAMETERS
def test_only_the_standard_library_is_loaded(path: Path) -> None:
    """Packages are asked for inside functions; the torch half of the kernels loads torch, and nothing loads it."""
    wrong = [
        f"{path.relative_to(ROOT)}:{found.line} imports {found.module}"
        for found in imports_of(path)
        if found.when == "load" and found.module.split(".")[0] not in {"StaICC", "__future__", *sys.stdlib_module_names}
    ]
    if room_of(name_of(path)) == "prefabricate_inference":
        wrong = [one for one in wrong if one.rpartition(" ")[2].split(".")[0] not in {"torch", "transformers"}]
    assert wrong == []


@PARAMETERS
def test_packages_that_functions_ask_for_are_extras(path: Path) -> None:
    asked = {
        found.module.split(".")[0]
        for found in imports_of(path)
        if found.module.split(".")[0] not in {"StaICC", "__future__", *sys.stdlib_module_names}
    }
    assert asked <= EXTRAS
    if room_of(name_of(path)) != "prefabricate_inference":
        assert asked.isdisjoint({"torch", "transformers"})


def torch_modules() -> set[str]:
    """Modules that load torch as soon as they are loaded, by themselves or through another."""
    loads = {name_of(path): {found.module for found in imports_of(path) if found.when == "load"} for path in MODULES}
    heavy: set[str] = set()
    while True:
        more = {name for name, targets in loads.items() if targets & {"torch", "transformers", *heavy}} - heavy
        if not more:
            return heavy
        heavy |= more


def test_what_loads_torch_is_loaded_by_functions_only() -> None:
    """So that the package, its rooms and the names of its kernels cost nothing where there is no torch."""
    light = {
        "StaICC",
        "StaICC.__main__",
        "StaICC.prefabricate_inference",
        "StaICC.prefabricate_inference.models",
        "StaICC.prefabricate_inference.ppm_kernel",
    }
    heavy = torch_modules()
    assert heavy.isdisjoint(light)
    assert all(room_of(name) == "prefabricate_inference" for name in heavy)


# -- what importing does


def python(code: str, folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *options, "-c", code],
        cwd=folder,
        env={"PYTHONPATH": str(ROOT), "HOME": str(folder), "STAICC_HOME": str(folder / "home"), "TZ": "UTC"},
        capture_output=True,
        text=True,
        check=True,
    )


ALL = "import StaICC\nfor name in StaICC.__all__: getattr(StaICC, name)\n"


@pytest.mark.parametrize("code", ["import StaICC\n", ALL], ids=["package", "every name"])
def test_importing_has_no_side_effect(tmp_path: Path, code: str) -> None:
    check = """
import logging, os, random, signal, sys, threading, warnings
state, handlers = random.getstate(), signal.getsignal(signal.SIGINT)
filters, environment = list(warnings.filters), dict(os.environ)
{code}
assert not logging.getLogger().handlers and not logging.getLogger("StaICC").handlers
assert all(not logger.handlers for name, logger in logging.Logger.manager.loggerDict.items()
           if name.startswith("StaICC") and isinstance(logger, logging.Logger))
assert random.getstate() == state and signal.getsignal(signal.SIGINT) == handlers
assert warnings.filters == filters and dict(os.environ) == environment
assert threading.active_count() == 1
outside = {{name.partition(".")[0] for name in sys.modules}} - set(sys.stdlib_module_names)
print(sorted(name for name in outside if not name.startswith(("_", "sitecustomize", "usercustomize"))))
"""
    done = python(check.format(code=code), tmp_path, "-B", "-S", "-W", "error")
    assert (done.stdout, done.stderr) == ("['StaICC']\n", "")
    assert list(tmp_path.iterdir()) == []


def test_the_package_alone_loads_almost_nothing(tmp_path: Path) -> None:
    code = "import sys; before = set(sys.modules); import StaICC; print(sorted(set(sys.modules) - before))"
    done = python(code, tmp_path, "-B", "-S")
    assert "StaICC.benchmarks" not in done.stdout
    assert "json" not in done.stdout


def seconds(code: str, folder: Path, runs: int = 7) -> float:
    """Processor seconds of the shortest of several runs: what other processes take is left out."""
    best = float("inf")
    for _ in range(runs):
        before = os.times()
        python(code, folder, "-S")
        after = os.times()
        used = after.children_user + after.children_system - before.children_user - before.children_system
        best = min(best, used)
    return best


def test_importing_takes_less_than_60_ms(tmp_path: Path) -> None:
    python(ALL, tmp_path, "-S")  # byte code
    assert seconds("import StaICC", tmp_path) - seconds("pass", tmp_path) < 0.060


def test_the_core_works_where_no_package_can_be_imported(tmp_path: Path) -> None:
    code = """
import sys
class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] not in sys.stdlib_module_names and not name.startswith("StaICC"):
            raise ImportError(f"{name} is blocked")
sys.meta_path.insert(0, Refuse())
import StaICC
from StaICC.cli import main
result = StaICC.Suite(datasets=["mini"], limit=2)(StaICC.load_kernel("ppm"))
assert result.complete and main(["run", "normal", "--datasets", "mini", "--limit", "2"]) == 0
try:
    StaICC.load_kernel("smollm2")("prompt", ["a", "b"])
except StaICC.errors.MissingDependencyError as error:
    print(error)
"""
    done = python(code, tmp_path, "-B", "-S")
    assert "pip install 'staicc[hf]'" in done.stdout.splitlines()[-1]


def test_unknown_names_are_attribute_errors() -> None:
    with pytest.raises(AttributeError, match=r"^module 'StaICC' has no attribute 'Nonesuch'$"):
        StaICC.Nonesuch  # noqa: B018
    assert not hasattr(StaICC, "torch")
    assert set(StaICC.__all__) <= set(dir(StaICC))


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="each module is imported in a fork")
def test_every_module_can_be_imported_first(tmp_path: Path) -> None:
    """No circle: whatever is imported first works. Modules that load torch are left out."""
    names = sorted({name_of(path) for path in MODULES} - torch_modules() - {"StaICC.__main__"})
    code = f"""
import importlib, os, sys
names = {names!r}
for name in names:  # loads what they need of the standard library, once
    importlib.import_module(name)
for name in [name for name in sys.modules if name.partition(".")[0] == "StaICC"]:
    del sys.modules[name]
failed = []
for name in names:
    child = os.fork()
    if child == 0:
        try:
            importlib.import_module(name)
        except BaseException as error:
            print(name, repr(error), flush=True)
            os._exit(1)
        os._exit(0)
    if os.waitpid(child, 0)[1]:
        failed.append(name)
print(failed)
"""
    assert python(code, tmp_path).stdout == "[]\n"
