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


def number_of(text: str) -> int:
    """Return a number of a text, the same in every run: it decides what the models of these tests predict."""
    return zlib.crc32(text.encode())


class Writer:
    """A model that generates a label for most prompts, and no label for every fifth."""

    def __init__(self) -> None:
        self.prompts = 0

    def generate(self, prompts: list[str], max_new_tokens: int = 32, stop: Any = ()) -> list[str]:
        self.prompts += len(prompts)
        return [self.reply(prompt) for prompt in prompts]

    def reply(self, prompt: str) -> str:
        if number_of(prompt) % 5 == 0:
            return "I cannot tell."
        return f"<think>Hm.</think>The answer is **{LABELS[number_of(prompt) % 3]}**."

    def identity(self) -> Any:
        return Identity({"kernel": "writer"}, {})


QUERY_COUNT = 80
REPLIES_WITHOUT_LABEL = 13
RIGHT_REPLIES = 23
"""Of the run of the writer: queries, replies without a label, and right ones of the others."""


def result_of_writer(policy: Any) -> Result:
    """Run the writer on 40 test rows, which are 80 queries."""
    return Normal(datasets=["mini"], limit=40, unparsed=policy)(text_inference(Writer()), return_outputs=True)


def saved_and_loaded(result: Result) -> Result:
    """Return a result after JSON."""
    return Result.from_dict(json.loads(json.dumps(result.to_dict())))


def test_unparsed_replies_count_as_wrong() -> None:
    result = result_of_writer("wrong")

    assert result.averaged["accuracy"] == RIGHT_REPLIES / QUERY_COUNT
    assert "accuracy" not in result.details["mini"].bounds


def test_excluded_replies_leave_bounds_of_the_score() -> None:
    """The score is over the replies with a label; the bounds count the others all as wrong, or all as right."""
    result = result_of_writer("excluded")

    assert result.averaged["accuracy"] == RIGHT_REPLIES / (QUERY_COUNT - REPLIES_WITHOUT_LABEL)
    lower, upper = result.details["mini"].bounds["accuracy"]
    assert lower == RIGHT_REPLIES / QUERY_COUNT
    assert upper == (RIGHT_REPLIES + REPLIES_WITHOUT_LABEL) / QUERY_COUNT


@pytest.mark.parametrize("policy", ["wrong", "excluded"])
def test_unparsed_replies_are_no_failures(policy: str) -> None:
    result = result_of_writer(policy)

    assert result.complete
    assert result.details["mini"].failed == 0
    assert len(result.details["mini"].unparsed) == REPLIES_WITHOUT_LABEL


@pytest.mark.parametrize("policy", ["wrong", "excluded"])
def test_a_result_shows_how_many_replies_are_unparsed_with_an_example(policy: str) -> None:
    result = result_of_writer(policy)

    assert "13 (16.2%)" in str(result)  # of 80
    assert "such as (no label): 'I cannot tell.'" in str(result)
    assert f"unparsed:{policy}" in str(result.signature)
    assert ";parser=6" in str(result.signature)


@pytest.mark.parametrize("policy", ["wrong", "excluded"])
def test_unparsed_replies_have_no_prediction_in_the_outputs(policy: str) -> None:
    outputs = result_of_writer(policy).outputs

    assert outputs is not None
    assert [record["prediction"] for record in outputs["mini"]].count(None) == REPLIES_WITHOUT_LABEL


def statuses(result: Result, benchmark: Normal | None = None) -> set[Any]:
    """Return the different statuses of the fields of a result, verified with its benchmark or without."""
    return {finding.status for finding in verify(result, benchmark)}


@pytest.mark.parametrize("policy", ["wrong", "excluded"])
def test_a_result_with_unparsed_replies_is_recomputed(policy: Any) -> None:
    result = result_of_writer(policy)
    loaded = saved_and_loaded(result)

    assert loaded == result
    assert statuses(loaded) == {Recomputed()}
    assert statuses(loaded, Normal(datasets=["mini"], limit=40, unparsed=policy)) == {Recomputed()}


@pytest.mark.parametrize("policy", ["wrong", "excluded"])
def test_a_result_without_one_of_its_unparsed_replies_is_not_recomputed(policy: str) -> None:
    saved = result_of_writer(policy).to_dict()
    saved["details"]["mini"]["unparsed"].pop()

    assert statuses(Result.from_dict(saved)) != {Recomputed()}


@pytest.mark.parametrize("end", [0, 1], ids=["lower", "upper"])
@pytest.mark.parametrize("metric", ["accuracy", "macro_F1"])
def test_a_changed_bound_of_excluded_replies_is_contradicted(metric: str, end: int) -> None:
    """A file cannot say that its score hardly depends on the replies that it leaves out."""
    result = result_of_writer("excluded")
    score = result.averaged[metric]
    saved = json.loads(json.dumps(result.to_dict()))
    saved["details"]["mini"]["bounds"][metric][end] = score

    status = status_of(verify(Result.from_dict(saved)))

    assert isinstance(status, Contradicted)
    assert status.difference.startswith(f"details / mini / bounds / {metric} / {end}: saved {score!r:.80}, recomputed")


ROWS_OF_PROBABILITIES = [[0.5, 0.3, 0.2], [0.1, 0.1, 0.8], [0.25, 0.5, 0.25]]


def probabilities_or_text(prompt: str, label_space: list[str]) -> list[float] | str:
    """Predict one of three rows of probabilities; for every fifth prompt, a reply without a label."""
    if number_of(prompt) % 5 == 0:
        return "I cannot tell."
    return ROWS_OF_PROBABILITIES[number_of(prompt) % 3]


def other_probabilities_or_text(prompt: str, label_space: list[str]) -> list[float] | str:
    """Predict another one of the three rows, and no label for the same prompts."""
    if number_of(prompt) % 5 == 0:
        return "I cannot tell."
    return ROWS_OF_PROBABILITIES[(number_of(prompt) + 1) % 3]


@pytest.mark.parametrize("policy", ["wrong", "excluded"])
def test_probabilities_next_to_unparsed_replies_are_verified(policy: Any) -> None:
    benchmark = Normal(datasets=["mini"], limit=40, unparsed=policy)
    loaded = saved_and_loaded(benchmark(probabilities_or_text))

    assert statuses(loaded) == {Recomputed()}
    assert statuses(loaded, benchmark) == {Recomputed()}


@pytest.mark.parametrize(("policy", "left_out"), [("wrong", 0), ("excluded", 13)])
@pytest.mark.parametrize(
    "metric", ["accuracy", "macro_F1", "averaged_truelabel_likelihood", "expected_calibration_error_1"]
)
def test_probabilities_next_to_unparsed_replies_are_compared(policy: Any, left_out: int, metric: str) -> None:
    benchmark = Normal(datasets=["mini"], limit=40, unparsed=policy)
    first = saved_and_loaded(benchmark(probabilities_or_text))
    second = saved_and_loaded(benchmark(other_probabilities_or_text))

    overall = compare(first, second, metric).overall

    assert overall.values == pytest.approx((first.averaged[metric], second.averaged[metric]), abs=1e-12)
    assert overall.queries == (80, 80)
    assert overall.missing == (left_out, left_out)


def test_by_default_the_first_unparsed_reply_ends_the_run() -> None:
    message = r"^Normal, mini, query \d+: unparsed reply \(no label\): 'I cannot tell.'; expe"

    with pytest.raises(OutputError, match=message):
        Normal(datasets=["mini"], limit=40)(text_inference(Writer()))


def test_replies_of_a_run_that_ended_are_kept_in_the_store(tmp_path: Path) -> None:
    """A run with another policy then has no prompt left to send."""
    writer, store = Writer(), tmp_path / "s.sqlite"
    with pytest.raises(OutputError):
        Normal(datasets=["mini"], limit=40)(text_inference(writer), store=store)
    prompts_of_first_run = writer.prompts

    with_other_policy = Normal(datasets=["mini"], limit=40, unparsed="excluded")
    result = with_other_policy(text_inference(writer), store=store, recheck=False)

    assert writer.prompts == prompts_of_first_run, "no prompt was sent again"
    assert prompts_of_first_run == result.details["mini"].distinct


def test_unparsed_replies_that_are_collected_are_failures(tmp_path: Path) -> None:
    benchmark = Normal(datasets=["mini"], limit=40)
    result = benchmark(text_inference(Writer()), on_error="collect")

    assert not result.complete
    assert result.details["mini"].failed == REPLIES_WITHOUT_LABEL
    assert result.divided["mini"]["accuracy"] == RIGHT_REPLIES / (QUERY_COUNT - REPLIES_WITHOUT_LABEL)


@pytest.fixture(scope="module")
def diagnosis() -> Any:
    """Return the result of the writer on all diagnostics, where unparsed replies count as wrong if they can."""
    return Diagnosis(datasets=["mini"], limit=20, unparsed="wrong")(text_inference(Writer()))


def test_unparsed_replies_are_wrong_in_diagnostics_of_right_predictions(diagnosis: Any) -> None:
    assert diagnosis.complete
    assert "count as wrong" in str(diagnosis["GLER"])


@pytest.mark.parametrize("name", ["Contextual_bias", "Post_bias", "Template_sens"])
def test_diagnostics_leave_them_out_where_nothing_is_wrong_or_right(diagnosis: Any, name: str) -> None:
    assert "are excluded" in str(diagnosis[name])
    assert statuses(diagnosis[name]) == {Recomputed()}


def probabilities(prompt: str, label_space: Any) -> list[float]:
    """Predict probabilities that depend on the prompt."""
    weights = [1 + number_of(prompt + label) % 50 for label in label_space]
    return [weight / sum(weights) for weight in weights]


def logits(prompt: str, label_space: Any) -> list[float]:
    """Predict logits that depend on the prompt; all are negative."""
    return [math.log((1 + number_of(prompt + label) % 50) / 51) for label in label_space]


def probabilities_of_logits(prompt: str, label_space: Any) -> list[float]:
    return softmax(logits(prompt, label_space))


UNPARSED_AMONG_NUMBERS = pytest.mark.parametrize("unparsed", [1, 30])
KINDS_OF_NUMBERS = pytest.mark.parametrize(
    ("model", "model_probabilities"),
    [(probabilities, probabilities), (logits, probabilities_of_logits)],
    ids=["probabilities", "logits"],
)


class RunOfNumbers:
    """A run of ``mini`` (192 queries) of a model of numbers, with replies in the place of its first numbers.

    Args:
        model: The model.
        model_probabilities: The probabilities that the model means.
        unparsed: How many of the first queries have a reply without a label.
        policy: How these count.
    """

    def __init__(self, model: Any, model_probabilities: Any, unparsed: int, policy: Any) -> None:
        benchmark = Normal(datasets=["mini"], unparsed=policy)
        queries = benchmark[0].all_queries()
        unparsed_prompts = {query.prompt for query in queries[:unparsed]}

        def numbers_or_text(prompt: str, label_space: Any) -> Any:
            return "?" if prompt in unparsed_prompts else model(prompt, label_space)

        self.result = benchmark(numbers_or_text)
        self.likelihood_of_parsed = math.fsum(
            model_probabilities(query.prompt, LABELS)[query.label] for query in queries[unparsed:]
        )
        """The sum of the probabilities of the true labels, over the queries whose reply is no text."""


@KINDS_OF_NUMBERS
@UNPARSED_AMONG_NUMBERS
def test_the_true_label_of_a_reply_that_counts_as_wrong_has_probability_0(
    model: Any, model_probabilities: Any, unparsed: int
) -> None:
    run = RunOfNumbers(model, model_probabilities, unparsed, "wrong")
    likelihood = run.result.divided["mini"]["averaged_truelabel_likelihood"]

    assert likelihood == pytest.approx(run.likelihood_of_parsed / 192)
    assert statuses(saved_and_loaded(run.result)) == {Recomputed()}


@KINDS_OF_NUMBERS
@UNPARSED_AMONG_NUMBERS
def test_the_likelihood_of_an_excluded_reply_is_between_0_and_1(
    model: Any, model_probabilities: Any, unparsed: int
) -> None:
    run = RunOfNumbers(model, model_probabilities, unparsed, "excluded")

    likelihood = run.result.divided["mini"]["averaged_truelabel_likelihood"]
    low, high = run.result.details["mini"].bounds["averaged_truelabel_likelihood"]

    all_queries = 192
    assert likelihood == pytest.approx(run.likelihood_of_parsed / (all_queries - unparsed))
    assert low == pytest.approx((run.likelihood_of_parsed + 0 * unparsed) / all_queries)
    assert high == pytest.approx((run.likelihood_of_parsed + 1 * unparsed) / all_queries)


@KINDS_OF_NUMBERS
@UNPARSED_AMONG_NUMBERS
def test_a_run_with_excluded_replies_among_numbers_is_recomputed(
    model: Any, model_probabilities: Any, unparsed: int
) -> None:
    run = RunOfNumbers(model, model_probabilities, unparsed, "excluded")

    assert statuses(saved_and_loaded(run.result)) == {Recomputed()}


@KINDS_OF_NUMBERS
@UNPARSED_AMONG_NUMBERS
@pytest.mark.parametrize("metric", ["accuracy", "averaged_truelabel_likelihood", "expected_calibration_error_1"])
def test_a_comparison_has_the_scores_of_numbers_with_replies_that_count_as_wrong(
    model: Any, model_probabilities: Any, unparsed: int, metric: str
) -> None:
    result = RunOfNumbers(model, model_probabilities, unparsed, "wrong").result
    (row,) = compare(result, result, metric).datasets

    assert row.values[0] == pytest.approx(result.divided["mini"][metric])


@pytest.mark.parametrize(("policy", "accuracy"), [("wrong", 0.0), ("excluded", None)])
def test_the_accuracy_of_replies_without_any_label(policy: Any, accuracy: float | None) -> None:
    """No prediction is right, or there is none."""
    result = Normal(datasets=["mini"], limit=8, unparsed=policy)(lambda prompt, label_space: "?")

    assert result.divided["mini"]["accuracy"] == accuracy
    assert len(result.details["mini"].unparsed) == 16


def test_whether_replies_count_as_wrong_is_read_from_the_arguments() -> None:
    """And not from the signature, which may lack it."""
    result = result_of_writer("wrong")

    result.signature = Signature({**result.signature.fields, "unparsed": None})

    assert len(result.counted_wrong("mini")) == REPLIES_WITHOUT_LABEL


def test_replies_do_not_count_as_wrong_if_the_policy_is_not_the_same_for_all_data_sets() -> None:
    result = result_of_writer("wrong")
    result.arguments = {**result.arguments, "changed": ["unparsed"]}

    assert not result.counted_wrong("mini")


class MostlySilent:
    """Replies without a label to 70 % of the prompts; of the others, one of eleven is wrong."""

    def __init__(self, benchmark: Normal) -> None:
        self._labels = {str(query.prompt): query.label for query in benchmark[0].all_queries()}

    def __call__(self, prompt: str, label_space: list[str]) -> str:
        if number_of(prompt) % 10 < 7:
            return "I cannot tell."
        true_label = self._labels[prompt]
        wrong = number_of(prompt) % 11 == 0
        return label_space[1 - true_label] if wrong else label_space[true_label]


def result_of_mostly_silent(policy: Any) -> Result:
    """Run it on own data with two labels, and check that the result can be verified."""
    rows = [(f"text {row}", row % 2) for row in range(700)]
    data = Dataset.from_rows(rows, name="own", label_space=["no", "yes"])
    benchmark = Normal(datasets=[data], limit=150, unparsed=policy)
    result = benchmark(MostlySilent(benchmark))
    assert status_of(verify(result, benchmark)) == Recomputed()
    return result


def test_warnings_do_not_depend_on_whether_replies_count_as_wrong() -> None:
    """Of two labels, a wrong one in the place of 70 % of the replies looks as if the labels were exchanged."""
    wrong, excluded = result_of_mostly_silent("wrong"), result_of_mostly_silent("excluded")
    assert wrong.averaged["accuracy"] < 0.4
    assert excluded.averaged["accuracy"] > 0.8

    notes_of_wrong = [note for note in wrong.details["own"].notes if "unparsed" not in note]
    notes_of_excluded = [note for note in excluded.details["own"].notes if "unparsed" not in note]

    assert notes_of_wrong == notes_of_excluded
    assert "exchanged" not in "".join(notes_of_wrong)
    assert "below" not in "".join(notes_of_wrong)
