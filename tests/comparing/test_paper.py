"""The paragraph and the table for a paper: each number is one of the results, each name is escaped, and it compiles."""

from __future__ import annotations

import random
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from StaICC import GLER, Dataset, Identity, Method, Normal, Statistics, load_kernel
from StaICC.cli import main
from StaICC.comparing.citing import entries
from StaICC.comparing.comparison import compare, compare_runs
from StaICC.comparing.formats import format_comparisons
from StaICC.comparing.paper import paper_text, works_of
from StaICC.comparing.verdicts import Tested, p_text
from StaICC.report.latex_tables import latex_scores
from StaICC.results.result import Result

HOSTILE = r"50% of $a_b & {c}~^\d#"
"""A name of a run with all special characters of LaTeX."""


def run(k: int, function: Any = None, **settings: Any) -> Result:
    return Normal(k=k, datasets=["mini"], limit=24)(function or load_kernel("ppm"), **settings)


@pytest.fixture(scope="module")
def runs() -> dict[str, Result]:
    return {"one": run(1), HOSTILE: run(4)}


@pytest.mark.parametrize("name", ["one", HOSTILE], ids=["plain name", "name with special characters"])
def test_the_paragraph_has_the_score_and_the_signature_of_each_run(runs: dict[str, Result], name: str) -> None:
    result, text = runs[name], paper_text(runs)
    interval = result.means.intervals["accuracy"]

    assert f"a mean accuracy of ${result.averaged['accuracy']:.3f}$" in text
    assert f"confidence interval ${interval.low:.3f}$ to ${interval.high:.3f}$" in text
    assert result.signature.fields["prompts"] in text


def test_the_paragraph_has_the_test_of_two_runs(runs: dict[str, Result]) -> None:
    text = paper_text(runs)

    mean = compare(runs["one"], runs[HOSTILE]).overall
    assert " minus " in text
    assert f": ${mean.difference:+.3f}$" in text
    assert f"$p = {mean.holm:.3g}$" in text
    assert r"\cite{gaffke2005three}" in text


def test_each_citation_of_the_paragraph_has_an_entry(runs: dict[str, Result]) -> None:
    r"""A citation is ``\cite{first,second}``; the entry of a work begins with ``{first,`` after its type."""
    cited_keys = []
    for keys in re.findall(r"\\cite\{(.*?)\}", paper_text(runs)):
        cited_keys += keys.split(",")
    works = []
    for result in runs.values():
        works += works_of(result)
    bibliography = "\n".join(entries(works))

    assert cited_keys
    for key in cited_keys:
        assert f"{{{key}," in bibliography


def test_baselines_that_all_runs_share_are_stated_in_a_sentence_of_their_own(runs: dict[str, Result]) -> None:
    text = paper_text(runs)

    assert text.casefold().count("random guessing has") == 1
    assert re.search(r"\nRandom guessing has \$0\.333\$ and the majority label \$", text)


def test_baselines_in_which_runs_differ_are_stated_for_each_run(runs: dict[str, Result]) -> None:
    """A run with another number of tried settings has another random baseline."""
    best_of_ten = measured(Statistics(tried=10))

    text = paper_text({"one": runs["one"], "of ten": best_of_ten})

    assert text.count(", where random guessing has") == 2


def test_the_baseline_of_a_single_run_is_stated_with_its_score(runs: dict[str, Result]) -> None:
    assert paper_text({"one": runs["one"]}).count(", where random guessing has") == 1


def test_the_caption_has_no_digest(runs: dict[str, Result]) -> None:
    (caption,) = re.findall(r"\\caption\{.*\}", paper_text(runs))

    assert not re.search(r"[0-9a-f]{12}", caption)


def test_every_special_character_is_escaped(runs: dict[str, Result]) -> None:
    text = paper_text(runs)

    assert HOSTILE == r"50% of $a_b & {c}~^\d#"
    assert HOSTILE not in text
    assert r"50\% of \$a\_b \& \{c\}\textasciitilde{}\textasciicircum{}\textbackslash{}d\#" in text


def test_special_characters_add_no_column_to_the_table(runs: dict[str, Result]) -> None:
    (table,) = re.findall(r"(?s)\\toprule(.*?)\\bottomrule", paper_text(runs))

    rows = [row for row in table.replace(r"\midrule", "").split("\\\\\n") if row.strip()]
    ampersand_that_is_not_escaped = r"(?<!\\)&"
    for row in rows:
        assert len(re.findall(ampersand_that_is_not_escaped, row)) == 4, row


def fails_on_rain(prompt: str, label_space: list[str]) -> list[float]:
    """Predict the first label, or fail on a prompt with the word rain."""
    if "rain" in prompt:
        raise ValueError("no")
    return [1.0, 0.0, 0.0]


def test_partial_runs_are_marked(runs: dict[str, Result]) -> None:
    partial = run(4, fails_on_rain, on_error="collect")

    text = paper_text({"whole": runs["one"], "partial": partial}, rows="means")

    (row_of_partial,) = re.findall(r"(?m)^partial &.*$", text)
    assert "$^{*}$" in row_of_partial
    assert "$^{*}$: some queries have no score" in text


def test_complete_runs_have_no_mark(runs: dict[str, Result]) -> None:
    assert "$^{*}$" not in paper_text(runs)


def test_a_row_of_a_data_set_has_the_scores_of_both_runs(runs: dict[str, Result]) -> None:
    text = paper_text(runs, rows="datasets")

    assert re.search(r"(?m)^mini & \$0\.\d{3}\$ & \$0\.\d{3}\$ &", text)


def test_a_row_of_a_run_has_its_mean_and_the_interval(runs: dict[str, Result]) -> None:
    text = paper_text(runs, rows="means")

    assert re.search(r"(?m)^one & \$0\.\d{3}\$ \[", text)


def test_the_rows_of_a_table_of_three_runs_are_runs(runs: dict[str, Result]) -> None:
    text = paper_text({"run 0": runs["one"], "run 1": runs["one"], "run 2": runs["one"]})

    assert re.search(r"(?m)^run 2 &", text)


@pytest.fixture
def saved_run(tmp_path: Path, runs: dict[str, Result]) -> str:
    path = tmp_path / "one.json"
    runs["one"].save(path)
    return str(path)


def test_the_command_export_paper_prints_a_table(saved_run: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", "paper", saved_run]) == 0

    assert r"\toprule" in capsys.readouterr().out


def test_the_command_cite_prints_the_works_of_a_run(saved_run: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cite", saved_run]) == 0

    printed = capsys.readouterr().out
    assert "@article{cho2025staicc," in printed
    assert "@misc{staicc_mini," in printed
    assert "@article{gaffke2005three," in printed


def compile_latex(folder: Path, latex: str, program: str) -> subprocess.CompletedProcess[str]:
    """Compile a document with some LaTeX."""
    if shutil.which(program) is None:
        pytest.skip(
            f"{program} is not installed (Debian: texlive-latex-recommended), so the document cannot be compiled; "
            "tests/test_hostile_texts.py checks without it that texts are escaped"
        )
    (folder / "paper.tex").write_text(latex, encoding="utf-8")
    document = r"\documentclass{article}\usepackage{booktabs}\begin{document}\input{paper}\end{document}"
    (folder / "document.tex").write_text(document, encoding="utf-8")
    command = [program, "-interaction=nonstopmode", "-halt-on-error", "document"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, check=False)


def test_latex_compiles(tmp_path: Path, runs: dict[str, Result]) -> None:
    finished = compile_latex(tmp_path, paper_text(runs), "pdflatex")

    assert finished.returncode == 0, finished.stdout[-800:]


LATIN_NAME = "Zoë – “Łódź”"
NAMES_OF_OTHER_SCRIPTS = ("模型", "модель 🙂")


def test_a_name_that_pdflatex_can_set_is_not_announced(runs: dict[str, Result]) -> None:
    assert "LuaLaTeX" not in paper_text({LATIN_NAME: runs["one"]})


def test_a_name_that_pdflatex_cannot_set_is_announced(runs: dict[str, Result]) -> None:
    named = dict.fromkeys(NAMES_OF_OTHER_SCRIPTS, runs["one"])
    table_of_comparison = format_comparisons([compare_runs(named)], "latex")

    for latex in (paper_text(named), latex_scores(named), table_of_comparison):
        assert latex.startswith("% pdfLaTeX cannot set '模': compile with LuaLaTeX or XeLaTeX")


def test_a_name_that_pdflatex_can_set_compiles_with_it(tmp_path: Path, runs: dict[str, Result]) -> None:
    finished = compile_latex(tmp_path, paper_text({LATIN_NAME: runs["one"]}), "pdflatex")

    assert finished.returncode == 0, finished.stdout[-800:]


def test_names_of_other_scripts_compile_with_lualatex(tmp_path: Path, runs: dict[str, Result]) -> None:
    named = dict.fromkeys(NAMES_OF_OTHER_SCRIPTS, runs["one"])

    finished = compile_latex(tmp_path, paper_text(named), "lualatex")

    assert finished.returncode == 0, finished.stdout[-800:]


def test_the_caption_names_the_level_of_the_intervals() -> None:
    caption = caption_of(paper_text({"at 90": measured(Statistics(level=0.9))}))

    assert r"with 90\,\% confidence intervals in brackets" in caption


def test_the_caption_names_the_level_of_each_run_if_they_differ(runs: dict[str, Result]) -> None:
    caption = caption_of(paper_text({"one": runs["one"], "at 90": measured(Statistics(level=0.9))}))

    assert r"with confidence intervals in brackets (95\,\% for one, 90\,\% for at 90)" in caption


def test_the_caption_of_a_run_without_intervals_has_no_brackets() -> None:
    caption = caption_of(paper_text({"without": measured(Statistics(intervals=False))}))

    assert "brackets" not in caption


def test_a_setting_of_the_scoring_in_which_runs_differ_is_stated(runs: dict[str, Result]) -> None:
    with_order_12 = runs["one"]  # the default
    with_order_3 = Normal(k=1, datasets=["mini"], limit=24)(load_kernel("ppm", order=3))

    text = paper_text({"one": with_order_12, "low": with_order_3})

    assert "(ppm, scoring order=3) has a mean" in text


def test_the_scoring_of_models_of_different_kinds_is_not_stated(runs: dict[str, Result]) -> None:
    run_of_function = run(1, lambda prompt, label_space: [1.0, 0.0, 0.0], model_name="own")

    text = paper_text({"one": runs["one"], "own": run_of_function})

    paragraph, *_signatures = text.split("Signature")
    assert "scoring" not in paragraph


class ModelWithSettings:
    """A model that always predicts the first label, with given settings in its identity."""

    def __init__(self, settings: dict[str, str]) -> None:
        self.settings = settings

    def __call__(self, prompt: str, label_space: list[str]) -> list[float]:
        return [1.0] + [0.0] * (len(label_space) - 1)

    def identity(self) -> Identity:
        return Identity({"model": "words"}, self.settings)


def test_a_setting_that_one_of_two_models_of_a_kind_lacks_is_a_difference() -> None:
    with_temperature = run(1, ModelWithSettings({"api": "chat", "temperature": "0"}), model_name="words")
    without = run(1, ModelWithSettings({"api": "chat"}), model_name="words")

    text = paper_text({"zero": with_temperature, "default": without})

    assert "zero (words, scoring temperature=0) has" in text
    assert "default (words) has" in text


def test_a_slope_of_the_accuracy_is_not_called_an_accuracy() -> None:
    text = paper_text({"noise": GLER(datasets=["mini"], limit=8)(load_kernel("ppm"))})

    assert "a mean slope of accuracy of" in text
    assert "a mean accuracy" not in text


def test_the_text_says_that_a_lower_slope_is_better() -> None:
    text = paper_text({"noise": GLER(datasets=["mini"], limit=8)(load_kernel("ppm"))})

    assert "slope of accuracy (lower is better)" in caption_of(text)
    assert "Lower values of the score, slope of accuracy, are better." in text


def test_a_method_is_cited() -> None:
    """Both if the other run has the same method, and if it has none."""
    method = Method("batch_calibration", load_kernel("ppm"))
    calibrated = method.run(Normal(k=2, datasets=["mini"], limit=8))
    calibrated_with_other_k = method.run(Normal(k=3, datasets=["mini"], limit=8))
    not_calibrated = run(3)

    for other in (calibrated_with_other_k, not_calibrated):
        text = paper_text({"a": calibrated, "b": other})
        assert r"method batch\_calibration paper~\cite{zhou2024batch}" in text


def test_the_difference_says_what_is_subtracted(runs: dict[str, Result]) -> None:
    assert "one minus other: $" in paper_text({"one": runs["one"], "other": runs[HOSTILE]})


def test_a_work_is_cited_once(runs: dict[str, Result]) -> None:
    assert "of StaICC~\\cite{cho2025staicc} (" in paper_text({"one": runs["one"], "other": runs[HOSTILE]})


def test_queries_that_count_at_their_worst_are_compared(runs: dict[str, Result]) -> None:
    partial = run(4, fails_on_rain, on_error="collect")

    text = paper_text({"whole": runs["one"], "partial": partial})

    assert "Not compared" not in text
    assert "About the comparison: mini: " in text


def test_a_line_may_end_between_the_settings_of_a_model(runs: dict[str, Result]) -> None:
    text = paper_text({"one": runs["one"]})

    assert "escape=C;order=12" in str(runs["one"].signature)
    assert r"escape=C;\allowbreak order=12" in text


# The sentences about the tests: each figure is that of the pair, and belongs to the means that are stated.


def dataset(name: str, cluster: Any = None) -> Dataset:
    rows = [(f"{name} {number}", number % 2) for number in range(400)]
    return Dataset.from_rows(rows, name=name, label_space=["no", "yes"], cluster=cluster)


def run_that_errs(wrong_rate: float, *names: str, cluster: Any = None, **settings: Any) -> Result:
    """Return a run that is wrong on a share of the rows."""

    def predict(prompt: str, label_space: list[str]) -> int:
        name, digits = re.findall(r"\b([AB]) (\d+)\b", prompt)[-1]
        is_wrong = random.Random(f"{wrong_rate} {name} {digits}").random() < wrong_rate
        return 1 - int(digits) % 2 if is_wrong else int(digits) % 2

    datasets = [dataset(name, cluster) for name in names]
    result = Normal(**{"k": 0, **settings}, datasets=datasets, limit=120)(predict)
    assert isinstance(result, Result)
    return result


def cluster_of(row: Any) -> str:
    """Return the cluster of a row: 20 clusters, by the last digits of its number."""
    return str(int(row.texts[0].split()[-1]) // 2 % 20)


def sentence_about(text: str, first: str, second: str) -> str:
    """Return the sentence about the test of two runs."""
    (sentence,) = [line for line in text.splitlines() if f"({first} minus {second}: " in line]
    return sentence


@pytest.fixture(scope="module")
def three_runs() -> dict[str, Result]:
    """Return runs with 10, 13 and 50 % of errors, of which only the last one is shown to be worse."""
    return {"a": run_that_errs(0.1, "A"), "b": run_that_errs(0.13, "A"), "c": run_that_errs(0.5, "A")}


def test_each_pair_of_three_runs_has_its_own_figures(three_runs: dict[str, Result]) -> None:
    text = paper_text(three_runs)

    for pair in compare_runs(three_runs).comparisons:
        mean = pair.overall
        assert isinstance(mean.outcome, Tested)
        sentence = sentence_about(text, pair.first, pair.second)
        assert f"{pair.first} minus {pair.second}: ${mean.difference:+.3f}$" in sentence
        assert f"interval ${mean.interval.low:+.3f}$ to ${mean.interval.high:+.3f}$" in sentence
        assert f"${p_text(mean.outcome.corrected_p_value)}$" in sentence


def test_a_sentence_about_a_pair_does_not_repeat_the_means_of_the_paragraph(three_runs: dict[str, Result]) -> None:
    text = paper_text(three_runs)

    for first, second in (("a", "b"), ("a", "c"), ("b", "c")):
        assert ", where " not in sentence_about(text, first, second)


def test_the_paragraph_says_which_of_three_runs_are_shown_to_be_better(three_runs: dict[str, Result]) -> None:
    text = paper_text(three_runs)

    assert "a is better than c (" in text
    assert "Neither a nor b is shown to be better (" in text


def test_the_paragraph_cites_the_test_and_its_correction(three_runs: dict[str, Result]) -> None:
    text = paper_text(three_runs)

    assert r"paired over test rows~\cite{gaffke2005three}" in text
    assert r"their p-values are corrected for 3 pairs of runs~\cite{holm1979simple}." in text


def test_of_many_runs_the_correction_is_that_for_all_pairs() -> None:
    runs = {f"run {number}": run_that_errs(0.05 + 0.03 * number, "A") for number in range(22)}

    text = paper_text(runs)

    all_pairs = 231  # 22 * 21 / 2
    assert f"corrected for all {all_pairs} pairs of runs by Bonferroni's method" in text
    assert "holm" not in text.lower()
    for pair in compare_runs(runs).comparisons:
        if isinstance(pair.overall.outcome, Tested):
            p_value = p_text(pair.overall.outcome.corrected_p_value)
            assert f"${p_value}$" in sentence_about(text, pair.first, pair.second)


def test_a_difference_on_some_of_the_data_sets_has_its_own_means() -> None:
    on_a, on_a_and_b = run_that_errs(0.1, "A"), run_that_errs(0.5, "A", "B")
    accuracy_of_first = on_a.divided["A"]["accuracy"]
    accuracy_of_second = on_a_and_b.divided["A"]["accuracy"]
    assert on_a_and_b.averaged["accuracy"] != accuracy_of_second

    sentence = sentence_about(paper_text({"a": on_a, "ab": on_a_and_b}), "a", "ab")

    assert (
        "on the data sets on which both are compared, "
        f"where a has ${accuracy_of_first:.3f}$ and ab has ${accuracy_of_second:.3f}$ ("
    ) in sentence
    assert f"${accuracy_of_first - accuracy_of_second:+.3f}$" in sentence


@pytest.mark.parametrize(
    ("datasets_of_first", "datasets_of_second", "rows"),
    [
        (["A", "B"], ["A", "B"], ["A", "B", "mean"]),
        (["A", "B"], ["A"], ["A", "B"]),
        (["A"], ["B"], ["A", "B"]),
        (["A"], ["A"], ["A"]),
    ],
    ids=["the same two", "two and one of them", "one and another one", "the same one"],
)
def test_a_table_of_data_sets_has_the_means_of_runs_over_the_same_several_data_sets_only(
    datasets_of_first: list[str], datasets_of_second: list[str], rows: list[str]
) -> None:
    """Next to each other, means over different data sets would be read as a comparison."""
    first = run_that_errs(0.1, *datasets_of_first)
    second = run_that_errs(0.4, *datasets_of_second)

    text = paper_text({"first": first, "second": second}, rows="datasets")

    (body,) = re.findall(r"(?s)\\toprule(.*?)\\bottomrule", text)
    assert re.findall(r"^(\w+) & ", body, flags=re.MULTILINE) == rows
    if "mean" in rows:
        cells_of_means = body.strip().splitlines()[-1].split(" & ")
        mean_of_first, mean_of_second = cells_of_means[3:5]
        assert mean_of_first.startswith(f"${first.averaged['accuracy']:.3f}$")
        assert mean_of_second.startswith(f"${second.averaged['accuracy']:.3f}$")


def test_a_difference_on_some_of_the_queries_has_its_own_means() -> None:
    """A run with fewer test rows: the other one has another mean on these."""
    on_60_rows = Normal(k=0, datasets=[dataset("A")], limit=60)(lambda prompt, label_space: 0)
    on_120_rows = run_that_errs(0.1, "A")
    runs = {"few": on_60_rows, "a": on_120_rows}

    sentence = sentence_about(paper_text(runs), "few", "a")

    (pair,) = compare_runs(runs).comparisons
    accuracy_of_few, accuracy_of_a = pair.overall.values
    assert on_120_rows.averaged["accuracy"] != accuracy_of_a
    assert (
        "on the queries on which both are compared, "
        f"where few has ${accuracy_of_few:.3f}$ and a has ${accuracy_of_a:.3f}$ ("
    ) in sentence


@pytest.fixture(scope="module")
def runs_in_clusters() -> dict[str, Result]:
    """Runs with 10 and 50 % of errors, over rows in 20 clusters."""
    return {"a": run_that_errs(0.1, "A", cluster=cluster_of), "b": run_that_errs(0.5, "A", cluster=cluster_of)}


def test_a_test_over_clusters_is_named(runs_in_clusters: dict[str, Result]) -> None:
    (pair,) = compare_runs(runs_in_clusters).comparisons
    assert isinstance(pair.overall.outcome, Tested)

    assert "The tests are paired over clusters of test rows." in paper_text(runs_in_clusters)


def test_the_test_over_rows_is_not_cited_for_clusters(runs_in_clusters: dict[str, Result]) -> None:
    bibliography = "\n".join(entries(works_of(runs_in_clusters["a"])))

    assert "gaffke" not in paper_text(runs_in_clusters)
    assert "gaffke" not in bibliography


def test_intervals_over_clusters_have_a_note(runs_in_clusters: dict[str, Result]) -> None:
    (pair,) = compare_runs(runs_in_clusters).comparisons
    (note,) = pair.scope

    text_of_two_runs = paper_text(runs_in_clusters)
    text_of_one_run = paper_text({"a": runs_in_clusters["a"]})

    assert note.startswith("A: intervals and tests are over 20 clusters of")
    assert note in text_of_two_runs.splitlines()
    assert note in text_of_one_run.splitlines()


def test_the_text_says_that_all_rows_share_two_lists_of_demonstrations() -> None:
    first = run_that_errs(0.1, "A", k=1, sampler="nested-shared")
    second = run_that_errs(0.3, "A", k=1, sampler="nested-shared")

    for text in (paper_text({"a": first, "b": second}), paper_text({"a": first})):
        assert text.count("hold for these 2 lists only") == 1
        assert "2 lists of demonstrations that all test rows share and" in text
        assert "run generalisation" not in text, "advice for the author is no sentence of a paper"


def test_the_text_says_nothing_of_lists_without_demonstrations() -> None:
    assert "lists only" not in paper_text({"a": run_that_errs(0.1, "A"), "b": run_that_errs(0.3, "A")})


def measured(statistics: Statistics) -> Result:
    return Normal(k=2, datasets=["mini"], limit=24, statistics=statistics)(load_kernel("ppm"))


def caption_of(text: str) -> str:
    (caption,) = re.findall(r"\\caption\{(.*)\}", text)
    return str(caption)


def test_runs_with_one_signature_print_it_once(runs: dict[str, Result]) -> None:
    text = paper_text({"one": runs["one"], "other": runs["one"]})

    assert text.count("Signature of ") == 1
    assert "Signature of both runs: " in text


def test_runs_with_different_signatures_print_both(runs: dict[str, Result]) -> None:
    text = paper_text(runs)

    assert text.count("Signature of ") == 2
    assert "both runs" not in text


DIFFERENT_NUMBERS = "The runs have different numbers of test rows"


def test_the_text_says_that_runs_have_different_numbers_of_rows(runs: dict[str, Result]) -> None:
    on_24_rows = runs["one"]
    on_12_rows = Normal(k=1, datasets=["mini"], limit=12)(load_kernel("ppm"))
    on_all_rows = Normal(k=1, datasets=["mini"])(load_kernel("ppm"))

    assert DIFFERENT_NUMBERS in paper_text({"a": on_24_rows, "b": on_12_rows})
    assert DIFFERENT_NUMBERS in paper_text({"a": on_24_rows, "b": on_all_rows})


def test_the_text_says_nothing_of_equal_numbers_of_rows(runs: dict[str, Result]) -> None:
    on_all_rows = Normal(k=1, datasets=["mini"])(load_kernel("ppm"))

    assert DIFFERENT_NUMBERS not in paper_text({"a": on_all_rows})
    assert DIFFERENT_NUMBERS not in paper_text(runs)


def test_a_model_that_names_its_run_is_named_once_with_how_it_scores_labels() -> None:
    pytest.importorskip("transformers")
    benchmark = Normal(datasets=["mini"], limit=2)
    result = benchmark(load_kernel("smollm2", dtype="float32"), model_name="smollm2")

    text = paper_text({"smollm2": result})

    assert "smollm2 (smollm2)" not in text
    assert "smollm2 has a mean accuracy of" in text
    assert "smollm2 scores labels by the last token of each label and is computed in float32." in text
    assert re.search(r"the labels together have a mean probability of \$0\.0\d+\$", text)
