"""The forecast of a run: how many prompts, tokens, seconds it costs before it is made."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from StaICC.argument_syntax import argument_and_option, in_both_syntaxes
from StaICC.benchmarks.context import RunContext, RunSettings
from StaICC.errors import ArgumentError, OutputError
from StaICC.inference.contract import Answer, Inference, planned_checks, planned_requests, tokens_used
from StaICC.inference.forecast import COUNTED_IN_PROBE, Forecast, forecast_prompts
from StaICC.inference.planned_requests import (
    CACHED_BLOCK,
    ESTIMATE,
    LEAST_CACHED,
    PlannedRequest,
    RequestCounter,
    TokenCounter,
    byte_size,
)
from StaICC.inference.prices import Prices, prices_of
from StaICC.inference.prompt_key import PromptKey, characters
from StaICC.inference.recheck import may_cost_money
from StaICC.inference.replies import Chunk, Failure, chunk_evaluator
from StaICC.inference.runner import RunOptions, chunks_of, distinct_keys, keys_of
from StaICC.inference.store import PredictionStore, refuse_stray_log
from StaICC.prompting.prompt_writer import Query
from StaICC.registry import import_reference

PROBE_SECONDS = 4.0
"""Duration of the probe in seconds by default, if its requests cost nothing."""
CLOCK = time.perf_counter
"""Returns the time in seconds."""
PROBED_CHUNKS = 16
"""About how many chunks the probe takes prompts from: few enough for its seconds, enough for short and long prompts."""
PROBED_PROMPTS = 16
"""The maximum number of prompts that the probe predicts of a chunk."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ForecastOptions:
    """Options of a forecast.

    Raises:
        ArgumentError: A value is invalid.
    """

    store: str | os.PathLike[str] | PredictionStore | None = None
    """The store of the run; its predictions are not computed again."""
    model_name: str | None = None
    """The model name of the run (:class:`~StaICC.benchmarks.context.RunSettings`)."""
    chunk_size: int | None = None
    """The queries of a chunk of the run."""
    recheck: bool | None = None
    """Whether the run computes some of the stored predictions again."""
    probe_seconds: float | None = None
    """Duration of the probe in seconds; 0 predicts nothing. ``None`` for :data:`PROBE_SECONDS`, or for 0 if requests of
    the function may cost money."""
    prices: Sequence[float] | None = None
    """Cost of a million tokens that the model reads, of a million that it generates, and maybe of a million that it
    reads from the provider's prompt cache."""
    currency: str = ""
    """The currency of the prices, as costs show it."""
    tokenizer: str | Callable[[str], int] | None = None
    """Counts the tokens of a function that does not count them before a run, such as a served model: the name of a
    local model, or a function of a text. ``None`` estimates those of a served model by bytes."""

    def __post_init__(self) -> None:
        """Check the duration of the probe and the prices."""
        seconds = self.probe_seconds
        if seconds is not None:
            is_number = isinstance(seconds, (int, float)) and not isinstance(seconds, bool)
            if not is_number or not 0 <= seconds < 1e6:
                raise ArgumentError(f"probe_seconds: got {seconds!r}, expected a number of seconds of at least 0")
        if self.prices is not None:
            prices_of(self.prices)  # It raises an error for wrong prices, before the probe takes time.
        if self.currency and self.prices is None:
            raise ArgumentError(f"currency: got {self.currency!r} without prices, expected both")

    def seconds_of_probe(self, function: Inference) -> float:
        """Return the duration of the probe of a function; 0 if nothing is predicted."""
        if self.probe_seconds is not None:
            return self.probe_seconds
        if may_cost_money(function):
            return 0.0
        return PROBE_SECONDS

    def token_counter(self, function: Inference) -> TokenCounter | None:
        """Return what counts the tokens of a function that does not count them before a run.

        Returns:
            The tokenizer that the user names, or the estimate by bytes for a served model. ``None`` for other
            functions, because nothing is known of a model that they may have.
        """
        if self.tokenizer is not None:
            # This room does not know the kernels, so the function is named.
            named_counter = import_reference("StaICC.kernels.token_counter:token_counter")
            counter: TokenCounter = named_counter(self.tokenizer)
            return counter
        if may_cost_money(function) or planned_requests(function) is not None:
            return ESTIMATE
        return None

    def context(self) -> RunContext:
        """Return the context of the forecast, which has the settings of the run.

        A store whose file does not exist is left out, because the context would create the file.

        Raises:
            SchemaError: The file of the store does not exist, but its log does.
        """
        store = self.store
        if isinstance(store, (str, os.PathLike)) and not os.path.exists(store):
            refuse_stray_log(store)
            store = None
        settings: RunSettings = {
            "model_name": self.model_name,
            "chunk_size": self.chunk_size,
            "progress": False,
            "recheck": self.recheck,
            "store": store,
        }
        return RunContext(False, **settings)


def forecast(parts: Iterable[Sequence[Query]], function: Inference, grouped: bool = False, **options: Any) -> Forecast:
    """Return the forecast of a run: its prompts, tokens, seconds and cost. Nothing is stored.

    Nothing is sent to a server whose requests may cost money, unless ``probe_seconds`` says so.

    Args:
        parts: The queries of each part of the run.
        function: The inference function.
        grouped: Whether prompts with a common prefix follow each other, as in groups of benchmarks.
        **options: Those of :class:`ForecastOptions`.

    Raises:
        ArgumentError: An argument is invalid.
        OutputError: A prediction of the probe failed.
    """
    forecast_options = ForecastOptions(**options)
    tasks = Tasks(function)
    with forecast_options.context() as context:
        context.start([function])
        run_options = context.options_for(function, group_prefixes=grouped)
        queries_of_parts = list(parts)
        for number, queries in enumerate(queries_of_parts):
            tasks.add(function, queries, run_options, parts_left=len(queries_of_parts) - number)
            tasks.query_count += len(queries)
        return tasks.forecast(forecast_options)


@dataclass(frozen=True, slots=True)
class _Call:
    """A chunk of prompts that an inference function predicts in one call."""

    function: Inference
    chunk: Chunk

    def forecast(self, kept: tuple[int, ...] = ()) -> Forecast:
        """Return the forecast of the call: its numbers of tokens and positions.

        Args:
            kept: The tokens of the prompt before, whose states the kernel still has. A prompt that begins with the
                same tokens costs less (:func:`~StaICC.inference.forecast.forecast_prompts`).
        """
        prompts = [prompt for prompt, _ in self.chunk]
        _, label_space = self.chunk[0]  # that of all prompts of a chunk
        return forecast_prompts(self.function, prompts, label_space, kept=kept)

    def requests(self) -> Iterable[PlannedRequest]:
        """Yield the requests for the prompts, as a served model sends them; other functions read the prompt."""
        plan = planned_requests(self.function)
        for prompt, label_space in self.chunk:
            if plan is not None:
                yield from plan(prompt, label_space)
            elif isinstance(prompt, str):
                yield PlannedRequest(prompt)
            else:  # one text for each label, in the noisy channel
                yield PlannedRequest("".join(prompt))

    def work(self, forecast: Forecast) -> int:
        """Return the work of the call: a number to which its duration is assumed to be proportional.

        The work is the number of positions (tokens of prompts) that the model computes, plus the number of tokens that
        it generates. For a function that does not count positions, it is the number of characters of the prompts.

        Args:
            forecast: The forecast of the call.
        """
        if forecast.positions is None:
            return sum(characters(prompt) for prompt, _ in self.chunk)
        return forecast.positions + (forecast.output_tokens or 0)


class _Counting:
    """Counts the tokens of calls: by the inference function where it can, otherwise of the requests that it will send.

    Args:
        token_counter: Counts the tokens of requests; ``None`` leaves those unknown that the function does not count.

    Attributes:
        counted_by: The name of the token counter, if it counted any tokens.
    """

    def __init__(self, token_counter: TokenCounter | None) -> None:
        """Begin without counts. One counter counts all requests: it counts a beginning that they share once."""
        self.counted_by: str | None = None
        self._token_counter = token_counter
        self._request_counter: RequestCounter | None = None
        if token_counter is not None:
            self._request_counter = RequestCounter(token_counter)

    def forecast(self, call: _Call, kept: tuple[int, ...]) -> Forecast:
        """Return the forecast of a call; ``kept`` as for :meth:`_Call.forecast`."""
        forecast = call.forecast(kept=kept)
        if forecast.tokens is not None or self._token_counter is None or self._request_counter is None:
            return forecast
        self.counted_by = self._token_counter.name
        return _requested(call.requests(), self._request_counter)

    def forecast_checks(self, checks: Sequence[PlannedRequest]) -> Forecast:
        """Return the forecast of the requests that check a server; of none, if the function counts its tokens."""
        if self.counted_by is None or self._token_counter is None:
            return Forecast()
        # Checks have random digits at their beginning, so that nothing of them is cached.
        return replace(_requested(checks, RequestCounter(self._token_counter)), longest_prompt=None)


@dataclass(frozen=True, slots=True)
class _CountedCalls:
    """The calls of a run with their tokens, before a probe measures their time."""

    forecast: Forecast
    """The sum of the forecasts of the calls."""
    work: int
    """The work of all calls (:meth:`_Call.work`)."""
    fitting_calls: Sequence[_Call]
    """The calls whose prompts are within the limit of the model, from which a probe can take prompts."""
    counted_by: str | None
    """The name of the token counter; ``None`` if the inference function counted all tokens."""


def _requested(requests: Iterable[PlannedRequest], counter: RequestCounter) -> Forecast:
    """Return the forecast of requests to a served model: the sums of their tokens, and the longest prompt.

    Args:
        requests: The requests, in the order in which the run sends them.
        counter: Counts the tokens of a request, and those that the server has from the request before.
    """
    total = Forecast(positions=None)
    for request in requests:
        tokens = counter.count(request)
        longest_prompt = None
        if request.output_tokens is not None:
            longest_prompt = tokens.read + request.output_tokens
        total += Forecast(
            tokens=tokens.read,
            cached_tokens=tokens.cached,
            positions=None,
            output_tokens=request.output_tokens,
            longest_prompt=longest_prompt,
        )
    return total


def _fits(forecast: Forecast) -> bool:
    """Return whether the longest prompt of a forecast is within the limit of the model.

    ``True`` is also returned if the length or the limit is unknown.
    """
    longest_prompt = forecast.longest_prompt or 0
    limit = forecast.limit or math.inf
    return longest_prompt <= limit


class Tasks:
    """The calls that a run will make, with the number of its queries, distinct prompts and stored predictions.

    Args:
        kernel: The inference function of the run. If it counts the tokens of its requests, the probe reads them.

    Attributes:
        query_count: The number of queries, which the caller adds.
        distinct_count: The number of distinct prompts.
        cached_count: The number of distinct prompts whose prediction is in the store.
        new_calls: The calls for the prompts whose prediction is not in the store.
    """

    def __init__(self, kernel: Inference) -> None:
        """Begin without any calls: :meth:`add` adds those of each part of the run."""
        self.query_count = 0
        self.distinct_count = 0
        self.cached_count = 0
        self.new_calls: list[_Call] = []
        self._rechecked_calls: list[_Call] = []
        self._checks: list[PlannedRequest] = []
        self._longest_checked = ""
        self._kernel = kernel

    def add(
        self, function: Inference, queries: Sequence[Query], options: RunOptions, parts_left: int = 1
    ) -> dict[PromptKey, Answer]:
        """Add the calls for the queries of a part of the run, and return the stored predictions of its prompts.

        A part is a data set, or several that are predicted together. A call is a chunk of distinct prompts. There are
        two kinds: calls for prompts whose prediction is not in the store, and calls that compute some of the stored
        predictions again, to compare them (a recheck).

        Args:
            function: The inference function.
            queries: The queries.
            options: The options of the run, with its store.
            parts_left: The number of parts that are not added yet, this one included.
        """
        keys = distinct_keys(keys_of(queries), options.group_prefixes)  # pairs of a prompt and its label space
        stored: dict[PromptKey, Answer] = {}
        if options.store is not None:
            stored = options.store.get_many(keys)
        self.distinct_count += len(keys)
        self.cached_count += len(stored)

        no_stored: dict[PromptKey, Answer] = {}  # Rechecked prompts are predicted although they are in the store.
        for chunk in chunks_of(_rechecked_keys(keys, stored, options, parts_left), no_stored, function, options):
            self._rechecked_calls.append(_Call(function, chunk))
        for chunk in chunks_of(keys, stored, function, options):
            self.new_calls.append(_Call(function, chunk))

        new_prompts = [prompt for prompt, label_space in keys if (prompt, label_space) not in stored]
        self._add_checks(function, new_prompts)
        return stored

    def _add_checks(self, function: Inference, prompts: Sequence[Any]) -> None:
        """Add the requests that a served model sends before the prompts of a part, to check the server.

        Args:
            function: The inference function.
            prompts: The prompts that it predicts.
        """
        plan = planned_checks(function)
        if plan is None or not prompts:
            return
        texts = []
        for prompt in prompts:
            if isinstance(prompt, str):
                texts.append(prompt)  # unchanged: a PromptText has its parts, which a check may be about
            else:
                texts.append("".join(prompt))  # the noisy channel: the texts of all labels together
        longest = max(texts, key=byte_size)
        self._checks += plan(longest, self._longest_checked)
        self._longest_checked = max(self._longest_checked, longest, key=byte_size)

    def forecast(self, options: ForecastOptions, certain: bool = True) -> Forecast:
        """Return the forecast of all calls: tokens, seconds and cost.

        The seconds are measured: a probe predicts some prompts that fit into the model. Without a probe they are
        ``None``, and 0 if there is nothing to compute.

        Args:
            options: Duration of the probe, and prices.
            certain: Whether a run will have exactly these prompts, so that the number of tokens can be exact.
        """
        counted = self._count(options.token_counter(self._kernel))
        total = counted.forecast
        if counted.counted_by is None:
            # The inference function counts its tokens itself, without those that a provider caches.
            is_exact = certain and total.tokens is not None
            total = replace(total, exact=is_exact, cached_tokens=None, tokenizer=None)
        else:
            total = replace(total, exact=False, tokenizer=counted.counted_by)

        has_calls = bool(self._rechecked_calls or self.new_calls)
        total = replace(total, seconds=None if has_calls else 0.0)
        probe_seconds = options.seconds_of_probe(self._kernel)
        if probe_seconds and counted.fitting_calls:
            total = self._with_probe(total, counted.work, counted.fitting_calls, probe_seconds)
        elif has_calls and may_cost_money(self._kernel):
            total = _with_remark(total, _NOTHING_SENT)
        if has_calls and options.tokenizer is not None and counted.counted_by is None:
            total = _with_remark(total, _OWN_TOKENIZER)
        if options.prices is not None:
            total = _with_cost(total, prices_of(options.prices), options.currency)
        return total

    def _count(self, token_counter: TokenCounter | None) -> _CountedCalls:
        """Return the sum of the forecasts of all calls, in the order of the run, without seconds.

        Each call gets the tokens that the kernel still keeps from the call before (``kept``), because a common
        beginning of two prompts is computed once. Stored predictions that the run computes again, to compare them, are
        counted as ``rechecked``.

        Args:
            token_counter: Counts the tokens of requests that the inference function does not count.
        """
        total = Forecast(self.query_count, self.distinct_count, self.cached_count)
        work = 0
        fitting_calls: list[_Call] = []
        counting = _Counting(token_counter)
        for number, call in enumerate([*self._rechecked_calls, *self.new_calls]):
            forecast = counting.forecast(call, kept=total.kept)
            work += call.work(forecast)
            if _fits(forecast):
                fitting_calls.append(call)
            is_recheck = number < len(self._rechecked_calls)
            if is_recheck:
                forecast = replace(forecast, rechecked=len(call.chunk), recheck_tokens=forecast.tokens)
            total += forecast
        total += counting.forecast_checks(self._checks)
        return _CountedCalls(total, work, fitting_calls, counting.counted_by)

    def _with_probe(self, total: Forecast, total_work: int, calls: Sequence[_Call], seconds: float) -> Forecast:
        """Return a forecast with the seconds of all calls, and with their tokens if these are still unknown.

        Both are measured in the probe and extrapolated by the work (:meth:`_Call.work`). If the probe does a tenth of
        the work in 3 seconds, all calls take 30 seconds. Tokens stay unknown if the function does not count the tokens
        of its requests.

        Args:
            total: The forecast without the seconds.
            total_work: The work of all calls.
            calls: The calls that the probe takes prompts from.
            seconds: The maximum duration of the probe.
        """
        tokens_before = tokens_used(self._kernel)
        probe = _probe(calls, seconds)
        tokens_after = tokens_used(self._kernel)
        with_seconds = replace(total, seconds=probe.seconds * total_work / probe.measured_work)
        is_counted = total.tokens is not None and total.tokenizer != ESTIMATE.name
        if is_counted:
            return with_seconds
        if not tokens_before or not tokens_after:
            return with_seconds
        read_before, generated_before = tokens_before
        read_after, generated_after = tokens_after
        read_tokens = read_after - read_before
        generated_tokens = generated_after - generated_before
        if read_tokens <= 0:
            return with_seconds
        predicted_share = probe.predicted_work / total_work
        tokens = round(read_tokens / predicted_share)
        cached_tokens = total.cached_tokens
        if total.tokens and total.cached_tokens:
            cached_tokens = round(total.cached_tokens * tokens / total.tokens)
        return replace(
            with_seconds,
            tokens=tokens,
            cached_tokens=cached_tokens,
            output_tokens=round(generated_tokens / predicted_share),
            tokenizer=COUNTED_IN_PROBE,
        )


def _rechecked_keys(
    keys: Sequence[PromptKey], stored: Mapping[PromptKey, Answer], options: RunOptions, parts_left: int
) -> list[PromptKey]:
    """Return the prompts whose stored predictions a run computes again in a part of the run, to compare them.

    They are chosen at random, by the counter that a run has in its options: it gets the predictions of the part that
    are reused, and returns those that are to be computed again.

    Args:
        keys: The distinct prompts of the part.
        stored: The predictions of those prompts that are in the store.
        options: The options of the run.
        parts_left: The number of parts that are not added yet, this one included.
    """
    n_characters = sum(characters(prompt) for prompt, _ in keys)
    options.counter.count_reused(stored, lambda key: "", size=n_characters)  # A forecast needs no names of places.
    computes_new_predictions = len(stored) < len(keys)
    rechecked = options.counter.choose_for_recheck(parts_left, computes_new=computes_new_predictions)
    return [prediction.key for prediction in rechecked]


_NOTHING_SENT = (
    "Nothing was sent to the server, whose requests may cost money: the time is unknown. With "
    f"{argument_and_option('probe_seconds')} some prompts are predicted to measure it."
)
_NO_TOKENS = "The cost is unknown: this model does not count the tokens of its prompts."
_OWN_TOKENIZER = "The inference function counted the tokens itself, so the given tokenizer was not used."


def _with_remark(forecast: Forecast, remark: str) -> Forecast:
    """Return a forecast with one more remark."""
    return replace(forecast, remarks=(*forecast.remarks, remark))


def _with_cost(forecast: Forecast, prices: Prices, currency: str) -> Forecast:
    """Return a forecast with the cost of its tokens, and with a remark about the provider's cache.

    Args:
        forecast: The forecast.
        prices: The prices.
        currency: Their currency.
    """
    tokens = forecast.tokens
    output_tokens = forecast.output_tokens
    if tokens is None or output_tokens is None:
        return _with_remark(forecast, _NO_TOKENS)
    full_cost = prices.cost(tokens, output_tokens)
    forecast = replace(forecast, cost=full_cost, currency=currency)
    if forecast.cached_tokens is None:
        if prices.cached is None:
            return forecast
        return _with_remark(forecast, "Nothing is known about caching: all tokens are counted at the full price.")
    if forecast.cached_tokens == 0:
        return forecast
    if prices.cached is None:
        third_price = in_both_syntaxes("the third price", "--cached-price")
        return _with_remark(
            forecast,
            f"Nothing is known about the price of cached tokens: {forecast.cached_tokens:,} tokens with which a prompt "
            f"begins as the prompt before have the full price here. Give theirs as {third_price}.",
        )
    cost = prices.cost(tokens, output_tokens, forecast.cached_tokens)
    return _with_remark(
        replace(forecast, cost=cost, cost_without_cache=full_cost),
        f"The cost assumes that the provider caches equal beginnings of at least {LEAST_CACHED:,} tokens in blocks of "
        f"{CACHED_BLOCK}, and keeps them for the run. Providers do not promise this.",
    )


@dataclass(slots=True)
class _Probe:
    """The work and the time of a probe, which predicts a few prompts to measure the speed of a function."""

    predicted_work: int = 0
    """The work of all prompts that were predicted."""
    measured_work: int = 0
    """The work of the prompts whose time was measured: all but the first."""
    seconds: float = 0.0
    """The time of the measured prompts."""


def _probe(calls: Sequence[_Call], limit: float) -> _Probe:
    """Predict some prompts, and return their work and time.

    The first prompt is not measured, because it may load the model. After it, up to :data:`PROBED_PROMPTS` prompts are
    taken from the inside of about :data:`PROBED_CHUNKS` chunks at equal distances.

    Args:
        calls: The calls that the prompts are taken from.
        limit: The number of seconds after which no further call is made; one call is measured in any case.

    Raises:
        OutputError: All predictions of a call failed.
    """
    began = CLOCK()
    probe = _Probe()
    first = calls[0]
    warm_up = _Call(first.function, first.chunk[:1])
    _predict(warm_up)
    probe.predicted_work += warm_up.work(warm_up.forecast())

    step = max(1, len(calls) // PROBED_CHUNKS)
    for index in range(0, len(calls), step):
        call = calls[index]
        start = len(call.chunk) // 3
        sample = _Call(call.function, call.chunk[start : start + PROBED_PROMPTS])
        call_began = CLOCK()
        _predict(sample)
        probe.seconds += CLOCK() - call_began
        work = sample.work(sample.forecast())
        probe.predicted_work += work
        probe.measured_work += work
        if CLOCK() - began > limit:
            break
    return probe


def _predict(call: _Call) -> None:
    """Predict the prompts of a call, and forget the predictions.

    Raises:
        OutputError: All predictions failed.
    """
    predictions = chunk_evaluator(call.function, "collect")(call.chunk)
    failures = [prediction for prediction in predictions if isinstance(prediction, Failure)]
    if len(failures) == len(predictions):
        raise OutputError(f"the probe of the forecast failed: {failures[0].reason}") from failures[0].cause
