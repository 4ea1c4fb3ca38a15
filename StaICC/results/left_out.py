"""What is written next to a score that is not of all queries of the benchmark.

A score leaves out queries that failed and, on request, replies without a label. A run that stopped early evaluated the
first rows only. Both belong to the number: every table, figure and export shows them next to it.
"""

from __future__ import annotations

# These two notes explain the marks of :func:`with_marks`.
LEFT_OUT_NOTE = (
    "left out: queries that failed, or whose reply has no label. The score and its interval are conditional on a "
    "prediction: the model may have been wrong on the others, so comparisons count these at their worst"
)
STOPPED_EARLY_NOTE = (
    "stopped early: an estimate from the first rows; the interval is of the score of the full benchmark"
)


def with_marks(text: str, left_out: int, stopped_early: bool = False) -> str:
    """Return a score as text with the number of queries that it leaves out, and whether the run stopped early.

    Args:
        text: The score.
        left_out: The number of queries that it leaves out.
        stopped_early: Whether the run stopped early.

    Example:
        >>> with_marks("0.7000", 73), with_marks("0.7000", 0)
        ('0.7000 (73 left out)', '0.7000')
    """
    marks = []
    if left_out:
        marks.append(f"{left_out} left out")
    if stopped_early:
        marks.append("stopped early")
    if not marks:
        return text
    return f"{text} ({', '.join(marks)})"
