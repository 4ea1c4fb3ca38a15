"""Assertions whose failure would only say ``assert False``."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
MODULES = [path for path in sorted(TESTS.rglob("*.py")) if "performance" not in path.relative_to(TESTS).parts]


def hides_its_case(assertion: ast.Assert) -> bool:
    """Whether an assertion without a message is ``all(...)`` or ``any(...)``, of which pytest shows the value only.

    It may also be ``not``, ``and`` or ``or`` of such calls.
    """
    if assertion.msg is not None:
        return False
    conditions = [assertion.test]
    while conditions:
        condition = conditions.pop()
        if isinstance(condition, ast.UnaryOp) and isinstance(condition.op, ast.Not):
            conditions.append(condition.operand)
        elif isinstance(condition, ast.BoolOp):
            conditions += condition.values
        else:
            match condition:
                case ast.Call(func=ast.Name(id="all" | "any")):
                    return True
    return False


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("assert all(word in text for word in words)", True),
        ("assert not any(word in text for word in words)", True),
        ("assert any(word in text for word in words), text", False),
        ("assert [word for word in words if word not in text] == []", False),
        ("assert is_sorted(words)", False),
        ("assert all(map(is_word, words))", True),
        ("assert all([word in text for word in words])", True),
        ("assert words and all(word in text for word in words)", True),
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
