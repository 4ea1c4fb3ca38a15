"""Logs of lm_eval (lm-evaluation-harness, Gao et al.): samples of each task, with the results that name the model.

A run with ``--log_samples --output_path out`` writes one file of results and one file of samples for each task. The
file of results has the model, the versions of the tasks and the means of their metrics; the files of samples have
neither. What belongs together has the same date in its name::

    out/gpt2/results_2025-01-31T10-00-00.000000.json
    out/gpt2/samples_arc_easy_2025-01-31T10-00-00.000000.jsonl

Versions before 0.4.3 write ``results.json`` and files that end with ``_arc_easy.jsonl``, each with one JSON array.
"""

from __future__ import annotations

import hashlib
import math
import re
import statistics
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from StaICC.errors import SchemaError
from StaICC.files.json_reading import MEGABYTE, parse_json, refuse_device
from StaICC.logs.metric_ranges import bare_name, known_metric, why_no_mean
from StaICC.logs.recognition import DATE_IN_NAME
from StaICC.logs.reported_means import MEAN_TOLERANCE, SampleGroup, can_be_mean, mean_of_scored
from StaICC.logs.samples import LoggedRun, LogReading, SampleScore, document_digest
from StaICC.logs.shown_settings import name_without_credentials, shortened_setting, shown_options, shown_value

HARNESS = "lm_eval"

_LONGEST_LINE = 64 * MEGABYTE
"""Bytes of a sample that are read at most. A line without an end must not fill the memory."""
_MOST_DOCUMENTS = 1_000_000
"""Documents of a task that are read at most, and the largest number that a file of results may state."""
_STDERR = "_stderr"
"""How the names of standard errors end in a file of results, before the filter."""
_NO_FILTER = "none"
"""The name of the filter of tasks that have none."""
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3})?")
"""A number as a text. Numbers of a type that JSON does not know, such as those of NumPy, are logged as texts."""

_FIELDS = frozenset(
    {
        *("doc_id", "doc", "target", "arguments", "resps", "filtered_resps", "filter", "metrics"),
        *("doc_hash", "prompt_hash", "target_hash"),
    }
)
"""The fields of a sample. All other keys are metrics."""
_IDENTIFYING_FIELDS = ("doc_id", "doc", "target", "filter")
"""The fields that say which sample this is. A metric of the same name overwrites the field."""


# -- the file of results


@dataclass(frozen=True, slots=True)
class _Evaluation:
    """The file of results of one evaluation."""

    path: Path
    values: Mapping[str, Any]
    """The values of the file."""

    def mapping(self, key: str) -> Mapping[str, Any]:
        """Return an object of the file by its key; an empty one if the file has none."""
        value = self.values.get(key)
        if isinstance(value, Mapping):
            return value
        return {}

    def of_task(self, key: str, task: str) -> Any:
        """Return what an object of the file says about a task; ``None`` if it says nothing."""
        return self.mapping(key).get(task)

    @property
    def tasks(self) -> tuple[str, ...]:
        """Names of the tasks that ran, without groups of tasks."""
        configured = self.mapping("configs")
        if configured:
            return tuple(configured)
        return tuple(self.mapping("results"))

    @property
    def date(self) -> str | None:
        """The date in the name of the file; ``None`` before version 0.4.3."""
        match = DATE_IN_NAME.search(self.path.stem)
        if match is None:
            return None
        return match[1]


def is_results(values: object) -> bool:
    """Return whether JSON values are a file of results of lm_eval."""
    if not isinstance(values, Mapping):
        return False
    has_results = isinstance(values.get("results"), Mapping)
    return has_results and isinstance(values.get("versions"), Mapping) and isinstance(values.get("config"), Mapping)


def read_results_json(path: Path) -> Any:
    """Return the values of a JSON file that may be a file of results. lm_eval writes NaN into such files.

    Raises:
        SchemaError: The file is not JSON.
        OSError: The file cannot be read.
    """
    refuse_device(path, "a file of results of lm_eval")
    return parse_json(path.read_bytes(), str(path), constants=True)


def read_results(path: Path, values: Mapping[str, Any] | None = None) -> LogReading:
    """Return the runs of all tasks of one evaluation.

    Args:
        path: The file of results. The files of samples are in the same folder.
        values: The values of the file, if it was read before.

    Raises:
        SchemaError: The file is no file of results, or the samples of no task can be read; the message has the reason.
        OSError: The file cannot be read.
    """
    if values is None:
        values = read_results_json(path)
    if not is_results(values):
        raise SchemaError(f"{path}: this is no file of results of lm_eval")
    evaluation = _Evaluation(path, values)
    runs = []
    problems = []
    for task in evaluation.tasks:
        try:
            runs.append(_read_task(evaluation, task, _samples_file(evaluation, task)))
        except (SchemaError, OSError) as error:
            problems.append(str(error))
    if not evaluation.tasks:
        raise SchemaError(f"{path}: the evaluation has no task")
    if not runs:
        raise SchemaError("; ".join(problems))
    return LogReading(tuple(runs), tuple(problems))


def read_samples_file(path: Path) -> LogReading:
    """Return the run of the task of one file of samples.

    Args:
        path: The file of samples. The file of results is in the same folder.

    Raises:
        SchemaError: The file of results is not there, or the samples cannot be read; the message has the reason.
        OSError: A file cannot be read.
    """
    for evaluation in _evaluations_next_to(path):
        for task in evaluation.tasks:
            try:
                samples_file = _samples_file(evaluation, task)
            except SchemaError:
                continue
            if samples_file == path:
                return LogReading((_read_task(evaluation, task, path),))
    raise SchemaError(
        f"{path}: the file of results of this evaluation is not in the folder, so that its model and the version of "
        "the task are not known. lm_eval writes it as results_DATE.json with the same date"
    )


def _evaluations_next_to(path: Path) -> Iterator[_Evaluation]:
    """Yield the evaluations whose file of results is in the folder of a file of samples and has the same date."""
    match = DATE_IN_NAME.search(path.stem)
    for file in sorted(path.parent.glob("*.json")):
        if match is not None and not file.stem.endswith(match[0]):
            continue
        try:
            values = read_results_json(file)
        except (SchemaError, OSError):
            continue
        if is_results(values):
            yield _Evaluation(file, values)


def _samples_file(evaluation: _Evaluation, task: str) -> Path:
    """Return the file with the samples of a task.

    The folder is listed, and the names of its files are compared with the expected one. So a name of a task cannot lead
    out of the folder.

    Raises:
        SchemaError: There is no such file, or there are several.
    """
    folder = evaluation.path.parent
    names = [file.name for file in folder.glob("*.jsonl")]
    if evaluation.date is not None:
        expected = f"samples_{task}_{evaluation.date}.jsonl"
        if expected in names:
            return folder / expected
        raise SchemaError(
            f"{evaluation.path}: {expected} is not in its folder. lm_eval writes samples with the option --log_samples"
        )
    fitting_names = [name for name in names if _task_in_old_name(evaluation, name) == task]
    if len(fitting_names) == 1:
        return folder / fitting_names[0]
    raise SchemaError(
        f"{evaluation.path}: {len(fitting_names)} files in its folder have the samples of {task:.80}, expected one"
    )


def _task_in_old_name(evaluation: _Evaluation, name: str) -> str | None:
    """Return the task whose samples a file has, by the name that versions before 0.4.3 write: ``MODEL_TASK.jsonl``.

    Of two tasks such as ``arc`` and ``my_arc``, it is the one with the longer name. ``None`` if the name fits no task.
    """
    fitting_tasks = [task for task in evaluation.tasks if f"_{name}".endswith(f"_{task}.jsonl")]
    return max(fitting_tasks, key=len, default=None)


# -- the samples of a task


@dataclass(frozen=True, slots=True)
class _LoggedSample:
    """One line of a file of samples: a document with the values of all metrics, by one filter."""

    document: str
    digest: str | None
    filter_name: str | None
    """``None`` before version 0.4.7."""
    values: Mapping[str, Any]
    """The value of each metric, as it was logged."""
    hashes: str | None
    """The hashes of document, prompt and target, one after the other; ``None`` before version 0.4.3."""
    prompt_hash: str | None


def _read_task(evaluation: _Evaluation, task: str, path: Path) -> LoggedRun:
    """Return the run of a task.

    Raises:
        SchemaError: The samples cannot be read, or are not those of the evaluation.
        OSError: The file cannot be read.
    """
    logged_samples = list(_logged_samples(path))
    if not logged_samples:
        raise SchemaError(f"{path}: the file has no samples")
    filter_names = _filter_names(evaluation, task, logged_samples, path)
    _check_duplicates(logged_samples, filter_names, path)
    scores = _collect_scores(logged_samples, filter_names)

    notes: list[str] = []
    n_documents = len(scores.by_document)
    expected = _expected_documents(evaluation, task)
    if _are_selected(evaluation, task, scores, expected):
        notes.append(
            f"the log has {n_documents} of {expected} documents, and the reported means are theirs: they were selected "
            "(--samples)"
        )
        expected = n_documents
    missing = _missing_samples(scores.by_document.keys(), expected, path)
    _compare_with_reported(evaluation, task, scores, len(missing), str(path))
    if missing:
        notes.append(f"the log has {n_documents} of {expected} documents: the others are missing")
    else:
        notes += _hash_notes(evaluation, task, logged_samples)
    return LoggedRun(
        path=str(path),
        harness=HARNESS,
        model=_model_name(evaluation),
        task=task,
        samples=(*_sample_scores(logged_samples, scores), *missing),
        harness_version=_text_or_none(evaluation.values.get("lm_eval_version")),
        task_version=_text_or_none(evaluation.of_task("versions", task)),
        fewshot=_fewshot(evaluation, task),
        model_settings=_model_settings(evaluation),
        settings=_settings(evaluation, task),
        date=_date_of(evaluation),
        expected=expected,
        higher_is_better=_directions(evaluation, task, scores),
        reported=_reported(evaluation, task),
        not_scores=scores.not_scores,
        aggregations=_aggregations(evaluation, task),
        prompts=_prompts_digest(logged_samples),
        evaluation=str(evaluation.path),
        notes=tuple(notes),
        group=_group_of(evaluation, task),
    )


def _logged_samples(path: Path) -> Iterator[_LoggedSample]:
    """Yield the samples of a file: one JSON array, as versions before 0.4.3 write it, or JSON Lines.

    Raises:
        SchemaError: The file is not JSON Lines or a JSON array, or a sample has no id of its document.
    """
    refuse_device(path, "a file of samples of lm_eval")
    with path.open("rb") as file:
        first_line = file.readline(_LONGEST_LINE)
        is_array = first_line.removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"[")
        if is_array:
            values = parse_json(first_line + file.read(), str(path), constants=True)
            for number, value in enumerate(values):
                yield _logged_sample(value, f"{path}, item {number}")
        else:
            yield from _samples_of_lines(first_line, file, str(path))


def _samples_of_lines(first_line: bytes, file: BinaryIO, path: str) -> Iterator[_LoggedSample]:
    """Yield the samples of a file in JSON Lines. Blank lines are left out.

    Args:
        first_line: The first line, which was read before.
        file: The file, from the second line on.
        path: Its path, for messages.

    Raises:
        SchemaError: A line is too long, is no JSON or no sample.
    """
    number = 1
    line = first_line
    while line:
        where = f"{path}, line {number}"
        if len(line) == _LONGEST_LINE:
            raise SchemaError(f"{where}: the line is longer than {_LONGEST_LINE // MEGABYTE} MB")
        if line.strip():
            yield _logged_sample(parse_json(line, where, constants=True), where)
        line = file.readline(_LONGEST_LINE)
        number += 1


def _logged_sample(value: Any, where: str) -> _LoggedSample:
    """Return what is needed of the JSON values of a sample.

    Raises:
        SchemaError: The values are no sample.
    """
    if not isinstance(value, Mapping) or "doc_id" not in value:
        raise SchemaError(f"{where}: this is no sample of lm_eval, which has a doc_id")
    metrics = _metric_names(value)
    for field in _IDENTIFYING_FIELDS:
        if field in metrics:
            raise SchemaError(
                f"{where}: a metric is called {field}, so that it has overwritten this field of the sample. Rename the "
                "metric in the task"
            )
    doc_id = value["doc_id"]
    if isinstance(doc_id, bool) or not isinstance(doc_id, (int, str)):
        raise SchemaError(f"{where}: got the doc_id {doc_id!r:.60}, expected a whole number or a text")

    digest = None
    if "doc" in value:
        # Since version 0.4.4, all targets are texts. Those of earlier versions are made texts in the same way.
        digest = document_digest(value["doc"], str(value.get("target")))
    return _LoggedSample(
        document=str(doc_id),
        digest=digest,
        filter_name=_text_or_none(value.get("filter")),
        values={name: value.get(name) for name in metrics},
        hashes=_joined_hashes(value),
        prompt_hash=_text_or_none(value.get("prompt_hash")),
    )


def _joined_hashes(value: Mapping[str, Any]) -> str | None:
    """Return the hashes of document, prompt and target of a sample, one after the other; ``None`` if it lacks one."""
    joined = ""
    for name in ("doc_hash", "prompt_hash", "target_hash"):
        text = value.get(name)
        if not isinstance(text, str):
            return None
        joined += text
    return joined


def _metric_names(value: Mapping[str, Any]) -> list[str]:
    """Return the names of the metrics of a sample: those that it lists, and before version 0.4.7 its other keys."""
    listed = value.get("metrics")
    if isinstance(listed, list) and all(isinstance(name, str) for name in listed):
        return list(listed)
    return [name for name in value if name not in _FIELDS]


# -- filters


def _filter_names(evaluation: _Evaluation, task: str, logged_samples: Sequence[_LoggedSample], path: Path) -> list[str]:
    """Return the name of the filter of each sample.

    Before version 0.4.7, samples do not name their filter. Each document then has one sample for each filter, in the
    order of the filters of the task.

    Raises:
        SchemaError: The samples do not name their filters, and a document has another number of samples than the task
            has filters.
    """
    named = [sample.filter_name for sample in logged_samples]
    if None not in named:
        return [str(name) for name in named]
    filters = _filters_of_task(evaluation, task)
    sample_counts: Counter[str] = Counter()
    names = []
    for sample in logged_samples:
        number_in_document = sample_counts[sample.document]
        sample_counts[sample.document] += 1
        if number_in_document >= len(filters):
            raise SchemaError(
                f"{path}: document {sample.document:.60} has more than {len(filters)} samples, and the task has the "
                f"filters {', '.join(filters):.200}: are two runs in one file?"
            )
        names.append(filters[number_in_document])
    if set(sample_counts.values()) != {len(filters)}:
        raise SchemaError(
            f"{path}: not every document has {len(filters)} samples, one for each filter, and the samples do not name "
            "their filters"
        )
    return names


def _filters_of_task(evaluation: _Evaluation, task: str) -> list[str]:
    """Return the names of the filters of a task, in order: those of its configuration, else those of its results."""
    names = _configured_filters(evaluation, task)
    if not names:
        names = _filters_in_results(evaluation, task)
    if not names:
        return [_NO_FILTER]
    return names


def _configured_filters(evaluation: _Evaluation, task: str) -> list[str]:
    """Return the names of the filters in the configuration of a task; none if it has none."""
    config = evaluation.of_task("configs", task)
    if not isinstance(config, Mapping):
        return []
    filter_list = config.get("filter_list")
    if not isinstance(filter_list, list):
        return []
    names: dict[str, None] = {}
    for item in filter_list:
        if isinstance(item, Mapping) and isinstance(item.get("name"), str):
            names[item["name"]] = None
    return list(names)


def _filters_in_results(evaluation: _Evaluation, task: str) -> list[str]:
    """Return the names of the filters in the results of a task, whose keys are ``metric,filter``."""
    results = evaluation.of_task("results", task)
    if not isinstance(results, Mapping):
        return []
    names: dict[str, None] = {}
    for key in results:
        _, comma, filter_name = key.partition(",")
        if comma:
            names[filter_name] = None
    return list(names)


def _check_duplicates(logged_samples: Sequence[_LoggedSample], filter_names: Sequence[str], path: Path) -> None:
    """Raise a SchemaError if two samples have the same document and filter, or other documents under the same id."""
    seen = set()
    digest_of_document: dict[str, str | None] = {}
    for sample, filter_name in zip(logged_samples, filter_names, strict=True):
        key = (sample.document, filter_name)
        if key in seen:
            raise SchemaError(
                f"{path}: document {sample.document:.60} appears twice with the filter {filter_name:.60}: lm_eval "
                "appends to a file that exists, so two runs may be in it"
            )
        seen.add(key)
        first_digest = digest_of_document.setdefault(sample.document, sample.digest)
        if sample.digest != first_digest:
            raise SchemaError(
                f"{path}: the samples of document {sample.document:.60} have different documents or targets: two runs "
                "may be in the file"
            )


# -- values of metrics


@dataclass(slots=True)
class _Scores:
    """The values of all metrics: those that are a number for each sample, and why others are not."""

    by_document: dict[str, dict[str, float]]
    """For each document the value of each metric."""
    metrics: dict[str, None]
    """Names of the metrics, in the order of the log."""
    not_scores: dict[str, str]
    """Metrics that have no score for each sample, with the reason."""
    undefined: dict[str, str]
    """For documents that lack a value: the reason."""

    def values_of(self, metric: str) -> list[float]:
        """Return the values of a metric, of the documents that have one."""
        return [values[metric] for values in self.by_document.values() if metric in values]

    def drop(self, metric: str, reason: str) -> None:
        """Move a metric to those that have no score for each sample."""
        self.not_scores[metric] = reason
        self.metrics.pop(metric, None)
        for values in self.by_document.values():
            values.pop(metric, None)


def _collect_scores(logged_samples: Sequence[_LoggedSample], filter_names: Sequence[str]) -> _Scores:
    """Return the values of the metrics, with the filter in the name of a metric unless it is ``none``.

    A metric with a value that is no number for one sample is no score, whatever it is for the others.
    """
    scores = _Scores(by_document={}, metrics={}, not_scores={}, undefined={})
    reasons: dict[str, str] = {}
    for sample, filter_name in zip(logged_samples, filter_names, strict=True):
        values = scores.by_document.setdefault(sample.document, {})
        for name, value in sample.values.items():
            metric = _metric_with_filter(name, filter_name)
            reason = _why_no_score(name, value)
            if reason is not None:
                reasons.setdefault(metric, reason)
                continue
            scores.metrics[metric] = None
            number = _number(value)
            if number is None or not math.isfinite(number):
                scores.undefined[sample.document] = f"{metric} is {value!r:.40}"
            else:
                values[metric] = number

    for metric, reason in reasons.items():
        scores.drop(metric, reason)
    return scores


def _metric_with_filter(metric: str, filter_name: str) -> str:
    """Return the name of a metric with its filter, as results of lm_eval have it; the filter ``none`` is left out."""
    if filter_name == _NO_FILTER:
        return metric
    return f"{metric},{filter_name}"


def _why_no_score(name: str, value: Any) -> str | None:
    """Return why the value of a metric is no score of the sample; ``None`` if it is one, or is missing."""
    reason = why_no_mean(name)
    if reason is not None:
        return reason
    if name in _FIELDS:
        return "its name is that of a field of the sample, which it overwrites"
    if isinstance(value, (list, tuple)):
        return "lm_eval logs a list for each sample, such as target and prediction, and aggregates the lists"
    if isinstance(value, Mapping):
        return "lm_eval logs an object for each sample, not a number"
    if isinstance(value, str) and _number(value) is None and value.lower() not in ("nan", "inf", "-inf"):
        return f"lm_eval logs a text for each sample, such as {value!r:.40}"
    return None


def _number(value: Any) -> float | None:
    """Return a logged value as a number; ``None`` if it is missing or no number.

    Truth values are 0 and 1. Texts are numbers of types that JSON does not know.
    """
    if value is None:
        return None
    if isinstance(value, (bool, int, float)):
        return float(value)
    text = str(value)
    if text in ("True", "False"):
        return float(text == "True")
    if _NUMBER.fullmatch(text):
        return float(text)
    return None


def _sample_scores(logged_samples: Sequence[_LoggedSample], scores: _Scores) -> list[SampleScore]:
    """Return one sample for each document, with the values of all filters."""
    samples = {}
    for sample in logged_samples:
        if sample.document in samples:
            continue
        samples[sample.document] = SampleScore(
            document=sample.document,
            repeat=0,
            digest=sample.digest,
            values=scores.by_document[sample.document],
            reason=scores.undefined.get(sample.document),
        )
    return list(samples.values())


def _missing_samples(documents: Collection[str], expected: int | None, path: Path) -> list[SampleScore]:
    """Return samples without scores for the documents that the log lacks.

    Args:
        documents: The documents that the log has.
        expected: Number of documents that it should have; ``None`` if that is not known.
        path: The file of samples, for messages.

    Raises:
        SchemaError: The log has more documents than it should have; or it lacks some, and it is not known which ones.
    """
    if expected is None or len(documents) == expected:
        return []
    counts = f"{path}: the file has {len(documents)} documents, and its file of results says {expected}"
    if len(documents) > expected:
        raise SchemaError(f"{counts}: these are the samples of another evaluation")
    # lm_eval numbers the documents from 0, but for those that --samples selects.
    expected_ids = [str(number) for number in range(expected)]
    if not set(documents).issubset(expected_ids):
        raise SchemaError(f"{counts}: it is not known which ones are missing, because they are not numbered from 0")
    reason = "the sample is not in the log"
    return [SampleScore(name, 0, None, {}, reason) for name in expected_ids if name not in documents]


# -- what the file of results says about a task


def _reported(evaluation: _Evaluation, task: str) -> dict[str, float]:
    """Return the values of the metrics in the file of results, by the names that the samples have."""
    reported = {}
    for logged in _logged_results(evaluation, task):
        if not logged.name.endswith(_STDERR):
            reported[_metric_with_filter(logged.name, logged.filter_name)] = logged.value
    return reported


@dataclass(frozen=True, slots=True)
class _LoggedResult:
    """A number in the results of a task, whose key is ``name,filter``."""

    name: str
    """The metric; for its standard error with the ending ``_stderr``."""
    filter_name: str
    value: float


def _logged_results(evaluation: _Evaluation, task: str) -> Iterator[_LoggedResult]:
    """Yield the numbers in the results of a task."""
    results = evaluation.of_task("results", task)
    if not isinstance(results, Mapping):
        return
    for key, value in results.items():
        name, comma, filter_name = key.partition(",")
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if comma and is_number:
            yield _LoggedResult(name, filter_name, float(value))


def _reported_errors(evaluation: _Evaluation, task: str) -> dict[str, float]:
    """Return the standard errors of the metrics in the file of results, by the names that the samples have."""
    errors = {}
    for logged in _logged_results(evaluation, task):
        if logged.name.endswith(_STDERR):
            metric = _metric_with_filter(logged.name.removesuffix(_STDERR), logged.filter_name)
            errors[metric] = logged.value
    return errors


def _aggregations(evaluation: _Evaluation, task: str) -> dict[str, str]:
    """Return how lm_eval aggregates the metrics of a task, by name without filter, where its configuration says it."""
    aggregations = {}
    for item in _metric_list(evaluation, task):
        name = item.get("metric")
        aggregation = item.get("aggregation")
        if isinstance(name, str) and isinstance(aggregation, str):
            aggregations[name] = aggregation
    return aggregations


def _metric_list(evaluation: _Evaluation, task: str) -> list[Mapping[str, Any]]:
    """Return the metrics of the configuration of a task."""
    config = evaluation.of_task("configs", task)
    if not isinstance(config, Mapping):
        return []
    metric_list = config.get("metric_list")
    if not isinstance(metric_list, list):
        return []
    return [item for item in metric_list if isinstance(item, Mapping)]


def _are_selected(evaluation: _Evaluation, task: str, scores: _Scores, expected: int | None) -> bool:
    """Return whether the documents of a log were selected with ``--samples``, so that none is missing.

    Earlier versions state the number of all documents of the task for such a run. Its means tell it from a log that
    lost samples: those of a selection are the means of the samples in the log, and so are their standard errors, which
    depend on the number of samples. If all samples have the same value, both cases have the same means.
    """
    if expected is None or len(scores.by_document) >= expected:
        return False
    reported = _reported(evaluation, task)
    errors = _reported_errors(evaluation, task)
    some_values_differ = False
    for metric in scores.metrics:
        values = scores.values_of(metric)
        if metric not in reported or not values or not _is_mean(evaluation, task, metric):
            continue
        if not can_be_mean(reported[metric], [SampleGroup(values)], value_range=None):
            return False
        if metric in errors and not math.isclose(errors[metric], _standard_error(values), rel_tol=MEAN_TOLERANCE):
            return False
        if len(set(values)) > 1:
            some_values_differ = True
    return some_values_differ


def _standard_error(values: Sequence[float]) -> float:
    """Return the standard error of a mean as lm_eval computes it: the root of the unbiased variance over the number."""
    if len(values) < 2:
        return math.nan
    return math.sqrt(statistics.variance(values) / len(values))


def _is_mean(evaluation: _Evaluation, task: str, metric: str) -> bool:
    """Return whether a metric is a mean over the samples, by the configuration of its task or as a known metric."""
    aggregation = _aggregations(evaluation, task).get(bare_name(metric))
    if aggregation is None:
        return known_metric(metric) is not None
    return aggregation == "mean"


def _compare_with_reported(evaluation: _Evaluation, task: str, scores: _Scores, missing_count: int, where: str) -> None:
    """Compare the mean of the samples with the value that lm_eval reports; metrics that are no mean are left out.

    Args:
        evaluation: The evaluation.
        task: The task.
        scores: The values of the samples. Metrics that are no mean of them move to those that are no scores.
        missing_count: Number of documents that the log lacks.
        where: The file of samples, for messages.

    Raises:
        SchemaError: A metric that is a mean has another value: the samples are those of another run.
    """
    reported = _reported(evaluation, task)
    for metric in list(scores.metrics):
        if metric not in reported or not math.isfinite(reported[metric]):
            continue
        groups = [SampleGroup(scores.values_of(metric), missing_count)]
        value_range = None
        known = known_metric(metric)
        if known is not None:
            value_range = (known.low, known.high)
        if can_be_mean(reported[metric], groups, value_range):
            continue
        mean = mean_of_scored(groups)
        if _is_mean(evaluation, task, metric):
            raise SchemaError(
                f"{where}: the mean of {metric} over the samples is {mean:.6g}, and the file of results says "
                f"{reported[metric]:.6g}: these are the samples of another run, or one of the files was changed"
            )
        scores.drop(
            metric, f"lm_eval reports {reported[metric]:.6g}, which is not the mean of the samples ({mean:.6g})"
        )


def _hash_notes(evaluation: _Evaluation, task: str, logged_samples: Sequence[_LoggedSample]) -> list[str]:
    """Return a note if the samples do not have the hash that the file of results has for them."""
    expected = evaluation.of_task("task_hashes", task)
    hashes = [sample.hashes for sample in logged_samples]
    if not isinstance(expected, str) or None in hashes:
        return []
    joined = "".join(str(item) for item in hashes)
    if hashlib.sha256(joined.encode("utf-8", "surrogatepass")).hexdigest() == expected:
        return []
    return ["the samples do not have the hash of the file of results (task_hashes): they were changed or reordered"]


def _expected_documents(evaluation: _Evaluation, task: str) -> int | None:
    """Return the number of documents that the run evaluated; ``None`` if the file of results does not say it.

    Raises:
        SchemaError: The number is too large. Documents that the log lacks are listed, so it must not be invented.
    """
    counts = evaluation.of_task("n-samples", task)
    if not isinstance(counts, Mapping):
        return None
    effective = counts.get("effective")
    if not isinstance(effective, int) or isinstance(effective, bool) or effective < 1:
        return None
    if effective > _MOST_DOCUMENTS:
        raise SchemaError(
            f"{evaluation.path}: the task {task:.80} should have {effective:.3g} documents, more than the "
            f"{_MOST_DOCUMENTS} that are read"
        )
    return effective


def _directions(evaluation: _Evaluation, task: str, scores: _Scores) -> dict[str, bool]:
    """Return whether higher values of a metric are better, where the file of results says it."""
    stated = evaluation.of_task("higher_is_better", task)
    directions: dict[str, bool] = {}
    if not isinstance(stated, Mapping):
        return directions
    for metric in scores.metrics:
        name, _, _ = metric.partition(",")
        direction = stated.get(name)
        if isinstance(direction, bool):
            directions[metric] = direction
    return directions


def _fewshot(evaluation: _Evaluation, task: str) -> int | None:
    """Return the number of demonstrations in a prompt; ``None`` if the file of results does not say it."""
    count = evaluation.of_task("n-shot", task)
    if isinstance(count, int) and not isinstance(count, bool):
        return count
    return None


def _group_of(evaluation: _Evaluation, task: str) -> str | None:
    """Return the name of the group of tasks that a task belongs to; ``None`` without one."""
    for group, subtasks in evaluation.mapping("group_subtasks").items():
        if isinstance(subtasks, list) and task in subtasks:
            return group
    return None


def _date_of(evaluation: _Evaluation) -> str | None:
    """Return when the evaluation was made: the date in the names of its files, else the one in the results."""
    if evaluation.date is not None:
        return evaluation.date
    return _text_or_none(evaluation.values.get("date"))


def _prompts_digest(logged_samples: Sequence[_LoggedSample]) -> str | None:
    """Return a digest of the prompts of all documents, in the order of their ids; ``None`` if the log has none."""
    hash_of_document = {}
    for sample in logged_samples:
        if sample.prompt_hash is None:
            return None
        hash_of_document[sample.document] = sample.prompt_hash
    joined = "".join(f"{document} {digest}\n" for document, digest in sorted(hash_of_document.items()))
    return hashlib.sha256(joined.encode("utf-8", "surrogatepass")).hexdigest()


# -- model and settings


_MODEL_SETTINGS: Mapping[str, str] = {
    "model": "backend",
    "model_args": "model_args",
    "model_revision": "revision",
    "model_sha": "sha",
    "model_dtype": "dtype",
}
"""The keys of the configuration of an evaluation that are about the model, with their names here."""
_EVALUATION_SETTINGS = (
    *("limit", "gen_kwargs", "device", "batch_size"),
    *("random_seed", "numpy_seed", "torch_seed", "fewshot_seed"),
)
"""Keys of the configuration of an evaluation that can change scores."""
_OPTIONS = ("model_args", "gen_kwargs", "generation_kwargs")
"""Keys whose values are options, as an object or as a text such as ``dtype=float32,revision=main``."""
_PROMPT_SETTINGS = ("system_instruction_sha", "chat_template_sha", "fewshot_as_multiturn")
"""Keys of the file of results that are about the prompts."""


def _model_name(evaluation: _Evaluation) -> str:
    """Return the name of the model, without a password where it is an address.

    Raises:
        SchemaError: The file of results does not name the model.
    """
    return name_without_credentials(_logged_model_name(evaluation))


def _logged_model_name(evaluation: _Evaluation) -> str:
    """Return the name of the model; without one, the kind of model that lm_eval loaded, such as ``hf``.

    Raises:
        SchemaError: The file of results does not name the model.
    """
    name = evaluation.values.get("model_name")
    if isinstance(name, str) and name.strip():
        return name
    config = evaluation.mapping("config")
    name_in_arguments = _model_in_arguments(config.get("model_args"))
    if name_in_arguments is not None:
        return name_in_arguments
    kind = config.get("model")
    if isinstance(kind, str) and kind:
        return kind
    raise SchemaError(f"{evaluation.path}: the file of results does not name the model")


def _model_in_arguments(arguments: Any) -> str | None:
    """Return the name of the model in the arguments of the model, where it is before version 0.4.3.

    The arguments are an object or a text such as ``pretrained=gpt2,dtype=float32``. ``None`` if they do not name it.
    """
    if isinstance(arguments, Mapping):
        for key in ("pretrained", "model"):
            if isinstance(arguments.get(key), str):
                return str(arguments[key])
    if isinstance(arguments, str):
        match = re.search(r"(?:^|,)(?:pretrained|model)=([^,]+)", arguments)
        if match is not None:
            return match[1]
    return None


def _model_settings(evaluation: _Evaluation) -> dict[str, str]:
    """Return what the file of results says about the model besides its name."""
    config = evaluation.mapping("config")
    settings = {}
    for key, name in _MODEL_SETTINGS.items():
        text = _setting_text(key, config.get(key))
        if text is not None:
            settings[name] = text
    return settings


def _settings(evaluation: _Evaluation, task: str) -> dict[str, str]:
    """Return the settings of the run that can change scores: decoding, chat template, seeds."""
    settings = {}
    config = evaluation.mapping("config")
    for key in _EVALUATION_SETTINGS:
        text = _setting_text(key, config.get(key))
        if text is not None:
            settings[key] = text
    for key in _PROMPT_SETTINGS:
        text = _setting_text(key, evaluation.values.get(key))
        if text is not None:
            settings[key] = text
    task_config = evaluation.of_task("configs", task)
    if isinstance(task_config, Mapping):
        text = _setting_text("generation_kwargs", task_config.get("generation_kwargs"))
        if text is not None:
            settings["generation_kwargs"] = text
    return settings


def _setting_text(name: str, value: Any) -> str | None:
    """Return a setting as text, without secrets; ``None`` if it is not set.

    Args:
        name: The key of the setting. Those about the model begin with ``model_``.
        value: Its value.
    """
    if value is None or value == "" or value == {}:
        return None
    if name in _OPTIONS and isinstance(value, str):
        return shortened_setting(shown_options(value))
    if isinstance(value, Mapping):
        shown_by_key = shown_value(name, value)
        options = [f"{key}={shown}" for key, shown in sorted(shown_by_key.items())]
        return shortened_setting(", ".join(options))
    name_of_option = name.removeprefix("model_")
    return shortened_setting(str(shown_value(name_of_option, value)))


def _text_or_none(value: Any) -> str | None:
    """Return a value as text; ``None`` for a missing value, an object or a list."""
    if value is None or isinstance(value, (Mapping, list)):
        return None
    return str(value)
