"""Digests of the prompts of a data set, which say whether two runs had the same ones."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterable

from StaICC.benchmarks.records import MARK_BYTES, Written
from StaICC.prompting.prompt_writer import Query, as_argument
from StaICC.results.details import DatasetDetails

_LONE_SURROGATES = "surrogatepass"
"""A text may have lone surrogates, which are no UTF-8; they get an encoding of their own."""
_encode_json = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def digest_prompts(queries: Iterable[Query], seen: list[Written] | None = None) -> tuple[str, str]:
    """Return the digest of all prompts in order, and the first 32 bits of the digest of each prompt as base64.

    The first is the digest of the JSON list of the prompts, as :func:`~StaICC.results.signature.digest` computes it.
    The list is hashed item by item, so that only one prompt is in memory.

    Args:
        queries: The queries, which may be written one by one.
        seen: The records of the queries are appended to this list, so that a caller who needs them does not write the
            prompts again: it takes long for long prompts.
    """
    digest_of_list = hashlib.sha256(b"[")
    marks = bytearray()
    separator = b""
    for query in queries:
        item = _encode_json(as_argument(query.prompt))
        digest_of_list.update(separator + item.encode("utf-8", _LONE_SURROGATES))
        separator = b","

        text = _prompt_text(query)
        prompt_digest = hashlib.sha256(text.encode("utf-8", _LONE_SURROGATES)).digest()
        marks += prompt_digest[:MARK_BYTES]
        if seen is not None:
            seen.append((prompt_digest, query.label_space, query.label, query.row))
    digest_of_list.update(b"]")
    return digest_of_list.hexdigest(), base64.b64encode(marks).decode()


def _prompt_text(query: Query) -> str:
    """Return the prompt of a query as one text; in the noisy channel, where it has one for each label, all of them."""
    if isinstance(query.prompt, str):
        return query.prompt
    return "\x1e".join(query.prompt)


def compare_prompts(details: DatasetDetails, prompts: str, marks: str) -> tuple[bool, int | None, str]:
    """Compare the prompts of a data set with the saved ones by their digests.

    Args:
        details: The saved details.
        prompts: The digest of all prompts that were written again.
        marks: The first bytes of the digest of each of them, as base64.

    Returns:
        Whether all are the same, the number of the first query that differs, and both as a sentence.
    """
    written_marks = base64.b64decode(marks)
    try:
        saved_marks = base64.b64decode(details.query_digests, validate=True)
    except ValueError:
        saved_marks = b""  # A damaged file: the first prompt differs.

    for start in range(0, max(len(written_marks), len(saved_marks)), MARK_BYTES):
        end = start + MARK_BYTES
        if written_marks[start:end] != saved_marks[start:end]:
            number = start // MARK_BYTES
            return False, number, f"query {number} is the first whose prompt differs"
    if prompts != details.prompts:
        return False, None, f"the digest of all prompts differs: saved {details.prompts:.64}, written {prompts}"
    return True, None, f"the {details.asked} prompts are the same"
