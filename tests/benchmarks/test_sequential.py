"""Early stopping: rows, order, durability, undefined cases, what marks a partial result, and its verification."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from statistics import fmean
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest

from StaICC import Normal, Statistics, load
from StaICC.benchmarks.findings import Contradicted, Recomputed, Unchecked, status_of
from StaICC.benchmarks.race import LOOK, StoppingRule, follow, race, row_order
from StaICC.benchmarks.verify import verify, verify_file
from StaICC.comparing.comparison import compare
from StaICC.datasets.catalogue import SplitSizes
from StaICC.datasets.dataset import Dataset
from StaICC.errors import ArgumentError, OutputError
from StaICC.metrics.confidence_sequences import ConfidenceSequence
from StaICC.results.result import Result, ResultGroup


def model_with_skill(skill: float, seed: str = "") -> Callable[..., list[float]]:
    """Return a model that knows the label of a share of the prompts, and guesses for the others.

    A prompt of :func:`dataset_with_test_rows` ends with its number and its label, so the model can read it.
    """

    def predict(prompt: str, label_space: list[str]) -> list[float]:
        draw = random.Random(f"{seed}{prompt}")
        _, query = prompt.rsplit("row ", 1)
        _, true_label, *_ = query.split()  # "17 0 label: "
        label = int(true_label) if draw.random() < skill else draw.randrange(len(label_space))
        highest = draw.uniform(0.6, 0.9)
        rest = (1 - highest) / (len(label_space) - 1)
        return [highest if index == label else rest for index in range(len(label_space))]

    return predict


def dataset_with_test_rows(name: str, count: int, label_count: int = 2) -> Dataset:
    """Return a data set with so many test rows, of texts such as "large row 17 0" with the number and the label."""
    rows = []
    for number in range(count + 40):
        label = number * 7 % label_count
        rows.append((f"{name} row {number} {label}", label))
    return Dataset.from_rows(
        rows,
        name=name,
        label_space=[f"label {label}" for label in range(label_count)],
        split=SplitSizes(calibration=5, demonstration=30, test=count),
    )


@pytest.fixture(scope="module")
def three_datasets() -> list[Dataset]:
    """Data sets "large", "middle" and "small" with 160, 100 and 20 test rows, and with two, three and four labels."""
    return [
        dataset_with_test_rows("large", 160),
        dataset_with_test_rows("middle", 100, label_count=3),
        dataset_with_test_rows("small", 20, label_count=4),
    ]


def normal_on(datasets: list[Dataset], **settings: Any) -> Normal:
    """Return Normal with two demonstrations."""
    return Normal(k=2, datasets=datasets, **settings)


@pytest.fixture(scope="module")
def stopped_run(three_datasets: list[Dataset]) -> Result:
    """A run of a model with the skill 0.7 that stopped when the precision of 0.08 was reached."""
    return normal_on(three_datasets)(model_with_skill(0.7), precision=0.08, return_outputs=True)


@pytest.fixture(scope="module")
def full_run(three_datasets: list[Dataset]) -> Result:
    """The run of the same model over all rows."""
    return normal_on(three_datasets)(model_with_skill(0.7))


# -- order and rows


def test_the_order_has_each_row_once(three_datasets: list[Dataset]) -> None:
    large, middle, small = [row_order(experimentor) for experimentor in normal_on(three_datasets)]

    assert sorted(large) == list(range(160))
    assert sorted(middle) == list(range(100))
    assert sorted(small) == list(range(20))


def test_the_order_does_not_depend_on_the_prompts(three_datasets: list[Dataset]) -> None:
    two_demonstrations = Normal(k=2, datasets=three_datasets)
    noisy_channel = Normal(k=0, datasets=three_datasets, noisy_channel=True)

    orders = [row_order(experimentor) for experimentor in two_demonstrations]
    orders_of_noisy_channel = [row_order(experimentor) for experimentor in noisy_channel]

    assert orders_of_noisy_channel == orders


def test_data_sets_have_different_orders(three_datasets: list[Dataset]) -> None:
    """The rows 0 to 19 are all rows of one data set, and the first ones of the other."""
    large, _, small = [row_order(experimentor) for experimentor in normal_on(three_datasets)]

    first_20_rows_of_large = [row for row in large if row < 20]
    assert first_20_rows_of_large != small


def test_the_order_of_the_first_rows_is_that_of_all_without_the_others(three_datasets: list[Dataset]) -> None:
    order_of_all = row_order(normal_on(three_datasets)[0])
    order_of_first_30 = row_order(normal_on(three_datasets, limit=30)[0])

    assert order_of_first_30 == [row for row in order_of_all if row < 30]


def test_the_order_is_frozen() -> None:
    """If it changes, a new version is needed."""
    assert row_order(Normal(datasets=["mini"])[0])[:4] == [29, 21, 12, 94]


@pytest.fixture(scope="module")
def orders_of_equal_datasets() -> list[list[int]]:
    """Return the orders of 240 data sets with the same 100 test rows, under other names."""
    rows = [(f"text {number}", number % 2) for number in range(140)]
    split = SplitSizes(calibration=5, demonstration=30, test=100)
    datasets = []
    for number in range(240):
        datasets.append(Dataset.from_rows(rows, name=f"c{number}", label_space=["a", "b"], split=split))
    assert len({dataset.table.digest for dataset in datasets}) == 1
    return [row_order(experimentor) for experimentor in Normal(k=0, datasets=datasets)]


@pytest.mark.parametrize("row", range(5))
def test_a_row_has_any_position_in_the_orders_of_equal_data_sets(
    orders_of_equal_datasets: list[list[int]], row: int
) -> None:
    """Of positions from 0 to 99, the mean is 49.5; with 240 orders, 6 is about three standard errors."""
    mean_position = fmean(order.index(row) for order in orders_of_equal_datasets)

    assert abs(mean_position - 49.5) < 6


def test_data_sets_with_equal_rows_have_independent_orders(orders_of_equal_datasets: list[list[int]]) -> None:
    """Of 40 runs over six copies of a table, at most 6 intervals are wrong: 5 % and three standard errors.

    If the copies had one order, half of the intervals would be wrong.
    """
    draw = random.Random("copies")
    wrong_intervals = 0
    for first_copy in range(0, 240, 6):
        orders_of_copies = orders_of_equal_datasets[first_copy : first_copy + 6]
        is_right = [float(draw.random() < 0.6) for _ in range(100)]  # the prediction of each row
        sequence = ConfidenceSequence([100] * 6)
        for position in range(99):
            scores_of_round = [is_right[order[position]] for order in orders_of_copies]
            sequence.update(scores_of_round, 0.05)
        low, high = sequence.interval  # the intersection of all rounds
        true_accuracy = fmean(is_right)
        rounding = 1e-9
        if not low - rounding <= true_accuracy <= high + rounding:
            wrong_intervals += 1

    assert wrong_intervals <= 6


def test_a_run_stops_when_the_interval_is_as_narrow_as_the_precision(stopped_run: Result) -> None:
    """The run stopped at the precision of 0.08."""
    stopping = stopped_run.stopping

    assert stopping is not None
    half_width = (stopping.interval.high - stopping.interval.low) / 2
    assert half_width <= 0.08
    assert stopping.rounds < stopping.all_rounds
    assert stopping.all_rounds == 160
    assert stopping.rounds % LOOK == 0, "the interval is looked at after every LOOK rows"


def test_the_interval_of_a_stopped_run_holds_the_accuracy_over_all_rows(stopped_run: Result, full_run: Result) -> None:
    stopping = stopped_run.stopping

    assert stopping is not None
    assert stopping.interval.low <= full_run.averaged["accuracy"] <= stopping.interval.high  # type: ignore[operator]
    assert stopping.estimate == pytest.approx(stopped_run.averaged["accuracy"])


def test_a_partial_run_has_the_first_rows_of_the_order(three_datasets: list[Dataset], stopped_run: Result) -> None:
    """Both repeats of them, in the order of a full run."""
    assert stopped_run.stopping is not None
    for experimentor in normal_on(three_datasets):
        rows = sorted(row_order(experimentor)[: stopped_run.stopping.rounds])
        (condition,) = stopped_run.details[experimentor.name].conditions
        assert list(condition.rows) == rows + rows


def predictions_by_query(result: Result, dataset: str) -> dict[tuple[int, int], Any]:
    """Return the prediction of each query of a data set, by its row and repeat."""
    (condition,) = result.details[dataset].conditions
    queries_of_a_repeat = len(condition.rows) // 2
    predictions = {}
    for position, (row, prediction) in enumerate(zip(condition.rows, condition.predictions, strict=True)):
        predictions[row, position // queries_of_a_repeat] = prediction
    return predictions


@pytest.mark.parametrize("name", ["large", "middle", "small"])
def test_a_partial_run_has_the_predictions_of_the_full_run(stopped_run: Result, full_run: Result, name: str) -> None:
    predictions_of_full = predictions_by_query(full_run, name)

    for query, prediction in predictions_by_query(stopped_run, name).items():
        assert prediction == predictions_of_full[query], f"row and repeat {query}"


def test_a_partial_run_counts_its_queries(stopped_run: Result) -> None:
    assert stopped_run.stopping is not None
    assert stopped_run.outputs is not None

    queries_of_details = sum(details.asked for details in stopped_run.details.values())
    queries_of_outputs = sum(len(records) for records in stopped_run.outputs.values())
    assert stopped_run.stopping.queries == queries_of_details
    assert stopped_run.stopping.queries == queries_of_outputs


def test_a_partial_run_counts_the_queries_of_the_full_run(stopped_run: Result, full_run: Result) -> None:
    assert stopped_run.stopping is not None

    two_queries_of_each_row = 2 * (160 + 100 + 20)
    assert stopped_run.stopping.all_queries == two_queries_of_each_row
    assert sum(details.asked for details in full_run.details.values()) == two_queries_of_each_row


@pytest.mark.parametrize("score", ["accuracy", "likelihood"])
def test_when_all_rows_are_evaluated_the_interval_is_the_score(
    three_datasets: list[Dataset], full_run: Result, score: str
) -> None:
    """No interval is as narrow as 1e-6 before the last row."""
    benchmark = normal_on(three_datasets, outputs="probabilities")

    result = benchmark(model_with_skill(0.7), precision=1e-6, score=score)

    stopping = result.stopping
    assert stopping is not None
    assert stopping.reason == "all rows are evaluated"
    assert stopping.saved == 0
    assert stopping.estimate == pytest.approx(full_run.averaged[stopping.score], abs=1e-12)
    assert stopping.interval.low == stopping.estimate
    assert stopping.interval.high == stopping.estimate


def test_a_run_that_stopped_at_the_last_row_has_the_scores_of_the_full_run(
    three_datasets: list[Dataset], full_run: Result
) -> None:
    benchmark = normal_on(three_datasets, outputs="probabilities")

    result = benchmark(model_with_skill(0.7), precision=1e-6)

    assert result.divided == full_run.divided
    assert "stopping" in result.signature.fields


# -- what is refused


def failing(prompt: str, label_space: list[str]) -> list[float]:
    """Fail for one of twenty prompts."""
    if random.Random(prompt).random() < 0.05:
        raise ValueError("no prediction")
    return model_with_skill(0.7)(prompt, label_space)


def test_a_failed_query_ends_the_run_and_is_not_wrong(three_datasets: list[Dataset]) -> None:
    with pytest.raises(OutputError, match="no prediction"):
        normal_on(three_datasets)(failing, precision=0.08)


def test_a_failed_query_ends_a_race(three_datasets: list[Dataset]) -> None:
    with pytest.raises(OutputError, match="no prediction"):
        race(normal_on(three_datasets), model_with_skill(0.7), failing)


def test_a_race_cannot_collect_failures(three_datasets: list[Dataset]) -> None:
    with pytest.raises(ArgumentError, match="on_error"):
        race(normal_on(three_datasets), model_with_skill(0.7), failing, on_error="collect")


# -- what marks it


def test_the_signature_of_a_partial_result_differs_from_that_of_a_full_one(
    stopped_run: Result, full_run: Result
) -> None:
    assert stopped_run != full_run
    assert stopped_run.signature.differences(full_run.signature).keys() == {"stopping", "statistics", "prompts"}
    assert "precision 0.08 of accuracy at level 0.95" in str(stopped_run.signature)


def test_a_partial_result_says_that_it_stopped_early(stopped_run: Result) -> None:
    assert "EARLY STOPPING: the precision of 0.08 is reached" in str(stopped_run)
    assert "EARLY STOPPING: the precision of 0.08 is reached" in stopped_run._repr_html_()


def test_a_full_result_says_nothing_of_stopping(full_run: Result) -> None:
    assert "EARLY" not in str(full_run)
    assert "stopping" not in full_run.to_dict()


@pytest.mark.parametrize(
    ("first", "second"),
    [("stopped_run", "full_run"), ("full_run", "stopped_run"), ("stopped_run", "stopped_run")],
)
def test_a_partial_result_is_not_compared(first: str, second: str, request: pytest.FixtureRequest) -> None:
    with pytest.raises(ArgumentError, match="stopped early"):
        compare(request.getfixturevalue(first), request.getfixturevalue(second))


def test_a_partial_result_has_no_interval_and_no_baseline_of_a_data_set(stopped_run: Result) -> None:
    """The formulas of intervals and baselines assume a number of rows that was fixed before the run."""
    for details in stopped_run.details.values():
        assert not details.intervals
        assert not details.baselines


# -- verification


def assert_recomputed(result: Result | ResultGroup, benchmark: Normal | None = None) -> None:
    assert status_of(verify(result, benchmark)) == Recomputed()


def test_the_decision_to_stop_is_verified(stopped_run: Result, three_datasets: list[Dataset]) -> None:
    assert_recomputed(stopped_run, normal_on(three_datasets))


def test_the_decision_to_stop_is_unchecked_without_the_data_of_the_user(stopped_run: Result) -> None:
    assert isinstance(status_of(verify(stopped_run)), Unchecked)


@pytest.mark.parametrize(
    ("benchmark_settings", "score"), [({}, "accuracy"), ({"limit": 40, "outputs": "probabilities"}, "likelihood")]
)
def test_a_saved_file_with_data_of_the_library_is_verified(
    benchmark_settings: dict[str, Any], score: str, tmp_path: Path
) -> None:
    benchmark = Normal(datasets=["mini"], **benchmark_settings)
    result = benchmark(lambda prompt, label_space: [0.7, 0.2, 0.1], precision=0.1, score=score)
    result.save(tmp_path / "saved.json")

    assert status_of(verify_file(tmp_path / "saved.json")) == Recomputed()


def test_the_level_of_the_interval_is_verified(three_datasets: list[Dataset]) -> None:
    strict = normal_on(three_datasets, statistics=Statistics(level=0.99))
    result = strict(model_with_skill(0.7), precision=0.1)

    assert result.stopping is not None
    assert result.stopping.interval.level == 0.99
    assert_recomputed(result, strict)

    with_level_of_95 = normal_on(three_datasets)
    assert status_of(verify(result, with_level_of_95)) != Recomputed()


# -- races


class FinishedRace(NamedTuple):
    """A race of two models, and their accuracies over all rows."""

    group: ResultGroup
    first: Any
    second: Any
    reason: str
    """The reason why it should stop."""
    first_full_accuracy: float
    second_full_accuracy: float


@pytest.fixture(
    scope="module",
    params=[
        (0.9, 0.3, "the first model is better"),
        (0.3, 0.9, "the second model is better"),
        (0.9, 0.9, "the models are equivalent within the margin of 0.02"),
    ],
    ids=["first better", "second better", "equivalent"],
)
def finished_race(three_datasets: list[Dataset], request: pytest.FixtureRequest) -> FinishedRace:
    first_skill, second_skill, reason = request.param
    first_model, second_model = model_with_skill(first_skill), model_with_skill(second_skill)
    benchmark = normal_on(three_datasets)
    group = race(benchmark, first_model, second_model)
    first, second = group.results()
    first_full_accuracy: Any = benchmark(first_model).averaged["accuracy"]
    second_full_accuracy: Any = benchmark(second_model).averaged["accuracy"]
    return FinishedRace(group, first, second, reason, first_full_accuracy, second_full_accuracy)


def test_a_race_stops_with_a_reason_and_both_runs_have_it(finished_race: FinishedRace) -> None:
    assert finished_race.first.stopping == finished_race.second.stopping
    assert finished_race.first.stopping.reason == finished_race.reason
    assert finished_race.first.stopping.rounds < 160


@pytest.mark.parametrize("name", ["first", "second"])
def test_each_run_of_a_race_has_the_same_rows(finished_race: FinishedRace, name: str) -> None:
    """Two queries for each row of the rounds, or for all rows of a smaller data set."""
    result = getattr(finished_race, name)
    rounds = result.stopping.rounds
    queries = [len(details.conditions[0].rows) for details in result.details.values()]

    assert queries == [2 * min(rounds, 160), 2 * min(rounds, 100), 2 * min(rounds, 20)]


def test_the_interval_of_a_race_holds_the_difference_of_its_rows(finished_race: FinishedRace) -> None:
    stopping = finished_race.first.stopping

    difference = finished_race.first.averaged["accuracy"] - finished_race.second.averaged["accuracy"]
    assert stopping.estimate == pytest.approx(difference)
    assert stopping.interval.low <= difference <= stopping.interval.high


def test_the_interval_of_a_race_holds_the_difference_of_all_rows(finished_race: FinishedRace) -> None:
    interval = finished_race.first.stopping.interval

    difference_of_all_rows = finished_race.first_full_accuracy - finished_race.second_full_accuracy
    assert interval.low <= difference_of_all_rows <= interval.high


def test_a_race_is_verified(finished_race: FinishedRace, three_datasets: list[Dataset]) -> None:
    assert_recomputed(finished_race.group, normal_on(three_datasets))


def test_a_race_of_nearly_equal_models_ends_with_the_exact_difference(three_datasets: list[Dataset]) -> None:
    """The margin of 0.001 is smaller than what one of 20 rows can change."""
    benchmark = normal_on(three_datasets, limit=20)
    first_model, second_model = model_with_skill(0.7, "a"), model_with_skill(0.7, "b")
    first_accuracy: Any = benchmark(first_model).averaged["accuracy"]
    second_accuracy: Any = benchmark(second_model).averaged["accuracy"]

    stopping = race(benchmark, first_model, second_model, margin=0.001)["first"].stopping

    assert stopping is not None
    assert stopping.rounds == 20
    assert stopping.all_rounds == 20
    assert stopping.interval.low == pytest.approx(first_accuracy - second_accuracy, abs=1e-12)
    assert stopping.interval.high == stopping.interval.low
    better = "first" if first_accuracy > second_accuracy else "second"
    assert stopping.reason == f"the {better} model is better"


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_a_race_goes_on_while_either_model_may_be_better_by_more_than_the_margin(sign: float) -> None:
    """The difference is -0.06 or 0.06: one end of its interval is soon within the margin, the other one is not."""
    draw = random.Random(5)
    differences = []
    for _ in range(2000):
        (difference,) = draw.choices([-1.0, 1.0, 0.0], weights=[0.11, 0.05, 0.84])
        differences.append(sign * difference)
    margin = 0.1
    rule = StoppingRule("race", "accuracy", margin, 0.95)

    def differences_of_rounds(rounds: Any) -> list[list[float]]:
        """Return the difference of the only data set in each round."""
        return [[differences[number]] for number in rounds]

    sequence, reason = follow(rule, [2000], differences_of_rounds)

    low, high = sequence.interval
    assert reason != "all rows are evaluated"
    if reason == "the models are equivalent within the margin of 0.1":
        assert -margin < low <= high < margin


@pytest.mark.parametrize("interval", [(-0.3, 0.05), (-0.05, 0.3)])
def test_a_race_with_one_end_of_the_interval_outside_of_the_margin_goes_on(interval: tuple[float, float]) -> None:
    state: Any = SimpleNamespace(interval=interval, rounds=8, all_rounds=100)

    assert StoppingRule("race", "accuracy", 0.1, 0.95).reason(state) is None


def test_a_race_with_the_interval_within_the_margin_ends() -> None:
    state: Any = SimpleNamespace(interval=(-0.05, 0.05), rounds=8, all_rounds=100)

    assert "equivalent within the margin" in str(StoppingRule("race", "accuracy", 0.1, 0.95).reason(state))


def test_an_exact_tie_is_no_win() -> None:
    """Three data sets of 7 rows, whose sums are not exact in floating point: a difference of 0 stays 0."""
    datasets = [dataset_with_test_rows(name, 7) for name in ("a", "b", "c")]
    always_right = model_with_skill(1.0)

    first_run = race(normal_on(datasets), always_right, always_right, margin=0.001)["first"]

    stopping = first_run.stopping
    assert stopping is not None
    assert stopping.reason == "the models are equivalent within the margin of 0.001"


@pytest.fixture
def saved_race(three_datasets: list[Dataset], tmp_path: Path) -> ResultGroup:
    """Return a race of a good and a bad model that was saved and read again."""
    race(normal_on(three_datasets), model_with_skill(0.9), model_with_skill(0.3)).save(tmp_path / "race.json")
    saved = load(tmp_path / "race.json")
    assert isinstance(saved, ResultGroup)
    return saved


def test_the_decision_of_a_race_is_recomputed(saved_race: ResultGroup, three_datasets: list[Dataset]) -> None:
    assert_recomputed(saved_race, normal_on(three_datasets))


def test_a_race_whose_runs_are_exchanged_is_contradicted(
    saved_race: ResultGroup, three_datasets: list[Dataset]
) -> None:
    exchanged = {"first": saved_race["second"], "second": saved_race["first"]}

    findings = verify(ResultGroup(saved_race.name, exchanged), normal_on(three_datasets))

    assert isinstance(status_of(findings), Contradicted)


def test_a_race_of_one_run_is_contradicted(saved_race: ResultGroup, three_datasets: list[Dataset]) -> None:
    findings = verify(ResultGroup(saved_race.name, {"first": saved_race["first"]}), normal_on(three_datasets))

    assert isinstance(status_of(findings), Contradicted)


def test_a_run_of_a_race_is_unchecked_without_the_other(saved_race: ResultGroup, three_datasets: list[Dataset]) -> None:
    status = status_of(verify(saved_race["first"], normal_on(three_datasets)))

    assert isinstance(status, Unchecked)
    assert "this is one" in status.reason


def test_the_decision_of_a_race_is_unchecked_without_its_benchmark(saved_race: ResultGroup) -> None:
    findings = verify(saved_race)

    assert isinstance(status_of(findings), Unchecked)
    unchecked = [line for finding in findings for line in finding.unchecked]
    assert "stopping" in " ".join(unchecked)


def test_the_runs_of_a_race_are_not_compared(saved_race: ResultGroup) -> None:
    """The p-value of a comparison is not corrected for the looks of a race."""
    with pytest.raises(ArgumentError, match="stopped early"):
        compare(saved_race["first"], saved_race["second"])
