"""``python -m StaICC cite``."""

from __future__ import annotations

import re

import pytest

from StaICC.cli import main
from StaICC.datasets import cite, names


def entries(text: str) -> list[str]:
    return re.findall(r"^@\w+\{([^,]+),", text, re.MULTILINE)


def test_the_benchmark_and_the_ten(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cite"]) == 0
    text = capsys.readouterr().out
    assert entries(text)[0] == "cho2025staicc"
    assert len(set(entries(text))) == len(entries(text)), "BibTeX refuses a duplicate key"
    for name in names():
        assert set(entries(cite(name))) <= set(entries(text))


def everything() -> list[str]:
    """Every name that ``run`` takes for a benchmark, a data set or a method, and those that results carry."""
    from StaICC.benchmarks.long_icl import cards
    from StaICC.benchmarks.tasks import BENCHMARKS
    from StaICC.methods.run import METHODS

    carried = ["Normal", "Contextual_bias", "Domain_bias", "Post_bias", "GLER", "Template_sens", "Demo_sens", "LongICL"]
    return [*names(), "mini", *cards(), *METHODS, *BENCHMARKS, "long-icl", *carried]


def test_everything_that_can_be_run_can_be_cited(capsys: pytest.CaptureFixture[str]) -> None:
    for name in everything():
        assert main(["cite", name]) == 0
        text = capsys.readouterr().out
        assert entries(text)[0] == "cho2025staicc"
        assert text.count("{") == text.count("}"), name
