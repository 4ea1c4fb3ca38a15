"""``python -m StaICC race``: evaluate two models until the better one is known.

Both models predict the same test rows of the benchmark normal, in a random order that is the same for all models. The
race ends when it is known with 95 % confidence which model is better in the full benchmark, or that the difference is
below the margin.

examples:
  python -m StaICC race --model smollm2 --model ppm
  python -m StaICC race --model hf:gpt2 --model hf:distilgpt2 --margin 0.03 --store run.sqlite
  python -m StaICC race --model smollm2 --model smollm2 --model-option dtype=bfloat16
"""

from __future__ import annotations

import argparse
from functools import partial

from StaICC.cli.benchmark_options import add_prompt_options, datasets_of, inputs_of
from StaICC.cli.files import add_result_outputs, check_output, show_result
from StaICC.cli.run import add_execution_options, add_model_options, model_files, run_settings, shown_model
from StaICC.errors import ArgumentError
from StaICC.kernels.registry import load_kernel


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("--model", action="append", required=True, help="a model as for run; give it twice")
    add_model_options(parser)
    parser.add_argument(
        "--margin",
        type=float,
        default=0.02,
        metavar="M",
        help="stop also when the difference is below M (default 0.02)",
    )
    parser.add_argument("--score", choices=("accuracy", "likelihood"), help="the score (default: accuracy)")
    add_prompt_options(parser)
    add_execution_options(parser)
    add_result_outputs(parser)


def run(args: argparse.Namespace) -> int:
    """Race two models.

    Returns:
        The exit status.

    Raises:
        ArgumentError: There are not two models, or an option is invalid.
        KeyboardInterrupt: The user interrupted the race.
    """
    from StaICC.benchmarks.normal import Normal
    from StaICC.benchmarks.race import race

    if len(args.model) != 2:
        raise ArgumentError(f"wrong number of models: got {len(args.model)}, expected two. Give --model twice")
    inputs = [*inputs_of(args), *(file for model in args.model for file in model_files(model))]
    check = partial(check_output, args.json, args.records, inputs=inputs, store=args.store)
    check()
    benchmark = Normal(
        args.k,
        args.noisy_channel,
        datasets=datasets_of(args),
        limit=args.limit,
        outputs=args.outputs,
        sampler=args.sampler,
    )
    first, second = map(load_kernel, args.model)
    result = race(
        benchmark,
        first,
        second,
        args.margin,
        args.score,
        args.records is not None,
        **run_settings(args),
    )
    for one, model in zip(result.results(), args.model, strict=True):
        one.provenance = one.provenance.named(shown_model(model))
    check()
    show_result(result, args.json, args.records)
    return 0
