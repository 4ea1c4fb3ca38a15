"""Running: order, batches, failures and their reasons, progress."""

from __future__ import annotations

import hashlib
import io
import math
import pickle
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from StaICC import Normal
from StaICC.errors import OutputError, PromptTooLongError
from StaICC.inference import runner
from StaICC.inference.replies import Failure, alike, checked_prediction, recorded_failure, says_too_long
from StaICC.inference.runner import AnswerCollector, Part, RunOptions, predict_queries
from StaICC.inference.store import BoundStore, PredictionStore
from StaICC.progress import Progress, ProgressLine
from StaICC.prompting.prompt_writer import Query, as_argument

LABELS = ("no", "yes")


def query(prompt: str | tuple[str, ...], labels: tuple[str, ...] = LABELS) -> Query:
    """Return a query with a prompt, or with the prompts of a noisy channel."""
    return Query(prompt, labels, label=0, row=0, repeat=0)


def queries(number: int) -> list[Query]:
    """Return so many queries, with the prompts "prompt 0", "prompt 1", and so on."""
    return [query(f"prompt {place}") for place in range(number)]


def row_of(prompt: Any, label_space: Sequence[str]) -> list[float]:
    """Return scores that only this prompt has."""
    text = "|".join(prompt) if isinstance(prompt, list) else prompt
    return [hashlib.sha256(f"{text}\0{label}".encode()).digest()[0] / 1.0 for label in label_space]


def is_failure(answers: Sequence[Any]) -> list[bool]:
    """Return for each answer whether it is a failure."""
    return [isinstance(answer, Failure) for answer in answers]


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
        self._bad = list(bad)
        self._failure = failure

    def __call__(self, prompt: Any, label_space: list[str]) -> Any:
        raise AssertionError("the batched form is there to be used")

    def batch(self, prompts: list[Any], label_space: list[str]) -> Any:
        self.batches.append(prompts)
        if any(prompt in self._bad for prompt in prompts):
            if self._failure is not None:
                return self._failure(prompts)
            raise MemoryError("too long")
        return [row_of(prompt, label_space) for prompt in prompts]


# -- what is asked


def test_the_function_is_called_by_keyword() -> None:
    calls = []

    def function(*positional: Any, **keywords: Any) -> int:
        calls.append((positional, keywords))
        return 0

    predict_queries(function, [query("a"), query(("c", "d"))], "Test")

    assert calls == [
        ((), {"prompt": "a", "label_space": list(LABELS)}),
        ((), {"prompt": ["c", "d"], "label_space": list(LABELS)}),
    ]


def test_a_function_that_changes_its_list_of_labels_changes_it_for_no_other_call() -> None:
    label_lists = []

    def function(prompt: str, label_space: list[str]) -> int:
        label_space.append("spoilt")
        label_lists.append(label_space)
        return 0

    assert predict_queries(function, [query("a"), query("b")], "Test") == [0, 0]
    assert label_lists == [[*LABELS, "spoilt"], [*LABELS, "spoilt"]]


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from([LABELS, ("yes", "no"), ("x",)])), max_size=30))
def test_each_distinct_pair_is_asked_once(pairs: list[tuple[str, tuple[str, ...]]]) -> None:
    function = Counting()
    answers = predict_queries(function, [query(prompt, labels) for prompt, labels in pairs], "Test")
    assert answers == [row_of(prompt, labels) for prompt, labels in pairs]
    assert len(function.asked) == len(set(pairs))


def test_prompts_that_share_a_prefix_can_follow_each_other() -> None:
    """They are called in order: first those of the noisy channel, which are pairs, then the others."""
    function = Counting()
    shuffled_prompts = ["b1", ("b", "c"), "a2", "b2", ("a", "c"), "a1", "a2"]
    shuffled = [query(prompt) for prompt in shuffled_prompts]

    answers = predict_queries(function, shuffled, "Test", RunOptions(group_prefixes=True))

    assert function.asked == [["a", "c"], ["b", "c"], "a1", "a2", "b1", "b2"]
    assert answers == [row_of(as_argument(prompt), LABELS) for prompt in shuffled_prompts]


# -- batched functions


@pytest.mark.parametrize(("chunk_size", "sizes"), [(None, [10]), (1, [1] * 10), (3, [3, 3, 3, 1]), (100, [10])])
def test_a_batched_form_gets_chunks_of_the_given_size(chunk_size: int | None, sizes: list[int]) -> None:
    kernel, ten_queries = Batching(), queries(10)
    answers = predict_queries(kernel, ten_queries, "Test", RunOptions(chunk_size=chunk_size))
    assert answers == [row_of(query.prompt, LABELS) for query in ten_queries]
    assert [len(batch) for batch in kernel.batches] == sizes


def chunk_sizes(prompts: list[Any], chunk_size: int | None) -> list[int]:
    """Return the numbers of prompts in the calls of a batched function, whose predictions are checked."""
    kernel = Batching()
    answers = predict_queries(kernel, [query(prompt) for prompt in prompts], "Test", RunOptions(chunk_size=chunk_size))
    assert answers == [row_of(as_argument(prompt), LABELS) for prompt in prompts]
    return [len(batch) for batch in kernel.batches]


@pytest.mark.parametrize("noisy_channel", [False, True])
def test_chunks_of_long_prompts_have_fewer_of_them(noisy_channel: bool) -> None:
    """The first and the fifth of eight prompts are short, the others have six million characters."""
    long_text = "x" * 6_000_000
    prompts: list[Any] = ["0"]
    prompts += [f"{number} {long_text}" for number in (1, 2, 3)]
    prompts += ["4"]
    prompts += [f"{number} {long_text}" for number in (5, 6, 7)]
    if noisy_channel:
        prompts = [(prompt, "") for prompt in prompts]

    assert chunk_sizes(prompts, chunk_size=None) == [3, 3, 2]
    assert chunk_sizes(prompts, chunk_size=4) == [4, 4], "a given size holds for long prompts, too"


NOT_USED_STORE: Any = object()


def test_a_function_that_its_user_calls_batched_gets_all_prompts_in_one_call() -> None:
    """In their order, and equal ones twice. A store is not used."""
    calls = []

    def batched(prompt: list[str], label_space: list[str]) -> list[int]:
        calls.append((prompt, label_space))
        return [0] * len(prompt)

    options = RunOptions(batched=True, store=NOT_USED_STORE)
    assert predict_queries(batched, [query("b"), query("a"), query("b")], "Test", options) == [0, 0, 0]
    assert calls == [(["b", "a", "b"], list(LABELS))]


@pytest.mark.parametrize(
    "function",
    [
        lambda label_space, prompts: [prompts.index("b")],
        lambda *, prompt, **_: [prompt.index("b")],
    ],
    ids=["prompts", "prompt"],
)
def test_the_argument_of_a_batched_function_may_be_named_prompt_or_prompts(function: Any) -> None:
    assert predict_queries(function, [query("b")], "Test", RunOptions(batched=True)) == [0]


# -- failures


def test_an_exception_ends_the_run_with_the_query_and_the_line_of_code() -> None:
    with pytest.raises(OutputError) as caught:
        predict_queries(fails_at_seven, queries(20), Part("Normal, TREC", 4, 10))
    message = "Normal, TREC, query 7: the inference function raised KeyError: 'seven' (at test_runner.py:"
    assert str(caught.value).startswith(message)
    assert isinstance(caught.value.__cause__, KeyError)


def test_a_prediction_that_cannot_be_scored_ends_the_run_at_its_query() -> None:
    function = Counting(lambda prompt, labels: [math.nan, 0.0] if prompt == "prompt 3" else [0.0, 1.0])
    with pytest.raises(OutputError, match=r"query 3: .* cannot be scored: the value for label 'no' is nan") as caught:
        predict_queries(function, queries(20), "Normal, TREC")
    assert isinstance(caught.value.__cause__, OutputError)
    assert function.asked == ["prompt 0", "prompt 1", "prompt 2", "prompt 3"]


def test_a_run_that_collects_failures_evaluates_all_queries() -> None:
    """Query 8 has the prompt of query 3, so it has failed, too, without another call."""

    def fails_at_3_and_5(prompt: str, labels: list[str]) -> int:
        if prompt in ("prompt 3", "prompt 5"):
            raise ValueError("no prediction")
        return 1

    function = Counting(fails_at_3_and_5)
    nine_queries = [*queries(8), query("prompt 3")]

    answers = predict_queries(function, nine_queries, "Test", RunOptions(on_error="collect"))

    failed = [number for number, answer in enumerate(answers) if isinstance(answer, Failure)]
    assert failed == [3, 5, 8]
    assert len(function.asked) == 8


def test_a_collected_failure_has_the_exception_and_where_it_was_raised() -> None:
    (failure,) = predict_queries(lambda prompt, label_space: 1 / 0, queries(1), "Test", RunOptions(on_error="collect"))
    assert isinstance(failure, Failure)
    assert failure.reason.startswith("the inference function raised ZeroDivisionError: division by zero (at ")
    assert isinstance(failure.cause, ZeroDivisionError)


FAILING = [set(), {0}, {3, 5}, {2, 7, 11}, set(range(12))]
"""Which of twelve queries fail."""


def raises_at(bad_prompts: set[str]) -> Counting:
    """Return a function that raises at some prompts and predicts label 1 for the others."""

    def predict(prompt: str, labels: list[str]) -> int:
        if prompt in bad_prompts:
            raise ValueError("no prediction")
        return 1

    return Counting(predict)


@pytest.mark.parametrize("failing", FAILING, ids=str)
@pytest.mark.parametrize("stored", [0, 4])
@pytest.mark.parametrize("make_function", [raises_at, Batching], ids=["one prompt", "batched form"])
def test_each_distinct_query_is_counted_as_computed_reused_or_failed(
    failing: set[int], stored: int, make_function: Callable[[set[str]], Any], tmp_path: Path
) -> None:
    """The counts are those of the provenance of a result. A failed query is not computed."""
    bad_prompts = {f"prompt {number}" for number in failing}
    good_queries = [query for query in queries(12) if query.prompt not in bad_prompts]
    stored_queries = good_queries[:stored]
    twelve_and_three_again = [*queries(12), *queries(3)]

    with PredictionStore(tmp_path / "s") as opened:
        store = BoundStore(opened, "model")
        for query in stored_queries:
            store.put_many([((query.prompt, query.label_space), row_of(query.prompt, LABELS))])
        options = RunOptions(store=store, on_error="collect")
        answers = predict_queries(make_function(bad_prompts), twelve_and_three_again, "Test", options)

    assert sum(is_failure(answers[:12])) == len(failing)
    counts = options.counter.counts
    assert counts["failed"] == len(failing)
    assert counts["reused"] == len(stored_queries)
    assert counts["computed"] == 12 - len(failing) - len(stored_queries)


@pytest.mark.parametrize(
    ("failing", "failed"),
    [(set(), 0), ({0}, 2), ({3, 5}, 2), ({2, 7, 11}, 4), (set(range(12)), 15)],
    ids=str,
)
def test_a_call_with_all_prompts_counts_each_of_them_as_computed_or_failed(failing: set[int], failed: int) -> None:
    """The call has prompts 0, 1 and 2 twice, and both are counted."""
    bad_prompts = {f"prompt {number}" for number in failing}

    def predict_all(prompt: list[str], label_space: list[str]) -> list[Any]:
        predictions: list[Any] = [1] * len(prompt)
        for index, prompt_of_query in enumerate(prompt):
            if prompt_of_query in bad_prompts:
                predictions[index] = math.nan
        return predictions

    options = RunOptions(batched=True, on_error="collect")
    answers = predict_queries(predict_all, [*queries(12), *queries(3)], "Test", options)

    assert sum(is_failure(answers)) == failed
    assert options.counter.counts["failed"] == failed
    assert options.counter.counts["computed"] == 15 - failed


@pytest.mark.parametrize("bad", [{"prompt 5"}, {"prompt 0"}, {"prompt 9"}, {"prompt 2", "prompt 3", "prompt 8"}])
def test_a_failing_batch_is_halved_until_only_the_failing_queries_are_failures(bad: set[str]) -> None:
    kernel, ten_queries = Batching(bad), queries(10)
    answers = predict_queries(kernel, ten_queries, "Test", RunOptions(on_error="collect"))
    for query, answer in zip(ten_queries, answers, strict=True):
        if query.prompt in bad:
            assert isinstance(answer, Failure), query.prompt
            assert answer.reason.startswith("the batched inference function raised MemoryError: too long (at ")
        else:
            assert answer == row_of(query.prompt, LABELS), query.prompt
    halvings = math.ceil(math.log2(10))  # until a batch has one query; each halving is two batches
    assert len(kernel.batches) <= 1 + 2 * len(bad) * halvings


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


def maybe_at_prompt_2(prompts: list[str]) -> list[Any]:
    """Reply to one prompt without a label, and to the others with the second label."""
    return ["maybe" if prompt == "prompt 2" else 1 for prompt in prompts]


def test_one_bad_answer_in_a_batch_is_one_failure_without_another_call() -> None:
    kernel = Batching(["prompt 2"], maybe_at_prompt_2)
    answers = predict_queries(kernel, queries(4), "Test", RunOptions(on_error="collect"))
    assert is_failure(answers) == [False, False, True, False]
    assert len(kernel.batches) == 1


def test_one_bad_answer_in_a_batch_ends_a_run_with_its_query() -> None:
    kernel = Batching(["prompt 2"], maybe_at_prompt_2)
    with pytest.raises(OutputError, match=r"^Test, query 2: unparsed reply \(no label\): .maybe.; expected one"):
        predict_queries(kernel, queries(4), "Test")


# -- progress


def predict_zero_for_all(prompts: list[str], label_space: list[str]) -> list[int]:
    return [0] * len(prompts)


@pytest.mark.parametrize(
    ("function", "options"),
    [
        pytest.param(Batching(), {}, id="all in one batch"),
        pytest.param(Batching(), {"chunk_size": 3}, id="batches of three"),
        pytest.param(Batching(), {"group_prefixes": True}, id="prompts that share a prefix in order"),
        pytest.param(predict_zero_for_all, {"batched": True}, id="a batched function"),
    ],
)
def test_progress_rises_from_zero_to_the_total(function: Any, options: dict[str, Any]) -> None:
    reports: list[Progress] = []

    predict_queries(function, queries(10), "Normal, TREC", RunOptions(progress=reports.append, **options))

    done = [report.done for report in reports]
    assert done == sorted(done)
    assert done[0] == 0
    assert done[-1] == 10
    for report in reports:
        assert report.total == 10


# -- rate and time left: from invented reports, whose truth is known


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def fails_at_some_lengths(prompt: str, label_space: list[str]) -> int:
    """Predict the first label, but raise an error at prompts whose length is a multiple of five."""
    if len(prompt) % 5 == 0:
        raise ValueError
    return 0


def test_the_last_report_of_a_run_counts_its_failures() -> None:
    reports: list[Progress] = []
    benchmark = Normal(datasets=["mini"], limit=20)

    result = benchmark(fails_at_some_lengths, progress=reports.append, on_error="collect")

    assert result.details["mini"].failed > 0
    assert reports[-1].failed == result.details["mini"].failed
    assert reports[-1].done == 40, "of twenty rows in two repeats"


def test_the_first_report_of_a_run_counts_the_stored_predictions(tmp_path: Path) -> None:
    """Failures are not stored, so a second run begins with the others."""
    reports_of_first_run: list[Progress] = []
    reports_of_second_run: list[Progress] = []
    benchmark = Normal(datasets=["mini"], limit=20)
    settings: Any = {"store": tmp_path / "s", "model_name": "f", "on_error": "collect"}

    result = benchmark(fails_at_some_lengths, progress=reports_of_first_run.append, **settings)
    benchmark(fails_at_some_lengths, progress=reports_of_second_run.append, **settings)

    stored = 40 - result.details["mini"].failed
    assert reports_of_first_run[0].stored == 0
    assert reports_of_second_run[0].stored == stored
    assert reports_of_second_run[0].done == stored
    assert reports_of_second_run[-1].done == 40


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """A terminal of 120 columns."""
    monkeypatch.setenv("COLUMNS", "120")
    return Terminal()


def test_the_line_shows_part_rate_and_time_left(terminal: Terminal) -> None:
    """The second part had 200 queries, of which 150 were stored and 50 computed. The third part has 400.

    Of the third part, ten queries are done every ten seconds. At first, the rate is that of both parts: (50 + 10)
    queries in ten seconds. At last, it is one query a second, that of the third part.
    """
    clock = Clock()
    line = ProgressLine(terminal, clock=clock)

    line(Progress(done=200, total=200, where="Suite, SST2", number=1, parts=10, stored=150))
    for done in range(0, 101, 10):
        failed = 3 if done > 50 else 0
        line(Progress(done=done, total=400, where="Suite, TREC", number=2, parts=10, stored=0, failed=failed))
        clock.now += 10

    shown = terminal.getvalue().split("\r")
    assert shown[1] == "[3/10] Suite, TREC: 2 % |....................| 10/400, 10 s, 6/s, 7 min left"
    assert shown[-1] == "[3/10] Suite, TREC: 25 % |#####...............| 100/400, 3 failed, 2 min, 1/s, 40 min left"


def test_the_line_is_erased_at_the_end(terminal: Terminal) -> None:
    clock = Clock()
    line = ProgressLine(terminal, clock=clock)
    for done in (0, 10, 20):
        line(Progress(done=done, total=400, where="Suite, TREC", number=2, parts=10))
        clock.now += 10
    written = terminal.getvalue()
    width = len(written.split("\r")[-1])

    line.close()
    line.close()  # a second time writes nothing

    assert width > 0
    assert terminal.getvalue().removeprefix(written) == "\r" + " " * width + "\r"


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


@pytest.mark.parametrize(("error", "is_too_long"), [(PromptTooLongError, True), (OutputError, False)])
def test_the_type_of_an_exception_says_that_a_prompt_is_too_long(error: type[Exception], is_too_long: bool) -> None:
    """Also of a failure that comes from a worker, and of one that was saved."""
    failure: Any = checked_prediction(error("it has 9 tokens"), LABELS)
    from_worker = pickle.loads(pickle.dumps(failure))
    from_result = recorded_failure(failure.reason)
    assert failure.is_too_long is is_too_long
    assert from_worker.is_too_long is is_too_long
    assert from_result.is_too_long is is_too_long


def test_a_prompt_that_is_too_long_ends_a_run_with_an_error_of_that_type() -> None:
    def infer(prompt: str, label_space: list[str]) -> int:
        raise PromptTooLongError("it has 9 tokens")

    with pytest.raises(PromptTooLongError, match=r"query 0: .*it has 9 tokens"):
        predict_queries(infer, queries(1), "test")


def test_failures_that_differ_in_numbers_only_are_counted_together() -> None:
    reasons = {"has 10 tokens": 1, "refused": 2, "has 7 tokens": 3}
    assert alike(reasons) == (("has 10 tokens", 4), ("refused", 2))


def test_a_group_of_failures_is_named_without_the_line_of_code() -> None:
    reasons = {"division by 0 (at /x/model.py:12)": 1, "division by 0 (at /x/model.py:30)": 1}
    assert alike(reasons) == (("division by 0", 2),)


@given(st.lists(st.tuples(st.sampled_from(["has {} tokens", "refused", "{} (at /x/y.py:{})"]), st.integers(0, 10**6))))
def test_each_failure_is_in_one_group_and_the_largest_groups_come_first(failures: list[tuple[str, int]]) -> None:
    counts = Counter(form.format(number, number) for form, number in failures)

    groups = alike(counts)

    forms = Counter(form for form, _ in failures)
    sizes = [size for _, size in groups]
    assert sizes == sorted(forms.values(), reverse=True)
    for reason, _ in groups:
        assert ".py" not in reason


def test_the_error_names_the_first_query_that_failed_whichever_failed_first() -> None:
    collector = AnswerCollector(RunOptions(), Part("Test"), 2, {})
    early, late = ("early prompt", LABELS), ("late prompt", LABELS)
    collector.deliver([late], [Failure("it failed first")])
    collector.deliver([early], [Failure("it failed later")])
    with pytest.raises(OutputError, match="Test, query 3: it failed later"):
        collector.refuse_failures({early: 3, late: 7})


class EmptyStore:
    """A store without predictions, which notes how many are stored at once."""

    def __init__(self) -> None:
        self.commits: list[int] = []

    def version(self) -> object:
        return 0

    def get_many(self, keys: Sequence[Any]) -> dict[Any, Any]:
        return {}

    def put_many(self, pairs: list[Any]) -> dict[Any, Any]:
        self.commits.append(len(pairs))
        return {}

    def claims(self) -> None:
        return None

    def refuse_read_only(self) -> None:
        pass


def test_fast_predictions_are_stored_in_large_commits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "_COMMIT_SECONDS", math.inf)
    store: Any = EmptyStore()
    predict_queries(row_of, queries(2500), "Test", RunOptions(store=store))
    assert store.commits == [1024, 1024, 452]


class InterruptedStore:
    """A store whose first writing is interrupted."""

    def __init__(self) -> None:
        self.was_interrupted = False
        self.stored: list[Any] = []

    def put_many(self, pairs: list[Any]) -> dict[Any, Any]:
        if not self.was_interrupted:
            self.was_interrupted = True
            raise KeyboardInterrupt
        self.stored.extend(pairs)
        return {}


def test_an_interrupt_while_predictions_are_stored_forgets_none() -> None:
    store: Any = InterruptedStore()
    collector = AnswerCollector(RunOptions(store=store), Part("Test"), 1, {})
    with pytest.raises(KeyboardInterrupt):
        collector.deliver([("prompt", LABELS)], [1])
    collector.commit()
    assert store.stored == [(("prompt", LABELS), 1)]
