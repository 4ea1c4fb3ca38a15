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
    assert len(set(entries(text))) == len(entries(text)), "BibTeX refuses a key that stands twice"
    for name in names():
        assert set(entries(cite(name))) <= set(entries(text))


def test_the_braces_of_every_entry_close(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cite"]) == 0
    text = capsys.readouterr().out
    assert text.count("{") == text.count("}")
    assert text.endswith("}\n")


def test_named_data_sets(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cite", "trec", "TREC"]) == 0
    text = capsys.readouterr().out
    assert set(entries(cite("TREC"))) < set(entries(text))
    assert len(entries(text)) == 1 + len(entries(cite("TREC")))


def everything() -> list[str]:
    """Every name that ``run`` takes for a benchmark, a data set or a method, and those that results carry."""
    from StaICC.benchmarks import catalogue
    from StaICC.benchmarks.long_icl import cards
    from StaICC.methods.run import METHODS

    carried = ["Normal", "Contextual_bias", "Domain_bias", "Post_bias", "GLER", "Template_sens", "Demo_sens", "LongICL"]
    return [*names(), "mini", *cards(), *METHODS, *catalogue.BENCHMARKS, "long-icl", *carried]


@pytest.mark.parametrize("name", everything())
def test_everything_that_can_be_run_can_be_cited(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cite", name]) == 0
    text = capsys.readouterr().out
    assert entries(text)[0] == "cho2025staicc"
    assert text.count("{") == text.count("}")


def test_an_unknown_name_suggests_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cite", "TREK"]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert re.match(r"staicc: there is no .*data set.* 'TREK'; did you mean 'TREC'\?", captured.err)
