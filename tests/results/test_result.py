"""Results: documented keys, details, provenance, signature, table and queries; to JSON and back, or not at all."""

from __future__ import annotations

import base64
import copy
import dataclasses
import hashlib
import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import StaICC
from StaICC.benchmarks.exchange import identified_queries, score_predictions
from StaICC.cli import main
from StaICC.comparing.citing import find_work
from StaICC.comparing.comparison import compare
from StaICC.comparing.published import METHODS
from StaICC.comparing.setting_differences import list_differences
from StaICC.datasets.catalogue import SplitSizes
from StaICC.datasets.dataset import Dataset
from StaICC.errors import ArgumentError, SchemaError
from StaICC.inference.contract import Text
from StaICC.inference.identity import Identity
from StaICC.metrics.classification import confidence_bins, softmax
from StaICC.metrics.metric_set import Metric
from StaICC.metrics.statistics import MeanOf
from StaICC.report.page import report_html
from StaICC.results.files import AVERAGED
from StaICC.results.predictor import GIVEN
from StaICC.results.query_records import save_records
from StaICC.results.remarks import remarks
from StaICC.results.result import Result, ResultGroup, load, result_from_dict
from StaICC.results.runs import split_runs
from StaICC.results.score_records import score_records
from StaICC.results.signature import Signature, digest
from StaICC.results.table import result_rows
from StaICC.safe_text import one_line
from tests.result_edits import edited, every_place

# -- a dictionary that knows more


def test_equality_looks_at_everything_but_the_time(result: Result, make_model: Any) -> None:
    again = StaICC.Normal(datasets=["mini"], limit=6)(make_model)
    again.timing = {"seconds": 1e9}
    assert again == result
    assert (again != result) is False
    others = [StaICC.Normal(datasets=["mini"], limit=5)(make_model), copy.deepcopy(result), copy.deepcopy(result)]
    others[1].divided["mini"]["accuracy"] = 0.123
    others[2].signature = Signature({**result.signature.fields, "k": "5"})
    assert [other for other in [*others, {}] if other == result] == []


# -- details


def test_the_details_are_those_of_the_queries(result: Result) -> None:
    details, experimentor = result.details["mini"], StaICC.Normal(datasets=["mini"], limit=6)[0]
    queries, prompts = experimentor.all_queries(), experimentor.prompt_set()
    (record,) = details.conditions
    assert (details.asked, details.scored, details.failed) == (12, 12, 0)
    same = Dataset.from_rows([("same", number % 2) for number in range(60)], name="same", label_space=["a", "b"])
    assert StaICC.Normal(0, datasets=[same])(lambda prompt, label_space: 0).details["same"].distinct == 1
    assert (record.name, record.output) == ("normal", "logits")
    assert record.truth == tuple(query.label for query in queries)
    assert record.rows == tuple(query.row for query in queries)
    right = sum(truth == label for truth, label in zip(record.truth, record.predictions, strict=True))
    assert result.averaged["accuracy"] == right / 12
    assert details.prompts == digest(prompts)
    marks = b"".join(hashlib.sha256(prompt.encode()).digest()[:4] for prompt in prompts)
    assert base64.b64decode(details.query_digests) == marks
    assert details.missing["interval of macro_F1"] == "3 of 3 labels have fewer than 5 test rows"
    for name, value in result.averaged.items():
        if name != "macro_F1":
            assert details.intervals[name].low <= value <= details.intervals[name].high, name
            assert details.intervals[name].level == 0.95
    assert "macro_F1" not in details.intervals


def test_the_calibration_error_follows_from_the_file_alone(make_model: Callable[..., Any]) -> None:
    run = StaICC.Normal(datasets=["mini"])
    result = run(lambda prompt, label_space: softmax(make_model(prompt, label_space)), return_outputs=True)
    assert result.outputs is not None
    rows = [record["normalised_probabilities"] for record in result.outputs["mini"]]
    expected = confidence_bins([record["ground_truth"] for record in result.outputs["mini"]], rows)
    bins = Result.from_dict(json.loads(json.dumps(result.to_dict()))).details["mini"].conditions[0].calibration
    assert bins == expected
    total = sum(one.queries for one in bins)
    error = sum(abs(one.correct - one.confidence) for one in bins) / total
    assert error == pytest.approx(result.divided["mini"]["expected_calibration_error_1"], abs=1e-15)
    assert sum(one.correct for one in bins) / total == result.divided["mini"]["accuracy"]


# -- to JSON and back


@pytest.mark.parametrize(
    ("name", "arguments"),
    [("Normal", {}), ("Normal", {"metrics": "0.1.1"}), ("Normal", {"noisy_channel": True}), ("Suite", {})],
)
def test_what_is_saved_is_loaded(
    tmp_path: Path, name: str, arguments: dict[str, Any], make_model: Any, file_name: Any
) -> None:
    labels = [f"текст {row} 🙂" for row in range(30)]
    own = Dataset.from_rows(
        [(text, row % 2) for row, text in enumerate(labels)], name='наб"ор\n|', label_space=["да", "нет"]
    )
    datasets = ["mini", *([own] if name == "Normal" else [])]
    original = getattr(StaICC, name)(datasets=datasets, limit=4, **arguments)(make_model)
    path = tmp_path / file_name("result ä.json")
    original.save(path)
    loaded = load(path)
    assert loaded == original
    assert type(loaded) is type(original)
    assert loaded.to_dict() == original.to_dict()
    assert str(loaded) == str(original)
    assert loaded._repr_html_() == original._repr_html_()
    loaded.save(tmp_path / "again.json")
    assert (tmp_path / "again.json").read_bytes() == path.read_bytes()


def test_no_attribute_of_a_result_is_lost_in_its_file(tmp_path: Path, make_model: Any) -> None:
    """Compared one by one: equality compares what both results would save, and finds nothing that no file has."""
    table = tmp_path / "own.csv"
    table.write_text("text,label\n" + "".join(f"text {row},{('no', 'yes')[row % 2]}\n" for row in range(60)))
    brier = Metric("brier", MeanOf(lambda label, row: (1 - row[label]) ** 2), True, higher_is_better=False)
    own_metric = StaICC.Normal(datasets=["mini", Dataset.from_file(table)], limit=4, metrics={"brier": brier})
    runs = [own_metric(make_model), StaICC.Normal(datasets=["mini"])(make_model, precision=0.2)]
    assert runs[0].query_scores["brier"].values["mini"]
    assert runs[0].files
    assert runs[1].stopping is not None
    for original in runs:
        original.save(tmp_path / "result.json")
        loaded = load(tmp_path / "result.json")
        for attribute in dataclasses.fields(Result):
            if attribute.name != "outputs":
                assert getattr(loaded, attribute.name) == getattr(original, attribute.name), attribute.name


def test_no_nan_reaches_json(tmp_path: Path, make_model: Any) -> None:
    """Undefined is None with a reason, not NaN and not zero."""
    benchmark = StaICC.Normal(datasets=["mini"], limit=4)
    benchmark[0].add_metric("odd", lambda truth, rows: float("nan"))
    original = benchmark(make_model)
    assert original[AVERAGED]["odd"] is None
    assert original.details["mini"].missing["odd"] == "the metric returned nan"
    original.save(tmp_path / "result.json")
    assert not re.search(r"\b(NaN|-?Infinity)\b", (tmp_path / "result.json").read_text("utf-8"))
    assert load(tmp_path / "result.json") == original
    for value in (float("nan"), float("inf"), -float("inf")):
        original.divided["mini"]["accuracy"] = value
        with pytest.raises(ValueError, match="not JSON compliant"):
            original.save(tmp_path / "other.json")
    assert [path.name for path in tmp_path.iterdir()] == ["result.json"]


def test_saving_leaves_the_old_file_if_it_fails(
    tmp_path: Path, result: Result, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "result.json"
    path.write_text("old")

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left on device") as caught:
        result.save(path)
    assert caught.value.filename == str(path)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


# -- files that are no result


def test_a_value_of_another_type_is_refused_or_does_no_harm() -> None:
    whole = StaICC.Normal(datasets=["mini"], limit=3)(lambda prompt, label_space: [0.5, 0.3, 0.2]).to_dict()
    refused = 0
    for place, _ in every_place(whole):
        if any(isinstance(key, int) and key > 0 for key in place):
            continue  # of lists the first item only
        for other in (None, {}, "x", 5, [1, "a"]):
            try:
                result = result_from_dict(json.loads(json.dumps(edited(whole, place, other))), "file")
            except SchemaError:
                refused += 1
            else:
                assert str(result)
                assert result._repr_html_()
                assert result.to_dict()
    assert refused > 120
    whole["Divided results"]["mini"]["mine"] = {"a": {"mean": "of a user's own benchmark"}}
    assert str(result_from_dict(whole, "file"))


# -- groups


def test_a_group_is_a_dictionary_of_results(tmp_path: Path, group: ResultGroup) -> None:
    assert [part.benchmark for part in group.results()] == list(group)
    assert group.signature == {name: part.signature for name, part in group.items()}
    printed = str(group)
    for name, part in group.items():
        assert [line for line in str(part).splitlines() if line not in printed] == [], name
    nested = ResultGroup("outer", {"inner": group, "alone": group["Normal"]})
    assert list(nested.results()) == [*group.values(), group["Normal"]]
    assert nested.complete
    nested.save(tmp_path / "result.json")
    loaded = load(tmp_path / "result.json")
    assert isinstance(loaded, ResultGroup)
    assert (loaded, loaded.name) == (nested, "outer")


# -- provenance: every result says who predicted, how, and when; two runs are shown with their differences first


@dataclasses.dataclass
class StandIn:
    """A kernel that states its identity."""

    weights: str = "w1"
    label_scoring: str = "last"
    answer: int = 0
    reasons: tuple[str, ...] = ()

    def identity(self) -> Identity:
        who = {"model": "stand-in", "weights": self.weights, "dtype": "float32"}
        return Identity(who, {"label_scoring": self.label_scoring}, self.reasons)

    def __call__(self, prompt: str, label_space: list[str]) -> Any:
        return [float(place == self.answer) for place in range(len(label_space))]


def mini(name: str = "Normal", **settings: Any) -> Any:
    return getattr(StaICC, name)(datasets=["mini"], limit=3, **settings)


# -- who, how and when


@pytest.mark.parametrize("name", ["Normal", "Suite"])
def test_every_result_says_who_predicted(name: str) -> None:
    for result in mini(name)(StandIn(), model_name="mine").results():
        (one,) = result.provenance.predictors
        assert one.name == "mine"
        assert one.identity == StandIn().identity().digest
        assert one.who == {"model": "stand-in", "weights": "w1", "dtype": "float32"}
        assert one.how == {"label_scoring": "last"}
        assert (one.datasets, one.unidentified) == (("mini",), ())
        assert one.started <= one.finished
        assert one.started.endswith("+00:00")
        assert result.provenance.label == result.model == f"mine [{one.identity[:12]}]"


def test_what_cannot_be_identified_is_marked_everywhere() -> None:
    result = mini()(StandIn(reasons=("a hook on layer 3",)))
    assert result.model.endswith("(unidentified)")
    for shown in (str(result), result._repr_html_()):
        assert "UNIDENTIFIED: a hook on layer 3" in shown
        assert "(unidentified)" in shown


# -- predictions that were given

ROW = [0.5, 0.3, 0.2]


def test_given_predictions_have_a_digest_in_any_order_and_form() -> None:
    result = mini()(preentered_prediction=[[ROW] * 6])
    (one,) = result.provenance.predictors
    assert list(one.who) == [GIVEN]
    assert len(one.who[GIVEN]) == 64
    assert result.model == f"{GIVEN} [{one.who[GIVEN][:12]}]"
    assert mini()(preentered_prediction={"mini": ((0.5, 0.3, 0.2),) * 6}) == result
    keys = [query.id for query in identified_queries(mini())]
    rows = {key: {"probabilities": ROW} for key in keys}
    assert score_predictions(mini(), rows) == score_predictions(mini(), dict(reversed(rows.items()))) == result
    other = score_predictions(mini(), {**rows, keys[0]: {"probabilities": [0.5, 0.2, 0.3]}})
    assert isinstance(other, Result)
    assert other.averaged["accuracy"] == result.averaged["accuracy"]
    assert other.provenance != result.provenance


@pytest.mark.parametrize("benchmark", ["Normal", "GLER"])
def test_the_stated_name_of_given_predictions_is_shown_and_is_no_identity(benchmark: str) -> None:
    queries = list(identified_queries(mini(benchmark)))
    by_id = {query.id: {"probabilities": ROW} for query in queries}
    unnamed = score_predictions(mini(benchmark), by_id)
    named = score_predictions(mini(benchmark), by_id, model_name="gpt-4o")
    entered = mini(benchmark)(preentered_prediction=[[ROW] * len(queries)], model_name="gpt-4o")
    assert named == entered

    (predictor,) = named.provenance.predictors
    (unnamed_predictor,) = unnamed.provenance.predictors
    assert predictor.identity == unnamed_predictor.identity
    assert predictor.who == unnamed_predictor.who
    assert named.model == f"gpt-4o [{predictor.who[GIVEN][:12]}] (predictions given)"
    assert named.model in str(named)
    assert named.signature == unnamed.signature


def test_the_stated_name_is_shown_where_models_are_shown(tmp_path: Path) -> None:
    results = {}
    for file, name, label in (("a", "gpt-4o", 0), ("b", "claude", 1)):
        by_id = {query.id: {"index": label} for query in identified_queries(mini())}
        result = score_predictions(mini(), by_id, model_name=name)
        assert isinstance(result, Result)
        results[file] = result
        result.save(tmp_path / f"{file}.json")
    comparison = str(compare(results["a"], results["b"]))
    page = report_html(results)
    build_leaderboard = ["leaderboard", str(tmp_path), "-o", str(tmp_path / "site")]
    assert main(build_leaderboard) == 0
    site = (tmp_path / "site" / "index.html").read_text("utf-8")
    for result in results.values():
        assert result.model.endswith("(predictions given)")
        for shown in (comparison, page, site):
            assert result.model in shown


def test_the_stated_name_of_given_predictions_is_in_the_results_of_long_icl() -> None:
    labels = [f"kind {letter}" for letter in "abcdefghijklmnopqrstuvw"]
    rows = [(f"text {turn} of {label}", label) for turn in range(16) for label in labels]
    own = Dataset.from_rows(rows, name="many", label_space=labels, split=SplitSizes(20, 230, 115))
    benchmark = StaICC.LongICL(datasets=[own], rounds=[1], limit=20)
    predictions = ["kind a"] * len(benchmark[0].prompt_set())
    result = benchmark(preentered_prediction=[predictions], model_name="gpt-4o")
    assert result.model.startswith("gpt-4o [")
    assert result.model.endswith("(predictions given)")


def test_a_model_name_that_is_no_text_is_refused() -> None:
    by_id = {query.id: {"probabilities": ROW} for query in identified_queries(mini())}
    with pytest.raises(ArgumentError, match="non-empty text"):
        score_predictions(mini(), by_id, model_name=" ")


def test_predictions_are_counted_once_however_many_data_sets_share_the_run(tmp_path: Path) -> None:
    own = Dataset.from_rows([(f"text {row}", row % 2) for row in range(60)], name="own", label_space=["no", "yes"])
    prompts = []

    def model(prompt: str, label_space: list[str]) -> int:
        prompts.append(prompt)
        return 0

    for names in (["mini"], ["mini", own]):
        prompts.clear()
        result = StaICC.Normal(datasets=names, limit=6)(model)
        (predictor,) = result.provenance.predictors
        assert len(predictor.datasets) == len(names)
        assert (predictor.computed, predictor.reused) == (len(prompts), 0)


def test_which_queries_failed_is_in_the_provenance() -> None:
    """Equal counts of other failed queries: one signature, two provenances."""
    keys = [one.id for one in identified_queries(mini())]
    row = {"probabilities": [0.5, 0.3, 0.2]}
    rows = [{key: row for key in keys if key != left_out} for left_out in keys[:2]]
    first, second = (score_predictions(mini(), of_run, partial=True) for of_run in rows)
    assert isinstance(first, Result)
    assert isinstance(second, Result)
    assert first.signature == second.signature
    assert None is not first.provenance.failures != second.provenance.failures is not None
    assert first.provenance.predictors[0].failed == 1
    assert "failed queries" in {one.field for one in list_differences(first, second)}
    assert mini()(StandIn()).provenance.failures is None


# -- equality, and bytes


def test_equality_looks_at_who_and_how(result: Result) -> None:
    changes: list[dict[str, Any]] = [{"name": "other"}, {"identity": "0" * 64}, {"who": {"weights": "other"}}]
    changes += [{"how": {"label_scoring": "full"}}, {"unidentified": ("a hook",)}, {"datasets": ("other",)}]
    for change in changes:
        other = copy.deepcopy(result)
        changed = dataclasses.replace(result.provenance.predictors[0], **change)
        other.provenance = dataclasses.replace(result.provenance, predictors=(changed,))
        assert other != result, change


# -- signatures: one line in a fixed order, never parsed back; and the digests that they are made of


FIELDS = (
    *("benchmark", "datasets", "data", "sampler", "k", "repeats", "demonstrations", "template", "channel"),
    *("options", "limit", "method", "scoring", "metrics", "outputs", "statistics", "prompts", "failed", "version"),
)
SOME = st.dictionaries(st.sampled_from(FIELDS), st.none() | st.text(max_size=5))


@given(SOME, st.randoms())
def test_the_fields_of_a_signature_have_a_fixed_order(fields: Any, draw: Any) -> None:
    names = list(fields)
    draw.shuffle(names)
    signature = Signature(fields)
    shuffled = Signature({name: fields[name] for name in names})
    present = [name for name in FIELDS if fields.get(name) is not None]
    line = one_line("|".join(["StaICC", *(f"{name}:{fields[name]}" for name in present)]))
    assert list(signature.to_dict()) == present
    assert str(signature) == line
    assert str(shuffled) == line, f"the order {names} of the arguments changes the line"
    assert (shuffled, hash(shuffled)) == (signature, hash(signature))


@given(SOME)
def test_a_signature_survives_json(fields: Any) -> None:
    signature = Signature(fields)
    saved = json.dumps(signature.to_dict())
    assert Signature(json.loads(saved)) == signature


@given(SOME, SOME)
def test_differences_of_two_signatures_are_all_fields_with_different_values(first: Any, second: Any) -> None:
    expected = {}
    for name in FIELDS:
        if first.get(name) != second.get(name):
            expected[name] = (first.get(name), second.get(name))
    differences = Signature(first).differences(Signature(second))
    assert differences == expected, f"got {differences}, expected {expected}"
    are_equal = Signature(first) == Signature(second)
    assert are_equal == (not expected), f"the signatures are {'equal' if are_equal else 'not equal'}"


# -- tables of results: what a reader sees, rounded here only, and safe to show


def numbers(cell: str) -> tuple[float, ...]:
    """Return a score and the ends of its interval."""
    found = re.fullmatch(r"(-?\d\.\d{4}) \[(-?\d*\.\d{3}), (-?\d*\.\d{3})\]", cell)
    assert found, cell
    return tuple(map(float, found.groups()))


def test_the_table_of_normal(result: Result) -> None:
    head, (row,) = result_rows(result)
    assert head == ["data set", "accuracy", "random", "majority", "likelihood", "macro F1", "ECE-1"]
    scores, details = result.divided["mini"], result.details["mini"]
    baselines = details.baselines["normal"]
    assert (row[0], row[5]) == ("mini", f"{scores['macro_F1']:.4f}")
    assert "interval of macro_F1" in details.missing
    assert row[2:4] == [f"{baselines.max_random:.4f}", f"{baselines.majority:.4f}"]
    keys = ("accuracy", "averaged_truelabel_likelihood", "expected_calibration_error_1")
    for key, cell in zip(keys, (row[1], row[4], row[6]), strict=True):
        interval = details.intervals[key]
        assert cell.startswith(f"{scores[key]:.4f} [")
        assert numbers(cell) == pytest.approx((scores[key], interval.low, interval.high), abs=5e-4)
    for shown in (str(result), result._repr_html_()):
        assert "In brackets: 95 % intervals." in shown
    records = {(record["dataset"], record["metric"]): record for record in score_records(result)}
    for key, value in scores.items():
        own, record = details.intervals.get(key), records["mini", key]
        assert (record["value"], records[None, key]["value"]) == (value, result.averaged[key])
        ends = (own.low, own.high, 0.95) if own else (None, None, None)
        assert (record["low"], record["high"], record["level"]) == ends
        assert record["signature"] == str(result.signature)


@pytest.mark.parametrize(
    ("name", "first"),
    [
        ("ContextualBias", "entropy"),
        ("PosteriorBias", "DL div."),
        ("GLER", "slope of accuracy"),
        ("DemonstrationSensitivity", "consistency"),
    ],
)
def test_the_other_tables(name: str, first: str, make_model: Any) -> None:
    result = getattr(StaICC, name)(datasets=["mini"])(make_model)
    head, rows = result_rows(result)
    assert head[:2] == ["data set", first]
    assert [row for row in rows if len(row) != len(head)] == []
    for cell, column in zip(rows[0][1:], head[1:], strict=True):
        if column not in ("random", "majority"):
            value, low, high = numbers(cell)
            assert low - 1e-3 <= value <= high + 1e-3
    lines = str(result).split("\n")
    assert lines[0] == name
    printed_warnings = [f"WARNING: {warning}" for warning in result.warnings]
    assert lines[-1 - len(printed_warnings) :] == [str(result.signature), *printed_warnings]


def test_what_is_undefined_is_a_dash_with_its_reason() -> None:
    result = StaICC.Normal(datasets=["mini"], limit=3)(lambda prompt, label_space: 0)
    _, ((*_, likelihood, f1, ece),) = result_rows(result)
    assert (likelihood, ece) == ("-", "-")
    assert re.match(r"0\.\d{4}", f1)
    assert "mini: likelihood is undefined: the predictions are bare labels" in str(result)


def test_notes_have_the_words_of_the_columns() -> None:
    """Every score that a note is about has a column with that name; conditions and intervals are said in addition."""
    result = StaICC.GLER(datasets=["mini"], limit=3)(lambda prompt, label_space: 0)
    head, _ = result_rows(result)
    notes = re.findall(r"^mini: (?:interval of )?(.+?)(?: \(condition \d\))? is undefined", str(result), re.MULTILINE)
    assert {"likelihood", "slope of likelihood", "slope of macro F1"} <= {*notes}
    assert {f"slope of {note.removeprefix('slope of ')}" for note in notes} <= {*head}


def test_titles_have_the_names_of_the_classes() -> None:
    parts = StaICC.TripletBias(datasets=["mini"], limit=3)(lambda prompt, label_space: 0)
    titles = [line for line in str(parts).splitlines() if line.endswith("Bias")]
    assert titles == ["ContextualBias", "DomainBias", "PosteriorBias"]
    assert [title for title in titles if not hasattr(StaICC, title)] == []


@pytest.mark.parametrize(
    ("number", "shown"), [(1, ": own 0."), (3, ": own 0, own 1, own 2, the mean."), (4, ": 4 data sets, the mean.")]
)
def test_remarks_name_what_is_not_beaten(number: int, shown: str) -> None:
    rows = [(f"text {row}", row % 2) for row in range(60)]
    data = [Dataset.from_rows(rows, name=f"own {place}", label_space=["no", "yes"]) for place in range(number)]
    result = StaICC.Normal(datasets=data, limit=6)(lambda prompt, label_space: 0)
    said = [text for text in remarks(result) if "undefined" not in text]
    assert [text.startswith("Not better than ") and text.endswith(shown) for text in said] == [True, True, True, False]


def test_bounds_of_unparsed_replies_are_the_accuracies_if_all_were_wrong_or_right() -> None:
    own = Dataset.from_rows([(f"text {row}", row % 2) for row in range(60)], name="own", label_space=["no", "yes"])

    def model(prompt: str, label_space: list[str]) -> str:
        return "?" if "no" not in label_space and prompt.count("e") % 3 == 0 else label_space[0]

    result = StaICC.Normal(datasets=["mini", own], limit=9, unparsed="excluded")(model)
    head, rows = result_rows(result)
    queries = result.queries()
    right = [sum(query.correct is True for query in queries if query.dataset == name) for name in result.details]
    unparsed = [len(data.unparsed) for data in result.details.values()]
    ends = [(hits / 18, (hits + more) / 18) for hits, more in zip(right, unparsed, strict=True)]
    ends.append((sum(right) / 36, sum([*right, *unparsed]) / 36))
    column = head.index("accuracy if unparsed wrong, right")
    assert [row[column] for row in rows] == [f"{low:.4f}, {high:.4f}" for low, high in ends]
    assert unparsed[0] > unparsed[1] == 0


@pytest.mark.parametrize("policy", ["wrong", "excluded"])
def test_the_share_of_unparsed_replies_is_that_of_all_queries(policy: Any) -> None:
    """Also where they are excluded, and count in no score."""
    own = Dataset.from_rows([(f"text {row}", row % 2) for row in range(60)], name="own", label_space=["no", "yes"])

    def model(prompt: str, label_space: list[str]) -> str:
        return "?" if "no" not in label_space and len(prompt) % 3 == 0 else label_space[0]

    benchmark = StaICC.Normal(datasets=["mini", own], limit=9, unparsed=policy)
    unparsed = sum(len(str(query.prompt)) % 3 == 0 for query in benchmark[0].all_queries())
    assert 0 < unparsed < 18
    head, rows = result_rows(benchmark(model))
    cells = [row[head.index("unparsed")] for row in rows]
    assert cells == [f"{unparsed} ({unparsed / 18:.1%})", "0 (0.0%)", f"{unparsed} ({unparsed / 36:.1%})"]


# -- flat records of results, runs taken apart, and citations


@pytest.mark.parametrize("reading", ["logits", "probabilities", "labels", "ambiguous"])
@pytest.mark.parametrize("name", ["Normal", "GLER", "DomainBias"])
def test_queries_have_the_numbers_of_the_run_and_of_its_file(name: str, reading: str, tmp_path: Path) -> None:
    def predicted(prompt: str, label_space: list[str]) -> Any:
        number = len(prompt) % 7
        if number == 3:
            raise ValueError("no prediction")
        rows = {"logits": [number - 5, -0.1, 2.0], "probabilities": [0.5, number / 16, 0.5 - number / 16]}
        return rows.get(reading, number % 3 if reading == "labels" else [number, 2, 1])

    benchmark = getattr(StaICC, name)(datasets=["mini"], limit=6)
    result = benchmark(predicted, on_error="collect", return_outputs=True)
    result.save(tmp_path / "r.json")
    queries = StaICC.load(tmp_path / "r.json").queries()
    assert queries == result.queries()
    assert result.outputs is not None
    for query, output in zip(queries, result.outputs["mini"], strict=True):
        places = ("condition", "query", "row", "repeat", "ground_truth", "prediction")
        assert [getattr(query, place) for place in places] == [output[place] for place in places]
        if reading == "labels" or query.prediction is None:
            assert query.scores is query.probabilities is None
        else:
            assert list(query.scores or ()) == output["predicted_probabilities"]
            assert (list(query.probabilities) if query.probabilities else None) == output["normalised_probabilities"]
        assert ("no prediction" in (query.reason or "")) is (query.prediction is None)
    details = StaICC.load(tmp_path / "r.json").details["mini"]  # type: ignore[union-attr]
    assert {query.condition for query in queries} == {record.name for record in details.conditions}
    saved = [label for record in details.conditions for label in record.predictions]
    assert [query.prediction for query in queries] == saved
    assert sum(query.prediction is None for query in queries) == details.failed > 0
    assert any(query.probabilities for query in queries) is (reading in ("logits", "probabilities"))


def test_replies_are_kept_with_how_they_ended(tmp_path: Path) -> None:
    """Also those without a label, whose beginning is the reason; a file has the labels and the reasons."""

    def reply(prompt: str, label_space: list[str]) -> str:
        text = "I cannot say" if len(prompt) % 3 == 0 else f"It is {label_space[len(prompt) % 3]}."
        return Text(text, "length" if len(prompt) % 3 == 1 else "stop")

    benchmark = StaICC.Normal(datasets=["mini"], limit=8, unparsed="wrong")
    result = benchmark(reply, return_outputs=True)
    prompts = benchmark[0].prompt_set()
    for query, prompt in zip(result.queries(), prompts, strict=True):
        written = reply(prompt, benchmark[0].get_label_space())
        assert (query.reply, query.finish_reason) == (str(written), written.finish_reason)  # type: ignore[attr-defined]
        assert (query.prediction is None) is ("I cannot say" in str(query.reason)) is (len(prompt) % 3 == 0)
    save_records(result, tmp_path / "q.jsonl")
    lines = [json.loads(line) for line in (tmp_path / "q.jsonl").read_text("utf-8").splitlines()]
    assert [line["response"] for line in lines] == [query.reply for query in result.queries()]
    result.save(tmp_path / "r.json")
    without = [dataclasses.replace(query, reply=None, finish_reason=None) for query in result.queries()]
    assert StaICC.load(tmp_path / "r.json").queries() == without
    assert benchmark(reply).queries() == without


# -- runs


def test_a_suite_is_one_run_and_methods_are_a_run_each(result: Result, group: ResultGroup) -> None:
    methods = ResultGroup("methods", {"vanilla": group, "topk": group})
    found = split_runs({"a": group, "gpt2": methods, "other": result})
    assert list(found) == ["a", "gpt2: vanilla", "gpt2: topk", "other"]
    assert list(found["a"]) == list(group)
    with pytest.raises(ArgumentError, match="a: b holds two results of Normal"):
        split_runs({"a: b": result, "a": ResultGroup("methods", {"b": result, "c": result})})


# -- citations


@pytest.mark.parametrize("method", METHODS)
def test_every_method_is_cited(method: str) -> None:
    assert find_work(method).kind == "method"
    assert find_work(method.upper().replace(" ", "_")) == find_work(method)


def test_a_condition_has_its_own_queries_and_a_slope_no_baseline(partial: Result) -> None:
    records = {(one["dataset"], one["metric"]): one for one in score_records(partial)}
    details = partial.details["mini"]
    answered = {one.name: len(one.truth) - one.predictions.count(None) for one in details.conditions}
    assert sum(answered.values()) == details.scored < details.asked
    for name, count in answered.items():
        found = records["mini", f"{name}.accuracy"]
        assert (found["n"], found["majority"]) == (count, details.baselines[name].majority)
    slope = records[None, "accuracy"]
    assert (slope["n"], slope["random"], slope["majority"]) == (details.scored, None, None)


@pytest.mark.parametrize("policy", ["wrong", "excluded"])
def test_a_score_of_a_condition_leaves_out_its_replies_without_a_label_only_if_they_are_excluded(policy: Any) -> None:
    def model(prompt: str, label_space: list[str]) -> str:
        return "nothing" if len(prompt) % 3 == 0 else label_space[0]

    benchmark = StaICC.GLER(datasets=["mini"], limit=6, unparsed=policy)
    prompts = [str(query.prompt) for query in benchmark[0].all_queries()]
    result = benchmark(model)
    records = {(record["dataset"], record["metric"]): record for record in score_records(result)}
    names = [condition.name for condition in result.details["mini"].conditions]
    of_condition = len(prompts) // len(names)
    for number, name in enumerate(names):
        asked = prompts[number * of_condition : (number + 1) * of_condition]
        without_label = sum(len(prompt) % 3 == 0 for prompt in asked)
        assert 0 < without_label < of_condition
        left_out = without_label if policy == "excluded" else 0
        record = records["mini", f"{name}.accuracy"]
        assert (record["n"], record["left_out"]) == (of_condition - left_out, left_out)


@pytest.mark.parametrize("policy", ["wrong", "excluded"])
@pytest.mark.parametrize("name", ["Normal", "Generalisation", "LongICL"])
def test_the_mean_of_correct_is_the_accuracy_also_with_replies_without_a_label(name: str, policy: Any) -> None:
    def model(prompt: str, label_space: list[str]) -> str:
        return "nothing" if prompt.count("e") % 3 == 0 else label_space[prompt.count("a") % 2]

    if name == "LongICL":
        rows = [(f"{'a' * (n % 7)} text {'e' * (n % 5)} {n}", n % 20) for n in range(400)]
        own = StaICC.Dataset.from_rows(rows, name="own", label_space=[f"kind {n}" for n in range(20)])
        result = StaICC.LongICL(datasets=[own], rounds=(1,), limit=60, unparsed=policy)(model)
    else:
        result = getattr(StaICC, name)(datasets=["mini"], limit=9, unparsed=policy)(model)
    unparsed = [query for query in result.queries() if "nothing" in (query.reason or "")]
    assert len(unparsed) > 0
    assert {query.prediction for query in unparsed} == {None}
    assert {query.correct for query in unparsed} == {False if policy == "wrong" else None}
    correct = [query.correct for query in result.queries() if query.correct is not None]
    assert sum(correct) / len(correct) == pytest.approx(result.averaged.get("accuracy", result.averaged.get("1R")))
    assert {record["n"] for record in score_records(result) if record["metric"] in ("accuracy", "1R")} == {len(correct)}


def test_results_of_earlier_states_are_refused(result: Result, tmp_path: Path) -> None:
    path = tmp_path / "earlier.json"
    path.write_text(json.dumps(result.to_dict() | {"schema": 1}), encoding="utf-8")
    with pytest.raises(SchemaError, match=r"result schema 1, written by an earlier state of 1\.0\.0: run again"):
        load(path)


IMPOSSIBLE_DETAILS: dict[str, tuple[Callable[[dict[str, Any], dict[str, Any]], object], str]] = {
    "a row before the first cluster": (
        lambda details, record: record["rows"].__setitem__(0, -1),
        "the test row -1, but there are clusters of 80 rows",
    ),
    "a row behind the last cluster": (
        lambda details, record: record["rows"].__setitem__(0, 80),
        "the test row 80, but there are clusters of 80 rows",
    ),
    "a row before the first subgroup": (
        lambda details, record: (details.pop("clusters"), record["rows"].__setitem__(0, -1)),
        "the test row -1, but there are subgroups 'last' of 80 rows",
    ),
    "a row behind the last subgroup": (
        lambda details, record: (details.pop("clusters"), record["rows"].__setitem__(0, 80)),
        "the test row 80, but there are subgroups 'last' of 80 rows",
    ),
    "a true label behind the last one": (
        lambda details, record: record["truth"].__setitem__(0, 2),
        "the label index 2, expected 0 to 1",
    ),
    "a predicted label before the first one": (
        lambda details, record: record["predictions"].__setitem__(0, -1),
        "the label index -1, expected 0 to 1",
    ),
    "one row less than queries": (lambda details, record: record["rows"].pop(), "of different lengths"),
    "scores of an unknown kind": (lambda details, record: record.update(scores="f2:AAAA"), "start with 'f4:' or 'f8:'"),
    "a label mass above 1": (
        lambda details, record: details.update(label_mass={record["name"]: 1.5}),
        "the label mass 1.5, expected 0 to 1",
    ),
    "a label mass below 0": (
        lambda details, record: details.update(label_mass={record["name"]: -0.5}),
        "the label mass -0.5, expected 0 to 1",
    ),
    "the label mass of another condition": (
        lambda details, record: details.update(label_mass={"other": 0.5}),
        "facts of the condition 'other', which it does not have",
    ),
    "demonstrations lost by no prompt": (
        lambda details, record: details.update(dropped={record["name"]: [0, 3]}),
        "0 prompts lost 3 demonstrations",
    ),
    "more shortened prompts than queries": (
        lambda details, record: details.update(dropped={record["name"]: [21, 21]}),
        "21 prompts lost 21 demonstrations",
    ),
    "fewer lost demonstrations than shortened prompts": (
        lambda details, record: details.update(dropped={record["name"]: [3, 2]}),
        "3 prompts lost 2 demonstrations",
    ),
}
"""Edits of the details of a data set and of the record of its condition, with a part of the error message."""


@pytest.mark.parametrize(("edit", "message"), IMPOSSIBLE_DETAILS.values(), ids=IMPOSSIBLE_DETAILS)
def test_details_that_contradict_each_other_are_refused(
    edit: Callable[[dict[str, Any], dict[str, Any]], object], message: str
) -> None:
    """An index outside its list is never one of another row, as a negative index is in Python."""
    data = Dataset.from_rows(
        [(f"text {number}", ("no", "yes")[number % 2]) for number in range(200)],
        name="rows",
        cluster=lambda row: int(row.texts[0].split()[1]) // 10,
        subgroups={"last": lambda row: row.texts[0][-1]},
    )
    result = StaICC.Normal(datasets=[data], limit=10)(lambda prompt, label_space: [0.5, 0.5])
    values = json.loads(json.dumps(result.to_dict()))
    assert result_from_dict(copy.deepcopy(values), "saved") == result
    details = values["details"]["rows"]
    edit(details, details["conditions"][0])
    with pytest.raises(SchemaError, match=re.escape(message)):
        result_from_dict(values, "saved")


@pytest.mark.parametrize(
    ("changes", "is_possible"),
    [
        ({}, True),
        ({"rule": "race"}, True),
        ({"rule": "patience"}, False),
        ({"rounds": 0}, False),
        ({"rounds": -1}, False),
        ({"rounds": 1}, True),
        ({"rounds": 120, "all_rounds": 120}, True),
        ({"rounds": 121, "all_rounds": 120}, False),
    ],
)
def test_a_decision_to_stop_that_no_run_can_have_made_is_refused(changes: dict[str, Any], is_possible: bool) -> None:
    result = StaICC.Normal(datasets=["mini"])(lambda prompt, label_space: 0, precision=0.3)
    values = json.loads(json.dumps(result.to_dict()))
    values["stopping"].update(changes)
    if is_possible:
        assert result_from_dict(values, "saved").to_dict()["stopping"] == values["stopping"]
    else:
        with pytest.raises(SchemaError, match="expected 'precision' or 'race' and at least 1 round"):
            result_from_dict(values, "saved")
