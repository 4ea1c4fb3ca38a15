"""Runs of inspect_ai and HELM, compared, ranked and reported; p-values by other formulas."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from StaICC.cli import main
from StaICC.comparing.comparison import compare
from StaICC.errors import SchemaError, StaICCError
from StaICC.logs.reading import read_logs
from tests.logs.helm_logs import instance_stats, request_state, run_spec, stat, write_run
from tests.logs.inspect_logs import header, sample, write_archive, write_json
from tests.logs.test_lm_eval import mcnemar, two_sided_gaffke

MODELS = ("openai/large", "openai/small")


def inspect_header(model: str, n_rows: int, epochs: int = 1, **of_spec: Any) -> dict[str, Any]:
    head = header(n_rows, epochs)
    head["eval"]["model"] = model
    head["eval"].update(of_spec)
    return head


def write_grades(path: Path, model: str, grades: str, **of_spec: Any) -> Path:
    """Write a log in which the row n has the n-th grade."""
    samples = [sample(row, grade) for row, grade in enumerate(grades)]
    head = inspect_header(model, len(grades), **of_spec)
    return write_archive(path, samples, head)


N_ROWS = 60
"""The number of rows of most logs here."""


def random_grades(seed: int, p: float, count: int = N_ROWS) -> str:
    """Return a letter for each row: C for correct with probability p, otherwise I for incorrect."""
    generator = random.Random(seed)
    return "".join("C" if generator.random() < p else "I" for _ in range(count))


def scores_of_grades(grades: str) -> list[float]:
    """Return 1 for each correct row and 0 for each other one."""
    return [float(grade == "C") for grade in grades]


# -- inspect_ai


def test_the_p_value_of_grades_is_that_of_mcnemar(tmp_path: Path) -> None:
    first = random_grades(seed=1, p=0.8)
    second = random_grades(seed=2, p=0.5)
    results = read_logs(
        write_grades(tmp_path / "first.eval", MODELS[0], first),
        write_grades(tmp_path / "second.eval", MODELS[1], second),
    )

    (capitals,) = compare(*results.values()).datasets

    assert (capitals.dataset, capitals.rows) == ("capitals", N_ROWS)
    expected = mcnemar(scores_of_grades(first), scores_of_grades(second))
    assert capitals.p_value == pytest.approx(expected, rel=1e-9)


def random_scores(generator: random.Random, highest_percent: int) -> list[float]:
    """Return a random score from 0 to ``highest_percent`` / 100 for each of three epochs of a row."""
    return [generator.randint(0, highest_percent) / 100 for _ in range(3)]


def test_the_unit_of_the_test_is_the_row_with_all_its_epochs(tmp_path: Path) -> None:
    """The sums of three scores from 0 to 1 are compared. They differ by at most 3."""
    n_rows = 16
    generator = random.Random(3)
    scores_of_large = [random_scores(generator, highest_percent=100) for _ in range(n_rows)]
    scores_of_small = [random_scores(generator, highest_percent=40) for _ in range(n_rows)]
    large = write_epochs(tmp_path / "large.json", MODELS[0], scores_of_large)
    small = write_epochs(tmp_path / "small.json", MODELS[1], scores_of_small)
    results = read_logs(large, small, value_range=(0, 1), higher_is_better=True)

    (capitals,) = compare(*results.values()).datasets

    sums_of_large = [round(sum(scores), 2) for scores in scores_of_large]
    sums_of_small = [round(sum(scores), 2) for scores in scores_of_small]
    # The other formula takes each difference for another one, which these random scores are.
    p_value_of_sums = two_sided_gaffke(sums_of_large, sums_of_small, width=3)
    assert capitals.p_value == pytest.approx(p_value_of_sums, rel=1e-9)
    assert capitals.rows == n_rows
    assert capitals.queries == (n_rows * 3, n_rows * 3)


def write_epochs(path: Path, model: str, scores: list[list[float]]) -> Path:
    """Write a log of a model with the scores of each row in each epoch."""
    samples = []
    for row, scores_of_row in enumerate(scores):
        for epoch, score in enumerate(scores_of_row, start=1):
            samples.append(sample(row, score, epoch, scorer="closeness"))
    return write_json(path, samples, inspect_header(model, len(scores), epochs=len(scores[0])))


@pytest.fixture
def logs_of_points(tmp_path: Path) -> list[str]:
    """Logs of two models with points from 0 to 2 and from 0 to 3, whose range and direction a log does not say."""
    samples_of_first = [sample(row, float(row % 3), scorer="points") for row in range(30)]
    samples_of_second = [sample(row, float(row % 4), scorer="points") for row in range(30)]
    first = write_json(tmp_path / "3.json", samples_of_first, inspect_header(MODELS[0], 30))
    second = write_json(tmp_path / "4.json", samples_of_second, inspect_header(MODELS[1], 30))
    return [str(first), str(second)]


RANGE_ADVICE = "with read_logs(..., value_range=(low, high)) (--range LOW HIGH)"


def test_the_command_refuses_a_score_without_known_direction(
    logs_of_points: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["compare", *logs_of_points]) == 2
    assert "--direction higher or lower" in capsys.readouterr().err


def test_the_command_does_not_test_a_score_without_known_range(
    logs_of_points: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["compare", *logs_of_points, "--direction", "higher"]) == 0
    assert RANGE_ADVICE in capsys.readouterr().out


def test_the_command_tests_a_score_with_stated_range_and_direction(
    logs_of_points: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["compare", *logs_of_points, "--direction", "higher", "--range", "0", "4"]) == 0
    assert RANGE_ADVICE not in capsys.readouterr().out


def test_a_score_without_known_range_has_no_p_value(logs_of_points: list[str]) -> None:
    comparison = compare(*read_logs(*logs_of_points, higher_is_better=True).values())
    assert comparison.datasets[0].p_value is None
    assert RANGE_ADVICE in str(comparison)  # a comparison is saved, so it has the same text as in the command


def test_a_score_with_stated_range_and_direction_has_a_p_value(logs_of_points: list[str]) -> None:
    results = read_logs(*logs_of_points, higher_is_better=True, value_range=(0, 4))
    assert compare(*results.values()).datasets[0].p_value is not None


@pytest.fixture
def folders_with_failed_runs(tmp_path: Path) -> list[Path]:
    """A folder for each of two models, with a run ``complete.eval`` and a run without scores ``failed.eval``."""
    folders = []
    for seed, model in enumerate(MODELS):
        folder = tmp_path / str(seed)
        folder.mkdir()
        write_grades(folder / "complete.eval", model, random_grades(seed=seed, p=0.5))
        header_of_failed = inspect_header(model, 4)
        header_of_failed["status"] = "error"
        failed_sample = sample(0, "C", scores={}, error={"message": "no key"})
        write_archive(folder / "failed.eval", [failed_sample], header_of_failed)
        folders.append(folder)
    return folders


def test_a_failed_run_in_a_folder_is_left_out_and_named(
    folders_with_failed_runs: list[Path], capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    first, second = folders_with_failed_runs

    assert main(["compare", str(first), str(second)]) == 0

    assert "capitals" in capsys.readouterr().out
    assert caplog.text.count("failed.eval: no sample has a score") == 2


def test_a_failed_run_that_is_named_is_refused(
    folders_with_failed_runs: list[Path], capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = folders_with_failed_runs

    assert main(["compare", str(first / "failed.eval"), str(second / "complete.eval")]) == 2

    assert "failed.eval: no sample has a score" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"task_version": 4}, "other versions of the task: 3 and 4"),
        ({"task": "rivers"}, "its data sets are rivers, not capitals"),
    ],
)
def test_another_task_is_not_compared(
    change: dict[str, Any], reason: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    grades = random_grades(seed=1, p=0.5)
    first = write_grades(tmp_path / "a.eval", MODELS[0], grades)
    second = write_grades(tmp_path / "b.eval", MODELS[1], grades, **change)
    assert main(["compare", str(first), str(second)]) == 2
    assert reason in capsys.readouterr().err


def test_other_rows_of_the_same_ids_are_not_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first = write_grades(tmp_path / "a.eval", MODELS[0], "C" * 60)
    samples_of_second = [sample(row, "C", input="another question") for row in range(60)]
    second = write_archive(tmp_path / "b.eval", samples_of_second, inspect_header(MODELS[1], 60))

    assert main(["compare", str(first), str(second)]) == 2

    assert "other documents or targets under the same id" in capsys.readouterr().err


def test_a_task_without_the_metric_is_left_out_with_this_reason(tmp_path: Path) -> None:
    """The logs of both models have grades of "capitals" and points of "rivers"; the grades are compared."""
    points_of_rivers = [sample(row, row / 7, scorer="points") for row in range(30)]
    for folder, model in ((tmp_path / "0", MODELS[0]), (tmp_path / "1", MODELS[1])):
        folder.mkdir()
        write_grades(folder / "capitals.eval", model, random_grades(seed=1, p=0.5))
        write_json(folder / "rivers.json", points_of_rivers, inspect_header(model, 30, task="rivers"))
    results = read_logs(tmp_path / "0", tmp_path / "1", higher_is_better=True)

    comparison = compare(*results.values(), metric="match")

    (line_of_rivers,) = [line for line in comparison.left_out if "rivers" in line]
    assert "the task has no match" in line_of_rivers


def test_epochs_that_a_cancelled_run_lacks_count_as_wrong_and_as_right(tmp_path: Path) -> None:
    """The first run was right on all rows and was cancelled after one of two epochs. The second one was never right."""
    rows = range(20)
    right_in_first_epoch = [sample(row, "C", epoch=1) for row in rows]
    wrong_in_first_epoch = [sample(row, "I", epoch=1) for row in rows]
    wrong_in_second_epoch = [sample(row, "I", epoch=2) for row in rows]
    header_of_cancelled = inspect_header(MODELS[0], 20, epochs=2)
    header_of_cancelled["status"] = "cancelled"
    cancelled = write_archive(tmp_path / "a.eval", right_in_first_epoch, header_of_cancelled)
    complete = write_archive(
        tmp_path / "b.eval", wrong_in_first_epoch + wrong_in_second_epoch, inspect_header(MODELS[1], 20, epochs=2)
    )

    (capitals,) = compare(*read_logs(cancelled, complete).values()).datasets

    difference_if_missing_are_wrong, difference_if_missing_are_right = capitals.ends
    assert difference_if_missing_are_wrong == 0.5
    assert difference_if_missing_are_right == 1.0
    assert capitals.missing == (20, 0)
    assert capitals.rows == 20
    assert capitals.queries == (20 * 2, 20 * 2)


@pytest.fixture
def folder_of_three_models(tmp_path: Path) -> Path:
    """Logs of three models, of which the first is right on about 90 % of 200 rows, the others on about half."""
    for seed, p in enumerate((0.9, 0.5, 0.45)):
        grades = random_grades(seed=seed, p=p, count=200)
        write_grades(tmp_path / f"{seed}.eval", f"model {seed}", grades)
    return tmp_path


def test_the_command_rank_takes_logs(folder_of_three_models: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rank", str(folder_of_three_models)]) == 0
    (line_of_best,) = [line for line in capsys.readouterr().out.splitlines() if "best" in line.split()]
    assert "model 0" in line_of_best


def test_the_command_report_takes_logs(folder_of_three_models: Path, tmp_path: Path) -> None:
    report = tmp_path / "report.html"
    assert main(["report", str(folder_of_three_models), "-o", str(report)]) == 0
    page = report.read_text("utf-8")
    assert "model 0" in page
    assert "capitals" in page
    assert "match" in page


# -- HELM


def write_helm(folder: Path, model: str, scores: list[float]) -> Path:
    """Write a run of HELM with the score of each instance and their mean."""
    items = [instance_stats(f"id{row}", stat("exact_match", score)) for row, score in enumerate(scores)]
    requests = [request_state(f"id{row}") for row in range(len(scores))]
    stats = [stat("exact_match", sum(scores) / len(scores))]
    return write_run(folder, items, requests, spec=run_spec(model), stats=stats)


def test_the_p_value_of_runs_of_helm_is_that_of_mcnemar(tmp_path: Path) -> None:
    first = scores_of_grades(random_grades(seed=1, p=0.8))
    second = scores_of_grades(random_grades(seed=2, p=0.5))
    write_helm(tmp_path / "mmlu:subject=anatomy,model=0", MODELS[0], first)
    write_helm(tmp_path / "mmlu:subject=anatomy,model=1", MODELS[1], second)

    (anatomy,) = compare(*read_logs(tmp_path).values()).datasets

    assert anatomy.p_value == pytest.approx(mcnemar(first, second), rel=1e-9)


def test_runs_of_helm_are_ranked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_helm(tmp_path / "mmlu:subject=anatomy,model=0", MODELS[0], scores_of_grades(random_grades(seed=1, p=0.8)))
    write_helm(tmp_path / "mmlu:subject=anatomy,model=1", MODELS[1], scores_of_grades(random_grades(seed=2, p=0.5)))

    assert main(["rank", str(tmp_path)]) == 0

    (line_of_best,) = [line for line in capsys.readouterr().out.splitlines() if "best" in line.split()]
    assert MODELS[0] in line_of_best


def test_one_model_on_several_scenarios_of_helm_is_one_result(tmp_path: Path) -> None:
    for number, subject in enumerate(("anatomy", "law")):
        spec = {**run_spec(), "name": f"mmlu:subject={subject},model=openai_gpt2"}
        items = [instance_stats(f"id{row}", stat("exact_match", float(row % 2))) for row in range(10)]
        write_run(tmp_path / str(number), items, spec=spec)
    (result,) = read_logs(tmp_path).values()
    assert list(result.details) == ["mmlu:subject=anatomy", "mmlu:subject=law"]


def test_a_task_of_one_document_has_no_interval(tmp_path: Path) -> None:
    """HELM with ten instances may have one of them in the split "valid", which is a task of its own here."""
    nine_of_test = [instance_stats(f"id{row}", stat("exact_match", float(row % 2))) for row in range(9)]
    one_of_valid = instance_stats("id9", stat("exact_match", 1.0, "valid"))

    (result,) = read_logs(write_run(tmp_path / "run", [*nine_of_test, one_of_valid])).values()

    (test_split, valid_split) = result.details.values()
    assert "exact_match" in test_split.intervals
    assert "exact_match" not in valid_split.intervals
    assert any("one document has a score" in note for note in valid_split.notes), f"got {valid_split.notes}"
    assert "has no interval" in result.means.missing["exact_match"]


@pytest.mark.parametrize("epoch_of_other_target", [1, 2, 3])
def test_another_target_in_one_repeat_of_a_row_is_refused(tmp_path: Path, epoch_of_other_target: int) -> None:
    """Row 1 of three rows; whichever epoch has another target, it is not known which row the id means."""
    rows_and_epochs = [(row, epoch) for row in range(3) for epoch in (1, 2, 3)]
    samples_of_first = [sample(row, "C", epoch) for row, epoch in rows_and_epochs]
    samples_of_second = [sample(row, "C", epoch) for row, epoch in rows_and_epochs]
    samples_of_second[rows_and_epochs.index((1, epoch_of_other_target))]["target"] = "another city"
    first = write_json(tmp_path / "0.json", samples_of_first, inspect_header(MODELS[0], 3, epochs=3))
    second = write_json(tmp_path / "1.json", samples_of_second, inspect_header(MODELS[1], 3, epochs=3))

    with pytest.raises(SchemaError, match="the document 1 of capitals has different texts or targets in its repeats"):
        read_logs(first, second)


def test_saved_results_with_another_document_in_one_repeat_are_not_tested(tmp_path: Path) -> None:
    """Of row 0, the digest of the first repeat is changed, and that of the last repeat is the same in both results."""
    table = "row,repeat,digest,acc\n"
    for row in range(30):
        table += f"{row},0,text {row},{row % 2}\n"
        table += f"{row},1,text {row},{(row + 1) % 2}\n"
    (tmp_path / "a.csv").write_text(table, "utf-8")
    (tmp_path / "b.csv").write_text(table, "utf-8")
    results = read_logs(tmp_path / "a.csv", tmp_path / "b.csv")
    assert compare(results["a"], results["b"]).datasets

    samples = results["b"].samples["scores"]
    changed_samples = replace(samples, digests=("another text", *samples.digests[1:]))
    changed_result = replace(results["b"], samples={"scores": changed_samples})

    with pytest.raises(StaICCError, match="other documents or targets under the same id"):
        compare(results["a"], changed_result)


@pytest.mark.parametrize("command", ["compare", "rank"])
def test_a_command_notes_that_its_means_are_not_the_best_epochs_of_the_task(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    """The task of the second log reduces the epochs of a row by their best value, and the table has their mean."""
    samples = []
    for row in range(6):
        right_epoch = 1 + row % 2
        wrong_epoch = 2 - row % 2
        samples += [sample(row, "C", right_epoch), sample(row, "I", wrong_epoch)]
    header_of_mean = inspect_header("openai/large", 6, epochs=2)
    header_of_mean["eval"]["config"]["epochs_reducer"] = ["mean"]
    header_of_max = inspect_header("openai/small", 6, epochs=2)
    header_of_max["eval"]["config"]["epochs_reducer"] = ["max"]
    log_of_mean = write_json(tmp_path / "0.json", samples, header_of_mean)
    log_of_max = write_json(tmp_path / "1.json", samples, header_of_max)

    assert main([command, str(log_of_mean), str(log_of_max)]) == 0

    output = capsys.readouterr().out
    reason = "the task reduces the epochs of a row by max; here its value is their mean"
    assert f"note: openai/small: capitals: {reason}" in output
    assert "openai/large: capitals" not in output
