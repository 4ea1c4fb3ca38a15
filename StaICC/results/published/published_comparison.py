"""Comparison of a result with the published figures, by explicit rules.

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

from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from StaICC.datasets import get_card, names
from StaICC.errors import UnknownNameError
from StaICC.results.provenance import GIVEN
from StaICC.results.published.facts import LONG_ICL, METHODS, PublishedFigure, figures, find_method
from StaICC.results.result import Result
from StaICC.results.signature import scoring_field, short_digest
from StaICC.results.table import format_columns

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

    metric: str
    """Of the published figure."""
    key: str
    """Of the result's averages under the standard metrics."""
    lower_is_better: bool = False
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
        _Rule("accuracy", "accuracy"),
        _Rule("averaged_truelabel_likelihood", "averaged_truelabel_likelihood"),
        _Rule("macro_F1", "macro_F1"),
        _Rule("expected_calibration_error_1", "expected_calibration_error_1", True, (_CLOSED_BIN,)),
    ),
    "Contextual_bias": (_Rule("contextual_bias", "contextual_bias", True, released_key="entropy"),),
    "Domain_bias": (_Rule("domain_bias", "domain_bias", True, released_key="entropy"),),
    "Post_bias": (_Rule("empirical_bias", "empirical_bias", True, released_key="DL div."),),
    "GLER": (_Rule("gler", "accuracy", True, (_LOW_SLOPE,)),),
    "Template_sens": (_Rule("template_robustness", "consistency", False, (_OTHER_ROWS.format(100),)),),
    "Demo_sens": (_Rule("sample_robustness", "consistency", False, (_OTHER_ROWS.format(128),)),),
}
_BY_SOFTMAX = frozenset({"averaged_truelabel_likelihood", "expected_calibration_error_1"})
"""Published metrics that a second softmax changes."""


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
        return tuple(replace(one, model=result.model) for one in _long_icl(result))
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
    fields = result.signature.fields
    released = fields.get("metrics") == _RELEASED
    benchmark = "Normal" if result.benchmark == "Normal" else "Diagnosis"
    key = (released and rule.released_key) or rule.key
    value = result.averaged.get(key)
    noisy = method == "Noisy Channel" or fields.get("channel") == "noisy"
    if reason is None and released and rule.released_key:
        reason = _RAW_AVERAGES
    if reason is None and value is None:
        reason = f"this result has no {key}" if key not in result.averaged else f"{key} is undefined in this result"
    kinds = {record.output for details in result.details.values() for record in details.conditions}
    if reason is None and released and rule.metric in _BY_SOFTMAX and kinds - {"logits"}:
        reason = _SOFTMAX_TWICE
    if reason is None and rule.metric in _BY_SOFTMAX and noisy:
        reason = "the published noisy channel is the mean loss over the complete prompt, which is nearly uniform"
    if reason is None and benchmark == "Diagnosis" and method != METHODS[0]:
        reason = f"the published diagnosis is for {METHODS[0]} only"
    known = figures(benchmark, metric=rule.metric, method=method if benchmark == "Normal" else None)
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
        rule.lower_is_better,
    )


def _long_icl(result: Result) -> Iterator[PublishedComparison]:
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
        value = "-" if one.value is None else f"{one.value:.4f}"
        if one.reason is not None:
            rows.append([where, value, "-", f"not comparable: {one.reason}"])
            continue
        near = "; ".join(f"{figure.model} {figure.value:.4f}" for figure in one.nearest())
        rows.append([where, value, f"{one.better_than} of {len(one.figures)}", near])
    width = max(len(row[-1]) for row in rows)  # the last column is text: aligned left
    rows = [[*row[:-1], row[-1].ljust(width)] for row in rows]
    table = format_columns(
        [comparisons[0].benchmark, "this result", "better than", "nearest published".ljust(width)], rows
    )
    cautions = dict.fromkeys(f"{one.metric}: {caution}" for one in comparisons for caution in one.cautions)
    known = dict.fromkeys(f"differs: {difference}" for one in comparisons for difference in one.differences)
    return "\n".join([f"model: {comparisons[0].model}", *known, table, *cautions])
