"""HELMET's many-shot tasks: prompts, parses and scores equal those of its code, on made-up tables."""

from __future__ import annotations

import csv
import hashlib
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from StaICC import HELMET, Dataset, LongICL, load_kernel, nearest_gold_table
from StaICC.benchmarks.findings import Recomputed, status_of
from StaICC.benchmarks.task import Statistics
from StaICC.benchmarks.verify import verify
from StaICC.cli import main
from StaICC.comparing.comparison import compare
from StaICC.errors import ArgumentError, DataDamagedError, UnknownNameError
from StaICC.long_icl.cards import cards, task_card
from StaICC.long_icl.experimentor import LongICLExperimentor
from StaICC.long_icl.loading import load
from StaICC.long_icl.options import DEFAULT_LIMIT
from StaICC.long_icl.reference_tokens import BUDGETS
from StaICC.long_icl.selection import permutation
from StaICC.methods.run import Method
from StaICC.prompting.prompt_writer import Query
from StaICC.report.figures.experiment_plot import experiment_chart
from StaICC.report.page import report_html
from StaICC.results.result import Result
from StaICC.results.result import load as load_result
from tests.long_icl.conftest import long_icl_on, score_replies

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "helmet.json").read_text("utf-8"))
TASKS = list(cards("HELMET"))
ODD = (
    "book a table", 'say "hi", please', "{label} {0}", "label: 3", "tschüß ſ ﬁ", "two\nlines", " blanks  ",
    "日本 🎉", "the a an", "\\n \\u0041", "%s", "text\tcategory",
)  # fmt: skip
ROWS = {"train": 400, "test": 150}


def table(name: str, split: str) -> list[tuple[str, str]]:
    """Return made-up rows: frequent and rare labels, odd characters, equal texts with equal and different labels."""
    labels = task_card(name).labels
    rows = []
    for number in range(ROWS[split]):
        text = f"{ODD[number % len(ODD)]} {number * 7 % 90} {split}"
        label = labels[(number * number + number // 3 + len(split)) % len(labels)]
        rows.append((text, label))
    return rows


def write_table(path: Path, rows: list[tuple[str, str]]) -> None:
    with open(path, "w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([("text", "category"), *rows])


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("helmet")
    for name in TASKS:
        for split, spec in task_card(name).files.items():
            write_table(folder / spec.names[0], table(name, split))
    return folder


def helmet(folder: Path, datasets: Sequence[str] | None = None, **options: Any) -> HELMET:
    return HELMET(folder, datasets, verify=False, announce=lambda notice: None, **options)


def experimentor_on(folder: Path, name: str, lengths: tuple[int, ...], limit: int | None = 24) -> LongICLExperimentor:
    """Return the prompts of one data set, with 24 queries of each length if nothing else is said."""
    return helmet(folder, [name], lengths=lengths, limit=limit)[0]


@pytest.mark.parametrize("size", [*range(12), 255, 256, 257, 3080, 25715])
def test_the_permutation_is_that_of_numpy(size: int) -> None:
    numpy = pytest.importorskip("numpy")

    assert permutation(size) == numpy.random.default_rng(42).permutation(size).tolist()


def digest_of(queries: Sequence[Query]) -> str:
    """Return the SHA-256 of all prompts with their true labels, as JSON."""
    prompts_and_labels = [[str(query.prompt), query.label_space[query.label]] for query in queries]
    text = json.dumps(prompts_and_labels, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


@pytest.mark.parametrize("name", TASKS)
def test_prompts_and_labels_of_all_lengths_are_those_of_helmet(tables: Path, name: str) -> None:
    experimentor = experimentor_on(tables, name, BUDGETS)

    digests = {}
    demonstration_counts = []
    for condition in experimentor.conditions():
        digests[condition.name] = digest_of(condition.queries)
        demonstration_counts.append(experimentor.contexts[condition.name].demonstrations)

    assert list(digests) == ["4K", "8K", "16K", "32K", "64K", "128K"]
    assert digests == GOLDEN["prompts"][name]
    assert demonstration_counts == list(task_card(name).shots)


@pytest.mark.parametrize("name", TASKS)
def test_without_a_limit_all_rows_of_helmet_are_queried(tables: Path, name: str) -> None:
    experimentor = experimentor_on(tables, name, (4096,), limit=None)

    queries = experimentor.round_queries("4K")

    assert digest_of(queries) == GOLDEN["all rows"][name]
    with_their_number_as_limit = experimentor_on(tables, name, (4096,), limit=len(queries))
    assert experimentor.limit is None
    assert with_their_number_as_limit.limit is None


@pytest.mark.parametrize("name", TASKS)
def test_the_parts_of_a_prompt_are_instruction_and_demonstrations(tables: Path, name: str) -> None:
    experimentor = experimentor_on(tables, name, (4096,))

    for query in experimentor.round_queries("4K"):
        parts = query.parts
        assert parts is not None
        assert parts.text == query.prompt
        assert parts.instruction == experimentor.card.template.plain
        assert len(parts.demonstrations) == experimentor.contexts["4K"].demonstrations
        assert {demonstration.label for demonstration in parts.demonstrations} <= set(query.label_space)


@pytest.mark.parametrize("name", TASKS)
def test_a_prompt_that_is_too_long_loses_its_first_demonstrations(tables: Path, name: str) -> None:
    """Here two of each prompt."""
    experimentor = experimentor_on(tables, name, (4096,))
    lost = [2] * len(experimentor.test_items)

    sent_contexts = experimentor.contexts["4K"].sent(lost)

    for index, query in enumerate(experimentor.round_queries("4K")):
        assert query.parts is not None
        assert sent_contexts.context_of(index).demonstrations == query.parts.demonstrations[2:]


@pytest.mark.parametrize(("reply", "parsed", "is_right"), GOLDEN["replies"])
def test_a_reply_is_parsed_and_scored_as_helmet_does(tables: Path, reply: str, parsed: str, is_right: bool) -> None:
    """RIGHT and WRONG are in the place of two labels; the other queries have no label in their reply."""
    experimentor = experimentor_on(tables, "helmet_trec_fine", (4096,))
    (condition,) = experimentor.conditions()
    query, *other_queries = condition.queries

    def with_labels(text: str) -> str:
        right_label, wrong_label = query.label_space[query.label], query.label_space[query.label - 1]
        return text.replace("RIGHT", right_label).replace("WRONG", wrong_label)

    replies = [with_labels(reply), *["none"] * len(other_queries)]
    outcome = experimentor.task.read_outcome(condition, replies, "auto", "wrong")

    assert outcome.parsed[0] == with_labels(parsed)
    tally = outcome.tallies[0]
    assert tally is not None
    assert bool(tally.correct) == is_right
    assert outcome.value == is_right / len(condition.queries)


def test_the_golden_replies_are_right_and_wrong() -> None:
    assert {is_right for _, _, is_right in GOLDEN["replies"]} == {True, False}


def copies(prompt: str, label_space: list[str]) -> str:
    """Reply as a model that copies the label of the last demonstration, and does not stop."""
    last_demonstration = prompt.rsplit("label: ", 1)[1]
    return f" {last_demonstration.split()[0]}\n\nmore text\nlabel: 1"


@pytest.fixture(scope="module")
def run_on_all_tasks(tables: Path, tmp_path_factory: pytest.TempPathFactory) -> Result:
    """A saved and loaded run with two lengths."""
    path = tmp_path_factory.mktemp("run") / "result.json"
    helmet(tables, TASKS, lengths=(4096, 8192), limit=30)(copies).save(path)
    saved = load_result(path)
    assert isinstance(saved, Result)
    return saved


def test_a_saved_run_is_recomputed(run_on_all_tasks: Result, tables: Path) -> None:
    assert status_of(verify(run_on_all_tasks, data_dir=tables)) == Recomputed()


def test_a_run_is_signed_as_helmet_with_its_lengths(run_on_all_tasks: Result) -> None:
    fields = run_on_all_tasks.signature.fields

    assert run_on_all_tasks.benchmark == "HELMET"
    assert fields["benchmark"] == "HELMET"
    assert fields["options"] == "lengths=4096+8192"
    assert "datasets" not in fields  # all five
    assert run_on_all_tasks.arguments["lengths"] == [4096, 8192]


@pytest.mark.parametrize("name", TASKS)
def test_a_run_records_the_demonstrations_of_each_length(run_on_all_tasks: Result, name: str) -> None:
    card, values = task_card(name), run_on_all_tasks.divided[name]

    shortest = values["experiment"]["conditions"]["4K"]

    assert shortest["demonstrations"] == card.shots[0]
    assert shortest["per_shown_label"] == card.shots[0] / shortest["labels_shown"]
    assert values["uniform"] == 1 / len(card.labels)


def test_training_rows_in_another_order_are_other_data(run_on_all_tasks: Result, tmp_path: Path) -> None:
    write_table(tmp_path / "helmet_trec_coarse_train.csv", table("helmet_trec_coarse", "train")[::-1])
    write_table(tmp_path / "helmet_trec_coarse_test.csv", table("helmet_trec_coarse", "test"))

    is_same = {finding.dataset: finding.same for finding in verify(run_on_all_tasks, data_dir=tmp_path)}

    assert is_same["helmet_trec_coarse"] is False


def test_a_report_draws_curves_over_the_lengths_of_all_runs(tables: Path) -> None:
    longer_run = helmet(tables, ["helmet_nlu"], lengths=(8192, 16384), limit=9)(copies)
    shorter_run = helmet(tables, ["helmet_nlu"], lengths=(4096, 8192), limit=9)(copies)

    (panel,) = experiment_chart({"longer": longer_run, "shorter": shorter_run}).panels

    assert [name for _, name in panel.x.ticks] == ["4K", "8K", "16K"]
    points = []
    for shape in panel.shapes:
        if shape.kind == "mark":
            tick, _ = shape.points[0]
            points.append((shape.series, tick))
    assert points == [(0, 1), (0, 2), (1, 0), (1, 1)]  # number of the run, number of the tick


def test_indexes_scores_and_replies_predict_the_same_labels(tables: Path) -> None:
    """Every second prediction is wrong: the label after the true one, of 151."""
    label_count = 151
    experimentor = experimentor_on(tables, "helmet_clinc150", (4096,))
    (condition,) = experimentor.conditions()
    indexes = []
    scores = []
    replies = []
    for number, query in enumerate(condition.queries):
        is_right = number % 2 == 0
        index = query.label if is_right else (query.label + 1) % label_count
        indexes.append(index)
        scores_of_query = [0.0] * label_count
        scores_of_query[index] = 1.0
        scores.append(scores_of_query)
        replies.append(f"Label: {query.label_space[index]}.")

    def tallies_of(predictions: list[Any]) -> Any:
        return experimentor.task.read_outcome(condition, predictions, "auto", "wrong").tallies

    assert [bool(tally.correct) for tally in tallies_of(indexes)] == [True, False] * 12
    assert tallies_of(scores) == tallies_of(indexes)
    assert tallies_of(replies) == tallies_of(indexes)


class WrongThenRight(NamedTuple):
    """A run on 36 items, which are 29 different rows: all wrong with 4K tokens, all right with 8K."""

    experimentor: LongICLExperimentor
    run: Any


@pytest.fixture(scope="module")
def wrong_then_right(tables: Path) -> WrongThenRight:
    experimentor = experimentor_on(tables, "helmet_nlu", (4096, 8192), limit=36)
    right = [query.label for query in experimentor.round_queries("4K")]
    wrong = [(label + 1) % 68 for label in right]
    return WrongThenRight(experimentor, score_replies(experimentor, [*wrong, *right]))


def test_helmet_tests_some_rows_twice(wrong_then_right: WrongThenRight) -> None:
    rows = [item.row for item in wrong_then_right.experimentor.test_items]

    assert len(rows) == 36
    assert len(set(rows)) == 29


def test_a_row_that_is_tested_twice_counts_once_in_the_test_of_a_difference(wrong_then_right: WrongThenRight) -> None:
    """All 29 rows change to right: both ends of 2^29 outcomes are as extreme, which count in part."""
    longer = wrong_then_right.run.values["experiment"]["conditions"]["8K"]

    counted_part = 1 - 0.0214 * math.sqrt(29)  # docs/error_rates.md: w = 0.0214 sqrt(n) for n rows
    assert longer["p_value"] == pytest.approx(counted_part * 2 / 2**29)


def test_a_row_that_is_tested_twice_counts_once_against_guessing(wrong_then_right: WrongThenRight) -> None:
    baseline = wrong_then_right.run.details.baselines["8K"]

    p_value_of_29_right_guesses = (1 / 68) ** 29
    assert baseline.p_value == pytest.approx(p_value_of_29_right_guesses, rel=1e-9, abs=0)


def test_the_interval_of_fewer_different_rows_is_wider(wrong_then_right: WrongThenRight, tables: Path) -> None:
    experimentor = experimentor_on(tables, "helmet_clinc150", (4096,), limit=36)
    assert len({item.row for item in experimentor.test_items}) == 36
    all_right = [query.label for query in experimentor.round_queries("4K")]

    of_29_rows = wrong_then_right.run.intervals["8K"]
    of_36_rows = score_replies(experimentor, all_right).intervals["4K"]

    assert of_29_rows.low < of_36_rows.low < 1.0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"lengths": (5000,)}, r"lengths of HELMET: got \(5000,\), expected some of 4096 \(4K\), 8192 \(8K\), 16384"),
        ({"lengths": (8192, 4096)}, "in rising order"),
        ({"lengths": ()}, r"got \(\), expected some of 4096"),
        ({"share": 1.5}, "share: got 1.5, expected a number above 0 and up to 1"),
        ({"datasets": ["banking77"]}, "got 'banking77', expected helmet_banking77, helmet_trec_coarse"),
    ],
    ids=["unknown length", "falling lengths", "no length", "share above 1", "data set of LongICL"],
)
def test_options_that_helmet_does_not_have_are_refused(tables: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        helmet(tables, **options)


def test_data_of_the_user_are_refused(tables: Path) -> None:
    labels = list("abcdefghijklmnopqrst")
    own = Dataset.from_rows([(f"text {number}", number % 20) for number in range(400)], name="own", label_space=labels)

    with pytest.raises(ArgumentError, match="datasets of HELMET: got 'own', expected helmet_banking77"):
        helmet(tables, [own])  # type: ignore[list-item]


def test_the_data_sets_of_helmet_have_no_rounds(tables: Path) -> None:
    with pytest.raises(ArgumentError, match=r"TREC coarse of HELMET has no rounds. Use StaICC.HELMET \(run helmet\)"):
        long_icl_on(tables, ["helmet_trec_coarse"], [1])


def test_the_experiment_helmet_is_gone() -> None:
    with pytest.raises(UnknownNameError, match="experiment 'helmet'"):
        LongICL(experiment="helmet")


def test_one_row_is_too_few_for_data_without_test_set(tmp_path: Path) -> None:
    write_table(tmp_path / "helmet_nlu.csv", [("a", "alarm_set")])

    with pytest.raises(DataDamagedError, match=r"helmet_nlu\.csv: got 1 row, expected 2 or more"):
        load("helmet_nlu", tmp_path, verify=False, announce=lambda notice: None)


def test_of_two_rows_without_test_set_one_is_tested(tmp_path: Path) -> None:
    write_table(tmp_path / "helmet_nlu.csv", [("a", "alarm_set"), ("b", "alarm_set")])

    data = load("helmet_nlu", tmp_path, verify=False, announce=lambda notice: None)

    assert len(data.train) == 1
    assert len(data.test) == 1


def test_the_command_line_runs_and_verifies_helmet(
    tables: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """But for BANKING77, of which the digests are known, so that no made-up rows are taken."""
    path = tmp_path / "result.json"
    options = ["--lengths", "4K", "--limit", "5", "--data-dir", str(tables)]

    assert main(["run", "helmet", "--datasets", *TASKS[1:], *options, "--json", str(path)]) == 0

    assert "HELMET" in capsys.readouterr().err
    saved = load_result(path)
    assert isinstance(saved, Result)
    assert list(saved.divided) == TASKS[1:]
    assert main(["verify", str(path), "--data-dir", str(tables)]) == 0


def test_default_options(tables: Path) -> None:
    benchmark = helmet(tables)
    assert benchmark.dataset_names == TASKS
    assert benchmark["helmet_nlu"].rounds == ("8K", "16K", "32K", "64K", "128K")
    assert len(benchmark["helmet_trec_coarse"].test_items) == ROWS["test"]  # at most 500


# -- commands


def options(folder: Path) -> list[str]:
    """Return the options of a run on NLU, whose digests are not known, so that the command line takes made-up rows."""
    return ["--data-dir", str(folder), "--datasets", "helmet_nlu", "--lengths", "4K", "8K", "--limit", "6"]


def written_prompts(folder: Path, path: Path) -> list[dict[str, Any]]:
    """Return the records of the prompts that the command line writes, with the true labels."""
    assert main(["prompts", "helmet", *options(folder), "--with-truth", "-o", str(path)]) == 0
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def test_every_prompt_of_a_run_is_written(tables: Path, tmp_path: Path) -> None:
    records = written_prompts(tables, tmp_path / "prompts.jsonl")

    experimentor = helmet(tables, ["helmet_nlu"], lengths=(4096, 8192), limit=6)[0]
    assert [record["prompt"] for record in records] == experimentor.prompt_set()
    assert [record["condition"] for record in records] == ["4K"] * 6 + ["8K"] * 6


def test_replies_to_written_prompts_are_scored(tables: Path, tmp_path: Path) -> None:
    """All but the first of twelve replies are the number of the true label."""
    first, *others = written_prompts(tables, tmp_path / "prompts.jsonl")
    replies = [{"id": first["id"], "reply": "no idea"}]
    for record in others:
        true_number = record["label_space"][record["ground_truth"]]
        replies.append({"id": record["id"], "reply": f" {true_number}"})
    replies_file, saved = tmp_path / "replies.jsonl", tmp_path / "result.json"
    replies_file.write_text("\n".join(map(json.dumps, replies)), "utf-8")

    assert main(["score", "helmet", str(replies_file), *options(tables), "--json", str(saved)]) == 0

    result = load_result(saved)
    assert isinstance(result, Result)
    assert result.divided["helmet_nlu"]["4K"] == pytest.approx(5 / 6)
    assert result.divided["helmet_nlu"]["8K"] == 1.0
    assert status_of(verify(result, data_dir=tables)) == Recomputed()


def test_a_batch_has_a_request_for_each_prompt_of_helmet(tables: Path, tmp_path: Path) -> None:
    requests = tmp_path / "requests.jsonl"
    command = ["export", "openai-batch", "--benchmark", "helmet", "--model", "some-model", "-o", str(requests)]

    assert main([*command, *options(tables)]) == 0

    two_lengths, queries = 2, 6
    assert len(requests.read_text("utf-8").splitlines()) == two_lengths * queries


def test_harness_tasks_of_helmet_are_scored_with_the_same_lengths(tables: Path, tmp_path: Path) -> None:
    assert main(["export", "lm-eval", str(tmp_path / "tasks"), "--benchmark", "helmet", *options(tables)]) == 0

    assert "--lengths 4096 8192" in (tmp_path / "tasks" / "README.md").read_text("utf-8")


def second_label(prompt: str, label_space: list[str]) -> list[float]:
    """Return log-probabilities of a model that is certain of the second label."""
    return [0.0 if label == 1 else -1.0 for label in range(len(label_space))]


def test_a_calibration_by_queries_takes_helmet(tables: Path) -> None:
    benchmark = helmet(tables, ["helmet_nlu"], lengths=(4096,), limit=3)

    result = Method("batch_calibration", second_label).run(benchmark)

    assert isinstance(result, Result)
    assert result.signature.fields["method"] == "batch_calibration paper"


def test_a_calibration_by_a_calibration_set_refuses_helmet(tables: Path) -> None:
    benchmark = helmet(tables, ["helmet_nlu"], lengths=(4096,), limit=3)

    with pytest.raises(ArgumentError, match="needs a calibration set, which HELMET does not have"):
        Method("domain_calibration", second_label).run(benchmark)


def test_the_run_file_of_a_result_repeats_it(tables: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings: dict[str, Any] = {"lengths": (4096,), "limit": 3, "share": 0.5}
    settings |= {"parsing": "library", "unparsed": "excluded"}
    result = helmet(tables, ["helmet_nlu"], **settings)(load_kernel("ppm"))
    result.save(tmp_path / "saved.json")
    run_file, repeated = tmp_path / "run.toml", tmp_path / "repeated.json"

    assert main(["show", "run", str(tmp_path / "saved.json")]) == 0
    run_file.write_text(capsys.readouterr().out, "utf-8")
    assert main(["run", "--config", str(run_file), "--data-dir", str(tables), "--quiet", "--json", str(repeated)]) == 0

    assert load_result(repeated).signature == result.signature


def test_the_run_file_of_a_result_has_no_default(
    tables: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The arguments of the result are replaced by the default ones, to save the time of a run with them."""
    result = helmet(tables, ["helmet_nlu"], lengths=(4096,), limit=3)(load_kernel("ppm"))
    result.arguments = {**helmet(tables, ["helmet_nlu"]).arguments(), "limit": DEFAULT_LIMIT}
    result.save(tmp_path / "default.json")

    assert main(["show", "run", str(tmp_path / "default.json")]) == 0

    settings = [line for line in capsys.readouterr().out.splitlines() if " = " in line]
    assert settings == ['benchmark = "helmet"', 'model = "ppm"', 'datasets = ["helmet_nlu"]']


@pytest.fixture(scope="module")
def two_runs(tables: Path) -> dict[str, Result]:
    """Two runs with two lengths: one that is always right, and one of a model that copies a label."""
    benchmark = helmet(tables, ["helmet_nlu"], lengths=(4096, 8192), limit=40)
    right_labels = [query.label for query in benchmark[0].all_queries()]
    return {"right": benchmark(preentered_prediction=[right_labels]), "copies": benchmark(copies)}


def test_runs_are_compared_by_length(two_runs: dict[str, Result]) -> None:
    comparison = compare(two_runs["right"], two_runs["copies"])

    assert [claim.dataset for claim in comparison.claims] == ["4K", "8K"]


def test_a_report_has_the_lengths_of_runs_and_no_mean_over_them(two_runs: dict[str, Result]) -> None:
    page = report_html(two_runs, "two runs")

    assert "HELMET: 4K" in page
    assert "HELMET: 8K" in page
    assert "HELMET by length" in page
    assert "HELMET: mean" not in page


def test_the_table_of_nearest_gold_demonstrations_has_the_lengths(two_runs: dict[str, Result]) -> None:
    assert "helmet_nlu, 8K" in str(nearest_gold_table(two_runs["copies"]))


OTHER_VALUES: dict[str, Any] = {
    "datasets": ["helmet_trec_fine"],
    "lengths": (8192,),
    "limit": 11,
    "parsing": "library",
    "share": 0.5,
    "unparsed": "excluded",
    "statistics": Statistics(intervals=False),
}


@pytest.mark.parametrize("option", OTHER_VALUES)
def test_every_option_is_in_the_signature_and_in_the_file(tables: Path, tmp_path: Path, option: str) -> None:
    options: dict[str, Any] = {"datasets": ["helmet_nlu"], "lengths": (4096, 8192), "limit": 12}
    plain = helmet(tables, **options)
    changed = helmet(tables, **{**options, option: OTHER_VALUES[option]})

    result = changed(copies)
    result.save(tmp_path / "result.json")

    assert changed.signature() != plain.signature()
    saved = load_result(tmp_path / "result.json")
    assert saved == result
    assert isinstance(saved, Result)
    assert status_of(verify(saved, data_dir=tables)) == Recomputed()


def test_missing_data_sets_are_named_with_the_command_that_gets_them(tmp_path: Path) -> None:
    write_table(tmp_path / "helmet_nlu.csv", table("helmet_nlu", "train"))
    result = helmet(tmp_path, lengths=(4096,), limit=3)(copies)
    assert [name for name, details in result.details.items() if details.asked] == ["helmet_nlu"]
    assert result.divided["helmet_clinc150"]["4K"] is None
    assert "data install long-icl" in result.details["helmet_clinc150"].notes[0]
    assert status_of(verify(result, data_dir=tmp_path)) == Recomputed()


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (["run", "helmet", "--rounds", "1"], "--rounds belongs to long-icl; helmet has no such argument"),
        (["run", "helmet", "--levels", "4K"], "--levels belongs to long-icl; helmet has no such argument"),
        (["run", "long-icl", "--lengths", "4K"], "--lengths belongs to helmet; long-icl has no such argument"),
        (["run", "normal", "--share", "0.5"], "--share belongs to long-icl and helmet; normal has no such argument"),
        (["run", "helmet", "--k", "3"], "helmet has no --k"),
        (["run", "HELMET", "--lengths", "5K"], "lengths of HELMET: got [5120], expected some of 4096 (4K)"),
    ],
)
def test_options_of_other_benchmarks_are_refused(
    command: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(command) == 2
    assert message in capsys.readouterr().err
