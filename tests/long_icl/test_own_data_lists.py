"""Own data of LongICL whose texts have several labels each."""

from __future__ import annotations

import csv
import json
import random
from pathlib import Path
from typing import Any

import pytest

from StaICC import Dataset, Experiment, LongICL, Normal, load
from StaICC.benchmarks.findings import Recomputed, status_of
from StaICC.benchmarks.rerunning import Rerun
from StaICC.benchmarks.verify import verify_file
from StaICC.comparing.comparison import compare
from StaICC.comparing.run_records import LabelLimits, read_records
from StaICC.errors import ArgumentError
from StaICC.long_icl.cards import AnswerFormat
from StaICC.long_icl.listed_labels import ListReader
from StaICC.long_icl.own_data import load_own
from StaICC.metrics.statistics import MicroF1
from tests.long_icl.conftest import scored

LABELS = [f"kind {letter}" for letter in "abcdefghijklmnopqrstuvw"]
SHORT = {label: label.removeprefix("kind ") for label in LABELS}


def list_rows(count: int = 400, labels: list[str] = LABELS) -> list[tuple[str, list[str]]]:
    """Texts with one to three labels each; the text names them."""
    draw = random.Random(7)
    rows = []
    for number in range(count):
        chosen = draw.sample(labels, 1 + number % 3)
        rows.append((f"Case {number} is of {'+'.join(label[-1] for label in chosen)}", chosen))
    return rows


def dataset(rows: Any = None, **facts: Any) -> Dataset:
    return Dataset.from_rows(list_rows() if rows is None else rows, **{"name": "cases"} | facts)


def right(prompt: str, label_space: list[str]) -> str:
    letters = prompt.rsplit(" of ", 1)[1].split("\n")[0].split("+")
    return ", ".join(f"kind {letter}" for letter in letters)


def write_csv(path: Path, text_of_list: Any) -> Path:
    with open(path, "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["text", "label"])
        writer.writerows([(text, text_of_list(labels)) for text, labels in list_rows()])
    return path


# -- loading


def test_a_message_shows_the_first_value_of_lists() -> None:
    """It showed any value of the first row, another one in each process."""
    rows = [("first", [f"value {number}" for number in range(20)]), ("second", ["value 20"])]
    with pytest.raises(ArgumentError, match=r"has a label of its own, such as 'value 0'"):
        dataset(rows, label_separator=";")


def test_lists_are_read_from_all_formats_alike(tmp_path: Path) -> None:
    expected = dataset()
    assert expected.card.single_labels == tuple(LABELS)
    json_lines = tmp_path / "lines.jsonl"
    json_lines.write_text("".join(json.dumps({"text": text, "label": labels}) + "\n" for text, labels in list_rows()))
    made = [
        Dataset.from_file(json_lines),
        Dataset.from_file(write_csv(tmp_path / "json.csv", json.dumps)),
        Dataset.from_file(write_csv(tmp_path / "python.csv", str)),  # as pandas writes lists
        Dataset.from_file(write_csv(tmp_path / "separator.csv", "; ".join), label_separator=";"),
        Dataset.from_file(
            write_csv(tmp_path / "reversed.csv", lambda labels: "|".join(labels[::-1])), label_separator="|"
        ),
    ]
    for own in made:
        assert (own.table.digest, own.card.label_space) == (expected.table.digest, expected.card.label_space)
        record = json.loads(json.dumps(own.file_record()))
        reopened = Dataset.reopen(record, [tmp_path])
        assert (reopened.card, reopened.table.digest) == (own.card, own.table.digest)


def test_label_names_and_their_order_are_those_of_the_user() -> None:
    names = [*LABELS[::-1], "kind z"]
    own = dataset(label_space=names)
    assert own.card.single_labels == tuple(names)
    _, labels = list_rows()[2]
    assert own.card.label_space[own.table[2].label] == json.dumps(sorted(labels, reverse=True))
    renamed = dataset(label_space={label: f"sort {letter}" for label, letter in SHORT.items()})
    assert renamed.card.single_labels[0] == "sort a"
    assert renamed.table.digest == dataset().table.digest


def test_texts_that_the_user_names_as_labels_are_no_lists() -> None:
    rows = [(f"text {number}", f'["{number % 3}"]') for number in range(30)]
    assert dataset(rows).card.labels_in_lists == ("0", "1", "2")
    assert dataset(rows, label_space=['["0"]', '["1"]', '["2"]']).card.labels_in_lists == ()


@pytest.mark.parametrize(
    ("rows", "facts", "message"),
    [
        ([("a", ["x", None]), ("b", ["y"])], {}, r"row 0: a list of labels has an empty label: got \['x', None\]"),
        ([("a", []), ("b", ["y"])], {}, "row 0 has no label"),
        ([("a", [["x"]]), ("b", ["y"])], {}, "row 0: a label must be a text or a number, or a list of these"),
        ([("a", ["x", "y"]), ("b", ["y", "x"])], {}, "all 2 rows have the same labels"),
        ([("a", "x"), ("b", "y")], {"label_separator": " "}, "label_separator: got ' ', expected the text between"),
        ([("a", ["x", "z"]), ("b", ["y"])], {"label_space": ["x", "y"]}, "row 0: there is no label 'z'"),
    ],
)
def test_lists_that_cannot_be_read_are_refused(rows: Any, facts: Any, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        dataset(rows, **facts)


def test_other_benchmarks_refuse_several_labels() -> None:
    with pytest.raises(ArgumentError, match=r"cases: texts have several labels, .* Only LongICL \(run long-icl\)"):
        Normal(datasets=[dataset()])[0]


def test_each_label_is_in_the_test_set_as_often_as_in_the_others() -> None:
    """The split is stratified by the rarest label of a row: a rare label is neither lost nor in one part only."""
    rows = [
        (text, [*labels, "rare"] if number % 40 == 0 else labels) for number, (text, labels) in enumerate(list_rows())
    ]
    data = load_own(dataset(rows))
    tested = sum("rare" in row.item().gold for row in data.test)
    assert tested == 4  # 40 % of 10


# -- prompts


def test_every_round_shows_every_label_so_often() -> None:
    benchmark = LongICL(datasets=[dataset()])["cases"]
    for number in range(1, 6):
        shown = [label for item in benchmark.data.demonstration_rows(number) for label in item.gold]
        assert min(shown.count(label) for label in LABELS) == number
    sizes = [benchmark.contexts[number].demonstrations for number in range(1, 6)]
    assert sizes == sorted(sizes)
    assert sizes[0] < len(LABELS)  # a text shows several labels


def test_prompts_list_labels() -> None:
    benchmark = LongICL(datasets=[dataset()], rounds=[1])["cases"]
    prompt = str(benchmark.prompt_set()[0])
    assert prompt.startswith(
        "Given the text, please predict the labels. There can be several, with commas between them."
    )
    for item in benchmark.data.demonstration_rows(1):
        assert f"text: {item.texts[0]}\nlabels: {', '.join(item.gold)}\n" in prompt
    assert prompt.endswith(f"text: {benchmark.test_items[0].texts[0]}\nlabels: ")


def test_labels_with_commas_are_separated_by_another_character() -> None:
    rows = [(text, [label.replace(" ", ", ") for label in labels]) for text, labels in list_rows()]
    benchmark = LongICL(datasets=[dataset(rows)], rounds=[1], parsing="library")["cases"]
    assert "with semicolons between them" in benchmark.context(1)
    replies = ["; ".join(item.gold) for item in benchmark.test_items]
    assert scored(benchmark, replies).values["1R"] == 1.0
    rows = [(text, [f"{label},;|" for label in labels]) for text, labels in list_rows()]
    with pytest.raises(ArgumentError, match="the labels contain commas, semicolons, vertical bars"):
        LongICL(datasets=[dataset(rows)])


# -- replies and scores


def last_after(separator: str, last_separator: str, labels: list[str]) -> str:
    """The labels as a text, with another separator before the last one."""
    *others, last = labels
    if not others:
        return last
    return separator.join(others) + last_separator + last


WRITTEN = {
    "as in the prompt": ", ".join,
    "continued by a base model": lambda gold: f"{', '.join(gold)}\ntext: other\nlabels: kind a, kind b, kind c",
    "with an introduction": lambda gold: f"The labels are: {', '.join(gold)}.",
    "one to a line": lambda gold: "Labels:\n" + "\n".join(f"- {label.upper()}" for label in gold),
    "numbered": lambda gold: "\n".join(f"{number}. **{label}**" for number, label in enumerate(gold, 1)),
    "JSON": lambda gold: json.dumps(list(gold)),
    "JSON object": lambda gold: json.dumps({"labels": list(gold)}),
    "code block": lambda gold: f"```json\n{json.dumps(list(gold))}\n```",
    "words": " and ".join,
    "comma before the last": lambda gold: last_after(", ", ", and ", gold),
    "semicolon before the last": lambda gold: last_after("; ", "; and ", gold),
    "a name of the list, and words": lambda gold: f"label: {' and '.join(gold)}",
    "an introduction, and words": lambda gold: f"The labels are: {' and '.join(gold)}",
    "a sentence": lambda gold: f"The labels are {last_after(', ', ' and ', gold)}.",
    "both": lambda gold: f"both {' and '.join(gold)}",
    "slashes": " / ".join,
    "other separators": "; ".join,
    "after reasoning": lambda gold: f"<think>Is it kind a? No.</think>\n{', '.join(gold)}",
    "with an explanation": lambda gold: f"{', '.join(gold)}\n\nThe text does not look like kind a at all.",
    "repeated": lambda gold: ", ".join([*gold, *gold]),
    "another order": lambda gold: ", ".join(gold[::-1]),
}


@pytest.mark.parametrize("way", WRITTEN)
def test_usual_replies_are_read(way: str) -> None:
    benchmark = LongICL(datasets=[dataset()], rounds=[1], parsing="library")["cases"]
    run = scored(benchmark, [WRITTEN[way](item.gold) for item in benchmark.test_items])
    assert run.values["1R"] == 1.0
    assert run.details.unparsed == ()


@pytest.mark.parametrize(
    "reply",
    [
        "late or lost",
        "late, lost or damaged",
        "late, lost, or damaged",
        "late; or lost",
        "late and/or lost",
        "either late or lost, damaged",
        "The labels are late or lost, damaged",
    ],
)
def test_alternatives_are_unparsed(reply: str) -> None:
    """The reply does not say which of the labels hold, so none of them counts, not even those before "or"."""
    assert reader_of(["late", "lost", "damaged"]).labels_of(reply) == []


def test_alternatives_in_an_explanation_do_not_matter() -> None:
    assert reader_of(["late", "lost", "damaged"]).labels_of("late\nIt could be lost or damaged.") == ["late"]


def test_a_denied_label_is_not_read() -> None:
    assert reader_of(["late", "lost", "damaged"]).labels_of("The labels are not late and lost") == []


@pytest.mark.parametrize(
    "reply", ["{0}, {1}", "{0}, {1}.", "{0}\n{1}", "{0} and {1}", "both {0} and {1}", "- {0}\n- {1}"]
)
@pytest.mark.parametrize("form", ["{}. Kind", "{}) Kind", "({}) Kind", "- Kind {}", "{}. kind {}"])
def test_numbers_and_marks_of_labels_are_no_marks_of_a_list(form: str, reply: str) -> None:
    labels = [form.format(number, number) for number in range(1, 13)]
    reader = reader_of(labels)
    for first, second in (labels[:2], labels[2:4], labels[10:]):
        assert reader.labels_of(reply.format(first, second)) == [first, second]


def test_numbers_before_labels_without_numbers_are_marks_of_a_list() -> None:
    reader = reader_of(["late", "2. lost", "damaged"])
    assert reader.labels_of("1. late\n2. damaged") == ["late", "damaged"]
    assert reader.labels_of("1. late, 2. damaged") == ["late", "damaged"]
    assert reader.labels_of("1. 2. lost\n2. late") == ["2. lost", "late"]


def test_words_of_labels_separate_none() -> None:
    reader = reader_of(["fire", "search and rescue", "true or false", "n/a"])
    assert reader.labels_of("fire and search and rescue") == ["fire", "search and rescue"]
    assert reader.labels_of("search and rescue, and fire") == ["search and rescue", "fire"]
    assert reader.labels_of("true or false and n/a") == ["true or false", "n/a"]


def reader_of(labels: list[str]) -> ListReader:
    return ListReader(labels, AnswerFormat(cue="labels:", marker=None, lower=True, delete=""))


def test_the_score_is_micro_f1() -> None:
    benchmark = LongICL(datasets=[dataset()], rounds=[1], parsing="library", limit=30)["cases"]
    first, *others = benchmark.test_items
    wrong = next(label for label in LABELS if label not in first.gold)
    replies = [", ".join([first.gold[0], wrong]), *("no idea" for _ in others)]
    run = scored(benchmark, replies)
    gold_count = sum(len(item.gold) for item in benchmark.test_items)
    score = run.values["rounds"]["1R"]["score"]
    assert (score["gold"], score["predicted"], score["correct"]) == (gold_count, 2, 1)
    assert score["f1"] == pytest.approx(2 * 1 / (gold_count + 2), abs=1e-15)
    assert len(run.details.unparsed) == len(others)


def test_guesses_have_the_score_of_one_label_for_each_text() -> None:
    benchmark = LongICL(datasets=[dataset()], rounds=[1], parsing="library")["cases"]
    values = scored(benchmark, ["kind a"] * len(benchmark.test_items)).values
    constant = {}
    for label in LABELS:
        constant[label] = scored(benchmark, [label] * len(benchmark.test_items)).values["1R"]
    assert values["majority"] == max(constant.values()) == constant[values["majority_label"]]
    assert values["uniform"] == pytest.approx(sum(constant.values()) / len(LABELS))


def test_the_nearest_demonstration_predicts_all_of_its_labels() -> None:
    rows = [(f"text {number} about {'+'.join(labels)}", labels) for number, (_, labels) in enumerate(list_rows())]
    benchmark = LongICL(datasets=[dataset(rows)], rounds=[1], parsing="library")["cases"]
    values = scored(benchmark, ["kind a"] * len(benchmark.test_items)).values
    assert values["majority"] < values["nearest"] <= 1.0


def test_results_are_saved_verified_and_compared(tmp_path: Path) -> None:
    path = write_csv(tmp_path / "cases.csv", ";".join)
    benchmark = LongICL(
        datasets=[Dataset.from_file(path, label_separator=";")], rounds=(1, 2), limit=60, parsing="library"
    )
    result = benchmark(right, progress=False)
    assert result.divided["cases"]["2R"] == 1.0
    result.save(tmp_path / "result.json")
    assert load(tmp_path / "result.json") == result
    status = status_of(verify_file(tmp_path / "result.json"))
    assert status == Recomputed()
    again = verify_file(tmp_path / "result.json", rerun=Rerun(right, 5))
    assert again[-1].message == "no query could be predicted again"
    worse = benchmark(lambda prompt, label_space: "kind a", progress=False)
    (compared,) = compare(result, worse).datasets
    assert compared.difference == pytest.approx(1.0 - worse.divided["cases"]["mean"])
    forged = json.loads((tmp_path / "result.json").read_text("utf-8"))
    forged["files"]["cases"]["card"]["labels_in_lists"] = LABELS[::-1]
    (tmp_path / "forged.json").write_text(json.dumps(forged), "utf-8")
    assert status_of(verify_file(tmp_path / "forged.json")) != status


def test_missing_records_of_queries_are_explained(caplog: pytest.LogCaptureFixture) -> None:
    """An empty list could mean that the run had no queries."""
    result = LongICL(datasets=[dataset()], rounds=[1], limit=5, parsing="library")(right, progress=False)
    assert result.queries() == []
    assert "cases: the result has no records of the 5 queries: they are kept for predictions of one label" in (
        caplog.text
    )


def test_a_missing_reply_names_each_label_once_at_most() -> None:
    """Comparisons assumed 100 labels in a missing reply, also of data sets with fewer labels."""
    benchmark = LongICL(datasets=[dataset()], rounds=[1], parsing="library", limit=30)

    def fails_once(prompt: str, label_space: list[str]) -> str:
        if prompt == str(benchmark["cases"].round_queries(1)[4].prompt):
            raise RuntimeError("the server is down")
        return "kind a"

    result = benchmark(fails_once, progress=False, on_error="collect")
    records = read_records(result, "cases", "1R", MicroF1((1.0, 1.0)))
    assert records.label_limits == LabelLimits(true=3.0, predicted=float(len(LABELS)))


# -- experiments


@pytest.mark.parametrize(
    "experiment",
    [
        Experiment("context", levels=(256, 512)),
        Experiment("length", levels=(256, 512)),
        Experiment("shots", levels=(0, 1, 3)),
        Experiment("order", levels=(2,)),
        Experiment("controls"),
        Experiment("retrieval", levels=(4,)),
        Experiment("budget", levels=(512,)),
    ],
    ids=lambda experiment: experiment.name,
)
def test_experiments_show_and_score_several_labels(experiment: Experiment) -> None:
    benchmark = LongICL(datasets=[dataset()], experiment=experiment, limit=40, parsing="library")
    experimentor = benchmark["cases"]
    assert experimentor.queries.unavailable == {}
    result = benchmark(right, progress=False)
    analysis = result.divided["cases"]["experiment"]
    for name, condition in analysis["conditions"].items():
        if name == "symbols":  # the model says names that are no labels there
            assert condition["score"] == 0.0
            continue
        assert condition["score"] == 1.0, name
        assert condition["p_value"] is None
        if condition["difference"] is not None:
            assert condition["difference"] == 0.0 or name == "symbols"
    assert str(result)


def test_controls_keep_the_number_of_labels() -> None:
    experimentor = LongICL(datasets=[dataset()], experiment="controls")["cases"]
    counts = {}
    for name in ("normal", "shuffled labels", "random labels", "symbols"):
        shown = experimentor.contexts[name].shown_labels(0)
        counts[name] = sorted(len(labels) for labels in shown)
        assert [labels for labels in shown if len(set(labels)) != len(labels)] == []
    assert len({tuple(numbers) for numbers in counts.values()}) == 1
    assert ", S" in experimentor.context("symbols")


def test_missing_replies_are_at_their_worst_in_differences() -> None:
    """Without replies to some queries of one condition, the limits hold whatever these replies would have been."""
    benchmark = LongICL(
        datasets=[dataset()],
        experiment=Experiment("shots", levels=(1, 2)),
        limit=40,
        parsing="library",
        unparsed="excluded",
    )
    experimentor = benchmark["cases"]
    gold = [", ".join(item.gold) for item in experimentor.test_items]
    complete = scored(experimentor, [*gold, *gold]).values["experiment"]["conditions"]["2 shots"]
    missing = ["no idea"] * 10 + gold[10:]
    excluded = scored(experimentor, [*gold, *missing]).values["experiment"]["conditions"]["2 shots"]
    wrong = ", ".join(LABELS)  # the lowest F1: all labels
    worst = scored(experimentor, [*gold, *([wrong] * 10 + gold[10:])]).values["experiment"]["conditions"]["2 shots"]
    assert excluded["difference"] == complete["difference"] == 0.0
    assert excluded["difference_low"] <= worst["difference_low"] < complete["difference_low"]


def test_the_experiment_position_is_for_texts_with_one_label() -> None:
    with pytest.raises(ArgumentError, match="position is not defined for texts with several labels, because"):
        LongICL(datasets=[dataset()], experiment="position")
