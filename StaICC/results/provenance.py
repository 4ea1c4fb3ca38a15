"""Signature and provenance: what can change a result's numbers, and who predicted, how, when.

The signature is one line that a paper can print, with every setting that can change a number. Two results with the same
signature had the same prompts and the same scoring. The line is built from data in a fixed order, the version last,
what is at its default left out where leaving it out says so; it is never parsed back.

The provenance has the rest of what a reader needs to trust or to repeat a result: the model (name and identity), the
times, the counts of computed and reused predictions, and a digest of the failed queries. Two provenances are equal if
the same models predicted in the same way; times and counts are not compared, because they depend on the clock and on
the prediction store.

Details of one data set's scores: counts, prompts, intervals, baselines, notes and one record per query.

They make a score checkable: how many queries were evaluated and failed, the digests of their prompts, why a score is
undefined, and the accuracy of guessing.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import math
import struct
import sys
import time
from array import array
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields, replace
from itertools import chain
from typing import Any

from StaICC.datasets.catalogue import plain_values
from StaICC.errors import SchemaError
from StaICC.inference.identity import RunRecord
from StaICC.metrics.classification import ConfidenceBin, Kind, normalise
from StaICC.metrics.intervals import Interval
from StaICC.safe_text import one_line
from StaICC.version import __version__


class SavedRecord:
    """A part of a result that goes to JSON values and back: the base of a dataclass. A file has all its fields."""

    __slots__ = ()

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return dict(plain_values(self))

    def check_saved(self, where: str) -> None:
        """Raise a SchemaError for fields that contradict each other."""


@dataclass(frozen=True, slots=True)
class Baselines:
    """Accuracies of predictors without a model, and p-values of the accuracy against them."""

    queries: int
    """Number of queries that the accuracy was measured on."""
    labels: int
    """Size of the label space; 0 for a mean over data sets."""
    uniform: float
    """Expected accuracy of uniform guessing: 1 / labels."""
    majority: float
    """Accuracy of always predicting the most frequent true label of the queries."""
    tried: int
    """Settings of which this is the best (``t`` of Yauney and Mimno 2024)."""
    max_random: float
    """Expected best accuracy of ``tried`` uniform guessers (their Equation 9)."""
    p_value: float
    """Probability that the best of ``tried`` uniform guessers, with a guess for each query, reaches the accuracy."""
    p_value_rows: float | None = None
    """The same for guessers with one guess for each test row, repeated in all its queries; ``None`` for LongICL."""
    p_value_majority: float | None = None
    """One-sided p-value of the sign test over test rows against always the most frequent true label."""
    last_demonstration: float | None = None
    """Accuracy of always predicting the label of the last demonstration; ``None`` where it is not known."""
    p_value_last_demonstration: float | None = None
    """One-sided p-value of the sign test over test rows against it."""


@dataclass(frozen=True, slots=True)
class MeanDetails(SavedRecord):
    """Intervals and baselines of the means over the data sets."""

    intervals: Mapping[str, Interval] = field(default_factory=dict)
    """Confidence intervals by key of the mean."""
    missing: Mapping[str, str] = field(default_factory=dict)
    """Why a mean has no interval, by its key."""
    baselines: Mapping[str, Baselines] = field(default_factory=dict)
    """Baselines of the mean accuracy, by condition."""


@dataclass(frozen=True, slots=True)
class FailedQuery:
    """A query without a prediction."""

    condition: str
    query: int
    """Number within the condition."""
    reason: str


@dataclass(frozen=True, slots=True)
class ConditionRecord:
    """One condition: true labels, predictions and label scores of its queries."""

    name: str
    output: str
    """Kind of the predictions: ``"probabilities"``, ``"logits"``, ``"labels"``, ``"ambiguous"`` or ``"none"``."""
    truth: tuple[int, ...]
    """True label index of each query."""
    predictions: tuple[int | None, ...]
    """Predicted label index of each query; ``None`` for a failed query."""
    rows: tuple[int, ...]
    """Test row of each query."""
    calibration: tuple[ConfidenceBin, ...] | None = None
    """Ten bins by confidence, for a reliability diagram; ``None`` if the predictions have no probabilities."""
    scores: str | None = None
    """Label scores of the queries that did not fail, as :func:`pack_scores` writes them; ``None`` if the
    predictions are labels or texts."""

    def label_scores(self, labels: int) -> list[list[float] | None]:
        """Return the label scores of each query; ``None`` for queries without them.

        Args:
            labels: How many labels there are.

        Raises:
            SchemaError: The scores are damaged, or of another number of queries.
        """
        if self.scores is None:
            return [None] * len(self.predictions)
        rows = unpack_scores(self.scores, labels)
        predicted = len(self.predictions) - self.predictions.count(None)
        if len(rows) != predicted:
            raise SchemaError(f"the file has label scores of {len(rows)} queries, and predictions of {predicted}")
        following = iter(rows)
        return [None if label is None else next(following) for label in self.predictions]

    def probabilities(self, labels: int) -> list[list[float] | None]:
        """Return the label scores of each query as the metrics read them: probabilities with the sum 1.

        Args:
            labels: How many labels there are.

        Returns:
            ``None`` for queries without scores, and for all if the scores may be probabilities or logits.
        """
        scores = self.label_scores(labels)
        if self.output not in ("probabilities", "logits"):
            return [None] * len(scores)
        kind: Kind = "logits" if self.output == "logits" else "probabilities"
        read = iter(normalise([row for row in scores if row is not None], kind).probabilities or ())
        return [None if row is None else list(next(read)) for row in scores]


@dataclass(frozen=True, slots=True)
class QueryScores:
    """The score of each query of a metric of the user's own, which is their mean: comparisons read them."""

    low: float
    """The lowest possible score."""
    high: float
    """The highest possible score."""
    values: Mapping[str, Mapping[str, tuple[float | None, ...] | None]]
    """By data set and condition; ``None`` for a query that no score counts, and for an undefined metric."""


QueryPosition = tuple[int, int]
"""Test row, and place among the queries of this row."""


def query_positions(rows: Sequence[int]) -> list[QueryPosition]:
    """Return for each query its test row, and its place among the queries of this row.

    Args:
        rows: The test row of each query.
    """
    seen: Counter[int] = Counter()
    keys = []
    for row in rows:
        keys.append((row, seen[row]))
        seen[row] += 1
    return keys


@dataclass(frozen=True, slots=True)
class DatasetDetails(SavedRecord):
    """Everything about the run over one data set, except its scores."""

    asked: int
    """Queries of the benchmark."""
    distinct: int
    """Different (prompt, label space) pairs among them."""
    scored: int
    """Queries that the scores count."""
    failed: int
    """Queries without a prediction."""
    prompts: str
    """Digest of all prompts, in order."""
    query_digests: str
    """The first 32 bits of each prompt's digest, in order, as base64: finds the first query that differs."""
    conditions: tuple[ConditionRecord, ...]
    missing: Mapping[str, str] = field(default_factory=dict)
    """Why a score is undefined, by its key."""
    notes: tuple[str, ...] = ()
    """Warnings of the checks of the predictions."""
    intervals: Mapping[str, Interval] = field(default_factory=dict)
    """Confidence intervals by metric."""
    baselines: Mapping[str, Baselines] = field(default_factory=dict)
    """Accuracy of guessing, by the condition whose accuracy it belongs to."""
    failures: tuple[FailedQuery, ...] = ()
    unparsed: tuple[FailedQuery, ...] = ()
    """Generated replies without a label, with the beginning of each."""
    bounds: Mapping[str, tuple[float | None, ...]] = field(default_factory=dict)
    """Scores that exclude unparsed replies: their values if all of these were wrong, and if all were right."""
    labels: tuple[str, ...] = ()
    """Label names in the order of the label space; empty for LongICL."""
    data: str | None = None
    """Digest of the test texts, in order, without labels (true labels are in the records); of the whole table where
    queries have no content, of the test file for LongICL."""

    def check_saved(self, where: str) -> None:
        """Raise a SchemaError for a condition whose fields contradict each other."""
        for record in self.conditions:
            name = f"{where}, condition {record.name!r:.60}"
            if not len(record.truth) == len(record.predictions) == len(record.rows):
                raise SchemaError(f"{name} has truth, predictions and rows of different lengths")
            wrong = {*record.truth, *record.predictions} - {None, *range(len(self.labels))}
            if wrong and self.labels:  # LongICL's have none here, and -1 for a prediction that names no label
                raise SchemaError(f"{name} has the label index {wrong.pop()}, expected 0 to {len(self.labels) - 1}")
            if record.scores is not None:
                _numbers(record.scores)


@dataclass(frozen=True, slots=True)
class EarlyStopping(SavedRecord):
    """The outcome of a run with ``precision``, or of a race between two models.

    A run that stopped early is never confused with a full one: its signature has the field ``stopping``, its table
    begins with a remark, and ``compare`` refuses it.
    """

    rule: str
    """``"precision"``: until the interval of the score is narrow; ``"race"``: until the better model is known, or
    the difference is known to be below a margin."""
    score: str
    """The score, a mean over data sets of means over test rows. In a race its difference, first minus second model."""
    target: float
    """The precision (half the width of the interval), or the margin."""
    estimate: float | None
    """The score of the evaluated rows, or its difference; ``None`` in some files of version 1.0.0."""
    interval: Interval
    """Of the score that the full benchmark would give; it is valid whenever the run stops."""
    rounds: int
    """Rounds that were evaluated; a round is one test row of each data set that has rows left, with all its repeats."""
    all_rounds: int
    """Rounds of the full benchmark."""
    queries: int
    """Queries that were evaluated, of each model."""
    all_queries: int
    """Queries of the full benchmark."""
    reason: str
    """Why the run stopped."""

    @property
    def saved(self) -> float:
        """The share of the queries of the full benchmark that were not evaluated."""
        return 1 - self.queries / max(self.all_queries, 1)

    @property
    def settings(self) -> str:
        """The field ``stopping`` of the signature."""
        target = "precision" if self.rule == "precision" else "race with margin"
        return (
            f"{target} {self.target!r} of {self.score} at level {self.interval.level!r} ({self.interval.method}): "
            f"{self.rounds} of {self.all_rounds} rounds"
        )

    def __str__(self) -> str:
        what, sign = self.score, ""
        if self.rule == "race":
            what, sign = f"the difference of {self.score}, first minus second,", "+"
        estimate = "is undefined" if self.estimate is None else f"is {self.estimate:{sign}.4f}"
        return (
            f"EARLY STOPPING: {self.reason}. On the evaluated rows {what} {estimate}. For the full benchmark the "
            f"{100 * self.interval.level:g} % interval, valid at any stopping time, is {self.interval.low:{sign}.4f} "
            f".. {self.interval.high:{sign}.4f}. {self.queries} of {self.all_queries} queries were evaluated "
            f"({100 * self.saved:.0f} % saved). Other scores have no valid interval. Do not compare this result with "
            "full runs."
        )

    def check_saved(self, where: str) -> None:
        """Raise a SchemaError for another rule, and for a wrong number of rounds."""
        if self.rule not in ("precision", "race") or not 0 < self.rounds <= self.all_rounds:
            raise SchemaError(
                f"{where}: got {self.rule!r:.40} with {self.rounds} of {self.all_rounds} "
                "rounds, expected 'precision' or 'race' and at least 1 round"
            )


# -- label scores: one line of text, ``f8:`` or ``f4:``, then base64 of the little-endian numbers, row by row. ``f4``
# (single precision) is used where no number loses a bit by it. The text is not compressed: scores hardly compress, and
# compressors of different versions write different bytes.

_SCORE_TYPES = {"f4": "f", "f8": "d"}


def pack_scores(rows: Sequence[Sequence[float]]) -> str:
    """Write label scores as text.

    Args:
        rows: One row for each query with an answer, one number for each label; a logit may be minus infinity.

    Returns:
        The text; :func:`unpack_scores` gives the same numbers back, bit for bit.

    Example:
        >>> pack_scores([[0.5, 0.25]])
        'f4:AAAAPwAAgD4='
    """
    double = array("d", [value for row in rows for value in row])
    kind = "f4" if array("d", array("f", double)) == double else "f8"
    numbers = struct.pack(f"<{len(double)}{_SCORE_TYPES[kind]}", *double)
    return f"{kind}:{base64.b64encode(numbers).decode('ascii')}"


def _numbers(text: str) -> tuple[float, ...]:
    kind, colon, coded = text.partition(":")
    if not colon or kind not in _SCORE_TYPES:
        raise SchemaError(f"label scores start with 'f4:' or 'f8:', not {text[:8]!r}")
    try:
        data = base64.b64decode(coded.encode("ascii"), validate=True)
        numbers: tuple[float, ...] = struct.unpack(f"<{len(data) // int(kind[1])}{_SCORE_TYPES[kind]}", data)
    except (struct.error, ValueError) as error:
        raise SchemaError(f"label scores cannot be decoded ({error})") from error
    if not all(number < math.inf for number in numbers):
        raise SchemaError("label scores must be finite numbers or minus infinity")
    return numbers


def unpack_scores(text: str, labels: int) -> list[list[float]]:
    """Read what :func:`pack_scores` wrote.

    Args:
        text: The text.
        labels: How many labels there are.

    Returns:
        One row for each query with an answer.

    Raises:
        SchemaError: The text has another form, or its numbers do not fill rows of this length.

    Example:
        >>> unpack_scores("f4:AAAAPwAAgD4=", 2)
        [[0.5, 0.25]]
    """
    numbers = _numbers(text)
    if labels < 1 or len(numbers) % labels:
        raise SchemaError(f"there are {len(numbers)} label scores, which do not fill rows of {labels} labels")
    return [list(numbers[start : start + labels]) for start in range(0, len(numbers), labels)]


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
        pairs = {name: (self.fields.get(name), other.fields.get(name)) for name in FIELDS}
        return {name: (ours, theirs) for name, (ours, theirs) in pairs.items() if ours != theirs}

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
