"""Running: order, batches, failures and their reasons, progress."""

from __future__ import annotations

import hashlib
import io
import math
import pickle
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from StaICC import Normal
from StaICC.errors import OutputError, PromptTooLongError
from StaICC.inference.replies import Failure, alike, checked, recorded_failure, says_too_long
from StaICC.inference.runner import AnswerCollector, Part, RunOptions, predict_queries
from StaICC.inference.store import BoundStore, PredictionStore
from StaICC.progress import Progress, ProgressLine
from StaICC.prompting.prompt_writer import Query, as_argument

LABELS = ("no", "yes")


def query(prompt: str | tuple[str, ...], labels: tuple[str, ...] = LABELS) -> Query:
    return Query(prompt, labels, 0, 0, 0)


def queries(number: int) -> list[Query]:
    return [query(f"prompt {place}") for place in range(number)]


def row_of(prompt: Any, label_space: Sequence[str]) -> list[float]:
    """A row that only this prompt has."""
    text = "|".join(prompt) if isinstance(prompt, list) else prompt
    return [hashlib.sha256(f"{text}\0{label}".encode()).digest()[0] / 1.0 for label in label_space]


def fails_at_seven(prompt: str, label_space: list[str]) -> list[float]:
    if prompt == "prompt 7":
        raise KeyError("seven")
    return row_of(prompt, label_space)


class Counting:
    """A function that remembers what it was asked."""

    def __init__(self, answer: Callable[[Any, list[str]], Any] = row_of) -> None:
        self.asked: list[Any] = []
        self._answer = answer

    def __call__(self, prompt: Any, label_space: list[str]) -> Any:
        self.asked.append(prompt)
        return self._answer(prompt, label_space)


class Batching:
    """A kernel whose batched form remembers its batches, and may fail at some prompts."""

    def __init__(self, bad: Iterable[str] = (), failure: Callable[[list[Any]], Any] | None = None) -> None:
        self.batches: list[list[Any]] = []
        self._bad = set(bad)
        self._failure = failure

    def __call__(self, prompt: Any, label_space: list[str]) -> Any:
        raise AssertionError("the batched form is there to be used")

    def batch(self, prompts: list[Any], label_space: list[str]) -> Any:
        self.batches.append(prompts)
        if self._bad & set(prompts):
            if self._failure is not None:
                return self._failure(prompts)
            raise MemoryError("too long")
        return [row_of(prompt, label_space) for prompt in prompts]


# -- what is asked


def test_the_function_is_called_by_keyword_with_lists_of_its_own() -> None:
    seen = []

    def function(*args: Any, **given: Any) -> int:
        assert not args
        seen.append(given)
        given["label_space"].append("spoilt")
        return 0

    assert predict_queries(function, [query("a"), query("b"), query(("c", "d"))], "Test") == [0, 0, 0]
    assert [call["prompt"] for call in seen] == ["a", "b", ["c", "d"]]
    assert [call for call in seen if call["label_space"] != [*LABELS, "spoilt"]] == []


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from([LABELS, ("yes", "no"), ("x",)])), max_size=30))
def test_each_distinct_pair_is_asked_once(pairs: list[tuple[str, tuple[str, ...]]]) -> None:
    function = Counting()
    answers = predict_queries(function, [query(prompt, labels) for prompt, labels in pairs], "Test")
    assert answers == [row_of(prompt, labels) for prompt, labels in pairs]
    assert len(function.asked) == len(set(pairs))


def test_prompts_that_share_a_prefix_can_follow_each_other_in_both_channels() -> None:
    function = Counting()
    shuffled = [query(text) for text in ["b1", ("b", "c"), "a2", "b2", ("a", "c"), "a1", "a2"]]
    answers = predict_queries(function, shuffled, "Test", RunOptions(group_prefixes=True))
    assert function.asked == [["a", "c"], ["b", "c"], "a1", "a2", "b1", "b2"]
    assert answers == [row_of(as_argument(one.prompt), LABELS) for one in shuffled]


# -- batched functions


@pytest.mark.parametrize("size", [None, 1, 3, 100])
def test_a_batch_attribute_gets_whole_chunks(size: int | None) -> None:
    kernel = Batching()
    asked = queries(10)
    assert predict_queries(kernel, asked, "Test", RunOptions(chunk_size=size)) == [
        row_of(one.prompt, LABELS) for one in asked
    ]
    assert [len(batch) for batch in kernel.batches] == {None: [10], 1: [1] * 10, 3: [3, 3, 3, 1], 100: [10]}[size]


@pytest.mark.parametrize("channel", [False, True])
@pytest.mark.parametrize(("size", "sizes"), [(None, [3, 3, 2]), (4, [4, 4])])
def test_chunks_of_long_prompts_have_fewer(channel: bool, size: int | None, sizes: list[int]) -> None:
    texts = [f"{place} {'x' * (6_000_000 if place % 4 else 1)}" for place in range(8)]
    kernel, seen = Counting(), []

    def batch(prompts: list[Any], label_space: list[str]) -> list[Any]:
        seen.append(len(prompts))
        return [kernel(prompt, label_space) for prompt in prompts]

    kernel.batch = batch  # type: ignore[attr-defined]
    asked = [query((text, "") if channel else text) for text in texts]
    answers = predict_queries(kernel, asked, "Test", RunOptions(chunk_size=size))
    assert answers == [row_of(as_argument(own.prompt), LABELS) for own in asked]
    assert seen == sizes


def test_a_function_that_its_user_calls_batched_gets_the_list_as_it_stands() -> None:
    seen = []

    def batched(prompt: list[str], label_space: list[str]) -> list[int]:
        seen.append((prompt, label_space))
        return [0] * len(prompt)

    asked = [query("b"), query("a"), query("b")]
    options = RunOptions(batched=True, store=object())  # type: ignore[arg-type]  # it is not used
    assert predict_queries(batched, asked, "Test", options) == [0, 0, 0]
    assert seen == [(["b", "a", "b"], list(LABELS))]
    for by_name in (lambda label_space, prompts: [prompts.index("b")], lambda *, prompt, **_: [prompt.index("b")]):
        assert predict_queries(by_name, asked[:1], "Test", options) == [0]


# -- failures


def test_a_failure_ends_the_run_with_place_and_cause() -> None:
    with pytest.raises(OutputError) as caught:
        predict_queries(fails_at_seven, queries(20), Part("Normal, TREC", 4, 10))
    message = "Normal, TREC, query 7: the inference function raised KeyError: 'seven' (at test_runner.py:"
    assert str(caught.value).startswith(message)
    assert isinstance(caught.value.__cause__, KeyError)
    function = Counting(lambda prompt, labels: [math.nan, 0.0] if prompt == "prompt 3" else [0.0, 1.0])
    with pytest.raises(OutputError, match=r"query 3: .* cannot be scored: the value for label 'no' is nan") as caught:
        predict_queries(function, queries(20), "Normal, TREC")
    assert isinstance(caught.value.__cause__, OutputError)
    assert len(function.asked) == 4


def test_collecting_goes_on_and_says_what_failed() -> None:
    function = Counting(lambda prompt, labels: 1 / 0 if prompt in ("prompt 3", "prompt 5") else 1)
    asked = [*queries(8), query("prompt 3")]
    answers = predict_queries(function, asked, "Test", RunOptions(on_error="collect"))
    failed = {number for number, answer in enumerate(answers) if isinstance(answer, Failure)}
    assert failed == {3, 5, 8}
    assert len(function.asked) == 8
    failure = answers[3]
    assert isinstance(failure, Failure)
    assert failure.reason.startswith("the inference function raised ZeroDivisionError: division by zero (at ")
    assert isinstance(failure.cause, ZeroDivisionError)


@pytest.mark.parametrize("failing", [set(), {0}, {3, 5}, {2, 7, 11}, set(range(12))], ids=str)
@pytest.mark.parametrize("stored", [0, 4])
@pytest.mark.parametrize("kind", ["one prompt", "batched form", "all in one call"])
def test_each_distinct_query_is_counted_as_computed_reused_or_failed(
    failing: set[int], stored: int, kind: str, tmp_path: Path
) -> None:
    """The counts are those of the provenance of a result. A failed query is not computed."""
    bad_prompts = {f"prompt {number}" for number in failing}
    function: Any = Counting(lambda prompt, labels: 1 / 0 if prompt in bad_prompts else 1)
    is_one_call = kind == "all in one call"
    if kind == "batched form":
        function = Batching(bad_prompts)
    if is_one_call:
        stored = 0  # predictions of one call are not stored
        function = lambda prompt, label_space: [math.nan if text in bad_prompts else 1 for text in prompt]  # noqa: E731

    asked = [*queries(12), *queries(3)]
    good_queries = [query for query in queries(12) if query.prompt not in bad_prompts]
    reused = good_queries[:stored]
    with PredictionStore(tmp_path / "s") as opened:
        store = BoundStore(opened, "model")
        store.put_many([((query.prompt, query.label_space), row_of(query.prompt, LABELS)) for query in reused])
        options = RunOptions(batched=is_one_call, store=None if is_one_call else store, on_error="collect")
        answers = predict_queries(function, asked, "Test", options)
    distinct_failures = sum(isinstance(answer, Failure) for answer in answers[:12])
    counts = options.counter.counts
    if is_one_call:  # the call has each query
        assert counts["failed"] == sum(isinstance(answer, Failure) for answer in answers)
        assert counts["computed"] + counts["failed"] == len(asked)
        return
    assert distinct_failures == len(failing)
    assert (counts["failed"], counts["reused"]) == (len(failing), len(reused))
    assert counts["computed"] == 12 - len(failing) - len(reused)


@pytest.mark.parametrize("bad", [{"prompt 5"}, {"prompt 0"}, {"prompt 9"}, {"prompt 2", "prompt 3", "prompt 8"}])
def test_a_failing_batch_is_halved_to_the_guilty_query(bad: set[str]) -> None:
    kernel = Batching(bad)
    asked = queries(10)
    answers = predict_queries(kernel, asked, "Test", RunOptions(on_error="collect"))
    for one, answer in zip(asked, answers, strict=True):
        if one.prompt in bad:
            assert isinstance(answer, Failure)
            assert answer.reason.startswith("the batched inference function raised MemoryError: too long (at ")
        else:
            assert answer == row_of(one.prompt, LABELS)
    assert len(kernel.batches) <= 1 + 2 * len(bad) * math.ceil(math.log2(10))


@pytest.mark.parametrize(
    ("failure", "message"),
    [
        (lambda prompts: None, "the batched function returned None (does the function end without a return?), "),
        (lambda prompts: [[0.0, 1.0]] * (len(prompts) + 1), "the batched function returned 2 answers for 1 prompts"),
        (lambda prompts: [], "the batched function returned 0 answers for 1 prompts"),
    ],
)
def test_a_batch_of_a_wrong_shape_is_no_exception_of_the_function(
    failure: Callable[[list[Any]], Any], message: str
) -> None:
    with pytest.raises(OutputError) as caught, pytest.warns(RuntimeWarning, match="one prediction for each prompt"):
        predict_queries(Batching(["prompt 2"], failure), queries(4), "Test")
    assert str(caught.value).startswith(f"Test, query 2: {message}")


def test_one_bad_answer_in_a_batch_does_not_cost_the_others() -> None:
    kernel = Batching(["prompt 2"], lambda prompts: ["maybe" if prompt == "prompt 2" else 1 for prompt in prompts])
    answers = predict_queries(kernel, queries(4), "Test", RunOptions(on_error="collect"))
    assert len(kernel.batches) == 1
    assert [isinstance(answer, Failure) for answer in answers] == [False, False, True, False]
    with pytest.raises(OutputError, match=r"^Test, query 2: unparsed reply \(no label\): .maybe.; expected one"):
        predict_queries(kernel, queries(4), "Test")


# -- progress


def reports(asked: Sequence[Query], function: Any, **options: Any) -> list[Progress]:
    reported: list[Progress] = []
    predict_queries(function, asked, Part("Normal, TREC", 4, 10), RunOptions(progress=reported.append, **options))
    return reported


@pytest.mark.parametrize("options", [{}, {"chunk_size": 3}, {"batched": True}, {"group_prefixes": True}])
def test_progress_never_goes_back_and_ends_at_the_total(options: dict[str, Any]) -> None:
    function = (lambda prompts, label_space: [0] * len(prompts)) if "batched" in options else Batching()
    reported = reports(queries(10), function, **options)
    done = [one.done for one in reported]
    assert (done, done[0], done[-1]) == (sorted(done), 0, 10)
    assert [one for one in reported if one.total != 10] == []


# -- rate and time left: from invented reports, whose truth is known


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_a_run_reports_what_was_stored_and_what_failed(tmp_path):
    seen: list[Progress] = []

    def fails(prompt: str, label_space: list[str]) -> int:
        if len(prompt) % 5 == 0:
            raise ValueError
        return 0

    benchmark = Normal(datasets=["mini"], limit=20)
    settings = {"store": tmp_path / "s", "model_name": "f", "on_error": "collect"}
    result = benchmark(fails, progress=seen.append, **settings)
    failed = result.details["mini"].failed
    assert failed > 0
    assert (seen[0].stored, seen[-1].failed, seen[-1].done) == (0, failed, 40)
    seen.clear()
    benchmark(fails, progress=seen.append, **settings)
    assert (seen[0].done, seen[0].stored, seen[-1].done) == (40 - failed, 40 - failed, 40)


def test_the_line_shows_part_rate_and_time_left(monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    clock, stream = Clock(), Terminal()
    line = ProgressLine(stream, clock=clock)
    line(Progress(200, 200, "Suite, SST2", 1, 10, 150))
    for done in range(0, 101, 10):
        line(Progress(done, 400, "Suite, TREC", 2, 10, 0, 3 if done > 50 else 0))
        clock.now += 10
    shown = stream.getvalue().split("\r")
    assert shown[1] == "[3/10] Suite, TREC: 2 % |....................| 10/400, 10 s, 6/s, 7 min left"
    assert shown[-1] == "[3/10] Suite, TREC: 25 % |#####...............| 100/400, 3 failed, 2 min, 1/s, 40 min left"
    line.close()
    assert re.fullmatch(r"\r *\r", stream.getvalue()[-len(shown[-1]) - 2 :])
    line.close()


# -- which failures say that a prompt is longer than the model's limit


TOO_LONG = [
    "prompt 3 has 40123 tokens, but the model reads 32768 at most; use fewer demonstrations",
    "Error code: 400 - This model's maximum context length is 4096 tokens, however you requested 5012 tokens",
    "context_length_exceeded",
    "input length and `max_tokens` exceed context limit: 199000 + 8192 > 200000",
    "the request exceeds the available context size. try increasing the context size or enable context shift",
    "prompt is too long: 210000 tokens > 200000 maximum",
    "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096",
    "the inference function raised ValueError: the prompt (40123 tokens) is too long for this model (at f.py:3)",
    "input length 9000 exceeds max_model_len 8192",
    "This is longer than the maximum sequence length (512)",
]
OTHERS = [
    "the server took too long to answer",
    "the query timed out; waiting was too long",
    "got label index 99, expected 0 to 76",
    "the inference function raised KeyError: 'length'",
    "",
]


@pytest.mark.parametrize("reason", [*TOO_LONG, *OTHERS])
def test_which_messages_say_that_a_prompt_is_too_long(reason: str) -> None:
    assert says_too_long(reason) is (reason in TOO_LONG)


def test_the_type_of_an_exception_says_that_a_prompt_is_too_long() -> None:
    failures: list[Any] = [checked(error("it has 9 tokens"), LABELS) for error in (PromptTooLongError, OutputError)]
    assert [failure.is_too_long for failure in failures] == [True, False]

    from_worker = [pickle.loads(pickle.dumps(failure)) for failure in failures]
    assert [failure.is_too_long for failure in from_worker] == [True, False]
    saved = [recorded_failure(failure.reason) for failure in failures]
    assert [failure.is_too_long for failure in saved] == [True, False]


def test_a_prompt_that_is_too_long_ends_a_run_with_an_error_of_that_type() -> None:
    def infer(prompt: str, label_space: list[str]) -> int:
        raise PromptTooLongError("it has 9 tokens")

    with pytest.raises(PromptTooLongError, match=r"query 0: .*it has 9 tokens"):
        predict_queries(infer, queries(1), "test")


@given(st.lists(st.tuples(st.sampled_from(["has {} tokens", "refused", "{} (at /x/y.py:{})"]), st.integers(0, 10**6))))
def test_alike_counts_everything_once(reported: list[tuple[str, int]]) -> None:
    reasons: dict[str, int] = {}
    for form, number in reported:
        reason = form.format(number, number)
        reasons[reason] = reasons.get(reason, 0) + 1
    found = alike(reasons)
    assert sum(count for _, count in found) == len(reported)
    assert len(found) == len({form for form, _ in reported})
    assert [count for _, count in found] == sorted((count for _, count in found), reverse=True)
    assert [reason for reason, _ in found if ".py" in reason] == []


def test_the_error_names_the_first_query_that_failed_whichever_failed_first() -> None:
    collector = AnswerCollector(RunOptions(), Part("Test"), 2, {})
    early, late = ("early prompt", LABELS), ("late prompt", LABELS)
    collector.deliver([late], [Failure("it failed first")])
    collector.deliver([early], [Failure("it failed later")])
    with pytest.raises(OutputError, match="Test, query 3: it failed later"):
        collector.refuse_failures({early: 3, late: 7})


def test_an_interrupt_while_predictions_are_stored_forgets_none() -> None:
    kept: list[Any] = []
    calls = iter([KeyboardInterrupt])

    def put_many(pairs: list[Any]) -> dict[Any, Any]:
        for error in calls:
            raise error
        kept.extend(pairs)
        return {}

    collector = AnswerCollector(RunOptions(store=SimpleNamespace(put_many=put_many)), Part("Test"), 1, {})  # type: ignore[arg-type]
    with pytest.raises(KeyboardInterrupt):
        collector.deliver([("prompt", LABELS)], [1])
    collector.commit()
    assert kept == [(("prompt", LABELS), 1)]
