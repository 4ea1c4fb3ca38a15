"""A logged run: the scores of each sample of one task, by one model, as another harness logged them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class SampleScore:
    """The scores of one sample: one repeat (epoch, trial) of one document of the task."""

    document: str
    """Id of the document in its task, as text."""
    repeat: int
    """Number of the repeat (epoch, trial) of the document, from 0."""
    digest: str | None
    """Digest of document and target (:func:`document_digest`); ``None`` if the log does not have them. The rendered
    prompt is not part of it, because it differs between models."""
    values: Mapping[str, float]
    """The value of each metric. A metric that is absent has no score for this sample, which is a missing query then.
    Values are finite."""
    reason: str | None = None
    """Why the sample lacks values, such as the error of the model's API; ``None`` if it lacks none."""


@dataclass(frozen=True, slots=True)
class LoggedRun:
    """One run of one model on one task, read from the logs of another harness.

    Names of metrics are those of the harness. A filter or scorer is part of the name where there are several, such as
    ``exact_match,strict-match``.
    """

    path: str
    """The file with the samples, for messages."""
    harness: str
    """Name of the harness, such as ``"lm_eval"``."""
    model: str
    """Name of the model."""
    task: str
    """Name of the task."""
    samples: tuple[SampleScore, ...]
    """The samples; no two have the same document and repeat."""
    harness_version: str | None = None
    """Version of the harness; ``None`` if the log does not say."""
    task_version: str | None = None
    """Version of the task; ``None`` if the log does not say."""
    fewshot: int | None = None
    """Number of demonstrations in a prompt; ``None`` if the log does not say."""
    model_settings: Mapping[str, str] = field(default_factory=dict)
    """What else identifies the model, by name, such as ``{"revision": "main", "dtype": "float32"}``."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """Other settings of the run that can change scores, by name: decoding, chat template, seed."""
    date: str | None = None
    """When the run was made, as the log writes it."""
    expected: int | None = None
    """Number of documents that the run should have; ``None`` if the log does not say."""
    higher_is_better: Mapping[str, bool] = field(default_factory=dict)
    """The direction of metrics, where the log says it."""
    ranges: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """Lowest and highest possible value of metrics, where the log says it."""
    reported: Mapping[str, float] = field(default_factory=dict)
    """The values of metrics that the harness itself computed over all samples, by name of the metric."""
    not_scores: Mapping[str, str] = field(default_factory=dict)
    """Metrics of the log that have no score for each sample, with the reason, such as pairs that are aggregated."""
    aggregations: Mapping[str, str] = field(default_factory=dict)
    """How the harness aggregates a metric over the samples, where the log says it, such as ``"mean"``."""
    prompts: str | None = None
    """Digest of the rendered prompts of all samples; ``None`` if the log does not have them."""
    evaluation: str = ""
    """What the runs of one evaluation of several tasks share, such as the path of its results; empty for one task."""
    notes: tuple[str, ...] = ()
    """Sentences about what is unusual in the log; they become warnings of the result."""
    group: str | None = None
    """Name of the group of tasks that this task is run for; ``None`` without one."""
    names_model: bool = True
    """Whether the log names the model; otherwise its name is that of the file."""

    @property
    def metrics(self) -> tuple[str, ...]:
        """Names of the metrics that at least one sample has, in the order of the log."""
        names: dict[str, None] = {}
        for sample in self.samples:
            names.update(dict.fromkeys(sample.values))
        return tuple(names)


@dataclass(frozen=True, slots=True)
class LogReading:
    """What was read at a path."""

    runs: tuple[LoggedRun, ...]
    problems: tuple[str, ...] = ()
    """Sentences about logs that were found there and cannot be used, each with the reason."""


def document_digest(document: Any, target: Any) -> str:
    """Return the digest of a document with its target: 32 hexadecimal digits of SHA-256 over both as JSON.

    Two samples of one task have the same document if their digests are equal, in whatever order the keys of the
    document were logged.

    Args:
        document: The fields of the document (JSON values), without rendered prompt and without results of the model.
        target: The target (JSON values).
    """
    text = json.dumps([document, target], sort_keys=True, ensure_ascii=True, separators=(",", ":"))
    return hashlib.sha256(text.encode("ascii")).hexdigest()[:32]
