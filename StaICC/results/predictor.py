"""Who predicted a result, how, when: its provenance.

The provenance has the rest of what a reader needs to trust or to repeat a result: the model (name and identity), the
times, the counts of computed and reused predictions, and a digest of the failed queries. Two provenances are equal if
the same models predicted in the same way; times and counts are not compared, because they depend on the clock and on
the prediction store.
"""

from __future__ import annotations

import contextlib
import sys
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, dataclass, field, fields, replace
from itertools import chain
from typing import Any

from StaICC.inference.recheck import RunRecord
from StaICC.results.details import DatasetDetails, SavedRecord
from StaICC.results.signature import escaped
from StaICC.version import __version__

GIVEN = "predictions given"
"""Key of ``who`` for predictions that were given instead of an inference function; its value is their digest."""

NOT_RECORDED = "not recorded"
"""What is shown for a result without provenance."""

_SHORT = 12
_SHOWN = 3  # models in a line


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

    @property
    def label(self) -> str:
        """The name, or the short identity; marked where the identity is incomplete."""
        if GIVEN in self.who:
            return f"{self.name or GIVEN} [{self.who[GIVEN][:_SHORT]}]"
        name = " ".join((self.name or self.who.get("model") or self.who.get("function", "")).split())
        shown = f"{name} [{self.identity[:_SHORT]}]" if name else f"[{self.identity[:_SHORT]}]"
        return f"{shown} (unidentified)" if self.unidentified else shown


@dataclass(frozen=True, slots=True)
class Provenance(SavedRecord):
    """Who predicted a result's predictions, how, when, and how many failed.

    Args:
        predictors: One for each distinct inference function; empty where nothing was recorded.
        method: The inference method with its variant and options; ``None`` for plain predictions.
        failures: Digest of the numbers of the failed queries; ``None`` if none failed.
    """

    predictors: tuple[Predictor, ...] = ()
    method: str | None = None
    failures: str | None = None

    @property
    def label(self) -> str:
        """The models by name and short identity, in one line."""
        labels = list(dict.fromkeys(predictor.label for predictor in self.predictors))
        more = f" and {len(labels) - _SHOWN} more" if len(labels) > _SHOWN else ""
        return "; ".join(labels[:_SHOWN]) + more or NOT_RECORDED

    @property
    def unidentified(self) -> tuple[str, ...]:
        """Why an identity is incomplete, each reason once."""
        return tuple(dict.fromkeys(reason for predictor in self.predictors for reason in predictor.unidentified))

    def named(self, name: str) -> Provenance:
        """Return the provenance with another name of the inference functions."""
        return replace(self, predictors=tuple(replace(predictor, name=name) for predictor in self.predictors))

    def facts(self) -> dict[str, str]:
        """Return who and how as flat values by name; several inference functions are numbered."""
        facts: dict[str, str | None] = {}
        for number, predictor in enumerate(self.predictors, 1):
            mark = f" ({number})" if len(self.predictors) > 1 else ""
            facts[f"data sets{mark}"] = "+".join(map(escaped, predictor.datasets)) if mark else None
            editions = "+".join(map(escaped, predictor.editions)) or None
            values = {"model_name": predictor.name, **predictor.who, "served editions": editions, **predictor.how}
            values["unidentified"] = "; ".join(predictor.unidentified) or None
            facts |= {f"{key}{mark}": value for key, value in values.items()}
        facts |= {"method": self.method, "failed queries": self.failures}
        return {key: value for key, value in facts.items() if value is not None}

    def reproducible(self) -> Provenance:
        """Return the provenance without times, counts and served editions, which differ between equal runs."""
        without: dict[str, Any] = {
            item.name: "" if item.default is MISSING else item.default for item in fields(Predictor) if not item.compare
        }
        return replace(self, predictors=tuple(replace(predictor, **without) for predictor in self.predictors))


def predictors_of(
    runs: Iterable[tuple[RunRecord, str]], details: Mapping[str, DatasetDetails]
) -> tuple[Predictor, ...]:
    """Return the distinct inference functions of a run.

    Args:
        runs: What each function did, with a data set that it served.
        details: The details of each data set, which count its failed queries.
    """
    served: dict[object, dict[str, RunRecord]] = {}
    for record, dataset in runs:
        # Functions without a complete identity may differ although their digests are equal: each has its own entry.
        which = None if record.identity.complete else id(record)
        served.setdefault((record.model_name, record.identity.digest, which), {})[dataset] = record
    predictors = []
    for by_dataset in served.values():
        records = list({id(record): record for record in by_dataset.values()}.values())
        failed = sum(details[dataset].failed for dataset in by_dataset if dataset in details)
        counts = {**sum((record.counts for record in records), Counter[str]()), "failed": failed}
        identity, editions = records[0].identity, chain.from_iterable(record.editions for record in records)
        predictors.append(
            Predictor(
                records[0].model_name,
                identity.digest,
                dict(identity.who),
                dict(identity.settings),
                tuple(identity.unidentified),
                tuple(by_dataset),
                min(record.started for record in records),
                max(record.finished for record in records),
                tuple(dict.fromkeys(editions)),
                **counts,
            )
        )
    return tuple(predictors)


def utc_now() -> str:
    """Return the time in UTC, as ISO 8601 with seconds."""
    return time.strftime("%Y-%m-%dT%H:%M:%S+00:00", time.gmtime())


_MATTERING = {
    "torch": ("torch",),
    "transformers": ("torch",),
    "numpy": ("numpy", "torch"),
    "openai": ("StaICC.kernels.server.endpoint",),
}
"""Packages that compute predictions, and the modules whose loading shows that a run uses them. These are not always
modules of the package: some kernels import it at the first query, and a run from the store alone must give an equal
result."""


def describe_environment() -> dict[str, str]:
    """Return versions of this library, of Python, and of the loaded packages that compute predictions."""
    import platform  # only when a result is made

    versions = {
        "staicc": __version__,
        "python": platform.python_version(),
        "implementation": platform.python_implementation(),
        "system": platform.system(),
        "machine": platform.machine(),
    }
    for name, signs in _MATTERING.items():
        if any(sign in sys.modules for sign in signs):
            import importlib.metadata  # slow to import, and rarely needed

            with contextlib.suppress(importlib.metadata.PackageNotFoundError):
                versions[name] = importlib.metadata.version(name)
    return versions
