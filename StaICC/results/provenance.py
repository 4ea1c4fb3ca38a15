"""Provenance: who predicted, how, when, and how many predictions were computed or reused.

The signature has every setting that changes a number. The provenance has the rest of what a reader needs to trust or to
repeat it: the model (name and identity), the times, the counts, and a digest of the failed queries. Two provenances are
equal if the same models predicted in the same way; times and counts are not compared, because they depend on the clock
and on the prediction store.
"""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, asdict, dataclass, field, fields, replace
from typing import Any

from StaICC.inference.identity import Identity
from StaICC.inference.recheck import RunCounts, RunRecord
from StaICC.results.details import DatasetDetails, SavedRecord
from StaICC.results.signature import digest, escaped, short_digest
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
    """The name that the user gave it (``model_name``), or that of the command line's ``--model``."""
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

    _what = "the provenance"
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
        """Return the provenance with a name for the inference functions that have none."""
        return replace(
            self, predictors=tuple(replace(predictor, name=predictor.name or name) for predictor in self.predictors)
        )

    def facts(self) -> dict[str, str]:
        """Return who and how as flat values by name; several inference functions are numbered."""
        facts: dict[str, str] = {}
        for number, predictor in enumerate(self.predictors, 1):
            mark = f" ({number})" if len(self.predictors) > 1 else ""
            served = {f"data sets{mark}": "+".join(map(escaped, predictor.datasets))} if mark else {}
            name = {"model_name": predictor.name} if predictor.name else {}
            reasons = {"unidentified": "; ".join(predictor.unidentified)} if predictor.unidentified else {}
            editions = {"served editions": "+".join(map(escaped, predictor.editions))} if predictor.editions else {}
            values = {**name, **predictor.who, **editions, **predictor.how, **reasons}
            facts.update(served | {f"{key}{mark}": value for key, value in values.items()})
        if self.method is not None:
            facts["method"] = self.method
        if self.failures is not None:
            facts["failed queries"] = self.failures
        return facts

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
        counts = replace(sum((record.counts for record in records), RunCounts()), failed=failed)
        identity = records[0].identity
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
                tuple(dict.fromkeys(edition for record in records for edition in record.editions)),
                **asdict(counts),
            )
        )
    return tuple(predictors)


def given_predictor(answers: object, started: str, details: Mapping[str, DatasetDetails]) -> Predictor:
    """Return who predicted where predictions were given instead of an inference function.

    Args:
        answers: The checked predictions as JSON values; the order of a file plays no part.
        started: When scoring began.
        details: The details of each data set.
    """
    identity = Identity({GIVEN: digest(answers)})
    failed = sum(of_dataset.failed for of_dataset in details.values())
    return Predictor(
        None, identity.digest, dict(identity.who), {}, (), tuple(details), started, utc_now(), failed=failed
    )


def digest_failures(details: Mapping[str, DatasetDetails]) -> str | None:
    """Return a digest of which queries failed; ``None`` if none did."""
    failed = [[name, query.condition, query.query] for name, one in details.items() for query in one.failures]
    return short_digest(failed) if failed else None


def utc_now() -> str:
    """Return the time in UTC, as ISO 8601 with seconds."""
    return time.strftime("%Y-%m-%dT%H:%M:%S+00:00", time.gmtime())


_MATTERING = {
    "torch": ("torch",),
    "transformers": ("torch",),
    "numpy": ("numpy", "torch"),
    "openai": ("StaICC.kernels.endpoint",),
}
"""Packages that compute predictions, and the modules whose loading shows that a run uses them. These are not always
modules of the package: some kernels import it at the first query, and a run from the store alone must give an equal
result."""


def describe_environment() -> dict[str, str]:
    """Return versions of this library, of Python, and of the loaded packages that compute predictions."""
    import platform  # only when a result is made

    found = {
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
                found[name] = importlib.metadata.version(name)
    return found
