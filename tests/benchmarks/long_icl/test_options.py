"""Every option of LongICL that changes a number is in the signature."""

from __future__ import annotations

import shutil
import zlib
from pathlib import Path
from typing import Any

import pytest

from StaICC.benchmarks import Statistics
from StaICC.benchmarks.long_icl import Experiment
from StaICC.results import Result
from tests.benchmarks.long_icl.conftest import make

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
NO_NUMBER: dict[str, list[Any]] = {"data_dir": ["copy"], "verify": [False], "announce": [print]}
"""Other values of the options that change no number."""


@pytest.fixture(scope="module")
def folders(small_files: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("options")
    for name in ("small", "copy", "changed"):
        shutil.copytree(small_files, home / name)
    path = home / "changed" / "discovery_test.tsv"
    path.write_text(path.read_text("utf-8").replace("text", "word"), "utf-8", newline="")
    return home


def run(home: Path, **options: Any) -> Result:
    options = {"datasets": ["discovery", "tacred"], "verify": True, **options}  # without published digests

    def model(prompt: str, label_space: list[str]) -> str:
        return label_space[zlib.crc32(prompt.encode()) % 3]

    return make(home / options.pop("data_dir", "small"), **options)(model)


def numbers(result: Result) -> dict[str, Any]:
    left_out = ("signature", "provenance", "timing", "environment", "with_divided")
    return {key: value for key, value in result.to_dict().items() if key not in left_out}


@pytest.fixture(scope="module")
def base(folders: Path) -> Result:
    return run(folders)


@pytest.mark.parametrize(("name", "value"), [(name, value) for name in IN_SIGNATURE for value in IN_SIGNATURE[name]])
def test_an_option_that_changes_a_number_is_in_the_signature(
    folders: Path, base: Result, name: str, value: Any
) -> None:
    other = run(folders, **{name: value})
    assert numbers(base) != numbers(other)
    assert base.signature.differences(other.signature)


@pytest.mark.parametrize(("name", "value"), [(name, value) for name in NO_NUMBER for value in NO_NUMBER[name]])
def test_other_options_change_no_number(folders: Path, base: Result, name: str, value: Any) -> None:
    other = run(folders, **{name: value})
    assert numbers(base) == numbers(other)
    assert base.signature == other.signature


@pytest.mark.parametrize("variant", ["published", "strict"])
@pytest.mark.parametrize("name", ["discovery", "tacred", "few_nerd", "dialogre"])
def test_a_test_number_above_the_number_of_items_is_none(small_files: Path, name: str, variant: str) -> None:
    def signature(number: int | None) -> Any:
        return make(small_files, [name], [1], number, variant=variant).signature()

    items = make(small_files, [name], [1], None, variant=variant)[0].test_items
    count = sum(len(item.gold) if name == "dialogre" else 1 for item in items)
    assert {signature(number) for number in (count, count + 1, 10**9)} == {signature(None)}
    assert signature(None).fields["rows"] == "all"
    assert signature(count - 1).fields["rows"] == str(count - 1)
