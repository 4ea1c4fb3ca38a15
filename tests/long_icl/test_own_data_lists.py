"""Own data of LongICL whose texts have several labels each."""

from __future__ import annotations

import csv
import json
import random
import re
from collections import Counter
from collections.abc import Callable
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
from tests.long_icl.conftest import score_replies

LABELS = [f"kind {letter}" for letter in "abcdefghijklmnopqrstuvw"]


def list_rows(count: int = 400, labels: list[str] = LABELS) -> list[tuple[str, list[str]]]:
    """Return texts that name their labels, one to three by turns: "Case 2 is of c+a+k" is of "kind c", ...

    The labels are drawn with a fixed seed.
    """
    draw = random.Random(7)
    rows = []
    for number in range(count):
        label_count = 1 + number % 3
        labels_of_row = draw.sample(labels, label_count)
        letters = "+".join(label[-1] for label in labels_of_row)
        rows.append((f"Case {number} is of {letters}", labels_of_row))
    return rows


def dataset(rows: Any = None, **facts: Any) -> Dataset:
    """Return a data set "cases" of the given rows, or of 400 rows with up to three of 23 labels."""
    return Dataset.from_rows(list_rows() if rows is None else rows, **{"name": "cases"} | facts)


def right(prompt: str, label_space: list[str]) -> str:
    """Reply with the labels that the text of the query names."""
    query = prompt.rsplit(" of ", 1)[1]
    letters = query.split("\n")[0].split("+")
    return ", ".join(f"kind {letter}" for letter in letters)


def write_csv(path: Path, written: Callable[[list[str]], str]) -> Path:
    """Write the rows as CSV, with a function that writes a list of labels as a cell."""
    with open(path, "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["text", "label"])
        for text, labels in list_rows():
            writer.writerow([text, written(labels)])
    return path


def write_json_lines(path: Path) -> Path:
    lines = [json.dumps({"text": text, "label": labels}) + "\n" for text, labels in list_rows()]
    path.write_text("".join(lines))
    return path


# -- loading


def test_a_message_shows_the_first_value_of_lists() -> None:
    """Before, the message showed any value of the first row, another one in each process."""
    rows = [("first", [f"value {number}" for number in range(20)]), ("second", ["value 20"])]
    with pytest.raises(ArgumentError, match=r"has a label of its own, such as 'value 0'"):
        dataset(rows, label_separator=";")


FILES: dict[str, Callable[[Path], Dataset]] = {
    "JSON lines": lambda folder: Dataset.from_file(write_json_lines(folder / "lines.jsonl")),
    "CSV of JSON": lambda folder: Dataset.from_file(write_csv(folder / "json.csv", json.dumps)),
    "CSV of pandas, with Python's lists": lambda folder: Dataset.from_file(write_csv(folder / "python.csv", str)),
    "CSV with semicolons": lambda folder: Dataset.from_file(
        write_csv(folder / "semicolons.csv", "; ".join), label_separator=";"
    ),
    "CSV with bars and the labels in another order": lambda folder: Dataset.from_file(
        write_csv(folder / "bars.csv", lambda labels: "|".join(labels[::-1])), label_separator="|"
    ),
}
"""By its format: a function that writes the rows into a folder and reads them."""


@pytest.mark.parametrize("read_file", FILES.values(), ids=FILES)
def test_lists_of_labels_are_read_from_all_formats_alike(tmp_path: Path, read_file: Callable[[Path], Dataset]) -> None:
    of_file, of_rows = read_file(tmp_path), dataset()

    assert of_file.table.digest == of_rows.table.digest
    assert of_file.card.label_space == of_rows.card.label_space
    assert of_file.card.single_labels == tuple(LABELS)


@pytest.mark.parametrize("read_file", FILES.values(), ids=FILES)
def test_a_file_with_lists_of_labels_is_opened_again_from_its_record(
    tmp_path: Path, read_file: Callable[[Path], Dataset]
) -> None:
    of_file = read_file(tmp_path)
    record = json.loads(json.dumps(of_file.file_record()))

    reopened = Dataset.reopen(record, [tmp_path])

    assert reopened.card == of_file.card
    assert reopened.table.digest == of_file.table.digest


def test_labels_are_in_the_order_of_the_user_also_within_a_list() -> None:
    rows = [("first", ["a", "b"]), ("second", ["c"])]

    data = dataset(rows, label_space=["c", "b", "a", "never"])

    assert data.card.single_labels == ("c", "b", "a", "never")
    label_of_first_row = data.card.label_space[data.table[0].label]
    assert label_of_first_row == '["b", "a"]'


def test_other_names_of_labels_do_not_change_the_table() -> None:
    rows = [("first", ["a", "b"]), ("second", ["c"]), ("third", ["c"])]

    renamed = dataset(rows, label_space={"a": "sort a", "b": "sort b", "c": "sort c"})

    assert renamed.card.single_labels == ("sort a", "sort b", "sort c")
    assert renamed.table.digest == dataset(rows).table.digest


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


def test_a_rare_label_is_in_the_test_set_as_often_as_the_others() -> None:
    """The split is stratified by the rarest label of a row: a rare label is neither lost nor in one part only."""
    rows = list_rows(400)
    for number in range(0, 400, 40):
        text, labels = rows[number]
        rows[number] = (text, [*labels, "rare"])

    test_items = [row.item() for row in load_own(dataset(rows)).test]

    rare_items = [item for item in test_items if "rare" in item.gold]
    assert len(rare_items) == 4  # 40 % of the 10 rows with this label


# -- prompts


@pytest.mark.parametrize("number", [1, 2, 3, 4, 5])
def test_a_round_shows_every_label_so_often_at_least(number: int) -> None:
    experimentor = LongICL(datasets=[dataset()])["cases"]

    shown_labels = Counter[str]()
    for item in experimentor.data.demonstration_rows(number):
        shown_labels.update(item.gold)

    assert shown_labels.keys() == set(LABELS)
    assert min(shown_labels.values()) == number


def test_later_rounds_have_more_demonstrations_and_the_first_fewer_than_labels() -> None:
    """A text shows several labels, so fewer texts than labels are enough."""
    contexts = LongICL(datasets=[dataset()])["cases"].contexts

    sizes = [contexts[number].demonstrations for number in (1, 2, 3, 4, 5)]

    assert sizes == sorted(sizes)
    assert sizes[0] < len(LABELS)


def test_prompts_list_labels() -> None:
    experimentor = LongICL(datasets=[dataset()], rounds=[1])["cases"]

    prompt = str(experimentor.prompt_set()[0])

    assert prompt.startswith(
        "Given the text, please predict the labels. There can be several, with commas between them."
    )
    for item in experimentor.data.demonstration_rows(1):
        assert f"text: {item.texts[0]}\nlabels: {', '.join(item.gold)}\n" in prompt
    query = experimentor.test_items[0].texts[0]
    assert prompt.endswith(f"text: {query}\nlabels: ")


def rows_with_labels_like(written: str) -> list[tuple[str, list[str]]]:
    """Return the rows with other names of labels, which have ``{}`` for the letter: of "kind, {}", "kind, a", ..."""
    rows = []
    for text, labels in list_rows():
        letters = [label.removeprefix("kind ") for label in labels]
        rows.append((text, [written.format(letter) for letter in letters]))
    return rows


def test_labels_with_commas_are_separated_by_semicolons() -> None:
    own = dataset(rows_with_labels_like("kind, {}"))
    experimentor = LongICL(datasets=[own], rounds=[1], parsing="library")["cases"]

    replies = ["; ".join(item.gold) for item in experimentor.test_items]

    assert "with semicolons between them" in experimentor.context(1)
    assert score_replies(experimentor, replies).values["1R"] == 1.0


def test_labels_with_all_separators_are_refused() -> None:
    with pytest.raises(ArgumentError, match="the labels contain commas, semicolons, vertical bars"):
        LongICL(datasets=[dataset(rows_with_labels_like("kind {},;|"))])


# -- replies and scores


def join_labels(separator: str, last_separator: str, labels: list[str]) -> str:
    """Return the labels as a text, with another separator before the last one: "a, b and c"."""
    *others, last = labels
    if not others:
        return last
    return separator.join(others) + last_separator + last


WAYS_TO_WRITE_LABELS = {
    "as in the prompt": ", ".join,
    "continued by a base model": lambda labels: f"{', '.join(labels)}\ntext: other\nlabels: kind a, kind b, kind c",
    "with an introduction": lambda labels: f"The labels are: {', '.join(labels)}.",
    "one to a line": lambda labels: "Labels:\n" + "\n".join(f"- {label.upper()}" for label in labels),
    "numbered": lambda labels: "\n".join(f"{number}. **{label}**" for number, label in enumerate(labels, 1)),
    "JSON": lambda labels: json.dumps(list(labels)),
    "JSON object": lambda labels: json.dumps({"labels": list(labels)}),
    "code block": lambda labels: f"```json\n{json.dumps(list(labels))}\n```",
    "words": " and ".join,
    "comma before the last": lambda labels: join_labels(", ", ", and ", labels),
    "semicolon before the last": lambda labels: join_labels("; ", "; and ", labels),
    "a name of the list, and words": lambda labels: f"label: {' and '.join(labels)}",
    "an introduction, and words": lambda labels: f"The labels are: {' and '.join(labels)}",
    "a sentence": lambda labels: f"The labels are {join_labels(', ', ' and ', labels)}.",
    "both": lambda labels: f"both {' and '.join(labels)}",
    "slashes": " / ".join,
    "other separators": "; ".join,
    "after reasoning": lambda labels: f"<think>Is it kind a? No.</think>\n{', '.join(labels)}",
    "with an explanation": lambda labels: f"{', '.join(labels)}\n\nThe text does not look like kind a at all.",
    "repeated": lambda labels: ", ".join([*labels, *labels]),
    "another order": lambda labels: ", ".join(labels[::-1]),
}


@pytest.mark.parametrize("write_labels", WAYS_TO_WRITE_LABELS.values(), ids=WAYS_TO_WRITE_LABELS)
def test_labels_are_read_in_all_usual_ways_to_write_them(write_labels: Callable[[list[str]], str]) -> None:
    experimentor = LongICL(datasets=[dataset()], rounds=[1], parsing="library")["cases"]

    replies = [write_labels(item.gold) for item in experimentor.test_items]
    scores = score_replies(experimentor, replies)

    assert scores.values["1R"] == 1.0
    assert scores.details.unparsed == ()


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


@pytest.mark.parametrize(
    "introduction",
    ["", "Die Antwort. ", "Die Stra\u00dfe ist gro\u00df. ", "\u0130stanbul, e\ufb03cient. "],
    ids=["nothing", "ASCII letters", "German sharp s", "Turkish I with a dot and a ligature"],
)
def test_the_labels_after_the_cue_are_read_if_letters_before_it_get_longer_in_lower_case(introduction: str) -> None:
    """Without regard to case, the German sharp s, the Turkish I with a dot and ligatures become two letters or more.

    The position of the cue "labels:" in the text without regard to case is then not its position in the reply.
    """
    answer_format = AnswerFormat(cue="labels:", marker=None, lower=True, delete="")
    reader = ListReader(["12", "2", "late"], answer_format)

    assert reader.labels_of(f"{introduction}LABELS: 12, late") == ["12", "late"]


def reader_of(labels: list[str]) -> ListReader:
    """Return a reader of replies that list these labels after the cue "labels:", in upper or lower case."""
    return ListReader(labels, AnswerFormat(cue="labels:", marker=None, lower=True, delete=""))


def test_the_score_is_micro_f1() -> None:
    """One reply has a right and a wrong label, the others have none."""
    experimentor = LongICL(datasets=[dataset()], rounds=[1], parsing="library", limit=30)["cases"]
    first, *others = experimentor.test_items
    right_label = first.gold[0]
    wrong_label = next(label for label in LABELS if label not in first.gold)
    replies = [f"{right_label}, {wrong_label}", *["no idea"] * len(others)]

    run = score_replies(experimentor, replies)

    true_labels = sum(len(item.gold) for item in experimentor.test_items)
    precision, recall = 1 / 2, 1 / true_labels
    score = run.values["rounds"]["1R"]["score"]
    assert (score["gold"], score["predicted"], score["correct"]) == (true_labels, 2, 1)
    assert score["f1"] == pytest.approx(2 * precision * recall / (precision + recall), abs=1e-15)
    assert len(run.details.unparsed) == len(others)


def test_baselines_are_the_best_and_the_mean_score_of_one_label_for_all_texts() -> None:
    experimentor = LongICL(datasets=[dataset()], rounds=[1], parsing="library")["cases"]
    item_count = len(experimentor.test_items)
    score_of_label = {}
    for label in LABELS:
        values = score_replies(experimentor, [label] * item_count).values
        score_of_label[label] = values["1R"]

    assert values["majority"] == max(score_of_label.values())
    assert values["majority"] == score_of_label[values["majority_label"]]
    assert values["uniform"] == pytest.approx(sum(score_of_label.values()) / len(LABELS))


def test_the_nearest_demonstration_predicts_all_of_its_labels() -> None:
    """Texts with common labels share words, so the nearest demonstration is better than always the same label."""
    rows = []
    for number, (_, labels) in enumerate(list_rows()):
        rows.append((f"text {number} about {'+'.join(labels)}", labels))
    experimentor = LongICL(datasets=[dataset(rows)], rounds=[1], parsing="library")["cases"]

    values = score_replies(experimentor, ["kind a"] * len(experimentor.test_items)).values

    assert values["majority"] < values["nearest"] <= 1.0


@pytest.fixture
def benchmark_of_file(tmp_path: Path) -> LongICL:
    path = write_csv(tmp_path / "cases.csv", ";".join)
    data = Dataset.from_file(path, label_separator=";")
    return LongICL(datasets=[data], rounds=(1, 2), limit=60, parsing="library")


def test_a_result_of_several_labels_is_loaded_and_recomputed(benchmark_of_file: LongICL, tmp_path: Path) -> None:
    result = benchmark_of_file(right)
    assert result.divided["cases"]["2R"] == 1.0

    result.save(tmp_path / "result.json")

    assert load(tmp_path / "result.json") == result
    assert status_of(verify_file(tmp_path / "result.json")) == Recomputed()


def test_no_query_with_several_labels_is_predicted_again(benchmark_of_file: LongICL, tmp_path: Path) -> None:
    benchmark_of_file(right).save(tmp_path / "result.json")

    *_, rerun = verify_file(tmp_path / "result.json", rerun=Rerun(right, 5))

    assert rerun.message == "no query could be predicted again"


def test_runs_on_items_with_several_labels_are_compared(benchmark_of_file: LongICL) -> None:
    better = benchmark_of_file(right)
    worse = benchmark_of_file(lambda prompt, label_space: "kind a")

    (compared,) = compare(better, worse).datasets

    assert compared.difference == pytest.approx(1.0 - worse.divided["cases"]["mean"])


def test_a_result_with_another_order_of_labels_is_not_recomputed(benchmark_of_file: LongICL, tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    benchmark_of_file(right).save(path)
    record = json.loads(path.read_text("utf-8"))
    record["files"]["cases"]["card"]["labels_in_lists"] = LABELS[::-1]

    path.write_text(json.dumps(record), "utf-8")

    _changed_file, of_benchmark = verify_file(path)
    (reason,) = of_benchmark.contradicted
    assert "no list of the labels in 'labels_in_lists'" in reason


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
    failing_prompt = benchmark["cases"].prompt_set()[4]

    def model(prompt: str, label_space: list[str]) -> str:
        if prompt == failing_prompt:
            raise RuntimeError("the server is down")
        return "kind a"

    result = benchmark(model, on_error="collect")

    records = read_records(result, "cases", "1R", MicroF1((1.0, 1.0)))
    assert records.label_limits == LabelLimits(true=3.0, predicted=23.0)  # three true labels at most, of 23 labels


# -- experiments


SEVERAL_LABELS_EXPERIMENTS = [
    Experiment("context", levels=(256, 512)),
    Experiment("length", levels=(256, 512)),
    Experiment("shots", levels=(0, 1, 3)),
    Experiment("order", levels=(2,)),
    Experiment("controls"),
    Experiment("retrieval", levels=(4,)),
    Experiment("budget", levels=(512,)),
]


@pytest.mark.parametrize("experiment", SEVERAL_LABELS_EXPERIMENTS, ids=lambda experiment: experiment.name)
def test_a_model_that_reads_the_labels_is_right_in_all_conditions_except_symbols(experiment: Experiment) -> None:
    """The model replies with the names of the labels, which are other ones in the control with symbols."""
    benchmark = LongICL(datasets=[dataset()], experiment=experiment, limit=40, parsing="library")
    assert benchmark["cases"].queries.unavailable == {}

    result = benchmark(right)

    conditions = result.divided["cases"]["experiment"]["conditions"]
    scores = {name: condition["score"] for name, condition in conditions.items()}
    assert scores.pop("symbols", 0.0) == 0.0
    assert scores == dict.fromkeys(scores, 1.0)
    for name in scores:
        assert conditions[name]["difference"] in (None, 0.0), name
        assert conditions[name]["p_value"] is None, name
    assert str(result)


@pytest.mark.parametrize("control", ["shuffled labels", "random labels", "symbols"])
def test_controls_keep_the_numbers_of_labels_of_the_demonstrations(control: str) -> None:
    contexts = LongICL(datasets=[dataset()], experiment="controls")["cases"].contexts

    normal, changed = contexts["normal"].shown_labels(0), contexts[control].shown_labels(0)

    assert sorted(map(len, changed)) == sorted(map(len, normal))
    for labels in changed:
        assert len(set(labels)) == len(labels), f"{labels}: a label is shown twice"


def test_symbols_are_listed_like_labels() -> None:
    context = LongICL(datasets=[dataset()], experiment="controls")["cases"].context("symbols")

    assert re.search(r"\nlabels: S\d+, S\d+", context)


def test_missing_replies_are_at_their_worst_in_differences() -> None:
    """Without replies to some queries of one condition, the limits hold whatever these replies would have been."""
    shots = Experiment("shots", levels=(1, 2))
    benchmark = LongICL(datasets=[dataset()], experiment=shots, limit=40, parsing="library", unparsed="excluded")
    experimentor = benchmark["cases"]
    right_replies = [", ".join(item.gold) for item in experimentor.test_items]
    all_labels = ", ".join(LABELS)  # the reply with the lowest F1

    def with_first_ten(replies: list[str]) -> dict[str, Any]:
        """Return the record of the second condition, with other replies to its first ten queries."""
        values = score_replies(experimentor, [*right_replies, *replies, *right_replies[10:]]).values
        return dict(values["experiment"]["conditions"]["2 shots"])

    complete = with_first_ten(right_replies[:10])
    missing = with_first_ten(["no idea"] * 10)
    worst = with_first_ten([all_labels] * 10)

    assert complete["difference"] == 0.0
    assert missing["difference"] == 0.0
    assert missing["difference_low"] <= worst["difference_low"] < complete["difference_low"]


def test_the_experiment_position_is_for_texts_with_one_label() -> None:
    with pytest.raises(ArgumentError, match="position is not defined for texts with several labels, because"):
        LongICL(datasets=[dataset()], experiment="position")
