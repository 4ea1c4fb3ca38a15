"""Results: dictionaries with the documented keys, and attributes with everything else.

``result["Divided results"]["TREC"]["accuracy"]`` and ``result["Averaged results"]`` work as they do in 0.1.1. A result
also has the signature, the provenance, the environment, and for each data set counts, intervals, baselines and notes.
Results print as a table, and go to and from JSON with a schema number.

No NaN is written to JSON: an undefined score is ``None``, its reason is in the details, and its average is ``None``.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn

from StaICC.datasets.outputs import write_output
from StaICC.errors import ArgumentError, SchemaError, unknown_key
from StaICC.results.checks import check_divided
from StaICC.results.details import DatasetDetails, MeanDetails, check_type
from StaICC.results.early_stopping import EarlyStopping
from StaICC.results.file_format import AVERAGED, DIVIDED, digest_problems, read_result_file, write_result_file
from StaICC.results.provenance import Provenance
from StaICC.results.records import origin, to_pandas, to_polars
from StaICC.results.signature import Signature
from StaICC.version import RESULT_SCHEMA

_log = logging.getLogger(__name__)


_TYPES: Mapping[str, Any] = {
    AVERAGED: Mapping[str, float | None],
    "signature": Mapping[str, str],
    "environment": Mapping[str, str],
    "timing": Mapping[str, float],
    "with_divided": bool,
    "details": Mapping[str, object],
    "warnings": tuple[str, ...],
    "files": Mapping[str, Mapping[str, object]],
    "higher_is_better": Mapping[str, bool | None],
}
"""Types of the fields that are read as they are."""


class _Scores(dict[str, Any]):
    """Scores by name."""

    def __missing__(self, key: object) -> NoReturn:
        raise unknown_key("score", key, self)


class _ByDataset(dict[str, Any]):
    """Scores by data set."""

    def __missing__(self, key: object) -> NoReturn:
        raise unknown_key("data set in this result", key, self)


@dataclass(kw_only=True, eq=False, repr=False, slots=True)
class Result(dict[str, Any]):
    """The result of one benchmark: a dictionary with the scores, and attributes."""

    benchmark: str
    """Its name, such as ``"Normal"``."""
    divided: dict[str, dict[str, Any]]
    """Scores by data set."""
    averaged: dict[str, float | None]
    """Means over the data sets; ``None`` where one is missing."""
    signature: Signature
    """Every setting that can change these scores."""
    provenance: Provenance = field(default_factory=Provenance)
    """Who predicted, how and when."""
    environment: dict[str, str] = field(default_factory=dict)
    """Versions and machine that computed them."""
    details: dict[str, DatasetDetails] = field(default_factory=dict)
    """Counts, intervals, baselines and notes by data set."""
    means: MeanDetails = field(default_factory=MeanDetails)
    """Intervals and baselines of the means over the data sets."""
    timing: dict[str, float] = field(default_factory=dict)
    """Seconds by step, which differ from run to run; not compared."""
    outputs: Mapping[str, Any] | None = None
    """Records of each query by data set, if the run kept them (``return_outputs=True``); saved separately."""
    warnings: tuple[str, ...] = ()
    """Warnings of the run about data and prompts (docs/warnings.md)."""
    files: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    """Of each data set from a user's file, how to read it again (:func:`StaICC.datasets.own_data.record_of`)."""
    higher_is_better: dict[str, bool | None] = field(default_factory=dict)
    """For each metric that is not of this library, whether larger values are better; ``None`` if it does not say."""
    with_divided: bool = True
    """Whether :data:`DIVIDED` is among the keys."""
    stopping: EarlyStopping | None = None
    """Why and where the run stopped early; ``None`` for a full run."""

    def __post_init__(self) -> None:
        self.divided = _ByDataset({name: _Scores(values) for name, values in self.divided.items()})
        self.averaged = _Scores(self.averaged)
        self.update({DIVIDED: self.divided} if self.with_divided else {}, **{AVERAGED: self.averaged})

    def __missing__(self, key: object) -> NoReturn:
        entry = next((name for name, values in self.items() if key in values), "")
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

    def results(self) -> Iterator[Result]:
        """Yield the result itself, as a group yields each of its results."""
        yield self

    def reproducible(self) -> dict[str, Any]:
        """Return the JSON values that equal runs share: all except times and counts of computed predictions."""
        plain = self.to_dict() | {"provenance": self.provenance.reproducible().to_dict()}
        return {key: value for key, value in plain.items() if key not in ("timing", "with_divided", "warnings")}

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Result):
            return self.reproducible() == other.reproducible()
        return dict.__eq__(self, other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = None

    def __str__(self) -> str:
        from StaICC.results.table import format_result, format_warnings

        return "\n".join([format_result(self), *format_warnings(self.warnings)])

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values, with the schema number."""
        stopping = None if self.stopping is None else self.stopping.to_dict()
        some = {"warnings": list(self.warnings), "files": self.files, "stopping": stopping}
        some["higher_is_better"] = self.higher_is_better
        return {
            "schema": RESULT_SCHEMA,
            "kind": "result",
            "benchmark": self.benchmark,
            "signature": self.signature.to_dict(),
            "provenance": self.provenance.to_dict(),
            "environment": self.environment,
            "timing": self.timing,
            DIVIDED: self.divided,
            AVERAGED: self.averaged,
            "with_divided": self.with_divided,
            "details": {name: details.to_dict() for name, details in self.details.items()},
            "means": self.means.to_dict(),
            **{key: value for key, value in some.items() if value},
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Result:
        """Read what :meth:`to_dict` wrote.

        Raises:
            SchemaError: The data is damaged or of a newer schema.
        """
        _check_schema(data, "result")
        if not isinstance(data.get("benchmark"), str):
            raise SchemaError(f"the result's benchmark must be a name, not {data.get('benchmark')!r:.60}")
        try:
            check_divided(data[DIVIDED])
            plain = {"warnings": (), "files": {}, "higher_is_better": {}, **data}
            for name, kind in _TYPES.items():
                check_type(name, plain[name], kind)
            if set(data["details"]) != set(data[DIVIDED]):
                raise SchemaError("the scores and the details are not of the same data sets")
            stopping = EarlyStopping.from_dict(data["stopping"]) if "stopping" in data else None
            if (stopping is None) != ("stopping" not in data["signature"]):
                raise SchemaError("the signature and the record of early stopping are not of the same run")
            return cls(
                benchmark=data["benchmark"],
                divided=data[DIVIDED],
                averaged=data[AVERAGED],
                signature=Signature(data["signature"]),
                provenance=Provenance.from_dict(data["provenance"]),
                environment=data["environment"],
                details={name: DatasetDetails.from_dict(details) for name, details in data["details"].items()},
                means=MeanDetails.from_dict(data["means"]),
                timing=data["timing"],
                with_divided=data["with_divided"],
                stopping=stopping,
                warnings=tuple(plain["warnings"]),
                files=plain["files"],
                higher_is_better=plain["higher_is_better"],
            )
        except KeyError as error:
            raise SchemaError(f"the result cannot be read: the field {error} is missing") from error
        except (TypeError, AttributeError) as error:
            raise SchemaError(f"the result cannot be read: {error!r}") from error

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the result as JSON, completely or not at all."""
        write_result_file(self.to_dict(), path)

    def to_pandas(self) -> Any:
        """Return all scores as a tidy ``pandas.DataFrame`` (see :func:`~StaICC.results.records.score_records`)."""
        return to_pandas(self)

    def to_polars(self) -> Any:
        """Return all scores as a tidy ``polars.DataFrame`` (see :func:`~StaICC.results.records.score_records`)."""
        return to_polars(self)

    def _repr_html_(self) -> str:
        """Show a table in a notebook."""
        from StaICC.results.table import html_result

        return html_result(self)


class ResultGroup(dict[str, Any]):
    """Results of several benchmarks that ran together, by name.

    Args:
        name: Name of the group, such as ``"Suite"``.
        parts: The results (or groups) by name.
    """

    __slots__ = ("name",)

    def __init__(self, name: str, parts: Mapping[str, Result | ResultGroup]) -> None:
        super().__init__(parts)
        self.name = name

    def __missing__(self, key: object) -> NoReturn:
        raise unknown_key("part", key, self)

    @property
    def complete(self) -> bool:
        """Whether every query of every part has a prediction."""
        return all(part.complete for part in self.values())

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings of the run about data and prompts, each once."""
        return tuple(dict.fromkeys(warning for part in self.values() for warning in part.warnings))

    @property
    def signature(self) -> dict[str, Any]:
        """The signatures of the parts, by name."""
        return {name: part.signature for name, part in self.items()}

    def results(self) -> Iterator[Result]:
        """Yield every single result of the group."""
        for part in self.values():
            yield from part.results()

    def __str__(self) -> str:
        from StaICC.results.table import format_result, format_warnings

        tables = "\n\n".join(map(format_result, self.results()))
        return "\n".join([tables, *([""] if self.warnings else []), *format_warnings(self.warnings)])

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
        _check_schema(data, "group")
        if not isinstance(data.get("name"), str):
            raise SchemaError(f"the group's name must be a text, not {data.get('name')!r:.60}")
        check_type("parts", data.get("parts"), Mapping[str, object])
        return cls(data["name"], {name: _from_dict(part) for name, part in data["parts"].items()})

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write all results as one JSON file, completely or not at all."""
        write_result_file(self.to_dict(), path)

    def to_pandas(self) -> Any:
        """Return all scores as a tidy ``pandas.DataFrame`` (see :func:`~StaICC.results.records.score_records`)."""
        return to_pandas(self)

    def to_polars(self) -> Any:
        """Return all scores as a tidy ``polars.DataFrame`` (see :func:`~StaICC.results.records.score_records`)."""
        return to_polars(self)

    def _repr_html_(self) -> str:
        """Show the tables in a notebook."""
        return "".join(part._repr_html_() for part in self.values())


def save_records(result: Result | ResultGroup, path: str | os.PathLike[str]) -> None:
    """Write the prediction of each query as JSON Lines, completely or not at all.

    Args:
        result: A result, or a group of results.
        path: The file. Each line has benchmark, model, method, data set, condition, query, test row and repeat.

    Raises:
        ArgumentError: The run did not keep the predictions (``return_outputs=True`` does).
    """
    lines = []
    for one in result.results():
        if one.outputs is None:
            raise ArgumentError(
                f"the result of {one.benchmark} has no outputs; run with return_outputs=True to keep them"
            )
        for name, records in one.outputs.items():
            for record in records:
                lines.append(json.dumps(origin(one, name) | record, ensure_ascii=False, allow_nan=False) + "\n")
    write_output(path, (line.encode("utf-8", "surrogatepass") for line in lines))


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


def result_from_dict(data: Mapping[str, Any], where: str) -> Result | ResultGroup:
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
        return _from_dict(data)
    except SchemaError as error:
        raise SchemaError(f"{where}: {error}") from error


def _from_dict(data: Any) -> Result | ResultGroup:
    if not isinstance(data, Mapping) or data.get("kind") not in ("result", "group"):
        raise SchemaError("this is no saved result; expected JSON with 'kind': 'result' or 'group'")
    return Result.from_dict(data) if data["kind"] == "result" else ResultGroup.from_dict(data)


def _check_schema(data: Mapping[str, Any], kind: str) -> None:
    schema = data.get("schema")
    if isinstance(schema, bool) or not isinstance(schema, int) or data.get("kind") != kind:
        raise SchemaError(f"this is no saved {kind} (schema {schema!r:.60}, kind {data.get('kind')!r:.60})")
    if schema > RESULT_SCHEMA:
        raise SchemaError(
            f"the file has result schema {schema}, this version of StaICC reads up to {RESULT_SCHEMA}. Update StaICC"
        )
