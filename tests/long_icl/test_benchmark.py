"""LongICL as a benchmark: queries, scores, results, options; failures never count as wrong."""

from __future__ import annotations

import base64
import hashlib
import json
import shutil
import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from StaICC.benchmarks.findings import Recomputed, Unchecked, status_of
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
from tests.long_icl.conftest import SETS, long_icl_on, right_answers, scored
from tests.result_edits import edited, value_at


def experimentor_on(folder: Path, name: str, rounds: Any = (1, 2), limit: Any = 12, **more: Any) -> LongICLExperimentor:
    return long_icl_on(folder, [name], rounds, limit, **more)[0]


def rightly(benchmark: LongICL, wrong: Callable[[int], bool] = lambda number: False) -> Callable[..., str]:
    """A function that answers by text as the demonstrations do, but for some queries of each data set's first round."""
    answers = {}
    for own in benchmark:
        for place, (prompt, text) in enumerate(zip(own.prompt_set(), right_answers(own), strict=True)):
            answers[prompt] = "no idea" if place < len(own.test_items) and wrong(place) else text
    return lambda prompt, label_space: answers[prompt]


def always(answer: Any) -> Callable[..., Any]:
    return lambda prompt, label_space: answer


# -- queries


@pytest.mark.parametrize("name", SETS)
def test_a_prompt_is_the_context_of_its_round_and_the_query(small_files: Path, name: str) -> None:
    own = experimentor_on(small_files, name, [3, 1], 9)

    expected = []
    for number in (3, 1):
        for item in own.test_items:
            expected.append(own.context(number) + write_query(own.card, item))
    assert own.prompt_set() == expected
    assert [query.row for query in own.all_queries()] == [item.row for item in own.test_items] * 2
    assert own.get_label_space() == list(task_card(name).labels)


@pytest.mark.parametrize("name", SETS)
def test_prompts_are_the_same_each_time(small_files: Path, name: str) -> None:
    first, second = experimentor_on(small_files, name, [3, 1], 9), experimentor_on(small_files, name, [3, 1], 9)

    assert first.prompt_set() == second.prompt_set()


def test_all_queries_of_a_round_share_one_string_as_context(small_files: Path) -> None:
    own = experimentor_on(small_files, "banking77", [3, 1], 9)

    assert own.context(3) is own.context(3, 5)


@pytest.mark.parametrize("name", [name for name in SETS if name != "few_nerd"])
def test_the_limit_is_of_labels(small_files: Path, name: str) -> None:
    """The limit of Few-NERD is of sentences, which have two labels here."""
    own = experimentor_on(small_files, name, limit=9)

    assert sum(len(item.gold) for item in own.test_items) <= 9


@pytest.mark.parametrize("name", SETS)
def test_digests_of_prompts_are_of_all_of_each_round_and_of_each_prompt(
    small_files: Path, name: str, sha: Callable[[Any], str]
) -> None:
    """Of each round, the SHA-256 of the digests of its prompts; of each prompt, the first four bytes of its digest."""
    own = experimentor_on(small_files, name, [3, 1], 9)
    prompts = own.prompt_set()
    digests = [hashlib.sha256(prompt.encode()).digest() for prompt in prompts]

    first_bytes = base64.b64encode(b"".join(digest[:4] for digest in digests)).decode()
    assert digest_prompts(own.all_queries()) == (sha(prompts), first_bytes)

    lines = [digest.hex() for digest in digests]
    round_size = len(own.test_items)
    lines_of_round = {3: lines[:round_size], 1: lines[round_size:]}
    for number, lines in lines_of_round.items():
        assert own.prompt_digests[number] == hashlib.sha256("\n".join(lines).encode()).hexdigest(), number
    assert own.prompt_digests.keys() == lines_of_round.keys()


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
def test_arguments(small_files: Path, options: dict[str, Any], error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        experimentor_on(small_files, "tacred", **options)


# -- scores


@pytest.mark.parametrize("parsing", PARSINGS)
@pytest.mark.parametrize("name", SETS)
def test_right_answers_have_the_best_score_and_wrong_ones_none(small_files: Path, name: str, parsing: str) -> None:
    own = experimentor_on(small_files, name, [1, 2], 20, parsing=parsing)
    item_count = len(own.test_items)
    right_replies = right_answers(own)[:item_count]
    wrong_replies = ["nothing of the kind"] * item_count

    result = scored(own, right_replies + wrong_replies)

    cuts_at_colons = name == "few_nerd" and parsing != "library"  # half of the entities have a colon
    best_score = 0.5 if cuts_at_colons else 1.0
    assert result.values["1R"] == pytest.approx(best_score, abs=1e-7)
    assert result.values["2R"] == 0.0
    *_, metric_of_wrong_replies = result.values["rounds"]["2R"]["score"]
    assert metric_of_wrong_replies == task_card(name).scoring.metric.removeprefix("micro_")


@pytest.mark.parametrize("parsing", PARSINGS)
@pytest.mark.parametrize("name", SETS)
def test_the_record_of_a_round_has_its_metric_and_its_counts(small_files: Path, name: str, parsing: str) -> None:
    own = experimentor_on(small_files, name, [1, 2], 20, parsing=parsing)
    item_count = len(own.test_items)

    first = scored(own, right_answers(own)).values["rounds"]["1R"]

    *_, last_metric = first["score"]
    assert last_metric == task_card(name).scoring.metric.removeprefix("micro_")
    assert (first["asked"], first["answered"]) == (item_count, item_count)
    assert (first["empty"], first["unanswered"]) == (0, {})
    true_labels = sum(len(item.gold) for item in own.test_items)
    assert sum(label["gold"] for label in first["labels"].values()) == true_labels
    assert first["demonstrations"] == len(own.data.demonstration_rows(1))


TOO_LONG = Failure("the prompt has 40,000 tokens, the model reads 32,768", is_too_long=True)


def test_a_round_without_all_answers_has_no_score(small_files: Path) -> None:
    """The first of two rounds has an empty reply, which is a reply; the second lacks three of five replies."""
    own = experimentor_on(small_files, "banking77", limit=5)
    first_replies = [0, 1, "", 3, 4]
    second_replies = [TOO_LONG, 1, TOO_LONG, Failure("refused"), 4]

    result = scored(own, [*first_replies, *second_replies])

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


def test_excluded_replies_stay_as_items_without_a_prediction(small_files: Path) -> None:
    """The first and the last reply of both rounds: empty ones in the first round, an empty and a failed one after."""
    own = experimentor_on(small_files, "dialogre", unparsed="excluded")
    item_count = len(own.test_items)
    replies: list[Any] = list(right_answers(own))
    replies[0] = replies[item_count - 1] = ""
    replies[item_count] = replies[-1] = TOO_LONG

    records = scored(own, replies).values["rounds"]

    for name, record in records.items():
        excluded = []
        for position, (_, predicted, *_) in enumerate(record["items"]):
            if predicted is None:
                excluded.append(position)
        assert excluded == [0, item_count - 1], name
        assert len(record["items"]) == item_count, name


def test_predictions_are_checked(small_files: Path) -> None:
    own = experimentor_on(small_files, "tacred", limit=3)
    for predictions, said in (
        ([0] * 5, r"expected 6 predictions \(3 items in 2 rounds\), found 5"),
        ([0, 0, 0, 0, 41, 0], r"^TACRED, round 2, query 1 \(row 1\): got label index 41"),
        ([0, 0, None, 0, 0, 0], "round 1, query 2"),
    ):
        with pytest.raises(OutputError, match=said):
            scored(own, predictions)
    row = [1 / 41] * 41
    for answers, kind in (([0] * 3, "labels"), (["x"] * 3, "text"), ([row] * 3, "numbers"), ([row, 0, "x"], "mixed")):
        assert {record.output for record in scored(own, answers * 2).details.conditions} == {kind}
    with pytest.raises(ArgumentError, match="got <LongICL on tacred"):
        race(long_icl_on(small_files, ["tacred"]), always(0), always(0))


@pytest.mark.parametrize("parsing", PARSINGS)
def test_scores_are_those_of_the_experimentors(small_files: Path, parsing: str) -> None:
    benchmark = long_icl_on(small_files, parsing=parsing)
    function = rightly(benchmark, wrong=lambda number: number % 3 == 0)
    result = benchmark(function)
    for own in benchmark:
        found = result["Divided results"][own.name]
        assert found == scored(own, [function(prompt, []) for prompt in own.prompt_set()]).values
        assert found["mean"] == (found["1R"] + found["2R"]) / 2
        assert found["settings"] == own.settings()
        assert 0 < found["1R"] < found["2R"]
    for key in ("1R", "2R", "mean"):
        values = [found[key] for found in result["Divided results"].values()]
        assert result["Averaged results"][key] == pytest.approx(sum(values) / 6)
    assert result["Averaged results"]["uniform"] is None  # Few-NERD has none, and says why
    assert "not defined" in result.details["few_nerd"].missing["uniform"]
    assert result.complete


def test_intervals_and_baselines(small_files: Path) -> None:
    benchmark = long_icl_on(small_files, ["banking77", "dialogre"], statistics=Statistics(tried=3))
    result = benchmark(rightly(benchmark, wrong=lambda number: number < 3))
    own = result.details["banking77"]
    part = ratio_part([1] * 9 + [0] * 3, [1] * 12, 0.95)
    interval = own.intervals["1R"]
    assert (interval.low, interval.high) == pytest.approx((part.value - part.below, part.value + part.above))
    assert own.intervals["mean"].low < result.divided["banking77"]["mean"] < own.intervals["mean"].high
    assert result.means.intervals["1R"].low < result.averaged["1R"] < result.means.intervals["1R"].high
    assert (own.baselines["1R"].uniform, own.baselines["1R"].tried, own.baselines["1R"].queries) == (1 / 77, 3, 12)
    assert own.baselines["1R"].majority == 1 / 12
    assert own.baselines["2R"].p_value < own.baselines["1R"].p_value < 1e-9
    # Nine of the ten rows that differ are right: one outcome of 1,024 is more extreme, ten are as extreme as this one.
    observed_share = 1 - 0.0214 * 12**0.5
    one_try = (1 + 10 * observed_share) / 1024
    assert own.baselines["1R"].p_value_majority == pytest.approx(1 - (1 - one_try) ** 3)
    assert "majority label" not in str(result)
    frequent = result.divided["banking77"]["majority_label"]
    assert "Not better than always the majority label (all 2 conditions; p > 0.05): banking77." in str(
        benchmark(lambda **_: frequent)
    )
    f1 = result.divided["dialogre"]["1R"]
    assert result.details["dialogre"].intervals["1R"].low < f1 < result.details["dialogre"].intervals["1R"].high
    assert result.details["dialogre"].baselines == {}
    assert result.divided["dialogre"]["uniform"] == 1 / 34
    right = rightly(benchmark, wrong=lambda number: number % 2 == 0)
    other = benchmark(lambda prompt, label_space: f"{right(prompt, label_space)}, {label_space[0]}")
    for key in ("1R", "2R", "mean"):
        values = {line.dataset: line.values for line in compare(result, other, key).datasets}
        expected = {name: (own[key], other.divided[name][key]) for name, own in result.divided.items()}
        assert values == {name: pytest.approx(pair) for name, pair in expected.items()}
    without = experimentor_on(small_files, "tacred", statistics=Statistics(intervals=False))
    assert scored(without, right_answers(without)).details.intervals == {}


# -- failures are never wrong


class TooLongRun(NamedTuple):
    """A run of rounds 1, 5, 2 with twelve items each, of which the model cannot read the fifth."""

    result: Result
    limit: int
    prompts: list[str]
    log: str


@pytest.fixture
def too_long_run(small_files: Path, caplog: pytest.LogCaptureFixture) -> TooLongRun:
    benchmark = long_icl_on(small_files, ["banking77"], [1, 5, 2])
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


def test_collected_failures(small_files: Path) -> None:
    benchmark = long_icl_on(small_files, ["goemotions"])
    odd = {query.prompt for query in benchmark[0].round_queries(2)[:3]}

    def function(prompt: str, label_space: list[str]) -> int:
        if prompt in odd:
            raise RuntimeError(f"refused after {len(prompt)} characters")
        return 0

    with pytest.raises(OutputError, match=r"LongICL, goemotions, 2R, query 0: .*refused"):
        benchmark(function)
    result = benchmark(function, on_error="collect")
    own, details = result.divided["goemotions"], result.details["goemotions"]
    assert own["1R"] is not None
    assert own["2R"] is None
    assert own["rounds"]["2R"]["answered"] == 9
    assert list(own["rounds"]["2R"]["unanswered"].values()) == [3]  # reasons that differ in numbers only
    assert (details.scored, details.failed) == (12, 3)
    assert details.missing["2R"].startswith("not scored: 3 of 12 queries were not answered")
    assert sum(counts["gold"] for counts in own["rounds"]["2R"]["labels"].values()) == 9


def test_a_result_with_failed_queries_of_items_with_several_labels_can_be_saved_and_loaded(
    small_files: Path, tmp_path: Path
) -> None:
    benchmark = long_icl_on(small_files, ["few_nerd"])
    failing = set(benchmark[0].prompt_set()[::5])
    result = benchmark(lambda prompt, label_space: None if prompt in failing else "no idea", on_error="collect")
    assert result.details["few_nerd"].failed == len(failing)
    result.save(tmp_path / "r.json")
    assert load(tmp_path / "r.json") == result


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


def test_habits_are_read(small_files: Path) -> None:
    for parsing, right in (("library", list(HABITS)), ("published", ["plain"])):
        own = experimentor_on(small_files, "goemotions", [1], 20, parsing=parsing)
        gold = [item.gold[0] for item in own.test_items]
        runs = {name: scored(own, [text.format(label=label) for label in gold]) for name, text in HABITS.items()}
        assert [name for name, run in runs.items() if run.values["mean"] == 1.0] == right
    unread = runs["reasoning"].details
    assert len(unread.unparsed) == 20
    note = '20 of 20 replies are unparsed and count as wrong, such as (no label): "<think>Could be'
    assert any(text.startswith(note) for text in unread.notes), f"got {unread.notes}"


def test_a_reply_without_a_label_may_end_the_run(small_files: Path) -> None:
    benchmark = long_icl_on(small_files, ["goemotions"], limit=20, parsing="library", unparsed="error")
    asked: list[str] = []

    def function(prompt: str, label_space: list[str]) -> str:
        asked.append(prompt)
        if zlib.crc32(prompt.encode()) % 5 == 0:
            raise WithheldReplyError("the server withheld the reply")
        return "joy"

    with pytest.raises(OutputError, match=r"GoEmotions, round 1, query \d+ .*withheld the reply"):
        benchmark(function)
    assert len(asked) == 20  # the second round is not asked


# -- verification


@pytest.mark.parametrize(
    "settings",
    [{"instruct": True}, {"parsing": "library"}, {"rounds": (2,), "limit": None}],
)
def test_verification_rebuilds_the_benchmark(small: Path, settings: dict[str, Any]) -> None:
    result = long_icl_on(small, ["goemotions", "tacred"], **settings)(always("x"))
    assert [found.same for found in verify(result, data_dir=small)] == [True, True, None]
    assert status_of(verify(result, data_dir=small)) == Recomputed()
    path = small / "goemotions_train.tsv"
    path.write_text(path.read_text().replace("text", "word"))
    assert [found.same for found in verify(result, data_dir=small)[:2]] == [False, True]


def test_a_result_of_another_version_is_no_contradiction(small: Path) -> None:
    plain = long_icl_on(small, ["goemotions"])(always("x")).to_dict()
    plain["arguments"]["arrangement"] = "interleaved"  # an argument that this version does not take
    (finding,) = verify(Result.from_dict(plain), data_dir=small)[:1]
    assert finding.contradicted == ()
    assert "takes no argument 'arrangement' in StaICC" in finding.unchecked[0]
    assert isinstance(status_of([finding]), Unchecked)


@pytest.mark.parametrize("unparsed", ["wrong", "excluded"])
def test_replies_without_a_label_are_predicted_again(small_files: Path, unparsed: str) -> None:
    benchmark = long_icl_on(small_files, ["goemotions"], unparsed=unparsed, statistics=Statistics(tried=3))

    def model(prompt: str, label_space: list[str]) -> str:
        return f"{label_space[len(prompt) % 28]}{' or not' * (len(prompt) % 3 == 0)}"

    result = benchmark(model)
    unread = len(result.details["goemotions"].unparsed)
    assert 0 < unread < 24
    for own in result.details[
        "goemotions"
    ].baselines.values():  # of all queries: those that are left out count as wrong
        guesser = RandomBaseline(own.queries, 1 / 28)
        assert own.max_random == guesser.max_random_baseline(3)
        assert own.queries == 12
    others: dict[Any, int] = {model: 0, lambda **query: f"{model(**query)} or not": 24 - unread}
    for again, differing in others.items():
        message = verify(result, benchmark, rerun=Rerun(again, 24))[-1].message
        assert "24 of 24 queries predicted again (seed" in message
        assert f": {differing} differ" in message


def test_skipped_data_sets_are_recomputed_and_missing_ones_are_unchecked(small: Path) -> None:
    complete = long_icl_on(small, ["goemotions", "tacred"])(always("x"))
    path = small / "tacred_train.json"
    content = path.read_bytes()
    path.unlink()
    result = long_icl_on(small, ["goemotions", "tacred"])(always("x"))
    assert result.details["tacred"].asked == 0
    found = verify(complete, data_dir=small)
    assert isinstance(status_of(found), Unchecked)
    assert found[0].status == Recomputed()
    for _ in range(2):
        assert status_of(verify(result, data_dir=small)) == Recomputed()
        path.write_bytes(content)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        *((("Divided results", "tacred", key), 0.5) for key in ("1R", "majority")),
        *(
            (("Divided results", "tacred", *keys), 1)
            for keys in (("settings", "limit"), ("rounds", "2R", "score", "correct"))
        ),
        *((("Averaged results", "2R"), 0.5), (("signature", "data"), "0" * 12), (("details", "tacred", "asked"), 1)),
        *((("details", "tacred", *keys), 0.5) for keys in (("baselines", "1R", "p_value"), ("intervals", "1R", "low"))),
        (("details", "tacred", "conditions", 0, "truth", 3), 0),
    ],
)
def test_edits_are_named(small_files: Path, path: tuple[Any, ...], value: Any) -> None:
    benchmark = long_icl_on(small_files, ["tacred", "dialogre"])
    result = benchmark(rightly(benchmark, wrong=lambda number: number % 3 == 0))
    assert [found.contradicted for found in verify(result, benchmark)] == [(), (), ()]
    plain = json.loads(json.dumps(result.to_dict()))
    assert value_at(plain, path) != value
    plain = edited(plain, path, value)
    for findings in (verify(Result.from_dict(plain), benchmark), verify(Result.from_dict(plain), data_dir=small_files)):
        reported = [line for found in findings for line in found.contradicted]
        assert any(line.startswith(" / ".join(map(str, path)) + ": saved ") for line in reported), reported
    for inner in (("answered",), ("unparsed",), ("items", 3, 1)):
        with pytest.raises(SchemaError, match=f"1R, {inner[0]}"):
            Result.from_dict(edited(plain, ("Divided results", "dialogre", "rounds", "1R", *inner), "x"))


def replies_of_several_labels(own: LongICLExperimentor) -> list[Any]:
    """Right replies, wrong ones, replies without a label, an empty one, a failed query in the second round."""
    replies: list[Any] = list(right_answers(own))
    other_replies = replies[1:] + replies[:1]
    for number in range(0, len(replies), 3):
        replies[number] = other_replies[number]
    replies[1], replies[4] = "no idea", ""
    replies[-1] = Failure("refused")
    return replies


@pytest.mark.parametrize("unparsed", ["wrong", "excluded"])
@pytest.mark.parametrize("parsing", PARSINGS)
@pytest.mark.parametrize("name", ["few_nerd", "dialogre"])
def test_results_of_several_labels_are_verified_from_their_records(
    small_files: Path, tmp_path: Path, name: str, parsing: str, unparsed: str
) -> None:
    benchmark = long_icl_on(small_files, [name], parsing=parsing, unparsed=unparsed)
    result = benchmark(preentered_prediction=[replies_of_several_labels(benchmark[0])], on_error="collect")
    assert 0 < result.divided[name]["1R"] < 1
    assert isinstance(status_of(verify(result, benchmark)), Recomputed)
    file = tmp_path / "result.json"
    result.save(file)
    plain = json.loads(file.read_text("utf-8"))
    items = ("Divided results", name, "rounds", "1R", "items")
    position = next(place for place, item in enumerate(value_at(plain, items)) if item[3])
    _, gold, predicted, correct = value_at(plain, (*items, position))
    edits: dict[str, tuple[tuple[Any, ...], Any]] = {
        "a true label": ((*items, position, 1, 0), "x"),
        "no prediction": ((*items, position, 2), []),
        "one more prediction": ((*items, position, 2), [*predicted, gold[0]]),
        "a correct label less": ((*items, position, 3), correct[1:]),
        "another score": (("Divided results", name, "1R"), 0.123),
        "a count of a label": (("Divided results", name, "rounds", "1R", "labels", gold[0], "gold"), 99),
        "a score of the round": (("Divided results", name, "rounds", "1R", "score", "f1"), 0.123),
        "items left out": (items, value_at(plain, items)[1:]),
    }
    for edit, (path, value) in edits.items():
        findings = verify(Result.from_dict(edited(plain, path, value)), benchmark)
        assert any(found.contradicted for found in findings), f"{edit}: nothing is contradicted"


@pytest.mark.parametrize("keys", [("temperature",), ("files", "test", "source"), ("files", "third")])
def test_a_setting_that_no_run_records_is_contradicted(small_files: Path, keys: tuple[str, ...]) -> None:
    benchmark = long_icl_on(small_files, ["tacred", "dialogre"])
    result = benchmark(rightly(benchmark))
    for dataset in ("tacred", "dialogre"):
        plain = json.loads(json.dumps(result.to_dict()))
        settings = plain["Divided results"][dataset]["settings"]
        for key in keys[:-1]:
            settings = settings[key]
        settings[keys[-1]] = "x"
        contradicted = [line for found in verify(Result.from_dict(plain), benchmark) for line in found.contradicted]
        place = " / ".join(("Divided results", dataset, "settings", *keys))
        assert contradicted == [f"{place}: saved 'x', but runs record no such setting"]


def test_items_after_the_last_scored_pair_of_dialogre_are_named(small_files: Path) -> None:
    """The published score ends at pair 500; here at pair 5, because the made-up data are small."""
    data = long_icl_on(small_files, ["dialogre"])[0].data
    card = replace(data.card, scoring=replace(data.card.scoring, stop_at=5))
    short = replace(data, card=card)
    unlimited = LongICLExperimentor(short, rounds=(1,), limit=None)
    warnings = scored(unlimited, right_answers(unlimited)).warnings
    pairs = [len(item.gold) for item in unlimited.test_items]
    scored_count = next(count for count in range(len(pairs)) if sum(pairs[:count]) >= 5)
    unscored_count = len(pairs) - scored_count
    assert unscored_count > 0
    queried = f"{unscored_count} of {len(pairs)} items are queried, but not scored"
    assert any(line.startswith(f"the published score ends at pair 5: {queried}") for line in warnings), (
        f"got {warnings}"
    )
    limited = LongICLExperimentor(short, rounds=(1,), limit=5)
    assert [line for line in scored(limited, right_answers(limited)).warnings if "not scored" in line] == []


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
def folders(small_files: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("options")
    for name in ("small", "copy", "changed"):
        shutil.copytree(small_files, home / name)
    path = home / "changed" / "discovery_test.tsv"
    path.write_text(path.read_text("utf-8").replace("text", "word"), "utf-8", newline="")
    return home


def run(home: Path, **options: Any) -> Result:
    options = {"datasets": ["discovery", "tacred"], "verify": True, **options}  # without published digests

    def model(prompt: str, label_space: list[str]) -> str:
        return label_space[zlib.crc32(prompt.encode()) % 3]

    return long_icl_on(home / options.pop("data_dir", "small"), **options)(model)


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


@pytest.mark.parametrize("name", ["discovery", "tacred", "few_nerd", "dialogre"])
def test_a_limit_above_the_number_of_items_is_none(small_files: Path, name: str) -> None:
    def signature(number: int | None) -> Any:
        return long_icl_on(small_files, [name], [1], number).signature()

    items = long_icl_on(small_files, [name], [1], None)[0].test_items
    count = sum(len(item.gold) if name == "dialogre" else 1 for item in items)
    assert {signature(number) for number in (count, count + 1, 10**9)} == {signature(None)}
    assert "limit" not in signature(None).fields
    assert signature(count - 1).fields["limit"] == str(count - 1)


def test_warnings_of_a_data_set_without_records_contradict_nothing(small_files: Path) -> None:
    """The file has no records of Few-NERD and DialogRE, so that their warnings are taken from it."""
    benchmark = long_icl_on(small_files, ["dialogre", "banking77"])
    result = benchmark(rightly(benchmark, wrong=lambda number: number < 3))
    for name in ("dialogre", "banking77"):
        assert f"{name}: the files are not known to be the published ones" in result.warnings
        assert any(text.startswith(f"{name}: ") and "unparsed" in text for text in result.warnings), (
            f"got {result.warnings}"
        )
    contradicted = [line for found in verify(result, data_dir=small_files) for line in found.contradicted]
    assert [line for line in contradicted if "warnings" in line] == []
