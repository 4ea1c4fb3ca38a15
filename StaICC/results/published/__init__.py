"""The published figures: Tables 7 and 8 of the StaICC paper, Tables 3 to 6 of the LongICLBench paper; comparisons.

Every figure is as printed, with two exceptions: percentages of LongICLBench are converted to shares, and models with
wrong headers have their correct names (:attr:`PublishedModel.note` has the reason). An unknown figure is ``None`` with
a reason: the paper marks it as not run, or our copy of the table ends before it. If a cell of Table 8 is missing and
Table 2 has the accuracy, that one is used, and its source says so.

Some printed figures contradict or repeat others by mistake. They are kept as printed, with a warning. A warning that
begins with ``DOUBTFUL`` means that the figure is not used as a reference.

A published figure is compared with a score of a result only if both measure the same. The rules for means over the
ten data sets (``Normal``, ``Diagnosis``):

1. The prompts are the published ones: all ten data sets in their frozen tables, k = 4 (the default of the release;
   its README's sample of that default equals Table 8), no limit, templates and demonstrations unchanged, the published
   number of repeats and of words or noise rates.
2. Every query has a prediction.
3. The metric is the published one. The release 0.1.1 applies the softmax to probabilities, so the likelihood of ten
   data sets cannot exceed 0.5683. Published likelihoods reach 0.7102, so the tables were computed without it.
   With ``metrics="0.1.1"``, likelihood and calibration error of *probabilities* are therefore not comparable; those of
   logits are. Its bias scores never are: they use that softmax too, and average logits without normalising them.
   Accuracy, macro F1 and consistency do not depend on any of this.
4. The method is the published one, with 128 calibration samples if it uses any; what a method changes by design
   (the instruction by PPL-ICL, the demonstrations by TopK and SA-ICL) may differ from rule 1.
5. Likelihood and calibration error of the noisy channel are not comparable: the published ones come from the mean loss
   over the complete prompt, which makes every prediction nearly uniform.

For ``LongICL``, data set by data set: the published variant, files known to be the published ones, 500 test items, no
label list in the prompt, demonstrations interleaved, a prediction for every query of the round.

Reservations are listed as cautions.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from StaICC.datasets import get_card, names
from StaICC.errors import UnknownNameError, unknown_name
from StaICC.metrics.registry import score_record
from StaICC.results.provenance import GIVEN
from StaICC.results.result import Result, format_columns
from StaICC.results.signature import scoring_field, short_digest
from StaICC.safe_text import lines

__all__ = [
    "METHODS",
    "PublishedComparison",
    "PublishedFigure",
    "PublishedModel",
    "compare_with_published",
    "figures",
    "find_method",
    "find_models",
    "format_published",
    "models",
]

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


_REPEATS = {"Template_sens": "1", "Demo_sens": "8"}
"""How often each test row is used; in the other benchmarks 2 times."""
_OPTIONS = {"Domain_bias": "domain_query_length=128", "GLER": "interpolations=5"}
_RELEASED = "0.1.1"
_CHANGED_BY = {
    "PPL-ICL": ("template",),
    "TopK": ("demonstrations", "repeats"),
    "SA-ICL": ("demonstrations", "repeats"),
}
"""The prompt fields that each method changes."""
_SOFTMAX_TWICE = "the metrics of the release apply the softmax to probabilities, and the published figures do not"
_RAW_AVERAGES = (
    "the bias metrics of the release average logits without normalising them and apply the softmax to probabilities, "
    "and the published figures do not"
)
_OTHER_ROWS = "according to the paper all test examples were used; its code and this result use {} of each data set"


_PUBLISHED_SCORING = "last"
"""The ``label_scoring`` of the published figures: the release takes the last token of each label."""

_ZERO = "a published 0 may mean that the context was too long for the model, not that all answers were wrong"


@dataclass(frozen=True, slots=True)
class PublishedComparison:
    """A score of a result with the comparable published figures, or the reason why there are none."""

    benchmark: str
    dataset: str | None
    """``None``: the mean over the data sets."""
    metric: str
    """The key of the result."""
    value: float | None
    figures: tuple[PublishedFigure, ...]
    """The comparable published figures that have a value and are not doubtful, the smallest first."""
    reason: str | None
    """Why there are none."""
    cautions: tuple[str, ...] = ()
    lower_is_better: bool = False
    model: str = ""
    """The model, by name and short identity."""
    differences: tuple[str, ...] = ()
    """Differences in scoring between the result and the published runs."""

    @property
    def better_than(self) -> int:
        """Number of published figures that are worse: smaller, or larger if lower is better."""
        if self.value is None or not self.lower_is_better:
            return self.below
        return sum(one.value > self.value for one in self.figures if one.value is not None)

    @property
    def below(self) -> int:
        """Number of published figures that are smaller."""
        return sum(one.value < self.value for one in self.figures if one.value is not None and self.value is not None)

    def nearest(self, count: int = 3) -> tuple[PublishedFigure, ...]:
        """Return the published figures nearest in value."""
        value = self.value
        if value is None:
            return ()
        return tuple(sorted(self.figures, key=lambda one: abs((one.value or 0.0) - value))[:count])


class _Rule(NamedTuple):
    """The published figure that corresponds to a key of a result."""

    key: str
    """Of the result's averages under the standard metrics."""
    published: str = ""
    """The metric of the published figure, where it has another name."""
    cautions: tuple[str, ...] = ()
    released_key: str = ""
    """Of the result's averages under the metrics of 0.1.1, where it differs: the measures of prediction bias."""


_LOW_SLOPE = (
    "a low slope means robustness to wrong labels, but a model that ignores its demonstrations also has a low slope; "
    "the slope of the published models increases with size"
)
_RATES = "the release's slope is over wrong noise rates"
_CLOSED_BIN = "the release's last confidence bin is open, so certain answers counted nowhere; here they count"
_RULES: dict[str, tuple[_Rule, ...]] = {
    "Normal": (
        _Rule("accuracy"),
        _Rule("averaged_truelabel_likelihood"),
        _Rule("macro_F1"),
        _Rule("expected_calibration_error_1", cautions=(_CLOSED_BIN,)),
    ),
    "Contextual_bias": (_Rule("contextual_bias", released_key="entropy"),),
    "Domain_bias": (_Rule("domain_bias", released_key="entropy"),),
    "Post_bias": (_Rule("empirical_bias", released_key="DL div."),),
    "GLER": (_Rule("accuracy", "gler", (_LOW_SLOPE,)),),
    "Template_sens": (_Rule("consistency", "template_robustness", (_OTHER_ROWS.format(100),)),),
    "Demo_sens": (_Rule("consistency", "sample_robustness", (_OTHER_ROWS.format(128),)),),
}


def compare_with_published(result: Result, method: str | None = None) -> tuple[PublishedComparison, ...]:
    """Compare a result with the published figures.

    Args:
        result: A result of any benchmark.
        method: The published inference method; by default the method of the result, or ``"Vanilla ICL"``, or
            ``"Noisy Channel"`` for a noisy channel.

    Returns:
        One comparison for each score that the paper also reports; none for a benchmark that is not in the paper.

    Raises:
        UnknownNameError: There is no such published method.
    """
    if result.benchmark == LONG_ICL:
        return tuple(replace(one, model=result.model) for one in _compare_long_icl(result))
    fields = result.signature.fields
    chosen = METHODS[1] if fields.get("channel") == "noisy" else METHODS[0]
    reason = None
    used = (fields.get("method") or "").split()
    if method is not None:
        chosen = find_method(method)
    elif used:
        try:
            chosen = find_method(used[0])
        except UnknownNameError:
            reason = f"the paper does not have the method {used[0]}"
    samples = next((part[2:] for part in used if part.startswith("n=")), "128")
    if samples != "128":
        reason = f"the published figures are for 128 calibration samples, this result has {samples}"
    reason = reason or _other_prompts(result, _CHANGED_BY.get(chosen, ()))
    placed = (_place(result, rule, chosen, reason) for rule in _RULES.get(result.benchmark, ()))
    differences = _other_scoring(result)
    return tuple(replace(one, model=result.model, differences=differences) for one in placed)


def _other_scoring(result: Result) -> tuple[str, ...]:
    """Return the differences in scoring from the published runs."""
    published = "the published runs score the last token of each label"
    found = [
        f"{published}; this result has {'given predictions' if GIVEN in one.who else scoring_field(one.how)}"
        for one in result.provenance.predictors
        if one.how.get("label_scoring") != _PUBLISHED_SCORING
    ]
    return tuple(dict.fromkeys(found))


def _other_prompts(result: Result, changed: Sequence[str]) -> str | None:
    """Return why the prompts or the scored queries differ from the published ones.

    Args:
        result: The result.
        changed: Fields of the signature that the method changes by design.
    """
    fields = result.signature.fields
    if fields.get("datasets") is not None:
        return f"the published figures are means over the ten data sets, this result has {fields['datasets']}"
    if fields.get("data") != _published_data():
        return "the rows or the labels are not the published ones (the data digest differs)"
    if fields.get("k") != "4":
        return f"the published figures are for k = 4, this result has k = {fields.get('k')}"
    for name, text in (
        ("limit", "is limited to {} test examples"),
        ("stopping", "stopped early ({})"),
        ("template", "has other templates ({})"),
        ("demonstrations", "has other demonstrations ({})"),
    ):
        if fields.get(name) is not None and name not in changed:
            return f"this result {text.format(fields[name])}"
    repeats, options = _REPEATS.get(result.benchmark, "2"), _OPTIONS.get(result.benchmark)
    for name, published in (("repeats", repeats), ("options", options)):
        if fields.get(name) != published and name not in changed:
            return f"the published {name} are {published}, this result has {fields.get(name)}"
    failed = fields.get("failed")
    return None if failed is None else f"{failed} queries of this result failed"


def _published_data() -> str:
    """Return the digest of the ten data sets and their labels, as in a signature."""
    cards = [get_card(name) for name in names()]
    return short_digest([[card.digests.table if card.digests else "", list(card.label_space)] for card in cards])


def _place(result: Result, rule: _Rule, method: str, reason: str | None) -> PublishedComparison:
    fields, score = result.signature.fields, score_record(result.benchmark, rule.key)
    released = fields.get("metrics") == _RELEASED
    benchmark = "Normal" if result.benchmark == "Normal" else "Diagnosis"
    key = (released and rule.released_key) or rule.key
    value = result.averaged.get(key)
    noisy = method == "Noisy Channel" or fields.get("channel") == "noisy"
    if reason is None and released and rule.released_key:
        reason = _RAW_AVERAGES
    if reason is None and value is None:
        reason = f"this result has no {key}" if key not in result.averaged else f"{key} is undefined in this result"
    by_softmax = benchmark == "Normal" and score.reads == "probabilities"  # a second softmax changes it
    kinds = {record.output for details in result.details.values() for record in details.conditions}
    if reason is None and released and by_softmax and kinds - {"logits"}:
        reason = _SOFTMAX_TWICE
    if reason is None and by_softmax and noisy:
        reason = "the published noisy channel is the mean loss over the complete prompt, which is nearly uniform"
    if reason is None and benchmark == "Diagnosis" and method != METHODS[0]:
        reason = f"the published diagnosis is for {METHODS[0]} only"
    known = figures(benchmark, metric=rule.published or rule.key, method=method if benchmark == "Normal" else None)
    usable = [one for one in known if one.value is not None and not one.doubtful] if reason is None else []
    cautions = [*rule.cautions, *([_RATES] if released and result.benchmark == "GLER" else [])]
    every = [set(one.warnings) for one in known if one.value is not None]
    cautions += sorted(set.intersection(*every)) if every else []
    if "paper" in (fields.get("method") or "").split():
        cautions.append("the method as its own paper defines it; the published figures may be of the release's variant")
    if noisy and benchmark == "Normal":
        cautions.append("the published noisy channel is that of the release: mean loss, not the sum over the query")
    return PublishedComparison(
        result.benchmark,
        None,
        key,
        value,
        tuple(sorted(usable, key=lambda one: one.value or 0.0)),
        reason,
        tuple(cautions) if reason is None else (),
        not score.higher_is_better,
    )


def _compare_long_icl(result: Result) -> Iterator[PublishedComparison]:
    for dataset, scores in result.divided.items():
        settings = scores.get("settings")
        reason: str | None = "this data set was skipped"
        if settings:
            outputs = {record.output for record in result.details[dataset].conditions}
            reason = other_long_icl(settings, outputs - {"text", "none"})
        known = [one for one in figures(LONG_ICL) if one.dataset == dataset]
        if not known:
            reason = "this data set is not in the tables of the paper"
        for key in (f"{number}R" for number in range(1, 6)):
            if key not in scores:
                continue
            why = reason
            if why is None and scores[key] is None:
                why = result.details[dataset].missing.get(key, "the round has no score")
            matching = [one for one in known if one.metric == key and one.value is not None] if why is None else []
            yield PublishedComparison(
                LONG_ICL,
                dataset,
                key,
                scores[key],
                tuple(sorted(matching, key=lambda one: one.value or 0.0)),
                why,
                (_ZERO, *sorted({warning for one in matching for warning in one.warnings})) if matching else (),
            )


def other_long_icl(settings: dict[str, Any], choices: Set[str], items: int | None = 500) -> str | None:
    """Return why a result of LongICL is not comparable with the published figures; ``None`` if it is.

    Args:
        settings: The settings of a data set.
        choices: Kinds of predictions that are no text.
        items: The number of test items; ``None`` for any.
    """
    wanted = {"variant": "published", "test_number": items, "instruct": False, "arrangement": "interleaved"}
    for name, value in wanted.items():
        if settings.get(name) != value and (name, value) != ("test_number", None):
            return f"the published figures are for {name} = {value}, this result has {settings.get(name)}"
    if settings.get("made_up"):
        return "the rows are synthetic"
    if not all(file.get("verified") for file in settings.get("files", {}).values()):
        return "the files are not known to be the published ones"
    if choices:
        return f"the published models generated text, this result has {' and '.join(sorted(choices))}"
    return None


def published_cells(one: PublishedComparison) -> list[str]:
    """Return the cells of a comparison in a table: value, how many published figures are worse, the nearest ones.

    Args:
        one: The comparison.
    """
    value = "-" if one.value is None else f"{one.value:.4f}"
    if one.reason is not None:
        return [value, "-", f"not comparable: {one.reason}"]
    near = "; ".join(f"{figure.model} {figure.value:.4f}" for figure in one.nearest())
    return [value, f"{one.better_than} of {len(one.figures)}", near]


def format_published(comparisons: Sequence[PublishedComparison]) -> str:
    """Return comparisons as a text table with reasons and cautions.

    Args:
        comparisons: Results of :func:`compare_with_published`.
    """
    if not comparisons:
        return "there are no published figures for this benchmark"
    rows = []
    for one in comparisons:
        where = one.metric if one.dataset is None else f"{one.dataset}, {one.metric}"
        rows.append([where, *published_cells(one)])
    width = max(len(row[-1]) for row in rows)  # the last column is text: aligned left
    rows = [[*row[:-1], row[-1].ljust(width)] for row in rows]
    table = format_columns(
        [comparisons[0].benchmark, "this result", "better than", "nearest published".ljust(width)], rows
    )
    cautions = dict.fromkeys(f"{one.metric}: {caution}" for one in comparisons for caution in one.cautions)
    known = dict.fromkeys(f"differs: {difference}" for one in comparisons for difference in one.differences)
    return "\n".join(filter(None, [lines([f"model: {comparisons[0].model}", *known]), table, lines(cautions)]))
