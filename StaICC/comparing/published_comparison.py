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

For ``LongICL``, data set by data set: the published parser, files known to be the published ones, 500 test items, no
label list in the prompt, demonstrations interleaved, a prediction for every query of the round.

Reservations are listed as cautions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from StaICC import benchmark_names
from StaICC.comparing.published import PublishedFigure, find, published_data, published_figures
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
_UNSET = {
    **dict.fromkeys(_FIELDS, "none"),
    "datasets": "the ten data sets",
    "template": "the default",
    "demonstrations": "the default",
}
"""The meaning of a field that is not in a signature."""
_RELEASED = "0.1.1"
"""The metrics of StaICC 0.1.1, as the ``metrics`` field of a signature names them."""
_PUBLISHED_SAMPLE_COUNT = "128"
"""Number of calibration samples of the published methods, as in a signature."""
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

_LONG_ICL_SETTINGS = {"parsing": "published", "limit": 500, "instruct": False}
_ZERO = "a published 0 may mean that the context was too long for the model, not that all answers were wrong"


@dataclass(frozen=True, slots=True)
class PublishedComparison:
    """A score of a result with the comparable published figures, or the reason why there are none."""

    benchmark: str
    dataset: str | None
    """The data set of LongICL; ``None`` for a mean over the data sets."""
    metric: str
    """The key of the score in the result."""
    value: float | None
    figures: tuple[PublishedFigure, ...]
    """The comparable published figures that have a value and are not doubtful, the smallest first."""
    reason: str | None
    """Why there are no comparable figures; ``None`` if the score is comparable."""
    cautions: tuple[str, ...] = ()
    lower_is_better: bool = False
    model: str = ""
    """The model, by name and short identity."""
    differences: tuple[str, ...] = ()
    """Differences in scoring between the result and the published runs."""

    @property
    def below(self) -> int:
        """Number of published figures that are smaller."""
        if self.value is None:
            return 0
        return sum(figure.value < self.value for figure in self.figures if figure.value is not None)

    @property
    def better_than(self) -> int:
        """Number of published figures that are worse: smaller, or larger if lower is better."""
        if not self.lower_is_better:
            return self.below
        equal = sum(figure.value == self.value for figure in self.figures)
        above = len(self.figures) - self.below - equal
        return above

    def nearest(self, count: int = 3) -> tuple[PublishedFigure, ...]:
        """Return the published figures that are nearest to the score, the nearest first.

        Args:
            count: Number of figures.
        """
        # Comparable figures always have a value, and then the score has one too: 0 is never used.
        own_value = self.value or 0.0

        def distance(figure: PublishedFigure) -> float:
            return abs((figure.value or 0.0) - own_value)

        return tuple(sorted(self.figures, key=distance)[:count])


class _Rule(NamedTuple):
    """A score of a result, and the published figure that corresponds to it."""

    key: str
    """The key of the score in the averages of a result with the standard metrics."""
    published: str = ""
    """The metric of the published figure; empty if it has the same name as the key."""
    cautions: tuple[str, ...] = ()
    """Cautions that hold for every comparison of this score."""
    released_key: str = ""
    """The key of the score in a result with the metrics of StaICC 0.1.1; empty if it is the same key. Measures of
    prediction bias have another one."""


_LOW_SLOPE = (
    "a low slope means robustness to wrong labels, but a model that ignores its demonstrations also has a low slope; "
    "the slope of the published models increases with size"
)
_CAUTION_ABOUT_NOISE_RATES = "the release's slope is over wrong noise rates"
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
        One comparison for each score that the paper also reports. It is empty for a benchmark that is not in the paper.

    Raises:
        UnknownNameError: There is no such published method.
    """
    if result.benchmark == benchmark_names.LONG_ICL:
        return tuple(_compare_long_icl(result))
    published_method = _published_method(result, method)
    # The first reason that applies is the one that is shown.
    reason = _other_sample_count(result)
    if reason is None:
        reason = published_method.why_not_comparable
    if reason is None:
        reason = _other_prompts(result, published_method.name)
    if reason is None:
        reason = _why_shortened_prompts_not_comparable(result)
    rules = _RULES.get(result.benchmark, ())
    return tuple(_compare_score(result, rule, published_method.name, reason) for rule in rules)


# -- means over the ten data sets


def _method_words(result: Result) -> list[str]:
    """Return the words of the method in a signature: its name, then its settings; empty without a method.

    The words of ``"CC n=128"`` are ``["CC", "n=128"]``.
    """
    return (result.signature.fields.get("method") or "").split()


class _PublishedMethod(NamedTuple):
    """The published method with which a result is compared."""

    name: str
    why_not_comparable: str | None = None
    """Why the method of the result is not comparable with it; ``None`` if it is."""


def _published_method(result: Result, method: str | None) -> _PublishedMethod:
    """Return the published method with which a result is compared.

    - A given method: the published method of this name.
    - A result with a method: the published method of the same name. If the paper has no such method, the result is not
      comparable.
    - A result without a method: ``"Vanilla ICL"``, or ``"Noisy Channel"`` if it has the noisy channel.

    Args:
        result: The result.
        method: Name of a published method; ``None`` if it follows from the result.

    Raises:
        UnknownNameError: A method is given, and there is no such published one.
    """
    if method is not None:
        (name,) = find("method", method)
        return _PublishedMethod(name)
    default = "Vanilla ICL"
    if result.signature.fields.get("channel") == "noisy":
        default = "Noisy Channel"
    words = _method_words(result)
    if not words:
        return _PublishedMethod(default)
    method_of_result = words[0]
    try:
        (name,) = find("method", method_of_result)
    except UnknownNameError:
        return _PublishedMethod(default, why_not_comparable=f"the paper does not have the method {method_of_result}")
    return _PublishedMethod(name)


def _other_sample_count(result: Result) -> str | None:
    """Return the reason that the method had another number of calibration samples than the published 128.

    ``None`` if it had this number, or uses no calibration samples.
    """
    for word in _method_words(result):
        if word.startswith("n="):
            count = word.removeprefix("n=")
            if count == _PUBLISHED_SAMPLE_COUNT:
                return None
            return (
                f"the published figures are for {_PUBLISHED_SAMPLE_COUNT} calibration samples, this result has {count}"
            )
    return None


def _other_prompts(result: Result, method: str) -> str | None:
    """Return the reason that the prompts are not the published ones; ``None`` if they are the same.

    Args:
        result: The result.
        method: The published method. The fields that it changes by design may differ.
    """
    published: dict[str, str | None] = dict.fromkeys(_FIELDS)
    published["data"] = published_data()
    published["k"] = "4"
    published["repeats"] = _REPEATS.get(result.benchmark, "2")
    published["options"] = _OPTIONS.get(result.benchmark)
    for field in _CHANGED_BY.get(method, ()):
        del published[field]
    return _other_setting(result.signature.fields, published)


def _why_shortened_prompts_not_comparable(result: Result) -> str | None:
    """Return why a result is not comparable if the model did not read all demonstrations; ``None`` if it did."""
    dropped_by_dataset = [details.dropped_demonstrations for details in result.details.values()]
    return _reason_of_dropped_demonstrations(sum(dropped_by_dataset))


def _reason_of_dropped_demonstrations(count: int) -> str | None:
    """Return why prompts that lost this number of demonstrations are not the published ones; ``None`` for 0."""
    if count == 0:
        return None
    return f"{count} demonstrations were left out of prompts that were too long for the model"


def _other_setting(own: Mapping[str, Any], published: Mapping[str, Any]) -> str | None:
    """Return a sentence about the first setting that differs from the published one; ``None`` if no setting differs.

    Args:
        own: The settings of a result, by name.
        published: The published settings, by name; ``None`` for a setting that is not set.
    """
    for name, published_value in published.items():
        own_value = own.get(name)
        if own_value != published_value:
            return (
                f"the published figures are for {name} = {_setting_text(name, published_value)}, "
                f"this result has {_setting_text(name, own_value)}"
            )
    return None


def _setting_text(name: str, value: Any) -> Any:
    """Return the value of a setting for a sentence; if it is not set, what that means, such as "the default"."""
    if value is None:
        return _UNSET.get(name)
    return value


def _compare_score(result: Result, rule: _Rule, method: str, reason: str | None) -> PublishedComparison:
    """Return a score of a result next to the published figures of its rule.

    Args:
        result: The result.
        rule: The score, with the published figure that corresponds to it.
        method: The published method.
        reason: Why the result as a whole is not comparable; ``None`` if it is.
    """
    # The same score has another key in a result with the metrics of StaICC 0.1.1, if the rule has such a key.
    key_in_result = rule.key
    if _is_released(result) and rule.released_key:
        key_in_result = rule.released_key
    if reason is None:
        reason = _why_score_not_comparable(result, rule, key_in_result, method)

    figures: list[PublishedFigure] = []
    cautions: list[str] = []
    if reason is None:
        # Doubtful figures are not shown. A warning is a caution only if these have it, too.
        shown_and_doubtful = _figures_of_rule(result, rule, method)
        figures = [figure for figure in shown_and_doubtful if not figure.doubtful]
        cautions = _cautions(result, rule, method, shown_and_doubtful)
    standard_score = score_record(result.benchmark, rule.key)
    return PublishedComparison(
        benchmark=result.benchmark,
        dataset=None,
        metric=key_in_result,
        value=result.averaged.get(key_in_result),
        figures=_by_value(figures),
        reason=reason,
        cautions=tuple(cautions),
        lower_is_better=not standard_score.higher_is_better,
        model=result.model,
        differences=_other_scoring(result),
    )


def _is_released(result: Result) -> bool:
    """Return whether a result has the metrics of StaICC 0.1.1."""
    return result.signature.fields.get("metrics") == _RELEASED


def _is_noisy_channel(result: Result, method: str) -> bool:
    """Return whether the result or the published method is a noisy channel.

    The paper calls it ``Noisy Channel``. In the signature of a result, it is ``noisy`` in the field ``channel``.
    """
    if result.benchmark != benchmark_names.NORMAL:
        return False
    return method == "Noisy Channel" or result.signature.fields.get("channel") == "noisy"


def _why_score_not_comparable(result: Result, rule: _Rule, key: str, method: str) -> str | None:
    """Return why a score is not comparable with the published one, given the same prompts; ``None`` if it is.

    Args:
        result: The result.
        rule: The rule of the score.
        key: The key of the score in the result.
        method: The published method.
    """
    if _is_released(result) and rule.released_key:
        return _RAW_AVERAGES
    if key not in result.averaged:
        return f"this result has no {key}"
    if result.averaged[key] is None:
        return f"{key} is undefined in this result"
    left_out = result.left_out_of(key)
    if left_out > 0:
        return f"{left_out} queries without a prediction are left out of this result"

    if result.benchmark != benchmark_names.NORMAL:
        if method != "Vanilla ICL":
            return "the published diagnosis is for Vanilla ICL only"
        return None
    if _reads_probabilities(rule):
        outputs = {record.output for details in result.details.values() for record in details.conditions}
        some_outputs_are_no_logits = bool(outputs - {"logits"})
        if _is_released(result) and some_outputs_are_no_logits:
            return _SOFTMAX_TWICE
        if _is_noisy_channel(result, method):
            return _MEAN_LOSS
    return None


def _reads_probabilities(rule: _Rule) -> bool:
    """Return whether the score of a rule depends on the probabilities, and not on the predicted labels alone."""
    statistic = score_record(benchmark_names.NORMAL, rule.key).statistic
    return statistic is not None and statistic.reads == "probabilities"


def _figures_of_rule(result: Result, rule: _Rule, method: str) -> list[PublishedFigure]:
    """Return the published figures that correspond to a score, without those that have no value.

    Figures of ``Normal`` are those of the published method. Figures of other benchmarks are those of ``"Diagnosis"``,
    which are for Vanilla ICL only.

    Args:
        result: The result.
        rule: The rule that names the score of the result and the published one.
        method: The published method.
    """
    metric = rule.published or rule.key
    if result.benchmark == benchmark_names.NORMAL:
        figures = published_figures(benchmark_names.NORMAL, metric=metric, method=method)
    else:
        figures = published_figures(benchmark_names.DIAGNOSIS, metric=metric)
    return [figure for figure in figures if figure.value is not None]


def _cautions(result: Result, rule: _Rule, method: str, figures: Sequence[PublishedFigure]) -> list[str]:
    """Return the cautions about a comparison with published figures.

    They are in this order:

    1. Those of the score, and one about the noise rates of GLER in a result with the metrics of StaICC 0.1.1.
    2. The warnings that all published figures share. A warning of some figures only does not hold for the others.
    3. Those about the method.

    Args:
        result: The result.
        rule: The rule of the score.
        method: The published method.
        figures: The published figures of the score; at least one.
    """
    cautions = list(rule.cautions)
    if _is_released(result) and result.benchmark == benchmark_names.GLER:
        cautions.append(_CAUTION_ABOUT_NOISE_RATES)
    shared_warnings = set(figures[0].warnings)
    for figure in figures[1:]:
        shared_warnings &= set(figure.warnings)
    cautions += sorted(shared_warnings)
    # The words of a method are its name and its settings. With the setting "paper", a method is used as its own paper
    # defines it, not as StaICC 0.1.1 does.
    is_as_in_its_paper = "paper" in _method_words(result)
    if is_as_in_its_paper:
        cautions.append("the method as its own paper defines it; the published figures may be of the release's variant")
    if _is_noisy_channel(result, method):
        cautions.append("the published noisy channel is that of the release: mean loss, not the sum over the query")
    return cautions


def _other_scoring(result: Result) -> tuple[str, ...]:
    """Return sentences about label scorings of a result that differ from that of the published runs.

    The published runs score the last token of each label. Each sentence is about a model, or other source of
    predictions, of the result that does not. Equal sentences are returned once.
    """
    sentences = []
    for predictor in result.provenance.predictors:
        if predictor.how.get("label_scoring") == _PUBLISHED_SCORING:
            continue
        predictions_were_given = GIVEN in predictor.who
        if predictions_were_given:
            scoring = "given predictions"
        else:
            scoring = scoring_field(predictor.how)
        sentences.append(f"the published runs score the last token of each label; this result has {scoring}")
    return tuple(dict.fromkeys(sentences))


def _by_value(figures: Iterable[PublishedFigure]) -> tuple[PublishedFigure, ...]:
    """Return figures in the order of their values, the smallest first. All of them have a value."""
    return tuple(sorted(figures, key=lambda figure: figure.value or 0.0))


# -- LongICL, data set by data set


def _compare_long_icl(result: Result) -> Iterator[PublishedComparison]:
    """Yield one comparison for each round of each data set: its score next to the published figures."""
    all_figures = published_figures(benchmark_names.LONG_ICL)
    for dataset, scores in result.divided.items():
        figures = [figure for figure in all_figures if figure.dataset == dataset and figure.value is not None]
        reason = _why_dataset_not_comparable(result, dataset, is_published=bool(figures))
        for number in range(1, 6):
            key = f"{number}R"
            if key in scores:
                figures_of_round = [figure for figure in figures if figure.metric == key]
                yield _compare_round(result, dataset, key, figures_of_round, reason)


def _why_dataset_not_comparable(result: Result, dataset: str, is_published: bool) -> str | None:
    """Return why no score of a data set of LongICL is comparable; ``None`` if its rounds can be comparable.

    Args:
        result: The result.
        dataset: The data set.
        is_published: Whether there are published figures of the data set.
    """
    if not is_published:
        return "this data set is not in the tables of the paper"
    settings = result.divided[dataset].get("settings") or {}
    if not settings:
        return "this data set was skipped"
    other_setting = _other_setting(settings, _LONG_ICL_SETTINGS)
    if other_setting is not None:
        return other_setting
    if settings.get("made_up"):
        return "the rows are synthetic"
    if not all(file.get("verified") for file in settings.get("files", {}).values()):
        return "the files are not known to be the published ones"
    outputs = {record.output for record in result.details[dataset].conditions}
    other_outputs = sorted(outputs - {"text", "none"})
    if other_outputs:
        return f"the published models generated text, this result has {' and '.join(other_outputs)}"
    return None


def _compare_round(
    result: Result, dataset: str, key: str, figures: Sequence[PublishedFigure], reason: str | None
) -> PublishedComparison:
    """Return the score of a round of LongICL next to its published figures.

    Args:
        result: The result.
        dataset: The data set.
        key: The round, such as ``"1R"``.
        figures: The published figures of the round.
        reason: Why the data set is not comparable; ``None`` if it is.
    """
    if reason is None:
        reason = _why_round_not_comparable(result, dataset, key)
    if reason is not None:
        figures = ()
    cautions: list[str] = []
    if figures:
        warnings = {warning for figure in figures for warning in figure.warnings}
        cautions = [_ZERO, *sorted(warnings)]
    return PublishedComparison(
        benchmark=benchmark_names.LONG_ICL,
        dataset=dataset,
        metric=key,
        value=result.divided[dataset][key],
        figures=_by_value(figures),
        reason=reason,
        cautions=tuple(cautions),
        model=result.model,
    )


def _why_round_not_comparable(result: Result, dataset: str, key: str) -> str | None:
    """Return why the score of a round is not comparable with the published one; ``None`` if it is.

    Args:
        result: A result of LongICL.
        dataset: A data set that is comparable as such.
        key: The key of the round, such as ``"1R"``.
    """
    if result.divided[dataset][key] is None:
        return result.details[dataset].missing.get(key, "the round has no score")
    left_out = result.left_out_of(key, dataset)
    if left_out > 0:
        return f"{left_out} queries without a prediction are left out of this result"
    _, dropped_demonstrations = result.details[dataset].dropped.get(key, (0, 0))
    return _reason_of_dropped_demonstrations(dropped_demonstrations)


# -- as text


def display_published(comparisons: Sequence[PublishedComparison]) -> list[Block]:
    """Return comparisons with published figures as a table. Cautions are below it, differences in scoring above.

    In the table, a score that is not comparable has the reason in place of the nearest figures.

    Args:
        comparisons: Results of :func:`compare_with_published`.
    """
    if not comparisons:
        return [Line("there are no published figures for this benchmark")]
    rows: list[list[str]] = []
    # Lines of several comparisons are shown once, in the order of their first appearance.
    differences: dict[str, None] = {}
    cautions: dict[str, None] = {}
    for comparison in comparisons:
        rows.append(_table_row(comparison))
        for difference in comparison.differences:
            differences[f"differs: {difference}"] = None
        for caution in comparison.cautions:
            cautions[f"{comparison.metric}: {caution}"] = None
    head = [comparisons[0].benchmark, "this result", "better than", "nearest published"]
    text_columns = (0, 3)
    return [
        Line(f"model: {comparisons[0].model}"),
        *[Line(difference) for difference in differences],
        TextTable(head, rows, text_columns),
        *[Line(caution) for caution in cautions],
    ]


def _table_row(comparison: PublishedComparison) -> list[str]:
    """Return the cells of a score: its name, its value, than how many figures it is better, and the nearest figures."""
    name = comparison.metric
    if comparison.dataset is not None:
        name = f"{comparison.dataset}, {comparison.metric}"
    value = "-" if comparison.value is None else f"{comparison.value:.4f}"
    if comparison.reason is not None:
        return [name, value, "-", f"not comparable: {comparison.reason}"]
    better_than = f"{comparison.better_than} of {len(comparison.figures)}"
    nearest = [f"{figure.model} {figure.value:.4f}" for figure in comparison.nearest()]
    return [name, value, better_than, "; ".join(nearest)]


def format_published(comparisons: Sequence[PublishedComparison]) -> str:
    """Return comparisons as text: a table, reasons and cautions."""
    return layout(display_published(comparisons))
