"""Files of Every Eval Ever, the shared schema of the EvalEval coalition (schemas 0.2, 0.3), with single samples.

An evaluation has two files in one folder: ``UUID.json`` names the model and the metrics, and ``UUID_samples.jsonl`` has
one line for each sample and metric. A file without samples, such as one of a leaderboard, has nothing to compare.
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from StaICC.errors import SchemaError
from StaICC.files.json_reading import MEGABYTE, parse_json, read_json, refuse_device
from StaICC.logs.recognition import EVERY_EVAL_EVER_SAMPLES
from StaICC.logs.samples import LoggedRun, LogReading, SampleScore, document_digest
from StaICC.logs.shown_settings import shown_setting

_KNOWN_SCHEMAS = ("0.2.", "0.3.")
"""How the versions of the schemas begin that are read."""
_LONGEST_LINE = 64 * MEGABYTE
"""Bytes of a sample that are read at most. A line without an end must not fill the memory."""
_MEAN_TOLERANCE = 1e-6
"""A reported score and the mean of the samples are the same, up to rounding, if they differ by less than this."""
_FIRST_REPEATS = {"repeat": 0, "epoch": 1}
"""Keys in the metadata of a sample under which exporters write the number of its repeat, with that of the first one:
StaICC counts repeats from 0, inspect_ai counts epochs from 1."""
_DOCUMENT_DIGEST = "document_digest"
"""Key in the metadata of a sample under which StaICC writes the digest of a document of another harness."""


# -- the file of scores


@dataclass(frozen=True, slots=True)
class _Score:
    """A score of an evaluation: what the samples that belong to it are scored by."""

    task: str
    metric: str
    reported: float | None
    higher_is_better: bool | None
    range: tuple[float, float] | None
    task_version: str | None
    settings: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class _Evaluation:
    """The file of scores of one evaluation."""

    path: Path
    evaluation_id: str
    values: Mapping[str, Any]

    def mapping(self, *keys: str) -> Mapping[str, Any]:
        """Return an object in the file by its path; an empty one if there is none."""
        value = self.values
        for key in keys:
            value = _object(value.get(key))
        return value


def is_scores(values: object) -> bool:
    """Return whether JSON values are a file of scores of this schema."""
    if not isinstance(values, Mapping):
        return False
    return "schema_version" in values and "evaluation_id" in values and "evaluation_results" in values


def read_evaluation(path: Path) -> LogReading:
    """Return the runs of an evaluation: one for each task.

    Args:
        path: The file of scores. The file of samples is in the same folder.

    Raises:
        SchemaError: A file is damaged, has another schema, or was changed; or there are no samples.
        OSError: A file cannot be read.
    """
    values = read_json(path, "a file of scores of Every Eval Ever")
    if not is_scores(values):
        raise SchemaError(f"{path}: this is no file of scores of Every Eval Ever")
    _check_schema_version(values.get("schema_version"), str(path))
    evaluation = _Evaluation(path, _text(values.get("evaluation_id"), f"{path}, evaluation_id"), values)
    samples_path = path.with_name(f"{path.stem}{EVERY_EVAL_EVER_SAMPLES}")
    if not samples_path.is_file():
        raise SchemaError(f"{path}: it has scores only. The samples would be in {samples_path.name} next to it")
    return _read_tasks(evaluation, samples_path)


def read_samples_file(path: Path) -> LogReading:
    """Return the runs of a file of samples, whose file of scores is in the same folder.

    Raises:
        SchemaError: As for :func:`read_evaluation`; or the file of scores is not there.
        OSError: A file cannot be read.
    """
    scores_path = path.with_name(f"{path.name.removesuffix(EVERY_EVAL_EVER_SAMPLES)}.json")
    if not scores_path.is_file():
        raise SchemaError(
            f"{path}: the file of scores, {scores_path.name}, is not in the folder, so that the metrics of the samples "
            "are not known"
        )
    return read_evaluation(scores_path)


def _check_schema_version(version: object, where: str) -> None:
    """Raise a SchemaError for a version of the schema that is not read."""
    if not isinstance(version, str) or not version.startswith(_KNOWN_SCHEMAS):
        raise SchemaError(f"{where}: got the schema version {version!r:.40}, expected 0.2 or 0.3")


def _text(value: object, where: str) -> str:
    """Return a value that must be a text with at least one character.

    Raises:
        SchemaError: It is none.
    """
    if not isinstance(value, str) or not value:
        raise SchemaError(f"{where}: got {value!r:.60}, expected a text")
    return value


def _scores_by_id(evaluation: _Evaluation) -> dict[str, _Score]:
    """Return the scores of an evaluation by their ids; the id of a score without one is the name of its task.

    If several scores of a task have metrics of the same name, such as ``mean`` of several scorers, the metrics have the
    ids as their names instead.

    Raises:
        SchemaError: A score is damaged, or two scores have the same id.
    """
    results = evaluation.values.get("evaluation_results")
    if not isinstance(results, list):
        raise SchemaError(f"{evaluation.path}: evaluation_results must be a list")
    scores: dict[str, _Score] = {}
    for number, result in enumerate(results):
        where = f"{evaluation.path}, result {number}"
        if not isinstance(result, Mapping):
            raise SchemaError(f"{where}: expected an object")
        score = _read_score(result, where)
        result_id = result.get("evaluation_result_id")
        if result_id is None:
            result_id = score.task
        result_id = _text(result_id, f"{where}, evaluation_result_id")
        if result_id in scores:
            raise SchemaError(f"{where}: two scores are called {result_id:.80}, so that samples belong to both")
        scores[result_id] = score

    name_counts = Counter((score.task, score.metric) for score in scores.values())
    for result_id, score in scores.items():
        if name_counts[score.task, score.metric] > 1:
            scores[result_id] = replace(score, metric=result_id)
    return scores


def _read_score(result: Mapping[str, Any], where: str) -> _Score:
    """Return a score of the file.

    Raises:
        SchemaError: It has no name.
    """
    config = _object(result.get("metric_config"))
    source_details = _object(_object(result.get("source_data")).get("additional_details"))
    task_version = source_details.get("task_version")
    return _Score(
        task=_text(result.get("evaluation_name"), f"{where}, evaluation_name"),
        metric=_metric_name(config),
        reported=_finite_number(_object(result.get("score_details")).get("score")),
        higher_is_better=_higher_is_better(config),
        range=_range(config),
        task_version=task_version if isinstance(task_version, str) else None,
        settings=_settings(_object(result.get("generation_config"))),
    )


def _higher_is_better(config: Mapping[str, Any]) -> bool | None:
    """Return whether higher values of a metric are better; ``None`` if that is not known.

    The schema needs a truth value. Where an exporter does not know it, it says so in the polarity.
    """
    lower_is_better = config.get("lower_is_better")
    polarity = _object(config.get("additional_details")).get("polarity")
    if not isinstance(lower_is_better, bool) or polarity == "unknown":
        return None
    return not lower_is_better


def _object(value: object) -> Mapping[str, Any]:
    """Return a value that is an object; an empty object instead of any other value."""
    if isinstance(value, Mapping):
        return value
    return {}


def _finite_number(value: object) -> float | None:
    """Return a JSON value that is a finite number; ``None`` for any other value."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        return None
    return float(value)


def _metric_name(config: Mapping[str, Any]) -> str:
    """Return the name of a metric: the first one that its configuration has."""
    for key in ("metric_id", "metric_name", "evaluation_description"):
        name = config.get(key)
        if isinstance(name, str) and name:
            return name
    return "score"


def _range(config: Mapping[str, Any]) -> tuple[float, float] | None:
    """Return the lowest and the highest possible value of a metric; ``None`` if one is missing or infinite.

    The schema writes infinite limits as texts.
    """
    low = _finite_number(config.get("min_score"))
    high = _finite_number(config.get("max_score"))
    if low is None or high is None or low >= high:
        return None
    return low, high


def _settings(generation_config: Mapping[str, Any]) -> dict[str, str]:
    """Return the settings of decoding and prompts as texts, by name."""
    settings: dict[str, str] = {}
    for part in ("generation_args", "additional_details"):
        for name, value in _object(generation_config.get(part)).items():
            text = shown_setting(name, value)
            if text is not None:
                settings[name] = text
    return settings


# -- the file of samples


@dataclass(slots=True)
class _Document:
    """The scores of one repeat of one document."""

    digest: str | None
    values: dict[str, float] = field(default_factory=dict)
    """The score by each metric."""
    metrics: set[str] = field(default_factory=set)
    """The metrics for which there is a line, also those without a score."""
    reason: str | None = None
    """Why a score is missing."""


@dataclass(slots=True)
class _Task:
    """The samples of one task."""

    documents: dict[tuple[str, int], _Document] = field(default_factory=dict)
    """By id of the document and number of the repeat."""
    metrics: dict[str, None] = field(default_factory=dict)
    """The metrics that have samples."""
    line_counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Number of lines so far, by id of the document and metric."""
    has_counted_repeats: bool = False
    """Whether the file does not number the repeats of a document, so that they were counted in the order of lines."""


def _read_tasks(evaluation: _Evaluation, samples_path: Path) -> LogReading:
    """Return the runs of an evaluation. A task none of whose metrics has usable samples is among the problems.

    Raises:
        SchemaError: The samples are damaged, or are not those of the file of scores; or no task is left.
    """
    scores = _scores_by_id(evaluation)
    tasks: dict[str, _Task] = {}
    line_count = 0
    checksum = hashlib.sha256()
    for line_count, line in enumerate(_lines(samples_path), start=1):
        checksum.update(line)
        where = f"{samples_path}, line {line_count}"
        sample = parse_json(line, where)
        if not isinstance(sample, Mapping):
            raise SchemaError(f"{where}: expected an object")
        score = _score_of_sample(evaluation, scores, sample, where)
        task = tasks.setdefault(score.task, _Task())
        _add_sample(task, score.metric, sample, where)
    if not tasks:
        raise SchemaError(f"{samples_path}: the file has no samples")
    _compare_with_details(evaluation, samples_path, line_count, checksum.hexdigest())

    runs = []
    problems = []
    for name, task in tasks.items():
        run = _run(evaluation, name, task, scores)
        if run.metrics:
            runs.append(run)
        else:
            problems.append(f"{evaluation.path}: {name:.80} has no metric with samples ({_why_no_metric(run)})")
    if not runs:
        raise SchemaError("; ".join(problems))
    return LogReading(tuple(runs), tuple(problems))


def _why_no_metric(run: LoggedRun) -> str:
    """Return why a run has no metric with samples: the reason for each of its metrics."""
    reasons = [f"{metric}: {reason}" for metric, reason in run.not_scores.items()]
    if not reasons:
        return "no sample has a score"
    return "; ".join(reasons)


def _lines(path: Path) -> Iterator[bytes]:
    """Yield the lines of a file, with their ends.

    Raises:
        SchemaError: A line is longer than any sample, or is empty.
    """
    refuse_device(path, "a file of samples of Every Eval Ever")
    with path.open("rb") as file:
        line = file.readline(_LONGEST_LINE)
        while line:
            if len(line) == _LONGEST_LINE:
                raise SchemaError(f"{path}: a line is longer than {_LONGEST_LINE // MEGABYTE} MB")
            yield line
            line = file.readline(_LONGEST_LINE)


def _score_of_sample(
    evaluation: _Evaluation, scores: Mapping[str, _Score], sample: Mapping[str, Any], where: str
) -> _Score:
    """Return the score that a sample belongs to.

    It is that with the id in the sample. A sample without such an id belongs to the only score of its task.

    Raises:
        SchemaError: The sample is of another evaluation, or does not say to which score it belongs.
    """
    _check_schema_version(sample.get("schema_version"), where)
    evaluation_id = sample.get("evaluation_id")
    if evaluation_id != evaluation.evaluation_id:
        raise SchemaError(f"{where}: the sample is of the evaluation {evaluation_id!r:.80}, which is another one")
    model_id = evaluation.mapping("model_info").get("id")
    if sample.get("model_id") != model_id:
        raise SchemaError(
            f"{where}: the sample is of the model {sample.get('model_id')!r:.80}, and the file of scores is of "
            f"{model_id!r:.80}"
        )
    result_id = sample.get("evaluation_result_id")
    if result_id is not None:
        if isinstance(result_id, str) and result_id in scores:
            return scores[result_id]
        raise SchemaError(f"{where}: the file of scores has no score {result_id!r:.80}")
    task = sample.get("evaluation_name")
    scores_of_task = [score for score in scores.values() if score.task == task]
    if len(scores_of_task) == 1:
        return scores_of_task[0]
    raise SchemaError(
        f"{where}: the file has {len(scores_of_task)} scores of {task!r:.80}, and the sample does not say to which it "
        "belongs (evaluation_result_id)"
    )


def _add_sample(task: _Task, metric: str, sample: Mapping[str, Any], where: str) -> None:
    """Add a line of the file to the samples of its task.

    Raises:
        SchemaError: The line is damaged, or the document has a score by this metric already.
    """
    document_id = _text(sample.get("sample_id"), f"{where}, sample_id")
    digest = _digest(sample)
    repeat = _repeat(sample)
    if repeat is None:
        repeat = task.line_counts[document_id, metric]
        if repeat > 0:
            task.has_counted_repeats = True
    task.line_counts[document_id, metric] += 1
    document = task.documents.setdefault((document_id, repeat), _Document(digest))
    if document.digest != digest:
        raise SchemaError(f"{where}: the sample {document_id:.80} has another input or reference than in a line before")
    if metric in document.metrics:
        raise SchemaError(f"{where}: the sample {document_id:.80} has two scores by {metric:.80}, repeat {repeat}")
    document.metrics.add(metric)
    task.metrics[metric] = None

    error = sample.get("error")
    if error is not None:
        document.reason = str(error)[:200]
        return
    logged_score = _object(sample.get("evaluation")).get("score")
    score = _finite_number(logged_score)
    if score is None:
        document.reason = f"its score is {logged_score!r:.40}"
        return
    document.values[metric] = score


def _repeat(sample: Mapping[str, Any]) -> int | None:
    """Return the number of the repeat of a sample, from 0; ``None`` if the file does not say it."""
    metadata = _object(sample.get("metadata"))
    for key, first_number in _FIRST_REPEATS.items():
        number = _decimal_number(metadata.get(key))
        if number is not None and number >= first_number:
            return number - first_number
    return None


def _decimal_number(text: object) -> int | None:
    """Return the number that a text of up to nine decimal digits is; ``None`` for any other value."""
    if not isinstance(text, str) or not text.isascii() or not text.isdecimal() or len(text) > 9:
        return None
    return int(text)


def _digest(sample: Mapping[str, Any]) -> str | None:
    """Return the digest of input and references; ``None`` if the file does not have the input.

    The hash in the file is used only if the input is not there, because exporters compute it in different ways.
    """
    logged_digest = _object(sample.get("metadata")).get(_DOCUMENT_DIGEST)
    if isinstance(logged_digest, str):
        return logged_digest
    entry = _object(sample.get("input"))
    raw = entry.get("raw")
    if isinstance(raw, str) and raw:
        return document_digest(raw, entry.get("reference"))
    sample_hash = sample.get("sample_hash")
    if isinstance(sample_hash, str) and sample_hash:
        return document_digest(None, sample_hash)
    return None


def _compare_with_details(evaluation: _Evaluation, samples_path: Path, line_count: int, checksum: str) -> None:
    """Compare the samples with what the file of scores says about their file.

    Raises:
        SchemaError: The file of samples was cut or changed.
    """
    details = evaluation.mapping("detailed_evaluation_results")
    total_rows = details.get("total_rows")
    if total_rows is not None and total_rows != line_count:
        raise SchemaError(
            f"{samples_path}: the file has {line_count} samples, and {evaluation.path.name} says {total_rows}"
        )
    stated_checksum = details.get("checksum")
    if details.get("hash_algorithm") == "sha256" and stated_checksum not in (None, checksum):
        raise SchemaError(f"{samples_path}: the file was changed: its checksum is not that in {evaluation.path.name}")


# -- the runs


def _run(evaluation: _Evaluation, name: str, task: _Task, scores: Mapping[str, _Score]) -> LoggedRun:
    """Return the run of one task.

    Args:
        evaluation: The file of scores.
        name: The name of the task.
        task: Its samples.
        scores: All scores of the file, by their ids.
    """
    scores_of_task = {score.metric: score for score in scores.values() if score.task == name}
    scores_by_metric = {metric: scores_of_task[metric] for metric in task.metrics}
    not_scores = _not_scores(task, scores_by_metric)
    samples = []
    for (document_id, repeat), document in task.documents.items():
        values = {metric: value for metric, value in document.values.items() if metric not in not_scores}
        samples.append(SampleScore(document_id, repeat, document.digest, values, document.reason))

    directions = {}
    ranges = {}
    reported = {}
    for metric, score in scores_by_metric.items():
        if score.higher_is_better is not None:
            directions[metric] = score.higher_is_better
        if score.range is not None:
            ranges[metric] = score.range
        if score.reported is not None:
            reported[metric] = score.reported

    first_score = next(iter(scores_by_metric.values()))
    settings = dict(first_score.settings)
    fewshot = settings.pop("num_fewshot", "")
    notes = []
    if task.has_counted_repeats:
        notes.append("the log does not number the repeats of its samples: they are numbered in the order of lines")
    library = evaluation.mapping("eval_library")
    return LoggedRun(
        path=str(evaluation.path),
        harness=str(library.get("name") or "Every Eval Ever"),
        harness_version=_known_text(library.get("version")),
        model=_model_name(evaluation),
        task=name,
        samples=tuple(samples),
        task_version=first_score.task_version,
        fewshot=int(fewshot) if fewshot.isascii() and fewshot.isdecimal() else None,
        model_settings=_model_settings(evaluation),
        settings=settings,
        date=_known_text(evaluation.values.get("evaluation_timestamp")),
        higher_is_better=directions,
        ranges=ranges,
        reported=reported,
        not_scores=not_scores,
        evaluation=str(evaluation.path),
        notes=tuple(notes),
    )


def _not_scores(task: _Task, scores: Mapping[str, _Score]) -> dict[str, str]:
    """Return the metrics whose score is not the mean of their samples, each with the reason."""
    reasons = {}
    for metric, score in scores.items():
        values = [document.values[metric] for document in task.documents.values() if metric in document.values]
        if score.reported is None or not values:
            continue
        mean = math.fsum(values) / len(values)
        if abs(mean - score.reported) > _MEAN_TOLERANCE * max(1.0, abs(score.reported)):
            reasons[metric] = f"the file of scores says {score.reported:.6g}, and the mean of the samples is {mean:.6g}"
    return reasons


def _known_text(value: object) -> str | None:
    """Return a text; ``None`` for other values, an empty text, and ``"unknown"``, a word of the schema."""
    if isinstance(value, str) and value and value != "unknown":
        return value
    return None


def _model_name(evaluation: _Evaluation) -> str:
    """Return the name of the model.

    Raises:
        SchemaError: The file does not name it.
    """
    info = evaluation.mapping("model_info")
    return _text(info.get("name") or info.get("id"), f"{evaluation.path}, model_info")


def _model_settings(evaluation: _Evaluation) -> dict[str, str]:
    """Return what else the file says about the model; what it says about the engine has that word in its name."""
    settings = {}
    info = evaluation.mapping("model_info")
    for key in ("id", "developer", "inference_platform"):
        text = _known_text(info.get(key))
        if text is not None:
            settings[key] = text
    for key, value in evaluation.mapping("model_info", "inference_engine").items():
        text = _shown_text(key, value)
        if text is not None:
            settings[f"inference_engine {key}"] = text
    for key, value in evaluation.mapping("model_info", "additional_details").items():
        text = _shown_text(key, value)
        if text is not None:
            settings[key] = text
    return settings


def _shown_text(key: str, value: object) -> str | None:
    """Return the value of a setting as a text without secrets; ``None`` if it is no text or not known."""
    if _known_text(value) is None:
        return None
    return shown_setting(key, value)
