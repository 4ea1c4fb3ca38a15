"""Experiments: what a long context does, one factor at a time.

An experiment replaces the rounds of a run by *conditions*: contexts for the same test items, which differ in one
factor. The factors are the length of the context, the demonstrations per label, their order, the position of the
demonstrations of the true label, and their content. Conditions follow from the data, the options and a seed, so equal
options give equal prompts for all models.

A longer context usually shows more labels, too. So each condition has its *coverage*: the labels that it shows, the
share of test items whose label is shown, and the demonstrations per shown label.

A further experiment is a function in :data:`DESIGNS`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from StaICC.arguments import known_name, validate_integer
from StaICC.errors import ArgumentError
from StaICC.long_icl.cards import TaskCard
from StaICC.long_icl.contexts import Conditions
from StaICC.long_icl.designs.amounts import context_conditions, length_conditions, shots_conditions
from StaICC.long_icl.designs.budgets import budget_conditions
from StaICC.long_icl.designs.controls import controls_conditions
from StaICC.long_icl.designs.orders import order_conditions, position_conditions
from StaICC.long_icl.designs.retrieval import retrieval_conditions
from StaICC.long_icl.effective_length import DEFAULT_SHARE
from StaICC.long_icl.material import DesignOptions, Material
from StaICC.long_icl.reference_tokens import BUDGETS

_LARGEST_OPTION = 10**9 - 1
"""The largest number of an option, which fits into a signature."""
_DEFAULT_SHOTS = 3
_DEFAULT_SEED = 0


@dataclass(frozen=True, slots=True)
class ExperimentDesign:
    """How an experiment makes its conditions, with its defaults."""

    write: Callable[[DesignOptions, Material], Conditions]
    """Returns the conditions by name."""
    levels: tuple[int, ...] = ()
    """The default levels."""
    lowest_level: int = 1
    """The lowest level that is allowed."""
    most_levels: int = 100
    """The largest number of levels that is allowed."""
    has_shots: bool = True
    """Whether ``shots`` and ``seed`` are options."""
    has_lengths: bool = False
    """Whether the conditions are lengths, so that there is an effective length and ``share`` is an option."""


DESIGNS: Mapping[str, ExperimentDesign] = {
    "context": ExperimentDesign(context_conditions, levels=BUDGETS, has_shots=False, has_lengths=True),
    "length": ExperimentDesign(length_conditions, levels=BUDGETS, has_shots=False, has_lengths=True),
    "shots": ExperimentDesign(shots_conditions, levels=(0, 1, 2, 5, 10), lowest_level=0, has_shots=False),
    "order": ExperimentDesign(order_conditions, levels=(4,), most_levels=1),
    "position": ExperimentDesign(position_conditions, levels=(5,), lowest_level=2, most_levels=1),
    "controls": ExperimentDesign(controls_conditions, most_levels=0),
    "retrieval": ExperimentDesign(retrieval_conditions, levels=(4, 16)),
    "budget": ExperimentDesign(budget_conditions, levels=(4 * 1024, 16 * 1024), has_shots=False),
}
"""The experiments by name."""


@dataclass(frozen=True, slots=True)
class Experiment:
    """An experiment and its options.

    Args:
        name: ``context``, ``length``, ``shots``, ``order``, ``position``, ``controls``, ``retrieval`` or ``budget``.
        levels: ``context``, ``length`` and ``budget``: budgets in reference tokens
            (:func:`~StaICC.long_icl.reference_tokens.reference_tokens`), such as 4096;
            ``shots``: demonstrations per label; ``order``: the number of rotations, which is also that of shuffles;
            ``position``: the number of parts of the context; ``retrieval``: numbers of retrieved demonstrations; empty
            for the default.
        shots: Demonstrations per label of the experiments ``order``, ``position``, ``controls`` and ``retrieval``.
        seed: Seed of shuffles and random demonstrations.
        share: The share of the score of the shortest context that counts as kept in the effective length
            (:mod:`StaICC.long_icl.effective_length`) of ``context`` and ``length``.

    Raises:
        ArgumentError: An option is invalid.
        UnknownNameError: The experiment is unknown.
    """

    name: str
    levels: tuple[int, ...] = ()
    shots: int = _DEFAULT_SHOTS
    seed: int = _DEFAULT_SEED
    share: float = DEFAULT_SHARE

    def __post_init__(self) -> None:
        """Check the options, and refuse those that the experiment does not have.

        An option with its default value counts as one that was not given.
        """
        design = DESIGNS[known_name("experiment", self.name, DESIGNS)]
        levels = _checked_levels(self.name, design, self.levels)
        shots = validate_integer("shots", self.shots, minimum=1)
        seed = validate_integer("seed", self.seed, minimum=0, maximum=_LARGEST_OPTION)
        if not design.has_shots and shots != _DEFAULT_SHOTS:
            raise ArgumentError(f"the experiment {self.name} has no option shots. Use levels")
        if not design.has_shots and seed != _DEFAULT_SEED:
            raise ArgumentError(f"the experiment {self.name} has no option seed: it draws nothing with one")
        share = checked_share(self.share)
        if not design.has_lengths and share != DEFAULT_SHARE:
            raise ArgumentError(f"the experiment {self.name} has no option share: it has no effective length")
        # The class is frozen, so its fields can be set in no other way.
        object.__setattr__(self, "levels", levels)
        object.__setattr__(self, "shots", shots)
        object.__setattr__(self, "seed", seed)
        object.__setattr__(self, "share", share)

    @property
    def has_lengths(self) -> bool:
        """Whether the conditions are lengths of the context."""
        return DESIGNS[self.name].has_lengths

    def options(self) -> dict[str, str]:
        """Return the options that the signature contains."""
        options = {"experiment": self.name}
        if self.levels:
            options["levels"] = "+".join(str(level) for level in self.levels)
        if DESIGNS[self.name].has_shots:
            options["shots"] = str(self.shots)
            options["seed"] = str(self.seed)
        if self.share != DEFAULT_SHARE:
            options["share"] = repr(self.share)
        return options

    def conditions(self, material: Material) -> Conditions:
        """Return the conditions by name, with the reason for each one that the data cannot fill.

        Raises:
            ArgumentError: The experiment is not defined for items with several labels, or an option does not fit the
                data.
        """
        self._refuse_items_with_several_labels(material.data.card)
        return DESIGNS[self.name].write(DesignOptions(self.levels, self.shots, self.seed), material)

    def _refuse_items_with_several_labels(self, card: TaskCard) -> None:
        """Raise an error if the items of a data set have several labels and the experiment is not defined for them."""
        if not card.structured:
            return
        if card.kind != "labels":
            raise ArgumentError(
                f"{card.title}: experiments are not defined for its items, because their labels belong to entities of "
                "the text, and most experiments change labels or texts alone. Name data sets with labels of whole texts"
            )
        if self.name == "position":
            raise ArgumentError(
                f"{card.title}: the experiment position is not defined for texts with several labels, because their "
                "demonstrations would be in several parts of the context. Choose another experiment"
            )


def checked_share(share: float) -> float:
    """Return the share of the effective length.

    Raises:
        ArgumentError: It is no number above 0 and up to 1.
    """
    is_number = isinstance(share, (int, float)) and not isinstance(share, bool)
    if not is_number or not 0.0 < share <= 1.0:
        raise ArgumentError(f"share: got {share!r}, expected a number above 0 and up to 1, such as {DEFAULT_SHARE}")
    return float(share)


def _checked_levels(name: str, design: ExperimentDesign, levels: Iterable[int]) -> tuple[int, ...]:
    """Return the levels of an experiment. No levels stand for the default ones.

    Args:
        name: The experiment.
        design: Its design, which has the limits.
        levels: The levels that the user gave.

    Raises:
        ArgumentError: The levels are not whole numbers, or there are too many, or they do not rise.
    """
    if not isinstance(levels, Iterable):
        raise ArgumentError(f"levels must be whole numbers in a list, not {levels!r}")
    checked = []
    for level in levels:
        checked.append(
            validate_integer(f"a level of the experiment {name}", level, design.lowest_level, _LARGEST_OPTION)
        )
    if not checked:
        return design.levels
    if len(checked) > design.most_levels:
        raise ArgumentError(
            f"levels of the experiment {name}: got {len(checked)} levels, expected at most {design.most_levels}"
        )
    if checked != sorted(set(checked)):
        raise ArgumentError(
            f"levels of the experiment {name}: got {tuple(checked)!r}, expected different numbers in rising order"
        )
    return tuple(checked)
