"""What all tests share: the golden file of the release, and the frozen data where it can be had."""

from __future__ import annotations

import importlib.util
import json
import os
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

settings.register_profile("staicc", deadline=None)  # timings of a busy machine are no bugs
settings.load_profile("staicc")

GOLDEN = Path(__file__).parent / "golden"
REQUIRE = "STAICC_REQUIRE_PACK"
"""Environment variable: with ``1``, tests that need the frozen data fail where it cannot be had."""

REQUIRE_EXTRAS = "STAICC_REQUIRE_EXTRAS"
"""Environment variable: with ``1``, examples and blocks of the docs fail where an optional package is missing."""

_absent: list[str] = []


@pytest.fixture(scope="session")
def golden() -> dict[str, Any]:
    """What the released 0.1.1 really does (see golden/README.md)."""
    return json.loads((GOLDEN / "staicc_0_1_1.json").read_text("utf-8"))


@pytest.fixture(scope="session")
def need() -> Callable[[Iterable[str], str], None]:
    """A function of (packages, what needs them) that skips a test where an optional package is missing."""

    def check(packages: Iterable[str], what: str) -> None:
        missing = sorted(name for name in packages if importlib.util.find_spec(name) is None)
        if missing:
            reason = f"{what} needs {', '.join(missing)}: optional packages, which CONTRIBUTING.md says how to install"
            if os.environ.get(REQUIRE_EXTRAS) == "1":
                pytest.fail(f"{REQUIRE_EXTRAS}=1, but {reason}", pytrace=False)
            warnings.warn(f"did not run: {reason}", stacklevel=2)
            pytest.skip(reason)

    return check


@pytest.fixture(scope="session")
def pack() -> None:
    """The frozen data, installed. Tests marked ``pack`` get it by themselves."""
    from StaICC.datasets import names
    from StaICC.datasets.pack import ensure_installed
    from StaICC.errors import DataMissingError

    try:
        ensure_installed(names())
    except DataMissingError as error:
        _absent.append(str(error))
        if os.environ.get(REQUIRE) == "1":
            pytest.fail(f"{REQUIRE}=1, but the frozen data cannot be had: {error}", pytrace=False)
        pytest.skip(f"the frozen data cannot be had: {error}")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.get_closest_marker("pack") and "pack" not in item.fixturenames:
            item.fixturenames.insert(0, "pack")


def pytest_terminal_summary(terminalreporter: Any) -> None:
    if _absent:
        terminalreporter.section("TESTS OF THE FROZEN DATA DID NOT RUN", yellow=True, bold=True)
        terminalreporter.line(_absent[0])
        terminalreporter.line("Install it with: python -m StaICC data install")
