"""Results: dictionaries with the documented keys that also know what they are.

``result["Divided results"]["TREC"]["accuracy"]`` and ``result["Averaged results"]`` work as they do in 0.1.1. Beside
them stand the signature, the environment, and for each data set counts, intervals, baselines and notes. Results print
as a table, and go to and from JSON with a schema number.

No NaN reaches JSON: a value that is undefined is ``None``, its reason stands in the details, and its average is
``None``.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from StaICC.datasets.storage import write_beside
from StaICC.errors import ArgumentError, SchemaError
from StaICC.results.details import DatasetDetails
from StaICC.results.signature import Signature
from StaICC.results.table import format_result
from StaICC.version import RESULT_SCHEMA

__all__ = ["AVERAGED", "DIVIDED", "Result", "ResultGroup", "load", "save_records"]

DIVIDED = "Divided results"
AVERAGED = "Averaged results"


class Result(dict[str, Any]):
    """The result of one benchmark.

    Args:
        benchmark: Its name, such as ``"Normal"``.
        divided: Scores by data set.
        averaged: Means over the data sets; ``None`` where one is missing.
        signature: What can move these numbers.
        environment: Where they were computed.
        details: What stands beside the scores, by data set.
        timing: Seconds and the like; the only part that differs from run to run, and left out of comparisons.
        outputs: Per data set, the answers of each query, if they were asked for; saved on their own.
        with_divided: Whether to show :data:`DIVIDED` among the keys.
    """

    def __init__(
        self,
        benchmark: str,
        divided: Mapping[str, Mapping[str, Any]],
        averaged: Mapping[str, float | None],
        signature: Signature,
        environment: Mapping[str, str],
        details: Mapping[str, DatasetDetails],
        timing: Mapping[str, float] | None = None,
        outputs: Mapping[str, Any] | None = None,
        with_divided: bool = True,
    ) -> None:
        scores = {name: dict(values) for name, values in divided.items()}
        super().__init__({DIVIDED: scores, AVERAGED: dict(averaged)} if with_divided else {AVERAGED: dict(averaged)})
        self.with_divided = with_divided
        self.benchmark = benchmark
        self.divided = scores
        self.averaged = dict(averaged)
        self.signature = signature
        self.environment = dict(environment)
        self.details = dict(details)
        self.timing = dict(timing or {})
        self.outputs = outputs

    @property
    def complete(self) -> bool:
        """Whether every query has an answer."""
        return all(not details.failed for details in self.details.values())

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Result):
            mine, theirs = self.to_dict(), other.to_dict()
            return all(mine[key] == theirs[key] for key in mine if key not in ("timing", "with_divided"))
        return super().__eq__(other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = None

    def __str__(self) -> str:
        return format_result(self)

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values, with the schema number."""
        return {
            "schema": RESULT_SCHEMA,
            "kind": "result",
            "benchmark": self.benchmark,
            "signature": self.signature.to_dict(),
            "environment": self.environment,
            "timing": self.timing,
            DIVIDED: self.divided,
            AVERAGED: self.averaged,
            "with_divided": self.with_divided,
            "details": {name: details.to_dict() for name, details in self.details.items()},
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
            return cls(
                data["benchmark"],
                data[DIVIDED],
                data[AVERAGED],
                Signature(data["signature"]),
                data["environment"],
                {name: DatasetDetails.from_dict(details) for name, details in data["details"].items()},
                data["timing"],
                with_divided=data["with_divided"],
            )
        except (KeyError, TypeError, AttributeError) as error:
            raise SchemaError(f"the result cannot be read: {error!r}") from error

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the result as JSON, whole or not at all."""
        _save(self.to_dict(), path)

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

    def __init__(self, name: str, parts: Mapping[str, Result | ResultGroup]) -> None:
        super().__init__(parts)
        self.name = name

    @property
    def complete(self) -> bool:
        """Whether every query of every part has an answer."""
        return all(part.complete for part in self.values())

    @property
    def signature(self) -> dict[str, Any]:
        """The signatures of the parts, by name."""
        return {name: part.signature for name, part in self.items()}

    def results(self) -> Iterator[Result]:
        """Give every single result of the group."""
        for part in self.values():
            if isinstance(part, ResultGroup):
                yield from part.results()
            else:
                yield part

    def __str__(self) -> str:
        return "\n\n".join(str(part) for part in self.values())

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
        try:
            return cls(data["name"], {name: _from_dict(part) for name, part in data["parts"].items()})
        except (KeyError, TypeError, AttributeError) as error:
            raise SchemaError(f"the group of results cannot be read: {error!r}") from error

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write all results as one JSON file, whole or not at all."""
        _save(self.to_dict(), path)

    def _repr_html_(self) -> str:
        """Show the tables in a notebook."""
        return "".join(part._repr_html_() for part in self.values())


def save_records(result: Result | ResultGroup, path: str | os.PathLike[str]) -> None:
    """Write the answers of each query as JSON Lines, whole or not at all.

    Args:
        result: A result, or a group of results.
        path: Where the file shall stand. Each line names benchmark, data set, condition, query, test row and repeat.

    Raises:
        ArgumentError: The run did not keep the answers (``return_outputs=True`` does).
    """
    lines = []
    for one in result.results() if isinstance(result, ResultGroup) else [result]:
        if one.outputs is None:
            raise ArgumentError(
                f"the result of {one.benchmark} has no outputs; run with return_outputs=True to keep them"
            )
        for name, records in one.outputs.items():
            for record in records:
                place = {"benchmark": one.benchmark, "dataset": name}
                lines.append(json.dumps(place | record, ensure_ascii=False, allow_nan=False) + "\n")
    write_beside(Path(path), (line.encode("utf-8", "surrogatepass") for line in lines))


def load(path: str | os.PathLike[str]) -> Result | ResultGroup:
    """Read a saved result.

    Args:
        path: What :meth:`Result.save` or :meth:`ResultGroup.save` wrote.

    Returns:
        The result, equal to the one that was saved.

    Raises:
        SchemaError: The file is no result, damaged, or of a newer schema.
    """
    try:
        data = json.loads(Path(path).read_text(encoding="utf-8"), parse_constant=_refuse_constant)
        return _from_dict(data)
    except SchemaError as error:
        raise SchemaError(f"{os.fspath(path)}: {error}") from error
    except ValueError as error:
        raise SchemaError(f"{os.fspath(path)}: no saved result, or a damaged one; it is not JSON ({error})") from error


def _refuse_constant(name: str) -> None:
    raise SchemaError(f"{name} is no value of a result")


def _from_dict(data: Any) -> Result | ResultGroup:
    if not isinstance(data, Mapping) or data.get("kind") not in ("result", "group"):
        raise SchemaError("this is no saved result; expected JSON with 'kind': 'result' or 'group'")
    return Result.from_dict(data) if data["kind"] == "result" else ResultGroup.from_dict(data)


def _check_schema(data: Mapping[str, Any], kind: str) -> None:
    schema = data.get("schema")
    if not isinstance(schema, int) or data.get("kind") != kind:
        raise SchemaError(f"this is no saved {kind} (schema {schema!r}, kind {data.get('kind')!r})")
    if schema > RESULT_SCHEMA:
        raise SchemaError(
            f"the file has result schema {schema}, this version of StaICC reads up to {RESULT_SCHEMA}; "
            "upgrade with: pip install --upgrade staicc"
        )


def _save(data: Mapping[str, Any], path: str | os.PathLike[str]) -> None:
    # One line for each top-level key: a diff of two files shows what differs, and long lists stay compact.
    lines = (
        json.dumps(key) + ": " + json.dumps(value, ensure_ascii=False, allow_nan=False) for key, value in data.items()
    )
    write_beside(Path(path), [("{\n" + ",\n".join(lines) + "\n}\n").encode("utf-8", "surrogatepass")])
