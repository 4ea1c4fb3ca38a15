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


def random_grades(seed: int, share: float, count: int = 60) -> str:
    generator = random.Random(seed)
    return "".join("C" if generator.random() < share else "I" for _ in range(count))


def as_numbers(grades: str) -> list[float]:
    return [float(grade == "C") for grade in grades]


# -- inspect_ai


def test_the_p_value_of_grades_is_that_of_mcnemar(tmp_path: Path) -> None:
    first, second = random_grades(1, 0.8), random_grades(2, 0.5)
    paths = [write_grades(tmp_path / f"{n}.eval", MODELS[n], grades) for n, grades in enumerate((first, second))]
    (line,) = compare(*read_logs(*paths).values()).datasets
    assert (line.dataset, line.rows) == ("capitals", 60)
    assert line.p_value == pytest.approx(mcnemar(as_numbers(first), as_numbers(second)), rel=1e-9)


def test_the_unit_of_the_test_is_the_row_with_all_its_epochs(tmp_path: Path) -> None:
    """Of 16 rows with a graded score in three epochs, the sums are compared, which differ by at most 3."""
    draw = random.Random(3)
    grades_of_large = [[draw.randint(0, 100) / 100 for _ in range(3)] for _ in range(16)]
    grades_of_small = [[draw.randint(0, 40) / 100 for _ in range(3)] for _ in range(16)]
    large = write_epochs(tmp_path / "0.json", MODELS[0], grades_of_large)
    small = write_epochs(tmp_path / "1.json", MODELS[1], grades_of_small)
    results = read_logs(large, small, value_range=(0, 1), higher_is_better=True)

    (line,) = compare(*results.values()).datasets
    assert (line.rows, line.queries) == (16, (48, 48))
    sums_of_large = [round(sum(grades), 2) for grades in grades_of_large]
    sums_of_small = [round(sum(grades), 2) for grades in grades_of_small]
    differences = {round(one - other, 2) for one, other in zip(sums_of_large, sums_of_small, strict=True)}
    assert len(differences) == 16, "no two rows have the same difference"
    assert line.p_value == pytest.approx(two_sided_gaffke(sums_of_large, sums_of_small, width=3), rel=1e-9)


def write_epochs(path: Path, model: str, grades: list[list[float]]) -> Path:
    """Write a log of a model with the grades of each row in each epoch."""
    samples = []
    for row, grades_of_row in enumerate(grades):
        for epoch, grade in enumerate(grades_of_row, start=1):
            samples.append(sample(row, grade, epoch, scorer="closeness"))
    return write_json(path, samples, inspect_header(model, len(grades), epochs=len(grades[0])))


@pytest.fixture
def logs_of_points(tmp_path: Path) -> list[str]:
    """Return logs of two models with points from 0 to 3, whose range and direction a log does not say."""
    paths = []
    for model, levels in zip(MODELS, (3, 4), strict=True):
        samples = [sample(row, float(row % levels), scorer="points") for row in range(30)]
        paths.append(str(write_json(tmp_path / f"{levels}.json", samples, inspect_header(model, 30))))
    return paths


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


def test_a_failed_run_in_a_folder_is_left_out_and_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    for number, model in enumerate(MODELS):
        folder = tmp_path / str(number)
        folder.mkdir()
        write_grades(folder / "a.eval", model, random_grades(number, 0.5))
        failed = inspect_header(model, 4)
        failed["status"] = "error"
        write_archive(folder / "b.eval", [sample(0, "C", scores={}, error={"message": "no key"})], failed)
    folders = [str(tmp_path / "0"), str(tmp_path / "1")]
    assert main(["compare", *folders]) == 0
    assert "capitals" in capsys.readouterr().out
    assert caplog.text.count("b.eval: no sample has a score") == 2

    # A log that is named must be usable.
    assert main(["compare", f"{folders[0]}/b.eval", f"{folders[1]}/a.eval"]) == 2
    assert "b.eval: no sample has a score" in capsys.readouterr().err


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
    grades = random_grades(1, 0.5)
    first = write_grades(tmp_path / "a.eval", MODELS[0], grades)
    second = write_grades(tmp_path / "b.eval", MODELS[1], grades, **change)
    assert main(["compare", str(first), str(second)]) == 2
    assert reason in capsys.readouterr().err


def test_other_rows_of_the_same_ids_are_not_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first = write_grades(tmp_path / "a.eval", MODELS[0], random_grades(1, 0.5))
    samples = [sample(row, "C", input="another question") for row in range(60)]
    second = write_archive(tmp_path / "b.eval", samples, inspect_header(MODELS[1], 60))
    assert main(["compare", str(first), str(second)]) == 2
    assert "other documents or targets under the same id" in capsys.readouterr().err


def test_a_task_without_the_metric_says_so(tmp_path: Path) -> None:
    """The reason is about the metric that is compared, not a note about another one."""
    for number, model in enumerate(MODELS):
        folder = tmp_path / str(number)
        folder.mkdir()
        write_grades(folder / "a.eval", model, random_grades(number, 0.5))
        samples = [sample(row, row / 7, scorer="points") for row in range(30)]
        write_json(folder / "b.json", samples, inspect_header(model, 30, task="rivers"))
    results = read_logs(tmp_path / "0", tmp_path / "1", higher_is_better=True)
    comparison = compare(*results.values(), metric="match")
    assert any("rivers" in line and "the task has no match" in line for line in comparison.left_out), (
        f"got {comparison.left_out}"
    )


def test_epochs_that_a_cancelled_run_lacks_count_at_their_worst(tmp_path: Path) -> None:
    """The first run was cancelled after one of two epochs, in which it was always right."""
    complete = [sample(row, "I", epoch) for row in range(20) for epoch in (1, 2)]
    half = [sample(row, "C", 1) for row in range(20)]
    cancelled = inspect_header(MODELS[0], 20, epochs=2)
    cancelled["status"] = "cancelled"
    first = write_archive(tmp_path / "a.eval", half, cancelled)
    second = write_archive(tmp_path / "b.eval", complete, inspect_header(MODELS[1], 20, epochs=2))
    (line,) = compare(*read_logs(first, second).values()).datasets
    assert (line.rows, line.queries, line.missing) == (20, (40, 40), (20, 0))
    assert line.ends == (0.5, 1.0)  # the missing epochs are all wrong, or all right


def test_rank_and_report_take_logs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for number, share in enumerate((0.9, 0.5, 0.45)):
        write_grades(tmp_path / f"{number}.eval", f"model {number}", random_grades(number, share, 200))
    assert main(["rank", str(tmp_path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert any("model 0" in line and "best" in line for line in lines), f"got {lines}"
    page = tmp_path / "report.html"
    assert main(["report", str(tmp_path), "-o", str(page)]) == 0
    text = page.read_text("utf-8")
    for words in ("model 0", "capitals", "match"):
        assert words in text


# -- HELM


def write_helm(folder: Path, model: str, scores: list[float]) -> Path:
    items = [instance_stats(f"id{row}", stat("exact_match", score)) for row, score in enumerate(scores)]
    requests = [request_state(f"id{row}") for row in range(len(scores))]
    stats = [stat("exact_match", sum(scores) / len(scores))]
    return write_run(folder, items, requests, spec=run_spec(model), stats=stats)


def test_runs_of_helm_are_compared_and_ranked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    scores = [as_numbers(random_grades(seed, share)) for seed, share in ((1, 0.8), (2, 0.5))]
    for number, model in enumerate(MODELS):
        write_helm(tmp_path / f"mmlu:subject=anatomy,model={number}", model, scores[number])
    (line,) = compare(*read_logs(tmp_path).values()).datasets
    assert line.p_value == pytest.approx(mcnemar(*scores), rel=1e-9)
    assert main(["rank", str(tmp_path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert any(MODELS[0] in line and "best" in line for line in lines), f"got {lines}"


def test_one_model_on_several_scenarios_of_helm_is_one_result(tmp_path: Path) -> None:
    for number, subject in enumerate(("anatomy", "law")):
        spec = {**run_spec(), "name": f"mmlu:subject={subject},model=openai_gpt2"}
        items = [instance_stats(f"id{row}", stat("exact_match", float(row % 2))) for row in range(10)]
        write_run(tmp_path / str(number), items, spec=spec)
    (result,) = read_logs(tmp_path).values()
    assert list(result.details) == ["mmlu:subject=anatomy", "mmlu:subject=law"]


def test_a_task_of_one_document_has_no_interval(tmp_path: Path) -> None:
    """HELM with ten instances may have one of them in the split "valid"."""
    items = [instance_stats(f"id{row}", stat("exact_match", float(row % 2))) for row in range(9)]
    items.append(instance_stats("id9", stat("exact_match", 1.0, "valid")))
    (result,) = read_logs(write_run(tmp_path / "run", items)).values()
    (of_test, of_valid) = result.details.values()
    assert "exact_match" in of_test.intervals
    assert "exact_match" not in of_valid.intervals
    assert any("one document has a score" in note for note in of_valid.notes), f"got {of_valid.notes}"
    assert "has no interval" in result.means.missing["exact_match"]


@pytest.mark.parametrize("epoch_of_other_target", [1, 2, 3])
def test_another_target_in_one_repeat_of_a_row_is_refused(tmp_path: Path, epoch_of_other_target: int) -> None:
    """Whichever epoch has another target, it is not known which row the id (1) means."""
    row_count, epochs = 6, (1, 2, 3)
    paths = []
    for number, model in enumerate(MODELS):
        samples = []
        for row in range(row_count):
            for epoch in epochs:
                grade = "I" if row % 2 else "C"
                made = sample(row, grade, epoch)
                if (number, row, epoch) == (1, 1, epoch_of_other_target):
                    made["target"] = "another city"
                samples.append(made)
        head = inspect_header(model, row_count, epochs=len(epochs))
        paths.append(write_json(tmp_path / f"{number}.json", samples, head))

    with pytest.raises(SchemaError, match="the document 1 of capitals has different texts or targets in its repeats"):
        read_logs(*paths)


def test_saved_results_with_another_document_in_one_repeat_are_not_tested(tmp_path: Path) -> None:
    """The digest of the first repeat differs and that of the last one is the same."""
    for name in ("a", "b"):
        lines = [f"{row},{repeat},text {row},{(row + repeat) % 2}" for row in range(30) for repeat in (0, 1)]
        (tmp_path / f"{name}.csv").write_text("\n".join(["row,repeat,digest,acc", *lines]), "utf-8")
    results = read_logs(tmp_path / "a.csv", tmp_path / "b.csv")
    assert compare(results["a"], results["b"]).datasets
    of_b = results["b"].samples["scores"]
    changed = replace(of_b, digests=("another text", *of_b.digests[1:]))
    other = replace(results["b"], samples={"scores": changed})
    with pytest.raises(StaICCError, match="other documents or targets under the same id"):
        compare(results["a"], other)


@pytest.mark.parametrize("command", ["compare", "rank"])
def test_how_epochs_are_averaged_is_said_where_the_values_are_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    """The second task reduces epochs by their best value, and the table has their mean."""
    paths = []
    for number, (model, reducer) in enumerate(zip(MODELS, ("mean", "max"), strict=True)):
        head = inspect_header(model, 6, epochs=2)
        head["eval"]["config"]["epochs_reducer"] = [reducer]
        samples = [sample(row, "CI"[(row + epoch) % 2], epoch) for row in range(6) for epoch in (1, 2)]
        paths.append(str(write_json(tmp_path / f"{number}.json", samples, head)))
    assert main([command, *paths]) == 0
    output = capsys.readouterr().out
    assert (
        "note: openai/small: capitals: the task reduces the epochs of a row by max; here its value is their mean"
        in output
    )
    assert "openai/large: capitals" not in output
