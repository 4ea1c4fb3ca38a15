"""A result next to the published figures.

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

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from StaICC import benchmark_names
from StaICC.comparing.published import METHODS, PublishedFigure, find, published_data, published_figures
from StaICC.errors import UnknownNameError
from StaICC.layout import Block, Line, TextTable, layout
from StaICC.metrics.scores import score_record
from StaICC.results.predictor import GIVEN
from StaICC.results.result import Result
from StaICC.results.signature import scoring_field

_REPEATS = {benchmark_names.TEMPLATE_SENSITIVITY: "1", benchmark_names.DEMONSTRATION_SENSITIVITY: "8"}
"""How often each test row is used; in the other benchmarks 2 times."""
_OPTIONS = {benchmark_names.DOMAIN_BIAS: "domain_query_length=128", benchmark_names.GLER: "interpolations=5"}
_FIELDS = ("datasets", "data", "k", "limit", "stopping", "template", "demonstrations", "repeats", "options", "failed")
"""The fields of a signature that the published prompts fix."""
_UNSET = dict.fromkeys(_FIELDS, "none") | dict.fromkeys(("template", "demonstrations"), "the default")
_UNSET["datasets"] = "the ten data sets"
"""What a field means that a signature does not have."""
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
_MEAN_LOSS = "the published noisy channel is the mean loss over the complete prompt, which is nearly uniform"
_OTHER_ROWS = "according to the paper all test examples were used; its code and this result use {} of each data set"


_PUBLISHED_SCORING = "last"
"""The ``label_scoring`` of the published figures: the release takes the last token of each label."""

_LONG_ICL_SETTINGS = {"variant": "published", "test_number": 500, "instruct": False}
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
    def below(self) -> int:
        """Number of published figures that are smaller."""
        value = -math.inf if self.value is None else self.value
        return sum(figure.value < value for figure in self.figures if figure.value is not None)

    @property
    def better_than(self) -> int:
        """Number of published figures that are worse: smaller, or larger if lower is better."""
        equal = sum(figure.value == self.value for figure in self.figures)
        return len(self.figures) - self.below - equal if self.lower_is_better else self.below

    def nearest(self, count: int = 3) -> tuple[PublishedFigure, ...]:
        """Return the published figures nearest in value."""
        value = self.value or 0.0
        return tuple(sorted(self.figures, key=lambda figure: abs((figure.value or 0.0) - value))[:count])


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
    benchmark_names.NORMAL: (
        _Rule("accuracy"),
        _Rule("averaged_truelabel_likelihood"),
        _Rule("macro_F1"),
        _Rule("expected_calibration_error_1", cautions=(_CLOSED_BIN,)),
    ),
    benchmark_names.CONTEXTUAL_BIAS: (_Rule("contextual_bias", released_key="entropy"),),
    benchmark_names.DOMAIN_BIAS: (_Rule("domain_bias", released_key="entropy"),),
    benchmark_names.POSTERIOR_BIAS: (_Rule("empirical_bias", released_key="DL div."),),
    benchmark_names.GLER: (_Rule("accuracy", "gler", (_LOW_SLOPE,)),),
    benchmark_names.TEMPLATE_SENSITIVITY: (_Rule("consistency", "template_robustness", (_OTHER_ROWS.format(100),)),),
    benchmark_names.DEMONSTRATION_SENSITIVITY: (_Rule("consistency", "sample_robustness", (_OTHER_ROWS.format(128),)),),
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
    if result.benchmark == benchmark_names.LONG_ICL:
        return tuple(_compare_long_icl(result))
    fields = result.signature.fields
    chosen = METHODS[1] if fields.get("channel") == "noisy" else METHODS[0]
    used = (fields.get("method") or "").split()
    reason = None
    try:
        (chosen,) = find("method", method if method is not None else used[0] if used else chosen)
    except UnknownNameError:
        if method is not None:
            raise
        reason = f"the paper does not have the method {used[0]}"
    samples = next((part[2:] for part in used if part.startswith("n=")), "128")
    if samples != "128":
        reason = f"the published figures are for 128 calibration samples, this result has {samples}"
    published = dict.fromkeys(_FIELDS) | {"data": published_data(), "k": "4", "options": _OPTIONS.get(result.benchmark)}
    published["repeats"] = _REPEATS.get(result.benchmark, "2")
    changed = _CHANGED_BY.get(chosen, ())
    reason = reason or _other_setting(fields, {key: published[key] for key in _FIELDS if key not in changed})
    return tuple(_place(result, rule, chosen, reason) for rule in _RULES.get(result.benchmark, ()))


def _other_scoring(result: Result) -> tuple[str, ...]:
    """Return the differences in scoring from the published runs."""
    scorings = (
        "given predictions" if GIVEN in predictor.who else scoring_field(predictor.how)
        for predictor in result.provenance.predictors
        if predictor.how.get("label_scoring") != _PUBLISHED_SCORING
    )
    published = "the published runs score the last token of each label; this result has"
    return tuple(f"{published} {scoring}" for scoring in dict.fromkeys(scorings))


def _other_setting(own: Mapping[str, Any], published: Mapping[str, Any]) -> str | None:
    """Return in which setting a result differs from the published ones; ``None`` if it does not."""
    for name, expected in published.items():
        if own.get(name) != expected:
            given, wanted = (_UNSET.get(name) if value is None else value for value in (own.get(name), expected))
            return f"the published figures are for {name} = {wanted}, this result has {given}"
    return None


def _place(result: Result, rule: _Rule, method: str, reason: str | None) -> PublishedComparison:
    fields, score = result.signature.fields, score_record(result.benchmark, rule.key)
    released, normal = fields.get("metrics") == _RELEASED, result.benchmark == benchmark_names.NORMAL
    key = (released and rule.released_key) or rule.key
    value, left_out = result.averaged.get(key), result.left_out_of(key)
    noisy = normal and (method == "Noisy Channel" or fields.get("channel") == "noisy")
    by_softmax = normal and score.statistic is not None and score.statistic.reads == "probabilities"  # not twice
    kinds = {record.output for details in result.details.values() for record in details.conditions}
    reasons = (
        (True, reason),
        (released and rule.released_key, _RAW_AVERAGES),
        (key not in result.averaged, f"this result has no {key}"),
        (value is None, f"{key} is undefined in this result"),
        (left_out, f"{left_out} queries without a prediction are left out of this result"),
        (released and by_softmax and kinds - {"logits"}, _SOFTMAX_TWICE),
        (noisy and by_softmax, _MEAN_LOSS),
        (not normal and method != METHODS[0], f"the published diagnosis is for {METHODS[0]} only"),
    )
    reason = next((text for applies, text in reasons if applies and text), None)
    wanted = {"metric": rule.published or rule.key, "method": method if normal else None}
    known = published_figures(benchmark_names.NORMAL if normal else benchmark_names.DIAGNOSIS, **wanted)
    known = tuple(figure for figure in known if figure.value is not None)
    cautions = [*rule.cautions, *([_RATES] if released and result.benchmark == benchmark_names.GLER else [])]
    cautions += sorted(set.intersection(*(set(figure.warnings) for figure in known)))
    if "paper" in (fields.get("method") or "").split():
        cautions.append("the method as its own paper defines it; the published figures may be of the release's variant")
    if noisy:
        cautions.append("the published noisy channel is that of the release: mean loss, not the sum over the query")
    usable = _ordered(figure for figure in known if not figure.doubtful and reason is None)
    shown, lower = () if reason else tuple(cautions), not score.higher_is_better
    scoring = _other_scoring(result)
    return PublishedComparison(result.benchmark, None, key, value, usable, reason, shown, lower, result.model, scoring)


def _ordered(usable: Iterable[PublishedFigure]) -> tuple[PublishedFigure, ...]:
    return tuple(sorted(usable, key=lambda figure: figure.value or 0.0))


def _compare_long_icl(result: Result) -> Iterator[PublishedComparison]:
    for dataset, scores in result.divided.items():
        details, settings = result.details[dataset], scores.get("settings") or {}
        known = [
            figure
            for figure in published_figures(benchmark_names.LONG_ICL)
            if figure.dataset == dataset and figure.value is not None
        ]
        choices = sorted({record.output for record in details.conditions} - {"text", "none"})
        other = _other_setting(settings, _LONG_ICL_SETTINGS)
        verified = all(file.get("verified") for file in settings.get("files", {}).values())
        reasons = {
            "this data set is not in the tables of the paper": not known,
            "this data set was skipped": not settings,
            other: other,
            "the rows are synthetic": settings.get("made_up"),
            "the files are not known to be the published ones": not verified,
            f"the published models generated text, this result has {' and '.join(choices)}": choices,
        }
        reason = next((text for text, applies in reasons.items() if applies), None)
        for key in (f"{number}R" for number in range(1, 6) if f"{number}R" in scores):
            undefined = details.missing.get(key, "the round has no score") if scores[key] is None else None
            why = reason or undefined
            left_out = result.left_out_of(key, dataset)
            if why is None and left_out:
                why = f"{left_out} queries without a prediction are left out of this result"
            matching = [figure for figure in known if figure.metric == key and why is None]
            warnings = sorted({warning for figure in matching for warning in figure.warnings})
            cautions = (_ZERO, *warnings) if matching else ()
            ordered = _ordered(matching)
            yield PublishedComparison(
                benchmark_names.LONG_ICL, dataset, key, scores[key], ordered, why, cautions, model=result.model
            )


def display_published(comparisons: Sequence[PublishedComparison]) -> list[Block]:
    """Return comparisons as a table with reasons and cautions.

    Args:
        comparisons: Results of :func:`compare_with_published`.
    """
    if not comparisons:
        return [Line("there are no published figures for this benchmark")]
    rows: list[list[str]] = []
    differences: dict[str, None] = {}
    cautions: dict[str, None] = {}
    for comparison in comparisons:
        place = comparison.metric if comparison.dataset is None else f"{comparison.dataset}, {comparison.metric}"
        value = "-" if comparison.value is None else f"{comparison.value:.4f}"
        counts, near = "-", f"not comparable: {comparison.reason}"
        if comparison.reason is None:
            counts = f"{comparison.better_than} of {len(comparison.figures)}"
            near = "; ".join(f"{figure.model} {figure.value:.4f}" for figure in comparison.nearest())
        rows.append([place, value, counts, near])
        differences |= dict.fromkeys(f"differs: {difference}" for difference in comparison.differences)
        cautions |= dict.fromkeys(f"{comparison.metric}: {caution}" for caution in comparison.cautions)
    head = [comparisons[0].benchmark, "this result", "better than", "nearest published"]
    above = [f"model: {comparisons[0].model}", *differences]
    return [*map(Line, above), TextTable(head, rows, (0, len(head) - 1)), *map(Line, cautions)]


def format_published(comparisons: Sequence[PublishedComparison]) -> str:
    """Return comparisons as text: a table, reasons and cautions."""
    return layout(display_published(comparisons))
