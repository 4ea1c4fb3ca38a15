"""The prompts of a saved result, written again for a reader."""

from __future__ import annotations

from collections.abc import Sequence

from StaICC import benchmark_names
from StaICC.benchmarks.benchmark import Benchmark
from StaICC.benchmarks.prompt_digests import compare_prompts, digest_prompts
from StaICC.benchmarks.rebuilding import UNREADABLE, rebuild
from StaICC.files.output import StrPath
from StaICC.prompting.prompt_writer import Query
from StaICC.results.result import Result


def written_prompts(result: Result, data_files: Sequence[StrPath] = ()) -> dict[str, list[tuple[str, ...]] | str]:
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
    assert isinstance(benchmark, Benchmark)  # only LongICL is another
    prompts: dict[str, list[tuple[str, ...]] | str] = {}
    for name, details in result.details.items():
        queries = benchmark[name].all_queries()
        same, _, message = compare_prompts(details, *digest_prompts(queries))
        recorded = [pair for record in details.conditions for pair in zip(record.rows, record.truth, strict=True)]
        if same and recorded != [(query.row, query.label) for query in queries]:
            same, message = False, "the records of the queries are not those of the prompts"
        prompts[name] = [_pieces(query) for query in queries] if same else message
    return prompts


def _pieces(query: Query) -> tuple[str, ...]:
    """Return instruction, demonstrations and question; of the noisy channel, those of the first label."""
    parts = query.parts
    if parts is None:  # of a task of the user's own, or cut within a demonstration
        return (query.prompt if isinstance(query.prompt, str) else query.prompt[0],)
    return (parts.instruction, *(shown.text for shown in parts.demonstrations), parts.question)
