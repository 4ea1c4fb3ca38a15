"""Calibrations by nearness to labelled prompts: hidden calibration and k-nearest-neighbour prompting.

They read what label probabilities leave out (the last hidden state, or the logits of the full vocabulary), so they
need a local model. NumPy is imported when one is trained or used.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from StaICC.errors import ArgumentError, validate_integer
from StaICC.inference import Inference
from StaICC.methods import nearest
from StaICC.methods.calibration.base import Calibration
from StaICC.methods.calibration.prior import label_rows
from StaICC.methods.calibration.samples import (
    CalibrationSet,
    LabelledPrompts,
    PromptMaker,
    labelled_prompts,
)
from StaICC.methods.features import Feature

_ROWS: dict[Feature, str] = {"hidden": "hidden state", "vocabulary": "row of logits"}


class _LabelledCalibration(Calibration):
    """Learns from prompts about rows whose label is known.

    The release gives up (``failed``) where a label was not drawn, and answers as the model does.
    """

    def __init__(self, label_space: Sequence[str], *, variant: str = "paper") -> None:
        super().__init__(label_space, variant=variant)
        self.failed = False

    @property
    def reads(self) -> Feature:
        """What it reads: label probabilities after a training that failed (0.1.1 only)."""
        return "probabilities" if self.failed else self.feature

    def train(
        self,
        default_prompt_maker: PromptMaker,
        feedforward: Inference | None = None,
        calibration_set: CalibrationSet | None = None,
        calibration_number: int = 128,
        k: int = 4,
        *,
        feedforward_with_hidden_state: Inference | None = None,
        feedforward_with_full_token_prob: Inference | None = None,
        **options: Any,
    ) -> None:
        """As :meth:`Calibration.train`; ``feedforward`` may have one of its two names of 0.1.1.

        ``per_label=N`` draws N rows of each label instead of ``calibration_number`` rows.
        """
        function = feedforward or feedforward_with_hidden_state or feedforward_with_full_token_prob
        if function is None:
            raise ArgumentError("train needs feedforward, the function that asks the model")
        super().train(default_prompt_maker, function, calibration_set, calibration_number, k, **options)

    def samples(
        self, make_prompt: PromptMaker, calibration_set: CalibrationSet | None, number: int, k: int, **options: Any
    ) -> LabelledPrompts:
        """Return labelled prompts."""
        per_label = options.get("per_label")
        if per_label is None:
            self._check_number(number)
        return labelled_prompts(make_prompt, calibration_set, self.label_space, number, k, self.variant, per_label)

    def learn(self, rows: Any, labels: Sequence[int]) -> None:
        """Learn from hidden states or logits."""
        self._check_number(len(labels))
        matrix = nearest.finite_matrix(rows, f"calibration {_ROWS[self.feature]}")
        self.failed = self.variant == "0.1.1" and len(set(labels)) < self.n_label
        if not self.failed:
            self._learn(self._points(matrix), labels)

    def _check_number(self, calibration_number: int) -> None:
        """Refuse a number of samples that cannot do."""

    def _points(self, rows: Any) -> Any:
        """Turn what the model gives into what is kept."""
        return rows

    def _learn(self, points: Any, labels: Sequence[int]) -> None:
        raise NotImplementedError

    def _distances(self, rows: Any, anchors: Any) -> Any:
        return nearest.euclidean(rows, anchors)

    def _scores(self, rows: Any) -> Any:
        """Turn what the model gives, (n, d), into probabilities of the labels."""
        raise NotImplementedError

    def apply(self, features: Any) -> list[list[float]]:
        """Turn what the model gives, shape (n, d), into probabilities of the labels: n rows."""
        self.check_trained()
        if self.failed:
            return label_rows(features, self.n_label, "prompt")
        rows: list[list[float]] = self._scores(nearest.finite_matrix(features, _ROWS[self.feature])).tolist()
        return rows

    def _arrays(self) -> dict[str, Any]:
        raise NotImplementedError

    def _take_arrays(self, learned: Mapping[str, Any]) -> None:
        raise NotImplementedError

    def _learned(self) -> dict[str, Any]:
        return {"failed": self.failed} | ({} if self.failed else self._arrays())

    def _restore(self, learned: Mapping[str, Any]) -> None:
        self.failed = bool(learned["failed"])
        if not self.failed:
            self._take_arrays(learned)


class _CentroidCalibration(_LabelledCalibration):
    """One mean for each label; the nearer, the more probable."""

    centroid: Any = None

    def _learn(self, points: Any, labels: Sequence[int]) -> None:
        self.centroid = nearest.centroids(points, labels, self.label_space)

    def _scores(self, rows: Any) -> Any:
        return nearest.softmax(-self._distances(rows, self.centroid))

    def _arrays(self) -> dict[str, Any]:
        return {"centroid": self.centroid}

    def _take_arrays(self, learned: Mapping[str, Any]) -> None:
        self.centroid = nearest.finite_matrix(learned["centroid"], "centroid")
        if len(self.centroid) != self.n_label:
            raise ValueError("there is not one centroid for each label")


class _OverDistributions(_LabelledCalibration):
    """Reads the logits of the full vocabulary; in the paper's variant as distributions set apart by divergence."""

    feature: ClassVar[Feature] = "vocabulary"

    def __init__(self, label_space: Sequence[str], knn_k: int = 3, *, variant: str = "paper") -> None:
        super().__init__(label_space, variant=variant)
        self.knn_k = validate_integer("knn_k", knn_k, 1)

    def _options(self) -> dict[str, Any]:
        return {"knn_k": self.knn_k}

    def _points(self, rows: Any) -> Any:
        return rows if self.variant == "0.1.1" else nearest.distributions(rows)

    def _distances(self, rows: Any, anchors: Any) -> Any:
        if self.variant == "0.1.1":
            return nearest.euclidean(rows, anchors)
        return nearest.kullback_leibler(rows, anchors)


class HiddenCalibration(_CentroidCalibration):
    r"""Hidden calibration (Cho et al. 2024, "Token-based Decision Criteria Are Suboptimal in In-context Learning").

    Each label's centroid is the mean of the last hidden states of its calibration prompts; a prompt belongs to the
    nearest centroid. Probabilities are :math:`\operatorname{softmax}_y(-\lVert h - \bar h_y \rVert_2)`.

    Budget: ``calibration_number`` prompts. Needs hidden states, and no output matrix at all.

    ``variant="paper"``: rows without repetition, every label sampled; a label that has no row is an error.
    ``variant="0.1.1"``: rows with repetition; where a label was not drawn, predictions stay as the model gives them.

    Args:
        label_space: The labels.
        variant: ``"paper"`` or ``"0.1.1"``.
    """

    name: ClassVar[str] = "hidden_calibration"
    feature: ClassVar[Feature] = "hidden"


class KNNPrompting(_OverDistributions):
    r"""k-nearest-neighbour prompting (Xu, Wang, Mao, Lyu, She and Zhang 2023, "kNN Prompting").

    The distributions over the full vocabulary that follow the calibration prompts are anchors. Of the ``knn_k``
    anchors nearest to a prompt's distribution :math:`p` by :math:`D_{KL}(p_i \Vert p)`, each has one vote for its
    label.

    Budget: ``calibration_number`` prompts. Needs the logits of the full vocabulary. Memory: one row of the
    vocabulary's length for each anchor.

    ``variant="paper"``: probabilities are shares of the votes; a label without an anchor gets none. (The paper has
    fixed demonstrations for all prompts; here each prompt has its own.) ``variant="0.1.1"``: Euclidean distance of
    logits, softmax of the votes' counts, rows with repetition; where a label was not drawn, predictions stay as the
    model gives them. More neighbours than anchors are an error in both (0.1.1 counts the first anchor again and again).

    Args:
        label_space: The labels.
        knn_k: How many neighbours vote.
        variant: ``"paper"`` or ``"0.1.1"``.
    """

    name: ClassVar[str] = "knn_prompt"
    anchors: Any = None
    labels_of_anchors: Sequence[int] = ()

    def _check_number(self, calibration_number: int) -> None:
        if validate_integer("calibration_number", calibration_number, 1) < self.knn_k:
            raise ArgumentError(
                f"{calibration_number} calibration samples have no {self.knn_k} nearest; lower knn_k or raise "
                "calibration_number"
            )

    def _learn(self, points: Any, labels: Sequence[int]) -> None:
        self.anchors = points
        self.labels_of_anchors = list(labels)

    def _scores(self, rows: Any) -> Any:
        chosen = nearest.nearest(self._distances(rows, self.anchors), self.knn_k)
        counts = nearest.count_votes(chosen, self.labels_of_anchors, self.n_label)
        return nearest.softmax(counts) if self.variant == "0.1.1" else counts / self.knn_k

    def _arrays(self) -> dict[str, Any]:
        return {"anchors": self.anchors, "labels": list(self.labels_of_anchors)}

    def _take_arrays(self, learned: Mapping[str, Any]) -> None:
        self.anchors = nearest.finite_matrix(learned["anchors"], "anchor")
        self.labels_of_anchors = [int(label) for label in learned["labels"]]
        fits = all(0 <= label < self.n_label for label in self.labels_of_anchors)
        if len(self.labels_of_anchors) != len(self.anchors) or len(self.anchors) < self.knn_k or not fits:
            raise ValueError("the labels do not fit the anchors")


class KNNPromptingCentroid(_OverDistributions, _CentroidCalibration):
    r"""k-nearest-neighbour prompting with one centroid for each label, the form of StaICC's Table 2 (its appendix B.2).

    Budget: ``calibration_number`` prompts. Needs the logits of the full vocabulary.

    ``variant="paper"``: the divergence of :class:`KNNPrompting` between each label's mean distribution and that of the
    prompt, :math:`\operatorname{softmax}_y(-D_{KL}(\bar p_y \Vert p))`. ``variant="0.1.1"``: Euclidean distance of
    logits to mean logits; rows with repetition; where a label was not drawn, predictions stay as the model gives them.

    Args:
        label_space: The labels.
        knn_k: Accepted as in 0.1.1; centroids are not counted.
        variant: ``"paper"`` or ``"0.1.1"``.
    """

    name: ClassVar[str] = "knn_prompt_centroid"
