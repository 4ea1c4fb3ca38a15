"""The mean of the predictions for several prompts of each query."""

from __future__ import annotations

from collections.abc import Sequence

from StaICC.benchmarks.experimentor import Experimentor
from StaICC.methods import specification as spec
from StaICC.methods.calibration.base import label_rows, mean_row, read_probabilities
from StaICC.methods.features import apply_present, present


def mean_of_views(data: spec.MethodData, views: Sequence[Experimentor]) -> spec.Steps:
    """Average the predictions for several prompts of each query; the result has the prompts of the first view."""
    width, data.experimentor = len(data.experimentor.get_label_space()), views[0]
    answers = yield [data.queries(view=view) for view in views]
    flat = [row for rows in answers for row in rows]
    rows = apply_present(flat, lambda rows: read_probabilities(label_rows(rows, width, "prediction"), "auto")[0])
    members = [rows[number :: len(answers[0])] for number in range(len(answers[0]))]
    incomplete = sum(0 < len(present(predictions)) < len(predictions) for predictions in members)
    if incomplete:
        data.warnings.append(
            f"{incomplete} of {len(members)} predictions are means over fewer than {len(views)} prompts, because "
            "others have no prediction"
        )
    return [mean_row(present(predictions)) if present(predictions) else predictions[0] for predictions in members]
