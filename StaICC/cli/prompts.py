"""``python -m StaICC prompts``: write the prompts of a benchmark for another engine.

One line for each query: id, benchmark, dataset, condition, row, repeat, label_space, prompt. A prediction is a record
with the id and one of: probabilities, logits, index, label. Score the predictions with 'python -m StaICC score'
and the same options. They are matched by id; their order is ignored.

With --model, each line also has the prompt as that model reads it: "rendered".

examples:
  python -m StaICC prompts normal -o prompts.jsonl
  python -m StaICC prompts normal --datasets mini --limit 10 -o prompts.csv
  python -m StaICC prompts diagnosis --datasets mini --limit 2
  python -m StaICC prompts normal --datasets mini --limit 1 --model 'smollm2;prompt_format=chat'
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from StaICC.benchmarks.exchange import csv_lines, json_lines, prompt_records
from StaICC.cli.benchmark_options import add_benchmark, add_prompt_options, inputs_of, make
from StaICC.cli.files import STDOUT, add_output, check_output, write_text
from StaICC.cli.run import add_model_options, model_files, model_of
from StaICC.kernels.protocol import RendersPrompts
from StaICC.kernels.registry import load_kernel


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    add_benchmark(parser)
    add_prompt_options(parser)
    add_output(parser, "output file: CSV if it ends in .csv, otherwise JSON Lines")
    parser.add_argument("--model", default="", help="add the prompts as this model reads them, such as a conversation")
    add_model_options(parser)
    parser.add_argument("--with-truth", action="store_true", help="add ground_truth, the index of the true label")
    parser.add_argument("--json", action="store_true", help="no effect: the output is always JSON Lines")


def _rendered(kernel: Any, prompt: Any) -> Any:
    """Return a prompt as a kernel's model reads it; one text for each label in the noisy channel."""
    if not isinstance(kernel, RendersPrompts):
        return prompt
    found = list(kernel.rendered([prompt] if isinstance(prompt, str) else prompt))
    return found[0] if isinstance(prompt, str) else found


def run(args: argparse.Namespace) -> int:
    """Write the prompts.

    Returns:
        The exit status.
    """
    model = model_of(args)
    check_output(args.output, inputs=[*inputs_of(args), *model_files(model)])
    as_csv = Path(args.output).suffix.lower() == ".csv"
    records = prompt_records(make(args), args.with_truth)
    if model:
        kernel = load_kernel(model)
        records = (record | {"rendered": _rendered(kernel, record["prompt"])} for record in records)
    write_text(args.output, csv_lines(records, verbatim=True) if as_csv else json_lines(records))
    if args.output != STDOUT:
        print(f"the prompts are in {args.output}", file=sys.stderr)
    return 0
