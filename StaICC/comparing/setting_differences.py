"""Settings, labels, demonstrations that were read, facts about the models in which two runs differ."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from StaICC.results.result import Result
from StaICC.safe_text import one_line

_DIGEST = re.compile(r"\b[0-9a-f]{32,}\b")
"""A digest in full, such as a SHA-256."""
_SHOWN_DIGITS = 12
_SHORT_DIGEST = re.compile(r"\b(?=[a-f]*[0-9])[0-9a-f]{12}\b")
"""A digest by its first digits, as fields of signatures have it."""
_FIELDS_OF_NAMES = ("benchmark", "datasets", "model_name", "model", "function")
"""Fields whose values are names. A name that a user chose is no digest, even if it looks like one."""

_FIELDS_IN_WORDS = {
    "model_name": "name of the model",
    "files": "digest of the model's files",
    "source": "digest of the function's code",
    "prompts": "texts of the prompts (digest)",
    "algorithm": "version of the kernel's computation",
}
"""What fields hold whose names do not say it. docs/comparing.md explains the others."""

_SETTINGS_OF_PROMPTS = frozenset(
    {
        "benchmark",
        "datasets",
        "data",
        "split",
        "sampler",
        "k",
        "repeats",
        "demonstrations",
        "template",
        "channel",
        "options",
        "limit",
        "stopping",
    }
)
"""Fields of signatures that say why two runs have different prompts."""

_ABOUT_UNNAMED_PROMPTS = (
    "the texts of the prompts differ, and no setting, such as k, says why: the templates of own data may differ. To "
    "see the texts, write them with the command prompts, or use result.queries(written_prompts) in Python"
)


def field_in_words(field: str) -> str:
    """Return the name of a setting or a fact as users read it.

    Example:
        >>> field_in_words("model_name (2)"), field_in_words("k")
        ('name of the model (2)', 'k')
    """
    name, bracket, number = field.partition(" (")  # facts about several models have numbers
    return _FIELDS_IN_WORDS.get(name, name) + bracket + number


class Difference(NamedTuple):
    """A setting, or a fact about the model, in which two runs differ."""

    field: str
    """Name of the setting or the fact."""
    first: str | None
    """Its value in the first run; ``None`` if it is not set."""
    second: str | None
    """Its value in the second run; ``None`` if it is not set."""
    has_digest: bool = False
    """Whether a value has a digest, which does not belong in the caption of a table."""

    def is_part_of(self, setting: Difference) -> bool:
        """Return whether the values of this setting are parts of those of another setting.

        An example is the setting ``order`` with the values 12 and 14, and another setting with the values
        ``escape=C;order=12`` and ``escape=C;order=14``. A value that is not set is part of any value without that name.
        """
        if self.field == setting.field:
            return False
        return _is_part(self.field, self.first, setting.first) and _is_part(self.field, self.second, setting.second)

    def to_dict(self) -> dict[str, str | None]:
        """Return the field and both values for JSON."""
        return {"field": self.field, "first": self.first, "second": self.second}

    def __str__(self) -> str:
        """Return the setting with both values, such as ``k: 4 and 8``."""
        return one_line(f"{field_in_words(self.field)}: {shown_value(self.first)} and {shown_value(self.second)}")


def _is_part(name: str, value: str | None, whole: str | None) -> bool:
    """Return whether a setting has a value within a setting of several parts, such as ``escape=C;order=12``.

    Args:
        name: The setting, such as ``"order"``.
        value: Its value, such as ``"12"``; ``None`` if it is not set.
        whole: The value of the setting of several parts; ``None`` if it is not set, so that it has no parts.
    """
    parts = (whole or "").split(";")
    if value is None:
        return not any(part.startswith(f"{name}=") for part in parts)
    return f"{name}={value}" in parts


def shown_value(value: str | None) -> str:
    """Return the value of a setting as one line; "not set" if the value is ``None``.

    Digests are shortened to their first digits, which are enough to distinguish two values.
    """
    if value is None:
        return "not set"
    line = " ".join(value.split())
    return _DIGEST.sub(lambda digest: digest[0][:_SHOWN_DIGITS], line)


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
    differences = [_difference(name, *values) for name, values in settings.items()]

    first_facts = first.provenance.facts()
    second_facts = second.provenance.facts()
    for name in dict.fromkeys([*first_facts, *second_facts]):
        first_value = first_facts.get(name)
        second_value = second_facts.get(name)
        same_as_setting = (first_value, second_value) == settings.get(name)
        if first_value == second_value or same_as_setting:
            continue
        field = f"{name} (model)" if name in settings else name
        differences.append(_difference(field, first_value, second_value))
    return tuple(differences)


def _difference(field: str, first: str | None, second: str | None) -> Difference:
    """Return the difference in a setting or a fact, with whether a value has a digest.

    Names may look like digests, so fields of names never have one.

    Args:
        field: The setting or fact.
        first: Its value in the first run; ``None`` if it is not set.
        second: Its value in the second run.
    """
    field_without_number = field.partition(" (")[0]  # facts about several models have numbers, such as "model (2)"
    has_digest = False
    if field_without_number not in _FIELDS_OF_NAMES:
        for value in (first, second):
            if value is not None and (_DIGEST.search(value) or _SHORT_DIGEST.search(value)):
                has_digest = True
    return Difference(field=field, first=first, second=second, has_digest=has_digest)


def note_on_prompts(differences: Iterable[Difference]) -> str | None:
    """Return where to look if only a digest says that two runs have different prompts; otherwise ``None``.

    Args:
        differences: The settings and facts in which the runs differ.
    """
    fields = {difference.field for difference in differences}
    if "prompts" not in fields or fields & _SETTINGS_OF_PROMPTS:
        return None
    return _ABOUT_UNNAMED_PROMPTS


def label_differences(first: Result, second: Result, datasets: Iterable[str]) -> Iterator[Difference]:
    """Yield a difference for each data set whose label names, or their order, differ between two runs.

    Args:
        first: The first run.
        second: The second run.
        datasets: Data sets that both runs have.
    """
    for dataset in datasets:
        first_labels = first.details[dataset].labels
        second_labels = second.details[dataset].labels
        if first_labels != second_labels:
            yield Difference(field=f"labels of {dataset}", first=_joined(first_labels), second=_joined(second_labels))


def dropped_differences(first: Result, second: Result, datasets: Iterable[str]) -> Iterator[Difference]:
    """Yield a difference for each data set on which two models did not read the same number of demonstrations.

    A prompt that is too long for a model may have lost demonstrations. The settings of both runs are the same then.

    Args:
        first: The first run.
        second: The second run.
        datasets: Data sets that both runs have.
    """
    for dataset in datasets:
        first_count = first.details[dataset].dropped_demonstrations
        second_count = second.details[dataset].dropped_demonstrations
        if first_count != second_count:
            field = f"demonstrations left out of prompts that were too long, {dataset}"
            yield Difference(field=field, first=str(first_count), second=str(second_count))


def _joined(labels: Sequence[str]) -> str | None:
    """Return label names as one text, such as "positive/negative"; ``None`` if they are not known."""
    if not labels:
        return None
    return "/".join(labels)
