"""Data sets of the user's own as tasks of LongICL."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from StaICC import Dataset, LongICL, load
from StaICC.benchmarks.findings import Recomputed, Unchecked, status_of
from StaICC.benchmarks.verify import verify, verify_file
from StaICC.comparing.comparison import compare
from StaICC.datasets.catalogue import SplitSizes, Template
from StaICC.errors import ArgumentError
from StaICC.long_icl.parsing import PARSINGS
from StaICC.prompting.views import split_dataset
from tests.long_icl.conftest import long_icl_on, scored

LABELS = [f"kind {letter}" for letter in "abcdefghijklmnopqrstuvw"]
SPLIT = SplitSizes(20, 230, 115)


def rows(labels: Sequence[str] = LABELS, each: int = 16) -> list[tuple[str, str]]:
    return [(f"Text {turn} {{of}} {label}", label) for turn in range(each) for label in labels]


def dataset(given: list[tuple[Any, str]] | None = None, **facts: Any) -> Dataset:
    given = rows() if given is None else given
    labels = facts.pop("label_space", list(dict.fromkeys(label for _, label in given)))
    return Dataset.from_rows(given, label_space=labels, **{"name": "kinds", "split": SPLIT} | facts)


def write_csv(path: Path, given: list[tuple[str, str]] | None = None) -> Path:
    with open(path, "w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([("query", "intent"), *(given or rows())])
    return path


def right(prompt: str, label_space: list[str]) -> str:
    """Read the label in the last text."""
    return "kind " + prompt[: prompt.rindex("\n")].rsplit(" ", 1)[1]


def turns(pairs: Sequence[tuple[str, str]], number: int) -> list[tuple[str, str]]:
    """The first rows of each label, turn by turn; labels by first occurrence."""
    by_label: dict[str, list[tuple[str, str]]] = {}
    for pair in pairs:
        by_label.setdefault(pair[1], []).append(pair)
    return [group[turn] for turn in range(number) for group in by_label.values() if turn < len(group)]


def test_prompts_are_those_of_the_published_rule() -> None:
    own = dataset()
    split = split_dataset(own)
    shown = [(texts[0], str(label)) for texts, label in split.demonstration]
    asked = turns([(texts[0], str(label)) for texts, label in split.test], 1)
    head = (
        "Given the text, please predict the label. The answer must come from the demonstration examples with the "
        "exact format. The examples are as follows: \n"
    )
    one = LongICL(datasets=[own], rounds=(3, 1), limit=len(asked))["kinds"]
    assert [item.row for item in one.test_items[:3]] == [split.test.indexes[place] for place in range(3)]
    for number, start in ((3, 0), (1, len(asked))):
        context = head + "".join(f"text: {text}\nlabel: {label}\n" for text, label in turns(shown, number))
        expected = [f"{context}text: {text}\nlabel: " for text, _ in asked]
        assert one.prompt_set()[start : start + len(asked)] == expected
    assert [item.gold for item in one.test_items] == [(label,) for _, label in asked]
    listed = head.replace("format.", f"format. You can only choose from these labels: {', '.join(LABELS)}.")
    assert LongICL(datasets=own, rounds=[1], instruct=True)[0].context(1).startswith(listed + "text: ")


@pytest.mark.parametrize("parsing", PARSINGS)
def test_responses_are_parsed_with_the_own_template(parsing: str) -> None:
    one = LongICL(datasets=[dataset()], rounds=[1], parsing=parsing, limit=None)[0]
    assert len(one.test_items) == SPLIT.test
    gold = [item.gold[0] for item in one.test_items]
    pairs = [*zip(one.prompt_set(), gold, strict=True)]
    ways = [gold, [f" {label.upper()}\ntext: another one\nlabel: kind b" for label in gold]]
    ways += [[f"{prompt}{label}\ntext: another" for prompt, label in pairs]] * (parsing == "published")
    for responses in ways:
        assert scored(one, responses).values["1R"] == 1.0
    assert scored(one, [LABELS[(LABELS.index(label) + 1) % 23] for label in gold]).values["1R"] == 0.0
    assert scored(one, [LABELS.index(label) for label in gold]).values == scored(one, gold).values
    # Texts that are part of a label, and a template without a label prefix.
    given = [(f"{label[-1]}{turn or ''}", label) for turn in range(16) for label in LABELS]
    short = dataset(given, split=SplitSizes(0, 200, 168))
    bare = dataset(template=Template("", ("",), ("\n",), "", "\n"))
    for own, more in ((short, "\ntext: x7\nlabel: kind b"), (bare, "")):
        one = LongICL(datasets=[own], rounds=[1], parsing=parsing, limit=None)[0]
        assert scored(one, [f"{item.gold[0]}{more}" for item in one.test_items]).values["1R"] == 1.0


def with_two_rows_of_one_label() -> Dataset:
    pairs = []
    for label in LABELS:
        pairs += rows([label], 2 if label == "kind c" else 30)
    return dataset(pairs, split=SplitSizes(0, 500, 100))


UNFIT = {
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
        lambda: dataset(template=Template("", ("a",), ("b",), "c", "d", "e")),
        "got the query prefix 'e'",
    ),
}
"""By what is wrong: makes the data set, and the error message."""


@pytest.mark.parametrize(("make", "message"), UNFIT.values(), ids=UNFIT.keys())
def test_unfit_data_sets_are_refused(make: Any, message: str) -> None:
    with pytest.raises(ArgumentError, match=message.replace("(", r"\(")):
        LongICL(datasets=[make()])


def test_results_are_saved_verified_and_compared(tmp_path: Path) -> None:
    path = write_csv(tmp_path / "a|b+c.csv", [(text, f" {label}") for text, label in rows()])
    benchmark = LongICL(datasets=[Dataset.from_file(path, "query", "intent")], rounds=(1, 2), limit=30)
    result = benchmark(right, progress=False)
    assert result["Divided results"]["a|b+c"]["2R"] == 1.0
    assert (result.signature.fields["datasets"], result.signature.fields["limit"]) == ("a%7Cb%2Bc", "30")
    assert result.warnings == ("a|b+c: 368 rows have labels with surrounding spaces, which are not part of the label",)
    assert "not known to be" not in str(result)
    result.save(tmp_path / "result.json")
    saved = load(tmp_path / "result.json")
    assert saved == result
    assert saved.files.keys() == {"a|b+c"}
    assert status_of(verify_file(tmp_path / "result.json")) == Recomputed()
    assert compare(result, saved)
    path.rename(tmp_path / "elsewhere.csv")
    (absent,) = verify(saved)
    assert isinstance(absent.status, Unchecked)
    assert "is not here" in absent.status.reason
    assert status_of(verify(saved, data_files=[tmp_path / "elsewhere.csv"])) == Recomputed()
    write_csv(path, rows()[::-1])
    assert "has changed" in verify(saved, data_files=[tmp_path])[0].unchecked[0]


def test_forged_records_are_inconsistent(tmp_path: Path) -> None:
    own = Dataset.from_file(write_csv(tmp_path / "own.csv"), "query", "intent")
    LongICL(datasets=[own], rounds=[1], limit=30)(right).save(tmp_path / "result.json")
    for place, changes in (
        (("files", "own", "card", "template"), {"instruction": "Sort. "}),
        (("files", "own", "card"), {"name": "other"}),
        (("files", "own", "card", "split"), {"demonstration": 300, "calibration": 0}),
        (("Divided results", "own"), {"1R": 0.5}),
    ):
        document = inner = json.loads((tmp_path / "result.json").read_text("utf-8"))
        for key in place:
            inner = inner[key]
        inner.update(changes)
        (tmp_path / "forged.json").write_text(json.dumps(document), "utf-8")
        assert status_of(verify(load(tmp_path / "forged.json"), data_files=[tmp_path])) != Recomputed()


def test_a_run_with_own_and_published_data_says_that_it_has_one_parser(small_files: Path) -> None:
    """Published replies are read by the published parser, unless the run has own data."""
    warning = (
        "goemotions: replies are read by the parser 'library', as those of the own data, because a run has one parser; "
        "the default without own data is 'published'"
    )
    for datasets, parsing, is_warned in (
        (["goemotions", dataset()], None, True),
        (["goemotions", dataset()], "published", False),
        (["goemotions"], None, False),
        ([dataset()], None, False),
    ):
        benchmark = long_icl_on(small_files, datasets, [1], limit=4, parsing=parsing)
        assert (warning in benchmark.data_warnings()) == is_warned
        assert (warning in benchmark(lambda prompt, label_space: 0).warnings) == is_warned


def test_everything_that_changes_prompts_changes_the_signature() -> None:
    changes: list[dict[str, Any]] = [
        {},
        {"given": [("Another text", LABELS[0]), *rows()[1:]]},
        {"split": SplitSizes(19, 230, 115)},
        {"template": Template("", ("in: ",), (" ",), "label: ", "\n")},
        {"label_space": LABELS[::-1]},
        {"name": "other"},
    ]
    made = [LongICL(datasets=[dataset(**facts)], rounds=[1], limit=30) for facts in changes]
    assert len({str(benchmark.signature()) for benchmark in made}) == len(changes)
