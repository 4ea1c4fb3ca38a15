"""Settings, labels, facts about the models in which two runs differ."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from StaICC.results.result import Result
from StaICC.safe_text import one_line

_DIGEST = re.compile(r"\b[0-9a-f]{32,}\b")
"""A digest in full, such as a SHA-256."""
_SHOWN_DIGITS = 12


class Difference(NamedTuple):
    """A setting, or a fact about the model, in which two runs differ."""

    field: str
    """Name of the setting or the fact."""
    first: str | None
    """Its value in the first run; ``None`` if it is not set."""
    second: str | None
    """Its value in the second run; ``None`` if it is not set."""

    def is_part_of(self, setting: Difference) -> bool:
        """Return whether another setting has both values, such as ``escape=C;order=12`` that of the order."""
        if self.field == setting.field or self.first is None or self.second is None:
            return False
        parts_of_first = (setting.first or "").split(";")
        parts_of_second = (setting.second or "").split(";")
        return f"{self.field}={self.first}" in parts_of_first and f"{self.field}={self.second}" in parts_of_second

    def __str__(self) -> str:
        return one_line(f"{self.field}: {shown_value(self.first)} and {shown_value(self.second)}")


def shown_value(value: str | None) -> str:
    """Return the value of a setting as one line; "not set" if the value is ``None``.

    Of a digest, the first digits are enough to tell two values apart.
    """
    if value is None:
        return "not set"
    return _DIGEST.sub(lambda digest: digest[0][:_SHOWN_DIGITS], " ".join(value.split()))


def list_differences(first: Result, second: Result) -> tuple[Difference, ...]:
    """Return the settings (fields of the signature) and the facts about the models in which two runs differ.

    Args:
        first: A result.
        second: The other result.

    Returns:
        The settings, then the facts. A fact with the name of a setting has "(model)" after its name. It is left out if
        its two values are those of the setting.
    """
    settings = first.signature.differences(second.signature)
    differences = [Difference(name, *values) for name, values in settings.items()]

    first_facts = first.provenance.facts()
    second_facts = second.provenance.facts()
    for name in dict.fromkeys([*first_facts, *second_facts]):
        first_value = first_facts.get(name)
        second_value = second_facts.get(name)
        same_as_setting = (first_value, second_value) == settings.get(name)
        if first_value == second_value or same_as_setting:
            continue
        field = f"{name} (model)" if name in settings else name
        differences.append(Difference(field, first_value, second_value))
    return tuple(differences)


def label_differences(first: Result, second: Result, datasets: Iterable[str]) -> Iterator[Difference]:
    """Yield the label names of each data set on which they differ in two runs."""
    for dataset in datasets:
        first_labels = first.details[dataset].labels
        second_labels = second.details[dataset].labels
        if first_labels != second_labels:
            yield Difference(f"labels of {dataset}", _joined(first_labels), _joined(second_labels))


def _joined(labels: Sequence[str]) -> str | None:
    """Return label names as one text, such as "positive/negative"; ``None`` if they are not known."""
    if not labels:
        return None
    return "/".join(labels)
