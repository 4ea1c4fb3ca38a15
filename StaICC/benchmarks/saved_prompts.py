"""The prompts of a saved result. The file has no prompts, so they are written again from the data."""

from __future__ import annotations

from collections.abc import Sequence

from StaICC import benchmark_names
from StaICC.benchmarks.benchmark import Benchmark
from StaICC.benchmarks.prompt_digests import compare_prompts, digest_prompts
from StaICC.benchmarks.rebuilding import UNREADABLE, rebuild
from StaICC.files.output import StrPath
from StaICC.prompting.prompt_writer import Query
from StaICC.results.details import DatasetDetails
from StaICC.results.result import Result

PromptPieces = tuple[str, ...]
"""A prompt as instruction, demonstrations and question."""


def written_prompts(result: Result, data_files: Sequence[StrPath] = ()) -> dict[str, list[PromptPieces] | str]:
    """Return the prompts of a result by data set, each as instruction, demonstrations and question.

    Args:
        result: The result.
        data_files: Files of the user's own data, and folders that contain them.

    Returns:
        For each data set the list of its prompts, in the order of its queries. In the noisy channel, a prompt is shown
        with the text of its first label. A data set without prompts has the reason as a text instead of the list: its
        data are not there, or the prompts that were written again are not those of the run.
    """
    if benchmark_names.has_long_contexts(result.benchmark):
        return dict.fromkeys(result.details, f"prompts of {result.benchmark} are too long for a page")
    try:
        benchmark = rebuild(result, data_files=data_files)
    except UNREADABLE as error:
        return dict.fromkeys(result.details, str(error))
    assert isinstance(benchmark, Benchmark)  # only benchmarks with long contexts are of another class
    prompts: dict[str, list[PromptPieces] | str] = {}
    for name, details in result.details.items():
        queries = benchmark[name].all_queries()
        difference = _difference_from_records(details, queries)
        if difference is None:
            prompts[name] = [_pieces(query) for query in queries]
        else:
            prompts[name] = difference
    return prompts


def _difference_from_records(details: DatasetDetails, queries: Sequence[Query]) -> str | None:
    """Return how the queries of a data set differ from those of the run; ``None`` if they are the same.

    Args:
        details: The details of the data set in the result: the digests of its prompts, and the test row and true label
            of each query.
        queries: The queries of the data set, written again.
    """
    comparison = compare_prompts(details, digest_prompts(queries))
    if not comparison.same:
        return comparison.message
    recorded_rows_and_labels: list[tuple[int, int]] = []
    for record in details.conditions:
        recorded_rows_and_labels += zip(record.rows, record.truth, strict=True)
    if recorded_rows_and_labels != [(query.row, query.label) for query in queries]:
        return "the records of the queries are not those of the prompts"
    return None


def _pieces(query: Query) -> PromptPieces:
    """Return the pieces of a prompt: the instruction, each demonstration, and the question.

    In the noisy channel, a query has one prompt for each label. The pieces are those of the first label. A prompt is
    one piece if its parts are unknown: a task of the user's own wrote it, or it was cut within a demonstration.
    """
    parts = query.parts
    if parts is not None:
        demonstrations = [demonstration.text for demonstration in parts.demonstrations]
        return (parts.instruction, *demonstrations, parts.question)
    if isinstance(query.prompt, str):
        return (query.prompt,)
    return (query.prompt[0],)
