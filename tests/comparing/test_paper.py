"""The paragraph and the table for a paper: each number is one of the results, each name is escaped, and it compiles."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from StaICC import GLER, Method, Normal, Statistics, load_kernel
from StaICC.cli import main
from StaICC.comparing.citing import entries
from StaICC.comparing.comparison import compare
from StaICC.comparing.paper import paper_text, works_of
from StaICC.results.result import Result

HOSTILE = r"50% of $a_b & {c}~^\d#"
"""A name of a run with all special characters of LaTeX."""


def run(k: int, function: Any = None, **settings: Any) -> Result:
    return Normal(k=k, datasets=["mini"], limit=24)(function or load_kernel("ppm"), **settings)


@pytest.fixture(scope="module")
def runs() -> dict[str, Result]:
    return {"one": run(1), HOSTILE: run(4)}


def test_the_paragraph_has_scores_test_signatures_and_citations(runs: dict[str, Result]) -> None:
    text = paper_text(runs)
    for result in runs.values():
        mean = result["Averaged results"]["accuracy"]
        interval = result.means.intervals["accuracy"]
        assert f"a mean accuracy of ${mean:.3f}$" in text
        assert f"confidence interval ${interval.low:.3f}$ to ${interval.high:.3f}$" in text
        assert result.signature.fields["prompts"] in text
    compared = compare(*runs.values()).overall
    assert " minus " in text
    assert f": ${compared.difference:+.3f}$" in text
    assert f"$p = {compared.holm:.3g}$" in text
    assert r"\cite{gaffke2005three}" in text
    keys = {key for keys in re.findall(r"\\cite\{(.*?)\}", text) for key in keys.split(",")}
    printed = "\n".join(entries([work for result in runs.values() for work in works_of(result)]))
    assert all(f"{{{key}," in printed for key in keys)


def test_the_caption_has_no_digest(runs: dict[str, Result]) -> None:
    (caption,) = re.findall(r"\\caption\{.*\}", paper_text(runs))
    assert not re.search(r"[0-9a-f]{12}", caption)


def test_every_special_character_is_escaped(runs: dict[str, Result]) -> None:
    text = paper_text(runs)
    assert HOSTILE not in text
    assert r"50\% of \$a\_b \& \{c\}\textasciitilde{}\textasciicircum{}\textbackslash{}d\#" in text
    rows = re.findall(r"(?s)\\toprule(.*?)\\bottomrule", text)[0].replace(r"\midrule", "").split("\\\\\n")
    columns = [len(re.findall(r"(?<!\\)&", row)) for row in rows if row.strip()]
    assert set(columns) == {4}


def test_partial_runs_are_marked(runs: dict[str, Result]) -> None:
    def fails_sometimes(prompt: str, label_space: list[str]) -> list[float]:
        if "rain" in prompt:
            raise ValueError("no")
        return [1.0, 0.0, 0.0]

    partial = run(4, fails_sometimes, on_error="collect")
    text = paper_text({"whole": runs["one"], "partial": partial}, rows="means")
    (row,) = re.findall(r"(?m)^partial &.*$", text)
    assert "$^{*}$" in row
    assert "$^{*}$: some queries have no score" in text
    assert "$^{*}$" not in paper_text(runs)


def test_means_and_data_sets_are_rows(runs: dict[str, Result]) -> None:
    assert re.search(r"(?m)^mini & \$0\.\d{3}\$ & \$0\.\d{3}\$ &", paper_text(runs, rows="datasets"))
    assert re.search(r"(?m)^one & \$0\.\d{3}\$ \[", paper_text(runs, rows="means"))
    several = {f"run {number}": runs["one"] for number in range(3)}
    assert re.search(r"(?m)^run 2 &", paper_text(several))


def test_the_commands_print_the_paper_and_its_bibtex(
    tmp_path: Path, runs: dict[str, Result], capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "one.json"
    runs["one"].save(path)
    assert main(["export", "paper", str(path)]) == 0
    assert r"\toprule" in capsys.readouterr().out
    assert main(["cite", str(path)]) == 0
    printed = capsys.readouterr().out
    assert "@article{cho2025staicc," in printed
    assert "@misc{staicc_mini," in printed
    assert "@article{gaffke2005three," in printed


def test_latex_compiles(tmp_path: Path, runs: dict[str, Result]) -> None:
    if shutil.which("pdflatex") is None:
        pytest.skip(
            "LaTeX is not installed (Debian: texlive-latex-recommended), so the document cannot be compiled; "
            "tests/test_hostile_texts.py checks without it that texts are escaped"
        )
    (tmp_path / "paper.tex").write_text(paper_text(runs), encoding="utf-8")
    document = r"\documentclass{article}\usepackage{booktabs}\begin{document}\input{paper}\end{document}"
    (tmp_path / "document.tex").write_text(document, encoding="utf-8")
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "document"]
    finished = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert finished.returncode == 0, finished.stdout[-800:]


def test_the_caption_names_the_level_of_the_intervals(runs: dict[str, Result]) -> None:
    at_90 = measured(Statistics(level=0.9))
    without = measured(Statistics(intervals=False))
    assert r"with 90\,\% confidence intervals in brackets" in caption_of(paper_text({"at 90": at_90}))
    both = caption_of(paper_text({"one": runs["one"], "at 90": at_90}))
    assert r"with confidence intervals in brackets (95\,\% for one, 90\,\% for at 90)" in both
    assert "brackets" not in caption_of(paper_text({"without": without}))


def test_a_slope_is_no_accuracy_and_lower_is_better() -> None:
    text = paper_text({"noise": GLER(datasets=["mini"], limit=8)(load_kernel("ppm"))})
    assert "a mean slope of accuracy of" in text
    assert "a mean accuracy" not in text
    assert "slope of accuracy (lower is better)" in caption_of(text)
    assert "Lower values of the score, slope of accuracy, are better." in text


def test_a_shared_method_is_cited() -> None:
    calibrated, other_k = (
        Method("batch_calibration", load_kernel("ppm")).run(Normal(k=k, datasets=["mini"], limit=8)) for k in (2, 3)
    )
    for other in (other_k, run(3)):
        assert r"method batch\_calibration paper~\cite{zhou2024batch}" in paper_text({"a": calibrated, "b": other})


def test_the_difference_says_what_is_subtracted_and_each_key_is_cited_once(runs: dict[str, Result]) -> None:
    text = paper_text({"one": runs["one"], "other": runs[HOSTILE]})
    assert "one minus other: $" in text
    assert "of StaICC~\\cite{cho2025staicc} (" in text


def test_queries_that_count_at_their_worst_are_compared(runs: dict[str, Result]) -> None:
    def fails_sometimes(prompt: str, label_space: list[str]) -> list[float]:
        if "rain" in prompt:
            raise ValueError("no")
        return [1.0, 0.0, 0.0]

    text = paper_text({"whole": runs["one"], "partial": run(4, fails_sometimes, on_error="collect")})
    assert "Not compared" not in text
    assert "About the comparison: mini: " in text


def test_a_line_may_end_between_the_settings_of_a_model(runs: dict[str, Result]) -> None:
    text = paper_text({"one": runs["one"]})
    assert "escape=C;order=12" in str(runs["one"].signature)
    assert r"escape=C;\allowbreak order=12" in text


def measured(statistics: Statistics) -> Result:
    return Normal(k=2, datasets=["mini"], limit=24, statistics=statistics)(load_kernel("ppm"))


def caption_of(text: str) -> str:
    (caption,) = re.findall(r"\\caption\{(.*)\}", text)
    return str(caption)
