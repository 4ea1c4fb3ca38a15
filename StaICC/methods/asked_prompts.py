"""What a method asked on a data set: its prompts, for costs, warnings, the provenance."""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from StaICC.benchmarks.base_experimentor import BaseExperimentor
from StaICC.benchmarks.forecast import ForecastOptions, Tasks
from StaICC.errors import StaICCError
from StaICC.inference.contract import Inference
from StaICC.inference.identity import code_mark
from StaICC.inference.model_warnings import model_warnings
from StaICC.inference.prompt_key import PromptKey
from StaICC.inference.replies import Failure
from StaICC.inference.runner import Part, RunOptions
from StaICC.kernels.text_inference import TextInference
from StaICC.methods.features import FeatureCache, text_count
from StaICC.methods.kernel_functions import KernelFunction, of_kernel
from StaICC.methods.requests import MODEL_ITSELF, Request, Role, is_named
from StaICC.methods.unlabelled_queries import UnlabelledQuery
from StaICC.prompting.prompt_text import Prompt, PromptParts
from StaICC.prompting.prompt_writer import Query, parts_of_prompt
from StaICC.results.signature import digest


@dataclass(frozen=True)
class AskedFunction:
    """An inference function that a method sent prompts to: a model, or a function that calls the model."""

    cache: FeatureCache
    """The cache of the model, which also has the functions that call the model."""
    feature: Any
    """:data:`MODEL_ITSELF` for the model; otherwise the function without its model, such as that of the noisy
    channel."""

    @property
    def inference(self) -> Inference:
        """The function with its model."""
        return self.cache.function(self.feature)


@dataclass(frozen=True)
class AskedRequest:
    """A request of a method, computed by a model."""

    request: Request
    cache: FeatureCache
    """The cache of the model."""

    @property
    def function(self) -> AskedFunction:
        """The inference function that computed the request.

        A feature with a name, such as ``"hidden"``, is computed by the model itself. Any other feature is a function
        that calls the model.
        """
        feature = self.request.feature
        if is_named(feature):
            feature = MODEL_ITSELF
        return AskedFunction(self.cache, feature)


@dataclass
class AskedPrompts:
    """The requests of a method on a data set that were computed."""

    requests: list[AskedRequest] = field(default_factory=list)
    """The requests in their order."""
    predicted: dict[AskedFunction, dict[PromptKey, Any]] = field(default_factory=dict)
    """For each inference function its prompts with their predictions; ``None`` for a prompt of which only other
    features, such as the hidden state, were requested."""

    def add(self, cache: FeatureCache, request: Request, rows: Sequence[Any]) -> None:
        """Add a request that was computed. Of its rows, only predictions are kept, since other features are large.

        Args:
            cache: The cache of the model that computed it.
            request: The request.
            rows: The feature of each prompt of the request.
        """
        asked_request = AskedRequest(request, cache)
        self.requests.append(asked_request)
        if not of_kernel(request.feature):
            return  # a text encoder computed it, which is no inference function
        function = asked_request.function
        predictions = self.predicted.setdefault(function, {})
        # If the model itself computed another feature than its predictions, the rows are that feature.
        rows_are_predictions = request.feature == function.feature
        for key, row in zip(request.keys, rows, strict=True):
            if rows_are_predictions:
                predictions[key] = row
            else:
                predictions.setdefault(key, None)

    def number_of_texts(self, role: Role) -> int:
        """Return how many distinct texts the models read in the requests of a role.

        A prompt is one text; in the noisy channel, it is one text for each label. If several features of a prompt were
        requested, it counts once, because one run of the model computes them.

        Args:
            role: ``"train"`` or ``"test"``.
        """
        distinct_prompts: set[tuple[AskedFunction, PromptKey]] = set()
        for asked_request in self.requests:
            if asked_request.request.role == role:
                for key in asked_request.request.keys:
                    distinct_prompts.add((asked_request.function, key))
        return sum(text_count(prompt) for _, (prompt, _) in distinct_prompts)

    def warnings(self) -> list[str]:
        """Return the warnings of the inference functions about the prompts that they were asked."""
        warnings = []
        for function, predictions in self.predicted.items():
            warnings += model_warnings(function.inference, list(predictions), list(predictions.values()))
        return warnings

    def tokens_alone(self) -> float:
        """Return how many tokens the models would read and at most generate if this method were run without a cache.

        The number is NaN if that of a model is unknown.
        """
        requests_by_model: dict[FeatureCache, list[Request]] = {}
        for asked_request in self.requests:
            if of_kernel(asked_request.request.feature):
                requests_by_model.setdefault(asked_request.cache, []).append(asked_request.request)
        return sum(_forecast_tokens(requests, cache.kernel) for cache, requests in requests_by_model.items())

    def demonstrations_per_query(self, data: BaseExperimentor) -> list[int] | None:
        """Return for each query of a data set how many distinct demonstrations the model was shown for it.

        A method may send several prompts for one test example, such as with other demonstrations or templates. A
        demonstration that several of them show counts once.

        Args:
            data: The data set with the prompts that the predictions answer.

        Returns:
            A number for each query of the data set. ``None`` if the numbers are unknown: because it is unknown which
            demonstrations a prompt shows, or for which query a prompt with demonstrations was sent.
        """
        sent_queries = self._sent_test_queries(data)
        if sent_queries is None:
            return None
        # A test example is a row of the test set in one repeat of the experiment.
        demonstrations_of_example: defaultdict[tuple[int, int], set[object]] = defaultdict(set)
        for sent_query in sent_queries:
            if sent_query.parts is None:
                return None
            demonstrations = demonstrations_of_example[sent_query.row, sent_query.repeat]
            demonstrations.update(_distinct_demonstrations(sent_query.parts))
        return [len(demonstrations_of_example[query.row, query.repeat]) for query in data.all_queries()]

    def _sent_test_queries(self, data: BaseExperimentor) -> Iterator[Query | UnlabelledQuery] | None:
        """Return the queries that the method sent in requests of the role ``"test"``, with the prompts that were sent.

        A request may have prompts without queries. Such a prompt is taken for that of each query of the data set with
        the same prompt.

        Args:
            data: The data set with the prompts that the predictions answer.

        Returns:
            The queries; ``None`` if it is unknown for which query a prompt that shows rows of the demonstration set
            was sent.
        """
        queries_of_requests: list[Sequence[Query | UnlabelledQuery]] = []
        prompts_without_query: set[Prompt] = set()
        for asked_request in self.requests:
            request = asked_request.request
            if request.role != "test":
                continue
            if isinstance(request.prompts, BaseExperimentor):
                queries_of_requests.append(request.prompts.all_queries())
            elif request.queries:
                queries_of_requests.append(request.queries)
            else:
                prompts_without_query.update(prompt for prompt, _ in request.prompts)

        if prompts_without_query:
            queries_with_prompt = [query for query in data.all_queries() if query.prompt in prompts_without_query]
            queries_of_requests.append(queries_with_prompt)
            unknown_prompts = prompts_without_query - {query.prompt for query in queries_with_prompt}
            if any(_shows_known_rows(prompt) for prompt in unknown_prompts):
                return None
        return itertools.chain.from_iterable(queries_of_requests)

    def asks(self, model: Inference) -> bool:
        """Return whether a model computed any of the requests."""
        return any(asked_request.cache.kernel is model for asked_request in self.requests)

    def digest(self) -> str:
        """Return a digest of the requests: of their features, roles, models, and prompts with their labels."""
        facts = []
        for asked_request in self.requests:
            request = asked_request.request
            facts.append([_feature_text(request.feature), request.role, asked_request.cache.digest, request.keys])
        return digest(facts)


def _shows_known_rows(prompt: Prompt) -> bool:
    """Return whether a demonstration of a prompt is known to be a row of the demonstration set."""
    parts = parts_of_prompt(prompt)
    if parts is None:
        return False
    return any(demonstration.position is not None for demonstration in parts.demonstrations)


def _distinct_demonstrations(parts: PromptParts) -> set[object]:
    """Return by what the demonstrations of a prompt are distinguished.

    That is the position in the demonstration set; for a demonstration from elsewhere, the demonstration itself.
    """
    distinct: set[object] = set()
    for demonstration in parts.demonstrations:
        if demonstration.position is None:
            distinct.add(demonstration)
        else:
            distinct.add(demonstration.position)
    return distinct


def _feature_text(feature: Any) -> str:
    """Return a text that identifies a feature, without the kernel that computes it, for a digest."""
    if is_named(feature):
        return feature
    if isinstance(feature, KernelFunction):
        name, facts = feature.added_identity()
        return f"{name} {facts.digest}"
    if isinstance(feature, TextInference):
        return repr(feature)
    return code_mark(feature)


def _forecast_tokens(requests: Sequence[Request], kernel: Inference) -> float:
    """Return how many tokens a kernel would read and at most generate for requests; NaN if that is unknown.

    An empty cache collects the distinct calls of the kernel that the requests need. Their tokens are forecast, so the
    model computes nothing.
    """
    tasks = Tasks(kernel)
    empty_cache = FeatureCache(kernel, compute=partial(_collect_queries, tasks))
    empty_cache.rows(requests)
    try:
        forecast = tasks.forecast(ForecastOptions(probe_seconds=0))
    except StaICCError:  # a prompt that the model cannot read; it fails when it is computed
        return math.nan
    if forecast.tokens is None or forecast.output_tokens is None:
        return math.nan
    if forecast.tokenizer is not None:
        return math.nan  # an estimate for a served model, which would not compare with the tokens that it counts
    return forecast.tokens + forecast.output_tokens


def _collect_queries(
    tasks: Tasks, function: Inference, queries: Sequence[Query], part: Part, options: RunOptions
) -> list[Failure]:
    """Add the queries of a call to a forecast, and return a failure in the place of each prediction.

    It takes the place of :func:`StaICC.inference.runner.predict_queries`, whose arguments follow the first one.
    """
    tasks.add(function, queries, options)
    return [Failure("it is only counted")] * len(queries)
