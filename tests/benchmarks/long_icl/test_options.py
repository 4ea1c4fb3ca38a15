"""Every option of LongICL that changes a number is in the signature."""

from __future__ import annotations

import inspect
import shutil
import zlib
from pathlib import Path
from typing import Any

import pytest

from StaICC.benchmarks import Statistics
from StaICC.benchmarks.long_icl import Experiment, LongICL
from StaICC.results import Result

EXPERIMENTS = [
    Experiment("context", (1024, 4096)),
    Experiment("shots", (0, 2)),
    Experiment("position", (3,), 1),
    Experiment("controls", (), 1),
]

IN_SIGNATURE: dict[str, list[Any]] = {
    "data_dir": ["changed"],
    "datasets": [["tacred"]],
    "rounds": [[1], [2, 1]],
    "test_number": [None, 5],
    "instruct": [True],
    "variant": ["strict"],
    "arrangement": ["grouped"],
    "parsing": ["strict", "tolerant"],
    "unparsed": ["excluded"],
    "experiment": [*EXPERIMENTS, *(Experiment("order", (2,), shots=2, seed=seed) for seed in (0, 1))],
    "statistics": [Statistics(level=0.8), Statistics(level=0.9)],
}
"""Other values of the options that are in the signature."""

NO_NUMBER: dict[str, list[Any]] = {
    "data_dir": ["copy"],
    "verify": [False],
    "announce": [print],
}
"""Other values of the options that change no number."""


def cases(options: dict[str, list[Any]]) -> list[tuple[str, Any]]:
    return [(name, value) for name, values in options.items() for value in values]


def model(prompt: str, label_space: list[str]) -> str:
    return label_space[zlib.crc32(prompt.encode()) % 3]


@pytest.fixture
def options(small: Path) -> dict[str, Any]:
    for name in ("copy", "changed"):
        shutil.copytree(small, small.parent / name)
    path = small.parent / "changed" / "discovery_test.tsv"
    path.write_text(path.read_text("utf-8").replace("text", "word"), "utf-8", newline="")
    data_sets = ["discovery", "tacred"]  # without published digests, so verify=True accepts them
    quiet = {"announce": lambda notice: None}
    return {"data_dir": small, "datasets": data_sets, "rounds": [1, 2], "test_number": 30, "verify": True, **quiet}


def run(options: dict[str, Any], name: str, value: Any) -> Result:
    if name == "data_dir":
        value = options["data_dir"].parent / value
    if name == "experiment":
        options = {key: given for key, given in options.items() if key != "rounds"}  # conditions replace them
    return LongICL(**{**options, name: value})(model)


def numbers(result: Result) -> dict[str, Any]:
    left_out = ("signature", "provenance", "timing", "environment", "with_divided")
    return {key: value for key, value in result.to_dict().items() if key not in left_out}


def test_every_option_is_listed() -> None:
    assert set(inspect.signature(LongICL).parameters) == IN_SIGNATURE.keys() | NO_NUMBER.keys()


@pytest.mark.parametrize(("name", "value"), cases(IN_SIGNATURE))
def test_an_option_that_changes_a_number_is_in_the_signature(options: dict[str, Any], name: str, value: Any) -> None:
    base, other = LongICL(**options)(model), run(options, name, value)
    assert numbers(base) != numbers(other)
    assert base.signature.differences(other.signature)


@pytest.mark.parametrize(("name", "value"), cases(NO_NUMBER))
def test_other_options_change_no_number(options: dict[str, Any], name: str, value: Any) -> None:
    base, other = LongICL(**options)(model), run(options, name, value)
    assert numbers(base) == numbers(other)
    assert base.signature == other.signature


@pytest.mark.parametrize("variant", ["published", "strict"])
@pytest.mark.parametrize("name", ["discovery", "tacred", "few_nerd", "dialogre"])
def test_a_test_number_above_the_number_of_items_is_none(options: dict[str, Any], name: str, variant: str) -> None:
    options |= {"datasets": [name], "variant": variant, "verify": False}
    base = run(options, "test_number", None)
    test_items = LongICL(**options | {"test_number": None})[0].test_items
    items = sum(len(item.gold) if name == "dialogre" else 1 for item in test_items)
    for number in (items, items + 1, 10**9):
        assert run(options, "test_number", number) == base
    assert base.signature.fields["rows"] == "all"
    assert run(options, "test_number", items - 1).signature.fields["rows"] == str(items - 1)


def test_a_test_number_that_cuts_some_data_sets_only(options: dict[str, Any]) -> None:
    sizes = sorted(len(one.test_items) for one in LongICL(**options | {"test_number": None}))
    assert sizes[0] < sizes[1]
    fields = LongICL(**options | {"test_number": sizes[0]}).signature().fields
    assert fields["rows"] == str(sizes[0])
