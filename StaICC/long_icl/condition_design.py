"""What takes the place of rounds: named conditions, as an experiment or another benchmark defines them."""

from __future__ import annotations

from typing import Protocol

from StaICC.long_icl.contexts import Conditions
from StaICC.long_icl.material import Material


class ConditionDesign(Protocol):
    """Names the conditions of a run and writes their contexts.

    Designs are :class:`~StaICC.long_icl.experiments.Experiment` and :class:`~StaICC.long_icl.helmet.HelmetLengths`.
    """

    @property
    def name(self) -> str:
        """The name of the design in results."""

    @property
    def levels(self) -> tuple[int, ...]:
        """The numbers that the conditions are made of, such as lengths."""

    @property
    def seed(self) -> int:
        """The seed of random choices."""

    @property
    def share(self) -> float:
        """The share of the score of the shortest context that counts as kept in the effective length."""

    @property
    def has_lengths(self) -> bool:
        """Whether the conditions are lengths of the context."""

    def options(self) -> dict[str, str]:
        """Return the options that the signature contains."""

    def conditions(self, material: Material) -> Conditions:
        """Return the conditions by name; for one that the data cannot fill, the reason.

        Raises:
            ArgumentError: The design does not fit the data.
        """
