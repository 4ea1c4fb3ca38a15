"""The published figures: Tables 7, 8 of the StaICC paper, Tables 3 to 6 of the LongICLBench paper.

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
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from StaICC import benchmark_names
from StaICC.datasets.catalogue import get_card, names
from StaICC.errors import unknown_name
from StaICC.results.signature import short_digest

BENCHMARKS = (benchmark_names.NORMAL, benchmark_names.DIAGNOSIS, benchmark_names.LONG_ICL)
_DATA = Path(__file__).parent


@functools.cache
def _all_figures() -> tuple[PublishedFigure, ...]:
    """Return all published figures.

    The file lists each source and each warning once. A figure of the file has the index of its source, and the indexes
    of its warnings.
    """
    data = json.loads((_DATA / "published_figures.json").read_text("utf-8"))
    figures = []
    for row in data["figures"]:
        benchmark, model, method, dataset, metric, value, absent, source_index, warning_indexes = row
        figure = PublishedFigure(
            benchmark=benchmark,
            model=model,
            method=method,
            dataset=dataset,
            metric=metric,
            value=value,
            absent=absent,
            source=data["sources"][source_index],
            warnings=tuple(data["warnings"][index] for index in warning_indexes),
        )
        figures.append(figure)
    return tuple(figures)


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
        name = f"{self.family} {self.params_b:g}B"
        if self.instruction_tuned:
            return f"{name} instruct"
        return name


@dataclass(frozen=True, slots=True)
class PublishedFigure:
    """A figure of a published table."""

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
    """The printed number; ``None`` if it is unknown."""
    absent: str | None
    """Why the number is unknown; ``None`` if it is known."""
    source: str
    """The table that has the figure."""
    warnings: tuple[str, ...] = ()
    """Mistakes of the printed tables that concern the figure, as sentences."""

    @property
    def doubtful(self) -> bool:
        """Whether the figure is not used as a reference."""
        return any(warning.startswith(_DOUBTFUL) for warning in self.warnings)


@functools.cache
def published_models() -> tuple[PublishedModel, ...]:
    """Return the 29 models of the StaICC paper, by column.

    Example:
        >>> published_models()[27].name
        'Qwen2 72B instruct'
    """
    records = json.loads((_DATA / "published_models.json").read_text("utf-8"))["models"]
    return tuple(PublishedModel(**record) for record in records)


METHODS = tuple(dict.fromkeys(figure.method for figure in _all_figures() if figure.method is not None))
"""The inference methods of the StaICC paper, in its order."""


def _fold(name: str) -> str:
    """Return a name in lower case, with its letters, digits and points only: "OPT 2.7B" becomes "opt2.7b"."""
    return "".join(letter for letter in name.casefold() if letter.isalnum() or letter == ".")


def find(kind: str, name: str) -> tuple[str, ...]:
    """Return the exact values of a field of the published figures that match a name.

    Args:
        kind: The field: ``"benchmark"``, ``"model"``, ``"method"``, ``"dataset"`` or ``"metric"``.
        name: The name, or a family of models (``"Pythia"``: all its sizes). Case, blanks, hyphens, underscores and the
            B of a size are ignored.

    Raises:
        UnknownNameError: There is no such name; the message suggests the nearest.

    Example:
        >>> find("method", "hidden-calibration"), find("model", "qwen2 72B instruct")
        (('Hidden Calibration',), ('Qwen2 72B instruct',))
        >>> find("model", "opt")
        ('OPT 2.7B', 'OPT 1.3B', 'OPT 6.7B')
    """
    values = dict.fromkeys(getattr(figure, kind) for figure in _all_figures())  # each once, in order
    folded_values = {value: _fold(value) for value in values if value is not None}
    if kind == "model":
        return _find_model(name, folded_values)

    wanted = _fold(name)
    if kind == "method" and wanted in _ALIASES:
        wanted = _fold(_ALIASES[wanted])
    matches = tuple(value for value, folded in folded_values.items() if folded == wanted)
    if not matches:
        raise unknown_name(f"published {kind}", name, folded_values)
    return matches


def _find_model(name: str, folded_models: Mapping[str, str]) -> tuple[str, ...]:
    """Return the models that match a name: one model, or all models of a family.

    The B of a size may be absent: "opt 2.7" is the model "OPT 2.7B". The name "opt" is the family.

    Args:
        name: The name.
        folded_models: The names of all published models, each with its lower-case letters, digits and points only:
            ``{"OPT 2.7B": "opt2.7b"}``.
    """
    wanted = _fold(name)
    with_size = f"{wanted}b"
    of_this_name = tuple(model for model, folded in folded_models.items() if folded in (wanted, with_size))
    if of_this_name:
        return of_this_name

    # The paper of StaICC states families. The models of the other paper are in none, so only their own names find them.
    families = {model.name: model.family for model in published_models()}
    of_family = []
    for model in folded_models:
        if model in families and _fold(families[model]) == wanted:
            of_family.append(model)
    if not of_family:
        known = dict.fromkeys([*families.values(), *folded_models])
        raise unknown_name("published model", name, known, "All names: python -m StaICC published.")
    return tuple(of_family)


def published_figures(
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
        model: A model or a family of models (see :func:`find`).
        method: An inference method.
        dataset: A data set of LongICL.
        metric: A metric.

    Returns:
        All matches, including those without a value, which have a reason.

    Raises:
        UnknownNameError: A name is unknown; the message suggests the nearest.

    Example:
        >>> found = published_figures("Normal", model="NEO 2.7", method="noisy channel", metric="accuracy")
        >>> found[0].value, found[0].doubtful
        (0.5678, True)
    """
    names_by_field = {"benchmark": benchmark, "model": model, "method": method, "dataset": dataset, "metric": metric}
    wanted_values = {}  # the exact values of each field for which a name is given
    for field, name in names_by_field.items():
        if name is not None:
            wanted_values[field] = find(field, name)
    figures = []
    for figure in _all_figures():
        if all(getattr(figure, field) in values for field, values in wanted_values.items()):
            figures.append(figure)
    return tuple(figures)


def published_data() -> str:
    """Return the digest of the ten data sets and their labels, as in a signature."""
    contents = []
    for name in names():
        card = get_card(name)
        table_digest = card.digests.table if card.digests else ""
        contents.append([table_digest, list(card.label_space)])
    return short_digest(contents)
