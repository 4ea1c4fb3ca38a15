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
from dataclasses import dataclass
from itertools import compress
from pathlib import Path

from StaICC import benchmark_names
from StaICC.datasets.catalogue import get_card, names
from StaICC.errors import unknown_name
from StaICC.results.signature import short_digest

BENCHMARKS = (benchmark_names.NORMAL, benchmark_names.DIAGNOSIS, benchmark_names.LONG_ICL)
_DATA = Path(__file__).parent


@functools.cache
def _all() -> tuple[PublishedFigure, ...]:
    data = json.loads((_DATA / "published_figures.json").read_text("utf-8"))
    rows = ((*row[:7], data["sources"][row[7]], tuple(data["warnings"][n] for n in row[8])) for row in data["figures"])
    return tuple(PublishedFigure(*row) for row in rows)


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
def published_models() -> tuple[PublishedModel, ...]:
    """Return the 29 models of the StaICC paper, by column.

    Example:
        >>> published_models()[27].name
        'Qwen2 72B instruct'
    """
    records = json.loads((_DATA / "published_models.json").read_text("utf-8"))["models"]
    return tuple(PublishedModel(**record) for record in records)


METHODS = tuple(dict.fromkeys(figure.method for figure in _all() if figure.method is not None))
"""The inference methods of the StaICC paper, in its order."""


def _fold(name: str) -> str:
    return "".join(letter for letter in name.casefold() if letter.isalnum() or letter == ".")


def find(kind: str, name: str) -> tuple[str, ...]:
    """Return the values of a field of the figures that a name means.

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
    values = dict.fromkeys(getattr(figure, kind) for figure in _all())
    known = {value: _fold(value) for value in values if value is not None}
    wanted, families = (
        _fold(name),
        {model.name: model.family for model in published_models()} if kind == "model" else {},
    )
    wanted = _fold(_ALIASES.get(wanted, name)) if kind == "method" else wanted
    exact = [value for value, folded in known.items() if folded in (wanted, f"{wanted}b" if families else wanted)]
    of_family = [value for value in known if _fold(families.get(value, value)) == wanted]
    if not exact and not of_family:
        hint = "All names: python -m StaICC published." if families else ""
        raise unknown_name(f"published {kind}", name, dict.fromkeys([*families.values(), *known]), hint)
    return tuple(exact or of_family)


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
    given = {"benchmark": benchmark, "model": model, "method": method, "dataset": dataset, "metric": metric}
    wanted = {kind: find(kind, name) for kind, name in given.items() if name is not None}
    matching = (all(getattr(figure, kind) in names for kind, names in wanted.items()) for figure in _all())
    return tuple(compress(_all(), matching))


def published_data() -> str:
    """Return the digest of the ten data sets and their labels, as in a signature."""
    cards = [get_card(name) for name in names()]
    return short_digest([[card.digests.table if card.digests else "", list(card.label_space)] for card in cards])
