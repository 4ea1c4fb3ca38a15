"""The published figures: Tables 7 and 8 of the StaICC paper, Tables 3 to 6 of the LongICLBench paper.

Every figure is as printed, with two exceptions: percentages of LongICLBench are converted to shares, and models with
wrong headers have their correct names (:attr:`PublishedModel.note` has the reason). An unknown figure is ``None`` with
a reason: the paper marks it as not run, or our copy of the table ends before it. If a cell of Table 8 is missing and
Table 2 has the accuracy, that one is used, and its source says so.

Some printed figures contradict or repeat others by mistake. They are kept as printed, with a warning. A warning that
begins with ``DOUBTFUL`` means that the figure is not used as a reference.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from StaICC.errors import unknown_name

BENCHMARKS = ("Normal", "Diagnosis", "LongICL")
LONG_ICL = "LongICL"


@functools.cache
def _read(name: str) -> Any:
    return json.loads((Path(__file__).parent / f"{name}.json").read_text("utf-8"))


METHODS: tuple[str, ...] = tuple(_read("normal")["figures"])
"""The inference methods of the StaICC paper, in its order."""

_ALIASES = {
    "vanilla": "Vanilla ICL",
    "ppl": "PPL-ICL",
    "sa": "SA-ICL",
    "knnprompt": "k-NN",
    "knnpromptcentroid": "k-NN",
}
_DOUBTFUL = "DOUBTFUL"


@dataclass(frozen=True, slots=True)
class PublishedModel:
    """A model of the StaICC paper."""

    column: int
    """Its column in Tables 7 and 8, from 1, left to right through both groups."""
    family: str
    params_b: float
    """Parameters in billions, as printed."""
    instruction_tuned: bool
    quantised: str | None
    """``"AWQ"``, or ``None`` if nothing is stated."""
    note: str | None
    """Why the name differs from the printed header; ``None`` if it does not."""

    @property
    def name(self) -> str:
        """A name that is unique in the paper."""
        return f"{self.family} {self.params_b:g}B{' instruct' if self.instruction_tuned else ''}"


@dataclass(frozen=True, slots=True)
class PublishedFigure:
    """One printed number."""

    benchmark: str
    """``"Normal"``, ``"Diagnosis"`` or ``"LongICL"``."""
    model: str
    method: str | None
    """The inference method for ``"Normal"``; ``None`` for the others."""
    dataset: str | None
    """The data set for ``"LongICL"``; ``None`` for the mean over the ten data sets."""
    metric: str
    """The metric's name; for ``"LongICL"`` the round, ``"1R"`` to ``"5R"``, or ``"all rounds"``."""
    value: float | None
    absent: str | None
    """Why there is no value."""
    source: str
    warnings: tuple[str, ...] = ()

    @property
    def doubtful(self) -> bool:
        """Whether the figure is not used as a reference."""
        return any(warning.startswith(_DOUBTFUL) for warning in self.warnings)


@functools.cache
def models() -> tuple[PublishedModel, ...]:
    """Return the 29 models of the StaICC paper, by column.

    Example:
        >>> models()[27].name
        'Qwen2 72B instruct'
    """
    return tuple(PublishedModel(**record) for record in _read("models")["models"])


def _warnings(listed: Sequence[Any], column: int, metric: str, method: str | None = None) -> tuple[str, ...]:
    return tuple(
        one["text"]
        for one in listed
        if column in one["columns"]
        and one.get("method", method) == method
        and (one["metrics"] is None or metric in one["metrics"])
    )


def _normal() -> Iterator[PublishedFigure]:
    data = _read("normal")
    for method, metrics in data["figures"].items():
        not_run = data["not_reported"].get(method, ())
        elsewhere = data["table_2_accuracy"].get(method, {})
        for metric, values in metrics.items():
            for model, value in zip(models(), values, strict=True):
                source, absent = data["source"], None
                if value is None and metric == "accuracy" and str(model.column) in elsewhere:
                    value, source = elsewhere[str(model.column)], source.replace("Table 8", "Table 2")
                if value is None:
                    absent = (
                        "the paper did not run it"
                        if model.column in not_run
                        else "missing in the copy of the table that was used"
                    )
                warnings = _warnings(data["warnings"], model.column, metric, method) if value is not None else ()
                yield PublishedFigure("Normal", model.name, method, None, metric, value, absent, source, warnings)


def _diagnosis() -> Iterator[PublishedFigure]:
    data = _read("diagnosis")
    for metric, values in data["figures"].items():
        for model, value in zip(models(), values, strict=True):
            warnings = _warnings(data["warnings"], model.column, metric)
            yield PublishedFigure("Diagnosis", model.name, None, None, metric, value, None, data["source"], warnings)


def _share(percent: float) -> float:
    """Return a percentage with one decimal as a share."""
    return round(percent / 100, 3)


def _long_icl() -> Iterator[PublishedFigure]:
    data = _read("long_icl")
    for table in data["tables"]:
        source = data["source"].replace("Tables 3 to 6", table["source"])
        for row in table["rows"]:
            name, dataset = row["model"], table["dataset"]
            warnings = tuple(text for text in table["warnings"] if name in text)  # the others concern the table
            if row["single"] is not None:  # the state of the art, trained on the task: one figure, no rounds
                single = _share(row["single"])
                yield PublishedFigure(LONG_ICL, name, None, dataset, "all rounds", single, None, source, warnings)
                continue
            for number, percent in enumerate(row["figures"], 1):
                value = None if percent is None else _share(percent)
                absent = None if value is not None else "printed as X, without a reason"
                yield PublishedFigure(LONG_ICL, name, None, dataset, f"{number}R", value, absent, source, warnings)


@functools.cache
def _all() -> tuple[PublishedFigure, ...]:
    return (*_normal(), *_diagnosis(), *_long_icl())


def _fold(name: str) -> str:
    return "".join(letter for letter in name.casefold() if letter.isalnum() or letter == ".")


def find_method(name: str) -> str:
    """Return the name of a method in the paper.

    Args:
        name: The name; case, blanks, hyphens and underscores are ignored.

    Raises:
        UnknownNameError: There is no such method; the message suggests the nearest.

    Example:
        >>> find_method("hidden-calibration")
        'Hidden Calibration'
    """
    folded = {_fold(method): method for method in METHODS} | _ALIASES
    if _fold(name) not in folded:
        raise unknown_name("published method", name, METHODS)
    return folded[_fold(name)]


def find_models(name: str) -> tuple[str, ...]:
    """Return the names of the published models that match a name.

    Args:
        name: A model's name, or a family (``"Pythia"``: all its sizes). Case, blanks, hyphens, underscores and the B of
            the size are ignored.

    Raises:
        UnknownNameError: There is no such model; the message suggests the nearest.

    Example:
        >>> find_models("opt")
        ('OPT 2.7B', 'OPT 1.3B', 'OPT 6.7B')
        >>> find_models("qwen2 72B instruct")
        ('Qwen2 72B instruct',)
    """
    known = list(dict.fromkeys(one.model for one in _all()))
    families = {model.name: model.family for model in models()}
    wanted = _fold(name)
    exact = [one for one in known if wanted == _fold(one) or wanted + "b" == _fold(one)]
    of_family = [one for one in known if wanted == _fold(families.get(one, ""))]
    if not exact and not of_family:
        legal = [*dict.fromkeys(families.values()), *known]
        raise unknown_name("published model", name, legal, "All names: python -m StaICC published.")
    return tuple(exact or of_family)


def figures(
    benchmark: str | None = None,
    *,
    model: str | None = None,
    method: str | None = None,
    dataset: str | None = None,
    metric: str | None = None,
) -> tuple[PublishedFigure, ...]:
    """Return published figures.

    Args:
        benchmark: ``"Normal"``, ``"Diagnosis"`` or ``"LongICL"``; all by default.
        model: A model or a family of models (see :func:`find_models`).
        method: An inference method (see :func:`find_method`).
        dataset: A data set of LongICL.
        metric: A metric.

    Returns:
        All matches, including those without a value, which have a reason.

    Raises:
        UnknownNameError: A name is unknown; the message suggests the nearest.

    Example:
        >>> found = figures("Normal", model="NEO 2.7", method="noisy channel", metric="accuracy")
        >>> found[0].value, found[0].doubtful
        (0.5678, True)
    """
    found: Sequence[PublishedFigure] = _all()
    if benchmark is not None:
        named = {_fold(one): one for one in BENCHMARKS}.get(_fold(benchmark))
        if named is None:
            raise unknown_name("benchmark with published figures", benchmark, BENCHMARKS)
        found = [one for one in found if one.benchmark == named]
    if model is not None:
        wanted = find_models(model)
        found = [one for one in found if one.model in wanted]
    if method is not None:
        named = find_method(method)
        found = [one for one in found if one.method == named]
    for kind, value in (("dataset", dataset), ("metric", metric)):
        if value is not None:
            legal = {_fold(getattr(one, kind)): getattr(one, kind) for one in _all() if getattr(one, kind) is not None}
            if _fold(value) not in legal:
                raise unknown_name(f"{kind} with published figures", value, legal.values())
            found = [one for one in found if getattr(one, kind) == legal[_fold(value)]]
    return tuple(found)
