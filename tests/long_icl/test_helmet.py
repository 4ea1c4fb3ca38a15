"""HELMET's many-shot tasks: prompts, parses and scores equal those of its code, on made-up tables."""

from __future__ import annotations

import csv
import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

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
from tests.long_icl.conftest import long_icl_on, scored

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "helmet.json").read_text("utf-8"))
TASKS = list(cards("HELMET"))
ODD = (
    "book a table", 'say "hi", please', "{label} {0}", "label: 3", "tschüß ſ ﬁ", "two\nlines", " blanks  ",
    "日本 🎉", "the a an", "\\n \\u0041", "%s", "text\tcategory",
)  # fmt: skip
ROWS = {"train": 400, "test": 150}


def table(name: str, split: str) -> list[tuple[str, str]]:
    """Invented rows: frequent and rare labels, odd characters, the same text with equal and with different labels."""
    labels, shift = task_card(name).labels, len(split)
    return [
        (f"{ODD[i % len(ODD)]} {i * 7 % 90} {split}", labels[(i * i + i // 3 + shift) % len(labels)])
        for i in range(ROWS[split])
    ]


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
    return helmet(folder, [name], lengths=lengths, limit=limit)[0]


def test_the_permutation_is_that_of_numpy() -> None:
    numpy = pytest.importorskip("numpy")
    for size in (*range(12), 255, 256, 257, 3080, 25715):
        assert permutation(size) == numpy.random.default_rng(42).permutation(size).tolist()


def digest_of(queries: Sequence[Query]) -> str:
    texts = [[str(query.prompt), query.label_space[query.label]] for query in queries]
    return hashlib.sha256(json.dumps(texts, ensure_ascii=False, separators=(",", ":")).encode()).hexdigest()


@pytest.mark.parametrize("name", TASKS)
def test_prompts_and_answers_are_those_of_helmet(tables: Path, name: str) -> None:
    own = experimentor_on(tables, name, BUDGETS)
    assert list(own.rounds) == ["4K", "8K", "16K", "32K", "64K", "128K"]
    for condition in own.conditions():
        assert digest_of(condition.queries) == GOLDEN["prompts"][name][condition.name], condition.name
    assert [own.contexts[length].demonstrations for length in own.rounds] == [*task_card(name).shots]
    every = experimentor_on(tables, name, (4096,), limit=None)
    queries = every.round_queries("4K")
    assert digest_of(queries) == GOLDEN["all rows"][name]
    assert every.limit is experimentor_on(tables, name, (4096,), limit=len(queries)).limit is None


@pytest.mark.parametrize("name", TASKS)
def test_the_parts_of_a_prompt_are_those_of_helmet(tables: Path, name: str) -> None:
    own = experimentor_on(tables, name, (4096,))
    for place, query in enumerate(own.round_queries(own.rounds[0])):
        parts = query.parts
        assert parts is not None
        assert parts.instruction == own.card.template.plain
        assert parts.text == query.prompt
        assert {shown.label for shown in parts.demonstrations} <= set(query.label_space)
        assert len(parts.demonstrations) == own.contexts[own.rounds[0]].demonstrations
        rest = own.contexts[own.rounds[0]].sent([2] * len(own.test_items)).context_of(place)
        assert rest.demonstrations == parts.demonstrations[2:]


def test_replies_are_parsed_and_scored_as_helmet_does(tables: Path) -> None:
    own = experimentor_on(tables, "helmet_trec_fine", (4096,))
    queries = own.round_queries("4K")
    correct = 0
    for reply, parsed, right in GOLDEN["replies"]:
        number, other = (queries[0].label_space[place] for place in (queries[0].label, queries[0].label - 1))
        given = reply.replace("RIGHT", number).replace("WRONG", other)
        answers = [given, *["none"] * (len(queries) - 1)]
        scored = own.task.read_outcome(own.conditions()[0], answers, "auto", "wrong")
        assert scored.parsed[0] == parsed.replace("RIGHT", number).replace("WRONG", other), reply
        tally = scored.tallies[0]
        assert tally is not None
        assert bool(tally.correct) == right, reply
        assert scored.value == right / len(queries)
        correct += right
    assert 0 < correct < len(GOLDEN["replies"])


def copies(prompt: str, label_space: list[str]) -> str:
    """Reply as a model that copies the label of the last demonstration, and does not stop."""
    return f" {prompt.rsplit('label: ', 1)[1].split()[0]}\n\nmore text\nlabel: 1"


def test_a_run_is_saved_and_verified(tables: Path, tmp_path: Path) -> None:
    result = helmet(tables, TASKS, lengths=(4096, 8192), limit=30)(copies)
    result.save(tmp_path / "result.json")
    saved = load_result(tmp_path / "result.json")
    assert isinstance(saved, Result)
    assert status_of(verify(saved, data_dir=tables)) == Recomputed()
    assert saved.benchmark == "HELMET"
    assert saved.signature.fields["benchmark"] == "HELMET"
    assert saved.signature.fields["options"] == "lengths=4096+8192"
    assert "datasets" not in saved.signature.fields  # all five
    assert saved.arguments["lengths"] == [4096, 8192]
    for name in TASKS:
        shown = saved.divided[name]["experiment"]["conditions"]["4K"]
        assert shown["demonstrations"] == task_card(name).shots[0]
        assert shown["per_shown_label"] == task_card(name).shots[0] / shown["labels_shown"]
        assert saved.divided[name]["uniform"] == 1 / len(task_card(name).labels)
    for name in TASKS[1:2]:
        for split in ("train", "test"):
            write_table(tmp_path / f"{name}_{split}.csv", table(name, split)[:: 1 if split == "test" else -1])
    found = {finding.dataset: finding.same for finding in verify(saved, data_dir=tmp_path)}
    assert found["helmet_trec_coarse"] is False


def test_a_report_draws_curves_over_the_lengths_of_all_runs(tables: Path) -> None:
    runs = {
        str(lengths): helmet(tables, ["helmet_nlu"], lengths=lengths, limit=9)(copies)
        for lengths in ((8192, 16384), (4096, 8192))
    }
    (panel,) = experiment_chart(runs).panels
    assert [name for _, name in panel.x.ticks] == ["4K", "8K", "16K"]
    marks = [shape for shape in panel.shapes if shape.kind == "mark"]
    assert [mark.series for mark in marks] == [0, 0, 1, 1]
    assert [mark.points[0][0] for mark in marks] == [1, 2, 0, 1]


def test_all_kinds_of_predictions_name_the_same_label(tables: Path) -> None:
    own = experimentor_on(tables, "helmet_clinc150", (4096,))
    queries = own.round_queries("4K")
    places = [(query.label + number % 2) % 151 for number, query in enumerate(queries)]
    scores = [[float(place == right) for place in range(151)] for right in places]
    texts = [f"Label: {query.label_space[place]}." for query, place in zip(queries, places, strict=True)]
    (condition,) = own.conditions()
    of_kinds = [
        own.task.read_outcome(condition, answers, "auto", "wrong").tallies for answers in (places, scores, texts)
    ]
    assert of_kinds[0] == of_kinds[1] == of_kinds[2]
    assert [bool(tally and tally.correct) for tally in of_kinds[0]] == [True, False] * 12


def test_a_row_that_is_tested_twice_counts_once_in_tests_and_intervals(tables: Path) -> None:
    own = experimentor_on(tables, "helmet_nlu", (4096, 8192), limit=36)
    rows = [item.row for item in own.test_items]
    assert (len(rows), len(set(rows))) == (36, 29)
    right = [query.label for query in own.round_queries("4K")]
    wrong = [(label + 1) % 68 for label in right]
    run = scored(own, [*wrong, *right])
    assert run.values["experiment"]["conditions"]["8K"]["p_value"] == pytest.approx((1 - 0.0214 * 29**0.5) * 2.0**-28)
    assert run.details.baselines["8K"].p_value == pytest.approx(68.0**-29, rel=1e-9, abs=0)
    other = experimentor_on(tables, "helmet_clinc150", (4096,), limit=36)
    assert len({item.row for item in other.test_items}) == 36
    every = scored(other, [query.label for query in other.round_queries("4K")])
    assert run.intervals["8K"].low < every.intervals["4K"].low < 1.0  # 29 rows, 36 rows


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
    own = Dataset.from_rows(
        [(f"text {n}", n % 20) for n in range(400)], name="own", label_space=list("abcdefghijklmnopqrst")
    )
    with pytest.raises(ArgumentError, match="datasets of HELMET: got 'own', expected helmet_banking77"):
        helmet(tables, [own])  # type: ignore[list-item]


def test_the_data_sets_of_helmet_have_no_rounds(tables: Path) -> None:
    with pytest.raises(ArgumentError, match=r"TREC coarse of HELMET has no rounds. Use StaICC.HELMET \(run helmet\)"):
        long_icl_on(tables, ["helmet_trec_coarse"], [1])


def test_the_experiment_helmet_is_gone() -> None:
    with pytest.raises(UnknownNameError, match="experiment 'helmet'"):
        LongICL(experiment="helmet")


def test_data_without_test_set_need_two_rows(tmp_path: Path) -> None:
    write_table(tmp_path / "helmet_nlu.csv", [("a", "alarm_set")])
    with pytest.raises(DataDamagedError, match=r"helmet_nlu\.csv: got 1 row, expected 2 or more"):
        load("helmet_nlu", tmp_path, verify=False, announce=lambda notice: None)
    write_table(tmp_path / "helmet_nlu.csv", [("a", "alarm_set"), ("b", "alarm_set")])
    data = load("helmet_nlu", tmp_path, verify=False, announce=lambda notice: None)
    assert (len(data.train), len(data.test)) == (1, 1)


def test_the_command_line(tables: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "result.json"
    options = ["--lengths", "4K", "--limit", "5", "--data-dir", str(tables), "--json", str(path)]
    assert main(["run", "helmet", "--datasets", *TASKS[1:], *options]) == 0
    assert "HELMET" in capsys.readouterr().err
    saved = load_result(path)
    assert isinstance(saved, Result)
    assert list(saved.divided) == TASKS[1:]  # the digests of BANKING77 are known
    assert main(["verify", str(path), "--data-dir", str(tables)]) == 0


def test_default_options(tables: Path) -> None:
    benchmark = helmet(tables)
    assert benchmark.dataset_names == TASKS
    assert benchmark["helmet_nlu"].rounds == ("8K", "16K", "32K", "64K", "128K")
    assert len(benchmark["helmet_trec_coarse"].test_items) == ROWS["test"]  # at most 500


# -- commands


def words(folder: Path) -> list[str]:
    # The digests of NLU are not known, so the command line takes made-up rows.
    return ["--data-dir", str(folder), "--datasets", "helmet_nlu", "--lengths", "4K", "8K", "--limit", "6"]


def test_prompts_are_written_and_their_replies_scored(tables: Path, tmp_path: Path) -> None:
    """The numbers of a query are in its record, and the replies are read as in a run."""
    prompts = tmp_path / "prompts.jsonl"
    assert main(["prompts", "helmet", *words(tables), "--with-truth", "-o", str(prompts)]) == 0
    records = [json.loads(line) for line in prompts.read_text("utf-8").splitlines()]
    benchmark = helmet(tables, ["helmet_nlu"], lengths=(4096, 8192), limit=6)
    assert [record["prompt"] for record in records] == benchmark[0].prompt_set()
    assert [record["condition"] for record in records] == ["4K"] * 6 + ["8K"] * 6
    replies = [{"id": record["id"], "reply": f" {record['label_space'][record['ground_truth']]}"} for record in records]
    replies[0]["reply"] = "no idea"
    given = tmp_path / "replies.jsonl"
    given.write_text("".join(json.dumps(reply) + "\n" for reply in replies), "utf-8")
    saved = tmp_path / "result.json"
    assert main(["score", "helmet", str(given), *words(tables), "--json", str(saved)]) == 0
    result = load_result(saved)
    assert isinstance(result, Result)
    assert result.divided["helmet_nlu"]["4K"] == pytest.approx(5 / 6)
    assert result.divided["helmet_nlu"]["8K"] == 1.0
    assert status_of(verify(result, data_dir=tables)) == Recomputed()


def test_batches_tasks_and_methods_take_helmet(
    tables: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    requests = tmp_path / "requests.jsonl"
    batch = ["export", "openai-batch", "--benchmark", "helmet", "--model", "some-model", "-o", str(requests)]
    assert main([*batch, *words(tables)]) == 0
    assert len(requests.read_text("utf-8").splitlines()) == 12
    folder = tmp_path / "tasks"
    assert main(["export", "lm-eval", str(folder), "--benchmark", "helmet", *words(tables)]) == 0
    assert "--lengths 4096 8192" in (folder / "README.md").read_text("utf-8")
    benchmark = helmet(tables, ["helmet_nlu"], lengths=(4096,), limit=3)

    def second_label(prompt: str, label_space: list[str]) -> list[float]:
        return [-float(place != 1) for place in range(len(label_space))]

    result = Method("batch_calibration", second_label).run(benchmark)
    assert isinstance(result, Result)
    assert result.signature.fields["method"] == "batch_calibration paper"
    with pytest.raises(ArgumentError, match="needs a calibration set, which HELMET does not have"):
        Method("domain_calibration", second_label).run(benchmark)


def test_the_run_file_of_a_result_has_what_is_not_the_default(
    tables: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings: dict[str, Any] = {"lengths": (4096,), "limit": 3, "share": 0.5}
    settings |= {"parsing": "library", "unparsed": "excluded"}
    result = helmet(tables, ["helmet_nlu"], **settings)(load_kernel("ppm"))
    result.save(tmp_path / "saved.json")
    run_file, repeated = tmp_path / "run.toml", tmp_path / "repeated.json"
    assert main(["show", "run", str(tmp_path / "saved.json")]) == 0
    run_file.write_text(capsys.readouterr().out, "utf-8")
    assert main(["run", "--config", str(run_file), "--data-dir", str(tables), "--quiet", "--json", str(repeated)]) == 0
    assert load_result(repeated).signature == result.signature

    result.arguments = {**helmet(tables, ["helmet_nlu"]).arguments(), "limit": DEFAULT_LIMIT}
    result.save(tmp_path / "default.json")
    assert main(["show", "run", str(tmp_path / "default.json")]) == 0
    values = [line for line in capsys.readouterr().out.splitlines() if " = " in line]
    assert values == ['benchmark = "helmet"', 'model = "ppm"', 'datasets = ["helmet_nlu"]']


def test_runs_are_compared_by_length(tables: Path) -> None:
    """The mean over lengths is no score: comparisons and leaderboards have a line, or a column, for each length."""
    benchmark = helmet(tables, ["helmet_nlu"], lengths=(4096, 8192), limit=40)
    answers = [query.label for query in benchmark[0].all_queries()]
    runs = {"right": benchmark(preentered_prediction=[answers]), "copies": benchmark(copies)}
    comparison = compare(runs["right"], runs["copies"])
    assert [claim.dataset for claim in comparison.claims] == ["4K", "8K"]
    page = report_html(runs, "two runs")
    for name in ("HELMET: 4K", "HELMET: 8K", "HELMET by length"):
        assert name in page
    assert "HELMET: mean" not in page
    assert "helmet_nlu, 8K" in str(nearest_gold_table(runs["copies"]))


CHANGED: dict[str, Any] = {
    "datasets": ["helmet_trec_fine"],
    "lengths": (8192,),
    "limit": 11,
    "parsing": "library",
    "share": 0.5,
    "unparsed": "excluded",
    "statistics": Statistics(intervals=False),
}


@pytest.mark.parametrize("option", CHANGED)
def test_every_option_is_in_the_signature_and_in_the_file(tables: Path, tmp_path: Path, option: str) -> None:
    base: dict[str, Any] = {"datasets": ["helmet_nlu"], "lengths": (4096, 8192), "limit": 12}
    first = helmet(tables, **base)
    second = helmet(tables, **{**base, option: CHANGED[option]})
    assert first.signature() != second.signature()
    result = second(copies)
    result.save(tmp_path / "result.json")
    saved = load_result(tmp_path / "result.json")
    assert isinstance(saved, Result)
    assert saved == result
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
