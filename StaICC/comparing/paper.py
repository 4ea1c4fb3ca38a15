r"""The paragraph for a paper in LaTeX, with its table: setting, scores with intervals, tests, signatures, citations.

Every number is one of the saved results or of their comparison. The text needs the package ``booktabs`` and the BibTeX
entries of the works that it cites (:func:`works_of`).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, get_args

from StaICC.arguments import known_name
from StaICC.benchmark_names import class_name
from StaICC.comparing.alignment import is_same_value
from StaICC.comparing.benchmark_comparison import BenchmarkComparison
from StaICC.comparing.citing import Work, find_work
from StaICC.comparing.comparable_scores import default_metric, metric_key, metrics_of
from StaICC.comparing.comparison import compare_runs
from StaICC.comparing.comparison_results import Comparison, DatasetComparison
from StaICC.comparing.verdicts import Correction, Tested, Untested, p_text
from StaICC.errors import ArgumentError, UnknownNameError
from StaICC.metrics.scores import score_record
from StaICC.results.interval_scope import demonstration_notes, scope_notes
from StaICC.results.remarks import label_mass_of_datasets
from StaICC.results.result import Result, ResultGroup
from StaICC.results.runs import by_benchmark
from StaICC.results.score_names import name_of_mean
from StaICC.results.score_records import records_of_scores
from StaICC.safe_text import latex_cell, with_latex_engine

TableRows = Literal["datasets", "means"]
"""What a row of the table is: a data set, with a column for each run; or a run, with its mean and the baselines."""

_Records = Mapping[str | None, Mapping[str, Any]]
"""The records of one score of a run by data set; that of the mean has the key ``None``."""

_MOST_PAIRS = 3
"""With more pairs of runs than this, the paragraph has those with the best run only."""

_MOST_COLUMNS = 2
"""Runs that a table by data set has by default."""

# Names of works in the list of works (:func:`~StaICC.comparing.citing.works`).
_RANDOM_BASELINES = "random baselines"
_TEST_OVER_ROWS = "paired test"
"""The paired test over independent test rows. The test over clusters of rows is another one."""
_CORRECTION = "Holm"
"""The correction of p-values for several tests."""

_BREAK = r"\textbar\allowbreak "
"""The bar between two fields of a signature, behind which a line may end."""

_MISSING_MARK = "$^{*}$"
_STOPPED_MARK = r"$^{\dagger}$"


def paper_text(
    results: Mapping[str, Result | ResultGroup],
    metric: str | None = None,
    rows: TableRows | None = None,
    more_works: Sequence[Work] = (),
) -> str:
    """Return a paragraph and a table for each benchmark, as LaTeX.

    Args:
        results: Results, or groups of results, by the name of their run.
        metric: A score, such as ``"macro_F1"``; by default the main one of each benchmark.
        rows: What a row of the table is: ``"datasets"`` or ``"means"``. By default, data sets for one or two runs, and
            the means for more, whose columns would not fit the page.
        more_works: Works of data sets that are not in the catalogue, such as those of LongICL.

    Raises:
        ArgumentError: The conditions of an experiment have no common mean, and no metric was given.
        UnknownNameError: A result has no such metric, or there are no such rows.
    """
    if rows is not None:
        known_name("kind of rows", rows, get_args(TableRows))
    parts = [r"% In the preamble: \usepackage{booktabs}. BibTeX entries: python -m StaICC cite, with these results."]
    for runs in by_benchmark(results).values():
        rows_of_benchmark: TableRows = "datasets" if len(runs) <= _MOST_COLUMNS else "means"
        if rows is not None:
            rows_of_benchmark = rows
        section = _Section(runs, metric, more_works)
        parts += [section.paragraph(), section.table(rows_of_benchmark), section.models()]
    return with_latex_engine("\n\n".join(parts))


def works_of(result: Result, more_works: Sequence[Work] = ()) -> list[Work]:
    """Return the works to cite for a result: StaICC, its benchmark, its data sets, its method, the tests.

    Data sets and methods of the user's own have no work here.

    Args:
        result: The result.
        more_works: Works of data sets that are not in the catalogue.
    """
    names = ["StaICC", result.benchmark, *result.divided, _name_of_method(result.method), _RANDOM_BASELINES]
    has_independent_rows = any(details.clusters is None for details in result.details.values())
    if has_independent_rows:
        names.append(_TEST_OVER_ROWS)
    names.append(_CORRECTION)
    return list(dict.fromkeys(_known_works(names, more_works)))


def _name_of_method(method: str) -> str:
    """Return the name of a method without its variant and its options, such as ``"topk"`` of ``"topk paper"``."""
    return method.split()[0].partition("(")[0]


def _known_works(names: Iterable[str], more_works: Sequence[Work]) -> Iterator[Work]:
    """Yield the works of names; names without a work are left out.

    Args:
        names: Names of data sets, benchmarks, methods or statistics.
        more_works: Works that are not in the catalogue.
    """
    for name in names:
        try:
            yield find_work(name, more_works)
        except UnknownNameError:
            continue


_LABEL_SCORING = {
    "last": "by the last token of each label",
    "first": "by the first token of each label",
    "full": "by all tokens of each label",
}
"""The rules of the option ``label_scoring`` in words."""


def _scoring_in_words(name: str, result: Result) -> Iterator[str]:
    """Yield a sentence about how the model of a run scores labels, and one about their total probability, if known.

    Args:
        name: The name of the run.
        result: Its result.
    """
    facts = result.provenance.facts()
    parts = []
    rule = facts.get("label_scoring")
    if rule in _LABEL_SCORING:
        parts.append(f"scores labels {_LABEL_SCORING[rule]}")
    if "dtype" in facts:
        parts.append(f"is computed in {latex_cell(facts['dtype'])}")
    if parts:
        yield f"{latex_cell(name)} {_listed(parts)}."
    masses = label_mass_of_datasets(result)
    if masses:
        mean_mass = math.fsum(masses.values()) / len(masses)
        yield f"After its prompts, the labels together have a mean probability of ${_small_number(mean_mass)}$."


def _small_number(number: float) -> str:
    r"""Return a number with two digits for LaTeX's mathematics, a very small one with a power of ten.

    Example:
        >>> _small_number(0.0012), _small_number(1.9e-7)
        ('0.0012', '1.9 \\times 10^{-7}')
    """
    mantissa, _, exponent = f"{number:.2g}".partition("e")
    if not exponent:
        return mantissa
    return rf"{mantissa} \times 10^{{{int(exponent)}}}"


class _Section:
    """The text of a paper about the runs of one benchmark: a paragraph, a table, and comments about the models.

    Args:
        runs: The results, by the names of their runs; one at least.
        metric: The score; ``None`` for the main one of the benchmark.
        more_works: Works (entries of a bibliography) of data sets that are not in the catalogue.

    Raises:
        ArgumentError: The runs are experiments, and no metric was given.
        UnknownNameError: A result has no such metric.
    """

    def __init__(self, runs: Mapping[str, Result], metric: str | None, more_works: Sequence[Work]) -> None:
        """Collect the records of the score, and test the pairs of runs."""
        first = next(iter(runs.values()))
        self._runs = runs
        self._first = first
        self._more_works = more_works
        # The settings that all runs have with the same value, by field of their signatures.
        self._shared_fields = _shared_fields(list(runs.values()))

        self._metric = _metric_of_paper(first, metric)
        for result in runs.values():
            known_name("metric", self._metric, metrics_of(result))  # raises an error for an unknown one
        self._metric_in_words = latex_cell(name_of_mean(self._metric, first.benchmark).replace("_", " "))
        score = score_record(first.benchmark, self._metric, first.higher_is_better)
        self._is_lower_better = score.higher_is_better is False  # None: it is not known which direction is better
        self._records: dict[str, _Records] = {}  # of the score, by the name of the run
        for name, result in runs.items():
            self._records[name] = _records_of_metric(result, self._metric)

        # The tests of the pairs of runs. None: there is a single run, or the runs cannot be compared.
        self._comparison: BenchmarkComparison | None = None
        self._why_not_compared = ""
        if len(runs) > 1:
            try:
                self._comparison = compare_runs(runs, self._metric)
            except ArgumentError as error:
                self._why_not_compared = str(error)

    # -- the paragraph

    def paragraph(self) -> str:
        """Return the paragraph (setting, scores, tests), and the signatures below it.

        Names and signatures have few places where a line may end, so the lines may be loose.
        """
        sentences = [self._setting(), *self._scores(), *self._tests()]
        return "\n".join(
            [
                r"\begin{sloppypar}",
                *sentences,
                r"\end{sloppypar}",
                r"{\footnotesize\raggedright\noindent",
                *self._signatures(),
                r"\par}",
            ]
        )

    def _setting(self) -> str:
        """Return the sentence about data sets, benchmark, and the settings that all runs share."""
        shared = self._shared_fields
        datasets = [self._cited(name) for name in self._datasets()]
        sentence = f"We evaluate on {_counted(len(datasets), 'data set')} ({', '.join(datasets)})"
        sentence += f" using the benchmark {latex_cell(class_name(self._first.benchmark))} of StaICC"
        sentence += _citation(_known_works(["StaICC", self._first.benchmark], self._more_works))
        if "version" in shared:
            sentence += f" (version {latex_cell(shared['version'])})"
        settings = []
        if "k" in shared:
            settings.append(f"{_counted(int(shared['k']), 'demonstration')} per prompt")
        if "repeats" in shared:
            lists = _counted(int(shared["repeats"]), "list")
            if shared.get("demonstrations") == "nested-shared":
                settings.append(f"{lists} of demonstrations that all test rows share")
            else:
                settings.append(f"{lists} of demonstrations for each test row")
        if "limit" in shared:
            settings.append(f"the first {shared['limit']} test rows of each data set")
        if "method" in shared:
            settings.append(f"the method {self._cited_method(shared['method'])}")
        if settings:
            sentence += f", with {_listed(settings)}"
        return f"{sentence}."

    def _datasets(self) -> list[str]:
        """Return the data sets of all runs, each once."""
        names: dict[str, None] = {}
        for result in self._runs.values():
            names.update(dict.fromkeys(result.divided))
        return list(names)

    def _cited(self, name: str) -> str:
        """Return a name with the citation of its work, if one is known."""
        return latex_cell(name) + _citation(_known_works([name], self._more_works))

    def _cited_method(self, method: str) -> str:
        """Return a method as signatures write it, with the citation of its work, if one is known."""
        return latex_cell(method) + _citation(_known_works([_name_of_method(method)], self._more_works))

    def _scores(self) -> Iterator[str]:
        """Yield the sentence about the mean score of each run, after that about the direction of the score.

        Baselines that all runs share are in a sentence of their own.
        """
        if self._is_lower_better:
            yield f"Lower values of the score, {self._metric_in_words}, are better."
        baselines = {self._baselines_in_words(self._records[name].get(None)) for name in self._runs}
        baselines_are_shared = len(self._runs) > 1 and len(baselines) == 1
        for name, result in self._runs.items():
            mean = self._records[name].get(None)
            model = latex_cell(result.provenance.label_without_digests)
            model_and_settings = f"{model}{self._own_settings(result)}"
            if model == latex_cell(name):  # the run has the name of its model
                model_and_settings = self._own_settings(result).removeprefix(", ")
            in_brackets = f" ({model_and_settings})" if model_and_settings else ""
            sentence = f"{latex_cell(name)}{in_brackets} has {self._value_in_words(mean)}"
            if not baselines_are_shared and self._baselines_in_words(mean):
                sentence += f", where {self._baselines_in_words(mean)}"
            if mean is not None and mean["left_out"]:
                left_out = _counted(mean["left_out"], "query", "queries")
                sentence += f"; {left_out} without a score are left out"
            if result.stopping is not None:
                sentence += "; the run stopped early"
            yield f"{sentence}."
            yield from _scoring_in_words(name, result)
        if baselines_are_shared:
            has_one_dataset = all(len(result.divided) == 1 for result in self._runs.values())
            for words in filter(None, baselines):  # one, or none if no run has baselines
                if has_one_dataset:
                    yield f"{words[0].upper()}{words[1:]}."
                else:
                    yield f"In the mean, {words}."

    def _own_settings(self, result: Result) -> str:
        """Return the settings of a run that not all runs share, without digests, such as ``", k 4, method topk"``."""
        text = ""
        for name, value in result.signature.fields.items():
            if value is None or name in self._shared_fields or name in _DIGESTS:
                continue
            if name == "method":
                shown_value = self._cited_method(value)
            elif name == "scoring":
                shown_value = _breakable_field(self._differing_parts(value))
            else:
                shown_value = _breakable_field(value)
            if shown_value:
                text += f", {latex_cell(name)} {shown_value}"
        return text

    def _differing_parts(self, scoring: str) -> str:
        """Return the parts of how a model scores labels in which it differs from another model of its kind.

        Models of different kinds have different parts, which are in the signatures: ``order`` belongs to the embedded
        model, ``label_scoring`` to models of transformers. They say nothing about a difference between the runs. Models
        that have a part of the same name are of one kind; if one of them lacks another part, they differ in it.

        Args:
            scoring: All parts, such as ``"escape=C;order=12"``.
        """
        parts = scoring.split(";")
        names = {part.partition("=")[0] for part in parts}
        others_of_the_kind = []
        for result in self._runs.values():
            other_parts = (result.signature.fields.get("scoring") or "").split(";")
            if any(part.partition("=")[0] in names for part in other_parts):
                others_of_the_kind.append(other_parts)
        differing = []
        for part in parts:
            if any(part not in other_parts for other_parts in others_of_the_kind):
                differing.append(part)
        return ";".join(differing)

    def _value_in_words(self, record: Mapping[str, Any] | None) -> str:
        """Return the mean score of a run in words, with its interval, if one is known.

        Args:
            record: The record of the mean; ``None`` if the run has no mean.
        """
        if record is None or record["value"] is None:
            return f"no mean {self._metric_in_words}"
        text = f"a mean {self._metric_in_words} of ${record['value']:.3f}$"
        if record["low"] is not None:
            level = f"{100 * record['level']:g}"
            text += rf" ({level}\,\% confidence interval ${record['low']:.3f}$ to ${record['high']:.3f}$)"
        return text

    def _baselines_in_words(self, record: Mapping[str, Any] | None) -> str:
        """Return the baselines of a mean score in words; empty without a mean or baselines.

        Args:
            record: The record of the mean; ``None`` if the run has no mean.
        """
        if record is None or record["value"] is None or record["random"] is None:
            return ""
        return f"random guessing has ${record['random']:.3f}$ and the majority label ${record['majority']:.3f}$"

    def _tests(self) -> Iterator[str]:
        """Yield the sentences about the tests of pairs of runs, and about what limits tests and intervals."""
        if self._comparison is None:
            if self._why_not_compared:
                yield f"The runs are not compared: {latex_cell(self._why_not_compared)}."
            yield from _scope_in_words(scope_notes(self._runs.values(), with_advice=False))
            return
        pairs = self._shown_pairs(self._comparison)
        compared_runs = []
        notes_on_clusters: list[str] = []
        for pair in pairs:
            yield self._verdict_in_words(pair)
            compared_runs += [self._runs[pair.first], self._runs[pair.second]]
            notes_on_clusters += pair.cluster_notes
        yield from _tests_in_words(pairs, self._comparison.correction)
        notes_on_demonstrations = demonstration_notes(compared_runs, with_advice=False)
        yield from _scope_in_words([*notes_on_demonstrations, *notes_on_clusters])
        for reason in self._comparison.left_out:
            yield f"About the comparison: {latex_cell(reason)}."

    def _verdict_in_words(self, pair: Comparison) -> str:
        """Return the sentence about two runs, from the test of their means."""
        line = pair.overall
        first = latex_cell(pair.first)
        second = latex_cell(pair.second)
        if isinstance(line.outcome, Untested):
            return f"{first} and {second} are not tested: {latex_cell(line.outcome.reason)}."
        better = pair.better_run(line, line.outcome)
        if better is None:
            verdict = f"Neither {first} nor {second} is shown to be better"
        else:
            worse = second if better == pair.first else first
            verdict = f"{latex_cell(better)} is better than {worse}"
        facts = _facts_of_test(line, line.outcome, f"{first} minus {second}")
        return f"{verdict}{self._compared_part(pair)} ({facts})."

    def _compared_part(self, pair: Comparison) -> str:
        """Return on what two runs are compared, with their means there; empty if these are the means of the runs.

        Two runs are compared on the data sets and queries that both have. The paragraph has the means of each run on
        all of its own.
        """
        first_value, second_value = pair.overall.values
        first_text = f"{latex_cell(pair.first)} has {_mean_in_words(first_value)}"
        second_text = f"{latex_cell(pair.second)} has {_mean_in_words(second_value)}"
        where = f"where {first_text} and {second_text}"

        compared_datasets = {line.dataset for line in pair.datasets}
        for run in (pair.first, pair.second):
            if set(self._runs[run].divided) != compared_datasets:
                return f" on the data sets on which both are compared, {where}"
        if not (self._has_mean(pair.first, first_value) and self._has_mean(pair.second, second_value)):
            return f" on the queries on which both are compared, {where}"
        return ""

    def _has_mean(self, run: str, value: float | None) -> bool:
        """Return whether the mean of a run in the paragraph is this value."""
        mean = self._records[run].get(None)
        return mean is not None and is_same_value(mean["value"], value)

    def _shown_pairs(self, comparison: BenchmarkComparison) -> Sequence[Comparison]:
        """Return the pairs of runs that the paragraph reports.

        These are all pairs if there are at most three, as of three runs. Otherwise they are the pairs of the best run
        with each other run. If the runs have no ranking, the best run is unknown, and all pairs are returned.
        """
        pairs = comparison.comparisons
        ranking = comparison.ranking
        if len(pairs) <= _MOST_PAIRS or not ranking:
            return pairs
        best_run = ranking[0].run
        return [pair for pair in pairs if best_run in (pair.first, pair.second)]

    def _signatures(self) -> Iterator[str]:
        """Yield the signature of each run; one for all runs if it is the same."""
        first_signature, *other_signatures = [str(result.signature) for result in self._runs.values()]
        if other_signatures and set(other_signatures) == {first_signature}:
            whose = "both runs" if len(self._runs) == 2 else "all runs"
            yield rf"Signature of {whose}: {_breakable(first_signature)}\\"
            return
        for name, result in self._runs.items():
            yield rf"Signature of {latex_cell(name)}: {_breakable(str(result.signature))}\\"

    # -- the table

    def table(self, rows: TableRows) -> str:
        """Return the table in the style of ``booktabs``."""
        if rows == "means":
            head, lines = self._table_of_means()
        else:
            head, lines = self._table_of_datasets()
        alignment = "l" + "r" * (len(head) - 1)
        body = [rf"{' & '.join(cells)} \\" for cells in lines]
        if rows == "datasets" and self._has_row_of_means():
            body.insert(-1, r"\midrule")
        return "\n".join(
            [
                r"\begin{table}",
                r"\centering\footnotesize",
                rf"\caption{{{self._caption()}}}",
                rf"\begin{{tabular}}{{{alignment}}}",
                r"\toprule",
                rf"{' & '.join(head)} \\",
                r"\midrule",
                *body,
                r"\bottomrule",
                r"\end{tabular}",
                r"\end{table}",
            ]
        )

    def _caption(self) -> str:
        """Return the caption of the table: benchmark and score, then what intervals, baselines and marks mean."""
        caption = f"{latex_cell(class_name(self._first.benchmark))}: {self._metric_in_words}"
        if self._is_lower_better:
            caption += " (lower is better)"
        caption += f"{self._intervals_in_words()}."
        records = [record for of_run in self._records.values() for record in of_run.values()]
        if any(record["random"] is not None for record in records):
            caption += " Random: expected accuracy of guessing; majority: always the most frequent label."
        if "limit" not in self._shared_fields and self._has_limit():
            caption += " The runs have different numbers of test rows, so their scores are on different rows;"
            caption += " a baseline that differs between them is a dash."
        if any(record["left_out"] for record in records):
            caption += f" {_MISSING_MARK}: some queries have no score and are left out."
        if any(record["stopped_early"] for record in records):
            caption += f" {_STOPPED_MARK}: the run stopped early."
        return caption

    def _has_limit(self) -> bool:
        """Return whether a run has only the first test rows of each data set."""
        return any(result.signature.fields.get("limit") is not None for result in self._runs.values())

    def _intervals_in_words(self) -> str:
        """Return what is in brackets behind the scores of the table, with the level of each run; empty for nothing."""
        runs_by_level: dict[str, list[str]] = {}
        for name, records in self._records.items():
            levels = {record["level"] for record in records.values() if record["low"] is not None}
            for level in levels:
                runs_by_level.setdefault(rf"{100 * level:g}\,\%", []).append(latex_cell(name))
        if not runs_by_level:
            return ""
        if len(runs_by_level) == 1:
            (level_of_all,) = runs_by_level
            return f", with {level_of_all} confidence intervals in brackets"
        levels_with_runs = [f"{level} for {_listed(runs)}" for level, runs in runs_by_level.items()]
        return f", with confidence intervals in brackets ({', '.join(levels_with_runs)})"

    def _table_of_means(self) -> tuple[list[str], list[list[str]]]:
        """Return the column heads, and a table row for each run: its mean and the baselines."""
        lines = []
        for name in self._runs:
            mean = self._records[name].get(None)
            lines.append([latex_cell(name), _value_cell(mean), _baseline(mean, "random"), _baseline(mean, "majority")])
        return ["", self._metric_in_words, "random", "majority"], lines

    def _has_row_of_means(self) -> bool:
        """Return whether the means are about the same data sets, several of them."""
        names = self._datasets()
        return len(names) > 1 and all(list(result.divided) == names for result in self._runs.values())

    def _table_of_datasets(self) -> tuple[list[str], list[list[str]]]:
        """Return the column heads, and a table row for each data set: the baselines and the score of each run."""
        datasets: list[str | None] = list(self._datasets())
        if self._has_row_of_means():
            datasets.append(None)
        lines = []
        for dataset in datasets:
            records = [of_run.get(dataset) for of_run in self._records.values()]
            name = "mean" if dataset is None else latex_cell(dataset)
            scores = [_value_cell(record) for record in records]
            lines.append([name, _shared_baseline(records, "random"), _shared_baseline(records, "majority"), *scores])
        runs = [latex_cell(run) for run in self._runs]
        return ["data set", "random", "majority", *runs], lines

    def models(self) -> str:
        """Return comments with the digest of each model, which the text leaves out."""
        return "\n".join(f"% {latex_cell(name)}: {latex_cell(run.model)}" for name, run in self._runs.items())


_DIGESTS = ("prompts", "data")
"""Fields of a signature that are digests: the signature has them."""


def _metric_of_paper(result: Result, metric: str | None) -> str:
    """Return the key of the metric of a paragraph: the given one, or the main one of a result.

    Args:
        result: The result.
        metric: The given metric; ``None`` if none was given.

    Raises:
        ArgumentError: The result is an experiment, and no metric was given.
    """
    chosen = metric or default_metric(result)
    if chosen is None:  # an experiment has no default
        known = ", ".join(metrics_of(result))
        raise ArgumentError(f"an experiment has no mean over its conditions: choose a metric, one of {known}")
    return metric_key(result, chosen)


def _mean_in_words(value: float | None) -> str:
    """Return a mean as a formula; "no mean" without one."""
    if value is None:
        return "no mean"
    return f"${value:.3f}$"


def _records_of_metric(result: Result, metric: str) -> _Records:
    """Return the records of a score by data set. Data sets have a slope under a longer key than the mean."""
    records: dict[str | None, Mapping[str, Any]] = {}
    for record in records_of_scores(result):
        if record["metric"] in (metric, f"sensitivity.{metric}"):
            records[record["dataset"]] = record
    return records


def _shared_fields(results: Sequence[Result]) -> dict[str, str]:
    """Return the fields of the signatures that all results have with the same value."""
    first, *others = [result.signature.fields for result in results]
    shared = {}
    for name, value in first.items():
        if value is not None and all(fields.get(name) == value for fields in others):
            shared[name] = value
    return shared


def _counted(number: int, singular: str, plural: str = "") -> str:
    """Return a number with its noun: ``1 list``, ``2 lists``. The plural has an s unless it is given."""
    if number == 1:
        return f"1 {singular}"
    return f"{number} {plural or f'{singular}s'}"


def _listed(texts: Sequence[str]) -> str:
    """Return texts as a list in a sentence: commas, and "and" before the last."""
    *others, last = texts
    if not others:
        return last
    return f"{', '.join(others)} and {last}"


def _citation(works: Iterable[Work]) -> str:
    r"""Return the command ``\cite`` with the keys of works, after a blank; empty without works."""
    keys: list[str] = []
    for work in works:
        keys += re.findall(r"^@\w+\{([^,\s]+),", work.bibtex, flags=re.MULTILINE)
    if not keys:
        return ""
    return rf"~\cite{{{','.join(dict.fromkeys(keys))}}}"


def _tests_in_words(pairs: Sequence[Comparison], correction: Correction) -> Iterator[str]:
    """Yield the sentence about the tests of pairs of runs and their correction; nothing if none is tested."""
    units: dict[str, None] = {}
    for pair in pairs:
        if isinstance(pair.overall.outcome, Untested):
            continue
        if pair.over_clusters:
            units["clusters of test rows"] = None
        else:
            units[f"test rows{_citation(_known_works([_TEST_OVER_ROWS], ()))}"] = None
    if not units:
        return
    sentence = f"The tests are paired over {' or '.join(units)}"
    if correction.method == "Bonferroni":
        sentence += f", and their p-values are corrected for all {correction.pairs} pairs of runs by Bonferroni's"
        sentence += " method, because the best run, with which each is compared, was chosen by the same data"
    elif correction.pairs > 1:
        sentence += f", and their p-values are corrected for {correction.pairs} pairs of runs"
        sentence += _citation(_known_works([_CORRECTION], ()))
    yield f"{sentence}."


def _scope_in_words(notes: Iterable[str]) -> Iterator[str]:
    """Yield the sentences about what limits intervals and tests, each once."""
    for note in dict.fromkeys(notes):
        yield latex_cell(note)


def _facts_of_test(line: DatasetComparison, outcome: Tested, subtraction: str) -> str:
    """Return the difference of two runs with its interval, and the p-value, as LaTeX.

    Args:
        line: The comparison of their means.
        outcome: The corrected test.
        subtraction: What is subtracted from what: "first minus second".
    """
    facts = []
    if line.difference is not None:
        facts.append(f"{subtraction}: ${line.difference:+.3f}$")
    if line.interval is not None:
        facts.append(rf"95\,\% interval ${line.interval.low:+.3f}$ to ${line.interval.high:+.3f}$")
    facts.append(f"${p_text(outcome.corrected_p_value)}$")
    return ", ".join(facts)


def _breakable(signature: str) -> str:
    """Return a signature in typewriter letters that may be broken between its fields and their parts."""
    fields = [_breakable_field(field) for field in signature.split("|")]
    return rf"\texttt{{{_BREAK.join(fields)}}}"


def _breakable_field(text: str) -> str:
    """Return the value of a setting, in which a line may end behind the settings and names that it lists."""
    return re.sub(r"([;+,])(?=\S)", r"\1\\allowbreak ", latex_cell(text))


def _value_cell(record: Mapping[str, Any] | None) -> str:
    """Return a score with its interval and its marks as a cell of LaTeX, such as ``$0.512$ [$0.480$, $0.544$]``.

    Args:
        record: The record of the score; ``None`` if the run has none here. The cell is then ``--``, as without a value.
    """
    if record is None or record["value"] is None:
        return "--"
    cell = f"${record['value']:.3f}$"
    if record["low"] is not None:
        cell += f" [${record['low']:.3f}$, ${record['high']:.3f}$]"
    if record["left_out"]:
        cell += _MISSING_MARK
    if record["stopped_early"]:
        cell += _STOPPED_MARK
    return cell


def _baseline(record: Mapping[str, Any] | None, name: str) -> str:
    """Return a baseline of a score as a cell, ``"random"`` or ``"majority"``; two dashes without one."""
    if record is None or record[name] is None:
        return "--"
    return f"${record[name]:.3f}$"


def _shared_baseline(records: Sequence[Mapping[str, Any] | None], name: str) -> str:
    """Return a baseline that all runs have; two dashes if they differ, as those of other test rows do.

    Args:
        records: The record of the score of each run; ``None`` for a run without the data set, which is left out.
        name: ``"random"`` or ``"majority"``.
    """
    cells = {_baseline(record, name) for record in records if record is not None}
    if len(cells) == 1:
        return cells.pop()
    return "--"
