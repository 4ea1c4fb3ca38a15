"""Generated replies without a label: an error, wrong, or excluded with bounds."""

from __future__ import annotations

import json
import math
import zlib
from pathlib import Path
from typing import Any

import pytest

from StaICC import Diagnosis, Normal
from StaICC.benchmarks.findings import Contradicted, Recomputed, status_of
from StaICC.benchmarks.verify import verify
from StaICC.comparing.comparison import compare
from StaICC.datasets.dataset import Dataset
from StaICC.errors import OutputError
from StaICC.inference.identity import Identity
from StaICC.kernels.text_inference import text_inference
from StaICC.metrics.classification import softmax
from StaICC.results.result import Result
from StaICC.results.signature import Signature

LABELS = ["food", "travel", "weather"]


def place(prompt: str) -> int:
    return zlib.crc32(prompt.encode())


class Writer:
    """Generates a label for most prompts, and something else for every fifth."""

    def __init__(self) -> None:
        self.asked = 0

    def generate(self, prompts: list[str], max_new_tokens: int = 32, stop: Any = ()) -> list[str]:
        self.asked += len(prompts)
        return [
            "I cannot tell."
            if place(prompt) % 5 == 0
            else f"<think>Hm.</think>The answer is **{LABELS[place(prompt) % 3]}**."
            for prompt in prompts
        ]

    def identity(self) -> Any:
        return Identity({"kernel": "writer"}, {})


def counts(benchmark: Normal) -> tuple[int, int, int]:
    queries = benchmark[0].all_queries()
    lost = [query for query in queries if place(query.prompt) % 5 == 0]
    right = sum(place(query.prompt) % 3 == query.label for query in queries if query not in lost)
    return len(queries), len(lost), right


@pytest.mark.parametrize("policy", ["wrong", "excluded"])
def test_scores_counts_bounds_and_examples(policy: Any) -> None:
    benchmark = Normal(datasets=["mini"], limit=40, unparsed=policy)
    result = benchmark(text_inference(Writer()), return_outputs=True)
    total, lost, right = counts(benchmark)
    details = result.details["mini"]
    assert lost == len(details.unparsed) > 5
    assert result["Averaged results"]["accuracy"] == right / (total - lost * (policy == "excluded"))
    assert details.bounds.get("accuracy") == (None if policy == "wrong" else (right / total, (right + lost) / total))
    assert result.complete
    assert details.failed == 0
    assert f"{lost} ({lost / total:.1%})" in str(result)
    assert "such as (no label): 'I cannot tell.'" in str(result)
    assert f"unparsed:{policy}" in str(result.signature)
    assert ";parser=5" in str(result.signature)
    assert [record["prediction"] for record in result.outputs["mini"]].count(None) == lost
    again = Result.from_dict(json.loads(json.dumps(result.to_dict())))
    assert again == result
    for given in (benchmark, None):
        assert [finding for finding in verify(again, given) if finding.status != Recomputed()] == []
    plain = result.to_dict()
    plain["details"]["mini"]["unparsed"].pop()
    findings = verify(Result.from_dict(plain))
    assert any(finding.status != Recomputed() for finding in findings), f"got {findings}"


@pytest.mark.parametrize("end", [0, 1])
@pytest.mark.parametrize("metric", ["accuracy", "macro_F1"])
def test_a_changed_bound_of_excluded_replies_is_contradicted(metric: str, end: int) -> None:
    """A file cannot say that its score hardly depends on the replies that it leaves out."""
    result = Normal(datasets=["mini"], limit=40, unparsed="excluded")(text_inference(Writer()))
    plain = json.loads(json.dumps(result.to_dict()))
    score = result.averaged[metric]
    assert plain["details"]["mini"]["bounds"][metric][end] != pytest.approx(score)
    plain["details"]["mini"]["bounds"][metric][end] = score
    status = status_of(verify(Result.from_dict(plain)))
    assert isinstance(status, Contradicted)
    assert status.difference.startswith(f"details / mini / bounds / {metric} / {end}: saved {score!r:.80}, recomputed")


@pytest.mark.parametrize("policy", ["wrong", "excluded"])
def test_probabilities_next_to_unparsed_replies_are_verified_and_compared(policy: Any) -> None:
    def model(shift: int) -> Any:
        def scores(prompt: str, label_space: list[str]) -> Any:
            rows = [[0.5, 0.3, 0.2], [0.1, 0.1, 0.8], [0.25, 0.5, 0.25]]
            return "I cannot tell." if place(prompt) % 5 == 0 else rows[(place(prompt) + shift) % 3]

        return scores

    benchmark = Normal(datasets=["mini"], limit=40, unparsed=policy)
    runs = [Result.from_dict(json.loads(json.dumps(benchmark(model(shift)).to_dict()))) for shift in (0, 1)]
    for given in (benchmark, None):
        assert {status_of(verify(run, given)) for run in runs} == {Recomputed()}
    for metric, value in runs[0]["Averaged results"].items():
        found = compare(*runs, metric)
        assert found.overall.values == pytest.approx((value, runs[1]["Averaged results"][metric]), abs=1e-12)
        assert found.overall.queries == (80, 80)
        excluded = len(runs[0].details["mini"].unparsed) if policy == "excluded" else 0
        assert found.overall.missing == (excluded, excluded)


def test_by_default_the_first_one_ends_the_run_and_its_reply_is_kept(tmp_path: Path) -> None:
    writer, path = Writer(), str(tmp_path / "s.sqlite")
    with pytest.raises(
        OutputError, match=r"^Normal, mini, query \d+: unparsed reply \(no label\): 'I cannot tell.'; expe"
    ):
        Normal(datasets=["mini"], limit=40)(text_inference(writer), store=path)
    asked = writer.asked
    first = Normal(datasets=["mini"], limit=40, unparsed="excluded")(text_inference(writer), store=path, recheck=False)
    assert writer.asked == asked == first.details["mini"].distinct
    partial = Normal(datasets=["mini"], limit=40)(text_inference(writer), store=path, recheck=False, on_error="collect")
    assert writer.asked == asked
    assert not partial.complete
    assert partial.details["mini"].failed == len(first.details["mini"].unparsed)
    assert partial.divided["mini"]["accuracy"] == first.divided["mini"]["accuracy"]


def test_diagnostics_leave_them_out_where_nothing_is_wrong_or_right() -> None:
    result = Diagnosis(datasets=["mini"], limit=20, unparsed="wrong")(text_inference(Writer()))
    assert result.complete
    assert "count as wrong" in str(result["GLER"])
    for part in ("Contextual_bias", "Post_bias", "Template_sens"):
        assert "are excluded" in str(result[part])
        assert [finding for finding in verify(result[part]) if finding.status != Recomputed()] == []


@pytest.mark.parametrize("logits", [False, True], ids=["probabilities", "logits"])
@pytest.mark.parametrize("lost", [1, 30])
def test_among_rows_of_numbers(logits: bool, lost: int) -> None:
    """What the numbers are is read from them alone; an assumed prediction has probability 1."""

    def rows(prompt: str, label_space: Any) -> Any:
        found = [1 + place(prompt + label) % 50 for label in label_space]
        return [math.log(value / 51) for value in found] if logits else [value / sum(found) for value in found]

    benchmark = Normal(datasets=["mini"])
    queries = benchmark[0].all_queries()
    unparsed = {query.prompt for query in queries[:lost]}
    right = [softmax(rows(q.prompt, LABELS))[q.label] if logits else rows(q.prompt, LABELS)[q.label] for q in queries]

    def mixed(prompt: str, label_space: Any) -> Any:
        return "?" if prompt in unparsed else rows(prompt, label_space)

    total = sum(right[lost:])
    found = {}
    for policy, expected in (("wrong", total / 192), ("excluded", total / (192 - lost))):
        result = found[policy] = Normal(datasets=["mini"], unparsed=policy)(mixed)  # type: ignore[typeddict-item]
        assert result.divided["mini"]["averaged_truelabel_likelihood"] == pytest.approx(expected)
        again = Result.from_dict(json.loads(json.dumps(result.to_dict())))
        assert [finding for finding in verify(again) if finding.status != Recomputed()] == []
    low, high = found["excluded"].details["mini"].bounds["averaged_truelabel_likelihood"]
    assert (low, high) == pytest.approx((total / 192, (total + lost) / 192))
    for metric in ("accuracy", "averaged_truelabel_likelihood", "expected_calibration_error_1"):
        (row,) = compare(found["wrong"], found["wrong"], metric).datasets
        assert row.values[0] == pytest.approx(found["wrong"].divided["mini"][metric])


def test_all_replies_unparsed() -> None:
    for policy, accuracy in (("wrong", 0.0), ("excluded", None)):
        benchmark = Normal(datasets=["mini"], limit=8, unparsed=policy)  # type: ignore[typeddict-item]
        result = benchmark(lambda prompt, label_space: "?")
        assert result.divided["mini"]["accuracy"] == accuracy
        assert len(result.details["mini"].unparsed) == 16


def test_how_they_count_is_read_from_the_arguments() -> None:
    result = Normal(datasets=["mini"], limit=20, unparsed="wrong")(text_inference(Writer()))
    wrong = result.counted_wrong("mini")
    assert wrong
    result.signature = Signature({**result.signature.fields, "unparsed": None})
    assert result.counted_wrong("mini") == wrong
    result.arguments = {**result.arguments, "changed": ["unparsed"]}  # not the same for all data sets
    assert not result.counted_wrong("mini")


def test_remarks_are_about_predictions_of_the_model_not_about_those_assumed_for_replies() -> None:
    """Of two labels, a wrong one in the place of 70 % of the replies looks as if the labels were exchanged."""
    rows = [(f"text {row}", row % 2) for row in range(700)]
    data = Dataset.from_rows(rows, name="own", label_space=["no", "yes"])
    remarks = {}
    for policy in ("wrong", "excluded"):
        benchmark = Normal(datasets=[data], limit=150, unparsed=policy)  # type: ignore[typeddict-item]
        labels = {str(query.prompt): query.label for query in benchmark[0].all_queries()}

        def model(prompt: str, label_space: list[str], labels: dict[str, int] = labels) -> str:
            if place(prompt) % 10 < 7:
                return "I cannot tell."
            wrong = place(prompt) % 11 == 0
            return label_space[1 - labels[prompt] if wrong else labels[prompt]]

        result = benchmark(model)
        assert status_of(verify(result, benchmark)) == Recomputed()
        remarks[policy] = [note for note in result.details["own"].notes if "unparsed" not in note]
        assert result.averaged["accuracy"] < 0.4 if policy == "wrong" else result.averaged["accuracy"] > 0.8
    assert remarks["wrong"] == remarks["excluded"]
    assert [note for note in remarks["wrong"] if "exchanged" in note or "below" in note] == []
