"""Runs the steps of a method on a data set: one loop serves what it asks."""

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
    """The steps of a method on a data set: what it asks now, or what it returned.

    Args:
        title: Its name, for messages.
        steps: Its steps.
        kernel: The kernel that answers it.

    Attributes:
        requests: What it asks; ``None`` when it has returned.
        returned: What it returned.

    Raises:
        ArgumentError: The method is no generator, refuses the data set, or calls the kernel by itself.
        CapabilityError: The kernel cannot compute what the first step asks.
    """

    def __init__(self, title: str, steps: Steps, kernel: Inference) -> None:
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
        """The role of the present step: ``"train"`` if any of its requests is about prompts to learn from."""
        for request in self.requests or ():
            if request.role == "train":
                return "train"
        return "test"

    def advance(self, rows: list[list[Any]] | None) -> None:
        """Give the method the rows that it asked for, and take what it asks next.

        Args:
            rows: For each request its rows; ``None`` for the first step.

        Raises:
            ArgumentError: The kernel counted tokens meanwhile, which no request says.
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
        """Return what the method asks when it has some rows.

        A method to which too few rows are left, such as training prompts of which none has some label, cannot finish
        because of the missing ones. Its arguments are not wrong.

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
    """How a method reads the predictions of the model, and how the benchmark reads those of the method."""

    outputs: Kind
    """How the data set states rows of numbers to be read."""
    unchanged: bool
    """Whether the method is the model itself, so that the benchmark reads its outputs as they are."""

    def rows(self, request: Request, rows: list[Any]) -> list[Any]:
        """Return the rows of a request as the method gets them: probabilities, where a kind is stated."""
        if request.feature != "probabilities" or self.unchanged:
            return rows
        return as_probabilities(rows, self.outputs)

    def predictions(self, returned: Any, data: MethodData) -> Predictions:
        """Return what a method returned as predictions of the stated kind, for the queries that they answer."""
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
    """Answer what a method asks until it returns.

    Args:
        steps: The steps of the method.
        data: What it knows.
        caches: Compute the features.
        part: For messages and progress.
        costs: Get the seconds and tokens of each phase.
        reading: How the method reads predictions.
        asked: Gets what it asks.

    Raises:
        OutputError: A prompt has no feature, and the run stops at the first failure.
    """
    while steps.requests is not None:
        requests = steps.requests
        rows_of_requests: list[list[Any]] = [[] for _ in requests]  # a request that is ahead gets no rows
        for role in ROLES:
            positions = _positions_to_answer(requests, role)
            if not positions:
                continue
            shown_phase = PHASES[role] if role == "train" else ""
            computed = caches.rows([requests[position] for position in positions], replace(part, phase=shown_phase))
            for position, rows in zip(positions, computed, strict=True):
                request = requests[position]
                asked.add(caches.cache_of(request), request, rows)
                rows_of_requests[position] = reading.rows(request, rows)
                if role == "train":
                    _warn_of_failures(data, rows)
            costs.charge(PHASES[role])

        phase_of_step = PHASES[steps.role]
        steps.advance(rows_of_requests)
        costs.charge(phase_of_step)  # what the method made of the rows


def _positions_to_answer(requests: Sequence[Request], role: Role) -> list[int]:
    """Return the positions of the requests of a role that are answered now: all that are not ahead."""
    positions = []
    for position, request in enumerate(requests):
        if request.role == role and not request.ahead:
            positions.append(position)
    return positions


def _warn_of_failures(data: MethodData, rows: Sequence[Any]) -> None:
    """Warn if some training prompts have no row."""
    failed = sum(isinstance(row, Failure) for row in rows)
    if 0 < failed < len(rows):
        data.warn(f"{failed} of {len(rows)} training prompts have no prediction and are left out")


def prompts_of_method(
    steps: RunningSteps, caches: ModelCaches, part: Part, reading: Reading
) -> BaseExperimentor | None:
    """Return the data set with the prompts that a method chose: those of the first step without prompts to learn from.

    Args:
        steps: The steps of the method.
        caches: Compute the features that it learns from.
        part: For messages and progress.
        reading: How the method reads predictions, as in a run.

    Returns:
        The data set, without labels of test rows; ``None`` if this step has no request about all queries.

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
