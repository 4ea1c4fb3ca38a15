"""Public names: in a sorted ``__all__``, there, documented."""

from __future__ import annotations

import ast
import importlib
import inspect
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import get_origin

import StaICC

ROOT = Path(StaICC.__file__).parents[1]
MODULES = sorted((ROOT / "StaICC").rglob("*.py"))


def name_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def offers_nothing(path: Path) -> bool:
    """Whether the module is a docstring."""
    return len(ast.parse(path.read_text("utf-8")).body) == 1


def load(path: Path) -> ModuleType | None:
    """The module, or None where it offers nothing, needs an extra that is missing, or runs when it is imported."""
    if name_of(path) == "StaICC.__main__" or offers_nothing(path):
        return None
    try:
        return importlib.import_module(name_of(path))
    except ImportError as error:
        if "torch" in str(error) or "transformers" in str(error):
            return None
        raise


def place_of(name: str) -> tuple[int, str]:
    """Sort as ruff does: constants, then classes, then the rest."""
    return (0 if name.isupper() else 1 if name[0].isupper() else 2), name


def test_every_module_says_what_it_is_for() -> None:
    wrong = []
    for path in MODULES:
        text = path.read_text("utf-8")
        docstring = ast.get_docstring(ast.parse(text)) or ""
        if not docstring:
            wrong.append(f"{name_of(path)}: no docstring")
        elif not (docstring[0] in "\"'`" or docstring[0].isupper() or docstring[0].isdigit()):
            wrong.append(f"{name_of(path)}: begins with {docstring[0]!r}")
        elif not docstring.split("\n\n")[0].rstrip().endswith((".", ":", "?")):
            wrong.append(f"{name_of(path)}: its first paragraph does not end as a sentence")
        if not offers_nothing(path) and "from __future__ import annotations" not in text:
            wrong.append(f"{name_of(path)}: no `from __future__ import annotations`")
    assert not wrong, "\n".join(wrong)


def test_all_is_sorted_and_true() -> None:
    wrong = []
    for path in MODULES:
        module = load(path)
        if module is None:
            continue
        if path.name != "__init__.py" and not hasattr(module, "__all__"):
            continue  # what it defines under names without an underscore
        names = getattr(module, "__all__", None)
        if not isinstance(names, list):
            wrong.append(f"{name_of(path)}: no __all__")
            continue
        if names != sorted(names, key=place_of):
            wrong.append(f"{name_of(path)}: __all__ is not sorted: {names}")
        if len(set(names)) != len(names):
            wrong.append(f"{name_of(path)}: __all__ has a name twice: {names}")
        wrong += [
            f"{name_of(path)}: __all__ lists {name}, which is not there" for name in names if not hasattr(module, name)
        ]
    assert not wrong, "\n".join(wrong)


def members(kind: type) -> Iterator[tuple[str, object]]:
    for name, value in vars(kind).items():
        plain = value.__func__ if isinstance(value, (staticmethod, classmethod)) else value
        if not name.startswith("_") and (inspect.isfunction(plain) or isinstance(value, property)):
            yield name, plain


def undocumented(module: ModuleType) -> Iterator[str]:
    own = [name for name, value in vars(module).items() if getattr(value, "__module__", None) == module.__name__]
    for name in dict.fromkeys([*getattr(module, "__all__", []), *(name for name in own if not name.startswith("_"))]):
        value = getattr(module, name, None)
        if get_origin(value) is None and (inspect.isclass(value) or inspect.isfunction(value)):
            if not value.__doc__ or value.__doc__.startswith(f"{name}("):  # what a dataclass writes by itself
                yield name
            if inspect.isclass(value) and value.__module__ == module.__name__:
                yield from (f"{name}.{key}" for key, inner in members(value) if not getattr(inner, "__doc__", None))


def test_public_functions_and_classes_are_documented() -> None:
    modules = [module for module in map(load, MODULES) if module is not None]
    wrong = [f"{module.__name__}: {name}" for module in modules for name in undocumented(module)]
    assert not wrong, "\n".join(wrong)


def test_docstrings_name_every_argument() -> None:
    """Where a docstring lists arguments, it lists all of them, by their names."""
    wrong = []
    for path in MODULES:
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if not isinstance(node, ast.FunctionDef) or node.name.startswith("_"):
                continue
            docstring = ast.get_docstring(node) or ""
            if "Args:\n" not in docstring:
                continue
            listed = docstring.split("Args:\n")[1].split("\n\n")[0]
            arguments = [argument.arg for argument in [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]]
            wrong += [
                f"{name_of(path)}:{node.lineno}: {node.name}({argument})"
                for argument in arguments
                if argument not in ("self", "cls") and f"{argument}:" not in listed and f"{argument} (" not in listed
            ]
    assert not wrong, "\n".join(wrong)


def test_the_top_level_names() -> None:
    assert StaICC.__all__ == sorted(StaICC.__all__, key=place_of)
    for name in StaICC.__all__:
        value = getattr(StaICC, name)
        if name != "__version__":
            assert value.__doc__, name
    documented = {"Normal", "Triplet_bias", "GLER", "Template_sens", "Demo_sens"}
    assert documented | {"Contextual_bias", "Domain_bias", "Post_bias"} <= set(StaICC.__all__)


def test_private_names_are_not_imported_from_other_modules() -> None:
    wrong = []
    for path in MODULES:
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("StaICC"):
                wrong += [
                    f"{name_of(path)}: {alias.name}"
                    for alias in node.names
                    if alias.name.startswith("_") and not alias.name.startswith("__")
                ]
    assert not wrong, "\n".join(wrong)


def test_nothing_is_printed_by_library_code() -> None:
    """Only the command line prints (the release prints its progress; defect 18)."""
    wrong = []
    for path in MODULES:
        if "cli" in path.parts or path.name == "__main__.py":
            continue
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print":
                wrong.append(f"{name_of(path)}:{node.lineno}")
    assert not wrong, "\n".join(wrong)


def test_the_names_of_the_package_are_listed_once_and_are_its_own() -> None:
    for name in StaICC.__all__:
        getattr(StaICC, name)
    listed = dir(StaICC)
    assert len(listed) == len(set(listed))
    assert set(StaICC.__all__) <= set(listed)
    assert not {"Any", "TYPE_CHECKING", "annotations", "importlib"} & set(listed)
