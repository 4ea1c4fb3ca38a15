"""Calibrations as objects with the call shapes of 0.1.1.

::

    calibration = hidden_calibration(experimentor.get_label_space())
    calibration.train(
        experimentor.prompt_former.write_prompt_from_dataline, feedforward, experimentor.calibration_set()
    )
    my_inference = functools.partial(
        model_kernel.standard_ICL_inference_with_torch_Causal_LM,
        model=model, tokenizer=tokenizer, calibration_function=calibration.inference,
    )

``feedforward(prompt, label_space)`` is any inference function. If it has a ``batch`` form, or is a kernel, it is called
once for all training prompts. ``CalibratedKernel(kernel, calibration)`` is the same inference function, batched.

The default is what the papers define, with one state for all queries. With ``variant="0.1.1"`` the arithmetic is that
of the release. Attributes have their names of 0.1.1, too.
"""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, TypeVar

from StaICC.arguments import validate_integer
from StaICC.errors import ArgumentError, SchemaError, unknown_name
from StaICC.inference.contract import Inference
from StaICC.inference.identity import Identity
from StaICC.methods import contextual_calibration as contextual
from StaICC.methods import dc_pmi, domain_calibration
from StaICC.methods.batch_calibration import batch_calibrated
from StaICC.methods.computed_features import features_of
from StaICC.methods.contract import check_variant
from StaICC.methods.hidden_calibration import CentroidState, hidden
from StaICC.methods.knn_prompt import VOTERS, AnchorState, nearest_anchors
from StaICC.methods.knn_prompt_centroid import nearest_centroid
from StaICC.methods.label_prior import PriorState
from StaICC.methods.label_scores import label_rows
from StaICC.methods.learned_state import load_state, save_state, state_digest
from StaICC.methods.linear_calibration import LinearState, linear
from StaICC.methods.prototypical_calibration import RESTARTS, MixtureState, prototypical
from StaICC.methods.released import calibration_arithmetic as released
from StaICC.methods.released.training_prompts import refuse_rows_of_each_label
from StaICC.methods.requests import CAPABILITIES, Feature
from StaICC.methods.temperature_scaling import TEMPERATURE, TemperatureState
from StaICC.methods.trained_calibration import Calibration, TrainingRows
from StaICC.methods.training_prompts import CalibrationSet, GivenSource
from StaICC.safe_text import one_line

Self = TypeVar("Self", bound="TrainableCalibration")


class TrainableCalibration:
    """Turns a feature of a model's prediction into probabilities of the labels.

    Args:
        label_space: The labels.
        variant: See :data:`~StaICC.methods.contract.Variant`.

    Attributes:
        label_space: The labels.
        variant: The variant.
        state: What was learned; ``None`` before training.
        training_prompts: How many prompts it was learned from.

    Raises:
        ArgumentError: The label space is not a list of distinct texts, or the release has no such calibration.
        UnknownNameError: There is no such variant.
    """

    name: ClassVar[str]
    """Name in files and identities."""
    feature: ClassVar[Feature] = "probabilities"
    """The feature that it uses."""
    in_release: ClassVar[bool] = False
    """Whether 0.1.1 has it."""
    training_options: ClassVar[Sequence[str]] = ()
    """The options of ``train``: arguments of :meth:`definition`."""

    def __init__(self, label_space: Sequence[str], *, variant: str = "paper") -> None:
        """Make an untrained calibration; the description of the class explains the arguments."""
        self.label_space = _distinct_texts(label_space)
        self.variant = check_variant(variant)
        if self.variant == "0.1.1" and not self.in_release:
            raise ArgumentError(f"variant '0.1.1': the release has no {self.name}. Use variant 'paper' or 'staicc'")
        self.state: Any = None
        self.training_prompts = 0

    # -- what differs

    def definition(self, *_: Any, **options: Any) -> Calibration:
        """Return how prompts are written, and how they are learned from and applied.

        Args:
            **options: Options of ``train`` that say which prompts are written.
        """
        raise NotImplementedError

    def options(self) -> dict[str, Any]:
        """Return the arguments other than label space and variant, as they are saved."""
        return {}

    # -- what all have

    @property
    def n_label(self) -> int:
        """How many labels there are."""
        return len(self.label_space)

    @property
    def trained(self) -> bool:
        """Whether it has learned."""
        return self.state is not None

    @property
    def reads(self) -> Feature:
        """The feature that it uses in its present state."""
        return self.definition().feature_for(self.state)

    def train(
        self,
        default_prompt_maker: Any,
        feedforward: Inference | None = None,
        calibration_set: CalibrationSet | None = None,
        calibration_number: int = 128,
        k: int = 4,
        **options: Any,
    ) -> None:
        """Write training prompts from the calibration set, run the model on them, and learn from what it returns.

        A further call begins anew. In variant ``"0.1.1"`` it continues, as in the release: the earlier prior is added
        to the sum of the new predictions, anchors are added, and centroids stay as they are.

        Args:
            default_prompt_maker: Returns a prompt from demonstrations and the texts of a query:
                ``experimentor.prompt_former.write_prompt_from_dataline``.
            feedforward: Runs the model: a kernel, or a function of a prompt and the labels. The function returns label
                probabilities; for a calibration that uses hidden states or logits, a tuple of label probabilities and
                these.
            calibration_set: The labelled rows that prompts are written from: ``experimentor.calibration_set()``.
            calibration_number: How many prompts.
            k: Demonstrations per prompt.
            **options: Which prompts: ``per_label=N`` draws N rows of each label, ``sample_length=N`` makes domain texts
                of N words, ``premise="text"`` is the domain premise. ``feedforward`` may have one of its other names of
                0.1.1, ``feedforward_with_hidden_state`` and ``feedforward_with_full_token_prob``.

        Raises:
            ArgumentError: There is no ``feedforward``, a number is invalid, the set is empty, or the function does not
                return the feature.
            OutputError: A feature is invalid (NaN, a label instead of probabilities).

        Warns:
            UserWarning: A label has no training prompt.
        """
        for released_name in ("feedforward_with_hidden_state", "feedforward_with_full_token_prob"):
            feedforward = options.pop(released_name, None) or feedforward
        for option in options:
            if option not in self.training_options:
                raise unknown_name(f"option of {self.name}.train", option, self.training_options)
        if feedforward is None:
            raise ArgumentError("train needs feedforward, the function that returns the model's predictions")

        definition = self.definition(**options)
        source = GivenSource(default_prompt_maker, calibration_set, self.label_space, calibration_number, k)
        prompts = definition.write_prompts(source)
        features = features_of(feedforward, prompts.all, self.label_space, definition.feature)
        training_rows = TrainingRows.of(prompts, features)
        if self.trained and isinstance(definition, released.ReleasedCalibration):  # a further call continues
            self.state = definition.learn_again(training_rows, self.label_space, self.state)
        else:
            self.state = definition.learn(training_rows, self.label_space)
        self.training_prompts = len(training_rows)
        warning = definition.warning(self.state, self.label_space)
        if warning is not None:
            warnings.warn(f"{one_line(self.name)}: {one_line(warning)}", UserWarning, stacklevel=2)

    def check_trained(self) -> None:
        """Refuse to be used before training."""
        if not self.trained:
            raise ArgumentError(f"{self.name} is not trained yet; call train() or load a saved one first")

    def apply(self, features: Any) -> list[list[float]]:
        """Turn features, one for each prompt, into probabilities of the labels, one row for each prompt."""
        self.check_trained()
        return self.definition().apply(self.state, features, self.label_space)

    def inference(self, label_space_prob: Any, full_vocab_prob: Any = None, hidden_state: Any = None) -> list[float]:
        """Calibrate one prediction: the ``calibration_function`` of ``model_kernel``.

        Args:
            label_space_prob: Probability of each label.
            full_vocab_prob: Logits of the full vocabulary (0.1.1 calls them probabilities), shape (vocabulary,).
            hidden_state: Last hidden state, shape (width,).

        Returns:
            Calibrated probability of each label.

        Raises:
            ArgumentError: It is not trained, or what it reads was not given.
        """
        self.check_trained()
        given = {"probabilities": label_space_prob, "vocabulary": full_vocab_prob, "hidden": hidden_state}
        feature = self.reads
        if given[feature] is None:
            raise ArgumentError(f"{self.name}: got None for {CAPABILITIES[feature].value}, which it uses")
        return self.apply([given[feature]])[0]

    def __call__(self, *features: Any, **named: Any) -> list[float]:
        """Calibrate one prediction: :meth:`inference`, or that of a subclass."""
        return self.inference(*features, **named)

    # -- identity and files

    def _facts(self) -> dict[str, Any]:
        """Return what says, next to the labels and the state, which calibration this is; files have it, too."""
        return {"calibration": self.name, "variant": self.variant, "options": self.options()}

    def digest(self) -> str:
        """Return a digest of everything that determines the numbers of this calibration."""
        return state_digest(self.state, {**self._facts(), "label_space": self.label_space})

    def identity(self) -> Identity:
        """Return the identity: class, variant, options, labels, and the digest of what it learned.

        Before training, the identity is incomplete.
        """
        settings = {"name": self.name, "variant": self.variant}
        for option, value in self.options().items():
            settings[option] = json.dumps(value)
        facts = {
            "class": f"{type(self).__module__}.{type(self).__qualname__}",
            "labels": json.dumps(self.label_space),  # not a setting: each data set has its labels
        }
        if not self.trained:
            return Identity(facts, settings, (f"{self.name} is not trained yet",))
        facts["learned"] = self.digest()
        return Identity(facts, settings)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the trained calibration: as NPZ if the name ends so, else as JSON.

        Args:
            path: The file, written atomically.

        Raises:
            ArgumentError: It is not trained.
        """
        self.check_trained()
        facts = {**self._facts(), "training_prompts": self.training_prompts}
        save_state(path, self.state, self.label_space, facts)

    @classmethod
    def load(cls: type[Self], path: str | os.PathLike[str]) -> Self:
        """Read what :meth:`save` wrote.

        Args:
            path: The file.

        Returns:
            The trained calibration.

        Raises:
            SchemaError: The file is none, damaged, of a newer format, or of another calibration.
        """
        calibration = load_calibration(path)
        if not isinstance(calibration, cls):
            raise SchemaError(f"{os.fspath(path)} holds a {calibration.name}, not a {cls.name}")
        return calibration


def _distinct_texts(label_space: Any) -> list[str]:
    """Return a label space as a list; raise an error if it is not a list of distinct texts, at least one."""
    texts: list[Any] = []
    if isinstance(label_space, Iterable) and not isinstance(label_space, str):
        texts = list(label_space)
    distinct = {text for text in texts if isinstance(text, str)}
    if not texts or len(distinct) < len(texts):
        raise ArgumentError(f"label_space must be a list of distinct texts, not {label_space!r}")
    return texts


# -- those of the release


class _PriorCalibration(TrainableCalibration):
    """Learns the mean prediction on prompts that should favour no label."""

    @property
    def prior(self) -> list[float]:
        """The mean prediction; empty before training."""
        return list(self.state.prior) if self.trained else []

    @property
    def calibrationA(self) -> list[float]:
        """The name of :attr:`prior` in 0.1.1."""
        return self.prior


class ContextualCalibration(_PriorCalibration):
    """Contextual calibration (Zhao et al. 2021) with one prior for all queries; see ``methods/contextual_calibration``.

    ``variant="0.1.1"``: empty texts only (otherwise "N/A", "[MASK]" and "" in turn), demonstrations with repetition,
    1e-5 added to the sum of the predictions.
    """

    name: ClassVar[str] = "contextual_calibration"
    in_release: ClassVar[bool] = True

    def definition(self) -> Calibration:
        """Return the definition in the variant."""
        return released.CONTEXTUAL if self.variant == "0.1.1" else contextual.ONE_PRIOR


class DomainCalibration(_PriorCalibration):
    """Domain calibration (Fei et al. 2023) with one prior for all queries; see ``methods/domain_calibration``.

    ``variant="0.1.1"``: a row, then a word of it, never the last; demonstrations with repetition; 1e-5 added to the
    sum; softmax of the quotients.
    """

    name: ClassVar[str] = "domain_calibration"
    in_release: ClassVar[bool] = True
    training_options: ClassVar[Sequence[str]] = ("sample_length",)

    def train(  # type: ignore[override]  # the order of arguments is that of 0.1.1
        self,
        default_prompt_maker: Any,
        feedforward: Inference,
        calibration_set: CalibrationSet | None = None,
        calibration_number: int = 128,
        sample_length: int = domain_calibration.SHARED_LENGTH,
        k: int = 4,
    ) -> None:
        """Learn the prior from the model's predictions for texts of random words.

        It is :meth:`TrainableCalibration.train`, with the arguments in their order of 0.1.1.

        Args:
            default_prompt_maker: Returns a prompt from demonstrations and the texts of a query:
                ``experimentor.prompt_former.write_prompt_from_dataline``.
            feedforward: A kernel, or a function of a prompt and the labels that returns label probabilities.
            calibration_set: The rows that words and demonstrations come from: ``experimentor.calibration_set()``.
            calibration_number: How many prompts.
            sample_length: How many random words each input text of a query has.
            k: Demonstrations per prompt.
        """
        super().train(
            default_prompt_maker, feedforward, calibration_set, calibration_number, k, sample_length=sample_length
        )

    def definition(self, sample_length: int = domain_calibration.SHARED_LENGTH) -> Calibration:
        """Return the definition in the variant."""
        if self.variant == "0.1.1":
            return released.domain(sample_length)
        return domain_calibration.one_prior(sample_length)


class _NearnessCalibration(TrainableCalibration):
    """Learns from prompts whose label is known; the nearer they are, the more probable is their label."""

    in_release: ClassVar[bool] = True
    training_options: ClassVar[Sequence[str]] = ("per_label",)

    @property
    def failed(self) -> bool:
        """Whether it gave up, because a label was not drawn (``"0.1.1"`` only): predictions stay as they are."""
        return isinstance(self.state, released.NotCalibrated)

    @property
    def _has_learned(self) -> bool:
        """Whether it has learned something: it is trained, and did not give up."""
        return self.trained and not self.failed

    def _refuse_balanced(self, per_label: int | None) -> None:
        """Refuse a number of rows of each label in variant ``"0.1.1"``, which draws rows of any label."""
        if self.variant == "0.1.1":
            refuse_rows_of_each_label("per_label", per_label)


class _CentroidCalibration(_NearnessCalibration):
    """Learns the mean of the features of each label: its centroid."""

    @property
    def centroid(self) -> Any:
        """The mean of each label: an array (labels, d); an empty list where nothing was learned."""
        return self.state.centroids if self._has_learned else []


class HiddenCalibration(_CentroidCalibration):
    """Hidden calibration (Cho et al. 2024); see ``methods/hidden_calibration``.

    ``variant="paper"``: rows without repetition, every label sampled; a label that has no row is an error.
    ``variant="0.1.1"``: rows with repetition; where a label was not drawn, predictions stay as the model gives them.
    """

    name: ClassVar[str] = "hidden_calibration"
    feature: ClassVar[Feature] = "hidden"

    def definition(self, per_label: int | None = None) -> Calibration:
        """Return the definition in the variant."""
        self._refuse_balanced(per_label)
        return released.HIDDEN if self.variant == "0.1.1" else hidden(per_label)


class _NeighbourCalibration(_NearnessCalibration):
    """Takes ``knn_k``, the number of nearest neighbours that vote."""

    feature: ClassVar[Feature] = "vocabulary"

    def __init__(self, label_space: Sequence[str], knn_k: int = VOTERS, *, variant: str = "paper") -> None:
        """Make an untrained calibration by the ``knn_k`` nearest neighbours."""
        super().__init__(label_space, variant=variant)
        self.knn_k = validate_integer("knn_k", knn_k, 1)

    def options(self) -> dict[str, Any]:
        """Return the number of neighbours."""
        return {"knn_k": self.knn_k}


class KNNPrompting(_NeighbourCalibration):
    """k-nearest-neighbour prompting (Xu et al. 2023); see ``methods/knn_prompt``.

    ``variant="0.1.1"``: Euclidean distance of logits, softmax of the votes' counts, rows with repetition; where a label
    was not drawn, predictions stay as the model gives them. More neighbours than anchors are an error in all variants
    (0.1.1 counts the first anchor again and again).

    Args:
        label_space: The labels.
        knn_k: How many neighbours vote.
        variant: See :data:`~StaICC.methods.contract.Variant`.
    """

    name: ClassVar[str] = "knn_prompt"

    def definition(self, per_label: int | None = None) -> Calibration:
        """Return the definition in the variant."""
        self._refuse_balanced(per_label)
        if self.variant == "0.1.1":
            return released.nearest_anchors(self.knn_k)
        return nearest_anchors(self.knn_k, per_label)

    @property
    def anchors(self) -> Any:
        """A row for each training prompt; an empty list where nothing was learned."""
        return self.state.anchors if self._has_learned else []

    @property
    def labels(self) -> list[int]:
        """The label index of each anchor."""
        return list(self.state.labels) if self._has_learned else []

    @property
    def labels_of_anchors(self) -> list[int]:
        """The name of :attr:`labels` in 0.1.1."""
        return self.labels

    @property
    def label_statics(self) -> list[int]:
        """How many anchors each label has."""
        return [self.labels.count(label) for label in range(self.n_label)]


class KNNPromptingCentroid(_NeighbourCalibration, _CentroidCalibration):
    """k-nearest-neighbour prompting with one centroid for each label; see ``methods/knn_prompt_centroid``.

    ``variant="0.1.1"``: Euclidean distance of logits to mean logits; rows with repetition; where a label was not drawn,
    predictions stay as the model gives them.

    Args:
        label_space: The labels.
        knn_k: Accepted as in 0.1.1; centroids are not counted.
        variant: See :data:`~StaICC.methods.contract.Variant`.
    """

    name: ClassVar[str] = "knn_prompt_centroid"

    def definition(self, per_label: int | None = None) -> Calibration:
        """Return the definition in the variant."""
        self._refuse_balanced(per_label)
        return released.CENTROID if self.variant == "0.1.1" else nearest_centroid(per_label)


def batch_calibration(
    label_space_probs: Sequence[Sequence[float]], batch_size: int = 128, *, variant: str = "paper"
) -> list[list[float]]:
    """Batch calibration (Zhou et al. 2024): divide by the batch's mean prediction; see ``methods/batch_calibration``.

    ``variant="0.1.1"``: the softmax of the difference to the mean of the unchanged scores; a last batch that is not
    full is a batch of its own.

    Args:
        label_space_probs: One row for each prompt, one number for each label.
        batch_size: Predictions in a batch.
        variant: See :data:`~StaICC.methods.contract.Variant`.

    Returns:
        One row of calibrated probabilities for each prompt.

    Raises:
        ArgumentError: The batch size is no integer of at least 1, or (not in ``"0.1.1"``) there is a single prediction
            or a batch size of 1.
        OutputError: A row cannot be read.
    """
    if check_variant(variant) != "0.1.1":
        return batch_calibrated(label_space_probs, batch_size)
    size = validate_integer("batch_size", batch_size, 1)
    return released.batch_calibration(label_rows(label_space_probs, None, "prediction"), size)


# -- those that the release does not have


class DomainPMI(_PriorCalibration):
    """Domain-conditional PMI (Holtzman et al. 2021); see ``methods/dc_pmi``."""

    name: ClassVar[str] = "dc_pmi"
    training_options: ClassVar[Sequence[str]] = ("premise",)

    def definition(self, premise: str | None = None) -> Calibration:
        """Return the definition."""
        return dc_pmi.domain_pmi(premise)


class TemperatureScaling(TrainableCalibration):
    """Temperature scaling (Guo et al. 2017); see ``methods/temperature_scaling``."""

    name: ClassVar[str] = "temperature_scaling"

    def definition(self) -> Calibration:
        """Return the definition."""
        return TEMPERATURE

    @property
    def temperature(self) -> float:
        """The temperature; 1 before training."""
        return self.state.temperature if self.trained else 1.0


class LinearCalibration(TrainableCalibration):
    """Linear calibration (Abbas et al. 2024); see ``methods/linear_calibration``.

    Args:
        label_space: The labels.
        learning_rate: Step size; ``None`` to choose it.
        epochs: How often each row is used; ``None`` to choose it.
        variant: See :data:`~StaICC.methods.contract.Variant`.
    """

    name: ClassVar[str] = "linear_calibration"

    def __init__(
        self,
        label_space: Sequence[str],
        learning_rate: float | None = None,
        epochs: int | None = None,
        *,
        variant: str = "paper",
    ) -> None:
        """Make an untrained calibration; the description of the class explains the arguments."""
        super().__init__(label_space, variant=variant)
        linear(learning_rate, epochs)  # refuses invalid numbers
        self.learning_rate = learning_rate
        self.epochs = epochs

    def options(self) -> dict[str, Any]:
        """Return step size and epochs."""
        return {"learning_rate": self.learning_rate, "epochs": self.epochs}

    def definition(self) -> Calibration:
        """Return the definition."""
        return linear(self.learning_rate, self.epochs)

    @property
    def weights(self) -> list[list[float]]:
        """For each label its weights; empty before training."""
        return [list(weights) for weights in self.state.weights] if self.trained else []

    @property
    def bias(self) -> list[float]:
        """The bias of each label; empty before training."""
        return list(self.state.bias) if self.trained else []


class PrototypicalCalibration(TrainableCalibration):
    """Prototypical calibration (Han et al. 2023); see ``methods/prototypical_calibration``.

    Args:
        label_space: The labels.
        restarts: How many fits, from different starts.
        variant: See :data:`~StaICC.methods.contract.Variant`.
    """

    name: ClassVar[str] = "prototypical_calibration"

    def __init__(self, label_space: Sequence[str], restarts: int = RESTARTS, *, variant: str = "paper") -> None:
        """Make an untrained calibration; the description of the class explains the arguments."""
        super().__init__(label_space, variant=variant)
        self.restarts = validate_integer("restarts", restarts, 1)

    def options(self) -> dict[str, Any]:
        """Return the number of fits."""
        return {"restarts": self.restarts}

    def definition(self) -> Calibration:
        """Return the definition."""
        return prototypical(self.restarts)

    @property
    def means(self) -> Any:
        """By label: the mean of its component (labels, labels); ``None`` before training."""
        return self.state.means if self.trained else None

    @property
    def covariances(self) -> Any:
        """By label: the covariance of its component (labels, labels, labels); ``None`` before training."""
        return self.state.covariances if self.trained else None


# -- reading any of them

CLASSES: Mapping[str, type[TrainableCalibration]] = {
    kind.name: kind
    for kind in (
        *(ContextualCalibration, DomainCalibration, HiddenCalibration, KNNPrompting, KNNPromptingCentroid),
        *(DomainPMI, TemperatureScaling, LinearCalibration, PrototypicalCalibration),
    )
}
"""The calibrations by name."""

STATE_CLASSES = (
    *(PriorState, CentroidState, AnchorState, TemperatureState, LinearState, MixtureState),
    released.NotCalibrated,
)
"""What they learn."""


def load_calibration(path: str | os.PathLike[str]) -> TrainableCalibration:
    """Read a saved calibration of any kind.

    Args:
        path: What ``save`` of a calibration wrote.

    Returns:
        The trained calibration.

    Raises:
        SchemaError: The file is none, damaged, or of a newer format.
    """
    saved = load_state(path, *STATE_CLASSES)
    try:
        return _calibration_of(saved.state, saved.label_space, saved.facts)
    except SchemaError as error:
        raise SchemaError(f"{os.fspath(path)}: {error}") from error
    except (ValueError, TypeError, LookupError) as error:
        raise SchemaError(f"{os.fspath(path)}: the saved calibration cannot be read: {error!r}") from error


def _calibration_of(state: Any, label_space: list[str], facts: Mapping[str, Any]) -> TrainableCalibration:
    """Return a trained calibration from what its file contains.

    Args:
        state: What it learned.
        label_space: The labels.
        facts: Its name, variant, options and number of training prompts.

    Raises:
        SchemaError: There is no calibration of this name, or it cannot have learned the state.
    """
    name = facts["calibration"]
    if name not in CLASSES:
        raise SchemaError(f"there is no calibration {name!r}, only {', '.join(CLASSES)}")
    calibration = CLASSES[name](label_space, variant=facts["variant"], **facts["options"])
    _check_state(calibration, state)
    calibration.state = state
    calibration.training_prompts = int(facts["training_prompts"])
    return calibration


def _check_state(calibration: TrainableCalibration, state: Any) -> None:
    """Refuse a state that the calibration cannot have learned.

    Raises:
        SchemaError: The state is of another class, has a label that the label space does not have, or a prior that
            predictions cannot be divided by.
    """
    is_released = calibration.variant == "0.1.1"
    state_class = calibration.definition().state
    # The release learns nothing from prompts that lack a label.
    is_not_calibrated = is_released and isinstance(state, released.NotCalibrated)
    if not isinstance(state, state_class) and not is_not_calibrated:
        raise SchemaError(f"a {calibration.name} has a {state_class.__name__}: got a {type(state).__name__}")
    if isinstance(state, AnchorState):
        largest_label = max(state.labels)
        label_count = len(calibration.label_space)
        if largest_label >= label_count:
            raise SchemaError(f"labels: got the label index {largest_label}, the label space has {label_count}")
    # The release divides by the mean of whatever the model returns, such as negative logits.
    if isinstance(state, PriorState) and not is_released:
        smallest = min(state.prior)
        if smallest <= 0:
            raise SchemaError(f"prior: got {smallest}, expected positive numbers: predictions are divided by them")
