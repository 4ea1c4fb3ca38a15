"""Logs at a path, read by the format that each has, as results by the name of the model."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from StaICC.argument_syntax import in_each_syntax
from StaICC.datasets.table_files import uncompressed_name
from StaICC.errors import ArgumentError, SchemaError, StaICCError
from StaICC.logs import every_eval_ever, helm, inspect_ai, lm_eval, recognition, score_tables
from StaICC.logs.recognition import LogFormat, logs_in_folder
from StaICC.logs.result_of_scores import Range, StatedMetrics, result_of_runs
from StaICC.logs.samples import LoggedRun, LogReading
from StaICC.results.details import name_without_no_filter
from StaICC.results.result import Result
from StaICC.safe_text import logger, one_line

_log = logger(__name__)

_READERS: Mapping[LogFormat, Callable[[Path], LogReading]] = {
    recognition.LM_EVAL_RESULTS: lm_eval.read_results,
    recognition.LM_EVAL_SAMPLES: lm_eval.read_samples_file,
    recognition.INSPECT_ARCHIVE: inspect_ai.read_archive,
    recognition.INSPECT_JSON: inspect_ai.read_json_log,
    recognition.HELM: helm.read_helm_run,
    recognition.EVERY_EVAL_EVER: every_eval_ever.read_evaluation,
    recognition.EVERY_EVAL_EVER_WITH_SAMPLES: every_eval_ever.read_samples_file,
    recognition.SCORE_TABLE: score_tables.read_table,
}
"""The function that reads a file of each format."""


# -- what there is at a path


def read_log(path: str | os.PathLike[str]) -> LogReading:
    """Return the runs in a log, or in all logs of a folder.

    Args:
        path: A file, or a folder.

    Returns:
        The runs. Logs of a folder that cannot be used are among the problems, as are tasks of an evaluation.

    Raises:
        StaICCError: No run can be read; the message has the reason.
        OSError: The file cannot be read.
    """
    path = Path(path)
    if not path.is_dir():
        return _read_file(path)
    runs: list[LoggedRun] = []
    problems: list[str] = []
    logs = logs_in_folder(path)
    for log in logs:
        try:
            reading = _read_file(log)
        except (StaICCError, OSError) as error:
            problems.append(str(error))
            continue
        runs += reading.runs
        problems += reading.problems
    if not runs:
        reasons = "; ".join(problems) or "it has no log of lm_eval, inspect_ai, HELM or Every Eval Ever"
        raise SchemaError(f"{path}: no log of this folder can be read: {reasons}")
    return LogReading(tuple(runs), tuple(problems))


def _read_file(path: Path) -> LogReading:
    """Return the runs in a file.

    Raises:
        StaICCError: It is no log, or cannot be read.
    """
    log_format = recognition.format_of(path)
    if log_format is not None:
        read = _READERS[log_format]
        return _with_one_digest_per_document(read(path))
    if not path.exists():
        raise FileNotFoundError(f"{path}: there is no such file")
    names = ", ".join(log_format.name for log_format in recognition.FORMATS)
    raise SchemaError(f"{path}: this is no log that can be read, expected one of: {names}")


def _with_one_digest_per_document(reading: LogReading) -> LogReading:
    """Return the runs of a log in which all repeats of a document have the same document and target.

    Other runs become problems: it is not known which document an id means in them.

    Raises:
        SchemaError: There is no other run.
    """
    runs = []
    problems = list(reading.problems)
    for run in reading.runs:
        document = _document_with_several_digests(run)
        if document is None:
            runs.append(run)
            continue
        problems.append(
            f"{run.path}: the document {document:.60} of {run.task:.60} has different texts or targets in its repeats, "
            "expected the same"
        )
    if not runs:
        raise SchemaError("; ".join(problems))
    return LogReading(tuple(runs), tuple(problems))


def _document_with_several_digests(run: LoggedRun) -> str | None:
    """Return the id of a document whose repeats have different digests; ``None`` if there is none."""
    digest_of_document: dict[str, str] = {}
    for sample in run.samples:
        if sample.digest is None:
            continue
        first_digest = digest_of_document.setdefault(sample.document, sample.digest)
        if sample.digest != first_digest:
            return sample.document
    return None


# -- results by name


def read_logs(
    *paths: str | os.PathLike[str],
    value_range: Range | Mapping[str, Range] | None = None,
    higher_is_better: bool | Mapping[str, bool] | None = None,
) -> dict[str, Result]:
    r"""Read logs of other harnesses as results, which can be compared, ranked and reported like those of a run.

    A metric is the mean of its values over the samples. The runs of one model on several tasks are one result, with a
    data set for each task. Logs that cannot be used are named in a warning.

    Args:
        *paths: Folders with logs, files of results or of samples of lm_eval, logs of inspect_ai, scores of HELM
            (``per_instance_stats.json``), files of Every Eval Ever with samples, tables of scores.
        value_range: The lowest and the highest value that a metric can have for one sample, where it is not known; or a
            mapping from metrics to their ranges. A metric without a range has no interval and is untested.
        higher_is_better: Whether higher values are better, for metrics of which it is not known; or a mapping.

    Returns:
        The results by name. The name is that of the model. If several results are of one model, what distinguishes them
        is added.

    Raises:
        ArgumentError: There is no path, a range is none, or no metric has a number for each sample.
        StaICCError: A path has no log that can be read; the message has the reason.
        OSError: A file cannot be read.

    Example:
        >>> import pathlib, tempfile
        >>> folder = pathlib.Path(tempfile.mkdtemp())
        >>> _ = (folder / "a.csv").write_text("row,acc\n1,1\n2,0\n")
        >>> _ = (folder / "b.csv").write_text("row,acc\n1,1\n2,1\n")
        >>> results = read_logs(folder / "a.csv", folder / "b.csv")
        >>> {name: result["Averaged results"]["acc"] for name, result in results.items()}
        {'a': 0.5, 'b': 1.0}
    """
    stated = stated_metrics(value_range, higher_is_better)
    return read_found_logs([Path(path) for path in paths], (), stated)


def read_found_logs(
    paths: Sequence[Path], optional_paths: Collection[Path], stated: StatedMetrics
) -> dict[str, Result]:
    """Read logs as :func:`read_logs` does, of which some were not named by the user, but found in a folder.

    Args:
        paths: The logs, and folders with logs.
        optional_paths: Those that are left out with a warning if they cannot be read, unless none can be read.
        stated: What the user states about metrics.
    """
    if not paths:
        raise ArgumentError("read_logs: got no path, expected a log or a folder of logs")
    runs: list[LoggedRun] = []
    problems: list[str] = []
    for path in dict.fromkeys(paths):
        try:
            reading = read_log(path)
        except SchemaError as error:
            if path not in optional_paths:
                raise
            problems.append(str(error))
            continue
        problems += reading.problems
        runs += reading.runs
    if not runs:
        raise SchemaError(f"no log can be read: {'; '.join(problems)}")
    for problem in problems:
        _log.warning("left out: %s", one_line(problem))

    results = {}
    for name, runs_of_result in _named_groups(runs).items():
        results[name] = result_of_runs(runs_of_result, stated)
    return results


def stated_metrics(
    value_range: Range | Mapping[str, Range] | None, higher_is_better: bool | Mapping[str, bool] | None
) -> StatedMetrics:
    """Return what the user states about metrics, checked.

    Raises:
        ArgumentError: A range is no pair of finite numbers in ascending order, or a direction is not True or False.
    """
    ranges: Mapping[str, Range] = {}
    other_range = None
    if isinstance(value_range, Mapping):
        ranges = {name_without_no_filter(name): _checked_range(item) for name, item in value_range.items()}
    elif value_range is not None:
        other_range = _checked_range(value_range)

    directions: Mapping[str, bool] = {}
    other_direction = None
    if isinstance(higher_is_better, Mapping):
        directions = {name_without_no_filter(name): _checked_direction(item) for name, item in higher_is_better.items()}
    elif higher_is_better is not None:
        other_direction = _checked_direction(higher_is_better)
    return StatedMetrics(ranges, directions, other_range, other_direction)


def _checked_direction(value: object) -> bool:
    """Return whether higher values are better, after checking that it is a truth value: the text "lower" is true."""
    if isinstance(value, bool):
        return value
    raise ArgumentError(f"higher_is_better: got {value!r:.80}, expected True or False")


def _checked_range(value: object) -> Range:
    """Return a range after checking it."""
    if isinstance(value, (list, tuple)) and len(value) == 2:
        low, high = value
        are_numbers = all(isinstance(end, (int, float)) and not isinstance(end, bool) for end in value)
        if are_numbers and -float("inf") < low < high < float("inf"):
            return float(low), float(high)
    name = in_each_syntax("value_range", "--range")
    raise ArgumentError(f"{name}: got {value!r:.80}, expected two numbers, the lowest and the highest value")


# -- which runs are one result


def _named_groups(runs: Sequence[LoggedRun]) -> dict[str, list[LoggedRun]]:
    """Return the runs of each result, by the name of the result.

    The evaluations of one model are one result. If it ran a task several times, its evaluations are split by the folder
    of their logs, then also by their settings, then one by one, until no task appears twice. The tasks of one
    evaluation, which has one file of results, always stay together.

    Raises:
        ArgumentError: A task appears twice in one evaluation.
    """
    evaluations_by_model: dict[str, list[_ModelEvaluation]] = {}
    for evaluation in _evaluations(_with_paths_as_models(runs)):
        evaluations_by_model.setdefault(_model_of(evaluation.runs[0]), []).append(evaluation)

    groups: list[list[LoggedRun]] = []
    for evaluations in evaluations_by_model.values():
        groups += _without_repeated_tasks(evaluations)
    return dict(zip(_distinct_names(groups), groups, strict=True))


@dataclass(frozen=True, slots=True)
class _ModelEvaluation:
    """The tasks of one evaluation that one model ran."""

    runs: tuple[LoggedRun, ...]

    @property
    def folder(self) -> str:
        """The folder of its logs."""
        return _folder_of(self.runs[0])

    @property
    def folder_and_settings(self) -> str:
        """Its folder with the different settings of its tasks."""
        settings_of_tasks = {repr((run.fewshot, sorted(run.settings.items()))) for run in self.runs}
        return repr((self.folder, sorted(settings_of_tasks)))

    @property
    def name(self) -> str:
        """The path of its file of results, or of its only log."""
        return _evaluation_of(self.runs[0])


def _evaluations(runs: Sequence[LoggedRun]) -> list[_ModelEvaluation]:
    """Return the runs by evaluation and model, in the order of the first run of each."""
    runs_of_evaluation: dict[tuple[str, str], list[LoggedRun]] = {}
    for run in runs:
        runs_of_evaluation.setdefault((_model_of(run), _evaluation_of(run)), []).append(run)
    return [_ModelEvaluation(tuple(of_evaluation)) for of_evaluation in runs_of_evaluation.values()]


def _without_repeated_tasks(evaluations: Sequence[_ModelEvaluation]) -> list[list[LoggedRun]]:
    """Return the evaluations of one model in groups without repeated tasks, in as few groups as possible.

    All evaluations are one group. If a task appears twice in it, they are grouped by their folders, then also by their
    settings, then each one is a group of its own.

    Raises:
        ArgumentError: A task appears twice in one evaluation.
    """
    groupings = (
        ["the same group"] * len(evaluations),
        [evaluation.folder for evaluation in evaluations],
        [evaluation.folder_and_settings for evaluation in evaluations],
        [evaluation.name for evaluation in evaluations],
    )
    for group_names in groupings:
        groups: dict[str, list[LoggedRun]] = {}
        for group_name, evaluation in zip(group_names, evaluations, strict=True):
            groups.setdefault(group_name, []).extend(evaluation.runs)
        if not any(_repeated_task(group) for group in groups.values()):
            return list(groups.values())

    with_repeated_task = [evaluation for evaluation in evaluations if _repeated_task(evaluation.runs)]
    runs = with_repeated_task[0].runs
    raise ArgumentError(
        f"{runs[0].path}: the model {runs[0].model:.80} has the task {_repeated_task(runs):.80} twice in one evaluation"
    )


def _with_paths_as_models(runs: Sequence[LoggedRun]) -> list[LoggedRun]:
    """Return the runs, in which a log that does not name its model has the shortest path that distinguishes it.

    Two tables ``first/scores.csv`` and ``second/scores.csv`` are of the models ``first/scores`` and ``second/scores``.
    """
    paths_without_model = list(dict.fromkeys(Path(run.path) for run in runs if not run.names_model))
    distinct_paths = _shortest_distinct_paths(paths_without_model)
    model_of_path = dict(zip(paths_without_model, distinct_paths, strict=True))
    named_runs = []
    for run in runs:
        if run.names_model:
            named_runs.append(run)
        else:
            named_runs.append(replace(run, model=model_of_path[Path(run.path)]))
    return named_runs


def _shortest_distinct_paths(paths: Sequence[Path]) -> list[str]:
    """Return for each path its shortest end that no other path has, without its suffix where that is not needed."""
    paths_without_suffix = []
    for path in paths:
        paths_without_suffix.append(path.with_name(uncompressed_name(path).stem))
    names = []
    for path, without_suffix in zip(paths, paths_without_suffix, strict=True):
        if paths_without_suffix.count(without_suffix) == 1:
            names.append(_shortest_distinct_end(without_suffix, paths_without_suffix))
        else:
            names.append(_shortest_distinct_end(path, paths))
    return names


def _shortest_distinct_end(path: Path, paths: Sequence[Path]) -> str:
    """Return the shortest end of a path that only this one of several paths has, such as ``first/scores``."""
    for length in range(1, len(path.parts)):
        end = path.parts[-length:]
        paths_with_end = [other for other in paths if other.parts[-length:] == end]
        if len(paths_with_end) == 1:
            return "/".join(end)
    return str(path)


def _model_of(run: LoggedRun) -> str:
    """Return what tells models apart: harness, name and settings of the model."""
    return repr((run.harness, run.model, sorted(run.model_settings.items())))


def _folder_of(run: LoggedRun) -> str:
    return str(Path(run.path).parent)


def _evaluation_of(run: LoggedRun) -> str:
    if run.evaluation:
        return run.evaluation
    return run.path


def _repeated_task(runs: Sequence[LoggedRun]) -> str:
    """Return a task that several runs have; an empty text if there is none."""
    tasks = set()
    for run in runs:
        if run.task in tasks:
            return run.task
        tasks.add(run.task)
    return ""


def _distinct_names(groups: Sequence[Sequence[LoggedRun]]) -> list[str]:
    """Return a name for each group of runs: that of the model, with what distinguishes groups of one model."""
    indexes_by_model: dict[str, list[int]] = {}
    for index, group in enumerate(groups):
        indexes_by_model.setdefault(group[0].model, []).append(index)

    names = [group[0].model for group in groups]
    for model, indexes in indexes_by_model.items():
        if len(indexes) == 1:
            continue
        marks = _distinct_marks([groups[index] for index in indexes])
        for index, mark in zip(indexes, marks, strict=True):
            names[index] = f"{model} ({mark})"
    return names


def _distinct_marks(groups: Sequence[Sequence[LoggedRun]]) -> list[str]:
    """Return a text for each of several groups of runs of one model that tells them apart.

    It is the first of these that differs between all of them: the folders in which their logs differ, their dates, the
    files of their evaluations with a number. A group of several folders, dates or files has all of them.
    """
    runs = [run for group in groups for run in group]
    folder_of_path = dict(zip([run.path for run in runs], _differing_folders(runs), strict=True))
    folders = _texts_of_groups(groups, lambda run: folder_of_path[run.path])
    if _all_differ(folders):
        return folders
    dates = _texts_of_groups(groups, lambda run: str(run.date))
    if _all_differ(dates):
        return dates
    evaluations = _texts_of_groups(groups, _evaluation_of)
    return [f"{number}: {evaluation}" for number, evaluation in enumerate(evaluations, start=1)]


def _texts_of_groups(groups: Sequence[Sequence[LoggedRun]], text_of: Callable[[LoggedRun], str]) -> list[str]:
    """Return for each group the different texts of its runs, in order, as one text."""
    texts = []
    for group in groups:
        different_texts = dict.fromkeys(text_of(run) for run in group)
        texts.append(" + ".join(different_texts))
    return texts


def _all_differ(texts: Sequence[str]) -> bool:
    """Return whether no text appears twice."""
    return len(set(texts)) == len(texts)


def _differing_folders(runs: Sequence[LoggedRun]) -> list[str]:
    """Return the folder of the log of each run without the beginning and the end that all of them share.

    ``out/zero/gpt2`` and ``out/five/gpt2`` are ``zero`` and ``five``.
    """
    folders = [list(Path(run.path).parent.parts) for run in runs]
    while all(folders) and len({parts[0] for parts in folders}) == 1:
        folders = [parts[1:] for parts in folders]
    while all(folders) and len({parts[-1] for parts in folders}) == 1:
        folders = [parts[:-1] for parts in folders]
    return ["/".join(parts) for parts in folders]
