"""The prompts of a saved result, written again for a reader."""

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
    """Return the prompts of a result by data set, each as instruction, demonstrations and query.

    Args:
        result: The result.
        data_files: Files of the user's own data, and folders that contain them.

    Returns:
        For each data set the prompts, in the order of its queries; of the noisy channel, the text of the first label.
        A text is the reason why there are none: the data are not there, or the prompts are not those of the run.
    """
    if result.benchmark == benchmark_names.LONG_ICL:
        return dict.fromkeys(result.details, "prompts of LongICL are too long for a page")
    try:
        benchmark = rebuild(result, data_files=data_files)
    except UNREADABLE as error:
        return dict.fromkeys(result.details, str(error))
    assert isinstance(benchmark, Benchmark)  # only the benchmark of LongICL is of another class
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
    """Return how the queries of a data set differ from those of the run; ``None`` if they are the same."""
    prompts, marks = digest_prompts(queries)
    same, _, message = compare_prompts(details, prompts, marks)
    if not same:
        return message
    recorded_rows: list[tuple[int, int]] = []
    for record in details.conditions:
        recorded_rows += zip(record.rows, record.truth, strict=True)
    if recorded_rows != [(query.row, query.label) for query in queries]:
        return "the records of the queries are not those of the prompts"
    return None


def _pieces(query: Query) -> PromptPieces:
    """Return instruction, demonstrations and question of a prompt; of the noisy channel, those of the first label.

    A prompt whose parts are not known is one piece: of a task of the user's own, or cut within a demonstration.
    """
    parts = query.parts
    if parts is not None:
        return (parts.instruction, *(demonstration.text for demonstration in parts.demonstrations), parts.question)
    if isinstance(query.prompt, str):
        return (query.prompt,)
    return (query.prompt[0],)
