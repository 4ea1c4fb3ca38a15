"""The base class of calibrations, saving and loading, and calibrated kernels.

A calibration learns from a *feature* of prompts of the calibration set (:meth:`Calibration.train`) and then turns the
feature of other prompts into probabilities of the labels. The feature is one of three: label probabilities, logits over
the full vocabulary, or the last hidden state. To add a calibration, derive a class, set ``feature``, and write
``state``, ``samples``, ``learn`` and ``apply`` (docs/adding_a_method.md has an example).

Trained calibrations are saved as plain numbers: JSON, or NPZ where there are large arrays; neither can run code when it
is read. :class:`CalibratedKernel` joins a kernel and a trained calibration to an inference function with ``batch`` and
``identity``.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import os
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import cycle, islice
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple, Protocol, TypeVar, cast, get_args

from StaICC.datasets.json_reading import parse_json, refuse_device
from StaICC.datasets.storage import write_output
from StaICC.errors import ArgumentError, SchemaError, unknown_name, validate_integer, whole_number
from StaICC.inference import Inference
from StaICC.inference.contract import Served, served_function
from StaICC.inference.identity import Identity, combined, identity_of
from StaICC.inference.recheck import tolerance_of
from StaICC.methods.features import AT_ONCE, NEEDS, Feature, apply_present, features_of, without_failures
from StaICC.optional import require
from StaICC.prompting import StableRandom, as_argument
from StaICC.prompting.prompt_writer import domain_queries, empty_queries

Self = TypeVar("Self", bound="Calibration")

FORMAT = 1
"""Number of the format of saved calibrations."""


class Calibration:
    """Turns a feature of a model's prediction into probabilities of the labels.

    Args:
        label_space: The labels.
        variant: See :data:`~StaICC.methods.calibration.base.Variant`.

    Raises:
        ArgumentError: The label space is not a list of distinct texts.
        UnknownNameError: There is no such variant.
    """

    name: ClassVar[str]
    """Name in files and identities."""
    feature: ClassVar[Feature]
    """The feature that it uses."""
    identifies_state: ClassVar[bool] = True
    """``_options`` and ``state`` name all that a subclass keeps."""
    state: ClassVar[Mapping[str, Any]] = {}
    """The attributes that are learned, which are saved, loaded and digested: for each a set of legal values, or its
    shape, such as ``()`` for a number and ``(LABELS, None)`` for a list with a row of any length for each label."""
    arrays: ClassVar[bool] = False
    """Whether the lists of lists in ``state`` are NumPy arrays."""
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
        self._training: dict[str, str] | None = None

    @property
    def n_label(self) -> int:
        """How many labels there are."""
        return len(self.label_space)

    # -- to be written by each calibration

    def samples(
        self, make_prompt: PromptMaker, calibration_set: CalibrationSet | None, number: int, k: int, **options: Any
    ) -> LabelledPrompts:
        """Return the prompts to learn from, with their labels (none where the method needs none)."""
        raise NotImplementedError

    def learn(self, rows: Any, labels: Sequence[int]) -> None:
        """Learn from the features of these prompts."""
        raise NotImplementedError

    def apply(self, features: Any) -> list[list[float]]:
        """Turn features, one for each prompt, into probabilities of the labels, one row for each prompt."""
        raise NotImplementedError

    def check_state(self) -> None:
        """Refuse loaded values that do not fit each other, with a ValueError."""

    def _options(self) -> dict[str, Any]:
        """Return the arguments of the class other than label space and variant, as JSON values."""
        return {}

    # -- what all have

    def train(
        self,
        default_prompt_maker: PromptMaker,
        feedforward: Inference,
        calibration_set: CalibrationSet | None = None,
        calibration_number: int = 128,
        k: int = 4,
        **options: Any,
    ) -> None:
        """Learn from prompts of the calibration set.

        Args:
            default_prompt_maker: ``experimentor.prompt_former.write_prompt_from_dataline``.
            feedforward: A kernel, or a function that returns the feature (for label probabilities, any inference
                function; otherwise a tuple of label probabilities and the feature).
            calibration_set: ``experimentor.calibration_set()``.
            calibration_number: How many prompts.
            k: Demonstrations per prompt.
            **options: Further arguments of :meth:`samples`.

        Raises:
            ArgumentError: A number is invalid, the set is empty, or the function does not return the feature.
            OutputError: A feature is invalid (NaN, a label instead of probabilities).
        """
        prompts, labels = self.samples(default_prompt_maker, calibration_set, calibration_number, k, **options)
        rows = features_of(feedforward, prompts, self.label_space, self.feature)
        prompts, labels = self.train_on(rows, prompts, labels)
        self._trained_on(feedforward, prompts, labels)

    def train_on(self, rows: Any, prompts: Sequence[Any], labels: Sequence[int] = ()) -> tuple[list[Any], list[int]]:
        """Learn from the features of prompts; failures are left out. Return the prompts and labels that are left."""
        rows, prompts, labels = without_failures(rows, prompts, labels or [0] * len(prompts))
        self.learn(rows, labels)
        self.training_prompts, self.trained = len(prompts), True
        return list(prompts), list(labels)

    @property
    def reads(self) -> Feature:
        """The feature that it uses in its present state."""
        return self.feature

    def check_trained(self) -> None:
        """Refuse to be used before training."""
        if not self.trained:
            raise ArgumentError(f"{self.name} is not trained yet; call train() or load a saved one first")

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
        given = {"probabilities": label_space_prob, "vocabulary": full_vocab_prob, "hidden": hidden_state}[self.reads]
        if given is None:
            raise ArgumentError(f"{self.name}: got None for {NEEDS[self.reads]}, which it uses")
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
            "training": self._training,
        }

    def digest(self) -> str:
        """Return a digest of everything that moves this calibration's numbers."""
        found = hashlib.sha256()
        head = {key: value for key, value in self._head().items() if key not in ("training_prompts", "training")}
        plain, arrays = _apart({name: getattr(self, name) for name in self.state})
        found.update(json.dumps([head, plain], sort_keys=True).encode())
        for name in sorted(arrays):
            exact = arrays[name].astype("float64")  # a file in JSON keeps the values, not the number type
            found.update(f"{name}{exact.shape}".encode() + exact.tobytes())
        return found.hexdigest()

    def _trained_on(self, kernel: Inference, prompts: Sequence[Any], labels: Sequence[int] = ()) -> None:
        """Record what it was trained on; called at the end of training.

        A kernel that cannot be identified leaves no record: the calibration is then identified by what it learned.
        """
        teacher = identity_of(kernel)
        data = json.dumps([list(map(as_argument, prompts)), list(labels)])
        self._training = (
            None
            if not teacher.complete
            else {
                "training kernel": teacher.digest,
                "training data": hashlib.sha256(data.encode("utf-8", "surrogatepass")).hexdigest(),
                "learned": self.digest(),
            }
        )

    def identity(self) -> Identity:
        """Class, variant, options, labels, kernel and training data.

        The learned numbers are part of it only if the training is not on record or they were changed after it: their
        last digits depend on the machine.
        """
        settings = {
            "name": self.name,
            "variant": self.variant,
            **{key: json.dumps(value) for key, value in self._options().items()},
        }
        kind = f"{type(self).__module__}.{type(self).__qualname__}"
        who = {"class": kind, "labels": json.dumps(self.label_space)}  # not a setting: each data set has its labels
        if not self.trained:
            return Identity(who, settings, (f"{self.name} is not trained yet",))
        now = self.digest()
        record = self._training
        if record is None or record["learned"] != now:
            return Identity(who | {"learned": now}, settings)
        return Identity(who | {key: value for key, value in record.items() if key != "learned"}, settings)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the trained calibration: as NPZ if the name ends so, else as JSON.

        Args:
            path: The file, written atomically.

        Raises:
            ArgumentError: It is not trained.
        """
        self.check_trained()
        plain, arrays = _apart({name: getattr(self, name) for name in self.state})
        if Path(path).suffix == ".npz":
            numpy = require("numpy", "hf", "saving arrays")
            packed = io.BytesIO()
            numpy.savez(packed, head=numpy.array(json.dumps({**self._head(), "learned": plain})), **arrays)
            write_output(path, [packed.getvalue()])
        else:
            learned = plain | {name: array.tolist() for name, array in arrays.items()}
            text = json.dumps({**self._head(), "learned": learned}, ensure_ascii=False, allow_nan=False) + "\n"
            write_output(path, [text.encode("utf-8", "surrogatepass")])

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
    """Return the plain values and the arrays; what was not learned is left out."""
    learned = {name: value for name, value in learned.items() if value is not None}
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
    refuse_device(path)
    data = Path(path).read_bytes()
    try:
        if data[:2] == b"PK":
            numpy = require("numpy", "hf", "loading arrays")
            with numpy.load(io.BytesIO(data), allow_pickle=False) as packed:
                head = parse_json(str(packed["head"][()]), "its head")
                head["learned"] |= {name: packed[name] for name in packed.files if name != "head"}
        else:
            head = parse_json(data, "its text")
        if not isinstance(head, dict) or not isinstance(head.get("format"), int):
            raise SchemaError("this is no saved calibration")
        if head["format"] > FORMAT:
            raise SchemaError(f"it has format {head['format']}, this version reads up to {FORMAT}; upgrade staicc")
        kind = Calibration.types.get(head["calibration"])
        if kind is None:
            raise SchemaError(f"there is no calibration {head['calibration']!r}; import the module that defines it")
        made = kind(head["label_space"], variant=head["variant"], **head["options"])
        for name, shape in kind.state.items():
            if name in head["learned"] or not head["learned"].get("failed"):
                setattr(made, name, _read_state(head["learned"][name], shape, made))
        made.check_state()
        made.training_prompts = int(head["training_prompts"])
        made.trained = True
        made._training = _training_record(head.get("training"))
        return made
    except SchemaError as error:
        raise SchemaError(f"{os.fspath(path)}: {error}") from error
    except (ValueError, TypeError, LookupError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise SchemaError(f"{os.fspath(path)}: the saved calibration cannot be read: {error!r}") from error


LABELS = "labels"
"""A dimension that is the number of labels."""


def _read_state(value: Any, shape: Any, made: Calibration) -> Any:
    """Return a loaded value as :attr:`Calibration.state` says; ValueError where it does not fit."""
    if isinstance(shape, frozenset):
        if value not in shape:
            raise ValueError(f"got {value!r:.40}, expected one of {sorted(shape)}")
        return value
    if made.arrays and len(shape) > 1:
        numpy = require("numpy", "hf", "loading arrays")
        array = numpy.asarray(value, float)
        sizes = [made.n_label if size == LABELS else size for size in shape]
        fits = array.ndim == len(shape) and all(
            size in (None, got) for size, got in zip(sizes, array.shape, strict=True)
        )
        if not fits or not array.size or not numpy.isfinite(array).all():
            raise ValueError(f"an array of shape {array.shape} does not fit the label space")
        return array
    if not shape:
        if not math.isfinite(value):
            raise ValueError(f"got {value}, expected a finite number")
        return float(value)
    if shape[0] == LABELS and len(value) != made.n_label:
        raise ValueError(f"a list of {len(value)} does not fit the label space of {made.n_label}")
    return [_read_state(part, shape[1:], made) for part in value]


def _training_record(found: object) -> dict[str, str] | None:
    names = {"training kernel", "training data", "learned"}
    if not isinstance(found, dict) or set(found) != names or not all(isinstance(one, str) for one in found.values()):
        return None
    return dict(found)


class CalibratedKernel:
    """A kernel with a trained calibration: an inference function with ``batch`` and ``identity``.

    Args:
        kernel: The kernel. It must provide the feature that the calibration uses.
        calibration: The trained calibration.

    Raises:
        ArgumentError: The calibration is not trained.
    """

    def __init__(self, kernel: Inference, calibration: Calibration) -> None:
        calibration.check_trained()
        self.kernel = kernel
        self.calibration = calibration

    def identity(self) -> Identity:
        """The identity of the kernel, with that of the calibration."""
        return combined(identity_of(self.kernel), "calibration", identity_of(self.calibration))

    @property
    def recheck_tolerance(self) -> float | None:
        """That of the kernel."""
        return tolerance_of(self.kernel)

    def served(self) -> Served | None:
        """The kernel, if a server runs its model."""
        return served_function(self.kernel)

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
            found += apply_present(features, calibration.apply)
        return found


Variant = Literal["paper", "staicc", "0.1.1"]
"""``"paper"``: as the method's own paper defines it; ``"staicc"``: the protocol of StaICC's Table 2, the same number of
calibration samples for all methods; ``"0.1.1"``: as the release computes it."""

PromptMaker = Callable[[list[Any], list[str]], Any]
"""Writes a prompt from demonstrations (rows of a set) and the input texts of the query."""

CONTENT_FREE = ("N/A", "[MASK]", "")
"""The three content-free texts of Zhao et al. (2021)."""


class CalibrationSet(Protocol):
    """A calibration set: rows of (input texts, label)."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int, /) -> tuple[list[str], Any]: ...


class LabelledPrompts(NamedTuple):
    """Prompts whose query has a known label."""

    prompts: list[Any]
    labels: list[int]
    """Label index of each prompt's row."""


def check_variant(variant: str) -> Variant:
    """Return a variant, or refuse it."""
    for known in get_args(Variant):
        if variant == known:
            return cast(Variant, known)
    raise unknown_name("variant", variant, get_args(Variant))


def _checked(calibration_set: CalibrationSet | None, number: int, k: int) -> tuple[CalibrationSet, int, int]:
    if calibration_set is None or not len(calibration_set):
        raise ArgumentError("the calibration set is empty. Pass experimentor.calibration_set()")
    return calibration_set, validate_integer("calibration_number", number, 1), validate_integer("k", k, 0)


def _unlabelled(
    make_prompt: PromptMaker,
    rows: CalibrationSet,
    queries: Iterator[Sequence[str]],
    number: int,
    k: int,
    variant: Variant,
) -> list[Any]:
    generator, size = StableRandom(), len(rows)
    prompts = []
    for query in islice(queries, number):
        released = variant == "0.1.1"  # draws with repetition
        places = [generator.integer(0, size) for _ in range(k)] if released else generator.sample_indexes(size, k)
        prompts.append(make_prompt([rows[place] for place in places], list(query)))
    return prompts


def content_free_prompts(
    make_prompt: PromptMaker, calibration_set: CalibrationSet | None, number: int, k: int, variant: Variant
) -> list[Any]:
    """Return prompts with a content-free query.

    Args:
        make_prompt: Writes a prompt.
        calibration_set: Where demonstrations come from.
        number: How many prompts.
        k: Demonstrations per prompt.
        variant: ``"0.1.1"`` takes the empty text only, the others the texts of :data:`CONTENT_FREE` in turn.

    Returns:
        The prompts.

    Raises:
        ArgumentError: A number is unfit, or there is no calibration set.
    """
    rows, number, k = _checked(calibration_set, number, k)
    columns = len(rows[0][0])
    in_turn = ((text,) * columns for text in cycle(CONTENT_FREE))
    queries = empty_queries(columns) if variant == "0.1.1" else in_turn
    return _unlabelled(make_prompt, rows, queries, number, k, variant)


def domain_prompts(
    make_prompt: PromptMaker,
    calibration_set: CalibrationSet | None,
    number: int,
    k: int,
    length: int,
    variant: Variant,
) -> list[Any]:
    """Return prompts whose query is random words of the calibration set.

    Args:
        make_prompt: Writes a prompt.
        calibration_set: Where words and demonstrations come from.
        number: How many prompts.
        k: Demonstrations per prompt.
        length: Words in each input text.
        variant: ``"0.1.1"`` draws a row, then a word of it, and never the last row or a row's last word; the others
            draw from all words of the set, each occurrence alike.

    Returns:
        The prompts.

    Raises:
        ArgumentError: A number is unfit, there is no calibration set, or it has no words.
    """
    rows, number, k = _checked(calibration_set, number, k)
    length = validate_integer("sample_length", length, 1)
    if variant == "0.1.1":
        queries: Iterator[Sequence[str]] = domain_queries(_WithTexts(rows), length)  # type: ignore[arg-type]
    else:
        queries = _random_words(rows, length)
    return _unlabelled(make_prompt, rows, queries, number, k, variant)


class _WithTexts:
    """Any calibration set, as :func:`~StaICC.prompting.prompt_writer.domain_queries` wants one."""

    def __init__(self, rows: CalibrationSet) -> None:
        self._rows = rows

    def __len__(self) -> int:
        return len(self._rows)

    def texts(self, index: int) -> list[str]:
        return self._rows[index][0]


def domain_texts(rows: CalibrationSet, number: int, length: int | None = None) -> list[tuple[str, ...]]:
    """Return texts of random words, as Fei et al. (2023) write them: lower case, with a full stop at the end.

    Args:
        rows: Where the words come from. (The authors take the test set.)
        number: How many texts.
        length: Words in each; ``None`` for the average number of words of the set's texts, rounded down.
    """
    texts = [[text.lower() for text in rows[index][0]] for index in range(len(rows))]
    means = [sum(len(text.split()) for text in column) // len(texts) for column in zip(*texts, strict=True)]
    generator = StableRandom()
    bags = _bags_of_words(texts)
    lengths = [max(1, mean) if length is None else validate_integer("sample_length", length, 1) for mean in means]
    return [
        tuple(
            " ".join(bag[generator.integer(0, len(bag))] for _ in range(count)) + " ."
            for bag, count in zip(bags, lengths, strict=True)
        )
        for _ in range(validate_integer("texts", number, 1))
    ]


def _bags_of_words(texts: Sequence[Sequence[str]]) -> list[list[str]]:
    """Return the words of each column of texts."""
    bags = [[word for text in column for word in text.split()] for column in zip(*texts, strict=True)]
    if not bags or not all(bags):
        raise ArgumentError("the calibration set has no words to draw a domain text from")
    return bags


def _random_words(rows: CalibrationSet, length: int) -> Iterator[list[str]]:
    bags = _bags_of_words([rows[index][0] for index in range(len(rows))])
    generator = StableRandom()
    while True:
        yield [" ".join(bag[generator.integer(0, len(bag))] for _ in range(length)) for bag in bags]


def labelled_prompts(
    make_prompt: PromptMaker,
    calibration_set: CalibrationSet | None,
    label_space: Sequence[str],
    number: int,
    k: int,
    variant: Variant,
    per_label: int | None = None,
) -> LabelledPrompts:
    """Write prompts about rows of the calibration set, whose labels are known.

    Args:
        make_prompt: Writes a prompt.
        calibration_set: Where queries and demonstrations come from.
        label_space: The labels.
        number: How many prompts.
        k: Demonstrations per prompt.
        variant: ``"0.1.1"``: demonstrations, then the row, drawn with repetition. Otherwise no row is used twice before
            all were used, none is one of its own demonstrations, and each label that the set has is drawn where
            ``number`` allows (the last rows of the most frequent labels give way).
        per_label: Draw this many rows of each label instead of ``number``; all rows of a label that has fewer.

    Returns:
        The prompts with their label indexes.

    Raises:
        ArgumentError: A number is unfit, there is no calibration set, or a row's label is not in the label space.
    """
    rows, number, k = _checked(calibration_set, number, k)
    size = len(rows)
    generator = StableRandom()
    if variant == "0.1.1":
        drawn = [[generator.integer(0, size) for _ in range(k + 1)] for _ in range(number)]
        queries, lists = [one[-1] for one in drawn], [one[:-1] for one in drawn]
    else:
        if size < 2 and k:
            raise ArgumentError(
                "a calibration set of one row leaves no demonstration for it; use k = 0 or a larger set"
            )
        queries = (
            _covering(generator, rows, label_space, number)
            if per_label is None
            else _balanced(generator, rows, label_space, validate_integer("samples_per_label", per_label, 1))
        )
        lists = [_others(generator, size, k, query) for query in queries]
    prompts = [
        make_prompt([rows[place] for place in places], list(rows[query][0]))
        for places, query in zip(lists, queries, strict=True)
    ]
    return LabelledPrompts(prompts, [_label_index(rows[query][1], label_space) for query in queries])


def _others(generator: StableRandom, size: int, k: int, query: int) -> list[int]:
    """Draw demonstrations from all rows but the query's."""
    return [index + (index >= query) for index in generator.sample_indexes(size - 1, k)] if k else []


def _balanced(generator: StableRandom, rows: CalibrationSet, label_space: Sequence[str], count: int) -> list[int]:
    """Draw equally many rows of each label."""
    labels = [_label_index(rows[index][1], label_space) for index in range(len(rows))]
    drawn: list[int] = []
    for label in range(len(label_space)):
        own = [index for index, each in enumerate(labels) if each == label]
        drawn += [own[place] for place in generator.sample_indexes(len(own), min(count, len(own)))]
    return drawn


def _covering(generator: StableRandom, rows: CalibrationSet, label_space: Sequence[str], number: int) -> list[int]:
    """Draw the rows that are asked, each label that the set has among them if the number allows."""
    order = generator.sample_indexes(len(rows), len(rows))
    labels = [_label_index(rows[index][1], label_space) for index in order]
    places = [place % len(order) for place in range(number)]
    missing = [label for label in range(len(label_space)) if label not in {labels[place] for place in places}]
    for label in missing:
        if label not in labels:
            continue
        asked = [labels[place] for place in places]
        frequent = max(range(len(label_space)), key=asked.count)
        if asked.count(frequent) < 2:
            break
        given_up = len(asked) - 1 - asked[::-1].index(frequent)
        places[given_up] = labels.index(label)
    return [order[place] for place in places]


def _label_index(label: object, label_space: Sequence[str]) -> int:
    index = whole_number(label)
    if index is not None and 0 <= index < len(label_space):
        return index
    if isinstance(label, str) and label in label_space:
        return list(label_space).index(label)
    raise ArgumentError(f"the calibration set has the label {label!s}, which is not one of {', '.join(label_space)}")
