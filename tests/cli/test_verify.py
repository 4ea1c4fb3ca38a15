"""``python -m StaICC verify``."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from StaICC.results.files import with_digests
from StaICC.results.result import load
from tests.result_edits import edited

Cli = Callable[..., tuple[int, str, str]]


@pytest.fixture(autouse=True)
def saved(staicc: Cli) -> None:
    """The working folder has a result."""
    assert staicc("run", "normal", "--datasets", "mini", "--limit", "3", "--json", "r.json")[0] == 0


def changed(*path: str, value: Any, digests: bool = False) -> str:
    """Save the result with another value, and with digests that fit if wanted; the name of the file."""
    data = edited(json.loads(Path("r.json").read_text("utf-8")), path, value)
    Path(f"{path[-1]}.json").write_text(json.dumps(with_digests(data) if digests else data), "utf-8")
    return f"{path[-1]}.json"


def test_a_result_of_this_library(staicc: Cli) -> None:
    status, out, _ = staicc("verify", "r.json")
    assert status == 0
    *lines, recorded = out.splitlines()
    assert lines == [
        "recomputed  Normal: the digests are the same",
        "recomputed  Normal, mini: the 6 prompts are the same",
        "recomputed  Normal: the means, the signature and the provenance",
    ]
    assert recorded.startswith("recorded by the run, not computed again: times, ")
    file, mini, means = json.loads(staicc("verify", "r.json", "--json")[1])
    expected = {"file": "r.json", "benchmark": "Normal", "dataset": "mini", "status": "recomputed", "same": True}
    expected |= {"message": "the 6 prompts are the same", "first_difference": None}
    assert mini == expected | {"contradicted": [], "unchecked": []}
    assert file["dataset"] is means["dataset"] is None
    Path("printed.json").write_text(staicc("run", "normal", "--datasets", "mini", "--limit", "3", "--json", "-")[1])
    assert "the digests are the same" in staicc("verify", "printed.json")[1]


def test_a_contradicted_data_set_is_not_called_the_same(staicc: Cli) -> None:
    status, out, _ = staicc("verify", changed("Divided results", "mini", "accuracy", value=0.875))
    assert status == 1
    assert "CONTRADICTED  Normal, mini: saved values differ (the 6 prompts are the same)\n" in out


def test_statuses_of_several_files(staicc: Cli) -> None:
    accuracy = changed("Averaged results", "accuracy", value=0.875)
    version = changed("signature", "version", value="2.0.0", digests=True)
    status, out, _ = staicc("verify", "r.json", accuracy)
    assert status == 1
    assert out.startswith("recomputed  r.json: Normal, 1 data set\n")
    assert "CONTRADICTED  Normal: the digests differ\n" in out
    assert "    Averaged results / accuracy: saved 0.875, recomputed 0." in out
    for files, expected in (
        (["r.json", version], 3),
        (["r.json", version, accuracy], 1),
        (["r.json", "none.json"], 2),
        ([accuracy, "none.json", version], 2),
    ):
        assert staicc("verify", *files)[0] == expected


def test_each_good_result_of_several_is_one_line(staicc: Cli) -> None:
    for number in range(16):
        shutil.copy("r.json", f"copy{number}.json")
    status, out, _ = staicc("verify", *[f"copy{number}.json" for number in range(16)])
    assert status == 0
    assert out.splitlines() == [f"recomputed  copy{number}.json: Normal, 1 data set" for number in range(16)]


def test_what_nothing_computes_again_is_status_3(staicc: Cli) -> None:
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


def test_an_honest_result_is_predicted_again(staicc: Cli) -> None:
    status, first, _ = staicc(*AGAIN, "4", "--seed", "7")
    assert status == 0
    assert "4 of 6 queries predicted again (seed 7): 0 differ" in first
    assert "accuracy of the 4 queries" in first
    assert "confirmed as" in first
    assert staicc(*AGAIN, "4", "--seed", "7")[1] == first
    assert staicc(*AGAIN, "6", "-o", "again.json")[0] == 0
    assert staicc("verify", "again.json")[0] == 0
    assert any("6 of 6 on mini" in warning for warning in load("again.json").warnings), (
        f"got {load('again.json').warnings}"
    )
    seeds = {staicc(*AGAIN, "4")[1].partition("(seed ")[2].partition(")")[0] for _ in range(3)}
    assert len(seeds) == 3
    status, out, _ = staicc(*AGAIN, "20", "--model-option", "order=2")
    assert status == 3, "a model with other options proves nothing"
    assert "give the options of the run" in out
