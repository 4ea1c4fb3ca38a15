"""Settings, labels, facts about the models in which two runs differ."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from StaICC.results.result import Result
from StaICC.safe_text import one_line


class Difference(NamedTuple):
    """A setting, or a fact about the model, in which two runs differ."""

    field: str
    first: str | None
    second: str | None

    def __str__(self) -> str:
        return one_line(f"{self.field}: {shown_value(self.first)} and {shown_value(self.second)}")


def shown_value(value: str | None) -> str:
    """Return the value of a setting as one line; "not set" without one."""
    return "not set" if value is None else " ".join(value.split())


def list_differences(first: Result, second: Result) -> tuple[Difference, ...]:
    """Return the settings (fields of the signature) and the facts about the models in which two runs differ.

    Args:
        first: A result.
        second: Another.

    Returns:
        The settings, then the facts. A fact with the name of a setting is marked, and left out if it says the same.
    """
    settings = first.signature.differences(second.signature)
    ours, others = first.provenance.facts(), second.provenance.facts()
    facts = {name: (ours.get(name), others.get(name)) for name in dict.fromkeys([*ours, *others])}
    differing = {name: pair for name, pair in facts.items() if pair[0] != pair[1] and pair != settings.get(name)}
    marked = {f"{name} (model)" if name in settings else name: pair for name, pair in differing.items()}
    return tuple(Difference(name, *pair) for name, pair in [*settings.items(), *marked.items()])


def label_differences(first: Result, second: Result, datasets: Iterable[str]) -> Iterator[Difference]:
    """Yield the data sets whose label names differ in two runs."""
    for dataset in datasets:
        labels = [result.details[dataset].labels for result in (first, second)]
        if labels[0] != labels[1]:
            yield Difference(f"labels of {dataset}", *("/".join(names) or None for names in labels))
