"""The example of ``examples/leaderboard``: its results, their run files and the page about them agree."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest

import StaICC
from StaICC import Recomputed, Result, Unchecked, compare, load, status_of, verify_file
from tests.test_docs_blocks import parse, words_of

FOLDER = Path(__file__).parents[1] / "examples" / "leaderboard" / "submissions" / "three-models"
PAGE = (FOLDER / "README.md").read_text("utf-8")
NORMAL = ("smollm2-135m", "gemma-3-270m", "embedded-model")
"""The results of the leaderboard, in its order."""
SUITES = ("smollm2-135m-suite", "gemma-3-270m-suite", "embedded-model-suite")
"""The results of the diagnosis, in the order of the columns."""
WEIGHTS = "gemma-3-270m-q4_k_m.gguf"
"""What is filled in for the model of a run file."""


def table_below(head: str) -> list[list[str]]:
    """Return the cells of the rows of the page's table that begins with a head."""
    lines = PAGE[PAGE.index(head) :].split("\n\n")[0].splitlines()
    rows = []
    for line in lines[2:]:
        cells = line.strip("|").split("|")
        rows.append([cell.strip().strip("`") for cell in cells])
    return rows


def with_interval(result: Result, metric: str, digits: int = 4) -> str:
    """Return the mean of a metric over the data sets with its interval, as the page writes it."""
    interval = result.means.intervals[metric]
    return f"{result.averaged[metric]:.{digits}f} ({interval.low:.3f} to {interval.high:.3f})"


def load_normal(name: str) -> Result:
    """Load one of the results of the leaderboard."""
    result = load(FOLDER / f"{name}.json")
    assert isinstance(result, Result)
    return result


def test_the_readme_shows_the_first_table_of_a_language_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")  # a wide terminal has one table for all metrics
    readme = (Path(__file__).parents[1] / "README.md").read_text("utf-8")
    command = "python -m StaICC run normal --model smollm2 --limit 128\n```\n\n```text\n"
    _, _, after_command = readme.partition(command)
    lines_of_readme = after_command.partition("\n...\n")[0].splitlines()

    _name_of_benchmark, *lines_of_result = str(load_normal("smollm2-135m")).splitlines()

    assert lines_of_readme == lines_of_result[: len(lines_of_readme)]
    assert lines_of_readme[-1].startswith("mean "), "the table is shown to its end"


def test_the_table_of_means_has_the_scores_of_the_results() -> None:
    lines = table_below("| result | model |")

    for name, cells in zip(NORMAL, lines, strict=True):
        result = load_normal(name)
        file, _model, limit, accuracy, f1, likelihood, calibration_error = cells
        assert file == f"{name}.json"
        assert limit == str(result.arguments["limit"])
        assert accuracy == with_interval(result, "accuracy")
        assert f1 == f"{result.averaged['macro_F1']:.4f}"
        assert likelihood == f"{result.averaged['averaged_truelabel_likelihood']:.4f}"
        assert calibration_error == f"{result.averaged['expected_calibration_error_1']:.4f}"


def with_four_decimals(*values: float) -> list[str]:
    return [f"{value:.4f}" for value in values]


def test_the_table_of_accuracies_has_the_accuracy_of_each_model_and_of_each_baseline() -> None:
    """A line is a data set: the accuracies of the models, of uniform guessing, and of the majority label."""
    results = [load_normal(name) for name in NORMAL]
    first_result = results[0]
    *lines_of_datasets, _line_of_mean = table_below("| data set | SmolLM2-135M |")

    assert [dataset for dataset, *_ in lines_of_datasets] == list(first_result.details)
    for dataset, *cells in lines_of_datasets:
        accuracies = [result.divided[dataset]["accuracy"] for result in results]
        baselines = first_result.details[dataset].baselines["normal"]
        assert cells == with_four_decimals(*accuracies, baselines.uniform, baselines.majority), dataset


def test_the_table_of_accuracies_ends_with_the_means() -> None:
    results = [load_normal(name) for name in NORMAL]
    *_, line_of_mean = table_below("| data set | SmolLM2-135M |")

    accuracies = [result.averaged["accuracy"] for result in results]
    baselines = results[0].means.baselines["normal"]
    assert line_of_mean == ["mean", *with_four_decimals(*accuracies, baselines.uniform, baselines.majority)]


SCORES_OF_SUITES = {
    "contextual bias": ("Contextual_bias", "contextual_bias"),
    "domain bias": ("Domain_bias", "domain_bias"),
    "posterior bias": ("Post_bias", "empirical_bias"),
    "label noise (GLER)": ("GLER", "accuracy"),
    "template consistency": ("Template_sens", "consistency"),
    "demonstration consistency": ("Demo_sens", "consistency"),
}


@pytest.mark.parametrize("column", range(len(SUITES)), ids=SUITES)
def test_the_page_states_the_scores_of_the_diagnosis(column: int) -> None:
    suite: Any = load(FOLDER / f"{SUITES[column]}.json")
    rows = table_below("| score | SmolLM2-135M (")
    assert [row[0] for row in rows] == list(SCORES_OF_SUITES)
    for title, *shown in rows:
        benchmark, metric = SCORES_OF_SUITES[title]
        if suite[benchmark].averaged[metric] is None:
            assert shown[column] == "undefined"
        else:
            assert shown[column] == with_interval(suite[benchmark], metric), title


def test_the_head_of_the_diagnosis_states_the_test_rows() -> None:
    (headings,) = [line for line in PAGE.splitlines() if line.startswith("| score | SmolLM2-135M (")]
    suites: list[Any] = [load(FOLDER / f"{name}.json") for name in SUITES]
    assert re.findall(r"\((\d+) rows\)", headings) == [str(suite["Normal"].arguments["limit"]) for suite in suites]


def p_values_of_suites() -> dict[str, float]:
    """Return the p-value of the difference between both models in each benchmark of the suite that has one."""
    smollm2: Any = load(FOLDER / "smollm2-135m-suite.json")
    gemma: Any = load(FOLDER / "gemma-3-270m-suite.json")
    p_values = {}
    for name in ("Normal", *(benchmark for benchmark, _ in SCORES_OF_SUITES.values())):
        p_value = compare(smollm2[name], gemma[name]).mean.p_value
        if p_value is not None:
            p_values[name] = p_value
    return p_values


def test_the_page_states_the_only_significant_difference_of_the_suites() -> None:
    p_values = p_values_of_suites()

    significant = [name for name, p_value in p_values.items() if p_value < 0.05]

    assert significant == ["Demo_sens"]
    assert f"(p = {p_values['Demo_sens']:.3f}, Gemma is more consistent)" in PAGE


def test_the_page_states_the_smallest_p_value_after_bonferronis_correction() -> None:
    """It is multiplied by the number of tests."""
    p_values = p_values_of_suites()
    assert len(p_values) == 6
    assert f"(p = {6 * min(p_values.values()):.2f})" in PAGE


def test_gemma_predicts_one_label_on_hate_speech_as_the_page_says() -> None:
    queries = [query for query in load_normal("gemma-3-270m").queries() if query.dataset == "hate_speech_18"]
    predictions = [query.prediction_label for query in queries]
    page_in_one_line = " ".join(PAGE.split())

    expected = f'"hate" for {predictions.count("hate")} of the {len(predictions)} queries of hate_speech_18'
    assert expected in page_in_one_line


@pytest.mark.parametrize("name", [*NORMAL, *SUITES])
def test_a_run_file_is_that_of_its_result(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    tomllib = pytest.importorskip("tomllib", reason="Python 3.11 brings it")
    assert StaICC.cli.main(["show", "run", str(FOLDER / f"{name}.json")]) == 0
    values_of_result = tomllib.loads(capsys.readouterr().out)
    if values_of_result["model"] == "FILL-IN":
        assert values_of_result.pop("model_name") == WEIGHTS  # the name of the file that is filled in
        values_of_result["model"] = WEIGHTS

    values_of_file = tomllib.loads((FOLDER / f"{name}.toml").read_text("utf-8"))
    assert values_of_file == values_of_result


BOTH_PAGES = pytest.mark.parametrize(
    "page", [FOLDER / "README.md", FOLDER.parents[1] / "README.md"], ids=["models", "template"]
)


def commands_of(page: Path) -> list[str]:
    """Return the lines of the console blocks of a page."""
    blocks = re.findall("```console\n(.*?)```", page.read_text("utf-8"), re.DOTALL)
    return "".join(blocks).splitlines()


@BOTH_PAGES
def test_the_commands_of_the_pages_can_be_parsed(page: Path) -> None:
    for command in commands_of(page):
        words = words_of(command)
        assert words is not None, command
        if "--config" not in words:  # run files are compared with their results above
            parse(words)


@BOTH_PAGES
def test_the_files_that_the_commands_of_the_pages_read_are_there(page: Path) -> None:
    written_by_the_commands = ("again", "submissions/my-team/")
    for command in commands_of(page):
        for word in shlex.split(command):
            if word.endswith((".json", ".toml")) and not word.startswith(written_by_the_commands):
                assert (page.parent / word).exists(), f"{command} reads {word}"


@BOTH_PAGES
def test_the_links_of_the_pages_lead_to_files(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#\s]+)", page.read_text("utf-8")):
        assert (page.parent / target).exists(), target


def test_the_results_are_small() -> None:
    assert sum(file.stat().st_size for file in FOLDER.iterdir()) < 2_000_000


@pytest.mark.slow
@pytest.mark.pack
@pytest.mark.parametrize("name", [*NORMAL, *SUITES])
def test_a_result_is_recomputed(name: str) -> None:
    file = FOLDER / f"{name}.json"
    result: Any = load(file)
    part = result if isinstance(result, Result) else result["Normal"]
    is_of_this_version = part.environment["staicc"] == StaICC.__version__
    allowed = Recomputed if is_of_this_version else (Recomputed, Unchecked)
    status = status_of(verify_file(file))
    advice = f"If scores or intervals changed, write the files again with the commands of {FOLDER.name}/README.md"
    assert isinstance(status, allowed), f"{status}. {advice}"


@pytest.mark.slow
@pytest.mark.pack
def test_the_run_file_of_the_embedded_model_repeats_its_result(tmp_path: Path) -> None:
    pytest.importorskip("tomllib", reason="Python 3.11 brings it")
    run_file = FOLDER / "embedded-model.toml"
    saved = load_normal("embedded-model")

    assert StaICC.cli.main(["run", "--config", str(run_file), "--json", str(tmp_path / "r.json"), "--quiet"]) == 0

    repeated = load(tmp_path / "r.json")
    assert isinstance(repeated, Result)
    assert repeated.divided == saved.divided
    assert [query.scores for query in repeated.queries()] == [query.scores for query in saved.queries()]
