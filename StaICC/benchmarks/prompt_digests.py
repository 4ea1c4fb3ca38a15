"""Digests of the prompts of a data set, which say whether two runs had the same ones."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from StaICC.benchmarks.records import MARK_BYTES, Written
from StaICC.inference.prompt_key import LONE_SURROGATES, prompt_digest
from StaICC.prompting.prompt_writer import Query
from StaICC.results.details import DatasetDetails

_encode_json = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


class PromptDigests(NamedTuple):
    """The digests of the prompts of a data set."""

    of_all: str
    """The digest of the JSON list of all prompts, as :func:`~StaICC.results.signature.digest` computes it."""
    marks: str
    """The marks of the prompts, in order, as base64. A mark is the first 32 bits of the digest of one prompt. The marks
    tell which prompt differs, the digest of all prompts tells only that one does."""


def digest_prompts(queries: Iterable[Query], seen: list[Written] | None = None) -> PromptDigests:
    """Return the digests of the prompts of queries. Only one prompt at a time is in memory.

    Args:
        queries: The queries in order, which may be written one by one.
        seen: A list to which the record of each query is appended; ``None`` if the caller needs no records. Without
            this list, a caller would have to write all prompts a second time, which takes long for long prompts.
    """
    # The JSON list of the prompts is hashed item by item.
    digest_of_list = hashlib.sha256(b"[")
    marks = bytearray()
    separator = b""
    for query in queries:
        item = _encode_json(query.prompt)  # a text, or the texts of the noisy channel, which become a list
        digest_of_list.update(separator + item.encode("utf-8", LONE_SURROGATES))
        separator = b","

        digest = prompt_digest(query.prompt)
        marks += digest[:MARK_BYTES]
        if seen is not None:
            seen.append(Written(prompt_digest=digest, label_space=query.label_space, label=query.label, row=query.row))
    digest_of_list.update(b"]")
    return PromptDigests(digest_of_list.hexdigest(), base64.b64encode(marks).decode())


@dataclass(frozen=True, slots=True)
class PromptComparison:
    """Whether the prompts of a data set are those of its saved result."""

    same: bool
    """Whether all prompts are the same."""
    first_difference: int | None
    """The number of the first query whose prompt differs. ``None`` if no mark differs: the prompts are the same, or
    only the digest of all prompts differs."""
    message: str
    """The finding as a sentence."""


def compare_prompts(details: DatasetDetails, written: PromptDigests) -> PromptComparison:
    """Return whether the prompts of a data set are the saved ones, and the first query whose prompt differs.

    The prompts are compared by their digests: first by the mark of each prompt, then by the digest of all prompts.

    Args:
        details: The saved details, with the digests of the run.
        written: The digests of the prompts that were written again.
    """
    written_marks = base64.b64decode(written.marks)
    try:
        saved_marks = base64.b64decode(details.query_digests, validate=True)
    except ValueError:
        saved_marks = b""  # A damaged file: the first prompt differs.

    for start in range(0, max(len(written_marks), len(saved_marks)), MARK_BYTES):
        end = start + MARK_BYTES
        if written_marks[start:end] != saved_marks[start:end]:
            number = start // MARK_BYTES
            return PromptComparison(
                same=False, first_difference=number, message=f"query {number} is the first whose prompt differs"
            )
    if written.of_all != details.prompts:
        return PromptComparison(
            same=False,
            first_difference=None,
            message=f"the digest of all prompts differs: saved {details.prompts:.64}, written {written.of_all}",
        )
    return PromptComparison(same=True, first_difference=None, message=f"the {details.asked} prompts are the same")
