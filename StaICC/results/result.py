"""Results: dictionaries with the documented keys, whose attributes hold everything else.

``result["Divided results"]["TREC"]["accuracy"]`` and ``result["Averaged results"]`` work as they do in 0.1.1. A result
also has the signature, the provenance, the environment, and for each data set counts, intervals, baselines and notes.
Results print as a table, and go to and from JSON with a schema number.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Literal, NoReturn, get_args

from StaICC import habits
from StaICC.arguments import known_name
from StaICC.benchmark_names import class_name
from StaICC.datasets.catalogue import plain_values
from StaICC.errors import ArgumentError, SchemaError, unknown_key
from StaICC.files.json_reading import hints_of, read_value
from StaICC.layout import Block, Displayed, Line, shared_lines
from StaICC.optional import require
from StaICC.registry import import_reference
from StaICC.results.details import DatasetDetails, EarlyStopping, LoggedSamples, MeanDetails, QueryScores
from StaICC.results.files import (
    AVERAGED,
    DIVIDED,
    check_schema,
    digest_problems,
    read_result_file,
    write_result_file,
)
from StaICC.results.predictor import Provenance
from StaICC.results.query_records import QueryRecords, WrittenPrompts, records_of_queries
from StaICC.results.saved_scores import check_scores
from StaICC.results.score_records import queries_left_out, records_of_scores, score_records
from StaICC.results.signature import Signature
from StaICC.results.table import result_blocks
from StaICC.safe_text import logger, valid_unicode
from StaICC.version import RESULT_SCHEMA

_log = logger(__name__)


_PLOTTER = "StaICC.report.figure_kinds:figure_of"
"""Draws a result, loaded by name: results know no figures."""


Level = Literal["score", "query"]
"""What a row of a data frame is."""
Prompts = Callable[["Result"], WrittenPrompts]
"""Returns the prompts of a result."""


class _Saved(Displayed, dict[str, Any]):
    """A result, or a group of results."""

    __slots__ = ()

    if not TYPE_CHECKING:  # a type checker would believe that there are all attributes

        def __getattr__(self, name: str) -> NoReturn:
            """Raise the error about an unknown attribute, which says how a score of this name is read."""
            habits.raise_hidden_error(self, name)
            advice = habits.OF_RESULTS.get(name)
            averaged = self.get(AVERAGED)
            if isinstance(averaged, Mapping) and name in averaged:
                advice = habits.advice_on_score(name)
            raise habits.missing_attribute(self, name, advice)

    def results(self) -> Iterator[Result]:
        """Yield every single result."""
        raise NotImplementedError

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values, with the schema number."""
        raise NotImplementedError

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything as one JSON file, completely or not at all."""
        write_result_file(self.to_dict(), path)

    def queries(self, prompts: Prompts | None = None) -> QueryRecords:
        """Return every query with its prediction, in the order of the run. A notebook shows them as a table.

        Texts with several labels (LongICL) have no such records; a warning in the log says so.

        Args:
            prompts: Writes the prompts, which results do not contain, such as
                :func:`StaICC.written_prompts`.

        Raises:
            SchemaError: The label scores of a saved result are damaged.

        Example:
            >>> from StaICC import Normal
            >>> result = Normal(datasets=["mini"], limit=4)(lambda prompt, label_space: [0.5, 0.3, 0.2])
            >>> query = result.queries()[0]
            >>> query.row, query.prediction_label, query.scores
            (0, 'food', (0.5, 0.3, 0.2))
        """
        queries = QueryRecords()
        for single in self.results():
            written = _written_prompts(single, prompts)
            queries.extend(records_of_queries(single, written))
        return queries

    def _table(self, level: Level, prompts: Prompts | None) -> list[dict[str, Any]]:
        """Return the rows of a data frame, each as a dictionary from column names to values.

        Args:
            level: Whether a row is a score or a query.
            prompts: Writes the prompts of queries, which are one of their columns; ``None`` for queries without them.
        """
        known_name("level", level, get_args(Level))
        if level == "score":
            records = list(score_records(self))
        else:
            records = [plain_values(query) for query in self.queries(prompts)]

        rows = []
        for record in records:
            rows.append({column: valid_unicode(value) for column, value in record.items()})
        return rows

    def to_pandas(self, level: Level = "score", prompts: Prompts | None = None) -> Any:
        """Return a tidy ``pandas.DataFrame``: a row for each score, or for each query.

        Args:
            level: ``"score"`` for the columns of :func:`score_records`, ``"query"`` for those of records of queries.
            prompts: As for :meth:`queries`.

        Raises:
            MissingDependencyError: pandas is not installed.
        """
        pandas = require("pandas", extra="data", feature="a data frame")
        return pandas.DataFrame(self._table(level, prompts))

    def to_polars(self, level: Level = "score", prompts: Prompts | None = None) -> Any:
        """Return a tidy ``polars.DataFrame``, as :meth:`to_pandas`.

        Raises:
            MissingDependencyError: polars is not installed.
        """
        polars = require("polars", extra="data", feature="a data frame of polars")
        return polars.DataFrame(self._table(level, prompts), infer_schema_length=None)

    def plot(self, kind: str = "forest", **options: Any) -> Any:
        """Return a figure as matplotlib axes, or as a list of axes if it has several panels (as ``plt.subplots`` does).

        ``result.plot().figure.savefig("forest.pdf")`` saves it.

        Args:
            kind: A name in :data:`StaICC.report.figure_kinds.KINDS`, such as ``"forest"``, ``"reliability"``,
                ``"confusion"``, ``"bias"``, ``"noise"``, ``"variance"``, ``"rounds"``, ``"experiment"``, ``"cost"``.
            **options: Further arguments of the figure, such as ``metric`` of ``"forest"``.

        Raises:
            ArgumentError: The result has not what the figure needs; the message says what.
            MissingDependencyError: Matplotlib is not installed.
            UnknownNameError: There is no such figure.
        """
        figure_of = import_reference(_PLOTTER)
        axes: list[Any] = figure_of(self, kind, **options).axes()
        if len(axes) == 1:
            return axes[0]
        return axes


def _written_prompts(result: Result, prompts: Prompts | None) -> WrittenPrompts:
    """Return the prompts of a result, with a warning in the log for each data set without any."""
    if prompts is None:
        return {}
    if not callable(prompts):
        raise ArgumentError(f"prompts: got {prompts!r:.80}, expected a function: StaICC.written_prompts")
    written = prompts(result)
    for dataset in result.details:
        # A text in the place of the prompts is the reason why there are none.
        reason = written.get(dataset)
        if isinstance(reason, str):
            _log.warning("%s, %s: no prompts: %s", result.benchmark, dataset, reason)
    return written


class _Named(dict[str, Any]):
    """A dictionary whose error for an unknown key says what the keys name, such as ``"score"``."""

    def __init__(self, kind: str, values: Mapping[str, Any]) -> None:
        super().__init__(values)
        self.kind = kind

    def __missing__(self, key: object) -> NoReturn:
        raise unknown_key(self.kind, key, self)


@dataclass(kw_only=True, eq=False, repr=False, slots=True)
class Result(_Saved):
    """The result of one benchmark: a dictionary with the scores, and attributes."""

    benchmark: str
    """Its name, such as ``"Normal"``."""
    signature: Signature
    """Every setting that can change these scores."""
    provenance: Provenance = field(default_factory=Provenance)
    """Who predicted, how and when."""
    environment: dict[str, str] = field(default_factory=dict)
    """Versions and machine that computed them."""
    timing: dict[str, float] = field(default_factory=dict)
    """Seconds by step, which differ from run to run; not compared."""
    divided: dict[str, dict[str, Any]]
    """Scores by data set."""
    averaged: dict[str, float | None]
    """Means over the data sets; ``None`` where one is missing."""
    with_divided: bool = True
    """Whether :data:`DIVIDED` is among the keys."""
    details: dict[str, DatasetDetails] = field(default_factory=dict)
    """Counts, intervals, baselines and notes by data set."""
    means: MeanDetails = field(default_factory=MeanDetails)
    """Intervals and baselines of the means over the data sets."""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    """The arguments of the benchmark as JSON values, for verification."""
    warnings: tuple[str, ...] = ()
    """Warnings about data, prompts and predictions (docs/warnings.md)."""
    files: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    """How to read each data set from a user's file again (:meth:`StaICC.datasets.dataset.Dataset.file_record`)."""
    stopping: EarlyStopping | None = None
    """Why and where the run stopped early; ``None`` for a full run."""
    higher_is_better: dict[str, bool | None] = field(default_factory=dict)
    """For each metric that is not of this library, whether larger values are better; ``None`` if it does not say."""
    query_scores: dict[str, QueryScores] = field(default_factory=dict)
    """For each metric that is not of this library, the scores of the queries if it states them."""
    samples: dict[str, LoggedSamples] = field(default_factory=dict)
    """The samples by data set, if the result was read from the logs of another harness (:func:`StaICC.read_logs`)."""
    outputs: Mapping[str, Any] | None = None
    """Records of each query by data set, if the run kept them (``return_outputs=True``); saved separately."""

    def __post_init__(self) -> None:
        """Fill the dictionary, whose entries are those of StaICC 0.1.1, from the attributes.

        The scores become dictionaries whose KeyError names the known keys, such as the names of the data sets.
        """
        scores_by_dataset = {}
        for dataset, scores in self.divided.items():
            scores_by_dataset[dataset] = _Named("score", scores)
        self.divided = _Named("data set in this result", scores_by_dataset)
        self.averaged = _Named("score", self.averaged)

        if self.with_divided:
            self[DIVIDED] = self.divided
        self[AVERAGED] = self.averaged

    def __missing__(self, key: object) -> NoReturn:
        """Raise the error about an unknown key, which says where a score or a data set of this name is."""
        # Entries that a user added are not searched: they may hold anything.
        entry_with_key = ""
        if AVERAGED in self and key in self.averaged:
            entry_with_key = AVERAGED
        if DIVIDED in self and key in self.divided:
            entry_with_key = DIVIDED
        if entry_with_key:
            hint = f'Use result["{entry_with_key}"][{key!r}].'
        else:
            hint = f"The data sets of this result are {', '.join(self.divided)}."
        raise unknown_key("entry of a result", key, self, hint)

    @property
    def model(self) -> str:
        """The models by name and short identity, in one line."""
        return self.provenance.label

    @property
    def method(self) -> str:
        """The inference method with variant and options; ``"vanilla"`` for the predictions of a function itself."""
        return self.provenance.method or "vanilla"

    @property
    def complete(self) -> bool:
        """Whether every query has a prediction."""
        return all(not details.failed for details in self.details.values())

    def setting(self, name: str) -> Any:
        """Return an argument of the benchmark; ``None`` if it differs between data sets, or if there is none.

        The arguments have an entry ``changed`` with the names of those that were changed for single data sets.
        """
        changed_arguments = self.arguments.get("changed")
        if isinstance(changed_arguments, (list, tuple)) and name in changed_arguments:
            return None
        return self.arguments.get(name)

    def counted_wrong(self, dataset: str) -> set[tuple[str, int]]:
        """Return the queries of a data set whose reply has no label and counts as wrong, as (condition, number) pairs.

        It is empty if the run has another rule for replies without a label (the argument ``unparsed``).
        """
        if self.setting("unparsed") != "wrong":
            return set()
        return {(reply.condition, reply.query) for reply in self.details[dataset].unparsed}

    def left_out_of(self, metric: str, dataset: str | None = None) -> int:
        """Return the number of queries that a score leaves out: failed ones, and replies without a label.

        Args:
            metric: The score.
            dataset: A data set; by default, all of those that the mean is over.
        """
        return queries_left_out(self, metric, dataset)

    def results(self) -> Iterator[Result]:
        """Yield the result itself, as a group yields each of its results."""
        yield self

    def score_records(self) -> Iterator[dict[str, Any]]:
        """Yield one record for each score, as :func:`score_records` has them."""
        return records_of_scores(self)

    def reproducible(self) -> dict[str, Any]:
        """Return the JSON values that two runs of the same settings share.

        The keys of :data:`NOT_REPRODUCIBLE` are left out, and so are the times and counts of the provenance.
        """
        values = {}
        for key, value in self.to_dict().items():
            if key not in NOT_REPRODUCIBLE:
                values[key] = value
        values["provenance"] = self.provenance.reproducible().to_dict()
        return values

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Result):
            return self.reproducible() == other.reproducible()
        return dict.__eq__(self, other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def display_blocks(self) -> list[Block]:
        """Return the table with its remarks, model and signature, then the warnings."""
        return result_blocks(self)

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values, with the schema number."""
        saved: dict[str, Any] = {"schema": RESULT_SCHEMA, "kind": "result"}
        for attribute, key in KEYS.items():
            value = plain_values(getattr(self, attribute))
            if value or key not in OPTIONAL_KEYS:
                saved[key] = value
        saved["signature"] = self.signature.to_dict()
        return saved

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Result:
        """Read what :meth:`to_dict` wrote.

        Raises:
            SchemaError: The data is damaged or of a newer schema.
        """
        check_schema(data, "result")
        attributes = _read_attributes(data)
        for dataset, scores in attributes["divided"].items():
            check_scores(scores, f"the scores of {dataset:.60}")
        if set(attributes["details"]) != set(attributes["divided"]):
            raise SchemaError("the scores and the details are not of the same data sets")
        if "samples" in attributes and set(attributes["samples"]) != set(attributes["details"]):
            raise SchemaError("the samples and the details are not of the same data sets")
        stopped_early = "stopping" in attributes
        signature_says_stopped = "stopping" in attributes["signature"]
        if stopped_early != signature_says_stopped:
            raise SchemaError("the signature and the record of early stopping are not of the same run")
        attributes["signature"] = Signature(attributes["signature"])
        return cls(**attributes)


NOT_REPRODUCIBLE = ("timing", "with_divided", "warnings", "arguments")
"""Keys of a file that may differ between two runs of the same settings: the seconds, whether the scores by data set are
an entry of the dictionary, the warnings (of the version that ran), and how the arguments were given."""

KEYS = {attribute.name: attribute.name for attribute in fields(Result) if attribute.name != "outputs"}
KEYS |= {"divided": DIVIDED, "averaged": AVERAGED}
"""The key of each attribute in a file."""
OPTIONAL_KEYS = ("warnings", "files", "stopping", "higher_is_better", "query_scores", "samples")
"""Keys that a file has only where they have a value."""
SAVED_TYPES = {**hints_of(Result), "signature": Mapping[str, str], "stopping": EarlyStopping}
"""The type of each attribute in a file."""


def _read_attributes(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the attributes of a saved result by name; the signature as its fields."""
    attributes = {}
    for attribute, key in KEYS.items():
        if key in data:
            attributes[attribute] = read_value(SAVED_TYPES[attribute], data[key], f"the result's {key}")
        elif key not in OPTIONAL_KEYS:
            raise SchemaError(f"the result cannot be read: the field {key!r} is missing")
    return attributes


class ResultGroup(_Saved):
    """Results of several benchmarks that ran together, by name.

    Args:
        name: Name of the group, such as ``"Suite"``.
        parts: The results (or groups) by name.
    """

    __slots__ = ("name",)

    def __init__(self, name: str, parts: Mapping[str, Result | ResultGroup]) -> None:
        super().__init__(parts)
        self.name = name

    if TYPE_CHECKING:
        # The type of a part is a result: it is a group itself only where groups are run by several methods.
        def __getitem__(self, name: str, /) -> Result: ...

    def __missing__(self, key: object) -> NoReturn:
        raise unknown_key("part", key, self)

    @property
    def complete(self) -> bool:
        """Whether every query of every part has a prediction."""
        return all(part.complete for part in self.values())

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings about data, prompts and predictions of all parts, each once."""
        warnings: dict[str, None] = {}
        for part in self.values():
            warnings.update(dict.fromkeys(part.warnings))
        return tuple(warnings)

    @property
    def signature(self) -> dict[str, Any]:
        """The signatures of the parts, by name."""
        return {name: part.signature for name, part in self.items()}

    def results(self) -> Iterator[Result]:
        """Yield every single result of the group."""
        for part in self.values():
            yield from part.results()

    def display_blocks(self) -> list[Block]:
        """Return the tables with their remarks, signatures and warnings; lines that several have come last."""
        results = list(self.results())
        groups, shared = shared_lines(
            [result_blocks(result) for result in results],
            names=[class_name(result.benchmark) for result in results],
        )
        blocks: list[Block] = []
        for group in groups:
            if blocks:
                blocks.append(Line(""))
            blocks.extend(group)
        if shared:
            blocks.append(Line(""))
            blocks.extend(shared)
        return blocks

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values, with the schema number."""
        parts = {name: part.to_dict() for name, part in self.items()}
        return {"schema": RESULT_SCHEMA, "kind": "group", "name": self.name, "parts": parts}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> ResultGroup:
        """Read what :meth:`to_dict` wrote.

        Raises:
            SchemaError: The data is damaged or of a newer schema.
        """
        check_schema(data, "group")
        saved_parts = read_value(Mapping[str, object], data.get("parts"), "the group's parts")
        name = read_value(str, data.get("name"), "the group's name")
        parts = {}
        for part_name, saved in saved_parts.items():
            parts[part_name] = result_from_dict(saved, f"part {part_name:.60}")
        return cls(name, parts)


def load(path: str | os.PathLike[str]) -> Result | ResultGroup:
    """Read a saved result.

    A file that was changed after it was written is read with a warning in the log;
    :func:`StaICC.benchmarks.verify.verify_file` names what is wrong with it.

    Args:
        path: A file of :meth:`Result.save` or :meth:`ResultGroup.save`.

    Returns:
        The result, equal to the one that was saved.

    Raises:
        SchemaError: The file is not a saved result, is damaged, or has a newer schema.
        OSError: The file cannot be read.
    """
    data = read_result_file(path)
    result = result_from_dict(data, os.fspath(path))
    if digest_problems(data):
        _log.warning(
            "%s: the file was changed after it was written; python -m StaICC verify says what is wrong with it", path
        )
    return result


def result_from_dict(data: Any, where: str) -> Result | ResultGroup:
    """Read the JSON values of a saved result or of a saved group.

    Args:
        data: The values.
        where: What to name in errors, such as the path.

    Returns:
        The result.

    Raises:
        SchemaError: The values are not a saved result, are damaged, or have a newer schema.
    """
    try:
        check_schema(data, "result", "group")
        if data["kind"] == "group":
            return ResultGroup.from_dict(data)
        return Result.from_dict(data)
    except SchemaError as error:
        raise SchemaError(f"{where}: {error}") from error
