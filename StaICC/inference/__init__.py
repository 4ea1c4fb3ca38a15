"""Asking the user's inference function: its contract, the runner that drives it, progress."""

from __future__ import annotations

from StaICC.inference.contract import Answer, Inference, batch_form, check_answer
from StaICC.inference.progress import Estimate, Pace, Progress, ProgressCallback
from StaICC.inference.runner import AnswerStore, Failure, OnError, Part, RunOptions, ask
from StaICC.inference.worker_processes import worker_processes

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
    "ask",
    "batch_form",
    "check_answer",
    "worker_processes",
]
