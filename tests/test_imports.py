"""Imports: in one direction, nothing heavy, no side effect."""

from __future__ import annotations

import ast
import graphlib
import importlib
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import FunctionType, GenericAlias
from typing import NamedTuple

import pytest

import StaICC

ROOT = Path(StaICC.__file__).parents[1]
PACKAGE = ROOT / "StaICC"
FILES = sorted(PACKAGE.rglob("*.py"))

GROUND = {
    *("argument_syntax", "arguments", "benchmark_names", "docstring_text", "errors", "frozen", "habits", "layout"),
    *("lazy_sequence", "numerics", "optional", "progress", "registry", "removed", "safe_text", "version"),
}
"""Single modules that every room may import."""
MAY_IMPORT: dict[str, set[str]] = {
    "files": set(),
    "datasets": {"files"},
    "metrics": set(),
    "prompting": {"datasets"},
    "inference": {"files", "prompting"},
    "kernels": {"datasets", "files", "inference", "prompting"},
    "results": {"datasets", "files", "inference", "metrics"},
    "benchmarks": {"datasets", "files", "inference", "logs", "metrics", "prompting", "results"},
    "comparing": {"datasets", "metrics", "results"},
    "logs": {"datasets", "files", "inference", "metrics", "results"},
    "report": {"comparing", "files", "metrics", "results"},
    "long_icl": {"benchmarks", "datasets", "files", "inference", "metrics", "prompting", "results"},
    "methods": {"benchmarks", "datasets", "files", "inference", "kernels", "metrics", "prompting", "results"},
    "cli": {
        *("benchmarks", "comparing", "datasets", "files", "inference", "kernels", "logs", "long_icl", "methods"),
        *("metrics", "report", "results"),
    },
    "compat": {"benchmarks"},
    "prefabricate_inference": {"benchmarks", "inference", "kernels", "methods"},
    "normal": {"benchmarks"},
    "diagnosis": {"compat"},
    "util": {"benchmarks", "datasets", "metrics", "prompting"},
}
"""The rooms of the package, each with those that it may import from; docs/architecture.md explains them."""
EXTRAS = {
    *("argcomplete", "bitsandbytes", "cloudpickle", "datasets", "gguf", "huggingface_hub", "ipywidgets", "llama_cpp"),
    *("matplotlib", "numpy", "openai", "pandas", "peft", "pyarrow", "tokenizers", "torch", "transformers"),
    "typing_extensions",
}
"""Packages that a function may ask for; the documented extras bring them."""

NOT_EVERYWHERE = {"fcntl", "grp", "msvcrt", "pty", "pwd", "resource", "termios", "tty", "winreg"}
"""Modules of the standard library that some systems lack."""


class Import(NamedTuple):
    """One import statement."""

    module: str
    names: tuple[str, ...]
    """What is imported from it; empty if it is imported as a whole."""
    when: str
    """``"load"``, ``"call"`` (inside a function) or ``"types"`` (under TYPE_CHECKING)."""
    line: int


def module_name_of(path: Path) -> str:
    """Return the name of a module, such as ``StaICC.cli`` of ``StaICC/cli/__init__.py``."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports_of(path: Path) -> Iterator[Import]:
    """Yield each import statement of a file, with when it is executed."""
    module = ast.parse(path.read_text("utf-8"))
    for statement in imports_of_nodes(module.body, "load"):
        assert not statement.module.startswith("."), f"{path}:{statement.line}: a relative import"
        yield statement


def imports_of_nodes(nodes: Iterable[ast.AST], when: str) -> Iterator[Import]:
    """Yield the import statements of syntax trees which are executed at this time, or later within functions."""
    for node in nodes:
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(alias.name, (), when, node.lineno)
        elif isinstance(node, ast.ImportFrom):
            names = tuple(alias.name for alias in node.names)
            yield Import("." * node.level + (node.module or ""), names, when, node.lineno)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            when_called = "call" if when == "load" else when
            yield from imports_of_nodes(ast.iter_child_nodes(node), when_called)
        elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            yield from imports_of_nodes(node.body, "types")
            yield from imports_of_nodes(node.orelse, when)
        elif not isinstance(node, ast.expr):
            yield from imports_of_nodes(ast.iter_child_nodes(node), when)


def room_of(module: str) -> str:
    """Return the folder or module directly in the package, such as "cli" of ``StaICC.cli.run``; "" of the package."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else ""


def describe_import(path: Path, statement: Import) -> str:
    """Return where an import statement is, and what it imports."""
    return f"{path.relative_to(ROOT)}:{statement.line} imports {statement.module}"


PATHS = {module_name_of(path): path for path in FILES}


@pytest.fixture(scope="module")
def imports_by_path() -> dict[Path, list[Import]]:
    """The import statements of each file. A fixture: syntax trees of all files make every collection slow."""
    return {path: list(imports_of(path)) for path in FILES}


# -- directions


def test_every_folder_has_a_rule() -> None:
    rooms = {room_of(module) for module in PATHS} - {"", "__main__"}
    assert rooms == {*MAY_IMPORT, *GROUND}


def test_the_rules_allow_no_circle_of_folders() -> None:
    order = list(graphlib.TopologicalSorter(MAY_IMPORT).static_order())  # or a CycleError, which names the folders
    assert order.index("files") < order.index("results") < order.index("cli")


def rooms_that_may_be_imported(room: str) -> set[str]:
    """Return the rooms that modules of a room may import; ``""`` is the room of StaICC itself, which imports all."""
    if room in {"", "__main__"}:
        return {"", "__main__", *MAY_IMPORT, *GROUND}
    if room in GROUND:
        return {"", room, *GROUND}
    return {"", room, *GROUND, *MAY_IMPORT[room]}


def test_imports_point_in_one_direction(imports_by_path: dict[Path, list[Import]]) -> None:
    """Also inside functions. Imports for types only may point anywhere, but see the test of cycles."""
    wrong = []
    for path, imports in imports_by_path.items():
        allowed = rooms_that_may_be_imported(room_of(module_name_of(path)))
        for statement in imports:
            is_checked = statement.module.startswith("StaICC") and statement.when != "types"
            if is_checked and room_of(statement.module) not in allowed:
                wrong.append(describe_import(path, statement))
    assert not wrong, "\n".join(wrong)


# -- cycles


LOADERS = {"StaICC.optional", "StaICC.registry", "StaICC.cli"}
"""The modules that import by name: optional packages, registered parts, and commands."""


def test_modules_are_imported_by_name_only_in_the_loaders() -> None:
    """``import_module`` anywhere else could hide a cycle; other rooms are joined by :mod:`StaICC.registry`."""
    imports_by_name = []
    for path in FILES:
        source = path.read_text("utf-8")
        if module_name_of(path) in LOADERS or not re.search("import_module|__import__", source):
            continue
        for node in ast.walk(ast.parse(source)):
            if not isinstance(node, ast.Call):
                continue
            function = ast.unparse(node.func).rpartition(".")[2]
            arguments = ", ".join(map(ast.unparse, node.args))
            names_another_package = re.match(r"'(?!StaICC)\w", arguments)
            if function in {"import_module", "__import__"} and not names_another_package:
                imports_by_name.append(f"{path.relative_to(ROOT)}:{node.lineno}: {function}({arguments})")
    assert imports_by_name == []


def modules_imported_by(statement: Import) -> set[str]:
    """Return the modules of the package that a statement imports: ``from a import b`` may mean ``a.b`` or a name."""
    modules = {f"{statement.module}.{name}" for name in statement.names}
    all_names_are_modules = bool(modules) and modules <= PATHS.keys()
    if not all_names_are_modules:
        modules.add(statement.module)
    return modules & PATHS.keys()


def test_there_are_no_import_cycles(imports_by_path: dict[Path, list[Import]]) -> None:
    """Also inside functions and for types only; a name of a package counts where it is defined."""
    imported_modules: dict[str, set[str]] = {module: set() for module in PATHS}
    for path, imports in imports_by_path.items():
        module = module_name_of(path)
        for statement in imports:
            imported_modules[module] |= modules_imported_by(statement) - {module}
    assert imported_modules["StaICC.inference.runner"] >= {"StaICC.errors", "StaICC.inference.workers"}

    order = graphlib.TopologicalSorter(imported_modules).static_order()
    assert list(order) != []  # or a CycleError, which names the modules


def test_private_names_are_not_imported_from_other_modules(imports_by_path: dict[Path, list[Import]]) -> None:
    imports_of_private_names = []
    for path, imports in imports_by_path.items():
        for statement in imports:
            private_names = [name for name in statement.names if re.match("_(?!_)", name)]
            if statement.module.startswith("StaICC") and private_names:
                imports_of_private_names.append(describe_import(path, statement))
    assert imports_of_private_names == []


# -- packages of others


def imports_another_package(statement: Import) -> bool:
    """Whether a statement imports neither StaICC nor the standard library."""
    return statement.module.split(".")[0] not in {"StaICC", "__future__", *sys.stdlib_module_names}


def may_import_torch(path: Path) -> bool:
    """Whether a module may import torch and transformers: those of kernels and methods."""
    return room_of(module_name_of(path)) in {"kernels", "methods"}


def test_loading_a_module_imports_no_other_package_but_torch(imports_by_path: dict[Path, list[Import]]) -> None:
    """Optional packages are imported inside functions; only kernels and methods may load torch with a module."""
    wrong = []
    for path, imports in imports_by_path.items():
        allowed = {"torch", "transformers"} if may_import_torch(path) else set()
        for statement in imports:
            package = statement.module.split(".")[0]
            if statement.when == "load" and imports_another_package(statement) and package not in allowed:
                wrong.append(describe_import(path, statement))
    assert not wrong, "\n".join(wrong)


def test_packages_that_functions_import_are_extras(imports_by_path: dict[Path, list[Import]]) -> None:
    wrong = []
    for path, imports in imports_by_path.items():
        allowed = EXTRAS if may_import_torch(path) else EXTRAS - {"torch", "transformers"}
        for statement in imports:
            package = statement.module.split(".")[0]
            if imports_another_package(statement) and package not in allowed:
                wrong.append(describe_import(path, statement))
    assert not wrong, "\n".join(wrong)


def test_modules_of_posix_or_windows_are_imported_with_a_guard() -> None:
    """In the library and in its tests: inside a ``try``, or in a function that other systems do not call."""
    import_without_indent = re.compile(rf"^(?:import|from) (?:{'|'.join(NOT_EVERYWHERE)})\b.*", re.MULTILINE)
    unguarded_imports = {}
    for path in (*FILES, *(ROOT / "tests").rglob("*.py")):
        lines = import_without_indent.findall(path.read_text("utf-8"))
        if lines:
            unguarded_imports[path] = lines
    assert unguarded_imports == {}


# -- public names: there, and not private names of other modules (ruff checks order and docstrings)


ROOMS = [name for name, path in PATHS.items() if path.name == "__init__.py" and name != "StaICC"]
LIKE_PACKAGES = {"StaICC.cli", "StaICC.kernels.huggingface", "StaICC.prefabricate_inference", "StaICC.util"}
"""The command line, what all files of the torch kernel share, and two packages of 0.1.1."""


@pytest.mark.parametrize("package", [name for name in ROOMS if name not in LIKE_PACKAGES])
def test_the_init_file_of_a_folder_has_a_docstring_only(package: str) -> None:
    """A name has one path, that of the module which defines it; users import it from ``StaICC``."""
    statements = ast.parse(PATHS[package].read_text("utf-8")).body
    assert len(statements) == 1


def names_imported_as_themselves(path: Path) -> list[str]:
    """Return the names that a file exports by ``import name as name``."""
    names = []
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom):
            names += [alias.name for alias in node.names if alias.asname == alias.name]
    return names


@pytest.mark.parametrize("name", sorted(PATHS.keys() - {"StaICC.__main__"}))
def test_a_module_can_be_imported_and_has_the_names_that_it_lists(name: str) -> None:
    try:
        module = importlib.import_module(name)
    except ImportError as error:
        if "torch" in str(error) or "transformers" in str(error):
            pytest.skip(f"the module needs torch or transformers, which are extras: {error}")
        raise

    listed = getattr(module, "__all__", names_imported_as_themselves(PATHS[name]))

    assert [public_name for public_name in listed if not hasattr(module, public_name)] == []
    assert len(set(listed)) == len(listed), "a name is listed twice"


def test_no_public_name_is_that_of_a_room() -> None:
    """A module would win over the name of a function, at the first import of that module."""
    assert {room_of(name) for name in PATHS} & set(StaICC.__all__) == set()


def test_the_public_names_are_also_known_to_type_checkers(imports_by_path: dict[Path, list[Import]]) -> None:
    imported_for_types = set()
    for statement in imports_by_path[PATHS["StaICC"]]:
        if statement.when == "types":
            imported_for_types.update(statement.names)

    assert {"__version__", *imported_for_types} == set(StaICC.__all__)


@pytest.mark.parametrize("name", StaICC.__all__)
def test_public_classes_and_functions_have_docstrings(name: str) -> None:
    value = getattr(StaICC, name)
    is_generic_alias = isinstance(value, GenericAlias)  # Python 3.10 takes it for a class
    if isinstance(value, (type, FunctionType)) and not is_generic_alias:
        assert value.__doc__


@pytest.mark.parametrize(
    "benchmark",
    [
        *("Normal", "Triplet_bias", "Contextual_bias", "Domain_bias", "Post_bias"),
        *("GLER", "Template_sens", "Demo_sens"),
    ],
)
def test_a_benchmark_that_release_0_1_1_documents_is_public(benchmark: str) -> None:
    assert benchmark in StaICC.__all__


def test_dir_lists_each_public_name_once() -> None:
    listed = dir(StaICC)
    assert len(listed) == len(set(listed))
    assert set(StaICC.__all__) <= set(listed)


def test_dir_lists_no_name_that_the_package_imports_for_itself() -> None:
    assert {"Any", "TYPE_CHECKING", "annotations", "importlib"}.isdisjoint(dir(StaICC))


# -- what importing does


def run_code(code: str, folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Run code in a fresh process with options of Python, in a folder that is its home, too."""
    variables = {"PYTHONPATH": str(ROOT), "HOME": str(folder), "STAICC_HOME": str(folder / "home"), "TZ": "UTC"}
    variables["SYSTEMROOT"] = os.environ.get("SYSTEMROOT", "")  # Windows needs it
    command = [sys.executable, *options, "-c", code]
    return subprocess.run(command, cwd=folder, env=variables, capture_output=True, text=True, check=True)


IMPORT_PACKAGE = "import StaICC"
LOAD_EVERY_NAME = "import StaICC\nfor name in StaICC.__all__: getattr(StaICC, name)"


@pytest.mark.parametrize("statements", [IMPORT_PACKAGE, LOAD_EVERY_NAME], ids=["package", "every name"])
def test_importing_has_no_side_effect(tmp_path: Path, statements: str) -> None:
    """An import changes no global state, starts no thread, writes nothing and loads no other package."""
    code = f"""
import logging, os, random, signal, sys, threading, warnings

def global_state():
    return {{
        "random numbers": random.getstate(),
        "handler of interrupts": signal.getsignal(signal.SIGINT),
        "filters of warnings": list(warnings.filters),
        "environment": dict(os.environ),
        "handlers of all records": list(logging.getLogger().handlers),
        "threads": threading.active_count(),
    }}

before = global_state()
{statements}
assert global_state() == before

for name, logger in logging.Logger.manager.loggerDict.items():
    if name.startswith("StaICC") and isinstance(logger, logging.Logger):
        assert logger.handlers == []

packages = {{name.partition(".")[0] for name in sys.modules}} - set(sys.stdlib_module_names)
print(sorted(name for name in packages if not name.startswith(("_", "sitecustomize", "usercustomize"))))
"""
    done = run_code(code, tmp_path, "-B", "-S", "-W", "error")

    assert (done.stdout, done.stderr) == ("['StaICC']\n", "")
    assert list(tmp_path.iterdir()) == []


def modules_loaded_by(statement: str, folder: Path) -> list[str]:
    """Return the modules that a statement loads in a fresh process."""
    code = f"import sys; before = set(sys.modules); {statement}; print(*sorted(set(sys.modules) - before))"
    return run_code(code, folder, "-B", "-S").stdout.split()


def test_importing_the_package_loads_at_most_five_of_its_modules(tmp_path: Path) -> None:
    """The others are loaded with the first name that needs them, so that the import takes some milliseconds."""
    loaded = modules_loaded_by("import StaICC", tmp_path)

    modules_of_package = [name for name in loaded if name.startswith("StaICC")]
    assert len(modules_of_package) <= 5
    assert "json" not in loaded


def test_importing_data_sets_loads_nothing_that_only_their_installation_needs(tmp_path: Path) -> None:
    loaded = modules_loaded_by("import StaICC.datasets.dataset", tmp_path)

    for name in ("subprocess", "sqlite3", "urllib.request", "zipfile", "pickle", "tempfile", "shutil"):
        assert name not in loaded
    assert "importlib.resources" not in loaded


@pytest.mark.parametrize("command", ["verify", "leaderboard"])
def test_commands_that_verify_load_no_grammar_of_replies_before_there_is_a_reply(command: str, tmp_path: Path) -> None:
    """The grammar has hundreds of patterns, which are compiled when it is loaded."""
    loaded = modules_loaded_by(f"import StaICC.cli.{command}", tmp_path)

    assert "StaICC.benchmarks.rescoring" in loaded
    assert "StaICC.inference.reply_parser" not in loaded


@pytest.mark.parametrize("command", ["compare", "report"])
def test_commands_on_saved_results_load_neither_readers_of_logs_nor_benchmarks(command: str, tmp_path: Path) -> None:
    """Each module takes about a millisecond, and a hundred of them more than the command."""
    loaded = modules_loaded_by(f"import StaICC.cli.{command}", tmp_path)

    assert "StaICC.results.result" in loaded
    assert "StaICC.logs.reading" not in loaded
    assert "StaICC.benchmarks" not in loaded


def test_the_first_use_of_data_prints_where_they_are_installed(tmp_path: Path) -> None:
    """A log record of the library is shown in a program that sets up no logging."""
    code = """
import os; os.environ["STAICC_OFFLINE"] = "1"
from StaICC import DataMissingError, load_dataset
try:
    load_dataset("TREC")
except DataMissingError as error:
    print(error)
"""
    done = run_code(code, tmp_path)

    (line,) = done.stderr.splitlines()
    assert "installing the benchmark's data into" in line
    assert "python -m StaICC data install StaICC-0.1.1-py3-none-any.whl" in done.stdout


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
result = StaICC.Suite(datasets=["mini"], limit=1)(StaICC.load_kernel("ppm"))
assert result.complete and main(["run", "normal", "--datasets", "mini", "--limit", "2"]) == 0
try:
    StaICC.load_kernel("smollm2")("prompt", ["a", "b"])
except StaICC.errors.MissingDependencyError as error:
    print(error)
"""
    done = run_code(code, tmp_path, "-B", "-S")

    assert f"pip install -e '{ROOT}[hf]'" in done.stdout.splitlines()[-1]


@pytest.mark.slow
def test_all_tests_can_be_imported_on_windows() -> None:
    """Windows is imitated: what it lacks is removed, then the tests are collected."""
    code = f"""
import os, signal, sys
import multiprocessing.util, pytest, _pytest.pathlib, _pytest.tmpdir, hypothesis, subprocess, concurrent.futures.process
for name in {sorted(NOT_EVERYWHERE - {"msvcrt", "winreg"})!r}:
    sys.modules[name] = None
for name in ("fork", "killpg", "mkfifo", "getpgid", "setsid", "waitid", "sched_getaffinity"):
    delattr(os, name)
for name in ("SIGKILL", "SIGHUP", "SIGUSR1", "SIGALRM", "alarm", "pthread_sigmask", "setitimer"):
    delattr(signal, name)
sys.exit(pytest.main(["--collect-only", "-qq", "-p", "no:cacheprovider", "-p", "no:faulthandler", "-m", "", "tests"]))
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]
