"""Evaluation of the user's inference function: its contract, the runner, progress."""

from __future__ import annotations

from StaICC.inference.contract import Answer as Answer
from StaICC.inference.contract import Inference as Inference
from StaICC.inference.contract import check_answer as check_answer
from StaICC.inference.runner import Part as Part
from StaICC.inference.runner import RunOptions as RunOptions
from StaICC.inference.runner import predict_queries as predict_queries
from StaICC.inference.workers import Failure as Failure
from StaICC.inference.workers import OnError as OnError
from StaICC.inference.workers import Unparsed as Unparsed
from StaICC.inference.workers import worker_processes as worker_processes
from StaICC.progress import ProgressCallback as ProgressCallback
