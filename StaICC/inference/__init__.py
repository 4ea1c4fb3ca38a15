"""Evaluation of the user's inference function: its contract, the runner, progress."""

from __future__ import annotations

from StaICC.inference.contract import Answer, Inference, batch_form, check_answer
from StaICC.inference.runner import AnswerStore, Part, RunOptions, predict_queries
from StaICC.inference.workers import Failure, OnError, Unparsed, worker_processes
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
    "batch_form",
    "check_answer",
    "predict_queries",
    "worker_processes",
]
