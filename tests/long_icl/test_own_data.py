"""Data sets of the user's own as tasks of LongICL."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from StaICC import Dataset, LongICL, load
from StaICC.benchmarks.findings import Recomputed, Unchecked, status_of
from StaICC.benchmarks.verify import verify, verify_file
from StaICC.comparing.comparison import compare
from StaICC.datasets.catalogue import SplitSizes, Template
from StaICC.errors import ArgumentError
from StaICC.long_icl.experimentor import LongICLExperimentor
from StaICC.long_icl.parsing import PARSINGS
from StaICC.prompting.views import split_dataset
from tests.long_icl.conftest import long_icl_on, score_replies
from tests.result_edits import edited

LABELS = [f"kind {letter}" for letter in "abcdefghijklmnopqrstuvw"]
SPLIT = SplitSizes(20, 230, 115)


def rows(labels: Sequence[str] = LABELS, each: int = 16) -> list[tuple[str, str]]:
    """Return texts with their labels, so many of each label: ("Text 0 {of} kind a", "kind a"), and so on."""
    texts_and_labels = []
    for number in range(each):
        for label in labels:
            texts_and_labels.append((f"Text {number} {{of}} {label}", label))
    return texts_and_labels


def dataset(given_rows: list[tuple[Any, str]] | None = None, **facts: Any) -> Dataset:
    """Return a data set "kinds" of the given rows, or of 16 rows of each label."""
    if given_rows is None:
        given_rows = rows()
    facts = {"name": "kinds", "split": SPLIT, "label_space": list(dict.fromkeys(dict(given_rows).values()))} | facts
    return Dataset.from_rows(given_rows, **facts)


def write_csv(path: Path, texts_and_labels: list[tuple[str, str]] | None = None) -> Path:
    """Write the given rows, or 16 rows of each label, with the columns "query" and "intent"; return the path."""
    if texts_and_labels is None:
        texts_and_labels = rows()
    with open(path, "w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([("query", "intent"), *texts_and_labels])
    return path


def right(prompt: str, label_space: list[str]) -> str:
    """Reply with the label that the text of the query names."""
    query = prompt[: prompt.rindex("\n")]
    _, letter = query.rsplit(" ", 1)
    return f"kind {letter}"


def first_of_each_label(pairs: Sequence[tuple[str, str]], number: int) -> list[tuple[str, str]]:
    """Return the first pair of each label, then the second of each, and so on; labels by first occurrence."""
    by_label: dict[str, list[tuple[str, str]]] = {}
    for text, label in pairs:
        by_label.setdefault(label, []).append((text, label))
    chosen = []
    for position in range(number):
        for pairs_of_label in by_label.values():
            if position < len(pairs_of_label):
                chosen.append(pairs_of_label[position])
    return chosen


INSTRUCTION = (
    "Given the text, please predict the label. The answer must come from the demonstration examples with the "
    "exact format. The examples are as follows: \n"
)


def test_test_items_are_the_first_of_each_label() -> None:
    test_set = split_dataset(dataset()).test
    pairs = [(texts[0], str(label)) for texts, label in test_set]

    items = LongICL(datasets=[dataset()], limit=23)["kinds"].test_items

    assert [(item.texts[0], item.gold[0]) for item in items] == first_of_each_label(pairs, 1)
    assert [item.row for item in items[:3]] == list(test_set.indexes[:3])


@pytest.mark.parametrize("shots", [3, 1])
def test_a_prompt_has_the_first_demonstrations_of_each_label(shots: int) -> None:
    demonstration_set = split_dataset(dataset()).demonstration
    pairs = [(texts[0], str(label)) for texts, label in demonstration_set]
    demonstrations = [f"text: {text}\nlabel: {label}\n" for text, label in first_of_each_label(pairs, shots)]

    experimentor = LongICL(datasets=[dataset()], rounds=(shots,), limit=23)["kinds"]

    context = INSTRUCTION + "".join(demonstrations)
    queries = [f"text: {item.texts[0]}\nlabel: " for item in experimentor.test_items]
    assert experimentor.prompt_set() == [context + query for query in queries]


def test_prompts_of_instruction_models_list_the_labels() -> None:
    context = LongICL(datasets=dataset(), rounds=[1], instruct=True)["kinds"].context(1)

    labels = ", ".join(LABELS)
    assert context.startswith(
        "Given the text, please predict the label. The answer must come from the demonstration examples with the "
        f"exact format. You can only choose from these labels: {labels}. The examples are as follows: \n"
        "text: "
    )


def one_round(own: Dataset, parsing: str) -> LongICLExperimentor:
    """Return the first round on own data, with all test items."""
    return LongICL(datasets=[own], rounds=[1], parsing=parsing, limit=None)[0]


def true_labels(experimentor: LongICLExperimentor) -> list[str]:
    return [item.gold[0] for item in experimentor.test_items]


def score(experimentor: LongICLExperimentor, replies: list[Any]) -> float:
    return float(score_replies(experimentor, replies).values["1R"])


@pytest.mark.parametrize("parsing", PARSINGS)
def test_all_test_rows_are_items(parsing: str) -> None:
    assert len(one_round(dataset(), parsing).test_items) == SPLIT.test


@pytest.mark.parametrize("parsing", PARSINGS)
def test_labels_are_right_and_other_labels_are_wrong(parsing: str) -> None:
    experimentor = one_round(dataset(), parsing)
    labels = true_labels(experimentor)
    next_labels = [LABELS[(LABELS.index(label) + 1) % 23] for label in labels]

    assert score(experimentor, labels) == 1.0
    assert score(experimentor, next_labels) == 0.0


@pytest.mark.parametrize("parsing", PARSINGS)
def test_indexes_of_labels_are_scored_like_the_labels(parsing: str) -> None:
    experimentor = one_round(dataset(), parsing)
    labels = true_labels(experimentor)
    indexes = [LABELS.index(label) for label in labels]

    assert score_replies(experimentor, indexes).values == score_replies(experimentor, labels).values


@pytest.mark.parametrize("parsing", PARSINGS)
def test_what_a_model_writes_after_the_label_is_ignored(parsing: str) -> None:
    experimentor = one_round(dataset(), parsing)

    replies = [f" {label.upper()}\ntext: another one\nlabel: kind b" for label in true_labels(experimentor)]
    assert score(experimentor, replies) == 1.0


def test_the_published_parser_ignores_a_repeated_prompt() -> None:
    experimentor = one_round(dataset(), "published")

    replies = []
    for prompt, label in zip(experimentor.prompt_set(), true_labels(experimentor), strict=True):
        replies.append(f"{prompt}{label}\ntext: another")
    assert score(experimentor, replies) == 1.0


@pytest.mark.parametrize("parsing", PARSINGS)
def test_texts_that_are_part_of_a_label_do_no_harm(parsing: str) -> None:
    """The texts of the label "kind a" are "a", "a1", "a2", ..."""
    pairs = [(f"{label[-1]}{number or ''}", label) for number in range(16) for label in LABELS]
    experimentor = one_round(dataset(pairs, split=SplitSizes(0, 200, 168)), parsing)

    replies = [f"{label}\ntext: x7\nlabel: kind b" for label in true_labels(experimentor)]
    assert score(experimentor, replies) == 1.0


@pytest.mark.parametrize("parsing", PARSINGS)
def test_a_template_may_have_no_label_prefix(parsing: str) -> None:
    template = Template("", ("",), ("\n",), label_prefix="", label_affix="\n")
    experimentor = one_round(dataset(template=template), parsing)

    assert score(experimentor, true_labels(experimentor)) == 1.0


def with_two_rows_of_one_label() -> Dataset:
    pairs = []
    for label in LABELS:
        pairs += rows([label], 2 if label == "kind c" else 30)
    return dataset(pairs, split=SplitSizes(0, 500, 100))


UNFIT: dict[str, tuple[Callable[[], Any], str]] = {
    "19 labels": (lambda: dataset(rows(LABELS[:19], 30)), "got 19 labels, expected 20 or more. Use Normal"),
    "a label without rows": (
        lambda: dataset(label_space=[*LABELS, "never"]),
        "1 has no demonstration, such as 'never' with 0. Remove labels without demonstrations, or leave out",
    ),
    "a label with two rows": (
        with_two_rows_of_one_label,
        "1 has fewer than 2 demonstrations, such as 'kind c' with 1. Choose rounds up to 1, or leave out split",
    ),
    "six rows of each label": (
        lambda: dataset(rows(each=6), split=None),
        "of 23 labels, [0-9]+ have fewer than 4 demonstrations, .* Choose rounds up to 3, or add rows of these",
    ),
    "rows for a data set": (rows, "datasets: got .* expected names of data sets, or data sets"),
    "rows that occur twice": (
        lambda: dataset(rows() + rows(each=3)),
        "test rows have the text of a demonstration, such as row",
    ),
    "the name of a built-in data set": (
        lambda: dataset(name="Banking77"),
        "got 'Banking77', which is a data set of LongICL",
    ),
    "labels that differ in case": (
        lambda: dataset(rows([*LABELS, "KIND A"])),
        "the labels 'kind a' and 'KIND A' differ only in case",
    ),
    "a label with the prefix of labels": (
        lambda: dataset(rows([*LABELS, "label: x"])),
        "the label 'label: x' contains 'label:', which ends a response",
    ),
    "a label with this prefix in upper case": (
        lambda: dataset(rows([*LABELS, "LABEL: x"])),
        "the label 'LABEL: x' contains 'label:', which ends a response",
    ),
    "a label with the prefix of texts": (lambda: dataset(rows([*LABELS, "a text: x"])), "contains 'text:'"),
    "a label of two lines": (lambda: dataset(rows([*LABELS, "a\nb"])), r"the label 'a\\nb' contains '\\n'"),
    "a template with a query prefix": (
        lambda: dataset(template=Template("", ("a",), ("b",), "c", "d", query_prefix="e")),
        "got the query prefix 'e'",
    ),
}
"""By what is wrong: a function that makes the data set, and the error message."""


@pytest.mark.parametrize(("make_dataset", "message"), UNFIT.values(), ids=UNFIT.keys())
def test_unfit_data_sets_are_refused(make_dataset: Callable[[], Any], message: str) -> None:
    with pytest.raises(ArgumentError, match=message.replace("(", r"\(")):
        LongICL(datasets=[make_dataset()])


SPECIAL_NAME = "a|b+c"


def write_csv_with_spaces(path: Path) -> Path:
    """Write the rows as CSV, with a blank before each label."""
    return write_csv(path, [(text, f" {label}") for text, label in rows()])


def benchmark_of_file(path: Path) -> LongICL:
    return LongICL(datasets=[Dataset.from_file(path, "query", "intent")], rounds=(1, 2), limit=30)


def test_a_data_set_is_named_by_its_file_with_special_characters_escaped_in_signatures(tmp_path: Path) -> None:
    result = benchmark_of_file(write_csv(tmp_path / f"{SPECIAL_NAME}.csv"))(right)

    assert result.divided[SPECIAL_NAME]["2R"] == 1.0
    assert result.signature.fields["datasets"] == "a%7Cb%2Bc"
    assert result.signature.fields["limit"] == "30"


def test_spaces_around_labels_are_no_part_of_them_and_a_warning(tmp_path: Path) -> None:
    path = write_csv_with_spaces(tmp_path / "own.csv")

    result = benchmark_of_file(path)(right)

    assert result.divided["own"]["2R"] == 1.0
    assert result.warnings == ("own: 368 rows have labels with surrounding spaces, which are not part of the label",)


def test_own_data_are_not_compared_with_published_files(tmp_path: Path) -> None:
    result = benchmark_of_file(write_csv(tmp_path / "own.csv"))(right)

    assert "not known to be" not in str(result)


@pytest.mark.parametrize("name", ["own", SPECIAL_NAME])
@pytest.mark.parametrize("write", [write_csv, write_csv_with_spaces], ids=["labels", "labels with spaces"])
def test_a_saved_result_on_own_data_is_loaded_recomputed_and_compared(
    name: str, write: Callable[[Path], Path], tmp_path: Path
) -> None:
    result = benchmark_of_file(write(tmp_path / f"{name}.csv"))(right)
    result.save(tmp_path / "result.json")

    saved = load(tmp_path / "result.json")

    assert saved == result
    assert list(saved.files) == [name]
    assert status_of(verify_file(tmp_path / "result.json")) == Recomputed()
    assert compare(result, saved)


def saved_and_loaded(path: Path, folder: Path) -> Any:
    """Return a result on the data of a file, saved in the folder and loaded again."""
    benchmark_of_file(path)(right).save(folder / "result.json")
    return load(folder / "result.json")


@pytest.mark.parametrize("name", ["own", SPECIAL_NAME])
@pytest.mark.parametrize("write", [write_csv, write_csv_with_spaces], ids=["labels", "labels with spaces"])
def test_a_loaded_result_is_unchecked_without_its_data_file_and_recomputed_where_it_is_found(
    name: str, write: Callable[[Path], Path], tmp_path: Path
) -> None:
    path = write(tmp_path / f"{name}.csv")
    loaded = saved_and_loaded(path, tmp_path)
    moved = path.rename(tmp_path / "elsewhere.csv")

    (without_file,) = verify(loaded)
    with_file = verify(loaded, data_files=[moved])

    assert isinstance(without_file.status, Unchecked)
    assert "is not here" in without_file.status.reason
    assert status_of(with_file) == Recomputed()


@pytest.mark.parametrize("name", ["own", SPECIAL_NAME])
def test_a_loaded_result_says_that_its_data_file_has_changed(name: str, tmp_path: Path) -> None:
    path = write_csv(tmp_path / f"{name}.csv")
    loaded = saved_and_loaded(path, tmp_path)
    write_csv(path, rows()[::-1])

    finding = verify(loaded, data_files=[tmp_path])[0]

    assert "has changed" in finding.unchecked[0]


@pytest.mark.parametrize(
    ("path", "forged"),
    [
        (("files", "own", "card", "template", "instruction"), "Sort. "),
        (("files", "own", "card", "name"), "other"),
        (("files", "own", "card", "split"), {"demonstration": 300, "calibration": 0, "test": 115}),
        (("Divided results", "own", "1R"), 0.5),
    ],
    ids=["instruction", "name", "split", "score"],
)
def test_a_forged_record_is_not_recomputed(tmp_path: Path, path: tuple[str, ...], forged: Any) -> None:
    benchmark_of_file(write_csv(tmp_path / "own.csv"))(right).save(tmp_path / "result.json")
    document = json.loads((tmp_path / "result.json").read_text("utf-8"))

    (tmp_path / "forged.json").write_text(json.dumps(edited(document, path, forged)), "utf-8")

    assert status_of(verify(load(tmp_path / "forged.json"), data_files=[tmp_path])) != Recomputed()


ONE_PARSER = (
    "goemotions: replies are read by the parser 'library', as those of the own data, because a run has one parser; "
    "the default without own data is 'published'"
)
"""Published replies are read by the published parser, unless the run has own data."""


def test_a_run_with_own_and_published_data_says_that_it_has_one_parser(data_folder: Path) -> None:
    benchmark = long_icl_on(data_folder, ["goemotions", dataset()], [1], limit=4, parsing=None)

    assert ONE_PARSER in benchmark.data_warnings()
    assert ONE_PARSER in benchmark(lambda prompt, label_space: 0).warnings


@pytest.mark.parametrize(
    ("datasets", "parsing"),
    [(["goemotions", dataset()], "published"), (["goemotions"], None), ([dataset()], None)],
    ids=["a parser that the user chose", "published data only", "own data only"],
)
def test_other_runs_do_not_say_that_they_have_one_parser(
    data_folder: Path, datasets: list[Any], parsing: str | None
) -> None:
    benchmark = long_icl_on(data_folder, datasets, [1], limit=4, parsing=parsing)

    assert ONE_PARSER not in benchmark.data_warnings()
    assert ONE_PARSER not in benchmark(lambda prompt, label_space: 0).warnings


CHANGED_FACTS: dict[str, dict[str, Any]] = {
    "a text": {"given_rows": [("Another text", LABELS[0]), *rows()[1:]]},
    "split": {"split": SplitSizes(19, 230, 115)},
    "template": {"template": Template("", ("in: ",), (" ",), "label: ", "\n")},
    "order of labels": {"label_space": LABELS[::-1]},
    "name": {"name": "other"},
}


@pytest.mark.parametrize("changed_fact", CHANGED_FACTS.values(), ids=CHANGED_FACTS.keys())
def test_everything_that_changes_prompts_changes_the_signature(changed_fact: dict[str, Any]) -> None:
    plain = LongICL(datasets=[dataset()], rounds=[1], limit=30)
    changed = LongICL(datasets=[dataset(**changed_fact)], rounds=[1], limit=30)

    assert changed.signature() != plain.signature()


def test_no_two_data_sets_with_other_prompts_have_the_same_signature() -> None:
    signatures = set()
    for changed_fact in CHANGED_FACTS.values():
        benchmark = LongICL(datasets=[dataset(**changed_fact)], rounds=[1], limit=30)
        signatures.add(str(benchmark.signature()))

    assert len(signatures) == len(CHANGED_FACTS)
