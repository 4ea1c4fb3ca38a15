"""Lines of a file of samples of Every Eval Ever."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from StaICC.results.files import json_row
from StaICC.results.scored_samples import ScoredSample
from StaICC.safe_text import valid_unicode

DIGEST = "document_digest"
"""Key in the metadata for the digest of a document that another harness logged."""
REPEAT = "repeat"
"""Key in the metadata for the number of a sample among those of its document."""


def sample_hash(question: str, references: list[str]) -> str:
    """Return the hash of a sample by the recipe of the schema: SHA-256 of the input and the references."""
    text = json.dumps({"raw": question, "reference": references}, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def sample_line(
    sample: ScoredSample,
    *,
    schema_version: str,
    evaluation_id: str,
    model_id: str,
    evaluation_name: str,
    result_id: str,
) -> dict[str, Any]:
    """Return a sample as one line of the file.

    A sample without a score has ``error``. The schema needs a score for it, too, which is 0 then.

    Args:
        sample: The sample with its score.
        schema_version: Version of the schema.
        evaluation_id: Id of the file with the scores.
        model_id: Id of the model in that file.
        evaluation_name: Name of the evaluation in that file.
        result_id: Id of the score in that file that is the mean over such samples.
    """
    prediction = _prediction(sample)
    references = _references(sample)
    line: dict[str, Any] = {
        "schema_version": schema_version,
        "evaluation_id": evaluation_id,
        "model_id": model_id,
        "evaluation_name": evaluation_name,
        "evaluation_result_id": result_id,
        "sample_id": str(valid_unicode(sample.sample_id)),
        "interaction_type": "single_turn",
        "input": _input(sample, references),
        "output": {"raw": [] if prediction is None else [prediction]},
        "answer_attribution": _attribution(sample, prediction),
        "evaluation": {"score": 0.0 if sample.score is None else sample.score, "is_correct": sample.is_correct},
        "metadata": _metadata(sample),
    }
    if sample.question is not None:
        line["sample_hash"] = sample_hash(line["input"]["raw"], references)
    if sample.score is None:
        line["error"] = str(valid_unicode(sample.reason or "no prediction"))
    return line


def _references(sample: ScoredSample) -> list[str]:
    """Return the name of the true label; empty if it is not known."""
    if sample.query is None or sample.query.ground_truth_label is None:
        return []
    return [str(valid_unicode(sample.query.ground_truth_label))]


def _prediction(sample: ScoredSample) -> str | None:
    """Return the reply of the model if the run kept it, else the name of the predicted label; ``None`` without one."""
    if sample.query is None:
        return None
    if sample.query.reply is not None:
        return str(valid_unicode(sample.query.reply))
    if sample.query.prediction_label is None:
        return None
    return str(valid_unicode(sample.query.prediction_label))


def _input(sample: ScoredSample, references: list[str]) -> dict[str, Any]:
    """Return the input of a sample: the question, and the prompt with the demonstrations."""
    entry: dict[str, Any] = {"raw": str(valid_unicode(sample.question or "")), "reference": references}
    if sample.query is not None and sample.query.prompt is not None:
        entry["formatted"] = str(valid_unicode(sample.query.prompt))
    if sample.labels:
        entry["choices"] = [str(valid_unicode(label)) for label in sample.labels]
    return entry


def _attribution(sample: ScoredSample, prediction: str | None) -> list[dict[str, Any]]:
    """Return how the predicted label was found in the output; an empty list if there is none."""
    if sample.query is None or prediction is None or sample.query.prediction_label is None:
        return []
    if sample.query.reply is not None:
        method = "parser of replies"
    elif sample.query.scores is not None:
        method = "largest label score"
    else:
        method = "predicted label"
    return [
        {
            "turn_idx": 0,
            "source": "output.raw",
            "extracted_value": str(valid_unicode(sample.query.prediction_label)),
            "extraction_method": method,
            "is_terminal": True,
        }
    ]


def _metadata(sample: ScoredSample) -> dict[str, str]:
    """Return what the schema has no field for."""
    metadata = {"metric": str(valid_unicode(sample.metric)), REPEAT: str(sample.repeat)}
    if sample.document_digest is not None:
        metadata[DIGEST] = sample.document_digest
    query = sample.query
    if query is None:
        return metadata
    metadata["dataset"] = str(valid_unicode(query.dataset))
    metadata["condition"] = str(valid_unicode(query.condition))
    metadata["row"] = str(query.row)
    if query.scores is not None:
        metadata["label_scores"] = json.dumps(json_row(list(query.scores)))
    if query.reason is not None:
        metadata["reason"] = str(valid_unicode(query.reason))
    return metadata
