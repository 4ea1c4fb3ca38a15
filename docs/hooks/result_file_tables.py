"""The tables of the page about the file of a result, from its JSON Schema."""

from __future__ import annotations

from typing import Any

from markup import code, plain, table

from StaICC.results.json_schema import result_schema

__all__ = ["fields_table"]

_TYPE_NAMES = {"string": "text", "integer": "whole number", "number": "number", "boolean": "true or false"}


def fields_table(definition: str) -> str:
    """Return a table of the fields of an object: name, type and description.

    Args:
        definition: The name of its definition in the schema, such as ``"result"``.
    """
    schema = result_schema()["$defs"][definition]
    required = schema["required"]
    rows = []
    for name, field in schema["properties"].items():
        type_name = _type_name(field)
        if name not in required:
            type_name += ", may be absent"
        rows.append([code(name), type_name, plain(field.get("description", ""))])
    return table(["field", "type", "meaning"], rows)


def _type_name(schema: dict[str, Any]) -> str:
    """Return the type of a value in words, such as ``"list of text"``."""
    if "const" in schema:
        return code(str(schema["const"]))
    if "$ref" in schema:
        return "object"
    if "anyOf" in schema:
        return " or ".join(_type_name(part) for part in schema["anyOf"])
    kind = schema.get("type")
    if kind == "null":
        return code("null")
    if kind == "array" and "items" in schema and schema["items"] is not False:
        return f"list of {_type_name(schema['items'])}"
    if kind == "array":
        return "list"
    if kind == "object":
        return "object"
    if kind is None:
        return "any"
    return _TYPE_NAMES[kind]
