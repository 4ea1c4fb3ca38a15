"""Digests of the prompts of a data set, which say whether two runs had the same ones."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterable

from StaICC.benchmarks.records import MARK_BYTES, Written
from StaICC.prompting.prompt_writer import Query, as_argument
from StaICC.results.details import DatasetDetails

_JSON = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def digest_prompts(queries: Iterable[Query], seen: list[Written] | None = None) -> tuple[str, str]:
    """Return the digest of all prompts in order, and the first 32 bits of each one's own digest as base64.

    The former is that of their list (:func:`~StaICC.results.signature.digest`), of which one prompt is in memory.

    Args:
        queries: The queries, which may be written one by one.
        seen: Gets what is kept of each query: it takes long to write long prompts again.
    """
    whole, marks, before = hashlib.sha256(b"["), bytearray(), b""
    for query in queries:
        whole.update(before + _JSON(as_argument(query.prompt)).encode("utf-8", "surrogatepass"))
        text = query.prompt if isinstance(query.prompt, str) else "\x1e".join(query.prompt)
        own = hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
        marks += own[:MARK_BYTES]
        if seen is not None:
            seen.append((own, query.label_space, query.label, query.row))
        before = b","
    whole.update(b"]")
    return whole.hexdigest(), base64.b64encode(marks).decode()


def compare_prompts(details: DatasetDetails, prompts: str, marks: str) -> tuple[bool, int | None, str]:
    """Compare the prompts of a data set by their digests.

    Args:
        details: The saved details.
        prompts: Digest of all prompts that were written again.
        marks: First bytes of the digest of each of them, as base64.

    Returns:
        Whether all are the same, the number of the first query that differs, and both as a sentence.
    """
    ours = base64.b64decode(marks)
    try:
        theirs = base64.b64decode(details.query_digests, validate=True)
    except ValueError:
        theirs = b""
    places = range(0, max(len(ours), len(theirs)), MARK_BYTES)
    first = next(
        (at // MARK_BYTES for at in places if ours[at : at + MARK_BYTES] != theirs[at : at + MARK_BYTES]), None
    )
    if first is not None:
        return False, first, f"query {first} is the first whose prompt differs"
    if prompts != details.prompts:
        return False, None, f"the digest of all prompts differs: saved {details.prompts:.64}, written {prompts}"
    return True, None, f"the {details.asked} prompts are the same"
