"""The JSON Schema of files of results (draft 2020-12).

The schema is made from the types that reading a file checks (:mod:`StaICC.results.result`,
:mod:`StaICC.results.saved_scores`), so that both accept the same files. Descriptions are the docstrings of the fields.
What types cannot say, such as that a condition has as many predictions as true labels, only reading checks.
"""

from __future__ import annotations

import ast
import dataclasses
import inspect
import textwrap
from collections.abc import Mapping
from itertools import pairwise
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin

from StaICC.docstring_text import without_references
from StaICC.files.json_reading import hints_of, is_optional_field
from StaICC.results.files import DIGESTS, DIVIDED
from StaICC.results.result import KEYS, OPTIONAL_KEYS, SAVED_TYPES, Result
from StaICC.results.saved_scores import ROUND_KEY, ROUND_TYPES, SCORE_TYPES
from StaICC.results.signature import FIELDS
from StaICC.version import RESULT_SCHEMA

JsonSchema = dict[str, Any]
"""A JSON Schema, or a part of one."""

_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_SIMPLE_TYPES: Mapping[Any, JsonSchema] = {
    str: {"type": "string"},
    int: {"type": "integer"},
    float: {"type": "number"},
    bool: {"type": "boolean"},
    NoneType: {"type": "null"},
    object: {},
    Any: {},
}
"""The schema of each annotation that has no parts; an empty schema accepts every value."""
_DIGEST: JsonSchema = {"type": "string", "pattern": "^[0-9a-f]{64}$"}
"""The schema of a SHA-256 in hexadecimal digits."""


def result_schema() -> JsonSchema:
    """Return the JSON Schema of files of results, which accepts single results and groups.

    Example:
        >>> result_schema()["$schema"]
        'https://json-schema.org/draft/2020-12/schema'
    """
    definitions: dict[str, JsonSchema] = {}
    definitions["result"] = _result_schema(definitions)
    definitions["group"] = _group_schema()
    definitions["scores"] = _scores_schema(definitions, nested=True)
    definitions["scores of a condition"] = _scores_schema(definitions, nested=False)
    definitions["digests"] = {
        "description": "SHA-256 of everything else in the file, and of the scores alone.",
        "type": "object",
        "properties": {"file": _DIGEST, "scores": _DIGEST},
        "required": ["file", "scores"],
        "additionalProperties": False,
    }
    return {
        "$schema": _DIALECT,
        "$id": f"urn:staicc:result:{RESULT_SCHEMA}",
        "title": "A result of StaICC, or a group of results",
        "type": "object",
        "properties": {"kind": {"enum": ["result", "group"]}, DIGESTS: _reference("digests")},
        "required": ["kind", DIGESTS],
        "if": {"properties": {"kind": {"const": "group"}}},
        "then": _reference("group"),
        "else": _reference("result"),
        "$defs": {name: definitions[name] for name in sorted(definitions)},
    }


def _reference(name: str) -> JsonSchema:
    """Return the reference to a definition."""
    return {"$ref": f"#/$defs/{name.replace(' ', '%20')}"}


def _result_schema(definitions: dict[str, JsonSchema]) -> JsonSchema:
    """Return the schema of a single result. Records that it refers to are added to the definitions."""
    descriptions = _descriptions(Result)
    properties: dict[str, JsonSchema] = {"schema": {"const": RESULT_SCHEMA}, "kind": {"const": "result"}}
    required = ["schema", "kind"]
    for attribute, key in KEYS.items():
        if key == DIVIDED:
            schema: JsonSchema = {"type": "object", "additionalProperties": _reference("scores")}
        elif key == "signature":
            schema = {
                "type": "object",
                "propertyNames": {"enum": list(FIELDS)},
                "additionalProperties": {"type": "string"},
            }
        else:
            schema = _schema_of(SAVED_TYPES[attribute], definitions)
        properties[key] = _described(schema, descriptions.get(attribute))
        if key not in OPTIONAL_KEYS:
            required.append(key)
    return {"type": "object", "properties": properties, "required": required}


def _group_schema() -> JsonSchema:
    """Return the schema of a group, whose parts are results or groups."""
    part = {
        "type": "object",
        "properties": {"kind": {"enum": ["result", "group"]}},
        "required": ["kind"],
        "if": {"properties": {"kind": {"const": "group"}}},
        "then": _reference("group"),
        "else": _reference("result"),
    }
    return {
        "type": "object",
        "properties": {
            "schema": {"const": RESULT_SCHEMA},
            "kind": {"const": "group"},
            "name": {"description": 'Name of the group, such as "Suite".', "type": "string"},
            "parts": {"description": "The results by name.", "type": "object", "additionalProperties": part},
        },
        "required": ["schema", "kind", "name", "parts"],
    }


def _scores_schema(definitions: dict[str, JsonSchema], nested: bool) -> JsonSchema:
    """Return the schema of the scores of a data set, or of one of its conditions.

    Scores with other keys come from metrics and benchmarks of users and may be anything.

    Args:
        definitions: The definitions, to which records are added.
        nested: Whether an object under another key may hold the scores of a condition.
    """
    properties = {}
    for key, hint in SCORE_TYPES.items():
        properties[key] = _schema_of(hint, definitions)
    round_properties = {key: _schema_of(hint, definitions) for key, hint in ROUND_TYPES.items()}
    properties["rounds"] = {
        "type": "object",
        "additionalProperties": {"type": "object", "properties": round_properties},
    }
    schema: JsonSchema = {
        "type": "object",
        "properties": properties,
        "patternProperties": {f"^{ROUND_KEY.pattern}$": _schema_of(float | None, definitions)},
    }
    if nested:
        schema["additionalProperties"] = {
            "if": {"type": "object"},
            "then": _reference("scores of a condition"),
        }
    return schema


def _schema_of(hint: Any, definitions: dict[str, JsonSchema]) -> JsonSchema:
    """Return the schema of the values that :func:`StaICC.files.json_reading.read_value` accepts for an annotation.

    Args:
        hint: The annotation.
        definitions: The definitions, to which records are added under the names of their classes.
    """
    if hint in _SIMPLE_TYPES:
        return dict(_SIMPLE_TYPES[hint])
    origin = get_origin(hint)
    parts = get_args(hint)
    if origin in (Union, UnionType):
        return {"anyOf": [_schema_of(part, definitions) for part in parts]}
    if origin in (Mapping, dict):
        return {"type": "object", "additionalProperties": _schema_of(parts[1], definitions)}
    if origin is tuple and parts[-1] is Ellipsis:
        return {"type": "array", "items": _schema_of(parts[0], definitions)}
    if origin is tuple:
        return _list_of([_schema_of(part, definitions) for part in parts])
    if hasattr(hint, "_fields"):
        return _named_tuple_schema(hint, definitions)
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        return _record_reference(hint, definitions)
    raise TypeError(f"a file of a result cannot have a value of the type {hint!r}")


def _list_of(items: list[JsonSchema]) -> JsonSchema:
    """Return the schema of a list with one item of each of the given schemas, in order."""
    return {"type": "array", "prefixItems": items, "items": False, "minItems": len(items)}


def _named_tuple_schema(kind: Any, definitions: dict[str, JsonSchema]) -> JsonSchema:
    """Return the schema of a named tuple, which is a list in a file."""
    descriptions = _descriptions(kind)
    items = []
    for name, hint in hints_of(kind).items():
        schema = _schema_of(hint, definitions)
        items.append({"title": name, **_described(schema, descriptions.get(name))})
    return _list_of(items)


def _record_reference(kind: type[Any], definitions: dict[str, JsonSchema]) -> JsonSchema:
    """Return a reference to the definition of a record (a dataclass), which is added if it is not there."""
    name = kind.__name__.lstrip("_")
    if name not in definitions:
        definitions[name] = {}  # for records that refer to themselves
        definitions[name] = _record_schema(kind, definitions)
    return _reference(name)


def _record_schema(kind: type[Any], definitions: dict[str, JsonSchema]) -> JsonSchema:
    """Return the schema of a record: an object with the fields of the dataclass and no others.

    A file may lack some of the fields (:func:`~StaICC.files.json_reading.is_optional_field`).
    """
    hints = hints_of(kind)
    descriptions = _descriptions(kind)
    properties = {}
    required = []
    for field in dataclasses.fields(kind):
        schema = _schema_of(hints[field.name], definitions)
        properties[field.name] = _described(schema, descriptions.get(field.name))
        if not is_optional_field(kind, field):
            required.append(field.name)
    schema_of_record = {
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": False,
    }
    return _described(schema_of_record, _first_paragraph(kind.__doc__ or ""))


def _described(schema: JsonSchema, description: str | None) -> JsonSchema:
    """Return a schema with a description; ``None`` and an empty text leave it as it is."""
    if not description:
        return schema
    return {"description": description, **schema}


def _descriptions(kind: type[Any]) -> Mapping[str, str]:
    """Return the docstrings of the fields of a class: the texts that follow their annotations in its source.

    It is empty if the source is not there, such as in a program that was packed without it.
    """
    try:
        source = textwrap.dedent(inspect.getsource(kind))
    except OSError:
        return {}
    class_node = ast.parse(source).body[0]
    assert isinstance(class_node, ast.ClassDef)
    descriptions: dict[str, str] = {}
    for statement, following in pairwise(class_node.body):
        text = _text_of(following)
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name) and text is not None:
            descriptions[statement.target.id] = _first_paragraph(text)
    return descriptions


def _text_of(node: ast.stmt) -> str | None:
    """Return the text of a statement that is a docstring; ``None`` for other statements."""
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
        return node.value.value
    return None


def _first_paragraph(docstring: str) -> str:
    """Return the first paragraph of a docstring in one line, as a reader of JSON needs it.

    References become the names of what they refer to, and ``None`` becomes ``null``.
    """
    paragraph, _, _ = inspect.cleandoc(docstring).partition("\n\n")
    text = without_references(" ".join(paragraph.split()))
    return text.replace("``None``", "null").replace("``", "")
