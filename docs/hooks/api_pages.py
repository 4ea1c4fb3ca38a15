"""A page for each module of the library, and tables of public names. The source is read, never imported."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from markup import code, plain, table

__all__ = ["ROOMS", "Module", "modules", "modules_table", "names_table", "pages"]

ROOT = Path(__file__).parents[2]
ROOMS = (
    "StaICC",
    "StaICC.files",
    "StaICC.datasets",
    "StaICC.metrics",
    "StaICC.prompting",
    "StaICC.inference",
    "StaICC.kernels",
    "StaICC.results",
    "StaICC.benchmarks",
    "StaICC.comparing",
    "StaICC.report",
    "StaICC.long_icl",
    "StaICC.methods",
    "StaICC.cli",
)
"""In the order of docs/architecture.md; inner packages are listed with their folder."""


@dataclass(frozen=True)
class Module:
    """One module, as its source says."""

    name: str
    path: Path

    @cached_property
    def tree(self) -> ast.Module:
        """The parsed source."""
        return ast.parse(self.path.read_text(encoding="utf-8"))

    @property
    def summary(self) -> str:
        """The first paragraph of the docstring."""
        return " ".join((ast.get_docstring(self.tree) or "").split("\n\n")[0].split())

    @property
    def public(self) -> list[str]:
        """Its ``__all__``; of a module without such a list, what it passes on or documents.

        A name is passed on as ``from x import a as a``. Of what it defines, names with an underscore are private.
        """
        imports = [node for node in ast.walk(self.tree) if isinstance(node, ast.ImportFrom)]
        passed_on = [alias.name for node in imports for alias in node.names if alias.asname == alias.name]
        own: list[str] = []
        for node, after in zip(self.tree.body, [*self.tree.body[1:], None], strict=True):
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                own.append(node.name)
            elif isinstance(node, (ast.Assign, ast.AnnAssign)):
                target = ast.unparse(node.targets[0] if isinstance(node, ast.Assign) else node.target)
                if target == "__all__" and isinstance(node.value, ast.List):
                    return [str(name) for name in ast.literal_eval(node.value)]
                if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
                    own.append(target)
        return sorted(passed_on) + [name for name in own if not name.startswith("_")]

    @property
    def homes(self) -> dict[str, str]:
        """Where the public names are defined that this module imports from another: name -> full name there."""
        found = {}
        for node in ast.walk(self.tree):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("StaICC"):
                found.update({one.asname or one.name: f"{node.module}.{one.name}" for one in node.names})
        return {name: found[name] for name in self.public if name in found}

    @property
    def bare(self) -> dict[str, str]:
        """Public constants that nothing is written behind: name -> value, as the source has it."""
        found = {}
        for node, after in zip(self.tree.body, [*self.tree.body[1:], None], strict=True):
            if isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value is not None:
                target = ast.unparse(node.targets[0] if isinstance(node, ast.Assign) else node.target)
                documented = isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)
                if target in self.public and not documented:
                    found[target] = ast.unparse(node.value)
        return found

    @property
    def room(self) -> str:
        """The folder that it is in."""
        return max((room for room in ROOMS if f"{self.name}.".startswith(f"{room}.")), key=len)

    @property
    def page(self) -> str:
        """Place of its page."""
        return f"api/{self.name}.md"


def modules() -> dict[str, Module]:
    """The modules by name: all but private ones and the one that runs when it is imported."""
    found = {}
    for path in sorted((ROOT / "StaICC").rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        parts = parts[:-1] if parts[-1] == "__init__" else parts
        if not any(part.startswith("_") for part in parts):
            name = ".".join(parts)
            found[name] = Module(name, path)
    return found


def _home(full: str, known: dict[str, Module]) -> str:
    """Follow a name through the packages that pass it on."""
    module, _, name = full.rpartition(".")
    while module in known and name in known[module].homes:
        module, _, name = known[module].homes[name].rpartition(".")
    return f"{module}.{name}"


def _summary(full: str, known: dict[str, Module]) -> str:
    """First sentence of the docstring of what a name means; of a constant, of the string behind it."""
    module, _, name = full.rpartition(".")
    body = known[module].tree.body
    for node, after in zip(body, [*body[1:], None], strict=True):
        text = None
        if isinstance(node, (ast.ClassDef, ast.FunctionDef)) and node.name == name:
            text = ast.get_docstring(node)
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if name in map(ast.unparse, targets) and isinstance(after, ast.Expr):
                text = str(ast.literal_eval(after.value))
        if text:
            return " ".join(text.split("\n\n")[0].split())
    return ""


def _prose(text: str) -> str:
    """The sentence without the marks of docstrings, as text that nothing can break."""
    return plain(re.sub(r":[a-z]+:`~?([^`]+)`|`+", r"\1", text))


def names_table(module: Module, known: dict[str, Module]) -> str:
    """The names that a package passes on, with what they are."""
    rows = []
    for name in module.public:
        if name in module.homes:
            home = _home(f"{module.name}.{name}", known)
            module_name, _, own = home.rpartition(".")
            value = known[module_name].bare.get(own, "")
            rows.append([f"[`{name}`][{home}]", _prose(_summary(home, known)) or code(value)])
    return table(["name", "what it is"], rows) if rows else ""


def modules_table(known: dict[str, Module]) -> str:
    """All modules by room, with what they are for."""
    parts = []
    for room in ROOMS:
        rows = [
            [f"[`{one.name}`]({one.page.removeprefix('api/')})", _prose(one.summary)]
            for one in known.values()
            if one.room == room
        ]
        parts += [f"### `{room}`", table(["module", "what it is for"], rows)]
    return "\n\n".join(parts)


def _page(module: Module, known: dict[str, Module]) -> str:
    own = [name for name in module.public if name not in module.homes]
    passed_on = names_table(module, known)
    lines = [f"---\ntitle: {module.name}\n---\n", f"::: {module.name}", "    options:", f"      members: {own}"]
    return "\n".join(lines) + (f"\n\n## Names\n\n{passed_on}\n" if passed_on else "\n")


def pages() -> dict[str, tuple[str, str]]:
    """Every generated page: place -> title in the navigation and content."""
    known = modules()
    return {module.page: (module.name, _page(module, known)) for module in known.values()}
