"""Which published figures may stand beside a result, by stated rules.

A published figure stands beside a figure of a result only if both measure the same thing. The rules, for means over the
ten data sets (``Normal``, ``Diagnosis``):

1. The prompts are the published ones: all ten data sets in their frozen tables, k = 4 (the default of the release;
   its README's sample of that default equals Table 8), no limit, templates and demonstrations unchanged, the published
   number of repeats and of words or noise rates.
2. Every query has an answer.
3. The metric is the published one. The release 0.1.1 takes the softmax of probabilities a second time, which holds the
   likelihood of ten data sets under 0.5683; published likelihoods reach 0.7102, so the tables were made without it.
   Under ``metrics="0.1.1"``, likelihood and calibration error of *probabilities* are therefore not comparable; those of
   logits are. The bias figures of that set never are: they take that softmax too, and average logits as they stand.
   Accuracy, macro F1 and consistency do not depend on any of this.
4. The method is the published one, with 128 calibration samples where it takes any; what a method changes by design
   (the instruction by PPL-ICL, the demonstrations by TopK and SA-ICL) may differ from rule 1.
5. Likelihood and calibration error of the noisy channel are not comparable: the published ones come from the mean loss
   over the whole prompt, which makes every prediction nearly uniform.

For ``LongICL``, data set by data set: the published variant, files known to be the published ones, 500 test items, no
label list in the prompt, demonstrations interleaved, every query of the round answered.

What is comparable with reservations has them as cautions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from StaICC.datasets import get_card, names
from StaICC.errors import UnknownNameError
from StaICC.results.published.facts import LONG_ICL, METHODS, PublishedFigure, figures, find_method
from StaICC.results.result import Result
from StaICC.results.signature import short_digest
from StaICC.results.table import format_columns

__all__ = ["Placement", "beside", "format_placements"]

_REPEATS = {
    "Normal": "2",
    "Contextual_bias": "2",
    "Domain_bias": "2",
    "Post_bias": "2",
    "GLER": "2",
    "Template_sens": "1",
    "Demo_sens": "8",
}
_OPTIONS = {"Domain_bias": "domain_query_length=128", "GLER": "interpolations=5"}
_RELEASED = "0.1.1"
_CHANGED_BY = {
    "PPL-ICL": ("template",),
    "TopK": ("demonstrations", "repeats"),
    "SA-ICL": ("demonstrations", "repeats"),
}
"""What of the prompts a method changes by design."""
_SOFTMAX_TWICE = (
    "the release's metrics take the softmax of probabilities a second time, and the published figures are without that"
)
_RAW_AVERAGES = (
    "the release's bias metrics average logits as they stand and take the softmax of probabilities a second time, and "
    "the published figures are without that"
)
_OTHER_ROWS = "the paper says that all test rows were asked, its code asks {} of each data set, as this result did"


_ZERO = "a published 0 may mean that the context was too long for the model, not that all answers were wrong"


@dataclass(frozen=True, slots=True)
class Placement:
    """A figure of a result, with the published ones that may stand beside it, or the reason why none may."""

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

    @property
    def better_than(self) -> int:
        """How many of the published figures are worse: smaller, or larger where lower is better."""
        if self.value is None or not self.lower_is_better:
            return self.below
        return sum(one.value > self.value for one in self.figures if one.value is not None)

    @property
    def below(self) -> int:
        """How many of the published figures are smaller."""
        return sum(one.value < self.value for one in self.figures if one.value is not None and self.value is not None)

    def nearest(self, count: int = 3) -> tuple[PublishedFigure, ...]:
        """Return the published figures nearest in value."""
        value = self.value
        if value is None:
            return ()
        return tuple(sorted(self.figures, key=lambda one: abs((one.value or 0.0) - value))[:count])


@dataclass(frozen=True, slots=True)
class _Rule:
    """Which published figure a key of a result belongs to."""

    benchmark: str
    """Of the published figure."""
    metric: str
    key: str
    """Of the result's averages under the standard metrics."""
    released_key: str
    """Of the result's averages under the metrics of 0.1.1."""
    by_softmax: bool = False
    """Whether a second softmax moves it."""
    bias: bool = False
    """Whether it is a figure of prediction bias."""
    cautions: tuple[str, ...] = ()
    released_cautions: tuple[str, ...] = ()
    lower_is_better: bool = False


def _same(metric: str, by_softmax: bool = False, cautions: tuple[str, ...] = (), lower: bool = False) -> _Rule:
    return _Rule("Normal", metric, metric, metric, by_softmax, cautions=cautions, lower_is_better=lower)


def _bias(metric: str, released_key: str) -> _Rule:
    return _Rule("Diagnosis", metric, metric, released_key, bias=True, lower_is_better=True)


_LOW_SLOPE = (
    "lower is more robust to wrong labels, but also what a model has that ignores its demonstrations; among the "
    "published models the slope rises with size"
)
_CLOSED_BIN = "the release's last confidence bin is open, so certain answers counted nowhere; here they count"
_RULES: dict[str, tuple[_Rule, ...]] = {
    "Normal": (
        _same("accuracy"),
        _same("averaged_truelabel_likelihood", by_softmax=True),
        _same("macro_F1"),
        _same("expected_calibration_error_1", by_softmax=True, cautions=(_CLOSED_BIN,), lower=True),
    ),
    "Contextual_bias": (_bias("contextual_bias", "entropy"),),
    "Domain_bias": (_bias("domain_bias", "entropy"),),
    "Post_bias": (_bias("empirical_bias", "DL div."),),
    "GLER": (
        _Rule(
            "Diagnosis",
            "gler",
            "accuracy",
            "accuracy",
            cautions=(_LOW_SLOPE,),
            released_cautions=("the release's slope is over wrong noise rates",),
            lower_is_better=True,
        ),
    ),
    "Template_sens": (
        _Rule("Diagnosis", "template_robustness", "consistency", "consistency", cautions=(_OTHER_ROWS.format(100),)),
    ),
    "Demo_sens": (
        _Rule("Diagnosis", "sample_robustness", "consistency", "consistency", cautions=(_OTHER_ROWS.format(128),)),
    ),
}


def beside(result: Result, method: str | None = None) -> tuple[Placement, ...]:
    """Find the published figures that may stand beside a result.

    Args:
        result: A result of any benchmark.
        method: The inference method whose published figures are wanted; by default the one that the result names,
            else ``"Vanilla ICL"``, for a noisy channel ``"Noisy Channel"``.

    Returns:
        One placement for each figure that the paper has too; none for a benchmark that it does not have.

    Raises:
        UnknownNameError: There is no such published method.
    """
    if result.benchmark == LONG_ICL:
        return tuple(_long_icl(result))
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
    return tuple(_place(result, rule, chosen, reason) for rule in _RULES.get(result.benchmark, ()))


def _other_prompts(result: Result, changed: Sequence[str]) -> str | None:
    """Say what makes the prompts, or the queries that were answered, other than the published ones.

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
    for name, told in (
        ("limit", "was limited to {} test rows"),
        ("template", "has other templates ({})"),
        ("demonstrations", "has other demonstrations ({})"),
    ):
        if fields.get(name) is not None and name not in changed:
            return f"this result {told.format(fields[name])}"
    for name, published in (("repeats", _REPEATS), ("options", _OPTIONS)):
        if fields.get(name) != published.get(result.benchmark) and name not in changed:
            return f"the published {name} are {published.get(result.benchmark)}, this result has {fields.get(name)}"
    failed = fields.get("failed")
    return None if failed is None else f"{failed} queries of this result have no answer"


def _published_data() -> str:
    """Give the digest of the ten data sets and their labels, as a signature has it."""
    cards = [get_card(name) for name in names()]
    return short_digest([[card.digests.table if card.digests else "", list(card.label_space)] for card in cards])


def _place(result: Result, rule: _Rule, method: str, reason: str | None) -> Placement:
    fields = result.signature.fields
    released = fields.get("metrics") == _RELEASED
    key = rule.released_key if released else rule.key
    value = result.averaged.get(key)
    noisy = method == "Noisy Channel" or fields.get("channel") == "noisy"
    if reason is None and released and rule.bias:
        reason = _RAW_AVERAGES
    if reason is None and value is None:
        reason = f"this result has no {key}" if key not in result.averaged else f"{key} is undefined in this result"
    if reason is None and released and rule.by_softmax and _kinds(result) - {"logits"}:
        reason = _SOFTMAX_TWICE
    if reason is None and rule.benchmark == "Normal" and rule.by_softmax and noisy:
        reason = "the published noisy channel is the mean loss over the whole prompt, which is nearly uniform"
    if reason is None and rule.benchmark == "Diagnosis" and method != METHODS[0]:
        reason = f"the published diagnosis is of {METHODS[0]} alone"
    known = figures(rule.benchmark, metric=rule.metric, method=method if rule.benchmark == "Normal" else None)
    usable = [one for one in known if one.value is not None and not one.doubtful] if reason is None else []
    cautions = [*rule.cautions, *(rule.released_cautions if released else ())]
    every = [set(one.warnings) for one in known if one.value is not None]
    cautions += sorted(set.intersection(*every)) if every else []
    if "paper" in (fields.get("method") or "").split():
        cautions.append("the method as its own paper defines it; the published figures may be of the release's variant")
    if noisy and rule.benchmark == "Normal":
        cautions.append("the published noisy channel is that of the release: mean loss, not the sum over the query")
    return Placement(
        result.benchmark,
        None,
        key,
        value,
        tuple(sorted(usable, key=lambda one: one.value or 0.0)),
        reason,
        tuple(cautions) if reason is None else (),
        rule.lower_is_better,
    )


def _kinds(result: Result) -> set[str]:
    """How the answers were read, over all data sets."""
    return {record.output for details in result.details.values() for record in details.conditions}


def _long_icl(result: Result) -> Iterator[Placement]:
    for dataset, scores in result.divided.items():
        settings = scores.get("settings")
        reason = _other_long_icl(settings) if settings else "this data set was skipped"
        known = [one for one in figures(LONG_ICL) if one.dataset == dataset]
        if not known:
            reason = "the paper's tables do not have this data set"
        for key in (f"{number}R" for number in range(1, 6)):
            if key not in scores:
                continue
            why = reason
            if why is None and scores[key] is None:
                why = result.details[dataset].missing.get(key, "the round has no score")
            beside = [one for one in known if one.metric == key and one.value is not None] if why is None else []
            yield Placement(
                LONG_ICL,
                dataset,
                key,
                scores[key],
                tuple(sorted(beside, key=lambda one: one.value or 0.0)),
                why,
                (_ZERO, *sorted({warning for one in beside for warning in one.warnings})) if beside else (),
            )


def _other_long_icl(settings: dict[str, Any]) -> str | None:
    wanted = {"variant": "published", "test_number": 500, "instruct": False, "arrangement": "interleaved"}
    for name, value in wanted.items():
        if settings.get(name) != value:
            return f"the published figures are for {name} = {value}, this result has {settings.get(name)}"
    if settings.get("made_up"):
        return "the rows are made up"
    if not all(file.get("verified") for file in settings.get("files", {}).values()):
        return "the files are not known to be the published ones"
    return None


def format_placements(placements: Sequence[Placement]) -> str:
    """Return placements as a text table with reasons and cautions.

    Args:
        placements: What :func:`beside` gave.
    """
    if not placements:
        return "the papers have no figures of this benchmark"
    rows = []
    for one in placements:
        where = one.metric if one.dataset is None else f"{one.dataset}, {one.metric}"
        value = "-" if one.value is None else f"{one.value:.4f}"
        if one.reason is not None:
            rows.append([where, value, "-", f"not comparable: {one.reason}"])
            continue
        near = "; ".join(f"{figure.model} {figure.value:.4f}" for figure in one.nearest())
        rows.append([where, value, f"{one.better_than} of {len(one.figures)}", near])
    width = max(len(row[-1]) for row in rows)  # the last column is prose: to the left
    rows = [[*row[:-1], row[-1].ljust(width)] for row in rows]
    table = format_columns(
        [placements[0].benchmark, "this result", "better than", "nearest published".ljust(width)], rows
    )
    cautions = dict.fromkeys(f"{one.metric}: {caution}" for one in placements for caution in one.cautions)
    return "\n".join([table, *cautions])
