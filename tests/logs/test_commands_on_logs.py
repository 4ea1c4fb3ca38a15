"""The commands that take saved results take logs, too."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path

import pytest

from StaICC.benchmarks import verdict_cache
from StaICC.benchmarks.findings import Contradicted, Unchecked, status_of
from StaICC.benchmarks.logged_verification import ONLY_THE_HARNESS_KNOWS
from StaICC.benchmarks.verify import verify, verify_file
from StaICC.cli import main
from StaICC.errors import ArgumentError
from StaICC.logs.reading import read_logs
from StaICC.logs.result_of_scores import StatedMetrics, with_stated_metrics
from StaICC.results.result import Result
from tests.logs.made_logs import write_evaluation
from tests.result_edits import edited, value_at


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder, with logs of three models on two tasks in the folder ``out``.

    The metric points has values from 0 to 10.
    """
    monkeypatch.setattr(verdict_cache, "data_home", lambda: tmp_path / "home")
    monkeypatch.chdir(tmp_path)
    for seed, (model, p) in enumerate([("org/small", 0.3), ("org/middle", 0.6), ("org/large", 0.9)]):
        generator = random.Random(seed)
        correct = [float(generator.random() < p) for _ in range(100)]
        points = [generator.randrange(11) for _ in range(100)]
        tasks = {"sums": {"acc": correct, "points": points}, "kinds": {"acc": correct[::-1], "points": points}}
        write_evaluation(tmp_path / "out", tasks, model=model)
    return tmp_path


def test_a_folder_of_logs_is_compared(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", "out"]) == 0
    printed = capsys.readouterr().out
    assert "org/small" in printed
    assert "mean of 2 data sets" in printed


def test_a_metric_without_a_known_range_is_not_tested(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", "out/org__small", "out/org__large", "--metric", "points", "--json"]) == 0

    (output,) = json.loads(capsys.readouterr().out)
    (comparison,) = output["comparisons"]
    assert comparison["mean"]["p_value"] is None
    assert "the range of points is not known" in str(output)


def test_a_metric_with_a_stated_range_and_direction_is_tested(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stated = ["--range", "0", "10", "--direction", "lower", "--margin", "2"]
    assert main(["compare", "out/org__small", "out/org__large", "--metric", "points", "--json", *stated]) == 0

    (output,) = json.loads(capsys.readouterr().out)
    (comparison,) = output["comparisons"]
    assert comparison["higher_is_better"] is False
    assert comparison["mean"]["p_value"] <= 1


def test_a_stated_range_gives_saved_results_the_comparison_of_their_logs(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    read_logs("out/org__small")["org/small"].save("small.json")
    read_logs("out/org__large")["org/large"].save("large.json")
    stated = ["--metric", "points", "--range", "0", "10", "--direction", "lower", "--json"]

    assert main(["compare", "small.json", "large.json", *stated]) == 0
    mean_of_saved_results = json.loads(capsys.readouterr().out)[0]["comparisons"][0]["mean"]
    assert main(["compare", "out/org__small", "out/org__large", *stated]) == 0
    mean_of_logs = json.loads(capsys.readouterr().out)[0]["comparisons"][0]["mean"]

    assert mean_of_saved_results["p_value"] is not None
    assert mean_of_saved_results == mean_of_logs


def test_a_stated_range_gives_a_saved_result_its_intervals(folder: Path) -> None:
    stated = {"points": (0.0, 10.0)}
    again = with_stated_metrics(read_small_model(folder), StatedMetrics(ranges=stated, directions={}))
    assert again == read_logs("out/org__small", value_range=stated)["org/small"]
    assert "points" in again.details["sums"].intervals


def test_a_margin_is_less_than_the_width_of_the_range(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--metric", "points", "--range", "0", "10", "--margin", "10"]
    assert main(["compare", "out/org__small", "out/org__large", *options]) == 2
    assert "expected a number between 0 and 10" in capsys.readouterr().err


def test_logs_are_ranked(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rank", "out", "--json"]) == 0
    (ranking,) = json.loads(capsys.readouterr().out)
    assert [run["run"] for run in ranking["runs"]] == ["org/large", "org/middle", "org/small"]


def test_logs_are_reported(folder: Path) -> None:
    assert main(["report", "out", "-o", "report.html"]) == 0
    page = Path("report.html").read_text("utf-8")
    assert "lm_eval: acc" in page
    assert "points has no interval and is untested: its range is not known" in page


def test_saved_results_and_logs_are_compared_together(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    read_logs("out/org__small")["org/small"].save("saved.json")
    assert main(["compare", "saved.json", "out/org__large", "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)
    assert (found["comparisons"][0]["first"], found["comparisons"][0]["second"]) == ("saved", "org/large")


def test_a_leaderboard_of_logs_has_each_run_with_its_source(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["leaderboard", "out", "-o", "site", "--json"]) == 0
    runs = json.loads(capsys.readouterr().out)
    assert {run["file"] for run in runs} == {"org/small", "org/middle", "org/large"}
    for run in runs:
        assert "read from logs" in run["status"]


def test_a_leaderboard_of_logs_links_the_results_that_it_copies(folder: Path) -> None:
    assert main(["leaderboard", "out", "-o", "site"]) == 0
    page = Path("site/index.html").read_text("utf-8")
    links = re.findall(r'href="(results/[^"]+)"', page)
    assert len(links) >= 3, "one for each run"
    for link in links:
        assert (Path("site") / link).is_file()


def test_the_copies_of_a_leaderboard_of_logs_are_results(folder: Path) -> None:
    assert main(["leaderboard", "out", "-o", "site"]) == 0
    assert main(["leaderboard", "site/results", "-o", "second"]) == 0


def test_a_name_of_a_model_does_not_lead_out_of_the_site(folder: Path) -> None:
    write_evaluation(folder / "hostile", {"sums": {"acc": [1.0] * 9}}, model="m")
    (file,) = (folder / "hostile" / "m").glob("results_*")
    file.write_text(file.read_text("utf-8").replace('"model_name": "m"', '"model_name": "../../../evil"'), "utf-8")
    assert main(["leaderboard", "hostile", "-o", "deep/site"]) == 0
    assert [path.name for path in folder.rglob("*evil*")] == ["log_.._.._.._evil.json"]


def read_small_model(folder: Path) -> Result:
    """Return the result of one of the models."""
    return read_logs(folder / "out" / "org__small")["org/small"]


def test_scores_of_a_saved_log_are_unchecked_because_only_the_harness_can_compute_them(folder: Path) -> None:
    read_small_model(folder).save("saved.json")
    assert status_of(verify_file("saved.json")) == Unchecked(ONLY_THE_HARNESS_KNOWS)


@pytest.mark.parametrize(
    "path_of_number",
    [
        ("Divided results", "sums", "acc"),
        ("Averaged results", "acc"),
        ("details", "sums", "intervals", "acc", "low"),
        ("details", "sums", "failed"),
    ],
    ids=["score", "mean", "interval", "number of failures"],
)
def test_a_changed_number_is_contradicted(path_of_number: tuple[str, ...], folder: Path) -> None:
    saved = read_small_model(folder).to_dict()
    number = value_at(saved, path_of_number)
    changed = edited(saved, path_of_number, 3 if isinstance(number, int) else number - 0.1)

    assert isinstance(status_of(verify(Result.from_dict(changed))), Contradicted)


def test_a_repeated_sample_is_refused(folder: Path) -> None:
    values = read_small_model(folder).to_dict()
    documents = list(values["samples"]["sums"]["documents"])
    documents[1] = documents[0]
    values["samples"]["sums"]["documents"] = documents
    with pytest.raises(ValueError, match="a document twice"):
        Result.from_dict(values)


def test_scores_of_logs_are_exported_and_labels_are_not(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", "scores", "out/org__small", "-o", "scores.csv"]) == 0
    assert "org/small,lm_eval" in Path("scores.csv").read_text("utf-8")
    assert main(["export", "queries", "out/org__small", "-o", "queries.csv"]) != 0
    assert "no labels to export" in capsys.readouterr().err


def test_logs_and_runs_of_this_library_are_not_compared(folder: Path) -> None:
    import StaICC

    run = StaICC.Normal(datasets=["mini"], limit=5)(lambda prompt, label_space: 0)
    with pytest.raises(ArgumentError):
        StaICC.compare(run, read_small_model(folder))


def test_a_metric_may_be_named_as_the_file_of_results_has_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """lm_eval writes acc,none. The stated range is then that of acc."""
    folders = []
    for model in ("a", "b"):
        values = {"points": [float(number % 3) for number in range(20)], "acc": [1.0, 0.0] * 10}
        folders.append(str(write_evaluation(tmp_path / model, {"sums": values}, model=model)))
    assert main(["compare", *folders, "--metric", "points,none", "--range", "0", "2", "--direction", "higher"]) == 0
    output = capsys.readouterr().out
    assert "metric: points (higher is better)" in output
    assert "--range LOW HIGH" not in output


def test_the_reason_is_said_if_a_metric_is_asked_for_that_was_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folders = []
    for model in ("a", "b"):
        tasks = {"sums": {"acc": [1.0, 0.0] * 10, "mcc": [[1, 0]] * 20}}
        folders.append(str(write_evaluation(tmp_path / model, tasks, model=model)))
    for command in ("compare", "rank"):
        assert main([command, *folders, "--metric", "mcc"]) == 2
        assert "sums: mcc is undefined: the correlation of Matthews" in capsys.readouterr().err
