"""Comparisons of saved results as text, Markdown, LaTeX and JSON.

Several results are compared in pairs, each with the first. Groups of results (a suite, a diagnosis) are compared part
by part; what only one of two groups has, and parts that score no accuracy, are named as left out.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from StaICC.errors import ArgumentError, unknown_name
from StaICC.results.comparison import Comparison, compare
from StaICC.results.result import Result, ResultGroup
from StaICC.results.runs import split_runs
from StaICC.results.table import format_columns

__all__ = ["FORMATS", "NamedComparison", "compare_all", "format_comparisons"]

_MEANING = (
    "difference: first minus second accuracy, with its interval by bootstrap over test rows; p: permutation test over "
    "test rows (p (Holm): corrected for the number of data sets); McNemar: exact test, too small where rows were asked "
    "more than once; detectable: the smallest true difference that such a sample shows with power 0.8 at level 0.05"
)


@dataclass(frozen=True, slots=True)
class NamedComparison:
    """One comparison, with the names of what was compared."""

    benchmark: str
    first: str
    second: str
    comparison: Comparison

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return {
            "benchmark": self.benchmark,
            "first": self.first,
            "second": self.second,
            **dataclasses.asdict(self.comparison),
        }


def compare_all(
    results: Mapping[str, Result | ResultGroup], seed: str = "StaICC"
) -> tuple[tuple[NamedComparison, ...], tuple[str, ...]]:
    """Compare each result with the first.

    Args:
        results: Results, or groups of results, by the name that tells them apart (see
            :func:`~StaICC.results.runs.split_runs`); two runs at least.
        seed: Text from which permutations and resamples are drawn.

    Returns:
        The comparisons, and the benchmarks that were left out, with why in brackets.

    Raises:
        ArgumentError: There are fewer than two runs, two files were not asked the same (the message names the part of
            the signature that differs), or nothing can be compared.
    """
    runs = split_runs(results)
    if len(runs) < 2:
        raise ArgumentError(f"a comparison needs two results at least, {len(runs)} given")
    (first, parts), *others = runs.items()
    found: list[NamedComparison] = []
    left_out: dict[str, None] = {}
    for second, theirs in others:
        both = [benchmark for benchmark in parts if benchmark in theirs]
        if not both:
            raise ArgumentError(f"{first} ({', '.join(parts)}) and {second} ({', '.join(theirs)}) share no benchmark")
        left_out |= dict.fromkeys(f"{benchmark} (one file only)" for benchmark in sorted(parts.keys() ^ theirs.keys()))
        for benchmark in both:
            if len(both) > 1 and not _scores_accuracy(parts[benchmark]):
                left_out[f"{benchmark} (no accuracy)"] = None
                continue
            try:
                compared = compare(parts[benchmark], theirs[benchmark], seed)
            except ArgumentError as error:
                if len(runs) == len(results):
                    raise ArgumentError(f"{first} and {second}, {benchmark}: {error}") from error
                left_out[f"{second} ({error})"] = None  # one of the methods in a file; the others still compare
                continue
            found.append(NamedComparison(benchmark, first, second, compared))
    if not found:
        raise ArgumentError(f"nothing can be compared in pairs: {', '.join(left_out)}")
    return tuple(found), tuple(left_out)


def _scores_accuracy(result: Result) -> bool:
    return any(details.baselines for details in result.details.values())


def _titled(one: NamedComparison) -> str:
    return f"{one.benchmark}: first {one.first}, second {one.second}"


def _text(found: Sequence[NamedComparison]) -> str:
    blocks = []
    for one in found:
        head, rows = one.comparison.table()
        lines = [[" ".join(cell.split()) for cell in row] for row in rows]  # a name is one line, whatever it holds
        blocks.append(f"{_titled(one)}\n{format_columns(head, lines)}\n{one.comparison.signature}")
    return "\n\n".join(blocks)


def _markdown_cell(text: str) -> str:
    escaped = "".join(f"\\{letter}" if letter in "\\`*_{}[]<>#|~$&" else letter for letter in text)
    return " ".join(escaped.split())


def _markdown_code(text: str) -> str:
    """Set a text as code; the fence is longer than any row of backticks within."""
    fence = "`" * (1 + max(map(len, re.findall("`+", text)), default=0))
    return f"{fence}{text}{fence}" if len(fence) == 1 else f"{fence} {text} {fence}"


def _markdown(found: Sequence[NamedComparison]) -> str:
    blocks = []
    for one in found:
        head, rows = one.comparison.table()
        lines = [head, ["---", *("---:" for _ in head[1:])], *rows]
        table = "\n".join(
            "| " + " | ".join(cell if number == 1 else _markdown_cell(cell) for cell in line) + " |"
            for number, line in enumerate(lines)
        )
        blocks.append(f"**{_markdown_cell(_titled(one))}**\n\n{table}\n\n{_markdown_code(one.comparison.signature)}")
    return "\n\n".join(blocks)


_LATEX = {
    "\\": r"\textbackslash{}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
}


def _latex_cell(text: str) -> str:
    return "".join(_LATEX.get(letter, letter) for letter in " ".join(text.split()))


def _latex_number(text: str) -> str:
    """Set the minus sign as one, and the dots of an interval."""
    escaped = _latex_cell(text)
    if not escaped or escaped == "-":
        return "--" if escaped else ""
    return " .. ".join(f"${part}$" for part in escaped.split(" .. ")).replace("$ .. $", r" \ldots ")


def _latex(found: Sequence[NamedComparison]) -> str:
    blocks = []
    for one in found:
        head, rows = one.comparison.table()
        lines = [" & ".join(map(_latex_cell, head)) + r" \\"]
        lines += [" & ".join([_latex_cell(row[0]), *map(_latex_number, row[1:])]) + r" \\" for row in rows]
        blocks.append(
            "\\begin{table}\n\\centering\n"
            f"\\caption{{{_latex_cell(_titled(one))}}}\n"
            f"\\begin{{tabular}}{{l{'r' * (len(head) - 1)}}}\n\\hline\n{lines[0]}\n\\hline\n"
            + "\n".join(lines[1:])
            + "\n\\hline\n\\end{tabular}\n"
            f"% {one.comparison.signature}\n\\end{{table}}"
        )
    return "\n\n".join(blocks)


def _json(found: Sequence[NamedComparison]) -> str:
    return json.dumps([one.to_dict() for one in found], ensure_ascii=False, indent=1, allow_nan=False)


FORMATS: dict[str, Callable[[Sequence[NamedComparison]], str]] = {
    "text": _text,
    "markdown": _markdown,
    "latex": _latex,
    "json": _json,
}
"""What :func:`format_comparisons` can write."""


def format_comparisons(found: Sequence[NamedComparison], form: str = "text") -> str:
    """Write comparisons down.

    Args:
        found: The comparisons.
        form: A key of :data:`FORMATS`.

    Returns:
        The text; names of data sets and files are escaped as the format needs.

    Raises:
        UnknownNameError: There is no such format.
    """
    if form not in FORMATS:
        raise unknown_name("format", form, FORMATS)
    written = FORMATS[form](found)
    return f"{written}\n\n{_MEANING}" if form == "text" else written
