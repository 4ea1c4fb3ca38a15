"""The options of LongICL."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import get_args

from StaICC.arguments import known_name, validate_integer
from StaICC.benchmarks.task import Statistics
from StaICC.errors import ArgumentError
from StaICC.inference.replies import Unparsed
from StaICC.long_icl.cards import ROUNDS
from StaICC.long_icl.condition_design import ConditionDesign
from StaICC.long_icl.experiments import Experiment
from StaICC.long_icl.parsing import PARSINGS

ALL_ROUNDS = tuple(range(1, ROUNDS + 1))
"""The published rounds."""

DEFAULT_LIMIT = 500
"""Test items of the published protocol."""

DEFAULT_EXPERIMENT_LIMIT = 100
"""Test items of an experiment: the first of those of the published protocol."""


@dataclass
class LongICLOptions:
    """The options of a run, for all of its data sets; results save them in this order.

    Raises:
        ArgumentError: A value is invalid, or does not go together with the experiment.
        UnknownNameError: The parsing or policy is unknown.
    """

    rounds: Iterable[int] = ALL_ROUNDS
    """Rounds to evaluate, in order."""
    limit: int | None = DEFAULT_LIMIT
    """Maximum number of test items (DialogRE: pairs); None for all."""
    instruct: bool = False
    """Show the label list in the prompt."""
    parsing: str = "published"
    """How responses are parsed, a value of :data:`~StaICC.long_icl.parsing.PARSINGS`."""
    unparsed: Unparsed = "wrong"
    """How a response without a label, or one that the server withheld, counts: ``wrong`` as published, ``excluded``
    with bounds on the score, or ``error``."""
    experiment: ConditionDesign | None = None
    """Replaces the rounds by its conditions."""
    statistics: Statistics = field(default_factory=Statistics)
    """Options of the confidence intervals and baselines."""

    def __post_init__(self) -> None:
        """Check the options."""
        self.rounds = _checked_rounds(self.rounds)
        if self.limit is not None:
            self.limit = validate_integer("limit", self.limit, 1)
        self.instruct = bool(self.instruct)
        known_name("parsing", self.parsing, PARSINGS)
        known_name("value of unparsed", self.unparsed, get_args(Unparsed))
        if self.experiment is not None and self.rounds != ALL_ROUNDS:
            raise ArgumentError(f"the experiment {self.experiment.name} replaces the rounds; leave them out")


def _checked_rounds(rounds: object) -> tuple[int, ...]:
    """Return rounds as a tuple.

    Raises:
        ArgumentError: They are not different whole numbers from 1 to 5.
    """
    numbers: tuple[int, ...] = ()
    if isinstance(rounds, Iterable):
        numbers = tuple(validate_integer("a round", number, 1, ROUNDS) for number in rounds)
    has_duplicates = len(set(numbers)) < len(numbers)
    if not numbers or has_duplicates:
        raise ArgumentError(f"rounds must be different whole numbers from 1 to {ROUNDS}, in a list, not {rounds!r}")
    return numbers


def default_limit(experiment: Experiment | None) -> int:
    """Return the number of test items of a run for which the user names none."""
    if experiment is None:
        return DEFAULT_LIMIT
    return DEFAULT_EXPERIMENT_LIMIT


def default_parsing(experiment: ConditionDesign | None, has_own_data: bool) -> str:
    """Return how the responses of a run are parsed for which the user names no parsing.

    The published rounds are parsed as published. Everything else is parsed by the library's parser, because the
    published one reads few replies of today's models.

    Args:
        experiment: The experiment; ``None`` for rounds.
        has_own_data: Whether a data set is the user's own.
    """
    if has_own_data or experiment is not None:
        return "library"
    return "published"


def checked_experiment(experiment: object) -> Experiment | None:
    """Return the argument ``experiment`` as an experiment; a name is one with its default options.

    Raises:
        ArgumentError: It is neither an experiment nor a name.
        UnknownNameError: There is no experiment of this name.
    """
    if experiment is None or isinstance(experiment, Experiment):
        return experiment
    if isinstance(experiment, str):
        return Experiment(experiment)
    raise ArgumentError(f"experiment must be an Experiment or its name, not {experiment!r}")
