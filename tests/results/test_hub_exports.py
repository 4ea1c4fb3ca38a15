"""Exports for the model hub: parsed by the hub's own library, with ids of the hub, without digests in names."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import StaICC
from StaICC.benchmarks.exchange import identified_queries, score_predictions
from StaICC.cli import main
from StaICC.datasets.catalogue import catalogue, names
from StaICC.datasets.dataset import Dataset
from StaICC.errors import ArgumentError
from StaICC.results.eval_results import eval_results, eval_results_yaml
from StaICC.results.hub_datasets import hub_dataset
from StaICC.results.model_card import model_index
from StaICC.results.result import Result

yaml = pytest.importorskip("yaml")
hub = pytest.importorskip("huggingface_hub")
repocard = pytest.importorskip("huggingface_hub.repocard_data")


def as_if_on(dataset: str, result: Result) -> Result:
    """Return a result of ``mini`` under the name of another data set.

    The exports have entries only for data sets that are on the hub, and ``mini`` is not.
    """
    text = json.dumps(result.to_dict()).replace('"mini"', json.dumps(dataset))
    return Result.from_dict(json.loads(text))


def first_label(prompt: str, label_space: list[str]) -> int:
    return 0


@pytest.fixture(scope="module")
def of_trec() -> Result:
    result = StaICC.Normal(datasets=["mini"], limit=10)(first_label, model_name="org/model: 'a' # b")
    return as_if_on("TREC", result)


def test_all_ten_data_sets_have_an_id_of_the_hub() -> None:
    assert set(catalogue().hub) == set(names())
    for on_hub in catalogue().hub.values():
        owner, _, repository = on_hub.repository.partition("/")
        assert owner
        assert repository
        assert on_hub.splits


def test_the_library_of_the_hub_parses_the_evaluation_results(of_trec: Result) -> None:
    exported = eval_results([of_trec], source_url="https://example.org/report.html")
    read = yaml.safe_load("".join(eval_results_yaml(exported.entries)))

    (entry,) = hub.parse_eval_result_entries(read)

    assert (entry.dataset_id, entry.task_id) == ("CogComp/trec", "default")
    assert entry.value == of_trec.divided["TREC"]["accuracy"]
    assert entry.date == of_trec.provenance.predictors[0].finished
    assert entry.source_url == "https://example.org/report.html"
    assert entry.notes == exported.entries[0]["notes"]
    assert hub.eval_result_entries_to_yaml([entry]) == read, "nothing is lost on the way"


def test_the_notes_of_an_evaluation_result_have_its_interval_and_split(of_trec: Result) -> None:
    (entry,) = eval_results([of_trec]).entries

    interval = of_trec.details["TREC"].intervals["accuracy"]
    assert f"95 % interval {interval.low:.4f} to {interval.high:.4f}" in entry["notes"]
    assert "split train+test" in entry["notes"]
    assert "PARTIAL" not in entry["notes"]


def test_the_library_of_the_hub_parses_the_model_index(of_trec: Result) -> None:
    (model,) = model_index([of_trec])

    name, evaluations = repocard.model_index_to_eval_results([model])

    assert name == model["name"] == "org/model: 'a' # b"
    (accuracy,) = [item for item in evaluations if item.metric_type == "accuracy" and item.dataset_name == "TREC"]
    assert accuracy.dataset_type == "CogComp/trec"
    assert accuracy.dataset_split == "train+test"
    assert accuracy.dataset_args["identity"] == of_trec.model


def test_the_library_of_the_hub_keeps_all_scores_of_the_model_index(of_trec: Result) -> None:
    (model,) = model_index([of_trec])

    name, evaluations = repocard.model_index_to_eval_results([model])
    (rewritten,) = repocard.eval_results_to_model_index(name, evaluations)

    assert scores_in(rewritten) == scores_in(model)


def scores_in(model: Any) -> list[float]:
    """Return the sorted scores of all evaluations of a model in a model index."""
    return sorted(metric["value"] for evaluation in model["results"] for metric in evaluation["metrics"])


def test_two_models_of_one_name_have_an_entry_each() -> None:
    benchmark = StaICC.Normal(datasets=["mini"], limit=4)
    first = benchmark(first_label, model_name="m")
    second = benchmark(lambda prompt, label_space: 1, model_name="m")

    entries = model_index([first, second])

    assert [entry["name"] for entry in entries] == ["m", "m"]


def test_partial_runs_are_marked() -> None:
    """Ten rows are in twenty queries (two repeats); no prediction is given for three of these."""
    benchmark = StaICC.Normal(datasets=["mini"], limit=10)
    _, _, _, *predicted = identified_queries(benchmark)
    predictions = {query.id: {"index": 0} for query in predicted}
    result = score_predictions(benchmark, predictions, partial=True, model_name="m")
    assert isinstance(result, Result)

    (entry,) = eval_results([as_if_on("TREC", result)]).entries

    assert entry["notes"].startswith("PARTIAL: 3 of 20 queries are left out")


def test_runs_that_stopped_early_are_marked() -> None:
    result = StaICC.Normal(datasets=["mini"])(first_label, precision=0.3)

    (entry,) = eval_results([as_if_on("TREC", result)]).entries

    assert "STOPPED EARLY" in entry["notes"]


def test_a_data_set_of_the_user_is_not_taken_for_one_of_the_hub() -> None:
    rows = [(f"text {row}", row % 2) for row in range(60)]
    own = Dataset.from_rows(rows, name="glue", label_space=["no", "yes"])
    result = StaICC.Normal(datasets=[own], limit=4)(first_label)
    assert hub_dataset(result, "glue") is None
    with pytest.raises(ArgumentError, match="glue: not a data set of the hub"):
        eval_results([result])


def test_a_task_of_another_harness_is_not_taken_for_a_data_set_of_this_library(of_trec: Result) -> None:
    """A result of this library has the field ``sampler`` in its signature; one that is read from a log has not."""
    saved = of_trec.to_dict()
    saved["signature"] = {key: value for key, value in of_trec.signature.fields.items() if key != "sampler"}
    of_a_log = Result.from_dict(saved)

    assert hub_dataset(of_trec, "TREC") is not None
    assert hub_dataset(of_a_log, "TREC") is None


def test_results_of_two_models_are_refused(of_trec: Result) -> None:
    """The file belongs to the repository of one model."""
    other_model = as_if_on("SST5", StaICC.Normal(datasets=["mini"], limit=4)(first_label, model_name="other"))

    with pytest.raises(ArgumentError, match="results of 2 models"):
        eval_results([of_trec, other_model])


def test_two_results_on_one_data_set_are_refused(of_trec: Result) -> None:
    with pytest.raises(ArgumentError, match="two results of CogComp/trec / default"):
        eval_results([of_trec, of_trec])


def test_the_command_writes_a_file_for_the_repository_of_the_model(
    of_trec: Result, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    suite: Any = StaICC.Suite(datasets=["mini"], limit=4)(first_label, model_name="org/model: 'a' # b")
    parts = {name: as_if_on("TREC", part) for name, part in suite.items()}
    StaICC.ResultGroup("Suite", parts).save(tmp_path / "suite.json")
    path = tmp_path / "staicc.yaml"
    assert main(["export", "eval-results", str(tmp_path / "suite.json"), "-o", str(path)]) == 0
    (entry,) = hub.parse_eval_result_entries(yaml.safe_load(path.read_text("utf-8")))
    assert entry.value == parts["Normal"].divided["TREC"]["accuracy"]
    assert "left out: GLER: the format has no name for its scores" in capsys.readouterr().err
