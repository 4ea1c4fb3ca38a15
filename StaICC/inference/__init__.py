"""Evaluation of the user's inference function: its contract, the runner, progress."""

from __future__ import annotations

from StaICC.inference.chunk import Failure, OnError, Unparsed
from StaICC.inference.contract import Answer, Inference, batch_form, check_answer
from StaICC.inference.runner import AnswerStore, Part, RunOptions, ask
from StaICC.inference.workers import worker_processes
from StaICC.progress import Estimate, Pace, Progress, ProgressCallback

__all__ = [
    "Answer",
    "AnswerStore",
    "Estimate",
    "Failure",
    "Inference",
    "OnError",
    "Pace",
    "Part",
    "Progress",
    "ProgressCallback",
    "RunOptions",
    "Unparsed",
    "ask",
    "batch_form",
    "check_answer",
    "worker_processes",
]
