"""Results as files of Every Eval Ever, the shared schema of the EvalEval coalition (schema 0.3.0).

A result becomes two files in the folder ``data/COLLECTION/DEVELOPER/MODEL``, as in the datastore of the coalition:
``UUID.json`` with the scores and their intervals, and ``UUID_samples.jsonl`` with one line for each sample and metric.
The schema is at https://github.com/evaleval/every_eval_ever.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import time
import uuid
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from StaICC import benchmark_names
from StaICC.errors import ArgumentError
from StaICC.metrics.intervals import Interval
from StaICC.metrics.scores import BASELINE_KEYS, SCORES, score_of_condition, score_record
from StaICC.results.every_eval_ever_samples import sample_line
from StaICC.results.files import DIGESTS, with_digests
from StaICC.results.hub_datasets import hub_dataset
from StaICC.results.left_out import with_marks
from StaICC.results.predictor import GIVEN
from StaICC.results.query_records import WrittenPrompts
from StaICC.results.result import Result
from StaICC.results.score_records import records_of_scores
from StaICC.results.scored_samples import scored_samples
from StaICC.safe_text import utf8, valid_unicode
from StaICC.version import __version__

SCHEMA_VERSION = "0.3.0"
"""Version of the schema that the files have."""
RELATIONSHIPS = ("first_party", "third_party", "collaborative", "other")
"""What the evaluator can be to the model, in the words of the schema."""

_LIBRARY = "StaICC"
_DISTRIBUTION = "distribution."
"""How the keys of the mean prediction begin, which are shares of labels and no scores."""
_UNSPECIFIED_DEVELOPER = "unspecified"
"""The folder of models whose name does not say who developed them."""
_KERNEL_PREFIX = re.compile(r"^(?:hf|vllm|llama|gguf|openai|litellm):")
"""The kind of a kernel before the name of a model, such as ``hf:`` of ``hf:EleutherAI/pythia-70m``."""
_FORBIDDEN = re.compile(r'[<>:"\\|?*\x00-\x1f]')
"""Characters that the schema's paths cannot have."""
_RESERVED_FOLDERS = re.compile(r"(?:data|unknown|con|prn|aux|nul|com[1-9]|lpt[1-9])(?:\..*)?", re.IGNORECASE)
"""Names that the schema's paths cannot have: its own, and those of devices on Windows."""
_LONGEST_FOLDER = 100
"""Characters of the name of a folder."""


@dataclass(frozen=True, slots=True)
class ExportSettings:
    """What a result does not say, and the schema needs.

    Raises:
        ArgumentError: A value is not allowed.
    """

    collection: str = "staicc"
    """Name of the collection: the folder in the datastore."""
    model_id: str | None = None
    """Id of the model as on the Hugging Face hub, such as ``"EleutherAI/pythia-70m"``; by default from its name."""
    organization: str = "unknown"
    """Who provides the data."""
    relationship: str = "other"
    """What the evaluator is to the model: one of :data:`RELATIONSHIPS`."""

    def __post_init__(self) -> None:
        """Refuse a relationship, collection or model id that the schema does not allow."""
        if self.relationship not in RELATIONSHIPS:
            raise ArgumentError(f"relationship: got {self.relationship!r:.60}, expected {', '.join(RELATIONSHIPS)}")
        if self.collection != _folder_name(self.collection):
            raise ArgumentError(f"collection: got {self.collection!r:.60}, expected the name of a folder")
        if self.model_id is not None:
            has_developer = "/" in self.model_id
            if not has_developer or self.model_id != _model_id(self.model_id):
                raise ArgumentError(f"model id: got {self.model_id!r:.100}, expected one such as EleutherAI/pythia-70m")


@dataclass(frozen=True, slots=True)
class ExportedResult:
    """The two files of a result."""

    aggregate_path: str
    """Path of the file with the scores, with slashes, from the folder of the datastore."""
    aggregate: bytes
    samples_path: str
    samples: bytes
    """Empty if the result has no samples with scores; there is no such file then."""
    left_out: tuple[str, ...]
    """Scores that the files do not have, each with the reason."""


@dataclass(frozen=True, slots=True)
class _Names:
    """How the model, the evaluation and the files of a result are called."""

    model: str
    model_id: str
    developer: str
    evaluation_id: str
    aggregate_path: str
    samples_path: str


def export_result(
    result: Result,
    written: WrittenPrompts,
    settings: ExportSettings | None = None,
    created: int | None = None,
) -> ExportedResult:
    """Return a result as files of Every Eval Ever.

    Args:
        result: The result.
        written: The prompts by data set, which results do not contain (:func:`StaICC.written_prompts`); a text instead
            of them is the reason why there are none. Samples without a prompt have an empty input.
        settings: What the result does not say.
        created: When the files are made, in seconds since 1970; by default now.

    Raises:
        ArgumentError: No score of the result can be exported; the message has the reasons.
    """
    if settings is None:
        settings = ExportSettings()
    if created is None:
        created = int(time.time())
    scores, left_out = _evaluation_results(result)
    if not scores:
        raise ArgumentError(f"no score of {result.benchmark} can be exported: {'; '.join(left_out) or 'it has none'}")

    names = _names(result, settings, created)
    exported_ids = {score["evaluation_result_id"] for score in scores}
    lines = _sample_lines(result, written, names, exported_ids)
    samples = utf8("".join(lines))
    aggregate: dict[str, Any] = {
        "schema_version": SCHEMA_VERSION,
        "evaluation_id": names.evaluation_id,
        "retrieved_timestamp": str(created),
        "source_metadata": _source_metadata(settings, left_out),
        "eval_library": _eval_library(result),
        "model_info": _model_info(result, names),
        "evaluation_results": scores,
    }
    started = [predictor.started for predictor in result.provenance.predictors if predictor.started]
    if started:
        aggregate["evaluation_timestamp"] = min(started)
    if lines:
        aggregate["detailed_evaluation_results"] = {
            "format": "jsonl",
            "file_path": names.samples_path,
            "hash_algorithm": "sha256",
            "checksum": hashlib.sha256(samples).hexdigest(),
            "total_rows": len(lines),
        }
    text = json.dumps(aggregate, indent=2, ensure_ascii=False, allow_nan=False)
    return ExportedResult(
        aggregate_path=names.aggregate_path,
        aggregate=utf8(text + "\n"),
        samples_path=names.samples_path,
        samples=samples,
        left_out=tuple(left_out),
    )


def _names(result: Result, settings: ExportSettings, created: int) -> _Names:
    """Return how the model, the evaluation and the files of a result are called.

    The same result has the same file names, so that a second export replaces the first.
    """
    model = result.provenance.names
    model_id = settings.model_id or _model_id(model)
    developer, model_folder = _model_folders(model_id)
    digest = with_digests(result.to_dict())[DIGESTS]["file"]
    file_id = uuid.UUID(bytes=bytes.fromhex(digest)[:16], version=4)
    path = f"data/{settings.collection}/{developer}/{model_folder}/{file_id}"
    return _Names(
        model=model,
        model_id=model_id,
        developer=developer,
        evaluation_id=f"{settings.collection}.{result.benchmark}/{model_id}/{created}-{digest[:12]}",
        aggregate_path=f"{path}.json",
        samples_path=f"{path}_samples.jsonl",
    )


def _sample_lines(result: Result, written: WrittenPrompts, names: _Names, exported_ids: Collection[str]) -> list[str]:
    """Return the lines of the file of samples.

    Args:
        result: The result.
        written: The prompts by data set, or why there are none.
        names: How model, evaluation and files are called.
        exported_ids: The ids of the scores in the file of scores. Samples of other scores would refer to nothing.
    """
    lines = []
    for sample in scored_samples(result, written):
        result_id = _result_id(result, sample.dataset, sample.score_key)
        if result_id not in exported_ids:
            continue
        line = sample_line(
            sample,
            schema_version=SCHEMA_VERSION,
            evaluation_id=names.evaluation_id,
            model_id=names.model_id,
            evaluation_name=_evaluation_name(result, sample.dataset),
            result_id=result_id,
        )
        lines.append(json.dumps(line, ensure_ascii=False, allow_nan=False) + "\n")
    return lines


# -- the model


def _folder_name(text: str) -> str:
    """Return a text as the name of a folder that the schema allows.

    >>> _folder_name("a/b: c. "), _folder_name("con")
    ('a_b_ c', '_con')
    """
    without_slashes = str(valid_unicode(text)).replace("/", "_")  # a slash would begin another folder
    allowed = _FORBIDDEN.sub("_", without_slashes)
    # After it is cut, since a name must not end with a blank or a point, either.
    name = allowed[:_LONGEST_FOLDER].strip().rstrip(". ")
    if not name or _RESERVED_FOLDERS.fullmatch(name):
        return f"_{name}"
    return name


def _model_id(name: str) -> str:
    """Return the id of a model with this name: the name without the kind of its kernel, as a path of the schema.

    The folders of a path say nothing about the model, so that only its last part counts.

    >>> _model_id("hf:EleutherAI/pythia-70m"), _model_id("/models/a:b")
    ('EleutherAI/pythia-70m', 'a_b')
    """
    name = _KERNEL_PREFIX.sub("", name.strip())
    parts = [part for part in name.split("/") if part.strip()]
    is_path = name.startswith((".", "/", "~"))
    if is_path:
        parts = parts[-1:]
    folders = [_folder_name(part) for part in parts]
    return "/".join(folders) or "_"


def _model_folders(model_id: str) -> tuple[str, str]:
    """Return the folder of the developer and that of the model."""
    developer, slash, model = model_id.partition("/")
    if not slash:
        return _UNSPECIFIED_DEVELOPER, model_id
    return developer, model.replace("/", "_")


def _model_info(result: Result, names: _Names) -> dict[str, Any]:
    """Return what the schema says about the model: its name and id, and everything that identifies it."""
    predictors = result.provenance.predictors
    details = {"deployment_type": "unknown", "model_availability": "unknown", "identity": result.model}
    # The digest of weights is only known of a model that was loaded on the machine of the run.
    if predictors and all("weights" in predictor.who for predictor in predictors):
        details["deployment_type"] = "self_deployed"
    if any(GIVEN in predictor.who for predictor in predictors):
        details["name"] = "stated: the predictions were made elsewhere"
    for fact, value in result.provenance.facts().items():
        details.setdefault(fact, value)
    return {
        "name": str(valid_unicode(names.model)),
        "id": names.model_id,
        "developer": names.developer,
        "additional_details": {key: str(valid_unicode(value)) for key, value in details.items()},
    }


# -- the scores


def _source_metadata(settings: ExportSettings, left_out: Sequence[str]) -> dict[str, Any]:
    """Return what the schema says about the source."""
    metadata: dict[str, Any] = {
        "source_name": _LIBRARY,
        "source_type": "evaluation_run",
        "source_organization_name": settings.organization,
        "evaluator_relationship": settings.relationship,
    }
    if left_out:
        metadata["additional_details"] = {"scores left out": "; ".join(left_out)}
    return metadata


def _eval_library(result: Result) -> dict[str, Any]:
    """Return what the schema says about the library that evaluated: this one, or the harness of a log."""
    environment = {key: str(valid_unicode(value)) for key, value in result.environment.items()}
    if result.samples:
        return {
            "name": result.benchmark,
            "version": environment.get(result.benchmark, "unknown"),
            "additional_details": {"converted by": f"{_LIBRARY} {__version__}"},
        }
    version = environment.pop("staicc", "unknown")
    return {"name": _LIBRARY, "version": version, "additional_details": environment}


def _evaluation_name(result: Result, dataset: str | None) -> str:
    """Return the name of an evaluation: the task of a log, else the benchmark and the data set."""
    benchmark = str(valid_unicode(result.benchmark))
    if dataset is None:
        return f"{benchmark}/mean over data sets"
    title = str(valid_unicode(dataset))
    if result.samples:
        return title
    return f"{benchmark}/{title}"


def _result_id(result: Result, dataset: str | None, key: str) -> str:
    """Return the id of a score within its file."""
    return f"{_evaluation_name(result, dataset)}/{valid_unicode(key)}"


def _evaluation_results(result: Result) -> tuple[list[dict[str, Any]], list[str]]:
    """Return the scores as the schema has them, and those that it cannot have, with the reasons."""
    exported = []
    left_out = []
    for record in records_of_scores(result):
        key = record["metric"]
        if key in BASELINE_KEYS or key.startswith(_DISTRIBUTION):
            continue
        name = _result_id(result, record["dataset"], key)
        lower_is_better = _lower_is_better(result, key)
        if record["value"] is None:
            left_out.append(f"{name} ({record['missing'] or 'undefined'})")
        elif lower_is_better is None:
            left_out.append(f"{name} (whether higher values are better is not stated)")
        else:
            exported.append(_evaluation_result(result, record, name, lower_is_better))
    return exported, left_out


def _lower_is_better(result: Result, key: str) -> bool | None:
    """Return whether lower values of a score are better; ``None`` if that is not stated."""
    of_condition = score_of_condition(key)
    if of_condition is not None:
        # The scores of conditions are no slopes, so in GLER, too, their direction is that of the metric.
        higher_is_better = SCORES[of_condition.metric].higher_is_better
    else:
        higher_is_better = score_record(result.benchmark, key, result.higher_is_better).higher_is_better
    if higher_is_better is None:
        return None
    return not higher_is_better


def _evaluation_result(
    result: Result, record: Mapping[str, Any], result_id: str, lower_is_better: bool
) -> dict[str, Any]:
    """Return one score with its data set, metric, value and interval as the schema has it.

    Args:
        result: The result.
        record: The record of the score (:func:`~StaICC.results.score_records.score_records`).
        result_id: The id of the score within its file.
        lower_is_better: Whether lower values of it are better.
    """
    dataset = record["dataset"]
    return {
        "evaluation_result_id": result_id,
        "evaluation_name": _evaluation_name(result, dataset),
        "source_data": _source_data(result, dataset, record),
        "metric_config": _metric_config(result, record, lower_is_better),
        "score_details": _score_details(result, record),
        "generation_config": {"additional_details": _settings_of_run(result)},
    }


def _source_data(result: Result, dataset: str | None, record: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the schema says about the data set of a score."""
    if dataset is None:
        names = ", ".join(result.divided)
        return {
            "dataset_name": "mean over data sets",
            "source_type": "other",
            "additional_details": {"data sets": str(valid_unicode(names))},
        }
    source: dict[str, Any] = {"dataset_name": str(valid_unicode(dataset)), "source_type": "other"}
    details = {}
    data_digest = result.details[dataset].data
    if data_digest is not None:
        details["data digest"] = str(data_digest)
    if dataset in result.samples and result.samples[dataset].task_version is not None:
        details["task_version"] = str(result.samples[dataset].task_version)
    on_hub = hub_dataset(result, dataset)
    if on_hub is not None:
        source["source_type"] = "hf_dataset"
        source["hf_repo"] = on_hub.repository
        if on_hub.splits:
            source["hf_split"] = "+".join(on_hub.splits)
        source["samples_number"] = record["n"] + record["left_out"]
        details["hf_config"] = on_hub.config
    source["additional_details"] = details
    return source


def _metric_config(result: Result, record: Mapping[str, Any], lower_is_better: bool) -> dict[str, Any]:
    """Return what the schema says about the metric of a score."""
    key = record["metric"]
    title = score_record(result.benchmark, key, result.higher_is_better).title
    config: dict[str, Any] = {
        "metric_id": str(valid_unicode(key)),
        "metric_name": str(valid_unicode(with_marks(title, record["left_out"], record["stopped_early"]))),
        "lower_is_better": lower_is_better,
    }
    bounds = _bounds(result, record["dataset"], key)
    if bounds is None:
        config["additional_details"] = {"bounds_status": "unknown"}
        return config
    lowest, highest = bounds
    config["score_type"] = "continuous"
    config["min_score"] = _bound(lowest)
    config["max_score"] = _bound(highest)
    return config


def _bound(value: float) -> float | str:
    """Return a limit of a score as the schema has it: infinity as a text."""
    if value == math.inf:
        return "Infinity"
    if value == -math.inf:
        return "-Infinity"
    return value


def _bounds(result: Result, dataset: str | None, key: str) -> tuple[float, float] | None:
    """Return the lowest and the highest possible value of a score; ``None`` if they are not known.

    Args:
        result: The result.
        dataset: The data set of the score; ``None`` for a mean, whose range contains those of all data sets.
        key: Key of the score.
    """
    if key in result.query_scores:
        query_scores = result.query_scores[key]
        if query_scores.low is None or query_scores.high is None:
            return None
        return query_scores.low, query_scores.high
    is_mean_of_slopes = result.benchmark == benchmark_names.GLER and dataset is None
    if is_mean_of_slopes or key.startswith("sensitivity."):
        return None
    statistic = score_record(result.benchmark, key, result.higher_is_better).statistic
    if statistic is None:
        return None

    datasets = list(result.details) if dataset is None else [dataset]
    lowest = math.inf
    highest = -math.inf
    for name in datasets:
        label_count = max(2, len(result.details[name].labels))
        low, high = statistic.range(label_count)
        lowest = min(lowest, low)
        highest = max(highest, high)
    return lowest, highest


def _score_details(result: Result, record: Mapping[str, Any]) -> dict[str, Any]:
    """Return the value of a score with its interval and what must be known about it."""
    details: dict[str, str] = {}
    if record["left_out"]:
        details["PARTIAL"] = f"{record['left_out']} of {record['n'] + record['left_out']} queries are left out"
    if record["stopped_early"]:
        details["STOPPED EARLY"] = "an estimate from the first rows"
    if record["not_beaten"] is not None:
        details["not shown to be better than"] = record["not_beaten"] or "(better than every baseline)"
    for baseline in ("random", "majority"):
        if record[baseline] is not None:
            details[f"accuracy of {baseline} guessing"] = repr(record[baseline])
    uncertainty: dict[str, Any] = {"num_samples": record["n"]}
    if record["low"] is not None:
        uncertainty["confidence_interval"] = _confidence_interval(result, record)
    return {"score": record["value"], "details": details, "uncertainty": uncertainty}


def _confidence_interval(result: Result, record: Mapping[str, Any]) -> dict[str, Any]:
    """Return the interval of a score, which has one, as the schema has it."""
    interval = {
        "lower": record["low"],
        "upper": record["high"],
        "confidence_level": record["level"],
    }
    method = _interval_method(result, record)
    if method is not None:
        interval["method"] = method
    return interval


def _interval_method(result: Result, record: Mapping[str, Any]) -> str | None:
    """Return how the interval of a score was made; ``None`` if the result does not say it."""
    metric = record["metric"]
    dataset = record["dataset"]
    is_mean = dataset is None
    stopping = result.stopping
    if stopping is not None and is_mean and metric == stopping.score:
        return stopping.interval.method
    intervals: Mapping[str, Interval]
    if is_mean:
        intervals = result.means.intervals
    else:
        intervals = result.details[dataset].intervals
    if metric not in intervals:
        return None
    return intervals[metric].method


def _settings_of_run(result: Result) -> dict[str, str]:
    """Return the settings that can change scores: the fields of the signature, and the number of demonstrations."""
    settings = {}
    for name, value in result.signature.to_dict().items():
        settings[name] = str(valid_unicode(value))
    if "k" in settings:
        settings["num_fewshot"] = settings["k"]  # the name that converters of other harnesses give it
    if result.provenance.method is not None:
        settings["method"] = result.provenance.method
    return settings
