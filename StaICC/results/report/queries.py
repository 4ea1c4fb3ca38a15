"""A view of single queries for a report: prompt, label probabilities, true label and predictions of each run.

The view is a list with filters, which a script fills from data in the page. The data are JSON in ASCII without ``<``,
``>`` and ``&``, and the script writes them as text only, so texts of data sets cannot become markup. Texts are hidden
until the reader chooses to see them: some data sets contain offensive ones.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from StaICC.errors import StaICCError
from StaICC.results.details import ConditionRecord, DatasetDetails
from StaICC.results.paired_records import probabilities_of, query_keys
from StaICC.results.report.figures import labels_of
from StaICC.results.report.html import Markup, element, join
from StaICC.results.report.page import Section, run_names
from StaICC.results.result import Result, ResultGroup
from StaICC.results.runs import by_benchmark

Prompts = Callable[[Result], Mapping[str, Sequence[tuple[str, ...]] | str]]
"""Returns the prompts of a result by data set, in the order of its queries: each as instruction, demonstrations and
query. A text is the reason why a data set has none."""

_FAILED, _UNPARSED, _NOT_RUN = -2, -3, -4
_INTRODUCTION = (
    "Every query of the runs, with its predictions. Prompts are written again from the data, and shown only if they "
    "have the digests of the run. Some data sets contain offensive texts, so all texts are hidden until you choose to "
    "see them. The address of this page follows the filters and the selected query: copy it as a link."
)


def query_section(results: Mapping[str, Result | ResultGroup], prompts_of: Prompts) -> Section:
    """Return the view of all queries, for :func:`~StaICC.results.report.page.write_report`.

    Args:
        results: Results, or groups of results, by the name of their run.
        prompts_of: Returns the prompts of a result.

    Raises:
        ArgumentError: A run has two results of one benchmark.
    """
    benchmarks = by_benchmark(results)
    names = run_names(benchmarks)
    view = _View(prompts_of)
    for benchmark, runs in benchmarks.items():
        for name, result in runs.items():
            view.add(names.index(name), benchmark, result)
    values = {
        "runs": [name.encode("utf-8", "backslashreplace").decode() for name in names],  # links hold no lone surrogate
        "conditions": list(view.conditions),
        "sets": [one.values for one in view.sets],
        "parts": list(view.parts),
        "prompts": list(view.prompts),
    }
    text = json.dumps(values, separators=(",", ":"), allow_nan=False)
    for letter in "<>&":
        text = text.replace(letter, f"\\u{ord(letter):04x}")
    content = join(
        [
            element("p", _INTRODUCTION, class_="soft"),
            element("noscript", element("p", "This part of the page needs JavaScript.")),
            element("div", id="query-view"),
            element("script", Markup(text), type="application/json", id="query-data"),
        ]
    )
    return Section("queries", "Queries", content, "queries")


class _Set:
    """The queries of one data set in one benchmark, from all runs."""

    def __init__(self, benchmark: str, dataset: str, labels: Sequence[str], copy: int) -> None:
        self.places: dict[tuple[int, int, int], int] = {}
        """By condition, test row, and place among the queries of this row."""
        self.columns: dict[str, list[int]] = {"condition": [], "row": [], "nth": [], "truth": []}
        self.values: dict[str, Any] = {"benchmark": benchmark, "dataset": dataset, "labels": labels, "copy": copy}
        self.values |= self.columns | {"runs": {}}

    def fits(self, queries: Sequence[tuple[int, int, int, int]]) -> bool:
        """Return whether the true labels agree."""
        known = self.columns["truth"]
        places = ((self.places.get(query[:3]), query[3]) for query in queries)
        return all(place is None or known[place] == truth for place, truth in places)

    def place(self, query: tuple[int, int, int, int]) -> int:
        """Return the position of a query; a new one is added."""
        if query[:3] not in self.places:
            self.places[query[:3]] = len(self.places)
            for column, value in zip(self.columns.values(), query, strict=True):
                column.append(value)
        return self.places[query[:3]]


class _View:
    def __init__(self, prompts_of: Prompts) -> None:
        self.prompts_of = prompts_of
        self.conditions: dict[str, int] = {}
        self.parts: dict[str, int] = {}
        self.prompts: dict[tuple[int, ...], int] = {}
        self.sets: list[_Set] = []
        self.known: dict[tuple[object, ...], list[_Set]] = {}
        self.written: dict[tuple[object, ...], list[int] | str] = {}

    def add(self, run: int, benchmark: str, result: Result) -> None:
        """Add the queries of a result."""
        found: Mapping[str, Sequence[tuple[str, ...]] | str] | None = None
        for dataset, details in result.details.items():
            if not details.conditions:
                continue
            # Equal digests are equal prompts, in the order of the records.
            records = tuple((record.rows, record.truth) for record in details.conditions)
            mark = (benchmark, dataset, details.prompts, details.query_digests, records)
            if isinstance(self.written.get(mark, ""), str):  # not written yet, or not from the other result
                found = self.prompts_of(result) if found is None else found
                prompts = found.get(dataset, "the benchmark has no such data set")
                self.written[mark] = prompts if isinstance(prompts, str) else list(map(self._number, prompts))
            self._add(run, benchmark, dataset, details, self.written[mark])

    def _number(self, prompt: tuple[str, ...]) -> int:
        parts = tuple(self.parts.setdefault(part, len(self.parts)) for part in prompt)
        return self.prompts.setdefault(parts, len(self.prompts))

    def _add(self, run: int, benchmark: str, dataset: str, details: DatasetDetails, prompts: list[int] | str) -> None:
        labels = labels_of(details)
        # Empty and random queries have the label of a test row, which is not theirs.
        labelled = benchmark not in ("Contextual_bias", "Domain_bias")
        queries = [
            (self.conditions.setdefault(record.name, len(self.conditions)), *key, truth if labelled else -1)
            for record in details.conditions
            for key, truth in zip(query_keys(record.rows), record.truth, strict=True)
        ]
        same = self.known.setdefault((benchmark, dataset, details.labels, details.data), [])
        own = next((one for one in same if one.fits(queries)), None)
        if own is None:
            copy = sum((one.values["benchmark"], one.values["dataset"]) == (benchmark, dataset) for one in self.sets)
            own = _Set(benchmark, dataset, labels, copy)
            same.append(own)
            self.sets.append(own)
        own.values["labels"] = max(own.values["labels"], labels, key=len)  # without names, as many as were seen
        places = [own.place(query) for query in queries]
        missing = {(one.condition, one.query): (_FAILED, one.reason) for one in details.failures}
        missing |= {(one.condition, one.query): (_UNPARSED, one.reason) for one in details.unparsed}
        predictions = [_NOT_RUN] * len(own.places)
        reasons: dict[int, str] = {}
        scores: list[list[int] | None] = [None] * len(own.places)
        shown = [-1] * len(own.places)
        if not isinstance(prompts, str):
            for place, prompt in zip(places, prompts, strict=True):
                shown[place] = prompt
        following = iter(places)
        for record in details.conditions:
            rows = _scores(record, len(labels))
            for query, (label, place) in enumerate(zip(record.predictions, following, strict=False)):
                state = _FAILED if label is None else label
                predictions[place], reason = missing.get((record.name, query), (state, ""))
                scores[place] = rows[query]
                reasons |= {place: reason} if reason else {}
        own.values["runs"][run] = {
            "predictions": predictions,
            "scores": scores if any(scores) else None,
            "prompts": None if isinstance(prompts, str) else shown,
            "missing": prompts if isinstance(prompts, str) else "",
            "reasons": reasons,
        }


def _scores(record: ConditionRecord, width: int) -> list[list[int] | None]:
    """Return label probabilities in units of 0.0001; ``None`` for queries without them."""
    if record.output in ("probabilities", "logits"):
        try:
            rows = probabilities_of(record, width)
        except StaICCError:  # a file without its label scores
            rows = []
        if rows:
            return [None if row is None else [round(10000 * value) for value in row] for row in rows]
    return [None] * len(record.predictions)
