"""The prompts of a saved result, written again from the data and cut into instruction, demonstrations and query."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate, pairwise

from StaICC.benchmarks.benchmark import Benchmark
from StaICC.benchmarks.findings import compare_prompts
from StaICC.benchmarks.rebuild import rebuild
from StaICC.benchmarks.records import digest_prompts
from StaICC.errors import StaICCError
from StaICC.prompting import Prompt, PromptRenderer
from StaICC.results import Result


class _PartedPrompt(str):
    """A prompt with the positions where its demonstrations begin, and the end of the last one."""

    cuts: tuple[int, ...] = ()


class _PartRenderer(PromptRenderer):
    """Writes prompts that know their parts."""

    __slots__ = ()

    def assemble(self, demonstrations: Sequence[tuple[str, int]], query: Sequence[str]) -> Prompt:
        """Put a prompt together; in the noisy channel, that of the first label gets the parts."""
        prompt = super().assemble(demonstrations, query)
        texts = [_PartedPrompt(text) for text in ([prompt] if isinstance(prompt, str) else prompt)]
        lengths = [len(text) + len(self._label_parts[label]) for text, label in demonstrations]
        texts[0].cuts = tuple(accumulate(lengths, initial=len(self.settings.template.instruction)))
        return texts[0] if isinstance(prompt, str) else tuple(texts)


def _parts(prompt: Prompt) -> tuple[str, ...]:
    """Return instruction, demonstrations and query."""
    text = prompt if isinstance(prompt, str) else prompt[0]
    cuts = (text.cuts or (0,)) if isinstance(text, _PartedPrompt) else (0,)
    ends = [0, *cuts, len(text)]
    return tuple(text[start:end] for start, end in pairwise(ends))


def written_prompts(
    result: Result, data_files: Sequence[str | os.PathLike[str]] = ()
) -> dict[str, list[tuple[str, ...]] | str]:
    """Return the prompts of a result by data set, each as instruction, demonstrations and query.

    Args:
        result: The result.
        data_files: Files of the user's own data, and folders that contain them.

    Returns:
        For each data set the prompts, in the order of its queries; of the noisy channel, the text of the first label.
        A text is the reason why there are none: the data are not there, or the prompts are not those of the run.
    """
    if result.benchmark == "LongICL":
        return dict.fromkeys(result.details, "prompts of LongICL are too long for a page")
    try:
        benchmark = rebuild(result, data_files=data_files)
    except StaICCError as error:
        return dict.fromkeys(result.details, str(error))
    assert isinstance(benchmark, Benchmark)  # only LongICL is another
    found: dict[str, list[tuple[str, ...]] | str] = {}
    for name, details in result.details.items():
        own = benchmark[name]
        conditions = own.select(own.task.conditions(replace(own.task_input(), renderer=_PartRenderer)))
        queries = [query for one in conditions for query in one.queries]
        same, _, message = compare_prompts(details, *digest_prompts(queries))
        recorded = [pair for one in details.conditions for pair in zip(one.rows, one.truth, strict=True)]
        if same and recorded != [(query.row, query.label) for query in queries]:
            same, message = False, "the records of the queries are not those of the prompts"
        found[name] = [_parts(query.prompt) for query in queries] if same else message
    return found
