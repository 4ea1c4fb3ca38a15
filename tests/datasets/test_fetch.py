"""Fetching with pip: a real pip without a network, and a false one that does everything wrong."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from pathlib import Path

import pytest

import StaICC.datasets.pack as pack
from StaICC.datasets.pack import fetch_wheel
from StaICC.errors import DataDamagedError, DataMissingError

NAME = "StaICC-0.1.1-py3-none-any.whl"
DATA = b"the published wheel"
SHA = hashlib.sha256(DATA).hexdigest()

FALSE_PIP = """
import os, pathlib, sys
arguments = sys.argv[1:]
with open(os.environ["FALSE_PIP_LOG"], "a") as log:
    log.write("\\t".join([os.getcwd(), *arguments]) + "\\n")
folder = pathlib.Path(arguments[arguments.index("--dest") + 1])
act = os.environ["FALSE_PIP_ACT"]
if act == "network":
    print("WARNING: Retrying (Retry(total=4)) after connection broken")
    print("ERROR: No matching distribution found for it", file=sys.stderr)
    sys.exit(1)
if act == "silent":
    sys.exit(3)
if act == "noise":
    sys.stdout.buffer.write(b"\\xff\\xfe\\n" * 100_000)
if act == "other":
    (folder / "other-1.0-py3-none-any.whl").write_bytes(b"x")
if act == "changed":
    (folder / "%(name)s").write_bytes(b"another wheel")
if act in ("good", "noise"):
    (folder / "%(name)s").write_bytes(b"the published wheel")
"""


@pytest.fixture
def false_pip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """``python -m pip`` runs our module; it does what FALSE_PIP_ACT says and logs how it was called."""
    (tmp_path / "modules" / "pip").mkdir(parents=True)
    (tmp_path / "modules" / "pip" / "__init__.py").touch()
    (tmp_path / "modules" / "pip" / "__main__.py").write_text(FALSE_PIP % {"name": NAME})
    log = tmp_path / "log"
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "modules"))
    monkeypatch.setenv("FALSE_PIP_LOG", str(log))
    monkeypatch.setenv("FALSE_PIP_ACT", "good")
    monkeypatch.delenv("STAICC_OFFLINE", raising=False)
    return log


def fetch(into: Path) -> Path:
    into.mkdir(parents=True, exist_ok=True)
    return fetch_wheel("StaICC==0.1.1", NAME, SHA, into)


def kept(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_the_users_own_pip_is_asked(tmp_path: Path, false_pip: Path, file_name: Callable[[str], str]) -> None:
    into = tmp_path / "deep" / file_name("größer and smaller")
    wheel = fetch(into)
    assert wheel == into / NAME
    assert wheel.read_bytes() == DATA
    assert kept(into) == [wheel.name], "nothing else is left"
    folder, *arguments = false_pip.read_text(encoding="utf-8").strip().split("\t")
    assert arguments[0] == "download"
    assert arguments[-1] == "StaICC==0.1.1"
    assert {"--no-deps", "--only-binary=:all:", "--no-input"} <= set(arguments)
    assert Path(folder) == into, "pip runs in the empty folder, not in the user's folder"


@pytest.mark.parametrize(
    ("act", "message"),
    [
        ("network", "exit status 1: ERROR: No matching distribution found for it; it could not connect"),
        ("silent", "exit status 3: it said nothing"),
        ("other", "pip brought other-1.0-py3-none-any.whl"),
        ("nothing", "pip brought nothing"),
    ],
)
def test_failures_of_pip(
    act: str, message: str, tmp_path: Path, false_pip: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FALSE_PIP_ACT", act)
    into = tmp_path / "into"
    with pytest.raises(DataMissingError) as caught:
        fetch(into)
    assert message in str(caught.value)
    assert NAME in str(caught.value)
    assert NAME not in kept(into)


def test_a_wheel_is_taken_if_its_digest_is_right(
    tmp_path: Path, false_pip: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FALSE_PIP_ACT", "noise")  # output that is no text
    assert fetch(tmp_path / "into").read_bytes() == DATA
    monkeypatch.setenv("FALSE_PIP_ACT", "changed")
    with pytest.raises(DataDamagedError) as caught:
        fetch(tmp_path / "into")
    assert {SHA, hashlib.sha256(b"another wheel").hexdigest()} <= set(re.split(r"[^0-9a-f]", str(caught.value)))


@pytest.mark.parametrize(("value", "offline"), [("1", True), ("yes", True), ("", False), ("0", False)])
def test_offline(value: str, offline: bool, tmp_path: Path, false_pip: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STAICC_OFFLINE", value)
    if offline:
        with pytest.raises(DataMissingError, match="STAICC_OFFLINE forbids fetching it"):
            fetch(tmp_path / "into")
    else:
        assert fetch(tmp_path / "into").read_bytes() == DATA
    assert false_pip.exists() is not offline


# -- without pip


def test_no_address_is_in_the_code() -> None:
    """Only pip knows where a wheel comes from, so a mirror serves every download."""
    package = Path(pack.__file__).parent
    addresses = {
        address
        for path in package.rglob("*.py")
        for address in re.findall(r"\w+://[^\s\"'`)<]*", path.read_text("utf-8"))
    }
    assert addresses <= {"https://example.org"}
    assert len(list(package.rglob("*.py"))) > 4
