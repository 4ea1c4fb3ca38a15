"""Who predicted a result, how, when: its provenance.

The provenance has what a reader needs to trust or to repeat a result besides its scores: the model (name and identity),
the times, the counts of computed and reused predictions, and a digest of the failed queries. Two provenances are equal
if the same models predicted in the same way; times and counts are not compared, because they depend on the clock and on
the prediction store.
"""

from __future__ import annotations

import contextlib
import sys
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, dataclass, field, fields, replace
from typing import Any

from StaICC.errors import SchemaError
from StaICC.files.json_reading import LEFT_OUT_IF_NONE
from StaICC.inference.recheck import RunRecord
from StaICC.results.details import DatasetDetails, SavedRecord
from StaICC.results.signature import escaped
from StaICC.version import __version__

GIVEN = "predictions given"
"""Key of ``who`` for predictions that were given instead of an inference function; its value is their digest."""

NOT_RECORDED = "not recorded"
"""What is shown for a result without provenance."""

_UNNAMED = "unnamed model"

_IDENTITY_DIGITS = 12
"""Digits of an identity that are shown: the first 12 of the digest tell models apart."""
_MAX_MODELS_SHOWN = 3
"""Largest number of models that are named in one line; further ones are counted."""


@dataclass(frozen=True, slots=True)
class Predictor:
    """An inference function, or a set of given predictions, and the data sets that it served."""

    name: str | None
    """The name that the user gave it (``model_name``, ``--model``), or that of the hub, of its folder or file."""
    identity: str
    """Digest of ``who`` and ``how`` (see :class:`~StaICC.inference.identity.Identity`)."""
    who: Mapping[str, str]
    """The model: weights, tokenizer, number type, device, code, versions, served edition."""
    how: Mapping[str, str]
    """How its scores are computed: label scoring, truncation, BOS, prompt format, channel variant, sampling."""
    unidentified: tuple[str, ...]
    """Reasons why the identity is incomplete; empty if it is complete."""
    datasets: tuple[str, ...]
    """The data sets that it served."""
    started: str = field(compare=False)
    """UTC, ISO 8601."""
    finished: str = field(compare=False)
    """UTC, ISO 8601."""
    editions: tuple[str, ...] = field(default=(), compare=False)
    """The editions that a server named; empty for others, and if all predictions were reused."""
    computed: int = field(default=0, compare=False)
    """Predictions that were computed, of the whole run: benchmarks of a group share them."""
    reused: int = field(default=0, compare=False)
    """Predictions that were taken from the store."""
    rechecked: int = field(default=0, compare=False)
    """Reused predictions that were computed again and compared."""
    retried: int = field(default=0, compare=False)
    """Requests that were sent again after a transient error."""
    failed: int = field(default=0, compare=False)
    """Queries without a prediction."""
    tokens_read: int | None = field(default=None, compare=False)
    """Tokens that a further model of a method read in the run; ``None`` for others, and if it does not count them."""
    tokens_generated: int | None = field(default=None, compare=False)
    """Tokens that it generated."""

    @property
    def label(self) -> str:
        """The name and the short identity in one line, such as ``"gpt2 [0123456789ab]"``.

        A label ends with ``(unidentified)`` if the identity is incomplete.

        Predictions that the user gave instead of a function have the digest of the predictions as their identity. If
        the user or a log named their model, the label ends with ``(predictions given)``, because nothing checks this
        name.
        """
        identity = self.who.get(GIVEN, self.identity)
        parts = [self._name_or_given, f"[{identity[:_IDENTITY_DIGITS]}]", self._remark]
        return " ".join(part for part in parts if part)

    @property
    def label_without_digest(self) -> str:
        """The label without the short identity, such as ``"gpt2"``; a model without a name is ``"unnamed model"``."""
        parts = [self._name_or_given or _UNNAMED, self._remark]
        return " ".join(part for part in parts if part)

    @property
    def _name_or_given(self) -> str:
        """The shown name. Without one, it is "predictions given" for given predictions, and empty for a model."""
        are_given_predictions = GIVEN in self.who  # then `who` has their digest under this key
        if are_given_predictions and not self.shown_name:
            return GIVEN
        return self.shown_name

    @property
    def _remark(self) -> str:
        """What a label says in brackets behind the identity; mostly empty."""
        if GIVEN in self.who:
            return f"({GIVEN})" if self.shown_name else ""
        return "(unidentified)" if self.unidentified else ""

    @property
    def shown_name(self) -> str:
        """The name without the identity, in one line; empty if the model has no name.

        It is the first one that there is: the name that the user gave, that of the model, that of the function.
        """
        for name in (self.name, self.who.get("model"), self.who.get("function")):
            if name:
                return " ".join(name.split())
        return ""


OptionValue = bool | int | float | str | None
"""The value of an option of a method; ``None`` if only a digest of it is recorded."""


@dataclass(frozen=True, slots=True)
class MethodSettings:
    """The settings of an inference method as values."""

    name: str | None
    """The name of the method; ``None`` for a method of the user's own, which no name makes."""
    variant: str
    """The variant."""
    calibration_number: int | None
    """The number of calibration samples; ``None`` if the method did not read it."""
    options: Mapping[str, OptionValue]
    """The options that are not the default; a method of the user's own has all of them."""

    def contradiction(self, method: str | None) -> str | None:
        """Return a setting that a text with all settings does not have; ``None`` if it has all of them.

        Args:
            method: The name of a method with its settings, in words that are divided by blanks.
        """
        first_word, *words = (method or "").split(" ")
        if self.name is not None and self.name != first_word.partition("@")[0]:
            return self.name
        if self.variant not in words[:1]:
            return self.variant
        if self.calibration_number is not None and f"n={self.calibration_number}" not in words:
            return f"n={self.calibration_number}"
        for name, value in self.options.items():
            if value is None:
                has_option = any(word.startswith(f"{name}=") for word in words)
            else:
                has_option = f"{name}={value}" in words
            if not has_option:
                return name
        return None


@dataclass(frozen=True, slots=True)
class Provenance(SavedRecord):
    """Which models made a result's predictions, how, when, and how many failed.

    Args:
        predictors: One for each distinct inference function; empty where nothing was recorded.
        method: The inference method with its variant and options; ``None`` for plain predictions.
        failures: Digest of the numbers of the failed queries; ``None`` if none failed.
        asked: Digest of all that the method asked: features, roles, models, prompts with their labels; ``None`` for
            plain predictions. It is no part of the signature, since prompts may depend on what the model computes.
        further_models: The models that the method asked besides that of the predictions.
        method_settings: The settings of the method as values; ``None`` for plain predictions.
    """

    predictors: tuple[Predictor, ...] = ()
    method: str | None = None
    failures: str | None = None
    asked: str | None = None
    further_models: tuple[Predictor, ...] = ()
    method_settings: MethodSettings | None = field(default=None, metadata=LEFT_OUT_IF_NONE)

    def check_saved(self, where: str) -> None:
        """Raise a SchemaError if the settings of the method contradict its text."""
        if self.method_settings is None:
            return
        contradiction = self.method_settings.contradiction(self.method)
        if contradiction is not None:
            raise SchemaError(f"{where}: method_settings has {contradiction!r:.60}, method is {self.method!r:.80}")

    @property
    def label(self) -> str:
        """The names and short identities of the models, in one line."""
        if not self.predictors:
            return NOT_RECORDED
        return _joined_labels([predictor.label for predictor in self.predictors])

    @property
    def label_without_digests(self) -> str:
        """The names of the models in one line, as in the label, without their short identities."""
        if not self.predictors:
            return NOT_RECORDED
        return _joined_labels([predictor.label_without_digest for predictor in self.predictors])

    @property
    def names(self) -> str:
        """The names of the models without their identities, in one line.

        A model without a name is ``"unnamed model"``; predictions that the user gave without a name are
        ``"predictions given"``.
        """
        names: dict[str, None] = {}  # a dictionary keeps the order
        for predictor in self.predictors:
            default_name = GIVEN if GIVEN in predictor.who else _UNNAMED
            names[predictor.shown_name or default_name] = None
        return "; ".join(names) or NOT_RECORDED

    @property
    def unidentified(self) -> tuple[str, ...]:
        """The reasons why identities are incomplete, each once."""
        reasons: dict[str, None] = {}  # a dictionary keeps the order
        for predictor in self.predictors:
            reasons.update(dict.fromkeys(predictor.unidentified))
        return tuple(reasons)

    def named(self, name: str) -> Provenance:
        """Return the provenance with this name for all inference functions."""
        renamed = [replace(predictor, name=name) for predictor in self.predictors]
        return replace(self, predictors=tuple(renamed))

    def facts(self) -> dict[str, str]:
        """Return every known fact about the models and how their scores are computed, by the name of the fact.

        With several inference functions, each name has the number of its function, such as ``"model (2)"``.
        """
        facts: dict[str, str | None] = {}
        has_several = len(self.predictors) > 1
        for number, predictor in enumerate(self.predictors, start=1):
            if has_several:
                facts[f"data sets ({number})"] = "+".join(map(escaped, predictor.datasets))
            for name, value in _facts_about(predictor).items():
                if has_several:
                    facts[f"{name} ({number})"] = value
                else:
                    facts[name] = value
        facts["method"] = self.method
        facts["asked prompts"] = self.asked
        for number, model in enumerate(self.further_models, start=1):
            facts[f"further model {number}"] = model.label
        facts["failed queries"] = self.failures
        return {name: value for name, value in facts.items() if value is not None}

    def reproducible(self) -> Provenance:
        """Return the provenance without times, counts and served editions, which differ between equal runs."""
        # The fields of a predictor that differ between equal runs are those that are declared with compare=False.
        empty_values: dict[str, Any] = {}
        for attribute in fields(Predictor):
            if attribute.compare:
                continue
            if attribute.default is MISSING:  # a time, which is a text; counts and editions have a default
                empty_values[attribute.name] = ""
            else:
                empty_values[attribute.name] = attribute.default
        predictors = [replace(predictor, **empty_values) for predictor in self.predictors]
        further_models = [replace(model, **empty_values) for model in self.further_models]
        return replace(self, predictors=tuple(predictors), further_models=tuple(further_models))


def _joined_labels(labels: Iterable[str]) -> str:
    """Return the labels of models in one line, each once; after the first few, the others are counted."""
    distinct_labels = list(dict.fromkeys(labels))
    text = "; ".join(distinct_labels[:_MAX_MODELS_SHOWN])
    if len(distinct_labels) > _MAX_MODELS_SHOWN:
        text += f" and {len(distinct_labels) - _MAX_MODELS_SHOWN} more"
    return text


def _facts_about(predictor: Predictor) -> dict[str, str | None]:
    """Return the facts about one inference function by name; ``None`` for an unknown fact."""
    return {
        "model_name": predictor.name,
        **predictor.who,
        "served editions": "+".join(map(escaped, predictor.editions)) or None,
        **predictor.how,
        "unidentified": "; ".join(predictor.unidentified) or None,
    }


def predictors_of(
    runs: Iterable[tuple[RunRecord, str]], details: Mapping[str, DatasetDetails]
) -> tuple[Predictor, ...]:
    """Return a predictor for each distinct inference function of a run.

    The run has a record for each data set, or for several data sets that were evaluated together. Records with the same
    model name and the same complete identity are of the same function, and become one predictor.

    Args:
        runs: Pairs of a record and a data set that it is about.
        details: The details of each data set, which count its failed queries.
    """
    # For each function its record on each data set.
    records_by_function: dict[object, dict[str, RunRecord]] = {}
    for record, dataset in runs:
        records_by_dataset = records_by_function.setdefault(_function_key(record), {})
        records_by_dataset[dataset] = record

    predictors = []
    for records_by_dataset in records_by_function.values():
        failed = 0
        for dataset in records_by_dataset:
            if dataset in details:
                failed += details[dataset].failed
        predictors.append(_predictor(records_by_dataset, failed))
    return tuple(predictors)


def _function_key(record: RunRecord) -> tuple[object, ...]:
    """Return a key that two records share if they are known to be of the same inference function.

    Two functions with incomplete identities may differ although their digests are equal. So each record with an
    incomplete identity counts as a function of its own, by its identity in memory.
    """
    if record.identity.complete:
        return (record.model_name, record.identity.digest)
    return (record.model_name, record.identity.digest, id(record))


def _predictor(records_by_dataset: Mapping[str, RunRecord], failed: int) -> Predictor:
    """Return the predictor of one inference function, from its records on all its data sets.

    Args:
        records_by_dataset: Its record on each data set. Data sets that were evaluated together share one.
        failed: The number of its failed queries.
    """
    # Each record is counted once. Two records may be equal, so they are distinguished by their identity in memory.
    distinct_records = {id(record): record for record in records_by_dataset.values()}
    records = list(distinct_records.values())
    counts: Counter[str] = Counter()
    editions: dict[str, None] = {}
    for record in records:
        counts += record.counts
        editions.update(dict.fromkeys(record.editions))
    identity = records[0].identity
    return Predictor(
        name=records[0].model_name,
        identity=identity.digest,
        who=dict(identity.who),
        how=dict(identity.settings),
        unidentified=tuple(identity.unidentified),
        datasets=tuple(records_by_dataset),
        started=min(record.started for record in records),
        finished=max(record.finished for record in records),
        editions=tuple(editions),
        computed=counts["computed"],
        reused=counts["reused"],
        rechecked=counts["rechecked"],
        retried=counts["retried"],
        failed=failed,
    )


def utc_now() -> str:
    """Return the current time in UTC, as ISO 8601 with seconds."""
    return time.strftime("%Y-%m-%dT%H:%M:%S+00:00", time.gmtime())


_MODULES_OF_PACKAGE = {
    "torch": ("torch",),
    "transformers": ("torch",),
    "numpy": ("numpy", "torch"),
}
"""For each package that computes predictions, the modules of which one is loaded if a run uses the package."""

_ENDPOINT = "endpoint"
"""How the kernel of a server begins in the provenance."""


def describe_environment(predictors: Iterable[Predictor] = ()) -> dict[str, str]:
    """Return the versions of this library, of Python, and of the packages that can compute predictions.

    Args:
        predictors: The models of the run.
    """
    import platform  # only when a result is made

    versions = {
        "staicc": __version__,
        "python": platform.python_version(),
        "implementation": platform.python_implementation(),
        "system": platform.system(),
        "machine": platform.machine(),
    }
    packages = _packages_in_use(predictors)
    if packages:
        versions.update(_installed_versions(packages))
    return versions


def _installed_versions(packages: Iterable[str]) -> dict[str, str]:
    """Return the version of each package that is installed."""
    import importlib.metadata  # slow to import, and rarely needed

    versions = {}
    for package in packages:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            versions[package] = importlib.metadata.version(package)
    return versions


def _packages_in_use(predictors: Iterable[Predictor]) -> list[str]:
    """Return the packages that may have computed predictions.

    The package openai counts if a server predicted. Loaded modules do not say so: the kernel imports it at the first
    query only, and a run that takes all predictions from the store must give an equal result.
    """
    packages = []
    for package, modules in _MODULES_OF_PACKAGE.items():
        if any(module in sys.modules for module in modules):
            packages.append(package)
    if any(predictor.who.get("kernel", "").startswith(_ENDPOINT) for predictor in predictors):
        packages.append("openai")
    return packages
