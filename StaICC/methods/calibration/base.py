"""What all calibrations share: training on labelled prompts, saving, use as a kernel or as a method.

A calibration learns from a *feature* of prompts of the calibration set (:meth:`Calibration.train`) and then turns the
feature of other prompts into probabilities of the labels. The feature is one of three: label probabilities, logits over
the full vocabulary, or the last hidden state. To add a calibration, derive a class, set ``feature``, and write
``state``, ``samples``, ``learn`` and ``apply`` (docs/adding_a_method.md has an example).

Trained calibrations are saved as plain numbers: JSON, or NPZ where there are large arrays; neither can run code when it
is read. :class:`CalibratedKernel` joins a kernel and a trained calibration to an inference function with ``batch`` and
``identity``.

Prompts that calibrations learn from: content-free ones, random words, and rows of the calibration set.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import os
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import partial
from itertools import cycle, islice, repeat
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple, Protocol, TypeVar, get_args

from StaICC.arguments import validate_integer, whole_number
from StaICC.errors import ArgumentError, OutputError, SchemaError
from StaICC.files.json_reading import parse_json, refuse_device
from StaICC.files.output import write_output
from StaICC.inference.contract import Inference, Served, served_function
from StaICC.inference.identity import Identity, identity_of
from StaICC.methods import features
from StaICC.methods import specification as spec
from StaICC.metrics.classification import Kind, normalise, numeric_rows
from StaICC.prompting.demonstrations import rows_by_label
from StaICC.prompting.stable_random import StableRandom


class CalibrationSet(Protocol):
    """A calibration set: rows of (input texts, label)."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int, /) -> tuple[list[str], Any]: ...


class LabelledPrompts(NamedTuple):
    """Prompts whose query has a known label."""

    prompts: list[Any]
    labels: list[int]
    """Label index of each prompt's row."""


def checked_set(calibration_set: CalibrationSet | None, number: int, k: int) -> tuple[CalibrationSet, int, int]:
    """Return the arguments; refuse an empty set and numbers that are too small."""
    if calibration_set is None or not len(calibration_set):
        raise ArgumentError("the calibration set is empty. Pass experimentor.calibration_set()")
    return calibration_set, validate_integer("calibration_number", number, 1), validate_integer("k", k, 0)


def domain_texts(rows: CalibrationSet, number: int, length: int | None = None) -> list[tuple[str, ...]]:
    """Return texts of random words, as Fei et al. (2023) write them: lower case, with a full stop at the end.

    Args:
        rows: Where the words come from. (The authors take the test set.)
        number: How many texts.
        length: Words in each; ``None`` for the average number of words of the set's texts, rounded down.
    """
    texts = [[text.lower() for text in rows[index][0]] for index in range(len(rows))]
    means = [sum(len(text.split()) for text in column) // len(texts) for column in zip(*texts, strict=True)]
    lengths = [max(1, mean) if length is None else validate_integer("sample_length", length, 1) for mean in means]
    drawn = islice(random_texts(texts, lengths), validate_integer("texts", number, 1))
    return [tuple(f"{text} ." for text in columns) for columns in drawn]


def random_texts(texts: Sequence[Sequence[str]], lengths: Sequence[int]) -> Iterator[list[str]]:
    """Return texts of random words of each column, each occurrence alike."""
    bags = [[word for text in column for word in text.split()] for column in zip(*texts, strict=True)]
    if not bags or not all(bags):
        raise ArgumentError("the calibration set has no words to draw a domain text from")
    generator, drawn = StableRandom(), list(zip(bags, lengths, strict=True))
    return (
        [" ".join(bag[generator.integer(0, len(bag))] for _ in range(length)) for bag, length in drawn]
        for _ in repeat(0)
    )


def labelled_prompts(
    make_prompt: spec.PromptMaker,
    calibration_set: CalibrationSet | None,
    label_space: Sequence[str],
    number: int,
    k: int,
    variant: spec.Variant,
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
    rows, number, k = checked_set(calibration_set, number, k)
    size, generator = len(rows), StableRandom()
    labels = [_label_index(rows[place][1], label_space) for place in range(size)]
    if variant == "0.1.1":
        drawn = [[generator.integer(0, size) for _ in range(k + 1)] for _ in range(number)]
        queries, lists = [positions[-1] for positions in drawn], [positions[:-1] for positions in drawn]
    elif size < 2 and k:
        raise ArgumentError("a calibration set of one row leaves no demonstration for it; use k = 0 or a larger set")
    else:
        if per_label is None:
            queries = _covering(generator, labels, number)
        else:
            queries = _balanced(generator, labels, validate_integer("samples_per_label", per_label, 1))
        others = [generator.sample_indexes(size - 1, k) for _ in queries]  # demonstrations: all rows but the query's
        lists = [[place + (place >= query) for place in own] for query, own in zip(queries, others, strict=True)]
    shown = [[rows[place] for place in positions] for positions in lists]
    prompts = [make_prompt(own, list(rows[query][0])) for own, query in zip(shown, queries, strict=True)]
    return LabelledPrompts(prompts, [labels[query] for query in queries])


def _balanced(generator: StableRandom, labels: Sequence[int], count: int) -> list[int]:
    """Draw equally many rows of each label."""
    groups = sorted(rows_by_label(labels), key=lambda rows: labels[rows[0]])
    return [rows[place] for rows in groups for place in generator.sample_indexes(len(rows), min(count, len(rows)))]


def _covering(generator: StableRandom, labels: Sequence[int], number: int) -> list[int]:
    """Draw query rows, each label that the set has among them if the number allows."""
    order = generator.sample_indexes(len(labels), len(labels))
    chosen = [order[place % len(order)] for place in range(number)]
    for label in sorted({*labels}.difference(labels[row] for row in chosen)):
        drawn = [labels[row] for row in chosen]
        frequent = max(sorted({*drawn}), key=drawn.count)
        if drawn.count(frequent) < 2:
            break
        replaced = len(drawn) - 1 - drawn[::-1].index(frequent)
        chosen[replaced] = next(row for row in order if labels[row] == label)
    return chosen


def _label_index(label: object, label_space: Sequence[str]) -> int:
    index = whole_number(label)
    if index is None and isinstance(label, str) and label in label_space:
        index = list(label_space).index(label)
    if index is None or not 0 <= index < len(label_space):
        raise ArgumentError(
            f"the calibration set has the label {label!s}, which is not one of {', '.join(label_space)}"
        )
    return index


Self = TypeVar("Self", bound="Calibration")

FORMAT = 1
"""Number of the format of saved calibrations."""


class Calibration:
    """Turns a feature of a model's prediction into probabilities of the labels.

    Args:
        label_space: The labels.
        variant: See :data:`~StaICC.methods.specification.Variant`.

    Raises:
        ArgumentError: The label space is not a list of distinct texts.
        UnknownNameError: There is no such variant.
    """

    name: ClassVar[str]
    """Name in files and identities."""
    feature: ClassVar[features.Feature]
    """The feature that it uses."""
    options: ClassVar[tuple[str, ...]] = ()
    """Its arguments other than label space and variant: numbers that are attributes, too."""
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
        given = list(label_space) if isinstance(label_space, Iterable) and not isinstance(label_space, str) else []
        if not given or len({text for text in given if isinstance(text, str)}) < len(given):
            raise ArgumentError(f"label_space must be a list of distinct texts, not {label_space!r}")
        self.label_space = given
        self.variant: spec.Variant = spec.check_variant(variant)
        self.trained = False
        self.training_prompts = 0

    @property
    def n_label(self) -> int:
        """How many labels there are."""
        return len(self.label_space)

    # -- to be written by each calibration

    def samples(
        self, make_prompt: spec.PromptMaker, calibration_set: CalibrationSet | None, number: int, k: int, **options: Any
    ) -> LabelledPrompts:
        """Return the prompts to learn from, with their labels (none where the method needs none).

        By default these are labelled prompts; ``per_label=N`` draws N rows of each label.
        """
        per_label = options.get("per_label")
        return labelled_prompts(make_prompt, calibration_set, self.label_space, number, k, self.variant, per_label)

    def learn(self, rows: Any, labels: Sequence[int]) -> None:
        """Learn from the features of these prompts."""
        raise NotImplementedError

    def apply(self, features: Any) -> list[list[float]]:
        """Turn features, one for each prompt, into probabilities of the labels, one row for each prompt."""
        raise NotImplementedError

    def fallback(self) -> str | None:
        """Return in what the trained calibration does something else than its name says; ``None`` if in nothing."""
        return None

    def check_state(self) -> None:
        """Refuse loaded values that do not fit each other, with a ValueError."""

    # -- what all have

    def train(
        self,
        default_prompt_maker: spec.PromptMaker,
        feedforward: Inference | None = None,
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
            **options: Further arguments of :meth:`samples`. ``feedforward`` may have one of its other names of 0.1.1,
                ``feedforward_with_hidden_state`` and ``feedforward_with_full_token_prob``.

        Raises:
            ArgumentError: There is no ``feedforward``, a number is invalid, the set is empty, or the function does not
                return the feature.
            OutputError: A feature is invalid (NaN, a label instead of probabilities).
        """
        for name in ("feedforward_with_hidden_state", "feedforward_with_full_token_prob"):
            feedforward = options.pop(name, None) or feedforward
        if feedforward is None:
            raise ArgumentError("train needs feedforward, the function that returns the model's predictions")
        prompts, labels = self.samples(default_prompt_maker, calibration_set, calibration_number, k, **options)
        rows = features.features_of(feedforward, prompts, self.label_space, self.feature)
        self.train_on(rows, prompts, labels)

    def train_on(self, rows: Any, prompts: Sequence[Any], labels: Sequence[int] = ()) -> None:
        """Learn from the features of prompts; failures are left out."""
        rows, prompts, labels = features.without_failures(rows, prompts, labels or [0] * len(prompts))
        self.learn(rows, labels)
        self.training_prompts, self.trained = len(prompts), True

    @property
    def reads(self) -> features.Feature:
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
            raise ArgumentError(f"{self.name}: got None for {features.CAPABILITIES[self.reads].value}, which it uses")
        return self.apply([given])[0]

    def __call__(self, *features: Any, **named: Any) -> list[float]:
        """As :meth:`inference`, also where a subclass has its own."""
        return self.inference(*features, **named)

    # -- files

    def _head(self) -> dict[str, Any]:
        options = {name: getattr(self, name) for name in self.options}
        head = {"format": FORMAT, "calibration": self.name, "variant": self.variant, "label_space": self.label_space}
        return head | {"options": options}

    def _learned(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the plain values and the arrays; what was not learned is left out."""
        learned = {name: value for name in self.state if (value := getattr(self, name)) is not None}
        arrays = {name: value for name, value in learned.items() if hasattr(value, "tobytes")}
        return {name: value for name, value in learned.items() if name not in arrays}, arrays

    def digest(self) -> str:
        """Return a digest of everything that moves this calibration's numbers."""
        plain, arrays = self._learned()
        digest = hashlib.sha256(json.dumps([self._head(), plain], sort_keys=True).encode())
        for name in sorted(arrays):
            exact = arrays[name].astype("float64")  # a file in JSON keeps the values, not the number type
            digest.update(f"{name}{exact.shape}".encode() + exact.tobytes())
        return digest.hexdigest()

    def identity(self) -> Identity:
        """Class, variant, options, labels, and the digest of what it learned."""
        settings = {"name": self.name, "variant": self.variant}
        settings |= {name: json.dumps(getattr(self, name)) for name in self.options}
        kind = f"{type(self).__module__}.{type(self).__qualname__}"
        who = {"class": kind, "labels": json.dumps(self.label_space)}  # not a setting: each data set has its labels
        if not self.trained:
            return Identity(who, settings, (f"{self.name} is not trained yet",))
        return Identity(who | {"learned": self.digest()}, settings)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the trained calibration: as NPZ if the name ends so, else as JSON.

        Args:
            path: The file, written atomically.

        Raises:
            ArgumentError: It is not trained.
        """
        self.check_trained()
        plain, arrays = self._learned()
        head, packed = self._head() | {"training_prompts": self.training_prompts}, io.BytesIO()
        if Path(path).suffix == ".npz":
            features.numpy.savez(packed, head=features.numpy.array(json.dumps({**head, "learned": plain})), **arrays)
        else:
            learned = plain | {name: array.tolist() for name, array in arrays.items()}
            text = json.dumps({**head, "learned": learned}, ensure_ascii=False, allow_nan=False) + "\n"
            packed.write(text.encode("utf-8", "surrogatepass"))
        write_output(path, [packed.getvalue()])

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
            with features.numpy.load(io.BytesIO(data), allow_pickle=False) as packed:
                head = parse_json(str(packed["head"][()]), "its head")
                head["learned"] |= {name: packed[name] for name in packed.files if name != "head"}
        else:
            head = parse_json(data, "its text")
        if head["format"] > FORMAT:
            raise SchemaError(f"it has format {head['format']}, this version reads up to {FORMAT}; upgrade staicc")
        kind = Calibration.types.get(head["calibration"])
        if kind is None:
            raise SchemaError(f"there is no calibration {head['calibration']!r}; import the module that defines it")
        made = kind(head["label_space"], variant=head["variant"], **head["options"])
        for name, shape in kind.state.items():
            if name in head["learned"] or not head["learned"].get("failed"):
                setattr(made, name, _checked_state(head["learned"][name], shape, made))
        made.check_state()
        made.training_prompts = int(head["training_prompts"])
        made.trained = True
        return made
    except (ValueError, TypeError, LookupError, AttributeError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        reason = error if isinstance(error, SchemaError) else f"the saved calibration cannot be read: {error!r}"
        raise SchemaError(f"{os.fspath(path)}: {reason}") from error


LABELS = "labels"
"""A dimension that is the number of labels."""


def _checked_state(value: Any, shape: Any, made: Calibration) -> Any:
    """Return a loaded value, as an array if it is one; ValueError where it is not as :attr:`Calibration.state` says."""
    if made.arrays and isinstance(shape, tuple) and len(shape) > 1:
        value = features.numpy.asarray(value, float)
    if not _fits(value.tolist() if hasattr(value, "tolist") else value, shape, made.n_label):
        raise ValueError(f"got {value!r:.60}, which does not fit the label space")
    return value


def _fits(value: Any, shape: Any, width: int) -> bool:
    if isinstance(shape, frozenset):
        return value in shape
    if not shape:
        return math.isfinite(value)
    sizes = [width] if shape[0] == LABELS else range(1, len(value) + 1)
    return len(value) in sizes and all(_fits(part, shape[1:], width) for part in value)


@dataclass(eq=False)
class CalibratedKernel(features.KernelFunction):
    """A kernel with a trained calibration: an inference function with ``batch`` and ``identity``.

    Args:
        kernel: The kernel. It must provide the feature that the calibration uses.
        calibration: The trained calibration.

    Raises:
        ArgumentError: The calibration is not trained.
    """

    kernel: Inference
    calibration: Calibration

    def __post_init__(self) -> None:
        self.calibration.check_trained()

    def added_identity(self) -> tuple[str, Identity]:
        """Return the identity of the calibration."""
        return "calibration", identity_of(self.calibration)

    def served(self) -> Served | None:
        """The kernel, if a server runs its model."""
        return served_function(self.kernel)

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
            got = f"trained on the labels {calibration.label_space}, not {list(label_space)}"
            raise ArgumentError(f"{calibration.name} was {got}")
        rows: list[Any] = []
        for start in range(0, len(prompts), features.AT_ONCE):
            some = prompts[start : start + features.AT_ONCE]
            read = features.features_of(self.kernel, some, label_space, calibration.reads)
            rows += features.apply_present(read, calibration.apply)
        return rows


# -- rows of label scores


Read = Literal["probabilities", "logits"]
KINDS = frozenset(get_args(Read))


def label_rows(answers: Sequence[Any], width: int | None, what: str) -> list[list[float]]:
    """Read rows of label probabilities.

    Args:
        answers: The model's prediction for each prompt.
        width: How many labels there are; ``None`` if that is not known.
        what: What the prompts are, for the message, such as ``"calibration prompt"``.

    Returns:
        One row of numbers for each prompt.

    Raises:
        OutputError: A prediction is an exception, a label, of another length, or not finite.
    """
    rows = numeric_rows(features.check_answered(answers, what))
    if rows and width not in (None, len(rows[0])):
        raise OutputError(f"{what} 0: got {len(rows[0])} scores, expected {width}, one for each label")
    return rows


def read_probabilities(rows: Sequence[Sequence[float]], kind: Kind) -> tuple[list[list[float]], Read]:
    """Return rows as probabilities, and what they were read as."""
    normalised = normalise(rows, kind)
    if normalised.probabilities is None or normalised.kind == "ambiguous":
        raise OutputError(f"the predictions are neither probabilities nor logits: {normalised.reason}")
    return [list(row) for row in normalised.probabilities], normalised.kind


def mean_row(rows: Sequence[Sequence[float]]) -> list[float]:
    """Return the mean of some rows."""
    return [math.fsum(column) / len(rows) for column in zip(*rows, strict=True)]


# -- calibrations that are fitted to label scores

FLOOR = 1e-300
"""Smallest probability whose logarithm is taken."""


class FittedCalibration(Calibration):
    """Reads label probabilities, or logits: what the training prompts were read as."""

    feature: ClassVar[features.Feature] = "probabilities"
    kind: Any = "probabilities"
    raw = False
    """Whether rows are left as they are."""

    def learn(self, rows: Any, labels: Sequence[int] = ()) -> None:
        """Learn from scores of the labels."""
        rows = label_rows(rows, self.n_label, "calibration prompt")
        if not self.raw:
            rows, self.kind = read_probabilities(rows, "auto")
        self._fit(rows, labels)

    def apply(self, features: Any) -> list[list[float]]:
        """Calibrate label probabilities, one row for each prompt."""
        rows = label_rows(features, self.n_label, "prompt")
        return self._map(rows if self.raw else read_probabilities(rows, self.kind)[0])

    def _fit(self, rows: list[list[float]], labels: Sequence[int]) -> None:
        raise NotImplementedError

    def _map(self, rows: list[list[float]]) -> list[list[float]]:
        raise NotImplementedError


def logarithms(row: Sequence[float]) -> list[float]:
    """Return the logarithms of probabilities."""
    return [math.log(max(value, FLOOR)) for value in row]


# -- calibrations as methods

Make = Callable[[spec.MethodData, Sequence[str]], Calibration]


def calibrated(make: Make) -> Callable[[spec.MethodData], spec.Steps]:
    """Return the function of a method that is a calibration.

    Args:
        make: Returns the untrained calibration for the data and a label space. Its ``samples`` gets the options.
    """
    return partial(_calibrated, make)


def _prompt_makers(data: spec.MethodData) -> list[spec.PromptMaker]:
    """Return what writes training prompts; where the option says so, with the same demonstrations as all queries."""
    makers = spec.prompt_makers(data.experimentor, data.variant)
    if not getattr(data.options, "shared_demonstrations", False):
        return makers
    experimentor = data.experimentor
    spec.refuse_several_lists(experimentor)
    shared = experimentor.demonstration_lists()[0]
    data.experimentor = spec.with_demonstrations(experimentor, [shared] * len(experimentor.test_set()))
    rows = [experimentor.demonstration_set()[position] for position in shared]
    return [lambda _, query, maker=maker: maker(rows, query) for maker in makers]  # type: ignore[misc]


def _calibrated(make: Make, data: spec.MethodData) -> spec.Steps:
    makers = _prompt_makers(data)
    experimentor, labels = data.experimentor, data.experimentor.get_label_space()
    options = {option.name: getattr(data.options, option.name) for option in fields(data.options)}
    drawn = experimentor.calibration_set(), data.calibration_number, experimentor.get_k()
    calibrations = [make(data, labels) for _ in makers]  # one for each template
    pairs = zip(calibrations, makers, strict=True)
    samples = [calibration.samples(maker, *drawn, **options) for calibration, maker in pairs]
    feature = calibrations[0].feature
    training = [data.training(feature, prompts) for prompts, _ in samples]
    *learned_from, _ = yield [*training, data.queries(feature, ahead=True)]
    for calibration, sample, rows in zip(calibrations, samples, learned_from, strict=True):
        calibration.train_on(rows, *sample)
        fallback = calibration.fallback()
        if fallback is not None:
            data.warnings.append(fallback)
    reads, apply = calibrations[0].reads, [calibration.apply for calibration in calibrations]
    if reads != "vocabulary":
        (rows,) = yield [data.queries(reads)]
        return data.by_condition(rows, apply)
    predictions: list[Any] = []
    for condition, function in zip(data.queries(reads).conditions, cycle(apply)):
        for start in range(0, len(condition), features.AT_ONCE):  # logits of all tokens are large
            (rows,) = yield [features.Request(reads, condition[start : start + features.AT_ONCE])]
            predictions += features.apply_present(rows, function)
    return predictions


def calibration_method(
    kind: type[Calibration], title: str, options: type[Any] = spec.NoOptions, **record: Any
) -> spec.MethodSpec:
    """Return the record of a calibration.

    Args:
        kind: The class; of the options, it gets those that it takes.
        title: As in Table 2.
        options: The record of its options.
        **record: Other fields of the record.
    """

    def make(data: spec.MethodData, labels: Sequence[str]) -> Calibration:
        taken = {name: getattr(data.options, name) for name in kind.options if hasattr(data.options, name)}
        return kind(labels, variant=data.variant, **taken)

    return spec.MethodSpec(kind.name, title, calibrated(make), options=options, **{"trains": True, **record})
