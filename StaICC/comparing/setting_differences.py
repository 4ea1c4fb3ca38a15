"""Settings, labels, facts about the models in which two runs differ."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
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
    if value is None:
        return "not set"
    return " ".join(value.split())


def list_differences(first: Result, second: Result) -> tuple[Difference, ...]:
    """Return the settings (fields of the signature) and the facts about the models in which two runs differ.

    Args:
        first: A result.
        second: Another.

    Returns:
        The settings, then the facts. A fact with the name of a setting is marked, and left out if it says the same.
    """
    settings = first.signature.differences(second.signature)
    differences = [Difference(name, *values) for name, values in settings.items()]

    first_facts = first.provenance.facts()
    second_facts = second.provenance.facts()
    for name in dict.fromkeys([*first_facts, *second_facts]):
        values = (first_facts.get(name), second_facts.get(name))
        if values[0] == values[1] or values == settings.get(name):
            continue
        field = f"{name} (model)" if name in settings else name
        differences.append(Difference(field, *values))
    return tuple(differences)


def label_differences(first: Result, second: Result, datasets: Iterable[str]) -> Iterator[Difference]:
    """Yield the data sets whose label names differ in two runs."""
    for dataset in datasets:
        first_labels = first.details[dataset].labels
        second_labels = second.details[dataset].labels
        if first_labels != second_labels:
            yield Difference(f"labels of {dataset}", _joined(first_labels), _joined(second_labels))


def _joined(labels: Sequence[str]) -> str | None:
    """Return label names as one text; ``None`` if they are not known."""
    if not labels:
        return None
    return "/".join(labels)
