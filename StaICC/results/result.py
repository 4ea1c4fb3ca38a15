"""Results: dictionaries with the documented keys, whose attributes hold everything else.

``result["Divided results"]["TREC"]["accuracy"]`` and ``result["Averaged results"]`` work as they do in 0.1.1. A result
also has the signature, the provenance, the environment, and for each data set counts, intervals, baselines and notes.
Results print as a table, and go to and from JSON with a schema number.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Literal, NoReturn, get_args

from StaICC import benchmark_names
from StaICC.arguments import known_name
from StaICC.datasets.catalogue import plain_values
from StaICC.errors import ArgumentError, SchemaError, unknown_key
from StaICC.files.json_reading import hints_of, read_value
from StaICC.files.output import write_output
from StaICC.layout import Block, Displayed, Line, shared_lines
from StaICC.metrics.scores import BASELINE_KEYS, SCORES
from StaICC.optional import require
from StaICC.registry import import_reference
from StaICC.results.above_chance import strongest_not_beaten, verdicts_of
from StaICC.results.details import (
    Baselines,
    DatasetDetails,
    EarlyStopping,
    MeanDetails,
    QueryScores,
    query_positions,
)
from StaICC.results.files import (
    AVERAGED,
    DIVIDED,
    check_schema,
    digest_problems,
    json_row,
    read_result_file,
    write_result_file,
)
from StaICC.results.left_out import with_marks
from StaICC.results.predictor import Provenance
from StaICC.results.signature import Signature
from StaICC.results.table import result_blocks
from StaICC.safe_text import logger, utf8, valid_unicode
from StaICC.version import RESULT_SCHEMA

_log = logger(__name__)


_ROUND = re.compile(r"[0-9]+R")

_PLOTTER = "StaICC.report.figures:figure_of"
"""Draws a result, loaded by name: results know no figures."""


@dataclass(frozen=True, slots=True)
class _Experiment:
    """The score ``experiment`` of LongICL in a file."""

    name: str
    conditions: Mapping[str, Mapping[str, float | None]]
    p_value: float | None = None
    compared: Mapping[str, str] | None = None


_ITEM = tuple[int, int | None, int | None, int | None]
_ROUND_TYPES: Mapping[str, Any] = {"answered": int, "unparsed": int, "items": tuple[_ITEM, ...]}
"""Types of what comparisons and tables read of a round of LongICL."""
_SCORE_TYPES: Mapping[str, Any] = {
    **dict.fromkeys((*SCORES, "mean", *BASELINE_KEYS), float | None),
    "sensitivity": Mapping[str, tuple[float, float] | float | None],  # the slope and intercept of a regression line
    "distribution": tuple[float, ...] | None,
    "settings": Mapping[str, object],
    "rounds": Mapping[str, Mapping[str, object]],
    "experiment": _Experiment,
}
"""Types of the scores of the library's own benchmarks; a benchmark of a user may report anything under other names."""


def _check_scores(scores: Mapping[str, Any], where: str, nested: bool = True) -> None:
    """Refuse scores that have another type than this library writes, before anything reads their values."""
    for key, value in scores.items():
        place, kind = f"{where}, {key:.60}", _SCORE_TYPES.get(key, object)
        read_value(float | None if _ROUND.fullmatch(key) else kind, value, place)
        for name, own in value.items() if key == "rounds" else ():
            for count in own.keys() & _ROUND_TYPES:
                read_value(_ROUND_TYPES[count], own[count], f"{place}, {name:.60}, {count}")
        if nested and kind is object and isinstance(value, Mapping):
            _check_scores(value, place, nested=False)


@dataclass(frozen=True, slots=True)
class QueryRecord:
    """A query of a result with its prediction. Labels are indexes, and names where the result has them."""

    benchmark: str
    model: str
    method: str
    dataset: str
    condition: str
    query: int
    """Number within the condition."""
    row: int
    """Test row."""
    repeat: int
    """Number among the queries of this row in the condition."""
    ground_truth: int
    prediction: int | None
    """``None`` without a prediction; ``reason`` says why."""
    correct: bool | None
    """As the accuracy counts it: a reply without a label may count as wrong; ``None`` if it is left out."""
    ground_truth_label: str | None
    prediction_label: str | None
    scores: tuple[float, ...] | None
    """One number for each label, as the inference function returned them; ``None`` for predicted labels and texts."""
    probabilities: tuple[float, ...] | None
    """The scores as the metrics read them; ``None`` also for scores that may be probabilities or logits."""
    reply: str | None
    """The generated text, if the run kept it (``return_outputs=True``); results do not save it."""
    finish_reason: str | None
    """How the reply ended: ``"stop"`` or ``"length"``, if known."""
    reason: str | None
    """Why the query has no prediction: the error, or the beginning of a reply without a label."""
    prompt: str | None
    """The prompt, if it was requested and can be written; of the noisy channel that of the first label."""
    demonstrations: tuple[str, ...] | None
    """The parts of the prompt that are demonstrations."""
    signature: str


Level = Literal["score", "query"]
"""What a row of a data frame is."""
Prompts = Callable[["Result"], Mapping[str, Sequence[tuple[str, ...]] | str]]
"""Returns the prompts of a result by data set, in the order of its queries: each as instruction, demonstrations and
query. A text is the reason why a data set has none."""


class _Saved(Displayed, dict[str, Any]):
    """A result, or a group of results."""

    __slots__ = ()

    def results(self) -> Iterator[Result]:
        """Yield every single result."""
        raise NotImplementedError

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values, with the schema number."""
        raise NotImplementedError

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything as one JSON file, completely or not at all."""
        write_result_file(self.to_dict(), path)

    def queries(self, prompts: Prompts | None = None) -> list[QueryRecord]:
        """Return every query with its prediction, in the order of the run.

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
        return [query for single in self.results() for query in _queries(single, prompts)]

    def _table(self, level: Level, prompts: Prompts | None) -> list[dict[str, Any]]:
        if known_name("level", level, get_args(Level)) == "score":
            rows = list(score_records(self))
        else:
            rows = [plain_values(query) for query in self.queries(prompts)]
        return [{column: valid_unicode(value) for column, value in row.items()} for row in rows]

    def to_pandas(self, level: Level = "score", prompts: Prompts | None = None) -> Any:
        """Return a tidy ``pandas.DataFrame``: a row for each score, or for each query.

        Args:
            level: ``"score"`` for the columns of :func:`score_records`, ``"query"`` for those of :class:`QueryRecord`.
            prompts: As for :meth:`queries`.

        Raises:
            MissingDependencyError: pandas is not installed.
        """
        return require("pandas", "data", "a data frame").DataFrame(self._table(level, prompts))

    def to_polars(self, level: Level = "score", prompts: Prompts | None = None) -> Any:
        """Return a tidy ``polars.DataFrame``, as :meth:`to_pandas`.

        Raises:
            MissingDependencyError: polars is not installed.
        """
        polars = require("polars", "data", "a data frame of polars")
        return polars.DataFrame(self._table(level, prompts), infer_schema_length=None)

    def plot(self, kind: str = "forest", **options: Any) -> Any:
        """Return a figure as matplotlib axes, or as a list of axes if it has several panels (as ``plt.subplots`` does).

        ``result.plot().figure.savefig("forest.pdf")`` saves it.

        Args:
            kind: A name in :data:`StaICC.report.figures.KINDS`, such as ``"forest"``, ``"reliability"``,
                ``"confusion"``, ``"bias"``, ``"noise"``, ``"variance"``, ``"rounds"``, ``"experiment"``, ``"cost"``.
            **options: Further arguments of the figure, such as ``metric`` of ``"forest"``.

        Raises:
            ArgumentError: The result has not what the figure needs; the message says what.
            MissingDependencyError: Matplotlib is not installed.
            UnknownNameError: There is no such figure.
        """
        axes: list[Any] = import_reference(_PLOTTER)(self, kind, **options).axes()
        return axes[0] if len(axes) == 1 else axes


class _Named(dict[str, Any]):
    """A dictionary whose error for an unknown key says what its keys are."""

    def __init__(self, keys: str, values: Mapping[str, Any]) -> None:
        super().__init__(values)
        self.keys_are = keys

    def __missing__(self, key: object) -> NoReturn:
        raise unknown_key(self.keys_are, key, self)


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
    outputs: Mapping[str, Any] | None = None
    """Records of each query by data set, if the run kept them (``return_outputs=True``); saved separately."""

    def __post_init__(self) -> None:
        self.divided = _Named(
            "data set in this result", {name: _Named("score", values) for name, values in self.divided.items()}
        )
        self.averaged = _Named("score", self.averaged)
        self.update({DIVIDED: self.divided} if self.with_divided else {}, **{AVERAGED: self.averaged})

    def __missing__(self, key: object) -> NoReturn:
        # Not self.items(): an entry that a user added may hold anything.
        own: dict[str, dict[str, Any]] = {DIVIDED: self.divided, AVERAGED: self.averaged}
        entry = next((name for name, values in own.items() if name in self and key in values), "")
        raise unknown_key("entry of a result", key, self, entry)

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
        """Return an argument of the benchmark; ``None`` if it differs between data sets."""
        changed = self.arguments.get("changed")
        return None if isinstance(changed, (list, tuple)) and name in changed else self.arguments.get(name)

    def counted_wrong(self, dataset: str) -> set[tuple[str, int]]:
        """Return condition and number of each query of a data set whose reply has no label and counts as wrong."""
        replies = self.details[dataset].unparsed if self.setting("unparsed") == "wrong" else ()
        return {(reply.condition, reply.query) for reply in replies}

    def left_out_of(self, metric: str, dataset: str | None = None) -> int:
        """Return the number of queries that a score leaves out: failed ones, and replies without a label.

        Args:
            metric: The score.
            dataset: A data set; by default, all of those that the mean is over.
        """
        if metric in BASELINE_KEYS:
            return 0
        names = list(self.details) if dataset is None else [dataset]
        return sum(_asked(self, name, metric) - _scored(self, name, metric) for name in names)

    def results(self) -> Iterator[Result]:
        """Yield the result itself, as a group yields each of its results."""
        yield self

    def score_records(self) -> Iterator[dict[str, Any]]:
        """Yield one record for each score, as :func:`score_records` has them."""
        signature, stopping = str(self.signature), self.stopping
        stopped = stopping.score if stopping and stopping.rule == "precision" else None
        for dataset, values in [*self.divided.items(), (None, self.averaged)]:
            own = self.means if dataset is None else self.details.get(dataset, MeanDetails())
            for metric, value in single_scores(values):
                interval = own.intervals.get(metric)
                if stopping and dataset is None and metric == stopped and value is not None:
                    interval = stopping.interval
                condition, _, last = metric.rpartition(".")
                of_noise = not condition and any(metric not in own for own in self.divided.values())
                guess = own.baselines.get(condition or next(iter(own.baselines), ""))
                guess = guess if last == "accuracy" and not of_noise else None
                judged = guess if condition or len(own.baselines) == 1 else None  # not the first of several conditions
                yield {
                    **origin(self, dataset),
                    "metric": metric,
                    "value": value,
                    "low": interval.low if interval else None,
                    "high": interval.high if interval else None,
                    "level": interval.level if interval else None,
                    "n": sum(_scored(self, name, metric) for name in ([dataset] if dataset else self.details)),
                    "left_out": self.left_out_of(metric, dataset),
                    "stopped_early": stopping is not None,
                    "random": guess.max_random if guess else None,
                    "majority": guess.majority if guess else None,
                    "not_beaten": _not_beaten(judged),
                    "missing": own.missing.get(metric),
                    "signature": signature,
                }

    def reproducible(self) -> dict[str, Any]:
        """Return the JSON values that equal runs share: not times, counts of computed predictions, and arguments."""
        plain = self.to_dict() | {"provenance": self.provenance.reproducible().to_dict()}
        return {
            key: value for key, value in plain.items() if key not in ("timing", "with_divided", "warnings", "arguments")
        }

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
        plain = {key: plain_values(getattr(self, name)) for name, key in _KEYS.items()}
        plain["signature"] = self.signature.to_dict()
        kept = {key: value for key, value in plain.items() if value or key not in _OPTIONAL}
        return {"schema": RESULT_SCHEMA, "kind": "result", **kept}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Result:
        """Read what :meth:`to_dict` wrote.

        Raises:
            SchemaError: The data is damaged or of a newer schema.
        """
        check_schema(data, "result")
        kinds = {**hints_of(cls), "signature": Mapping[str, str], "stopping": EarlyStopping}
        values: dict[str, Any] = {}
        for name, key in _KEYS.items():
            if key in data:
                values[name] = read_value(kinds[name], data[key], f"the result's {key}")
            elif key not in _OPTIONAL:
                raise SchemaError(f"the result cannot be read: the field {key!r} is missing")
        for dataset, scores in values["divided"].items():
            _check_scores(scores, f"the scores of {dataset:.60}")
        if set(values["details"]) != set(values["divided"]):
            raise SchemaError("the scores and the details are not of the same data sets")
        if ("stopping" in values) != ("stopping" in values["signature"]):
            raise SchemaError("the signature and the record of early stopping are not of the same run")
        return cls(**values | {"signature": Signature(values["signature"])})


_KEYS = {item.name: item.name for item in fields(Result) if item.name != "outputs"}
_KEYS |= {"divided": DIVIDED, "averaged": AVERAGED}
"""The key of each attribute in a file."""
_OPTIONAL = ("warnings", "files", "stopping", "higher_is_better", "query_scores")


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

    if TYPE_CHECKING:  # a part is a group itself only where groups are run by several methods

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
        return tuple(dict.fromkeys(warning for part in self.values() for warning in part.warnings))

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
        singles = list(self.results())
        groups, shared = shared_lines(list(map(result_blocks, singles)), [single.benchmark for single in singles])
        spaced = [block for group in groups for block in (*group, Line(""))]
        return [*spaced, *shared] if shared else spaced[:-1]

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
        parts = read_value(Mapping[str, object], data.get("parts"), "the group's parts")
        name = read_value(str, data.get("name"), "the group's name")
        return cls(name, {part: result_from_dict(values, f"part {part:.60}") for part, values in parts.items()})


def save_records(result: _Saved, path: str | os.PathLike[str]) -> None:
    """Write the prediction of each query as JSON Lines, completely or not at all.

    Args:
        result: A result, or a group of results.
        path: The file. Each line has benchmark, model, method, data set, condition, query, test row and repeat.

    Raises:
        ArgumentError: The run did not keep the predictions (``return_outputs=True`` does).
    """
    lines = []
    for single in result.results():
        if single.outputs is None:
            raise ArgumentError(
                f"the result of {single.benchmark} has no outputs; run with return_outputs=True to keep them"
            )
        for name, records in single.outputs.items():
            for record in records:
                plain = {key: json_row(value) for key, value in (origin(single, name) | record).items()}
                lines.append(json.dumps(plain, ensure_ascii=False, allow_nan=False) + "\n")
    write_output(path, map(utf8, lines))


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
        return (Result if data["kind"] == "result" else ResultGroup).from_dict(data)
    except SchemaError as error:
        raise SchemaError(f"{where}: {error}") from error


# -- records and tables


def single_scores(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, float | None]]:
    """Yield single scores by key, nested keys joined by dots; texts and settings are left out.

    A list under ``sensitivity`` is a regression line: slope and intercept.
    """
    for key, value in values.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping):
            if key not in ("rounds", "settings", "experiment"):  # records of their own, not scores
                yield from single_scores(value, f"{name}.")
        elif isinstance(value, (list, tuple)) and prefix == "sensitivity." and len(value) == 2:
            yield name, value[0]
            yield f"{name} (intercept)", value[1]
        elif isinstance(value, (list, tuple)):
            yield from ((f"{name}.{place}", item) for place, item in enumerate(value))
        elif value is None or (isinstance(value, (int, float)) and not isinstance(value, bool)):
            yield name, value


def origin(result: Result, dataset: str | None) -> dict[str, Any]:
    """Return the keys that every record has: of which benchmark, model, method and data set it is."""
    return {"benchmark": result.benchmark, "model": result.model, "method": result.method, "dataset": dataset}


def _not_beaten(baselines: Baselines | None) -> str | None:
    """Return the strongest baseline that is not beaten, empty if all are; ``None`` without baselines."""
    if baselines is None:
        return None
    verdict = strongest_not_beaten(verdicts_of(baselines))
    return "" if verdict is None else verdict.baseline


def _rounds_of(result: Result, dataset: str, metric: str) -> list[Mapping[str, Any]]:
    """Return the records of the rounds of LongICL that a score is about; none for scores of other benchmarks."""
    if result.benchmark != benchmark_names.LONG_ICL:
        return []
    rounds: Mapping[str, Mapping[str, Any]] = result.divided[dataset].get("rounds") or {}
    if metric == "mean":
        return list(rounds.values())
    return [rounds[metric]] if metric in rounds else []


def _asked(result: Result, dataset: str, metric: str) -> int:
    """Return the number of queries of a score: of its condition or round, if it belongs to one."""
    details, condition = result.details[dataset], metric.rpartition(".")[0]
    rounds = _rounds_of(result, dataset, metric)
    if rounds:
        return sum(int(own.get("asked", details.asked)) for own in rounds)
    for record in details.conditions:
        if record.name == condition:
            return len(record.truth)
    return details.asked


def _scored(result: Result, dataset: str, metric: str) -> int:
    """Return the number of scored queries of a score: of its condition or round, if it belongs to one."""
    details, condition = result.details[dataset], metric.rpartition(".")[0]
    rounds = _rounds_of(result, dataset, metric)
    if rounds:
        answered = sum(int(own.get("answered", details.scored)) for own in rounds)
        unparsed = sum(int(own.get("unparsed", 0)) for own in rounds)
        return answered - unparsed if result.setting("unparsed") == "excluded" else answered
    for record in details.conditions:
        if record.name == condition:
            wrong = result.counted_wrong(dataset)
            numbered = enumerate(record.predictions)
            return sum(label is not None or (condition, place) in wrong for place, label in numbered)
    return details.scored


def score_records(result: _Saved) -> Iterator[dict[str, Any]]:
    """Yield one record for each score of a result.

    Args:
        result: A result, or a group of results.

    Yields:
        ``benchmark``, ``model``, ``method``, ``dataset`` (``None``: the mean over them), ``metric``, ``value``, ``low``
        and ``high`` (ends of the interval; after early stopping, of the mean of its score), ``level``, ``n`` (scored
        queries, of the condition or round where the score has one), ``left_out`` (queries that the score leaves out),
        ``stopped_early`` (whether the run stopped before it had evaluated all rows), ``random`` and ``majority``
        (baselines of an accuracy), ``not_beaten`` (the strongest baseline that it is not shown to beat; an empty text
        if it beats all), ``missing`` (why there is no value), ``signature``.

    Example:
        >>> from StaICC import Normal
        >>> result = Normal(datasets=["mini"], limit=4)(lambda prompt, label_space: 0)
        >>> next(score_records(result))["metric"]
        'accuracy'
    """
    for single in result.results():
        yield from single.score_records()


_HUB_METRICS = {"macro_F1": "f1"}
"""Names of metrics on the model hub, where they differ from the keys."""


def model_index(results: Iterable[_Saved]) -> list[dict[str, Any]]:
    """Return scores as the evaluation results of a model card (``model-index`` of the model hub's metadata).

    Args:
        results: Results and groups of results.

    Returns:
        One entry for each model, with one evaluation for each data set (and the mean) of each benchmark and signature.
        Undefined scores are left out. The name of a score says how many queries it leaves out, and whether the run
        stopped early.
    """
    models: dict[str, dict[tuple[Any, ...], dict[str, Any]]] = {}
    for record in (record for result in results for record in score_records(result) if record["value"] is not None):
        benchmark, signature, dataset = record["benchmark"], record["signature"], record["dataset"]
        dataset = dataset or "mean over data sets"
        empty: dict[str, Any] = {
            "task": {"type": "text-classification", "name": f"StaICC {benchmark}, {record['method']}"},
            "dataset": {"type": dataset, "name": dataset, "split": "test", "args": {"signature": signature}},
            "metrics": [],
        }
        evaluation = models.setdefault(record["model"], {}).setdefault((benchmark, signature, dataset), empty)
        metric = {"type": _HUB_METRICS.get(record["metric"], record["metric"])}
        details = {name: record[name] for name in ("low", "high", "level") if record[name] is not None}
        metric["name"] = with_marks(record["metric"], record["left_out"], record["stopped_early"])
        if record["left_out"]:
            details["queries_left_out"] = record["left_out"]
        if record["stopped_early"]:
            details["stopped_early"] = True
        if record["not_beaten"]:
            details["not_better_than"] = record["not_beaten"]
        evaluation["metrics"].append({**metric, "value": record["value"], "args": details})
    return [{"name": model, "results": list(evaluations.values())} for model, evaluations in models.items()]


def _queries(result: Result, prompts: Prompts | None) -> Iterator[QueryRecord]:
    """Yield the queries of a single result."""
    if prompts is not None and not callable(prompts):
        raise ArgumentError(f"prompts: got {prompts!r:.80}, expected a function: StaICC.written_prompts")
    written = {} if prompts is None else prompts(result)
    signature = str(result.signature)
    for dataset, details in result.details.items():
        texts = written.get(dataset, ())
        if isinstance(texts, str):
            _log.warning("%s, %s: no prompts: %s", result.benchmark, dataset, texts)
        prompt_parts = iter(() if isinstance(texts, str) else texts)
        lost = {(failed.condition, failed.query): failed.reason for failed in (*details.failures, *details.unparsed)}
        wrong = result.counted_wrong(dataset)
        kept = (result.outputs or {}).get(dataset, ())
        outputs = {(output["condition"], output["query"]): output for output in kept}
        for record in details.conditions:
            width = len(details.labels)
            columns = (record.truth, record.predictions, record.label_scores(width), record.probabilities(width))
            rows = zip(query_positions(record.rows), *columns, strict=True)
            for number, ((row, repeat), truth, prediction, scores, probabilities) in enumerate(rows):
                parts, output = next(prompt_parts, None), outputs.get((record.name, number), {})
                scored = prediction is not None or (record.name, number) in wrong
                correct = prediction == truth if scored else None
                if prediction is not None and prediction < 0:  # a reply of LongICL that names no label
                    prediction = None
                yield QueryRecord(
                    **origin(result, dataset),
                    condition=record.name,
                    query=number,
                    row=row,
                    repeat=repeat,
                    ground_truth=truth,
                    prediction=prediction,
                    correct=correct,
                    ground_truth_label=_label(details.labels, truth),
                    prediction_label=_label(details.labels, prediction),
                    scores=None if scores is None else tuple(scores),
                    probabilities=None if probabilities is None else tuple(probabilities),
                    reply=output.get("response"),
                    finish_reason=output.get("finish_reason"),
                    reason=lost.get((record.name, number)),
                    prompt=None if parts is None else "".join(parts),
                    demonstrations=None if parts is None else parts[1:-1],
                    signature=signature,
                )


def query_records(result: _Saved) -> Iterator[dict[str, Any]]:
    """Yield one record for each query of a result, as JSON values.

    Args:
        result: A result, or a group of results.

    Yields:
        The fields of :class:`QueryRecord` but prompt, demonstrations and signature.

    Example:
        >>> from StaICC import Normal
        >>> result = Normal(datasets=["mini"], limit=4)(lambda prompt, label_space: 0)
        >>> next(query_records(result))["prediction_label"]
        'food'
    """
    for query in result.queries():
        values = plain_values(query)
        yield {key: json_row(values[key]) for key in values if key not in ("prompt", "demonstrations", "signature")}


def _label(labels: tuple[str, ...], index: int | None) -> str | None:
    return labels[index] if index is not None and 0 <= index < len(labels) else None
