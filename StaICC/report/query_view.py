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
"""The prompts of a result by data set, each in its parts; or the reason why there are none."""


def query_section(results: Mapping[str, Result | ResultGroup], prompts_of: Prompts) -> Section:
    """Return the view of all queries, for :func:`~StaICC.report.page.write_report`.

    Args:
        results: Results, or groups of results, by the name of their run.
        prompts_of: Returns the prompts of a result.

    Raises:
        ArgumentError: A run has two results of one benchmark.
    """
    benchmarks = by_benchmark(results)
    names = run_names(benchmarks)
    data = _QueryData()
    prompts = _PromptsOfResults(prompts_of)
    for run, benchmark, result in each_result(benchmarks):
        written = prompts.of(benchmark, result)
        for dataset, details in result.details.items():
            if details.conditions:
                prompts_of_dataset = written.get(dataset, "the benchmark has no such data set")
                data.add(names.index(run), benchmark, dataset, details, prompts_of_dataset)
    text = json.dumps(data.values(names), separators=(",", ":"), allow_nan=False)
    for letter in "<>&":
        text = text.replace(letter, f"\\u{ord(letter):04x}")
    shown = [
        element("p", _INTRODUCTION, class_="soft"),
        element("div", id="query-view"),
        element("noscript", element("p", "This part of the page needs JavaScript.")),
        element("script", Markup(text), type="application/json", id="query-data"),
    ]
    return Section("queries", "Queries", join(shown), "queries")


class _PromptsOfResults:
    """Writes the prompts of results; those of results with the same prompts are written once."""

    def __init__(self, prompts_of: Prompts) -> None:
        self._prompts_of = prompts_of
        self._known: dict[tuple[object, ...], _Written] = {}

    def of(self, benchmark: str, result: Result) -> _Written:
        """Return the prompts of a result by data set."""
        key: tuple[object, ...] = (benchmark, *result.details)  # equal digests: equal prompts, in this order
        for details in result.details.values():
            key += (details.query_digests, *((record.rows, record.truth) for record in details.conditions))
        known = self._known.get(key)
        # If a data set has a reason instead of prompts, they may be found from the other result.
        if known is None or any(isinstance(texts, str) for texts in known.values()):
            self._known[key] = self._prompts_of(result)
        return self._known[key]


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
        # Names of conditions.
        self._conditions = _NumberedValues()
        # Texts of parts of prompts: demonstrations, inputs of queries.
        self._parts = _NumberedValues()
        # Prompts, each a tuple of the numbers of its parts.
        self._prompts = _NumberedValues()
        # The entries of data sets, by benchmark, data set, labels and digest of the data.
        self._sets: dict[tuple[object, ...], dict[str, Any]] = {}

    def add(
        self,
        run: int,
        benchmark: str,
        dataset: str,
        details: DatasetDetails,
        written: Sequence[tuple[str, ...]] | str,
    ) -> None:
        """Add the queries of a run on a data set.

        Args:
            run: The number of the run.
            benchmark: Name of the benchmark.
            dataset: The data set.
            details: Its queries.
            written: Its prompts, or the reason why there are none.
        """
        labels = labels_of(details)
        entry = self._entry(benchmark, dataset, labels, details.data)
        reason = ""
        prompts: Iterator[tuple[str, ...]] = iter(())
        if isinstance(written, str):
            reason = written
        else:
            prompts = iter(written)
        queries: dict[int, tuple[object, ...]] = {}
        entry["runs"][run] = {"missing": reason, "queries": queries}

        without_label = {(query.condition, query.query): (_FAILED, query.reason) for query in details.failures}
        for query in details.unparsed:
            without_label[query.condition, query.query] = (_UNPARSED, query.reason)
        for record in details.conditions:
            truths = record.truth
            if not has_true_labels(benchmark):
                truths = (_NO_LABEL,) * len(record.truth)
            records = zip(
                query_positions(record.rows),
                truths,
                record.predictions,
                _probabilities(record, len(labels)),
                strict=True,
            )
            for number, (position, truth, label, scores) in enumerate(records):
                asked_query = (self._conditions.number_of(record.name), *position, truth)
                query_number = entry["queries"].number_of(asked_query)
                predicted = (_FAILED if label is None else label, "")
                state = without_label.get((record.name, number), predicted)
                queries[query_number] = (*state, scores, self._prompt(next(prompts, ())))

    def _entry(self, benchmark: str, dataset: str, labels: tuple[str, ...], data: object) -> dict[str, Any]:
        """Return the entry of a data set, with its queries and runs; it is made when it is first asked for.

        Runs with other labels or other data under the same name have an entry of their own, which counts the earlier
        ones ("copy").
        """
        key = (benchmark, dataset, labels, data)
        if key not in self._sets:
            same_name = [known for known in self._sets if known[:2] == (benchmark, dataset)]
            self._sets[key] = {
                "benchmark": benchmark,
                "dataset": dataset,
                "labels": labels,
                "copy": len(same_name),
                "queries": _NumberedValues(),
                "runs": {},
            }
        return self._sets[key]

    def _prompt(self, texts: tuple[str, ...]) -> int:
        """Return the number of a prompt, from the texts of its parts."""
        parts = tuple(self._parts.number_of(text) for text in texts)
        if not parts:
            return _NO_PROMPT
        return self._prompts.number_of(parts)

    def values(self, names: Sequence[str]) -> dict[str, Any]:
        """Return the data as JSON values.

        Args:
            names: The names of the runs.
        """
        return {
            "runs": [valid_unicode(name) for name in names],
            "conditions": self._conditions.values(),
            "sets": [{**entry, "queries": entry["queries"].values()} for entry in self._sets.values()],
            "parts": self._parts.values(),
            "prompts": self._prompts.values(),
        }


def _probabilities(record: ConditionRecord, labels: int) -> list[list[int] | None]:
    """Return label probabilities in units of 0.0001; ``None`` for queries without them.

    Args:
        record: The record of a condition.
        labels: Number of labels.
    """
    try:
        rows = record.probabilities(labels)
    except SchemaError:  # damaged scores
        rows = [None] * len(record.predictions)
    units = []
    for row in rows:
        units.append(None if row is None else [round(10000 * value) for value in row])
    return units
