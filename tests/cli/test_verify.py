"""``python -m StaICC verify``."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from StaICC.results.files import with_digests
from StaICC.results.result import load
from tests.cli.conftest import Cli
from tests.result_edits import edited


@pytest.fixture(autouse=True)
def saved(staicc: Cli) -> None:
    """The working folder has a result of the default model on six queries."""
    assert staicc("run", "normal", "--datasets", "mini", "--limit", "3", "--json", "r.json").status == 0


def changed(*path: str, value: Any, digests: bool = False) -> str:
    """Save the result with another value, and return the name of the file, which is the last key of the path.

    Args:
        path: The keys of the value.
        value: The other value.
        digests: Whether the digests of the file fit the other value, as those of a careful forger.
    """
    data = edited(json.loads(Path("r.json").read_text("utf-8")), path, value)
    if digests:
        data = with_digests(data)
    name = f"{path[-1]}.json"
    Path(name).write_text(json.dumps(data), "utf-8")
    return name


def test_verifying_says_what_is_recomputed_and_what_is_not(staicc: Cli) -> None:
    status, out, _ = staicc("verify", "r.json")

    assert status == 0

    *recomputed, recorded = out.splitlines()
    assert recomputed == [
        "recomputed  Normal: the digests are the same",
        "recomputed  Normal, mini: the 6 prompts are the same",
        "recomputed  Normal: the means, the signature and the provenance",
    ]
    assert recorded.startswith("recorded by the run, not computed again: times, ")


def test_verifying_as_json_has_the_file_each_data_set_and_the_means(staicc: Cli) -> None:
    _, out, _ = staicc("verify", "r.json", "--json")
    file, mini, means = json.loads(out)

    assert file["dataset"] is None
    assert means["dataset"] is None
    assert mini == {
        "file": "r.json",
        "benchmark": "Normal",
        "dataset": "mini",
        "status": "recomputed",
        "same": True,
        "message": "the 6 prompts are the same",
        "first_difference": None,
        "contradicted": [],
        "unchecked": [],
    }


def test_a_result_that_was_printed_as_json_is_verified_too(staicc: Cli) -> None:
    _, printed, _ = staicc("run", "normal", "--datasets", "mini", "--limit", "3", "--json", "-")
    Path("printed.json").write_text(printed)

    _, out, _ = staicc("verify", "printed.json")

    assert "the digests are the same" in out


def test_a_contradicted_data_set_is_not_called_the_same(staicc: Cli) -> None:
    status, out, _ = staicc("verify", changed("Divided results", "mini", "accuracy", value=0.875))

    assert status == 1
    assert "CONTRADICTED  Normal, mini: saved values differ (the 6 prompts are the same)\n" in out


def test_what_differs_is_said_with_both_values(staicc: Cli) -> None:
    accuracy = changed("Averaged results", "accuracy", value=0.875)
    status, out, _ = staicc("verify", "r.json", accuracy)

    assert status == 1
    assert out.startswith("recomputed  r.json: Normal, 1 data set\n")
    assert "CONTRADICTED  Normal: the digests differ\n" in out
    assert "    Averaged results / accuracy: saved 0.875, recomputed 0." in out


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        (["r.json", "version.json"], 3),
        (["r.json", "version.json", "accuracy.json"], 1),
        (["r.json", "none.json"], 2),
        (["accuracy.json", "none.json", "version.json"], 2),
    ],
    ids=["unchecked", "contradicted before unchecked", "unreadable", "unreadable before contradicted"],
)
def test_the_status_of_several_files_is_the_worst(files: list[str], expected: int, staicc: Cli) -> None:
    """One is contradicted (1), one is of another version of StaICC (3), and one does not exist (2)."""
    changed("Averaged results", "accuracy", value=0.875)
    changed("signature", "version", value="2.0.0", digests=True)

    assert staicc("verify", *files).status == expected


def test_each_good_result_of_several_is_one_line(staicc: Cli) -> None:
    names = [f"copy{number}.json" for number in range(16)]
    for name in names:
        shutil.copy("r.json", name)

    status, out, _ = staicc("verify", *names)

    assert status == 0
    assert out.splitlines() == [f"recomputed  {name}: Normal, 1 data set" for name in names]


def test_a_result_of_a_benchmark_that_is_not_known_is_status_3(staicc: Cli) -> None:
    data = json.loads(Path("r.json").read_text("utf-8"))
    data["benchmark"] = data["signature"]["benchmark"] = "MyBench"
    data["Averaged results"]["accuracy"] = data["Divided results"]["mini"]["accuracy"] = 0.95
    Path("r.json").write_text(json.dumps(with_digests(data)))

    status, out, _ = staicc("verify", "r.json")

    assert status == 3
    assert "UNCHECKED  MyBench" in out
    assert "pass the benchmark" in out


# -- predict again

AGAIN = ["verify", "r.json", "--model", "ppm", "--rerun"]
"""The command that predicts some of the six queries again; their number follows."""


def test_queries_of_an_honest_result_are_confirmed(staicc: Cli) -> None:
    status, out, _ = staicc(*AGAIN, "4", "--seed", "7")

    assert status == 0
    assert "4 of 6 queries predicted again (seed 7): 0 differ" in out
    assert "accuracy of the 4 queries" in out
    assert "confirmed as" in out


def test_the_same_seed_draws_the_same_queries(staicc: Cli) -> None:
    assert staicc(*AGAIN, "4", "--seed", "7") == staicc(*AGAIN, "4", "--seed", "7")


def test_without_a_seed_each_draw_has_another(staicc: Cli) -> None:
    seeds = set()
    for _ in range(3):
        _, out, _ = staicc(*AGAIN, "4")
        seeds.add(re.findall(r"\(seed (\d+)\)", out)[0])

    assert len(seeds) == 3


def test_a_confirmed_result_is_saved_with_what_was_predicted_again(staicc: Cli) -> None:
    assert staicc(*AGAIN, "6", "-o", "again.json").status == 0
    assert staicc("verify", "again.json").status == 0

    warnings = load("again.json").warnings
    assert any("6 of 6 on mini" in warning for warning in warnings), warnings


def test_a_model_with_other_options_proves_nothing(staicc: Cli) -> None:
    status, out, _ = staicc(*AGAIN, "20", "--model-option", "order=2")

    assert status == 3
    assert "give the options of the run" in out


def test_a_model_of_another_kind_is_named_and_not_only_its_options(
    staicc: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "other_model.py").write_text("def predict(prompt, label_space):\n    return 0\n", "utf-8")

    status, out, _ = staicc("verify", "r.json", "--rerun", "2", "--model", "other_model:predict")

    assert status == 3
    assert "another model: " in out
    assert "model was ppm" in out
    assert "give the model and the options of the run" in out
