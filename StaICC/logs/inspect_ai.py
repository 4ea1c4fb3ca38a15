"""Logs of inspect_ai (UK AI Security Institute): one file for each run of one task by one model.

A log is a ZIP archive (``.eval``) or one JSON file. Both have the same records: the header (status, task, model, plan,
results) and the samples, one for each epoch of each row of the data set. In an archive, ``header.json`` is the header,
and each sample is a member of ``samples/``. A run that was killed has no header; ``_journal/start.json`` then says what
was to be run.

Every scorer gives a sample one value. The names of metrics here are those of the scorers, because "accuracy" or "mean"
is what inspect_ai computes from the values of one scorer over all samples.
"""

from __future__ import annotations

import hashlib
import json
import math
import zipfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from StaICC.errors import SchemaError
from StaICC.files.json_reading import MEGABYTE, parse_json, refuse_device
from StaICC.files.zip_reading import MAX_MEMBERS, open_archive, read_member
from StaICC.logs.reported_means import SampleGroup, can_be_mean, is_mean_of_groups_only, mean_of_scored
from StaICC.logs.samples import LoggedRun, LogReading, SampleScore, document_digest
from StaICC.logs.shown_settings import shortened_setting, shown_setting, shown_value

HARNESS = "inspect_ai"
VERSIONS = (1, 2, 3)
"""Versions of the format that are read. Version 1 has one score for a sample, version 3 stores messages only once."""

_EXPECTED = "a log of inspect_ai"
_HEADER = "header.json"
_START = "_journal/start.json"
_SAMPLES = "samples/"
_LARGEST_JSON = 1024 * MEGABYTE
"""Most bytes of a log in one JSON file. All of it is in memory at once; archives are read sample by sample."""
_LONGEST_REASON = 200
"""Most characters of an error or an explanation that are quoted."""

_GRADES: Mapping[str, float] = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0}
"""The value of a grade, as inspect_ai converts it (``value_to_float``): correct, partial, incorrect, no answer."""
_WORDS: Mapping[str, float] = {"yes": 1.0, "true": 1.0, "no": 0.0, "false": 0.0}
"""The value of a truth value as text, in lower case, as inspect_ai converts it."""
_DECODING = (
    *("temperature", "max_tokens", "top_p", "top_k", "seed", "stop_seqs", "num_choices", "best_of"),
    *("frequency_penalty", "presence_penalty", "logit_bias", "system_message"),
    *("reasoning_effort", "reasoning_tokens", "effort"),
)
"""Options of the generation that can change scores; the others are about connections, retries and caches."""
_RUN_OPTIONS = (
    *("limit", "epochs", "epochs_reducer"),
    *("message_limit", "token_limit", "turn_limit", "time_limit", "working_limit", "cost_limit"),
)
"""Options of the run that can change scores."""
_MEANS = ("accuracy", "mean")
"""Metrics of inspect_ai that are the mean of the values of a scorer."""


def read_archive(path: Path) -> LogReading:
    """Return the run of a log that is a ZIP archive (``.eval``).

    Raises:
        SchemaError: The file is no such archive, is damaged or not safe to read, or has no samples.
        MissingDependencyError: The archive is compressed with Zstandard, which this Python cannot read without the
            package ``zstandard``.
        OSError: The file cannot be read.
    """
    where = str(path)
    with open_archive(path, _EXPECTED) as archive:
        names = set(archive.namelist())
        if _HEADER in names:
            header = _read_json_member(archive, _HEADER, where)
        elif _START in names:
            header = _read_json_member(archive, _START, where)
        else:
            raise SchemaError(f"{where}: the archive has neither {_HEADER} nor {_START}, expected {_EXPECTED}")
        run = _read_run(header, _samples_of_archive(archive, where), where)
    return LogReading((run,))


def _read_json_member(archive: zipfile.ZipFile, name: str, where: str) -> Any:
    """Return the JSON values of a member of an archive.

    Raises:
        SchemaError: The member is damaged or no JSON.
    """
    return parse_json(read_member(archive, name, where), f"{where}, {name}", constants=True)


def _samples_of_archive(archive: zipfile.ZipFile, where: str) -> Iterator[tuple[str, Any]]:
    """Yield the place of each sample of an archive, for messages, with its JSON values: one sample in memory."""
    for name in sorted(set(archive.namelist())):
        if name.startswith(_SAMPLES) and name.endswith(".json"):
            yield f"{where}, {name}", _read_json_member(archive, name, where)


def read_json_log(path: Path) -> LogReading:
    """Return the run of a log that is one JSON file.

    Raises:
        SchemaError: The file is no log of inspect_ai, is damaged, or has no samples.
        OSError: The file cannot be read.
    """
    where = str(path)
    refuse_device(path, _EXPECTED)
    size = path.stat().st_size
    if size > _LARGEST_JSON:
        raise SchemaError(
            f"{where}: the file has {size // MEGABYTE} MB, expected at most {_LARGEST_JSON // MEGABYTE} MB. "
            f"Convert it: inspect log convert {path.name} --to eval --output-dir converted"
        )
    values = parse_json(path.read_bytes(), where, constants=True)
    if not isinstance(values, Mapping):
        raise SchemaError(f"{where}: got a {type(values).__name__}, expected {_EXPECTED}")
    logged_samples = values.get("samples")
    if logged_samples is None:
        logged_samples = []
    if not isinstance(logged_samples, list):
        raise SchemaError(f"{where}: samples is {logged_samples!r:.60}, expected a list")
    samples = ((f"{where}, sample {index}", sample) for index, sample in enumerate(logged_samples))
    return LogReading((_read_run(values, samples, where),))


# -- one run


_Key = tuple[str, int]
"""The id of a row of the data set, and the number of the repeat (from 0): what a sample is found by."""


@dataclass(slots=True)
class _Scores:
    """What the samples say about the scorers."""

    not_scores: dict[str, str] = field(default_factory=dict)
    """Metrics that have no number for a sample, with the reason."""
    invalidated: set[_Key] = field(default_factory=set)
    """Samples whose scores are not used, and which the reported means may contain."""
    only_grades: dict[str, bool] = field(default_factory=dict)
    """By metric: whether all its values are grades or truth values, which are from 0 to 1."""


@dataclass(frozen=True, slots=True)
class _LoggedSamples:
    """The samples of a log, by document and repeat."""

    scores: dict[_Key, SampleScore]
    prompts: dict[_Key, str | None]
    """The first prompt of each sample (:func:`_first_prompt`)."""


def _read_samples(logged_samples: Iterator[tuple[str, Any]], scores: _Scores) -> _LoggedSamples:
    """Return the samples of a log.

    Args:
        logged_samples: The place of each sample, for messages, with its JSON values.
        scores: What the samples say about the scorers; these samples are added.

    Raises:
        SchemaError: A sample is not what inspect_ai writes, or two samples are of the same epoch of the same row.
    """
    samples = _LoggedSamples(scores={}, prompts={})
    for place, values in logged_samples:
        sample = _read_sample(values, scores, place)
        key = (sample.document, sample.repeat)
        if key in samples.scores:
            raise SchemaError(f"{place}: the log has the epoch {sample.repeat + 1} of {sample.document!r:.80} twice")
        samples.scores[key] = sample
        samples.prompts[key] = _first_prompt(values)
    return samples


def _read_run(header: Any, logged_samples: Iterator[tuple[str, Any]], where: str) -> LoggedRun:
    """Return the run of a header and its samples.

    Args:
        header: The JSON values of the header.
        logged_samples: The place of each sample, for messages, with its JSON values.
        where: The log, for messages.

    Raises:
        SchemaError: The header or a sample is not what inspect_ai writes, two samples are of the same epoch of the same
            row, no sample has a score, or the header says too many.
    """
    spec = _check_header(header, where)
    scores = _Scores()
    logged = _read_samples(logged_samples, scores)
    if not logged.scores:
        raise SchemaError(f"{where}: the log has no samples{_why_no_scores(header, spec, scores)}")

    documents = _expected_documents(spec)
    missing = _missing_samples(logged.scores, documents, _epochs(spec), where)
    samples = {**logged.scores, **missing}
    reported = _reported(header)
    bounded = _bounded_metrics(scores, _metrics_of_scorers(header, spec))
    _drop_other_means(
        scores,
        samples,
        unseen=scores.invalidated | missing.keys(),
        reported=reported,
        ranges=dict.fromkeys(bounded, (0.0, 1.0)),
    )
    kept_samples = [_without(sample, scores.not_scores) for sample in samples.values()]
    if not any(sample.values for sample in kept_samples):
        raise SchemaError(f"{where}: no sample has a score{_why_no_scores(header, spec, scores)}")
    kept_bounded = [metric for metric in bounded if metric not in scores.not_scores]
    unseen_samples = scores.invalidated | missing.keys()
    notes = _notes(header, spec, n_logged=len(logged.scores), n_expected=len(samples))
    notes += _notes_on_epochs(samples, unseen_samples, reported, scores.not_scores)
    return LoggedRun(
        path=where,
        harness=HARNESS,
        model=_required_text(spec, "model", where),
        task=_required_text(spec, "task", where),
        samples=tuple(kept_samples),
        harness_version=_harness_version(spec),
        task_version=_text_or_none(spec.get("task_version")),
        model_settings=_model_settings(spec),
        settings=_settings(header, spec),
        date=_text_or_none(spec.get("created")),
        expected=len(documents) or None,
        higher_is_better=dict.fromkeys(kept_bounded, True),
        ranges=dict.fromkeys(kept_bounded, (0.0, 1.0)),
        reported=reported,
        not_scores=scores.not_scores,
        prompts=_prompts_digest(logged.prompts),
        notes=tuple(notes),
    )


def _check_header(header: Any, where: str) -> Mapping[str, Any]:
    """Return the specification of the run (``eval`` of the header).

    Raises:
        SchemaError: The header has another version of the format, or is not what inspect_ai writes.
    """
    if not isinstance(header, Mapping) or not isinstance(header.get("eval"), Mapping):
        raise SchemaError(f"{where}: there is no object 'eval' (task and model), expected {_EXPECTED}")
    version = header.get("version", VERSIONS[0])
    if isinstance(version, bool) or version not in VERSIONS:
        raise SchemaError(
            f"{where}: got version {version!r:.20} of the log format, expected one of {', '.join(map(str, VERSIONS))}"
        )
    spec: Mapping[str, Any] = header["eval"]
    return spec


def _why_no_scores(header: Mapping[str, Any], spec: Mapping[str, Any], scores: _Scores) -> str:
    """Return the end of the sentence that the log has no samples, or none with a score."""
    if scores.not_scores:
        listed = "; ".join(f"{metric}: {reason}" for metric, reason in scores.not_scores.items())
        return f" ({listed})"
    if _object(spec, "config").get("log_samples") is False:
        return ": the run was made with --no-log-samples"
    status = header.get("status", "started")
    if status != "success":
        return f": the run has the status {status!r:.20}{_error_text(header)}"
    return ""


# -- one sample


def _read_sample(values: Any, scores: _Scores, place: str) -> SampleScore:
    """Return the scores of one sample.

    Args:
        values: The JSON values of the sample.
        scores: What the samples say about the scorers; this sample is added.
        place: The sample, for messages.

    Raises:
        SchemaError: The sample has no id or no epoch.
    """
    if not isinstance(values, Mapping):
        raise SchemaError(f"{place}: got {values!r:.60}, expected an object with the id, the epoch and the scores")
    document = values.get("id")
    if isinstance(document, bool) or not isinstance(document, (int, str)):
        raise SchemaError(f"{place}: got the id {document!r:.60}, expected a whole number or a text")
    epoch = values.get("epoch", 1)
    if isinstance(epoch, bool) or not isinstance(epoch, int) or epoch < 1:
        raise SchemaError(f"{place}: got the epoch {epoch!r:.60}, expected a whole number from 1")

    digest = _digest(values)
    if values.get("invalidation") is not None:
        scores.invalidated.add((str(document), epoch - 1))
        return SampleScore(str(document), epoch - 1, digest, {}, "the sample was invalidated in the log")
    numbers: dict[str, float] = {}
    reasons = []
    for metric, value, score in _metric_values(values, place):
        number = _score_number(metric, value, scores)
        if number is not None:
            numbers[metric] = number
        elif metric not in scores.not_scores:
            reasons.append(f"{metric}: {_why_unscored(value, score)}")
    if not numbers:
        reasons.insert(0, _sample_error(values) or "the sample has no scores")
    reason = "; ".join(reasons) or None
    return SampleScore(str(document), epoch - 1, digest, numbers, reason)


def _metric_values(values: Mapping[str, Any], place: str) -> Iterator[tuple[str, Any, Mapping[str, Any]]]:
    """Yield the metrics of a sample: name, value as it was logged, and the score that it is part of.

    A scorer that returns an object has one metric for each key, such as ``graded/fluency``.

    Raises:
        SchemaError: The scores are not what inspect_ai writes.
    """
    logged_scores = values.get("scores")
    if logged_scores is None and values.get("score") is not None:
        logged_scores = {"score": values["score"]}  # version 1 has one score, without the name of its scorer
    if logged_scores is None:
        return
    if not isinstance(logged_scores, Mapping):
        raise SchemaError(f"{place}: got the scores {logged_scores!r:.60}, expected an object, one score by scorer")
    for scorer, score in logged_scores.items():
        if not isinstance(score, Mapping) or "value" not in score:
            raise SchemaError(f"{place}: got the score {score!r:.60} of {scorer:.60}, expected an object with a value")
        value = score["value"]
        if isinstance(value, Mapping):
            for key, item in value.items():
                yield f"{scorer}/{key}", item, score
        else:
            yield scorer, value, score


def _score_number(metric: str, value: Any, scores: _Scores) -> float | None:
    """Return a logged value as a number, as inspect_ai converts it; ``None`` if it has none.

    Args:
        metric: The metric of the value.
        value: The value: a grade, a truth value, a number, or a text.
        scores: What the samples say about the scorers; this value is added.
    """
    if isinstance(value, (list, Mapping)):
        scores.not_scores.setdefault(metric, "inspect_ai logs several values for a sample")
        return None
    if _is_unscored(value):
        return None
    grade = _grade_number(value)
    if grade is not None:
        scores.only_grades.setdefault(metric, True)
        return grade

    scores.only_grades[metric] = False
    number = _plain_number(value)
    if number is None:
        scores.not_scores.setdefault(metric, f"inspect_ai logs texts such as {value!r:.40}, which have no number")
        return None
    if not math.isfinite(number):
        return None
    return number


def _is_unscored(value: Any) -> bool:
    """Return whether the scorer left the sample out: inspect_ai logs NaN then."""
    return value is None or (isinstance(value, float) and math.isnan(value))


def _grade_number(value: Any) -> float | None:
    """Return the value of a grade or of a truth value; ``None`` for a number or another text."""
    if isinstance(value, bool):
        return float(value)
    if not isinstance(value, str):
        return None
    if value in _GRADES:
        return _GRADES[value]
    return _WORDS.get(value.lower())


def _plain_number(value: Any) -> float | None:
    """Return a number, or a text that is one, as a float; ``None`` for other texts."""
    try:
        return float(value)
    except ValueError:
        return None


def _why_unscored(value: Any, score: Mapping[str, Any]) -> str:
    """Return why a value is no number: the scorer left the sample out, or the value is unusual."""
    stated = score.get("reason") or score.get("explanation")
    if isinstance(stated, str) and stated.strip():
        return f"unscored ({_short(stated)})"
    if _is_unscored(value):
        return "unscored"
    return f"the value {value!r:.40} is no finite number"


def _sample_error(values: Mapping[str, Any]) -> str | None:
    """Return the error that ended a sample; ``None`` without one."""
    error = values.get("error")
    if isinstance(error, Mapping):
        error = error.get("message")
    if not isinstance(error, str):
        return None
    return f"the sample ended with an error: {_short(error)}"


def _short(text: str) -> str:
    """Return the first line of a text, shortened."""
    lines = text.strip().splitlines() or [""]
    return lines[0][:_LONGEST_REASON]


def _digest(values: Mapping[str, Any]) -> str | None:
    """Return the digest of the row of the data set: its input, choices and target; ``None`` if the log lacks them."""
    if "input" not in values:
        return None
    document = {"input": _message_texts(values["input"]), "choices": values.get("choices")}
    return document_digest(document, values.get("target"))


def _message_texts(value: Any) -> Any:
    """Return messages as pairs of role and content, without their ids, which differ between runs; a text unchanged."""
    if not isinstance(value, list):
        return value
    texts = []
    for message in value:
        if isinstance(message, Mapping):
            texts.append([message.get("role"), message.get("content")])
        else:
            texts.append([None, message])
    return texts


def _first_prompt(values: Mapping[str, Any]) -> str | None:
    """Return the messages before the first reply of the model, as JSON; ``None`` if the log has no messages."""
    messages = values.get("messages")
    if not isinstance(messages, list) or not messages:
        return None
    prompt = []
    for message in messages:
        if isinstance(message, Mapping) and message.get("role") == "assistant":
            break
        prompt.append(message)
    return json.dumps(_message_texts(prompt), sort_keys=True)


def _prompts_digest(prompts: Mapping[_Key, str | None]) -> str | None:
    """Return a digest of the prompts of all samples; ``None`` if the log lacks one of them.

    Args:
        prompts: The prompt by document and repeat.
    """
    digest = hashlib.sha256()
    for key in sorted(prompts):
        prompt = prompts[key]
        if prompt is None:
            return None
        digest.update(json.dumps([key, prompt]).encode("ascii"))
    return digest.hexdigest()


# -- samples that the log lacks


def _expected_documents(spec: Mapping[str, Any]) -> list[str]:
    """Return the ids of the rows that were to be evaluated; an empty list if the log does not say them."""
    sample_ids = _object(spec, "dataset").get("sample_ids")
    if not isinstance(sample_ids, list):
        return []
    documents: dict[str, None] = {}
    for sample_id in sample_ids:
        if isinstance(sample_id, (int, str)):
            documents[str(sample_id)] = None
    return list(documents)


def _epochs(spec: Mapping[str, Any]) -> int:
    """Return the number of epochs of the run."""
    epochs = _object(spec, "config").get("epochs")
    if isinstance(epochs, int) and not isinstance(epochs, bool) and epochs > 1:
        return epochs
    return 1


def _missing_samples(
    samples: Mapping[_Key, SampleScore], documents: Sequence[str], epochs: int, where: str
) -> dict[_Key, SampleScore]:
    """Return a sample without scores for each epoch of each row that the log should have and lacks.

    Args:
        samples: The samples of the log by document and repeat.
        documents: Ids of the rows that were to be evaluated.
        epochs: Number of epochs of the run.
        where: The log, for messages.

    Raises:
        SchemaError: The log should have more samples than an archive may have members.
    """
    if len(documents) * epochs > MAX_MEMBERS:
        raise SchemaError(
            f"{where}: the header says {len(documents)} rows in {epochs} epochs, expected at most {MAX_MEMBERS} samples"
        )
    digests = {sample.document: sample.digest for sample in samples.values()}
    missing: dict[_Key, SampleScore] = {}
    for document in documents:
        for repeat in range(epochs):
            if (document, repeat) not in samples:
                digest = digests.get(document)
                missing[document, repeat] = SampleScore(document, repeat, digest, {}, "the sample is not in the log")
    return missing


# -- what the header says


def _reported(header: Mapping[str, Any]) -> dict[str, float]:
    """Return the means of the scorers that inspect_ai computed, by metric.

    Results of other reducers of epochs than the mean, such as the mode, are left out.
    """
    reported = {}
    for result in _results(header):
        value = _mean_of_result(result)
        if value is not None and result.get("reducer") in (None, "mean"):
            reported[_metric_of_result(result)] = value
    return reported


def _results(header: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the results of the scorers in the header; an empty list for a run that did not end."""
    results = _object(header, "results").get("scores")
    if not isinstance(results, list):
        return []
    return [result for result in results if isinstance(result, Mapping)]


def _metric_of_result(result: Mapping[str, Any]) -> str:
    """Return the name that the metric of a result has here: that of the scorer, with the key of its values."""
    name = str(result.get("name"))
    scorer = str(result.get("scorer", name))
    if name == scorer:
        return scorer
    return f"{scorer}/{name}"


def _mean_of_result(result: Mapping[str, Any]) -> float | None:
    """Return the accuracy or the mean of a result; ``None`` if it has neither."""
    metrics = _object(result, "metrics")
    for name in _MEANS:
        value = _object(metrics, name).get("value")
        if isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value):
            return float(value)
    return None


def _drop_other_means(
    scores: _Scores,
    samples: Mapping[_Key, SampleScore],
    unseen: Collection[_Key],
    reported: Mapping[str, float],
    ranges: Mapping[str, tuple[float, float]],
) -> None:
    """Move metrics whose reported mean is not the mean of the samples to those that are no scores.

    The task may convert values in another way than inspect_ai by default, or the log was changed. inspect_ai reports
    the mean over the samples that have a score, or over the rows after the mean of their epochs.

    Args:
        scores: What the samples say about the scorers; metrics are moved.
        samples: The samples by document and repeat.
        unseen: The samples whose values the log does not show, and which the reported means may contain.
        reported: The reported means by metric.
        ranges: The ranges of metrics, where they are known.
    """
    for metric, reported_mean in reported.items():
        groups = _epochs_of_documents(samples, unseen, metric)
        if not can_be_mean(reported_mean, groups, ranges.get(metric)):
            scores.not_scores[metric] = (
                f"inspect_ai reports {reported_mean:.6g}, which is not the mean of the samples "
                f"({mean_of_scored(groups):.6g})"
            )


def _notes_on_epochs(
    samples: Mapping[_Key, SampleScore],
    unseen: Collection[_Key],
    reported: Mapping[str, float],
    left_out: Collection[str],
) -> list[str]:
    """Return a note for each metric whose reported mean has another weight for each sample than the mean here.

    inspect_ai takes the mean over the epochs of a row first. If some epochs have no score, the others of this row then
    count more than those of other rows.

    Args:
        samples: The samples by document and repeat.
        unseen: The samples whose values the log does not show.
        reported: The reported means by metric.
        left_out: Metrics that are no scores.
    """
    notes = []
    for metric, reported_mean in reported.items():
        groups = _epochs_of_documents(samples, unseen, metric)
        if metric in left_out or not is_mean_of_groups_only(reported_mean, groups):
            continue
        notes.append(
            f"{metric}: inspect_ai reports {reported_mean:.4g}, the mean over rows after the mean of their epochs; "
            f"here it is {mean_of_scored(groups):.4g}, the mean over all scored samples, as some epochs have no score"
        )
    return notes


def _epochs_of_documents(
    samples: Mapping[_Key, SampleScore], unseen: Collection[_Key], metric: str
) -> list[SampleGroup]:
    """Return for each document the values of its epochs by a metric. The arguments are those of `_drop_other_means`."""
    group_of_document: dict[str, SampleGroup] = {}
    for key, sample in samples.items():
        group = group_of_document.setdefault(sample.document, SampleGroup())
        if key in unseen:
            group.unseen_count += 1
        elif metric in sample.values:
            group.values.append(sample.values[metric])
    return list(group_of_document.values())


def _without(sample: SampleScore, metrics: Mapping[str, str]) -> SampleScore:
    """Return a sample without the values of some metrics."""
    if not any(metric in sample.values for metric in metrics):
        return sample
    values = {metric: value for metric, value in sample.values.items() if metric not in metrics}
    return SampleScore(sample.document, sample.repeat, sample.digest, values, sample.reason)


def _metrics_of_scorers(header: Mapping[str, Any], spec: Mapping[str, Any]) -> dict[str, set[str]]:
    """Return the names of what inspect_ai computes from the values of a scorer, such as ``accuracy``, by our metric.

    They are in the results; a run that did not end has them in the specification only.
    """
    names: dict[str, set[str]] = {}
    for result in _results(header):
        names.setdefault(_metric_of_result(result), set()).update(_object(result, "metrics"))
    scorers = spec.get("scorers")
    if not isinstance(scorers, list):
        return names
    for scorer in scorers:
        if isinstance(scorer, Mapping):
            names.setdefault(str(scorer.get("name")), set()).update(_metrics_in_specification(scorer))
    return names


def _metrics_in_specification(scorer: Mapping[str, Any]) -> list[str]:
    """Return the names of the metrics of a scorer in the specification: ``accuracy`` of ``inspect_ai/accuracy``."""
    metrics = scorer.get("metrics")
    if not isinstance(metrics, list):
        return []
    names = []
    for metric in metrics:
        if isinstance(metric, Mapping):
            _, _, name = str(metric.get("name")).rpartition("/")
            names.append(name)
    return names


def _bounded_metrics(scores: _Scores, metrics_of_scorer: Mapping[str, set[str]]) -> list[str]:
    """Return the metrics whose values are from 0 to 1: grades, and those of which inspect_ai computes the accuracy."""
    bounded = []
    for metric, only_grades in scores.only_grades.items():
        has_accuracy = "accuracy" in metrics_of_scorer.get(metric, set())
        if metric not in scores.not_scores and (only_grades or has_accuracy):
            bounded.append(metric)
    return bounded


def _notes(header: Mapping[str, Any], spec: Mapping[str, Any], *, n_logged: int, n_expected: int) -> list[str]:
    """Return sentences about what is unusual in the log.

    Args:
        header: The header.
        spec: The specification of the run.
        n_logged: Number of samples in the log.
        n_expected: Number of samples that it should have.
    """
    notes = []
    status = header.get("status", "started")
    if status != "success":
        notes.append(f"the run did not end: its status is {status!r:.20}{_error_text(header)}")
    if n_logged < n_expected:
        notes.append(f"the log has {n_logged} of {n_expected} samples: the others are missing")
    if header.get("invalidated") is True:
        notes.append("samples of the log were invalidated")
    reducers = _object(spec, "config").get("epochs_reducer")
    if _epochs(spec) > 1 and isinstance(reducers, list) and reducers and "mean" not in reducers:
        notes.append(
            f"the task reduces the epochs of a row by {', '.join(map(str, reducers))}; here its value is their mean"
        )
    return notes


def _error_text(header: Mapping[str, Any]) -> str:
    """Return the error that ended the run, as the end of a sentence; empty without one."""
    message = _object(header, "error").get("message")
    if not isinstance(message, str):
        return ""
    return f" ({_short(message)})"


def _harness_version(spec: Mapping[str, Any]) -> str | None:
    """Return the version of inspect_ai."""
    return _text_or_none(_object(spec, "packages").get(HARNESS))


def _model_settings(spec: Mapping[str, Any]) -> dict[str, str]:
    """Return what the log says about the model besides its name."""
    arguments = _object(spec, "model_args")
    return _shown_settings(arguments, names=arguments.keys())


def _settings(header: Mapping[str, Any], spec: Mapping[str, Any]) -> dict[str, str]:
    """Return the settings of the run that can change scores: decoding, solvers, scorers, limits, arguments."""
    plan = _object(header, "plan")
    decoding = {**_object(spec, "model_generate_config"), **_object(plan, "config")}
    settings = _shown_settings(decoding, _DECODING)
    settings.update(_shown_settings(_object(spec, "config"), _RUN_OPTIONS))
    solvers = _named_options(plan.get("steps"), name_key="solver")
    if solvers:
        settings["solvers"] = ", ".join(solvers)
    scorers = _named_options(spec.get("scorers"), name_key="name")
    if scorers:
        settings["scorers"] = ", ".join(scorers)
    settings.update(_shown_settings(spec, ("task_args", "solver_args")))
    roles = _object(spec, "model_roles")
    for role in roles:
        text = shown_setting("model", _object(roles, role).get("model"))
        if text is not None:
            settings[f"model of {role}"] = text
    return settings


def _shown_settings(values: Mapping[str, Any], names: Collection[str]) -> dict[str, str]:
    """Return the values of some options as texts without secrets; options that are not set are left out."""
    settings = {}
    for name in names:
        text = shown_setting(name, values.get(name))
        if text is not None:
            settings[name] = text
    return settings


def _named_options(items: Any, name_key: str) -> list[str]:
    """Return solvers or scorers as texts, such as ``match(numeric=true)``.

    Args:
        items: The list of the log.
        name_key: The key of their name.
    """
    texts: list[str] = []
    if not isinstance(items, list):
        return texts
    for item in items:
        if not isinstance(item, Mapping):
            continue
        text = str(item.get(name_key))
        # Solvers have "params", those of older logs and scorers have "options".
        options = {**_object(item, "options"), **_object(item, "params")}
        if options:
            option_texts = []
            for name, value in sorted(options.items()):
                option_texts.append(f"{name}={shortened_setting(_json_text(shown_value(name, value)))}")
            text = f"{text}({', '.join(option_texts)})"
        texts.append(text)
    return texts


# -- JSON values


def _object(values: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    """Return an object by its key; an empty one if there is none."""
    value = values.get(key)
    if isinstance(value, Mapping):
        return value
    return {}


def _required_text(values: Mapping[str, Any], key: str, where: str) -> str:
    """Return a text of the specification of the run by its key.

    Raises:
        SchemaError: There is none.
    """
    value = values.get(key)
    if not isinstance(value, str) or not value.strip():
        raise SchemaError(f"{where}: got {value!r:.60} as the {key}, expected a text")
    return value


def _text_or_none(value: Any) -> str | None:
    """Return a value as text; ``None`` for a missing value, an object or a list."""
    if value is None or isinstance(value, (Mapping, list)):
        return None
    return str(value)


def _json_text(value: Any) -> str:
    """Return a value as JSON in one line."""
    return json.dumps(value, sort_keys=True, ensure_ascii=False)
