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
from StaICC.prompting.prompt_text import PromptParts
from StaICC.prompting.prompt_writer import Prompt, Query, parts_of_prompt
from StaICC.results.signature import digest


@dataclass(frozen=True)
class AskedFunction:
    """An inference function whose predictions a method asked: a model, or a function that calls it."""

    cache: FeatureCache
    """The cache of the model."""
    feature: Any = MODEL_ITSELF
    """The function as a feature, such as the noisy channel; :data:`MODEL_ITSELF` for the model."""

    @property
    def inference(self) -> Inference:
        """The inference function."""
        return self.cache.function(self.feature)


@dataclass(frozen=True)
class AskedRequest:
    """A request that was computed."""

    request: Request
    cache: FeatureCache
    """That of the model that was asked."""

    @property
    def function(self) -> AskedFunction:
        """The function that was asked: the model itself computes the features that have a name."""
        if is_named(self.request.feature):
            return AskedFunction(self.cache)
        return AskedFunction(self.cache, self.request.feature)


@dataclass
class AskedPrompts:
    """The requests of a method on a data set that were computed."""

    requests: list[AskedRequest] = field(default_factory=list)
    """In the order in which they were asked."""
    predicted: dict[AskedFunction, dict[PromptKey, Any]] = field(default_factory=dict)
    """For each inference function its prompts with their predictions; ``None`` for a prompt of which only other
    features of the model were asked."""

    def add(self, cache: FeatureCache, request: Request, rows: Sequence[Any]) -> None:
        """Add a request with its rows. Of these, only predictions are kept, since other features are large.

        Args:
            cache: The cache of the model that was asked.
            request: The request.
            rows: Its rows.
        """
        asked = AskedRequest(request, cache)
        self.requests.append(asked)
        if not of_kernel(request.feature):
            return  # no inference function was asked
        function = asked.function
        predictions = self.predicted.setdefault(function, {})
        rows_are_predictions = request.feature == function.feature
        for key, row in zip(request.keys, rows, strict=True):
            if rows_are_predictions:
                predictions[key] = row
            else:
                predictions.setdefault(key, None)

    def number_of_texts(self, role: Role) -> int:
        """Return how many distinct texts the models read: in the noisy channel, a prompt has one for each label.

        Features of one prompt count once, since they come from one run of the model.
        """
        distinct: set[tuple[AskedFunction, PromptKey]] = set()
        for asked in self.requests:
            if asked.request.role == role:
                distinct.update((asked.function, key) for key in asked.request.keys)
        return sum(text_count(prompt) for _, (prompt, _) in distinct)

    def warnings(self) -> list[str]:
        """Return the warnings of the inference functions about the prompts that they were asked."""
        warnings = []
        for function, predictions in self.predicted.items():
            warnings += model_warnings(function.inference, list(predictions), list(predictions.values()))
        return warnings

    def tokens_alone(self) -> float:
        """Return the tokens that all requests read, and generate at most, if nothing is cached; NaN if unknown."""
        requests_by_model: dict[FeatureCache, list[Request]] = {}
        for asked in self.requests:
            if of_kernel(asked.request.feature):
                requests_by_model.setdefault(asked.cache, []).append(asked.request)
        return sum(_tokens_of(requests, cache.kernel) for cache, requests in requests_by_model.items())

    def demonstrations_per_query(self, data: BaseExperimentor) -> list[int] | None:
        """Return how many distinct demonstrations the model was shown for each query, in all its prompts.

        A query is a test row with its list of demonstrations. Conditions ask it with other templates or other labels of
        the same demonstrations.

        Args:
            data: The data set with the prompts that the predictions answer.

        Returns:
            A number for each query; ``None`` if it is unknown: a prompt does not know its parts, or shows rows of the
            demonstration set and was asked without the query that it is about.
        """
        queries = self._queries_asked(data)
        if queries is None:
            return None
        rows_shown: defaultdict[tuple[int, int], set[object]] = defaultdict(set)  # by test row and repeat
        for query in queries:
            if query.parts is None:
                return None
            rows_shown[query.row, query.repeat].update(_rows_shown(query.parts))
        return [len(rows_shown[query.row, query.repeat]) for query in data.all_queries()]

    def _queries_asked(self, data: BaseExperimentor) -> Iterator[Query | UnlabelledQuery] | None:
        """Return the queries that the test prompts are about.

        A prompt that was asked without its query is about the query of the data set with this prompt.

        Args:
            data: The data set with the prompts that the predictions answer.

        Returns:
            The queries; ``None`` if a prompt shows rows of the demonstration set, and its query is unknown.
        """
        queries_of_requests: list[Sequence[Query | UnlabelledQuery]] = []
        prompts_without_query: set[Prompt] = set()
        for asked in self.requests:
            request = asked.request
            if request.role != "test":
                continue
            if isinstance(request.prompts, BaseExperimentor):
                queries_of_requests.append(request.prompts.all_queries())
            elif request.queries:
                queries_of_requests.append(request.queries)
            else:
                prompts_without_query.update(prompt for prompt, _ in request.prompts)

        if prompts_without_query:
            queries_of_prompts = [query for query in data.all_queries() if query.prompt in prompts_without_query]
            queries_of_requests.append(queries_of_prompts)
            unknown_prompts = prompts_without_query.difference(query.prompt for query in queries_of_prompts)
            if any(_shows_known_rows(prompt) for prompt in unknown_prompts):
                return None
        return itertools.chain.from_iterable(queries_of_requests)

    def asks(self, kernel: Inference) -> bool:
        """Return whether any request is about this model."""
        return any(asked.cache.kernel is kernel for asked in self.requests)

    def digest(self) -> str:
        """Return the digest of all that was asked: features, roles, models, prompts with their labels."""
        facts = []
        for asked in self.requests:
            request = asked.request
            facts.append([_feature_text(request.feature), request.role, asked.cache.digest, request.keys])
        return digest(facts)


def _shows_known_rows(prompt: Prompt) -> bool:
    """Return whether a prompt shows rows of the demonstration set that are known."""
    parts = parts_of_prompt(prompt)
    if parts is None:
        return False
    return any(demonstration.position is not None for demonstration in parts.demonstrations)


def _rows_shown(parts: PromptParts) -> set[object]:
    """Return the demonstrations of a prompt: the rows of the demonstration set, or else what is shown."""
    rows: set[object] = set()
    for demonstration in parts.demonstrations:
        if demonstration.position is None:
            rows.add(demonstration)
        else:
            rows.add(demonstration.position)
    return rows


def _feature_text(feature: Any) -> str:
    """Return what a feature is, without the kernel that computes it."""
    if is_named(feature):
        return feature
    if isinstance(feature, KernelFunction):
        name, facts = feature.added_identity()
        return f"{name} {facts.digest}"
    if isinstance(feature, TextInference):
        return repr(feature)
    return code_mark(feature)


def _tokens_of(requests: Sequence[Request], kernel: Inference) -> float:
    """Return the tokens that a kernel reads, and generates at most, for requests; NaN if that is unknown."""
    tasks = Tasks(kernel)
    empty_cache = FeatureCache(kernel, compute=partial(_only_add_to, tasks))
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


def _only_add_to(
    tasks: Tasks, function: Inference, queries: Sequence[Query], part: Part, options: RunOptions
) -> list[Failure]:
    """Add queries to the calls of a forecast, in the place of the runner; none of them is predicted."""
    tasks.add(function, queries, options)
    return [Failure("it is only counted")] * len(queries)
