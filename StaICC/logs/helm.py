"""Logs of HELM (Holistic Evaluation of Language Models, Liang et al.): one folder for each run.

``per_instance_stats.json`` has the values of all metrics for each instance, and ``run_spec.json`` next to it names the
model and the scenario. These files in the same folder are read, too, if they are there:

* ``instances.json`` or ``scenario_state.json``: the texts of the instances, which show that two runs are of the same
  rows; the latter has the prompts, too;
* ``stats.json``: the means that HELM reports.

HELM reports the splits of a scenario, and each perturbation of its instances, on their own. Here, too, each of them is
one run. A training trial, which draws other demonstrations, is a repeat of all instances.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from StaICC.errors import SchemaError
from StaICC.files.json_reading import MEGABYTE, parse_json, refuse_device
from StaICC.logs.metric_ranges import KnownMetric, known_metric
from StaICC.logs.recognition import HELM_SCORES
from StaICC.logs.reported_means import SampleGroup, can_be_mean, mean_of_scored
from StaICC.logs.samples import LoggedRun, LogReading, SampleScore, document_digest
from StaICC.logs.shown_settings import shortened_setting

HARNESS = "HELM"

_RUN_SPEC = "run_spec.json"
_INSTANCES = "instances.json"
_STATE = "scenario_state.json"
_AGGREGATED = "stats.json"
_LARGEST_FILE = 1024 * MEGABYTE
"""Most bytes of a JSON file that is read. All of it is in memory at once."""

_ABOUT_REQUESTS = frozenset(
    {
        *("num_references", "num_train_trials", "num_train_instances", "num_instances", "prompt_truncated"),
        *("num_prompt_tokens", "num_completion_tokens", "num_output_tokens", "num_tokens_in_prompt"),
        *("training_co2_cost", "training_energy_cost", "batch_size"),
        *("inference_runtime", "inference_denoised_runtime", "inference_idealized_runtime"),
        *("finish_reason_length", "finish_reason_stop", "finish_reason_endoftext", "finish_reason_unknown"),
    }
)
"""Statistics that HELM logs for every scenario and that are about the request."""
_ABOUT_PROBABILITIES = frozenset({"logprob", "num_perplexity_tokens", "num_bytes", "max_prob"})
"""Statistics from which HELM computes perplexity, bits per byte or the calibration over all instances."""
_DECODING = (
    *("method", "temperature", "max_tokens", "stop_sequences", "num_outputs", "random", "multi_label"),
    *("instructions", "global_prefix", "chain_of_thought_prefix", "sample_train"),
    *("max_eval_instances", "num_train_trials"),
)
"""Options of the adapter that can change scores."""
_SWITCHES_OF_PERTURBATIONS = ("name", "robustness", "fairness", "computed_on")
"""Fields of every perturbation. The others are its parameters, such as its probability."""


@dataclass(frozen=True, slots=True)
class _Slice:
    """What HELM reports on its own: the instances of one split with one perturbation."""

    split: str
    """Name of the split; empty if the statistics do not say it."""
    perturbation: str
    """Name and parameters of the perturbation; empty for instances that are not perturbed."""


@dataclass(slots=True)
class _Rows:
    """The scores of the instances of one slice."""

    values: dict[tuple[str, int], dict[str, float]] = field(default_factory=dict)
    """The values by instance and trial, then by metric."""
    not_scores: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class _Texts:
    """What the files next to the statistics say about the instances of one slice."""

    digests: dict[str, str] = field(default_factory=dict)
    """The digest of each instance."""
    prompts: dict[tuple[str, int], list[str]] = field(default_factory=dict)
    """The prompts by instance and trial; several where each reference has a request."""


def read_helm_run(path: Path) -> LogReading:
    """Return the runs of a folder of HELM: one for each split and each perturbation.

    Args:
        path: The folder of the run, or its ``per_instance_stats.json``.

    Raises:
        SchemaError: A file that is needed is missing or damaged, or two statistics of one instance disagree.
        OSError: A file cannot be read.
    """
    folder = path if path.is_dir() else path.parent
    spec = _read_spec(folder)
    rows_of_slice = _read_rows(folder / HELM_SCORES)
    texts_of_slice = _read_texts(folder)
    reported = _read_reported(folder)
    splits = {a_slice.split for a_slice in rows_of_slice}
    runs = []
    for a_slice, rows in rows_of_slice.items():
        texts = texts_of_slice.get(a_slice, _Texts())
        name = _slice_name(a_slice, has_several_splits=len(splits) > 1)
        runs.append(_make_run(folder, spec, name, rows, texts, reported.get(a_slice, {})))
    return LogReading(tuple(runs))


def _make_run(
    folder: Path, spec: Mapping[str, Any], slice_name: str, rows: _Rows, texts: _Texts, reported: Mapping[str, float]
) -> LoggedRun:
    """Return the run of one slice.

    Args:
        folder: The folder of the run.
        spec: The values of ``run_spec.json``.
        slice_name: The end of the name of the task; empty if the run has one slice.
        rows: The scores of the slice.
        texts: What is known about its instances.
        reported: The means of the slice that HELM reports.
    """
    adapter = spec["adapter_spec"]
    missing = _missing_samples(rows, texts)
    _drop_other_means(rows, missing, reported)
    samples = []
    for (instance, trial), values in rows.values.items():
        scores = {metric: value for metric, value in values.items() if metric not in rows.not_scores}
        reason = None if scores else "the instance has no scores"
        samples.append(SampleScore(instance, trial, texts.digests.get(instance), scores, reason))
    samples += missing
    known = _known_metrics(samples)
    return LoggedRun(
        path=str(folder / HELM_SCORES),
        harness=HARNESS,
        model=str(adapter["model"]),
        task=_task_name(spec) + slice_name,
        samples=tuple(samples),
        fewshot=_count_or_none(adapter.get("max_train_instances")),
        model_settings=_settings(adapter, ("model_deployment",)),
        settings=_settings(adapter, _DECODING),
        expected=len(texts.digests) or None,
        higher_is_better={name: metric.higher_is_better for name, metric in known.items()},
        ranges={name: (metric.low, metric.high) for name, metric in known.items()},
        reported=reported,
        not_scores=rows.not_scores,
        prompts=_prompts_digest(texts),
        evaluation=str(folder),
        notes=tuple(_notes(len(missing), len(samples), texts)),
    )


# -- the run


def _read_json(path: Path) -> Any:
    """Return the values of a file.

    Raises:
        SchemaError: The file is too large or no JSON.
        OSError: The file cannot be read.
    """
    refuse_device(path, f"{path.name} of HELM")
    size = path.stat().st_size
    if size > _LARGEST_FILE:
        raise SchemaError(
            f"{path}: the file has {size // MEGABYTE} MB, expected at most {_LARGEST_FILE // MEGABYTE} MB"
        )
    return parse_json(path.read_bytes(), str(path), constants=True)


def _read_spec(folder: Path) -> Mapping[str, Any]:
    """Return the specification of the run, which names model and scenario.

    Raises:
        SchemaError: The file is missing, or does not name them.
        OSError: The file cannot be read.
    """
    path = folder / _RUN_SPEC
    if not path.is_file():
        raise SchemaError(f"{path}: the file is missing. It names the model and the scenario of {HELM_SCORES}")
    spec = _read_json(path)
    if not isinstance(spec, Mapping) or not isinstance(spec.get("name"), str):
        raise SchemaError(f"{path}: expected an object with the name of the run")
    adapter = spec.get("adapter_spec")
    if not isinstance(adapter, Mapping) or not isinstance(adapter.get("model"), str) or not adapter["model"]:
        raise SchemaError(f"{path}: expected an object adapter_spec with the name of the model")
    return spec


def _task_name(spec: Mapping[str, Any]) -> str:
    """Return the name of the run without the part that names the model.

    The task of the run ``mmlu:subject=anatomy,model=x`` is ``mmlu:subject=anatomy``.
    """
    scenario, colon, arguments = str(spec["name"]).partition(":")
    kept = []
    for argument in arguments.split(","):
        is_about_model = argument.startswith(("model=", "model_deployment="))
        if argument and not is_about_model:
            kept.append(argument)
    if not colon or not kept:
        return scenario
    return f"{scenario}:{','.join(kept)}"


def _settings(adapter: Mapping[str, Any], names: tuple[str, ...]) -> dict[str, str]:
    """Return options of the adapter as texts, without those that are not set."""
    settings = {}
    for name in names:
        value = adapter.get(name)
        if value is None or value == "" or value == []:
            continue
        text = value if isinstance(value, str) else json.dumps(value, sort_keys=True)
        settings[name] = shortened_setting(text)
    return settings


def _count_or_none(value: Any) -> int | None:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    return None


# -- the scores


def _read_rows(path: Path) -> dict[_Slice, _Rows]:
    """Return the scores of all instances, by slice.

    Each class of metrics adds its own item for an instance, so that several items have the same instance, perturbation
    and trial. Their statistics are put together.

    Raises:
        SchemaError: The file is missing or not what HELM writes, or has two values of one metric for one instance.
        OSError: The file cannot be read.
    """
    if not path.exists():
        raise SchemaError(f"{path}: the file is missing. It has the scores of the instances")
    items = _read_json(path)
    if not isinstance(items, list):
        raise SchemaError(f"{path}: got {items!r:.60}, expected a list of instances")
    rows_of_slice: dict[_Slice, _Rows] = {}
    for index, item in enumerate(items):
        where = f"{path}, item {index}"
        instance_and_trial = _instance_key(item, where)
        perturbation = _perturbation_name(item.get("perturbation"))
        for stat in _stats(item, where):
            name = stat["name"]
            if _perturbation_name(name.get("perturbation")) != perturbation:
                continue  # a statistic over all perturbations, such as the worst case
            a_slice = _Slice(str(name.get("split", "")), perturbation)
            rows = rows_of_slice.setdefault(a_slice, _Rows())
            values = rows.values.setdefault(instance_and_trial, {})
            _add_stat(values, rows, stat, where)
    if not rows_of_slice:
        raise SchemaError(f"{path}: the file has no statistics of instances")
    return rows_of_slice


def _instance_key(item: Any, where: str) -> tuple[str, int]:
    """Return instance and trial of an item.

    Raises:
        SchemaError: The item does not name them.
    """
    if not isinstance(item, Mapping):
        raise SchemaError(f"{where}: got {item!r:.60}, expected an object with instance_id and stats")
    instance = item.get("instance_id")
    if not isinstance(instance, str) or not instance:
        raise SchemaError(f"{where}: got the instance_id {instance!r:.60}, expected a text")
    trial = item.get("train_trial_index", 0)
    if isinstance(trial, bool) or not isinstance(trial, int) or trial < 0:
        raise SchemaError(f"{where}: got the train_trial_index {trial!r:.60}, expected a whole number from 0")
    return instance, trial


def _stats(item: Mapping[str, Any], where: str) -> Iterator[Mapping[str, Any]]:
    """Yield the statistics of an item.

    Raises:
        SchemaError: They are not a list of objects with a name.
    """
    stats = item.get("stats")
    if not isinstance(stats, list):
        raise SchemaError(f"{where}: got the stats {stats!r:.60}, expected a list")
    for stat in stats:
        name = stat.get("name") if isinstance(stat, Mapping) else None
        if not isinstance(name, Mapping) or not isinstance(name.get("name"), str):
            raise SchemaError(f"{where}: got the statistic {stat!r:.60}, expected an object with a name")
        yield stat


def _add_stat(values: dict[str, float], rows: _Rows, stat: Mapping[str, Any], where: str) -> None:
    """Add a statistic to the values of an instance. One without observations (``count`` 0) has no value.

    Raises:
        SchemaError: The instance has another value of this metric already, or the mean is no number.
    """
    metric = stat["name"]["name"]
    if metric in _ABOUT_REQUESTS:
        rows.not_scores.setdefault(metric, "HELM logs it about the request, not about the reply")
        return
    if metric in _ABOUT_PROBABILITIES:
        rows.not_scores.setdefault(metric, "HELM aggregates it over the instances, such as to a perplexity")
        return
    mean = stat.get("mean")
    if mean is None or stat.get("count") == 0:
        return
    if isinstance(mean, bool) or not isinstance(mean, (int, float)):
        raise SchemaError(f"{where}: got the mean {mean!r:.60} of {metric:.60}, expected a number")
    if not math.isfinite(mean):
        return
    if metric in values and values[metric] != mean:
        raise SchemaError(f"{where}: the instance has two values of {metric:.60}: {values[metric]!r} and {mean!r}")
    values[metric] = float(mean)


def _perturbation_name(perturbation: Any) -> str:
    """Return name and parameters of a perturbation, such as ``typos(prob=0.05)``; empty for none."""
    if not isinstance(perturbation, Mapping):
        return ""
    parameters = []
    for key, value in sorted(perturbation.items()):
        if key not in _SWITCHES_OF_PERTURBATIONS:
            parameters.append(f"{key}={json.dumps(value, sort_keys=True)}")
    name = str(perturbation.get("name", "perturbed"))
    computed_on = perturbation.get("computed_on", "perturbed")
    if computed_on != "perturbed":
        parameters.append(f"computed_on={computed_on}")
    if parameters:
        name += f"({', '.join(parameters)})"
    return name


def _slice_name(a_slice: _Slice, *, has_several_splits: bool) -> str:
    """Return the end of the name of a task that says the slice; empty for all instances of the only split."""
    name = ""
    if has_several_splits:
        name += f" ({a_slice.split})"
    if a_slice.perturbation:
        name += f" ({a_slice.perturbation})"
    return name


def _known_metrics(samples: list[SampleScore]) -> dict[str, KnownMetric]:
    """Return what is known about the metrics of samples, by name; metrics of which nothing is known are left out."""
    names: dict[str, None] = {}
    for sample in samples:
        names.update(dict.fromkeys(sample.values))
    known = {}
    for name in names:
        metric = _known_metric(name)
        if metric is not None:
            known[name] = metric
    return known


def _known_metric(name: str) -> KnownMetric | None:
    """Return what is known about a metric of HELM; ``None`` if it is not known.

    ``exact_match@5`` is the best ``exact_match`` of five replies and has the same range.
    """
    name_of_one_reply, _, _ = name.partition("@")
    return known_metric(name_of_one_reply)


# -- files next to the statistics


def _read_texts(folder: Path) -> dict[_Slice, _Texts]:
    """Return what is known about the instances of each slice; nothing if the files are missing.

    The requests have the instances with their prompts. Without them, or if their file is too large, the list of
    instances is read.

    Raises:
        SchemaError: A file is damaged.
        OSError: A file cannot be read.
    """
    state_path = folder / _STATE
    instances_path = folder / _INSTANCES
    texts_of_slice: dict[_Slice, _Texts] = {}
    if state_path.is_file() and state_path.stat().st_size <= _LARGEST_FILE:
        for request in _requests(state_path):
            _add_request(texts_of_slice, request)
    elif instances_path.is_file():
        for instance in _objects(_read_json(instances_path), instances_path):
            _add_instance(texts_of_slice, instance)
    return texts_of_slice


def _requests(path: Path) -> Iterator[Mapping[str, Any]]:
    """Yield the requests in the file of requests.

    Raises:
        SchemaError: The file has no list of requests.
    """
    state = _read_json(path)
    requests = None
    if isinstance(state, Mapping):
        requests = state.get("request_states")
    yield from _objects(requests, path)


def _add_request(texts_of_slice: dict[_Slice, _Texts], request_state: Mapping[str, Any]) -> None:
    """Add the digest of the instance of a request, and the prompt; a request without instance or trial is left out."""
    instance = request_state.get("instance")
    trial = request_state.get("train_trial_index", 0)
    if not isinstance(instance, Mapping) or not isinstance(trial, int):
        return
    texts = _add_instance(texts_of_slice, instance)
    prompts = texts.prompts.setdefault((str(instance.get("id")), trial), [])
    prompts.append(_prompt_text(request_state.get("request", {})))


def _objects(values: Any, path: Path) -> Iterator[Mapping[str, Any]]:
    """Yield the objects of a list.

    Raises:
        SchemaError: The values are no list of objects.
    """
    if not isinstance(values, list):
        raise SchemaError(f"{path}: got {values!r:.60}, expected a list of instances")
    for index, value in enumerate(values):
        if not isinstance(value, Mapping):
            raise SchemaError(f"{path}, item {index}: got {value!r:.60}, expected an object")
        yield value


def _add_instance(texts_of_slice: dict[_Slice, _Texts], instance: Mapping[str, Any]) -> _Texts:
    """Add the digest of an instance, and return the texts of its slice."""
    a_slice = _Slice(str(instance.get("split", "")), _perturbation_name(instance.get("perturbation")))
    texts = texts_of_slice.setdefault(a_slice, _Texts())
    references = instance.get("references")
    if not isinstance(references, list):
        references = []
    correct_outputs = []
    for reference in references:
        if isinstance(reference, Mapping):
            tags = reference.get("tags") or ()
            if "correct" in tags:
                correct_outputs.append(reference.get("output"))
    document = {"input": instance.get("input"), "references": references}
    texts.digests[str(instance.get("id"))] = document_digest(document, target=correct_outputs)
    return texts


def _prompt_text(request: Any) -> str:
    """Return the prompt of a request as JSON: a text, or messages."""
    if not isinstance(request, Mapping):
        return "null"
    return json.dumps([request.get("prompt"), request.get("messages")], sort_keys=True)


def _prompts_digest(texts: _Texts) -> str | None:
    """Return a digest of the prompts of all instances; ``None`` if there are none."""
    if not texts.prompts:
        return None
    digest = hashlib.sha256()
    for key in sorted(texts.prompts):
        digest.update(json.dumps([key, texts.prompts[key]]).encode("ascii"))
    return digest.hexdigest()


def _missing_samples(rows: _Rows, texts: _Texts) -> list[SampleScore]:
    """Return samples without scores for the instances that were requested and have no statistics."""
    missing = []
    for instance, trial in texts.prompts:
        if (instance, trial) not in rows.values:
            missing.append(SampleScore(instance, trial, texts.digests.get(instance), {}, "the instance has no scores"))
    return missing


def _read_reported(folder: Path) -> dict[_Slice, dict[str, float]]:
    """Return the means that HELM reports, by slice and metric; nothing if the file is missing.

    Raises:
        SchemaError: The file is damaged.
        OSError: The file cannot be read.
    """
    path = folder / _AGGREGATED
    reported: dict[_Slice, dict[str, float]] = {}
    if not path.is_file():
        return reported
    for stat in _stats({"stats": _read_json(path)}, str(path)):
        name = stat["name"]
        mean = stat.get("mean")
        if isinstance(mean, bool) or not isinstance(mean, (int, float)) or not math.isfinite(mean):
            continue
        if "sub_split" not in name:
            a_slice = _Slice(str(name.get("split", "")), _perturbation_name(name.get("perturbation")))
            reported.setdefault(a_slice, {})[name["name"]] = float(mean)
    return reported


def _drop_other_means(rows: _Rows, missing: Sequence[SampleScore], reported: Mapping[str, float]) -> None:
    """Move metrics whose reported mean is not the mean of the instances to those that are no scores.

    HELM reports the mean over the instances that have the metric: for each trial, then over the trials.

    Args:
        rows: The scores of the instances; metrics are moved.
        missing: The instances that have no statistics in the file, and which the reported means may contain.
        reported: The reported means by metric.
    """
    for metric, reported_mean in reported.items():
        groups = _instances_of_trials(rows, missing, metric)
        value_range = None
        known = _known_metric(metric)
        if known is not None:
            value_range = (known.low, known.high)
        if not can_be_mean(reported_mean, groups, value_range):
            rows.not_scores[metric] = (
                f"HELM reports {reported_mean:.6g}, which is not the mean of the instances "
                f"({mean_of_scored(groups):.6g})"
            )


def _instances_of_trials(rows: _Rows, missing: Sequence[SampleScore], metric: str) -> list[SampleGroup]:
    """Return for each trial the values of its instances by a metric. The arguments are those of `_drop_other_means`."""
    group_of_trial: dict[int, SampleGroup] = {}
    for (_, trial), values in rows.values.items():
        group = group_of_trial.setdefault(trial, SampleGroup())
        if metric in values:
            group.values.append(values[metric])
    for sample in missing:
        group = group_of_trial.setdefault(sample.repeat, SampleGroup())
        group.unseen_count += 1
    return list(group_of_trial.values())


def _notes(n_missing: int, n_samples: int, texts: _Texts) -> list[str]:
    """Return sentences about what is unusual in the log."""
    notes = []
    if n_missing:
        notes.append(f"{n_missing} of {n_samples} instances have no scores in {HELM_SCORES}")
    if not texts.digests:
        notes.append(
            f"there is neither {_STATE} nor {_INSTANCES} next to {HELM_SCORES}: "
            "rows are matched by the ids of instances only"
        )
    return notes
