"""Assertions whose failure would only say ``assert False``."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
MODULES = [path for path in sorted(TESTS.rglob("*.py")) if "performance" not in path.relative_to(TESTS).parts]


def hides_its_case(assertion: ast.Assert) -> bool:
    """Whether an assertion is about ``all`` or ``any`` of a generator, which pytest cannot show, without a message."""
    test = assertion.test
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        test = test.operand
    if assertion.msg is not None or not isinstance(test, ast.Call):
        return False
    is_all_or_any = isinstance(test.func, ast.Name) and test.func.id in ("all", "any")
    return is_all_or_any and isinstance(test.args[0], ast.GeneratorExp)


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("assert all(word in text for word in words)", True),
        ("assert not any(word in text for word in words)", True),
        ("assert any(word in text for word in words), text", False),
        ("assert [word for word in words if word not in text] == []", False),
        ("assert is_sorted(words)", False),
    ],
)
def test_a_hidden_case_is_recognised(code: str, expected: bool) -> None:
    (assertion,) = ast.parse(code).body
    assert isinstance(assertion, ast.Assert)
    assert hides_its_case(assertion) is expected


@pytest.mark.parametrize("module", MODULES, ids=lambda path: path.relative_to(TESTS).as_posix())
def test_a_failure_shows_which_case_failed(module: Path) -> None:
    hidden = []
    for node in ast.walk(ast.parse(module.read_text("utf-8"))):
        if isinstance(node, ast.Assert) and hides_its_case(node):
            hidden.append(f"line {node.lineno}: {ast.unparse(node)}")
    assert hidden == [], "write `assert [case for case in cases if not right(case)] == []`, or add a message"
