"""What all calibrations share: how they ask a model, what they keep, and how they are saved.

A calibration learns something from prompts of the calibration set (:meth:`Calibration.train`) and then turns what the
model says about a prompt into probabilities of the labels. What it reads is its *feature*: the model's label
probabilities, its logits over the whole vocabulary, or its last hidden state. To write a new one, derive a class, name
the feature, and write ``train``, ``apply``, ``_learned`` and ``_restore`` (docs/adding_a_method.md works one out).

Trained calibrations are saved as plain numbers: JSON, or NPZ where there are large arrays; neither can run code when it
is read. :class:`CalibratedKernel` joins a kernel and a trained calibration to an inference function with ``batch`` and
``fingerprint``.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import zipfile
import zlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from StaICC.datasets.storage import write_beside
from StaICC.errors import ArgumentError, SchemaError
from StaICC.inference import Inference
from StaICC.optional import require
from StaICC.prefabricate_inference.calibration_samples import Variant, check_variant
from StaICC.prefabricate_inference.features import AT_ONCE, NEEDS, Feature, features_of

__all__ = ["CalibratedKernel", "Calibration", "load_calibration"]

Self = TypeVar("Self", bound="Calibration")

FORMAT = 1
"""Number of the format of saved calibrations."""


class Calibration:
    """Turns what a model says about a prompt into probabilities of the labels.

    Args:
        label_space: The labels.
        variant: ``"paper"``: as the method's own paper defines it; ``"0.1.1"``: as the release computes it.

    Raises:
        ArgumentError: The label space is not a list of distinct texts.
        UnknownNameError: There is no such variant.
    """

    name: ClassVar[str]
    """Name in files and fingerprints."""
    feature: ClassVar[Feature]
    """What it reads of the model."""
    types: ClassVar[dict[str, type[Calibration]]] = {}
    """Calibrations by name, for loading."""

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        if "name" in cls.__dict__:
            Calibration.types[cls.name] = cls

    def __init__(self, label_space: Sequence[str], *, variant: str = "paper") -> None:
        if isinstance(label_space, str) or not label_space or not all(isinstance(text, str) for text in label_space):
            raise ArgumentError(f"label_space must be a list of texts, not {label_space!r}")
        if len(set(label_space)) != len(label_space):
            raise ArgumentError(f"the labels must be distinct, not {list(label_space)!r}")
        self.label_space = list(label_space)
        self.variant: Variant = check_variant(variant)
        self.trained = False
        self.training_prompts = 0

    @property
    def n_label(self) -> int:
        """How many labels there are."""
        return len(self.label_space)

    # -- to be written by each calibration

    def train(self, *arguments: Any, **keywords: Any) -> None:
        """Learn from prompts of the calibration set."""
        raise NotImplementedError

    def apply(self, features: Any) -> list[list[float]]:
        """Turn features, one for each prompt, into probabilities of the labels, one row for each prompt."""
        raise NotImplementedError

    def _learned(self) -> dict[str, Any]:
        """Return what was learned: JSON values and arrays by name."""
        raise NotImplementedError

    def _restore(self, learned: Mapping[str, Any]) -> None:
        """Take back what :meth:`_learned` returned."""
        raise NotImplementedError

    def _options(self) -> dict[str, Any]:
        """Return the arguments of the class beside label space and variant, as JSON values."""
        return {}

    # -- what all have

    @property
    def reads(self) -> Feature:
        """What it reads of the model as it stands now."""
        return self.feature

    def check_trained(self) -> None:
        """Refuse to be used before training."""
        if not self.trained:
            raise ArgumentError(f"{self.name} is not trained yet; call train() or load a saved one first")

    def inference(self, label_space_prob: Any, full_vocab_prob: Any = None, hidden_state: Any = None) -> list[float]:
        """Calibrate one prediction: the ``calibration_function`` of ``model_kernel``.

        Args:
            label_space_prob: Probability of each label.
            full_vocab_prob: Logits of the whole vocabulary (0.1.1 calls them probabilities), shape (vocabulary,).
            hidden_state: Last hidden state, shape (width,).

        Returns:
            Calibrated probability of each label.

        Raises:
            ArgumentError: It is not trained, or what it reads was not given.
        """
        self.check_trained()
        given = {"probabilities": label_space_prob, "vocabulary": full_vocab_prob, "hidden": hidden_state}[self.reads]
        if given is None:
            raise ArgumentError(f"{self.name} reads {NEEDS[self.reads]}, which are missing")
        return self.apply([given])[0]

    def __call__(self, label_space_prob: Any, full_vocab_prob: Any = None, hidden_state: Any = None) -> list[float]:
        """As :meth:`inference`."""
        return self.inference(label_space_prob, full_vocab_prob, hidden_state)

    # -- files

    def _head(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "calibration": self.name,
            "variant": self.variant,
            "label_space": self.label_space,
            "options": self._options(),
            "training_prompts": self.training_prompts,
        }

    def digest(self) -> str:
        """Return a digest of everything that moves this calibration's numbers."""
        found = hashlib.sha256()
        head = {key: value for key, value in self._head().items() if key != "training_prompts"}
        plain, arrays = _apart(self._learned())
        found.update(json.dumps([head, plain], sort_keys=True).encode())
        for name in sorted(arrays):
            found.update(f"{name}{arrays[name].dtype}{arrays[name].shape}".encode() + arrays[name].tobytes())
        return found.hexdigest()

    @property
    def fingerprint(self) -> str:
        """What identifies the numbers of this calibration, the same in every process."""
        return f"{self.name}:{self.variant}:{self.digest()[:16]}"

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the trained calibration: as NPZ if the name ends so, else as JSON.

        Args:
            path: The file; written whole or not at all.

        Raises:
            ArgumentError: It is not trained.
        """
        self.check_trained()
        plain, arrays = _apart(self._learned())
        if Path(path).suffix == ".npz":
            numpy = require("numpy", "hf", "saving arrays")
            packed = io.BytesIO()
            numpy.savez(packed, head=numpy.array(json.dumps({**self._head(), "learned": plain})), **arrays)
            write_beside(Path(path), [packed.getvalue()])
        else:
            learned = plain | {name: array.tolist() for name, array in arrays.items()}
            text = json.dumps({**self._head(), "learned": learned}, ensure_ascii=False, allow_nan=False) + "\n"
            write_beside(Path(path), [text.encode("utf-8", "surrogatepass")])

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
        found = load_calibration(path)
        if not isinstance(found, cls):
            raise SchemaError(f"{os.fspath(path)} holds a {found.name}, not a {cls.name}")
        return found


def _apart(learned: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Tell plain values from arrays."""
    arrays = {name: value for name, value in learned.items() if hasattr(value, "tobytes")}
    return {name: value for name, value in learned.items() if name not in arrays}, arrays


def load_calibration(path: str | os.PathLike[str]) -> Calibration:
    """Read a saved calibration of any kind.

    Args:
        path: What :meth:`Calibration.save` wrote.

    Returns:
        The trained calibration.

    Raises:
        SchemaError: The file is none, damaged, or of a newer format.
    """
    data = Path(path).read_bytes()
    try:
        if data[:2] == b"PK":
            numpy = require("numpy", "hf", "loading arrays")
            with numpy.load(io.BytesIO(data), allow_pickle=False) as packed:
                head = json.loads(str(packed["head"][()]))
                head["learned"] |= {name: packed[name] for name in packed.files if name != "head"}
        else:
            head = json.loads(data.decode("utf-8", "surrogatepass"), parse_constant=_refuse_constant)
        if not isinstance(head, dict) or not isinstance(head.get("format"), int):
            raise SchemaError("this is no saved calibration")
        if head["format"] > FORMAT:
            raise SchemaError(f"it has format {head['format']}, this version reads up to {FORMAT}; upgrade staicc")
        kind = Calibration.types.get(head["calibration"])
        if kind is None:
            raise SchemaError(f"there is no calibration {head['calibration']!r}; import the module that defines it")
        made = kind(head["label_space"], variant=head["variant"], **head["options"])
        made._restore(head["learned"])
        made.training_prompts = int(head["training_prompts"])
        made.trained = True
        return made
    except SchemaError as error:
        raise SchemaError(f"{os.fspath(path)}: {error}") from error
    except (ValueError, TypeError, LookupError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise SchemaError(f"{os.fspath(path)}: the saved calibration cannot be read: {error!r}") from error


def _refuse_constant(name: str) -> None:
    raise SchemaError(f"{name} is no number of a calibration")


class CalibratedKernel:
    """A kernel with a trained calibration: an inference function with ``batch`` and ``fingerprint``.

    Args:
        kernel: What is asked. It must give what the calibration reads.
        calibration: The trained calibration.

    Raises:
        ArgumentError: The calibration is not trained.
    """

    def __init__(self, kernel: Inference, calibration: Calibration) -> None:
        calibration.check_trained()
        self.kernel = kernel
        self.calibration = calibration

    @property
    def fingerprint(self) -> str:
        """What identifies the numbers: those of the kernel and of the calibration."""
        from StaICC.inference.bound_store import fingerprint_of

        return f"{fingerprint_of(self.kernel)}|{self.calibration.fingerprint}"

    def __call__(self, prompt: Any, label_space: Sequence[str]) -> Any:
        """Return the calibrated probability of each label."""
        return self.batch([prompt], label_space)[0]

    def batch(self, prompts: Sequence[Any], label_space: Sequence[str]) -> list[Any]:
        """Return one row of calibrated probabilities for each prompt.

        Args:
            prompts: The prompts.
            label_space: The labels; those that the calibration was trained on.

        Returns:
            The rows. Where the kernel gave an exception in the place of a row, so does this.

        Raises:
            ArgumentError: The labels are others.
        """
        calibration = self.calibration
        if list(label_space) != calibration.label_space:
            raise ArgumentError(
                f"{calibration.name} was trained on the labels {calibration.label_space}, not {list(label_space)}"
            )
        found: list[Any] = []
        for start in range(0, len(prompts), AT_ONCE):
            features = features_of(self.kernel, prompts[start : start + AT_ONCE], label_space, calibration.reads)
            if calibration.reads == "probabilities":
                found += _where_answered(features, calibration.apply)
            else:
                found += calibration.apply(features)
        return found


def _where_answered(rows: Sequence[Any], apply: Callable[[list[Any]], list[list[float]]]) -> list[Any]:
    answered = [number for number, row in enumerate(rows) if not isinstance(row, BaseException)]
    done = iter(apply([rows[number] for number in answered])) if answered else iter(())
    return [row if isinstance(row, BaseException) else next(done) for row in rows]
