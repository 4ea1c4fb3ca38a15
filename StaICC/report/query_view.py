"""The view of single queries: a list with filters, which a script fills from data in the page.

The data are JSON in ASCII without ``<``, ``>`` and ``&``, and the script writes them as text only, so texts of data
sets cannot become markup. Texts are hidden until the reader chooses to see them: some data sets contain offensive ones.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from StaICC.benchmark_names import has_true_labels
from StaICC.errors import SchemaError
from StaICC.report.comparable_groups import each_result, run_names
from StaICC.report.html import Markup, element, join
from StaICC.report.label_names import labels_of
from StaICC.report.parts import Section
from StaICC.results.details import ConditionRecord, DatasetDetails, query_positions
from StaICC.results.result import Prompts, Result, ResultGroup
from StaICC.results.runs import by_benchmark
from StaICC.safe_text import valid_unicode

_FAILED = -2
"""In the place of a label: the query failed."""
_UNPARSED = -3
"""In the place of a label: the reply has no label."""
_NO_LABEL = -1
"""In the place of a true label: the query has none."""
_NO_PROMPT = -1
"""In the place of a prompt: it is not known."""
_INTRODUCTION = (
    "Every query of the runs, with its predictions. Prompts are written again from the data, and shown only if they "
    "have the digests of the run. Some data sets contain offensive texts, so all texts are hidden until you choose to "
    "see them. The address of this page follows the filters and the selected query: copy it as a link."
)

_Written = Mapping[str, Sequence[tuple[str, ...]] | str]
"""The prompts of a result by data set, each as the texts of its parts; or the reason why a data set has none."""


def query_section(results: Mapping[str, Result | ResultGroup], prompts_of: Prompts) -> Section:
    """Return the section of a page that shows single queries: the data of all queries, and the texts around them.

    Args:
        results: Results, or groups of results, by the name of their run.
        prompts_of: Returns the prompts of a result by data set.

    Raises:
        ArgumentError: A run has two results of one benchmark.
    """
    benchmarks = by_benchmark(results)
    names = run_names(benchmarks)
    all_prompts = _PromptsOfResults(prompts_of)
    data = _QueryData()
    for run, benchmark, result in each_result(benchmarks):
        prompts_by_dataset = all_prompts.of(benchmark, result)
        for dataset, details in result.details.items():
            has_query_records = len(details.conditions) > 0
            if has_query_records:
                prompts = prompts_by_dataset.get(dataset, "the benchmark has no such data set")
                data.add(names.index(run), benchmark, dataset, details, prompts)
    shown = [
        element("p", _INTRODUCTION, class_="soft"),
        element("div", id="query-view"),
        element("noscript", element("p", "This part of the page needs JavaScript.")),
        element("script", _json_in_html(data.values(names)), type="application/json", id="query-data"),
    ]
    return Section("queries", "Queries", join(shown), "queries")


def _json_in_html(values: Mapping[str, Any]) -> Markup:
    r"""Return values as JSON that can be the content of an HTML element.

    In JSON, the letters ``<``, ``>`` and ``&`` occur only within texts. They are written as ``\u003c``, ``\u003e`` and
    ``\u0026``, so that no text of a data set, such as ``</script>``, can end the element or become markup.
    """
    text = json.dumps(values, separators=(",", ":"), allow_nan=False)
    for letter in "<>&":
        text = text.replace(letter, f"\\u{ord(letter):04x}")
    return Markup(text)


class _PromptsOfResults:
    """The prompts of results. Results with the same prompts share them, because writing prompts takes long.

    Args:
        prompts_of: Writes the prompts of a result.
    """

    def __init__(self, prompts_of: Prompts) -> None:
        self._prompts_of = prompts_of
        self._written: dict[tuple[object, ...], _Written] = {}
        """Prompts that were written already, by what results with the same prompts have in common."""

    def of(self, benchmark: str, result: Result) -> _Written:
        """Return the prompts of a result by data set, as texts, or the reason why a data set has none.

        Args:
            benchmark: The name of the benchmark.
            result: The result.
        """
        shared_by_equal_prompts: list[object] = [benchmark, *result.details]
        for details in result.details.values():
            shared_by_equal_prompts.append(details.query_digests)
            for record in details.conditions:
                shared_by_equal_prompts.append((record.rows, record.truth))
        key = tuple(shared_by_equal_prompts)
        written = self._written.get(key)
        # If an equal result has reasons instead of prompts, this result may still have them: they are tried again.
        has_all_prompts = written is not None and not any(isinstance(prompts, str) for prompts in written.values())
        if written is None or not has_all_prompts:
            written = self._prompts_of(result)
            self._written[key] = written
        return written


class _NumberedValues:
    """Different values, numbered from 0 in the order in which they are first asked for."""

    def __init__(self) -> None:
        self._numbers: dict[Any, int] = {}

    def number_of(self, value: object) -> int:
        """Return the number of a value; a new value gets the next one."""
        return self._numbers.setdefault(value, len(self._numbers))

    def values(self) -> list[Any]:
        """Return the values in the order of their numbers."""
        return list(self._numbers)


class _QueryData:
    """The queries of all runs, as the script of the page reads them.

    Texts are long and repeat, as runs have the same prompts, and prompts the same demonstrations. So each is stored
    once, and other places have its number.
    """

    def __init__(self) -> None:
        """Begin without any queries."""
        self._conditions = _NumberedValues()
        """The names of conditions."""
        self._part_texts = _NumberedValues()
        """The texts of the parts of prompts: instructions, demonstrations, questions."""
        self._prompts = _NumberedValues()
        """The prompts. A prompt is a tuple with the numbers of its parts in :attr:`_part_texts`."""
        self._datasets: dict[tuple[object, ...], dict[str, Any]] = {}
        """The entries of data sets in the page, by benchmark, name, label names and digest of the data."""

    def add(
        self,
        run: int,
        benchmark: str,
        dataset: str,
        details: DatasetDetails,
        prompts: Sequence[tuple[str, ...]] | str,
    ) -> None:
        """Add the queries of a run on a data set.

        Args:
            run: The number of the run.
            benchmark: The name of the benchmark.
            dataset: The name of the data set.
            details: The details of the data set, with the records of its queries.
            prompts: The prompt of each query, as the texts of its parts; or the reason why there are none.
        """
        reason = ""
        prompts_in_order: Iterator[tuple[str, ...]] = iter(())
        if isinstance(prompts, str):
            reason = prompts
        else:
            prompts_in_order = iter(prompts)

        labels = labels_of(details)
        entry = self._entry(benchmark, dataset, labels, details.data)
        queries_of_run: dict[int, tuple[object, ...]] = {}
        entry["runs"][run] = {"missing": reason, "queries": queries_of_run}
        reasons = _predictions_without_label(details)
        for record in details.conditions:
            condition = self._conditions.number_of(record.name)
            truth: Sequence[int] = record.truth
            if not has_true_labels(benchmark):
                truth = [_NO_LABEL] * len(record.truth)
            scores = _probabilities(record, len(labels))
            queries = zip(query_positions(record.rows), truth, record.predictions, scores, strict=True)
            for number, ((row, place_in_row), true_label, label, scores_of_query) in enumerate(queries):
                # Queries of several runs are the same query if they agree in these four.
                query_number = entry["queries"].number_of((condition, row, place_in_row, true_label))
                prediction = (_FAILED, "") if label is None else (label, "")
                prediction = reasons.get((record.name, number), prediction)
                prompt_number = self._number_of_prompt(next(prompts_in_order, ()))
                queries_of_run[query_number] = (*prediction, scores_of_query, prompt_number)

    def _entry(self, benchmark: str, dataset: str, labels: tuple[str, ...], data_digest: object) -> dict[str, Any]:
        """Return the entry of a data set in the page, which has its queries and the runs; a new one if there is none.

        Two runs share an entry if they agree in all arguments. A data set may have several entries, because runs have
        other label names or other data under the same name. ``copy`` numbers them from 0.
        """
        key = (benchmark, dataset, labels, data_digest)
        if key not in self._datasets:
            entries_with_this_name = [known for known in self._datasets if known[:2] == (benchmark, dataset)]
            self._datasets[key] = {
                "benchmark": benchmark,
                "dataset": dataset,
                "labels": labels,
                "copy": len(entries_with_this_name),
                "queries": _NumberedValues(),
                "runs": {},
            }
        return self._datasets[key]

    def _number_of_prompt(self, part_texts: tuple[str, ...]) -> int:
        """Return the number of a prompt, given the texts of its parts; :data:`_NO_PROMPT` if there are none."""
        if not part_texts:
            return _NO_PROMPT
        numbers_of_parts = tuple([self._part_texts.number_of(text) for text in part_texts])
        return self._prompts.number_of(numbers_of_parts)

    def values(self, names: Sequence[str]) -> dict[str, Any]:
        """Return the data as JSON values.

        Args:
            names: The names of the runs.
        """
        return {
            "runs": [valid_unicode(name) for name in names],
            "conditions": self._conditions.values(),
            "sets": [{**entry, "queries": entry["queries"].values()} for entry in self._datasets.values()],
            "parts": self._part_texts.values(),
            "prompts": self._prompts.values(),
        }


def _predictions_without_label(details: DatasetDetails) -> dict[tuple[str, int], tuple[int, str]]:
    """Return for each query without a predicted label a number in the place of the label, and the reason.

    Args:
        details: The details of a data set.

    Returns:
        The number, :data:`_FAILED` or :data:`_UNPARSED`, and the reason, by the condition of the query and its number
        within the condition.
    """
    predictions = {}
    for failed in details.failures:
        predictions[failed.condition, failed.query] = (_FAILED, failed.reason)
    for reply in details.unparsed:
        predictions[reply.condition, reply.query] = (_UNPARSED, reply.reason)
    return predictions


def _probabilities(record: ConditionRecord, n_labels: int) -> list[list[int] | None]:
    """Return the label probabilities of each query of a condition in units of 0.0001; ``None`` for one without them.

    Args:
        record: The record of the condition.
        n_labels: The number of labels.
    """
    try:
        rows = record.probabilities(n_labels)
    except SchemaError:  # damaged scores
        rows = [None] * len(record.predictions)
    rounded_rows: list[list[int] | None] = []
    for row in rows:
        if row is None:
            rounded_rows.append(None)
        else:
            rounded_rows.append([round(10000 * probability) for probability in row])
    return rounded_rows
