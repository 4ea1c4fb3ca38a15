"""Names that logs of other engines give to their model.

A name is only stated: nothing checks that this model made the predictions.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from StaICC.errors import SchemaError
from StaICC.files.json_reading import parse_json
from StaICC.inference.replies import Failure

Prediction = Mapping[str, Any] | Failure
"""A prediction under the name of its field, such as ``{"index": 2}``; a failure with the reason if there is none."""


class LoggedPredictions(dict[str, Prediction]):
    """Predictions by the id of their query, with the name that their log gives to the model.

    Args:
        predictions: The predictions.
        model_name: The name of the model; ``None`` if the log has none.
    """

    def __init__(self, predictions: Mapping[str, Prediction], model_name: str | None = None) -> None:
        super().__init__(predictions)
        self.model_name = model_name


def stated_model_name(predictions: Mapping[str, Prediction], model_name: str | None) -> str | None:
    """Return the name of the model of predictions; ``None`` if it is not known.

    Args:
        predictions: The predictions; those that were read from a log may have the name that the log states.
        model_name: The name that the user states, which counts before that of the log; ``None`` if there is none.
    """
    if model_name is not None:
        return model_name
    if isinstance(predictions, LoggedPredictions):
        return predictions.model_name
    return None


def lm_eval_model_name(samples: Path) -> str | None:
    """Return the name that lm_eval gives to the model of a file of samples; ``None`` if it is not known.

    lm_eval writes the name into the file of results next to the samples. Both file names end with the same date, such
    as ``samples_TASK_2026-01-31T12-00-00.jsonl`` and ``results_2026-01-31T12-00-00.json``. The results of lm_eval 0.4.0
    to 0.4.2 are in ``results.json``.

    Args:
        samples: The file of samples.
    """
    _, _, date = samples.stem.rpartition("_")
    for results_name in (f"results_{date}.json", "results.json"):
        path = samples.with_name(results_name)
        if not path.is_file():
            continue
        try:
            results = parse_json(path.read_bytes(), str(path), constants=True)
        except (SchemaError, OSError):
            return None  # The samples can be scored without the name.
        if isinstance(results, Mapping):
            return readable_name(results.get("model_name"))
    return None


def readable_name(name: object) -> str | None:
    """Return a name that a log states, without blanks at its ends; ``None`` if it is no text or has only blanks."""
    if not isinstance(name, str):
        return None
    return name.strip() or None
