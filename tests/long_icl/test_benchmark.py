"""LongICL as a benchmark: queries, scores, results, options; failures never count as wrong."""

from __future__ import annotations

import base64
import hashlib
import itertools
import json
import math
import shutil
import zlib
from collections.abc import Callable, Container, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from StaICC.benchmarks.findings import Recomputed, Unchecked, Verification, status_of
from StaICC.benchmarks.prompt_digests import digest_prompts
from StaICC.benchmarks.race import race
from StaICC.benchmarks.rerunning import Rerun
from StaICC.benchmarks.task import Statistics
from StaICC.benchmarks.verify import verify
from StaICC.comparing.comparison import compare
from StaICC.errors import ArgumentError, OutputError, SchemaError, UnknownNameError, WithheldReplyError
from StaICC.inference.replies import Failure
from StaICC.long_icl.benchmark import LongICL
from StaICC.long_icl.cards import task_card
from StaICC.long_icl.experimentor import LongICLExperimentor
from StaICC.long_icl.experiments import Experiment
from StaICC.long_icl.parsing import PARSINGS
from StaICC.long_icl.prompts import write_query
from StaICC.metrics.intervals import ratio_part
from StaICC.metrics.random_baselines import RandomBaseline
from StaICC.results.result import Result, load
from tests.long_icl.conftest import ALL_DATASETS, long_icl_on, right_answers, score_replies
from tests.result_edits import edited, value_at


def experimentor_on(
    folder: Path, dataset: str, rounds: Any = (1, 2), limit: Any = 12, **options: Any
) -> LongICLExperimentor:
    """Return the prompts of one data set: of two rounds with twelve queries each, if nothing else is said."""
    return long_icl_on(folder, [dataset], rounds, limit, **options)[0]


def right_model(benchmark: LongICL, except_items: Container[int] = ()) -> Callable[..., str]:
    """Return a model that replies with the true labels, but with "no idea" to some items of the first round."""
    replies = {}
    for experimentor in benchmark:
        prompts = experimentor.prompt_set()
        for number, (prompt, true_reply) in enumerate(zip(prompts, right_answers(experimentor), strict=True)):
            is_first_round = number < len(experimentor.test_items)
            replies[prompt] = "no idea" if is_first_round and number in except_items else true_reply
    return lambda prompt, label_space: replies[prompt]


def always(reply: Any) -> Callable[..., Any]:
    """Return a model that always replies the same."""
    return lambda prompt, label_space: reply


def contradictions(findings: Iterable[Verification]) -> list[str]:
    """Return what a verification says of values that are not those of the records or the data."""
    return [message for finding in findings for message in finding.contradicted]


# -- queries


@pytest.mark.parametrize("name", ALL_DATASETS)
def test_a_prompt_is_the_context_of_its_round_and_the_query(data_folder: Path, name: str) -> None:
    experimentor = experimentor_on(data_folder, name, [3, 1], 9)

    expected = []
    for number in (3, 1):
        for item in experimentor.test_items:
            expected.append(experimentor.context(number) + write_query(experimentor.card, item))
    assert experimentor.prompt_set() == expected
    assert [query.row for query in experimentor.all_queries()] == [item.row for item in experimentor.test_items] * 2
    assert experimentor.get_label_space() == list(task_card(name).labels)


@pytest.mark.parametrize("name", ALL_DATASETS)
def test_prompts_are_the_same_each_time(data_folder: Path, name: str) -> None:
    first, second = experimentor_on(data_folder, name, [3, 1], 9), experimentor_on(data_folder, name, [3, 1], 9)

    assert first.prompt_set() == second.prompt_set()


def test_all_queries_of_a_round_share_one_string_as_context(data_folder: Path) -> None:
    experimentor = experimentor_on(data_folder, "banking77", [3, 1], 9)

    assert experimentor.context(3) is experimentor.context(3, 5)


@pytest.mark.parametrize("name", [name for name in ALL_DATASETS if name != "few_nerd"])
def test_the_limit_is_of_labels(data_folder: Path, name: str) -> None:
    """The limit of Few-NERD is of sentences, which have two labels here."""
    experimentor = experimentor_on(data_folder, name, limit=9)

    assert sum(len(item.gold) for item in experimentor.test_items) <= 9


@pytest.mark.parametrize("name", ALL_DATASETS)
def test_each_prompt_has_the_first_four_bytes_of_its_sha_256_as_digest(
    data_folder: Path, name: str, sha256_of_json: Callable[[Any], str]
) -> None:
    experimentor = experimentor_on(data_folder, name, [3, 1], 9)
    prompts = experimentor.prompt_set()

    digest_of_all, digests = digest_prompts(experimentor.all_queries())

    assert digest_of_all == sha256_of_json(prompts)
    first_bytes = [hashlib.sha256(prompt.encode()).digest()[:4] for prompt in prompts]
    assert base64.b64decode(digests) == b"".join(first_bytes)


@pytest.mark.parametrize("name", ALL_DATASETS)
def test_the_digest_of_a_round_is_the_sha_256_of_the_digests_of_its_prompts(data_folder: Path, name: str) -> None:
    experimentor = experimentor_on(data_folder, name, [3, 1], 9)
    hex_digests = [hashlib.sha256(prompt.encode()).hexdigest() for prompt in experimentor.prompt_set()]
    round_size = len(experimentor.test_items)

    assert experimentor.prompt_digests == {
        3: hashlib.sha256("\n".join(hex_digests[:round_size]).encode()).hexdigest(),
        1: hashlib.sha256("\n".join(hex_digests[round_size:]).encode()).hexdigest(),
    }


@pytest.mark.parametrize(
    ("options", "error", "said"),
    [
        *(({"rounds": []}, ArgumentError, "from 1 to 5"), ({"rounds": [1, 1]}, ArgumentError, "different")),
        *(({"rounds": [0]}, ArgumentError, "not 0"), ({"rounds": [True]}, ArgumentError, "not True")),
        *(({"rounds": 3}, ArgumentError, "list, not 3"), ({"rounds": "12"}, ArgumentError, "must be an integer")),
        ({"limit": 0}, ArgumentError, "limit"),
        ({"parsing": "publisched"}, UnknownNameError, "did you mean 'published'"),
        ({"parsing": "libary"}, UnknownNameError, "did you mean 'library'"),
        ({"unparsed": "wrongly"}, UnknownNameError, "did you mean 'wrong'"),
    ],
)
def test_arguments(data_folder: Path, options: dict[str, Any], error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        experimentor_on(data_folder, "tacred", **options)


# -- scores


@pytest.mark.parametrize("parsing", PARSINGS)
@pytest.mark.parametrize("name", ALL_DATASETS)
def test_right_answers_have_the_best_score_and_wrong_ones_none(data_folder: Path, name: str, parsing: str) -> None:
    experimentor = experimentor_on(data_folder, name, [1, 2], 20, parsing=parsing)
    item_count = len(experimentor.test_items)
    right_replies = right_answers(experimentor)[:item_count]
    wrong_replies = ["nothing of the kind"] * item_count

    result = score_replies(experimentor, right_replies + wrong_replies)

    cuts_at_colons = name == "few_nerd" and parsing != "library"  # half of the entities have a colon
    best_score = 0.5 if cuts_at_colons else 1.0
    assert result.values["1R"] == pytest.approx(best_score, abs=1e-7)
    assert result.values["2R"] == 0.0
    *_, metric_of_wrong_replies = result.values["rounds"]["2R"]["score"]
    assert metric_of_wrong_replies == task_card(name).scoring.metric.removeprefix("micro_")


@pytest.mark.parametrize("parsing", PARSINGS)
@pytest.mark.parametrize("name", ALL_DATASETS)
def test_the_record_of_a_round_has_its_metric_and_its_counts(data_folder: Path, name: str, parsing: str) -> None:
    experimentor = experimentor_on(data_folder, name, [1, 2], 20, parsing=parsing)
    item_count = len(experimentor.test_items)

    first = score_replies(experimentor, right_answers(experimentor)).values["rounds"]["1R"]

    *_, last_metric = first["score"]
    assert last_metric == task_card(name).scoring.metric.removeprefix("micro_")
    assert (first["asked"], first["answered"]) == (item_count, item_count)
    assert (first["empty"], first["unanswered"]) == (0, {})
    true_labels = sum(len(item.gold) for item in experimentor.test_items)
    assert sum(label["gold"] for label in first["labels"].values()) == true_labels
    assert first["demonstrations"] == len(experimentor.data.demonstration_rows(1))


TOO_LONG = Failure("the prompt has 40,000 tokens, the model reads 32,768", is_too_long=True)


def test_a_round_without_all_answers_has_no_score(data_folder: Path) -> None:
    """The first of two rounds has an empty reply, which is a reply; the second lacks three of five replies."""
    experimentor = experimentor_on(data_folder, "banking77", limit=5)
    first_replies = [0, 1, "", 3, 4]
    second_replies = [TOO_LONG, 1, TOO_LONG, Failure("refused"), 4]

    result = score_replies(experimentor, [*first_replies, *second_replies])

    first, second = result.values["rounds"]["1R"], result.values["rounds"]["2R"]
    assert first["score"] is not None
    assert first["empty"] == 1
    assert second["score"] is None
    assert result.values["2R"] is None
    assert (second["asked"], second["answered"]) == (5, 2)
    assert second["unanswered"] == {TOO_LONG.reason: 2, "refused": 1}
    reasons = f"{TOO_LONG.reason} (2); refused (1)"
    assert second["note"] == f"not scored: 3 of 5 queries were not answered: {reasons}"
    is_missing = [label is None for label in result.outcomes[1].parsed]
    assert is_missing == [True, False, True, True, False]


def test_excluded_replies_stay_as_items_without_a_prediction(data_folder: Path) -> None:
    """The first and the last reply of both rounds: empty ones in the first round, an empty and a failed one after."""
    experimentor = experimentor_on(data_folder, "dialogre", unparsed="excluded")
    item_count = len(experimentor.test_items)
    replies: list[Any] = list(right_answers(experimentor))
    replies[0] = replies[item_count - 1] = ""
    replies[item_count] = replies[-1] = TOO_LONG

    records = score_replies(experimentor, replies).values["rounds"]

    for name, record in records.items():
        excluded = []
        for position, (_, predicted, *_) in enumerate(record["items"]):
            if predicted is None:
                excluded.append(position)
        assert excluded == [0, item_count - 1], name
        assert len(record["items"]) == item_count, name


@pytest.mark.parametrize(
    ("predictions", "message"),
    [
        ([0, 0, 0, 0, 0], r"expected 6 predictions \(3 items in 2 rounds\), found 5"),
        ([0, 0, 0, 0, 41, 0], r"^TACRED, round 2, query 1 \(row 1\): got label index 41"),
        ([0, 0, None, 0, 0, 0], "round 1, query 2"),
    ],
    ids=["one prediction too few", "no label with this index", "no prediction"],
)
def test_predictions_that_are_wrong_are_refused_with_their_place(
    data_folder: Path, predictions: list[Any], message: str
) -> None:
    """TACRED has 41 labels."""
    experimentor = experimentor_on(data_folder, "tacred", limit=3)

    with pytest.raises(OutputError, match=message):
        score_replies(experimentor, predictions)


UNIFORM_ROW = [1 / 41] * 41
"""Probabilities of the 41 labels of TACRED."""


@pytest.mark.parametrize(
    ("kind", "predictions"),
    [
        ("labels", [0, 0, 0]),
        ("text", ["x", "x", "x"]),
        ("numbers", [UNIFORM_ROW, UNIFORM_ROW, UNIFORM_ROW]),
        ("mixed", [UNIFORM_ROW, 0, "x"]),
    ],
)
def test_the_record_of_a_round_names_the_kind_of_its_predictions(
    data_folder: Path, kind: str, predictions: list[Any]
) -> None:
    experimentor = experimentor_on(data_folder, "tacred", limit=3)

    first_round, second_round = score_replies(experimentor, [*predictions, *predictions]).details.conditions

    assert first_round.output == kind
    assert second_round.output == kind


def test_early_stopping_has_no_long_icl(data_folder: Path) -> None:
    with pytest.raises(ArgumentError, match="got <LongICL on tacred"):
        race(long_icl_on(data_folder, ["tacred"]), always(0), always(0))


@pytest.mark.parametrize("parsing", PARSINGS)
def test_a_benchmark_has_the_scores_of_each_data_set_and_their_means(data_folder: Path, parsing: str) -> None:
    benchmark = long_icl_on(data_folder, parsing=parsing)
    model = right_model(benchmark, except_items=range(0, 100, 3))

    result = benchmark(model)

    for experimentor in benchmark:
        replies = [model(prompt, []) for prompt in experimentor.prompt_set()]
        values = result.divided[experimentor.name]
        assert values == score_replies(experimentor, replies).values
        assert values["settings"] == experimentor.settings()
        assert values["mean"] == (values["1R"] + values["2R"]) / 2
        assert 0 < values["1R"] < values["2R"], "a third of the replies of the first round are wrong"
    for score in ("1R", "2R", "mean"):
        values_of_six = [values[score] for values in result.divided.values()]
        assert result.averaged[score] == pytest.approx(sum(values_of_six) / 6)
    assert result.complete


def test_the_uniform_baseline_of_few_nerd_is_undefined_and_so_is_the_mean(data_folder: Path) -> None:
    result = long_icl_on(data_folder)(always("x"))

    assert result.averaged["uniform"] is None
    assert "not defined" in result.details["few_nerd"].missing["uniform"]


class NineOfTwelve(NamedTuple):
    """A run that is right in 9 of the 12 items of the first round of each data set, and in all of the second."""

    benchmark: LongICL
    result: Result


@pytest.fixture(scope="module")
def nine_of_twelve(data_folder: Path) -> NineOfTwelve:
    benchmark = long_icl_on(data_folder, ["banking77", "dialogre"], statistics=Statistics(tried=3))
    return NineOfTwelve(benchmark, benchmark(right_model(benchmark, except_items=[0, 1, 2])))


def test_the_interval_of_a_round_is_that_of_its_share_of_right_items(nine_of_twelve: NineOfTwelve) -> None:
    details = nine_of_twelve.result.details["banking77"]

    hits, items = [1] * 9 + [0] * 3, [1] * 12
    share = ratio_part(hits, items, 0.95)
    interval = details.intervals["1R"]
    assert interval.low == pytest.approx(share.value - share.below)
    assert interval.high == pytest.approx(share.value + share.above)


def test_scores_are_within_their_intervals(nine_of_twelve: NineOfTwelve) -> None:
    result = nine_of_twelve.result
    of_banking, of_dialogre = result.details["banking77"].intervals, result.details["dialogre"].intervals

    assert of_banking["mean"].low < result.divided["banking77"]["mean"] < of_banking["mean"].high
    assert of_dialogre["1R"].low < result.divided["dialogre"]["1R"] < of_dialogre["1R"].high
    assert result.means.intervals["1R"].low < result.averaged["1R"] < result.means.intervals["1R"].high


def test_a_round_is_compared_with_guessing_one_of_the_labels(nine_of_twelve: NineOfTwelve) -> None:
    """The twelve items have different labels, so that the majority label is that of one item."""
    first_round, second_round = nine_of_twelve.result.details["banking77"].baselines.values()

    assert first_round.uniform == 1 / 77
    assert first_round.majority == 1 / 12
    assert (first_round.tried, first_round.queries) == (3, 12)
    assert second_round.p_value < first_round.p_value < 1e-9


def test_the_p_value_against_the_majority_label_is_that_of_the_items_on_which_they_differ(
    nine_of_twelve: NineOfTwelve,
) -> None:
    """The model is right on nine of the ten items on which one of them only is right.

    Of the 2^10 = 1,024 outcomes, one is more extreme, and ten are as extreme as this one, which count in part.
    """
    baseline = nine_of_twelve.result.details["banking77"].baselines["1R"]

    counted_part = 1 - 0.0214 * math.sqrt(12)  # docs/error_rates.md: w = 0.0214 sqrt(n) for n items
    p_value_of_one_setting = (1 + 10 * counted_part) / 1024
    settings_tried = 3
    assert baseline.p_value_majority == pytest.approx(1 - (1 - p_value_of_one_setting) ** settings_tried)


def test_only_a_run_that_is_not_better_than_the_majority_label_says_so(nine_of_twelve: NineOfTwelve) -> None:
    majority_label = nine_of_twelve.result.divided["banking77"]["majority_label"]

    constant_run = nine_of_twelve.benchmark(always(majority_label))

    not_better = "Not better than always the majority label (all 2 conditions; p > 0.05): banking77."
    assert not_better in str(constant_run)
    assert "majority label" not in str(nine_of_twelve.result)


def test_items_with_several_labels_are_compared_with_no_baseline(nine_of_twelve: NineOfTwelve) -> None:
    assert nine_of_twelve.result.details["dialogre"].baselines == {}
    assert nine_of_twelve.result.divided["dialogre"]["uniform"] == 1 / 34  # one of 34 relations


@pytest.mark.parametrize("score", ["1R", "2R", "mean"])
def test_a_comparison_has_the_scores_of_both_runs(nine_of_twelve: NineOfTwelve, score: str) -> None:
    benchmark, first = nine_of_twelve
    half_right = right_model(benchmark, except_items=range(0, 12, 2))
    second = benchmark(lambda prompt, label_space: f"{half_right(prompt, label_space)}, {label_space[0]}")

    banking, dialogre = compare(first, second, score).datasets

    assert (banking.dataset, dialogre.dataset) == ("banking77", "dialogre")
    assert banking.values == pytest.approx((first.divided["banking77"][score], second.divided["banking77"][score]))
    assert dialogre.values == pytest.approx((first.divided["dialogre"][score], second.divided["dialogre"][score]))


def test_intervals_can_be_left_out(data_folder: Path) -> None:
    experimentor = experimentor_on(data_folder, "tacred", statistics=Statistics(intervals=False))

    assert score_replies(experimentor, right_answers(experimentor)).details.intervals == {}


# -- failures are never wrong


class TooLongRun(NamedTuple):
    """A run of rounds 1, 5, 2 with twelve items each, of which the model cannot read the fifth."""

    result: Result
    limit: int
    prompts: list[str]
    log: str


@pytest.fixture
def too_long_run(data_folder: Path, caplog: pytest.LogCaptureFixture) -> TooLongRun:
    benchmark = long_icl_on(data_folder, ["banking77"], [1, 5, 2])
    limit = (len(benchmark[0].context(2)) + len(benchmark[0].context(5))) // 2
    prompts: list[str] = []

    def model(prompt: str, label_space: list[str]) -> int:
        prompts.append(prompt)
        if len(prompt) > limit:
            raise ValueError(f"the prompt has {len(prompt)} tokens, but the model reads {limit} at most")
        return 0

    result = benchmark(model)  # with on_error="raise", the default
    return TooLongRun(result, limit, prompts, caplog.text)


def test_a_context_that_is_too_long_has_no_score(too_long_run: TooLongRun) -> None:
    result = too_long_run.result
    values = result.divided["banking77"]

    assert values["1R"] is not None
    assert values["2R"] is not None
    assert result.averaged["1R"] == values["1R"]
    for undefined in (values["5R"], values["mean"], result.averaged["5R"], result.averaged["mean"]):
        assert undefined is None
    details = result.details["banking77"]
    assert "5R" not in details.intervals
    assert "5R" not in details.baselines


def test_the_rest_of_a_round_that_is_too_long_is_not_predicted(too_long_run: TooLongRun) -> None:
    first_round, one_failure, second_round = 12, 1, 12

    assert len(too_long_run.prompts) == first_round + one_failure + second_round


def test_the_reason_of_a_missing_score_is_the_message_of_the_model(too_long_run: TooLongRun) -> None:
    missing = too_long_run.result.details["banking77"].missing

    assert "longer than the model's limit (12 of 12 queries" in missing["5R"]
    assert f"the model reads {too_long_run.limit} at most" in missing["5R"]
    assert ".py:" not in missing["5R"]
    assert missing["mean"] == "no score in 5R"


def test_queries_that_are_too_long_are_counted_as_failed(too_long_run: TooLongRun) -> None:
    details = too_long_run.result.details["banking77"]

    assert (details.asked, details.scored, details.failed) == (36, 24, 12)
    assert details.conditions[1].predictions == (None,) * 12
    assert details.conditions[1].output == "none"
    assert [failure.condition for failure in details.failures] == ["5R"] * 12


def test_a_run_with_a_context_that_is_too_long_says_that_it_is_partial(too_long_run: TooLongRun) -> None:
    result = too_long_run.result

    assert not result.complete
    assert result.signature.fields["failed"] == "12"
    assert "5R is undefined: not scored" in str(result)
    assert "LongICL, banking77, 5R: not scored" in too_long_run.log


REFUSED_PROMPTS = 3


class RefusingModel:
    """Raises an error for the first three prompts of the second round of GoEmotions."""

    def __init__(self, benchmark: LongICL) -> None:
        self._refused = [query.prompt for query in benchmark[0].round_queries(2)[:REFUSED_PROMPTS]]

    def __call__(self, prompt: str, label_space: list[str]) -> int:
        if prompt in self._refused:
            raise RuntimeError(f"refused after {len(prompt)} characters")
        return 0


def test_an_error_of_the_model_ends_a_run(data_folder: Path) -> None:
    benchmark = long_icl_on(data_folder, ["goemotions"])

    with pytest.raises(OutputError, match=r"LongICL, goemotions, 2R, query 0: .*refused"):
        benchmark(RefusingModel(benchmark))


def test_a_round_with_collected_failures_has_counts_and_no_score(data_folder: Path) -> None:
    benchmark = long_icl_on(data_folder, ["goemotions"])

    result = benchmark(RefusingModel(benchmark), on_error="collect")

    values, details = result.divided["goemotions"], result.details["goemotions"]
    assert values["1R"] is not None
    assert values["2R"] is None
    assert details.missing["2R"].startswith("not scored: 3 of 12 queries were not answered")
    assert details.scored == 12  # the queries of the first round
    assert details.failed == REFUSED_PROMPTS
    second_round = values["rounds"]["2R"]
    assert second_round["answered"] == 12 - REFUSED_PROMPTS
    assert sum(counts["gold"] for counts in second_round["labels"].values()) == 12 - REFUSED_PROMPTS


def test_reasons_of_failures_that_differ_in_numbers_only_are_counted_together(data_folder: Path) -> None:
    benchmark = long_icl_on(data_folder, ["goemotions"])

    result = benchmark(RefusingModel(benchmark), on_error="collect")

    (count,) = result.divided["goemotions"]["rounds"]["2R"]["unanswered"].values()
    assert count == REFUSED_PROMPTS


def test_a_result_with_failed_queries_of_items_with_several_labels_can_be_saved_and_loaded(
    data_folder: Path, tmp_path: Path
) -> None:
    benchmark = long_icl_on(data_folder, ["few_nerd"])
    failing_prompts = set(benchmark[0].prompt_set()[::5])

    def model(prompt: str, label_space: list[str]) -> str | None:
        return None if prompt in failing_prompts else "no idea"

    result = benchmark(model, on_error="collect")
    result.save(tmp_path / "result.json")

    assert result.details["few_nerd"].failed == len(failing_prompts)
    assert load(tmp_path / "result.json") == result


# -- replies in the habits of model families

HABITS = {
    "plain": "{label}\n",
    "reasoning": "<think>Could be anger, or joy. I'd say {label}.</think>\n\n{label}",
    "a sentence": "The answer is {label}.",
    "JSON": '```json\n{{"emotion category": "{label}", "confidence": 0.9}}\n```',
    "bold": "Considering the tone, the emotion category is **{label}**.",
    "numbered": "1. {label}",
}
"""How model families reply with a label."""


def scored_habit(folder: Path, habit: str, parsing: str) -> Any:
    """Return the score of a model that is always right, and writes its labels in a habit."""
    experimentor = experimentor_on(folder, "goemotions", [1], 20, parsing=parsing)
    true_labels = [item.gold[0] for item in experimentor.test_items]
    return score_replies(experimentor, [HABITS[habit].format(label=label) for label in true_labels])


@pytest.mark.parametrize("habit", HABITS)
def test_the_library_s_parser_reads_all_habits(data_folder: Path, habit: str) -> None:
    assert scored_habit(data_folder, habit, "library").values["mean"] == 1.0


@pytest.mark.parametrize("habit", HABITS)
def test_the_published_parser_reads_the_plain_label_only(data_folder: Path, habit: str) -> None:
    score = scored_habit(data_folder, habit, "published").values["mean"]

    assert (score == 1.0) is (habit == "plain")


def test_replies_that_the_parser_cannot_read_are_counted_and_shown(data_folder: Path) -> None:
    details = scored_habit(data_folder, "reasoning", "published").details

    assert len(details.unparsed) == 20
    note = '20 of 20 replies are unparsed and count as wrong, such as (no label): "<think>Could be'
    assert any(text.startswith(note) for text in details.notes), details.notes


def test_a_reply_without_a_label_may_end_the_run(data_folder: Path) -> None:
    """With ``unparsed="error"``, at the end of the round: the second of two rounds with 20 queries is not predicted."""
    benchmark = long_icl_on(data_folder, ["goemotions"], limit=20, parsing="library", unparsed="error")
    prompts: list[str] = []

    def model(prompt: str, label_space: list[str]) -> str:
        prompts.append(prompt)
        if zlib.crc32(prompt.encode()) % 5 == 0:  # about every fifth prompt
            raise WithheldReplyError("the server withheld the reply")
        return "joy"

    with pytest.raises(OutputError, match=r"GoEmotions, round 1, query \d+ .*withheld the reply"):
        benchmark(model)
    assert len(prompts) == 20


# -- verification


@pytest.mark.parametrize(
    "settings",
    [{"instruct": True}, {"parsing": "library"}, {"rounds": (2,), "limit": None}],
    ids=["instruct", "parsing", "rounds and limit"],
)
def test_verification_rebuilds_the_benchmark(data_folder_copy: Path, settings: dict[str, Any]) -> None:
    result = long_icl_on(data_folder_copy, ["goemotions", "tacred"], **settings)(always("x"))

    of_goemotions, of_tacred, of_means = verify(result, data_dir=data_folder_copy)

    assert of_goemotions.same is True
    assert of_tacred.same is True
    assert of_means.same is None  # there are no data of its experimentor
    assert status_of([of_goemotions, of_tacred, of_means]) == Recomputed()


def test_verification_finds_changed_data(data_folder_copy: Path) -> None:
    result = long_icl_on(data_folder_copy, ["goemotions", "tacred"])(always("x"))
    path = data_folder_copy / "goemotions_train.tsv"
    path.write_text(path.read_text().replace("text", "word"))

    of_goemotions, of_tacred, _ = verify(result, data_dir=data_folder_copy)

    assert of_goemotions.same is False
    assert of_tacred.same is True


def test_a_result_of_another_version_is_no_contradiction(data_folder_copy: Path) -> None:
    plain = long_icl_on(data_folder_copy, ["goemotions"])(always("x")).to_dict()
    plain["arguments"]["arrangement"] = "interleaved"  # an argument that this version does not take
    (finding,) = verify(Result.from_dict(plain), data_dir=data_folder_copy)[:1]
    assert finding.contradicted == ()
    assert "takes no argument 'arrangement' in StaICC" in finding.unchecked[0]
    assert isinstance(status_of([finding]), Unchecked)


def cut_off_by_length(prompt: str, label_space: list[str]) -> str:
    """Reply with a label that the length of the prompt chooses; with one in three lengths, not with a label alone."""
    label = label_space[len(prompt) % 28]
    return f"{label} or not" if len(prompt) % 3 == 0 else label


@pytest.mark.parametrize("unparsed", ["wrong", "excluded"])
def test_replies_without_a_label_are_predicted_again(data_folder: Path, unparsed: str) -> None:
    """A rerun without any label differs in the replies that had one."""
    benchmark = long_icl_on(data_folder, ["goemotions"], unparsed=unparsed)
    result = benchmark(cut_off_by_length)
    without_label = len(result.details["goemotions"].unparsed)
    assert 0 < without_label < 24

    def without_any_label(prompt: str, label_space: list[str]) -> str:
        return f"{cut_off_by_length(prompt, label_space)} or not"

    *_, same_model = verify(result, benchmark, rerun=Rerun(cut_off_by_length, 24))
    *_, other_model = verify(result, benchmark, rerun=Rerun(without_any_label, 24))

    assert "24 of 24 queries predicted again (seed" in same_model.message
    assert ": 0 differ" in same_model.message
    assert f": {24 - without_label} differ" in other_model.message


@pytest.mark.parametrize("unparsed", ["wrong", "excluded"])
def test_the_random_baseline_is_that_of_all_queries_with_or_without_a_label_in_the_reply(
    data_folder: Path, unparsed: str
) -> None:
    benchmark = long_icl_on(data_folder, ["goemotions"], unparsed=unparsed, statistics=Statistics(tried=3))

    first_round, second_round = benchmark(cut_off_by_length).details["goemotions"].baselines.values()

    best_of_three = RandomBaseline(12, 1 / 28).max_random_baseline(3)  # 12 queries, 28 labels
    assert (first_round.queries, second_round.queries) == (12, 12)
    assert (first_round.max_random, second_round.max_random) == (best_of_three, best_of_three)


def test_a_data_set_whose_file_is_gone_since_the_run_is_unchecked(data_folder_copy: Path) -> None:
    result = long_icl_on(data_folder_copy, ["goemotions", "tacred"])(always("x"))
    (data_folder_copy / "tacred_train.json").unlink()

    findings = verify(result, data_dir=data_folder_copy)

    of_goemotions, *_ = findings
    assert of_goemotions.status == Recomputed()
    assert isinstance(status_of(findings), Unchecked)


def test_a_data_set_without_file_in_the_run_is_recomputed_with_or_without_it(data_folder_copy: Path) -> None:
    path = data_folder_copy / "tacred_train.json"
    content = path.read_bytes()
    path.unlink()
    result = long_icl_on(data_folder_copy, ["goemotions", "tacred"])(always("x"))
    assert result.details["tacred"].asked == 0

    status_without_file = status_of(verify(result, data_dir=data_folder_copy))
    path.write_bytes(content)
    status_with_file = status_of(verify(result, data_dir=data_folder_copy))

    assert status_without_file == Recomputed()
    assert status_with_file == Recomputed()


RELATIONS = ["tacred", "dialogre"]


@pytest.fixture(scope="module")
def relations_run(data_folder: Path) -> Result:
    """A run on TACRED and DialogRE that is wrong on every third item of the first round."""
    benchmark = long_icl_on(data_folder, RELATIONS)
    return benchmark(right_model(benchmark, except_items=range(0, 12, 3)))


def test_an_unchanged_result_contradicts_nothing(relations_run: Result, data_folder: Path) -> None:
    assert contradictions(verify(relations_run, long_icl_on(data_folder, RELATIONS))) == []


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("Divided results", "tacred", "1R"), 0.5),
        (("Divided results", "tacred", "majority"), 0.5),
        (("Divided results", "tacred", "settings", "limit"), 1),
        (("Divided results", "tacred", "rounds", "2R", "score", "correct"), 1),
        (("Averaged results", "2R"), 0.5),
        (("signature", "data"), "000000000000"),
        (("details", "tacred", "asked"), 1),
        (("details", "tacred", "baselines", "1R", "p_value"), 0.5),
        (("details", "tacred", "intervals", "1R", "low"), 0.5),
        (("details", "tacred", "conditions", 0, "truth", 3), 0),
    ],
    ids=lambda part: " / ".join(map(str, part)) if isinstance(part, tuple) else "",
)
def test_a_changed_value_is_named_by_the_benchmark_and_by_its_files(
    relations_run: Result, data_folder: Path, path: tuple[Any, ...], value: Any
) -> None:
    saved = json.loads(json.dumps(relations_run.to_dict()))
    assert value_at(saved, path) != value
    changed = Result.from_dict(edited(saved, path, value))

    by_benchmark = contradictions(verify(changed, long_icl_on(data_folder, RELATIONS)))
    by_files = contradictions(verify(changed, data_dir=data_folder))

    beginning = f"{' / '.join(map(str, path))}: saved "
    assert any(message.startswith(beginning) for message in by_benchmark), by_benchmark
    assert any(message.startswith(beginning) for message in by_files), by_files


@pytest.mark.parametrize(
    ("path_in_round", "named"),
    [(("answered",), "answered"), (("unparsed",), "unparsed"), (("items", 3, 1), "items")],
    ids=["answered", "unparsed", "items"],
)
def test_a_value_of_another_type_in_a_round_is_refused(
    relations_run: Result, path_in_round: tuple[Any, ...], named: str
) -> None:
    path = ("Divided results", "dialogre", "rounds", "1R", *path_in_round)

    with pytest.raises(SchemaError, match=f"1R, {named}"):
        Result.from_dict(edited(relations_run.to_dict(), path, "x"))


def replies_of_several_labels(experimentor: LongICLExperimentor) -> list[Any]:
    """Right replies, wrong ones, replies without a label, an empty one, a failed query in the second round."""
    replies: list[Any] = list(right_answers(experimentor))
    other_replies = replies[1:] + replies[:1]
    for number in range(0, len(replies), 3):
        replies[number] = other_replies[number]
    replies[1], replies[4] = "no idea", ""
    replies[-1] = Failure("refused")
    return replies


@pytest.fixture(scope="module")
def several_labels_run(request: pytest.FixtureRequest, data_folder: Path) -> tuple[LongICL, Result]:
    """A benchmark of items with several labels and its run, with right, wrong, unparsed and failed replies."""
    name, parsing, unparsed = request.param
    benchmark = long_icl_on(data_folder, [name], parsing=parsing, unparsed=unparsed)
    return benchmark, benchmark(preentered_prediction=[replies_of_several_labels(benchmark[0])], on_error="collect")


SEVERAL_LABELS_RUNS = list(itertools.product(["few_nerd", "dialogre"], PARSINGS, ["wrong", "excluded"]))
"""Data set, parser, and what unparsed replies count as."""


@pytest.mark.parametrize("several_labels_run", SEVERAL_LABELS_RUNS, indirect=True)
def test_a_result_of_several_labels_is_recomputed(several_labels_run: tuple[LongICL, Result]) -> None:
    benchmark, result = several_labels_run

    (name,) = result.divided
    assert 0 < result.divided[name]["1R"] < 1
    assert status_of(verify(result, benchmark)) == Recomputed()


ITEM_EDITS: dict[str, Callable[[list[Any]], list[Any]]] = {
    "another true label": lambda item: [item[0], ["x", *item[1][1:]], item[2], item[3]],
    "no prediction": lambda item: [item[0], item[1], [], item[3]],
    "one more prediction": lambda item: [item[0], item[1], [*item[2], item[1][0]], item[3]],
    "a correct label less": lambda item: [item[0], item[1], item[2], item[3][1:]],
}
"""By what is changed: another record of an item. A record is its row, its true, predicted and correct labels."""


@pytest.mark.parametrize("edit", ITEM_EDITS)
@pytest.mark.parametrize("several_labels_run", SEVERAL_LABELS_RUNS, indirect=True)
def test_a_changed_item_with_several_labels_is_contradicted(
    several_labels_run: tuple[LongICL, Result], edit: str
) -> None:
    benchmark, result = several_labels_run
    saved = json.loads(json.dumps(result.to_dict()))
    (name,) = saved["Divided results"]
    items = saved["Divided results"][name]["rounds"]["1R"]["items"]

    position = [bool(correct) for _, _, _, correct in items].index(True)  # the first item with a correct label
    items[position] = ITEM_EDITS[edit](items[position])

    assert contradictions(verify(Result.from_dict(saved), benchmark)) != []


ROUND_EDITS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "score of the data set": lambda values: values.update({"1R": 0.123}),
    "score of the round": lambda values: values["rounds"]["1R"]["score"].update(f1=0.123),
    "count of a label": lambda values: next(iter(values["rounds"]["1R"]["labels"].values())).update(gold=99),
    "first item left out": lambda values: values["rounds"]["1R"]["items"].pop(0),
}
"""By what is changed: a change of the values of a data set."""


@pytest.mark.parametrize("edit", ROUND_EDITS)
@pytest.mark.parametrize("several_labels_run", SEVERAL_LABELS_RUNS, indirect=True)
def test_a_changed_value_of_a_round_with_several_labels_is_contradicted(
    several_labels_run: tuple[LongICL, Result], edit: str
) -> None:
    benchmark, result = several_labels_run
    saved = json.loads(json.dumps(result.to_dict()))
    (name,) = saved["Divided results"]

    ROUND_EDITS[edit](saved["Divided results"][name])

    assert contradictions(verify(Result.from_dict(saved), benchmark)) != []


@pytest.mark.parametrize("dataset", RELATIONS)
@pytest.mark.parametrize("keys", [("temperature",), ("files", "test", "source"), ("files", "third")])
def test_a_setting_that_no_run_records_is_contradicted(
    relations_run: Result, data_folder: Path, dataset: str, keys: tuple[str, ...]
) -> None:
    saved = json.loads(json.dumps(relations_run.to_dict()))
    *outer_keys, last_key = ("Divided results", dataset, "settings", *keys)
    value_at(saved, tuple(outer_keys))[last_key] = "x"

    findings = verify(Result.from_dict(saved), long_icl_on(data_folder, RELATIONS))

    path = " / ".join(("Divided results", dataset, "settings", *keys))
    assert contradictions(findings) == [f"{path}: saved 'x', but runs record no such setting"]


def dialogre_scored_to_pair_5(folder: Path, limit: int | None) -> LongICLExperimentor:
    """Return DialogRE as if its published score ended at pair 5; it ends at 500, but the made-up data are small."""
    data = long_icl_on(folder, ["dialogre"])[0].data
    scoring = replace(data.card.scoring, stop_at=5)
    short_data = replace(data, card=replace(data.card, scoring=scoring))
    return LongICLExperimentor(short_data, rounds=(1,), limit=limit)


def test_items_after_the_last_scored_pair_of_dialogre_are_named(data_folder: Path) -> None:
    experimentor = dialogre_scored_to_pair_5(data_folder, limit=None)

    warnings = score_replies(experimentor, right_answers(experimentor)).warnings

    pairs = 0
    unscored_items = 0
    for item in experimentor.test_items:
        unscored_items += pairs >= 5
        pairs += len(item.gold)
    assert unscored_items > 0
    (warning,) = [warning for warning in warnings if "not scored" in warning]
    queried = f"{unscored_items} of {len(experimentor.test_items)} items are queried, but not scored"
    assert warning.startswith(f"the published score ends at pair 5: {queried}")


def test_a_limit_at_the_last_scored_pair_of_dialogre_needs_no_warning(data_folder: Path) -> None:
    experimentor = dialogre_scored_to_pair_5(data_folder, limit=5)

    warnings = score_replies(experimentor, right_answers(experimentor)).warnings

    assert [warning for warning in warnings if "not scored" in warning] == []


# -- every option of LongICL that changes a number is in the signature


EXPERIMENTS = [
    Experiment("context", (1024, 4096)),
    Experiment("shots", (0, 2)),
    Experiment("position", (3,), 1),
    Experiment("controls", (), 1),
]
IN_SIGNATURE: dict[str, list[Any]] = {
    **{"data_dir": ["changed"], "datasets": [["tacred"]], "rounds": [[1], [2, 1]], "limit": [None, 5]},
    **{"instruct": [True], "unparsed": ["excluded"]},
    "parsing": ["library"],
    "experiment": [*EXPERIMENTS, *(Experiment("order", (2,), shots=2, seed=seed) for seed in (0, 1))],
    "statistics": [Statistics(level=0.8), Statistics(level=0.9)],
}
"""Other values of the options that are in the signature."""
NO_NUMBER: dict[str, list[Any]] = {"data_dir": ["copy"], "verify": [False], "announce": [print]}
"""Other values of the options that change no number."""


@pytest.fixture(scope="module")
def folders(data_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("options")
    for name in ("small", "copy", "changed"):
        shutil.copytree(data_folder, home / name)
    path = home / "changed" / "discovery_test.tsv"
    path.write_text(path.read_text("utf-8").replace("text", "word"), "utf-8", newline="")
    return home


def run(folders: Path, **options: Any) -> Result:
    """Return a run on two data sets without published digests; the option ``data_dir`` names one of the folders."""
    options = {"datasets": ["discovery", "tacred"], "verify": True, **options}
    folder = folders / options.pop("data_dir", "small")

    def model(prompt: str, label_space: list[str]) -> str:
        """Reply with one of the first three labels, by a checksum of the prompt."""
        return label_space[zlib.crc32(prompt.encode()) % 3]

    return long_icl_on(folder, **options)(model)


def numbers(result: Result) -> dict[str, Any]:
    left_out = ("signature", "provenance", "timing", "environment", "with_divided")
    return {key: value for key, value in result.to_dict().items() if key not in left_out}


@pytest.fixture(scope="module")
def base(folders: Path) -> Result:
    return run(folders)


@pytest.mark.parametrize(("name", "value"), [(name, value) for name in IN_SIGNATURE for value in IN_SIGNATURE[name]])
def test_an_option_that_changes_a_number_is_in_the_signature(
    folders: Path, base: Result, name: str, value: Any
) -> None:
    other = run(folders, **{name: value})
    assert numbers(base) != numbers(other)
    assert base.signature.differences(other.signature)


@pytest.mark.parametrize(("name", "value"), [(name, value) for name in NO_NUMBER for value in NO_NUMBER[name]])
def test_other_options_change_no_number(folders: Path, base: Result, name: str, value: Any) -> None:
    other = run(folders, **{name: value})
    assert numbers(base) == numbers(other)
    assert base.signature == other.signature


def signature_with_limit(folder: Path, dataset: str, limit: int | None) -> Any:
    return long_icl_on(folder, [dataset], [1], limit).signature()


@pytest.mark.parametrize(("name", "size"), [("discovery", 522), ("tacred", 123), ("few_nerd", 99), ("dialogre", 105)])
def test_a_limit_above_the_size_of_the_data_is_none(data_folder: Path, name: str, size: int) -> None:
    """The size is the number of items; of DialogRE, that of pairs of entities."""
    without_limit = signature_with_limit(data_folder, name, None)

    assert "limit" not in without_limit.fields
    assert signature_with_limit(data_folder, name, 10**9) == without_limit
    assert signature_with_limit(data_folder, name, size + 1) == without_limit
    assert signature_with_limit(data_folder, name, size) == without_limit
    assert signature_with_limit(data_folder, name, size - 1).fields["limit"] == str(size - 1)


def test_warnings_of_a_data_set_without_records_contradict_nothing(data_folder: Path) -> None:
    """The file has no records of Few-NERD and DialogRE, so that their warnings are taken from it."""
    benchmark = long_icl_on(data_folder, ["dialogre", "banking77"])

    result = benchmark(right_model(benchmark, except_items=[0, 1, 2]))

    for name in ("dialogre", "banking77"):
        assert f"{name}: the files are not known to be the published ones" in result.warnings
        of_unparsed = [text for text in result.warnings if text.startswith(f"{name}: ") and "unparsed" in text]
        assert of_unparsed, result.warnings
    messages = contradictions(verify(result, data_dir=data_folder))
    assert [message for message in messages if "warnings" in message] == []
