"""Public names: there, and not private names of other modules. (Ruff checks order and docstrings.)"""

from __future__ import annotations

import ast
import importlib
from pathlib import Path

import StaICC

ROOT = Path(StaICC.__file__).parents[1]
TREES = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): ast.parse(path.read_text("utf-8"))
    for path in sorted((ROOT / "StaICC").rglob("*.py"))
}
PASSING_ON = {f"StaICC.{name}" for name in ("benchmarks", "datasets", "inference", "metrics", "prompting", "results")}


def test_every_module_can_be_imported_and_has_the_names_that_it_lists() -> None:
    for name, tree in TREES.items():
        if name == "StaICC.__main__":
            continue
        try:
            module = importlib.import_module(name)
        except ImportError as error:
            if "torch" in str(error) or "transformers" in str(error):
                continue  # an extra that is not installed
            raise
        imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
        passed_on = [alias.name for node in imports for alias in node.names if alias.asname == alias.name]
        listed = getattr(module, "__all__", passed_on)
        assert [public for public in listed if not hasattr(module, public)] == [], name
        assert len(set(listed)) == len(listed), name
        assert name not in PASSING_ON or len(listed) > 9, name


def test_the_top_level_names() -> None:
    for name in StaICC.__all__:
        assert name == "__version__" or getattr(StaICC, name).__doc__, name
    documented = {"Normal", "Triplet_bias", "GLER", "Template_sens", "Demo_sens"}
    assert documented | {"Contextual_bias", "Domain_bias", "Post_bias"} <= set(StaICC.__all__)
    listed = dir(StaICC)
    assert len(listed) == len(set(listed))
    assert set(StaICC.__all__) <= set(listed)
    assert not {"Any", "TYPE_CHECKING", "annotations", "importlib"} & set(listed)
