"""Warnings of a result.

They depend on data, prompts, inference function and predictions only. A benchmark warns of the same alone and as a
member of a group, and a run whose predictions are all in a store warns of the same as the run that filled the store.

Warnings about predictions are made where the predictions are scored (:mod:`StaICC.benchmarks.evaluation`), so
verification makes them again. Warnings that need the inference function are added here, data set by data set.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from StaICC.benchmarks.evaluation import DatasetRun
from StaICC.inference.called_kernels import warning_methods
from StaICC.inference.contract import Answer, Inference
from StaICC.inference.distinct_queries import DistinctQueries
from StaICC.inference.label_mass import likely_tokens_hint, mean_label_mass
from StaICC.inference.model_warnings import may_warn, model_warnings, prompt_warnings
from StaICC.inference.prompt_key import PromptKey
from StaICC.inference.replies import Failure
from StaICC.prompting.prompt_writer import Query

Log = Callable[[str], None]
"""Logs a warning."""


def dataset_warnings(name: str, run: DatasetRun) -> list[str]:
    """Return the warnings about prompts and predictions of a data set, each with the name of the data set in front.

    Args:
        name: The name of the data set.
        run: The run over the data set.
    """
    return _with_name(name, [*run.warnings, *run.model_warnings])


def _with_name(name: str, warnings: Sequence[str]) -> list[str]:
    """Return warnings about a data set with its name in front."""
    return [f"{name}: {warning}" for warning in warnings]


def all_warnings(of_data: Sequence[str], runs: Mapping[str, DatasetRun], of_the_run: Sequence[str]) -> tuple[str, ...]:
    """Return the warnings of a result, each once.

    They are in this order: about the data, about the predictions, about the model, about the run. Verification can make
    the first two kinds again.

    Args:
        of_data: The warnings about the data sets.
        runs: The run over each data set, by name.
        of_the_run: The warnings of what went wrong in the run. If a saved result is computed again, they are all
            warnings of the saved result.
    """
    warnings = list(of_data)
    for name, run in runs.items():
        warnings += _with_name(name, run.warnings)
    for name, run in runs.items():
        warnings += _with_name(name, run.model_warnings)
    warnings += of_the_run
    return tuple(dict.fromkeys(warnings))


def with_model_warnings(
    run: DatasetRun, function: Inference, queries: Sequence[Query], answers: Sequence[Answer | Failure]
) -> DatasetRun:
    """Return a copy of a run with the warnings that need its inference function, after those that it has.

    Args:
        run: The run over a data set.
        function: The inference function of the run.
        queries: The queries of the run.
        answers: The prediction of each query.
    """
    if not may_warn(function, answers):
        return run  # its prompts, which may be long, are not read again
    distinct = DistinctQueries(queries)
    warnings = model_warnings(function, distinct.keys, distinct.answers(answers))
    return replace(run, model_warnings=(*run.model_warnings, *warnings))


def answers_by_key(queries: Sequence[Query], answers: Sequence[Answer | Failure]) -> dict[PromptKey, Answer | Failure]:
    """Return the prediction of each distinct pair of prompt and label space.

    If several queries have the same pair, it is the prediction of the last of them.

    Args:
        queries: The queries.
        answers: The prediction of each query.
    """
    predictions: dict[PromptKey, Answer | Failure] = {}
    for query, answer in zip(queries, answers, strict=True):
        predictions[query.prompt, query.label_space] = answer
    return predictions


def log_prompt_warnings(name: str, function: Inference, queries: Sequence[Query], log: Log | None) -> None:
    """Log the warnings about the prompts of a data set, before the first of them is predicted.

    Args:
        name: The name of the data set.
        function: The inference function.
        queries: The queries of the data set.
        log: Logs a warning; ``None`` for a run that logs nothing.
    """
    if log is None or not warning_methods(function, "prompt_warnings"):
        return
    for warning in prompt_warnings(function, DistinctQueries(queries).keys):
        log(f"{name}: {warning}")


def log_dataset_warnings(
    name: str,
    run: DatasetRun,
    function: Inference,
    queries: Sequence[Query],
    answers: Sequence[Answer | Failure],
    log: Log | None,
) -> None:
    """Log the warnings of a data set, with a hint to the tokens that the model finds more likely than the labels.

    Args:
        name: The name of the data set.
        run: The run over the data set.
        function: The inference function.
        queries: The queries of the run.
        answers: The prediction of each query.
        log: Logs a warning; ``None`` for a run that logs nothing.
    """
    if log is None:
        return
    for warning in dataset_warnings(name, run):
        log(warning)
    if mean_label_mass(answers) is None:
        return  # no hint is possible, and the prompts are not read again
    distinct = DistinctQueries(queries)
    hint = likely_tokens_hint(function, distinct.keys, distinct.answers(answers))
    if hint is not None:
        log(f"{name}: {hint}")
