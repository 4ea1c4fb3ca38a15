"""Results: documented keys, details, provenance, signature, table and queries; to JSON and back, or not at all."""

from __future__ import annotations

import base64
import copy
import dataclasses
import errno
import hashlib
import json
import math
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
from StaICC.results.details import pack_scores, unpack_scores
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


def test_equal_runs_are_equal_whatever_time_they_took(result: Result, make_model: Any) -> None:
    again = StaICC.Normal(datasets=["mini"], limit=6)(make_model)
    again.timing = {"seconds": 1e9}

    assert again == result
    assert (again != result) is False


def test_results_with_other_rows_scores_or_signatures_are_not_equal(result: Result, make_model: Any) -> None:
    other_score = copy.deepcopy(result)
    other_score.divided["mini"]["accuracy"] = 0.123
    other_signature = copy.deepcopy(result)
    other_signature.signature = Signature({**result.signature.fields, "k": "5"})

    assert StaICC.Normal(datasets=["mini"], limit=5)(make_model) != result
    assert other_score != result
    assert other_signature != result
    assert result != {}


# -- details


SIX_ROWS_IN_TWO_REPEATS = 12
"""The queries of the fixture ``result``."""


def test_the_details_count_the_queries(result: Result) -> None:
    details = result.details["mini"]

    assert (details.asked, details.scored, details.failed) == (SIX_ROWS_IN_TWO_REPEATS, SIX_ROWS_IN_TWO_REPEATS, 0)


def test_equal_prompts_are_one_distinct_query() -> None:
    """Without demonstrations, all prompts of a data set with one text are the same."""
    same_text = Dataset.from_rows([("same", row % 2) for row in range(60)], name="same", label_space=["a", "b"])

    result = StaICC.Normal(0, datasets=[same_text])(lambda prompt, label_space: 0)

    assert result.details["same"].distinct == 1


def test_the_record_of_a_condition_is_that_of_its_queries(result: Result) -> None:
    queries = StaICC.Normal(datasets=["mini"], limit=6)[0].all_queries()

    (record,) = result.details["mini"].conditions

    assert record.name == "normal"
    assert record.output == "logits"
    assert record.truth == tuple(query.label for query in queries)
    assert record.rows == tuple(query.row for query in queries)
    is_correct = [prediction == label for prediction, label in zip(record.predictions, record.truth, strict=True)]
    assert result.averaged["accuracy"] == sum(is_correct) / SIX_ROWS_IN_TWO_REPEATS


def test_the_details_have_the_digests_of_the_prompts(result: Result) -> None:
    """One of all prompts, and the first four bytes of that of each prompt."""
    prompts = StaICC.Normal(datasets=["mini"], limit=6)[0].prompt_set()

    details = result.details["mini"]

    assert details.prompts == digest(prompts)
    expected = b"".join(hashlib.sha256(prompt.encode()).digest()[:4] for prompt in prompts)
    assert base64.b64decode(details.query_digests) == expected


def test_each_score_has_an_interval_around_it_or_a_reason(result: Result) -> None:
    details = result.details["mini"]

    for name, value in result.averaged.items():
        if name == "macro_F1":
            assert name not in details.intervals
            assert details.missing["interval of macro_F1"] == "3 of 3 labels have fewer than 5 test rows"
        else:
            assert details.intervals[name].low <= value <= details.intervals[name].high, name
            assert details.intervals[name].level == 0.95, name


@pytest.fixture(scope="module")
def run_with_probabilities(make_model: Callable[..., Any]) -> Result:
    """A run with its outputs, whose predictions are probabilities."""
    benchmark = StaICC.Normal(datasets=["mini"])
    result = benchmark(lambda prompt, label_space: softmax(make_model(prompt, label_space)), return_outputs=True)
    assert isinstance(result, Result)
    return result


def test_the_file_has_the_calibration_bins_of_the_predictions(run_with_probabilities: Result) -> None:
    assert run_with_probabilities.outputs is not None
    outputs = run_with_probabilities.outputs["mini"]
    truth = [output["ground_truth"] for output in outputs]
    probabilities = [output["normalised_probabilities"] for output in outputs]

    loaded = Result.from_dict(json.loads(json.dumps(run_with_probabilities.to_dict())))

    assert loaded.details["mini"].conditions[0].calibration == confidence_bins(truth, probabilities)


def test_the_calibration_error_follows_from_the_bins_of_the_file(run_with_probabilities: Result) -> None:
    """A bin has the number of its queries, that of correct ones, and the sum of their confidences."""
    loaded = Result.from_dict(json.loads(json.dumps(run_with_probabilities.to_dict())))

    bins = loaded.details["mini"].conditions[0].calibration

    scores = loaded.divided["mini"]
    query_count = sum(confidence_bin.queries for confidence_bin in bins)
    correct = sum(confidence_bin.correct for confidence_bin in bins)
    gaps = sum(abs(confidence_bin.correct - confidence_bin.confidence) for confidence_bin in bins)
    assert gaps / query_count == pytest.approx(scores["expected_calibration_error_1"], abs=1e-15)
    assert correct / query_count == scores["accuracy"]


# -- to JSON and back


def data_with_other_alphabets() -> Dataset:
    """Return a data set whose name, labels and texts are Cyrillic, with quotes, a line end and a bar in its name."""
    rows = [(f"текст {row} 🙂", row % 2) for row in range(30)]
    return Dataset.from_rows(rows, name='наб"ор\n|', label_space=["да", "нет"])


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("Normal", {"datasets": ["mini", data_with_other_alphabets()]}),
        ("Normal", {"datasets": ["mini"], "metrics": "0.1.1"}),
        ("Normal", {"datasets": ["mini"], "noisy_channel": True}),
        ("Suite", {"datasets": ["mini"]}),
    ],
    ids=["other alphabets", "metrics of 0.1.1", "noisy channel", "Suite"],
)
def test_what_is_saved_is_loaded(
    tmp_path: Path, name: str, settings: dict[str, Any], make_model: Any, file_name: Any
) -> None:
    original = getattr(StaICC, name)(limit=4, **settings)(make_model)
    path = tmp_path / file_name("result ä.json")

    original.save(path)
    loaded = load(path)
    loaded.save(tmp_path / "again.json")

    assert loaded == original
    assert type(loaded) is type(original)
    assert loaded.to_dict() == original.to_dict()
    assert str(loaded) == str(original)
    assert loaded._repr_html_() == original._repr_html_()
    assert (tmp_path / "again.json").read_bytes() == path.read_bytes()


def run_with_own_metric(folder: Path, model: Any) -> Result:
    """Return a run with a metric of the user's own, also on a data set from a file."""
    table = folder / "own.csv"
    lines = ["text,label"]
    for row in range(30):
        lines += [f"text {row},no", f"other text {row},yes"]
    table.write_text("\n".join(lines), "utf-8")
    brier = Metric("brier", MeanOf(lambda label, row: (1 - row[label]) ** 2), True, higher_is_better=False)
    benchmark = StaICC.Normal(datasets=["mini", Dataset.from_file(table)], limit=4, metrics={"brier": brier})
    result: Result = benchmark(model)
    assert result.query_scores["brier"].values["mini"]
    assert result.files
    return result


def run_that_stopped_early(folder: Path, model: Any) -> Result:
    result: Result = StaICC.Normal(datasets=["mini"])(model, precision=0.2)
    assert result.stopping is not None
    return result


@pytest.mark.parametrize("make", [run_with_own_metric, run_that_stopped_early])
def test_no_attribute_of_a_result_is_lost_in_its_file(make: Any, tmp_path: Path, make_model: Any) -> None:
    """Compared one by one: equality compares what both results would save, and finds nothing that no file has."""
    original = make(tmp_path, make_model)

    original.save(tmp_path / "result.json")
    loaded = load(tmp_path / "result.json")

    for attribute in dataclasses.fields(Result):
        if attribute.name != "outputs":  # which are never saved
            assert getattr(loaded, attribute.name) == getattr(original, attribute.name), attribute.name


def test_a_score_of_nan_is_none_with_a_reason_in_the_file(tmp_path: Path, make_model: Any) -> None:
    """Undefined is None with a reason, not NaN and not zero."""
    benchmark = StaICC.Normal(datasets=["mini"], limit=4)
    benchmark[0].add_metric("odd", lambda truth, rows: float("nan"))

    original = benchmark(make_model)
    original.save(tmp_path / "result.json")

    assert original[AVERAGED]["odd"] is None
    assert original.details["mini"].missing["odd"] == "the metric returned nan"
    assert not re.search(r"\b(NaN|-?Infinity)\b", (tmp_path / "result.json").read_text("utf-8"))
    assert load(tmp_path / "result.json") == original


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")], ids=str)
def test_a_number_that_is_not_json_is_refused_and_leaves_no_file(result: Result, value: float, tmp_path: Path) -> None:
    result.divided["mini"]["accuracy"] = value

    with pytest.raises(ValueError, match="not JSON compliant"):
        result.save(tmp_path / "result.json")

    assert list(tmp_path.iterdir()) == []


def test_saving_leaves_the_old_file_if_it_fails(
    tmp_path: Path, result: Result, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "result.json"
    path.write_text("old")

    def fail_as_a_full_disk(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail_as_a_full_disk)
    with pytest.raises(OSError, match="No space left on device") as caught:
        result.save(path)
    assert caught.value.filename == str(path)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


# -- files that are no result


def test_a_value_of_another_type_is_refused_or_does_no_harm() -> None:
    """In each place of a saved result (of lists the first item only), five values of other types."""
    saved = StaICC.Normal(datasets=["mini"], limit=3)(lambda prompt, label_space: [0.5, 0.3, 0.2]).to_dict()
    refused = 0
    for path, _ in every_place(saved):
        indexes_in_lists = [key for key in path if isinstance(key, int)]
        if max(indexes_in_lists, default=0) > 0:
            continue
        for value in (None, {}, "x", 5, [1, "a"]):
            changed = json.loads(json.dumps(edited(saved, path, value)))
            try:
                result = result_from_dict(changed, "file")
            except SchemaError:
                refused += 1
            else:
                assert str(result)
                assert result._repr_html_()
                assert result.to_dict()
    assert refused > 120, "hardly any value of another type is refused"


def test_a_score_of_a_users_own_benchmark_may_have_any_form() -> None:
    saved = StaICC.Normal(datasets=["mini"], limit=3)(lambda prompt, label_space: 0).to_dict()
    saved["Divided results"]["mini"]["mine"] = {"a": {"mean": "of a user's own benchmark"}}

    assert str(result_from_dict(saved, "file"))


# -- groups


def test_a_group_has_the_signatures_and_the_tables_of_its_parts(group: ResultGroup) -> None:
    assert [part.benchmark for part in group.results()] == list(group)
    assert group.signature == {name: part.signature for name, part in group.items()}
    printed = str(group)
    for name, part in group.items():
        for line in str(part).splitlines():
            assert line in printed, name


def test_a_group_in_a_group_is_saved_and_loaded(tmp_path: Path, group: ResultGroup) -> None:
    nested = ResultGroup("outer", {"inner": group, "alone": group["Normal"]})

    nested.save(tmp_path / "result.json")
    loaded = load(tmp_path / "result.json")

    assert list(nested.results()) == [*group.values(), group["Normal"]]
    assert nested.complete
    assert isinstance(loaded, ResultGroup)
    assert loaded == nested
    assert loaded.name == "outer"


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
    kernel = StandIn()

    results = mini(name)(kernel, model_name="mine")

    for result in results.results():
        (predictor,) = result.provenance.predictors
        assert predictor.name == "mine"
        assert predictor.identity == kernel.identity().digest
        assert predictor.who == {"model": "stand-in", "weights": "w1", "dtype": "float32"}
        assert predictor.how == {"label_scoring": "last"}
        assert predictor.datasets == ("mini",)
        assert predictor.unidentified == ()
        assert result.model == f"mine [{predictor.identity[:12]}]"
        assert result.provenance.label == result.model


def test_every_result_says_when_it_was_predicted() -> None:
    """In UTC."""
    (predictor,) = mini()(StandIn()).provenance.predictors

    assert predictor.started <= predictor.finished
    assert predictor.started.endswith("+00:00")


def test_what_cannot_be_identified_is_marked_everywhere() -> None:
    result = mini()(StandIn(reasons=("a hook on layer 3",)))
    assert result.model.endswith("(unidentified)")
    for shown in (str(result), result._repr_html_()):
        assert "UNIDENTIFIED: a hook on layer 3" in shown
        assert "(unidentified)" in shown


# -- predictions that were given

ROW = [0.5, 0.3, 0.2]


def given_by_id() -> dict[str, Any]:
    """Return the same probabilities for each of the six queries of ``mini()``, by id."""
    return {query.id: {"probabilities": ROW} for query in identified_queries(mini())}


def test_given_predictions_are_identified_by_their_digest() -> None:
    result = mini()(preentered_prediction=[[ROW] * 6])

    (predictor,) = result.provenance.predictors
    assert list(predictor.who) == [GIVEN]
    sha256 = predictor.who[GIVEN]
    assert len(sha256) == 64
    assert result.model == f"{GIVEN} [{sha256[:12]}]"


def test_given_predictions_have_the_same_digest_in_any_order_and_form() -> None:
    expected = mini()(preentered_prediction=[[ROW] * 6])
    by_id = given_by_id()

    assert mini()(preentered_prediction={"mini": (tuple(ROW),) * 6}) == expected
    assert score_predictions(mini(), by_id) == expected
    assert score_predictions(mini(), dict(reversed(by_id.items()))) == expected


def test_given_predictions_with_other_probabilities_have_another_digest() -> None:
    """Also where all scores of labels are the same."""
    by_id = given_by_id()
    first_id = next(iter(by_id))
    changed = dict(by_id)
    changed[first_id] = {"probabilities": [0.5, 0.2, 0.3]}

    result = score_predictions(mini(), by_id)
    other = score_predictions(mini(), changed)

    assert isinstance(result, Result)
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
    first_labels = {query.id: {"index": 0} for query in identified_queries(mini())}
    second_labels = {query.id: {"index": 1} for query in identified_queries(mini())}
    gpt = score_predictions(mini(), first_labels, model_name="gpt-4o")
    claude = score_predictions(mini(), second_labels, model_name="claude")
    assert isinstance(gpt, Result)
    assert isinstance(claude, Result)
    gpt.save(tmp_path / "a.json")
    claude.save(tmp_path / "b.json")

    comparison = str(compare(gpt, claude))
    page = report_html({"a": gpt, "b": claude})
    build_leaderboard = ["leaderboard", str(tmp_path), "-o", str(tmp_path / "site")]
    assert main(build_leaderboard) == 0
    site = (tmp_path / "site" / "index.html").read_text("utf-8")

    for result in (gpt, claude):
        assert result.model.endswith("(predictions given)")
        assert result.model in comparison
        assert result.model in page
        assert result.model in site


def test_the_stated_name_of_given_predictions_is_in_the_results_of_long_icl() -> None:
    labels = [f"kind {letter}" for letter in "abcdefghijklmnopqrstuvw"]
    rows = []
    for label in labels:
        rows += [(f"text {number} of {label}", label) for number in range(16)]
    sizes = SplitSizes(calibration=20, demonstration=230, test=115)
    own = Dataset.from_rows(rows, name="many", label_space=labels, split=sizes)
    benchmark = StaICC.LongICL(datasets=[own], rounds=[1], limit=20)
    predictions = ["kind a"] * len(benchmark[0].prompt_set())
    result = benchmark(preentered_prediction=[predictions], model_name="gpt-4o")
    assert result.model.startswith("gpt-4o [")
    assert result.model.endswith("(predictions given)")


def test_a_model_name_that_is_no_text_is_refused() -> None:
    by_id = {query.id: {"probabilities": ROW} for query in identified_queries(mini())}
    with pytest.raises(ArgumentError, match="non-empty text"):
        score_predictions(mini(), by_id, model_name=" ")


@pytest.mark.parametrize("dataset_count", [1, 2])
def test_predictions_are_counted_once_however_many_data_sets_share_the_run(dataset_count: int) -> None:
    own = Dataset.from_rows([(f"text {row}", row % 2) for row in range(60)], name="own", label_space=["no", "yes"])
    prompts = []

    def model(prompt: str, label_space: list[str]) -> int:
        prompts.append(prompt)
        return 0

    result = StaICC.Normal(datasets=["mini", own][:dataset_count], limit=6)(model)

    (predictor,) = result.provenance.predictors
    assert len(predictor.datasets) == dataset_count
    assert predictor.computed == len(prompts)
    assert predictor.reused == 0


def without_prediction_for(query_number: int) -> Result:
    """Return a partial result with given predictions for all queries but one."""
    by_id = given_by_id()
    del by_id[list(by_id)[query_number]]
    result = score_predictions(mini(), by_id, partial=True)
    assert isinstance(result, Result)
    return result


def test_which_queries_failed_is_in_the_provenance() -> None:
    """Equal counts of other failed queries: one signature, two provenances."""
    first, second = without_prediction_for(0), without_prediction_for(1)

    assert first.signature == second.signature
    assert first.provenance.failures is not None
    assert second.provenance.failures is not None
    assert first.provenance.failures != second.provenance.failures
    assert first.provenance.predictors[0].failed == 1
    assert "failed queries" in {difference.field for difference in list_differences(first, second)}


def test_a_complete_run_has_no_failures_in_its_provenance() -> None:
    assert mini()(StandIn()).provenance.failures is None


# -- equality, and bytes


@pytest.mark.parametrize(
    "change",
    [
        {"name": "other"},
        {"identity": "0" * 64},
        {"who": {"weights": "other"}},
        {"how": {"label_scoring": "full"}},
        {"unidentified": ("a hook",)},
        {"datasets": ("other",)},
    ],
    ids=lambda change: next(iter(change)),
)
def test_equality_looks_at_who_predicted_and_how(result: Result, change: dict[str, Any]) -> None:
    other = copy.deepcopy(result)
    (predictor,) = result.provenance.predictors
    other_predictor = dataclasses.replace(predictor, **change)
    other.provenance = dataclasses.replace(result.provenance, predictors=(other_predictor,))

    assert other != result


# -- signatures: one line in a fixed order, never parsed back; and the digests that they are made of


FIELDS = (
    *("benchmark", "datasets", "data", "sampler", "k", "repeats", "demonstrations", "template", "channel"),
    *("options", "limit", "method", "scoring", "metrics", "outputs", "statistics", "prompts", "failed", "version"),
)
SOME_FIELDS = st.dictionaries(st.sampled_from(FIELDS), st.none() | st.text(max_size=5))


@given(SOME_FIELDS, st.randoms())
def test_a_signature_does_not_depend_on_the_order_of_its_fields(fields: dict[str, Any], draw: Any) -> None:
    names = list(fields)
    draw.shuffle(names)

    signature = Signature(fields)
    shuffled = Signature({name: fields[name] for name in names})

    assert shuffled == signature
    assert hash(shuffled) == hash(signature)
    assert str(shuffled) == str(signature)


@given(SOME_FIELDS)
def test_a_signature_is_written_in_a_fixed_order_without_absent_fields(fields: dict[str, Any]) -> None:
    signature = Signature(fields)

    present = [name for name in FIELDS if fields.get(name) is not None]
    assert list(signature.to_dict()) == present
    line = "|".join(["StaICC", *(f"{name}:{fields[name]}" for name in present)])
    assert str(signature) == one_line(line)


@given(SOME_FIELDS)
def test_a_signature_survives_json(fields: dict[str, Any]) -> None:
    signature = Signature(fields)

    assert Signature(json.loads(json.dumps(signature.to_dict()))) == signature


@given(SOME_FIELDS, SOME_FIELDS)
def test_two_signatures_name_the_fields_that_differ(first: dict[str, Any], second: dict[str, Any]) -> None:
    expected = {}
    for name in FIELDS:
        values = (first.get(name), second.get(name))
        if values[0] != values[1]:
            expected[name] = values

    differences = Signature(first).differences(Signature(second))

    assert differences == expected
    assert (Signature(first) == Signature(second)) is (expected == {})


# -- tables of results: what a reader sees, rounded here only, and safe to show


def numbers(cell: str) -> tuple[float, ...]:
    """Return a score and the ends of its interval."""
    found = re.fullmatch(r"(-?\d\.\d{4}) \[(-?\d*\.\d{3}), (-?\d*\.\d{3})\]", cell)
    assert found, cell
    return tuple(map(float, found.groups()))


def test_the_table_of_normal_has_the_scores_with_their_intervals(result: Result) -> None:
    header, (row,) = result_rows(result)

    assert header == ["data set", "accuracy", "random", "majority", "likelihood", "macro F1", "ECE-1"]
    cells = dict(zip(header, row, strict=True))
    metric_of_column = {
        "accuracy": "accuracy",
        "likelihood": "averaged_truelabel_likelihood",
        "ECE-1": "expected_calibration_error_1",
    }
    for column, metric in metric_of_column.items():
        score = result.divided["mini"][metric]
        interval = result.details["mini"].intervals[metric]
        assert cells[column].startswith(f"{score:.4f} ["), column
        expected = (score, interval.low, interval.high)
        half_of_third_digit = 5e-4
        assert numbers(cells[column]) == pytest.approx(expected, abs=half_of_third_digit), column


def test_the_table_of_normal_has_the_baselines_and_a_score_without_interval(result: Result) -> None:
    header, (row,) = result_rows(result)

    cells = dict(zip(header, row, strict=True))
    baselines = result.details["mini"].baselines["normal"]
    assert cells["data set"] == "mini"
    assert cells["random"] == f"{baselines.max_random:.4f}"
    assert cells["majority"] == f"{baselines.majority:.4f}"
    assert "macro_F1" not in result.details["mini"].intervals
    assert cells["macro F1"] == f"{result.divided['mini']['macro_F1']:.4f}"


def test_text_and_page_say_what_the_brackets_are(result: Result) -> None:
    assert "In brackets: 95 % intervals." in str(result)
    assert "In brackets: 95 % intervals." in result._repr_html_()


def test_the_records_of_scores_have_the_values_and_intervals_of_the_result(result: Result) -> None:
    records = {(record["dataset"], record["metric"]): record for record in score_records(result)}

    for metric, value in result.divided["mini"].items():
        record = records["mini", metric]
        assert record["value"] == value, metric
        assert records[None, metric]["value"] == result.averaged[metric], metric
        assert record["signature"] == str(result.signature), metric
        interval = result.details["mini"].intervals.get(metric)
        if interval is None:
            assert (record["low"], record["high"], record["level"]) == (None, None, None), metric
        else:
            assert (record["low"], record["high"], record["level"]) == (interval.low, interval.high, 0.95), metric


@pytest.mark.parametrize(
    ("name", "first_column"),
    [
        ("ContextualBias", "entropy"),
        ("PosteriorBias", "DL div."),
        ("GLER", "slope of accuracy"),
        ("DemonstrationSensitivity", "consistency"),
    ],
)
def test_the_other_tables_have_scores_within_their_intervals(name: str, first_column: str, make_model: Any) -> None:
    benchmark = getattr(StaICC, name)(datasets=["mini"])

    header, rows = result_rows(benchmark(make_model))

    assert header[:2] == ["data set", first_column]
    cells = dict(zip(header, rows[0], strict=True))
    for column, cell in cells.items():
        if column not in ("data set", "random", "majority"):
            value, low, high = numbers(cell)
            assert low - 1e-3 <= value <= high + 1e-3, column  # limits have three digits


@pytest.mark.parametrize("name", ["ContextualBias", "PosteriorBias", "GLER", "DemonstrationSensitivity"])
def test_a_text_begins_with_the_benchmark_and_ends_with_signature_and_warnings(name: str, make_model: Any) -> None:
    result = getattr(StaICC, name)(datasets=["mini"])(make_model)

    lines = str(result).split("\n")

    assert lines[0] == name
    end = [str(result.signature), *(f"WARNING: {warning}" for warning in result.warnings)]
    assert lines[-len(end) :] == end


def test_what_is_undefined_is_a_dash_with_its_reason() -> None:
    result = StaICC.Normal(datasets=["mini"], limit=3)(lambda prompt, label_space: 0)

    header, (row,) = result_rows(result)

    cells = dict(zip(header, row, strict=True))
    assert cells["likelihood"] == "-"
    assert cells["ECE-1"] == "-"
    assert re.match(r"0\.\d{4}", cells["macro F1"])
    assert "mini: likelihood, ECE-1 are undefined: the predictions are bare labels" in str(result)


def test_warnings_that_differ_in_a_number_only_are_one_line() -> None:
    """On the first data set, two of three predictions are ties, and on the second one of three."""
    rows = [(f"text {number}", number % 2) for number in range(60)]
    sizes = SplitSizes(calibration=0, demonstration=30, test=30)
    first = Dataset.from_rows(rows, name="first", label_space=["no", "yes"], split=sizes)
    second = Dataset.from_rows(rows, name="second", label_space=["bad", "good"], split=sizes)
    benchmark = StaICC.Normal(datasets=[first, second])
    tie, no_tie = [0.5, 0.5], [0.6, 0.4]
    predictions_of_first = [tie, tie, no_tie] * 20  # 30 test rows, in two repeats
    predictions_of_second = [tie, no_tie, no_tie] * 20

    result = benchmark(preentered_prediction=[predictions_of_first, predictions_of_second])

    (line,) = [line for line in str(result).splitlines() if "tie for the largest score" in line]
    assert line.startswith("WARNING: first (40 of 60), second (20 of 60): predictions have a tie")


def test_notes_have_the_words_of_the_columns() -> None:
    """Every score that a note is about has a column with that name; conditions and intervals are said in addition."""
    result = StaICC.GLER(datasets=["mini"], limit=3)(lambda prompt, label_space: 0)
    columns, _ = result_rows(result)

    undefined_scores = set()
    for names in re.findall(r"^mini: (.+?) (?:is|are) undefined", str(result), re.MULTILINE):
        for name in names.split(", "):
            name_of_score = name.removeprefix("interval of ")
            undefined_scores.add(re.sub(r" \(condition \d\)$", "", name_of_score))

    assert {"likelihood", "slope of likelihood", "slope of macro F1"} <= undefined_scores
    for score in undefined_scores:
        column = f"slope of {score.removeprefix('slope of ')}"
        assert column in columns


def test_titles_have_the_names_of_the_classes() -> None:
    parts = StaICC.TripletBias(datasets=["mini"], limit=3)(lambda prompt, label_space: 0)
    titles = [line for line in str(parts).splitlines() if line.endswith("Bias")]
    assert titles == ["ContextualBias", "DomainBias", "PosteriorBias"]
    assert [title for title in titles if not hasattr(StaICC, title)] == []


@pytest.mark.parametrize(
    ("dataset_count", "where"),
    [(1, "own 0"), (3, "own 0, own 1, own 2, the mean"), (4, "4 data sets, the mean")],
)
def test_remarks_name_the_data_sets_on_which_each_baseline_is_not_beaten(dataset_count: int, where: str) -> None:
    """Always the first label beats no baseline; from four data sets on, they are counted."""
    rows = [(f"text {row}", row % 2) for row in range(60)]
    datasets = [Dataset.from_rows(rows, name=f"own {n}", label_space=["no", "yes"]) for n in range(dataset_count)]

    result = StaICC.Normal(datasets=datasets, limit=6)(lambda prompt, label_space: 0)

    about_baselines = [text for text in remarks(result) if text.startswith("Not better than ")]
    assert len(about_baselines) == 3
    for text in about_baselines:
        assert text.endswith(f": {where}."), text


@pytest.fixture
def mini_and_own() -> list[Any]:
    """Data sets with the labels food, travel and weather, and with the labels no and yes."""
    rows = [(f"text {row}", row % 2) for row in range(60)]
    return ["mini", Dataset.from_rows(rows, name="own", label_space=["no", "yes"])]


def sometimes_without_label(prompt: str, label_space: list[str]) -> str:
    """Reply with the first label; on ``mini``, name no label in about a third of the prompts."""
    if label_space != ["no", "yes"] and len(prompt) % 3 == 0:
        return "?"
    return label_space[0]


def column_of(result: Result, name: str) -> list[str]:
    """Return the cells of a column of the table: of each data set, and of the mean."""
    header, rows = result_rows(result)
    return [row[header.index(name)] for row in rows]


QUERIES_OF_NINE_ROWS = 9 * 2
"""Each test row is in two repeats."""


def test_bounds_of_unparsed_replies_are_the_accuracies_if_all_were_wrong_or_right(mini_and_own: list[Any]) -> None:
    result = StaICC.Normal(datasets=mini_and_own, limit=9, unparsed="excluded")(sometimes_without_label)

    cells = column_of(result, "accuracy if unparsed wrong, right")

    correct_of_mini = [query for query in result.queries() if query.dataset == "mini" and query.correct]
    correct_of_own = [query for query in result.queries() if query.dataset == "own" and query.correct]
    unparsed = len(result.details["mini"].unparsed)
    assert unparsed > 0
    assert len(result.details["own"].unparsed) == 0
    mini_low = len(correct_of_mini) / QUERIES_OF_NINE_ROWS
    mini_high = (len(correct_of_mini) + unparsed) / QUERIES_OF_NINE_ROWS
    own_accuracy = len(correct_of_own) / QUERIES_OF_NINE_ROWS
    assert cells == [
        f"{mini_low:.4f}, {mini_high:.4f}",
        f"{own_accuracy:.4f}, {own_accuracy:.4f}",
        f"{(mini_low + own_accuracy) / 2:.4f}, {(mini_high + own_accuracy) / 2:.4f}",
    ]


@pytest.mark.parametrize("policy", ["wrong", "excluded"])
def test_the_share_of_unparsed_replies_is_that_of_all_queries(policy: Any, mini_and_own: list[Any]) -> None:
    """Also where they are excluded, and count in no score."""
    benchmark = StaICC.Normal(datasets=mini_and_own, limit=9, unparsed=policy)
    result = benchmark(sometimes_without_label)
    prompts_without_reply = [prompt for prompt in benchmark[0].prompt_set() if len(prompt) % 3 == 0]
    unparsed = len(prompts_without_reply)
    assert 0 < unparsed < QUERIES_OF_NINE_ROWS

    cells = column_of(result, "unparsed")

    of_mini = f"{unparsed} ({unparsed / QUERIES_OF_NINE_ROWS:.1%})"
    of_both = f"{unparsed} ({unparsed / (2 * QUERIES_OF_NINE_ROWS):.1%})"
    assert cells == [of_mini, "0 (0.0%)", of_both]


# -- flat records of results, runs taken apart, and citations


PREDICTIONS: dict[str, Callable[[int], Any]] = {
    "logits": lambda number: [number - 5, -0.1, 2.0],
    "probabilities": lambda number: [0.5, number / 16, 0.5 - number / 16],
    "labels": lambda number: number % 3,
    "ambiguous": lambda number: [number, 2, 1],
}
"""Predictions of each kind, which depend on a number from 0 to 6."""


@pytest.fixture(params=[(name, kind) for name in ("Normal", "GLER", "DomainBias") for kind in PREDICTIONS], ids=str)
def run_of_kind(request: pytest.FixtureRequest) -> tuple[str, Result]:
    """The kind of the predictions of a run, and the run with its outputs; one prompt of seven fails."""
    name, kind = request.param

    def predict(prompt: str, label_space: list[str]) -> Any:
        number = len(prompt) % 7
        if number == 3:
            raise ValueError("no prediction")
        return PREDICTIONS[kind](number)

    benchmark = getattr(StaICC, name)(datasets=["mini"], limit=6)
    return kind, benchmark(predict, on_error="collect", return_outputs=True)


def test_queries_have_the_numbers_of_the_outputs(run_of_kind: tuple[str, Result]) -> None:
    kind, result = run_of_kind
    assert result.outputs is not None

    for query, output in zip(result.queries(), result.outputs["mini"], strict=True):
        for key in ("condition", "query", "row", "repeat", "ground_truth", "prediction"):
            assert getattr(query, key) == output[key], key
        if kind == "labels" or query.prediction is None:
            assert query.scores is None
            assert query.probabilities is None
        else:
            assert query.scores is not None
            assert list(query.scores) == output["predicted_probabilities"]
            probabilities = None if query.probabilities is None else list(query.probabilities)
            assert probabilities == output["normalised_probabilities"]


def test_only_logits_and_probabilities_give_queries_probabilities(run_of_kind: tuple[str, Result]) -> None:
    kind, result = run_of_kind

    have_probabilities = any(query.probabilities for query in result.queries())

    assert have_probabilities is (kind in ("logits", "probabilities"))


def test_a_failed_query_has_its_reason(run_of_kind: tuple[str, Result]) -> None:
    _, result = run_of_kind

    failed = [query for query in result.queries() if query.prediction is None]

    assert len(failed) == result.details["mini"].failed > 0
    for query in result.queries():
        reason = query.reason or ""
        if query.prediction is None:
            assert "no prediction" in reason
        else:
            assert "no prediction" not in reason


def test_the_queries_of_a_saved_result_are_those_of_the_run(run_of_kind: tuple[str, Result], tmp_path: Path) -> None:
    _, result = run_of_kind
    result.save(tmp_path / "result.json")

    loaded = StaICC.load(tmp_path / "result.json")

    assert isinstance(loaded, Result)
    assert loaded.queries() == result.queries()
    records = loaded.details["mini"].conditions
    assert {query.condition for query in loaded.queries()} == {record.name for record in records}
    saved_predictions = [label for record in records for label in record.predictions]
    assert [query.prediction for query in loaded.queries()] == saved_predictions


def reply_with_reason(prompt: str, label_space: list[str]) -> Text:
    """Reply without a label, with one in a reply that was cut at its longest length, or with one in a whole reply."""
    remainder = len(prompt) % 3
    if remainder == 0:
        return Text("I cannot say", finish_reason="stop")
    if remainder == 1:
        return Text(f"It is {label_space[1]}.", finish_reason="length")
    return Text(f"It is {label_space[2]}.", finish_reason="stop")


@pytest.fixture
def replying_benchmark() -> StaICC.Normal:
    return StaICC.Normal(datasets=["mini"], limit=8, unparsed="wrong")


def test_replies_are_kept_with_how_they_ended(replying_benchmark: StaICC.Normal) -> None:
    label_space = replying_benchmark[0].get_label_space()

    result = replying_benchmark(reply_with_reason, return_outputs=True)

    for query, prompt in zip(result.queries(), replying_benchmark[0].prompt_set(), strict=True):
        reply = reply_with_reason(prompt, label_space)
        assert query.reply == str(reply)
        assert query.finish_reason == reply.finish_reason


def test_a_reply_without_a_label_is_the_reason_of_its_missing_prediction(replying_benchmark: StaICC.Normal) -> None:
    result = replying_benchmark(reply_with_reason, return_outputs=True)

    for query in result.queries():
        has_no_label = query.reply == "I cannot say"
        assert (query.prediction is None) is has_no_label
        assert ("I cannot say" in str(query.reason)) is has_no_label


def test_replies_are_in_the_file_of_queries(replying_benchmark: StaICC.Normal, tmp_path: Path) -> None:
    result = replying_benchmark(reply_with_reason, return_outputs=True)

    save_records(result, tmp_path / "queries.jsonl")

    lines = [json.loads(line) for line in (tmp_path / "queries.jsonl").read_text("utf-8").splitlines()]
    assert [line["response"] for line in lines] == [query.reply for query in result.queries()]


def test_a_saved_result_has_no_replies(replying_benchmark: StaICC.Normal, tmp_path: Path) -> None:
    """A file has the labels and the reasons, as has a run that returns no outputs."""
    result = replying_benchmark(reply_with_reason, return_outputs=True)
    result.save(tmp_path / "result.json")

    without_replies = [dataclasses.replace(query, reply=None, finish_reason=None) for query in result.queries()]
    assert StaICC.load(tmp_path / "result.json").queries() == without_replies
    assert replying_benchmark(reply_with_reason).queries() == without_replies


# -- runs


def test_a_suite_is_one_run_and_methods_are_a_run_each(result: Result, group: ResultGroup) -> None:
    methods = ResultGroup("methods", {"vanilla": group, "topk": group})

    runs = split_runs({"a": group, "gpt2": methods, "other": result})

    assert list(runs) == ["a", "gpt2: vanilla", "gpt2: topk", "other"]
    assert list(runs["a"]) == list(group)


def test_two_results_under_one_name_of_a_run_are_refused(result: Result) -> None:
    """The method b of a has the name "a: b", which is that of the other file."""
    methods = ResultGroup("methods", {"b": result, "c": result})

    with pytest.raises(ArgumentError, match="a: b holds two results of Normal"):
        split_runs({"a: b": result, "a": methods})


# -- citations


@pytest.mark.parametrize("method", METHODS)
def test_every_method_is_cited(method: str) -> None:
    assert find_work(method).kind == "method"
    assert find_work(method.upper().replace(" ", "_")) == find_work(method)


def records_by_score(result: Result) -> dict[tuple[Any, Any], Any]:
    """Return the records of the scores of a result, by data set (``None`` for the mean) and metric."""
    return {(record["dataset"], record["metric"]): record for record in score_records(result)}


def test_the_record_of_a_condition_has_its_own_queries_and_baseline(partial: Result) -> None:
    details = partial.details["mini"]
    assert details.scored < details.asked, "some queries have no prediction"

    records = records_by_score(partial)

    for condition in details.conditions:
        record = records["mini", f"{condition.name}.accuracy"]
        assert record["n"] == len(condition.truth) - condition.predictions.count(None), condition.name
        assert record["majority"] == details.baselines[condition.name].majority, condition.name


def test_the_record_of_a_slope_has_all_queries_and_no_baseline(partial: Result) -> None:
    slope = records_by_score(partial)[None, "accuracy"]

    assert slope["n"] == partial.details["mini"].scored
    assert slope["random"] is None
    assert slope["majority"] is None


@pytest.mark.parametrize("policy", ["wrong", "excluded"])
def test_a_score_of_a_condition_leaves_out_its_replies_without_a_label_only_if_they_are_excluded(policy: Any) -> None:
    benchmark = StaICC.GLER(datasets=["mini"], limit=6, unparsed=policy)

    records = records_by_score(benchmark(sometimes_without_label))

    for condition in benchmark[0].conditions():
        query_count = len(condition.queries)
        without_label = sum(len(str(query.prompt)) % 3 == 0 for query in condition.queries)
        assert 0 < without_label < query_count
        left_out = without_label if policy == "excluded" else 0
        record = records["mini", f"{condition.name}.accuracy"]
        assert record["n"] == query_count - left_out, condition.name
        assert record["left_out"] == left_out, condition.name


def mostly_a_label(prompt: str, label_space: list[str]) -> str:
    """Reply with one of two labels, but without a label in about a third of the prompts, by their letters."""
    if prompt.count("e") % 3 == 0:
        return "nothing"
    return label_space[prompt.count("a") % 2]


def dataset_with_many_letters() -> Dataset:
    """Return a data set with 20 labels, whose texts have different numbers of a and e."""
    rows = []
    for number in range(400):
        letters_a = "a" * (number % 7)
        letters_e = "e" * (number % 5)
        rows.append((f"{letters_a} text {letters_e} {number}", number % 20))
    labels = [f"kind {number}" for number in range(20)]
    return Dataset.from_rows(rows, name="own", label_space=labels)


def run_with_unparsed_replies(benchmark: str, policy: Any) -> Result:
    """Return a run of a benchmark in which about a third of the replies name no label."""
    if benchmark == "LongICL":
        own = dataset_with_many_letters()
        return StaICC.LongICL(datasets=[own], rounds=(1,), limit=60, unparsed=policy)(mostly_a_label)
    return getattr(StaICC, benchmark)(datasets=["mini"], limit=9, unparsed=policy)(mostly_a_label)


@pytest.mark.parametrize(("policy", "correct"), [("wrong", False), ("excluded", None)])
@pytest.mark.parametrize("benchmark", ["Normal", "Generalisation", "LongICL"])
def test_a_reply_without_a_label_is_wrong_or_not_counted_by_the_policy(
    benchmark: str, policy: Any, correct: bool | None
) -> None:
    result = run_with_unparsed_replies(benchmark, policy)

    unparsed = [query for query in result.queries() if "nothing" in (query.reason or "")]
    assert unparsed
    for query in unparsed:
        assert query.prediction is None
        assert query.correct is correct


@pytest.mark.parametrize("policy", ["wrong", "excluded"])
@pytest.mark.parametrize(
    ("benchmark", "accuracy"), [("Normal", "accuracy"), ("Generalisation", "accuracy"), ("LongICL", "1R")]
)
def test_the_mean_of_correct_is_the_accuracy_also_with_replies_without_a_label(
    benchmark: str, accuracy: str, policy: Any
) -> None:
    """The accuracy of the first round of LongICL is called 1R."""
    result = run_with_unparsed_replies(benchmark, policy)

    counted = [query.correct for query in result.queries() if query.correct is not None]

    assert sum(counted) / len(counted) == pytest.approx(result.averaged[accuracy])
    counts = {record["n"] for record in score_records(result) if record["metric"] == accuracy}
    assert counts == {len(counted)}


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


@pytest.fixture(scope="module")
def saved_stopped_run() -> Any:
    """The JSON values of a run that stopped early."""
    result = StaICC.Normal(datasets=["mini"])(lambda prompt, label_space: 0, precision=0.3)
    return json.loads(json.dumps(result.to_dict()))


@pytest.mark.parametrize("changes", [{}, {"rule": "race"}, {"rounds": 1}, {"rounds": 120, "all_rounds": 120}], ids=str)
def test_a_decision_to_stop_that_a_run_can_have_made_is_read(saved_stopped_run: Any, changes: dict[str, Any]) -> None:
    values = copy.deepcopy(saved_stopped_run)
    values["stopping"].update(changes)

    assert result_from_dict(values, "saved").to_dict()["stopping"] == values["stopping"]


@pytest.mark.parametrize(
    "changes", [{"rule": "patience"}, {"rounds": 0}, {"rounds": -1}, {"rounds": 121, "all_rounds": 120}], ids=str
)
def test_a_decision_to_stop_that_no_run_can_have_made_is_refused(
    saved_stopped_run: Any, changes: dict[str, Any]
) -> None:
    values = copy.deepcopy(saved_stopped_run)
    values["stopping"].update(changes)

    with pytest.raises(SchemaError, match="expected 'precision' or 'race' and at least 1 round"):
        result_from_dict(values, "saved")


@pytest.mark.parametrize("number", [math.nan, math.inf])
def test_packed_label_scores_that_are_neither_finite_nor_minus_infinity_are_refused(number: float) -> None:
    with pytest.raises(SchemaError, match="label scores must be finite numbers or minus infinity"):
        unpack_scores(pack_scores([[0.5, number]]), 2)


def test_packed_label_scores_may_be_minus_infinity() -> None:
    assert unpack_scores(pack_scores([[0.5, -math.inf]]), 2) == [[0.5, -math.inf]]
