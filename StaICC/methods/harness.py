"""Runs a method on a data set: computes the requests that its generator function yields, until it returns."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from StaICC.benchmarks.base_experimentor import BaseExperimentor
from StaICC.errors import ArgumentError, TooFewRowsError
from StaICC.inference.contract import Inference, tokens_used
from StaICC.inference.replies import Failure, output_error
from StaICC.inference.runner import Part
from StaICC.methods.asked_prompts import AskedPrompts
from StaICC.methods.capabilities import check_requests
from StaICC.methods.contract import MethodData, Predictions, Steps
from StaICC.methods.costs import PHASES, Costs
from StaICC.methods.model_caches import ModelCaches
from StaICC.methods.outputs import as_probabilities, as_stated
from StaICC.methods.present_rows import failure_in, is_missing
from StaICC.methods.requests import Request, Role
from StaICC.metrics.classification import Kind

ROLES: tuple[Role, ...] = ("train", "test")
"""In the order in which the requests of one step are computed."""


class RunningSteps:
    """The generator of a method on a data set, at one of its ``yield`` statements or at its end.

    The part of a method between two ``yield`` statements is a step.

    Attributes:
        requests: The requests that it yielded; ``None`` when it has returned.
        returned: What it returned.
    """

    def __init__(self, title: str, steps: Steps, kernel: Inference) -> None:
        """Run a method up to its first ``yield``, whose requests are then in ``requests``.

        Args:
            title: Name of the method, for messages.
            steps: The generator.
            kernel: The kernel that computes its requests.

        Raises:
            ArgumentError: The method is no generator, refuses the data set, or calls the kernel by itself.
            CapabilityError: The kernel cannot compute what the first step asks.
        """
        if not isinstance(steps, Generator):
            got = f"got {type(steps).__name__}, expected a function that yields requests and returns predictions"
            raise ArgumentError(got)
        self._title = title
        self._steps = steps
        self._kernel = kernel
        self._missing_rows: list[Any] = []
        self.requests: Sequence[Request] | None = None
        self.returned: Any = None
        self.advance(None)

    @property
    def role(self) -> Role:
        """The role of the present requests: ``"train"`` if any of them is about prompts to learn from."""
        for request in self.requests or ():
            if request.role == "train":
                return "train"
        return "test"

    def advance(self, rows: list[list[Any]] | None) -> None:
        """Send the method the rows of its requests, and take its next requests or what it returns.

        Args:
            rows: For each request its rows; ``None`` to start the method.

        Raises:
            ArgumentError: The kernel counted tokens during this step: the method called it without a request.
            OutputError: The method cannot go on without the rows that are missing.
        """
        for rows_of_request in rows or ():
            self._missing_rows += [row for row in rows_of_request if is_missing(row)]
        tokens_before = tokens_used(self._kernel)
        try:
            requests = self._requests_after(rows)
        except StopIteration as end:
            self.requests = None
            self.returned = end.value
            return
        finally:
            if tokens_used(self._kernel) != tokens_before:
                raise ArgumentError("the method calls the kernel by itself; it must request features")
        check_requests(self._title, self._kernel, requests)
        self.requests = requests

    def _requests_after(self, rows: list[list[Any]] | None) -> Sequence[Request]:
        """Return the next requests of the method, after sending it the rows of the present ones.

        A method raises a TooFewRowsError if it cannot learn from so few rows. If rows are missing because queries
        failed, the failures are the cause, so an OutputError takes its place.

        Args:
            rows: For each request its rows; ``None`` to start the method.

        Raises:
            StopIteration: The method returned.
            OutputError: The method cannot go on without the rows that are missing.
        """
        try:
            return self._steps.send(rows)  # type: ignore[arg-type]  # a generator begins with None
        except TooFewRowsError as error:
            if not self._missing_rows:
                raise
            count = len(self._missing_rows)
            first = failure_in(self._missing_rows[0])
            raise output_error(f"{error} ({count} rows that it asked for are missing: {first.reason})", first) from None


@dataclass(frozen=True)
class Reading:
    """Converts the predictions of the model for the method, and those of the method for the benchmark.

    Methods compute with probabilities. A benchmark may state that outputs are logits.
    """

    outputs: Kind
    """What numbers of a prediction are, as the benchmark states: ``"probabilities"``, ``"logits"`` or ``"auto"``."""
    unchanged: bool
    """Whether nothing is converted, because the method is the model itself (vanilla inference)."""

    def rows(self, request: Request, rows: list[Any]) -> list[Any]:
        """Return the rows of a request as the method gets them: predictions as probabilities."""
        if request.feature != "probabilities" or self.unchanged:
            return rows
        return as_probabilities(rows, self.outputs)

    def predictions(self, returned: Any, data: MethodData) -> Predictions:
        """Return the predictions of a method as the benchmark reads them.

        Args:
            returned: What the method returned: predictions, or a plain list of one for each query of the data.
            data: The data that the method got.
        """
        predictions = returned if isinstance(returned, Predictions) else data.predictions(returned)
        if self.unchanged:
            return predictions
        is_list = hasattr(predictions.rows, "__len__")
        if not is_list:
            return predictions  # a method returned something else, which is refused when it is scored
        return replace(predictions, rows=as_stated(predictions.rows, self.outputs))


def serve(
    steps: RunningSteps,
    data: MethodData,
    caches: ModelCaches,
    part: Part,
    costs: Costs,
    reading: Reading,
    asked: AskedPrompts,
) -> None:
    """Compute the requests that a method yields, and send it their rows, until it returns.

    Requests that are ahead (:attr:`Request.ahead`) are not computed: the method gets an empty list for each of them.

    Args:
        steps: The generator of the method, which has yielded its first requests.
        data: The data that the method got. It is warned of training prompts that failed.
        caches: Compute the requests.
        part: Name and number of this part of the run, for messages and progress.
        costs: Get the seconds and tokens of each phase.
        reading: Converts predictions of the model for the method.
        asked: Gets the requests that were computed.

    Raises:
        OutputError: A prompt has no feature, and the run stops at the first failure.
    """
    while steps.requests is not None:
        requests = steps.requests
        rows_of_requests: list[list[Any]] = [[] for _ in requests]
        for role in ROLES:
            positions = []  # of the requests of this role
            for position, request in enumerate(requests):
                if request.role == role and not request.ahead:
                    positions.append(position)
            if not positions:
                continue
            phase_in_progress = PHASES[role] if role == "train" else ""
            requests_of_role = [requests[position] for position in positions]
            computed = caches.rows(requests_of_role, replace(part, phase=phase_in_progress))
            for position, request, rows in zip(positions, requests_of_role, computed, strict=True):
                asked.add(caches.cache_of(request), request, rows)
                rows_of_requests[position] = reading.rows(request, rows)
                if role == "train":
                    _warn_of_failures(data, rows)
            costs.charge(PHASES[role])

        phase_of_step = PHASES[steps.role]
        steps.advance(rows_of_requests)
        costs.charge(phase_of_step)  # the time in which the method learned from the rows


def _warn_of_failures(data: MethodData, rows: Sequence[Any]) -> None:
    """Add a warning to the data of a method if some of its training prompts failed, but not all.

    Args:
        data: The data of the method.
        rows: For each training prompt its feature, or a failure.
    """
    failed = sum(isinstance(row, Failure) for row in rows)
    if 0 < failed < len(rows):
        data.warn(f"{failed} of {len(rows)} training prompts have no prediction and are left out")


def prompts_of_method(
    steps: RunningSteps, caches: ModelCaches, part: Part, reading: Reading
) -> BaseExperimentor | None:
    """Return the data set with the prompts that a method writes for the test queries; none of these is computed.

    The method is run until its requests have no more prompts to learn from. Of the requests that follow, the first one
    about all queries has the data set.

    Args:
        steps: The generator of the method, which has yielded its first requests.
        caches: Compute the requests that it learns from.
        part: Name and number of this part of the run, for messages and progress.
        reading: Converts predictions of the model for the method, as in a run.

    Returns:
        The data set, without labels of test rows; ``None`` if there is no request about all queries.

    Raises:
        OutputError: The kernel has no features of a training prompt.
    """
    while steps.requests is not None and steps.role == "train":
        requests = steps.requests
        rows_of_requests: list[list[Any]] = [[] for _ in requests]  # a request that is ahead gets no rows
        positions = [position for position, request in enumerate(requests) if not request.ahead]
        computed = caches.rows([requests[position] for position in positions], part)
        for position, rows in zip(positions, computed, strict=True):
            rows_of_requests[position] = reading.rows(requests[position], rows)
        steps.advance(rows_of_requests)
    for request in steps.requests or ():
        if isinstance(request.prompts, BaseExperimentor):
            return request.prompts
    return None
