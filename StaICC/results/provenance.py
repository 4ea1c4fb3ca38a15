"""Signature and provenance: what can change a result's numbers, and who predicted, how, when.

The signature is one line that a paper can print, with every setting that can change a number. Two results with the same
signature had the same prompts and the same scoring. The line is built from data in a fixed order, the version last,
what is at its default left out where leaving it out says so; it is never parsed back.

The provenance has the rest of what a reader needs to trust or to repeat a result: the model (name and identity), the
times, the counts of computed and reused predictions, and a digest of the failed queries. Two provenances are equal if
the same models predicted in the same way; times and counts are not compared, because they depend on the clock and on
the prediction store.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, asdict, dataclass, field, fields, replace
from typing import Any

from StaICC.errors import SchemaError
from StaICC.inference.identity import Identity, RunCounts, RunRecord
from StaICC.results.details import DatasetDetails, SavedRecord
from StaICC.safe_text import one_line
from StaICC.version import __version__

FIELDS = (
    *("benchmark", "datasets", "data", "split", "sampler", "k", "repeats", "rows", "demonstrations", "template"),
    *("channel", "options", "limit", "stopping", "method", "scoring", "metrics", "outputs", "unparsed", "statistics"),
    *("prompts", "failed", "version"),
)
"""Every field that a signature can have, in its order."""


def digest(value: object) -> str:
    """Return the SHA-256 of a JSON value (compact, UTF-8), the convention of all digests of this library."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def short_digest(value: object) -> str:
    """Return the first 12 hexadecimal digits of :func:`digest`, enough to tell settings apart in a line."""
    return digest(value)[:12]


def escaped(name: str) -> str:
    """Write a user's name so that it cannot be taken for several, or for the next field.

    Args:
        name: The name, such as that of a data set.

    Returns:
        The name with ``|``, ``+``, ``%`` and unprintable characters as ``%`` and their number.

    Example:
        >>> escaped("a|b"), escaped("plain name"), escaped("c++")
        ('a%7Cb', 'plain name', 'c%2B%2B')
    """
    return "".join(f"%{ord(c):02X}" if c in "|+%" or not c.isprintable() else c for c in name)


def scoring_field(settings: Mapping[str, str]) -> str:
    """Write the settings of an inference function as a field of the signature.

    Args:
        settings: How its scores are computed, by option name (``settings`` of its identity).

    Returns:
        The settings in the order of their names, escaped; ``"function"`` if there are none.

    Example:
        >>> scoring_field({"label_scoring": "last", "max_length": "512"}), scoring_field({})
        ('label_scoring=last;max_length=512', 'function')
    """
    pairs = ((_setting(name), _setting(value)) for name, value in sorted(settings.items()))
    return ";".join(f"{name}={value}" for name, value in pairs) or "function"


def _setting(text: str) -> str:
    return escaped(text).replace(";", "%3B").replace("=", "%3D")


def common(values: Sequence[str | None]) -> str | None:
    """Return the value that all data sets share, or ``mixed-`` and a digest of the list."""
    return values[0] if len(set(values)) == 1 else f"mixed-{short_digest(list(values))}"


@dataclass(frozen=True)
class Signature:
    """What can move a number, as text by field.

    Args:
        fields: Values by field name; the known names are fixed, ``None`` values are left out.

    Raises:
        SchemaError: A field that signatures do not have.

    Example:
        >>> print(Signature({"version": "1.0.0", "benchmark": "Normal", "k": "4", "limit": None}))
        StaICC|benchmark:Normal|k:4|version:1.0.0
    """

    fields: Mapping[str, str | None]

    def __post_init__(self) -> None:
        unknown = [name for name in self.fields if name not in FIELDS]
        if unknown:
            raise SchemaError(f"a signature has no field {unknown[0]!r}; there are: {', '.join(FIELDS)}")
        ordered = {name: self.fields[name] for name in FIELDS if self.fields.get(name) is not None}
        object.__setattr__(self, "fields", ordered)

    def __str__(self) -> str:
        return one_line("|".join(["StaICC", *(f"{name}:{value}" for name, value in self.fields.items())]))

    def to_dict(self) -> dict[str, str]:
        """Return the fields that are set, in order."""
        return {name: value for name, value in self.fields.items() if value is not None}

    def differences(self, other: Signature) -> dict[str, tuple[str | None, str | None]]:
        """Return the fields in which two signatures differ, with both values."""
        return {
            name: (self.fields.get(name), other.fields.get(name))
            for name in FIELDS
            if self.fields.get(name) != other.fields.get(name)
        }

    def __hash__(self) -> int:
        return hash(str(self))


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
        """Return the provenance with another name of the inference functions."""
        return replace(self, predictors=tuple(replace(predictor, name=name) for predictor in self.predictors))

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
    failed = [[name, query.condition, query.query] for name, own in details.items() for query in own.failures]
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
